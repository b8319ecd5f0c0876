/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the program a recorded call was made: the return addresses on the stack, from the call
 * of the library outwards. The stack is unwound once for each way to a call; later calls by the
 * same way are recognised by the return addresses at their places on the stack, some ten loads.
 * Belief: a stack is not freed and replaced by a smaller one at the same address, of which those
 * places would lie outside (stacks of coroutines).
 * Without an unwinder (libgcc_s, loaded when a recording opens) all calls are of the unknown site.
 * Uses util.
 */
#ifndef UT_RECORD_SITE_H
#define UT_RECORD_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash_table.h"

enum { UT_SITE_FRAMES = 8 /* maximum, of the program */ };

struct ut_site {
    struct ut_hash_entry by_frames;
    struct ut_site *next; /* the site that followed this one the last time */
    uint32_t index;       /* 0: unknown */
    uint32_t num;         /* of the frames */
    bool written;         /* to the recording */
    uint64_t frames[UT_SITE_FRAMES];
};

/* Functions of the ABI, as _Unwind_Backtrace(). libtofucom does not depend on libgcc_s. */
struct ut_unwinder {
    int (*walk)(int (*trace)(void *context, void *arg), void *arg); /* NULL: no unwinder */
    uintptr_t (*ip_of)(void *context), (*cfa_of)(void *context);
    uintptr_t own_begin, own_end; /* this library, whose frames are left out */
};

/* The sites of a thread. */
struct ut_sites {
    const struct ut_unwinder *unwinder;
    struct ut_hash_table sites, paths; /* paths: private to site.c, by stack pointer */
    struct ut_site unknown;            /* index 0 */
    struct ut_site *last;              /* of the last recorded call */
};

/* Loads the unwinder. Called once, when a recording opens. */
void ut_unwinder_open(struct ut_unwinder *unwinder);

void ut_sites_init(struct ut_sites *sites, const struct ut_unwinder *unwinder);
void ut_sites_free(struct ut_sites *sites);

/* The site of the call that is being recorded. `frame`: the frame address of the caller. *walked:
 * the stack was unwound, which takes some microseconds. */
struct ut_site *ut_site_find(struct ut_sites *sites, uintptr_t frame, bool *walked);

#endif
