/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the job: chooses the launcher, applies UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE,
 * and passes calls on to the operations of that launcher.
 */
#include "bootstrap/job.h"
#include "bootstrap/ops.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool solo_present(void)
{
    return true;
}

/* SLURM_PROCID alone does not show a step: batch scripts and nested launchers set it, too. */
uint32_t ut_job_unconnected_tasks(void)
{
    int64_t tasks = ut_job_launcher_number("SLURM_STEP_NUM_TASKS");

    return tasks > 1 && tasks <= UINT32_MAX ? (uint32_t)tasks : 0;
}

static void warn_of_unconnected_step(void)
{
    uint32_t tasks = ut_job_unconnected_tasks();

    if (tasks > 1 && ut_job_launcher_number("SLURM_PROCID") <= 0) /* only one of the tasks logs */
        ut_warn("bootstrap",
                "srun started %u tasks without PMIx or PMI, so each is a job of one "
                "process; " UT_JOB_UNCONNECTED_REMEDY,
                tasks);
}

static int solo_open(struct ut_job_info *info, int64_t deadline)
{
    (void)deadline;
    warn_of_unconnected_step();
    snprintf(info->id, sizeof(info->id), "solo.%d", (int)getpid());
    info->mark = ut_job_mark(NULL, 0);
    info->size = info->num_nodes = info->local_size = 1;
    return 0;
}

static const struct ut_job_ops solo = {.name = "solo", .present = solo_present, .open = solo_open};

/* Tried in this order. UTOFU_RANK comes first, because utofurun may run inside the job of another
 * launcher. PMI-1 precedes PMIx, because a stale PMI_FD can be recognised, and a stale
 * PMIX_NAMESPACE cannot. The variables of Slurm and Flux come last, because they are wrong inside
 * other launchers. */
static const struct ut_job_ops *const launchers[] = {&ut_job_envvar, &ut_job_pmi1, &ut_job_pmix,
                                                     &ut_job_step, &solo};

static struct {
    pthread_mutex_t lock;         /* guards the fields below; not held during look-ups */
    const struct ut_job_ops *ops; /* NULL until the job is found */
    int result;                   /* the result of a search that failed */
    pid_t owner;
    struct ut_job_info info;
    uint32_t host_node; /* node number from the launcher, also if UTOFU_NODE is set */
    bool other_local_rank;
    bool own_node; /* only UTOFU_NODE is set: no other process is on this node */
    bool published;
    size_t own_size;
    uint8_t own_record[UT_JOB_RECORD_MAX];
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE override the launcher. */
static int apply_overrides(struct ut_job_info *info)
{
    job.host_node = info->node;
    job.own_node = ut_env_is_set(UT_ENV_NODE) && !ut_env_is_set(UT_ENV_LOCAL_RANK);
    if (ut_env_is_set(UT_ENV_NODE) && ut_env_num(UT_ENV_NODE) != info->node) {
        info->node = (uint32_t)ut_env_num(UT_ENV_NODE);
        info->num_nodes = 0;
    }
    if (job.own_node) {
        info->num_nodes = 0;
        info->local_rank = 0;
        info->local_size = 1;
    }
    if (ut_env_is_set(UT_ENV_LOCAL_RANK)) {
        job.other_local_rank = ut_env_num(UT_ENV_LOCAL_RANK) != info->local_rank;
        info->local_rank = (uint32_t)ut_env_num(UT_ENV_LOCAL_RANK);
        if (info->local_size <= info->local_rank)
            info->local_size = info->local_rank + 1;
    }
    if (ut_env_is_set(UT_ENV_LOCAL_SIZE))
        info->local_size = (uint32_t)ut_env_num(UT_ENV_LOCAL_SIZE);
    if (info->local_rank < info->local_size)
        return 0;
    ut_error("bootstrap",
             "local rank %u is not below the number of processes of the node, %u; check "
             "UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
             info->local_rank, info->local_size);
    return -EINVAL;
}

/* Tries the launchers whose variables are set, until one works. */
static int find_launcher(void)
{
    int64_t deadline = ut_clock_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    const struct ut_job_ops *ops = NULL;
    int rc = -ENODEV;

    for (size_t i = 0; rc == -ENODEV && i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        ops = launchers[i];
        if (!ops->present())
            continue;
        memset(&job.info, 0, sizeof(job.info));
        job.info.launcher = ops->name;
        rc = ops->open(&job.info, deadline); /* may set the name of the launcher */
    }
    if (rc == 0)
        rc = apply_overrides(&job.info);
    if (rc != 0)
        return rc;
    if (job.info.mark == 0)
        job.info.mark = ut_job_mark(job.info.id, strlen(job.info.id));
    job.ops = ops;
    job.owner = getpid();
    ut_log_set_rank(job.info.rank);
    ut_info("bootstrap", "%s job %s: rank %u of %u, node %u of %u, local rank %u of %u",
            job.info.launcher, job.info.id, job.info.rank, job.info.size, job.info.node,
            job.info.num_nodes, job.info.local_rank, job.info.local_size);
    return 0;
}

int ut_job_open(const struct ut_job_info **info)
{
    int rc = ut_env_load();

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&job.lock);
    if (!job.ops && job.result == 0) {
        rc = find_launcher();
        /* after -EBUSY a later call tries again */
        if (rc != -EBUSY)
            job.result = rc;
    } else {
        rc = job.result;
    }
    if (rc == 0)
        *info = &job.info;
    pthread_mutex_unlock(&job.lock);
    return rc;
}

