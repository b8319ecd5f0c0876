/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between gates, and what the processes tell each other of their gates. */
#include <string.h>

#include "gate/inner.h"
#include "util/log.h"
#include "watch/watch.h"

_Static_assert(sizeof(struct ut_msg_gate) + UT_VALUE_PACKED_MAX <= PROV_MSG_MAX,
               "the largest packet is one message");

/* The library's own VCQ that a gate belongs to. */
static utofu_vcq_id_t vcq_id_of(const struct ut_vbg_ident *gate)
{
    struct ut_vcq_ident ident = {.coords = gate->coords,
                                 .tni = UT_TNI_INTERNAL,
                                 .cq = (uint16_t)gate->local_rank,
                                 .cmp = gate->tni};

    return ut_vcq_id_canonical(&ident);
}

static struct ut_link *link_to(struct ut_gate *g, utofu_vbg_id_t other)
{
    struct ut_vbg_ident ident;
    struct ut_link *link;

    if (other == UTOFU_VBG_ID_NULL || !ut_vbg_id_unpack(other, &ident) || ut_gate_is_own(&ident))
        return NULL;
    link = ut_link_get(ut_gates_vcq(&ut_gates[g->tni]), vcq_id_of(&ident));
    if (!link)
        ut_error("gate", "no memory for the connection to %s", ut_gate_name(other));
    return link;
}

void ut_gate_find_links(struct ut_gate *g)
{
    g->src_link = link_to(g, g->setting.src_rmt_vbg_id);
    g->dst_link = link_to(g, g->setting.dst_rmt_vbg_id);
}

/*
 * Sending
 */

static void send_message(struct ut_link *link, struct ut_msg_gate *m, const struct ut_value *value)
{
    uint64_t buffer[PROV_MSG_MAX / sizeof(uint64_t)];
    size_t size = sizeof(*m);

    m->head.type = UT_MSG_GATE;
    memcpy(buffer, m, sizeof(*m));
    if (value)
        size += ut_value_pack(value, (uint8_t *)buffer + size);
    if (ut_link_send(link, buffer, size, true) != 0)
        ut_error("gate", "no memory to send to %s", ut_gate_name(m->dst));
}

static void send_within(struct ut_gate *g, const struct ut_vbg_ident *dst,
                        const struct ut_value *value, bool last)
{
    struct ut_gate_parcel p = {
        .gate = dst->gate,
        .item = {.src = g->id, .number = g->out_packets, .epoch = g->epoch, .last = last}};

    ut_value_copy(&p.item.value, value);
    if (dst->tni == g->tni)
        ut_gate_deliver(&ut_gates[g->tni].gate[dst->gate], UT_INPUT_PACKET, &p.item);
    else
        ut_gate_leave_parcel(dst->tni, &p);
}

void ut_gate_send_packet(struct ut_gate *g, const struct ut_value *value, bool last)
{
    struct ut_vbg_ident dst;

    if (g->setting.dst_rmt_vbg_id == UTOFU_VBG_ID_NULL)
        return;
    g->out_packets++;
    struct ut_watch *w = ut_gates[g->tni].vcq->watch;
    if (w && !last)
        ut_watch_gate_send(w, g, UT_INPUT_PACKET, g->setting.dst_rmt_vbg_id, g->out_packets);
    ut_vbg_id_unpack(g->setting.dst_rmt_vbg_id, &dst);
    if (ut_gate_is_own(&dst)) {
        send_within(g, &dst, value, last);
    } else if (g->dst_link) {
        struct ut_msg_gate m = {.head = {.flags = UT_GATE_PACKET, .slot = g->epoch},
                                .src = g->id,
                                .dst = g->setting.dst_rmt_vbg_id,
                                .number = g->out_packets,
                                .last = last};
        send_message(g->dst_link, &m, value);
    }
}

void ut_gate_ask(struct ut_gate *g, bool waited)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];

    if (!g->src_link || in->asked || in->failed)
        return;
    struct ut_msg_gate m = {.head = {.flags = UT_GATE_QUERY},
                            .src = in->src,
                            .dst = g->id,
                            .serial = g->serial,
                            .last = waited};
    in->asked = true;
    in->waited = waited;
    if (g->src_link->state != UT_LINK_DEAD)
        send_message(g->src_link, &m, NULL);
    if (g->src_link->state == UT_LINK_DEAD)
        ut_gate_fail_input(g, UT_INPUT_PACKET, in->src);
}

void ut_gate_ask_first(struct ut_gate *g)
{
    if (g->set && !g->in[UT_INPUT_PACKET].confirmed)
        ut_gate_ask(g, false);
}

/*
 * Receiving
 */

static void take_packet(struct ut_gate *g, const struct ut_msg_gate *m, size_t size)
{
    struct ut_gate_item item = {
        .src = m->src, .number = m->number, .epoch = m->head.slot, .last = m->last != 0};

    if (!ut_value_unpack(&item.value, (const uint8_t *)(m + 1), size - sizeof(*m)) ||
        (item.last && item.value.status != UT_VALUE_BROKEN)) {
        ut_error("gate", "%s got a packet of %s that makes no sense", ut_gate_name(m->dst),
                 ut_gate_name(m->src));
        return;
    }
    ut_gate_deliver(g, UT_INPUT_PACKET, &item);
    ut_gate_ask_first(g);
}

