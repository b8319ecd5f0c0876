/* SPDX-License-Identifier: Apache-2.0 */
/* Starts descriptors, makes room in the TOQ, makes progress. engine.h describes the path of a put.
 */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

#include "check/check.h"
#include "engine/posting.h"
#include "engine/put.h"
#include "record/record.h"
#include "shuffle/freedoms.h"
#include "shuffle/shuffle.h"
#include "util/idle.h"
#include "util/log.h"
#include "vcq/wait.h"
#include "stats/stats.h"

enum { MAX_SHORTFALL = 2000, INLINE_EVERY = 64 };

/*
 * Starting
 */

static void __attribute__((noinline)) start_connecting(struct ut_link *link)
{
    ut_link_start_connecting(link);
    if (ut_link_is_given_up(link))
        ut_engine_fail_all(link, UTOFU_ERR_MRQ_PEER);
}

static inline void enter_toq(struct ut_slot *slot)
{
    UT_ASSERT(slot->state == UT_SLOT_FREE);
    UT_ASSERT(slot->desc.kind != UT_DESC_NONE);
    slot->rmt_value = slot->msg_number = 0;
    slot->progress = slot->history = 0;
    slot->slow_end = (ut_kind_traits(slot->desc.kind) & UT_KIND_SLOW_END) != 0;
    slot->state = UT_SLOT_SUBMITTED;
}

static void remove_from_toq(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->msg_number)
        link->tx_number--;
    slot->state = UT_SLOT_FREE;
}

static void __attribute__((cold)) start_refused(struct ut_link *link, struct ut_slot *slot)
{
    remove_from_toq(link, slot);
    enter_toq(slot);
}

/* Starts a put of the TOQ by the direct path. The put is one of several that were posted together,
 * or session mode schedules it. False: nothing was done. */
static bool start_direct(struct ut_vcq *vcq, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    const struct ut_request r = {.kind = d->kind,
                                 .lcl_stadd = d->lcl_stadd,
                                 .rmt_stadd = d->rmt_stadd,
                                 .length = ut_desc_length(d)};
    uint32_t number = ut_slot_number(vcq, slot);
    struct ut_addrs addrs;

    if ((d->kind != UT_DESC_PUT && d->kind != UT_DESC_PIGGYBACK) || vcq->shuffled || vcq->waits)
        return false;
    struct ut_link *link = ut_link_or_none(vcq, d->rmt_vcq_id);
    if (!ut_link_is_ready(link) || !ut_find_addrs(vcq->stags, link, slot, &r, &addrs))
        return false;
    int rc = ut_post_put_unqueued(vcq, slot, link, addrs, number, vcq->unflushed ? PROV_MORE : 0u);
    if (rc == UT_NOT_DIRECT)
        return false;
    if (__builtin_expect(rc < 0, 0)) {
        start_refused(link, slot);
        return false;
    }
    ut_finish_post(link, slot, number, rc);
    return true;
}

