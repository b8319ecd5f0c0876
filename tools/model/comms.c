/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a communication: its flights, its notices, session mode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "model/sim.h"
#include "model/table.h"

#include "utofu.h"

enum role { DATA, REQUEST, ANSWER };

static const uint8_t default_path[3] = {UM_DEFAULT_PATH, UM_DEFAULT_PATH, UM_DEFAULT_PATH};

uint32_t um_comm_node(const struct um_sim *s, uint32_t vcq)
{
    return s->place->node_of_process[s->program->vcqs[vcq].process];
}

double um_comm_bytes(const struct um_sim *s, const struct um_comm *c)
{
    if (c->kind == UM_PUT || c->kind == UM_GET)
        return ceil(c->length * s->options.bytes);
    return c->length;
}

/*
 * Marks
 */

static void set_mark(struct um_sim *s, uint32_t comm, enum um_mark mark, double at)
{
    struct um_comm_state *c = &s->comms[comm];
    uint32_t thread = c->waiter[mark];

    c->at[mark] = at;
    if (at > s->end)
        s->end = at;
    c->waiter[mark] = UM_NONE;
    if (thread != UM_NONE)
        s->wake(s, thread, at);
}

/* Notices are there only where they were asked for. */
static void mark_later(struct um_sim *s, uint32_t comm, enum um_mark mark, double at)
{
    static const uint16_t flags[] = {[UM_MARK_TCQ] = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                                     [UM_MARK_LOCAL] = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                                     [UM_MARK_REMOTE] = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE};

    if (s->program->comms[comm].flags & flags[mark])
        um_events_add(&s->events, at, UM_EVENT_MARK, comm, mark, 0);
}

/*
 * Starting
 */

static uint16_t tni_of(const struct um_sim *s, uint32_t comm)
{
    return s->spread_to ? s->spread_to[comm] : s->program->vcqs[s->program->comms[comm].vcq].tni;
}

/* A VCQ's flights leave in order; one that is spread over TNIs has a queue for each of them. */
static uint32_t queue_of(const struct um_sim *s, uint32_t comm)
{
    uint32_t tnis = s->network.num_tnis, vcq = s->program->comms[comm].vcq;

    return vcq * tnis + (s->spread_to ? tni_of(s, comm) % tnis : 0);
}

static uint32_t answers_of(const struct um_sim *s, uint32_t node, uint16_t tni)
{
    uint32_t tnis = s->network.num_tnis;

    return ((uint32_t)s->program->num_vcqs + node) * tnis + tni % tnis;
}

static void start_comm(struct um_sim *s, uint32_t comm, double at)
{
    const struct um_machine *m = s->machine;
    const struct um_comm *c = &s->program->comms[comm];

    s->comms[comm].started = at;
    if (c->kind == UM_NOP) {
        mark_later(s, comm, UM_MARK_TCQ, at + m->tni_tcq_ns);
        return;
    }
    struct um_send send = {.from = um_comm_node(s, c->vcq),
                           .to = um_comm_node(s, c->remote),
                           .from_tni = tni_of(s, comm),
                           .to_tni = s->options.spread == UM_SPREAD_PAIRS
                                         ? tni_of(s, comm)
                                         : s->program->vcqs[c->remote].tni,
                           .bytes = c->kind == UM_GET ? 0 : um_comm_bytes(s, c),
                           .before = m->tni_send_ns,
                           .after = c->kind == UM_GET    ? m->tni_get_ns
                                    : c->kind == UM_ARMW ? m->tni_armw_ns
                                                         : m->tni_receive_ns,
                           .mtu = c->mtu,
                           .gap = c->gap,
                           .tag = comm,
                           .tag2 = c->kind == UM_PUT ? DATA : REQUEST};
    memcpy(send.path, c->path, 3);
    um_network_send(&s->network, queue_of(s, comm), &send, at);
}

/* Session mode: starts what arrived puts allow. */
static void start_allowed(struct um_sim *s, uint32_t vcq, double at)
{
    struct um_vcq_state *v = &s->vcqs[vcq];

    while (v->head != UM_NONE && v->started < v->allowed) {
        uint32_t comm = v->head;
        v->head = s->next[comm];
        v->started++;
        s->comms[comm].trigger = v->trigger;
        start_comm(s, comm, at);
    }
}

static void post_comm(struct um_sim *s, uint32_t comm, double at)
{
    uint32_t vcq = s->program->comms[comm].vcq;
    struct um_vcq_state *v = &s->vcqs[vcq];

    s->comms[comm].posted = at;
    if (!s->program->vcqs[vcq].session) {
        start_comm(s, comm, at);
        return;
    }
    s->next[comm] = UM_NONE;
    if (v->head == UM_NONE)
        v->head = comm;
    else
        s->next[v->tail] = comm;
    v->tail = comm;
    start_allowed(s, vcq, at);
}

/*
 * What the network reports
 */

static void on_injected(void *arg, const struct um_send *send, double at)
{
    struct um_sim *s = arg;
    const struct um_machine *m = s->machine;

    double packet = send->bytes < m->packet_mtu ? send->bytes : m->packet_mtu;

    /* the data have been read, and have left */
    if (send->tag2 >= UM_MPI_FLIGHT)
        return;
    if (send->tag2 != ANSWER)
        mark_later(s, send->tag, UM_MARK_TCQ,
                   at + send->before + packet / m->tni_packet_rate + m->tni_tcq_ns);
    else if (s->program->comms[send->tag].kind == UM_GET)
        mark_later(s, send->tag, UM_MARK_REMOTE, at + m->tni_mrq_ns);
}

