/* SPDX-License-Identifier: Apache-2.0 */
/* Session mode: what starts, how much of it, and when. Each process has a free-mode VCQ that
   starts, and a session-mode one that relays. */
#include <string.h>

#include "owned.h"

enum {
    NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
    LOCAL = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
    TCQ = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
    SIZE = 16384
};

/* 'f' is in free mode, 's' in session mode. Relays send to the free-mode VCQ of the next process.
 */
struct relay {
    struct cf_ends f, s;
};

static int open_relay(struct cf *c, struct relay *r)
{
    memset(r, 0, sizeof(*r));
    return cf_open(c, &r->f, 0, 0, SIZE) && cf_open(c, &r->s, 0, UTOFU_VCQ_FLAG_SESSION_MODE, SIZE);
}

static void close_relay(struct cf *c, struct relay *r)
{
    cf_close(c, &r->s);
    cf_close(c, &r->f);
}

/* A put in the session-mode TOQ, of 8 bytes for each EDATA, to the next process's free-mode memory
 */
static int submit_put(struct cf *c, struct relay *r, unsigned edata, unsigned long flags)
{
    int rc;

    CF_RETRY(rc, r->s.vcq,
             utofu_put(r->s.vcq, r->f.next_id, r->s.send_stadd + 8 * edata,
                       r->f.next_recv + 8 * edata, 8, edata, flags | NOTICE, NULL));
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "a put in session mode: %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* A put from the free-mode VCQ to the session-mode memory of the next process, which starts so many
 * there */
static int start_next(struct cf *c, struct relay *r, unsigned sps)
{
    int rc = cf_put_sent(r->f.vcq, r->s.next_id, r->f.send_stadd, r->s.next_recv, 8, 200,
                         UTOFU_ONESIDED_FLAG_SPS(sps));

    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "a put with SPS %u: %s", sps, cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* So many notices of relays arrive, with EDATA from 'first' on, and no more */
static int expect_relayed(struct cf *c, struct relay *r, unsigned first, unsigned count)
{
    struct utofu_mrq_notice notice;
    int rc;

    for (unsigned i = 0; i < count; i++) {
        if (!cf_expect(c, r->f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, first + i))
            return 0;
        if (cf_differs(r->f.recv + 8 * (first + i), cf_prev(c), 8 * (first + i), 8) != 8) {
            cf_fail(c, "relay %u has wrong data", first + i);
            return 0;
        }
    }
    rc = cf_mrq_within(r->f.vcq, 0.05, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return 1;
    cf_fail(c, "more than %u relays start (%s)", first + count, cf_code(rc));
    return 0;
}

static void start_nothing(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r) && submit_put(c, &r, 0, 0) && submit_put(c, &r, 1, TCQ)) {
        void *data;
        int rc = cf_tcq_within(r.s.vcq, 0.1, &data);
        CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "a put that nothing started has a TCQ entry: %s",
                 cf_code(rc));
        if (cf_meet(c) && expect_relayed(c, &r, 0, 0) && cf_meet(c)) {
            start_next(c, &r, 2);
            expect_relayed(c, &r, 0, 2);
        }
    }
    close_relay(c, &r);
}

/* Of 16 puts that wait, as many start as the SPS says; the others start with the next puts */
static void start_some(struct cf *c, unsigned sps)
{
    struct relay r;
    int good;

    good = open_relay(c, &r);
    for (unsigned i = 0; good && i < 16; i++)
        good = submit_put(c, &r, i, 0);
    if (good && cf_meet(c) && start_next(c, &r, sps) && expect_relayed(c, &r, 0, sps) &&
        cf_meet(c) && (sps == 0 || sps == 15 || start_next(c, &r, 15 - sps)) &&
        expect_relayed(c, &r, sps, sps == 0 ? 0 : 15 - sps))
        cf_meet(c);
    close_relay(c, &r);
}

static void start_0(struct cf *c)
{
    start_some(c, 0);
}
static void start_1(struct cf *c)
{
    start_some(c, 1);
}
static void start_2(struct cf *c)
{
    start_some(c, 2);
}
static void start_7(struct cf *c)
{
    start_some(c, 7);
}
static void start_8(struct cf *c)
{
    start_some(c, 8);
}
static void start_15(struct cf *c)
{
    start_some(c, 15);
}

