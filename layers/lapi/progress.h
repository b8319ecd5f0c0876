/* SPDX-License-Identifier: Apache-2.0 */
/* Makes everything go on, and waits meanwhile. */
#ifndef LA_PROGRESS_H
#define LA_PROGRESS_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * progress.c
 */
bool la_progress(void);
void la_progress_arrived(utofu_stadd_t stadd); /* struct la_events */
void la_progress_gone(uint32_t rank);

/*
 * wait.c
 */
void la_waits_setup(void);
/* Waits a little, with the lock given away; idle counts the calls since something happened. */
void la_pause(uint32_t *idle);
void la_rest(uint32_t *idle);  /* the same, where the thread for interrupts is to go on */
void la_go_on(uint32_t *idle); /* la_progress(), or la_pause(): in loops that wait */
bool la_waits_start_thread(void);
void la_waits_stop_thread(void); /* without the lock */

#pragma GCC visibility pop

#endif
