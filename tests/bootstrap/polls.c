/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes of utofurun put to each other in turn, and wait for notices in polls alone: nothing
 * else gives the core away. */
#include <stdio.h>
#include <stdlib.h>

#include "utofu.h"
#include "utofu_ext.h"
#include "../harness/limit.h"

enum { ROUNDS = 300, STAG = 7, CMP = 3, NUM_CQS = 4 /* UTOFU_CQ_MAP=auto */ };

static void ok(const char *what, int rc)
{
    if (rc == UTOFU_SUCCESS)
        return;
    printf("FAIL %s: %d\n", what, rc);
    exit(1);
}

static utofu_vcq_id_t vcq_of(utofu_vcq_hdl_t vcq, unsigned int rank)
{
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint8_t coords[6];
    uint16_t extra;

    ok("the own VCQ", utofu_query_vcq_id(vcq, &id));
    ok("the own VCQ", utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    ok("the other VCQ",
       utofu_construct_vcq_id(coords, tni, (utofu_cq_id_t)(rank * NUM_CQS), CMP, &id));
    return id;
}

int main(void)
{
    static uint64_t words[32] __attribute__((aligned(4096)));
    unsigned int rank = (unsigned int)atoi(getenv("UTOFU_RANK") ? getenv("UTOFU_RANK") : "0");
    struct utofu_mrq_notice notice;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t own, theirs;
    int rc;

    ok("create_vcq", utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq));
    ok("reg_mem", utofu_reg_mem_with_stag(vcq, words, sizeof(words), STAG, 0, &own));
    utofu_vcq_id_t other = vcq_of(vcq, 1 - rank);
    ok("query_stadd", utofu_query_stadd(other, STAG, &theirs));
    for (unsigned int i = 0; i < ROUNDS; i++) {
        if (i % 2 == rank) {
            ok("put", utofu_put_piggyback8(vcq, other, i, theirs, 8, 0,
                                           UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
            continue;
        }
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            ;
        ok("poll_mrq", rc);
    }
    ok("free_vcq", utofu_free_vcq(vcq));
    printf("rank %u: %d rounds\n", rank, ROUNDS);
    return 0;
}
