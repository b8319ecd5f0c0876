/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process: data. */
#ifndef SP_PEER_TYPES_H
#define SP_PEER_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "layout.h"

struct sp_prov;

enum sp_peer_state {
    SP_PEER_INCOMING,   /* it connected; its HELLO is not here yet */
    SP_PEER_RETRY,      /* to be connected at retry_ms */
    SP_PEER_HELLO_SENT, /* we connected and sent our HELLO */
    SP_PEER_MAPPED,     /* we sent WELCOME; it may use our segment already */
    SP_PEER_UP,
    SP_PEER_DEAD,
};

struct sp_peer {
    struct sp_peer *next;                    /* in the table, or among the dead ones */
    struct sp_peer **link;                   /* what points to it in the table */
    struct sp_peer *next_claimer, *next_key; /* of its bucket: see peer.c */
    bool has_key;                            /* it is in one by its addr.key */
    struct sp_prov *prov;
    uint32_t refs;  /* connections, and the table */
    uint32_t state; /* atomic; changed with prov->lock held */
    uint32_t cma;   /* atomic; 0: no cross-memory attach, use the rings */
    bool is_self;
    bool send_fds;  /* it said WANT: our datagrams carry the descriptors */
    bool want_sent; /* we said WANT on this socket */
    uint8_t reason; /* enum prov_reason: why it is dead for us; set before the state */
    pid_t pid;
    int fd;
    int map_fd;                        /* its remapped memory; -1: nothing of it can be mapped */
    uint32_t claimer_here;             /* its signature in our rings */
    uint32_t claimer_there;            /* our signature in its rings */
    uint64_t retry_ms, short_since_ms; /* the latter: descriptors or memory were short since then */
    uint32_t backoff_ms;
    uint64_t closings_seen;
    struct sp_address addr;
    struct sp_segment *seg;
};

static inline bool sp_peer_is(const struct sp_peer *peer, enum sp_peer_state state)
{
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

#endif
