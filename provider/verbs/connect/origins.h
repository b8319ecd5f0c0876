/* SPDX-License-Identifier: Apache-2.0 */
/* The connections that an endpoint's peers have asked for, by who asked. With prov->lock held. */
#ifndef VP_ORIGINS_H
#define VP_ORIGINS_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `conn->req` is known. False: no memory. */
bool vp_origins_add_locked(struct vp_conn *conn);
void vp_origins_remove_locked(struct vp_conn *conn);
/* The first one that `origin_id` may have asked for, and the next after `conn`: others are among
 * them. NULL: there are no more. */
struct vp_conn *vp_origins_first_locked(const struct vp_ep *ep, uint64_t origin_id);
static inline struct vp_conn *vp_origins_next(const struct vp_conn *conn)
{
    return conn->origin_next;
}

#endif
