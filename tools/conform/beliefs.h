/* SPDX-License-Identifier: Apache-2.0 */
/* What utofu-verbs assumes of the real machine without a source. */
#ifndef CONFORM_BELIEFS_H
#define CONFORM_BELIEFS_H

#include <stddef.h>

struct cf_belief {
    const char *id;
    const char *assumed;   /* in one sentence */
    const char *used;      /* files or pages */
    const char *why;       /* why there is no source, and why we took this */
    const char *case_name; /* the case that would refute it */
    const char *expected;  /* an outcome ("holds"), or words that the case saw, all that it may see,
                              with '|' between */
};

extern const struct cf_belief cf_beliefs[];
extern const size_t cf_num_beliefs;

int cf_beliefs_print(void); /* as a page in Markdown; 0, or 1 if a belief has no case */
/* The belief of the case, from 'at' on; NULL: no more */
const struct cf_belief *cf_beliefs_of(const char *case_name, const struct cf_belief *behind);

#endif
