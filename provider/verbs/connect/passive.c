/* SPDX-License-Identifier: Apache-2.0 */
/* Passive handshakes, which a peer starts: see passive.h. */
#include "passive.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "verbs/ports/address.h"
#include "verbs/ports/device.h"
#include "verbs/ep_types.h"
#include "verbs/ports/order.h"
#include "verbs/data/qp.h"
#include "handshake.h"
#include "verbs/ports/ud.h"
#include "util/clock.h"
#include "util/log.h"
#include "verbs/wake.h"

enum {
    MIN_ACCEPTED_MS = 10000, /* the kernel repeats a lost confirmation every 4.3 s */
    REJECT_BURST = 256, /* maximum burst of rejects for requests with a wrong key and for probes */
    REJECTS_PER_MS = 2, /* rate of rejects after a burst */
    READ_PAUSE_MS = 10,
};

void vp_passive_send_reply(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;
    const struct ibv_device_attr *attr = &conn->ep->port->dev->attr;
    struct vp_hello_rep rep = {.size = conn->hello_size, .mtu = conn->ep->port->mtu};
    uint64_t timeout = 2 * (uint64_t)prov->tuning.step_ms;
    uint8_t responder = vp_rd_atomic_limit(conn, attr->max_qp_rd_atom);
    uint8_t initiator = vp_rd_atomic_limit(conn, attr->max_qp_init_rd_atom);

    memcpy(rep.magic, vp_rep_magic, sizeof(vp_rep_magic));
    memcpy(rep.hello, conn->hello, sizeof(rep.hello));
    struct rdma_conn_param param = {
        .private_data = &rep,
        .private_data_len = sizeof(rep),
        .responder_resources = responder < conn->rsp_resources ? responder : conn->rsp_resources,
        .initiator_depth = initiator < conn->init_depth ? initiator : conn->init_depth,
        .rnr_retry_count = 7,
        .srq = conn->recvs == NULL,
    };
    int rc = vp_conn_create_qp(conn);
    if (rc && vp_handshake_wait_for_qp(conn))
        return;
    if (rc)
        vp_log_nomem("creating a queue pair", conn->ep->port->name, -rc);
    else
        rc = vp_conn_connect_qp(conn);
    if (rc) {
        conn->id.ops->reject(&conn->id, VP_REJ_BUSY);
        vp_handshake_fail(conn, rc == -ECONNABORTED ? PROV_REASON_BROKEN : PROV_REASON_LOCAL);
        return;
    }
    if (timeout < MIN_ACCEPTED_MS)
        timeout = MIN_ACCEPTED_MS;
    rep.size = (uint8_t)(rep.size | (unsigned int)conn->lcl_unit << VP_REQ_UNIT_SHIFT);
    vp_handshake_wait(conn, VP_ACCEPTED, ut_clock_ms() + timeout);
    param.qp_num = conn->qp->qp_num;
    conn->id.ece = conn->ece;
    rc = conn->id.ops->accept(&conn->id, &param);
    if (rc) {
        ut_info(VP_CAT, "accepting a connection: %s", strerror(-rc));
        vp_handshake_fail(conn, PROV_REASON_BROKEN); /* the origin has given up */
    }
}

void vp_passive_reject_busy(struct vp_conn *conn)
{
    conn->id.ops->reject(&conn->id, VP_REJ_BUSY);
    vp_handshake_fail(conn, PROV_REASON_BROKEN);
}

/* True for two attempts of one request. The tags of requests return after 256 of them; the hellos
 * differ, as those of the core number the connections. */
static bool is_same_request(const struct vp_hello_req *a, const struct vp_hello_req *b)
{
    return a->tag == b->tag && a->kind == b->kind &&
           memcmp(a->hello, b->hello, sizeof(a->hello)) == 0;
}

/* Fails the connections of earlier requests of the same origin, which are obsolete. False: a later
 * request arrived before this one. */
static bool fail_older_requests_locked(struct vp_ep *ep, const struct vp_hello_req *req)
{
    struct vp_conn *conn;

    UT_HASH_FOREACH (conn, &ep->by_origin, req->origin_id, by_origin) {
        if (conn->phase == VP_HS_FAILED || !is_same_request(&conn->req, req))
            continue;
        if (conn->req.attempt >= req->attempt)
            return false;
        if (conn->phase == VP_ESTABLISHED)
            continue;
        vp_handshake_unlink(conn);
        conn->phase = VP_HS_FAILED;
        conn->hs_reason = PROV_REASON_BROKEN;
        vp_post_event_locked(conn, VP_EV_HS_FAILED);
    }
    return true;
}

