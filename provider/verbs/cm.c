/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes, driven by progress(): nothing here blocks the owner. The messages go in one of the
 * ways of way.h. Queue pairs are made by us, not by rdma_create_qp(), so that a request can be
 * repeated with the same queue pair and with our own timers.
 *
 *   active   QUEUED -> RESOLVING -> ROUTING -> CONNECTING -> CONFIRMING -> UP,
 *            or BACKOFF -> QUEUED, or OVER
 *   passive  REQUESTED -> ACCEPTING -> ACCEPTED -> UP, or OVER
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "address.h"
#include "busy.h"
#include "conn_types.h"
#include "device.h"
#include "ep_types.h"
#include "order.h"
#include "origins.h"
#include "places.h"
#include "probe.h"
#include "qp.h"
#include "rdmacm.h"
#include "reap.h"
#include "ud.h"
#include "udcm.h"
#include "way.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "wake.h"

enum {
    PAUSE_FIRST_MS = 20,
    PAUSE_MOST_MS = 2000,
    PAUSE_SHARE = 8,           /* of a peer timeout: no pause is longer */
    PAUSE_SHORT_MS = 500,      /* where this process lacks something */
    MOST_DOUBLINGS = 12,       /* of a pause, and of the time of an attempt */
    MOST_FIRST = 5,            /* what a first attempt may count as */
    PATIENCE = 3,              /* times what a handshake took lately: so long is an attempt */
    LEAST_WINDOW = 2,          /* first attempts in flight, where handshakes take long */
    ACCEPTED_LEAST_MS = 10000, /* the kernel repeats a lost confirmation every 4.3 s */
    LEAST_ATTEMPTS = 3,        /* also when the time is over: this process may have been stopped */
    BUSY_TIMEOUTS = 8,         /* peer timeouts for a peer that is alive and does not answer */
    REFUSALS_AT_ONCE = 256,    /* requests without our key that are answered in a burst, */
    REFUSALS_PER_MS = 2,       /* and the rate after that */
    QUIET_MS = 10,
};

/* The accepting side's private data: its hello. */
struct hello_rep {
    uint8_t magic[4];
    uint8_t size; /* of the hello, and the unit of the accepting side */
    uint8_t hello[PROV_HELLO_MAX];
};
static const uint8_t rep_magic[4] = {'u', 'T', 'f', 'A'};

/*** what the core calls ***/

int vp_connect(struct prov_ep *base, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **out)
{
    struct vp_ep *ep = vp_ep(base);
    struct vp_prov *prov = ep->prov;
    union vp_any_address address;

    if (hello_size > PROV_HELLO_MAX || peer_id > VP_ID_MASK)
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
    conn->req.tag = (uint8_t)prov->asked++;
    bool kick = vp_list_empty(&prov->queue);
    vp_list_append(&ep->conns, &conn->ep_link);
    vp_list_append(&prov->queue, &conn->hs.link);
    pthread_mutex_unlock(&prov->lock);
    if (kick)
        vp_kick(prov);
    *out = (struct prov_conn *)conn;
    return 0;
}

/*** the steps; each runs in progress(), with the connection busy and prov->lock not held ***/

/* The connection waits for the peer, or for the deadline. */
static void set_phase(struct vp_conn *conn, enum vp_phase phase, uint64_t deadline)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    UT_ASSERT(conn->hs.busy);
    if (!conn->abandoned && conn->phase != VP_UP) {
        conn->phase = phase;
        vp_list_remove(&conn->hs.link);
        vp_heap_add(&prov->shaking, &conn->hs.timer, deadline);
        vp_deadline_locked(prov, deadline);
    }
    pthread_mutex_unlock(&prov->lock);
}

static void over(struct vp_conn *conn, enum prov_reason reason)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    vp_handshake_uncount_locked(conn);
    vp_handshake_unlink(conn);
    /* up after all: see find_early() in poll.c; over, as a later request came first */
    if (!conn->abandoned && conn->phase != VP_UP && conn->phase != VP_OVER) {
        conn->phase = VP_OVER;
        conn->hs_reason = (uint8_t)reason;
        vp_post_event_locked(conn, VP_EV_OVER);
    }
    pthread_mutex_unlock(&prov->lock);
}

static unsigned int first_timeout(const struct vp_prov *prov)
{
    return prov->tuning.step_ms / 4;
}

