/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library: all signals are blocked in them, as handlers are for the program's
 * threads; and they do not keep a process alive after all of the program's threads have ended. */
#ifndef UT_UTIL_THREAD_H
#define UT_UTIL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* name: at most 15 bytes, or NULL. thread: for joining; NULL: detached. 0 or -errno. */
int ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread);

/* Is this thread of the process one that ut_thread_create() started, or one that
 * ut_thread_adopt() found? */
bool ut_thread_is_ours(pid_t id);

/* Threads that another library starts when a thread of this one calls it count as this library's
 * threads: those that exist after the call, did not exist before it, and block all signals. */
enum { UT_THREAD_LIST_MAX = 1024 };
struct ut_thread_list {
    unsigned int num;
    pid_t ids[UT_THREAD_LIST_MAX];
};
void ut_thread_list(struct ut_thread_list *list);
void ut_thread_adopt(const struct ut_thread_list *before);

#endif
