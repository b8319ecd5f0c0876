/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outstanding look-ups, for launchers that answer from another thread. One entry for each rank that
 * was asked for; it exists until its answer is taken, so an answer that comes after the caller has
 * given up is kept for the next call.
 */
#ifndef UT_BOOTSTRAP_REQUEST_H
#define UT_BOOTSTRAP_REQUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/job.h"

enum ut_job_request_state {
    UT_JOB_REQUEST_IDLE,  /* the last answer was "not yet": ask again from next_try on */
    UT_JOB_REQUEST_ASKED, /* for ut_job_requests_take() */
    UT_JOB_REQUEST_SENT,  /* the launcher has it */
    UT_JOB_REQUEST_DONE,
};

enum { UT_JOB_REQUEST_BUCKETS = 256 };

struct ut_job_request {
    struct ut_job_request *next;       /* of its bucket */
    struct ut_job_request *next_asked; /* while ASKED */
    uint32_t rank;
    enum ut_job_request_state state;
    int result;
    int64_t next_try, delay; /* microseconds */
    size_t size;
    uint8_t record[UT_JOB_RECORD_MAX];
};

struct ut_job_requests {
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct ut_job_request *buckets[UT_JOB_REQUEST_BUCKETS];
    struct ut_job_request *first_asked, **last_asked; /* in the order in which they were asked */
    int broken;                                       /* from now on every request ends with this */
    void (*asked)(uint32_t rank); /* called without the lock when a request was put to ASKED */
    /* NULL, or reads a record that can be had without asking; called with the lock */
    bool (*at_hand)(uint32_t rank, void *record, size_t *size);
};

void ut_job_requests_init(struct ut_job_requests *requests, void (*asked)(uint32_t rank));

/* ut_job_lookup() of job.h. */
int ut_job_requests_wait(struct ut_job_requests *requests, uint32_t rank, void *record,
                         size_t *size, int wait_ms);

/* Moves the request that was ASKED first to SENT, and gives its rank; false: there is none. */
bool ut_job_requests_take(struct ut_job_requests *requests, uint32_t *rank);

/* The answer: 0 with a record, -EAGAIN for not yet, or another negative errno. */
void ut_job_requests_answer(struct ut_job_requests *requests, uint32_t rank, int result,
                            const void *record, size_t size);

/* No request will ever be answered again. */
void ut_job_requests_break(struct ut_job_requests *requests, int result);

void ut_job_requests_free(struct ut_job_requests *requests);

#endif
