/* SPDX-License-Identifier: Apache-2.0 */
/* Records the events that engine, link and api report, and writes them out. */
#include "stats/stats.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "peers/peers.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/decimal.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/file.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/thread.h"
#include "util/write.h"
#include "stats/dump.h"
#include "stats/region.h"
#include "stats/summary.h"

enum {
    FLUSH_EVERY_MS = 100,
    TOGETHER_NS = 10000000, /* empty polls at most this far apart are one wait */
    CLOCK_EVERY_POLLS = 16,
};

static struct {
    bool counting, tracing;
    const struct ut_job_info *job;
    uint64_t opened_at;
    pthread_t thread;
    bool has_thread;
    int wake_fd;
    uint32_t num_tracks;               /* atomic: number of VCQs so far, each with a track */
    uint32_t print_wanted, end_wanted; /* atomic */
    bool dumps_too;                    /* SIGUSR1 is also UTOFU_DUMP_SIGNAL: prints both */
} reporter = {.wake_fd = -1};

/*
 * Printing and writing
 */

static void print_all(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    fprintf(out,
            "utofu: stats: [rank %u] job size=%u seconds=%s looked_up=%u questions=%llu "
            "peer_bytes=%zu peer_bytes_per_rank=%s\n",
            reporter.job->rank, reporter.job->size,
            ut_decimal(ut_clock_ns() - reporter.opened_at, 1000000000, 3).text,
            ut_peers_num_requested(), (unsigned long long)ut_job_num_questions(), ut_peers_bytes(),
            ut_decimal(ut_peers_bytes(), reporter.job->size, 1).text);
    ut_stats_print(out, reporter.job->rank);
    ut_region_print(out, reporter.job->rank);
    if (fclose(out) == 0)
        ut_write_all(STDERR_FILENO, text, size);
    free(text);
}

/* Exchanges the buffer for an empty one, so that events are written without the lock of the VCQ. */
static void write_events(struct ut_vcq *vcq, void *arg)
{
    struct ut_stats_event **spare = arg;
    uint32_t n = 0;

    if (!ut_stats_lock(vcq))
        return;
    if (vcq->stats && vcq->stats->timeline.events && vcq->stats->timeline.num_events > 0 &&
        *spare) {
        struct ut_stats_event *full = vcq->stats->timeline.events;
        n = vcq->stats->timeline.num_events;
        vcq->stats->timeline.events = *spare;
        vcq->stats->timeline.num_events = 0;
        *spare = full;
    }
    ut_unlock(&vcq->lock);
    if (n > 0)
        ut_trace_write(*spare, n);
}

static void *thread_main(void *arg)
{
    struct ut_stats_event *spare = reporter.tracing ? ut_trace_memory() : NULL;
    struct pollfd fd = {.fd = reporter.wake_fd, .events = POLLIN};

    (void)arg;
    while (!__atomic_load_n(&reporter.end_wanted, __ATOMIC_ACQUIRE)) {
        uint64_t count;
        int due = poll(&fd, 1, ut_fd_timeout_ms(reporter.tracing ? FLUSH_EVERY_MS : -1));
        if (!ut_fd_check_still_ours(
                reporter.wake_fd)) /* without the descriptor, the thread checks at intervals */
            fd.fd = -1;
        else if (due > 0 && read(reporter.wake_fd, &count, sizeof(count)) < 0)
            continue;
        if (__atomic_exchange_n(&reporter.print_wanted, 0, __ATOMIC_ACQ_REL))
            print_all();
        if (reporter.tracing)
            ut_vcq_for_each(write_events, &spare);
        if (reporter.tracing)
            ut_region_flush();
    }
    ut_trace_free(spare);
    return NULL;
}

