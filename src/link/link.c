/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up and connecting peers, reading their STag tables, messages of the library. */
#include "link/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/heard.h"
#include "peers/peers.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/patience.h"
#include "vcq/wake.h"

enum {
    FIRST_BACKOFF_MS = 1,
    LAST_BACKOFF_MS = 32,
    RACE_TIMEOUT_MS = 500, /* after both sides have asked: the peer's request is here by then */
    PAUSES = 4,      /* a silent peer is left alone for 1/PAUSES of UTOFU_PEER_TIMEOUT at first, */
    LAST_PAUSE = 8,  /* and for so many UTOFU_PEER_TIMEOUTs at last */
    MSG_SMALL = 104, /* bytes of a message whose buffer is reused */
    MSG_SPARES = 96, /* free buffers that a link keeps: providers signal one send in 64 */
};

/*
 * Links
 */

static uint32_t hash_key(uint64_t key)
{
    return (uint32_t)ut_hash_index(key, 32);
}

static void grow(struct ut_vcq *vcq)
{
    uint32_t n = vcq->num_buckets ? vcq->num_buckets * 4 : 16;
    struct ut_link **buckets = calloc(n, sizeof(*buckets));

    if (!buckets)
        return;
    for (uint32_t i = 0; i < vcq->num_buckets; i++) {
        for (struct ut_link *l = vcq->link_buckets[i], *next; l; l = next) {
            struct ut_link **b = &buckets[hash_key(l->key) & (n - 1)];
            next = l->hash_next;
            l->hash_next = *b;
            *b = l;
        }
    }
    free(vcq->link_buckets);
    vcq->link_buckets = buckets;
    vcq->num_buckets = n;
}

static struct ut_link *link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer)
{
    struct ut_link *link = calloc(1, sizeof(*link));

    if (!link)
        return NULL;
    link->vcq = vcq;
    link->peer = ut_vcq_id_canonical(peer);
    link->key = ut_vcq_id_key(link->peer);
    link->peer_cmp = (uint8_t)peer->cmp;
    link->peer_tni = (uint8_t)(ut_vcq_ident_public(peer) ? peer->tni : peer->cmp);
    link->first = link->to_post = UT_NO_SLOT;
    link->append = &link->first;
    ut_announced_clear(&link->tx_announced);
    ut_announced_clear(&link->rx_announced);
    link->reading = UT_STAG_NONE;
    link->msg_last = &link->msg_first;
    link->early_last = &link->early_first;
    link->heard = ut_heard_find(ut_vcq_id_key(vcq->id), link->key);
    link->rx_number = link->heard.count;
    link->all_next = vcq->all_links;
    vcq->all_links = link;
    return link;
}

struct ut_link ut_link_none;

static struct ut_link *lookup(struct ut_vcq *vcq, uint64_t key)
{
    if (vcq->num_buckets == 0)
        return NULL;
    struct ut_link *l = vcq->link_buckets[hash_key(key) & (vcq->num_buckets - 1)];
    while (l && l->key != key)
        l = l->hash_next;
    return l;
}

/* For ut_link_to(): the link found last, and its id. */
static void remember(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id)
{
    vcq->last_link = link;
    vcq->last_id = id;
}

struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link = lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    struct ut_vcq_ident ident;

    if (!link && ut_vcq_id_unpack(rmt_vcq_id, &ident)) {
        if (vcq->num_links >= vcq->num_buckets)
            grow(vcq);
        if (vcq->num_buckets == 0 || !(link = link_new(vcq, &ident)))
            return NULL;
        struct ut_link **b = &vcq->link_buckets[hash_key(link->key) & (vcq->num_buckets - 1)];
        link->hash_next = *b;
        *b = link;
        vcq->num_links++;
    }
    if (link)
        remember(vcq, link, rmt_vcq_id);
    return link;
}

static void drop_remote_table(struct ut_link *link)
{
    link->hot.size = 0;
    ut_remote_forget(&link->remote);
}

/* Buffers of small messages are reused: most packets and answers need no malloc. */
static inline void free_message(struct ut_link *link, struct ut_link_msg *m)
{
    if (__builtin_expect(m->size > MSG_SMALL || link->num_spare >= MSG_SPARES, 0)) {
        free(m);
        return;
    }
    m->next = link->msg_spare;
    link->msg_spare = m;
    link->num_spare++;
}

static void free_list(struct ut_link_msg *list)
{
    while (list) {
        struct ut_link_msg *m = list;
        list = m->next;
        free(m);
    }
}

static void free_messages(struct ut_link *link)
{
    free_list(link->msg_first);
    link->msg_first = NULL;
    link->msg_last = &link->msg_first;
    link->msg_to_post = NULL;
}

static void drop_first_message(struct ut_link *link)
{
    struct ut_link_msg *m = link->msg_first;

    link->msg_first = m->next;
    if (!link->msg_first)
        link->msg_last = &link->msg_first;
    free_message(link, m);
}

/* For the VCQ that has this id next, with which the peer may go on after a break. */
static void keep_count(const struct ut_link *link)
{
    uint64_t own = ut_vcq_id_key(link->vcq->id);

    if (link->peer_session != 0 && link->key != own)
        ut_heard_keep(own, link->key,
                      (struct ut_heard){.session = link->peer_session, .count = link->rx_number});
}

