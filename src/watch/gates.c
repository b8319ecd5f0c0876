/* SPDX-License-Identifier: Apache-2.0 */
/* What barrier gates tell. */
#include "gate/inner.h"
#include "watch/watch.h"

static uint64_t gate_flow(unsigned int input, utofu_vbg_id_t src, utofu_vbg_id_t dst,
                          uint32_t epoch, uint64_t number)
{
    uint64_t mix = ut_watch_mix(ut_watch_mix(ut_watch_mix(2 + input, src), dst), epoch);

    return ut_watch_mix(mix, number) | 1;
}

static struct ut_watch_event *gate_event(struct ut_watch *w, const struct ut_gate *g,
                                         enum ut_watch_what what, uint64_t at)
{
    struct ut_watch_event *e;

    if (!w->events)
        return NULL;
    uint32_t track = UT_WATCH_GATE_TRACKS + (uint32_t)g->tni * UT_NUM_GATES + g->index;
    if (!w->gates[g->index].named) {
        w->gates[g->index].named = true;
        e = ut_trace_event(w, UT_EVENT_NAME, 0);
        if (e) {
            e->track = track;
            e->kind = UT_NAME_GATE;
            e->bytes = g->tni;
            e->rank = g->index;
        }
    }
    e = ut_trace_event(w, what, at);
    if (e) {
        e->track = track;
        e->rank = -1;
    }
    return e;
}

static void gate_slice(struct ut_watch *w, const struct ut_gate *g, enum ut_watch_gate_slice slice,
                       uint64_t began, uint64_t ended, int rc)
{
    struct ut_watch_event *e = gate_event(w, g, UT_EVENT_GATE, began);

    if (!e)
        return;
    e->kind = (uint8_t)slice;
    e->length = ended - began;
    e->rc = (int16_t)rc;
    e->edata = g->mine.op;
}

/* From the arrivals that it took to what it did with them. */
static void gate_arrows(struct ut_watch *w, const struct ut_gate *g, uint64_t at)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        struct ut_watch_event *e = w->consumed[i] ? gate_event(w, g, UT_EVENT_ARROW, at) : NULL;
        if (e)
            e->cause = w->consumed[i];
        w->consumed[i] = 0;
    }
}

static void gate_flow_end(struct ut_watch *w, const struct ut_gate *g, enum ut_watch_what what,
                          uint64_t at, unsigned int input, uint64_t flow)
{
    struct ut_watch_event *e = gate_event(w, g, what, at);

    if (!e)
        return;
    e->kind = (uint8_t)input;
    e->flow = flow;
}

void ut_watch_gate_send(struct ut_watch *w, const struct ut_gate *g, unsigned int input,
                        utofu_vbg_id_t dst, uint64_t number)
{
    w->gates[g->index].sent[input]++;
    gate_flow_end(w, g, UT_EVENT_FLOW_OUT, ut_watch_now(), input,
                  gate_flow(input, g->id, dst, g->epoch, number));
}

void ut_watch_gate_sent(struct ut_watch *w, const struct ut_gate *g, uint64_t began)
{
    bool start = ut_gate_is_start(g->index);

    if (start) {
        w->gates[g->index].started++;
        w->gates[g->index].begin = began;
    } else {
        gate_arrows(w, g, began);
    }
    gate_slice(w, g, start ? UT_SLICE_START : UT_SLICE_RELAY, began, ut_watch_now(), 0);
}

void ut_watch_gate_arrive(struct ut_watch *w, const struct ut_gate *g, unsigned int input,
                          const struct ut_gate_tag *tag, uint64_t at)
{
    w->gates[g->index].received[input]++;
    gate_slice(w, g, input == UT_INPUT_SIGNAL ? UT_SLICE_SIGNAL : UT_SLICE_PACKET, at,
               ut_watch_now(), 0);
    gate_flow_end(w, g, UT_EVENT_FLOW_IN, at, input,
                  gate_flow(input, tag->src, g->id, tag->epoch, tag->number));
}

void ut_watch_gate_end(struct ut_watch *w, const struct ut_gate *g, int rc)
{
    struct ut_watch_gate *gate = &w->gates[g->index];
    uint64_t now = ut_watch_now();

    if (rc == UTOFU_SUCCESS)
        gate->finished++;
    else
        gate->failed++;
    if (gate->begin) {
        gate->blocked_ns += now - gate->begin;
        gate_slice(w, g, UT_SLICE_BARRIER, gate->begin, now + 1, rc);
    }
    gate->begin = 0;
    gate_slice(w, g, UT_SLICE_RESULT, now, now + 1, rc);
    gate_arrows(w, g, now);
}

void ut_watch_end_gates(struct ut_watch *w)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        const struct ut_gate *g = &ut_gates[w->tni].gate[i];
        struct ut_watch_event *e =
            w->gates[i].begin ? gate_event(w, g, UT_EVENT_GATE, w->gates[i].begin) : NULL;
        if (!e)
            continue;
        e->kind = UT_SLICE_BARRIER;
        e->length = ut_watch_now() - e->at;
        e->edata = g->mine.op;
        e->unfinished = true;
    }
}
