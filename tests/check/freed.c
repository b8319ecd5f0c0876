/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed wrong|right: rank 0 puts to a VCQ of rank 1, and polls, until the check mode has started
 * the put, so that no communication is held. Then it frees its VCQ (wrong: rank 1's does not
 * exist), or polls on until the put is complete.
 */
#include <string.h>
#include <time.h>

#include "meet.h"
#include "../harness/limit.h"

enum { HOLD_S = 1, OTHER = 3 }; /* puts are held for a few milliseconds */

static uint64_t words[64] __attribute__((aligned(256)));

int main(int argc, char **argv)
{
    const char *how = argc == 2 ? argv[1] : "";
    utofu_vcq_hdl_t vcq = open_vcq(), other;
    utofu_vcq_id_t ids[MAX_PROCESSES], id;
    uint8_t coords[6];
    utofu_cq_id_t cq;
    utofu_tni_id_t tni;
    uint16_t extra;
    utofu_stadd_t own, rmt;
    int rc = UTOFU_ERR_NOT_FOUND;

    meet(vcq, ids);
    /* the same CQ, another component */
    CALL(utofu_query_vcq_info(ids[1], coords, &tni, &cq, &extra));
    CALL(utofu_construct_vcq_id(coords, tni, cq, OTHER, &id));
    CALL(utofu_query_stadd(id, 0, &rmt));
    if (my_rank() == 1 && strcmp(how, "right") == 0) {
        CALL(utofu_create_vcq_with_cmp_id(0, OTHER, 0, &other));
        CALL(utofu_reg_mem_with_stag(other, words, sizeof(words), 0, 0, &own));
    }
    meet(vcq, ids);
    if (my_rank() == 0) {
        CALL(utofu_create_vcq_with_cmp_id(0, OTHER, 0, &other));
        CALL(utofu_reg_mem(other, words, sizeof(words), 0, &own));
        CALL(utofu_put(other, id, own, rmt, 64, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        struct utofu_mrq_notice notice;
        time_t end = time(NULL) + HOLD_S + 1;
        while (rc == UTOFU_ERR_NOT_FOUND && (time(NULL) < end || strcmp(how, "right") == 0))
            rc = utofu_poll_mrq(other, 0, &notice);
        CALL(utofu_free_vcq(other));
    }
    meet(vcq, ids); /* a process that had ended would have failed the put */
    close_vcq(vcq);
    return 0;
}
