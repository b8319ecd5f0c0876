/* SPDX-License-Identifier: Apache-2.0 */
/* VCQs: creation, kinds, component ids, limits, and that each is a context of its own */
#include <string.h>

#include "owned.h"

enum {
    SAFE = UTOFU_VCQ_FLAG_THREAD_SAFE,
    EXCLUSIVE = UTOFU_VCQ_FLAG_EXCLUSIVE,
    SESSION = UTOFU_VCQ_FLAG_SESSION_MODE
};

/* A VCQ of the kind works: its id can be asked for, and memory be registered. Kinds of which the
   machine has no CQ left are told by the return code. */
static void create_kind(struct cf *c, unsigned long flags)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    int rc;

    if (!cf_tni(c, (size_t)cf_rank(c), &tni))
        return;
    rc = cf_create_vcq(tni, flags, &vcq);
    if ((flags & (EXCLUSIVE | SESSION)) &&
        (rc == UTOFU_ERR_NOT_AVAILABLE || rc == UTOFU_ERR_FULL)) {
        cf_skip(c, "no CQ is left for such a VCQ: %s", cf_code(rc));
        return;
    }
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_create_vcq(flags %lu) returns %s", flags, cf_code(rc));
    rc = utofu_query_vcq_id(vcq, &id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_id() returns %s", cf_code(rc));
    rc = cf_reg_mem(vcq, cf_keep(512), 512, 0, &stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() returns %s", cf_code(rc));
    rc = cf_free_vcq(vcq);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_free_vcq() returns %s", cf_code(rc));
}

#define KIND_CASE(function, flags)                                                                 \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        create_kind(c, flags);                                                                     \
    }

KIND_CASE(create_plain, 0)
KIND_CASE(create_safe, SAFE)
KIND_CASE(create_exclusive, EXCLUSIVE)
KIND_CASE(create_session, SESSION)
KIND_CASE(create_safe_exclusive, SAFE | EXCLUSIVE)
KIND_CASE(create_safe_session, SAFE | SESSION)

static void create_again(struct cf *c)
{
    utofu_tni_id_t tni;

    for (size_t i = 0; i < 200; i++) {
        utofu_vcq_hdl_t vcq;
        int rc;
        if (!cf_tni(c, i, &tni))
            return;
        rc = cf_create_vcq(tni, i % 2 ? SAFE : 0, &vcq);
        CF_NEED(c, rc == UTOFU_SUCCESS, "creation %lu returns %s", (unsigned long)i, cf_code(rc));
        rc = cf_free_vcq(vcq);
        CF_NEED(c, rc == UTOFU_SUCCESS, "freeing %lu returns %s", (unsigned long)i, cf_code(rc));
    }
}

/* Several VCQs of a TNI have handles of their own, and each knows its TNI */
static void create_several(struct cf *c)
{
    utofu_tni_id_t tni, seen;
    utofu_vcq_hdl_t vcq[6];
    uint8_t coords[6];
    utofu_cq_id_t cq;
    uint16_t extra;

    if (!cf_tni(c, 0, &tni))
        return;
    for (int i = 0; i < 6; i++) {
        utofu_vcq_id_t id = 0;
        int rc = cf_create_vcq(tni, 0, &vcq[i]);
        CF_NEED(c, rc == UTOFU_SUCCESS, "creating VCQ %d of a TNI returns %s", i + 1, cf_code(rc));
        for (int k = 0; k < i; k++)
            CF_HOLDS(c, vcq[i] != vcq[k], "VCQs %d and %d have one handle", i + 1, k + 1);
        rc = utofu_query_vcq_id(vcq[i], &id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_id() returns %s", cf_code(rc));
        rc = utofu_query_vcq_info(id, coords, &seen, &cq, &extra);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && seen == tni, "VCQ %d of TNI %d is told to be on TNI %d",
                 i + 1, (int)tni, (int)seen);
    }
}

static utofu_cq_id_t cq_of(struct cf *c, utofu_vcq_hdl_t vcq)
{
    utofu_vcq_id_t id = 0;
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq = 0;
    uint16_t extra;

    if (utofu_query_vcq_id(vcq, &id) != UTOFU_SUCCESS ||
        utofu_query_vcq_info(id, coords, &tni, &cq, &extra) != UTOFU_SUCCESS)
        cf_fail(c, "a VCQ has no id or no CQ");
    return cq;
}

