/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outstanding look-ups, for launchers that answer in another thread. Each requested rank has one
 * entry, which exists until the answer is taken. A late answer is kept for the next call.
 */
#ifndef UT_BOOTSTRAP_REQUEST_H
#define UT_BOOTSTRAP_REQUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "bootstrap/job.h"
#include "util/hash_table.h"

enum ut_job_request_state {
    UT_JOB_REQUEST_IDLE,   /* the last answer was "not yet": requested again from next_try on */
    UT_JOB_REQUEST_QUEUED, /* in the queue for ut_job_requests_take() */
    UT_JOB_REQUEST_SENT,   /* sent to the launcher */
    UT_JOB_REQUEST_DONE,
};

struct ut_job_request {
    struct ut_hash_entry by_rank;
    STAILQ_ENTRY(ut_job_request) queued; /* while QUEUED */
    enum ut_job_request_state state;
    int result;
    int64_t next_try, delay; /* microseconds */
    size_t size;
    uint8_t record[UT_JOB_RECORD_MAX];
};

struct ut_job_requests {
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct ut_hash_table table;
    STAILQ_HEAD(ut_job_request_queue, ut_job_request) queue; /* the oldest first */
    int broken; /* an error with which every request ends from now on; 0: none */
    void (*on_queued)(uint32_t rank); /* called without the lock when a request has become QUEUED */
    /* reads a record that is available without a query; called with the lock held; may be NULL */
    bool (*at_hand)(uint32_t rank, void *record, size_t *size);
};

void ut_job_requests_init(struct ut_job_requests *requests, void (*on_queued)(uint32_t rank));

/* Implements ut_job_lookup() of job.h. */
int ut_job_requests_wait(struct ut_job_requests *requests, uint32_t rank, void *record,
                         size_t *size, int wait_ms);

/* Sets the oldest QUEUED request to SENT, and returns its rank. False: the queue is empty. */
bool ut_job_requests_take(struct ut_job_requests *requests, uint32_t *rank);

/* Delivers an answer: 0 with a record, -EAGAIN for "not yet", or another negative errno. */
void ut_job_requests_answer(struct ut_job_requests *requests, uint32_t rank, int result,
                            const void *record, size_t size);

/* From now on every request ends with `result`. */
void ut_job_requests_fail_all(struct ut_job_requests *requests, int result);

void ut_job_requests_free(struct ut_job_requests *requests);

#endif
