/* SPDX-License-Identifier: Apache-2.0 */
#include "ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "fabric.h"
#include "order.h"
#include "place.h"
#include "pool.h"
#include "post.h"
#include "pull.h"
#include "region.h"
#include "send.h"
#include "serve.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/retry_delay.h"
#include "wake.h"

enum {
    ENTRIES = 16,
    READS = 8,              /* of the queue, in one poll */
    LOOK_MS = 1000,         /* how often it is looked for operations that wait for long */
    HELP_LATE = 64,         /* empty polls */
    USED = FP_RECEIVES / 4, /* receives that are posted again even by a poll that found something */
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
        fp_receive(buf, ep->fids.ep, &ep->unposted);
    }
    return 0;
}

/* Adds the endpoint to the list where peers find it. */
static int enlist(struct fp_ep *ep)
{
    struct fp_prov *prov = ep->prov;
    struct fp_ep *same;

    pthread_mutex_lock(&prov->lock);
    for (same = prov->eps; same && same->attr.id != ep->attr.id; same = same->next)
        ;
    if (!same) {
        ep->next = prov->eps;
        prov->eps = ep;
    }
    pthread_mutex_unlock(&prov->lock);
    return same ? -EEXIST : 0;
}

static void delist(struct fp_ep *ep)
{
    struct fp_prov *prov = ep->prov;
    struct fp_ep **at = &prov->eps;

    pthread_mutex_lock(&prov->lock);
    while (*at && *at != ep)
        at = &(*at)->next;
    if (*at)
        *at = ep->next;
    pthread_mutex_unlock(&prov->lock);
}

static void release(struct fp_ep *ep)
{
    if (ep->fids.cq_fd >= 0)
        epoll_ctl(ep->prov->epoll_fd, EPOLL_CTL_DEL, ep->fids.cq_fd, NULL);
    fp_unexpose(ep);
    fp_fids_end(&ep->fids);
    fp_pool_free(&ep->chunks);
    fp_pool_free(&ep->small);
    fp_pool_free(&ep->large);
    fp_pool_free(&ep->receives);
    fp_fids_close(ep->prov, &ep->fids);
    while (ep->mail) {
        struct fp_mail *mail = ep->mail;
        ep->mail = mail->next;
        free(mail);
    }
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
    ep->help_after = FP_HELP_SOON;
    ep->fids.cq_fd = -1;
    ep->last_mail = &ep->mail;
    ep->news_seen = __atomic_load_n(&prov->news, __ATOMIC_SEQ_CST);
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
        rc = enlist(ep);
    if (rc != 0) {
        release(ep);
        return rc;
    }
    *out = (struct prov_ep *)ep;
    return 0;
}

/*
 * Polling
 */

static int take_mail(struct fp_ep *ep)
{
    struct fp_mail *mail, *next;
    int calls = 0;

    if (!__atomic_load_n(&ep->has_mail, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&ep->prov->lock);
    mail = ep->mail;
    ep->mail = NULL;
    ep->last_mail = &ep->mail;
    __atomic_store_n(&ep->has_mail, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ep->prov->lock);
    for (; mail; mail = next) {
        next = mail->next;
        calls += fp_conn_take_note(ep, mail->peer, &mail->note);
        free(mail);
    }
    return calls;
}

static void take_error(struct fp_ep *ep)
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
    if (buf->kind == FP_BUF_PULL) {
        fp_pull_failed(buf, error.err);
        return;
    }
    if (buf->kind == FP_BUF_PLACE) {
        fp_place_failed(buf, error.err);
        return;
    }
    fp_break(buf->owner, fp_strerror(-error.err));
    fp_sent(buf);
}

static int take_entry(struct fp_ep *ep, const struct fi_cq_msg_entry *entry)
{
    struct fp_buf *buf = entry->op_context;

    if (!buf)
        return 0;
    if (buf->kind == FP_BUF_SEND) {
        fp_sent(buf);
        return 0;
    }
    if (buf->kind == FP_BUF_PULL)
        return fp_serve_pulled(buf);
    if (buf->kind == FP_BUF_PLACE) {
        fp_place_done(buf);
        return 0;
    }
    return fp_serve(ep, buf, entry->len);
}

