/* SPDX-License-Identifier: Apache-2.0 */
/* Records of UTOFU_STATS=job, and the printed summary. */
#include "stats/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/decimal.h"
#include "util/env.h"
#include "util/file.h"
#include "util/log.h"
#include "util/write.h"
#include "stats/region.h"

enum {
    CELL_MICROSECONDS = UT_NUM_COUNTERS, /* time since the first call, or in the region */
    CELL_CALLS,                          /* number of calls of a region */
    NUM_CELLS,
    MISSING_SHOWN = 16,
};

struct cell {
    uint64_t sum, min, max;
    uint32_t min_rank, max_rank;
};

/* Sent unchanged, because all processes of a job have the same layout. */
struct section {
    char name[UT_REGION_NAME_MAX + 1]; /* empty: the whole program */
    uint64_t ranks;                    /* number of ranks that reported it */
    struct cell cell[NUM_CELLS];
};

struct ut_record {
    uint32_t size, reported;
    uint8_t *present; /* one bit per rank */
    struct section *sections;
    uint32_t num_sections;
};

/* The header of the packed form. The bits and the sections follow. */
struct packed {
    uint32_t size, num_sections, section_size, zero;
};

static size_t bit_bytes(uint32_t size)
{
    return ((size_t)size + 63) / 64 * 8;
}

struct ut_record *ut_record_new(uint32_t size)
{
    struct ut_record *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->size = size;
    r->present = calloc(1, bit_bytes(size));
    if (r->present)
        return r;
    free(r);
    return NULL;
}

void ut_record_free(struct ut_record *r)
{
    free(r->present);
    free(r->sections);
    free(r);
}

static struct section *find_section(struct ut_record *r, const char *name)
{
    for (uint32_t i = 0; i < r->num_sections; i++) {
        if (strcmp(r->sections[i].name, name) == 0)
            return &r->sections[i];
    }
    struct section *more = realloc(r->sections, (r->num_sections + 1) * sizeof(*r->sections));
    if (!more)
        return NULL;
    r->sections = more;
    struct section *s = &r->sections[r->num_sections++];
    memset(s, 0, sizeof(*s));
    memcpy(s->name, name, strnlen(name, UT_REGION_NAME_MAX));
    return s;
}

static void merge_section(struct section *into, const struct section *s)
{
    for (int i = 0; i < NUM_CELLS; i++) {
        struct cell *a = &into->cell[i];
        const struct cell *b = &s->cell[i];
        if (into->ranks == 0) {
            *a = *b;
            continue;
        }
        a->sum += b->sum;
        /* of equal values the lowest rank wins, so that the order of merging does not matter */
        if (b->min < a->min || (b->min == a->min && b->min_rank < a->min_rank)) {
            a->min = b->min;
            a->min_rank = b->min_rank;
        }
        if (b->max > a->max || (b->max == a->max && b->max_rank < a->max_rank)) {
            a->max = b->max;
            a->max_rank = b->max_rank;
        }
    }
    into->ranks += s->ranks;
}

bool ut_record_merge(struct ut_record *r, const void *bytes, size_t size)
{
    const struct packed *p = bytes;
    const uint8_t *bits = (const uint8_t *)(p + 1);
    size_t n = bit_bytes(r->size);

    if (size < sizeof(*p) || p->size != r->size || p->section_size != sizeof(struct section) ||
        p->num_sections > UT_REGIONS_MAX * 64 ||
        size != sizeof(*p) + n + (size_t)p->num_sections * sizeof(struct section))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (r->present[i] & bits[i])
            return false;
    }
    const struct section *sections = (const struct section *)(bits + n);
    for (uint32_t i = 0; i < p->num_sections; i++) {
        struct section *into =
            sections[i].name[UT_REGION_NAME_MAX] ? NULL : find_section(r, sections[i].name);
        if (into)
            merge_section(into, &sections[i]);
    }
    for (size_t i = 0; i < n; i++) {
        r->present[i] |= bits[i];
        r->reported += (uint32_t)__builtin_popcount(bits[i]);
    }
    return true;
}

