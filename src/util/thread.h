/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. All signals are blocked in them, because handlers belong to the program's
 * threads. They do not keep a process alive after all threads of the program have ended. */
#ifndef UT_UTIL_THREAD_H
#define UT_UTIL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* Starts a thread. name: at most 15 bytes, or NULL. thread: for joining; NULL: detached. 0 or
 * -errno. */
int ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread);

/* True for a thread that ut_thread_create() has started or ut_thread_adopt() has found. */
bool ut_thread_is_ours(pid_t id);

/* If a thread of this library calls another library, threads that this call starts count as this
 * library's: threads that exist after the call, did not exist before it, and block all signals.
 * ut_thread_list() is called before, ut_thread_adopt() after. */
enum { UT_THREAD_LIST_MAX = 1024 };
struct ut_thread_list {
    unsigned int num;
    pid_t ids[UT_THREAD_LIST_MAX];
};
void ut_thread_list(struct ut_thread_list *list);
void ut_thread_adopt(const struct ut_thread_list *before);

#endif
