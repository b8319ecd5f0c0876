/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the files that utofu-perf --plot draws are anything. What gnuplot would be told
 * goes to /dev/null, but for what it must never be told: a name that ends its quotes.
 */
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../../tools/perf/plot.c"

#include "fuzz.h"

static jmp_buf end;

void party_fail(int status, const char *fmt, ...)
{
    (void)fmt;
    longjmp(end, 1 + status);
}

void party_usage_error(const char *program, const char *fmt, ...)
{
    (void)program, (void)fmt;
    longjmp(end, 1);
}

const struct perf_op perf_ops[] = {{.name = "put-lat"}, {.name = "put-bw", .windowed = true}};
const unsigned int perf_num_ops = 2;

enum { KEPT_MAX = 1 << 16 };
static void *kept[KEPT_MAX];
static size_t num_kept;

static void *keep(size_t size)
{
    void *memory = num_kept < KEPT_MAX ? malloc(size) : NULL;

    if (memory)
        kept[num_kept++] = memory;
    return memory;
}

static void forget(void *memory)
{
    for (size_t i = num_kept; memory && i-- > 0;) {
        if (kept[i] != memory)
            continue;
        kept[i] = kept[--num_kept];
        free(memory);
        return;
    }
}

static int file;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    json_set_alloc_funcs(keep, forget);
    file = memfd_create("fuzz", MFD_CLOEXEC);
    return file >= 0 ? 0 : -1;
}

/* The text that the file brought with it cannot leave its quotes. */
static void check_names(void)
{
    for (unsigned int r = 0; r < num_runs; r++) {
        if (strpbrk(runs[r].label, "'\"\\`$\n"))
            abort();
        for (unsigned int i = 0; i < runs[r].num_rows; i++)
            if (strpbrk(runs[r].rows[i].operation, "'\"\\`$\n"))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];

    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    FILE *g = fopen("/dev/null", "w");
    if (setjmp(end) == 0) {
        read_run(path);
        check_names();
        draw(g, "svg");
    }
    fclose(g);
    for (unsigned int r = 0; r < MAX_RUNS; r++) {
        free(runs[r].rows);
        runs[r] = (struct run){0};
    }
    num_runs = 0;
    while (num_kept > 0)
        free(kept[--num_kept]);
    return 0;
}