void ut_link_destroy_all(struct ut_vcq *vcq)
{
    while (vcq->all_links) {
        struct ut_link *link = vcq->all_links;
        vcq->all_links = link->all_next;
        keep_count(link);
        if (link->conn)
            link->ops->conn_close(link->conn);
        drop_remote_table(link);
        free_messages(link);
        free_list(link->msg_spare);
        while (link->early_first) {
            struct ut_link_early *early = link->early_first;
            link->early_first = early->next;
            free(early);
        }
        ut_announced_clear(&link->tx_announced);
        ut_announced_clear(&link->rx_announced);
        free(link);
    }
    free(vcq->link_buckets);
    vcq->link_buckets = NULL;
    vcq->waiting = NULL;
    vcq->passive = NULL;
    remember(vcq, NULL, 0);
}

/*
 * Connecting
 */

void ut_link_wait(struct ut_link *link)
{
    if (link->in_waiting)
        return;
    link->in_waiting = true;
    link->waiting_next = link->vcq->waiting;
    link->vcq->waiting = link;
    ut_vcq_need(link->vcq);
}

static void retry_later(struct ut_link *link, uint8_t state, uint64_t now)
{
    link->state = state;
    link->backoff_ms = link->backoff_ms ? link->backoff_ms * 2 : FIRST_BACKOFF_MS;
    if (link->backoff_ms > LAST_BACKOFF_MS)
        link->backoff_ms = LAST_BACKOFF_MS;
    link->retry_ms = now + (state == UT_LINK_AWAITING ? RACE_TIMEOUT_MS : link->backoff_ms);
    ut_link_wait(link);
}

static bool has_work(const struct ut_link *link)
{
    return link->first != UT_NO_SLOT || link->msg_first != NULL;
}

/* For utofu_get_last_error(): the cause of the give_up() that follows, and its timeout, if any. */
static void set_cause(struct ut_link *link, enum ut_cause cause, uint64_t seconds)
{
    link->why = (struct ut_why){.cause = (uint8_t)cause, .detail = seconds};
}

static void give_up(struct ut_link *link, uint8_t state, int rc)
{
    link->state = state;
    link->backoff_ms = 0;
    free_messages(link);
    link->vcq->link_ops->give_up(link, rc);
}

/* The process is known to be gone, or this link to be of no use any more. */
static void give_up_for_good(struct ut_link *link)
{
    link->again_ms = 0;
    give_up(link, UT_LINK_DEAD, UTOFU_ERR_MRQ_PEER);
}

/* The peer may live: what starts after a pause tries again. Meanwhile everything fails at once, so
 * that a host that is gone does not hold up the TOQ for most of the time. */
static void give_up_for_now(struct ut_link *link, uint64_t now)
{
    uint32_t timeout_ms = (uint32_t)ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000;

    link->pause_ms = link->pause_ms ? link->pause_ms * 2 : timeout_ms / PAUSES;
    if (link->pause_ms > LAST_PAUSE * timeout_ms)
        link->pause_ms = LAST_PAUSE * timeout_ms;
    link->again_ms = now + link->pause_ms;
    give_up(link, UT_LINK_DEAD, UTOFU_ERR_MRQ_PEER);
}

static bool may_try_again(const struct ut_link *link)
{
    return link->state == UT_LINK_DEAD && link->again_ms != 0 && ut_now_ms() >= link->again_ms;
}

static void fill_hello(const struct ut_link *link, int provider, uint16_t serial,
                       struct ut_hello *hello)
{
    const struct ut_vcq *vcq = link->vcq;

    *hello = (struct ut_hello){
        .version = UT_WIRE_VERSION,
        .armw_mode = ut_process_peek()->armw_mode,
        .serial = serial,
        .dir_rkey = ut_stag_dir_rkey(vcq->stags, provider),
        .dir_addr = (uintptr_t)ut_stag_dir_of(vcq->stags, provider),
        .rx_count = link->rx_number,
        .session = vcq->session_number,
    };
}

/* NULL: the provider is not in use. */
static const struct ut_vcq_ep *endpoint_of(const struct ut_vcq *vcq, const struct prov_ops *ops)
{
    for (unsigned int i = 0; i < vcq->num_eps; i++) {
        if (vcq->eps[i].ops == ops)
            return &vcq->eps[i];
    }
    return NULL;
}

static void use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e)
{
    link->provider = (uint8_t)e->provider;
    link->ops = e->ops;
    link->keep_source = e->keep_source;
    link->write_few = e->ops->write_few;
    link->few = e->ops->write_few ? e->keep_source : 0;
}

/* Memory for STADDs that the peer announces: needed from its first message on. */
static bool can_receive(struct ut_link *link)
{
    if (ut_announced_begin(&link->rx_announced))
        return true;
    ut_error("link", "no memory for the connection to VCQ %016llx: it is tried again later",
             (unsigned long long)link->peer);
    return false;
}

static void refuse_address(struct ut_link *link, uint32_t rank)
{
    ut_error("link",
             "rank %u published an address that is not one of this library; start it with the same "
             "library as this process (utofu-info --check); it cannot be reached",
             rank);
    set_cause(link, UT_CAUSE_ADDRESS, 0);
    give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_PEER);
}

