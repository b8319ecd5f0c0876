/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that have ended. */
#ifndef LA_WATCH_H
#define LA_WATCH_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_watch_setup(void);
void la_watch_poll(void);
void la_watch_peer_lost(uint32_t rank, const char *why);
bool la_watch_is_gone(uint32_t rank);

#pragma GCC visibility pop

#endif
