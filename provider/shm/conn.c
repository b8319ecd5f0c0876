/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between endpoints. Control messages (REQUEST, ACCEPT, REJECT, CLOSE, ERROR) are slots
 * in the peer's ring, in order with all other slots. While the ring is full, the control message
 * waits in conn->ctl.
 *
 * A connection's id consists of its index in the endpoint's table and a generation: the receiver
 * recognises and drops a slot for a connection that no longer exists.
 */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "op_queue.h"
#include "peer.h"
#include "ring.h"
#include "sock.h"
#include "types.h"
#include "util/assert.h"
#include "util/log.h"
#include "wake.h"

/*
 * Connection ids
 */

struct sp_conn *sp_conn_by_id(struct sp_ep *ep, uint32_t conn_id)
{
    uint32_t index = conn_id & (SP_MAX_CONNS - 1);
    struct sp_conn *conn = index < ep->conns_size ? ep->conns[index] : NULL;

    return conn && conn->conn_id == conn_id ? conn : NULL;
}

/* Doubles ep->conns. False: no memory. */
static bool grow_table(struct sp_ep *ep)
{
    uint32_t n = ep->conns_size ? ep->conns_size * 2 : 16;
    struct sp_conn **conns = realloc(ep->conns, n * sizeof(*conns));

    if (!conns)
        return false;
    ep->conns = conns;
    memset(conns + ep->conns_size, 0, (n - ep->conns_size) * sizeof(*conns));
    ep->conns_size = n;
    return true;
}

/* Assigns an id to the connection and enters it in ep->conns. False: no memory, or too many. */
static bool register_conn(struct sp_ep *ep, struct sp_conn *conn)
{
    if (ep->num_conns == ep->conns_size && (ep->conns_size == SP_MAX_CONNS || !grow_table(ep)))
        return false;
    while (ep->conns[ep->next_conn & (ep->conns_size - 1)])
        ep->next_conn++;
    UT_ASSERT(ep->num_conns < ep->conns_size);
    uint32_t index = ep->next_conn++ & (ep->conns_size - 1);
    uint32_t generation = ++ep->prov->ep_history[ep->index].conn_generation;
    ep->conns[index] = conn;
    ep->num_conns++;
    conn->conn_id = generation << SP_CONN_BITS | index;
    __atomic_store_n(&ep->ring->executed_by_peer[index], (uint64_t)(generation & 0xffff) << 48,
                     __ATOMIC_RELEASE);
    return true;
}

static void unregister_conn(struct sp_conn *conn)
{
    struct sp_ep *ep = conn->ep;

    UT_ASSERT(ep->num_conns > 0 && sp_conn_by_id(ep, conn->conn_id) == conn);
    ep->conns[conn->conn_id & (SP_MAX_CONNS - 1)] = NULL;
    ep->num_conns--;
}

/* Reserves room in ep->active for one more connection. Open connections need it, and closed ones
 * that still have a control message to send. */
static bool reserve_active(struct sp_ep *ep)
{
    if (ep->num_live < ep->active_size) {
        ep->num_live++;
        return true;
    }
    uint32_t n = ep->active_size ? ep->active_size * 2 : 16;
    struct sp_conn **active = realloc(ep->active, n * sizeof(*active));
    if (!active)
        return false;
    ep->active = active;
    ep->active_size = n;
    ep->num_live++;
    return true;
}

/* Returns a new connection, with a reference to the peer; NULL: no memory. `assign_id`: false for a
 * closed connection, which only sends a control message. */
static struct sp_conn *conn_new(struct sp_ep *ep, struct sp_peer *peer, bool assign_id)
{
    struct sp_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->ep = ep;
    conn->peer = peer;
    conn->closed = !assign_id;
    if (!reserve_active(ep)) {
        free(conn);
        return NULL;
    }
    if (assign_id && !register_conn(ep, conn)) {
        ep->num_live--;
        free(conn);
        return NULL;
    }
    __atomic_add_fetch(&peer->refs, 1, __ATOMIC_ACQ_REL);
    return conn;
}