/* This process lacks something: later it may have it. It says nothing of the peer. */
static void end_for_shortage(struct ut_link *link, int rc, uint64_t now)
{
    if (now < link->deadline_ms) {
        retry_later(link, UT_LINK_SEEKING, now);
        return;
    }
    ut_error("link",
             "this process has not been able to connect to VCQ %016llx in time "
             "(UTOFU_JOB_TIMEOUT): %s%s; what was meant for it fails, what is started later tries "
             "again",
             (unsigned long long)link->peer, strerror(-rc), ut_descriptor_advice(-rc));
    set_cause(link, UT_CAUSE_SHORTAGE, 0);
    give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_OTHER);
}

static void connect_to(struct ut_link *link, const struct ut_peer *peer, uint64_t now)
{
    struct ut_hello hello;
    const struct ut_vcq_ep *e =
        endpoint_of(link->vcq, ut_process_peek()->prov[peer->provider]->ops);

    if (!e) {
        set_cause(link, UT_CAUSE_DEVICE, 0);
        give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_OTHER);
        return;
    }
    if (!can_receive(link)) {
        end_for_shortage(link, -ENOMEM, now);
        return;
    }
    use_endpoint(link, e);
    fill_hello(link, peer->provider, link->serial, &hello);
    link->state = UT_LINK_CONNECTING;
    int rc = link->ops->connect(e->ep, peer->addr, peer->addr_size, link->peer_tni, link->key,
                                &hello, sizeof(hello), link, &link->conn);
    if (rc == 0)
        return;
    link->conn = NULL;
    if (rc == -EPROTO) {
        refuse_address(link, peer->rank);
        return;
    }
    if (rc == -ENOMEM) {
        end_for_shortage(link, rc, now);
        return;
    }
    set_cause(link, UT_CAUSE_LOST, ut_env_num(UT_ENV_JOB_TIMEOUT));
    if (rc == -EAGAIN && now < link->deadline_ms)
        retry_later(link, UT_LINK_SEEKING, now);
    else if (rc == -EAGAIN)
        give_up_for_now(link, now);
    else
        give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_OTHER);
}

/* Warns once that the owner has not shown up for long. */
static void warn_wait(struct ut_link *link, const struct ut_peer *owner, int why, uint64_t now)
{
    uint64_t allowed = ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    uint64_t waited = allowed - (link->deadline_ms - now);
    char who[48];

    if (link->wait_warned || link->was_up || (waited < allowed / 2 && waited < UT_PATIENCE_MS))
        return;
    link->wait_warned = true;
    if (owner->rank == UT_NO_RANK)
        snprintf(who, sizeof(who), "the owner of VCQ %016llx", (unsigned long long)link->peer);
    else
        snprintf(who, sizeof(who), "rank %u", owner->rank);
    if (why == -EBUSY)
        ut_warn("link",
                "%s cannot be looked up while the program is in MPI, which has the launcher's "
                "socket; what is meant for it waits for the next utofu call of this process, and "
                "fails after %llu s (UTOFU_JOB_TIMEOUT). A launcher with PMIx does not need that",
                who, (unsigned long long)allowed / 1000);
    else
        ut_warn("link",
                "%s has not called the library yet; what is meant for it waits until it does "
                "(utofu_query_my_coords() will do) and the launcher says so, and fails after "
                "%llu s (UTOFU_JOB_TIMEOUT)",
                who, (unsigned long long)allowed / 1000);
}

static void seek(struct ut_link *link, uint64_t now)
{
    struct ut_vcq_ident ident;
    struct ut_peer peer;

    ut_vcq_id_unpack(link->peer, &ident);
    int rc = ut_vcq_ident_public(&ident) ? ut_peers_find_owner(&ident.coords, ident.cq, &peer)
                                         : ut_peers_find_local_rank(&ident.coords, ident.cq, &peer);
    if (rc == 0) {
        connect_to(link, &peer, now);
    } else if ((rc == -EAGAIN || rc == -EBUSY) && now < link->deadline_ms) {
        warn_wait(link, &peer, rc, now);
        retry_later(link, UT_LINK_SEEKING, now);
    } else if (ut_peers_is_shortage(rc)) {
        end_for_shortage(link, rc, now);
    } else {
        set_cause(link,
                  rc == -EAGAIN         ? UT_CAUSE_NOT_STARTED
                  : rc == -ENOENT       ? UT_CAUSE_NOBODY
                  : rc == -EHOSTUNREACH ? UT_CAUSE_UNREACHABLE
                                        : UT_CAUSE_ADDRESS,
                  ut_env_num(UT_ENV_JOB_TIMEOUT));
        if (rc == -EAGAIN)
            ut_warn("link",
                    "the owner of VCQ %016llx has not called the library within %llu s, or the "
                    "launcher has not said so (UTOFU_JOB_TIMEOUT)",
                    (unsigned long long)link->peer,
                    (unsigned long long)ut_env_num(UT_ENV_JOB_TIMEOUT));
        give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_PEER);
    }
}

