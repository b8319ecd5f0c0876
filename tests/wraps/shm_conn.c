/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the shm provider: provider/shm/conn.c itself. The origin counts in 32 bits, the
 * target in 64, of which the word that both share has 48: see shm_op_queue.c. */
#include <stdlib.h>

#include "shm/conn.h"
#include "shm/types.h"
#include "wraps.h"

static void *begin_conn(size_t num, size_t size)
{
    struct sp_conn *conn = calloc(num, size);

    if (conn)
        conn->executed_here = (UINT64_C(1) << 48) - 1 - WRAPS_BELOW;
    return conn;
}

#define calloc(num, size) begin_conn(num, size)
#include "../../provider/shm/conn.c"
#undef calloc
