/* SPDX-License-Identifier: Apache-2.0 */
/* One communication with the neighbours, and what comes out of the queues: see onesided.h. */
#include "onesided.h"
#include "frame.h"
#include "system.h"
#include <stdlib.h>
#include <string.h>

enum { GET = 1, ARMW = 2, STRIDE = 4, PIGGYBACK = 8 };

static const struct {
    const char *name;
    int traits;
    size_t length; /* by default */
} functions[CF_FUNCTIONS] = {
    {"utofu_put", 0, 200},
    {"utofu_put_gap", 0, 4000},
    {"utofu_put_stride", STRIDE, 24},
    {"utofu_put_stride_gap", STRIDE, 40},
    {"utofu_put_piggyback", PIGGYBACK, 27},
    {"utofu_put_piggyback8", PIGGYBACK, 5},
    {"utofu_get", GET, 200},
    {"utofu_get_gap", GET, 4000},
    {"utofu_get_stride", GET | STRIDE, 24},
    {"utofu_get_stride_gap", GET | STRIDE, 40},
    {"utofu_armw4", ARMW, 4},
    {"utofu_armw8", ARMW, 8},
    {"utofu_cswap4", ARMW, 4},
    {"utofu_cswap8", ARMW, 8},
    {"utofu_nop", 0, 0},
};

double cf_deadline(void)
{
    return cf_now() + 10 * cf_timeout_scale;
}

int cf_is_get(enum cf_function f)
{
    return functions[f].traits & GET;
}

int cf_is_armw(enum cf_function f)
{
    return functions[f].traits & ARMW;
}

size_t cf_width(enum cf_function f)
{
    return cf_is_armw(f) ? functions[f].length : 0;
}

const char *cf_name(enum cf_function f)
{
    return functions[f].name;
}

struct cf_comm cf_comm_at(const struct cf_ends *e, enum cf_function f, size_t lcl_at, size_t rmt_at,
                          size_t length)
{
    struct cf_comm m;
    int stride = functions[f].traits & STRIDE;
    memset(&m, 0, sizeof(m));
    m.function = f;
    m.vcq = e->vcq;
    m.target = e->next_id;
    m.lcl_at = lcl_at;
    m.rmt_at = rmt_at;
    m.local = (cf_is_get(f) ? e->recv_stadd : e->send_stadd) + lcl_at;
    m.remote = (cf_is_get(f) ? e->next_send : e->next_recv) + rmt_at;
    m.data = e->send + lcl_at;
    memcpy(&m.data8, e->send + lcl_at, sizeof(m.data8));
    m.length = length;
    m.blocks = stride ? 5 : 1;
    m.stride = stride ? length + 76 : 0;
    m.mtu = 512;
    m.gap = 3;
    m.op = UTOFU_ARMW_OP_ADD;
    m.operand = cf_width(f) == 4 ? 0x81828384u : 0x8182838485868788u;
    m.edata = 0x5a;
    m.cbdata = (void *)(uintptr_t)0x1234567890abcdefu;
    return m;
}

struct cf_comm cf_comm_to_next(const struct cf_ends *e, enum cf_function f)
{
    return cf_comm_at(e, f, 72, 328, functions[f].length);
}

#define ENDS    m->vcq, m->target
#define SPAN    m->local, m->remote, m->length
#define STRIDED SPAN, m->stride, m->blocks
#define PACED   m->edata, m->flags, m->mtu, m->gap
#define PLAIN   m->edata, m->flags

