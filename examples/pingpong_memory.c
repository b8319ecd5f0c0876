/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ping-pong between two processes without notices: the receiver polls the last word of the message.
 * With STRONG_ORDER this word is written after all others, so when it has changed the whole message
 * has arrived.
 *
 *     cc -o pingpong_memory pingpong_memory.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 2 ./pingpong_memory
 *     mpirun -n 2 ./pingpong_memory
 */
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

enum { ROUNDS = 1000, WORDS = 512, STAG = 0 };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t my_buffer, peer_buffer;
static uint64_t *out, *in; /* the two halves of the buffer */

static void send(uint64_t round)
{
    void *cbdata;
    int rc;

    for (int i = 0; i < WORDS; i++)
        out[i] = round;
    CALL(utofu_put(vcq, peer, my_buffer, peer_buffer + 8 * WORDS, 8 * WORDS, 0,
                   UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
    /* The queue must be polled all the same: for errors, and because polling frees entries. */
    rc = utofu_poll_tcq(vcq, 0, &cbdata);
    if (rc != UTOFU_ERR_NOT_FOUND)
        check_call(rc, "utofu_put");
}

static void receive(uint64_t round)
{
    while (__atomic_load_n(&in[WORDS - 1], __ATOMIC_ACQUIRE) != round)
        wait_a_moment();
    for (int i = 0; i < WORDS; i++) {
        if (in[i] != round) {
            fprintf(stderr, "rank %d: word %d came later than the last\n", my_rank(), i);
            exit(1);
        }
    }
}

int main(void)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];

    need_processes(2, 2);
    out = aligned_memory(2 * 8 * WORDS);
    in = out + WORDS;
    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, out, 2 * 8 * WORDS, STAG, 0, &my_buffer));
    meet(vcq, ids);
    peer = ids[!my_rank()];
    CALL(utofu_query_stadd(peer, STAG, &peer_buffer));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (my_rank() == 0)
            send(round);
        receive(round); /* an answer also shows that this process's message has been sent */
        if (my_rank() == 1)
            send(round);
    }
    printf("rank %d: %d rounds\n", my_rank(), ROUNDS);
    meet(vcq, ids); /* both have seen the last message */
    CALL(utofu_dereg_mem(vcq, my_buffer, 0));
    close_vcq(vcq);
    free(out);
    return 0;
}
