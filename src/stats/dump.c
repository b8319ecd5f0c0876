/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the state of each VCQ and link. See dump.h. */
#include "stats/dump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "link/link.h"
#include "peers/peers.h"
#include "process/process.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/thread.h"
#include "util/write.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

enum {
    LINE = 512,
    LOCK_MS = 200, /* no thread holds the lock of a VCQ longer, unless it hangs */
};

static struct {
    unsigned int own_rank;
    int wake_fd;
    /* of modules that stats does not use; NULL: the process has no gates or no shuffle mode */
    void (*print_gates)(struct ut_vcq *vcq); /* atomic */
    void (*print_shuffle)(ut_dump_print *print);
    struct sigaction before_abort;
} dumper = {.wake_fd = -1};

void ut_dump_set_gates(void (*print_gates)(struct ut_vcq *vcq))
{
    __atomic_store_n(&dumper.print_gates, print_gates, __ATOMIC_RELAXED);
}

void ut_dump_line(const char *fmt, ...)
{
    char line[LINE];
    va_list args;
    int n = snprintf(line, sizeof(line), "utofu: dump: [rank %u] ", dumper.own_rank);

    va_start(args, fmt);
    int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, args);
    va_end(args);
    n += more < (int)sizeof(line) - n - 1 ? more : (int)sizeof(line) - n - 2;
    line[n] = '\n';
    ut_write_all(STDERR_FILENO, line, (size_t)n + 1);
}

const char *ut_dump_rank(char *buf, int64_t rank, bool certain)
{
    *buf = '\0';
    if (rank >= 0)
        snprintf(buf, UT_DUMP_RANK, " %s=%lld", certain ? "rank" : "likely_rank", (long long)rank);
    return buf;
}

static const char *rank_of(char *buf, utofu_vcq_id_t id)
{
    struct ut_vcq_ident ident;
    bool certain = false;
    int64_t rank = -1;

    if (ut_vcq_id_unpack(id, &ident))
        rank = ut_vcq_ident_is_of_program(&ident)
                   ? ut_peers_likely_rank(&ident, &certain)
                   : ut_peers_likely_local_rank(&ident.coords, ident.cq, &certain);
    return ut_dump_rank(buf, rank, certain);
}

/*
 * TOQ slots
 */

static const char *kind_of(const struct ut_slot *slot)
{
    static const char *const names[] = {[UT_DESC_NOP] = "nop",
                                        [UT_DESC_PUT] = "put",
                                        [UT_DESC_PIGGYBACK] = "put_piggyback",
                                        [UT_DESC_GET] = "get",
                                        [UT_DESC_ARMW] = "armw"};
    unsigned int kind = slot->desc.kind;

    return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind] : "unknown";
}

static const char *state_of(const struct ut_slot *slot)
{
    static const char *const names[] = {
        [UT_SLOT_FREE] = "free",     [UT_SLOT_SUBMITTED] = "not_started",
        [UT_SLOT_WAITING] = "waits", [UT_SLOT_POSTED] = "posted",
        [UT_SLOT_DONE] = "done",     [UT_SLOT_RETIRED] = "retired"};

    return slot->state < sizeof(names) / sizeof(*names) ? names[slot->state] : "unknown";
}

static const char *stage_of(const struct ut_slot *slot)
{
    static const char *const names[] = {[UT_STAGE_NONE] = "none",
                                        [UT_STAGE_DATA] = "data",
                                        [UT_STAGE_EXECUTED] = "executed",
                                        [UT_STAGE_NOTICE] = "notice",
                                        [UT_STAGE_RETRY] = "retry"};

    return slot->stage < sizeof(names) / sizeof(names[0]) ? names[slot->stage] : "?";
}

static const char *slot_waits_for(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    switch (slot->state) {
    case UT_SLOT_SUBMITTED:
        return vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE
                   ? "a put with an SPS that moves the schedule pointer"
                   : "the next start: it was delayed, or one before it was";
    case UT_SLOT_WAITING:
        return "its link";
    case UT_SLOT_POSTED:
        return slot->desc.kind == UT_DESC_ARMW ? "the target's answer" : "its completion";
    case UT_SLOT_DONE:
        return "an earlier one of its link";
    default:
        return "the program to poll its TCQ entry";
    }
}

/* The oldest slot whose notices are not written. */
static const struct ut_slot *oldest_of(struct ut_vcq *vcq)
{
    for (uint32_t i = vcq->toq_head; i != vcq->toq_tail; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (slot->state != UT_SLOT_RETIRED && slot->state != UT_SLOT_FREE)
            return slot;
    }
    return NULL;
}

