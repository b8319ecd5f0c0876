/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_poll_mrq() and of struct utofu_mrq_notice (3.7, 3.7.4.2, 3.7.6, 3.7.8). */
#include "families.h"
#include "transfers.h"
#include <string.h>

enum { BUFFER = 8192 };

static void run_empty(struct cf *c)
{
    struct cf_ends e;
    struct utofu_mrq_notice notice, before;
    size_t i;
    int rc;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    memset(&notice, 0x5c, sizeof(notice));
    before = notice;
    for (i = 0; i < 100; i++) {
        rc = utofu_poll_mrq(e.vcq, 0, &notice);
        CF_NEED(c, rc == UTOFU_ERR_NOT_FOUND, "utofu_poll_mrq() returned %s", cf_code(rc));
        CF_NEED(c, memcmp(&notice, &before, sizeof(notice)) == 0,
                "UTOFU_ERR_NOT_FOUND changed the notice");
    }
    cf_close(c, &e);
}

static void run_not_found_again(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct utofu_mrq_notice notice, before;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER) || !cf_box_complete(&b, cf_comm_to_next(&e, CF_PUT)))
        return;
    memset(&notice, 0x5c, sizeof(notice));
    before = notice;
    rc = cf_mrq_within(e.vcq, 0.02, &notice);
    CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "utofu_poll_mrq() returned %s", cf_code(rc));
    CF_HOLDS(c, memcmp(&notice, &before, sizeof(notice)) == 0,
             "UTOFU_ERR_NOT_FOUND changed the notice");
    cf_close(c, &e);
}

/* A put, a get and an ARMW have each type of notice once */
static void run_types(struct cf *c)
{
    static const enum cf_function kinds[] = {CF_PUT, CF_GET, CF_ARMW8};
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned seen[6] = {0}, type;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    for (i = 0; i < 3; i++) {
        m = cf_comm_at(&e, kinds[i], i * 1000, i * 1000, 500);
        m.flags = CF_LCL | CF_RMT;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 0, 3, 3))
        return;
    for (i = 0; i < 3; i++) {
        type = b.lcl[i].notice.notice_type;
        CF_NEED(c, type < 6, "a notice has type %u", type);
        seen[type]++;
        seen[b.rmt[i].notice.notice_type]++;
    }
    for (type = 0; type < 6; type++)
        CF_HOLDS(c, seen[type] == 1, "%u notices have type %u", seen[type], type);
    cf_close(c, &e);
}

static void run_kept(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_LCL | CF_RMT;
    for (i = 0; i < 8; i++) {
        m.edata = i;
        rc = cf_start(&m);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
    }
    cf_rest(0.3);
    if (!cf_box_exact(&b, 0, 8, 8))
        return;
    for (i = 0; i < 8; i++)
        CF_HOLDS(c, b.lcl[i].notice.edata == i && b.rmt[i].notice.edata == i,
                 "notice %lu is of another put", (unsigned long)i);
    cf_close(c, &e);
}

/* 900 local and 900 remote notices wait in the MRQ, as any of its sizes allows (4.3.2.3) */
static void run_pile(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_LCL | CF_RMT;
    for (i = 0; i < 900; i++) {
        CF_RETRY(rc, e.vcq, cf_start(&m));
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
    }
    if (cf_meet(c) && cf_box_exact(&b, 0, 900, 900))
        cf_close(c, &e);
}

/* ---- Fields ---- */
/* The path in the flags, or in the VCQ id, is not that of the notices, which have the ids of
 * utofu_query_vcq_id() */
static void run_ids(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, plain;
    uint8_t coords[3];
    unsigned n;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    plain = cf_comm_to_next(&e, CF_PUT);
    plain.flags = CF_LCL | CF_RMT;
    for (n = 0; n < 12; n++) {
        coords[0] = (uint8_t)(n / 6);
        coords[1] = (uint8_t)(n / 2 % 3);
        coords[2] = (uint8_t)(n % 2);
        m = plain;
        if (utofu_set_vcq_id_path(&m.target, coords) != UTOFU_SUCCESS)
            m.target = plain.target;
        cf_saw(c, m.target == plain.target ? "id as it was" : "id with another path");
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 0, 12, 12))
        return;
    for (i = 0; i < 12; i++) {
        cf_check_lcl(c, &e, &plain, 0, &b.lcl[i].notice);
        cf_check_rmt(c, &e, &plain, 0, &b.rmt[i].notice);
    }
    cf_close(c, &e);
}

/* The value before an ARMW of 4 bytes is alone in its field, whatever lies beside the word */
static void run_value_4(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t value;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    memset(e.recv, 0xff, e.size);
    if (!cf_meet(c))
        return;
    m = cf_comm_at(&e, CF_ARMW4, 0, 64, 0);
    m.op = UTOFU_ARMW_OP_OR;
    if (!cf_box_complete(&b, m))
        return;
    value = b.lcl[0].notice.rmt_value;
    CF_HOLDS(c, value == 0xffffffffu, "the value before is %#llx", (unsigned long long)value);
    if (cf_meet(c))
        cf_close(c, &e);
}

