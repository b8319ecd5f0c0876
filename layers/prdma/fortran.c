/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Fortran binding for Open MPI, whose Fortran functions call PMPI directly and so bypass the
 * replaced C functions. (The Fortran functions of MPICH call the C functions.) Each function has
 * all names that compilers and modules use for it in Open MPI; the mpi_f08 functions may be called
 * without ierr. A call without a request of the layer goes to the Fortran function of Open MPI.
 */
#include "mpilayer.h"
#include "presence.h"
#include "request.h"

#ifdef OPEN_MPI

#    include <stdlib.h>

#    pragma GCC visibility push(default)

#    define NAMES(type, lower, upper, mixed, parameters)                                           \
        type lower##_ parameters __attribute__((alias("pr_f_" #lower)));                           \
        type lower##__ parameters __attribute__((alias("pr_f_" #lower)));                          \
        type lower parameters __attribute__((alias("pr_f_" #lower)));                              \
        type upper parameters __attribute__((alias("pr_f_" #lower)));                              \
        type mixed##_f parameters __attribute__((alias("pr_f_" #lower)));                          \
        type mixed##_f08 parameters __attribute__((alias("pr_f_" #lower)));                        \
        type o##lower##_f parameters __attribute__((alias("pr_f_" #lower)));                       \
        type lower##_f08_ parameters __attribute__((alias("pr_f_" #lower)));                       \
        extern type p##lower##_ parameters __attribute__((weak));                                  \
        type pr_f_##lower parameters;

#    define FUNCTION(lower, upper, mixed, ...)                                                     \
        NAMES(void, lower, upper, mixed, (__VA_ARGS__))                                            \
        void pr_f_##lower(__VA_ARGS__)

/* A function that makes a request: mpilayer.h has its name. */
#    if PR_MPIX
#        define REQUEST(kind, upper, ...)                                                          \
            FUNCTION(mpix_neighbor_##kind##_init, MPIX_NEIGHBOR_##upper##_INIT,                    \
                     MPIX_Neighbor_##kind##_init, __VA_ARGS__)
#    else
#        define REQUEST(kind, upper, ...)                                                          \
            FUNCTION(mpi_neighbor_##kind##_init, MPI_NEIGHBOR_##upper##_INIT,                      \
                     MPI_Neighbor_##kind##_init, __VA_ARGS__)
#    endif

/* Converts the requests of a call to C handles. NULL: none of them belongs to the layer, or there
 * is no memory. */
static MPI_Request *take_own_requests(int count, const MPI_Fint *handles)
{
    bool own = false;

    if (pr_num_requests == 0 || count <= 0)
        return NULL;
    MPI_Request *requests = malloc((size_t)count * sizeof(MPI_Request));
    if (requests == NULL)
        return NULL;
    pr_lock();
    for (int i = 0; i < count; i++) {
        requests[i] = PMPI_Request_f2c(handles[i]);
        own = own || pr_request_find(requests[i]) != NULL;
    }
    pr_unlock();
    if (own)
        return requests;
    free(requests);
    return NULL;
}

static void return_requests(int count, MPI_Fint *handles, MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        handles[i] = PMPI_Request_c2f(requests[i]);
    free(requests);
}

static void return_error(MPI_Fint *ierr, int code)
{
    if (ierr != NULL)
        *ierr = code;
}

static void return_status(MPI_Fint *to, const MPI_Status *from)
{
    if (to != MPI_F_STATUS_IGNORE)
        PMPI_Status_c2f(from, to);
}

enum { STATUS_INTS = sizeof(MPI_Status) / sizeof(MPI_Fint) };

static MPI_Status *make_statuses(int count, const MPI_Fint *statuses)
{
    return statuses == MPI_F_STATUSES_IGNORE ? NULL : calloc((size_t)count, sizeof(MPI_Status));
}

static void return_statuses(int count, MPI_Fint *to, MPI_Status *from)
{
    for (int i = 0; from != NULL && i < count; i++)
        PMPI_Status_c2f(&from[i], &to[i * STATUS_INTS]);
    free(from);
}

FUNCTION(mpi_start, MPI_START, MPI_Start, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);

    if (own == NULL) {
        pmpi_start_(request, ierr);
        return;
    }
    return_error(ierr, MPI_Start(own));
    return_requests(1, request, own);
}

FUNCTION(mpi_startall, MPI_STARTALL, MPI_Startall, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);

    if (own == NULL) {
        pmpi_startall_(count, requests, ierr);
        return;
    }
    return_error(ierr, MPI_Startall(*count, own));
    return_requests(*count, requests, own);
}

FUNCTION(mpi_wait, MPI_WAIT, MPI_Wait, MPI_Fint *request, MPI_Fint *status, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);
    MPI_Status s = {0};

    if (own == NULL) {
        pmpi_wait_(request, status, ierr);
        return;
    }
    return_error(ierr, MPI_Wait(own, &s));
    return_status(status, &s);
    return_requests(1, request, own);
}

FUNCTION(mpi_test, MPI_TEST, MPI_Test, MPI_Fint *request, MPI_Fint *flag, MPI_Fint *status,
         MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);
    MPI_Status s = {0};
    int done = 0;

    if (own == NULL) {
        pmpi_test_(request, flag, status, ierr);
        return;
    }
    return_error(ierr, MPI_Test(own, &done, &s));
    *flag = done;
    if (done)
        return_status(status, &s);
    return_requests(1, request, own);
}

FUNCTION(mpi_waitall, MPI_WAITALL, MPI_Waitall, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *statuses, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);

    if (own == NULL) {
        pmpi_waitall_(count, requests, statuses, ierr);
        return;
    }
    MPI_Status *s = make_statuses(*count, statuses);
    return_error(ierr, MPI_Waitall(*count, own, s));
    return_statuses(*count, statuses, s);
    return_requests(*count, requests, own);
}

FUNCTION(mpi_testall, MPI_TESTALL, MPI_Testall, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *flag,
         MPI_Fint *statuses, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);
    int done = 0;

    if (own == NULL) {
        pmpi_testall_(count, requests, flag, statuses, ierr);
        return;
    }
    MPI_Status *s = make_statuses(*count, statuses);
    return_error(ierr, MPI_Testall(*count, own, &done, s));
    *flag = done;
    return_statuses(done ? *count : 0, statuses, s);
    return_requests(*count, requests, own);
}

/* Converts to Fortran's index, which starts at 1. */
static MPI_Fint index_f(int index)
{
    return index == MPI_UNDEFINED ? index : index + 1;
}

FUNCTION(mpi_waitany, MPI_WAITANY, MPI_Waitany, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *index, MPI_Fint *status, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);
    MPI_Status s = {0};
    int i = MPI_UNDEFINED;

    if (own == NULL) {
        pmpi_waitany_(count, requests, index, status, ierr);
        return;
    }
    return_error(ierr, MPI_Waitany(*count, own, &i, &s));
    *index = index_f(i);
    return_status(status, &s);
    return_requests(*count, requests, own);
}

FUNCTION(mpi_testany, MPI_TESTANY, MPI_Testany, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *index, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);
    MPI_Status s = {0};
    int i = MPI_UNDEFINED, done = 0;

    if (own == NULL) {
        pmpi_testany_(count, requests, index, flag, status, ierr);
        return;
    }
    return_error(ierr, MPI_Testany(*count, own, &i, &done, &s));
    *index = index_f(i);
    *flag = done;
    if (done)
        return_status(status, &s);
    return_requests(*count, requests, own);
}

