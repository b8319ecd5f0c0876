/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of MPI and uTofu: in each round a rank puts a block to both neighbours in a ring, waits
 * for theirs, and all sum a number up by MPI_Allreduce. The region "halo" is all rounds.
 *
 *     mpirun -n N hybrid [ROUNDS [BYTES]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../harness/limit.h"

enum { STAG = 0, BEFORE, BEHIND, SIDES };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t own_id, ids[SIDES + 1];
static utofu_stadd_t own, far[SIDES + 1];
static int rank, size;

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "rank %d: %s: %d\n", rank, what, rc);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_vcq(void *memory, size_t bytes)
{
    utofu_tni_id_t *tnis;
    size_t num;
    utofu_vcq_id_t *all = calloc((size_t)size, sizeof(*all));

    check(utofu_get_onesided_tnis(&tnis, &num), "utofu_get_onesided_tnis");
    check(utofu_create_vcq(tnis[0], 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &own_id), "utofu_query_vcq_id");
    check(utofu_reg_mem_with_stag(vcq, memory, bytes, STAG, 0, &own), "utofu_reg_mem_with_stag");
    MPI_Allgather(&own_id, sizeof(own_id), MPI_BYTE, all, sizeof(own_id), MPI_BYTE, MPI_COMM_WORLD);
    ids[BEFORE] = all[(rank + size - 1) % size];
    ids[BEHIND] = all[(rank + 1) % size];
    for (int i = BEFORE; i <= BEHIND; i++)
        check(utofu_query_stadd(ids[i], STAG, &far[i]), "utofu_query_stadd");
    free(all);
    free(tnis);
}

/* EDATA: the side from which the block comes to its target. */
static void put(int to, size_t bytes)
{
    int side = to == BEFORE ? BEHIND : BEFORE;

    check(utofu_put(vcq, ids[to], own, far[to] + (size_t)side * bytes, bytes, (uint64_t)side,
                    UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                        UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                    NULL),
          "utofu_put");
}

static void wait_for_both(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    for (int i = 0; i < 2; i++) {
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            ;
        check(rc, "utofu_poll_mrq");
    }
    for (int i = 0; i < 2; i++) {
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            ;
        check(rc, "utofu_poll_tcq");
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 4096, room = (3 * bytes + 255) / 256 * 256;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *memory = aligned_alloc(256, room);
    open_vcq(memory, room);
    MPI_Barrier(MPI_COMM_WORLD);
    utofu_profile_start("halo");
    for (int i = 0; i < rounds; i++) {
        double one = 1, sum = 0;
        put(BEFORE, bytes);
        put(BEHIND, bytes);
        wait_for_both();
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(sum != size, "MPI_Allreduce");
    }
    utofu_profile_stop("halo");
    MPI_Barrier(MPI_COMM_WORLD);
    check(utofu_dereg_mem(vcq, own, 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    free(memory);
    MPI_Finalize();
    return 0;
}
