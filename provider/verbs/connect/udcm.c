/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections made by datagrams. The messages and states are those of InfiniBand's connection
 * manager:
 *
 *   active    IDLE -> REQ_SENT -> REP_RCVD -> ESTABLISHED
 *   passive   REQ_RCVD -> REP_SENT -> ESTABLISHED
 *   both      -> DREQ_SENT -> gone, or CLOSED: the other end has disconnected
 *   passive   -> TIMEWAIT -> gone, so that a late copy of a REQ is not taken for a new one
 *
 * Messages that need an answer (REQ, REP, DREQ) are repeated: first after the usual answer time,
 * then with doubled intervals, for as long as the owner of the handshake wants. DREQ has no owner
 * any more, and is repeated a few times only. A duplicate message is answered again and has no
 * other effect. A late message names a handshake that no longer exists, and is ignored or refused;
 * a REQ later than TIMEWAIT looks like a new request, and the active side refuses the REP to it.
 *
 * Each message has the receiver's key, which its address record and each request carry: a sender
 * without the key gets no answer. Handshakes are found by their number, requests by the number of
 * the active side.
 *
 * A process that ends sends GONE to all processes that it communicated with; a killed process does
 * not. So tells_of_deaths is false, and conn.c checks whether the peers of idle connections live.
 */
#include "udcm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "verbs/ports/lid.h"
#include "verbs/ports/ud.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/retry_delay.h"
#include "verbs/wake.h"

enum {
    VERSION = 2,
    BUCKETS = 2048,
    FIRST_MS = 50, /* until the first repetition, while no answer time is known */
    LEAST_MS = 10,
    MOST_MS = 250,
    TRIES = 8, /* repetitions whose times are kept */
    MOST_BACKOFF_MS = 1000,
    TIMEWAIT_MS = 500,
    DREQS = 6,          /* a peer that has not answered so many is gone */
    LAST_SENT_MS = 200, /* time for the last messages to leave the port */
    LAST_WORDS = 2,     /* how often GONE is sent, since it is not answered */
    PSN_MASK = 0xffffff,
    DATA_MOST = 64,
    ASK_MS = 300,         /* for an answer of the subnet manager, and */
    NOT_ASKED_MS = 10000, /* how long it is not asked again if none came */
};

enum kind { REQ = 1, REP, RTU, REJ, DREQ, DREP, GONE };

/* Numbers are in host byte order, which is the same in all processes of a job. */
struct __attribute__((packed)) message {
    uint8_t magic[4];
    uint8_t version, kind, refusal, size; /* size: of data */
    uint8_t key[VP_UD_KEY_BYTES];         /* the receiver's key */
    uint32_t from, to;                    /* numbers of the handshake; 0: not known yet */
    uint32_t qpn, psn;                    /* of the connection's queue pair */
    uint8_t responder_resources, initiator_depth, mtu;
    uint8_t nth;     /* repetition, counted from 1 */
    uint8_t gid[16]; /* address where the sender takes messages */
    uint16_t lid;
    uint8_t echo; /* nth of the message that this one answers; 0: no answer */
    uint8_t sl;   /* sent as 0; the receiver notes here the service level that it came with */
    uint32_t ud_qpn, qkey;
    uint8_t own_key[VP_UD_KEY_BYTES];
    struct vp_ece ece; /* REQ: the offer; REP: the choice */
    uint8_t data[DATA_MOST];
};
_Static_assert(sizeof(struct message) <= VP_UD_MAX, "a message must fit");
static const uint8_t magic[4] = {'u', 'T', 'f', 'D'};

enum state {
    IDLE,
    REQ_SENT,
    REQ_RCVD,
    REP_SENT,
    REP_RCVD,
    ESTABLISHED,
    DREQ_SENT,
    CLOSED,
    TIMEWAIT
};

/* A handshake, and the connection that it makes. */
struct vp_call {
    struct vp_cm_id *owner; /* NULL: not adopted yet, or DREQ_SENT */
    struct vp_prov *prov;
    struct vp_port *port;
    struct vp_ud_addr peer;
    uint32_t number, peer_number; /* peer_number 0: not known yet */
    enum state state;
    uint32_t psn, peer_psn, peer_qpn;
    uint8_t mtu; /* the smaller one of both sides */
    uint8_t responder_resources, initiator_depth;
    struct vp_call *next, *asked_next; /* in their buckets; asked_next: of peers' calls */
    struct message msg;                /* the message that is repeated */
    struct vp_heap_node repeat;        /* in calls->repeating */
    unsigned int sent;                 /* how often msg was sent */
    uint64_t sent_at[TRIES];           /* ms: the last times */
    uint8_t peer_nth;                  /* nth of the peer's last message */
    bool answered;                     /* (passive) this side has sent REP */
    struct vp_list known_link;         /* in known->calls, or calls->due */
};

