/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: one table per process, and a record per thread with its open regions. Records stay in
 * the list; a new thread reuses the record of a thread that has ended.
 */
#include "stats/region.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/wanted.h"
#include "util/clock.h"
#include "util/decimal.h"
#include "util/log.h"
#include "utofu.h"

_Static_assert(UT_REGION_DEPTH == 64, "named has one bit for each level");

struct open_region {
    struct ut_stats_region *region; /* NULL: this level is free */
    uint64_t since;
};

struct region_thread {
    SLIST_ENTRY(region_thread) next;
    uint32_t number;
    uint64_t named; /* one bit per level: its track has a name */
    bool ended;     /* no region is open, and another thread may take the record */
    struct open_region level[UT_REGION_DEPTH];
};

static struct {
    pthread_mutex_t lock;                              /* guards all data in this file */
    STAILQ_HEAD(region_list, ut_stats_region) regions; /* in the order of their first starts */
    uint32_t num_regions;
    SLIST_HEAD(region_thread_list, region_thread) threads;
    uint32_t num_threads;
    struct ut_trace_buffer slices;
    pthread_key_t thread_key;
    pthread_once_t key_once;
    int key_result;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .regions = STAILQ_HEAD_INITIALIZER(table.regions),
           .key_once = PTHREAD_ONCE_INIT};

/* Called when a thread ends. A region without a stop stays open. */
static void mark_thread_ended(void *arg)
{
    struct region_thread *t = arg;
    bool open = false;

    pthread_mutex_lock(&table.lock);
    for (int i = 0; i < UT_REGION_DEPTH; i++)
        open |= t->level[i].region != NULL;
    t->ended = !open;
    pthread_mutex_unlock(&table.lock);
}

static void make_key(void)
{
    table.key_result = pthread_key_create(&table.thread_key, mark_thread_ended);
}

/* Called with the lock held. NULL: no memory. */
static struct region_thread *this_thread(void)
{
    if (pthread_once(&table.key_once, make_key) != 0 || table.key_result != 0)
        return NULL;
    struct region_thread *t = pthread_getspecific(table.thread_key);
    if (t)
        return t;
    SLIST_FOREACH (t, &table.threads, next)
        if (t->ended)
            break;
    if (!t && (t = calloc(1, sizeof(*t)))) {
        t->number = table.num_threads++;
        SLIST_INSERT_HEAD(&table.threads, t, next);
    }
    if (!t || pthread_setspecific(table.thread_key, t) != 0)
        return NULL; /* the record stays in the list, without a thread */
    t->ended = false;
    return t;
}

static struct ut_stats_region *find_region(const char *name)
{
    struct ut_stats_region *r;

    STAILQ_FOREACH (r, &table.regions, next)
        if (strcmp(r->name, name) == 0)
            break;
    return r;
}

static struct ut_stats_region *make_region(const char *name)
{
    struct ut_stats_region *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    memcpy(r->name, name, strlen(name));
    STAILQ_INSERT_TAIL(&table.regions, r, next);
    table.num_regions++;
    return r;
}

static void enter_region(struct ut_stats_region *r, uint64_t now)
{
    r->calls++;
    if (r->inside++ > 0)
        return;
    r->since = now;
    ut_stats_totals(r->begun_with);
}

static void add_since(struct ut_stats_region *r, uint64_t now)
{
    uint64_t totals[UT_NUM_COUNTERS];

    ut_stats_totals(totals);
    for (int i = 0; i < UT_COUNT_PEERS; i++)
        /* totals may have shrunk: they lack a VCQ whose lock could not be taken in time */
        r->counted[i] += totals[i] > r->begun_with[i] ? totals[i] - r->begun_with[i] : 0;
    r->ns += now - r->since;
}

/*
 * The timeline: one track per level of each thread, because regions may overlap
 */

static struct ut_stats_event *new_event(enum ut_stats_what what, uint64_t at)
{
    if (!table.slices.events && ut_stats_is_traced())
        table.slices.events = ut_trace_memory();
    return table.slices.events ? ut_trace_event(&table.slices, what, 0, at) : NULL;
}

static void record_slice(struct region_thread *t, int level, uint64_t now, bool unfinished)
{
    const struct open_region *o = &t->level[level];
    uint32_t track =
        UT_STATS_REGION_TRACKS + t->number * (uint32_t)UT_REGION_DEPTH + (uint32_t)level;
    struct ut_stats_event *e;

    if (!(t->named >> level & 1) && (e = new_event(UT_EVENT_NAME, 0))) {
        t->named |= 1ull << level;
        e->track = track;
        e->kind = UT_NAME_REGIONS;
        e->rank = t->number;
        e->bytes = (uint32_t)level;
    }
    e = new_event(UT_EVENT_REGION, o->since);
    if (!e)
        return;
    e->track = track;
    e->length = now - o->since;
    e->name = o->region->name;
    e->unfinished = unfinished;
}