void sp_conn_free(struct sp_conn *conn)
{
    sp_conn_deactivate(conn);
    sp_op_queue_free(conn);
    sp_map_free(conn);
    sp_peer_unref(conn->peer);
    UT_ASSERT(conn->active_index == 0 && conn->ep->num_live > conn->ep->num_active);
    conn->ep->num_live--;
    free(conn);
}

/* Frees a connection that has nothing left to send. During a poll, which may still use the
 * connection, this is delayed to the end of the poll. */
static void discard_conn(struct sp_conn *conn)
{
    struct sp_ep *ep = conn->ep;

    conn->closed = true;
    conn->ctl = SP_CTL_NONE;
    sp_conn_deactivate(conn);
    if (ep->in_poll) {
        SLIST_INSERT_HEAD(&ep->discarded, conn, next_discarded);
    } else {
        sp_conn_free(conn);
    }
}

/*
 * Control
 */

/* True if the peer process is dead or has closed its endpoint. */
static bool is_rmt_ep_gone(const struct sp_conn *conn)
{
    return sp_peer_is(conn->peer, SP_PEER_DEAD) ||
           __atomic_load_n(conn->rmt_dir_state, __ATOMIC_SEQ_CST) != conn->rmt_state;
}

/* Fills a claimed slot with the control message conn->ctl. */
static void fill_control(const struct sp_conn *conn, struct sp_slot *slot)
{
    slot->kind = conn->ctl;
    slot->flags = 0;
    slot->conn = conn->rmt_conn_id;
    slot->extra = conn->ep->index;
    slot->size = conn->private_data_size;
    switch (conn->ctl) {
    case SP_CTL_REQUEST:
        slot->conn = conn->conn_id;
        slot->imm = conn->rmt_state;
        slot->request.id = conn->ep->id;
        memcpy(slot->request.private_data, conn->private_data, sizeof(conn->private_data));
        break;
    case SP_CTL_ACCEPT:
        slot->imm = conn->conn_id;
        memcpy(slot->private_data, conn->private_data, sizeof(conn->private_data));
        break;
    case SP_CTL_ERROR:
        slot->extra = conn->error_op_number;
        slot->error.status = conn->error_status;
        break;
    default:
        break;
    }
}

/* Called after conn->ctl was sent, which was `ctl`. May free the connection. */
static void handle_control_sent(struct sp_conn *conn, uint8_t ctl)
{
    conn->ctl = SP_CTL_NONE;
    if (conn->closed) {
        discard_conn(conn);
    } else if (ctl == SP_CTL_ACCEPT) {
        UT_ASSERT(conn->state == SP_CONN_ACCEPTING);
        conn->state = SP_CONN_UP;
        conn->up_due = true;
        sp_conn_activate(conn);
    } else if (ctl == SP_CTL_REQUEST && is_rmt_ep_gone(conn)) {
        /* the CLOSED notification may have arrived before the request was sent */
        __atomic_store_n(&conn->ep->must_check_peers, 1, __ATOMIC_SEQ_CST);
    }
}

/* Gives up conn->ctl, which cannot be sent any more. May free the connection. */
static void abandon_control(struct sp_conn *conn)
{
    conn->ctl = SP_CTL_NONE;
    if (conn->closed)
        discard_conn(conn);
}

void sp_conn_send_control(struct sp_conn *conn)
{
    uint32_t producer_id = conn->peer->id_in_peer_rings;
    uint64_t pos;

    if (is_rmt_ep_gone(conn)) {
        abandon_control(conn); /* sp_conn_check_peer() takes the connection down */
        return;
    }
    struct sp_slot *slot = sp_ring_claim(conn->ring, producer_id, &pos);
    if (!slot && sp_conn_check_ring(conn)) {
        abandon_control(conn);
        return;
    }
    if (slot) {
        fill_control(conn, slot);
        sp_ring_publish(conn->ring, slot, pos, producer_id);
    }
    if (sp_ring_load_armed(conn->ring))
        sp_send_doorbell(conn->peer, conn->ring);
    if (slot)
        handle_control_sent(conn, conn->ctl);
    else
        sp_conn_activate(conn);
}

