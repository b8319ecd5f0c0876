/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise: threads begin late, and the operating system interrupts them ([noise] of the machine's
 * file). The same seed gives the same noise.
 */
#ifndef UM_NOISE_H
#define UM_NOISE_H

#include "model/sim.h"

/* For the threads of a run; without sim->options.noise there is none. */
void um_noise_open(struct um_sim *sim);
/* When a thread begins. */
double um_noise_start(const struct um_sim *sim, uint32_t thread);
/* What a thread would do at a time is done at the time that this returns: it may be interrupted. */
double um_noise_pass(struct um_sim *sim, uint32_t thread, double at);
void um_noise_close(struct um_sim *sim);

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
