/* SPDX-License-Identifier: Apache-2.0 */
/* The hello: connection parameters, exchanged as private data of the connect request and reply. */
#ifndef UT_LINK_HELLO_H
#define UT_LINK_HELLO_H

#include "link/link.h"

/* Writes the hello of this VCQ for the link's provider. `serial`: number of the connection that is
 * being made. */
void ut_link_fill_hello(const struct ut_link *link, uint16_t serial, struct ut_hello *hello);
/* Processes the peer's hello of a new connection: the communications and messages that the peer has
 * received are complete, the others are posted again. False: the peer is not compatible with this
 * process. */
bool ut_link_process_hello(struct ut_link *link, const void *data, size_t size);
/* Resets the link's receive count if the hello has another incarnation than the last one. Called
 * before this side replies, as the reply has the receive count. */
void ut_link_reset_rx_of_new_incarnation(struct ut_link *link, const void *data, size_t size);
/* True for a connect request that is no longer valid: both requests crossed, the peer accepted this
 * side's request and dropped its own request, which arrives after the peer's reply. Such a request
 * must not close the connection that is up: messages that arrived and were not polled would be
 * lost. */
bool ut_link_request_is_outdated(const struct ut_link *link, const void *data, size_t size);

#endif
