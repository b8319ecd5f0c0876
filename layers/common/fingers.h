/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process tells its fingers, the processes 1, 2, 4, 8... ranks ahead, whose VCQ ids it knows
 * from the start; and when it asks them whether they live: four times a second, one question at a
 * time. The clock is read in few of the calls.
 */
#ifndef LC_FINGERS_H
#define LC_FINGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "port.h"

#pragma GCC visibility push(hidden)

enum { LC_PROBE_MS = 250, LC_PROBE_CALLS = 64 };

struct lc_probe {
    uint64_t next_ns;
    uint32_t calls;
    bool under_way;
};

void lc_probe_setup(struct lc_probe *probe);
void lc_probe_ended(struct lc_probe *probe); /* the question was answered, or will not be */
uint32_t lc_probe_us_until_due(const struct lc_probe *probe); /* until the next one may be asked */
/* The clock says so: no question is under way, and the last one was long ago. */
bool lc_probe_is_due(const struct lc_probe *probe);

/* In one call of LC_PROBE_CALLS: time to look at the clock. */
static inline bool lc_probe_tick(struct lc_probe *probe)
{
    return ++probe->calls % LC_PROBE_CALLS == 0;
}

/* The next call looks at the clock. */
static inline void lc_probe_check_next(struct lc_probe *probe)
{
    probe->calls = LC_PROBE_CALLS - 1;
}

struct lc_fingers {
    const struct lc_job *job;
    struct lc_port *port;
    struct lc_control *control;
};

typedef void lc_done(struct lc_op *op, int rc, uint64_t old_value);

/* Puts a word to the place in the memory of the finger. false: no room at the moment. */
bool lc_finger_put_word(const struct lc_fingers *fingers, uint32_t finger, uint64_t word,
                        uint64_t offset, unsigned long int flags, lc_done *done);
/* Gets some bytes from there, which tells whether the process lives: more than a word, as uTofu may
 * read that from mapped memory, which outlives its process. `done` calls lc_probe_ended(). */
void lc_finger_probe(const struct lc_fingers *fingers, struct lc_probe *probe, uint32_t finger,
                     uint64_t offset, size_t size, lc_done *done);

#pragma GCC visibility pop

#endif