int cf_start(const struct cf_comm *m)
{
    switch (m->function) {
    case CF_PUT:
        return utofu_put(ENDS, SPAN, PLAIN, m->cbdata);
    case CF_PUT_GAP:
        return utofu_put_gap(ENDS, SPAN, PACED, m->cbdata);
    case CF_PUT_STRIDE:
        return utofu_put_stride(ENDS, STRIDED, PLAIN, m->cbdata);
    case CF_PUT_STRIDE_GAP:
        return utofu_put_stride_gap(ENDS, STRIDED, PACED, m->cbdata);
    case CF_PIGGYBACK:
        return utofu_put_piggyback(ENDS, m->data, m->remote, m->length, PLAIN, m->cbdata);
    case CF_PIGGYBACK8:
        return utofu_put_piggyback8(ENDS, m->data8, m->remote, m->length, PLAIN, m->cbdata);
    case CF_GET:
        return utofu_get(ENDS, SPAN, PLAIN, m->cbdata);
    case CF_GET_GAP:
        return utofu_get_gap(ENDS, SPAN, PACED, m->cbdata);
    case CF_GET_STRIDE:
        return utofu_get_stride(ENDS, STRIDED, PLAIN, m->cbdata);
    case CF_GET_STRIDE_GAP:
        return utofu_get_stride_gap(ENDS, STRIDED, PACED, m->cbdata);
    case CF_ARMW4:
        return utofu_armw4(ENDS, m->op, (uint32_t)m->operand, m->remote, PLAIN, m->cbdata);
    case CF_ARMW8:
        return utofu_armw8(ENDS, m->op, m->operand, m->remote, PLAIN, m->cbdata);
    case CF_CSWAP4:
        return utofu_cswap4(ENDS, (uint32_t)m->compare, (uint32_t)m->operand, m->remote, PLAIN,
                            m->cbdata);
    case CF_CSWAP8:
        return utofu_cswap8(ENDS, m->compare, m->operand, m->remote, PLAIN, m->cbdata);
    default:
        return utofu_nop(m->vcq, m->flags, m->cbdata);
    }
}

int cf_prepare(const struct cf_comm *m, void *desc, size_t *desc_size)
{
    switch (m->function) {
    case CF_PUT:
        return utofu_prepare_put(ENDS, SPAN, PLAIN, desc, desc_size);
    case CF_PUT_GAP:
        return utofu_prepare_put_gap(ENDS, SPAN, PACED, desc, desc_size);
    case CF_PUT_STRIDE:
        return utofu_prepare_put_stride(ENDS, STRIDED, PLAIN, desc, desc_size);
    case CF_PUT_STRIDE_GAP:
        return utofu_prepare_put_stride_gap(ENDS, STRIDED, PACED, desc, desc_size);
    case CF_PIGGYBACK:
        return utofu_prepare_put_piggyback(ENDS, m->data, m->remote, m->length, PLAIN, desc,
                                           desc_size);
    case CF_PIGGYBACK8:
        return utofu_prepare_put_piggyback8(ENDS, m->data8, m->remote, m->length, PLAIN, desc,
                                            desc_size);
    case CF_GET:
        return utofu_prepare_get(ENDS, SPAN, PLAIN, desc, desc_size);
    case CF_GET_GAP:
        return utofu_prepare_get_gap(ENDS, SPAN, PACED, desc, desc_size);
    case CF_GET_STRIDE:
        return utofu_prepare_get_stride(ENDS, STRIDED, PLAIN, desc, desc_size);
    case CF_GET_STRIDE_GAP:
        return utofu_prepare_get_stride_gap(ENDS, STRIDED, PACED, desc, desc_size);
    case CF_ARMW4:
        return utofu_prepare_armw4(ENDS, m->op, (uint32_t)m->operand, m->remote, PLAIN, desc,
                                   desc_size);
    case CF_ARMW8:
        return utofu_prepare_armw8(ENDS, m->op, m->operand, m->remote, PLAIN, desc, desc_size);
    case CF_CSWAP4:
        return utofu_prepare_cswap4(ENDS, (uint32_t)m->compare, (uint32_t)m->operand, m->remote,
                                    PLAIN, desc, desc_size);
    case CF_CSWAP8:
        return utofu_prepare_cswap8(ENDS, m->compare, m->operand, m->remote, PLAIN, desc,
                                    desc_size);
    default:
        return utofu_prepare_nop(m->vcq, m->flags, desc, desc_size);
    }
}

