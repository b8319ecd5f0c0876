/* SPDX-License-Identifier: Apache-2.0 */
/* The control endpoint: sends, repeats and receives control messages, and pings peers: see
 * control.h. */
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric.h"
#include "peer.h"
#include "refused.h"
#include "pool.h"
#include "auth.h"
#include "util/clock.h"
#include "util/host.h"
#include "util/log.h"
#include "event.h"

enum { RECEIVES = 64, ENTRIES = 16, FLUSH_PAUSE_MS = 1 };
/* Pause before a failed message is sent again, for a fabric that reports at once that a peer is not
 * there. None is known: libfabric's net returns -FI_EAGAIN as long as a peer does not accept its
 * connection (xnet_get_conn() in prov/tcp/src/xnet_rdm_cm.c). */
enum { REPEAT_MS = 10 };

bool fp_address_is_valid(const struct fp_prov *prov, const struct fp_address *address)
{
    return address->version == FP_VERSION && address->fabric == prov->address.fabric &&
           address->name_size > 0 && address->name_size <= FP_NAME_MAX;
}

/*
 * Sending
 */

/* Called with prov->lock. */
static void append_ctrl(struct fp_control *c, struct fp_ctrl_entry *entry)
{
    STAILQ_INSERT_TAIL(&c->queue, entry, next);
}

/* True if the message is to be dropped: its peer was given up. Peers without connections are not
 * pinged, so messages to them have a time limit. */
static bool is_given_up(const struct fp_ctrl_entry *entry, uint64_t now)
{
    return fp_peer_is_dead(entry->peer) ||
           __atomic_load_n(&entry->peer->timeouts, __ATOMIC_RELAXED) != entry->timeouts ||
           (now > entry->until_ms && !fp_peer_is_used(entry->peer));
}

/* False if the message failed just now; later ones to the peer wait for it. Called with the control
 * lock. */
static bool is_due(const struct fp_control *c, const struct fp_ctrl_entry *entry, uint64_t now)
{
    if (now >= entry->due_ms)
        return true;
    entry->peer->blocked = c->round;
    return false;
}

/* A control message in a send buffer. */
struct sending {
    struct fp_ctrl_msg msg;
    uint64_t until_ms;
};

/* Called with the control lock. */
static bool send_one(struct fp_prov *prov, struct fp_ctrl_entry *entry)
{
    struct fp_control *c = &prov->control;
    struct fp_peer *peer = entry->peer;

    if (peer->blocked == c->round) /* an earlier message to the peer was not sent */
        return false;
    peer->blocked = c->round;
    if (peer->at == FI_ADDR_NOTAVAIL &&
        fi_av_insert(c->fids.av, peer->address.name, 1, &peer->at, 0, NULL) != 1) {
        peer->at = FI_ADDR_NOTAVAIL;
        return false;
    }
    struct fp_buf *buf = fp_pool_get(&c->sends, FP_BUF_SEND, peer);
    if (!buf)
        return false;
    const struct sending sending = {.msg = entry->msg, .until_ms = entry->until_ms};
    memcpy(buf->bytes, &sending, sizeof(sending));
    if (fi_send(c->fids.ep, buf->bytes, sizeof(entry->msg), buf->desc, peer->at, &buf->context) !=
        0) {
        fp_pool_put(buf);
        return false;
    }
    c->num_sending++;
    peer->blocked = 0;
    return true;
}

/* Called with the control lock. */
static void send_queued(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    struct fp_ctrl_queue due = STAILQ_HEAD_INITIALIZER(due);
    struct fp_ctrl_queue later = STAILQ_HEAD_INITIALIZER(later);
    struct fp_ctrl_entry *entry;
    uint64_t now = ut_now_ms();

    pthread_mutex_lock(&prov->lock);
    STAILQ_CONCAT(&due, &c->queue);
    if (++c->round == 0)
        c->round++;
    pthread_mutex_unlock(&prov->lock);
    while ((entry = STAILQ_FIRST(&due))) {
        STAILQ_REMOVE_HEAD(&due, next);
        if (is_given_up(entry, now) || (is_due(c, entry, now) && send_one(prov, entry)))
            free(entry);
        else
            STAILQ_INSERT_TAIL(&later, entry, next);
    }
    if (STAILQ_EMPTY(&later))
        return;
    pthread_mutex_lock(&prov->lock);
    STAILQ_CONCAT(&later, &c->queue); /* messages queued meanwhile come behind */
    STAILQ_CONCAT(&c->queue, &later);
    pthread_mutex_unlock(&prov->lock);
    fp_timer_start(prov);
}

