/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the ofi provider: provider/ofi/conn.c itself. Both sides count alike. */
#include <stdlib.h>

#include "ofi/types.h"
#include "wraps.h"

static void *begin_conn(size_t num, size_t size);
static void end_conn(struct fp_conn *conn);

#define calloc(num, size) begin_conn(num, size)
#define free(conn)        end_conn(conn)
#include "../../provider/ofi/conn.c"
#undef calloc
#undef free

static void *begin_conn(size_t num, size_t size)
{
    struct fp_conn *conn = calloc(num, size);

    if (!conn)
        return NULL;
    conn->reported = conn->sent = conn->posted = conn->acked = WRAPS_FROM32;
    conn->executed = conn->acks_sent = conn->received = WRAPS_FROM32;
    conn->seen_reported = conn->first_offered = conn->rmt_refused_op = WRAPS_FROM32;
    conn->first_served = conn->last_served = WRAPS_FROM32;
    conn->first_chunk = conn->last_chunk = WRAPS_FROM32;
    conn->next_out = conn->next_in = conn->seen_in = WRAPS_FROM16;
    return conn;
}

static void end_conn(struct fp_conn *conn)
{
    if (conn) {
        wraps_note("fp_conn.reported", wraps_over32(conn->reported));
        wraps_note("fp_conn.executed", wraps_over32(conn->executed));
        wraps_note("fp_conn.first_served", wraps_over32(conn->first_served));
        wraps_note("fp_conn.first_chunk", wraps_over32(conn->first_chunk));
        wraps_note("fp_conn.next_out", wraps_over16(conn->next_out));
        wraps_note("fp_conn.next_in", wraps_over16(conn->next_in));
        wraps_note("fp_conn.rmt_refused_op", conn->rmt_refused && wraps_over32(conn->reported));
        wraps_note("fp_conn.lcl_refused_seq",
                   conn->lcl_refusal && wraps_over32(conn->lcl_refused_seq));
    }
    free(conn);
}
