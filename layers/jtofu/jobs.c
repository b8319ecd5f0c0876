/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs whose maps this process has. */
#include "jobs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/log.h"
#include "own_map.h"

struct job {
    jtofu_job_id_t id;
    struct jt_map *map;
};

static struct {
    pthread_mutex_t lock;
    uint32_t initialized; /* calls of jtofu_initialize() minus calls of jtofu_finalize() */
    jtofu_rank_t rank;
    struct job *jobs; /* the first one is the job of this process, before jtofu_initialize() with
                       * the default map */
    uint32_t num_jobs;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

int jt_fail(const char *function, int code, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lc_log("jtofu", -1, "%s: %s", function, text);
    return code;
}

static int append_job(const char *function, jtofu_job_id_t id, struct jt_map *map);

/* Takes the map that uTofu gives, as on Fugaku MPI has one by itself. The caller holds the lock. */
static int take_default_map(const char *function)
{
    struct lc_job job;
    struct jt_map *map;
    const void *bytes;
    const char *why = "";
    uint32_t procs;
    size_t size;
    int rc = JTOFU_ERR_INTERNAL;

    if (state.num_jobs > 0)
        return JTOFU_SUCCESS;
    if (jt_own_job(&job) && jt_own_map(&bytes, &size, &procs) == JTOFU_SUCCESS)
        rc = jt_map_read(bytes, &map, &why);
    if (rc != JTOFU_SUCCESS)
        return jt_fail(function, JTOFU_ERR_NOT_INITIALIZED,
                       "jtofu_initialize was not called, and uTofu gives no map of this job: %s",
                       why);
    state.rank = job.rank;
    return append_job(function, 0, map);
}

int jt_jobs_lock(const char *function)
{
    pthread_mutex_lock(&state.lock);
    int rc = state.initialized > 0 ? JTOFU_SUCCESS : take_default_map(function);
    if (rc != JTOFU_SUCCESS)
        pthread_mutex_unlock(&state.lock);
    return rc;
}

/* The same for functions that need a call of jtofu_initialize(). */
static int lock_initialized(const char *function)
{
    pthread_mutex_lock(&state.lock);
    if (state.initialized > 0)
        return JTOFU_SUCCESS;
    pthread_mutex_unlock(&state.lock);
    return jt_fail(function, JTOFU_ERR_NOT_INITIALIZED,
                   "there is no map: call jtofu_initialize first");
}

void jt_jobs_unlock(void)
{
    pthread_mutex_unlock(&state.lock);
}

const struct jt_map *jt_jobs_own(void)
{
    return state.jobs[0].map;
}

jtofu_rank_t jt_jobs_rank(void)
{
    return state.rank;
}

static struct job *find_job(jtofu_job_id_t id)
{
    for (uint32_t i = 0; i < state.num_jobs; i++)
        if (state.jobs[i].id == id)
            return &state.jobs[i];
    return NULL;
}

int jt_jobs_find(const char *function, jtofu_job_id_t job_id, const struct jt_map **map)
{
    const struct job *job = find_job(job_id);

    /* the default map answers for every job number, and job 0 is this job, as in Fujitsu's MPI */
    if (job == NULL && (state.initialized == 0 || job_id == 0))
        job = state.jobs;
    if (job == NULL)
        return jt_fail(function, JTOFU_ERR_INVALID_ARG,
                       "there is no job %u: give the number of jtofu_initialize or jtofu_add_job",
                       job_id);
    *map = job->map;
    return JTOFU_SUCCESS;
}

static int read_map(const char *function, const void *mapinfo, struct jt_map **map)
{
    const char *why;
    int rc;

    if (mapinfo == NULL)
        return jt_fail(function, JTOFU_ERR_INVALID_POINTER,
                       "mapinfo is NULL: give the bytes of the value of fjpmix.rankmap, or the "
                       "map of jtofu_create_mapinfo_by_envvars");
    rc = jt_map_read(mapinfo, map, &why);
    return rc == JTOFU_SUCCESS
               ? rc
               : jt_fail(function, rc,
                         "the map cannot be used: %s; give the bytes of the value of "
                         "fjpmix.rankmap, or the map of jtofu_create_mapinfo_by_envvars",
                         why);
}

/* Takes over the map. */
static int append_job(const char *function, jtofu_job_id_t id, struct jt_map *map)
{
    struct job *jobs = realloc(state.jobs, (state.num_jobs + 1) * sizeof(*jobs));

    if (jobs == NULL) {
        jt_map_free(map);
        return jt_fail(function, JTOFU_ERR_OUT_OF_MEMORY, "no memory for job %u", id);
    }
    state.jobs = jobs;
    jobs[state.num_jobs++] = (struct job){id, map};
    return JTOFU_SUCCESS;
}

static void free_jobs(void)
{
    for (uint32_t i = 0; i < state.num_jobs; i++)
        jt_map_free(state.jobs[i].map);
    free(state.jobs);
    state.jobs = NULL;
    state.num_jobs = 0;
}

static int initialize_again(jtofu_job_id_t id, jtofu_rank_t rank, struct jt_map *map)
{
    struct job *own = &state.jobs[0];
    bool same_id = id == own->id || id == 0 || (own->id == 0 && find_job(id) == NULL);
    bool same = same_id && rank == state.rank && map->sum == own->map->sum;

    jt_map_free(map);
    if (same && own->id == 0)
        own->id = id; /* 0 remains a name of it */
    if (!same)
        return jt_fail("jtofu_initialize", JTOFU_ERR_INVALID_ARG,
                       "the library was initialized with rank %u of job %u, and not with rank %u "
                       "of job %u and this map: use jtofu_add_job for other jobs",
                       state.rank, state.jobs[0].id, rank, id);
    state.initialized++;
    return JTOFU_SUCCESS;
}

static int initialize_first(jtofu_job_id_t id, jtofu_rank_t rank, struct jt_map *map)
{
    int rc;

    if (rank >= map->layout.procs) {
        rc = jt_fail("jtofu_initialize", JTOFU_ERR_INVALID_ARG,
                     "rank %u: the map has the ranks from 0 to %u", rank, map->layout.procs - 1);
        jt_map_free(map);
        return rc;
    }
    free_jobs(); /* the default map */
    rc = append_job("jtofu_initialize", id, map);
    if (rc == JTOFU_SUCCESS) {
        state.rank = rank;
        state.initialized = 1;
    }
    return rc;
}

int jtofu_initialize(jtofu_job_id_t job_id, jtofu_rank_t rank, const void *mapinfo)
{
    struct jt_map *map;
    int rc = read_map("jtofu_initialize", mapinfo, &map);

    if (rc != JTOFU_SUCCESS)
        return rc;
    pthread_mutex_lock(&state.lock);
    rc = state.initialized > 0 ? initialize_again(job_id, rank, map)
                               : initialize_first(job_id, rank, map);
    pthread_mutex_unlock(&state.lock);
    return rc;
}

int jtofu_finalize(void)
{
    int rc = JTOFU_SUCCESS;

    pthread_mutex_lock(&state.lock);
    if (state.initialized == 0)
        rc = jt_fail("jtofu_finalize", JTOFU_ERR_EXCESS_FINALIZE,
                     "it was called more often than jtofu_initialize");
    else if (--state.initialized == 0)
        free_jobs();
    pthread_mutex_unlock(&state.lock);
    return rc;
}

int jtofu_add_job(jtofu_job_id_t job_id, const void *mapinfo)
{
    struct jt_map *map;
    int rc = lock_initialized("jtofu_add_job");

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (find_job(job_id) != NULL)
        rc = jt_fail("jtofu_add_job", JTOFU_ERR_INVALID_ARG,
                     "there is a job %u already: give another number", job_id);
    else
        rc = read_map("jtofu_add_job", mapinfo, &map);
    if (rc == JTOFU_SUCCESS)
        rc = append_job("jtofu_add_job", job_id, map);
    jt_jobs_unlock();
    return rc;
}

int jtofu_delete_job(jtofu_job_id_t job_id)
{
    struct job *job;
    int rc = lock_initialized("jtofu_delete_job");

    if (rc != JTOFU_SUCCESS)
        return rc;
    job = find_job(job_id);
    if (job == NULL || job == state.jobs) {
        rc = jt_fail("jtofu_delete_job", JTOFU_ERR_INVALID_ARG, "job %u %s", job_id,
                     job == NULL ? "was not given to jtofu_add_job"
                                 : "is that of jtofu_initialize: jtofu_finalize forgets it");
    } else {
        jt_map_free(job->map);
        *job = state.jobs[--state.num_jobs];
    }
    jt_jobs_unlock();
    return rc;
}
