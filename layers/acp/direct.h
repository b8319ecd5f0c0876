/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of copies. */
#ifndef AL_DIRECT_H
#define AL_DIRECT_H

#include "acp.h"
#include "task.h"

#pragma GCC visibility push(hidden)

/* Executes a command; false: not a copy for the fast path. */
bool al_direct_execute(struct al_task *task);

/*
 * Functions that issue GMAs
 */

acp_handle_t al_gma_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order);

#pragma GCC visibility pop

#endif
