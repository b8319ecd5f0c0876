/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier and fences of all tasks. */
#ifndef LA_SYNC_H
#define LA_SYNC_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_sync_setup(void);
void la_sync_close(void);
/* Both return a LAPI_ERR_* code. timeout_ns 0: none. function: name of the called function, for
 * messages. */
int la_barrier(const char *function, uint64_t timeout_ns);
int la_fence(const char *function); /* waits until targets have all messages of this task */

#pragma GCC visibility pop

#endif
