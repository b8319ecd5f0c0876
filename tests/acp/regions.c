/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is registered after a region or across its end becomes part of it: the same key,
 * counted, with consecutive GAs, and without notice by peers that know the region. Memory that is
 * not adjacent to a region, or has another color, does not. Two processes, in turn.
 *
 *     acp_regions [many]      many: also the maximum number
 */
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 72, TRIES = 200 };

static int me, other;
static char *memory;   /* 4 MiB, of this process */
static uint64_t *mine; /* starter memory */

static acp_ga_t starter(int rank, size_t offset)
{
    return acp_query_starter_ga(rank) + offset;
}

/* Returns the active process's GA in both processes. */
static acp_ga_t tell(bool my_turn, acp_ga_t ga)
{
    if (my_turn) {
        mine[0] = ga;
        acp_complete(acp_copy(starter(other, 0), starter(me, 0), 8, 0));
    }
    acp_sync();
    ga = mine[0];
    acp_sync();
    return ga;
}

/* Usually, not always: not during a communication of the layer itself. */
static void merged_where_adjacent(size_t behind, int color, bool expected)
{
    int merged = 0;

    for (int i = 0; i < TRIES; i++) {
        char *at = memory + i * 1024 + i % 8;
        acp_atkey_t first = acp_register_memory(at, PIECE, 0), second;
        acp_ga_t before = acp_query_ga(first, at + 5);

        second = acp_register_memory(at + behind, PIECE, color);
        CHECK(first != ACP_ATKEY_NULL && second != ACP_ATKEY_NULL);
        CHECK(acp_query_address(acp_query_ga(second, at + behind + 1)) == at + behind + 1);
        CHECK(acp_query_ga(first, at + 5) == before && acp_query_address(before) == at + 5);
        if (first == second) {
            merged++;
            CHECK(acp_query_ga(first, at + behind) == before + behind - 5);
            CHECK(acp_query_address(before + behind) == at + behind + 5);
        }
        CHECK(acp_unregister_memory(second) == 0);
        CHECK(acp_query_address(before) == at + 5);
        CHECK(acp_unregister_memory(first) == 0);
        CHECK(acp_query_address(before) == NULL);
    }
    CHECK(expected ? merged > 0 : merged == 0);
}

static void not_beyond_a_mebibyte(void)
{
    acp_atkey_t first = acp_register_memory(memory, 1 << 20, 0);
    acp_atkey_t second = acp_register_memory(memory + (1 << 20), 64, 0);

    CHECK(first != second);
    CHECK(acp_unregister_memory(first) == 0 && acp_unregister_memory(second) == 0);
}

static int fill(acp_atkey_t *keys, int count, int color)
{
    while (count < 65536 && (keys[count] = acp_register_memory(memory + 16 * (size_t)count, 1,
                                                               color)) != ACP_ATKEY_NULL)
        count++;
    return count;
}

/* Regions of one byte each, with gaps: the maximum number for a color is uTofu's number of STags,
 * and the total maximum the number of tags; each ended one can be replaced. */
static void as_many_as_there_are(void)
{
    static acp_atkey_t keys[65536 + 1];
    int count = fill(keys, 0, 0);

    CHECK(count >= 65000);
    if (acp_colors() > 1) {
        count = fill(keys, count, 1);
        CHECK(count == 65532);
        CHECK(acp_register_memory(memory, PAGE, 0) == ACP_ATKEY_NULL);
    }
    CHECK(acp_unregister_memory(keys[4711]) == 0);
    keys[4711] = acp_register_memory(memory + 16 * (size_t)count + 8, 1, 0);
    CHECK(keys[4711] != ACP_ATKEY_NULL);
    CHECK(acp_query_address(acp_query_ga(keys[4711], memory + 16 * (size_t)count + 8)) ==
          memory + 16 * (size_t)count + 8);
    for (int i = 0; i < count; i++)
        CHECK(acp_unregister_memory(keys[i]) == 0);
}

/* The other process puts to the growing region and gets from it, all the time. */
static void peers_do_not_notice(bool my_turn)
{
    acp_atkey_t key = ACP_ATKEY_NULL;
    acp_ga_t ga = ACP_GA_NULL;
    int registered = 1;

    memset(memory, 0, 1 << 20);
    if (my_turn) {
        key = acp_register_memory(memory, 512, 0);
        ga = acp_query_ga(key, memory);
    }
    ga = tell(my_turn, ga);
    mine[100] = 0;
    acp_sync();
    if (my_turn) {
        while (__atomic_load_n(&mine[100], __ATOMIC_ACQUIRE) == 0 && registered < 1000) {
            char *end = memory + 512 + 8 * (registered - 1);
            acp_atkey_t next = acp_register_memory(end, 8, 0);

            CHECK(next != ACP_ATKEY_NULL);
            if (next == key)
                registered++;
            else
                CHECK(acp_unregister_memory(next) == 0);
            if (registered % 8 == 0) { /* so that the next registration makes the region new */
                CHECK(acp_unregister_memory(key) == 0);
                CHECK(acp_register_memory(memory, 512, 0) == key);
            }
        }
        CHECK(registered > 1);
    } else {
        for (uint64_t i = 1; i <= 300; i++) {
            mine[10] = i;
            mine[11] = 0;
            acp_complete(acp_copy(ga + 8 * (i % 60), starter(me, 80), 8, 0));
            acp_complete(acp_copy(starter(me, 88), ga + 8 * (i % 60), 8, 0));
            CHECK(mine[11] == i);
            acp_complete(acp_add8(starter(me, 88), ga + 504, 1, 0));
            CHECK(mine[11] == i - 1);
        }
        acp_complete(acp_copy(starter(other, 800), starter(me, 80), 8, 0));
    }
    acp_sync();
    while (my_turn && registered-- > 0)
        CHECK(acp_unregister_memory(key) == 0);
    acp_sync();
}

