/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: open, close, poll, arm. struct prov_ops (provider.h) defines what these functions
 * do. */
#ifndef SP_EP_H
#define SP_EP_H

#include <stdbool.h>

#include "provider.h"

int sp_ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
void sp_ep_close(struct prov_ep *ep);
int sp_ep_poll(struct prov_ep *ep);
void sp_ep_flush(struct prov_ep *ep); /* no effect: no doorbell is delayed */
bool sp_ep_arm(struct prov_ep *ep, enum prov_arm what);
void sp_ep_disarm(struct prov_ep *ep);

#endif
