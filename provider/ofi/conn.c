/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the handshake over the control endpoint, acknowledged operations, and the end. */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "names.h"
#include "pool.h"
#include "peer.h"
#include "rma.h"
#include "auth.h"
#include "send.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/back_off.h"
#include "event.h"

enum {
    INDEX_BITS = 20,
    MAX_CONNS = 1 << INDEX_BITS,
    FIRST_CONNS = 16,
    EXIT_GRACE_MS = 20, /* time for the last messages of a process that has ended to arrive */
};

/*
 * Connection ids
 */

static bool grow_conns(struct fp_ep *ep)
{
    uint32_t room = ep->conns_size ? 2 * ep->conns_size : FIRST_CONNS;
    struct fp_conn **more = room > MAX_CONNS ? NULL : realloc(ep->conns, room * sizeof(*more));

    if (!more)
        return false;
    memset(more + ep->conns_size, 0, (room - ep->conns_size) * sizeof(*more));
    ep->conns = more;
    ep->conns_size = room;
    return true;
}

/* Late messages for an endpoint must not reach a connection of the next endpoint with its id, so
 * the generations are those of the process. */
static uint32_t next_generation(struct fp_prov *prov)
{
    uint32_t generation;

    do
        generation = __atomic_add_fetch(&prov->last_generation, 1, __ATOMIC_RELAXED) &
                     (UINT32_MAX >> INDEX_BITS);
    while (generation == 0); /* no id is 0 */
    return generation;
}

static bool assign_id(struct fp_ep *ep, struct fp_conn *conn)
{
    uint32_t at = 0;

    if (ep->num_conns == ep->conns_size && !grow_conns(ep))
        return false;
    while (ep->conns[at])
        at++;
    ep->conns[at] = conn;
    ep->num_conns++;
    conn->id = next_generation(ep->prov) << INDEX_BITS | at;
    return true;
}

struct fp_conn *fp_conn_find(struct fp_ep *ep, uint32_t id)
{
    uint32_t at = id & (MAX_CONNS - 1);
    struct fp_conn *conn = at < ep->conns_size ? ep->conns[at] : NULL;

    return conn && conn->id == id ? conn : NULL;
}

static struct fp_conn *conn_new(struct fp_ep *ep, struct fp_peer *peer, uint64_t peer_id,
                                enum fp_state state)
{
    struct fp_conn *conn = calloc(1, sizeof(*conn));

    if (!conn || !fp_random(conn->nonce, sizeof(conn->nonce)) || !assign_id(ep, conn)) {
        ut_error(FP_CAT, "no memory, or no random numbers, for a connection");
        free(conn);
        return NULL;
    }
    conn->ep = ep;
    conn->peer = peer;
    conn->peer_id = peer_id;
    conn->is_self = peer_id == ep->attr.id &&
                    memcmp(&peer->address, &ep->prov->address, sizeof(peer->address)) == 0;
    conn->state = state;
    conn->timeouts = __atomic_load_n(&peer->timeouts, __ATOMIC_RELAXED);
    conn->last = &conn->first;
    STAILQ_INIT(&conn->rma_reads);
    fp_peer_add_conn(peer);
    return conn;
}

static void set_hello(struct fp_hello *hello, const void *bytes, size_t size)
{
    hello->size = (uint8_t)(size < PROV_PRIVATE_DATA_MAX ? size : PROV_PRIVATE_DATA_MAX);
    memcpy(hello->bytes, bytes, hello->size);
}

/*
 * Control messages
 */

static void send_ctrl(struct fp_conn *conn, enum fp_ctrl_kind kind, bool with_hello)
{
    struct fp_ep *ep = conn->ep;
    struct fp_ctrl_msg msg = {.kind = (uint8_t)kind,
                              .from_conn = conn->id,
                              .to_conn = conn->rmt_id,
                              .from_id = ep->attr.id,
                              .to_id = conn->peer_id};

    if (kind == FP_CONN_CLOSE || kind == FP_CONN_BROKEN) {
        msg.executed = conn->executed;
        msg.refused = conn->lcl_refused_seq;
        msg.refusal = conn->lcl_refusal;
    }
    if (with_hello) {
        msg.hello_size = conn->hello.size;
        memcpy(msg.hello, conn->hello.bytes, conn->hello.size);
        msg.name_size = ep->name_size;
        memcpy(msg.name, ep->name, ep->name_size);
        memcpy(msg.nonce, conn->nonce, sizeof(msg.nonce));
    }
    fp_control_send(conn->peer, &msg);
    ep->ctrl_poll_after = FP_CTRL_POLL_SOON;
}

