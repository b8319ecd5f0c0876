/* SPDX-License-Identifier: Apache-2.0 */
/* Reports events of the gates of a counted VCQ to stats. */
#include "barrier/inner.h"
#include "stats/stats.h"

_Static_assert(UT_INPUT_SIGNAL == (int)UT_STATS_SIGNAL && UT_INPUT_PACKET == (int)UT_STATS_PACKET,
               "inputs have the same numbers");

void ut_gate_report_send(struct ut_stats *stats, const struct ut_gate *g, unsigned int input,
                         utofu_vbg_id_t dst, uint64_t number)
{
    ut_stats_gate_send(stats, g->index,
                       &(struct ut_stats_gate_message){.input = (uint8_t)input,
                                                       .src = g->id,
                                                       .dst = dst,
                                                       .epoch = g->epoch,
                                                       .number = number});
}

void ut_gate_report_sent(struct ut_stats *stats, const struct ut_gate *g, uint64_t began)
{
    ut_stats_gate_sent(stats, g->index, g->mine.op, began);
}

void ut_gate_report_arrive(struct ut_stats *stats, const struct ut_gate *g, unsigned int input,
                           const struct ut_gate_tag *tag, uint64_t at)
{
    ut_stats_gate_arrive(stats, g->index,
                         &(struct ut_stats_gate_message){.input = (uint8_t)input,
                                                         .src = tag->src,
                                                         .dst = g->id,
                                                         .epoch = tag->epoch,
                                                         .number = tag->number},
                         at);
}

void ut_gate_report_end(struct ut_stats *stats, const struct ut_gate *g, int rc)
{
    ut_stats_gate_end(stats, g->index, g->mine.op, rc);
}
