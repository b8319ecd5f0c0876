/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "order.h"
#include "peer.h"
#include "pull.h"
#include "seal.h"
#include "send.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/retry_delay.h"
#include "wake.h"

enum {
    NAME_BITS = 20,
    MAX_NAMES = 1 << NAME_BITS,
    FIRST_NAMES = 16,
    LAST_WORDS_MS = 20, /* after a process has ended: what it sent may be on its way */
};

/*
 * Names
 */

static bool more_names(struct fp_ep *ep)
{
    uint32_t room = ep->num_names ? 2 * ep->num_names : FIRST_NAMES;
    struct fp_conn **more = room > MAX_NAMES ? NULL : realloc(ep->conns, room * sizeof(*more));

    if (!more)
        return false;
    memset(more + ep->num_names, 0, (room - ep->num_names) * sizeof(*more));
    ep->conns = more;
    ep->num_names = room;
    return true;
}

static bool give_name(struct fp_ep *ep, struct fp_conn *conn)
{
    uint32_t at = 0;

    if (ep->num_conns == ep->num_names && !more_names(ep))
        return false;
    while (ep->conns[at])
        at++;
    ep->conns[at] = conn;
    ep->num_conns++;
    if ((++ep->last_generation & (UINT32_MAX >> NAME_BITS)) == 0)
        ep->last_generation++; /* so that no name is 0 */
    conn->name = ep->last_generation << NAME_BITS | at;
    return true;
}

struct fp_conn *fp_conn_find(struct fp_ep *ep, uint32_t name)
{
    uint32_t at = name & (MAX_NAMES - 1);
    struct fp_conn *conn = at < ep->num_names ? ep->conns[at] : NULL;

    return conn && conn->name == name ? conn : NULL;
}

static struct fp_conn *conn_new(struct fp_ep *ep, struct fp_peer *peer, uint64_t peer_id,
                                enum fp_state state)
{
    struct fp_conn *conn = calloc(1, sizeof(*conn));

    if (!conn || !fp_draw(conn->nonce, sizeof(conn->nonce)) || !give_name(ep, conn)) {
        ut_error(FP_CAT, "no memory, or no secret, for a connection");
        free(conn);
        return NULL;
    }
    conn->ep = ep;
    conn->peer = peer;
    conn->peer_id = peer_id;
    conn->is_self = peer_id == ep->attr.id &&
                    memcmp(&peer->address, &ep->prov->address, sizeof(peer->address)) == 0;
    conn->state = state;
    conn->silences = __atomic_load_n(&peer->silences, __ATOMIC_ACQUIRE);
    conn->last = &conn->first;
    conn->last_pull = &conn->pulls;
    fp_peer_hold(peer);
    return conn;
}

static void set_hello(struct fp_conn *conn, const void *hello, size_t size)
{
    conn->hello_size = (uint8_t)(size < PROV_HELLO_MAX ? size : PROV_HELLO_MAX);
    memcpy(conn->hello, hello, conn->hello_size);
}

/*
 * Notes
 */

static void tell(struct fp_conn *conn, enum fp_note_kind kind, bool with_hello)
{
    struct fp_ep *ep = conn->ep;
    struct fp_note note = {.kind = (uint8_t)kind,
                           .from_conn = conn->name,
                           .to_conn = conn->rmt_name,
                           .from_id = ep->attr.id,
                           .to_id = conn->peer_id};

    if (kind == FP_BYE || kind == FP_GONE) {
        note.executed = conn->executed;
        note.refused = conn->refused;
        note.refusal = conn->refusal;
    }
    if (with_hello) {
        note.hello_size = conn->hello_size;
        memcpy(note.hello, conn->hello, conn->hello_size);
        note.name_size = ep->name_size;
        memcpy(note.name, ep->name, ep->name_size);
        memcpy(note.nonce, conn->nonce, sizeof(note.nonce));
    }
    fp_control_send(conn->peer, &note);
    ep->help_after = FP_HELP_SOON;
}

static bool find_way(struct fp_conn *conn, const struct fp_note *note)
{
    uint8_t name[FP_NAME_MAX] = {0};

    memcpy(name, note->name, note->name_size);
    conn->rmt_name = note->from_conn;
    memcpy(conn->rmt_nonce, note->nonce, sizeof(conn->rmt_nonce));
    if (note->name_size > 0 && fi_av_insert(conn->ep->fids.av, name, 1, &conn->at, 0, NULL) == 1)
        return true;
    ut_error(FP_CAT, "the fabric does not take the address of an endpoint");
    return false;
}

