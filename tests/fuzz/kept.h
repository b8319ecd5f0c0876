/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program does not free before its end: the target frees it at that point. */
#ifndef FUZZ_KEPT_H
#define FUZZ_KEPT_H

#include <stddef.h>
#include <stdlib.h>

enum { KEPT_MAX = 1 << 16 };
static void *kept[KEPT_MAX];
static size_t num_kept;

static void *keep(size_t size)
{
    void *memory = num_kept < KEPT_MAX ? malloc(size) : NULL;

    if (memory)
        kept[num_kept++] = memory;
    return memory;
}

/* Like free(), for any memory. */
static void forget(void *memory)
{
    for (size_t i = num_kept; memory && i-- > 0;) {
        if (kept[i] != memory)
            continue;
        kept[i] = kept[--num_kept];
        break;
    }
    free(memory);
}

static void forget_all(void)
{
    while (num_kept > 0)
        free(kept[--num_kept]);
}

#endif
