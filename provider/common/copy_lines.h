/* SPDX-License-Identifier: Apache-2.0 */
/* Copying whole lines of 256 bytes so that the last word of each is written after the rest of the
 * line, and the lines in order, at the speed of the machine's widest plain stores. */
#ifndef PROV_COPY_LINES_H
#define PROV_COPY_LINES_H

#include <stddef.h>

/* `to` is aligned to a line; size is a multiple of a line. The two do not overlap. */
void prov_copy_lines(void *to, const void *from, size_t size);

#endif
