/* SPDX-License-Identifier: Apache-2.0 */
/* What make-wrappers does not make of the Fortran functions: the beginning and the end, and waits,
 * whose requests and indices are those of Fortran. */
#include "fortran.h"

#ifdef MR_FORTRAN

#    include <stdlib.h>
#    include <string.h>

/*
 * Beginning and end
 */

MR_FORTRAN(init, INIT, Init, (MPI_Fint * ierr))
{
    MPI_Fint code = MPI_SUCCESS;

    if (!ierr)
        ierr = &code;
    mr_find_mpi();
    MR_PMPI(init)(ierr);
    if (*ierr == MPI_SUCCESS)
        mr_begin();
}

MR_FORTRAN(init_thread, INIT_THREAD, Init_thread, (void *required, void *provided, MPI_Fint *ierr))
{
    MPI_Fint code = MPI_SUCCESS;

    if (!ierr)
        ierr = &code;
    mr_find_mpi();
    MR_PMPI(init_thread)(required, provided, ierr);
    if (*ierr == MPI_SUCCESS)
        mr_begin();
}

MR_FORTRAN(finalize, FINALIZE, Finalize, (MPI_Fint * ierr))
{
    mr_begun = false;
    MR_PMPI(finalize)(ierr);
}

/*
 * Waits
 */

/* The handles of a call in C, from before it, and statuses where the program ignores them. */
struct wait {
    MPI_Request inline_requests[MR_INLINE], *was;
    MPI_Fint inline_own[MR_INLINE * MR_STATUS_INTS], *own;
    MPI_Fint code, *ierr;
    void *statuses; /* for the call */
    int num;
    uint64_t begin;
};

/* False: the call is not recorded. */
static bool begin_wait(struct wait *w, int num, const void *requests, void *statuses, bool ignored,
                       MPI_Fint *ierr)
{
    const MPI_Fint *handles = requests;

    w->code = MPI_SUCCESS;
    w->ierr = ierr ? ierr : &w->code;
    w->statuses = statuses;
    w->num = num;
    w->was = w->inline_requests;
    w->own = w->inline_own;
    if (!mr_enter() || num < 0)
        return false;
    if (num > MR_INLINE) {
        w->was = malloc((size_t)num * sizeof(*w->was));
        w->own = malloc((size_t)num * MR_STATUS_INTS * sizeof(*w->own));
    }
    if (!w->was || !w->own) {
        free(w->was);
        free(w->own);
        return false;
    }
    for (int i = 0; i < num; i++)
        w->was[i] = PMPI_Request_f2c(handles[i]);
    if (ignored)
        w->statuses = w->own;
    w->begin = mr_to->begin();
    mr_depth++;
    return true;
}

extern void MR_PMPI(waitany)(void *count, void *requests, void *index, void *status, MPI_Fint *ierr)
    __attribute__((weak));

/* The index of the first of several requests: 1, but 0 in mpi_f08 of MPICH 4.0. */
static int first_index(void)
{
#    ifdef OPEN_MPI
    return 1;
#    else
    static int known = -1;
    int first = __atomic_load_n(&known, __ATOMIC_RELAXED);
    MPI_Fint num = 1, index = 1, code;
    MPI_Request request;

    if (first < 0) {
        PMPI_Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
        MR_PMPI(waitany)(&num, &request, &index, MPI_F08_STATUS_IGNORE, &code);
        first = index == 0 ? 0 : 1;
        __atomic_store_n(&known, first, __ATOMIC_RELAXED);
    }
    return first;
#    endif
}

/* The position of a request. Below 0: none, as MPI_UNDEFINED, or one more in MPICH 4.1. */
static int position_of(const struct wait *w, MPI_Fint index)
{
    int position = index - first_index();

    return position < w->num ? position : -1;
}

/* `num` requests are complete: those with these indices, or all. 0: none is. */
static void end_wait(struct wait *w, int num, const MPI_Fint *indices)
{
    bool many = num > MR_INLINE;
    MPI_Status inline_statuses[MR_INLINE];
    MPI_Status *statuses = many ? malloc((size_t)num * sizeof(*statuses)) : inline_statuses;
    int inline_done[MR_INLINE], *done = many ? malloc((size_t)num * sizeof(*done)) : inline_done;

    mr_depth--;
    if (*w->ierr != MPI_SUCCESS || num <= 0 || (indices && position_of(w, indices[0]) < 0) ||
        !statuses || !done) {
        mr_to->poll(w->begin);
    } else {
        for (int i = 0; i < num; i++) {
            done[i] = indices ? position_of(w, indices[i]) : i;
            mr_status_f2c((const MPI_Fint *)w->statuses + (size_t)i * MR_STATUS_INTS, &statuses[i]);
        }
        mr_completed(w->begin, num, w->was, done, statuses);
    }
    if (statuses != inline_statuses)
        free(statuses);
    if (done != inline_done)
        free(done);
    if (w->was != w->inline_requests) {
        free(w->was);
        free(w->own);
    }
}

