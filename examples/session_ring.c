/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session mode: a message goes around a ring of processes by itself. Each process except rank 0
 * prepares puts in advance, one per piece, that pass the message on to the next process. The puts
 * wait in the TOQ of its session-mode VCQ, and each piece that arrives with a session progress step
 * (SPS) of 1 starts one of them. So the pieces follow each other around the ring while the
 * processes compute, without calls of uTofu.
 *
 *     cc -o session_ring session_ring.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./session_ring
 *     mpirun -n 4 ./session_ring
 */
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

enum { ROUNDS = 50, PIECES = 8, WORDS = 512, STAG = 0 };

typedef uint64_t piece_t[WORDS];

static utofu_vcq_hdl_t ring; /* in session mode, except that of rank 0, which starts each round */
static utofu_stadd_t lcl, rmt;
static utofu_vcq_id_t next_vcq;
static piece_t *out, *in; /* rank 0 sends from out; the other processes pass on the data in `in` */

static void put_pieces(utofu_stadd_t from)
{
    int next = (my_rank() + 1) % num_processes();
    unsigned long int flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER; /* the last word is written last */

    if (next != 0) /* rank 0 has no waiting descriptors */
        flags |= UTOFU_ONESIDED_FLAG_SPS(1);
    for (size_t i = 0; i < PIECES; i++)
        CALL(utofu_put(ring, next_vcq, from + i * sizeof(piece_t), rmt + i * sizeof(piece_t),
                       sizeof(piece_t), i, flags, NULL));
}

/* The program's own computation, which the ring does not interrupt. */
static uint64_t compute_until(uint64_t round)
{
    uint64_t sum = 0;

    while (__atomic_load_n(&in[PIECES - 1][WORDS - 1], __ATOMIC_ACQUIRE) != round) {
        for (uint64_t k = 0; k < 1000; k++)
            sum = sum * 6364136223846793005u + k;
        wait_a_moment();
    }
    return sum;
}

/* The pieces are in order, so all have arrived when the last one has. */
static void check_message(uint64_t round)
{
    for (int i = 0; i < PIECES; i++) {
        for (int k = 0; k < WORDS; k++) {
            uint64_t expected = k < WORDS - 1 ? round * PIECES + (uint64_t)i : round;

            if (in[i][k] != expected) {
                fprintf(stderr, "rank %d, round %d: word %d of piece %d is wrong\n", my_rank(),
                        (int)round, k, i);
                exit(1);
            }
        }
    }
}

int main(void)
{
    const size_t size = 2 * PIECES * sizeof(piece_t);
    utofu_vcq_id_t ids[MAX_PROCESSES], *ring_ids = aligned_memory(sizeof(ids));
    uint64_t result = 0;

    need_processes(2, MAX_PROCESSES);
    utofu_vcq_hdl_t vcq = open_vcq(); /* for meet(): its puts must not wait for the ring */
    CALL(utofu_create_vcq(0, my_rank() == 0 ? 0 : UTOFU_VCQ_FLAG_SESSION_MODE, &ring));
    CALL(utofu_query_vcq_id(ring, &ring_ids[my_rank()]));
    out = aligned_memory(size);
    in = out + PIECES;
    CALL(utofu_reg_mem_with_stag(ring, out, size, STAG, 0, &lcl));
    share_rows(vcq, ring_ids, sizeof(ring_ids[0]));
    next_vcq = ring_ids[(my_rank() + 1) % num_processes()];
    CALL(utofu_query_stadd(next_vcq, STAG, &rmt));
    rmt += PIECES * sizeof(piece_t); /* puts go from `in` to `in` */

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        void *cbdata;

        if (my_rank() != 0)
            put_pieces(lcl + PIECES * sizeof(piece_t)); /* started later, by the arriving message */
        meet(vcq, ids); /* all are ready, and rank 0 has received the whole previous round */
        if (my_rank() == 0) {
            for (int i = 0; i < PIECES; i++)
                for (int k = 0; k < WORDS; k++)
                    out[i][k] = k < WORDS - 1 ? round * PIECES + (uint64_t)i : round;
            put_pieces(lcl);
        }
        result += compute_until(round);
        check_message(round);
        /* The queue must be polled all the same: for errors, and to free its entries. */
        int rc = utofu_poll_tcq(ring, 0, &cbdata);
        if (rc != UTOFU_ERR_NOT_FOUND)
            check_call(rc, "utofu_put");
    }
    if (my_rank() == 0)
        printf("%d messages went around a ring of %d processes\n", ROUNDS, num_processes());
    else
        printf("rank %d computed %llx meanwhile\n", my_rank(), (unsigned long long)result);
    meet(vcq, ids); /* no communication is under way any more */
    CALL(utofu_dereg_mem(ring, lcl, 0));
    CALL(utofu_free_vcq(ring));
    close_vcq(vcq);
    free(out);
    free(ring_ids);
    return 0;
}
