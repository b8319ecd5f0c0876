/* SPDX-License-Identifier: Apache-2.0 */
#include "model/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"

enum { X, Y, Z, A, B, C };
enum { MOST_A_NODE = 48 }; /* the cores of an A64FX for programs */
static const uint32_t in_unit[3] = {2, 3, 2};

/*
 * Processes
 */

/* Along a first axis of 2 or 3 units in the unit, neighbours of the job are neighbours of the
 * torus: every other unit is passed backwards. */
static void fold_axis(uint32_t logical, int axis, uint8_t coords[6])
{
    uint32_t size = in_unit[axis], unit = logical / size, in = logical % size;

    coords[axis] = (uint8_t)unit;
    coords[A + axis] = (uint8_t)(unit % 2 ? size - 1 - in : in);
}

/* Nodes that a number of ranks takes, each as many ranks. Returns the ranks of a node. */
static uint32_t share_nodes(const struct um_program *program, uint64_t nodes, const char *text)
{
    uint64_t a_node = (program->size + nodes - 1) / nodes;

    if (a_node > MOST_A_NODE)
        um_fail(UM_EXIT_USAGE,
                "--allocation '%s': %u ranks on %llu nodes would be %llu on one, and the most is "
                "%d: take %u nodes or more",
                text, program->size, (unsigned long long)nodes, (unsigned long long)a_node,
                MOST_A_NODE, (program->size + MOST_A_NODE - 1) / MOST_A_NODE);
    return (uint32_t)a_node;
}

/* A job of one dimension: a circle through the nodes of a row of units, so that neighbours in rank
 * are neighbours. It goes along x and a in one row of nodes, and back through the other five rows
 * of the units, which b and c tell apart. */
static void place_on_circle(struct um_place *p, const struct um_program *program, uint32_t nodes,
                            const char *text)
{
    static const uint8_t rows[6][2] = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {1, 1}, {0, 1}}; /* b, c */
    uint32_t a_node = share_nodes(program, nodes, text), length = (nodes + 11) / 12 * 2;

    for (uint32_t rank = 0; rank < program->size; rank++) {
        uint32_t node = rank / a_node, at = node, row = 0;
        if (node >= length) {
            uint32_t back = node - length, turn = back / 5, in = back % 5;
            at = length - 1 - turn;
            row = 1 + (turn % 2 ? 4 - in : in);
        }
        fold_axis(at, 0, p->coords[rank]);
        p->coords[rank][Y] = p->coords[rank][Z] = 0;
        p->coords[rank][B] = rows[row][0];
        p->coords[rank][C] = rows[row][1];
    }
}

static void place_allocation(struct um_place *p, const struct um_program *program, const char *text)
{
    unsigned int n[3] = {1, 1, 1};
    char rest;

    if (sscanf(text, "%u%c", &n[0], &rest) == 1 && n[0] > 0 && n[0] <= 12 * 256) {
        place_on_circle(p, program, n[0], text);
        return;
    }
    if (sscanf(text, "%ux%ux%u%c", &n[0], &n[1], &n[2], &rest) != 3 || n[0] == 0 || n[1] == 0 ||
        n[2] == 0 || n[0] > 512 || n[1] > 768 || n[2] > 512)
        um_fail(UM_EXIT_USAGE,
                "--allocation '%s': expected three numbers, at most 512x768x512, such as 2x3x2, or "
                "one up to 3072, such as 12",
                text);
    uint32_t a_node = share_nodes(program, (uint64_t)n[0] * n[1] * n[2], text);
    for (uint32_t rank = 0; rank < program->size; rank++) {
        uint32_t node = rank / a_node;
        fold_axis(node % n[0], 0, p->coords[rank]);
        fold_axis(node / n[0] % n[1], 1, p->coords[rank]);
        fold_axis(node / n[0] / n[1], 2, p->coords[rank]);
    }
}

static void place_by_file(struct um_place *p, const struct um_program *program, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[256];
    uint32_t rank = 0, number = 0;

    if (!file)
        um_fail(UM_EXIT_BAD, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        unsigned int c[6];
        char rest;
        number++;
        if (line[strspn(line, " \t\r\n")] == '#' || line[strspn(line, " \t\r\n")] == '\0')
            continue;
        if (sscanf(line, "%u,%u,%u,%u,%u,%u %c", &c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &rest) !=
                6 ||
            c[X] > 255 || c[Y] > 255 || c[Z] > 255 || c[A] > 1 || c[B] > 2 || c[C] > 1)
            um_fail(UM_EXIT_BAD,
                    "%s:%u: expected six coordinates x,y,z,a,b,c, of which a, b, c end at 1, 2, 1",
                    path, number);
        if (rank == program->size)
            um_fail(UM_EXIT_BAD, "%s:%u: the job has only %u ranks", path, number, program->size);
        for (int i = 0; i < 6; i++)
            p->coords[rank][i] = (uint8_t)c[i];
        rank++;
    }
    fclose(file);
    if (rank != program->size)
        um_fail(UM_EXIT_BAD, "%s: coordinates of %u ranks, and the job has %u", path, rank,
                program->size);
}

