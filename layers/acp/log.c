/* SPDX-License-Identifier: Apache-2.0 */
/* Messages. The rank is that of acp_rank(); before acp_init() that of the launcher. */
#include "log.h"
#include "ctx.h"

#include <unistd.h>

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list args)
{
    lc_log("acp", al.running ? al.rank : al.job_rank, format, args);
}

void al_log(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void al_expect(int rc, const char *call)
{
    if (rc != UTOFU_SUCCESS)
        al_log("%s: %s", call, al_utofu_error());
}

void al_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
    if (al.running)
        al.up->job_ends(al.rank);
    _exit(1);
}