/* Opens the job if it is not open. A child made by fork() cannot use the job: its sockets and
 * threads belong to the parent. */
static int open_for_owner(void)
{
    const struct ut_job_info *info;
    int rc = ut_job_open(&info);

    if (rc != 0 || job.owner == getpid())
        return rc;
    ut_error("bootstrap", "a child made by fork() after the first utofu call cannot communicate");
    return -ECHILD;
}

int ut_job_publish(const void *record, size_t size)
{
    int rc = open_for_owner();

    if (rc != 0)
        return rc;
    if (size > UT_JOB_RECORD_MAX)
        return -EMSGSIZE;
    pthread_mutex_lock(&job.lock);
    if (job.published) {
        rc = -EALREADY;
    } else {
        rc = job.info.size > 1 ? job.ops->publish(record, size) : 0;
        job.published = rc == 0;
    }
    if (rc == 0) {
        memcpy(job.own_record, record, size);
        job.own_size = size;
    }
    pthread_mutex_unlock(&job.lock);
    return rc;
}

static int lookup_own(void *record, size_t *size)
{
    int rc = -EAGAIN;

    pthread_mutex_lock(&job.lock);
    if (job.published) {
        memcpy(record, job.own_record, job.own_size);
        *size = job.own_size;
        rc = 0;
    }
    pthread_mutex_unlock(&job.lock);
    return rc;
}

int ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    int rc = open_for_owner();

    if (rc != 0)
        return rc;
    if (rank >= job.info.size)
        return -ENOENT;
    if (rank == job.info.rank)
        return lookup_own(record, size);
    return job.ops->lookup(rank, record, size, wait_ms);
}

bool ut_job_explain_absence(uint32_t rank, char *text, size_t size)
{
    return job.ops && job.ops->explain_absence && job.ops->explain_absence(rank, text, size);
}

void ut_job_leave_together(int wait_ms)
{
    if (job.ops && job.ops->leave_together && job.owner == getpid() &&
        !ut_job_is_on_one_host(&job.info))
        job.ops->leave_together(wait_ms);
}

static int64_t rank_by_launcher(uint32_t node, uint32_t local_rank)
{
    if (job.info.size == 1)
        return node == 0 && local_rank == 0 ? 0 : -ENOENT;
    return job.ops->rank_at(node, local_rank);
}

int64_t ut_job_rank_at(uint32_t node, uint32_t local_rank)
{
    const struct ut_job_info *info;
    int rc = ut_job_open(&info);

    if (rc != 0)
        return -ENOENT;
    if (node == info->node && local_rank == info->local_rank)
        return info->rank;
    if (job.own_node)
        return -ENOENT;
    /* with UTOFU_NODE and a local rank from the launcher, processes of one machine still find each
     * other by local rank */
    if (info->node != job.host_node)
        return job.other_local_rank ? -ENOENT : rank_by_launcher(job.host_node, local_rank);
    return rank_by_launcher(node, local_rank);
}

uint32_t ut_job_max_per_node(void)
{
    const struct ut_job_info *info;

    if (ut_job_open(&info) != 0)
        return 0;
    /* if the user sets the nodes, no layout describes them, except that of utofurun */
    bool by_hand = ut_env_is_set(UT_ENV_NODE) && strcmp(info->launcher, "utofurun") != 0;
    uint32_t max = info->local_size, nodes = by_hand ? 0 : info->num_nodes;
    for (uint32_t node = 0; node < nodes; node++) {
        while (ut_job_rank_at(node, max) >= 0)
            max++;
    }
    return max;
}

bool ut_job_is_on_one_host(const struct ut_job_info *info)
{
    /* all nodes that utofurun assigns are on this host */
    return info->size == 1 || info->num_nodes == 1 ||
           strncmp(ut_env_str(UT_ENV_ROOT), "unix:", 5) == 0;
}
