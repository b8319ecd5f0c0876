/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a layer that is registered as long as it is there: zero, in whole pages. */
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
    const char *what; /* for messages: "buffers" */
    int stag;         /* reserved, so that the STADD follows from the VCQ id; or LC_ANY_STAG */
    unsigned long int flags;
    void *at; /* once it is open */
    utofu_stadd_t stadd;
};

/* What is wanted is in the struct. false: a line says why. */
bool lc_memory_open(struct lc_memory *memory);
void lc_memory_close(struct lc_memory *memory);

#pragma GCC visibility pop

#endif
