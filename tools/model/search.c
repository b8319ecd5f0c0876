/* SPDX-License-Identifier: Apache-2.0 */
#include "model/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/fail.h"
#include "model/map.h"
#include "model/order.h"

enum { BEST = 3, RANKS_SHOWN = 96 };

/* What is tried. map: of um_map; 0: as it is. */
struct trial {
    uint8_t spread, order;
    uint32_t map;
    double end, hops, tni; /* hops: mean links of a byte; tni: part of the time of the busiest */
};

struct searching {
    const struct um_sim *sim;
    const struct um_search *search;
    struct um_map *maps;
    uint32_t num_maps;
    struct trial *trials;
    size_t num, room;
    double deadline;
    bool late;
};

static double read_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool um_search_parse(struct um_search *search, const char *text)
{
    for (size_t n; *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        if (n == 3 && strncmp(text, "tni", n) == 0)
            search->tni = true;
        else if (n == 5 && strncmp(text, "order", n) == 0)
            search->order = true;
        else if (n == 3 && strncmp(text, "map", n) == 0)
            search->map = true;
        else
            return false;
    }
    return search->tni || search->order || search->map;
}

/*
 * Trials
 */

static void note_loads(const struct um_sim *s, struct trial *t)
{
    double bytes = 0, busiest = 0, sent = 0;

    for (uint32_t i = 0; i < s->place->num_links; i++)
        bytes += s->network.links[i].bytes;
    for (size_t i = 0; i < (size_t)s->place->num_nodes * s->network.num_tnis; i++) {
        const struct um_tni *tni = &s->network.tnis[i];
        double busy = tni->send_busy > tni->receive_busy ? tni->send_busy : tni->receive_busy;
        busiest = busy > busiest ? busy : busiest;
        sent += tni->sent;
    }
    t->end = s->end;
    t->hops = sent > 0 ? bytes / sent : 0;
    t->tni = s->end > 0 ? busiest / s->end : 0;
}

static void run_trial(struct searching *g, struct trial *t)
{
    struct um_place place = *g->sim->place;
    struct um_sim s = {.machine = g->sim->machine, .place = &place, .options = g->sim->options};

    if (t->map)
        um_map_apply(&g->maps[t->map - 1], &place);
    struct um_program p = um_order_apply(g->sim->program, &place, (enum um_order)t->order);
    s.program = &p;
    s.options.spread = (enum um_spread)t->spread;
    um_replay(&s);
    note_loads(&s, t);
    um_replay_close(&s);
    um_order_free(&p);
    if (t->map)
        um_map_release(&place);
}

/* Returns the trial, which is run if that was not done before; NULL: there is no more time. */
static const struct trial *try_one(struct searching *g, uint8_t spread, uint8_t order, uint32_t map)
{
    for (size_t i = 0; i < g->num; i++)
        if (g->trials[i].spread == spread && g->trials[i].order == order && g->trials[i].map == map)
            return &g->trials[i];
    if (g->num && read_clock() > g->deadline) {
        g->late = true;
        return NULL;
    }
    struct trial t = {.spread = spread, .order = order, .map = map};
    run_trial(g, &t);
    g->trials = um_grow(g->trials, g->num, &g->room, sizeof(*g->trials));
    g->trials[g->num++] = t;
    return &g->trials[g->num - 1];
}

static void take_better(struct trial *best, const struct trial *t)
{
    if (t && t->end < best->end)
        *best = *t;
}

/* One dimension after the other, from the best so far; twice, as they depend on each other. */
static void search_all(struct searching *g)
{
    const struct um_search *w = g->search;
    struct trial best = *try_one(g, (uint8_t)g->sim->options.spread, UM_ORDER_OWN, 0);

    for (int turn = 0; turn < 2; turn++) {
        struct trial from = best;
        for (uint32_t m = 0; w->map && m <= g->num_maps; m++)
            take_better(&best, try_one(g, from.spread, from.order, m));
        from = best;
        for (uint8_t spread = 0; w->tni && spread < UM_SPREADS; spread++)
            take_better(&best, try_one(g, spread, from.order, from.map));
        from = best;
        for (uint8_t order = 0; w->order && order < UM_ORDERS; order++)
            take_better(&best, try_one(g, from.spread, order, from.map));
    }
}

/*
 * Report
 */

static int compare_trials(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;

    if (x->end < y->end || x->end > y->end)
        return x->end < y->end ? -1 : 1;
    int changes = (x->map > 0) + (x->order > 0) + (x->spread > 0) - (y->map > 0) - (y->order > 0) -
                  (y->spread > 0);
    return changes ? changes : x->map < y->map ? -1 : x->map > y->map;
}

