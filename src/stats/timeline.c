/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "utofu.h"
#include "util/clock.h"
#include "util/codes.h"
#include "util/decimal.h"
#include "util/fd.h"
#include "util/file.h"
#include "util/log.h"
#include "util/fd_check.h"

enum { TEXT_BYTES = 1 << 18, EVENT_BYTES = 2048 /* EVENT_BYTES: maximum per event */ };

/* The file of the timeline. */
static struct {
    pthread_mutex_t lock; /* guards the fields below */
    int file;
    uint32_t rank;
    uint64_t limit, written; /* in bytes */
    uint64_t next_id;        /* counts arrows within the process, and outstanding communications */
    char *text;
    size_t used;
    struct ut_stats_event **kept; /* full buffers, in the order in which they were filled */
    uint32_t num_kept, room_kept;
} timeline = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};

/*
 * Buffers
 */

static size_t buffer_size(void)
{
    return UT_STATS_EVENTS * sizeof(struct ut_stats_event);
}

static struct ut_stats_event *map_buffer(int flags)
{
    void *p = mmap(NULL, buffer_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

struct ut_stats_event *ut_trace_memory(void)
{
    return map_buffer(0);
}

void ut_trace_free(struct ut_stats_event *events)
{
    if (events)
        munmap(events, buffer_size());
}

void ut_trace_keep(uint64_t bytes)
{
    uint32_t room = (uint32_t)(bytes / buffer_size());

    timeline.kept = room ? calloc(room, sizeof(struct ut_stats_event *)) : NULL;
    timeline.room_kept = timeline.kept ? room : 0;
}

/* Takes a full buffer, if there is room and memory for another one. */
static bool keep_full(struct ut_trace_buffer *buffer)
{
    struct ut_stats_event *next = NULL;

    pthread_mutex_lock(&timeline.lock);
    if (timeline.num_kept < timeline.room_kept && timeline.file >= 0 &&
        (next = map_buffer(MAP_POPULATE))) {
        timeline.kept[timeline.num_kept++] = buffer->events;
        buffer->events = next;
        buffer->num_events = 0;
    }
    pthread_mutex_unlock(&timeline.lock);
    return next != NULL;
}

struct ut_stats_event *ut_trace_event(struct ut_trace_buffer *buffer, enum ut_stats_what what,
                                      uint32_t track, uint64_t at)
{
    if (buffer->num_events == UT_STATS_EVENTS && !keep_full(buffer))
        ut_trace_flush(buffer);
    struct ut_stats_event *e = &buffer->events[buffer->num_events++];
    *e = (struct ut_stats_event){.what = (uint8_t)what, .track = track, .at = at};
    return e;
}

void ut_trace_flush(struct ut_trace_buffer *buffer)
{
    ut_trace_write(buffer->events, buffer->num_events);
    buffer->num_events = 0;
}

/*
 * The file. The caller holds its lock.
 */

static void write_text(void)
{
    for (size_t done = 0; done < timeline.used && timeline.file >= 0;) {
        ssize_t n = ut_fd_check_still_ours(timeline.file)
                        ? write(timeline.file, timeline.text + done, timeline.used - done)
                        : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            ut_error("stats", "the timeline of UTOFU_TRACE ends here: %s", strerror(errno));
            ut_fd_close(timeline.file);
            timeline.file = -1;
            break;
        }
        done += (size_t)n;
    }
    timeline.written += timeline.used;
    timeline.used = 0;
}

__attribute__((format(printf, 1, 2))) static void put_text(const char *format, ...)
{
    va_list ap;

    if (TEXT_BYTES - timeline.used < EVENT_BYTES)
        write_text();
    va_start(ap, format);
    int n = vsnprintf(timeline.text + timeline.used, TEXT_BYTES - timeline.used, format, ap);
    va_end(ap);
    timeline.used += n > 0 ? (size_t)n : 0;
}

static struct ut_decimal us_of(uint64_t ns)
{
    return ut_decimal(ns, 1000, 3);
}

/* Writes the beginning of an event, up to its category. The time is printed as integers, because a
 * double cannot hold the nanoseconds of a long uptime. */
static void write_event_head(char phase, const char *name, const char *category, uint32_t track,
                             uint64_t at)
{
    put_text(
        ",\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%llu.%03u,\"name\":\"%s\",\"cat\":\"%s\"",
        phase, timeline.rank, track, (unsigned long long)at / 1000, (unsigned int)(at % 1000), name,
        category);
}

static void arrow_end(bool out, const char *name, const char *category, uint32_t track, uint64_t at,
                      uint64_t id)
{
    write_event_head(out ? 's' : 'f', name, category, track, at);
    put_text(",\"id\":\"0x%016llx\"%s}", (unsigned long long)id, out ? "" : ",\"bp\":\"e\"");
}

/* An id that no other process of the job uses. */
static uint64_t own_id(void)
{
    return (uint64_t)timeline.rank << 40 | ++timeline.next_id << 1;
}

static void arrow_within(const struct ut_stats_event *e, const char *name)
{
    uint64_t id = own_id();

    arrow_end(true, name, "within", e->track, e->cause, id);
    arrow_end(false, name, "within", e->track, e->at, id);
}

static void other_end(char *buf, size_t size, const struct ut_stats_event *e)
{
    if (e->rank >= 0)
        snprintf(buf, size, "rank %lld", (long long)e->rank);
    else
        snprintf(buf, size, "VCQ %016llx", (unsigned long long)e->peer);
}

static void write_op(const struct ut_stats_event *e)
{
    static const char *const names[] = {"put", "get", "armw", "nop"};
    char name[96], peer[40];

    other_end(peer, sizeof(peer), e);
    if (e->kind == UT_STATS_NOP)
        snprintf(name, sizeof(name), "nop");
    else
        snprintf(name, sizeof(name), "%s %u B %s %s", names[e->kind], e->bytes,
                 e->kind == UT_STATS_GET ? "from" : "to", peer);
    write_event_head('X', name, names[e->kind], e->track, e->at);
    put_text(",\"dur\":%s,\"args\":{\"bytes\":%u,\"edata\":%u,\"vcq\":\"%016llx\",\"rc\":%d,"
             "\"code\":\"%s\",\"complete_us\":%s%s}}",
             us_of(e->length ? e->length : 1).text, e->bytes, e->edata, (unsigned long long)e->peer,
             e->rc, ut_code_name(e->rc),
             e->done ? us_of(e->done - e->at).text : us_of(e->length).text,
             e->unfinished ? ",\"unfinished\":true" : "");
    if (e->done) {
        uint64_t id = own_id();
        write_event_head('b', name, "under way", e->track, e->at);
        put_text(",\"id\":\"0x%llx\"}", (unsigned long long)id);
        write_event_head('e', name, "under way", e->track, e->done);
        put_text(",\"id\":\"0x%llx\"}", (unsigned long long)id);
    }
    if (e->flow)
        arrow_end(true, "message", "between", e->track, e->at, e->flow);
    if (e->cause)
        arrow_within(e, "relay");
}

static void write_arrival(const struct ut_stats_event *e)
{
    static const char *const names[] = {[UTOFU_MRQ_TYPE_RMT_PUT] = "put from",
                                        [UTOFU_MRQ_TYPE_RMT_GET] = "got by",
                                        [UTOFU_MRQ_TYPE_RMT_ARMW] = "armw from",
                                        [UTOFU_MRQ_TYPE_LCL_ARMW] = "armw answer from"};
    char name[96], peer[40];

    other_end(peer, sizeof(peer), e);
    snprintf(name, sizeof(name), "%s %s", names[e->kind], peer);
    write_event_head('X', name, "arrival", e->track, e->at);
    put_text(",\"dur\":%s,\"args\":{\"edata\":%u,\"sps\":%u,\"vcq\":\"%016llx\"}}",
             us_of(e->length ? e->length : 1).text, e->edata, e->sps, (unsigned long long)e->peer);
    if (e->flow)
        arrow_end(false, "message", "between", e->track, e->at, e->flow);
}

static void write_gate(const struct ut_stats_event *e)
{
    static const char *const names[] = {
        [UT_SLICE_SIGNAL] = "signal", [UT_SLICE_PACKET] = "packet", [UT_SLICE_START] = "start",
        [UT_SLICE_RELAY] = "relay",   [UT_SLICE_RESULT] = "result",
    };
    const char *name = e->kind != UT_SLICE_BARRIER           ? names[e->kind]
                       : e->edata == UTOFU_REDUCE_OP_BARRIER ? "barrier"
                                                             : "reduction";

    write_event_head('X', name, "gate", e->track, e->at);
    put_text(",\"dur\":%s,\"args\":{\"rc\":%d,\"code\":\"%s\"%s}}",
             us_of(e->length ? e->length : 1).text, e->rc, ut_code_name(e->rc),
             e->unfinished ? ",\"unfinished\":true" : "");
}

static void write_name(const struct ut_stats_event *e)
{
    put_text(
        ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"",
        timeline.rank, e->track);
    if (e->kind == UT_NAME_REGIONS)
        put_text("regions of thread %lld, level %u", (long long)e->rank, e->bytes);
    else if (e->kind == UT_NAME_GATE)
        put_text("%s gate %lld, TNI %u", e->rank < UT_TRACE_START_GATES ? "start" : "relay",
                 (long long)e->rank, e->bytes);
    else
        put_text("VCQ %016llx, TNI %u CQ %lld component %u%s", (unsigned long long)e->peer,
                 e->bytes, (long long)e->rank, e->sps,
                 e->kind == UT_NAME_SESSION ? ", session mode" : "");
    put_text("\"}},\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_sort_index\","
             "\"args\":{\"sort_index\":%u}}",
             timeline.rank, e->track, e->track);
}

static void write_event(const struct ut_stats_event *e)
{
    bool signal = e->kind == UT_STATS_SIGNAL;

    switch ((enum ut_stats_what)e->what) {
    case UT_EVENT_OP:
        write_op(e);
        break;
    case UT_EVENT_ARRIVAL:
        write_arrival(e);
        break;
    case UT_EVENT_WAIT:
        write_event_head('X', "empty polls", "wait", e->track, e->at);
        put_text(",\"dur\":%s}", us_of(e->length ? e->length : 1).text);
        break;
    case UT_EVENT_GATE:
        write_gate(e);
        break;
    case UT_EVENT_FLOW_OUT:
    case UT_EVENT_FLOW_IN:
        arrow_end(e->what == UT_EVENT_FLOW_OUT, signal ? "signal" : "packet",
                  signal ? "within" : "between", e->track, e->at, e->flow);
        break;
    case UT_EVENT_ARROW:
        arrow_within(e, "step");
        break;
    case UT_EVENT_NAME:
        write_name(e);
        break;
    case UT_EVENT_REGION:
        write_event_head('X', e->name, "region", e->track, e->at);
        put_text(",\"dur\":%s%s}", us_of(e->length ? e->length : 1).text,
                 e->unfinished ? ",\"args\":{\"unfinished\":true}" : "");
        break;
    }
}

static void write_events(const struct ut_stats_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count && timeline.file >= 0; i++) {
        if (timeline.limit && timeline.written + timeline.used >= timeline.limit &&
            events[i].what != UT_EVENT_NAME) {
            ut_error("stats",
                     "the timeline has reached the limit of UTOFU_TRACE, %llu MiB, "
                     "and ends here",
                     (unsigned long long)(timeline.limit >> 20));
            put_text("\n]\n");
            write_text();
            ut_fd_close(timeline.file);
            timeline.file = -1;
            break;
        }
        write_event(&events[i]);
    }
}