/* May free the connection if it is closed. */
static void send_control(struct sp_conn *conn, enum sp_ctl ctl)
{
    conn->ctl = (uint8_t)ctl;
    sp_conn_send_control(conn);
}

/*
 * Up and down
 */

int sp_conn_report(struct sp_conn *conn)
{
    const struct prov_callbacks *cb = conn->ep->callbacks;
    int count = 0;

    if (conn->up_due && !conn->down_due) {
        UT_ASSERT(!conn->closed && conn->state == SP_CONN_UP);
        conn->up_due = false;
        cb->up(conn->ctx, conn->rmt_private_data, conn->rmt_private_data_size);
        count++;
    }
    if (!conn->closed && conn->down_due) {
        conn->down_due = conn->up_due = false;
        count += sp_op_queue_flush(conn);
        if (!conn->closed) {
            cb->down(conn->ctx, (enum prov_reason)conn->reason);
            count++;
        }
    }
    return count;
}

int sp_conn_report_failure(struct sp_conn *conn)
{
    if (conn->ctl != SP_CTL_NONE)
        sp_conn_send_control(conn);
    return sp_conn_report(conn);
}

/* Takes the connection down and calls down(). Returns the number of callbacks. */
static int report_down(struct sp_conn *conn, enum prov_reason reason)
{
    sp_conn_go_down(conn, reason);
    return sp_conn_report(conn);
}

/*
 * Requesting a connection
 */

/* Finds endpoint conn->rmt_id in the peer's directory, and sets index, state and ring. */
static bool find_rmt_ep(struct sp_conn *conn)
{
    const struct sp_dir_entry *dir = conn->peer->seg->table.dir;

    for (uint32_t i = 0; i < conn->peer->num_rings; i++) {
        uint32_t state = __atomic_load_n(&dir[i].state, __ATOMIC_ACQUIRE);
        if (!(state & 1) || __atomic_load_n(&dir[i].id, __ATOMIC_ACQUIRE) != conn->rmt_id ||
            __atomic_load_n(&dir[i].state, __ATOMIC_ACQUIRE) != state)
            continue;
        conn->rmt_index = i;
        conn->rmt_dir_state = &dir[i].state;
        conn->rmt_state = state;
        conn->ring = sp_ring_of(conn->peer->seg, i);
        return true;
    }
    return false;
}

/* Sends the request for a connection to a peer that is up. */
static void request_connection(struct sp_conn *conn)
{
    UT_ASSERT(conn->state == SP_CONN_WAITING && conn->ctl == SP_CTL_NONE);
    if (find_rmt_ep(conn)) {
        conn->state = SP_CONN_REQUESTING;
        send_control(conn, SP_CTL_REQUEST);
    } else {
        sp_conn_go_down(conn, PROV_REASON_NO_ENDPOINT);
    }
}

/* Returns the peer process with this address. A new peer has the state SP_PEER_WILL_CONNECT and
 * retry_ms 0: the caller connects. */
static struct sp_peer *get_peer(struct sp_prov *prov, const struct sp_address *addr)
{
    if (addr->key == prov->addr.key)
        return &prov->self;
    struct sp_peer *peer = sp_peer_find(prov, addr->key);
    if (peer)
        return peer;
    peer = sp_peer_new(prov);
    if (peer) {
        peer->addr = *addr;
        sp_peer_set_key(peer, addr->key);
        __atomic_store_n(&peer->state, SP_PEER_WILL_CONNECT, __ATOMIC_RELEASE);
    }
    return peer;
}

