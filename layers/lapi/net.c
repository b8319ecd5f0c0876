/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of the layer. Remote notices announce records and replies (struct la_upcalls).
 */
#include "net.h"

#include <stdlib.h>
#include <string.h>

enum { TCQ_PERIOD = 32 /* polls of the MRQ for each poll of the TCQ */ };

static void report_unreachable(uint32_t rank)
{
    if (rank != la.job.rank)
        la.upcalls->peer_unreachable(rank, lc_utofu_error());
}

/* Ignores notices of gets and atomics: their targets need no action. */
static void handle_notice(int rc, const struct utofu_mrq_notice *notice)
{
    if (rc == UTOFU_SUCCESS && notice->notice_type == UTOFU_MRQ_TYPE_RMT_PUT)
        la.upcalls->put_arrived(notice->rmt_stadd);
}

/* Frees the buffers of inline records up to this mark: the TCQ notice says that they were sent. */
static void free_inline_buffers(void *mark)
{
    la.net.inline_sent = *(const uint64_t *)mark;
}

static const struct lc_port_config port_config = {
    .job = &la.job,
    .cmp_id = LA_CMP_ID_MESSAGES,
    .num_ops = LA_NUM_OPS,
    .bounce_size = LA_SLOT_SIZE,
    .extra_bytes = LA_NUM_INLINE_BUFFERS * LA_CACHE_LINE,
    .wait_for_room = true,
    .peer_lost = report_unreachable,
    .handle_notice = handle_notice,
    .handle_tcq_notice = free_inline_buffers,
};

bool la_net_setup(void)
{
    utofu_tni_id_t *tnis;
    size_t n;
    bool opened;

    if (utofu_get_onesided_tnis(&tnis, &n) != UTOFU_SUCCESS || n == 0) {
        la_log("LAPI_Init: uTofu has no TNI here: see utofu-info --check");
        return false;
    }
    opened = lc_port_open(&la.net.port, &port_config, tnis[0]);
    free(tnis);
    la.net.inline_buffers =
        (uint8_t(*)[LA_CACHE_LINE])(la.net.port.bounce + LA_NUM_OPS * LA_SLOT_SIZE);
    la.net.inline_posted = la.net.inline_sent = 0;
    return opened;
}

void la_net_close(void)
{
    lc_port_close(&la.net.port);
}

/* Repeats the put until the TOQ has room. The common case costs one comparison. */
#define REPEAT_WHILE_BUSY(rc, call)                                                                \
    do {                                                                                           \
        if (__builtin_expect(((rc) = (call)) == UTOFU_ERR_BUSY, 0)) {                              \
            struct lc_stall_timer stall = {0};                                                     \
            do                                                                                     \
                lc_port_poll_for_room(&la.net.port, &stall);                                       \
            while (((rc) = (call)) == UTOFU_ERR_BUSY);                                             \
        }                                                                                          \
    } while (0)

