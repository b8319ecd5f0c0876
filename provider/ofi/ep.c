/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing, polling, arming; checks for stalled operations. */
#include "ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "fabric.h"
#include "names.h"
#include "pool.h"
#include "rma.h"
#include "post.h"
#include "region.h"
#include "send.h"
#include "recv.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/back_off.h"
#include "event.h"

enum {
    ENTRIES = 16,
    READS = 8,                      /* reads of the completion queue in one poll */
    CHECK_MS = 1000,                /* interval of the checks for stalled operations */
    MAX_CTRL_POLL_AFTER = 64,       /* maximum of ctrl_poll_after */
    REPOST_AFTER = FP_RECEIVES / 4, /* used receives that a poll with completions posts again */
};

/*
 * Opening
 */

static int post_receives(struct fp_ep *ep)
{
    for (int i = 0; i < FP_RECEIVES; i++) {
        struct fp_buf *buf = fp_pool_get(&ep->receives, FP_BUF_RECEIVE, NULL);
        if (!buf)
            return -ENOMEM;
        fp_post_receive(buf, ep->fids.ep, &ep->unposted);
    }
    return 0;
}

/* Adds the endpoint to the list in which control messages find it. */
static int add_to_list(struct fp_ep *ep)
{
    struct fp_prov *prov = ep->prov;
    struct fp_ep *existing;

    pthread_mutex_lock(&prov->lock);
    LIST_FOREACH (existing, &prov->eps, next)
        if (existing->attr.id == ep->attr.id)
            break;
    if (!existing)
        LIST_INSERT_HEAD(&prov->eps, ep, next);
    pthread_mutex_unlock(&prov->lock);
    return existing ? -EEXIST : 0;
}

static void remove_from_list(struct fp_ep *ep)
{
    pthread_mutex_lock(&ep->prov->lock);
    LIST_REMOVE(ep, next);
    pthread_mutex_unlock(&ep->prov->lock);
}

static void free_ep(struct fp_ep *ep)
{
    if (ep->fids.cq_fd >= 0)
        epoll_ctl(ep->prov->epoll_fd, EPOLL_CTL_DEL, ep->fids.cq_fd, NULL);
    fp_region_unregister(ep);
    fp_fids_close_ep(&ep->fids);
    fp_pool_free(&ep->chunks);
    fp_pool_free(&ep->small);
    fp_pool_free(&ep->large);
    fp_pool_free(&ep->receives);
    fp_fids_close(ep->prov, &ep->fids);
    fp_names_free(ep);
    fp_ctrl_queue_free(&ep->ctrl_queue);
    free(ep->conns);
    free(ep);
}

int fp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct fp_prov *prov = fp_prov_of(base);
    struct fp_ep *ep = calloc(1, sizeof(*ep));
    size_t largest = sizeof(struct fp_xfer) + prov->piece;

    if (!ep)
        return -ENOMEM;
    ep->prov = prov;
    ep->attr = *attr;
    ep->inject = prov->inject;
    ep->ctrl_poll_after = FP_CTRL_POLL_SOON;
    ep->fids.cq_fd = -1;
    STAILQ_INIT(&ep->ctrl_queue);
    TAILQ_INIT(&ep->idle_names);
    ep->peer_events_seen = __atomic_load_n(&prov->peer_events, __ATOMIC_SEQ_CST);
    int rc = fp_fids_open(prov, &ep->fids);
    if (rc != 0) {
        free(ep);
        return rc;
    }
    fp_pool_init(&ep->small, prov, &ep->fids, FP_SMALL);
    fp_pool_init(&ep->large, prov, &ep->fids, largest);
    fp_pool_init(&ep->receives, prov, &ep->fids, largest);
    fp_pool_init(&ep->chunks, prov, &ep->fids, prov->chunk);
    rc = post_receives(ep);
    if (rc == 0)
        rc = fp_ep_name(ep->fids.ep, ep->name, &ep->name_size);
    if (rc == 0)
        rc = add_to_list(ep);
    if (rc != 0) {
        free_ep(ep);
        return rc;
    }
    *out = (struct prov_ep *)ep;
    return 0;
}