static int read_queue(struct fp_ep *ep)
{
    struct fi_cq_msg_entry entries[ENTRIES];
    int calls = 0;

    for (int i = 0; i < READS; i++) {
        ssize_t n = fi_cq_read(ep->fids.cq, entries, ENTRIES);
        if (n == -FI_EAVAIL)
            take_error(ep);
        for (ssize_t k = 0; k < n; k++)
            calls += take_entry(ep, &entries[k]);
        if (n < ENTRIES && n != -FI_EAVAIL)
            break;
    }
    return calls;
}

/* Serves connections with messages to send, or to acknowledge. */
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
        fp_push(conn);
        fp_serve_reads(conn);
        fp_pull_ask(conn);
        calls += fp_conn_report(conn) + fp_conn_settle(conn);
        if ((conn->broken || conn->parting || conn->orphaned) && conn->state < FP_DOWN)
            fp_mark_busy(conn);
    }
    return calls;
}

/* Operations that have been unacknowledged since the last check may have been lost. */
static void nudge(struct fp_conn *conn)
{
    struct fp_head head = {.kind = FP_NUDGE, .seq = conn->sent};

    if (conn->reported != conn->sent && conn->sent == conn->posted && !conn->broken &&
        conn->reported == conn->seen_reported && conn->num_queued == 0)
        fp_send(conn, &head, sizeof(head), NULL, 0); /* without memory: at the next check */
    conn->seen_reported = conn->reported;
    fp_place_ask_again(conn);
}

/* Changes with each step of this side's operations. */
static uint64_t count_steps(struct fp_conn *conn)
{
    return (uint64_t)conn->reported + conn->sent + conn->acked +
           fp_op_at(conn, conn->reported)->moved + fp_op_at(conn, conn->sent)->moved;
}

/* Time in which this process did not run counts little. */
static bool has_stood_still(struct fp_conn *conn, uint64_t since_ms)
{
    enum { MOST_MS = 2 * LOOK_MS };
    uint64_t steps = count_steps(conn);

    if (conn->reported == conn->posted || steps != conn->seen_steps) {
        conn->seen_steps = steps;
        conn->still_ms = 0;
        return false;
    }
    conn->still_ms += since_ms < MOST_MS ? (unsigned int)since_ms : MOST_MS;
    return conn->still_ms > conn->ep->prov->config.peer_timeout_ms;
}

/* Called once in LOOK_MS for each connection that is accepted, up, or closing. */
static void care_for(struct fp_conn *conn, uint64_t since_ms)
{
    nudge(conn);
    if (fp_kept_waits_for_long(conn))
        fp_break(conn, "a message was lost");
    else if (has_stood_still(conn, since_ms))
        fp_break(conn, "the process answers, but no operation gets on");
}

static int look(struct fp_ep *ep)
{
    uint64_t now = ut_now_ms();
    uint32_t news = __atomic_load_n(&ep->prov->news, __ATOMIC_SEQ_CST);
    bool long_ago = now - ep->looked_ms >= LOOK_MS;
    int calls = 0;

    if (!long_ago && news == ep->news_seen)
        return 0;
    ep->news_seen = news;
    for (uint32_t i = 0; i < ep->num_names; i++) {
        struct fp_conn *conn = ep->conns[i];
        if (conn)
            calls += fp_conn_look(conn);
        if (conn && long_ago && conn->state == FP_ASKED)
            fp_conn_ask_again(conn);
        if (conn && long_ago && conn->state >= FP_ACCEPTED && conn->state < FP_DOWN)
            care_for(conn, now - ep->looked_ms);
    }
    if (long_ago)
        ep->looked_ms = now;
    return calls;
}

static void repost(struct fp_ep *ep)
{
    struct fp_buf *all = ep->unposted, *next;

    ep->unposted = NULL;
    ep->num_used = 0;
    for (; all; all = next) {
        next = all->next;
        fp_receive(all, ep->fids.ep, &ep->unposted);
    }
}

