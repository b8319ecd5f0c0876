/* SPDX-License-Identifier: Apache-2.0 */
/* Operations through the rings: provider/shm/stream.c itself. */
#include <stdlib.h>

#include "shm/layout.h"
#include "shm/types.h"
#include "wraps.h"

struct sp_op_queue;
static void *begin_stream(struct sp_conn *conn, size_t num, size_t size);
static void end_stream(const struct sp_conn *conn, struct sp_op_queue *stream);

#define calloc(num, size) begin_stream(conn, num, size)
#define free(stream)      end_stream(conn, stream)
#include "../../provider/shm/stream.c"
#undef calloc
#undef free

/* The target has executed nothing yet, but the peer may have counted already if this side only
 * answers. */
static void *begin_stream(struct sp_conn *conn, size_t num, size_t size)
{
    struct sp_op_queue *s = calloc(num, size);
    uint64_t *word = &conn->ep->ring->executed[conn->conn_id & (SP_MAX_CONNS - 1)];

    if (!s)
        return NULL;
    s->first = s->sent = s->last = s->seq = WRAPS_FROM32;
    s->first_response = s->last_response = WRAPS_FROM32;
    __atomic_fetch_or(word, (UINT64_C(1) << 48) - 1 - WRAPS_BELOW, __ATOMIC_SEQ_CST);
    return s;
}

static void end_stream(const struct sp_conn *conn, struct sp_op_queue *s)
{
    wraps_note("sp_conn.error_op_number", conn->error_status && wraps_over32(conn->error_op_number));
    if (s) {
        wraps_note("sp_op_queue.seq", wraps_over32(s->seq));
        wraps_note("sp_op_queue.first", wraps_over32(s->first));
        wraps_note("sp_op_queue.first_response", wraps_over32(s->first_response));
    }
    free(s);
}