/*
 * Polling
 */

static int handle_ctrl_queue(struct fp_ep *ep)
{
    struct fp_ctrl_queue arrived = STAILQ_HEAD_INITIALIZER(arrived);
    struct fp_ctrl_entry *entry;
    int calls = 0;

    if (!__atomic_load_n(&ep->has_ctrl, __ATOMIC_RELAXED)) /* the lock orders the queue */
        return 0;
    pthread_mutex_lock(&ep->prov->lock);
    STAILQ_CONCAT(&arrived, &ep->ctrl_queue);
    __atomic_store_n(&ep->has_ctrl, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&ep->prov->lock);
    while ((entry = STAILQ_FIRST(&arrived))) {
        STAILQ_REMOVE_HEAD(&arrived, next);
        calls += fp_conn_handle_ctrl(ep, entry->peer, &entry->msg);
        free(entry);
    }
    return calls;
}

static void handle_error(struct fp_ep *ep)
{
    struct fi_cq_err_entry error = {0};

    if (fi_cq_readerr(ep->fids.cq, &error, 0) != 1 || !error.op_context)
        return;
    struct fp_buf *buf = error.op_context;
    if (buf->kind == FP_BUF_RECEIVE) {
        if (error.err != FI_ECANCELED)
            ut_warn(FP_CAT, "a receive failed: %s", fp_strerror(-error.err));
        buf->next = ep->unposted;
        ep->unposted = buf;
        return;
    }
    if (buf->kind == FP_BUF_RMA_READ) {
        fp_rma_read_failed(buf, error.err);
        return;
    }
    if (buf->kind == FP_BUF_RMA_WRITE) {
        fp_rma_write_failed(buf, error.err);
        return;
    }
    fp_conn_break(buf->owner, fp_strerror(-error.err));
    fp_send_completed(buf);
}

static int handle_completion(struct fp_ep *ep, const struct fi_cq_msg_entry *entry)
{
    struct fp_buf *buf = entry->op_context;

    if (!buf)
        return 0;
    if (buf->kind == FP_BUF_SEND) {
        fp_send_completed(buf);
        return 0;
    }
    if (buf->kind == FP_BUF_RMA_READ)
        return fp_recv_rma_read_data(buf);
    if (buf->kind == FP_BUF_RMA_WRITE) {
        fp_rma_write_completed(buf);
        return 0;
    }
    return fp_recv_message(ep, buf, entry->len);
}

static int read_queue(struct fp_ep *ep)
{
    struct fi_cq_msg_entry entries[ENTRIES];
    int calls = 0;

    for (int i = 0; i < READS; i++) {
        ssize_t n = fi_cq_read(ep->fids.cq, entries, ENTRIES);
        if (n == -FI_EAVAIL)
            handle_error(ep);
        for (ssize_t k = 0; k < n; k++)
            calls += handle_completion(ep, &entries[k]);
        if (n < ENTRIES && n != -FI_EAVAIL)
            break;
    }
    return calls;
}

/* Serves connections with messages to send or to acknowledge. */
static int serve_busy(struct fp_ep *ep)
{
    struct fp_conn *conn = ep->busy, *next;
    int calls = 0;

    ep->busy = NULL;
    for (; conn; conn = next) {
        next = conn->next_busy;
        conn->busy = false;
        if (conn->state >= FP_DOWN)
            continue;
        fp_send_queued(conn);
        fp_send_ops(conn);
        fp_recv_continue_reads(conn);
        fp_rma_read_post(conn);
        calls += fp_conn_report_done(conn) + fp_conn_check_down(conn);
        if ((conn->broken || conn->peer_closed || conn->peer_died) && conn->state < FP_DOWN)
            fp_mark_busy(conn);
    }
    return calls;
}

/* Asks the peer for an acknowledgement: operations unacknowledged since the last check may have
 * been lost. */
static void request_ack(struct fp_conn *conn)
{
    struct fp_head head = {.kind = FP_ACK_REQUEST, .seq = conn->sent};

    if (conn->reported != conn->sent && conn->sent == conn->posted && !conn->broken &&
        conn->reported == conn->seen_reported && conn->num_queued == 0)
        fp_send(conn, &head, sizeof(head), NULL, 0); /* without memory: at the next check */
    conn->seen_reported = conn->reported;
    fp_rma_write_repeat_key_request(conn);
}

