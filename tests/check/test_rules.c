/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for held communications, each for a communication or two that break it, and for those
 * that nearly do. VCQs are made up; the linker puts functions of this test in the place of those
 * that find memory and peers, and report (--wrap).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/limit.h"
#include "check/inner.h"
#include "link/link.h"
#include "peers/peers.h"
#include "stag/stag.h"
#include "util/env.h"

enum { SLOTS = 8, SIZE = 4096, AT = 0x100000, OWN_RANK = 4 };

static uint8_t memory[SIZE] __attribute__((aligned(256)));

/*
 * In the place of the library
 */

static char found[200];
static struct ut_check_report last;

void __wrap_ut_check_report(const struct ut_check_report *report);
void __wrap_ut_check_report(const struct ut_check_report *report)
{
    strcat(strcat(found, *found ? " " : ""), ut_check_finding(report->id)->id);
    last = *report;
}

static bool is_unmapped, is_unreadable;

bool __wrap_ut_check_is_mapped(const uint8_t *p, uint32_t size);
bool __wrap_ut_check_is_mapped(const uint8_t *p, uint32_t size)
{
    (void)p, (void)size;
    return !is_unmapped;
}

bool __wrap_ut_check_is_readable(const uint8_t *p, uint32_t size);
bool __wrap_ut_check_is_readable(const uint8_t *p, uint32_t size)
{
    (void)p, (void)size;
    return !is_unreadable;
}

/* The local STADDs are those from 1 on: offsets in `memory`, plus 1. */
static bool writes;
static utofu_stadd_t own_stadd; /* of remote memory that this process has; 0: it has none */

enum ut_stag_result __wrap_ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd,
                                        uint64_t length, bool write, struct ut_stag_local **out,
                                        uint8_t **at);
enum ut_stag_result __wrap_ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd,
                                        uint64_t length, bool write, struct ut_stag_local **out,
                                        uint8_t **at)
{
    (void)table, (void)out;
    writes = write;
    *at = memory + (stadd & 0xfff) - 1;
    if (stadd >> 12)
        return stadd >= own_stadd && own_stadd ? UT_STAG_OK : UT_STAG_BAD_STADD;
    return stadd > 0 && stadd - 1 + length <= SIZE ? UT_STAG_OK : UT_STAG_BAD_STADD;
}

static struct ut_vcq vcqs[2];

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    for (int i = 0; i < 2; i++)
        visit(&vcqs[i], arg);
}

/* The addresses of remote memory, if they are known: AT plus the offset of the STADD. */
static bool knows_addresses, knows_ranks, is_there = true;
static int owner = -1;

bool __wrap_ut_link_stadd_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd,
                                    uint64_t length, uint64_t *addr);
bool __wrap_ut_link_stadd_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t id, utofu_stadd_t stadd,
                                    uint64_t length, uint64_t *addr)
{
    (void)vcq, (void)id, (void)length;
    *addr = AT + ut_stadd_offset(stadd);
    return knows_addresses;
}

int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain);
int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain)
{
    *certain = knows_ranks;
    return vcq->cq / 2; /* two CQs of each process */
}

int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer);
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    (void)vcq;
    peer->rank = (uint32_t)owner;
    return owner < 0 ? -EAGAIN : 0;
}

bool __wrap_ut_target_is_there(struct ut_vcq *vcq, const struct ut_slot *slot);
bool __wrap_ut_target_is_there(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    (void)vcq, (void)slot;
    return is_there;
}

static struct ut_process process;

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

/*
 * Communications
 */

static struct ut_slot toqs[2][SLOTS];
static struct ut_stag_table stags;
static struct ut_job_info job = {.id = "rules", .rank = OWN_RANK, .size = 9, .local_size = 1};

static utofu_vcq_id_t id_of(unsigned int cq)
{
    struct ut_vcq_ident ident = {.tni = 2, .cq = (uint16_t)cq, .cmp = 1};

    return ut_vcq_id_pack(&ident);
}

