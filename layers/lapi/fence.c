/* SPDX-License-Identifier: Apache-2.0 */
/* Has all arrived that was sent before? */
#include "send.h"
#include "tasks.h"

uint64_t la_send_serial(void)
{
    return la.requests.serial;
}

static bool any_request(uint64_t before)
{
    for (uint32_t i = 0; la.requests.num_free < LA_REQS && i < LA_REQS; i++)
        if (la.requests.reqs[i].used && la.requests.reqs[i].serial <= before &&
            !la.requests.reqs[i].cancelled &&
            (la.requests.reqs[i].queued || (la.requests.reqs[i].flags & LA_WANTS_FIN) != 0))
            return true;
    return false;
}

static bool is_settled(const struct la_peer *peer)
{
    return peer->gone || (int32_t)((uint32_t)peer->freed - peer->fence) >= 0;
}

bool la_send_unsettled(uint32_t *rank)
{
    const struct la_peer *peer;
    uint32_t at = 0;

    while ((peer = la_peer_next(&at)) != NULL) {
        if (is_settled(peer))
            continue;
        *rank = peer->rank;
        return true;
    }
    return false;
}

bool la_send_settled(uint64_t before, bool *posted)
{
    struct la_peer *peer;
    uint32_t at = 0;

    if (any_request(before))
        return false;
    while (!*posted && (peer = la_peer_next(&at)) != NULL)
        peer->fence = (uint32_t)peer->sent;
    *posted = true;
    at = 0;
    while ((peer = la_peer_next(&at)) != NULL) {
        if (is_settled(peer))
            continue;
        la_slots_ask(peer);
        return false;
    }
    return true;
}
