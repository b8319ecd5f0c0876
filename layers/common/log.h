/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: "acp: [rank 2] what is wrong, and what to do". */
#ifndef LC_LOG_H
#define LC_LOG_H

#include <stdarg.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* rank: -1 if it is not known. */
__attribute__((format(printf, 3, 4))) void lc_log(const char *layer, int rank, const char *format,
                                                  ...);
__attribute__((format(printf, 3, 0))) void lc_vlog(const char *layer, int rank, const char *format,
                                                   va_list args);
/* The last error of this thread; `text` has LC_ERROR_SIZE bytes, and is returned. */
enum { LC_ERROR_SIZE = 1024 };
const char *lc_read_error(char *text);
/* The same in memory that lasts as long as the block of the call: not static, as thread-local
 * memory of a library is scarce. */
#define lc_utofu_error() lc_read_error((char[LC_ERROR_SIZE]){""})
/* Of a call that uTofu does not refuse, as what it gets is the layer's own: else a line says so. */
void lc_check_rc(const char *layer, int rank, int rc, const char *call);

#pragma GCC visibility pop

#endif
