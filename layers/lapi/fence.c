/* SPDX-License-Identifier: Apache-2.0 */
/* Has all arrived that was sent before? */
#include "send.h"
#include "tasks.h"

uint64_t last_serial(void)
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

static bool has_arrived(const struct la_peer *peer)
{
    return peer->gone || (int32_t)((uint32_t)peer->freed - peer->fence) >= 0;
}

bool find_unarrived(uint32_t *rank)
{
    const struct la_peer *peer;
    uint32_t at = 0;

    while ((peer = la_peer_next(&at)) != NULL) {
        if (has_arrived(peer))
            continue;
        *rank = peer->rank;
        return true;
    }
    return false;
}

bool all_sent_arrived(uint64_t before, bool *posted)
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
        if (has_arrived(peer))
            continue;
        la_slots_read_freed(peer);
        return false;
    }
    return true;
}
