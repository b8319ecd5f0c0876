/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of PMIx, with a libpmix that this test plays: a table of nodes, answers that come when the
 * test says so, and every failure. Each test is a process of its own, which takes part as one rank.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/held_locks.h"
#include "../harness/limit.h"
#include "bootstrap/job.h"
#include "bootstrap/nodes.h"
#include "bootstrap/ops.h"
#include "bootstrap/pack.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

TestSuite(pmix);

enum { MAX_RANKS = 600, MAX_NODES = 4, ENDS_MS = 60000 };

/*
 * The played library
 */

static struct {
    const char *nspace, *nodes;
    uint32_t rank, size, local_size;
    uint32_t node[MAX_RANKS], local_rank[MAX_RANKS]; /* of each rank */
    bool short_numbers, no_hosts, no_library, hangs, is_initialized, no_fence;
    bool hangs_in_commit; /* atomic */
    const char *lacks;    /* a function */
    pmix_status_t init, put, commit, get_nb, fence;
    uint32_t node_id;
    bool has_record[MAX_RANKS], answers_fence;

    /* what was asked */
    struct {
        pmix_rank_t rank;
        bool is_node;
        pmix_value_cbfunc_t done;
        void *tag;
    } asked[MAX_RANKS];
    unsigned int num_asked, num_puts, finalized, outstanding_at_end;
    bool put_before_ask;
    char key[64];
    uint8_t bytes[8192];
    size_t size_put;
    pmix_op_cbfunc_t fence_done;
    void *fence_tag;
} job;

/*
 * Time, which stands if the test says so: then it passes where the library waits
 */

enum { MAX_WAITS = 40, NOW_MS = 1000000 };

static bool time_stands;
static uint64_t passed_ms; /* atomic */
static uint64_t waited_ms[MAX_WAITS];
static unsigned int num_waits, answers_after; /* answers_after: so many waits; 0: never */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!time_stands)
        return (int)syscall(SYS_clock_gettime, clock, t);
    uint64_t ms = NOW_MS + __atomic_load_n(&passed_ms, __ATOMIC_RELAXED);

    t->tv_sec = (time_t)(ms / 1000);
    t->tv_nsec = (long)(ms % 1000 * 1000000);
    return 0;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                           const struct timespec *until)
{
    if (!time_stands)
        return pthread_cond_clockwait(cond, lock, CLOCK_REALTIME, until);
    uint64_t end = (uint64_t)until->tv_sec * 1000 + (uint64_t)until->tv_nsec / 1000000;

    cr_assert(num_waits < MAX_WAITS);
    waited_ms[num_waits] = end - NOW_MS - passed_ms;
    __atomic_store_n(&passed_ms, end - NOW_MS, __ATOMIC_RELAXED);
    if (++num_waits == answers_after) {
        __atomic_store_n(&job.hangs_in_commit, false, __ATOMIC_RELEASE);
        return pthread_cond_wait(cond, lock);
    }
    return ETIMEDOUT;
}

static char warnings[4096];

static void note_warning(const char *category, const char *fmt, const char *text)
{
    (void)category, (void)fmt;
    cr_assert(strlen(warnings) + strlen(text) + 2 < sizeof(warnings));
    strcat(strcat(warnings, text), "\n");
}

static const char *const hosts[MAX_NODES] = {"alpha", "beta.example.org", "gamma", "delta"};

static pmix_value_t *number_of(uint32_t number)
{
    pmix_value_t *value = calloc(1, sizeof(*value));

    value->type = job.short_numbers ? PMIX_UINT16 : PMIX_UINT32;
    if (job.short_numbers)
        value->data.uint16 = (uint16_t)number;
    else
        value->data.uint32 = number;
    return value;
}

static pmix_value_t *text_of(const char *text)
{
    pmix_value_t *value = calloc(1, sizeof(*value));

    value->type = PMIX_STRING;
    value->data.string = strdup(text);
    return value;
}

/* The record of a rank. */
static size_t record_of(uint32_t rank, char text[32])
{
    return (size_t)snprintf(text, 32, "record of %u", rank);
}

static pmix_value_t *bytes_of(uint32_t rank)
{
    pmix_value_t *value = calloc(1, sizeof(*value));
    char text[32];

    value->type = PMIX_BYTE_OBJECT;
    value->data.bo.size = record_of(rank, text);
    value->data.bo.bytes = malloc(value->data.bo.size);
    memcpy(value->data.bo.bytes, text, value->data.bo.size);
    return value;
}

