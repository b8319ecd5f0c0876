/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small measurements, each a region of rank 0, that utofu-model is fitted on and compared with:
 *
 *     UTOFU_TRACE=t.rec,record=1 utofurun -n 12 --nodes 12 tables CASE [ROUNDS]
 *
 * put, get, armw: one at a time to a rank 1, 2 and 3 links away; windows: 8 in flight to a
 * neighbour, by size; ring: round all 12 ranks by neighbours, each puts on what it has received, by
 * size. Puts are seen by reading memory, as by the user whose figures docs/guide/model.md has.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utofu.h>

#include "../harness/limit.h"
#if __has_include(<utofu_ext.h>)
#    include <utofu_ext.h>
#else
#    include <utofu_regions.h>
#endif

#include "meet.h"

enum { RANKS = 12, STAG = 0, LARGEST = 66560, WINDOW = 8, ROOM = (WINDOW + 1) * LARGEST };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t ids[MAX_PROCESSES];
static utofu_stadd_t own, far[RANKS];
static uint8_t *memory;
static uint64_t rounds;

static volatile uint64_t *word_at(size_t offset)
{
    return (volatile uint64_t *)(memory + offset);
}

static void wait_for_word(size_t offset, uint64_t value)
{
    while (*word_at(offset) != value)
        sched_yield();
}

static void take_tcq(void)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    check_call(rc, "utofu_poll_tcq");
}

static void begin(const char *name)
{
    meet(vcq, ids);
    if (my_rank() == 0)
        CALL(utofu_profile_start(name));
}

static void end(const char *name)
{
    if (my_rank() == 0)
        CALL(utofu_profile_stop(name));
}

/* Puts the last word of the memory's first `size` bytes last. */
static void put_words(int to, size_t size, uint64_t value, unsigned long flags)
{
    *word_at(LARGEST + size - 8) = value;
    CALL(utofu_put(vcq, ids[to], own + LARGEST, far[to], size, 0,
                   UTOFU_ONESIDED_FLAG_STRONG_ORDER | flags, NULL));
}

static void ping_pong(int other, const char *name)
{
    static uint64_t value;

    begin(name);
    for (uint64_t i = 0; i < rounds; i++) {
        value++;
        if (my_rank() == 0)
            put_words(other, 8, value, 0);
        if (my_rank() == 0 || my_rank() == other)
            wait_for_word(0, value);
        if (my_rank() == other)
            put_words(0, 8, value, 0);
    }
    end(name);
}

static void one_sided(int other, const char *name, int armw)
{
    begin(name);
    for (uint64_t i = 0; my_rank() == 0 && i < rounds; i++) {
        if (armw)
            CALL(utofu_armw8(vcq, ids[other], UTOFU_ARMW_OP_ADD, 1, far[other], 0,
                             UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        else
            CALL(utofu_get(vcq, ids[other], own, far[other], 8, 0,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        wait_notice(vcq);
    }
    end(name);
}

static void window(size_t size, int get)
{
    char name[64];
    uint64_t total = WINDOW * rounds;

    snprintf(name, sizeof(name), "%s window %zu", get ? "get" : "put", size);
    begin(name);
    for (uint64_t i = 0; my_rank() == 0 && i < total + WINDOW; i++) {
        size_t at = i % WINDOW * size;
        if (i >= WINDOW && get)
            wait_notice(vcq);
        else if (i >= WINDOW)
            take_tcq();
        if (i < total && get)
            CALL(utofu_get(vcq, ids[1], own + at, far[1] + at, size, 0,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        else if (i < total)
            CALL(utofu_put(vcq, ids[1], own + at, far[1] + at, size, 0,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    }
    end(name);
}

static void ring(size_t size)
{
    /* neighbours in a, b, c: b0 b1 b2 of a0, b2 b1 b0 of a1, the same of c1 backwards */
    static const int order[RANKS] = {0, 2, 4, 5, 3, 1, 7, 9, 11, 10, 8, 6};
    static uint64_t value;
    char name[64];
    int at = 0;

    while (order[at] != my_rank())
        at++;
    int next = order[(at + 1) % RANKS];
    snprintf(name, sizeof(name), "ring %zu", size);
    *word_at(size - 8) = 0;
    value = 0;
    begin(name);
    for (uint64_t i = 0; i < rounds; i++) {
        value++;
        if (my_rank() == 0)
            put_words(next, size, value, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
        wait_for_word(size - 8, value);
        if (my_rank() != 0)
            put_words(next, size, value, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
        take_tcq();
    }
    end(name);
}

int main(int argc, char **argv)
{
    static const int at_distance[] = {1, 3, 9};
    const char *what = argc > 1 ? argv[1] : "put";
    char name[64];

    need_processes(RANKS, RANKS);
    rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    memory = aligned_memory(ROOM);
    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, memory, ROOM, STAG, 0, &own));
    meet(vcq, ids);
    for (int i = 0; i < RANKS; i++)
        CALL(utofu_query_stadd(ids[i], STAG, &far[i]));
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s distance %zu", what, i + 1);
        if (strcmp(what, "put") == 0)
            ping_pong(at_distance[i], name);
        else if (strcmp(what, "get") == 0 || strcmp(what, "armw") == 0)
            one_sided(at_distance[i], name, *what == 'a');
    }
    for (size_t size = 1024; strcmp(what, "windows") == 0 && size <= 65536; size *= 4) {
        window(size, 0);
        window(size, 1);
    }
    for (size_t size = 2080; strcmp(what, "ring") == 0 && size <= LARGEST; size *= 2)
        ring(size);
    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, own, 0));
    close_vcq(vcq);
    free(memory);
    return 0;
}
