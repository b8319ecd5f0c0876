/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies longer than one communication of uTofu (16,777,215 bytes), in each way of copying: put,
 * get, between two others, and inside a process. Three processes; the first one issues.
 */
#include "check.h"

enum { SIZE = (25 << 20) + 5, EDGE = 64 };

static int me, n;
static acp_ga_t at[3]; /* the memory of each process, after an edge */

/* A different byte for each place and each seed. */
static uint8_t pattern(size_t i, uint32_t seed)
{
    return (uint8_t)((i * 2654435761u + seed * 40503u) >> 13);
}

static void fill(uint8_t *memory, uint32_t seed)
{
    for (size_t i = 0; i < SIZE; i++)
        memory[EDGE + i] = pattern(i, seed);
}

/* Checks all bytes, and that the edges are unchanged. */
static void check(const uint8_t *memory, uint32_t seed)
{
    for (size_t i = 0; i < SIZE; i++)
        CHECK(memory[EDGE + i] == pattern(i, seed));
    for (size_t i = 0; i < EDGE; i++)
        CHECK(memory[i] == 0 && memory[EDGE + SIZE + i] == 0);
}

static void copy(int to, int from)
{
    acp_sync();
    if (me == 0)
        acp_complete(acp_copy(at[to], at[from], SIZE, ACP_HANDLE_NULL));
    acp_sync();
}

int main(int argc, char **argv)
{
    uint8_t *memory = calloc(1, SIZE + 2 * EDGE), *other = calloc(1, SIZE + 2 * EDGE);
    acp_ga_t *words, inside;

    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(memory != NULL && other != NULL);
    me = acp_rank();
    n = acp_procs();
    CHECK(n == 3);
    words = own_starter();
    words[0] =
        acp_query_ga(acp_register_memory(memory, SIZE + 2 * EDGE, 0), memory) + (acp_ga_t)EDGE;
    inside = acp_query_ga(acp_register_memory(other, SIZE + 2 * EDGE, 1 % acp_colors()), other);
    CHECK(inside != ACP_GA_NULL);
    acp_sync();
    for (int r = 0; r < n; r++)
        acp_copy(acp_query_starter_ga(me) + 8 + 8 * (size_t)r, acp_query_starter_ga(r), 8, 0);
    acp_complete(ACP_HANDLE_ALL);
    memcpy(at, words + 1, sizeof(at));
    fill(memory, (uint32_t)me);
    copy(1, 0); /* a put */
    if (me == 1)
        check(memory, 0);
    copy(0, 2); /* a get */
    if (me == 0)
        check(memory, 2);
    copy(2, 1); /* between two others */
    if (me == 2)
        check(memory, 0);
    acp_complete(acp_copy(inside + EDGE, at[me], SIZE, ACP_HANDLE_NULL));
    check(other, me == 0 ? 2 : 0);
    acp_sync();
    CHECK(acp_finalize() == 0);
    free(other);
    free(memory);
    return 0;
}