/* What a field has that the manual does not set for that type: the notice is filled with a pattern
 * before the poll */
static void tell_field(struct cf *c, const char *name, uint64_t value, utofu_stadd_t rmt_stadd)
{
    char words[48];
    const char *what = value == 0                     ? "0"
                       : value == 0x5c5c5c5c5c5c5c5cu ? "left alone"
                       : value == rmt_stadd           ? "as rmt-stadd"
                                                      : "another value";
    strcpy(words, name);
    strcat(words, what);
    cf_saw(c, words);
}

static void see_fields(struct cf *c, enum cf_function f, unsigned long flag)
{
    struct cf_ends e;
    struct cf_comm m;
    struct utofu_mrq_notice n;
    size_t i, unset = 0;
    int rc, get = cf_is_get(f), lcl_armw = cf_is_armw(f) && flag == CF_LCL;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = flag;
    rc = cf_start(&m);
    CF_NEED(c, rc == UTOFU_SUCCESS, "%s() returned %s", cf_name(f), cf_code(rc));
    memset(&n, 0x5c, sizeof(n));
    rc = cf_mrq(e.vcq, &n);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_poll_mrq() returned %s", cf_code(rc));
    if (!lcl_armw)
        tell_field(c, "rmt-value ", n.rmt_value, n.rmt_stadd);
    if (!get)
        tell_field(c, "lcl-stadd ", n.lcl_stadd, n.rmt_stadd);
    if (get && flag == CF_LCL)
        tell_field(c, "rmt-stadd ", n.rmt_stadd, 1);
    tell_field(c, "reserved ", n.reserved[0], n.rmt_stadd);
    tell_field(c, "reserved ", n.reserved[1], n.rmt_stadd);
    for (i = 0; i < sizeof(n.padding1); i++)
        unset += n.padding1[i] == 0x5c;
    cf_saw(c, unset == sizeof(n.padding1) ? "padding1 left alone" : "padding1 changed");
    cf_close(c, &e);
}

CF_RUN(run_fields_lcl_put, see_fields(c, CF_PUT, CF_LCL));
CF_RUN(run_fields_rmt_put, see_fields(c, CF_PUT, CF_RMT));
CF_RUN(run_fields_lcl_get, see_fields(c, CF_GET, CF_LCL));
CF_RUN(run_fields_rmt_get, see_fields(c, CF_GET, CF_RMT));
CF_RUN(run_fields_lcl_armw, see_fields(c, CF_ARMW8, CF_LCL));
CF_RUN(run_fields_rmt_armw, see_fields(c, CF_ARMW8, CF_RMT));

/* ---- Between processes ---- */
/* Each process answers a put at its remote notice: which comes first at the origin, its local
 * notice or the answer? */
static void run_answer(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm put, answer;
    size_t lap, i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    put = cf_comm_to_next(&e, CF_PUT);
    put.flags = CF_LCL | CF_RMT;
    put.edata = 1;
    answer = cf_comm_at(&e, CF_PUT, 0, 4096, 8);
    answer.target = e.prev_id;
    answer.remote = e.prev_recv + 4096;
    answer.flags = CF_RMT;
    answer.edata = 2;
    for (lap = 0; lap < 100; lap++) {
        size_t put_came = 0, answer_came = 0;
        cf_box_open(&b, c, e.vcq);
        if (!cf_box_begin(&b, &put))
            return;
        for (i = 0; !put_came || !answer_came || b.lcls < 1;) {
            if (!cf_box_wait(&b, 0, b.rmts == 2 ? 1 : 0, b.rmts < 2 ? b.rmts + 1 : 2))
                return;
            for (; i < b.rmts; i++) {
                if (b.rmt[i].notice.edata == 1) {
                    put_came = 1;
                    if (!cf_box_begin(&b, &answer))
                        return;
                } else {
                    answer_came = 1;
                    cf_saw(c, b.lcls ? "local notice first" : "answer first");
                }
            }
        }
        if (!cf_meet(c))
            return;
    }
    cf_close(c, &e);
}

