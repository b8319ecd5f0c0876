/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The barrier of all processes: in round k every process tells the one 2^k ranks ahead in which
 * epoch it is, and waits for the one 2^k ranks behind.
 */
#ifndef LC_BARRIER_H
#define LC_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "fingers.h"

#pragma GCC visibility push(hidden)

/* How a layer waits in it. */
struct lc_barrier_ops {
    unsigned long int flags; /* of the puts, beside strong order */
    lc_done *put_done;       /* ends of these; or NULL */
    /* Makes progress, or waits a little; idle counts the calls since something happened. */
    void (*progress)(uint32_t *idle);
    /* The barrier cannot end, or the epoch that is said to have come cannot be. */
    bool (*is_broken)(uint64_t epoch, uint64_t arrived);
};

/* One more barrier: the epoch is one more than before. limit_ns 0: as long as it takes. false: it
 * took longer, or fails. function: that of the program, for messages. */
bool lc_barrier_wait(const struct lc_fingers *fingers, const struct lc_barrier_ops *ops,
                     uint64_t *epoch, const char *function, uint64_t limit_ns);

#pragma GCC visibility pop

#endif
