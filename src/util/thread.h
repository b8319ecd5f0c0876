/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library: no signal is delivered to them, as handlers are for the program's
 * threads. */
#ifndef UT_UTIL_THREAD_H
#define UT_UTIL_THREAD_H

#include <pthread.h>

/* name: at most 15 bytes, or NULL. thread: to join it, or NULL: it is detached. 0 or -errno. */
int ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread);

#endif
