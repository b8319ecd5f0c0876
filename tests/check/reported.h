/* SPDX-License-Identifier: Apache-2.0 */
/* The reports of processes under UTOFU_CHECK. */
#ifndef UT_TEST_REPORTED_H
#define UT_TEST_REPORTED_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* Is this the text after "[rank N] " of a report with the id (NULL: any)? The line of the sums has
 * a number there. */
static inline bool is_finding(const char *what, const char *id)
{
    if (*what >= '0' && *what <= '9')
        return false;
    return !id || (strncmp(what, id, strlen(id)) == 0 && what[strlen(id)] == ':');
}

/* The reports in the outputs of `n` processes with the id (NULL: any); *rank (rank may be NULL) is
 * that of the first process with one. */
static inline int num_findings(const struct ut_outcome out[], int n, const char *id, int *rank)
{
    int found = 0;

    for (int r = n; r-- > 0;)
        for (const char *at = out[r].output; (at = strstr(at, "utofu: check: [rank ")) != NULL;
             at++) {
            const char *what = strstr(at, "] ");
            bool is = what && is_finding(what + 2, id);
            found += is;
            if (is && rank)
                *rank = r;
        }
    return found;
}

/* UT_CHECK_ONLY: only the program with this name. */
static inline bool is_chosen(const char *name)
{
    const char *only = getenv("UT_CHECK_ONLY");

    return !only || strcmp(only, name) == 0;
}

#endif
