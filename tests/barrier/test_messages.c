/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gates do with messages of other processes, which this test plays: packets, queries, answers,
 * and links that fail. What a dump, and warnings of long waits, say of gates that wait.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/fake_clock.h"
#include "barrier/inner.h"
#include "barrier/value.h"
#include "peers/peers.h"
#include "util/log.h"
#include "utofu.h"
#include "wire/wire.h"

TestSuite(messages);

enum { NONE = 0, TNI = 1 };

static struct ut_gates *gates;
static utofu_vbg_id_t own[4]; /* a start gate and three relay gates */
static struct ut_link to_peer[2];
static utofu_vbg_id_t far[2][4]; /* gates of two other processes */

/*
 * In the place of the library's functions (--wrap)
 */

static unsigned int link_calls, fail_link_at; /* the number of the call that fails; 0: none */
static struct ut_msg_gate sent[16];
static unsigned int num_sent;
static char dump[4096];

struct ut_link *__wrap_ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t peer);
struct ut_link *__wrap_ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t peer)
{
    cr_assert_eq(vcq, gates->vcq);
    if (++link_calls == fail_link_at)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (to_peer[i].peer == peer)
            return &to_peer[i];
    return NULL;
}

void __wrap_ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);
void __wrap_ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited)
{
    const struct ut_msg_head *head = data;

    (void)link, (void)solicited;
    if (head->type == UT_MSG_GATE) {
        cr_assert(size == sizeof(sent[0]) && num_sent < 16);
        memcpy(&sent[num_sent++], data, size);
    }
}

int __wrap_ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                    struct ut_peer *peer);
int __wrap_ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                    struct ut_peer *peer)
{
    (void)coords;
    peer->rank = local_rank;
    return 0;
}

void __wrap_ut_dump_line(const char *fmt, ...);
void __wrap_ut_dump_line(const char *fmt, ...)
{
    size_t used = strlen(dump);
    va_list args;

    va_start(args, fmt);
    vsnprintf(dump + used, sizeof(dump) - used - 1, fmt, args);
    va_end(args);
    strcat(dump, "\n");
}

/*
 * Gates
 */

static struct ut_gate *gate(unsigned int i)
{
    return &gates->gate[ut_vbg_id_gate(own[i])];
}

static void open_all(void)
{
    struct ut_vbg_ident ident;

    unsetenv("UTOFU_PROVIDER");
    cr_assert_eq(utofu_alloc_vbg(TNI, 4, 0, own), UTOFU_SUCCESS);
    gates = ut_gates_of(TNI);
    for (unsigned int p = 0; p < 2; p++) {
        cr_assert(ut_vbg_id_unpack(own[0], &ident));
        ident.local_rank = (uint16_t)(ident.local_rank + 1 + p);
        for (unsigned int i = 0; i < 4; i++) {
            ident.gate = (uint16_t)(i ? 15 + i : 0);
            far[p][i] = ut_vbg_id_pack(&ident);
        }
        struct ut_vcq_ident vcq = {.coords = ident.coords,
                                   .tni = UT_TNI_INTERNAL,
                                   .cq = (uint16_t)ident.local_rank,
                                   .cmp = TNI};
        to_peer[p].vcq = gates->vcq;
        to_peer[p].peer = ut_vcq_id_canonical(&vcq);
    }
}

static struct utofu_vbg_setting setting(unsigned int i, utofu_vbg_id_t src_lcl,
                                        utofu_vbg_id_t src_rmt, utofu_vbg_id_t dst_lcl,
                                        utofu_vbg_id_t dst_rmt)
{
    return (struct utofu_vbg_setting){own[i],  src_lcl, src_rmt,
                                      dst_lcl, dst_rmt, {UTOFU_PATH_COORD_NULL}};
}

/* The start gate sends to a gate of the peer, whose packet a relay gate takes, which signals back.
 */
static int set_all(void)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;
    struct utofu_vbg_setting all[] = {setting(0, own[1], null, null, far[0][1]),
                                      setting(1, null, far[0][2], own[0], null)};

    return utofu_set_vbg(all, 2);
}

