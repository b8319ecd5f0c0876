/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts with an RDMA adapter each, for two processes in one: replaces librdmacm and libibverbs.
 * The connection managers are as those of Linux (drivers/infiniband/core/cm.c, cma.c and ucma.c),
 * but they repeat nothing by themselves: host_resend() does. The program delivers their messages
 * (host_deliver()) and the requests of queue pairs (host_carry()), and decides what fails: it
 * defines host_may_fail() and host_enter().
 */
#ifndef UT_TEST_RDMA_HOSTS_H
#define UT_TEST_RDMA_HOSTS_H

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "walk.h"

enum {
    HOSTS = 2,
    MAX_IDS = 48, /* of both hosts at a time */
    MAX_QPS = 32,
    MAX_FLIGHT = 48,
    MAX_EVENTS = 32, /* of a queue */
    MAX_POSTED = 16, /* requests of a queue pair */
    MAX_RECEIVES = 64,
    MAX_FDS = 64,
    REQ_BYTES = 56,
    FIRST_PORT = 1000,
};

/* enum ib_cm_rej_reason */
enum { REJ_TIMEOUT = 4, REJ_NO_LISTENER = 8, REJ_STALE = 10, REJ_CONSUMER = 28 };

/* The states of drivers/infiniband/core/cma.c before a request, and those of cm.c. */
enum id_state {
    ID_IDLE,
    ID_BOUND, /* its address is resolved */
    ID_ROUTED,
    ID_REQ_SENT,
    ID_REQ_RCVD,
    ID_REP_SENT,
    ID_REP_RCVD,
    ID_UP,
    ID_DREQ_SENT,
    ID_DREQ_RCVD,
    ID_TIMEWAIT,
};

enum msg_kind { MSG_REQ = 1, MSG_REP, MSG_RTU, MSG_REJ, MSG_DREQ, MSG_DREP };

struct cm_msg {
    enum msg_kind kind;
    int to;                  /* the host */
    uint32_t from_id, to_id; /* numbers of ids; 0: unknown */
    uint32_t qpn;            /* REQ and REP: of the sender; DREQ: of the target */
    int reason;              /* of a REJ */
    bool rejects_req;        /* the REJ is for a REQ */
    uint8_t size, data[REQ_BYTES];
};

struct host_id {
    struct rdma_cm_id id;
    bool exists;
    int host;
    enum id_state state;
    uint32_t number, peer_number;
    uint32_t qpn, peer_qpn;
    bool has_user;     /* its user gets its events: ucma.c, ucma_event_handler() */
    bool disconnected; /* no more events: RDMA_CM_DISCONNECT */
    unsigned int unacknowledged;
    struct cm_msg sent; /* what is repeated in this state; kind 0: nothing */
    uint64_t lost_ms;   /* since when it is not under way; 0: it is */
};

struct receives {
    uint64_t wr_ids[MAX_RECEIVES];
    uint8_t *buffers[MAX_RECEIVES];
    unsigned int num;
};

struct posted {
    uint64_t wr_id;
    bool is_send, has_imm, is_signalled, is_solicited;
    uint32_t imm, size;
    uint8_t data[8];
};

struct host_qp {
    struct ibv_qp qp;
    bool exists;
    int host;
    enum ibv_qp_state state;
    uint32_t peer_qpn;
    struct receives receives; /* without a shared receive queue */
    struct posted posted[MAX_POSTED];
    unsigned int num_posted;
    uint64_t stuck_ms; /* since when its first request cannot arrive; 0: it can, or there is none */
};

struct host_cq {
    struct ibv_cq cq;
    struct ibv_wc wcs[MAX_EVENTS];
    unsigned int num;
    bool armed, for_all;
    unsigned int unacknowledged;
};

struct host {
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_pd pd;
    struct ibv_comp_channel comp;
    struct rdma_event_channel channel;
    struct rdma_cm_id listener;
    bool listens;
    struct rdma_cm_event events[MAX_EVENTS];
    uint8_t event_data[MAX_EVENTS][REQ_BYTES];
    unsigned int num_events;
    struct host_cq *notified[2];
    unsigned int num_notified;
    struct ibv_async_event async[MAX_EVENTS];
    unsigned int num_async;
    struct receives shared; /* of the shared receive queue */
    unsigned int num_cqs, num_srqs, num_mrs;
    bool reports_last; /* raises IBV_EVENT_QP_LAST_WQE_REACHED */
};

