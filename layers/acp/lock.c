/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the lock. Only a copy within this process holds it for long. */
#include "layer.h"

#include <sched.h>

enum { SPINS = 64 };

void al_lock_wait(void)
{
    uint32_t spins = 0;

    while (!al_trylock())
        while (__atomic_load_n(&al.lock, __ATOMIC_RELAXED) != 0)
            if (++spins > SPINS)
                sched_yield(); /* the holder may need this core */
}
