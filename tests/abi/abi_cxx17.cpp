/* SPDX-License-Identifier: Apache-2.0 */
/* The headers in C++17: C linkage for every function, and twins that are one function of one type.
 */
#include <utofu_profile.h>

#include <cstdio>
#include <type_traits>

#define X(name)                                                                                    \
    static_assert(std::is_same<decltype(utofu_##name), decltype(putofu_##name)>::value,            \
                  "utofu_" #name " and putofu_" #name " differ in type");
#include "function_list.h"
#undef X

static_assert(std::is_standard_layout<utofu_mrq_notice>::value, "the notice is a C structure");
static_assert(std::is_same<std::underlying_type<utofu_return_code>::type, int>::value,
              "return codes are int");

struct twins {
    const char *name;
    void (*utofu)();
    void (*putofu)();
};

static const twins all[] = {
#define X(name)                                                                                    \
    {#name, reinterpret_cast<void (*)()>(utofu_##name),                                            \
     reinterpret_cast<void (*)()>(putofu_##name)},
#include "function_list.h"
#undef X
};

int main()
{
    int failed = 0;

    for (const twins &t : all) {
        if (!t.utofu || t.utofu != t.putofu) {
            std::printf("utofu_%s and putofu_%s are not one function\n", t.name, t.name);
            failed = 1;
        }
    }
    return failed;
}