static struct host hosts[HOSTS];
static struct host_id ids[MAX_IDS];
static struct host_qp qps[MAX_QPS];
static struct cm_msg flight[MAX_FLIGHT];
static unsigned int num_flight;
static uint32_t last_id, last_qpn;
static uint64_t host_now_ms;

/* What a call that may fail lacks. */
enum host_call { CALL_CREATE_ID, CALL_CREATE_QP, CALL_MODIFY_QP, CALL_RESOLVE };

/* Returns the error of the call, which the process of the host makes; 0: none. */
static int host_may_fail(int host, enum host_call call);
/* The call of a process does not hold a lock: the rest of it may run here. */
static void host_enter(int host);

static int host_of(const struct ibv_context *context)
{
    return context == &hosts[0].context ? 0 : 1;
}

static bool fd_is_readable[MAX_FDS];

static void set_fd(int fd, bool readable)
{
    eventfd_t value;

    if (fd_is_readable[fd] == readable)
        return;
    fd_is_readable[fd] = readable;
    if (readable)
        eventfd_write(fd, 1);
    else
        eventfd_read(fd, &value);
}

static int new_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    WALK_CHECK(fd >= 0 && fd < MAX_FDS);
    fd_is_readable[fd] = false;
    return fd;
}

/*** events of the connection manager ***/

static struct host_id *host_id_of(struct rdma_cm_id *id)
{
    struct host_id *at = (struct host_id *)(void *)id;

    WALK_CHECK(at >= ids && at < ids + MAX_IDS && at->exists);
    return at;
}

static void put_event(struct host_id *at, enum rdma_cm_event_type type, int status,
                      const void *data, uint8_t size)
{
    struct host *host = &hosts[at->host];
    unsigned int i = host->num_events++;

    WALK_CHECK(i < MAX_EVENTS && size <= REQ_BYTES);
    host->events[i] = (struct rdma_cm_event){.id = &at->id, .event = type, .status = status};
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        host->events[i].listen_id = &host->listener;
    if (size)
        memcpy(host->event_data[i], data, size);
    host->events[i].param.conn.private_data_len = size;
    set_fd(host->channel.fd, true);
}

/* cma_ib_handler() and ucma_event_handler(). */
static void tell_user(struct host_id *at, enum rdma_cm_event_type type, int status,
                      const struct cm_msg *msg)
{
    if (at->disconnected)
        return;
    at->disconnected = type == RDMA_CM_EVENT_DISCONNECTED;
    if (at->has_user)
        put_event(at, type, status, msg ? msg->data : NULL, msg ? msg->size : 0);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    static struct rdma_cm_event taken;
    static uint8_t data[REQ_BYTES];
    struct host *host = channel == &hosts[0].channel ? &hosts[0] : &hosts[1];

    if (host->num_events == 0) {
        errno = EAGAIN;
        return -1;
    }
    taken = host->events[0];
    memcpy(data, host->event_data[0], sizeof(data));
    taken.param.conn.private_data = taken.param.conn.private_data_len ? data : NULL;
    host->num_events--;
    memmove(host->events, host->events + 1, host->num_events * sizeof(host->events[0]));
    memmove(host->event_data, host->event_data + 1, host->num_events * sizeof(host->event_data[0]));
    set_fd(channel->fd, host->num_events > 0);
    host_id_of(taken.id)->unacknowledged++;
    *event = &taken;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    host_id_of(event->id)->unacknowledged--;
    return 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    return NULL; /* the program has it */
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    (void)channel;
}

/*** messages ***/

static struct cm_msg *send_msg(const struct host_id *from, enum msg_kind kind)
{
    struct cm_msg *msg = &flight[num_flight++];

    WALK_CHECK(num_flight <= MAX_FLIGHT);
    *msg = (struct cm_msg){
        .kind = kind, .to = !from->host, .from_id = from->number, .to_id = from->peer_number};
    return msg;
}

static void reply_to(const struct cm_msg *msg, enum msg_kind kind, int reason)
{
    struct cm_msg *reply = &flight[num_flight++];

    WALK_CHECK(num_flight <= MAX_FLIGHT);
    *reply = (struct cm_msg){.kind = kind,
                             .to = !msg->to,
                             .from_id = msg->to_id,
                             .to_id = msg->from_id,
                             .reason = reason,
                             .rejects_req = kind == MSG_REJ};
}

