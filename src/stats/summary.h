/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_STATS=job: one summary for the job. When they end, processes send their counters up a tree
 * of ranks, over TCP; rank 0 prints the sums. The connections are made at set-up, so that the end
 * of a process is noticed at once, and no question to the launcher is needed after MPI_Finalize. A
 * process whose parent has ended connects to rank 0.
 *
 * Uses util, process, peers, and of this module totals, regions and records.
 */
#ifndef UT_STATS_SUMMARY_H
#define UT_STATS_SUMMARY_H

#include <stdbool.h>

#include "process/process.h"

/* Listens, and returns the contact that this process publishes: 0, or UTOFU_ERR_FATAL after an
 * error line. `ip`: an address of this host that other hosts reach; NULL: the job has one host. */
int ut_summary_open(const struct ut_job_info *job, const uint8_t ip[16], struct ut_contact *mine);
/* After publishing: looks up parent and children, and starts the thread. */
int ut_summary_start(void);
/* At the end: sends the counters of this process since `opened_at`. Takes a few seconds at most, at
 * rank 0 up to UTOFU_JOB_TIMEOUT while other processes are running. */
void ut_summary_finish(uint64_t opened_at);

#endif
