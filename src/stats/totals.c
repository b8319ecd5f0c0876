/* SPDX-License-Identifier: Apache-2.0 */
/* UTOFU_STATS: one line for each VCQ, each of its peers, each of its gates, as name=value. */
#include "stats/region.h"
#include "stats/stats.h"

const struct ut_counter_entry ut_counters[UT_NUM_COUNTERS] = {
#define COUNTER(id, of, how_, line_, total_, meaning)                                              \
    [UT_COUNT_##id] = {                                                                            \
        .line = line_, .total = total_, .holders = UT_COUNTS_##of, .how = UT_COUNTS_##how_},
#include "stats/totals.h"
#undef COUNTER
};

static void add_number(uint64_t *into, enum ut_counter i, uint64_t n)
{
    if (ut_counters[i].how != UT_COUNTS_MOST)
        *into += n;
    else if (n > *into)
        *into = n;
}

static void add_counts(struct ut_stats_counts *into, const struct ut_stats_counts *c)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++)
        add_number(&into->n[i], i, c->n[i]);
}

/* The counters of a VCQ, with the mark that the engine raises. */
static struct ut_stats_counts counts_of(const struct ut_stats *stats)
{
    struct ut_stats_counts c = stats->counts;

    add_number(&c.n[UT_COUNT_MOST_IN_MRQ], UT_COUNT_MOST_IN_MRQ, stats->most_mrq);
    return c;
}

void ut_stats_add(struct ut_stats *into, const struct ut_stats *stats)
{
    struct ut_stats_counts c = counts_of(stats);

    into->lives += stats->lives;
    add_counts(&into->counts, &c);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next) {
        struct ut_stats_peer *q = ut_stats_find_peer(into, p->id);
        if (!q)
            continue;
        add_counts(&q->counts, &p->counts);
        q->rank = p->rank;
        q->provider = p->provider;
    }
}

/* Prints the number unless it is 0. */
static void print_number(FILE *out, const char *name, uint64_t n)
{
    if (n)
        fprintf(out, " %s=%llu", name, (unsigned long long)n);
}

static void print_counts(FILE *out, const struct ut_stats_counts *c, unsigned int holder)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++) {
        const struct ut_counter_entry *e = &ut_counters[i];
        if (!(e->holders & holder))
            continue;
        if (e->how != UT_COUNTS_TIME)
            print_number(out, e->line, c->n[i]);
        else if (c->n[i])
            fprintf(out, " %s=%.3f", e->line, (double)c->n[i] * 1e-6);
    }
}

static void print_peer(FILE *out, const struct ut_stats *stats, const struct ut_stats_peer *p,
                       uint32_t rank)
{
    fprintf(out, "utofu: stats: [rank %u] peer vcq=%016llx of=%016llx", rank,
            (unsigned long long)p->id, (unsigned long long)stats->id);
    if (p->rank >= 0)
        fprintf(out, " rank=%lld", (long long)p->rank);
    if (p->provider >= 0)
        fprintf(out, " provider=%s", ut_process_peek()->prov[p->provider]->ops->name);
    print_counts(out, &p->counts, UT_COUNTS_PEER);
    fputc('\n', out);
}

static void print_gates(FILE *out, const struct ut_stats *stats, uint32_t rank)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        const struct ut_stats_gate *g = &stats->gates[i];
        if (!g->counts.n[UT_COUNT_BARRIERS] && !g->counts.n[UT_COUNT_SIGNALS_IN] &&
            !g->counts.n[UT_COUNT_PACKETS_IN])
            continue;
        fprintf(out, "utofu: stats: [rank %u] gate tni=%u gate=%u", rank, stats->tni, i);
        print_counts(out, &g->counts, UT_COUNTS_GATE);
        fputc('\n', out);
    }
}

void ut_stats_print(FILE *out, const struct ut_stats *stats, uint32_t rank)
{
    struct ut_stats_counts c = counts_of(stats);

    if (!ut_vcq_ident_public(&stats->ident)) {
        if (stats->gates)
            print_gates(out, stats, rank);
        return;
    }
    fprintf(out, "utofu: stats: [rank %u] vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s lives=%u",
            rank, (unsigned long long)stats->id, stats->tni, stats->ident.cq, stats->ident.cmp,
            stats->session ? "session" : "free", stats->lives);
    print_counts(out, &c, UT_COUNTS_VCQ);
    fputc('\n', out);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next)
        print_peer(out, stats, p, rank);
}

/*
 * The whole process
 */

/* Adds the counters of these holders to the row; a counter that both a VCQ and its peers have is
 * taken from the VCQ. */
static void add_to_totals(uint64_t totals[UT_NUM_COUNTERS], const struct ut_stats_counts *c,
                          unsigned int holder)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++) {
        unsigned int holders = ut_counters[i].holders;
        if (holders == holder || (holders == UT_COUNTS_BOTH && holder == UT_COUNTS_VCQ))
            add_number(&totals[i], i,
                       ut_counters[i].how == UT_COUNTS_TIME ? c->n[i] / 1000 : c->n[i]);
    }
}

void ut_stats_add_totals(uint64_t totals[UT_NUM_COUNTERS], const struct ut_stats *stats)
{
    struct ut_stats_counts c = counts_of(stats);

    if (!ut_vcq_ident_public(&stats->ident)) {
        for (unsigned int i = 0; stats->gates && i < UT_NUM_GATES; i++)
            add_to_totals(totals, &stats->gates[i].counts, UT_COUNTS_GATE);
        return;
    }
    add_to_totals(totals, &c, UT_COUNTS_VCQ);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next) {
        add_to_totals(totals, &p->counts, UT_COUNTS_PEER);
        totals[UT_COUNT_PEERS]++;
    }
}

struct place {
    FILE *out;
    uint32_t rank;
};

static void print_region(const struct ut_stats_region *r, void *arg)
{
    const struct place *p = arg;

    fprintf(p->out, "utofu: stats: [rank %u] region calls=%llu seconds=%.6f", p->rank,
            (unsigned long long)r->calls, (double)r->ns * 1e-9);
    for (int i = 0; i < UT_COUNT_PEERS; i++) {
        if (ut_counters[i].total)
            print_number(p->out, ut_counters[i].total, r->counted[i]);
    }
    fprintf(p->out, " name=\"%s\"\n", r->name);
}

void ut_stats_print_regions(FILE *out, uint32_t rank)
{
    struct place p = {.out = out, .rank = rank};

    ut_stats_region_for_each(print_region, &p);
}