/* Writes what the communication leaves in 'recv' of this process */
static void expect_bytes(struct cf *c, const struct cf_comm *m, unsigned char *expected)
{
    size_t block, i, at;
    if (cf_is_armw(m->function)) {
        memcpy(expected + m->rmt_at, &m->operand, cf_width(m->function));
        return;
    }
    for (block = 0; block < m->blocks; block++) {
        for (i = 0; i < m->length; i++) {
            at = block * m->stride + i;
            if (cf_is_get(m->function))
                expected[m->lcl_at + at] = cf_pattern(cf_next(c), m->rmt_at + at);
            else
                expected[m->rmt_at + at] = cf_pattern(cf_prev(c), m->lcl_at + at);
        }
    }
}

/* The place of the first byte of 'recv' that is not as the communications leave it, with both
 * values; or its size */
static size_t find_difference(struct cf *c, const struct cf_ends *e, const struct cf_comm *m,
                              size_t count, unsigned *seen, unsigned *wanted)
{
    unsigned char *expected = cf_alloc(e->size);
    size_t i;
    for (i = 0; i < count; i++)
        if (m[i].function != CF_NOP)
            expect_bytes(c, m + i, expected);
    for (i = 0; i < e->size && e->recv[i] == expected[i]; i++)
        ;
    *seen = i < e->size ? e->recv[i] : 0u;
    *wanted = i < e->size ? expected[i] : 0u;
    cf_free(expected);
    return i;
}

int cf_check_recv(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t count)
{
    unsigned seen, wanted;
    size_t at = find_difference(c, e, m, count, &seen, &wanted);
    CF_HOLDS(c, at == e->size, "byte %lu of the target is %#x, not %#x", (unsigned long)at, seen,
             wanted);
    return at == e->size;
}

int cf_wait_recv(struct cf_box *b, const struct cf_ends *e, const struct cf_comm *m)
{
    double until = cf_deadline();
    unsigned seen, wanted;
    while (find_difference(b->c, e, m, 1, &seen, &wanted) < e->size && cf_now() < until)
        if (cf_box_look(b) == 0)
            cf_system_yield();
    return cf_check_recv(b->c, e, m, 1);
}

int cf_check_word(struct cf *c, const struct cf_ends *e, size_t at, uint64_t value)
{
    uint64_t word;
    memcpy(&word, e->recv + at, sizeof(word));
    CF_HOLDS(c, word == value, "the word at %lu is %#llx, not %#llx", (unsigned long)at,
             (unsigned long long)word, (unsigned long long)value);
    return word == value;
}

/* ---- Entries of the queues ---- */
void cf_box_open(struct cf_box *b, struct cf *c, utofu_vcq_hdl_t vcq)
{
    memset(b, 0, sizeof(*b));
    b->c = c;
    b->vcq = vcq;
}

static void keep_notice(struct cf_mrq_entry *entries, size_t *count, int code,
                        const struct utofu_mrq_notice *notice)
{
    if (*count < CF_BOX) {
        entries[*count].code = code;
        entries[*count].notice = *notice;
    }
    ++*count;
}

