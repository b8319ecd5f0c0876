/* SPDX-License-Identifier: Apache-2.0 */
/* What of provider/verbs/ports/ud.h is the same for all who replace it: no port is opened, and what
 * is sent has left at once. vp_ud_send() and vp_ud_recv() are the user's. */
#ifndef TESTS_FAKE_UD_H
#define TESTS_FAKE_UD_H

#include <errno.h>
#include <string.h>

#include "../../provider/verbs/ports/lid.h"
#include "../../provider/verbs/ports/ud.h"

static int reach_rc; /* of vp_ud_resolve() */

int vp_ud_probe_port(struct vp_port *port, int gid_index)
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

int vp_ud_resolve(struct vp_port *port, const struct vp_ud_addr *to)
{
    (void)port, (void)to;
    return reach_rc;
}

static void (*fake_ud_sends)(void); /* called while what was sent stays in the port; or NULL */

bool vp_ud_sends_are_done(struct vp_port *port)
{
    (void)port;
    if (fake_ud_sends)
        fake_ud_sends();
    return !fake_ud_sends;
}

static unsigned int fake_ud_queries;
static int fake_ud_query_ms; /* how long the last one may take */

/* There is no subnet manager. */
uint16_t vp_query_lid(const struct vp_port *from, const union ibv_gid *gid, int timeout_ms,
                      uint8_t *sl)
{
    (void)from, (void)gid, (void)sl;
    fake_ud_queries++;
    fake_ud_query_ms = timeout_ms;
    return 0;
}

#endif
