/* SPDX-License-Identifier: Apache-2.0 */
/* Links: src/link/link.c itself, with counters that begin below the wrap. */
#include <stdlib.h>

#include "link/link.h"
#include "wraps.h"

static void *begin_link(size_t num, size_t size)
{
    struct ut_link *link = calloc(num, size);

    if (!link)
        return NULL;
    link->serial = WRAPS_FEW_FROM16;
    link->armw_epoch = UINT32_MAX;
    link->lcl_notices_begun = link->lcl_notices_ended = WRAPS_FROM32;
    return link;
}

#define calloc(num, size) begin_link(num, size)
#include "../../src/link/link.c"
#undef calloc

/* Numbers of messages and immediates: both sides begin at 0 or continue a count. The cookies of
 * messages have the lower 32 bits. */
bool __real_ut_link_process_hello(struct ut_link *link, const void *data, size_t size);
bool __wrap_ut_link_process_hello(struct ut_link *link, const void *data, size_t size);
bool __wrap_ut_link_process_hello(struct ut_link *link, const void *data, size_t size)
{
    bool good = __real_ut_link_process_hello(link, data, size);

    if (good && link->tx_number == 0)
        link->tx_number = WRAPS_FROM32;
    if (good && link->rx_number == 0)
        link->rx_number = WRAPS_FROM32;
    return good;
}

static void note_link(const struct ut_link *link)
{
    wraps_note("ut_link.serial", wraps_over16(link->serial) && link->serial > 0);
    wraps_note("ut_link.rmt_serial", wraps_over16(link->rmt_serial) && link->rmt_serial > 0);
    wraps_note("ut_link.armw_epoch", link->armw_epoch < UINT32_MAX);
    wraps_note("ut_link.lcl_notices_ended", wraps_over32(link->lcl_notices_ended));
    wraps_note("ut_link.tx_number", link->tx_number > UINT32_MAX);
    wraps_note("ut_link.rx_number", link->rx_number > UINT32_MAX);
}

static void note_vcq(const struct ut_vcq *vcq)
{
    wraps_note("ut_vcq.toq_tail", wraps_over32(vcq->toq_tail));
    wraps_note("ut_vcq.tcq_head", wraps_over32(vcq->tcq_head));
    wraps_note("ut_vcq.poll_count", wraps_over32(vcq->poll_count));
    wraps_note("ut_vcq.started", vcq->started > UINT32_MAX);
    wraps_note("ut_vcq.scheduled", vcq->scheduled > UINT32_MAX);
}

void __real_ut_link_destroy_all(struct ut_vcq *vcq);
void __wrap_ut_link_destroy_all(struct ut_vcq *vcq);
void __wrap_ut_link_destroy_all(struct ut_vcq *vcq)
{
    if (vcq->toq_mask > 0)
        note_vcq(vcq);
    for (const struct ut_link *link = vcq->all_links; link; link = link->all_next)
        note_link(link);
    __real_ut_link_destroy_all(vcq);
}

/* Called with the lock of a new VCQ held, before another thread can use the VCQ. */
utofu_vcq_hdl_t __real_ut_vcq_new_handle(uint32_t index);
utofu_vcq_hdl_t __wrap_ut_vcq_new_handle(uint32_t index);
utofu_vcq_hdl_t __wrap_ut_vcq_new_handle(uint32_t index)
{
    struct ut_vcq *v = ut_vcqs[index];

    v->toq_tail = v->toq_exec = v->tcq_head = v->toq_head = WRAPS_FROM32;
    ut_toq_limit_direct(v);
    v->mrq_head = v->mrq_tail = WRAPS_FROM32;
    v->scheduled = v->started = WRAPS_FROM32;
    v->poll_count = v->idle_polls = v->unattended = WRAPS_FROM32;
    return __real_ut_vcq_new_handle(index);
}
