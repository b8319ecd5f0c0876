/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped registration and the process: its death, its children, its limits, and kernels that forbid
 * one of the methods.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(map_process);

enum { SIZE = 64 * PAGE };
#define ANYWHERE ((size_t)1 << 47)

static uint64_t get(int n)
{
    return atomic_load(ut_cell(n));
}

static void set(int n, uint64_t value)
{
    atomic_store(ut_cell(n), value);
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int put(const struct ut_end *end, const struct ut_peer *to, size_t at, size_t size)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_put(end->vcq, to->id, end->stadd + at, to->stadd + at, size, 0, UT_LCL, NULL);

    return rc ? rc : ut_await_mrq(end->vcq, &notice);
}

static int get_back(const struct ut_end *end, const struct ut_peer *to, size_t at, size_t size)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_get(end->vcq, to->id, end->stadd + at, to->stadd + at, size, 0, UT_LCL, NULL);

    return rc ? rc : ut_await_mrq(end->vcq, &notice);
}

static int add(const struct ut_end *end, const struct ut_peer *to, size_t at, uint64_t *old)
{
    struct utofu_mrq_notice notice = {0};
    int rc = utofu_armw8(end->vcq, to->id, UTOFU_ARMW_OP_ADD, 1, to->stadd + at, 0, UT_LCL, NULL);

    rc = rc ? rc : ut_await_mrq(end->vcq, &notice);
    *old = notice.rmt_value;
    return rc;
}

/*
 * Death
 */

static void *die_soon(void *us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(uintptr_t)us * 1000}, NULL);
    set(1, 1);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Both processes put, get and add all the time, and register; one is killed meanwhile. The other
 * one gets errors, or does not notice. */
static void killed(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *other = ut_pages(SIZE);
    utofu_stadd_t stadd;
    pthread_t thread;
    uint64_t old;
    int rc = 0;

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    int descriptors = pages_num_descriptors(); /* without a connection yet */
    CHECK_OK(put(&end, &peers[!ut_rank], 0, SIZE));
    if (pages_can_be_mapped())
        CHECK(pages_mapped(NULL, ANYWHERE) > pages_mapped(end.mem, SIZE), "nothing of the peer");
    ut_barrier();
    if (ut_rank == 1)
        CHECK_EQ(pthread_create(&thread, NULL, die_soon, (void *)(uintptr_t)ut_random_below(50000)),
                 0);
    while (rc == 0 && get(0) < 3000) {
        size_t size = 1 + ut_random_below(40000), at = ut_random_below(SIZE - size);
        rc = put(&end, &peers[!ut_rank], at, size);
        rc = rc ? rc : get_back(&end, &peers[!ut_rank], at, size);
        rc = rc ? rc : add(&end, &peers[!ut_rank], at & ~7ul, &old);
        CHECK_OK(utofu_reg_mem(end.vcq, other, SIZE, 0, &stadd));
        CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
        if (get(1))
            atomic_fetch_add(ut_cell(0), 1);
        ut_relax();
    }
    CHECK(rc == 0 || rc == UTOFU_ERR_MRQ_PEER, "%s", ut_rc_name(rc));
    while (rc == 0) { /* until a communication fails */
        rc = put(&end, &peers[!ut_rank], 0, 8);
        nap(1);
    }
    CHECK_RC(rc, UTOFU_ERR_MRQ_PEER);
    /* the mappings of the dead process's memory, and of ours in it, do no harm */
    memset(end.mem, 1, SIZE);
    ut_end_close(&end);
    CHECK_EQ(pages_mapped(NULL, ANYWHERE), 0);
    CHECK(pages_num_descriptors() <= descriptors, "%d descriptors, %d before",
          pages_num_descriptors(), descriptors);
}

Test(map_process, death_of_a_peer_under_traffic_is_an_error_and_no_signal)
{
    for (int i = 0; i < 5; i++)
        ut_run(&(struct ut_run_opts){.n = 2, .may_die = 2, .env = {"UTOFU_PEER_TIMEOUT=1"}}, killed,
               NULL);
}