void ut_link_want(struct ut_link *link)
{
    if ((link->state != UT_LINK_IDLE && !may_try_again(link)) || link->passive)
        return;
    uint64_t now = ut_now_ms();
    /* a process may call the library for the first time much later than its peers */
    link->deadline_ms = now + ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    link->backoff_ms = 0;
    link->state = UT_LINK_SEEKING;
    seek(link, now);
}

static void close_connection(struct ut_link *link)
{
    link->ops->conn_close(link->conn);
    link->conn = NULL;
    ut_link_read_done(link, PROV_FLUSHED); /* a read that was under way is reported by nobody */
    link->vcq->link_ops->rewind(link);
}

static void end_for_lack_of_memory(struct ut_link *link)
{
    if (link->conn)
        close_connection(link);
    set_cause(link, UT_CAUSE_NO_MEMORY, 0);
    give_up_for_good(link);
}

bool ut_link_step_waiting(struct ut_vcq *vcq)
{
    struct ut_link *list = vcq->waiting;
    uint64_t now = ut_now_ms();

    vcq->waiting = NULL;
    while (list) {
        struct ut_link *link = list;
        list = link->waiting_next;
        link->in_waiting = false;
        if (link->lacks_memory && link->state != UT_LINK_DEAD) {
            end_for_lack_of_memory(link);
            continue;
        }
        switch (link->state) {
        case UT_LINK_UP:
            vcq->link_ops->pump(link);
            break;
        case UT_LINK_SEEKING:
        case UT_LINK_AWAITING:
            if (now < link->retry_ms)
                ut_link_wait(link);
            else
                seek(link, now);
            break;
        default:
            break;
        }
    }
    return vcq->waiting != NULL;
}

/* Messages of the library that arrived before the connection broke are not repeated. The others get
 * new numbers when they are posted: until then others may have the old ones. */
static void drop_delivered_messages(struct ut_link *link, uint64_t count)
{
    while (link->msg_first && link->msg_first->number && link->msg_first->number <= count)
        drop_first_message(link);
    for (struct ut_link_msg *m = link->msg_first; m; m = m->next)
        m->number = 0;
    link->msg_to_post = link->msg_first;
}

/* Met for the first time, the peer is perhaps not the one that the VCQ before has heard. */
static void begin_counting(struct ut_link *link, uint64_t session)
{
    if (link->peer_session == 0 && link->heard.session != session)
        link->rx_number = 0;
}

/* Takes over the peer's hello; false: it is not compatible with this process. */
static bool apply_hello(struct ut_link *link, const void *data, size_t size)
{
    struct ut_hello hello;

    if (size < sizeof(hello))
        return false;
    memcpy(&hello, data, sizeof(hello));
    if (hello.version != UT_WIRE_VERSION || hello.armw_mode != ut_process_peek()->armw_mode) {
        ut_error("link",
                 "VCQ %016llx belongs to another version or ARMW mode of this library and is not "
                 "connected; use one version and one UTOFU_ARMW in a job",
                 (unsigned long long)link->peer);
        return false;
    }
    bool known = link->peer_session == hello.session;
    bool recreated = link->peer_session != 0 && !known;
    /* a VCQ that is met for the first time has received nothing of this one: what it counts was
     * sent by an earlier one of this id. One that was made anew counts on. */
    uint64_t count = known || recreated ? hello.rx_count : 0;
    begin_counting(link, hello.session);
    link->peer_session = hello.session;
    link->peer_serial = hello.serial;
    link->dir_addr = hello.dir_addr;
    link->dir_rkey = hello.dir_rkey;
    drop_remote_table(link);
    ut_announced_forget(&link->tx_announced);
    if (recreated) {
        link->rx_number = 0;
        free_messages(link); /* answers to the VCQ that was there before */
    }
    drop_delivered_messages(link, count);
    /* What a VCQ that was freed has not received goes to the one that was created with the same id.
     */
    link->vcq->link_ops->delivered(link, count, recreated);
    link->tx_number = count;
    return true;
}

/* It has no connection, and nothing is known against the peer. */
static void idle_or_seek(struct ut_link *link, uint64_t now)
{
    if (!has_work(link) || link->passive) {
        link->state = UT_LINK_IDLE;
        return;
    }
    link->deadline_ms = now + ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    link->backoff_ms = 0;
    retry_later(link, UT_LINK_SEEKING, now);
}

static void ask_order(struct ut_link *link)
{
    link->any_order = link->ops->any_order && link->ops->any_order(link->conn);
}

static void connection_up(struct ut_link *link, const void *hello, size_t size)
{
    UT_ASSERT(link->reading == UT_STAG_NONE);
    link->state = UT_LINK_UP;
    link->mapping = link->ops->mapping ? link->ops->mapping(link->conn) : NULL;
    ask_order(link);
    link->serial++;
    ut_debug("link", "VCQ %016llx: connected over %s", (unsigned long long)link->peer,
             link->ops->name);
    link->vcq->link_ops->connected(link);
    link->was_up = true;
    link->backoff_ms = link->pause_ms = 0;
    if (!apply_hello(link, hello, size)) {
        struct prov_conn *conn = link->conn;
        link->conn = NULL;
        link->ops->conn_close(conn);
        set_cause(link, UT_CAUSE_ADDRESS, 0);
        give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_PEER);
        return;
    }
    link->vcq->link_ops->pump(link);
}

