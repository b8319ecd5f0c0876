/* SPDX-License-Identifier: Apache-2.0 */
/* Links between gates of different processes, and their messages: packets, queries, answers. */
#include <string.h>

#include "barrier/inner.h"
#include "util/log.h"
#include "stats/stats.h"

/* The id of the library's own VCQ that has this gate. */
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
    link = ut_link_get(ut_gates_vcq(&ut_gate_table.of_tni[g->tni]), vcq_id_of(&ident));
    if (!link)
        ut_error("barrier", "no memory for the connection to %s", ut_gate_name(other).text);
    return link;
}

bool ut_gate_can_reach(struct ut_gate *start, const struct utofu_vbg_setting *s)
{
    const utofu_vbg_id_t others[] = {s->src_rmt_vbg_id, s->dst_rmt_vbg_id};
    struct ut_vbg_ident ident;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (others[i] != UTOFU_VBG_ID_NULL && ut_vbg_id_unpack(others[i], &ident) &&
            !ut_gate_is_own(&ident) && !link_to(start, others[i]))
            return false;
    }
    return true;
}

void ut_gate_find_links(struct ut_gate *g)
{
    g->src_link = link_to(g, g->setting.src_rmt_vbg_id);
    g->dst_link = link_to(g, g->setting.dst_rmt_vbg_id);
}

static void bad_message(const struct ut_link *link, size_t size)
{
    ut_error("barrier",
             "VCQ %016llx sent %zu bytes that are not a valid message for a gate; dropped",
             (unsigned long long)link->peer, size);
}

/* The id of gate `index` at the other end of a link. */
static utofu_vbg_id_t gate_behind(const struct ut_link *link, unsigned int index)
{
    struct ut_vcq_ident vcq;

    ut_vcq_id_unpack(link->peer, &vcq);
    struct ut_vbg_ident gate = {
        .coords = vcq.coords, .tni = vcq.cmp, .local_rank = vcq.cq, .gate = (uint16_t)index};
    return ut_vbg_id_pack(&gate);
}

static void __attribute__((noinline, cold))
bad_packet(const struct ut_link *link, unsigned int dst, utofu_vbg_id_t src)
{
    ut_error("barrier", "%s: dropped a packet of %s without a valid value",
             ut_gate_name(ut_gate_own_id(link->vcq->tni, dst)).text, ut_gate_name(src).text);
}

/* Handles every packet but the expected one of the gate's source. */
static void __attribute__((noinline))
take_any_packet(struct ut_gate *g, struct ut_link *link, const struct ut_msg_packet *m, size_t size)
{
    struct ut_value value;
    struct ut_gate_tag tag = {.src = g->in[UT_INPUT_PACKET].src,
                              .number = m->number,
                              .epoch = m->epoch,
                              .last = m->last != 0};

    if (g->src_link != link || ut_vbg_id_gate(tag.src) != m->src)
        tag.src = gate_behind(link, m->src);
    if (!ut_value_unpack(&value, (const uint8_t *)(m + 1), size - sizeof(*m)) ||
        (tag.last && value.status != UT_VALUE_BROKEN))
        bad_packet(link, m->dst, tag.src);
    else
        ut_gate_deliver(g, UT_INPUT_PACKET, &tag, &value);
}

static void on_packet(struct ut_link *link, const void *data, size_t size)
{
    const struct ut_msg_packet *m = data;
    struct ut_gates *t = ut_gates_of(link->vcq->tni);

    if (__builtin_expect(m->src >= UT_NUM_GATES || m->dst >= UT_NUM_GATES, 0)) {
        bad_message(link, size);
        return;
    }
    struct ut_gate *g = ut_gate_of(t, m->dst);
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];
    if (__builtin_expect(g->src_link == link && ut_vbg_id_gate(in->src) == m->src && !m->last &&
                             ut_gate_is_next(in, m->epoch, m->number) && !link->vcq->stats,
                         1)) {
        struct ut_gate_item *item = ut_gate_next_item(in);
        if (!ut_value_unpack(&item->value, (const uint8_t *)(m + 1), size - sizeof(*m))) {
            bad_packet(link, m->dst, in->src);
            return;
        }
        ut_gate_append_item(g, in, item, in->src, m->number, m->epoch, false, 0);
        ut_gate_query_epoch(g);
    } else {
        take_any_packet(g, link, m, size);
        if (g->home)
            ut_gate_query_epoch(g);
    }
    ut_gate_run(t);
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
    if (ut_gate_input_is_empty(g, UT_INPUT_SIGNAL))
        bits |= UT_ANSWER_WANTS_SIGNAL;
    if (ut_gate_input_is_empty(g, UT_INPUT_PACKET))
        bits |= UT_ANSWER_WANTS_PACKET;
    return (uint8_t)bits;
}

