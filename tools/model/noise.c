/* SPDX-License-Identifier: Apache-2.0 */
#include "model/noise.h"

#include <math.h>
#include <stdlib.h>

#include "model/fail.h"
#include "model/sums.h"

struct um_noise_state {
    uint64_t random;
    double start, next; /* next: the time of the next interruption */
};

/* splitmix64 */
static uint64_t draw_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* From 0 to 1, without 1. */
static double draw_part(uint64_t *state)
{
    return (double)(draw_bits(state) >> 11) * 0x1p-53;
}

static double draw_pause(const struct um_machine *m, uint64_t *state)
{
    return m->noise_interval_ns > 0 ? -log(1 - draw_part(state)) * m->noise_interval_ns : INFINITY;
}

void um_noise_open(struct um_sim *s)
{
    if (!s->options.noise)
        return;
    s->noise = um_calloc(s->program->num_threads, sizeof(*s->noise));
    for (size_t i = 0; i < s->program->num_threads; i++) {
        struct um_noise_state *n = &s->noise[i];
        n->random = s->options.noise + i * 0x2545f4914f6cdd1d;
        draw_bits(&n->random);
        n->start = draw_part(&n->random) * s->machine->noise_start_ns;
        n->next = draw_pause(s->machine, &n->random);
    }
}

double um_noise_start(const struct um_sim *s, uint32_t thread)
{
    return s->noise ? s->noise[thread].start : 0;
}

double um_noise_pass(struct um_sim *s, uint32_t thread, double at)
{
    struct um_noise_state *n = s->noise ? &s->noise[thread] : NULL;

    while (n && n->next <= at) {
        double end = n->next + draw_part(&n->random) * s->machine->noise_longest_ns;
        at = end > at ? end : at;
        n->next = end + draw_pause(s->machine, &n->random);
    }
    return at;
}

void um_noise_close(struct um_sim *s)
{
    free(s->noise);
    s->noise = NULL;
}

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
        s.options.noise = draw_bits(&state) | 1;
        um_replay(&s);
        ends[run] = s.end;
        struct um_region_sum *regions = um_sum_regions(&s);
        for (size_t i = 0; i < num; i++)
            times[i * UM_NOISE_RUNS + (size_t)run] =
                regions[i].calls ? regions[i].sum / (double)regions[i].calls : 0;
        free(regions);
        um_replay_close(&s);
    }
    noise->seed = seed;
    noise->end = find_deciles(ends);
    noise->regions = um_calloc(num, sizeof(*noise->regions));
    for (size_t i = 0; i < num; i++)
        noise->regions[i] = find_deciles(&times[i * UM_NOISE_RUNS]);
    free(times);
}
