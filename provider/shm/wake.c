/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread, and through it the owners of endpoints. */
#include "wake.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "ep_types.h"
#include "prov_types.h"
#include "util/assert.h"
#include "util/fd_check.h"

enum { TICK_NS = 1000000 };

void sp_request_peer_checks(struct sp_prov *prov)
{
    UT_ASSERT_LOCKED(&prov->lock);
    for (uint32_t i = 0; i < prov->num_eps; i++) {
        struct sp_ep *ep = prov->eps[i];
        if (!ep)
            continue;
        __atomic_store_n(&ep->must_check_peers, 1, __ATOMIC_SEQ_CST);
        if (__atomic_exchange_n(&ep->ring->armed, 0, __ATOMIC_SEQ_CST))
            __atomic_store_n(&ep->ring->rung, 1, __ATOMIC_SEQ_CST);
    }
}

void sp_kick(struct sp_prov *prov)
{
    uint64_t one = 1;

    if (ut_fd_check_own(prov->kick_fd) && write(prov->kick_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: the descriptor is already readable */
}

void sp_start_timer(struct sp_prov *prov)
{
    struct itimerspec soon = {.it_value = {.tv_nsec = TICK_NS}};

    if (__atomic_exchange_n(&prov->timer_on, 1, __ATOMIC_SEQ_CST) == 0)
        timerfd_settime(prov->timer_fd, 0, &soon, NULL);
}
