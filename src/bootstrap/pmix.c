/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx: mpirun of Open MPI, PRRTE, PMIx of Slurm and Flux. libpmix is loaded at run time, so that
 * other jobs do not need it. If Open MPI has loaded an instance, that instance is used. The layout
 * is read from data that PMIx has in this process (PMIX_OPTIONAL): the node list, and the host name
 * and local rank of every rank. PMIX_NODEID is not dense, and a query of it, like
 * PMIx_Resolve_peers, may wait for ever for data of another node. Records are read with PMIx_Get_nb
 * and a deadline of the library.
 */
#include "bootstrap/ops.h"
#include "util/ascii.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/long_wait.h"
#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>

static bool pmix_present(void)
{
    return ut_env_text("PMIX_NAMESPACE") && ut_env_text("PMIX_RANK");
}

/* Warns. Without PMIx, a job with UTOFU_ROOT can still use the launcher's rank variables. */
static int cannot_use(const char *why)
{
    if (ut_env_is_set(UT_ENV_ROOT)) {
        ut_info("bootstrap", "this is a PMIx job, but %s; trying UTOFU_ROOT", why);
        return -ENODEV;
    }
    ut_error("bootstrap",
             "this is a PMIx job (PMIX_NAMESPACE is set), but %s; set UTOFU_ROOT to a folder "
             "that all processes can write, or unset PMIX_NAMESPACE for a job of one",
             why);
    return -ENOTSUP;
}

#ifdef UT_HAVE_PMIX

#    include "bootstrap/mpi.h"
#    include "bootstrap/nodes.h"
#    include "bootstrap/pack.h"
#    include "bootstrap/request.h"

#    include <dlfcn.h>
#    include <pmix.h>
#    include <pthread.h>
#    include <stdio.h>
#    include <string.h>

static const char record_key[] = "utofu.record", node_key[] = "utofu.node";

/* What this process has of PMIx. Only the opening thread writes the fields from `status` to
 * `nodes`; other threads read them once `done` is set. */
static struct {
    struct { /* functions of libpmix */
        __typeof__(PMIx_Init) *init;
        __typeof__(PMIx_Initialized) *initialized;
        __typeof__(PMIx_Finalize) *finalize;
        __typeof__(PMIx_Put) *put;
        __typeof__(PMIx_Commit) *commit;
        __typeof__(PMIx_Get) *get;
        __typeof__(PMIx_Get_nb) *get_nb;
        __typeof__(PMIx_Fence_nb) *fence_nb;
        __typeof__(PMIx_Error_string) *error_string;
    } lib;

    pthread_mutex_t lock; /* guards `done`, `sorted`, `ranks` and `first` */
    pthread_cond_t changed;
    bool done;
    int result;
    pmix_status_t status; /* result of PMIx_Init */
    pid_t owner;
    pmix_proc_t self;
    uint32_t size, local_rank, local_size, node, num_nodes;
    const char **nodes; /* the names of the num_nodes nodes */
    /* The ranks of node n in order: ranks[first[n]] to ranks[first[n + 1] - 1]. Filled in at the
     * first use. */
    uint32_t *ranks, *first;
    bool sorted;

    struct ut_job_requests requests;

    /* A thread in the first process of a node gathers the node's records from the shared memory of
     * PMIx. */
    struct {
        pthread_mutex_t lock; /* guards calls of PMIx, which are not allowed after finalize */
        bool over;
    } gathering;

    struct { /* requests for records of other hosts: see must_fetch() */
        pthread_mutex_t lock;
        pthread_cond_t changed;
        uint32_t outstanding;
    } fetching;

    struct { /* the fence at the end */
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
    } leaving;
    /* PMIx_Commit() blocks until the PMIx server answers. A thread calls it, so that the caller can
     * log that it waits. */
    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        pmix_status_t status;
        size_t size;
        uint8_t record[UT_JOB_RECORD_MAX];
    } publishing;
} pmix = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .publishing = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
    .gathering = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .fetching = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
    .leaving = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
};

enum { GATHER_MIN_US = 1000, GATHER_MAX_US = 200000 };

