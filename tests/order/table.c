/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the check mode: what one process reads of the communications that another one
 * enters and removes. table_other.c is the other process. The communications have two words
 * (small/check/table_comm.h).
 */
#include "verifier.h"

#include "../../src/check/table.c"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum { PROCESSES = 2, BUCKETS = 2, FIRST = 1, SECOND = 2 };

uint32_t other_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                           unsigned int num);
bool other_table_find(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                      void *arg);
void other_table_map(void *processes, void *entries, void *buckets, uint32_t num_buckets);

static struct process processes[PROCESSES];
static struct entry entries[PROCESSES * UT_TABLE_ENTRIES];
static struct bucket buckets[BUCKETS];
static uint64_t found_by_first, found_by_other; /* a word each, as different threads write them */

static void make_table(void)
{
    memset(processes, 0, sizeof(processes));
    memset(entries, 0, sizeof(entries));
    memset(buckets, 0, sizeof(buckets));
    memset(&own_entries, 0, sizeof(own_entries));
    found_by_first = found_by_other = 0;
    table.processes = processes;
    table.entries = entries;
    table.buckets = buckets;
    table.num_buckets = BUCKETS;
    table.local_size = PROCESSES;
    table.mine = 0;
    other_table_map(processes, entries, buckets, BUCKETS);
}

static uint32_t old_entry;

static struct ut_table_comm comm_of(uint32_t number)
{
    return (struct ut_table_comm){.at = 100 + number, .length = number, .kind = UT_DESC_PUT};
}

static bool check_comm(const struct ut_table_found *found, void *arg)
{
    UV_CHECK(found->comm.at == 100 + found->comm.length && found->comm.kind == UT_DESC_PUT &&
             "a communication is read as a whole");
    if (found->comm.length == 0)
        return false; /* the old one */
    *(uint64_t *)arg = 1;
    return true;
}

static uint32_t enter(uint32_t number)
{
    const struct ut_table_comm comm = comm_of(number);
    const uint32_t bucket = 0;

    return ut_table_enter(&comm, &bucket, 1);
}

/* Another thread of the first process has the first slot of the bucket, and gives it back. */
static void make_table_with_an_old_one(void)
{
    make_table();
    old_entry = enter(0);
}

static void leave_old(void)
{
    ut_table_leave(old_entry);
}

static void enter_one(void)
{
    UV_CHECK(enter(FIRST) != 0);
}

/* The second one has the entry of the first one. */
static void enter_one_after_the_other(void)
{
    uint32_t entry = enter(FIRST);

    ut_table_leave(entry);
    UV_CHECK(enter(SECOND) == entry);
}

static void look_as_other(void)
{
    other_table_find(0, check_comm, &found_by_other);
}

static void enter_and_look(void)
{
    UV_CHECK(enter(FIRST) != 0);
    ut_table_find(0, check_comm, &found_by_first);
}

static void enter_and_look_as_other(void)
{
    const struct ut_table_comm comm = comm_of(SECOND);
    const uint32_t bucket = 0;

    UV_CHECK(other_table_enter(&comm, &bucket, 1) != 0);
    look_as_other();
}

static void one_finds_the_other(void)
{
    UV_CHECK(found_by_first || found_by_other);
}

static const struct uv_scenario scenarios[] = {
    {"entered", make_table, {enter_one, look_as_other}, NULL, 0, false},
    {"replaced", make_table, {enter_one_after_the_other, look_as_other}, NULL, 0, false},
    {"both_look",
     make_table,
     {enter_and_look, enter_and_look_as_other},
     one_finds_the_other,
     0,
     false},
    {"both_look_beside_an_old_one",
     make_table_with_an_old_one,
     {enter_and_look, enter_and_look_as_other, leave_old},
     one_finds_the_other,
     0,
     false},
};

int main(int argc, char **argv)
{
    return uv_main(argc, argv, scenarios, SIZE(scenarios));
}
