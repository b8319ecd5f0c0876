/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of UTOFU_STATS=job: counters of processes that this test makes up are packed, merged
 * in any order, and printed.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "stats/counters.h"
#include "stats/record.h"
#include "stats/region.h"
#include "util/env.h"

static void remove_file(void);

TestSuite(record, .fini = remove_file);

enum { RANKS = 20, LONG_NS = 5000000 };

/* The counters of the process that is packed; the linker puts these functions in the place of the
 * library's (--wrap). */
static uint32_t rank;

void __wrap_ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS]);
void __wrap_ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS])
{
    memset(totals, 0, UT_NUM_COUNTERS * sizeof(*totals));
    totals[UT_COUNT_PUTS] = rank == 2 ? 50 : 10 + rank % 3; /* 10, 11, 50, 10, 11, 12... */
    totals[UT_COUNT_GETS] = 7;
    totals[UT_COUNT_MOST_IN_MRQ] = rank;
}

void __wrap_ut_stats_region_for_each(void (*act)(const struct ut_stats_region *, void *),
                                     void *arg);
void __wrap_ut_stats_region_for_each(void (*act)(const struct ut_stats_region *, void *), void *arg)
{
    struct ut_stats_region r = {.calls = 3 + rank, .ns = 2000 * (rank + 1)};

    snprintf(r.name, sizeof(r.name), "loop");
    r.counted[UT_COUNT_PUTS] = 5;
    act(&r, arg);
    if (rank != 1)
        return;
    snprintf(r.name, sizeof(r.name), "once");
    r.calls = 1;
    act(&r, arg);
}

uint64_t __wrap_ut_clock_ns(void);
uint64_t __wrap_ut_clock_ns(void)
{
    return LONG_NS + 1000 * (uint64_t)rank;
}

static void *pack_rank(uint32_t of, uint32_t size, size_t *bytes)
{
    struct ut_job_info job = {.rank = of, .size = size};

    rank = of;
    void *packed = ut_record_own(&job, 1000, bytes);
    cr_assert_not_null(packed);
    return packed;
}

static bool add_rank(struct ut_record *into, uint32_t of, uint32_t size)
{
    size_t bytes;
    void *packed = pack_rank(of, size, &bytes);
    bool added = ut_record_merge(into, packed, bytes);

    free(packed);
    return added;
}

static char printed[1 << 16], path[] = "/tmp/test_record.XXXXXX";

/* The environment is read once: text and JSON need a process each. */
static const char *print_as(const struct ut_record *r, const char *how)
{
    static int fd = -1;
    char value[100];

    if (fd < 0) {
        fd = mkstemp(path);
        cr_assert(fd >= 0);
        snprintf(value, sizeof(value), "%s,file=%s", how, path);
        setenv("UTOFU_STATS", value, 1);
        cr_assert_eq(ut_env_load(), 0);
    }
    ut_record_print(r, 0);
    ssize_t n = pread(fd, printed, sizeof(printed) - 1, 0);
    cr_assert(n >= 0);
    printed[n] = '\0';
    return printed;
}

static void remove_file(void)
{
    unlink(path);
}

/* The line of a counter in a part of the text, its words separated by one blank. */
static const char *line_of(const char *text, const char *name)
{
    static char line[300];
    char key[64];
    size_t n = 0;

    snprintf(key, sizeof(key), "stats:   %s ", name);
    const char *at = strstr(text, key);
    cr_assert_not_null(at, "no %s in %s", name, text);
    for (at += strlen("stats:   "); *at != '\n'; at++)
        if (*at != ' ' || (n && line[n - 1] != ' '))
            line[n++] = *at;
    line[n] = '\0';
    return line;
}

static struct ut_record *merge_all(uint32_t size, uint32_t step)
{
    struct ut_record *r = ut_record_new(size);

    for (uint32_t i = 0; i < size; i++) {
        cr_assert_eq(ut_record_complete(r), false);
        cr_assert(add_rank(r, (i * step) % size, size));
    }
    cr_assert(ut_record_complete(r));
    return r;
}