/* Every process puts to every one: the notices of each origin come in its order */
static void run_origins(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t recv;
    } mine, all[48];
    size_t i, j, size = (size_t)cf_size(c), rounds = 240 / size, next[48] = {0};
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    mine.id = e.id;
    mine.recv = e.recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    for (i = 0; i < rounds; i++) {
        for (j = 0; j < size; j++) {
            m = cf_comm_at(&e, i % 3 ? CF_PUT : CF_PIGGYBACK8, 0, 0, 8);
            m.target = all[j].id;
            m.remote = all[j].recv + 64 * (size_t)cf_rank(c);
            m.edata = i;
            m.flags = CF_RMT;
            if (!cf_box_begin(&b, &m))
                return;
        }
    }
    if (!cf_box_exact(&b, 0, 0, rounds * size))
        return;
    for (i = 0; i < b.rmts; i++) {
        for (j = 0; j < size && all[j].id != b.rmt[i].notice.vcq_id; j++)
            ;
        CF_NEED(c, j < size, "a notice has a VCQ id of no process");
        CF_NEED(c, b.rmt[i].notice.edata == next[j], "notice %lu of process %lu came as number %lu",
                (unsigned long)b.rmt[i].notice.edata, (unsigned long)j, (unsigned long)next[j]);
        next[j]++;
    }
    cf_close(c, &e);
}

/* ---- What is not said ---- */
static void run_flags(struct cf *c)
{
    struct cf_ends e;
    struct utofu_mrq_notice notice;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    cf_tell_code(c, "flag 1 ", utofu_poll_mrq(e.vcq, 1, &notice));
    cf_tell_code(c, "flag 63 ", utofu_poll_mrq(e.vcq, 1UL << 63, &notice));
    cf_close(c, &e);
}

static void run_null(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    cf_tell_code(c, "empty ", utofu_poll_mrq(e.vcq, 0, NULL));
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_LCL;
    if (!cf_box_begin(&b, &m))
        return;
    cf_rest(0.1);
    cf_tell_code(c, "entry ", utofu_poll_mrq(e.vcq, 0, NULL));
    cf_box_watch(&b, 0.02);
    cf_saw(c, b.lcls ? "the notice stays" : "the notice is lost");
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"mrq-empty", "3.7.4.2", 3, CF_PROMISED, 0,
     "Without a new notice utofu_poll_mrq() is UTOFU_ERR_NOT_FOUND.", run_empty},
    {"mrq-not-found-again", "3.7.4.2", 9, CF_PROMISED, 0,
     "UTOFU_ERR_NOT_FOUND leaves the notice as it is.", run_not_found_again},
    {"mrq-types", "3.7.8.1", 2, CF_PROMISED, CF_ARMW,
     "The six types of notices tell kind and side of the communication.", run_types},
    {"mrq-kept", "3.7.4.2", 2, CF_PROMISED, 0,
     "Notices that nobody polls stay until somebody does.", run_kept},
    {"mrq-pile", "3.7", 31, CF_PROMISED, 0, "1800 notices have room in any MRQ.", run_pile},
    {"mrq-ids", "3.7.6.1", 9, CF_PROMISED, 0,
     "Notices have the VCQ ids of utofu_query_vcq_id(), whatever path the id of the call had.",
     run_ids},
    {"mrq-value-4", "3.7.6.1", 13, CF_PROMISED, CF_ARMW,
     "The value before an ARMW of 4 bytes has 0 in its upper half.", run_value_4},
    {"mrq-fields-lcl-put", "3.7.6.1", 0, CF_UNSAID, 0,
     "What do the other fields of the local notice of a put have?", run_fields_lcl_put},
    {"mrq-fields-rmt-put", "3.7.6.1", 0, CF_UNSAID, 0,
     "What do the other fields of the remote notice of a put have?", run_fields_rmt_put},
    {"mrq-fields-lcl-get", "3.7.6.1", 0, CF_UNSAID, 0,
     "What do the other fields of the local notice of a get have?", run_fields_lcl_get},
    {"mrq-fields-rmt-get", "3.7.6.1", 0, CF_UNSAID, 0,
     "What do the other fields of the remote notice of a get have?", run_fields_rmt_get},
    {"mrq-fields-lcl-armw", "3.7.6.1", 0, CF_UNSAID, CF_ARMW,
     "What do the other fields of the local notice of an ARMW have?", run_fields_lcl_armw},
    {"mrq-fields-rmt-armw", "3.7.6.1", 0, CF_UNSAID, CF_ARMW,
     "What do the other fields of the remote notice of an ARMW have?", run_fields_rmt_armw},
    {"mrq-answer", "2.2.10", 0, CF_UNSAID, 0,
     "Does the local notice of a put come before the answer of the target to it?", run_answer},
    {"mrq-origins", "2.2.10", 23, CF_PROMISED, 0,
     "Of many origins the remote notices of each come in the order of its starts.", run_origins},
    {"mrq-flags", "3.7.10.1", 3, CF_OPEN, 0,
     "What does utofu_poll_mrq() return for a flag that is not defined?", run_flags},
    {"mrq-null", "3.7.4.2", 0, CF_UNSAID, CF_RISKY,
     "What does utofu_poll_mrq() do without a place for the notice?", run_null},
};
CF_GROUP(mrq_group, "mrq", cases);