/* Reads and checks the address of a peer. Returns 0 or the error code of connect(). */
static int check_address(const struct sp_prov *prov, const void *bytes, size_t size,
                         struct sp_address *addr)
{
    memset(addr, 0, sizeof(*addr));
    if (size == sizeof(*addr))
        memcpy(addr, bytes, sizeof(*addr));
    if (addr->version != SP_VERSION) {
        ut_debug(SP_LOG, "unknown format of the peer's address: does it run another version of "
                         "this library?");
        return -EPROTO;
    }
    if (addr->host != prov->addr.host) {
        ut_error(SP_LOG,
                 "process %u is on another host or in another container (its process or "
                 "network namespace differs): shared memory does not reach it",
                 addr->pid);
        return -EHOSTUNREACH;
    }
    return prov->in_fork_child ? -EIO : 0;
}

int sp_connect(struct prov_ep *base, const void *addr_bytes, size_t addr_size,
               unsigned int peer_tni, uint64_t peer_id, const void *private_data,
               size_t private_data_size, void *ctx, struct prov_conn **out)
{
    struct sp_ep *ep = (struct sp_ep *)base;
    struct sp_prov *prov = ep->prov;
    struct sp_address addr;
    int rc = check_address(prov, addr_bytes, addr_size, &addr);

    (void)peer_tni;
    if (rc != 0)
        return rc;
    if (private_data_size > PROV_PRIVATE_DATA_MAX)
        return -EINVAL;
    pthread_mutex_lock(&prov->lock);
    struct sp_peer *peer = get_peer(prov, &addr);
    struct sp_conn *conn = peer ? conn_new(ep, peer, true) : NULL;
    bool is_new = peer && peer->state == SP_PEER_WILL_CONNECT && peer->retry_ms == 0;
    if (is_new) {
        sp_peer_connect(
            peer); /* this may fail and mark the peer dead; the connection has a reference */
        sp_kick(prov);
    }
    pthread_mutex_unlock(&prov->lock);
    if (!conn) {
        ut_error(SP_LOG, "no memory for another connection");
        return -ENOMEM;
    }
    conn->ctx = ctx;
    conn->rmt_id = peer_id;
    conn->private_data_size = (uint8_t)private_data_size;
    memcpy(conn->private_data, private_data, private_data_size);
    conn->state = SP_CONN_WAITING;
    *out = (struct prov_conn *)conn;
    if (sp_peer_is(peer, SP_PEER_UP))
        request_connection(conn);
    else if (sp_peer_is(peer, SP_PEER_DEAD))
        sp_conn_go_down(conn, (enum prov_reason)peer->reason);
    return 0;
}

/*
 * Incoming requests
 */

/* Returns the process that claimed a slot, with a reference; NULL if it is gone or lacks the ring
 * that the slot names. A peer whose segment is not mapped yet is returned, too. */
static struct sp_peer *get_requester(struct sp_prov *prov, uint32_t producer_id, uint32_t ring)
{
    pthread_mutex_lock(&prov->lock);
    struct sp_peer *peer = sp_peer_by_producer_id(prov, producer_id);
    if (peer && ring >= (peer->seg ? peer->num_rings : SP_MAX_EPS))
        peer = NULL;
    if (peer && !peer->is_self)
        __atomic_add_fetch(&peer->refs, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&prov->lock);
    return peer;
}

/* Sends a control message for a connection that does not exist on this side. False: the ring is
 * full. Sends nothing to a damaged ring. */
static bool send_control_without_conn(struct sp_peer *peer, uint32_t rmt_index,
                                      uint32_t rmt_conn_id, enum sp_ctl ctl)
{
    struct sp_ring *ring = sp_ring_of(peer->seg, rmt_index);
    uint64_t pos;
    struct sp_slot *slot = sp_ring_claim(ring, peer->id_in_peer_rings, &pos);

    if (slot) {
        slot->kind = (uint8_t)ctl;
        slot->flags = 0;
        slot->conn = rmt_conn_id;
        slot->size = 0;
        sp_ring_publish(ring, slot, pos, peer->id_in_peer_rings);
    }
    if (sp_ring_load_armed(ring))
        sp_send_doorbell(peer, ring);
    return slot || sp_ring_is_damaged(ring);
}

