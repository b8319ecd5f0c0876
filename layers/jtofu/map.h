/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map in bytes, as programs pass it around, and as the queries want it. The bytes describe
 * themselves, as a program gives them without a size. Pure functions: what is wrong is returned.
 */
#ifndef JT_MAP_H
#define JT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jtofu.h"

#pragma GCC visibility push(hidden)

enum {
    JT_AXES = 6,             /* X, Y, Z, A, B, C */
    JT_MAX_PROCS = 1u << 24, /* as uTofu */
    JT_A = 2,
    JT_B = 3,
    JT_C = 2,
    JT_GROUP = JT_A * JT_B * JT_C, /* nodes with the same X, Y, Z */
};

/* What a map is made of. Node n has logical place n, x fastest. */
struct jt_layout {
    uint32_t procs, nodes;
    uint32_t log[3];
    uint8_t last[JT_AXES]; /* the largest coordinates of the system */
    uint8_t torus[JT_AXES], ref[JT_AXES];
    uint8_t (*phys)[JT_AXES]; /* of each node; no two have the same */
    uint32_t *node_of;        /* of each rank */
};

/* A node, where it is. */
struct jt_node_coords {
    uint8_t phys[JT_AXES];
    uint32_t node;
};

/* The plan, and what follows from it. */
struct jt_map {
    struct jt_layout layout;
    uint64_t sum;     /* differs between maps */
    uint32_t max_ppn; /* processes of a node, at most */
    uint32_t *first;  /* ranks of node n: ranks[first[n]] to ranks[first[n + 1] - 1], ascending */
    uint32_t *ranks;
    struct jt_node_coords *sorted; /* the nodes by their physical coordinates */
};

/* A new map in bytes. JTOFU_SUCCESS or JTOFU_ERR_OUT_OF_MEMORY. */
int jt_map_write(const struct jt_layout *layout, void **bytes, size_t *size);
/* Makes a copy, and does not touch memory that is not there. An error: *why says what it is. */
int jt_map_read(const void *bytes, struct jt_map **map, const char **why);
void jt_map_free(struct jt_map *map);

/* The node with these coordinates, or -1. */
int64_t jt_map_node_at(const struct jt_map *map, const uint8_t phys[JT_AXES]);
/* Coordinates of place n among groups in a box of x by y by z: as uTofu gives them to nodes. */
void jt_map_place(uint64_t n, uint32_t x, uint32_t y, uint8_t phys[JT_AXES]);

#pragma GCC visibility pop

#endif