/* ---- Component ids ---- */

static void use_all_components(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;
    utofu_cq_id_t first = 0;

    if (!cf_tni(c, 1, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    for (unsigned i = 0; i < caps->num_cmp_ids && i < 64; i++) {
        utofu_vcq_hdl_t vcq;
        if (!cf_create_component(c, tni, i, 0, &vcq))
            return;
        if (i == 0)
            first = cq_of(c, vcq);
        cf_saw(c, cq_of(c, vcq) == first ? "on one CQ" : "on another CQ");
    }
}

static void use_component_twice(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq, other;
    int rc;

    if (!cf_tni(c, 1, &tni))
        return;
    if (!cf_create_component(c, tni, 3, 0, &vcq))
        return;
    rc = cf_create_vcq_with_cmp_id(tni, 3, 0, &other);
    CF_HOLDS(c, rc == UTOFU_ERR_USED, "component id 3 returns %s while it is used", cf_code(rc));
    rc = cf_free_vcq(vcq);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "freeing returns %s", cf_code(rc));
    rc = cf_create_vcq_with_cmp_id(tni, 3, 0, &vcq);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "component id 3 returns %s after it was freed", cf_code(rc));
}

/* utofu_create_vcq() takes no component id of another VCQ: all ids differ */
static void mix_components(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq[10];
    utofu_vcq_id_t id[10];

    if (!cf_tni(c, 1, &tni))
        return;
    for (int i = 0; i < 10; i++) {
        int rc = UTOFU_SUCCESS;
        if (i < 2 && !cf_create_component(c, tni, 2 * (unsigned)i + 1, 0, &vcq[i]))
            return;
        if (i >= 2)
            rc = cf_create_vcq(tni, 0, &vcq[i]);
        if (rc == UTOFU_ERR_FULL && i >= 3)
            break; /* processes of the node have one CQ each */
        CF_NEED(c, rc == UTOFU_SUCCESS, "VCQ %d: %s", i, cf_code(rc));
        rc = utofu_query_vcq_id(vcq[i], &id[i]);
        CF_NEED(c, rc == UTOFU_SUCCESS, "the id of VCQ %d: %s", i, cf_code(rc));
        for (int k = 0; k < i; k++)
            CF_HOLDS(c, id[i] != id[k], "VCQs %d and %d have one id", i, k);
    }
}

static void refuse_flags(struct cf *c, int with_component, unsigned long flags)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;
    int rc;

    if (!cf_tni(c, 1, &tni))
        return;
    rc = with_component ? cf_create_vcq_with_cmp_id(tni, 5, flags, &vcq)
                        : cf_create_vcq(tni, flags, &vcq);
    CF_HOLDS(c, rc != UTOFU_SUCCESS, "flags %lu%s are accepted", flags,
             with_component ? " with a component id" : "");
    cf_saw_code(c, rc);
}

#define REFUSED_CASE(function, with_component, flags)                                              \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        refuse_flags(c, with_component, flags);                                                    \
    }

REFUSED_CASE(refuse_component_exclusive, 1, EXCLUSIVE)
REFUSED_CASE(refuse_component_session, 1, SESSION)
REFUSED_CASE(refuse_exclusive_session, 0, EXCLUSIVE | SESSION)

static void create_safe_component(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;

    if (cf_tni(c, 1, &tni))
        cf_create_component(c, tni, 2, SAFE, &vcq);
}

/* ---- Exclusive CQs and limits ---- */

/* No other VCQ of the process is on the CQ of an exclusive one, created before it or behind it */
static void look_for_sharers(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t before, exclusive, behind[9];
    int rc;

    if (!cf_tni(c, 2, &tni))
        return;
    rc = cf_create_vcq(tni, 0, &before);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a VCQ: %s", cf_code(rc));
    rc = cf_create_vcq(tni, EXCLUSIVE, &exclusive);
    if (rc != UTOFU_SUCCESS) {
        cf_skip(c, "no exclusive CQ: %s", cf_code(rc));
        return;
    }
    CF_HOLDS(c, cq_of(c, before) != cq_of(c, exclusive),
             "an exclusive VCQ is on the CQ of an earlier one");
    for (int i = 0; i < 9; i++) {
        rc = cf_create_vcq(tni, 0, &behind[i]);
        if (rc != UTOFU_SUCCESS)
            break;
        CF_HOLDS(c, cq_of(c, behind[i]) != cq_of(c, exclusive),
                 "VCQ %d is on the CQ of an exclusive one", i + 1);
    }
    rc = cf_create_vcq(tni, EXCLUSIVE, &behind[0]);
    if (rc == UTOFU_SUCCESS)
        CF_HOLDS(c, cq_of(c, behind[0]) != cq_of(c, exclusive), "two exclusive VCQs are on one CQ");
}

