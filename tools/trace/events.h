/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a timeline of UTOFU_TRACE: a JSON array of events, one at a time, so that a file of any
 * size takes the memory of one event. Accepts any JSON layout. Uses jansson.
 */
#ifndef UT_TRACE_EVENTS_H
#define UT_TRACE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tr_events {
    FILE *file;
    bool begun;
    bool cut; /* the file ends within the array */
    char error[256];
};

/* The next event, which the caller frees with json_decref(); NULL: end of the array or the file
 * (see `cut`), or an invalid array (see `error`). */
json_t *tr_events_next(struct tr_events *events);

/* "ph" of an event, or 0. */
char tr_phase(const json_t *event);
/* The time, or another number of microseconds, in nanoseconds; false: missing. */
bool tr_nanoseconds(const json_t *event, const char *key, int64_t *ns);
/* The id of an arrow; 0: none. */
uint64_t tr_arrow_id(const json_t *event);

#endif
