/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange itself. A sender's puts of a round wait in session-mode VCQs, one for each group of
 * targets, and the RTRs of the targets free them. A group of one target (FAST) has its puts alone
 * in its block, and the RTR frees them all. In a block that serves several targets (MRC) nothing
 * may leave before all of them are ready:
 *
 *     [NOP, one less than targets] [SELF] [puts...]
 *
 * Each RTR has an SPS of 1, so the last of them, whichever it is, reaches SELF, a put of the VCQ to
 * itself, whose SPS frees the puts; 15 at most, so that more of the kind among them free the rest.
 *
 * A receiver sends the RTRs of a round only when all puts of the round before have arrived, so the
 * steps of two rounds never mix. One RTR serves all edges of a pair of processes.
 */
#include "layer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROBE_AFTER_MS = 200, PROBE_BYTES = 32, POOL = 256 };
enum { LOOKS = 2000, EAGER_LOOKS = 250 }; /* 0.1 ms; each of EAGER_LOOKS is of many */

struct pr_engine pr_engine;

uint64_t pr_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Those that have been closed, for requests to come: a peer that knows one is connected to it. */
static struct pr_vcq pool[POOL];
static size_t pool_size;

/*
 * No round is under way on it, so that its queues are empty and its schedule pointer is where its
 * descriptors end. If something went wrong, nobody can say that.
 */
void pr_vcq_close(struct pr_vcq *vcq, bool sound)
{
    if (vcq->session)
        pr_engine.vcqs_used--;
    if (sound && pool_size < POOL) {
        pool[pool_size++] = *vcq;
        return;
    }
    pr_expect(utofu_dereg_mem(vcq->hdl, vcq->scratch, 0), "utofu_dereg_mem");
    pr_expect(utofu_free_vcq(vcq->hdl), "utofu_free_vcq");
}

static bool take_from_pool(struct pr_vcq *vcq, bool session)
{
    for (size_t i = 0; i < pool_size; i++) {
        if (pool[i].session != session)
            continue;
        *vcq = pool[i];
        vcq->arrivals = 0;
        pool[i] = pool[--pool_size];
        return true;
    }
    return false;
}

/* On the next TNI that has one. */
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
        pr_expect(utofu_free_vcq(vcq->hdl), "utofu_free_vcq");
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

/* The puts of RTRs and probes have no entries but for errors. */
static void take_sent(int rc, const void *cbdata)
{
    struct pr_engine *e = &pr_engine;

    e->eager_done += cbdata == e; /* in the order of the puts */
    for (struct pr_xfer *x = e->xfers; rc != UTOFU_SUCCESS && x != NULL; x = x->next)
        if (x->lanes != NULL)
            pr_xfer_failed(x, rc);
}

