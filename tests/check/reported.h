/* SPDX-License-Identifier: Apache-2.0 */
/* What processes under UTOFU_CHECK have reported. */
#ifndef UT_TEST_REPORTED_H
#define UT_TEST_REPORTED_H

#include <stdbool.h>
#include <string.h>

#include "harness.h"

/* Is this what follows "[rank N] " of a report with the id (NULL: of any)? The line of the sums
 * begins with a number there. */
static inline bool is_finding(const char *what, const char *id)
{
    if (*what >= '0' && *what <= '9')
        return false;
    return !id || (strncmp(what, id, strlen(id)) == 0 && what[strlen(id)] == ':');
}

/* The reports in the outputs of `n` processes with the id (NULL: any). */
static inline int num_findings(const struct ut_outcome out[], int n, const char *id)
{
    int found = 0;

    for (int r = 0; r < n; r++)
        for (const char *at = out[r].output; (at = strstr(at, "utofu: check: [rank ")) != NULL;
             at++) {
            const char *what = strstr(at, "] ");
            found += what && is_finding(what + 2, id);
        }
    return found;
}

#endif