void ut_link_on_up(struct ut_link *link, const void *hello, size_t size)
{
    if (link->state == UT_LINK_UP)
        ask_order(link); /* this side accepted, before that was known: it has been up since then */
    else
        connection_up(link, hello, size);
}

/* 0: it is no hello. */
static uint64_t session_of(const void *data, size_t size)
{
    struct ut_hello hello;

    if (size < sizeof(hello))
        return 0;
    memcpy(&hello, data, sizeof(hello));
    return hello.session;
}

static void accept_on(struct ut_link *link, const struct ut_vcq_ep *e, struct prov_conn *conn,
                      const void *hello, size_t size)
{
    struct ut_hello mine;

    bool able = can_receive(link);
    use_endpoint(link, e);
    begin_counting(link, session_of(hello, size));
    fill_hello(link, e->provider, (uint16_t)(link->serial + 1), &mine);
    if (!able)
        link->ops->reject(conn);
    if (!able || link->ops->accept(conn, &mine, sizeof(mine), link) != 0) {
        /* logged there; the peer tries again, and so does this side if it has something to send */
        idle_or_seek(link, ut_now_ms());
        return;
    }
    link->conn = conn;
    connection_up(link, hello, size);
}

/*
 * Two requests have crossed, the peer has accepted ours and dropped its own, and its own arrives
 * after its answer. It must not close the connection that is up: messages that arrived there and
 * were not polled yet would be lost.
 */
static bool is_outdated(const struct ut_link *link, const void *data, size_t size)
{
    struct ut_hello hello;

    if (size < sizeof(hello))
        return false;
    memcpy(&hello, data, sizeof(hello));
    return hello.session == link->peer_session && (int16_t)(hello.serial - link->peer_serial) < 0;
}

/* A connection to itself: the accepting half only receives, and answers. It stays when the
 * connection is closed or breaks, as it knows what has arrived. */
static struct ut_link *passive_link(struct ut_vcq *vcq, utofu_vcq_id_t id)
{
    struct ut_vcq_ident ident;

    if (!vcq->passive && ut_vcq_id_unpack(id, &ident))
        vcq->passive = link_new(vcq, &ident);
    if (vcq->passive)
        vcq->passive->passive = true;
    return vcq->passive;
}

void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_id, const void *hello, size_t size)
{
    const struct prov_ops *ops = prov->ops;
    utofu_vcq_id_t id;
    struct ut_link *link;

    if (!ut_vcq_id_of_key(peer_id, &id)) {
        ops->reject(conn);
        return;
    }
    if (peer_id == ut_vcq_id_key(vcq->id)) {
        link = passive_link(vcq, id);
    } else {
        struct ut_link *last = vcq->last_link;
        utofu_vcq_id_t last_id = vcq->last_id;
        link = ut_link_get(vcq, id);
        remember(vcq, last, last_id);
    }
    if (!link || link->lacks_memory || is_outdated(link, hello, size)) {
        ops->reject(conn);
        return;
    }
    switch (link->state) {
    case UT_LINK_CONNECTING:
        /* both sides have asked: the request of the smaller id wins */
        if (ut_vcq_id_key(vcq->id) < link->key) {
            ops->reject(conn);
            return;
        }
        link->ops->conn_close(link->conn);
        link->conn = NULL;
        break;
    case UT_LINK_UP:
        /* the peer has seen the old connection break before this side has */
        close_connection(link);
        break;
    default:
        break;
    }
    accept_on(link, endpoint_of(vcq, ops), conn, hello, size);
}

/* Nothing is lost with what this frees: the peer's table is read again after each connecting, and
 * either side announces anew. */
static void rest(struct ut_link *link, uint64_t now)
{
    drop_remote_table(link);
    ut_announced_clear(&link->tx_announced);
    ut_announced_clear(&link->rx_announced);
    free_list(link->msg_spare);
    link->msg_spare = NULL;
    link->num_spare = 0;
    idle_or_seek(link, now);
}

