/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of several hosts, made one by what the hosts sent to each other: nothing arrives
 * before it was sent.
 *
 * A message from A to B bounds how far B's clock can be behind A's, one from B to A the other side.
 * Where constant differences satisfy all bounds, their middle is taken, or what the hosts' times of
 * day say where that lies well within. Clocks that drift leave no constant: then the trace is cut
 * in two, and so on, until each part has one, and in between the difference changes linearly. What
 * that misses in the end is mended at the arrival itself, which moves to the time of sending, and
 * takes along what follows on its host (a controlled logical clock).
 */
#ifndef UT_TRACE_CLOCKS_H
#define UT_TRACE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One message between two hosts. Times: ns of each host's own clock. */
struct tr_hop {
    uint32_t from, to;
    int64_t sent, received;
};

struct tr_knot {
    int64_t local, common;
};

struct tr_clock {
    int64_t guess; /* ns to add for the common time, where no message says better */
    struct tr_knot *knots;
    size_t num_knots;
};

/* Fits the clocks of n hosts, whose `guess` is given, by `count` hops. The common time is that of
 * host 0. False: no memory. */
bool tr_clocks_fit(struct tr_clock *clocks, uint32_t n, const struct tr_hop *hops, size_t count);
void tr_clocks_free(struct tr_clock *clocks, uint32_t n);

/* The common time of a time of this host; never runs backwards. */
int64_t tr_clock_common(const struct tr_clock *clock, int64_t local);

#endif
