/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of this task of which something is still to be done. A request holds pointers to the
 * program's memory, so that nothing is copied, and their number is fixed.
 */
#include "send.h"
#include "buffers.h"
#include "base.h"

#include <stdio.h>
#include <stdlib.h>

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
        snprintf(text, LC_TEXT_SIZE, "no message of this task is under way");
    else if (n == 1)
        snprintf(text, LC_TEXT_SIZE, "one message of this task is under way, to task %u", rank);
    else
        snprintf(text, LC_TEXT_SIZE,
                 "%u messages of this task are under way, one of them to task %u", n, rank);
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

/* Its data has left, or is in the record. */
void la_req_complete_locally(const struct la_req *r)
{
    if (r->shdlr != NULL || r->chndlr != NULL)
        run_handler(r);
    if (r->org_cntr != NULL)
        la_cntr_increment(r->org_cntr);
    la_count_local_completion();
}