static int load_library(void)
{
    static const struct {
        const char *name;
        void *where;
    } symbols[] = {
        {"PMIx_Init", &pmix.lib.init},
        {"PMIx_Initialized", &pmix.lib.initialized},
        {"PMIx_Finalize", &pmix.lib.finalize},
        {"PMIx_Put", &pmix.lib.put},
        {"PMIx_Commit", &pmix.lib.commit},
        {"PMIx_Get", &pmix.lib.get},
        {"PMIx_Get_nb", &pmix.lib.get_nb},
        {"PMIx_Fence_nb", &pmix.lib.fence_nb},
        {"PMIx_Error_string", &pmix.lib.error_string},
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

/* ---- data of PMIx in this process ---- */

static pmix_value_t *get_value(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = pmix.self;
    pmix_value_t *value = NULL;
    pmix_info_t here;

    memset(&here, 0, sizeof(here));
    memcpy(here.key, PMIX_OPTIONAL, sizeof(PMIX_OPTIONAL));
    here.value.type = PMIX_BOOL;
    here.value.data.flag = true;
    proc.rank = rank;
    return pmix.lib.get(&proc, key, &here, 1, &value) == PMIX_SUCCESS ? value : NULL;
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

/* Returns a copy that the caller frees. */
static char *get_string(pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = get_value(rank, key);
    char *text = NULL;

    if (value && value->type == PMIX_STRING)
        text = value->data.string;
    free(value);
    return text;
}

/* True if two host names are equal. One of them may lack the domain. */
static bool same_host(const char *a, const char *b)
{
    size_t m = strcspn(a, "."), n = strcspn(b, ".");

    if (a[m] && b[n])
        return ut_same_word(a, b);
    return m == n && ut_same_start(a, b, n);
}

/* Splits the node list in place. The list stays allocated, because the names point into it. */
static int split_nodes(char *list)
{
    uint32_t count = 1;

    for (const char *c = list; *c; c++)
        count += *c == ',';
    pmix.nodes = calloc(count, sizeof(*pmix.nodes));
    if (!pmix.nodes)
        return -ENOMEM;
    for (char *name; (name = strsep(&list, ",")) != NULL;)
        pmix.nodes[pmix.num_nodes++] = name;
    return 0;
}

/* The index of a host in the node list. The search starts at `near`. */
static uint32_t node_of_host(const char *host, uint32_t near)
{
    for (uint32_t i = 0; i < pmix.num_nodes; i++) {
        uint32_t n = (near + i) % pmix.num_nodes;
        if (same_host(pmix.nodes[n], host))
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

/* Reads the node list. The number of a node is its index in the list, which is equal in all
 * processes. */
static int read_nodes(void)
{
    char *list = get_string(PMIX_RANK_WILDCARD, PMIX_NODE_LIST);

    if (list && split_nodes(list) == 0) {
        pmix.node = node_of_rank(pmix.self.rank, 0);
        if (pmix.node != UINT32_MAX)
            return 0;
    }
    free(list);
    free(pmix.nodes);
    pmix.nodes = NULL;
    pmix.num_nodes = 0;
    return -ENOENT;
}

static int read_job(void)
{
    pmix.size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    pmix.local_size = get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, 0);
    pmix.local_rank = get_number(pmix.self.rank, PMIX_LOCAL_RANK, UINT32_MAX);
    if (pmix.self.rank >= pmix.size || pmix.local_rank >= pmix.local_size)
        return -EPROTO;
    if (read_nodes() == 0)
        return 0;
    /* a job on one node needs no list */
    pmix.num_nodes = pmix.local_size == pmix.size ? 1 : 0;
    pmix.node = pmix.num_nodes == 1 ? 0 : get_number(pmix.self.rank, PMIX_NODEID, UINT32_MAX);
    return pmix.node == UINT32_MAX ? -EPROTO : 0;
}

/* ---- records of hosts whose processes may end early ---- */

/* PMIx of Slurm (seen with 22.05 and 24.11) answers for a host only while a process of the job runs
 * there. So the processes of a host request the records of all other hosts in their first call, and
 * their PMIx server keeps the answers. At its end each process waits until its requests are
 * answered: by then the other hosts have requested the records of this host. */
enum { FETCH_MAX = 256, FETCH_WAIT_MS = 5000 };

static void count_fetched(int requests)
{
    pthread_mutex_lock(&pmix.fetching.lock);
    pmix.fetching.outstanding += (uint32_t)requests;
    pthread_cond_signal(&pmix.fetching.changed);
    pthread_mutex_unlock(&pmix.fetching.lock);
}

/* Runs in a thread of PMIx. */
static void note_fetched(pmix_status_t status, pmix_value_t *value, void *unused)
{
    (void)status;
    (void)value;
    (void)unused;
    count_fetched(-1);
}

static bool must_fetch(void)
{
    static const char slurm[] = "slurm.";

    return strncmp(pmix.self.nspace, slurm, sizeof(slurm) - 1) == 0 && pmix.nodes &&
           pmix.num_nodes > 1 && pmix.size - pmix.local_size <= FETCH_MAX;
}

/* Requests this process's share of the other hosts' records. Called before this process publishes
 * its own: whoever has that record knows that this process has requested the others. */
static void fetch_others(void)
{
    pmix_proc_t proc = pmix.self;

    if (!must_fetch())
        return;
    for (uint32_t rank = pmix.local_rank; rank < pmix.size; rank += pmix.local_size) {
        if (node_of_rank(rank, pmix.node) == pmix.node)
            continue;
        proc.rank = rank;
        count_fetched(1);
        if (pmix.lib.get_nb(&proc, record_key, NULL, 0, note_fetched, NULL) != PMIX_SUCCESS)
            count_fetched(-1);
    }
}

static void wait_for_fetched(void)
{
    struct timespec until = ut_clock_after(CLOCK_REALTIME, UT_LONG_WAIT_MS);
    int rc = 0;

    pthread_mutex_lock(&pmix.fetching.lock);
    while (pmix.fetching.outstanding > 0 && rc == 0)
        rc = pthread_cond_timedwait(&pmix.fetching.changed, &pmix.fetching.lock, &until);
    if (rc != 0) {
        ut_warn("bootstrap",
                "the end of this process waits at most %d s more for processes of other hosts "
                "that have not called the library",
                (FETCH_WAIT_MS - UT_LONG_WAIT_MS) / 1000);
        until = ut_clock_after(CLOCK_REALTIME, FETCH_WAIT_MS - UT_LONG_WAIT_MS);
        for (rc = 0; pmix.fetching.outstanding > 0 && rc == 0;)
            rc = pthread_cond_timedwait(&pmix.fetching.changed, &pmix.fetching.lock, &until);
    }
    pthread_mutex_unlock(&pmix.fetching.lock);
}

/* ---- opening ---- */

/* Called at exit. A process that has called PMIx_Init must call PMIx_Finalize, or the launcher
 * reports a failed job. At exit, because MPI_Init fails after the last PMIx_Finalize. */
static void finalize(void)
{
    if (getpid() != pmix.owner)
        return;
    wait_for_fetched();
    pthread_mutex_lock(&pmix.gathering.lock);
    pmix.gathering.over = true;
    pthread_mutex_unlock(&pmix.gathering.lock);
    pmix.lib.finalize(NULL, 0);
}

static void warn_of_mpi(void)
{
    if (pmix.self.rank == 0 && ut_job_mpi_fails_after_pmix())
        ut_warn("bootstrap",
                "PMIx is in use before MPI_Init(), which then fails in Open MPI 5 with \"local "
                "rank\", \"Not found\": call MPI_Init() before the first utofu call");
}

static void *open_in_thread(void *unused)
{
    struct ut_thread_list before;
    int rc = 0;

    (void)unused;
    bool is_first = !pmix.lib.initialized();
    ut_thread_list(&before);
    pmix.status = pmix.lib.init(&pmix.self, NULL, 0);
    ut_thread_adopt(&before);
    if (pmix.status == PMIX_SUCCESS) {
        pmix.owner = getpid();
        atexit(finalize);
        rc = read_job();
        if (is_first)
            warn_of_mpi();
    }
    pthread_mutex_lock(&pmix.lock);
    pmix.result = rc;
    pmix.done = true;
    pthread_cond_signal(&pmix.changed);
    pthread_mutex_unlock(&pmix.lock);
    return NULL;
}

static int start_thread(void)
{
    /* all signals are blocked, also in the threads that PMIx starts */
    return ut_thread_create(NULL, open_in_thread, NULL, NULL);
}

/* Waits for the opening thread, which never ends if the launcher does not answer. */
static bool wait_for_thread(int64_t deadline)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());
    bool done;

    pthread_mutex_lock(&pmix.lock);
    while (!pmix.done && ut_job_left_ms(deadline) > 0) {
        int left = ut_long_wait_timeout_ms(&long_wait, ut_clock_ms(), ut_job_left_ms(deadline));
        struct timespec t = ut_clock_after(CLOCK_REALTIME, (uint64_t)left);
        pthread_cond_timedwait(&pmix.changed, &pmix.lock, &t);
        if (!pmix.done && ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "the PMIx server of this node has not answered for %llu s; giving up in %d s "
                    "(UTOFU_JOB_TIMEOUT)",
                    ut_long_wait_seconds(&long_wait, ut_clock_ms()),
                    ut_job_left_ms(deadline) / 1000);
    }
    done = pmix.done;
    pthread_mutex_unlock(&pmix.lock);
    return done;
}

static void send_query(uint32_t rank);
static int64_t pmix_rank_at(uint32_t node, uint32_t local_rank);

static int pmix_open(struct ut_job_info *info, int64_t deadline)
{
    int rc = load_library();

    if (rc == 0)
        rc = start_thread();
    if (rc != 0)
        return rc;
    if (!wait_for_thread(deadline)) {
        ut_error("bootstrap",
                 "the PMIx server of this node has not answered in time (UTOFU_JOB_TIMEOUT); "
                 "does the launcher still run?");
        return -ETIMEDOUT;
    }
    if (pmix.status == PMIX_ERR_UNREACH) {
        ut_warn("bootstrap",
                "PMIX_NAMESPACE is set, but its launcher has ended or cannot be reached: this is a "
                "job of one process; unset the PMIX_* variables to silence this line");
        return -ENODEV;
    }
    if (pmix.status == PMIX_SUCCESS && pmix.result != 0 && ut_job_mpi_state() == UT_JOB_MPI_OVER) {
        ut_error("bootstrap",
                 "MPI_Finalize has ended PMIx: the first utofu call must come before it");
        return -ESHUTDOWN;
    }
    if (pmix.status != PMIX_SUCCESS || pmix.result != 0) {
        ut_error("bootstrap", "PMIx: %s; started by a launcher that speaks PMIx 3.1 or newer?",
                 pmix.status ? pmix.lib.error_string(pmix.status)
                             : "the job's size or nodes are missing");
        if (pmix.status == PMIX_SUCCESS)
            ut_error(
                "bootstrap",
                "PMIx 5 of a Slurm whose jobs have a /tmp of their own needs PMIX_MCA_gds=hash");
        return -EPROTO;
    }
    ut_job_requests_init(&pmix.requests, send_query);
    snprintf(info->id, sizeof(info->id), "%.*s", PMIX_MAX_NSLEN, pmix.self.nspace);
    info->rank = pmix.self.rank;
    info->size = pmix.size;
    info->node = pmix.node;
    info->num_nodes = pmix.num_nodes;
    info->local_rank = pmix.local_rank;
    info->local_size = pmix.local_size;
    return 0;
}

static pmix_status_t publish(const char *key, const void *bytes, size_t size)
{
    pmix_value_t value;
    pmix_status_t status;

    memset(&value, 0, sizeof(value));
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)bytes;
    value.data.bo.size = size;
    status = pmix.lib.put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? pmix.lib.commit() : status;
}

static void gather_node(void);

static void *publish_in_thread(void *unused)
{
    (void)unused;
    fetch_others();
    pmix_status_t status = publish(record_key, pmix.publishing.record, pmix.publishing.size);
    pthread_mutex_lock(&pmix.publishing.lock);
    pmix.publishing.status = status;
    pmix.publishing.done = true;
    pthread_cond_signal(&pmix.publishing.changed);
    pthread_mutex_unlock(&pmix.publishing.lock);
    return NULL;
}

/* Slurm's server tries seven times to reach an ended host, with pauses of 31.5 s in all, and
 * answers nothing else meanwhile (src/plugins/mpi/pmix/pmixp_server.c: pmixp_p2p_send(..., 500, 7,
 * 0)). */
static void warn_publishing(unsigned long long seconds)
{
    ut_warn("bootstrap", "the PMIx server of this node has not answered for %llu s%s", seconds,
            must_fetch() ? ": Slurm's does so for about 31 s where all processes of another host "
                           "of the job have ended before this process called the library"
                         : "");
}

static void wait_until_published(void)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());

    pthread_mutex_lock(&pmix.publishing.lock);
    while (!pmix.publishing.done) {
        int left = ut_long_wait_timeout_ms(&long_wait, ut_clock_ms(), -1);
        struct timespec t = ut_clock_after(CLOCK_REALTIME, (uint64_t)left);
        pthread_cond_timedwait(&pmix.publishing.changed, &pmix.publishing.lock, &t);
        if (!pmix.publishing.done && ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            warn_publishing(ut_long_wait_seconds(&long_wait, ut_clock_ms()));
    }
    pthread_mutex_unlock(&pmix.publishing.lock);
}

