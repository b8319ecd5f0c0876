/* SPDX-License-Identifier: Apache-2.0 */
/* Handles the completions of puts in parts, and posts their notices. */
#include "engine/rails.h"

#include <errno.h>

#include "link/rails.h"

/*
 * The notices, in the order of the puts
 */

static bool post_notice(struct ut_link *link, struct ut_slot *slot)
{
    int rc = ut_post_parted_notice(link, slot);

    if (rc == -EAGAIN || rc == -ENOTCONN) {
        if (rc == -EAGAIN)
            ut_link_schedule(link);
        return false;
    }
    if (rc < 0) {
        ut_slot_set_failed(link, slot, UTOFU_ERR_MRQ_OTHER);
        ut_parts_finish(link, slot);
        return true;
    }
    slot->stage = UT_STAGE_NOTICE;
    if (!(rc & PROV_COMPLETE))
        slot->pending++;
    if (slot->pending == 0)
        ut_parts_finish(link, slot);
    return true;
}

/* Posts the notices that are due. Returns true if there were any. */
static bool post_notices(struct ut_link *link)
{
    const struct ut_vcq *vcq = link->vcq;
    bool any = false;

    for (uint32_t n = link->first, next; n != UT_NO_SLOT; n = next) {
        struct ut_slot *slot = &vcq->toq[n];
        next = slot->next; /* ut_parts_finish() may end the slot */
        if (slot->state == UT_SLOT_WAITING)
            break; /* posted by ut_engine_post_queued() */
        if (!(slot->parted & UT_SPLIT_OUTSTANDING) || slot->stage == UT_STAGE_NOTICE)
            continue;
        if (slot->stage != UT_STAGE_EXECUTED || !post_notice(link, slot))
            break;
        any = true;
    }
    return any;
}

void ut_rails_continue(struct ut_link *link)
{
    do
        ut_engine_post_queued(link);
    while (link->state == UT_LINK_UP && ut_rails_outstanding(link) > 0 && post_notices(link));
}

/*
 * Completions
 */

static void note_failure(struct ut_link *link, struct ut_slot *slot, enum prov_status status,
                         bool by_rail)
{
    bool refused =
        status == PROV_RMT_ACCESS || status == PROV_RMT_FAULT || status == PROV_LCL_ACCESS;

    if (!by_rail && status != PROV_PEER && status != PROV_FLUSHED &&
        ut_engine_handle_error(link, slot, status))
        return;
    if (by_rail && refused) { /* the repeated put reads the STag entry again */
        ut_link_invalidate_stag(link, slot->desc.rmt_stadd);
        ut_rails_invalidate_keys(link, slot->desc.rmt_stadd);
    }
    slot->parted |= refused ? UT_SPLIT_PART_NOT_EXECUTED : UT_SPLIT_PART_UNKNOWN;
}

void ut_rails_done(struct ut_link *link, uint32_t number, enum prov_status status, bool by_rail)
{
    struct ut_slot *slot = &link->vcq->toq[number];

    UT_ASSERT(number <= link->vcq->toq_mask && slot->link == link);
    UT_ASSERT(slot->parted & UT_SPLIT_OUTSTANDING && slot->pending > 0);
    slot->pending--;
    slot->by_rail = (uint8_t)(slot->by_rail - by_rail);
    if (status != PROV_OK)
        note_failure(link, slot, status, by_rail);
    if (slot->pending > 0)
        return;
    if (slot->stage == UT_STAGE_NOTICE) {
        if (status != PROV_OK && !slot->mrq_rc && !slot->tcq_rc)
            return; /* ut_link_on_down() follows */
        ut_parts_finish(link, slot);
    } else {
        ut_parts_end(link, slot);
    }
    ut_rails_continue(link);
}

/*
 * Callbacks of the endpoints of rails
 */

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    const struct ut_rail *rail = ctx;

    UT_ASSERT((cookie & 7) == UT_COOKIE_PART);
    ut_rails_done(rail->link, (uint32_t)(cookie >> 3), status, true);
}

static void on_unsignalled_done(void *ctx, uint64_t cookie)
{
    (void)ctx, (void)cookie; /* no such request is posted */
}

/* Ignores messages: a peer that follows the protocol sends only data on a rail. */
static void on_message(void *ctx, const void *data, size_t size)
{
    (void)ctx, (void)data, (void)size;
}

static void on_notify(void *ctx, uint32_t imm)
{
    (void)ctx, (void)imm;
}

static void on_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t size)
{
    ut_rails_on_request(owner, prov, conn, peer_id, hello, size);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)hello, (void)size;
    ut_rails_on_up(ctx);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    (void)reason; /* the link's own connection decides whether the peer is lost */
    ut_rails_on_down(ctx);
}

const struct prov_callbacks ut_rails_callbacks = {
    .done = on_done,
    .unsignalled_done = on_unsignalled_done,
    .message = on_message,
    .notify = on_notify,
    .request = on_request,
    .up = on_up,
    .down = on_down,
};
