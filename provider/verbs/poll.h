/* SPDX-License-Identifier: Apache-2.0 */
/* Polling an endpoint: poll.c says in which order. */
#ifndef VP_POLL_H
#define VP_POLL_H

#include "ep_types.h"
#include "provider.h"

int vp_ep_poll(struct prov_ep *ep);
/* For ep_close(): polls while every connection is closed, so without callbacks. */
void vp_poll_closed(struct vp_ep *ep);

#endif
