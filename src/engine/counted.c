/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of a counted VCQ: they report to stats before and after the usual callbacks. */
#include "engine/engine.h"
#include "stats/stats.h"

static void on_notify(void *ctx, uint32_t imm)
{
    struct ut_link *link = ctx;
    struct ut_stats_arrival a = {.link = link,
                                 .type = UTOFU_MRQ_TYPE_RMT_PUT,
                                 .edata = (uint8_t)imm,
                                 .sps = imm >> 8 & 0xf,
                                 .flow = true};

    ut_stats_arrival_begins(&a);
    ut_engine_callbacks.notify(ctx, imm);
    ut_stats_arrival_ends(&a);
}

static void on_message(void *ctx, const void *data, size_t size)
{
    struct ut_link *link = ctx;
    const struct ut_msg_head *head = data;
    struct ut_stats_arrival a = {.link = link, .edata = head->edata};

    switch (head->type) {
    case UT_MSG_NOTICE:
        a.type = head->flags & UT_MSG_FLAG_GET ? UTOFU_MRQ_TYPE_RMT_GET : UTOFU_MRQ_TYPE_RMT_PUT;
        a.sps = head->flags & UT_MSG_FLAG_GET ? 0 : head->sps;
        a.flow = true;
        break;
    case UT_MSG_ARMW:
    case UT_MSG_ARMW_NOTICE:
        a.type = UTOFU_MRQ_TYPE_RMT_ARMW;
        a.flow = true;
        break;
    case UT_MSG_ARMW_REPLY:
        a.type = UTOFU_MRQ_TYPE_LCL_ARMW;
        break;
    default: /* barrier reports these messages itself */
        ut_engine_callbacks.message(ctx, data, size);
        return;
    }
    ut_stats_arrival_begins(&a);
    ut_engine_callbacks.message(ctx, data, size);
    ut_stats_arrival_ends(&a);
}

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct ut_link *link = ctx;

    ut_stats_completion(link);
    ut_engine_callbacks.done(ctx, cookie, status);
    ut_stats_check_blocked(link);
}

static void on_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t size)
{
    ut_engine_callbacks.request(owner, prov, conn, peer_id, hello, size);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    struct ut_link *link = ctx;

    ut_engine_callbacks.up(ctx, hello, size);
    ut_stats_up(link);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct ut_link *link = ctx;

    if (reason == PROV_REASON_SUSPENDED)
        ut_stats_conn_evicted(link);
    ut_engine_callbacks.down(ctx, reason);
    ut_stats_check_blocked(link);
}

static void on_srq_low(void *owner)
{
    ut_stats_srq_low(owner);
}

const struct prov_callbacks ut_engine_counted_callbacks = {
    .done = on_done,
    .unsignalled_done = NULL, /* a counted VCQ posts no unsignalled requests */
    .message = on_message,
    .notify = on_notify,
    .request = on_request,
    .up = on_up,
    .down = on_down,
    .srq_low = on_srq_low,
};
