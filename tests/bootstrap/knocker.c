/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each of two processes puts to the other repeatedly, ignoring failures. Prints the number of
 * successful puts, and of each other result.
 *
 *   knocker PUTS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "utofu.h"

enum {
    STAG = 7,
    CMP = 3,
    NUM_CQS = 4 /* of each process, where a node has two */,
    WAIT_MS = 30000
};

static uint64_t mem[512] __attribute__((aligned(4096)));

static void ok(const char *what, int rc)
{
    if (rc == UTOFU_SUCCESS)
        return;
    printf("FAIL %s: %d\n", what, rc);
    exit(1);
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Waits while the other process puts, so that its target stays valid. */
static void await_other(utofu_vcq_hdl_t hdl, int rank)
{
    struct utofu_mrq_notice notice;
    char path[512];

    snprintf(path, sizeof(path), "%s/done.%d", getenv("UTOFU_ROOT"), rank);
    FILE *f = fopen(path, "w");
    if (f)
        fclose(f);
    snprintf(path, sizeof(path), "%s/done.%d", getenv("UTOFU_ROOT"), !rank);
    for (int i = 0; i < WAIT_MS && access(path, F_OK) != 0; i++) {
        utofu_poll_mrq(hdl, 0, &notice);
        nap();
    }
}

int main(int argc, char **argv)
{
    const char *rank_text = getenv("UTOFU_RANK");
    int puts = argc > 1 ? atoi(argv[1]) : 1, rank = rank_text ? atoi(rank_text) : 0;
    int good = 0, peer_errors = 0, others = 0;
    struct utofu_mrq_notice notice;
    utofu_vcq_id_t id, other;
    utofu_vcq_hdl_t hdl;
    utofu_stadd_t mine, theirs;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint8_t coords[6];
    uint16_t extra;

    ok("create", utofu_create_vcq_with_cmp_id(0, CMP, 0, &hdl));
    ok("query_vcq_id", utofu_query_vcq_id(hdl, &id));
    ok("reg_mem", utofu_reg_mem_with_stag(hdl, mem, sizeof(mem), STAG, 0, &mine));
    ok("query_vcq_info", utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    cq = (utofu_cq_id_t)(rank == 0 ? cq + NUM_CQS : cq - NUM_CQS);
    ok("construct", utofu_construct_vcq_id(coords, tni, cq, CMP, &other));
    ok("query_stadd", utofu_query_stadd(other, STAG, &theirs));
    for (int i = 0; i < puts; i++) {
        int rc =
            utofu_put(hdl, other, mine, theirs, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        ok("put", rc);
        while ((rc = utofu_poll_mrq(hdl, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            if (i == 0)
                nap();
        good += rc == UTOFU_SUCCESS;
        peer_errors += rc == UTOFU_ERR_MRQ_PEER;
        others += rc != UTOFU_SUCCESS && rc != UTOFU_ERR_MRQ_PEER;
    }
    printf("%d good, %d UTOFU_ERR_MRQ_PEER, %d others\n", good, peer_errors, others);
    fflush(stdout);
    await_other(hdl, rank);
    return 0;
}
