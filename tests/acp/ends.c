/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 1 ends; the others are somewhere, and are to end too. tests/acp/ends.sh says how.
 *
 *     acp_ends kill|abort|exit|finalize compute|sync|complete|third
 */
#include "check.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

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

    while (time(NULL) < end) {
        if (strcmp(where, "sync") == 0)
            acp_sync();
        else if (strcmp(where, "complete") == 0)
            acp_complete(acp_copy(gone + 100, mine, 100, 0));
        else if (strcmp(where, "third") == 0)
            acp_complete(acp_copy(mine + 100, acp_rank() == 0 ? gone : mine, 100, 0));
    }
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc == 3);
    acp_sync();
    if (strcmp(argv[1], "finalize") != 0) {
        if (acp_rank() == 1)
            end_somehow(argv[1]);
        be(argv[2]);
        return 7; /* nobody ended it */
    }
    CHECK(acp_finalize() == 0);
    return 0;
}
