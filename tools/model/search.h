/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --search: tries TNIs, orders of targets and places of ranks, and prints the best three. Each try
 * is a run of the model, as that of --what-if tni=, order= and map=. The same seed gives the same,
 * unless the time limit ends the search.
 */
#ifndef UM_SEARCH_H
#define UM_SEARCH_H

#include "model/sim.h"

struct um_search {
    bool tni, order, map; /* what may change */
    double seconds;       /* limit */
    uint64_t seed;
};

/* "tni,order,map", or some of them. False: something else. */
bool um_search_parse(struct um_search *search, const char *text);
/* From a run that has ended. */
void um_search_print(const struct um_sim *sim, const struct um_search *search);

#endif
