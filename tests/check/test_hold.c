/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which communications are held, for how long, and what is reported of those that are held when
 * memory is deregistered or a VCQ ends. VCQs are made up, whose communications are NOPs, and the
 * clock is moved. Linked with --wrap of the functions that are replaced here.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/fake_clock.h"
#include "check/check.h"
#include "check/inner.h"
#include "check/origins.h"
#include "ident/ident.h"
#include "link/link.h"
#include "stag/stag.h"
#include "util/env.h"

enum { SLOTS = 256, MOST = 64, FIRST = 512, LONG = 4096 };

static struct ut_slot slots[SLOTS], other_slots[SLOTS];
static struct ut_vcq vcq = {.toq = slots, .toq_mask = SLOTS - 1},
                     other = {.toq = other_slots, .toq_mask = SLOTS - 1};
static struct ut_job_info job = {.id = "hold", .size = 1, .local_size = 1};
static const char places[3]; /* of calls */

static unsigned int num_reports;
static struct ut_check_report reported;
static uint64_t counted_submitted, counted_completed;

void __wrap_ut_check_report(const struct ut_check_report *report);
void __wrap_ut_check_report(const struct ut_check_report *report)
{
    num_reports++;
    reported = *report;
}

void __wrap_ut_table_count(uint32_t submitted, uint32_t completed);
void __wrap_ut_table_count(uint32_t submitted, uint32_t completed)
{
    cr_assert(submitted + completed > 0);
    counted_submitted += submitted;
    counted_completed += completed;
}

static unsigned int num_copied, num_entered, num_first;

void __wrap_ut_target_copy(struct ut_vcq *v, const struct ut_slot *slot);
void __wrap_ut_target_copy(struct ut_vcq *v, const struct ut_slot *slot)
{
    (void)v, (void)slot;
    num_copied++;
}

void __wrap_ut_origins_enter(struct ut_vcq *v, const struct ut_slot *slot, bool first);
void __wrap_ut_origins_enter(struct ut_vcq *v, const struct ut_slot *slot, bool first)
{
    (void)v, (void)slot;
    num_entered++;
    num_first += first;
}

