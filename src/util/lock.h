/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ: one atomic exchange when nobody else holds it. The only other holder is the
 * background thread, and for thread-safe VCQs another thread of the program.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/assert.h"

struct ut_lock {
    uint64_t held; /* as wide as a handle: both are looked at at once */
};

/* Whoever holds it: for assertions. */
static inline bool ut_is_locked(const struct ut_lock *lock)
{
    return __atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0;
}

/* 0: the caller holds it now; 1: somebody else does. */
static inline uint64_t ut_lock_grab(struct ut_lock *lock)
{
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE);
}

static inline bool ut_trylock(struct ut_lock *lock)
{
    return ut_lock_grab(lock) == 0;
}

/* The slow path of ut_lock(), not inlined. */
void ut_lock_contended(struct ut_lock *lock) __attribute__((cold));

static inline void ut_lock(struct ut_lock *lock)
{
    if (__builtin_expect(!ut_trylock(lock), 0))
        ut_lock_contended(lock);
}

/* The same with a deadline (ut_now_ms()), false when it is over: the caller may be a signal handler
 * that has interrupted the holder and does not return. */
bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms);

static inline void ut_unlock(struct ut_lock *lock)
{
    UT_ASSERT(ut_is_locked(lock));
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* In the child of a fork, where whoever held it is not there. */
static inline void ut_lock_reset(struct ut_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELAXED);
}

#endif
