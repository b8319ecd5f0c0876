/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/channel.h"

static const char purpose[] = "utofu-verbs rendezvous 2";

void ut_job_channel_init(struct ut_job_channel *channel, enum ut_job_side side,
                         const struct ut_key *key, const uint8_t server_nonce[UT_JOB_WIRE_NONCE],
                         const uint8_t client_nonce[UT_JOB_WIRE_NONCE])
{
    uint8_t session[UT_SHA256_SIZE];
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, key->bytes, key->size);
    ut_hmac_add(&hmac, purpose, sizeof(purpose));
    ut_hmac_add(&hmac, server_nonce, UT_JOB_WIRE_NONCE);
    ut_hmac_add(&hmac, client_nonce, UT_JOB_WIRE_NONCE);
    ut_hmac_end(&hmac, session);
    *channel = (struct ut_job_channel){.side = side};
    ut_hmac_init(&channel->keyed, session, sizeof(session));
}

static void make_tag(const struct ut_job_channel *channel, enum ut_job_side from, uint64_t number,
                     const struct ut_job_wire *msg, uint8_t mac[UT_SHA256_SIZE])
{
    struct ut_hmac hmac = channel->keyed;
    uint8_t side = (uint8_t)from;

    number = htole64(number);
    ut_hmac_add(&hmac, &side, sizeof(side));
    ut_hmac_add(&hmac, &number, sizeof(number));
    ut_hmac_add(&hmac, msg, UT_JOB_WIRE_HEADER + le16toh(msg->size));
    ut_hmac_end(&hmac, mac);
}

void ut_job_channel_seal(struct ut_job_channel *channel, struct ut_job_wire *msg)
{
    uint8_t mac[UT_SHA256_SIZE];

    make_tag(channel, channel->side, channel->sent++, msg, mac);
    memcpy(msg->data + le16toh(msg->size), mac, UT_JOB_WIRE_TAG);
}

bool ut_job_channel_check(struct ut_job_channel *channel, const struct ut_job_wire *msg)
{
    enum ut_job_side from =
        channel->side == UT_JOB_SIDE_SERVER ? UT_JOB_SIDE_CLIENT : UT_JOB_SIDE_SERVER;
    uint8_t mac[UT_SHA256_SIZE];

    make_tag(channel, from, channel->received++, msg, mac);
    return ut_same_bytes(mac, msg->data + le16toh(msg->size), UT_JOB_WIRE_TAG);
}