static void begin(void)
{
    setenv("UTOFU_CHECK", "1", 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_check_open(&job);
    process.coords.at[0] = 1; /* not that of the ids */
    for (int i = 0; i < 2; i++) {
        vcqs[i] = (struct ut_vcq){.toq = toqs[i],
                                  .toq_mask = SLOTS - 1,
                                  .num_eps = 1,
                                  .stags = &stags,
                                  .id = id_of(20 + (unsigned int)i)};
        cr_assert(ut_check_attach(&vcqs[i]));
    }
    for (int i = 0; i < SIZE; i++)
        memory[i] = (uint8_t)(i * 7 + i / 256);
}

TestSuite(rules, .init = begin);

enum {
    STRONG = UTOFU_ONESIDED_FLAG_STRONG_ORDER,
    PAD = UTOFU_ONESIDED_FLAG_PADDING | UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
    PUT = UT_DESC_PUT,
    PIG = UT_DESC_PIGGYBACK,
    GET = UT_DESC_GET,
    ARMW = UT_DESC_ARMW,
    NOP = UT_DESC_NOP,
    OTHER = 1,     /* of the other VCQ of this process */
    PATH = 2,      /* by another path */
    TWIN = 4,      /* to the other VCQ of the target */
    REMOTE = 8,    /* to a VCQ of another process */
    RESERVED = 16, /* with a reserved STag */
    ALIAS = 32,    /* with another STag */
};

struct comm {
    unsigned int kind, flags, how;
    uint64_t at;     /* offset of the remote memory */
    uint32_t length; /* in bytes */
    uint64_t local;  /* offset of the local memory; of a piggyback put: the byte it writes */
};

static struct ut_slot *add(const struct comm *c)
{
    struct ut_vcq *vcq = &vcqs[c->how & OTHER ? 1 : 0];
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail++);
    uint32_t stag = c->how & RESERVED ? UT_STAG_DYNAMIC_BASE - 1
                    : c->how & ALIAS  ? UT_STAG_DYNAMIC_BASE + 1
                                      : UT_STAG_DYNAMIC_BASE;

    *slot = (struct ut_slot){.state = UT_SLOT_SUBMITTED,
                             .desc = {.kind = (uint8_t)c->kind,
                                      .flags = (uint16_t)c->flags,
                                      .word = c->length | (c->how & PATH ? 1u << 28 : 0),
                                      .rmt_vcq_id = id_of(c->how & TWIN     ? 7
                                                          : c->how & REMOTE ? 8
                                                                            : 6),
                                      .rmt_stadd = ut_stadd_make(stag, 0, c->at)}};
    if (c->kind == PUT || c->kind == GET)
        slot->desc.lcl_stadd = c->local + 1;
    else if (c->kind == PIG)
        memset(slot->desc.data, (int)c->local, UT_MAX_PIGGYBACK);
    return slot;
}

static const char *examine(const struct comm *c)
{
    struct ut_slot *slot = add(c);

    *found = '\0';
    ut_check_examine(&vcqs[c->how & OTHER ? 1 : 0], slot, true);
    return found;
}

static void restart(void)
{
    for (int i = 0; i < 2; i++)
        vcqs[i].toq_head = vcqs[i].toq_exec = vcqs[i].tcq_head = vcqs[i].toq_tail = 6;
}

struct pair {
    struct comm earlier, later;
    const char *want;
};

static void check_pairs(const struct pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        restart();
        cr_assert_str_eq(examine(&pairs[i].earlier), "", "%zu", i);
        cr_assert_str_eq(examine(&pairs[i].later), pairs[i].want, "%zu: %s", i, found);
        if (*pairs[i].want) {
            cr_assert(last.vcq == &vcqs[pairs[i].later.how & OTHER ? 1 : 0] &&
                      last.other_vcq == &vcqs[pairs[i].earlier.how & OTHER ? 1 : 0]);
            cr_assert(last.op == ut_check_op_of(last.vcq, last.slot) &&
                      last.other_op == ut_check_op_of(last.other_vcq, last.other));
            cr_assert_eq(last.slot->desc.kind, pairs[i].later.kind);
            cr_assert_eq(last.other->desc.kind, pairs[i].earlier.kind);
        }
    }
}
#define CHECK_PAIRS(pairs) check_pairs(pairs, sizeof(pairs) / sizeof((pairs)[0]))