void ut_trace_write(const struct ut_stats_event *events, uint32_t count)
{
    pthread_mutex_lock(&timeline.lock);
    for (uint32_t i = 0; i < timeline.num_kept; i++) {
        write_events(timeline.kept[i], UT_STATS_EVENTS);
        ut_trace_free(timeline.kept[i]);
    }
    timeline.num_kept = 0;
    write_events(events, count);
    if (timeline.file >= 0)
        write_text();
    pthread_mutex_unlock(&timeline.lock);
}

void ut_trace_close(void)
{
    pthread_mutex_lock(&timeline.lock);
    if (timeline.file >= 0) {
        put_text("\n]\n");
        write_text();
    }
    if (timeline.file >= 0)
        ut_fd_close(timeline.file);
    timeline.file = -1;
    pthread_mutex_unlock(&timeline.lock);
}

/*
 * Opening the file
 */

/* Copies text for a JSON string. A character that needs an escape becomes "?". */
static void copy_plain(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
    for (char *c = to; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
}

int ut_trace_open(const char *pattern, const struct ut_trace_job *job, uint64_t limit, char *path,
                  char *why)
{
    char host_name[HOST_NAME_MAX + 1] = "", name[sizeof(host_name)], id[256];

    timeline.rank = job->rank;
    timeline.limit = limit;
    int rc = ut_file_of_rank(pattern, timeline.rank, path);
    if (rc != 0)
        return rc;
    timeline.file = ut_fd_mark_ours(ut_file_create(path, why));
    if (timeline.file < 0)
        return timeline.file;
    timeline.text = malloc(TEXT_BYTES);
    if (!timeline.text) {
        ut_fd_close(timeline.file);
        timeline.file = -1;
        return -ENOMEM;
    }
    gethostname(host_name, sizeof(host_name) - 1);
    copy_plain(name, sizeof(name), host_name);
    copy_plain(id, sizeof(id), job->id);
    put_text("[\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"utofu_clock\",\"args\":{\"job\":\"%s\","
             "\"rank\":%u,\"size\":%u,\"host\":\"%016llx\",\"monotonic_to_realtime_ns\":%lld}}",
             timeline.rank, id, timeline.rank, job->size, (unsigned long long)job->host,
             (long long)ut_clock_time_of_day_offset());
    put_text(
        ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"rank %u on "
        "%s\"}}",
        timeline.rank, timeline.rank, name);
    put_text(
        ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}",
        timeline.rank, timeline.rank);
    write_text();
    return 0;
}