/* The manual's example: five descriptors, SPS 3 and then SPS 2 */
static void start_three_and_two(struct cf *c)
{
    struct relay r;
    int good = open_relay(c, &r);

    for (unsigned i = 0; good && i < 5; i++)
        good = submit_put(c, &r, i, 0);
    if (good && cf_meet(c) && start_next(c, &r, 3) && expect_relayed(c, &r, 0, 3) && cf_meet(c) &&
        start_next(c, &r, 2) && expect_relayed(c, &r, 3, 2))
        cf_meet(c);
    close_relay(c, &r);
}

/* A put without SPS, a piggyback and a get start nothing in the VCQ that they address */
static void arrive_without_sps(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r) && submit_put(c, &r, 0, 0) && cf_meet(c)) {
        struct utofu_mrq_notice notice;
        int rc = utofu_put_piggyback8(r.f.vcq, r.s.next_id, 1, r.s.next_recv, 8, 0, LOCAL, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(r.f.vcq, &notice);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_get(r.f.vcq, r.s.next_id, r.f.recv_stadd + 1024, r.s.next_send, 8, 0, LOCAL,
                           NULL);
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(r.f.vcq, &notice);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_put(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, 8, 0, LOCAL, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(r.f.vcq, &notice);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a communication with a session-mode VCQ: %s",
                 cf_code(rc));
        if (cf_meet(c) && expect_relayed(c, &r, 0, 0) && cf_meet(c) && start_next(c, &r, 1))
            expect_relayed(c, &r, 0, 1);
    }
    close_relay(c, &r);
}

/* ---- Relays ---- */

/* What arrives is what is sent on: the source of the relay is where the put before it wrote */
static void relay_data(struct cf *c, size_t length, unsigned long flags)
{
    struct relay r;
    int good = open_relay(c, &r);

    for (unsigned round = 0; good && round < 10; round++) {
        int rc;
        CF_RETRY(rc, r.s.vcq,
                 utofu_put(r.s.vcq, r.f.next_id, r.s.recv_stadd, r.f.next_recv, length, round,
                           NOTICE | flags, NULL));
        if (rc != UTOFU_SUCCESS)
            cf_fail(c, "a put in session mode: %s", cf_code(rc));
        memset(r.f.send, (int)(round * 16 + (unsigned)cf_rank(c) % 16), length);
        if (!(good = rc == UTOFU_SUCCESS && cf_meet(c)))
            break;
        rc = cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, length, 0,
                         UTOFU_ONESIDED_FLAG_SPS(1));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "the put that starts: %s", cf_code(rc));
        good = cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, round);
        for (size_t i = 0; good && i < length; i++) { /* the neighbour's neighbour's bytes */
            int from = (cf_prev(c) + cf_size(c) - 1) % cf_size(c);
            good = r.f.recv[i] == (unsigned char)(round * 16 + (unsigned)from % 16);
            CF_HOLDS(c, good, "round %u: byte %lu that was relayed is %d", round, (unsigned long)i,
                     r.f.recv[i]);
        }
        good = good && cf_meet(c);
    }
    close_relay(c, &r);
}

static void relay_small(struct cf *c)
{
    relay_data(c, 8, 0);
}
static void relay_large(struct cf *c)
{
    relay_data(c, SIZE, 0);
}
static void relay_strong(struct cf *c)
{
    relay_data(c, SIZE, UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

/* All session-mode VCQs form a chain; only the first one is started by a program */
static void relay_around(struct cf *c)
{
    struct relay r;
    int last = cf_size(c) - 1, rank = cf_rank(c), rc;

    if (open_relay(c, &r)) {
        if (rank > 0) { /* the last one sends to rank 0, in free mode */
            CF_RETRY(rc, r.s.vcq,
                     utofu_put(r.s.vcq, rank == last ? r.f.next_id : r.s.next_id, r.s.recv_stadd,
                               rank == last ? r.f.next_recv : r.s.next_recv, 4000, 7,
                               rank == last ? NOTICE : UTOFU_ONESIDED_FLAG_SPS(1), NULL));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put in session mode: %s", cf_code(rc));
        }
        if (cf_meet(c) && rank == 0) {
            rc = cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, 4000, 0,
                             UTOFU_ONESIDED_FLAG_SPS(1));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "the put that starts: %s", cf_code(rc));
            if (cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 7))
                CF_HOLDS(c, cf_differs(r.f.recv, 0, 0, 4000) == 4000, "the chain gives wrong data");
        }
        cf_meet(c);
    }
    close_relay(c, &r);
}

