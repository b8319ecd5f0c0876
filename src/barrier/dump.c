/* SPDX-License-Identifier: Apache-2.0 */
/* Prints for ut_dump() which inputs gates wait for. Allocates nothing, and asks no other process.
 */
#include <stdio.h>

#include "barrier/inner.h"
#include "peers/peers.h"
#include "stats/dump.h"

enum { NAME = 80 };

static const char *name_of(char *buf, utofu_vbg_id_t id)
{
    struct ut_vbg_ident ident;
    char rank[UT_DUMP_RANK];
    bool certain;
    int64_t at;

    if (!ut_vbg_id_unpack(id, &ident)) {
        snprintf(buf, NAME, "VBG %#llx", (unsigned long long)id);
    } else {
        at = ut_peers_likely_local_rank(&ident.coords, ident.local_rank, &certain);
        ut_dump_rank(rank, at, certain);
        snprintf(buf, NAME, "tni=%u gate=%u%s", ident.tni, ident.gate, rank);
    }
    return buf;
}

static const char *state_of(const struct ut_gate *g)
{
    if (g->gone)
        return "broken";
    if (!ut_gate_is_start(g->index))
        return "relay";
    return g->active ? "started" : "not_started";
}

/* The state of the source. That of a gate on another TNI is unknown here, because another lock
 * guards it. */
static const char *source_state(const struct ut_gate *g, unsigned int input)
{
    const struct ut_gate_input *in = &g->in[input];
    struct ut_vbg_ident src;

    if (!ut_vbg_id_unpack(in->src, &src))
        return "";
    if (!ut_gate_is_own(&src))
        return ut_gate_state_of_remote(in);
    if (src.tni != g->tni)
        return "which belongs to another TNI";
    const struct ut_gate *from = &ut_gate_table.of_tni[src.tni].gate[src.gate];
    return ut_gate_state_of_local(from,
                                  input == UT_INPUT_SIGNAL ? from->setting.dst_lcl_vbg_id
                                                           : from->setting.dst_rmt_vbg_id,
                                  g->id);
}

static void dump_input(const struct ut_gate *g, unsigned int input)
{
    char name[NAME];

    if (!ut_gate_input_is_empty(g, input))
        return;
    ut_dump_line("    waits for a %s of %s, %s", input == UT_INPUT_SIGNAL ? "signal" : "packet",
                 name_of(name, g->in[input].src), source_state(g, input));
}

static void dump_gate(const struct ut_gate *g)
{
    ut_dump_line("  gate tni=%u gate=%u state=%s epoch=%u signals_in=%u packets_in=%u", g->tni,
                 g->index, state_of(g), g->epoch, g->in[UT_INPUT_SIGNAL].count,
                 g->in[UT_INPUT_PACKET].count);
    if (ut_gate_is_start(g->index) && !g->active)
        return;
    dump_input(g, UT_INPUT_SIGNAL);
    dump_input(g, UT_INPUT_PACKET);
}

void ut_gate_dump(struct ut_vcq *vcq)
{
    const struct ut_gates *t = &ut_gate_table.of_tni[vcq->tni];

    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        if (t->gate[i].set)
            dump_gate(&t->gate[i]);
    }
}