static const char *const spread_names[UM_SPREADS] = {"own", "spread", "pairs"};

static void print_cause(const struct trial *t, const struct trial *own)
{
    const char *between = "    because ";

    if (t->hops < 0.99 * own->hops) {
        printf("%sa byte passes %.2f links instead of %.2f", between, t->hops, own->hops);
        between = ", ";
    }
    if (t->tni * t->end < 0.99 * own->tni * own->end) {
        printf("%sthe busiest TNI has %.0f us of work instead of %.0f", between,
               t->tni * t->end * 1e-3, own->tni * own->end * 1e-3);
        between = ", ";
    }
    if (t->order != own->order) {
        printf("%sputs in this order wait less for others", between);
        between = ", ";
    }
    printf("%s\n", *between == ',' ? "" : "    (puts wait less for each other)");
}

/* Of each rank: which TNI its peers get, in the order of its first puts to them. */
static void print_tnis(const struct um_sim *s, uint32_t rank)
{
    const struct um_program *p = s->program;
    bool *known = um_calloc(p->size, sizeof(*known));

    printf("    rank %u, peer:TNI ", rank);
    for (size_t i = 0; i < p->num_comms; i++) {
        const struct um_comm *c = &p->comms[i];
        if (c->process != rank || c->remote == UM_NONE || known[p->vcqs[c->remote].process])
            continue;
        known[p->vcqs[c->remote].process] = true;
        printf(" %u:%u", p->vcqs[c->remote].process, s->spread_to[i]);
    }
    putchar('\n');
    free(known);
}

/* The change as a list: what a program would do, or a file of coordinates. */
static void print_list(const struct searching *g, const struct trial *t)
{
    struct um_sim s = *g->sim;
    struct um_place place = *g->sim->place;
    char targets[4096];
    uint32_t shown = s.program->size < RANKS_SHOWN ? s.program->size : RANKS_SHOWN;

    if (t->map)
        um_map_apply(&g->maps[t->map - 1], &place);
    struct um_program p = um_order_apply(s.program, &place, (enum um_order)t->order);
    if (t->spread) {
        s.options.spread = (enum um_spread)t->spread;
        um_comms_spread(&s);
        for (uint32_t rank = 0; rank < shown; rank++)
            print_tnis(&s, rank);
        free(s.spread_to);
    }
    for (uint32_t rank = 0; t->order && rank < shown; rank++) {
        um_order_targets(&p, rank, targets, sizeof(targets));
        if (*targets)
            printf("    rank %u puts to %s\n", rank, targets);
    }
    for (uint32_t rank = 0; t->map && rank < p.size; rank++) {
        const uint8_t *c = place.coords[rank];
        printf("    %u,%u,%u,%u,%u,%u\n", c[0], c[1], c[2], c[3], c[4], c[5]);
    }
    um_order_free(&p);
    if (t->map)
        um_map_release(&place);
}

void um_search_print(const struct um_sim *sim, const struct um_search *search)
{
    struct searching g = {.sim = sim, .search = search};

    g.deadline = read_clock() + search->seconds;
    if (search->map)
        g.maps = um_map_candidates(sim, search->seed, &g.num_maps);
    search_all(&g);
    struct trial own = g.trials[0];
    qsort(g.trials, g.num, sizeof(*g.trials), compare_trials);
    printf("\nsearch: %zu runs, seed %llu%s; as it is: %.3f us\n", g.num,
           (unsigned long long)search->seed,
           g.late ? ", ended by the time limit (another search may end elsewhere)" : "",
           own.end * 1e-3);
    unsigned int shown = 0;
    for (size_t i = 0; i < g.num && shown < BEST && g.trials[i].end < own.end; i++) {
        const struct trial *t = &g.trials[i];
        printf("%u. %.3f us, %.1f %% less: tni=%s order=%s map=%s\n", ++shown, t->end * 1e-3,
               100 * (1 - t->end / own.end), spread_names[t->spread], um_order_names[t->order],
               t->map ? g.maps[t->map - 1].name : "own");
        print_cause(t, &own);
        print_list(&g, t);
    }
    if (!shown)
        printf("nothing that was tried is faster\n");
    for (uint32_t i = 0; i < g.num_maps; i++)
        free(g.maps[i].rank_at);
    free(g.maps);
    free(g.trials);
}
