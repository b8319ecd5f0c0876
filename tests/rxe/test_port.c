/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of process 0's host goes down under its VCQ and comes back. As the test takes a link
 * down, it runs in a virtual machine (one for both processes, or one for each), or over the
 * software adapter.
 */
#include "../adapter/fault.h"
#include "ends.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(port);

enum { ROUNDS = 64, SIZE = 4096, PEER_TIMEOUT_S = 2, FOR_EVER_MS = 3600000 };

#define ENVIRONMENT                                                                                \
    {                                                                                              \
        "UTOFU_PEER_TIMEOUT=2", "UTOFU_PROVIDER=verbs"                                             \
    }

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The cable of the port made by scripts/rxe-vm: rxe0 is on veth0. */
static void set_cable(const char *how)
{
    char command[64];

    if (adapter_fault_function()) {
        CHECK(adapter_fault_set(AD_FAULT_PORT, strcmp(how, "down") == 0 ? FOR_EVER_MS : 0));
        return;
    }
    snprintf(command, sizeof(command), "ip link set veth1 %s", how);
    CHECK(system(command) == 0);
}

static void put_to(const struct ut_end *end, const struct ut_peer *peer, uint64_t round)
{
    uint64_t word = round + 1;
    struct ut_comm put = {.kind = UT_PIGGYBACK8,
                          .vcq = end->vcq,
                          .rmt = peer->id,
                          .data = &word,
                          .rmt_stadd = peer->stadd + 8 * round,
                          .length = 8,
                          .edata = round,
                          .flags = UT_LCL | UT_RMT};

    ut_submit(&put);
}

/* Takes notices until `lcl` local and `rmt` remote ones have arrived. The local ones arrive in
 * order, with code `rc`. */
static void take(const struct ut_end *end, uint64_t from, uint64_t lcl, uint64_t rmt, int rc)
{
    uint64_t num_lcl = 0, num_rmt = 0;

    while (num_lcl < lcl || num_rmt < rmt) {
        struct utofu_mrq_notice notice;
        int got = ut_await_mrq(end->vcq, &notice);
        if (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT) {
            CHECK_RC(got, UTOFU_SUCCESS);
            num_rmt++;
            continue;
        }
        CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_LCL_PUT);
        CHECK_EQ(notice.edata, from + num_lcl);
        CHECK_RC(got, rc);
        num_lcl++;
    }
    CHECK_EQ(num_lcl, lcl);
    CHECK_EQ(num_rmt, rmt);
}

static void drop_notices(const struct ut_end *end)
{
    struct utofu_mrq_notice notice;

    while (utofu_poll_mrq(end->vcq, 0, &notice) != UTOFU_ERR_NOT_FOUND)
        ;
}

/* Each process puts to the other. */
static void exchange(const struct ut_end *end, const struct ut_peer *peer, uint64_t from)
{
    for (uint64_t i = 0; i < ROUNDS; i++)
        put_to(end, peer, from + i);
    take(end, from, ROUNDS, ROUNDS, UTOFU_SUCCESS);
    for (uint64_t i = 0; i < ROUNDS; i++)
        CHECK_EQ(((const uint64_t *)end->mem)[from + i], from + i + 1);
}

static void goes_for_a_moment(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    exchange(&end, &peers[!ut_rank], 0);
    ut_barrier();
    if (ut_rank == 0)
        set_cable("down");
    ut_barrier();
    for (uint64_t i = 0; i < ROUNDS; i++)
        put_to(&end, &peers[!ut_rank], ROUNDS + i);
    if (ut_rank == 0) {
        usleep(PEER_TIMEOUT_S * 1000000 / 4);
        set_cable("up");
    }
    take(&end, ROUNDS, ROUNDS, ROUNDS, UTOFU_SUCCESS);
    for (uint64_t i = 0; i < ROUNDS; i++)
        CHECK_EQ(((const uint64_t *)end.mem)[ROUNDS + i], ROUNDS + i + 1);
    ut_barrier();
    ut_expect_nothing(end.vcq);
    ut_close_all(&end);
}

static bool may_take_links_down(void)
{
    if (access("/run/rxe-vm/job", F_OK) == 0 || getenv("UT_ADAPTER_SOCKET"))
        return true;
    ut_skip("not in a machine that scripts/rxe-vm started, or over the software adapter");
    return false;
}

Test(port, that_is_down_for_a_moment_costs_no_put)
{
    if (!may_take_links_down())
        return;
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .env = ENVIRONMENT}, goes_for_a_moment, NULL);
}

/* Puts until a put fails as the port is down. Without a cable the device still reaches itself. */
static void put_until_told(const struct ut_end *end, const struct ut_peer *peer, uint64_t edata)
{
    struct utofu_mrq_notice notice;
    double since = now();
    int rc;

    do {
        put_to(end, peer, edata);
        do
            rc = ut_await_mrq(end->vcq, &notice);
        while (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT);
        CHECK_EQ(notice.edata, edata);
    } while (rc == UTOFU_SUCCESS);
    CHECK_RC(rc, UTOFU_ERR_MRQ_OTHER);
    printf("notified after %.2f s\n", now() - since);
}

static void goes_for_long(void *arg)
{
    struct ut_end end, other;
    struct ut_peer peers[2], others[2];
    int peer = !ut_rank;

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    ut_end_open(&other, 1, 0, SIZE);
    ut_end_gather(&other, others);
    exchange(&end, &peers[peer], 0);
    exchange(&other, &others[peer], 0);
    ut_barrier();
    if (ut_rank == 0)
        set_cable("down");
    put_until_told(&end, &peers[peer], ROUNDS);
    ut_barrier();
    drop_notices(&end);
    double since = now();
    for (uint64_t i = 0; i < ROUNDS; i++)
        put_to(&end, &peers[peer], ROUNDS + i);
    put_to(&other, &others[peer], ROUNDS);
    take(&end, ROUNDS, ROUNDS, 0, UTOFU_ERR_MRQ_OTHER);
    take(&other, ROUNDS, 1, 0, UTOFU_ERR_MRQ_OTHER);
    printf("notified again after %.2f s\n", now() - since);
    since = now();
    ut_end_close(&other);
    printf("closed in %.2f s\n", now() - since);
    ut_barrier();
    if (ut_rank == 0)
        set_cable("up");
    ut_barrier();
    exchange(&end, &peers[peer], 2 * ROUNDS);
    ut_barrier();
    ut_expect_nothing(end.vcq);
    ut_close_all(&end);
}

Test(port, that_is_down_for_long_is_told_and_works_again_when_it_is_back)
{
    if (!may_take_links_down())
        return;
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .env = ENVIRONMENT}, goes_for_long, NULL);
}
