/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of this task. */
#ifndef LA_SEND_H
#define LA_SEND_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * requests.c: those of which something is still to be done.
 */
void la_requests_setup(void);
/* A copy of it, with a number of its own; there is one. */
struct la_req *la_req_alloc(const struct la_req *template);
void la_req_free(struct la_req *r);
/* It may have ended meanwhile. */
static inline bool la_req_is_same(const struct la_req *r, uint64_t serial)
{
    return r->used && r->serial == serial;
}
void la_req_list_assist(struct la_req *r);
void la_req_unlist_assist(struct la_req *r);
static inline void la_count_local_completion(void)
{
    la.requests.local_completions++;
}
/* Its data has left, or is in the record. */
void la_req_complete_locally(const struct la_req *r);
/* "2 messages of this task are under way, one of them to task 3" */
const char *la_requests_describe(char text[LC_TEXT_SIZE]);

/*
 * slots.c: those of a target.
 */
static inline bool la_has_own_lane(const struct la_peer *peer)
{
    return peer->lane < LA_LANES;
}
static inline uint32_t la_slots_of(const struct la_peer *peer)
{
    return la_has_own_lane(peer) ? LA_LANE_SLOTS : LA_SHARED_SLOTS;
}
void la_slots_read_freed(struct la_peer *peer); /* how many are free again */
/* The slot of the next record, or LA_SLOTS: there is none at the moment. */
uint32_t la_slots_alloc(struct la_peer *peer);

/*
 * assist.c: moves pieces of data that the target does not move itself.
 */
bool la_assist_put_piece(void);
bool la_assist_is_pending(void);

/*
 * send.c
 */
void la_send_setup(void);
/* A LAPI_ERR_* code; what->reg and what->copy are given away in any case. */
int la_send(const struct la_req *template);
/* A message that needs no answer, in one line. False: it does not fit, or cannot leave in this way
 * now; nothing was done. */
bool la_send_inline(enum la_kind kind, uint32_t rank, uint64_t at, const void *uhdr,
                    uint32_t uhdr_len, const void *data, uint64_t len, uint64_t tgt_cntr);
/* Data that does not fit into the record is registered first. */
int la_send_data(struct la_req *r);
bool la_send_queued(void);

/*
 * replies.c
 */
void la_req_handle_reply(uint32_t index, uint32_t offset);
void la_req_peer_lost(uint32_t rank, bool gone); /* nothing goes there any more */

/*
 * fence.c
 */
uint64_t last_serial(void);
/* All up to this serial number have arrived; posted is false at the first call for it. */
bool all_sent_arrived(uint64_t before, bool *posted);
/* Of one that has not taken all that was sent to it before a fence; false: there is none. */
bool find_unarrived(uint32_t *rank);

#pragma GCC visibility pop

#endif
