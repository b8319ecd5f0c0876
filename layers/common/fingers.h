/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process tells its fingers and asks them: the processes 1, 2, 4, 8... ranks ahead, whose
 * VCQ ids it knows from the start.
 */
#ifndef LC_FINGERS_H
#define LC_FINGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "port.h"
#include "probe.h"

#pragma GCC visibility push(hidden)

struct lc_fingers {
    const struct lc_job *job;
    struct lc_port *port;
    struct lc_control *control;
};

typedef void lc_done(struct lc_op *op, int rc, uint64_t old_value);

/* Puts a word to the place in the memory of the finger. false: no room at the moment. */
bool lc_finger_tell(const struct lc_fingers *fingers, uint32_t finger, uint64_t word,
                    uint64_t offset, unsigned long int flags, lc_done *done);
/* Gets some bytes from there, which tells whether the process lives: more than a word, as uTofu may
 * read that from mapped memory, which outlives its process. `done` calls lc_probe_ended(). */
void lc_finger_probe(const struct lc_fingers *fingers, struct lc_probe *probe, uint32_t finger,
                     uint64_t offset, size_t size, lc_done *done);

#pragma GCC visibility pop

#endif
