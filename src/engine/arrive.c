/* SPDX-License-Identifier: Apache-2.0 */
/* Handles messages and immediates of peers, and broken connections. */
#include "armw/armw.h"
#include "engine/rails.h"
#include "link/rails.h"
#include "engine/failure.h"
#include "util/env.h"
#include "util/log.h"
#include "util/probe.h"
#include "stats/stats.h"

static int rmt_mrq_error(enum ut_stag_result r)
{
    return r == UT_STAG_BAD_STADD    ? UTOFU_ERR_MRQ_RMT_STADD
           : r == UT_STAG_BAD_LENGTH ? UTOFU_ERR_MRQ_RMT_LENGTH
                                     : UTOFU_ERR_MRQ_RMT_MEMORY;
}

/*
 * Arrivals
 */

static void __attribute__((noinline, cold)) reject_notice(const struct ut_link *link)
{
    /* else the peer may have announced the STADD */
    if (!ut_announced_is_disabled(&link->rx_announced))
        ut_error("engine", "VCQ %016llx sent a notice with a STADD number that it never announced",
                 (unsigned long long)link->peer);
}

static void on_notify(void *ctx, uint32_t imm)
{
    struct ut_link *link = ctx;
    unsigned int slot = imm >> UT_IMM_SLOT_SHIFT, sps = imm >> 8 & 0xf;

    link->rx_number++;
    if (imm & UT_IMM_NOTICE) {
        if (__builtin_expect(!ut_announced_is_valid(&link->rx_announced, slot), 0)) {
            reject_notice(link);
            return;
        }
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_PUT, (uint8_t)imm, 0,
                                link->rx_announced.stadds[slot]);
    }
    if (sps)
        ut_engine_schedule(link->vcq, sps);
}

static void handle_notice(struct ut_link *link, const struct ut_msg_notice *m)
{
    if (__builtin_expect(ut_announced_is_disabled(&link->rx_announced), 0))
        return; /* an earlier announcement may be invalid; the link is about to end */
    if (m->head.type == UT_MSG_ARMW_NOTICE) {
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_ARMW, m->head.edata, 0, m->rmt_stadd);
        return;
    }
    if (m->head.flags & UT_MSG_FLAG_GET) {
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_GET, m->head.edata, m->lcl_stadd,
                                m->rmt_stadd);
        return;
    }
    if (m->head.slot < UT_NUM_ANNOUNCED)
        ut_link_store_announced(link, m->head.slot, m->rmt_stadd);
    if (m->head.flags & UT_MSG_FLAG_WANTS_NOTICE)
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_PUT, m->head.edata, 0, m->rmt_stadd);
    if (m->head.sps)
        ut_engine_schedule(link->vcq, m->head.sps);
}

/* Executes an ARMW of a peer, and sends the reply. */
static void serve_armw(struct ut_link *link, const struct ut_msg_armw *m)
{
    struct ut_vcq *vcq = link->vcq;
    struct ut_msg_armw_reply reply = {.head = {.type = UT_MSG_ARMW_REPLY, .slot = m->head.slot}};
    struct ut_stag_local *local;
    uint8_t *addr;
    enum ut_stag_result r = ut_stag_resolve(vcq->stags, m->rmt_stadd, m->size, true, &local, &addr);

    if (r != UT_STAG_OK) {
        reply.rc = rmt_mrq_error(r);
    } else if ((uintptr_t)addr % m->size) {
        reply.rc = UTOFU_ERR_MRQ_RMT_STADD;
    } else {
        reply.old_value = ut_armw_apply(addr, m->size, m->op, m->operand, m->compare);
        if (m->head.flags & UT_MSG_FLAG_WANTS_NOTICE)
            ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_ARMW, m->head.edata, 0, m->rmt_stadd);
    }
    ut_link_send(link, &reply, sizeof(reply), false);
}

static void handle_armw_reply(struct ut_link *responder, const struct ut_msg_armw_reply *m)
{
    struct ut_vcq *vcq = responder->vcq;

    uint32_t number = m->head.slot & vcq->toq_mask;
    struct ut_slot *slot = &vcq->toq[number];
    if (slot->state != UT_SLOT_POSTED || slot->desc.kind != UT_DESC_ARMW ||
        slot->stage != UT_STAGE_DATA || slot->link->peer != responder->peer ||
        m->head.slot != ut_armw_request_id(slot->link, number))
        return;
    slot->rmt_value = m->old_value;
    if (m->rc != 0)
        ut_slot_set_failed(slot->link, slot, m->rc);
    slot->stage = UT_STAGE_EXECUTED;
    struct ut_link *link = slot->link;
    if (slot->pending == 0)
        ut_engine_finish(link, slot);
    if (link->unordered_out == 0)
        ut_engine_post_queued(link); /* a STRONG_ORDER communication may wait for this ARMW */
}

