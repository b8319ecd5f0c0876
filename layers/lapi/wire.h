/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format: control words, records, reply areas, and how origin and target share the chunks
 * of a large message. All tasks of a job use the same layouts and limits.
 *
 * Terms:
 * record      a message, or the header of a large one, in a slot of the target
 * lane        a ring of slots; the first origins of a target each get a private one
 * shared lane the lane of all other origins
 * ticket      number of a slot of the shared lane, taken with an atomic add
 * inline      a record of one cache line, which the target finds by its sequence number
 * rendezvous  the target fetches the data of a large message with gets
 * FIN         reply: the origin may reuse its data, or has the result
 * CMPL        reply: the completion handler of the target has run
 * assist      the origin puts some chunks of a large message while the target gets others
 */
#ifndef LA_WIRE_H
#define LA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/control.h"

#pragma GCC visibility push(hidden)

enum {
    LA_SLOT_SIZE = 2048,     /* bytes: header, user header, data */
    LA_MAX_UHDR_SIZE = 1408, /* bytes of a user header */
    LA_PRIVATE_LANES = 32,   /* number of private lanes; also the index of the shared lane */
    LA_LANE_SLOTS = 16,      /* slots of a private lane */
    LA_SHARED_SLOTS = 64,    /* slots of the shared lane */
    LA_NUM_SLOTS = LA_PRIVATE_LANES * LA_LANE_SLOTS + LA_SHARED_SLOTS,
    LA_NUM_REQS = 1024,     /* requests of a task */
    LA_REPLY_SIZE = 128,    /* bytes of the reply area of a request */
    LA_NUM_INCOMING = 256,  /* maximum number of incomplete messages of other tasks */
    LA_CMP_ID_MESSAGES = 5, /* component ids of the VCQs: for all messages... */
    LA_CMP_ID_EXCHANGE = 4, /* ...and of the exchange of VCQ ids */
    LA_STAG_CONTROL = 0,    /* STags: of the memory of control.c... */
    LA_STAG_ADDRESSES = 1,  /* ...and of the table of LAPI_Address_init() */
};

/*
 * The control words. Behind them, the memory of control.c has the slots, the reply areas, and a
 * word for the assist report of each incoming message.
 */
struct la_control_words {
    struct lc_common_words common;
    uint64_t gone[64];        /* at index rank modulo 64: rank + 1 of a task that has ended */
    uint64_t lanes_requested; /* by origins; the first LA_PRIVATE_LANES get one */
    uint64_t next_ticket;     /* of the shared lane: each record takes one ticket */
    uint64_t freed[LA_PRIVATE_LANES + 1]; /* per lane: slots that were used and are free again */
};
/*
 * The fields of common messages come first. With little data, a record fills one cache line
 * (inline), and its last word is its sequence number: the target sees the record when it reads this
 * number. Other records have sequence number 0, and are complete when their notice arrives.
 */
struct la_record {
    uint8_t kind, flags; /* enum la_kind; LA_WANTS_CMPL... */
    uint16_t uhdr_len;
    uint32_t rank;     /* of the origin */
    uint64_t tgt_addr; /* address at the target: of the data, or of the header handler (LA_AM) */
    uint64_t tgt_cntr;
    uint32_t data_len;  /* bytes of data in the record */
    uint16_t req_index; /* index of the request at the origin */
    uint16_t rmw_op;    /* RMW_ops_t of an atomic operation */
    /* With LA_LONG_HEADER_FLAGS only, except seq: */
    utofu_vcq_id_t vcq_id; /* of the origin */
    union {
        uint64_t total_len; /* bytes of data, whether they travel in the record or not; for LA_PUTV
                             * and LA_GETV: list of segments plus data */
        uint64_t compare;   /* of COMPARE_AND_SWAP */
    };
    utofu_stadd_t org_stadd; /* at the origin: of the data, or of the destination of a get */
    uint64_t seq;            /* of an inline record in its lane, from 1 */
    union {
        uint64_t operand;   /* of an atomic operation */
        uint64_t list_size; /* LA_PUTV, LA_GETV: bytes of the list of segments */
    };
};
enum {
    LA_INLINE_HEADER_SIZE = 32, /* of an inline record; user header and data follow */
    LA_INLINE_CAPACITY = 24,
    LA_CACHE_LINE = 64,        /* size of an inline record */
    LA_SHORT_HEADER_SIZE = 64, /* up to and including seq */
    LA_LONG_HEADER_SIZE = 72,  /* with any of LA_LONG_HEADER_FLAGS */
    LA_LONG_HEADER_CAPACITY =
        LA_SLOT_SIZE - LA_LONG_HEADER_SIZE, /* user header and data that fit */
};
_Static_assert(sizeof(struct la_record) == LA_LONG_HEADER_SIZE &&
                   offsetof(struct la_record, vcq_id) == LA_INLINE_HEADER_SIZE &&
                   offsetof(struct la_record, seq) == LA_INLINE_HEADER_SIZE + LA_INLINE_CAPACITY &&
                   offsetof(struct la_record, operand) == LA_CACHE_LINE,
               "no gaps");
