/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: from handles to the numbers that the recording has for them. */
#include <pthread.h>
#include <stdlib.h>

#include "mr.h"
#include "util/hash_table.h"

enum { PER_REQUEST = 4, MOST_DONE = UT_RECORD_MPI_NUMBERS / PER_REQUEST };

struct request {
    struct ut_hash_entry by_handle;
    int64_t number;
    bool wildcard, persistent, active;
    struct mr_posted posted;
};

static struct {
    pthread_mutex_t lock;
    struct ut_hash_table requests;
    int64_t num;
} known_requests = {.lock = PTHREAD_MUTEX_INITIALIZER};

int mr_num_wildcards;

static struct request *find_request(MPI_Request handle)
{
    struct request *r;

    UT_HASH_OBJECT(r, by_handle,
                   ut_hash_find(&known_requests.requests, (uint64_t)(uintptr_t)handle));
    return r;
}

/* Called with the lock held. */
static void count_wildcards(struct request *r, int change)
{
    if (r->wildcard)
        __atomic_add_fetch(&mr_num_wildcards, change, __ATOMIC_RELAXED);
}

int64_t mr_request_add(MPI_Request handle, bool wildcard, const struct mr_posted *persistent)
{
    struct request *r = malloc(sizeof(*r));
    int64_t number = -1;

    pthread_mutex_lock(&known_requests.lock);
    if (r && ut_hash_reserve(&known_requests.requests)) {
        *r = (struct request){
            .number = known_requests.num++, .wildcard = wildcard, .persistent = persistent != NULL};
        number = r->number;
        if (persistent)
            r->posted = *persistent;
        else
            count_wildcards(r, 1);
        r->active = !persistent;
        ut_hash_insert(&known_requests.requests, &r->by_handle, (uint64_t)(uintptr_t)handle);
    } else {
        free(r);
    }
    pthread_mutex_unlock(&known_requests.lock);
    return number;
}

static void remove_request(struct request *r)
{
    ut_hash_remove(&known_requests.requests, &r->by_handle);
    free(r);
}

void mr_started(uint64_t begin, int num, const MPI_Request requests[])
{
    bool same_call = false;

    pthread_mutex_lock(&known_requests.lock);
    for (int i = 0; i < num; i++) {
        struct request *r = find_request(requests[i]);
        if (!r || !r->persistent)
            continue;
        r->active = true;
        count_wildcards(r, 1);
        r->posted.numbers[r->posted.request_at] = r->number;
        mr_to->write(begin, r->posted.kind, same_call, r->posted.numbers, r->posted.n);
        same_call = true;
    }
    pthread_mutex_unlock(&known_requests.lock);
    if (!same_call)
        mr_to->end(begin);
}

/* The numbers of one request that is complete. Called with the lock held. */
static void describe_done(struct request *r, const MPI_Status *status, int64_t numbers[PER_REQUEST])
{
    int cancelled = 0;

    numbers[0] = r->number;
    numbers[1] = r->wildcard && status ? status->MPI_SOURCE : -1;
    numbers[2] = r->wildcard && status ? status->MPI_TAG : -1;
    if (status)
        PMPI_Test_cancelled(status, &cancelled);
    numbers[3] = cancelled != 0;
    count_wildcards(r, -1);
    r->active = false;
    if (!r->persistent)
        remove_request(r);
}

void mr_completed(uint64_t begin, int num, const MPI_Request was[], const int done[],
                  const MPI_Status statuses[])
{
    int64_t numbers[UT_RECORD_MPI_NUMBERS];
    unsigned int n = 0;
    bool same_call = false;

    pthread_mutex_lock(&known_requests.lock);
    for (int i = 0; i < num; i++) {
        struct request *r = find_request(was[done ? done[i] : i]);
        if (!r || !r->active)
            continue;
        if (n == MOST_DONE * PER_REQUEST) {
            mr_to->write(begin, UT_RECORD_MPI_WAIT, same_call, numbers, n);
            same_call = true;
            n = 0;
        }
        describe_done(r, statuses ? &statuses[i] : NULL, numbers + n);
        n += PER_REQUEST;
    }
    if (n > 0)
        mr_to->write(begin, UT_RECORD_MPI_WAIT, same_call, numbers, n);
    else
        mr_to->end(begin);
    pthread_mutex_unlock(&known_requests.lock);
}

void mr_request_forget(MPI_Request handle)
{
    pthread_mutex_lock(&known_requests.lock);
    struct request *r = find_request(handle);
    if (r) {
        if (r->active)
            count_wildcards(r, -1);
        remove_request(r);
    }
    pthread_mutex_unlock(&known_requests.lock);
}

MR_EXPORT int MPI_Request_free(MPI_Request *request)
{
    if (mr_enter())
        mr_request_forget(*request);
    return PMPI_Request_free(request);
}