static void enter_state(struct host_id *at, enum id_state state)
{
    at->state = state;
    at->sent.kind = 0;
    at->lost_ms = 0;
}

/* Sends what is repeated until an answer comes. */
static void send_repeatedly(struct host_id *at, enum msg_kind kind, enum id_state state,
                            const struct rdma_conn_param *param)
{
    struct cm_msg *msg = send_msg(at, kind);

    enter_state(at, state);
    msg->qpn = kind == MSG_DREQ ? at->peer_qpn : at->qpn;
    if (param) {
        WALK_CHECK(param->private_data_len <= REQ_BYTES);
        msg->size = param->private_data_len;
        memcpy(msg->data, param->private_data, msg->size);
    }
    at->sent = *msg;
}

static void send_rej(struct host_id *at, int reason, const void *data, uint8_t size)
{
    struct cm_msg *msg = send_msg(at, MSG_REJ);

    msg->reason = reason;
    msg->rejects_req = at->state == ID_REQ_RCVD;
    msg->size = size;
    if (size)
        memcpy(msg->data, data, size);
    enter_state(at, at->state == ID_REP_SENT ? ID_TIMEWAIT : ID_IDLE);
}

static bool is_known(const struct host_id *at)
{
    return at->exists && at->state >= ID_REQ_RCVD && at->state < ID_TIMEWAIT;
}

static struct host_id *find_id(int host, uint32_t number, uint32_t peer_number)
{
    for (unsigned int i = 0; i < MAX_IDS; i++)
        if (ids[i].exists && ids[i].host == host && ids[i].number == number &&
            ids[i].peer_number == peer_number)
            return &ids[i];
    return NULL;
}

static struct host_id *find_by_peer(int host, uint32_t peer_number, uint32_t peer_qpn)
{
    for (unsigned int i = 0; i < MAX_IDS; i++)
        if (ids[i].host == host && is_known(&ids[i]) &&
            (peer_number ? ids[i].peer_number == peer_number : ids[i].peer_qpn == peer_qpn))
            return &ids[i];
    return NULL;
}

static struct host_id *new_id(int host, void *context)
{
    for (unsigned int i = 0; i < MAX_IDS; i++) {
        struct host_id *at = &ids[i];
        if (at->exists)
            continue;
        *at = (struct host_id){.exists = true, .host = host, .number = ++last_id};
        at->id.verbs = &hosts[host].context;
        at->id.channel = &hosts[host].channel;
        at->id.context = context;
        at->id.port_num = 1;
        at->id.route.addr.dst_sin = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001u + (unsigned int)!host)};
        return at;
    }
    WALK_CHECK(!"there are at most MAX_IDS ids");
    abort();
}

/* cm_req_handler() and cm_match_req(). */
static void take_req(const struct cm_msg *msg)
{
    struct host_id *stale;

    if (find_by_peer(msg->to, msg->from_id, 0))
        return; /* a copy */
    stale = find_by_peer(msg->to, 0, msg->qpn);
    if (stale) {
        reply_to(msg, MSG_REJ, REJ_STALE);
        if (stale->state == ID_UP)
            send_repeatedly(stale, MSG_DREQ, ID_DREQ_SENT, NULL);
        return;
    }
    if (!hosts[msg->to].listens) {
        reply_to(msg, MSG_REJ, REJ_NO_LISTENER);
        return;
    }
    struct host_id *at = new_id(msg->to, hosts[msg->to].listener.context);
    enter_state(at, ID_REQ_RCVD);
    at->peer_number = msg->from_id;
    at->peer_qpn = msg->qpn;
    put_event(at, RDMA_CM_EVENT_CONNECT_REQUEST, 0, msg->data, msg->size);
}

/* cm_rep_handler() and cm_dup_rep_handler(). */
static void take_rep(const struct cm_msg *msg)
{
    struct host_id *at = find_id(msg->to, msg->to_id, 0);

    if (at && at->state == ID_REQ_SENT) {
        enter_state(at, ID_REP_RCVD);
        at->peer_number = msg->from_id;
        at->peer_qpn = msg->qpn;
        tell_user(at, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, msg);
        return;
    }
    at = find_id(msg->to, msg->to_id, msg->from_id);
    if (at && at->state == ID_UP)
        send_msg(at, MSG_RTU);
}

