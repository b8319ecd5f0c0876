/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map as serialized bytes, which programs pass around, and as the struct that the queries use.
 * The bytes contain their length, because programs pass no size. Pure functions: errors are
 * returned, not logged.
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
    JT_MAX_PROCS = 1u << 24, /* limit of uTofu */
    JT_A = 2,
    JT_B = 3,
    JT_C = 2,
    JT_GROUP = JT_A * JT_B * JT_C, /* nodes with the same X, Y, Z */
};

/* The contents of a map. Node n has logical place n; x varies fastest. */
struct jt_layout {
    uint32_t procs, nodes;
    uint32_t log[3];
    uint8_t last[JT_AXES]; /* the largest coordinates of the system */
    uint8_t torus[JT_AXES], ref[JT_AXES];
    uint8_t (*phys)[JT_AXES]; /* coordinates of each node; unique */
    uint32_t *node_of;        /* node of each rank */
};

/* The coordinates of a node. */
struct jt_node_coords {
    uint8_t phys[JT_AXES];
    uint32_t node;
};

/* The contents, and arrays derived from them. */
struct jt_map {
    struct jt_layout layout;
    uint64_t sum;     /* a checksum that identifies the map */
    uint32_t max_ppn; /* maximum number of processes on a node */
    uint32_t *first;  /* ranks of node n: ranks[first[n]] to ranks[first[n + 1] - 1], ascending */
    uint32_t *ranks;
    struct jt_node_coords *sorted; /* the nodes sorted by physical coordinates */
};

/* Serializes a map. JTOFU_SUCCESS or JTOFU_ERR_OUT_OF_MEMORY. */
int jt_map_write(const struct jt_layout *layout, void **bytes, size_t *size);
/* Reads a serialized map, also from memory that may be unmapped. After an error, *why is the
 * reason. */
int jt_map_read(const void *bytes, struct jt_map **map, const char **why);
void jt_map_free(struct jt_map *map);

/* The node with these coordinates, or -1. */
int64_t jt_map_node_at(const struct jt_map *map, const uint8_t phys[JT_AXES]);
/* The coordinates of place n in a box of x by y by z groups, as uTofu assigns them to nodes. */
void jt_map_place(uint64_t n, uint32_t x, uint32_t y, uint8_t phys[JT_AXES]);

#pragma GCC visibility pop

#endif
