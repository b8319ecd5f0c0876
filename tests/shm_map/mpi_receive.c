/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI receives into registered memory, while a peer puts to it, and while it is deregistered and
 * registered again: no receive fails, and no byte is wrong. MPI libraries copy by cross-memory
 * attach, in system calls of the receiver.
 *
 * Usage: mpirun -n 2 mpi_receive same|thread [wrong]
 *
 * same: the thread that receives polls. thread: a thread of its own receives, in MPI all the time.
 * wrong: a byte is changed, which the test must find.
 */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <utofu.h>

#include "../harness/limit.h"

enum { PARTS = 16, PART = 1 << 18, BYTES = 57344, RECEIVES = 500, PHASES = 2 };

static uint8_t *memory;
static utofu_vcq_hdl_t vcq;
static utofu_stadd_t stadd;
static int rank, wrong_byte;
static unsigned long wrong;
static atomic_int received; /* in all phases */

static void check(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint8_t *place_of(int n)
{
    return memory + (size_t)(n % PARTS) * PART + 4096;
}

static void look_at(int n)
{
    uint8_t *at = place_of(n);

    if (wrong_byte && n == RECEIVES / 2)
        at[BYTES - 1]++;
    for (size_t i = 0; i < BYTES; i++)
        wrong += at[i] != (uint8_t)(n + 1);
}

static void *receive_all(void *arg)
{
    const int phase = *(const int *)arg;

    for (int n = 0; n < RECEIVES; n++) {
        MPI_Recv(place_of(n), BYTES, MPI_BYTE, 1, phase, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        look_at(n);
        atomic_fetch_add(&received, 1);
    }
    return NULL;
}

static void use_memory(int phase)
{
    struct utofu_mrq_notice notice;

    if (phase == 0) {
        int rc = utofu_poll_mrq(vcq, 0, &notice);
        check(rc == UTOFU_ERR_NOT_FOUND ? UTOFU_SUCCESS : rc, "utofu_poll_mrq");
    } else {
        check(utofu_dereg_mem(vcq, stadd, 0), "utofu_dereg_mem");
        check(utofu_reg_mem(vcq, memory, PARTS * PART, 0, &stadd), "utofu_reg_mem");
    }
    sched_yield();
}

static void receive_in_thread(int phase)
{
    const int until = atomic_load(&received) + RECEIVES;
    pthread_t thread;

    if (pthread_create(&thread, NULL, receive_all, &phase) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (atomic_load(&received) < until)
        use_memory(phase);
    pthread_join(thread, NULL);
}

static void receive_here(int phase)
{
    for (int n = 0; n < RECEIVES; n++) {
        MPI_Request request;
        int done = 0;
        MPI_Irecv(place_of(n), BYTES, MPI_BYTE, 1, phase, MPI_COMM_WORLD, &request);
        while (!done) {
            use_memory(phase);
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        look_at(n);
    }
}

/* Rank 1: in the first phase a put to another line of the part goes before each message. */
static void send_all(int phase, const uint64_t peer[2], uint8_t *source, utofu_stadd_t lcl)
{
    void *cbdata;
    int rc;

    for (int n = 0; n < RECEIVES; n++) {
        for (int i = 0; i < 20 && phase == 0; i++) {
            check(utofu_put(vcq, peer[0], lcl, peer[1] + (uint64_t)(n % PARTS) * PART, 8, 0,
                            UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
                  "utofu_put");
            while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
                sched_yield();
            check(rc, "utofu_poll_tcq");
        }
        memset(source + 4096, n + 1, BYTES);
        MPI_Send(source + 4096, BYTES, MPI_BYTE, 0, phase, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 && strcmp(argv[1], "thread") == 0;
    uint64_t mine[2], peer[2];
    int provided;

    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wrong_byte = argc > 2;
    if (threads && provided < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return 77;
    }
    memory = mmap(NULL, PARTS * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0, PARTS * PART);
    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_reg_mem(vcq, memory, PARTS * PART, 0, &stadd), "utofu_reg_mem");
    check(utofu_query_vcq_id(vcq, &mine[0]), "utofu_query_vcq_id");
    mine[1] = stadd;
    MPI_Sendrecv(mine, 2, MPI_UINT64_T, !rank, 9, peer, 2, MPI_UINT64_T, !rank, 9, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int phase = 0; phase < PHASES; phase++) {
        if (rank == 1)
            send_all(phase, peer, memory, stadd);
        else if (threads)
            receive_in_thread(phase);
        else
            receive_here(phase);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%d receives, %lu wrong bytes\n", PHASES * RECEIVES, wrong);
    check(utofu_dereg_mem(vcq, stadd, 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
