/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock. See lock.h. */
#include "util/lock.h"

#include <sched.h>

#include "util/clock.h"

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ut_lock_contended(struct ut_lock *lock)
{
    for (unsigned int spins = 0; !ut_trylock(lock); spins++) {
        while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED)) {
            if (++spins > 64)
                sched_yield(); /* the holder may need this core */
            else
                cpu_relax();
        }
    }
}

bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms)
{
    while (!ut_trylock(lock)) {
        if (ut_now_ms() >= until_ms)
            return false;
        sched_yield();
    }
    return true;
}