/* Rank 1 relays while its program calls nothing of the library */
static void relay_alone(struct cf *c)
{
    struct relay r;
    int rank = cf_rank(c), end = 2 % cf_size(c), rc;

    if (open_relay(c, &r)) {
        if (rank == 1) {
            CF_RETRY(rc, r.s.vcq,
                     utofu_put(r.s.vcq, r.f.next_id, r.s.recv_stadd, r.f.next_recv, 1000, 3, NOTICE,
                               NULL));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put in session mode: %s", cf_code(rc));
        }
        if (cf_meet(c)) {
            if (rank == 0) {
                rc = cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, 1000, 0,
                                 UTOFU_ONESIDED_FLAG_SPS(1));
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "the put that starts: %s", cf_code(rc));
            }
            if (rank == end && cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 3))
                CF_HOLDS(c, cf_differs(r.f.recv, 0, 0, 1000) == 1000, "wrong data");
            cf_meet(c); /* rank 1 waits here, without the library */
        }
    }
    close_relay(c, &r);
}

/* One put starts two: to the next process and to the previous one */
static void relay_to_two(struct cf *c)
{
    struct relay r;
    int rc;

    if (open_relay(c, &r)) {
        CF_RETRY(
            rc, r.s.vcq,
            utofu_put(r.s.vcq, r.f.next_id, r.s.recv_stadd, r.f.next_recv, 500, 1, NOTICE, NULL));
        if (rc == UTOFU_SUCCESS)
            CF_RETRY(rc, r.s.vcq,
                     utofu_put(r.s.vcq, r.f.prev_id, r.s.recv_stadd, r.f.prev_recv + 1024, 500, 2,
                               NOTICE, NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "puts in session mode: %s", cf_code(rc));
        if (cf_meet(c)) {
            struct utofu_mrq_notice notice;
            uint64_t seen = 0;
            rc = cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, 500, 0,
                             UTOFU_ONESIDED_FLAG_SPS(2));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "the put that starts: %s", cf_code(rc));
            for (int i = 0; i < 2; i++) {
                rc = cf_mrq(r.f.vcq, &notice);
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "branch %d: %s", i, cf_code(rc));
                if (rc == UTOFU_SUCCESS)
                    seen |= notice.edata;
            }
            CF_HOLDS(c, seen == 3, "one of two branches arrives");
            CF_HOLDS(c,
                     cf_differs(r.f.recv, (cf_rank(c) + 2 * cf_size(c) - 2) % cf_size(c), 0, 500) ==
                         500,
                     "the branch from the previous process has wrong data");
            CF_HOLDS(c, cf_differs(r.f.recv + 1024, cf_rank(c), 0, 500) == 500,
                     "the branch from the next process has wrong data");
            cf_meet(c);
        }
    }
    close_relay(c, &r);
}

/* Two NOPs and a put: the put starts with the third put that arrives, no earlier */
static void join_of_three(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r)) {
        int rc = utofu_nop(r.s.vcq, TCQ, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_nop(r.s.vcq, TCQ, NULL);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a NOP in session mode: %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS && submit_put(c, &r, 5, TCQ) && cf_meet(c)) {
            int good = 1;
            for (int i = 0; good && i < 3; i++) {
                void *data;
                good = cf_meet(c) && start_next(c, &r, 1) && expect_relayed(c, &r, 5, i == 2);
                rc = good ? cf_tcq(r.s.vcq, &data) : UTOFU_SUCCESS;
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "TCQ entry %d: %s", i, cf_code(rc));
                if (good) {
                    rc = cf_tcq_within(r.s.vcq, 0.02, &data);
                    CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "behind put %d another TCQ entry: %s", i,
                             cf_code(rc));
                }
            }
            cf_meet(c);
        }
    }
    close_relay(c, &r);
}

/* Rank 0 waits for puts of all processes, in whatever order they come, and tells its neighbour */
static void join_of_all(struct cf *c)
{
    struct relay r;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
    } mine, all[48];
    int size = cf_size(c), rank = cf_rank(c), rc = UTOFU_SUCCESS;

    if (open_relay(c, &r)) {
        mine.id = r.s.id;
        mine.stadd = r.s.recv_stadd;
        for (int i = 0; rank == 0 && i < size - 1 && rc == UTOFU_SUCCESS; i++)
            rc = utofu_nop(r.s.vcq, 0, NULL);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a NOP in session mode: %s", cf_code(rc));
        if ((rank != 0 || submit_put(c, &r, 1, 0)) && cf_share(c, &mine, sizeof(mine), all)) {
            int good = 1;
            if (rank != 0) {
                rc = cf_put_sent(r.f.vcq, all[0].id, r.f.send_stadd,
                                 all[0].stadd + 64u * (unsigned)rank, 8, 0,
                                 UTOFU_ONESIDED_FLAG_SPS(1));
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put to rank 0: %s", cf_code(rc));
            }
            if (rank == 1)
                good = expect_relayed(c, &r, 1, 0); /* rank 0 has not put yet */
            if (good && cf_meet(c)) {
                if (rank == 0) {
                    rc = cf_put_sent(r.f.vcq, all[0].id, r.f.send_stadd, all[0].stadd, 8, 0,
                                     UTOFU_ONESIDED_FLAG_SPS(1));
                    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put of rank 0 to itself: %s", cf_code(rc));
                }
                if (rank == 1)
                    expect_relayed(c, &r, 1, 1);
                cf_meet(c);
            }
        }
    }
    close_relay(c, &r);
}

