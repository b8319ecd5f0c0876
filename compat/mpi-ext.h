/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Fujitsu MPI adds to MPI, as far as it can be had elsewhere: the rank query interface, on the
 * coordinates that this library gives to nodes; extended persistent requests, as MPI's own; the
 * assistant core, without effect. The mpi-ext.h of the MPI library comes first, where it has one.
 * docs/guide/porting.md names what is missing, and what is known of the original only from memory.
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

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FJMPI_SUCCESS MPI_SUCCESS

/* Views of FJMPI_Topology_get_coords() and FJMPI_Topology_get_ranks(); the numbers are ours. */
#define FJMPI_LOGICAL  0 /* x, y, z of the node in the shape of the job, as far as it has them */
#define FJMPI_TOFU_SYS 1 /* X, Y, Z, A, B, C of the node in the system */
#define FJMPI_TOFU_REL 2 /* the same from the job's first node on; here that is the origin */

#define FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION 0x46000001 /* too few elements for the view */
#define FJMPI_ERR_TOPOLOGY_NO_PROCESS        0x46000002 /* of the communicator is there */
#define FJMPI_ERR_TOPOLOGY_UNKNOWN           0x46000003 /* the library cannot tell */
#define FJMPI_ERR_TOPOLOGY_NODE_SHARED_JOB                                                         \
    0x46000004 /* never returned: such jobs have nodes, too */

/* Programs for Fugaku link with MPI alone. So libtofucom is looked for at run time where they are
 * not linked with it. */
#ifdef __cplusplus
extern "C" {
#endif
int utofu_compat_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[]);
#pragma weak utofu_compat_rank_node
#pragma weak dlopen /* not in the C library before glibc 2.34 */
#pragma weak dlsym
#ifdef __cplusplus
}
#endif
typedef int (*utofu_compat_query)(uint32_t rank, uint32_t *node, uint8_t coords[]);

static inline utofu_compat_query utofu_compat_load(void)
{
    void *library = &dlopen ? dlopen("libtofucom.so.1", RTLD_NOW) : NULL;
    void *function = library && &dlsym ? dlsym(library, "utofu_compat_rank_node") : NULL;
    utofu_compat_query query = NULL;

    if (function)
        memcpy(&query, &function, sizeof(query));
    else
        fprintf(stderr,
                "mpi-ext.h: FJMPI_Topology_*: %s: link with -ltofucom (pkg-config --libs "
                "utofu-compat), or name its folder in LD_LIBRARY_PATH\n",
                library ? "libtofucom.so.1 is too old" : "libtofucom.so.1 is not found");
    return query;
}

static inline utofu_compat_query utofu_compat_function(void)
{
    static utofu_compat_query query;
    static int looked;

    if (&utofu_compat_rank_node)
        return &utofu_compat_rank_node;
    if (!looked)
        query = utofu_compat_load();
    looked = 1;
    return query;
}

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

/* The node of a rank of MPI_COMM_WORLD, and its coordinates in the system. */
static inline int utofu_compat_node(int world, int *node, uint8_t coords[6])
{
    utofu_compat_query query = utofu_compat_function();
    uint32_t n = 0;

    if (!query || query((uint32_t)world, &n, coords) != 0)
        return FJMPI_ERR_TOPOLOGY_UNKNOWN;
    *node = (int)n;
    return MPI_SUCCESS;
}

static inline int utofu_compat_num_nodes(int *nodes)
{
    static int known;
    int rank, size, node = 0, most = 0, rc = MPI_SUCCESS;
    uint8_t coords[6];

    if (!known) {
        rc = MPI_Comm_size(MPI_COMM_WORLD, &size);
        for (rank = 0; rc == MPI_SUCCESS && rank < size; rank++) {
            rc = utofu_compat_node(rank, &node, coords);
            most = node > most ? node : most;
        }
        if (rc == MPI_SUCCESS)
            known = most + 1;
    }
    *nodes = known;
    return rc;
}

/* The numbers of UTOFU_SHAPE, as libtofucom reads them: how many, and their product. */
static inline int utofu_compat_numbers(int shape[3], int *product)
{
    const char *text = getenv("UTOFU_SHAPE");
    char *end;
    int n;

    *product = 1;
    for (n = 0; text && n < 3; n++) {
        shape[n] = (int)strtol(text, &end, 10);
        *product *= shape[n];
        text = end != text && *end == 'x' ? end + 1 : NULL;
    }
    return n;
}

