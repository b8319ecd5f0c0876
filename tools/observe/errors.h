/* SPDX-License-Identifier: Apache-2.0 */
/* Failed calls, and the names of places. */
#ifndef OB_ERRORS_H
#define OB_ERRORS_H

#include "observe/state.h"

/* Counts a call that has returned an error, with its caller. Returns rc. */
int ob_error_found(enum ob_function function, int rc, const void *caller);
static inline int ob_error(enum ob_function function, int rc, const void *caller)
{
    return OB_LIKELY(rc >= UTOFU_ERR_NOT_COMPLETED) ? rc : ob_error_found(function, rc, caller);
}
/* "main+0x1f (a.out+0x11f)" */
enum { OB_PLACE = 256 };
const char *ob_place_name(const void *address, char place[OB_PLACE]);
void ob_errors_print(void);

#endif
