/* SPDX-License-Identifier: Apache-2.0 */
/* Long waits in a barrier: checks whether the awaited processes are alive, and logs them. */
#include <stdio.h>

#include "barrier/inner.h"
#include "peers/peers.h"
#include "process/process.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/long_wait.h"

enum {
    CHECK_EVERY_POLLS = 64,
    CHECK_EVERY_MS = 1000,
    TRACE_EVERY_MS = 500, /* minimum time between two traces of a gate */
};

/* Called at the first check, which is early enough to count as the start. */
static void begin_wait(struct ut_gate *start)
{
    start->started_ms = ut_now_ms();
    start->look_ms = start->started_ms + CHECK_EVERY_MS;
    start->report_ms = start->started_ms + UT_LONG_WAIT_MS;
}

void ut_gate_check_wait(struct ut_gate *start)
{
    if (start->idle_polls % CHECK_EVERY_POLLS != 0)
        return;
    if (start->idle_polls == CHECK_EVERY_POLLS)
        begin_wait(start);
    uint64_t now = ut_now_ms();
    if (now < start->look_ms)
        return;
    bool report = now >= start->report_ms;
    start->look_ms = now + CHECK_EVERY_MS;
    if (report) {
        start->report_ms = now + (now - start->started_ms);
        ut_warn("barrier", "the barrier communication of %s has waited %llu s",
                ut_gate_name(start->id).text, (unsigned long long)(now - start->started_ms) / 1000);
    }
    ut_gate_trace(start, report);
    ut_gate_run(&ut_gate_table.of_tni[start->tni]);
}

const char *ut_gate_state_of_local(const struct ut_gate *src, utofu_vbg_id_t sends_to,
                                   utofu_vbg_id_t here)
{
    if (!src->set)
        return "which is not set";
    if (sends_to != here)
        return "which is set to send elsewhere";
    if (ut_gate_is_start(src->index))
        return src->active ? "which has not sent it" : "which has not been started";
    return "which waits itself";
}

const char *ut_gate_state_of_remote(const struct ut_gate_input *in)
{
    if (!in->answer)
        return "whose process has not answered";
    if (!(in->answer & UT_ANSWER_ALLOCATED))
        return "which is not allocated";
    if (!(in->answer & UT_ANSWER_SET))
        return "which is not set";
    if (!(in->answer & UT_ANSWER_SENDS_HERE))
        return "which is set to send elsewhere";
    if (in->answer & UT_ANSWER_IDLE)
        return "which has not been started";
    if (in->answer & UT_ANSWER_WANTS_SIGNAL)
        return in->answer & UT_ANSWER_WANTS_PACKET ? "which waits for a signal and a packet itself"
                                                   : "which waits for a signal itself";
    return in->answer & UT_ANSWER_WANTS_PACKET ? "which waits for a packet itself"
                                               : "which has not sent it";
}

static void trace_local(struct ut_gate *g, unsigned int input, struct ut_gate *src, bool report)
{
    bool signal = input == UT_INPUT_SIGNAL;

    if (report)
        ut_warn(
            "barrier", "%s waits for a %s of %s, %s", ut_gate_name(g->id).text,
            signal ? "signal" : "packet", ut_gate_name(g->in[input].src).text,
            ut_gate_state_of_local(
                src, signal ? src->setting.dst_lcl_vbg_id : src->setting.dst_rmt_vbg_id, g->id));
    if (src->set)
        ut_gate_trace(src, report);
}

static void trace_packet(struct ut_gate *g, bool report)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];
    struct ut_vbg_ident src;

    if (!ut_gate_input_is_empty(g, UT_INPUT_PACKET))
        return;
    ut_vbg_id_unpack(in->src, &src);
    if (!ut_gate_is_own(&src)) {
        if (report)
            ut_warn("barrier", "%s waits for a packet of %s, %s", ut_gate_name(g->id).text,
                    ut_gate_name(in->src).text, ut_gate_state_of_remote(in));
        ut_gate_query_source(g, true);
    } else if (src.tni == g->tni) {
        trace_local(g, UT_INPUT_PACKET, &ut_gate_table.of_tni[g->tni].gate[src.gate], report);
    } else {
        struct ut_gate_cross_tni p = {.gate = src.gate, .trace = true, .report = report};
        if (report)
            ut_warn("barrier", "%s waits for a packet of %s", ut_gate_name(g->id).text,
                    ut_gate_name(in->src).text);
        ut_gate_send_cross_tni(g->tni, src.tni, &p);
    }
}

void ut_gate_trace(struct ut_gate *g, bool report)
{
    uint64_t now = ut_now_ms(), *before = report ? &g->reported_ms : &g->traced_ms;
    struct ut_vbg_ident src;

    if (!g->set || now - *before < TRACE_EVERY_MS)
        return;
    *before = now;
    if (ut_gate_is_start(g->index) && !g->active)
        return;
    if (ut_gate_input_is_empty(g, UT_INPUT_SIGNAL)) {
        ut_vbg_id_unpack(g->in[UT_INPUT_SIGNAL].src, &src);
        trace_local(g, UT_INPUT_SIGNAL, &ut_gate_table.of_tni[g->tni].gate[src.gate], report);
    }
    trace_packet(g, report);
}