static void put_arrived(struct um_sim *s, const struct um_send *send, double at)
{
    const struct um_machine *m = s->machine;
    const struct um_comm *c = &s->program->comms[send->tag];
    uint32_t links[UM_MOST_HOPS];
    unsigned int hops = um_route(s->place, send->to, send->from, default_path, links);

    set_mark(s, send->tag, UM_MARK_LANDED, at);
    mark_later(s, send->tag, UM_MARK_REMOTE, at + m->tni_mrq_ns);
    mark_later(s, send->tag, UM_MARK_LOCAL, at + m->tni_ack_ns + hops * m->link_hop_ns);
    if (c->sps)
        um_events_add(&s->events, at + m->tni_schedule_ns, UM_EVENT_SCHEDULE, send->tag, 0, 0);
}

static void request_arrived(struct um_sim *s, const struct um_send *request, double at)
{
    const struct um_machine *m = s->machine;
    const struct um_comm *c = &s->program->comms[request->tag];
    struct um_send answer = {.from = request->to,
                             .to = request->from,
                             .from_tni = request->to_tni,
                             .to_tni = request->from_tni,
                             .bytes = um_comm_bytes(s, c),
                             .after = m->tni_receive_ns,
                             .mtu = c->mtu,
                             .gap = request->gap,
                             .tag = request->tag,
                             .tag2 = ANSWER};

    if (c->kind == UM_ARMW) {
        set_mark(s, request->tag, UM_MARK_LANDED, at);
        mark_later(s, request->tag, UM_MARK_REMOTE, at + m->tni_mrq_ns);
    }
    memcpy(answer.path, default_path, 3);
    um_network_send(&s->network, answers_of(s, answer.from, answer.from_tni), &answer, at);
}

static void on_arrived(void *arg, const struct um_send *send, double at)
{
    struct um_sim *s = arg;

    if (send->tag2 >= UM_MPI_FLIGHT) {
        um_mpi_arrived(s, send, at);
    } else if (send->tag2 == DATA) {
        put_arrived(s, send, at);
    } else if (send->tag2 == REQUEST) {
        request_arrived(s, send, at);
    } else {
        if (s->program->comms[send->tag].kind == UM_GET)
            set_mark(s, send->tag, UM_MARK_LANDED, at);
        mark_later(s, send->tag, UM_MARK_LOCAL, at + s->machine->tni_mrq_ns);
    }
}

void um_comms_event(struct um_sim *s, const struct um_event *e)
{
    if (e->kind == UM_EVENT_POST) {
        post_comm(s, e->a, e->at);
    } else if (e->kind == UM_EVENT_MARK) {
        set_mark(s, e->a, (enum um_mark)e->b, e->at);
    } else {
        uint32_t vcq = s->program->comms[e->a].remote;
        s->vcqs[vcq].allowed += s->program->comms[e->a].sps;
        s->vcqs[vcq].trigger = e->a;
        start_allowed(s, vcq, e->at);
    }
}

/*
 * Beginning and end
 */

void um_comms_spread(struct um_sim *s)
{
    struct um_table peers = {.entries = NULL}, next = {.entries = NULL};
    uint32_t tnis = (uint32_t)s->machine->tni_number;

    s->spread_to = um_calloc(s->program->num_comms, 1);
    for (size_t i = 0; i < s->program->num_comms; i++) {
        const struct um_comm *c = &s->program->comms[i];
        uint32_t *tni = um_table_at(&peers, c->vcq, c->remote, UM_NONE);
        if (*tni == UM_NONE) {
            uint32_t *first = um_table_at(&next, c->vcq, 0, s->program->vcqs[c->vcq].tni);
            *tni = (*first)++ % tnis;
        }
        s->spread_to[i] = (uint8_t)*tni;
    }
    um_table_free(&peers);
    um_table_free(&next);
}

void um_comms_open(struct um_sim *s)
{
    const struct um_program *p = s->program;

    s->comms = um_calloc(p->num_comms, sizeof(*s->comms));
    s->next = um_calloc(p->num_comms, sizeof(*s->next));
    s->vcqs = um_calloc(p->num_vcqs, sizeof(*s->vcqs));
    for (size_t i = 0; i < p->num_comms; i++) {
        struct um_comm_state *c = &s->comms[i];
        *c = (struct um_comm_state){.posted = -1, .started = -1, .trigger = UM_NONE};
        for (int k = 0; k < UM_MARKS; k++) {
            c->at[k] = -1;
            c->waiter[k] = UM_NONE;
        }
    }
    for (size_t i = 0; i < p->num_vcqs; i++)
        s->vcqs[i] = (struct um_vcq_state){.head = UM_NONE, .tail = UM_NONE, .trigger = UM_NONE};
    s->network = (struct um_network){.machine = s->machine,
                                     .place = s->place,
                                     .events = &s->events,
                                     .injected = on_injected,
                                     .arrived = on_arrived,
                                     .arg = s};
    um_network_open(&s->network,
                    (p->num_vcqs + s->place->num_nodes) * (size_t)s->machine->tni_number +
                        um_mpi_queues(p, s->machine));
    if (s->options.spread)
        um_comms_spread(s);
}

void um_comms_close(struct um_sim *s)
{
    um_network_close(&s->network);
    free(s->comms);
    free(s->next);
    free(s->vcqs);
    free(s->spread_to);
}
