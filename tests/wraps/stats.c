/* SPDX-License-Identifier: Apache-2.0 */
/* Counted VCQs: the ring of arrival times in session mode. */
#include "stats/stats.h"
#include "wraps.h"

bool __real_ut_stats_attach(struct ut_vcq *vcq);
bool __wrap_ut_stats_attach(struct ut_vcq *vcq);
bool __wrap_ut_stats_attach(struct ut_vcq *vcq)
{
    bool good = __real_ut_stats_attach(vcq);

    if (good && vcq->stats)
        vcq->stats->credit_head = vcq->stats->credit_tail = WRAPS_FEW_FROM32;
    return good;
}

void __real_ut_stats_detach(struct ut_vcq *vcq);
void __wrap_ut_stats_detach(struct ut_vcq *vcq);
void __wrap_ut_stats_detach(struct ut_vcq *vcq)
{
    if (vcq->stats)
        wraps_note("ut_stats.credit_tail", wraps_over32(vcq->stats->credit_tail));
    __real_ut_stats_detach(vcq);
}
