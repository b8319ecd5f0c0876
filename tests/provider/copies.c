/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in order, instruction by instruction: this process steps through a copy, and looks at the
 * target after each instruction. x86 makes stores visible in the order of the program, so another
 * CPU sees no other states than these. And what each CPU is known to store, or to copy, at once.
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"

#if defined(__x86_64__)
#    include <cpuid.h>

/* A CPU that the test describes. */
static struct {
    uint32_t leaf, vendor, signature, features; /* the largest leaf; edx of leaf 7 */
    bool avx, avx2, avx512;
    int asked; /* times that __builtin_cpu_init() was called */
} cpu_now;

static int read_cpuid(unsigned int leaf, unsigned int *a, unsigned int *b, unsigned int *c,
                      unsigned int *d)
{
    *a = *b = *c = *d = 0;
    if (leaf == 0)
        *b = cpu_now.vendor;
    else if (leaf == 1)
        *a = cpu_now.signature;
    return leaf <= cpu_now.leaf && cpu_now.leaf != UINT32_MAX;
}

static int read_cpuid_count(unsigned int leaf, unsigned int count, unsigned int *a, unsigned int *b,
                            unsigned int *c, unsigned int *d)
{
    int is_there = read_cpuid(leaf, a, b, c, d);

    if (leaf == 7 && count == 0)
        *d = cpu_now.features;
    return is_there;
}

static bool cpu_supports(const char *what)
{
    return strcmp(what, "avx") == 0    ? cpu_now.avx
           : strcmp(what, "avx2") == 0 ? cpu_now.avx2
                                       : strcmp(what, "avx512f") == 0 && cpu_now.avx512;
}

static bool really_has_avx(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx");
}

static bool really_has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

#    define __get_cpuid               read_cpuid
#    define __get_cpuid_count         read_cpuid_count
#    define __builtin_cpu_supports(x) cpu_supports(x)
#    define __builtin_cpu_init()      ((void)cpu_now.asked++)
/* The processor keeps stores in order anyway, and the compiler if they are releases. */
static unsigned int num_stores, num_releases;
#    define __atomic_store_n(at, value, order)                                                     \
        (num_stores++, num_releases += (order) == __ATOMIC_RELEASE,                                \
         __atomic_store_n(at, value, order))
#    include "../../provider/common/atomic_width.c"
#    include "../../provider/common/copy_ordered.c"
#    undef __builtin_cpu_supports
#    undef __atomic_store_n

/*
 * What CPUs do at once
 */

enum { FSRM = 1 << 4, HYBRID = 1 << 15, FP16 = 1 << 23, NO_VENDOR = 0x12345678 };

static const struct {
    const char *what;
    uint32_t vendor, family, model, features;
    int avx; /* 0: none, 1: AVX, 2: AVX2, 3: AVX-512 */
    uint8_t store, kernel;
} cpus[] = {
    {"Westmere", signature_INTEL_ebx, 6, 0x2c, 0, 0, 8, 8},
    {"Sandy Bridge", signature_INTEL_ebx, 6, 0x2a, 0, 1, 16, 8},
    {"Haswell", signature_INTEL_ebx, 6, 0x3c, 0, 2, 32, 8},
    {"Skylake-SP", signature_INTEL_ebx, 6, 0x55, 0, 3, 32, 8},
    {"Ice Lake", signature_INTEL_ebx, 6, 0x6a, FSRM, 3, 32, 8},
    {"Sapphire Rapids", signature_INTEL_ebx, 6, 0x8f, FSRM | FP16, 3, 32, 32},
    {"FP16 alone", signature_INTEL_ebx, 6, 0x8f, FP16, 3, 32, 8},
    {"the last large core", signature_INTEL_ebx, 6, 0xa6, 0, 2, 32, 8},
    {"a newer one", signature_INTEL_ebx, 6, 0xa7, 0, 2, 16, 8},
    {"Alder Lake", signature_INTEL_ebx, 6, 0x97, FSRM | HYBRID, 2, 16, 8},
    {"hybrid with AVX-512", signature_INTEL_ebx, 6, 0x97, FSRM | HYBRID, 3, 32, 8},
    {"another family of Intel's", signature_INTEL_ebx, 19, 0x01, FSRM | FP16, 2, 16, 8},
    {"and older ones", signature_INTEL_ebx, 5, 0x01, FSRM | FP16, 2, 16, 8},
    {"Excavator", signature_AMD_ebx, 0x15, 0x60, 0, 2, 16, 8},
    {"Zen", signature_AMD_ebx, 0x17, 0x01, 0, 2, 16, 8},
    {"the last before Zen 2", signature_AMD_ebx, 0x17, 0x2f, 0, 2, 16, 8},
    {"Zen 2", signature_AMD_ebx, 0x17, 0x30, 0, 2, 32, 8},
    {"between the families", signature_AMD_ebx, 0x18, 0x71, FSRM, 2, 16, 8},
    {"Zen 3", signature_AMD_ebx, 0x19, 0x01, FSRM, 2, 32, 32},
    {"Zen 3 without FSRM", signature_AMD_ebx, 0x19, 0x01, 0, 2, 32, 8},
    {"Zen 5", signature_AMD_ebx, 0x1a, 0x02, FSRM, 3, 32, 32},
    {"another vendor", NO_VENDOR, 6, 0x3c, FSRM | FP16, 2, 16, 8},
    {"another vendor with AVX-512", NO_VENDOR, 0x19, 1, FSRM | FP16, 3, 32, 8},
};

