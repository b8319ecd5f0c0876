/* SPDX-License-Identifier: Apache-2.0 */
/* A job of one process. */
#include "bootstrap/job.h"
#include "bootstrap/ops.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>

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
    info->rank = info->node = info->local_rank = 0;
    info->size = info->num_nodes = info->local_size = 1;
    return 0;
}

static int solo_publish(const void *record, size_t size)
{
    (void)record;
    (void)size;
    return 0;
}

static int solo_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    (void)rank;
    (void)record;
    (void)size;
    (void)wait_ms;
    return -ENOENT;
}

static int64_t solo_rank_at(uint32_t node, uint32_t local_rank)
{
    return node == 0 && local_rank == 0 ? 0 : -ENOENT;
}

const struct ut_job_ops ut_job_solo = {"solo",       solo_present, solo_open,
                                       solo_publish, solo_lookup,  solo_rank_at};
