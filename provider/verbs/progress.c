/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of the background thread. One epoll watches the connection channel, the completion
 * channel and the asynchronous events of each device, and an eventfd by which owners wake the
 * thread. progress() decides which owners to wake.
 */
#include "progress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs/ports/address.h"
#include "verbs/ports/candidate.h"
#include "verbs/connect/passive.h"
#include "verbs/connect/cm.h"
#include "conn_types.h"
#include "verbs/ports/device.h"
#include "ep_types.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/connect/probe.h"
#include "prov_types.h"
#include "verbs/connect/reap.h"
#include "verbs/connect/handshake.h"
#include "verbs/connect/udcm.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "wake.h"
#include "verbs/connect/cm_ops.h"

enum { NO_FDS_INTERVAL_MS = 10 };

int vp_fd(struct prov *base)
{
    return vp_prov(base)->epoll_fd;
}

/* An endpoint exists until its events are acknowledged, and so does a connection. */
static void handle_completion_events(struct vp_prov *prov, struct vp_device *dev)
{
    struct ibv_cq *cq;
    void *ep;

    while (ibv_get_cq_event(dev->channel, &cq, &ep) == 0) {
        pthread_mutex_lock(&prov->lock);
        vp_wake_locked(ep);
        ibv_ack_cq_events(cq, 1);
        pthread_mutex_unlock(&prov->lock);
    }
}

/* Takes down all connections of the endpoint. */
static void fail_endpoint_locked(struct vp_ep *ep)
{
    for (struct vp_list *c = ep->conns.next; c != &ep->conns; c = c->next) {
        struct vp_conn *conn = vp_container_of(c, struct vp_conn, ep_link);
        if (conn->phase == VP_ESTABLISHED)
            vp_post_event_locked(conn, VP_EV_LOCAL);
    }
}

/* Takes down all connections through the port of the device (0: all its ports). */
static void fail_port_locked(struct vp_prov *prov, const struct vp_device *dev, int port)
{
    for (struct vp_list *l = prov->eps.next; l != &prov->eps; l = l->next) {
        struct vp_ep *ep = vp_container_of(l, struct vp_ep, link);
        if (ep->port->dev == dev && (!port || ep->port->num == port))
            fail_endpoint_locked(ep);
    }
}

/* Handles the failure of one of the endpoint's queues, which is permanent. */
static void fail_queue_locked(struct vp_ep *ep, const char *device, const char *queue)
{
    if (!ep || ep->broken)
        return;
    ut_error(VP_CAT,
             "%s of %s failed: communications of this VCQ over it fail; create the VCQ again",
             queue, device);
    ep->broken = true;
    fail_endpoint_locked(ep);
}

/*
 * A port that is down may come up again, for example when a cable is plugged in. Its queue pairs
 * retransmit in the meantime. The port has as much time as a silent peer: UTOFU_PEER_TIMEOUT.
 */
static void set_port_state(struct vp_prov *prov, const struct vp_device *dev, int num, bool up)
{
    for (unsigned int i = 0; i < prov->num_ports; i++) {
        struct vp_port *port = &prov->ports[i];
        if (port->dev != dev || port->num != num || (up && !port->down_since))
            continue;
        ut_warn(VP_CAT, "%s %s", port->name, up ? "is up again" : "went down");
        if (up)
            port->down_since = 0;
        else if (!port->down_since || port->lost)
            port->down_since = ut_clock_ms();
        port->lost = false;
    }
}

/* Handles a changed GID table: an IP address was added or removed. */
static void handle_gid_change(struct vp_prov *prov, const struct vp_device *dev, int num)
{
    char text[INET6_ADDRSTRLEN];

    for (unsigned int i = 0; i < prov->num_ports; i++) {
        struct vp_port *port = &prov->ports[i];
        if (port->dev != dev || port->num != num || port->gid_index < 0)
            continue;
        bool gone = !vp_has_its_address(port);
        if (gone == port->no_address)
            continue;
        port->no_address = gone;
        vp_addr_text(&port->addr, text, sizeof(text));
        if (gone)
            ut_warn(VP_CAT,
                    "%s has lost its address %s: peers cannot connect to this process there until "
                    "the port has the address again",
                    port->name, text);
        else
            ut_warn(VP_CAT, "%s has its address %s again", port->name, text);
    }
}

