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
    SP_CONN_WAITING,    /* waits for the peer process */
    SP_CONN_REQUESTING, /* waits for the peer's answer */
    SP_CONN_REQUESTED,  /* waits for the owner's answer */
    SP_CONN_ACCEPTING,  /* the answer is not sent yet */
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
    struct sp_ring *ring;            /* of the peer's endpoint */
    uint64_t ring_free_until;        /* sp_ring_has_room() */
    struct sp_stream *stream;        /* created for the first delayed operation */
    struct sp_map *map;              /* created for the first mapping of the peer's memory */
    struct prov_mapping mapping;     /* none while operations are delayed */
    struct prov_mapping lcl_mapping; /* the local region that was used last */
    void *ctx;
    const uint32_t *rmt_entry; /* state of the peer's endpoint in its directory */
    uint32_t rmt_state;        /* its value when the connection was made */
    uint32_t rmt_name;         /* the peer's name for the connection */
    uint32_t name;
    uint8_t state;
    uint8_t ctl; /* enum sp_ctl, if one must be sent */
    bool closed; /* by the owner: only ctl remains */
    bool up_due;
    bool down_due;
    uint8_t reason; /* enum prov_reason of down() */
    uint8_t hello_size, rmt_hello_size;
    uint32_t rmt_index;    /* index of the peer's endpoint in its directory */
    uint32_t active_index; /* in ep->active, plus 1 */
    uint32_t error_seq, error_status;
    uint64_t rmt_id;
    uint64_t executed; /* number of the peer's operations executed here */
    struct sp_conn *next_discarded;
    uint8_t hello[PROV_HELLO_MAX], rmt_hello[PROV_HELLO_MAX];
};

/* The type in provider.h is opaque; this is the same object. */
static inline struct sp_conn *sp_conn_of(struct prov_conn *conn)
{
    return (struct sp_conn *)conn;
}

/* Is the peer's endpoint still the one of the connection? After it was closed, its ring may belong
 * to another endpoint, perhaps with the same id, and slots published there are lost. So this is
 * checked before a slot is published that completes an operation. */
static inline bool sp_conn_rmt_ep_is_open(const struct sp_conn *conn)
{
    return __builtin_expect(__atomic_load_n(conn->rmt_entry, __ATOMIC_ACQUIRE) == conn->rmt_state,
                            1);
}

#endif
