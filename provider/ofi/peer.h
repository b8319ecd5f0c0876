/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that connections lead to, and whether they live. */
#ifndef FP_PEER_H
#define FP_PEER_H

#include "types.h"

/* When a process was started, in ticks since the host's boot; 0: there is none of that pid, or it
 * is not known. */
uint64_t fp_process_start(uint32_t pid);

/* The peer of this address, which may be new; its key, where it is known. NULL: no memory, or too
 * many. Any thread, without prov->lock, as the next two. */
struct fp_peer *fp_peer_of(struct fp_prov *prov, const struct fp_address *address,
                           const uint8_t key[FP_KEY_SIZE]);
/* The same, where there is one. */
struct fp_peer *fp_peer_find(struct fp_prov *prov, const struct fp_address *address);
/* Does a connection lead to it? */
bool fp_peer_is_used(struct fp_peer *peer);
void fp_peers_free(struct fp_prov *prov);

/* A connection begins and ends. */
void fp_peer_hold(struct fp_peer *peer);
void fp_peer_drop(struct fp_peer *peer);

/* It has sent something; `answer`: the number of the question, 0: it is no answer. */
void fp_peer_heard(struct fp_peer *peer, uint32_t answer);
static inline bool fp_peer_has_answered(const struct fp_peer *peer, uint32_t question)
{
    return (int32_t)(__atomic_load_n(&peer->answered, __ATOMIC_ACQUIRE) - question) >= 0;
}
static inline bool fp_peer_has_key(const struct fp_peer *peer)
{
    return __atomic_load_n(&peer->has_key, __ATOMIC_ACQUIRE);
}
/* Its process has ended. */
void fp_peer_ended(struct fp_peer *peer);

static inline bool fp_peer_is_dead(const struct fp_peer *peer)
{
    return __atomic_load_n(&peer->fate, __ATOMIC_ACQUIRE) == FP_DEAD;
}

#endif
