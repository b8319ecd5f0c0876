/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fapp_start() and fapp_stop() of Fujitsu's profiler, as regions of UTOFU_STATS and UTOFU_TRACE
 * (utofu_ext.h). Region and number are one name: "halo.1", or "halo" with number 0. The level says
 * how detailed a measurement has to be for the region to count; here every level counts.
 */
#ifndef UTOFU_COMPAT_FAPP_H
#define UTOFU_COMPAT_FAPP_H

#include <stdio.h>

#include <utofu_ext.h>

/* NULL and names that are too long reach the library, which refuses them with a warning. */
static inline const char *utofu_compat_fapp_name(const char *name, int number, char *buf,
                                                 size_t size)
{
    if (!name || number == 0)
        return name;
    snprintf(buf, size, "%s.%d", name, number);
    return buf;
}

static inline void fapp_start(const char *name, int number, int level)
{
    char buf[UTOFU_PROFILE_NAME_MAX + 2];

    (void)level;
    (void)utofu_profile_start(utofu_compat_fapp_name(name, number, buf, sizeof(buf)));
}

static inline void fapp_stop(const char *name, int number, int level)
{
    char buf[UTOFU_PROFILE_NAME_MAX + 2];

    (void)level;
    (void)utofu_profile_stop(utofu_compat_fapp_name(name, number, buf, sizeof(buf)));
}

#endif
