/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap of a job: rank, size and layout, and the address records of other processes. One
 * interface for PMIx, PMI-1, a job from environment variables, and a job of one process. No
 * function is collective: each process publishes one small record once, and reads the record of
 * another process when it first needs it.
 * Uses util only. Any thread may call any function.
 */
#ifndef UT_BOOTSTRAP_JOB_H
#define UT_BOOTSTRAP_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UT_JOB_RECORD_MAX = 255 };

struct ut_job_info {
    const char *launcher; /* "pmix", "pmi1", "utofurun", "hand" or "solo" */
    char id[256];         /* the launcher's name of the job, which may be reused */
    uint32_t mark;        /* 1 to 1023, equal in all processes of the job, and most likely different
                           * in other jobs; not secret */
    uint32_t rank, size;
    uint32_t node;       /* node number of this process, from 0 (or UTOFU_NODE) */
    uint32_t num_nodes;  /* 0: unknown */
    uint32_t local_rank; /* rank among the processes of the node */
    uint32_t local_size;
};

/* Finds the job at the first call, within UTOFU_JOB_TIMEOUT. Later calls return the same. 0, or a
 * negative errno after one error line. -EBUSY: not possible now, call again. */
int ut_job_open(const struct ut_job_info **info);

/* Publishes the record of this process, once, at most UT_JOB_RECORD_MAX bytes. */
int ut_job_publish(const void *record, size_t size);

/* Reads the record of a rank. Waits at most wait_ms (0: not at all; a late answer of the launcher
 * is kept for a later call). 0: *size is set. -EINPROGRESS: the launcher has not answered yet.
 * -EAGAIN: the rank has not published yet. -EBUSY: MPI is using the launcher's channel. -ENOENT: no
 * such rank. Another errno: the job is broken. */
int ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms);

/* Explains why the record of a rank is missing, if more is known than "has not called the library
 * yet". Writes text that follows "rank N ". False: nothing more is known. */
bool ut_job_explain_absence(uint32_t rank, char *text, size_t size);

/* Waits until every process of the job has called it, at most wait_ms. For programs that end right
 * after look-ups: PMIx of some launchers does not tell the records of a host whose processes have
 * all ended. Elsewhere it returns at once. Call it once, at the end. */
void ut_job_leave_together(int wait_ms);

/* A number that changes with every answer of the launcher. Until it changes, a look-up that
 * returned -EINPROGRESS returns the same again. */
uint32_t ut_job_num_answers(void);

/* The number of queries for records that were sent to the launcher. Records in memory shared with
 * the launcher need no query. */
uint64_t ut_job_num_questions(void);

/* The rank at (node, local rank) by the launcher's layout, without communication. -ENOENT: the
 * layout is unknown, or has no such process. A process may claim another node, so the caller must
 * compare the record. */
int64_t ut_job_rank_at(uint32_t node, uint32_t local_rank);

/* The largest number of processes on a node, by the launcher's layout. If the layout is unknown, or
 * UTOFU_NODE overrides it: UTOFU_LOCAL_SIZE, or the number of processes on this node. Visits all
 * nodes. */
uint32_t ut_job_max_per_node(void);

/* True if the job is known to run on one host. */
bool ut_job_is_on_one_host(const struct ut_job_info *info);

/* For a job of one process: the number of unconnected tasks that srun has started, as it does
 * without --mpi. 0: none known. */
uint32_t ut_job_unconnected_tasks(void);
#define UT_JOB_UNCONNECTED_REMEDY                                                                  \
    "use srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT to a folder that all of them can write"

/* Marks the calling thread as a thread of the library. If MPI also uses the launcher's socket
 * (PMI-1), and the socket could not be shared, look-ups of this thread return -EBUSY while threads
 * of the program might be inside MPI. Then only calls of the program look up records. */
void ut_job_set_background_thread(void);

#endif
