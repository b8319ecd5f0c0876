/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies within the process in an order on which a polling program can rely: the last word of each
 * line of 256 bytes is written after the rest of the line, the last line after all other lines, and
 * the last naturally aligned word after all other bytes.
 */
#ifndef PROV_COPY_ORDERED_H
#define PROV_COPY_ORDERED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "atomic_width.h"

/* Overlapping ranges are copied as by memmove(), without this order. Any thread may call this. */
void prov_copy_ordered(void *to, const void *from, size_t length);

/*
 * Copies whole lines of 256 bytes with the widest plain stores of the machine. The last word of
 * each line is written after the rest of the line, and the lines are written in order.
 */

/* `to` is aligned to a line, and `size` is a multiple of a line. The ranges do not overlap. */
void prov_copy_lines(void *to, const void *from, size_t size);

/*
 * Copies in which a reader never sees a part of a naturally aligned word of 1, 2, 4 or 8 bytes. On
 * x86, memcpy() makes such copies. Elsewhere it may not: glibc's memcpy() for CPUs with SVE
 * (sysdeps/aarch64/multiarch/memcpy_sve.S) stores vectors of bytes, of which only single elements
 * become visible at once (Arm Architecture Reference Manual, "Single-copy atomicity").
 */

#if defined(__x86_64__)

static inline void prov_copy_words(uint8_t *to, const uint8_t *from, size_t size)
{
    memcpy(to, from, size);
}

#else

static inline void prov_store_8(uint8_t *to, const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, 8);
    __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELAXED);
}

/* `size`: 1, 2 or 4 bytes. */
static inline void prov_store_part(uint8_t *to, const uint8_t *from, size_t size)
{
    uint32_t four;
    uint16_t two;

    if (size == 4) {
        memcpy(&four, from, 4);
        __atomic_store_n((uint32_t *)(void *)to, four, __ATOMIC_RELAXED);
    } else if (size == 2) {
        memcpy(&two, from, 2);
        __atomic_store_n((uint16_t *)(void *)to, two, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(to, *from, __ATOMIC_RELAXED);
    }
}

static inline void prov_copy_words(uint8_t *to, const uint8_t *from, size_t size)
{
    size_t piece;

    for (; size > 0; to += piece, from += piece, size -= piece) {
        piece = prov_piece_size((uintptr_t)to, size, PROV_WORD);
        if (piece == PROV_WORD)
            prov_store_8(to, from);
        else
            prov_store_part(to, from, piece);
    }
}

#endif

#endif
