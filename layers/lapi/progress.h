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
void la_progress_put_arrived(utofu_stadd_t stadd); /* struct la_upcalls */
void la_progress_peer_gone(uint32_t rank);

/*
 * wait.c
 */
void la_wait_setup(void);
/* Waits a little, with the lock given away; idle counts the calls since something happened. */
void la_wait_polling(uint32_t *idle);
void la_wait_idle(uint32_t *idle); /* the same, where the thread for interrupts is to go on */
void la_progress_or_wait(
    uint32_t *idle); /* la_progress(), or la_wait_polling(): in loops that wait */
bool la_interrupt_thread_start(void);
void la_interrupt_thread_stop(void); /* without the lock */

#pragma GCC visibility pop

#endif
