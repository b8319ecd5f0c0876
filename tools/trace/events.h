/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a timeline of UTOFU_TRACE: a JSON array of events, one after the other, so that a file of
 * any size takes the memory of one event. How the JSON is laid out does not matter. Uses jansson.
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

/* The next event, which the caller frees with json_decref(); NULL: the array or the file has ended
 * (cut tells which), or it is no such array (error says why). */
json_t *tr_events_next(struct tr_events *events);

/* "ph" of an event, and 0 where there is none. */
char tr_phase(const json_t *event);
/* The time, or another number of microseconds, in nanoseconds; false: there is none. */
bool tr_nanoseconds(const json_t *event, const char *key, int64_t *ns);
/* The id of an arrow; 0: none. */
uint64_t tr_arrow_id(const json_t *event);

#endif
