/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages of the LAPI layer compared with uTofu's own put, in one run: two processes.
 *
 *     utofurun -n 2 lapi
 *
 * Both sides poll. "put" is utofu_put() with a remote notice, which is polled and answered. Rounds
 * of the two alternate, so that other load on the machine affects both; each figure is the
 * 20-quantile of the rounds, as other load only increases times.
 */
#include <lapi.h>
#include <utofu.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { ROUNDS = 300, CALLS = 1000, LARGE_CALLS = 8, LARGE = 1 << 20 };

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

static void *handle_small(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
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

static void *handle_large(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
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

static void am_ping_pong(void)
{
    uint other = (uint)(1 - me);

    for (int i = 0; i < CALLS; i++) {
        expected++;
        if (me == 0)
            bench_check(LAPI_Amsend(hndl, other, small_handlers[other], NULL, 0, source, 8, NULL,
                                    NULL, NULL),
                        "LAPI_Amsend");
        while (arrived < expected)
            LAPI_Probe(hndl);
        if (me == 1)
            bench_check(LAPI_Amsend(hndl, other, small_handlers[other], NULL, 0, source, 8, NULL,
                                    NULL, NULL),
                        "LAPI_Amsend");
    }
}

static void put_to_other(void)
{
    int rc;

    while ((rc = utofu_put(vcq, vcq_ids[1 - me], own, stadds[1 - me] + 64, 8, 0,
                           UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL)) == UTOFU_ERR_BUSY)
        if ((rc = utofu_poll_tcq(vcq, 0, &(void *){NULL})) != UTOFU_ERR_NOT_FOUND)
            bench_check(rc, "utofu_poll_tcq");
    bench_check(rc, "utofu_put");
}

static void put_ping_pong(void)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; i < CALLS; i++) {
        if (me == 0)
            put_to_other();
        while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
            ;
        if (me == 1)
            put_to_other();
    }
}

/* The other side handles messages meanwhile. */
static void am_stream(void)
{
    if (me == 0)
        for (int i = 0; i < LARGE_CALLS; i++) {
            bench_check(
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
            bench_check(utofu_put(vcq, vcq_ids[1], own, stadds[1], LARGE, 0,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                        "utofu_put");
            while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
                ;
        }
    LAPI_Gfence(hndl);
}

static void fence_all(void)
{
    LAPI_Gfence(hndl);
}

static double time_of(void (*call)(void))
{
    double begin = bench_now();

    call();
    return bench_now() - begin;
}

static void compare_with(const char *what, void (*ours)(void), void (*base)(void), int calls)
{
    static double layer[ROUNDS], utofu[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        fence_all();
        layer[i] = time_of(ours) / calls;
        fence_all();
        utofu[i] = time_of(base) / calls;
    }
    double ours_us = bench_quantile(layer, ROUNDS, 0.05);
    double base_us = bench_quantile(utofu, ROUNDS, 0.05);
    if (me == 0)
        printf("%-58s %9.3f us %9.3f us   %.2f\n", what, ours_us, base_us, ours_us / base_us);
}

static void *address_of(hdr_hndlr_t *handler)
{
    void *p;

    memcpy(&p, &handler, sizeof(p));
    return p;
}

int main(void)
{
    lapi_info_t info = {0};
    utofu_vcq_id_t id;

    bench_check(LAPI_Init(&hndl, &info), "LAPI_Init");
    LAPI_Qenv(hndl, TASK_ID, &me);
    LAPI_Qenv(hndl, NUM_TASKS, &tasks);
    bench_check(tasks != 2, "2 processes are wanted");
    LAPI_Senv(hndl, INTERRUPT_SET, 0);
    area = aligned_alloc(4096, LARGE);
    source = aligned_alloc(4096, LARGE);
    memset(area, 1, LARGE);
    memset(source, 2, LARGE);
    bench_check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    bench_check(utofu_reg_mem(vcq, area, LARGE, 0, &own), "utofu_reg_mem");
    bench_check(utofu_query_vcq_id(vcq, &id), "utofu_query_vcq_id");
    LAPI_Address_init(hndl, address_of(handle_small), small_handlers);
    LAPI_Address_init(hndl, address_of(handle_large), large_handlers);
    LAPI_Address_init64(hndl, id, vcq_ids);
    LAPI_Address_init64(hndl, own, stadds);
    if (me == 0)
        printf("%-58s %12s %12s   ratio\n", "", "layer", "uTofu");
    compare_with("message of 8 bytes and its answer; put and its answer", am_ping_pong,
                 put_ping_pong, CALLS);
    compare_with("message of 1 MiB until it is complete; put", am_stream, put_stream, LARGE_CALLS);
    bench_check(utofu_dereg_mem(vcq, own, 0), "utofu_dereg_mem");
    bench_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    bench_check(LAPI_Term(hndl), "LAPI_Term");
    free(area);
    free(source);
    return 0;
}