/* No memory for a requested connection: sends REJECT, and the peer repeats the request later.
 * Returns -1 if the peer's ring is full: the slot has to wait. */
static int reject_request(struct sp_peer *peer, const struct sp_slot *slot)
{
    bool sent = send_control_without_conn(peer, slot->extra, slot->conn, SP_CTL_REJECT);

    if (sent)
        ut_error(SP_LOG,
                 "rejected a connection request of process %ld: no memory; the process will "
                 "retry",
                 (long)peer->pid);
    return sent ? 0 : -1;
}

/* Returns the number of callbacks; -1: try again later. */
static int handle_request(struct sp_ep *ep, const struct sp_slot *slot, uint32_t producer_id)
{
    struct sp_prov *prov = ep->prov;
    struct sp_peer *peer;

    if (slot->imm != prov->seg->table.dir[ep->index].state || slot->size > PROV_PRIVATE_DATA_MAX)
        return 0; /* meant for an earlier endpoint with this index */
    peer = get_requester(prov, producer_id, slot->extra);
    if (!peer)
        return 0; /* the peer died meanwhile */
    struct sp_conn *conn = peer->seg ? conn_new(ep, peer, true) : NULL;
    int rc = !conn && peer->seg ? reject_request(peer, slot) : 0;
    sp_peer_unref(peer); /* the connection holds another reference */
    if (!conn)
        return rc;
    const struct sp_dir_entry *entry = &peer->seg->table.dir[slot->extra];
    conn->state = SP_CONN_REQUESTED;
    conn->rmt_id = slot->request.id;
    conn->rmt_conn_id = slot->conn;
    conn->rmt_index = slot->extra;
    conn->rmt_dir_state = &entry->state;
    conn->rmt_state = __atomic_load_n(&entry->state, __ATOMIC_SEQ_CST);
    conn->ring = sp_ring_of(peer->seg, slot->extra);
    conn->rmt_private_data_size = (uint8_t)slot->size;
    memcpy(conn->rmt_private_data, slot->request.private_data, PROV_PRIVATE_DATA_MAX);
    if (!(conn->rmt_state & 1) || __atomic_load_n(&entry->id, __ATOMIC_SEQ_CST) != conn->rmt_id) {
        unregister_conn(conn);
        discard_conn(conn); /* the requesting endpoint was closed */
        return 0;
    }
    ep->callbacks->request(ep->owner, &ep->prov->base, (struct prov_conn *)conn, conn->rmt_id,
                           conn->rmt_private_data, conn->rmt_private_data_size);
    return 1;
}

int sp_accept(struct prov_conn *base, const void *private_data, size_t private_data_size, void *ctx)
{
    struct sp_conn *conn = sp_conn_of(base);

    UT_ASSERT(!conn->closed && (conn->state == SP_CONN_REQUESTED || conn->state == SP_CONN_DOWN));
    if (private_data_size > PROV_PRIVATE_DATA_MAX)
        return -EINVAL;
    conn->ctx = ctx;
    conn->private_data_size = (uint8_t)private_data_size;
    memcpy(conn->private_data, private_data, private_data_size);
    if (conn->state == SP_CONN_DOWN) { /* went down before the owner accepted */
        conn->down_due = true;
        sp_conn_activate(conn);
        return 0;
    }
    conn->state = SP_CONN_ACCEPTING;
    send_control(conn, SP_CTL_ACCEPT);
    return 0;
}

void sp_reject(struct prov_conn *conn)
{
    sp_conn_close(conn);
}

/* An ACCEPT came for a connection that was closed here meanwhile: sends CLOSE. Returns 0, or -1:
 * the peer's ring is full and there is no memory to queue the CLOSE, so the slot has to wait. */
