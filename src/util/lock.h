/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ. Nearly always the same thread takes the lock, so this thread becomes its
 * owner. The owner takes the lock with a store and four loads; other threads need an atomic
 * exchange. The owner first marks that it has entered, and then checks whether another thread has
 * the lock. Another thread first marks the lock as held, and then checks whether the owner has
 * entered. At that moment the store of the owner may still be in the store buffer of its CPU, and
 * membarrier(2) makes it visible. After that the lock has no owner until the candidate has taken it
 * MANY times in a row: by then the slow path has cost as much as another membarrier().
 * The first thread that takes the lock MANY times in a row is the candidate for ever: `entered` may
 * have only one writer, and a thread that has just found itself to be the owner may write it at any
 * time.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/assert.h"
#include "util/self.h"

struct ut_lock {
    uintptr_t owner;  /* atomic: the thread that takes the lock by `entered` alone; 0: no owner */
    uint32_t entered; /* atomic: the owner has the lock, or is checking whether it does */
    uint32_t held;    /* atomic: another thread has the lock, or waits for the owner to leave */
    /* the fields below are accessed with the lock held */
    uintptr_t candidate; /* the only thread that can be the owner, once there has been one */
    uint32_t row;        /* how often `candidate` has taken the lock in a row */
    bool chosen;         /* the lock has had an owner */
};

/* Asks the kernel whether membarrier() works, so that locks may have owners. Called before the
 * first lock is used, and in the child of a fork. */
void ut_lock_open(void);

/* For assertions: does any thread hold the lock? */
static inline bool ut_is_locked(const struct ut_lock *lock)
{
    return __atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&lock->entered, __ATOMIC_RELAXED) != 0;
}

/* False if another thread is the owner or holds the lock. `entered` is already set if a signal
 * handler has interrupted a call of the owner. */
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
    /* a thread that waits may read this store instead of that of the unlock before */
    __atomic_store_n(&lock->entered, 0, __ATOMIC_RELEASE);
    return false;
}

/* The slow paths of ut_trylock() and ut_lock() for any thread, not inlined. Cold, so that callers
 * save no registers for them on the fast path. */
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

/* Does the same as ut_trylock(), for a thread that takes the lock now and then: the lock keeps its
 * owner. */
bool ut_trylock_keep_owner(struct ut_lock *lock);

/* Does the same as ut_lock(), with a deadline (ut_now_ms()). False: timeout, perhaps because a
 * signal handler has interrupted the holder without returning. */
bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms);

/* The owner always holds the lock by `entered`; no other thread does. */
static inline void ut_unlock(struct ut_lock *lock)
{
    UT_ASSERT(ut_is_locked(lock));
    if (__builtin_expect(__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == ut_self(), 1))
        __atomic_store_n(&lock->entered, 0, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* Releases the lock in the child of a fork, which does not have the holder's thread. */
void ut_lock_reset(struct ut_lock *lock);

#endif
