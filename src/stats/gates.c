/* SPDX-License-Identifier: Apache-2.0 */
/* Records the events of barrier gates. An index and the TNI of the VCQ identify a gate. */
#include "stats/stats.h"
#include "util/clock.h"

_Static_assert(UT_COUNT_PACKETS_OUT == UT_COUNT_SIGNALS_OUT + UT_STATS_PACKET &&
                   UT_COUNT_PACKETS_IN == UT_COUNT_SIGNALS_IN + UT_STATS_PACKET,
               "signals and packets are counted side by side");

static uint64_t gate_flow(const struct ut_stats_gate_message *h)
{
    uint64_t mix = ut_stats_mix(ut_stats_mix(ut_stats_mix(2 + h->input, h->src), h->dst), h->epoch);

    return ut_stats_mix(mix, h->number) | 1;
}

static struct ut_stats_event *gate_event(struct ut_stats *stats, unsigned int gate,
                                         enum ut_stats_what what, uint64_t at)
{
    struct ut_stats_event *e;

    if (!stats->timeline.events)
        return NULL;
    uint32_t track = UT_STATS_GATE_TRACKS + (uint32_t)stats->tni * UT_NUM_GATES + gate;
    if (!stats->gates[gate].named) {
        stats->gates[gate].named = true;
        e = ut_stats_event(stats, UT_EVENT_NAME, 0);
        if (e) {
            e->track = track;
            e->kind = UT_NAME_GATE;
            e->bytes = stats->tni;
            e->rank = gate;
        }
    }
    e = ut_stats_event(stats, what, at);
    if (e) {
        e->track = track;
        e->rank = -1;
    }
    return e;
}

static void gate_slice(struct ut_stats *stats, unsigned int gate, enum ut_stats_gate_slice slice,
                       uint64_t began, uint64_t ended, int rc)
{
    struct ut_stats_event *e = gate_event(stats, gate, UT_EVENT_GATE, began);

    if (!e)
        return;
    e->kind = (uint8_t)slice;
    e->length = ended - began;
    e->rc = (int16_t)rc;
    e->edata = stats->gates[gate].op;
}

/* Adds arrows to the slice at `at`, from the arrivals that the gate has consumed. */
static void gate_arrows(struct ut_stats *stats, unsigned int gate, uint64_t at)
{
    for (int i = 0; i < UT_STATS_INPUTS; i++) {
        struct ut_stats_event *e =
            stats->consumed[i] ? gate_event(stats, gate, UT_EVENT_ARROW, at) : NULL;
        if (e)
            e->cause = stats->consumed[i];
        stats->consumed[i] = 0;
    }
}

static void gate_flow_end(struct ut_stats *stats, unsigned int gate, enum ut_stats_what what,
                          uint64_t at, const struct ut_stats_gate_message *hop)
{
    struct ut_stats_event *e = gate_event(stats, gate, what, at);

    if (!e)
        return;
    e->kind = hop->input;
    e->flow = gate_flow(hop);
}

void ut_stats_gate_send(struct ut_stats *stats, unsigned int gate,
                        const struct ut_stats_gate_message *hop)
{
    stats->gates[gate].counts.n[UT_COUNT_SIGNALS_OUT + hop->input]++;
    gate_flow_end(stats, gate, UT_EVENT_FLOW_OUT, ut_clock_ns(), hop);
}

void ut_stats_gate_sent(struct ut_stats *stats, unsigned int gate, uint8_t op, uint64_t began)
{
    bool start = gate < UT_NUM_START_GATES;

    stats->gates[gate].op = op;
    if (start) {
        stats->gates[gate].counts.n[UT_COUNT_BARRIERS]++;
        stats->gates[gate].begin = began;
    } else {
        gate_arrows(stats, gate, began);
    }
    gate_slice(stats, gate, start ? UT_SLICE_START : UT_SLICE_RELAY, began, ut_clock_ns(), 0);
}

void ut_stats_gate_arrive(struct ut_stats *stats, unsigned int gate,
                          const struct ut_stats_gate_message *hop, uint64_t at)
{
    stats->gates[gate].counts.n[UT_COUNT_SIGNALS_IN + hop->input]++;
    gate_slice(stats, gate, hop->input == UT_STATS_SIGNAL ? UT_SLICE_SIGNAL : UT_SLICE_PACKET, at,
               ut_clock_ns(), 0);
    gate_flow_end(stats, gate, UT_EVENT_FLOW_IN, at, hop);
}

void ut_stats_gate_end(struct ut_stats *stats, unsigned int gate, uint8_t op, int rc)
{
    struct ut_stats_gate *g = &stats->gates[gate];
    uint64_t now = ut_clock_ns();

    g->op = op;
    g->counts.n[rc == UTOFU_SUCCESS ? UT_COUNT_BARRIERS_FINISHED : UT_COUNT_BARRIERS_FAILED]++;
    if (g->begin) {
        g->counts.n[UT_COUNT_BARRIER_BLOCKED] += now - g->begin;
        gate_slice(stats, gate, UT_SLICE_BARRIER, g->begin, now + 1, rc);
    }
    g->begin = 0;
    gate_slice(stats, gate, UT_SLICE_RESULT, now, now + 1, rc);
    gate_arrows(stats, gate, now);
}

void ut_stats_end_gates(struct ut_stats *stats)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        struct ut_stats_event *e = stats->gates[i].begin
                                       ? gate_event(stats, i, UT_EVENT_GATE, stats->gates[i].begin)
                                       : NULL;
        if (!e)
            continue;
        e->kind = UT_SLICE_BARRIER;
        e->length = ut_clock_ns() - e->at;
        e->edata = stats->gates[i].op;
        e->unfinished = true;
    }
}
