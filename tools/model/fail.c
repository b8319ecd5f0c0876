/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void print_line(const char *what, const char *fmt, va_list ap)
{
    fputs("utofu-model: ", stderr);
    fputs(what, stderr);
    vfprintf(stderr, fmt, ap);
}

void um_fail(int status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print_line("", fmt, ap);
    va_end(ap);
    fputs(status == UM_EXIT_USAGE ? "; try utofu-model --help\n" : "\n", stderr);
    exit(status);
}

void um_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print_line("warning: ", fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void *um_calloc(size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size);

    if (!memory)
        um_fail(UM_EXIT_BAD, "no memory for %zu elements of %zu bytes", n, size);
    return memory;
}

void *um_grow(void *array, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return array;
    size_t more = *room ? *room * 2 : 16;
    void *bigger = realloc(array, more * size);
    if (!bigger)
        um_fail(UM_EXIT_BAD, "no memory for %zu elements of %zu bytes", more, size);
    *room = more;
    return bigger;
}