Test(messages, epochs_are_before_each_other_beyond_their_wrap)
{
    static const struct {
        uint32_t epoch, other;
        bool before;
    } cases[] = {{1, 2, true},
                 {2, 2, false},
                 {3, 2, false},
                 {7, 0, false},
                 {0, 0, false},
                 {UINT32_MAX, 1, true},
                 {1, UINT32_MAX, false},
                 {UINT32_MAX - 1, UINT32_MAX, true},
                 {INT32_MAX, (uint32_t)INT32_MAX + 1, true},
                 {5, 5u + INT32_MAX, true},
                 {5u + INT32_MAX, 5, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_eq(ut_epoch_is_before(cases[i].epoch, cases[i].other), cases[i].before, "%zu", i);
}

/* A poll of another TNI makes progress on gates as long as some are allocated. */
Test(messages, poll_of_another_tni_serves_gates_until_they_are_freed)
{
    utofu_vbg_id_t more[2];

    open_all();
    for (int left = 3; left >= 0; left--) {
        uint64_t polls = gates->vcq->poll_count;
        if (left == 2)
            cr_assert_eq(utofu_alloc_vbg(TNI, 2, 0, more), UTOFU_SUCCESS);
        if (left == 1)
            cr_assert_eq(utofu_free_vbg(own, 4), UTOFU_SUCCESS);
        if (left == 0)
            cr_assert_eq(utofu_free_vbg(more, 2), UTOFU_SUCCESS);
        ut_gate_progress_others(TNI);
        cr_assert_eq(gates->vcq->poll_count, polls);
        ut_gate_progress_others(TNI + 1);
        cr_assert_eq(gates->vcq->poll_count, polls + (left > 0), "%d", left);
    }
}

/*
 * Links
 */

static int reach(utofu_vbg_id_t src, utofu_vbg_id_t dst, unsigned int fail_at)
{
    struct utofu_vbg_setting s = setting(1, UTOFU_VBG_ID_NULL, src, own[0], dst);

    link_calls = 0;
    fail_link_at = fail_at;
    return ut_gate_can_reach(gate(0), &s);
}

Test(messages, gate_needs_a_link_to_source_and_destination)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;

    open_all();
    cr_assert(reach(null, null, NONE) && link_calls == 0);
    cr_assert(reach(own[2], own[3], NONE) && link_calls == 0, "of this process");
    cr_assert(reach(far[0][1], null, NONE) && link_calls == 1);
    cr_assert(reach(null, far[0][1], NONE) && link_calls == 1);
    cr_assert(reach(far[0][1], far[1][1], NONE) && link_calls == 2);
    cr_assert(!reach(far[0][1], null, 1));
    cr_assert(!reach(null, far[0][1], 1));
    cr_assert(!reach(far[0][1], far[1][1], 1));
    cr_assert(!reach(far[0][1], far[1][1], 2));
    fail_link_at = link_calls = 0;
    cr_assert_eq(set_all(), UTOFU_SUCCESS);
    cr_assert_eq(gate(0)->dst_link, &to_peer[0]);
    cr_assert_eq(gate(0)->src_link, NULL);
    cr_assert_eq(gate(1)->src_link, &to_peer[0]);
    link_calls = 0;
    fail_link_at = 1;
    cr_assert_eq(set_all(), UTOFU_ERR_OUT_OF_MEMORY);
}

/*
 * Queries
 */

static void hear(unsigned int p, const void *message, size_t size)
{
    ut_lock(&gates->vcq->lock);
    ut_gate_handlers.message(&to_peer[p], message, size);
    ut_unlock(&gates->vcq->lock);
}

/* The answer to a query of a gate of the first peer. */
static struct ut_msg_gate query(unsigned int i, utofu_vbg_id_t dst)
{
    struct ut_msg_gate m = {.head = {.type = UT_MSG_GATE, .flags = UT_GATE_QUERY},
                            .src = own[i],
                            .dst = dst,
                            .serial = 77};

    num_sent = 0;
    hear(0, &m, sizeof(m));
    cr_assert_eq(num_sent, 1);
    cr_assert(sent[0].head.flags == UT_GATE_REPLY && sent[0].src == own[i] && sent[0].dst == dst);
    cr_assert_eq(sent[0].serial, 77);
    cr_assert_eq(sent[0].head.slot, gate(i)->epoch);
    return sent[0];
}

Test(messages, answer_tells_the_state_of_a_gate)
{
    const unsigned int there = UT_ANSWER_VALID | UT_ANSWER_ALLOCATED;

    open_all();
    cr_assert_eq(query(0, far[0][1]).answer, there);
    cr_assert_eq(set_all(), UTOFU_SUCCESS);
    cr_assert_eq(query(0, far[0][1]).answer,
                 there | UT_ANSWER_SET | UT_ANSWER_SENDS_HERE | UT_ANSWER_IDLE);
    cr_assert_eq(query(0, far[0][2]).answer, there | UT_ANSWER_SET | UT_ANSWER_IDLE);
    cr_assert_eq(query(1, far[0][2]).answer, there | UT_ANSWER_SET | UT_ANSWER_WANTS_PACKET);
    cr_assert_eq(query(0, far[0][1]).number, 0);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    cr_assert_eq(query(0, far[0][1]).answer, there | UT_ANSWER_SET | UT_ANSWER_SENDS_HERE);
    cr_assert_eq(query(0, far[0][1]).number, 1);
    cr_assert_eq(query(0, far[0][2]).number, 0, "it does not send there");
    cr_assert_eq(utofu_free_vbg(own, 4), UTOFU_SUCCESS);
    cr_assert_eq(query(0, far[0][1]).answer, UT_ANSWER_VALID);
}

/* A gate with a signal and a packet as inputs. */
Test(messages, answer_tells_what_a_relay_gate_waits_for)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;
    const unsigned int there = UT_ANSWER_VALID | UT_ANSWER_ALLOCATED | UT_ANSWER_SET;

    open_all();
    struct utofu_vbg_setting all[] = {setting(0, own[1], null, own[1], null),
                                      setting(1, own[0], far[0][2], own[0], far[0][3])};
    cr_assert_eq(utofu_set_vbg(all, 2), UTOFU_SUCCESS);
    cr_assert_eq(query(1, far[0][3]).answer,
                 there | UT_ANSWER_SENDS_HERE | UT_ANSWER_WANTS_SIGNAL | UT_ANSWER_WANTS_PACKET);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    cr_assert_eq(query(1, far[0][3]).answer, there | UT_ANSWER_SENDS_HERE | UT_ANSWER_WANTS_PACKET);
}

