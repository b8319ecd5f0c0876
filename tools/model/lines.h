/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of recorded calls, by addr2line (binutils) or eu-addr2line (elfutils). */
#ifndef UM_LINES_H
#define UM_LINES_H

#include "model/program.h"

/* Where a call of a thread is, and with it the wait before it: "a.c:12 to 15 in main", between the
 * call before and this one, or "a.c:15 in main, called at ..." if they are not in one function.
 * "a.out+0x11a9 (...)" and why, where there is no line; "": the site is unknown. */
void um_lines_name(const struct um_program *program, uint32_t thread, uint32_t op, char *text,
                   size_t size);

#endif
