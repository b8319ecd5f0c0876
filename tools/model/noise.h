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

/* The next random number of a state. */
uint64_t um_noise_bits(uint64_t *state);

#endif