/* A message that is wrong in one field changes nothing, and is not answered. */
Test(messages, wrong_messages_are_dropped)
{
    struct ut_msg_gate good = {.head = {.type = UT_MSG_GATE, .flags = UT_GATE_QUERY}}, bad;
    struct ut_vbg_ident other_tni;

    open_all();
    cr_assert_eq(set_all(), UTOFU_SUCCESS);
    good.src = own[0];
    good.dst = far[0][1];
    cr_assert(ut_vbg_id_unpack(own[0], &other_tni));
    other_tni.tni = TNI + 1;
    for (unsigned int i = 0; i < 7; i++) {
        bad = good;
        if (i == 0)
            bad.src = UINT64_MAX;
        else if (i == 1)
            bad.dst = UINT64_MAX;
        else if (i == 2)
            bad.src = far[0][1];
        else if (i == 3)
            bad.dst = far[1][1]; /* of another process than the sender's */
        else if (i == 4)
            bad.src = ut_vbg_id_pack(&other_tni);
        else if (i == 5)
            bad.head.flags = UT_GATE_REPLY + 1;
        else
            bad.head.flags = 0;
        num_sent = 0;
        hear(0, &bad, sizeof(bad));
        cr_assert_eq(num_sent, 0, "%u", i);
    }
    hear(0, &good, sizeof(good));
    cr_assert_eq(num_sent, 1);
}

/*
 * Answers
 */

static struct ut_msg_gate answer(uint32_t epoch, unsigned int state)
{
    return (struct ut_msg_gate){
        .head = {.type = UT_MSG_GATE, .flags = UT_GATE_REPLY, .slot = epoch},
        .src = far[0][2],
        .dst = own[1],
        .serial = gate(1)->serial,
        .answer = (uint8_t)state};
}