void ut_region_flush(void)
{
    pthread_mutex_lock(&table.lock);
    if (table.slices.events && table.slices.num_events > 0)
        ut_trace_flush(&table.slices);
    pthread_mutex_unlock(&table.lock);
}

/*
 * The calls
 */

int ut_region_start(const char *name)
{
    int rc = UTOFU_SUCCESS, level = 0;

    pthread_mutex_lock(&table.lock);
    struct region_thread *t = this_thread();
    struct ut_stats_region *r = find_region(name);
    while (t && level < UT_REGION_DEPTH && t->level[level].region)
        level++;
    if (!t) {
        rc = UTOFU_ERR_OUT_OF_MEMORY;
    } else if (level == UT_REGION_DEPTH) {
        ut_warn("stats", "region '%s': this thread is inside %d regions already", name,
                UT_REGION_DEPTH);
        rc = UTOFU_ERR_FULL;
    } else if (!r && table.num_regions == UT_REGIONS_MAX) {
        ut_warn("stats", "region '%s': the program has %d other regions already", name,
                UT_REGIONS_MAX);
        rc = UTOFU_ERR_FULL;
    } else if (!r && !(r = make_region(name))) {
        rc = UTOFU_ERR_OUT_OF_MEMORY;
    } else {
        uint64_t now = ut_clock_ns();
        t->level[level] = (struct open_region){.region = r, .since = now};
        enter_region(r, now);
    }
    pthread_mutex_unlock(&table.lock);
    return rc;
}

int ut_region_stop(const char *name)
{
    int rc = UTOFU_ERR_NOT_FOUND, found = -1;

    pthread_mutex_lock(&table.lock);
    struct region_thread *t = this_thread();
    for (int i = 0; t && i < UT_REGION_DEPTH; i++) {
        /* the region that was started last, which may not be on the highest level */
        const struct open_region *o = &t->level[i];
        if (o->region && strcmp(o->region->name, name) == 0 &&
            (found < 0 || o->since >= t->level[found].since))
            found = i;
    }
    if (found >= 0) {
        struct ut_stats_region *r = t->level[found].region;
        uint64_t now = ut_clock_ns();
        if (--r->inside == 0)
            add_since(r, now);
        record_slice(t, found, now, false);
        t->level[found].region = NULL;
        rc = UTOFU_SUCCESS;
    }
    pthread_mutex_unlock(&table.lock);
    if (rc != UTOFU_SUCCESS)
        ut_warn("stats", "region '%s' is stopped by a thread that is not inside the region", name);
    return rc;
}

void ut_region_end_all(void)
{
    uint64_t now = ut_clock_ns();
    struct ut_stats_region *r;
    struct region_thread *t;

    pthread_mutex_lock(&table.lock);
    SLIST_FOREACH (t, &table.threads, next) {
        for (int i = 0; i < UT_REGION_DEPTH; i++) {
            if (!t->level[i].region)
                continue;
            record_slice(t, i, now, true);
            t->level[i].region = NULL;
        }
    }
    STAILQ_FOREACH (r, &table.regions, next) {
        if (r->inside == 0)
            continue;
        ut_warn("stats", "region '%s' is open at the end of the process: %u starts without a stop",
                r->name, r->inside);
        add_since(r, now);
        r->inside = 0;
    }
    pthread_mutex_unlock(&table.lock);
}

void ut_stats_region_for_each(void (*visit)(const struct ut_stats_region *region, void *arg),
                              void *arg)
{
    uint64_t now = ut_clock_ns();
    struct ut_stats_region *r;

    pthread_mutex_lock(&table.lock);
    STAILQ_FOREACH (r, &table.regions, next) {
        struct ut_stats_region copy = *r;
        if (r->inside > 0)
            add_since(&copy, now);
        visit(&copy, arg);
    }
    pthread_mutex_unlock(&table.lock);
}

struct place {
    FILE *out;
    uint32_t rank;
};

static void print_region(const struct ut_stats_region *r, void *arg)
{
    const struct place *p = arg;

    fprintf(p->out, "utofu: stats: [rank %u] region calls=%llu seconds=%s", p->rank,
            (unsigned long long)r->calls, ut_decimal(r->ns, 1000000000, 6).text);
    for (int i = 0; i < UT_COUNT_PEERS; i++) {
        if (ut_counters[i].total && r->counted[i])
            fprintf(p->out, " %s=%llu", ut_counters[i].total, (unsigned long long)r->counted[i]);
    }
    fprintf(p->out, " name=\"%s\"\n", r->name);
}

void ut_region_print(FILE *out, uint32_t rank)
{
    struct place p = {.out = out, .rank = rank};

    ut_stats_region_for_each(print_region, &p);
}
