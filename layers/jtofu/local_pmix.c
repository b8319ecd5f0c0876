/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx without a server. */
#include "local_pmix.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/stall.h"
#include "../common/idle.h"
#include "kvs.h"
#include "own_map.h"
#include "map.h"
#include "store.h"

enum { PAUSE_NS = 200 * 1000, TORN_TRIES = 1000 };

static struct {
    pthread_mutex_t
        lock;        /* protects the members below; not held while this process waits for others */
    uint32_t opened; /* calls of PMIx_Init minus calls of PMIx_Finalize */
    struct lc_job job;
    struct jt_map *map;
    uint64_t fences;
    pmix_proc_t self;
    struct jt_store put; /* values that this process has put */
} local = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Start and end
 */

static bool read_map(void)
{
    const void *bytes;
    const char *why;
    uint32_t procs;
    size_t size;

    if (jt_own_map(&bytes, &size, &procs) != JTOFU_SUCCESS)
        return false; /* jt_own_map() has logged the reason */
    if (jt_map_read(bytes, &local.map, &why) == JTOFU_SUCCESS)
        return true;
    lc_job_log(&local.job, "PMIx_Init: the map of the job: %s", why);
    return false;
}

static pmix_status_t open_kvs(void)
{
    uint64_t name;

    if (!jt_own_job(&local.job) || !read_map())
        return PMIX_ERR_INIT;
    if (!jt_kvs_open(&local.job, &name)) {
        jt_map_free(local.map);
        return PMIX_ERR_INIT;
    }
    memset(&local.put, 0, sizeof(local.put));
    memset(&local.self, 0, sizeof(local.self));
    snprintf(local.self.nspace, sizeof(local.self.nspace), "utofu-%016llx",
             (unsigned long long)name);
    local.self.rank = local.job.launch_rank;
    local.fences = 0;
    return PMIX_SUCCESS;
}

pmix_status_t jt_local_pmix_init(pmix_proc_t *proc)
{
    pmix_status_t status = PMIX_SUCCESS;

    pthread_mutex_lock(&local.lock);
    if (local.opened == 0)
        status = open_kvs();
    if (status == PMIX_SUCCESS) {
        local.opened++;
        if (proc != NULL)
            *proc = local.self;
    }
    pthread_mutex_unlock(&local.lock);
    return status;
}

int jt_local_pmix_initialized(void)
{
    int opened;

    pthread_mutex_lock(&local.lock);
    opened = local.opened > 0;
    pthread_mutex_unlock(&local.lock);
    return opened;
}

/* Waits until a counter of the KVS has a value. function: name of the called function, for
 * messages. timeout_ns 0: none. */
static bool wait_counter(enum jt_counter counter, uint64_t wanted, const char *function,
                         uint64_t timeout_ns)
{
    uint64_t begin = lc_now_ns(), value;
    struct lc_stall_timer stall = {0};

    while (jt_kvs_read_counter(counter, &value)) {
        if (value >= wanted)
            return true;
        if (timeout_ns > 0 && lc_now_ns() - begin > timeout_ns)
            return false;
        if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
            lc_job_log(&local.job, "%s: has waited %llu s for %llu of %u processes", function,
                       lc_stall_seconds(&stall), (unsigned long long)(wanted - value),
                       local.job.procs);
        lc_sleep_ns(PAUSE_NS);
    }
    return false;
}

/* Waits for all processes, because the values are in memory of rank 0. */
static void leave_kvs(void)
{
    if (jt_kvs_increment(JT_LEAVERS) && local.job.launch_rank == 0 &&
        !wait_counter(JT_LEAVERS, local.job.procs, "PMIx_Finalize", lc_finalize_timeout_ns()))
        lc_job_log(&local.job,
                   "PMIx_Finalize: not all of the %u processes have called it: those that still "
                   "use PMIx will not find what was put",
                   local.job.procs);
    jt_kvs_close();
}

pmix_status_t jt_local_pmix_finalize(void)
{
    pmix_status_t status = PMIX_SUCCESS;

    pthread_mutex_lock(&local.lock);
    if (local.opened == 0) {
        status = PMIX_ERR_INIT;
    } else if (--local.opened == 0) {
        leave_kvs();
        jt_map_free(local.map);
    }
    pthread_mutex_unlock(&local.lock);
    return status;
}

