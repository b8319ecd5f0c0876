/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a walk, which a run has to give back: its allocations are counted, and may fail.
 * The program is linked with --wrap of these functions. To be included once.
 */
#ifndef UT_TEST_COUNTED_MEMORY_H
#define UT_TEST_COUNTED_MEMORY_H

#include <errno.h>
#include <stdlib.h>

#include "walk.h"

static unsigned int num_allocated, num_before;

/* Of the program: true, with errno, if an allocation fails. */
static bool lacks_memory(void);

static void *count_memory(void *memory)
{
    num_allocated += memory != NULL;
    return memory;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return count_memory(lacks_memory() ? NULL : __real_malloc(size));
}

void *__real_calloc(size_t num, size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_calloc(size_t num, size_t size)
{
    return count_memory(lacks_memory() ? NULL : __real_calloc(num, size));
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    num_allocated += memory == NULL;
    return __real_realloc(memory, size);
}

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    int rc = lacks_memory() ? ENOMEM : __real_posix_memalign(memory, alignment, size);

    num_allocated += rc == 0;
    return rc;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    num_allocated -= memory != NULL;
    __real_free(memory);
}

static void begin_counting(void)
{
    num_before = num_allocated;
}

/* At the end of a run. The first one leaves tables. */
static void check_memory_is_free(void)
{
    WALK_CHECK(num_allocated == num_before || num_before == 0);
}

#endif