static void begin(void)
{
    setenv("UTOFU_CHECK", "1", 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_check_open(&job);
    for (struct ut_vcq *v = &vcq; v; v = v == &vcq ? &other : NULL) {
        v->toq_head = v->toq_exec = v->toq_tail = v->tcq_head = 1000;
        cr_assert(ut_check_attach(v));
    }
}
TestSuite(hold, .init = begin);

/* Submits a NOP whose descriptor says this length. Returns how many are to be started. */
static uint32_t submit(struct ut_vcq *v, const char *place, uint32_t length)
{
    struct ut_slot *slot = ut_vcq_slot(v, v->toq_tail++);

    slot->desc = (struct ut_desc){.kind = UT_DESC_NOP, .word = length};
    slot->state = UT_SLOT_SUBMITTED;
    ut_lock(&v->lock);
    uint32_t n = ut_check_submitted(v, 1, place);
    ut_unlock(&v->lock);
    return n;
}

static struct ut_check_op *op_at(struct ut_vcq *v, uint32_t position)
{
    return ut_check_op_of(v, ut_vcq_slot(v, position));
}

/* As the engine does. */
static void start(struct ut_vcq *v, uint32_t n)
{
    for (; n > 0; n--) {
        struct ut_slot *slot = ut_vcq_slot(v, v->toq_exec++);
        slot->state = UT_SLOT_POSTED;
        ut_check_start(v, slot);
    }
}

static void complete(struct ut_vcq *v)
{
    for (; v->toq_head != v->toq_exec; v->toq_head++)
        ut_vcq_slot(v, v->toq_head)->state = UT_SLOT_RETIRED;
    v->tcq_head = v->toq_head;
}

/*
 * Which are held
 */

/* Submits so many, each alone. Returns how many were held. */
static unsigned int count_held(const char *place, uint32_t length, unsigned int times)
{
    unsigned int held = 0;

    for (unsigned int i = 0; i < times; i++) {
        uint32_t starts = submit(&vcq, place, length), which = op_at(&vcq, vcq.toq_exec)->which;
        cr_assert_eq(starts, which ? 0 : 1);
        held += which != 0;
        start(&vcq, 1);
        complete(&vcq);
    }
    return held;
}

Test(hold, first_ones_of_a_call_and_then_some)
{
    for (uint32_t i = 1; i <= FIRST; i++) {
        cr_assert_eq(submit(&vcq, &places[0], 8), 0);
        cr_assert_eq(op_at(&vcq, vcq.toq_exec)->which, i);
        cr_assert_eq(op_at(&vcq, vcq.toq_exec)->number, i);
        start(&vcq, 1);
        complete(&vcq);
    }
    unsigned int held = count_held(&places[0], LONG, 3200);
    cr_expect(held > 50 && held < 150, "one in 32: %u", held);
    held = count_held(&places[0], LONG + 1, 12800);
    cr_expect(held > 50 && held < 150, "one in 128: %u", held);
    cr_expect_eq(count_held(&places[1], 8, FIRST), FIRST, "of another call");
}

/* The first 8 of a call linger, and the first 64 have their remote memory copied. */
Test(hold, remote_memory_of_the_first_ones_of_a_call_and_then_some)
{
    for (unsigned int i = 1; i <= FIRST; i++) {
        cr_assert_eq(count_held(&places[0], 8, 1), 1);
        cr_assert_eq(num_entered, i);
        cr_assert_eq(num_first, i < 8 ? i : 8, "%u", i);
        if (i <= 64)
            cr_assert_eq(num_copied, i);
    }
    cr_expect(num_copied > 64 + 10 && num_copied < 64 + 60, "one in 16 of 448: %u", num_copied);
    num_entered = num_copied = 0;
    unsigned int held = count_held(&places[0], 8, 32 * 640);
    cr_expect_eq(num_entered, held);
    cr_expect(num_copied > 15 && num_copied < 80, "one in 16 of %u: %u", held, num_copied);
}

/* The most that had no TCQ entry that was read. */
Test(hold, most_descriptors_are_noted)
{
    static const uint32_t read[] = {0, 1, 0, 3, 0, 0}, most[] = {1, 2, 2, 3, 3, 3};

    for (int i = 0; i < 6; i++) {
        submit(&vcq, &places[0], 8);
        cr_expect_eq(vcq.check->max_toq, most[i], "%d", i);
        vcq.tcq_head += read[i];
    }
}

Test(hold, at_most_so_many)
{
    for (uint32_t i = 1; i <= MOST + 10; i++) {
        uint32_t n = submit(&vcq, &places[0], 8);
        cr_assert_eq(n, i <= MOST ? 0 : 1, "%u", i);
        start(&vcq, n);
    }
    cr_expect_eq(ut_check_num_held(&vcq), MOST);
}

/* Other VCQs compare theirs only while one has held communications. */
Test(hold, others_know_that_a_vcq_holds)
{
    cr_expect(!ut_check_others_have_held(&vcq) && !ut_check_others_have_held(&other));
    submit(&vcq, &places[0], 8);
    submit(&vcq, &places[0], 8);
    cr_expect(!ut_check_others_have_held(&vcq) && ut_check_others_have_held(&other));
    submit(&other, &places[0], 8);
    cr_expect(ut_check_others_have_held(&vcq) && ut_check_others_have_held(&other));
    start(&vcq, 1);
    cr_expect(ut_check_others_have_held(&other), "one is left");
    start(&vcq, 1);
    cr_expect(ut_check_others_have_held(&vcq) && !ut_check_others_have_held(&other));
    ut_check_detach(&other);
    cr_expect(!ut_check_others_have_held(&vcq), "it has ended");
}

/* A poll of another VCQ starts those that its own thread has submitted. */
Test(hold, poll_elsewhere_starts_those_of_the_same_thread)
{
    cr_expect_eq(ut_check_polled_elsewhere(&vcq), 0);
    submit(&vcq, &places[0], 8);
    submit(&vcq, &places[0], 8);
    cr_expect_eq(ut_check_polled_elsewhere(&vcq), 1);
    vcq.check->thread++;
    cr_expect_eq(ut_check_polled_elsewhere(&vcq), 0, "of another thread");
    vcq.check->thread--;
    start(&vcq, 2);
    cr_expect_eq(ut_check_polled_elsewhere(&vcq), 0);
}

/*
 * For how long
 */

/* The background thread looks for the first time, and again after so long. */
static bool is_overdue_after_us(uint64_t us)
{
    cr_assert_not(ut_check_is_overdue(&vcq));
    __atomic_add_fetch(&fake_clock_ns, us * 1000, __ATOMIC_RELAXED);
    return ut_check_is_overdue(&vcq);
}

Test(hold, overdue_after_a_while_without_a_start)
{
    cr_expect_not(is_overdue_after_us(2000), "nothing is held");
    submit(&vcq, &places[0], 8);
    submit(&vcq, &places[0], 8);
    cr_expect_not(is_overdue_after_us(890));
    cr_expect(!ut_check_is_overdue(&vcq) && is_overdue_after_us(15));
    start(&vcq, 1);
    cr_expect_not(is_overdue_after_us(890), "it begins anew");
    cr_expect(is_overdue_after_us(15));
    start(&vcq, 1);
    cr_expect_not(is_overdue_after_us(2000));
}

/* A poll counts only if it was after the first look, and after the last start. */
Test(hold, polls_before_the_first_look_do_not_count)
{
    for (int i = 0; i < 2; i++) {
        submit(&vcq, &places[0], 8);
        op_at(&vcq, vcq.toq_exec)->lingers = fake_clock_ns + 5000000;
        vcq.check->polls++;
        cr_expect(is_overdue_after_us(2000), "the program does not poll");
        vcq.check->polls++;
        cr_expect_not(ut_check_is_overdue(&vcq));
        start(&vcq, 1);
        complete(&vcq);
    }
}

/* What lingers is not late, if the program polls. */
Test(hold, lingering_one_is_overdue_later)
{
    submit(&vcq, &places[0], 8);
    op_at(&vcq, vcq.toq_exec)->lingers = fake_clock_ns + 5000000;
    cr_expect_not(ut_check_is_overdue(&vcq));
    fake_clock_pass_ms(2);
    cr_expect(ut_check_is_overdue(&vcq), "the program does not poll");
    vcq.check->polls++;
    cr_expect_not(ut_check_is_overdue(&vcq));
    fake_clock_pass_ms(3);
    cr_expect(ut_check_is_overdue(&vcq));
}

/* Holds one for so many ms, until the background thread starts it. False: it is not held. */
static bool hold_late(uint64_t ms)
{
    bool held = submit(&vcq, &places[0], 8) == 0;

    if (held) {
        ut_check_is_overdue(&vcq);
        fake_clock_pass_ms(ms);
        cr_assert(ut_check_is_overdue(&vcq));
    }
    start(&vcq, 1);
    complete(&vcq);
    return held;
}

/* A program that does not poll is late by 30 ms, and then by a 32nd of the time. */
Test(hold, nothing_is_held_if_the_program_does_not_poll)
{
    for (int i = 0; i < 3; i++)
        cr_assert(hold_late(10));
    cr_expect(hold_late(10), "30 ms and a 32nd of 30");
    for (int i = 0; i < 5; i++)
        cr_expect_not(hold_late(10));
    fake_clock_pass_ms(260);
    cr_expect_not(hold_late(10), "30 ms and a 32nd of 300 are less than 40");
    fake_clock_pass_ms(40);
    cr_expect(hold_late(10));
    cr_expect_not(hold_late(10));
}

/*
 * What is told to other processes
 */

Test(hold, communications_are_counted_once)
{
    submit(&vcq, &places[0], 8);
    submit(&vcq, &places[0], 8);
    cr_expect(counted_submitted == 2 && counted_completed == 0);
    start(&vcq, 2);
    ut_check_polled(&vcq);
    cr_expect_eq(counted_completed, 0);
    ut_vcq_slot(&vcq, 1000)->state = UT_SLOT_RETIRED;
    ut_check_polled(&vcq);
    ut_check_polled(&vcq);
    cr_expect_eq(counted_completed, 1);
    complete(&vcq); /* the head moves beyond it */
    submit(&vcq, &places[0], 8);
    cr_expect(counted_submitted == 3 && counted_completed == 2);
    start(&vcq, 1);
    complete(&vcq);
    ut_check_detach(&vcq);
    cr_expect(counted_submitted == 3 && counted_completed == 3);
}

/*
 * Memory that is deregistered, and VCQs that end
 */

static uint8_t memory[300];

/* What deregistering bytes 100 to 199 reports beside one that is held and uses these. */
static unsigned int dereg(uint32_t from, uint32_t length, uint32_t stag, uint64_t count)
{
    struct ut_stag_local local = {
        .base = memory + 100, .size = 100, .count = count, .writable = true};
    utofu_stadd_t stadd = ut_stadd_make(UT_STAG_DYNAMIC_BASE + 3, 1, 0x1234);
    struct ut_stag_table table = {
        .hot = {.first = stadd, .size = 100, .delta = (uintptr_t)local.base - stadd},
        .hot_local = &local};

    vcq.stags = &table;
    num_reports = 0;
    submit(&vcq, &places[0], 8);
    struct ut_check_op *op = op_at(&vcq, vcq.toq_exec);
    op->mem = length == UINT32_MAX ? NULL : memory + from;
    op->length = length;
    ut_vcq_slot(&vcq, vcq.toq_exec)->desc.lcl_stadd = ut_stadd_make(stag, 1, 0x1234);
    ut_check_dereg(&vcq, stadd, &places[1]);
    cr_assert(num_reports == 0 || (reported.id == UT_CHECK_DEREG && reported.op == op &&
                                   reported.caller == &places[1]));
    op->mem = NULL;
    start(&vcq, 1);
    complete(&vcq);
    return num_reports;
}

Test(hold, memory_of_what_is_held_is_not_deregistered)
{
    static const struct {
        uint32_t from, length;
        bool reports;
    } table[] = {{100, 100, true}, {150, 1, true},  {0, 300, true},          {99, 1, false},
                 {98, 2, false},   {99, 2, true},   {199, 1, true},          {200, 8, false},
                 {199, 8, true},   {150, 0, false}, {150, UINT32_MAX, false}};
    const uint32_t stag = UT_STAG_DYNAMIC_BASE + 3;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        cr_expect_eq(dereg(table[i].from, table[i].length, stag, 1), table[i].reports, "%zu", i);
    cr_expect_eq(dereg(150, 8, stag + 1, 1), 0, "of another STag");
    cr_expect_eq(dereg(150, 8, stag, 2), 0, "it is registered once more");
}

/* What was held before at the place of the next one does not matter, nor what was started. */
Test(hold, memory_of_what_is_held_no_more_is_deregistered)
{
    const uint32_t stag = UT_STAG_DYNAMIC_BASE + 3;

    for (uint32_t position = 999; position <= 1001; position += 2) {
        *op_at(&vcq, position) = (struct ut_check_op){.mem = memory + 150, .length = 8};
        ut_vcq_slot(&vcq, position)->desc.lcl_stadd = ut_stadd_make(stag, 1, 0x1234);
    }
    cr_assert_eq(vcq.toq_exec, 1000);
    cr_expect_eq(dereg(0, 8, stag, 1), 0);
}

/*
 * Two that use the same memory
 */

struct one {
    enum ut_desc_kind kind;
    uint32_t local, remote; /* offsets of 16 bytes */
};

/* What is reported of the second one, while the first one is held. */
static unsigned int report_second(const struct one two[2])
{
    const utofu_stadd_t stadd = ut_stadd_make(UT_STAG_DYNAMIC_BASE + 3, 1, 0x1200);
    struct ut_stag_local local = {
        .base = memory, .size = sizeof(memory), .count = 1, .writable = true};
    struct ut_stag_table table = {
        .hot = {.first = stadd, .size = sizeof(memory), .delta = (uintptr_t)local.base - stadd},
        .hot_local = &local};

    vcq.stags = &table;
    for (int i = 0; i < 2; i++) {
        struct ut_slot *slot = ut_vcq_slot(&vcq, vcq.toq_tail++);
        slot->desc = (struct ut_desc){.kind = (uint8_t)two[i].kind,
                                      .word = 16,
                                      .lcl_stadd = stadd + two[i].local,
                                      .rmt_stadd = stadd + two[i].remote};
        *ut_check_op_of(&vcq, slot) = (struct ut_check_op){.number = 1};
        num_reports = 0;
        ut_check_examine(&vcq, slot, false);
        cr_assert(i == 1 || num_reports == 0);
    }
    vcq.toq_head = vcq.toq_exec = vcq.toq_tail;
    cr_assert(num_reports == 0 || reported.id == UT_CHECK_LOCAL);
    return num_reports;
}

/* Two gets may fill bytes with the same ones of the peer, as blocks of one call do. */
Test(hold, gets_fill_the_same_memory_with_the_same_bytes)
{
    static const struct {
        struct one two[2];
        unsigned int reports;
    } table[] = {{{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 0, 100}}, 0},
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 8, 108}}, 0},
                 {{{UT_DESC_GET, 8, 108}, {UT_DESC_GET, 0, 100}}, 0},
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 16, 108}}, 0}, /* other memory */
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 15, 108}}, 1},
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 8, 107}}, 1},
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_GET, 0, 200}}, 1},
                 {{{UT_DESC_PUT, 0, 100}, {UT_DESC_GET, 0, 200}}, 1},
                 {{{UT_DESC_GET, 0, 100}, {UT_DESC_PUT, 15, 200}}, 1},
                 /* at both ends */
                 {{{UT_DESC_PUT, 0, 100}, {UT_DESC_GET, 0, 100}}, 2},
                 {{{UT_DESC_GET, 8, 108}, {UT_DESC_PUT, 0, 100}}, 2}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        cr_expect_eq(report_second(table[i].two), table[i].reports, "%zu", i);
}

