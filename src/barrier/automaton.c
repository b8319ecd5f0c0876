/* SPDX-License-Identifier: Apache-2.0 */
/* The automaton: the inputs of a gate, firing, and the outputs. */
#include <stdlib.h>
#include <string.h>

#include "barrier/inner.h"
#include "util/clock.h"
#include "util/log.h"
#include "stats/stats.h"

_Static_assert(sizeof(struct ut_msg_packet) + UT_VALUE_PACKED_MAX <= PROV_MSG_MAX,
               "the largest packet fits into one message");

/*
 * Inputs
 */

static void clear_input(struct ut_gate_input *in)
{
    in->head = in->count = 0;
}

static void drop_old(struct ut_gate_input *in)
{
    while (in->count > 0 && ut_epoch_is_before(ut_gate_item_at(in, 0)->tag.epoch, in->floor))
        ut_gate_remove_first(in);
}

static void copy_item(struct ut_gate_item *to, const struct ut_gate_item *from)
{
    to->tag = from->tag;
    to->at = from->at;
    ut_value_copy(&to->value, &from->value);
}

static bool grow_queue(struct ut_gate_input *in)
{
    uint32_t capacity = in->capacity ? in->capacity * 2 : 2;

    if (in->count >= UT_INPUT_MAX)
        return false;
    struct ut_gate_item *items = malloc(capacity * sizeof(*items));
    if (!items)
        return false;
    for (uint32_t i = 0; i < in->count; i++)
        copy_item(&items[i], ut_gate_item_at(in, i));
    free(in->items);
    in->items = items;
    in->capacity = capacity;
    in->head = 0;
    return true;
}

void ut_gate_wire_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t src)
{
    struct ut_gate_input *in = &g->in[input];
    struct ut_vbg_ident ident;

    in->src = src;
    in->last_epoch = in->floor = 0;
    in->last_number = 0;
    in->confirmed = in->failed = in->warned = in->queried = false;
    in->answer = 0;
    clear_input(in);
    if (src != UTOFU_VBG_ID_NULL && ut_vbg_id_unpack(src, &ident) && ut_gate_is_own(&ident)) {
        in->confirmed = true;
        in->floor = __atomic_load_n(&ut_gate_table.of_tni[ident.tni].gate[ident.gate].epoch,
                                    __ATOMIC_RELAXED);
    }
}

void ut_gate_fail_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t culprit)
{
    struct ut_gate_input *in = &g->in[input];

    if (!g->set || in->failed)
        return;
    if (!in->confirmed)
        clear_input(in);
    in->failed = true;
    in->confirmed = true;
    in->culprit = culprit;
    if (input == UT_INPUT_PACKET)
        g->home->unsure &= ~(1ull << g->index);
    ut_gate_mark_ready(g);
}

void ut_gate_set_source_epoch(struct ut_gate *g, uint32_t epoch)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];

    if (in->confirmed)
        return;
    in->confirmed = true;
    g->home->unsure &= ~(1ull << g->index);
    if (!ut_epoch_is_before(epoch, in->floor))
        in->floor = epoch;
    drop_old(in);
    ut_gate_mark_ready(g);
}

/* True if the item is the next one of its source, and the queue has room. */
static __attribute__((noinline)) bool accepts_tag(struct ut_gate *g, unsigned int input,
                                                  const struct ut_gate_tag *tag)
{
    struct ut_gate_input *in = &g->in[input];

    if (in->failed || (in->confirmed && ut_epoch_is_before(tag->epoch, in->floor)) ||
        ut_epoch_is_before(tag->epoch, in->last_epoch))
        return false;
    if (tag->epoch != in->last_epoch) {
        if (in->last_epoch) {
            in->floor = tag->epoch; /* the source was set again */
            drop_old(in);
        }
    } else if (tag->number != in->last_number + 1) {
        ut_error("barrier", "%s: packets of %s were lost", ut_gate_name(g->id).text,
                 ut_gate_name(tag->src).text);
        ut_gate_fail_input(g, input, tag->src);
        return false;
    }
    in->last_epoch = tag->epoch;
    if (in->count == in->capacity && !grow_queue(in)) {
        ut_error("barrier",
                 "%s cannot queue more than the %u packets or signals by which %s is ahead",
                 ut_gate_name(g->id).text, in->count, ut_gate_name(tag->src).text);
        ut_gate_fail_input(g, input, tag->src);
        return false;
    }
    return true;
}