static bool set_peer_address(struct fp_conn *conn, const struct fp_ctrl_msg *msg)
{
    uint8_t name[FP_NAME_MAX] = {0};

    memcpy(name, msg->name, msg->name_size);
    conn->rmt_id = msg->from_conn;
    memcpy(conn->rmt_nonce, msg->nonce, sizeof(conn->rmt_nonce));
    conn->name = msg->name_size > 0 ? fp_name_get(conn->ep, name) : NULL;
    if (!conn->name)
        return false;
    conn->at = conn->name->at;
    return true;
}

/* A fabric loses messages when the connection breaks over which it has sent them: those of the
 * handshake are repeated until the peer replies. */
void fp_conn_repeat_handshake(struct fp_conn *conn)
{
    if (conn->state == FP_REQUESTED)
        send_ctrl(conn, FP_CONN_REQUEST, true);
    if (conn->state == FP_ACCEPTED)
        send_ctrl(conn, FP_CONN_ACCEPT, true);
}

/* True for a repeated connection request. */
static bool is_duplicate(const struct fp_ep *ep, const struct fp_peer *peer,
                         const struct fp_ctrl_msg *msg)
{
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        const struct fp_conn *conn = ep->conns[i];
        if (conn && conn->peer == peer && conn->peer_id == msg->from_id &&
            conn->rmt_id == msg->from_conn && conn->state != FP_REQUESTED)
            return true;
    }
    return false;
}

static int handle_request(struct fp_ep *ep, struct fp_peer *peer, const struct fp_ctrl_msg *msg)
{
    /* nothing would wake the owner for a connection to a process whose end is known already */
    if (is_duplicate(ep, peer, msg) || fp_peer_is_dead(peer))
        return 0;
    struct fp_conn *conn = ep->is_closing ? NULL : conn_new(ep, peer, msg->from_id, FP_INCOMING);

    if (!conn || !set_peer_address(conn, msg)) {
        fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_NO_ENDPOINT,
                                                    .to_conn = msg->from_conn,
                                                    .to_id = msg->from_id,
                                                    .from_id = msg->to_id});
        if (conn)
            fp_conn_finish(conn);
        return 0;
    }
    set_hello(&conn->rmt_hello, msg->hello, msg->hello_size);
    ep->attr.callbacks->request(ep->attr.owner, &ep->prov->base, (struct prov_conn *)conn,
                                conn->peer_id, conn->rmt_hello.bytes, conn->rmt_hello.size);
    return 1;
}

static int take_down(struct fp_conn *conn, enum prov_reason reason)
{
    const struct prov_callbacks *cb = fp_callbacks(conn);
    enum fp_state before = conn->state;
    int calls = fp_conn_report_done(conn);

    if (conn->state != before || before >= FP_DOWN)
        return calls; /* the callback has closed the connection */
    fp_send_drop_queued(conn);
    fp_rma_read_drop_all(conn);
    fp_reorder_clear(conn);
    /* the core does not know the connection yet, or any more */
    if (before == FP_INCOMING || before == FP_CLOSING) {
        fp_conn_finish(conn);
        return calls;
    }
    conn->state = FP_DOWN;
    while (conn->reported != conn->posted && conn->state == FP_DOWN) {
        struct fp_op *op = fp_op_at(conn, conn->reported++);
        cb->done(conn->ctx, op->cookie, op->status ? op->status : PROV_FLUSHED);
        calls++;
    }
    if (conn->state == FP_DOWN) {
        cb->down(conn->ctx, reason);
        calls++;
    }
    return calls;
}

