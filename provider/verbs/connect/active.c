/* SPDX-License-Identifier: Apache-2.0 */
/* Active handshakes, which this side starts: see active.h. */
#include "active.h"

#include <errno.h>
#include <string.h>

#include "verbs/ports/address.h"
#include "verbs/data/queues.h"
#include "verbs/ports/device.h"
#include "verbs/ep_types.h"
#include "verbs/ports/order.h"
#include "verbs/data/qp.h"
#include "handshake.h"
#include "util/clock.h"
#include "util/log.h"
#include "verbs/wake.h"

int vp_connect(struct prov_ep *base, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **out)
{
    struct vp_ep *ep = vp_ep(base);
    struct vp_prov *prov = ep->prov;
    union vp_any_address address;

    if (hello_size > PROV_PRIVATE_DATA_MAX || peer_id > VP_ID_MASK)
        return -EINVAL;
    int rc = vp_address_read(addr, addr_size, &address);
    if (rc)
        return rc;
    struct vp_conn *conn = vp_conn_new(ep, true);
    if (!conn)
        return -ENOMEM;
    conn->ctx = ctx;
    rc = vp_address_of_tni(&address, peer_tni, ep->port, &conn->peer);
    if (rc) {
        vp_conn_free(conn);
        return rc;
    }
    conn->req.kind =
        (uint8_t)(hello_size | (unsigned int)vp_unit_of(ep->port->dev) << VP_REQ_UNIT_SHIFT);
    conn->req.port = vp_ip_port(&ep->port->addr);
    conn->req.target_id = peer_id & VP_ID_MASK;
    conn->sq_depth = vp_sq_depth(ep, peer_id);
    conn->req.origin_id = ep->id & VP_ID_MASK;
    memcpy(conn->req.key, address.cm.key, VP_KEY_BYTES);
    if (hello_size)
        memcpy(conn->req.hello, hello, hello_size);
    pthread_mutex_lock(&prov->lock);
    conn->req.tag = (uint8_t)prov->num_requests++;
    bool kick = vp_list_empty(&prov->queue);
    vp_list_append(&ep->conns, &conn->ep_link);
    vp_list_append(&prov->queue, &conn->hs.link);
    pthread_mutex_unlock(&prov->lock);
    if (kick)
        vp_kick(prov);
    *out = (struct prov_conn *)conn;
    return 0;
}

/* Handles a failure for lack of a local resource: logs it once, and retries later. */
static void handle_local_shortage(struct vp_conn *conn, const char *what, int rc)
{
    if (conn->hs.tries == 1 || !vp_is_shortage(rc))
        vp_log_nomem(what, conn->ep->port->name, -rc);
    if (vp_is_shortage(rc))
        vp_handshake_retry(conn, VP_ATTEMPT_NO_RESOURCE);
    else
        vp_handshake_fail(conn, PROV_REASON_LOCAL);
}

void vp_active_send_request(struct vp_conn *conn)
{
    const struct ibv_device_attr *attr = &conn->ep->port->dev->attr;
    struct rdma_conn_param param = {
        .private_data = &conn->req,
        .private_data_len = sizeof(conn->req),
        .responder_resources = vp_rd_atomic_limit(conn, attr->max_qp_rd_atom),
        .initiator_depth = vp_rd_atomic_limit(conn, attr->max_qp_init_rd_atom),
        .retry_count = conn->ep->prov->tuning.retry_count,
        .rnr_retry_count = 7,
        .srq = conn->recvs == NULL,
        .qp_num = conn->qp->qp_num,
    };

    conn->id.ece = vp_conn_ece_offer(conn);
    vp_handshake_wait(conn, VP_CONNECTING, vp_attempt_deadline(conn, ut_clock_ms()));
    int rc = conn->id.ops->connect(&conn->id, &param);
    if (rc) {
        ut_debug(VP_CAT, "sending a connect request:  %s", strerror(-rc));
        vp_handshake_retry(conn, VP_ATTEMPT_NO_ANSWER);
    }
}

static void start_attempt(struct vp_conn *conn, uint64_t now)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    if (conn->hs.tries == 0)
        conn->req.attempt = vp_first_attempt_number_locked(prov);
    else if (conn->req.attempt < UINT8_MAX)
        conn->req.attempt++;
    pthread_mutex_unlock(&prov->lock);
    if (conn->hs.tries < UINT8_MAX)
        conn->hs.tries++;
    conn->hs.started = now;
    if (!conn->hs.first)
        conn->hs.first = conn->hs.last_heard = now;
}

