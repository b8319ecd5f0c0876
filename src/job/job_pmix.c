/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx: Open MPI's mpirun, PRRTE, Slurm's and Flux's PMIx. The library is opened at run time, so
 * that it need not be there otherwise; Open MPI's own instance is used when it is loaded.
 *
 * About the layout, only this process's own memory is asked (PMIX_OPTIONAL), which knows the node
 * list and every rank's host name and local rank. PMIX_NODEID is not dense, and together with
 * PMIx_Resolve_peers may wait for ever for an answer about another node. Blobs come through
 * PMIx_Get_nb with a deadline of our own.
 */
#include "job/job_ops.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <stdlib.h>

static bool present(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

/* Without PMIx the ranks of the launcher still help when UTOFU_ROOT says where to meet. */
static int cannot_use(const char *why)
{
    if (ut_env_is_set(UT_ENV_ROOT)) {
        ut_info("job", "this is a PMIx job, but %s; trying UTOFU_ROOT", why);
        return -ENODEV;
    }
    ut_error("job",
             "this is a PMIx job (PMIX_NAMESPACE is set), but %s; set UTOFU_ROOT to a folder "
             "that all processes can write, or unset PMIX_NAMESPACE for a job of one",
             why);
    return -ENOTSUP;
}

#ifdef UT_HAVE_PMIX

#    include "job/job_mpi.h"
#    include "job/job_request.h"

#    include <dlfcn.h>
#    include <pmix.h>
#    include <pthread.h>
#    include <signal.h>
#    include <stdio.h>
#    include <string.h>
#    include <strings.h>

static const char blob_key[] = "utofu.blob";

static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Get_nb) *get_nb;
    __typeof__(PMIx_Error_string) *error_string;
} pmix;

/* Filled by the opening thread, read by others after it has said that it is done. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    int result;
    pmix_status_t status; /* of PMIx_Init */
    pid_t owner;
    pmix_proc_t self;
    uint32_t size, local_rank, local_size, node, num_nodes;
    const char **nodes; /* their names, num_nodes of them */
    /* The ranks of node n, in order: ranks[first[n]] to ranks[first[n + 1] - 1]. Made when it is
     * first needed. */
    uint32_t *ranks, *first;
    bool sorted;
} p = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct ut_job_requests requests;

static int load_library(void)
{
    static const struct {
        const char *name;
        void *where;
    } symbols[] = {
        {"PMIx_Init", &pmix.init},
        {"PMIx_Finalize", &pmix.finalize},
        {"PMIx_Put", &pmix.put},
        {"PMIx_Commit", &pmix.commit},
        {"PMIx_Get", &pmix.get},
        {"PMIx_Get_nb", &pmix.get_nb},
        {"PMIx_Error_string", &pmix.error_string},
    };
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_NOLOAD);

    if (!library)
        library = dlopen("libpmix.so.2", RTLD_NOW);
    if (!library)
        return cannot_use("libpmix.so.2 cannot be loaded (Debian: package libpmix2)");
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address)
            return cannot_use("libpmix.so.2 lacks functions of PMIx 3.1");
        memcpy(symbols[i].where, &address, sizeof(address));
    }
    return 0;
}

/* ---- what this process's memory knows ---- */

static pmix_value_t *get_value(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = p.self;
    pmix_value_t *value = NULL;
    pmix_info_t here;

    memset(&here, 0, sizeof(here));
    memcpy(here.key, PMIX_OPTIONAL, sizeof(PMIX_OPTIONAL));
    here.value.type = PMIX_BOOL;
    here.value.data.flag = true;
    proc.rank = rank;
    return pmix.get(&proc, key, &here, 1, &value) == PMIX_SUCCESS ? value : NULL;
}

