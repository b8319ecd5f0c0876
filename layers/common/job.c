/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank and number of processes, from the variables of the launcher, because uTofu has no function
 * for them.
 */
#include "job.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "ring.h"

/* In order: utofurun, or by hand; mpiexec of MPICH and srun --mpi=pmi2; mpirun of Open MPI; srun
 * --mpi=pmix. */
static const struct {
    const char *rank, *procs;
} launchers[] = {
    {"UTOFU_RANK", "UTOFU_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

static bool read_number(const char *name, uint32_t *value)
{
    const char *text = getenv(name);
    char *end;
    unsigned long n;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    n = strtoul(text, &end, 10);
    *value = (uint32_t)n;
    return *end == '\0' && n <= INT32_MAX;
}

static void read_launcher_variables(uint32_t *rank, uint32_t *procs)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (read_number(launchers[i].rank, rank) && read_number(launchers[i].procs, procs) &&
            *rank < *procs)
            return;
    *rank = 0;
    *procs = 1;
}

void lc_job_init(struct lc_job *job, const char *layer, const char *process)
{
    read_launcher_variables(&job->launch_rank, &job->procs);
    job->layer = layer;
    job->process = process;
    job->rank = job->launch_rank;
    job->log_rank = (int)job->launch_rank;
    job->num_partners = lc_num_partners(job->procs);
}

uint32_t lc_env_number(const char *name, uint32_t default_value)
{
    uint32_t seconds;

    return read_number(name, &seconds) && seconds > 0 ? seconds : default_value;
}

uint64_t lc_finalize_timeout_ns(void)
{
    return (lc_env_number("UTOFU_PEER_TIMEOUT", 30) + 2) * 1000000000ull;
}

uint64_t lc_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
