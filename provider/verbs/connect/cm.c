/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of handshakes. progress() drives it, so that a handshake never blocks the
 * owner. The messages are sent by the connection managers of cm_ops.h. Queue pairs are not created
 * by rdma_create_qp(): so the library can repeat a request with the same queue pair and its own
 * timers.
 *
 *   active   QUEUED -> RESOLVING -> ROUTING -> CONNECTING -> CONFIRMING -> ESTABLISHED,
 *            or BACKOFF -> QUEUED, or HS_FAILED
 *   passive  REQUESTED -> ACCEPTING -> ACCEPTED -> ESTABLISHED, or HS_FAILED
 */
#include "cm.h"

#include "passive.h"
#include "active.h"
#include "verbs/conn_types.h"
#include "verbs/ep_types.h"
#include "verbs/ports/qp_budget.h"
#include "probe.h"
#include "rdmacm.h"
#include "reap.h"
#include "handshake.h"
#include "udcm.h"
#include "util/clock.h"
#include "util/log.h"
#include "verbs/wake.h"
#include "cm_ops.h"

/* Returns the next handshake to run. Replies to peers come first and always run. First attempts run
 * as the window allows. Repeated attempts always run, since their intervals grow: a peer that does
 * not answer delays no other peer. Every handshake needs a queue pair from the budget. */
static struct vp_conn *first_queued_locked(struct vp_prov *prov)
{
    if (!vp_list_empty(&prov->accepts))
        return vp_container_of(prov->accepts.next, struct vp_conn, hs.link);
    if (vp_list_empty(&prov->queue))
        return NULL;
    struct vp_conn *first = vp_container_of(prov->queue.next, struct vp_conn, hs.link);
    return first->hs.tries > 0 || prov->connecting < prov->window ? first : NULL;
}

static struct vp_conn *next_queued(struct vp_prov *prov)
{
    struct vp_conn *conn;

    pthread_mutex_lock(&prov->lock);
    do
        conn = first_queued_locked(prov);
    while (conn && !vp_budget_acquire_locked(conn));
    if (conn) {
        conn->hs.in_flight = conn->active && conn->hs.tries == 0;
        prov->connecting += conn->hs.in_flight;
        vp_handshake_unlink(conn);
        conn->hs.busy = true;
    }
    pthread_mutex_unlock(&prov->lock);
    return conn;
}

static bool is_stale(const struct vp_conn *conn)
{
    return ut_clock_ms() - conn->hs.started > vp_request_deadline_ms(conn);
}

void vp_cm_run_queue(struct vp_prov *prov)
{
    struct vp_conn *conn;

    while ((conn = next_queued(prov))) {
        if (conn->active)
            vp_active_begin(conn);
        else if (is_stale(conn))
            vp_passive_reject_busy(conn);
        else
            vp_passive_send_reply(conn);
        vp_conn_not_busy(conn);
    }
}

static void handle_timeout(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    if (conn->phase == VP_ACCEPTED) {
        ut_info(VP_CAT, "an accepted connection was never confirmed");
        vp_handshake_fail(conn,
                          PROV_REASON_BROKEN); /* the origin may have given up, but be alive */
        return;
    }
    if (conn->phase != VP_BACKOFF) {
        vp_handshake_retry(conn, VP_ATTEMPT_NO_ANSWER);
        return;
    }
    pthread_mutex_lock(&prov->lock);
    if (!conn->abandoned) {
        conn->phase = VP_QUEUED;
        vp_list_append(prov->queue.next,
                       &conn->hs.link); /* at the front, since it has waited already */
    }
    pthread_mutex_unlock(&prov->lock);
}

/* Rejects requests that have waited too long for a queue pair. The peers learn that this process is
 * alive, and send their requests again. */
void vp_cm_reject_overdue(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *conn;

    do {
        pthread_mutex_lock(&prov->lock);
        conn = vp_budget_take_overdue_locked(prov, now, vp_request_deadline_ms);
        if (conn)
            conn->hs.busy = true;
        pthread_mutex_unlock(&prov->lock);
        if (conn) {
            vp_passive_reject_busy(conn);
            vp_conn_not_busy(conn);
        }
    } while (conn);
}

