/* SPDX-License-Identifier: Apache-2.0 */
/* The table generated from the lines of providers.h. */
#include "providers.h"

const struct prov_entry prov_registry[PROV_COUNT] = {
#define PROVIDER(name_, number_, reach_, needs_)                                                   \
    [PROV_INDEX_##name_] = {.name = #name_,                                                        \
                            .ops = &name_##_provider,                                              \
                            .number = number_,                                                     \
                            .reach = reach_,                                                       \
                            .needs = needs_},
    PROV_REGISTRY(PROVIDER)
#undef PROVIDER
};

/* Two providers with the same number would be two members with the same name. */
struct numbers_are_different {
#define PROVIDER(name, number, reach, needs)                                                       \
    _Static_assert((number) > 0 && (number) <= UINT8_MAX, "one byte, and 0 is nobody's");          \
    char number_##number;
    PROV_REGISTRY(PROVIDER)
#undef PROVIDER
};
