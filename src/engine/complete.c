/* SPDX-License-Identifier: Apache-2.0 */
/* The end of communications: what the provider reports of them, and the notices of both sides. */
#include <stdlib.h>

#include "engine/inner.h"
#include "watch/watch.h"

/*
 * Completion: DONE, and RETIRED when everything before it on the link is
 */

static void __attribute__((noinline, cold)) tell_watched(struct ut_link *link, struct ut_slot *slot)
{
    ut_watch_done(link, slot);
    if (slot->mrq_rc ||
        (!slot->tcq_rc && (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)))
        ut_engine_local_notice(link->vcq, link, slot);
}

/*
 * The peer may answer a put before its adapter acknowledges it. Programs rely on the order in which
 * the two happened: the local notice of the put comes out of the MRQ before the answer's. So a
 * remote notice waits for those local ones of its link that were outstanding when it came.
 */
void ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    struct ut_link_early *early = malloc(sizeof(*early));

    if (!early) {
        ut_engine_push_remote_notice(link, type, edata, lcl_stadd, rmt_stadd);
        return;
    }
    *early = (struct ut_link_early){.after = link->told_begun,
                                    .type = type,
                                    .edata = edata,
                                    .lcl_stadd = lcl_stadd,
                                    .rmt_stadd = rmt_stadd};
    *link->early_last = early;
    link->early_last = &early->next;
}

static void __attribute__((noinline)) push_early(struct ut_link *link)
{
    while (link->early_first) {
        struct ut_link_early *early = link->early_first;
        if ((int32_t)(link->told_ended - early->after) < 0)
            return;
        link->early_first = early->next;
        if (!link->early_first)
            link->early_last = &link->early_first;
        ut_engine_push_remote_notice(link, early->type, early->edata, early->lcl_stadd,
                                     early->rmt_stadd);
        free(early);
    }
}

/* A communication with a local notice has ended. */
static inline void told(struct ut_link *link)
{
    link->told_ended++;
    if (__builtin_expect(link->early_first != NULL, 0))
        push_early(link);
}

static inline __attribute__((always_inline)) void retire(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    while (link->first != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->first];
        if (slot->state != UT_SLOT_DONE)
            return;
        ut_link_remove_first(link);
        if (slot->mrq_rc ||
            (slot->desc.flags & (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UT_DESC_WATCHED))) {
            if (__builtin_expect(slot->desc.flags & UT_DESC_WATCHED, 0))
                tell_watched(link, slot);
            else if (slot->mrq_rc || !slot->tcq_rc)
                ut_engine_local_notice(vcq, link, slot);
        }
        if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
            told(link);
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
    }
}

void ut_engine_tell(struct ut_link *link, struct ut_slot *slot)
{
    ut_engine_local_notice(link->vcq, link, slot);
}

void ut_engine_retire(struct ut_link *link)
{
    retire(link);
}

/* Something failed at once, and its notices wait for earlier communications of the link, whose
 * completion nobody may have asked for: a poll that finds nothing will. An ARMW is answered. */
static void __attribute__((noinline, cold)) hold_up(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (vcq->toq[link->first].desc.kind == UT_DESC_ARMW)
        return;
    vcq->held_up = true;
    vcq->patience = 0;
}

static inline __attribute__((always_inline)) void finish(struct ut_link *link, struct ut_slot *slot)
{
    slot->state = UT_SLOT_DONE;
    retire(link);
    if (__builtin_expect(slot->state == UT_SLOT_DONE, 0))
        hold_up(link);
}

void ut_engine_finish(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->desc.kind == UT_DESC_ARMW && slot->stage > 0)
        link->armw_out--;
    finish(link, slot);
}

/*
 * What the provider reports
 */

static bool done_with_error(struct ut_link *link, struct ut_slot *slot, enum prov_status status)
{
    bool get = slot->desc.kind == UT_DESC_GET;

    switch (status) {
    case PROV_RMT_ACCESS:
        if (slot->retries++ == 0) {
            ut_link_forget(link, slot->desc.rmt_stadd);
            return false; /* posted again when the connection is back */
        }
        slot->mrq_rc = UTOFU_ERR_MRQ_RMT_MEMORY;
        return true;
    case PROV_RMT_FAULT:
        slot->mrq_rc = UTOFU_ERR_MRQ_RMT_MEMORY;
        return true;
    case PROV_LCL_ACCESS:
        if (get || slot->tcq_ready)
            slot->mrq_rc = UTOFU_ERR_MRQ_LCL_MEMORY;
        else
            slot->tcq_rc = UTOFU_ERR_TCQ_MEMORY;
        return true;
    case PROV_FAILED:
        slot->mrq_rc = UTOFU_ERR_MRQ_OTHER;
        return true;
    default:
        return false; /* PEER, FLUSHED: down() decides */
    }
}

/* The connection may be going down, which ends or repeats what is left of the slot; it may also be
 * up, and nothing more comes. */
static void slot_failed(struct ut_link *link, struct ut_slot *slot, enum prov_status status)
{
    slot->streak = false;
    if (done_with_error(link, slot, status)) {
        if (slot->pending == 0)
            ut_engine_finish(link, slot);
    } else if (status == PROV_RMT_ACCESS) {
        if (link->vcq->watch)
            ut_watch_retry(link);
        slot->state = UT_SLOT_WAITING;
        slot->stage = 0;
        slot->fresh = false;
        link->to_post = link->first;
        ut_link_wait(link);
    }
}