static struct vp_conn *create_passive_conn(struct vp_prov *prov, const struct vp_cm_event *event,
                                           const struct vp_hello_req *req,
                                           enum vp_reject_reason *reject_reason)
{
    struct vp_conn *conn = NULL;
    struct vp_ep *ep = NULL;

    *reject_reason = VP_REJ_NO_ENDPOINT;
    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = prov->eps.next; l != &prov->eps && !ep; l = l->next) {
        struct vp_ep *e = vp_container_of(l, struct vp_ep, link);
        if (e->id == req->target_id && !e->closing && !e->broken && e->port == event->port)
            ep = e;
    }
    if (ep) {
        *reject_reason = VP_REJ_BUSY;
        conn = fail_older_requests_locked(ep, req) && ut_hash_reserve(&ep->by_origin)
                   ? vp_conn_new(ep, false)
                   : NULL;
    }
    if (conn) {
        conn->req = *req;
        ut_hash_insert(&ep->by_origin, &conn->by_origin, req->origin_id);
        conn->rmt_unit = req->kind >> VP_REQ_UNIT_SHIFT;
        conn->hs.started = ut_clock_ms();
        conn->id = event->request_id;
        conn->rsp_resources = event->rsp_resources;
        conn->init_depth = event->init_depth;
        conn->ece = event->ece;
        conn->peer = event->from;
        if (!conn->peer.ud)
            vp_set_ip_port(&conn->peer.ip, req->port);
        conn->id.ops->set_owner(&conn->id);
        vp_list_append(&ep->conns, &conn->ep_link);
        vp_post_event_locked(conn, VP_EV_REQUEST);
    }
    pthread_mutex_unlock(&prov->lock);
    return conn;
}

void vp_passive_limit_rate(struct vp_prov *prov)
{
    uint64_t now = ut_clock_ms(), gained = (now - prov->rejects_at) * REJECTS_PER_MS;

    prov->rejects_at = now;
    if (gained > REJECT_BURST - prov->rejects_left)
        gained = REJECT_BURST - prov->rejects_left;
    prov->rejects_left += (unsigned int)gained;
    if (prov->rejects_left > 1) {
        prov->rejects_left--;
        return;
    }
    prov->rejects_left = 0;
    prov->read_paused_until = now + READ_PAUSE_MS;
    if (prov->channel)
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, prov->channel->fd, NULL);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud)
            epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, vp_ud_fd(&prov->ports[i]), NULL);
    ut_info(VP_CAT, "too many requests with a wrong key: none is handled for %d ms (rate limit)",
            READ_PAUSE_MS);
}

/* Watches the descriptor again, or continues to watch it. */
static bool rewatch_fd(struct vp_prov *prov, int fd, unsigned int what)
{
    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_MOD, fd,
                     &(struct epoll_event){.events = EPOLLIN, .data.u32 = what}) == 0 ||
           vp_watch(prov, fd, what) == 0;
}

void vp_passive_resume_reading(struct vp_prov *prov, uint64_t now)
{
    if (!prov->read_paused_until || now < prov->read_paused_until)
        return;
    bool all = !prov->channel || rewatch_fd(prov, prov->channel->fd, VP_WATCH_CM);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud)
            all &= rewatch_fd(prov, vp_ud_fd(&prov->ports[i]), VP_WATCH_UD);
    prov->read_paused_until = all ? 0 : now + READ_PAUSE_MS; /* without memory, try again later */
}

void vp_passive_count_wrong_key(struct vp_prov *prov)
{
    prov->wrong_keys++;
    ut_warn(VP_CAT, "rejected a connect request with a wrong key (from a process of another or an "
                    "earlier job, or for a process that had this address before?)");
}

void vp_passive_handle_request(struct vp_prov *prov, const struct vp_cm_event *event)
{
    struct vp_hello_req req = {0};
    enum vp_reject_reason reject_reason;

    struct vp_cm_id id = event->request_id;

    if (event->size >= sizeof(req))
        memcpy(&req, event->data, sizeof(req));
    unsigned int size = req.kind & VP_REQ_SIZE;
    if (size == VP_REQ_PROBE) {
        reject_reason = VP_REJ_ALIVE;
    } else if (size > PROV_PRIVATE_DATA_MAX || memcmp(req.key, prov->key, VP_KEY_BYTES) != 0) {
        vp_passive_count_wrong_key(prov);
        reject_reason = VP_REJ_WRONG_KEY;
    } else if (create_passive_conn(prov, event, &req, &reject_reason)) {
        return;
    }
    id.ops->reject(&id, reject_reason);
    vp_cm_id_destroy(&id);
    if (reject_reason == VP_REJ_ALIVE || reject_reason == VP_REJ_WRONG_KEY)
        vp_passive_limit_rate(prov);
}
