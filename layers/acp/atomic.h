/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations. */
#ifndef AL_ATOMIC_H
#define AL_ATOMIC_H

#include "task.h"

#pragma GCC visibility push(hidden)

void al_atomic_step(struct al_task *task);

#pragma GCC visibility pop

#endif
