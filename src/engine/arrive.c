/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from peers: messages and notices; and connections that break. */
#include <stdlib.h>

#include "armw/armw.h"
#include "engine/inner.h"
#include "util/log.h"
#include "watch/watch.h"

static int rmt_mrq_error(enum ut_stag_result r)
{
    return r == UT_STAG_BAD_STADD    ? UTOFU_ERR_MRQ_RMT_STADD
           : r == UT_STAG_BAD_LENGTH ? UTOFU_ERR_MRQ_RMT_LENGTH
                                     : UTOFU_ERR_MRQ_RMT_MEMORY;
}

/*
 * Arrivals
 */

static void on_notify(void *ctx, uint32_t imm)
{
    struct ut_link *link = ctx;
    unsigned int slot = imm >> UT_IMM_SLOT_SHIFT, sps = imm >> 8 & 0xf;

    link->rx_number++;
    if (imm & UT_IMM_NOTICE) {
        if (!link->rx_announced || slot >= UT_NUM_ANNOUNCED) {
            ut_error("engine", "VCQ %016llx sent a notice for a STADD that it never announced",
                     (unsigned long long)link->peer);
            return;
        }
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_PUT, (uint8_t)imm, 0,
                                link->rx_announced[slot]);
    }
    if (sps)
        ut_engine_schedule(link->vcq, sps);
}

static void take_notice(struct ut_link *link, const struct ut_msg_notice *m)
{
    if (m->head.type == UT_MSG_ARMW_NOTICE) {
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_ARMW, m->head.edata, 0, m->rmt_stadd);
        return;
    }
    if (m->head.flags & UT_MSG_FLAG_GET) {
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_GET, m->head.edata, m->lcl_stadd,
                                m->rmt_stadd);
        return;
    }
    if (!link->rx_announced)
        link->rx_announced = calloc(UT_NUM_ANNOUNCED, sizeof(*link->rx_announced));
    if (link->rx_announced && m->head.slot < UT_NUM_ANNOUNCED)
        link->rx_announced[m->head.slot] = m->rmt_stadd;
    if (m->head.flags & UT_MSG_FLAG_WANTS_NOTICE)
        ut_engine_remote_notice(link, UTOFU_MRQ_TYPE_RMT_PUT, m->head.edata, 0, m->rmt_stadd);
    if (m->head.sps)
        ut_engine_schedule(link->vcq, m->head.sps);
}

/* An ARMW for this process: executed here and now, and answered. */
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
    if (ut_link_send(link, &reply, sizeof(reply), false) != 0)
        ut_error("engine", "no memory to answer an ARMW of VCQ %016llx",
                 (unsigned long long)link->peer);
}

static void take_armw_reply(struct ut_link *answering, const struct ut_msg_armw_reply *m)
{
    struct ut_vcq *vcq = answering->vcq;

    if (m->head.slot > vcq->toq_mask)
        return;
    struct ut_slot *slot = &vcq->toq[m->head.slot];
    if (slot->state != UT_SLOT_POSTED || slot->desc.kind != UT_DESC_ARMW || slot->stage != 1 ||
        slot->link->peer != answering->peer)
        return;
    slot->rmt_value = m->old_value;
    slot->mrq_rc = (int16_t)m->rc;
    slot->stage = 2;
    struct ut_link *link = slot->link;
    if (slot->pending == 0)
        ut_engine_finish(link, slot);
    if (link->armw_out == 0)
        ut_engine_pump(link); /* STRONG_ORDER may wait for it */
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
        take_notice(link, data);
    } else if (size >= sizeof(struct ut_msg_armw) && head->type == UT_MSG_ARMW &&
               is_armw_size(((const struct ut_msg_armw *)data)->size)) {
        serve_armw(link, data);
    } else if (size >= sizeof(struct ut_msg_armw_reply) && head->type == UT_MSG_ARMW_REPLY) {
        take_armw_reply(link, data);
    } else if (size >= sizeof(struct ut_msg_packet) && head->type == UT_MSG_PACKET) {
        ut_gate_on_packet(link, data, size);
    } else if (size >= sizeof(struct ut_msg_gate) && head->type == UT_MSG_GATE) {
        ut_gate_on_message(link, data, size);
    } else {
        ut_error("engine", "VCQ %016llx sent %zu bytes that are no message",
                 (unsigned long long)link->peer, size);
    }
}