Test(rules, remote_memory_in_any_order)
{
    static const struct pair pairs[] = {
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 8, 8, 64}, ""},
        {{PUT, 0, 0, 8, 8, 0}, {PUT, 0, 0, 0, 8, 64}, ""},
        {{PUT, 0, 0, 8, 8, 0}, {PUT, 0, 0, 0, 9, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 0, 0, 64}, ""},
        {{PUT, 0, 0, 0, 8, 0}, {PIG, 0, 0, 0, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {NOP, 0, 0, 0, 8, 64}, ""},
        {{NOP, 0, 0, 0, 8, 0}, {PUT, 0, 0, 0, 8, 64}, ""},
        /* an order */
        {{PUT, 0, 0, 0, 8, 0}, {PUT, STRONG, 0, 0, 8, 64}, ""},
        {{PUT, STRONG, 0, 0, 8, 0}, {PUT, 0, 0, 0, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, STRONG, PATH, 0, 8, 64}, "unordered"},
        {{PUT, 0, PATH, 0, 8, 0}, {PUT, STRONG, PATH, 0, 8, 64}, ""},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, STRONG, OTHER, 0, 8, 64}, "unordered"},
        /* another VCQ of the target, whose memory has an unknown address */
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, TWIN, 0, 8, 64}, ""},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, ALIAS, 0, 8, 64}, ""},
        /* the same bytes */
        {{PUT, 0, 0, 0, 8, 32}, {PUT, 0, 0, 0, 8, 32}, ""},
        {{PUT, 0, 0, 4, 8, 36}, {PUT, 0, 0, 0, 8, 32}, ""},
        {{PUT, 0, 0, 4, 8, 37}, {PUT, 0, 0, 0, 8, 32}, "unordered"},
        {{PUT, 0, 0, 0, 8, 32}, {PUT, 0, 0, 4, 8, 36}, ""},
        {{PIG, 0, 0, 0, 8, 5}, {PIG, 0, 0, 3, 8, 5}, ""},
        {{PIG, 0, 0, 0, 8, 5}, {PIG, 0, 0, 3, 8, 6}, "unordered"},
        /* a get */
        {{GET, 0, 0, 0, 16, 0}, {GET, 0, 0, 4, 16, 64}, ""},
        {{PUT, 0, 0, 0, 16, 0}, {GET, 0, 0, 0, 16, 64}, "unordered"},
        {{PUT, 0, 0, 0, 16, 0}, {GET, 0, 0, 8, 8, 64}, ""}, /* of a word: the old or the new one */
        {{PUT, 0, 0, 0, 16, 0}, {GET, 0, 0, 9, 7, 64}, ""},
        {{PUT, 0, 0, 0, 16, 0}, {GET, 0, 0, 7, 8, 64}, "unordered"},
        {{GET, 0, 0, 0, 8, 0}, {PUT, 0, 0, 0, 16, 64}, "unordered"},
        {{GET, 0, 0, 0, 8, 0}, {ARMW, 0, 0, 0, 8, 0}, ""},
        {{GET, 0, 0, 0, 16, 0}, {ARMW, 0, 0, 0, 8, 0}, "armw-mixed"},
        /* ARMWs */
        {{ARMW, 0, 0, 0, 8, 0}, {ARMW, 0, 0, 0, 8, 0}, ""},
        {{ARMW, 0, 0, 0, 8, 0}, {ARMW, 0, 0, 4, 4, 0}, "armw-size"},
        {{ARMW, 0, 0, 0, 8, 0}, {ARMW, STRONG, 0, 4, 4, 0}, ""},
        {{ARMW, 0, 0, 0, 8, 0}, {PUT, 0, 0, 0, 8, 0}, "armw-mixed"},
        {{PUT, 0, 0, 0, 8, 0}, {ARMW, 0, 0, 0, 8, 0}, "armw-mixed"},
        {{ARMW, 0, 0, 0, 8, 0}, {GET, 0, 0, 0, 16, 0}, "armw-mixed"},
    };

    CHECK_PAIRS(pairs);
}

Test(rules, padding_of_a_cache_line)
{
    static const struct pair pairs[] = {
        {{PIG, PAD, 0, 0, 8, 5}, {PUT, 0, 0, 248, 8, 64}, "padding-line"},
        {{PIG, PAD, 0, 0, 8, 5}, {PUT, 0, 0, 256, 8, 64}, ""},
        {{PIG, PAD, 0, 256, 8, 5}, {PUT, 0, 0, 248, 8, 64}, ""},
        {{PIG, PAD, 0, 250, 8, 5}, {PUT, 0, 0, 504, 8, 64}, "padding-line"}, /* two lines */
        {{PIG, PAD, 0, 0, 8, 5}, {PUT, STRONG, 0, 248, 8, 64}, ""},
        {{PIG, PAD, 0, 0, 8, 5}, {GET, 0, 0, 248, 8, 64}, ""},
        {{PIG, PAD, 0, 0, 8, 5}, {ARMW, 0, 0, 248, 8, 64}, "padding-line"},
        {{PUT, 0, 0, 248, 8, 64}, {PIG, PAD, 0, 0, 8, 5}, "padding-line"},
        {{PUT, 0, 0, 248, 8, 64}, {PIG, PAD | STRONG, 0, 0, 8, 5}, "padding-line"},
        {{GET, 0, 0, 248, 8, 64}, {PIG, PAD, 0, 0, 8, 5}, ""},
        {{PUT, 0, 0, 248, 8, 64}, {PIG, 0, 0, 0, 8, 5}, ""},
        {{PUT, 0, RESERVED, 248, 8, 64}, {PIG, PAD, RESERVED, 0, 8, 5}, ""},
        {{PUT, 0, TWIN, 248, 8, 64}, {PIG, PAD, 0, 0, 8, 5}, ""},
    };

    CHECK_PAIRS(pairs);
}

