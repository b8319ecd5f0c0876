/* SPDX-License-Identifier: Apache-2.0 */
/* The processes at the other end of connections, and whether they are alive. */
#ifndef FP_PEER_H
#define FP_PEER_H

#include "types.h"

/* Returns the start time of a process, in ticks since the host's boot; 0: no such process, or
 * unknown. */
uint64_t fp_process_start(uint32_t pid);

/* Returns the peer with this address, created if necessary; `key` is its key, if known. NULL: no
 * memory, or too many peers. For any thread, without prov->lock, as the next two functions. */
struct fp_peer *fp_peer_get(struct fp_prov *prov, const struct fp_address *address,
                            const uint8_t key[FP_KEY_SIZE]);
/* Returns the peer with this address; NULL: there is no such peer. */
struct fp_peer *fp_peer_find(struct fp_prov *prov, const struct fp_address *address);
/* True if the peer has a connection. */
bool fp_peer_is_used(struct fp_peer *peer);
void fp_peers_free(struct fp_prov *prov);

/* Count the connections of the peer. */
void fp_peer_add_conn(struct fp_peer *peer);
void fp_peer_remove_conn(struct fp_peer *peer);

/* A control message of the peer has arrived. `ping`: number of the ping that a pong replies to; 0:
 * not a pong. */
void fp_peer_received(struct fp_peer *peer, uint32_t ping);
static inline bool fp_peer_has_ponged(const struct fp_peer *peer, uint32_t ping)
{
    return (int32_t)(__atomic_load_n(&peer->last_pong, __ATOMIC_RELAXED) - ping) >= 0;
}
static inline bool fp_peer_has_key(const struct fp_peer *peer)
{
    return __atomic_load_n(&peer->has_key, __ATOMIC_ACQUIRE);
}
/* Handles the end of the peer's process. */
void fp_peer_died(struct fp_peer *peer);
/* Closes the peer's pidfd: its end is known. */
void fp_peer_unwatch(struct fp_peer *peer);

static inline bool fp_peer_is_dead(const struct fp_peer *peer)
{
    return __atomic_load_n(&peer->liveness, __ATOMIC_ACQUIRE) == FP_DEAD;
}

#endif
