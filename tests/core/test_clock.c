/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times in their units: what the clocks of the library say, deadlines, and the limits of waits,
 * repeated lines and checks, to the millisecond. The clocks of the system are those of the test.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/fd_check.h"
#include "util/long_wait.h"
#include "util/rate_limit.h"
#include "util/thread.h"

TestSuite(clock);

/* The C library's functions: the clocks stand, and sleeps are noted. */
static struct timespec monotonic, coarse, real;
static uint64_t slept_ns;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = clock == CLOCK_REALTIME ? real : clock == CLOCK_MONOTONIC_COARSE ? coarse : monotonic;
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
    cr_assert(clock == CLOCK_MONOTONIC && flags == 0 && !left);
    slept_ns = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
    return 0;
}

Test(clock, has_three_units)
{
    monotonic = (struct timespec){.tv_sec = 12345, .tv_nsec = 678901234};
    coarse = (struct timespec){.tv_sec = 54321, .tv_nsec = 998999999};
    cr_assert_eq(ut_clock_ns(), 12345678901234);
    cr_assert_eq(ut_clock_us(), 12345678901);
    cr_assert_eq(ut_clock_ms(), 12345678);
    cr_assert_eq(ut_now_ms(), 54321998);
}

Test(clock, deadline_is_so_many_milliseconds_later)
{
    static const struct {
        struct timespec now;
        uint64_t ms;
        struct timespec then;
    } all[] = {
        {{7, 0}, 0, {7, 0}},
        {{7, 5}, 1, {7, 1000005}},
        {{7, 999999999}, 0, {7, 999999999}},
        {{7, 0}, 999, {7, 999000000}},
        {{7, 1000000}, 999, {8, 0}},
        {{7, 999999999}, 1, {8, 999999}},
        {{7, 3}, 1000, {8, 3}},
        {{7, 600000000}, 12500, {20, 100000000}},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        real = monotonic = (struct timespec){0};
        clockid_t clock = i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        *(i % 2 ? &real : &monotonic) = all[i].now;
        struct timespec then = ut_clock_after(clock, all[i].ms);
        cr_assert(then.tv_sec == all[i].then.tv_sec && then.tv_nsec == all[i].then.tv_nsec, "%zu",
                  i);
    }
}

Test(clock, time_of_day_is_that_of_the_system)
{
    real = (struct timespec){.tv_sec = 1700000000, .tv_nsec = 250000001};
    monotonic = (struct timespec){.tv_sec = 1000, .tv_nsec = 750000000};
    cr_assert_eq(ut_clock_time_of_day_offset(), 1699998999500000001);
}

Test(clock, long_wait_is_told_after_three_seconds_and_each_time_twice_as_long)
{
    struct ut_long_wait wait = ut_long_wait_begin(500);

    for (uint64_t ms = 3000; ms < 100000; ms *= 2) {
        cr_assert(!ut_long_wait_must_log(&wait, 500 + ms - 1));
        cr_assert_eq(ut_long_wait_timeout_ms(&wait, 500 + ms - 20, -1), 20);
        cr_assert_eq(ut_long_wait_timeout_ms(&wait, 500 + ms - 20, 19), 19);
        cr_assert_eq(ut_long_wait_timeout_ms(&wait, 500 + ms, 19), 0);
        cr_assert(ut_long_wait_must_log(&wait, 500 + ms));
        cr_assert_eq(ut_long_wait_seconds(&wait, 500 + ms - 1), ms / 1000 - 1);
        cr_assert_eq(ut_long_wait_seconds(&wait, 500 + ms), ms / 1000);
    }
}

Test(clock, line_is_new_after_ten_seconds)
{
    uint64_t times, now = 1000;

    cr_assert(ut_rate_limit_allows("%s", "a line", now, &times) && times == 1);
    now += 9999;
    cr_assert(!ut_rate_limit_allows("%s", "a line", now, &times) && times == 2);
    now += 10000;
    cr_assert(ut_rate_limit_allows("%s", "a line", now, &times) && times == 1);
}

Test(clock, descriptors_are_checked_each_second)
{
    static const int timeouts[][2] = {{-1, 1000}, {0, 0}, {999, 999}, {1000, 1000}, {1001, 1000}};

    for (int i = 0; i < 5; i++)
        cr_assert_eq(ut_fd_timeout_ms(timeouts[i][0]), timeouts[i][1]);
}

/* A thread that waits for another one takes little of a core after some milliseconds, and notices
 * the end within one. */
Test(clock, sleeps_of_a_wait_grow_to_a_millisecond)
{
    static const uint64_t us[] = {50, 100, 200, 400, 800, 1000, 1000, 1000};
    uint32_t yielding = 0, spinning = 0;

    for (uint32_t i = 0; i < 256; i++)
        ut_back_off_yielding(&yielding);
    for (uint32_t i = 0; i < 64 + 256; i++)
        ut_back_off(&spinning);
    cr_assert_eq(slept_ns, 0);
    for (int i = 0; i < 8; i++) {
        ut_back_off_yielding(&yielding);
        cr_assert_eq(slept_ns, us[i] * 1000, "%d", i);
        slept_ns = 0;
        ut_back_off(&spinning);
        cr_assert_eq(slept_ns, us[i] * 1000, "%d", i);
        slept_ns = 0;
    }
}

/* The lines that were counted are told at the end of the process, unless their lock is not to be
 * had: a signal handler that calls exit() may have interrupted its holder. */
static struct timespec lock_until;

int pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *until)
{
    (void)lock;
    lock_until = *until;
    return ETIMEDOUT;
}

static void fail_to_tell(const char *text, uint64_t times)
{
    (void)text, (void)times;
    cr_assert_fail("the lock is not free");
}

Test(clock, counted_lines_are_waited_for_a_second)
{
    uint64_t times;

    for (int i = 0; i < 2; i++)
        ut_rate_limit_allows("%s", "a line", 1000, &times);
    real = (struct timespec){.tv_sec = 7, .tv_nsec = 800000000};
    ut_rate_limit_for_each(fail_to_tell);
    cr_assert(lock_until.tv_sec == 8 && lock_until.tv_nsec == 800000000);
}

/* main() has called pthread_exit(): whether the last thread of the program has ended is checked
 * after 10 ms, and then less often, up to once a second. */
enum { CHECKS = 9 };

static struct {
    useconds_t us[CHECKS];
    unsigned int count; /* atomic */
} * checks;             /* of the child */

int usleep(useconds_t us)
{
    if (checks->count < CHECKS)
        checks->us[checks->count] = us;
    __atomic_add_fetch(&checks->count, 1, __ATOMIC_RELEASE);
    return 0;
}

static void *end_after_checks(void *arg)
{
    while (__atomic_load_n(&checks->count, __ATOMIC_ACQUIRE) < CHECKS)
        sched_yield();
    return arg;
}

Test(clock, end_of_the_program_is_looked_for_less_often_each_time)
{
    static const useconds_t ms[CHECKS] = {10, 20, 40, 80, 160, 320, 640, 1000, 1000};
    int status;

    checks = mmap(NULL, sizeof(*checks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (!ut_thread_is_ours(gettid())) /* the library knows this process */
            pthread_create(&thread, NULL, end_after_checks, NULL);
        pthread_exit(NULL);
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < CHECKS; i++)
        cr_assert_eq(checks->us[i], ms[i] * 1000, "%d", i);
}
