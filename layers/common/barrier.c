/* SPDX-License-Identifier: Apache-2.0 */
/* A dissemination barrier of all processes. */
#include "barrier.h"

#include "ring.h"

struct wait {
    const struct lc_partner_context *context;
    const struct lc_barrier_ops *ops;
    const char *function;
    uint64_t epoch, end_ns;
};

/* Strong order keeps this put behind the put of the previous epoch, which may still be in flight.
 * */
static void notify_ahead(const struct wait *w, uint32_t partner)
{
    const struct lc_job *job = w->context->job;
    struct lc_stall_timer stall = {0};
    char text[LC_TEXT_SIZE];
    uint32_t idle = 0;

    while (!lc_partner_put_word(w->context, partner, w->epoch,
                                offsetof(struct lc_common_words, barrier_epochs) + 8 * partner,
                                UTOFU_ONESIDED_FLAG_STRONG_ORDER | w->ops->flags,
                                w->ops->put_callback)) {
        if (lc_stall_should_log(&stall, idle))
            lc_job_log(job, "%s: has waited %llu s to notify %s %u of its arrival: %s", w->function,
                       lc_stall_seconds(&stall), job->process,
                       lc_rank_ahead(job->rank, job->procs, partner),
                       lc_port_describe(w->context->port, text));
        w->ops->progress(&idle);
    }
}

/* Waits for the process 2^partner ranks behind. That process is at most one epoch ahead of this
 * one, because it cannot leave this barrier without this process. */
static bool wait_for_behind(const struct wait *w, uint32_t partner)
{
    const uint64_t *behind = &w->context->control->words->barrier_epochs[partner];
    const struct lc_job *job = w->context->job;
    struct lc_stall_timer stall = {0};
    uint32_t idle = 0;
    uint64_t rmt_epoch;

    for (;;) {
        rmt_epoch = __atomic_load_n(behind, __ATOMIC_ACQUIRE);
        if (w->ops->must_fail(w->epoch, rmt_epoch))
            return false;
        if (rmt_epoch >= w->epoch)
            return true;
        if (w->end_ns != UINT64_MAX && lc_now_ns() > w->end_ns)
            return false;
        if (lc_stall_should_log(&stall, idle))
            lc_job_log(job,
                       "%s: has waited %llu s for %s %u, which has not arrived, or waits for "
                       "another %s that has not",
                       w->function, lc_stall_seconds(&stall), job->process,
                       lc_rank_behind(job->rank, job->procs, partner), job->process);
        w->ops->progress(&idle);
    }
}

bool lc_barrier_wait(const struct lc_partner_context *context, const struct lc_barrier_ops *ops,
                     uint64_t *epoch, const char *function, uint64_t timeout_ns)
{
    const struct wait w = {.context = context,
                           .ops = ops,
                           .function = function,
                           .epoch = ++*epoch,
                           .end_ns = timeout_ns == 0 ? UINT64_MAX : lc_now_ns() + timeout_ns};

    for (uint32_t k = 0; k < context->job->num_partners; k++) {
        notify_ahead(&w, k);
        if (!wait_for_behind(&w, k))
            return false;
    }
    return true;
}