static int pmix_publish(const void *record, size_t size)
{
    memcpy(pmix.publishing.record, record, size);
    pmix.publishing.size = size;
    pmix.publishing.done = false;
    int rc = ut_thread_create(NULL, publish_in_thread, NULL, NULL);
    if (rc != 0) {
        ut_error("bootstrap", "cannot start a thread that publishes by PMIx: %s", strerror(-rc));
        return rc;
    }
    wait_until_published();
    if (pmix.publishing.status == PMIX_SUCCESS) {
        gather_node();
        return 0;
    }
    ut_error("bootstrap", "PMIx cannot publish: %s; does the launcher still run?",
             pmix.lib.error_string(pmix.publishing.status));
    return -EIO;
}

/* Runs in a thread of PMIx, perhaps long after the caller's timeout. `tag` is the rank. */
static void on_answer(pmix_status_t status, pmix_value_t *value, void *tag)
{
    uint32_t rank = (uint32_t)(uintptr_t)tag;

    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        ut_job_requests_answer(&pmix.requests, rank, 0, value->data.bo.bytes, value->data.bo.size);
    else if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT)
        ut_job_requests_answer(&pmix.requests, rank, -EAGAIN, NULL, 0);
    else
        ut_job_requests_answer(&pmix.requests, rank, -EIO, NULL, 0);
}