/* The background thread serves the control endpoint, but may not run now. That takes a system call,
 * so it becomes rare while no notes come. */
static void help_control(struct fp_ep *ep)
{
    ep->empty_polls = 0;
    if (fp_control_help(ep->prov))
        ep->help_after = FP_HELP_SOON;
    else if (ep->help_after < HELP_LATE)
        ep->help_after *= 2;
}

int fp_ep_poll(struct prov_ep *base)
{
    struct fp_ep *ep = (struct fp_ep *)base;

    int calls = take_mail(ep) + read_queue(ep) + look(ep);
    if (calls == 0 && ep->owing)
        fp_owing_are_due(ep);
    if (calls == 0 && ++ep->empty_polls >= ep->help_after)
        help_control(ep);
    if (ep->busy)
        calls += serve_busy(ep);
    if (ep->unposted && (calls == 0 || ep->num_used >= USED))
        repost(ep);
    fp_send_acks(ep); /* at once, as the program may not poll again */
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
    (void)what; /* every event wakes */
    struct fp_ep *ep = (struct fp_ep *)base;
    struct fp_prov *prov = ep->prov;

    fp_owing_are_due(ep);
    fp_send_acks(ep);
    if (ep->unposted)
        repost(ep);
    __atomic_store_n(&ep->armed, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ep->has_mail, __ATOMIC_SEQ_CST) ||
        __atomic_load_n(&prov->news, __ATOMIC_SEQ_CST) != ep->news_seen)
        return true;
    if (ep->fids.cq_fd >= 0 && !fp_fids_may_sleep(prov, &ep->fids))
        return true;
    if (ep->busy || ep->unposted || ep->fids.cq_fd < 0) {
        __atomic_store_n(&ep->retry, 1, __ATOMIC_SEQ_CST);
        fp_tick(prov);
    }
    if (ep->fids.cq_fd < 0)
        return false;
    int rc = fp_watch(prov, ep->fids.cq_fd, EPOLLIN | EPOLLONESHOT, (uintptr_t)ep->attr.owner);
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

static void part_with(struct fp_conn *conn)
{
    switch (conn->state) {
    case FP_AWAITED:
        fp_reject((struct prov_conn *)conn);
        break;
    case FP_CLOSING:
    case FP_CLOSED:
        break;
    default:
        fp_conn_close((struct prov_conn *)conn);
    }
}

/* Sends a last message: when it has been sent, injected messages before it have been sent, too. A
 * fabric may drop unsent messages when the endpoint is closed. */
static void say_last(struct fp_conn *conn)
{
    struct fp_head ack = {.kind = FP_ACK};

    if (conn->state == FP_UP && !conn->broken && !conn->parting)
        fp_send(conn, &ack, sizeof(ack), NULL, 0); /* without memory: treated as lost */
}

static bool still_closing(const struct fp_ep *ep)
{
    for (uint32_t i = 0; i < ep->num_names; i++) {
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
    for (uint32_t i = 0; i < ep->num_names; i++) {
        if (!ep->conns[i])
            continue;
        say_last(ep->conns[i]);
        part_with(ep->conns[i]);
    }
    while (still_closing(ep) && ut_now_ms() < until) {
        fp_ep_poll(base);
        usleep(PAUSE_US);
    }
    fp_owing_are_due(ep);
    fp_send_acks(ep);
    delist(ep);
    take_mail(ep); /* rejects requests that arrived meanwhile; the peer asks again */
    for (uint32_t i = 0; i < ep->num_names; i++) {
        if (ep->conns[i])
            fp_conn_end(ep->conns[i]);
    }
    for (struct fp_conn *conn = ep->closed, *next; conn; conn = next) {
        next = conn->next_closed;
        fp_conn_free(conn);
    }
    release(ep);
}

void fp_ep_abandon(struct fp_ep *ep)
{
    ep->is_closing = true;
    delist(ep);
}
