/* SPDX-License-Identifier: Apache-2.0 */
/* UTOFU_STATS: the counters of freed VCQs, and the sums over all VCQs. Prints one line of
 * name=value per VCQ, per peer, and per gate. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/stats.h"
#include "util/clock.h"

enum { LOCK_MS = 1000 /* no call holds the lock of a VCQ longer */ };

static struct {
    struct ut_stats *stats; /* counters of freed VCQs, one entry per id */
    uint32_t changes;
    pthread_mutex_t lock;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_counts(struct ut_stats_counts *into, const struct ut_stats_counts *c)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++)
        ut_counter_add(&into->n[i], i, c->n[i]);
}

/* The counters of a VCQ, with the high-water mark that the engine raises. */
static struct ut_stats_counts counts_of(const struct ut_stats *stats)
{
    struct ut_stats_counts c = stats->counts;

    ut_counter_add(&c.n[UT_COUNT_MOST_IN_MRQ], UT_COUNT_MOST_IN_MRQ, stats->most_mrq);
    return c;
}

struct ut_stats_peer *ut_stats_find_peer(struct ut_stats *stats, utofu_vcq_id_t id)
{
    struct ut_stats_peer *p = stats->peers;

    while (p && p->id != id)
        p = p->next;
    if (!p && (p = calloc(1, sizeof(*p)))) {
        *p = (struct ut_stats_peer){.next = stats->peers, .id = id, .rank = -1, .provider = -1};
        stats->peers = p;
    }
    return p;
}

static void add_vcq(struct ut_stats *into, const struct ut_stats *stats)
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

static void print_peer(FILE *out, const struct ut_stats *stats, const struct ut_stats_peer *p,
                       uint32_t rank)
{
    fprintf(out, "utofu: stats: [rank %u] peer vcq=%016llx of=%016llx", rank,
            (unsigned long long)p->id, (unsigned long long)stats->id);
    if (p->rank >= 0)
        fprintf(out, " rank=%lld", (long long)p->rank);
    if (p->provider >= 0)
        fprintf(out, " provider=%s", ut_process_peek()->prov[p->provider]->ops->name);
    ut_counters_print(out, p->counts.n, UT_COUNTS_PEER);
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
        ut_counters_print(out, g->counts.n, UT_COUNTS_GATE);
        fputc('\n', out);
    }
}

static void print_vcq(FILE *out, const struct ut_stats *stats, uint32_t rank)
{
    struct ut_stats_counts c = counts_of(stats);

    if (!ut_vcq_ident_is_of_program(&stats->ident)) {
        if (stats->gates)
            print_gates(out, stats, rank);
        return;
    }
    fprintf(out, "utofu: stats: [rank %u] vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s lives=%u",
            rank, (unsigned long long)stats->id, stats->tni, stats->ident.cq, stats->ident.cmp,
            stats->session ? "session" : "free", stats->lives);
    ut_counters_print(out, c.n, UT_COUNTS_VCQ);
    fputc('\n', out);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next)
        print_peer(out, stats, p, rank);
}

/*
 * Freed VCQs
 */

void ut_stats_keep(const struct ut_stats *stats)
{
    pthread_mutex_lock(&ended.lock);
    struct ut_stats *sum = ended.stats;
    while (sum && sum->id != stats->id)
        sum = sum->next;
    if (!sum && (sum = calloc(1, sizeof(*sum)))) {
        *sum = (struct ut_stats){.next = ended.stats,
                                 .id = stats->id,
                                 .ident = stats->ident,
                                 .tni = stats->tni,
                                 .session = stats->session};
        ended.stats = sum;
    }
    if (sum)
        add_vcq(sum, stats);
    __atomic_fetch_add(&ended.changes, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ended.lock);
}

/*
 * The whole process
 */

bool ut_stats_lock(struct ut_vcq *vcq)
{
    return ut_lock_until(&vcq->lock, ut_now_ms() + LOCK_MS);
}

static void add_vcq_to_totals(uint64_t totals[UT_NUM_COUNTERS], const struct ut_stats *stats)
{
    struct ut_stats_counts c = counts_of(stats);

    if (!ut_vcq_ident_is_of_program(&stats->ident)) {
        for (unsigned int i = 0; stats->gates && i < UT_NUM_GATES; i++)
            ut_counters_add(totals, stats->gates[i].counts.n, UT_COUNTS_GATE);
        return;
    }
    ut_counters_add(totals, c.n, UT_COUNTS_VCQ);
    for (const struct ut_stats_peer *p = stats->peers; p; p = p->next) {
        ut_counters_add(totals, p->counts.n, UT_COUNTS_PEER);
        totals[UT_COUNT_PEERS]++;
    }
}

static void add_live(struct ut_vcq *vcq, void *totals)
{
    if (!ut_stats_lock(vcq))
        return;
    if (vcq->stats)
        add_vcq_to_totals(totals, vcq->stats);
    ut_unlock(&vcq->lock);
}

void ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS])
{
    uint32_t before, after;

    /* repeats if a VCQ was freed meanwhile, which may have been counted twice or not at all */
    do {
        memset(totals, 0, UT_NUM_COUNTERS * sizeof(*totals));
        before = __atomic_load_n(&ended.changes, __ATOMIC_ACQUIRE);
        ut_vcq_for_each(add_live, totals);
        pthread_mutex_lock(&ended.lock);
        for (const struct ut_stats *stats = ended.stats; stats; stats = stats->next)
            add_vcq_to_totals(totals, stats);
        after = ended.changes;
        pthread_mutex_unlock(&ended.lock);
    } while (before != after);
}

struct place {
    FILE *out;
    uint32_t rank;
};

static void print_live(struct ut_vcq *vcq, void *arg)
{
    const struct place *p = arg;

    if (!ut_stats_lock(vcq))
        return;
    if (vcq->stats)
        print_vcq(p->out, vcq->stats, p->rank);
    ut_unlock(&vcq->lock);
}

void ut_stats_print(FILE *out, uint32_t rank)
{
    struct place p = {.out = out, .rank = rank};

    pthread_mutex_lock(&ended.lock);
    for (const struct ut_stats *stats = ended.stats; stats; stats = stats->next)
        print_vcq(out, stats, rank);
    pthread_mutex_unlock(&ended.lock);
    ut_vcq_for_each(print_live, &p);
}