/* The manual's 30 bytes in three puts: each part is relayed when it arrives */
static void relay_parts(struct cf *c)
{
    struct relay r;
    int good, rc = UTOFU_SUCCESS;

    good = open_relay(c, &r);
    for (unsigned i = 0; good && i < 3 && rc == UTOFU_SUCCESS; i++)
        CF_RETRY(rc, r.s.vcq,
                 utofu_put(r.s.vcq, r.f.next_id, r.s.recv_stadd + 10 * i, r.f.next_recv + 10 * i,
                           10, i, NOTICE, NULL));
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put in session mode: %s", cf_code(rc));
    if (good && cf_meet(c)) {
        int from = (cf_prev(c) + cf_size(c) - 1) % cf_size(c);
        for (unsigned i = 0; i < 3 && rc == UTOFU_SUCCESS; i++)
            rc = cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd + 10 * i, r.s.next_recv + 10 * i,
                             10, 0, UTOFU_ONESIDED_FLAG_SPS(1));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put that starts: %s", cf_code(rc));
        for (unsigned i = 0; i < 3 && cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i); i++)
            CF_HOLDS(c, cf_differs(r.f.recv + 10 * i, from, 10 * i, 10) == 10,
                     "part %u has wrong data", i);
        cf_meet(c);
    }
    close_relay(c, &r);
}

/* A long pipeline of many parts, with more parts than an SPS can start at a time */
static void relay_many_parts(struct cf *c)
{
    struct relay r;
    int good, rc = UTOFU_SUCCESS;

    good = open_relay(c, &r);
    for (unsigned i = 0; good && i < 256 && rc == UTOFU_SUCCESS; i++)
        CF_RETRY(rc, r.s.vcq,
                 utofu_put(r.s.vcq, r.f.next_id, r.s.recv_stadd + 64 * i, r.f.next_recv + 64 * i,
                           64, i, NOTICE, NULL));
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put in session mode: %s", cf_code(rc));
    if (good && cf_meet(c)) {
        int from = (cf_prev(c) + cf_size(c) - 1) % cf_size(c);
        for (unsigned i = 0; i < 256 && rc == UTOFU_SUCCESS; i++)
            CF_RETRY(rc, r.f.vcq,
                     utofu_put(r.f.vcq, r.s.next_id, r.f.send_stadd + 64 * i,
                               r.s.next_recv + 64 * i, 64, 0, UTOFU_ONESIDED_FLAG_SPS(1), NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put that starts: %s", cf_code(rc));
        for (unsigned i = 0; i < 256 && cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i); i++)
            CF_HOLDS(c, cf_differs(r.f.recv + 64 * i, from, 64 * i, 64) == 64,
                     "part %u has wrong data", i);
        cf_meet(c);
    }
    close_relay(c, &r);
}

/* A put with SPS from a session-mode VCQ starts as one from free mode does */
static void start_from_session(struct cf *c)
{
    struct relay r;
    int rc;

    if (open_relay(c, &r) && submit_put(c, &r, 0, 0)) {
        /* behind the put that is relayed, one with SPS to the next session-mode VCQ */
        CF_RETRY(rc, r.s.vcq,
                 utofu_put(r.s.vcq, r.s.next_id, r.s.send_stadd, r.s.next_recv + 64, 8, 0,
                           UTOFU_ONESIDED_FLAG_SPS(1), NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put with SPS in session mode: %s", cf_code(rc));
        if (submit_put(c, &r, 1, 0) && cf_meet(c) && start_next(c, &r, 2)) {
            /* 0 starts with the first two, and 1 by the neighbour's session-mode put */
            if (cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0))
                cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 1);
            cf_meet(c);
        }
    }
    close_relay(c, &r);
}

/* A session-mode VCQ at the end of a chain receives puts with SPS 0 like any other VCQ */
static void end_in_session(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r)) {
        for (unsigned i = 0; i < 20; i++) {
            int rc =
                cf_put_sent(r.f.vcq, r.s.next_id, r.f.send_stadd + 64 * i, r.s.next_recv + 64 * i,
                            64, i, NOTICE | UTOFU_ONESIDED_FLAG_SPS(0));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put to a session-mode VCQ: %s", cf_code(rc));
            if (!cf_expect(c, r.s.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i))
                break;
            CF_HOLDS(c, cf_differs(r.s.recv + 64 * i, cf_prev(c), 64 * i, 64) == 64, "wrong data");
        }
        if (!cf_failed(c) && cf_meet(c) && submit_put(c, &r, 0, 0) && cf_meet(c))
            expect_relayed(c, &r, 0, 0);
    }
    close_relay(c, &r);
}