/* How long the peer has to answer an attempt (1, 2...): each time twice as long, up to half of what
 * it may be silent. Where a packet was lost, another attempt helps, and the kernel repeats it every
 * 4.3 s; where so many ask that nobody is answered in time, attempts that end early are work for
 * nothing, of which there would be more and more. */
static unsigned int attempt_ms(const struct vp_prov *prov, unsigned int attempt)
{
    unsigned int first = first_timeout(prov), most = prov->config.peer_timeout_ms / 2;
    unsigned int doublings = attempt > 1 ? attempt - 1 : 0;

    if (doublings > MOST_DOUBLINGS)
        doublings = MOST_DOUBLINGS;
    unsigned int ms = first << doublings;
    return ms < most ? ms : most > first ? most : first;
}

/* Which attempt the first one of a connection counts as: where handshakes take long, those that
 * take less time would fail. */
static uint8_t first_attempt_locked(const struct vp_prov *prov)
{
    uint8_t attempt = 1;

    while (attempt < MOST_FIRST && attempt_ms(prov, attempt) < PATIENCE * prov->took_ms)
        attempt++;
    return attempt;
}

/* Against storms of requests: limits the first attempts in flight to as many as succeed well within
 * their time, and remembers how long they take: at once where it is more, slowly where it is less.
 */
static void adapt_window_locked(struct vp_prov *prov, uint64_t started)
{
    uint64_t took = ut_clock_ms() - started;

    if (took > prov->took_ms)
        prov->took_ms = (unsigned int)took;
    else
        prov->took_ms -= (prov->took_ms - (unsigned int)took + 7) / 8;
    if (took < first_timeout(prov) / 4 && prov->window < prov->tuning.max_connecting)
        prov->window++;
    else if (took > first_timeout(prov) / 2 && prov->window > LEAST_WINDOW)
        prov->window--;
}

static void is_up(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    vp_handshake_uncount_locked(conn);
    vp_handshake_unlink(conn);
    if (!conn->abandoned && conn->phase < VP_UP)
        vp_post_event_locked(conn, VP_EV_UP);
    if (conn->phase != VP_OVER) /* too late: that it failed is reported, or will be */
        conn->phase = VP_UP;    /* also where it is abandoned, so that it is disconnected */
    if (conn->active)
        adapt_window_locked(prov, conn->hs.started);
    pthread_mutex_unlock(&prov->lock);
}

/* No answer came: why? */
static enum prov_reason silence(const struct vp_conn *conn)
{
    return vp_port_is_down(conn->ep->port) ? PROV_REASON_LOCAL : PROV_REASON_SILENT;
}

/* What the last attempt has shown of the peer: it lives; nothing; its address, or a route to it, is
 * not known, as where very many processes resolve theirs at once; or it was not even asked, as this
 * process lacks something that it may have later. */
enum sign { ALIVE, SILENT, UNRESOLVED, SHORT };

/* When an attempt that has failed like this is not followed by another one. */
static uint64_t end_of_attempts(const struct vp_conn *conn, enum sign sign)
{
    const struct prov_config *config = &conn->ep->prov->config;
    uint64_t silent = conn->hs.sign + config->peer_timeout_ms;
    uint64_t busy = conn->hs.first + BUSY_TIMEOUTS * (uint64_t)config->peer_timeout_ms;
    uint64_t unresolved = conn->hs.first + config->job_timeout_ms;

    if (sign == UNRESOLVED && unresolved > silent)
        return unresolved;
    return silent < busy ? silent : busy;
}

static void give_up(struct vp_conn *conn, enum sign sign, uint64_t now)
{
    enum prov_reason reason = sign == SHORT ? PROV_REASON_LOCAL : silence(conn);
    const char *why = sign == SHORT                 ? "this process lacks what it needs"
                      : reason == PROV_REASON_LOCAL ? "the port is down"
                                                    : "the peer is given up";

    ut_info(VP_CAT, "no connection after %u attempts in %llu ms: %s", conn->hs.tries,
            (unsigned long long)(now - conn->hs.first), why);
    over(conn, reason);
}

/* The pause before the next attempt: each time twice as long, so that those whom a crowded peer has
 * refused leave it time for the others. */