static void wake_thread(void)
{
    uint64_t one = 1;

    if (ut_fd_is_still_ours(reporter.wake_fd) && write(reporter.wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the thread is about to wake up */
}

static void on_signal(int number)
{
    int saved = errno;

    if (reporter.dumps_too)
        ut_dump_on_signal(number);
    __atomic_store_n(&reporter.print_wanted, 1, __ATOMIC_RELEASE);
    wake_thread();
    errno = saved;
}

static void end_events(struct ut_vcq *vcq);

static void end_live(struct ut_vcq *vcq, void *arg)
{
    (void)arg;
    if (!ut_stats_lock(vcq))
        return;
    if (vcq->stats)
        end_events(vcq);
    ut_unlock(&vcq->lock);
}

static void at_exit(void)
{
    if (ut_process_forked())
        return;
    if (reporter.has_thread) {
        __atomic_store_n(&reporter.end_wanted, 1, __ATOMIC_RELEASE);
        wake_thread();
        pthread_join(reporter.thread, NULL);
    }
    ut_region_end_all();
    if (ut_stats_is_for_job())
        ut_summary_finish(reporter.opened_at);
    else if (reporter.counting)
        print_all();
    if (reporter.tracing) {
        ut_region_flush();
        ut_vcq_for_each(end_live, NULL);
        ut_trace_close();
    }
}

static int start_thread(void)
{
    reporter.wake_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (reporter.wake_fd < 0)
        return -errno;
    int rc = ut_thread_create("utofu-watch", thread_main, NULL, &reporter.thread);
    reporter.has_thread = rc == 0;
    return rc;
}

/* Installs the handler, unless the program handles SIGUSR1 itself. With UTOFU_DUMP_SIGNAL=USR1 this
 * handler calls the other one. */
static void take_signal(void)
{
    struct sigaction old, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    if (sigaction(SIGUSR1, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO))
        return;
    reporter.dumps_too = old.sa_handler == ut_dump_on_signal;
    if (reporter.dumps_too || old.sa_handler == SIG_DFL)
        sigaction(SIGUSR1, &ours, NULL);
}

bool ut_stats_is_for_job(void)
{
    return ut_env_num(UT_ENV_STATS) >= UT_STATS_JOB;
}

int ut_stats_open(const struct ut_job_info *info, uint64_t host)
{
    const char *pattern = ut_env_str(UT_ENV_TRACE);
    char path[PATH_MAX], why[UT_FILE_WHY] = "";

    int dump = ut_dump_open(info->rank);
    if (dump != 0) {
        ut_error("stats", "cannot start the thread of UTOFU_DUMP_SIGNAL: %s", strerror(-dump));
        return UTOFU_ERR_FATAL;
    }
    reporter.counting = ut_env_num(UT_ENV_STATS) != 0;
    if (ut_env_num(UT_ENV_TRACE_RECORD))
        pattern = ""; /* record/ writes the file */
    if (!reporter.counting && !*pattern)
        return 0;
    if (ut_env_is_set(UT_ENV_STATS_FILE) && reporter.counting && !ut_stats_is_for_job())
        ut_warn("stats", "the file of UTOFU_STATS has no effect: it is for UTOFU_STATS=job");
    reporter.job = info;
    reporter.opened_at = ut_clock_ns();
    if (*pattern) {
        const struct ut_trace_job job = {info->rank, info->size, info->id, host};
        int rc = ut_trace_open(pattern, &job, ut_env_num(UT_ENV_TRACE_LIMIT) << 20, path, why);
        if (rc != 0) {
            ut_error("stats",
                     "environment variable UTOFU_TRACE: '%s' is not allowed: cannot write "
                     "%s: %s",
                     pattern, path, *why ? why : strerror(-rc));
            return UTOFU_ERR_FATAL;
        }
        reporter.tracing = true;
    }
    int rc = start_thread();
    if (rc != 0) {
        ut_error("stats", "cannot start the thread of UTOFU_STATS and UTOFU_TRACE: %s",
                 strerror(-rc));
        return UTOFU_ERR_FATAL;
    }
    if (reporter.counting)
        take_signal();
    return atexit(at_exit) == 0 ? 0 : UTOFU_ERR_FATAL;
}

/*
 * VCQs
 */

static void free_stats(struct ut_stats *stats)
{
    while (stats->peers) {
        struct ut_stats_peer *p = stats->peers;
        stats->peers = p->next;
        free(p);
    }
    ut_trace_free(stats->timeline.events);
    free(stats->ops);
    free(stats->credits);
    free(stats->gates);
    free(stats);
}

static void name_track(struct ut_stats *stats)
{
    struct ut_stats_event *e = ut_stats_event(stats, UT_EVENT_NAME, 0);

    if (!e)
        return;
    e->kind = stats->session ? UT_NAME_SESSION : UT_NAME_FREE;
    e->peer = stats->id;
    e->bytes = stats->tni;
    e->rank = stats->ident.cq;
    e->sps = (uint8_t)stats->ident.cmp;
}

bool ut_stats_attach(struct ut_vcq *vcq)
{
    if (!reporter.counting && !reporter.tracing)
        return true;
    struct ut_stats *stats = calloc(1, sizeof(*stats));
    if (!stats)
        return false;
    stats->id = vcq->id;
    stats->ident = vcq->ident;
    stats->tni = vcq->tni;
    stats->session = vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;
    stats->lives = 1;
    stats->track = __atomic_add_fetch(&reporter.num_tracks, 1, __ATOMIC_RELAXED);
    stats->starting = UT_NO_SLOT;
    stats->ops = calloc(vcq->toq_mask + 1ul, sizeof(*stats->ops));
    bool internal = !ut_vcq_ident_is_of_program(&vcq->ident), ok = stats->ops != NULL;
    if (stats->session)
        ok &= (stats->credits = calloc(UT_STATS_CREDITS, sizeof(*stats->credits))) != NULL;
    if (internal)
        ok &= (stats->gates = calloc(UT_NUM_GATES, sizeof(*stats->gates))) != NULL;
    if (reporter.tracing)
        ok &= (stats->timeline.events = ut_trace_memory()) != NULL;
    if (!ok) {
        free_stats(stats);
        return false;
    }
    vcq->stats = stats;
    vcq->slow_path = vcq->watched = true;
    vcq->mrq_alarm = 0;
    vcq->mrq_most = &stats->most_mrq;
    vcq->spin_limit = 0;
    if (!internal)
        name_track(stats);
    return true;
}

void ut_stats_detach(struct ut_vcq *vcq)
{
    struct ut_stats *stats = vcq->stats;

    if (!stats)
        return;
    end_events(vcq);
    vcq->stats = NULL;
    ut_stats_keep(stats);
    free_stats(stats);
}

static void find_rank(struct ut_stats_peer *p)
{
    struct ut_vcq_ident ident;
    struct ut_peer peer;

    if (p->rank >= 0 || !ut_vcq_id_unpack(p->id, &ident))
        return;
    int rc = ut_vcq_ident_is_of_program(&ident)
                 ? ut_peers_find_owner(&ident, &peer)
                 : ut_peers_find_local_rank(&ident.coords, ident.cq, &peer);
    if (rc == 0)
        p->rank = peer.rank;
}

/* The counters for the peer of a link. Without memory, counters that nobody reads. Never NULL. */
static struct ut_stats_peer *peer_of(struct ut_link *link)
{
    if (!link->stats) {
        link->stats = ut_stats_find_peer(link->vcq->stats, link->peer);
        if (!link->stats)
            return &link->vcq->stats->unseen;
    }
    if (link->stats->rank < 0)
        find_rank(link->stats); /* tried again, because the launcher may have been busy before */
    return link->stats;
}

/*
 * Arrows between processes: both sides compute the same id from data that both know
 */

static uint64_t message_flow(uint64_t from_session, uint64_t to_session, uint64_t number)
{
    return ut_stats_mix(ut_stats_mix(ut_stats_mix(1, from_session), to_session), number) | 1;
}

/*
 * Communications
 */

static void count_op(struct ut_stats_counts *c, const struct ut_stats_op *op)
{
    static const uint8_t counters[UT_STATS_KINDS] = {[UT_STATS_PUT] = UT_COUNT_PUTS,
                                                     [UT_STATS_GET] = UT_COUNT_GETS,
                                                     [UT_STATS_ARMW] = UT_COUNT_ARMWS,
                                                     [UT_STATS_NOP] = UT_COUNT_NOPS};

    c->n[counters[op->kind]]++;
    if (op->kind == UT_STATS_PUT)
        c->n[UT_COUNT_PUT_BYTES] += op->bytes;
    else if (op->kind == UT_STATS_GET)
        c->n[UT_COUNT_GET_BYTES] += op->bytes;
}

static void raise_mark(struct ut_stats_counts *c)
{
    if (c->open > c->n[UT_COUNT_MOST_UNDER_WAY])
        c->n[UT_COUNT_MOST_UNDER_WAY] = c->open;
}

void ut_stats_submit(struct ut_vcq *vcq, uint32_t n)
{
#define COUNTED_AS(NAME, FAMILY, traits, text) [UT_DESC_##NAME] = UT_STATS_##FAMILY,
    static const uint8_t kinds[] = {UT_KINDS(COUNTED_AS)};
#undef COUNTED_AS
    struct ut_stats *stats = vcq->stats;
    uint64_t now = ut_clock_ns();

    for (uint32_t i = 0; i < n; i++) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail + i);
        slot->desc.flags |= UT_DESC_COUNTED;
        slot->slow_end = true;
        stats->ops[slot - vcq->toq] = (struct ut_stats_op){.submitted = now,
                                                           .bytes = ut_desc_length(&slot->desc),
                                                           .kind = kinds[slot->desc.kind],
                                                           .edata = slot->desc.edata};
    }
    stats->counts.open += n;
    raise_mark(&stats->counts);
}

