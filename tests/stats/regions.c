/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions [bad|open|codes|busy|uneven|leaves N|absent N|late N [SECONDS]]
 *
 * A process that puts to itself within the regions that test_stats.py expects. `bad`: calls that
 * are refused, checked here; `open`: ends inside a region; `codes`: only the codes of calls while
 * nothing is counted; `busy`: fills the TOQ, and is refused three times; `uneven`: rank r makes r
 * puts more; `leaves`: rank N ends by _exit(), 2 s before the others; `absent`: rank N never calls
 * the library; `late`: rank N runs for SECONDS (4) after the others have ended.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "utofu_ext.h"
#include "../harness/limit.h"

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t id;
static utofu_stadd_t stadd;
static char memory[4096] __attribute__((aligned(4096)));
static char longest[UTOFU_PROFILE_NAME_MAX + 2];

static void expect(int got, int want, const char *what)
{
    if (got == want)
        return;
    printf("FAILED: %s: %d, not %d\n", what, got, want);
    exit(1);
}

#define OK(call)            expect(call, UTOFU_SUCCESS, #call)
#define REFUSED(code, call) expect(call, UTOFU_ERR_##code, #call)

static void put(int n)
{
    void *cbdata;

    for (int i = 0; i < n; i++) {
        OK(utofu_put(vcq, id, stadd, stadd + 64, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
        while (utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_ERR_NOT_FOUND)
            ;
    }
}

static void *other_thread(void *unused)
{
    (void)unused;
    OK(utofu_profile_start("both threads"));
    put(4);
    OK(utofu_profile_stop("both threads"));
    return NULL;
}

static void in_regions(void)
{
    pthread_t thread;

    put(1);
    for (int i = 0; i < 10; i++) {
        OK(utofu_profile_start("step"));
        put(1);
        OK(utofu_profile_start("inner"));
        put(2);
        OK(utofu_profile_start("inner")); /* recursion counts once */
        put(1);
        OK(utofu_profile_stop("inner"));
        OK(utofu_profile_stop("inner"));
        OK(utofu_profile_stop("step"));
    }
    /* two regions overlap */
    OK(utofu_profile_start("left"));
    put(1);
    OK(utofu_profile_start("right"));
    put(1);
    OK(utofu_profile_stop("left"));
    put(1);
    OK(utofu_profile_stop("right"));
    OK(utofu_profile_start("both threads"));
    put(1);
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    OK(utofu_profile_stop("both threads"));
}

static void arguments(void)
{
    memset(longest, 'x', UTOFU_PROFILE_NAME_MAX + 1);
    REFUSED(INVALID_POINTER, utofu_profile_start(NULL));
    REFUSED(INVALID_POINTER, utofu_profile_stop(NULL));
    REFUSED(INVALID_ARG, utofu_profile_start(""));
    REFUSED(INVALID_ARG, utofu_profile_start("a\nb"));
    REFUSED(INVALID_ARG, utofu_profile_start("say \"a\""));
    REFUSED(INVALID_ARG, utofu_profile_stop("a\\b"));
    REFUSED(INVALID_ARG, utofu_profile_start(longest));
    REFUSED(INVALID_ARG, utofu_profile_stop(longest));
    longest[UTOFU_PROFILE_NAME_MAX] = '\0';
    OK(utofu_profile_start(longest));
    OK(utofu_profile_stop(longest));
}

static void fill_toq(void)
{
    void *cbdata;
    int n = 0, rc;

    while ((rc = utofu_nop(vcq, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL)) == UTOFU_SUCCESS)
        n++;
    expect(rc, UTOFU_ERR_BUSY, "utofu_nop");
    REFUSED(BUSY, utofu_nop(vcq, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    REFUSED(BUSY, utofu_nop(vcq, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    while (n > 0)
        n -= utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_SUCCESS;
}

static void *stops_here(void *unused)
{
    (void)unused;
    REFUSED(NOT_FOUND, utofu_profile_stop("here"));
    return NULL;
}

static void balance(void)
{
    pthread_t thread;
    char name[32];

    REFUSED(NOT_FOUND, utofu_profile_stop("never started"));
    OK(utofu_profile_start("here"));
    pthread_create(&thread, NULL, stops_here, NULL); /* another thread's region */
    pthread_join(thread, NULL);
    OK(utofu_profile_stop("here"));
    REFUSED(NOT_FOUND, utofu_profile_stop("here"));
    for (int i = 0; i < 64; i++)
        OK(utofu_profile_start("deep"));
    REFUSED(FULL, utofu_profile_start("deep"));
    for (int i = 0; i < 64; i++)
        OK(utofu_profile_stop("deep"));
    for (int i = 4; i < 1000; i++) { /* four regions are open */
        snprintf(name, sizeof(name), "name %d", i);
        OK(utofu_profile_start(name));
        OK(utofu_profile_stop(name));
    }
    REFUSED(FULL, utofu_profile_start("one more"));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *rank = getenv("UTOFU_RANK");
    bool mine = argc > 2 && rank && strcmp(rank, argv[2]) == 0;

    if (strcmp(what, "codes") == 0) {
        arguments();
        return 0;
    }
    if (mine && strcmp(what, "absent") == 0)
        return 0;
    OK(utofu_profile_start("before the first call"));
    OK(utofu_create_vcq(0, 0, &vcq));
    OK(utofu_query_vcq_id(vcq, &id));
    OK(utofu_reg_mem(vcq, memory, sizeof(memory), 0, &stadd));
    put(3);
    OK(utofu_profile_stop("before the first call"));
    if (strcmp(what, "bad") == 0) {
        arguments();
        balance();
    } else if (strcmp(what, "busy") == 0) {
        fill_toq();
    } else if (strcmp(what, "open") == 0) {
        OK(utofu_profile_start("left open"));
        put(2);
    } else {
        in_regions();
    }
    if (rank && strcmp(what, "uneven") == 0)
        put(atoi(rank));
    OK(utofu_free_vcq(vcq));
    if (mine && strcmp(what, "leaves") == 0)
        _exit(0);
    if (strcmp(what, "leaves") == 0)
        sleep(2); /* so that no rank has sent it its counts */
    if (mine && strcmp(what, "late") == 0)
        sleep(argc > 3 ? (unsigned)atoi(argv[3])
                       : 4); /* longer than a parent waits for its children */
    return 0;
}
