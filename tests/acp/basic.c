/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each function of acp.h once, by processes that own both, one or none of the GAs. Two processes or
 * more.
 */
#include "check.h"

static int me, n;

static acp_ga_t starter(int rank, size_t offset)
{
    return acp_query_starter_ga((rank + n) % n) + offset;
}

static void the_job_is_as_started(char **argv)
{
    CHECK(n == atoi(argv[1]));
    CHECK(me >= 0 && me < n);
    CHECK(acp_colors() >= 1);
}

static void starter_memory_is_zero_and_of_every_rank(void)
{
    const char *mine = own_starter();

    for (int i = 0; i < 10240; i++)
        CHECK(mine[i] == 0);
    for (int r = 0; r < n; r++) {
        acp_ga_t ga = acp_query_starter_ga(r);

        CHECK(acp_query_rank(ga) == r && acp_query_rank(ga + 10000) == r);
        CHECK(acp_query_color(ga) == 0);
        CHECK((acp_query_address(ga) != NULL) == (r == me));
    }
    CHECK(acp_query_address(starter(me, 17)) == mine + 17);
    acp_sync();
}

/* Each process writes its rank to the next one's starter memory, and reads from the last one's. */
static void own_and_other(void)
{
    uint64_t *mine = own_starter();

    mine[0] = 100 + (uint64_t)me;
    acp_complete(acp_copy(starter(me + 1, 8), starter(me, 0), 8, ACP_HANDLE_NULL));
    acp_sync();
    CHECK(mine[1] == 100 + (uint64_t)((me + n - 1) % n));
    acp_complete(acp_copy(starter(me, 16), starter(me - 1, 0), 8, ACP_HANDLE_NULL));
    CHECK(mine[2] == 100 + (uint64_t)((me + n - 1) % n));
    acp_sync();
}

static void own_to_own_overlaps(void)
{
    char *mine = own_starter(), expected[64];

    for (int i = 0; i < 64; i++)
        mine[1024 + i] = (char)i;
    memcpy(expected, mine + 1024, 64);
    memmove(expected + 5, expected, 40);
    acp_complete(acp_copy(starter(me, 1029), starter(me, 1024), 40, ACP_HANDLE_NULL));
    CHECK(memcmp(mine + 1024, expected, 64) == 0);
    acp_sync();
}

/* Process 0 copies from each process to the next; the others call nothing. */
static void third_party(void)
{
    char *mine = own_starter();

    memset(mine + 2048, 'a' + me, 1000);
    acp_sync();
    if (me == 0) {
        for (int r = 0; r < n; r++)
            CHECK(acp_copy(starter(r + 1, 4096), starter(r, 2048), 1000, ACP_HANDLE_NULL) != 0);
        acp_complete(ACP_HANDLE_ALL);
        CHECK(acp_inquire(ACP_HANDLE_ALL) == 0);
    }
    acp_sync();
    for (int i = 0; i < 1000; i++)
        CHECK(mine[4096 + i] == 'a' + (me + n - 1) % n);
    acp_sync();
}

/* Word at rank w, old value to rank d: all pairs, by each process in turn. */
static void atomics_of_8(void)
{
    uint64_t *mine = own_starter();

    for (int who = 0; who < n; who++) {
        for (int pair = 0; who == me && pair < n * n; pair++) {
            acp_ga_t word = starter(pair / n, 256), old = starter(pair % n, 512 + 8 * (size_t)me);
            acp_ga_t back = starter(me, 1600);

            mine[200] = 0x1111;
            acp_complete(acp_copy(word, back, 8, ACP_HANDLE_NULL));
            acp_complete(acp_add8(old, word, 5, ACP_HANDLE_NULL));
            acp_complete(acp_copy(back, old, 8, ACP_HANDLE_NULL));
            CHECK(mine[200] == 0x1111);
            acp_complete(acp_xor8(back, word, 0xff, ACP_HANDLE_NULL));
            CHECK(mine[200] == 0x1116);
            acp_complete(acp_or8(back, word, 0xf000000000000000, ACP_HANDLE_NULL));
            CHECK(mine[200] == 0x11e9);
            acp_complete(acp_and8(back, word, 0xffff0000000000ff, ACP_HANDLE_NULL));
            CHECK(mine[200] == 0xf0000000000011e9);
            acp_complete(acp_swap8(back, word, 7, ACP_HANDLE_NULL));
            CHECK(mine[200] == 0xf0000000000000e9);
            acp_complete(acp_cas8(back, word, 8, 9, ACP_HANDLE_NULL));
            CHECK(mine[200] == 7);
            acp_complete(acp_cas8(back, word, 7, 9, ACP_HANDLE_NULL));
            CHECK(mine[200] == 7);
            acp_complete(acp_copy(back, word, 8, ACP_HANDLE_NULL));
            CHECK(mine[200] == 9);
        }
        acp_sync();
    }
}

