/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the process that owns the peer's VCQ, and sends it a connect request. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "link/owner.h"
#include "link/hello.h"
#include "peers/peers.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/long_wait.h"

const struct ut_vcq_ep *ut_link_find_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops)
{
    for (unsigned int i = 0; i < vcq->num_eps; i++) {
        if (vcq->eps[i].ops == ops)
            return &vcq->eps[i];
    }
    return NULL;
}

void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e)
{
    link->provider = (uint8_t)e->provider;
    link->ops = e->ops;
    link->source_copy_max = e->source_copy_max;
    link->write_inline = e->ops->write_inline;
    link->inline_max = e->ops->write_inline ? e->source_copy_max : 0;
}

bool ut_link_alloc_rx_announced(struct ut_link *link)
{
    if (ut_announced_alloc(&link->rx_announced))
        return true;
    ut_error("link", "no memory for the connection to VCQ %016llx: this process tries again later",
             (unsigned long long)link->peer);
    return false;
}

/* `detail` of the cause: see enum ut_cause (util/cause.h). */
static struct ut_link_outcome make_outcome(enum ut_fsm_event event, enum ut_cause cause,
                                           uint64_t detail)
{
    return (struct ut_link_outcome){.event = event,
                                    .why = {.cause = (uint8_t)cause, .detail = detail}};
}

static struct ut_link_outcome invalid_address_outcome(uint32_t rank)
{
    ut_error("link",
             "rank %u published an address that is not an address of this library; start it with "
             "the same library as this process (utofu-info --check); it cannot be reached",
             rank);
    return make_outcome(UT_FSM_NO_OWNER, UT_CAUSE_INVALID_ADDRESS, 0);
}

/* This process lacks a resource that may become free; the peer may be healthy. Returns TRY_LATER
 * before the deadline, then LOCAL_ERROR. */
static struct ut_link_outcome shortage_outcome(const struct ut_link *link, int rc, uint64_t now)
{
    if (now < link->deadline_ms)
        return make_outcome(UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0);
    ut_error("link",
             "this process could not connect to VCQ %016llx within %llu s: %s%s; communications "
             "with this VCQ fail, later ones try again",
             (unsigned long long)link->peer, (unsigned long long)link->limit_ms / 1000,
             strerror(-rc), ut_fd_limit_remedy(-rc));
    return make_outcome(UT_FSM_LOCAL_ERROR, UT_CAUSE_SHORTAGE, 0);
}

static struct ut_link_outcome send_connect_request(struct ut_link *link, const struct ut_peer *peer,
                                                   uint64_t now)
{
    struct ut_hello hello;
    const struct ut_vcq_ep *e =
        ut_link_find_endpoint(link->vcq, ut_process_peek()->prov[peer->provider]->ops);

    if (!e)
        return make_outcome(UT_FSM_LOCAL_ERROR, UT_CAUSE_DEVICE, 0);
    if (!ut_link_alloc_rx_announced(link))
        return shortage_outcome(link, -ENOMEM, now);
    ut_link_use_endpoint(link, e);
    ut_link_fill_hello(link, link->serial, &hello);
    int rc = link->ops->connect(e->ep, peer->addr, peer->addr_size, link->peer_tni, link->id_key,
                                &hello, sizeof(hello), link, &link->conn);
    if (rc == 0)
        return make_outcome(UT_FSM_REQUEST_SENT, UT_CAUSE_NONE, 0);
    link->conn = NULL;
    if (rc == -EPROTO)
        return invalid_address_outcome(peer->rank);
    if (rc == -EHOSTUNREACH)
        return make_outcome(UT_FSM_NO_OWNER, UT_CAUSE_UNREACHABLE, 0);
    if (rc == -ENOMEM)
        return shortage_outcome(link, rc, now);
    if (rc != -EAGAIN)
        return make_outcome(UT_FSM_LOCAL_ERROR, UT_CAUSE_DEVICE, 0);
    if (now < link->deadline_ms)
        return make_outcome(UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0);
    return make_outcome(UT_FSM_DEADLINE_PASSED, UT_CAUSE_LOST, link->limit_ms / 1000);
}

/* Warns once if the owner has not called the library for a long time. `rc`: error of the lookup. */
static void warn_owner_absent(struct ut_link *link, const struct ut_peer *owner, int rc,
                              uint64_t now)
{
    uint64_t allowed = ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    uint64_t waited = allowed - (link->deadline_ms - now);
    char who[48], text[640];

    if (link->owner_absent_warned || link->was_up ||
        (waited < allowed / 2 && waited < UT_LONG_WAIT_MS))
        return;
    link->owner_absent_warned = true;
    if (owner->rank == UT_NO_RANK)
        snprintf(who, sizeof(who), "the owner of VCQ %016llx", (unsigned long long)link->peer);
    else
        snprintf(who, sizeof(who), "rank %u", owner->rank);
    if (rc == -EBUSY)
        ut_warn("link",
                "%s cannot be looked up while the program is in MPI, which has the launcher's "
                "socket; communications with it wait for the next utofu call of this process, and "
                "fail after %llu s (UTOFU_JOB_TIMEOUT). With PMIx they need not wait",
                who, (unsigned long long)allowed / 1000);
    else if (owner->rank != UT_NO_RANK && ut_peers_absence_reason(owner->rank, text, sizeof(text)))
        ut_warn("link",
                "%s %s; communications with it wait, and fail after %llu s (UTOFU_JOB_TIMEOUT)",
                who, text, (unsigned long long)allowed / 1000);
    else
        ut_warn("link",
                "%s has not called the library yet; communications with it wait until it calls the "
                "library (for instance utofu_query_my_coords()) and the launcher reports this, and "
                "fail after %llu s (UTOFU_JOB_TIMEOUT)",
                who, (unsigned long long)allowed / 1000);
}

/* Returns the cause for a failed lookup of the owner. */
static enum ut_cause cause_from_errno(int rc)
{
    return rc == -EAGAIN         ? UT_CAUSE_NOT_STARTED
           : rc == -ENOENT       ? UT_CAUSE_NO_OWNER
           : rc == -EHOSTUNREACH ? UT_CAUSE_UNREACHABLE
                                 : UT_CAUSE_INVALID_ADDRESS;
}

struct ut_link_outcome ut_link_connect_to_owner(struct ut_link *link)
{
    uint64_t now = ut_now_ms(), timeout_s = ut_env_num(UT_ENV_JOB_TIMEOUT);
    struct ut_vcq_ident ident;
    struct ut_peer peer;

    ut_vcq_id_unpack(link->peer, &ident);
    int rc = ut_vcq_ident_is_of_program(&ident)
                 ? ut_peers_find_owner(&ident, &peer)
                 : ut_peers_find_local_rank(&ident.coords, ident.cq, &peer);
    if (rc == 0)
        return send_connect_request(link, &peer, now);
    if ((rc == -EAGAIN || rc == -EBUSY) && now < link->deadline_ms) {
        warn_owner_absent(link, &peer, rc, now);
        return make_outcome(UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0);
    }
    if (ut_peers_is_shortage(rc))
        return shortage_outcome(link, rc, now);
    if (rc == -EAGAIN)
        ut_warn("link",
                "the owner of VCQ %016llx has not called the library within %llu s, or the "
                "launcher has not reported this (UTOFU_JOB_TIMEOUT)",
                (unsigned long long)link->peer, (unsigned long long)timeout_s);
    return make_outcome(UT_FSM_NO_OWNER, cause_from_errno(rc), timeout_s);
}