static bool is_failed(void)
{
    return gate(1)->in[UT_INPUT_PACKET].failed || gate(1)->gone;
}

static void packet(uint32_t epoch, uint32_t number, unsigned int src, unsigned int last)
{
    struct {
        struct ut_msg_packet head;
        uint8_t value[UT_VALUE_PACKED_MAX];
    } m = {.head = {.src = (uint8_t)ut_vbg_id_gate(far[0][src]),
                    .dst = (uint8_t)ut_vbg_id_gate(own[1]),
                    .last = (uint8_t)last,
                    .epoch = epoch,
                    .number = number}};
    struct ut_value value;

    ut_value_barrier(&value);
    if (last)
        ut_value_broken(&value, far[0][2]);
    size_t size = ut_value_pack(&value, m.value);
    ut_lock(&gates->vcq->lock);
    ut_gate_handlers.packet(&to_peer[0], &m, sizeof(m.head) + size);
    ut_unlock(&gates->vcq->lock);
}

static void set_and_query(void)
{
    open_all();
    cr_assert_eq(set_all(), UTOFU_SUCCESS);
    cr_assert_eq(num_sent, 1, "the epoch of the source is not known");
    cr_assert(sent[0].head.flags == UT_GATE_QUERY && sent[0].src == far[0][2] &&
              sent[0].dst == own[1] && sent[0].serial == gate(1)->serial);
    cr_assert(gate(1)->in[UT_INPUT_PACKET].queried && !gate(1)->in[UT_INPUT_PACKET].confirmed);
    cr_assert_eq(gates->unsure, 1ull << gate(1)->index, "only of this gate");
}

/* Another gate, whose bit stays when that of gate 1 goes. */
enum { OTHER = 1u << 5 };

enum { SENDS = UT_ANSWER_VALID | UT_ANSWER_ALLOCATED | UT_ANSWER_SET | UT_ANSWER_SENDS_HERE };

Test(messages, answer_confirms_the_source)
{
    set_and_query();
    struct ut_msg_gate m = answer(5, SENDS), wrong = m;
    wrong.serial++;
    hear(0, &wrong, sizeof(wrong));
    wrong = m;
    wrong.src = far[0][3];
    hear(0, &wrong, sizeof(wrong));
    cr_assert(gate(1)->in[UT_INPUT_PACKET].queried, "another query's, another gate's");
    gates->unsure |= OTHER;
    hear(0, &m, sizeof(m));
    cr_assert_eq(gates->unsure, OTHER);
    cr_assert(!gate(1)->in[UT_INPUT_PACKET].queried);
    cr_assert(gate(1)->in[UT_INPUT_PACKET].confirmed);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].floor, 5);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].answer, SENDS);
    cr_assert(!is_failed());
}

Test(messages, freed_gate_is_not_unsure)
{
    set_and_query();
    gates->unsure |= OTHER;
    cr_assert_eq(utofu_free_vbg(own, 4), UTOFU_SUCCESS);
    cr_assert_eq(gates->unsure, OTHER);
}

Test(messages, packets_that_are_lost_break_the_gate)
{
    set_and_query();
    packet(5, 1, 2, 0);
    struct ut_msg_gate m = answer(5, SENDS);
    m.number = 1;
    hear(0, &m, sizeof(m));
    cr_assert(!is_failed(), "as many as have come");
    m.number = 2;
    gates->unsure = OTHER | 1ull << gate(1)->index;
    hear(0, &m, sizeof(m));
    cr_assert(is_failed());
    cr_assert_eq(gates->unsure, OTHER);
}

Test(messages, source_that_no_longer_sends_breaks_the_gate)
{
    set_and_query();
    struct ut_msg_gate m = answer(5, SENDS & ~UT_ANSWER_SENDS_HERE);
    hear(0, &m, sizeof(m));
    cr_assert(!is_failed(), "it may be set later");
    m.answer = SENDS;
    hear(0, &m, sizeof(m));
    cr_assert(!is_failed());
    m.answer = SENDS & ~UT_ANSWER_SENDS_HERE;
    hear(0, &m, sizeof(m));
    cr_assert(is_failed());
}