static void dump_oldest(struct ut_vcq *vcq)
{
    const struct ut_slot *slot = oldest_of(vcq);
    char rank[UT_DUMP_RANK] = "";

    if (!slot)
        return;
    if (slot->desc.kind != UT_DESC_NOP)
        rank_of(rank, slot->desc.rmt_vcq_id);
    ut_dump_line("  oldest slot=%u kind=%s state=%s stage=%s bytes=%u to=%016llx%s waits for %s",
                 (unsigned int)(slot - vcq->toq), kind_of(slot), state_of(slot), stage_of(slot),
                 ut_desc_length(&slot->desc), (unsigned long long)slot->desc.rmt_vcq_id, rank,
                 slot_waits_for(vcq, slot));
}

/*
 * Links
 */

static void dump_link(const struct ut_link *link, uint64_t now)
{
    struct ut_link_pending n = ut_link_pending(link);
    char rank[UT_DUMP_RANK], left[48] = "";

    if (link->state == UT_LINK_RESOLVING && link->deadline_ms > now)
        snprintf(left, sizeof(left), " (gives up in %llu s)",
                 (unsigned long long)(link->deadline_ms - now) / 1000);
    ut_dump_line(
        "  link to=%016llx%s state=%s%s waiting=%u posted=%u done=%u messages=%u waits for "
        "%s%s",
        (unsigned long long)link->peer, rank_of(rank, link->peer), ut_fsm_state_name(link->state),
        link->passive ? " passive" : "", n.waiting, n.posted, n.done, n.messages,
        ut_link_wait_reason(link, &n), left);
}

/*
 * VCQs
 */

static unsigned int unread_tcq(struct ut_vcq *vcq)
{
    unsigned int n = 0;

    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++)
        n += ut_vcq_slot(vcq, i)->tcq_ready;
    return n;
}

static void dump_head(struct ut_vcq *vcq, bool locked)
{
    bool session = vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;
    char tcq[24] = "";

    if (locked)
        snprintf(tcq, sizeof(tcq), " tcq=%u", unread_tcq(vcq));
    ut_dump_line("vcq id=%016llx handle=%#llx tni=%u cq=%u cmp=%u mode=%s toq=%u/%u "
                 "not_started=%u%s mrq=%u/%u%s",
                 (unsigned long long)vcq->id,
                 (unsigned long long)__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED), vcq->tni,
                 vcq->ident.cq, vcq->ident.cmp,
                 !ut_vcq_ident_is_of_program(&vcq->ident) ? "barrier"
                 : session                                ? "session"
                                                          : "free",
                 vcq->toq_tail - vcq->toq_head, vcq->toq_mask + 1, vcq->toq_tail - vcq->toq_exec,
                 tcq, vcq->mrq_tail - vcq->mrq_head, vcq->mrq_mask + 1,
                 locked ? "" : " locked: a thread is inside a call on it; its links are not shown");
    if (session)
        ut_dump_line("  session scheduled=%llu started=%llu", (unsigned long long)vcq->scheduled,
                     (unsigned long long)vcq->started);
}

/* Prints the errors that the program has not polled. */
static void dump_errors(struct ut_vcq *vcq)
{
    char text[LINE];

    if (vcq->link_ops->describe_unread_error(vcq, UT_QUEUE_TCQ, text, sizeof(text)))
        ut_dump_line("  error in the TCQ, which the program has not polled: %s", text);
    if (vcq->link_ops->describe_unread_error(vcq, UT_QUEUE_MRQ, text, sizeof(text)))
        ut_dump_line("  error in the MRQ, which the program has not polled: %s", text);
}

/* Prints whether the program polls or sleeps. */
static void dump_polls(const struct ut_vcq *vcq, uint64_t now)
{
    /* api/poll.c stores the time of every sixteenth poll */
    enum { LATELY_MS = 1000, LATELY_POLLS = 32 };
    static const char *const queues[] = {"no queue", "the TCQ", "the MRQ", "the TCQ and the MRQ"};
    const char *queue = queues[vcq->empty.queues & 3];
    unsigned long long id = vcq->id, s = (now - vcq->empty.wait.since_ms) / 1000;

    for (const struct ut_wait *w = vcq->waits; w; w = w->next)
        ut_dump_line("  a thread sleeps in utofu_wait_vcqs() until VCQ %016llx has an entry, for "
                     "%llu s so far",
                     id, (unsigned long long)(now - w->waiter->since_ms) / 1000);
    if (vcq->idle_polls <= vcq->spin_limit)
        return;
    uint64_t pause_ms = (now - vcq->empty.wait.since_ms) / vcq->idle_polls;
    if (now - vcq->empty.last_ms < LATELY_MS + LATELY_POLLS * pause_ms)
        ut_dump_line("  polls %s of VCQ %016llx for %llu s, empty (%u polls)", queue, id, s,
                     vcq->idle_polls);
    else
        ut_dump_line("  does not poll VCQ %016llx any more: the last poll, %llu s ago, found %s "
                     "empty",
                     id, (unsigned long long)(now - vcq->empty.last_ms) / 1000, queue);
}

