/* SPDX-License-Identifier: Apache-2.0 */
/* How calls wait, and the thread for interrupts. */
#ifndef LA_WAIT_H
#define LA_WAIT_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_wait_setup(void);
/* Waits briefly, with the lock released; increments *idle_count, the number of waits since the
 * caller last found something to do. */
void la_pause(uint32_t *idle_count);
/* The same for a caller that polls before and after: the thread for interrupts does not poll
 * meanwhile. */
void la_pause_between_polls(uint32_t *idle_count);
/* Calls la_progress() or la_pause_between_polls(), for loops that wait. */
void la_progress_or_wait(uint32_t *idle_count);
bool la_interrupt_thread_start(void);
/* Joins the thread. The caller may hold the lock, because the thread only tries to take it. */
void la_interrupt_thread_stop(void);

#pragma GCC visibility pop

#endif