/* A put that is an error, as it addresses memory that is registered read-only, starts nothing */
static void fail_to_start(struct cf *c)
{
    struct relay r;
    utofu_stadd_t stadd, all[48];
    int rc;

    if (open_relay(c, &r) && submit_put(c, &r, 0, 0)) {
        rc = cf_reg_mem(r.s.vcq, cf_keep(256), 256, UTOFU_REG_MEM_FLAG_READ_ONLY, &stadd);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "registering read-only: %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS && cf_share(c, &stadd, sizeof(stadd), all)) {
            struct utofu_mrq_notice notice;
            rc = utofu_put(r.f.vcq, r.s.next_id, r.f.send_stadd, all[cf_next(c)], 8, 0,
                           LOCAL | UTOFU_ONESIDED_FLAG_SPS(1), NULL);
            if (rc == UTOFU_SUCCESS)
                rc = cf_mrq(r.f.vcq, &notice);
            CF_HOLDS(c, rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND,
                     "a put to read-only memory: %s", cf_code(rc));
            cf_saw_code(c, rc);
            if (cf_meet(c) && expect_relayed(c, &r, 0, 0) && cf_meet(c) && start_next(c, &r, 1))
                expect_relayed(c, &r, 0, 1);
        }
    }
    close_relay(c, &r);
}

/* ---- Descriptors that are missing ---- */

/* The put arrives first: descriptors start when they are submitted, as many as were missing.
 * 'ready' are there before */
static void submit_late(struct cf *c, unsigned ready, unsigned first_sps, unsigned second_sps)
{
    struct relay r;
    int good = open_relay(c, &r);

    for (unsigned i = 0; good && i < ready; i++)
        good = submit_put(c, &r, i, 0);
    good = good && cf_meet(c) && start_next(c, &r, first_sps) &&
           (second_sps == 0 || start_next(c, &r, second_sps));
    good = good && cf_meet(c) && expect_relayed(c, &r, 0, ready) &&
           cf_meet(c); /* by now the puts have arrived */
    for (unsigned i = ready; good && i < first_sps + second_sps + 2; i++)
        good = submit_put(c, &r, i, 0);
    good = good && expect_relayed(c, &r, ready, first_sps + second_sps - ready) && cf_meet(c);
    close_relay(c, &r);
}

static void submit_all_late(struct cf *c)
{
    submit_late(c, 0, 3, 0);
}
static void submit_rest_late(struct cf *c)
{
    submit_late(c, 2, 5, 0);
}
static void submit_rest_of_two_late(struct cf *c)
{
    submit_late(c, 1, 4, 6);
}

/* So many are missing, of puts with SPS 15; then NOPs and one put are submitted, in groups by
 * utofu_post_toq() */
static void miss_many(struct cf *c, unsigned missing)
{
    struct relay r;
    unsigned char *desc = cf_keep(16 * 256);
    size_t size = 0, total = 0;
    int good, rc = UTOFU_SUCCESS;

    good = open_relay(c, &r);
    for (unsigned left = missing; good && left > 0;) {
        unsigned sps = left < 15 ? left : 15;
        good = start_next(c, &r, sps);
        left -= sps;
    }
    good = good && cf_meet(c);
    cf_rest(0.02); /* the puts arrive */
    for (int i = 0; good && i < 10 && rc == UTOFU_SUCCESS; i++) {
        rc = utofu_prepare_nop(r.s.vcq, 0, desc + total, &size);
        total += size;
    }
    for (unsigned i = 0; good && i < missing / 10 - 1 && rc == UTOFU_SUCCESS; i++)
        CF_RETRY(rc, r.s.vcq, utofu_post_toq(r.s.vcq, desc, total, NULL));
    for (unsigned i = 0; good && i < 9 && rc == UTOFU_SUCCESS; i++)
        CF_RETRY(rc, r.s.vcq, utofu_nop(r.s.vcq, 0, NULL));
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "NOPs in session mode: %s", cf_code(rc));
    if (good && submit_put(c, &r, 1, 0) && submit_put(c, &r, 2, 0) && expect_relayed(c, &r, 1, 1))
        cf_meet(c);
    close_relay(c, &r);
}