/* Returns the bytes of this side's unfinished reads that it has fetched. */
static uint64_t count_fetched(const struct fp_conn *conn)
{
    const struct fp_rma_read *transfer;
    uint64_t bytes = 0;

    STAILQ_FOREACH (transfer, &conn->rma_reads, next)
        bytes += transfer->is_read ? transfer->transferred : 0;
    return bytes;
}

/* Returns a number that changes with each progress of an operation of this side. */
static uint64_t count_progress(struct fp_conn *conn)
{
    return (uint64_t)conn->reported + conn->sent + conn->acked +
           fp_op_at(conn, conn->reported)->transferred + fp_op_at(conn, conn->sent)->transferred +
           count_fetched(conn);
}

/* True if operations made no progress for the peer timeout. A check adds at most two intervals,
 * since this process may not have run. */
static bool is_stalled(struct fp_conn *conn, uint64_t since_ms)
{
    enum { MAX_MS = 2 * CHECK_MS };
    uint64_t progress = count_progress(conn);

    if (conn->reported == conn->posted || progress != conn->seen_progress) {
        conn->seen_progress = progress;
        conn->stalled_ms = 0;
        return false;
    }
    conn->stalled_ms += since_ms < MAX_MS ? (unsigned int)since_ms : MAX_MS;
    return conn->stalled_ms > conn->ep->prov->config.peer_timeout_ms;
}

/* Called every CHECK_MS for each connection that is accepted, up, or closing. */
static void check_stall(struct fp_conn *conn, uint64_t since_ms)
{
    request_ack(conn);
    if (fp_reorder_is_stalled(conn))
        fp_conn_break(conn, "a message was lost");
    else if (is_stalled(conn, since_ms))
        fp_conn_break(conn, "the peer answers pings, but no operation makes progress");
}

static int check_conns(struct fp_ep *ep)
{
    uint64_t now = ut_now_ms();
    uint32_t peer_events = __atomic_load_n(&ep->prov->peer_events, __ATOMIC_SEQ_CST);
    bool is_due = now - ep->checked_ms >= CHECK_MS;
    int calls = 0;

    if (!is_due && peer_events == ep->peer_events_seen)
        return 0;
    ep->peer_events_seen = peer_events;
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        struct fp_conn *conn = ep->conns[i];
        if (conn)
            calls += fp_conn_check_peer(conn);
        if (conn && is_due)
            fp_conn_repeat_handshake(conn);
        if (conn && is_due && conn->state >= FP_ACCEPTED && conn->state < FP_DOWN)
            check_stall(conn, now - ep->checked_ms);
    }
    if (is_due)
        ep->checked_ms = now;
    return calls;
}

static void repost_receives(struct fp_ep *ep)
{
    struct fp_buf *all = ep->unposted, *next;

    ep->unposted = NULL;
    ep->num_used = 0;
    for (; all; all = next) {
        next = all->next;
        fp_post_receive(all, ep->fids.ep, &ep->unposted);
    }
}

/* Polls the control endpoint, since the background thread may not get a core. Each poll is a system
 * call, so the polls become rare while no control messages arrive. */
static void poll_control(struct fp_ep *ep)
{
    ep->empty_polls = 0;
    if (fp_control_poll_once(ep->prov))
        ep->ctrl_poll_after = FP_CTRL_POLL_SOON;
    else if (ep->ctrl_poll_after < MAX_CTRL_POLL_AFTER)
        ep->ctrl_poll_after *= 2;
}

int fp_ep_poll(struct prov_ep *base)
{
    struct fp_ep *ep = (struct fp_ep *)base;

    int calls = handle_ctrl_queue(ep) + read_queue(ep) + check_conns(ep);
    if (calls == 0 && ep->ack_later)
        fp_ack_all_now(ep);
    if (calls == 0 && ++ep->empty_polls >= ep->ctrl_poll_after)
        poll_control(ep);
    if (ep->busy)
        calls += serve_busy(ep);
    if (ep->unposted && (calls == 0 || ep->num_used >= REPOST_AFTER))
        repost_receives(ep);
    fp_send_acks(ep); /* at once, because the program may not poll again */
    if (ep->closed)
        fp_conns_reap(ep);
    return calls;
}