/* Session mode: the arrival time of the put that allowed descriptor number n to start. */
static uint64_t cause_of(struct ut_stats *stats, uint64_t n)
{
    while (stats->credit_head != stats->credit_tail) {
        const struct ut_stats_credit *c = &stats->credits[stats->credit_head % UT_STATS_CREDITS];
        if (c->upto > n)
            return c->at;
        stats->credit_head++;
    }
    return 0;
}

void ut_stats_start(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_stats *stats = vcq->stats;
    struct ut_stats_op *op = &stats->ops[slot - vcq->toq];

    stats->starting = (uint32_t)(slot - vcq->toq);
    if (stats->session)
        op->cause = cause_of(stats, vcq->started - 1);
    op->started = ut_clock_ns();
}

static void record_op(struct ut_vcq *vcq, const struct ut_slot *slot, bool unfinished)
{
    struct ut_stats *stats = vcq->stats;
    const struct ut_stats_op *op = &stats->ops[slot - vcq->toq];
    const struct ut_link *link = slot->link;
    struct ut_stats_event *e = ut_stats_event(stats, UT_EVENT_OP, op->started);

    if (!e)
        return;
    e->kind = op->kind;
    e->edata = op->edata;
    e->bytes = op->bytes;
    e->length = op->returned - op->started;
    e->done = op->done > op->returned ? op->done : 0;
    e->cause = op->cause;
    e->unfinished = unfinished;
    e->rc = slot->tcq_rc ? slot->tcq_rc : slot->mrq_rc;
    e->rank = -1;
    if (op->kind == UT_STATS_NOP || !link)
        return;
    e->peer = link->peer;
    e->rank = link->stats ? link->stats->rank : -1;
    if (slot->msg_number && e->rc == 0)
        e->flow = message_flow(vcq->incarnation, link->peer_incarnation, slot->msg_number);
}

