/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks that this task communicates with. */
#ifndef LA_PEERS_H
#define LA_PEERS_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_peers_setup(void);
void la_peers_close(void);
struct la_peer *la_peer_find(uint32_t rank); /* NULL: not connected yet */
struct la_peer *la_peer_connect(uint32_t rank,
                                int *rc); /* finds the task; NULL and a LAPI_ERR_* code */
int la_peer_query_id(uint32_t rank,
                     utofu_vcq_id_t *id);   /* does not store it; returns a code of uTofu */
struct la_peer *la_peer_next(uint32_t *at); /* iterates over all, starting with *at = 0 */

#pragma GCC visibility pop

#endif
