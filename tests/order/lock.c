/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a VCQ: its owner, other threads, and the change of its owner. */
#include <linux/membarrier.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "util/back_off.h"
#include "util/lock.h"
#include "verifier.h"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum { MANY = 64 }; /* as in lock.c */

static struct ut_lock lock;
static uint64_t guarded; /* not atomic */
static bool forbidden;   /* membarrier() */

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list args;

    va_start(args, number);
    int command = va_arg(args, int);
    va_end(args);
    UV_CHECK(number == SYS_membarrier);
    if (forbidden)
        return -1;
    if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        uv_membarrier();
    return 0;
}

/* Waits until no store is in a store buffer. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time, (void)left;
    uv_membarrier();
    return 0;
}

void __wrap_ut_back_off(uint32_t *rounds);
void __wrap_ut_back_off(uint32_t *rounds)
{
    (void)rounds;
    uv_pause();
}

static void make_free(void)
{
    memset(&lock, 0, sizeof(lock));
    guarded = 0;
    forbidden = false;
    ut_lock_open();
}

static void take_often(uintptr_t self, int times)
{
    uv_be(self);
    for (int i = 0; i < times; i++) {
        ut_lock(&lock);
        ut_unlock(&lock);
    }
}

/* Thread 1 is the owner. */
static void make_owned(void)
{
    make_free();
    take_often(1, MANY + 1);
    UV_CHECK(lock.owner == 1);
}

static void make_owned_and_forbidden(void)
{
    make_owned();
    forbidden = true;
}

/* Thread 1 becomes the owner when it takes the lock once more. */
static void make_nearly_owned(void)
{
    make_free();
    take_often(1, MANY);
    UV_CHECK(lock.owner == 0 && lock.row == MANY - 1);
}

/* The same, for a lock that has had this owner before. */
static void make_nearly_owned_again(void)
{
    make_owned();
    take_often(2, 1);
    take_often(1, MANY - 1);
    UV_CHECK(lock.owner == 0 && lock.row == MANY - 1);
}

static void lock_once(void)
{
    ut_lock(&lock);
    guarded++;
    ut_unlock(&lock);
}

static void lock_twice(void)
{
    lock_once();
    lock_once();
}

static void try_once(void)
{
    if (!ut_trylock(&lock))
        return;
    guarded++;
    ut_unlock(&lock);
}

static void try_keeping(void)
{
    if (!ut_trylock_keep_owner(&lock))
        return;
    guarded++;
    ut_unlock(&lock);
}

static void lock_keeping_twice(void)
{
    try_keeping();
    try_keeping();
}

static void is_absent(void)
{
}

static void is_free(void)
{
    UV_CHECK(!ut_is_locked(&lock));
}

static void two_were_in(void)
{
    is_free();
    UV_CHECK(guarded == 2);
}

static void three_were_in(void)
{
    is_free();
    UV_CHECK(guarded == 3);
}

static void owner_is_kept(void)
{
    is_free();
    UV_CHECK(lock.owner == 1);
}

static const struct uv_scenario scenarios[] = {
    {"owner_and_other", make_owned, {lock_once, lock_once}, two_were_in, 0, false},
    {"owner_twice_and_other", make_owned, {lock_twice, lock_once}, three_were_in, 0, false},
    {"owner_and_other_twice", make_owned, {lock_once, lock_twice}, three_were_in, 0, false},
    {"owner_and_two_others", make_owned, {lock_once, lock_once, lock_once}, three_were_in, 0, true},
    {"others_alone", make_owned, {is_absent, lock_once, lock_once}, two_were_in, 0, false},
    {"no_owner", make_free, {lock_once, lock_once}, two_were_in, 0, false},
    {"owner_tries", make_owned, {try_once, lock_once}, is_free, 0, false},
    {"other_tries", make_owned, {lock_twice, try_once}, is_free, 0, false},
    {"thread_keeps_owner", make_owned, {lock_twice, lock_keeping_twice}, owner_is_kept, 0, true},
    {"becomes_owner", make_nearly_owned, {lock_twice, lock_once}, three_were_in, 0, false},
    {"becomes_owner_again",
     make_nearly_owned_again,
     {lock_twice, lock_once},
     three_were_in,
     0,
     false},
    {"becomes_owner_beside_two",
     make_nearly_owned_again,
     {lock_once, lock_once, lock_once},
     three_were_in,
     0,
     true},
    {"owner_after_two_who_keep_it",
     make_owned,
     {lock_once, try_keeping, try_keeping},
     owner_is_kept,
     0,
     true},
    {"without_membarrier",
     make_owned_and_forbidden,
     {lock_twice, lock_once},
     three_were_in,
     0,
     false},
};

int main(int argc, char **argv)
{
    return uv_main(argc, argv, scenarios, SIZE(scenarios));
}
