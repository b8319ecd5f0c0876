/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: writes, reads, atomics and messages become work requests. */
#ifndef VP_POST_H
#define VP_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn_types.h"
#include "ep_types.h"

enum { VP_PARTS_MAX = 8 }; /* requests that make one transfer */

/* What a control message (SEND with immediate) says. */
enum { VP_CTL_BYE = 0x62796521 };

int vp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int vp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
void vp_ep_flush(struct prov_ep *ep);
void vp_flush(struct vp_ep *ep);
/* A signalled empty write: its completion covers the unsignalled requests before it. */
void vp_post_report(struct vp_conn *conn);
/* The last request of a connection: a goodbye to the peer, or an empty write. */
void vp_conn_drain_marker(struct vp_conn *conn, bool bye);

#endif
