/* SPDX-License-Identifier: Apache-2.0 */
/* What engine, vcq and link tell, and when it is written out. */
#include "watch/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/env.h"
#include "util/log.h"

enum {
    FLUSH_EVERY_MS = 100,
    TOGETHER_NS = 10000000, /* polls in vain that lie no further apart are one wait */
    CLOCK_EVERY_POLLS = 16,
};

static bool counting, tracing;
static const struct ut_job_info *job;
static uint64_t opened_at;

static struct ut_watch *gone; /* what was counted of VCQs that are freed, by id */
static pthread_mutex_t gone_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_t thread;
static bool has_thread;
static int wake_fd = -1;
static uint32_t print_wanted, end_wanted; /* atomic */

/*
 * Printing and writing
 */

static void print_live(struct ut_vcq *vcq, void *out)
{
    ut_lock(&vcq->lock);
    if (vcq->watch)
        ut_stats_print(out, vcq->watch, job->rank);
    ut_unlock(&vcq->lock);
}

/* All of it in one write: the lines of several processes do not mix. */
static void print_all(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    fprintf(out, "utofu: stats: [rank %u] job size=%u seconds=%.3f\n", job->rank, job->size,
            (double)(ut_watch_now() - opened_at) * 1e-9);
    pthread_mutex_lock(&gone_lock);
    for (const struct ut_watch *w = gone; w; w = w->next)
        ut_stats_print(out, w, job->rank);
    pthread_mutex_unlock(&gone_lock);
    ut_vcq_for_each(print_live, out);
    if (fclose(out) == 0) {
        for (size_t done = 0; done < size;) {
            ssize_t n = write(STDERR_FILENO, text + done, size - done);
            if (n < 0 && errno != EINTR)
                break;
            done += n > 0 ? (size_t)n : 0;
        }
    }
    free(text);
}

/* Takes the events that there are, and leaves an empty buffer, so that they are written while the
 * VCQ goes on. */
static void write_events(struct ut_vcq *vcq, void *arg)
{
    struct ut_watch_event **spare = arg;
    uint32_t n = 0;

    ut_lock(&vcq->lock);
    if (vcq->watch && vcq->watch->events && vcq->watch->num_events > 0 && *spare) {
        struct ut_watch_event *full = vcq->watch->events;
        n = vcq->watch->num_events;
        vcq->watch->events = *spare;
        vcq->watch->num_events = 0;
        *spare = full;
    }
    ut_unlock(&vcq->lock);
    if (n > 0)
        ut_trace_write(*spare, n);
}

static void *thread_main(void *arg)
{
    struct ut_watch_event *spare = tracing ? ut_trace_buffer() : NULL;
    struct pollfd fd = {.fd = wake_fd, .events = POLLIN};

    (void)arg;
    while (!__atomic_load_n(&end_wanted, __ATOMIC_ACQUIRE)) {
        uint64_t count;
        if (poll(&fd, 1, tracing ? FLUSH_EVERY_MS : -1) > 0 &&
            read(wake_fd, &count, sizeof(count)) < 0)
            continue;
        if (__atomic_exchange_n(&print_wanted, 0, __ATOMIC_ACQ_REL))
            print_all();
        if (tracing)
            ut_vcq_for_each(write_events, &spare);
    }
    ut_trace_free(spare);
    return NULL;
}