static uint64_t pause_ms(const struct vp_conn *conn, enum sign sign)
{
    uint64_t most = conn->ep->prov->config.peer_timeout_ms / PAUSE_SHARE;
    unsigned int doublings = conn->hs.tries < MOST_DOUBLINGS ? conn->hs.tries : MOST_DOUBLINGS;
    uint64_t ms = (uint64_t)PAUSE_FIRST_MS << doublings;

    if (most > PAUSE_MOST_MS)
        most = PAUSE_MOST_MS;
    if (sign == SHORT && most > PAUSE_SHORT_MS)
        most = PAUSE_SHORT_MS;
    return ms < most ? ms : most;
}

/* A number that differs between those who may all have been refused at the same time. */
static uint64_t jitter(const struct vp_conn *conn)
{
    uint64_t number = conn->req.origin_id ^ (conn->req.target_id * 31) ^ conn->hs.tries;

    return number * 0x9e3779b97f4a7c15 >> 32;
}

/* Tries again later, unless it has taken too long. */
static void retry(struct vp_conn *conn, enum sign sign)
{
    struct vp_prov *prov = conn->ep->prov;
    uint64_t now = ut_clock_ms();
    uint64_t pause = pause_ms(conn, sign);

    vp_id_drop(&conn->id);
    /* our disconnect request may get lost: then the peer's kernel calls requests of this queue pair
     * stale */
    vp_conn_drop_qp(conn);
    if (sign == ALIVE)
        conn->hs.sign = now;
    if (conn->hs.tries >= LEAST_ATTEMPTS && now + pause >= end_of_attempts(conn, sign)) {
        give_up(conn, sign, now);
        return;
    }
    ut_debug(VP_CAT, "attempt %u to connect failed after %llu ms: again in %llu ms", conn->hs.tries,
             (unsigned long long)(now - conn->hs.started), (unsigned long long)pause);
    pthread_mutex_lock(&prov->lock);
    if (conn->hs.counted && prov->window > LEAST_WINDOW)
        prov->window--;
    vp_handshake_uncount_locked(conn);
    pthread_mutex_unlock(&prov->lock);
    set_phase(conn, VP_BACKOFF, now + pause + jitter(conn) % (pause / 2 + 1));
}

static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE || rc == -ENOSPC;
}

/* An own attempt failed on this side. What it lacks is waited for, and named once. */
static void fall_short(struct vp_conn *conn, const char *what, int rc)
{
    if (conn->hs.tries == 1 || !is_shortage(rc))
        vp_log_nomem(what, conn->ep->port->name, -rc);
    if (is_shortage(rc))
        retry(conn, SHORT);
    else
        over(conn, PROV_REASON_LOCAL);
}

/* No queue pair can be made: others of this process are closed for it. False: there are none. */
static bool waits_for_qp(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    if (!vp_place_short(conn))
        return false;
    pthread_mutex_lock(&prov->lock);
    vp_handshake_uncount_locked(conn);
    pthread_mutex_unlock(&prov->lock);
    return true;
}

static uint8_t rd_limit(const struct vp_conn *conn, int device_limit)
{
    unsigned int limit = conn->ep->prov->tuning.rd_atomic;

    if (device_limit >= 0 && limit > (unsigned int)device_limit)
        limit = (unsigned int)device_limit;
    return (uint8_t)(limit < 255 ? limit : 255);
}

/* The last attempt ends when the peer has been silent for long enough. */
static uint64_t end_of_attempt(const struct vp_conn *conn, uint64_t now)
{
    uint64_t ms = attempt_ms(conn->ep->prov, conn->req.attempt);
    uint64_t end = end_of_attempts(conn, SILENT), least = first_timeout(conn->ep->prov);

    if (end < now + least)
        end = now + least;
    return now + ms < end ? now + ms : end;
}

static void step_request(struct vp_conn *conn)
{
    const struct ibv_device_attr *attr = &conn->ep->port->dev->attr;
    struct rdma_conn_param param = {
        .private_data = &conn->req,
        .private_data_len = sizeof(conn->req),
        .responder_resources = rd_limit(conn, attr->max_qp_rd_atom),
        .initiator_depth = rd_limit(conn, attr->max_qp_init_rd_atom),
        .retry_count = conn->ep->prov->tuning.retry_count,
        .rnr_retry_count = 7,
        .srq = conn->recvs == NULL,
        .qp_num = conn->qp->qp_num,
    };

    conn->id.ece = vp_conn_offer(conn);
    set_phase(conn, VP_CONNECTING, end_of_attempt(conn, ut_clock_ms()));
    int rc = conn->id.way->ask(&conn->id, &param);
    if (rc) {
        ut_debug(VP_CAT, "asking for a connection: %s", strerror(-rc));
        retry(conn, SILENT);
    }
}