static void miss_100(struct cf *c)
{
    miss_many(c, 100);
}
static void miss_2000(struct cf *c)
{
    miss_many(c, 2000);
}

static void miss_3000(struct cf *c)
{
    struct relay r;
    struct utofu_mrq_notice notice;
    int good, rc = UTOFU_SUCCESS;

    good = open_relay(c, &r);
    for (unsigned i = 0; good && i < 200; i++)
        good = start_next(c, &r, 15);
    if (good && cf_meet(c)) {
        for (unsigned i = 0; i < 2999 && rc == UTOFU_SUCCESS; i++)
            CF_RETRY(rc, r.s.vcq, utofu_nop(r.s.vcq, 0, NULL));
        if (rc == UTOFU_SUCCESS)
            submit_put(c, &r, 1, 0);
        rc = cf_mrq_within(r.f.vcq, 3, &notice);
        cf_saw(c, rc == UTOFU_SUCCESS ? "the put starts" : "the put does not start");
        cf_meet(c);
    }
    close_relay(c, &r);
}

/* ---- Queues as in free mode ---- */

/* A relay has a TCQ entry with its callback data, a local notice and a remote one with its EDATA,
 * when it starts */
static void notify_relay(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r)) {
        void *data = NULL;
        int rc = utofu_put(r.s.vcq, r.f.next_id, r.s.send_stadd, r.f.next_recv, 64, 99,
                           TCQ | LOCAL | NOTICE, &r);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put in session mode: %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS && cf_meet(c) && start_next(c, &r, 1)) {
            rc = cf_tcq(r.s.vcq, &data);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && data == &r, "the TCQ entry: %s", cf_code(rc));
            cf_expect(c, r.s.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 99);
            cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 99);
            cf_meet(c);
        }
    }
    close_relay(c, &r);
}

/* Stride puts are as many descriptors as blocks */
static void start_blocks(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r)) {
        int rc = utofu_put_stride(r.s.vcq, r.f.next_id, r.s.send_stadd, r.f.next_recv, 32, 64, 6, 4,
                                  NOTICE, NULL);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a stride put in session mode: %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS && cf_meet(c) && start_next(c, &r, 4)) {
            struct utofu_mrq_notice notice;
            for (int i = 0; i < 4; i++)
                cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 4);
            rc = cf_mrq_within(r.f.vcq, 0.05, &notice);
            CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "SPS 4 starts a fifth block");
            if (cf_meet(c) && start_next(c, &r, 2)) {
                for (int i = 0; i < 2; i++)
                    cf_expect(c, r.f.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 4);
                cf_meet(c);
            }
        }
    }
    close_relay(c, &r);
}

/* How many descriptors a session-mode TOQ takes while nothing starts */
static void fill_queue(struct cf *c)
{
    struct relay r;

    if (open_relay(c, &r)) {
        int count = 0, rc = UTOFU_SUCCESS;
        while (count < 20000 && (rc = utofu_nop(r.s.vcq, 0, NULL)) == UTOFU_SUCCESS)
            count++;
        cf_number(c, "descriptors", count);
        cf_saw_code(c, rc);
    }
    close_relay(c, &r);
}

/* ---- What is not guaranteed ---- */

