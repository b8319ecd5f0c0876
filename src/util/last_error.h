/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error that utofu_get_last_error() returns, one per thread. A failing function records its
 * return code with a text, or with data and a function that formats them. Polls and full queues
 * record data, so that the text is made only if the program asks for it. Uses the names of the
 * codes.
 */
#ifndef UT_UTIL_LAST_ERROR_H
#define UT_UTIL_LAST_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/self.h"

enum { UT_LAST_ERROR_TEXT = 928, UT_LAST_ERROR_DATA = 72 };

/* Formats the data of ut_last_error_data(). */
typedef void ut_last_error_fn(const void *data, char *buf, size_t size);

/* Records a text, cut to UT_LAST_ERROR_TEXT bytes. rc 0: an error or warning line of the log; the
 * function fails later. */
void ut_last_error_text(int rc, const char *text);
void ut_last_error_data(int rc, ut_last_error_fn *make, const void *data, size_t size);

/* The cheapest record: a non-zero number. The caller of ut_last_error_get() must first make a text
 * from it. Any later error sets it to 0. */
extern UT_THREAD_LOCAL uint64_t ut_last_error_busy;

/* For calls that may fail without a text. ut_last_error_has_text(): was a text recorded since
 * ut_last_error_begin()? */
void ut_last_error_begin(void);
bool ut_last_error_has_text(void);
/* Sets the code of the recorded text. */
void ut_last_error_code(int rc);

/* Copies the text of this thread. If no call of this thread has failed, copies the last line that
 * any thread has logged. with_code: begins with "UTOFU_ERR_BUSY (-4): ". */
void ut_last_error_get(char *buf, size_t size, bool with_code);

#endif
