/* SPDX-License-Identifier: Apache-2.0 */
/* The connections that peers of an endpoint asked for, by origin. With prov->lock held. */
#ifndef VP_ORIGINS_H
#define VP_ORIGINS_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `conn->req` is valid. False: no memory. */
bool vp_origins_add_locked(struct vp_conn *conn);
void vp_origins_remove_locked(struct vp_conn *conn);
/* The first connection that `origin_id` may have asked for, and the next one after `conn`.
 * Connections of other origins are among them. NULL: no more. */
struct vp_conn *vp_origins_first_locked(const struct vp_ep *ep, uint64_t origin_id);
static inline struct vp_conn *vp_origins_next(const struct vp_conn *conn)
{
    return conn->origin_next;
}

#endif
