/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of LAPI, whose records are counted from just below 2^32: a fence compares the lower half.
 */
#include "../../layers/lapi/control.h"
#include "../../layers/lapi/inbox.h"
#include "../../layers/lapi/peers.h"
#include "../../layers/lapi/slots.h"
#include "../../layers/lapi/sync.h"
#include "wraps.h"

#define FIRST (UINT64_C(1) + UINT32_MAX - 2 * LA_LANE_SLOTS)

void __real_la_inbox_setup(void);
void __wrap_la_inbox_setup(void);
void __wrap_la_inbox_setup(void)
{
    __real_la_inbox_setup();
    for (int lane = 0; lane < LA_PRIVATE_LANES; lane++)
        la.inbox.num_consumed[lane] = FIRST;
}

bool __real_la_control_setup(void);
bool __wrap_la_control_setup(void);
bool __wrap_la_control_setup(void)
{
    if (!__real_la_control_setup())
        return false;
    for (int lane = 0; lane < LA_PRIVATE_LANES; lane++)
        la.control.words->freed[lane] = FIRST;
    return true;
}

struct la_peer *__real_la_peer_connect(uint32_t rank, int *rc);
struct la_peer *__wrap_la_peer_connect(uint32_t rank, int *rc);
struct la_peer *__wrap_la_peer_connect(uint32_t rank, int *rc)
{
    struct la_peer *peer = __real_la_peer_connect(rank, rc);

    if (peer && la_has_private_lane(peer) && peer->lane_used == 0)
        peer->lane_used = peer->lane_freed = FIRST;
    return peer;
}

int __real_la_fence(const char *function);
int __wrap_la_fence(const char *function);
int __wrap_la_fence(const char *function)
{
    const struct la_peer *peer;
    uint32_t cursor = 0;
    int rc = __real_la_fence(function);

    while ((peer = la_peer_iterate(&cursor)) != NULL)
        wraps_note("la_peer.fence", peer->fence > 0 && wraps_over32(peer->fence));
    return rc;
}
