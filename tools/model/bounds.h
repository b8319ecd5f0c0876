/* SPDX-License-Identifier: Apache-2.0 */
/* How much the time of regions depends on conclusions. */
#ifndef UM_BOUNDS_H
#define UM_BOUNDS_H

#include "model/sim.h"

/* Runs the program of a run that has ended again, without the waits that were concluded: the mean
 * times of its regions are at least these, in ns. Of program->num_regions, to be freed. */
double *um_bounds_measure(const struct um_sim *sim);

#endif