/* A process that this one has communicated with. */
struct known {
    struct known *next; /* in its bucket */
    struct vp_port *port;
    struct vp_ud_addr at;
    struct vp_list calls; /* vp_call.known_link: calls with the process */
    unsigned int moves;   /* calls->moves when at.lid was known to be right */
    bool silent;          /* the latest request had no answer */
    bool gone;
};

struct vp_udcm {
    pthread_mutex_t lock; /* taken inside prov->lock, or without it */
    uint32_t last_number;
    struct vp_call *by_number[BUCKETS], *asked[BUCKETS];
    struct known *known[BUCKETS];
    struct vp_heap repeating;  /* vp_call.repeat: waiting for an answer */
    struct vp_list due;        /* vp_call.known_link: the peer is gone, which is to be reported */
    unsigned int mean, spread; /* of answer times, ms; mean 0: not known */
    unsigned int moves;        /* how often a port of this process got another LID */
    uint64_t ask_after;        /* ms: the subnet manager is silent, and not asked before */
};

/*** calls ***/

static struct vp_call **bucket(struct vp_udcm *calls, uint32_t number)
{
    return &calls->by_number[number % BUCKETS];
}

static struct vp_call **asked_bucket(struct vp_udcm *calls, uint32_t qpn, uint32_t number)
{
    return &calls->asked[(number * 0x9e3779b1u ^ qpn * 0x85ebca6bu) >> 8 & (BUCKETS - 1)];
}

static struct vp_call *find(struct vp_udcm *calls, uint32_t number)
{
    struct vp_call *call = *bucket(calls, number);

    while (call && call->number != number)
        call = call->next;
    return call;
}

static bool is_from(const struct vp_call *call, const struct message *msg)
{
    return call->peer.qpn == msg->ud_qpn &&
           memcmp(call->peer.gid.raw, msg->gid, sizeof(msg->gid)) == 0;
}

/* Finds the call for a peer's number of the handshake. */
static struct vp_call *find_asked(struct vp_udcm *calls, const struct message *msg)
{
    struct vp_call *call = *asked_bucket(calls, msg->ud_qpn, msg->from);

    while (call && (call->peer_number != msg->from || !is_from(call, msg)))
        call = call->asked_next;
    return call;
}