static void wake_thread(void)
{
    uint64_t one = 1;

    if (write(wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake */
}

static void on_signal(int number)
{
    int saved = errno;

    (void)number;
    __atomic_store_n(&print_wanted, 1, __ATOMIC_RELEASE);
    wake_thread();
    errno = saved;
}

static void end_events(struct ut_vcq *vcq);

static void end_live(struct ut_vcq *vcq, void *arg)
{
    (void)arg;
    ut_lock(&vcq->lock);
    if (vcq->watch)
        end_events(vcq);
    ut_unlock(&vcq->lock);
}

static void at_exit(void)
{
    if (ut_process_forked())
        return;
    if (has_thread) {
        __atomic_store_n(&end_wanted, 1, __ATOMIC_RELEASE);
        wake_thread();
        pthread_join(thread, NULL);
    }
    if (counting)
        print_all();
    if (tracing) {
        ut_vcq_for_each(end_live, NULL);
        ut_trace_close();
    }
}

static int start_thread(void)
{
    sigset_t all, old;

    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, NULL, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    has_thread = rc == 0;
    if (has_thread)
        pthread_setname_np(thread, "utofu-watch");
    return rc;
}

/* The signal is the program's, if it wants it. */
static void take_signal(void)
{
    struct sigaction old, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    if (sigaction(SIGUSR1, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
        old.sa_handler == SIG_DFL)
        sigaction(SIGUSR1, &ours, NULL);
}

int ut_watch_open(const struct ut_job_info *info, uint64_t host)
{
    const char *pattern = ut_env_str(UT_ENV_TRACE);
    char path[PATH_MAX];

    counting = ut_env_num(UT_ENV_STATS) != 0;
    if (!counting && !*pattern)
        return 0;
    job = info;
    opened_at = ut_watch_now();
    if (*pattern) {
        int rc = ut_trace_open(pattern, job, host, path);
        if (rc != 0) {
            ut_error("watch",
                     "environment variable UTOFU_TRACE: '%s' is not allowed: cannot write "
                     "%s: %s",
                     pattern, path, strerror(-rc));
            return UTOFU_ERR_FATAL;
        }
        tracing = true;
    }
    int rc = start_thread();
    if (rc != 0) {
        ut_error("watch", "cannot start the thread of UTOFU_STATS and UTOFU_TRACE: %s",
                 strerror(rc));
        return UTOFU_ERR_FATAL;
    }
    if (counting)
        take_signal();
    return atexit(at_exit) == 0 ? 0 : UTOFU_ERR_FATAL;
}

/*
 * VCQs
 */

static void unmake(struct ut_watch *w)
{
    while (w->peers) {
        struct ut_watch_peer *p = w->peers;
        w->peers = p->next;
        free(p);
    }
    ut_trace_free(w->events);
    free(w->ops);
    free(w->credits);
    free(w->gates);
    free(w);
}

static void name_track(struct ut_watch *w)
{
    struct ut_watch_event *e = ut_trace_event(w, UT_EVENT_NAME, 0);

    if (!e)
        return;
    e->kind = w->session ? UT_NAME_SESSION : UT_NAME_FREE;
    e->peer = w->id;
    e->bytes = w->tni;
    e->rank = w->ident.cq;
    e->sps = (uint8_t)w->ident.cmp;
}

bool ut_watch_attach(struct ut_vcq *vcq)
{
    static uint32_t tracks;

    if (!counting && !tracing)
        return true;
    struct ut_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return false;
    w->id = vcq->id;
    w->ident = vcq->ident;
    w->tni = vcq->tni;
    w->session = vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;
    w->lives = 1;
    w->track = __atomic_add_fetch(&tracks, 1, __ATOMIC_RELAXED);
    w->starting = UT_NO_SLOT;
    w->ops = calloc(vcq->toq_mask + 1ul, sizeof(*w->ops));
    bool internal = !ut_vcq_ident_public(&vcq->ident), ok = w->ops != NULL;
    if (w->session)
        ok &= (w->credits = calloc(UT_WATCH_CREDITS, sizeof(*w->credits))) != NULL;
    if (internal)
        ok &= (w->gates = calloc(UT_NUM_GATES, sizeof(*w->gates))) != NULL;
    if (tracing)
        ok &= (w->events = ut_trace_buffer()) != NULL;
    if (!ok) {
        unmake(w);
        return false;
    }
    vcq->watch = w;
    vcq->long_way = true;
    vcq->mrq_alarm = 0;
    vcq->patience = 0;
    if (!internal)
        name_track(w);
    return true;
}

void ut_watch_detach(struct ut_vcq *vcq)
{
    struct ut_watch *w = vcq->watch;

    if (!w)
        return;
    end_events(vcq);
    vcq->watch = NULL;
    pthread_mutex_lock(&gone_lock);
    struct ut_watch *g = gone;
    while (g && g->id != w->id)
        g = g->next;
    if (!g && (g = calloc(1, sizeof(*g)))) {
        *g = (struct ut_watch){
            .next = gone, .id = w->id, .ident = w->ident, .tni = w->tni, .session = w->session};
        gone = g;
    }
    if (g)
        ut_stats_add(g, w);
    pthread_mutex_unlock(&gone_lock);
    unmake(w);
}

struct ut_watch_peer *ut_watch_find_peer(struct ut_watch *w, utofu_vcq_id_t id)
{
    struct ut_watch_peer *p = w->peers;

    while (p && p->id != id)
        p = p->next;
    if (!p && (p = calloc(1, sizeof(*p)))) {
        *p = (struct ut_watch_peer){.next = w->peers, .id = id, .rank = -1, .provider = -1};
        w->peers = p;
    }
    return p;
}

static void find_rank(struct ut_watch_peer *p)
{
    struct ut_vcq_ident ident;
    struct ut_peer peer;

    if (p->rank >= 0 || !ut_vcq_id_unpack(p->id, &ident))
        return;
    int rc = ut_vcq_ident_public(&ident)
                 ? ut_process_find_owner(&ident.coords, ident.cq, &peer)
                 : ut_process_find_local_rank(&ident.coords, ident.cq, &peer);
    if (rc == 0)
        p->rank = peer.rank;
}

/* What is kept of the other end of a link; there is always one, for want of memory a shared one. */
static struct ut_watch_peer *peer_of(struct ut_link *link)
{
    static __thread struct ut_watch_peer nobody;

    if (!link->watch) {
        link->watch = ut_watch_find_peer(link->vcq->watch, link->peer);
        if (!link->watch)
            return &nobody;
    }
    if (link->watch->rank < 0)
        find_rank(link->watch); /* the launcher may have been busy before */
    return link->watch;
}

/*
 * Arrows between processes: both ends make the same number of what both know
 */

static uint64_t message_flow(uint64_t from_session, uint64_t to_session, uint64_t number)
{
    return ut_watch_mix(ut_watch_mix(ut_watch_mix(1, from_session), to_session), number) | 1;
}

/*
 * Communications
 */

void ut_watch_submit(struct ut_vcq *vcq, uint32_t n)
{
    static const uint8_t kinds[] = {[UT_DESC_NOP] = UT_WATCH_NOP,
                                    [UT_DESC_PUT] = UT_WATCH_PUT,
                                    [UT_DESC_PIGGYBACK] = UT_WATCH_PUT,
                                    [UT_DESC_GET] = UT_WATCH_GET,
                                    [UT_DESC_ARMW] = UT_WATCH_ARMW};
    struct ut_watch *w = vcq->watch;
    uint64_t now = ut_watch_now();

    for (uint32_t i = 0; i < n; i++) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail + i);
        slot->desc.flags |= UT_DESC_WATCHED;
        slot->apart = true;
        w->ops[slot - vcq->toq] = (struct ut_watch_op){.submitted = now,
                                                       .bytes = ut_desc_length(&slot->desc),
                                                       .kind = kinds[slot->desc.kind],
                                                       .edata = slot->desc.edata};
    }
    w->counts.open += n;
    if (w->counts.open > w->counts.most_open)
        w->counts.most_open = w->counts.open;
}

/* In session mode: when the put came that let descriptor number n start. */
static uint64_t cause_of(struct ut_watch *w, uint64_t n)
{
    while (w->credit_head != w->credit_tail) {
        const struct ut_watch_credit *c = &w->credits[w->credit_head % UT_WATCH_CREDITS];
        if (c->upto > n)
            return c->at;
        w->credit_head++;
    }
    return 0;
}

void ut_watch_start(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_watch *w = vcq->watch;
    struct ut_watch_op *op = &w->ops[slot - vcq->toq];

    w->starting = (uint32_t)(slot - vcq->toq);
    if (w->session)
        op->cause = cause_of(w, vcq->started - 1);
    op->started = ut_watch_now();
}

static void record_op(struct ut_vcq *vcq, const struct ut_slot *slot, bool unfinished)
{
    struct ut_watch *w = vcq->watch;
    const struct ut_watch_op *op = &w->ops[slot - vcq->toq];
    const struct ut_link *link = slot->link;
    struct ut_watch_event *e = ut_trace_event(w, UT_EVENT_OP, op->started);

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
    if (op->kind == UT_WATCH_NOP || !link)
        return;
    e->peer = link->peer;
    e->rank = link->watch ? link->watch->rank : -1;
    if (slot->msg_number && e->rc == 0)
        e->flow = message_flow(vcq->session_number, link->peer_session, slot->msg_number);
}

void ut_watch_started(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_watch *w = vcq->watch;
    struct ut_watch_op *op = &w->ops[slot - vcq->toq];
    struct ut_watch_peer *p = NULL;

    op->returned = ut_watch_now();
    w->starting = UT_NO_SLOT;
    w->counts.ops[op->kind]++;
    w->counts.bytes[op->kind] += op->bytes;
    if (op->kind != UT_WATCH_NOP && slot->link) {
        p = peer_of(slot->link);
        p->counts.ops[op->kind]++;
        p->counts.bytes[op->kind] += op->bytes;
        if (++p->counts.open > p->counts.most_open)
            p->counts.most_open = p->counts.open;
        if (op->done)
            p->counts.open--;
    }
    if (op->done) {
        record_op(vcq, slot, false);
    } else if (slot->state == UT_SLOT_RETIRED) { /* never was on a link */
        w->counts.open--;
        w->counts.failed += slot->tcq_rc != 0;
        op->done = op->returned;
        record_op(vcq, slot, false);
    } else if (slot->state == UT_SLOT_WAITING && p && !p->blocked_since) {
        p->blocked_since = op->started;
    }
}

void ut_watch_done(struct ut_link *link, const struct ut_slot *slot)
{
    static const uint8_t notice[] = {[UT_WATCH_PUT] = UTOFU_MRQ_TYPE_LCL_PUT,
                                     [UT_WATCH_GET] = UTOFU_MRQ_TYPE_LCL_GET,
                                     [UT_WATCH_ARMW] = UTOFU_MRQ_TYPE_LCL_ARMW};
    struct ut_vcq *vcq = link->vcq;
    struct ut_watch *w = vcq->watch;
    struct ut_watch_op *op = &w->ops[slot - vcq->toq];
    struct ut_watch_peer *p = peer_of(link);
    bool told = slot->mrq_rc ||
                (!slot->tcq_rc && (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE));

    op->done = ut_watch_now();
    w->counts.open--;
    if (told) {
        w->counts.notices[notice[op->kind]]++;
        p->counts.notices[notice[op->kind]]++;
    }
    if (slot->tcq_rc || slot->mrq_rc) {
        w->counts.failed++;
        p->counts.failed++;
    }
    if (w->starting == (uint32_t)(slot - vcq->toq))
        return; /* ut_watch_started() goes on */
    p->counts.open--;
    record_op(vcq, slot, false);
}

void ut_watch_retry(struct ut_link *link)
{
    peer_of(link)->retries++;
}

void ut_watch_look(struct ut_link *link)
{
    struct ut_watch_peer *p = peer_of(link);

    if (p->blocked_since && link->to_post == UT_NO_SLOT) {
        p->counts.blocked_ns += ut_watch_now() - p->blocked_since;
        p->blocked_since = 0;
    }
}

void ut_watch_busy(struct ut_vcq *vcq)
{
    vcq->watch->busy++;
}

uint32_t ut_watch_mrq(struct ut_vcq *vcq, uint32_t used)
{
    vcq->watch->most_mrq = used;
    return used;
}

/*
 * Waiting
 */

void ut_watch_vain(struct ut_vcq *vcq)
{
    struct ut_watch *w = vcq->watch;

    if (++w->vain_polls % CLOCK_EVERY_POLLS != 0 && w->vain_first)
        return; /* the clock takes longer than the poll */
    uint64_t now = ut_watch_now();
    if (w->vain_first && now - w->vain_last <= TOGETHER_NS)
        w->counts.blocked_ns += now - w->vain_last;
    else
        w->vain_first = now;
    w->vain_last = now;
}

/* Something came: was it waited for? */
static void end_wait(struct ut_watch *w, uint64_t now)
{
    if (!w->vain_first)
        return;
    if (now - w->vain_last <= TOGETHER_NS) {
        w->counts.blocked_ns += now - w->vain_last;
        w->vain_last = now;
    }
    struct ut_watch_event *e = ut_trace_event(w, UT_EVENT_WAIT, w->vain_first);
    if (e)
        e->length = w->vain_last - w->vain_first;
    w->vain_first = 0;
}

/*
 * Arrivals: around what the engine makes of them
 */

struct arrival {
    struct ut_link *link;
    uint64_t at;
    uint32_t mrq_tail;
    uint8_t type; /* as in enum utofu_mrq_type */
    uint8_t edata, sps;
    bool flow; /* something that this VCQ's peer has started; else an answer */
};

static const struct prov_callbacks *engine_of(const struct ut_link *link)
{
    return &ut_engine_callbacks[link->provider];
}

static void begin_arrival(struct arrival *a)
{
    struct ut_vcq *vcq = a->link->vcq;
    struct ut_watch *w = vcq->watch;

    a->at = ut_watch_now();
    a->mrq_tail = vcq->mrq_tail;
    end_wait(w, a->at);
    if (a->sps && w->session) {
        if (w->credit_tail - w->credit_head == UT_WATCH_CREDITS)
            w->credit_head++;
        w->credits[w->credit_tail++ % UT_WATCH_CREDITS] =
            (struct ut_watch_credit){.upto = vcq->scheduled + a->sps, .at = a->at};
    }
}

/* The MRQ notices that it led to; those of this VCQ's own communications are counted there. */
static void count_notices(struct ut_watch *w, struct ut_watch_peer *p, const struct arrival *a)
{
    const struct ut_vcq *vcq = a->link->vcq;

    for (uint32_t i = a->mrq_tail; i != vcq->mrq_tail; i++) {
        unsigned int type = vcq->mrq[i & vcq->mrq_mask].notice_type;
        if (type != UTOFU_MRQ_TYPE_RMT_PUT && type != UTOFU_MRQ_TYPE_RMT_GET &&
            type != UTOFU_MRQ_TYPE_RMT_ARMW)
            continue;
        w->counts.notices[type]++;
        p->counts.notices[type]++;
    }
}

static void end_arrival(const struct arrival *a)
{
    struct ut_link *link = a->link;
    struct ut_watch *w = link->vcq->watch;
    struct ut_watch_peer *p = peer_of(link);

    count_notices(w, p, a);
    w->counts.arrivals += a->flow;
    p->counts.arrivals += a->flow;
    ut_watch_look(link);
    struct ut_watch_event *e = ut_trace_event(w, UT_EVENT_ARRIVAL, a->at);
    if (!e)
        return;
    e->length = ut_watch_now() - a->at;
    e->kind = a->type;
    e->edata = a->edata;
    e->sps = a->sps;
    e->peer = link->peer;
    e->rank = p->rank;
    if (a->flow)
        e->flow = message_flow(link->peer_session, link->vcq->session_number, link->rx_number);
}

static void watch_notify(void *ctx, uint32_t imm)
{
    struct ut_link *link = ctx;
    struct arrival a = {.link = link,
                        .type = UTOFU_MRQ_TYPE_RMT_PUT,
                        .edata = (uint8_t)imm,
                        .sps = imm >> 8 & 0xf,
                        .flow = true};

    begin_arrival(&a);
    engine_of(link)->notify(ctx, imm);
    end_arrival(&a);
}

static void watch_message(void *ctx, const void *data, size_t size)
{
    struct ut_link *link = ctx;
    const struct ut_msg_head *head = data;
    struct arrival a = {.link = link, .edata = head->edata};

    switch (head->type) {
    case UT_MSG_NOTICE:
        a.type = head->flags & UT_MSG_FLAG_GET ? UTOFU_MRQ_TYPE_RMT_GET : UTOFU_MRQ_TYPE_RMT_PUT;
        a.sps = head->flags & UT_MSG_FLAG_GET ? 0 : head->sps;
        a.flow = true;
        break;
    case UT_MSG_ARMW:
    case UT_MSG_ARMW_NOTICE:
        a.type = UTOFU_MRQ_TYPE_RMT_ARMW;
        a.flow = true;
        break;
    case UT_MSG_ARMW_REPLY:
        a.type = UTOFU_MRQ_TYPE_LCL_ARMW;
        break;
    default: /* gates tell it themselves */
        engine_of(link)->message(ctx, data, size);
        return;
    }
    begin_arrival(&a);
    engine_of(link)->message(ctx, data, size);
    end_arrival(&a);
}

static void watch_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct ut_link *link = ctx;

    end_wait(link->vcq->watch, ut_watch_now());
    engine_of(link)->done(ctx, cookie, status);
    ut_watch_look(link);
}

