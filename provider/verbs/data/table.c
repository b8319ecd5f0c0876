/* SPDX-License-Identifier: Apache-2.0 */
/* Hash table of an endpoint's connections by queue pair number: see table.h. */
#include "table.h"
#include "util/assert.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_SIZE = 64 };

int vp_table_new(struct vp_ep *ep)
{
    ep->table = calloc(FIRST_SIZE, sizeof(*ep->table));
    ep->table_mask = FIRST_SIZE - 1;
    return ep->table ? 0 : -ENOMEM;
}

static void insert_conn(struct vp_slot *table, uint32_t mask, struct vp_conn *conn)
{
    uint32_t i = vp_table_hash(conn->qp->qp_num) & mask;

    UT_ASSERT(!conn->abandoned);
    while (table[i].conn)
        i = (i + 1) & mask;
    table[i] = (struct vp_slot){conn->qp->qp_num, conn};
}

int vp_table_add(struct vp_ep *ep, struct vp_conn *conn)
{
    if ((ep->table_used + 1) * 2 > ep->table_mask + 1) {
        uint32_t size = (ep->table_mask + 1) * 2;
        struct vp_slot *larger = calloc(size, sizeof(*larger));
        if (!larger)
            return -ENOMEM;
        for (uint32_t i = 0; i <= ep->table_mask; i++)
            if (ep->table[i].conn)
                insert_conn(larger, size - 1, ep->table[i].conn);
        free(ep->table);
        ep->table = larger;
        ep->table_mask = size - 1;
    }
    insert_conn(ep->table, ep->table_mask, conn);
    ep->table_used++;
    conn->in_table = true;
    return 0;
}

void vp_table_remove(struct vp_ep *ep, struct vp_conn *conn)
{
    uint32_t mask = ep->table_mask;

    if (!conn->in_table)
        return;
    UT_ASSERT(ep->table_used > 0 && ep->table_used * 2 <= mask + 1);
    conn->in_table = false;
    ep->last.conn = NULL;
    ep->table_used--;
    uint32_t hole = vp_table_hash(conn->qp->qp_num) & mask;
    while (ep->table[hole].conn != conn)
        hole = (hole + 1) & mask;
    /* fill the gap: move back entries whose probe sequence crosses it */
    for (uint32_t i = (hole + 1) & mask; ep->table[i].conn; i = (i + 1) & mask) {
        uint32_t home = vp_table_hash(ep->table[i].qp_num) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            ep->table[hole] = ep->table[i];
            hole = i;
        }
    }
    ep->table[hole].conn = NULL;
}