void fp_conn_ask_again(struct fp_conn *conn)
{
    tell(conn, FP_ASK, true);
}

/* Was this question received before? */
static bool is_known(const struct fp_ep *ep, const struct fp_peer *peer, const struct fp_note *note)
{
    for (uint32_t i = 0; i < ep->num_names; i++) {
        const struct fp_conn *conn = ep->conns[i];
        if (conn && conn->peer == peer && conn->peer_id == note->from_id &&
            conn->rmt_name == note->from_conn && conn->state != FP_ASKED)
            return true;
    }
    return false;
}

static int asked(struct fp_ep *ep, struct fp_peer *peer, const struct fp_note *note)
{
    if (is_known(ep, peer, note))
        return 0;
    struct fp_conn *conn = ep->is_closing ? NULL : conn_new(ep, peer, note->from_id, FP_AWAITED);

    if (!conn || !find_way(conn, note)) {
        fp_control_send(peer, &(struct fp_note){.kind = FP_NONE,
                                                .to_conn = note->from_conn,
                                                .to_id = note->from_id,
                                                .from_id = note->to_id});
        if (conn)
            fp_conn_end(conn);
        return 0;
    }
    set_hello(conn, note->hello, note->hello_size);
    ep->attr.callbacks->request(ep->attr.owner, &ep->prov->base, (struct prov_conn *)conn,
                                conn->peer_id, conn->hello, conn->hello_size);
    return 1;
}