static void start_slot(struct ut_vcq *vcq, struct ut_slot *slot)
{
    UT_ASSERT(slot->state == UT_SLOT_SUBMITTED);
    if (ut_kind_traits(slot->desc.kind) & UT_KIND_NO_PEER) {
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        return;
    }
    struct ut_link *link = ut_link_get_fast(vcq, slot->desc.rmt_vcq_id);
    if (__builtin_expect(!link, 0)) {
        ut_slot_set_failed(NULL, slot, UTOFU_ERR_TCQ_OTHER);
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        ut_error("engine", "no memory for the connection to VCQ %016llx",
                 (unsigned long long)slot->desc.rmt_vcq_id);
        return;
    }
    if (ut_armw_execute_mapped(vcq, link, slot))
        return;
    uint32_t number = ut_slot_number(vcq, slot);
    slot->state = UT_SLOT_WAITING;
    UT_ASSERT(link->vcq == vcq);
    ut_link_append(link, slot, number, slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    if (__builtin_expect(link->to_post != UT_NO_SLOT, 0))
        return; /* other slots wait before this one, and ut_engine_post_queued() posts them first */
    link->to_post = number;
    if (__builtin_expect(link->state == UT_LINK_UP, 1))
        ut_engine_post_queued(link);
    else
        start_connecting(link);
}

static void flush_endpoints(struct ut_vcq *vcq)
{
    vcq->unflushed = false;
    for (unsigned int i = 0; i < vcq->num_eps; i++)
        vcq->eps[i].ops->ep_flush(vcq->eps[i].ep);
}

static void start_counted(struct ut_vcq *vcq, struct ut_slot *slot)
{
    ut_stats_start(vcq, slot);
    start_slot(vcq, slot);
    ut_stats_started(vcq, slot);
}

static void __attribute__((noinline)) start_watched(struct ut_vcq *vcq, struct ut_slot *slot)
{
    if (vcq->check)
        ut_check_start(vcq, slot);
    if (vcq->recorded && (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        ut_record_started(&(struct ut_record_of){vcq->id, vcq->flags});
    if (vcq->stats)
        start_counted(vcq, slot);
    else
        start_slot(vcq, slot);
}

/* May the next descriptor start? In session mode the limit is the schedule pointer, in free mode
 * the tail. */
static inline bool session_may_start(const struct ut_vcq *vcq)
{
    return vcq->toq_exec != vcq->toq_tail &&
           (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) || vcq->started != vcq->scheduled);
}

static inline bool session_count_start(struct ut_vcq *vcq)
{
    if (!session_may_start(vcq))
        return false;
    if (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
        vcq->started++;
    UT_ASSERT(!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) || vcq->started <= vcq->scheduled);
    return true;
}

/* May more than one descriptor start now? */
static inline bool is_batch(const struct ut_vcq *vcq)
{
    return vcq->toq_tail - vcq->toq_exec > 1 &&
           (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) || vcq->scheduled - vcq->started > 1);
}

static void start_due(struct ut_vcq *vcq)
{
    if (!session_may_start(vcq))
        return;
    bool batch = is_batch(vcq);
    vcq->unflushed = batch;
    while (session_count_start(vcq)) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_exec++);
        if (__builtin_expect(vcq->watched, 0))
            start_watched(vcq, slot);
        else if (!start_direct(vcq, slot))
            start_slot(vcq, slot);
    }
    ut_toq_limit_direct(vcq);
    if (batch)
        flush_endpoints(vcq);
    if (vcq->waits && ut_engine_has_entry(vcq)) /* the communication is already complete */
        ut_vcq_end_waits(vcq);
}

void ut_engine_start_held(struct ut_vcq *vcq, uint32_t max)
{
    UT_ASSERT(ut_is_locked(&vcq->lock));
    for (; max > 0 && session_count_start(vcq); max--)
        start_watched(vcq, ut_vcq_slot(vcq, vcq->toq_exec++));
    ut_toq_limit_direct(vcq);
    if (vcq->waits && ut_engine_has_entry(vcq))
        ut_vcq_end_waits(vcq);
}

/* Submits the slot behind the tail of the TOQ and starts it. */
static void start_tail(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_engine_slot(vcq, 0);

    enter_toq(slot);
    vcq->toq_exec = ++vcq->toq_tail;
    start_slot(vcq, slot);
}

void ut_engine_queue_refused(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
{
    remove_from_toq(link, slot);
    if (rc == -EAGAIN)
        ut_engine_progress(vcq); /* progress may free an entry of the send queue */
    start_tail(vcq);
}

/* A checked VCQ holds submitted communications back: see ut_engine_start_held(). */
static void __attribute__((noinline)) submit_watched(struct ut_vcq *vcq, uint32_t n, bool delay)
{
    if (vcq->stats)
        ut_stats_submit(vcq, n);
    if (vcq->recorded)
        ut_record_submit(vcq, n);
    vcq->toq_tail += n;
    ut_toq_limit_direct(vcq);
    if ((!delay || ut_shuffle_starts(vcq)) && !vcq->check)
        start_due(vcq);
}

void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay)
{
    if (n == 1 && !delay && ut_toq_starts_at_once(vcq)) {
        start_tail(vcq);
        return;
    }
    UT_ASSERT(ut_is_locked(&vcq->lock) && ut_engine_room(vcq) >= n);
    for (uint32_t i = 0; i < n; i++)
        enter_toq(ut_engine_slot(vcq, i));
    if (vcq->watched) {
        submit_watched(vcq, n, delay);
        return;
    }
    vcq->toq_tail += n;
    ut_toq_limit_direct(vcq);
    if (!delay || ut_shuffle_starts(vcq))
        start_due(vcq);
}

