/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying within the process in an order that a polling program can rely on: of each line of 256
 * bytes the last word is written after the rest of the line, the last line after all other lines,
 * and the last naturally aligned word after all other bytes.
 */
#ifndef PROV_COPY_ORDERED_H
#define PROV_COPY_ORDERED_H

#include <stddef.h>

/* If the two overlap, as memmove(), without an order. For any thread. */
void prov_copy_ordered(void *to, const void *from, size_t length);

#endif
