/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of messages: for the error handler of the program and for the calls that wait. */
#ifndef LA_ERRORS_H
#define LA_ERRORS_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_errors_setup(LAPI_err_hndlr *handler);
void la_errors_close(void);
/* True if a message has failed that no waiting call has returned yet, or if a message has failed
 * since the caller read la.errors.num_failures into `failures_before`. */
bool la_errors_pending(uint64_t failures_before);
/* Returns the code of the last failure for a waiting call, and counts all failures as returned. */
int la_errors_take(void);
/* Calls the error handler of the program for all queued reports. */
void la_errors_call_handler(void);
void la_report_error(int code, uint32_t rank); /* queues a report for the error handler */
/* A message of this task has failed: la_report_error(), and waiting calls fail. */
void la_report_failure(int code, uint32_t rank);

#pragma GCC visibility pop

#endif
