/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Fujitsu MPI adds to MPI, as far as it can be had elsewhere: the rank query interface, on the
 * coordinates that this library gives to nodes; extended persistent requests, as MPI's own; the
 * assistant core, without effect. The mpi-ext.h of the MPI library comes first, where it has one.
 * docs/porting.md names what is missing, and what is known of the original only from memory.
 *
 * Call them between MPI_Init and MPI_Finalize. Ranks are those of the communicator; what is asked
 * of the library are ranks of MPI_COMM_WORLD, which are the job's.
 */
#ifndef UTOFU_COMPAT_MPI_EXT_H
#define UTOFU_COMPAT_MPI_EXT_H

#include <mpi.h>

#ifdef __has_include_next
#    if __has_include_next(<mpi-ext.h>)
#        include_next <mpi-ext.h>
#    endif
#endif

#include <string.h>

#include <utofu_ext.h>

/* Views of FJMPI_Topology_get_coords() and FJMPI_Topology_get_ranks(); the numbers are ours. */
#define FJMPI_LOGICAL  0 /* of the node in the shape of the job */
#define FJMPI_TOFU_SYS 1 /* X, Y, Z, A, B, C of the node in the system */
#define FJMPI_TOFU_REL 2 /* the same from the job's first node on; here that is the origin */

#define FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION 0x46000001 /* too few elements for the view */
#define FJMPI_ERR_TOPOLOGY_NO_PROCESS        0x46000002 /* of the communicator is there */
#define FJMPI_ERR_TOPOLOGY_UNKNOWN           0x46000003 /* the library cannot tell */

static inline int utofu_compat_world_rank(MPI_Comm comm, int rank, int *world)
{
    MPI_Group group, all;
    int rc = MPI_Comm_group(comm, &group);

    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Group_translate_ranks(group, 1, &rank, all, world);
        MPI_Group_free(&all);
    }
    MPI_Group_free(&group);
    return rc == MPI_SUCCESS && *world == MPI_UNDEFINED ? MPI_ERR_RANK : rc;
}

/* 1 or 6 coordinates of a rank of MPI_COMM_WORLD. */
static inline int utofu_compat_coords(int world, int view, int coords[6])
{
    uint32_t node;
    uint8_t tofu[6];
    int i;

    if (utofu_query_rank_node((uint32_t)world, &node, tofu) != UTOFU_SUCCESS)
        return FJMPI_ERR_TOPOLOGY_UNKNOWN;
    coords[0] = (int)node;
    for (i = 0; view != FJMPI_LOGICAL && i < 6; i++)
        coords[i] = tofu[i];
    return MPI_SUCCESS;
}

static inline int utofu_compat_dims(int view)
{
    return view == FJMPI_LOGICAL ? 1 : view == FJMPI_TOFU_SYS || view == FJMPI_TOFU_REL ? 6 : 0;
}

/* How many dimensions the shape of the job has: one, its nodes in a row. */
static inline int FJMPI_Topology_get_dimension(int *size)
{
    if (!size)
        return MPI_ERR_ARG;
    *size = 1;
    return MPI_SUCCESS;
}

/* The number of nodes; y and z, which a shape of one dimension does not have, are 1. */
static inline int FJMPI_Topology_get_shape(int *x, int *y, int *z)
{
    int rank, size, rc, coords[6], most = 0;

    if (!x || !y || !z)
        return MPI_ERR_ARG;
    rc = MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (rank = 0; rc == MPI_SUCCESS && rank < size; rank++) {
        rc = utofu_compat_coords(rank, FJMPI_LOGICAL, coords);
        if (rc == MPI_SUCCESS && coords[0] > most)
            most = coords[0];
    }
    if (rc != MPI_SUCCESS)
        return rc;
    *x = most + 1;
    *y = *z = 1;
    return MPI_SUCCESS;
}

