/* SPDX-License-Identifier: Apache-2.0 */
/* How utofu-model ends when it cannot go on, and memory that is there or ends it. */
#ifndef UM_FAIL_H
#define UM_FAIL_H

#include <stddef.h>

enum { UM_EXIT_BAD = 1, UM_EXIT_USAGE = 2 };

/* Prints "utofu-model: ..." and ends the program. */
void um_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Prints "utofu-model: warning: ...". */
void um_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed. */
void *um_calloc(size_t n, size_t size);
/* An array with room for another element: doubles *room when `used` has reached it. */
void *um_grow(void *array, size_t used, size_t *room, size_t size);

#endif