static uint32_t get_number(pmix_rank_t rank, const char *key, uint32_t otherwise)
{
    pmix_value_t *value = get_value(rank, key);
    uint32_t n = otherwise;

    if (value && value->type == PMIX_UINT32)
        n = value->data.uint32;
    else if (value && value->type == PMIX_UINT16)
        n = value->data.uint16;
    else if (value && value->type == PMIX_PROC_RANK)
        n = value->data.rank;
    free(value);
    return n;
}

/* The caller frees it. */
static char *get_string(pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = get_value(rank, key);
    char *text = NULL;

    if (value && value->type == PMIX_STRING)
        text = value->data.string;
    free(value);
    return text;
}

/* The same node, where one side may carry a domain and the other not. */
static bool same_host(const char *a, const char *b)
{
    size_t m = strcspn(a, "."), n = strcspn(b, ".");

    if (a[m] && b[n])
        return strcasecmp(a, b) == 0;
    return m == n && strncasecmp(a, b, n) == 0;
}

/* Splits the node list, which stays allocated for the names. */
static int split_nodes(char *list)
{
    uint32_t count = 1;

    for (const char *c = list; *c; c++)
        count += *c == ',';
    p.nodes = calloc(count, sizeof(*p.nodes));
    if (!p.nodes)
        return -ENOMEM;
    for (char *name; (name = strsep(&list, ",")) != NULL;)
        p.nodes[p.num_nodes++] = name;
    return 0;
}

/* The number of a host in the node list, looking first where `near` is. */
static uint32_t node_of_host(const char *host, uint32_t near)
{
    for (uint32_t i = 0; i < p.num_nodes; i++) {
        uint32_t n = (near + i) % p.num_nodes;
        if (same_host(p.nodes[n], host))
            return n;
    }
    return UINT32_MAX;
}

static uint32_t node_of_rank(uint32_t rank, uint32_t near)
{
    char *host = get_string(rank, PMIX_HOSTNAME);
    uint32_t node = host ? node_of_host(host, near) : UINT32_MAX;

    free(host);
    return node;
}

/* Nodes are numbered as in the node list, which is the same everywhere. */
static int read_nodes(void)
{
    char *list = get_string(PMIX_RANK_WILDCARD, PMIX_NODE_LIST);

    if (list && split_nodes(list) == 0) {
        p.node = node_of_rank(p.self.rank, 0);
        if (p.node != UINT32_MAX)
            return 0;
    } else {
        free(list);
    }
    free(p.nodes);
    p.nodes = NULL;
    p.num_nodes = 0;
    return -ENOENT;
}

static int read_job(void)
{
    p.size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    p.local_size = get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, 0);
    p.local_rank = get_number(p.self.rank, PMIX_LOCAL_RANK, UINT32_MAX);
    if (p.self.rank >= p.size || p.local_rank >= p.local_size)
        return -EPROTO;
    if (read_nodes() == 0)
        return 0;
    /* one node needs no list */
    p.num_nodes = p.local_size == p.size ? 1 : 0;
    p.node = p.num_nodes == 1 ? 0 : get_number(p.self.rank, PMIX_NODEID, UINT32_MAX);
    return p.node == UINT32_MAX ? -EPROTO : 0;
}

/* ---- opening ---- */

/* Every process that PMIx_Init counted must say goodbye, or the launcher calls the job failed.
 * Not before exit: MPI_Init does not work any more after the last PMIx_Finalize. */
static void finalize(void)
{
    if (getpid() == p.owner)
        pmix.finalize(NULL, 0);
}

static void *open_in_thread(void *unused)
{
    int rc = 0;

    (void)unused;
    p.status = pmix.init(&p.self, NULL, 0);
    if (p.status == PMIX_SUCCESS) {
        p.owner = getpid();
        atexit(finalize);
        rc = read_job();
    }
    pthread_mutex_lock(&p.lock);
    p.result = rc;
    p.done = true;
    pthread_cond_signal(&p.changed);
    pthread_mutex_unlock(&p.lock);
    return NULL;
}