static pmix_value_t *value_of(pmix_rank_t rank, const char *key)
{
    bool whole = rank == PMIX_RANK_WILDCARD;

    if (whole && strcmp(key, PMIX_JOB_SIZE) == 0 && job.size)
        return number_of(job.size);
    if (whole && strcmp(key, PMIX_LOCAL_SIZE) == 0 && job.local_size)
        return number_of(job.local_size);
    if (whole && strcmp(key, PMIX_NODE_LIST) == 0 && job.nodes)
        return text_of(job.nodes);
    if (whole || rank >= job.size)
        return NULL;
    if (strcmp(key, PMIX_LOCAL_RANK) == 0 && job.local_rank[rank] != UINT32_MAX)
        return number_of(job.local_rank[rank]);
    if (strcmp(key, PMIX_NODEID) == 0 && job.node_id != UINT32_MAX)
        return number_of(job.node_id);
    if (strcmp(key, PMIX_HOSTNAME) == 0 && !job.no_hosts)
        return text_of(hosts[job.node[rank]]);
    if (strcmp(key, "utofu.record") == 0 && job.has_record[rank])
        return bytes_of(rank);
    return NULL;
}

static pmix_status_t get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[],
                         size_t num, pmix_value_t **value)
{
    cr_assert(num == 1 && strcmp(info->key, PMIX_OPTIONAL) == 0 && info->value.data.flag &&
                  info->value.type == PMIX_BOOL,
              "asked beyond this process: may wait for ever");
    cr_assert_str_eq(proc->nspace, job.nspace);
    cr_assert_eq(job.finalized, 0);
    *value = value_of(proc->rank, key);
    return *value ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND;
}

static pmix_status_t get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t info[],
                            size_t num, pmix_value_cbfunc_t done, void *tag)
{
    cr_assert(num == 0 && !info);
    cr_assert_eq(job.finalized, 0);
    job.put_before_ask |= job.num_puts > 0;
    job.asked[job.num_asked].rank = proc->rank;
    job.asked[job.num_asked].is_node = strcmp(key, "utofu.node") == 0;
    job.asked[job.num_asked].done = done;
    job.asked[job.num_asked++].tag = tag;
    return job.get_nb;
}

static pmix_status_t init(pmix_proc_t *proc, pmix_info_t info[], size_t num)
{
    (void)info, (void)num;
    while (job.hangs)
        pause();
    memset(proc, 0, sizeof(*proc));
    snprintf(proc->nspace, sizeof(proc->nspace), "%s", job.nspace);
    proc->rank = job.rank;
    return job.init;
}
static int initialized(void)
{
    return job.is_initialized;
}
static pmix_status_t finalize(const pmix_info_t info[], size_t num)
{
    (void)info, (void)num;
    job.finalized++;
    return PMIX_SUCCESS;
}
static pmix_status_t put(pmix_scope_t scope, const char *key, pmix_value_t *value)
{
    cr_assert(scope == PMIX_GLOBAL && value->type == PMIX_BYTE_OBJECT);
    snprintf(job.key, sizeof(job.key), "%s", key);
    job.size_put = value->data.bo.size;
    cr_assert(job.size_put <= sizeof(job.bytes));
    memcpy(job.bytes, value->data.bo.bytes, job.size_put);
    return job.put;
}
static pmix_status_t commit(void)
{
    while (__atomic_load_n(&job.hangs_in_commit, __ATOMIC_ACQUIRE))
        sched_yield();
    __atomic_add_fetch(&job.num_puts, 1, __ATOMIC_RELEASE);
    return job.commit;
}
static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t num, const pmix_info_t info[],
                              size_t num_info, pmix_op_cbfunc_t done, void *tag)
{
    cr_assert(!procs && num == 0 && num_info == 1);
    cr_assert(strcmp(info->key, PMIX_COLLECT_DATA) == 0 && info->value.data.flag &&
              info->value.type == PMIX_BOOL);
    job.fence_done = done;
    job.fence_tag = tag;
    if (job.answers_fence)
        done(PMIX_SUCCESS, tag);
    return job.fence;
}
static const char *error_string(pmix_status_t status)
{
    (void)status;
    return "an error of the played library";
}

/* The linker puts these in the place of the C library's (--wrap). */
void *__wrap_dlopen(const char *name, int flags);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    if (!name || strcmp(name, "libpmix.so.2") != 0)
        return __real_dlopen(name, flags);
    return job.no_library || flags & RTLD_NOLOAD ? NULL : &job;
}

