/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap of a job: rank, size and layout, and the address records of other processes. One
 * interface over PMIx, PMI-1, a job set up by hand and a job of one. Nothing here is collective:
 * every process publishes one small record once, and reads that of another when it first needs it.
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
    char id[256];         /* the launcher's name of the job; not unique over time */
    uint32_t mark;        /* 1 to 1023, in all processes of the job: of other jobs most likely
                           * another one; not secret */
    uint32_t rank, size;
    uint32_t node;       /* 0-based number of the node this process is on (or says it is on) */
    uint32_t num_nodes;  /* 0 when it is not known */
    uint32_t local_rank; /* among the processes of the node, in order of rank */
    uint32_t local_size;
};

/* Finds the job at the first call, within UTOFU_JOB_TIMEOUT; later calls return the same. 0, or a
 * negative errno after one error line; -EBUSY: not now, call again. */
int ut_job_open(const struct ut_job_info **info);

/* Publishes this process's record, once, at most UT_JOB_RECORD_MAX bytes. */
int ut_job_publish(const void *record, size_t size);

/* Reads the record of a rank. Waits for wait_ms at most (0: not at all; a late answer of the
 * launcher is kept for a later call). 0 and *size set; -EINPROGRESS: the launcher was asked and has
 * not answered; -EAGAIN: that rank has published nothing yet; -EBUSY: the launcher's channel must
 * not be used at this moment (MPI owns it); -ENOENT: no such rank; other: the job is broken. */
int ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms);

/* Changes with every answer of the launcher: until it does, who got -EINPROGRESS gets it again. */
uint32_t ut_job_answers(void);

/* Questions for records that were sent to the launcher until now; what is in memory that it shares
 * is read without one. */
uint64_t ut_job_questions(void);

/* The rank that the launcher's layout puts at (node, local rank), without communication: the rank,
 * or -ENOENT where the launcher's layout does not tell or has none there. A process may say that
 * it is on another node, so whoever asks verifies against the record. */
int64_t ut_job_rank_at(uint32_t node, uint32_t local_rank);

/* Is the job known to stay on one host? */
bool ut_job_is_on_one_host(const struct ut_job_info *info);

/* In a job of one: how many tasks srun started that are not connected, as it does without --mpi;
 * 0: no such thing is known. */
uint32_t ut_job_lonely_tasks(void);
#define UT_JOB_LONELY_REMEDY                                                                       \
    "use srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT to a folder that all of them can write"

/* Marks the calling thread as one of the library. Where MPI uses the launcher's socket, too
 * (PMI-1), and it could not be shared, look-ups of this thread return -EBUSY while threads of the
 * program might be inside MPI; then only calls of the program look up. */
void ut_job_set_background_thread(void);

#endif