/* UTOFU_SHAPE where it has as many nodes as the job; else one dimension, the nodes in a row. */
static inline int utofu_compat_shape(int *dims, int shape[3])
{
    static int told;
    int nodes, product, rank, rc = utofu_compat_num_nodes(&nodes);

    if (rc != MPI_SUCCESS)
        return rc;
    shape[0] = shape[1] = shape[2] = 1;
    *dims = utofu_compat_numbers(shape, &product);
    if (*dims > 0 && product == nodes)
        return MPI_SUCCESS;
    if (*dims > 0 && !told && MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0)
        fprintf(stderr,
                "mpi-ext.h: UTOFU_SHAPE=%s has %d nodes and the job %d: its shape is one "
                "dimension; give numbers whose product is %d\n",
                getenv("UTOFU_SHAPE"), product, nodes, nodes);
    told = 1;
    *dims = 1;
    shape[0] = nodes;
    shape[1] = shape[2] = 1;
    return MPI_SUCCESS;
}

/* Coordinates of a rank of MPI_COMM_WORLD, and how many they are: 1 to 3, or 6. */
static inline int utofu_compat_coords(int world, int view, int *dims, int coords[6])
{
    uint8_t tofu[6] = {0, 0, 0, 0, 0, 0};
    int shape[3], node = 0, i, rc = utofu_compat_node(world, &node, tofu);

    *dims = 6;
    if (rc == MPI_SUCCESS && view == FJMPI_LOGICAL)
        rc = utofu_compat_shape(dims, shape);
    for (i = 0; rc == MPI_SUCCESS && i < *dims; i++) {
        coords[i] = view == FJMPI_LOGICAL ? node % shape[i] : tofu[i];
        node /= view == FJMPI_LOGICAL ? shape[i] : 1;
    }
    return rc;
}

static inline int utofu_compat_is_view(int view)
{
    return view == FJMPI_LOGICAL || view == FJMPI_TOFU_SYS || view == FJMPI_TOFU_REL;
}

/* How many dimensions the shape of the job has: as many as UTOFU_SHAPE has numbers, or one. */
static inline int FJMPI_Topology_get_dimension(int *size)
{
    int shape[3];

    return size ? utofu_compat_shape(size, shape) : MPI_ERR_ARG;
}

/* Its extents, in nodes; 1 for each that it does not have. */
static inline int FJMPI_Topology_get_shape(int *x, int *y, int *z)
{
    int dims, shape[3], rc;

    if (!x || !y || !z)
        return MPI_ERR_ARG;
    rc = utofu_compat_shape(&dims, shape);
    if (rc != MPI_SUCCESS)
        return rc;
    *x = shape[0];
    *y = shape[1];
    *z = shape[2];
    return MPI_SUCCESS;
}

/* The coordinates of the node of a rank: all maxdims elements of coords are written, those that the
 * view does not have as 0. */
static inline int FJMPI_Topology_get_coords(MPI_Comm comm, int rank, int view, int maxdims,
                                            int coords[])
{
    int dims = 0, size, world = 0, found[6] = {0, 0, 0, 0, 0, 0}, i, rc;

    if (!coords || !utofu_compat_is_view(view))
        return MPI_ERR_ARG;
    rc = MPI_Comm_size(comm, &size);
    if (rc == MPI_SUCCESS && (rank < 0 || rank >= size))
        rc = MPI_ERR_RANK;
    if (rc == MPI_SUCCESS)
        rc = utofu_compat_world_rank(comm, rank, &world);
    if (rc == MPI_SUCCESS)
        rc = utofu_compat_coords(world, view, &dims, found);
    if (rc == MPI_SUCCESS && maxdims < dims)
        rc = FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION;
    for (i = 0; rc == MPI_SUCCESS && i < maxdims; i++)
        coords[i] = i < dims ? found[i] : 0;
    return rc;
}

/* The ranks on the node with these coordinates, as many as the view has, ascending: as many as
 * there are into outppn, the first maxppn of them into ranks. */
