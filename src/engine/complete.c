/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of the provider: end communications, and post communications that waited for them. */
#include "engine/rails.h"
#include "engine/retire.h"
#include "stats/stats.h"

/* If the connection goes down, ut_link_on_down() ends or repeats the slot. If the connection stays
 * up, the provider reports no more completions of the slot. */
static void slot_failed(struct ut_link *link, struct ut_slot *slot, enum prov_status status)
{
    slot->unsignalled = false;
    if (ut_engine_handle_error(link, slot, status)) {
        if (slot->pending == 0)
            ut_engine_finish(link, slot);
    } else if (status == PROV_RMT_ACCESS) {
        if (link->vcq->stats)
            ut_stats_retry(link);
        slot->state = UT_SLOT_WAITING;
        slot->stage = UT_STAGE_NONE;
        slot->stag_reread = false;
        link->to_post = link->first;
        ut_link_schedule(link);
    }
}

static inline void complete_transfer(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->pending == 0 && slot->state == UT_SLOT_POSTED)
        ut_engine_finish_slot(link, slot);
}

/* True if the read of a get has completed, not its notice. The read completes before the message
 * that was posted after it. */
static inline bool get_is_read(const struct ut_slot *slot)
{
    return slot->stage == UT_STAGE_DATA || (slot->stage == UT_STAGE_NOTICE && slot->pending == 1) ||
           !ut_slot_wants_remote_notice(slot);
}

static inline bool armw_is_read(const struct ut_link *link, const struct ut_slot *slot)
{
    return link->vcq->armw_words && slot->stage == UT_STAGE_DATA;
}

static inline void complete_armw(struct ut_link *link, struct ut_slot *slot)
{
    if (armw_is_read(link, slot))
        ut_engine_atomic_done(link, slot);
    else if (slot->stage >= UT_STAGE_EXECUTED && slot->pending == 0)
        ut_engine_finish(link, slot);
}

/* True if a read, or an atomic of the device, has completed. */
static inline bool is_read(const struct ut_link *link, const struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_GET:
        return get_is_read(slot);
    case UT_DESC_ARMW:
        return armw_is_read(link, slot);
    default:
        return false;
    }
}

static inline void end_completed(struct ut_link *link, struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
    case UT_DESC_GET:
        complete_transfer(link, slot);
        break;
    case UT_DESC_ARMW:
        complete_armw(link, slot);
        break;
    }
}

static inline void slot_done(struct ut_link *link, uint32_t number, enum prov_status status)
{
    struct ut_slot *slot = &link->vcq->toq[number];
    bool armw = slot->desc.kind == UT_DESC_ARMW;

    UT_ASSERT(number <= link->vcq->toq_mask && slot->link == link);
    UT_ASSERT(slot->pending > 0);
    slot->pending--;
    if (is_read(link, slot)) {
        UT_ASSERT(link->reads_out > 0);
        link->reads_out--;
    }
    if (status != PROV_OK) {
        if (slot->state == UT_SLOT_POSTED || slot->state == UT_SLOT_WAITING)
            slot_failed(link, slot, status);
        return;
    }
    end_completed(link, slot);
    /* other slots may wait for this slot: see ut_post_must_wait() */
    if (link->to_post != UT_NO_SLOT &&
        (link->unordered_out == 0 || (armw && link->vcq->armw_words)))
        ut_engine_post_queued(link);
}

/* Completes the puts of an unsignalled batch up to `last`, where other slots stand between the puts
 * of the batch. */
static void __attribute__((noinline, cold))
complete_batch_among_others(struct ut_link *link, uint32_t last)
{
    struct ut_vcq *vcq = link->vcq;

    for (uint32_t n = link->first, next; n != UT_NO_SLOT; n = n == last ? UT_NO_SLOT : next) {
        struct ut_slot *slot = &vcq->toq[n];
        next = slot->next; /* ut_engine_finish_slot() may end the slot */
        if (slot->unsignalled)
            slot_done(link, n, PROV_OK);
    }
}

/* Frees the slots of an unsignalled batch up to number `last`, if they are next in the TOQ,
 * contiguous, and the program has read their TCQ entries. So ut_engine_make_room() need not visit
 * each of them. Returns true if `last` is among them. */