/*
 * Handles a new LID of the port. Queue pairs with paths to the old LID break and
 * reconnect. With librdmacm the kernel asks the subnet manager for each path. With datagrams, peers
 * have the old LID from the address record, and ask the subnet manager when the old LID does not
 * answer (udcm.c). Another subnet manager (SM_CHANGE, CLIENT_REREGISTER) invalidates nothing: no
 * path is cached, and no multicast group is joined.
 */
static void handle_lid_change(struct vp_prov *prov, const struct vp_device *dev, int num)
{
    struct ibv_port_attr attr;

    for (unsigned int i = 0; i < prov->num_ports; i++) {
        struct vp_port *port = &prov->ports[i];
        if (port->dev != dev || port->num != num || port->gid_index >= 0 || !port->uses_datagrams ||
            ibv_query_port(dev->context, port->num, &attr) || !attr.lid || attr.lid == port->at.lid)
            continue;
        ut_warn(VP_CAT, "%s has LID %u instead of %u: its connections break%s", port->name,
                attr.lid, port->at.lid,
                prov->channel
                    ? ", and reconnect: peers ask the subnet manager for the new LID"
                    : ", and peers cannot reconnect without /dev/infiniband/rdma_cm, which "
                      "asks the subnet manager for the new LID (modprobe rdma_ucm)");
        vp_udcm_lid_changed(prov, port, attr.lid);
    }
}

static void handle_async_event_locked(struct vp_prov *prov, struct vp_device *dev,
                                      const struct ibv_async_event *event)
{
    const char *device = ibv_get_device_name(dev->context->device);
    struct vp_conn *conn;
    struct vp_ep *ep;

    switch (event->event_type) {
    case IBV_EVENT_SRQ_ERR:
        fail_queue_locked(event->element.srq->srq_context, device, "the shared receive queue");
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        ep = event->element.srq->srq_context;
        __atomic_fetch_or(&ep->pending, VP_PEND_SRQ_LIMIT, __ATOMIC_RELEASE);
        vp_wake_locked(ep);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        conn = event->element.qp->qp_context;
        if (conn && !conn->abandoned) {
            conn->qp_failed = true;
            vp_post_event_locked(conn, VP_EV_QP_ERROR);
        }
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (dev->last_wqe == VP_LAST_WQE_UNRELIABLE)
            break;
        dev->last_wqe = VP_LAST_WQE_RAISED;
        conn = event->element.qp->qp_context;
        if (conn && !conn->abandoned)
            vp_post_event_locked(conn, VP_EV_LAST_RECV);
        break;
    case IBV_EVENT_CQ_ERR:
        fail_queue_locked(event->element.cq->cq_context, device, "a completion queue");
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        set_port_state(prov, dev, event->element.port_num,
                       event->event_type == IBV_EVENT_PORT_ACTIVE);
        break;
    case IBV_EVENT_GID_CHANGE:
        handle_gid_change(prov, dev, event->element.port_num);
        break;
    case IBV_EVENT_LID_CHANGE:
        ut_info(VP_CAT, "%s:%d: %s", device, event->element.port_num,
                ibv_event_type_str(event->event_type));
        handle_lid_change(prov, dev, event->element.port_num);
        break;
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER: /* broken connections reconnect */
        ut_info(VP_CAT, "%s:%d: %s", device, event->element.port_num,
                ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_DEVICE_FATAL:
        ut_warn(VP_CAT, "%s failed or was removed", device);
        dev->gone = true;
        fail_port_locked(prov, dev, 0);
        break;
    default:
        ut_debug(VP_CAT, "%s: %s", device, ibv_event_type_str(event->event_type));
    }
}

static void handle_async_events(struct vp_prov *prov, struct vp_device *dev)
{
    struct ibv_async_event event;

    errno = 0;
    while (ibv_get_async_event(dev->context, &event) == 0) {
        pthread_mutex_lock(&prov->lock);
        handle_async_event_locked(prov, dev, &event);
        ibv_ack_async_event(&event);
        pthread_mutex_unlock(&prov->lock);
        errno = 0;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
        /* the device is gone: its descriptors stay readable for ever */
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, dev->context->async_fd, NULL);
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, dev->channel->fd, NULL);
    }
}

