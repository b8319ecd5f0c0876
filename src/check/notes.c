/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes on correct use that behaves differently on the real machine, or approaches its limits. Rank
 * 0 prints them at the end of the process. The limits are those of the manual's chapter 6.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/job.h"
#include "check/inner.h"
#include "process/process.h"
#include "util/hash.h"

enum {
    REAL_CQS = 9,
    REAL_PROCESSES = 48,
    REAL_START_GATES = 16,
    REAL_RELAY_GATES = 32,
    MRQ_SHARE = 2,
    MANY = 1000,
    MANY_IN_TOQ = 1024, /* half of the minimum TOQ length of this library */
};

/* Gates of one kind: current number per TNI, and maximum on one TNI. */
struct gates {
    int now[UT_NUM_TNIS], max;
};

/* All counters are atomic. */
static struct {
    uint64_t with_path, with_gap, with_injection, with_padding, weak_injection, with_response;
    uint64_t paths_of_gates, extensions;
    uint64_t unasked, unread_tcq, unread_mrq, unpolled, unstarted, crowded, long_toqs, shared;
    uint64_t lines;         /* puts into cache lines that a CPU also wrote */
    const void *first_line; /* call site of the first such put */
    /* maxima of MRQs that were more than half full, and of long TOQs */
    uint64_t fullest_mrq, its_entries, longest_toq;
    uint32_t cqs[UT_NUM_TNIS];         /* one bit per CQ of this process that had a VCQ */
    uint32_t session_cqs[UT_NUM_TNIS]; /* one bit per CQ that had a session-mode VCQ */
    struct gates starts, relays;
} notes;

static void add_count(uint64_t *count, uint64_t n)
{
    __atomic_add_fetch(count, n, __ATOMIC_RELAXED);
}