/* Two pages in one region; the second is unregistered, and replaced by other memory. */
static void memory_is_replaced(bool my_turn)
{
    acp_atkey_t key = ACP_ATKEY_NULL, second = ACP_ATKEY_NULL, third = ACP_ATKEY_NULL;
    acp_ga_t ga = ACP_GA_NULL;
    volatile uint64_t *word = (volatile uint64_t *)(memory + PAGE);

    for (int i = 0; my_turn && i < TRIES && (key == ACP_ATKEY_NULL || second != key); i++) {
        if (key != ACP_ATKEY_NULL)
            CHECK(acp_unregister_memory(key) == 0 && acp_unregister_memory(second) == 0);
        key = acp_register_memory(memory, PAGE, 0);
        second = acp_register_memory(memory + PAGE, PAGE, 0);
        ga = acp_query_ga(second, memory + PAGE);
    }
    CHECK(key == second);
    ga = tell(my_turn, ga);
    mine[10] = 77;
    if (!my_turn)
        acp_complete(acp_copy(ga, starter(me, 80), 8, 0));
    acp_sync();
    if (my_turn) {
        CHECK(*word == 77);
        CHECK(acp_unregister_memory(second) == 0);
        CHECK(munmap(memory + PAGE, PAGE) == 0);
        CHECK(mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + PAGE);
        third = acp_register_memory(memory + PAGE, PAGE, 0);
        ga = acp_query_ga(third, memory + PAGE);
        CHECK(*word == 0);
    }
    ga = tell(my_turn, ga);
    mine[10] = 88;
    if (!my_turn)
        acp_complete(acp_copy(ga, starter(me, 80), 8, 0));
    acp_sync();
    if (my_turn) {
        CHECK(*word == 88);
        CHECK(acp_unregister_memory(third) == 0);
        CHECK(acp_unregister_memory(key) == 0);
    }
    acp_sync();
}

/* Registers the memory after a region until it has become part of the region. */
static void add_to(acp_atkey_t key, char *end, size_t size)
{
    for (int i = 0;; i++) {
        acp_atkey_t more = acp_register_memory(end, size, 0);

        if (more == key)
            return;
        CHECK(i < TRIES && acp_unregister_memory(more) == 0);
        usleep(1000);
    }
}

/* The other process knows the region from before it grew: it can access the new part, and nothing
 * after it, where the STADDs of another region begin. */
static void others_reach_all_of_it_and_no_more(bool my_turn)
{
    const uint64_t next_stag = 1ull << 40;
    acp_atkey_t key = ACP_ATKEY_NULL, next[4] = {ACP_ATKEY_NULL};
    acp_ga_t ga = ACP_GA_NULL;

    if (my_turn) {
        memset(memory, 1, 4 << 20);
        key = acp_register_memory(memory, 512, 0);
        ga = acp_query_ga(key, memory);
    }
    ga = tell(my_turn, ga);
    mine[100] = 0;
    if (!my_turn)
        acp_complete(acp_copy(starter(me, 800), ga, 8, 0));
    CHECK(my_turn || mine[100] == 0x0101010101010101);
    acp_sync();
    if (my_turn)
        add_to(key, memory + 512, PAGE);
    for (int i = 0; my_turn && i < 4; i++)
        next[i] = acp_register_memory(memory + (1 << 20) + (i << 16), 512, 0);
    acp_sync();
    for (uint64_t i = 0; !my_turn && i < 2; i++) {
        mine[100] = 0;
        acp_complete(acp_copy(starter(me, 800), ga + 512 + (1 - i) * (PAGE - 8), 8, 0));
        CHECK(mine[100] == 0x0101010101010101);
        mine[100] = 0;
        acp_complete(acp_copy(starter(me, 800), ga + next_stag * (i + 1), 8, 0));
        CHECK(mine[100] == 0);
    }
    acp_sync();
    for (int i = 0; my_turn && i < 4; i++)
        CHECK(acp_unregister_memory(next[i]) == 0);
    if (my_turn)
        CHECK(acp_unregister_memory(key) == 0 && acp_unregister_memory(key) == 0);
    acp_sync();
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    me = acp_rank();
    other = 1 - me;
    CHECK(acp_procs() == 2);
    mine = own_starter();
    memory = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    merged_where_adjacent(PIECE, 0, true);
    merged_where_adjacent(PIECE - 30, 0, true);
    merged_where_adjacent(PIECE + 1, 0, false);
    if (acp_colors() > 1)
        merged_where_adjacent(PIECE, 1, false);
    not_beyond_a_mebibyte();
    if (argc > 1)
        as_many_as_there_are();
    for (int turn = 0; turn < 2; turn++) {
        acp_sync();
        peers_do_not_notice(turn == me);
        memory_is_replaced(turn == me);
        others_reach_all_of_it_and_no_more(turn == me);
    }
    CHECK(acp_finalize() == 0);
    return 0;
}
