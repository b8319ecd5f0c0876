/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of MPI that the layer replaces: those that start, complete and free requests. A
 * call without requests of the layer goes to MPI unchanged; for a mixed array, MPI gets
 * MPI_REQUEST_NULL in place of the layer's requests.
 */
#include "handles.h"
#include "mpilayer.h"
#include "request.h"
#include "rounds.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

/* The requests of a call. */
struct set {
    int count;
    struct pr_request **own; /* NULL for requests of MPI */
    MPI_Request *rest;       /* the requests of MPI */
    bool has_own;
};

/* NULL for requests of MPI, and for requests that fell back to MPI. */
static struct pr_request *find_own(MPI_Request handle)
{
    struct pr_request *r = pr_request_find(handle);

    return r != NULL && !r->fallback ? r : NULL;
}

static bool split_requests(struct set *s, int count, const MPI_Request requests[])
{
    *s = (struct set){.count = count};
    if (pr_num_requests == 0 || count <= 0 || requests == NULL)
        return false;
    for (int i = 0; i < count && !s->has_own; i++)
        s->has_own = find_own(requests[i]) != NULL;
    if (!s->has_own)
        return false;
    s->own = malloc((size_t)count * sizeof(struct pr_request *));
    s->rest = malloc((size_t)count * sizeof(*s->rest));
    if (s->own == NULL || s->rest == NULL) {
        free(s->own);
        free(s->rest);
        return false;
    }
    for (int i = 0; i < count; i++) {
        s->own[i] = find_own(requests[i]);
        s->rest[i] = s->own[i] != NULL ? MPI_REQUEST_NULL : requests[i];
    }
    return true;
}

static void merge_requests(struct set *s, MPI_Request requests[])
{
    for (int i = 0; i < s->count; i++)
        if (s->own[i] == NULL)
            requests[i] = s->rest[i];
    free(s->own);
    free(s->rest);
}

/* Lets MPI make progress if none of its requests is tested. */
static void mpi_progress(const struct pr_request *r)
{
    int flag;

    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm->private, &flag, MPI_STATUS_IGNORE);
}

static int raise_unless_ok(struct pr_request *r, int code)
{
    return code == MPI_SUCCESS ? code : pr_request_raise(r, code);
}

static int start_own(struct pr_request *r)
{
    int code = pr_request_start(r);

    if (code == MPI_ERR_REQUEST)
        pr_warn("%s: MPI_Start of a request that is active", r->call);
    return code;
}

int MPI_Start(MPI_Request *request)
{
    if (pr_num_requests == 0)
        return PMPI_Start(request);
    pr_lock();
    struct pr_request *r = pr_request_find(*request);
    bool own = r != NULL && !r->fallback;
    if (r != NULL && r->fallback)
        r->rounds++;
    int code = own ? start_own(r) : MPI_SUCCESS;
    pr_unlock();
    return own ? raise_unless_ok(r, code) : PMPI_Start(request);
}

/* In an array with requests of the layer, those of MPI are started one by one as well. */
int MPI_Startall(int count, MPI_Request requests[])
{
    bool any = false;
    int first = MPI_SUCCESS;

    if (pr_num_requests == 0 || requests == NULL)
        return PMPI_Startall(count, requests);
    pr_lock();
    for (int i = 0; i < count && !any; i++)
        any = pr_request_find(requests[i]) != NULL;
    pr_unlock();
    if (!any)
        return PMPI_Startall(count, requests);
    for (int i = 0; i < count; i++) {
        int code = MPI_Start(&requests[i]);

        if (first == MPI_SUCCESS)
            first = code;
    }
    return first;
}

/* Called with the lock. */
static int complete_own(struct pr_request *r, MPI_Status *status)
{
    int code = pr_request_result(r);

    pr_empty_status(status);
    return code;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (pr_num_requests == 0)
        return PMPI_Wait(request, status);
    pr_lock();
    struct pr_request *r = find_own(*request);
    int code = MPI_SUCCESS;
    if (r != NULL && r->state == PR_INACTIVE) {
        pr_empty_status(status);
    } else if (r != NULL) {
        pr_request_wait(r);
        code = complete_own(r, status);
    }
    pr_unlock();
    return r != NULL ? raise_unless_ok(r, code) : PMPI_Wait(request, status);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (pr_num_requests == 0)
        return PMPI_Test(request, flag, status);
    pr_lock();
    struct pr_request *r = find_own(*request);
    int code = MPI_SUCCESS;
    if (r != NULL) {
        bool active = r->state != PR_INACTIVE;

        *flag = pr_request_test_and_probe(r);
        if (*flag && active)
            code = complete_own(r, status);
        else if (*flag)
            pr_empty_status(status);
    }
    pr_unlock();
    return r != NULL ? raise_unless_ok(r, code) : PMPI_Test(request, flag, status);
}

