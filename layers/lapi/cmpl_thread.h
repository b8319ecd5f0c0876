/* SPDX-License-Identifier: Apache-2.0 */
/* The thread for completion handlers. */
#ifndef LA_CMPL_THREAD_H
#define LA_CMPL_THREAD_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_cmpl_thread_enqueue(struct la_work *job); /* false: there is no thread */
void la_cmpl_thread_stop(void);                   /* without the lock */
bool la_cmpl_thread_is_self(void);                /* thread */
bool la_cmpl_thread_is_busy(void);                /* with some that have not ended; any thread */
/* A completion handler waits for something, in a call of this thread. */
bool la_cmpl_handler_waits(void);
void la_cmpl_handler_begin_wait(void);
void la_cmpl_handler_end_wait(void);

#pragma GCC visibility pop

#endif
