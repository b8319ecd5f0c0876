/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who am I, and where are the others? One small interface over PMIx, PMI-1, a job set up by hand
 * and a job of one. Nothing here is collective: every process publishes one small blob once, and
 * reads another's blob when it first needs it.
 *
 * Uses util only. Every function may be called from any thread.
 */
#ifndef UT_JOB_JOB_H
#define UT_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UT_JOB_BLOB_MAX = 255 };

struct ut_job_info {
    const char *launcher; /* "pmix", "pmi1", "hand" or "solo" */
    char id[256];         /* the launcher's name of the job; not unique over time */
    uint32_t rank, size;
    uint32_t node;       /* 0-based number of the node this process is on (or says it is on) */
    uint32_t num_nodes;  /* 0 when the launcher does not tell */
    uint32_t local_rank; /* among the processes of the node, in order of rank */
    uint32_t local_size;
};

/* Finds the job at the first call (UTOFU_JOB_TIMEOUT bounds it), later calls return the same.
 * 0, or a negative errno after one error line that says what was tried and what to do. */
int ut_job_open(const struct ut_job_info **info);

/* Publishes this process's blob, once, at most UT_JOB_BLOB_MAX bytes. */
int ut_job_publish(const void *blob, size_t size);

/* Reads the blob of a rank. Never waits longer than wait_ms (0: ask once, do not wait; a request
 * that the launcher answers later is remembered and completed by a later call).
 * 0 and *size set; -EAGAIN: that rank has published nothing yet; -EBUSY: the launcher's channel
 * must not be used at this moment (MPI owns it); -ENOENT: no such rank; other: the job is broken.
 */
int ut_job_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms);

/* The rank that the launcher's layout puts at (node, local rank), without communication: the rank,
 * or -ENOENT where the launcher's layout does not tell or has none there. A process may say that
 * it is on another node, so whoever asks verifies against the blob. */
int64_t ut_job_rank_at(uint32_t node, uint32_t local_rank);

/* The calling thread is the library's own, which runs without the program knowing. Where the
 * launcher's channel is shared with an MPI library (PMI-1), its look-ups get -EBUSY as long as the
 * program's threads might be inside MPI; the program's own calls must then do them. */
void ut_job_set_background_thread(void);

#endif
