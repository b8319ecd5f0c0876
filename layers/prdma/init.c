/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that make requests, MPI_Init and MPI_Finalize. Open MPI 4 and 5, of MPI 3.1, have
 * none with large counts.
 */
#include "handles.h"
#include "mpilayer.h"
#include "presence.h"
#include "request.h"
#include "setup.h"

#pragma GCC visibility push(default)

int PR_CALL(Neighbor_alltoallw_init)(const void *sendbuf, const int sendcounts[],
                                     const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                     void *recvbuf, const int recvcounts[],
                                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                     pr_comm_arg comm, pr_info_arg info, MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts = sendcounts, .displs_c = sdispls, .types = sendtypes};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs_c = rdispls, .types = recvtypes};
    int rc = PR_NEXT(Neighbor_alltoallw_init)(sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                              recvcounts, rdispls, recvtypes, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallw_init", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_alltoallv_init)(const void *sendbuf, const int sendcounts[],
                                     const int sdispls[], pr_type_arg sendtype, void *recvbuf,
                                     const int recvcounts[], const int rdispls[],
                                     pr_type_arg recvtype, pr_comm_arg comm, pr_info_arg info,
                                     MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts = sendcounts, .displs = sdispls, .type = (MPI_Datatype)sendtype};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs = rdispls, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_alltoallv_init)(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                              recvcounts, rdispls, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallv_init", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_alltoall_init)(const void *sendbuf, int sendcount, pr_type_arg sendtype,
                                    void *recvbuf, int recvcount, pr_type_arg recvtype,
                                    pr_comm_arg comm, pr_info_arg info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_alltoall_init)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                             recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoall_init", (MPI_Comm)comm, (MPI_Info)info, &send,
                                &recv, rc, request);
}

int PR_CALL(Neighbor_allgather_init)(const void *sendbuf, int sendcount, pr_type_arg sendtype,
                                     void *recvbuf, int recvcount, pr_type_arg recvtype,
                                     pr_comm_arg comm, pr_info_arg info, MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype, .same = true};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_allgather_init)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                              recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgather_init", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_allgatherv_init)(const void *sendbuf, int sendcount, pr_type_arg sendtype,
                                      void *recvbuf, const int recvcounts[], const int displs[],
                                      pr_type_arg recvtype, pr_comm_arg comm, pr_info_arg info,
                                      MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype, .same = true};
    struct pr_side recv = {
        .buf = recvbuf, .counts = recvcounts, .displs = displs, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_allgatherv_init)(sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                               displs, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgatherv_init", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

#if MPI_VERSION >= 4
int PR_CALL(Neighbor_alltoallw_init_c)(const void *sendbuf, const MPI_Count sendcounts[],
                                       const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                       void *recvbuf, const MPI_Count recvcounts[],
                                       const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                       pr_comm_arg comm, pr_info_arg info, MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .counts_c = sendcounts, .displs_c = sdispls, .types = sendtypes};
    struct pr_side recv = {
        .buf = recvbuf, .counts_c = recvcounts, .displs_c = rdispls, .types = recvtypes};
    int rc =
        PR_NEXT(Neighbor_alltoallw_init_c)(sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                           recvcounts, rdispls, recvtypes, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallw_init_c", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_alltoallv_init_c)(const void *sendbuf, const MPI_Count sendcounts[],
                                       const MPI_Aint sdispls[], pr_type_arg sendtype,
                                       void *recvbuf, const MPI_Count recvcounts[],
                                       const MPI_Aint rdispls[], pr_type_arg recvtype,
                                       pr_comm_arg comm, pr_info_arg info, MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf,
                           .counts_c = sendcounts,
                           .displs_c = sdispls,
                           .type = (MPI_Datatype)sendtype};
    struct pr_side recv = {.buf = recvbuf,
                           .counts_c = recvcounts,
                           .displs_c = rdispls,
                           .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_alltoallv_init_c)(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                                recvcounts, rdispls, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoallv_init_c", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_alltoall_init_c)(const void *sendbuf, MPI_Count sendcount,
                                      pr_type_arg sendtype, void *recvbuf, MPI_Count recvcount,
                                      pr_type_arg recvtype, pr_comm_arg comm, pr_info_arg info,
                                      MPI_Request *request)
{
    struct pr_side send = {.buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_alltoall_init_c)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                               recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_alltoall_init_c", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_allgather_init_c)(const void *sendbuf, MPI_Count sendcount,
                                       pr_type_arg sendtype, void *recvbuf, MPI_Count recvcount,
                                       pr_type_arg recvtype, pr_comm_arg comm, pr_info_arg info,
                                       MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype, .same = true};
    struct pr_side recv = {.buf = recvbuf, .count = recvcount, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_allgather_init_c)(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgather_init_c", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
}

int PR_CALL(Neighbor_allgatherv_init_c)(const void *sendbuf, MPI_Count sendcount,
                                        pr_type_arg sendtype, void *recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint displs[],
                                        pr_type_arg recvtype, pr_comm_arg comm, pr_info_arg info,
                                        MPI_Request *request)
{
    struct pr_side send = {
        .buf = sendbuf, .count = sendcount, .type = (MPI_Datatype)sendtype, .same = true};
    struct pr_side recv = {
        .buf = recvbuf, .counts_c = recvcounts, .displs_c = displs, .type = (MPI_Datatype)recvtype};
    int rc = PR_NEXT(Neighbor_allgatherv_init_c)(sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                                 displs, recvtype, comm, info, request);

    return pr_request_take_over("MPI_Neighbor_allgatherv_init_c", (MPI_Comm)comm, (MPI_Info)info,
                                &send, &recv, rc, request);
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