Test(rules, local_memory)
{
    static const struct pair pairs[] = {
        {{PUT, 0, 0, 0, 8, 0}, {GET, 0, 0, 64, 8, 7}, "local-overlap"},
        {{PUT, 0, 0, 0, 8, 0}, {GET, 0, 0, 64, 8, 8}, ""},
        {{GET, 0, 0, 0, 8, 0}, {PUT, 0, 0, 64, 8, 7}, "local-overlap"},
        {{GET, 0, 0, 0, 8, 0}, {PUT, STRONG, 0, 64, 8, 7}, "local-overlap"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 64, 8, 7}, ""},
        {{GET, 0, 0, 0, 8, 0}, {GET, 0, 0, 64, 8, 7}, "local-overlap"},
        {{GET, 0, 0, 0, 8, 0}, {GET, STRONG, 0, 64, 8, 7}, ""},
        {{GET, 0, 0, 0, 8, 0}, {GET, STRONG, OTHER, 64, 8, 7}, "local-overlap"},
        /* the same bytes */
        {{GET, 0, 0, 0, 16, 8}, {GET, 0, 0, 4, 16, 12}, ""},
        {{GET, 0, 0, 0, 16, 8}, {GET, 0, 0, 4, 16, 13}, "local-overlap"},
        {{GET, 0, 0, 0, 16, 8}, {GET, 0, REMOTE, 4, 16, 12}, "local-overlap"},
        {{ARMW, 0, 0, 0, 8, 8}, {GET, 0, 0, 64, 8, 0}, ""},
        {{PIG, 0, 0, 0, 8, 0}, {GET, 0, 0, 64, 8, 0}, ""},
        {{PUT, 0, 0, 0, 0, 4}, {GET, 0, 0, 64, 8, 0}, ""},
    };

    CHECK_PAIRS(pairs);
}

/* The addresses are known: two STADDs, and two VCQs of a process, have the same memory. */
Test(rules, memory_by_its_address)
{
    static const struct pair pairs[] = {
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, ALIAS, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, TWIN, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, TWIN, 8, 8, 64}, ""},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, REMOTE, 0, 8, 64}, ""},
        {{PUT, 0, RESERVED, 248, 8, 64}, {PIG, PAD, RESERVED, 0, 8, 5}, "padding-line"},
    };
    static const struct pair gone[] = {
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, ALIAS, 7, 8, 64}, ""},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, TWIN, 7, 8, 64}, ""},
    };
    static const struct pair without_ranks[] = {
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, 0, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, ALIAS, 7, 8, 64}, "unordered"},
        {{PUT, 0, 0, 0, 8, 0}, {PUT, 0, TWIN, 7, 8, 64}, ""},
    };

    knows_addresses = knows_ranks = true;
    CHECK_PAIRS(pairs);
    is_there = false;
    CHECK_PAIRS(gone);
    is_there = true;
    knows_ranks = false;
    CHECK_PAIRS(without_ranks);
}

static const struct ut_check_op *examined(const struct comm *c)
{
    restart();
    examine(c);
    return ut_check_op_of(&vcqs[0], ut_vcq_slot(&vcqs[0], 6));
}

