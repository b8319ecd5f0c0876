/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How processes find each other before there are connections: all put their VCQ ids, with their
 * ranks, into a table of the first process of the job, which is on the first node and so known to
 * everybody. When all have come it looks whether their ranks are a permutation, and puts the ids of
 * its fingers into the memory of each. The table exists, and the VCQs for this exist, only
 * meanwhile.
 */
#include "meet.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "log.h"
#include "memory.h"
#include "patience.h"
#include "rest.h"

enum { PAUSE_NS = 200 * 1000 };

struct card { /* what a process brings: 32 bytes, a piggyback put */
    utofu_vcq_id_t id;
    uint64_t rank, agreed;
    uint64_t come; /* arrives last */
};

struct reply {
    uint64_t fingers[LC_MAX_FINGERS];
    uint64_t verdict; /* arrives last */
};

struct place {
    const struct lc_meeting *m;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    struct lc_memory memory;
    struct reply *reply; /* own memory; that of the first process has the table behind */
    struct card *table;
};

static uint64_t deadline_ns(void)
{
    return lc_now_ns() + lc_env_number("UTOFU_JOB_TIMEOUT", 60) * 1000000000ull;
}

__attribute__((format(printf, 2, 3))) static void say_line(const struct lc_meeting *m,
                                                           const char *format, ...)
{
    char text[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lc_say(m->job->layer, (int)m->job->place, "%s: %s", m->function, text);
}

/* For what the peers ask of this process: nothing of its own is under way. */
static void make_progress(const struct place *p)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(p->vcq, 0, &notice);

    if (rc != UTOFU_ERR_NOT_FOUND)
        lc_job_expect(p->m->job, rc, "utofu_poll_mrq");
}

static bool open_place(struct place *p)
{
    const struct lc_job *job = p->m->job;

    if (utofu_create_vcq_with_cmp_id(0, p->m->cmp_id, 0, &p->vcq) != UTOFU_SUCCESS) {
        say_line(p->m, "no VCQ with component id %d on TNI 0: %s", p->m->cmp_id, lc_utofu_error());
        return false;
    }
    p->memory = (struct lc_memory){.job = job, .vcq = p->vcq, .what = "addresses"};
    p->memory.size =
        sizeof(struct reply) + (job->place == 0 ? job->procs * sizeof(struct card) : 0);
    if (utofu_query_vcq_id(p->vcq, &p->id) != UTOFU_SUCCESS) {
        say_line(p->m, "the VCQ has no id: %s", lc_utofu_error());
    } else if (lc_memory_open(&p->memory)) {
        p->reply = p->memory.at;
        p->table = (struct card *)(p->reply + 1);
        return true;
    }
    lc_job_expect(job, utofu_free_vcq(p->vcq), "utofu_free_vcq");
    return false;
}

static void close_place(struct place *p)
{
    lc_memory_close(&p->memory);
    lc_job_expect(p->m->job, utofu_free_vcq(p->vcq), "utofu_free_vcq");
}

/* What others have started here says nothing of what this process has. */
static bool is_remote(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_RMT_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_RMT_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_RMT_ARMW;
}

/* The result of the one communication in flight. */
static int wait_notice(const struct place *p, uint32_t to)
{
    struct lc_patience patience = {0};
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(p->vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND ||
           (rc == UTOFU_SUCCESS && is_remote(&notice))) {
        if ((rc = utofu_poll_tcq(p->vcq, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND && rc < 0)
            return rc;
        if (lc_patience_ends(&patience, 0))
            say_line(p->m, "has waited %llu s for a put to process %u of %u",
                     lc_patience_seconds(&patience), to, p->m->job->procs);
        sched_yield();
    }
    return rc;
}

/* The VCQ for meeting of the process that has this VCQ for work. */
static utofu_vcq_id_t meeting_id(const struct lc_meeting *m, utofu_vcq_id_t work)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    utofu_vcq_id_t id;

    if (utofu_query_vcq_info(work, coords, &tni, &cq, &extra) == UTOFU_SUCCESS &&
        utofu_construct_vcq_id(coords, tni, cq, m->cmp_id, &id) == UTOFU_SUCCESS)
        return id;
    return 0; /* no VCQ has it */
}

/*
 * The first process.
 */

static uint32_t num_missing(const struct place *p)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < p->m->job->procs; r++)
        n += __atomic_load_n(&p->table[r].come, __ATOMIC_ACQUIRE) == 0;
    return n;
}

static unsigned long long seconds_until(uint64_t end)
{
    uint64_t now = lc_now_ns();

    return end > now ? (end - now) / 1000000000 : 0;
}

