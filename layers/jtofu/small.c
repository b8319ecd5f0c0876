/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx without a server. */
#include "small.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/patience.h"
#include "../common/rest.h"
#include "board.h"
#include "gather.h"
#include "map.h"
#include "store.h"

enum { PAUSE_NS = 200 * 1000, TORN_TRIES = 1000 };

static struct {
    pthread_mutex_t lock; /* guards what stands here, but no wait for others */
    uint32_t opened;      /* calls of PMIx_Init less those of PMIx_Finalize */
    struct lc_job job;
    struct jt_map *map;
    uint64_t fences;
    pmix_proc_t self;
    struct jt_store put; /* what this process has put */
} small = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Start and end
 */

static bool read_map(void)
{
    const void *bytes;
    const char *why;
    uint32_t procs;
    size_t size;

    if (jt_gather_map(&bytes, &size, &procs) != JTOFU_SUCCESS)
        return false; /* a line has said why */
    if (jt_map_read(bytes, &small.map, &why) == JTOFU_SUCCESS)
        return true;
    lc_job_say(&small.job, "PMIx_Init: the map of the job: %s", why);
    return false;
}

static pmix_status_t open_small(void)
{
    uint64_t name;

    if (!jt_gather_job(&small.job) || !read_map())
        return PMIX_ERR_INIT;
    if (!jt_board_open(&small.job, &name)) {
        jt_map_free(small.map);
        return PMIX_ERR_INIT;
    }
    memset(&small.put, 0, sizeof(small.put));
    memset(&small.self, 0, sizeof(small.self));
    snprintf(small.self.nspace, sizeof(small.self.nspace), "utofu-%016llx",
             (unsigned long long)name);
    small.self.rank = small.job.place;
    small.fences = 0;
    return PMIX_SUCCESS;
}

pmix_status_t jt_small_init(pmix_proc_t *proc)
{
    pmix_status_t status = PMIX_SUCCESS;

    pthread_mutex_lock(&small.lock);
    if (small.opened == 0)
        status = open_small();
    if (status == PMIX_SUCCESS) {
        small.opened++;
        if (proc != NULL)
            *proc = small.self;
    }
    pthread_mutex_unlock(&small.lock);
    return status;
}

int jt_small_initialized(void)
{
    int opened;

    pthread_mutex_lock(&small.lock);
    opened = small.opened > 0;
    pthread_mutex_unlock(&small.lock);
    return opened;
}

/* Waits until a counter of the board has come that far, in the name of the function. limit_ns 0: as
 * long as it takes. */
static bool wait_counter(enum jt_counter counter, uint64_t wanted, const char *function,
                         uint64_t limit_ns)
{
    uint64_t begin = lc_now_ns(), value;
    struct lc_patience patience = {0};

    while (jt_board_count(counter, &value)) {
        if (value >= wanted)
            return true;
        if (limit_ns > 0 && lc_now_ns() - begin > limit_ns)
            return false;
        if (lc_patience_ends(&patience, LC_PATIENCE_SLEEPS_FROM))
            lc_job_say(&small.job, "%s: has waited %llu s for %llu of %u processes", function,
                       lc_patience_seconds(&patience), (unsigned long long)(wanted - value),
                       small.job.procs);
        lc_nap(PAUSE_NS);
    }
    return false;
}

/* What was put is in memory of rank 0, which stays until all have left. */
static void leave_board(void)
{
    if (jt_board_add(JT_LEAVERS) && small.job.place == 0 &&
        !wait_counter(JT_LEAVERS, small.job.procs, "PMIx_Finalize", lc_leave_limit_ns()))
        lc_job_say(&small.job,
                   "PMIx_Finalize: not all of the %u processes have called it: those that still "
                   "use PMIx will not find what was put",
                   small.job.procs);
    jt_board_close();
}

pmix_status_t jt_small_finalize(void)
{
    pmix_status_t status = PMIX_SUCCESS;

    pthread_mutex_lock(&small.lock);
    if (small.opened == 0) {
        status = PMIX_ERR_INIT;
    } else if (--small.opened == 0) {
        leave_board();
        jt_map_free(small.map);
    }
    pthread_mutex_unlock(&small.lock);
    return status;
}

/*
 * Putting
 */

pmix_status_t jt_small_put(pmix_scope_t scope, const char *key, const pmix_value_t *value)
{
    pmix_status_t status = PMIX_ERR_INIT;

    if (key == NULL || value == NULL || scope == PMIX_SCOPE_UNDEF || scope > PMIX_INTERNAL)
        return PMIX_ERR_BAD_PARAM;
    pthread_mutex_lock(&small.lock);
    if (small.opened > 0)
        status = jt_store_put(&small.put, scope, key, value);
    pthread_mutex_unlock(&small.lock);
    if (status == PMIX_ERR_NOT_SUPPORTED)
        lc_job_say(&small.job,
                   "PMIx_Put: %s: values of type %u are not kept without a PMIx server: put it as "
                   "a byte object",
                   key, value->type);
    if (status == PMIX_ERR_OUT_OF_RESOURCE)
        lc_job_say(&small.job,
                   "PMIx_Put: %s: without a PMIx server a process puts %d bytes at most, keys "
                   "included",
                   key, JT_STORE_ROOM);
    return status;
}