_Static_assert((int)LA_MAX_UHDR_SIZE <= (int)LA_LONG_HEADER_CAPACITY, "a user header fits");

/* In a record, the user header is padded to whole words. */
static inline uint32_t la_padded_len(uint32_t uhdr_len)
{
    return (uhdr_len + 7) / 8 * 8;
}

enum la_kind {
    LA_AM = 1, /* active message */
    LA_PUT,
    LA_GET,
    LA_RMW,   /* atomic operation on 32 bits */
    LA_RMW64, /* on 64 bits */
    LA_PUTV,  /* the data begin with the list of segments at the target */
    LA_GETV,  /* the data are the list of segments at the target */
    LA_LAST_KIND = LA_GETV
};
enum {
    /* flags of a record */
    LA_WANTS_CMPL = 1, /* reply CMPL when the completion handler has run */
    LA_WANTS_FIN = 2,  /* reply FIN when the origin may reuse its data, or has the result */
    LA_RENDEZVOUS = 4, /* the target fetches the data from org_stadd */
    LA_VECTOR = 8,     /* the header handler returns a vector */
    LA_INLINE = 16,
    LA_ASSIST = 32, /* the origin may put some of the chunks */
    LA_LONG_HEADER_FLAGS = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS,
};

/* A segment of a vector, in a list on the wire. */
struct la_segment {
    uint64_t address, len;
};

/*
 * If origin and target can map each other's memory, both move a large message. It is cut into
 * chunks, and each side claims the next chunk with an atomic add on the claim word in the reply
 * area. The target requests assistance; the origin reports how many chunks it has put.
 *
 * The origin sends the record first, and checks its memory registration afterwards. Until then
 * claims are closed.
 */
struct la_assist_request {
    uint64_t stadd;          /* of the destination buffer */
    uint64_t incoming_index; /* of the message, in la.incoming.entries of the target */
};
/*
 * An assist report is one word: bits 0 to 30: number of chunks that the origin has put; bit 31: a
 * put has failed; bits 32 to 63: rank of the origin.
 */
#define LA_ASSIST_FAILED (1ull << 31)
enum { LA_ASSIST_RANK_SHIFT = 32 };
#define LA_CLAIMS_CLOSED (1ull << 63) /* in the claim word: no chunk may be claimed yet */
#define LA_STADD_CHANGED (1ull << 62) /* in the claim word: org_stadd is stale, use new_stadd */

/* The reply area of a request, which the target writes. */
struct la_reply_area {
    uint64_t fin; /* for LA_WANTS_FIN: 0, a LAPI_ERR_* code, or the result of an atomic operation */
    uint64_t cmpl; /* for LA_WANTS_CMPL: 0, or a LAPI_ERR_* code */
    union {
        uint8_t get_data[LA_REPLY_SIZE - 16]; /* of a short get */
        struct {
            uint64_t claim_word;     /* number of chunks that both sides have claimed */
            utofu_stadd_t new_stadd; /* replaces org_stadd, which is stale */
            struct la_assist_request assist_request;
        };
    };
};
_Static_assert(sizeof(struct la_reply_area) == LA_REPLY_SIZE, "no gaps");
enum { LA_SHORT_GET_SIZE = sizeof(((struct la_reply_area *)0)->get_data) };
/* Where a word begins; and the offset one past its last byte, which the notice of a put names. */
#define LA_REPLY_OFFSET(word) offsetof(struct la_reply_area, word)
#define LA_REPLY_END(word)    (LA_REPLY_OFFSET(word) + sizeof(((struct la_reply_area *)0)->word))

/* A message of `len` bytes has about LA_CHUNKS chunks, if these limits of their size permit it. */
enum { LA_CHUNKS = 8, LA_MIN_CHUNK_SIZE = 256 << 10, LA_MAX_CHUNK_SIZE = 1 << 20 };

static inline uint64_t la_chunk_size(uint64_t len)
{
    uint64_t size =
        (len / LA_CHUNKS + LA_MIN_CHUNK_SIZE - 1) / LA_MIN_CHUNK_SIZE * LA_MIN_CHUNK_SIZE;

    if (size < LA_MIN_CHUNK_SIZE)
        return LA_MIN_CHUNK_SIZE;
    return size < LA_MAX_CHUNK_SIZE ? size : LA_MAX_CHUNK_SIZE;
}

static inline uint32_t la_num_chunks(uint64_t len)
{
    return (uint32_t)((len + la_chunk_size(len) - 1) / la_chunk_size(len));
}

#pragma GCC visibility pop

#endif