static bool all_have_come(const struct place *p)
{
    struct lc_patience patience = {0};
    uint64_t end = deadline_ns();

    for (uint32_t r = 0; r < p->m->job->procs; r++) {
        while (__atomic_load_n(&p->table[r].come, __ATOMIC_ACQUIRE) == 0) {
            make_progress(p);
            if (lc_now_ns() > end) {
                say_line(p->m,
                         "process %u of %u has not come in %u seconds "
                         "(UTOFU_JOB_TIMEOUT)",
                         r, p->m->job->procs, lc_env_number("UTOFU_JOB_TIMEOUT", 60));
                return false;
            }
            if (lc_patience_ends(&patience, LC_PATIENCE_SLEEPS_FROM))
                say_line(
                    p->m,
                    "has waited %llu s for %u of %u processes to come, the first of them process "
                    "%u; %llu s are left (UTOFU_JOB_TIMEOUT)",
                    lc_patience_seconds(&patience), num_missing(p), p->m->job->procs, r,
                    seconds_until(end));
            lc_nap(PAUSE_NS);
        }
    }
    return true;
}

/* The process has come with an id that a VCQ can have: else it cannot be answered. */
static bool has_good_id(const struct place *p, uint32_t i)
{
    if (meeting_id(p->m, p->table[i].id) != 0)
        return true;
    say_line(p->m, "process %u has come with 0x%016llx, which is no VCQ id: %s", i,
             (unsigned long long)p->table[i].id, lc_utofu_error());
    return false;
}

/* by_rank[r]: who has rank r. Where the ranks are no permutation, each
 * process has the rank of its place in the job. */
static enum lc_verdict judge_ranks(const struct place *p, uint32_t *by_rank)
{
    bool agree = true, permutation = true, known = true;

    for (uint32_t r = 0; r < p->m->job->procs; r++)
        by_rank[r] = p->m->job->procs;
    for (uint32_t i = 0; i < p->m->job->procs; i++) {
        uint64_t rank = __atomic_load_n(&p->table[i].rank, __ATOMIC_RELAXED); /* once */

        known &= has_good_id(p, i);
        agree &= p->table[i].agreed == p->table[0].agreed;
        if (rank < p->m->job->procs && by_rank[rank] == p->m->job->procs)
            by_rank[rank] = i;
        else
            permutation = false;
    }
    for (uint32_t r = 0; !permutation && r < p->m->job->procs; r++)
        by_rank[r] = r;
    return !known ? LC_FAILED : !permutation ? LC_NO_PERMUTATION : agree ? LC_GOOD : LC_DISAGREED;
}

static void fill_reply(const struct place *p, const uint32_t *by_rank, uint32_t rank,
                       enum lc_verdict verdict)
{
    for (uint32_t k = 0; k < p->m->job->num_fingers; k++)
        p->reply->fingers[k] = p->table[by_rank[(rank + (1ull << k)) % p->m->job->procs]].id;
    p->reply->verdict = verdict;
}

static bool send_reply(const struct place *p, uint32_t to)
{
    utofu_vcq_id_t id = meeting_id(p->m, p->table[to].id);
    utofu_stadd_t rmt;
    int rc;

    if (id == 0)
        return false; /* judge_ranks() has said so */
    rc = utofu_query_stadd(id, 0, &rmt);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_put(p->vcq, id, p->memory.stadd, rmt, sizeof(struct reply), 0,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                       NULL);
    if (rc == UTOFU_SUCCESS)
        rc = wait_notice(p, to);
    if (rc != UTOFU_SUCCESS)
        say_line(p->m, "process %u cannot be answered: %s", to, lc_utofu_error());
    return rc == UTOFU_SUCCESS;
}

static bool answer_all(const struct place *p)
{
    uint32_t *by_rank = malloc(p->m->job->procs * sizeof(*by_rank));
    uint32_t own = 0;
    enum lc_verdict verdict;
    bool good = true;

    if (by_rank == NULL) {
        say_line(p->m, "no memory for %u ranks", p->m->job->procs);
        return false;
    }
    verdict = judge_ranks(p, by_rank);
    for (uint32_t rank = 0; rank < p->m->job->procs; rank++) {
        if (by_rank[rank] == 0) {
            own = rank;
            continue;
        }
        fill_reply(p, by_rank, rank, verdict);
        good &= send_reply(p, by_rank[rank]);
    }
    fill_reply(p, by_rank, own, verdict);
    free(by_rank);
    return good;
}

/*
 * The others.
 */

