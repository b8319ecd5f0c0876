/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the regions that were used last, which acp_copy() starts without a search: they
 * are within these regions, the regions still exist, and the order is satisfied. Each case uses
 * regions that the process already knows. Two processes or more.
 */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { REGIONS = 40, WORDS = 8 };

static int me, n, next, nowhere, real_stderr;
static uint64_t memory[REGIONS * 2][WORDS] __attribute__((aligned(4096))); /* with gaps */
static acp_atkey_t keys[REGIONS];
static acp_ga_t mine[REGIONS], theirs[REGIONS];

/* acp_copy() and acp_complete(); the message of an expected failure is suppressed. */
static bool copied(acp_ga_t dst, acp_ga_t src, size_t size, bool quietly)
{
    acp_handle_t h;

    if (quietly)
        CHECK(dup2(nowhere, STDERR_FILENO) == STDERR_FILENO);
    h = acp_copy(dst, src, size, ACP_HANDLE_NULL);
    acp_complete(h);
    CHECK(dup2(real_stderr, STDERR_FILENO) == STDERR_FILENO);
    CHECK(acp_inquire(h) == 0);
    return h != ACP_HANDLE_NULL;
}

static void publish_all(void)
{
    acp_ga_t *table = own_starter();

    for (int i = 0; i < REGIONS; i++) {
        keys[i] = acp_register_memory(memory[2 * i], sizeof(memory[0]), 0);
        CHECK(keys[i] != ACP_ATKEY_NULL);
        table[i] = mine[i] = acp_query_ga(keys[i], memory[2 * i]);
    }
    acp_sync();
    CHECK(copied(acp_query_starter_ga(me) + 4096, acp_query_starter_ga(next), 8 * REGIONS, false));
    memcpy(theirs, table + 512, sizeof(theirs));
    acp_sync();
}

/* Puts and gets in turn, between more regions than are known at a time. */
static void many_regions_in_turn(void)
{
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < REGIONS; i++) {
            int from = (i * 7 + round) % REGIONS;
            uint64_t value = 1000000ull * (uint64_t)me + (uint64_t)(round * REGIONS + i);

            memory[2 * from][3] = value;
            memory[2 * from][4] = 0;
            CHECK(copied(theirs[i] + 56, mine[from] + 24, 8, false));
            CHECK(copied(mine[from] + 32, theirs[i] + 56, 8, false));
            CHECK(memory[2 * from][4] == value);
        }
    acp_sync();
}

/* The last bytes of both regions, and one more. Bytes after a region are not changed. No region is
 * the source of one process's put and the target of another's at once. */
static void no_byte_beyond(void)
{
    static const uint64_t zeros[WORDS];

    for (int i = 0; i < 3; i++) {
        acp_ga_t target = theirs[REGIONS - 1 - i];

        CHECK(copied(target, mine[i], sizeof(memory[0]), false));
        CHECK(!copied(target, mine[i] + 1, sizeof(memory[0]), true));
        CHECK(!copied(mine[i] + 1, target, sizeof(memory[0]), true));
        copied(target + 1, mine[i], sizeof(memory[0]), true);
        copied(target + sizeof(memory[0]), mine[i], 1, true);
    }
    acp_sync();
    for (int i = 0; i < REGIONS; i++)
        CHECK(memcmp(memory[2 * i + 1], zeros, sizeof(zeros)) == 0);
}

static void orders_count(void)
{
    acp_ga_t target = theirs[REGIONS - 1];
    acp_handle_t h = acp_copy(target, mine[0], 8, ACP_HANDLE_NULL);

    CHECK(acp_copy(target, mine[0], 8, h) == h + 1);
    CHECK(acp_copy(target, mine[0], 8, (acp_handle_t)ACP_HANDLE_ALL) == h + 2);
    CHECK(acp_copy(target, mine[0], 8, (acp_handle_t)ACP_HANDLE_CONT) == h + 3);
    CHECK(acp_copy(target, mine[0], 0, ACP_HANDLE_NULL) == h + 4);
    CHECK(dup2(nowhere, STDERR_FILENO) == STDERR_FILENO);
    CHECK(acp_copy(target, mine[0], 8, h + 6) == ACP_HANDLE_NULL);
    CHECK(dup2(real_stderr, STDERR_FILENO) == STDERR_FILENO);
    acp_complete(ACP_HANDLE_ALL);
    CHECK(acp_copy(target, mine[0], 8, ACP_HANDLE_NULL) == h + 5);
    acp_complete(h + 5);
}

static void *put_own_words(void *arg)
{
    uint64_t *word = arg;
    acp_ga_t from = mine[0] + (acp_ga_t)((char *)word - (char *)memory[0]);
    acp_ga_t to = theirs[0] + (from - mine[0]);

    for (uint64_t i = 1; i <= 5000; i++) {
        *word = i;
        acp_complete(acp_copy(to, from, 8, ACP_HANDLE_NULL));
        *word = 0;
        acp_complete(acp_copy(from, to, 8, ACP_HANDLE_NULL));
        CHECK(*word == i);
    }
    return NULL;
}

static void several_threads(void)
{
    pthread_t threads[3];

    acp_sync();
    if (me == 0) { /* alone: otherwise the previous process's puts arrive here */
        for (int t = 0; t < 3; t++)
            CHECK(pthread_create(&threads[t], NULL, put_own_words, &memory[0][t]) == 0);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
    }
    acp_sync();
}

/* An unregistered region becomes inaccessible at once, for its owner and for others. */
static void regions_that_go(void)
{
    CHECK(copied(theirs[1], mine[1], 8, false));
    CHECK(copied(mine[1], theirs[1], 8, false));
    acp_sync();
    CHECK(acp_unregister_memory(keys[1]) == 0);
    acp_sync();
    CHECK(!copied(theirs[2], mine[1], 8, true));
    memory[4][0] = 5;
    copied(mine[2], theirs[1], 8, true);
    CHECK(memory[4][0] == 5);
    acp_sync();
    memset(memory[2], 0, sizeof(memory[2]));
    acp_sync();
    copied(theirs[1], mine[2], 8, true);
    acp_sync();
    CHECK(memory[2][0] == 0);
}

/* Other regions with the same GAs: those of another rank. */
static void reset_forgets(void)
{
    uint64_t *starter;

    CHECK(copied(acp_query_starter_ga(next) + 16, acp_query_starter_ga(me) + 8, 8, false));
    CHECK(acp_reset((me + 1) % n) == 0);
    me = acp_rank();
    next = (me + 1) % n;
    starter = own_starter();
    starter[0] = 100 + (uint64_t)me;
    CHECK(copied(acp_query_starter_ga(next) + 8, acp_query_starter_ga(me), 8, false));
    acp_sync();
    CHECK(starter[1] == 100 + (uint64_t)((me + n - 1) % n));
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    me = acp_rank();
    n = acp_procs();
    next = (me + 1) % n;
    CHECK(n >= 2);
    nowhere = open("/dev/null", O_WRONLY);
    real_stderr = dup(STDERR_FILENO);
    CHECK(nowhere >= 0 && real_stderr >= 0);
    publish_all();
    many_regions_in_turn();
    no_byte_beyond();
    orders_count();
    several_threads();
    regions_that_go();
    reset_forgets();
    CHECK(acp_finalize() == 0);
    return 0;
}
