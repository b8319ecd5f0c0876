/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the program where a lock is released that nobody holds: a function that has forgotten to
 * take it, which no result shows. Counts those that a thread holds. Replaces the C library's
 * functions in the including program. To be included once.
 */
#ifndef UT_TEST_HELD_LOCKS_H
#define UT_TEST_HELD_LOCKS_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
static __thread unsigned int num_held_locks;

typedef int lock_function(pthread_mutex_t *);

static lock_function *find_lock_function(const char *name)
{
    void *address = dlsym(RTLD_NEXT, name);
    lock_function *function;

    memcpy(&function, &address, sizeof(function));
    return function;
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
    static lock_function *take;

    if (!take)
        take = find_lock_function("pthread_mutex_lock");
    int rc = take(lock);
    num_held_locks += rc == 0;
    return rc;
}

int pthread_mutex_trylock(pthread_mutex_t *lock)
{
    static lock_function *take;

    if (!take)
        take = find_lock_function("pthread_mutex_trylock");
    int rc = take(lock);
    num_held_locks += rc == 0;
    return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
    static const char text[] = "a lock is released that nobody holds\n";
    static lock_function *release;

    if (!release)
        release = find_lock_function("pthread_mutex_unlock");
    if (lock->__data.__lock == 0) {
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(66);
    }
    num_held_locks--;
    return release(lock);
}

static inline bool a_lock_is_held(void)
{
    return num_held_locks > 0;
}
#else
static inline bool a_lock_is_held(void) /* not known */
{
    return true;
}
#endif

#endif
