/* SPDX-License-Identifier: Apache-2.0 */
/* Copies with one or two GAs of this process. */
#ifndef AL_COPY_H
#define AL_COPY_H

#include "net.h"
#include "task.h"

#pragma GCC visibility push(hidden)

void al_copy_step(struct al_task *task);
/* Allocates the op of a copy that is in flight as a whole. */
struct lc_op *al_copy_op(struct al_task *task, uint32_t rank, uint32_t color);

#pragma GCC visibility pop

#endif
