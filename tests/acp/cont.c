/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ACP_HANDLE_CONT: puts to one region that were issued in sequence arrive in that order, even if
 * they are in flight together; a different operation in between waits as with ACP_HANDLE_ALL. The
 * twin leaves the orders out, and must see that they matter.
 *
 *     acp_cont [without]
 *
 * Two processes or more. UTOFU_SHM_MAP=0 UTOFU_SHM_CMA=0 sends all data through the target's
 * library, so that puts take time.
 */
#include "check.h"

enum { AREA = 512 << 10, ROUNDS = 10 };

static int me, n, next;
static bool without;
static uint64_t area[AREA / 8] __attribute__((aligned(4096))); /* written by the previous process */
static uint64_t out[AREA / 8] __attribute__((aligned(4096)));
static acp_ga_t mine, from, theirs, third; /* of the next process, and of the one after it */

static acp_handle_t cont(void)
{
    return (acp_handle_t)(without ? ACP_HANDLE_NULL : ACP_HANDLE_CONT);
}

/* The last put is a word after the others' data: a process that sees the word sees the data. */
static void words_are_last(uint64_t round)
{
    for (int i = 0; i < AREA / 8; i++)
        out[i] = round;
    acp_copy(theirs, from, AREA - 4096, ACP_HANDLE_NULL);
    for (size_t i = 0; i < 64; i++)
        acp_copy(theirs + AREA - 4096 + 8 * i, from, 8, cont());
    acp_copy(theirs + AREA - 8, from + AREA - 8, 8, cont());
    while (__atomic_load_n(&area[AREA / 8 - 1], __ATOMIC_ACQUIRE) != round)
        acp_inquire(ACP_HANDLE_ALL); /* the target's library has to be called */
    for (int i = 0; i < AREA / 8 - 512; i++)
        CHECK(area[i] == round);
    acp_complete(ACP_HANDLE_ALL);
    acp_sync();
}

/* A put, then operations that read its data: there and back, and by a third party. */
static void others_wait(uint64_t round)
{
    for (int i = 0; i < AREA / 8; i++)
        out[i] = 1000 + round;
    acp_copy(theirs, from, AREA / 2, ACP_HANDLE_NULL);
    acp_copy(from + AREA / 2, theirs + AREA / 2 - 8, 8, cont());
    acp_copy(theirs + AREA / 2, theirs, AREA / 4, cont());
    acp_add8(from + AREA / 2 + 8, theirs + AREA * 3 / 4 - 8, 1, cont());
    acp_complete(ACP_HANDLE_ALL);
    CHECK(out[AREA / 16] == 1000 + round);
    CHECK(out[AREA / 16 + 1] == 1000 + round);
    acp_sync();
    for (int i = AREA / 16; i < AREA * 3 / 32 - 1; i++)
        CHECK(area[i] == 1000 + round);
    CHECK(area[AREA * 3 / 32 - 1] == 1001 + round);
    acp_sync();
}

/* A put after puts, with a get of its source data from another process before them. */
static void what_is_got_is_sent(uint64_t round)
{
    for (int i = 0; i < AREA / 8; i++)
        out[i] = area[i] = 2000 + round;
    acp_sync();
    memset(out, 0, AREA / 2);
    acp_copy(from, third, AREA / 2, ACP_HANDLE_NULL);
    acp_copy(theirs + AREA - 8, from + AREA - 8, 8, ACP_HANDLE_NULL);
    acp_copy(theirs + AREA - 4096, from + AREA / 2 - 2048, 2048, cont());
    acp_complete(ACP_HANDLE_ALL);
    acp_sync();
    for (int i = 0; i < 256; i++)
        CHECK(area[AREA / 8 - 512 + i] == 2000 + round);
    acp_sync();
}

int main(int argc, char **argv)
{
    acp_ga_t *words;

    CHECK(acp_init(&argc, &argv) == 0);
    me = acp_rank();
    n = acp_procs();
    next = (me + 1) % n;
    without = argc > 1;
    mine = acp_query_ga(acp_register_memory(area, AREA, 0), area);
    from = acp_query_ga(acp_register_memory(out, AREA, 0), out);
    CHECK(mine != ACP_GA_NULL && from != ACP_GA_NULL);
    words = own_starter();
    words[0] = mine;
    acp_sync();
    acp_complete(acp_copy(acp_query_starter_ga(me) + 8, acp_query_starter_ga(next), 8, 0));
    theirs = words[1];
    acp_complete(acp_copy(acp_query_starter_ga(me) + 8, acp_query_starter_ga((me + 2) % n), 8, 0));
    third = words[1];
    acp_sync();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        words_are_last(round);
        others_wait(round);
        what_is_got_is_sent(round);
    }
    CHECK(acp_finalize() == 0);
    return 0;
}
