/* SPDX-License-Identifier: Apache-2.0 */
/* Step 3: two processes send each other messages, and wait by looking at memory. */
#include <stdio.h>
#include <stdlib.h>

#include "tutorial.h"

enum { ROUNDS = 100, WORDS = 512, SIZE = 8 * WORDS };

static utofu_vcq_hdl_t vcq;
static uint64_t *out, *in; /* a message each */
static uint64_t peer, out_stadd, peer_in_stadd;

static void send_message(uint64_t round)
{
    for (int i = 0; i < WORDS; i++)
        out[i] = round;
    /* Your lines: */
    CALL(utofu_put(vcq, peer, out_stadd, peer_in_stadd, SIZE, 0,
                   UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    wait_sent(vcq);
    /* End of your lines. */
}

static void receive_message(uint64_t round)
{
    /* Your lines: */
    wait_word(&in[WORDS - 1], round); /* the last word comes last */
    /* End of your lines. */
    for (int i = 0; i < WORDS; i++)
        if (in[i] != round) {
            printf("rank %d, message %d: word %d is still that of message %d\n", my_rank(),
                   (int)round, i, (int)in[i]);
            exit(1);
        }
}

int main(void)
{
    uint64_t all[MAX_PROCESSES];
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    need_processes(2);
    out = new_memory(2 * SIZE);
    in = out + WORDS;
    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &id));
    CALL(utofu_reg_mem(vcq, out, 2 * SIZE, 0, &stadd));
    out_stadd = stadd;
    exchange(id, all);
    peer = all[!my_rank()];
    exchange(stadd + SIZE, all);
    peer_in_stadd = all[!my_rank()];
    for (uint64_t round = 1; round <= ROUNDS && my_rank() < 2; round++) {
        if (my_rank() == 0)
            send_message(round);
        receive_message(round);
        if (my_rank() == 1)
            send_message(round);
    }
    exchange(0, all);
    if (my_rank() == 0)
        printf("%d messages came and were whole\n", 2 * ROUNDS);
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(out);
    return 0;
}
