/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a VCQ: creation, lookup by the peer's id, and pending work for messages to users. */
#include "link/link.h"

#include <stdlib.h>

#include "link/rails.h"
#include "vcq/wait.h"

struct ut_link *ut_link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer)
{
    struct ut_link *link = calloc(1, sizeof(*link));

    if (!link)
        return NULL;
    link->vcq = vcq;
    link->peer = ut_vcq_id_canonical(peer);
    link->id_key = ut_vcq_id_key(link->peer);
    link->peer_component_id = (uint8_t)peer->cmp;
    link->peer_tni = (uint8_t)(ut_vcq_ident_is_of_program(peer) ? peer->tni : peer->cmp);
    link->first = link->to_post = UT_NO_SLOT;
    link->list_end = &link->first;
    ut_announced_clear(&link->tx_announced);
    ut_announced_clear(&link->rx_announced);
    link->reading = UT_STAG_NONE;
    link->unacked_last = &link->unacked_first;
    link->early_last = &link->early_first;
    link->rx_history = ut_rx_history_find(ut_vcq_id_key(vcq->id), link->id_key);
    link->rx_number = link->rx_history.count;
    link->all_next = vcq->all_links;
    vcq->all_links = link;
    return link;
}

struct ut_link ut_link_none;

struct ut_link *ut_link_lookup(struct ut_vcq *vcq, uint64_t key)
{
    struct ut_link *link;

    return UT_HASH_OBJECT(link, by_key, ut_hash_find(&vcq->links_by_key, key));
}

void ut_link_set_last(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id)
{
    vcq->last_link = link;
    vcq->last_id = id;
}

struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link = ut_link_lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    struct ut_vcq_ident ident;

    if (!link && ut_vcq_id_unpack(rmt_vcq_id, &ident)) {
        if (!ut_hash_reserve(&vcq->links_by_key) || !(link = ut_link_new(vcq, &ident)))
            return NULL;
        ut_hash_insert(&vcq->links_by_key, &link->by_key, link->id_key);
    }
    if (link)
        ut_link_set_last(vcq, link, rmt_vcq_id);
    return link;
}

void ut_link_drop_stag_cache(struct ut_link *link)
{
    link->last_stag.size = 0;
    ut_stag_cache_free(&link->stag_cache);
}

void ut_link_schedule(struct ut_link *link)
{
    if (link->is_scheduled)
        return;
    link->is_scheduled = true;
    link->next_scheduled = link->vcq->scheduled_links;
    link->vcq->scheduled_links = link;
    if (!link->vcq->runs_scheduled) /* otherwise ut_link_run_scheduled() is up the stack */
        ut_vcq_request_progress(link->vcq);
}

struct ut_link_pending ut_link_pending(const struct ut_link *link)
{
    const struct ut_vcq *vcq = link->vcq;
    struct ut_link_pending n = {0};
    uint32_t limit = vcq->toq_mask + 1;

    for (uint32_t i = link->first; i != UT_NO_SLOT && limit > 0; i = vcq->toq[i].next, limit--) {
        n.waiting += vcq->toq[i].state == UT_SLOT_WAITING;
        n.posted += vcq->toq[i].state == UT_SLOT_POSTED;
        n.done += vcq->toq[i].state == UT_SLOT_DONE;
    }
    for (const struct ut_link_msg *m = link->unacked_first; m; m = m->next)
        n.messages++;
    return n;
}

const char *ut_link_wait_reason(const struct ut_link *link, const struct ut_link_pending *pending)
{
    switch (link->state) {
    case UT_LINK_IDLE:
        return "nothing: the link is not connected";
    case UT_LINK_RESOLVING:
        return link->was_up ? "the next attempt to connect again"
                            : "the peer's process to call the library and to create that VCQ, or "
                              "the next attempt to connect";
    case UT_LINK_CONNECTING:
        return "the peer's reply to the connect request";
    case UT_LINK_AWAITING:
        return "the connect request that the peer has sent";
    case UT_LINK_SILENT:
        return "nothing: the peer was silent";
    case UT_LINK_GONE:
        return "nothing: the peer is gone";
    }
    if (link->reading != UT_STAG_NONE)
        return "an entry of the peer's STag table";
    if (link->to_post != UT_NO_SLOT || link->msg_to_post)
        return "a free entry in the provider's queue";
    if (link->unordered_out > ut_rails_outstanding(link))
        return "the peer's reply to an ARMW";
    return pending->posted || pending->messages ? "completions"
                                                : "nothing: no communication uses the link";
}
