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
    SP_PEER_INCOMING,   /* it connected; its HELLO has not arrived yet */
    SP_PEER_RETRY,      /* to connect again at retry_ms */
    SP_PEER_HELLO_SENT, /* this process connected and sent its HELLO */
    SP_PEER_MAPPED,     /* this process sent WELCOME; the peer may already use its segment */
    SP_PEER_UP,
    SP_PEER_DEAD,
};

struct sp_peer {
    struct sp_peer *next;                    /* in the table, or in the list of dead peers */
    struct sp_peer **link;                   /* the pointer to it in the table */
    struct sp_peer *next_claimer, *next_key; /* in its bucket: see peer.c */
    bool has_key;                            /* it is in the bucket of addr.key */
    struct sp_prov *prov;
    uint32_t refs;  /* number of its connections, plus 1 for the table */
    uint32_t state; /* atomic; changed with prov->lock held */
    uint32_t cma;   /* atomic; 0: no cross-memory attach, use the rings */
    bool is_self;
    bool attach_fds;      /* it sent WANT: datagrams to it have the descriptors attached */
    bool fds_requested;   /* this process sent WANT on this socket */
    bool must_prove_user; /* its WELCOME must prove which user it is now: check_listening_user() */
    bool refusal_logged;  /* it refuses this process */
    uint8_t reason;       /* enum prov_reason of its death; set before the state */
    pid_t pid;
    int fd;
    int map_fd;                           /* its remapped memory; -1: none can be mapped */
    uint32_t claimer_here;                /* its signature in this process's rings */
    uint32_t claimer_there;               /* this process's signature in its rings */
    uint64_t retry_ms, shortage_since_ms; /* shortage_since_ms: start of a shortage, */
    uint64_t refused_since_ms;            /* or of refusals */
    uint32_t backoff_ms;
    uint64_t closings_seen;
    uint32_t
        pending_notifications; /* atomic; notes to be sent again: a bit for each type of datagram */
    struct sp_address addr;
    struct sp_segment *seg;
    uint32_t num_rings; /* of seg */
};

static inline bool sp_peer_is(const struct sp_peer *peer, enum sp_peer_state state)
{
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

#endif
