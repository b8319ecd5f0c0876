/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of the model has shown: as text, as JSON, as a timeline, as plots. */
#ifndef UM_REPORT_H
#define UM_REPORT_H

#include "model/sim.h"

struct um_noise;

/* `other`: the run with the change `what_if`, or NULL. `noise`: runs with noise, or NULL. `least`:
 * um_bounds_measure(). */
void um_report_text(const struct um_sim *sim, const struct um_sim *other, const char *what_if,
                    const struct um_noise *noise, const double *least);
void um_report_json(const struct um_sim *sim, const struct um_sim *other, const char *what_if,
                    const struct um_noise *noise, const double *least);

void um_report_timeline(const struct um_sim *sim, const char *path);
void um_report_plot(const struct um_sim *sim, const char *prefix);

#endif
