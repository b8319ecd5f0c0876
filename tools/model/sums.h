/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a run: regions, ranks, links and TNIs by how busy they were, and the critical path. */
#ifndef UM_SUMS_H
#define UM_SUMS_H

#include "model/basis.h"
#include "model/sim.h"

struct um_region_sum {
    const char *name;
    uint64_t calls;
    double sum, least, most; /* ns */
    struct um_basis_sum basis;
};
/* An array of program->num_regions, to be freed. */
struct um_region_sum *um_sum_regions(const struct um_sim *sim);
void um_free_regions(struct um_region_sum *regions, size_t num);

struct um_rank_sum {
    double compute, call, wait, end; /* ns */
};
/* An array of program->size, to be freed. */
struct um_rank_sum *um_sum_ranks(const struct um_sim *sim);

struct um_load {
    char name[96];
    double busy, bytes; /* busy: ns */
};
enum { UM_LOADS = 8 };
/* The busiest links, and the busiest directions of TNIs. Returns their number. */
unsigned int um_busiest_links(const struct um_sim *sim, struct um_load loads[UM_LOADS]);
unsigned int um_busiest_tnis(const struct um_sim *sim, struct um_load loads[UM_LOADS]);

/* A part of the critical path: from the last call of the job back to its beginning. */
struct um_part {
    char text[128];
    double ns;
};
enum { UM_PARTS = 8 };
/* The longest parts, alike ones summed up. Returns their number; *total: of all parts. */
unsigned int um_critical_path(const struct um_sim *sim, struct um_part parts[UM_PARTS],
                              double *total);

#endif
