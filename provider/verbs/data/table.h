/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's connections by queue pair number. */
#ifndef VP_TABLE_H
#define VP_TABLE_H

#include "util/assert.h"
#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* False: no memory. */
static inline bool vp_table_add(struct vp_ep *ep, struct vp_conn *conn)
{
    UT_ASSERT(!conn->abandoned && !conn->in_table);
    if (!ut_hash_reserve(&ep->by_qp))
        return false;
    ut_hash_insert(&ep->by_qp, &conn->by_qp, conn->qp->qp_num);
    conn->in_table = true;
    return true;
}

static inline void vp_table_remove(struct vp_ep *ep, struct vp_conn *conn)
{
    if (!conn->in_table)
        return;
    ut_hash_remove(&ep->by_qp, &conn->by_qp);
    conn->in_table = false;
    ep->last_found = NULL;
}

static inline struct vp_conn *vp_table_find(struct vp_ep *ep, uint32_t qp_num)
{
    struct vp_conn *conn = ep->last_found;

    if (__builtin_expect(conn && conn->by_qp.key == qp_num, 1))
        return conn;
    if (UT_HASH_OBJECT(conn, by_qp, ut_hash_find(&ep->by_qp, qp_num)))
        ep->last_found = conn;
    return conn;
}

#endif
