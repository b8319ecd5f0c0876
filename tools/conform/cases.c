/* SPDX-License-Identifier: Apache-2.0 */
/* Runs cases, one after another, in all processes; rank 0 puts together what all saw. */
#include "cases.h"
#include "ends.h"
#include "exchange.h"
#include "owned.h"
#include "seen.h"
#include "share.h"
#include "system.h"
#include "text.h"
#include "timing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENCE_SECONDS 60

int cf_cases_wanted(const struct cf_options *o, const struct cf_group *g, const struct cf_case *it)
{
    int i;
    if (o->group != NULL && !cf_text_matches(g->name, o->group))
        return 0;
    for (i = 0; i < o->num_only; i++)
        if (cf_text_matches(it->name, o->only[i]))
            return 1;
    return o->num_only == 0;
}

/* Why the case cannot run here, or NULL */
static const char *find_missing(const struct cf_case *it, const struct cf_options *o)
{
    struct utofu_onesided_caps *caps = NULL;
    utofu_tni_id_t *tnis = NULL;
    size_t count = 0;
    unsigned long flags = 0;
    if ((it->needs & CF_RISKY) && !o->risky)
        return "runs only with --risky";
    if ((it->needs & CF_SLOW) && o->quick)
        return "left out with --quick";
    if (it->needs & CF_BARRIER) {
        if (utofu_get_barrier_tnis(&tnis, &count) != UTOFU_SUCCESS)
            count = 0;
        free(tnis);
        if (count == 0)
            return "no TNI for barrier communication";
        tnis = NULL;
    }
    if (!(it->needs & (CF_SESSION | CF_ARMW)))
        return NULL;
    if (utofu_get_onesided_tnis(&tnis, &count) == UTOFU_SUCCESS && count > 0 &&
        utofu_query_onesided_caps(tnis[0], &caps) == UTOFU_SUCCESS)
        flags = caps->flags;
    free(tnis);
    if ((it->needs & CF_SESSION) && !(flags & UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE))
        return "no session mode";
    if ((it->needs & CF_ARMW) && !(flags & UTOFU_ONESIDED_CAP_FLAG_ARMW))
        return "no atomic communication";
    return NULL;
}

static uint64_t hash_name(const char *name, unsigned long seed)
{
    uint64_t h = 1469598103934665603u ^ (seed * 0x9e3779b97f4a7c15u);
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ? h : 1;
}

static void begin_case(struct cf *c, const struct cf_case *it, unsigned long seed)
{
    c->now = it;
    c->round++;
    c->steps = c->closes = 0;
    c->left = 0;
    c->random = hash_name(it->name, seed);
    c->num_opened = 0;
    memset(&c->seen, 0, sizeof(c->seen));
}

/* Once. -1, or the rank of a silent process */
static int run_once(struct cf *c, const struct cf_case *it, const struct cf_options *o,
                    unsigned long seed, struct cf_seen *all)
{
    struct cf_seen *each = calloc((size_t)c->size, sizeof(*each));
    const char *why = find_missing(it, o);
    char message[256];
    int rank, silent;
    if (each == NULL)
        exit(2);
    begin_case(c, it, seed);
    snprintf(message, sizeof(message),
             "utofu-conform: rank %d did not come back from the case %s: it hangs in a call\n",
             c->rank, it->name);
    cf_system_deadline(2 * SILENCE_SECONDS * cf_timeout_scale, message);
    if (why != NULL)
        cf_skip(c, "%s", why);
    else
        it->run(c);
    c->seen.left = c->left;
    cf_ends_close_all(c);
    if (!(it->needs & CF_ALONE))
        cf_share_close(c); /* nobody communicates any more */
    cf_give_back();
    silent = cf_share_ends(c, SILENCE_SECONDS, each);
    cf_system_deadline(0, NULL);
    for (rank = 0; silent < 0 && rank < c->size; rank++)
        cf_seen_add(all, &each[rank], rank);
    free(each);
    if (silent < 0)
        cf_exchange_forget(c->round - 1);
    return silent;
}