Test(rules, what_is_known_of_remote_memory)
{
    static const struct comm put = {PUT, 0, 0, 40, 8, 0}, nop = {NOP, 0, 0, 40, 8, 0};
    const struct ut_check_op *op;

    op = examined(&put);
    cr_assert(!op->rmt_known && op->rmt_rank == UT_NO_RANK);
    knows_addresses = true;
    op = examined(&nop);
    cr_assert(!op->rmt_known);
    op = examined(&put);
    cr_assert(op->rmt_known && op->rmt_at == AT + 40 && op->rmt_rank == UT_NO_RANK);
    owner = 5;
    op = examined(&put);
    cr_assert(op->rmt_rank == UT_NO_RANK, "of another node, which is not asked");
    process.coords.at[0] = 0;
    op = examined(&put);
    cr_assert(op->rmt_rank == 5, "of this node");
    owner = -1;
    op = examined(&put);
    cr_assert(op->rmt_rank == UT_NO_RANK);
    knows_ranks = true;
    owner = 5;
    op = examined(&put);
    cr_assert(op->rmt_rank == 3);
}

/* A VCQ of this process has the memory. */
Test(rules, own_remote_memory)
{
    static const struct comm put = {PUT, 0, 0, 40, 8, 0};

    knows_addresses = knows_ranks = true;
    own_stadd = ut_stadd_make(UT_STAG_DYNAMIC_BASE, 0, 40);
    for (int i = 0; i < 2; i++) {
        process.coords.at[0] = 0;
        vcqs[0].id = vcqs[1].id = id_of(20);
        vcqs[i].id = id_of(6);
        const struct ut_check_op *op = examined(&put);
        cr_assert(op->rmt_known && op->rmt_rank == OWN_RANK, "%d", i);
        cr_assert_eq(op->rmt_at, (uintptr_t)memory + 39);
        cr_assert(ut_trylock(&vcqs[1].lock), "the lock is free");
        ut_unlock(&vcqs[1].lock);
        process.coords.at[0] = 1;
        op = examined(&put);
        cr_assert(op->rmt_rank == 3, "of another node");
    }
    process.coords.at[0] = 0;
    vcqs[1].num_eps = 0;
    cr_assert_eq(examined(&put)->rmt_rank, 3, "a VCQ that is not in use");
    vcqs[1].num_eps = 1;
    own_stadd++;
    cr_assert_eq(examined(&put)->rmt_rank, 3, "other memory");
}

/* Communications of two VCQs are compared if nobody is in a call on the other one. */
Test(rules, other_vcqs)
{
    static const struct comm one = {PUT, 0, OTHER, 0, 8, 0}, two = {PUT, 0, 0, 0, 8, 64};

    restart();
    examine(&one);
    cr_assert_str_eq(examine(&two), "unordered");
    cr_assert(ut_trylock(&vcqs[1].lock), "it is free again");
    restart();
    vcqs[1].toq_tail++;
    cr_assert_str_eq(examine(&two), "", "it is held");
    ut_unlock(&vcqs[1].lock);
    restart();
    examine(&one);
    vcqs[1].num_eps = 0;
    cr_assert_str_eq(examine(&two), "", "it is not in use");
    vcqs[1].num_eps = 1;
    *found = '\0';
    ut_check_examine(&vcqs[0], ut_vcq_slot(&vcqs[0], 6), false);
    cr_assert_str_eq(found, "", "no other VCQ holds any");
}

/*
 * One communication
 */

Test(rules, flags_and_local_memory_of_one)
{
    static const struct {
        struct comm comm;
        const char *want;
    } all[] = {
        {{PUT, UTOFU_ONESIDED_FLAG_PADDING, 0, 0, 8, 0}, "padding-flag"},
        {{PUT, PAD, 0, 0, 8, 0}, "padding-flag"},
        {{PIG, UTOFU_ONESIDED_FLAG_PADDING, 0, 0, 8, 0}, "padding-flag"},
        {{PIG, UTOFU_ONESIDED_FLAG_CACHE_INJECTION, 0, 0, 8, 0}, ""},
        {{PIG, PAD, 0, 0, 8, 0}, ""},
        {{PUT, 0, 0, 0, 8, SIZE - 7}, "local-stadd"},
        {{GET, 0, 0, 0, 8, SIZE - 7}, "local-stadd"},
        {{PUT, 0, 0, 0, 8, SIZE - 8}, ""},
        {{PIG, 0, 0, 0, 8, SIZE - 7}, ""},
        {{ARMW, 0, 0, 0, 8, SIZE - 7}, ""},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        restart();
        cr_assert_str_eq(examine(&all[i].comm), all[i].want, "%zu", i);
        restart();
        *found = '\0';
        ut_check_examine_submitted(&vcqs[0], add(&all[i].comm));
        cr_assert_str_eq(found, all[i].want, "%zu", i);
        if (*all[i].want)
            cr_assert(last.vcq == &vcqs[0] && !last.other && !last.other_op && !last.other_vcq);
    }
}

