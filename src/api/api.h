/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of this room needs. The functions check their arguments, and leave the rest to
 * the rooms below.
 */
#ifndef UT_API_API_H
#define UT_API_API_H

#include <stdint.h>

#include "utofu.h"
#include "utofu_profile.h"

#include "ident/ident.h"
#include "process/process.h"
#include "util/log.h"
#include "vcq/vcq.h"

/* Each function is defined under its profiling name; the plain name is a weak alias, so that a tool
 * can put its own in front. */
#define UT_PUBLIC(name) extern __typeof__(name) name __attribute__((weak, alias("p" #name)))
/* Of a function that lies with the others of the way of a put. */
#define UT_PUBLIC_HOT(name)                                                                        \
    extern __typeof__(name) name __attribute__((weak, hot, alias("p" #name)))

/* A bad argument: remembered for utofu_get_last_error(), shown from log level warning on. */
#define UT_REFUSE(rc, ...)                                                                         \
    ({                                                                                             \
        ut_warn("api", __VA_ARGS__);                                                               \
        (rc);                                                                                      \
    })

#endif
