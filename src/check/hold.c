/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which communications are held, and for how long. */
#include <stdlib.h>
#include <string.h>

#include "check/inner.h"
#include "check/origins.h"
#include "link/link.h"
#include "shuffle/shuffle.h"
#include "stag/stag.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/self.h"

enum {
    MAX_HELD = 64,
    /* For each call site of the program the first FIRST_HELD communications are held, and then one
     * in SAMPLE, because programs repeat themselves. For long communications, whose memory takes
     * time to read, one in SAMPLE_LONG. */
    FIRST_HELD = 512,
    SAMPLE = 32,
    SAMPLE_LONG = 128,
    LONG = 4096,
    FIRST_LINGER = 8, /* per call site: how many linger, see origins.h */
    /* per call site: how many have their remote memory copied. Then one in SAMPLE_COPIED of the
     * held ones: a copy takes several system calls */
    FIRST_COPIED = 64,
    SAMPLE_COPIED = 16,
    /* While a started communication is not complete, this number of empty polls per unread TCQ
     * entry starts no other communication, because the program may wait for these entries. */
    PATIENT_POLLS = 16,
    /* The same with the shuffle mode, where a communication takes up to some hundred microseconds.
     * Used in every other case: otherwise two communications are in flight, and the shuffle mode
     * can change their order. */
    PATIENT_SHUFFLED = 1024,
    /* Nothing is held while the total hold time of communications that the background thread
     * started exceeds LATE_FREE_NS plus one of LATE_SHARE parts of the elapsed time. So a program
     * that waits by reading memory is slow only for a short time. */
    LATE_FREE_NS = 30000000,
    LATE_SHARE = 32,
    OVERDUE_NS = 900000, /* time since the background thread first saw the held communication */
    MAX_LOOKS = 1000,
};

static struct {
    uint64_t opened_at;
    uint32_t num_holding; /* atomic: number of VCQs with held communications */
    uint64_t late_ns;     /* atomic: total hold time of communications that the background thread
                           * started */
} holding;

/* Stores which thread is in a call of the program that has locked the VCQ; 0 after the call. */
static void set_in_call(struct ut_vcq *vcq, uintptr_t thread)
{
    __atomic_store_n(&vcq->in_call, thread, __ATOMIC_RELAXED);
}

/* A call of the program finds the VCQ locked, perhaps by the background thread. Checks for a while
 * whether the holder is another thread of the program. */
static void detect_concurrent_call(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
{
    const void *address = __builtin_return_address(0);

    for (int i = 0; i < MAX_LOOKS && ut_is_locked(&vcq->lock); i++) {
        uintptr_t thread = __atomic_load_n(&vcq->in_call, __ATOMIC_RELAXED);
        if (thread == 0 || thread == ut_self())
            continue;
        if (__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) == ut_handle_plain(handle) &&
            !(vcq->flags & UTOFU_VCQ_FLAG_THREAD_SAFE)) {
            const struct ut_check_report r = {
                .id = UT_CHECK_CONCURRENT, .vcq = vcq, .caller = ut_check_caller(address)};
            ut_check_report(&r);
        }
        return;
    }
}

void ut_check_open(const struct ut_job_info *job)
{
    ut_check_job = job;
    ut_check_on = ut_env_num(UT_ENV_CHECK) != 0;
    holding.opened_at = ut_clock_ns();
    if (!ut_check_on)
        return;
    ut_check_symbolize_open();
    ut_table_create(job);
    ut_vcq_on_contention = detect_concurrent_call;
}

void ut_check_table(uint32_t *pid, uint32_t *fd)
{
    ut_table_place(pid, fd);
}

void ut_check_serve(void)
{
    ut_origins_open();
}

bool ut_check_attach(struct ut_vcq *vcq)
{
    if (!ut_check_on)
        return true;
    ut_origins_open();
    struct ut_check *check = calloc(1, sizeof(*check));
    struct ut_check_op *ops = calloc(vcq->toq_mask + 1ul, sizeof(*ops));
    if (!check || !ops) {
        free(check);
        free(ops);
        return false;
    }
    check->ops = ops;
    check->completed = vcq->toq_head;
    vcq->check = check;
    vcq->slow_path = vcq->watched = true;
    if (!vcq->mrq_most) { /* no counted VCQ */
        vcq->mrq_most = &check->most_mrq;
        vcq->mrq_alarm = 0;
    }
    vcq->posted_at = 1; /* lets empty polls call ut_check_polled() */
    return true;
}