Test(rules, memory_that_is_not_mapped)
{
    static const struct comm put = {PUT, 0, 0, 0, 8, 16}, none = {PUT, 0, 0, 0, 0, 16};
    const struct ut_check_op *op;

    op = examined(&put);
    cr_assert(op->mem == memory + 16 && op->length == 8 && !op->gone && !writes);
    cr_assert_eq(op->sum, ut_check_sum(memory + 16, 8, op->number));
    is_unreadable = true;
    op = examined(&put);
    cr_assert(op->gone && *found == '\0', "memory that the program protects from itself");
    is_unmapped = true;
    op = examined(&put);
    cr_assert(op->gone);
    cr_assert_str_eq(found, "unmapped");
    op = examined(&none);
    cr_assert(!op->gone && *found == '\0', "no bytes");
}

static const char *examine_again(void)
{
    *found = '\0';
    ut_check_examine_again(&vcqs[0], ut_vcq_slot(&vcqs[0], 6));
    return found;
}

Test(rules, memory_that_changes)
{
    static const struct comm put = {PUT, 0, 0, 0, 8, 16}, get = {GET, 0, 0, 0, 8, 16},
                             none = {PUT, 0, 0, 0, 0, 16}, wrong = {PUT, 0, 0, 0, 8, SIZE};

    examined(&put);
    cr_assert_str_eq(examine_again(), "");
    memory[23]++;
    cr_assert_str_eq(examine_again(), "source-written");
    memory[23]--;
    cr_assert_str_eq(examine_again(), "");
    memory[24]++;
    cr_assert_str_eq(examine_again(), "");
    is_unreadable = true;
    memory[23]++;
    cr_assert_str_eq(examine_again(), "");
    is_unreadable = false;
    is_unmapped = true;
    cr_assert_str_eq(examine_again(), "unmapped");
    cr_assert_str_eq(examine_again(), "", "it is told once");
    is_unmapped = false;
    examined(&get);
    cr_assert(writes);
    memory[16]++;
    cr_assert_str_eq(examine_again(), "target-written");
    is_unmapped = true;
    examined(&none);
    cr_assert_str_eq(examine_again(), "");
    examined(&wrong);
    cr_assert_str_eq(examine_again(), "");
}

/* A get that an earlier one lets find other bytes: those are no change by the program. */
Test(rules, gets_that_fill_the_same_memory)
{
    static const struct comm first = {GET, 0, 0, 0, 8, 16}, after = {GET, STRONG, 0, 64, 8, 23},
                             beside = {GET, STRONG, 0, 64, 8, 24}, put = {PUT, 0, 0, 0, 8, 16};
    struct ut_check_op *op = ut_check_op_of(&vcqs[0], ut_vcq_slot(&vcqs[0], 7));

    restart();
    examine(&first);
    cr_assert(!ut_check_op_of(&vcqs[0], ut_vcq_slot(&vcqs[0], 6))->shared);
    examine(&after);
    cr_assert(op->shared);
    memory[25]++;
    *found = '\0';
    ut_check_examine_again(&vcqs[0], ut_vcq_slot(&vcqs[0], 7));
    cr_assert_str_eq(found, "");
    restart();
    examine(&first);
    examine(&beside);
    cr_assert(!op->shared, "other memory");
    restart();
    examine(&put);
    examine(&after);
    cr_assert(!op->shared, "of a put");
    restart();
    examine(&first);
    ut_vcq_slot(&vcqs[0], 6)->state = UT_SLOT_RETIRED;
    examine(&after);
    cr_assert(!op->shared, "of one that is complete");
}

Test(rules, memory_of_one_that_is_not_held)
{
    static const struct comm put = {PUT, 0, 0, 0, 8, 16}, get = {GET, 0, 0, 0, 8, 16},
                             wrong = {GET, 0, 0, 0, 8, SIZE};
    const struct ut_check_op *op = ut_check_op_of(&vcqs[0], ut_vcq_slot(&vcqs[0], 6));

    restart();
    ut_check_note_local(&vcqs[0], add(&get));
    cr_assert(op->gone && op->mem == memory + 16 && op->length == 8 && writes);
    restart();
    ut_check_note_local(&vcqs[0], add(&put));
    cr_assert(op->gone && !op->mem);
    restart();
    ut_check_note_local(&vcqs[0], add(&wrong));
    cr_assert(op->gone && !op->mem);
}
