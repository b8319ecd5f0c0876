/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that replacements of provider/verbs/ud.h share: no port is opened, and a datagram
 * posted is sent at once. The including program defines vp_ud_send() and vp_ud_take(). */
#ifndef TESTS_FAKE_UD_H
#define TESTS_FAKE_UD_H

#include <errno.h>
#include <string.h>

#include "../../provider/verbs/ud.h"

static int reach_rc; /* of vp_ud_reach() */

int vp_ud_try(struct vp_port *port, int gid_index)
{
    (void)port, (void)gid_index;
    return -ENODEV;
}

int vp_ud_open(struct vp_prov *prov, struct vp_port *port)
{
    (void)prov, (void)port;
    return -ENODEV;
}

void vp_ud_close(struct vp_port *port)
{
    (void)port;
}

int vp_ud_fd(const struct vp_port *port)
{
    (void)port;
    return -1;
}

void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->port_num = port->num;
    attr->dlid = to->lid;
}

int vp_ud_reach(struct vp_port *port, const struct vp_ud_addr *to)
{
    (void)port, (void)to;
    return reach_rc;
}

bool vp_ud_has_sent(struct vp_port *port)
{
    (void)port;
    return true;
}

#endif