static void step_start(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;
    struct vp_port *port = conn->ep->port;
    uint64_t now = ut_clock_ms();

    pthread_mutex_lock(&prov->lock);
    if (conn->hs.tries == 0)
        conn->req.attempt = first_attempt_locked(prov);
    else if (conn->req.attempt < UINT8_MAX)
        conn->req.attempt++;
    pthread_mutex_unlock(&prov->lock);
    if (conn->hs.tries < UINT8_MAX)
        conn->hs.tries++;
    conn->hs.started = now;
    if (!conn->hs.first)
        conn->hs.first = conn->hs.sign = now;
    bool down = vp_port_is_down(port);
    if (down && !port->lost && !port->dev->gone) {
        retry(conn, SILENT); /* it may come back */
        return;
    }
    if (down || port->dev->gone || conn->ep->broken) {
        over(conn, PROV_REASON_LOCAL);
        return;
    }
    int rc = conn->qp ? 0 : vp_conn_create_qp(conn);
    if (rc) {
        if (!waits_for_qp(conn))
            fall_short(conn, "creating a queue pair", rc);
        return;
    }
    set_phase(conn, VP_RESOLVING, now + prov->tuning.step_ms);
    rc = port->way->begin(prov, &conn->id, port, &conn->peer);
    if (rc == 1) {
        step_request(conn);
    } else if (rc == -ECONNREFUSED) {
        over(conn, PROV_REASON_PEER_DEAD);
    } else if (is_shortage(rc)) {
        fall_short(conn, "starting a connection", rc);
    } else if (rc) { /* -ENODEV too: the port has lost its address, and may get it back */
        ut_info(VP_CAT, "resolving a peer's address from %s: %s", port->name, strerror(-rc));
        retry(conn, UNRESOLVED);
    }
}

static void step_route(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    set_phase(conn, VP_ROUTING, ut_clock_ms() + prov->tuning.step_ms);
    int rc = conn->id.way->route(prov, &conn->id, conn->ep->port);
    if (rc == -EXDEV)
        over(conn, PROV_REASON_LOCAL);
    else if (rc)
        retry(conn, UNRESOLVED);
}

static void step_response(struct vp_conn *conn, const struct vp_event *event)
{
    struct hello_rep rep;
    int rc;

    if (event->size < sizeof(rep)) {
        over(conn, PROV_REASON_REJECTED);
        return;
    }
    memcpy(&rep, event->data, sizeof(rep));
    conn->there_unit = rep.size >> VP_REQ_UNIT_SHIFT;
    rep.size &= VP_REQ_SIZE;
    if (memcmp(rep.magic, rep_magic, sizeof(rep_magic)) != 0 || rep.size > PROV_HELLO_MAX) {
        ut_info(VP_CAT, "an answer to a connection request is garbled");
        over(conn, PROV_REASON_REJECTED);
        return;
    }
    conn->hello_size = rep.size;
    memcpy(conn->hello, rep.hello, sizeof(rep.hello));
    conn->ece = conn->id.ece.options ? event->ece : (struct vp_ece){0};
    rc = vp_conn_ready_qp(conn);
    if (!rc) {
        set_phase(conn, VP_CONFIRMING, conn->hs.timer.at);
        rc = conn->id.way->confirm(&conn->id) ? -ECONNABORTED : 0;
    }
    if (!rc)
        is_up(conn);
    else if (rc == -ECONNABORTED)
        retry(conn, ALIVE);
    else if (is_shortage(rc))
        retry(conn, SHORT);
    else
        over(conn, PROV_REASON_LOCAL);
}

