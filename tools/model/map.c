/* SPDX-License-Identifier: Apache-2.0 */
#include "model/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/table.h"

enum { X, Y, Z, A, B, C };
enum {
    MAPS = 6,            /* that are run */
    ORDERS = 6 * 2 + 2,  /* of places: of the axes, each as a line or not; circles */
    EXCHANGES = 200000,  /* that are tried for one map, at most; */
    MESSAGE_BYTES = 1000 /* a message counts as so many bytes more */
};

static const uint8_t default_path[3] = {UM_DEFAULT_PATH, UM_DEFAULT_PATH, UM_DEFAULT_PATH};

/* Traffic between two ranks, in both directions. */
struct pair {
    uint32_t a, b;
    double weight;
};

struct mapping {
    const struct um_sim *sim;
    uint32_t size;
    struct pair *pairs;
    size_t num_pairs, room;
    uint32_t *first, *near; /* of each rank: its pairs */
    double *distance;       /* links between the places of ranks */
    uint64_t random;
};

static uint64_t draw_number(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

/*
 * Traffic
 */

static void collect_pairs(struct mapping *m)
{
    const struct um_program *p = m->sim->program;
    struct um_table known = {.entries = NULL};

    for (size_t i = 0; i < p->num_comms; i++) {
        const struct um_comm *c = &p->comms[i];
        if (c->remote == UM_NONE || p->vcqs[c->remote].process == c->process)
            continue;
        uint32_t a = c->process, b = p->vcqs[c->remote].process;
        uint32_t *index = um_table_at(&known, a < b ? a : b, a < b ? b : a, (uint32_t)m->num_pairs);
        if (*index == m->num_pairs) {
            m->pairs = um_grow(m->pairs, m->num_pairs, &m->room, sizeof(*m->pairs));
            m->pairs[m->num_pairs++] = (struct pair){a, b, 0};
        }
        m->pairs[*index].weight += c->length + (double)MESSAGE_BYTES;
    }
    um_table_free(&known);
    m->first = um_calloc(m->size + 1, sizeof(*m->first));
    m->near = um_calloc(2 * m->num_pairs, sizeof(*m->near));
    for (size_t i = 0; i < m->num_pairs; i++) {
        m->first[m->pairs[i].a]++;
        m->first[m->pairs[i].b]++;
    }
    for (uint32_t rank = 1; rank <= m->size; rank++)
        m->first[rank] += m->first[rank - 1];
    for (size_t i = 0; i < m->num_pairs; i++) {
        m->near[--m->first[m->pairs[i].a]] = (uint32_t)i;
        m->near[--m->first[m->pairs[i].b]] = (uint32_t)i;
    }
}

static void measure_distances(struct mapping *m)
{
    const struct um_place *place = m->sim->place;
    uint32_t links[UM_MOST_HOPS];

    m->distance = um_calloc((size_t)m->size * m->size, sizeof(*m->distance));
    for (uint32_t a = 0; a < m->size; a++)
        for (uint32_t b = 0; b < m->size; b++)
            m->distance[(size_t)a * m->size + b] = um_route(
                place, place->node_of_process[a], place->node_of_process[b], default_path, links);
}

static double cost_of_pair(const struct mapping *m, const struct pair *pair, const uint32_t *at)
{
    return pair->weight * m->distance[(size_t)at[pair->a] * m->size + at[pair->b]];
}

static double cost_of_map(const struct mapping *m, const uint32_t *at)
{
    double cost = 0;

    for (size_t i = 0; i < m->num_pairs; i++)
        cost += cost_of_pair(m, &m->pairs[i], at);
    return cost;
}

static double cost_of_rank(const struct mapping *m, uint32_t rank, const uint32_t *at)
{
    double cost = 0;

    for (uint32_t i = m->first[rank]; i < m->first[rank + 1]; i++)
        cost += cost_of_pair(m, &m->pairs[m->near[i]], at);
    return cost;
}

/*
 * Orders of places
 */

struct spot {
    uint32_t rank;
    unsigned int at[3]; /* along the axes of a job: x and a, y and b, z and c */
    unsigned int half;
    uint64_t key;
};

/* Where a node is along the three axes, of which neighbours are one link apart. */
static void find_spot(const uint8_t c[6], struct spot *s)
{
    s->at[0] = 2u * c[X] + (c[X] % 2 ? 1u - c[A] : c[A]);
    s->at[1] = 3u * c[Y] + (c[B] + c[Y]) % 3u;
    s->at[2] = 2u * c[Z] + (c[Z] % 2 ? 1u - c[C] : c[C]);
    s->half = 0;
}

static int compare_spots(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;

    return x->key < y->key ? -1 : x->key > y->key;
}

/* Numbers places along the axes: the first one fastest; as a line, each row the other way round. */
static uint64_t number_spot(const struct spot *s, const unsigned int extent[3],
                            const uint8_t axes[3], bool line)
{
    uint64_t key = 0;

    for (int i = 2; i >= 0; i--) {
        unsigned int at = s->at[axes[i]], e = extent[axes[i]];
        key = key * e + (line && key % 2 ? e - 1 - at : at);
    }
    return key;
}

static void set_order(const struct mapping *m, struct spot *spots, unsigned int order, uint32_t *at)
{
    static const uint8_t all[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                      {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const uint8_t(*coords)[6] = (const uint8_t(*)[6])m->sim->place->coords;
    unsigned int extent[3] = {1, 1, 1};
    bool circle = order >= 12;

    for (uint32_t i = 0; i < m->size; i++) {
        spots[i].rank = i;
        find_spot(coords[i], &spots[i]);
        if (circle) { /* there with a or c 0, and back with 1 */
            int half = order == 12 ? 0 : 2, axis = order == 12 ? A : C;
            spots[i].at[half] = coords[i][half];
            spots[i].half = coords[i][axis];
        }
        for (int k = 0; k < 3; k++)
            if (spots[i].at[k] >= extent[k])
                extent[k] = spots[i].at[k] + 1;
    }
    uint64_t end = (uint64_t)extent[0] * extent[1] * extent[2];
    for (uint32_t i = 0; i < m->size; i++) {
        uint64_t key =
            number_spot(&spots[i], extent, all[circle ? 2 : order % 6], circle || order >= 6);
        spots[i].key = spots[i].half ? 2 * end - 1 - key : key;
    }
    qsort(spots, m->size, sizeof(*spots), compare_spots);
    for (uint32_t i = 0; i < m->size; i++)
        at[i] = spots[i].rank;
}

/* Exchanges places of two ranks as long as that makes the way of the bytes shorter. */
static void improve_map(struct mapping *m, uint32_t *at)
{
    uint32_t tries = m->size > 1 && m->size < 2000 ? EXCHANGES : 0;

    for (uint32_t i = 0; i < tries; i++) {
        uint32_t a = (uint32_t)draw_number(&m->random, m->size);
        uint32_t b = (uint32_t)draw_number(&m->random, m->size), old = at[a];
        double before = cost_of_rank(m, a, at) + cost_of_rank(m, b, at);
        at[a] = at[b];
        at[b] = old;
        if (cost_of_rank(m, a, at) + cost_of_rank(m, b, at) <= before)
            continue;
        at[b] = at[a];
        at[a] = old;
    }
}

/*
 * All of them
 */

struct candidate {
    struct um_map map;
    double cost;
    unsigned int number;
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void name_map(struct um_map *map, unsigned int order, bool improved)
{
    static const char *const axes[] = {"xyz", "xzy", "yxz", "yzx", "zxy", "zyx"};

    if (order >= 12)
        snprintf(map->name, sizeof(map->name), "circle-%s%s", order == 12 ? "a" : "c",
                 improved ? "-exchanged" : "");
    else
        snprintf(map->name, sizeof(map->name), "%s%s%s", axes[order % 6], order >= 6 ? "-line" : "",
                 improved ? "-exchanged" : "");
}

struct um_map *um_map_candidates(const struct um_sim *sim, uint64_t seed, uint32_t *num)
{
    struct mapping m = {.sim = sim, .size = sim->program->size, .random = seed};
    struct candidate all[2 * ORDERS];
    unsigned int n = 0;

    *num = 0;
    if (sim->machine->topology != UM_TOFU)
        return NULL;
    struct spot *spots = um_calloc(m.size, sizeof(*spots));
    collect_pairs(&m);
    measure_distances(&m);
    for (unsigned int order = 0; order < ORDERS; order++) {
        for (int improved = 0; improved < 2; improved++, n++) {
            all[n] = (struct candidate){.number = n};
            all[n].map.rank_at = um_calloc(m.size, sizeof(uint32_t));
            set_order(&m, spots, order, all[n].map.rank_at);
            if (improved)
                improve_map(&m, all[n].map.rank_at);
            name_map(&all[n].map, order, improved);
            all[n].cost = cost_of_map(&m, all[n].map.rank_at);
        }
    }
    qsort(all, n, sizeof(*all), compare_candidates);
    struct um_map *maps = um_calloc(MAPS, sizeof(*maps));
    for (unsigned int i = 0; i < n && *num < MAPS; i++)
        maps[(*num)++] = all[i].map;
    for (unsigned int i = *num; i < n; i++)
        free(all[i].map.rank_at);
    free(spots);
    free(m.pairs);
    free(m.first);
    free(m.near);
    free(m.distance);
    return maps;
}

void um_map_apply(const struct um_map *map, struct um_place *place)
{
    const struct um_place old = *place;

    place->coords = um_calloc(old.num_ranks, sizeof(*place->coords));
    place->node_of_process = um_calloc(old.num_ranks, sizeof(*place->node_of_process));
    for (uint32_t rank = 0; rank < old.num_ranks; rank++) {
        memcpy(place->coords[rank], old.coords[map->rank_at[rank]], 6);
        place->node_of_process[rank] = old.node_of_process[map->rank_at[rank]];
    }
}

void um_map_release(struct um_place *place)
{
    free(place->coords);
    free(place->node_of_process);
}
