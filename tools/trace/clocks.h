/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One common clock for several hosts, derived from their messages: no message arrives before it was
 * sent.
 *
 * A message from A to B bounds how far B's clock can be behind A's; one from B to A bounds the
 * other side. If constant differences satisfy all bounds, the middle is taken, or the difference of
 * the hosts' times of day if that is well within the bounds. For drifting clocks there is no
 * constant difference: then the trace is cut in two, and so on, until each part has a constant, and
 * the difference is interpolated between the parts. A remaining error is corrected at the arrival,
 * which moves to the time of sending, together with the following events on its host (a controlled
 * logical clock).
 */
#ifndef UT_TRACE_CLOCKS_H
#define UT_TRACE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message between two hosts. Times are in ns of each host's own clock. */
struct tr_hop {
    uint32_t from, to;
    int64_t sent, received;
};

struct tr_knot {
    int64_t local, common;
};

struct tr_clock {
    int64_t guess; /* ns to add for the common time, unless messages give a better value */
    struct tr_knot *knots;
    size_t num_knots;
};

/* Fits the clocks of n hosts, whose `guess` is set, to `count` hops. The common time is that of
 * host 0. False: no memory. */
bool tr_clocks_fit(struct tr_clock *clocks, uint32_t n, const struct tr_hop *hops, size_t count);
void tr_clocks_free(struct tr_clock *clocks, uint32_t n);

/* The common time for a time of this host; monotonic. */
int64_t tr_clock_common(const struct tr_clock *clock, int64_t local);

#endif