static void atomics_of_4(void)
{
    uint32_t *mine = own_starter();

    for (int who = 0; who < n; who++) {
        for (int pair = 0; who == me && pair < n * n; pair++) {
            acp_ga_t word = starter(pair / n, 260), old = starter(pair % n, 516 + 8 * (size_t)me);
            acp_ga_t back = starter(me, 1604);

            mine[401] = 0x1111;
            mine[402] = 0xdeadbeef;
            acp_complete(acp_copy(word, back, 4, ACP_HANDLE_NULL));
            acp_complete(acp_add4(old, word, 5, ACP_HANDLE_NULL));
            acp_complete(acp_copy(back, old, 4, ACP_HANDLE_NULL));
            CHECK(mine[401] == 0x1111);
            acp_complete(acp_xor4(back, word, 0xff, ACP_HANDLE_NULL));
            CHECK(mine[401] == 0x1116);
            acp_complete(acp_or4(back, word, 0xf0000000, ACP_HANDLE_NULL));
            CHECK(mine[401] == 0x11e9);
            acp_complete(acp_and4(back, word, 0xff0000ff, ACP_HANDLE_NULL));
            CHECK(mine[401] == 0xf00011e9);
            acp_complete(acp_swap4(back, word, 7, ACP_HANDLE_NULL));
            CHECK(mine[401] == 0xf00000e9);
            acp_complete(acp_cas4(back, word, 8, 9, ACP_HANDLE_NULL));
            CHECK(mine[401] == 7);
            acp_complete(acp_cas4(back, word, 7, 9, ACP_HANDLE_NULL));
            CHECK(mine[401] == 7);
            acp_complete(acp_copy(back, word, 4, ACP_HANDLE_NULL));
            CHECK(mine[401] == 9 && mine[402] == 0xdeadbeef);
        }
        acp_sync();
    }
}

/* Registered memory of each color, to and from the next process. */
static void colors(void)
{
    static uint64_t memory[8][512];
    acp_ga_t *table = (acp_ga_t *)own_starter() + 400;

    for (int c = 0; c < acp_colors(); c++) {
        acp_atkey_t key = acp_register_memory(memory[c], sizeof(memory[c]), c);

        CHECK(key != ACP_ATKEY_NULL);
        table[c] = acp_query_ga(key, &memory[c][3]);
        CHECK(acp_query_color(table[c]) == c && acp_query_rank(table[c]) == me);
        CHECK(acp_query_address(table[c]) == &memory[c][3]);
        memory[c][3] = 1000 * (uint64_t)me + (uint64_t)c;
    }
    acp_sync();
    acp_complete(acp_copy(starter(me, 3400), starter(me + 1, 3200), 64, ACP_HANDLE_NULL));
    for (int c = 0; c < acp_colors(); c++)
        acp_copy(table[(c + 1) % acp_colors()] + 8, table[25 + c], 8, ACP_HANDLE_NULL);
    acp_complete(ACP_HANDLE_ALL);
    for (int c = 0; c < acp_colors(); c++)
        CHECK(memory[(c + 1) % acp_colors()][4] == 1000 * (uint64_t)((me + 1) % n) + (uint64_t)c);
    acp_sync();
}

/* A chain: word after word, each copied from the previous one, by one call. */
static void order_holds(void)
{
    uint64_t *mine = own_starter();
    acp_handle_t last = 0;

    mine[600] = 4711;
    for (int i = 0; i < 100; i++) {
        int from = i % 2 ? me + 1 : me, to = i % 2 ? me : me + 1;
        const acp_handle_t orders[] = {last, (acp_handle_t)ACP_HANDLE_ALL,
                                       (acp_handle_t)ACP_HANDLE_CONT};
        acp_handle_t h = acp_copy(starter(to, 4808 + 8 * (size_t)i),
                                  starter(from, 4800 + 8 * (size_t)i), 8, orders[i % 3]);

        CHECK(h > 0 && (last == 0 || h == last + 1));
        last = h;
    }
    acp_complete(last);
    CHECK(acp_inquire(last) == 0);
    CHECK(mine[700] == 4711);
    acp_sync();
}

int main(int argc, char **argv)
{
    CHECK(acp_rank() == -1 && acp_procs() == -1);
    CHECK(acp_init(&argc, &argv) == 0);
    me = acp_rank();
    n = acp_procs();
    the_job_is_as_started(argv);
    starter_memory_is_zero_and_of_every_rank();
    own_and_other();
    own_to_own_overlaps();
    third_party();
    atomics_of_8();
    atomics_of_4();
    colors();
    order_holds();
    CHECK(acp_finalize() == 0);
    return 0;
}
