/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection manager operations by datagrams, with the messages and states of InfiniBand's
 * connection manager:
 *
 *   active    IDLE -> REQ_SENT -> REP_RCVD -> ESTABLISHED
 *   passive   REQ_RCVD -> REP_SENT -> ESTABLISHED
 *   both      -> DREQ_SENT -> freed, or CLOSED: the other side has disconnected
 *   passive   -> TIMEWAIT -> freed, so that a late copy of a REQ does not count as a new request
 *
 * Messages that need a reply (REQ, REP, DREQ) are retransmitted: first after the usual reply time,
 * then with doubled intervals, as long as the owner of the handshake waits. A DREQ has no owner any
 * more, and is retransmitted a limited number of times. A duplicate message is replied to again and
 * has no other effect. A late message refers to a handshake that no longer exists, and is ignored
 * or rejected. A REQ that arrives after TIMEWAIT looks like a new request, and the active side
 * rejects its REP.
 *
 * Each message has the receiver's key, which its address record and each request contain: a sender
 * without the key gets no reply. Handshakes are found by their number, requests by the number that
 * the active side gave them.
 *
 * A process that exits sends GONE to all processes with which it communicated; a killed process
 * does not. So reports_peer_death is false, and conn.c sends keepalives on idle connections.
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
#include "util/hash_table.h"
#include "util/log.h"
#include "util/back_off.h"
#include "verbs/wake.h"

enum {
    VERSION = 2,
    FIRST_MS = 50, /* first retransmission while no reply time is known */
    MIN_MS = 10,
    MAX_MS = 250,
    MAX_SENT_TIMES = 8, /* number of transmissions of a message whose times are stored */
    MAX_BACKOFF_MS = 1000,
    TIMEWAIT_MS = 500,
    MAX_DREQS = 6,   /* a peer that has not replied to so many is gone */
    DRAIN_MS = 200,  /* time for the last messages to leave the port */
    GONE_COPIES = 2, /* number of copies of GONE, which has no reply */
    PSN_MASK = 0xffffff,
    MAX_DATA = 64,
    QUERY_TIMEOUT_MS = 300, /* wait for a reply of the subnet manager */
    QUERY_PAUSE_MS = 10000, /* pause after a query without a reply */
};

enum kind { REQ = 1, REP, RTU, REJ, DREQ, DREP, GONE };

/* Integers are in host byte order, which is the same in all processes of a job. */
struct __attribute__((packed)) message {
    uint8_t magic[4];
    uint8_t version, kind, reject_reason, size; /* size: of data */
    uint8_t key[VP_UD_KEY_BYTES];               /* the receiver's key */
    uint32_t from, to; /* numbers of the handshake at sender and receiver; 0: unknown */
    uint32_t qpn, psn; /* of the connection's queue pair */
    uint8_t responder_resources, initiator_depth, mtu;
    uint8_t copy_number; /* number of the transmission, from 1 on */
    uint8_t gid[16];     /* address at which the sender receives messages */
    uint16_t lid;
    uint8_t echo; /* copy_number of the message that this reply answers; 0: no reply */
    uint8_t sl;   /* sent as 0; the receiver stores here the service level of the datagram */
    uint32_t ud_qpn, qkey;
    uint8_t own_key[VP_UD_KEY_BYTES];
    struct vp_ece ece; /* REQ: the offer; REP: the choice */
    uint8_t data[MAX_DATA];
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

/* A handshake, and the connection that it establishes. */
struct vp_udcm_conn {
    struct vp_cm_id *owner; /* NULL: no owner yet, or in DREQ_SENT */
    struct vp_prov *prov;
    struct vp_port *port;
    struct vp_ud_addr peer;
    uint32_t number, peer_number; /* peer_number 0: unknown */
    enum state state;
    uint32_t psn, peer_psn, peer_qpn;
    uint8_t mtu; /* the smaller MTU of both sides */
    uint8_t responder_resources, initiator_depth;
    struct ut_hash_entry by_number,
        passive;                      /* in the tables of udcm; passive: of passive handshakes */
    struct message msg;               /* the message that is retransmitted */
    struct vp_heap_node timer;        /* in udcm->timers */
    unsigned int sent;                /* number of transmissions of msg */
    uint64_t sent_at[MAX_SENT_TIMES]; /* ms: times of the last transmissions */
    uint8_t peer_copy_number;         /* copy_number of the peer's last message */
    bool rep_sent;                    /* (passive) this side has sent a REP */
    struct vp_list process_link;      /* in process->conns or udcm->due */
};

/* A process with which this process has communicated. */
struct process {
    struct ut_hash_entry by_key;
    struct vp_port *port;
    struct vp_ud_addr at;
    struct vp_list conns;     /* vp_udcm_conn.process_link: connections with the process */
    unsigned int lid_changes; /* value of udcm->lid_changes when at.lid was confirmed */
    bool silent;              /* the latest request had no reply */
    bool gone;
};

struct vp_udcm {
    pthread_mutex_t lock; /* taken with or without prov->lock held */
    uint32_t last_number;
    struct ut_hash_table by_number;       /* struct vp_udcm_conn, by `number` */
    struct ut_hash_table passive;         /* struct vp_udcm_conn, by passive_key() */
    struct ut_hash_table processes;       /* struct process, by process_key() */
    struct vp_heap timers;                /* vp_udcm_conn.timer: messages without a reply */
    struct vp_list due;                   /* vp_udcm_conn.process_link: with a peer that is gone */
    unsigned int rtt_mean, rtt_deviation; /* of reply times, ms; rtt_mean 0: unknown */
    unsigned int lid_changes; /* number of times that a port of this process got another LID */
    uint64_t query_after;     /* ms: no query of a silent subnet manager before this time */
};

/*** connections ***/

static uint64_t passive_key(uint32_t qpn, uint32_t number)
{
    return (uint64_t)qpn << 32 | number;
}

static struct vp_udcm_conn *find_by_number(struct vp_udcm *udcm, uint32_t number)
{
    struct vp_udcm_conn *conn;

