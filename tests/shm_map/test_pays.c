/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory is exchanged for memory that peers map when their use of it pays: not before,
 * not where it is not used, and without losing a byte that is written meanwhile.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

TestSuite(map_pays, .timeout = 0);

#define PAYS "UTOFU_SHM_MAP=1" /* the default; pages.c sets another one */

enum {
    PART = 64 << 10, /* the least that is exchanged */
    FEW = 60,        /* uses of a part that do not pay */
    MANY = 1000,     /* uses that pay, whatever the part is */
    LARGE = 64 << 20,
};

static uint64_t get_cell(int n)
{
    return atomic_load(ut_cell(n));
}

static void put_words(const struct ut_end *end, const struct ut_peer *to, size_t at, int times)
{
    for (int i = 0; i < times; i++) {
        void *cbdata;
        CHECK_OK(utofu_put(end->vcq, to->id, end->stadd, to->stadd + at, 8, 0, UT_TCQ, NULL));
        CHECK_OK(ut_await_tcq(end->vcq, &cbdata));
    }
}

/* Polls until the other process has set the cell. */
static void poll_until(const struct ut_end *end, int cell, uint64_t value)
{
    while (get_cell(cell) < value)
        ut_expect_nothing(end->vcq);
    ut_expect_nothing(end->vcq);
}

/* Puts that pay, again and again until the other process has set the cell: no pages are exchanged
 * while a copy to them is under way, whose process may have lost its CPU. */
static void put_until(const struct ut_end *end, const struct ut_peer *to, size_t at, int cell,
                      uint64_t value)
{
    while (get_cell(cell) < value)
        put_words(end, to, at, MANY);
}

/* The same from 2 MiB on, where huge pages of shared memory are allowed. */
static bool is_least(size_t mapped)
{
    return mapped == PART || mapped == 2 << 20;
}

static void used(void *arg)
{
    const size_t there = LARGE / 2 + 3 * PART + 64;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    CHECK_EQ(pages_mapped(end.mem, LARGE), 0);
    if (ut_rank == 0) {
        put_words(&end, &peers[1], there, FEW);
        atomic_store(ut_cell(0), 1);
        while (get_cell(1) < 1)
            ut_relax();
        put_until(&end, &peers[1], there, 1, 2);
    } else {
        poll_until(&end, 0, 1);
        CHECK_EQ(pages_mapped(end.mem, LARGE), 0);
        atomic_store(ut_cell(1), 1);
        while (pages_can_be_mapped() && pages_mapped(end.mem, LARGE) < PART)
            ut_expect_nothing(end.vcq);
        atomic_store(ut_cell(1), 2);
        if (pages_can_be_mapped())
            CHECK(is_least(pages_mapped(end.mem, LARGE)), "%zu bytes",
                  pages_mapped(end.mem, LARGE));
    }
    ut_close_all(&end);
    CHECK_EQ(pages_mapped(end.mem, LARGE), 0);
}

Test(map_pays, memory_is_mapped_where_its_use_pays)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS}}, used, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS, "UTOFU_SHM_CMA=0"}}, used, NULL);
}

/* The owner puts and never polls a queue, as a program that waits by reading its memory: it handles
 * the request for its pages where its TOQ has room again. There is no background thread. */
static void owner_puts(void *arg)
{
    enum { PUTS = 1024 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 2 * PART, peers);
    const struct ut_peer *to = &peers[!ut_rank];
    put_words(&end, to, 64, 1); /* connects */
    while (get_cell(0) == 0) {
        for (int k = 0; k < PUTS; k++) {
            int rc = utofu_put(end.vcq, to->id, end.stadd, to->stadd + 64, 8, 0, 0, NULL);
            if (rc != UTOFU_ERR_BUSY) /* the other process may not have a CPU */
                CHECK_OK(rc);
        }
        if (ut_rank == 0 && (pages_of_peers() > 0 || !pages_can_be_mapped()))
            atomic_store(ut_cell(0), 1);
    }
    ut_close_all(&end);
}

Test(map_pays, memory_is_mapped_though_its_owner_only_puts)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS, "UTOFU_PROGRESS_THREAD=0"}}, owner_puts,
           NULL);
}

/* The owner calls nothing, as a program that waits by reading its memory, or computes; and for so
 * long that its background thread has stopped to look whether it polls. */
static void owner_computes(void *arg)
{
    enum { REQUESTS = 10 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 2 * PART, peers);
    if (ut_rank == 0) {
        put_words(&end, &peers[1], 64, 1); /* connects */
        /* a request is enough, but a copy under way may have lost its CPU when it comes */
        for (int i = 0; i < REQUESTS && get_cell(0) == 0; i++) {
            nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
            put_words(&end, &peers[1], 64, MANY);
        }
        while (get_cell(0) == 0)
            ut_relax();
    } else {
        while (pages_can_be_mapped() && pages_mapped(end.mem, 2 * PART) == 0)
            ut_relax();
        atomic_store(ut_cell(0), 1);
    }
    ut_close_all(&end);
}