static void on_request_shm(void *owner, struct prov_conn *conn, uint64_t peer_id, const void *hello,
                           size_t size)
{
    ut_link_on_request(owner, conn, peer_id, hello, size, UT_PROV_SHM);
}

static void on_request_verbs(void *owner, struct prov_conn *conn, uint64_t peer_id,
                             const void *hello, size_t size)
{
    ut_link_on_request(owner, conn, peer_id, hello, size, UT_PROV_VERBS);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    ut_link_on_up(ctx, hello, size);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    ut_link_on_down(ctx, reason);
}

const struct prov_callbacks ut_engine_callbacks[UT_NUM_PROVIDERS] = {
    [UT_PROV_SHM] = {ut_engine_done, ut_engine_streak, on_message, on_notify, on_request_shm, on_up,
                     on_down},
    [UT_PROV_VERBS] = {ut_engine_done, ut_engine_streak, on_message, on_notify, on_request_verbs,
                       on_up, on_down},
};

/*
 * Broken connections
 */

void ut_engine_rewind(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t resume = UT_NO_SLOT;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        if (slot->state == UT_SLOT_DONE)
            continue;
        slot->pending = 0;
        slot->fresh = slot->streak = false;
        if (slot->mrq_rc || slot->tcq_rc) {
            slot->state = UT_SLOT_DONE;
            continue;
        }
        if (vcq->watch && slot->state == UT_SLOT_POSTED)
            ut_watch_retry(link);
        /* stage > 0 tells ut_engine_delivered() that the peer may have it */
        slot->state = UT_SLOT_WAITING;
        if (resume == UT_NO_SLOT)
            resume = n;
    }
    link->to_post = resume;
    link->armw_out = link->reads_out = 0;
    link->nudged = false;
    ut_engine_retire(link);
}

void ut_engine_delivered(struct ut_link *link, uint64_t count)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t last_delivered = UT_NO_SLOT;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        if (vcq->toq[n].msg_number && vcq->toq[n].msg_number <= count)
            last_delivered = n;
    }
    bool before = last_delivered != UT_NO_SLOT;
    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        bool has_message = slot->msg_number != 0;
        if (slot->state != UT_SLOT_WAITING) {
            /* complete already */
        } else if (before && slot->desc.kind == UT_DESC_ARMW && has_message && !vcq->armw_words &&
                   !slot->applied) {
            slot->state = UT_SLOT_POSTED; /* the answer comes */
            slot->stage = 1;
            link->armw_out++;
        } else if (before && has_message && slot->desc.kind == UT_DESC_ARMW) {
            slot->state = UT_SLOT_DONE; /* executed by the origin, with its notice delivered */
        } else if (before &&
                   (slot->desc.kind == UT_DESC_PUT || has_message ||
                    slot->desc.kind == UT_DESC_PIGGYBACK) &&
                   slot->desc.kind != UT_DESC_ARMW) {
            slot->state = UT_SLOT_DONE; /* a later message has arrived, so this has */
        } else {
            slot->stage = 0;
        }
        slot->msg_number = 0;
        if (n == last_delivered)
            before = false;
    }
    ut_engine_retire(link);
    link->to_post = link->first;
}

void ut_engine_fail_all(struct ut_link *link, int rc)
{
    struct ut_vcq *vcq = link->vcq;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        if (slot->state == UT_SLOT_DONE)
            continue;
        slot->mrq_rc = (int16_t)rc;
        slot->pending = 0;
        slot->state = UT_SLOT_DONE;
    }
    link->to_post = UT_NO_SLOT;
    link->armw_out = link->reads_out = 0;
    ut_engine_retire(link);
}
