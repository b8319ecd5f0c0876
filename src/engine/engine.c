/* SPDX-License-Identifier: Apache-2.0 */
/* Starting descriptors, room for them, and progress. See engine.h for the order of reading. */
#include "engine/short.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "engine/posting.h"
#include "progress/progress.h"
#include "util/clock.h"
#include "util/idle.h"
#include "util/log.h"
#include "watch/watch.h"

enum { MAX_SHORTFALL = 2000, INLINE_EVERY = 64 };

/*
 * Starting
 */

static bool transfer_at_once(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_transfer t = {.rmt_vcq_id = d->rmt_vcq_id,
                            .lcl_stadd = d->lcl_stadd,
                            .rmt_stadd = d->rmt_stadd,
                            .length = ut_desc_length(d),
                            .word_flags = d->word & (uint32_t)UT_DESC_WORD_FLAGS,
                            .flags = d->flags,
                            .edata = d->edata,
                            .cbdata = slot->cbdata};

    struct ut_link *link = ut_link_if_any(vcq, d->rmt_vcq_id);
    if (d->kind == UT_DESC_PUT)
        return ut_transfer_at_once(vcq, link, UT_DESC_PUT, &t);
    return !ut_slot_wants_remote_notice(slot) && ut_transfer_at_once(vcq, link, UT_DESC_GET, &t);
}

static void start(struct ut_vcq *vcq, struct ut_slot *slot)
{
    if (slot->desc.kind == UT_DESC_NOP) {
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        return;
    }
    struct ut_link *link = ut_link_to(vcq, slot->desc.rmt_vcq_id);
    if (__builtin_expect(!link, 0)) {
        slot->tcq_rc = UTOFU_ERR_TCQ_OTHER;
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        ut_error("engine", "no memory for another peer");
        return;
    }
    if (ut_armw_at_once(vcq, link, slot))
        return;
    uint32_t number = ut_slot_number(vcq, slot);
    slot->state = UT_SLOT_WAITING;
    ut_link_append(link, slot, number, slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    if (__builtin_expect(link->to_post != UT_NO_SLOT, 0))
        return; /* others wait before it; they are pumped when they can move */
    link->to_post = number;
    if (__builtin_expect(link->state == UT_LINK_UP, 1))
        ut_engine_pump(link);
    else if (link->state == UT_LINK_DEAD)
        ut_engine_fail_all(link, UTOFU_ERR_MRQ_PEER);
    else
        ut_link_want(link);
}

static void flush(struct ut_vcq *vcq)
{
    vcq->unflushed = false;
    for (unsigned int i = 0; i < vcq->num_eps; i++)
        vcq->eps[i].ops->ep_flush(vcq->eps[i].ep);
}

static void start_watched(struct ut_vcq *vcq, struct ut_slot *slot)
{
    ut_watch_start(vcq, slot);
    start(vcq, slot);
    ut_watch_started(vcq, slot);
}

/* Starts descriptors up to the schedule pointer; in free mode that is the tail. */
static void start_due(struct ut_vcq *vcq)
{
    bool session = vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;

    if (vcq->toq_exec == vcq->toq_tail)
        return;
    bool batch = vcq->toq_tail - vcq->toq_exec > 1;
    vcq->unflushed = batch;
    while (vcq->toq_exec != vcq->toq_tail) {
        if (session) {
            if (vcq->started == vcq->scheduled)
                break;
            vcq->started++;
        }
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_exec++);
        if (__builtin_expect(vcq->watch != NULL, 0))
            start_watched(vcq, slot);
        else
            start(vcq, slot);
    }
    if (batch)
        flush(vcq);
}

static inline void enter_toq(struct ut_slot *slot)
{
    memset(slot->as_new, 0, sizeof(slot->as_new));
    slot->apart = slot->desc.kind == UT_DESC_ARMW;
    slot->state = UT_SLOT_SUBMITTED;
}

void ut_engine_start_tail(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_engine_slot(vcq, 0);

    enter_toq(slot);
    vcq->toq_exec = ++vcq->toq_tail;
    start(vcq, slot);
}

void ut_engine_refused(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
{
    if (slot->msg_number)
        link->tx_number--;
    if (rc == -EAGAIN)
        ut_engine_progress(vcq); /* there may be room then */
    ut_engine_start_tail(vcq);
}

void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay)
{
    if (n == 1 && !delay && ut_engine_starts_at_once(vcq)) {
        struct ut_slot *slot = ut_engine_slot(vcq, 0);
        bool transfer = slot->desc.kind == UT_DESC_PUT || slot->desc.kind == UT_DESC_GET;
        if (!transfer || !transfer_at_once(vcq, slot))
            ut_engine_start_tail(vcq);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        enter_toq(ut_engine_slot(vcq, i));
    if (vcq->watch)
        ut_watch_submit(vcq, n);
    vcq->toq_tail += n;
    if (!delay)
        start_due(vcq);
}

void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps)
{
    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        return;
    vcq->scheduled += sps;
    start_due(vcq);
    if (vcq->scheduled - vcq->started > MAX_SHORTFALL && !vcq->shortfall_told) {
        vcq->shortfall_told = true;
        ut_error("session",
                 "VCQ %016llx: puts have arrived for %llu descriptors more than were "
                 "posted; the limit is %d (manual 2.2.8.1). Post descriptors before "
                 "their puts arrive",
                 (unsigned long long)vcq->id, (unsigned long long)(vcq->scheduled - vcq->started),
                 (int)MAX_SHORTFALL);
    }
}

