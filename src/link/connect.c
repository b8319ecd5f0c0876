/* SPDX-License-Identifier: Apache-2.0 */
/* Translates calls of the program, timers and callbacks of providers into events of the connection
 * state machine (fsm.h), and executes its actions. */
#include <stdlib.h>

#include "link/rx_history.h"
#include "link/hello.h"
#include "link/owner.h"
#include "link/unacked.h"
#include "link/rails.h"
#include "peers/peers.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/long_wait.h"

/* A message of the peer's handshake: a connect request, or the reply to a request of this side. */
struct handshake {
    const struct ut_vcq_ep *e; /* requests only: the endpoint of this VCQ that received it */
    struct prov_conn *conn;
    const void *hello;
    size_t size;
};

static uint64_t peer_timeout_ms(void)
{
    return ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000;
}

static uint64_t job_timeout_ms(void)
{
    return ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
}

/* True if a communication or a message for the peer is outstanding. */
static bool has_work(const struct ut_link *link)
{
    return link->first != UT_NO_SLOT || link->unacked_first != NULL;
}

bool ut_link_pause_is_over(const struct ut_link *link)
{
    return link->state == UT_LINK_SILENT && ut_now_ms() >= link->pause_end_ms;
}

/* Actions of the state machine */

/* Schedules the next attempt to connect after the back-off. */
static void retry_later(struct ut_link *link)
{
    link->backoff_ms = ut_fsm_backoff_ms(link->backoff_ms);
    link->retry_ms = ut_now_ms() + link->backoff_ms;
    ut_link_schedule(link);
}

/* Gives the attempts to connect a new deadline and a new back-off. */
static void set_deadline(struct ut_link *link, uint64_t limit_ms)
{
    link->limit_ms = limit_ms;
    link->deadline_ms = ut_now_ms() + limit_ms;
    link->backoff_ms = 0;
}

/* Waits up to UT_FSM_CROSSED_WAIT_MS for the peer's connect request. */
static void await_peer_request(struct ut_link *link)
{
    link->retry_ms = ut_now_ms() + UT_FSM_CROSSED_WAIT_MS;
    ut_link_schedule(link);
}

/* Fails all outstanding communications with `rc`, and drops the unacknowledged messages. */
static void fail_all(struct ut_link *link, int rc)
{
    link->backoff_ms = 0;
    ut_link_free_unacked(link);
    link->vcq->link_ops->fail_all(link, rc);
}

/* The peer is silent: fails all outstanding communications, and starts a pause. */
static void pause_connecting(struct ut_link *link)
{
    link->pause_ms = ut_fsm_pause_ms(link->pause_ms, (uint32_t)peer_timeout_ms());
    link->pause_end_ms = ut_now_ms() + link->pause_ms;
    fail_all(link, UTOFU_ERR_MRQ_PEER);
}

/* Closes the connection. The outstanding communications must be posted again. */
static void close_connection(struct ut_link *link)
{
    link->ops->conn_close(link->conn);
    link->conn = NULL;
    ut_link_read_done(link, PROV_FLUSHED); /* the provider does not report an outstanding read */
    link->vcq->link_ops->repost_all(link);
}

/* Asks the provider whether the connection may reorder writes. */
static void query_order(struct ut_link *link)
{
    link->any_order = link->ops->any_order && link->ops->any_order(link->conn);
}

/* Executes the transition of the event: sets the next state, then performs the action. `handshake`:
 * the message that caused the event; NULL: none. */
static void apply_event(struct ut_link *link, enum ut_fsm_event event,
                        const struct handshake *handshake);

/* Applies an event that may fail all outstanding communications. `detail` of the cause: see enum
 * ut_cause. */
static void apply_event_with_cause(struct ut_link *link, enum ut_fsm_event event,
                                   enum ut_cause cause, uint64_t detail)
{
    link->why = (struct ut_failure){.cause = (uint8_t)cause, .detail = detail};
    apply_event(link, event, NULL);
}

/* Closes the connection to an incompatible peer before anything uses the connection. */
static void reject_incompatible(struct ut_link *link)
{
    struct prov_conn *conn = link->conn;

    link->conn = NULL;
    link->ops->conn_close(conn);
    apply_event_with_cause(link, UT_FSM_INCOMPATIBLE, UT_CAUSE_INCOMPATIBLE, 0);
}