static int close_unknown_conn(struct sp_ep *ep, const struct sp_slot *slot, uint32_t producer_id)
{
    struct sp_peer *peer = get_requester(ep->prov, producer_id, slot->extra);

    if (!peer)
        return 0;
    struct sp_conn *conn = peer->seg ? conn_new(ep, peer, false) : NULL;
    bool sent =
        conn || !peer->seg || send_control_without_conn(peer, slot->extra, slot->imm, SP_CTL_CLOSE);
    sp_peer_unref(peer);
    if (!conn)
        return sent ? 0 : -1;
    conn->ring = sp_ring_of(peer->seg, slot->extra);
    conn->rmt_index = slot->extra;
    conn->rmt_dir_state = &peer->seg->table.dir[slot->extra].state;
    conn->rmt_state = __atomic_load_n(conn->rmt_dir_state, __ATOMIC_SEQ_CST);
    conn->rmt_conn_id = slot->imm;
    send_control(conn, SP_CTL_CLOSE);
    return 0;
}

/* Returns the number of callbacks; -1: try again later. */
static int handle_accept(struct sp_ep *ep, const struct sp_slot *slot, uint32_t producer_id)
{
    struct sp_conn *conn = sp_conn_by_id(ep, slot->conn);

    if (!conn)
        return close_unknown_conn(ep, slot, producer_id);
    if (conn->state != SP_CONN_REQUESTING || slot->size > PROV_PRIVATE_DATA_MAX)
        return 0;
    conn->rmt_conn_id = slot->imm;
    conn->rmt_private_data_size = (uint8_t)slot->size;
    memcpy(conn->rmt_private_data, slot->private_data, PROV_PRIVATE_DATA_MAX);
    conn->state = SP_CONN_UP;
    conn->up_due = true;
    return sp_conn_report(conn);
}

int sp_conn_handle_control(struct sp_ep *ep, const struct sp_slot *slot, uint32_t producer_id)
{
    struct sp_conn *conn;

    if (slot->kind == SP_KIND_REQUEST)
        return handle_request(ep, slot, producer_id);
    if (slot->kind == SP_KIND_ACCEPT)
        return handle_accept(ep, slot, producer_id);
    conn = sp_conn_by_id(ep, slot->conn);
    if (!conn || conn->state == SP_CONN_DOWN)
        return 0;
    switch (slot->kind) {
    case SP_KIND_REJECT:
        return report_down(conn, PROV_REASON_REJECTED);
    case SP_KIND_CLOSE:
        return report_down(conn, PROV_REASON_CLOSED);
    case SP_KIND_ERROR:
        sp_op_queue_handle_error(conn, slot);
        return report_down(conn, PROV_REASON_BROKEN);
    default:
        return 0;
    }
}

/*
 * Closing
 */

void sp_conn_close(struct prov_conn *base)
{
    struct sp_conn *conn = sp_conn_of(base);
    uint8_t state = conn->state;

    UT_ASSERT(!conn->closed);
    unregister_conn(conn);
    conn->closed = true;
    conn->state = SP_CONN_DOWN;
    conn->up_due = conn->down_due = false;
    if (state == SP_CONN_REQUESTED || state == SP_CONN_ACCEPTING)
        send_control(conn, SP_CTL_REJECT);
    else if (state == SP_CONN_UP)
        send_control(conn, SP_CTL_CLOSE);
    else if (conn->ctl != SP_CTL_ERROR) /* an ERROR must still be sent */
        discard_conn(conn);
}

int sp_conn_check_peer(struct sp_conn *conn)
{
    if (conn->state == SP_CONN_DOWN)
        return 0;
    if (sp_peer_is(conn->peer, SP_PEER_DEAD)) {
        sp_conn_go_down(conn, (enum prov_reason)conn->peer->reason);
    } else if (conn->state == SP_CONN_WAITING) {
        if (!sp_peer_is(conn->peer, SP_PEER_UP))
            return 0;
        request_connection(conn);
    } else if (is_rmt_ep_gone(conn)) {
        bool requesting = conn->state == SP_CONN_REQUESTING;
        sp_conn_go_down(conn, requesting ? PROV_REASON_NO_ENDPOINT : PROV_REASON_CLOSED);
    }
    return conn->down_due ? sp_conn_report(conn) : 0;
}
