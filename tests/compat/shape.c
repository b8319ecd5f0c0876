/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of the job from compat/mpi-ext.h, and conversions between ranks and coordinates in each
 * view; the program includes no other header of the library. It prints "lost" if the library is not
 * found.
 *
 * usage: shape DIMENSIONS X Y Z RANKS-OF-A-NODE
 */
#include <mpi-ext.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_RANKS = 64, UNWRITTEN = -7 };

static int dims, extents[3], size, per_node;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("FAILED: line %d: %s\n", __LINE__, #condition);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void query_shape(void)
{
    int dimension = UNWRITTEN, x, y, z;

    EXPECT(FJMPI_Topology_get_dimension(&dimension) == FJMPI_SUCCESS && dimension == dims);
    EXPECT(FJMPI_Topology_get_shape(&x, &y, &z) == FJMPI_SUCCESS);
    EXPECT(x == extents[0] && y == extents[1] && z == extents[2]);
}

/* All maxdims elements are written, and no more. */
#include "../harness/limit.h"

static void query_coords(int rank, int view, int maxdims, int at[8])
{
    for (int i = 0; i < 8; i++)
        at[i] = UNWRITTEN;
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, rank, view, maxdims, at) == FJMPI_SUCCESS);
    for (int i = 0; i < 8; i++)
        EXPECT((at[i] == UNWRITTEN) == (i >= maxdims));
}

static void find_again(int rank, int view, const int at[])
{
    int n, ranks[MOST_RANKS];

    EXPECT(FJMPI_Topology_get_ranks(MPI_COMM_WORLD, view, at, MOST_RANKS, &n, ranks) ==
           FJMPI_SUCCESS);
    EXPECT(n == per_node);
    for (int i = 0; i < n; i++)
        EXPECT(ranks[i] == rank / per_node * per_node + i);
}

static void place_logically(int rank)
{
    int at[8], node = rank / per_node;

    for (int maxdims = dims; maxdims <= 7; maxdims++) {
        query_coords(rank, FJMPI_LOGICAL, maxdims, at);
        for (int i = 0; i < maxdims; i++)
            EXPECT(i < dims ? at[i] >= 0 && at[i] < extents[i] : at[i] == 0);
    }
    EXPECT(at[0] + extents[0] * (at[1] + extents[1] * at[2]) == node);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, rank, FJMPI_LOGICAL, dims - 1, at) ==
           FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION);
    query_coords(rank, FJMPI_LOGICAL, dims, at);
    find_again(rank, FJMPI_LOGICAL, at);
}

static void place_in_system(int rank)
{
    int at[8], relative[8];

    query_coords(rank, FJMPI_TOFU_SYS, 6, at);
    find_again(rank, FJMPI_TOFU_SYS, at);
    query_coords(rank, FJMPI_TOFU_REL, 7, relative);
    EXPECT(memcmp(at, relative, 6 * sizeof(int)) == 0 && relative[6] == 0);
}

