/* SPDX-License-Identifier: Apache-2.0 */
/* What every start function of one-sided communication has in common: see families.h. */
#include "families.h"
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER = 8192,     /* bytes that cf_comm_to_next() needs */
    ROW = 40,          /* communications of a row */
    MAX_STARTS = 65536 /* communications that are started without a poll */
};

void cf_try_moves(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    if (cf_box_complete(&b, m) && cf_meet(c) && cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

void cf_try_silent(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    if (cf_box_begin(&b, &m) && cf_wait_recv(&b, &e, &m) && cf_box_exact(&b, 0, 0, 0))
        cf_close(c, &e);
}

void cf_try_tcq_notice(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_TCQ;
    if (!cf_box_begin(&b, &m) || !cf_box_exact(&b, m.blocks, 0, 0))
        return;
    for (i = 0; i < b.tcqs && i < CF_BOX; i++)
        CF_HOLDS(c, b.tcq[i].cbdata == m.cbdata, "the TCQ entry has callback data %p, not %p",
                 b.tcq[i].cbdata, m.cbdata);
    cf_close(c, &e);
}

void cf_try_local_notice(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_LCL;
    if (!cf_box_begin(&b, &m) || !cf_box_exact(&b, 0, m.blocks, 0))
        return;
    for (i = 0; i < b.lcls && i < CF_BOX; i++)
        cf_check_lcl(c, &e, &m, i, &b.lcl[i].notice);
    cf_close(c, &e);
}

void cf_try_remote_notice(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_RMT;
    if (!cf_box_begin(&b, &m) || !cf_box_wait(&b, 0, 0, m.blocks))
        return;
    if (!cf_is_get(f) && !cf_check_recv(c, &e, &m, 1)) /* the data are there with the notice */
        return;
    if (!cf_box_exact(&b, 0, 0, m.blocks))
        return;
    for (i = 0; i < b.rmts && i < CF_BOX; i++)
        cf_check_rmt(c, &e, &m, i, &b.rmt[i].notice);
    cf_close(c, &e);
}

/* Checks that entry i of a queue belongs to the communication of that number */
static void check_number(struct cf *c, const char *queue, size_t i, uint64_t seen, uint64_t number)
{
    CF_HOLDS(c, seen == number, "entry %lu of the %s is of communication %llu, not %llu",
             (unsigned long)i, queue, (unsigned long long)seen, (unsigned long long)number);
}

void cf_try_row(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, count;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_ALL;
    for (i = 0; i < ROW; i++) {
        m.edata = i;
        m.cbdata = (void *)(uintptr_t)i;
        if (!cf_box_begin(&b, &m))
            return;
    }
    count = ROW * m.blocks;
    if (!cf_box_exact(&b, count, count, count))
        return;
    for (i = 0; i < count && i < CF_BOX && !cf_failed(c); i++) {
        check_number(c, "TCQ", i, (uintptr_t)b.tcq[i].cbdata, i / m.blocks);
        check_number(c, "local notices", i, b.lcl[i].notice.edata, i / m.blocks);
        check_number(c, "remote notices", i, b.rmt[i].notice.edata, i / m.blocks);
    }
    cf_close(c, &e);
}

/* Takes the TCQ entries of so many starts, from number 'first' on. A stride that was refused may
   have left some entries behind them. Not 0 if all came in order. */
static int drain_tcq(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t first,
                     size_t starts)
{
    void *cbdata = NULL;
    size_t i, left;
    int rc;
    for (i = 0; i < starts * m->blocks && !cf_failed(c); i++) {
        rc = cf_tcq(e->vcq, &cbdata);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_poll_tcq() for entry %lu returned %s",
                 (unsigned long)i, cf_code(rc));
        check_number(c, "TCQ", i, (uintptr_t)cbdata, first + i / m->blocks);
    }
    for (left = 0; cf_tcq_within(e->vcq, 0.02, &cbdata) == UTOFU_SUCCESS; left++)
        ;
    CF_HOLDS(c, left < m->blocks, "%lu TCQ entries more than descriptors came",
             (unsigned long)left);
    if (m->blocks > 1)
        cf_saw(c, left ? "a refused stride submits some" : "a refused stride submits none");
    return !cf_failed(c);
}

/* The sum of all additions of the previous process, which started so many */
static void check_sum(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t starts)
{
    uint64_t mine = starts, all[48];
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    if (m->function == CF_ARMW4 || m->function == CF_ARMW8)
        cf_check_word(c, e, m->rmt_at, all[cf_prev(c)] * m->operand);
}

void cf_try_busy(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t starts = 0;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.operand = 3;
    m.flags = CF_TCQ;
    do
        m.cbdata = (void *)(uintptr_t)starts;
    while ((rc = cf_start(&m)) == UTOFU_SUCCESS && ++starts < MAX_STARTS);
    CF_HOLDS(c, rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "start %lu returned %s",
             (unsigned long)starts, cf_code(rc));
    if (starts == MAX_STARTS)
        cf_skip(c, "the TOQ took %d communications and was not full", MAX_STARTS);
    else
        cf_number(c, "descriptors until BUSY", (double)(starts * m.blocks));
    if (!drain_tcq(c, &e, &m, 0, starts))
        return;
    rc = cf_start(&m);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "%s() returned %s after every TCQ entry was polled",
             cf_name(f), cf_code(rc));
    if (!drain_tcq(c, &e, &m, starts, 1))
        return;
    m.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER; /* complete: so are those before it */
    if (f != CF_NOP && !cf_box_complete(&b, m))
        return;
    check_sum(c, &e, &m, starts + 2);
    cf_close(c, &e);
}

