/* SPDX-License-Identifier: Apache-2.0 */
/* Disconnecting and destruction of connections: see reap.h. */
#include "reap.h"

#include "verbs/ports/qp_budget.h"
#include "probe.h"
#include "verbs/data/qp.h"
#include "verbs/data/recvs.h"
#include "verbs/wake.h"
#include "cm_ops.h"
#include "util/assert.h"
#include "util/fd_check.h"

void vp_handshake_not_in_flight_locked(struct vp_conn *conn)
{
    UT_ASSERT_LOCKED(&conn->ep->prov->lock);
    UT_ASSERT(!conn->hs.in_flight || conn->ep->prov->connecting > 0);
    if (conn->hs.in_flight)
        conn->ep->prov->connecting--;
    conn->hs.in_flight = false;
}

void vp_cm_abandon_locked(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    UT_ASSERT_LOCKED(&prov->lock);
    if (conn->abandoned)
        return;
    conn->abandoned = true;
    vp_budget_mark_ending_locked(conn);
    vp_probe_forget_locked(prov, conn);
    vp_list_remove(&conn->ev_link);
    vp_handshake_unlink(conn);
    vp_list_append(&conn->ep->dying, &conn->ep_link);
    ut_hash_remove(&conn->ep->by_origin, &conn->by_origin);
    if (conn->hs.busy)
        return;
    if (vp_list_empty(&prov->reaping) || conn->hs.in_flight)
        vp_kick(prov); /* to destroy the connection, or to start the next handshake */
    vp_handshake_not_in_flight_locked(conn);
    vp_list_append(&prov->reaping, &conn->hs.link);
}

void vp_conn_not_busy(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    conn->hs.busy = false;
    if (conn->abandoned) {
        vp_handshake_not_in_flight_locked(conn);
        vp_list_append(&prov->reaping, &conn->hs.link);
    }
    pthread_cond_broadcast(&prov->changed);
    pthread_mutex_unlock(&prov->lock);
}

void vp_conn_schedule_disconnect_locked(struct vp_conn *conn)
{
    UT_ASSERT_LOCKED(&conn->ep->prov->lock);
    if (conn->phase != VP_ESTABLISHED || conn->abandoned)
        return;
    vp_list_append(&conn->ep->prov->reaping, &conn->hs.link);
    vp_kick(conn->ep->prov);
}

/* Sends the disconnect request. The queue pair, in the error state, is destroyed later. */
static void disconnect_from_peer(struct vp_conn *conn)
{
    if (conn->id.ops)
        conn->id.ops->disconnect(&conn->id);
    pthread_mutex_lock(&conn->ep->prov->lock);
    conn->phase = VP_HS_FAILED;
    pthread_mutex_unlock(&conn->ep->prov->lock);
    vp_conn_not_busy(conn);
}

/* Disconnects or rejects the peer, and destroys the id. */
static void close_id(struct vp_conn *conn)
{
    struct vp_cm_id *id = &conn->id;
    bool closing = __atomic_load_n(&conn->ep->closing, __ATOMIC_RELAXED); /* without the lock */

    if (id->ops && conn->phase == VP_ESTABLISHED)
        id->ops->disconnect(id);
    else if (id->ops && (conn->phase == VP_REQUESTED || conn->phase == VP_ACCEPTING))
        id->ops->reject(id,
                        closing ? VP_REJ_NO_ENDPOINT : (enum vp_reject_reason)conn->reject_reason);
    vp_cm_id_destroy(id);
}

/* The connection must be in no list but `dying`, and no step of its handshake may run. */
static void destroy_conn(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_prov *prov = ep->prov;

    UT_ASSERT(conn->abandoned && !conn->hs.busy && !conn->in_table &&
              conn->last_request != VP_LAST_RESERVED);
    UT_ASSERT(!vp_heap_has(&conn->hs.timer));
    close_id(conn);
    if (!conn->end.stuck)
        vp_conn_drop_qp(conn);
    else if (conn->qp && !ut_fd_were_closed())
        ibv_destroy_qp(conn->qp); /* late completions may refer to requests of the connection */
    if (conn->end.stuck && !ut_fd_were_closed())
        vp_recvs_destroy(conn);
    pthread_mutex_lock(&prov->lock);
    vp_budget_release_locked(conn);
    if (conn->end.stuck)
        vp_list_append(&ep->stuck, &conn->ep_link);
    else
        vp_conn_free(conn);
    pthread_cond_broadcast(&prov->changed); /* ep_close() may destroy the queues now */
    pthread_mutex_unlock(&prov->lock);
}

void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep)
{
    for (;;) {
        struct vp_conn *conn = NULL;
        pthread_mutex_lock(&prov->lock);
        for (struct vp_list *l = prov->reaping.next; l != &prov->reaping; l = l->next) {
            conn = vp_container_of(l, struct vp_conn, hs.link);
            if (!ep || conn->ep == ep)
                break;
            conn = NULL;
        }
        bool disconnects = conn && !conn->abandoned;
        if (conn)
            vp_handshake_unlink(conn);
        if (disconnects)
            conn->hs.busy = true;
        pthread_mutex_unlock(&prov->lock);
        if (!conn)
            return;
        if (disconnects)
            disconnect_from_peer(conn);
        else
            destroy_conn(conn);
    }
}
