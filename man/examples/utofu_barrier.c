/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of an MPI program wire one gate each into the circuit of two that utofu_set_vbg(3)
 * draws, and then wait for each other without MPI. In the second round they also add up their
 * ranks and one.
 *
 *     mpicc -o barrier barrier.c $(pkg-config --cflags --libs utofu)
 *     mpirun -n 2 ./barrier
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#include <utofu.h>

static void check(int rc, const char *what)
{
    if (rc != UTOFU_SUCCESS) {
        fprintf(stderr, "%s returned %d\n", what, rc);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    utofu_vbg_id_t mine, theirs;
    uint64_t value, sum;
    int rank, size, rc;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "this program takes 2 processes, not %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check(utofu_alloc_vbg(0, 1, 0, &mine), "utofu_alloc_vbg");
    MPI_Sendrecv(&mine, 1, MPI_UINT64_T, !rank, 0, &theirs, 1, MPI_UINT64_T, !rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct utofu_vbg_setting setting = {
        .vbg_id = mine,
        .src_lcl_vbg_id = mine, /* the only gate: its signal goes to itself */
        .dst_lcl_vbg_id = mine,
        .src_rmt_vbg_id = theirs,
        .dst_rmt_vbg_id = theirs,
        .dst_path_coords = {UTOFU_PATH_COORD_NULL},
    };
    check(utofu_set_vbg(&setting, 1), "utofu_set_vbg");
    MPI_Barrier(MPI_COMM_WORLD); /* both processes have set their gates */

    check(utofu_barrier(mine, 0), "utofu_barrier");
    while ((rc = utofu_poll_barrier(mine, 0)) == UTOFU_ERR_NOT_COMPLETED)
        continue; /* or compute */
    check(rc, "utofu_poll_barrier");

    value = (uint64_t)rank + 1;
    check(utofu_reduce_uint64(mine, UTOFU_REDUCE_OP_SUM, &value, 1, 0), "utofu_reduce_uint64");
    while ((rc = utofu_poll_reduce_uint64(mine, 0, &sum)) == UTOFU_ERR_NOT_COMPLETED)
        continue;
    check(rc, "utofu_poll_reduce_uint64");
    printf("rank %d: the sum is %d\n", rank, (int)sum);

    MPI_Barrier(MPI_COMM_WORLD); /* no gate is freed while it still sends */
    check(utofu_free_vbg(&mine, 1), "utofu_free_vbg");
    MPI_Finalize();
    return sum == 3 ? 0 : 1;
}
