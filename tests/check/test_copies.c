/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other writers of the remote memory of a put: which puts are compared, which changes are reported,
 * and those beside a put, in its cache lines. VCQs and memory are made up; the linker puts
 * functions of this test in the place of those that know other processes, and report (--wrap).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "check/inner.h"
#include "link/link.h"
#include "peers/peers.h"
#include "util/env.h"

enum { SLOTS = 32, SIZE = 8192, OWN_RANK = 4, PEER = 6, COPIES = 16, END = 2048 };

static uint8_t source[SIZE], memory[SIZE] __attribute__((aligned(256)));

/*
 * In the place of the library
 */

static unsigned int reports, notes;

void __wrap_ut_check_report(const struct ut_check_report *report);
void __wrap_ut_check_report(const struct ut_check_report *report)
{
    cr_assert(report->id == UT_CHECK_REMOTE && !report->other);
    cr_assert_eq(report->op, ut_check_op_of(report->vcq, report->slot));
    reports++;
}

void __wrap_ut_check_note_line(const void *caller);
void __wrap_ut_check_note_line(const void *caller)
{
    cr_assert_eq(caller, (const void *)5);
    notes++;
}

static bool is_unreadable;

bool __wrap_ut_check_is_readable(const uint8_t *p, uint32_t size);
bool __wrap_ut_check_is_readable(const uint8_t *p, uint32_t size)
{
    (void)p, (void)size;
    return !is_unreadable;
}

/* Is only one communication of the job under way? */
static bool one_active;
static uint64_t num_submitted = 1;

bool __wrap_ut_table_has_one_active(const struct ut_job_info *info, uint64_t *submitted);
bool __wrap_ut_table_has_one_active(const struct ut_job_info *info, uint64_t *submitted)
{
    cr_assert_eq(info, ut_check_job);
    *submitted = num_submitted;
    return one_active;
}

/* The peer's memory is in this process, and is read as that of another one. */
static bool peer_is_gone;

pid_t __wrap_ut_table_pid_of(uint32_t rank);
pid_t __wrap_ut_table_pid_of(uint32_t rank)
{
    cr_assert_eq(rank, PEER);
    return peer_is_gone ? 0 : getpid();
}

static struct ut_stag_entry entry = {.base = 0x5000, .size = 64, .info = 1};
static struct ut_cached_stag cached = {.base = 0x5000, .size = 64, .flags_and_generation = 1};
static bool has_entry, is_there;

bool __wrap_ut_link_get_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd,
                                     uint64_t *at, struct ut_cached_stag *known);
bool __wrap_ut_link_get_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd,
                                     uint64_t *at, struct ut_cached_stag *known)
{
    (void)vcq, (void)id, (void)stadd;
    *at = (uintptr_t)&entry;
    *known = cached;
    return has_entry;
}

bool __wrap_ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd);
bool __wrap_ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd)
{
    (void)vcq, (void)id, (void)stadd;
    return is_there;
}

static struct ut_vcq vcqs[2];

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    for (int i = 0; i < 2; i++)
        visit(&vcqs[i], arg);
}

/*
 * Communications
 */

static struct ut_slot toqs[2][SLOTS];
static struct ut_job_info job = {.id = "copies", .rank = OWN_RANK, .size = 9, .local_size = 1};

static void begin(void)
{
    setenv("UTOFU_CHECK", "1", 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_check_open(&job);
    for (int i = 0; i < 2; i++) {
        vcqs[i] = (struct ut_vcq){.toq = toqs[i], .toq_mask = SLOTS - 1, .num_eps = 1};
        cr_assert(ut_check_attach(&vcqs[i]));
    }
    entry.check = ut_stag_entry_check(&entry);
    for (int i = 0; i < SIZE; i++)
        source[i] = (uint8_t)(i * 7 + 3);
}

TestSuite(copies, .init = begin);

enum {
    STRONG = UTOFU_ONESIDED_FLAG_STRONG_ORDER,
    PUT = UT_DESC_PUT,
    UNKNOWN = 1,  /* the address is not known, */
    NO_RANK = 2,  /* or the rank */
    STRANGER = 4, /* another process, by rank and VCQ */
    ALIAS = 8,    /* another STag */
    OTHER = 16,   /* of the other VCQ of this process */
};

struct comm {
    unsigned int kind;
    uint64_t at; /* offset in `memory` */
    uint32_t length;
    unsigned int how, flags;
    enum ut_slot_state state;
};

static struct ut_slot *add(const struct comm *c)
{
    struct ut_vcq *vcq = &vcqs[c->how & OTHER ? 1 : 0];
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail++);

    *slot = (struct ut_slot){
        .state = (uint8_t)c->state,
        .desc = {.kind = (uint8_t)c->kind,
                 .flags = (uint16_t)c->flags,
                 .word = c->length,
                 .rmt_vcq_id = (c->how & STRANGER ? 8ull : 7ull) << 18,
                 .rmt_stadd = ut_stadd_make(UT_STAG_DYNAMIC_BASE + (c->how & ALIAS), 0, c->at)}};
    *ut_check_op_of(vcq, slot) = (struct ut_check_op){.caller = (const void *)5,
                                                      .mem = source,
                                                      .length = c->length,
                                                      .rmt_known = !(c->how & UNKNOWN),
                                                      .rmt_at = (uintptr_t)memory + c->at,
                                                      .rmt_rank = c->how & NO_RANK    ? UT_NO_RANK
                                                                  : c->how & STRANGER ? PEER
                                                                                      : OWN_RANK};
    return slot;
}