/* Signs with the key of the peer. If that key is unknown, signs with the key of this process, which
 * the peer used for its request. */
static void sign_ctrl(const struct fp_peer *peer, struct fp_ctrl_msg *msg)
{
    bool is_peers = fp_peer_has_key(peer);

    msg->process = peer->prov->address;
    msg->signed_by = is_peers ? FP_SIGNED_BY_RECEIVER : FP_SIGNED_BY_SENDER;
    fp_sign(msg, is_peers ? peer->key : peer->prov->key);
}

static void queue_until(struct fp_peer *peer, const struct fp_ctrl_msg *msg, uint64_t due_ms,
                        uint64_t until_ms)
{
    struct fp_prov *prov = peer->prov;
    struct fp_ctrl_entry *entry = calloc(1, sizeof(*entry));

    if (!entry) {
        ut_error(FP_CAT, "no memory for a message to another process");
        return;
    }
    entry->peer = peer;
    entry->timeouts = __atomic_load_n(&peer->timeouts, __ATOMIC_RELAXED);
    entry->due_ms = due_ms;
    entry->until_ms = until_ms;
    entry->msg = *msg;
    sign_ctrl(peer, &entry->msg);
    pthread_mutex_lock(&prov->lock);
    append_ctrl(&prov->control, entry);
    pthread_mutex_unlock(&prov->lock);
}

static void queue_ctrl(struct fp_peer *peer, const struct fp_ctrl_msg *msg)
{
    queue_until(peer, msg, 0, ut_now_ms() + peer->prov->config.peer_timeout_ms);
}

void fp_control_send(struct fp_peer *peer, const struct fp_ctrl_msg *msg)
{
    struct fp_prov *prov = peer->prov;

    queue_ctrl(peer, msg);
    if (pthread_mutex_trylock(&prov->control.lock) == 0) {
        send_queued(prov);
        pthread_mutex_unlock(&prov->control.lock);
    }
    fp_timer_start(prov);
}

/*
 * Receiving
 */

/* True if the endpoint has not handled the same message yet: peers repeat messages of the handshake
 * as long as the program does not poll. Called with the lock. */
static bool is_queued(const struct fp_ep *ep, const struct fp_ctrl_entry *entry)
{
    const struct fp_ctrl_msg *msg = &entry->msg;
    const struct fp_ctrl_entry *queued;

    if (msg->kind != FP_CONN_REQUEST && msg->kind != FP_CONN_ACCEPT)
        return false;
    STAILQ_FOREACH (queued, &ep->ctrl_queue, next)
        if (queued->peer == entry->peer && queued->msg.kind == msg->kind &&
            queued->msg.from_id == msg->from_id && queued->msg.from_conn == msg->from_conn)
            return true;
    return false;
}

/* Passes the message to its endpoint; the caller wakes *owner. False: no such endpoint. */
static bool deliver_ctrl(struct fp_prov *prov, struct fp_ctrl_entry *entry, void **owner)
{
    struct fp_ep *ep;

    pthread_mutex_lock(&prov->lock);
    LIST_FOREACH (ep, &prov->eps, next)
        if (ep->attr.id == entry->msg.to_id)
            break;
    if (ep && is_queued(ep, entry)) {
        free(entry);
    } else if (ep) {
        STAILQ_INSERT_TAIL(&ep->ctrl_queue, entry, next);
        __atomic_store_n(&ep->has_ctrl, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&ep->armed, __ATOMIC_SEQ_CST)) {
            *owner = ep->attr.owner;
            if (prov->control.polled_by_owner)
                __atomic_store_n(&ep->retry, 1, __ATOMIC_SEQ_CST);
        }
    }
    pthread_mutex_unlock(&prov->lock);
    return ep != NULL;
}