static inline void push_item(struct ut_gate *g, unsigned int input, const struct ut_gate_tag *tag,
                             uint64_t at, const struct ut_value *value)
{
    struct ut_gate_input *in = &g->in[input];

    if (__builtin_expect(!ut_gate_is_next(in, tag->epoch, tag->number), 0) &&
        !accepts_tag(g, input, tag))
        return;
    struct ut_gate_item *item = ut_gate_next_item(in);
    ut_value_copy(&item->value, value);
    ut_gate_append_item(g, in, item, tag->src, tag->number, tag->epoch, tag->last, at);
}

void ut_gate_free_inputs(struct ut_gate *g)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        free(g->in[i].items);
        memset(&g->in[i], 0, sizeof(g->in[i]));
    }
    while (g->unexpected) {
        struct ut_gate_unexpected *s = g->unexpected;
        g->unexpected = s->next;
        free(s);
    }
    g->num_unexpected = 0;
}

/* Stores an item for a gate that may be set later. */
static void keep_unexpected(struct ut_gate *g, unsigned int input, const struct ut_gate_tag *tag,
                            uint64_t at, const struct ut_value *value)
{
    struct ut_gate_input *in = &g->in[input];
    struct ut_gate_unexpected **last = &g->unexpected;

    /* the last item of a gate that was freed may arrive when the circuit is a different one */
    if (g->set && !in->warned && !tag->last) {
        in->warned = true;
        ut_warn("barrier",
                "%s received a %s from %s, but is not set to receive it; the item is kept until "
                "the gate is set",
                ut_gate_name(g->id).text, input == UT_INPUT_SIGNAL ? "signal" : "packet",
                ut_gate_name(tag->src).text);
    }
    struct ut_gate_unexpected *s = malloc(sizeof(*s));
    if (!s)
        return;
    s->next = NULL;
    s->input = (uint8_t)input;
    s->item.tag = *tag;
    s->item.at = at;
    ut_value_copy(&s->item.value, value);
    while (*last)
        last = &(*last)->next;
    *last = s;
    if (++g->num_unexpected > UT_MAX_UNEXPECTED) {
        s = g->unexpected;
        g->unexpected = s->next;
        free(s);
        g->num_unexpected--;
    }
}

void ut_gate_take_unexpected(struct ut_gate *g)
{
    struct ut_gate_unexpected **at = &g->unexpected;

    while (*at) {
        struct ut_gate_unexpected *s = *at;
        if (g->in[s->input].src != s->item.tag.src) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        g->num_unexpected--;
        push_item(g, s->input, &s->item.tag, s->item.at, &s->item.value);
        free(s);
    }
}

/* Delivers an unexpected item, or an item of a counted VCQ. */
static __attribute__((noinline)) void deliver_any(struct ut_gate *g, unsigned int input,
                                                  const struct ut_gate_tag *tag,
                                                  const struct ut_value *value)
{
    struct ut_stats *stats = g->home ? ut_gate_stats(g) : NULL;
    uint64_t at = stats ? ut_clock_ns() : 0;

    if (g->set && g->in[input].src == tag->src)
        push_item(g, input, tag, at, value);
    else
        keep_unexpected(g, input, tag, at, value);
    if (stats && !tag->last)
        ut_gate_report_arrive(stats, g, input, tag, at);
}

static inline void deliver_value(struct ut_gate *g, unsigned int input,
                                 const struct ut_gate_tag *tag, const struct ut_value *value)
{
    if (__builtin_expect(g->set && g->in[input].src == tag->src && !ut_gate_stats(g), 1))
        push_item(g, input, tag, 0, value);
    else
        deliver_any(g, input, tag, value);
}