void *__wrap_dlsym(void *library, const char *name);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
#define PLAYED(name_, function_)                                                                   \
    {                                                                                              \
        name_, (void (*)(void))function_                                                           \
    }
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {PLAYED("PMIx_Init", init),
               PLAYED("PMIx_Initialized", initialized),
               PLAYED("PMIx_Finalize", finalize),
               PLAYED("PMIx_Put", put),
               PLAYED("PMIx_Commit", commit),
               PLAYED("PMIx_Get", get),
               PLAYED("PMIx_Get_nb", get_nb),
               PLAYED("PMIx_Fence_nb", fence_nb),
               PLAYED("PMIx_Error_string", error_string)};
    void *address = NULL;

    if (library != &job)
        return __real_dlsym(library, name);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0 && !(job.lacks && strcmp(job.lacks, name) == 0))
            memcpy(&address, &all[i].function, sizeof(address));
    return address;
}

/*
 * Jobs
 */

enum layout { BLOCK, CYCLIC, MIXED, ONE_NODE };

/* Rank 0 to size - 1 on the nodes; MIXED: 0 and 1 on node 2, and the rest from the last node on. */
static void lay_out(enum layout layout, uint32_t size, uint32_t num_nodes, uint32_t rank)
{
    static const char *const lists[] = {NULL, "alpha", "alpha.example.org,beta",
                                        "ALPHA,beta.example.org,gamma"};
    uint32_t used[MAX_NODES] = {0}, local_size = size / num_nodes;

    job.nspace = "job.7";
    job.nodes = lists[num_nodes];
    job.size = size;
    job.local_size = local_size;
    job.rank = rank;
    job.node_id = UINT32_MAX;
    for (uint32_t r = 0; r < size; r++) {
        uint32_t n = layout == CYCLIC  ? r % num_nodes
                     : layout == MIXED ? (r < 2 ? 2 : (num_nodes - 1) - (r - 2) / local_size)
                                       : r / local_size;
        while (used[n] == local_size)
            n = (n + 1) % num_nodes;
        job.node[r] = n;
        job.local_rank[r] = used[n]++;
    }
    unsetenv("UTOFU_ROOT");
    setenv("PMIX_NAMESPACE", job.nspace, 1);
    setenv("PMIX_RANK", "0", 1);
}

static struct ut_job_info info;

static int open_within(int64_t ms)
{
    cr_assert_eq(ut_env_load(), 0);
    memset(&info, 0xa5, sizeof(info));
    return ut_job_pmix.open(&info, (int64_t)ut_clock_ms() + ms);
}

static void check_layout(enum layout layout, uint32_t size, uint32_t nodes)
{
    uint32_t rank = size - 1;

    lay_out(layout, size, nodes, rank);
    job.short_numbers = layout == CYCLIC;
    cr_assert(ut_job_pmix.present());
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(info.rank == rank && info.size == size && info.num_nodes == nodes);
    cr_assert(info.node == job.node[rank] && info.local_rank == job.local_rank[rank] &&
              info.local_size == size / nodes);
    cr_assert_str_eq(info.id, "job.7");
    for (uint32_t r = 0; r < size; r++)
        cr_assert_eq(ut_job_pmix.rank_at(job.node[r], job.local_rank[r]), r);
    for (uint32_t n = 0; n < nodes; n++)
        cr_assert_eq(ut_job_pmix.rank_at(n, size / nodes), -ENOENT, "node %u", n);
    for (uint32_t local = 0; local <= size; local++)
        cr_assert_eq(ut_job_pmix.rank_at(nodes, local), -ENOENT);
}

Test(pmix, block_layout)
{
    check_layout(BLOCK, 8, 2);
}
Test(pmix, cyclic_layout)
{
    check_layout(CYCLIC, 9, 3);
}
Test(pmix, layout_that_is_neither)
{
    check_layout(MIXED, 12, 3);
}
Test(pmix, one_node)
{
    check_layout(BLOCK, 5, 1);
}

Test(pmix, one_node_without_a_list_of_nodes)
{
    lay_out(BLOCK, 5, 1, 2);
    job.nodes = NULL;
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(info.num_nodes == 1 && info.node == 0);
    cr_assert_eq(ut_job_pmix.rank_at(0, 4), 4);
    cr_assert_eq(ut_job_pmix.rank_at(0, 5), -ENOENT);
    cr_assert_eq(ut_job_pmix.rank_at(1, 0), -ENOENT);
    cr_assert(!ut_job_pmix.explain_absence(1, (char[200]){""}, 200));
}

Test(pmix, nodes_without_a_list_have_numbers)
{
    lay_out(BLOCK, 6, 2, 4);
    job.nodes = "nowhere,elsewhere";
    job.node_id = 7;
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(info.num_nodes == 0 && info.node == 7);
    cr_assert_eq(ut_job_pmix.rank_at(0, 0), -ENOENT);
}

