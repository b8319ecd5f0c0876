/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory under a chosen STag: its STADD is computed from the VCQ id of its owner, so it need not be
 * sent. Each process sends a message to all others; the message from rank s to rank r goes to place
 * s of r's mailbox, which is registered under STag 17.
 *
 *     cc -o reserved_stag reserved_stag.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./reserved_stag
 *     mpirun -n 4 ./reserved_stag
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meet.h"

enum { STAG = 17, PLACE = 32 }; /* a piggyback put carries up to 32 bytes */

int main(void)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];
    char *mailbox = aligned_memory(MAX_PROCESSES * PLACE), text[PLACE];
    utofu_stadd_t mine, computed;
    utofu_vcq_hdl_t vcq = open_vcq();

    CALL(utofu_reg_mem_with_stag(vcq, mailbox, MAX_PROCESSES * PLACE, STAG, 0, &mine));
    meet(vcq, ids);
    CALL(utofu_query_stadd(ids[my_rank()], STAG, &computed));
    if (computed != mine) {
        fprintf(stderr, "rank %d: the STADD is not the computed one\n", my_rank());
        return 1;
    }
    for (int rank = 0; rank < num_processes(); rank++) {
        utofu_stadd_t theirs;

        memset(text, 0, sizeof(text));
        snprintf(text, sizeof(text), "hello %d, this is %d", rank, my_rank());
        CALL(utofu_query_stadd(ids[rank], STAG, &theirs));
        CALL(utofu_put_piggyback(vcq, ids[rank], text, theirs + PLACE * (size_t)my_rank(), PLACE,
                                 (uint64_t)my_rank(), UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
    }
    for (int i = 0; i < num_processes(); i++) { /* in any order */
        struct utofu_mrq_notice notice = wait_notice(vcq);

        snprintf(text, sizeof(text), "hello %d, this is %d", my_rank(), (int)notice.edata);
        if (strcmp(mailbox + PLACE * notice.edata, text) != 0) {
            fprintf(stderr, "rank %d: wrong hello from %d\n", my_rank(), (int)notice.edata);
            return 1;
        }
        printf("rank %d got: %s\n", my_rank(), mailbox + PLACE * notice.edata);
    }
    CALL(utofu_dereg_mem(vcq, mine, 0)); /* all messages have arrived */
    close_vcq(vcq);
    free(mailbox);
    return 0;
}
