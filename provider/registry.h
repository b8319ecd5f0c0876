/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the providers of this build, by enum prov_index, in order of preference. */
#ifndef PROV_REGISTRY_H
#define PROV_REGISTRY_H

#include <stdint.h>

#include "providers.h"

struct prov_entry {
    const char *name;
    const struct prov_ops *ops;
    uint8_t number; /* between processes */
    enum prov_reach reach;
    const char *needs;
};

extern const struct prov_entry prov_registry[PROV_COUNT];

#endif
