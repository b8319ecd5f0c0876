/* SPDX-License-Identifier: Apache-2.0 */
/* This process in its job, numbers from environment variables, and the clock. */
#ifndef LC_JOB_H
#define LC_JOB_H

#include <stdint.h>

#include "log.h"

#pragma GCC visibility push(hidden)

struct lc_job {
    const char *layer;    /* the first word of log lines, e.g. "acp" */
    const char *process;  /* what log lines call a process: "rank" or "task" */
    int log_rank;         /* the rank in log lines; -1: unknown */
    uint32_t launch_rank; /* rank that the launcher has given */
    uint32_t rank;        /* rank in the layer; differs only if the program chooses it */
    uint32_t procs, num_partners;
};

#define lc_job_log(job, ...)           lc_log((job)->layer, (job)->log_rank, __VA_ARGS__)
#define lc_job_check_rc(job, rc, call) lc_check_rc((job)->layer, (job)->log_rank, rc, call)

void lc_job_init(struct lc_job *job, const char *layer, const char *process);
uint32_t lc_env_number(const char *name, uint32_t default_value);
/* How long finalization waits for other processes, one of which may have ended. */
uint64_t lc_finalize_timeout_ns(void);
uint64_t lc_now_ns(void);

#pragma GCC visibility pop

#endif