Test(messages, source_that_was_freed_breaks_the_gate_that_waits)
{
    set_and_query();
    struct ut_msg_gate m = answer(0, UT_ANSWER_VALID);
    gate(1)->in[UT_INPUT_PACKET].waited = true;
    hear(0, &m, sizeof(m));
    cr_assert(!is_failed(), "never allocated: it may still come");
    gate(1)->in[UT_INPUT_PACKET].waited = false;
    m.head.slot = 5;
    hear(0, &m, sizeof(m));
    cr_assert(!is_failed(), "nothing waits");
    gate(1)->in[UT_INPUT_PACKET].waited = true;
    hear(0, &m, sizeof(m));
    cr_assert(is_failed());
}

/*
 * Packets
 */

Test(messages, packets_are_queued_in_their_order)
{
    set_and_query();
    packet(5, 1, 2, 0);
    packet(5, 2, 2, 0);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].count, 2);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].last_number, 2);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].last_epoch, 5);
    packet(5, 1, 3, 0);
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].count, 2);
    cr_assert_eq(gate(1)->num_unexpected, 1, "of another gate: kept until the gate is set so");
    struct ut_msg_gate m = answer(5, SENDS);
    m.number = 2;
    hear(0, &m, sizeof(m));
    cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].count, 0, "the gate has fired twice");
    cr_assert_eq(gate(0)->in[UT_INPUT_SIGNAL].count, 2);
    packet(5, 3, 2, 1);
    cr_assert(gate(1)->gone, "the last one breaks it");
}

/* What a gate is not set to receive is kept, the last sixteen. */
Test(messages, unexpected_packets_are_limited)
{
    enum { KEPT = 16 };

    set_and_query();
    for (uint32_t i = 1; i <= KEPT; i++)
        packet(5, i, 3, 0);
    cr_assert_eq(gate(1)->num_unexpected, KEPT);
    cr_assert_eq(gate(1)->unexpected->item.tag.number, 1);
    packet(5, KEPT + 1, 3, 0);
    cr_assert_eq(gate(1)->num_unexpected, KEPT);
    cr_assert_eq(gate(1)->unexpected->item.tag.number, 2, "the oldest one is gone");
    unsigned int n = 0;
    for (const struct ut_gate_unexpected *u = gate(1)->unexpected; u; u = u->next)
        cr_assert_eq(u->item.tag.number, ++n + 1, "in their order");
    cr_assert_eq(n, KEPT);
}

Test(messages, packets_of_an_earlier_epoch_are_dropped)
{
    set_and_query();
    packet(5, 1, 2, 0);
    struct ut_msg_gate m = answer(6, SENDS);
    hear(0, &m, sizeof(m));
    cr_assert_eq(gate(0)->in[UT_INPUT_SIGNAL].count, 0);
    packet(6, 1, 2, 0);
    cr_assert_eq(gate(0)->in[UT_INPUT_SIGNAL].count, 1);
}

Test(messages, packets_that_are_wrong_are_dropped)
{
    struct {
        struct ut_msg_packet head;
        uint8_t value[UT_VALUE_PACKED_MAX];
    } m = {.head = {.epoch = 5, .number = 1}};

    set_and_query();
    memset(m.value, 0xff, sizeof(m.value));
    for (unsigned int i = 0; i < 4; i++) {
        m.head.src = (uint8_t)(i == 0 ? UT_NUM_GATES : ut_vbg_id_gate(far[0][i == 3 ? 3 : 2]));
        m.head.dst = (uint8_t)(i == 1 ? UT_NUM_GATES : ut_vbg_id_gate(own[1]));
        ut_lock(&gates->vcq->lock);
        ut_gate_handlers.packet(&to_peer[0], &m, sizeof(m));
        ut_unlock(&gates->vcq->lock);
        cr_assert_eq(gate(1)->in[UT_INPUT_PACKET].count, 0, "%u", i);
        cr_assert_eq(gate(1)->num_unexpected, 0, "%u", i);
    }
}

/*
 * Links that fail
 */

static void fail_link(unsigned int p, bool dead)
{
    ut_lock(&gates->vcq->lock);
    ut_gate_handlers.link_failed(&to_peer[p], dead);
    ut_unlock(&gates->vcq->lock);
}