static inline int FJMPI_Topology_get_ranks(MPI_Comm comm, int view, const int coords[], int maxppn,
                                           int *outppn, int ranks[])
{
    int dims = 0, size, rank, world = 0, found[6] = {0, 0, 0, 0, 0, 0}, count = 0, rc;

    if (!coords || !outppn || !ranks || maxppn < 1 || !utofu_compat_is_view(view))
        return MPI_ERR_ARG;
    rc = MPI_Comm_size(comm, &size);
    for (rank = 0; rc == MPI_SUCCESS && rank < size; rank++) {
        rc = utofu_compat_world_rank(comm, rank, &world);
        if (rc == MPI_SUCCESS)
            rc = utofu_compat_coords(world, view, &dims, found);
        if (rc != MPI_SUCCESS || memcmp(found, coords, (size_t)dims * sizeof(found[0])) != 0)
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

/* Coordinates in one view, at least as many as asked for, as the K computer's functions have them:
 * ranks are those of MPI_COMM_WORLD. */
static inline int utofu_compat_rank_to(int rank, int view, int least, int coords[6])
{
    int dims = 0, size, i, rc = MPI_Comm_size(MPI_COMM_WORLD, &size);

    for (i = 0; i < 6; i++)
        coords[i] = 0;
    if (rc == MPI_SUCCESS && (rank < 0 || rank >= size))
        rc = MPI_ERR_RANK;
    if (rc == MPI_SUCCESS)
        rc = utofu_compat_coords(rank, view, &dims, coords);
    return rc == MPI_SUCCESS && dims < least ? FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION : rc;
}

/* The first rank on the node with these coordinates; the view may not have more of them. */
static inline int utofu_compat_to_rank(int view, int most, const int coords[6], int *rank)
{
    int dims = 0, shape[3], found, rc;

    if (!rank)
        return MPI_ERR_ARG;
    rc = view == FJMPI_LOGICAL ? utofu_compat_shape(&dims, shape) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && dims > most)
        rc = FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION;
    return rc != MPI_SUCCESS
               ? rc
               : FJMPI_Topology_get_ranks(MPI_COMM_WORLD, view, coords, 1, &found, rank);
}

/* From ranks to logical coordinates, and back to the first rank on the node. A shape of fewer
 * dimensions than a function gives, or of more than it takes, is
 * FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION. */
static inline int FJMPI_Topology_rank2x(int rank, int *x)
{
    int at[6], rc = x ? utofu_compat_rank_to(rank, FJMPI_LOGICAL, 1, at) : MPI_ERR_ARG;

    if (rc == MPI_SUCCESS)
        *x = at[0];
    return rc;
}

static inline int FJMPI_Topology_rank2xy(int rank, int *x, int *y)
{
    int at[6], rc = x && y ? utofu_compat_rank_to(rank, FJMPI_LOGICAL, 2, at) : MPI_ERR_ARG;

    if (rc == MPI_SUCCESS) {
        *x = at[0];
        *y = at[1];
    }
    return rc;
}

static inline int FJMPI_Topology_rank2xyz(int rank, int *x, int *y, int *z)
{
    int at[6], rc = x && y && z ? utofu_compat_rank_to(rank, FJMPI_LOGICAL, 3, at) : MPI_ERR_ARG;

    if (rc == MPI_SUCCESS) {
        *x = at[0];
        *y = at[1];
        *z = at[2];
    }
    return rc;
}

static inline int FJMPI_Topology_x2rank(int x, int *rank)
{
    int at[6] = {x, 0, 0, 0, 0, 0};

    return utofu_compat_to_rank(FJMPI_LOGICAL, 1, at, rank);
}

static inline int FJMPI_Topology_xy2rank(int x, int y, int *rank)
{
    int at[6] = {x, y, 0, 0, 0, 0};

    return utofu_compat_to_rank(FJMPI_LOGICAL, 2, at, rank);
}

static inline int FJMPI_Topology_xyz2rank(int x, int y, int z, int *rank)
{
    int at[6] = {x, y, z, 0, 0, 0};

    return utofu_compat_to_rank(FJMPI_LOGICAL, 3, at, rank);
}

/* The same with the coordinates of the node in the system, and from the job's first node on. */
static inline int FJMPI_Topology_sys_rank2xyzabc(int rank, int *x, int *y, int *z, int *a, int *b,
                                                 int *c)
{
    int at[6], rc = x && y && z && a && b && c ? utofu_compat_rank_to(rank, FJMPI_TOFU_SYS, 6, at)
                                               : MPI_ERR_ARG;

    if (rc == MPI_SUCCESS) {
        *x = at[0];
        *y = at[1];
        *z = at[2];
        *a = at[3];
        *b = at[4];
        *c = at[5];
    }
    return rc;
}

static inline int FJMPI_Topology_sys_xyzabc2rank(int x, int y, int z, int a, int b, int c,
                                                 int *rank)
{
    int at[6] = {x, y, z, a, b, c};

    return utofu_compat_to_rank(FJMPI_TOFU_SYS, 6, at, rank);
}

static inline int FJMPI_Topology_rel_rank2xyzabc(int rank, int *x, int *y, int *z, int *a, int *b,
                                                 int *c)
{
    return FJMPI_Topology_sys_rank2xyzabc(rank, x, y, z, a, b, c);
}

static inline int FJMPI_Topology_rel_xyzabc2rank(int x, int y, int z, int a, int b, int c,
                                                 int *rank)
{
    return FJMPI_Topology_sys_xyzabc2rank(x, y, z, a, b, c, rank);
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

/* Persistent collectives came into MPI 4 under these names; Open MPI 5, of MPI 3.1, has them. */
#if (MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)) &&              \
    !defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
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