static void take_rtu(const struct cm_msg *msg)
{
    struct host_id *at = find_id(msg->to, msg->to_id, msg->from_id);

    if (!at || at->state != ID_REP_SENT)
        return;
    enter_state(at, ID_UP);
    tell_user(at, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
}

/* cm_acquire_rejected_id() and cm_rej_handler(). */
static void take_rej(const struct cm_msg *msg)
{
    struct host_id *at = msg->reason == REJ_TIMEOUT ? find_by_peer(msg->to, msg->from_id, 0)
                         : msg->rejects_req         ? find_id(msg->to, msg->to_id, 0)
                                                    : find_id(msg->to, msg->to_id, msg->from_id);

    if (!at || at->state < ID_REQ_SENT || at->state == ID_DREQ_RCVD || at->state == ID_TIMEWAIT)
        return;
    bool forgets = at->state <= ID_REP_SENT && msg->reason != REJ_STALE;
    enter_state(at, forgets ? ID_IDLE : ID_TIMEWAIT);
    tell_user(at, RDMA_CM_EVENT_REJECTED, msg->reason, msg);
}

static void take_dreq(const struct cm_msg *msg)
{
    struct host_id *at = find_id(msg->to, msg->to_id, msg->from_id);

    if (!at || at->state == ID_TIMEWAIT) {
        reply_to(msg, MSG_DREP, 0);
    } else if (at->qpn == msg->qpn &&
               (at->state == ID_REP_SENT || at->state == ID_UP || at->state == ID_DREQ_SENT)) {
        enter_state(at, ID_DREQ_RCVD);
        tell_user(at, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    }
}

static void take_drep(const struct cm_msg *msg)
{
    struct host_id *at = find_id(msg->to, msg->to_id, msg->from_id);

    if (!at || (at->state != ID_DREQ_SENT && at->state != ID_DREQ_RCVD))
        return;
    enter_state(at, ID_TIMEWAIT);
    tell_user(at, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static void remove_msg(unsigned int i)
{
    num_flight--;
    memmove(&flight[i], &flight[i + 1], (num_flight - i) * sizeof(flight[0]));
}

static void host_deliver(unsigned int i, bool keep)
{
    const struct cm_msg msg = flight[i];

    if (!keep)
        remove_msg(i);
    switch (msg.kind) {
    case MSG_REQ:
        take_req(&msg);
        break;
    case MSG_REP:
        take_rep(&msg);
        break;
    case MSG_RTU:
        take_rtu(&msg);
        break;
    case MSG_REJ:
        take_rej(&msg);
        break;
    case MSG_DREQ:
        take_dreq(&msg);
        break;
    case MSG_DREP:
        take_drep(&msg);
        break;
    }
}

/* The id that would repeat the message. */
static struct host_id *sender_of(const struct cm_msg *msg)
{
    for (unsigned int i = 0; i < MAX_IDS; i++)
        if (ids[i].exists && ids[i].host != msg->to && ids[i].number == msg->from_id &&
            ids[i].sent.kind == msg->kind)
            return &ids[i];
    return NULL;
}

static void host_lose(unsigned int i)
{
    struct host_id *at = sender_of(&flight[i]);

    if (at)
        at->lost_ms = host_now_ms;
    remove_msg(i);
}

static void host_resend(struct host_id *at)
{
    WALK_CHECK(num_flight < MAX_FLIGHT);
    flight[num_flight++] = at->sent;
    at->lost_ms = 0;
}

/* cm_process_send_error(): nobody has answered the message for too long. */
static void host_give_up(struct host_id *at)
{
    if (at->state == ID_DREQ_SENT) {
        enter_state(at, ID_TIMEWAIT);
        tell_user(at, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT, NULL);
    } else {
        enter_state(at, ID_IDLE);
        tell_user(at, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
    }
}

/*** what users of ids call ***/

static int fail_call(int error)
{
    errno = error;
    return -1;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    int host = channel == &hosts[1].channel;
    int error = host_may_fail(host, CALL_CREATE_ID);

    (void)ps;
    host_enter(host);
    if (error)
        return fail_call(error);
    struct host_id *at = new_id(host, context);
    at->has_user = true;
    *id = &at->id;
    return 0;
}

/* cm_destroy_id(). An event that was taken and not acknowledged would block it for ever. */
static void destroy_id_of(struct host_id *at)
{
    struct host *host = &hosts[at->host];
    unsigned int kept = 0;

    WALK_CHECK(at->unacknowledged == 0);
    if (at->state == ID_REQ_SENT)
        send_rej(at, REJ_TIMEOUT, NULL, 0);
    else if (at->state == ID_REQ_RCVD || at->state == ID_REP_SENT || at->state == ID_REP_RCVD)
        send_rej(at, REJ_CONSUMER, NULL, 0);
    else if (at->state == ID_UP)
        send_repeatedly(at, MSG_DREQ, ID_DREQ_SENT, NULL);
    else if (at->state == ID_DREQ_RCVD)
        send_msg(at, MSG_DREP);
    for (unsigned int i = 0; i < host->num_events; i++) {
        if (host->events[i].id == &at->id)
            continue;
        host->events[kept] = host->events[i];
        memmove(host->event_data[kept++], host->event_data[i], sizeof(host->event_data[0]));
    }
    host->num_events = kept;
    set_fd(host->channel.fd, kept > 0);
    at->exists = false;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    destroy_id_of(at);
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                      int timeout_ms)
{
    struct host_id *at = host_id_of(id);
    const struct sockaddr_in *peer = (const struct sockaddr_in *)(const void *)to;
    int error = host_may_fail(at->host, CALL_RESOLVE);

    (void)from, (void)timeout_ms;
    host_enter(at->host);
    WALK_CHECK(at->state == ID_IDLE && peer->sin_port == htons(FIRST_PORT + !at->host));
    if (!error)
        at->state = ID_BOUND;
    tell_user(at, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -error, NULL);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    struct host_id *at = host_id_of(id);
    int error = host_may_fail(at->host, CALL_RESOLVE);

    (void)timeout_ms;
    host_enter(at->host);
    WALK_CHECK(at->state == ID_BOUND);
    if (!error)
        at->state = ID_ROUTED;
    tell_user(at, error ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED, -error, NULL);
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
    (void)id, (void)level, (void)option, (void)value, (void)size;
    return 0;
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    (void)id, (void)ece;
    return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    (void)id;
    memset(ece, 0, sizeof(*ece));
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    if (at->state != ID_ROUTED)
        return fail_call(EINVAL);
    at->qpn = param->qp_num;
    send_repeatedly(at, MSG_REQ, ID_REQ_SENT, param);
    return 0;
}

/* From now on its user gets the events: ucma_accept(). */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    if (at->state != ID_REQ_RCVD)
        return fail_call(EINVAL);
    at->qpn = param->qp_num;
    at->has_user = true;
    send_repeatedly(at, MSG_REP, ID_REP_SENT, param);
    return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    if (at->state != ID_REP_RCVD)
        return fail_call(EINVAL);
    enter_state(at, ID_UP);
    send_msg(at, MSG_RTU);
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    if (at->state < ID_REQ_SENT || at->state > ID_REP_RCVD)
        return fail_call(EINVAL);
    send_rej(at, REJ_CONSUMER, data, size);
    return 0;
}

/* Initiates or answers. */
int rdma_disconnect(struct rdma_cm_id *id)
{
    struct host_id *at = host_id_of(id);

    host_enter(at->host);
    if (at->state == ID_UP) {
        send_repeatedly(at, MSG_DREQ, ID_DREQ_SENT, NULL);
    } else if (at->state == ID_DREQ_RCVD) {
        send_msg(at, MSG_DREP);
        enter_state(at, ID_TIMEWAIT);
    }
    return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    struct host_id *at = host_id_of(id);
    bool knows_peer = at->state >= ID_REQ_RCVD && at->state <= ID_UP;

    host_enter(at->host);
    if (attr->qp_state == IBV_QPS_INIT ? !knows_peer && at->state != ID_REQ_SENT : !knows_peer)
        return fail_call(EINVAL);
    *mask = IBV_QP_STATE;
    if (attr->qp_state == IBV_QPS_RTR) {
        *mask |= IBV_QP_DEST_QPN | IBV_QP_PATH_MTU;
        attr->dest_qp_num = at->peer_qpn;
        attr->path_mtu = IBV_MTU_1024;
    }
    return 0;
}

/*** queues of the device ***/

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *owner,
                             struct ibv_comp_channel *channel, int vector)
{
    struct host_cq *cq = calloc(1, sizeof(*cq));

    (void)vector;
    if (!cq)
        return NULL;
    cq->cq =
        (struct ibv_cq){.context = context, .channel = channel, .cq_context = owner, .cqe = size};
    hosts[host_of(context)].num_cqs++;
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct host_cq *of = (struct host_cq *)(void *)cq;
    struct host *host = &hosts[host_of(cq->context)];

    WALK_CHECK(of->unacknowledged == 0);
    for (unsigned int i = 0; i < host->num_notified; i++)
        if (host->notified[i] == of)
            host->notified[i--] = host->notified[--host->num_notified];
    set_fd(host->comp.fd, host->num_notified > 0);
    host->num_cqs--;
    free(of);
    return 0;
}

int ibv_resize_cq(struct ibv_cq *cq, int size)
{
    cq->cqe = size;
    return 0;
}

static void complete_request(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited)
{
    struct host_cq *of = (struct host_cq *)(void *)cq;
    struct host *host = &hosts[host_of(cq->context)];

    WALK_CHECK(of->num < MAX_EVENTS);
    of->wcs[of->num++] = *wc;
    if (!of->armed || !(of->for_all || solicited || wc->status != IBV_WC_SUCCESS))
        return;
    of->armed = false;
    WALK_CHECK(host->num_notified < 2);
    host->notified[host->num_notified++] = of;
    set_fd(host->comp.fd, true);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner)
{
    struct host *host = &hosts[channel == &hosts[1].comp];

    if (host->num_notified == 0)
        return fail_call(EAGAIN);
    struct host_cq *of = host->notified[0];
    host->notified[0] = host->notified[--host->num_notified];
    set_fd(channel->fd, host->num_notified > 0);
    of->unacknowledged++;
    *cq = &of->cq;
    *owner = of->cq.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int number)
{
    ((struct host_cq *)(void *)cq)->unacknowledged -= number;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct host_cq *of = (struct host_cq *)(void *)cq;
    unsigned int n = of->num < (unsigned int)most ? of->num : (unsigned int)most;

    memcpy(wc, of->wcs, n * sizeof(*wc));
    of->num -= n;
    memmove(of->wcs, of->wcs + n, of->num * sizeof(*wc));
    return (int)n;
}

static int arm_cq(struct ibv_cq *cq, int solicited_only)
{
    struct host_cq *of = (struct host_cq *)(void *)cq;

    of->for_all = (of->armed && of->for_all) || !solicited_only;
    of->armed = true;
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq *srq = calloc(1, sizeof(*srq));

    if (!srq)
        return NULL;
    *srq = (struct ibv_srq){.context = pd->context, .srq_context = attr->srq_context, .pd = pd};
    hosts[host_of(pd->context)].num_srqs++;
    return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct host *host = &hosts[host_of(srq->context)];

    host->num_srqs--;
    host->shared.num = 0;
    free(srq);
    return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    (void)srq, (void)attr, (void)mask;
    return 0;
}

static void add_receives(struct receives *to, const struct ibv_recv_wr *wr)
{
    for (; wr; wr = wr->next) {
        WALK_CHECK(to->num < MAX_RECEIVES);
        to->wr_ids[to->num] = wr->wr_id;
        to->buffers[to->num++] = (uint8_t *)(uintptr_t)wr->sg_list->addr;
    }
}

static uint64_t take_receive(struct receives *from, uint8_t **buffer)
{
    uint64_t wr_id = from->wr_ids[0];

    WALK_CHECK(from->num > 0);
    *buffer = from->buffers[0];
    from->num--;
    memmove(from->wr_ids, from->wr_ids + 1, from->num * sizeof(from->wr_ids[0]));
    memmove(from->buffers, from->buffers + 1, from->num * sizeof(from->buffers[0]));
    return wr_id;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)bad;
    add_receives(&hosts[host_of(srq->context)].shared, wr);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t size, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));

    (void)access;
    if (!mr)
        return NULL;
    *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = size};
    hosts[host_of(pd->context)].num_mrs++;
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t size, uint64_t iova,
                                unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(pd, addr, size, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    hosts[host_of(mr->context)].num_mrs--;
    free(mr);
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    (void)context, (void)port;
    ((struct ibv_port_attr *)attr)->state = IBV_PORT_ACTIVE;
    return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct host *host = &hosts[host_of(context)];

    if (host->num_async == 0)
        return fail_call(EAGAIN);
    *event = host->async[0];
    memmove(host->async, host->async + 1, --host->num_async * sizeof(*event));
    set_fd(context->async_fd, host->num_async > 0);
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/*** queue pairs ***/

static struct host_qp *host_qp_of(struct ibv_qp *qp)
{
    struct host_qp *at = (struct host_qp *)(void *)qp;

    WALK_CHECK(at >= qps && at < qps + MAX_QPS && at->exists);
    return at;
}

static struct host_qp *find_qp(uint32_t qpn)
{
    for (unsigned int i = 0; i < MAX_QPS; i++)
        if (qps[i].exists && qps[i].qp.qp_num == qpn)
            return &qps[i];
    return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int host = host_of(pd->context), error = host_may_fail(host, CALL_CREATE_QP);

    host_enter(host);
    if (error) {
        errno = error;
        return NULL;
    }
    for (unsigned int i = 0; i < MAX_QPS; i++) {
        if (qps[i].exists)
            continue;
        qps[i] = (struct host_qp){.exists = true, .host = host};
        qps[i].qp = (struct ibv_qp){.context = pd->context,
                                    .qp_context = attr->qp_context,
                                    .pd = pd,
                                    .send_cq = attr->send_cq,
                                    .recv_cq = attr->recv_cq,
                                    .srq = attr->srq,
                                    .qp_num = ++last_qpn};
        return &qps[i].qp;
    }
    WALK_CHECK(!"there are at most MAX_QPS queue pairs");
    abort();
}

static void end_first(struct host_qp *at, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {
        .wr_id = at->posted[0].wr_id, .status = status, .qp_num = at->qp.qp_num};

    if (status != IBV_WC_SUCCESS || at->posted[0].is_signalled)
        complete_request(at->qp.send_cq, &wc, false);
    memmove(at->posted, at->posted + 1, --at->num_posted * sizeof(at->posted[0]));
    at->stuck_ms = 0;
}

static void put_async(struct host_qp *at, enum ibv_event_type type)
{
    struct host *host = &hosts[at->host];

    WALK_CHECK(host->num_async < MAX_EVENTS);
    host->async[host->num_async++] =
        (struct ibv_async_event){.element.qp = &at->qp, .event_type = type};
    set_fd(host->context.async_fd, true);
}

static void flush_receives(struct host_qp *at)
{
    uint8_t *buffer;

    while (at->receives.num > 0) {
        struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = at->qp.qp_num};
        wc.wr_id = take_receive(&at->receives, &buffer);
        complete_request(at->qp.recv_cq, &wc, false);
    }
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct host_qp *at = host_qp_of(qp);

    (void)bad;
    add_receives(&at->receives, wr);
    if (at->state == IBV_QPS_ERR)
        flush_receives(at);
    return 0;
}