static int handle_accept(struct fp_conn *conn, const struct fp_ctrl_msg *msg)
{
    struct fp_xfer start = {.head = {.kind = FP_START}};

    if (!set_peer_address(conn, msg))
        return take_down(conn, PROV_REASON_LOCAL);
    struct fp_secrets secrets = fp_derive_secrets(conn->peer->key, conn->nonce, conn->rmt_nonce);
    conn->secret_in = secrets.to_initiator;
    conn->secret_out = secrets.to_acceptor;
    if (fp_send(conn, &start.head, sizeof(start.head), NULL, 0) != 0)
        return take_down(conn, PROV_REASON_LOCAL);
    conn->state = FP_UP;
    set_hello(&conn->rmt_hello, msg->hello, msg->hello_size);
    fp_callbacks(conn)->up(conn->ctx, conn->rmt_hello.bytes, conn->rmt_hello.size);
    return 1;
}

/* True if the data of a read is missing: it may arrive after the peer's FP_CONN_CLOSE, which is
 * sent over the control endpoint. */
static bool awaits_read_data(struct fp_conn *conn)
{
    uint32_t n = conn->reported;

    return n != conn->sent && fp_op_at(conn, n)->kind == FP_READ &&
           (int32_t)(conn->acked - n) > 0 &&
           ut_now_ms() - conn->peer_closed_ms < UT_CLOSE_TIMEOUT_MS;
}

/* Applies the peer's final count of executed operations, and its refusal. */
static void apply_final_state(struct fp_conn *conn, const struct fp_ctrl_msg *msg)
{
    fp_conn_handle_ack(conn, msg->executed);
    if (!conn->rmt_refused)
        fp_conn_handle_refusal(conn, msg->refused - 1, msg->refusal);
}

static int handle_close(struct fp_conn *conn, const struct fp_ctrl_msg *msg)
{
    apply_final_state(conn, msg);
    conn->peer_closed = true;
    conn->peer_closed_ms = ut_now_ms();
    fp_mark_busy(conn);
    return fp_conn_report_done(conn) + fp_conn_check_down(conn);
}

/* Handles a control message for a connection that the peer knows, or that this side requested. */
static int handle_ctrl(struct fp_conn *conn, const struct fp_ctrl_msg *msg)
{
    switch ((enum fp_ctrl_kind)msg->kind) {
    case FP_CONN_ACCEPT:
        if (conn->state == FP_REQUESTED)
            return handle_accept(conn, msg);
        /* the peer waits for FP_START: if it was lost, a later message shows it */
        fp_ack_again(conn);
        return 0;
    case FP_CONN_REJECT:
        return conn->state == FP_REQUESTED ? take_down(conn, PROV_REASON_REJECTED) : 0;
    case FP_CONN_NO_ENDPOINT:
        return conn->state == FP_REQUESTED ? take_down(conn, PROV_REASON_NO_ENDPOINT) : 0;
    case FP_CONN_CLOSE:
        return handle_close(conn, msg);
    case FP_CONN_BROKEN:
        if (conn->state == FP_ACCEPTED)
            return take_down(conn, PROV_REASON_CLOSED);
        apply_final_state(conn, msg);
        conn->peer_broke = conn->broken = true;
        fp_reorder_clear(conn);
        fp_mark_busy(conn);
        return fp_conn_check_down(conn);
    default:
        return 0;
    }
}

int fp_conn_handle_ctrl(struct fp_ep *ep, struct fp_peer *peer, const struct fp_ctrl_msg *msg)
{
    struct fp_conn *conn = fp_conn_find(ep, msg->to_conn);

    if (msg->kind == FP_CONN_REQUEST)
        return handle_request(ep, peer, msg);
    if (conn && conn->peer == peer && conn->state < FP_DOWN)
        return handle_ctrl(conn, msg);
    if (msg->kind == FP_CONN_ACCEPT) /* the connection is no longer wanted */
        fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_BROKEN,
                                                    .to_conn = msg->from_conn,
                                                    .from_conn = msg->to_conn,
                                                    .to_id = msg->from_id,
                                                    .from_id = msg->to_id});
    return 0;
}

