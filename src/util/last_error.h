/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of utofu_get_last_error(), one for each thread. A function that fails records the code
 * that it returns, and a text, or data and a function that formats them: polls and full queues do
 * the latter, so that nothing is formatted unless it is asked for. Uses the names of the codes.
 */
#ifndef UT_UTIL_LAST_ERROR_H
#define UT_UTIL_LAST_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UT_LAST_ERROR_TEXT = 928, UT_LAST_ERROR_DATA = 72 };

/* Formats the data of ut_last_error_data(). */
typedef void ut_last_error_fn(const void *data, char *buf, size_t size);

/* rc 0: a warning or an error line of the log, which a function may fail with later. The text is
 * cut at UT_LAST_ERROR_TEXT bytes. */
void ut_last_error_text(int rc, const char *text);
void ut_last_error_data(int rc, ut_last_error_fn *make, const void *data, size_t size);

/* The cheapest record: a number that is not 0, from which the caller of ut_last_error_get() makes a
 * text first; 0 again after any later error. Thread-local without a call (initial-exec). */
extern __thread uint64_t ut_last_error_busy __attribute__((tls_model("initial-exec")));

/* Around a call that may fail without a text: was one recorded since ut_last_error_begin()? */
void ut_last_error_begin(void);
bool ut_last_error_said(void);
/* Sets the code of the recorded text. */
void ut_last_error_code(int rc);

/* Of this thread; where no call of it has failed, the last line that any thread has logged.
 * with_code: "UTOFU_ERR_BUSY (-4): " before it. */
void ut_last_error_get(char *buf, size_t size, bool with_code);

#endif
