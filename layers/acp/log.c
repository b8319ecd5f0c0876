/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines on standard error: "acp: [rank 2] what is wrong, and what to do". The rank is that of
 * acp_rank(); before acp_init() that of the launcher.
 */
#include "layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2048 };

/* One write, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list args)
{
    char line[LINE];
    uint32_t rank = al.running ? al.rank : al.job_rank;
    int start = snprintf(line, sizeof(line), "acp: [rank %u] ", rank);
    int rest = vsnprintf(line + start, sizeof(line) - (size_t)start - 1, format, args);
    size_t length = strlen(line);

    if (rest < 0)
        return;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* nowhere to say it */
}

void al_log(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

const char *al_utofu_error(void)
{
    static _Thread_local char text[1024];

    text[0] = '\0';
    utofu_get_last_error(text);
    return text;
}

void al_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
    al_watch_tell(al.rank);
    _exit(1);
}
