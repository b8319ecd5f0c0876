/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Held communications: how many a poll starts, and which of another process they meet. A VCQ is
 * made up, so that neither the number of runs nor the moment at which a process is interrupted
 * decides. Linked with --wrap of the functions that are replaced here. The test is the process of
 * local rank 0.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "check/origins.h"
#include "ident/ident.h"
#include "peers/peers.h"
#include "util/env.h"

TestSuite(held);

enum { SLOTS = 64, NODE = 3, PAGE = 4096, LOOKED_AT = 16 * PAGE, TARGET = 1 << 20, WHOLE = 16384 };

static struct ut_slot slots[SLOTS];
static struct ut_vcq vcq = {.toq = slots, .toq_mask = SLOTS - 1};
static struct ut_job_info job = {.id = "held", .size = NODE, .local_size = NODE};

/* A VCQ without communications, in check mode. */
static void make_vcq(void)
{
    setenv("UTOFU_CHECK", "1", 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_check_open(&job);
    cr_assert(ut_check_attach(&vcq));
}

/*
 * Polls
 */

static void hold(uint32_t n)
{
    vcq.toq_tail += n;
    cr_assert_eq(ut_check_num_held(&vcq), n);
}

/* An empty poll; starts what it says. Returns the number. */
static uint32_t poll_once(void)
{
    uint32_t n = ut_check_polled(&vcq);

    vcq.idle_polls++;
    for (uint32_t i = 0; i < n; i++)
        ut_vcq_slot(&vcq, vcq.toq_exec++)->state = UT_SLOT_POSTED;
    return n;
}

static void complete_all(void)
{
    for (; vcq.toq_head != vcq.toq_exec; vcq.toq_head++)
        ut_vcq_slot(&vcq, vcq.toq_head)->state = UT_SLOT_RETIRED;
}

Test(held, each_empty_poll_starts_twice_as_many)
{
    make_vcq();
    hold(SLOTS);
    for (uint32_t n = 1; n <= SLOTS / 2; n *= 2) {
        cr_assert_eq(poll_once(), n);
        complete_all();
    }
    cr_assert_eq(poll_once(), 1, "the rest");
    cr_assert_eq(poll_once(), 0);
}

/* The program may be waiting for what is under way. */
/* A communication that lingers keeps those behind it, and none before it, until its time is over.
 */
Test(held, lingering_one_keeps_those_behind_it)
{
    const uint64_t later = UINT64_MAX, over = 1;
    struct ut_check_op *ops;

    make_vcq();
    ops = vcq.check->ops;
    vcq.toq_head = vcq.toq_exec = vcq.toq_tail = 5;
    hold(6);
    cr_assert_eq(ut_origins_count_startable(&vcq, 6), 6);
    cr_assert_eq(vcq.check->lingers_since, 0);
    for (uint32_t i = 0; i < 6; i++) {
        ops[5 + i].lingers = later;
        cr_assert_eq(ut_origins_count_startable(&vcq, 6), i, "%u", i);
        cr_assert_eq(ut_origins_count_startable(&vcq, i), i, "no more than may start");
        ops[5 + i].lingers = over;
        cr_assert_eq(ut_origins_count_startable(&vcq, 6), 6, "%u", i);
        cr_assert_eq(ops[5 + i].lingers, 0);
    }
    ops[5].lingers = later;
    vcq.idle_polls = 7;
    cr_assert_eq(ut_origins_count_startable(&vcq, 6), 0);
    uint64_t since = vcq.check->lingers_since;
    cr_assert(since > 0 && vcq.check->polls_before == 8);
    vcq.idle_polls = 9;
    cr_assert_eq(ut_origins_count_startable(&vcq, 6), 0);
    cr_assert(vcq.check->lingers_since == since && vcq.check->polls_before == 10);
    ops[5].lingers = 0;
    cr_assert_eq(ut_origins_count_startable(&vcq, 6), 6);
    cr_assert_eq(vcq.check->lingers_since, 0);
}

Test(held, nothing_starts_for_a_while_beside_what_is_under_way)
{
    uint32_t polls = 2;

    make_vcq();
    hold(7);
    for (uint32_t n = 1; n <= 2; n++) { /* and then neither is complete */
        complete_all();
        cr_assert_eq(poll_once(), n);
    }
    while (poll_once() == 0)
        polls++;
    cr_assert_eq(polls, 16 * 3);
    cr_assert_eq(vcq.toq_exec, 7, "all others");
}

Test(held, a_taken_entry_makes_polls_begin_anew)
{
    make_vcq();
    hold(8);
    for (uint32_t n = 1; n <= 2; n++) {
        cr_assert_eq(poll_once(), n);
        complete_all();
    }
    vcq.idle_polls = 0; /* as the engine does */
    vcq.tcq_head = vcq.toq_head;
    cr_assert_eq(poll_once(), 1);
}

/*
 * Local memory
 */

static bool is_in_sum(uint8_t *memory, uint32_t size, uint32_t at, uint64_t number)
{
    uint64_t before = ut_check_sum(memory, size, number);

    memory[at] ^= 1;
    uint64_t after = ut_check_sum(memory, size, number);
    memory[at] ^= 1;
    cr_assert_eq(ut_check_sum(memory, size, number), before);
    return after != before;
}

Test(held, sum_has_each_byte_of_a_short_one_and_the_ends_of_a_long_one)
{
    static uint8_t memory[WHOLE + PAGE + 7];
    const uint32_t all = WHOLE, more = sizeof(memory);

    for (uint32_t size = 1; size < 80; size++)
        for (uint32_t at = 0; at < size; at++)
            cr_assert(is_in_sum(memory, size, at, 1), "byte %u of %u", at, size);
    for (uint32_t at = 0; at < all; at += 61)
        cr_assert(is_in_sum(memory, all, at, 1), "byte %u", at);
    for (uint32_t at = 0; at < PAGE; at += 5)
        cr_assert(is_in_sum(memory, more, at, 1) && is_in_sum(memory, more, more - 1 - at, 1),
                  "byte %u from an end", at);
}

/* Between them, one communication in as many as a line has words sees a word. */
Test(held, sums_of_several_have_each_word_of_a_long_one)
{
    static uint8_t memory[4 * WHOLE];
    const uint32_t size = sizeof(memory);

    for (uint32_t at = PAGE; at < size - PAGE - UT_CACHE_LINE; at += 8 * 63) {
        unsigned int seen = 0;
        for (uint64_t number = 1; number <= UT_CACHE_LINE / 8; number++)
            seen += is_in_sum(memory, size, at, number);
        cr_assert_eq(seen, 1, "byte %u", at);
    }
}

/*
 * Two threads, two processes
 */

static unsigned int num_reports;
static enum ut_check_id reported;

void __wrap_ut_check_report(const struct ut_check_report *report);
void __wrap_ut_check_report(const struct ut_check_report *report)
{
    num_reports++;
    reported = report->id;
}

/* What a call reports that finds the VCQ locked by a call of this thread (0: of none). */
static unsigned int report_contention(uintptr_t thread, utofu_vcq_hdl_t handle)
{
    vcq.in_call = thread;
    num_reports = 0;
    ut_vcq_on_contention(&vcq, handle);
    cr_assert(num_reports == 0 || reported == UT_CHECK_CONCURRENT);
    return num_reports;
}

Test(held, calls_of_two_threads_are_reported_unless_the_vcq_is_for_both)
{
    const uintptr_t other = 1;

    make_vcq();
    vcq.handle = 5;
    cr_assert_eq(report_contention(other, 5), 0, "it is free by now");
    ut_lock(&vcq.lock);
    cr_assert_eq(report_contention(other, 5), 1);
    cr_assert_eq(report_contention(0, 5), 0, "by the background thread");
    cr_assert_eq(report_contention(other, 6), 0, "it is another VCQ by now");
    vcq.flags = UTOFU_VCQ_FLAG_THREAD_SAFE;
    cr_assert_eq(report_contention(other, 5), 0);
}

static uint8_t memory[TARGET];
static uint16_t flags;
static bool is_first; /* of its call site */
static uint64_t submitted_at;

/* Holds a communication with `length` bytes of the target's memory from `offset` on. */
static struct ut_check_op *hold_one(enum ut_desc_kind kind, uint64_t offset, uint32_t length)
{
    struct ut_slot *slot = ut_vcq_slot(&vcq, vcq.toq_tail++);
    struct ut_check_op *op = ut_check_op_of(&vcq, slot);

    slot->desc = (struct ut_desc){.kind = (uint8_t)kind,
                                  .flags = flags,
                                  .word = length,
                                  .rmt_vcq_id = 77ull << 18,
                                  .rmt_stadd = ut_stadd_make(UT_STAG_DYNAMIC_BASE, 0, offset)};
    *op = (struct ut_check_op){
        .mem = memory, .length = length, .rmt_rank = UT_NO_RANK, .at = submitted_at};
    ut_origins_enter(&vcq, slot, is_first);
    return op;
}

/* The process of local rank 1 holds it, until it is killed. */
static pid_t hold_elsewhere(enum ut_desc_kind kind, uint64_t offset, uint32_t length)
{
    uint32_t pid, fd;
    int ready[2];
    char byte = 0;

    ut_table_place(&pid, &fd);
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
        job.rank = job.local_rank = 1;
        if (ut_table_open(&job, pid, fd) != 0 || hold_one(kind, offset, length)->entry == 0 ||
            write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* The number of reports of one that is held beside those of another process. */
static unsigned int report_one(enum ut_desc_kind kind, uint64_t offset, uint32_t length)
{
    num_reports = 0;
    ut_origins_leave(hold_one(kind, offset, length));
    return num_reports;
}

/* The same for the process of local rank 2 beside what this one holds. */
static unsigned int report_elsewhere(enum ut_desc_kind kind, uint64_t offset, uint32_t length)
{
    uint32_t pid, fd;
    int status;

    ut_table_place(&pid, &fd);
    pid_t child = fork();
    if (child == 0) {
        job.rank = job.local_rank = 2;
        _exit(ut_table_open(&job, pid, fd) == 0 ? (int)report_one(kind, offset, length) : 100);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return (unsigned int)status >> 8;
}

/* Do a put of 8 bytes of another process and this get meet? */
static bool put_meets(uint64_t put_offset, uint64_t offset, uint32_t length)
{
    pid_t child = hold_elsewhere(UT_DESC_PUT, put_offset, 8);
    unsigned int n = report_one(UT_DESC_GET, offset, length);

    end(child);
    cr_assert(n == 0 || (n == 1 && reported == UT_CHECK_ORIGINS));
    return n > 0;
}

Test(held, short_one_is_met_in_each_page_of_a_long_one)
{
    make_vcq();
    for (uint64_t at = 0; at < LOOKED_AT; at += PAGE)
        cr_assert(put_meets(at + 40, 0, LOOKED_AT), "at %llu", (unsigned long long)at);
    cr_assert(put_meets(LOOKED_AT - 8, 0, LOOKED_AT));
    cr_assert_not(put_meets(LOOKED_AT, 0, LOOKED_AT));
    cr_assert_not(put_meets(32, 40, LOOKED_AT));
}

/* Of more pages than are looked in. */
Test(held, short_one_is_met_at_both_ends_of_a_very_long_one)
{
    make_vcq();
    cr_assert(put_meets(LOOKED_AT - 8, 0, TARGET));
    cr_assert(put_meets(TARGET - LOOKED_AT, 0, TARGET));
    cr_assert(put_meets(TARGET - 8, 0, TARGET));
    cr_assert_not(put_meets(TARGET, 0, TARGET));
}

Test(held, long_one_is_met_by_a_short_one_in_the_midst_of_it)
{
    make_vcq();
    for (uint32_t length = PAGE; length <= TARGET; length *= 4) {
        pid_t child = hold_elsewhere(UT_DESC_GET, PAGE / 2, length);
        cr_assert_eq(report_one(UT_DESC_PUT, PAGE / 2 + length / 2, 8), 1, "of %u bytes", length);
        cr_assert_eq(report_one(UT_DESC_PUT, PAGE / 2 + length, 8), 0, "behind it");
        end(child);
    }
}

Test(held, what_has_begun_is_not_met)
{
    make_vcq();
    pid_t child = hold_elsewhere(UT_DESC_PUT, PAGE, 8); /* so that there is another process */
    struct ut_check_op *op = hold_one(UT_DESC_GET, 0, 64);
    cr_assert_eq(report_elsewhere(UT_DESC_PUT, 0, 8), 1);
    op->mem = NULL; /* whose bytes are of no interest here */
    num_reports = 0;
    ut_check_start(&vcq, ut_vcq_slot(&vcq, vcq.toq_exec++));
    cr_assert_eq(num_reports, 0);
    cr_assert_eq(report_elsewhere(UT_DESC_PUT, 0, 8), 0);
    cr_assert_eq(report_elsewhere(UT_DESC_GET, PAGE, 64), 1);
    end(child);
    cr_assert_eq(report_elsewhere(UT_DESC_GET, PAGE, 64), 0, "nor what nobody will begin");
}

/* A get of a word may read what was there before the put, or after it. */
Test(held, get_of_a_word_may_meet_a_put)
{
    make_vcq();
    pid_t child = hold_elsewhere(UT_DESC_GET, 8, 8);
    cr_assert_eq(report_one(UT_DESC_PUT, 0, 64), 0);
    end(child);
    child = hold_elsewhere(UT_DESC_GET, 8, 16);
    cr_assert_eq(report_one(UT_DESC_PUT, 0, 64), 1, "two words may be of two moments");
    end(child);
    child = hold_elsewhere(UT_DESC_PUT, 0, 64);
    cr_assert_eq(report_one(UT_DESC_GET, 8, 8), 0);
    cr_assert_eq(report_one(UT_DESC_GET, 8, 16), 1);
    end(child);
}

Test(held, puts_of_the_same_bytes_may_meet)
{
    make_vcq();
    memset(memory, 5, 16); /* and zeros behind them */
    pid_t child = hold_elsewhere(UT_DESC_PUT, 64, 32);
    cr_assert_eq(report_one(UT_DESC_PUT, 64, 32), 0);
    cr_assert_eq(report_one(UT_DESC_PUT, 80, 32), 1);
    memory[31]++;
    cr_assert_eq(report_one(UT_DESC_PUT, 64, 32), 1);
    cr_assert_eq(report_one(UT_DESC_PUT, 64, 31), 0);
    end(child);
}

/* Either of the two may be the padded one, which writes its whole line. */
Test(held, padded_put_meets_what_is_in_its_line)
{
    make_vcq();
    flags = UTOFU_ONESIDED_FLAG_PADDING;
    pid_t child = hold_elsewhere(UT_DESC_PIGGYBACK, UT_CACHE_LINE, 8);
    flags = 0;
    cr_assert_eq(report_one(UT_DESC_PUT, 2 * UT_CACHE_LINE - 8, 8), 1);
    cr_assert_eq(reported, UT_CHECK_PADDING_LINE);
    cr_assert_eq(report_one(UT_DESC_PUT, 2 * UT_CACHE_LINE, 8), 0);
    cr_assert_eq(report_one(UT_DESC_GET, 2 * UT_CACHE_LINE - 8, 8), 0);
    end(child);
    child = hold_elsewhere(UT_DESC_PUT, 2 * UT_CACHE_LINE - 8, 8);
    flags = UTOFU_ONESIDED_FLAG_PADDING;
    cr_assert_eq(report_one(UT_DESC_PIGGYBACK, UT_CACHE_LINE, 8), 1);
    cr_assert_eq(reported, UT_CHECK_PADDING_LINE);
    cr_assert_eq(report_one(UT_DESC_PIGGYBACK, 0, 8), 0);
    end(child);
}

/*
 * Lingering
 */

enum { MS = 1000000 };

/* When a communication of the given time stops to linger; 0: it does not. */
static uint64_t lingers(uint64_t at)
{
    submitted_at = at;
    struct ut_check_op *op = hold_one(UT_DESC_GET, 0, 8);
    uint64_t until = op->lingers;

    ut_origins_leave(op);
    return until;
}

Test(held, first_ones_of_a_call_linger_for_two_milliseconds)
{
    make_vcq();
    pid_t child = hold_elsewhere(UT_DESC_GET, PAGE, 8);
    cr_assert_eq(lingers(5 * MS), 0);
    is_first = true;
    cr_assert_eq(lingers(5 * MS), 7 * MS);
    end(child);
}

/* All together 30 ms, and a 32nd part of the time since the first one. */
Test(held, time_of_all_that_linger_is_limited)
{
    make_vcq();
    pid_t child = hold_elsewhere(UT_DESC_GET, PAGE, 8);
    is_first = true;
    for (int i = 0; i < 15; i++) {
        cr_assert_eq(lingers(5 * MS), 7 * MS, "%d", i);
        ut_origins_lingered();
    }
    cr_assert_eq(lingers(5 * MS), 0);
    cr_assert_eq(lingers(5 * MS + 31), 0);
    cr_assert_eq(lingers(5 * MS + 32), 7 * MS + 32);
    ut_origins_lingered();
    cr_assert_eq(lingers(5 * MS + 64 * MS + 31), 0);
    cr_assert_eq(lingers(5 * MS + 64 * MS + 32), 71 * MS + 32);
    end(child);
}

/* Polls that a communication has delayed for so long: how often, until no other one lingers. */
static int delay_polls(uint64_t ms)
{
    struct ut_check_op *op = ut_check_op_of(&vcq, ut_vcq_slot(&vcq, vcq.toq_exec));
    int times = 0;

    while (lingers(5 * MS)) {
        op->lingers = UINT64_MAX;
        cr_assert_eq(ut_origins_count_startable(&vcq, 1), 0);
        fake_clock_pass_ms(ms);
        cr_assert_eq(ut_origins_count_startable(&vcq, 1), 0, "since the first poll");
        op->lingers = 0;
        cr_assert_eq(ut_origins_count_startable(&vcq, 1), 1);
        times++;
    }
    return times;
}

Test(held, delay_of_polls_counts_up_to_two_milliseconds)
{
    static const struct {
        uint64_t ms;
        int times;
    } all[] = {{1, 30}, {3, 15}, {100, 15}};

    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            make_vcq();
            pid_t holder = hold_elsewhere(UT_DESC_GET, PAGE, 8);
            is_first = true;
            hold(1);
            int times = delay_polls(all[i].ms);
            end(holder);
            _exit(times);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == all[i].times, "%d: %d", i,
                  status >> 8);
    }
}

/*
 * The table of the first process of the node
 */

static unsigned int num_asked;
static int answer = -EAGAIN;

int __wrap_ut_peers_check_table(uint32_t *pid, uint32_t *fd);
int __wrap_ut_peers_check_table(uint32_t *pid, uint32_t *fd)
{
    *pid = *fd = 0;
    num_asked++;
    return answer;
}

/* Looked for after 1, 2, 4... ms, up to a quarter of a second, as long as it may come. */
Test(held, table_is_looked_for_less_often_each_time)
{
    static const int later[] = {-EINPROGRESS, -EBUSY, -ENOMEM, -EAGAIN};
    unsigned int asked = 0, due = 0, pause = 1;

    ut_check_job = &job;
    job.local_rank = 1;
    fake_clock_align();
    for (unsigned int ms = 0; ms < 2000; ms++) {
        answer = later[ms % 4];
        ut_origins_open();
        if (ms == due) {
            asked++;
            due = ms + pause;
            pause = pause < 256 ? 2 * pause : 256;
        }
        cr_assert_eq(num_asked, asked, "%u ms", ms);
        fake_clock_align(); /* to the next millisecond */
    }
    answer = -ENOENT;
    fake_clock_pass_ms(300);
    ut_origins_open();
    fake_clock_pass_ms(300);
    ut_origins_open();
    cr_assert_eq(num_asked, asked + 1, "it will never come");
}

Test(held, table_is_not_looked_for_by_its_owner_or_alone)
{
    ut_check_job = &job;
    ut_origins_open();
    job.local_rank = 1;
    job.local_size = 1;
    ut_origins_open();
    cr_assert_eq(num_asked, 0);
    job.local_size = 2;
    ut_origins_open();
    cr_assert_eq(num_asked, 1);
}

/*
 * Ranges
 */

/* All pairs of short ranges, also empty ones, which overlap with nothing. */
Test(held, ranges_overlap_if_they_have_a_byte_in_common)
{
    enum { END = 5 };

    for (uint64_t i = 0; i < (END + 1) * (END + 1) * (END + 1) * (END + 1); i++) {
        struct ut_range a = {i % (END + 1), i / (END + 1) % (END + 1)},
                        b = {i / 36 % (END + 1), i / 216};
        bool common = false;
        for (uint64_t byte = 0; byte < END; byte++)
            common |= byte >= a.from && byte < a.to && byte >= b.from && byte < b.to;
        cr_assert_eq(ut_ranges_overlap(a, b), common, "%d-%d %d-%d", (int)a.from, (int)a.to,
                     (int)b.from, (int)b.to);
    }
}

Test(held, lines_of_a_range_are_all_that_it_touches)
{
    const uint64_t line = UT_CACHE_LINE;

    for (uint64_t from = line - 2; from <= line + 2; from++)
        for (uint64_t to = from + 1; to <= 2 * line + 2; to++) {
            struct ut_range lines = ut_lines_of((struct ut_range){from, to});
            cr_assert_eq(lines.from, from < line ? 0 : line);
            cr_assert_eq(lines.to, to <= line ? line : to <= 2 * line ? 2 * line : 3 * line);
        }
}