/* Reads a record from the shared memory of PMIx (from version 4.0 on, unless another store is
 * configured), which has records that processes of this node have published. False: the record is
 * not there yet. */
static bool read_cached(uint32_t rank)
{
    pmix_value_t *value = get_value(rank, record_key);

    if (!value)
        return false;
    bool is_record = value->type == PMIX_BYTE_OBJECT;
    if (is_record) {
        on_answer(PMIX_SUCCESS, value, (void *)(uintptr_t)rank);
        free(value->data.bo.bytes);
    }
    free(value);
    return is_record;
}

/* ---- all records of another node ---- */

/* Runs in a thread of PMIx. `tag` is the node. */
static void node_answered(pmix_status_t status, pmix_value_t *value, void *tag)
{
    uint32_t node = (uint32_t)(uintptr_t)tag;

    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        ut_job_nodes_add(node, value->data.bo.bytes, value->data.bo.size);
    else
        ut_job_nodes_set_empty(node);
}

static void ask_node(uint32_t node)
{
    int64_t first = pmix_rank_at(node, 0);
    pmix_proc_t proc = pmix.self;

    if (first < 0) {
        ut_job_nodes_set_empty(node);
        return;
    }
    proc.rank = (pmix_rank_t)first;
    ut_job_count_question();
    pmix_status_t status =
        pmix.lib.get_nb(&proc, node_key, NULL, 0, node_answered, (void *)(uintptr_t)node);
    if (status != PMIX_SUCCESS)
        node_answered(status, NULL, (void *)(uintptr_t)node);
}

