/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start T0
 *
 * Each process of a job puts eight bytes to the next rank, as its first call after the set-up, and
 * waits for the put of the previous rank. Prints when its own put had ended, in seconds since T0,
 * which is CLOCK_REALTIME in nanoseconds. scripts/bench start runs it under each launcher. Compiled
 * with WITH_MPI it does the same with MPI: MPI_Init, MPI_Put, MPI_Win_flush.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds_since(const char *t0)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)((int64_t)t.tv_sec * 1000000000 + t.tv_nsec - atoll(t0)) * 1e-9;
}

#ifdef WITH_MPI
#    include <mpi.h>

static double first_put(const char *t0)
{
    uint64_t *mine, word = 1;
    int rank, size;
    MPI_Win win;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_lock_all(0, win);
    int to = (rank + 1) % size;
    MPI_Put(&word, 8, MPI_BYTE, to, 0, 8, MPI_BYTE, win);
    MPI_Win_flush(to, win);
    double at = seconds_since(t0);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return at;
}
#else
#    include "party.h"

enum { STAG = 7, CMP = 3 };

static double first_put(const char *t0)
{
    const unsigned long flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    static uint64_t mine[512] __attribute__((aligned(4096)));
    struct utofu_mrq_notice notice;
    utofu_stadd_t own, theirs;
    utofu_vcq_hdl_t vcq;
    double at = 0;

    party_find("start", 2, 600);
    party_check(utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, mine, sizeof(mine), STAG, 0, &own),
                "utofu_reg_mem_with_stag");
    utofu_vcq_id_t id = party_vcq_id((party.rank + 1) % party.size, 0, CMP);
    party_check(utofu_query_stadd(id, STAG, &theirs), "utofu_query_stadd");
    bool put = true;
    for (int notices = 0; notices < 2;) {
        if (put)
            party_check(utofu_put_piggyback8(vcq, id, 1, theirs, 8, 0, flags, NULL), "the put");
        int rc = utofu_poll_mrq(vcq, 0, &notice);
        put = rc == UTOFU_ERR_MRQ_RMT_STADD; /* the peer has not registered its memory yet */
        if (rc == UTOFU_ERR_NOT_FOUND)
            sched_yield();
        if (put || rc == UTOFU_ERR_NOT_FOUND)
            continue;
        party_check(rc, "the put");
        notices++;
        if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
            at = seconds_since(t0);
    }
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    return at;
}
#endif

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s T0\n", argv[0]);
        return 2;
    }
    double at = first_put(argv[1]);
    printf("first put after %.3f s\n", at);
    return 0;
}
