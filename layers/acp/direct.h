/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of copies. */
#ifndef AL_DIRECT_H
#define AL_DIRECT_H

#include "task.h"

#pragma GCC visibility push(hidden)

/* Executes a command; false: not a copy for the fast path. */
bool al_direct_execute(struct al_task *task);

#pragma GCC visibility pop

#endif
