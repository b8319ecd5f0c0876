/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that differ: each process uses other ports of the software adapter, as if these were of
 * different hosts. Either the processes communicate, or a line names what differs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"
#include "harness.h"

enum { SIZE = 100000, TNIS = 2 };

/* What a process uses: variables for itself alone, set before it calls the library. */
struct host {
    const char *devices, *connect;
};
struct pair {
    struct host hosts[2];
    const char *line; /* NULL: they communicate; else a line of rank 1 */
};

static void be_host(const struct host *host)
{
    setenv("UTOFU_VERBS_DEVICES", host->devices, 1);
    setenv("UTOFU_VERBS_CONNECT", host->connect, 1);
}

static void check_data(const struct ut_end *end, const char *what)
{
    for (size_t i = 0; i < SIZE; i++)
        CHECK(end->mem[i] == (uint8_t)(i * 7 + 1), "%s: byte %zu", what, i);
}

static void fill(struct ut_end *end)
{
    for (size_t i = 0; i < SIZE; i++)
        end->mem[i] = (uint8_t)(i * 7 + 1);
}

/* A long put, then a long get and an ARMW by `origin`. */
static void communicate(struct ut_end *end, const struct ut_peer *peer, int origin)
{
    bool asks = ut_rank == origin;
    struct utofu_mrq_notice notice;

    if (asks)
        fill(end);
    ut_barrier();
    if (asks)
        CHECK_OK(
            utofu_put(end->vcq, peer->id, end->stadd, peer->stadd, SIZE, 0, UT_LCL | UT_RMT, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    check_data(end, asks ? "sent" : "put");
    ut_barrier();
    if (asks) {
        memset(end->mem, 0, SIZE);
        CHECK_OK(utofu_get(end->vcq, peer->id, end->stadd, peer->stadd, SIZE, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
        check_data(end, "got");
        CHECK_OK(
            utofu_armw8(end->vcq, peer->id, UTOFU_ARMW_OP_ADD, 1, peer->stadd, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
    }
    ut_barrier();
    CHECK(end->mem[0] == (asks ? 1 : 2), "%d", end->mem[0]);
    memset(end->mem, 0, SIZE);
}

static void check_pair(void *arg)
{
    const struct pair *pair = arg;
    struct ut_peer peers[TNIS][2];
    struct ut_end ends[TNIS];

    be_host(&pair->hosts[ut_rank]);
    for (utofu_tni_id_t tni = 0; tni < TNIS; tni++) {
        ut_end_open(&ends[tni], tni, 0, SIZE);
        ut_end_gather(&ends[tni], peers[tni]);
    }
    for (int i = 0; i < TNIS * TNIS; i++)
        for (int origin = 0; origin < 2; origin++) {
            struct ut_end *end = &ends[ut_rank == 0 ? i % TNIS : i / TNIS];
            communicate(end, &peers[ut_rank == 0 ? i / TNIS : i % TNIS][!ut_rank], origin);
        }
    ut_barrier();
    for (int tni = 0; tni < TNIS; tni++)
        ut_end_close(&ends[tni]);
}

static void await_line(const char *path, const char *want)
{
    static char text[1 << 16];

    ut_step("a line with '%s'", want);
    for (text[0] = '\0'; !strstr(text, want); usleep(1000)) {
        FILE *file = fopen(path, "re");
        CHECK(file, "%s", path);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    const char *first = strstr(text, "utofu: ");
    CHECK(first && !strstr(first + 1, "utofu: "), "more than one line: %s", text);
}

/* The put fails, and one line says why. */
static void check_line(void *arg)
{
    const struct pair *pair = arg;
    char path[] = "/tmp/test_unlike.XXXXXX", text[512];
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;
    struct ut_end end;
    int log = mkstemp(path);

    be_host(&pair->hosts[ut_rank]);
    CHECK(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO, "%s", path);
    ut_open_all(&end, SIZE, peers);
    if (ut_rank == 1) {
        int rc = utofu_put(end.vcq, peers[0].id, end.stadd, peers[0].stadd, 8, 0, UT_LCL, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = ut_await_mrq(end.vcq, &notice);
        CHECK(rc != UTOFU_SUCCESS);
        await_line(path, pair->line);
        utofu_get_last_error(text);
        CHECK(text[0]);
    }
    unlink(path);
    close(log);
    ut_close_all(&end);
}

static void run_pair(const char *profile, struct pair *pair)
{
    const char *is = getenv("UT_ADAPTER_PROFILE");

    if (!is || strcmp(profile, is) != 0)
        cr_skip_test("not with this profile");
    ut_run(&(struct ut_run_opts){.n = 2,
                                 .env = {"UTOFU_PROVIDER=verbs", "UTOFU_LOG_LEVEL=warning",
                                         "UTOFU_JOB_TIMEOUT=3", "UTOFU_PEER_TIMEOUT=2"}},
           pair->line ? check_line : check_pair, pair);
}

Test(unlike, other_mtu_reads_and_inline_data_by_rdmacm)
{
    run_pair("unlike", &(struct pair){{{"rxe0", "rdmacm"}, {"rxe1", "rdmacm"}}, NULL});
    run_pair("unlike", &(struct pair){{{"rxe1", "rdmacm"}, {"rxe0", "rdmacm"}}, NULL});
}

Test(unlike, other_mtu_reads_and_inline_data_by_datagrams)
{
    run_pair("unlike", &(struct pair){{{"rxe0", "ud"}, {"rxe1", "ud"}}, NULL});
    run_pair("unlike", &(struct pair){{{"rxe1", "ud"}, {"rxe0", "ud"}}, NULL});
}

Test(unlike, two_ports_and_one)
{
    run_pair("unlike", &(struct pair){{{"rxe0,rxe1", "rdmacm"}, {"rxe1", "rdmacm"}}, NULL});
}

Test(unlike, ports_in_another_order)
{
    run_pair("unlike", &(struct pair){{{"rxe0,rxe1", "ud"}, {"rxe1,rxe0", "ud"}}, NULL});
}

Test(unlike, ways_to_connect_are_named)
{
    run_pair("unlike", &(struct pair){{{"rxe0", "ud"}, {"rxe1", "rdmacm"}},
                                      "a peer connects by datagrams, and rxe1:1 gid 0 (10.77.0.2) "
                                      "by rdma_cm: set UTOFU_VERBS_CONNECT"});
}

Test(unlike, networks_without_a_route_are_named)
{
    run_pair("rails", &(struct pair){{{"rxe0:1", "rdmacm"}, {"rxe0:2", "rdmacm"}},
                                     "no connection from rxe0:2 gid 0 (10.78.0.1) to 10.77.0.1 "});
}

Test(unlike, subnets_are_named)
{
    run_pair("subnets", &(struct pair){{{"mlx5_0:1", "ud"}, {"mlx5_0:2", "ud"}},
                                       "LID 18 (GID fe80::1:2:c903:0:2) is in another "
                                       "InfiniBand subnet than a peer's port (GID "
                                       "fe80::2:c903:0:1), and datagrams pass no router"});
}

Test(unlike, infiniband_and_ethernet_are_named)
{
    run_pair("mixed", &(struct pair){{{"mlx5_0:1", "ud"}, {"mlx5_0:2", "ud"}},
                                     "mlx5_0:2 gid 0 (10.78.0.1) is Ethernet, and a peer's port "
                                     "(GID fe80::2:c903:0:1) is InfiniBand: no packet"});
}

Test(unlike, ethernet_and_infiniband_are_named)
{
    run_pair("mixed", &(struct pair){{{"mlx5_0:2", "ud"}, {"mlx5_0:1", "ud"}},
                                     "LID 17 is InfiniBand, and a peer's port (GID "
                                     "::ffff:10.78.0.1) is Ethernet: no packet"});
}