Test(messages, failed_link_breaks_gates_that_wait_for_it)
{
    set_and_query();
    fail_link(1, true);
    cr_assert(!is_failed(), "another peer");
    cr_assert(gate(1)->in[UT_INPUT_PACKET].queried);
    fail_link(0, false);
    cr_assert(!is_failed(), "nothing waits");
    cr_assert(!gate(1)->in[UT_INPUT_PACKET].queried, "the query is sent again");
    fail_link(0, true);
    cr_assert(is_failed(), "the peer is dead");
}

Test(messages, failed_link_breaks_a_started_gate)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;

    open_all();
    struct utofu_vbg_setting one = setting(0, null, far[0][2], null, far[0][1]);
    cr_assert_eq(utofu_set_vbg(&one, 1), UTOFU_SUCCESS);
    fail_link(0, false);
    cr_assert(!gate(0)->in[UT_INPUT_PACKET].failed, "not started");
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    fail_link(0, false);
    cr_assert(gate(0)->in[UT_INPUT_PACKET].failed);
}

/*
 * The dump
 */

static const char *dump_gates(void)
{
    dump[0] = '\0';
    ut_gate_dump(gates->vcq);
    return dump;
}

Test(messages, dump_says_what_gates_wait_for)
{
    char want[200];

    open_all();
    cr_assert_str_eq(dump_gates(), "", "none is set");
    cr_assert_eq(set_all(), UTOFU_SUCCESS);
    cr_assert_not_null(strstr(dump_gates(), "gate=0 state=not_started"));
    cr_assert_null(strstr(dump, "waits for a signal"), "it was not started");
    snprintf(want, sizeof(want), "waits for a packet of tni=%u gate=17", TNI);
    cr_assert_not_null(strstr(dump, want), "%s", dump);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    cr_assert_not_null(strstr(dump_gates(), "gate=0 state=started"));
    snprintf(want, sizeof(want), "waits for a signal of tni=%u gate=%u", TNI,
             ut_vbg_id_gate(own[1]));
    cr_assert_not_null(strstr(dump, want), "%s", dump);
    fail_link(0, true);
    cr_assert_not_null(strstr(dump_gates(), "state=broken"));
}

/* Of a gate of the same TNI the dump says whether it sends there: signals and packets apart. */
Test(messages, dump_knows_where_gates_of_this_process_send)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;

    open_all();
    struct utofu_vbg_setting all[] = {setting(0, own[1], null, own[1], own[2]),
                                      setting(1, own[0], own[2], own[0], null),
                                      setting(2, null, own[0], null, own[1])};
    cr_assert_eq(utofu_set_vbg(all, 3), UTOFU_SUCCESS);
    dump_gates();
    const struct ut_gate *g = gate(1);
    const char *signal = ut_gate_state_of_local(gate(0), own[1], g->id),
               *wrong = ut_gate_state_of_local(gate(0), own[2], g->id);
    cr_assert_str_neq(signal, wrong);
    char want[300];
    snprintf(want, sizeof(want), "waits for a signal of tni=%u gate=0", TNI);
    const char *line = strstr(dump, want);
    cr_assert_not_null(line, "%s", dump);
    cr_assert_not_null(strstr(line, signal));
    cr_assert(strstr(line, signal) < strchr(line, '\n'), "%s", dump);
}

/*
 * Long waits
 */

static char warned[2048];

static void note_warning(const char *category, const char *fmt, const char *text)
{
    (void)fmt;
    if (strcmp(category, "barrier") == 0)
        snprintf(warned + strlen(warned), sizeof(warned) - strlen(warned), "%s\n", text);
}

/* As many polls as look at the clock once. */
static void poll_in_vain(void)
{
    num_sent = 0;
    warned[0] = '\0';
    for (int i = 0; i < 64; i++)
        cr_assert_eq(utofu_poll_barrier(own[0], 0), UTOFU_ERR_NOT_COMPLETED);
}