static uint32_t number_of(const struct um_place *p, const uint8_t at[6])
{
    uint64_t n = 0;

    for (int i = 5; i >= 0; i--)
        n = n * p->extent[i] + at[i];
    return (uint32_t)n;
}

static void count_links(struct um_place *p)
{
    const struct um_machine *m = p->machine;
    uint64_t links = (uint64_t)p->num_nodes * UM_PORTS;

    if (m->topology == UM_FAT_TREE) {
        uint64_t leaves =
            (p->num_nodes + (uint64_t)m->nodes_a_leaf - 1) / (uint64_t)m->nodes_a_leaf;
        links = 2ull * p->num_nodes + 2 * leaves * (uint64_t)m->spines;
    }
    if (links > UINT32_MAX / 2)
        um_fail(UM_EXIT_BAD, "a machine of %llu links is too large", (unsigned long long)links);
    p->num_links = (uint32_t)links;
}

/* A fat tree has no coordinates: nodes are numbered in the order of their first ranks. */
static void number_nodes(struct um_place *p, const struct um_program *program)
{
    uint32_t *number = um_calloc(p->num_nodes, sizeof(*number)), nodes = 0;

    for (uint32_t rank = 0; rank < program->size; rank++) {
        uint32_t node = p->node_of_process[rank];
        if (!number[node])
            number[node] = ++nodes;
        p->node_of_process[rank] = number[node] - 1;
    }
    p->num_nodes = nodes;
    free(number);
}

void um_place_processes(struct um_place *p, const struct um_machine *machine,
                        const struct um_program *program, const char *allocation, const char *map)
{
    p->machine = machine;
    p->num_ranks = program->size;
    p->coords = um_calloc(program->size, sizeof(*p->coords));
    p->node_of_process = um_calloc(program->size, sizeof(*p->node_of_process));
    for (uint32_t rank = 0; rank < program->size; rank++)
        memcpy(p->coords[rank], program->processes[rank].coords, 6);
    if (allocation)
        place_allocation(p, program, allocation);
    if (map)
        place_by_file(p, program, map);
    for (int i = 0; i < 6; i++)
        p->extent[i] = i < A ? 1 : in_unit[i - A];
    for (uint32_t rank = 0; rank < program->size; rank++)
        for (int i = 0; i < 6; i++)
            if (p->coords[rank][i] >= p->extent[i])
                p->extent[i] = p->coords[rank][i] + 1u;
    p->num_nodes = p->extent[X] * p->extent[Y] * p->extent[Z] * 12;
    for (uint32_t rank = 0; rank < program->size; rank++)
        p->node_of_process[rank] = number_of(p, p->coords[rank]);
    if (machine->topology == UM_FAT_TREE)
        number_nodes(p, program);
    count_links(p);
}

/*
 * Routes
 */

void um_node_coords(const struct um_place *p, uint32_t node, uint8_t coords[6])
{
    for (int i = 0; i < 6; i++) {
        coords[i] = (uint8_t)(node % p->extent[i]);
        node /= p->extent[i];
    }
}

/* The port in this direction of an axis: a and c have one. */
static uint32_t port_of(int axis, int up)
{
    static const uint8_t first[] = {0, 2, 4, 6, 7, 9};

    return first[axis] + (axis != A && axis != C && !up);
}

static unsigned int walk_axis(const struct um_place *p, uint8_t at[6], int axis, unsigned int to,
                              uint32_t *links, unsigned int n)
{
    int extent = (int)p->extent[axis], ahead = (int)to - at[axis];
    bool torus = axis < A ? p->machine->torus[axis] : axis == B;
    int up = ahead > 0;

    if (torus && ahead != 0) {
        int plus = (ahead + extent) % extent;
        up = 2 * plus <= extent;
    }
    while (at[axis] != to) {
        links[n++] = number_of(p, at) * UM_PORTS + port_of(axis, up);
        at[axis] = (uint8_t)((at[axis] + (up ? 1 : extent - 1)) % extent);
    }
    return n;
}

