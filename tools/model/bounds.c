/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bounds.h"

#include "model/fail.h"
#include "model/sums.h"

static bool is_concluded(const struct um_program *p)
{
    for (size_t i = 0; i < p->num_seen; i++)
        if (p->seen[i].basis == UM_CONCLUDED)
            return true;
    return false;
}

double *um_bounds_measure(const struct um_sim *sim)
{
    size_t num = sim->program->num_regions;
    double *least = um_calloc(num, sizeof(*least));
    struct um_sim s = {.program = sim->program,
                       .machine = sim->machine,
                       .place = sim->place,
                       .options = sim->options};
    bool again = num > 0 && is_concluded(sim->program);

    s.options.skips_concluded = true;
    if (again)
        um_replay(&s);
    struct um_region_sum *regions = um_sum_regions(again ? &s : sim);
    for (size_t i = 0; i < num; i++)
        least[i] = regions[i].calls ? regions[i].sum / (double)regions[i].calls : 0;
    um_free_regions(regions, num);
    if (again)
        um_replay_close(&s);
    return least;
}
