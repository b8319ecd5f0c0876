/* SPDX-License-Identifier: Apache-2.0 */
/* Hash table of an endpoint's connections by queue pair number, with open addressing. */
#ifndef VP_TABLE_H
#define VP_TABLE_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

int vp_table_new(struct vp_ep *ep);
int vp_table_add(struct vp_ep *ep, struct vp_conn *conn);
void vp_table_remove(struct vp_ep *ep, struct vp_conn *conn);

static inline uint32_t vp_table_hash(uint32_t qp_num)
{
    return qp_num * 2654435769u >> 8;
}

static inline struct vp_conn *vp_table_find(struct vp_ep *ep, uint32_t qp_num)
{
    if (__builtin_expect(ep->last.conn && ep->last.qp_num == qp_num, 1))
        return ep->last.conn;
    for (uint32_t i = vp_table_hash(qp_num) & ep->table_mask; ep->table[i].conn;
         i = (i + 1) & ep->table_mask) {
        if (ep->table[i].qp_num == qp_num) {
            ep->last = ep->table[i];
            return ep->last.conn;
        }
    }
    return NULL;
}

#endif
