/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A standard output that never blocks its writer: output waits in a buffer for a slow reader, and
 * the writer goes on handling signals and timeouts.
 *
 * Uses libc only.
 */
#ifndef RUN_SINK_H
#define RUN_SINK_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_SINK_BYTES = 32768 };

struct run_sink {
    int fd;
    bool is_socket;
    bool broken;   /* accepts no further output; run_sink_flush() returned the reason */
    bool separate; /* fd was opened again */
    size_t used;
    char text[RUN_SINK_BYTES];
};

/* Does not change the flags of fd, which other processes share. */
void run_sink_open(struct run_sink *sink, int fd);

/* Adds to the buffer: false, and nothing is added, if it does not fit. */
bool run_sink_add(struct run_sink *sink, const char *text, size_t size);

/* Writes as much as the reader accepts. 0, even if some is left, or the negative errno of a sink
 * that has just broken; then the buffer is empty. */
int run_sink_flush(struct run_sink *sink);

#endif