/*
 * Putting
 */

pmix_status_t jt_local_pmix_put(pmix_scope_t scope, const char *key, const pmix_value_t *value)
{
    pmix_status_t status = PMIX_ERR_INIT;

    if (key == NULL || value == NULL || scope == PMIX_SCOPE_UNDEF || scope > PMIX_INTERNAL)
        return PMIX_ERR_BAD_PARAM;
    pthread_mutex_lock(&local.lock);
    if (local.opened > 0)
        status = jt_store_put(&local.put, scope, key, value);
    pthread_mutex_unlock(&local.lock);
    if (status == PMIX_ERR_NOT_SUPPORTED)
        lc_job_log(&local.job,
                   "PMIx_Put: %s: values of type %u are not kept without a PMIx server: put it as "
                   "a byte object",
                   key, value->type);
    if (status == PMIX_ERR_OUT_OF_RESOURCE)
        lc_job_log(&local.job,
                   "PMIx_Put: %s: without a PMIx server a process puts %d bytes at most, keys "
                   "included",
                   key, JT_STORE_ROOM);
    return status;
}

pmix_status_t jt_local_pmix_commit(void)
{
    pmix_status_t status = PMIX_ERR_INIT;

    pthread_mutex_lock(&local.lock);
    if (local.opened > 0) {
        size_t size = jt_store_set_checksum(&local.put);

        status = jt_kvs_write(&local.put, size) ? PMIX_SUCCESS : PMIX_ERR_UNREACH;
    }
    pthread_mutex_unlock(&local.lock);
    return status;
}

/*
 * Getting
 */

static pmix_status_t make_number(pmix_data_type_t type, uint32_t number, pmix_value_t **value)
{
    pmix_value_t *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return PMIX_ERR_NOMEM;
    v->type = type;
    if (type == PMIX_UINT16)
        v->data.uint16 = (uint16_t)number;
    else
        v->data.uint32 = number;
    *value = v;
    return PMIX_SUCCESS;
}

static uint32_t count_local(uint32_t node)
{
    return local.map->first[node + 1] - local.map->first[node];
}

/* "0,1,2": the ranks of a node. */
static pmix_status_t list_local(uint32_t node, pmix_value_t **value)
{
    size_t room = 12 * (size_t)count_local(node) + 1, at = 0;
    pmix_value_t *v = calloc(1, sizeof(*v));
    char *text = malloc(room);

    if (v == NULL || text == NULL) {
        free(v);
        free(text);
        return PMIX_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count_local(node); i++)
        at += (size_t)snprintf(text + at, room - at, i ? ",%u" : "%u",
                               local.map->ranks[local.map->first[node] + i]);
    v->type = PMIX_STRING;
    v->data.string = text;
    *value = v;
    return PMIX_SUCCESS;
}

static uint32_t find_local_rank(uint32_t rank)
{
    uint32_t node = local.map->layout.node_of[rank], i = 0;

    while (local.map->ranks[local.map->first[node] + i] != rank)
        i++;
    return i;
}

/* Values that follow from the map. PMIX_ERR_NOT_FOUND: the map does not have the value. rank:
 * PMIX_RANK_WILDCARD for values of the job and of this node. */
static pmix_status_t get_from_map(pmix_rank_t rank, const char *key, pmix_value_t **value)
{
    uint32_t procs = local.map->layout.procs, own = rank < procs ? rank : local.job.launch_rank;
    uint32_t node = local.map->layout.node_of[own];

    if (strcmp(key, PMIX_JOB_SIZE) == 0 || strcmp(key, PMIX_UNIV_SIZE) == 0)
        return make_number(PMIX_UINT32, procs, value);
    if (strcmp(key, PMIX_NUM_NODES) == 0)
        return make_number(PMIX_UINT32, local.map->layout.nodes, value);
    if (strcmp(key, PMIX_LOCAL_SIZE) == 0)
        return make_number(PMIX_UINT32, count_local(node), value);
    if (strcmp(key, PMIX_LOCAL_PEERS) == 0)
        return list_local(node, value);
    if (rank >= procs)
        return PMIX_ERR_NOT_FOUND;
    if (strcmp(key, PMIX_NODEID) == 0)
        return make_number(PMIX_UINT32, node, value);
    if (strcmp(key, PMIX_LOCAL_RANK) == 0)
        return make_number(PMIX_UINT16, find_local_rank(rank), value);
    return PMIX_ERR_NOT_FOUND;
}