/* Is what the provider reported of it the read, or the atomic of the device? */
static inline bool was_read(const struct ut_link *link, const struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_ARMW:
        return link->vcq->armw_words && slot->stage == 1;
    case UT_DESC_GET:
        return slot->stage == 1 || (slot->stage == 2 && slot->pending == 1) ||
               !ut_slot_wants_remote_notice(slot);
    default:
        return false;
    }
}

static inline void slot_done(struct ut_link *link, uint32_t number, enum prov_status status)
{
    struct ut_slot *slot = &link->vcq->toq[number];
    bool armw = slot->desc.kind == UT_DESC_ARMW;

    slot->pending--;
    bool read = was_read(link, slot);
    if (read)
        link->reads_out--;
    if (status != PROV_OK) {
        if (slot->state == UT_SLOT_POSTED || slot->state == UT_SLOT_WAITING)
            slot_failed(link, slot, status);
        return;
    }
    if (armw && read)
        ut_engine_atomic_done(link, slot);
    else if (armw && slot->stage >= 2 && slot->pending == 0)
        ut_engine_finish(link, slot);
    else if (!armw && slot->pending == 0 && slot->state == UT_SLOT_POSTED)
        finish(link, slot);
    /* others may have waited for it: STRONG_ORDER, must_wait() */
    if (link->to_post != UT_NO_SLOT && (link->armw_out == 0 || (armw && link->vcq->armw_words)))
        ut_engine_pump(link);
}

/* The puts of a streak up to this one, which something else of the link stands before or between.
 */
static void __attribute__((noinline, cold)) streak_among_others(struct ut_link *link, uint32_t last)
{
    struct ut_vcq *vcq = link->vcq;

    for (uint32_t n = link->first, next; n != UT_NO_SLOT; n = n == last ? UT_NO_SLOT : next) {
        struct ut_slot *slot = &vcq->toq[n];
        next = slot->next; /* the slot may be finished below */
        if (slot->streak)
            slot_done(link, n, PROV_OK);
    }
}

/* Puts that nobody hears of but the TCQ; usually they are the oldest of their link. */
__attribute__((hot)) void ut_engine_streak(void *ctx, uint64_t cookie)
{
    struct ut_link *link = ctx;
    struct ut_slot *toq = link->vcq->toq;
    uint32_t last = (uint32_t)(cookie >> 3), n = link->first;
    bool told = false;

    while (!told && n != UT_NO_SLOT && toq[n].streak) {
        toq[n].tcq_ready = true;
        toq[n].state = UT_SLOT_RETIRED;
        told = n == last;
        n = toq[n].next;
    }
    link->first = n;
    if (n == UT_NO_SLOT)
        link->append = &link->first;
    if (__builtin_expect(!told, 0))
        streak_among_others(link, last);
    else if (n != UT_NO_SLOT && toq[n].state == UT_SLOT_DONE)
        ut_engine_retire(link);
    if (__builtin_expect(link->to_post != UT_NO_SLOT && link->armw_out == 0, 0))
        ut_engine_pump(link);
}

/* The usual put or get: one request, which nobody watches, and there is room for its notice. */
static inline bool is_usual(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_slot posted = {.stage = 1, .pending = 1},
                         either = {.tcq_ready = true, .streak = true};

    return (((slot->as_new[2] & ~either.as_new[2]) ^ posted.as_new[2]) |
            (slot->state ^ (uint64_t)UT_SLOT_POSTED)) == 0 &&
           ut_mrq_is_at_ease(vcq);
}

/* Others waited for its end. */
static void __attribute__((noinline)) end_others(struct ut_link *link)
{
    if (link->early_first)
        push_early(link);
    retire(link);
    if (link->to_post != UT_NO_SLOT && link->armw_out == 0)
        ut_engine_pump(link);
}

/* What slot_done(), finish() and retire() do with it. */
static inline void usual_done(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t next = slot->next;

    link->first = next;
    if (next == UT_NO_SLOT)
        link->append = &link->first;
    link->reads_out -= slot->desc.kind == UT_DESC_GET;
    if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) {
        ut_mrq_write(vcq, 0, ut_engine_told(link, slot));
        link->told_ended++;
    }
    slot->tcq_ready = true;
    slot->state = UT_SLOT_RETIRED;
    bool waited = ((uintptr_t)link->early_first | (link->to_post ^ (uint32_t)UT_NO_SLOT)) != 0;
    if (__builtin_expect(waited, 0) || (next != UT_NO_SLOT && vcq->toq[next].state == UT_SLOT_DONE))
        end_others(link);
}

static void __attribute__((noinline))
unusual_done(struct ut_link *link, uint64_t cookie, enum prov_status status)
{
    switch ((enum ut_cookie)(cookie & 7)) {
    case UT_COOKIE_SLOT:
        slot_done(link, (uint32_t)(cookie >> 3), status);
        break;
    case UT_COOKIE_READ:
        ut_link_read_done(link, status);
        break;
    case UT_COOKIE_MSG:
        ut_link_msg_done(link, cookie, status);
        break;
    case UT_COOKIE_NONE:
        link->nudged = false;
        break;
    }
}

__attribute__((hot)) void ut_engine_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct ut_link *link = ctx;

    if (__builtin_expect((status | (cookie ^ ut_cookie(UT_COOKIE_SLOT, link->first))) == 0, 1)) {
        struct ut_slot *slot = &link->vcq->toq[link->first]; /* the oldest of its link */
        if (__builtin_expect(is_usual(link->vcq, slot), 1)) {
            usual_done(link, slot);
            return;
        }
    }
    unusual_done(link, cookie, status);
}