static int start_thread(void)
{
    pthread_t thread;
    sigset_t all, old;
    int rc;

    /* also for the threads that PMIx starts */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, open_in_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return -rc;
}

/* Waits for the opening thread: a launcher that does not answer may keep it for ever. */
static bool wait_for_thread(int64_t deadline)
{
    struct timespec t;
    int left = ut_job_left_ms(deadline), rc = 0;
    bool done;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += left / 1000;
    t.tv_nsec += left % 1000 * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&p.lock);
    while (!p.done && rc == 0)
        rc = pthread_cond_timedwait(&p.changed, &p.lock, &t);
    done = p.done;
    pthread_mutex_unlock(&p.lock);
    return done;
}

static void asked(uint32_t rank);

static int pmix_open(struct ut_job_info *info, int64_t deadline)
{
    int rc = load_library();

    if (rc == 0)
        rc = start_thread();
    if (rc != 0)
        return rc;
    if (!wait_for_thread(deadline)) {
        ut_error("job",
                 "the PMIx server of this node has not answered in time (UTOFU_JOB_TIMEOUT); "
                 "does the launcher still run?");
        return -ETIMEDOUT;
    }
    if (p.status == PMIX_ERR_UNREACH) {
        ut_warn("job", "PMIX_NAMESPACE is set, but its launcher is gone or out of reach: this is a "
                       "job of one; unset the PMIX_* variables to silence this line");
        return -ENODEV;
    }
    if (p.status == PMIX_SUCCESS && p.result != 0 && ut_job_mpi_state() == UT_JOB_MPI_OVER) {
        ut_error("job", "MPI_Finalize has ended PMIx: the first utofu call must come before it");
        return -ESHUTDOWN;
    }
    if (p.status != PMIX_SUCCESS || p.result != 0) {
        ut_error("job", "PMIx: %s; started by a launcher that speaks PMIx 3.1 or newer?",
                 p.status ? pmix.error_string(p.status) : "the job's size or nodes are not told");
        return -EPROTO;
    }
    ut_job_requests_init(&requests, asked);
    snprintf(info->id, sizeof(info->id), "%.*s", PMIX_MAX_NSLEN, p.self.nspace);
    info->rank = p.self.rank;
    info->size = p.size;
    info->node = p.node;
    info->num_nodes = p.num_nodes;
    info->local_rank = p.local_rank;
    info->local_size = p.local_size;
    return 0;
}

static int pmix_publish(const void *blob, size_t size)
{
    pmix_value_t value;
    pmix_status_t status;

    memset(&value, 0, sizeof(value));
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)blob;
    value.data.bo.size = size;
    status = pmix.put(PMIX_GLOBAL, blob_key, &value);
    if (status == PMIX_SUCCESS)
        status = pmix.commit();
    if (status == PMIX_SUCCESS)
        return 0;
    ut_error("job", "PMIx cannot publish: %s; does the launcher still run?",
             pmix.error_string(status));
    return -EIO;
}

/* Runs in a thread of PMIx, perhaps long after the caller gave up; the rank finds the request. */
static void answered(pmix_status_t status, pmix_value_t *value, void *tag)
{
    uint32_t rank = (uint32_t)(uintptr_t)tag;

    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        ut_job_requests_answer(&requests, rank, 0, value->data.bo.bytes, value->data.bo.size);
    else if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT)
        ut_job_requests_answer(&requests, rank, -EAGAIN, NULL, 0);
    else
        ut_job_requests_answer(&requests, rank, -EIO, NULL, 0);
}

static void asked(uint32_t rank)
{
    pmix_proc_t proc = p.self;
    pmix_status_t status;
    uint32_t taken;

    /* one of the requests that are due, not necessarily the caller's */
    if (!ut_job_requests_take(&requests, &taken))
        return;
    (void)rank;
    proc.rank = taken;
    status = pmix.get_nb(&proc, blob_key, NULL, 0, answered, (void *)(uintptr_t)taken);
    if (status != PMIX_SUCCESS)
        answered(status, NULL, (void *)(uintptr_t)taken);
}

