/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ. Nearly always the same thread takes it, so that thread becomes its owner and
 * takes it with a store and three loads, where other threads need an atomic exchange. The owner
 * first marks that it has entered, and then looks whether another thread has the lock; another
 * thread first marks the lock as held, and then looks whether the owner has entered. The owner's
 * store could still be in its CPU's store buffer at that look: membarrier(2) makes it visible. Then
 * the lock has no owner until the candidate has taken it MANY times in a row: by then the longer
 * way has cost as much as another membarrier().
 *
 * The first thread that does so is the candidate for ever, as `entered` may have one writer only: a
 * thread that found itself to be the owner a moment ago may write it at any time.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/assert.h"
#include "util/self.h"

struct ut_lock {
    uintptr_t owner;  /* atomic: the thread that takes the lock by `entered` alone; 0: none */
    uint32_t entered; /* atomic: the owner has the lock, or looks whether it does */
    uint32_t held;    /* atomic: another thread has the lock, or waits for the owner to leave */
    /* with the lock held */
    uintptr_t candidate; /* the only thread that can be the owner, once there was one */
    uint32_t row;        /* how often `candidate` has taken the lock in a row */
    bool chosen;         /* there was an owner */
};

/* Whether locks may have owners: asks the kernel for membarrier(). Before the first lock is used,
 * and in the child of a fork. */
void ut_lock_open(void);

/* Does any thread hold the lock? For assertions. */
static inline bool ut_is_locked(const struct ut_lock *lock)
{
    return __atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&lock->entered, __ATOMIC_RELAXED) != 0;
}

/* `entered` is already set if a signal handler has interrupted the owner in a call. */
static inline bool ut_trylock_by_owner(struct ut_lock *lock)
{
    uintptr_t self = ut_self();

    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != self ||
        __atomic_load_n(&lock->entered, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&lock->entered, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(__atomic_load_n(&lock->held, __ATOMIC_ACQUIRE) == 0 &&
                             __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == self,
                         1))
        return true;
    __atomic_store_n(&lock->entered, 0, __ATOMIC_RELAXED);
    return false;
}

/* ut_trylock() and ut_lock() of any thread, not inlined. Cold: their callers do not save registers
 * for them on the owner's way. */
bool ut_trylock_slow(struct ut_lock *lock) __attribute__((cold));
void ut_lock_slow(struct ut_lock *lock) __attribute__((cold));

/* False: another thread holds the lock. */
static inline bool ut_trylock(struct ut_lock *lock)
{
    return __builtin_expect(ut_trylock_by_owner(lock), 1) || ut_trylock_slow(lock);
}

static inline void ut_lock(struct ut_lock *lock)
{
    if (__builtin_expect(!ut_trylock_by_owner(lock), 0))
        ut_lock_slow(lock);
}

/* As ut_trylock(), for a thread that looks in now and then: the lock keeps its owner. */
bool ut_trylock_keep_owner(struct ut_lock *lock);

/* As ut_lock(), with a deadline (ut_now_ms()); false: timeout. A signal handler may have
 * interrupted the holder without returning. */
bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms);

/* The owner always holds the lock by `entered`, and no other thread does. */
static inline void ut_unlock(struct ut_lock *lock)
{
    UT_ASSERT(ut_is_locked(lock));
    if (__builtin_expect(__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == ut_self(), 1))
        __atomic_store_n(&lock->entered, 0, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* In the child of a fork, which does not have the holder's thread. */
void ut_lock_reset(struct ut_lock *lock);

#endif
