/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VCQ. A communication has an op, whose number is its EDATA, and asks for its local MRQ notice,
 * which ends the op. Remote notices say that a record or a reply has arrived (struct la_events).
 */
#include "net.h"
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TCQ_PERIOD = 32, /* polls */
    BOUNCE_SIZE = LA_OPS * LA_SLOT + LA_LINES * LA_LINE,
};

static bool open_vcq(void)
{
    utofu_tni_id_t *tnis;
    size_t n;

    if (utofu_get_onesided_tnis(&tnis, &n) != UTOFU_SUCCESS || n == 0) {
        la_log("LAPI_Init: uTofu has no TNI here: see utofu-info --check");
        return false;
    }
    if (utofu_create_vcq_with_cmp_id(tnis[0], LA_COMP_WORK, UTOFU_VCQ_FLAG_THREAD_SAFE,
                                     &la.net.vcq) != UTOFU_SUCCESS) {
        la_log("LAPI_Init: no VCQ with component id %d on TNI %u: %s", LA_COMP_WORK, tnis[0],
               lc_utofu_error());
        free(tnis);
        return false;
    }
    free(tnis);
    if (utofu_query_vcq_id(la.net.vcq, &la.net.vcq_id) == UTOFU_SUCCESS)
        return true;
    la_log("LAPI_Init: the VCQ has no id: %s", lc_utofu_error());
    la_expect(utofu_free_vcq(la.net.vcq), "utofu_free_vcq");
    return false;
}

