/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting a link: calls of the program, timers, and callbacks of providers. */
#ifndef UT_LINK_CONNECT_H
#define UT_LINK_CONNECT_H

#include "link/link.h"

/* Starts connecting if the link is idle, or if the pause after a silent peer is over. */
void ut_link_start_connecting(struct ut_link *link);
/* Checks every scheduled link: makes the next attempt to connect if it is due, posts queued
 * communications, closes a link that lacks memory. Returns the number of links that are no longer
 * scheduled. */
int ut_link_run_scheduled(struct ut_vcq *vcq);
/* Returns the time when the next scheduled link is due: `now` for a link that waits for queue
 * entries. UINT64_MAX: no link is scheduled. */
uint64_t ut_link_next_deadline(const struct ut_vcq *vcq, uint64_t now);
/* Closes the connections of a VCQ and frees its links. */
void ut_link_destroy_all(struct ut_vcq *vcq);
/* True if the pause after a silent peer is over, so that new communications may connect again. */
bool ut_link_pause_is_over(const struct ut_link *link);

/* Callbacks of the provider. `hello`: private data of the connect request or of the reply. */

/* The peer requests a connection. Accepts or rejects `conn`. `peer_key`: ut_vcq_id_key() of the
 * peer's VCQ. */
void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_key, const void *hello, size_t hello_size);
/* The peer accepted this side's request, or confirmed this side's reply: the connection is up. */
void ut_link_on_up(struct ut_link *link, const void *hello, size_t hello_size);
/* The connection broke, or the attempt to connect failed. Closes it. */
void ut_link_on_down(struct ut_link *link, enum prov_reason reason);

#endif
