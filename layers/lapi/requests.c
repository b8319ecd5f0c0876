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
    la.requests.assists = NULL;
    la.requests.local_completions = 0;
    for (uint32_t i = 0; i < LA_REQS; i++) {
        la.requests.reqs[i] = (struct la_req){.index = (uint16_t)i};
        la.requests.free_reqs[la.requests.num_free++] = (uint16_t)(LA_REQS - 1 - i);
    }
}

const char *la_requests_describe(char text[LC_TEXT_SIZE])
{
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < LA_REQS; i++)
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
    if (r->assisting)
        return;
    r->assisting = true;
    r->next_assist = la.requests.assists;
    la.requests.assists = r;
}

void la_req_unlist_assist(struct la_req *r)
{
    struct la_req **at = &la.requests.assists;

    while (r->assisting && *at != r)
        at = &(*at)->next_assist;
    if (r->assisting)
        *at = r->next_assist;
    r->assisting = false;
}

struct la_req *la_req_alloc(const struct la_req *template)
{
    struct la_req *r = &la.requests.reqs[la.requests.free_reqs[--la.requests.num_free]];
    const uint16_t index = r->index;

    *r = *template;
    r->index = index;
    r->used = true;
    r->serial = ++la.requests.serial;
    return r;
}

void la_req_free(struct la_req *r)
{
    la_req_unlist_assist(r);
    if (r->reg != NULL)
        la_rcache_put(r->reg);
    r->reg = NULL;
    free(r->copy);
    r->copy = NULL;
    r->used = false;
    la.requests.free_reqs[la.requests.num_free++] = r->index;
}

static void run_handler(const struct la_req *r)
{
    const bool was = la.dispatching;
    lapi_handle_t hndl = la.handle;
    lapi_sh_info_t info = {.src = r->rank};

    la.dispatching = true;
    if (r->shdlr != NULL)
        r->shdlr(&hndl, r->info, &info);
    else
        r->chndlr(&hndl, r->info);
    la.dispatching = was;
}

/* Local completion: the data have left, or are in the record. */
void la_req_complete_locally(const struct la_req *r)
{
    if (r->shdlr != NULL || r->chndlr != NULL)
        run_handler(r);
    if (r->org_cntr != NULL)
        la_cntr_increment(r->org_cntr);
    la_count_local_completion();
}

/*
 * Replies of targets: notices on the reply area of a request.
 */

static void store_result(struct la_req *r, uint32_t offset, uint64_t word)
{
    if (r->kind == LA_GET && offset > LA_GET_DATA)
        memcpy(r->result, la.control.replies[r->index] + LA_GET_DATA, offset - LA_GET_DATA);
    else if (r->kind == LA_RMW && r->result != NULL)
        *(int *)r->result = (int)word;
    else if (r->kind == LA_RMW64 && r->result != NULL)
        *(long long *)r->result = (long long)word;
}

/* True if the reply says that the target did not execute the message. */
static bool is_failure(const struct la_req *r, uint32_t offset, uint64_t word)
{
    return offset <= LA_CMPL_END && r->kind != LA_RMW && r->kind != LA_RMW64 && word != 0;
}

static void finish_data(struct la_req *r, uint32_t offset, uint64_t word)
{
    store_result(r, offset, word);
    if (r->kind ==
        LA_GETV) /* layout of the copy: the list of the target, the data, the list of this task */
        la_vec_scatter((char *)r->copy + r->len, r->value, (char *)r->copy + r->value,
                       r->len - r->value);
    if (r->reg != NULL)
        la_rcache_put(r->reg);
    r->reg = NULL;
    la_req_complete_locally(r);
}

static bool is_expected(const struct la_req *r, uint32_t offset, uint8_t flag)
{
    if (!r->used || r->queued || (r->flags & flag) == 0)
        return false; /* a late reply to a request that was abandoned */
    return offset == LA_FIN_END || offset == LA_CMPL_END ||
           (offset > LA_GET_DATA && r->kind == LA_GET && offset - LA_GET_DATA == r->len);
}

void la_req_handle_reply(uint32_t index, uint32_t offset)
{
    struct la_req *r = &la.requests.reqs[index];
    uint8_t flag = offset == LA_CMPL_END ? LA_WANTS_CMPL : LA_WANTS_FIN;
    uint64_t word;

    if (offset == LA_ASSIST_REQUEST_END && (r->flags & LA_ASSIST) != 0) {
        if (r->used && !r->queued)
            la_req_list_assist(r);
        return;
    }
    if (!is_expected(r, offset, flag))
        return;
    memcpy(&word, la.control.replies[index] + (flag == LA_WANTS_CMPL ? 8 : 0), 8);
    r->flags &= (uint8_t)~flag;
    if (is_failure(r, offset, word)) {
        r->flags &= (uint8_t) ~(LA_WANTS_FIN | LA_WANTS_CMPL);
        la_report_failure((int)word, r->rank);
    } else if (flag == LA_WANTS_FIN) {
        finish_data(r, offset, word);
    } else if (r->cmpl_cntr != NULL) {
        la_cntr_increment(r->cmpl_cntr);
    }
    if ((r->flags & (LA_WANTS_FIN | LA_WANTS_CMPL)) == 0)
        la_req_free(r);
}

void la_req_peer_lost(uint32_t rank, bool gone)
{
    struct la_peer *peer = la_peer_find(rank);

    for (uint32_t i = 0; i < LA_REQS; i++) {
        struct la_req *r = &la.requests.reqs[i];

        if (!r->used || r->rank != rank)
            continue;
        if (r->queued)
            r->cancelled = true;
        else if (gone)
            la_req_free(r);
    }
    if (peer != NULL && gone)
        peer->gone = true;
}