static void dispatch_fd(struct vp_prov *prov, unsigned int what)
{
    uint64_t count;

    if (what == VP_WATCH_CM || what == VP_WATCH_UD) {
        ut_fd_reserve_stdio(); /* librdmacm opens a device at its first event */
        vp_cm_run_events(prov);
        ut_fd_release_stdio();
    } else if (what >= VP_WATCH_ASYNC) {
        handle_async_events(prov, &prov->devices[what - VP_WATCH_ASYNC]);
    } else if (what >= VP_WATCH_COMP) {
        handle_completion_events(prov, &prov->devices[what - VP_WATCH_COMP]);
    } else if (read(prov->kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        ut_debug(VP_CAT, "reading the kick: %s", strerror(errno));
    }
}

static void check_down_ports(struct vp_prov *prov, uint64_t now)
{
    for (unsigned int i = 0; i < prov->num_ports; i++) {
        struct vp_port *port = &prov->ports[i];
        uint64_t end = port->down_since + prov->config.peer_timeout_ms;
        if (!port->down_since || port->lost)
            continue;
        if (now >= end && !vp_port_is_down(port)) { /* the port came up without an event */
            set_port_state(prov, port->dev, port->num, true);
            continue;
        }
        pthread_mutex_lock(&prov->lock);
        if (now < end) {
            vp_deadline_locked(prov, end);
        } else {
            ut_warn(VP_CAT, "%s stays down: its connections end", port->name);
            port->lost = true;
            fail_port_locked(prov, port->dev, port->num);
        }
        pthread_mutex_unlock(&prov->lock);
    }
}

/* Wakes the owners whose wake_at has passed. Returns the next wake_at; 0: none. Called often enough
 * to detect stalls while requests are outstanding. */
static uint64_t collect_due_wakes_locked(struct vp_prov *prov, uint64_t now)
{
    uint64_t next = 0;

    for (struct vp_list *l = prov->eps.next; l != &prov->eps; l = l->next) {
        struct vp_ep *ep = vp_container_of(l, struct vp_ep, link);
        bool needs_keepalive = !ep->port->cm_ops->reports_peer_death && !vp_list_empty(&ep->conns);
        if (now >= ep->stall_check_at) {
            if (ep->stall_check_at)
                __atomic_fetch_or(&ep->pending, VP_PEND_STALLS, __ATOMIC_RELEASE);
            if (needs_keepalive) /* even without outstanding requests: see send_keepalive() in
                                    conn.c */
                vp_wake_locked(ep);
            ep->stall_check_at = now + 2 * (uint64_t)prov->tuning.step_ms;
        }
        if (needs_keepalive && (!next || ep->stall_check_at < next))
            next = ep->stall_check_at;
        if (ep->wake_at && ep->wake_at <= now) {
            ep->wake_at = 0;
            vp_wake_locked(ep);
        }
        if (ep->wake_at && (!next || ep->wake_at < next))
            next = ep->wake_at;
    }
    return next;
}

static void deliver_wakes(struct vp_prov *prov)
{
    pthread_mutex_lock(&prov->lock);
    while (!vp_list_empty(&prov->wakes)) {
        struct vp_ep *ep = vp_container_of(prov->wakes.next, struct vp_ep, wake_link);
        void *owner = ep->owner;
        vp_list_remove(&ep->wake_link);
        prov->waking = ep; /* ep_close() waits, so the endpoint exists */
        pthread_mutex_unlock(&prov->lock);
        if (prov->config.wake)
            prov->config.wake(owner);
        pthread_mutex_lock(&prov->lock);
        prov->waking = NULL;
        pthread_cond_broadcast(&prov->changed);
    }
    pthread_mutex_unlock(&prov->lock);
}

/*
 * After the program has closed the provider's descriptors, their numbers may refer to files of the
 * program. The provider then calls no function that uses the descriptors: libibverbs and librdmacm
 * would write to them and close them. Queues, queue pairs and memory regions stay until the process
 * ends.
 */

/* Returns a connection whose handshake is in progress, marked busy so that it is not destroyed;
 * NULL: none. */
static struct vp_conn *take_pending_handshake_locked(struct vp_prov *prov)
{
    for (struct vp_list *l = prov->eps.next; l != &prov->eps; l = l->next) {
        struct vp_ep *ep = vp_container_of(l, struct vp_ep, link);
        for (struct vp_list *c = ep->conns.next; c != &ep->conns; c = c->next) {
            struct vp_conn *conn = vp_container_of(c, struct vp_conn, ep_link);
            if (conn->phase >= VP_ESTABLISHED || conn->hs.busy || conn->abandoned)
                continue;
            conn->hs.busy = true;
            return conn;
        }
    }
    return NULL;
}

/* Takes down all connections. */
static void fail_all_conns(struct vp_prov *prov)
{
    struct vp_conn *conn;

    pthread_mutex_lock(&prov->lock);
    for (unsigned int i = 0; i < prov->num_devices; i++) {
        if (!prov->devices[i].gone)
            fail_port_locked(prov, &prov->devices[i], 0);
        prov->devices[i].gone = true;
    }
    while ((conn = take_pending_handshake_locked(prov))) {
        pthread_mutex_unlock(&prov->lock);
        vp_handshake_fail(conn, PROV_REASON_LOCAL);
        vp_conn_not_busy(conn);
        pthread_mutex_lock(&prov->lock);
    }
    pthread_mutex_unlock(&prov->lock);
}

static int progress_without_descriptors(struct vp_prov *prov)
{
    fail_all_conns(prov);
    vp_cm_reap(prov, NULL);
    pthread_mutex_lock(&prov->lock);
    collect_due_wakes_locked(prov, ut_clock_ms());
    pthread_mutex_unlock(&prov->lock);
    deliver_wakes(prov);
    return NO_FDS_INTERVAL_MS;
}

int vp_progress(struct prov *base)
{
    struct vp_prov *prov = vp_prov(base);

    if (!ut_fd_check_still_ours(prov->epoll_fd))
        return progress_without_descriptors(prov);
    struct epoll_event events[VP_POLL_BATCH];
    int n = epoll_wait(prov->epoll_fd, events, VP_POLL_BATCH, 0);

    for (int i = 0; i < n; i++)
        dispatch_fd(prov, events[i].data.u32);
    vp_cm_run_queue(prov);
    uint64_t now = ut_clock_ms();
    vp_passive_resume_reading(prov, now);
    if (prov->next_deadline && prov->next_deadline <= now)
        vp_cm_run_timers(prov, now);
    vp_probe_run(prov, now);
    check_down_ports(prov, now);
    vp_budget_run(prov, now);
    vp_cm_reject_overdue(prov, now);
    vp_cm_run_queue(prov);
    vp_cm_reap(prov, NULL);
    uint64_t repeat = vp_udcm_timers(prov, now);

    pthread_mutex_lock(&prov->lock);
    uint64_t next = collect_due_wakes_locked(prov, now);
    if (prov->next_deadline && (!next || prov->next_deadline < next))
        next = prov->next_deadline;
    if (repeat && (!next || repeat < next))
        next = repeat;
    if (prov->read_paused_until && (!next || prov->read_paused_until < next))
        next = prov->read_paused_until;
    prov->sleeps_until = next;
    pthread_mutex_unlock(&prov->lock);
    deliver_wakes(prov);
    if (!next)
        return -1;
    now = ut_clock_ms();
    return next > now ? (int)(next - now) : 0;
}
