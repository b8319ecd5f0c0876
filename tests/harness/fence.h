/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory with a page behind each block that nobody may touch, and that is gone once the block is
 * freed: a read or write beyond a block or of a freed one ends the program. A new block has no
 * zeros. For tests that wrap the functions of allocation; a block of another origin is freed by
 * __real_free(). The sanitizers look at memory themselves.
 */
#ifndef UT_TEST_FENCE_H
#define UT_TEST_FENCE_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FENCE_PAGE = 4096, FENCE_FILL = 0xa5, FENCE_MOST_FILLED = 1 << 20 };

struct fence {
    uintptr_t base;
    uint64_t size; /* and above it FENCE_MAGIC */
};

static const uint64_t FENCE_MAGIC = 0xfe9ceull << 44;

void *__real_malloc(size_t size);
void __real_free(void *at);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FENCE_IS_ON = 0 };
#else
enum { FENCE_IS_ON = 1 };
#endif

/* As malloc(), with the block's end at the fence as far as the alignment allows it: a power of 2.
 */
static inline void *fence_aligned(size_t alignment, size_t size)
{
    size_t data =
        (size + alignment + sizeof(struct fence) + FENCE_PAGE - 1) / FENCE_PAGE * FENCE_PAGE;
    long base;

    if (size >= 1ull << 44)
        return NULL;
    base = syscall(SYS_mmap, NULL, data + FENCE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    if (base == -1)
        return NULL;
    syscall(SYS_mprotect, base + (long)data, (size_t)FENCE_PAGE, PROT_NONE);
    uintptr_t at = ((uintptr_t)base + data - size) & ~(uintptr_t)(alignment - 1);
    struct fence f = {(uintptr_t)base, size | FENCE_MAGIC};
    memcpy((void *)(at - sizeof(f)), &f, sizeof(f));
    if (size <= FENCE_MOST_FILLED)
        memset((void *)at, FENCE_FILL, (uintptr_t)base + data - at);
    return (void *)at;
}

static inline void *fence_malloc(size_t size)
{
    if (!FENCE_IS_ON)
        return __real_malloc(size);
    return fence_aligned(size >= 16 ? 16 : size >= 8 ? 8 : size >= 4 ? 4 : 1, size);
}

static inline void *fence_calloc(size_t count, size_t size)
{
    void *at = size && count > SIZE_MAX / size ? NULL : fence_malloc(count * size);

    return at ? memset(at, 0, count * size) : NULL;
}

/* The fence of a block; its size is 0 if there is none. */
static inline struct fence fence_of(const void *at)
{
    struct fence f = {0};

    if (FENCE_IS_ON)
        memcpy(&f, (const void *)((uintptr_t)at - sizeof(f)), sizeof(f));
    if ((f.size & ~((1ull << 44) - 1)) != FENCE_MAGIC || f.base % FENCE_PAGE != 0)
        return (struct fence){0};
    return f;
}

static inline void fence_free(void *at)
{
    if (!at)
        return;
    struct fence f = fence_of(at);
    if (!f.base) {
        __real_free(at);
        return;
    }
    size_t size = f.size & ((1ull << 44) - 1);
    uintptr_t end = ((uintptr_t)at + size + FENCE_PAGE - 1) / FENCE_PAGE * FENCE_PAGE;
    for (uintptr_t behind = (uintptr_t)at + size; size <= FENCE_MOST_FILLED && behind < end;
         behind++)
        if (*(unsigned char *)behind != FENCE_FILL)
            abort(); /* written behind the block */
    syscall(SYS_munmap, f.base, end + FENCE_PAGE - f.base);
}

static inline void *fence_realloc(void *at, size_t size)
{
    void *to = fence_malloc(size);

    if (to && at) {
        struct fence f = fence_of(at);
        size_t before = f.base ? f.size & ((1ull << 44) - 1) : malloc_usable_size(at);
        memcpy(to, at, before < size ? before : size);
        fence_free(at);
    }
    return to;
}

#endif