/* The connection is up: sets up the link for it, processes the peer's hello, and posts. */
static void complete_connection(struct ut_link *link, const struct handshake *handshake)
{
    UT_ASSERT(link->reading == UT_STAG_NONE);
    link->mapping = link->ops->mapping ? link->ops->mapping(link->conn) : NULL;
    query_order(link);
    link->serial++;
    ut_debug("link", "VCQ %016llx: connected over %s", (unsigned long long)link->peer,
             link->ops->name);
    link->vcq->link_ops->connected(link);
    link->was_up = true;
    link->up_ms = ut_now_ms();
    link->backoff_ms = link->pause_ms = 0;
    ut_rails_enable(link);
    if (ut_link_process_hello(link, handshake->hello, handshake->size))
        link->vcq->link_ops->post_waiting(link);
    else
        reject_incompatible(link);
}

/* Looks up the owner, sends it a connect request, and applies the resulting event. */
static void connect_to_owner(struct ut_link *link)
{
    struct ut_link_outcome outcome = ut_link_connect_to_owner(link);

    if (outcome.why.cause != UT_CAUSE_NONE)
        link->why = outcome.why;
    apply_event(link, outcome.event, NULL);
}

/* Returns the event for a connection that was closed in an orderly way. */
static enum ut_fsm_event closed_event(const struct ut_link *link)
{
    return has_work(link) && !link->passive ? UT_FSM_CLOSED_WITH_WORK : UT_FSM_CLOSED_IDLE;
}

/* Accepts the peer's request; rejects it if memory is short. */
static void accept_request(struct ut_link *link, const struct handshake *handshake)
{
    struct ut_hello own_hello;
    bool has_tables = ut_link_alloc_rx_announced(link);

    ut_link_use_endpoint(link, handshake->e);
    ut_link_reset_rx_of_new_incarnation(link, handshake->hello, handshake->size);
    ut_link_fill_hello(link, (uint16_t)(link->serial + 1), &own_hello);
    if (!has_tables)
        link->ops->reject(handshake->conn);
    if (!has_tables ||
        link->ops->accept(handshake->conn, &own_hello, sizeof(own_hello), link) != 0) {
        /* the provider has logged the error; a side with work tries again */
        apply_event(link, closed_event(link), NULL);
        return;
    }
    link->conn = handshake->conn;
    apply_event(link, UT_FSM_ACCEPT_SENT, handshake);
}

static void do_action(struct ut_link *link, enum ut_fsm_action action,
                      const struct handshake *handshake)
{
    switch (action) {
    case UT_FSM_RESOLVE_NEW:
        /* a peer may call the library for the first time much later than this process */
        set_deadline(link, job_timeout_ms());
        connect_to_owner(link);
        break;
    case UT_FSM_RESOLVE:
        connect_to_owner(link);
        break;
    case UT_FSM_RETRY_NEW:
        set_deadline(link, job_timeout_ms());
        retry_later(link);
        break;
    case UT_FSM_RECONNECT:
        set_deadline(link, peer_timeout_ms());
        retry_later(link);
        break;
    case UT_FSM_RETRY:
        retry_later(link);
        break;
    case UT_FSM_AWAIT_REQUEST:
        await_peer_request(link);
        break;
    case UT_FSM_POST:
        link->vcq->link_ops->post_waiting(link);
        break;
    case UT_FSM_ACCEPT:
        accept_request(link, handshake);
        break;
    case UT_FSM_REPLACE:
        close_connection(link);
        accept_request(link, handshake);
        break;
    case UT_FSM_REJECT:
        handshake->e->ops->reject(handshake->conn);
        break;
    case UT_FSM_COMPLETE:
        complete_connection(link, handshake);
        break;
    case UT_FSM_QUERY_ORDER:
        query_order(link);
        break;
    case UT_FSM_FAIL_PEER:
        fail_all(link, UTOFU_ERR_MRQ_PEER);
        break;
    case UT_FSM_FAIL_LOCAL:
        fail_all(link, UTOFU_ERR_MRQ_OTHER);
        break;
    case UT_FSM_PAUSE:
        pause_connecting(link);
        break;
    case UT_FSM_NOTHING:
    case UT_FSM_IMPOSSIBLE:
    case UT_FSM_ACTIONS:
        break;
    }
}