static void watch_request_shm(void *owner, struct prov_conn *conn, uint64_t peer_id,
                              const void *hello, size_t size)
{
    ut_engine_callbacks[UT_PROV_SHM].request(owner, conn, peer_id, hello, size);
}

static void watch_request_verbs(void *owner, struct prov_conn *conn, uint64_t peer_id,
                                const void *hello, size_t size)
{
    ut_engine_callbacks[UT_PROV_VERBS].request(owner, conn, peer_id, hello, size);
}

static void watch_up(void *ctx, const void *hello, size_t size)
{
    struct ut_link *link = ctx;

    engine_of(link)->up(ctx, hello, size);
    find_rank(peer_of(link));
    ut_watch_look(link);
}

static void watch_down(void *ctx, enum prov_reason reason)
{
    struct ut_link *link = ctx;

    engine_of(link)->down(ctx, reason);
    ut_watch_look(link);
}

void ut_watch_connected(struct ut_link *link)
{
    struct ut_watch_peer *p = peer_of(link);

    if (link->was_up)
        p->reconnects++;
    p->provider = (int8_t)link->provider;
}

const struct prov_callbacks ut_watch_callbacks[UT_NUM_PROVIDERS] = {
    /* a watched VCQ asks for no streaks */
    [UT_PROV_SHM] = {watch_done, NULL, watch_message, watch_notify, watch_request_shm, watch_up,
                     watch_down},
    [UT_PROV_VERBS] = {watch_done, NULL, watch_message, watch_notify, watch_request_verbs, watch_up,
                       watch_down},
};

/*
 * The end: what is under way then is shown as such
 */

static void end_events(struct ut_vcq *vcq)
{
    struct ut_watch *w = vcq->watch;

    if (!w->events || w->closed)
        return;
    for (uint32_t i = vcq->toq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (w->ops[slot - vcq->toq].started && !w->ops[slot - vcq->toq].done)
            record_op(vcq, slot, true);
    }
    if (w->gates)
        ut_watch_end_gates(w);
    ut_trace_flush(w);
    w->closed = true;
}