/* False: the launcher must be queried for the rank itself. */
static bool read_from_node(uint32_t rank)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size = 0;

    if (pmix.num_nodes < 2 || !pmix.nodes)
        return false;
    uint32_t node = node_of_rank(rank, rank / pmix.local_size % pmix.num_nodes);
    if (node == UINT32_MAX || node == pmix.node)
        return false;
    int rc = ut_job_nodes_lookup(node, get_number(rank, PMIX_LOCAL_RANK, UINT32_MAX),
                                 pmix.local_size, 1, record, &size);
    if (rc == -ENOENT)
        return false;
    if (rc == -EAGAIN)
        ask_node(node);
    /* without a record: -EAGAIN, and the next attempt finds the record in the node's pack */
    ut_job_requests_answer(&pmix.requests, rank, rc == 0 ? 0 : -EAGAIN, record, size);
    return true;
}

static void send_query(uint32_t rank)
{
    pmix_proc_t proc = pmix.self;
    pmix_status_t status;
    uint32_t taken;

    /* takes any due request, not always that of the caller */
    if (!ut_job_requests_take(&pmix.requests, &taken))
        return;
    (void)rank;
    if (read_cached(taken) || read_from_node(taken))
        return;
    proc.rank = taken;
    ut_job_count_question();
    status = pmix.lib.get_nb(&proc, record_key, NULL, 0, on_answer, (void *)(uintptr_t)taken);
    if (status != PMIX_SUCCESS)
        on_answer(status, NULL, (void *)(uintptr_t)taken);
}