static void apply_event(struct ut_link *link, enum ut_fsm_event event,
                        const struct handshake *handshake)
{
    struct ut_fsm_step step = ut_fsm_step((enum ut_link_state)link->state, event);

    UT_ASSERT(step.action != UT_FSM_IMPOSSIBLE);
    if (step.action == UT_FSM_IMPOSSIBLE)
        ut_error("link", "VCQ %016llx: event '%s' in state '%s' is an error in the library",
                 (unsigned long long)link->peer, ut_fsm_event_name(event),
                 ut_fsm_state_name(link->state));
    link->state = step.next;
    do_action(link, (enum ut_fsm_action)step.action, handshake);
}

/* Event sources */

void ut_link_start_connecting(struct ut_link *link)
{
    if (link->passive)
        return;
    if (ut_link_pause_is_over(link))
        apply_event(link, UT_FSM_PAUSE_OVER, NULL);
    apply_event(link, UT_FSM_WORK_QUEUED, NULL);
}

/* True unless the link still waits for retry_ms. */
static bool is_due(const struct ut_link *link, uint64_t now)
{
    return now >= link->retry_ms ||
           (link->state != UT_LINK_RESOLVING && link->state != UT_LINK_AWAITING);
}

/* Closes the link, which has lost a message or an announced STADD: see schedule_link_failure(). */
static void fail_no_memory(struct ut_link *link)
{
    if (link->conn)
        close_connection(link);
    apply_event_with_cause(link, UT_FSM_NO_MEMORY, UT_CAUSE_NO_MEMORY, 0);
}

int ut_link_run_scheduled(struct ut_vcq *vcq)
{
    struct ut_link *list = vcq->scheduled_links;
    uint64_t now = ut_now_ms();
    int ended = 0;

    vcq->scheduled_links = NULL;
    vcq->runs_scheduled = true;
    while (list) {
        struct ut_link *link = list;
        list = link->next_scheduled;
        link->is_scheduled = false;
        if (link->lacks_memory && !ut_link_is_given_up(link))
            fail_no_memory(link);
        else if (is_due(link, now))
            apply_event(link, UT_FSM_TIMER, NULL);
        else
            ut_link_schedule(link);
        ended += !link->is_scheduled;
    }
    vcq->runs_scheduled = false;
    return ended;
}

uint64_t ut_link_next_deadline(const struct ut_vcq *vcq, uint64_t now)
{
    uint64_t until = UINT64_MAX;

    for (const struct ut_link *link = vcq->scheduled_links; link; link = link->next_scheduled) {
        uint64_t due = is_due(link, now) ? now : link->retry_ms;
        until = due < until ? due : until;
    }
    return until;
}

void ut_link_on_up(struct ut_link *link, const void *hello, size_t size)
{
    apply_event(link, UT_FSM_ESTABLISHED, &(struct handshake){.hello = hello, .size = size});
}

/* Returns the second link of a connection of the VCQ to itself. This accepting link only receives
 * and replies. The link outlives the connection, since it counts the received messages. */
static struct ut_link *get_passive_link(struct ut_vcq *vcq, utofu_vcq_id_t id)
{
    struct ut_vcq_ident ident;

    if (!vcq->passive && ut_vcq_id_unpack(id, &ident))
        vcq->passive = ut_link_new(vcq, &ident);
    if (vcq->passive)
        vcq->passive->passive = true;
    return vcq->passive;
}

/* Returns the link to the peer that requests a connection, a new one if necessary. NULL: invalid
 * key, or no memory. Leaves last_link unchanged. */
static struct ut_link *get_link_of_request(struct ut_vcq *vcq, uint64_t peer_key)
{
    struct ut_link *last = vcq->last_link, *link;
    utofu_vcq_id_t last_id = vcq->last_id, id;

    if (!ut_vcq_id_of_key(peer_key, &id))
        return NULL;
    if (peer_key == ut_vcq_id_key(vcq->id))
        return get_passive_link(vcq, id);
    link = ut_link_get(vcq, id);
    ut_link_set_last(vcq, last, last_id);
    return link;
}

