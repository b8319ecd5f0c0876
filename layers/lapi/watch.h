/* SPDX-License-Identifier: Apache-2.0 */
/* Detects tasks that have ended, and knows which ones have. */
#ifndef LA_WATCH_H
#define LA_WATCH_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_watch_setup(void);
void la_watch_close(void);
void la_watch_poll(void); /* reads announcements, and probes the next task if a probe is due */
void la_watch_set_gone(uint32_t rank, const char *why); /* logs, and calls peer_gone() */
bool la_watch_is_gone(uint32_t rank);

#pragma GCC visibility pop

#endif
