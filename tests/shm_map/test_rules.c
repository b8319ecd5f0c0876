/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory is mapped with which value of UTOFU_SHM_MAP, how much registration may cost, and
 * that nothing is lost where everybody writes to memory that is registered and deregistered.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(map_rules, .timeout = 0);

#define SAFE "UTOFU_SHM_MAP=1" /* the default; pages.c sets another one */

enum { PART = 64 << 10, LARGE = 64 << 20 };

static uint64_t get_cell(int n)
{
    return atomic_load(ut_cell(n));
}

/* Polls until the other process has set the cell. */
static void poll_until(const struct ut_end *end, int cell, uint64_t value)
{
    while (get_cell(cell) < value)
        ut_expect_nothing(end->vcq);
    ut_expect_nothing(end->vcq);
}

static void eager(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    CHECK_EQ(pages_mapped(end.mem, LARGE), pages_can_be_mapped() ? LARGE : 0);
    ut_close_all(&end);
}

Test(map_rules, eager_maps_it_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager"}}, eager, NULL);
}

/* The core locks registered pages: they are exchanged before that. */
static void locked(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, PART, peers);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they replace mlock() */
    CHECK(pages_status_kib("VmLck:") >= PART / 1024, "it is not locked");
#endif
    CHECK_EQ(pages_mapped(end.mem, PART), pages_can_be_mapped() ? PART : 0);
    ut_close_all(&end);
}

Test(map_rules, memory_that_the_core_locks_is_mapped_at_registration)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {SAFE, "UTOFU_SWAP_PROTECT=1"}}, locked, NULL);
}

/* A transport that registers the buffer of each message: registration takes a share of the time
 * only, so not every buffer is mapped. */
static void registered_for_each(void *arg)
{
    enum { SIZE = 1 << 20, ROUNDS = 1000 };
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *buffer = ut_pages(SIZE);
    utofu_stadd_t stadd;
    size_t mapped = 0;

    (void)arg;
    ut_open_all(&end, PAGE, peers);
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, round, SIZE);
        CHECK_OK(utofu_reg_mem(end.vcq, buffer, SIZE, 0, &stadd));
        mapped += pages_mapped(buffer, SIZE) > 0;
        CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
        CHECK(buffer[0] == (uint8_t)round && memcmp(buffer, buffer + 1, SIZE - 1) == 0);
    }
    if (pages_can_be_mapped())
        CHECK(mapped > 0 && mapped < ROUNDS, "%zu of %d rounds", mapped, (int)ROUNDS);
    ut_close_all(&end);
}

Test(map_rules, registration_takes_a_share_of_the_time)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 120, .env = {SAFE}}, registered_for_each,
           NULL);
}

/* A process alone on its host has nobody who maps its memory. */
static void alone(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[1];

    ut_open_all(&end, LARGE, peers);
    CHECK_EQ(pages_mapped(end.mem, LARGE), arg && pages_can_be_mapped() ? LARGE : 0);
    ut_close_all(&end);
}

Test(map_rules, memory_that_nobody_can_map_is_not_exchanged)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {SAFE}}, alone, NULL);
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_SHM_MAP=eager"}}, alone, (void *)"eager");
}

/*
 * Writers of all kinds to memory that is registered and deregistered: every process puts to its own
 * lines of each other's region, a thread of the owner stores to its own lines, and all gets read
 * what was written last.
 */

enum { WRITERS = 4, LINE = 256, SIZE = 64 * PAGE, SLOT = SIZE / 8 };

static atomic_bool over;

static void *store_all_the_time(void *mem)
{
    volatile uint64_t *own = (volatile uint64_t *)((uint8_t *)mem + WRITERS * SLOT);

    for (uint64_t n = 1; !atomic_load(&over); n++) {
        for (int i = 0; i < SLOT / PAGE; i++)
            own[i * PAGE / 8] = n;
        for (int i = 0; i < SLOT / PAGE; i++)
            if (own[i * PAGE / 8] != n)
                return (void *)own;
    }
    return NULL;
}

/* The process's slot at another one: written with the number of the round, and read back. */
static void write_and_read(const struct ut_end *end, utofu_vcq_id_t id, utofu_stadd_t there,
                           uint8_t *buffer, utofu_stadd_t stadd, int round)
{
    size_t size = 8 + ut_random_below(SLOT - 8), at = ut_random_below(SLOT - size + 1);
    size_t slot = (size_t)ut_rank * SLOT + at;
    struct utofu_mrq_notice notice;

    memset(buffer, round, size);
    CHECK_OK(utofu_put(end->vcq, id, stadd, there + slot, size, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    memset(buffer, 0, size);
    CHECK_OK(utofu_get(end->vcq, id, stadd, there + slot, size, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    CHECK(buffer[0] == (uint8_t)round && memcmp(buffer, buffer + 1, size - 1) == 0,
          "round %d: %zu bytes at %zu", round, size, slot);
}

static void raced(void *arg)
{
    const int rounds = (int)ut_env_number("UT_MAP_RULES", 4);
    struct ut_peer peers[WRITERS], all[WRITERS], mine = {0};
    uint8_t *mem = ut_pages(SIZE);
    pthread_t thread;
    struct ut_end end;
    void *wrong;

    ut_open_all(&end, SIZE, peers);
    mine.id = end.id;
    atomic_store(&over, false);
    CHECK_EQ(pthread_create(&thread, NULL, store_all_the_time, mem), 0);
    for (int round = 1; round <= rounds; round++) {
        CHECK_OK(utofu_reg_mem(end.vcq, mem, SIZE, 0, &mine.stadd));
        ut_allgather(&mine, all, sizeof(mine));
        for (int i = 0; i < 1000; i++) {
            int other = (ut_rank + 1 + (int)ut_random_below(WRITERS - 1)) % WRITERS;
            write_and_read(&end, all[other].id, all[other].stadd, end.mem, end.stadd, i);
        }
        atomic_fetch_add(ut_cell(0), 1);
        poll_until(&end, 0, (uint64_t)round * WRITERS);
        atomic_fetch_add(ut_cell(1), pages_mapped(mem, SIZE) > 0);
        ut_barrier();
        CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
        ut_barrier();
    }
    atomic_store(&over, true);
    CHECK_EQ(pthread_join(thread, &wrong), 0);
    CHECK(wrong == NULL, "a store of the owner was lost at offset %zu",
          (size_t)((uint8_t *)wrong - mem));
    ut_close_all(&end);
    CHECK(!arg || get_cell(1) > 0 || !pages_can_be_mapped(), "nothing was exchanged");
}

Test(map_rules, nothing_is_lost_where_everybody_writes)
{
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {SAFE}}, raced, NULL);
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {SAFE, "UTOFU_SHM_CMA=0"}},
           raced, NULL);
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {"UTOFU_SHM_MAP=eager"}},
           raced, (void *)"eager");
}
