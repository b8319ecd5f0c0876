/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ: one atomic exchange without contention. The only other holders are the
 * background thread, and for thread-safe VCQs other threads of the program.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/assert.h"

struct ut_lock {
    uint64_t held; /* as wide as a handle: both are tested together */
};

/* Does any thread hold the lock? For assertions. */
static inline bool ut_is_locked(const struct ut_lock *lock)
{
    return __atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0;
}

/* 0: the caller now holds the lock; 1: another thread does. */
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

/* As ut_lock(), with a deadline (ut_now_ms()); false: timeout. A signal handler may have
 * interrupted the holder without returning. */
bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms);

static inline void ut_unlock(struct ut_lock *lock)
{
    UT_ASSERT(ut_is_locked(lock));
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* In the child of a fork, which does not have the holder's thread. */
static inline void ut_lock_reset(struct ut_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELAXED);
}

#endif