typedef int some_function(int, MPI_Request *, int *, int *, MPI_Status *);

static void call_some(some_function *call, const MPI_Fint *count, MPI_Fint *requests,
                      MPI_Fint *outcount, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *ierr,
                      MPI_Request *own)
{
    MPI_Status *s = make_statuses(*count, statuses);
    int n = 0;

    return_error(ierr, call(*count, own, &n, indices, s));
    *outcount = n;
    if (n == MPI_UNDEFINED)
        n = 0;
    for (int i = 0; i < n; i++)
        indices[i]++;
    return_statuses(n, statuses, s);
    return_requests(*count, requests, own);
}

FUNCTION(mpi_waitsome, MPI_WAITSOME, MPI_Waitsome, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *outcount, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);

    if (own == NULL)
        pmpi_waitsome_(count, requests, outcount, indices, statuses, ierr);
    else
        call_some(MPI_Waitsome, count, requests, outcount, indices, statuses, ierr, own);
}

FUNCTION(mpi_testsome, MPI_TESTSOME, MPI_Testsome, MPI_Fint *count, MPI_Fint *requests,
         MPI_Fint *outcount, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(*count, requests);

    if (own == NULL)
        pmpi_testsome_(count, requests, outcount, indices, statuses, ierr);
    else
        call_some(MPI_Testsome, count, requests, outcount, indices, statuses, ierr, own);
}

FUNCTION(mpi_request_free, MPI_REQUEST_FREE, MPI_Request_free, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);

    if (own == NULL) {
        pmpi_request_free_(request, ierr);
        return;
    }
    return_error(ierr, MPI_Request_free(own));
    return_requests(1, request, own);
}

FUNCTION(mpi_request_get_status, MPI_REQUEST_GET_STATUS, MPI_Request_get_status, MPI_Fint *request,
         MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);
    MPI_Status s = {0};
    int done = 0;

    if (own == NULL) {
        pmpi_request_get_status_(request, flag, status, ierr);
        return;
    }
    return_error(ierr, MPI_Request_get_status(*own, &done, &s));
    *flag = done;
    if (done)
        return_status(status, &s);
    free(own);
}

FUNCTION(mpi_cancel, MPI_CANCEL, MPI_Cancel, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Request *own = take_own_requests(1, request);

    if (own == NULL) {
        pmpi_cancel_(request, ierr);
        return;
    }
    return_error(ierr, MPI_Cancel(own));
    free(own);
}

static const void *find_buffer(const void *address)
{
    extern int mpi_fortran_bottom_;

    return address == &mpi_fortran_bottom_ ? MPI_BOTTOM : address;
}

