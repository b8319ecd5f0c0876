/* SPDX-License-Identifier: Apache-2.0 */
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
#include "copy_lines.h"

#include <stdint.h>
#include <string.h>

#include "provider.h"
#include "copy_words.h"

#if defined(__x86_64__)
#    include <immintrin.h>

#    define IN_ORDER() __asm__ volatile("" ::: "memory")

typedef void lines_fn(uint8_t *to, const uint8_t *from, size_t size);

__attribute__((target("avx"))) static void copy_avx(uint8_t *to, const uint8_t *from, size_t size)
{
#    define LOAD(i)     _mm256_loadu_si256((const __m256i *)(const void *)(from + 32 * (i)))
#    define STORE(i, v) (_mm256_store_si256((__m256i *)(void *)(to + 32 * (i)), v), (void)0)

    for (; size > 0; size -= PROV_LINE, to += PROV_LINE, from += PROV_LINE) {
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
    for (; size > 0; size -= PROV_LINE, to += PROV_LINE, from += PROV_LINE) {
        for (int i = 0; i < PROV_LINE - 16; i += 16) {
            _mm_store_si128((__m128i *)(void *)(to + i),
                            _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
            IN_ORDER();
        }
        for (int i = PROV_LINE - 16; i < PROV_LINE; i += 8) {
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

    for (; size > 0; size -= PROV_LINE, dst += PROV_LINE, src += PROV_LINE) {
        prov_copy_words(dst, src, PROV_LINE - 8);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        prov_copy_words(dst + PROV_LINE - 8, src + PROV_LINE - 8, 8);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

#endif
