/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the rounds of all requests: VCQs, the puts of the free-mode VCQ, and their errors. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

struct pr_engine pr_engine;

/*
 * Called when no round is in progress: the queues of the VCQ are empty, and its schedule pointer is
 * at the end of its descriptors. reusable: no error makes this uncertain.
 */
void pr_vcq_close(struct pr_vcq *vcq, bool reusable)
{
    if (vcq->session)
        pr_engine.vcqs_used--;
    if (reusable && pr_engine.pool_size < PR_POOL) {
        pr_engine.pool[pr_engine.pool_size++] = *vcq;
        return;
    }
    pr_check_rc(utofu_dereg_mem(vcq->hdl, vcq->scratch, 0), "utofu_dereg_mem");
    pr_check_rc(utofu_free_vcq(vcq->hdl), "utofu_free_vcq");
}

static bool take_from_pool(struct pr_vcq *vcq, bool session)
{
    for (size_t i = 0; i < pr_engine.pool_size; i++) {
        if (pr_engine.pool[i].session != session)
            continue;
        *vcq = pr_engine.pool[i];
        vcq->arrivals = 0;
        pr_engine.pool[i] = pr_engine.pool[--pr_engine.pool_size];
        return true;
    }
    return false;
}

/* Opens a VCQ on the next TNI that has a free one. */
bool pr_vcq_open(struct pr_vcq *vcq, bool session)
{
    struct pr_engine *e = &pr_engine;
    unsigned long int flags =
        UTOFU_VCQ_FLAG_THREAD_SAFE | (session ? UTOFU_VCQ_FLAG_SESSION_MODE : 0);
    int rc = UTOFU_ERR_FULL;

    if (session && e->vcqs_used >= pr_settings.vcqs)
        return false;
    if (take_from_pool(vcq, session)) {
        e->vcqs_used += session;
        return true;
    }
    for (size_t i = 0; rc != UTOFU_SUCCESS && i < e->num_tnis; i++)
        rc = utofu_create_vcq(e->tnis[e->next_tni++ % e->num_tnis], flags, &vcq->hdl);
    if (rc != UTOFU_SUCCESS)
        return false;
    vcq->session = session;
    if (utofu_query_vcq_id(vcq->hdl, &vcq->id) != UTOFU_SUCCESS ||
        utofu_reg_mem(vcq->hdl, e->scratch, PR_SCRATCH, 0, &vcq->scratch) != UTOFU_SUCCESS) {
        pr_check_rc(utofu_free_vcq(vcq->hdl), "utofu_free_vcq");
        return false;
    }
    if (session)
        e->vcqs_used++;
    return true;
}

static bool read_caps(void)
{
    struct pr_engine *e = &pr_engine;
    struct utofu_onesided_caps *caps;

    if (utofu_get_onesided_tnis(&e->tnis, &e->num_tnis) != UTOFU_SUCCESS || e->num_tnis == 0 ||
        utofu_query_onesided_caps(e->tnis[0], &caps) != UTOFU_SUCCESS ||
        !(caps->flags & UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE))
        return false;
    e->desc_size = caps->max_toq_desc_size;
    e->max_put = caps->max_putget_size / 4096 * 4096;
    return true;
}

bool pr_engine_open(void)
{
    struct pr_engine *e = &pr_engine;
    void *scratch;

    if (e->tried)
        return e->open;
    e->tried = true;
    if (!read_caps() || posix_memalign(&scratch, PR_SCRATCH, PR_SCRATCH) != 0)
        return false;
    memset(scratch, 0, PR_SCRATCH);
    e->scratch = scratch;
    e->eager_posted = e->eager_done = PR_COUNT_FROM;
    e->open = pr_vcq_open(&e->free, false);
    return e->open;
}

void pr_xfer_fail(struct pr_xfer *x, int rc)
{
    if (x->error == UTOFU_SUCCESS) {
        x->error = rc;
        x->error_rank = -1;
    }
}

/* Only puts of lanes have TCQ entries without errors; RTRs and probes do not. */
static void handle_sent(int rc, const void *cbdata)
{
    struct pr_engine *e = &pr_engine;
    struct pr_xfer *x;

    e->eager_done += cbdata == e; /* puts complete in order */
    if (rc == UTOFU_SUCCESS)
        return;
    LIST_FOREACH (x, &e->xfers, next)
        if (x->lanes != NULL)
            pr_xfer_fail(x, rc);
}

/* Takes completed puts of lanes. */
void pr_engine_poll_sent(void)
{
    struct pr_engine *e = &pr_engine;
    void *cbdata;
    int rc;

    /* only a waiting call should poll an empty queue, which may yield the core */
    while (e->eager_done != e->eager_posted &&
           (rc = utofu_poll_tcq(e->free.hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND)
        handle_sent(rc, cbdata);
}

/* Takes completions of puts that no call waits for, and the errors of RTRs and probes. */
void pr_engine_poll(void)
{
    struct pr_engine *e = &pr_engine;
    struct utofu_mrq_notice notice;
    struct pr_xfer *x;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(e->free.hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND)
        handle_sent(rc, cbdata);
    while ((rc = utofu_poll_mrq(e->free.hdl, 0, &notice)) != UTOFU_ERR_NOT_FOUND) {
        if (rc == UTOFU_SUCCESS)
            continue;
        LIST_FOREACH (x, &e->xfers, next) {
            int rank = -1;

            for (unsigned int i = 0; i < x->num_sources && rank < 0; i++)
                if (x->sources[i].session == notice.vcq_id)
                    rank = x->sources[i].rank;
            for (unsigned int i = 0; i < x->num_peers && rank < 0; i++)
                if (x->peers[i].free == notice.vcq_id)
                    rank = x->peers[i].rank;
            if (rank >= 0 && x->error == UTOFU_SUCCESS) {
                x->error = rc;
                x->error_rank = rank;
            }
        }
    }
}

/* Called when the TOQ of the free-mode VCQ is full. */
void pr_engine_poll_for_room(const struct pr_xfer *x, int rank, struct lc_stall_timer *stall)
{
    if (lc_stall_should_log(stall, 0))
        pr_warn("%s: has waited %llu s for room in the queue of uTofu (TOQ), for a put to rank %d "
                "of the communicator",
                x->call, lc_stall_seconds(stall), rank);
    pr_engine_poll();
}

void pr_engine_add_xfer(struct pr_xfer *x)
{
    LIST_INSERT_HEAD(&pr_engine.xfers, x, next);
}

void pr_engine_remove_xfer(struct pr_xfer *x)
{
    LIST_REMOVE(x, next);
}

/*
 * True: skip this poll. An empty poll may yield the core to another process for a whole time slice.
 * If each process has a core, data arrive long before that, so at first the caller checks memory
 * before each poll. The first polls of a wait are not skipped: they are few and often find
 * everything.
 */
bool pr_xfer_skip_poll(struct pr_xfer *x)
{
    if (x->memory_polls > 0)
        x->memory_polls--;
    return x->memory_polls > 0;
}
