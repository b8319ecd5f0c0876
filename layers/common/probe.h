/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a process asks another one whether it lives: four times a second, one question at a time.
 * The clock is read in few of the calls.
 */
#ifndef LC_PROBE_H
#define LC_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { LC_PROBE_MS = 250, LC_PROBE_CALLS = 64 };

struct lc_probe {
    uint64_t next_ns;
    uint32_t calls;
    bool under_way;
};

void lc_probe_setup(struct lc_probe *probe);
void lc_probe_ended(struct lc_probe *probe); /* the question was answered, or will not be */
uint32_t lc_probe_due_us(const struct lc_probe *probe); /* until the next one may be asked */
/* The clock says so: no question is under way, and the last one was long ago. */
bool lc_probe_is_due(const struct lc_probe *probe);

/* In one call of LC_PROBE_CALLS: time to look at the clock. */
static inline bool lc_probe_counts(struct lc_probe *probe)
{
    return ++probe->calls % LC_PROBE_CALLS == 0;
}

/* The next call looks at the clock. */
static inline void lc_probe_soon(struct lc_probe *probe)
{
    probe->calls = LC_PROBE_CALLS - 1;
}

#pragma GCC visibility pop

#endif
