/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric.h"
#include "peer.h"
#include "pool.h"
#include "seal.h"
#include "util/clock.h"
#include "util/host.h"
#include "util/log.h"
#include "wake.h"

enum { RECEIVES = 64, ENTRIES = 16, SOON_MS = 1 };

bool fp_address_is_good(const struct fp_prov *prov, const struct fp_address *address)
{
    return address->version == FP_VERSION && address->fabric == prov->address.fabric &&
           address->name_size > 0 && address->name_size <= FP_NAME_MAX;
}

/*
 * Sending
 */

/* Called with prov->lock. */
static void append(struct fp_control *c, struct fp_mail *mail)
{
    mail->next = NULL;
    *c->last = mail;
    c->last = &mail->next;
}

/* Silence is only detected for peers with connections. Notes to others have a time limit. */
static bool is_given_up(const struct fp_mail *mail, uint64_t now)
{
    return fp_peer_is_dead(mail->peer) ||
           __atomic_load_n(&mail->peer->silences, __ATOMIC_ACQUIRE) != mail->silences ||
           (now > mail->until_ms && !fp_peer_is_used(mail->peer));
}

/* A note in a send buffer. */
struct sending {
    struct fp_note note;
    uint64_t until_ms;
};

/* Called with the control lock. */
static bool send_one(struct fp_prov *prov, struct fp_mail *mail)
{
    struct fp_control *c = &prov->control;
    struct fp_peer *peer = mail->peer;

    if (peer->blocked == c->round) /* notes to a peer keep their order */
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
    const struct sending sending = {.note = mail->note, .until_ms = mail->until_ms};
    memcpy(buf->bytes, &sending, sizeof(sending));
    if (fi_send(c->fids.ep, buf->bytes, sizeof(mail->note), buf->desc, peer->at, &buf->context) !=
        0) {
        fp_pool_put(buf);
        return false;
    }
    c->num_sending++;
    peer->blocked = 0;
    return true;
}

/* Called with the control lock. */
static void drain(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    struct fp_mail *first, *next;
    uint64_t now = ut_now_ms();

    pthread_mutex_lock(&prov->lock);
    first = c->first;
    c->first = NULL;
    c->last = &c->first;
    if (++c->round == 0)
        c->round++;
    pthread_mutex_unlock(&prov->lock);
    struct fp_mail *later = NULL, **last = &later;
    for (; first; first = next) {
        next = first->next;
        if (is_given_up(first, now) || send_one(prov, first)) {
            free(first);
            continue;
        }
        first->next = NULL;
        *last = first;
        last = &first->next;
    }
    if (!later)
        return;
    pthread_mutex_lock(&prov->lock);
    *last = c->first; /* before notes queued meanwhile */
    if (!c->first)
        c->last = last;
    c->first = later;
    pthread_mutex_unlock(&prov->lock);
    fp_tick(prov);
}

/* Seals with the peer's key, or, if it is unknown, with the key of this process, which the peer
 * used for its request. */
static void seal(const struct fp_peer *peer, struct fp_note *note)
{
    bool is_its = fp_peer_has_key(peer);

    note->process = peer->prov->address;
    note->by = is_its ? FP_BY_RECEIVERS : FP_BY_SENDERS;
    fp_seal(note, is_its ? peer->key : peer->prov->key);
}

static void queue_until(struct fp_peer *peer, const struct fp_note *note, uint64_t until_ms)
{
    struct fp_prov *prov = peer->prov;
    struct fp_mail *mail = calloc(1, sizeof(*mail));

    if (!mail) {
        ut_error(FP_CAT, "no memory for a message to another process");
        return;
    }
    mail->peer = peer;
    mail->silences = __atomic_load_n(&peer->silences, __ATOMIC_ACQUIRE);
    mail->until_ms = until_ms;
    mail->note = *note;
    seal(peer, &mail->note);
    pthread_mutex_lock(&prov->lock);
    append(&prov->control, mail);
    pthread_mutex_unlock(&prov->lock);
}

static void queue(struct fp_peer *peer, const struct fp_note *note)
{
    queue_until(peer, note, ut_now_ms() + peer->prov->config.peer_timeout_ms);
}