/* Answers a query of a gate that has this gate as its packet source. If a barrier communication
 * waits there (m->last), also queries the sources of this gate. */
static void take_query(struct ut_gate *g, struct ut_link *link, const struct ut_msg_gate *m)
{
    struct ut_msg_gate reply = {
        .head = {.type = UT_MSG_GATE, .flags = UT_GATE_REPLY, .slot = g->epoch},
        .src = m->src,
        .dst = m->dst,
        .serial = m->serial,
        .answer = state_of(g, m->dst)};

    if (reply.answer & UT_ANSWER_SENDS_HERE)
        reply.number = g->out_packets;
    ut_link_send(link, &reply, sizeof(reply), true);
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
    in->queried = false;
    in->answer = m->answer;
    ut_gate_set_source_epoch(g, epoch);
    if (epoch == in->last_epoch && (int32_t)((uint32_t)m->number - in->last_number) > 0 &&
        !in->failed) {
        ut_error("barrier", "%s: packets of %s were lost", ut_gate_name(g->id).text,
                 ut_gate_name(m->src).text);
        ut_gate_fail_input(g, UT_INPUT_PACKET, m->src);
        return;
    }
    /* the source was set again or freed; a source that was never allocated may still come */
    if ((sent_here && !(m->answer & UT_ANSWER_SENDS_HERE)) ||
        (in->waited && epoch > 0 && !(m->answer & UT_ANSWER_ALLOCATED)))
        ut_gate_fail_input(g, UT_INPUT_PACKET, m->src);
}

static void on_message(struct ut_link *link, const void *data, size_t size)
{
    const struct ut_msg_gate *m = data;
    struct ut_gates *t = &ut_gate_table.of_tni[link->vcq->tni];
    struct ut_vbg_ident src, dst;

    if (!ut_vbg_id_unpack(m->src, &src) || !ut_vbg_id_unpack(m->dst, &dst)) {
        bad_message(link, size);
        return;
    }
    bool query = m->head.flags == UT_GATE_QUERY;
    const struct ut_vbg_ident *mine = query ? &src : &dst, *theirs = query ? &dst : &src;
    if (!ut_gate_is_own(mine) || mine->tni != link->vcq->tni || vcq_id_of(theirs) != link->peer ||
        (!query && m->head.flags != UT_GATE_REPLY)) {
        bad_message(link, size);
        return;
    }
    struct ut_gate *g = &t->gate[mine->gate];
    if (query)
        take_query(g, link, m);
    else
        take_answer(g, m);
    ut_gate_run(t);
}

/* Does a barrier communication now wait for a packet at this gate? */
static bool is_waiting(const struct ut_gate *g)
{
    if (!ut_gate_input_is_empty(g, UT_INPUT_PACKET))
        return false;
    return ut_gate_is_start(g->index) ? g->active : g->in[UT_INPUT_SIGNAL].count > 0;
}

static void on_link_failed(struct ut_link *link, bool dead)
{
    struct ut_gates *t = &ut_gate_table.of_tni[link->vcq->tni];

    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        struct ut_gate *g = &t->gate[i];
        if (!g->set || g->src_link != link)
            continue;
        if (dead || is_waiting(g))
            ut_gate_fail_input(g, UT_INPUT_PACKET, g->in[UT_INPUT_PACKET].src);
        else
            g->in[UT_INPUT_PACKET].queried = false; /* the query is sent again when needed */
    }
    ut_gate_run(t);
}

const struct ut_vcq_handlers ut_gate_handlers = {
    .packet = on_packet,
    .message = on_message,
    .link_failed = on_link_failed,
    .progress = ut_gate_progress,
};
