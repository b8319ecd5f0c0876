/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actions of the program on its own process while memory is registered: fork, system, popen, locked
 * memory; and processes with different settings. Sections 4.3.2.5, 6.1.4.1.
 */
#include "words.h"

#include <criterion/criterion.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(process);

static void ping(const struct ut_end *end, const struct ut_peer *to, uint64_t count)
{
    struct word_armw armw = {.op = WORD_ADD,
                             .size = 8,
                             .vcq = end->vcq,
                             .rmt = to->id,
                             .rmt_stadd = to->stadd,
                             .operand = 1,
                             .flags = UT_LCL};
    struct utofu_mrq_notice notice;
    struct ut_comm put = {.kind = UT_PUT,
                          .vcq = end->vcq,
                          .rmt = to->id,
                          .length = 8,
                          .lcl_stadd = end->stadd + 64,
                          .rmt_stadd = to->stadd + 128,
                          .flags = UT_LCL};

    memcpy(end->mem + 64, &count, 8);
    word_submit(&armw);
    CHECK_EQ(word_await(&armw), count);
    ut_submit(&put);
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

static void join(pid_t pid)
{
    int status;

    CHECK(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        ;
    CHECK(status == 0, "the child ended with 0x%x", status);
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Mapped pages of registered memory do not exist in a child (6.1.4.1). */
static bool child_has_memory(void)
{
    const char *map = getenv("UTOFU_SHM_MAP");

    return map && strcmp(map, "0") == 0;
}

/* In a child: no VCQ exists; its writes only affect its own memory. */
static void be_child(const struct ut_end *end)
{
    struct utofu_mrq_notice notice;
    utofu_vcq_hdl_t vcq;
    int bad = 0;

    bad |= utofu_poll_mrq(end->vcq, 0, &notice) != UTOFU_ERR_INVALID_VCQ_HDL;
    bad |= utofu_nop(end->vcq, 0, NULL) != UTOFU_ERR_INVALID_VCQ_HDL;
    bad |= utofu_free_vcq(end->vcq) != UTOFU_ERR_INVALID_VCQ_HDL;
    bad |= utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS;
    if (child_has_memory())
        memset(end->mem, 0xdd, end->size);
    nap(20);
    if (bad)
        _exit(1);
    exit(0); /* normally: exit handlers of the library run, too */
}

static void forks(void *arg)
{
    enum { CHILDREN = 6 };
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t count = 0;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int child = 0; child < CHILDREN; child++) {
        pid_t pid = -1;

        ut_step("child %d", child);
        ping(&end, &peers[!ut_rank], count++);
        ut_barrier();
        if (ut_rank == child % 2) {
            fflush(NULL);
            pid = fork();
            if (pid == 0)
                be_child(&end);
        }
        for (int i = 0; i < 20; i++) { /* while the child runs and writes */
            ping(&end, &peers[!ut_rank], count++);
            ut_random_delay(2000);
        }
        if (pid > 0)
            join(pid);
        ping(&end, &peers[!ut_rank], count++);
        ut_barrier();
        CHECK_EQ(word_load(end.mem, 8), count);
        CHECK_EQ(word_load(end.mem + 128, 8), count - 1);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(process, communication_goes_on_while_a_forked_child_lives_and_when_it_ends)
{
    ut_run(&(struct ut_run_opts){.n = 2}, forks, NULL);
}

static void commands(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t count = 0;
    char line[64];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int round = 0; round < 5; round++) {
        ping(&end, &peers[!ut_rank], count++);
        CHECK_EQ(system("exit 3"), 3 << 8);
        ping(&end, &peers[!ut_rank], count++);
        FILE *out = popen("echo said", "r");
        CHECK(out != NULL);
        ping(&end, &peers[!ut_rank], count++);
        CHECK(fgets(line, sizeof(line), out) != NULL && strcmp(line, "said\n") == 0);
        CHECK_EQ(pclose(out), 0);
        ut_barrier();
        CHECK_EQ(word_load(end.mem, 8), count);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(process, system_and_popen_work_with_registered_memory)
{
    ut_run(&(struct ut_run_opts){.n = 2}, commands, NULL);
}

/* A child that outlives its parent does not keep the parent's VCQs alive. */
static void orphan(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    ping(&end, &peers[!ut_rank], 0);
    ut_barrier();
    if (ut_rank == 1) {
        pid_t child = fork();

        if (child == 0) {
            while (*ut_cell(1) == 0)
                nap(5);
            _exit(0);
        }
        *ut_cell(0) = 1;
        raise(SIGKILL);
    }
    while (*ut_cell(0) == 0)
        ut_relax();
    int rc;
    do { /* puts posted before the end is detected may succeed */
        struct ut_comm put = {.kind = UT_PIGGYBACK8,
                              .vcq = end.vcq,
                              .rmt = peers[1].id,
                              .data = &put,
                              .rmt_stadd = peers[1].stadd,
                              .length = 8,
                              .flags = UT_LCL};
        ut_submit(&put);
        rc = ut_await_mrq(end.vcq, &notice);
        nap(10);
    } while (rc == UTOFU_SUCCESS);
    CHECK(rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_ERR_MRQ_RMT_MEMORY, "%s", ut_rc_name(rc));
    *ut_cell(1) = 1;
    ut_end_close(&end);
}

Test(process, death_of_a_process_is_noticed_though_its_child_lives)
{
    ut_run(&(struct ut_run_opts){.n = 2, .may_die = 2, .env = {"UTOFU_PEER_TIMEOUT=1"}}, orphan,
           NULL);
}

/* UTOFU_SWAP_PROTECT */

static size_t locked_kb(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    size_t kb = SIZE_MAX;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmLck: %zu kB", &kb) == 1)
            break;
    fclose(f);
    CHECK(kb != SIZE_MAX);
    return kb;
}

static void limit_locked_memory(rlim_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    /* root is not limited: drop the capability */
    CHECK_EQ(syscall(SYS_capget, &head, data), 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    CHECK_EQ(syscall(SYS_capset, &head, data), 0);
}

/* The sanitizers make mlock() do nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CAN_LOCK = 0 };
#else
enum { CAN_LOCK = 1 };
#endif

enum { LOCK_LIMIT = 8 << 20, SMALL = 1 << 20, LARGE = 32 << 20 };

static void swap_protect(void *arg)
{
    bool wanted = arg != NULL;
    struct ut_end end, small, large;
    struct ut_peer peer;

    limit_locked_memory(LOCK_LIMIT);
    ut_end_open(&end, 0, 0, 4096);
    size_t before = locked_kb();
    ut_end_open(&small, 1, 0, SMALL);
    size_t with_small = locked_kb();
    if (wanted)
        CHECK(with_small >= before + SMALL / 1024, "%zu, then %zu kB", before, with_small);
    else
        CHECK_EQ(with_small, 0);
    /* memory beyond the limit is still registered, and works (4.3.2.5) */
    ut_end_open(&large, 2, 0, LARGE);
    CHECK(locked_kb() <= LOCK_LIMIT / 1024);
    peer = ut_end_peer(&large);
    for (size_t at = 0; at < LARGE; at += LARGE - 8) {
        struct word_armw armw = {.op = WORD_OR,
                                 .size = 8,
                                 .vcq = end.vcq,
                                 .rmt = large.id,
                                 .rmt_stadd = peer.stadd + at,
                                 .operand = 5,
                                 .flags = UT_LCL};
        word_submit(&armw);
        CHECK_EQ(word_await(&armw), 0);
        CHECK_EQ(word_load(large.mem + at, 8), 5);
    }
    ut_end_close(&large);
    ut_end_close(&small);
    CHECK_EQ(locked_kb(), before); /* as much as before */
    ut_end_close(&end);
}

Test(process, swap_protect_locks_what_the_limit_allows_and_registers_the_rest)
{
    /* any number except 0 means 1 */
    static const char *const env[] = {"UTOFU_SWAP_PROTECT=1", "UTOFU_SWAP_PROTECT=7"};

    for (int i = 0; CAN_LOCK && i < 2; i++)
        ut_run(&(struct ut_run_opts){.n = 1, .env = {env[i], "UTOFU_PROVIDER=shm"}}, swap_protect,
               &(int){1});
}

Test(process, without_swap_protect_nothing_is_locked)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_SWAP_PROTECT=0", "UTOFU_PROVIDER=shm"}},
           swap_protect, NULL);
}

/* Processes with different settings of who executes ARMWs */

static void disagree(void *arg)
{
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;
    struct ut_end end;
    utofu_vcq_hdl_t vcq;
    int rc;

    (void)arg;
    setenv("UTOFU_ARMW", ut_rank ? "nic" : "cpu", 1);
    if (utofu_create_vcq(0, 0, &vcq) != UTOFU_SUCCESS)
        *ut_cell(0) = 1; /* the setting requires a device with atomics, and there is none */
    ut_barrier();
    if (*ut_cell(0) != 0) {
        printf("no nic mode here\n");
        return;
    }
    ut_end_attach(&end, vcq, 4096);
    ut_end_gather(&end, peers);
    struct ut_comm put = {.kind = UT_PIGGYBACK8,
                          .vcq = end.vcq,
                          .rmt = peers[!ut_rank].id,
                          .data = &put,
                          .rmt_stadd = peers[!ut_rank].stadd,
                          .length = 8,
                          .flags = UT_LCL};
    ut_submit(&put);
    do {
        rc = utofu_poll_mrq(end.vcq, 0, &notice);
        ut_relax();
    } while (rc == UTOFU_ERR_NOT_FOUND);
    CHECK_RC(rc, UTOFU_ERR_MRQ_PEER);
    ut_barrier(); /* neither exits while the other one checks */
}

Test(process, different_armw_modes_in_a_job_say_so_and_cannot_reach_each_other)
{
    static struct ut_outcome out[2];
    static char report[65536];

    ut_run_collect(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_JOB_TIMEOUT=3600"}}, disagree, NULL,
                   out, report, sizeof(report));
    if (strstr(out[1].output, "no nic mode here") != NULL)
        return;
    for (int i = 0; i < 2; i++) {
        cr_assert(WIFEXITED(out[i].status) && WEXITSTATUS(out[i].status) == 0, "%s", report);
        cr_assert(strstr(out[i].output, "set UTOFU_ARMW to one value") != NULL, "%s", report);
    }
}

/*
 * A process that only puts, and polls no queue, without a background thread: a peer's ARMW is
 * executed where the TOQ gets room again.
 */

static void serve_by_puts(void *arg)
{
    enum { CONNECTED = 1, ANSWERED };
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    ping(&end, &peers[!ut_rank], 0); /* connects */
    if (ut_rank == 1) {
        atomic_store(ut_cell(0), CONNECTED);
        while (atomic_load(ut_cell(1)) == 0)
            ut_relax();
        ping(&end, &peers[0], 1);
        atomic_store(ut_cell(0), ANSWERED);
    } else {
        while (atomic_load(ut_cell(0)) < CONNECTED) /* without progress the peer cannot connect */
            CHECK(utofu_poll_mrq(end.vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND);
        atomic_store(ut_cell(1), 1);
    }
    while (ut_rank == 0 && atomic_load(ut_cell(0)) < ANSWERED) {
        int rc = utofu_put(end.vcq, peers[1].id, end.stadd, peers[1].stadd + 64, 8, 0, 0, NULL);
        if (rc != UTOFU_ERR_BUSY) /* the other process may not have a CPU */
            CHECK_OK(rc);
    }
    ut_close_all(&end);
}

Test(process, armw_of_a_peer_is_executed_though_its_target_only_puts)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0", "UTOFU_SHM_MAP=0"}},
           serve_by_puts, NULL);
}
