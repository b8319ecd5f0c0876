/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of a port: one unreliable queue pair (UD) for all peers of the process. Datagrams may
 * be lost, duplicated or reordered; udcm.c, which sends them, handles that.
 *
 * InfiniBand ports are addressed by LID, RoCE ports by GID. All functions but vp_ud_open() and
 * vp_ud_close() may be called by several threads.
 */
#ifndef VP_UD_H
#define VP_UD_H

#include <stdbool.h>
#include <stddef.h>

#include "verbs/prov_types.h"

enum { VP_UD_MAX = 256 }; /* bytes of a datagram: fits into the smallest packet */

/* Called before the port's device is set up: can the port send datagrams to itself? `gid_index` -1:
 * InfiniBand. Fills in the port's GID and LID. 0 or -errno. */
int vp_ud_probe_port(struct vp_port *port, int gid_index);
/* Makes and watches the queue pair of a port in use. 0 or -errno. */
int vp_ud_open(struct vp_prov *prov, struct vp_port *port);
void vp_ud_close(struct vp_port *port);
/* Becomes readable when a datagram arrives. */
int vp_ud_fd(const struct vp_port *port);

/* The path to a peer's port, for its queue pairs too. */
void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr);
/* Resolves the way to a peer's port, once; on RoCE the kernel may ask the network for up to a
 * second. 0 or -errno. */
int vp_ud_resolve(struct vp_port *port, const struct vp_ud_addr *to);
/* False: the datagram is not sent, since the way is not known or too many are in flight. */
bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size);
/* Takes the next arrived datagram, and the service level that it came with; returns its size, 0:
 * there is none. By one thread at a time. */
size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl);
/* Have all sent datagrams left the port? */
bool vp_ud_sends_are_done(struct vp_port *port);

#endif
