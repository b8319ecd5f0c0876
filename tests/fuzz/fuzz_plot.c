/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the files that utofu-perf --plot draws have arbitrary content. The commands for
 * gnuplot go to /dev/null; no name in them may end its quotes.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "../../tools/perf/plot.c"

#include "fuzz.h"
#include "fuzz_party.h"
#include "kept.h"

static const struct perf_op ops[] = {{.name = "put-lat"}, {.name = "put-bw", .windowed = true}};
const struct perf_op *perf_ops = ops;
unsigned int perf_num_ops = 2;

static int file;

void tool_output_begun(const char *path)
{
    (void)path; /* not written */
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    json_set_alloc_funcs(keep, forget);
    file = memfd_create("fuzz", MFD_CLOEXEC);
    return file >= 0 ? 0 : -1;
}

/* Text of the file cannot end its quotes. */
static void check_names(void)
{
    for (unsigned int r = 0; r < num_runs; r++)
        if (strpbrk(labels[r], "'\"\\`$\n"))
            abort();
    for (unsigned int i = 0; i < num_rows; i++)
        if (strpbrk(rows[i].operation, "'\"\\`$\n"))
            abort();
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
    num_runs = num_rows = 0;
    forget_all();
    return 0;
}