static void restart(void)
{
    for (int i = 0; i < 2; i++)
        vcqs[i].toq_head = vcqs[i].toq_exec = vcqs[i].tcq_head = vcqs[i].toq_tail = 30;
    memset(memory, 0, sizeof(memory));
    reports = notes = 0;
}

static struct ut_check_op *op_of(const struct ut_slot *slot)
{
    return ut_check_op_of(&vcqs[0], slot);
}

static bool is_copied(const struct comm *c)
{
    const struct ut_slot *slot = add(c);

    ut_target_copy(&vcqs[0], slot);
    bool copied = op_of(slot)->copy != 0;
    ut_target_forget(op_of(slot));
    cr_assert_eq(op_of(slot)->copy, 0);
    return copied;
}

Test(copies, which_puts_are_compared)
{
    static const struct {
        struct comm comm;
        bool shuffled, copied;
    } all[] = {
        {{PUT, 0, 8, 0, 0, 0}, false, true},
        {{UT_DESC_PIGGYBACK, 0, 8, 0, 0, 0}, false, true},
        {{UT_DESC_GET, 0, 8, 0, 0, 0}, false, false},
        {{UT_DESC_ARMW, 0, 8, 0, 0, 0}, false, false},
        {{UT_DESC_NOP, 0, 8, 0, 0, 0}, false, false},
        {{PUT, 0, 0, 0, 0, 0}, false, false},
        {{PUT, 0, 1, 0, 0, 0}, false, true},
        {{PUT, 0, 8, UNKNOWN, 0, 0}, false, false},
        {{PUT, 0, 8, NO_RANK, 0, 0}, false, false},
        {{PUT, 0, 8, STRANGER, 0, 0}, false, true},
        {{PUT, 0, 8, 0, STRONG, 0}, false, true},
        {{PUT, 0, 8, 0, STRONG, 0}, true, false},
        {{PUT, 0, 8, 0, 0, 0}, true, true},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        restart();
        vcqs[0].shuffled = all[i].shuffled;
        cr_assert_eq(is_copied(&all[i].comm), all[i].copied, "%zu", i);
    }
    vcqs[0].shuffled = false;
    restart();
    is_unreadable = true;
    cr_assert(!is_copied(&all[0].comm));
    is_unreadable = false;
    peer_is_gone = true;
    cr_assert(!is_copied(&all[9].comm));
}

