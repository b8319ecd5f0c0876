/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardware barrier of A64FX, which no other CPU has: fhwb_init() says so, and a program that
 * goes on with its own barrier then runs here. fhwb_sync() without one ends the program, as going
 * on would let threads run ahead.
 */
#ifndef UTOFU_COMPAT_FUJITSU_HPC_EXT_H
#define UTOFU_COMPAT_FUJITSU_HPC_EXT_H

#ifndef _GNU_SOURCE
#    error "define _GNU_SOURCE before the first header: fhwb_init() takes a cpu_set_t"
#endif

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static inline int fhwb_init(size_t size, cpu_set_t *cpus)
{
    (void)size;
    (void)cpus;
    return -ENODEV;
}

static inline int fhwb_fini(int barrier)
{
    (void)barrier;
    return -EINVAL;
}

static inline int fhwb_assign(int barrier, int window)
{
    (void)barrier;
    (void)window;
    return -EINVAL;
}

static inline int fhwb_unassign(int barrier)
{
    (void)barrier;
    return -EINVAL;
}

static inline void fhwb_sync(int window)
{
    fprintf(stderr, "fhwb_sync(%d): this CPU has no hardware barrier, as fhwb_init() said\n",
            window);
    abort();
}

#endif
