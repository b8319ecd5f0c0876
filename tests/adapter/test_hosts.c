/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts with other memory, kernels and addresses than those of the tests, by faults of the software
 * adapter: memory of a GPU, kernels before 5.12, a disappearing IP address, several ports.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utofu_ext.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum { SIZE = 1 << 16, HUGE_PAGE = 1 << 21 };

static void fault(enum ad_fault what, uint32_t count)
{
    CHECK(adapter_fault_set(what, count));
}

static void run(int processes, const char *env, ut_body_fn *body)
{
    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    ut_run(&(struct ut_run_opts){.n = processes, .env = {env, "UTOFU_PROVIDER=verbs"}}, body, NULL);
}

static void check_gpu_memory(void *arg)
{
    struct ut_end end;
    utofu_stadd_t stadd;
    char text[512];
    void *gpu = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *constant = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)arg;
    CHECK(gpu != MAP_FAILED && constant != MAP_FAILED, "mmap");
    ut_end_open(&end, 0, 0, SIZE);
    fault(AD_FAULT_PEERMEM, 1);
    fault(AD_FAULT_CREATE, 1); /* not reached, as the request is refused earlier */
    CHECK_RC(utofu_reg_mem(end.vcq, gpu, SIZE, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    utofu_get_last_error(text);
    CHECK(strstr(text, "cannot be registered"), "%s", text);
    CHECK_RC(utofu_reg_mem(end.vcq, constant, SIZE, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    CHECK_RC(utofu_reg_mem(end.vcq, constant, SIZE, UTOFU_REG_MEM_FLAG_READ_ONLY, &stadd),
             UTOFU_ERR_OUT_OF_MEMORY);
    CHECK_OK(utofu_reg_mem(end.vcq, constant, SIZE, UTOFU_REG_MEM_FLAG_READ_ONLY, &stadd));
    CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
    fault(AD_FAULT_PEERMEM, 0);
    ut_end_close(&end);
}

Test(hosts, memory_of_a_gpu_is_refused)
{
    run(1, "UTOFU_LOG_LEVEL=error", check_gpu_memory);
}

static void check_huge_pages(void *arg)
{
    struct ut_end end;

    (void)arg;
    fault(AD_FAULT_FORK, 1);
    ut_end_open(&end, 0, 0, 2 * HUGE_PAGE);
    CHECK(getenv("RDMAV_HUGEPAGES_SAFE"), "not set");
    ut_end_close(&end);
    fault(AD_FAULT_FORK, 0);
}

Test(hosts, huge_pages_are_registered_on_old_kernels)
{
    run(1, "UTOFU_LOG_LEVEL=warning", check_huge_pages);
}

/* A put with a local notice is in memory before any message sent after the notice, even over
 * another port. */
static void check_landed(void *arg)
{
    static const size_t sizes[] = {8, 100, SIZE};
    bool lands = *(const bool *)arg;
    struct ut_peer data_peers[2], flag_peers[2];
    struct utofu_mrq_notice notice;
    struct ut_end data, flag;

    ut_end_open(&data, 0, 0, SIZE);
    ut_end_open(&flag, 1, 0, 64);
    ut_end_gather(&data, data_peers);
    ut_end_gather(&flag, flag_peers);
    for (size_t i = 0; i < NUM(sizes); i++) {
        memset(data.mem, ut_rank ? 0 : (int)i + 1, sizes[i]);
        ut_barrier();
        if (ut_rank == 0) {
            fault(AD_FAULT_PLACED_LATE, 3600000);
            CHECK_OK(utofu_put(data.vcq, data_peers[1].id, data.stadd, data_peers[1].stadd,
                               sizes[i], 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(data.vcq, &notice));
            CHECK_OK(utofu_put(flag.vcq, flag_peers[1].id, flag.stadd, flag_peers[1].stadd, 8, 0,
                               UT_RMT, NULL));
        } else {
            CHECK_OK(ut_await_mrq(flag.vcq, &notice));
            bool landed = data.mem[sizes[i] - 1] == i + 1 && data.mem[0] == i + 1;
            CHECK(landed == lands, "%zu bytes: %d", sizes[i], landed);
        }
        ut_barrier();
        fault(AD_FAULT_PLACED_LATE, 0);
    }
    ut_end_close(&flag);
    ut_close_all(&data);
}

static void run_landed(const char *order, bool lands)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    if (!profile || strcmp(profile, "rails") != 0)
        cr_skip_test("not with two ports");
    ut_run(
        &(struct ut_run_opts){.n = 2,
                              .env = {order, "UTOFU_VERBS_DEVICES=rxe0", "UTOFU_PROVIDER=verbs"}},
        check_landed, &lands);
}

Test(hosts, a_local_notice_says_that_data_is_in_memory)
{
    run_landed("UTOFU_VERBS_ORDER=auto", true);
}

Test(hosts, unless_the_order_is_trusted)
{
    run_landed("UTOFU_VERBS_ORDER=trust", false);
}

static void wait_for_line(const char *path, const char *want)
{
    static char text[1 << 16];
    size_t n = 0;

    ut_step("a line with '%s'", want);
    while (!strstr(text, want)) {
        FILE *file = fopen(path, "re");
        CHECK(file, "%s", path);
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        fclose(file);
        usleep(1000);
    }
}

static void check_lost_address(void *arg)
{
    char path[] = "/tmp/test_hosts.XXXXXX";
    struct ut_peer peers[2];
    struct ut_end end;
    struct utofu_mrq_notice notice;
    int log = -1;

    (void)arg;
    if (ut_rank == 0) {
        log = mkstemp(path);
        CHECK(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO, "%s", path);
    }
    ut_open_all(&end, SIZE, peers);
    if (ut_rank == 0)
        fault(AD_FAULT_GID, 300);
    ut_barrier();
    if (ut_rank == 0) {
        wait_for_line(path, "has lost its address 10.77.0.1: peers cannot connect");
        wait_for_line(path, "has its address 10.77.0.1 again");
        unlink(path);
        close(log);
    } else { /* it has no address, either, and no connection yet */
        CHECK_OK(utofu_put(end.vcq, peers[0].id, end.stadd, peers[0].stadd, 8, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
    }
    ut_close_all(&end);
}

Test(hosts, an_address_that_goes_is_named)
{
    run(2, "UTOFU_LOG_LEVEL=warning", check_lost_address);
}

static void put_and_await(struct ut_end *end, const struct ut_peer *peer)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(utofu_put(end->vcq, peer->id, end->stadd, peer->stadd, 8, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

/* Processes of one port: the subnet manager gives out other LIDs to all of them, and for good. */
static void check_lid(void *arg)
{
    bool connected = *(const bool *)arg;
    char path[] = "/tmp/test_hosts.XXXXXX";
    struct ut_peer peers[2];
    struct ut_end end;
    int log = mkstemp(path);

    CHECK(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO, "%s", path);
    ut_open_all(&end, SIZE, peers);
    if (connected && ut_rank == 1)
        put_and_await(&end, &peers[0]);
    ut_barrier();
    if (ut_rank == 0)
        fault(AD_FAULT_LID, 3600000);
    wait_for_line(path, "has LID 1017 instead of 17: its connections break, and reconnect");
    ut_barrier();
    if (ut_rank == 1)
        put_and_await(&end, &peers[0]);
    ut_barrier();
    if (ut_rank == 0)
        fault(AD_FAULT_LID, 0);
    wait_for_line(path, "has LID 17 instead of 1017: ");
    unlink(path);
    close(log);
    ut_barrier();
    if (ut_rank == 0)
        put_and_await(&end, &peers[1]);
    ut_close_all(&end);
}

static void run_lid(bool connected)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    if (!profile || strcmp(profile, "ib") != 0)
        cr_skip_test("not over InfiniBand of the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2,
                                 .env = {"UTOFU_LOG_LEVEL=warning", "UTOFU_PROVIDER=verbs",
                                         "UTOFU_PEER_TIMEOUT=4"}},
           check_lid, &connected);
}

Test(hosts, a_lid_that_changes_is_found_by_peers)
{
    run_lid(false);
}

Test(hosts, a_lid_that_changes_is_found_by_peers_that_were_connected)
{
    run_lid(true);
}

/* The subnet manager routes packets by another service level: what was connected breaks, and is
 * connected again by the new one. */
static void check_level(void *arg)
{
    const bool *connected = arg;
    struct ut_peer peers[2];
    struct ut_end end;

    ut_open_all(&end, SIZE, peers);
    for (uint32_t level = 3; level <= 4; level++) {
        if (ut_rank == 1 && (*connected || level == 4))
            put_and_await(&end, &peers[0]);
        ut_barrier();
        if (ut_rank == 0)
            fault(AD_FAULT_SL, level);
        ut_barrier();
        if (ut_rank == 1)
            put_and_await(&end, &peers[0]);
        ut_barrier();
        if (ut_rank == 0)
            put_and_await(&end, &peers[1]);
        ut_barrier();
    }
    if (ut_rank == 0)
        fault(AD_FAULT_SL, 0);
    ut_close_all(&end);
}

static void run_level(const char *profile, const char *connect, bool connected)
{
    const char *is = getenv("UT_ADAPTER_PROFILE");

    if (!is || strcmp(profile, is) != 0)
        cr_skip_test("another profile");
    ut_run(&(struct ut_run_opts){.n = 2,
                                 .env = {connect, "UTOFU_VERBS_DEVICES=mlx5_0:1",
                                         "UTOFU_PROVIDER=verbs", "UTOFU_PEER_TIMEOUT=4"}},
           check_level, &connected);
}

Test(hosts, a_lid_has_the_service_level_that_its_path_has_now)
{
    run_level("ib", NULL, false);
}

Test(hosts, a_lid_has_the_service_level_that_its_path_has_now_when_it_was_connected)
{
    run_level("ib", NULL, true);
}

Test(hosts, a_lid_has_the_service_level_that_rdmacm_finds_for_each_connection)
{
    run_level("fabric", "UTOFU_VERBS_CONNECT=rdmacm", true);
}

/* Where nobody can ask the subnet manager. */
static void check_lost_lid(void *arg)
{
    char path[] = "/tmp/test_hosts.XXXXXX";
    struct ut_peer peers[2];
    struct ut_end end;
    int log = mkstemp(path);

    (void)arg;
    CHECK(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO, "%s", path);
    ut_open_all(&end, SIZE, peers);
    ut_barrier();
    if (ut_rank == 0)
        fault(AD_FAULT_LID, 3600000);
    wait_for_line(path, "its connections break, and peers cannot reconnect without");
    ut_barrier();
    if (ut_rank == 0)
        fault(AD_FAULT_LID, 0);
    wait_for_line(path, "has LID 17 instead of 1017: ");
    ut_barrier();
    unlink(path);
    close(log);
    if (ut_rank == 1)
        put_and_await(&end, &peers[0]);
    ut_close_all(&end);
}

Test(hosts, a_lid_that_changes_is_named_where_nobody_can_ask_for_it)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    if (!profile || strcmp(profile, "ib") != 0)
        cr_skip_test("not over InfiniBand of the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2,
                                 .env = {"UTOFU_LOG_LEVEL=warning", "UTOFU_PROVIDER=verbs",
                                         "UT_ADAPTER_RDMACM=0"}},
           check_lost_lid, NULL);
}

/*
 * The traffic class of connections, as their queue pairs have it. What the administrator has set is
 * in files, and the adapter's library finds those below a folder of the test's own.
 */
struct class_case {
    const char *connect; /* UTOFU_VERBS_CONNECT */
    const char *file, *says;
    uint32_t want;
};

static void await_class(uint32_t want)
{
    int (*get)(uint32_t *) = (int (*)(uint32_t *))dlsym(RTLD_DEFAULT, "adapter_classes");
    uint32_t classes;
    int num;

    CHECK(get, "no adapter_classes()");
    do {
        ut_relax();
        num = get(&classes);
        CHECK(num >= 0);
        ut_step("%d queue pairs have class %u, not %u", num, classes, want);
    } while (num == 0 || classes != want);
}

static void check_class(void *arg)
{
    struct ut_peer peers[2];
    struct ut_end end;
    struct utofu_mrq_notice notice;

    ut_open_all(&end, SIZE, peers);
    if (ut_rank == 0) {
        CHECK_OK(utofu_put(end.vcq, peers[1].id, end.stadd, peers[1].stadd, 8, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
    }
    ut_barrier();
    await_class(*(const uint32_t *)arg);
    ut_close_all(&end);
}

static void make_file(const char *root, const char *name, const char *text)
{
    char command[512], path[256];

    snprintf(path, sizeof(path), "%s%s", root, name);
    snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\"", path);
    cr_assert_eq(system(command), 0);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

static void run_class(const struct class_case *c)
{
    char root[] = "/tmp/test_hosts.XXXXXX", sys[64], connect[64], command[64];
    const char *profile = getenv("UT_ADAPTER_PROFILE");
    uint32_t want = c->want;

    if (!profile || strcmp(profile, "rxe") != 0)
        cr_skip_test("not over RoCE of the software adapter");
    cr_assert(mkdtemp(root));
    if (c->file)
        make_file(root, c->file, c->says);
    snprintf(sys, sizeof(sys), "UT_ADAPTER_SYS=%s", root);
    snprintf(connect, sizeof(connect), "UTOFU_VERBS_CONNECT=%s", c->connect);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {sys, connect, "UTOFU_PROVIDER=verbs"}},
           check_class, &want);
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    cr_assert_eq(system(command), 0);
}

#define OWN_CLASS    "/sys/class/infiniband/rxe0/tc/1/traffic_class"
#define RDMACM_CLASS "/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos"

Test(hosts, traffic_class_of_the_port_is_used_by_rdmacm)
{
    run_class(&(struct class_case){"rdmacm", OWN_CLASS, "Global tclass=106\n", 106});
}

Test(hosts, traffic_class_of_the_port_is_used_by_datagrams)
{
    run_class(&(struct class_case){"ud", OWN_CLASS, "Global tclass=106\n", 106});
}

Test(hosts, traffic_class_that_is_set_comes_first)
{
    run_class(&(struct class_case){"ud,traffic_class=32", OWN_CLASS, "Global tclass=106\n", 32});
    run_class(
        &(struct class_case){"rdmacm,traffic_class=32", OWN_CLASS, "Global tclass=106\n", 32});
}

Test(hosts, traffic_class_of_rdmacm_is_that_of_datagrams_too)
{
    run_class(&(struct class_case){"ud", RDMACM_CLASS, "104\n", 104});
}

Test(hosts, no_traffic_class_is_zero)
{
    run_class(&(struct class_case){"ud", NULL, NULL, 0});
    run_class(&(struct class_case){"ud", OWN_CLASS, "Global tclass=256\n", 0});
}
