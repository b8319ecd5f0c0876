/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a peer that is mapped in this process. The holder of the endpoint's lock may load from
 * it and store to it instead of calling the provider, as long as every earlier operation of the
 * connection has been reported.
 */
#ifndef PROV_MAPPED_H
#define PROV_MAPPED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* These accesses replace an adapter's DMA. The program orders its own accesses by notices, possibly
 * through another process, which ThreadSanitizer does not see: so it ignores these accesses. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void prov_tsan_ignore_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void prov_tsan_ignore_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void prov_tsan_ignore_begin(void)
{
}
static inline void prov_tsan_ignore_end(void)
{
}
#endif

/* The part of a region that was used last, if the region allows all accesses. The provider fills
 * and clears the structure, only inside calls for the endpoint or the connection. */
struct prov_mapping {
    uint32_t key; /* key of the region */
    const uint64_t
        *state; /* of the region, in its owner's process: changes when that deregisters it */
    uint64_t valid_state; /* the mapping is valid while *state equals this */
    uint64_t base, size;  /* addresses in the owner's process; size 0: no mapping */
    uint64_t delta;       /* add to an owner's address for the address in this process */
};

/* True if all of [at, at + size), addresses in the owner's process, is mapped and the mapping is
 * valid. */
static inline __attribute__((always_inline)) bool prov_is_mapped(const struct prov_mapping *m,
                                                                 uint32_t key, uint64_t at,
                                                                 uint32_t size)
{
    uint64_t offset = at - m->base;

    return __builtin_expect(key == m->key && offset < m->size && offset + size <= m->size &&
                                __atomic_load_n(m->state, __ATOMIC_ACQUIRE) == m->valid_state,
                            1);
}

/* Returns the address in this process; NULL: not mapped. */
static inline __attribute__((always_inline)) uint8_t *prov_mapped_at(const struct prov_mapping *m,
                                                                     uint32_t key, uint64_t at,
                                                                     uint32_t size)
{
    return prov_is_mapped(m, key, at, size) ? (uint8_t *)(uintptr_t)(at + m->delta) : NULL;
}

/* True if a single 8-byte load or store can move the data, as of most puts. */
static inline bool prov_is_word(const void *to, size_t length)
{
    return length == 8 && ((uintptr_t)to & 7) == 0;
}

static inline void prov_move_word(void *to, const void *from)
{
    uint64_t word;

    prov_tsan_ignore_begin();
    memcpy(&word, from, sizeof(word));
    __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    prov_tsan_ignore_end();
}

#endif