static int pmix_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    int rc = ut_job_requests_wait(&pmix.requests, rank, record, size, wait_ms);

    if (rc == -EIO || rc == -EPROTO)
        ut_error("bootstrap",
                 "PMIx does not know the node of rank %u; does the launcher still run?", rank);
    return rc;
}

/* ---- all records of this node, for the others ---- */

/* Adds the records that have arrived. True: all records are gathered, or no more can be. */
static bool gather_some(struct ut_job_pack *pack, uint32_t *have)
{
    pmix_value_t *value = NULL;
    int rc = 0;

    pthread_mutex_lock(&pmix.gathering.lock);
    while (!pmix.gathering.over && rc == 0 && *have < pmix.local_size) {
        int64_t rank = pmix_rank_at(pmix.node, *have);
        value = rank < 0 ? NULL : get_value((pmix_rank_t)rank, record_key);
        if (!value)
            break;
        if (value->type == PMIX_BYTE_OBJECT) {
            rc = ut_job_pack_insert(pack, *have, value->data.bo.bytes, value->data.bo.size);
            free(value->data.bo.bytes);
        }
        free(value);
        ++*have;
    }
    bool all = *have == pmix.local_size && rc == 0;
    if (all && !pmix.gathering.over && publish(node_key, pack->data, pack->size) == PMIX_SUCCESS)
        ut_debug("bootstrap", "published the records of node %u", pmix.node);
    all |= pmix.gathering.over || rc != 0;
    pthread_mutex_unlock(&pmix.gathering.lock);
    return all;
}

static void *gather_nodes(void *unused)
{
    int64_t deadline = ut_clock_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    struct ut_job_pack pack = {NULL, 0};
    useconds_t pause = GATHER_MIN_US;
    uint32_t have = 0;

    (void)unused;
    while (!gather_some(&pack, &have) && (int64_t)ut_clock_ms() < deadline) {
        usleep(pause);
        pause = pause * 2 < GATHER_MAX_US ? pause * 2 : GATHER_MAX_US;
    }
    ut_job_pack_free(&pack);
    return NULL;
}

static void gather_node(void)
{
    if (pmix.local_rank == 0 && pmix.nodes && pmix.num_nodes > 1 &&
        pmix.local_size >= UT_JOB_NODES_MIN &&
        ut_thread_create(NULL, gather_nodes, NULL, NULL) != 0)
        ut_info("bootstrap",
                "cannot start a thread that publishes the records of this node together");
}

/* ---- the layout ---- */

static bool is_at(uint64_t rank, uint32_t node, uint32_t local_rank)
{
    return rank < pmix.size &&
           get_number((uint32_t)rank, PMIX_LOCAL_RANK, UINT32_MAX) == local_rank &&
           node_of_rank((uint32_t)rank, node) == node;
}

/* Sorts all ranks by node, for layouts that are neither block nor cyclic. Takes some microseconds
 * per rank. */
static void sort_ranks(void)
{
    uint32_t *node = malloc(pmix.size * sizeof(*node)), near = 0;

    pmix.sorted = true;
    pmix.ranks = malloc(pmix.size * sizeof(*pmix.ranks));
    pmix.first = calloc((size_t)pmix.num_nodes + 2, sizeof(*pmix.first));
    if (!node || !pmix.ranks || !pmix.first)
        goto fail;
    for (uint32_t r = 0; r < pmix.size; r++) {
        node[r] = near = node_of_rank(r, near);
        if (near == UINT32_MAX)
            goto fail;
        pmix.first[near + 2]++;
    }
    for (uint32_t n = 2; n < pmix.num_nodes + 2; n++)
        pmix.first[n] += pmix.first[n - 1];
    /* first[n + 1] starts as the start of node n; placing the ranks of n moves it to the start of n
     * + 1 */
    for (uint32_t r = 0; r < pmix.size; r++)
        pmix.ranks[pmix.first[node[r] + 1]++] = r;
    free(node);
    return;
fail:
    ut_info("bootstrap", "PMIx does not report the nodes of all ranks");
    free(node);
    free(pmix.ranks);
    free(pmix.first);
    pmix.ranks = pmix.first = NULL;
}

