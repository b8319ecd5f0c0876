/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start T0
 *
 * Each process of a job puts eight bytes to the next rank, as its first call after the set-up, and
 * waits for the put of the previous rank. Prints when its own put had ended, in seconds since T0,
 * which is CLOCK_REALTIME in nanoseconds. bench/start runs it under each launcher. Compiled with
 * WITH_MPI it does the same with MPI: MPI_Init, MPI_Put, MPI_Win_flush.
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
#    include "utofu.h"

enum { STAG = 7, CMP = 3, CQS = 3 }; /* CQS: per process, with three or more processes on a host */

static void check_code(int rc, const char *what)
{
    if (rc == UTOFU_SUCCESS)
        return;
    fprintf(stderr, "start: %s: %d\n", what, rc);
    exit(1);
}

static uint32_t number_from(const char *const names[4])
{
    for (int i = 0; i < 4; i++)
        if (getenv(names[i]))
            return (uint32_t)atoi(getenv(names[i]));
    fprintf(stderr, "start: no launcher\n");
    exit(1);
}

/* All processes are on this host, so the peer's VCQ id follows from the own one. */
static utofu_vcq_id_t vcq_of(utofu_vcq_hdl_t hdl, uint32_t rank)
{
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint8_t coords[6];
    uint16_t extra;

    check_code(utofu_query_vcq_id(hdl, &id), "the VCQ of this process");
    check_code(utofu_query_vcq_info(id, coords, &tni, &cq, &extra), "the VCQ of this process");
    check_code(utofu_construct_vcq_id(coords, tni, (utofu_cq_id_t)(rank * CQS), CMP, &id),
               "its VCQ");
    return id;
}

static double first_put(const char *t0)
{
    static const char *const ranks[] = {"UTOFU_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    static const char *const sizes[] = {"UTOFU_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};
    static uint64_t mine[512] __attribute__((aligned(4096)));
    uint32_t to = (number_from(ranks) + 1) % number_from(sizes);
    struct utofu_mrq_notice notice;
    utofu_stadd_t own, theirs;
    utofu_vcq_hdl_t vcq;
    double at = 0;
    int rc;

    check_code(utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq), "creating a VCQ");
    check_code(utofu_reg_mem_with_stag(vcq, mine, sizeof(mine), STAG, 0, &own),
               "registering memory");
    utofu_vcq_id_t id = vcq_of(vcq, to);
    check_code(utofu_query_stadd(id, STAG, &theirs), "its STADD");
    const unsigned long int flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    check_code(utofu_put_piggyback8(vcq, id, 1, theirs, 8, 0, flags, NULL), "the put");
    for (int notices = 0; notices < 2;) {
        rc = utofu_poll_mrq(vcq, 0, &notice);
        if (rc == UTOFU_ERR_NOT_FOUND) {
            sched_yield();
            continue;
        }
        if (rc == UTOFU_ERR_MRQ_RMT_STADD) { /* the peer has not registered its memory yet */
            check_code(utofu_put_piggyback8(vcq, id, 1, theirs, 8, 0, flags, NULL), "the put");
            continue;
        }
        check_code(rc, "the put");
        notices++;
        if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
            at = seconds_since(t0);
    }
    check_code(utofu_free_vcq(vcq), "freeing the VCQ");
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
