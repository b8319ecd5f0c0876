/* SPDX-License-Identifier: Apache-2.0 */
/* Failed assertions. */
#include "util/assert.h"

#include <stdio.h>
#include <stdlib.h>

/* Does not call the log, which may be broken. */
void ut_assert_failed(const char *what, const char *file, int line, const char *function)
{
    fprintf(stderr, "utofu: %s:%d: %s: '%s' does not hold: this is an error in the library\n", file,
            line, function, what);
    abort();
}
