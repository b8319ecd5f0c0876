/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory of the allocator: memory given back behaves like any private memory, so
 * calloc() finds zeros and realloc() the content, from several arenas at once.
 *
 * UT_MAP_STORM: allocations of each thread.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(storm);

enum { THREADS = 3, HELD = 12 };

static utofu_vcq_hdl_t vcqs[THREADS];

struct block {
    uint8_t *at;
    size_t size;
    uint8_t value;
    utofu_stadd_t stadd; /* 0: not registered */
};

static bool all_are(const uint8_t *at, size_t size, uint8_t value)
{
    return size == 0 || (at[0] == value && memcmp(at, at + 1, size - 1) == 0);
}

static size_t random_size(struct ut_rng *rng)
{
    static const size_t below[] = {600, 20000, 120000, 1000000};

    return 1 + ut_rng_below(rng, below[ut_rng_below(rng, NUM(below))]);
}

static void let_go(utofu_vcq_hdl_t vcq, struct block *b)
{
    if (b->stadd)
        CHECK_OK(utofu_dereg_mem(vcq, b->stadd, 0));
    CHECK(all_are(b->at, b->size, b->value), "a block of %zu bytes has changed", b->size);
    b->stadd = 0;
}

static void take(utofu_vcq_hdl_t vcq, struct ut_rng *rng, struct block *b)
{
    size_t size = random_size(rng);

    if (b->at && ut_rng_below(rng, 3) == 0) {
        size_t kept = size < b->size ? size : b->size;
        b->at = realloc(b->at, size);
        CHECK(b->at && all_are(b->at, kept, b->value), "realloc() to %zu bytes", size);
    } else {
        bool zeroed = ut_rng_below(rng, 2);
        free(b->at);
        b->at = zeroed ? calloc(1, size) : malloc(size);
        CHECK(b->at && (!zeroed || all_are(b->at, size, 0)), "calloc() of %zu bytes", size);
    }
    b->size = size;
    b->value = (uint8_t)(1 + ut_rng_below(rng, 255));
    memset(b->at, b->value, size);
    if (ut_rng_below(rng, 2) == 0)
        CHECK_OK(utofu_reg_mem(vcq, b->at, size, 0, &b->stadd));
}

static void *storm(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    struct ut_rng rng = ut_rng_start(me + 100);
    struct block blocks[HELD] = {0};
    uint64_t rounds = ut_env_number("UT_MAP_STORM", 1500);

    for (uint64_t i = 0; i < rounds; i++) {
        struct block *b = &blocks[ut_rng_below(&rng, HELD)];
        let_go(vcqs[me], b);
        take(vcqs[me], &rng, b);
        if (i % 64 == 0)
            malloc_trim(0);
    }
    for (int i = 0; i < HELD; i++) {
        let_go(vcqs[me], &blocks[i]);
        free(blocks[i].at);
    }
    return NULL;
}

static void storms(void *arg)
{
    pthread_t threads[THREADS];

    (void)arg;
    mallopt(M_MMAP_THRESHOLD, 400000); /* some blocks from arenas, some mapped */
    for (size_t t = 0; t < THREADS; t++)
        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)t, 0, &vcqs[t]));
    for (size_t t = 0; t < THREADS; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, storm, (void *)(uintptr_t)t), 0);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        CHECK_OK(utofu_free_vcq(vcqs[t]));
    }
}

Test(storm, calloc_is_zero_and_realloc_keeps_its_bytes)
{
    ut_run(&(struct ut_run_opts){.n = 1, .timeout_s = 200}, storms, NULL);
}

Test(storm, the_same_with_every_second_region_refused)
{
    ut_run(&(struct ut_run_opts){.n = 1, .timeout_s = 200, .env = {"UTOFU_TEST=map_refuse=2"}},
           storms, NULL);
}

/* Pages dropped after deregistration read as zeros; registered ones keep their content. */
static void dropped(void *arg)
{
    enum { SIZE = 16 * PAGE };
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    uint8_t *mem = ut_pages(SIZE);

    (void)arg;
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    memset(mem, 7, SIZE);
    CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
    if (pages_can_be_mapped()) {
        CHECK_EQ(pages_mapped(mem, SIZE), SIZE);
        CHECK_EQ(madvise(mem, SIZE, MADV_DONTNEED), 0);
        CHECK(all_are(mem, SIZE, 7));
    }
    CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    CHECK(all_are(mem, SIZE, 7));
    CHECK_EQ(pages_mapped(mem, SIZE), 0);
    CHECK_EQ(madvise(mem, SIZE, MADV_DONTNEED), 0);
    CHECK(all_are(mem, SIZE, 0));
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(storm, dropped_pages_are_zero_once_they_are_deregistered)
{
    ut_run(&(struct ut_run_opts){.n = 1}, dropped, NULL);
}
