/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier. */
#ifndef AL_SYNC_H
#define AL_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

void al_sync_setup(void);
/* False: the timeout has passed. timeout_ns 0: none. function: name of the called function, for
 * messages. */
bool al_sync_wait(const char *function, uint64_t timeout_ns);

#pragma GCC visibility pop

#endif