/* The LID may change. */
static bool is_same(const struct vp_ud_addr *a, const struct vp_ud_addr *b)
{
    return a->qpn == b->qpn && memcmp(&a->gid, &b->gid, sizeof(a->gid)) == 0 &&
           memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

static struct known **known_bucket(struct vp_udcm *calls, const struct vp_ud_addr *at)
{
    uint32_t low;

    memcpy(&low, at->key, sizeof(low));
    return &calls->known[low % BUCKETS];
}

static struct known *find_known(struct vp_udcm *calls, const struct vp_ud_addr *at)
{
    struct known *known = *known_bucket(calls, at);

    while (known && !is_same(&known->at, at))
        known = known->next;
    return known;
}

static struct known *get_known(struct vp_udcm *calls, struct vp_port *port,
                               const struct vp_ud_addr *at)
{
    struct known *known = find_known(calls, at), **bucket = known_bucket(calls, at);

    if (known)
        return known;
    known = calloc(1, sizeof(*known));
    if (!known)
        return NULL;
    *known = (struct known){.next = *bucket, .port = port, .at = *at, .moves = calls->moves};
    vp_list_init(&known->calls);
    *bucket = known;
    return known;
}

static struct vp_call *new_call(struct vp_prov *prov, struct vp_port *port,
                                const struct vp_ud_addr *peer)
{
    struct vp_udcm *calls = prov->calls;
    struct known *known = get_known(calls, port, peer);
    struct vp_call *call = known ? calloc(1, sizeof(*call)) : NULL;

    if (!call)
        return NULL;
    call->prov = prov;
    call->port = port;
    call->peer = *peer;
    vp_list_init(&call->known_link);
    vp_list_append(&known->calls, &call->known_link);
    do
        call->number = ++calls->last_number;
    while (!call->number || find(calls, call->number));
    call->psn = (call->number * 0x9e3779b1u ^ (uint32_t)ut_clock_ns()) & PSN_MASK;
    call->next = *bucket(calls, call->number);
    *bucket(calls, call->number) = call;
    return call;
}

static void free_call(struct vp_call *call)
{
    struct vp_udcm *calls = call->prov->calls;
    struct vp_call **at = bucket(calls, call->number);

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    at = asked_bucket(calls, call->peer.qpn, call->peer_number);
    while (*at && *at != call)
        at = &(*at)->asked_next;
    if (*at)
        *at = call->asked_next;
    vp_heap_remove(&call->repeat);
    vp_list_remove(&call->known_link);
    free(call);
}

/* Ends a call without an owner. */
static void end_call(struct vp_call *call)
{
    if (!call->answered) {
        free_call(call);
        return;
    }
    call->state = TIMEWAIT;
    vp_heap_add(&call->prov->calls->repeating, &call->repeat, ut_clock_ms() + TIMEWAIT_MS);
}

/*** sending ***/

static unsigned int first_wait(const struct vp_udcm *calls)
{
    unsigned int wait = calls->mean ? calls->mean + 4 * calls->spread : FIRST_MS;

    return wait < LEAST_MS ? LEAST_MS : wait > MOST_MS ? MOST_MS : wait;
}

/* Learns the answer time from the repetition that the answer names. */
static void learn(struct vp_udcm *calls, const struct vp_call *call, unsigned int nth)
{
    if (!nth || nth > call->sent || call->sent - nth >= TRIES)
        return;
    unsigned int took = (unsigned int)(ut_clock_ms() - call->sent_at[nth % TRIES]) + 1;
    unsigned int off = took > calls->mean ? took - calls->mean : calls->mean - took;

    if (took > MOST_MS)
        took = MOST_MS;
    if (!calls->mean) {
        calls->mean = took;
        calls->spread = took / 2;
        return;
    }
    calls->spread = (3 * calls->spread + off) / 4;
    calls->mean = (7 * calls->mean + took + 7) / 8;
}

static void repeat_later(struct vp_call *call, uint64_t now)
{
    struct vp_udcm *calls = call->prov->calls;

    vp_heap_add(&calls->repeating, &call->repeat,
                now + ut_retry_delay_nth_ms(call->sent - 1, first_wait(calls), MOST_BACKOFF_MS));
}

static struct message message_to(const struct vp_port *port, const struct vp_ud_addr *peer,
                                 uint32_t to, enum kind kind)
{
    struct message msg = {.version = VERSION,
                          .kind = (uint8_t)kind,
                          .to = to,
                          .lid = port->at.lid,
                          .ud_qpn = port->at.qpn,
                          .qkey = port->at.qkey};

    memcpy(msg.magic, magic, sizeof(magic));
    memcpy(msg.key, peer->key, sizeof(msg.key));
    memcpy(msg.gid, port->at.gid.raw, sizeof(msg.gid));
    memcpy(msg.own_key, port->at.key, sizeof(msg.own_key));
    return msg;
}

/* Sends a message once. */
static void say(struct vp_call *call, enum kind kind, enum vp_reject_reason refusal)
{
    struct message msg = message_to(call->port, &call->peer, call->peer_number, kind);

    msg.from = call->number;
    msg.echo = call->peer_nth;
    msg.refusal = (uint8_t)refusal;
    vp_ud_send(call->port, &call->peer, &msg, sizeof(msg));
}

/* Answers go by the service level that the message came with. */
static struct vp_ud_addr sender_of(const struct message *msg)
{
    struct vp_ud_addr peer = {
        .lid = msg->lid, .sl = msg->sl, .qpn = msg->ud_qpn, .qkey = msg->qkey};

    memcpy(peer.gid.raw, msg->gid, sizeof(msg->gid));
    memcpy(peer.key, msg->own_key, sizeof(peer.key));
    return peer;
}

/* Answers the sender of a message without a call. */
static void say_to(struct vp_port *port, const struct message *msg, enum kind kind)
{
    struct vp_ud_addr peer = sender_of(msg);
    struct message answer = message_to(port, &peer, msg->from, kind);
    answer.from = msg->to;
    answer.refusal = VP_REJ_BUSY;
    answer.echo = msg->nth;
    vp_ud_send(port, &peer, &answer, sizeof(answer));
}

static void say_again(struct vp_call *call, uint64_t now)
{
    if (call->sent < UINT8_MAX)
        call->sent++;
    call->msg.nth = (uint8_t)call->sent;
    call->msg.echo = call->peer_nth;
    call->sent_at[call->sent % TRIES] = now;
    vp_ud_send(call->port, &call->peer, &call->msg, sizeof(call->msg));
    repeat_later(call, now);
}

/* Sends call->msg, and repeats it until an answer arrives. */
static void say_until(struct vp_call *call)
{
    call->sent = 0;
    say_again(call, ut_clock_ms());
    if (call->prov->calls->repeating.first == &call->repeat)
        vp_kick(call->prov); /* progress() may sleep for longer */
}

static void stop(struct vp_call *call, enum state state)
{
    call->state = state;
    vp_heap_remove(&call->repeat);
}

static void fill_in(struct vp_call *call, enum kind kind, const struct rdma_conn_param *param,
                    const struct vp_ece *ece)
{
    call->msg = message_to(call->port, &call->peer, call->peer_number, kind);
    call->msg.from = call->number;
    call->msg.qpn = param->qp_num;
    call->msg.psn = call->psn;
    call->msg.responder_resources = param->responder_resources;
    call->msg.initiator_depth = param->initiator_depth;
    call->msg.mtu = call->port->mtu;
    call->msg.ece = *ece;
    call->msg.size = param->private_data_len;
    memcpy(call->msg.data, param->private_data, param->private_data_len);
}

/*** calls from cm.c ***/

/* The LID of an address record holds until the subnet manager gives out others: all of them, if it
 * has forgotten those that it gave. Then silence, or another LID of an own port, is what shows; of
 * another service level it is silence. */
static bool is_path_doubtful(struct vp_udcm *calls, struct vp_ud_addr *at)
{
    pthread_mutex_lock(&calls->lock);
    const struct known *known = find_known(calls, at);
    bool doubtful = known ? known->silent || known->moves != calls->moves : calls->moves > 0;
    if (known) {
        at->lid = known->at.lid;
        at->sl = known->at.sl;
    }
    doubtful &= ut_clock_ms() >= calls->ask_after;
    pthread_mutex_unlock(&calls->lock);
    return doubtful;
}

/* An answer to "which path leads to the port of `at`?"; LID 0: none came. */
static void take_path(struct vp_udcm *calls, struct vp_port *port, struct vp_ud_addr *at,
                      uint16_t lid, uint8_t sl)
{
    pthread_mutex_lock(&calls->lock);
    struct known *known = lid ? get_known(calls, port, at) : NULL;
    if (known) {
        known->at.lid = at->lid = lid;
        known->at.sl = at->sl = sl;
        known->moves = calls->moves;
    }
    if (!lid)
        calls->ask_after = ut_clock_ms() + NOT_ASKED_MS;
    pthread_mutex_unlock(&calls->lock);
}

/* InfiniBand: the path that leads to the peer's port now. */
static void find_path(struct vp_prov *prov, struct vp_port *port, struct vp_ud_addr *at)
{
    const struct vp_ud_addr recorded = *at;
    uint8_t sl = 0;

    if (port->gid_index >= 0 || !prov->channel || !is_path_doubtful(prov->calls, at))
        return;
    uint16_t lid = vp_query_lid(port, &at->gid, ASK_MS, &sl);
    take_path(prov->calls, port, at, lid, sl);
    if (at->lid != recorded.lid)
        ut_info(VP_CAT, "%s: a peer has LID %u, not %u as when the job began", port->name, at->lid,
                recorded.lid);
    if (at->sl != recorded.sl)
        ut_info(VP_CAT, "%s: LID %u is reached by service level %u", port->name, at->lid, at->sl);
}

static int begin(struct vp_prov *prov, struct vp_cm_id *id, struct vp_port *port,
                 const struct vp_peer *peer)
{
    struct vp_ud_addr at = peer->at;

    find_path(prov, port, &at);
    int rc = vp_ud_resolve(port, &at);
    if (rc)
        return rc;
    pthread_mutex_lock(&prov->calls->lock);
    const struct known *known = find_known(prov->calls, &at);
    if (known && known->gone) {
        pthread_mutex_unlock(&prov->calls->lock);
        return -ECONNREFUSED;
    }
    id->call = new_call(prov, port, &at);
    if (id->call)
        id->call->owner = id;
    pthread_mutex_unlock(&prov->calls->lock);
    if (!id->call)
        return -ENOMEM;
    id->way = &vp_udcm_ops;
    return 1;
}

static int ask(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    struct vp_call *call = id->call;

    if (param->private_data_len > DATA_MOST)
        return -EINVAL;
    pthread_mutex_lock(&call->prov->calls->lock);
    fill_in(call, REQ, param, &id->ece);
    call->state = REQ_SENT;
    say_until(call);
    pthread_mutex_unlock(&call->prov->calls->lock);
    return 0;
}

static int answer(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    struct vp_call *call = id->call;
    int rc = vp_ud_resolve(call->port, &call->peer);

    if (param->private_data_len > DATA_MOST)
        return -EINVAL;
    pthread_mutex_lock(&call->prov->calls->lock);
    if (!rc && call->state != REQ_RCVD)
        rc = -ECONNABORTED;
    if (!rc) {
        fill_in(call, REP, param, &id->ece);
        call->responder_resources = param->responder_resources;
        call->initiator_depth = param->initiator_depth;
        call->state = REP_SENT;
        call->answered = true;
        say_until(call);
    }
    pthread_mutex_unlock(&call->prov->calls->lock);
    return rc;
}

static int confirm(struct vp_cm_id *id)
{
    struct vp_call *call = id->call;

    pthread_mutex_lock(&call->prov->calls->lock);
    int rc = call->state == REP_RCVD ? 0 : -ECONNABORTED;
    if (!rc) {
        call->state = ESTABLISHED;
        say(call, RTU, 0);
    }
    pthread_mutex_unlock(&call->prov->calls->lock);
    return rc;
}

static void refuse(struct vp_cm_id *id, enum vp_reject_reason refusal)
{
    struct vp_call *call = id->call;

    vp_ud_resolve(call->port, &call->peer);
    pthread_mutex_lock(&call->prov->calls->lock);
    if (call->state != CLOSED)
        say(call, REJ, refusal);
    stop(call, CLOSED);
    pthread_mutex_unlock(&call->prov->calls->lock);
}

static void leave(struct vp_call *call)
{
    call->msg = message_to(call->port, &call->peer, call->peer_number, DREQ);
    call->msg.from = call->number;
    call->state = DREQ_SENT;
    say_until(call);
}

static void disconnect(struct vp_cm_id *id)
{
    struct vp_call *call = id->call;

    pthread_mutex_lock(&call->prov->calls->lock);
    if (call->state == ESTABLISHED || call->state == REP_SENT || call->state == REP_RCVD)
        leave(call);
    pthread_mutex_unlock(&call->prov->calls->lock);
}

/* Has the process answered the latest request? */
static void note_answer(struct vp_call *call, bool answered)
{
    struct known *known = find_known(call->prov->calls, &call->peer);

    if (known)
        known->silent = !answered;
}

static void drop(struct vp_cm_id *id)
{
    struct vp_call *call = id->call;
    struct vp_udcm *calls = call->prov->calls;

    id->call = NULL;
    pthread_mutex_lock(&calls->lock);
    call->owner = NULL;
    if (call->state == REQ_SENT)
        note_answer(call, false);
    if (call->state == ESTABLISHED)
        leave(call);
    else if (call->state == REQ_SENT || call->state == REQ_RCVD || call->state == REP_SENT ||
             call->state == REP_RCVD)
        say(call, REJ, VP_REJ_BUSY);
    if (call->state != DREQ_SENT)
        end_call(call);
    pthread_mutex_unlock(&calls->lock);
}

static void adopt(struct vp_cm_id *id)
{
    struct vp_call *call = id->call;

    pthread_mutex_lock(&call->prov->calls->lock);
    call->owner = id;
    pthread_mutex_unlock(&call->prov->calls->lock);
}

static void to_rtr(const struct vp_call *call, struct ibv_qp_attr *attr)
{
    attr->path_mtu = (enum ibv_mtu)call->mtu;
    attr->dest_qp_num = call->peer_qpn;
    attr->rq_psn = call->peer_psn;
    attr->max_dest_rd_atomic = call->responder_resources;
    attr->min_rnr_timer = 0;
    vp_ud_path(call->port, &call->peer, &attr->ah_attr);
}

static int qp_attr(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    const struct vp_call *call = id->call;

    pthread_mutex_lock(&call->prov->calls->lock);
    int rc = call->state == REQ_RCVD || call->state == REP_RCVD ? 0 : -ECONNABORTED;
    pthread_mutex_unlock(&call->prov->calls->lock);
    *mask = IBV_QP_STATE;
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        attr->pkey_index = call->port->pkey_index;
        attr->port_num = call->port->num;
        *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return rc;
    case IBV_QPS_RTR:
        to_rtr(call, attr);
        *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return rc;
    case IBV_QPS_RTS:
        attr->sq_psn = call->psn;
        attr->max_rd_atomic = call->initiator_depth;
        *mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                 IBV_QP_MAX_QP_RD_ATOMIC;
        return rc;
    default:
        return -EINVAL;
    }
}