/* A peer uses memory that its owner deregisters, registers again, and unmaps. */
static void deregistered(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2], theirs[2];
    struct ut_peer mine = {0};
    uint8_t *mem = ut_pages(SIZE);

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    for (int round = 0; round < 50; round++) {
        mine.id = end.id;
        memset(mem, round, SIZE);
        CHECK_OK(utofu_reg_mem(end.vcq, mem, SIZE, 0, &mine.stadd));
        ut_allgather(&mine, theirs, sizeof(mine));
        memset(end.mem, 0x80, SIZE);
        CHECK_OK(put(&end, &theirs[!ut_rank], 8, 16)); /* mapped at the peer now */
        CHECK_OK(put(&end, &theirs[!ut_rank], 2 * PAGE, PAGE));
        ut_barrier();
        CHECK(mem[7] == round && mem[8] == 0x80 && mem[2 * PAGE] == 0x80);
        CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
        ut_barrier();
        CHECK_RC(put(&end, &theirs[!ut_rank], 0, 8), UTOFU_ERR_MRQ_RMT_STADD);
        CHECK_RC(get_back(&end, &theirs[!ut_rank], 0, 8), UTOFU_ERR_MRQ_RMT_STADD);
        uint64_t old;
        CHECK_RC(add(&end, &theirs[!ut_rank], 0, &old), UTOFU_ERR_MRQ_RMT_STADD);
        ut_barrier();
        CHECK(mem[0] == round && mem[8] == 0x80 && mem[SIZE - 1] == round);
        if (round % 10 == 9) { /* other memory at the same address */
            munmap(mem, SIZE);
            CHECK(mmap(mem, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                       -1, 0) == mem);
        }
    }
    ut_close_all(&end);
}

Test(map_process, what_was_mapped_and_is_deregistered_is_refused)
{
    ut_run(&(struct ut_run_opts){.n = 2}, deregistered, NULL);
}

/*
 * Children
 */

static volatile uint8_t *touched;

static int child_that_reads(const uint8_t *at)
{
    pid_t pid = fork();
    int status;

    touched = (volatile uint8_t *)(uintptr_t)at;
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*touched == 9 ? 0 : 1);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static int child_that_frees(utofu_vcq_hdl_t vcq)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(utofu_free_vcq(vcq) == UTOFU_ERR_INVALID_VCQ_HDL ? 0 : 1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

/* Pages that belong to registered memory alone are not present in a child; their neighbours are.
 * The child has no handle. */
static void children(void *arg)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    uint8_t *mem = ut_pages(8 * PAGE);

    (void)arg;
    memset(mem, 9, 8 * PAGE);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    CHECK_OK(utofu_reg_mem(vcq, mem + 100, 4 * PAGE, 0, &stadd));
    CHECK_EQ(child_that_reads(mem), 0);
    CHECK_EQ(child_that_reads(mem + 100), 0); /* its page is shared with other data */
    CHECK_EQ(child_that_reads(mem + 100 + 4 * PAGE - 1), 0);
    int status = child_that_reads(mem + PAGE);
    if (pages_can_be_mapped())
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "0x%x", status);
    else
        CHECK_EQ(status, 0);
    CHECK_EQ(system("exit 5"), 5 << 8);
    CHECK_EQ(child_that_frees(vcq), 0);
    CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    CHECK_EQ(child_that_reads(mem + PAGE), 0);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_process, child_of_fork_has_what_the_manual_says)
{
    ut_run(&(struct ut_run_opts){.n = 1}, children, NULL);
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_SHM_MAP=0"}}, children, NULL);
}

/*
 * Limits
 */

/* A sanitizer's own memory cannot be distinguished from the program's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SANITIZED 1
#else
#    define SANITIZED 0
#endif

static void many(void *arg)
{
    enum { REGIONS = 10000, EACH = 3 * PAGE };
    utofu_stadd_t *stadds = calloc(REGIONS, sizeof(*stadds));
    utofu_vcq_hdl_t vcq;
    uint8_t *mem = ut_pages((size_t)REGIONS * EACH);

    (void)arg;
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    memset(mem, 5, (size_t)REGIONS * EACH);
    size_t before = pages_status_kib("VmRSS:");
    for (size_t i = 0; i < REGIONS; i++) /* the middle page of each is whole */
        CHECK_OK(utofu_reg_mem(vcq, mem + i * EACH + 1, EACH - 2, 0, &stadds[i]));
    size_t after = pages_status_kib("VmRSS:");
    CHECK(pages_num_descriptors() < 64, "%d descriptors", pages_num_descriptors());
    CHECK(SANITIZED || after < before + 8192, "%zu KiB more", after - before);
    CHECK(pages_num_mappings() < 40000, "%zu mappings", pages_num_mappings());
    size_t mapped = pages_mapped(mem, (size_t)REGIONS * EACH);
    if (pages_can_be_mapped() && pages_are_found_by_address())
        CHECK_EQ(mapped, REGIONS * PAGE);
    else if (pages_can_be_mapped()) /* up to about 2048 mappings */
        CHECK(mapped >= 500 * PAGE && mapped < 1500 * PAGE, "%zu pages", mapped / PAGE);
    for (size_t i = 0; i < REGIONS; i++)
        CHECK_OK(utofu_dereg_mem(vcq, stadds[i], 0));
    CHECK_EQ(pages_mapped(mem, (size_t)REGIONS * EACH), 0);
    for (size_t i = 0; i < (size_t)REGIONS * EACH; i += 512)
        CHECK_EQ(mem[i], 5);
    after = pages_status_kib("VmRSS:");
    CHECK(SANITIZED || after < before + 8192, "%zu KiB more at the end", after - before);
    CHECK_OK(utofu_free_vcq(vcq));
    free(stadds);
}

