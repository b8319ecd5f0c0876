/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the program where a lock is released that nobody holds: a function that has forgotten to
 * take it, which no result shows. Replaces the C library's function in the including program. To be
 * included once.
 */
#ifndef UT_TEST_HELD_LOCKS_H
#define UT_TEST_HELD_LOCKS_H

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
int pthread_mutex_unlock(pthread_mutex_t *lock)
{
    static const char text[] = "a lock is released that nobody holds\n";
    static int (*unlock)(pthread_mutex_t *);

    if (!unlock) {
        void *address = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
        memcpy(&unlock, &address, sizeof(unlock));
    }
    if (lock->__data.__lock == 0) {
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(66);
    }
    return unlock(lock);
}
#endif

#endif
