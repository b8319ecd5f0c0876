/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: writes, reads, atomics and messages become work requests. */
#ifndef VP_POST_H
#define VP_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

enum { VP_PARTS_MAX = 8 }; /* maximum number of requests of one transfer */

/* Control messages, sent as SEND with immediate. */
enum {
    VP_CTL_CLOSE = 0x62796521,           /* closes the connection */
    VP_CTL_SUSPEND_REQUEST = 0x6d61793f, /* reply: SUSPEND, or SUSPEND_REFUSE if in use */
    VP_CTL_SUSPEND_FORCE = 0x6d757374,   /* forces the peer to suspend */
    VP_CTL_SUSPEND_REFUSE = 0x6b656570,
    VP_CTL_SUSPEND = 0x72657374, /* all requests of this side have arrived; reply: SUSPEND */
};

int vp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_write_inline(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                    uint32_t length, uint64_t cookie);
int vp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int vp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
void vp_ep_flush(struct prov_ep *ep);
void vp_batch_flush(struct vp_ep *ep);
/* Posts a signalled empty write, whose completion covers the earlier unsignalled requests. */
void vp_post_signalled(struct vp_conn *conn);
/* Sends a signalled control message to the peer's provider. False: the queue is full. */
bool vp_post_control(struct vp_conn *conn, uint32_t what);
/* Posts the last request of a connection: a control message VP_CTL_CLOSE or VP_CTL_SUSPEND, or an
 * empty write (`control` 0). */
void vp_conn_post_last_request(struct vp_conn *conn, uint32_t control);

#endif
