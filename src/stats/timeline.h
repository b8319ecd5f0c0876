/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_TRACE: buffers of events, and the file in the JSON format of Chrome trace events. A track
 * ("tid") is a VCQ or a gate, a process ("pid") is a rank. Each event is one line that begins with
 * "ph": utofu-trace relies on both. Uses util. For the library and for tools/observe.
 */
#ifndef UT_STATS_TIMELINE_H
#define UT_STATS_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/counters.h"

enum ut_stats_what {
    UT_EVENT_OP,       /* a communication; flow: that of its message */
    UT_EVENT_ARRIVAL,  /* flow: that of the message */
    UT_EVENT_WAIT,     /* a row of empty polls */
    UT_EVENT_GATE,     /* a slice on the track of a gate */
    UT_EVENT_FLOW_OUT, /* an arrow begins in the surrounding slice */
    UT_EVENT_FLOW_IN,  /* an arrow ends in the surrounding slice */
    UT_EVENT_ARROW,    /* an arrow within the process, from `cause` */
    UT_EVENT_NAME,     /* the name of a track; kind: UT_NAME_* */
    UT_EVENT_REGION,   /* a region of the program */
};
struct ut_stats_event {
    uint8_t what;
    uint8_t
        kind; /* enum ut_stats_kind; arrival: enum utofu_mrq_type; gate: enum ut_stats_gate_slice */
    uint8_t edata;
    uint8_t sps;
    int16_t rc;
    bool unfinished;
    uint32_t bytes;
    uint32_t track;
    int64_t rank;        /* rank of the peer; -1: unknown */
    uint64_t at, length; /* ns */
    uint64_t done;       /* OP: time of completion, if later than the return of the call; else 0 */
    uint64_t flow;       /* 0: none */
    uint64_t cause;      /* arrival time of the event that caused this one; 0: none */
    union {
        uint64_t peer;    /* VCQ or VBG id */
        const char *name; /* REGION: name that is never freed */
    };
};
enum { UT_NAME_FREE, UT_NAME_SESSION, UT_NAME_GATE, UT_NAME_REGIONS };
/* What a gate receives and sends. */
enum { UT_STATS_SIGNAL, UT_STATS_PACKET, UT_STATS_INPUTS };
enum ut_stats_gate_slice {
    UT_SLICE_SIGNAL,
    UT_SLICE_PACKET,
    UT_SLICE_START,
    UT_SLICE_RELAY,
    UT_SLICE_RESULT,
    UT_SLICE_BARRIER,
};
enum {
    UT_TRACE_START_GATES = 16,        /* gates below are start gates, those from it on relay */
    UT_STATS_EVENTS = 4096,           /* number of events per buffer */
    UT_STATS_GATE_TRACKS = 1000000,   /* first number of the gates' tracks */
    UT_STATS_REGION_TRACKS = 2000000, /* first number of the regions' tracks */
};

/* The process, as the file names it. */
struct ut_trace_job {
    uint32_t rank, size;
    const char *id;
    uint64_t host;
};

/* Creates the file of this rank; `limit` in bytes, 0: none. 0 or a negative errno; `why` is set if
 * the file itself is wrong. `path` has room for PATH_MAX bytes, `why` for UT_FILE_WHY. */
int ut_trace_open(const char *pattern, const struct ut_trace_job *job, uint64_t limit, char *path,
                  char *why);

/* Events that are not written yet. */
struct ut_trace_buffer {
    struct ut_stats_event *events; /* NULL: no memory */
    uint32_t num_events;
};
struct ut_stats_event *ut_trace_memory(void);
void ut_trace_free(struct ut_stats_event *events);
/* Full buffers are kept up to this memory, and written together; 0, as it is at first: each is
 * written when it is full. Called once, after ut_trace_open(). */
void ut_trace_keep(uint64_t bytes);
/* The next event, with type, track and time set, and all else cleared. Keeps or writes a full
 * buffer. */
struct ut_stats_event *ut_trace_event(struct ut_trace_buffer *buffer, enum ut_stats_what what,
                                      uint32_t track, uint64_t at);
void ut_trace_write(const struct ut_stats_event *events, uint32_t count);
void ut_trace_flush(struct ut_trace_buffer *buffer);
void ut_trace_close(void);

#endif