void ut_gate_deliver(struct ut_gate *g, unsigned int input, const struct ut_gate_tag *tag,
                     const struct ut_value *value)
{
    deliver_value(g, input, tag, value);
}

static bool is_wired(const struct ut_gate_input *in)
{
    return in->src != UTOFU_VBG_ID_NULL;
}

void ut_gate_fail_by_last(struct ut_gate_input *in)
{
    in->failed = true;
    in->culprit = ut_gate_item_at(in, 0)->value.u[0];
    clear_input(in);
}

bool ut_gate_input_is_empty(const struct ut_gate *g, unsigned int input)
{
    const struct ut_gate_input *in = &g->in[input];

    return is_wired(in) && !in->failed && (in->count == 0 || !in->confirmed);
}

static void take_value(struct ut_gate_input *in, struct ut_value *value)
{
    if (in->count == 0) {
        ut_value_broken(value, in->culprit);
        return;
    }
    ut_value_copy(value, &ut_gate_item_at(in, 0)->value);
    ut_gate_remove_first(in);
}

static void note_consumed(struct ut_gate *g, struct ut_stats *stats)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        if (is_wired(&g->in[i]))
            stats->consumed[i] = g->in[i].count > 0 ? ut_gate_item_at(&g->in[i], 0)->at : 0;
    }
}

bool ut_gate_take_all(struct ut_gate *g, struct ut_value *value)
{
    struct ut_stats *stats = ut_gate_stats(g);
    bool any = false;

    if (stats)
        note_consumed(g, stats);
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        struct ut_value more;
        if (!is_wired(&g->in[i]))
            continue;
        take_value(&g->in[i], any ? &more : value);
        if (any)
            ut_value_combine(value, &more);
        any = true;
    }
    return any;
}

/*
 * Sending
 */

static inline __attribute__((always_inline)) void send_remote(struct ut_gate *g,
                                                              const struct ut_value *value,
                                                              bool last)
{
    union {
        struct ut_msg_packet packet;
        uint8_t bytes[sizeof(struct ut_msg_packet) + UT_VALUE_PACKED_MAX];
        uint64_t aligned;
    } m;

    m.packet = (struct ut_msg_packet){.type = UT_MSG_PACKET,
                                      .src = (uint8_t)g->index,
                                      .dst = (uint8_t)ut_vbg_id_gate(g->setting.dst_rmt_vbg_id),
                                      .last = last,
                                      .epoch = g->epoch,
                                      .number = g->out_packets};
    size_t size = sizeof(m.packet) + ut_value_pack(value, m.bytes + sizeof(m.packet));
    ut_link_send(g->dst_link, &m, size, true);
}

/* Not inlined, so that the usual packet, to another process, takes fewer instructions. */
static __attribute__((noinline)) void send_local(struct ut_gate *g, const struct ut_vbg_ident *dst,
                                                 const struct ut_value *value, bool last)
{
    struct ut_gate_cross_tni p = {
        .gate = dst->gate,
        .tag = {.src = g->id, .number = g->out_packets, .epoch = g->epoch, .last = last}};

    if (dst->tni == g->tni) {
        ut_gate_deliver(&ut_gate_table.of_tni[g->tni].gate[dst->gate], UT_INPUT_PACKET, &p.tag,
                        value);
        return;
    }
    ut_value_copy(&p.value, value);
    ut_gate_send_cross_tni(g->tni, dst->tni, &p);
}

static void send_packet(struct ut_gate *g, const struct ut_value *value, bool last)
{
    struct ut_stats *stats = ut_gate_stats(g);
    struct ut_vbg_ident dst;

    g->out_packets++;
    if (__builtin_expect(stats && !last, 0))
        ut_gate_report_send(stats, g, UT_INPUT_PACKET, g->setting.dst_rmt_vbg_id, g->out_packets);
    if (__builtin_expect(g->dst_link != NULL, 1)) {
        send_remote(g, value, last);
        return;
    }
    ut_vbg_id_unpack(g->setting.dst_rmt_vbg_id, &dst);
    if (ut_gate_is_own(&dst))
        send_local(g, &dst, value, last);
}