Test(map_process, ten_thousand_regions_cost_few_descriptors_and_little_memory)
{
    ut_run(&(struct ut_run_opts){.n = 1, .timeout_s = 120}, many, NULL);
}

/* The same where finding a mapping takes long: a line reports that most are not mapped. */
static void many_and_no_queries(void *arg)
{
    pages_forbid_queries();
    many(arg);
}

Test(map_process, kernel_that_does_not_find_mappings_maps_fewer)
{
    struct ut_outcome out[1];
    char report[4096];

    if (!pages_can_be_mapped())
        ut_skip("no userfaultfd: registered memory is not mapped");
    if (!ut_run_collect(
            &(struct ut_run_opts){.n = 1, .timeout_s = 120, .env = {"UTOFU_LOG_LEVEL=info"}},
            many_and_no_queries, NULL, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    const char *line = strstr(out[0].output, "(before Linux 6.11) looks");
    cr_assert(line, "no line in: %s", out[0].output);
    cr_assert(!strstr(line + 1, "(before Linux"), "twice");
}

/* A region of many mappings, half of which can be remapped, with small regions in it for which none
 * is remapped: the list of mappings is read once for all of them. */
static void motley(void *arg)
{
    enum { PAGES = 1200, SMALL = 100 };
    utofu_stadd_t stadd, small[SMALL];
    utofu_vcq_hdl_t vcq;
    uint8_t *mem = ut_pages(PAGES * PAGE);

    if (arg)
        pages_forbid_queries();
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (int i = 0; i < PAGES; i++) {
        uint8_t *at = mem + i * PAGE;
        if (i % 3 == 1)
            CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
                       0) == at);
        memset(at, i % 251, PAGE);
    }
    for (int i = 0; i < SMALL; i++) /* no whole page */
        CHECK_OK(utofu_reg_mem(vcq, mem + (12 * i + 2) * PAGE + 8, 64, 0, &small[i]));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(utofu_reg_mem(vcq, mem, PAGES * PAGE, 0, &stadd));
        if (pages_can_be_mapped())
            CHECK_EQ(pages_mapped(mem, PAGES * PAGE), (PAGES / 3 * 2 - SMALL) * PAGE);
        for (int i = 0; i < PAGES; i++)
            CHECK(mem[i * PAGE] == i % 251 && mem[i * PAGE + PAGE - 1] == i % 251);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        CHECK_EQ(pages_mapped(mem, PAGES * PAGE), 0);
    }
    for (int i = 0; i < SMALL; i++)
        CHECK_OK(utofu_dereg_mem(vcq, small[i], 0));
    for (int i = 0; i < PAGES; i++)
        CHECK(mem[i * PAGE] == i % 251 && mem[i * PAGE + PAGE - 1] == i % 251);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_process, region_of_many_mappings)
{
    static bool without_queries;

    ut_run(&(struct ut_run_opts){.n = 1}, motley, NULL);
    ut_run(&(struct ut_run_opts){.n = 1}, motley, &without_queries);
}

/* To all others in turn: connections of one VCQ share the limit of mapped memory, and each further
 * VCQ may have one window. */
