/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two processes stops, and the other one waits for it in some call. tests/acp/waits.sh
 * continues it.
 *
 *     acp_waits init|come|sync|complete|finalize
 */
#include "check.h"
#include "stopped.h"

/* By the launcher, as acp_rank() is not known yet. */
static bool is_process(const char *rank)
{
    const char *mine = getenv("UTOFU_RANK");

    return mine != NULL && strcmp(mine, rank) == 0;
}

int main(int argc, char **argv)
{
    const char *where = argc == 2 ? argv[1] : "";
    acp_ga_t other;

    if ((strcmp(where, "init") == 0 && is_process("1")) ||
        (strcmp(where, "come") == 0 && is_process("0")))
        stop();
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(acp_procs() == 2);
    *(int *)own_starter() = (int)getpid();
    acp_sync();
    if (acp_rank() == 1 && (strcmp(where, "sync") == 0 || strcmp(where, "complete") == 0 ||
                            strcmp(where, "finalize") == 0))
        stop();
    other = acp_query_starter_ga(1);
    if (acp_rank() == 0 && strcmp(where, "complete") == 0) {
        acp_complete(acp_copy(acp_query_starter_ga(0), other, sizeof(int), ACP_HANDLE_NULL));
        wait_until_stopped(*(int *)own_starter());
        /* that is done by the other one */
        acp_complete(acp_copy(other + 100, other, 100, ACP_HANDLE_NULL));
    }
    if (strcmp(where, "finalize") != 0)
        acp_sync();
    CHECK(acp_finalize() == 0);
    return 0;
}
