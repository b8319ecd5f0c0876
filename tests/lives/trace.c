/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls allocated the memory that a life leaves behind: a library to be preloaded into a
 * program of lives.h. At the end it prints the stacks of which more blocks are allocated than after
 * the first tenth of the lives; what glibc keeps of freed memory is not among them.
 *
 *     LD_PRELOAD=liblives_trace.so UT_LIVES=1000 test_lives -j1 --filter lives/vcq
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BLOCKS = 1 << 21, /* entries of the tables, open addressing */
    STACKS = 1 << 14,
    DEPTH = 16,
    OWN_FRAMES = 2, /* of this library */
    PRINTED = 12,
    BOOT = 1 << 16, /* bytes for dlsym(), which allocates */
};

struct block {
    uintptr_t at; /* 0: never used; 1: freed */
    size_t size;
    uint32_t stack;
};

struct stack {
    void *frames[DEPTH];
    int depth; /* 0: none */
    long blocks, bytes, marked_blocks, marked_bytes;
};

static struct block blocks[BLOCKS];
static struct stack stacks[STACKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool is_inside;

#pragma GCC visibility push(default)
void lives_trace_mark(const char *name, int rank);
void lives_trace_print(const char *name, int rank);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *at, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **at, size_t alignment, size_t size);
void free(void *at);
#pragma GCC visibility pop

static void *(*real_malloc)(size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);
static int (*real_memalign)(void **, size_t, size_t);
static void *(*real_aligned)(size_t, size_t);
static uint8_t boot[BOOT] __attribute__((aligned(16)));
static size_t boot_used;

static void find_real(void)
{
    static bool is_finding;

    if (is_finding)
        return;
    is_finding = true;
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    real_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    real_aligned = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

static uint32_t hash_stack(void *const *frames, int depth)
{
    uint64_t h = 1;

    for (int i = 0; i < depth; i++)
        h = (h ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 40);
}

/* Called with the lock. */
static uint32_t find_stack(void *const *frames, int depth)
{
    uint32_t i = hash_stack(frames, depth) % STACKS;

    for (int tries = 0; tries < STACKS - 1; tries++, i = (i + 1) % STACKS) {
        if (stacks[i].depth == 0) {
            memcpy(stacks[i].frames, frames, (size_t)depth * sizeof(*frames));
            stacks[i].depth = depth;
            return i;
        }
        if (stacks[i].depth == depth &&
            memcmp(stacks[i].frames, frames, (size_t)depth * sizeof(*frames)) == 0)
            return i;
    }
    return i;
}

static uint32_t first_place(const void *at)
{
    return (uint32_t)((uintptr_t)at * 0x9e3779b97f4a7c15ull >> 40) % BLOCKS;
}

static void *note_block(void *at, size_t size)
{
    void *frames[DEPTH + OWN_FRAMES];

    if (!at || is_inside)
        return at;
    is_inside = true;
    int depth = backtrace(frames, DEPTH + OWN_FRAMES) - OWN_FRAMES;
    pthread_mutex_lock(&lock);
    uint32_t stack = find_stack(frames + OWN_FRAMES, depth > 0 ? depth : 1), i = first_place(at);
    while (blocks[i].at > 1)
        i = (i + 1) % BLOCKS;
    blocks[i] = (struct block){.at = (uintptr_t)at, .size = size, .stack = stack};
    stacks[stack].blocks++;
    stacks[stack].bytes += (long)size;
    pthread_mutex_unlock(&lock);
    is_inside = false;
    return at;
}

static void forget_block(const void *at)
{
    if (!at)
        return;
    pthread_mutex_lock(&lock);
    uint32_t i = first_place(at);
    while (blocks[i].at != 0 && blocks[i].at != (uintptr_t)at)
        i = (i + 1) % BLOCKS;
    if (blocks[i].at != 0) {
        stacks[blocks[i].stack].blocks--;
        stacks[blocks[i].stack].bytes -= (long)blocks[i].size;
        blocks[i].at = 1;
    }
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size)
{
    if (!real_malloc)
        find_real();
    if (!real_malloc) {
        uint8_t *at = boot + boot_used;
        boot_used += (size + 15) / 16 * 16;
        return boot_used <= BOOT ? at : NULL;
    }
    return note_block(real_malloc(size), size);
}

void *calloc(size_t count, size_t size)
{
    void *at = size && count > SIZE_MAX / size ? NULL : malloc(count * size);

    return at ? memset(at, 0, count * size) : NULL;
}

void free(void *at)
{
    if ((uintptr_t)at - (uintptr_t)boot < BOOT)
        return;
    forget_block(at);
    if (real_free)
        real_free(at);
}

void *realloc(void *at, size_t size)
{
    if (!real_realloc)
        find_real();
    forget_block(at);
    return note_block(real_realloc(at, size), size);
}

int posix_memalign(void **at, size_t alignment, size_t size)
{
    if (!real_memalign)
        find_real();
    int rc = real_memalign(at, alignment, size);

    if (rc == 0)
        note_block(*at, size);
    return rc;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    if (!real_aligned)
        find_real();
    return note_block(real_aligned(alignment, size), size);
}

/* Called by lives.h, after the first tenth of the lives. */
void lives_trace_mark(const char *name, int rank)
{
    (void)name, (void)rank;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STACKS; i++) {
        stacks[i].marked_blocks = stacks[i].blocks;
        stacks[i].marked_bytes = stacks[i].bytes;
    }
    pthread_mutex_unlock(&lock);
}

static long growth(const struct stack *s)
{
    return s->bytes - s->marked_bytes;
}

/* Called by lives.h, at the end. */
void lives_trace_print(const char *name, int rank)
{
    long total = 0;

    is_inside = true;
    for (int i = 0; i < STACKS; i++)
        total += growth(&stacks[i]);
    fprintf(stderr, "trace: %s, rank %d: %ld bytes more are allocated\n", name, rank, total);
    for (int n = 0; n < PRINTED; n++) {
        struct stack *most = &stacks[0];

        for (int i = 1; i < STACKS; i++)
            if (growth(&stacks[i]) > growth(most))
                most = &stacks[i];
        if (growth(most) <= 0)
            break;
        fprintf(stderr, "trace: %s, rank %d: %ld bytes more, %ld blocks, of\n", name, rank,
                growth(most), most->blocks - most->marked_blocks);
        backtrace_symbols_fd(most->frames, most->depth, STDERR_FILENO);
        most->marked_bytes = most->bytes;
    }
    is_inside = false;
}