static int64_t pmix_rank_at(uint32_t node, uint32_t local_rank)
{
    uint64_t block = (uint64_t)node * pmix.local_size + local_rank;
    uint64_t cyclic = (uint64_t)local_rank * pmix.num_nodes + node;
    int64_t rank = -ENOENT;

    if (pmix.num_nodes == 1 && pmix.local_size == pmix.size)
        return node == 0 && local_rank < pmix.size ? (int64_t)local_rank : -ENOENT;
    if (!pmix.nodes || node >= pmix.num_nodes)
        return -ENOENT;
    /* block and cyclic layouts need no table */
    if (is_at(block, node, local_rank))
        return (int64_t)block;
    if (is_at(cyclic, node, local_rank))
        return (int64_t)cyclic;
    pthread_mutex_lock(&pmix.lock);
    if (!pmix.sorted)
        sort_ranks();
    if (pmix.first && local_rank < pmix.first[node + 1] - pmix.first[node])
        rank = pmix.ranks[pmix.first[node] + local_rank];
    pthread_mutex_unlock(&pmix.lock);
    return rank;
}

/* ---- leaving ---- */

/* Slurm ends the server of a host with the host's last process of the job, and nobody answers a
 * question for a record of that host afterwards. */
static bool pmix_explain_absence(uint32_t rank, char *text, size_t size)
{
    (void)rank;
    if (pmix.num_nodes == 1)
        return false;
    snprintf(text, size,
             "has not called the library yet, or has ended with all other processes of its host, "
             "for which PMIx does not answer any more");
    return true;
}

/* Runs in a thread of PMIx, perhaps after the caller has stopped waiting. */
static void note_all_left(pmix_status_t status, void *unused)
{
    (void)unused;
    ut_debug("bootstrap", "all processes leave together: %s", pmix.lib.error_string(status));
    pthread_mutex_lock(&pmix.leaving.lock);
    pmix.leaving.done = true;
    pthread_cond_signal(&pmix.leaving.changed);
    pthread_mutex_unlock(&pmix.leaving.lock);
}

/* With the data of all: Slurm's fence without data does not wait for other hosts. */
static bool start_fence(void)
{
    pmix_info_t collect;

    memset(&collect, 0, sizeof(collect));
    memcpy(collect.key, PMIX_COLLECT_DATA, sizeof(PMIX_COLLECT_DATA));
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    return pmix.lib.fence_nb(NULL, 0, &collect, 1, note_all_left, NULL) == PMIX_SUCCESS;
}

static void pmix_leave_together(int wait_ms)
{
    struct timespec until = ut_clock_after(CLOCK_REALTIME, (uint64_t)wait_ms);
    int rc = 0;

    if (!start_fence())
        return;
    pthread_mutex_lock(&pmix.leaving.lock);
    while (!pmix.leaving.done && rc == 0)
        rc = pthread_cond_timedwait(&pmix.leaving.changed, &pmix.leaving.lock, &until);
    pthread_mutex_unlock(&pmix.leaving.lock);
}

const struct ut_job_ops ut_job_pmix = {.name = "pmix",
                                       .present = pmix_present,
                                       .open = pmix_open,
                                       .publish = pmix_publish,
                                       .lookup = pmix_lookup,
                                       .rank_at = pmix_rank_at,
                                       .explain_absence = pmix_explain_absence,
                                       .leave_together = pmix_leave_together};

#else

static int pmix_open(struct ut_job_info *info, int64_t deadline)
{
    (void)info;
    (void)deadline;
    return cannot_use("this library was built without PMIx (Debian: build with libpmix-dev)");
}

const struct ut_job_ops ut_job_pmix = {.name = "pmix", .present = pmix_present, .open = pmix_open};

#endif