static inline bool free_batch(struct ut_link *link, uint32_t last)
{
    struct ut_vcq *vcq = link->vcq;
    struct ut_slot *toq = vcq->toq;
    uint32_t mask = vcq->toq_mask, from = vcq->toq_head, end = vcq->tcq_head;

    for (; from != end && toq[from & mask].state == UT_SLOT_RETIRED; from++)
        toq[from & mask].state = UT_SLOT_FREE;
    uint32_t head = from, behind = from + ((last - from) & mask) + 1;
    if (behind - from < end - from)
        end = behind;
    if (link->first == (from & mask))
        for (; head != end; head++) {
            struct ut_slot *slot = &toq[head & mask];
            if (__builtin_expect(slot->link != link, 0) || __builtin_expect(!slot->unsignalled, 0))
                break;
            UT_ASSERT(slot->state == UT_SLOT_POSTED && slot->tcq_ready);
            slot->state = UT_SLOT_FREE;
        }
    if (head != from)
        link->first = toq[(head - 1) & mask].next;
    vcq->toq_head = head;
    ut_toq_limit_direct(vcq);
    return head == behind && head != from;
}

/* The unsignalled batch up to this cookie is complete. Usually the slot is the oldest of its link.
 */
__attribute__((hot)) void ut_engine_unsignalled_done(void *ctx, uint64_t cookie)
{
    struct ut_link *link = ctx;
    struct ut_slot *toq = link->vcq->toq;
    uint32_t last = (uint32_t)(cookie >> 3);
    bool found = free_batch(link, last);
    uint32_t n = link->first;

    while (!found && n != UT_NO_SLOT && toq[n].unsignalled) {
        UT_ASSERT(toq[n].state == UT_SLOT_POSTED && toq[n].link == link);
        toq[n].tcq_ready = true;
        toq[n].state = UT_SLOT_RETIRED;
        found = n == last;
        n = toq[n].next;
    }
    link->first = n;
    if (n == UT_NO_SLOT)
        link->list_end = &link->first;
    if (__builtin_expect(!found, 0))
        complete_batch_among_others(link, last);
    else if (n != UT_NO_SLOT && toq[n].state == UT_SLOT_DONE)
        ut_engine_retire(link);
    if (__builtin_expect(link->to_post != UT_NO_SLOT && link->unordered_out == 0, 0))
        ut_engine_post_queued(link);
}

/* True for the common put or get: one request, no counters, and room in the MRQ for its notice. */
static inline bool is_usual(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_slot posted = {.stage = UT_STAGE_DATA, .pending = 1},
                         either = {.tcq_ready = true, .unsignalled = true};

    return (((slot->progress & ~either.progress) ^ posted.progress) |
            (slot->state ^ (uint64_t)UT_SLOT_POSTED)) == 0 &&
           ut_mrq_below_alarm(vcq);
}

/* Continues early notices, done slots, and slots to post that waited for this slot. */
static void __attribute__((noinline)) end_waiting_others(struct ut_link *link)
{
    if (link->early_first)
        ut_engine_push_early(link);
    ut_engine_retire_done(link);
    if (link->to_post != UT_NO_SLOT && link->unordered_out == 0)
        ut_engine_post_queued(link);
}

/* Does the same as slot_done(), ut_engine_finish_slot() and ut_engine_retire_done(), for a usual
 * slot. */
static inline void complete_usual(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    uint32_t next = slot->next;

    UT_ASSERT(slot->link == link && slot == &vcq->toq[link->first]);
    UT_ASSERT(slot->desc.kind != UT_DESC_GET || link->reads_out > 0);
    link->first = next;
    if (next == UT_NO_SLOT)
        link->list_end = &link->first;
    link->reads_out -= slot->desc.kind == UT_DESC_GET;
    if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) {
        ut_mrq_write(vcq, 0, ut_engine_make_notice(link, slot));
        link->lcl_notices_ended++;
    }
    slot->tcq_ready = true;
    slot->state = UT_SLOT_RETIRED;
    bool waited = ((uintptr_t)link->early_first | (link->to_post ^ (uint32_t)UT_NO_SLOT)) != 0;
    if (__builtin_expect(waited, 0) || (next != UT_NO_SLOT && vcq->toq[next].state == UT_SLOT_DONE))
        end_waiting_others(link);
}

static void __attribute__((noinline))
complete_other(struct ut_link *link, uint64_t cookie, enum prov_status status)
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
    case UT_COOKIE_PART:
        ut_rails_done(link, (uint32_t)(cookie >> 3), status, false);
        break;
    case UT_COOKIE_NONE:
        link->empty_write_posted = false;
        break;
    }
}

__attribute__((hot)) void ut_engine_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct ut_link *link = ctx;

    if (__builtin_expect((status | (cookie ^ ut_cookie(UT_COOKIE_SLOT, link->first))) == 0, 1)) {
        struct ut_slot *slot = &link->vcq->toq[link->first]; /* the oldest slot of its link */
        if (__builtin_expect(is_usual(link->vcq, slot), 1)) {
            complete_usual(link, slot);
            return;
        }
    }
    complete_other(link, cookie, status);
}
