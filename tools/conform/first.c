/* SPDX-License-Identifier: Apache-2.0 */
/* The first cases: if these fail, nothing else can be judged. */
#include "conform.h"

static void ring_of_puts(struct cf *c)
{
    struct cf_ends e;
    struct utofu_mrq_notice notice;
    void *cbdata = NULL;
    size_t at;
    int rc;
    if (!cf_open(c, &e, 0, 0, 4096)) {
        cf_close(c, &e);
        return;
    }
    CF_RETRY(rc, e.vcq,
             utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, e.size, 0,
                       UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, &e));
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
    rc = cf_tcq(e.vcq, &cbdata);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && cbdata == &e, "the TCQ gave %s", cf_code(rc));
    rc = cf_mrq(e.vcq, &notice);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT,
             "the MRQ gave %s", cf_code(rc));
    at = cf_differs(e.recv, cf_prev(c), 0, e.size);
    CF_HOLDS(c, at == e.size, "byte %lu is not what the previous process sent", (unsigned long)at);
    cf_close(c, &e);
}

/* Many puts of words on a connection that is in use: libraries have a way of their own for these.
   Every other one has a local notice, and the others a TCQ entry. */
static void words_in_turn(struct cf *c)
{
    struct cf_ends e;
    uint64_t i;
    int rc = UTOFU_SUCCESS;
    if (!cf_open(c, &e, 0, 0, 4096)) {
        cf_close(c, &e);
        return;
    }
    for (i = 0; i < 300 && rc == UTOFU_SUCCESS && !cf_failed(c); i++) {
        const utofu_stadd_t to = e.next_recv + i % 32 * 8;
        const int local = i % 2 == 0;
        struct utofu_mrq_notice notice;
        void *cbdata;
        CF_RETRY(rc, e.vcq,
                 utofu_put_piggyback8(e.vcq, e.next_id, i, to, 8, 0,
                                      local ? UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
                                            : UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                                      &e));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "the put returned %s", cf_code(rc));
        if (rc != UTOFU_SUCCESS)
            break;
        rc = local ? cf_mrq(e.vcq, &notice) : cf_tcq(e.vcq, &cbdata);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "put %lu ended with %s", (unsigned long)i, cf_code(rc));
        CF_HOLDS(c, rc != UTOFU_SUCCESS || !local || notice.rmt_stadd == to + 8,
                 "the notice of put %lu does not name what is behind the word", (unsigned long)i);
        CF_HOLDS(c, utofu_poll_tcq(e.vcq, 0, &cbdata) == UTOFU_ERR_NOT_FOUND,
                 "put %lu has a TCQ entry that nobody asked for", (unsigned long)i);
        CF_HOLDS(c, utofu_poll_mrq(e.vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND,
                 "put %lu has a notice that nobody asked for", (unsigned long)i);
    }
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"first-ring-of-puts", "2.2.1", 0, CF_UNSAID, 0,
     "Each process puts 4 KiB to the next one: does communication work at all?", ring_of_puts},
    {"first-words-in-turn", "3.7.9.1", 4, CF_PROMISED, 0,
     "A put has the entries that its flags ask for, and no others.", words_in_turn},
};
CF_GROUP(first_group, "first", cases);
