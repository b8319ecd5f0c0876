/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages of the LAPI layer compared with uTofu's own put, in one run: two processes.
 *
 *     utofurun -n 2 lapi
 *
 * Where ucx_perftest is installed it measures UCX's active messages afterwards, over shared memory:
 * of the transport alone (UCT) and of the interface for programs (UCP).
 *
 * Both sides poll. "put" is utofu_put() with a remote notice, which is polled and answered. Rounds
 * of the two alternate, so that other load on the machine affects both; each figure is the
 * 20-quantile of the rounds, as other load only increases times.
 */
#include <lapi.h>
#include <utofu.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 300, CALLS = 1000, LARGE_CALLS = 8, SINGLE = 100000, LARGE = 1 << 20 };

static lapi_handle_t hndl;
static int me, tasks;
static void *small_handlers[2], *large_handlers[2];
static volatile int arrived;
static int expected; /* a message may already arrive in a fence */
static char *area, *source;
static lapi_cntr_t done;

static utofu_vcq_hdl_t vcq;
static utofu_stadd_t own;
static lapi_long_t vcq_ids[2], stadds[2];

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "lapi: %s: error %d\n", what, rc);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void *small(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                   compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;

    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)handler;
    (void)info;
    memcpy(area, more->udata_one_pkt_ptr, *msg_len);
    more->ctl_flags = LAPI_BURY_MSG;
    arrived++;
    return NULL;
}

static void *large(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                   compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    return area;
}

static void am_ping_pongs(int calls)
{
    uint other = (uint)(1 - me);

    for (int i = 0; i < calls; i++) {
        expected++;
        if (me == 0)
            check(LAPI_Amsend(hndl, other, small_handlers[other], NULL, 0, source, 8, NULL, NULL,
                              NULL),
                  "LAPI_Amsend");
        while (arrived < expected)
            LAPI_Probe(hndl);
        if (me == 1)
            check(LAPI_Amsend(hndl, other, small_handlers[other], NULL, 0, source, 8, NULL, NULL,
                              NULL),
                  "LAPI_Amsend");
    }
}

static void am_ping_pong(void)
{
    am_ping_pongs(CALLS);
}

static void put(void)
{
    int rc;

    while ((rc = utofu_put(vcq, vcq_ids[1 - me], own, stadds[1 - me] + 64, 8, 0,
                           UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL)) == UTOFU_ERR_BUSY)
        if ((rc = utofu_poll_tcq(vcq, 0, &(void *){NULL})) != UTOFU_ERR_NOT_FOUND)
            check(rc, "utofu_poll_tcq");
    check(rc, "utofu_put");
}

static void put_ping_pong(void)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; i < CALLS; i++) {
        if (me == 0)
            put();
        while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
            ;
        if (me == 1)
            put();
    }
}

/* The other side handles messages meanwhile. */
static void am_stream(void)
{
    if (me == 0)
        for (int i = 0; i < LARGE_CALLS; i++) {
            check(
                LAPI_Amsend(hndl, 1, large_handlers[1], NULL, 0, source, LARGE, NULL, NULL, &done),
                "LAPI_Amsend");
            LAPI_Waitcntr(hndl, &done, 1, NULL);
        }
    LAPI_Gfence(hndl);
}