static int int_at(const void *argument)
{
    return *(const MPI_Fint *)argument;
}

MR_FORTRAN(wait, WAIT, Wait, (void *request, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, status, mr_is_ignored(status), ierr)) {
        MR_PMPI(wait)(request, status, w.ierr);
        return;
    }
    MR_PMPI(wait)(request, w.statuses, w.ierr);
    end_wait(&w, 1, NULL);
}

MR_FORTRAN(test, TEST, Test, (void *request, void *flag, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, status, mr_is_ignored(status), ierr)) {
        MR_PMPI(test)(request, flag, status, w.ierr);
        return;
    }
    MR_PMPI(test)(request, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) ? 1 : 0, NULL);
}

MR_FORTRAN(waitall, WAITALL, Waitall, (void *count, void *requests, void *statuses, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        MR_PMPI(waitall)(count, requests, statuses, w.ierr);
        return;
    }
    MR_PMPI(waitall)(count, requests, w.statuses, w.ierr);
    end_wait(&w, w.num, NULL);
}

MR_FORTRAN(testall, TESTALL, Testall,
           (void *count, void *requests, void *flag, void *statuses, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        MR_PMPI(testall)(count, requests, flag, statuses, w.ierr);
        return;
    }
    MR_PMPI(testall)(count, requests, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) ? w.num : 0, NULL);
}

MR_FORTRAN(waitany, WAITANY, Waitany,
           (void *count, void *requests, void *index, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, status, mr_is_ignored(status), ierr)) {
        MR_PMPI(waitany)(count, requests, index, status, w.ierr);
        return;
    }
    MR_PMPI(waitany)(count, requests, index, w.statuses, w.ierr);
    end_wait(&w, 1, index);
}

MR_FORTRAN(testany, TESTANY, Testany,
           (void *count, void *requests, void *index, void *flag, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, status, mr_is_ignored(status), ierr)) {
        MR_PMPI(testany)(count, requests, index, flag, status, w.ierr);
        return;
    }
    MR_PMPI(testany)(count, requests, index, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) ? 1 : 0, index);
}

MR_FORTRAN(waitsome, WAITSOME, Waitsome,
           (void *count, void *requests, void *outcount, void *indices, void *statuses,
            MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        MR_PMPI(waitsome)(count, requests, outcount, indices, statuses, w.ierr);
        return;
    }
    MR_PMPI(waitsome)(count, requests, outcount, indices, w.statuses, w.ierr);
    end_wait(&w, int_at(outcount), indices);
}

MR_FORTRAN(testsome, TESTSOME, Testsome,
           (void *count, void *requests, void *outcount, void *indices, void *statuses,
            MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        MR_PMPI(testsome)(count, requests, outcount, indices, statuses, w.ierr);
        return;
    }
    MR_PMPI(testsome)(count, requests, outcount, indices, w.statuses, w.ierr);
    end_wait(&w, int_at(outcount), indices);
}

/*
 * Persistent requests
 */

MR_FORTRAN(startall, STARTALL, Startall, (void *count, void *requests, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, NULL, false, ierr)) {
        MR_PMPI(startall)(count, requests, w.ierr);
        return;
    }
    MR_PMPI(startall)(count, requests, w.ierr);
    mr_depth--;
    mr_started(w.begin, *w.ierr == MPI_SUCCESS ? w.num : 0, w.was);
    if (w.was != w.inline_requests) {
        free(w.was);
        free(w.own);
    }
}

MR_FORTRAN(start, START, Start, (void *request, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, NULL, false, ierr)) {
        MR_PMPI(start)(request, w.ierr);
        return;
    }
    MR_PMPI(start)(request, w.ierr);
    mr_depth--;
    mr_started(w.begin, *w.ierr == MPI_SUCCESS, w.was);
}

MR_FORTRAN(request_free, REQUEST_FREE, Request_free, (void *request, MPI_Fint *ierr))
{
    MPI_Fint code;

    if (mr_enter())
        mr_request_forget(PMPI_Request_f2c(*(MPI_Fint *)request));
    MR_PMPI(request_free)(request, ierr ? ierr : &code);
}

#endif
