/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ: one atomic exchange when nobody else holds it. The only other holder is the
 * background thread, and for thread-safe VCQs another thread of the program.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct ut_lock {
    uint32_t held;
};

/* 0: the caller holds it now; 1: somebody else does. */
static inline uint32_t ut_lock_grab(struct ut_lock *lock)
{
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE);
}

static inline bool ut_trylock(struct ut_lock *lock)
{
    return ut_lock_grab(lock) == 0;
}

/* The rest of ut_lock(), out of the way of its callers' registers. */
void ut_lock_contended(struct ut_lock *lock) __attribute__((cold));

static inline void ut_lock(struct ut_lock *lock)
{
    if (__builtin_expect(!ut_trylock(lock), 0))
        ut_lock_contended(lock);
}

static inline void ut_unlock(struct ut_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
