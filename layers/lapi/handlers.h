/* SPDX-License-Identifier: Apache-2.0 */
/* The thread for completion handlers. */
#ifndef LA_HANDLERS_H
#define LA_HANDLERS_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_handlers_add(struct la_job *job); /* false: there is no thread */
void la_handlers_stop(void);              /* without the lock */
bool la_handlers_is_this(void);           /* thread */
bool la_handlers_busy(void);              /* with some that have not ended; any thread */
/* A completion handler waits for something, in a call of this thread. */
bool la_handlers_wait(void);
void la_handlers_begin_wait(void);
void la_handlers_end_wait(void);

#pragma GCC visibility pop

#endif