/* The end of a VCQ with a put in this state, which is at the first of two positions. */
static unsigned int end_with(enum ut_slot_state state, unsigned int flags, bool was_up, bool polled,
                             bool freed)
{
    static struct ut_link link;
    struct ut_slot *slot = ut_vcq_slot(&vcq, vcq.toq_tail++);

    link.was_up = was_up;
    slot->desc = (struct ut_desc){.kind = UT_DESC_PUT, .flags = (uint16_t)flags};
    slot->state = state;
    slot->link = &link;
    ++vcq.toq_exec;
    vcq.tcq_head = polled ? vcq.toq_exec : vcq.toq_head;
    num_reports = 0;
    ut_check_on_free(&vcq, freed ? &places[1] : NULL);
    cr_assert(num_reports == 0 ||
              (reported.slot == slot && reported.caller == (freed ? &places[1] : NULL)));
    cr_assert(num_reports == 0 || reported.id == (freed ? UT_CHECK_FREED : UT_CHECK_EXIT));
    vcq.toq_head = vcq.tcq_head = vcq.toq_exec;
    return num_reports;
}

Test(hold, vcq_ends_after_what_is_under_way)
{
    const unsigned int tcq = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                       mrq = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

    for (int freed = 0; freed < 2; freed++) {
        cr_expect_eq(end_with(UT_SLOT_WAITING, 0, false, false, freed), 1, "never connected");
        cr_expect_eq(end_with(UT_SLOT_WAITING, 0, true, false, freed), 0);
        cr_expect_eq(end_with(UT_SLOT_POSTED, 0, false, false, freed), 0);
        cr_expect_eq(end_with(UT_SLOT_POSTED, mrq, true, false, freed), freed);
        cr_expect_eq(end_with(UT_SLOT_POSTED, mrq, true, true, freed), freed);
        cr_expect_eq(end_with(UT_SLOT_POSTED, tcq, true, false, freed), freed);
        cr_expect_eq(end_with(UT_SLOT_POSTED, tcq, true, true, freed), 0);
        cr_expect_eq(end_with(UT_SLOT_RETIRED, tcq | mrq, true, false, freed), 0);
        cr_expect_eq(end_with(UT_SLOT_FREE, tcq | mrq, true, false, freed), 0);
    }
}

/* Also what is held, if it is more than a NOP. */
Test(hold, vcq_ends_after_what_is_held)
{
    submit(&vcq, &places[0], 8);
    submit(&vcq, &places[0], 8);
    ut_check_on_free(&vcq, &places[1]);
    cr_expect_eq(num_reports, 0);
    ut_vcq_slot(&vcq, vcq.toq_exec + 1)->desc.kind = UT_DESC_PUT;
    ut_check_on_free(&vcq, &places[1]);
    cr_expect(num_reports == 1 && reported.slot == ut_vcq_slot(&vcq, vcq.toq_exec + 1));
}

Test(hold, errors_that_were_not_read_are_told_at_the_end)
{
    ut_check_unread(&vcq, 0, 0);
    cr_expect_eq(num_reports, 0);
    ut_check_unread(&vcq, -5, -6);
    cr_expect(num_reports == 1 && reported.id == UT_CHECK_UNREAD && reported.rc == -5);
    ut_check_unread(&vcq, 0, -6);
    cr_expect(num_reports == 2 && reported.rc == -6);
}
