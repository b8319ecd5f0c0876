/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error. */
#include "log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <utofu.h>

enum { LINE = 2048 };

/* Writes the line with one call, so that lines of several processes do not mix. */
void lc_vlog(const char *layer, int rank, const char *format, va_list args)
{
    char line[LINE];
    int start = rank < 0 ? snprintf(line, sizeof(line), "%s: ", layer)
                         : snprintf(line, sizeof(line), "%s: [rank %d] ", layer, rank);
    int rest = vsnprintf(line + start, sizeof(line) - (size_t)start - 1, format, args);
    size_t length = strlen(line);

    if (rest < 0)
        return;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* the line is lost */
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog(layer, rank, format, args);
    va_end(args);
}

const char *lc_get_last_error(char *text)
{
    text[0] = '\0';
    utofu_get_last_error(text);
    return text;
}

void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    if (rc != UTOFU_SUCCESS)
        lc_log(layer, rank, "%s: %s", call, lc_utofu_error());
}
