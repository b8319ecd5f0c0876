/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 1 does not call acp_init(): the others get -1 and leave nothing behind, so that they can
 * try again when process 1 calls it. They notify each other by files, whose names have the
 * launcher's process id.
 *
 * Also, no process gets a thread, which is an error, too.
 *
 *     utofurun -n PROCS acp_alone PROCS
 */
#include "check.h"

#define ALONE_LIBRARY "libacpbl_utofu"
#include "../harness/alone.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("UTOFU_RANK");
    char path[100];
    int procs, me;

    CHECK(argc == 2 && rank != NULL);
    procs = atoi(argv[1]);
    me = atoi(rank);
    setenv("UTOFU_JOB_TIMEOUT", "1", 1);
    if (me != LATE) {
        CHECK(acp_init(NULL, NULL) == -1);
        CHECK(acp_rank() == -1 && acp_sync() == -1);
        say(me);
    }
    wait_for_all(procs);
    setenv("UTOFU_JOB_TIMEOUT", "120", 1);
    CHECK(acp_init(NULL, NULL) == 0);
    CHECK(acp_procs() == procs && acp_rank() == me);
    CHECK(acp_sync() == 0);
    CHECK(acp_finalize() == 0);
    no_thread = true;
    CHECK(acp_init(NULL, NULL) == -1);
    no_thread = false;
    CHECK(acp_init(NULL, NULL) == 0);
    CHECK(acp_sync() == 0);
    CHECK(acp_finalize() == 0);
    name_file(path, me);
    unlink(path);
    return 0;
}