    return UT_HASH_OBJECT(conn, by_number, ut_hash_find(&udcm->by_number, number));
}

static bool is_from(const struct vp_udcm_conn *conn, const struct message *msg)
{
    return conn->peer.qpn == msg->ud_qpn &&
           memcmp(conn->peer.gid.raw, msg->gid, sizeof(msg->gid)) == 0;
}

/* Finds the passive handshake by the number that the peer gave it. */
static struct vp_udcm_conn *find_passive(struct vp_udcm *udcm, const struct message *msg)
{
    struct vp_udcm_conn *conn;

    UT_HASH_FOREACH (conn, &udcm->passive, passive_key(msg->ud_qpn, msg->from), passive) {
        if (is_from(conn, msg))
            break;
    }
    return conn;
}

/* Compares all but the LID, which may have changed. */
static bool is_same_process(const struct vp_ud_addr *a, const struct vp_ud_addr *b)
{
    return a->qpn == b->qpn && memcmp(&a->gid, &b->gid, sizeof(a->gid)) == 0 &&
           memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

static uint64_t process_key(const struct vp_ud_addr *at)
{
    uint64_t key = 0;

    memcpy(&key, at->key, sizeof(at->key) < sizeof(key) ? sizeof(at->key) : sizeof(key));
    return key;
}

static struct process *find_process(struct vp_udcm *udcm, const struct vp_ud_addr *at)
{
    struct process *process;

    UT_HASH_FOREACH (process, &udcm->processes, process_key(at), by_key) {
        if (is_same_process(&process->at, at))
            break;
    }
    return process;
}

static struct process *get_process(struct vp_udcm *udcm, struct vp_port *port,
                                   const struct vp_ud_addr *at)
{
    struct process *process = find_process(udcm, at);

    if (process || !ut_hash_reserve(&udcm->processes) || !(process = calloc(1, sizeof(*process))))
        return process;
    *process = (struct process){.port = port, .at = *at, .lid_changes = udcm->lid_changes};
    vp_list_init(&process->conns);
    ut_hash_insert(&udcm->processes, &process->by_key, process_key(at));
    return process;
}

static struct vp_udcm_conn *create_conn(struct vp_prov *prov, struct vp_port *port,
                                        const struct vp_ud_addr *peer)
{
    struct vp_udcm *udcm = prov->udcm;
    struct process *process = get_process(udcm, port, peer);
    struct vp_udcm_conn *conn =
        process && ut_hash_reserve(&udcm->by_number) && ut_hash_reserve(&udcm->passive)
            ? calloc(1, sizeof(*conn))
            : NULL;

    if (!conn)
        return NULL;
    conn->prov = prov;
    conn->port = port;
    conn->peer = *peer;
    vp_list_init(&conn->process_link);
    vp_list_append(&process->conns, &conn->process_link);
    do
        conn->number = ++udcm->last_number;
    while (!conn->number || find_by_number(udcm, conn->number));
    conn->psn = (conn->number * 0x9e3779b1u ^ (uint32_t)ut_clock_ns()) & PSN_MASK;
    ut_hash_insert(&udcm->by_number, &conn->by_number, conn->number);
    return conn;
}

static void free_conn(struct vp_udcm_conn *conn)
{
    struct vp_udcm *udcm = conn->prov->udcm;

    ut_hash_remove(&udcm->by_number, &conn->by_number);
    ut_hash_remove(&udcm->passive, &conn->passive);
    vp_heap_remove(&conn->timer);
    vp_list_remove(&conn->process_link);
    free(conn);
}

/* Frees a connection without an owner, or keeps it for TIMEWAIT. */
static void retire_conn(struct vp_udcm_conn *conn)
{
    if (!conn->rep_sent) {
        free_conn(conn);
        return;
    }
    conn->state = TIMEWAIT;
    vp_heap_add(&conn->prov->udcm->timers, &conn->timer, ut_clock_ms() + TIMEWAIT_MS);
}

/*** sending ***/

static unsigned int first_retransmit_ms(const struct vp_udcm *udcm)
{
    unsigned int wait = udcm->rtt_mean ? udcm->rtt_mean + 4 * udcm->rtt_deviation : FIRST_MS;

    return wait < MIN_MS ? MIN_MS : wait > MAX_MS ? MAX_MS : wait;
}

/* Updates the mean reply time from the transmission that the reply names. */
static void update_reply_time(struct vp_udcm *udcm, const struct vp_udcm_conn *conn,
                              unsigned int copy_number)
{
    if (!copy_number || copy_number > conn->sent || conn->sent - copy_number >= MAX_SENT_TIMES)
        return;
    unsigned int took =
        (unsigned int)(ut_clock_ms() - conn->sent_at[copy_number % MAX_SENT_TIMES]) + 1;
    unsigned int off = took > udcm->rtt_mean ? took - udcm->rtt_mean : udcm->rtt_mean - took;

    if (took > MAX_MS)
        took = MAX_MS;
    if (!udcm->rtt_mean) {
        udcm->rtt_mean = took;
        udcm->rtt_deviation = took / 2;
        return;
    }
    udcm->rtt_deviation = (3 * udcm->rtt_deviation + off) / 4;
    udcm->rtt_mean = (7 * udcm->rtt_mean + took + 7) / 8;
}

static void schedule_retransmit(struct vp_udcm_conn *conn, uint64_t now)
{
    struct vp_udcm *udcm = conn->prov->udcm;

    vp_heap_add(
        &udcm->timers, &conn->timer,
        now + ut_retry_delay_nth_ms(conn->sent - 1, first_retransmit_ms(udcm), MAX_BACKOFF_MS));
}

static struct message make_message(const struct vp_port *port, const struct vp_ud_addr *peer,
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

/* Sends a message without retransmission. */
static void send_once(struct vp_udcm_conn *conn, enum kind kind,
                      enum vp_reject_reason reject_reason)
{
    struct message msg = make_message(conn->port, &conn->peer, conn->peer_number, kind);

    msg.from = conn->number;
    msg.echo = conn->peer_copy_number;
    msg.reject_reason = (uint8_t)reject_reason;
    vp_ud_send(conn->port, &conn->peer, &msg, sizeof(msg));
}

/* Replies use the service level of the datagram that they answer. */
static struct vp_ud_addr sender_address(const struct message *msg)
{
    struct vp_ud_addr peer = {
        .lid = msg->lid, .sl = msg->sl, .qpn = msg->ud_qpn, .qkey = msg->qkey};

    memcpy(peer.gid.raw, msg->gid, sizeof(msg->gid));
    memcpy(peer.key, msg->own_key, sizeof(peer.key));
    return peer;
}

/* Replies to a message for which there is no connection. */
static void reply_to_sender(struct vp_port *port, const struct message *msg, enum kind kind)
{
    struct vp_ud_addr peer = sender_address(msg);
    struct message send_reply = make_message(port, &peer, msg->from, kind);
    send_reply.from = msg->to;
    send_reply.reject_reason = VP_REJ_BUSY;
    send_reply.echo = msg->copy_number;
    vp_ud_send(port, &peer, &send_reply, sizeof(send_reply));
}

static void retransmit_last(struct vp_udcm_conn *conn, uint64_t now)
{
    if (conn->sent < UINT8_MAX)
        conn->sent++;
    conn->msg.copy_number = (uint8_t)conn->sent;
    conn->msg.echo = conn->peer_copy_number;
    conn->sent_at[conn->sent % MAX_SENT_TIMES] = now;
    vp_ud_send(conn->port, &conn->peer, &conn->msg, sizeof(conn->msg));
    schedule_retransmit(conn, now);
}

/* Sends conn->msg, and retransmits it until a reply arrives. */
static void send_until_replied(struct vp_udcm_conn *conn)
{
    conn->sent = 0;
    retransmit_last(conn, ut_clock_ms());
    if (conn->prov->udcm->timers.first == &conn->timer)
        vp_kick(conn->prov); /* progress() may sleep longer */
}

static void stop_retransmits(struct vp_udcm_conn *conn, enum state state)
{
    conn->state = state;
    vp_heap_remove(&conn->timer);
}

static void fill_message(struct vp_udcm_conn *conn, enum kind kind,
                         const struct rdma_conn_param *param, const struct vp_ece *ece)
{
    conn->msg = make_message(conn->port, &conn->peer, conn->peer_number, kind);
    conn->msg.from = conn->number;
    conn->msg.qpn = param->qp_num;
    conn->msg.psn = conn->psn;
    conn->msg.responder_resources = param->responder_resources;
    conn->msg.initiator_depth = param->initiator_depth;
    conn->msg.mtu = conn->port->mtu;
    conn->msg.ece = *ece;
    conn->msg.size = param->private_data_len;
    memcpy(conn->msg.data, param->private_data, param->private_data_len);
}

/*** operations of vp_udcm_ops ***/

/* The LID of an address record is valid until the subnet manager assigns other LIDs. After a
 * restart without its data it may change all of them. The signs are a peer that does not reply, or
 * another LID of a local port. A changed service level shows only in a peer that does not reply. */
static bool path_may_be_stale(struct vp_udcm *udcm, struct vp_ud_addr *at)
{
    pthread_mutex_lock(&udcm->lock);
    const struct process *process = find_process(udcm, at);
    bool doubtful = process ? process->silent || process->lid_changes != udcm->lid_changes
                            : udcm->lid_changes > 0;
    if (process) {
        at->lid = process->at.lid;
        at->sl = process->at.sl;
    }
    doubtful &= ut_clock_ms() >= udcm->query_after;
    pthread_mutex_unlock(&udcm->lock);
    return doubtful;
}

/* Stores the path to the port of `at` from the subnet manager; LID 0: no reply came. */
static void store_path(struct vp_udcm *udcm, struct vp_port *port, struct vp_ud_addr *at,
                       uint16_t lid, uint8_t sl)
{
    pthread_mutex_lock(&udcm->lock);
    struct process *process = lid ? get_process(udcm, port, at) : NULL;
    if (process) {
        process->at.lid = at->lid = lid;
        process->at.sl = at->sl = sl;
        process->lid_changes = udcm->lid_changes;
    }
    if (!lid)
        udcm->query_after = ut_clock_ms() + QUERY_PAUSE_MS;
    pthread_mutex_unlock(&udcm->lock);
}

/* InfiniBand: updates the path to the peer's port. */
static void refresh_path(struct vp_prov *prov, struct vp_port *port, struct vp_ud_addr *at)
{
    const struct vp_ud_addr recorded = *at;
    uint8_t sl = 0;

    if (port->gid_index >= 0 || !prov->channel || !path_may_be_stale(prov->udcm, at))
        return;
    uint16_t lid = vp_query_lid(port, &at->gid, QUERY_TIMEOUT_MS, &sl);
    store_path(prov->udcm, port, at, lid, sl);
    if (at->lid != recorded.lid)
        ut_info(VP_CAT, "%s: a peer now has LID %u instead of %u", port->name, at->lid,
                recorded.lid);
    if (at->sl != recorded.sl)
        ut_info(VP_CAT, "%s: the path to LID %u has service level %u", port->name, at->lid, at->sl);
}

static int resolve_addr(struct vp_prov *prov, struct vp_cm_id *id, struct vp_port *port,
                        const struct vp_peer *peer)
{
    struct vp_ud_addr at = peer->at;

    refresh_path(prov, port, &at);
    int rc = vp_ud_resolve(port, &at);
    if (rc)
        return rc;
    pthread_mutex_lock(&prov->udcm->lock);
    const struct process *process = find_process(prov->udcm, &at);
    if (process && process->gone) {
        pthread_mutex_unlock(&prov->udcm->lock);
        return -ECONNREFUSED;
    }
    id->udcm = create_conn(prov, port, &at);
    if (id->udcm)
        id->udcm->owner = id;
    pthread_mutex_unlock(&prov->udcm->lock);
    if (!id->udcm)
        return -ENOMEM;
    id->ops = &vp_udcm_ops;
    return 1;
}

static int send_request(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    struct vp_udcm_conn *conn = id->udcm;

    if (param->private_data_len > MAX_DATA)
        return -EINVAL;
    pthread_mutex_lock(&conn->prov->udcm->lock);
    fill_message(conn, REQ, param, &id->ece);
    conn->state = REQ_SENT;
    send_until_replied(conn);
    pthread_mutex_unlock(&conn->prov->udcm->lock);
    return 0;
}

static int send_reply(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    struct vp_udcm_conn *conn = id->udcm;
    int rc = vp_ud_resolve(conn->port, &conn->peer);

    if (param->private_data_len > MAX_DATA)
        return -EINVAL;
    pthread_mutex_lock(&conn->prov->udcm->lock);
    if (!rc && conn->state != REQ_RCVD)
        rc = -ECONNABORTED;
    if (!rc) {
        fill_message(conn, REP, param, &id->ece);
        conn->responder_resources = param->responder_resources;
        conn->initiator_depth = param->initiator_depth;
        conn->state = REP_SENT;
        conn->rep_sent = true;
        send_until_replied(conn);
    }
    pthread_mutex_unlock(&conn->prov->udcm->lock);
    return rc;
}

static int establish_conn(struct vp_cm_id *id)
{
    struct vp_udcm_conn *conn = id->udcm;

    pthread_mutex_lock(&conn->prov->udcm->lock);
    int rc = conn->state == REP_RCVD ? 0 : -ECONNABORTED;
    if (!rc) {
        conn->state = ESTABLISHED;
        send_once(conn, RTU, 0);
    }
    pthread_mutex_unlock(&conn->prov->udcm->lock);
    return rc;
}

static void reject_request(struct vp_cm_id *id, enum vp_reject_reason reject_reason)
{
    struct vp_udcm_conn *conn = id->udcm;

    vp_ud_resolve(conn->port, &conn->peer);
    pthread_mutex_lock(&conn->prov->udcm->lock);
    if (conn->state != CLOSED)
        send_once(conn, REJ, reject_reason);
    stop_retransmits(conn, CLOSED);
    pthread_mutex_unlock(&conn->prov->udcm->lock);
}

static void send_disconnect(struct vp_udcm_conn *conn)
{
    conn->msg = make_message(conn->port, &conn->peer, conn->peer_number, DREQ);
    conn->msg.from = conn->number;
    conn->state = DREQ_SENT;
    send_until_replied(conn);
}

static void disconnect(struct vp_cm_id *id)
{
    struct vp_udcm_conn *conn = id->udcm;

    pthread_mutex_lock(&conn->prov->udcm->lock);
    if (conn->state == ESTABLISHED || conn->state == REP_SENT || conn->state == REP_RCVD)
        send_disconnect(conn);
    pthread_mutex_unlock(&conn->prov->udcm->lock);
}

/* Records whether the process has replied to the latest request. */
static void record_reply(struct vp_udcm_conn *conn, bool replied)
{
    struct process *process = find_process(conn->prov->udcm, &conn->peer);

    if (process)
        process->silent = !replied;
}

static void destroy_id(struct vp_cm_id *id)
{
    struct vp_udcm_conn *conn = id->udcm;
    struct vp_udcm *udcm = conn->prov->udcm;

    id->udcm = NULL;
    pthread_mutex_lock(&udcm->lock);
    conn->owner = NULL;
    if (conn->state == REQ_SENT)
        record_reply(conn, false);
    if (conn->state == ESTABLISHED)
        send_disconnect(conn);
    else if (conn->state == REQ_SENT || conn->state == REQ_RCVD || conn->state == REP_SENT ||
             conn->state == REP_RCVD)
        send_once(conn, REJ, VP_REJ_BUSY);
    if (conn->state != DREQ_SENT)
        retire_conn(conn);
    pthread_mutex_unlock(&udcm->lock);
}

static void set_owner(struct vp_cm_id *id)
{
    struct vp_udcm_conn *conn = id->udcm;

    pthread_mutex_lock(&conn->prov->udcm->lock);
    conn->owner = id;
    pthread_mutex_unlock(&conn->prov->udcm->lock);
}

static void fill_rtr_attr(const struct vp_udcm_conn *conn, struct ibv_qp_attr *attr)
{
    attr->path_mtu = (enum ibv_mtu)conn->mtu;
    attr->dest_qp_num = conn->peer_qpn;
    attr->rq_psn = conn->peer_psn;
    attr->max_dest_rd_atomic = conn->responder_resources;
    attr->min_rnr_timer = 0;
    vp_ud_path(conn->port, &conn->peer, &attr->ah_attr);
}

static int init_qp_attr(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    const struct vp_udcm_conn *conn = id->udcm;

    pthread_mutex_lock(&conn->prov->udcm->lock);
    int rc = conn->state == REQ_RCVD || conn->state == REP_RCVD ? 0 : -ECONNABORTED;
    pthread_mutex_unlock(&conn->prov->udcm->lock);
    *mask = IBV_QP_STATE;
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        attr->pkey_index = conn->port->pkey_index;
        attr->port_num = conn->port->num;
        *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return rc;
    case IBV_QPS_RTR:
        fill_rtr_attr(conn, attr);
        *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return rc;
    case IBV_QPS_RTS:
        attr->sq_psn = conn->psn;
        attr->max_rd_atomic = conn->initiator_depth;
        *mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                 IBV_QP_MAX_QP_RD_ATOMIC;
        return rc;
    default:
        return -EINVAL;
    }
}

/*** received messages ***/

/* Stores the parameters of the peer's queue pair. */
static void store_peer_qp(struct vp_udcm_conn *conn, const struct message *msg)
{
    conn->peer_qpn = msg->qpn;
    conn->peer_psn = msg->psn & PSN_MASK;
    conn->mtu = msg->mtu < conn->port->mtu ? msg->mtu : conn->port->mtu;
    conn->responder_resources = msg->initiator_depth;
    conn->initiator_depth = msg->responder_resources;
}

static bool fill_event(const struct vp_udcm_conn *conn, enum vp_cm_event_type what,
                       const struct message *msg, struct vp_cm_event *event)
{
    if (!conn->owner)
        return false;
    event->type = what;
    event->id = conn->owner;
    event->reject_reason = (enum vp_reject_reason)msg->reject_reason;
    event->ece = msg->ece;
    event->size = msg->size;
    memcpy(event->data, msg->data, msg->size);
    return true;
}

static bool handle_req(struct vp_prov *prov, struct vp_port *port, const struct message *msg,
                       struct vp_cm_event *event)
{
    struct vp_udcm *udcm = prov->udcm;
    struct vp_udcm_conn *conn = find_passive(udcm, msg);
    struct vp_ud_addr peer = sender_address(msg);

    if (conn) {
        conn->peer_copy_number = msg->copy_number;
        if (conn->state == REP_SENT)
            retransmit_last(conn, ut_clock_ms()); /* the REP was lost, or has not arrived yet */
        else if (conn->state == TIMEWAIT)
            send_once(conn, REJ, VP_REJ_BUSY);
        return false;
    }
    conn = create_conn(prov, port, &peer);
    if (!conn)
        return false;
    struct process *process = find_process(udcm, &peer);
    process->at.lid = peer.lid; /* the LID may differ from that in the address record */
    process->at.sl = peer.sl;
    conn->state = REQ_RCVD;
    conn->peer_number = msg->from;
    conn->peer_copy_number = msg->copy_number;
    store_peer_qp(conn, msg);
    ut_hash_insert(&udcm->passive, &conn->passive, passive_key(peer.qpn, conn->peer_number));
    *event = (struct vp_cm_event){
        .type = VP_CM_CONNECT_REQUEST,
        .port = port,
        .request_id = {.kind = VP_CM_ID_CONN, .ops = &vp_udcm_ops, .udcm = conn},
        .from = {.ud = true, .at = peer},
        .rsp_resources = conn->responder_resources,
        .init_depth = conn->initiator_depth,
        .ece = msg->ece,
        .size = msg->size};
    memcpy(event->data, msg->data, msg->size);
    return true;
}

static bool handle_rep(struct vp_port *port, struct vp_udcm_conn *conn, const struct message *msg,
                       struct vp_cm_event *event)
{
    if (!conn || conn->state >= CLOSED || (conn->peer_number && conn->peer_number != msg->from)) {
        reply_to_sender(port, msg, REJ);
        return false;
    }
    conn->peer_copy_number = msg->copy_number;
    if (conn->state == ESTABLISHED)
        send_once(conn, RTU, 0); /* the first RTU was lost */
    if (conn->state != REQ_SENT)
        return false;
    update_reply_time(conn->prov->udcm, conn, msg->echo);
    record_reply(conn, true);
    stop_retransmits(conn, REP_RCVD);
    conn->peer_number = msg->from;
    store_peer_qp(conn, msg);
    return fill_event(conn, VP_CM_CONNECT_RESPONSE, msg, event);
}

static bool handle_rtu(struct vp_udcm_conn *conn, const struct message *msg,
                       struct vp_cm_event *event)
{
    if (!conn || conn->state != REP_SENT)
        return false;
    update_reply_time(conn->prov->udcm, conn, msg->echo);
    stop_retransmits(conn, ESTABLISHED);
    return fill_event(conn, VP_CM_ESTABLISHED, msg, event);
}

static bool handle_rej(struct vp_udcm_conn *conn, const struct message *msg,
                       struct vp_cm_event *event)
{
    if (!conn || conn->state >= DREQ_SENT || conn->state == IDLE)
        return false;
    /* late: the peer has given up this request, but accepted a later copy of it */
    if (conn->peer_number && conn->peer_number != msg->from)
        return false;
    if (conn->state == REQ_SENT) {
        update_reply_time(conn->prov->udcm, conn, msg->echo);
        record_reply(conn, true);
    }
    stop_retransmits(conn, CLOSED);
    return fill_event(conn, VP_CM_REJECTED, msg, event);
}

static bool handle_dreq(struct vp_port *port, struct vp_udcm_conn *conn, const struct message *msg,
                        struct vp_cm_event *event)
{
    reply_to_sender(port, msg, DREP);
    if (!conn || conn->state >= CLOSED)
        return false;
    if (conn->state == DREQ_SENT) { /* the DREQs of both sides crossed */
        stop_retransmits(conn, CLOSED);
        if (!conn->owner)
            retire_conn(conn);
        return false;
    }
    stop_retransmits(conn, CLOSED);
    return fill_event(conn, VP_CM_DISCONNECTED, msg, event);
}

static void handle_drep(struct vp_udcm_conn *conn)
{
    if (!conn || conn->state != DREQ_SENT)
        return;
    stop_retransmits(conn, CLOSED);
    if (!conn->owner)
        retire_conn(conn);
}

/* The sender of the message exits: its connections are reported. */
static void handle_gone(struct vp_udcm *udcm, const struct message *msg)
{
    struct vp_ud_addr peer = sender_address(msg);
    struct process *process = find_process(udcm, &peer);

    if (!process || process->gone)
        return;
    process->gone = true;
    while (!vp_list_empty(&process->conns))
        vp_list_append(&udcm->due, process->conns.next);
}

/* Returns an event for the next connection whose peer is gone. */
static bool next_peer_gone_event(struct vp_udcm *udcm, struct vp_cm_event *event)
{
    static const struct message peer_dead = {.reject_reason = VP_REJ_DEAD};

    while (!vp_list_empty(&udcm->due)) {
        struct vp_udcm_conn *conn =
            vp_container_of(udcm->due.next, struct vp_udcm_conn, process_link);
        enum state was = conn->state;
        vp_list_remove(&conn->process_link);
        stop_retransmits(conn, CLOSED);
        if (was == TIMEWAIT || (was == DREQ_SENT && !conn->owner))
            free_conn(conn);
        else if (was != IDLE && was < DREQ_SENT &&
                 fill_event(conn, was == ESTABLISHED ? VP_CM_DISCONNECTED : VP_CM_REJECTED,
                            &peer_dead, event))
            return true;
    }
    return false;
}

static bool handle_message(struct vp_prov *prov, struct vp_port *port, const struct message *msg,
                           struct vp_cm_event *event)
{
    struct vp_udcm_conn *conn = msg->to ? find_by_number(prov->udcm, msg->to) : NULL;

    if (!msg->to && msg->kind == REJ) /* the origin gives up before a reply has reached it */
        conn = find_passive(prov->udcm, msg);
    if (conn && !is_from(conn, msg))
        conn = NULL;
    switch (msg->kind) {
    case REQ:
        return handle_req(prov, port, msg, event);
    case REP:
        return handle_rep(port, conn, msg, event);
    case RTU:
        return handle_rtu(conn, msg, event);
    case REJ:
        return handle_rej(conn, msg, event);
    case DREQ:
        return handle_dreq(port, conn, msg, event);
    case DREP:
        handle_drep(conn);
        return false;
    case GONE:
        handle_gone(prov->udcm, msg);
        return false;
    default:
        return false;
    }
}

static bool is_valid_message(const struct message *msg, size_t size)
{
    return size >= sizeof(*msg) && memcmp(msg->magic, magic, sizeof(magic)) == 0 &&
           msg->version == VERSION && msg->size <= MAX_DATA && msg->mtu <= IBV_MTU_4096 &&
           (msg->mtu >= IBV_MTU_256 || (msg->kind != REQ && msg->kind != REP));
}

/* Compares in constant time. */
static bool keys_are_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t differs = 0;

    for (int i = 0; i < VP_UD_KEY_BYTES; i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

static bool next_port_event(struct vp_prov *prov, struct vp_port *port, struct vp_cm_event *event)
{
    uint8_t data[VP_UD_MAX], sl = 0;
    struct message msg;
    size_t size;

    while ((size = vp_ud_recv(port, data, &sl))) {
        bool has_event;
        memcpy(&msg, data, sizeof(msg));
        msg.sl = sl;
        *event = (struct vp_cm_event){.port = port};
        if (!is_valid_message(&msg, size) || !keys_are_equal(msg.key, port->at.key)) {
            event->type = VP_CM_WRONG_KEY;
            return true;
        }
        pthread_mutex_lock(&prov->udcm->lock);
        has_event =
            handle_message(prov, port, &msg, event) || next_peer_gone_event(prov->udcm, event);
        pthread_mutex_unlock(&prov->udcm->lock);
        if (has_event)
            return true;
    }
    return false;
}

bool vp_udcm_next(struct vp_prov *prov, struct vp_cm_event *event)
{
    pthread_mutex_lock(&prov->udcm->lock);
    bool due = next_peer_gone_event(prov->udcm, event);
    pthread_mutex_unlock(&prov->udcm->lock);
    if (due)
        return true;
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].ud && next_port_event(prov, &prov->ports[i], event))
            return true;
    return false;
}

void vp_udcm_lid_changed(struct vp_prov *prov, struct vp_port *port, uint16_t lid)
{
    pthread_mutex_lock(&prov->udcm->lock);
    port->at.lid = lid;
    prov->udcm->lid_changes++;
    pthread_mutex_unlock(&prov->udcm->lock);
}

/*** retransmissions ***/

static void handle_timer(struct vp_udcm_conn *conn, uint64_t now)
{
    if (conn->state == TIMEWAIT) {
        free_conn(conn);
        return;
    }
    if (conn->state == DREQ_SENT && conn->sent >= MAX_DREQS) {
        stop_retransmits(conn, CLOSED);
        if (!conn->owner)
            retire_conn(conn);
        return;
    }
    retransmit_last(conn, now);
}

uint64_t vp_udcm_timers(struct vp_prov *prov, uint64_t now)
{
    struct vp_udcm *udcm = prov->udcm;
    struct vp_heap_node *due;

    pthread_mutex_lock(&udcm->lock);
    while ((due = vp_heap_due(&udcm->timers, now)))
        handle_timer(vp_container_of(due, struct vp_udcm_conn, timer),
                     now); /* also schedules the next retransmission */
    uint64_t next = vp_heap_next(&udcm->timers);
    pthread_mutex_unlock(&udcm->lock);
    return next;
}

int vp_udcm_open(struct vp_prov *prov)
{
    struct vp_udcm *udcm = calloc(1, sizeof(*udcm));

    if (!udcm)
        return -ENOMEM;
    pthread_mutex_init(&udcm->lock, NULL);
    vp_list_init(&udcm->due);
    if (getrandom(&udcm->last_number, sizeof(udcm->last_number), 0) < 0)
        udcm->last_number = 0;
    prov->udcm = udcm;
    return 0;
}

static void send_gone(const struct process *process, uint64_t end)
{
    struct message msg = make_message(process->port, &process->at, 0, GONE);
    uint32_t rounds = 0;

    while (!process->gone && !vp_ud_send(process->port, &process->at, &msg, sizeof(msg)) &&
           !vp_ud_sends_are_done(process->port) && ut_clock_ms() < end)
        ut_back_off_yielding(&rounds);
}

void vp_udcm_announce_exit(struct vp_prov *prov)
{
    struct vp_udcm *udcm = prov->udcm;
    uint64_t end = ut_clock_ms() + DRAIN_MS;
    const struct process *process;
    uint32_t rounds = 0;

    pthread_mutex_lock(&udcm->lock);
    for (int round = 0; round < GONE_COPIES; round++)
        UT_HASH_FOREACH_ALL (process, &udcm->processes, by_key)
            send_gone(process, end);
    pthread_mutex_unlock(&udcm->lock);
    for (unsigned int i = 0; i < prov->num_ports; i++)
        while (prov->ports[i].ud && !vp_ud_sends_are_done(&prov->ports[i]) && ut_clock_ms() < end)
            ut_back_off_yielding(&rounds);
}

void vp_udcm_close(struct vp_prov *prov)
{
    struct vp_udcm *udcm = prov->udcm;
    struct vp_udcm_conn *conn;
    struct process *process;

    if (!udcm)
        return;
    vp_udcm_announce_exit(prov);
    UT_HASH_FOREACH_ALL (conn, &udcm->by_number, by_number)
        free_conn(conn); /* also removes it from the tables */
    UT_HASH_FOREACH_ALL (process, &udcm->processes, by_key)
        free(process);
    ut_hash_free(&udcm->by_number);
    ut_hash_free(&udcm->passive);
    ut_hash_free(&udcm->processes);
    pthread_mutex_destroy(&udcm->lock);
    free(udcm);
    prov->udcm = NULL;
}

const struct vp_cm_ops vp_udcm_ops = {
    .name = "ud",
    .reports_peer_death = false,
    .resolve_addr = resolve_addr,
    .connect = send_request,
    .accept = send_reply,
    .establish = establish_conn,
    .reject = reject_request,
    .disconnect = disconnect,
    .destroy = destroy_id,
    .init_qp_attr = init_qp_attr,
    .set_owner = set_owner,
};
