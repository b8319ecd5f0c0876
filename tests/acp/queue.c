/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue: chains that continue while the program computes, more GMAs than queue entries, handles
 * beyond 32 bits (FIRST-HANDLE), and orders, which keep conflicting GMAs apart.
 *
 *     acp_queue FIRST-HANDLE [GMAS]
 *
 * 6,000 unless set: more than the queue has entries.
 */
#include "check.h"

#include <time.h>

static int me, n, gmas = 6000;

static acp_ga_t ga(int rank, size_t offset)
{
    return acp_query_starter_ga((rank + n) % n) + offset;
}

static void handles_rise_from(long long first)
{
    acp_handle_t h = acp_copy(ga(me, 8), ga(me, 0), 8, 0);

    CHECK(h == first);
    CHECK(acp_copy(ga(me, 8), ga(me + 1, 0), 8, 0) == first + 1);
    acp_complete(first + 1);
    CHECK(acp_inquire(first + 1) == 0);
    CHECK(acp_inquire(first) == 0 && acp_inquire(0) == 0 && acp_inquire(1) == 0);
}

/* Complete means complete, even if the handles of a chain have more bits from its middle on: a word
 * goes from one other process to the next and back, twenty times. */
static void chain_is_complete(void)
{
    size_t word = 5600 + 8 * (size_t)me;
    volatile uint64_t *mine = (uint64_t *)((char *)own_starter() + word);
    acp_handle_t last;

    *mine = 4712 + (uint64_t)me;
    last = acp_copy(ga(me + 1, word), ga(me, word), 8, ACP_HANDLE_NULL);
    for (int i = 0; i < 40; i++)
        last = acp_copy(ga(me + 2 - i % 2, word), ga(me + 1 + i % 2, word), 8, last);
    last = acp_copy(ga(me, word + 64), ga(me + 1, word), 8, last);
    acp_complete(last);
    CHECK(mine[8] == 4712 + (uint64_t)me);
    acp_sync();
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A hundred words, each copied from the previous one; afterwards only the memory is read. */
static void chain_runs_by_itself(void)
{
    volatile uint64_t *mine = own_starter();
    double end;

    mine[200] = 4711;
    mine[300] = 0;
    acp_sync();
    for (int i = 0; i < 100; i++) {
        int from = i % 2 ? me + 1 : me, to = i % 2 ? me : me + 1;

        CHECK(acp_copy(ga(to, 1608 + 8 * (size_t)i), ga(from, 1600 + 8 * (size_t)i), 8,
                       (acp_handle_t)(i == 0 ? 0 : ACP_HANDLE_ALL)) != 0);
    }
    end = seconds() + 60;
    while (mine[300] != 4711 && seconds() < end)
        ; /* computes */
    CHECK(mine[300] == 4711);
    acp_sync();
}

/* Third-party copies to one process, many more than its ring and the queue have entries. */
static void more_than_the_queue(void)
{
    acp_handle_t first = 0, last = 0;
    uint64_t *mine = own_starter();

    mine[400] = 77 + (uint64_t)me;
    acp_sync();
    for (int i = 0; i < gmas; i++) {
        last = acp_copy(ga(me + 2, 3208), ga(me + 1, 3200), 8, 0);
        if (i == 0)
            first = last;
        CHECK(last == first + i);
    }
    acp_complete(last);
    CHECK(acp_inquire(ACP_HANDLE_ALL) == 0);
    acp_sync();
    CHECK(mine[401] == 77 + (uint64_t)((me + n - 1) % n));
}

/* One GMA that waits for all keeps the queue full: 4,096 after it, and more. */
static void waiting_ones_fill_it(void)
{
    acp_handle_t last = 0;
    uint64_t *mine = own_starter();

    mine[500] = 0;
    mine[501] = 1;
    for (int i = 0; i < gmas; i++)
        last = acp_add8(ga(me, 4800 + 16), ga(me, 4000), 1, (acp_handle_t)ACP_HANDLE_ALL);
    acp_complete(last);
    CHECK(mine[500] == (uint64_t)gmas && mine[602] == (uint64_t)gmas - 1);
    acp_sync();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    setenv("ACP_FIRST_HANDLE", argv[1], 1);
    CHECK(acp_init(&argc, &argv) == 0);
    if (argc == 3)
        gmas = atoi(argv[2]);
    me = acp_rank();
    n = acp_procs();
    handles_rise_from(atoll(argv[1]));
    chain_is_complete();
    chain_runs_by_itself();
    more_than_the_queue();
    waiting_ones_fill_it();
    CHECK(acp_finalize() == 0);
    return 0;
}