static void step_accept(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;
    const struct ibv_device_attr *attr = &conn->ep->port->dev->attr;
    struct hello_rep rep = {.size = conn->hello_size};
    uint64_t timeout = 2 * (uint64_t)prov->tuning.step_ms;
    uint8_t responder = rd_limit(conn, attr->max_qp_rd_atom);
    uint8_t initiator = rd_limit(conn, attr->max_qp_init_rd_atom);

    memcpy(rep.magic, rep_magic, sizeof(rep_magic));
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
    if (rc && waits_for_qp(conn))
        return;
    if (rc)
        vp_log_nomem("creating a queue pair", conn->ep->port->name, -rc);
    else
        rc = vp_conn_ready_qp(conn);
    if (rc) {
        conn->id.way->refuse(&conn->id, VP_REFUSED_BUSY);
        over(conn, rc == -ECONNABORTED ? PROV_REASON_BROKEN : PROV_REASON_LOCAL);
        return;
    }
    if (timeout < ACCEPTED_LEAST_MS)
        timeout = ACCEPTED_LEAST_MS;
    rep.size = (uint8_t)(rep.size | (unsigned int)conn->here_unit << VP_REQ_UNIT_SHIFT);
    set_phase(conn, VP_ACCEPTED, ut_clock_ms() + timeout);
    param.qp_num = conn->qp->qp_num;
    conn->id.ece = conn->ece;
    rc = conn->id.way->answer(&conn->id, &param);
    if (rc) {
        ut_info(VP_CAT, "accepting a connection: %s", strerror(-rc));
        over(conn, PROV_REASON_BROKEN); /* the origin gave up */
    }
}

/*** the queue, timers and destruction ***/

static void not_busy(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    conn->hs.busy = false;
    if (conn->abandoned) {
        vp_handshake_uncount_locked(conn);
        vp_list_append(&prov->reaping, &conn->hs.link);
    }
    pthread_cond_broadcast(&prov->changed);
    pthread_mutex_unlock(&prov->lock);
}

/* Answers to peers are always sent, and first; own first requests as the window allows, and those
 * that come again, which are fewer each time, whatever it is: a peer that does not answer holds up
 * nobody. All need a place. */
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
    while (conn && !vp_place_take_locked(conn));
    if (conn) {
        conn->hs.counted = conn->active && conn->hs.tries == 0;
        prov->connecting += conn->hs.counted;
        vp_handshake_unlink(conn);
        conn->hs.busy = true;
    }
    pthread_mutex_unlock(&prov->lock);
    return conn;
}

static void refuse_busy(struct vp_conn *conn)
{
    conn->id.way->refuse(&conn->id, VP_REFUSED_BUSY);
    over(conn, PROV_REASON_BROKEN);
}

/* How long a peer's request may wait here. Where more ask than can be answered in time, each would
 * be answered too late: the origin has given up this attempt, or is about to. A refusal takes
 * little, and tells it that this process lives. */
static uint64_t patience_ms(const struct vp_conn *conn)
{
    return attempt_ms(conn->ep->prov, conn->req.attempt) / 4 * 3;
}

static bool is_stale(const struct vp_conn *conn)
{
    return ut_clock_ms() - conn->hs.started > patience_ms(conn);
}

void vp_cm_queue(struct vp_prov *prov)
{
    struct vp_conn *conn;

    while ((conn = next_queued(prov))) {
        if (conn->active)
            step_start(conn);
        else if (is_stale(conn))
            refuse_busy(conn);
        else
            step_accept(conn);
        not_busy(conn);
    }
}

static void timed_out(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    if (conn->phase == VP_ACCEPTED) {
        ut_info(VP_CAT, "an accepted connection was never confirmed");
        over(conn, PROV_REASON_BROKEN); /* its origin may have given up, and be alive */
        return;
    }
    if (conn->phase != VP_BACKOFF) {
        retry(conn, SILENT);
        return;
    }
    pthread_mutex_lock(&prov->lock);
    if (!conn->abandoned) {
        conn->phase = VP_QUEUED;
        vp_list_append(prov->queue.next, &conn->hs.link); /* in front: it has waited already */
    }
    pthread_mutex_unlock(&prov->lock);
}

/* Peers whose requests have waited for a place are told that this process lives, before they take
 * it for silent. They ask again. */
void vp_cm_refuse_overdue(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *conn;

    do {
        pthread_mutex_lock(&prov->lock);
        conn = vp_place_overdue_locked(prov, now, patience_ms);
        if (conn)
            conn->hs.busy = true;
        pthread_mutex_unlock(&prov->lock);
        if (conn) {
            refuse_busy(conn);
            not_busy(conn);
        }
    } while (conn);
}

static struct vp_conn *next_late(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *late = NULL;

    pthread_mutex_lock(&prov->lock);
    struct vp_heap_node *due = vp_heap_due(&prov->shaking, now);
    prov->next_deadline = vp_heap_next(&prov->shaking);
    if (due) {
        late = vp_container_of(due, struct vp_conn, hs.timer);
        vp_handshake_unlink(late);
        late->hs.busy = true;
    }
    pthread_mutex_unlock(&prov->lock);
    return late;
}