static void describe(size_t i)
{
    uint32_t family = cpus[i].family, model = cpus[i].model;

    memset(&cpu_now, 0, sizeof(cpu_now));
    cpu_now.leaf = 7;
    cpu_now.vendor = cpus[i].vendor;
    cpu_now.signature = (family < 15 ? family << 8 : 15u << 8 | (family - 15) << 20) |
                        (model & 15) << 4 | model >> 4 << 16 | 0xf000000f;
    cpu_now.signature &= ~0xf000f000u;
    cpu_now.features = cpus[i].features;
    cpu_now.avx = cpus[i].avx > 0;
    cpu_now.avx2 = cpus[i].avx > 1;
    cpu_now.avx512 = cpus[i].avx > 2;
}

static void cpus_are_known(void)
{
    for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
        describe(i);
        memset(&prov_atomic_widths, 0, sizeof(prov_atomic_widths));
        unsigned int store = prov_store_width();
        unsigned int kernel = prov_kernel_width();
        if (store != cpus[i].store || kernel != cpus[i].kernel)
            printf("%s: %u and %u\n", cpus[i].what, store, kernel);
        CHECK(store == cpus[i].store && kernel == cpus[i].kernel && cpu_now.asked == 1);
        memset(&prov_atomic_widths, 0, sizeof(prov_atomic_widths));
        CHECK(prov_kernel_width() == kernel && prov_store_width() == store);
        CHECK(cpu_now.asked == 2); /* once for both */
    }
    describe(5); /* a CPU that does not say more */
    cpu_now.leaf = 6;
    prov_detect_atomic_widths();
    CHECK(prov_atomic_widths.store == 32 && prov_atomic_widths.kernel == 8);
    describe(18);
    cpu_now.leaf = 0; /* the vendor is known, but no model */
    prov_detect_atomic_widths();
    CHECK(prov_atomic_widths.store == 16 && prov_atomic_widths.kernel == 8);
    describe(18);
    cpu_now.leaf = UINT32_MAX; /* nothing is known */
    prov_detect_atomic_widths();
    CHECK(prov_atomic_widths.store == 16 && prov_atomic_widths.kernel == 8);
}

/*
 * Step by step
 */

enum { MOST = 1100, LINES_OF_MOST = 8 };

static _Alignas(PROV_TOFU_LINE) uint8_t area[LINES_OF_MOST * PROV_TOFU_LINE], from[MOST + 64];
static uint8_t *to;
static const uint8_t *source;
static size_t length;
static unsigned int width;           /* of pieces; 0: none */
static size_t num_written, num_ends; /* bytes, and last bytes of lines, after the last step */
static volatile unsigned int steps, wrong_steps;

static bool is_written(size_t i)
{
    return to[i] == source[i];
}

/* All bytes, or none of them? */
static bool are_whole(size_t begin, size_t end)
{
    for (size_t i = begin + 1; i < end; i++)
        if (is_written(i) != is_written(begin))
            return false;
    return true;
}

static bool are_written(size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (!is_written(i))
            return false;
    return true;
}

static bool is_any_written(size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (is_written(i))
            return true;
    return false;
}

/* The last word of each line is written at once and behind the rest of the line, and lines in
 * order. */