void fp_control_send(struct fp_peer *peer, const struct fp_note *note)
{
    struct fp_prov *prov = peer->prov;

    queue(peer, note);
    if (pthread_mutex_trylock(&prov->control.lock) == 0) {
        drain(prov);
        pthread_mutex_unlock(&prov->control.lock);
    }
    fp_tick(prov);
}

/*
 * Receiving
 */

/* Passes the note to its endpoint; *owner must be woken. False: no such endpoint. */
static bool deliver(struct fp_prov *prov, struct fp_mail *mail, void **owner)
{
    struct fp_ep *ep;

    pthread_mutex_lock(&prov->lock);
    for (ep = prov->eps; ep && ep->attr.id != mail->note.to_id; ep = ep->next)
        ;
    if (ep) {
        mail->next = NULL;
        *ep->last_mail = mail;
        ep->last_mail = &mail->next;
        __atomic_store_n(&ep->has_mail, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&ep->armed, __ATOMIC_SEQ_CST)) {
            *owner = ep->attr.owner;
            if (prov->control.helped)
                __atomic_store_n(&ep->retry, 1, __ATOMIC_SEQ_CST);
        }
    }
    pthread_mutex_unlock(&prov->lock);
    return ep != NULL;
}

static void refuse(struct fp_peer *peer, const struct fp_note *note)
{
    struct fp_note answer = {.to_conn = note->from_conn,
                             .from_conn = note->to_conn,
                             .to_id = note->from_id,
                             .from_id = note->to_id};

    if (note->kind != FP_ASK && note->kind != FP_ACCEPT)
        return;
    answer.kind = note->kind == FP_ASK ? FP_NONE : FP_GONE;
    queue(peer, &answer);
}

/* The sender; NULL: a process without a key, which gets no answer, and for which nothing is stored.
 * A process that has this one's record becomes a peer when it asks for a connection. */
static struct fp_peer *sender_of(struct fp_prov *prov, const struct fp_note *note)
{
    struct fp_peer *peer = fp_peer_find(prov, &note->process);
    const uint8_t *key = note->by == FP_BY_RECEIVERS     ? prov->key
                         : peer && fp_peer_has_key(peer) ? peer->key
                                                         : NULL;

    if (!key || !fp_is_sealed(note, key)) {
        if (note->kind == FP_ASK)
            ut_warn(
                FP_CAT,
                "rejected a request for a connection from process %u: it is not sealed with a key "
                "of this job, and gets no answer (is it a process of another or an earlier job?)",
                note->process.pid);
        else
            ut_info(FP_CAT, "a note (kind %u) is not sealed with a key of this job: dropped",
                    note->kind);
        return NULL;
    }
    return !peer && note->kind == FP_ASK ? fp_peer_of(prov, &note->process, NULL) : peer;
}

static void take_note(struct fp_prov *prov, const struct fp_note *note)
{
    struct fp_peer *peer = sender_of(prov, note);
    struct fp_mail *mail;
    void *owner = NULL;

    if (!peer)
        return;
    fp_peer_heard(peer, note->kind == FP_PONG ? note->to_conn : 0);
    if (note->kind == FP_PING)
        queue(peer, &(struct fp_note){.kind = FP_PONG, .to_conn = note->from_conn});
    if (note->kind == FP_PING || note->kind == FP_PONG || !(mail = calloc(1, sizeof(*mail))))
        return;
    mail->peer = peer;
    mail->note = *note;
    if (!deliver(prov, mail, &owner)) {
        free(mail);
        refuse(peer, note);
    }
    if (owner && prov->control.helped)
        fp_tick(prov); /* only progress() calls wake() */
    else if (owner)
        prov->config.wake(owner);
}

static void take_receive(struct fp_prov *prov, struct fp_buf *buf, size_t size)
{
    struct fp_control *c = &prov->control;
    struct fp_note note;

    memcpy(&note, buf->bytes, sizeof(note));
    fp_receive(buf, c->fids.ep, &c->unposted);
    if (size == sizeof(note) && note.hello_size <= PROV_HELLO_MAX &&
        note.name_size <= FP_NAME_MAX && fp_address_is_good(prov, &note.process))
        take_note(prov, &note);
    else
        ut_warn(FP_CAT, "a message of %zu bytes is none of this version of the library", size);
}