static unsigned int route_tofu(const struct um_place *p, uint32_t from, uint32_t to,
                               const uint8_t path[3], uint32_t *links)
{
    uint8_t at[6], target[6], via[3];
    unsigned int n = 0;

    um_node_coords(p, from, at);
    um_node_coords(p, to, target);
    for (int i = 0; i < 3; i++)
        via[i] = path[i] < in_unit[i] ? path[i] : target[A + i];
    n = walk_axis(p, at, B, via[1], links, n);
    n = walk_axis(p, at, C, via[2], links, n);
    n = walk_axis(p, at, A, via[0], links, n);
    for (int i = X; i <= Z; i++)
        n = walk_axis(p, at, i, target[i], links, n);
    n = walk_axis(p, at, A, target[A], links, n);
    n = walk_axis(p, at, C, target[C], links, n);
    return walk_axis(p, at, B, target[B], links, n);
}

static unsigned int route_tree(const struct um_place *p, uint32_t from, uint32_t to,
                               uint32_t *links)
{
    uint32_t a_leaf = (uint32_t)p->machine->nodes_a_leaf, spines = (uint32_t)p->machine->spines;
    uint32_t leaf = from / a_leaf, far = to / a_leaf, spine = to % spines, n = 0;

    links[n++] = from;
    if (leaf != far) {
        links[n++] = 2 * p->num_nodes + 2 * (leaf * spines + spine);
        links[n++] = 2 * p->num_nodes + 2 * (far * spines + spine) + 1;
    }
    links[n++] = p->num_nodes + to;
    return n;
}

unsigned int um_route(const struct um_place *p, uint32_t from, uint32_t to, const uint8_t path[3],
                      uint32_t links[UM_MOST_HOPS])
{
    if (from == to)
        return 0;
    return p->machine->topology == UM_TOFU ? route_tofu(p, from, to, path, links)
                                           : route_tree(p, from, to, links);
}

/* How far in its route a link of an axis can be: twice in the unit, once in x, y, z. */
static const uint8_t first_places[] = {3, 4, 5, 2, 0, 1}, last_places[] = {3, 4, 5, 6, 8, 7};

void um_route_classes(const struct um_place *p, const uint32_t *links, unsigned int num,
                      uint8_t *classes)
{
    static const uint8_t axis_of_port[UM_PORTS] = {X, X, Y, Y, Z, Z, A, B, B, C};
    unsigned int place = 0;
    bool wrapped = false;

    for (unsigned int i = 0; i < num; i++) {
        classes[i] = 0;
        if (p->machine->topology != UM_TOFU)
            continue;
        unsigned int port = links[i] % UM_PORTS, axis = axis_of_port[port];
        unsigned int next = first_places[axis] >= place ? first_places[axis] : last_places[axis];
        uint8_t at[6];
        wrapped = wrapped && next == place;
        place = next;
        um_node_coords(p, links[i] / UM_PORTS, at);
        classes[i] = place < 3 ? 0 : place > 5 ? 3 : wrapped ? 2 : 1;
        wrapped = wrapped || at[axis] == (port % 2 ? 0 : p->extent[axis] - 1);
    }
}

static void name_tree_link(const struct um_place *p, uint32_t link, char *text, size_t size)
{
    uint32_t spines = (uint32_t)p->machine->spines;

    if (link < 2 * p->num_nodes) {
        snprintf(text, size, "link %s node %u", link < p->num_nodes ? "from" : "to",
                 link % p->num_nodes);
        return;
    }
    link -= 2 * p->num_nodes;
    snprintf(text, size, "link %s leaf %u %s spine %u", link % 2 ? "to" : "from", link / 2 / spines,
             link % 2 ? "from" : "to", link / 2 % spines);
}

void um_link_name(const struct um_place *p, uint32_t link, char *text, size_t size)
{
    static const char *const ports[] = {"x+", "x-", "y+", "y-", "z+", "z-", "a", "b+", "b-", "c"};
    uint8_t at[6];

    if (p->machine->topology == UM_FAT_TREE) {
        name_tree_link(p, link, text, size);
        return;
    }
    um_node_coords(p, link / UM_PORTS, at);
    snprintf(text, size, "link %s of node %u (%u,%u,%u,%u,%u,%u)", ports[link % UM_PORTS],
             link / UM_PORTS, at[0], at[1], at[2], at[3], at[4], at[5]);
}
