/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier gates: a relay gate fires when both of its inputs are there, a start gate when it is
 * started; the inputs of a start gate are the result. Packets and signals take their latency, and
 * no bandwidth of links.
 */
#include <stdlib.h>

#include "model/fail.h"
#include "model/sim.h"

enum { SIGNAL, PACKET, INPUTS, EPOCHS = 8 /* kept of what has arrived and is not used up */ };

struct arrival {
    double at;
    uint32_t start; /* the barrier communication that began last of those it comes from */
};

struct um_gate_state {
    struct arrival in[INPUTS][EPOCHS], result[EPOCHS];
    uint32_t arrived[INPUTS], fired, results, taken;
    uint32_t waiter;
};

void um_gates_open(struct um_sim *s)
{
    s->gates = um_calloc(s->program->num_gates, sizeof(*s->gates));
    for (size_t i = 0; i < s->program->num_gates; i++)
        s->gates[i].waiter = UM_NONE;
}

void um_gates_close(struct um_sim *s)
{
    free(s->gates);
    free(s->starts);
}

static uint32_t node_of(const struct um_sim *s, uint32_t gate)
{
    uint32_t process = s->program->gates[gate].process;

    return process == UM_NONE ? 0 : s->place->node_of_process[process];
}

static void send_outputs(struct um_sim *s, uint32_t gate, double at, uint32_t number)
{
    const struct um_gate *g = &s->program->gates[gate];
    uint32_t links[UM_MOST_HOPS];

    if (g->dst[SIGNAL] != UM_NONE)
        um_events_add(&s->events, at + s->machine->barrier_signal_ns, UM_EVENT_GATE, g->dst[SIGNAL],
                      SIGNAL, number);
    if (g->dst[PACKET] == UM_NONE)
        return;
    unsigned int hops =
        um_route(s->place, node_of(s, gate), node_of(s, g->dst[PACKET]), g->path, links);
    um_events_add(&s->events, at + s->machine->barrier_gate_ns + hops * s->machine->link_hop_ns,
                  UM_EVENT_GATE, g->dst[PACKET], PACKET, number);
}

/* Of what has arrived at the inputs, the last one; false: an input is missing. */
static bool take_inputs(const struct um_gate *g, const struct um_gate_state *state,
                        struct arrival *last)
{
    bool any = false;

    for (int i = 0; i < INPUTS; i++) {
        if (g->src[i] == UM_NONE)
            continue;
        if (state->arrived[i] <= state->fired)
            return false;
        const struct arrival *a = &state->in[i][state->fired % EPOCHS];
        if (!any || a->at > last->at)
            *last = *a;
        any = true;
    }
    return any;
}

static void fire_gate(struct um_sim *s, uint32_t gate)
{
    const struct um_gate *g = &s->program->gates[gate];
    struct um_gate_state *state = &s->gates[gate];
    struct arrival last;

    while (take_inputs(g, state, &last)) {
        state->fired++;
        if (g->number >= 16) {
            send_outputs(s, gate, last.at, last.start);
            continue;
        }
        state->result[state->results++ % EPOCHS] = last;
        uint32_t thread = state->waiter;
        state->waiter = UM_NONE;
        if (thread != UM_NONE)
            s->wake(s, thread, last.at);
    }
}

void um_gates_event(struct um_sim *s, const struct um_event *e)
{
    struct um_gate_state *state = &s->gates[e->a];

    if (e->at > s->end)
        s->end = e->at;
    if (e->kind == UM_EVENT_START) {
        send_outputs(s, e->a, e->at, e->b);
        return;
    }
    state->in[e->b][state->arrived[e->b]++ % EPOCHS] = (struct arrival){e->at, e->c};
    fire_gate(s, e->a);
}

bool um_gate_start(struct um_sim *s, uint32_t gate, uint32_t thread, uint32_t op, double at)
{
    if (!s->program->gates[gate].set)
        return false;
    s->starts = um_grow(s->starts, s->num_starts, &s->room_starts, sizeof(*s->starts));
    s->starts[s->num_starts] = (struct um_start){thread, op};
    um_events_add(&s->events, at, UM_EVENT_START, gate, (uint32_t)s->num_starts++, 0);
    return true;
}

bool um_gate_result(struct um_sim *s, uint32_t gate, uint32_t thread, double *at, uint32_t *cause)
{
    struct um_gate_state *state = &s->gates[gate];

    if (state->taken == state->results) {
        state->waiter = thread;
        return false;
    }
    const struct arrival *a = &state->result[state->taken++ % EPOCHS];
    *at = a->at;
    *cause = a->start;
    return true;
}
