/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of a layer, zeroed, in whole pages. It is registered as long as it is open. */
#ifndef LC_MEMORY_H
#define LC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <utofu.h>

#include "job.h"

#pragma GCC visibility push(hidden)

enum { LC_ANY_STAG = -1 };

struct lc_memory {
    const struct lc_job *job;
    utofu_vcq_hdl_t vcq;
    size_t size;
    const char *what; /* for messages, e.g. "buffers" */
    int stag; /* reserved STag, so that peers compute the STADD from the VCQ id; or LC_ANY_STAG */
    unsigned long int flags;
    void *start; /* NULL: not open */
    utofu_stadd_t stadd;
};

/* Opens the memory that the struct describes. False after a log line. */
bool lc_memory_open(struct lc_memory *memory);
void lc_memory_close(struct lc_memory *memory);

#pragma GCC visibility pop

#endif