static uint64_t read_count(uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/* The value of a put of one word with STRONG_ORDER is a notice: the target polls it. */
static bool put_is_notice(const struct ut_desc *d)
{
    return d->kind == UT_DESC_PIGGYBACK && d->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER &&
           ut_desc_length(d) <= sizeof(uint64_t);
}

/* Counts puts without notice. A later put on the same VCQs with a notice and STRONG_ORDER completes
 * them, whatever its path. If two remote VCQs share an entry, the earlier one is forgotten and not
 * reported. */
static void note_unnotified_put(struct ut_check *check, const struct ut_desc *d)
{
    const unsigned int notices = UTOFU_ONESIDED_FLAG_TCQ_NOTICE |
                                 UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                                 UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    uint64_t key = ut_vcq_id_key(d->rmt_vcq_id);
    struct ut_check_unasked *u = &check->unasked[ut_hash_index(key, 6)];

    if (u->key != key)
        *u = (struct ut_check_unasked){.key = key};
    if (put_is_notice(d))
        u->count = 0;
    else if (!(d->flags & notices))
        u->count += d->kind == UT_DESC_PUT || d->kind == UT_DESC_PIGGYBACK;
    else if (d->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER)
        u->count = 0;
}

void ut_check_note_comm(struct ut_check *check, const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    bool paced = d->kind == UT_DESC_PUT || d->kind == UT_DESC_GET;
    bool padded = d->kind == UT_DESC_PIGGYBACK && (d->flags & UTOFU_ONESIDED_FLAG_PADDING);

    if (d->kind == UT_DESC_NOP)
        return;
    note_unnotified_put(check, d);
    if (ut_desc_path(d) != 0 || ut_vcq_id_has_path(d->rmt_vcq_id))
        add_count(&notes.with_path, 1);
    if (d->flags & UTOFU_ONESIDED_FLAG_PACKET_RESPONSE)
        add_count(&notes.with_response, 1);
    if (paced && (d->gap != 0 || d->mtu != UT_MAX_MTU))
        add_count(&notes.with_gap, 1);
    if (padded)
        add_count(&notes.with_padding, 1);
    if (!(d->flags & UTOFU_ONESIDED_FLAG_CACHE_INJECTION))
        return;
    add_count(&notes.with_injection, 1);
    if (d->kind == UT_DESC_PIGGYBACK && !padded)
        add_count(&notes.weak_injection, 1);
}

static void raise_to(int *max, int now)
{
    int before = __atomic_load_n(max, __ATOMIC_RELAXED);

    while (now > before && !__atomic_compare_exchange_n(max, &before, now, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        ;
}

static void count_gates(struct gates *kind, unsigned int tni, int n)
{
    raise_to(&kind->max, __atomic_add_fetch(&kind->now[tni], n, __ATOMIC_RELAXED));
}

void ut_check_gates(unsigned int tni, int num_starts, int num_relays)
{
    count_gates(&notes.starts, tni, num_starts);
    count_gates(&notes.relays, tni, num_relays);
}

void ut_check_set_gates(const struct utofu_vbg_setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_count(&notes.paths_of_gates,
                  settings[i].dst_rmt_vbg_id != UTOFU_VBG_ID_NULL &&
                      settings[i].dst_path_coords[0] != UTOFU_PATH_COORD_NULL);
}

void ut_check_extension(void)
{
    if (ut_check_on)
        add_count(&notes.extensions, 1);
}

void ut_check_note_line(const void *caller)
{
    const void *none = NULL;

    add_count(&notes.lines, 1);
    __atomic_compare_exchange_n(&notes.first_line, &none, caller, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static void note_queues(const struct ut_vcq *vcq)
{
    uint64_t entries = vcq->mrq_entries, mrq = *vcq->mrq_most, toq = vcq->check->max_toq;

    if (mrq > entries / MRQ_SHARE) {
        add_count(&notes.crowded, 1);
        if (mrq * read_count(&notes.its_entries) >= read_count(&notes.fullest_mrq) * entries) {
            __atomic_store_n(&notes.fullest_mrq, mrq, __ATOMIC_RELAXED);
            __atomic_store_n(&notes.its_entries, entries, __ATOMIC_RELAXED);
        }
    }
    if (toq > MANY_IN_TOQ) {
        add_count(&notes.long_toqs, 1);
        if (toq > read_count(&notes.longest_toq))
            __atomic_store_n(&notes.longest_toq, toq, __ATOMIC_RELAXED);
    }
}

void ut_check_note_end(struct ut_vcq *vcq)
{
    const struct ut_check *check = vcq->check;
    uint32_t in_mrq = vcq->mrq_tail - vcq->mrq_head;

    __atomic_or_fetch(&notes.cqs[vcq->tni], 1u << vcq->cq_index, __ATOMIC_RELAXED);
    if (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
        __atomic_or_fetch(&notes.session_cqs[vcq->tni], 1u << vcq->cq_index, __ATOMIC_RELAXED);
    add_count(&notes.unread_mrq, in_mrq);
    for (size_t i = 0; i < sizeof(check->unasked) / sizeof(check->unasked[0]); i++)
        add_count(&notes.unasked, check->unasked[i].count);
    note_queues(vcq);
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        add_count(&notes.unread_tcq, (slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE) != 0);
    }
    add_count(&notes.unpolled, check->number > MANY && check->polls == 0);
    add_count(&notes.unstarted, vcq->toq_tail - vcq->toq_exec);
    add_count(&notes.shared, check->several_threads && !(vcq->flags & UTOFU_VCQ_FLAG_THREAD_SAFE));
}

static void print_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print_note(const char *format, ...)
{
    char line[512];
    va_list ap;

    int n = snprintf(line, sizeof(line), "utofu: check: note: ");
    va_start(ap, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
    va_end(ap);
    line[n++] = '\n';
    ut_check_write(line, (size_t)n);
}

/* Chooses singular or plural: "[put|puts] had" becomes "put had" or "puts had". */
static void choose_number(char *out, size_t size, const char *text, bool one)
{
    size_t used = 0;

    for (const char *p = text; *p != '\0' && used + 1 < size; p++) {
        if (*p == '[' && !one)
            p = strchr(p, '|'); /* skips the first form... */
        else if (*p == '|')
            p = strchr(p, ']'); /* ...or the second */
        else if (*p != '[' && *p != ']')
            out[used++] = *p;
    }
    out[used] = '\0';
}

static void print_count(uint64_t count, const char *text)
{
    char chosen[400];

    choose_number(chosen, sizeof(chosen), text, count == 1);
    if (count > 0)
        print_note("%" PRIu64 " %s", count, chosen);
}

static uint64_t max_of(const uint32_t bits[UT_NUM_TNIS])
{
    uint64_t max = 0;

    for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
        uint64_t n = (uint64_t)__builtin_popcount(__atomic_load_n(&bits[t], __ATOMIC_RELAXED));
        max = n > max ? n : max;
    }
    return max;
}

static void note_cqs(void)
{
    const struct ut_process *process = ut_process_peek();
    uint64_t all = max_of(notes.cqs) * ut_check_job->local_size,
             session = max_of(notes.session_cqs);

    print_count(
        all > REAL_CQS ? all : 0,
        "[CQ of a TNI is|CQs of a TNI are] used on a node, if its "
        "processes use as many as this one: the real machine has 9 for all of them (manual 6.1.2)");
    print_count(
        process && session >= process->num_session ? session : 0,
        "session-mode [CQ of a TNI is|CQs of a TNI are] used, all that UTOFU_NUM_SESSION_MODE_CQS "
        "sets aside: there MPI takes its own of them (4.3.2.2)");
}

static void note_gates(const struct gates *kind, int limit, const char *name)
{
    const struct ut_process *process = ut_process_peek();
    uint64_t all =
        (uint64_t)__atomic_load_n(&kind->max, __ATOMIC_RELAXED) * ut_check_job->local_size;

    /* with UTOFU_CQ_MAP=fugaku the processes of a node share that number */
    if (process && !process->fugaku_cqs && all > (uint64_t)limit)
        print_note("%" PRIu64 " %s %s used on a node, if its processes use as many as this "
                   "one: the real machine has %d for all of them (manual 6.1.2)",
                   all, name, all == 1 ? "gate of a TNI is" : "gates of a TNI are", limit);
}

static void note_flags(void)
{
    print_count(
        read_count(&notes.with_gap),
        "[put or get|puts and gets] had a gap or an MTU, which have no effect here (2.2.9)");
    print_count(
        read_count(&notes.with_path),
        "[communication|communications] had a path, which has no effect on routing here (3.5)");
    print_count(
        read_count(&notes.paths_of_gates),
        "[gate was|gates were] set with a path, which has no effect on routing here (3.4.4.1)");
    print_count(
        read_count(&notes.with_injection),
        "[communication|communications] had CACHE_INJECTION, which has no effect here (2.2.11)");
    print_count(
        read_count(&notes.weak_injection),
        "of them [was a piggyback put|were piggyback puts] without PADDING: they do not reach the "
        "cache there (2.2.11)");
    print_count(read_count(&notes.with_padding),
                "[put|puts] had PADDING: there the rest of the cache line at the target gets "
                "undefined bytes, here it stays unchanged (2.2.11)");
    print_count(read_count(&notes.with_response),
                "[communication|communications] had PACKET_RESPONSE, which the manual does not "
                "describe, and which has no effect here");
    print_count(read_count(&notes.extensions),
                "[call was of a function|calls were of functions] of utofu_ext.h, which "
                "Fugaku does not have");
}

static void note_lines(void)
{
    char place[256];

    if (read_count(&notes.lines) == 0)
        return;
    ut_check_symbolize(__atomic_load_n(&notes.first_line, __ATOMIC_RELAXED), place, sizeof(place));
    print_note(
        "lines of %d bytes in which a CPU wrote while a put to other bytes of them was under way: "
        "%" PRIu64 ", the first put in %s; there one of the two may be lost (2.2.10)",
        (int)UT_CACHE_LINE, read_count(&notes.lines), place);
}

static const char *name_vcqs(uint64_t count)
{
    return count == 1 ? "VCQ" : "VCQs";
}

static void note_all_queues(void)
{
    print_count(read_count(&notes.unasked),
                "[put|puts] had no notice, and no put with a notice and STRONG_ORDER followed "
                "them: nothing shows when their data have arrived (2.2.10, 3.7)");
    print_count(read_count(&notes.unread_tcq),
                "TCQ [entry was|entries were] requested and never polled (3.7)");
    print_count(read_count(&notes.unread_mrq),
                "MRQ [notice came and was|notices came and were] never polled: a full "
                "MRQ ends the program (3.7)");
    if (read_count(&notes.crowded))
        print_note("%" PRIu64 " %s had an MRQ that was more than half full, at most %" PRIu64
                   " of %" PRIu64 " entries: when it is full, the program ends (4.3.2.3)",
                   read_count(&notes.crowded), name_vcqs(read_count(&notes.crowded)),
                   read_count(&notes.fullest_mrq), read_count(&notes.its_entries));
    if (read_count(&notes.long_toqs))
        print_note("%" PRIu64
                   " %s had more than %d descriptors at one time whose TCQ entries were not "
                   "polled, at most %" PRIu64 ": the size of a TOQ there is not documented, and a "
                   "full TOQ returns UTOFU_ERR_BUSY (3.7)",
                   read_count(&notes.long_toqs), name_vcqs(read_count(&notes.long_toqs)),
                   MANY_IN_TOQ, read_count(&notes.longest_toq));
    print_count(
        read_count(&notes.unpolled),
        "[VCQ|VCQs] had more than 1000 communications and no poll that found nothing: there "
        "is room in a queue only after polls (3.7)");
    print_count(read_count(&notes.unstarted),
                "[descriptor of a session-mode VCQ was|descriptors of session-mode VCQs "
                "were] never started (2.2.8.1)");
}

void ut_check_print_notes(void)
{
    if (ut_check_job->rank != 0)
        return;
    note_cqs();
    note_gates(&notes.starts, REAL_START_GATES, "start/end");
    note_gates(&notes.relays, REAL_RELAY_GATES, "relay");
    print_count(ut_check_job->local_size > REAL_PROCESSES ? ut_check_job->local_size : 0,
                "[process is|processes are] on a node, which has 48 cores there");
    print_count(
        read_count(&notes.shared),
        "[VCQ was|VCQs were] used by several threads, and created without THREAD_SAFE: correct "
        "only if no two of them are ever in a call at the same time (manual 3.3.4.1)");
    note_flags();
    note_lines();
    note_all_queues();
}