static void dump_vcq(struct ut_vcq *vcq, void *arg)
{
    void (*print_gates)(struct ut_vcq * vcq) =
        __atomic_load_n(&dumper.print_gates, __ATOMIC_RELAXED);

    (void)arg;
    if (__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) == 0)
        return;
    bool locked = ut_lock_until(&vcq->lock, ut_now_ms() + LOCK_MS);
    if (vcq->num_eps > 0) {
        dump_head(vcq, locked);
        if (locked) {
            dump_errors(vcq);
            dump_polls(vcq, ut_now_ms());
            dump_oldest(vcq);
            for (const struct ut_link *l = vcq->all_links; l; l = l->all_next)
                dump_link(l, ut_now_ms());
            if (!ut_vcq_ident_is_of_program(&vcq->ident) && print_gates)
                print_gates(vcq);
        }
    }
    if (locked)
        ut_unlock(&vcq->lock);
}

__attribute__((used)) void ut_dump(void)
{
    if (ut_process_forked() || !ut_process_peek())
        return;
    ut_dump_line("begin");
    ut_vcq_for_each(dump_vcq, NULL);
    if (dumper.print_shuffle)
        dumper.print_shuffle(ut_dump_line);
    ut_dump_line("end");
}

/* Takes no lock: this thread may hold all of them. The signal is pending until this returns; then
 * the program's own handler has it, or it ends the process. */
static void dump_at_abort(int number)
{
    int saved = errno;

    if (!ut_process_forked() && ut_process_peek()) {
        ut_dump_line("begin, at SIGABRT");
        dumper.print_shuffle(ut_dump_line);
        ut_dump_line("end");
    }
    sigaction(number, &dumper.before_abort, NULL);
    raise(number);
    errno = saved;
}

void ut_dump_on_abort(void (*shuffle)(ut_dump_print *print))
{
    struct sigaction ours = {.sa_handler = dump_at_abort};

    dumper.print_shuffle = shuffle;
    sigaction(SIGABRT, &ours, &dumper.before_abort);
}

/*
 * The signal: its handler wakes a separate thread, because all other threads may hang
 */

void ut_dump_on_signal(int number)
{
    int saved = errno;
    uint64_t one = 1;

    (void)number;
    if (!ut_process_forked() && ut_fd_is_still_ours(dumper.wake_fd) &&
        write(dumper.wake_fd, &one, sizeof(one)) < 0)
        errno = saved; /* the thread is awake already */
    errno = saved;
}

static void *thread_main(void *arg)
{
    uint64_t count;

    (void)arg;
    for (;;) {
        if (read(dumper.wake_fd, &count, sizeof(count)) == sizeof(count))
            ut_dump();
        else if (errno != EINTR)
            return NULL;
    }
}

static int start_thread(void)
{
    dumper.wake_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC));
    if (dumper.wake_fd < 0)
        return -errno;
    return ut_thread_create("utofu-dump", thread_main, NULL, NULL);
}

int ut_dump_open(unsigned int rank)
{
    /* in the order of env_table.h */
    static const int numbers[] = {0, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    int number = numbers[ut_env_num(UT_ENV_DUMP_SIGNAL)];
    struct sigaction old, ours = {.sa_handler = ut_dump_on_signal, .sa_flags = SA_RESTART};

    dumper.own_rank = rank;
    if (number == 0 || sigaction(number, NULL, &old) != 0)
        return 0;
    if ((old.sa_flags & SA_SIGINFO) || (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)) {
        ut_warn("stats", "UTOFU_DUMP_SIGNAL has no effect: the program handles this signal itself");
        return 0;
    }
    int rc = start_thread();
    if (rc == 0 && sigaction(number, &ours, NULL) != 0)
        rc = -errno;
    return rc;
}
