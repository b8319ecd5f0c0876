/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partner k of a process is the process 2^k ranks ahead (partner k of Chord). A process knows the
 * VCQ ids of its partners from the start, puts words to them, and probes whether they are alive
 * (keepalive): four times a second, with one probe in flight. Most calls do not read the clock.
 */
#ifndef LC_PARTNERS_H
#define LC_PARTNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "port.h"

#pragma GCC visibility push(hidden)

enum { LC_PROBE_INTERVAL_MS = 250, LC_PROBE_CLOCK_PERIOD = 64 /* calls */ };

struct lc_probe {
    uint64_t due_ns; /* when to send the next probe */
    uint32_t calls;  /* of lc_probe_should_read_clock() */
    bool in_flight;
};

void lc_probe_setup(struct lc_probe *probe);
void lc_probe_ended(struct lc_probe *probe); /* the probe was answered, or has failed */
/* Microseconds until the next probe is due. */
uint32_t lc_probe_us_until_due(const struct lc_probe *probe);
/* True if no probe is in flight and the interval has passed. */
bool lc_probe_is_due(const struct lc_probe *probe);

/* True in one of LC_PROBE_CLOCK_PERIOD calls; only then lc_probe_is_due() is worth its price. */
static inline bool lc_probe_should_read_clock(struct lc_probe *probe)
{
    return ++probe->calls % LC_PROBE_CLOCK_PERIOD == 0;
}

/* Lets the next lc_probe_should_read_clock() return true. */
static inline void lc_probe_read_clock_next(struct lc_probe *probe)
{
    probe->calls = LC_PROBE_CLOCK_PERIOD - 1;
}

/* What a put to a partner needs of this process. */
struct lc_partner_context {
    const struct lc_job *job;
    struct lc_port *port;
    struct lc_control *control;
};

/* Puts a word into the control memory of a partner, at `offset`. False: no op is free, or the TOQ
 * is full. */
bool lc_partner_put_word(const struct lc_partner_context *context, uint32_t partner, uint64_t word,
                         uint64_t offset, unsigned long int flags, lc_op_callback *done);
/* Reads `size` bytes from the control memory of a partner, which fails if the process has ended:
 * more than a word, because uTofu may read a word from mapped memory, which outlives its process.
 * `done` must call lc_probe_ended(). */
void lc_partner_probe(const struct lc_partner_context *context, struct lc_probe *probe,
                      uint32_t partner, uint64_t offset, size_t size, lc_op_callback *done);

#pragma GCC visibility pop

#endif
