/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks are taken and released in pairs: a program that releases a lock which it does not have, or
 * takes one twice, ends. To be included once, by a program that is linked with --wrap for the three
 * functions.
 */
#ifndef TESTS_CHECKED_LOCKS_H
#define TESTS_CHECKED_LOCKS_H

#include <pthread.h>
#include <stdlib.h>

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    pthread_mutexattr_t checks;

    if (attr)
        return __real_pthread_mutex_init(mutex, attr);
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    int rc = __real_pthread_mutex_init(mutex, &checks);
    pthread_mutexattr_destroy(&checks);
    return rc;
}

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (__real_pthread_mutex_lock(mutex) != 0)
        abort(); /* this thread has it */
    return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (__real_pthread_mutex_unlock(mutex) != 0)
        abort(); /* this thread does not have it */
    return 0;
}

#endif
