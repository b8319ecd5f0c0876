/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing and arming them. */
#ifndef VP_EP_H
#define VP_EP_H

#include <stdbool.h>

#include "ep_types.h"
#include "provider.h"

int vp_ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
void vp_ep_close(struct prov_ep *ep);
bool vp_ep_arm(struct prov_ep *ep, enum prov_arm what);
void vp_ep_disarm(struct prov_ep *ep);

/*
 * Polling
 */

int vp_ep_poll(struct prov_ep *ep);
/* For ep_close(): polls an endpoint whose connections are all closed, so without callbacks. */
void vp_poll_closed(struct vp_ep *ep);

#endif