static void reject_ctrl(struct fp_peer *peer, const struct fp_ctrl_msg *msg)
{
    struct fp_ctrl_msg answer = {.to_conn = msg->from_conn,
                                 .from_conn = msg->to_conn,
                                 .to_id = msg->from_id,
                                 .from_id = msg->to_id};

    if (msg->kind != FP_CONN_REQUEST && msg->kind != FP_CONN_ACCEPT)
        return;
    answer.kind = msg->kind == FP_CONN_REQUEST ? FP_CONN_NO_ENDPOINT : FP_CONN_BROKEN;
    queue_ctrl(peer, &answer);
}

/* Finds the sender. NULL: the message is not signed with a known key; it gets no reply, and nothing
 * is stored. A process that has the record of this process becomes a peer when it requests a
 * connection. */
static struct fp_peer *sender_of(struct fp_prov *prov, const struct fp_ctrl_msg *msg)
{
    struct fp_peer *peer = fp_peer_find(prov, &msg->process);
    const uint8_t *key = msg->signed_by == FP_SIGNED_BY_RECEIVER ? prov->key
                         : peer && fp_peer_has_key(peer)         ? peer->key
                                                                 : NULL;

    if (!key || !fp_is_signed(msg, key)) {
        if (msg->kind == FP_CONN_REQUEST)
            ut_warn(FP_CAT,
                    "rejected a connection request from process %u: it is not signed with a key of "
                    "this job, and gets no reply (is it a process of another or an earlier job?)",
                    msg->process.pid);
        else
            ut_info(FP_CAT,
                    "dropped a control message of kind %u: it is not signed with a key of this job",
                    msg->kind);
        return NULL;
    }
    return !peer && msg->kind == FP_CONN_REQUEST ? fp_peer_get(prov, &msg->process, NULL) : peer;
}

static void handle_ctrl(struct fp_prov *prov, const struct fp_ctrl_msg *msg)
{
    struct fp_peer *peer = sender_of(prov, msg);
    struct fp_ctrl_entry *entry;
    void *owner = NULL;

    if (!peer)
        return;
    fp_peer_received(peer, msg->kind == FP_PONG ? msg->to_conn : 0);
    if (msg->kind == FP_PING)
        queue_ctrl(peer, &(struct fp_ctrl_msg){.kind = FP_PONG, .to_conn = msg->from_conn});
    if (msg->kind == FP_PING || msg->kind == FP_PONG || !(entry = calloc(1, sizeof(*entry))))
        return;
    entry->peer = peer;
    entry->msg = *msg;
    if (!deliver_ctrl(prov, entry, &owner)) {
        free(entry);
        reject_ctrl(peer, msg);
    }
    if (owner && prov->control.polled_by_owner)
        fp_timer_start(prov); /* only progress() calls wake() */
    else if (owner)
        prov->config.wake(owner);
}

static void handle_receive(struct fp_prov *prov, struct fp_buf *buf, size_t size)
{
    struct fp_control *c = &prov->control;
    struct fp_ctrl_msg msg;

    memcpy(&msg, buf->bytes, sizeof(msg));
    fp_post_receive(buf, c->fids.ep, &c->unposted);
    if (size == sizeof(msg) && msg.hello_size <= PROV_PRIVATE_DATA_MAX &&
        msg.name_size <= FP_NAME_MAX && fp_address_is_valid(prov, &msg.process))
        handle_ctrl(prov, &msg);
    else
        ut_warn(FP_CAT,
                "unknown message of %zu bytes (does the peer run another version of the library?)",
                size);
}

static void complete_send(struct fp_control *c, struct fp_buf *buf)
{
    c->num_sending--;
    fp_pool_put(buf);
}

static void handle_error(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    struct fi_cq_err_entry error = {0};

    if (fi_cq_readerr(c->fids.cq, &error, 0) != 1 || !error.op_context)
        return;
    struct fp_buf *buf = error.op_context;
    ut_info(FP_CAT, "a %s of the control endpoint failed: %s",
            buf->kind == FP_BUF_SEND ? "send" : "receive", fp_strerror(-error.err));
    if (buf->kind == FP_BUF_RECEIVE) {
        buf->next = c->unposted;
        c->unposted = buf;
        return;
    }
    struct fp_peer *peer = buf->owner;
    struct sending sending;
    memcpy(&sending, buf->bytes, sizeof(sending));
    complete_send(c, buf);
    if (sending.msg.kind != FP_PONG) /* repeated until the peer is given up */
        queue_until(peer, &sending.msg, ut_now_ms() + REPEAT_MS, sending.until_ms);
}

