/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_STATS=job: one summary for the job. When processes end, they send their counters up a tree
 * of ranks, over TCP. Rank 0 prints the sums. The connections are made at set-up, so that the end
 * of a process is noticed immediately, and no query to the launcher is needed after MPI_Finalize. A
 * process whose parent has ended connects to rank 0.
 * Uses util, process, peers; and totals, regions and records of this module.
 */
#ifndef UT_STATS_SUMMARY_H
#define UT_STATS_SUMMARY_H

#include <stdbool.h>

#include "process/process.h"

/* Listens, and returns the contact that this process publishes. 0, or UTOFU_ERR_FATAL after an
 * error line. `ip`: an address of this host that other hosts reach. NULL: the job has one host. */
int ut_summary_open(const struct ut_job_info *job, const uint8_t ip[16], struct ut_contact *mine);
/* Called after publishing: looks up parent and children, and starts the thread. */
int ut_summary_start(void);
/* Called at the end: sends the counters of this process since `opened_at`. Takes at most a few
 * seconds; rank 0 waits up to UTOFU_JOB_TIMEOUT for running processes. */
void ut_summary_finish(uint64_t opened_at);

#endif