void fp_ep_flush(struct prov_ep *base)
{
    (void)base; /* PROV_MORE delays nothing */
}

/*
 * Sleeping
 */

bool fp_ep_arm(struct prov_ep *base, enum prov_arm what)
{
    (void)what; /* every event wakes the owner */
    struct fp_ep *ep = (struct fp_ep *)base;
    struct fp_prov *prov = ep->prov;

    fp_ack_all_now(ep);
    fp_send_acks(ep);
    if (ep->unposted)
        repost_receives(ep);
    __atomic_store_n(&ep->armed, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ep->has_ctrl, __ATOMIC_SEQ_CST) ||
        __atomic_load_n(&prov->peer_events, __ATOMIC_SEQ_CST) != ep->peer_events_seen)
        return true;
    if (ep->fids.cq_fd >= 0 && !fp_fids_trywait(prov, &ep->fids))
        return true;
    if (ep->busy || ep->unposted || ep->fids.cq_fd < 0) {
        __atomic_store_n(&ep->retry, 1, __ATOMIC_SEQ_CST);
        fp_timer_start(prov);
    }
    if (ep->fids.cq_fd < 0)
        return false;
    int rc =
        fp_epoll_watch(prov, ep->fids.cq_fd, EPOLLIN | EPOLLONESHOT, (uintptr_t)ep->attr.owner);
    if (rc != 0)
        ut_warn(FP_CAT, "cannot watch a completion queue: %s", strerror(-rc));
    return false;
}

void fp_ep_disarm(struct prov_ep *base)
{
    struct fp_ep *ep = (struct fp_ep *)base;

    __atomic_store_n(&ep->armed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ep->retry, 0, __ATOMIC_SEQ_CST);
}

/*
 * Closing
 */

static void close_conn(struct fp_conn *conn)
{
    switch (conn->state) {
    case FP_INCOMING:
        fp_reject((struct prov_conn *)conn);
        break;
    case FP_CLOSING:
    case FP_CLOSED:
        break;
    default:
        fp_conn_close((struct prov_conn *)conn);
    }
}

/* Sends a last message, whose completion means that all injected messages before it have been sent.
 * A fabric may drop unsent messages when the endpoint is closed. */
static void flush_conn(struct fp_conn *conn)
{
    struct fp_head ack = {.kind = FP_ACK};

    if (conn->state == FP_UP && !conn->broken && !conn->peer_closed)
        fp_send(conn, &ack, sizeof(ack), NULL, 0); /* without memory: treated as lost */
}

static bool still_closing(const struct fp_ep *ep)
{
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        if (ep->conns[i] && ep->conns[i]->state == FP_CLOSING)
            return true;
    }
    return false;
}

void fp_ep_close(struct prov_ep *base)
{
    enum { PAUSE_US = 50 };
    struct fp_ep *ep = (struct fp_ep *)base;
    uint64_t until = ut_now_ms() + UT_CLOSE_TIMEOUT_MS;

    ep->is_closing = true;
    ep->inject = 0;
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        if (!ep->conns[i])
            continue;
        flush_conn(ep->conns[i]);
        close_conn(ep->conns[i]);
    }
    while (still_closing(ep) && ut_now_ms() < until) {
        fp_ep_poll(base);
        usleep(PAUSE_US);
    }
    remove_from_list(ep);
    /* rejects requests that arrived meanwhile: their peers send them again */
    handle_ctrl_queue(ep);
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        if (ep->conns[i])
            fp_conn_finish(ep->conns[i]);
    }
    for (struct fp_conn *conn = ep->closed, *next; conn; conn = next) {
        next = conn->next_closed;
        fp_conn_free(conn);
    }
    free_ep(ep);
}

void fp_ep_close_without_fabric(struct fp_ep *ep)
{
    ep->is_closing = true;
    remove_from_list(ep);
}
