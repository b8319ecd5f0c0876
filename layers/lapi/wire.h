/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format: control words, records, replies, and how origin and target share the pieces of a
 * large message. All tasks of a job use the same layouts and limits.
 */
#ifndef LA_WIRE_H
#define LA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/control.h"

#pragma GCC visibility push(hidden)

enum {
    LA_SLOT = 2048,       /* bytes of a slot: header, user header, data */
    LA_MAX_UHDR = 1408,   /* bytes of a user header; the rest is for data */
    LA_LANES = 32,        /* lanes with one origin each; the first origins get them */
    LA_LANE_SLOTS = 16,   /* slots of a lane */
    LA_SHARED_SLOTS = 64, /* slots of the last lane, which all other origins share */
    LA_SLOTS = LA_LANES * LA_LANE_SLOTS + LA_SHARED_SLOTS,
    LA_REQS = 1024,     /* requests of a task */
    LA_REPLY = 128,     /* bytes of the reply area of a request */
    LA_TRANSFERS = 256, /* incomplete messages of other tasks */
    LA_CMP_ID_WORK = 5, /* component ids of the VCQs */
    LA_CMP_ID_EXCHANGE = 4,
    LA_STAG = 0, /* STag of the memory of control.c */
    LA_STAG_TABLE = 1,
};

/*
 * The memory of control.c, with STag LA_STAG: control words, slots, reply areas, and words for
 * assistance.
 */
struct la_control {
    struct lc_common_words common;
    uint64_t gone[64];            /* at index rank modulo 64: rank + 1 of a task that is gone */
    uint64_t lanes;               /* number of lanes that origins have requested */
    uint64_t tail;                /* number of tickets taken for the shared lane */
    uint64_t freed[LA_LANES + 1]; /* per lane: number of slots that were used and are free again */
};
/*
 * The fields of common messages come first. With little data, a record fills one cache line
 * (inline), and its last word is the number of the record in its lane: the target sees the record
 * when it reads this number. Other records have number 0, and are complete when their notice
 * arrives.
 */
struct la_record {
    uint8_t kind, flags;
    uint16_t uhdr_len;
    uint32_t rank; /* of the origin */
    uint64_t at;   /* header handler, or address */
    uint64_t tgt_cntr;
    uint32_t size;     /* bytes of data in the record */
    uint16_t req, op;  /* req: index of the request at the origin */
    utofu_vcq_id_t id; /* LA_LONG_HEADER_FLAGS: VCQ of the origin */
    uint64_t len;
    utofu_stadd_t stadd; /* address of the data at the origin, if they are not in the record */
    uint64_t number;
    uint64_t value; /* LA_LONG_HEADER_FLAGS only */
};
enum {
    LA_INLINE_HEADER = 32, /* bytes of the header of an inline record */
    LA_INLINE_DATA = 24,
    LA_LINE = 64, /* the data of other records begin here; of LA_LONG_HEADER_FLAGS records one word
                     later */
    LA_LONG_HEADER = 72,
    LA_PAYLOAD = LA_SLOT - LA_LONG_HEADER,
    LA_SMALL_GET = LA_REPLY - 16
};
_Static_assert(sizeof(struct la_record) == LA_LONG_HEADER &&
                   offsetof(struct la_record, id) == LA_INLINE_HEADER &&
                   offsetof(struct la_record, number) == LA_INLINE_HEADER + LA_INLINE_DATA &&
                   offsetof(struct la_record, value) == LA_LINE,
               "no gaps");
_Static_assert((int)LA_MAX_UHDR <= (int)LA_PAYLOAD, "a user header fits");

enum la_kind {
    LA_AM = 1,
    LA_PUT,
    LA_GET,
    LA_RMW,
    LA_RMW64,
    LA_PUTV, /* the data begin with a list of the pieces at the target; value: bytes of the list */
    LA_GETV, /* the data are the list of the pieces */
    LA_LAST_KIND = LA_GETV
};
enum {
    /* flags of a record */
    LA_WANTS_CMPL = 1, /* reply when the completion handler has run */
    LA_WANTS_FIN = 2,  /* reply when the origin's data were fetched, or the result is there */
    LA_RENDEZVOUS = 4, /* the target fetches the data from stadd */
    LA_VECTOR = 8,     /* the header handler returns a vector */
    LA_INLINE = 16,
    LA_ASSIST = 32, /* the origin may put some of the pieces */
    LA_LONG_HEADER_FLAGS = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS,
};
/* A reply area: ends of its words, and the beginning of the data of a short get. */
enum { LA_FIN_END = 8, LA_CMPL_END = 16, LA_GET_DATA = LA_CMPL_END };

/* A piece of a vector, in a list on the wire. */
struct la_piece {
    uint64_t address, len;
};

/*
 * If origin and target can map each other's memory, both move a large message. It is cut into
 * pieces, and each side claims the next piece with an atomic add on a word in the reply area.
 * Behind the first words, the reply area holds: the claim word, a new address of the data if the
 * address in the record is stale, and the request of the target for assistance. The origin reports
 * with its rank how many pieces it has put.
 *
 * The origin sends the record first, and checks its memory registration afterwards. Until then
 * claims are closed.
 */
struct la_assist_request {
    uint64_t stadd; /* of the destination buffer */
    uint64_t in;    /* index of the transfer at the target */
};
enum {
    LA_CLAIM = 16, /* offsets in the reply area */
    LA_NEW_STADD = 24,
    LA_ASSIST_REQUEST = 32,
    LA_ASSIST_REQUEST_END = LA_ASSIST_REQUEST + sizeof(struct la_assist_request), /* one past it */
    LA_ASSISTED_SHIFT = 32,
};
#define LA_ASSIST_FAILED (1ull << 31)
#define LA_CLOSED        (1ull << 63) /* in the claim word: claims are not open yet */
#define LA_STADD_CHANGED (1ull << 62) /* in the claim word: use the new address */

/* The size of the pieces of a message of `len` bytes, and their number. */
enum {
    SHARES = 8, /* pieces of a message, whose size is between the two limits below */
    LEAST_SHARE = 256 << 10,
    MOST_SHARE = 1 << 20
};

static inline uint64_t la_piece_size(uint64_t len)
{
    uint64_t size = (len / SHARES + LEAST_SHARE - 1) / LEAST_SHARE * LEAST_SHARE;

    if (size < LEAST_SHARE)
        return LEAST_SHARE;
    return size < MOST_SHARE ? size : MOST_SHARE;
}

static inline uint32_t la_pieces(uint64_t len)
{
    return (uint32_t)((len + la_piece_size(len) - 1) / la_piece_size(len));
}

#pragma GCC visibility pop

#endif
