/* SPDX-License-Identifier: Apache-2.0 */
/* How threads wait for the lock. Only a copy within this process holds the lock for long. */
#include "lock.h"
#include "net.h"

#include "../common/idle.h"

void al_lock_wait(void)
{
    lc_spin_while_equal(&al.lock, AL_LOCKED);
}

void al_lock_slow(uint32_t was)
{
    for (; was == AL_LOCKED; was = al_lock_grab())
        al_lock_wait();
    if (was == AL_ASLEEP)
        al_net_wake();
}
