/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx: Open MPI's mpirun, PRRTE, Slurm's and Flux's PMIx. The library is opened at run time, so
 * that it need not be there otherwise; Open MPI's own instance is used when it is loaded.
 *
 * Only what every server answers from this node's memory is asked for: the node list, the names
 * of the nodes, the ranks of a node. (PMIX_NODEID of a rank elsewhere may never be answered, and
 * is not dense.) Blobs come through PMIx_Get_nb with a deadline of our own.
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
    ut_error("job", "this is a PMIx job (PMIX_NAMESPACE is set), but %s; set UTOFU_ROOT to a folder "
             "that all processes can write, or unset PMIX_NAMESPACE for a job of one", why);
    return -ENOTSUP;
}

#ifdef UT_HAVE_PMIX

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
    __typeof__(PMIx_Resolve_peers) *resolve_peers;
    __typeof__(PMIx_Error_string) *error_string;
} pmix;

/* The ranks of one node, once they were asked for; in order, so the index is the local rank. */
struct node {
    uint32_t count;
    uint32_t *ranks; /* NULL: not asked for yet */
    const char *name;
};

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
    char *node_names; /* what the names in `nodes` point into */
    struct node *nodes;
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
        {"PMIx_Resolve_peers", &pmix.resolve_peers},
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

/* ---- in the opening thread: blocking calls without a deadline of their own ---- */

static pmix_value_t *get_value(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = p.self;
    pmix_value_t *value = NULL;

    proc.rank = rank;
    return pmix.get(&proc, key, NULL, 0, &value) == PMIX_SUCCESS ? value : NULL;
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

/* Nodes are numbered as in the node list, which is the same everywhere. */
static int read_nodes(void)
{
    char *host = get_string(p.self.rank, PMIX_HOSTNAME), *rest;
    uint32_t i = 0;

    p.node_names = get_string(PMIX_RANK_WILDCARD, PMIX_NODE_LIST);
    if (!p.node_names || !host)
        goto unknown;
    p.num_nodes = 1;
    for (const char *c = p.node_names; *c; c++)
        p.num_nodes += *c == ',';
    p.nodes = calloc(p.num_nodes, sizeof(*p.nodes));
    if (!p.nodes)
        goto unknown;
    p.node = UINT32_MAX;
    rest = p.node_names;
    for (char *name; (name = strsep(&rest, ",")) != NULL; i++) {
        p.nodes[i].name = name;
        if (p.node == UINT32_MAX && same_host(name, host))
            p.node = i;
    }
    free(host);
    return p.node == UINT32_MAX ? -ENOENT : 0;
unknown:
    free(host);
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

/* ---- the interface ---- */

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
        ut_error("job", "the PMIx server of this node has not answered in time (UTOFU_JOB_TIMEOUT); "
                 "does the launcher still run?");
        return -ETIMEDOUT;
    }
    if (p.status == PMIX_ERR_UNREACH) {
        ut_warn("job", "PMIX_NAMESPACE is set, but its launcher is gone or out of reach: this is a "
                "job of one; unset the PMIX_* variables to silence this line");
        return -ENODEV;
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

static int by_number(const void *a, const void *b)
{
    uint32_t m = *(const uint32_t *)a, n = *(const uint32_t *)b;

    return m < n ? -1 : m > n;
}

static void read_ranks(struct node *node)
{
    pmix_proc_t *procs = NULL;
    size_t n = 0;

    /* asked once, whatever comes out */
    node->ranks = calloc(1, sizeof(*node->ranks));
    if (pmix.resolve_peers(node->name, p.self.nspace, &procs, &n) != PMIX_SUCCESS || n == 0)
        return;
    uint32_t *ranks = malloc(n * sizeof(*ranks));
    if (ranks) {
        for (size_t i = 0; i < n; i++)
            ranks[i] = procs[i].rank;
        qsort(ranks, n, sizeof(*ranks), by_number);
        free(node->ranks);
        node->ranks = ranks;
        node->count = (uint32_t)n;
    }
    free(procs);
}

static int64_t pmix_rank_at(uint32_t node, uint32_t local_rank)
{
    int64_t rank = -ENOENT;

    if (!p.nodes || node >= p.num_nodes)
        return rank;
    pthread_mutex_lock(&p.lock);
    if (!p.nodes[node].ranks)
        read_ranks(&p.nodes[node]);
    if (local_rank < p.nodes[node].count)
        rank = p.nodes[node].ranks[local_rank];
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
