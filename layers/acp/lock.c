/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the lock. Only a copy within this process holds it for long. */
#include "layer.h"

#include <sched.h>

enum { SPINS = 64 };

void al_lock_wait(void)
{
    uint32_t spins = 0;

    while (__atomic_load_n(&al.lock, __ATOMIC_RELAXED) == AL_LOCKED)
        if (++spins > SPINS)
            sched_yield(); /* the holder may need this core */
}

void al_lock_slow(uint32_t was)
{
    for (; was == AL_LOCKED; was = al_lock_grab())
        al_lock_wait();
    if (was == AL_ASLEEP)
        al_progress_wake();
}
