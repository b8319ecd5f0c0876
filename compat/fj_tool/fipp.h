/* SPDX-License-Identifier: Apache-2.0 */
/* fipp_start() and fipp_stop() of Fujitsu's profiler: here the region "fipp" of utofu_ext.h. */
#ifndef UTOFU_COMPAT_FIPP_H
#define UTOFU_COMPAT_FIPP_H

#include <utofu_ext.h>

static inline void fipp_start(void)
{
    (void)utofu_profile_start("fipp");
}

static inline void fipp_stop(void)
{
    (void)utofu_profile_stop("fipp");
}

#endif
