/* SPDX-License-Identifier: Apache-2.0 */
/* The only instance of the state of the layer. */
#include "context.h"

/* All bytes are zero, so it takes no space in the file. */
struct la la = {
    .cmpl_thread = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work_queued = PTHREAD_COND_INITIALIZER}};