/*** received messages ***/

/* Takes over the numbers of the peer's queue pair. */
static void meet(struct vp_call *call, const struct message *msg)
{
    call->peer_qpn = msg->qpn;
    call->peer_psn = msg->psn & PSN_MASK;
    call->mtu = msg->mtu < call->port->mtu ? msg->mtu : call->port->mtu;
    call->responder_resources = msg->initiator_depth;
    call->initiator_depth = msg->responder_resources;
}

static bool tell(const struct vp_call *call, enum vp_cm_event_type what, const struct message *msg,
                 struct vp_cm_event *event)
{
    if (!call->owner)
        return false;
    event->what = what;
    event->id = call->owner;
    event->refusal = (enum vp_reject_reason)msg->refusal;
    event->ece = msg->ece;
    event->size = msg->size;
    memcpy(event->data, msg->data, msg->size);
    return true;
}

static bool heard_req(struct vp_prov *prov, struct vp_port *port, const struct message *msg,
                      struct vp_cm_event *event)
{
    struct vp_udcm *calls = prov->calls;
    struct vp_call *call = find_asked(calls, msg);
    struct vp_ud_addr peer = sender_of(msg);

    if (call) {
        call->peer_nth = msg->nth;
        if (call->state == REP_SENT)
            say_again(call, ut_clock_ms()); /* the REP was lost, or has not arrived yet */
        else if (call->state == TIMEWAIT)
            say_to(port, msg, REJ);
        return false;
    }
    call = new_call(prov, port, &peer);
    if (!call)
        return false;
    struct known *known = find_known(calls, &peer);
    known->at.lid = peer.lid; /* it may have another one than in its record */
    known->at.sl = peer.sl;
    call->state = REQ_RCVD;
    call->peer_number = msg->from;
    call->peer_nth = msg->nth;
    meet(call, msg);
    struct vp_call **at = asked_bucket(calls, peer.qpn, call->peer_number);
    call->asked_next = *at;
    *at = call;
    *event =
        (struct vp_cm_event){.what = VP_CM_CONNECT_REQUEST,
                             .port = port,
                             .asks = {.kind = VP_CM_ID_CONN, .way = &vp_udcm_ops, .call = call},
                             .from = {.ud = true, .at = peer},
                             .rsp_resources = call->responder_resources,
                             .init_depth = call->initiator_depth,
                             .ece = msg->ece,
                             .size = msg->size};
    memcpy(event->data, msg->data, msg->size);
    return true;
}

