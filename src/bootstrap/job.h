/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap of a job: rank, size and layout, and the address records of other processes. One
 * interface over PMIx, PMI-1, a job set up by hand and a job of one. No function is collective:
 * every process publishes one small record once, and reads another's when it first needs it.
 *
 * Uses util only. Every function may be called from any thread.
 */
#ifndef UT_BOOTSTRAP_JOB_H
#define UT_BOOTSTRAP_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UT_JOB_RECORD_MAX = 255 };

struct ut_job_info {
    const char *launcher; /* "pmix", "pmi1", "utofurun", "hand" or "solo" */
    char id[256];         /* the launcher's name for the job; not unique over time */
    uint32_t mark;        /* 1 to 1023, the same in all processes of the job, and most likely
                           * different in other jobs; not secret */
    uint32_t rank, size;
    uint32_t node;       /* number of this process's node, from 0 (or UTOFU_NODE) */
    uint32_t num_nodes;  /* 0: unknown */
    uint32_t local_rank; /* among the processes of the node, in order of rank */
    uint32_t local_size;
};

/* Finds the job at the first call, within UTOFU_JOB_TIMEOUT; later calls return the same result. 0,
 * or a negative errno after one error line; -EBUSY: not possible now, call again. */
int ut_job_open(const struct ut_job_info **info);

/* Publishes this process's record, once, at most UT_JOB_RECORD_MAX bytes. */
int ut_job_publish(const void *record, size_t size);

/* Reads the record of a rank. Waits for wait_ms at most (with 0 not at all; a late answer of the
 * launcher is kept for a later call). 0 and *size set; -EINPROGRESS: the launcher was asked and has
 * not answered; -EAGAIN: that rank has not published yet; -EBUSY: MPI uses the launcher's channel
 * at this moment; -ENOENT: no such rank; other: the job is broken. */
int ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms);

/* Why a rank's record is missing, as far as it is known here beyond "has not called the library
 * yet": a text for behind "rank N ". False: no more is known. */
bool ut_job_explain_absence(uint32_t rank, char *text, size_t size);

/* Changes with every answer of the launcher. Until then -EINPROGRESS look-ups stay so. */
uint32_t ut_job_num_answers(void);

/* The number of questions for records that were sent to the launcher. Records in memory shared with
 * the launcher are read without a question. */
uint64_t ut_job_num_questions(void);

/* The rank that the launcher's layout has at (node, local rank), without communication; -ENOENT:
 * the layout is unknown, or has no such place. A process may claim another node, so the caller must
 * compare with the record. */
int64_t ut_job_rank_at(uint32_t node, uint32_t local_rank);

/* The largest number of processes on a node, by the launcher's layout; where that is unknown, or
 * UTOFU_NODE replaces it, UTOFU_LOCAL_SIZE or the number on this node. Takes a pass over the
 * nodes. */
uint32_t ut_job_max_per_node(void);

/* Is the job known to stay on one host? */
bool ut_job_is_on_one_host(const struct ut_job_info *info);

/* In a job of one: the number of unconnected tasks that srun started, as it does without --mpi; 0:
 * none known. */
uint32_t ut_job_unconnected_tasks(void);
#define UT_JOB_UNCONNECTED_REMEDY                                                                  \
    "use srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT to a folder that all of them can write"

/* Marks the calling thread as one of the library. Where MPI uses the launcher's socket, too
 * (PMI-1), and the socket could not be shared, look-ups of this thread return -EBUSY while threads
 * of the program might be inside MPI; then only calls of the program look up records. */
void ut_job_set_background_thread(void);

#endif