void ut_stats_started(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_stats *stats = vcq->stats;
    struct ut_stats_op *op = &stats->ops[slot - vcq->toq];
    struct ut_stats_peer *p = NULL;

    op->returned = ut_clock_ns();
    stats->starting = UT_NO_SLOT;
    count_op(&stats->counts, op);
    if (op->kind != UT_STATS_NOP && slot->link) {
        p = peer_of(slot->link);
        count_op(&p->counts, op);
        p->counts.open++;
        raise_mark(&p->counts);
        if (op->done)
            p->counts.open--;
    }
    if (op->done) {
        record_op(vcq, slot, false);
    } else if (slot->state == UT_SLOT_RETIRED) { /* the slot was never on a link */
        UT_ASSERT(stats->counts.open > 0);
        stats->counts.open--;
        stats->counts.n[UT_COUNT_FAILED] += slot->tcq_rc != 0;
        op->done = op->returned;
        record_op(vcq, slot, false);
    } else if (slot->state == UT_SLOT_WAITING && p && !p->blocked_since) {
        p->blocked_since = op->started;
    }
}

void ut_stats_done(struct ut_link *link, const struct ut_slot *slot)
{
    static const uint8_t notice[] = {[UT_STATS_PUT] = UT_COUNT_LCL_PUT_NOTICES,
                                     [UT_STATS_GET] = UT_COUNT_LCL_GET_NOTICES,
                                     [UT_STATS_ARMW] = UT_COUNT_LCL_ARMW_NOTICES};
    struct ut_vcq *vcq = link->vcq;
    struct ut_stats *stats = vcq->stats;
    struct ut_stats_op *op = &stats->ops[slot - vcq->toq];
    struct ut_stats_peer *p = peer_of(link);
    bool noticed = slot->mrq_rc ||
                   (!slot->tcq_rc && (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE));

    op->done = ut_clock_ns();
    stats->counts.open--;
    if (noticed) {
        stats->counts.n[notice[op->kind]]++;
        p->counts.n[notice[op->kind]]++;
    }
    if (slot->tcq_rc || slot->mrq_rc) {
        stats->counts.n[UT_COUNT_FAILED]++;
        p->counts.n[UT_COUNT_FAILED]++;
    }
    if (stats->starting == (uint32_t)(slot - vcq->toq))
        return; /* ut_stats_started() continues */
    p->counts.open--;
    record_op(vcq, slot, false);
}

