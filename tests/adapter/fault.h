/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: activates a fault of the software adapter. */
#ifndef ADAPTER_FAULT_H
#define ADAPTER_FAULT_H

#include "proto.h"

#include <dlfcn.h>
#include <stdbool.h>

/* The function of the preloaded library; NULL: this is not the software adapter. */
static inline int (*adapter_fault_function(void))(uint32_t, uint32_t)
{
    return (int (*)(uint32_t, uint32_t))dlsym(RTLD_DEFAULT, "adapter_fault");
}

/* False: there is no software adapter, or no such fault. */
static inline bool adapter_fault_set(enum ad_fault what, uint32_t count)
{
    int (*set)(uint32_t, uint32_t) = adapter_fault_function();

    return set && set(what, count) == 0;
}

#endif
