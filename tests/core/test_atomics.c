/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ARMWs of one VCQ for another one (engine/armw.c), posted one request at a time: by the device, by
 * the target's CPU, and by this CPU in mapped memory. The test is the provider, which executes or
 * refuses what it is asked for, and another process that changes the word meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "armw/armw.h"
#include "engine/posting.h"
#include "link/link.h"
#include "stag/stag.h"

enum { TOQ = 16, SLOT = 5, PROVIDER = 1, LKEY = 77, RKEY = 88, EDATA = 9, BASE = 0x1000 };

static struct ut_vcq vcq;
static struct ut_link to_peer;
static _Alignas(16) uint64_t memory[2]; /* of the peer: at the STADD BASE */
static uint64_t before[2], answers[TOQ];

/*
 * The peer's memory
 */

static int find_rc;
static unsigned int num_found, num_invalidated;

int __wrap_ut_link_find_memory_slow(struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                                    bool write, bool no_reread, uint64_t *addr, uint32_t *rkey);
int __wrap_ut_link_find_memory_slow(struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                                    bool write, bool no_reread, uint64_t *addr, uint32_t *rkey)
{
    cr_assert(link == &to_peer && write && (length == 4 || length == 8));
    cr_assert_eq(no_reread, vcq.toq[SLOT].stag_reread);
    *addr = (uintptr_t)memory + (stadd - BASE);
    *rkey = RKEY;
    num_found++;
    return find_rc;
}

void __wrap_ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd);
void __wrap_ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd)
{
    cr_assert(link == &to_peer && stadd == vcq.toq[SLOT].desc.rmt_stadd);
    num_invalidated++;
}

struct ut_failure __wrap_ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                             uint64_t length, bool write);
struct ut_failure __wrap_ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                             uint64_t length, bool write)
{
    (void)link, (void)stadd, (void)length;
    cr_assert(write);
    return (struct ut_failure){0};
}

uint32_t __wrap_ut_region_lkey(const struct ut_region *region, int provider);
uint32_t __wrap_ut_region_lkey(const struct ut_region *region, int provider)
{
    cr_assert(region == (void *)answers && provider == PROVIDER);
    return LKEY;
}

/*
 * The provider
 */

static struct prov_atomic asked;
static unsigned int num_atomics, num_sends;
static int atomic_rc, send_rc;
static union {
    struct ut_msg_head head;
    struct ut_msg_armw armw;
    struct ut_msg_notice notice;
} sent;
static size_t sent_size;
static unsigned int sent_flags;
static uint64_t sent_cookie;
static bool is_mapped;

static int post_atomic(struct prov_conn *conn, const struct prov_atomic *a)
{
    cr_assert(conn == (void *)&to_peer);
    asked = *a;
    num_atomics++;
    return atomic_rc;
}

static int send_message(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
                        uint64_t cookie)
{
    cr_assert(conn == (void *)&to_peer && size <= sizeof(sent));
    memcpy(&sent, data, size);
    sent_size = size;
    sent_flags = flags;
    sent_cookie = cookie;
    num_sends++;
    return send_rc;
}

static void *map_word(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey)
{
    cr_assert(conn == (void *)&to_peer && rkey == RKEY && (length == 4 || length == 8));
    return is_mapped ? (void *)(uintptr_t)rmt : NULL;
}

static struct prov_ops ops = {.atomic = post_atomic, .send = send_message, .direct = map_word};

/* The device executes what it was asked for last. */
static void execute(void)
{
    uint64_t *word = (uint64_t *)(uintptr_t)asked.rmt, old = *word;

    cr_assert(asked.rmt % 8 == 0 && asked.result == &answers[SLOT] && asked.lkey == LKEY);
    cr_assert(asked.rkey == RKEY && asked.cookie == ut_cookie(UT_COOKIE_SLOT, SLOT));
    cr_assert(asked.op == PROV_ATOMIC_FADD || asked.op == PROV_ATOMIC_CSWAP);
    if (asked.op == PROV_ATOMIC_FADD)
        *word += asked.operand;
    else if (old == asked.compare)
        *word = asked.operand;
    *asked.result = old;
}

static void complete(enum prov_status status)
{
    ut_engine_done(&to_peer, ut_cookie(UT_COOKIE_SLOT, SLOT), status);
}

/*
 * One ARMW
 */

