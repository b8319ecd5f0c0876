/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of utofu_get_last_error(), one per thread. A failing function records its return code
 * with a text, or with data and a function that formats them. Polls and full queues do the latter,
 * so that the text is only made when the program asks for it. Uses the names of the codes.
 */
#ifndef UT_UTIL_LAST_ERROR_H
#define UT_UTIL_LAST_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/tls.h"

enum { UT_LAST_ERROR_TEXT = 928, UT_LAST_ERROR_DATA = 72 };

/* Formats the data of ut_last_error_data(). */
typedef void ut_last_error_fn(const void *data, char *buf, size_t size);

/* rc 0: a warning or an error line of the log, for a function that fails later. The text is
 * truncated to UT_LAST_ERROR_TEXT bytes. */
void ut_last_error_text(int rc, const char *text);
void ut_last_error_data(int rc, ut_last_error_fn *make, const void *data, size_t size);

/* The cheapest record: a non-zero number; the caller of ut_last_error_get() must first make a text
 * from it. Any later error resets it to 0. */
extern UT_THREAD_LOCAL uint64_t ut_last_error_busy;

/* For calls that may fail without a text: was a text recorded since ut_last_error_begin()? */
void ut_last_error_begin(void);
bool ut_last_error_has_text(void);
/* Sets the code of the recorded text. */
void ut_last_error_code(int rc);

/* The text of this thread; if no call of this thread has failed, the last line that any thread has
 * logged. with_code: preceded by "UTOFU_ERR_BUSY (-4): ". */
void ut_last_error_get(char *buf, size_t size, bool with_code);

#endif
