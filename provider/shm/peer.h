/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peer processes. Call with prov->lock held, except sp_peer_unref(). */
#ifndef SP_PEER_H
#define SP_PEER_H

#include <stdint.h>

#include "types.h"

/* Returns a new peer (SP_PEER_INCOMING) with a producer id; the table has the only reference. NULL:
 * no memory, or no producer id left. */
struct sp_peer *sp_peer_new(struct sp_prov *prov);
/* Sets the peer's key (from its HELLO); sp_peer_find() finds the peer by this key from now on. */
void sp_peer_set_key(struct sp_peer *peer, uint64_t key);
/* Returns the peer with this key; NULL: none. Does not find a peer whose HELLO has not arrived. */
struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key);
/* Returns the peer with this producer id in the rings of this process; NULL: none, or it died. */
struct sp_peer *sp_peer_by_producer_id(struct sp_prov *prov, uint32_t producer_id);
/* Removes the peer from the table and takes its connections down for this reason. The next
 * sp_peer_free_dead() or a later one frees it. */
void sp_peer_mark_dead(struct sp_peer *peer, enum prov_reason reason);
/* Drops the table's references to dead peers: no event of the current epoll batch names them. */
void sp_peer_free_dead(struct sp_prov *prov);
/* Drops a reference; the last one closes the descriptors, unmaps the segment and frees the peer. */
void sp_peer_unref(struct sp_peer *peer);

#endif
