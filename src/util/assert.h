/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions of invariants, which hold whatever programs and peers do. They are evaluated if
 * UT_ASSERTIONS is defined (by the option `assertions`, and for the tests of suite checked).
 * Otherwise they are compiled, but generate no code. If a program or a peer can violate a
 * condition, the violation is an error with a return code, not an assertion.
 */
#ifndef UT_UTIL_ASSERT_H
#define UT_UTIL_ASSERT_H

/* Prints the condition, and aborts. */
void ut_assert_failed(const char *what, const char *file, int line, const char *function)
    __attribute__((noreturn, cold));

#ifdef UT_ASSERTIONS
#    define UT_ASSERT(what)                                                                        \
        ((what) ? (void)0 : ut_assert_failed(#what, __FILE__, __LINE__, __func__))
#else
#    define UT_ASSERT(what) ((void)sizeof((what) ? 1 : 0))
#endif

/* Asserts that the mutex is locked, which should be by the caller. Include <pthread.h> first. */
#define UT_ASSERT_LOCKED(mutex) UT_ASSERT(pthread_mutex_trylock(mutex) != 0)

#endif
