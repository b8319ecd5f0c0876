/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock. Taking it usually costs one atomic exchange; a waiting thread spins, then yields. A
 * thread that sleeps in utofu_wait_vcqs() leaves the lock as AL_ASLEEP. The next thread that takes
 * the lock ends that sleep, because operations on a VCQ with a sleeping waiter cost more.
 */
#ifndef AL_LOCK_H
#define AL_LOCK_H

#include "ctx.h"

#pragma GCC visibility push(hidden)

enum { AL_UNLOCKED, AL_LOCKED, AL_ASLEEP };
void al_lock_wait(void) __attribute__((cold)); /* waits until the lock may be free */
void al_lock_slow(uint32_t was) __attribute__((cold));

/* Returns the previous value. AL_LOCKED: another thread has the lock. */
static inline uint32_t al_lock_grab(void)
{
    return __atomic_exchange_n(&al.lock, AL_LOCKED, __ATOMIC_ACQUIRE);
}

static inline void al_lock(void)
{
    uint32_t was = al_lock_grab();

    if (__builtin_expect(was != AL_UNLOCKED, 0))
        al_lock_slow(was);
}

static inline void al_unlock(void)
{
    __atomic_store_n(&al.lock, AL_UNLOCKED, __ATOMIC_RELEASE);
}

static inline void al_unlock_asleep(void)
{
    __atomic_store_n(&al.lock, AL_ASLEEP, __ATOMIC_RELEASE);
}

#pragma GCC visibility pop

#endif