static bool heard_rep(struct vp_port *port, struct vp_call *call, const struct message *msg,
                      struct vp_cm_event *event)
{
    if (!call || call->state >= CLOSED || (call->peer_number && call->peer_number != msg->from)) {
        say_to(port, msg, REJ);
        return false;
    }
    call->peer_nth = msg->nth;
    if (call->state == ESTABLISHED)
        say(call, RTU, 0); /* the first RTU was lost */
    if (call->state != REQ_SENT)
        return false;
    learn(call->prov->calls, call, msg->echo);
    note_answer(call, true);
    stop(call, REP_RCVD);
    call->peer_number = msg->from;
    meet(call, msg);
    return tell(call, VP_CM_CONNECT_RESPONSE, msg, event);
}

static bool heard_rtu(struct vp_call *call, const struct message *msg, struct vp_cm_event *event)
{
    if (!call || call->state != REP_SENT)
        return false;
    learn(call->prov->calls, call, msg->echo);
    stop(call, ESTABLISHED);
    return tell(call, VP_CM_ESTABLISHED, msg, event);
}

static bool heard_rej(struct vp_call *call, const struct message *msg, struct vp_cm_event *event)
{
    if (!call || call->state >= DREQ_SENT || call->state == IDLE)
        return false;
    if (call->state == REQ_SENT) {
        learn(call->prov->calls, call, msg->echo);
        note_answer(call, true);
    }
    stop(call, CLOSED);
    return tell(call, VP_CM_REJECTED, msg, event);
}