void la_put_word_notify(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt)
{
    int rc;

    REPEAT_WHILE_BUSY(rc, utofu_put_piggyback8(la.net.port.vcq, id, value, rmt, 8, LA_EDATA_NO_OP,
                                               UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
    (void)rc; /* a failed peer is detected elsewhere */
}

void *la_inline_alloc(void)
{
    while (la.net.inline_posted - la.net.inline_sent == LA_NUM_INLINE_BUFFERS)
        if (!lc_port_poll_tcq(&la.net.port))
            return NULL;
    return la.net.inline_buffers[la.net.inline_posted % LA_NUM_INLINE_BUFFERS];
}

void la_inline_put(utofu_vcq_id_t id, utofu_stadd_t rmt)
{
    const uint64_t n = la.net.inline_posted % LA_NUM_INLINE_BUFFERS;
    unsigned long int flags =
        UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    uint64_t *mark = NULL;
    int rc;

    la.net.inline_posted++;
    if (la.net.inline_posted % LA_INLINE_TCQ_PERIOD == 0) {
        mark = &la.net.tcq_marks[n / LA_INLINE_TCQ_PERIOD];
        *mark = la.net.inline_posted;
        flags |= UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
    }
    REPEAT_WHILE_BUSY(
        rc, utofu_put(la.net.port.vcq, id,
                      la.net.port.bounce_stadd + LA_NUM_OPS * LA_SLOT_SIZE + n * LA_CACHE_LINE, rmt,
                      LA_CACHE_LINE, LA_EDATA_NO_OP, flags, mark));
    (void)rc; /* a failed peer is detected elsewhere */
}

/*
 * Synchronous communications
 */

struct sync_result {
    bool done;
    int rc;
    uint64_t old_value;
    void *dst; /* copy of the bounce buffer of a get, or NULL */
    size_t size;
    const char *what; /* for messages, e.g. "a chunk of its message" */
};

static void sync_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct sync_result *result = op->arg;

    result->done = true;
    result->rc = rc;
    result->old_value = old_value;
    if (rc == UTOFU_SUCCESS && result->dst != NULL)
        memcpy(result->dst, lc_op_bounce(op), result->size);
}

/* Polls until an op is free. */
static struct lc_op *wait_for_free_op(uint32_t rank, struct sync_result *result)
{
    struct lc_stall_timer stall = {0};
    char text[LC_TEXT_SIZE];
    struct lc_op *op;

    while ((op = la_op_alloc(0, rank, sync_done, result)) == NULL) {
        if (lc_stall_should_log(&stall, 0))
            la_log("has waited %llu s to ask task %u for %s: %s", lc_stall_seconds(&stall), rank,
                   result->what, lc_port_describe(&la.net.port, text));
        la_net_poll();
    }
    return op;
}

static void wait_for_result(const struct sync_result *result, uint32_t rank)
{
    struct lc_stall_timer stall = {0};

    while (!result->done) {
        if (lc_stall_should_log(&stall, 0))
            la_log("has waited %llu s for the reply of task %u to a request for %s",
                   lc_stall_seconds(&stall), rank, result->what);
        la_net_poll();
    }
}

int la_get_sync(uint32_t rank, utofu_vcq_id_t id, void *dst, utofu_stadd_t rmt, size_t size,
                const char *what)
{
    struct sync_result result = {.dst = dst, .size = size, .what = what};
    struct lc_op *op = wait_for_free_op(rank, &result);

    lc_op_get(op, id, lc_op_bounce_stadd(op), rmt, size);
    wait_for_result(&result, rank);
    return result.rc;
}

int la_get_sync_registered(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
                           size_t size, const char *what)
{
    struct sync_result result = {.what = what};

    lc_op_get(wait_for_free_op(rank, &result), id, lcl, rmt, size);
    wait_for_result(&result, rank);
    return result.rc;
}

static int atomic_sync(enum utofu_armw_op op_code, uint64_t value, uint32_t rank, utofu_vcq_id_t id,
                       utofu_stadd_t rmt, uint64_t *old_value, const char *what)
{
    struct sync_result result = {.what = what};
    struct lc_op *op = wait_for_free_op(rank, &result);

    lc_op_armw(op, id, op_code, value, rmt);
    wait_for_result(&result, rank);
    *old_value = result.old_value;
    return result.rc;
}

int la_fetch_add_sync(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value,
                      const char *what)
{
    return atomic_sync(UTOFU_ARMW_OP_ADD, 1, rank, id, rmt, old_value, what);
}

int la_set_word_sync(utofu_stadd_t own, uint64_t value)
{
    uint64_t old_value;

    return atomic_sync(UTOFU_ARMW_OP_SWAP, value, la.job.rank, la.net.port.id, own, &old_value,
                       "a word of its own");
}

bool la_net_poll(void)
{
    return lc_port_poll(&la.net.port, TCQ_PERIOD);
}
