/* SPDX-License-Identifier: Apache-2.0 */
/* The slow path of a lock, for threads other than its owner. See lock.h. */
#include "util/lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/back_off.h"
#include "util/clock.h"

/* A put off the owner's path takes some 40 ns longer, and a membarrier() 2 us while other threads
 * run (Intel Xeon). */
enum { MANY = 64, LONG_NS = 1000000 };

static bool may_be_owned; /* atomic */

static bool ask_for_barriers(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void ut_lock_open(void)
{
    __atomic_store_n(&may_be_owned, ask_for_barriers(), __ATOMIC_RELAXED);
}

/* Makes the earlier stores of other threads visible. If the program has forbidden membarrier() by
 * seccomp meanwhile, waits for a time after which no store is in a store buffer. */
static void see_stores_of_all(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return;
    ut_lock_open();
    nanosleep(&(struct timespec){.tv_nsec = LONG_NS}, NULL);
}

static bool has_entered(const struct ut_lock *lock)
{
    return __atomic_load_n(&lock->entered, __ATOMIC_ACQUIRE);
}

/* Called by the owner, which has set `held`. False: this is a signal handler that has interrupted a
 * call of the owner. */
static bool hold_as_owner(struct ut_lock *lock)
{
    bool entered = has_entered(lock);

    __atomic_store_n(&lock->entered, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
    return !entered;
}

/* The caller has set `held`. False: the owner has the lock, and the caller does not want to wait.
 */
static bool owner_is_out(const struct ut_lock *lock, bool waits)
{
    uint32_t rounds = 0;

    if (!waits && has_entered(lock))
        return false;
    see_stores_of_all();
    while (has_entered(lock)) {
        if (!waits)
            return false;
        ut_back_off(&rounds);
    }
    return true;
}

static bool take_lock(struct ut_lock *lock, bool waits)
{
    if (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE))
        return false;
    uintptr_t owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);
    if (owner == ut_self())
        return hold_as_owner(lock);
    if (owner == 0 || owner_is_out(lock, waits))
        return true;
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
    return false;
}

/* Called with the lock held: counts how often this thread took the lock in a row. */
static void count_row(struct ut_lock *lock)
{
    uintptr_t self = ut_self();

    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == self)
        return;
    if (lock->candidate != self) {
        __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
        lock->row = 0;
        if (!lock->chosen)
            lock->candidate = self;
    } else if (++lock->row >= MANY && __atomic_load_n(&may_be_owned, __ATOMIC_RELAXED)) {
        lock->chosen = true;
        __atomic_store_n(&lock->owner, self, __ATOMIC_RELAXED);
        hold_as_owner(lock);
    }
}

bool ut_trylock_slow(struct ut_lock *lock)
{
    if (!take_lock(lock, false))
        return false;
    count_row(lock);
    return true;
}

bool ut_trylock_keep_owner(struct ut_lock *lock)
{
    return ut_trylock_by_owner(lock) || take_lock(lock, false);
}

void ut_lock_slow(struct ut_lock *lock)
{
    for (uint32_t rounds = 0; !take_lock(lock, true);) {
        do
            ut_back_off(&rounds);
        while (ut_is_locked(lock));
    }
    count_row(lock);
}

bool ut_lock_until(struct ut_lock *lock, uint64_t until_ms)
{
    for (uint32_t rounds = 0; !ut_trylock(lock); ut_back_off_yielding(&rounds)) {
        if (ut_now_ms() >= until_ms)
            return false;
    }
    return true;
}

void ut_lock_reset(struct ut_lock *lock)
{
    *lock = (struct ut_lock){0};
}