int fp_conn_handle_start(struct fp_conn *conn)
{
    if (conn->state != FP_ACCEPTED)
        return 0;
    conn->state = FP_UP;
    fp_callbacks(conn)->up(conn->ctx, conn->rmt_hello.bytes, conn->rmt_hello.size);
    return 1;
}

/*
 * Operations, and the end of connections
 */

/* True if this side waits for nothing and has sent all its messages. Closing an endpoint may lose
 * data in the queues of the fabric. */
static bool is_drained(const struct fp_conn *conn)
{
    return conn->reported == conn->posted && conn->first_served == conn->last_served &&
           conn->num_queued == 0 && conn->num_sending == 0;
}

/* True if all operations before the refused one have completed. */
static bool has_reached_refused(const struct fp_conn *conn)
{
    return conn->rmt_refused && conn->reported == conn->rmt_refused_op;
}

static bool has_ended(struct fp_conn *conn, uint32_t n)
{
    const struct fp_op *op = fp_op_at(conn, n);

    return op->ended || (op->kind != FP_READ && (int32_t)(conn->acked - n) > 0 && op->writes == 0);
}

void fp_conn_handle_ack(struct fp_conn *conn, uint32_t executed)
{
    if ((int32_t)(executed - conn->acked) > 0 && (int32_t)(conn->sent - executed) >= 0)
        conn->acked = executed;
}

bool fp_conn_handle_refusal(struct fp_conn *conn, uint32_t n, uint8_t status)
{
    struct fp_op *op = fp_op_at(conn, n);

    if (n - conn->reported >= conn->posted - conn->reported || op->ended || conn->rmt_refused ||
        status == PROV_OK || status > PROV_FAILED)
        return false;
    op->status = status;
    conn->rmt_refused = true;
    conn->rmt_refused_op = n;
    fp_mark_busy(conn);
    return true;
}

int fp_conn_report_done(struct fp_conn *conn)
{
    int calls = 0;

    while (conn->reported != conn->sent && has_ended(conn, conn->reported) &&
           !has_reached_refused(conn)) {
        struct fp_op *op = fp_op_at(conn, conn->reported++);
        if (conn->state != FP_UP)
            continue;
        fp_callbacks(conn)->done(conn->ctx, op->cookie, op->status);
        calls++;
    }
    if (conn->state == FP_CLOSING && is_drained(conn))
        fp_conn_finish(conn);
    return calls;
}

int fp_conn_check_peer(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (fp_peer_is_dead(conn->peer)) {
        conn->peer_died = true;
        fp_mark_busy(conn);
    }
    if (__atomic_load_n(&conn->peer->timeouts, __ATOMIC_RELAXED) != conn->timeouts)
        return take_down(conn, PROV_REASON_SILENT);
    return fp_conn_check_down(conn);
}

/* True if a write in flight may be stored after a write of the next connection: on a fabric that
 * does not order writes. */
static bool may_land_late(const struct fp_conn *conn)
{
    return conn->num_rma_writes > 0 && !conn->ep->prov->keeps_order;
}

/* True if the peer has ended, and its last messages have had time to arrive. */
static bool is_past_grace_period(const struct fp_conn *conn)
{
    return conn->peer_died && ut_now_ms() - conn->peer->ended_ms >= EXIT_GRACE_MS;
}

int fp_conn_check_down(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (is_past_grace_period(conn))
        return take_down(conn, PROV_REASON_PEER_DEAD);
    if (may_land_late(conn))
        return 0;
    if (conn->peer_closed && !awaits_read_data(conn))
        return take_down(conn, PROV_REASON_CLOSED);
    if (conn->peer_broke)
        return take_down(conn, PROV_REASON_BROKEN);
    if (has_reached_refused(conn)) {
        send_ctrl(conn, FP_CONN_BROKEN, false);
        return take_down(conn, PROV_REASON_BROKEN);
    }
    if (!conn->broken || !fp_peer_has_ponged(conn->peer, conn->awaited_pong))
        return 0;
    send_ctrl(conn, FP_CONN_BROKEN, false);
    return take_down(conn, PROV_REASON_BROKEN);
}