static int down(struct fp_conn *conn, enum prov_reason reason)
{
    const struct prov_callbacks *cb = fp_callbacks(conn);
    enum fp_state before = conn->state;
    int calls = fp_conn_report(conn);

    if (conn->state != before || before >= FP_DOWN)
        return calls; /* the callback has closed the connection */
    fp_send_drop_queued(conn);
    fp_pulls_drop(conn);
    fp_kept_drop(conn);
    if (before == FP_AWAITED || before == FP_CLOSING) { /* the peer does not know it now */
        fp_conn_end(conn);
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

static int accepted(struct fp_conn *conn, const struct fp_note *note)
{
    struct fp_xfer start = {.head = {.kind = FP_START}};

    if (!find_way(conn, note))
        return down(conn, PROV_REASON_LOCAL);
    struct fp_secrets secrets = fp_secrets_of(conn->peer->key, conn->nonce, conn->rmt_nonce);
    conn->secret_in = secrets.to_asker;
    conn->secret_out = secrets.to_asked;
    if (fp_send(conn, &start.head, sizeof(start.head), NULL, 0) != 0)
        return down(conn, PROV_REASON_LOCAL);
    conn->state = FP_UP;
    set_hello(conn, note->hello, note->hello_size);
    fp_callbacks(conn)->up(conn->ctx, conn->hello, conn->hello_size);
    return 1;
}

/* The peer's answer to a read may arrive after its goodbye, which is sent over the control
 * endpoint. */
static bool waits_for_data(struct fp_conn *conn)
{
    uint32_t n = conn->reported;

    return n != conn->sent && fp_op_at(conn, n)->kind == FP_READ &&
           (int32_t)(conn->acked - n) > 0 && ut_now_ms() - conn->parting_ms < UT_CLOSE_TIMEOUT_MS;
}

/* Processes the peer's final state of this side's operations. */
static void take_last_word(struct fp_conn *conn, const struct fp_note *note)
{
    fp_conn_acked(conn, note->executed);
    if (!conn->failed)
        fp_conn_failed(conn, note->refused - 1, note->refusal);
}

static int part(struct fp_conn *conn, const struct fp_note *note)
{
    take_last_word(conn, note);
    conn->parting = true;
    conn->parting_ms = ut_now_ms();
    fp_mark_busy(conn);
    return fp_conn_report(conn) + fp_conn_settle(conn);
}

/* Processes a note on a connection that the peer knows, or that this side asked for. */
static int answered(struct fp_conn *conn, const struct fp_note *note)
{
    switch ((enum fp_note_kind)note->kind) {
    case FP_ACCEPT:
        return conn->state == FP_ASKED ? accepted(conn, note) : 0;
    case FP_REJECT:
        return conn->state == FP_ASKED ? down(conn, PROV_REASON_REJECTED) : 0;
    case FP_NONE:
        return conn->state == FP_ASKED ? down(conn, PROV_REASON_NO_ENDPOINT) : 0;
    case FP_BYE:
        return part(conn, note);
    case FP_GONE:
        if (conn->state == FP_ACCEPTED)
            return down(conn, PROV_REASON_CLOSED);
        take_last_word(conn, note);
        conn->gone = conn->broken = true;
        fp_kept_drop(conn);
        fp_mark_busy(conn);
        return fp_conn_settle(conn);
    default:
        return 0;
    }
}

int fp_conn_take_note(struct fp_ep *ep, struct fp_peer *peer, const struct fp_note *note)
{
    struct fp_conn *conn = fp_conn_find(ep, note->to_conn);

    if (note->kind == FP_ASK)
        return asked(ep, peer, note);
    if (conn && conn->peer == peer && conn->state < FP_DOWN)
        return answered(conn, note);
    if (note->kind == FP_ACCEPT) /* no longer wanted */
        fp_control_send(peer, &(struct fp_note){.kind = FP_GONE,
                                                .to_conn = note->from_conn,
                                                .from_conn = note->to_conn,
                                                .to_id = note->from_id,
                                                .from_id = note->to_id});
    return 0;
}

int fp_conn_started(struct fp_conn *conn)
{
    if (conn->state != FP_ACCEPTED)
        return 0;
    conn->state = FP_UP;
    fp_callbacks(conn)->up(conn->ctx, conn->hello, conn->hello_size);
    return 1;
}

/*
 * Operations and ends
 */

/* Has either end received everything that it waits for? Data still in the fabric's queues may be
 * lost when the endpoint is closed. */
static bool is_served(const struct fp_conn *conn)
{
    return conn->reported == conn->posted && conn->first_answer == conn->last_answer &&
           conn->num_queued == 0 && conn->num_sending == 0;
}

/* Have all operations before the one that the peer refused ended? */
static bool is_next_to_fail(const struct fp_conn *conn)
{
    return conn->failed && conn->reported == conn->failed_at;
}

static bool has_ended(struct fp_conn *conn, uint32_t n)
{
    const struct fp_op *op = fp_op_at(conn, n);

    return op->ended || (op->kind != FP_READ && (int32_t)(conn->acked - n) > 0 && op->writes == 0);
}

void fp_conn_acked(struct fp_conn *conn, uint32_t executed)
{
    if ((int32_t)(executed - conn->acked) > 0 && (int32_t)(conn->sent - executed) >= 0)
        conn->acked = executed;
}

bool fp_conn_failed(struct fp_conn *conn, uint32_t n, uint8_t status)
{
    struct fp_op *op = fp_op_at(conn, n);

    if (n - conn->reported >= conn->posted - conn->reported || op->ended || conn->failed ||
        status == PROV_OK || status > PROV_FAILED)
        return false;
    op->status = status;
    conn->failed = true;
    conn->failed_at = n;
    fp_mark_busy(conn);
    return true;
}

int fp_conn_report(struct fp_conn *conn)
{
    int calls = 0;

    while (conn->reported != conn->sent && has_ended(conn, conn->reported) &&
           !is_next_to_fail(conn)) {
        struct fp_op *op = fp_op_at(conn, conn->reported++);
        if (conn->state != FP_UP)
            continue;
        fp_callbacks(conn)->done(conn->ctx, op->cookie, op->status);
        calls++;
    }
    if (conn->state == FP_CLOSING && is_served(conn))
        fp_conn_end(conn);
    return calls;
}

int fp_conn_look(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (fp_peer_is_dead(conn->peer)) {
        conn->orphaned = true;
        fp_mark_busy(conn);
    }
    if (__atomic_load_n(&conn->peer->silences, __ATOMIC_ACQUIRE) != conn->silences)
        return down(conn, PROV_REASON_SILENT);
    return fp_conn_settle(conn);
}

/* On a fabric that keeps no order, a write in flight may land after one of the next connection. */
static bool may_land_late(const struct fp_conn *conn)
{
    return conn->num_placing > 0 && !conn->ep->prov->keeps_order;
}

/* Messages that the process sent before it ended may still arrive. */
static bool has_no_last_words(const struct fp_conn *conn)
{
    return conn->orphaned && ut_now_ms() - conn->peer->ended_ms >= LAST_WORDS_MS;
}

int fp_conn_settle(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (has_no_last_words(conn))
        return down(conn, PROV_REASON_PEER_DEAD);
    if (may_land_late(conn))
        return 0;
    if (conn->parting && !waits_for_data(conn))
        return down(conn, PROV_REASON_CLOSED);
    if (conn->gone)
        return down(conn, PROV_REASON_BROKEN);
    if (is_next_to_fail(conn)) {
        tell(conn, FP_GONE, false);
        return down(conn, PROV_REASON_BROKEN);
    }
    if (!conn->broken || !fp_peer_has_answered(conn->peer, conn->wanted_answer))
        return 0;
    tell(conn, FP_GONE, false);
    return down(conn, PROV_REASON_BROKEN);
}

void fp_conn_end(struct fp_conn *conn)
{
    if (conn->state == FP_CLOSED)
        return;
    if (conn->state == FP_UP || conn->state == FP_CLOSING || conn->state == FP_ACCEPTED)
        tell(conn, FP_BYE, false);
    fp_send_drop_queued(conn);
    fp_pulls_drop(conn);
    fp_kept_drop(conn);
    conn->state = FP_CLOSED;
    conn->next_closed = conn->ep->closed;
    conn->ep->closed = conn;
}

void fp_conn_free(struct fp_conn *conn)
{
    conn->ep->conns[conn->name & (MAX_NAMES - 1)] = NULL;
    conn->ep->num_conns--;
    fp_peer_drop(conn->peer);
    free(conn);
}

void fp_conns_reap(struct fp_ep *ep)
{
    struct fp_conn **at = &ep->closed;

    while (*at) {
        struct fp_conn *conn = *at;
        if (conn->num_sending > 0 || conn->busy || conn->due || conn->owing) {
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
    if (!fp_address_is_good(ep->prov, &record.address) ||
        addr_size != offsetof(struct fp_record, address.name) + record.address.name_size)
        return -EPROTO;
    struct fp_peer *peer = fp_peer_of(ep->prov, &record.address, record.key);
    struct fp_conn *conn = peer ? conn_new(ep, peer, peer_id, FP_ASKED) : NULL;
    if (!conn)
        return -ENOMEM;
    conn->ctx = ctx;
    set_hello(conn, hello, hello_size);
    if (!fp_peer_is_dead(peer)) {
        tell(conn, FP_ASK, true);
    } else { /* the next poll reports it */
        __atomic_add_fetch(&ep->prov->news, 1, __ATOMIC_SEQ_CST);
        fp_tick(ep->prov);
    }
    *out = (struct prov_conn *)conn;
    return 0;
}

int fp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct fp_conn *conn = (struct fp_conn *)base;
    uint8_t theirs[PROV_HELLO_MAX];
    uint8_t size = conn->hello_size;
    struct fp_secrets secrets = fp_secrets_of(conn->ep->prov->key, conn->rmt_nonce, conn->nonce);

    conn->secret_in = secrets.to_asked;
    conn->secret_out = secrets.to_asker;
    memcpy(theirs, conn->hello, size);
    set_hello(conn, hello, hello_size);
    tell(conn, FP_ACCEPT, true);
    set_hello(conn, theirs, size);
    conn->ctx = ctx;
    conn->state = FP_ACCEPTED;
    return 0;
}

void fp_reject(struct prov_conn *base)
{
    struct fp_conn *conn = (struct fp_conn *)base;

    tell(conn, FP_REJECT, false);
    fp_conn_end(conn);
}

void fp_conn_close(struct prov_conn *base)
{
    struct fp_conn *conn = (struct fp_conn *)base;

    if (conn->state == FP_UP && !is_served(conn) && !conn->broken && !conn->parting &&
        !conn->failed)
        conn->state = FP_CLOSING; /* until all operations are executed */
    else
        fp_conn_end(conn);
}

/*
 * Without the fabric
 */

void fp_conn_abandon(struct fp_conn *conn)
{
    if (conn->state < FP_CLOSED)
        conn->state = FP_CLOSED;
}

int fp_conn_lose(struct fp_conn *conn)
{
    if (conn->state >= FP_DOWN)
        return 0;
    if (conn->state != FP_AWAITED && conn->state != FP_CLOSING)
        return down(conn, PROV_REASON_LOCAL);
    fp_conn_abandon(conn); /* its owner does not know it */
    return 0;
}
