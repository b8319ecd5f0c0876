/* SPDX-License-Identifier: Apache-2.0 */
/* Passive connections of an endpoint by their origin: the endpoint that sent the request. The
 * caller holds prov->lock. */
#ifndef VP_ORIGINS_H
#define VP_ORIGINS_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `conn->req` must be valid. False: no memory. */
bool vp_origins_add_locked(struct vp_conn *conn);
void vp_origins_remove_locked(struct vp_conn *conn);
/* Return the first connection that `origin_id` may have requested, and the next one after `conn`;
 * NULL: no more. Connections of other origins may be among them. */
struct vp_conn *vp_origins_first_locked(const struct vp_ep *ep, uint64_t origin_id);
static inline struct vp_conn *vp_origins_next(const struct vp_conn *conn)
{
    return conn->origin_next;
}

#endif