void ut_link_on_down(struct ut_link *link, enum prov_reason reason)
{
    uint64_t now = ut_now_ms();
    bool was_connecting = link->state == UT_LINK_CONNECTING;

    close_connection(link);
    ut_debug("link", "VCQ %016llx: connection %s (reason %d)", (unsigned long long)link->peer,
             was_connecting ? "failed" : "down", (int)reason);
    if (link->passive) {
        link->state = UT_LINK_IDLE;
        return;
    }
    switch (reason) {
    case PROV_REASON_PEER_DEAD:
        set_cause(link, UT_CAUSE_DEAD, 0);
        give_up_for_good(link);
        return;
    case PROV_REASON_SILENT:
        set_cause(link, UT_CAUSE_SILENT, ut_env_num(UT_ENV_PEER_TIMEOUT));
        give_up_for_now(link, now);
        return;
    case PROV_REASON_LOCAL:
        set_cause(link, UT_CAUSE_DEVICE, 0);
        give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_OTHER);
        return;
    case PROV_REASON_REJECTED:
        /* once or twice where two requests have crossed; always where the peer has given the link
         * up */
        if (now < link->deadline_ms + ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000) {
            retry_later(link, UT_LINK_AWAITING, now);
        } else {
            set_cause(link, UT_CAUSE_LOST, ut_env_num(UT_ENV_PEER_TIMEOUT));
            give_up_for_good(link);
        }
        return;
    case PROV_REASON_NO_ENDPOINT:
        /* a VCQ that is not created yet is waited for, one that was freed is not */
        if (link->was_up || now > link->deadline_ms - ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000 +
                                      ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000) {
            set_cause(link, link->was_up ? UT_CAUSE_FREED : UT_CAUSE_NO_VCQ,
                      ut_env_num(UT_ENV_PEER_TIMEOUT));
            give_up(link, UT_LINK_IDLE, UTOFU_ERR_MRQ_PEER);
            return;
        }
        break;
    case PROV_REASON_RESTS:
    case PROV_REASON_GROWS:
        rest(link, now);
        return;
    case PROV_REASON_BROKEN:
    case PROV_REASON_CLOSED:
        break;
    }
    if (!was_connecting) {
        link->deadline_ms = now + ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000;
        link->backoff_ms = 0;
    }
    if (!has_work(link))
        link->state = UT_LINK_IDLE;
    else if (now < link->deadline_ms)
        retry_later(link, UT_LINK_SEEKING, now);
    else {
        set_cause(link, UT_CAUSE_LOST, ut_env_num(UT_ENV_PEER_TIMEOUT));
        give_up_for_now(link, now);
    }
}

/*
 * The peer's STag table
 */

static void read_next(struct ut_link *link);

static bool take_scratch(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (link->scratch)
        return true;
    if (vcq->num_scratch_free == 0)
        return false;
    link->scratch = vcq->scratch_free[--vcq->num_scratch_free] + 1;
    return true;
}

static void give_scratch(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    vcq->scratch_free[vcq->num_scratch_free++] = link->scratch - 1;
    link->scratch = 0;
}

static uint8_t *scratch_of(struct ut_link *link)
{
    return link->vcq->scratch + (size_t)(link->scratch - 1) * UT_SCRATCH_SIZE;
}

static void end_read(struct ut_link *link)
{
    link->reading = UT_STAG_NONE;
    give_scratch(link);
}

/* Posts the read of a directory entry or of the entry itself. */
static int post_read(struct ut_link *link)
{
    uint32_t index = link->reading;
    const struct ut_remote_chunk *chunk = ut_remote_chunk_of(&link->remote, index);
    struct prov_xfer x = {
        .lcl = scratch_of(link),
        .lkey = ut_region_lkey(link->vcq->scratch_region, link->provider),
        .flags = PROV_SIGNAL,
        .cookie = ut_cookie(UT_COOKIE_READ, 0),
    };

    link->reading_dir = chunk == NULL || chunk->addr == 0;
    if (link->reading_dir) {
        x.rmt = link->dir_addr + index / UT_STAG_CHUNK * sizeof(struct ut_stag_dir);
        x.rkey = link->dir_rkey;
        x.length = sizeof(struct ut_stag_dir);
    } else {
        x.rmt = chunk->addr + index % UT_STAG_CHUNK * sizeof(struct ut_stag_entry);
        x.rkey = chunk->rkey;
        x.length = sizeof(struct ut_stag_entry);
    }
    return link->ops->read(link->conn, &x);
}

static void forget_stag(struct ut_link *link, uint32_t index)
{
    struct ut_remote_stag *stag = ut_remote_stag_of(&link->remote, index);

    link->hot.size = 0;
    if (stag)
        stag->info = 0;
}

/* Takes over what was read; true: it was the entry itself, or there is none. Without memory the
 * STag counts as not registered. */
static bool take_read(struct ut_link *link)
{
    uint32_t index = link->reading;

    forget_stag(link, index);
    if (link->reading_dir) {
        struct ut_remote_chunk *chunk = ut_remote_make_chunk(&link->remote, index);
        struct ut_stag_dir dir;
        if (!chunk)
            return true;
        memcpy(&dir, scratch_of(link), sizeof(dir));
        chunk->addr = dir.addr;
        chunk->rkey = dir.rkey;
        return dir.addr == 0; /* nothing of the chunk was ever registered */
    }
    struct ut_stag_entry e;
    memcpy(&e, scratch_of(link), sizeof(e));
    if (e.check != ut_stag_entry_check(&e))
        return false; /* it is being written: read again */
    struct ut_remote_stag *stag = ut_remote_make_stag(&link->remote, index);
    if (stag)
        *stag =
            (struct ut_remote_stag){.base = e.base, .size = e.size, .rkey = e.rkey, .info = e.info};
    return true;
}

/* Reads until the entry is there (true), or a read has to complete first, or fails (false). */
static bool read_steps(struct ut_link *link)
{
    for (;;) {
        int rc = post_read(link);
        if (rc >= 0 && (rc & PROV_COMPLETE)) {
            if (take_read(link)) {
                end_read(link);
                return true;
            }
            continue;
        }
        if (rc == -EACCES || rc == -EFAULT) {
            /* the peer has freed the table, and so the VCQ */
            ut_remote_forget_chunk(&link->remote, link->reading);
            end_read(link);
            return true;
        }
        if (rc < 0) {
            end_read(link);
            if (rc == -EAGAIN)
                ut_link_wait(link);
        }
        return false;
    }
}

