/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dissemination barrier of all processes: in round k every process puts its epoch (the number of
 * barriers that it has entered) to the process 2^k ranks ahead, and waits for the process 2^k ranks
 * behind.
 */
#ifndef LC_BARRIER_H
#define LC_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "partners.h"

#pragma GCC visibility push(hidden)

/* How a layer waits in the barrier. */
struct lc_barrier_ops {
    unsigned long int flags;      /* flags of the puts, in addition to strong order */
    lc_op_callback *put_callback; /* or NULL */
    /* Makes progress, or waits briefly. idle: number of calls since something happened. */
    void (*progress)(uint32_t *idle);
    /* True if a process that has not entered the barrier has ended, or if rmt_epoch, which the
     * process behind has put, is impossible. */
    bool (*must_fail)(uint64_t epoch, uint64_t rmt_epoch);
};

/* Enters the next barrier and increments *epoch. timeout_ns 0: none. function: name of the called
 * function, for messages. False: timeout, or must_fail(). */
bool lc_barrier_wait(const struct lc_partner_context *context, const struct lc_barrier_ops *ops,
                     uint64_t *epoch, const char *function, uint64_t timeout_ns);

#pragma GCC visibility pop

#endif
