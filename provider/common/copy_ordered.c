/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_ordered.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#    include <immintrin.h>
#endif

#include "mapped.h"
#include "provider.h"
#include "atomic_width.h"

enum { LINE = PROV_TOFU_LINE, WORD = PROV_WORD };

/* Stores the last 1, 2, 4 or 8 naturally aligned bytes at once, after all earlier stores. */
static void store_word(void *to, const void *from, size_t size)
{
    uint64_t v8;
    uint32_t v4;
    uint16_t v2;

    switch (size) {
    case 8:
        memcpy(&v8, from, 8);
        __atomic_store_n((uint64_t *)to, v8, __ATOMIC_RELEASE);
        break;
    case 4:
        memcpy(&v4, from, 4);
        __atomic_store_n((uint32_t *)to, v4, __ATOMIC_RELEASE);
        break;
    case 2:
        memcpy(&v2, from, 2);
        __atomic_store_n((uint16_t *)to, v2, __ATOMIC_RELEASE);
        break;
    case 1:
        __atomic_store_n((uint8_t *)to, *(const uint8_t *)from, __ATOMIC_RELEASE);
        break;
    default: /* not a naturally aligned size: no reader polls a last word */
        memmove(to, from, size);
    }
}

static inline void order_stores(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Both ranges must have at least one byte. */
static inline bool ranges_overlap(const void *to, const void *from, size_t length)
{
    return (uintptr_t)to - (uintptr_t)from + length - 1 < 2 * length - 1;
}

#if defined(__x86_64__)
static inline void store_8(uint8_t *to, const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, 8);
    __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

static inline void store_16(uint8_t *to, const uint8_t *from)
{
    _mm_store_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    order_stores();
}

__attribute__((target("avx"))) static void store_32(uint8_t *to, const uint8_t *from)
{
    _mm256_store_si256((__m256i *)(void *)to,
                       _mm256_loadu_si256((const __m256i *)(const void *)from));
    order_stores();
}

/* Copies with one store for each piece of atomic_width.h. */
static __attribute__((noinline)) void store_pieces(uint8_t *to, const uint8_t *from, size_t size,
                                                   unsigned int width)
{
    const uint8_t *end = to + size;

    if ((uintptr_t)to & 8) {
        store_8(to, from);
        to += 8, from += 8;
    }
    if (((uintptr_t)to & 16) && end - to >= 16) {
        store_16(to, from);
        to += 16, from += 16;
    }
    for (; end - to >= 32; to += 32, from += 32) {
        if (__builtin_expect(width == 32, 1)) {
            store_32(to, from);
        } else {
            store_16(to, from);
            store_16(to + 16, from + 16);
        }
    }
    if ((end - to) & 16) {
        store_16(to, from);
        to += 16, from += 16;
    }
    if ((end - to) & 8)
        store_8(to, from);
}

#else
static void store_pieces(uint8_t *to, const uint8_t *from, size_t size, unsigned int width)
{
    (void)width; /* not reached: on this CPU only a word is known to become visible at once */
    memcpy(to, from, size);
}
#endif

/* Copies within one line: the last naturally aligned word after the rest. */
static inline void copy_in_line(uint8_t *to, const uint8_t *from, size_t size)
{
    uint64_t end = (uintptr_t)to + size;
    size_t word = (size_t)(end & -end);

    word = word > WORD ? WORD : word;
    if (word < size) {
        prov_copy_words(to, from, size - word);
        order_stores();
        store_word(to + (size - word), from + (size - word), word);
    } else {
        store_word(to, from, size);
    }
    order_stores();
}

static __attribute__((noinline)) void copy_one_line(uint8_t *to, const uint8_t *from, size_t size)
{
    copy_in_line(to, from, size);
}

/* Copies more than one line. */
static __attribute__((noinline)) void copy_lines(uint8_t *to, const uint8_t *from, size_t length)
{
    size_t first = -(uintptr_t)to & (LINE - 1); /* bytes up to the next line boundary */
    size_t whole = (length - first - 1) & ~(size_t)(LINE - 1);

    if (first > 0)
        copy_in_line(to, from, first);
    if (whole > 0)
        prov_copy_lines(to + first, from + first, whole);
    first += whole;
    copy_in_line(to + first, from + first, length - first);
}

static inline void copy_ordered(void *to, const void *from, size_t length)
{
    if (length == 0)
        return;
    if (ranges_overlap(to, from, length))
        memmove(to, from, length); /* overlapping ranges cannot be copied in pieces */
    else if (prov_needs_atomic_pieces((uintptr_t)to, length) && prov_store_width() > WORD)
        store_pieces(to, from, length, prov_store_width());
    else if (((uintptr_t)to & (LINE - 1)) + length <= LINE)
        copy_one_line(to, from, length);
    else
        copy_lines(to, from, length);
}

void prov_copy_ordered(void *to, const void *from, size_t length)
{
    prov_tsan_ignore_begin();
    copy_ordered(to, from, length);
    prov_tsan_ignore_end();
}

/*
 * x86 makes stores visible in program order, and an aligned store of up to 16 bytes at once if the
 * CPU has AVX. So ascending vector stores suffice, with the last 16 bytes of a line as a separate
 * store. On other CPUs a fence precedes and follows the last word of a line.
 *
 * "rep movsb" is faster if the lines are in the level-2 cache or in another core's cache: it
 * neither fetches the lines that it overwrites nor waits between lines. But its stores are not
 * ordered, and one "rep movsb" per line takes four times as long. Wider stores and prefetchw gain
 * nothing for large sizes: see docs/measurements/benchmarks.md.
 */

#if defined(__x86_64__)
#    include <immintrin.h>

#    define IN_ORDER() __asm__ volatile("" ::: "memory")

typedef void lines_fn(uint8_t *to, const uint8_t *from, size_t size);

__attribute__((target("avx"))) static void copy_avx(uint8_t *to, const uint8_t *from, size_t size)
{
#    define LOAD(i)     _mm256_loadu_si256((const __m256i *)(const void *)(from + 32 * (i)))
#    define STORE(i, v) (_mm256_store_si256((__m256i *)(void *)(to + 32 * (i)), v), (void)0)

    for (; size > 0; size -= PROV_TOFU_LINE, to += PROV_TOFU_LINE, from += PROV_TOFU_LINE) {
        __m256i a = LOAD(0), b = LOAD(1), c = LOAD(2), d = LOAD(3);
        __m256i e = LOAD(4), f = LOAD(5), g = LOAD(6), h = LOAD(7);
        STORE(0, a);
        IN_ORDER();
        STORE(1, b);
        IN_ORDER();
        STORE(2, c);
        IN_ORDER();
        STORE(3, d);
        IN_ORDER();
        STORE(4, e);
        IN_ORDER();
        STORE(5, f);
        IN_ORDER();
        STORE(6, g);
        IN_ORDER();
        _mm_store_si128((__m128i *)(void *)(to + 224), _mm256_castsi256_si128(h));
        IN_ORDER();
        _mm_store_si128((__m128i *)(void *)(to + 240), _mm256_extractf128_si256(h, 1));
        IN_ORDER();
    }
#    undef LOAD
#    undef STORE
}

static void copy_sse(uint8_t *to, const uint8_t *from, size_t size)
{
    for (; size > 0; size -= PROV_TOFU_LINE, to += PROV_TOFU_LINE, from += PROV_TOFU_LINE) {
        for (int i = 0; i < PROV_TOFU_LINE - 16; i += 16) {
            _mm_store_si128((__m128i *)(void *)(to + i),
                            _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
            IN_ORDER();
        }
        for (int i = PROV_TOFU_LINE - 16; i < PROV_TOFU_LINE; i += 8) {
            uint64_t word;
            memcpy(&word, from + i, 8);
            __atomic_store_n((uint64_t *)(void *)(to + i), word, __ATOMIC_RELEASE);
        }
        IN_ORDER();
    }
}

/* Concurrent threads select the same function. */
static lines_fn *select_copy(void)
{
    static lines_fn *selected;
    lines_fn *fn = __atomic_load_n(&selected, __ATOMIC_RELAXED);

    if (!fn) {
        fn = __builtin_cpu_supports("avx") ? copy_avx : copy_sse;
        __atomic_store_n(&selected, fn, __ATOMIC_RELAXED);
    }
    return fn;
}

void prov_copy_lines(void *to, const void *from, size_t size)
{
    select_copy()(to, from, size);
}

#else

void prov_copy_lines(void *to, const void *from, size_t size)
{
    uint8_t *dst = to;
    const uint8_t *src = from;

    for (; size > 0; size -= PROV_TOFU_LINE, dst += PROV_TOFU_LINE, src += PROV_TOFU_LINE) {
        prov_copy_words(dst, src, PROV_TOFU_LINE - 8);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        prov_copy_words(dst + PROV_TOFU_LINE - 8, src + PROV_TOFU_LINE - 8, 8);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

#endif
