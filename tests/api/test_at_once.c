/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that polls a flag inside a small put may read the rest of the put, wherever the flag
 * is: transports put packets of 32 bytes and poll byte 18. Section 6.1.2.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(at_once);

enum { SIZE = 32, MARK = 16, LAST = 28, WORDS = SIZE / 4 };

static struct ut_end end;
static bool stop;

/* Does any CPU of this machine have all of these words in /proc/cpuinfo? */
static bool cpu_has(const char *const words[], size_t num)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[4096];
    uint32_t found = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        for (size_t i = 0; i < num; i++)
            found |= (uint32_t)(strstr(line, words[i]) != NULL) << i;
    if (f != NULL)
        fclose(f);
    return found == (1u << num) - 1;
}

/* docs/guide/porting.md promises this if stores of 16 bytes become visible at once; for copies by
 * the kernel only if these do. */
static void need_machine(void)
{
    static const char *const wide[] = {" avx "};

    if (!cpu_has(wide, NUM(wide)))
        ut_skip("no stores of 16 bytes that are known to be seen at once");
}

/* Where the kernel copies, and its copies are not known to be seen at once, only the last word is
 * the last one. */
static size_t place_of_mark(void)
{
    static const char *const amd[] = {"AuthenticAMD", " fsrm"}, *const intel[] = {"GenuineIntel",
                                                                                  " fsrm",
                                                                                  " avx512_fp16"};
    bool whole = cpu_has(amd, NUM(amd)) || cpu_has(intel, NUM(intel));

    return ut_env_number("UT_AT_ONCE_BY_KERNEL", 0) && !whole ? LAST : MARK;
}

static uint64_t num_puts(void)
{
    return ut_env_number("UT_AT_ONCE_PUTS", 200000);
}

static uint32_t look(size_t at)
{
    return __atomic_load_n((const uint32_t *)(const void *)(end.mem + at), __ATOMIC_ACQUIRE);
}

/* Counts how often the flag was set and another word, read after it, was not. */
static void *watch(void *arg)
{
    uint64_t *stale = arg;
    const size_t place = place_of_mark(), other = place == MARK ? LAST : MARK;

    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 1000; i++) {
            uint32_t mark = look(place);
            uint32_t behind = look(other);
            *stale += (int32_t)(behind - mark) < 0;
        }
    }
    return NULL;
}

static void put_counters(const struct ut_peer *peer, enum ut_kind kind)
{
    uint32_t *words = (uint32_t *)(void *)(end.mem + 64);
    struct ut_comm comm = {.kind = kind,
                           .vcq = end.vcq,
                           .rmt = peer->id,
                           .lcl_stadd = end.stadd + 64,
                           .data = words,
                           .rmt_stadd = peer->stadd,
                           .length = SIZE,
                           .flags = UT_TCQ | UT_STRONG};
    void *cbdata;

    for (uint32_t n = 1; n <= num_puts(); n++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = n;
        ut_start_busy(&comm);
        while (utofu_poll_tcq(end.vcq, 0, &cbdata) == UTOFU_SUCCESS)
            ;
        if (n % 64 == 0) /* so that the watcher sees many of them */
            ut_relax();
    }
}

static void wait_for_last(void)
{
    struct utofu_mrq_notice notice;

    while (look(LAST) != num_puts()) {
        CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
        ut_relax();
    }
}

static void body(void *arg)
{
    enum ut_kind kind = *(enum ut_kind *)arg;
    struct ut_peer peers[2];
    uint64_t stale = 0;
    pthread_t watcher;

    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0) {
        put_counters(&peers[1], kind);
    } else {
        CHECK_EQ(pthread_create(&watcher, NULL, watch, &stale), 0);
        wait_for_last();
        __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
        CHECK_EQ(pthread_join(watcher, NULL), 0);
        CHECK_EQ(stale, 0);
    }
    ut_barrier();
    void *cbdata;
    while (utofu_poll_tcq(end.vcq, 0, &cbdata) == UTOFU_SUCCESS)
        ;
    ut_close_all(&end);
}

Test(at_once, what_is_behind_the_mark_of_a_small_put_is_there)
{
    enum ut_kind kind = UT_PUT;

    need_machine();
    ut_run(&(struct ut_run_opts){.timeout_s = 120}, body, &kind);
}

Test(at_once, what_is_behind_the_mark_of_a_piggyback_put_is_there)
{
    enum ut_kind kind = UT_PIGGYBACK;

    need_machine();
    ut_run(&(struct ut_run_opts){.timeout_s = 120}, body, &kind);
}
