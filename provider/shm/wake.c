/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes the background thread and the owners of endpoints; keeps the list of active connections;
 * takes connections down.
 */
#include "wake.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "ring.h"
#include "types.h"
#include "util/assert.h"
#include "util/fd_check.h"
#include "util/log.h"

enum { TICK_NS = 1000000 };

void sp_request_peer_checks(struct sp_prov *prov)
{
    UT_ASSERT_LOCKED(&prov->lock);
    for (uint32_t i = 0; i < prov->eps_high_water; i++) {
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

    if (ut_fd_check_still_ours(prov->kick_fd) && write(prov->kick_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the descriptor is readable already */
}

void sp_start_timer(struct sp_prov *prov)
{
    struct itimerspec soon = {.it_value = {.tv_nsec = TICK_NS}};

    if (__atomic_exchange_n(&prov->timer_on, 1, __ATOMIC_SEQ_CST) == 0)
        timerfd_settime(prov->timer_fd, 0, &soon, NULL);
}

void sp_ep_wake_soon(struct sp_ep *ep)
{
    __atomic_store_n(&ep->wake_by_timer, 1, __ATOMIC_SEQ_CST);
    sp_start_timer(ep->prov);
}

void sp_conn_activate(struct sp_conn *conn)
{
    struct sp_ep *ep = conn->ep;

    if (conn->active_index != 0)
        return;
    UT_ASSERT(ep->num_active < ep->num_live && ep->num_live <= ep->active_size);
    ep->active[ep->num_active++] = conn;
    conn->active_index = ep->num_active;
    /* the owner is blocked and may not poll soon */
    if (__atomic_load_n(&ep->ring->armed, __ATOMIC_RELAXED))
        sp_ep_wake_soon(ep);
}

void sp_conn_deactivate(struct sp_conn *conn)
{
    struct sp_ep *ep = conn->ep;

    if (conn->active_index == 0)
        return;
    UT_ASSERT(conn->active_index <= ep->num_active && ep->active[conn->active_index - 1] == conn);
    struct sp_conn *last = ep->active[--ep->num_active];
    ep->active[conn->active_index - 1] = last;
    last->active_index = conn->active_index;
    conn->active_index = 0;
}

void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason)
{
    if (conn->state == SP_CONN_DOWN)
        return;
    UT_ASSERT(!conn->closed);
    /* before the owner accepts, the connection has no context: sp_accept() makes down() due */
    conn->down_due = conn->state != SP_CONN_REQUESTED;
    conn->state = SP_CONN_DOWN;
    conn->mapping.size = 0;
    conn->reason = (uint8_t)reason;
    if (conn->ctl != SP_CTL_ERROR)
        conn->ctl = SP_CTL_NONE;
    if (conn->down_due)
        sp_conn_activate(conn);
}

bool sp_conn_check_ring(struct sp_conn *conn)
{
    if (__builtin_expect(!sp_ring_is_damaged(conn->ring), 1))
        return false;
    if (conn->closed || conn->state == SP_CONN_DOWN)
        return true;
    ut_error(SP_LOG,
             "process %ld: the ring of its endpoint %#llx was overwritten, by a process of this "
             "job that writes outside its memory; the endpoint cannot be reached any more",
             (long)conn->peer->pid, (unsigned long long)conn->rmt_id);
    sp_conn_go_down(conn, PROV_REASON_PEER_DEAD);
    return true;
}