static bool heard_dreq(struct vp_port *port, struct vp_call *call, const struct message *msg,
                       struct vp_cm_event *event)
{
    say_to(port, msg, DREP);
    if (!call || call->state >= CLOSED)
        return false;
    if (call->state == DREQ_SENT) { /* the DREQs of both sides crossed */
        stop(call, CLOSED);
        if (!call->owner)
            end_call(call);
        return false;
    }
    stop(call, CLOSED);
    return tell(call, VP_CM_DISCONNECTED, msg, event);
}

static void heard_drep(struct vp_call *call)
{
    if (!call || call->state != DREQ_SENT)
        return;
    stop(call, CLOSED);
    if (!call->owner)
        end_call(call);
}

/* The sender of the message ends: its calls are reported. */
static void heard_gone(struct vp_udcm *calls, const struct message *msg)
{
    struct vp_ud_addr peer = sender_of(msg);
    struct known *known = find_known(calls, &peer);

    if (!known || known->gone)
        return;
    known->gone = true;
    while (!vp_list_empty(&known->calls))
        vp_list_append(&calls->due, known->calls.next);
}

/* The next call whose peer is gone. */
static bool next_due(struct vp_udcm *calls, struct vp_cm_event *event)
{
    static const struct message dead = {.refusal = VP_REJ_DEAD};

    while (!vp_list_empty(&calls->due)) {
        struct vp_call *call = vp_container_of(calls->due.next, struct vp_call, known_link);
        enum state was = call->state;
        vp_list_remove(&call->known_link);
        stop(call, CLOSED);
        if (was == TIMEWAIT || (was == DREQ_SENT && !call->owner))
            free_call(call);
        else if (was != IDLE && was < DREQ_SENT &&
                 tell(call, was == ESTABLISHED ? VP_CM_DISCONNECTED : VP_CM_REJECTED, &dead, event))
            return true;
    }
    return false;
}

