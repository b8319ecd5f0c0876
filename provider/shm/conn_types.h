/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between two endpoints: data. */
#ifndef SP_CONN_TYPES_H
#define SP_CONN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "ep_types.h"
#include "layout.h"
#include "mapped.h"
#include "peer_types.h"
#include "provider.h"

struct sp_stream;
struct sp_map;

enum sp_conn_state {
    SP_CONN_WAITING,   /* for the peer process */
    SP_CONN_ASKING,    /* for the peer's answer */
    SP_CONN_ASKED,     /* for the owner's answer */
    SP_CONN_ACCEPTING, /* the answer is not sent yet */
    SP_CONN_UP,
    SP_CONN_DOWN,
};

enum sp_ctl {
    SP_CTL_NONE,
    SP_CTL_REQUEST = SP_KIND_REQUEST,
    SP_CTL_ACCEPT = SP_KIND_ACCEPT,
    SP_CTL_REJECT = SP_KIND_REJECT,
    SP_CTL_CLOSE = SP_KIND_CLOSE,
    SP_CTL_ERROR = SP_KIND_ERROR,
};

struct sp_conn {
    struct sp_ep *ep;
    struct sp_peer *peer;
    struct sp_ring *ring;        /* of the peer's endpoint */
    struct sp_stream *stream;    /* once something could not be done at once */
    struct sp_map *map;          /* once something of the peer was mapped */
    struct prov_mapping mapping; /* of peer memory; none once anything went through the stream */
    struct prov_mapping own;     /* the local region that was used last */
    void *ctx;
    const uint32_t *rmt_entry; /* state of the peer's endpoint in its directory */
    uint32_t rmt_state;        /* the same when the connection was made */
    uint32_t rmt_name;         /* the peer's name for the connection */
    uint32_t name;
    uint8_t state;
    uint8_t ctl; /* enum sp_ctl: to be sent */
    bool closed; /* by the owner: nothing but ctl is left */
    bool up_due;
    bool down_due;
    uint8_t reason; /* enum prov_reason of down() */
    uint8_t hello_size, rmt_hello_size;
    uint32_t rmt_index;    /* of the peer's endpoint in its directory */
    uint32_t active_index; /* in ep->active, plus 1 */
    uint32_t error_seq, error_status;
    uint64_t rmt_id;
    uint64_t executed; /* operations of the peer that were executed here */
    struct sp_conn *next_discarded;
    uint8_t hello[PROV_HELLO_MAX], rmt_hello[PROV_HELLO_MAX];
};

/* The contract's name is opaque; this is the same object. */
static inline struct sp_conn *sp_conn_of(struct prov_conn *conn)
{
    return (struct sp_conn *)conn;
}

/* Is the peer's endpoint still the one of the connection? Its ring may belong to another one since
 * it was closed, maybe to one of the same id, and what is published there then is lost. So whoever
 * publishes what is complete with that asks before. */
static inline bool sp_conn_is_there(const struct sp_conn *conn)
{
    return __builtin_expect(__atomic_load_n(conn->rmt_entry, __ATOMIC_ACQUIRE) == conn->rmt_state,
                            1);
}

#endif