Test(record, totals_least_mean_and_most_of_all_ranks)
{
    struct ut_record *r = merge_all(RANKS, 1);
    const char *text = print_as(r, "job");

    cr_assert_not_null(strstr(text, "summary of 20 of 20 ranks\n"), "%s", text);
    cr_assert_str_eq(line_of(text, "puts"), "puts 257 10 0 12.9 50 2");
    cr_assert_str_eq(line_of(text, "gets"), "gets 140 7 0 7.0 7 0");
    cr_assert_str_eq(line_of(text, "elapsed_us"), "elapsed_us 100170 4999 0 5008.5 5018 19");
    cr_assert_str_eq(line_of(text, "most_in_mrq"), "most_in_mrq - 0 0 9.5 19 19");
    cr_assert_null(strstr(text, "armws"), "all 0");
    const char *loop = strstr(text, "region \"loop\" of 20 ranks\n");
    cr_assert_not_null(loop, "%s", text);
    cr_assert_str_eq(line_of(loop, "calls"), "calls 250 3 0 12.5 22 19");
    cr_assert_str_eq(line_of(loop, "puts"), "puts 100 5 0 5.0 5 0");
    cr_assert_not_null(strstr(text, "region \"once\" of 1 ranks\n"), "%s", text);
    cr_assert_null(strstr(text, "region \"\""));
    cr_assert_null(strstr(text, "missing"));
    ut_record_free(r);
}

/* A line of the table, as wide as the others. */
static char *append_cells(char *to, const char *name, const char *total, unsigned int least,
                          unsigned int least_rank, const char *mean, unsigned int most,
                          unsigned int most_rank)
{
    return to + sprintf(to, "utofu: stats:   %-18s %16s %16u %6u %18s %16u %6u\n", name, total,
                        least, least_rank, mean, most, most_rank);
}

static char *append_head(char *to)
{
    return to + sprintf(to, "utofu: stats:   %-18s %16s %16s %6s %18s %16s %6s\n", "counter",
                        "total", "least", "rank", "mean", "most", "rank");
}

Test(record, text_as_a_whole)
{
    char want[4000], *to = want;
    struct ut_record *r = merge_all(3, 1);

    to += sprintf(to, "utofu: stats: summary of 3 of 3 ranks\n");
    to = append_head(to);
    to = append_cells(to, "puts", "71", 10, 0, "23.7", 50, 2);
    to = append_cells(to, "gets", "21", 7, 0, "7.0", 7, 0);
    to = append_cells(to, "most_in_mrq", "-", 0, 0, "1.0", 2, 2);
    to = append_cells(to, "elapsed_us", "15000", 4999, 0, "5000.0", 5001, 2);
    to += sprintf(to, "utofu: stats: region \"loop\" of 3 ranks\n");
    to = append_head(to);
    to = append_cells(to, "puts", "15", 5, 0, "5.0", 5, 0);
    to = append_cells(to, "elapsed_us", "12", 2, 0, "4.0", 6, 2);
    to = append_cells(to, "calls", "12", 3, 0, "4.0", 5, 2);
    to += sprintf(to, "utofu: stats: region \"once\" of 1 ranks\n");
    to = append_head(to);
    to = append_cells(to, "puts", "5", 5, 1, "5.0", 5, 1);
    to = append_cells(to, "elapsed_us", "4", 4, 1, "4.0", 4, 1);
    append_cells(to, "calls", "1", 1, 1, "1.0", 1, 1);
    cr_assert_str_eq(print_as(r, "job"), want);
    ut_record_free(r);
}

/* total: 0: a counter without one */
static char *append_json(char *to, const char *name, unsigned int total, unsigned int least,
                         unsigned int least_rank, const char *mean, unsigned int most,
                         unsigned int most_rank, const char *behind)
{
    to += sprintf(to, "  \"%s\":{", name);
    if (total)
        to += sprintf(to, "\"total\":%u,", total);
    to += sprintf(to, "\"least\":%u,\"least_rank\":%u,\"mean\":%s,", least, least_rank, mean);
    return to + sprintf(to, "\"most\":%u,\"most_rank\":%u}%s\n", most, most_rank, behind);
}

/* Without the lines of counters that are 0. */
static const char *json_of(const struct ut_record *r)
{
    static char text[sizeof(printed)];
    char *to = text;

    for (const char *line = print_as(r, "job,json"), *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const char *zero = strstr(line, "\"most\":0,");
        if (!zero || zero > end)
            to += sprintf(to, "%.*s\n", (int)(end - line), line);
    }
    return text;
}

