/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether one InfiniBand port of this host reaches another. Neither IP addresses nor GIDs
 * show this: one fabric may have several IPoIB networks, and many fabrics have the default subnet
 * prefix.
 */
#ifndef VP_REACH_H
#define VP_REACH_H

#include <stdbool.h>

#include "verbs/prov_types.h"

/* Sends a datagram from one port to the other, and waits up to 30 ms for it. */
bool vp_port_reaches(const struct vp_port *from, const struct vp_port *to);

#endif