static bool handle(struct vp_prov *prov, struct vp_port *port, const struct message *msg,
                   struct vp_cm_event *event)
{
    struct vp_call *call = msg->to ? find(prov->calls, msg->to) : NULL;

    if (!msg->to && msg->kind == REJ) /* the origin gives up before an answer has reached it */
        call = find_asked(prov->calls, msg);
    if (call && !is_from(call, msg))
        call = NULL;
    switch (msg->kind) {
    case REQ:
        return heard_req(prov, port, msg, event);
    case REP:
        return heard_rep(port, call, msg, event);
    case RTU:
        return heard_rtu(call, msg, event);
    case REJ:
        return heard_rej(call, msg, event);
    case DREQ:
        return heard_dreq(port, call, msg, event);
    case DREP:
        heard_drep(call);
        return false;
    case GONE:
        heard_gone(prov->calls, msg);
        return false;
    default:
        return false;
    }
}

static bool is_message(const struct message *msg, size_t size)
{
    return size >= sizeof(*msg) && memcmp(msg->magic, magic, sizeof(magic)) == 0 &&
           msg->version == VERSION && msg->size <= DATA_MOST && msg->mtu <= IBV_MTU_4096 &&
           (msg->mtu >= IBV_MTU_256 || (msg->kind != REQ && msg->kind != REP));
}

