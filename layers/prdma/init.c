/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that make requests, MPI_Init and MPI_Finalize. Open MPI 4 and 5, of MPI 3.1, have
 * none with large counts.
 */
#include "mpilayer.h"
#include "presence.h"
#include "request.h"
#include "setup.h"

#pragma GCC visibility push(default)

int PR_CALL(Neighbor_alltoallw_init)(const void *sendbuf, const int sendcounts[],
                                     const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                     void *recvbuf, const int recvcounts[],
                                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                     MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts = sendcounts, .displs_c = sdispls, .types = sendtypes};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs_c = rdispls, .types = recvtypes};
    int rc = PR_NEXT(Neighbor_alltoallw_init)(sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                              recvcounts, rdispls, recvtypes, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallw_init", comm, info, &send, &recv, rc,
                                request);
}

int PR_CALL(Neighbor_alltoallv_init)(const void *sendbuf, const int sendcounts[],
                                     const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
                                     const int recvcounts[], const int rdispls[],
                                     MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                     MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
    int rc = PR_NEXT(Neighbor_alltoallv_init)(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                              recvcounts, rdispls, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallv_init", comm, info, &send, &recv, rc,
                                request);
}

int PR_CALL(Neighbor_alltoall_init)(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, int recvcount, MPI_Datatype recvtype,
                                    MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = recvtype};
    int rc = PR_NEXT(Neighbor_alltoall_init)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                             recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoall_init", comm, info, &send, &recv, rc,
                                request);
}

int PR_CALL(Neighbor_allgather_init)(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                     void *recvbuf, int recvcount, MPI_Datatype recvtype,
                                     MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype, .same = true};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = recvtype};
    int rc = PR_NEXT(Neighbor_allgather_init)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                              recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgather_init", comm, info, &send, &recv, rc,
                                request);
}

int PR_CALL(Neighbor_allgatherv_init)(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                      void *recvbuf, const int recvcounts[], const int displs[],
                                      MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                      MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype, .same = true};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    int rc = PR_NEXT(Neighbor_allgatherv_init)(sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                               displs, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgatherv_init", comm, info, &send, &recv, rc,
                                request);
}

#if MPI_VERSION >= 4
int MPI_Neighbor_alltoallw_init_c(const void *sendbuf, const MPI_Count sendcounts[],
                                  const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                  void *recvbuf, const MPI_Count recvcounts[],
                                  const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                  MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts_c = sendcounts, .displs_c = sdispls, .types = sendtypes};
    struct pr_side recv = {
        .buf = recvbuf, .counts_c = recvcounts, .displs_c = rdispls, .types = recvtypes};
    int rc = PMPI_Neighbor_alltoallw_init_c(sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                            recvcounts, rdispls, recvtypes, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallw_init_c", comm, info, &send, &recv, rc,
                                request);
}

int MPI_Neighbor_alltoallv_init_c(const void *sendbuf, const MPI_Count sendcounts[],
                                  const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                                  const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                  MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts_c = sendcounts, .displs_c = sdispls, .type = sendtype};
    struct pr_side recv = {
        .buf = recvbuf, .counts_c = recvcounts, .displs_c = rdispls, .type = recvtype};
    int rc = PMPI_Neighbor_alltoallv_init_c(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                            recvcounts, rdispls, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallv_init_c", comm, info, &send, &recv, rc,
                                request);
}

int MPI_Neighbor_alltoall_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                 void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                 MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = recvtype};
    int rc = PMPI_Neighbor_alltoall_init_c(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                           recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoall_init_c", comm, info, &send, &recv, rc,
                                request);
}

int MPI_Neighbor_allgather_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                  void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                  MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype, .same = true};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = recvtype};
    int rc = PMPI_Neighbor_allgather_init_c(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                            recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgather_init_c", comm, info, &send, &recv, rc,
                                request);
}

int MPI_Neighbor_allgatherv_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, const MPI_Count recvcounts[],
                                   const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                   MPI_Info info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = sendtype, .same = true};
    struct pr_side recv = {
        .buf = recvbuf, .counts_c = recvcounts, .displs_c = displs, .type = recvtype};
    int rc = PMPI_Neighbor_allgatherv_init_c(sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                             displs, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgatherv_init_c", comm, info, &send, &recv, rc,
                                request);
}
#endif

int MPI_Init(int *argc, char ***argv)
{
    pr_presence_before_init();
    int rc = PMPI_Init(argc, argv);

    if (rc == MPI_SUCCESS)
        pr_presence_publish();
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    pr_presence_before_init();
    int rc = PMPI_Init_thread(argc, argv, required, provided);

    if (rc == MPI_SUCCESS)
        pr_presence_publish();
    return rc;
}

int MPI_Finalize(void)
{
    pr_requests_print_stats();
    return PMPI_Finalize();
}