Test(map_pays, memory_is_mapped_though_its_owner_calls_nothing)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS}}, owner_computes, NULL);
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

Test(map_pays, eager_maps_it_at_once)
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

Test(map_pays, memory_that_the_core_locks_is_mapped_at_registration)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS, "UTOFU_SWAP_PROTECT=1"}}, locked, NULL);
}

/* A transport that registers the buffer of each message. */
static void registered_for_each(void *arg)
{
    enum { SIZE = 1 << 20, ROUNDS = 100 };
    struct ut_end end;
    struct ut_peer peers[2], all[2], mine = {0};
    uint8_t *buffer = ut_pages(SIZE);
    void *cbdata;

    (void)arg;
    ut_open_all(&end, PAGE, peers);
    mine.id = end.id;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_OK(utofu_reg_mem(end.vcq, buffer, SIZE, 0, &mine.stadd));
        ut_allgather(&mine, all, sizeof(mine));
        CHECK_OK(utofu_put(end.vcq, all[!ut_rank].id, mine.stadd, all[!ut_rank].stadd, SIZE, 0,
                           UT_TCQ, NULL));
        CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
        ut_barrier();
        ut_expect_nothing(end.vcq);
        CHECK_EQ(pages_mapped(buffer, SIZE), 0);
        CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
    }
    ut_close_all(&end);
}

Test(map_pays, memory_that_is_used_once_is_never_exchanged)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS}}, registered_for_each, NULL);
}

/* More parts than an entry has room for, in any order: what is used is mapped, or reached as
 * before. The first ones are mapped in any case. */
static void scattered(void *arg)
{
    enum { PARTS = 16, STEP = LARGE / PARTS, MAPPED = 4 };
    struct ut_end end;
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;
    void *cbdata;

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    if (ut_rank == 0) {
        for (unsigned int i = 0; i < PARTS; i++) {
            unsigned int at = i * 7 % PARTS * STEP;
            memset(end.mem, (int)i + 1, 4096);
            if (i < MAPPED)
                put_until(&end, &peers[1], at, 1, i + 1);
            else
                put_words(&end, &peers[1], at, MANY);
            CHECK_OK(utofu_put(end.vcq, peers[1].id, end.stadd, peers[1].stadd + at, 4096, 0,
                               UT_TCQ | UT_RMT, NULL));
            CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
        }
        atomic_store(ut_cell(0), 1);
    } else {
        for (unsigned int i = 0; i < PARTS; i++) {
            const uint8_t *at = end.mem + i * 7 % PARTS * STEP;
            while (i < MAPPED && pages_can_be_mapped() && pages_mapped(at, PART) == 0)
                ut_expect_nothing(end.vcq);
            atomic_store(ut_cell(1), i + 1);
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        }
        for (unsigned int i = 0; i < PARTS; i++) {
            const uint8_t *at = end.mem + i * 7 % PARTS * STEP;
            CHECK(at[0] == i + 1 && memcmp(at, at + 1, 4095) == 0, "part %u", i);
        }
        if (pages_can_be_mapped())
            CHECK(pages_mapped(end.mem, LARGE) > 0);
        poll_until(&end, 0, 1);
    }
    ut_close_all(&end);
}

Test(map_pays, many_parts_of_a_region_are_used)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS}}, scattered, NULL);
}

/* Words of a region of many blocks in turn, as by a program that goes round large buffers. */
static void in_turn(void *arg)
{
    enum { BLOCK = 2 << 20 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    if (ut_rank == 0) {
        while (get_cell(0) == 0)
            for (size_t at = 0; at < LARGE; at += BLOCK)
                put_words(&end, &peers[1], at, 1);
    } else if (pages_can_be_mapped()) {
        for (size_t at = 0; at < LARGE; at += BLOCK)
            while (pages_mapped(end.mem + at, PAGE) == 0)
                ut_expect_nothing(end.vcq);
    }
    atomic_store(ut_cell(0), 1);
    ut_close_all(&end);
}

Test(map_pays, memory_is_mapped_that_is_used_in_turn_with_much_other)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS}}, in_turn, NULL);
}

/*
 * Writers of all kinds while the pages are exchanged: every process puts to its own lines of each
 * other's region, a thread of the owner stores to its own lines, and all gets read what was written
 * last.
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
    const int rounds = (int)ut_env_number("UT_MAP_PAYS", 4);
    struct ut_peer peers[WRITERS], all[WRITERS], mine = {0};
    uint8_t *mem = ut_pages(SIZE);
    pthread_t thread;
    struct ut_end end;
    void *wrong;

    (void)arg;
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
    CHECK(get_cell(1) > 0 || !pages_can_be_mapped(), "nothing was exchanged");
}

Test(map_pays, nothing_is_lost_while_pages_are_exchanged)
{
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {PAYS}}, raced, NULL);
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {PAYS, "UTOFU_SHM_CMA=0"}},
           raced, NULL);
}
