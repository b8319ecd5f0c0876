/* SPDX-License-Identifier: Apache-2.0 */
/* Gates: src/barrier/setup.c itself. Numbers of packets and signals, and positions of inputs, begin
 * below the wrap each time that a gate is set, epochs in the first life of a gate. */
#include "barrier/inner.h"
#include "wraps.h"

static inline void begin_set(struct ut_gate *g)
{
    g->out_signals = g->out_packets = WRAPS_FEW_FROM32;
    for (int i = 0; i < UT_NUM_INPUTS; i++)
        g->in[i].head = WRAPS_FEW_FROM32;
}

#define ut_gate_find_links(g) (begin_set(g), ut_gate_find_links(g))
#include "../../src/barrier/setup.c"
#undef ut_gate_find_links

__attribute__((constructor)) static void begin_gates(void)
{
    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
        for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
            ut_gate_table.of_tni[tni].gate[i].epoch = WRAPS_FEW_FROM32;
            ut_gate_table.of_tni[tni].gate[i].serial = WRAPS_FEW_FROM32;
        }
    }
}

/* Called before the inputs of a gate that is freed are cleared, with the gate as it was. */
void __real_ut_gate_free_inputs(struct ut_gate *g);
void __wrap_ut_gate_free_inputs(struct ut_gate *g);
void __wrap_ut_gate_free_inputs(struct ut_gate *g)
{
    wraps_note("ut_gate.epoch", wraps_over32(g->epoch));
    wraps_note("ut_gate.serial", wraps_over32(g->serial));
    wraps_note("ut_gate.out_packets", g->out_packets > 0 && wraps_over32(g->out_packets));
    wraps_note("ut_gate.out_signals", g->out_signals > 0 && wraps_over32(g->out_signals));
    wraps_note("ut_gate_input.head",
               g->in[UT_INPUT_PACKET].head > 0 && wraps_over32(g->in[UT_INPUT_PACKET].head));
    wraps_note("ut_gate_input.last_epoch", g->in[UT_INPUT_PACKET].last_epoch > 0 &&
                                               wraps_over32(g->in[UT_INPUT_PACKET].last_epoch));
    __real_ut_gate_free_inputs(g);
}
