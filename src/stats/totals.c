/* SPDX-License-Identifier: Apache-2.0 */
/* UTOFU_STATS: one line for each VCQ, each of its peers, each of its gates, as name=value. */
#include "stats/region.h"
#include "stats/stats.h"

static void add_counts(struct ut_stats_counts *into, const struct ut_stats_counts *c)
{
    for (int k = 0; k < UT_STATS_KINDS; k++) {
        into->ops[k] += c->ops[k];
        into->bytes[k] += c->bytes[k];
    }
    for (int n = 0; n < UT_STATS_NOTICES; n++)
        into->notices[n] += c->notices[n];
    into->arrivals += c->arrivals;
    into->failed += c->failed;
    into->blocked_ns += c->blocked_ns;
    if (c->most_open > into->most_open)
        into->most_open = c->most_open;
}

void ut_stats_add(struct ut_stats *into, const struct ut_stats *stats)
{
    into->lives += stats->lives;
    add_counts(&into->counts, &stats->counts);
    into->busy += stats->busy;
    into->empty_polls += stats->empty_polls;
    into->crowded += stats->crowded;
    if (stats->most_mrq > into->most_mrq)
        into->most_mrq = stats->most_mrq;
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next) {
        struct ut_stats_peer *q = ut_stats_find_peer(into, p->id);
        if (!q)
            continue;
        add_counts(&q->counts, &p->counts);
        q->retries += p->retries;
        q->reconnects += p->reconnects;
        q->rests += p->rests;
        q->rank = p->rank;
        q->provider = p->provider;
    }
}

/* What is 0 is left out. */
static void print_number(FILE *out, const char *name, uint64_t n)
{
    if (n)
        fprintf(out, " %s=%llu", name, (unsigned long long)n);
}

static void print_counts(FILE *out, const struct ut_stats_counts *c)
{
    static const char *const notices[] = {
        [UTOFU_MRQ_TYPE_LCL_PUT] = "lcl_put_notices",
        [UTOFU_MRQ_TYPE_RMT_PUT] = "rmt_put_notices",
        [UTOFU_MRQ_TYPE_LCL_GET] = "lcl_get_notices",
        [UTOFU_MRQ_TYPE_RMT_GET] = "rmt_get_notices",
        [UTOFU_MRQ_TYPE_LCL_ARMW] = "lcl_armw_notices",
        [UTOFU_MRQ_TYPE_RMT_ARMW] = "rmt_armw_notices",
    };

    print_number(out, "puts", c->ops[UT_STATS_PUT]);
    print_number(out, "put_bytes", c->bytes[UT_STATS_PUT]);
    print_number(out, "gets", c->ops[UT_STATS_GET]);
    print_number(out, "get_bytes", c->bytes[UT_STATS_GET]);
    print_number(out, "armws", c->ops[UT_STATS_ARMW]);
    print_number(out, "nops", c->ops[UT_STATS_NOP]);
    print_number(out, "arrivals", c->arrivals);
    for (int n = 0; n < UT_STATS_NOTICES; n++)
        print_number(out, notices[n], c->notices[n]);
    print_number(out, "failed", c->failed);
    print_number(out, "most_under_way", c->most_open);
    if (c->blocked_ns)
        fprintf(out, " blocked_ms=%.3f", (double)c->blocked_ns * 1e-6);
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
    print_counts(out, &p->counts);
    print_number(out, "retries", p->retries);
    print_number(out, "reconnects", p->reconnects);
    print_number(out, "rests", p->rests);
    fputc('\n', out);
}

static void print_gates(FILE *out, const struct ut_stats *stats, uint32_t rank)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        const struct ut_stats_gate *g = &stats->gates[i];
        if (!g->started && !g->received[UT_STATS_SIGNAL] && !g->received[UT_STATS_PACKET])
            continue;
        fprintf(out, "utofu: stats: [rank %u] gate tni=%u gate=%u", rank, stats->tni, i);
        print_number(out, "started", g->started);
        print_number(out, "finished", g->finished);
        print_number(out, "failed", g->failed);
        print_number(out, "signals_out", g->sent[UT_STATS_SIGNAL]);
        print_number(out, "packets_out", g->sent[UT_STATS_PACKET]);
        print_number(out, "signals_in", g->received[UT_STATS_SIGNAL]);
        print_number(out, "packets_in", g->received[UT_STATS_PACKET]);
        if (g->blocked_ns)
            fprintf(out, " blocked_ms=%.3f", (double)g->blocked_ns * 1e-6);
        fputc('\n', out);
    }
}