Test(record, json_as_a_whole)
{
    char want[4000], *to = want;
    struct ut_record *r = merge_all(3, 1);

    to += sprintf(to, "{\"size\":3,\"reported\":3,\"missing\":[],\n");
    to += sprintf(to, "\"ranks\":3,\"counters\":{\n");
    to = append_json(to, "puts", 71, 10, 0, "23.667", 50, 2, ",");
    to = append_json(to, "gets", 21, 7, 0, "7.000", 7, 0, ",");
    to = append_json(to, "most_in_mrq", 0, 0, 0, "1.000", 2, 2, ",");
    to = append_json(to, "elapsed_us", 15000, 4999, 0, "5000.000", 5001, 2, "},");
    to += sprintf(to, "\"regions\":[\n");
    to += sprintf(to, "{\"name\":\"loop\",\"ranks\":3,\"counters\":{\n");
    to = append_json(to, "puts", 15, 5, 0, "5.000", 5, 0, ",");
    to = append_json(to, "elapsed_us", 12, 2, 0, "4.000", 6, 2, ",");
    to = append_json(to, "calls", 12, 3, 0, "4.000", 5, 2, "}},");
    to += sprintf(to, "{\"name\":\"once\",\"ranks\":1,\"counters\":{\n");
    to = append_json(to, "puts", 5, 5, 1, "5.000", 5, 1, ",");
    to = append_json(to, "elapsed_us", 4, 4, 1, "4.000", 4, 1, ",");
    append_json(to, "calls", 1, 1, 1, "1.000", 1, 1, "}}]}");
    cr_assert_str_eq(json_of(r), want);
    ut_record_free(r);
}

Test(record, order_of_merging_does_not_matter)
{
    struct ut_record *one = merge_all(RANKS, 1), *other = merge_all(RANKS, 7);
    char *text = strdup(print_as(one, "job"));

    cr_assert_not_null(strstr(text, "puts"));
    const char *words[] = {"puts", "gets", "elapsed_us"};
    for (int i = 0; i < 3; i++) {
        char *line = strdup(line_of(text, words[i]));
        cr_assert_str_eq(line_of(print_as(other, "job"), words[i]), line);
        free(line);
    }
    ut_record_free(one);
    ut_record_free(other);
    free(text);
}

Test(record, merged_records_merge_again)
{
    struct ut_record *half = ut_record_new(4), *rest = ut_record_new(4);
    size_t size;

    cr_assert(add_rank(half, 0, 4) && add_rank(half, 1, 4));
    cr_assert(add_rank(rest, 2, 4) && add_rank(rest, 3, 4));
    void *packed = ut_record_pack(half, &size);
    cr_assert(ut_record_merge(rest, packed, size));
    cr_assert(ut_record_complete(rest));
    cr_assert_str_eq(line_of(print_as(rest, "job"), "puts"), "puts 81 10 0 20.3 50 2");
    cr_assert(!ut_record_merge(rest, packed, size), "these ranks are there");
    cr_assert(!add_rank(rest, 3, 4));
    free(packed);
    ut_record_free(half);
    ut_record_free(rest);
}

Test(record, missing_ranks_are_named)
{
    struct ut_record *r = ut_record_new(RANKS);

    cr_assert(add_rank(r, 19, RANKS));
    const char *text = print_as(r, "job");
    cr_assert_not_null(strstr(text, "summary of 1 of 20 ranks; 19 missing: 0, 1, 2, 3, 4, 5, 6, 7, "
                                    "8, 9, 10, 11, 12, 13, 14, 15, ...\n"),
                       "%s", text);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert(add_rank(r, i, RANKS));
    cr_assert_not_null(strstr(print_as(r, "job"), "; 16 missing: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
                                                  "13, 14, 15, 16, 17, 18\n"),
                       "%s", printed);
    ut_record_free(r);
}

