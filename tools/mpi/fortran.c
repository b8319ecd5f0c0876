/* SPDX-License-Identifier: Apache-2.0 */
/* What make-wrappers does not make of the Fortran functions of Open MPI: the beginning and the end,
 * and waits, whose requests and indices are those of Fortran. */
#include "fortran.h"

#ifdef OPEN_MPI

#    include <stdlib.h>
#    include <string.h>

/*
 * Beginning and end
 */

MR_FORTRAN(mpi_init, MPI_INIT, MPI_Init, (MPI_Fint * ierr))
{
    MPI_Fint code = MPI_SUCCESS;

    if (!ierr)
        ierr = &code;
    mr_find_mpi();
    pmpi_init_(ierr);
    if (*ierr == MPI_SUCCESS)
        mr_begin();
}

MR_FORTRAN(mpi_init_thread, MPI_INIT_THREAD, MPI_Init_thread,
           (void *required, void *provided, MPI_Fint *ierr))
{
    MPI_Fint code = MPI_SUCCESS;

    if (!ierr)
        ierr = &code;
    mr_find_mpi();
    pmpi_init_thread_(required, provided, ierr);
    if (*ierr == MPI_SUCCESS)
        mr_begin();
}

MR_FORTRAN(mpi_finalize, MPI_FINALIZE, MPI_Finalize, (MPI_Fint * ierr))
{
    mr_begun = false;
    pmpi_finalize_(ierr);
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

/* `num` requests are complete: those with these indices, from 1 on, or all. 0: none is. */
static void end_wait(struct wait *w, int num, const MPI_Fint *indices)
{
    bool many = num > MR_INLINE;
    MPI_Status inline_statuses[MR_INLINE];
    MPI_Status *statuses = many ? malloc((size_t)num * sizeof(*statuses)) : inline_statuses;
    int inline_done[MR_INLINE], *done = many ? malloc((size_t)num * sizeof(*done)) : inline_done;

    mr_depth--;
    if (*w->ierr != MPI_SUCCESS || num <= 0 || !statuses || !done) {
        mr_to->poll(w->begin);
    } else {
        for (int i = 0; i < num; i++) {
            done[i] = indices ? indices[i] - 1 : i;
            PMPI_Status_f2c((const MPI_Fint *)w->statuses + (size_t)i * MR_STATUS_INTS,
                            &statuses[i]);
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

/* Of an index, or of a number of indices. */
static int none_if_undefined(const void *argument)
{
    return int_at(argument) == MPI_UNDEFINED ? 0 : int_at(argument);
}

MR_FORTRAN(mpi_wait, MPI_WAIT, MPI_Wait, (void *request, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, status, mr_is_ignored(status), ierr)) {
        pmpi_wait_(request, status, w.ierr);
        return;
    }
    pmpi_wait_(request, w.statuses, w.ierr);
    end_wait(&w, 1, NULL);
}

MR_FORTRAN(mpi_test, MPI_TEST, MPI_Test, (void *request, void *flag, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, status, mr_is_ignored(status), ierr)) {
        pmpi_test_(request, flag, status, w.ierr);
        return;
    }
    pmpi_test_(request, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) ? 1 : 0, NULL);
}

MR_FORTRAN(mpi_waitall, MPI_WAITALL, MPI_Waitall,
           (void *count, void *requests, void *statuses, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        pmpi_waitall_(count, requests, statuses, w.ierr);
        return;
    }
    pmpi_waitall_(count, requests, w.statuses, w.ierr);
    end_wait(&w, w.num, NULL);
}

MR_FORTRAN(mpi_testall, MPI_TESTALL, MPI_Testall,
           (void *count, void *requests, void *flag, void *statuses, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        pmpi_testall_(count, requests, flag, statuses, w.ierr);
        return;
    }
    pmpi_testall_(count, requests, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) ? w.num : 0, NULL);
}

MR_FORTRAN(mpi_waitany, MPI_WAITANY, MPI_Waitany,
           (void *count, void *requests, void *index, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, status, mr_is_ignored(status), ierr)) {
        pmpi_waitany_(count, requests, index, status, w.ierr);
        return;
    }
    pmpi_waitany_(count, requests, index, w.statuses, w.ierr);
    end_wait(&w, none_if_undefined(index) ? 1 : 0, index);
}

MR_FORTRAN(mpi_testany, MPI_TESTANY, MPI_Testany,
           (void *count, void *requests, void *index, void *flag, void *status, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, status, mr_is_ignored(status), ierr)) {
        pmpi_testany_(count, requests, index, flag, status, w.ierr);
        return;
    }
    pmpi_testany_(count, requests, index, flag, w.statuses, w.ierr);
    end_wait(&w, int_at(flag) && none_if_undefined(index) ? 1 : 0, index);
}

MR_FORTRAN(mpi_waitsome, MPI_WAITSOME, MPI_Waitsome,
           (void *count, void *requests, void *outcount, void *indices, void *statuses,
            MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        pmpi_waitsome_(count, requests, outcount, indices, statuses, w.ierr);
        return;
    }
    pmpi_waitsome_(count, requests, outcount, indices, w.statuses, w.ierr);
    end_wait(&w, none_if_undefined(outcount), indices);
}

MR_FORTRAN(mpi_testsome, MPI_TESTSOME, MPI_Testsome,
           (void *count, void *requests, void *outcount, void *indices, void *statuses,
            MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, statuses, mr_are_ignored(statuses), ierr)) {
        pmpi_testsome_(count, requests, outcount, indices, statuses, w.ierr);
        return;
    }
    pmpi_testsome_(count, requests, outcount, indices, w.statuses, w.ierr);
    end_wait(&w, none_if_undefined(outcount), indices);
}

/*
 * Persistent requests
 */

MR_FORTRAN(mpi_startall, MPI_STARTALL, MPI_Startall, (void *count, void *requests, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, int_at(count), requests, NULL, false, ierr)) {
        pmpi_startall_(count, requests, w.ierr);
        return;
    }
    pmpi_startall_(count, requests, w.ierr);
    mr_depth--;
    mr_started(w.begin, *w.ierr == MPI_SUCCESS ? w.num : 0, w.was);
    if (w.was != w.inline_requests) {
        free(w.was);
        free(w.own);
    }
}

MR_FORTRAN(mpi_start, MPI_START, MPI_Start, (void *request, MPI_Fint *ierr))
{
    struct wait w;

    if (!begin_wait(&w, 1, request, NULL, false, ierr)) {
        pmpi_start_(request, w.ierr);
        return;
    }
    pmpi_start_(request, w.ierr);
    mr_depth--;
    mr_started(w.begin, *w.ierr == MPI_SUCCESS, w.was);
}

MR_FORTRAN(mpi_request_free, MPI_REQUEST_FREE, MPI_Request_free, (void *request, MPI_Fint *ierr))
{
    MPI_Fint code;

    if (mr_enter())
        mr_request_forget(PMPI_Request_f2c(*(MPI_Fint *)request));
    pmpi_request_free_(request, ierr ? ierr : &code);
}

#endif
