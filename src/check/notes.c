/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is no error, but different on the real machine: told by rank 0 when the process ends. The
 * numbers are those of the manual's chapter 6.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bootstrap/job.h"
#include "check/inner.h"
#include "process/process.h"

enum { REAL_CQS = 9, REAL_PROCESSES = 48, REAL_GATES = 48, MRQ_SHARE = 2, MANY = 1000 };

/* All atomic. */
static uint64_t with_path, with_gap, with_injection, with_padding, weak_injection;
static uint64_t unread_tcq, unread_mrq, unpolled, unstarted, crowded, shared;
static int gates[UT_NUM_TNIS], most_gates; /* at one time, on one TNI */
static uint32_t cqs[UT_NUM_TNIS];          /* bits: CQs of this process that have had a VCQ */

static void add(uint64_t *count, uint64_t n)
{
    __atomic_add_fetch(count, n, __ATOMIC_RELAXED);
}

static uint64_t got(uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

void ut_check_note_comm(const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    bool paced = d->kind == UT_DESC_PUT || d->kind == UT_DESC_GET;
    bool padded = d->kind == UT_DESC_PIGGYBACK && (d->flags & UTOFU_ONESIDED_FLAG_PADDING);

    if (ut_desc_path(d) != 0)
        add(&with_path, 1);
    if (paced && (d->gap != 0 || d->mtu != UT_MAX_MTU))
        add(&with_gap, 1);
    if (padded)
        add(&with_padding, 1);
    if (!(d->flags & UTOFU_ONESIDED_FLAG_CACHE_INJECTION))
        return;
    add(&with_injection, 1);
    if (d->kind == UT_DESC_PIGGYBACK && !padded)
        add(&weak_injection, 1);
}

void ut_check_gates(unsigned int tni, int n)
{
    int now = __atomic_add_fetch(&gates[tni], n, __ATOMIC_RELAXED);
    int most = __atomic_load_n(&most_gates, __ATOMIC_RELAXED);

    while (now > most && !__atomic_compare_exchange_n(&most_gates, &most, now, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void ut_check_note_end(struct ut_vcq *vcq)
{
    const struct ut_check *check = vcq->check;
    uint32_t in_mrq = vcq->mrq_tail - vcq->mrq_head;

    __atomic_or_fetch(&cqs[vcq->tni], 1u << vcq->cq_index, __ATOMIC_RELAXED);
    add(&unread_mrq, in_mrq);
    add(&crowded, *vcq->mrq_most > vcq->mrq_entries / MRQ_SHARE);
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        add(&unread_tcq, (slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE) != 0);
    }
    add(&unpolled, check->number > MANY && check->polls == 0);
    add(&unstarted, vcq->toq_tail - vcq->toq_exec);
    add(&shared, check->several_threads && !(vcq->flags & UTOFU_VCQ_FLAG_THREAD_SAFE));
}

static void note(uint64_t count, const char *text)
{
    char line[512];
    int n = count
                ? snprintf(line, sizeof(line), "utofu: check: note: %" PRIu64 " %s\n", count, text)
                : 0;

    if (n > 0)
        ut_check_write(line, (size_t)n);
}

static void note_cqs(void)
{
    uint64_t most = 0;

    for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
        uint64_t n = (uint64_t)__builtin_popcount(__atomic_load_n(&cqs[t], __ATOMIC_RELAXED));
        most = n > most ? n : most;
    }
    if (most * ut_check_job->local_size > REAL_CQS)
        note(most * ut_check_job->local_size,
             "CQs of a TNI are used on a node, if its processes use as many as this one: the real "
             "machine has 9 for all of them (manual 6.1.2)");
}

static void note_gates(void)
{
    uint64_t all =
        (uint64_t)__atomic_load_n(&most_gates, __ATOMIC_RELAXED) * ut_check_job->local_size;

    note(all > REAL_GATES ? all : 0,
         "barrier gates of a TNI are used on a node, if its processes use as many as this one: the "
         "real machine has 48 for all of them, 16 of these to start with (manual 6.1.2)");
}

void ut_check_print_notes(void)
{
    if (ut_check_job->rank != 0)
        return;
    note_cqs();
    note_gates();
    note(ut_check_job->local_size > REAL_PROCESSES ? ut_check_job->local_size : 0,
         "processes are on a node, which has 48 cores there");
    note(got(&shared),
         "VCQs were used by several threads, and made without THREAD_SAFE: right only "
         "if no two of them are ever in a call at once (manual 3.3.4.1)");
    note(got(&with_gap), "puts and gets had a gap or an MTU, which have no effect here (2.2.9)");
    note(got(&with_path), "communications had a path id, which does not change the way here (3.5)");
    note(got(&with_injection),
         "communications had CACHE_INJECTION, which has no effect here (2.2.11)");
    note(got(&weak_injection), "of them were piggyback puts without PADDING: they do not reach the "
                               "cache there (2.2.11)");
    note(got(&with_padding),
         "puts had PADDING: there the rest of the cache line at the target gets "
         "bytes of which nothing is said, here it is left alone (2.2.11)");
    note(got(&unread_tcq), "TCQ entries were asked for and never polled (3.7)");
    note(got(&unread_mrq),
         "MRQ notices came and were never polled: a full MRQ ends the program (3.7)");
    note(got(&crowded), "VCQs had an MRQ that was more than half full: when it is full, the "
                        "program ends (4.3.2.3)");
    note(got(&unpolled),
         "VCQs had more than 1000 communications and no poll that found nothing: there "
         "is room in a queue only after polls (3.7)");
    note(got(&unstarted), "descriptors of session-mode VCQs were never started (2.2.8.1)");
}