/* Data of an earlier communication may still arrive. */
Test(copies, earlier_communications)
{
    static const struct {
        struct comm earlier;
        bool copied;
    } all[] = {
        {{PUT, 7, 8, 0, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, 0, 0, UT_SLOT_POSTED}, true},
        {{PUT, 7, 8, 0, 0, UT_SLOT_SUBMITTED}, false},
        {{PUT, 7, 8, 0, 0, UT_SLOT_RETIRED}, true},
        {{PUT, 7, 8, 0, 0, UT_SLOT_FREE}, true},
        {{UT_DESC_PIGGYBACK, 7, 8, 0, 0, UT_SLOT_POSTED}, false},
        {{UT_DESC_ARMW, 0, 8, 0, 0, UT_SLOT_POSTED}, false},
        {{UT_DESC_GET, 0, 8, 0, 0, UT_SLOT_POSTED}, true},
        {{UT_DESC_NOP, 0, 8, 0, 0, UT_SLOT_POSTED}, true},
        /* by STADD */
        {{PUT, 7, 8, UNKNOWN, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, UNKNOWN, 0, UT_SLOT_POSTED}, true},
        {{PUT, 8, 8, UNKNOWN | ALIAS, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, UNKNOWN | STRANGER, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, NO_RANK, 0, UT_SLOT_POSTED}, true},
        {{PUT, 8, 8, NO_RANK | ALIAS, 0, UT_SLOT_POSTED}, false},
        /* by address */
        {{PUT, 7, 8, ALIAS, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, ALIAS, 0, UT_SLOT_POSTED}, true},
        {{PUT, 0, 8, STRANGER, 0, UT_SLOT_POSTED}, true},
        /* of another VCQ */
        {{PUT, 7, 8, OTHER, 0, UT_SLOT_POSTED}, false},
        {{PUT, 8, 8, OTHER, 0, UT_SLOT_POSTED}, true},
    };
    static const struct comm mine = {PUT, 0, 8, 0, 0, UT_SLOT_SUBMITTED};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        restart();
        add(&all[i].earlier);
        cr_assert_eq(is_copied(&mine), all[i].copied, "%zu", i);
        cr_assert(ut_trylock(&vcqs[1].lock), "it is free again");
        ut_unlock(&vcqs[1].lock);
    }
    restart();
    const struct ut_slot *slot = add(&mine);
    add(&all[0].earlier); /* a later one */
    ut_target_copy(&vcqs[0], slot);
    cr_assert(op_of(slot)->copy);
    ut_target_forget(op_of(slot));
}

Test(copies, vcqs_that_may_have_an_earlier_one)
{
    static const struct comm mine = {PUT, 0, 8, 0, 0, UT_SLOT_SUBMITTED},
                             other = {PUT, 0, 8, OTHER, 0, UT_SLOT_POSTED};

    restart();
    ut_lock(&vcqs[1].lock);
    cr_assert(!is_copied(&mine), "nobody knows what is on it");
    ut_unlock(&vcqs[1].lock);
    restart();
    cr_assert(is_copied(&mine));
    vcqs[1].num_eps = 0;
    restart();
    add(&other);
    cr_assert(is_copied(&mine), "it is not in use");
    vcqs[1].num_eps = 1;
    restart();
    add(&other);
    vcqs[1].check = NULL;
    cr_assert(is_copied(&mine), "it is not checked");
}

Test(copies, sixteen_at_one_time)
{
    struct ut_slot *slots[COPIES + 1];

    restart();
    for (unsigned int i = 0; i <= COPIES; i++) {
        const struct comm c = {PUT, 8 * i, 8, 0, 0, UT_SLOT_SUBMITTED};
        slots[i] = add(&c);
        ut_target_copy(&vcqs[0], slots[i]);
        cr_assert_eq(op_of(slots[i])->copy, i < COPIES ? i + 1 : 0);
    }
    ut_target_forget(op_of(slots[5]));
    ut_target_copy(&vcqs[0], slots[COPIES]);
    cr_assert_eq(op_of(slots[COPIES])->copy, 6, "its place is free");
    for (unsigned int i = 0; i < COPIES; i++) { /* each has its own copy */
        reports = 0;
        if (i == 5)
            continue;
        memory[8 * i]++;
        ut_target_compare(&vcqs[0], slots[i]);
        cr_assert_eq(reports, 1);
    }
}

/*
 * Comparing
 */

/* What is reported of a put of `length` bytes, of which one is changed meanwhile to `value`. */
static unsigned int change(uint32_t length, unsigned int how, uint64_t at, unsigned int value)
{
    const struct comm c = {PUT, 256, length, how, 0, UT_SLOT_SUBMITTED};

    restart();
    const struct ut_slot *slot = add(&c);
    ut_target_copy(&vcqs[0], slot);
    cr_assert(op_of(slot)->copy);
    memory[256 + at] = (uint8_t)value;
    ut_target_compare(&vcqs[0], slot);
    cr_assert_eq(op_of(slot)->copy, 0, "it is used no more");
    ut_target_compare(&vcqs[0], slot);
    return reports;
}