/* Reads the slot again while its process commits. */
static pmix_status_t read_slot(uint32_t rank, struct jt_store *slot)
{
    for (int i = 0; i < TORN_TRIES; i++) {
        if (!jt_kvs_read(rank, slot))
            return PMIX_ERR_UNREACH;
        if (jt_store_is_consistent(slot))
            return PMIX_SUCCESS;
        sched_yield();
    }
    lc_job_log(&local.job, "PMIx_Get: the values of rank %u are damaged", rank);
    return PMIX_ERR_UNREACH;
}

/* The scopes of another process that this process may see. */
static int list_scopes(uint32_t rank)
{
    const uint32_t *node_of = local.map->layout.node_of;
    bool same_node = node_of[rank] == node_of[local.job.launch_rank];

    return 1 << PMIX_GLOBAL | 1 << (same_node ? PMIX_LOCAL : PMIX_REMOTE);
}

static pmix_status_t get_put(uint32_t rank, const char *key, pmix_value_t **value)
{
    struct jt_store slot;
    pmix_status_t status;

    if (rank == local.job.launch_rank)
        return jt_store_get(&local.put, key, JT_ALL_SCOPES, value);
    status = read_slot(rank, &slot);
    return status == PMIX_SUCCESS ? jt_store_get(&slot, key, list_scopes(rank), value) : status;
}

static pmix_status_t get_opened(const pmix_proc_t *proc, const char *key, pmix_value_t **value)
{
    pmix_rank_t rank = proc != NULL ? proc->rank : PMIX_RANK_WILDCARD;
    pmix_status_t status;

    if (local.opened == 0)
        return PMIX_ERR_INIT;
    if (proc != NULL && strncmp(proc->nspace, local.self.nspace, sizeof(proc->nspace)) != 0)
        return PMIX_ERR_NOT_FOUND;
    status = get_from_map(rank, key, value);
    if (status != PMIX_ERR_NOT_FOUND || rank >= local.map->layout.procs)
        return status;
    return get_put(rank, key, value);
}

pmix_status_t jt_local_pmix_get(const pmix_proc_t *proc, const char *key, pmix_value_t **value)
{
    pmix_status_t status;

    if (key == NULL || value == NULL)
        return PMIX_ERR_BAD_PARAM;
    pthread_mutex_lock(&local.lock);
    status = get_opened(proc, key, value);
    pthread_mutex_unlock(&local.lock);
    return status;
}

/*
 * Fence
 */

/* True if `procs` names all processes of the job: by NULL, by the wildcard, or one by one. */
static bool covers_all(const pmix_proc_t *procs, size_t nprocs)
{
    if (procs == NULL || nprocs == 0)
        return true;
    if (nprocs == 1 && procs[0].rank == PMIX_RANK_WILDCARD)
        return true;
    if (nprocs != local.job.procs)
        return false;
    for (size_t i = 0; i < nprocs; i++)
        for (size_t j = 0; j <= i; j++)
            if (procs[i].rank >= local.job.procs || (j < i && procs[i].rank == procs[j].rank))
                return false;
    return true;
}

pmix_status_t jt_local_pmix_fence(const pmix_proc_t *procs, size_t nprocs)
{
    uint64_t wanted;
    bool counted;

    if (!jt_local_pmix_initialized())
        return PMIX_ERR_INIT;
    if (!covers_all(procs, nprocs)) {
        lc_job_log(
            &local.job,
            "PMIx_Fence: without a PMIx server it takes all %u processes of the job, not %zu "
            "of them",
            local.job.procs, nprocs);
        return PMIX_ERR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&local.lock);
    wanted = ++local.fences * local.job.procs;
    counted = jt_kvs_increment(JT_FENCES);
    pthread_mutex_unlock(&local.lock);
    return counted && wait_counter(JT_FENCES, wanted, "PMIx_Fence", 0) ? PMIX_SUCCESS
                                                                       : PMIX_ERR_UNREACH;
}
