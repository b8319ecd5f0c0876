/* SPDX-License-Identifier: Apache-2.0 */
/* Copies whole lines of 256 bytes with the widest plain stores of the machine. The last word of
 * each line is written after the rest of the line, and the lines are written in order. */
#ifndef PROV_COPY_LINES_H
#define PROV_COPY_LINES_H

#include <stddef.h>

/* `to` is aligned to a line, and `size` is a multiple of a line. The ranges do not overlap. */
void prov_copy_lines(void *to, const void *from, size_t size);

#endif
