/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known [less]
 *
 * Two processes do exactly the communications that test_stats.py expects; `less` leaves out one
 * put. The VCQs have component 3; other VCQs are those of the control channel.
 */
#include <stdlib.h>
#include <string.h>

#include "party.h"
#include "../harness/limit.h"

#define TCQ   UTOFU_ONESIDED_FLAG_TCQ_NOTICE
#define LCL   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
#define RMT   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
#define DELAY UTOFU_ONESIDED_FLAG_DELAY_START

enum { SIZE = 4096, LOCAL = 5 + 4 + 6 + 1, REMOTE = 5 + 3 + 4 + 6 };

struct end {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
};

static utofu_vcq_hdl_t vcq;

/* Waits for `wanted` notices, and takes none. */
static void await_notices(size_t wanted)
{
    uint32_t spins = 0;
    size_t n = 0;

    while (n < wanted) {
        party_check(utofu_query_num_unread_mrq(vcq, &n), "utofu_query_num_unread_mrq");
        party_idle(&spins, "notices");
    }
}

static void take_notices(size_t n, size_t failures)
{
    struct utofu_mrq_notice notice;

    for (size_t i = 0; i < n; i++) {
        int rc = utofu_poll_mrq(vcq, 0, &notice);
        if (rc == UTOFU_ERR_MRQ_RMT_LENGTH && failures > 0)
            failures--;
        else
            party_check(rc, "utofu_poll_mrq");
    }
}

static void take_tcq(size_t n)
{
    uint32_t spins = 0;
    void *cbdata;

    while (n > 0) {
        int rc = utofu_poll_tcq(vcq, 0, &cbdata);
        if (rc == UTOFU_ERR_NOT_FOUND) {
            party_idle(&spins, "TCQ entries");
            continue;
        }
        party_check(rc, "utofu_poll_tcq");
        n--;
    }
}

#define DO(function, ...) party_check(function(vcq, __VA_ARGS__), #function)

static void origin(utofu_stadd_t lcl, const struct end *to, bool less)
{
    char data[16] = "piggyback";
    size_t notices = 0;

    /* 10 puts of 100 bytes; 8 of them are under way at one time */
    for (int i = 0; i < 7; i++)
        DO(utofu_put, to->id, lcl, to->stadd, 100, 0, TCQ | DELAY, NULL);
    DO(utofu_put, to->id, lcl, to->stadd, 100, 0, TCQ, NULL);
    take_tcq(8);
    for (int i = less; i < 2; i++)
        DO(utofu_put, to->id, lcl, to->stadd, 100, 0, TCQ, NULL);
    take_tcq(less ? 1 : 2);
    for (int i = 0; i < 5; i++)
        DO(utofu_put, to->id, lcl, to->stadd, 1000, 1, LCL | RMT, NULL);
    await_notices(notices += 5);
    for (int i = 0; i < 3; i++)
        DO(utofu_put_piggyback, to->id, data, to->stadd, sizeof(data), 2, RMT, NULL);
    for (int i = 0; i < 4; i++)
        DO(utofu_get, to->id, lcl, to->stadd, 200, 3, LCL | RMT, NULL);
    await_notices(notices += 4);
    for (int i = 0; i < 6; i++) {
        DO(utofu_armw8, to->id, UTOFU_ARMW_OP_ADD, 1, to->stadd, 4, LCL | RMT, NULL);
        await_notices(++notices);
    }
    for (int i = 0; i < 2; i++)
        DO(utofu_nop, TCQ, NULL);
    take_tcq(2);
    /* past the end of the target's memory */
    DO(utofu_put, to->id, lcl, to->stadd + SIZE - 8, 16, 5, 0, NULL);
    await_notices(++notices);
    take_notices(LOCAL, 1);
}

int main(int argc, char **argv)
{
    struct end mine, all[2];
    uint8_t *memory = aligned_alloc(SIZE, SIZE);

    party_open("known", 2, 60);
    if (party.size != 2 || !memory)
        party_fail(PARTY_USAGE, "takes two processes");
    memset(memory, 0, SIZE);
    party_check(utofu_create_vcq_with_cmp_id(0, 3, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_query_vcq_id(vcq, &mine.id), "utofu_query_vcq_id");
    party_check(utofu_reg_mem(vcq, memory, SIZE, 0, &mine.stadd), "utofu_reg_mem");
    party_gather(&mine, sizeof(mine), all, false);
    if (party.rank == 0) {
        origin(mine.stadd, &all[1], argc > 1 && strcmp(argv[1], "less") == 0);
    } else {
        await_notices(REMOTE);
        take_notices(REMOTE, 0);
    }
    party_barrier();
    party_check(utofu_dereg_mem(vcq, mine.stadd, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    party_close();
    free(memory);
    return 0;
}
