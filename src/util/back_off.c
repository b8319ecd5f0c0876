/* SPDX-License-Identifier: Apache-2.0 */
#include "util/back_off.h"

#include <sched.h>
#include <time.h>

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_longer(uint32_t sleeps)
{
    long ns = sleeps < 5 ? (long)UT_BACK_OFF_FIRST_NS << sleeps : UT_BACK_OFF_LAST_NS;
    const struct timespec t = {.tv_nsec = ns < UT_BACK_OFF_LAST_NS ? ns : UT_BACK_OFF_LAST_NS};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

void ut_back_off_yielding(uint32_t *rounds)
{
    uint32_t n = (*rounds)++;

    if (n < UT_BACK_OFF_YIELDS) {
        sched_yield();
        return;
    }
    sleep_longer(n - UT_BACK_OFF_YIELDS);
    if (n > 2 * UT_BACK_OFF_YIELDS)
        *rounds = n; /* keeps the counter far from an overflow */
}

void ut_back_off(uint32_t *rounds)
{
    if (*rounds < UT_BACK_OFF_SPINS) {
        ++*rounds;
        cpu_relax();
        return;
    }
    uint32_t yields = *rounds - UT_BACK_OFF_SPINS;
    ut_back_off_yielding(&yields);
    *rounds = yields + UT_BACK_OFF_SPINS;
}