static void resolve_peer(struct vp_conn *conn)
{
    struct vp_port *port = conn->ep->port;
    int rc = port->cm_ops->resolve_addr(conn->ep->prov, &conn->id, port, &conn->peer);

    if (rc == 1) {
        vp_active_send_request(conn);
    } else if (rc == -ECONNREFUSED) {
        vp_handshake_fail(conn, PROV_REASON_PEER_DEAD);
    } else if (vp_is_shortage(rc)) {
        handle_local_shortage(conn, "starting a connection", rc);
    } else if (rc) { /* also -ENODEV: the port has lost its address, which may come back */
        ut_info(VP_CAT, "resolving a peer's address from %s: %s", port->name, strerror(-rc));
        vp_handshake_retry(conn, VP_ATTEMPT_UNRESOLVED);
    }
}

void vp_active_begin(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;
    struct vp_port *port = conn->ep->port;
    uint64_t now = ut_clock_ms();

    start_attempt(conn, now);
    bool down = vp_port_is_down(port);
    if (down && !port->lost && !port->dev->gone) {
        vp_handshake_retry(conn, VP_ATTEMPT_NO_ANSWER); /* the port may come up again */
        return;
    }
    if (down || port->dev->gone || conn->ep->broken) {
        vp_handshake_fail(conn, PROV_REASON_LOCAL);
        return;
    }
    int rc = conn->qp ? 0 : vp_conn_create_qp(conn);
    if (rc) {
        if (!vp_handshake_wait_for_qp(conn))
            handle_local_shortage(conn, "creating a queue pair", rc);
        return;
    }
    vp_handshake_wait(conn, VP_RESOLVING, now + prov->tuning.step_ms);
    resolve_peer(conn);
}

void vp_active_resolve_route(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    vp_handshake_wait(conn, VP_ROUTING, ut_clock_ms() + prov->tuning.step_ms);
    int rc = conn->id.ops->resolve_route(prov, &conn->id, conn->ep->port);
    if (rc == -EXDEV)
        vp_handshake_fail(conn, PROV_REASON_LOCAL);
    else if (rc)
        vp_handshake_retry(conn, VP_ATTEMPT_UNRESOLVED);
}

void vp_active_handle_response(struct vp_conn *conn, const struct vp_cm_event *event)
{
    struct vp_hello_rep rep;
    int rc;

    if (event->size < sizeof(rep)) {
        vp_handshake_fail(conn, PROV_REASON_REJECTED);
        return;
    }
    memcpy(&rep, event->data, sizeof(rep));
    conn->rmt_unit = rep.size >> VP_REQ_UNIT_SHIFT;
    rep.size &= VP_REQ_SIZE;
    if (memcmp(rep.magic, vp_rep_magic, sizeof(vp_rep_magic)) != 0 ||
        rep.size > PROV_PRIVATE_DATA_MAX || rep.mtu < IBV_MTU_256 || rep.mtu > IBV_MTU_4096) {
        ut_info(VP_CAT, "the reply to a connect request is malformed");
        vp_handshake_fail(conn, PROV_REASON_REJECTED);
        return;
    }
    conn->hello_size = rep.size;
    conn->rmt_mtu = rep.mtu;
    memcpy(conn->hello, rep.hello, sizeof(rep.hello));
    conn->ece = conn->id.ece.options ? event->ece : (struct vp_ece){0};
    rc = vp_conn_connect_qp(conn);
    if (!rc) {
        vp_handshake_wait(conn, VP_CONFIRMING, conn->hs.timer.at);
        rc = conn->id.ops->establish(&conn->id) ? -ECONNABORTED : 0;
    }
    if (!rc)
        vp_handshake_complete(conn);
    else if (rc == -ECONNABORTED)
        vp_handshake_retry(conn, VP_ATTEMPT_PEER_ALIVE);
    else if (vp_is_shortage(rc))
        vp_handshake_retry(conn, VP_ATTEMPT_NO_RESOURCE);
    else
        vp_handshake_fail(conn, PROV_REASON_LOCAL);
}

void vp_active_handle_reject(struct vp_conn *conn, const struct vp_cm_event *event)
{
    if (!conn->active || conn->phase == VP_ESTABLISHED) {
        vp_handshake_lost(conn, VP_EV_DISCONNECTED); /* the peer gave up during the handshake */
        return;
    }
    ut_debug(VP_CAT, "refused: %d", (int)event->reject_reason);
    switch (event->reject_reason) {
    case VP_REJ_NO_ENDPOINT:
        vp_handshake_fail(conn, PROV_REASON_NO_ENDPOINT);
        break;
    case VP_REJ_BY_CORE:
        vp_handshake_fail(conn, PROV_REASON_REJECTED);
        break;
    case VP_REJ_WRONG_KEY:
        ut_warn(VP_CAT, "a peer is gone: another process now has its address, and rejected this "
                        "process for a wrong key");
        vp_handshake_fail(conn, PROV_REASON_PEER_DEAD);
        break;
    case VP_REJ_DEAD:
        vp_handshake_fail(conn, PROV_REASON_PEER_DEAD);
        break;
    default:
        vp_handshake_retry(conn, VP_ATTEMPT_PEER_ALIVE);
    }
}