/* True if both sides sent a request, and this VCQ has the smaller id. False if the connection is up
 * here: then the peer has noticed a break before this side did. */
static bool own_request_wins(const struct ut_link *link)
{
    return link->state == UT_LINK_CONNECTING && ut_vcq_id_key(link->vcq->id) < link->id_key;
}

void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_key, const void *hello, size_t size)
{
    struct ut_link *link = get_link_of_request(vcq, peer_key);
    const struct handshake handshake = {
        .e = ut_link_find_endpoint(vcq, prov->ops), .conn = conn, .hello = hello, .size = size};

    if (!link || link->lacks_memory || ut_link_request_is_outdated(link, hello, size))
        prov->ops->reject(conn);
    else
        apply_event(link,
                    own_request_wins(link) ? UT_FSM_REQUESTS_CROSSED : UT_FSM_REQUEST_RECEIVED,
                    &handshake);
}

/* The provider closed an idle connection, either to free the resources of the connection or to
 * replace the connection by one with longer queues. Frees memory that an idle link does not need.
 * The next connection reads the peer's table again, and both sides announce their STADDs again. */
static void handle_suspended(struct ut_link *link)
{
    ut_link_drop_stag_cache(link);
    ut_announced_clear(&link->tx_announced);
    ut_announced_clear(&link->rx_announced);
    ut_link_free_spare_buffers(link);
    apply_event(link, closed_event(link), NULL);
}

/* Counts consecutive connections that broke soon after they came up while the same communication
 * was the oldest: this communication may be the cause. rdma_rxe of Linux 6.12 reports a bad local
 * key only as a failed queue pair (rxe_sender() and flush_send_queue() in
 * drivers/infiniband/sw/rxe). */
static bool breaks_repeatedly(struct ut_link *link)
{
    bool is_early = link->first != UT_NO_SLOT && ut_now_ms() - link->up_ms < UT_FSM_EARLY_BREAK_MS;

    link->breaks = !is_early ? 0 : link->first == link->breaks_slot ? link->breaks + 1 : 1;
    link->breaks_slot = link->first;
    return link->breaks >= UT_FSM_MAX_BREAKS;
}

/* The connection broke, or an attempt failed, and the peer may still be alive. */
static void handle_broken(struct ut_link *link)
{
    if (!has_work(link))
        apply_event(link, UT_FSM_CLOSED_IDLE, NULL);
    else if (link->state == UT_LINK_UP && breaks_repeatedly(link))
        apply_event_with_cause(link, UT_FSM_BROKEN_REPEATEDLY, UT_CAUSE_BROKEN_REPEATEDLY,
                               link->breaks);
    else if (link->state == UT_LINK_UP || ut_now_ms() < link->deadline_ms)
        apply_event(link, UT_FSM_BROKEN, NULL);
    else
        apply_event_with_cause(link, UT_FSM_DEADLINE_PASSED, UT_CAUSE_LOST, link->limit_ms / 1000);
}

/* The peer rejected the request. After crossed requests the peer rejects once or twice. A peer that
 * has given up this link rejects every request. */
static void handle_rejected(struct ut_link *link)
{
    if (ut_now_ms() < link->deadline_ms + peer_timeout_ms())
        apply_event(link, UT_FSM_REJECTED, NULL);
    else
        apply_event_with_cause(link, UT_FSM_REJECTED_TOO_LONG, UT_CAUSE_LOST,
                               (link->limit_ms + peer_timeout_ms()) / 1000);
}

/* Warns once if the peer has lacked the VCQ for long, and the program seems to have calculated the
 * id with the wrong CQ (control queue). `until`: when the communications fail. */
