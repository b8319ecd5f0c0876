/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order an adapter places what arrives. The specification promises that data is there when
 * a later receive, or a later read's answer, says so; not in which order separate writes, and the
 * parts of one, become visible to a CPU that looks at memory. With adaptive routing packets
 * overtake each other. Where no order is known, post.c cuts strong writes up and puts reads
 * between.
 */
#ifndef VP_ORDER_H
#define VP_ORDER_H

#include <stdbool.h>

#include "prov_types.h"

/* What UTOFU_VERBS_ORDER says, or what is known of the device: `qp` is one of its queue pairs that
 * is not connected, and is connected to itself by one of its ports. */
enum vp_order vp_order_of(const struct vp_device *dev, const struct vp_port *port,
                          struct ibv_qp *qp);

static inline bool vp_is_any_order(enum vp_order order)
{
    return order <= VP_ORDER_SAFE;
}

/*
 * An adapter acknowledges what it has received, which may not be in memory yet when the CPU reads
 * what another adapter of the host has placed there. Where the processes of a host use several
 * ports, a PROV_LANDED write is followed by a read, which pushes it.
 */
bool vp_lands_later(const struct vp_prov *prov);

static inline bool vp_has_any_order(const struct vp_device *dev)
{
    return vp_is_any_order((enum vp_order)dev->order);
}

/* The same for one queue pair that is connected: where its device promised an order, its path may
 * have none. */
bool vp_qp_has_any_order(const struct vp_device *dev, struct ibv_qp *qp);

/* How it is known, to be printed. */
const char *vp_order_why(enum vp_order order);

#endif
