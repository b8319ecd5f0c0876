/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does one InfiniBand port of this host reach another one? Neither the IP addresses nor the GIDs
 * say so: one fabric may have several networks of IPoIB, and many fabrics have the default subnet
 * prefix.
 */
#ifndef VP_REACH_H
#define VP_REACH_H

#include <stdbool.h>

#include "verbs/prov_types.h"

/* Sends a datagram, and waits for it: up to 30 ms. */
bool vp_port_reaches(const struct vp_port *from, const struct vp_port *to);

#endif
