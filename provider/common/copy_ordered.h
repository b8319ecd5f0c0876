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

#endif
