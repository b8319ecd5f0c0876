/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: utofu-trace gets arbitrary files. Two files, cut at the first zero byte, are
 * merged into /dev/null; its messages and exit status do not matter.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static jmp_buf end;
enum { FILES = 4 };
static FILE *open_files[FILES];

static FILE *note_file(FILE *file)
{
    for (int i = 0; file && i < FILES; i++) {
        if (open_files[i])
            continue;
        open_files[i] = file;
        return file;
    }
    return file;
}

static FILE *open_tracked(const char *path, const char *mode)
{
    return note_file(fopen(path, mode));
}

static FILE *fdopen_tracked(int fd, const char *mode)
{
    return note_file(fdopen(fd, mode));
}

static int close_tracked(FILE *file)
{
    for (int i = 0; i < FILES; i++)
        if (open_files[i] == file)
            open_files[i] = NULL;
    return fclose(file);
}

#include "kept.h"

#define fopen        open_tracked
#define fdopen       fdopen_tracked
#define fclose       close_tracked
#define free         forget /* including memory of jansson */
#define exit(status) longjmp(end, 1 + (status))
#define main         trace_main
#include "../../tools/utofu-trace.c"
#undef main
#undef exit
#undef fopen
#undef fdopen
#undef fclose
#undef free

#include "fuzz.h"

/* Not once for each input. */
void tool_output_open(const char *tool)
{
    (void)tool;
}

void tool_output_begun(const char *path)
{
    (void)path;
}

void tool_output_failed(int error)
{
    (void)error;
}

static int files[2], null;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    json_set_alloc_funcs(keep, forget);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++)
        files[i] = memfd_create("fuzz", MFD_CLOEXEC);
    return null >= 0 && files[1] >= 0 ? 0 : -1;
}

static void fill(int fd, const uint8_t *bytes, size_t size)
{
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        abort();
}

static void clean_up(void)
{
    for (int i = 0; i < FILES; i++)
        if (open_files[i])
            close_tracked(open_files[i]);
    for (int i = 0; inputs && i < num_inputs; i++)
        free(inputs[i].job);
    free(inputs);
    if (clocks)
        tr_clocks_free(clocks, num_hosts);
    free(clocks);
    free(hosts);
    free(arrows.table);
    inputs = NULL;
    hosts = NULL;
    clocks = NULL;
    num_hosts = 0;
    arrows = (struct tr_arrows){0};
    begun = false;
    forget_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cut = size ? memchr(data, '\0', size) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size;
    char paths[2][32], name[] = "utofu-trace", o[] = "-o", to[] = "/dev/null";
    char *args[] = {name, o, to, paths[0], cut ? paths[1] : NULL, NULL};

    fill(files[0], data, first);
    if (cut)
        fill(files[1], cut + 1, size - first - 1);
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", files[i]);
    optind = 0; /* restart */
    if (setjmp(end) == 0 && trace_main(cut ? 5 : 4, args) == 0) {
        inputs = NULL; /* already freed */
        hosts = NULL;
        clocks = NULL;
        arrows.table = NULL;
    }
    clean_up();
    return 0;
}