static struct vp_conn *next_timed_out(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *late = NULL;

    pthread_mutex_lock(&prov->lock);
    struct vp_heap_node *due = vp_heap_due(&prov->handshake_timers, now);
    prov->next_deadline = vp_heap_next(&prov->handshake_timers);
    if (due) {
        late = vp_container_of(due, struct vp_conn, hs.timer);
        vp_handshake_unlink(late);
        late->hs.busy = true;
    }
    pthread_mutex_unlock(&prov->lock);
    return late;
}

void vp_cm_run_timers(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *conn;

    if (!prov->next_deadline || prov->next_deadline > now)
        return;
    while ((conn = next_timed_out(prov, now))) {
        handle_timeout(conn);
        vp_conn_not_busy(conn);
    }
}

static void handle_conn_event(struct vp_conn *conn, const struct vp_cm_event *event)
{
    enum vp_attempt_result result = VP_ATTEMPT_NO_ANSWER;

    switch (event->type) {
    case VP_CM_ADDR_RESOLVED:
        vp_active_resolve_route(conn);
        break;
    case VP_CM_ROUTE_RESOLVED:
        vp_active_send_request(conn);
        break;
    case VP_CM_CONNECT_RESPONSE:
        vp_active_handle_response(conn, event);
        break;
    case VP_CM_ESTABLISHED:
        vp_handshake_complete(conn);
        break;
    case VP_CM_REJECTED:
        vp_active_handle_reject(conn, event);
        break;
    case VP_CM_RESOLVE_ERROR:
        result = VP_ATTEMPT_UNRESOLVED;
        /* fall through */
    case VP_CM_UNREACHABLE:
        if (conn->phase == VP_ESTABLISHED)
            break;
        if (conn->active)
            vp_handshake_retry(conn, result);
        else
            vp_handshake_fail(conn, vp_silence_reason(conn));
        break;
    case VP_CM_DISCONNECTED:
        vp_handshake_lost(conn, VP_EV_DISCONNECTED);
        break;
    case VP_CM_DEVICE_REMOVAL:
        vp_handshake_lost(conn, VP_EV_LOCAL);
        break;
    default:
        break;
    }
}

/* Takes one event. Marks its connection busy under the lock, unless it is abandoned, so that it is
 * not destroyed in the meantime. */
static bool next_event(struct vp_prov *prov, struct vp_cm_event *event, struct vp_conn **conn)
{
    *conn = NULL;
    pthread_mutex_lock(&prov->lock);
    bool uses_udcm = prov->num_ports && prov->ports[0].ud; /* the same for all ports */
    bool found = uses_udcm ? vp_udcm_next(prov, event) : vp_rdmacm_next(prov, event);
    if (found && event->id && event->id->kind == VP_CM_ID_CONN) {
        struct vp_conn *owner = vp_container_of(event->id, struct vp_conn, id);
        if (owner->abandoned) { /* an abandoned connection may be destroyed at any time */
            event->type = VP_CM_OTHER;
            event->id = NULL;
        } else {
            owner->hs.busy = true;
            *conn = owner;
        }
    }
    pthread_mutex_unlock(&prov->lock);
    return found;
}

static void handle_event_without_conn(struct vp_prov *prov, struct vp_cm_event *event)
{
    switch (event->type) {
    case VP_CM_CONNECT_REQUEST:
        vp_passive_handle_request(prov, event);
        break;
    case VP_CM_WRONG_KEY:
        vp_passive_count_wrong_key(prov);
        vp_passive_limit_rate(prov);
        break;
    case VP_CM_DEVICE_REMOVAL:
        if (!event->port)
            break;
        ut_warn(VP_CAT, "%s is being removed", event->port->name);
        event->port->dev->gone = true;
        break;
    default:
        break;
    }
}

void vp_cm_run_events(struct vp_prov *prov)
{
    struct vp_cm_event event;
    struct vp_conn *conn;

    while (!prov->read_paused_until && next_event(prov, &event, &conn)) {
        if (conn) {
            handle_conn_event(conn, &event);
            vp_conn_not_busy(conn);
        } else if (event.id && event.id->kind == VP_CM_ID_PROBE) {
            vp_probe_event(prov, vp_container_of(event.id, struct vp_probe, id), &event);
        } else {
            handle_event_without_conn(prov, &event);
        }
    }
}
