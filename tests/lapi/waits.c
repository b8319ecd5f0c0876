/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Task 1 of two stops, and the other one waits for it in some call. tests/acp/waits.sh resumes it.
 *
 *     lapi_waits init|counter|message|fence|gfence|term
 */
#include "../acp/stopped.h"
#include "check.h"

static lapi_cntr_t cntr;
static char data[100000];
static lapi_long_t counters[2], places[2], pids[2];

/* From the launcher, as LAPI_Qenv() cannot be called yet. */
static bool is_task_1(void)
{
    const char *mine = getenv("UTOFU_RANK");

    return mine != NULL && strcmp(mine, "1") == 0;
}

static void be(const char *where)
{
    static char copy[sizeof(data)];
    void *there = (void *)(uintptr_t)places[1];

    /* the first message to a task asks for a lane, which over verbs the task's CPU gives */
    OK(LAPI_Put(hndl, 1 - me, 8, (void *)(uintptr_t)places[1 - me], data, NULL, NULL, NULL));
    OK(LAPI_Gfence(hndl));
    if (me == 1) {
        stop();
        if (strcmp(where, "counter") == 0)
            OK(LAPI_Put(hndl, 0, 8, (void *)(uintptr_t)places[0], data,
                        (lapi_cntr_t *)(uintptr_t)counters[0], NULL, NULL));
        return;
    }
    wait_until_stopped((int)pids[1]);
    if (strcmp(where, "message") == 0)
        OK(LAPI_Get(hndl, 1, sizeof(copy), there, copy, NULL, &cntr));
    if (strcmp(where, "counter") == 0 || strcmp(where, "message") == 0)
        wait_for(&cntr, 1);
    if (strcmp(where, "fence") == 0) {
        OK(LAPI_Put(hndl, 1, sizeof(data), there, data, NULL, NULL, NULL));
        OK(LAPI_Fence(hndl));
    }
}

int main(int argc, char **argv)
{
    const char *where = argc == 2 ? argv[1] : "";

    if (strcmp(where, "init") == 0 && is_task_1())
        stop();
    init(NULL);
    CHECK(n == 2);
    OK(LAPI_Address_init64(hndl, (uintptr_t)&cntr, counters));
    OK(LAPI_Address_init64(hndl, (uintptr_t)data, places));
    OK(LAPI_Address_init64(hndl, (lapi_long_t)getpid(), pids));
    if (strcmp(where, "init") != 0)
        be(where);
    if (strcmp(where, "term") != 0)
        OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    return 0;
}
