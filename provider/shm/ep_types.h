/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint: its ring and its connections: data. */
#ifndef SP_EP_TYPES_H
#define SP_EP_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "prov_types.h"
#include "provider.h"

struct sp_conn;

struct sp_ep {
    /* read by every poll */
    const struct sp_slot *next_slot;
    uint64_t vacant;           /* the state of next_slot while it is empty */
    uint32_t must_check_peers; /* atomic: a peer died or came up, or an endpoint was closed */
    uint32_t num_active;
    struct sp_ring *ring;
    uint64_t head;
    struct sp_prov *prov;
    void *owner;
    const struct prov_callbacks *callbacks;
    uint64_t id;
    uint32_t index;   /* of its entry in the directory */
    uint32_t blocked; /* atomic: the timer has to wake the owner */
    bool in_poll;
    uint64_t claimed_at;     /* the head at which a slot was found claimed, and not published, */
    uint32_t claimed;        /* and how often in a row */
    struct sp_conn **active; /* connections with work */
    struct sp_conn **conns;  /* by the low bits of conn->name */
    uint32_t max_conns, num_conns, next_conn;
    uint32_t max_active, num_live; /* num_live: existing connections, including closed ones */
    struct sp_conn *discarded;     /* during a poll: freed at its end */
};

/* The type in provider.h is opaque; this is the same object. */
static inline struct sp_ep *sp_ep_of(struct prov_ep *ep)
{
    return (struct sp_ep *)ep;
}

#endif
