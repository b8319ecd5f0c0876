/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of the messages on a connection. Each message has a tag, a MAC over the message,
 * its
 * number and its direction. The key of the tag is derived from the key of the job and the nonces of
 * both
 * sides. A message that was changed, replayed, dropped or reflected is refused. Nothing is
 * encrypted.
 */
#ifndef UT_BOOTSTRAP_CHANNEL_H
#define UT_BOOTSTRAP_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/message.h"
#include "util/key.h"
#include "util/sha256.h"

enum ut_job_side { UT_JOB_SIDE_SERVER, UT_JOB_SIDE_CLIENT };

struct ut_job_channel {
    struct ut_hmac keyed; /* initialized with the key of the connection, without data */
    enum ut_job_side side;
    uint64_t sent, received;
};

/* A key of size 0 authenticates nothing; then the kernel provides the user id of the peer. */
void ut_job_channel_init(struct ut_job_channel *channel, enum ut_job_side side,
                         const struct ut_key *key, const uint8_t server_nonce[UT_JOB_WIRE_NONCE],
                         const uint8_t client_nonce[UT_JOB_WIRE_NONCE]);

/* Appends the tag to the next message to send. */
void ut_job_channel_seal(struct ut_job_channel *channel, struct ut_job_wire *msg);

/* True if the tag of this complete message is correct. */
bool ut_job_channel_check(struct ut_job_channel *channel, const struct ut_job_wire *msg);

#endif