/* Goes to the error state, and flushes its requests and receives. */
static void break_qp(struct host_qp *at)
{
    if (hosts[at->host].reports_last && (at->state == IBV_QPS_RTR || at->state == IBV_QPS_RTS))
        put_async(at, IBV_EVENT_QP_LAST_WQE_REACHED);
    at->state = IBV_QPS_ERR;
    while (at->num_posted > 0)
        end_first(at, IBV_WC_WR_FLUSH_ERR);
    flush_receives(at);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct host_qp *at = host_qp_of(qp);

    if (attr->qp_state == IBV_QPS_ERR) {
        break_qp(at);
        return 0;
    }
    int error = host_may_fail(at->host, CALL_MODIFY_QP);
    host_enter(at->host);
    if (error)
        return error;
    if (mask & IBV_QP_DEST_QPN)
        at->peer_qpn = attr->dest_qp_num;
    if (at->state != IBV_QPS_ERR)
        at->state = attr->qp_state;
    return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    (void)mask, (void)init;
    attr->qp_state = host_qp_of(qp)->state;
    return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct host_qp *at = host_qp_of(qp);
    struct host *host = &hosts[at->host];
    struct ibv_cq *cqs[] = {qp->send_cq, qp->recv_cq};

    host_enter(at->host);
    for (int k = 0; k < 2; k++) {
        struct host_cq *cq = (struct host_cq *)(void *)cqs[k];
        unsigned int kept = 0;
        for (unsigned int i = 0; i < cq->num; i++)
            if (cq->wcs[i].qp_num != qp->qp_num)
                cq->wcs[kept++] = cq->wcs[i];
        cq->num = kept;
    }
    for (unsigned int i = 0; i < host->num_async; i++)
        if (host->async[i].element.qp == qp)
            host->async[i--] = host->async[--host->num_async];
    set_fd(host->context.async_fd, host->num_async > 0);
    at->exists = false;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct host_qp *at = host_qp_of(qp);

    (void)bad;
    for (; wr; wr = wr->next) {
        struct posted *new = &at->posted[at->num_posted++];
        WALK_CHECK(at->num_posted <= MAX_POSTED && at->state >= IBV_QPS_RTS);
        *new = (struct posted){.wr_id = wr->wr_id,
                               .is_send =
                                   wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM,
                               .has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM,
                               .is_signalled = (wr->send_flags & IBV_SEND_SIGNALED) != 0,
                               .is_solicited = (wr->send_flags & IBV_SEND_SOLICITED) != 0,
                               .imm = wr->imm_data,
                               .size = wr->num_sge ? wr->sg_list->length : 0};
        WALK_CHECK(new->size <= sizeof(new->data));
        if (new->size)
            memcpy(new->data, (const void *)(uintptr_t)wr->sg_list->addr, new->size);
        if (at->state == IBV_QPS_ERR)
            break_qp(at);
    }
    return 0;
}

