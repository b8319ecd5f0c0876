/* SPDX-License-Identifier: Apache-2.0 */
/* Executes records of other tasks. */
#ifndef LA_RECEIVE_H
#define LA_RECEIVE_H

#include "context.h"

#pragma GCC visibility push(hidden)

/* Checks all fields, since another task may write anything into a slot. */
bool la_record_is_valid(const struct la_record *rec);
/* For a record with LA_INLINE: true if user header and data fit into its cache line. */
bool la_record_fits_inline(const struct la_record *rec);
/* Executes a record, or logs that it is invalid. */
void la_receive_record(struct la_record *rec);
/* Executes an inline record (an active message or a put) whose only flag is LA_INLINE. */
void la_receive_inline(struct la_record *rec);

#pragma GCC visibility pop

#endif