/* Every second the process of the source is asked, and after 3 s, 6 s... the wait is told. */
Test(messages, long_wait_is_told_with_what_it_waits_for)
{
    char want[1000];

    ut_log_warning_hook = note_warning;
    set_and_query();
    struct ut_msg_gate m = answer(5, SENDS | UT_ANSWER_WANTS_SIGNAL);
    hear(0, &m, sizeof(m));
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    fake_clock_align();
    poll_in_vain();
    cr_expect_eq(num_sent, 0);
    for (int s = 1; s <= 6; s++) {
        fake_clock_align();
        fake_clock_pass_ms(998);
        poll_in_vain();
        cr_expect(num_sent == 0 && !*warned, "%d: within a second", s);
        fake_clock_pass_ms(1);
        poll_in_vain();
        cr_assert_eq(num_sent, 1, "%d", s);
        cr_expect(sent[0].head.flags == UT_GATE_QUERY && sent[0].src == far[0][2]);
        cr_expect(gate(1)->in[UT_INPUT_PACKET].waited);
        hear(0, &m, sizeof(m));
        snprintf(want, sizeof(want),
                 "the barrier communication of %s has waited %d s\n"
                 "%s waits for a signal of %s, which waits itself\n"
                 "%s waits for a packet of %s, which waits for a signal itself\n",
                 ut_gate_name(own[0]).text, s, ut_gate_name(own[0]).text, ut_gate_name(own[1]).text,
                 ut_gate_name(own[1]).text, ut_gate_name(far[0][2]).text);
        cr_expect_str_eq(warned, s == 3 || s == 6 ? want : "");
    }
}

/* The source's process has not answered: it is not asked again. */
Test(messages, query_is_not_repeated_before_its_answer)
{
    set_and_query();
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    poll_in_vain();
    for (int s = 1; s <= 4; s++) {
        ut_log_warning_hook = note_warning;
        fake_clock_pass_ms(1001);
        poll_in_vain();
        cr_expect_eq(num_sent, 0);
        cr_expect_eq(strstr(warned, "whose process has not answered") != NULL, s == 3, "%s",
                     warned);
    }
}

Test(messages, state_of_a_source_in_another_process_is_told)
{
    static const struct {
        unsigned int answer;
        const char *text;
    } table[] = {
        {0, "whose process has not answered"},
        {UT_ANSWER_VALID, "which is not allocated"},
        {UT_ANSWER_VALID | UT_ANSWER_SET, "which is not allocated"},
        {UT_ANSWER_VALID | UT_ANSWER_ALLOCATED, "which is not set"},
        {SENDS & ~UT_ANSWER_SENDS_HERE, "which is set to send elsewhere"},
        {SENDS, "which has not sent it"},
        {SENDS | UT_ANSWER_IDLE, "which has not been started"},
        {SENDS | UT_ANSWER_WANTS_SIGNAL, "which waits for a signal itself"},
        {SENDS | UT_ANSWER_WANTS_PACKET, "which waits for a packet itself"},
        {SENDS | UT_ANSWER_WANTS_SIGNAL | UT_ANSWER_WANTS_PACKET,
         "which waits for a signal and a packet itself"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct ut_gate_input in = {.answer = (uint8_t)table[i].answer};
        cr_expect_str_eq(ut_gate_state_of_remote(&in), table[i].text);
    }
}

Test(messages, state_of_a_source_in_this_process_is_told)
{
    struct ut_gate relay = {.index = UT_NUM_START_GATES}, start = {.index = 0};

    cr_expect_str_eq(ut_gate_state_of_local(&start, 7, 7), "which is not set");
    relay.set = start.set = true;
    cr_expect_str_eq(ut_gate_state_of_local(&start, 6, 7), "which is set to send elsewhere");
    cr_expect_str_eq(ut_gate_state_of_local(&start, 7, 7), "which has not been started");
    cr_expect_str_eq(ut_gate_state_of_local(&relay, 7, 7), "which waits itself");
    start.active = true;
    cr_expect_str_eq(ut_gate_state_of_local(&start, 7, 7), "which has not sent it");
}

/* From a gate of another TNI, which is traced on its own TNI. */
Test(messages, long_wait_for_another_tni_is_traced_there)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;
    utofu_vbg_id_t other[2];
    char want[400];

    ut_log_warning_hook = note_warning;
    open_all();
    cr_assert_eq(utofu_alloc_vbg(TNI + 1, 2, 0, other), UTOFU_SUCCESS);
    struct utofu_vbg_setting here[] = {setting(0, own[1], null, null, far[0][1]),
                                       setting(1, null, other[1], own[0], null)};
    struct utofu_vbg_setting there[] = {
        {other[0], other[1], null, other[1], null, {UTOFU_PATH_COORD_NULL}},
        {other[1], other[0], null, other[0], own[1], {UTOFU_PATH_COORD_NULL}}};
    cr_assert_eq(utofu_set_vbg(here, 2), UTOFU_SUCCESS);
    cr_assert_eq(utofu_set_vbg(there, 2), UTOFU_SUCCESS);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    poll_in_vain();
    fake_clock_pass_ms(3001);
    poll_in_vain();
    snprintf(want, sizeof(want), "%s waits for a packet of %s\n", ut_gate_name(own[1]).text,
             ut_gate_name(other[1]).text);
    cr_expect_not_null(strstr(warned, want), "%s", warned);
    snprintf(want, sizeof(want), "%s waits for a signal of %s, which has not been started\n",
             ut_gate_name(other[1]).text, ut_gate_name(other[0]).text);
    cr_expect_not_null(strstr(warned, want), "%s", warned);
}