static int pmix_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms)
{
    int rc = ut_job_requests_wait(&requests, rank, blob, size, wait_ms);

    if (rc == -EIO || rc == -EPROTO)
        ut_error("job", "PMIx cannot tell where rank %u is; does the launcher still run?", rank);
    return rc;
}

/* ---- the layout ---- */

static bool is_at(uint64_t rank, uint32_t node, uint32_t local_rank)
{
    return rank < p.size && get_number((uint32_t)rank, PMIX_LOCAL_RANK, UINT32_MAX) == local_rank &&
           node_of_rank((uint32_t)rank, node) == node;
}

/* Sorts all ranks by node, for layouts that are not regular. It takes some microseconds a rank. */
static void sort_ranks(void)
{
    uint32_t *node = malloc(p.size * sizeof(*node)), near = 0;

    p.sorted = true;
    p.ranks = malloc(p.size * sizeof(*p.ranks));
    p.first = calloc((size_t)p.num_nodes + 2, sizeof(*p.first));
    if (!node || !p.ranks || !p.first)
        goto fail;
    for (uint32_t r = 0; r < p.size; r++) {
        node[r] = near = node_of_rank(r, near);
        if (near == UINT32_MAX)
            goto fail;
        p.first[near + 2]++;
    }
    for (uint32_t n = 2; n < p.num_nodes + 2; n++)
        p.first[n] += p.first[n - 1];
    /* now first[n + 1] is where node n starts; placing its ranks moves it to where n + 1 starts */
    for (uint32_t r = 0; r < p.size; r++)
        p.ranks[p.first[node[r] + 1]++] = r;
    free(node);
    return;
fail:
    ut_info("job", "PMIx does not tell where all ranks are");
    free(node);
    free(p.ranks);
    free(p.first);
    p.ranks = p.first = NULL;
}

static int64_t pmix_rank_at(uint32_t node, uint32_t local_rank)
{
    uint64_t by_node = (uint64_t)node * p.local_size + local_rank;
    uint64_t by_turns = (uint64_t)local_rank * p.num_nodes + node;
    int64_t rank = -ENOENT;

    if (p.num_nodes == 1 && p.local_size == p.size)
        return node == 0 && local_rank < p.size ? (int64_t)local_rank : -ENOENT;
    if (!p.nodes || node >= p.num_nodes)
        return -ENOENT;
    /* the two usual layouts need no table */
    if (is_at(by_node, node, local_rank))
        return (int64_t)by_node;
    if (is_at(by_turns, node, local_rank))
        return (int64_t)by_turns;
    pthread_mutex_lock(&p.lock);
    if (!p.sorted)
        sort_ranks();
    if (p.first && local_rank < p.first[node + 1] - p.first[node])
        rank = p.ranks[p.first[node] + local_rank];
    pthread_mutex_unlock(&p.lock);
    return rank;
}

#else

static int pmix_open(struct ut_job_info *info, int64_t deadline)
{
    (void)info;
    (void)deadline;
    return cannot_use("this library was built without PMIx (Debian: build with libpmix-dev)");
}

static int pmix_publish(const void *blob, size_t size)
{
    (void)blob;
    (void)size;
    return -ENOTSUP;
}

static int pmix_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms)
{
    (void)rank;
    (void)blob;
    (void)size;
    (void)wait_ms;
    return -ENOTSUP;
}

static int64_t pmix_rank_at(uint32_t node, uint32_t local_rank)
{
    (void)node;
    (void)local_rank;
    return -ENOENT;
}

#endif

const struct ut_job_ops ut_job_pmix = {"pmix",       present,     pmix_open,
                                       pmix_publish, pmix_lookup, pmix_rank_at};
