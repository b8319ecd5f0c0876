/* SPDX-License-Identifier: Apache-2.0 */
#include "ordered.h"

#include <stdint.h>
#include <string.h>

#include "lines.h"
#include "mapped.h"
#include "provider.h"

enum { LINE = PROV_LINE, WORD = 8 };

/* The last, naturally aligned 1, 2, 4 or 8 bytes in one store behind all earlier ones. */
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
    default: /* less than the aligned word that it ends: there is no last word to poll */
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

/* Within one line: its last naturally aligned word behind all else. */
static inline void copy_in_line(uint8_t *to, const uint8_t *from, size_t size)
{
    uint64_t end = (uintptr_t)to + size;
    size_t word = (size_t)(end & -end);

    word = word > WORD ? WORD : word;
    if (word < size) {
        memcpy(to, from, size - word);
        order_stores();
        store_word(to + (size - word), from + (size - word), word);
    } else {
        store_word(to, from, size);
    }
    order_stores();
}

static void copy_ordered(void *to, const void *from, size_t length)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    size_t first = -(uintptr_t)to & (LINE - 1); /* as far as the next line begins */

    if (length == 0)
        return;
    if ((uintptr_t)to - (uintptr_t)from < length || (uintptr_t)from - (uintptr_t)to < length) {
        memmove(to, from, length); /* an overlapping copy cannot be made piece by piece */
        return;
    }
    if (first < length) {
        size_t whole = (length - first - 1) & ~(size_t)(LINE - 1);
        if (first > 0)
            copy_in_line(dst, src, first);
        prov_copy_lines(dst + first, src + first, whole);
        dst += first + whole;
        src += first + whole;
        length -= first + whole;
    }
    copy_in_line(dst, src, length);
}

void prov_copy_ordered(void *to, const void *from, size_t length)
{
    prov_unwatched_begin();
    copy_ordered(to, from, length);
    prov_unwatched_end();
}
