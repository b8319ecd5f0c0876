/* SPDX-License-Identifier: Apache-2.0 */
/* Outstanding look-ups. */
#include "bootstrap/request.h"
#include "bootstrap/ops.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t answers; /* number of answers to all requests */

uint32_t ut_job_num_answers(void)
{
    return __atomic_load_n(&answers, __ATOMIC_ACQUIRE);
}

void ut_job_requests_init(struct ut_job_requests *requests, void (*on_queued)(uint32_t rank))
{
    pthread_condattr_t attr;

    memset(requests, 0, sizeof(*requests));
    requests->on_queued = on_queued;
    STAILQ_INIT(&requests->queue);
    pthread_mutex_init(&requests->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&requests->done, &attr);
    pthread_condattr_destroy(&attr);
}

static struct ut_job_request *find_request(const struct ut_job_requests *requests, uint32_t rank)
{
    struct ut_job_request *r;

    return UT_HASH_OBJECT(r, by_rank, ut_hash_find(&requests->table, rank));
}

static struct ut_job_request *find_or_add(struct ut_job_requests *requests, uint32_t rank)
{
    struct ut_job_request *r = find_request(requests, rank);

    if (!r && ut_hash_reserve(&requests->table) && (r = calloc(1, sizeof(*r)))) {
        r->delay = UT_JOB_BACKOFF_MIN_US;
        ut_hash_insert(&requests->table, &r->by_rank, rank);
    }
    return r;
}

/* The request is neither queued nor with the launcher. */
static void remove_request(struct ut_job_requests *requests, struct ut_job_request *r)
{
    ut_hash_remove(&requests->table, &r->by_rank);
    free(r);
}

static int take_answer(struct ut_job_requests *requests, struct ut_job_request *r, void *record,
                       size_t *size)
{
    int result = r->result;

    if (result == 0) {
        memcpy(record, r->record, r->size);
        *size = r->size;
    }
    remove_request(requests, r);
    return result;
}

static bool take_cached(struct ut_job_requests *requests, uint32_t rank, void *record, size_t *size)
{
    if (!requests->at_hand || !requests->at_hand(rank, record, size))
        return false;
    struct ut_job_request *r = find_request(requests, rank);
    if (r && r->state == UT_JOB_REQUEST_IDLE)
        remove_request(requests, r);
    return true;
}

static void queue_request(struct ut_job_requests *requests, struct ut_job_request *r)
{
    uint32_t rank = (uint32_t)r->by_rank.key;

    r->state = UT_JOB_REQUEST_QUEUED;
    STAILQ_INSERT_TAIL(&requests->queue, r, queued);
    /* the launcher may answer inside this call */
    pthread_mutex_unlock(&requests->lock);
    requests->on_queued(rank);
    pthread_mutex_lock(&requests->lock);
}

static void sleep_until(struct ut_job_requests *requests, int64_t when)
{
    struct timespec t = {(time_t)(when / 1000000), (long)(when % 1000000) * 1000};

    pthread_cond_timedwait(&requests->done, &requests->lock, &t);
}

int ut_job_requests_wait(struct ut_job_requests *requests, uint32_t rank, void *record,
                         size_t *size, int wait_ms)
{
    int64_t deadline = ut_clock_us() + (int64_t)wait_ms * 1000;
    int rc;

    pthread_mutex_lock(&requests->lock);
    for (;;) {
        if (take_cached(requests, rank, record, size)) {
            rc = 0;
            break;
        }
        /* looked up each time, because another thread may have taken the answer */
        struct ut_job_request *r = find_or_add(requests, rank);
        int64_t now = ut_clock_us();

        if (!r) {
            rc = -ENOMEM;
            break;
        }
        if (r->state == UT_JOB_REQUEST_DONE) {
            rc = take_answer(requests, r, record, size);
            break;
        }
        if (requests->broken) {
            rc = requests->broken;
            break;
        }
        if (r->state == UT_JOB_REQUEST_IDLE && now >= r->next_try) {
            queue_request(requests, r);
            continue;
        }
        rc = r->state == UT_JOB_REQUEST_IDLE ? -EAGAIN : -EINPROGRESS;
        if (now >= deadline)
            break;
        sleep_until(requests, r->state == UT_JOB_REQUEST_IDLE && r->next_try < deadline
                                  ? r->next_try
                                  : deadline);
    }
    pthread_mutex_unlock(&requests->lock);
    return rc;
}

bool ut_job_requests_take(struct ut_job_requests *requests, uint32_t *rank)
{
    pthread_mutex_lock(&requests->lock);
    struct ut_job_request *r = STAILQ_FIRST(&requests->queue);

    if (r) {
        STAILQ_REMOVE_HEAD(&requests->queue, queued);
        r->state = UT_JOB_REQUEST_SENT;
        *rank = (uint32_t)r->by_rank.key;
    }
    pthread_mutex_unlock(&requests->lock);
    return r != NULL;
}

void ut_job_requests_answer(struct ut_job_requests *requests, uint32_t rank, int result,
                            const void *record, size_t size)
{
    pthread_mutex_lock(&requests->lock);
    struct ut_job_request *r = find_request(requests, rank);

    if (r && r->state == UT_JOB_REQUEST_SENT) {
        if (result == 0 && size > sizeof(r->record))
            result = -EPROTO;
        if (result == -EAGAIN) {
            r->state = UT_JOB_REQUEST_IDLE;
            r->next_try = ut_clock_us() + r->delay;
            r->delay = r->delay * 2 < UT_JOB_BACKOFF_MAX_US ? r->delay * 2 : UT_JOB_BACKOFF_MAX_US;
        } else {
            r->state = UT_JOB_REQUEST_DONE;
            r->result = result;
        }
        if (result == 0) {
            memcpy(r->record, record, size);
            r->size = size;
        }
    }
    __atomic_add_fetch(&answers, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&requests->done);
    pthread_mutex_unlock(&requests->lock);
}

void ut_job_requests_fail_all(struct ut_job_requests *requests, int result)
{
    pthread_mutex_lock(&requests->lock);
    requests->broken = result;
    __atomic_add_fetch(&answers, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&requests->done);
    pthread_mutex_unlock(&requests->lock);
}

void ut_job_requests_free(struct ut_job_requests *requests)
{
    struct ut_job_request *r;

    pthread_mutex_lock(&requests->lock);
    UT_HASH_FOREACH_ALL (r, &requests->table, by_rank)
        free(r);
    ut_hash_free(&requests->table);
    STAILQ_INIT(&requests->queue);
    pthread_mutex_unlock(&requests->lock);
}