static void limit_of_many(void *arg)
{
    struct ut_end ends[3];
    struct ut_peer theirs[3][3];
    struct utofu_mrq_notice notice;
    int vcqs = *(const int *)arg;
    uint64_t value;

    for (int v = 0; v < vcqs; v++) {
        ut_end_open(&ends[v], (utofu_tni_id_t)v, 0, PAGE);
        ut_end_gather(&ends[v], theirs[v]);
    }
    for (uint64_t i = 0; i < 20 * 3; i++) {
        for (int v = 0; v < vcqs; v++) {
            const struct ut_peer *to = &theirs[v][i % 3];
            memcpy(ends[v].mem + 8 * ut_rank, &i, sizeof(i));
            CHECK_OK(utofu_put(ends[v].vcq, to->id, ends[v].stadd + 8 * (uint64_t)ut_rank,
                               to->stadd + 8 * (uint64_t)(8 + ut_rank), 8, 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(ends[v].vcq, &notice));
            CHECK_OK(utofu_get(ends[v].vcq, to->id, ends[v].stadd + 8 * (uint64_t)ut_rank,
                               to->stadd + 8 * (uint64_t)(8 + ut_rank), 8, 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(ends[v].vcq, &notice));
            memcpy(&value, ends[v].mem + 8 * ut_rank, sizeof(value));
            CHECK_EQ(value, i);
        }
        if (i >= 2 && pages_can_be_mapped()) /* both other ends were used */
            CHECK_EQ(pages_of_peers(), (size_t)vcqs << 28);
    }
    ut_barrier();
    for (int v = 0; v < vcqs; v++)
        ut_end_close(&ends[v]);
}

Test(map_process, connections_share_the_limit)
{
    const struct ut_run_opts opts = {.n = 3, .env = {"UTOFU_SHM_MAP=eager,limit=256"}};
    int vcqs[] = {1, 3};

    ut_run(&opts, limit_of_many, &vcqs[0]);
    ut_run(&opts, limit_of_many, &vcqs[1]);
}

/* More of a peer's memory than may be mapped at once: 256 MiB are one window. Where an adapter pins
 * registered memory, all of it is resident, so the region is smaller. */
static void windows(void *arg)
{
    const uint64_t *limit = arg; /* MiB */
    struct ut_end end;
    struct ut_peer peers[2], theirs[2], mine = {0};

    ut_open_all(&end, SIZE, peers);
    bool pinned = pages_status_kib("VmPin:") > 0;
    size_t num_windows = pinned ? 4 : 12, size = num_windows << 28;
    uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mem != MAP_FAILED);
    CHECK_OK(utofu_reg_mem(end.vcq, mem, size, 0, &mine.stadd));
    mine.id = end.id;
    ut_allgather(&mine, theirs, sizeof(mine));
    for (uint64_t i = 0; i < 400; i++) {
        struct utofu_mrq_notice notice;
        struct ut_rng rng = ut_rng_start(i * 2 + (uint64_t)ut_rank);
        size_t length = 8 + ut_rng_below(&rng, 3 * PAGE);
        size_t border = ((size_t)1 + ut_rng_below(&rng, num_windows - 1))
                        << 28; /* also across windows */
        size_t at = border - ut_rng_below(&rng, length);
        memset(end.mem, (int)i, length);
        CHECK_OK(utofu_put(end.vcq, theirs[!ut_rank].id, end.stadd, theirs[!ut_rank].stadd + at,
                           length, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        memset(end.mem, 0, length);
        CHECK_OK(utofu_get(end.vcq, theirs[!ut_rank].id, end.stadd, theirs[!ut_rank].stadd + at,
                           length, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        for (size_t k = 0; k < length; k++)
            CHECK_EQ(end.mem[k], (uint8_t)i);
        CHECK(pages_of_peers() <= *limit << 20);
    }
    CHECK(pinned || pages_status_kib("VmRSS:") < 200 << 10);
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
    ut_close_all(&end);
}

Test(map_process, windows_come_and_go_within_their_limit)
{
    uint64_t least = 512, most = 1 << 20;

    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager,limit=512"}}, windows,
           &least);
    ut_run(&(struct ut_run_opts){.n = 2}, windows, &most);
}

/*
 * System calls that a kernel may forbid
 */

/* Without help of the target, which does not call the library, and has no background thread. */
static void without_ptrace(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t old = 99;

    (void)arg;
    pages_forbid(pages_cross_memory_attach);
    ut_open_all(&end, SIZE, peers);
    CHECK_OK(put(&end, &peers[!ut_rank], 0, 8)); /* the first contact needs both */
    ut_flush(&end, &peers[!ut_rank]);
    atomic_fetch_add(ut_cell(2), 1);
    while (get(2) < 2) {
        ut_expect_nothing(end.vcq);
        ut_relax();
    }
    ut_barrier();
    if (ut_rank == 0) {
        memset(end.mem, 0x33, SIZE);
        set(0, 1);
        if (pages_can_be_mapped()) {
            CHECK_OK(put(&end, &peers[1], PAGE, 32 * PAGE));
            CHECK_OK(add(&end, &peers[1], 2 * PAGE, &old));
            CHECK_EQ(old, 0x3333333333333333);
            memset(end.mem, 0, SIZE);
            CHECK_OK(get_back(&end, &peers[1], PAGE, PAGE));
            CHECK_EQ(end.mem[PAGE], 0x33);
        } else { /* the twin: the target has to call the library */
            struct utofu_mrq_notice notice;
            CHECK_OK(utofu_put(end.vcq, peers[1].id, end.stadd, peers[1].stadd + PAGE, PAGE, 0,
                               UT_LCL, NULL));
            for (int i = 0; i < 100; i++) {
                CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
                nap(1);
            }
        }
        set(0, 2);
    } else {
        while (get(0) < 2) /* does not call the library */
            nap(1);
        CHECK_EQ(end.mem[PAGE], pages_can_be_mapped() ? 0x33 : 0);
    }
    if (!pages_can_be_mapped() && ut_rank == 0) {
        struct utofu_mrq_notice notice;
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        set(1, 1);
    }
    while (!pages_can_be_mapped() && get(1) == 0)
        ut_expect_nothing(end.vcq);
    ut_close_all(&end);
}

Test(map_process, memory_is_reached_without_permission_to_trace)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0"}}, without_ptrace, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0", "UTOFU_SHM_MAP=0"}},
           without_ptrace, NULL);
}

