/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher: the order in which records are executed. */
#ifndef LA_DISPATCH_H
#define LA_DISPATCH_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_dispatch_setup(void);
void la_dispatch_handle_notice(uint32_t slot); /* a put has written a record to the slot */
/* True if records may be handled before their notices are polled; false: poll notices first, so
 * that the MRQ does not overflow. */
static inline bool la_dispatch_may_poll_memory(void)
{
    return la.dispatch.num_notices_due < LA_MAX_NOTICES_DUE &&
           __atomic_load_n(&la.control.words->lanes_requested, __ATOMIC_RELAXED) > 0;
}
/* Finds records in memory whose notices have not been polled. True: one was executed. */
bool la_dispatch_poll_memory(void);
/* Executes records that wait in la.dispatch.ready. True: one was executed. */
bool la_dispatch_run(void);

#pragma GCC visibility pop

#endif