void *ut_record_pack(const struct ut_record *r, size_t *size)
{
    size_t n = bit_bytes(r->size), m = (size_t)r->num_sections * sizeof(*r->sections);
    struct packed *p = calloc(1, sizeof(*p) + n + m);

    if (!p)
        return NULL;
    *p = (struct packed){
        .size = r->size, .num_sections = r->num_sections, .section_size = sizeof(*r->sections)};
    memcpy(p + 1, r->present, n);
    if (m)
        memcpy((uint8_t *)(p + 1) + n, r->sections, m);
    *size = sizeof(*p) + n + m;
    return p;
}

bool ut_record_complete(const struct ut_record *r)
{
    return r->reported == r->size;
}

/*
 * The record of this process
 */

struct own {
    struct ut_record *record;
    uint32_t rank;
};

static void set_cells(struct section *s, uint32_t rank, const uint64_t totals[UT_NUM_COUNTERS],
                      uint64_t ns, uint64_t calls)
{
    s->ranks = 1;
    for (int i = 0; i < NUM_CELLS; i++) {
        uint64_t n = i == CELL_MICROSECONDS ? ns / 1000 : i == CELL_CALLS ? calls : totals[i];
        s->cell[i] = (struct cell){n, n, n, rank, rank};
    }
}

static void add_region(const struct ut_stats_region *region, void *arg)
{
    const struct own *own = arg;
    struct section *s = find_section(own->record, region->name);

    if (s)
        set_cells(s, own->rank, region->counted, region->ns, region->calls);
}

void *ut_record_own(const struct ut_job_info *job, uint64_t opened_at, size_t *size)
{
    struct own own = {.record = ut_record_new(job->size), .rank = job->rank};
    struct section *s = own.record ? find_section(own.record, "") : NULL;
    uint64_t totals[UT_NUM_COUNTERS];
    void *bytes = NULL;

    if (s) {
        ut_stats_totals(totals);
        set_cells(s, job->rank, totals, ut_clock_ns() - opened_at, 0);
        ut_stats_region_for_each(add_region, &own);
        own.record->present[job->rank / 8] = (uint8_t)(1u << job->rank % 8);
        bytes = ut_record_pack(own.record, size);
    }
    if (own.record)
        ut_record_free(own.record);
    return bytes;
}

/*
 * The summary
 */

/* NULL: the counter is not in the summary. */
static const char *cell_name(int i)
{
    return i == CELL_MICROSECONDS ? "elapsed_us" : i == CELL_CALLS ? "calls" : ut_counters[i].total;
}

/* Is a sum meaningful? Not for high-water marks. */
static bool adds_up(int i)
{
    return i < UT_COUNT_PEERS || i >= UT_NUM_COUNTERS;
}

static bool is_missing(const struct ut_record *r, uint32_t rank)
{
    return !(r->present[rank / 8] >> rank % 8 & 1);
}

/* Prints the first missing ranks: "3, 7, 8" and so on. */
static void print_missing(FILE *out, const struct ut_record *r)
{
    uint32_t shown = 0, missing = r->size - r->reported;

    for (uint32_t rank = 0; rank < r->size && shown < MISSING_SHOWN; rank++) {
        if (is_missing(r, rank))
            fprintf(out, "%s%u", shown++ ? ", " : "", rank);
    }
    if (missing > shown)
        fprintf(out, ", ...");
}

static void print_cells(FILE *out, const struct section *s)
{
    fprintf(out, "utofu: stats:   %-18s %16s %16s %6s %18s %16s %6s\n", "counter", "total", "least",
            "rank", "mean", "most", "rank");
    for (int i = 0; i < NUM_CELLS; i++) {
        const struct cell *c = &s->cell[i];
        char total[24] = "-";
        if (c->max == 0 || !cell_name(i))
            continue;
        if (adds_up(i))
            snprintf(total, sizeof(total), "%llu", (unsigned long long)c->sum);
        fprintf(out, "utofu: stats:   %-18s %16s %16llu %6u %18s %16llu %6u\n", cell_name(i), total,
                (unsigned long long)c->min, c->min_rank, ut_decimal(c->sum, s->ranks, 1).text,
                (unsigned long long)c->max, c->max_rank);
    }
}

