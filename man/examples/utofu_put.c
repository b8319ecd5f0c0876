/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 of an MPI program puts a message into the memory of rank 1, which gets the remote MRQ
 * notice. MPI sends the VCQ id and the STADD before the put. The source may be changed or freed
 * only after the TCQ entry.
 *
 *     mpicc -o put put.c $(pkg-config --cflags --libs utofu)
 *     mpirun -n 2 ./put
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <utofu.h>

static void check(int rc, const char *what)
{
    if (rc != UTOFU_SUCCESS) {
        fprintf(stderr, "%s returned %d\n", what, rc);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void send_text(utofu_vcq_hdl_t vcq, const uint64_t target[2], utofu_stadd_t from,
                      size_t size)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_put(vcq, target[0], from, target[1], size, 0,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                           NULL)) == UTOFU_ERR_BUSY)
        utofu_poll_tcq(vcq, 0, &cbdata); /* the TOQ is full: polling makes space in it */
    check(rc, "utofu_put");
    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        continue;
    check(rc, "utofu_poll_tcq");
}

int main(int argc, char **argv)
{
    static char text[64];
    struct utofu_mrq_notice notice;
    uint64_t mine[2], target[2]; /* VCQ id and STADD */
    utofu_vcq_hdl_t vcq;
    int rank, size, rc;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "this program takes 2 processes, not %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &mine[0]), "utofu_query_vcq_id");
    check(utofu_reg_mem(vcq, text, sizeof(text), 0, &mine[1]), "utofu_reg_mem");
    MPI_Sendrecv(mine, 2, MPI_UINT64_T, !rank, 0, target, 2, MPI_UINT64_T, !rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (rank == 0) {
        strcpy(text, "put by rank 0");
        send_text(vcq, target, mine[1], sizeof(text));
    } else {
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            continue;
        check(rc, "utofu_poll_mrq");
        printf("rank 1 has: %s\n", text);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* the target stays registered until the data have arrived */
    check(utofu_dereg_mem(vcq, mine[1], 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    MPI_Finalize();
    return 0;
}