/*
 * Room in the TOQ, and the TCQ
 */

static void reclaim(struct ut_vcq *vcq)
{
    while (vcq->tcq_head != vcq->toq_exec) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (!slot->tcq_ready || !ut_slot_is_silent(slot))
            break;
        vcq->tcq_head++;
    }
    while (vcq->toq_head != vcq->tcq_head) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_head);
        if (slot->state != UT_SLOT_RETIRED)
            break;
        slot->state = UT_SLOT_FREE;
        vcq->toq_head++;
    }
}

/* Descriptors without notices, and messages, complete with a later one of their link; where there
 * is none, an empty write that reports makes them. */
static void nudge(struct ut_link *link)
{
    struct prov_xfer x = {.flags = PROV_SIGNAL, .cookie = ut_cookie(UT_COOKIE_NONE, 0)};

    if (link->state != UT_LINK_UP || (link->first == UT_NO_SLOT && !link->msg_first) ||
        link->to_post != UT_NO_SLOT || link->nudged)
        return;
    int rc = link->ops->write(link->conn, &x);
    link->nudged = rc >= 0 && !(rc & PROV_COMPLETE);
}

static void nudge_all(struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next)
        nudge(link);
}

void ut_engine_unblock_tcq(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);

    if (vcq->tcq_head != vcq->toq_exec && slot->state == UT_SLOT_POSTED && ut_slot_is_silent(slot))
        nudge(slot->link);
}

void ut_engine_release(struct ut_vcq *vcq)
{
    vcq->held_up = false;
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        nudge(link);
        vcq->held_up |= link->state == UT_LINK_UP && link->first != UT_NO_SLOT && !link->nudged;
    }
    if (!vcq->held_up && !vcq->watch)
        vcq->patience = UT_LEAST_PATIENCE;
}

int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n)
{
    reclaim(vcq);
    if (ut_engine_room(vcq) >= n)
        return 0;
    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        start_due(vcq); /* what DELAY_START held back */
    ut_engine_progress(vcq);
    reclaim(vcq);
    if (ut_engine_room(vcq) >= n)
        return 0;
    nudge_all(vcq);
    if (vcq->watch)
        ut_watch_busy(vcq);
    return UTOFU_ERR_BUSY;
}

size_t ut_engine_unread_tcq(struct ut_vcq *vcq)
{
    size_t n = 0;

    ut_engine_progress(vcq);
    reclaim(vcq);
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_tail; i++) {
        struct ut_slot *slot = ut_vcq_slot(vcq, i);
        n += !(ut_slot_is_silent(slot) && slot->state >= UT_SLOT_POSTED);
    }
    return n;
}

size_t ut_engine_unread_mrq(struct ut_vcq *vcq)
{
    enum { MOST_LOOKS = 16 };

    /* a few looks on end may find completions only */
    for (int i = 0; i < MOST_LOOKS && ut_engine_progress(vcq); i++)
        ;
    return vcq->mrq_tail - vcq->mrq_head;
}
/*
 * Progress
 */

int ut_engine_progress_rest(struct ut_vcq *vcq)
{
    int events = 0;

    if (vcq->waiting) {
        ut_link_step_waiting(vcq);
        events++;
    }
    if (vcq->ident.tni == UT_TNI_INTERNAL)
        events += ut_gate_progress(vcq);
    if (!ut_progress_has_thread() && vcq->unattended++ % INLINE_EVERY == 0)
        ut_progress_inline();
    return events;
}

static bool is_idle(const struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        if (link->first != UT_NO_SLOT || link->msg_first)
            return false;
    }
    return true;
}

void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms)
{
    uint64_t end = ut_now_ms() + timeout_ms;
    uint64_t next_nudge = 0;

    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        start_due(vcq);
    while (!is_idle(vcq)) {
        uint64_t now = ut_now_ms();
        if (now >= end)
            return;
        if (now >= next_nudge) {
            nudge_all(vcq);
            next_nudge = now + 10;
        }
        ut_engine_progress(vcq);
        ut_unlock(&vcq->lock);
        sched_yield();
        ut_lock(&vcq->lock);
    }
}
