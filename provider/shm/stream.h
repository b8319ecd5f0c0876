/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be done at once: stream.c says how. */
#ifndef SP_STREAM_H
#define SP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "conn_types.h"
#include "layout.h"
#include "provider.h"

/* conn->stream must exist. */
bool sp_stream_empty(const struct sp_conn *conn);
bool sp_stream_reads_out(const struct sp_conn *conn);
/* May one more operation be posted: 0; -EAGAIN: earlier ones are not sent, or too many. */
int sp_stream_reserve(struct sp_conn *conn);
/* Queues an operation that is executed already, to be reported behind earlier ones. */
void sp_stream_push_complete(struct sp_conn *conn, uint64_t cookie);
/* Queues the notice of a write whose data are there, where the ring was full. */
void sp_stream_push_notify(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_write(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_read(struct sp_conn *conn, const struct prov_xfer *xfer);
/* Sends operations, answers reads, and reports what is executed, as far as possible; returns the
 * number of callbacks. */
int sp_stream_step(struct sp_conn *conn);
bool sp_stream_idle(const struct sp_conn *conn);
/* Reports everything that is outstanding, as the connection is down. */
int sp_stream_flush(struct sp_conn *conn);
/* A slot with a part of an operation. The connection is up; if it is down afterwards,
 * sp_conn_settle() has to be called. The same holds for sp_stream_step(). */
int sp_stream_take(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload);
void sp_stream_take_error(struct sp_conn *conn, const struct sp_slot *slot);
void sp_stream_free(struct sp_conn *conn);

#endif
