/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ping-pong between two processes of an MPI program: MPI carries the VCQ ids and STADDs, uTofu
 * moves the data.
 *
 *     mpicc -o pingpong_mpi pingpong_mpi.c $(pkg-config --cflags --libs utofu)
 *     mpirun -n 2 ./pingpong_mpi
 */
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

enum { ROUNDS = 1000 };

static int rank;
static utofu_vcq_hdl_t vcq;

static void check(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text); /* the name and number of the code, and the reason */
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wait_notice(uint8_t type)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    check(rc, "utofu_poll_mrq");
    check(notice.notice_type == type ? UTOFU_SUCCESS : UTOFU_ERR_FATAL, "the type of the notice");
}

int main(int argc, char **argv)
{
    /* the addresses for the peer; buffer[0] is sent, buffer[1] receives the peer's words */
    struct {
        uint64_t vcq_id, stadd;
    } mine, peer;
    static volatile uint64_t buffer[2];
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0)
            fprintf(stderr, "this program takes 2 processes, not %d: start it with mpirun -n 2\n",
                    size);
        MPI_Finalize();
        return 2;
    }
    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &mine.vcq_id), "utofu_query_vcq_id");
    check(utofu_reg_mem(vcq, (void *)buffer, sizeof(buffer), 0, &mine.stadd), "utofu_reg_mem");
    MPI_Sendrecv(&mine, 2, MPI_UINT64_T, !rank, 0, &peer, 2, MPI_UINT64_T, !rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);

    for (uint64_t step = 0; step < 2 * ROUNDS; step++) {
        if (step % 2 == (uint64_t)rank) { /* this process's turn */
            buffer[0] = step;
            check(utofu_put(vcq, peer.vcq_id, mine.stadd, peer.stadd + 8, 8, 0,
                            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                                UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                            NULL),
                  "utofu_put");
            wait_notice(UTOFU_MRQ_TYPE_LCL_PUT);
        } else {
            wait_notice(UTOFU_MRQ_TYPE_RMT_PUT);
            check(buffer[1] == step ? UTOFU_SUCCESS : UTOFU_ERR_FATAL, "the word that came");
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: %d rounds\n", rank, ROUNDS);
    check(utofu_dereg_mem(vcq, mine.stadd, 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    MPI_Finalize();
    return 0;
}