static void put_stream(void)
{
    struct utofu_mrq_notice notice;

    if (me == 0)
        for (int i = 0; i < LARGE_CALLS; i++) {
            check(utofu_put(vcq, vcq_ids[1], own, stadds[1], LARGE, 0,
                            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                  "utofu_put");
            while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
                ;
        }
    LAPI_Gfence(hndl);
}

static void nothing(void)
{
    LAPI_Gfence(hndl);
}

static double time_of(void (*call)(void))
{
    double begin = now_us();

    call();
    return now_us() - begin;
}

static void compare_with(const char *what, void (*ours)(void), void (*base)(void), int calls)
{
    static double layer[ROUNDS], utofu[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        nothing();
        layer[i] = time_of(ours) / calls;
        nothing();
        utofu[i] = time_of(base) / calls;
    }
    qsort(layer, ROUNDS, sizeof(layer[0]), compare);
    qsort(utofu, ROUNDS, sizeof(utofu[0]), compare);
    if (me == 0)
        printf("%-58s %9.3f us %9.3f us   %.2f\n", what, layer[ROUNDS / 20], utofu[ROUNDS / 20],
               layer[ROUNDS / 20] / utofu[ROUNDS / 20]);
}

/*
 * UCX. Both processes have the same parent, whose process id determines the port.
 */

static void serve_ucx(const char *port)
{
    char command[200];

    snprintf(command, sizeof(command), "UCX_TLS=posix,self,tcp ucx_perftest -p %s >/dev/null 2>&1",
             port);
    if (system(command) != 0)
        fprintf(stderr, "lapi: the server of ucx_perftest failed\n");
}

/* From the last line: the median of half a round trip. */
static double ask_ucx(const char *port, const char *test)
{
    char command[400], line[400];
    double us = 0;
    FILE *f;

    snprintf(command, sizeof(command),
             "for i in 1 2 3 4 5 6 7 8; do sleep 0.5; UCX_TLS=posix,self,tcp ucx_perftest -p %s "
             "127.0.0.1 %s -s 8 -n 300000 2>/dev/null && break; done",
             port, test);
    f = popen(command, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "Final:", 6) == 0)
            sscanf(line, "Final: %*s %lf", &us);
    if (f != NULL)
        pclose(f);
    return us;
}

/* Measures each round trip separately, as ucx_perftest does. */
static double am_median(void)
{
    static double us[SINGLE];

    nothing();
    for (int i = 0; i < SINGLE; i++) {
        double begin = now_us();

        am_ping_pongs(1);
        us[i] = now_us() - begin;
    }
    qsort(us, SINGLE, sizeof(us[0]), compare);
    return us[SINGLE / 2];
}

static void compare_with_ucx(double typical)
{
    static const char *const tests[][2] = {
        {"UCT", "-t am_lat -x posix -d memory"},
        {"UCP", "-t ucp_am_lat"},
    };

    for (int i = 0; i < 2; i++) {
        char port[16], what[80];
        double us;

        snprintf(port, sizeof(port), "%d", 20000 + ((int)getppid() * 2 + i) % 10000);
        if (me == 1) {
            serve_ucx(port);
            continue;
        }
        us = 2 * ask_ucx(port, tests[i][1]);
        snprintf(what, sizeof(what), "the first, and UCX's (%s): medians", tests[i][0]);
        if (us > 0)
            printf("%-58s %9.3f us %9.3f us   %.2f\n", what, typical, us, typical / us);
        else
            printf("%s: ucx_perftest failed\n", what);
    }
}

static void *address(hdr_hndlr_t *handler)
{
    void *p;

    memcpy(&p, &handler, sizeof(p));
    return p;
}

int main(void)
{
    lapi_info_t info = {0};
    utofu_vcq_id_t id;
    double typical;

    check(LAPI_Init(&hndl, &info), "LAPI_Init");
    LAPI_Qenv(hndl, TASK_ID, &me);
    LAPI_Qenv(hndl, NUM_TASKS, &tasks);
    check(tasks != 2, "2 processes are wanted");
    LAPI_Senv(hndl, INTERRUPT_SET, 0);
    area = aligned_alloc(4096, LARGE);
    source = aligned_alloc(4096, LARGE);
    memset(area, 1, LARGE);
    memset(source, 2, LARGE);
    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_reg_mem(vcq, area, LARGE, 0, &own), "utofu_reg_mem");
    check(utofu_query_vcq_id(vcq, &id), "utofu_query_vcq_id");
    LAPI_Address_init(hndl, address(small), small_handlers);
    LAPI_Address_init(hndl, address(large), large_handlers);
    LAPI_Address_init64(hndl, id, vcq_ids);
    LAPI_Address_init64(hndl, own, stadds);
    if (me == 0)
        printf("%-58s %12s %12s   ratio\n", "", "layer", "uTofu");
    compare_with("message of 8 bytes and its answer; put and its answer", am_ping_pong,
                 put_ping_pong, CALLS);
    compare_with("message of 1 MiB until it is complete; put", am_stream, put_stream, LARGE_CALLS);
    typical = am_median();
    check(utofu_dereg_mem(vcq, own, 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    check(LAPI_Term(hndl), "LAPI_Term");
    free(area);
    free(source);
    if (system("command -v ucx_perftest >/dev/null") == 0)
        compare_with_ucx(typical);
    else if (me == 0)
        printf("ucx_perftest is not installed\n");
    return 0;
}
