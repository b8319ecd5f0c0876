/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dissemination barrier of all processes: in round k every process puts its epoch to the process
 * 2^k ranks ahead, and waits for the process 2^k ranks behind.
 */
#ifndef LC_BARRIER_H
#define LC_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "partners.h"

#pragma GCC visibility push(hidden)

/* How a layer waits in the barrier. */
struct lc_barrier_ops {
    unsigned long int flags; /* flags of the puts, in addition to strong order */
    lc_op_callback *put_callback;       /* completion of a put; or NULL */
    /* Makes progress, or waits briefly. idle: number of calls since something happened. */
    void (*progress)(uint32_t *idle);
    /* True if the barrier cannot complete, or if the value that has arrived is impossible. */
    bool (*must_fail)(uint64_t epoch, uint64_t arrived);
};

/* Enters the next barrier and increments *epoch. limit_ns 0: no limit. function: name of the called
 * function, for messages. False: the limit is exceeded, or the barrier is broken. */
bool lc_barrier_wait(const struct lc_partner_context *partners, const struct lc_barrier_ops *ops,
                     uint64_t *epoch, const char *function, uint64_t limit_ns);

#pragma GCC visibility pop

#endif
