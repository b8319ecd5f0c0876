/* SPDX-License-Identifier: Apache-2.0 */
/* A number that identifies the calling thread among living threads; never 0. */
#ifndef UT_UTIL_SELF_H
#define UT_UTIL_SELF_H

#include <pthread.h>
#include <stdint.h>

#if defined(__has_builtin)
#    if __has_builtin(__builtin_thread_pointer)
#        define UT_THREAD_POINTER
#    endif
#endif

static inline uintptr_t ut_self(void)
{
#ifdef UT_THREAD_POINTER
    return (uintptr_t)__builtin_thread_pointer();
#else
    return (uintptr_t)pthread_self();
#endif
}

/*
 * Thread-local variables: a few words, at most 64 bytes for the whole library (a test counts them).
 * Their access needs no call of the dynamic linker (initial-exec), so they take static TLS. A
 * program that loads libraries late has little of it for all of them together.
 */

#define UT_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

#endif
