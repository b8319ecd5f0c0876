/* SPDX-License-Identifier: Apache-2.0 */
#include "model/noise.h"

#include <math.h>
#include <stdlib.h>

#include "model/fail.h"

struct um_noise_state {
    uint64_t random;
    double start, next; /* next: the time of the next interruption */
};

/* splitmix64 */
uint64_t um_noise_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* From 0 to 1, without 1. */
static double draw_part(uint64_t *state)
{
    return (double)(um_noise_bits(state) >> 11) * 0x1p-53;
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
        um_noise_bits(&n->random);
        n->start = draw_part(&n->random) * s->machine->noise_late_ns;
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
