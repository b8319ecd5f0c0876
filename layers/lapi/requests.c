/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of this task that are not complete. A request refers to memory of the program, so data
 * are not copied. The number of requests is fixed.
 */
#include "requests.h"
#include "errors.h"
#include "peers.h"
#include "rcache.h"
#include "vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void la_requests_setup(void)
{
    la.requests.num_free = 0;
    la.requests.assist_list = NULL;
    la.requests.local_completions = 0;
    for (uint32_t i = 0; i < LA_NUM_REQS; i++) {
        la.requests.reqs[i] = (struct la_req){.index = (uint16_t)i};
        la.requests.free_reqs[la.requests.num_free++] = (uint16_t)(LA_NUM_REQS - 1 - i);
    }
}

const char *la_requests_describe(char text[LC_TEXT_SIZE])
{
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < LA_NUM_REQS; i++)
        if (la.requests.reqs[i].used && !la.requests.reqs[i].cancelled && n++ == 0)
            rank = la.requests.reqs[i].rank;
    if (n == 0)
        snprintf(text, LC_TEXT_SIZE, "no message of this task is in flight");
    else if (n == 1)
        snprintf(text, LC_TEXT_SIZE, "one message of this task is in flight, to task %u", rank);
    else
        snprintf(text, LC_TEXT_SIZE,
                 "%u messages of this task are in flight, one of them to task %u", n, rank);
    return text;
}

void la_req_list_assist(struct la_req *r)
{
    if (r->in_assist_list)
        return;
    r->in_assist_list = true;
    r->next_assist = la.requests.assist_list;
    la.requests.assist_list = r;
}

void la_req_unlist_assist(struct la_req *r)
{
    struct la_req **at = &la.requests.assist_list;

    while (r->in_assist_list && *at != r)
        at = &(*at)->next_assist;
    if (r->in_assist_list)
        *at = r->next_assist;
    r->in_assist_list = false;
}

struct la_req *la_req_alloc(const struct la_req *template)
{
    struct la_req *r = &la.requests.reqs[la.requests.free_reqs[--la.requests.num_free]];
    const uint16_t index = r->index;

    *r = *template;
    r->index = index;
    r->used = true;
    r->serial = ++la.requests.last_serial;
    return r;
}

void la_req_free(struct la_req *r)
{
    la_req_unlist_assist(r);
    if (r->region != NULL)
        la_rcache_put(r->region);
    r->region = NULL;
    free(r->copy);
    r->copy = NULL;
    r->used = false;
    la.requests.free_reqs[la.requests.num_free++] = r->index;
}

/* The send or completion handler of LAPI_Xfer(), at the origin. */
static void run_org_handler(const struct la_req *r)
{
    const bool was_dispatching = la.dispatching;
    lapi_handle_t hndl = la.handle;
    lapi_sh_info_t info = {.src = r->rank};

    la.dispatching = true;
    if (r->shdlr != NULL)
        r->shdlr(&hndl, r->handler_arg, &info);
    else
        r->chndlr(&hndl, r->handler_arg);
    la.dispatching = was_dispatching;
}

void la_req_complete_locally(const struct la_req *r)
{
    if (r->shdlr != NULL || r->chndlr != NULL)
        run_org_handler(r);
    if (r->org_cntr != NULL)
        la_cntr_increment(r->org_cntr);
    la_count_local_completion();
}

/*
 * Replies of targets: notices on the reply area of a request.
 */

/* end: one past the last byte of the reply area that the reply has written. word: its fin or cmpl.
 */
static void store_result(struct la_req *r, uint32_t end, uint64_t word)
{
    if (r->kind == LA_GET && end > LA_REPLY_OFFSET(get_data))
        memcpy(r->result, la_req_reply_area(r)->get_data, end - LA_REPLY_OFFSET(get_data));
    else if (r->kind == LA_RMW && r->result != NULL)
        *(int *)r->result = (int)word;
    else if (r->kind == LA_RMW64 && r->result != NULL)
        *(long long *)r->result = (long long)word;
}

/* True if the reply says that the target did not execute the message. A reply to an atomic
 * operation is the old value. */
static bool is_failure_reply(const struct la_req *r, uint32_t end, uint64_t word)
{
    return end <= LA_REPLY_END(cmpl) && r->kind != LA_RMW && r->kind != LA_RMW64 && word != 0;
}

/* The result is here, or the target has fetched the data. */
static void handle_fin(struct la_req *r, uint32_t end, uint64_t word)
{
    store_result(r, end, word);
    if (r->kind ==
        LA_GETV) /* layout of the copy: the list of the target, the data, the list of this task */
        la_list_scatter((char *)r->copy + r->total_len, r->list_size,
                        (char *)r->copy + r->list_size, r->total_len - r->list_size);
    if (r->region != NULL)
        la_rcache_put(r->region);
    r->region = NULL;
    la_req_complete_locally(r);
}

/* flag: LA_WANTS_FIN or LA_WANTS_CMPL, whichever the reply answers. */
static bool is_expected_reply(const struct la_req *r, uint32_t end, uint8_t flag)
{
    if (!r->used || r->queued || (r->flags & flag) == 0)
        return false; /* a late reply to a request that was abandoned */
    return end == LA_REPLY_END(fin) || end == LA_REPLY_END(cmpl) ||
           (end > LA_REPLY_OFFSET(get_data) && r->kind == LA_GET &&
            end - LA_REPLY_OFFSET(get_data) == r->total_len);
}

void la_req_handle_reply(uint32_t index, uint32_t end)
{
    struct la_req *r = &la.requests.reqs[index];
    const struct la_reply_area *reply = la_req_reply_area(r);
    uint8_t flag = end == LA_REPLY_END(cmpl) ? LA_WANTS_CMPL : LA_WANTS_FIN;
    uint64_t word = flag == LA_WANTS_CMPL ? reply->cmpl : reply->fin;

    if (end == LA_REPLY_END(assist_request) && (r->flags & LA_ASSIST) != 0) {
        if (r->used && !r->queued)
            la_req_list_assist(r);
        return;
    }
    if (!is_expected_reply(r, end, flag))
        return;
    r->flags &= (uint8_t)~flag;
    if (is_failure_reply(r, end, word)) {
        r->flags &= (uint8_t) ~(LA_WANTS_FIN | LA_WANTS_CMPL);
        la_report_failure((int)word, r->rank);
    } else if (flag == LA_WANTS_FIN) {
        handle_fin(r, end, word);
    } else if (r->cmpl_cntr != NULL) {
        la_cntr_increment(r->cmpl_cntr);
    }
    if ((r->flags & (LA_WANTS_FIN | LA_WANTS_CMPL)) == 0)
        la_req_free(r);
}

void la_req_cancel_queued(uint32_t rank)
{
    for (uint32_t i = 0; i < LA_NUM_REQS; i++)
        if (la.requests.reqs[i].queued && la.requests.reqs[i].rank == rank)
            la.requests.reqs[i].cancelled = true;
}

void la_req_peer_gone(uint32_t rank)
{
    struct la_peer *peer = la_peer_find(rank);

    la_req_cancel_queued(rank);
    for (uint32_t i = 0; i < LA_NUM_REQS; i++) {
        struct la_req *r = &la.requests.reqs[i];

        if (r->used && !r->queued && r->rank == rank)
            la_req_free(r);
    }
    if (peer != NULL)
        peer->gone = true;
}
