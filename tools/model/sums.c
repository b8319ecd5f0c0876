/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"

enum { DEPTH = 64 };

static void add_stay(struct um_region_sum *r, double ns)
{
    if (r->calls++ == 0 || ns < r->least)
        r->least = ns;
    if (ns > r->most)
        r->most = ns;
    r->sum += ns;
}

static void sum_thread(const struct um_sim *s, size_t thread, struct um_region_sum *regions)
{
    const struct um_thread *t = &s->program->threads[thread];
    struct {
        uint32_t region;
        double since;
    } open[DEPTH];
    unsigned int depth = 0;

    for (size_t i = 0; i < t->num_ops; i++) {
        const struct um_op *op = &t->ops[i];
        double at = s->threads[thread].ops[i].end;
        if (op->kind == UM_OP_ENTER && depth < DEPTH) {
            open[depth].region = op->which;
            open[depth++].since = at;
        }
        for (unsigned int k = depth; op->kind == UM_OP_LEAVE && k-- > 0;) {
            if (open[k].region != op->which)
                continue;
            add_stay(&regions[op->which], at - open[k].since);
            um_basis_walk(s, &regions[op->which].basis, (uint32_t)thread, i, open[k].since);
            memmove(&open[k], &open[k + 1], (--depth - k) * sizeof(open[0]));
            break;
        }
    }
}

struct um_region_sum *um_sum_regions(const struct um_sim *s)
{
    struct um_region_sum *regions = um_calloc(s->program->num_regions, sizeof(*regions));

    for (size_t i = 0; i < s->program->num_regions; i++)
        regions[i].name = s->program->regions[i];
    for (size_t t = 0; t < s->program->num_threads; t++)
        sum_thread(s, t, regions);
    return regions;
}

void um_free_regions(struct um_region_sum *regions, size_t num)
{
    for (size_t i = 0; i < num; i++)
        um_basis_free(&regions[i].basis);
    free(regions);
}

struct um_rank_sum *um_sum_ranks(const struct um_sim *s)
{
    struct um_rank_sum *ranks = um_calloc(s->program->size, sizeof(*ranks));

    for (size_t i = 0; i < s->program->num_threads; i++) {
        const struct um_thread_state *t = &s->threads[i];
        struct um_rank_sum *r = &ranks[s->program->threads[i].process];
        r->compute += t->compute;
        r->call += t->call;
        r->wait += t->wait;
        if (t->now > r->end)
            r->end = t->now;
    }
    return ranks;
}

/*
 * The busiest
 */

/* Keeps the UM_LOADS busiest, busiest first. Returns the place of the new one, or -1. */
static int place_load(struct um_load *loads, unsigned int *num, double busy)
{
    unsigned int i = *num;

    if (busy <= 0 || (i == UM_LOADS && loads[i - 1].busy >= busy))
        return -1;
    if (i < UM_LOADS)
        (*num)++;
    else
        i--;
    for (; i > 0 && loads[i - 1].busy < busy; i--)
        loads[i] = loads[i - 1];
    loads[i].busy = busy;
    return (int)i;
}

unsigned int um_busiest_links(const struct um_sim *s, struct um_load loads[UM_LOADS])
{
    unsigned int num = 0;

    for (uint32_t i = 0; i < s->place->num_links; i++) {
        const struct um_link *l = &s->network.links[i];
        int at = place_load(loads, &num, l->busy);
        if (at < 0)
            continue;
        loads[at].bytes = l->bytes;
        um_link_name(s->place, i, loads[at].name, sizeof(loads[at].name));
    }
    return num;
}

unsigned int um_busiest_tnis(const struct um_sim *s, struct um_load loads[UM_LOADS])
{
    uint32_t tnis = s->network.num_tnis;
    unsigned int num = 0;

    for (uint32_t i = 0; i < s->place->num_nodes * tnis; i++) {
        const struct um_tni *t = &s->network.tnis[i];
        for (int receives = 0; receives < 2; receives++) {
            int at = place_load(loads, &num, receives ? t->receive_busy : t->send_busy);
            if (at < 0)
                continue;
            loads[at].bytes = receives ? t->received : t->sent;
            snprintf(loads[at].name, sizeof(loads[at].name), "TNI %u of node %u, %s", i % tnis,
                     i / tnis, receives ? "receiving" : "sending");
        }
    }
    return num;
}
