/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines on standard error: "acp: [rank 2] what is wrong, and what to do". */
#ifndef LC_LOG_H
#define LC_LOG_H

#include <stdarg.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* rank -1: unknown. */
__attribute__((format(printf, 3, 4))) void lc_log(const char *layer, int rank, const char *format,
                                                  ...);
__attribute__((format(printf, 3, 0))) void lc_vlog(const char *layer, int rank, const char *format,
                                                   va_list args);
/* Stores the last error of this thread in `text`, of LC_ERROR_SIZE bytes, and returns `text`. */
enum { LC_ERROR_SIZE = 1024 };
const char *lc_get_last_error(char *text);
/* The same in memory that lives until the end of the enclosing block. It is not static, because
 * thread-local memory of a library is scarce. */
#define lc_utofu_error() lc_get_last_error((char[LC_ERROR_SIZE]){""})
/* Logs an error of a call that cannot fail, because the layer made all its arguments. */
void lc_check_rc(const char *layer, int rank, int rc, const char *call);

#pragma GCC visibility pop

#endif
