/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Task 1 does not call LAPI_Init(): the others get a code and leave nothing behind, so that they
 * can try again when task 1 calls it. They notify each other by files, whose names have the
 * launcher's process id.
 *
 * Also, no task gets a thread, which is an error, too.
 *
 *     utofurun -n TASKS lapi_alone TASKS
 */
#include "check.h"

#define ALONE_LIBRARY "liblapi_utofu"
#include "../harness/alone.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("UTOFU_RANK");
    lapi_info_t info = {0};
    char path[100];
    int tasks;

    CHECK(argc == 2 && rank != NULL);
    tasks = atoi(argv[1]);
    me = atoi(rank);
    setenv("UTOFU_JOB_TIMEOUT", "1", 1);
    if (me != LATE) {
        CHECK(LAPI_Init(&hndl, &info) == LAPI_ERR_INIT_FAILED);
        CHECK(LAPI_Probe(hndl) == LAPI_ERR_HNDL_INVALID);
        say(me);
    }
    wait_for_all(tasks);
    setenv("UTOFU_JOB_TIMEOUT", "120", 1);
    init(NULL);
    CHECK(n == tasks && me == atoi(rank));
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    no_thread = true;
    CHECK(LAPI_Init(&hndl, &info) == LAPI_ERR_INIT_FAILED);
    no_thread = false;
    init(NULL);
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    name_file(path, me);
    unlink(path);
    return 0;
}