/* Called when communications may be held, or are no longer held. */
static void count_holding(struct ut_vcq *vcq)
{
    struct ut_check *check = vcq->check;
    bool holds = ut_check_num_held(vcq) > 0;
    uintptr_t thread = ut_check_is_session(vcq) ? check->poster : ut_self();

    __atomic_store_n(&check->thread, holds ? thread : 0, __ATOMIC_RELAXED);
    if (holds == check->counted)
        return;
    check->counted = holds;
    if (holds)
        __atomic_add_fetch(&holding.num_holding, 1, __ATOMIC_RELAXED);
    else
        __atomic_sub_fetch(&holding.num_holding, 1, __ATOMIC_RELAXED);
}

/* Publishes the number of complete communications, and `n` new ones, to other processes. */
static void count_traffic(struct ut_vcq *vcq, uint32_t n)
{
    uint32_t to = vcq->check->completed, from = to;

    if ((int32_t)(vcq->toq_head - to) > 0)
        to = vcq->toq_head;
    while (to != vcq->toq_exec && ut_vcq_slot(vcq, to)->state == UT_SLOT_RETIRED)
        to++;
    vcq->check->completed = to;
    if (n + (to - from) > 0)
        ut_table_count(n, to - from);
}

void ut_check_detach(struct ut_vcq *vcq)
{
    struct ut_check *check = vcq->check;

    if (!check)
        return;
    count_traffic(vcq, 0);
    if (check->counted)
        __atomic_sub_fetch(&holding.num_holding, 1, __ATOMIC_RELAXED);
    /* communications that were submitted meanwhile */
    for (uint32_t n = ut_check_num_held(vcq), i = 0; i < n; i++) {
        struct ut_check_op *op = ut_check_op_of(vcq, ut_vcq_slot(vcq, vcq->toq_exec + i));
        ut_origins_leave(op);
        ut_target_forget(op);
    }
    vcq->check = NULL;
    free(check->ops);
    free(check);
}

static bool may_hold(uint64_t now)
{
    return __atomic_load_n(&holding.late_ns, __ATOMIC_RELAXED) <
           LATE_FREE_NS + (now - holding.opened_at) / LATE_SHARE;
}

/* The next of the pseudo-random numbers by which communications are sampled. */
static uint32_t draw_number(struct ut_check *check)
{
    check->random = check->random * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
    return (uint32_t)(check->random >> 32);
}

/* Decides whether to hold a communication that was submitted at this call site. 0: no. Else its
 * number at the call site, up to FIRST_HELD, or a greater number. If call sites share an entry,
 * more communications are held. */
static uint32_t choose_to_hold(struct ut_check *check, const void *caller, uint32_t length)
{
    struct ut_check_place_count *p = &check->places[ut_hash_index((uintptr_t)caller, 6)];

    if (p->caller != caller)
        *p = (struct ut_check_place_count){.caller = caller};
    if (p->count < FIRST_HELD)
        return ++p->count;
    return draw_number(check) % (length > LONG ? SAMPLE_LONG : SAMPLE) == 0 ? FIRST_HELD + 1 : 0;
}

static void count_toq(struct ut_vcq *vcq)
{
    uint32_t n = vcq->toq_tail - vcq->tcq_head;

    if (n > vcq->check->max_toq)
        vcq->check->max_toq = n;
}

static void count_threads(struct ut_check *check)
{
    if (check->first_thread == 0)
        check->first_thread = ut_self();
    check->several_threads |= check->first_thread != ut_self();
}

/* Enters a held communication into the table, so that other processes can compare theirs. */
static void enter_in_table(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    uint32_t which = ut_check_op_of(vcq, slot)->which;

    ut_origins_enter(vcq, slot, which <= FIRST_LINGER);
    if (which <= FIRST_COPIED || draw_number(vcq->check) % SAMPLE_COPIED == 0)
        ut_target_copy(vcq, slot);
}

/* The number of communications to start, so that at most MAX_HELD are left. */
static uint32_t too_many(const struct ut_vcq *vcq)
{
    uint32_t held = ut_check_num_held(vcq);

    return held > MAX_HELD ? held - MAX_HELD : 0;
}