/* The first process may not be there yet: then the put fails, and is tried again. */
static bool announce_self(const struct place *p, const struct card *card)
{
    uint8_t first_node[6] = {0};
    uint64_t end = deadline_ns();
    utofu_vcq_id_t first;
    utofu_stadd_t table;
    struct lc_patience patience = {0};
    struct card copy = *card;
    int rc;

    if (utofu_construct_vcq_id(first_node, 0, 0, p->m->cmp_id, &first) != UTOFU_SUCCESS ||
        utofu_query_stadd(first, 0, &table) != UTOFU_SUCCESS) {
        say_line(p->m, "the first process of the job has no VCQ id: %s", lc_utofu_error());
        return false;
    }
    if (first == p->id) {
        say_line(p->m,
                 "uTofu does not see the %u processes that the launcher started "
                 "(with srun, use --mpi=pmix or --mpi=pmi2)",
                 p->m->job->procs);
        return false;
    }
    table += sizeof(struct reply) + p->m->job->place * sizeof(*card);
    for (;;) {
        rc = utofu_put_piggyback(
            p->vcq, first, &copy, table, sizeof(copy), 0,
            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = wait_notice(p, 0);
        if ((rc != UTOFU_ERR_MRQ_RMT_STADD && rc != UTOFU_ERR_MRQ_PEER) || lc_now_ns() > end)
            break;
        if (lc_patience_ends(&patience, LC_PATIENCE_SLEEPS_FROM))
            say_line(
                p->m,
                "has waited %llu s for the first process of the job, which has not come; %llu s "
                "are left (UTOFU_JOB_TIMEOUT)",
                lc_patience_seconds(&patience), seconds_until(end));
        lc_nap(PAUSE_NS);
    }
    if (rc != UTOFU_SUCCESS)
        say_line(p->m, "the first process of the job cannot be reached: %s", lc_utofu_error());
    return rc == UTOFU_SUCCESS;
}

static bool wait_for_reply(const struct place *p)
{
    uint64_t end = deadline_ns() + 2000000000;
    struct lc_patience patience = {0};

    while (__atomic_load_n(&p->reply->verdict, __ATOMIC_ACQUIRE) == 0) {
        make_progress(p);
        if (lc_now_ns() > end) {
            say_line(p->m,
                     "the first process of the job has not answered: not all processes "
                     "have called %s?",
                     p->m->function);
            return false;
        }
        if (lc_patience_ends(&patience, LC_PATIENCE_SLEEPS_FROM))
            say_line(
                p->m,
                "has waited %llu s for the first process of the job to answer: not all processes "
                "have come; %llu s are left (UTOFU_JOB_TIMEOUT)",
                lc_patience_seconds(&patience), seconds_until(end));
        lc_nap(PAUSE_NS);
    }
    return true;
}

/* What the first process has said, or LC_FAILED with a line: that is not an answer of it. */
static enum lc_verdict read_reply(const struct place *p, uint64_t fingers[LC_MAX_FINGERS])
{
    uint64_t verdict = __atomic_load_n(&p->reply->verdict, __ATOMIC_ACQUIRE);

    if (verdict > LC_FAILED) {
        say_line(p->m,
                 "0x%llx is no answer of the first process of the job: does another program of the "
                 "job use this memory?",
                 (unsigned long long)verdict);
        return LC_FAILED;
    }
    memcpy(fingers, p->reply->fingers, sizeof(p->reply->fingers));
    for (uint32_t k = 0; verdict == LC_GOOD && k < p->m->job->num_fingers; k++) {
        if (meeting_id(p->m, fingers[k]) != 0)
            continue;
        say_line(
            p->m,
            "the first process of the job says 0x%016llx of the process %llu ranks ahead, which "
            "is no VCQ id: %s",
            (unsigned long long)fingers[k], 1ull << k, lc_utofu_error());
        return LC_FAILED;
    }
    return (enum lc_verdict)verdict;
}

enum lc_verdict lc_meet(const struct lc_meeting *m, uint64_t rank, utofu_vcq_id_t id,
                        uint64_t fingers[LC_MAX_FINGERS])
{
    const struct card card = {.id = id, .rank = rank, .agreed = m->agreed, .come = 1};
    enum lc_verdict verdict = LC_FAILED;
    struct place place = {.m = m};
    bool good;

    if (m->job->procs == 1)
        return rank == 0 ? LC_GOOD : LC_NO_PERMUTATION;
    if (!open_place(&place))
        return LC_FAILED;
    if (m->job->place == 0) {
        place.table[0] = card;
        good = all_have_come(&place) && answer_all(&place);
    } else {
        good = announce_self(&place, &card) && wait_for_reply(&place);
    }
    if (good)
        verdict = read_reply(&place, fingers);
    close_place(&place);
    return verdict;
}
