/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uTofu's put and get for the layer: before large ones, which move the pieces of data that both
 * tasks move, a function of the test is called. The function gives the other task time, or ends
 * this one.
 */
#ifndef LAPI_LARGE_H
#define LAPI_LARGE_H

#include <dlfcn.h>
#include <string.h>
#include <utofu.h>

enum { LARGE_PIECE = 256 << 10 };

static void (*_Atomic before_large_put)(void), (*_Atomic before_large_get)(void);

typedef int large_transfer(utofu_vcq_hdl_t, utofu_vcq_id_t, utofu_stadd_t, utofu_stadd_t, size_t,
                           uint64_t, unsigned long int, void *);

static inline large_transfer *large_real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    large_transfer *real;

    memcpy(&real, &symbol, sizeof(real));
    return real;
}

__attribute__((visibility("default"))) int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id,
                                                     utofu_stadd_t lcl, utofu_stadd_t rmt,
                                                     size_t size, uint64_t edata,
                                                     unsigned long int flags, void *cbdata)
{
    void (*before)(void) = before_large_put;

    if (before != NULL && size >= LARGE_PIECE)
        before();
    return large_real("utofu_put")(vcq, id, lcl, rmt, size, edata, flags, cbdata);
}

__attribute__((visibility("default"))) int utofu_get(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id,
                                                     utofu_stadd_t lcl, utofu_stadd_t rmt,
                                                     size_t size, uint64_t edata,
                                                     unsigned long int flags, void *cbdata)
{
    void (*before)(void) = before_large_get;

    if (before != NULL && size >= LARGE_PIECE)
        before();
    return large_real("utofu_get")(vcq, id, lcl, rmt, size, edata, flags, cbdata);
}

#endif