/* Holds the next descriptor of a session-mode VCQ. False: the descriptor is not held. */
static bool hold_next(struct ut_vcq *vcq, const struct ut_slot *slot, uint64_t now)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (op->which == 0 || !may_hold(now))
        return false;
    op->at = now;
    ut_check_examine(vcq, slot, ut_check_others_have_held(vcq));
    enter_in_table(vcq, slot);
    return true;
}

uint32_t ut_check_scheduled(struct ut_vcq *vcq)
{
    struct ut_check *check = vcq->check;
    uint32_t held = ut_check_num_held(vcq), end = vcq->toq_exec + held;
    uint64_t now = ut_clock_ns();
    bool hold = true;

    UT_ASSERT(ut_is_locked(&vcq->lock));
    if (check->turns - vcq->toq_exec > held)
        check->turns = vcq->toq_exec;
    while (check->turns != end)
        hold &= hold_next(vcq, ut_vcq_slot(vcq, check->turns++), now);
    count_holding(vcq);
    return hold ? too_many(vcq) : held;
}

uint32_t ut_check_submitted(struct ut_vcq *vcq, uint32_t n, const void *caller)
{
    struct ut_check *check = vcq->check;

    UT_ASSERT(ut_is_locked(&vcq->lock));
    set_in_call(vcq, ut_self());
    count_threads(check);
    count_toq(vcq);
    count_traffic(vcq, n);
    const struct ut_slot *first = ut_vcq_slot(vcq, vcq->toq_tail - n);
    uint32_t sampled = choose_to_hold(check, caller, n ? ut_desc_length(&first->desc) : 0);
    uint64_t now = sampled ? ut_clock_ns() : 0;
    if (sampled)
        caller = ut_check_caller(caller);
    for (uint32_t i = n; i-- > 0;) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail - 1 - i);
        *ut_check_op_of(vcq, slot) = (struct ut_check_op){
            .caller = caller, .at = now, .number = ++check->number, .which = sampled};
        if (!sampled)
            ut_check_note_local(vcq, slot);
        else if (ut_check_is_session(vcq))
            ut_check_examine_submitted(vcq, slot);
        else
            ut_check_examine(vcq, slot, ut_check_others_have_held(vcq));
        ut_check_note_comm(check, slot);
        if (sampled && !ut_check_is_session(vcq) && may_hold(now))
            enter_in_table(vcq, slot);
    }
    check->poster = ut_self();
    set_in_call(vcq, 0);
    if (ut_check_is_session(vcq))
        return ut_check_scheduled(vcq);
    if (sampled)
        count_holding(vcq);
    return sampled && may_hold(now) ? too_many(vcq) : ut_check_num_held(vcq);
}

void ut_check_start(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    ut_check_examine_again(vcq, slot);
    ut_target_compare(vcq, slot);
    ut_origins_leave(ut_check_op_of(vcq, slot));
    if (ut_check_num_held(vcq) == 0)
        count_holding(vcq);
}

uint32_t ut_check_polled(struct ut_vcq *vcq)
{
    struct ut_check *check = vcq->check;
    uint32_t held = ut_check_num_held(vcq);

    check->polls++;
    count_threads(check);
    count_traffic(vcq, 0);
    if (held == 0)
        return 0;
    const struct ut_slot *last = ut_vcq_slot(vcq, vcq->toq_exec - 1);
    bool in_flight = vcq->toq_exec != vcq->toq_head && last->state != UT_SLOT_RETIRED;
    if (vcq->idle_polls < check->polls_before)
        check->polls_before = 0;
    uint32_t polls = vcq->idle_polls - check->polls_before;
    uint32_t min_polls = ut_shuffle_holds(vcq) ? PATIENT_SHUFFLED : PATIENT_POLLS;
    if (in_flight && polls < min_polls * (vcq->toq_exec - vcq->tcq_head))
        return 0;
    uint32_t max = polls < 6 ? 1u << polls : MAX_HELD;
    return ut_origins_count_startable(vcq, held < max ? held : max);
}

bool ut_check_others_have_held(const struct ut_vcq *vcq)
{
    return __atomic_load_n(&holding.num_holding, __ATOMIC_RELAXED) > vcq->check->counted;
}

static bool is_mine(const struct ut_vcq *vcq)
{
    return __atomic_load_n(&vcq->check->thread, __ATOMIC_RELAXED) == ut_self();
}

uint32_t ut_check_polled_elsewhere(struct ut_vcq *vcq)
{
    return is_mine(vcq) && ut_check_num_held(vcq) > 0 ? ut_origins_count_startable(vcq, 1) : 0;
}

