/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view: peer memory that this process's CPU reaches by itself. Whoever holds the endpoint's lock
 * may load and store through it instead of calling the provider, as long as every earlier
 * operation of the connection has been reported.
 */
#ifndef PROV_VIEW_H
#define PROV_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What an adapter would read and write by itself: the program orders its own accesses by what it is
 * told, maybe by another process, so a race detector must not look at ours. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void prov_unwatched_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void prov_unwatched_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void prov_unwatched_begin(void)
{
}
static inline void prov_unwatched_end(void)
{
}
#endif

/* The piece of a region that was used last, of those that allow every access. The provider fills it
 * and takes it back, inside calls for the endpoint or the connection only. */
struct prov_mapping {
    uint32_t key;         /* the region's */
    const uint64_t *word; /* it is good as long as this says `valid` */
    uint64_t valid;
    uint64_t base, size; /* addresses of its owner; size 0: there is none */
    uint64_t delta;      /* from the owner's addresses to ours */
};

/* [at, at + size) of the owner's addresses as addresses of this process, if all of it is in the
 * view and that is good; else NULL. */
static inline __attribute__((always_inline)) uint8_t *prov_view_at(const struct prov_mapping *view,
                                                                   uint32_t key, uint64_t at,
                                                                   uint32_t size)
{
    uint64_t offset = at - view->base;

    __asm__("" : "+r"(offset)); /* is not to be calculated anew, with the base in a register */
    if (__builtin_expect(key == view->key && offset < view->size && size <= view->size - offset &&
                             __atomic_load_n(view->word, __ATOMIC_ACQUIRE) == view->valid,
                         1))
        return (uint8_t *)(uintptr_t)(at + view->delta);
    return NULL;
}

/* One word in one store, as most puts are. */
static inline bool prov_is_word(const void *to, size_t length)
{
    return length == 8 && ((uintptr_t)to & 7) == 0;
}

static inline void prov_move_word(void *to, const void *from)
{
    uint64_t word;

    prov_unwatched_begin();
    memcpy(&word, from, sizeof(word));
    __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    prov_unwatched_end();
}

#endif
