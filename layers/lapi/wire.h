/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tasks of a job write to each other's memory: control words, records, replies, and how
 * the data is cut that both sides move. All of them have the same layouts and limits.
 */
#ifndef LA_WIRE_H
#define LA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/control.h"

#pragma GCC visibility push(hidden)

enum {
    LA_SLOT = 2048,       /* bytes of a record: header, user header, data */
    LA_MAX_UHDR = 1408,   /* the rest is for data */
    LA_LANES = 32,        /* each for one origin, those that come first */
    LA_LANE_SLOTS = 16,   /* of each */
    LA_SHARED_SLOTS = 64, /* of the last lane, for all others */
    LA_SLOTS = LA_LANES * LA_LANE_SLOTS + LA_SHARED_SLOTS,
    LA_REQS = 1024,     /* messages of this task that wait for something */
    LA_REPLY = 128,     /* bytes that a target may write for one of them */
    LA_TRANSFERS = 256, /* messages of others of which something is still to be done */
    LA_COMP_WORK = 5,   /* component ids of the VCQs */
    LA_COMP_EXCHANGE = 4,
    LA_STAG = 0, /* of the memory of control.c */
    LA_STAG_TABLE = 1,
};

/*
 * The memory of control.c, under LA_STAG: control words, slots, replies, and words for helpers.
 */
struct la_control {
    struct lc_words common;
    uint64_t gone[64];            /* 1 + a rank that is gone, at its number modulo 64 */
    uint64_t lanes;               /* how many were asked for */
    uint64_t tail;                /* tickets of the shared lane that were given out */
    uint64_t freed[LA_LANES + 1]; /* slots of the lane that were used and are free again */
};
/*
 * What a common message needs comes first, and with few data behind it fills a line, whose last
 * word the target sees as soon as it is there: the number of the record in its lane. Others have 0
 * there, and are complete when their notice comes.
 */
struct la_record {
    uint8_t kind, flags;
    uint16_t uhdr_len;
    uint32_t rank; /* the origin */
    uint64_t at;   /* header handler, address */
    uint64_t tgt_cntr;
    uint32_t size;     /* of the data in the record */
    uint16_t req, op;  /* which message of the origin it is */
    utofu_vcq_id_t id; /* LA_LONG: the origin's VCQ */
    uint64_t len;
    utofu_stadd_t stadd; /* of the origin's memory, where the data is not in the record */
    uint64_t number;
    uint64_t value; /* LA_LONG */
};
enum {
    LA_INLINE_HEADER = 32, /* of one line */
    LA_INLINE_DATA = 24,
    LA_LINE = 64, /* others have their data behind it, and those that are LA_LONG, a word later */
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
    LA_PUTV, /* the data begin with a list of the pieces at the target; op: how many */
    LA_GETV, /* the data are the list */
    LA_LAST_KIND = LA_GETV
};
enum {
    LA_WANTS_CMPL = 1, /* flags of a record */
    LA_WANTS_FIN = 2,
    LA_RENDEZVOUS = 4, /* the data is fetched from stadd */
    LA_VECTOR = 8,     /* the header handler returns a vector */
    LA_INLINE = 16,
    LA_ASSIST = 32, /* the origin may move some of the data itself */
    LA_LONG = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS,
};
enum { LA_FIN = 8, LA_CMPL = 16 }; /* offsets in a reply: one past the word */

/* Of a vector, in a list that is sent. */
struct la_piece {
    uint64_t address, len;
};

/*
 * Where both tasks can reach each other's memory, both move data of a large message: in pieces, of
 * which each claims the next one with an atomic add. Behind the first words of the reply are the
 * next piece, where the data is if it is not where the record says, and how the target asks for
 * help. Who has helped says how many pieces it was, with its rank.
 *
 * The origin sends the record first, and then looks whether its memory is still what it was; until
 * then there is nothing to claim.
 */
struct la_assist_request {
    uint64_t stadd; /* of the buffer */
    uint64_t in;    /* which of the messages that the target receives */
};
enum {
    LA_CLAIM = 16, /* offsets of the words */
    LA_NEW_STADD = 24,
    LA_ASSIST_REQUEST = 32,
    LA_ASSIST_REQUEST_END = LA_ASSIST_REQUEST + sizeof(struct la_assist_request), /* one past it */
    LA_ASSISTED_SHIFT = 32,
};
#define LA_ASSIST_FAILED (1ull << 31)
#define LA_CLOSED        (1ull << 63) /* in the word of the next piece: not yet */
#define LA_MOVED         (1ull << 62) /* the data is elsewhere */

/*
 * share.c
 */
uint64_t la_piece_size(uint64_t len);
uint32_t la_pieces(uint64_t len);

#pragma GCC visibility pop

#endif