static bool is_armw_size(uint32_t size)
{
    return size == 4 || size == 8;
}

static void on_message(void *ctx, const void *data, size_t size)
{
    struct ut_link *link = ctx;
    const struct ut_msg_head *head = data;

    link->rx_number++;
    if (size >= sizeof(struct ut_msg_notice) &&
        (head->type == UT_MSG_NOTICE || head->type == UT_MSG_ARMW_NOTICE)) {
        handle_notice(link, data);
    } else if (size >= sizeof(struct ut_msg_armw) && head->type == UT_MSG_ARMW &&
               is_armw_size(((const struct ut_msg_armw *)data)->size)) {
        serve_armw(link, data);
    } else if (size >= sizeof(struct ut_msg_armw_reply) && head->type == UT_MSG_ARMW_REPLY) {
        handle_armw_reply(link, data);
    } else if (size >= sizeof(*head) && head->type == UT_MSG_RAILS) {
        ut_rails_on_message(link, head);
    } else if (size >= sizeof(struct ut_msg_rail_keys) && head->type == UT_MSG_RAIL_KEYS) {
        ut_rails_on_keys(link, data);
    } else if (size >= sizeof(struct ut_msg_packet) && head->type == UT_MSG_PACKET &&
               link->vcq->handlers) {
        link->vcq->handlers->packet(link, data, size);
    } else if (size >= sizeof(struct ut_msg_gate) && head->type == UT_MSG_GATE &&
               link->vcq->handlers) {
        link->vcq->handlers->message(link, data, size);
    } else {
        ut_error("engine",
                 "dropped an unknown message of %zu bytes from VCQ %016llx (does its process run "
                 "another version?)",
                 size, (unsigned long long)link->peer);
    }
}

static void on_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t size)
{
    ut_link_on_request(owner, prov, conn, peer_id, hello, size);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    ut_link_on_up(ctx, hello, size);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    ut_link_on_down(ctx, reason);
}

const struct prov_callbacks ut_engine_callbacks = {
    .done = ut_engine_done,
    .unsignalled_done = ut_engine_unsignalled_done,
    .message = on_message,
    .notify = on_notify,
    .request = on_request,
    .up = on_up,
    .down = on_down,
};

/*
 * Broken connections
 */

static void rewind_link(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t resume = UT_NO_SLOT;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        if (slot->state == UT_SLOT_DONE || (slot->parted && ut_parted_rewind(link, slot)))
            continue;
        slot->pending = 0;
        slot->stag_reread = false;
        slot->unsignalled = false;
        if (slot->mrq_rc || slot->tcq_rc) {
            slot->state = UT_SLOT_DONE;
            continue;
        }
        if (vcq->stats && slot->state == UT_SLOT_POSTED)
            ut_stats_retry(link);
        slot->state = UT_SLOT_WAITING;
        if (resume == UT_NO_SLOT)
            resume = n;
    }
    link->to_post = resume;
    link->unordered_out = ut_rails_outstanding(link) & 0xffffff;
    link->reads_out = 0;
    link->empty_write_posted = false;
    ut_engine_retire(link);
}

/*
 * Decides on the new connection which communications are repeated, of those that were in flight
 * when the old connection broke. `was_received`: the peer has received all requests of this
 * communication, since the last message that it received belongs to this communication or to a
 * later one. `has_message`: this communication had posted its own message or immediate.
 */

static void end_or_repeat(struct ut_slot *slot, bool executed)
{
    if (executed)
        slot->state = UT_SLOT_DONE;
    else
        slot->stage = UT_STAGE_NONE;
}

static void fail_unknown_result(struct ut_link *link, struct ut_slot *slot)
{
    ut_engine_fail_unrepeated(link, slot);
    slot->state = UT_SLOT_DONE;
}

/* A put with a remote notice may be repeated, because the peer counts notices. Without a notice the
 * target does not use the data yet. */
static void resume_put(struct ut_link *link, struct ut_slot *slot, bool was_received,
                       bool has_message)
{
    /* the message of a put in parts waits for all parts, a later message does not */
    was_received = was_received && (has_message || !slot->parted);
    if (!was_received && ut_engine_must_not_repeat_put(slot))
        fail_unknown_result(link, slot);
    else
        end_or_repeat(slot, was_received);
}

/* The link counts ARMWs that the target's CPU executes, not those of the device. */
static void resume_armw(struct ut_link *link, struct ut_slot *slot, bool was_received,
                        bool has_message)
{
    if (!was_received || !has_message) {
        if (link->vcq->armw_words && !slot->applied && ut_engine_must_not_repeat(slot))
            fail_unknown_result(link, slot);
        else
            slot->stage = UT_STAGE_NONE;
    } else if (link->vcq->armw_words || slot->applied) {
        /* the origin has executed the ARMW, and the peer has the notice */
        slot->state = UT_SLOT_DONE;
    } else {
        slot->state = UT_SLOT_POSTED; /* the target has received the ARMW, and will reply */
        slot->reply_owed = true;      /* even if this connection closes before the reply */
        slot->stage = UT_STAGE_DATA;
        link->unordered_out++;
    }
}