/* Compares in constant time. */
static bool is_key(const uint8_t *a, const uint8_t *b)
{
    uint8_t differs = 0;

    for (int i = 0; i < VP_UD_KEY_BYTES; i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

static bool next_of(struct vp_prov *prov, struct vp_port *port, struct vp_cm_event *event)
{
    uint8_t data[VP_UD_MAX], sl = 0;
    struct message msg;
    size_t size;

    while ((size = vp_ud_recv(port, data, &sl))) {
        bool told;
        memcpy(&msg, data, sizeof(msg));
        msg.sl = sl;
        *event = (struct vp_cm_event){.port = port};
        if (!is_message(&msg, size) || !is_key(msg.key, port->at.key)) {
            event->what = VP_CM_WRONG_KEY;
            return true;
        }
        pthread_mutex_lock(&prov->calls->lock);
        told = handle(prov, port, &msg, event) || next_due(prov->calls, event);
        pthread_mutex_unlock(&prov->calls->lock);
        if (told)
            return true;
    }
    return false;
}

bool vp_udcm_next(struct vp_prov *prov, struct vp_cm_event *event)
{
    pthread_mutex_lock(&prov->calls->lock);
    bool due = next_due(prov->calls, event);
    pthread_mutex_unlock(&prov->calls->lock);
    if (due)
        return true;
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud && next_of(prov, &prov->ports[i], event))
            return true;
    return false;
}

void vp_udcm_lid_changed(struct vp_prov *prov, struct vp_port *port, uint16_t lid)
{
    pthread_mutex_lock(&prov->calls->lock);
    port->at.lid = lid;
    prov->calls->moves++;
    pthread_mutex_unlock(&prov->calls->lock);
}

/*** repetitions ***/

static void repeat(struct vp_call *call, uint64_t now)
{
    if (call->state == TIMEWAIT) {
        free_call(call);
        return;
    }
    if (call->state == DREQ_SENT && call->sent >= DREQS) {
        stop(call, CLOSED);
        if (!call->owner)
            end_call(call);
        return;
    }
    say_again(call, now);
}

uint64_t vp_udcm_timers(struct vp_prov *prov, uint64_t now)
{
    struct vp_udcm *calls = prov->calls;
    struct vp_heap_node *due;

    pthread_mutex_lock(&calls->lock);
    while ((due = vp_heap_due(&calls->repeating, now)))
        repeat(vp_container_of(due, struct vp_call, repeat), now); /* repeats it later, too */
    uint64_t next = vp_heap_next(&calls->repeating);
    pthread_mutex_unlock(&calls->lock);
    return next;
}

int vp_udcm_open(struct vp_prov *prov)
{
    struct vp_udcm *calls = calloc(1, sizeof(*calls));

    if (!calls)
        return -ENOMEM;
    pthread_mutex_init(&calls->lock, NULL);
    vp_list_init(&calls->due);
    if (getrandom(&calls->last_number, sizeof(calls->last_number), 0) < 0)
        calls->last_number = 0;
    prov->calls = calls;
    return 0;
}

static void say_gone(const struct known *known, uint64_t end)
{
    struct message msg = message_to(known->port, &known->at, 0, GONE);
    uint32_t rounds = 0;

    while (!known->gone && !vp_ud_send(known->port, &known->at, &msg, sizeof(msg)) &&
           !vp_ud_sends_are_done(known->port) && ut_clock_ms() < end)
        ut_back_off_yielding(&rounds);
}

void vp_udcm_announce_exit(struct vp_prov *prov)
{
    struct vp_udcm *calls = prov->calls;
    uint64_t end = ut_clock_ms() + LAST_SENT_MS;
    uint32_t rounds = 0;

    pthread_mutex_lock(&calls->lock);
    for (int round = 0; round < LAST_WORDS; round++)
        for (unsigned int i = 0; i < BUCKETS; i++)
            for (const struct known *known = calls->known[i]; known; known = known->next)
                say_gone(known, end);
    pthread_mutex_unlock(&calls->lock);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        while (prov->ports[i].ud && !vp_ud_sends_are_done(&prov->ports[i]) && ut_clock_ms() < end)
            ut_back_off_yielding(&rounds);
}

void vp_udcm_close(struct vp_prov *prov)
{
    struct vp_udcm *calls = prov->calls;

    if (!calls)
        return;
    vp_udcm_announce_exit(prov);
    for (unsigned int i = 0; i < BUCKETS; i++)
        while (calls->by_number[i])
            free_call(calls->by_number[i]); /* free_call() removes the call from its lists too */
    for (unsigned int i = 0; i < BUCKETS; i++) {
        while (calls->known[i]) {
            struct known *known = calls->known[i];
            calls->known[i] = known->next;
            free(known);
        }
    }
    pthread_mutex_destroy(&calls->lock);
    free(calls);
    prov->calls = NULL;
}

const struct vp_cm_ops vp_udcm_ops = {
    .name = "ud",
    .tells_of_deaths = false,
    .begin = begin,
    .ask = ask,
    .answer = answer,
    .confirm = confirm,
    .refuse = refuse,
    .disconnect = disconnect,
    .drop = drop,
    .qp_attr = qp_attr,
    .adopt = adopt,
};
