/* SPDX-License-Identifier: Apache-2.0 */
/* The common copy. */
#ifndef AL_DIRECT_H
#define AL_DIRECT_H

#include "task.h"

#pragma GCC visibility push(hidden)

bool al_direct_execute(struct al_task *task); /* of a command; false: it is none of these */

#pragma GCC visibility pop

#endif
