/* SPDX-License-Identifier: Apache-2.0 */
/* Other tasks: those that are used, and those that are gone. */
#ifndef LA_TASKS_H
#define LA_TASKS_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * watch.c
 */
void la_watch_setup(void);
void la_watch_poll(void);
void la_watch_peer_lost(uint32_t rank, const char *why);
bool la_watch_is_gone(uint32_t rank);

/*
 * peers.c
 */
void la_peers_setup(void);
void la_peers_close(void);
struct la_peer *la_peer_find(uint32_t rank);             /* NULL: not used yet */
struct la_peer *la_peer_connect(uint32_t rank, int *rc); /* finds it; NULL and a LAPI_ERR_* code */
int la_peer_query_id(uint32_t rank, utofu_vcq_id_t *id); /* without keeping it; a code of uTofu's */
struct la_peer *la_peer_next(uint32_t *at);              /* all, beginning with *at = 0 */

#pragma GCC visibility pop

#endif