void ut_stats_retry(struct ut_link *link)
{
    peer_of(link)->counts.n[UT_COUNT_RETRIES]++;
}

void ut_stats_parted(struct ut_link *link)
{
    peer_of(link)->counts.n[UT_COUNT_PARTED]++;
}

void ut_stats_srq_low(struct ut_vcq *vcq)
{
    vcq->stats->counts.n[UT_COUNT_CROWDED]++;
}

void ut_stats_conn_evicted(struct ut_link *link)
{
    peer_of(link)->counts.n[UT_COUNT_RESTS]++;
}

void ut_stats_check_blocked(struct ut_link *link)
{
    struct ut_stats_peer *p = peer_of(link);

    if (p->blocked_since && link->to_post == UT_NO_SLOT) {
        p->counts.n[UT_COUNT_BLOCKED] += ut_clock_ns() - p->blocked_since;
        p->blocked_since = 0;
    }
}

void ut_stats_busy(struct ut_vcq *vcq)
{
    vcq->stats->counts.n[UT_COUNT_BUSY]++;
}

/*
 * Waiting
 */

void ut_stats_empty_poll(struct ut_vcq *vcq)
{
    struct ut_stats *stats = vcq->stats;

    if (++stats->counts.n[UT_COUNT_EMPTY_POLLS] % CLOCK_EVERY_POLLS != 0 && stats->empty_first)
        return; /* reading the clock takes longer than a poll */
    uint64_t now = ut_clock_ns();
    if (stats->empty_first && now - stats->empty_last <= TOGETHER_NS)
        stats->counts.n[UT_COUNT_BLOCKED] += now - stats->empty_last;
    else
        stats->empty_first = now;
    stats->empty_last = now;
}

/* An event has arrived: ends a row of empty polls. */
static void end_wait(struct ut_stats *stats, uint64_t now)
{
    if (!stats->empty_first)
        return;
    if (now - stats->empty_last <= TOGETHER_NS) {
        stats->counts.n[UT_COUNT_BLOCKED] += now - stats->empty_last;
        stats->empty_last = now;
    }
    struct ut_stats_event *e = ut_stats_event(stats, UT_EVENT_WAIT, stats->empty_first);
    if (e)
        e->length = stats->empty_last - stats->empty_first;
    stats->empty_first = 0;
}