int PR_PLAIN_CALL(Request_get_status)(pr_request_arg request, int *flag, MPI_Status *status)
{
    if (pr_num_requests == 0)
        return PR_PLAIN_NEXT(Request_get_status)(request, flag, status);
    pr_lock();
    struct pr_request *r = find_own((MPI_Request)request);
    if (r != NULL) {
        *flag = pr_request_test_and_probe(r);
        if (*flag)
            pr_empty_status(status);
    }
    pr_unlock();
    return r != NULL ? MPI_SUCCESS : PR_PLAIN_NEXT(Request_get_status)(request, flag, status);
}

/* Completes requests that are all complete; `code`: of the whole call. */
static int complete_set(struct set *s, MPI_Status statuses[], int code, struct pr_request **bad)
{
    bool ignore = statuses == MPI_STATUSES_IGNORE;

    for (int i = 0; i < s->count; i++) {
        if (s->own[i] == NULL)
            continue;
        int own = complete_own(s->own[i], ignore ? MPI_STATUS_IGNORE : &statuses[i]);
        if (own != MPI_SUCCESS && *bad == NULL) {
            *bad = s->own[i];
            for (int k = 0; !ignore && code == MPI_SUCCESS && k < s->count; k++)
                statuses[k].MPI_ERROR = MPI_SUCCESS;
        }
        if (!ignore && (*bad != NULL || code != MPI_SUCCESS))
            statuses[i].MPI_ERROR = own;
    }
    return *bad != NULL && code == MPI_SUCCESS ? MPI_ERR_IN_STATUS : code;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct set s;
    struct pr_request *bad = NULL;

    if (pr_num_requests == 0)
        return PMPI_Waitall(count, requests, statuses);
    pr_lock();
    if (!split_requests(&s, count, requests)) {
        pr_unlock();
        return PMPI_Waitall(count, requests, statuses);
    }
    for (int i = 0; i < count; i++)
        if (s.own[i] != NULL)
            pr_request_wait(s.own[i]);
    pr_unlock();
    int mpi_code = PMPI_Waitall(count, s.rest, statuses);
    pr_lock();
    int code = complete_set(&s, statuses, mpi_code, &bad);
    merge_requests(&s, requests);
    pr_unlock();
    return mpi_code == MPI_SUCCESS && bad != NULL ? pr_request_raise(bad, code) : code;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct set s;
    struct pr_request *bad = NULL, *some = NULL;
    bool all_done = true;

    if (pr_num_requests == 0)
        return PMPI_Testall(count, requests, flag, statuses);
    pr_lock();
    if (!split_requests(&s, count, requests)) {
        pr_unlock();
        return PMPI_Testall(count, requests, flag, statuses);
    }
    for (int i = 0; i < count; i++) {
        if (s.own[i] == NULL)
            continue;
        some = s.own[i];
        all_done = pr_request_test_and_probe(some) && all_done;
    }
    pr_unlock();
    int code = MPI_SUCCESS;
    *flag = 0;
    if (all_done)
        code = PMPI_Testall(count, s.rest, flag, statuses);
    else
        mpi_progress(some);
    int mpi_code = code;
    pr_lock();
    if (*flag)
        code = complete_set(&s, statuses, code, &bad);
    merge_requests(&s, requests);
    pr_unlock();
    return mpi_code == MPI_SUCCESS && bad != NULL ? pr_request_raise(bad, code) : code;
}

/* The index of the first complete active request of the layer, or -1. Called with the lock. */
static int complete_one(struct set *s, bool *active)
{
    *active = false;
    for (int i = 0; i < s->count; i++) {
        if (s->own[i] == NULL || s->own[i]->state == PR_INACTIVE)
            continue;
        *active = true;
        if (pr_request_test_and_probe(s->own[i]))
            return i;
    }
    return -1;
}

/* Tests all requests once. *flag without an index: no request is active. */
static int test_any(struct set *s, int *index, int *flag, MPI_Status *status,
                    struct pr_request **bad)
{
    bool active;

    pr_lock();
    int i = complete_one(s, &active);
    int code = i >= 0 ? complete_own(s->own[i], status) : MPI_SUCCESS;
    pr_unlock();
    if (i >= 0) {
        *bad = code != MPI_SUCCESS ? s->own[i] : NULL;
        *index = i;
        *flag = 1;
        return code;
    }
    code = PMPI_Testany(s->count, s->rest, index, flag, status);
    if (active && *flag && *index == MPI_UNDEFINED)
        *flag = 0;
    return code;
}

