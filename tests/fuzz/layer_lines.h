/* SPDX-License-Identifier: Apache-2.0 */
/* What a target of a layer has instead of layers/common/log.c: lines are made, and go nowhere. */
#ifndef UT_FUZZ_LAYER_LINES_H
#define UT_FUZZ_LAYER_LINES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utofu.h>

#include "../../layers/common/log.h"

void lc_vlog(const char *layer, int rank, const char *format, va_list args)
{
    char text[2048];

    (void)layer, (void)rank;
    vsnprintf(text, sizeof(text), format, args);
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog(layer, rank, format, args);
    va_end(args);
}

/* Of what the layer gives to uTofu. What others have told it may be refused. */
void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    (void)layer, (void)rank;
    if (rc != UTOFU_SUCCESS && strcmp(call, "utofu_query_stadd") != 0)
        __builtin_trap();
}

const char *lc_get_last_error(char *text)
{
    return text;
}

#endif