/* The coordinates of the node of a rank: 1 of them or 6, by view; coords has room for maxdims. */
static inline int FJMPI_Topology_get_coords(MPI_Comm comm, int rank, int view, int maxdims,
                                            int coords[])
{
    int n = utofu_compat_dims(view), size, world = 0, found[6], rc;

    if (!coords || n == 0)
        return MPI_ERR_ARG;
    if (maxdims < n)
        return FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION;
    rc = MPI_Comm_size(comm, &size);
    if (rc == MPI_SUCCESS && (rank < 0 || rank >= size))
        rc = MPI_ERR_RANK;
    if (rc == MPI_SUCCESS)
        rc = utofu_compat_world_rank(comm, rank, &world);
    if (rc == MPI_SUCCESS)
        rc = utofu_compat_coords(world, view, found);
    if (rc == MPI_SUCCESS)
        memcpy(coords, found, (size_t)n * sizeof(found[0]));
    return rc;
}

/* The ranks on the node with these coordinates, ascending: as many as there are into outppn, the
 * first maxppn of them into ranks. */
static inline int FJMPI_Topology_get_ranks(MPI_Comm comm, int view, const int coords[], int maxppn,
                                           int *outppn, int ranks[])
{
    int n = utofu_compat_dims(view), size, rank, world = 0, found[6], count = 0, rc;

    if (!coords || !outppn || !ranks || maxppn < 1 || n == 0)
        return MPI_ERR_ARG;
    rc = MPI_Comm_size(comm, &size);
    for (rank = 0; rc == MPI_SUCCESS && rank < size; rank++) {
        rc = utofu_compat_world_rank(comm, rank, &world);
        if (rc == MPI_SUCCESS)
            rc = utofu_compat_coords(world, view, found);
        if (rc != MPI_SUCCESS || memcmp(found, coords, (size_t)n * sizeof(found[0])) != 0)
            continue;
        if (count < maxppn)
            ranks[count] = rank;
        count++;
    }
    if (rc != MPI_SUCCESS)
        return rc;
    if (count == 0)
        return FJMPI_ERR_TOPOLOGY_NO_PROCESS;
    *outppn = count < maxppn ? count : maxppn;
    return MPI_SUCCESS;
}

/* Extended persistent requests: MPI's are as good here. */
#define FJMPI_Prequest_send_init MPI_Send_init
#define FJMPI_Prequest_recv_init MPI_Recv_init
#define FJMPI_Prequest_start     MPI_Start
#define FJMPI_Prequest_startall  MPI_Startall

/* The assistant core makes progress behind the program's back; MPI libraries do it by themselves,
 * or by their own settings. */
static inline int FJMPI_Progress_start(void)
{
    return MPI_SUCCESS;
}

static inline int FJMPI_Progress_stop(void)
{
    return MPI_SUCCESS;
}

/* Persistent collectives came into MPI 4 under these names. */
#if MPI_VERSION >= 4 && !defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#    define MPIX_Barrier_init              MPI_Barrier_init
#    define MPIX_Bcast_init                MPI_Bcast_init
#    define MPIX_Gather_init               MPI_Gather_init
#    define MPIX_Gatherv_init              MPI_Gatherv_init
#    define MPIX_Scatter_init              MPI_Scatter_init
#    define MPIX_Scatterv_init             MPI_Scatterv_init
#    define MPIX_Allgather_init            MPI_Allgather_init
#    define MPIX_Allgatherv_init           MPI_Allgatherv_init
#    define MPIX_Alltoall_init             MPI_Alltoall_init
#    define MPIX_Alltoallv_init            MPI_Alltoallv_init
#    define MPIX_Alltoallw_init            MPI_Alltoallw_init
#    define MPIX_Reduce_init               MPI_Reduce_init
#    define MPIX_Allreduce_init            MPI_Allreduce_init
#    define MPIX_Reduce_scatter_init       MPI_Reduce_scatter_init
#    define MPIX_Reduce_scatter_block_init MPI_Reduce_scatter_block_init
#    define MPIX_Scan_init                 MPI_Scan_init
#    define MPIX_Exscan_init               MPI_Exscan_init
#    define MPIX_Neighbor_allgather_init   MPI_Neighbor_allgather_init
#    define MPIX_Neighbor_alltoall_init    MPI_Neighbor_alltoall_init
#endif

#endif
