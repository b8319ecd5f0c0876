/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A standard output that never blocks its writer: what a slow reader has not taken yet waits in a
 * buffer, and the writer goes on with its signals and clocks.
 *
 * Uses libc alone.
 */
#ifndef RUN_SINK_H
#define RUN_SINK_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_SINK_BYTES = 32768 };

struct run_sink {
    int fd;
    bool is_socket;
    bool broken;   /* no further output is taken; run_sink_flush() said why */
    bool separate; /* fd is an open file of our own */
    size_t used;
    char text[RUN_SINK_BYTES];
};

/* fd itself keeps its flags: other processes share them. */
void run_sink_open(struct run_sink *sink, int fd);

/* Adds to the buffer: false, and nothing is added, when it does not fit. */
bool run_sink_add(struct run_sink *sink, const char *text, size_t size);

/* Writes what the reader takes now. 0, also when some is left, or the negative errno of a sink that
 * has just broken; the buffer is empty then. */
int run_sink_flush(struct run_sink *sink);

#endif