static void resume_slot(struct ut_link *link, struct ut_slot *slot, bool was_received)
{
    bool has_message = slot->msg_number != 0 || slot->reply_owed;

    UT_ASSERT(slot->pending == 0 && slot->link == link);
    switch (slot->desc.kind) {
    case UT_DESC_NOP:
        end_or_repeat(slot, was_received);
        break;
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
        resume_put(link, slot, was_received, has_message);
        break;
    case UT_DESC_GET: /* complete if its message was received: see reads_are_complete_before() */
        end_or_repeat(slot, was_received && has_message);
        break;
    case UT_DESC_ARMW:
        resume_armw(link, slot, was_received, has_message);
        break;
    }
}

/*
 * Returns the slot before which all reads are complete, although this process saw no completions:
 * the message after a get, and operations with STRONG_ORDER, wait for all earlier reads. A repeated
 * read would overwrite the data of a later get, or read the data of a later put.
 */
static uint32_t reads_are_complete_before(const struct ut_link *link, uint32_t last_delivered)
{
    const struct ut_slot *toq = link->vcq->toq;
    uint32_t before = UT_NO_SLOT;

    for (uint32_t n = link->first; last_delivered != UT_NO_SLOT; n = toq[n].next) {
        const struct ut_slot *slot = &toq[n];
        bool get = slot->desc.kind == UT_DESC_GET;
        bool known = slot->msg_number != 0 || (!get && slot->desc.kind != UT_DESC_ARMW);
        if (known && (get || (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER)))
            before = n;
        if (n == last_delivered)
            break;
    }
    return before;
}

static void end_reads_before(struct ut_link *link, uint32_t before)
{
    struct ut_slot *toq = link->vcq->toq;

    if (before == UT_NO_SLOT)
        return;
    for (uint32_t n = link->first; n != before; n = toq[n].next)
        if (toq[n].state == UT_SLOT_WAITING && toq[n].desc.kind == UT_DESC_GET)
            toq[n].state = UT_SLOT_DONE;
}

/* Ends ARMWs that a freed VCQ of the peer executed: the replies are lost. */
static void fail_armws_of_freed_vcq(struct ut_link *link)
{
    struct ut_slot *toq = link->vcq->toq;

    link->why = (struct ut_failure){.cause = UT_CAUSE_FREED};
    for (uint32_t n = link->first; n != UT_NO_SLOT; n = toq[n].next) {
        if (!toq[n].reply_owed)
            continue;
        ut_slot_set_failed(link, &toq[n], UTOFU_ERR_MRQ_PEER);
        toq[n].state = UT_SLOT_DONE;
    }
    link->unordered_out = ut_rails_outstanding(link) & 0xffffff;
    ut_parted_reset(link);
}

static void end_delivered(struct ut_link *link, uint64_t count, bool recreated)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t last_delivered = UT_NO_SLOT;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        if (vcq->toq[n].msg_number && vcq->toq[n].msg_number <= count)
            last_delivered = n;
    }
    end_reads_before(link, reads_are_complete_before(link, last_delivered));
    bool was_received = last_delivered != UT_NO_SLOT;
    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        if (slot->state == UT_SLOT_WAITING)
            resume_slot(link, slot, was_received || slot->reply_owed);
        slot->msg_number = 0;
        if (n == last_delivered)
            was_received = false;
    }
    if (recreated)
        fail_armws_of_freed_vcq(link);
    ut_engine_retire(link);
    link->to_post = link->first;
}

/*
 * struct ut_link_ops
 */

static void enter_connection(struct ut_link *link)
{
    if (link->vcq->stats)
        ut_stats_connected(link);
}

static void post_queued_of(struct ut_link *link)
{
    ut_rails_continue(link);
    if (link->vcq->stats)
        ut_stats_check_blocked(link);
}

static void fail_or_wait_for_peer(struct ut_link *link, int rc)
{
    const struct ut_vcq_handlers *handlers = link->vcq->handlers;

    UT_PROBE3(death, link->vcq->id, link->peer, rc);
    ut_engine_fail_all(link, rc);
    if (handlers)
        handlers->link_failed(link, ut_link_is_given_up(link));
}

const struct ut_link_ops ut_engine_link_ops = {
    .rail_callbacks = &ut_rails_callbacks,
    .connected = enter_connection,
    .post_waiting = post_queued_of,
    .fail_all = fail_or_wait_for_peer,
    .repost_all = rewind_link,
    .delivered = end_delivered,
    .describe_unread_error = ut_describe_unread_error,
};