/* A line a case on a terminal; else a sign of life now and then */
static void report_case(const struct cf_options *o, const struct cf_case *it,
                        const struct cf_seen *all, int number, int count)
{
    static double told;
    const char *outcome = cf_seen_outcome(it, all);
    int failed = strcmp(outcome, "fails") == 0;
    if (failed || o->verbose || cf_system_terminal() || cf_now() - told > 3) {
        told = cf_now();
        fprintf(stderr, "[%d/%d] %s: %s\n", number, count, it->name, outcome);
    }
    if (failed) {
        int i;
        fprintf(stderr, "    %s: %s\n", it->section, it->says);
        for (i = 0; i < all->texts; i++)
            fprintf(stderr, "    %s\n", all->text[i]);
        if (all->texts == 0)
            fprintf(stderr, "    the processes lost each other\n");
    }
}

static void add_tally(struct cf_tally *t, const char *outcome)
{
    t->holds += strcmp(outcome, "holds") == 0;
    t->fails += strcmp(outcome, "fails") == 0;
    t->seen += strcmp(outcome, "seen") == 0;
    t->not_tried += strcmp(outcome, "not tried") == 0;
}

int cf_cases_time(struct cf *c, const struct cf_options *o)
{
    size_t i;
    for (i = 0; i < time_group.count; i++) {
        const struct cf_case *it = &time_group.cases[i];
        struct cf_seen all;
        int silent;
        memset(&all, 0, sizeof(all));
        if (c->rank == 0)
            cf_result_running(it->name);
        silent = run_once(c, it, o, o->seed, &all);
        if (silent >= 0)
            return silent;
        if (c->rank == 0)
            fprintf(stderr, "%s: %s%s%s\n", it->name, cf_seen_outcome(it, &all),
                    all.texts || all.skipped ? ": " : "", all.texts ? all.text[0] : all.skip);
    }
    return -1;
}

static int run_case(struct cf *c, const struct cf_options *o, const struct cf_group *g,
                    const struct cf_case *it, struct cf_seen *all)
{
    double began = cf_now();
    unsigned long i;
    int silent = -1;
    memset(all, 0, sizeof(*all));
    if (c->rank == 0)
        cf_result_running(it->name);
    for (i = 0; i < o->repeat && silent < 0; i++)
        silent = run_once(c, it, o, o->seed + i, all);
    if (silent < 0 && c->rank == 0)
        cf_result_case(it, g->name, all, cf_now() - began);
    return silent;
}

static int count_wanted(const struct cf_options *o)
{
    size_t g, i;
    int count = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++)
            count += cf_cases_wanted(o, cf_groups[g], &cf_groups[g]->cases[i]);
    return count;
}

int cf_cases_run(struct cf *c, const struct cf_options *o, const struct cf_place *places,
                 struct cf_tally *tally)
{
    int number = 0, started = o->from == NULL, count = count_wanted(o);
    size_t g, i;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++) {
            const struct cf_case *it = &cf_groups[g]->cases[i];
            struct cf_seen all;
            int silent;
            if (o->from != NULL && strcmp(o->from, it->name) == 0)
                started = 1;
            if (!cf_cases_wanted(o, cf_groups[g], it))
                continue;
            number++;
            if (!started)
                continue;
            silent = run_case(c, o, cf_groups[g], it, &all);
            if (silent >= 0) {
                fprintf(stderr,
                        "utofu-conform: rank %d on %s is silent in the case %s; rank %d ends\n",
                        silent, places[silent].host, it->name, c->rank);
                if (c->rank == 0)
                    cf_result_silent(silent, places[silent].host, it->name);
                return silent;
            }
            add_tally(tally, cf_seen_outcome(it, &all));
            if (c->rank == 0)
                report_case(o, it, &all, number, count);
        }
    return -1;
}
