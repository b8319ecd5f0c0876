/* SPDX-License-Identifier: Apache-2.0 */
/* Operations through the rings: provider/shm/op_queue.c itself. */
#include <stdlib.h>

#include "shm/layout.h"
#include "shm/types.h"
#include "wraps.h"

struct sp_op_queue;
static void *begin_op_queue(struct sp_conn *conn, size_t num, size_t size);
static void end_op_queue(const struct sp_conn *conn, struct sp_op_queue *queue);

#define calloc(num, size) begin_op_queue(conn, num, size)
#define free(queue)       end_op_queue(conn, queue)
#include "../../provider/shm/op_queue.c"
#undef calloc
#undef free

/* The target has executed nothing yet, but the peer may have counted already if this side only
 * answers. */
static void *begin_op_queue(struct sp_conn *conn, size_t num, size_t size)
{
    struct sp_op_queue *queue = calloc(num, size);
    uint64_t *word = &conn->ep->ring->executed_by_peer[conn->conn_id & (SP_MAX_CONNS - 1)];

    if (!queue)
        return NULL;
    queue->first = queue->sent = queue->last = queue->last_op_number = WRAPS_FROM32;
    queue->first_response = queue->last_response = WRAPS_FROM32;
    __atomic_fetch_or(word, (UINT64_C(1) << 48) - 1 - WRAPS_BELOW, __ATOMIC_SEQ_CST);
    return queue;
}

static void end_op_queue(const struct sp_conn *conn, struct sp_op_queue *queue)
{
    wraps_note("sp_conn.error_op_number",
               conn->error_status && wraps_over32(conn->error_op_number));
    if (queue) {
        wraps_note("sp_op_queue.last_op_number", wraps_over32(queue->last_op_number));
        wraps_note("sp_op_queue.first", wraps_over32(queue->first));
        wraps_note("sp_op_queue.first_response", wraps_over32(queue->first_response));
    }
    free(queue);
}