/* The call that sends it delivers it there before it returns: the other TNI need not be polled. */
Test(messages, packet_for_another_tni_is_delivered_by_the_call)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;
    utofu_vbg_id_t other[2];

    setenv("UTOFU_PROGRESS_THREAD", "0", 1); /* nor does anybody else */
    open_all();
    cr_assert_eq(utofu_alloc_vbg(TNI + 1, 2, 0, other), UTOFU_SUCCESS);
    struct utofu_vbg_setting here[] = {setting(0, own[1], null, null, other[1]),
                                       setting(1, null, far[0][2], own[0], null)};
    struct utofu_vbg_setting there[] = {
        {other[0], other[1], null, other[1], null, {UTOFU_PATH_COORD_NULL}},
        {other[1], other[0], own[0], other[0], null, {UTOFU_PATH_COORD_NULL}}};
    cr_assert_eq(utofu_set_vbg(here, 2), UTOFU_SUCCESS);
    cr_assert_eq(utofu_set_vbg(there, 2), UTOFU_SUCCESS);
    cr_assert_eq(utofu_barrier(other[0], 0), UTOFU_SUCCESS);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    cr_assert_eq(__atomic_load_n(&ut_gate_table.filled_inboxes, __ATOMIC_ACQUIRE), 0);
    cr_assert_eq(utofu_poll_barrier(other[0], 0), UTOFU_SUCCESS);
}

/* Gates of one TNI that wait for each other: each is told once. */
Test(messages, long_wait_in_a_circle_is_told_once)
{
    const utofu_vbg_id_t null = UTOFU_VBG_ID_NULL;
    char want[1000];

    ut_log_warning_hook = note_warning;
    open_all();
    struct utofu_vbg_setting all[] = {setting(0, own[1], null, null, far[0][1]),
                                      setting(1, own[2], null, own[0], own[2]),
                                      setting(2, null, own[1], own[1], null)};
    cr_assert_eq(utofu_set_vbg(all, 3), UTOFU_SUCCESS);
    cr_assert_eq(utofu_barrier(own[0], 0), UTOFU_SUCCESS);
    poll_in_vain();
    fake_clock_pass_ms(3001);
    poll_in_vain();
    snprintf(want, sizeof(want),
             "the barrier communication of %s has waited 3 s\n"
             "%s waits for a signal of %s, which waits itself\n"
             "%s waits for a signal of %s, which waits itself\n"
             "%s waits for a packet of %s, which waits itself\n",
             ut_gate_name(own[0]).text, ut_gate_name(own[0]).text, ut_gate_name(own[1]).text,
             ut_gate_name(own[1]).text, ut_gate_name(own[2]).text, ut_gate_name(own[2]).text,
             ut_gate_name(own[1]).text);
    cr_expect_str_eq(warned, want, "%s", warned);
}