static void read_next(struct ut_link *link)
{
    if (read_steps(link))
        link->vcq->link_ops->pump(link);
}

void ut_link_read_done(struct ut_link *link, enum prov_status status)
{
    if (link->reading == UT_STAG_NONE)
        return;
    if (status != PROV_OK) {
        end_read(link);
        return; /* ut_link_on_down() follows; it is read again on the new connection */
    }
    if (!take_read(link)) {
        read_next(link);
        return;
    }
    uint32_t index = link->reading;
    end_read(link);
    if (link->to_post != UT_NO_SLOT) {
        struct ut_slot *slot = &link->vcq->toq[link->to_post];
        /* it was perhaps for an ARMW, which went to the target's CPU meanwhile */
        if (ut_stag_index(ut_stadd_stag(slot->desc.rmt_stadd), link->peer_cmp) == index)
            slot->fresh = true;
    }
    link->vcq->link_ops->pump(link);
}

void ut_link_forget(struct ut_link *link, utofu_stadd_t stadd)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp);

    link->hot.size = 0;
    if (index != UT_STAG_NONE)
        forget_stag(link, index);
}

static int check_access(const struct ut_remote_stag *e, uint32_t index, utofu_stadd_t stadd,
                        uint64_t length, bool write, uint64_t *addr)
{
    if (!(e->info & UT_STAG_VALID) ||
        e->info >> UT_STAG_GENERATION_SHIFT != ut_stadd_generation(stadd))
        return UTOFU_ERR_MRQ_RMT_STADD;
    uint64_t at = ut_stadd_offset(stadd) - ut_stag_first_offset(index, e->base);
    if (at >= e->size && (at > e->size || length > 0))
        return UTOFU_ERR_MRQ_RMT_STADD;
    if (length > e->size - at)
        return UTOFU_ERR_MRQ_RMT_LENGTH;
    if (write && !(e->info & UT_STAG_WRITABLE))
        return UTOFU_ERR_MRQ_RMT_MEMORY;
    *addr = e->base + at;
    return 0;
}

bool ut_link_knows(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                   uint64_t length, uint64_t *addr)
{
    const struct ut_link *link = lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    uint32_t index = link ? ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp) : UT_STAG_NONE;

    if (index == UT_STAG_NONE || index < UT_NUM_RESERVED_STAGS)
        return false;
    const struct ut_remote_stag *e = ut_remote_stag_of(&link->remote, index);
    return e && check_access(e, index, stadd, length, false, addr) == 0;
}

bool ut_link_table_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                         uint64_t *at, struct ut_remote_stag *known)
{
    struct ut_link *link = lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    uint32_t index = link ? ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp) : UT_STAG_NONE;

    if (index == UT_STAG_NONE || link->state != UT_LINK_UP)
        return false;
    const struct ut_remote_chunk *chunk = ut_remote_chunk_of(&link->remote, index);
    const struct ut_remote_stag *e = ut_remote_stag_of(&link->remote, index);
    if (!chunk || chunk->addr == 0 || !e)
        return false;
    *at = chunk->addr + index % UT_STAG_CHUNK * sizeof(struct ut_stag_entry);
    *known = *e;
    return true;
}

struct ut_why ut_link_why(const struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                          bool write)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp);
    const struct ut_remote_stag *e =
        index == UT_STAG_NONE ? NULL : ut_remote_stag_of(&link->remote, index);

    if (!e || !(e->info & UT_STAG_VALID) ||
        e->info >> UT_STAG_GENERATION_SHIFT != ut_stadd_generation(stadd))
        return (struct ut_why){.cause = UT_CAUSE_NO_STAG};
    return ut_region_why(ut_stag_first_offset(index, e->base), e->size, e->info & UT_STAG_WRITABLE,
                         stadd, length, write);
}

/* Remembers the STag for ut_link_hot(); `addr` is the address of `stadd`. */
static void make_hot(struct ut_link *link, const struct ut_remote_stag *e, utofu_stadd_t stadd,
                     uint64_t addr)
{
    if (!(e->info & UT_STAG_WRITABLE))
        return;
    link->hot = (struct ut_stadd_range){
        .first = stadd - (addr - e->base), .size = e->size, .delta = addr - stadd};
    link->hot_rkey = e->rkey;
}

int ut_link_find(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write, bool fresh,
                 uint64_t *addr, uint32_t *rkey)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp);

    if (index == UT_STAG_NONE)
        return UTOFU_ERR_MRQ_RMT_STADD;
    for (;;) {
        const struct ut_remote_stag *e = ut_remote_stag_of(&link->remote, index);
        int rc = UTOFU_ERR_MRQ_RMT_STADD;
        if (e) {
            rc = check_access(e, index, stadd, length, write, addr);
            *rkey = e->rkey;
            if (rc == 0)
                make_hot(link, e, stadd, *addr);
        }
        /* a refusal may be outdated: an STag can be registered at any time */
        if (rc == 0 || fresh)
            return rc;
        if (link->reading != UT_STAG_NONE)
            return UTOFU_ERR_NOT_COMPLETED;
        if (!take_scratch(link)) {
            ut_link_wait(link);
            return UTOFU_ERR_NOT_COMPLETED;
        }
        link->reading = index;
        if (!read_steps(link))
            return UTOFU_ERR_NOT_COMPLETED;
        fresh = true;
    }
}