/*
 * Arrivals
 */

void ut_stats_arrival_begins(struct ut_stats_arrival *a)
{
    struct ut_vcq *vcq = a->link->vcq;
    struct ut_stats *stats = vcq->stats;

    a->at = ut_clock_ns();
    a->mrq_tail = vcq->mrq_tail;
    end_wait(stats, a->at);
    if (a->sps && stats->session) {
        if (stats->credit_tail - stats->credit_head == UT_STATS_CREDITS)
            stats->credit_head++;
        stats->credits[stats->credit_tail++ % UT_STATS_CREDITS] =
            (struct ut_stats_credit){.upto = vcq->scheduled + a->sps, .at = a->at};
    }
}

/* The counter of a remote notice of this type. */
static enum ut_counter notice_counter(unsigned int type)
{
    return type == UTOFU_MRQ_TYPE_RMT_PUT   ? UT_COUNT_RMT_PUT_NOTICES
           : type == UTOFU_MRQ_TYPE_RMT_GET ? UT_COUNT_RMT_GET_NOTICES
                                            : UT_COUNT_RMT_ARMW_NOTICES;
}

/* Counts the remote MRQ notices of the arrival. ut_stats_done() counts the local ones. */
static void count_notices(struct ut_stats *stats, struct ut_stats_peer *p,
                          const struct ut_stats_arrival *a)
{
    const struct ut_vcq *vcq = a->link->vcq;

    for (uint32_t i = a->mrq_tail; i != vcq->mrq_tail; i++) {
        unsigned int type = vcq->mrq[i & vcq->mrq_mask].notice_type;
        if (type != UTOFU_MRQ_TYPE_RMT_PUT && type != UTOFU_MRQ_TYPE_RMT_GET &&
            type != UTOFU_MRQ_TYPE_RMT_ARMW)
            continue;
        stats->counts.n[notice_counter(type)]++;
        p->counts.n[notice_counter(type)]++;
    }
}

void ut_stats_arrival_ends(const struct ut_stats_arrival *a)
{
    struct ut_link *link = a->link;
    struct ut_stats *stats = link->vcq->stats;
    struct ut_stats_peer *p = peer_of(link);

    count_notices(stats, p, a);
    stats->counts.n[UT_COUNT_ARRIVALS] += a->flow;
    p->counts.n[UT_COUNT_ARRIVALS] += a->flow;
    ut_stats_check_blocked(link);
    struct ut_stats_event *e = ut_stats_event(stats, UT_EVENT_ARRIVAL, a->at);
    if (!e)
        return;
    e->length = ut_clock_ns() - a->at;
    e->kind = a->type;
    e->edata = a->edata;
    e->sps = a->sps;
    e->peer = link->peer;
    e->rank = p->rank;
    if (a->flow)
        e->flow = message_flow(link->peer_incarnation, link->vcq->incarnation, link->rx_number);
}

void ut_stats_completion(struct ut_link *link)
{
    end_wait(link->vcq->stats, ut_clock_ns());
}

void ut_stats_connected(struct ut_link *link)
{
    struct ut_stats_peer *p = peer_of(link);

    if (link->was_up)
        p->counts.n[UT_COUNT_RECONNECTS]++;
    p->provider = (int8_t)link->provider;
}

void ut_stats_up(struct ut_link *link)
{
    find_rank(peer_of(link));
    ut_stats_check_blocked(link);
}

/*
 * The end: outstanding communications are recorded as unfinished
 */

static void end_events(struct ut_vcq *vcq)
{
    struct ut_stats *stats = vcq->stats;

    if (!stats->timeline.events || stats->closed)
        return;
    for (uint32_t i = vcq->toq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (stats->ops[slot - vcq->toq].started && !stats->ops[slot - vcq->toq].done)
            record_op(vcq, slot, true);
    }
    if (stats->gates)
        ut_stats_end_gates(stats);
    ut_trace_flush(&stats->timeline);
    stats->closed = true;
}