static void open_link(void)
{
    vcq.toq = calloc(TOQ, sizeof(*vcq.toq));
    vcq.toq_mask = TOQ - 1;
    vcq.mrq = calloc(8, sizeof(*vcq.mrq));
    vcq.mrq_mask = 7;
    vcq.mrq_alarm = 8;
    vcq.runs_scheduled = true;
    vcq.armw_words = answers;
    vcq.armw_region = (void *)answers;
    ut_lock(&vcq.lock);
    to_peer.vcq = &vcq;
    to_peer.peer = 77;
    to_peer.provider = PROVIDER;
    to_peer.state = UT_LINK_UP;
    to_peer.ops = &ops;
    to_peer.conn = (void *)&to_peer;
    to_peer.reading = UT_STAG_NONE;
    to_peer.unacked_last = &to_peer.unacked_first;
    to_peer.early_last = &to_peer.early_first;
}

static void open_without_device(void)
{
    open_link();
    vcq.armw_words = NULL;
}

/* A new ARMW is the only communication of the link. */
static struct ut_slot *begin(unsigned int size, unsigned int offset, uint32_t op,
                             unsigned long flags)
{
    struct ut_slot *slot = &vcq.toq[SLOT];

    memset(vcq.toq, 0, TOQ * sizeof(*vcq.toq));
    memset(answers, 0xee, sizeof(answers));
    vcq.mrq_head = vcq.mrq_tail = 0;
    vcq.scheduled_links = NULL;
    to_peer.is_scheduled = false;
    to_peer.first = to_peer.to_post = UT_NO_SLOT;
    to_peer.list_end = &to_peer.first;
    to_peer.unordered_out = 0;
    to_peer.reads_out = 0;
    to_peer.tx_number = 100;
    to_peer.lcl_notices_begun = to_peer.lcl_notices_ended = 0;
    num_atomics = num_sends = num_found = num_invalidated = 0;
    atomic_rc = send_rc = find_rc = 0;
    ut_desc_head(&slot->desc, UT_DESC_ARMW, to_peer.peer, BASE + offset, size, EDATA, flags);
    ut_desc_armw(&slot->desc, op, 0x5a5a5a5a, 0x11111111);
    ut_link_append(&to_peer, slot, SLOT, flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    slot->state = UT_SLOT_WAITING;
    slot->slow_end = true;
    memory[0] = before[0] = 0x1122334411111111;
    memory[1] = before[1] = 0xaabbccdd55667788;
    return slot;
}

static bool is_over(const struct ut_slot *slot)
{
    return slot->state == UT_SLOT_RETIRED && to_peer.first == UT_NO_SLOT;
}

/* Nothing is outstanding, and the slot has this code. */
static void expect_end(const struct ut_slot *slot, int rc)
{
    cr_assert(is_over(slot) && slot->mrq_rc == rc && slot->tcq_rc == 0, "%d", slot->mrq_rc);
    cr_assert(to_peer.unordered_out == 0 && to_peer.reads_out == 0);
}

static uint64_t word_at(const void *at, unsigned int size)
{
    uint64_t word = 0;

    memcpy(&word, at, size); /* little-endian */
    return word;
}

TestSuite(atomics, .init = open_link);
TestSuite(without_device, .init = open_without_device);

/*
 * By the device
 */

static const struct {
    unsigned int size, offset;
} places[] = {{8, 0}, {8, 8}, {4, 0}, {4, 4}, {4, 8}, {4, 12}};
enum { PLACES = sizeof(places) / sizeof(*places), OPS = UT_ARMW_OP_CSWAP };

/* The word as it was before, and as another process left it: only then the device finds what it was
 * told to find. */
static void check_operator(uint32_t op, unsigned int size, unsigned int offset, bool disturb)
{
    struct ut_slot *slot = begin(size, offset, op, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    uint8_t *word = (uint8_t *)memory + offset;
    bool native = size == 8 && (op == UTOFU_ARMW_OP_ADD || op == UT_ARMW_OP_CSWAP);
    struct utofu_mrq_notice n;

    if (op == UT_ARMW_OP_CSWAP && !disturb)
        slot->desc.compare = word_at(word, size);
    cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
    cr_assert(slot->state == UT_SLOT_POSTED && slot->stage == UT_STAGE_DATA && slot->tcq_ready);
    cr_assert(asked.flags == PROV_SIGNAL && to_peer.unordered_out == 1);
    for (unsigned int i = 1; !is_over(slot); i++) {
        cr_assert(num_atomics == i && slot->pending == 1 && to_peer.reads_out == 1 && i < 9);
        if (disturb && i == 2)
            word[1] ^= 0x40;
        before[0] = memory[0], before[1] = memory[1];
        execute();
        complete(PROV_OK);
    }
    expect_end(slot, 0);
    uint64_t old = word_at((uint8_t *)before + offset, size);
    cr_assert_eq(num_atomics, native ? 1 : disturb ? 3 : 2);
    cr_assert_eq(slot->rmt_value, old, "%#lx", slot->rmt_value);
    cr_assert_eq(word_at(word, size),
                 ut_armw_result(size, op, old, slot->desc.operand, slot->desc.compare));
    memcpy((uint8_t *)before + offset, word, size);
    cr_assert_arr_eq(memory, before, sizeof(memory), "the words beside it are unchanged");
    cr_assert(ut_mrq_pop(&vcq, &n) && n.notice_type == UTOFU_MRQ_TYPE_LCL_ARMW);
    cr_assert(n.rmt_value == old && n.rmt_stadd == slot->desc.rmt_stadd && n.edata == EDATA);
    cr_assert_eq(num_sends, 0);
}

Test(atomics, device_executes_each_operator)
{
    for (uint32_t op = 1; op <= OPS; op++)
        for (unsigned int i = 0; i < PLACES; i++) {
            check_operator(op, places[i].size, places[i].offset, false);
            check_operator(op, places[i].size, places[i].offset, true);
        }
}

/* An ARMW with STRONG_ORDER is executed after earlier reads; before, it waits for other ARMWs. */
Test(atomics, strong_order_is_a_fence_behind_reads)
{
    for (unsigned int reads = 0; reads < 3; reads++)
        for (int strong = 0; strong < 2; strong++) {
            struct ut_slot *slot =
                begin(8, 0, UTOFU_ARMW_OP_ADD, strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0);
            to_peer.reads_out = reads;
            cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
            cr_assert_eq(asked.flags, PROV_SIGNAL | (strong && reads ? PROV_FENCE : 0u));
            cr_assert_eq(to_peer.reads_out, reads + 1);
            slot = begin(8, 0, UTOFU_ARMW_OP_ADD, strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0);
            to_peer.unordered_out = 1;
            cr_assert_eq(ut_post_armw(&to_peer, slot), strong ? UT_NOT_NOW : UT_POSTED);
        }
}

/* What the first request of an ARMW may meet: the result of the search for the peer's memory, that
 * of the device, and what becomes of the ARMW. */
static const struct {
    int find, atomic;
    bool schedules, invalidates;
    int code; /* 0: posted later */
} refusals[] = {
    {UTOFU_ERR_NOT_COMPLETED, 0, false, false, 0},
    {UTOFU_ERR_MRQ_OTHER, 0, false, false, UTOFU_ERR_MRQ_OTHER},
    {UTOFU_ERR_MRQ_RMT_STADD, 0, false, false, UTOFU_ERR_MRQ_RMT_STADD},
    {UTOFU_ERR_MRQ_RMT_LENGTH, 0, false, false, UTOFU_ERR_MRQ_RMT_LENGTH},
    {0, -EAGAIN, true, false, 0},
    {0, -ENOTCONN, false, false, 0},
    {0, -EACCES, true, true, 0},
    {0, -EFAULT, false, false, UTOFU_ERR_MRQ_RMT_MEMORY},
    {0, -EINVAL, false, false, UTOFU_ERR_MRQ_OTHER},
    {0, -EPERM, false, false, UTOFU_ERR_TCQ_MEMORY},
};
enum { REFUSALS = sizeof(refusals) / sizeof(*refusals) };

Test(atomics, request_that_is_refused_is_posted_later_or_fails)
{
    for (unsigned int i = 0; i < REFUSALS; i++) {
        struct ut_slot *slot = begin(8, 0, UTOFU_ARMW_OP_ADD, 0);
        find_rc = refusals[i].find;
        atomic_rc = refusals[i].atomic;
        cr_assert_eq(ut_post_armw(&to_peer, slot), refusals[i].code ? UT_POSTED : UT_NOT_NOW, "%u",
                     i);
        cr_assert_eq(num_atomics, find_rc == 0);
        cr_assert(to_peer.is_scheduled == refusals[i].schedules &&
                      num_invalidated == refusals[i].invalidates,
                  "%u", i);
        cr_assert(to_peer.unordered_out == 0 && to_peer.reads_out == 0);
        if (atomic_rc == -EPERM) {
            cr_assert(is_over(slot) && slot->tcq_rc == UTOFU_ERR_TCQ_MEMORY && !slot->mrq_rc);
            continue;
        }
        if (refusals[i].code) {
            expect_end(slot, refusals[i].code);
            cr_assert_eq(vcq.mrq_tail, 1, "the error has a notice");
            continue;
        }
        cr_assert(slot->state == UT_SLOT_WAITING && slot->stage == UT_STAGE_NONE);
        if (atomic_rc == -EACCES) { /* again, with the entry read again */
            cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
            expect_end(slot, UTOFU_ERR_MRQ_RMT_MEMORY);
            cr_assert_eq(num_invalidated, 1);
        }
    }
}

/* Another process has changed the word, and the device takes no request now. */
static struct ut_slot *begin_repetition(int find, int rc)
{
    struct ut_slot *slot = begin(4, 4, UTOFU_ARMW_OP_XOR, 0);

    ut_post_armw(&to_peer, slot);
    execute();
    find_rc = find;
    atomic_rc = rc;
    complete(PROV_OK);
    return slot;
}

Test(atomics, compare_and_swap_that_is_refused_is_posted_again)
{
    struct ut_slot *slot = begin_repetition(0, -EAGAIN);

    cr_assert(slot->stage == UT_STAGE_RETRY && slot->state == UT_SLOT_POSTED && num_atomics == 2);
    cr_assert(to_peer.is_scheduled && slot->pending == 0 && to_peer.reads_out == 0);
    cr_assert_eq(to_peer.unordered_out, 1, "communications with STRONG_ORDER wait for it");
    cr_assert_eq(slot->rmt_value, before[0]);
    atomic_rc = 0;
    ut_armw_resume(&to_peer);
    cr_assert(slot->stage == UT_STAGE_DATA && slot->pending == 1 && to_peer.reads_out == 1);
    ut_armw_resume(&to_peer);
    cr_assert_eq(num_atomics, 3, "it is outstanding");
    execute();
    complete(PROV_OK);
    expect_end(slot, 0);
    cr_assert_eq(memory[0], before[0] ^ UINT64_C(0x5a5a5a5a) << 32);
    cr_assert_eq(slot->rmt_value, before[0] >> 32);
}

Test(atomics, repetition_that_is_refused_again_waits_or_fails)
{
    static const struct {
        int find, atomic, code;
        bool schedules;
    } all[] = {
        {0, -EAGAIN, 0, true},
        {UTOFU_ERR_NOT_COMPLETED, 0, 0, true},
        {0, -ENOTCONN, 0, false}, /* the new connection does it */
        {0, -EACCES, UTOFU_ERR_MRQ_RMT_MEMORY, false},
        {0, -EINVAL, UTOFU_ERR_MRQ_RMT_MEMORY, false},
        {0, -EPERM, UTOFU_ERR_MRQ_RMT_MEMORY, false},
        {UTOFU_ERR_MRQ_OTHER, 0, UTOFU_ERR_MRQ_OTHER, false},
        {UTOFU_ERR_MRQ_RMT_LENGTH, 0, UTOFU_ERR_MRQ_RMT_LENGTH, false},
    };

    for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct ut_slot *slot = begin_repetition(all[i].find, all[i].atomic);
        cr_assert(slot->stage == UT_STAGE_RETRY && to_peer.is_scheduled, "%u", i);
        to_peer.is_scheduled = false;
        ut_armw_resume(&to_peer);
        cr_assert_eq(to_peer.is_scheduled, all[i].schedules, "%u", i);
        if (all[i].code)
            expect_end(slot, all[i].code);
        else
            cr_assert(slot->stage == UT_STAGE_RETRY && slot->state == UT_SLOT_POSTED);
        cr_assert_eq(to_peer.reads_out, 0);
    }
}

/*
 * The remote notice of an ARMW of the device
 */

/* The ARMW is executed; the provider answers so to the message with its notice. */
static struct ut_slot *begin_notice(int rc)
{
    struct ut_slot *slot = begin(8, 0, UTOFU_ARMW_OP_ADD, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);

    ut_post_armw(&to_peer, slot);
    cr_assert_eq(num_sends, 0, "the notice comes behind the ARMW");
    execute();
    send_rc = rc;
    complete(PROV_OK);
    cr_assert(num_sends == 1 && sent_size == sizeof(sent.notice));
    cr_assert(sent.head.type == UT_MSG_ARMW_NOTICE && sent.head.edata == EDATA);
    cr_assert_eq(sent.notice.rmt_stadd, BASE);
    cr_assert_eq(sent_flags, PROV_SIGNAL | PROV_FENCE);
    cr_assert_eq(sent_cookie, ut_cookie(UT_COOKIE_SLOT, SLOT));
    cr_assert(slot->applied && slot->rmt_value == before[0] && to_peer.reads_out == 0);
    return slot;
}

Test(atomics, notice_follows_the_armw)
{
    struct ut_slot *slot = begin_notice(0);

    cr_assert(slot->stage == UT_STAGE_NOTICE && slot->pending == 1 && to_peer.unordered_out == 1);
    cr_assert(slot->msg_number == 101 && slot->state == UT_SLOT_POSTED && !to_peer.is_scheduled);
    complete(PROV_OK);
    expect_end(slot, 0);
}

Test(atomics, notice_that_is_complete_at_once_ends_the_armw)
{
    struct ut_slot *slot = begin_notice(PROV_SRC_FREE | PROV_COMPLETE);

    expect_end(slot, 0);
    cr_assert(slot->pending == 0 && slot->msg_number == 101);
}

Test(atomics, notice_that_is_refused_is_sent_again)
{
    static const int refusal[] = {-EAGAIN, -ENOTCONN};

    for (int i = 0; i < 2; i++) {
        struct ut_slot *slot = begin_notice(refusal[i]);
        cr_assert(slot->stage == UT_STAGE_EXECUTED && slot->pending == 0 && to_peer.is_scheduled);
        cr_assert(to_peer.tx_number == 100 && to_peer.unordered_out == 1);
        send_rc = 0;
        ut_armw_resume(&to_peer);
        cr_assert(num_sends == 2 && slot->stage == UT_STAGE_NOTICE && slot->pending == 1);
        ut_armw_resume(&to_peer);
        complete(PROV_OK);
        expect_end(slot, 0);
        cr_assert(num_sends == 2 && num_atomics == 1);
    }
}

Test(atomics, notice_that_fails_is_reported)
{
    static const int refusal[] = {-EINVAL, -EPERM};

    for (int i = 0; i < 2; i++) {
        struct ut_slot *slot = begin_notice(refusal[i]);
        expect_end(slot, UTOFU_ERR_MRQ_OTHER);
        cr_assert_eq(num_atomics, 1);
    }
}

/* The connection broke between the ARMW and its notice: the new one sends only the notice. */
Test(atomics, executed_armw_sends_only_its_notice)
{
    static const struct {
        int rc;
        enum ut_outcome outcome;
        unsigned int state, stage, out;
    } all[] = {{0, UT_POSTED, UT_SLOT_POSTED, UT_STAGE_NOTICE, 1},
               {PROV_SRC_FREE | PROV_COMPLETE, UT_POSTED, UT_SLOT_RETIRED, UT_STAGE_NOTICE, 0},
               {-EAGAIN, UT_NOT_NOW, UT_SLOT_WAITING, UT_STAGE_NONE, 0},
               {-EINVAL, UT_POSTED, UT_SLOT_RETIRED, UT_STAGE_EXECUTED, 0}};

    for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct ut_slot *slot =
            begin(8, 0, UTOFU_ARMW_OP_ADD, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        slot->applied = true;
        send_rc = all[i].rc;
        cr_assert_eq(ut_post_armw(&to_peer, slot), all[i].outcome, "%u", i);
        cr_assert(num_atomics == 0 && num_sends == 1);
        cr_assert(slot->state == all[i].state && slot->stage == all[i].stage, "%u: %u %u", i,
                  slot->state, slot->stage);
        cr_assert_eq(to_peer.unordered_out, all[i].out, "%u", i);
    }
}

/* Remote notices are sent in TOQ order: one waits while that of an earlier ARMW is not posted. */
Test(atomics, notice_waits_for_the_notice_of_an_earlier_armw)
{
    static const struct {
        unsigned int kind, state, stage;
        bool notifies, waits;
    } earlier[] = {{UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_DATA, true, true},
                   {UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_EXECUTED, true, true},
                   {UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_RETRY, true, true},
                   {UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_NOTICE, true, false},
                   {UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_DATA, false, false},
                   {UT_DESC_ARMW, UT_SLOT_DONE, UT_STAGE_DATA, true, false},
                   {UT_DESC_GET, UT_SLOT_POSTED, UT_STAGE_DATA, true, false}};
    const unsigned long remote = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;

    for (unsigned int i = 0; i < sizeof(earlier) / sizeof(*earlier); i++)
        for (unsigned int at = 0; at < 2; at++) {
            struct ut_slot *slot = begin(8, 0, UTOFU_ARMW_OP_ADD, remote);
            for (unsigned int k = 0; k < 2; k++) { /* of two earlier ones it is either */
                struct ut_slot *s = &vcq.toq[k];
                s->desc.kind = (uint8_t)(k == at ? earlier[i].kind : UT_DESC_PUT);
                s->desc.flags = earlier[i].notifies ? (uint16_t)remote : 0;
                s->state = (uint8_t)earlier[i].state;
                s->stage = earlier[i].stage & 63;
                s->next = k == 0 ? 1 : SLOT;
            }
            to_peer.first = 0;
            cr_assert_eq(ut_post_waits_for_armw(&to_peer, slot), earlier[i].waits, "%u", i);
            slot->desc.flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
            cr_assert(!ut_post_waits_for_armw(&to_peer, slot), "it has no notice");
            slot->desc.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER;
            cr_assert(ut_post_waits_for_armw(&to_peer, slot));
            vcq.armw_words = NULL;
            slot->desc.flags = (uint16_t)remote;
            cr_assert(!ut_post_waits_for_armw(&to_peer, slot), "the target writes the notices");
            vcq.armw_words = answers;
        }
}

/*
 * By the target's CPU
 */

static void expect_request(const struct ut_slot *slot, unsigned int flags)
{
    cr_assert(num_sends == 1 && sent_size == sizeof(sent.armw) && sent.head.type == UT_MSG_ARMW);
    cr_assert(sent.head.edata == EDATA && sent.head.slot == 3 * TOQ + SLOT);
    cr_assert(sent.armw.rmt_stadd == slot->desc.rmt_stadd && sent.armw.operand == 0x5a5a5a5a);
    cr_assert(sent.armw.compare == 0x11111111 && sent.armw.op == slot->desc.op);
    cr_assert_eq(sent.armw.size, ut_desc_length(&slot->desc));
    cr_assert_eq(sent.head.flags, ut_slot_wants_remote_notice(slot) ? UT_MSG_FLAG_WANTS_NOTICE : 0);
    cr_assert_eq(sent_flags, flags);
    cr_assert_eq(sent_cookie, ut_cookie(UT_COOKIE_NONE, 0), "the reply ends it");
}

Test(without_device, target_is_asked)
{
    to_peer.armw_epoch = 3;
    for (unsigned int i = 0; i < 8; i++) {
        bool strong = i & 1, remote = i & 2;
        struct ut_slot *slot = begin(i & 4 ? 4 : 8, 0, 1 + i % OPS,
                                     (strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0) |
                                         (remote ? UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE : 0));
        to_peer.reads_out = i & 4 ? 1 : 0;
        vcq.unflushed = remote;
        cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
        expect_request(slot, PROV_SOLICITED | (remote ? PROV_MORE : 0u) |
                                 (strong && (i & 4) ? PROV_FENCE : 0u));
        cr_assert(slot->state == UT_SLOT_POSTED && slot->stage == UT_STAGE_DATA);
        cr_assert(slot->tcq_ready && slot->msg_number == 101 && slot->pending == 0);
        cr_assert_eq(to_peer.unordered_out, 1);
    }
}

Test(without_device, request_that_is_refused_waits_or_fails)
{
    struct ut_slot *slot = begin(8, 0, UTOFU_ARMW_OP_ADD, 0);

    send_rc = -EAGAIN;
    cr_assert_eq(ut_post_armw(&to_peer, slot), UT_NOT_NOW);
    cr_assert(to_peer.is_scheduled && slot->state == UT_SLOT_WAITING && !slot->tcq_ready);
    cr_assert(to_peer.unordered_out == 0 && to_peer.tx_number == 100);
    slot = begin(8, 0, UTOFU_ARMW_OP_ADD, UTOFU_ONESIDED_FLAG_STRONG_ORDER);
    to_peer.unordered_out = 1;
    cr_assert_eq(ut_post_armw(&to_peer, slot), UT_NOT_NOW);
    cr_assert_eq(num_sends, 0);
    for (int i = 0; i < 2; i++) { /* with the local memory, and with anything else */
        slot = begin(8, 0, UTOFU_ARMW_OP_ADD, 0);
        send_rc = i == 0 ? -EPERM : -EINVAL;
        cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
        cr_assert(is_over(slot) && to_peer.tx_number == 100);
        cr_assert_eq(i == 0 ? slot->tcq_rc : slot->mrq_rc,
                     i == 0 ? UTOFU_ERR_TCQ_MEMORY : UTOFU_ERR_MRQ_OTHER);
    }
}

/*
 * By this CPU
 */

Test(without_device, mapped_word_is_changed_here)
{
    is_mapped = true;
    for (uint32_t op = 1; op <= OPS; op++)
        for (unsigned int i = 0; i < PLACES; i++) {
            unsigned int size = places[i].size, offset = places[i].offset;
            struct ut_slot *slot = begin(size, offset, op, 0);
            uint64_t old = word_at((uint8_t *)memory + offset, size);
            cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
            expect_end(slot, 0);
            cr_assert(slot->tcq_ready && slot->rmt_value == old && num_sends == 0);
            cr_assert_eq(word_at((uint8_t *)memory + offset, size),
                         ut_armw_result(size, op, old, 0x5a5a5a5a, 0x11111111));
        }
}

Test(without_device, notice_of_a_mapped_word_is_sent)
{
    is_mapped = true;
    struct ut_slot *slot = begin(8, 0, UTOFU_ARMW_OP_ADD, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);

    send_rc = -EAGAIN;
    cr_assert_eq(ut_post_armw(&to_peer, slot), UT_NOT_NOW);
    cr_assert(slot->applied && slot->rmt_value == before[0]);
    send_rc = 0;
    cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
    cr_assert(sent.head.type == UT_MSG_ARMW_NOTICE && slot->stage == UT_STAGE_NOTICE);
    cr_assert_eq(memory[0], before[0] + 0x5a5a5a5a, "it is executed once");
}

/* What forbids it: then the target executes the ARMW. */
Test(without_device, word_is_left_to_the_target)
{
    is_mapped = true;
    for (int i = 0; i < 6; i++) {
        struct ut_slot *slot = begin(i == 3 ? 4 : 8, i == 3 ? 2 : i == 4 ? 4 : 0, 2, 0);
        ops.direct = i == 0 ? NULL : map_word;
        to_peer.unordered_out = i == 1; /* it comes behind those that the target executes */
        find_rc = i == 2 ? UTOFU_ERR_MRQ_RMT_STADD : 0;
        is_mapped = i != 5;
        cr_assert_eq(ut_post_armw(&to_peer, slot), UT_POSTED);
        cr_assert(num_sends == 1 && sent.head.type == UT_MSG_ARMW, "%d", i);
        cr_assert_arr_eq(memory, before, sizeof(memory));
    }
}

/* Without the TOQ: only if nothing else is on the link, and no notice goes to the peer. */
Test(without_device, mapped_word_is_changed_without_a_queue)
{
    static const unsigned long flags[] = {0,
                                          0,
                                          0,
                                          0,
                                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                                          UT_DESC_COUNTED,
                                          0,
                                          UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                                          0};

    for (unsigned int i = 0; i < 9; i++) {
        struct ut_slot *slot = begin(4, 4, UTOFU_ARMW_OP_OR, flags[i]);
        struct utofu_mrq_notice n;
        to_peer.first = i == 0 ? SLOT : UT_NO_SLOT;
        to_peer.state = i == 1 ? UT_LINK_IDLE : UT_LINK_UP;
        slot->desc.kind = i == 2 ? UT_DESC_GET : UT_DESC_ARMW;
        vcq.armw_words = i == 3 ? answers : NULL;
        is_mapped = i != 6;
        bool done = i >= 7;
        cr_assert_eq(ut_armw_execute_mapped(&vcq, &to_peer, slot), done, "%u", i);
        cr_assert_eq(memory[0] != before[0], done, "%u", i);
        if (!done)
            continue;
        cr_assert(slot->state == UT_SLOT_RETIRED && slot->tcq_ready);
        cr_assert_eq(slot->rmt_value, before[0] >> 32);
        cr_assert_eq(ut_mrq_pop(&vcq, &n) != NULL, i == 7);
        cr_assert(i != 7 || (n.rmt_value == before[0] >> 32 && n.vcq_id == 77));
    }
}
