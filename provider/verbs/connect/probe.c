/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a peer is dead, or only the connection broke, by a connect request to the
 * peer's listener. The peer is alive if its process rejects the request, or its kernel treats the
 * request as stale. The peer is dead if no process listens, and silent if several requests get no
 * reply (a packet may be lost). Only progress() uses a probe in prov->probes.
 */
#include "probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/ports/device.h"
#include "verbs/ep_types.h"
#include "util/log.h"
#include "verbs/wake.h"
#include "cm_ops.h"

enum { ATTEMPTS = 4, TIME_LIMIT = 6 }; /* an attempt takes at most 1/TIME_LIMIT of a peer timeout */

/* Reports the verdict: PROV_REASON_BROKEN (the peer is alive), PEER_DEAD or SILENT. */
static void report_verdict(struct vp_prov *prov, struct vp_probe *probe, enum prov_reason verdict)
{
    bool is_alive = verdict == PROV_REASON_BROKEN;

    pthread_mutex_lock(&prov->lock);
    probe->done = true;
    if (probe->conn) {
        probe->conn->verdict = (uint8_t)verdict;
        bool unreachable = !is_alive && vp_port_is_down(probe->conn->ep->port);
        vp_post_event_locked(probe->conn, unreachable ? VP_EV_LOCAL : VP_EV_VERDICT);
        ut_info(VP_CAT, "a connection broke: the peer is %s",
                is_alive                        ? "alive"
                : unreachable                   ? "unreachable, as the port is down"
                : verdict == PROV_REASON_SILENT ? "silent"
                                                : "dead");
    }
    probe->conn = NULL;
    pthread_mutex_unlock(&prov->lock);
}

void vp_probe_start(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;
    struct vp_probe *probe = calloc(1, sizeof(*probe));

    pthread_mutex_lock(&prov->lock);
    if (probe) {
        probe->id.kind = VP_CM_ID_PROBE;
        probe->conn = conn;
        vp_list_init(&probe->link);
        vp_list_append(&prov->probes, &probe->link);
    } else { /* the core connects again, which tests the peer too */
        conn->verdict = PROV_REASON_BROKEN;
        vp_post_event_locked(conn, VP_EV_VERDICT);
    }
    pthread_mutex_unlock(&prov->lock);
    vp_kick(prov);
}

void vp_probe_forget_locked(struct vp_prov *prov, struct vp_conn *conn)
{
    for (struct vp_list *l = prov->probes.next; l != &prov->probes; l = l->next) {
        struct vp_probe *probe = vp_container_of(l, struct vp_probe, link);
        if (probe->conn == conn)
            probe->conn = NULL;
    }
}

/* Copies the data of the connection that the probe needs. False: the connection does not need the
 * verdict any more. */
static bool copy_conn_info(struct vp_prov *prov, const struct vp_probe *probe,
                           struct vp_port **port, struct vp_peer *peer, uint32_t *qp_num)
{
    pthread_mutex_lock(&prov->lock);
    const struct vp_conn *conn = probe->conn;
    if (conn) {
        *port = conn->ep->port;
        *peer = conn->peer;
        *qp_num = conn->qp->qp_num;
    }
    pthread_mutex_unlock(&prov->lock);
    return conn != NULL;
}

/* The request has the number of the suspected connection's queue pair: a kernel that knows this
 * queue pair treats the request as stale. No other connection has this number. */
static int send_probe(struct vp_prov *prov, struct vp_probe *probe)
{
    struct vp_hello_req req = {.kind = VP_REQ_PROBE};
    struct rdma_conn_param param = {
        .private_data = &req, .private_data_len = sizeof(req), .rnr_retry_count = 7, .srq = 1};
    struct vp_port *port;
    struct vp_peer peer;

    if (!copy_conn_info(prov, probe, &port, &peer, &param.qp_num)) {
        probe->done = true;
        return 0;
    }
    return probe->id.ops->connect(&probe->id, &param);
}

static void start_attempt(struct vp_prov *prov, struct vp_probe *probe, uint64_t now)
{
    struct vp_port *port;
    struct vp_peer peer;
    uint32_t qp_num;

    probe->attempts++;
    probe->deadline = now + prov->config.peer_timeout_ms / TIME_LIMIT + 1;
    if (!copy_conn_info(prov, probe, &port, &peer, &qp_num)) {
        probe->done = true;
        return;
    }
    int rc = port->cm_ops->resolve_addr(prov, &probe->id, port, &peer);
    if (rc == 1)
        rc = send_probe(prov, probe);
    if (rc == -ECONNREFUSED)
        report_verdict(prov, probe, PROV_REASON_PEER_DEAD);
    else if (rc)
        ut_debug(VP_CAT, "probing a peer:  %s", strerror(-rc));
}

void vp_probe_event(struct vp_prov *prov, struct vp_probe *probe, const struct vp_cm_event *event)
{
    struct vp_port *port;
    struct vp_peer peer;
    uint32_t qp_num;
    int rc = 0;

    if (probe->done)
        return;
    switch (event->type) {
    case VP_CM_ADDR_RESOLVED:
        rc = copy_conn_info(prov, probe, &port, &peer, &qp_num)
                 ? probe->id.ops->resolve_route(prov, &probe->id, port)
                 : 0;
        break;
    case VP_CM_ROUTE_RESOLVED:
        rc = send_probe(prov, probe);
        break;
    case VP_CM_REJECTED:
        report_verdict(prov, probe,
                       event->reject_reason == VP_REJ_DEAD ? PROV_REASON_PEER_DEAD
                                                           : PROV_REASON_BROKEN);
        break;
    default:
        rc = -EHOSTUNREACH;
    }
    if (rc) /* counts as no reply: see vp_probe_run() */
        ut_debug(VP_CAT, "probing a peer:  %s", strerror(-rc));
}

/* Returns the next probe to be started, given up or destroyed. */
static struct vp_probe *next_due_probe(struct vp_prov *prov, uint64_t now)
{
    struct vp_probe *due = NULL;

    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = prov->probes.next; l != &prov->probes && !due; l = l->next) {
        struct vp_probe *probe = vp_container_of(l, struct vp_probe, link);
        if (probe->done || probe->deadline <= now)
            due = probe;
        else
            vp_deadline_locked(prov, probe->deadline);
    }
    if (due && due->done)
        vp_list_remove(&due->link);
    pthread_mutex_unlock(&prov->lock);
    return due;
}

void vp_probe_run(struct vp_prov *prov, uint64_t now)
{
    struct vp_probe *probe;

    while ((probe = next_due_probe(prov, now))) {
        if (probe->done) {
            vp_cm_id_destroy(&probe->id);
            free(probe);
        } else if (now != UINT64_MAX && probe->attempts < ATTEMPTS) {
            vp_cm_id_destroy(&probe->id);
            start_attempt(prov, probe, now);
        } else {
            report_verdict(prov, probe, PROV_REASON_SILENT);
        }
    }
}
