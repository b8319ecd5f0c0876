/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts that are handed over: those of communications in the check mode, when the table of the
 * node's processes is opened while other threads count; those of a VCQ that is freed while another
 * thread adds up all counters; and a counter of LAPI, with the data that it stands for.
 */
#include "stats/stats.h"
#include "vcq/vcq.h"

#include "../../layers/lapi/context.h"
#include "../../src/check/table.c"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

static struct header header;
static struct process processes[2];
static const struct ut_job_info job = {.id = "", .size = 2, .local_size = 2};
static bool was_active;

/* As map_table(). */
static void map_processes(void)
{
    table.processes = processes;
    table.mine = 0;
    table.local_size = 2;
}

static void make_closed(void)
{
    memset(&header, 0, sizeof(header));
    memset(processes, 0, sizeof(processes));
    table.header = NULL;
    table.processes = NULL;
    table.local_size = 0;
    memset(&table.alone, 0, sizeof(table.alone));
    was_active = false;
}

/* The table is open; this process has submitted a communication, and so has the other one. */
static void make_open(void)
{
    make_closed();
    map_processes();
    header.num_opened = 2;
    table.header = &header;
    processes[0].submitted = processes[1].submitted = 1;
}

/* The other process has not opened the table yet, and has two communications under way. */
static void make_half_open(void)
{
    make_open();
    header.num_opened = 1;
    processes[1].submitted = 0;
}

/* The other process has opened the table, this one is about to. */
static void make_opened_by_other(void)
{
    make_closed();
    header.num_opened = 1;
    processes[1].submitted = 2;
}

static void count_one(void)
{
    ut_table_count(1, 0);
    ut_table_count(0, 1);
}

static void count_two(void)
{
    ut_table_count(2, 2);
}

/* As publish_table() in the other process. */
static void open_in_other(void)
{
    add_counts(&processes[1], 2, 0);
    __atomic_add_fetch(&header.num_opened, 1, __ATOMIC_SEQ_CST);
}

static void open_table(void)
{
    map_processes();
    publish_table(&header);
}

/* Communications of the other process: one starts before the first one ends. */
static void overlap_other(void)
{
    add_counts(&processes[1], 1, 0);
    add_counts(&processes[1], 0, 1);
}

static void look(void)
{
    uint64_t submitted;

    was_active = ut_table_has_one_active(&job, &submitted);
}

static void all_are_counted(void)
{
    const struct process *p = &processes[0];

    UV_CHECK(p->submitted == 1 && p->completed == 1);
    UV_CHECK(table.alone.submitted == 0 && table.alone.completed == 0);
    UV_CHECK(header.num_opened == 1 && table.header == &header);
}

static void all_of_two_are_counted(void)
{
    const struct process *p = &processes[0];

    UV_CHECK(p->submitted == 3 && p->completed == 3);
    UV_CHECK(table.alone.submitted == 0 && table.alone.completed == 0);
}

/* At any time at least two communications are under way. */
static void two_are_never_taken_for_one(void)
{
    UV_CHECK(!was_active);
}

/*
 * The counters of a VCQ
 */

static struct ut_vcq vcq;
static uint64_t before[UT_NUM_COUNTERS], totals[UT_NUM_COUNTERS];

void __wrap_ut_vcq_for_each(void (*fn)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*fn)(struct ut_vcq *vcq, void *arg), void *arg)
{
    fn(&vcq, arg);
}

bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms);
bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms)
{
    (void)until_ms;
    ut_lock(lock);
    return true;
}

void __wrap_ut_back_off(uint32_t *rounds);
void __wrap_ut_back_off(uint32_t *rounds)
{
    (void)rounds;
    uv_pause();
}

/* The VCQ of the earlier runs is among the freed ones. */
static void make_counted_vcq(void)
{
    memset(&vcq, 0, sizeof(vcq));
    ut_stats_totals(before);
    vcq.stats = calloc(1, sizeof(*vcq.stats));
    UV_CHECK(vcq.stats);
    vcq.stats->counts.n[UT_COUNT_PUTS] = 1;
}

static void free_counted_vcq(void)
{
    ut_lock(&vcq.lock);
    ut_stats_detach(&vcq);
    ut_unlock(&vcq.lock);
}

static void add_up(void)
{
    ut_stats_totals(totals);
}

static void it_is_counted_once(void)
{
    UV_CHECK(totals[UT_COUNT_PUTS] == before[UT_COUNT_PUTS] + 1);
}

/*
 * A counter of a LAPI program, one of whose threads has data arrive
 */

static lapi_cntr_t counter;
static uint64_t arrived;

static void make_counter(void)
{
    memset(&counter, 0, sizeof(counter));
    arrived = 0;
}

static void raise_counter(void)
{
    arrived = 1;
    la_cntr_increment(&counter);
}

/* As LAPI_Getcntr(). */
static void read_counter(void)
{
    if (__atomic_load_n(&counter.value, __ATOMIC_ACQUIRE) == 1)
        UV_CHECK(arrived == 1);
}

static const struct uv_scenario scenarios[] = {
    {"handed_over", make_closed, {count_one, open_table}, all_are_counted, 0, false},
    {"handed_over_by_two",
     make_closed,
     {count_one, count_two, open_table},
     all_of_two_are_counted,
     0,
     true},
    {"one_is_active", make_open, {overlap_other, look}, two_are_never_taken_for_one, 0, false},
    {"other_opens", make_half_open, {open_in_other, look}, two_are_never_taken_for_one, 0, false},
    {"this_one_opens",
     make_opened_by_other,
     {open_table, look},
     two_are_never_taken_for_one,
     0,
     false},
    {"vcq_is_freed", make_counted_vcq, {free_counted_vcq, add_up}, it_is_counted_once, 0, false},
    {"lapi_counter", make_counter, {raise_counter, read_counter}, NULL, 0, false},
};

int main(int argc, char **argv)
{
    return uv_main(argc, argv, scenarios, SIZE(scenarios));
}
