/* SPDX-License-Identifier: Apache-2.0 */
/* Steps common to active and passive handshakes: see handshake.h. */
#include "handshake.h"

#include <errno.h>

#include "verbs/ports/address.h"
#include "verbs/ports/device.h"
#include "verbs/ep_types.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/data/qp.h"
#include "reap.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/back_off.h"
#include "verbs/wake.h"
#include "cm_ops.h"

const uint8_t vp_rep_magic[4] = {'u', 'T', 'f', 'A'};

enum { MIN_ATTEMPTS = 3 }; /* even after the deadline, since this process may have been stopped */

void vp_handshake_wait(struct vp_conn *conn, enum vp_phase phase, uint64_t deadline)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    UT_ASSERT(conn->hs.busy);
    if (!conn->abandoned && conn->phase != VP_ESTABLISHED) {
        conn->phase = phase;
        vp_list_remove(&conn->hs.link);
        vp_heap_add(&prov->handshake_timers, &conn->hs.timer, deadline);
        vp_deadline_locked(prov, deadline);
    }
    pthread_mutex_unlock(&prov->lock);
}

void vp_handshake_fail(struct vp_conn *conn, enum prov_reason reason)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    vp_handshake_not_in_flight_locked(conn);
    vp_handshake_unlink(conn);
    /* find_not_yet_up() in ep.c may have set ESTABLISHED, a later request HS_FAILED */
    if (!conn->abandoned && conn->phase != VP_ESTABLISHED && conn->phase != VP_HS_FAILED) {
        conn->phase = VP_HS_FAILED;
        conn->hs_reason = (uint8_t)reason;
        vp_post_event_locked(conn, VP_EV_HS_FAILED);
    }
    pthread_mutex_unlock(&prov->lock);
}

void vp_handshake_complete(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    vp_handshake_not_in_flight_locked(conn);
    vp_handshake_unlink(conn);
    if (!conn->abandoned && conn->phase < VP_ESTABLISHED)
        vp_post_event_locked(conn, VP_EV_UP);
    if (conn->phase != VP_HS_FAILED)  /* otherwise the failure is already reported, or will be */
        conn->phase = VP_ESTABLISHED; /* even if abandoned, so that it is disconnected */
    if (conn->active)
        vp_adapt_window_locked(prov, conn->hs.started);
    pthread_mutex_unlock(&prov->lock);
}

void vp_handshake_lost(struct vp_conn *conn, unsigned int event)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    bool up = conn->phase == VP_ESTABLISHED;
    if (up && !conn->abandoned)
        vp_post_event_locked(conn, event);
    pthread_mutex_unlock(&prov->lock);
    if (!up)
        vp_handshake_fail(conn, event == VP_EV_LOCAL ? PROV_REASON_LOCAL : PROV_REASON_BROKEN);
}

enum prov_reason vp_silence_reason(const struct vp_conn *conn)
{
    return vp_port_is_down(conn->ep->port) ? PROV_REASON_LOCAL : PROV_REASON_SILENT;
}

bool vp_is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE || rc == -ENOSPC;
}

bool vp_handshake_wait_for_qp(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    if (!vp_budget_shrink(conn))
        return false;
    pthread_mutex_lock(&prov->lock);
    vp_handshake_not_in_flight_locked(conn);
    pthread_mutex_unlock(&prov->lock);
    return true;
}

uint8_t vp_rd_atomic_limit(const struct vp_conn *conn, int device_limit)
{
    unsigned int limit = conn->ep->prov->tuning.rd_atomic;

    if (device_limit >= 0 && limit > (unsigned int)device_limit)
        limit = (unsigned int)device_limit;
    return (uint8_t)(limit < 255 ? limit : 255);
}

static void give_up(struct vp_conn *conn, enum vp_attempt_result result, uint64_t now)
{
    enum prov_reason reason =
        result == VP_ATTEMPT_NO_RESOURCE ? PROV_REASON_LOCAL : vp_silence_reason(conn);
    const char *why = result == VP_ATTEMPT_NO_RESOURCE  ? "this process lacks a resource"
                      : reason == PROV_REASON_LOCAL     ? "the port is down"
                      : result == VP_ATTEMPT_UNRESOLVED ? "there is no route (ip route get)"
                                                        : "the peer is given up";
    char peer[VP_PEER_TEXT];

    bool must_warn = result == VP_ATTEMPT_UNRESOLVED && !conn->ep->rail;
    ut_log_at(must_warn ? UT_LOG_WARNING : UT_LOG_INFO, VP_CAT,
              "no connection from %s to %s after %u attempts in %llu ms: %s", conn->ep->port->name,
              vp_peer_text(&conn->peer, peer, sizeof(peer)), conn->hs.tries,
              (unsigned long long)(now - conn->hs.first), why);
    vp_handshake_fail(conn, reason);
}

void vp_handshake_retry(struct vp_conn *conn, enum vp_attempt_result result)
{
    struct vp_prov *prov = conn->ep->prov;
    uint64_t now = ut_clock_ms();
    uint64_t pause = vp_attempt_pause_ms(conn, result);
    uint64_t number = conn->req.origin_id ^ (conn->req.target_id * 31) ^ conn->hs.tries;

    vp_cm_id_destroy(&conn->id);
    /* if the disconnect request is lost, the peer's kernel treats requests with this QP as stale */
    vp_conn_drop_qp(conn);
    if (result == VP_ATTEMPT_PEER_ALIVE)
        conn->hs.last_heard = now;
    if (conn->hs.tries >= MIN_ATTEMPTS && now + pause >= vp_last_attempt_deadline(conn, result)) {
        give_up(conn, result, now);
        return;
    }
    ut_debug(VP_CAT, "attempt %u to connect failed after %llu ms: again in %llu ms", conn->hs.tries,
             (unsigned long long)(now - conn->hs.started), (unsigned long long)pause);
    pthread_mutex_lock(&prov->lock);
    if (conn->hs.in_flight && prov->window > VP_MIN_WINDOW)
        prov->window--;
    vp_handshake_not_in_flight_locked(conn);
    pthread_mutex_unlock(&prov->lock);
    vp_handshake_wait(conn, VP_BACKOFF, now + ut_retry_delay_jitter_ms(pause, number));
}
