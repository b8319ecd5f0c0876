/* SPDX-License-Identifier: Apache-2.0 */
/* Polling of an endpoint. */
#ifndef VP_POLL_H
#define VP_POLL_H

#include "ep_types.h"
#include "provider.h"

int vp_ep_poll(struct prov_ep *ep);
/* For ep_close(): polls an endpoint whose connections are all closed, so without callbacks. */
void vp_poll_closed(struct vp_ep *ep);

#endif
