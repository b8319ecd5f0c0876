/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes: cm.c says how they go. */
#ifndef VP_CM_H
#define VP_CM_H

#include <stddef.h>
#include <stdint.h>

#include "prov_types.h"
#include "provider.h"

/* Handshakes in flight at first, of which there are more with each that is quick: all processes of
 * a host share its connection manager. See adapt_window_locked(). */
enum { VP_FIRST_WINDOW = 2 };

int vp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);

/* By progress(). */
void vp_cm_events(struct vp_prov *prov);
/* Goes on with what was left in the channel for a while. */
void vp_cm_listen_again(struct vp_prov *prov, uint64_t now);
void vp_cm_queue(struct vp_prov *prov);
void vp_cm_timers(struct vp_prov *prov, uint64_t now);
void vp_cm_refuse_overdue(struct vp_prov *prov, uint64_t now);

#endif
