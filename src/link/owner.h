/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the process that owns the peer's VCQ, and sends it a connect request. */
#ifndef UT_LINK_OWNER_H
#define UT_LINK_OWNER_H

#include "link/link.h"

/* An event for the state machine, and the cause for communications that fail by the event. */
struct ut_link_outcome {
    enum ut_fsm_event event;
    struct ut_failure why;
};

/* Looks up the owner of the peer's VCQ and sends it a connect request. The caller applies the
 * event. */
struct ut_link_outcome ut_link_connect_to_owner(struct ut_link *link);
/* Returns the VCQ's endpoint of the provider; NULL: this process does not use the provider. */
const struct ut_vcq_ep *ut_link_find_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops);
/* Sets the provider of the link's next connection to the provider of this endpoint. */
void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e);
/* Allocates memory for STADDs that the peer announces: its first message may announce one. False,
 * with an error message: no memory. */
bool ut_link_alloc_rx_announced(struct ut_link *link);

#endif
