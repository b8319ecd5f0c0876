/* SPDX-License-Identifier: Apache-2.0 */
/* Messages. */
#include "base.h"

void la_log(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_log("lapi", la.rank, format, args);
    va_end(args);
}

void la_expect(int rc, const char *call)
{
    if (rc != UTOFU_SUCCESS)
        la_log("%s: %s", call, lc_utofu_error());
}