void ut_stats_print(FILE *out, const struct ut_stats *stats, uint32_t rank)
{
    if (!ut_vcq_ident_public(&stats->ident)) {
        if (stats->gates)
            print_gates(out, stats, rank);
        return;
    }
    fprintf(out, "utofu: stats: [rank %u] vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s lives=%u",
            rank, (unsigned long long)stats->id, stats->tni, stats->ident.cq, stats->ident.cmp,
            stats->session ? "session" : "free", stats->lives);
    print_counts(out, &stats->counts);
    print_number(out, "most_in_mrq", stats->most_mrq);
    print_number(out, "busy", stats->busy);
    print_number(out, "empty_polls", stats->empty_polls);
    print_number(out, "crowded", stats->crowded);
    fputc('\n', out);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next)
        print_peer(out, stats, p, rank);
}

/*
 * The whole process
 */

const char *const ut_total_names[UT_NUM_TOTALS] = {
#define X(id, name) name,
#include "stats/totals.h"
#undef X
};

static void raise_to(uint64_t *most, uint64_t n)
{
    if (n > *most)
        *most = n;
}

static void add_gates(uint64_t totals[UT_NUM_TOTALS], const struct ut_stats *stats)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        totals[UT_TOTAL_BARRIERS] += stats->gates[i].started;
        totals[UT_TOTAL_BARRIERS_FAILED] += stats->gates[i].failed;
        totals[UT_TOTAL_BARRIER_BLOCKED_US] += stats->gates[i].blocked_ns / 1000;
    }
}

void ut_stats_add_totals(uint64_t totals[UT_NUM_TOTALS], const struct ut_stats *stats)
{
    static const uint8_t notices[UT_STATS_NOTICES] = {
        [UTOFU_MRQ_TYPE_LCL_PUT] = UT_TOTAL_LCL_PUT_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_PUT] = UT_TOTAL_RMT_PUT_NOTICES,
        [UTOFU_MRQ_TYPE_LCL_GET] = UT_TOTAL_LCL_GET_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_GET] = UT_TOTAL_RMT_GET_NOTICES,
        [UTOFU_MRQ_TYPE_LCL_ARMW] = UT_TOTAL_LCL_ARMW_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_ARMW] = UT_TOTAL_RMT_ARMW_NOTICES,
    };
    const struct ut_stats_counts *c = &stats->counts;

    if (!ut_vcq_ident_public(&stats->ident)) {
        if (stats->gates)
            add_gates(totals, stats);
        return;
    }
    totals[UT_TOTAL_PUTS] += c->ops[UT_STATS_PUT];
    totals[UT_TOTAL_PUT_BYTES] += c->bytes[UT_STATS_PUT];
    totals[UT_TOTAL_GETS] += c->ops[UT_STATS_GET];
    totals[UT_TOTAL_GET_BYTES] += c->bytes[UT_STATS_GET];
    totals[UT_TOTAL_ARMWS] += c->ops[UT_STATS_ARMW];
    totals[UT_TOTAL_NOPS] += c->ops[UT_STATS_NOP];
    totals[UT_TOTAL_ARRIVALS] += c->arrivals;
    for (int n = 0; n < UT_STATS_NOTICES; n++)
        totals[notices[n]] += c->notices[n];
    totals[UT_TOTAL_FAILED] += c->failed;
    totals[UT_TOTAL_BUSY] += stats->busy;
    totals[UT_TOTAL_EMPTY_POLLS] += stats->empty_polls;
    totals[UT_TOTAL_CROWDED] += stats->crowded;
    totals[UT_TOTAL_BLOCKED_US] += c->blocked_ns / 1000;
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next) {
        totals[UT_TOTAL_RETRIES] += p->retries;
        totals[UT_TOTAL_RECONNECTS] += p->reconnects;
        totals[UT_TOTAL_RESTS] += p->rests;
        totals[UT_TOTAL_PEERS]++;
    }
    raise_to(&totals[UT_TOTAL_MOST_UNDER_WAY], c->most_open);
    raise_to(&totals[UT_TOTAL_MOST_IN_MRQ], stats->most_mrq);
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
    for (int i = 0; i < UT_TOTAL_PEERS; i++)
        print_number(p->out, ut_total_names[i], r->counted[i]);
    fprintf(p->out, " name=\"%s\"\n", r->name);
}

void ut_stats_print_regions(FILE *out, uint32_t rank)
{
    struct place p = {.out = out, .rank = rank};

    ut_stats_region_for_each(print_region, &p);
}