static bool lines_are_in_order(void)
{
    for (size_t begin = 0, end; begin < length; begin = end) {
        uintptr_t behind = (((uintptr_t)to + begin) | (PROV_TOFU_LINE - 1)) + 1;
        end = behind - (uintptr_t)to < length ? behind - (uintptr_t)to : length;
        size_t word = ((uintptr_t)to + end) & -((uintptr_t)to + end);
        word = word > 8 ? 8 : word;
        size_t last = word < end - begin ? end - word : begin;
        bool is_a_word = end - last == word;
        if (is_a_word && !are_whole(last, end))
            return false;
        if (is_any_written(last, end) && !are_written(begin, last))
            return false;
        if (is_any_written(end, length) && !are_written(begin, end))
            return false;
    }
    return true;
}

/* A CPU may write more than 16 bytes of a store one after the other: so the last word of a line is
 * no part of such a store. */
static bool ends_are_written_apart(void)
{
    size_t before = num_written, ends_before = num_ends;

    num_written = num_ends = 0;
    for (size_t i = 0; i < length; i++) {
        bool is_end = i + 1 == length || ((uintptr_t)to + i + 1) % PROV_TOFU_LINE == 0;
        num_written += is_written(i);
        num_ends += is_end && is_written(i);
    }
    return num_ends == ends_before || num_written - before <= 16;
}

/* Each piece is written at once, and they in order. */
static bool pieces_are_in_order(void)
{
    size_t piece;

    for (size_t at = 0; at < length; at += piece) {
        piece = width;
        while (((uintptr_t)to + at) % piece != 0 || piece > length - at)
            piece /= 2;
        if (!are_whole(at, at + piece))
            return false;
        if (is_any_written(at + piece, length) && !are_written(at, at + piece))
            return false;
    }
    return true;
}

static void look(int signal)
{
    (void)signal;
    steps++;
    if (!(width ? pieces_are_in_order() : lines_are_in_order() && ends_are_written_apart()))
        wrong_steps++;
}

static inline __attribute__((always_inline)) void step_on(void)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                     "leaq 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static inline __attribute__((always_inline)) void step_off(void)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                     "leaq 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

typedef void copy_fn(void *to, const void *from, size_t size);

static void copy_by_sse(void *at, const void *bytes, size_t size)
{
    copy_sse(at, bytes, size);
}

static void step_through(copy_fn *copy, size_t at, size_t skew, size_t size, unsigned int pieces)
{
    to = area + PROV_TOFU_LINE + at;
    source = from + skew;
    length = size;
    width = pieces;
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)~source[i];
    to[-1] = to[size] = 0x5a;
    steps = wrong_steps = 0;
    num_written = num_ends = 0;
    step_on();
    copy(to, source, size);
    step_off();
    if (wrong_steps || !are_written(0, size))
        printf("%zu bytes at %zu, pieces of %u: wrong after %u of %u instructions\n", size, at,
               pieces, wrong_steps, steps);
    CHECK(wrong_steps == 0 && are_written(0, size) && steps > 0);
    CHECK(to[-1] == 0x5a && to[size] == 0x5a);
}

/* Copies within one line of the CPU, of whole words: in pieces of what is stored at once. */
static bool is_in_pieces(size_t at, size_t size)
{
    return at % 8 == 0 && size % 8 == 0 && size > 8 && at % 64 + size <= 64;
}

/* Each word that is stored at once may be what a reader polls. */
static void words_are_released(void)
{
    static const struct {
        size_t at, size;
        unsigned int width, stores;
    } cases[] = {{0, 1, 16, 1}, {2, 2, 16, 1},   {4, 4, 16, 1},  {8, 8, 16, 1},
                 {3, 8, 16, 1}, {8, 24, 16, 1},  {8, 32, 16, 2}, {0, 24, 16, 1},
                 {0, 24, 8, 1}, {16, 32, 16, 0}, {0, 256, 8, 1}, {8, 256, 8, 2}};
    uint64_t word = 3;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prov_atomic_widths.store = (uint8_t)cases[i].width;
        num_stores = num_releases = 0;
        prov_copy_ordered(area + PROV_TOFU_LINE + cases[i].at, from, cases[i].size);
        if (num_stores != cases[i].stores)
            printf("%zu bytes at %zu: %u words\n", cases[i].size, cases[i].at, num_stores);
        CHECK(num_stores == cases[i].stores && num_releases == num_stores);
    }
    num_stores = num_releases = 0;
    copy_sse(area, from, (size_t)3 * PROV_TOFU_LINE);
    CHECK(num_stores == 6 && num_releases == 6);
    prov_move_word(area, &word);
    CHECK(num_stores == 7 && num_releases == 7 && area[0] == 3);
}