void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps)
{
    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        return;
    vcq->scheduled += sps;
    if (vcq->check)
        ut_engine_start_held(vcq, ut_check_scheduled(vcq));
    else
        start_due(vcq);
    if (vcq->scheduled - vcq->started > MAX_SHORTFALL && !vcq->shortfall_reported) {
        vcq->shortfall_reported = true;
        ut_error("engine",
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

static void reclaim_slots(struct ut_vcq *vcq)
{
    UT_ASSERT(ut_toq_is_sound(vcq));
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
    ut_toq_limit_direct(vcq);
}

/* An unsignalled request completes with a later signalled request of its link. If the link has
 * none, this function posts an empty signalled write. */
static void post_empty_write(struct ut_link *link)
{
    struct prov_xfer x = {.flags = PROV_SIGNAL, .cookie = ut_cookie(UT_COOKIE_NONE, 0)};

    if (link->state != UT_LINK_UP || (link->first == UT_NO_SLOT && !link->unacked_first) ||
        link->to_post != UT_NO_SLOT || link->empty_write_posted)
        return;
    int rc = link->ops->write(link->conn, &x);
    link->empty_write_posted = rc >= 0 && !(rc & PROV_COMPLETE);
}

static void post_empty_writes(struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next)
        post_empty_write(link);
}

void ut_engine_unblock_tcq(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);

    if (vcq->tcq_head != vcq->toq_exec && slot->state == UT_SLOT_POSTED && ut_slot_is_silent(slot))
        post_empty_write(slot->link);
}

void ut_engine_request_completions(struct ut_vcq *vcq)
{
    vcq->completions_wanted = false;
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        post_empty_write(link);
        vcq->completions_wanted |=
            link->state == UT_LINK_UP && link->first != UT_NO_SLOT && !link->empty_write_posted;
    }
    if (!vcq->completions_wanted && !vcq->stats)
        vcq->spin_limit = UT_MIN_SPIN_LIMIT;
}

int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n)
{
    reclaim_slots(vcq);
    if (ut_engine_room(vcq) >= n) {
        /* a program that only puts and looks into its memory never polls. Progress handles ARMWs
         * and messages of peers here, at least once per TOQ length */
        ut_engine_progress(vcq);
        return 0;
    }
    start_due(vcq); /* starts descriptors that DELAY_START or the check mode held back */
    ut_engine_progress(vcq);
    reclaim_slots(vcq);
    if (ut_engine_room(vcq) >= n)
        return 0;
    if (vcq->shuffled && ut_shuffle_toq_room(vcq, n))
        return 0;
    post_empty_writes(vcq);
    if (vcq->shuffled)
        ut_shuffle_note_busy(vcq);
    if (vcq->stats)
        ut_stats_busy(vcq);
    return ut_toq_full(vcq);
}

size_t ut_engine_unread_tcq(struct ut_vcq *vcq)
{
    size_t n = 0;

    if (vcq->check)
        start_due(vcq);
    ut_engine_progress(vcq);
    reclaim_slots(vcq);
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_tail; i++) {
        struct ut_slot *slot = ut_vcq_slot(vcq, i);
        n += !(ut_slot_is_silent(slot) && slot->state >= UT_SLOT_POSTED);
    }
    return n;
}

bool ut_engine_has_entry(struct ut_vcq *vcq)
{
    if (vcq->mrq_head != vcq->mrq_tail)
        return true;
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (!slot->tcq_ready)
            return false;
        if (!ut_slot_is_silent(slot))
            return true;
    }
    return false;
}

size_t ut_engine_unread_mrq(struct ut_vcq *vcq)
{
    enum { MAX_POLLS = 16 };

    if (vcq->check)
        start_due(vcq);
    /* several polls in a row may return completions of other slots only */
    for (int i = 0; i < MAX_POLLS && ut_engine_progress(vcq); i++)
        ;
    return vcq->mrq_tail - vcq->mrq_head;
}
/*
 * Progress
 */

int ut_engine_progress_slow(struct ut_vcq *vcq)
{
    int events = 0;

    if (vcq->scheduled_links)
        events += ut_link_run_scheduled(vcq);
    if (vcq->handlers)
        events += vcq->handlers->progress(vcq);
    if (!ut_vcq_has_thread() && vcq->unattended++ % INLINE_EVERY == 0)
        ut_process_progress();
    return events;
}

/* Is the code an error of the program? For reports of unread entries. */
static bool is_misuse(int rc)
{
    return rc != 0 && rc != UTOFU_ERR_TCQ_OTHER && rc != UTOFU_ERR_MRQ_OTHER &&
           rc != UTOFU_ERR_MRQ_PEER;
}

void ut_engine_check_unread(struct ut_vcq *vcq)
{
    int tcq = 0, mrq = 0;

    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (tcq == 0 && slot->tcq_ready && is_misuse(slot->tcq_rc))
            tcq = slot->tcq_rc;
    }
    for (uint32_t i = vcq->mrq_head; i != vcq->mrq_tail; i++) {
        int rc = ut_mrq_code(&vcq->mrq[i & vcq->mrq_mask]);
        if (mrq == 0 && is_misuse(rc))
            mrq = rc;
    }
    ut_check_unread(vcq, tcq, mrq);
}
