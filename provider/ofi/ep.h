/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing, polling, arming. */
#ifndef FP_EP_H
#define FP_EP_H

#include "types.h"

int fp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **ep);
void fp_ep_close(struct prov_ep *base);
int fp_ep_poll(struct prov_ep *base);
void fp_ep_flush(struct prov_ep *base);
bool fp_ep_arm(struct prov_ep *base, enum prov_arm what);
void fp_ep_disarm(struct prov_ep *base);
/* Closes the endpoint without a call of the fabric; its memory and descriptors are not freed. */
void fp_ep_close_without_fabric(struct fp_ep *ep);

#endif
