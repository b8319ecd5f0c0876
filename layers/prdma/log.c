/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: "prdma: [rank 2] message", with the rank in MPI_COMM_WORLD. */
#include "layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2048 };

struct pr_log pr_log = {.rank = -1};

/* Writes the line with one call, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list args)
{
    char line[LINE];
    int start = pr_log.rank < 0 ? snprintf(line, sizeof(line), "prdma: ")
                                : snprintf(line, sizeof(line), "prdma: [rank %d] ", pr_log.rank);
    int rest = vsnprintf(line + start, sizeof(line) - (size_t)start - 1, format, args);
    size_t length = strlen(line);

    if (rest < 0)
        return;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* there is no other place to report it */
}

void pr_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void pr_info(const char *format, ...)
{
    va_list args;

    if (!pr_log.info)
        return;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

const char *pr_utofu_error(void)
{
    static _Thread_local char text[1024];

    text[0] = '\0';
    utofu_get_last_error(text);
    return text;
}

void pr_expect(int rc, const char *call)
{
    if (rc != UTOFU_SUCCESS)
        pr_warn("%s: %s", call, pr_utofu_error());
}
