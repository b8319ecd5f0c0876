/* SPDX-License-Identifier: Apache-2.0 */
/* One line on standard error: "acp: [rank 2] what is wrong, and what to do". */
#ifndef LC_LOG_H
#define LC_LOG_H

#include <stdarg.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

__attribute__((format(printf, 3, 0))) void lc_log(const char *layer, uint32_t rank,
                                                  const char *format, va_list args);
const char *lc_utofu_error(void); /* the last one of this thread */

#pragma GCC visibility pop

#endif