void cf_try_edata(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t max = cf_max_edata(c), values[7];
    size_t i, count = sizeof(values) / sizeof(values)[0];
    if (max == 0 || !cf_begin(c, &e, &b, BUFFER))
        return;
    values[0] = max;
    values[1] = 0;
    values[2] = max - 1;
    values[3] = 1;
    values[4] = max / 2;
    values[5] = max / 2 + 1;
    values[6] = max & 0xa5a5a5a5a5a5a5a5u;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_LCL | CF_RMT;
    for (i = 0; i < count; i++) {
        m.edata = values[i];
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 0, count * m.blocks, count * m.blocks))
        return;
    for (i = 0; i < count * m.blocks; i++) {
        check_number(c, "local notices (EDATA)", i, b.lcl[i].notice.edata, values[i / m.blocks]);
        check_number(c, "remote notices (EDATA)", i, b.rmt[i].notice.edata, values[i / m.blocks]);
    }
    cf_close(c, &e);
}

/* Prepares the communication in memory with a guard behind it; the size, or 0 after a failure */
static size_t prepare_guarded(struct cf *c, const struct cf_comm *m, unsigned char *desc,
                              size_t room)
{
    size_t size = 0, i;
    int rc;
    memset(desc + room, 0xa5, 256);
    rc = cf_prepare(m, desc, &size);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the prepare function of %s() returned %s",
             cf_name(m->function), cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        return 0;
    CF_HOLDS(c, size > 0 && size <= room, "the descriptors have %lu bytes of at most %lu",
             (unsigned long)size, (unsigned long)room);
    for (i = 0; i < 256 && desc[room + i] == 0xa5; i++)
        ;
    CF_HOLDS(c, i == 256, "byte %lu behind the memory of the descriptors was written",
             (unsigned long)i);
    return cf_failed(c) ? 0 : size;
}

/* Posts the prepared communication and waits for all its notices; the n-th time, from 1 */
static int post_once(struct cf *c, struct cf_box *b, const struct cf_ends *e,
                     const struct cf_comm *m, unsigned char *desc, size_t size, size_t n)
{
    void *cbdata = (void *)(uintptr_t)(n * 1000);
    size_t mrqs = m->function == CF_NOP ? 0 : n * m->blocks, i;
    if (!cf_box_post(b, desc, size, cbdata) || !cf_box_exact(b, n * m->blocks, mrqs, mrqs))
        return 0;
    for (i = (n - 1) * m->blocks; i < n * m->blocks; i++)
        CF_HOLDS(c, b->tcq[i].cbdata == cbdata, "the TCQ entry has callback data %p, not %p",
                 b->tcq[i].cbdata, cbdata);
    for (i = (n - 1) * m->blocks; i < mrqs; i++) {
        cf_check_lcl(c, e, m, i - (n - 1) * m->blocks, &b->lcl[i].notice);
        cf_check_rmt(c, e, m, i - (n - 1) * m->blocks, &b->rmt[i].notice);
    }
    return !cf_failed(c);
}