void fp_conn_finish(struct fp_conn *conn)
{
    if (conn->state == FP_CLOSED)
        return;
    if (conn->state == FP_UP || conn->state == FP_CLOSING || conn->state == FP_ACCEPTED)
        send_ctrl(conn, FP_CONN_CLOSE, false);
    fp_send_drop_queued(conn);
    fp_rma_read_drop_all(conn);
    fp_reorder_clear(conn);
    conn->state = FP_CLOSED;
    conn->next_closed = conn->ep->closed;
    conn->ep->closed = conn;
}

void fp_conn_free(struct fp_conn *conn)
{
    conn->ep->conns[conn->id & (MAX_CONNS - 1)] = NULL;
    conn->ep->num_conns--;
    fp_peer_remove_conn(conn->peer);
    if (conn->name)
        fp_name_put(conn->ep, conn->name);
    free(conn);
}

void fp_conns_reap(struct fp_ep *ep)
{
    struct fp_conn **at = &ep->closed;

    while (*at) {
        struct fp_conn *conn = *at;
        if (conn->num_sending > 0 || conn->busy || conn->ack_now || conn->ack_later) {
            at = &conn->next_closed;
            continue;
        }
        *at = conn->next_closed;
        fp_conn_free(conn);
    }
}

/*
 * Called by the core
 */

int fp_connect(struct prov_ep *base, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **out)
{
    struct fp_ep *ep = (struct fp_ep *)base;
    struct fp_record record = {0};

    (void)peer_tni;
    if (addr_size > sizeof(record))
        return -EPROTO;
    memcpy(&record, addr, addr_size);
    if (!fp_address_is_valid(ep->prov, &record.address) ||
        addr_size != offsetof(struct fp_record, address.name) + record.address.name_size)
        return -EPROTO;
    struct fp_peer *peer = fp_peer_get(ep->prov, &record.address, record.key);
    struct fp_conn *conn = peer ? conn_new(ep, peer, peer_id, FP_REQUESTED) : NULL;
    if (!conn)
        return -ENOMEM;
    conn->ctx = ctx;
    set_hello(&conn->hello, hello, hello_size);
    if (!fp_peer_is_dead(peer)) {
        send_ctrl(conn, FP_CONN_REQUEST, true);
    } else { /* the next poll takes the connection down */
        __atomic_add_fetch(&ep->prov->peer_events, 1, __ATOMIC_SEQ_CST);
        fp_timer_start(ep->prov);
    }
    *out = (struct prov_conn *)conn;
    return 0;
}

int fp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct fp_conn *conn = (struct fp_conn *)base;
    struct fp_secrets secrets =
        fp_derive_secrets(conn->ep->prov->key, conn->rmt_nonce, conn->nonce);

    conn->secret_in = secrets.to_acceptor;
    conn->secret_out = secrets.to_initiator;
    set_hello(&conn->hello, hello, hello_size);
    send_ctrl(conn, FP_CONN_ACCEPT, true);
    conn->ctx = ctx;
    conn->state = FP_ACCEPTED;
    return 0;
}

void fp_reject(struct prov_conn *base)
{
    struct fp_conn *conn = (struct fp_conn *)base;

    send_ctrl(conn, FP_CONN_REJECT, false);
    fp_conn_finish(conn);
}

void fp_conn_close(struct prov_conn *base)
{
    struct fp_conn *conn = (struct fp_conn *)base;

    if (conn->state == FP_UP && !is_drained(conn) && !conn->broken && !conn->peer_closed &&
        !conn->rmt_refused)
        conn->state = FP_CLOSING; /* until the peer has executed all operations */
    else
        fp_conn_finish(conn);
}

/*
 * Closing without calls of the fabric
 */

void fp_conn_close_without_fabric(struct fp_conn *conn)
{
    if (conn->state < FP_CLOSED)
        conn->state = FP_CLOSED;
}

int fp_conn_down_without_fabric(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (conn->state != FP_INCOMING && conn->state != FP_CLOSING)
        return take_down(conn, PROV_REASON_LOCAL);
    fp_conn_close_without_fabric(conn); /* the owner does not know the connection */
    return 0;
}
