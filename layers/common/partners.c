/* SPDX-License-Identifier: Apache-2.0 */
/* Puts to partners, and keepalive probes. */
#include "partners.h"

#include "ring.h"

static struct lc_op *take_op(const struct lc_partner_context *f, uint32_t partner, lc_op_callback *done)
{
    return lc_op_alloc(f->port, 0, lc_rank_ahead(f->job->rank, f->job->procs, partner), done, NULL);
}

bool lc_partner_put_word(const struct lc_partner_context *partners, uint32_t partner, uint64_t word,
                        uint64_t offset, unsigned long int flags, lc_op_callback *done)
{
    utofu_vcq_id_t id = partners->control->words->partners[partner];
    struct lc_op *op = take_op(partners, partner, done);

    return op != NULL &&
           lc_op_put_word(op, id, word, lc_control_stadd(partners->control, id, offset), 8, flags);
}

void lc_partner_probe(const struct lc_partner_context *partners, struct lc_probe *probe, uint32_t partner,
                     uint64_t offset, size_t size, lc_op_callback *done)
{
    utofu_vcq_id_t id = partners->control->words->partners[partner];
    struct lc_op *op = take_op(partners, partner, done);

    probe->under_way = true;
    if (op == NULL || !lc_op_get(op, id, lc_op_bounce_stadd(op),
                                 lc_control_stadd(partners->control, id, offset), size))
        probe->under_way = false;
}

void lc_probe_setup(struct lc_probe *probe)
{
    *probe = (struct lc_probe){.next_ns = lc_now_ns() + LC_PROBE_INTERVAL_MS * 1000000ull};
}

void lc_probe_ended(struct lc_probe *probe)
{
    probe->under_way = false;
    probe->next_ns = lc_now_ns() + LC_PROBE_INTERVAL_MS * 1000000ull;
}

bool lc_probe_is_due(const struct lc_probe *probe)
{
    return !probe->under_way && lc_now_ns() >= probe->next_ns;
}

uint32_t lc_probe_us_until_due(const struct lc_probe *probe)
{
    uint64_t now = lc_now_ns();

    if (probe->under_way)
        return LC_PROBE_INTERVAL_MS * 1000;
    return now < probe->next_ns ? (uint32_t)((probe->next_ns - now) / 1000 + 1) : 1;
}
