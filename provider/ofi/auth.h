/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of the messages to this process. Its address record contains a key, which no
 * message carries. A control message is signed (HMAC) with the key of its receiver or of its
 * sender, because one end always has the record of the other. Both ends of a connection derive two
 * secrets, one for each direction, from that key and from random numbers of both ends. Every
 * message of the connection begins with the secret of its direction.
 */
#ifndef FP_AUTH_H
#define FP_AUTH_H

#include "types.h"

/* Fills in random bytes. False after an error line: the system has none. */
bool fp_random(void *bytes, size_t size);

void fp_sign(struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE]);
bool fp_is_signed(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE]);

struct fp_secrets {
    uint64_t to_initiator, to_acceptor;
};

/* `key`: the key of the process that received the connection request. */
struct fp_secrets fp_derive_secrets(const uint8_t key[FP_KEY_SIZE],
                                    const uint8_t initiators[FP_NONCE_SIZE],
                                    const uint8_t acceptors[FP_NONCE_SIZE]);

#endif
