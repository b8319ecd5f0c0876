/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs completion handlers. */
#ifndef LA_CMPL_THREAD_H
#define LA_CMPL_THREAD_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_cmpl_thread_enqueue(struct la_work *work); /* false: the thread could not be started */
void la_cmpl_thread_stop(void);                    /* called without the lock */
bool la_cmpl_thread_is_self(void);                 /* true in this thread */
bool la_cmpl_thread_is_busy(void); /* handlers are queued or running; needs no lock */
/* True if a completion handler is inside a call that waits. Such calls report begin and end. */
bool la_cmpl_handler_waits(void);
void la_cmpl_handler_begin_wait(void);
void la_cmpl_handler_end_wait(void);

#pragma GCC visibility pop

#endif