static void sps_on(struct cf *c, int what)
{
    struct relay r;

    if (open_relay(c, &r) && submit_put(c, &r, 0, 0) && cf_meet(c)) {
        unsigned long flags = LOCAL | UTOFU_ONESIDED_FLAG_SPS(what == 4 ? 16 : 1);
        struct utofu_mrq_notice notice;
        int rc =
            what == 0
                ? utofu_put_piggyback8(r.f.vcq, r.s.next_id, 1, r.s.next_recv, 8, 0, flags, NULL)
            : what == 1 ? utofu_get(r.f.vcq, r.s.next_id, r.f.recv_stadd + 64, r.s.next_send, 8, 0,
                                    flags, NULL)
            : what == 2 ? utofu_armw8(r.f.vcq, r.s.next_id, UTOFU_ARMW_OP_ADD, 1, r.s.next_recv, 0,
                                      flags, NULL)
            : what == 3
                ? utofu_nop(r.f.vcq, TCQ | UTOFU_ONESIDED_FLAG_SPS(1), NULL)
                : utofu_put(r.f.vcq, r.s.next_id, r.f.send_stadd, r.s.next_recv, 8, 0, flags, NULL);
        cf_saw_code(c, rc);
        rc = cf_mrq_within(r.f.vcq, 0.5, &notice); /* the local notice */
        while (rc == UTOFU_SUCCESS && notice.notice_type != UTOFU_MRQ_TYPE_RMT_PUT)
            rc = cf_mrq_within(r.f.vcq, 0.2, &notice);
        cf_saw(c, rc == UTOFU_SUCCESS ? "a relay starts" : "no relay starts");
        cf_meet(c);
    }
    close_relay(c, &r);
}

static void sps_on_piggyback(struct cf *c)
{
    sps_on(c, 0);
}
static void sps_on_get(struct cf *c)
{
    sps_on(c, 1);
}
static void sps_on_armw(struct cf *c)
{
    sps_on(c, 2);
}
static void sps_on_nop(struct cf *c)
{
    sps_on(c, 3);
}
static void sps_of_16(struct cf *c)
{
    sps_on(c, 4);
}

static void relay_other(struct cf *c, int what)
{
    struct relay r;

    if (open_relay(c, &r)) {
        struct utofu_mrq_notice notice;
        int rc = what == 0   ? utofu_put_piggyback8(r.s.vcq, r.f.next_id, 1, r.f.next_recv, 8, 0,
                                                    LOCAL, NULL)
                 : what == 1 ? utofu_get(r.s.vcq, r.f.next_id, r.s.recv_stadd + 64, r.f.next_send,
                                         8, 0, LOCAL, NULL)
                             : utofu_armw8(r.s.vcq, r.f.next_id, UTOFU_ARMW_OP_ADD, 1,
                                           r.f.next_recv, 0, LOCAL, NULL);
        cf_saw_code(c, rc);
        if (cf_meet(c) && start_next(c, &r, 1)) {
            rc = cf_mrq_within(r.s.vcq, 0.5, &notice);
            cf_saw(c, rc == UTOFU_SUCCESS ? "it starts" : "it does not start");
            cf_meet(c);
        }
    }
    close_relay(c, &r);
}

static void relay_piggyback(struct cf *c)
{
    relay_other(c, 0);
}
static void relay_get(struct cf *c)
{
    relay_other(c, 1);
}
static void relay_armw(struct cf *c)
{
    relay_other(c, 2);
}

