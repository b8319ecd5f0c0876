/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long transfers, by the fabric's reads (RMA). Whoever is to get the data fetches them from its
 * peer, into buffers of its own, and copies them from there. So a fabric need not promise more than
 * that what a completed read has brought is there: a program sees data come in the order of that
 * copying, and the target checks and counts operations as it does where data travel in messages.
 * A write is offered by its origin, what a read asks for by its target.
 */
#ifndef FP_PULL_H
#define FP_PULL_H

#include "types.h"

/* May the peer fetch this from a region of ours, and is it long enough? Fills in where it finds
 * it. */
bool fp_pull_offers(const struct fp_conn *conn, uint32_t key, uint64_t addr, uint32_t length,
                    struct fp_offer *offer);

/* Fetches what the peer offers: to offer->x.rmt, by the key offer->x.rkey. False: no memory, or too
 * many. */
bool fp_pull_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read);

/* Asks the fabric for as much as there is room for. */
void fp_pull_ask(struct fp_conn *conn);

/* The fabric has fetched something, or failed to. Copies what has come, in order. */
void fp_pull_came(struct fp_buf *buf);
void fp_pull_failed(struct fp_buf *buf, int error);

/* Takes the first one if it has ended. */
bool fp_pull_take(struct fp_conn *conn, struct fp_pull *ended);

/* The connection is down: what the fabric still brings is not looked at. */
void fp_pulls_drop(struct fp_conn *conn);

#endif
