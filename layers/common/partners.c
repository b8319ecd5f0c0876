/* SPDX-License-Identifier: Apache-2.0 */
/* Puts to partners, and keepalive probes. */
#include "partners.h"

#include "ring.h"

static struct lc_op *alloc_op(const struct lc_partner_context *context, uint32_t partner,
                              lc_op_callback *done)
{
    return lc_op_alloc(context->port, 0,
                       lc_rank_ahead(context->job->rank, context->job->procs, partner), done, NULL);
}

bool lc_partner_put_word(const struct lc_partner_context *context, uint32_t partner, uint64_t word,
                         uint64_t offset, unsigned long int flags, lc_op_callback *done)
{
    utofu_vcq_id_t id = context->control->words->partners[partner];
    struct lc_op *op = alloc_op(context, partner, done);

    return op != NULL &&
           lc_op_put_word(op, id, word, lc_control_stadd(context->control, id, offset), 8, flags);
}

void lc_partner_probe(const struct lc_partner_context *context, struct lc_probe *probe,
                      uint32_t partner, uint64_t offset, size_t size, lc_op_callback *done)
{
    utofu_vcq_id_t id = context->control->words->partners[partner];
    struct lc_op *op = alloc_op(context, partner, done);

    probe->in_flight = true;
    if (op == NULL || !lc_op_get(op, id, lc_op_bounce_stadd(op),
                                 lc_control_stadd(context->control, id, offset), size))
        probe->in_flight = false;
}

void lc_probe_setup(struct lc_probe *probe)
{
    *probe = (struct lc_probe){.due_ns = lc_now_ns() + LC_PROBE_INTERVAL_MS * 1000000ull};
}

void lc_probe_ended(struct lc_probe *probe)
{
    probe->in_flight = false;
    probe->due_ns = lc_now_ns() + LC_PROBE_INTERVAL_MS * 1000000ull;
}

bool lc_probe_is_due(const struct lc_probe *probe)
{
    return !probe->in_flight && lc_now_ns() >= probe->due_ns;
}

uint32_t lc_probe_us_until_due(const struct lc_probe *probe)
{
    uint64_t now = lc_now_ns();

    if (probe->in_flight)
        return LC_PROBE_INTERVAL_MS * 1000;
    return now < probe->due_ns ? (uint32_t)((probe->due_ns - now) / 1000 + 1) : 1;
}