/* The queue pair that the first request of this one reaches; NULL: none. */
static struct host_qp *reached_qp(const struct host_qp *at)
{
    struct host_qp *peer = find_qp(at->peer_qpn);

    return peer && peer->host != at->host && peer->peer_qpn == at->qp.qp_num &&
                   (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS)
               ? peer
               : NULL;
}

/* The first request of the queue pair arrives, and is acknowledged. */
static void host_carry(struct host_qp *at)
{
    const struct posted first = at->posted[0];
    struct host_qp *peer = reached_qp(at);
    struct host *host = &hosts[peer->host];

    if (first.is_send) {
        uint8_t *buffer;
        struct ibv_wc wc = {.opcode = IBV_WC_RECV,
                            .byte_len = first.size,
                            .qp_num = peer->qp.qp_num,
                            .wc_flags = first.has_imm ? IBV_WC_WITH_IMM : 0,
                            .imm_data = first.imm};
        wc.wr_id = take_receive(peer->qp.srq ? &host->shared : &peer->receives, &buffer);
        memcpy(buffer, first.data, first.size);
        complete_request(peer->qp.recv_cq, &wc, first.is_solicited);
    }
    end_first(at, IBV_WC_SUCCESS);
}

/* Nobody acknowledges the first request. */
static void host_exceed_retries(struct host_qp *at)
{
    end_first(at, IBV_WC_RETRY_EXC_ERR);
    break_qp(at);
}

