/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Task 1 ends without LAPI_Term(); waiting calls of the others end with a code, within the time
 * that uTofu needs to detect the end, or the error handler is called; and the others continue with
 * each other.
 *
 *     utofurun ... lapi_ends WHERE     the call of the others meanwhile
 */
#include "check.h"
#include "large.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { DATA = 8 << 20, LARGE = 100000 };

static _Atomic int heard, leaving; /* leaving: then the others may have left, too */
static lapi_cntr_t cntr;
static struct place { /* memory of a task that others access */
    lapi_cntr_t arrived, ready;
    char data[DATA];
} place;
static lapi_long_t places[16];

static void hear(lapi_handle_t *h, int *code, lapi_err_t *type, int *task, int *src)
{
    (void)h;
    (void)type;
    if (leaving)
        return;
    CHECK(*code == LAPI_ERR_TIMEOUT && *task == me && *src == 1);
    heard = 1;
}

static struct place *of(int task)
{
    return (struct place *)(uintptr_t)places[task];
}

/* From messages of the dead task, or to it. */
static int wait_somewhere(const char *where)
{
    static char data[DATA];
    int one = 1, before, rc = LAPI_SUCCESS;

    if (strcmp(where, "counter") == 0 || strcmp(where, "helping") == 0)
        return LAPI_Waitcntr(hndl, &cntr, 1, NULL);
    if (strcmp(where, "nopoll") == 0)
        return LAPI_Nopoll_wait(hndl, &cntr, 1, NULL);
    if (strcmp(where, "gfence") == 0)
        return LAPI_Gfence(hndl);
    if (strcmp(where, "compute") == 0) {
        while (heard == 0)
            usleep(1000); /* the thread detects the end */
        return LAPI_ERR_TIMEOUT;
    }
    while (rc == LAPI_SUCCESS) { /* flood task 1 */
        if (strcmp(where, "put") == 0)
            rc = LAPI_Put(hndl, 1, 100, of(1)->data, data, NULL, NULL, NULL);
        else if (strcmp(where, "large") == 0)
            rc = LAPI_Put(hndl, 1, LARGE, of(1)->data, data, NULL, NULL, &cntr);
        else if (strcmp(where, "shared") == 0)
            rc = LAPI_Put(hndl, 1, sizeof(data), of(1)->data, data, NULL, NULL, &cntr);
        else
            rc = LAPI_Rmw(hndl, FETCH_AND_ADD, 1, (int *)of(1)->data, &one, &before, &cntr);
        if (rc == LAPI_SUCCESS && strcmp(where, "put") != 0)
            rc = LAPI_Waitcntr(hndl, &cntr, 1, NULL);
        else if (rc == LAPI_SUCCESS)
            rc = LAPI_Fence(hndl);
    }
    return rc;
}

/*
 * How the task ends: while it waits for the others, or sends them data that both sides move.
 */

static void *kill_soon(void *unused)
{
    (void)unused;
    usleep(300 * 1000);
    raise(SIGKILL);
    return NULL;
}

/* Only for the first part, until the origin has claimed one. */
static void take_time(void)
{
    before_large_get = NULL;
    usleep(20 * 1000);
}

/* The target claims all other parts meanwhile. */
static void kill_later(void)
{
    usleep(500 * 1000);
    raise(SIGKILL);
}

/* helping: ends after it has claimed a part of the data, which it never copies. If it claims none,
 * because the two do not share memory, it still ends. */
static void die(bool sending, bool helping)
{
    pthread_t thread;

    OK(LAPI_Waitcntr(hndl, &place.arrived, n - 1, NULL));
    if (!sending)
        raise(SIGKILL);
    if (helping)
        before_large_put = kill_later;
    else
        CHECK(pthread_create(&thread, NULL, kill_soon, NULL) == 0);
    for (int to = 0; !helping || to < 20; to++)
        if (to % n != 1) {
            OK(LAPI_Put(hndl, (uint)(to % n), DATA, of(to % n)->data, place.data, NULL, NULL,
                        &cntr));
            OK(LAPI_Waitcntr(hndl, &cntr, 1, NULL));
        }
    raise(SIGKILL);
}

/* To all others and itself, and from them. */
static void meet(size_t which)
{
    for (int to = 0; to < n; to++)
        if (to != 1)
            OK(LAPI_Put(hndl, (uint)to, 0, NULL, NULL,
                        (lapi_cntr_t *)(uintptr_t)(places[to] + which), NULL, NULL));
    for (int i = 0, timeouts = 0; i < n - 1;) {
        int rc = LAPI_Waitcntr(hndl, (lapi_cntr_t *)(void *)((char *)&place + which), 1, NULL);

        CHECK(rc == LAPI_SUCCESS || (rc == LAPI_ERR_TIMEOUT && timeouts++ < n));
        if (rc == LAPI_SUCCESS)
            i++;
    }
}

/* The others can still communicate. */
static void go_on(void)
{
    meet(offsetof(struct place, arrived));
    CHECK(LAPI_Amsend(hndl, 1, (void *)1, NULL, 0, NULL, 0, NULL, NULL, NULL) ==
          LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Resume_totask(hndl, 1) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Gfence(hndl) == LAPI_ERR_TIMEOUT);
    leaving = 1;
    meet(offsetof(struct place, ready));
}

int main(int argc, char **argv)
{
    bool helping;
    int lost, rc;
    time_t begin;

    init(hear);
    CHECK(argc == 2 && n >= 3);
    helping = strcmp(argv[1], "helping") == 0;
    OK(LAPI_Address_init64(hndl, (uintptr_t)&place, places));
    if (me == 1) /* after all have left the collective call */
        die(strcmp(argv[1], "shared") == 0 || helping, helping);
    if (helping)
        before_large_get = take_time;
    OK(LAPI_Put(hndl, 1, 0, NULL, NULL, &of(1)->arrived, NULL, NULL));
    begin = time(NULL);
    rc = wait_somewhere(argv[1]);
    CHECK(rc == LAPI_ERR_TIMEOUT || rc == LAPI_ERR_TGT_PURGED);
    while (heard == 0)
        LAPI_Probe(hndl);
    CHECK(time(NULL) - begin <= 60); /* did not hang; ends.sh prints the time */
    OK(LAPI_Qenv(hndl, NUM_LOST, &lost));
    CHECK(lost == 1);
    go_on();
    rc = LAPI_Term(hndl);
    CHECK(rc == LAPI_ERR_TIMEOUT);
    fprintf(stderr, "task %d goes on\n", me);
    return 0;
}