Test(copies, changes_are_reported)
{
    enum { LONGER = 2 * END + 100 };

    cr_assert_eq(change(8, 0, 0, 0), 0);
    for (uint64_t at = 0; at < 8; at++)
        cr_assert_eq(change(8, 0, at, 200), 1);
    cr_assert_eq(change(8, 0, 8, 200), 0);
    cr_assert_eq(change(8, 0, (uint64_t)-1, 200), 0);
    for (uint64_t at = 0; at < 8; at++)
        cr_assert_eq(change(8, 0, at, source[at]), 0, "what the put writes");
    cr_assert_eq(change(8, 0, 1, source[0]), 1);
    /* of a long put its ends */
    cr_assert_eq(change(2 * END, 0, END, 200), 1);
    cr_assert_eq(change(LONGER, 0, END - 1, 200), 1);
    cr_assert_eq(change(LONGER, 0, END, 200), 0);
    cr_assert_eq(change(LONGER, 0, LONGER - END - 1, 200), 0);
    cr_assert_eq(change(LONGER, 0, LONGER - END, 200), 1);
    cr_assert_eq(change(LONGER, 0, LONGER - 1, 200), 1);
    cr_assert_eq(change(LONGER, 0, LONGER - 1, source[LONGER - 1]), 0);
    cr_assert_eq(change(LONGER, 0, LONGER - END, source[LONGER - END]), 0);
}

/* The memory of another process, if it is still there. */
Test(copies, changes_of_a_peers_memory)
{
    cr_assert_eq(change(8, STRANGER, 0, 200), 0, "it may be other memory by now");
    is_there = true;
    cr_assert_eq(change(8, STRANGER, 0, 200), 1);
    is_there = false;
    has_entry = true;
    cr_assert_eq(change(8, STRANGER, 0, 200), 1, "its table has it");
    struct ut_cached_stag good = cached;
    cached.base++;
    cr_assert_eq(change(8, STRANGER, 0, 200), 0);
    cached = good;
    cached.size++;
    cr_assert_eq(change(8, STRANGER, 0, 200), 0);
    cached = good;
    cached.flags_and_generation++;
    cr_assert_eq(change(8, STRANGER, 0, 200), 0);
    cached = good;
    entry.check++;
    cr_assert_eq(change(8, STRANGER, 0, 200), 0);
}

Test(copies, memory_that_is_there)
{
    static const struct comm own = {PUT, 0, 8, 0, 0, 0}, unknown = {PUT, 0, 8, UNKNOWN, 0, 0},
                             no_rank = {PUT, 0, 8, NO_RANK, 0, 0},
                             peer = {PUT, 0, 8, STRANGER, 0, 0};

    restart();
    cr_assert(ut_target_is_there(&vcqs[0], add(&own)));
    cr_assert(!ut_target_is_there(&vcqs[0], add(&peer)));
    is_there = true;
    cr_assert(ut_target_is_there(&vcqs[0], add(&peer)));
    cr_assert(!ut_target_is_there(&vcqs[0], add(&unknown)));
    cr_assert(!ut_target_is_there(&vcqs[0], add(&no_rank)));
}

/*
 * Beside a put
 */

/* The notes about a put to bytes 272 to 279, of whose surroundings one byte is changed. */
static unsigned int change_beside(uint64_t at, uint32_t length, bool before, bool after,
                                  uint64_t submitted)
{
    const struct comm c = {PUT, 272, length, 0, 0, UT_SLOT_SUBMITTED};

    restart();
    const struct ut_slot *slot = add(&c);
    one_active = before;
    num_submitted = 1;
    ut_target_copy(&vcqs[0], slot);
    cr_assert(op_of(slot)->copy);
    memory[at]++;
    one_active = after;
    num_submitted = submitted;
    ut_target_compare(&vcqs[0], slot);
    return notes;
}

Test(copies, changes_beside_a_put)
{
    static const uint64_t in_line[] = {256, 271, 280, 511}, outside[] = {255, 512, 272, 279};

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(change_beside(in_line[i], 8, true, true, 1), 1, "%d", i);
        cr_assert_eq(reports, 0);
        cr_assert_eq(change_beside(outside[i], 8, true, true, 1), 0, "%d", i);
    }
    cr_assert_eq(change_beside(520, 240, true, true, 1), 0, "to the end of its line");
    cr_assert_eq(change_beside(520, 241, true, true, 1), 1, "two lines");
    cr_assert_eq(change_beside(300, 8, false, true, 1), 0, "others are under way");
    cr_assert_eq(change_beside(300, 8, true, false, 1), 0);
    cr_assert_eq(change_beside(300, 8, true, true, 2), 0, "or were meanwhile");
    vcqs[0].shuffled = true;
    cr_assert_eq(change_beside(300, 8, true, true, 1), 0);
}