static void sent(struct fp_control *c, struct fp_buf *buf)
{
    c->num_sending--;
    fp_pool_put(buf);
}

static void take_error(struct fp_prov *prov)
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
    sent(c, buf);
    if (sending.note.kind != FP_PONG) /* repeated until the peer is given up */
        queue_until(peer, &sending.note, sending.until_ms);
}

static void repost(struct fp_control *c)
{
    struct fp_buf *all = c->unposted, *next;

    c->unposted = NULL;
    for (; all; all = next) {
        next = all->next;
        fp_receive(all, c->fids.ep, &c->unposted);
    }
}

/* Number of entries read from the completion queue; 0: none. */
static long read_some(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    struct fi_cq_msg_entry entries[ENTRIES];
    ssize_t n = fi_cq_read(c->fids.cq, entries, ENTRIES);

    if (n == -FI_EAVAIL)
        take_error(prov);
    for (ssize_t i = 0; i < n; i++) {
        struct fp_buf *buf = entries[i].op_context;
        if (!buf)
            continue;
        if (buf->kind == FP_BUF_RECEIVE)
            take_receive(prov, buf, entries[i].len);
        else
            sent(c, buf);
    }
    return n == -FI_EAGAIN ? 0 : n;
}

bool fp_control_help(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    if (pthread_mutex_trylock(&c->lock) != 0)
        return true;
    c->helped = true;
    repost(c);
    bool found = read_some(prov) != 0;
    drain(prov);
    c->helped = false;
    pthread_mutex_unlock(&c->lock);
    return found;
}

bool fp_control_progress(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;
    bool quiet;

    pthread_mutex_lock(&c->lock);
    repost(c);
    for (int i = 0; i < ENTRIES && read_some(prov) != 0; i++)
        ;
    drain(prov);
    quiet = c->fids.cq_fd < 0 || fp_fids_may_sleep(prov, &c->fids);
    if (c->unposted || c->fids.cq_fd < 0)
        fp_tick(prov);
    pthread_mutex_unlock(&c->lock);
    return quiet;
}

/*
 * Opening
 */

static int fill_address(struct fp_prov *prov)
{
    struct fp_address *a = &prov->address;
    struct ut_host host;

    if (!fp_draw(prov->key, sizeof(prov->key)))
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
        fp_receive(buf, c->fids.ep, &c->unposted);
    }
    return 0;
}

int fp_control_open(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    c->last = &c->first;
    int rc = fp_fids_open(prov, &c->fids);
    if (rc == 0) {
        fp_pool_init(&c->sends, prov, &c->fids, sizeof(struct sending));
        fp_pool_init(&c->receives, prov, &c->fids, sizeof(struct fp_note));
        rc = post_receives(c);
    }
    if (rc == 0)
        rc = fill_address(prov);
    if (rc == 0 && c->fids.cq_fd >= 0)
        rc = fp_watch(prov, c->fids.cq_fd, EPOLLIN, FP_EVENT_CONTROL);
    return rc;
}

static void free_mail(struct fp_mail *mail)
{
    while (mail) {
        struct fp_mail *next = mail->next;
        free(mail);
        mail = next;
    }
}

/* Sends the last notes to the peers, as far as possible. A fabric may drop unsent notes when the
 * endpoint is closed. */
static void say_last(struct fp_prov *prov)
{
    enum { TRIES = 200 };
    const struct fp_control *c = &prov->control;

    for (int i = 0; i < TRIES && (c->first || c->num_sending > 0); i++) {
        fp_control_progress(prov);
        if (c->first || c->num_sending > 0)
            usleep(SOON_MS * 1000);
    }
}

void fp_control_close(struct fp_prov *prov)
{
    struct fp_control *c = &prov->control;

    if (c->fids.ep)
        say_last(prov);
    fp_fids_end(&c->fids);
    fp_pool_free(&c->sends);
    fp_pool_free(&c->receives);
    fp_fids_close(prov, &c->fids);
    free_mail(c->first);
    c->first = NULL;
}
