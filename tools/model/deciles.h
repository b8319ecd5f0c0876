/* SPDX-License-Identifier: Apache-2.0 */
/* How much results vary with noise. */
#ifndef UM_DECILES_H
#define UM_DECILES_H

#include "model/sim.h"

/* Medians and deciles of runs with different noise. */
enum { UM_NOISE_RUNS = 21, UM_DECILES = 9 };
struct um_deciles {
    double at[UM_DECILES]; /* ns; [4] is the median */
};
struct um_noise {
    uint64_t seed;
    struct um_deciles end, *regions; /* regions: mean times, of program->num_regions */
};
/* Runs the program of a run that has ended again, with noise. */
void um_noise_measure(const struct um_sim *sim, uint64_t seed, struct um_noise *noise);

#endif
