/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program takes notices of all kinds from one MRQ, and distinguishes a failed communication
 * from one that is not complete yet. The process puts to itself, with a local and a remote notice,
 * and then to a STADD outside registered memory.
 *
 *     cc -o poll_mrq poll_mrq.c $(pkg-config --cflags --libs utofu)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

static utofu_vcq_hdl_t vcq;

static void check(int rc, const char *what)
{
    if (rc != UTOFU_SUCCESS) {
        fprintf(stderr, "%s returned %d\n", what, rc);
        exit(1);
    }
}

/* Returns 1 for a notice, 0 for the notice of a failed communication. */
static int next_notice(void)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        continue; /* or compute */
    switch (rc) {
    case UTOFU_SUCCESS:
        break;
    case UTOFU_ERR_MRQ_RMT_STADD: /* the communication: notice.edata, notice.vcq_id */
        printf("the put with EDATA %d met no registered memory\n", (int)notice.edata);
        return 0;
    default:
        check(rc, "utofu_poll_mrq");
    }
    switch (notice.notice_type) {
    case UTOFU_MRQ_TYPE_LCL_PUT: /* of this process's own put: the data are in place */
        printf("our put with EDATA %d is complete\n", (int)notice.edata);
        break;
    case UTOFU_MRQ_TYPE_RMT_PUT: /* of a peer's put: its last byte is before notice.rmt_stadd */
        printf("a put with EDATA %d has come\n", (int)notice.edata);
        break;
    default:
        printf("a notice of type %d\n", notice.notice_type);
    }
    return 1;
}

int main(void)
{
    const unsigned long int flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    static uint64_t words[2] = {4711, 0};
    utofu_stadd_t stadd;
    utofu_vcq_id_t id;
    int good;

    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &id), "utofu_query_vcq_id");
    check(utofu_reg_mem(vcq, words, sizeof(words), 0, &stadd), "utofu_reg_mem");

    check(utofu_put(vcq, id, stadd, stadd + 8, 8, 1, flags, NULL), "utofu_put");
    good = next_notice();
    good += next_notice();

    check(utofu_dereg_mem(vcq, stadd, 0), "utofu_dereg_mem");
    check(utofu_put_piggyback8(vcq, id, 0, stadd, 8, 2, flags, NULL), "utofu_put_piggyback8");
    good += !next_notice();

    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    return good == 3 && words[1] == 4711 ? 0 : 1;
}
