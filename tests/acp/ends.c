/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 1 ends; the others are in some call, and must end, too. See tests/acp/ends.sh.
 *
 *     acp_ends kill|abort|exit|finalize compute|sync|complete|third|own|others
 *
 * With own and others, where only fast calls are made, the layer's thread is kept from running
 * meanwhile, as on a machine where it gets no core.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static pthread_t program;
static bool no_core;

/* Replaces the C library's: the layer's thread calls it while the program makes calls. */
__attribute__((visibility("default"))) int nanosleep(const struct timespec *time,
                                                     struct timespec *left)
{
    int rc;

    while (__atomic_load_n(&no_core, __ATOMIC_ACQUIRE) && !pthread_equal(pthread_self(), program))
        pause();
    rc = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (rc == 0)
        return 0;
    errno = rc;
    return -1;
}

static void end_somehow(const char *how)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(how, "abort") == 0)
        acp_abort("that is enough");
    else if (strcmp(how, "exit") == 0)
        _exit(0);
}

/* Uses rank 1, or waits for it, for a minute at most, or UT_TEST_TIMEOUT_SCALE minutes. */
static void be(const char *where)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");
    time_t end = time(NULL) + 60 * (scale == NULL ? 1 : strtol(scale, NULL, 10));
    acp_ga_t mine = acp_query_starter_ga(acp_rank()), gone = acp_query_starter_ga(1);
    acp_ga_t other = acp_query_starter_ga(acp_rank() == 0 ? 2 : acp_rank() == 2 ? 3 : 0);

    __atomic_store_n(&no_core, where[0] == 'o', __ATOMIC_RELEASE);

    while (time(NULL) < end) {
        if (strcmp(where, "sync") == 0)
            acp_sync();
        else if (strcmp(where, "complete") == 0)
            acp_complete(acp_copy(gone + 100, mine, 100, 0));
        else if (strcmp(where, "third") == 0)
            acp_complete(acp_copy(mine + 100, acp_rank() == 0 ? gone : mine, 100, 0));
        else if (strcmp(where, "own") == 0)
            acp_complete(acp_copy(mine + 100, mine, 100, 0));
        else if (strcmp(where, "others") == 0)
            acp_complete(acp_copy(other + 100, mine, 100, 0));
    }
}

int main(int argc, char **argv)
{
    program = pthread_self();
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc == 3);
    acp_sync();
    if (strcmp(argv[1], "finalize") != 0) {
        if (acp_rank() == 1)
            end_somehow(argv[1]);
        be(argv[2]);
        return 7; /* it was not ended */
    }
    CHECK(acp_finalize() == 0);
    return 0;
}