/* A rank without a host name: the layout cannot be sorted. */
Test(pmix, unknown_hosts_are_nowhere)
{
    lay_out(MIXED, 12, 3, 0);
    cr_assert_eq(open_within(ENDS_MS), 0);
    job.no_hosts = true;
    cr_assert_eq(ut_job_pmix.rank_at(0, 0), -ENOENT);
    job.no_hosts = false;
    cr_assert_eq(ut_job_pmix.rank_at(2, 0), -ENOENT, "it is not tried again");
}

/*
 * What keeps it from opening
 */

Test(pmix, is_not_there_without_its_variables)
{
    lay_out(BLOCK, 2, 1, 0);
    unsetenv("PMIX_RANK");
    cr_assert(!ut_job_pmix.present());
    setenv("PMIX_RANK", "0", 1);
    unsetenv("PMIX_NAMESPACE");
    cr_assert(!ut_job_pmix.present());
}

static int open_without(const char *what, const char *root)
{
    lay_out(BLOCK, 4, 2, 1);
    if (root)
        setenv("UTOFU_ROOT", root, 1);
    job.no_library = !what;
    job.lacks = what;
    return open_within(ENDS_MS);
}

Test(pmix, without_the_library)
{
    cr_assert_eq(open_without(NULL, NULL), -ENOTSUP);
}
Test(pmix, without_the_library_but_with_a_root)
{
    cr_assert_eq(open_without(NULL, "/tmp"), -ENODEV);
}
Test(pmix, without_a_function_of_the_library)
{
    cr_assert_eq(open_without("PMIx_Fence_nb", NULL), -ENOTSUP);
}

Test(pmix, launcher_that_has_ended)
{
    lay_out(BLOCK, 4, 2, 1);
    job.init = PMIX_ERR_UNREACH;
    cr_assert_eq(open_within(ENDS_MS), -ENODEV);
}
Test(pmix, launcher_that_refuses)
{
    lay_out(BLOCK, 4, 2, 1);
    job.init = PMIX_ERROR;
    cr_assert_eq(open_within(ENDS_MS), -EPROTO);
}
Test(pmix, launcher_that_does_not_answer)
{
    lay_out(BLOCK, 4, 2, 1);
    job.hangs = true;
    cr_assert_eq(open_within(50), -ETIMEDOUT);
}

/* What the launcher says contradicts itself. */
static int open_with(uint32_t rank, uint32_t size, uint32_t local_size, uint32_t local_rank)
{
    int rc = 0;
    pid_t pid = fork();

    if (pid == 0) {
        lay_out(BLOCK, 4, 2, rank);
        job.size = size;
        job.local_size = local_size;
        job.local_rank[rank] = local_rank;
        _exit(-open_within(ENDS_MS));
    }
    cr_assert_eq(waitpid(pid, &rc, 0), pid);
    return -WEXITSTATUS(rc);
}

Test(pmix, numbers_that_contradict_each_other)
{
    cr_assert_eq(open_with(3, 4, 2, 1), 0);
    cr_assert_eq(open_with(3, 3, 2, 1), -EPROTO, "a rank behind the last one");
    cr_assert_eq(open_with(3, 0, 2, 1), -EPROTO, "no size");
    cr_assert_eq(open_with(3, 4, 0, 1), -EPROTO, "no processes on the node");
    cr_assert_eq(open_with(3, 4, 2, 2), -EPROTO, "more processes on the node than there are");
    cr_assert_eq(open_with(3, 4, 2, UINT32_MAX), -EPROTO, "no place on the node");
}

Test(pmix, node_that_nothing_tells)
{
    lay_out(BLOCK, 4, 2, 1);
    job.nodes = NULL;
    cr_assert_eq(open_within(ENDS_MS), -EPROTO);
}

/* It is told after three seconds, and then each time after twice as long. */
Test(pmix, launcher_that_does_not_answer_is_told)
{
    lay_out(BLOCK, 4, 2, 1);
    job.hangs = time_stands = true;
    ut_log_warning_hook = note_warning;
    cr_assert_eq(open_within(10500), -ETIMEDOUT);
    cr_assert(num_waits == 3 && waited_ms[0] == 3000 && waited_ms[1] == 3000 &&
              waited_ms[2] == 4500);
#define SILENT "the PMIx server of this node has not answered for "
    cr_assert_str_eq(warnings, SILENT "3 s; giving up in 7 s (UTOFU_JOB_TIMEOUT)\n" SILENT
                                      "6 s; giving up in 4 s (UTOFU_JOB_TIMEOUT)\n");
}

/*
 * Publishing, and requests for the records of other hosts
 */