/* The puts of lanes that are complete. */
void pr_engine_poll_sent(void)
{
    struct pr_engine *e = &pr_engine;
    void *cbdata;
    int rc;

    /* an empty poll may give the core away, which only somebody who waits should do */
    while (e->eager_done != e->eager_posted &&
           (rc = utofu_poll_tcq(e->free.hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND)
        take_sent(rc, cbdata);
}

/* What is left to do for puts that nobody waits for; and the errors of RTRs and probes. */
void pr_engine_poll(void)
{
    struct pr_engine *e = &pr_engine;
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(e->free.hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND)
        take_sent(rc, cbdata);
    while ((rc = utofu_poll_mrq(e->free.hdl, 0, &notice)) != UTOFU_ERR_NOT_FOUND) {
        if (rc == UTOFU_SUCCESS)
            continue;
        for (struct pr_xfer *x = e->xfers; x != NULL; x = x->next) {
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

unsigned int pr_put_descs(size_t bytes)
{
    size_t descs = (bytes + pr_engine.max_put - 1) / pr_engine.max_put;

    return descs > PR_BLOCK_MAX ? PR_BLOCK_MAX + 1 : (unsigned int)descs;
}

static unsigned int num_self_puts(unsigned int descs)
{
    unsigned int count = 1;

    for (; descs > PR_SPS_MAX; descs -= PR_SPS_MAX - 1)
        count++;
    return count;
}

/* Descriptors in the block of a group. */
unsigned int pr_group_descs(const struct pr_group *group)
{
    if (group->num_targets == 1)
        return group->num_descs;
    return group->num_targets - 1 + num_self_puts(group->num_descs) + group->num_descs;
}

unsigned int pr_target_sps(const struct pr_xfer *x, const struct pr_target *target)
{
    return x->groups[target->group].num_targets == 1 ? target->descs : 1;
}

/* The puts of a group, piece by piece. */
struct pieces {
    const struct pr_xfer *x;
    unsigned int group, target, put;
    size_t done; /* bytes of the put */
};

static bool prepare(struct pr_group *g, utofu_vcq_id_t to, utofu_stadd_t from, utofu_stadd_t at,
                    size_t bytes, unsigned long int flags)
{
    size_t size;

    if (utofu_prepare_put(g->vcq.hdl, to, from, at, bytes, 0, flags,
                          (char *)g->block + g->block_size, &size) != UTOFU_SUCCESS)
        return false;
    g->block_size += size;
    return true;
}

static bool prepare_piece(struct pieces *p, unsigned long int flags)
{
    const struct pr_xfer *x = p->x;

    while (x->targets[p->target].group != p->group)
        p->target++;
    const struct pr_target *t = &x->targets[p->target];
    const struct pr_put *put = &t->puts[p->put];
    size_t rest = put->bytes - p->done;
    size_t bytes = rest < pr_engine.max_put ? rest : pr_engine.max_put;

    if (bytes == rest && put->last) /* the notice comes when all of the block is there */
        flags |= UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    if (!prepare(&x->groups[p->group], t->rx, put->lcl + p->done, put->rmt + p->done, bytes, flags))
        return false;
    p->done += bytes;
    if (p->done == put->bytes) {
        p->done = 0;
        if (++p->put == t->num_puts) {
            p->put = 0;
            p->target++;
        }
    }
    return true;
}

static bool prepare_pieces(struct pieces *p, unsigned int count, bool last)
{
    for (unsigned int i = 0; i < count; i++)
        if (!prepare_piece(p, last && i == count - 1 ? UTOFU_ONESIDED_FLAG_TCQ_NOTICE : 0))
            return false;
    return true;
}

static bool prepare_self(struct pr_group *g, unsigned int sps)
{
    return prepare(g, g->vcq.id, g->vcq.scratch, g->vcq.scratch, 8, UTOFU_ONESIDED_FLAG_SPS(sps));
}

static bool prepare_nops(struct pr_group *g, unsigned int count)
{
    size_t size;

    for (unsigned int i = 0; i < count; i++) {
        if (utofu_prepare_nop(g->vcq.hdl, 0, (char *)g->block + g->block_size, &size) !=
            UTOFU_SUCCESS)
            return false;
        g->block_size += size;
    }
    return true;
}

static bool prepare_group(struct pr_xfer *x, unsigned int group)
{
    struct pr_group *g = &x->groups[group];
    struct pieces pieces = {.x = x, .group = group};
    unsigned int rest = g->num_descs;

    g->block = malloc(pr_group_descs(g) * pr_engine.desc_size);
    if (g->block == NULL)
        return false;
    if (g->num_targets == 1)
        return prepare_pieces(&pieces, rest, true);
    if (!prepare_nops(g, g->num_targets - 1))
        return false;
    /* each SELF but the last frees the next one first, so that it need not wait for the puts */
    unsigned int between = 0;
    while (rest > PR_SPS_MAX) {
        if (!prepare_self(g, PR_SPS_MAX) || !prepare_pieces(&pieces, between, false))
            return false;
        between = PR_SPS_MAX - 1;
        rest -= between;
    }
    return prepare_self(g, rest) && prepare_pieces(&pieces, between, false) &&
           prepare_pieces(&pieces, rest, true);
}

bool pr_xfer_prepare(struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_groups; i++)
        if (!prepare_group(x, i))
            return false;
    return true;
}

void pr_xfer_list(struct pr_xfer *x)
{
    x->next = pr_engine.xfers;
    pr_engine.xfers = x;
}

void pr_xfer_unlist(struct pr_xfer *x)
{
    struct pr_xfer **p = &pr_engine.xfers;

    while (*p != NULL && *p != x)
        p = &(*p)->next;
    if (*p == x)
        *p = x->next;
}

void pr_xfer_failed(struct pr_xfer *x, int rc)
{
    if (x->error == UTOFU_SUCCESS) {
        x->error = rc;
        x->error_rank = -1;
    }
}

/* The TOQ of the free-mode VCQ is full. */
void pr_engine_make_room(const struct pr_xfer *x, int rank, struct lc_patience *patience)
{
    if (lc_patience_ends(patience, 0))
        pr_warn("%s: has waited %llu s for room in the queue of uTofu (TOQ), for a put to rank %d "
                "of the communicator",
                x->call, lc_patience_seconds(patience), rank);
    pr_engine_poll();
}

static int try_rtr(const struct pr_source *s, unsigned int sps)
{
    struct pr_engine *e = &pr_engine;

    return utofu_put(e->free.hdl, s->session, e->free.scratch, s->scratch, 8, 0,
                     UTOFU_ONESIDED_FLAG_SPS(sps), NULL);
}

static void put_rtr(struct pr_xfer *x, const struct pr_source *s, unsigned int sps)
{
    int rc = try_rtr(s, sps);

    if (rc == UTOFU_ERR_BUSY) {
        struct lc_patience patience = {0};
        do
            pr_engine_make_room(x, s->rank, &patience);
        while ((rc = try_rtr(s, sps)) == UTOFU_ERR_BUSY);
    }
    if (rc != UTOFU_SUCCESS)
        pr_xfer_failed(x, rc);
}

/* The entries of the last round are free once its notice was taken. */
static void post_block(struct pr_xfer *x, const struct pr_group *g)
{
    struct lc_patience patience = {0};
    void *cbdata;
    int rc;

    while ((rc = utofu_post_toq(g->vcq.hdl, g->block, g->block_size, NULL)) == UTOFU_ERR_BUSY) {
        int last = utofu_poll_tcq(g->vcq.hdl, 0, &cbdata);
        if (last != UTOFU_SUCCESS && last != UTOFU_ERR_NOT_FOUND)
            pr_xfer_failed(x, last);
        if (lc_patience_ends(&patience, 0))
            pr_warn("%s: has waited %llu s for room in the queue of uTofu (TOQ) for the puts of a "
                    "round",
                    x->call, lc_patience_seconds(&patience));
    }
    if (rc != UTOFU_SUCCESS)
        pr_xfer_failed(x, rc);
}

void pr_xfer_start(struct pr_xfer *x)
{
    x->since = 0;
    x->looks = x->crowded ? 0 : x->lanes != NULL ? EAGER_LOOKS : LOOKS;
    if (x->lanes != NULL) {
        pr_eager_start(x);
        return;
    }
    x->missing = x->arrivals + x->num_groups;
    x->rx.missing = x->rx.arrivals;
    x->rx.ended = true;
    for (unsigned int i = 0; i < x->num_groups; i++) {
        x->groups[i].vcq.missing = x->groups[i].vcq.arrivals;
        x->groups[i].vcq.ended = false;
    }
    for (unsigned int i = 0; i < x->num_sources; i++) {
        unsigned int sps = x->sources[i].sps;

        for (; sps > PR_SPS_MAX; sps -= PR_SPS_MAX)
            put_rtr(x, &x->sources[i], PR_SPS_MAX);
        put_rtr(x, &x->sources[i], sps);
    }
    for (unsigned int i = 0; i < x->num_groups; i++)
        post_block(x, &x->groups[i]);
}

/*
 * Only for what has not come yet, as an empty poll may give the core away. Where nothing comes, the
 * MRQ may say that a put has failed.
 */
static void poll_vcq(struct pr_xfer *x, struct pr_vcq *vcq)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((vcq->missing != 0 || x->arrivals == 0) &&
           (rc = utofu_poll_mrq(vcq->hdl, 0, &notice)) != UTOFU_ERR_NOT_FOUND) {
        if (rc != UTOFU_SUCCESS) {
            pr_xfer_failed(x, rc);
        } else if (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT && vcq->missing > 0) {
            vcq->missing--;
            x->missing--;
        }
    }
    while (!vcq->ended && (rc = utofu_poll_tcq(vcq->hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND) {
        if (rc != UTOFU_SUCCESS) {
            pr_xfer_failed(x, rc);
        } else {
            vcq->ended = true;
            x->missing--;
        }
    }
}

/*
 * An empty poll gives the core to whoever else is there, for a whole time slice; where each process
 * has a core what is waited for comes long before that. So at first a look comes before each poll,
 * but not before those with which the wait begins: they are few, and often find all that is wanted.
 */
bool pr_xfer_looks(struct pr_xfer *x)
{
    if (x->looks > 0)
        x->looks--;
    return x->looks > 0;
}

static void poll_if_due(struct pr_xfer *x, struct pr_vcq *vcq, bool first)
{
    if (vcq->missing == 0 && vcq->ended && x->arrivals != 0)
        return;
    if (first || !pr_xfer_looks(x) || utofu_wait_vcqs(&vcq->hdl, 1, 0) != UTOFU_ERR_NOT_FOUND)
        poll_vcq(x, vcq);
}

/* Is the round over? Well, or with x->error. */
bool pr_xfer_poll(struct pr_xfer *x)
{
    if (x->lanes != NULL)
        return pr_eager_poll(x);
    if (x->missing != 0 && x->error == UTOFU_SUCCESS) {
        bool first = x->looks == LOOKS;

        x->looks -= first;
        for (unsigned int i = 0; i < x->num_groups; i++)
            poll_if_due(x, &x->groups[i].vcq, first);
        if (x->has_rx)
            poll_if_due(x, &x->rx, first);
    }
    return x->missing == 0 || x->error != UTOFU_SUCCESS;
}

/* A process whose blocks have not come; where several send to one VCQ, one of them. */
static int rank_of_missing_blocks(const struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_sources; i++)
        if (x->sources[i].rx != NULL && x->sources[i].rx->missing != 0)
            return x->sources[i].rank;
    return -1;
}

/* One whose RTR has not come, so that puts wait for it. */
static int rank_of_missing_rtr(const struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_targets && x->groups != NULL; i++)
        if (!x->groups[x->targets[i].group].vcq.ended)
            return x->targets[i].rank;
    return -1;
}

static void say_waiting(const struct pr_xfer *x)
{
    unsigned long long seconds = lc_patience_seconds(&x->patience);
    int from = x->lanes == NULL            ? rank_of_missing_blocks(x)
               : x->arrived < x->num_lanes ? x->lanes[x->arrived].rank
                                           : -1;
    int to = x->lanes == NULL && from < 0 ? rank_of_missing_rtr(x) : -1;

    if (from >= 0)
        pr_warn("%s: a round has waited %llu s for rank %d of the communicator, whose blocks have "
                "not come",
                x->call, seconds, from);
    else if (to >= 0)
        pr_warn("%s: a round has waited %llu s for rank %d of the communicator, which is not ready "
                "to receive",
                x->call, seconds, to);
    else
        pr_warn("%s: a round has waited %llu s for its own puts to be complete", x->call, seconds);
}

/*
 * Called now and then while somebody waits. A peer that died before it sent its RTR makes no
 * communication fail, so puts that do nothing else are sent to find out. They go to VCQs that live
 * as long as their processes.
 */
void pr_xfer_waiting(struct pr_xfer *x)
{
    uint64_t now = pr_now_ns();

    pr_engine_poll();
    if (x->since == 0) {
        x->since = now;
        x->next_probe = now + PROBE_AFTER_MS * 1000000ull;
        x->patience = (struct lc_patience){0};
    }
    if (lc_patience_ends(&x->patience, LC_PATIENCE_SLEEPS_FROM))
        say_waiting(x);
    if (now < x->next_probe)
        return;
    x->next_probe = now + PROBE_AFTER_MS * 1000000ull;
    for (unsigned int i = 0; i < x->num_peers; i++) {
        int rc = utofu_put(pr_engine.free.hdl, x->peers[i].free, pr_engine.free.scratch,
                           x->peers[i].scratch, PROBE_BYTES, 0, 0, NULL);
        if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_BUSY) /* without room, next time */
            pr_xfer_failed(x, rc);
    }
}
