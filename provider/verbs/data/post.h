/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: writes, reads, atomics and messages become work requests. */
#ifndef VP_POST_H
#define VP_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

enum { VP_PARTS_MAX = 8 }; /* requests that make one transfer */

/* What a control message (SEND with immediate) says. */
enum {
    VP_CTL_BYE = 0x62796521,  /* this side closes the connection */
    VP_CTL_ASK = 0x6d61793f,  /* may it rest? answered by REST, or by KEEP if it is in use */
    VP_CTL_MUST = 0x6d757374, /* it has to */
    VP_CTL_KEEP = 0x6b656570,
    VP_CTL_REST = 0x72657374, /* everything of this side has arrived; answered by the same */
};

int vp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_write_few(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                 uint32_t length, uint64_t cookie);
int vp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int vp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
void vp_ep_flush(struct prov_ep *ep);
void vp_flush(struct vp_ep *ep);
/* A signalled empty write: its completion covers the unsignalled requests before it. */
void vp_post_report(struct vp_conn *conn);
/* Says something to the peer's provider, signalled; false: there is no room. */
bool vp_post_control(struct vp_conn *conn, uint32_t what);
/* The last request of a connection: VP_CTL_BYE or VP_CTL_REST to the peer, or (0) an empty write.
 */
void vp_conn_drain_marker(struct vp_conn *conn, uint32_t control);

#endif