/* More data than a ring holds, through the rings: they arrive without calls of the library. */
static void nobody_calls(void *arg)
{
    enum { LARGE = 3 << 20 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    CHECK_OK(put(&end, &peers[!ut_rank], 0, 8)); /* now connected */
    ut_flush(&end, &peers[!ut_rank]);
    ut_barrier();
    for (int round = 1; round <= 3; round++) {
        nap(50); /* the background threads sleep by now */
        if (ut_rank == 0) {
            memset(end.mem, round, LARGE);
            CHECK_OK(utofu_put(end.vcq, peers[1].id, end.stadd, peers[1].stadd, LARGE, 0, UT_STRONG,
                               NULL));
            while (get(0) < (uint64_t)round)
                nap(1);
        } else {
            while (__atomic_load_n(&end.mem[LARGE - 1], __ATOMIC_ACQUIRE) != round)
                nap(1);
            CHECK(end.mem[0] == round && memcmp(end.mem, end.mem + 1, LARGE - 1) == 0);
            set(0, (uint64_t)round);
        }
    }
    ut_close_all(&end);
}

Test(map_process, large_put_through_the_rings_arrives_though_nobody_calls)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_CMA=0", "UTOFU_SHM_MAP=0"}},
           nobody_calls, NULL);
}

static void without_userfaultfd(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t old;

    (void)arg;
    pages_forbid(pages_userfaultfd);
    ut_open_all(&end, SIZE, peers);
    CHECK_EQ(pages_mapped(end.mem, SIZE), 0);
    memset(end.mem + PAGE, 3, PAGE);
    CHECK_OK(put(&end, &peers[!ut_rank], PAGE, PAGE));
    CHECK_OK(add(&end, &peers[!ut_rank], 0, &old));
    CHECK_EQ(old, 0);
    ut_close_all(&end);
}

Test(map_process, kernel_without_userfaultfd_is_said_once)
{
    struct ut_outcome out[2];
    char report[4096];

    if (!pages_can_be_mapped())
        ut_skip("no userfaultfd: registered memory is not mapped");
    if (!ut_run_collect(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_LOG_LEVEL=info"}},
                        without_userfaultfd, NULL, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    for (int i = 0; i < 2; i++) {
        const char *line = strstr(out[i].output, "registered memory is not mapped");
        cr_assert(line, "no line in: %s", out[i].output);
        cr_assert(!strstr(line + 1, "registered memory is not mapped"), "twice");
    }
}
