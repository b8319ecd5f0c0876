/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher: the order in which records are executed. */
#ifndef LA_DISPATCH_H
#define LA_DISPATCH_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_dispatch_setup(void);
void la_dispatch_arrived(uint32_t slot);
/* True if records may be handled before their notices are polled; false: poll notices first, so
 * that the MRQ does not overflow. */
static inline bool la_dispatch_may_poll_memory(void)
{
    return la.dispatch.num_early < LA_MAX_EARLY &&
           __atomic_load_n(&la.control.words->lanes, __ATOMIC_RELAXED) > 0;
}
bool la_dispatch_poll_memory(void); /* executes records whose notices have not been polled */
bool la_dispatch_run(void);

#pragma GCC visibility pop

#endif
