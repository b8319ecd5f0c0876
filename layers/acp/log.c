/* SPDX-License-Identifier: Apache-2.0 */
/* The fatal error. */
#include "log.h"

#include <unistd.h>

void al_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog("acp", al.job.log_rank, format, args);
    va_end(args);
    if (al.running)
        al.up->broadcast_end(al.job.rank);
    _exit(1);
}