static uint8_t state_of(const struct ut_gate *g, utofu_vbg_id_t dst)
{
    unsigned int bits = UT_ANSWER_VALID;

    if (g->allocated)
        bits |= UT_ANSWER_ALLOCATED;
    if (!g->set)
        return (uint8_t)bits;
    bits |= UT_ANSWER_SET;
    if (g->setting.dst_rmt_vbg_id == dst)
        bits |= UT_ANSWER_SENDS_HERE;
    if (ut_gate_is_start(g->index))
        return (uint8_t)(g->active ? bits : bits | UT_ANSWER_IDLE);
    if (ut_gate_lacks(g, UT_INPUT_SIGNAL))
        bits |= UT_ANSWER_WANTS_SIGNAL;
    if (ut_gate_lacks(g, UT_INPUT_PACKET))
        bits |= UT_ANSWER_WANTS_PACKET;
    return (uint8_t)bits;
}

/* Somebody waits for this gate, or will: answers, and if somebody does, makes sure of those that it
 * waits for itself. */
static void take_query(struct ut_gate *g, struct ut_link *link, const struct ut_msg_gate *m)
{
    struct ut_msg_gate reply = {.head = {.flags = UT_GATE_ANSWER, .slot = g->epoch},
                                .src = m->src,
                                .dst = m->dst,
                                .serial = m->serial,
                                .answer = state_of(g, m->dst)};

    if (reply.answer & UT_ANSWER_SENDS_HERE)
        reply.number = g->out_packets;
    send_message(link, &reply, NULL);
    if (m->last)
        ut_gate_trace(g, false);
}

static void take_answer(struct ut_gate *g, const struct ut_msg_gate *m)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];
    uint32_t epoch = m->head.slot;

    if (!g->set || in->src != m->src || g->serial != m->serial)
        return;
    bool sent_here = in->answer & UT_ANSWER_SENDS_HERE;
    in->asked = false;
    in->answer = m->answer;
    ut_gate_confirm(g, epoch);
    if (epoch == in->last_epoch && m->number > in->last_number && !in->failed) {
        ut_error("gate", "%s: packets of %s were lost", ut_gate_name(g->id), ut_gate_name(m->src));
        ut_gate_fail_input(g, UT_INPUT_PACKET, m->src);
        return;
    }
    /* set anew, or freed; a gate that never was allocated may be late */
    if ((sent_here && !(m->answer & UT_ANSWER_SENDS_HERE)) ||
        (in->waited && epoch > 0 && !(m->answer & UT_ANSWER_ALLOCATED)))
        ut_gate_fail_input(g, UT_INPUT_PACKET, m->src);
}

void ut_gate_on_message(struct ut_link *link, const void *data, size_t size)
{
    const struct ut_msg_gate *m = data;
    struct ut_gates *t = &ut_gates[link->vcq->tni];
    struct ut_vbg_ident src, dst;

    if (size < sizeof(*m) || link->vcq->ident.tni != UT_TNI_INTERNAL ||
        !ut_vbg_id_unpack(m->src, &src) || !ut_vbg_id_unpack(m->dst, &dst))
        goto nonsense;
    bool query = m->head.flags == UT_GATE_QUERY;
    const struct ut_vbg_ident *mine = query ? &src : &dst, *theirs = query ? &dst : &src;
    if (!ut_gate_is_own(mine) || mine->tni != link->vcq->tni || vcq_id_of(theirs) != link->peer)
        goto nonsense;
    struct ut_gate *g = &t->gate[mine->gate];
    switch (m->head.flags) {
    case UT_GATE_PACKET:
        take_packet(g, m, size);
        break;
    case UT_GATE_QUERY:
        take_query(g, link, m);
        break;
    case UT_GATE_ANSWER:
        take_answer(g, m);
        break;
    default:
        goto nonsense;
    }
    ut_gate_run(t);
    return;

nonsense:
    ut_error("gate", "VCQ %016llx sent %zu bytes that are nothing for a gate",
             (unsigned long long)link->peer, size);
}

/* Does somebody wait for a packet here, this very moment? */
static bool is_waiting(const struct ut_gate *g)
{
    if (!ut_gate_lacks(g, UT_INPUT_PACKET))
        return false;
    return ut_gate_is_start(g->index) ? g->active : g->in[UT_INPUT_SIGNAL].count > 0;
}

void ut_gate_on_link_failed(struct ut_link *link, bool dead)
{
    struct ut_gates *t = &ut_gates[link->vcq->tni];

    if (link->vcq->ident.tni != UT_TNI_INTERNAL)
        return;
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        struct ut_gate *g = &t->gate[i];
        if (!g->set || g->src_link != link)
            continue;
        if (dead || is_waiting(g))
            ut_gate_fail_input(g, UT_INPUT_PACKET, g->in[UT_INPUT_PACKET].src);
        else
            g->in[UT_INPUT_PACKET].asked = false; /* asks again when it is needed */
    }
    ut_gate_run(t);
}