static const struct cf_case cases[] = {
    {"session-waits", "2.2.8", 3, CF_PROMISED, CF_SESSION, "nothing starts because it is submitted",
     start_nothing},
    {"session-sps-0", "2.2.8.1", 1, CF_PROMISED, CF_SESSION, "SPS 0 starts nothing", start_0},
    {"session-sps-1", "2.2.8.1", 1, CF_PROMISED, CF_SESSION, "SPS 1 starts one communication",
     start_1},
    {"session-sps-2", "2.2.8.1", 1, CF_PROMISED, CF_SESSION, "SPS 2 starts two communications",
     start_2},
    {"session-sps-7", "2.2.8.1", 1, CF_PROMISED, CF_SESSION, "SPS 7 starts seven communications",
     start_7},
    {"session-sps-8", "2.2.8.1", 1, CF_PROMISED, CF_SESSION, "SPS 8 starts eight communications",
     start_8},
    {"session-sps-15", "2.2.8.1", 25, CF_PROMISED, CF_SESSION,
     "SPS 15 starts fifteen communications", start_15},
    {"session-sps-3-2", "2.2.8.1", 4, CF_PROMISED, CF_SESSION,
     "SPS 3 starts three of five, SPS 2 the other two", start_three_and_two},
    {"session-without-sps", "3.7.9.3", 6, CF_PROMISED, CF_SESSION,
     "a put without SPS, a piggyback, a get start nothing", arrive_without_sps},
    {"session-relay", "2.2.8", 4, CF_PROMISED, CF_SESSION,
     "a put that arrives starts the one that waits", relay_small},
    {"session-relay-data", "2.2.8.1", 16, CF_PROMISED, CF_SESSION, "a relay sends what has arrived",
     relay_large},
    {"session-relay-strong", "2.2.8.1", 15, CF_PROMISED, CF_SESSION,
     "a relay with strong order sends what has arrived", relay_strong},
    {"session-chain", "2.2.8", 6, CF_PROMISED, CF_SESSION, "relays form a chain over all processes",
     relay_around},
    {"session-alone", "2.2.8", 5, CF_PROMISED, CF_SESSION, "a relay needs no call of its process",
     relay_alone},
    {"session-branch", "2.2.8.2", 8, CF_PROMISED, CF_SESSION,
     "one put starts two, to different processes", relay_to_two},
    {"session-join", "2.2.8.3", 14, CF_PROMISED, CF_SESSION,
     "NOPs wait for puts: the third one starts the relay", join_of_three},
    {"session-join-all", "2.2.8.3", 16, CF_PROMISED, CF_SESSION,
     "a relay waits for puts of all processes, in any order", join_of_all},
    {"session-pipeline", "2.2.8.4", 14, CF_PROMISED, CF_SESSION,
     "30 bytes are relayed in three parts", relay_parts},
    {"session-pipeline-many", "2.2.8.4", 17, CF_PROMISED, CF_SESSION,
     "256 parts are relayed one by one", relay_many_parts},
    {"session-from-session", "2.2.8.1", 10, CF_PROMISED, CF_SESSION,
     "a put in session mode may have an SPS", start_from_session},
    {"session-end", "2.2.8.1", 14, CF_PROMISED, CF_SESSION,
     "a chain may end at a session-mode VCQ, with SPS 0", end_in_session},
    {"session-error", "2.2.8.1", 18, CF_PROMISED, CF_SESSION,
     "a put that is an error starts nothing", fail_to_start},
    {"session-late", "2.2.8.1", 19, CF_PROMISED, CF_SESSION,
     "descriptors may be submitted behind the put", submit_all_late},
    {"session-late-rest", "2.2.8.1", 21, CF_PROMISED, CF_SESSION,
     "those that are there start, the others later", submit_rest_late},
    {"session-late-two", "2.2.8.1", 22, CF_PROMISED, CF_SESSION,
     "descriptors may be missing to several puts", submit_rest_of_two_late},
    {"session-late-100", "2.2.8.1", 21, CF_PROMISED, CF_SESSION, "100 descriptors may be missing",
     miss_100},
    {"session-late-2000", "2.2.8.1", 23, CF_PROMISED, CF_SESSION | CF_SLOW,
     "2000 descriptors may be missing", miss_2000},
    {"session-late-3000", "2.2.8.1", 24, CF_OPEN, CF_SESSION | CF_RISKY,
     "what happens when 3000 are missing", miss_3000},
    {"session-notices", "2.2.8.1", 27, CF_PROMISED, CF_SESSION,
     "relays have the notices of free mode", notify_relay},
    {"session-stride", "2.2.8.1", 27, CF_PROMISED, CF_SESSION,
     "a stride put is as many descriptors as blocks", start_blocks},
    {"session-queue", "2.2.8.1", 0, CF_UNSAID, CF_SESSION, "how many descriptors wait in a TOQ",
     fill_queue},
    {"session-sps-piggyback", "2.2.8.1", 7, CF_OPEN, CF_SESSION | CF_RISKY,
     "what SPS of a piggyback does", sps_on_piggyback},
    {"session-sps-get", "2.2.8.1", 7, CF_OPEN, CF_SESSION | CF_RISKY, "what SPS of a get does",
     sps_on_get},
    {"session-sps-armw", "2.2.8.1", 7, CF_OPEN, CF_SESSION | CF_RISKY, "what SPS of an ARMW does",
     sps_on_armw},
    {"session-sps-nop", "2.2.8.1", 7, CF_OPEN, CF_SESSION | CF_RISKY, "what SPS of a NOP does",
     sps_on_nop},
    {"session-sps-16", "2.2.8.1", 26, CF_OPEN, CF_SESSION | CF_RISKY, "what SPS 16 does",
     sps_of_16},
    {"session-piggyback", "2.2.8.1", 9, CF_OPEN, CF_SESSION | CF_RISKY,
     "what a piggyback in session mode does", relay_piggyback},
    {"session-get", "2.2.8.1", 9, CF_OPEN, CF_SESSION | CF_RISKY, "what a get in session mode does",
     relay_get},
    {"session-armw", "2.2.8.1", 9, CF_OPEN, CF_SESSION | CF_RISKY,
     "what an ARMW in session mode does", relay_armw},
};
CF_GROUP(session_group, "session", cases);