static inline void send_signal(struct ut_gate *g, const struct ut_value *value, bool last)
{
    struct ut_stats *stats = ut_gate_stats(g);
    struct ut_gate_tag tag = {
        .src = g->id, .number = ++g->out_signals, .epoch = g->epoch, .last = last};

    if (!g->signals_to)
        return;
    if (__builtin_expect(stats && !last, 0))
        ut_gate_report_send(stats, g, UT_INPUT_SIGNAL, g->setting.dst_lcl_vbg_id, tag.number);
    deliver_value(g->signals_to, UT_INPUT_SIGNAL, &tag, value);
}

/* Sends the packet first, because a packet takes longer than a signal. */
static inline void send_both(struct ut_gate *g, const struct ut_value *value, bool last)
{
    if (g->setting.dst_rmt_vbg_id != UTOFU_VBG_ID_NULL)
        send_packet(g, value, last);
    send_signal(g, value, last);
}

static inline void send_to_outputs(struct ut_gate *g, const struct ut_value *value)
{
    struct ut_stats *stats = ut_gate_stats(g);
    uint64_t began = stats ? ut_clock_ns() : 0;

    send_both(g, value, false);
    if (__builtin_expect(stats != NULL, 0))
        ut_gate_report_sent(stats, g, began);
}

void ut_gate_send_outputs(struct ut_gate *g, const struct ut_value *value)
{
    send_to_outputs(g, value);
}

void ut_gate_send_last(struct ut_gate *g, utofu_vbg_id_t culprit)
{
    struct ut_value value;

    if (g->gone)
        return;
    g->gone = true;
    ut_value_broken(&value, culprit);
    send_both(g, &value, true);
}

void ut_gate_query_source(struct ut_gate *g, bool waited)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];

    if (!g->src_link || in->queried || in->failed)
        return;
    struct ut_msg_gate m = {.head = {.type = UT_MSG_GATE, .flags = UT_GATE_QUERY},
                            .src = in->src,
                            .dst = g->id,
                            .serial = g->serial,
                            .last = waited};
    in->queried = true;
    in->waited = waited;
    ut_link_send(g->src_link, &m, sizeof(m), true);
    if (ut_link_is_given_up(g->src_link))
        ut_gate_fail_input(g, UT_INPUT_PACKET, in->src);
}

/*
 * Firing
 */

/* The common case, a signal and a packet: combines the packet into the signal in its queue, and
 * sends the result from there. */
static inline bool fire_in_place(struct ut_gate *g)
{
    struct ut_gate_input *signals = &g->in[UT_INPUT_SIGNAL], *packets = &g->in[UT_INPUT_PACKET];

    if (signals->count == 0 || packets->count == 0 || g->loops)
        return false;
    struct ut_stats *stats = ut_gate_stats(g);
    struct ut_value *value = &ut_gate_item_at(signals, 0)->value;
    if (stats)
        note_consumed(g, stats);
    ut_value_combine(value, &ut_gate_item_at(packets, 0)->value);
    ut_gate_remove_first(packets);
    send_to_outputs(g, value);
    ut_gate_remove_first(signals);
    return true;
}

/* Any other case: an input is not wired, or has failed. */
static __attribute__((noinline)) bool fire_any(struct ut_gate *g)
{
    bool any_item = g->in[UT_INPUT_SIGNAL].count > 0 || g->in[UT_INPUT_PACKET].count > 0;
    struct ut_value value;

    if (!ut_gate_take_all(g, &value))
        return false;
    if (!any_item) {
        ut_gate_send_last(g, value.u[0]);
        return false;
    }
    ut_gate_send_outputs(g, &value);
    return true;
}

void ut_gate_run_ready(struct ut_gates *t)
{
    t->running = true;
    while (t->ready) {
        unsigned int index = (unsigned int)__builtin_ctzll(t->ready);
        struct ut_gate *g = &t->gate[index];
        t->ready &= ~(1ull << index);
        while (g->set && !g->gone && ut_gate_is_complete(g)) {
            if (!fire_in_place(g) && !fire_any(g))
                break;
        }
    }
    t->running = false;
}
