/* SPDX-License-Identifier: Apache-2.0 */
/* What targets say of messages of this task: notices on the reply of a request. */
#include "send.h"
#include "buffers.h"
#include "tasks.h"
#include "base.h"

#include <string.h>

static void store_result(struct la_req *r, uint32_t offset, uint64_t word)
{
    if (r->kind == LA_GET && offset > LA_CMPL)
        memcpy(r->result, la.control.replies[r->index] + LA_CMPL, offset - LA_CMPL);
    else if (r->kind == LA_RMW && r->result != NULL)
        *(int *)r->result = (int)word;
    else if (r->kind == LA_RMW64 && r->result != NULL)
        *(long long *)r->result = (long long)word;
}

/* Is it a code that says that the message was not executed? */
static bool is_failure(const struct la_req *r, uint32_t offset, uint64_t word)
{
    return offset <= LA_CMPL && r->kind != LA_RMW && r->kind != LA_RMW64 && word != 0;
}

static void finish_data(struct la_req *r, uint32_t offset, uint64_t word)
{
    store_result(r, offset, word);
    if (r->kind == LA_GETV) /* the list of the target, the data, the list of this task */
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
        return false; /* of a task that was given up */
    return offset == LA_FIN || offset == LA_CMPL ||
           (offset > LA_CMPL && r->kind == LA_GET && offset - LA_CMPL == r->len);
}

void la_req_handle_reply(uint32_t index, uint32_t offset)
{
    struct la_req *r = &la.requests.reqs[index];
    uint8_t flag = offset == LA_CMPL ? LA_WANTS_CMPL : LA_WANTS_FIN;
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