/* The functions of the K computer: each that fits the shape, and those that do not. */
static void place_as_on_k(int rank)
{
    int x = UNWRITTEN, y = UNWRITTEN, z = UNWRITTEN, node = rank / per_node, again = UNWRITTEN, rc;
    int at[6], first = node * per_node;

    EXPECT(FJMPI_Topology_rank2x(rank, &x) == FJMPI_SUCCESS && x == node % extents[0]);
    rc = FJMPI_Topology_rank2xy(rank, &x, &y);
    EXPECT(dims >= 2 ? rc == FJMPI_SUCCESS && y == node / extents[0] % extents[1]
                     : rc == FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION && y == UNWRITTEN);
    rc = FJMPI_Topology_rank2xyz(rank, &x, &y, &z);
    EXPECT(dims == 3 ? rc == FJMPI_SUCCESS && z == node / extents[0] / extents[1]
                     : rc == FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION && z == UNWRITTEN);
    rc = FJMPI_Topology_x2rank(x, &again);
    EXPECT(dims == 1 ? rc == FJMPI_SUCCESS && again == first
                     : rc == FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION);
    rc = FJMPI_Topology_xy2rank(x, dims >= 2 ? y : 0, &again);
    EXPECT(dims <= 2 ? rc == FJMPI_SUCCESS && again == first
                     : rc == FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION);
    EXPECT(FJMPI_Topology_xyz2rank(x, dims >= 2 ? y : 0, dims == 3 ? z : 0, &again) ==
               FJMPI_SUCCESS &&
           again == first);
    EXPECT(FJMPI_Topology_xyz2rank(extents[0], 0, 0, &again) == FJMPI_ERR_TOPOLOGY_NO_PROCESS);
    EXPECT(FJMPI_Topology_sys_rank2xyzabc(rank, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5]) ==
           FJMPI_SUCCESS);
    EXPECT(FJMPI_Topology_sys_xyzabc2rank(at[0], at[1], at[2], at[3], at[4], at[5], &again) ==
               FJMPI_SUCCESS &&
           again == first);
    EXPECT(FJMPI_Topology_rel_rank2xyzabc(rank, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5]) ==
           FJMPI_SUCCESS);
    EXPECT(FJMPI_Topology_rel_xyzabc2rank(at[0], at[1], at[2], at[3], at[4], at[5], &again) ==
               FJMPI_SUCCESS &&
           again == first);
    EXPECT(FJMPI_Topology_sys_xyzabc2rank(255, 255, 255, 0, 0, 0, &again) ==
           FJMPI_ERR_TOPOLOGY_NO_PROCESS);
}

static void refuse_as_on_k(void)
{
    int x, at[6];

    EXPECT(FJMPI_Topology_rank2x(size, &x) == MPI_ERR_RANK);
    EXPECT(FJMPI_Topology_rank2x(-1, &x) == MPI_ERR_RANK);
    EXPECT(FJMPI_Topology_rank2x(0, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_rank2xy(0, &x, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_rank2xyz(0, NULL, &x, &x) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_x2rank(0, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_xy2rank(0, 0, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_xyz2rank(0, 0, 0, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_sys_rank2xyzabc(0, at, at, at, at, at, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_rel_rank2xyzabc(size, at, at, at, at, at, at) == MPI_ERR_RANK);
    EXPECT(FJMPI_Topology_sys_xyzabc2rank(0, 0, 0, 0, 0, 0, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_rel_xyzabc2rank(0, 0, 0, 0, 0, 0, NULL) == MPI_ERR_ARG);
}

/* The check mode only checks processes with a VCQ. */
static void create_vcq(void)
{
    void *library = dlopen("libtofucom.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*create)(unsigned short tni, unsigned long flags, uintptr_t *vcq);
    void *found = library ? dlsym(library, "utofu_create_vcq") : NULL;
    uintptr_t vcq;

    EXPECT(found);
    memcpy(&create, &found, sizeof(create));
    EXPECT(create(0, 0, &vcq) == 0);
}

int main(int argc, char **argv)
{
    int at[6];

    if (argc != 6)
        return 2;
    dims = atoi(argv[1]);
    for (int i = 0; i < 3; i++)
        extents[i] = atoi(argv[2 + i]);
    per_node = atoi(argv[5]);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (FJMPI_Topology_get_coords(MPI_COMM_WORLD, 0, FJMPI_TOFU_SYS, 6, at) ==
        FJMPI_ERR_TOPOLOGY_UNKNOWN) {
        EXPECT(FJMPI_Topology_get_dimension(&dims) == FJMPI_ERR_TOPOLOGY_UNKNOWN);
        printf("lost\n");
        return 3;
    }
    create_vcq();
    query_shape();
    for (int rank = 0; rank < size; rank++) {
        place_logically(rank);
        place_in_system(rank);
        place_as_on_k(rank);
    }
    refuse_as_on_k();
    return 0;
}