/* Creates VCQs of the kind on one TNI until there is an error */
static void create_until_error(struct cf *c, unsigned long flags, int limit)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq = 0, last = 0;
    int count = 0, rc = UTOFU_SUCCESS;

    if (!cf_tni(c, 3, &tni))
        return;
    while (count <= limit && (rc = cf_create_vcq(tni, flags, &vcq)) == UTOFU_SUCCESS) {
        count++;
        last = vcq;
    }
    cf_number(c, "VCQs of a TNI", count);
    CF_NEED(c, rc != UTOFU_SUCCESS, "%d VCQs of flags %lu on one TNI, and no error", count, flags);
    cf_saw_code(c, rc);
    if (!(flags & (EXCLUSIVE | SESSION)))
        CF_HOLDS(c, rc == UTOFU_ERR_FULL, "VCQ %d of a TNI returns %s", count + 1, cf_code(rc));
    if (flags == EXCLUSIVE) /* whether one of the TNI's CQs is left for VCQs that share it */
        cf_saw(c, cf_create_vcq(tni, 0, &vcq) == UTOFU_SUCCESS ? "room for other VCQs"
                                                               : "no room for other VCQs");
    else
        cf_saw(c, vcq == last ? "the handle stays" : "the handle is written");
}

static void fill_exclusive(struct cf *c)
{
    create_until_error(c, EXCLUSIVE, 64);
}
static void fill_session(struct cf *c)
{
    create_until_error(c, SESSION, 128);
}
static void fill_plain(struct cf *c)
{
    create_until_error(c, 0, 128);
}

/* After the error the other TNIs still have room, and one that is freed can be created again */
static void create_behind_full(struct cf *c)
{
    utofu_tni_id_t tni, other;
    utofu_vcq_hdl_t vcq[130], more;
    int count = 0, rc;

    if (!cf_tni(c, 4, &tni) || !cf_tni(c, 5, &other))
        return;
    while (count < 129 && cf_create_vcq(tni, 0, &vcq[count]) == UTOFU_SUCCESS)
        count++;
    CF_NEED(c, count > 0 && count < 129, "%d VCQs of one TNI", count);
    rc = cf_free_vcq(vcq[count / 2]);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "freeing one returns %s", cf_code(rc));
    rc = cf_create_vcq(tni, 0, &vcq[count / 2]);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "creating one again returns %s", cf_code(rc));
    if (other == tni)
        return;
    rc = cf_create_vcq(other, 0, &more);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a VCQ of another TNI returns %s", cf_code(rc));
}

/* ---- Contexts of their own ---- */

struct pair {
    utofu_vcq_hdl_t vcq[2];
    utofu_vcq_id_t id[2];
    utofu_stadd_t stadd[2];
    volatile uint64_t *word[2];
};

/* Two VCQs of this process with a word each, on the places of TNIs */
static int create_pair(struct cf *c, struct pair *p, size_t place, size_t other_place, int one_cq)
{
    for (int i = 0; i < 2; i++) {
        utofu_tni_id_t tni;
        int rc = UTOFU_SUCCESS;
        if (!cf_tni(c, i ? other_place : place, &tni))
            return 0;
        if (one_cq && !cf_create_component(c, tni, (unsigned)i + 1, 0, &p->vcq[i]))
            return 0;
        if (!one_cq)
            rc = cf_create_vcq(tni, 0, &p->vcq[i]);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_query_vcq_id(p->vcq[i], &p->id[i]);
        p->word[i] = cf_keep(512);
        if (rc == UTOFU_SUCCESS)
            rc = cf_reg_mem(p->vcq[i], (void *)(uintptr_t)p->word[i], 512, 0, &p->stadd[i]);
        if (rc != UTOFU_SUCCESS) {
            cf_fail(c, "VCQ %d of this process: %s", i, cf_code(rc));
            return 0;
        }
    }
    return 1;
}