pmix_status_t jt_small_commit(void)
{
    pmix_status_t status = PMIX_ERR_INIT;

    pthread_mutex_lock(&small.lock);
    if (small.opened > 0) {
        size_t size = jt_store_seal(&small.put);

        status = jt_board_write(&small.put, size) ? PMIX_SUCCESS : PMIX_ERR_UNREACH;
    }
    pthread_mutex_unlock(&small.lock);
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
    return small.map->first[node + 1] - small.map->first[node];
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
                               small.map->ranks[small.map->first[node] + i]);
    v->type = PMIX_STRING;
    v->data.string = text;
    *value = v;
    return PMIX_SUCCESS;
}

static uint32_t find_local_rank(uint32_t rank)
{
    uint32_t node = small.map->plan.node_of[rank], i = 0;

    while (small.map->ranks[small.map->first[node] + i] != rank)
        i++;
    return i;
}

/* What the map says. PMIX_ERR_NOT_FOUND: it does not say that. rank: PMIX_RANK_WILDCARD for what is
 * of the job, and of this node. */
static pmix_status_t get_from_map(pmix_rank_t rank, const char *key, pmix_value_t **value)
{
    uint32_t procs = small.map->plan.procs, own = rank < procs ? rank : small.job.place;
    uint32_t node = small.map->plan.node_of[own];

    if (strcmp(key, PMIX_JOB_SIZE) == 0 || strcmp(key, PMIX_UNIV_SIZE) == 0)
        return make_number(PMIX_UINT32, procs, value);
    if (strcmp(key, PMIX_NUM_NODES) == 0)
        return make_number(PMIX_UINT32, small.map->plan.nodes, value);
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

/* A commit may be under way: then the slot is read again. */
static pmix_status_t read_slot(uint32_t rank, struct jt_store *slot)
{
    for (int i = 0; i < TORN_TRIES; i++) {
        if (!jt_board_read(rank, slot))
            return PMIX_ERR_UNREACH;
        if (jt_store_is_whole(slot))
            return PMIX_SUCCESS;
        sched_yield();
    }
    lc_job_say(&small.job, "PMIx_Get: what rank %u has put is damaged", rank);
    return PMIX_ERR_UNREACH;
}

/* Of what another process has put. */
static int list_scopes(uint32_t rank)
{
    const uint32_t *node_of = small.map->plan.node_of;
    bool same_node = node_of[rank] == node_of[small.job.place];

    return 1 << PMIX_GLOBAL | 1 << (same_node ? PMIX_LOCAL : PMIX_REMOTE);
}

static pmix_status_t get_put(uint32_t rank, const char *key, pmix_value_t **value)
{
    struct jt_store slot;
    pmix_status_t status;

    if (rank == small.job.place)
        return jt_store_get(&small.put, key, JT_ALL_SCOPES, value);
    status = read_slot(rank, &slot);
    return status == PMIX_SUCCESS ? jt_store_get(&slot, key, list_scopes(rank), value) : status;
}

static pmix_status_t get_opened(const pmix_proc_t *proc, const char *key, pmix_value_t **value)
{
    pmix_rank_t rank = proc != NULL ? proc->rank : PMIX_RANK_WILDCARD;
    pmix_status_t status;

    if (small.opened == 0)
        return PMIX_ERR_INIT;
    if (proc != NULL && strncmp(proc->nspace, small.self.nspace, sizeof(proc->nspace)) != 0)
        return PMIX_ERR_NOT_FOUND;
    status = get_from_map(rank, key, value);
    if (status != PMIX_ERR_NOT_FOUND || rank >= small.map->plan.procs)
        return status;
    return get_put(rank, key, value);
}

pmix_status_t jt_small_get(const pmix_proc_t *proc, const char *key, pmix_value_t **value)
{
    pmix_status_t status;

    if (key == NULL || value == NULL)
        return PMIX_ERR_BAD_PARAM;
    pthread_mutex_lock(&small.lock);
    status = get_opened(proc, key, value);
    pthread_mutex_unlock(&small.lock);
    return status;
}

/*
 * Fence
 */

/* All processes of the job: by NULL, by the wildcard, or one by one. */
static bool names_all(const pmix_proc_t *procs, size_t nprocs)
{
    if (procs == NULL || nprocs == 0)
        return true;
    if (nprocs == 1 && procs[0].rank == PMIX_RANK_WILDCARD)
        return true;
    if (nprocs != small.job.procs)
        return false;
    for (size_t i = 0; i < nprocs; i++)
        for (size_t j = 0; j <= i; j++)
            if (procs[i].rank >= small.job.procs || (j < i && procs[i].rank == procs[j].rank))
                return false;
    return true;
}

pmix_status_t jt_small_fence(const pmix_proc_t *procs, size_t nprocs)
{
    uint64_t wanted;
    bool counted;

    if (!jt_small_initialized())
        return PMIX_ERR_INIT;
    if (!names_all(procs, nprocs)) {
        lc_job_say(
            &small.job,
            "PMIx_Fence: without a PMIx server it takes all %u processes of the job, not %zu "
            "of them",
            small.job.procs, nprocs);
        return PMIX_ERR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&small.lock);
    wanted = ++small.fences * small.job.procs;
    counted = jt_board_add(JT_FENCES);
    pthread_mutex_unlock(&small.lock);
    return counted && wait_counter(JT_FENCES, wanted, "PMIx_Fence", 0) ? PMIX_SUCCESS
                                                                       : PMIX_ERR_UNREACH;
}
