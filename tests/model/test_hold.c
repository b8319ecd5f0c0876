/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which puts a recording holds back, and for how long: streams of puts that this test makes up,
 * with a clock that moves by what is slept (--wrap). Each seed is another random order.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/hold.h"
#include "record/tape.h"

TestSuite(hold);

enum {
    SEEDS = 20,
    MS = 1000000,
    MAX_HOLDS = 20000,
    NOTICES = 3,
    OFTEN = 5,
    PAUSE = 64,
    ADDRESSES = 500
};

static uint64_t now, holds[MAX_HOLDS], held_ns;
static unsigned int num_holds;
static struct ut_tape tape;

uint64_t __wrap_ut_clock_ns(void);
uint64_t __wrap_ut_clock_ns(void)
{
    return now;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    uint64_t ns = (uint64_t)t->tv_sec * 1000 * MS + (uint64_t)t->tv_nsec;

    (void)left;
    cr_assert(t->tv_nsec >= 0 && t->tv_nsec < 1000 * MS && num_holds < MAX_HOLDS);
    holds[num_holds++] = ns;
    held_ns += ns;
    now += ns;
    return 0;
}

static void begin(unsigned int seed, uint32_t job_size, uint64_t off_ns)
{
    memset(&tape, 0, sizeof(tape));
    now = 1000000 * (uint64_t)MS;
    tape.hold.random = 0x9e3779b97f4a7c15ull * (seed + 1);
    tape.hold.opened_at = now;
    tape.hold.job_size = job_size;
    tape.hold.off_ns = off_ns;
    ut_tape_clock.by_counter = false;
    ut_tape_clock.off_cpu = UINT64_MAX; /* nothing is long enough for the thread's CPU time */
    ut_tape_own = &tape;
    num_holds = 0;
    held_ns = 0;
}

static void put(unsigned int n, utofu_stadd_t step, uint64_t pause_ns, unsigned long flags)
{
    for (unsigned int i = 0; i < n; i++) {
        now += pause_ns;
        ut_record_hold(5, 4096 + i * step, 8, flags);
    }
}

/* The target of a put without a notice reads memory: more of them are held. */
Test(hold, puts_without_a_notice_are_held_five_times)
{
    for (unsigned int seed = 0; seed < SEEDS; seed++) {
        begin(seed, 1, 0);
        put(400, 0, 100 * MS, 0);
        cr_assert_eq(num_holds, OFTEN, "%u", num_holds);
    }
}

Test(hold, puts_with_a_notice_are_held_three_times)
{
    for (unsigned int seed = 0; seed < SEEDS; seed++) {
        begin(seed, 1, 0);
        put(400, 0, 100 * MS, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        cr_assert_eq(num_holds, NOTICES);
    }
}

/* Addresses that do not repeat are one stream by their length. */
Test(hold, puts_to_many_addresses_are_one_stream)
{
    for (unsigned int seed = 0; seed < SEEDS; seed++) {
        begin(seed, 1, 0);
        put(400, 256, 100 * MS, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        cr_assert_eq(num_holds, NOTICES);
    }
}

Test(hold, first_two_of_a_stream_are_not_held)
{
    unsigned int third = 0;

    for (unsigned int seed = 0; seed < 4 * SEEDS; seed++) {
        begin(seed, 1, 0);
        put(2, 0, 100 * MS, 0);
        cr_assert_eq(num_holds, 0);
        put(1, 0, 100 * MS, 0);
        third += num_holds;
    }
    cr_assert(third > 0 && third < 4 * SEEDS, "every other one: %u", third);
}

/* Twice the time for which the thread is usually off its core, or, of one in eight each, two or
 * eight times as long. */
static void check_times(uint64_t off_ns, uint64_t least)
{
    unsigned int seen[3] = {0};

    for (unsigned int seed = 0; seed < 4 * SEEDS; seed++) {
        begin(seed, 1, off_ns);
        put(2000, 0, 100 * MS, 0);
        for (unsigned int i = 0; i < num_holds; i++) {
            int factor = holds[i] == least       ? 0
                         : holds[i] == 2 * least ? 1
                         : holds[i] == 8 * least ? 2
                                                 : -1;
            cr_assert(factor >= 0 || i == 1, "hold %u: %llu", i, (unsigned long long)holds[i]);
            if (factor >= 0)
                seen[factor]++;
        }
    }
    unsigned int all = seen[0] + seen[1] + seen[2];
    cr_assert(seen[0] > all / 2 && seen[1] > all / 16 && seen[2] > all / 16, "%u %u %u", seen[0],
              seen[1], seen[2]);
}

Test(hold, times_follow_the_machine)
{
    check_times(0, MS / 2);
    check_times(MS, 2 * MS);
    check_times(100 * MS, 5 * MS);
}

/* The second hold lasts as long as the period of the stream, up to 200 ms. */
Test(hold, one_lasts_a_whole_period)
{
    static const struct {
        uint64_t pause, least, most;
    } table[] = {{30 * MS, 30 * MS, 34 * MS}, {300 * MS, 200 * MS, 200 * MS}};

    for (unsigned int i = 0; i < 2; i++)
        for (unsigned int seed = 0; seed < SEEDS; seed++) {
            begin(seed, 1, 0);
            put(200, 0, table[i].pause, 0);
            cr_assert(num_holds > 2);
            cr_assert(holds[1] >= table[i].least && holds[1] <= table[i].most, "%llu",
                      (unsigned long long)holds[1]);
            cr_assert(holds[0] <= 4 * MS && holds[2] <= 4 * MS);
        }
}

/* All holds of a thread are a small part of the time, and then puts run freely for a while: sixty
 * quarters of the longest hold, and of a job of one process a quarter of the time. */
Test(hold, sum_of_all_is_limited)
{
    const uint64_t ONE_MS = MS, MOST = 60 * 50 * ONE_MS;
    unsigned int pauses = 0;

    begin(3, 1000, 0);
    for (unsigned int i = 0; i < 200000; i++) {
        uint32_t before = tape.hold.pause;
        now += 1000;
        ut_record_hold(5, 4096 + i % ADDRESSES * 256, 8, 0);
        cr_assert(tape.hold.pause <= PAUSE);
        pauses += tape.hold.pause == PAUSE;
        if (before > 0) /* few puts are held in a pause, too */
            cr_assert(tape.hold.pause == before - 1 || tape.hold.num_extra <= 30);
    }
    cr_assert(pauses > 0);
    cr_assert(held_ns >= 1500 * ONE_MS && held_ns <= MOST, "%llu", (unsigned long long)held_ns);
    uint64_t before = held_ns;

    begin(3, 1, 0);
    for (unsigned int i = 0; i < 200000; i++) { /* alone, a quarter of the time more */
        now += 1000;
        ut_record_hold(5, 4096 + i % ADDRESSES * 256, 8, 0);
    }
    uint64_t elapsed = now - tape.hold.opened_at;
    cr_assert(held_ns > before && held_ns <= MOST + elapsed / 4, "%llu of %llu",
              (unsigned long long)held_ns, (unsigned long long)elapsed);
}