/* Called after each poll; from time to time it does the other work of a waiting call. */
static void check_waiting(struct set *s, unsigned int polls)
{
    if (polls % 64 != 0)
        return;
    pr_lock();
    for (int i = 0; i < s->count; i++)
        if (s->own[i] != NULL && s->own[i]->state == PR_ACTIVE)
            pr_xfer_check_peers(&s->own[i]->xfer);
    pr_unlock();
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct set s;
    struct pr_request *bad = NULL;

    if (pr_num_requests == 0)
        return PMPI_Testany(count, requests, index, flag, status);
    pr_lock();
    bool mixed = split_requests(&s, count, requests);
    pr_unlock();
    if (!mixed)
        return PMPI_Testany(count, requests, index, flag, status);
    int code = test_any(&s, index, flag, status, &bad);
    merge_requests(&s, requests);
    return bad != NULL ? pr_request_raise(bad, code) : code;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct set s;
    struct pr_request *bad = NULL;
    int flag = 0, code = MPI_SUCCESS;

    if (pr_num_requests == 0)
        return PMPI_Waitany(count, requests, index, status);
    pr_lock();
    bool mixed = split_requests(&s, count, requests);
    pr_unlock();
    if (!mixed)
        return PMPI_Waitany(count, requests, index, status);
    for (unsigned int polls = 1; !flag && code == MPI_SUCCESS; polls++) {
        code = test_any(&s, index, &flag, status, &bad);
        check_waiting(&s, polls);
    }
    merge_requests(&s, requests);
    return bad != NULL ? pr_request_raise(bad, code) : code;
}

/* Tests all requests once: those of MPI, then those of the layer. */
static int test_some(struct set *s, int *outcount, int indices[], MPI_Status statuses[],
                     struct pr_request **bad)
{
    bool ignore = statuses == MPI_STATUSES_IGNORE, active = false;
    int code = PMPI_Testsome(s->count, s->rest, outcount, indices, statuses);
    int n = *outcount == MPI_UNDEFINED ? 0 : *outcount;

    pr_lock();
    for (int i = 0; i < s->count; i++) {
        struct pr_request *r = s->own[i];

        if (r == NULL || r->state == PR_INACTIVE)
            continue;
        active = true;
        if (!pr_request_test_and_probe(r))
            continue;
        int own = complete_own(r, ignore ? MPI_STATUS_IGNORE : &statuses[n]);
        if (own != MPI_SUCCESS && *bad == NULL) {
            *bad = r;
            for (int k = 0; !ignore && code == MPI_SUCCESS && k < n; k++)
                statuses[k].MPI_ERROR = MPI_SUCCESS;
        }
        if (!ignore && (*bad != NULL || code != MPI_SUCCESS))
            statuses[n].MPI_ERROR = own;
        indices[n++] = i;
    }
    pr_unlock();
    if (n > 0 || active)
        *outcount = n;
    return *bad != NULL && code == MPI_SUCCESS ? MPI_ERR_IN_STATUS : code;
}

int MPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status statuses[])
{
    struct set s;
    struct pr_request *bad = NULL;

    if (pr_num_requests == 0)
        return PMPI_Testsome(count, requests, outcount, indices, statuses);
    pr_lock();
    bool mixed = split_requests(&s, count, requests);
    pr_unlock();
    if (!mixed)
        return PMPI_Testsome(count, requests, outcount, indices, statuses);
    int code = test_some(&s, outcount, indices, statuses, &bad);
    merge_requests(&s, requests);
    return bad != NULL ? pr_request_raise(bad, code) : code;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status statuses[])
{
    struct set s;
    struct pr_request *bad = NULL;
    int code = MPI_SUCCESS;

    if (pr_num_requests == 0)
        return PMPI_Waitsome(count, requests, outcount, indices, statuses);
    pr_lock();
    bool mixed = split_requests(&s, count, requests);
    pr_unlock();
    if (!mixed)
        return PMPI_Waitsome(count, requests, outcount, indices, statuses);
    *outcount = 0;
    for (unsigned int polls = 1; *outcount == 0 && code == MPI_SUCCESS; polls++) {
        code = test_some(&s, outcount, indices, statuses, &bad);
        check_waiting(&s, polls);
    }
    merge_requests(&s, requests);
    return bad != NULL ? pr_request_raise(bad, code) : code;
}

/* An active request is not freed. */
int MPI_Request_free(MPI_Request *request)
{
    if (pr_num_requests == 0)
        return PMPI_Request_free(request);
    pr_lock();
    struct pr_request *r = pr_request_find(*request);
    bool active = r != NULL && r->state != PR_INACTIVE;
    if (active)
        pr_warn("%s: MPI_Request_free of a request that is active", r->call);
    else if (r != NULL)
        pr_request_destroy(r);
    pr_unlock();
    return active ? pr_request_raise(r, MPI_ERR_REQUEST) : PMPI_Request_free(request);
}

int MPI_Cancel(MPI_Request *request)
{
    if (pr_num_requests == 0)
        return PMPI_Cancel(request);
    pr_lock();
    struct pr_request *r = find_own(*request);
    if (r != NULL)
        pr_warn("%s: MPI_Cancel of a request of a collective operation", r->call);
    pr_unlock();
    return r != NULL ? pr_request_raise(r, MPI_ERR_REQUEST) : PMPI_Cancel(request);
}