bool ut_check_is_overdue(struct ut_vcq *vcq)
{
    struct ut_check *check = vcq->check;
    uint64_t now = ut_clock_ns();
    bool holds = ut_check_num_held(vcq) > 0;

    if (!holds || check->seen_exec != vcq->toq_exec || check->seen_at == 0) {
        check->seen_exec = vcq->toq_exec;
        check->seen_polls = check->polls;
        check->seen_at = holds ? now : 0;
    }
    const struct ut_check_op *oldest = ut_check_op_of(vcq, ut_vcq_slot(vcq, vcq->toq_exec));
    /* true only after new polls */
    bool lingers = oldest->lingers && check->polls != check->seen_polls;
    bool late = holds && now - check->seen_at >= OVERDUE_NS && !(lingers && now < oldest->lingers);
    if (late && lingers)
        ut_origins_lingered();
    if (late)
        __atomic_add_fetch(&holding.late_ns, now - (lingers ? oldest->lingers : oldest->at),
                           __ATOMIC_RELAXED);
    return late;
}

/*
 * Deregistered memory and freed VCQs
 */

void ut_check_dereg(struct ut_vcq *vcq, utofu_stadd_t stadd, const void *caller)
{
    struct ut_stag_local *local;
    uint8_t *at;

    if (ut_check_num_held(vcq) == 0 ||
        ut_stag_resolve(vcq->stags, stadd, 0, false, &local, &at) != UT_STAG_OK || local->count > 1)
        return;
    for (uint32_t n = ut_check_num_held(vcq), i = 0; i < n; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_exec + i);
        struct ut_check_op *op = ut_check_op_of(vcq, slot);
        if (!op->mem || op->length == 0 || op->mem + op->length <= local->base ||
            op->mem >= local->base + local->size ||
            ut_stadd_stag(slot->desc.lcl_stadd) != ut_stadd_stag(stadd))
            continue;
        const struct ut_check_report r = {
            .id = UT_CHECK_DEREG, .vcq = vcq, .slot = slot, .op = op, .caller = caller};
        ut_check_report(&r);
        return;
    }
}

/* Is a started communication certainly not complete? Yes if its connection was never up. Also yes
 * if a notice is outstanding: a VCQ may only be freed after the requested notices. */
static bool is_under_way(struct ut_vcq *vcq, uint32_t position, bool freed)
{
    const struct ut_slot *slot = ut_vcq_slot(vcq, position);
    bool tcq_polled = (int32_t)(position - vcq->tcq_head) < 0;

    if (slot->desc.kind == UT_DESC_NOP || slot->state == UT_SLOT_FREE ||
        slot->state == UT_SLOT_RETIRED)
        return false;
    if (slot->state == UT_SLOT_WAITING && slot->link && !slot->link->was_up)
        return true;
    return freed && ((slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) ||
                     ((slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE) && !tcq_polled));
}

static void report_end(struct ut_vcq *vcq, const struct ut_slot *slot, const void *caller)
{
    const struct ut_check_report r = {.id = caller ? UT_CHECK_FREED : UT_CHECK_EXIT,
                                      .vcq = vcq,
                                      .slot = slot,
                                      .op = ut_check_op_of(vcq, slot),
                                      .caller = caller};

    ut_check_report(&r);
}

void ut_check_on_free(struct ut_vcq *vcq, const void *caller)
{
    for (uint32_t i = vcq->toq_head; i != vcq->toq_exec; i++) {
        if (!is_under_way(vcq, i, caller != NULL))
            continue;
        report_end(vcq, ut_vcq_slot(vcq, i), caller);
        return;
    }
    for (uint32_t n = ut_check_num_held(vcq), i = 0; i < n; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_exec + i);
        if (slot->desc.kind == UT_DESC_NOP)
            continue;
        report_end(vcq, slot, caller);
        return;
    }
}

void ut_check_unread(struct ut_vcq *vcq, int tcq_error, int mrq_error)
{
    const struct ut_check_report r = {
        .id = UT_CHECK_UNREAD, .vcq = vcq, .rc = tcq_error ? tcq_error : mrq_error};

    ut_check_note_end(vcq);
    if (r.rc)
        ut_check_report(&r);
}

void ut_check_close(void)
{
    if (!ut_check_on)
        return;
    ut_check_print_sums();
    ut_check_print_notes();
}