static void find_degrees(MPI_Comm comm, int *in, int *out)
{
    int topology = MPI_UNDEFINED, rank, weighted;

    *in = *out = 0;
    PMPI_Topo_test(comm, &topology);
    if (topology == MPI_CART) {
        PMPI_Cartdim_get(comm, in);
        *in *= 2;
        *out = *in;
    } else if (topology == MPI_GRAPH) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    } else if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, in, out, &weighted);
    }
}

static MPI_Datatype *c_types(int count, const MPI_Fint *types)
{
    MPI_Datatype *c = malloc(((size_t)count + 1) * sizeof(MPI_Datatype));

    for (int i = 0; c != NULL && i < count; i++)
        c[i] = PMPI_Type_f2c(types[i]);
    return c;
}

/* Keeps the types for MPI's own request, which may read them later; the layer's requests do not,
 * and a call that has failed has made none. */
static void keep_types(MPI_Request made, MPI_Datatype *send, MPI_Datatype *recv)
{
    struct pr_request *r;

    pr_lock();
    r = pr_request_find(made);
    if (made == MPI_REQUEST_NULL || (r != NULL && !r->fallback)) {
        free(send);
        free(recv);
    }
    pr_unlock();
}

static void return_new_request(MPI_Fint *request, MPI_Fint *ierr, int code, MPI_Request made)
{
    return_error(ierr, code);
    if (code == MPI_SUCCESS)
        *request = PMPI_Request_c2f(made);
}

REQUEST(alltoallw, ALLTOALLW, void *sendbuf, MPI_Fint *sendcounts, MPI_Aint *sdispls,
        MPI_Fint *sendtypes, void *recvbuf, MPI_Fint *recvcounts, MPI_Aint *rdispls,
        MPI_Fint *recvtypes, MPI_Fint *comm, MPI_Fint *info, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Comm c = PMPI_Comm_f2c(*comm);
    MPI_Request made = MPI_REQUEST_NULL;
    int in, out;

    find_degrees(c, &in, &out);
    MPI_Datatype *st = c_types(out, sendtypes), *rt = c_types(in, recvtypes);
    int code = MPI_ERR_NO_MEM;
    if (st != NULL && rt != NULL)
        code = PR_CALL(Neighbor_alltoallw_init)(find_buffer(sendbuf), sendcounts, sdispls, st,
                                                (void *)find_buffer(recvbuf), recvcounts, rdispls,
                                                rt, c, PMPI_Info_f2c(*info), &made);
    keep_types(made, st, rt);
    return_new_request(request, ierr, code, made);
}

REQUEST(alltoallv, ALLTOALLV, void *sendbuf, MPI_Fint *sendcounts, MPI_Fint *sdispls,
        MPI_Fint *sendtype, void *recvbuf, MPI_Fint *recvcounts, MPI_Fint *rdispls,
        MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *info, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int code = PR_CALL(Neighbor_alltoallv_init)(
        find_buffer(sendbuf), sendcounts, sdispls, PMPI_Type_f2c(*sendtype),
        (void *)find_buffer(recvbuf), recvcounts, rdispls, PMPI_Type_f2c(*recvtype),
        PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info), &made);

    return_new_request(request, ierr, code, made);
}

REQUEST(alltoall, ALLTOALL, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
        MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *info, MPI_Fint *request,
        MPI_Fint *ierr)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int code = PR_CALL(Neighbor_alltoall_init)(
        find_buffer(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), (void *)find_buffer(recvbuf),
        *recvcount, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info), &made);

    return_new_request(request, ierr, code, made);
}

REQUEST(allgather, ALLGATHER, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
        MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *info, MPI_Fint *request,
        MPI_Fint *ierr)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int code = PR_CALL(Neighbor_allgather_init)(
        find_buffer(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), (void *)find_buffer(recvbuf),
        *recvcount, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info), &made);

    return_new_request(request, ierr, code, made);
}

REQUEST(allgatherv, ALLGATHERV, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
        void *recvbuf, MPI_Fint *recvcounts, MPI_Fint *displs, MPI_Fint *recvtype, MPI_Fint *comm,
        MPI_Fint *info, MPI_Fint *request, MPI_Fint *ierr)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int code = PR_CALL(Neighbor_allgatherv_init)(
        find_buffer(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), (void *)find_buffer(recvbuf),
        recvcounts, displs, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info),
        &made);

    return_new_request(request, ierr, code, made);
}

FUNCTION(mpi_init, MPI_INIT, MPI_Init, MPI_Fint *ierr)
{
    pmpi_init_(ierr);
    pr_presence_publish();
}

FUNCTION(mpi_init_thread, MPI_INIT_THREAD, MPI_Init_thread, MPI_Fint *required, MPI_Fint *provided,
         MPI_Fint *ierr)
{
    pmpi_init_thread_(required, provided, ierr);
    pr_presence_publish();
}

FUNCTION(mpi_finalize, MPI_FINALIZE, MPI_Finalize, MPI_Fint *ierr)
{
    pr_requests_print_stats();
    pmpi_finalize_(ierr);
}

#endif
