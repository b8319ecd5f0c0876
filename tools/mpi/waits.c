/* SPDX-License-Identifier: Apache-2.0 */
/* Waits, tests and starts of requests. */
#include <stdlib.h>
#include <string.h>

#include "fortran.h"
#include "mr.h"

/* The handles of a call, which sets those that are complete to MPI_REQUEST_NULL. */
struct handles {
    MPI_Request inline_requests[MR_INLINE], *all;
    MPI_Status inline_statuses[MR_INLINE], *statuses;
};

static bool open_handles(struct handles *h, int num, bool with_statuses)
{
    bool many = num > MR_INLINE;

    h->all = many ? malloc((size_t)num * sizeof(*h->all)) : h->inline_requests;
    h->statuses = !with_statuses ? NULL
                  : many         ? malloc((size_t)num * sizeof(*h->statuses))
                                 : h->inline_statuses;
    return h->all && (h->statuses || !with_statuses);
}

static bool keep_handles(struct handles *h, int num, const MPI_Request requests[], bool ignored)
{
    if (num < 0 || !open_handles(h, num, ignored && mr_num_wildcards > 0))
        return false;
    memcpy(h->all, requests, (size_t)num * sizeof(*requests));
    return true;
}

static void close_handles(struct handles *h)
{
    if (h->all != h->inline_requests)
        free(h->all);
    if (h->statuses != h->inline_statuses)
        free(h->statuses);
}

MR_EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (!mr_enter())
        return PMPI_Wait(request, status);
    MPI_Status own;
    MPI_Request was = *request;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Wait(request, status);
    mr_depth--;
    if (rc == MPI_SUCCESS)
        mr_completed(begin, 1, &was, NULL, status);
    else
        mr_to->end(begin);
    return rc;
}

MR_EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (!mr_enter())
        return PMPI_Test(request, flag, status);
    MPI_Status own;
    MPI_Request was = *request;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Test(request, flag, status);
    mr_depth--;
    if (rc == MPI_SUCCESS && *flag)
        mr_completed(begin, 1, &was, NULL, status);
    else
        mr_to->poll(begin);
    return rc;
}

MR_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct handles h;
    bool ignored = statuses == MPI_STATUSES_IGNORE;

    if (!mr_enter() || !keep_handles(&h, count, requests, ignored))
        return PMPI_Waitall(count, requests, statuses);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Waitall(count, requests, h.statuses ? h.statuses : statuses);
    mr_depth--;
    if (rc == MPI_SUCCESS)
        mr_completed(begin, count, h.all, NULL, ignored ? h.statuses : statuses);
    else
        mr_to->end(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct handles h;
    bool ignored = statuses == MPI_STATUSES_IGNORE;

    if (!mr_enter() || !keep_handles(&h, count, requests, ignored))
        return PMPI_Testall(count, requests, flag, statuses);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Testall(count, requests, flag, h.statuses ? h.statuses : statuses);
    mr_depth--;
    if (rc == MPI_SUCCESS && *flag)
        mr_completed(begin, count, h.all, NULL, ignored ? h.statuses : statuses);
    else
        mr_to->poll(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct handles h;

    if (!mr_enter() || !keep_handles(&h, count, requests, false))
        return PMPI_Waitany(count, requests, index, status);
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Waitany(count, requests, index, status);
    mr_depth--;
    if (rc == MPI_SUCCESS && *index != MPI_UNDEFINED)
        mr_completed(begin, 1, h.all, index, status);
    else
        mr_to->end(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
                          MPI_Status *status)
{
    struct handles h;

    if (!mr_enter() || !keep_handles(&h, count, requests, false))
        return PMPI_Testany(count, requests, index, flag, status);
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Testany(count, requests, index, flag, status);
    mr_depth--;
    if (rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED)
        mr_completed(begin, 1, h.all, index, status);
    else
        mr_to->poll(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[],
                           MPI_Status statuses[])
{
    struct handles h;
    bool ignored = statuses == MPI_STATUSES_IGNORE;

    if (!mr_enter() || !keep_handles(&h, count, requests, ignored))
        return PMPI_Waitsome(count, requests, outcount, indices, statuses);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Waitsome(count, requests, outcount, indices, h.statuses ? h.statuses : statuses);
    mr_depth--;
    if (rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED)
        mr_completed(begin, *outcount, h.all, indices, ignored ? h.statuses : statuses);
    else
        mr_to->end(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[],
                           MPI_Status statuses[])
{
    struct handles h;
    bool ignored = statuses == MPI_STATUSES_IGNORE;

    if (!mr_enter() || !keep_handles(&h, count, requests, ignored))
        return PMPI_Testsome(count, requests, outcount, indices, statuses);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Testsome(count, requests, outcount, indices, h.statuses ? h.statuses : statuses);
    mr_depth--;
    if (rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED && *outcount > 0)
        mr_completed(begin, *outcount, h.all, indices, ignored ? h.statuses : statuses);
    else
        mr_to->poll(begin);
    close_handles(&h);
    return rc;
}

MR_EXPORT int MPI_Start(MPI_Request *request)
{
    if (!mr_enter())
        return PMPI_Start(request);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Start(request);
    mr_depth--;
    mr_started(begin, rc == MPI_SUCCESS, request);
    return rc;
}

MR_EXPORT int MPI_Startall(int count, MPI_Request requests[])
{
    if (!mr_enter())
        return PMPI_Startall(count, requests);
    uint64_t begin = mr_to->begin();
    mr_depth++;
    int rc = PMPI_Startall(count, requests);
    mr_depth--;
    mr_started(begin, rc == MPI_SUCCESS ? count : 0, requests);
    return rc;
}
