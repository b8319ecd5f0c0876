/* SPDX-License-Identifier: Apache-2.0 */
/* Copies with one GA of this process, or both. */
#ifndef AL_COPY_H
#define AL_COPY_H

#include "net.h"
#include "task.h"

#pragma GCC visibility push(hidden)

void al_copy_step(struct al_task *task);
/* The op of a copy whose data is on the way as a whole. */
struct lc_op *al_copy_op(struct al_task *task, uint32_t rank, uint32_t color);

#pragma GCC visibility pop

#endif