bool la_net_setup(void)
{
    if (!open_vcq())
        return false;
    la.net.bounce =
        mmap(NULL, BOUNCE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (la.net.bounce == MAP_FAILED || utofu_reg_mem(la.net.vcq, la.net.bounce, BOUNCE_SIZE, 0,
                                                     &la.net.bounce_stadd) != UTOFU_SUCCESS) {
        la_log("LAPI_Init: no %d bytes of buffers: %s", BOUNCE_SIZE, lc_utofu_error());
        if (la.net.bounce != MAP_FAILED)
            munmap(la.net.bounce, BOUNCE_SIZE);
        la_expect(utofu_free_vcq(la.net.vcq), "utofu_free_vcq");
        return false;
    }
    la.net.num_free = 0;
    la.net.lines = (uint8_t(*)[LA_LINE])(la.net.bounce + LA_OPS);
    la.net.lines_begun = la.net.lines_left = 0;
    for (uint32_t i = 0; i < LA_OPS; i++) {
        la.net.ops[i] = (struct la_op){.index = (uint8_t)i};
        la.net.free_ops[la.net.num_free++] = (uint8_t)(LA_OPS - 1 - i);
    }
    return true;
}

void la_net_close(void)
{
    la_expect(utofu_dereg_mem(la.net.vcq, la.net.bounce_stadd, 0), "utofu_dereg_mem");
    munmap(la.net.bounce, BOUNCE_SIZE);
    la_expect(utofu_free_vcq(la.net.vcq), "utofu_free_vcq");
}

utofu_vcq_hdl_t la_vcq(void)
{
    return la.net.vcq;
}

utofu_vcq_id_t la_vcq_id(void)
{
    return la.net.vcq_id;
}

struct la_op *la_op_take(uint32_t keep, uint32_t rank,
                         void (*done)(struct la_op *op, int rc, uint64_t old_value), void *arg)
{
    struct la_op *op;

    if (la.net.num_free <= keep)
        return NULL;
    op = &la.net.ops[la.net.free_ops[--la.net.num_free]];
    op->done = done;
    op->arg = arg;
    op->rank = rank;
    op->busy = true;
    return op;
}

void la_op_drop(struct la_op *op)
{
    op->busy = false;
    la.net.free_ops[la.net.num_free++] = op->index;
}

/* The op may be taken again by what it calls. */
static void end_op(struct la_op *op, int rc, uint64_t old_value)
{
    struct la_op was = *op;

    if (!op->busy)
        return;
    if (rc == UTOFU_ERR_MRQ_PEER && op->rank != la.job.rank)
        la.events->lost(op->rank, lc_utofu_error());
    if (was.done != NULL)
        was.done(&was, rc, old_value); /* its buffer is its own until then */
    la_op_drop(op);
}

void *la_op_bounce(struct la_op *op)
{
    return la.net.bounce[op->index];
}

utofu_stadd_t la_op_bounce_stadd(const struct la_op *op)
{
    return la.net.bounce_stadd + (utofu_stadd_t)op->index * LA_SLOT;
}

static bool is_mark(const void *cbdata)
{
    return (uintptr_t)cbdata - (uintptr_t)la.net.marks < sizeof(la.net.marks);
}

/* Makes room in the TOQ; what could not be sent is reported here alone. */
static bool poll_tcq(void)
{
    void *cbdata;
    int rc = utofu_poll_tcq(la.net.vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    if (is_mark(cbdata))
        la.net.lines_left = *(const uint64_t *)cbdata;
    else if (rc <= UTOFU_ERR_TCQ_OTHER && rc > UTOFU_ERR_MRQ_OTHER && cbdata != NULL)
        end_op(cbdata, rc, 0);
    return true;
}

const char *la_net_text(char text[LA_TEXT])
{
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < LA_OPS; i++)
        if (la.net.ops[i].busy && n++ == 0)
            rank = la.net.ops[i].rank;
    if (n == 0)
        snprintf(text, LA_TEXT, "no communication is under way that a notice ends");
    else if (n == 1)
        snprintf(text, LA_TEXT, "one communication is under way, with task %u", rank);
    else
        snprintf(text, LA_TEXT, "%u communications are under way, one of them with task %u", n,
                 rank);
    return text;
}

/* The TOQ is full. */
static void make_room(struct lc_patience *patience)
{
    char text[LA_TEXT];

    if (lc_patience_ends(patience, 0))
        la_log("has waited %llu s for room in the queue of uTofu (TOQ): %s",
               lc_patience_seconds(patience), la_net_text(text));
    poll_tcq();
}

/* Calls until there is room: a call that finds some costs nothing more. */
#define CALL_WITH_ROOM(rc, call)                                                                   \
    do {                                                                                           \
        if (__builtin_expect(((rc) = (call)) == UTOFU_ERR_BUSY, 0)) {                              \
            struct lc_patience patience = {0};                                                     \
            do                                                                                     \
                make_room(&patience);                                                              \
            while (((rc) = (call)) == UTOFU_ERR_BUSY);                                             \
        }                                                                                          \
    } while (0)

static void check_start(struct la_op *op, int rc)
{
    if (rc != UTOFU_SUCCESS)
        end_op(op, rc, 0);
}

void la_op_put(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags)
{
    int rc;

    CALL_WITH_ROOM(rc, utofu_put(la.net.vcq, id, lcl, rmt, size, op->index,
                                 UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, op));
    check_start(op, rc);
}

void la_op_put8(struct la_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt)
{
    int rc;

    CALL_WITH_ROOM(rc, utofu_put_piggyback8(la.net.vcq, id, value, rmt, 8, op->index,
                                            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                                                UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                                            op));
    check_start(op, rc);
}

void la_put8_notice(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt)
{
    int rc;

    CALL_WITH_ROOM(rc, utofu_put_piggyback8(la.net.vcq, id, value, rmt, 8, LA_NO_OP,
                                            UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
    (void)rc; /* a peer that is gone */
}

void *la_line_take(void)
{
    while (la.net.lines_begun - la.net.lines_left == LA_LINES)
        if (!poll_tcq())
            return NULL;
    return la.net.lines[la.net.lines_begun % LA_LINES];
}

void la_line_put(utofu_vcq_id_t id, utofu_stadd_t rmt)
{
    const uint64_t n = la.net.lines_begun % LA_LINES;
    unsigned long int flags =
        UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    uint64_t *mark = NULL;
    int rc;

    la.net.lines_begun++;
    if (la.net.lines_begun % LA_MARK_PERIOD == 0) {
        mark = &la.net.marks[n / LA_MARK_PERIOD];
        *mark = la.net.lines_begun;
        flags |= UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
    }
    CALL_WITH_ROOM(rc,
                   utofu_put(la.net.vcq, id, la.net.bounce_stadd + LA_OPS * LA_SLOT + n * LA_LINE,
                             rmt, LA_LINE, LA_NO_OP, flags, mark));
    (void)rc; /* the same */
}

void la_op_get(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size)
{
    int rc;

    CALL_WITH_ROOM(rc, utofu_get(la.net.vcq, id, lcl, rmt, size, op->index,
                                 UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
    check_start(op, rc);
}

/*
 * Communications that are waited for.
 */

struct result {
    bool done;
    int rc;
    uint64_t old_value;
    void *to;
    size_t size;
};

static void got_result(struct la_op *op, int rc, uint64_t old_value)
{
    struct result *result = op->arg;

    result->done = true;
    result->rc = rc;
    result->old_value = old_value;
    if (rc == UTOFU_SUCCESS && result->to != NULL)
        memcpy(result->to, la_op_bounce(op), result->size);
}

static struct la_op *take_now(uint32_t rank, struct result *result)
{
    struct lc_patience patience = {0};
    char text[LA_TEXT];
    struct la_op *op;

    while ((op = la_op_take(0, rank, got_result, result)) == NULL) {
        if (lc_patience_ends(&patience, 0))
            la_log("has waited %llu s to ask something of task %u: %s",
                   lc_patience_seconds(&patience), rank, la_net_text(text));
        la_net_poll();
    }
    return op;
}

static void wait_for(const struct result *result, uint32_t rank)
{
    struct lc_patience patience = {0};

    while (!result->done) {
        if (lc_patience_ends(&patience, 0))
            la_log("has waited %llu s for a word, or an atomic operation, of task %u",
                   lc_patience_seconds(&patience), rank);
        la_net_poll();
    }
}

int la_get_now(uint32_t rank, utofu_vcq_id_t id, void *to, utofu_stadd_t rmt, size_t size)
{
    struct result result = {.to = to, .size = size};
    struct la_op *op = take_now(rank, &result);

    la_op_get(op, id, la_op_bounce_stadd(op), rmt, size);
    wait_for(&result, rank);
    return result.rc;
}

int la_get_to(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t size)
{
    struct result result = {0};

    la_op_get(take_now(rank, &result), id, lcl, rmt, size);
    wait_for(&result, rank);
    return result.rc;
}

static int atomic_now(enum utofu_armw_op what, uint64_t value, uint32_t rank, utofu_vcq_id_t id,
                      utofu_stadd_t rmt, uint64_t *old_value)
{
    struct result result = {0};
    struct la_op *op = take_now(rank, &result);
    int rc;

    CALL_WITH_ROOM(rc, utofu_armw8(la.net.vcq, id, what, value, rmt, op->index,
                                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
    check_start(op, rc);
    wait_for(&result, rank);
    *old_value = result.old_value;
    return result.rc;
}

int la_add_now(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value)
{
    return atomic_now(UTOFU_ARMW_OP_ADD, 1, rank, id, rmt, old_value);
}

int la_set_now(utofu_stadd_t own, uint64_t value)
{
    uint64_t old_value;

    return atomic_now(UTOFU_ARMW_OP_SWAP, value, la.job.rank, la.net.vcq_id, own, &old_value);
}

/* Not of a get or an atomic that another process has started. */
static bool is_own(const struct utofu_mrq_notice *notice)
{
    _Static_assert(UTOFU_MRQ_TYPE_LCL_PUT % 2 == 0 && UTOFU_MRQ_TYPE_RMT_GET % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_GET % 2 == 0 && UTOFU_MRQ_TYPE_RMT_ARMW % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_ARMW % 2 == 0,
                   "the remote ones are odd");
    return (notice->notice_type & 1) == 0;
}

static bool poll_mrq(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(la.net.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    if (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT)
        la.events->arrived(notice.rmt_stadd);
    else if (is_own(&notice) && notice.edata < LA_OPS)
        end_op(&la.net.ops[notice.edata], rc, notice.rmt_value);
    return true;
}

bool la_net_poll(void)
{
    bool any = poll_mrq();

    if (++la.net.polls % TCQ_PERIOD == 0)
        while (poll_tcq())
            any = true;
    return any;
}
