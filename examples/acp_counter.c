/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counter and a ring of locks, in the starter memory of the processes. Each process adds to the
 * counter of rank 0, and gets the old value in its own memory. Then each process takes the lock of
 * every process in turn, with a compare and swap, changes the word that the lock guards, and
 * releases the lock: the guarded word is in the memory of the next process of the ring.
 *
 *     cc -o acp_counter acp_counter.c $(pkg-config --cflags --libs acpbl_utofu)
 *     utofurun -n 4 ./acp_counter
 *     mpirun -n 4 ./acp_counter
 */
#include <acp.h>

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ROUNDS = 50 };

/* In the starter memory of every process. */
struct words {
    uint64_t counter; /* of rank 0 */
    uint64_t lock;    /* 0, or 1 + the rank of the owner */
    uint64_t guarded; /* by the lock of the previous rank */
    uint64_t old, value;
};

static acp_ga_t at(int rank, size_t offset)
{
    return acp_query_starter_ga(rank % acp_procs()) + offset;
}

static struct words *mine;

static void lock(int rank)
{
    acp_ga_t old = at(acp_rank(), offsetof(struct words, old));

    for (;;) {
        acp_complete(acp_cas8(old, at(rank, offsetof(struct words, lock)), 0,
                              1 + (uint64_t)acp_rank(), ACP_HANDLE_NULL));
        if (mine->old == 0)
            return;
        sched_yield();
    }
}

static void unlock(int rank)
{
    acp_complete(acp_swap8(at(acp_rank(), offsetof(struct words, old)),
                           at(rank, offsetof(struct words, lock)), 0, ACP_HANDLE_NULL));
}

/* No atomic operation is needed, as the caller has the lock. */
static void add_one(int rank)
{
    acp_ga_t here = at(acp_rank(), offsetof(struct words, value));
    acp_ga_t there = at(rank, offsetof(struct words, guarded));

    acp_complete(acp_copy(here, there, 8, ACP_HANDLE_NULL));
    mine->value++;
    acp_complete(acp_copy(there, here, 8, ACP_HANDLE_NULL));
}

int main(int argc, char **argv)
{
    uint64_t expected;
    int me, n, wrong;

    if (acp_init(&argc, &argv) != 0)
        return 1;
    me = acp_rank();
    n = acp_procs();
    mine = acp_query_address(acp_query_starter_ga(me));
    for (int i = 0; i < ROUNDS; i++)
        acp_add8(at(me, offsetof(struct words, old)), at(0, offsetof(struct words, counter)), 1,
                 ACP_HANDLE_NULL);
    acp_complete(ACP_HANDLE_ALL);
    for (int i = 0; i < ROUNDS; i++) {
        lock(me + i);
        add_one(me + i + 1);
        unlock(me + i);
    }
    acp_sync();
    expected = me == 0 ? (uint64_t)n * ROUNDS : 0;
    wrong = mine->counter != expected || mine->lock != 0;
    for (int r = 0, sum = 0; me == 0 && r < n; r++) {
        acp_complete(acp_copy(at(0, offsetof(struct words, value)),
                              at(r, offsetof(struct words, guarded)), 8, ACP_HANDLE_NULL));
        sum += (int)mine->value;
        if (r == n - 1) {
            wrong |= sum != n * ROUNDS;
            printf("the counter is %d, and what the locks guard adds up to %d\n",
                   (int)mine->counter, sum);
        }
    }
    if (acp_finalize() != 0)
        return 1;
    return wrong;
}
