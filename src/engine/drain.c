/* SPDX-License-Identifier: Apache-2.0 */
/* Drains a VCQ that is freed or whose process ends, and reports outstanding communications. */
#include <stdio.h>

#include "engine/inner.h"
#include "peers/peers.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/long_wait.h"

enum { EMPTY_WRITES_MS = 10, TEXT_SIZE = 384 };

static bool is_idle(const struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        if (link->first != UT_NO_SLOT || link->unacked_first)
            return false;
    }
    return true;
}

/* The outstanding communications, the number of their links, and the link with the largest number
 * of them. */
struct outstanding {
    unsigned int communications, messages, links;
    const struct ut_link *most_loaded;
    struct ut_link_pending load;
};

static struct outstanding find_outstanding(const struct ut_vcq *vcq)
{
    struct outstanding all = {0};
    unsigned int max = 0;

    for (const struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        struct ut_link_pending n = ut_link_pending(link);
        unsigned int communications = n.waiting + n.posted + n.done;
        if (communications + n.messages == 0)
            continue;
        all.communications += communications;
        all.messages += n.messages;
        all.links++;
        if (!all.most_loaded || communications > max) {
            max = communications;
            all.most_loaded = link;
            all.load = n;
        }
    }
    return all;
}

static const char *rank_of(utofu_vcq_id_t id, char *buf, size_t size)
{
    struct ut_vcq_ident ident;
    bool certain;

    *buf = '\0';
    if (!ut_vcq_id_unpack(id, &ident) || !ut_vcq_ident_is_of_program(&ident))
        return buf;
    int64_t rank = ut_peers_likely_rank(&ident, &certain);
    if (rank >= 0)
        snprintf(buf, size, " (%srank %lld)", certain ? "" : "probably ", (long long)rank);
    return buf;
}

/* Writes for instance "3 communications to VCQ 00000000009c22ff (rank 1), whose connection waits
 * for completions". */
static void describe_outstanding(const struct outstanding *all, char *buf, size_t size)
{
    unsigned int n = all->communications ? all->communications : all->messages;
    char rank[48], others[64] = "";

    if (all->links > 1)
        snprintf(others, sizeof(others), ", and to %u other VCQ%s", all->links - 1,
                 all->links == 2 ? "" : "s");
    snprintf(buf, size, "%u %s%s%s to VCQ %016llx%s%s; that connection waits for %s", n,
             all->communications ? "communication" : "message", n == 1 ? "" : "s",
             all->communications ? "" : " of the library",
             (unsigned long long)all->most_loaded->peer,
             rank_of(all->most_loaded->peer, rank, sizeof(rank)), others,
             ut_link_wait_reason(all->most_loaded, &all->load));
}

static void warn_waiting(const struct ut_vcq *vcq, const char *who, unsigned long long seconds,
                         unsigned long long left)
{
    struct outstanding all = find_outstanding(vcq);
    char what[TEXT_SIZE];

    if (!all.most_loaded)
        return;
    describe_outstanding(&all, what, sizeof(what));
    ut_warn("engine",
            "%s has waited %llu s for VCQ %016llx: %s; %llu s are left (UTOFU_PEER_TIMEOUT). A "
            "program that polls until its communications are complete does not wait here",
            who, seconds, (unsigned long long)vcq->id, what, left);
}

static void warn_abandoned(const struct ut_vcq *vcq, const char *who, unsigned long long seconds)
{
    struct outstanding all = find_outstanding(vcq);
    char what[TEXT_SIZE];

    if (!all.most_loaded)
        return;
    describe_outstanding(&all, what, sizeof(what));
    ut_warn("engine",
            "%s abandoned the communications under way on VCQ %016llx after %llu s "
            "(UTOFU_PEER_TIMEOUT): %s; they may or may not have been executed",
            who, (unsigned long long)vcq->id, seconds, what);
}

void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms, const char *who)
{
    uint64_t now = ut_now_ms(), end = now + timeout_ms, next_empty_write = 0;
    struct ut_long_wait long_wait = ut_long_wait_begin(now);
    uint32_t rounds = 0;

    ut_engine_start_held(vcq, UINT32_MAX);
    for (; !is_idle(vcq); now = ut_now_ms()) {
        if (now >= end) {
            warn_abandoned(vcq, who, ut_long_wait_seconds(&long_wait, now));
            return;
        }
        if (ut_long_wait_must_log(&long_wait, now))
            warn_waiting(vcq, who, ut_long_wait_seconds(&long_wait, now), (end - now + 999) / 1000);
        if (now >= next_empty_write) {
            ut_engine_request_completions(vcq);
            next_empty_write = now + EMPTY_WRITES_MS;
        }
        ut_engine_progress(vcq);
        ut_unlock(&vcq->lock);
        ut_back_off_yielding(&rounds);
        ut_lock(&vcq->lock);
    }
}
