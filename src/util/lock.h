/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a VCQ: one atomic exchange when nobody else holds it. The only other holder is the
 * background thread, and for thread-safe VCQs another thread of the program.
 */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct ut_lock {
    uint32_t held;
};

static inline void ut_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool ut_trylock(struct ut_lock *lock)
{
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void ut_lock(struct ut_lock *lock)
{
    for (unsigned int spins = 0; !ut_trylock(lock); spins++) {
        while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED)) {
            if (++spins > 64)
                sched_yield(); /* the holder may need this very core */
            else
                ut_cpu_relax();
        }
    }
}

static inline void ut_unlock(struct ut_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