static void publish_late(const char *nspace, const char *why)
{
    char want[1000];

    lay_out(BLOCK, 4, 2, 1);
    job.nspace = nspace;
    cr_assert_eq(open_within(ENDS_MS), 0);
    ut_log_warning_hook = note_warning;
    job.hangs_in_commit = time_stands = true;
    answers_after = 4;
    cr_assert_eq(ut_job_pmix.publish("mine", 4), 0);
    cr_assert(waited_ms[0] == 3000 && waited_ms[1] == 3000 && waited_ms[2] == 6000 &&
              waited_ms[3] == 12000);
    snprintf(want, sizeof(want), SILENT "3 s%s\n" SILENT "6 s%s\n" SILENT "12 s%s\n", why, why,
             why);
    cr_assert_str_eq(warnings, want);
    time_stands = false;
    for (unsigned int i = 0; i < job.num_asked; i++)
        job.asked[i].done(PMIX_SUCCESS, NULL, job.asked[i].tag);
}

Test(pmix, record_that_is_not_taken_is_told)
{
    publish_late("job.7", "");
}
Test(pmix, record_that_slurm_does_not_take_is_told)
{
    publish_late("slurm.1",
                 ": Slurm's does so for about 31 s where all processes of another host of the job "
                 "have ended before this process called the library");
}

Test(pmix, record_is_published)
{
    lay_out(BLOCK, 4, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert_eq(ut_job_pmix.publish("mine", 4), 0);
    cr_assert(job.num_puts == 1 && job.size_put == 4 && memcmp(job.bytes, "mine", 4) == 0);
    cr_assert_str_eq(job.key, "utofu.record");
    cr_assert_eq(job.num_asked, 0);
    job.commit = PMIX_ERROR;
    cr_assert_eq(ut_job_pmix.publish("mine", 4), -EIO);
    job.commit = PMIX_SUCCESS;
    job.put = PMIX_ERROR;
    cr_assert_eq(ut_job_pmix.publish("mine", 4), -EIO);
    cr_assert_eq(job.num_puts, 2, "nothing to commit");
}

/* The ranks that the processes of node 1 ask for before they publish: how often each. */
static void ask_of_all(const char *nspace, uint32_t size, uint32_t nodes, unsigned int *times)
{
    unsigned int *count =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t local_size = size / nodes;

    cr_assert(size < 1024);
    for (uint32_t local = 0; local < local_size; local++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            lay_out(BLOCK, size, nodes, local_size + local);
            job.nspace = nspace;
            if (open_within(ENDS_MS) != 0 || ut_job_pmix.publish("x", 1) != 0 || job.put_before_ask)
                _exit(1);
            for (unsigned int i = 0; i < job.num_asked; i++)
                count[job.asked[i].rank]++;
            _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
    }
    memcpy(times, count, size * sizeof(*times));
}

Test(pmix, processes_of_a_host_share_the_requests_for_others_under_slurm)
{
    unsigned int times[MAX_RANKS];

    ask_of_all("slurm.pmix.1.0", 12, 3, times);
    for (uint32_t r = 0; r < 12; r++)
        cr_assert_eq(times[r], r / 4 == 1 ? 0 : 1, "rank %u", r);
    ask_of_all("prte.1", 12, 3, times);
    for (uint32_t r = 0; r < 12; r++)
        cr_assert_eq(times[r], 0);
}

Test(pmix, requests_for_256_processes)
{
    lay_out(BLOCK, 512, 2, 300);
    job.nspace = "slurm.1";
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert_eq(ut_job_pmix.publish("x", 1), 0);
    cr_assert_eq(job.num_asked, 1, "256 of another host, one of them by this process");
    job.asked[0].done(PMIX_SUCCESS, NULL, job.asked[0].tag);
}

Test(pmix, no_requests_for_257_processes)
{
    lay_out(BLOCK, 514, 2, 300);
    job.nspace = "slurm.1";
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert_eq(ut_job_pmix.publish("x", 1), 0);
    cr_assert_eq(job.num_asked, 0);
}

/* At its end a process waits until its requests are answered. */
static bool all_answered;

static void *answer_later(void *unused)
{
    (void)unused;
    usleep(100000);
    for (unsigned int i = 0; i < job.num_asked; i++) {
        if (job.finalized)
            _exit(2);
        all_answered = true;
        job.asked[i].done(PMIX_SUCCESS, NULL, job.asked[i].tag);
    }
    return NULL;
}

static void check_end(void)
{
    _exit(job.finalized != 1 ? 3 : all_answered ? 0 : 6);
}

Test(pmix, end_waits_for_requested_records)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        pthread_t thread;
        atexit(check_end); /* runs after the library's */
        lay_out(BLOCK, 8, 2, 5);
        job.nspace = "slurm.1";
        if (open_within(ENDS_MS) != 0 || ut_job_pmix.publish("x", 1) != 0 || job.num_asked != 1)
            _exit(4);
        pthread_create(&thread, NULL, answer_later, NULL);
        exit(5);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
}

