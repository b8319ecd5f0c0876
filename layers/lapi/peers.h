/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks that this task communicates with. */
#ifndef LA_PEERS_H
#define LA_PEERS_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_peers_setup(void);
void la_peers_close(void);
struct la_peer *la_peer_find(uint32_t rank); /* NULL: not connected yet */
/* Finds the task and gets a lane. NULL: *rc is a LAPI_ERR_* code. */
struct la_peer *la_peer_connect(uint32_t rank, int *rc);
/* Finds the VCQ id of any task, and does not store it. Returns a code of uTofu. */
int la_peer_query_id(uint32_t rank, utofu_vcq_id_t *id);
/* Iterates over all peers, starting with *cursor = 0. NULL: there are no more. */
struct la_peer *la_peer_iterate(uint32_t *cursor);

#pragma GCC visibility pop

#endif