static void repost_receives(struct fp_control *c)
{
    struct fp_buf *all = c->unposted, *next;

    c->unposted = NULL;
    for (; all; all = next) {
        next = all->next;
        fp_post_receive(all, c->fids.ep, &c->unposted);
    }
}

/* Returns the number of completions that were read; 0: none. */
static long read_completions(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    struct fi_cq_msg_entry entries[ENTRIES];
    ssize_t n = fi_cq_read(c->fids.cq, entries, ENTRIES);

    if (n == -FI_EAVAIL)
        handle_error(prov);
    for (ssize_t i = 0; i < n; i++) {
        struct fp_buf *buf = entries[i].op_context;
        if (!buf)
            continue;
        if (buf->kind == FP_BUF_RECEIVE)
            handle_receive(prov, buf, entries[i].len);
        else
            complete_send(c, buf);
    }
    return n == -FI_EAGAIN ? 0 : n;
}

bool fp_control_poll_once(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    if (pthread_mutex_trylock(&c->lock) != 0)
        return true;
    c->polled_by_owner = true;
    repost_receives(c);
    bool found = read_completions(prov) != 0;
    send_queued(prov);
    c->polled_by_owner = false;
    pthread_mutex_unlock(&c->lock);
    return found;
}

bool fp_control_progress(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    bool is_drained;

    pthread_mutex_lock(&c->lock);
    repost_receives(c);
    for (int i = 0; i < ENTRIES && read_completions(prov) != 0; i++)
        ;
    send_queued(prov);
    is_drained = c->fids.cq_fd < 0 || fp_fids_trywait(prov, &c->fids);
    if (c->unposted || c->fids.cq_fd < 0)
        fp_timer_start(prov);
    pthread_mutex_unlock(&c->lock);
    return is_drained;
}

/*
 * Opening
 */

static int fill_address(struct fp_prov *prov)
{
    struct fp_address *a = &prov->address;
    struct ut_host host;

    if (!fp_random(prov->key, sizeof(prov->key)))
        return -EIO;
    ut_host_read(&host);
    a->version = FP_VERSION;
    a->fabric = fp_fabric_hash(prov->lib, prov->info);
    a->boot = host.boot;
    a->pid_ns = host.pid_ns;
    a->pid = (uint32_t)getpid();
    a->start = fp_process_start(a->pid);
    return fp_ep_name(prov->control.fids.ep, a->name, &a->name_size);
}

static int post_receives(struct fp_control *c)
{
    for (int i = 0; i < RECEIVES; i++) {
        struct fp_buf *buf = fp_pool_get(&c->receives, FP_BUF_RECEIVE, NULL);
        if (!buf)
            return -ENOMEM;
        fp_post_receive(buf, c->fids.ep, &c->unposted);
    }
    return 0;
}

int fp_control_open(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    STAILQ_INIT(&c->queue);
    int rc = fp_fids_open(prov, &c->fids);
    if (rc == 0) {
        fp_pool_init(&c->sends, prov, &c->fids, sizeof(struct sending));
        fp_pool_init(&c->receives, prov, &c->fids, sizeof(struct fp_ctrl_msg));
        rc = post_receives(c);
    }
    if (rc == 0)
        rc = fill_address(prov);
    if (rc == 0 && c->fids.cq_fd >= 0)
        rc = fp_epoll_watch(prov, c->fids.cq_fd, EPOLLIN, FP_EVENT_CONTROL);
    return rc;
}

void fp_ctrl_queue_free(struct fp_ctrl_queue *queue)
{
    struct fp_ctrl_entry *entry;

    while ((entry = STAILQ_FIRST(queue))) {
        STAILQ_REMOVE_HEAD(queue, next);
        free(entry);
    }
}

/* Sends the last messages to the peers, as far as possible. A fabric may drop unsent messages when
 * the endpoint is closed. */
