/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ping-pong between two processes: each puts a word into the other's memory, and waits for the
 * remote MRQ notice of the other's put.
 *
 *     cc -o pingpong_notice pingpong_notice.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 2 ./pingpong_notice
 *     mpirun -n 2 ./pingpong_notice
 */
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

enum { ROUNDS = 1000, STAG = 0 };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t my_buffer, peer_buffer;
static volatile uint64_t *buffer; /* word 0 is sent, word 1 receives the peer's */

static void send(uint64_t round)
{
    buffer[0] = round;
    CALL(utofu_put(vcq, peer, my_buffer, peer_buffer + 8, 8, round % 256,
                   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                   NULL));
    /* The own local notice: the word is in the peer's memory. It precedes the peer's answer. */
    if (wait_notice(vcq).notice_type != UTOFU_MRQ_TYPE_LCL_PUT) {
        fprintf(stderr, "rank %d: no local notice in round %d\n", my_rank(), (int)round);
        exit(1);
    }
}

static void receive(uint64_t round)
{
    struct utofu_mrq_notice notice = wait_notice(vcq);

    /* The notice has the sender, its EDATA, and the address of the last byte. */
    if (notice.notice_type != UTOFU_MRQ_TYPE_RMT_PUT || notice.vcq_id != peer ||
        notice.edata != round % 256 || notice.rmt_stadd != my_buffer + 16 || buffer[1] != round) {
        fprintf(stderr, "rank %d: wrong notice in round %d\n", my_rank(), (int)round);
        exit(1);
    }
}

int main(void)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];

    need_processes(2, 2);
    buffer = aligned_memory(256);
    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, (void *)buffer, 256, STAG, 0, &my_buffer));
    meet(vcq, ids);
    peer = ids[!my_rank()];
    CALL(utofu_query_stadd(peer, STAG, &peer_buffer));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (my_rank() == 0)
            send(round);
        receive(round);
        if (my_rank() == 1)
            send(round);
    }
    printf("rank %d: %d rounds\n", my_rank(), ROUNDS);
    CALL(utofu_dereg_mem(vcq, my_buffer, 0));
    close_vcq(vcq);
    free((void *)buffer);
    return 0;
}
