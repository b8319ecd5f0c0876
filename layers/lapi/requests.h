/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of this task that are not complete, and the replies of their targets. */
#ifndef LA_REQUESTS_H
#define LA_REQUESTS_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_requests_setup(void);
/* Copies the template into a free request; requires la.requests.num_free > 0. */
struct la_req *la_req_alloc(const struct la_req *template);
void la_req_free(struct la_req *r);
/* False: the request has completed meanwhile, and may be reused. serial: r->serial of before. */
static inline bool la_req_is_same(const struct la_req *r, uint64_t serial)
{
    return r->used && r->serial == serial;
}
static inline struct la_reply_area *la_req_reply_area(const struct la_req *r)
{
    return &la.control.replies[r->index];
}
/* The list of requests with chunks that this task may put. */
void la_req_list_assist(struct la_req *r);   /* adds the request, unless it is in the list */
void la_req_unlist_assist(struct la_req *r); /* removes it */
/* For LAPI_Msgpoll(). */
static inline void la_count_local_completion(void)
{
    la.requests.local_completions++;
}
/* Local completion: the data have left, or are in the record. Runs the send handler, and increments
 * the origin counter. */
void la_req_complete_locally(const struct la_req *r);
/* "2 messages of this task are in flight, one of them to task 3" */
const char *la_requests_describe(char text[LC_TEXT_SIZE]);

/* A put has written to the reply area of request `index`. end: offset one past its last byte, see
 * LA_REPLY_END(). */
void la_req_handle_reply(uint32_t index, uint32_t end);
void la_req_cancel_queued(uint32_t rank); /* requests to the task that have no slot yet */
void la_req_peer_gone(uint32_t rank);     /* abandons all requests to the task */

#pragma GCC visibility pop

#endif