/* Three seconds, and two more after a warning. */
static void check_waits(void)
{
    if (num_waits != 2 || waited_ms[0] != 3000 || waited_ms[1] != 2000 || job.finalized != 1)
        _exit(8);
    _exit(strcmp(warnings, "the end of this process waits at most 2 s more for processes of other "
                           "hosts that have not called the library\n") == 0
              ? 0
              : 9);
}

Test(pmix, end_waits_five_seconds_at_most)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        atexit(check_waits);
        lay_out(BLOCK, 8, 2, 5);
        job.nspace = "slurm.1";
        if (open_within(ENDS_MS) != 0 || ut_job_pmix.publish("x", 1) != 0 || job.num_asked != 1)
            _exit(4);
        ut_log_warning_hook = note_warning;
        time_stands = true;
        exit(5);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
}

static void fail_at_warning(const char *category, const char *fmt, const char *text)
{
    (void)category, (void)fmt, (void)text;
    _exit(7); /* it waits */
}

Test(pmix, request_that_fails_is_not_waited_for)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        atexit(check_end);
        lay_out(BLOCK, 8, 2, 5);
        job.nspace = "slurm.1";
        job.get_nb = PMIX_ERROR;
        all_answered = true;
        ut_log_warning_hook = fail_at_warning;
        if (open_within(ENDS_MS) != 0 || ut_job_pmix.publish("x", 1) != 0)
            _exit(4);
        exit(5);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
}

/*
 * Look-ups
 */

static int look_up(uint32_t rank, int wait_ms)
{
    char record[UT_JOB_RECORD_MAX], want[32];
    size_t size = 99;
    int rc = ut_job_pmix.lookup(rank, record, &size, wait_ms);

    if (rc == 0)
        cr_assert(size == record_of(rank, want) && memcmp(record, want, size) == 0);
    return rc;
}

Test(pmix, record_at_hand_is_taken_without_a_question)
{
    lay_out(BLOCK, 4, 2, 1);
    job.has_record[3] = true;
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert_eq(look_up(3, 0), 0);
    cr_assert_eq(job.num_asked, 0);
}

static void answer(unsigned int i, pmix_status_t status, bool with_value)
{
    pmix_value_t *value = with_value ? bytes_of(job.asked[i].rank) : NULL;

    job.asked[i].done(status, value, job.asked[i].tag);
    free(value ? value->data.bo.bytes : NULL);
    free(value);
}

