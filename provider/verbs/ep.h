/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing and arming them. */
#ifndef VP_EP_H
#define VP_EP_H

#include <stdbool.h>

#include "provider.h"

int vp_ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
void vp_ep_close(struct prov_ep *ep);
bool vp_ep_arm(struct prov_ep *ep, enum prov_arm what);
void vp_ep_disarm(struct prov_ep *ep);

#endif