static void print_text(FILE *out, const struct ut_record *r)
{
    fprintf(out, "utofu: stats: summary of %u of %u ranks", r->reported, r->size);
    if (r->reported < r->size) {
        fprintf(out, "; %u missing: ", r->size - r->reported);
        print_missing(out, r);
    }
    fputc('\n', out);
    for (uint32_t i = 0; i < r->num_sections; i++) {
        if (r->sections[i].name[0])
            fprintf(out, "utofu: stats: region \"%s\" of %llu ranks\n", r->sections[i].name,
                    (unsigned long long)r->sections[i].ranks);
        print_cells(out, &r->sections[i]);
    }
}

static void print_json_cells(FILE *out, const struct section *s)
{
    fprintf(out, "\"ranks\":%llu,\"counters\":{", (unsigned long long)s->ranks);
    for (int i = 0, n = 0; i < NUM_CELLS; i++) {
        const struct cell *c = &s->cell[i];
        if ((i == CELL_CALLS && !s->name[0]) || !cell_name(i))
            continue;
        if (s->name[0] && !adds_up(i))
            continue;
        fprintf(out, "%s\n  \"%s\":{", n++ ? "," : "", cell_name(i));
        if (adds_up(i))
            fprintf(out, "\"total\":%llu,", (unsigned long long)c->sum);
        fprintf(out, "\"least\":%llu,\"least_rank\":%u,\"mean\":%s,\"most\":%llu,\"most_rank\":%u}",
                (unsigned long long)c->min, c->min_rank, ut_decimal(c->sum, s->ranks, 3).text,
                (unsigned long long)c->max, c->max_rank);
    }
    fprintf(out, "}");
}

static void print_json(FILE *out, const struct ut_record *r)
{
    fprintf(out, "{\"size\":%u,\"reported\":%u,\"missing\":[", r->size, r->reported);
    for (uint32_t rank = 0, n = 0; rank < r->size; rank++) {
        if (is_missing(r, rank))
            fprintf(out, "%s%u", n++ ? "," : "", rank);
    }
    fprintf(out, "],\n");
    for (uint32_t i = 0, n = 0; i < r->num_sections; i++) {
        const struct section *s = &r->sections[i];
        if (!s->name[0]) {
            print_json_cells(out, s);
            fprintf(out, ",\n\"regions\":[");
            continue;
        }
        fprintf(out, "%s\n{\"name\":\"%s\",", n++ ? "," : "", s->name);
        print_json_cells(out, s);
        fprintf(out, "}");
    }
    fprintf(out, "]}\n");
}

static int open_file(uint32_t rank)
{
    const char *path = ut_env_str(UT_ENV_STATS_FILE);

    if (!*path || rank != 0)
        return STDERR_FILENO;
    /* O_NONBLOCK, because exit must not wait for the reader of a FIFO */
    int fd = ut_file_open_output(path, O_TRUNC | O_NONBLOCK, NULL);
    if (fd >= 0)
        return fd;
    ut_error("stats", "file=%s of UTOFU_STATS: %s; the summary follows here", path,
             fd == -ELOOP ? "a symbolic link of another user" : strerror(-fd));
    return STDERR_FILENO;
}

void ut_record_print(const struct ut_record *r, uint32_t rank)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out || r->num_sections == 0)
        return;
    if (rank != 0)
        ut_warn("stats",
                "rank 0 has ended: the counters of rank %u and of the ranks below it follow", rank);
    if (ut_env_num(UT_ENV_STATS) == UT_STATS_JOB_JSON)
        print_json(out, r);
    else
        print_text(out, r);
    if (fclose(out) == 0) {
        int fd = open_file(rank);
        int error = ut_write_all(fd, text, size);
        if (error)
            ut_error("stats", "the summary of UTOFU_STATS is not complete: %s", strerror(error));
        if (fd != STDERR_FILENO)
            close(fd);
    }
    free(text);
}
