/* SPDX-License-Identifier: Apache-2.0 */
/* Sets options of UTOFU_VERBS_TUNE that a test program needs, beside those in its environment. */
#ifndef TESTS_PROVIDER_TUNE_H
#define TESTS_PROVIDER_TUNE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds an option, "sq_depth=63", unless the environment has one of this name. */
static inline void vt_tune(const char *option)
{
    const char *set = getenv("UTOFU_VERBS_TUNE");
    size_t length = strcspn(option, "=") + 1;
    char text[256];

    if (!set)
        set = "";
    for (const char *at = set; *at; at += *at == ',') {
        if (strncmp(at, option, length) == 0)
            return;
        at += strcspn(at, ",");
    }
    snprintf(text, sizeof(text), "%s%s%s", set, *set ? "," : "", option);
    setenv("UTOFU_VERBS_TUNE", text, 1);
}

#endif
