/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be done at once: stream.c says how. */
#ifndef SP_STREAM_H
#define SP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "conn_types.h"
#include "layout.h"
#include "provider.h"

/* These ask about conn->stream, which must be there. */
bool sp_stream_empty(const struct sp_conn *conn);
bool sp_stream_reads_out(const struct sp_conn *conn);
/* May one more operation be posted: 0; -EAGAIN: earlier ones are not sent, or too many. */
int sp_stream_reserve(struct sp_conn *conn);
/* Remembers an operation that is executed but must be reported behind others. */
void sp_stream_push_complete(struct sp_conn *conn, uint64_t cookie);
/* Remembers a notice whose data was moved but that found the ring full. */
void sp_stream_push_notify(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_write(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_read(struct sp_conn *conn, const struct prov_xfer *xfer);
/* Sends, answers and reports what it can; returns the number of callbacks. */
int sp_stream_step(struct sp_conn *conn);
bool sp_stream_idle(const struct sp_conn *conn);
/* Reports everything that is outstanding. */
int sp_stream_flush(struct sp_conn *conn);
/* Of a connection that is up; where it goes down, sp_conn_settle() is due. So after a step. */
int sp_stream_take(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload);
void sp_stream_take_error(struct sp_conn *conn, const struct sp_slot *slot);
void sp_stream_free(struct sp_conn *conn);

#endif
