/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other places of the ranks, on the nodes that the job has: in the order of the axes, in one line
 * or circle through the torus, and what exchanges of pairs make of these.
 */
#ifndef UM_MAP_H
#define UM_MAP_H

#include "model/sim.h"

struct um_map {
    char name[32];
    uint32_t *rank_at; /* of each rank: it takes the place of this rank */
};

/* Those that are worth a run of the model; the best ones by the links that bytes pass. */
struct um_map *um_map_candidates(const struct um_sim *sim, uint64_t seed, uint32_t *num);
/* The place becomes one of its own, with the ranks moved; to be released. */
void um_map_apply(const struct um_map *map, struct um_place *place);
void um_map_release(struct um_place *place);

#endif