static void warn_no_vcq(struct ut_link *link, uint64_t until)
{
    uint64_t now = ut_now_ms(), waited = peer_timeout_ms() - (until - now);
    struct ut_vcq_ident ident;
    char text[256];

    if (link->no_vcq_warned || (waited < UT_LONG_WAIT_MS && waited < peer_timeout_ms() / 2))
        return;
    link->no_vcq_warned = true;
    ut_vcq_id_unpack(link->peer, &ident);
    if (ut_vcq_ident_is_of_program(&ident) && ut_peers_explain_wrong_cq(&ident, text, sizeof(text)))
        ut_warn("link",
                "VCQ %016llx (TNI %u, CQ %u, component %u) does not exist: %s; communications wait "
                "for it, and fail after %llu s (UTOFU_PEER_TIMEOUT)",
                (unsigned long long)link->peer, ident.tni, ident.cq, ident.cmp, text,
                (unsigned long long)peer_timeout_ms() / 1000);
}

/* The peer does not have this VCQ: the program may create the VCQ later, or has freed it. */
static void handle_no_endpoint(struct ut_link *link)
{
    uint64_t until = link->deadline_ms - link->limit_ms + peer_timeout_ms();

    if (!link->was_up && ut_now_ms() <= until) {
        warn_no_vcq(link, until);
        apply_event(link, has_work(link) ? UT_FSM_BROKEN : UT_FSM_CLOSED_IDLE, NULL);
    } else {
        apply_event_with_cause(link, UT_FSM_NO_OWNER,
                               link->was_up ? UT_CAUSE_FREED : UT_CAUSE_NO_VCQ,
                               peer_timeout_ms() / 1000);
    }
}

void ut_link_on_down(struct ut_link *link, enum prov_reason reason)
{
    close_connection(link);
    ut_debug("link", "VCQ %016llx: connection %s (reason %d)", (unsigned long long)link->peer,
             link->state == UT_LINK_CONNECTING ? "failed" : "down", (int)reason);
    if (link->passive) {
        apply_event(link, UT_FSM_CLOSED_IDLE, NULL);
        return;
    }
    switch (reason) {
    case PROV_REASON_PEER_DEAD:
        apply_event_with_cause(link, UT_FSM_PEER_DIED, UT_CAUSE_DEAD, 0);
        break;
    case PROV_REASON_SILENT:
        apply_event_with_cause(link, UT_FSM_PEER_SILENT, UT_CAUSE_SILENT, peer_timeout_ms() / 1000);
        break;
    case PROV_REASON_REFUSED:
        apply_event_with_cause(link, UT_FSM_PEER_SILENT, UT_CAUSE_REFUSED, 0);
        break;
    case PROV_REASON_LOCAL:
        apply_event_with_cause(link, UT_FSM_LOCAL_ERROR, UT_CAUSE_DEVICE, 0);
        break;
    case PROV_REASON_REJECTED:
        handle_rejected(link);
        break;
    case PROV_REASON_NO_ENDPOINT:
        handle_no_endpoint(link);
        break;
    case PROV_REASON_SUSPENDED:
    case PROV_REASON_RESIZE_QUEUES:
        handle_suspended(link);
        break;
    case PROV_REASON_BROKEN:
    case PROV_REASON_CLOSED:
        handle_broken(link);
        break;
    }
}

/* Destruction of a VCQ */

/* Saves the receive count for the next VCQ with this id: the peer goes on from there. */
static void save_rx_history(const struct ut_link *link)
{
    uint64_t own = ut_vcq_id_key(link->vcq->id);

    if (link->peer_incarnation != 0 && link->id_key != own)
        ut_rx_history_save(own, link->id_key,
                           (struct ut_rx_history){.incarnation = link->peer_incarnation,
                                                  .count = link->rx_number});
}

void ut_link_destroy_all(struct ut_vcq *vcq)
{
    while (vcq->all_links) {
        struct ut_link *link = vcq->all_links;
        vcq->all_links = link->all_next;
        save_rx_history(link);
        if (link->conn)
            link->ops->conn_close(link->conn);
        ut_rails_close(link);
        ut_link_drop_stag_cache(link);
        ut_link_free_unacked(link);
        ut_link_free_spare_buffers(link);
        while (link->early_first) {
            struct ut_link_early_notice *early = link->early_first;
            link->early_first = early->next;
            free(early);
        }
        ut_announced_clear(&link->tx_announced);
        ut_announced_clear(&link->rx_announced);
        free(link);
    }
    ut_hash_free(&vcq->links_by_key);
    vcq->scheduled_links = NULL;
    vcq->passive = NULL;
    ut_link_set_last(vcq, NULL, 0);
}