/* The completion of what one VCQ starts comes to that VCQ, the remote notice to the VCQ that was
   addressed: the first of two VCQs puts to a third one on another TNI, which puts to the second */
static void judge_contexts(struct cf *c, int one_cq)
{
    struct pair p, third;
    struct utofu_mrq_notice notice;
    void *data = NULL;
    int rc;

    if (!create_pair(c, &p, 0, 0, one_cq) || !create_pair(c, &third, 2, 3, 0))
        return;
    p.word[0][0] = 77;
    third.word[0][32] = 78;
    rc = utofu_put(p.vcq[0], third.id[0], p.stadd[0], third.stadd[0], 8, 9,
                   UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, &p);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a put to another VCQ of this process: %s", cf_code(rc));
    rc = utofu_put(third.vcq[0], p.id[1], third.stadd[0] + 256, p.stadd[1], 8, 8,
                   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a put from another VCQ of this process: %s", cf_code(rc));
    rc = cf_tcq(p.vcq[0], &data);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && data == &p, "the TCQ of the VCQ that put: %s", cf_code(rc));
    cf_expect(c, p.vcq[0], UTOFU_MRQ_TYPE_LCL_PUT, 9);
    cf_expect(c, p.vcq[1], UTOFU_MRQ_TYPE_RMT_PUT, 8);
    CF_HOLDS(c, third.word[0][0] == 77 && p.word[1][0] == 78, "a word did not arrive");
    for (int i = 0; i < 4; i++) {
        utofu_vcq_hdl_t vcq = i < 2 ? p.vcq[i] : third.vcq[i - 2];
        rc = cf_tcq_within(vcq, 0.02, &data);
        CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "the TCQ of VCQ %d has more: %s", i, cf_code(rc));
        rc = cf_mrq_within(vcq, 0.02, &notice);
        CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "the MRQ of VCQ %d has more: %s", i, cf_code(rc));
    }
}

static void judge_contexts_of_tni(struct cf *c)
{
    judge_contexts(c, 0);
}
static void judge_contexts_of_cq(struct cf *c)
{
    judge_contexts(c, 1);
}

