/* SPDX-License-Identifier: Apache-2.0 */
/* UTOFU_STATS: one line for each VCQ, each of its peers, each of its gates, as name=value. */
#include "gate/inner.h"
#include "watch/watch.h"

static void add_counts(struct ut_watch_counts *into, const struct ut_watch_counts *c)
{
    for (int k = 0; k < UT_WATCH_KINDS; k++) {
        into->ops[k] += c->ops[k];
        into->bytes[k] += c->bytes[k];
    }
    for (int n = 0; n < UT_WATCH_NOTICES; n++)
        into->notices[n] += c->notices[n];
    into->arrivals += c->arrivals;
    into->failed += c->failed;
    into->blocked_ns += c->blocked_ns;
    if (c->most_open > into->most_open)
        into->most_open = c->most_open;
}

void ut_stats_add(struct ut_watch *into, const struct ut_watch *w)
{
    into->lives += w->lives;
    add_counts(&into->counts, &w->counts);
    into->busy += w->busy;
    into->vain_polls += w->vain_polls;
    if (w->most_mrq > into->most_mrq)
        into->most_mrq = w->most_mrq;
    for (const struct ut_watch_peer *p = w->peers; p; p = p->next) {
        struct ut_watch_peer *q = ut_watch_find_peer(into, p->id);
        if (!q)
            continue;
        add_counts(&q->counts, &p->counts);
        q->retries += p->retries;
        q->reconnects += p->reconnects;
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

static void print_counts(FILE *out, const struct ut_watch_counts *c)
{
    static const char *const notices[] = {
        [UTOFU_MRQ_TYPE_LCL_PUT] = "lcl_put_notices",
        [UTOFU_MRQ_TYPE_RMT_PUT] = "rmt_put_notices",
        [UTOFU_MRQ_TYPE_LCL_GET] = "lcl_get_notices",
        [UTOFU_MRQ_TYPE_RMT_GET] = "rmt_get_notices",
        [UTOFU_MRQ_TYPE_LCL_ARMW] = "lcl_armw_notices",
        [UTOFU_MRQ_TYPE_RMT_ARMW] = "rmt_armw_notices",
    };

    print_number(out, "puts", c->ops[UT_WATCH_PUT]);
    print_number(out, "put_bytes", c->bytes[UT_WATCH_PUT]);
    print_number(out, "gets", c->ops[UT_WATCH_GET]);
    print_number(out, "get_bytes", c->bytes[UT_WATCH_GET]);
    print_number(out, "armws", c->ops[UT_WATCH_ARMW]);
    print_number(out, "nops", c->ops[UT_WATCH_NOP]);
    print_number(out, "arrivals", c->arrivals);
    for (int n = 0; n < UT_WATCH_NOTICES; n++)
        print_number(out, notices[n], c->notices[n]);
    print_number(out, "failed", c->failed);
    print_number(out, "most_under_way", c->most_open);
    if (c->blocked_ns)
        fprintf(out, " blocked_ms=%.3f", (double)c->blocked_ns * 1e-6);
}

static void print_peer(FILE *out, const struct ut_watch *w, const struct ut_watch_peer *p,
                       uint32_t rank)
{
    fprintf(out, "utofu: stats: [rank %u] peer vcq=%016llx of=%016llx", rank,
            (unsigned long long)p->id, (unsigned long long)w->id);
    if (p->rank >= 0)
        fprintf(out, " rank=%lld", (long long)p->rank);
    if (p->provider >= 0)
        fprintf(out, " provider=%s", p->provider == UT_PROV_SHM ? "shm" : "verbs");
    print_counts(out, &p->counts);
    print_number(out, "retries", p->retries);
    print_number(out, "reconnects", p->reconnects);
    fputc('\n', out);
}

static void print_gates(FILE *out, const struct ut_watch *w, uint32_t rank)
{
    for (unsigned int i = 0; i < UT_NUM_GATES; i++) {
        const struct ut_watch_gate *g = &w->gates[i];
        if (!g->started && !g->received[UT_INPUT_SIGNAL] && !g->received[UT_INPUT_PACKET])
            continue;
        fprintf(out, "utofu: stats: [rank %u] gate tni=%u gate=%u", rank, w->tni, i);
        print_number(out, "started", g->started);
        print_number(out, "finished", g->finished);
        print_number(out, "failed", g->failed);
        print_number(out, "signals_out", g->sent[UT_INPUT_SIGNAL]);
        print_number(out, "packets_out", g->sent[UT_INPUT_PACKET]);
        print_number(out, "signals_in", g->received[UT_INPUT_SIGNAL]);
        print_number(out, "packets_in", g->received[UT_INPUT_PACKET]);
        if (g->blocked_ns)
            fprintf(out, " blocked_ms=%.3f", (double)g->blocked_ns * 1e-6);
        fputc('\n', out);
    }
}

void ut_stats_print(FILE *out, const struct ut_watch *w, uint32_t rank)
{
    if (!ut_vcq_ident_public(&w->ident)) {
        if (w->gates)
            print_gates(out, w, rank);
        return;
    }
    fprintf(out, "utofu: stats: [rank %u] vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s lives=%u",
            rank, (unsigned long long)w->id, w->tni, w->ident.cq, w->ident.cmp,
            w->session ? "session" : "free", w->lives);
    print_counts(out, &w->counts);
    print_number(out, "most_in_mrq", w->most_mrq);
    print_number(out, "busy", w->busy);
    print_number(out, "polls_in_vain", w->vain_polls);
    fputc('\n', out);
    for (const struct ut_watch_peer *p = w->peers; p; p = p->next)
        print_peer(out, w, p, rank);
}
