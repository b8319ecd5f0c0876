/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies within the process in an order on which a polling program can rely: the last word of each
 * line of 256 bytes is written after the rest of the line, the last line after all other lines, and
 * the last naturally aligned word after all other bytes.
 */
#ifndef PROV_COPY_ORDERED_H
#define PROV_COPY_ORDERED_H

#include <stddef.h>

/* Overlapping ranges are copied as by memmove(), without this order. Any thread may call this. */
void prov_copy_ordered(void *to, const void *from, size_t length);

/*
 * Copies whole lines of 256 bytes with the widest plain stores of the machine. The last word of
 * each line is written after the rest of the line, and the lines are written in order.
 */

/* `to` is aligned to a line, and `size` is a multiple of a line. The ranges do not overlap. */
void prov_copy_lines(void *to, const void *from, size_t size);

#endif