static size_t look_at_tcq(struct cf_box *b)
{
    void *cbdata = NULL;
    int rc = utofu_poll_tcq(b->vcq, 0, &cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return 0;
    if (b->tcqs < CF_BOX) {
        b->tcq[b->tcqs].code = rc;
        b->tcq[b->tcqs].cbdata = cbdata;
    }
    b->tcqs++;
    CF_HOLDS(b->c, rc == UTOFU_SUCCESS || b->errors_allowed, "utofu_poll_tcq() returned %s",
             cf_code(rc));
    return 1;
}

static size_t look_at_mrq(struct cf_box *b)
{
    struct utofu_mrq_notice notice;
    int rc;
    memset(&notice, 0, sizeof(notice));
    rc = utofu_poll_mrq(b->vcq, 0, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return 0;
    if (rc != UTOFU_SUCCESS)
        keep_notice(b->bad, &b->bads, rc, &notice);
    else if (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT ||
             notice.notice_type == UTOFU_MRQ_TYPE_RMT_GET ||
             notice.notice_type == UTOFU_MRQ_TYPE_RMT_ARMW)
        keep_notice(b->rmt, &b->rmts, rc, &notice);
    else
        keep_notice(b->lcl, &b->lcls, rc, &notice);
    CF_HOLDS(b->c, rc == UTOFU_SUCCESS || b->errors_allowed, "utofu_poll_mrq() returned %s",
             cf_code(rc));
    return 1;
}

size_t cf_box_look(struct cf_box *b)
{
    size_t found = look_at_tcq(b);
    return found + look_at_mrq(b);
}

void cf_box_watch(struct cf_box *b, double seconds)
{
    double until = cf_now() + seconds;
    do {
        if (cf_box_look(b) == 0)
            cf_system_yield();
    } while (cf_now() < until);
}

int cf_box_wait(struct cf_box *b, size_t tcqs, size_t lcls, size_t rmts)
{
    double until = cf_deadline();
    size_t bads = b->bads;
    while (b->tcqs < tcqs || b->lcls < lcls || b->rmts < rmts) {
        if (cf_box_look(b) == 0) {
            if (cf_now() > until || cf_failed(b->c))
                break;
            cf_system_yield();
        }
    }
    if (b->tcqs >= tcqs && b->lcls >= lcls && b->rmts >= rmts)
        return b->bads == bads || b->errors_allowed;
    cf_fail(b->c, "%lu of %lu TCQ entries, %lu of %lu local and %lu of %lu remote notices came",
            (unsigned long)b->tcqs, (unsigned long)tcqs, (unsigned long)b->lcls,
            (unsigned long)lcls, (unsigned long)b->rmts, (unsigned long)rmts);
    return 0;
}

int cf_box_exact(struct cf_box *b, size_t tcqs, size_t lcls, size_t rmts)
{
    if (!cf_box_wait(b, tcqs, lcls, rmts) || !cf_meet(b->c))
        return 0;
    cf_box_watch(b, 0.02);
    CF_HOLDS(b->c, b->tcqs == tcqs, "%lu TCQ entries came, not %lu", (unsigned long)b->tcqs,
             (unsigned long)tcqs);
    CF_HOLDS(b->c, b->lcls == lcls, "%lu local notices came, not %lu", (unsigned long)b->lcls,
             (unsigned long)lcls);
    CF_HOLDS(b->c, b->rmts == rmts, "%lu remote notices came, not %lu", (unsigned long)b->rmts,
             (unsigned long)rmts);
    return cf_meet(b->c); /* nobody has started anything else meanwhile */
}

int cf_box_start(struct cf_box *b, const struct cf_comm *m)
{
    double until = cf_deadline();
    int rc;
    while ((rc = cf_start(m)) == UTOFU_ERR_BUSY && cf_now() < until)
        if (cf_box_look(b) == 0)
            cf_system_yield();
    return rc;
}

int cf_box_post(struct cf_box *b, void *desc, size_t desc_size, void *cbdata)
{
    double until = cf_deadline();
    int rc;
    while ((rc = utofu_post_toq(b->vcq, desc, desc_size, cbdata)) == UTOFU_ERR_BUSY &&
           cf_now() < until)
        if (cf_box_look(b) == 0)
            cf_system_yield();
    CF_HOLDS(b->c, rc == UTOFU_SUCCESS, "utofu_post_toq() of %lu bytes returned %s",
             (unsigned long)desc_size, cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

int cf_box_begin(struct cf_box *b, const struct cf_comm *m)
{
    int rc = cf_box_start(b, m);
    CF_HOLDS(b->c, rc == UTOFU_SUCCESS, "%s() of %lu bytes returned %s", cf_name(m->function),
             (unsigned long)m->length, cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

int cf_box_complete(struct cf_box *b, struct cf_comm m)
{
    size_t lcls = b->lcls;
    m.flags |= CF_LCL;
    return cf_box_begin(b, &m) && cf_box_wait(b, 0, lcls + m.blocks, 0);
}

static void check_type(struct cf *c, const struct cf_comm *m, unsigned seen, int remote)
{
    unsigned type = cf_is_armw(m->function)  ? UTOFU_MRQ_TYPE_LCL_ARMW
                    : cf_is_get(m->function) ? UTOFU_MRQ_TYPE_LCL_GET
                                             : UTOFU_MRQ_TYPE_LCL_PUT;
    type += remote ? 1u : 0u;
    CF_HOLDS(c, seen == type, "the notice has type %u, not %u", seen, type);
}

static void check_id(struct cf *c, utofu_vcq_id_t seen, utofu_vcq_id_t id)
{
    CF_HOLDS(c, seen == id, "the notice has VCQ id %#llx, not %#llx", (unsigned long long)seen,
             (unsigned long long)id);
}

static void check_edata(struct cf *c, uint64_t seen, uint64_t edata)
{
    CF_HOLDS(c, seen == edata, "the notice has EDATA %#llx, not %#llx", (unsigned long long)seen,
             (unsigned long long)edata);
}

static void check_stadd(struct cf *c, const char *which, utofu_stadd_t seen, utofu_stadd_t stadd)
{
    CF_HOLDS(c, seen == stadd, "the notice has %s %#llx, not %#llx", which,
             (unsigned long long)seen, (unsigned long long)stadd);
}

/* From the start of the region to the STADD in the notice: the end of block i, or the word of an
 * ARMW */
static size_t find_end(const struct cf_comm *m, size_t at, size_t i)
{
    return cf_is_armw(m->function) ? at : at + i * m->stride + m->length;
}

void cf_check_lcl(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t i,
                  const struct utofu_mrq_notice *n)
{
    check_type(c, m, n->notice_type, 0);
    check_id(c, n->vcq_id, e->next_id);
    check_edata(c, n->edata, m->edata);
    if (cf_is_get(m->function))
        check_stadd(c, "lcl_stadd", n->lcl_stadd, m->local + find_end(m, 0, i));
    else
        check_stadd(c, "rmt_stadd", n->rmt_stadd, m->remote + find_end(m, 0, i));
    if (cf_is_armw(m->function))
        CF_HOLDS(c, n->rmt_value == m->before, "the notice has rmt_value %#llx, not %#llx",
                 (unsigned long long)n->rmt_value, (unsigned long long)m->before);
}

void cf_check_rmt(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t i,
                  const struct utofu_mrq_notice *n)
{
    utofu_stadd_t mine = cf_is_get(m->function) ? e->send_stadd : e->recv_stadd;
    check_type(c, m, n->notice_type, 1);
    check_id(c, n->vcq_id, e->prev_id);
    check_edata(c, n->edata, m->edata);
    check_stadd(c, "rmt_stadd", n->rmt_stadd, mine + find_end(m, m->rmt_at, i));
    if (cf_is_get(m->function))
        check_stadd(c, "lcl_stadd", n->lcl_stadd, e->prev_recv + find_end(m, m->lcl_at, i));
}

/* ---- The case ---- */
int cf_begin(struct cf *c, struct cf_ends *e, struct cf_box *b, size_t bytes)
{
    if (!cf_open(c, e, 0, 0, bytes))
        return 0;
    cf_box_open(b, c, e->vcq);
    return 1;
}

const struct utofu_onesided_caps *cf_caps(struct cf *c)
{
    struct utofu_onesided_caps *caps = NULL;
    utofu_tni_id_t *tnis, tni;
    size_t count;
    int rc = utofu_get_onesided_tnis(&tnis, &count);
    if (rc == UTOFU_SUCCESS && count > 0) {
        tni = tnis[0];
        free(tnis);
        rc = utofu_query_onesided_caps(tni, &caps);
    }
    CF_HOLDS(c, caps != NULL, "the capabilities cannot be queried: %s", cf_code(rc));
    return caps;
}

uint64_t cf_max_edata(struct cf *c)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    if (caps == NULL || caps->max_edata_size == 0)
        return 0;
    if (caps->max_edata_size >= sizeof(uint64_t))
        return UINT64_MAX;
    return ((uint64_t)1 << (8 * caps->max_edata_size)) - 1;
}