void vp_cm_timers(struct vp_prov *prov, uint64_t now)
{
    struct vp_conn *conn;

    if (!prov->next_deadline || prov->next_deadline > now)
        return;
    while ((conn = next_late(prov, now))) {
        timed_out(conn);
        not_busy(conn);
    }
}

/*** events ***/

/* An earlier request of the same origin is obsolete: gives up its connection. False: this is the
 * earlier one, which the later one overtook. */
static bool supersede_locked(struct vp_ep *ep, const struct vp_hello_req *req)
{
    for (struct vp_conn *conn = vp_origins_first_locked(ep, req->origin_id); conn;
         conn = vp_origins_next(conn)) {
        if (conn->phase == VP_OVER || conn->req.tag != req->tag ||
            conn->req.origin_id != req->origin_id)
            continue;
        if (conn->req.attempt >= req->attempt)
            return false;
        if (conn->phase == VP_UP)
            continue;
        vp_handshake_unlink(conn);
        conn->phase = VP_OVER;
        conn->hs_reason = PROV_REASON_BROKEN;
        vp_post_event_locked(conn, VP_EV_OVER);
    }
    return true;
}

static struct vp_conn *new_passive(struct vp_prov *prov, const struct vp_event *event,
                                   const struct vp_hello_req *req, enum vp_refusal *refusal)
{
    struct vp_conn *conn = NULL;
    struct vp_ep *ep = NULL;

    *refusal = VP_REFUSED_NO_ENDPOINT;
    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = prov->eps.next; l != &prov->eps && !ep; l = l->next) {
        struct vp_ep *e = vp_container_of(l, struct vp_ep, link);
        if (e->id == req->target_id && !e->closing && !e->broken && e->port == event->port)
            ep = e;
    }
    if (ep) {
        *refusal = VP_REFUSED_BUSY;
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

/*
 * Probes, and requests without our key, may come from anybody and are answered at a limited rate.
 * Those beyond it stay in the event channel for a moment: the kernel queues as many requests as the
 * listener's backlog and drops the others, which whoever asked repeats after some four seconds; a
 * probe among them has no answer until then. So a flood costs this process little, and delays its
 * own handshakes by less than a second where the backlog is not full.
 */
static void count_refusal(struct vp_prov *prov)
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

/* Watches what comes in again; what is watched already stays so. */
static bool watch_again(struct vp_prov *prov, int fd, unsigned int what)
{
    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_MOD, fd,
                     &(struct epoll_event){.events = EPOLLIN, .data.u32 = what}) == 0 ||
           vp_watch(prov, fd, what) == 0;
}

void vp_cm_listen_again(struct vp_prov *prov, uint64_t now)
{
    if (!prov->quiet_until || now < prov->quiet_until)
        return;
    bool all = !prov->channel || watch_again(prov, prov->channel->fd, VP_WATCH_CM);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud)
            all &= watch_again(prov, vp_ud_fd(&prov->ports[i]), VP_WATCH_UD);
    prov->quiet_until = all ? 0 : now + QUIET_MS; /* no memory: later */
}

static void count_stranger(struct vp_prov *prov)
{
    prov->strangers++;
    ut_info(VP_CAT, "refused a connection request that is not for this process (%llu so far)",
            (unsigned long long)prov->strangers);
}

static void handle_request(struct vp_prov *prov, const struct vp_event *event)
{
    struct vp_hello_req req = {0};
    enum vp_refusal refusal;

    struct vp_id id = event->asks;

    if (event->size >= sizeof(req))
        memcpy(&req, event->data, sizeof(req));
    unsigned int size = req.kind & VP_REQ_SIZE;
    if (size == VP_REQ_PROBE) {
        refusal = VP_REFUSED_ALIVE;
    } else if (size > PROV_HELLO_MAX || memcmp(req.key, prov->key, VP_KEY_BYTES) != 0) {
        count_stranger(prov);
        refusal = VP_REFUSED_STRANGER;
    } else if (new_passive(prov, event, &req, &refusal)) {
        return;
    }
    id.way->refuse(&id, refusal);
    vp_id_drop(&id);
    if (refusal == VP_REFUSED_ALIVE || refusal == VP_REFUSED_STRANGER)
        count_refusal(prov);
}

