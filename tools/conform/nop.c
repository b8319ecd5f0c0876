/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_nop(): a descriptor without a communication (2.2.6, 3.7.1.15). */
#include "families.h"

CF_RUN(run_tcq_notice, cf_try_tcq_notice(c, CF_NOP));
CF_RUN(run_busy, cf_try_busy(c, CF_NOP));

/* Carries out NOPs with the flags; nothing but TCQ entries may come of them, and no memory may
 * change */
static void try_flags(struct cf *c, unsigned long flags)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, count = flags & CF_TCQ ? 20 : 0, at;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, CF_NOP);
    m.flags = flags;
    for (i = 0; i < 20; i++)
        if (!cf_box_begin(&b, &m))
            return;
    if (!cf_box_exact(&b, count, 0, 0) || !cf_check_recv(c, &e, NULL, 0))
        return;
    at = cf_differs(e.send, cf_rank(c), 0, e.size);
    CF_HOLDS(c, at == e.size, "byte %lu of the source has changed", (unsigned long)at);
    cf_close(c, &e);
}

CF_RUN(run_silent, try_flags(c, 0));
CF_RUN(run_no_mrq, try_flags(c, CF_TCQ | CF_LCL | CF_RMT));
CF_RUN(run_strong, try_flags(c, CF_TCQ | UTOFU_ONESIDED_FLAG_STRONG_ORDER));

/* The TCQ entries of NOPs and puts come in the order of their starts */
static void run_among_puts(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm put, nop, *m;
    size_t i;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    put = cf_comm_to_next(&e, CF_PUT);
    nop = cf_comm_to_next(&e, CF_NOP);
    put.flags = nop.flags = CF_TCQ;
    for (i = 0; i < 100; i++) {
        m = i % 3 == 1 ? &put : &nop;
        m->length = i % 2 ? 3000 : 8;
        m->cbdata = (void *)(uintptr_t)i;
        if (!cf_box_begin(&b, m))
            return;
    }
    if (!cf_box_exact(&b, 100, 0, 0))
        return;
    for (i = 0; i < 100; i++)
        CF_HOLDS(c, (uintptr_t)b.tcq[i].cbdata == i, "TCQ entry %lu is that of start %lu",
                 (unsigned long)i, (unsigned long)(uintptr_t)b.tcq[i].cbdata);
    cf_close(c, &e);
}

/* The only entry of a NOP is its TCQ entry: after it none is unread */
static void run_only_tcq(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, count;
    int rc;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, CF_NOP);
    m.flags = CF_TCQ;
    for (i = 0; i < 100; i++) {
        if (!cf_box_begin(&b, &m) || !cf_box_wait(&b, i + 1, 0, 0))
            return;
        rc = utofu_query_num_unread_tcq(e.vcq, &count);
        CF_NEED(c, rc == UTOFU_SUCCESS && count == 0, "%lu entries are unread after the only one",
                (unsigned long)count);
    }
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"nop-tcq-notice", "2.2.6", 8, CF_PROMISED, 0,
     "With TCQ_NOTICE a NOP has one TCQ entry, with its callback data.", run_tcq_notice},
    {"nop-silent", "2.2.6", 10, CF_PROMISED, 0, "Without TCQ_NOTICE a NOP has no entry.",
     run_silent},
    {"nop-no-mrq", "2.2.6", 5, CF_PROMISED, 0,
     "A NOP has no notice in an MRQ, though flags ask for it.", run_no_mrq},
    {"nop-strong", "2.2.6", 1, CF_PROMISED, 0, "A NOP with STRONG_ORDER communicates nothing.",
     run_strong},
    {"nop-uses-the-toq", "2.2.6", 3, CF_PROMISED, 0,
     "A NOP takes its place in the TOQ and has no other effect: it is read after its TCQ entry.",
     run_only_tcq},
    {"nop-among-puts", "2.2.10", 22, CF_PROMISED, 0,
     "TCQ entries of NOPs and puts come in the order of their starts.", run_among_puts},
    {"nop-busy", "3.7.1.15", 7, CF_PROMISED, 0,
     "A TOQ that is full of NOPs is UTOFU_ERR_BUSY, and after utofu_poll_tcq() takes more.",
     run_busy},
};
CF_GROUP(nop_group, "nop", cases);