Test(record, missing_ranks_are_in_json_too)
{
    struct ut_record *r = ut_record_new(9);

    for (uint32_t i = 0; i < 4; i++)
        cr_assert(add_rank(r, 2 * i, 9));
    cr_assert_not_null(
        strstr(print_as(r, "job,json"), "{\"size\":9,\"reported\":4,\"missing\":[1,3,5,7,8],\n"),
        "%s", printed);
    cr_assert(add_rank(r, 8, 9));
    cr_assert_not_null(
        strstr(print_as(r, "job,json"), "{\"size\":9,\"reported\":5,\"missing\":[1,3,5,7],\n"),
        "%s", printed);
    ut_record_free(r);
}

Test(record, json_has_the_same_numbers)
{
    struct ut_record *r = merge_all(4, 1);
    const char *text = print_as(r, "job,json");

    cr_assert_not_null(strstr(text, "{\"size\":4,\"reported\":4,\"missing\":[],\n\"ranks\":4,"
                                    "\"counters\":{"),
                       "%s", text);
    cr_assert_not_null(strstr(text, "\n  \"puts\":{\"total\":81,\"least\":10,\"least_rank\":0,"
                                    "\"mean\":20.250,\"most\":50,\"most_rank\":2}"),
                       "%s", text);
    cr_assert_not_null(strstr(text, "\"elapsed_us\":{\"total\":20002,\"least\":4999,"), "%s", text);
    cr_assert_not_null(strstr(text, "\n{\"name\":\"loop\",\"ranks\":4,"), "%s", text);
    const char *once = strstr(text, "},\n{\"name\":\"once\",\"ranks\":1,");
    cr_assert_not_null(once, "%s", text);
    cr_assert(strstr(text, "\"calls\":") > strstr(text, "\"name\":\"loop\""), "of regions alone");
    cr_assert_str_eq(text + strlen(text) - 4, "}]}\n");
    ut_record_free(r);
}

/* Bytes that another library has sent, or that are damaged. */
Test(record, damaged_records_are_refused)
{
    struct ut_record *r = ut_record_new(4);
    size_t size;
    uint8_t *good = pack_rank(1, 4, &size);
    uint32_t *word = (uint32_t *)(void *)good;

    cr_assert(!ut_record_merge(r, good, size - 1));
    cr_assert(!ut_record_merge(r, good, 15));
    cr_assert(!ut_record_merge(r, good, 0));
    for (unsigned int i = 0; i < 3; i++) { /* size of the job, number of parts, size of a part */
        word[i]++;
        cr_assert(!ut_record_merge(r, good, size), "%u", i);
        word[i]--;
    }
    cr_assert(ut_record_merge(r, good, size));
    cr_assert(!ut_record_merge(r, good, size), "a second time");
    free(good);
    ut_record_free(r);
}

Test(record, bits_of_ranks_are_rounded_up)
{
    static const uint32_t sizes[] = {1, 63, 64, 65};

    for (unsigned int i = 0; i < 4; i++) {
        struct ut_record *r = ut_record_new(sizes[i]);
        cr_assert(add_rank(r, sizes[i] - 1, sizes[i]));
        cr_assert_eq(ut_record_complete(r), sizes[i] == 1);
        ut_record_free(r);
    }
}

/* Times are counted in nanoseconds, added up in microseconds and printed in milliseconds; those of
 * regions are printed in seconds. */
Test(record, times_have_their_units)
{
    uint64_t n[UT_NUM_COUNTERS] = {0}, totals[UT_NUM_COUNTERS] = {0};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    n[UT_COUNT_BLOCKED] = 12345678;
    n[UT_COUNT_PUTS] = 4000;
    ut_counters_add(totals, n, UT_COUNTS_VCQ);
    cr_assert(totals[UT_COUNT_BLOCKED] == 12345 && totals[UT_COUNT_PUTS] == 4000);
    ut_counters_print(out, n, UT_COUNTS_VCQ);
    rank = 1;
    cr_assert_eq(ut_region_start("loop"), 0);
    rank = 2001;
    cr_assert_eq(ut_region_stop("loop"), 0);
    ut_region_print(out, 3);
    fclose(out);
    cr_assert_not_null(strstr(text, "=12.346"), "%s", text);
    cr_assert_not_null(strstr(text, "puts=4000"), "%s", text);
    cr_assert_not_null(strstr(text, "[rank 3] region calls=1 seconds=0.002000"), "%s", text);
    free(text);
}
