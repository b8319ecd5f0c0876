/* SPDX-License-Identifier: Apache-2.0 */
/* Peers' handshakes: see answer.h. */
#include "answer.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "verbs/ports/address.h"
#include "verbs/ports/device.h"
#include "verbs/ep_types.h"
#include "verbs/ports/order.h"
#include "origins.h"
#include "verbs/data/qp.h"
#include "shake.h"
#include "verbs/ports/ud.h"
#include "util/clock.h"
#include "util/log.h"
#include "verbs/wake.h"

enum {
    ACCEPTED_LEAST_MS = 10000, /* the kernel repeats a lost confirmation every 4.3 s */
    REFUSALS_AT_ONCE = 256, /* requests without this process's key that are answered in a burst, */
    REFUSALS_PER_MS = 2,    /* and the rate of answers after that */
    QUIET_MS = 10,
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
        conn->id.way->refuse(&conn->id, VP_REJ_BUSY);
        vp_handshake_fail(conn, rc == -ECONNABORTED ? PROV_REASON_BROKEN : PROV_REASON_LOCAL);
        return;
    }
    if (timeout < ACCEPTED_LEAST_MS)
        timeout = ACCEPTED_LEAST_MS;
    rep.size = (uint8_t)(rep.size | (unsigned int)conn->here_unit << VP_REQ_UNIT_SHIFT);
    vp_handshake_wait(conn, VP_ACCEPTED, ut_clock_ms() + timeout);
    param.qp_num = conn->qp->qp_num;
    conn->id.ece = conn->ece;
    rc = conn->id.way->answer(&conn->id, &param);
    if (rc) {
        ut_info(VP_CAT, "accepting a connection: %s", strerror(-rc));
        vp_handshake_fail(conn, PROV_REASON_BROKEN); /* the origin has given up */
    }
}

void vp_passive_reject_busy(struct vp_conn *conn)
{
    conn->id.way->refuse(&conn->id, VP_REJ_BUSY);
    vp_handshake_fail(conn, PROV_REASON_BROKEN);
}

/* An earlier request of the same origin is obsolete: gives up its connection. False: a later
 * request has overtaken this one. */
static bool supersede_locked(struct vp_ep *ep, const struct vp_hello_req *req)
{
    for (struct vp_conn *conn = vp_origins_first_locked(ep, req->origin_id); conn;
         conn = vp_origins_next(conn)) {
        if (conn->phase == VP_HS_FAILED || conn->req.tag != req->tag ||
            conn->req.origin_id != req->origin_id)
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

static struct vp_conn *new_passive(struct vp_prov *prov, const struct vp_cm_event *event,
                                   const struct vp_hello_req *req, enum vp_reject_reason *refusal)
{
    struct vp_conn *conn = NULL;
    struct vp_ep *ep = NULL;

    *refusal = VP_REJ_NO_ENDPOINT;
    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = prov->eps.next; l != &prov->eps && !ep; l = l->next) {
        struct vp_ep *e = vp_container_of(l, struct vp_ep, link);
        if (e->id == req->target_id && !e->closing && !e->broken && e->port == event->port)
            ep = e;
    }
    if (ep) {
        *refusal = VP_REJ_BUSY;
        conn = supersede_locked(ep, req) ? vp_conn_new(ep, false) : NULL;
    }
    if (conn) {
        conn->req = *req;
        if (!vp_origins_add_locked(conn)) {
            vp_conn_free(conn);
            conn = NULL;
        }
    }
    if (conn) {
        conn->there_unit = req->kind >> VP_REQ_UNIT_SHIFT;
        conn->hs.started = ut_clock_ms();
        conn->id = event->asks;
        conn->rsp_resources = event->rsp_resources;
        conn->init_depth = event->init_depth;
        conn->ece = event->ece;
        conn->peer = event->from;
        if (!conn->peer.ud)
            vp_set_ip_port(&conn->peer.ip, req->port);
        conn->id.way->adopt(&conn->id);
        vp_list_append(&ep->conns, &conn->ep_link);
        vp_post_event_locked(conn, VP_EV_REQUEST);
    }
    pthread_mutex_unlock(&prov->lock);
    return conn;
}

void vp_passive_limit_rate(struct vp_prov *prov)
{
    uint64_t now = ut_clock_ms(), gained = (now - prov->refused_at) * REFUSALS_PER_MS;

    prov->refused_at = now;
    if (gained > REFUSALS_AT_ONCE - prov->refusals_left)
        gained = REFUSALS_AT_ONCE - prov->refusals_left;
    prov->refusals_left += (unsigned int)gained;
    if (prov->refusals_left > 1) {
        prov->refusals_left--;
        return;
    }
    prov->refusals_left = 0;
    prov->quiet_until = now + QUIET_MS;
    if (prov->channel)
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, prov->channel->fd, NULL);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud)
            epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, vp_ud_fd(&prov->ports[i]), NULL);
    ut_info(VP_CAT, "too many requests without the key of the process: none is answered for %d ms",
            QUIET_MS);
}

/* Watches the descriptor again; one that is already watched stays watched. */
static bool watch_again(struct vp_prov *prov, int fd, unsigned int what)
{
    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_MOD, fd,
                     &(struct epoll_event){.events = EPOLLIN, .data.u32 = what}) == 0 ||
           vp_watch(prov, fd, what) == 0;
}

void vp_passive_resume_reading(struct vp_prov *prov, uint64_t now)
{
    if (!prov->quiet_until || now < prov->quiet_until)
        return;
    bool all = !prov->channel || watch_again(prov, prov->channel->fd, VP_WATCH_CM);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud)
            all &= watch_again(prov, vp_ud_fd(&prov->ports[i]), VP_WATCH_UD);
    prov->quiet_until = all ? 0 : now + QUIET_MS; /* without memory: tried again later */
}

void vp_passive_count_wrong_key(struct vp_prov *prov)
{
    prov->strangers++;
    ut_warn(
        VP_CAT,
        "rejected a request for a connection, which has not the key of this process (is it of a "
        "process of another or an earlier job, or for one that had this address before?)");
}

void vp_passive_handle_request(struct vp_prov *prov, const struct vp_cm_event *event)
{
    struct vp_hello_req req = {0};
    enum vp_reject_reason refusal;

    struct vp_cm_id id = event->asks;

    if (event->size >= sizeof(req))
        memcpy(&req, event->data, sizeof(req));
    unsigned int size = req.kind & VP_REQ_SIZE;
    if (size == VP_REQ_PROBE) {
        refusal = VP_REJ_ALIVE;
    } else if (size > PROV_HELLO_MAX || memcmp(req.key, prov->key, VP_KEY_BYTES) != 0) {
        vp_passive_count_wrong_key(prov);
        refusal = VP_REJ_WRONG_KEY;
    } else if (new_passive(prov, event, &req, &refusal)) {
        return;
    }
    id.way->refuse(&id, refusal);
    vp_cm_id_destroy(&id);
    if (refusal == VP_REJ_ALIVE || refusal == VP_REJ_WRONG_KEY)
        vp_passive_limit_rate(prov);
}
