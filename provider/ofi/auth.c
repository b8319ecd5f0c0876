/* SPDX-License-Identifier: Apache-2.0 */
/* Signs control messages and derives the secrets of connections: see auth.h. */
#include "auth.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "util/log.h"
#include "util/sha256.h"

bool fp_random(void *bytes, size_t size)
{
    if (getrandom(bytes, size, 0) == (ssize_t)size)
        return true;
    ut_error(FP_CAT, "cannot get random numbers: %s", strerror(errno));
    return false;
}

static void compute_tag(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE],
                        uint8_t tag[UT_SHA256_SIZE])
{
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, key, FP_KEY_SIZE);
    ut_hmac_add(&hmac, "note", 4);
    ut_hmac_add(&hmac, msg, offsetof(struct fp_ctrl_msg, tag));
    ut_hmac_end(&hmac, tag);
}

void fp_sign(struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE])
{
    uint8_t tag[UT_SHA256_SIZE];

    compute_tag(msg, key, tag);
    memcpy(msg->tag, tag, FP_TAG_SIZE);
}

bool fp_is_signed(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE])
{
    uint8_t tag[UT_SHA256_SIZE];

    compute_tag(msg, key, tag);
    return ut_same_bytes(msg->tag, tag, FP_TAG_SIZE);
}

struct fp_secrets fp_derive_secrets(const uint8_t key[FP_KEY_SIZE],
                                    const uint8_t initiators[FP_NONCE_SIZE],
                                    const uint8_t acceptors[FP_NONCE_SIZE])
{
    uint8_t both[UT_SHA256_SIZE];
    struct fp_secrets secrets;
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, key, FP_KEY_SIZE);
    ut_hmac_add(&hmac, "conn", 4);
    ut_hmac_add(&hmac, initiators, FP_NONCE_SIZE);
    ut_hmac_add(&hmac, acceptors, FP_NONCE_SIZE);
    ut_hmac_end(&hmac, both);
    memcpy(&secrets.to_initiator, both, sizeof(secrets.to_initiator));
    memcpy(&secrets.to_acceptor, both + sizeof(secrets.to_initiator), sizeof(secrets.to_acceptor));
    return secrets;
}