static void put_between_tnis(struct cf *c)
{
    struct pair p;
    int rc;

    if (!create_pair(c, &p, 0, 3, 0))
        return;
    p.word[0][0] = 0x1122334455667788u;
    rc = cf_put_sent(p.vcq[0], p.id[1], p.stadd[0], p.stadd[1], 8, 1,
                     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put from one TNI to another: %s", cf_code(rc));
    if (cf_expect(c, p.vcq[1], UTOFU_MRQ_TYPE_RMT_PUT, 1))
        CF_HOLDS(c, p.word[1][0] == 0x1122334455667788u, "the word did not arrive");
}

static void put_to_itself(struct cf *c)
{
    struct pair p;
    struct utofu_mrq_notice notice;
    int rc;

    if (!create_pair(c, &p, 1, 1, 0))
        return;
    p.word[0][0] = 5;
    rc = cf_put_sent(p.vcq[0], p.id[0], p.stadd[0], p.stadd[0] + 256, 8, 2,
                     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq_within(p.vcq[0], 5, &notice);
    cf_saw_code(c, rc);
    cf_saw(c, p.word[0][32] == 5 ? "the word arrives" : "the word does not arrive");
}

/* One VCQ serves for any number of communications, with any process */
static void put_to_all(struct cf *c)
{
    struct cf_ends e;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
    } mine, all[48];

    if (cf_open(c, &e, 0, 0, 48 * 256)) {
        int size = cf_size(c), rank = cf_rank(c), rc;
        mine.id = e.id;
        mine.stadd = e.recv_stadd;
        if (cf_share(c, &mine, sizeof(mine), all)) {
            for (int round = 0; round < 20; round++) {
                for (int r = 0; r < size; r++) {
                    if (r == rank)
                        continue;
                    rc = cf_put_sent(e.vcq, all[r].id, e.send_stadd,
                                     all[r].stadd + (utofu_stadd_t)rank * 256, 100, (uint64_t)round,
                                     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
                    CF_HOLDS(c, rc == UTOFU_SUCCESS, "put %d to rank %d: %s", round, r,
                             cf_code(rc));
                }
                if (cf_failed(c))
                    break;
            }
            for (int i = 0; i < 20 * (size - 1) && !cf_failed(c); i++) {
                struct utofu_mrq_notice notice;
                rc = cf_mrq(e.vcq, &notice);
                CF_HOLDS(c, rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT,
                         "notice %d: %s", i, cf_code(rc));
            }
            for (int r = 0; r < size; r++)
                CF_HOLDS(c, r == rank || cf_differs(e.recv + 256 * r, r, 0, 100) == 100,
                         "wrong data of rank %d", r);
        }
    }
    cf_close(c, &e);
}

/* ---- What is left open or not said ---- */

/* A VCQ with notices that nobody has read is freed, and the next one has none of them */
static void free_with_notices(struct cf *c)
{
    struct pair p;
    struct utofu_mrq_notice notice;
    utofu_tni_id_t tni;
    int rc;

    if (!cf_tni(c, 0, &tni) || !create_pair(c, &p, 1, 0, 1))
        return;
    rc = cf_put_sent(p.vcq[0], p.id[1], p.stadd[0], p.stadd[1], 8, 3,
                     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a put: %s", cf_code(rc));
    cf_rest(0.01);
    rc = cf_free_vcq(p.vcq[1]);
    CF_NEED(c, rc == UTOFU_SUCCESS, "freeing a VCQ with an unread notice: %s", cf_code(rc));
    rc = cf_create_vcq_with_cmp_id(tni, 2, 0, &p.vcq[1]);
    CF_NEED(c, rc == UTOFU_SUCCESS, "creating it again: %s", cf_code(rc));
    rc = cf_mrq_within(p.vcq[1], 0.05, &notice);
    cf_saw(c, rc == UTOFU_ERR_NOT_FOUND ? "the notice is gone" : "the next VCQ has the notice");
}

static void create_with_unknown_flag(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;

    if (cf_tni(c, 0, &tni))
        cf_saw_code(c, cf_create_vcq(tni, 1UL << 20, &vcq));
}

static void free_twice(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;

    if (!cf_tni(c, 0, &tni))
        return;
    CF_NEED(c,
            utofu_create_vcq(tni, 0, &vcq) == UTOFU_SUCCESS && utofu_free_vcq(vcq) == UTOFU_SUCCESS,
            "no VCQ");
    cf_saw_code(c, utofu_free_vcq(vcq));
}

static void use_wrong_handle(struct cf *c)
{
    utofu_vcq_id_t id = 0;

    cf_saw_code(c, utofu_query_vcq_id(0, &id));
}

static void pass_null(struct cf *c)
{
    utofu_tni_id_t tni;

    if (cf_tni(c, 0, &tni))
        cf_saw_code(c, utofu_create_vcq(tni, 0, NULL));
}

/* Each process has handles of its own: whether their values are alike elsewhere */
static void compare_handles(struct cf *c)
{
    struct cf_ends e;
    utofu_vcq_hdl_t all[48];

    if (cf_open(c, &e, 0, 0, 256) && cf_share(c, &e.vcq, sizeof(e.vcq), all))
        cf_saw(c,
               all[cf_next(c)] == e.vcq ? "the neighbour's handle is this value" : "values differ");
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"vcq-plain", "3.3.1.1", 1, CF_PROMISED, CF_ALONE,
     "a VCQ without flags can be created and freed", create_plain},
    {"vcq-safe", "3.3.4.1", 4, CF_PROMISED, CF_ALONE, "a thread-safe VCQ can be created",
     create_safe},
    {"vcq-exclusive", "3.3.4.1", 8, CF_PROMISED, CF_ALONE, "a CQ-exclusive VCQ can be created",
     create_exclusive},
    {"vcq-session", "3.3.4.1", 16, CF_PROMISED, CF_ALONE | CF_SESSION,
     "a session-mode VCQ can be created", create_session},
    {"vcq-safe-exclusive", "3.3.4.1", 10, CF_PROMISED, CF_ALONE,
     "an exclusive VCQ can be thread-safe, too", create_safe_exclusive},
    {"vcq-safe-session", "3.3.4.1", 2, CF_PROMISED, CF_ALONE | CF_SESSION,
     "a session-mode VCQ can be thread-safe, too", create_safe_session},
    {"vcq-again", "3.3.1.1", 2, CF_PROMISED, CF_ALONE,
     "VCQs that are freed can be created again, 200 times", create_again},
    {"vcq-several", "3.3", 10, CF_PROMISED, CF_ALONE,
     "a TNI has several VCQs, with handles of their own", create_several},
    {"vcq-components", "6.1.2", 2, CF_PROMISED, CF_ALONE, "all component ids can be used at a time",
     use_all_components},
    {"vcq-component-twice", "3.3.1.2", 6, CF_PROMISED, CF_ALONE,
     "a component id that is used is UTOFU_ERR_USED, until it is freed", use_component_twice},
    {"vcq-component-mixed", "3.3.1.2", 4, CF_PROMISED, CF_ALONE,
     "utofu_create_vcq() chooses no component id of another VCQ", mix_components},
    {"vcq-component-safe", "3.3.4.1", 4, CF_PROMISED, CF_ALONE,
     "a VCQ with a component id can be thread-safe", create_safe_component},
    {"vcq-component-exclusive", "3.3.4.1", 14, CF_PROMISED, CF_ALONE,
     "no component id with the exclusive flag", refuse_component_exclusive},
    {"vcq-component-session", "3.3.4.1", 18, CF_PROMISED, CF_ALONE,
     "no component id with the session-mode flag", refuse_component_session},
    {"vcq-exclusive-session", "3.3.4.1", 19, CF_PROMISED, CF_ALONE,
     "no exclusive VCQ in session mode", refuse_exclusive_session},
    {"vcq-exclusive-alone", "3.3.4.1", 8, CF_PROMISED, CF_ALONE,
     "an exclusive VCQ shares its CQ with no other", look_for_sharers},
    {"vcq-exclusive-full", "3.3.4.1", 13, CF_PROMISED, CF_ALONE | CF_SLOW,
     "without a CQ left, the creation of an exclusive VCQ is an error", fill_exclusive},
    {"vcq-session-full", "3.3.4.1", 17, CF_PROMISED, CF_ALONE | CF_SESSION | CF_SLOW,
     "without a CQ left, the creation of a session-mode VCQ is an error", fill_session},
    {"vcq-full", "3.3.1.1", 8, CF_PROMISED, CF_ALONE | CF_SLOW,
     "a TNI without room returns UTOFU_ERR_FULL", fill_plain},
    {"vcq-full-again", "3.1.2.1", 18, CF_PROMISED, CF_ALONE | CF_SLOW,
     "a full TNI has room again behind utofu_free_vcq(), and the others had it",
     create_behind_full},
    {"vcq-context-tni", "2.2.1", 6, CF_PROMISED, CF_ALONE,
     "a completion comes to the VCQ that started it alone", judge_contexts_of_tni},
    {"vcq-context-cq", "2.2.1", 5, CF_PROMISED, CF_ALONE,
     "VCQs of one CQ do not disturb each other", judge_contexts_of_cq},
    {"vcq-two-tnis", "2.2.1", 11, CF_PROMISED, CF_ALONE, "two TNIs of a node communicate",
     put_between_tnis},
    {"vcq-itself", "2.2.1", 0, CF_UNSAID, CF_ALONE, "what a put of a VCQ to itself does",
     put_to_itself},
    {"vcq-all-peers", "3.3", 12, CF_PROMISED, 0,
     "a VCQ communicates any number of times, with all processes", put_to_all},
    {"vcq-free-unread", "3.3.1.3", 0, CF_UNSAID, CF_ALONE,
     "what becomes of unread notices of a VCQ that is freed", free_with_notices},
    {"vcq-unknown-flag", "3.1.2.1", 50, CF_OPEN, CF_ALONE, "what a flag without a meaning gives",
     create_with_unknown_flag},
    {"vcq-free-twice", "3.3.1.3", 2, CF_OPEN, CF_ALONE | CF_RISKY,
     "a VCQ must not be freed twice: what happens", free_twice},
    {"vcq-wrong-handle", "3.1.2.1", 57, CF_OPEN, CF_ALONE | CF_RISKY,
     "what a handle without a VCQ gives", use_wrong_handle},
    {"vcq-null", "3.1.2.1", 49, CF_OPEN, CF_ALONE | CF_RISKY,
     "what the creation of a VCQ does with NULL", pass_null},
    {"vcq-handles", "3.3.2.1", 0, CF_UNSAID, 0,
     "whether handles of two processes may have one value", compare_handles},
};
CF_GROUP(vcq_group, "vcq", cases);
