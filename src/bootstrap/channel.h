/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the rendezvous server and the processes of a job without a launcher, and their
 * authentication. The server answers requests in order. Little endian. A message with a wrong
 * magic, type, length or tag ends the connection.
 * The server first sends a challenge with a nonce. The process answers with a hello, which has a
 * nonce of its own. The key of the connection is derived from both nonces and the key of the job.
 * From the hello on, in both directions, each message ends with a tag: a MAC over the message, its
 * number and its direction. A message that was changed, replayed, dropped or reflected is refused.
 * Nothing is encrypted.
 */
#ifndef UT_BOOTSTRAP_CHANNEL_H
#define UT_BOOTSTRAP_CHANNEL_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/key.h"
#include "util/sha256.h"

enum {
    UT_JOB_WIRE_MAGIC = 0x324a5455, /* UTJ2; the last byte is the version */
    UT_JOB_WIRE_MAGIC_MASK = 0x00ffffff,
    UT_JOB_WIRE_HEADER = 8,
    UT_JOB_WIRE_DATA = 256,
    UT_JOB_WIRE_TAG = 16,
    UT_JOB_WIRE_NONCE = 16,
    UT_JOB_WIRE_HELLO_SIZE = UT_JOB_WIRE_NONCE + 8,
};

enum ut_job_wire_type {
    UT_JOB_WIRE_HELLO = 1, /* nonce, rank (4 bytes), size of the job (4 bytes); answer: no data */
    UT_JOB_WIRE_PUBLISH,   /* the record; answer: no data */
    UT_JOB_WIRE_LOOKUP,    /* rank (4 bytes); answer: the record */
    UT_JOB_WIRE_CHALLENGE, /* first message of the server, with its nonce; the tag is zero */
};

/* status of an answer */
enum ut_job_wire_status {
    UT_JOB_WIRE_OK,
    UT_JOB_WIRE_NOT_YET,   /* the rank has not published yet */
    UT_JOB_WIRE_BAD_RANK,  /* the job has no such rank */
    UT_JOB_WIRE_BAD_SIZE,  /* the job of the server has another size */
    UT_JOB_WIRE_DUPLICATE, /* another process claims the same rank */
    UT_JOB_WIRE_NO_MEMORY,
    UT_JOB_WIRE_REFUSED, /* the tag of the hello was made with another key; the tag of this answer
                          * is zero. As a challenge without data: the process belongs to another
                          * user */
};

struct ut_job_wire {
    uint32_t magic;
    uint8_t type, status;
    uint16_t size; /* bytes of data */
    uint8_t data[UT_JOB_WIRE_DATA + UT_JOB_WIRE_TAG];
};

_Static_assert(offsetof(struct ut_job_wire, data) == UT_JOB_WIRE_HEADER, "layout on the wire");

/* Fills in a message with a zero tag. Returns its length. */
static inline size_t ut_job_wire_fill(struct ut_job_wire *msg, enum ut_job_wire_type type,
                                      enum ut_job_wire_status status, const void *data, size_t size)
{
    msg->magic = htole32(UT_JOB_WIRE_MAGIC);
    msg->type = (uint8_t)type;
    msg->status = (uint8_t)status;
    msg->size = htole16((uint16_t)size);
    if (size > 0)
        memcpy(msg->data, data, size);
    memset(msg->data + size, 0, UT_JOB_WIRE_TAG);
    return UT_JOB_WIRE_HEADER + size + UT_JOB_WIRE_TAG;
}

/* The length of the message; of the header while the header is incomplete. 0: the message is
 * invalid. */
static inline size_t ut_job_wire_need(const struct ut_job_wire *msg, size_t have)
{
    if (have < UT_JOB_WIRE_HEADER)
        return UT_JOB_WIRE_HEADER;
    if (le32toh(msg->magic) != UT_JOB_WIRE_MAGIC || le16toh(msg->size) > UT_JOB_WIRE_DATA)
        return 0;
    return UT_JOB_WIRE_HEADER + le16toh(msg->size) + UT_JOB_WIRE_TAG;
}

/* True for a message of another version of the library. */
static inline bool ut_job_wire_other_version(const struct ut_job_wire *msg, size_t have)
{
    uint32_t magic = le32toh(msg->magic);

    return have >= sizeof(magic) && magic != UT_JOB_WIRE_MAGIC &&
           (magic & UT_JOB_WIRE_MAGIC_MASK) == (UT_JOB_WIRE_MAGIC & UT_JOB_WIRE_MAGIC_MASK);
}

static inline uint32_t ut_job_wire_u32(const struct ut_job_wire *msg, size_t offset)
{
    uint32_t n;

    memcpy(&n, msg->data + offset, sizeof(n));
    return le32toh(n);
}

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
