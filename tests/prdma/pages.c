/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages METHOD: RTRs and blocks reach a process of the same node without a system call, also where
 * blocks begin and end within a page: calls of process_vm_writev() are counted. Method eager, which
 * uses memory of the layer alone, shows whether memory can be mapped on this machine.
 */
#include "check.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK = 10 * PAGE, ROUNDS = 20, FIRST = 5 };

static int calls, rank, procs;

ssize_t process_vm_writev(pid_t pid, const struct iovec *lcl, unsigned long lcl_count,
                          const struct iovec *rmt, unsigned long rmt_count, unsigned long flags)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return syscall(SYS_process_vm_writev, pid, lcl, lcl_count, rmt, rmt_count, flags);
}

/* Returns all processes' calls once memory is mapped; blocks begin `offset` bytes into a page. */
static int run(MPI_Comm ring, const char *method, int offset)
{
    unsigned char *in = aligned_alloc(PAGE, 4 * BLOCK), *out = aligned_alloc(PAGE, 2 * BLOCK);
    unsigned char *from[2] = {in + offset, in + 2 * BLOCK + offset};
    int counts[2] = {BLOCK, BLOCK}, displs[2] = {offset, 2 * BLOCK + offset}, before = 0, all;
    int ranks[2] = {(rank + procs - 1) % procs, (rank + 1) % procs};
    MPI_Request request;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "prdma_method", method);
    memset(in, 0, 4 * BLOCK);
    INIT(allgatherv)
    (out, BLOCK, MPI_BYTE, in, counts, displs, MPI_BYTE, ring, info, &request);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == FIRST)
            before = __atomic_load_n(&calls, __ATOMIC_RELAXED);
        for (int i = 0; i < BLOCK; i++)
            out[i] = (unsigned char)(i * 7 + rank * 31 + round);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < BLOCK; i++)
                CHECK(from[k][i] == (unsigned char)(i * 7 + ranks[k] * 31 + round));
        for (int i = 0; i < offset; i++) /* nothing before the block is written, */
            CHECK(in[i] == 0);
        CHECK(from[0][BLOCK] == 0 && from[1][BLOCK] == 0); /* nor behind it */
    }
    int own = __atomic_load_n(&calls, __ATOMIC_RELAXED) - before;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Request_free(&request);
    MPI_Info_free(&info);
    free(in);
    free(out);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Comm ring;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    const char *method = argc > 1 ? argv[1] : "fast";
    int copied = run(ring, "eager", 0), whole = run(ring, method, 0),
        parts = run(ring, method, 100);
    if (rank == 0)
        printf("calls of process_vm_writev in %d rounds: %d with eager, with %s %d for whole "
               "pages, %d "
               "for others\n",
               ROUNDS - FIRST, copied, method, whole, parts);
    CHECK(whole <= copied && parts <= copied);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