Test(pmix, answers_of_the_launcher_are_the_results)
{
    static const struct {
        pmix_status_t status;
        bool with_value;
        int rc;
    } table[] = {{PMIX_SUCCESS, true, 0},
                 {PMIX_ERR_NOT_FOUND, false, -EAGAIN},
                 {PMIX_ERR_TIMEOUT, false, -EAGAIN},
                 {PMIX_ERROR, false, -EIO},
                 {PMIX_SUCCESS, false, -EIO}};

    lay_out(BLOCK, 4, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    for (unsigned int i = 0; i < 5; i++) {
        unsigned int before = job.num_asked;
        cr_assert(look_up(3, 0) < 0);
        while (job.num_asked == before) {
            usleep(1000);
            look_up(3, 0);
        }
        cr_assert_eq(job.asked[before].rank, 3);
        cr_assert(!job.asked[before].is_node);
        answer(before, table[i].status, table[i].with_value);
        cr_assert_eq(look_up(3, 0), table[i].rc, "%u", i);
    }
    job.get_nb = PMIX_ERROR;
    int rc = -EAGAIN;
    while (rc == -EAGAIN || rc == -EINPROGRESS)
        rc = look_up(2, 20);
    cr_assert_eq(rc, -EIO, "the launcher takes no question");
}

/* From the second process of a node on, the records of the node come together. */
Test(pmix, records_of_a_node_come_together)
{
    struct ut_job_pack pack = {NULL, 0};
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    char text[32];

    lay_out(BLOCK, 8, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    for (uint32_t local = 0; local < 4; local++)
        ut_job_pack_insert(&pack, local, text, record_of(4 + local, text));
    value.data.bo.bytes = (char *)pack.data;
    value.data.bo.size = pack.size;
    cr_assert(look_up(4, 0) < 0);
    cr_assert(job.num_asked == 1 && job.asked[0].rank == 4 && !job.asked[0].is_node);
    answer(0, PMIX_SUCCESS, true);
    cr_assert_eq(look_up(4, 0), 0);
    cr_assert(look_up(6, 0) < 0);
    cr_assert(job.num_asked == 2 && job.asked[1].rank == 4 && job.asked[1].is_node);
    job.asked[1].done(PMIX_SUCCESS, &value, job.asked[1].tag);
    for (uint32_t rank = 5; rank < 8; rank++)
        cr_assert_eq(look_up(rank, 1000), 0, "%u", rank);
    cr_assert_eq(job.num_asked, 2, "no further question");
    ut_job_pack_free(&pack);
}

/* Also those of the node with rank 0, whose number is the lowest. */
Test(pmix, first_rank_of_another_node_is_asked_for_all)
{
    lay_out(BLOCK, 8, 2, 5);
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(look_up(1, 0) < 0);
    cr_assert_eq(ut_job_num_questions(), 1);
    cr_assert(look_up(2, 0) < 0);
    cr_assert(job.num_asked == 2 && job.asked[1].rank == 0 && job.asked[1].is_node);
    cr_assert_eq(ut_job_num_questions(), 2);
}

Test(pmix, own_node_is_not_asked_for_all_records)
{
    lay_out(BLOCK, 8, 2, 5);
    cr_assert_eq(open_within(ENDS_MS), 0);
    for (uint32_t n = 0; n < 3; n++) {
        uint32_t rank = n == 0 ? 4 : 5 + n;
        cr_assert(look_up(rank, 0) < 0);
        cr_assert(job.num_asked == n + 1 && job.asked[n].rank == rank && !job.asked[n].is_node);
    }
    cr_assert_eq(ut_job_num_questions(), 3);
}

Test(pmix, node_without_its_records_is_asked_for_each)
{
    lay_out(BLOCK, 8, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(look_up(4, 0) < 0);
    cr_assert(look_up(5, 0) < 0);
    cr_assert(job.num_asked == 2 && job.asked[1].is_node);
    /* asked again after 1, 2, 4... look-ups; the others are for single records */
    static const bool is_node[] = {false, true, true, false, true, false};
    for (unsigned int n = 2; n < 6; n++) {
        job.asked[n - 1].done(PMIX_ERR_NOT_FOUND, NULL, job.asked[n - 1].tag);
        for (int i = 0; i < 10000 && job.num_asked == n; i++) {
            usleep(1000);
            look_up(5, 0);
        }
        cr_assert_eq(job.num_asked, n + 1);
        cr_assert_eq(job.asked[n].is_node, is_node[n], "%u", n);
        cr_assert_eq(job.asked[n].rank, is_node[n] ? 4 : 5);
    }
}

/* The thread that gathers records is the one that pauses. The linker puts this function in the
 * place of the C library's. */
static pid_t gatherer;
static unsigned int num_pauses, num_late_pauses;
static useconds_t pauses[MAX_WAITS];

int __wrap_usleep(useconds_t us);
int __real_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    pid_t self = (pid_t)syscall(SYS_gettid);

    if (self == getpid())
        return __real_usleep(us);
    if (__atomic_load_n(&job.num_puts, __ATOMIC_ACQUIRE) > 1)
        __atomic_add_fetch(&num_late_pauses, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&gatherer, self, __ATOMIC_RELAXED);
    if (num_pauses < MAX_WAITS)
        pauses[num_pauses] = us;
    if (time_stands) {
        __atomic_add_fetch(&passed_ms, us / 1000, __ATOMIC_RELAXED);
        us = 1;
    }
    __atomic_add_fetch(&num_pauses, 1, __ATOMIC_RELEASE);
    return __real_usleep(us);
}

static void await_pauses(unsigned int num)
{
    while (__atomic_load_n(&num_pauses, __ATOMIC_ACQUIRE) < num)
        usleep(100);
}

/* It publishes once, and ends without another pause. */
static void await_end_of_gatherer(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d", (int)gatherer);
    while (access(path, F_OK) == 0) {
        cr_assert_eq(__atomic_load_n(&num_late_pauses, __ATOMIC_RELAXED), 0);
        usleep(100);
    }
    cr_assert_eq(job.num_puts, 2);
}

/* The first process of a node publishes the records of all of them. */
static void gather(uint32_t rank, uint32_t size, uint32_t nodes, bool gathers)
{
    struct ut_job_pack pack;
    char record[UT_JOB_RECORD_MAX], want[32];
    size_t got;

    lay_out(BLOCK, size, nodes, rank);
    uint32_t first = job.node[rank] * job.local_size;
    cr_assert_eq(open_within(ENDS_MS), 0);
    job.has_record[first] = true;
    cr_assert_eq(ut_job_pmix.publish("x", 1), 0);
    if (gathers)
        await_pauses(3);
    cr_assert_eq(__atomic_load_n(&job.num_puts, __ATOMIC_ACQUIRE), 1, "one record is missing");
    for (uint32_t local = 0; local < job.local_size; local++)
        job.has_record[first + local] = true;
    for (int i = 0;
         i < (gathers ? 20000 : 500) && __atomic_load_n(&job.num_puts, __ATOMIC_ACQUIRE) == 1; i++)
        usleep(1000);
    cr_assert_eq(job.num_puts, gathers ? 2 : 1);
    if (!gathers) {
        cr_assert_eq(num_pauses, 0);
        return;
    }
    await_end_of_gatherer();
    cr_assert_str_eq(job.key, "utofu.node");
    pack = (struct ut_job_pack){job.bytes, job.size_put};
    for (uint32_t local = 0; local < job.local_size; local++) {
        cr_assert(ut_job_pack_read(&pack, local, record, &got));
        cr_assert(got == record_of(first + local, want) && memcmp(record, want, got) == 0);
    }
    cr_assert(!ut_job_pack_read(&pack, job.local_size, record, &got));
}

Test(pmix, first_process_of_a_node_publishes_all_records)
{
    gather(3, 6, 2, true);
}
/* It looks for them less often each time, up to five times a second, until the time of the job is
 * over. */
Test(pmix, records_that_do_not_come_are_given_up)
{
    char path[64];

    lay_out(BLOCK, 6, 2, 0);
    setenv("UTOFU_JOB_TIMEOUT", "2", 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    time_stands = true;
    answers_after = 1; /* publishing is waited for */
    cr_assert_eq(ut_job_pmix.publish("x", 1), 0);
    await_pauses(1);
    snprintf(path, sizeof(path), "/proc/self/task/%d", (int)gatherer);
    while (access(path, F_OK) == 0)
        sched_yield();
    cr_assert_eq(num_pauses, 17);
    for (unsigned int i = 0; i < 17; i++)
        cr_assert_eq(pauses[i], i < 8 ? 1000u << i : 200000, "%u", i);
    cr_assert_eq(job.num_puts, 1);
}

Test(pmix, another_process_does_not)
{
    gather(4, 6, 2, false);
}
Test(pmix, nor_the_first_one_of_few_or_of_one_node)
{
    gather(2, 4, 2, false);
}

/*
 * Leaving
 */

Test(pmix, absence_is_explained_where_there_are_other_nodes)
{
    char text[200] = "";

    lay_out(BLOCK, 4, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    cr_assert(ut_job_pmix.explain_absence(3, text, sizeof(text)));
    cr_assert(strlen(text) > 20);
}

Test(pmix, all_leave_together, .timeout = 60)
{
    lay_out(BLOCK, 4, 2, 1);
    job.answers_fence = true;
    cr_assert_eq(open_within(ENDS_MS), 0);
    ut_job_pmix.leave_together(ENDS_MS);
    ut_job_pmix.leave_together(ENDS_MS); /* holds no lock */
    job.answers_fence = false;
    job.fence = PMIX_ERROR;
    ut_job_pmix.leave_together(ENDS_MS); /* ends at once */
    cr_assert_not_null(job.fence_done);
}

Test(pmix, leaving_ends_when_the_time_is_over)
{
    lay_out(BLOCK, 4, 2, 1);
    cr_assert_eq(open_within(ENDS_MS), 0);
    uint64_t begin = ut_clock_ms();
    ut_job_pmix.leave_together(30);
    cr_assert(ut_clock_ms() - begin >= 29, "it has waited");
}

static void leave_job(uint32_t nodes, bool expected)
{
    const struct ut_job_info *found;

    lay_out(BLOCK, 4, nodes, 1);
    job.answers_fence = true;
    ut_job_leave_together(ENDS_MS);
    cr_assert(!job.fence_done, "no job is open yet");
    cr_assert_eq(ut_job_open(&found), 0);
    pid_t child = fork();
    if (child == 0) {
        ut_job_leave_together(ENDS_MS);
        _exit(job.fence_done ? 1 : 0);
    }
    int status;
    cr_assert(waitpid(child, &status, 0) == child && status == 0, "a child does not leave");
    ut_job_leave_together(ENDS_MS);
    cr_assert_eq(job.fence_done != NULL, expected);
}

Test(pmix, job_of_several_hosts_leaves_together)
{
    leave_job(2, true);
}
Test(pmix, job_of_one_host_does_not_leave_together)
{
    leave_job(1, false);
}