static void lost(struct vp_conn *conn, unsigned int event)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    bool up = conn->phase == VP_UP;
    if (up && !conn->abandoned)
        vp_post_event_locked(conn, event);
    pthread_mutex_unlock(&prov->lock);
    if (!up)
        over(conn, event == VP_EV_LOCAL ? PROV_REASON_LOCAL : PROV_REASON_BROKEN);
}

static void handle_rejected(struct vp_conn *conn, const struct vp_event *event)
{
    if (!conn->active || conn->phase == VP_UP) {
        lost(conn, VP_EV_DISCONNECTED); /* the peer gave up during the handshake */
        return;
    }
    ut_debug(VP_CAT, "refused: %d", (int)event->refusal);
    switch (event->refusal) {
    case VP_REFUSED_NO_ENDPOINT:
        over(conn, PROV_REASON_NO_ENDPOINT);
        break;
    case VP_REFUSED_BY_CORE:
        over(conn, PROV_REASON_REJECTED);
        break;
    case VP_REFUSED_STRANGER: /* another process has the address now */
    case VP_REFUSED_DEAD:
        over(conn, PROV_REASON_PEER_DEAD);
        break;
    default:
        retry(conn, ALIVE);
    }
}

static void handle_conn_event(struct vp_conn *conn, const struct vp_event *event)
{
    enum sign sign = SILENT;

    switch (event->what) {
    case VP_HEARD_ADDRESS:
        step_route(conn);
        break;
    case VP_HEARD_ROUTE:
        step_request(conn);
        break;
    case VP_HEARD_ANSWER:
        step_response(conn, event);
        break;
    case VP_HEARD_READY:
        is_up(conn);
        break;
    case VP_HEARD_REFUSAL:
        handle_rejected(conn, event);
        break;
    case VP_HEARD_NO_WAY:
        sign = UNRESOLVED;
        /* fall through */
    case VP_HEARD_NOTHING:
        if (conn->phase == VP_UP)
            break;
        if (conn->active)
            retry(conn, sign);
        else
            over(conn, silence(conn));
        break;
    case VP_HEARD_END:
        lost(conn, VP_EV_DISCONNECTED);
        break;
    case VP_HEARD_REMOVAL:
        lost(conn, VP_EV_LOCAL);
        break;
    default:
        break;
    }
}

/* Takes one event. Its connection, if it has one, is marked busy under the lock, unless it was
 * abandoned: so it is not destroyed meanwhile. */
static bool next_event(struct vp_prov *prov, struct vp_event *event, struct vp_conn **conn)
{
    *conn = NULL;
    pthread_mutex_lock(&prov->lock);
    bool by_ud = prov->num_ports && prov->ports[0].ud; /* as all of them */
    bool found = by_ud ? vp_udcm_next(prov, event) : vp_rdmacm_next(prov, event);
    if (found && event->id && event->id->kind == VP_ID_CONN) {
        struct vp_conn *owner = vp_container_of(event->id, struct vp_conn, id);
        if (owner->abandoned) { /* it may be destroyed at any time */
            event->what = VP_HEARD_OTHER;
            event->id = NULL;
        } else {
            owner->hs.busy = true;
            *conn = owner;
        }
    }
    pthread_mutex_unlock(&prov->lock);
    return found;
}

static void of_no_connection(struct vp_prov *prov, struct vp_event *event)
{
    switch (event->what) {
    case VP_HEARD_REQUEST:
        handle_request(prov, event);
        break;
    case VP_HEARD_STRANGER:
        count_stranger(prov);
        count_refusal(prov);
        break;
    case VP_HEARD_REMOVAL:
        if (!event->port)
            break;
        ut_warn(VP_CAT, "%s is being removed", event->port->name);
        event->port->dev->gone = true;
        break;
    default:
        break;
    }
}

void vp_cm_events(struct vp_prov *prov)
{
    struct vp_event event;
    struct vp_conn *conn;

    while (!prov->quiet_until && next_event(prov, &event, &conn)) {
        if (conn) {
            handle_conn_event(conn, &event);
            not_busy(conn);
        } else if (event.id && event.id->kind == VP_ID_PROBE) {
            vp_probe_event(prov, vp_container_of(event.id, struct vp_probe, id), &event);
        } else {
            of_no_connection(prov, &event);
        }
    }
}
