/* SPDX-License-Identifier: Apache-2.0 */
#include "model/deciles.h"

#include <stdlib.h>

#include "model/fail.h"
#include "model/noise.h"
#include "model/sums.h"

static int compare_times(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static struct um_deciles find_deciles(double *times)
{
    struct um_deciles d;

    qsort(times, UM_NOISE_RUNS, sizeof(*times), compare_times);
    for (int i = 0; i < UM_DECILES; i++)
        d.at[i] = times[(i + 1) * (UM_NOISE_RUNS - 1) / (UM_DECILES + 1)];
    return d;
}

void um_noise_measure(const struct um_sim *sim, uint64_t seed, struct um_noise *noise)
{
    size_t num = sim->program->num_regions;
    double ends[UM_NOISE_RUNS], *times = um_calloc(num * UM_NOISE_RUNS, sizeof(*times));
    uint64_t state = seed;

    for (int run = 0; run < UM_NOISE_RUNS; run++) {
        struct um_sim s = {.program = sim->program,
                           .machine = sim->machine,
                           .place = sim->place,
                           .options = sim->options};
        s.options.noise = um_noise_bits(&state) | 1;
        um_replay(&s);
        ends[run] = s.end;
        struct um_region_sum *regions = um_sum_regions(&s);
        for (size_t i = 0; i < num; i++)
            times[i * UM_NOISE_RUNS + (size_t)run] =
                regions[i].calls ? regions[i].sum / (double)regions[i].calls : 0;
        um_free_regions(regions, num);
        um_replay_close(&s);
    }
    noise->seed = seed;
    noise->end = find_deciles(ends);
    noise->regions = um_calloc(num, sizeof(*noise->regions));
    for (size_t i = 0; i < num; i++)
        noise->regions[i] = find_deciles(&times[i * UM_NOISE_RUNS]);
    free(times);
}
