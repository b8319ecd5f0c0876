/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of a port: one unreliable datagram (UD) queue pair for all peers of the process.
 * Datagrams may be lost, duplicated or reordered; their user udcm.c handles this.
 *
 * InfiniBand ports are addressed by LID, RoCE ports by GID. Several threads may call all functions
 * but vp_ud_open() and vp_ud_close().
 */
#ifndef VP_UD_H
#define VP_UD_H

#include <stdbool.h>
#include <stddef.h>

#include "verbs/prov_types.h"

enum { VP_UD_MAX = 256 }; /* maximum size of a datagram: fits into the smallest packet */

/* Tests whether the port can send datagrams to itself, and fills in its GID and LID. Called before
 * the port's device is set up. `gid_index` -1: InfiniBand. Returns 0 or -errno. */
int vp_ud_probe_port(struct vp_port *port, int gid_index);
/* Creates the queue pair of a used port, and watches its events. Returns 0 or -errno. */
int vp_ud_open(struct vp_prov *prov, struct vp_port *port);
void vp_ud_close(struct vp_port *port);
/* Returns a descriptor that is readable when a datagram arrives. */
int vp_ud_fd(const struct vp_port *port);

/* Gets the path to a peer's port, for datagrams and for connections. */
void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr);
/* Creates the address handle for a peer's port, once. On RoCE the kernel may query the network for
 * up to a second. Returns 0 or -errno. */
int vp_ud_resolve(struct vp_port *port, const struct vp_ud_addr *to);
/* Sends a datagram. False: not sent, since there is no address handle or too many datagrams are in
 * flight. */
bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size);
/* Takes the next received datagram, and its service level. Returns its size; 0: no datagram. For
 * one thread at a time. */
size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl);
/* True if all sent datagrams have left the port. */
bool vp_ud_sends_are_done(struct vp_port *port);

#endif
