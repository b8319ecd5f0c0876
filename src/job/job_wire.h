/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the processes of a job set up by hand and their rendezvous server: strictly
 * one request, one answer. Little endian. A message with a wrong magic, type or length ends the
 * connection.
 */
#ifndef UT_JOB_JOB_WIRE_H
#define UT_JOB_JOB_WIRE_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { UT_JOB_WIRE_MAGIC = 0x314a5455, UT_JOB_WIRE_HEADER = 8, UT_JOB_WIRE_DATA = 256 };

enum ut_job_wire_type {
    UT_JOB_WIRE_HELLO = 1, /* rank (4 bytes), size of the job (4 bytes); answer: no data */
    UT_JOB_WIRE_PUBLISH,   /* the blob; answer: no data */
    UT_JOB_WIRE_LOOKUP,    /* rank (4 bytes); answer: the blob */
};

/* status of an answer */
enum ut_job_wire_status {
    UT_JOB_WIRE_OK,
    UT_JOB_WIRE_NOT_YET,   /* that rank has published nothing */
    UT_JOB_WIRE_BAD_RANK,  /* beyond the job */
    UT_JOB_WIRE_BAD_SIZE,  /* the server knows a job of another size */
    UT_JOB_WIRE_DUPLICATE, /* another process says that it is this rank */
    UT_JOB_WIRE_NO_MEMORY,
};

struct ut_job_wire {
    uint32_t magic;
    uint8_t type, status;
    uint16_t size; /* bytes of data */
    uint8_t data[UT_JOB_WIRE_DATA];
};

_Static_assert(offsetof(struct ut_job_wire, data) == UT_JOB_WIRE_HEADER, "layout on the wire");

static inline size_t ut_job_wire_fill(struct ut_job_wire *msg, enum ut_job_wire_type type,
                                      enum ut_job_wire_status status, const void *data, size_t size)
{
    msg->magic = htole32(UT_JOB_WIRE_MAGIC);
    msg->type = (uint8_t)type;
    msg->status = (uint8_t)status;
    msg->size = htole16((uint16_t)size);
    if (size > 0)
        memcpy(msg->data, data, size);
    return UT_JOB_WIRE_HEADER + size;
}

/* How many bytes the message has of which `have` are here: 0 when it is none of ours. */
static inline size_t ut_job_wire_need(const struct ut_job_wire *msg, size_t have)
{
    if (have < UT_JOB_WIRE_HEADER)
        return UT_JOB_WIRE_HEADER;
    if (le32toh(msg->magic) != UT_JOB_WIRE_MAGIC || le16toh(msg->size) > UT_JOB_WIRE_DATA)
        return 0;
    return UT_JOB_WIRE_HEADER + le16toh(msg->size);
}

static inline uint32_t ut_job_wire_u32(const struct ut_job_wire *msg, size_t offset)
{
    uint32_t n;

    memcpy(&n, msg->data + offset, sizeof(n));
    return le32toh(n);
}

#endif
