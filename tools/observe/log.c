/* SPDX-License-Identifier: Apache-2.0 */
/* Also what the sources that are shared with the library log. */
#include "observe/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "util/log.h"
#include "util/write.h"

enum { LINE_SIZE = 1024 };

int ut_log_threshold = UT_LOG_WARNING;

static void write_line(const char *head, const char *format, va_list ap)
{
    char line[LINE_SIZE];
    int n = snprintf(line, sizeof(line), "%s[rank %u] ", head, ob_config.rank);
    int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);

    n += more < (int)sizeof(line) - n - 1 ? more : (int)sizeof(line) - n - 2;
    line[n++] = '\n';
    ut_write_all(STDERR_FILENO, line, (size_t)n);
}

void ut_log_write(enum ut_log_level level, const char *category, const char *format, ...)
{
    va_list ap;

    (void)level;
    (void)category;
    va_start(ap, format);
    write_line("utofu: observe: ", format, ap);
    va_end(ap);
}

void ob_say(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    write_line("utofu: observe: ", format, ap);
    va_end(ap);
}

void ob_dump_line(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    write_line("utofu: dump: ", format, ap);
    va_end(ap);
}