static void flush_control(struct fp_prov *prov)
{
    enum { TRIES = 200 };
    const struct fp_control *c = &prov->control;

    for (int i = 0; i < TRIES && (!STAILQ_EMPTY(&c->queue) || c->num_sending > 0); i++) {
        fp_control_progress(prov);
        if (!STAILQ_EMPTY(&c->queue) || c->num_sending > 0)
            usleep(FLUSH_PAUSE_MS * 1000);
    }
}

void fp_control_close(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    if (c->fids.ep)
        flush_control(prov);
    fp_fids_close_ep(&c->fids);
    fp_pool_free(&c->sends);
    fp_pool_free(&c->receives);
    fp_fids_close(prov, &c->fids);
    fp_ctrl_queue_free(&c->queue);
}

/*
 * A ping is a control message. The background thread of the peer replies with a pong, whatever the
 * program of the peer does.
 */

/* Interval of the checks of a peer, and their number before the peer is given up. */
enum { CHECK_MS = 1000, MIN_CHECK_MS = 100, CHECKS = 4 };

uint32_t fp_peer_ping(struct fp_peer *peer)
{
    uint32_t number = __atomic_add_fetch(&peer->last_ping, 1, __ATOMIC_SEQ_CST);

    __atomic_store_n(&peer->awaited_pong, number, __ATOMIC_RELAXED);
    fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_PING, .from_conn = number});
    return number;
}

static unsigned int check_interval_ms(const struct fp_prov *prov)
{
    unsigned int ms = prov->config.peer_timeout_ms / CHECKS;

    return ms > CHECK_MS ? CHECK_MS : ms < MIN_CHECK_MS ? MIN_CHECK_MS : ms;
}

/* True if a ping is due. Counts at most two intervals as silence, because a pong may have arrived
 * while this process did not run. Called with the lock. */
static bool check_peer(struct fp_peer *peer, uint64_t now)
{
    struct fp_prov *prov = peer->prov;
    uint64_t since = now > peer->checked_ms ? now - peer->checked_ms : 0,
             most = 2 * check_interval_ms(prov);

    if (since < check_interval_ms(prov))
        return false;
    peer->checked_ms = now;
    peer->silent_ms += since < most ? since : most;
    if (peer->silent_ms <= prov->config.peer_timeout_ms)
        return true;
    ut_info(FP_CAT, "a process has not answered for %u s", prov->config.peer_timeout_ms / 1000);
    __atomic_add_fetch(&peer->timeouts, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&prov->peer_events, 1, __ATOMIC_SEQ_CST);
    peer->silent_ms = 0;
    return false;
}

static bool is_silent(const struct fp_peer *peer)
{
    return peer->silent_ms >= 2 * check_interval_ms(peer->prov);
}

/* If the peer's process has ended: handles its last messages, and then its end. */
static void check_port(struct fp_peer *peer)
{
    if (!fp_peer_port_is_refused(peer))
        return;
    fp_control_progress(peer->prov);
    fp_peer_died(peer);
}

int fp_keepalive_run(struct fp_prov *prov)
{
    uint64_t now = ut_now_ms();
    unsigned int living = 0;

    if (now < prov->next_pass_ms) /* progress() is called for each event, too */
        return (int)check_interval_ms(prov);
    pthread_mutex_lock(&prov->lock);
    struct fp_peer *peer = SLIST_FIRST(&prov->peers);
    pthread_mutex_unlock(&prov->lock);
    for (; peer;
         peer = SLIST_NEXT(peer, next)) { /* peers are never freed, and new peers are prepended */
        pthread_mutex_lock(&prov->lock);
        bool is_used = peer->conns > 0 && !fp_peer_is_dead(peer);
        bool ping_due = is_used && check_peer(peer, now);
        bool silent = is_used && is_silent(peer);
        pthread_mutex_unlock(&prov->lock);
        living += is_used;
        if (silent)
            check_port(peer);
        else
            fp_peer_drop_port_probe(peer);
        if (ping_due)
            fp_peer_ping(peer);
    }
    prov->next_pass_ms = living > 0 ? now + MIN_CHECK_MS : 0;
    return living > 0 ? (int)check_interval_ms(prov) : -1;
}
