/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying within the process in an order that a program that watches the target can rely on: of
 * each line of 256 bytes the last word lands behind all else of the line, the last line behind all
 * others, and the last naturally aligned word behind that.
 */
#ifndef PROV_ORDERED_H
#define PROV_ORDERED_H

#include <stddef.h>

/* Where the two overlap, as memmove(), without an order. By any thread. */
void prov_copy_ordered(void *to, const void *from, size_t length);

#endif