bool ut_link_reads_the_same(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd)
{
    struct ut_link *link = lookup(vcq, ut_vcq_id_key(rmt_vcq_id));

    if (!link || link->state != UT_LINK_UP || link->reading != UT_STAG_NONE)
        return false;
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), link->peer_cmp);
    const struct ut_remote_stag *e =
        index == UT_STAG_NONE ? NULL : ut_remote_stag_of(&link->remote, index);
    if (!e || !take_scratch(link))
        return false;
    const struct ut_remote_stag before = *e;
    link->reading = index;
    if (!read_steps(link))
        return false; /* or later: ut_link_read_done() */
    e = ut_remote_stag_of(&link->remote, index);
    return e && e->base == before.base && e->size == before.size && e->info == before.info;
}

/*
 * Messages of the library
 */

/* Unsignalled: the completion of a later message frees the copy that is kept of it. */
static inline int post_one(struct ut_link *link, const void *data, size_t size, uint32_t flags)
{
    return link->ops->send(link->conn, data, size, flags,
                           ut_cookie(UT_COOKIE_MSG, (uint32_t)(link->tx_number + 1)));
}

/* A message can be neither sent nor kept, and the peer would wait for it for ever; or notices that
 * follow would not be understood. The link has to end, which both ends notice. That is done later,
 * when no callback of the link is running. */
static void __attribute__((noinline, cold)) lack_memory(struct ut_link *link, const char *what)
{
    if (!link->lacks_memory)
        ut_error("link",
                 "no memory for %s VCQ %016llx: the connection is closed, and what is on it fails",
                 what, (unsigned long long)link->peer);
    link->lacks_memory = true;
    ut_link_wait(link);
}

void ut_link_keep_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd)
{
    if (ut_announced_keep(&link->rx_announced, slot, stadd))
        return;
    ut_announced_stop(&link->rx_announced);
    lack_memory(link, "STADDs announced by");
}

static struct ut_link_msg *keep_message(struct ut_link *link, const void *data, size_t size,
                                        uint32_t flags)
{
    struct ut_link_msg *m = link->msg_spare;

    if (__builtin_expect(m && size <= MSG_SMALL, 1)) {
        link->msg_spare = m->next;
        link->num_spare--;
    } else {
        m = malloc(sizeof(*m) + (size <= MSG_SMALL ? MSG_SMALL : size));
        if (!m) {
            lack_memory(link, "a message to");
            return NULL;
        }
    }
    m->next = NULL;
    m->number = 0;
    m->size = (uint32_t)size;
    m->flags = flags;
    memcpy(m->data, data, size);
    *link->msg_last = m;
    link->msg_last = &m->next;
    return m;
}

void ut_link_post_messages(struct ut_link *link)
{
    while (link->msg_to_post) {
        struct ut_link_msg *m = link->msg_to_post;
        int rc = post_one(link, m->data, m->size, m->flags);
        if (rc < 0) {
            if (rc == -EAGAIN)
                ut_link_wait(link);
            return;
        }
        m->number = ut_link_count_tx(link);
        link->msg_to_post = m->next;
        if (rc & PROV_COMPLETE)
            ut_link_msg_done(link, ut_cookie(UT_COOKIE_MSG, (uint32_t)m->number), PROV_OK);
    }
}

/* It cannot be posted now: the link is not up, or other messages wait. */
static void __attribute__((noinline))
send_later(struct ut_link *link, const void *data, size_t size, uint32_t flags)
{
    if (link->state == UT_LINK_DEAD && !may_try_again(link))
        return;
    struct ut_link_msg *m = keep_message(link, data, size, flags);
    if (!m)
        return;
    if (!link->msg_to_post)
        link->msg_to_post = m;
    ut_link_want(link);
}

void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited)
{
    uint32_t flags = solicited ? PROV_SOLICITED : 0;

    if (__builtin_expect(link->state != UT_LINK_UP || link->msg_to_post, 0)) {
        send_later(link, data, size, flags);
        return;
    }
    int rc = post_one(link, data, size, flags);
    if (__builtin_expect(rc < 0, 0)) {
        struct ut_link_msg *m = keep_message(link, data, size, flags);
        if (!m)
            return;
        link->msg_to_post = m;
        if (rc == -EAGAIN)
            ut_link_wait(link);
        return;
    }
    uint64_t number = ut_link_count_tx(link);
    if (rc & PROV_COMPLETE)
        return;
    struct ut_link_msg *m = keep_message(link, data, size, flags);
    if (m)
        m->number = number;
}

void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status)
{
    if (status != PROV_OK)
        return; /* kept, and repeated on the next connection */
    /* those before msg_to_post were posted, in the order of their numbers */
    while (link->msg_first && link->msg_first != link->msg_to_post &&
           (int32_t)((uint32_t)(cookie >> 3) - (uint32_t)link->msg_first->number) >= 0)
        drop_first_message(link);
}
