/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peer processes. With prov->lock held, but for sp_peer_put(). */
#ifndef SP_PEER_H
#define SP_PEER_H

#include <stdint.h>

#include "peer_types.h"
#include "prov_types.h"

struct sp_peer *sp_peer_new(struct sp_prov *prov);
/* From now on sp_peer_find() finds it, once its HELLO is here. */
void sp_peer_set_key(struct sp_peer *peer, uint64_t key);
struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key);
struct sp_peer *sp_peer_by_claimer(struct sp_prov *prov, uint32_t claimer);
/* Takes it out of the table; its connections go down for this reason. It is not freed before the
 * next sp_peer_free_dead(). */
void sp_peer_die(struct sp_peer *peer, enum prov_reason reason);
/* Drops the table's reference to dead ones, once no event that epoll returned before they died is
 * left. */
void sp_peer_free_dead(struct sp_prov *prov);
void sp_peer_put(struct sp_peer *peer);

#endif
