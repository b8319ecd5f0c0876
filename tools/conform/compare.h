/* SPDX-License-Identifier: Apache-2.0 */
/* Says how two files with answers differ. */
#ifndef CONFORM_COMPARE_H
#define CONFORM_COMPARE_H

int cf_compare(const char *a, const char *b); /* 0: they do not; 1: they do; 2: cannot be read */

#endif