void cf_try_prepared(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned char *desc;
    size_t room, size;
    if (caps == NULL || !cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_ALL;
    room = caps->max_toq_desc_size * m.blocks;
    desc = cf_alloc(room + 256);
    size = prepare_guarded(c, &m, desc, room);
    if (size == 0 || !cf_box_exact(&b, 0, 0, 0) || !cf_check_recv(c, &e, NULL, 0))
        goto out; /* nothing may start before the post */
    if (!cf_meet(c) || !post_once(c, &b, &e, &m, desc, size, 1) || !cf_check_recv(c, &e, &m, 1))
        goto out;
    m.before = cf_width(f) == 4 ? m.operand & 0xffffffffu : cf_width(f) ? m.operand : 0;
    if (!cf_meet(c) || !post_once(c, &b, &e, &m, desc, size, 2))
        goto out;
    if (f == CF_ARMW4 || f == CF_ARMW8)
        m.operand *= 2;
    cf_check_recv(c, &e, &m, 1);
    cf_close(c, &e);
out:
    cf_free(desc);
}

void cf_try_delayed(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, next;
    size_t mrqs;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    mrqs = f == CF_NOP ? 0 : m.blocks;
    m.flags = CF_ALL | UTOFU_ONESIDED_FLAG_DELAY_START;
    next = cf_comm_to_next(&e, CF_NOP);
    next.flags = CF_TCQ;
    /* Released by utofu_post_toq() of nothing */
    if (!cf_box_begin(&b, &m) || !cf_box_post(&b, NULL, 0, NULL) ||
        !cf_box_exact(&b, m.blocks, mrqs, mrqs) || !cf_check_recv(c, &e, &m, 1) || !cf_meet(c))
        return;
    /* Released by the next start */
    if (!cf_box_begin(&b, &m) || !cf_box_begin(&b, &next) ||
        !cf_box_exact(&b, 2 * m.blocks + 1, 2 * mrqs, 2 * mrqs))
        return;
    if (f == CF_ARMW4 || f == CF_ARMW8)
        m.operand *= 2;
    if (cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

/* The notice names the next process, whatever the path; the word before is not looked at */
static void check_path_notice(struct cf *c, const struct cf_ends *e, const struct cf_box *b,
                              struct cf_comm m)
{
    const struct utofu_mrq_notice *n = &b->lcl[b->lcls - 1].notice;
    m.before = n->rmt_value;
    cf_check_lcl(c, e, &m, m.blocks - 1, n);
}

/* Carries the communication out on one path, in the flags or as the default path of the id */
static int try_path(struct cf *c, const struct cf_ends *e, struct cf_box *b, struct cf_comm m,
                    unsigned n)
{
    uint8_t coords[3];
    utofu_path_id_t path = 0;
    int rc;
    coords[0] = (uint8_t)(n / 6);
    coords[1] = (uint8_t)(n / 2 % 3);
    coords[2] = (uint8_t)(n % 2);
    rc = utofu_get_path_id(m.target, coords, &path);
    if (rc == UTOFU_SUCCESS) {
        m.flags = CF_LCL | UTOFU_ONESIDED_FLAG_PATH(path);
        if (!cf_box_begin(b, &m) || !cf_box_wait(b, 0, b->lcls + m.blocks, 0))
            return 0;
        check_path_notice(c, e, b, m);
    }
    cf_saw(c, rc == UTOFU_SUCCESS ? "path has an id" : "path has no id");
    rc = utofu_set_vcq_id_path(&m.target, coords);
    if (rc == UTOFU_SUCCESS) {
        m.flags = CF_LCL;
        if (!cf_box_begin(b, &m) || !cf_box_wait(b, 0, b->lcls + m.blocks, 0))
            return 0;
        check_path_notice(c, e, b, m);
    }
    cf_saw(c, rc == UTOFU_SUCCESS ? "path is set in the id" : "path is refused in the id");
    return !cf_failed(c);
}

void cf_try_paths(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned n;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.op = UTOFU_ARMW_OP_SWAP;
    for (n = 0; n < 12; n++)
        if (!try_path(c, &e, &b, m, n))
            return;
    if (cf_meet(c) && cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

void cf_try_itself(struct cf *c, enum cf_function f)
{
    struct cf_ends e, self;
    struct cf_box b;
    struct cf_comm m;
    size_t i, at;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    self = e;
    self.next_id = self.prev_id = e.id;
    self.next_recv = self.prev_recv = e.recv_stadd;
    self.next_send = self.prev_send = e.send_stadd;
    m = cf_comm_to_next(&self, f);
    m.flags = CF_ALL;
    rc = cf_box_start(&b, &m);
    cf_saw(c, rc == UTOFU_SUCCESS ? "accepted" : "refused");
    if (rc != UTOFU_SUCCESS) {
        cf_close(c, &e);
        return;
    }
    if (!cf_box_exact(&b, m.blocks, m.blocks, m.blocks))
        return;
    for (i = 0; i < m.blocks; i++) {
        cf_check_lcl(c, &self, &m, i, &b.lcl[i].notice);
        cf_check_rmt(c, &self, &m, i, &b.rmt[i].notice);
        at = i * m.stride;
        if (cf_is_armw(f))
            CF_HOLDS(c, memcmp(e.recv + m.rmt_at, &m.operand, cf_width(f)) == 0,
                     "the word is not the operand");
        else if (cf_is_get(f))
            CF_HOLDS(c, memcmp(e.recv + m.lcl_at + at, e.send + m.rmt_at + at, m.length) == 0,
                     "block %lu differs", (unsigned long)i);
        else
            CF_HOLDS(c, memcmp(e.recv + m.rmt_at + at, e.send + m.lcl_at + at, m.length) == 0,
                     "block %lu differs", (unsigned long)i);
    }
    cf_close(c, &e);
}