/* The adapter reports an error of the queue pair. */
static void host_break(struct host_qp *at)
{
    break_qp(at);
    put_async(at, IBV_EVENT_QP_FATAL);
}

/*** hosts ***/

static void host_open(int number)
{
    struct host *host = &hosts[number];

    memset(host, 0, sizeof(*host));
    strcpy(host->device.name, number ? "fake1" : "fake0");
    host->context.device = &host->device;
    host->context.async_fd = new_fd();
    host->context.cmd_fd = -1;
    host->context.num_comp_vectors = 1;
    host->context.ops.post_srq_recv = post_srq_recv;
    host->context.ops.post_recv = post_recv;
    host->context.ops.post_send = post_send;
    host->context.ops.poll_cq = poll_cq;
    host->context.ops.req_notify_cq = arm_cq;
    host->pd.context = &host->context;
    host->comp.context = &host->context;
    host->comp.fd = new_fd();
    host->channel.fd = new_fd();
    host->listener =
        (struct rdma_cm_id){.verbs = &host->context, .channel = &host->channel, .port_num = 1};
    host->listens = true;
}

/* The kernel closes what the process of the host had. */
static void host_kill(int number)
{
    hosts[number].listens = false;
    for (unsigned int i = 0; i < MAX_QPS; i++)
        if (qps[i].exists && qps[i].host == number)
            break_qp(&qps[i]);
    for (unsigned int i = 0; i < MAX_IDS; i++) {
        if (!ids[i].exists || ids[i].host != number)
            continue;
        ids[i].unacknowledged = 0;
        destroy_id_of(&ids[i]);
        ids[i].exists = true; /* the dead process may still refer to it */
        enter_state(&ids[i], ID_IDLE);
        ids[i].peer_number = ids[i].peer_qpn = 0;
        ids[i].number = 0;
    }
}

static void host_close(int number)
{
    struct host *host = &hosts[number];

    close(host->context.async_fd);
    close(host->comp.fd);
    close(host->channel.fd);
}

#endif