static void single_words_are_known(void)
{
    for (size_t at = 0; at <= 16; at++)
        for (size_t size = 0; size <= 17; size++)
            CHECK(prov_is_word(area + at, size) == (at % 8 == 0 && size == 8));
}

static void copies_are_in_order(void)
{
    static const size_t places[] = {0, 1, 4, 8, 24, 32, 40, 63, 250};
    static const size_t sizes[] = {72, 127, 248, 256, 257, 513, 768};
    const unsigned int most = really_has_avx2() ? 32 : 16;

    cpu_now.avx = really_has_avx();
    for (unsigned int w = 8; w <= most && (w == 8 || cpu_now.avx); w *= 2) {
        prov_atomic_widths.store = (uint8_t)w;
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            for (size_t size = 1; size <= 64;
                 size += size < 18 || size % 8 == 0 || size % 8 == 7 ? 1 : 3)
                step_through(prov_copy_ordered, places[i], size % 5, size,
                             w > 8 && is_in_pieces(places[i], size) ? w : 0);
            for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]) && w < 32; k++)
                step_through(prov_copy_ordered, places[i], k % 9, sizes[k], 0);
        }
    }
    for (size_t size = PROV_TOFU_LINE; size <= 4 * PROV_TOFU_LINE; size += PROV_TOFU_LINE) {
        step_through(copy_by_sse, 0, 3, size, 0);
        step_through(prov_copy_lines, 0, 3, size, 0);
    }
    for (size_t size = 1; size <= 64; size++) /* words alone may be written in any order */
        for (size_t i = 0; i < size; i += 3) {
            memset(area, 0xee, 256);
            prov_copy_words(area + 8 + i, from, size);
            CHECK(memcmp(area + 8 + i, from, size) == 0 && area[7 + i] == 0xee);
            CHECK(area[8 + i + size] == 0xee);
        }
}

/* The test itself: a copy from the end to the beginning is in no order, and one of single bytes
 * writes no word at once. */
static void copy_backwards(void *at, const void *bytes, size_t size)
{
    for (size_t i = size; i-- > 0;)
        ((volatile uint8_t *)at)[i] = ((const uint8_t *)bytes)[i];
}

static void copy_bytes(void *at, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((volatile uint8_t *)at)[i] = ((const uint8_t *)bytes)[i];
}

static void wrong_copies_are_seen(void)
{
    copy_fn *const wrong[] = {copy_backwards, copy_bytes};

    for (size_t i = 0; i < 2; i++)
        for (unsigned int pieces = 0; pieces <= 16; pieces += 16) {
            to = area + PROV_TOFU_LINE;
            source = from;
            length = 32;
            width = pieces;
            memset(to, 0xff, 32);
            for (size_t k = 0; k < 32; k++)
                to[k] = (uint8_t)~source[k];
            wrong_steps = 0;
            step_on();
            wrong[i](to, source, 32);
            step_off();
            CHECK(wrong_steps > 0);
        }
}

/* Overlapping ranges are copied as by memmove(); no bytes are. */
static void overlapping_ranges_are_moved(void)
{
    uint8_t wanted[512];

    for (size_t size = 0; size <= 300; size += size < 70 ? 1 : 23) {
        for (int by = -80; by <= 80; by += by % 8 == 0 ? 1 : 7) {
            for (size_t i = 0; i < sizeof(wanted); i++)
                wanted[i] = area[i] = (uint8_t)(i * 7 + i / 256);
            memmove(wanted + 100 + by, wanted + 100, size);
            prov_copy_ordered(area + 100 + by, area + 100, size);
            CHECK(memcmp(area, wanted, sizeof(wanted)) == 0);
        }
    }
    CHECK(ranges_overlap(area + 8, area, 9) && !ranges_overlap(area + 8, area, 8));
    CHECK(ranges_overlap(area, area + 8, 9) && !ranges_overlap(area, area + 8, 8));
    CHECK(ranges_overlap(area, area, 1) && !ranges_overlap(area, area + 1, 1));
}

int main(void)
{
    struct sigaction action = {.sa_handler = look};

    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 11 + i / 256);
    cpus_are_known();
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    wrong_copies_are_seen();
    copies_are_in_order();
    words_are_released();
    single_words_are_known();
    overlapping_ranges_are_moved();
    return 0;
}

#else

int main(void)
{
    printf("skipped: only x86 steps through its own instructions\n");
    return 77;
}

#endif
