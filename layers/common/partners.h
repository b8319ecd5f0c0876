/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingers are the processes 1, 2, 4, 8... ranks ahead; a process knows their VCQ ids from the start
 * (the finger table of Chord). A process puts words to its fingers, and probes whether they are
 * alive: four times a second, with one probe in flight. Most calls do not read the clock.
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
void lc_probe_ended(struct lc_probe *probe); /* the probe was answered, or has failed */
/* Microseconds until the next probe is due. */
uint32_t lc_probe_us_until_due(const struct lc_probe *probe);
/* True if no probe is in flight and the interval has passed. */
bool lc_probe_is_due(const struct lc_probe *probe);

/* True in one of LC_PROBE_CALLS calls: time to read the clock. */
static inline bool lc_probe_tick(struct lc_probe *probe)
{
    return ++probe->calls % LC_PROBE_CALLS == 0;
}

/* Lets the next lc_probe_tick() return true. */
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

/* Puts a word at an offset of the control memory of the finger. False: no op is free, or the TOQ is
 * full. */
bool lc_finger_put_word(const struct lc_fingers *fingers, uint32_t finger, uint64_t word,
                        uint64_t offset, unsigned long int flags, lc_done *done);
/* Reads bytes from the control memory of the finger, which fails if the process has ended. `size`
 * exceeds a word, because uTofu may read a word from mapped memory, which outlives its process.
 * `done` must call lc_probe_ended(). */
void lc_finger_probe(const struct lc_fingers *fingers, struct lc_probe *probe, uint32_t finger,
                     uint64_t offset, size_t size, lc_done *done);

#pragma GCC visibility pop

#endif
