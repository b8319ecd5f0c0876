/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a program, and memory that it has seen change, for machines without utofu_ext.h: the
 * same functions, in libutofu-observe. They are weak there, so that a library of utofu.h that has
 * them, too, may be linked beside it.
 */
#ifndef UTOFU_REGIONS_H
#define UTOFU_REGIONS_H

#include <stddef.h>

#include <utofu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins and ends a region: 1 to 63 bytes, no control characters, '"' or '\'. 0, or an error code
 * of utofu.h, which a program may ignore. */
int utofu_profile_start(const char *name);
int utofu_profile_stop(const char *name);
/* The program has seen that the bytes from `stadd` on have changed. */
int utofu_profile_seen(utofu_stadd_t stadd, size_t length);

#ifdef __cplusplus
}
#endif

#endif
