/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peer processes. With prov->lock held, except for sp_peer_unref(). */
#ifndef SP_PEER_H
#define SP_PEER_H

#include <stdint.h>

#include "types.h"

struct sp_peer *sp_peer_new(struct sp_prov *prov);
/* Sets the key from its HELLO, by which sp_peer_find() finds the peer from now on. */
void sp_peer_set_key(struct sp_peer *peer, uint64_t key);
struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key);
struct sp_peer *sp_peer_by_claimer(struct sp_prov *prov, uint32_t claimer);
/* Removes the peer from the table; its connections go down for this reason. It is freed by the next
 * sp_peer_free_dead() at the earliest. */
void sp_peer_mark_dead(struct sp_peer *peer, enum prov_reason reason);
/* Drops the table's references to dead peers, once all events that epoll returned before they died
 * are processed. */
void sp_peer_free_dead(struct sp_prov *prov);
void sp_peer_unref(struct sp_peer *peer);

#endif
