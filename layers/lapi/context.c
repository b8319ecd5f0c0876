/* SPDX-License-Identifier: Apache-2.0 */
/* The one instance of what the layer knows. */
#include "context.h"

/* All zero, so that it takes no place in the file. */
struct la la = {
    .cmpl_thread = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER}};
