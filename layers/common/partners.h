/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partners are the processes 1, 2, 4, 8... ranks ahead; a process knows their VCQ ids from the start
 * (the partner table of Chord). A process puts words to its partners, and probes whether they are
 * alive: four times a second, with one probe in flight. Most calls do not read the clock.
 */
#ifndef LC_PARTNERS_H
#define LC_PARTNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "port.h"

#pragma GCC visibility push(hidden)

enum { LC_PROBE_INTERVAL_MS = 250, LC_PROBE_CLOCK_PERIOD = 64 };

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

/* True in one of LC_PROBE_CLOCK_PERIOD calls: time to read the clock. */
static inline bool lc_probe_should_read_clock(struct lc_probe *probe)
{
    return ++probe->calls % LC_PROBE_CLOCK_PERIOD == 0;
}

/* Lets the next lc_probe_should_read_clock() return true. */
static inline void lc_probe_read_clock_next(struct lc_probe *probe)
{
    probe->calls = LC_PROBE_CLOCK_PERIOD - 1;
}

struct lc_partner_context {
    const struct lc_job *job;
    struct lc_port *port;
    struct lc_control *control;
};

typedef void lc_op_callback(struct lc_op *op, int rc, uint64_t old_value);

/* Puts a word at an offset of the control memory of the partner. False: no op is free, or the TOQ is
 * full. */
bool lc_partner_put_word(const struct lc_partner_context *partners, uint32_t partner, uint64_t word,
                        uint64_t offset, unsigned long int flags, lc_op_callback *done);
/* Reads bytes from the control memory of the partner, which fails if the process has ended. `size`
 * exceeds a word, because uTofu may read a word from mapped memory, which outlives its process.
 * `done` must call lc_probe_ended(). */
void lc_partner_probe(const struct lc_partner_context *partners, struct lc_probe *probe, uint32_t partner,
                     uint64_t offset, size_t size, lc_op_callback *done);

#pragma GCC visibility pop

#endif
