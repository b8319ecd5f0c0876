/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges VCQ ids before there are connections. The first process of the job is on the first
 * node, so every process can compute its VCQ id. All processes put their VCQ ids and ranks into a
 * table of the first process. When the table is complete, the first process checks that the ranks
 * are a permutation, and puts to each process the VCQ ids of its partners. The table and the VCQs
 * of the exchange exist only during the exchange.
 */
#include "exchange.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "log.h"
#include "memory.h"
#include "stall.h"
#include "idle.h"

enum { PAUSE_NS = 200 * 1000 };

struct announcement { /* what a process puts into the table: 32 bytes, a piggyback put */
    utofu_vcq_id_t id;
    uint64_t rank, must_match;
    uint64_t arrived; /* arrives last */
};

struct reply {
    uint64_t partners[LC_MAX_PARTNERS];
    uint64_t result; /* arrives last */
};

struct exchange_state {
    const struct lc_exchange *m;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    struct lc_memory memory;
    struct reply *reply; /* memory of this process; in the first process the table follows it */
    struct announcement *table;
};

static uint64_t deadline_ns(void)
{
    return lc_now_ns() + lc_env_number("UTOFU_JOB_TIMEOUT", 60) * 1000000000ull;
}

__attribute__((format(printf, 2, 3))) static void log_line(const struct lc_exchange *m,
                                                           const char *format, ...)
{
    char text[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lc_log(m->job->layer, (int)m->job->launch_rank, "%s: %s", m->function, text);
}

/* Serves the communications of peers. This process has none in flight. */
static void make_progress(const struct exchange_state *p)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(p->vcq, 0, &notice);

    if (rc != UTOFU_ERR_NOT_FOUND)
        lc_job_check_rc(p->m->job, rc, "utofu_poll_mrq");
}

static bool open_exchange(struct exchange_state *p)
{
    const struct lc_job *job = p->m->job;

    if (utofu_create_vcq_with_cmp_id(0, p->m->cmp_id, 0, &p->vcq) != UTOFU_SUCCESS) {
        log_line(p->m, "no VCQ with component id %d on TNI 0: %s", p->m->cmp_id, lc_utofu_error());
        return false;
    }
    p->memory = (struct lc_memory){.job = job, .vcq = p->vcq, .what = "addresses"};
    p->memory.size = sizeof(struct reply) +
                     (job->launch_rank == 0 ? job->procs * sizeof(struct announcement) : 0);
    if (utofu_query_vcq_id(p->vcq, &p->id) != UTOFU_SUCCESS) {
        log_line(p->m, "the VCQ has no id: %s", lc_utofu_error());
    } else if (lc_memory_open(&p->memory)) {
        p->reply = p->memory.start;
        p->table = (struct announcement *)(p->reply + 1);
        return true;
    }
    lc_job_check_rc(job, utofu_free_vcq(p->vcq), "utofu_free_vcq");
    return false;
}

static void close_exchange(struct exchange_state *p)
{
    lc_memory_close(&p->memory);
    lc_job_check_rc(p->m->job, utofu_free_vcq(p->vcq), "utofu_free_vcq");
}

/* A remote notice says nothing about the communication of this process. */
static bool is_remote(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_RMT_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_RMT_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_RMT_ARMW;
}

/* Waits for the only communication in flight, and returns its result. */
static int wait_for_completion(const struct exchange_state *p, uint32_t to)
{
    struct lc_stall_timer stall = {0};
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(p->vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND ||
           (rc == UTOFU_SUCCESS && is_remote(&notice))) {
        if ((rc = utofu_poll_tcq(p->vcq, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND && rc < 0)
            return rc;
        if (lc_stall_should_log(&stall, 0))
            log_line(p->m, "has waited %llu s for a put to process %u of %u",
                     lc_stall_seconds(&stall), to, p->m->job->procs);
        sched_yield();
    }
    return rc;
}

/* The VCQ of the exchange, of the process that has this VCQ for work. */
static utofu_vcq_id_t exchange_vcq_id(const struct lc_exchange *m, utofu_vcq_id_t work)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    utofu_vcq_id_t id;

    if (utofu_query_vcq_info(work, coords, &tni, &cq, &extra) == UTOFU_SUCCESS &&
        utofu_construct_vcq_id(coords, tni, cq, m->cmp_id, &id) == UTOFU_SUCCESS)
        return id;
    return 0; /* not the id of any VCQ */
}

/*
 * The first process
 */

static uint32_t num_missing(const struct exchange_state *p)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < p->m->job->procs; r++)
        n += __atomic_load_n(&p->table[r].arrived, __ATOMIC_ACQUIRE) == 0;
    return n;
}

static unsigned long long seconds_until(uint64_t end)
{
    uint64_t now = lc_now_ns();

    return end > now ? (end - now) / 1000000000 : 0;
}

static bool wait_for_all(const struct exchange_state *p)
{
    struct lc_stall_timer stall = {0};
    uint64_t end = deadline_ns();

    for (uint32_t r = 0; r < p->m->job->procs; r++) {
        while (__atomic_load_n(&p->table[r].arrived, __ATOMIC_ACQUIRE) == 0) {
            make_progress(p);
            if (lc_now_ns() > end) {
                log_line(p->m,
                         "process %u of %u has not arrived within %u seconds (UTOFU_JOB_TIMEOUT)",
                         r, p->m->job->procs, lc_env_number("UTOFU_JOB_TIMEOUT", 60));
                return false;
            }
            if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
                log_line(p->m,
                         "has waited %llu s for %u of %u processes to arrive, the first of them "
                         "process %u; %llu s are left (UTOFU_JOB_TIMEOUT)",
                         lc_stall_seconds(&stall), num_missing(p), p->m->job->procs, r,
                         seconds_until(end));
            lc_sleep_ns(PAUSE_NS);
        }
    }
    return true;
}

/* Checks that a reply can be sent to the VCQ id that the process has put. */
static bool has_good_id(const struct exchange_state *p, uint32_t i)
{
    if (exchange_vcq_id(p->m, p->table[i].id) != 0)
        return true;
    log_line(p->m, "process %u has sent 0x%016llx, which is not a VCQ id: %s", i,
             (unsigned long long)p->table[i].id, lc_utofu_error());
    return false;
}

/* by_rank[r]: the process that has rank r. If the ranks are not a permutation, each process has its
 * launcher rank. */
static enum lc_exchange_result check_ranks(const struct exchange_state *p, uint32_t *by_rank)
{
    bool agree = true, permutation = true, known = true;

    for (uint32_t r = 0; r < p->m->job->procs; r++)
        by_rank[r] = p->m->job->procs;
    for (uint32_t i = 0; i < p->m->job->procs; i++) {
        uint64_t rank = __atomic_load_n(&p->table[i].rank, __ATOMIC_RELAXED); /* read only once */

        known &= has_good_id(p, i);
        agree &= p->table[i].must_match == p->table[0].must_match;
        if (rank < p->m->job->procs && by_rank[rank] == p->m->job->procs)
            by_rank[rank] = i;
        else
            permutation = false;
    }
    for (uint32_t r = 0; !permutation && r < p->m->job->procs; r++)
        by_rank[r] = r;
    return !known         ? LC_EXCHANGE_FAILED
           : !permutation ? LC_EXCHANGE_BAD_RANKS
           : agree        ? LC_EXCHANGE_OK
                          : LC_EXCHANGE_MISMATCH;
}

static void fill_reply(const struct exchange_state *p, const uint32_t *by_rank, uint32_t rank,
                       enum lc_exchange_result result)
{
    for (uint32_t k = 0; k < p->m->job->num_partners; k++)
        p->reply->partners[k] = p->table[by_rank[(rank + (1ull << k)) % p->m->job->procs]].id;
    p->reply->result = result;
}

static bool send_reply(const struct exchange_state *p, uint32_t to)
{
    utofu_vcq_id_t id = exchange_vcq_id(p->m, p->table[to].id);
    utofu_stadd_t rmt;
    int rc;

    if (id == 0)
        return false; /* check_ranks() has logged the error */
    rc = utofu_query_stadd(id, 0, &rmt);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_put(p->vcq, id, p->memory.stadd, rmt, sizeof(struct reply), 0,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                       NULL);
    if (rc == UTOFU_SUCCESS)
        rc = wait_for_completion(p, to);
    if (rc != UTOFU_SUCCESS)
        log_line(p->m, "cannot send a reply to process %u: %s", to, lc_utofu_error());
    return rc == UTOFU_SUCCESS;
}

static bool reply_to_all(const struct exchange_state *p)
{
    uint32_t *by_rank = malloc(p->m->job->procs * sizeof(*by_rank));
    uint32_t own = 0;
    enum lc_exchange_result result;
    bool good = true;

    if (by_rank == NULL) {
        log_line(p->m, "no memory for %u ranks", p->m->job->procs);
        return false;
    }
    result = check_ranks(p, by_rank);
    for (uint32_t rank = 0; rank < p->m->job->procs; rank++) {
        if (by_rank[rank] == 0) {
            own = rank;
            continue;
        }
        fill_reply(p, by_rank, rank, result);
        good &= send_reply(p, by_rank[rank]);
    }
    fill_reply(p, by_rank, own, result);
    free(by_rank);
    return good;
}

/*
 * The other processes
 */

/* The put fails until the first process has opened its table, and is retried. */
static bool announce_self(const struct exchange_state *p, const struct announcement *announcement)
{
    uint8_t first_node[6] = {0};
    uint64_t end = deadline_ns();
    utofu_vcq_id_t first;
    utofu_stadd_t table;
    struct lc_stall_timer stall = {0};
    struct announcement copy = *announcement;
    int rc;

    if (utofu_construct_vcq_id(first_node, 0, 0, p->m->cmp_id, &first) != UTOFU_SUCCESS ||
        utofu_query_stadd(first, 0, &table) != UTOFU_SUCCESS) {
        log_line(p->m, "the first process of the job has no VCQ id: %s", lc_utofu_error());
        return false;
    }
    if (first == p->id) {
        log_line(p->m,
                 "uTofu does not see the %u processes that the launcher started "
                 "(with srun, use --mpi=pmix or --mpi=pmi2)",
                 p->m->job->procs);
        return false;
    }
    table += sizeof(struct reply) + p->m->job->launch_rank * sizeof(*announcement);
    for (;;) {
        rc = utofu_put_piggyback(
            p->vcq, first, &copy, table, sizeof(copy), 0,
            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL);
        if (rc == UTOFU_SUCCESS)
            rc = wait_for_completion(p, 0);
        if ((rc != UTOFU_ERR_MRQ_RMT_STADD && rc != UTOFU_ERR_MRQ_PEER) || lc_now_ns() > end)
            break;
        if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
            log_line(p->m,
                     "has waited %llu s for the first process of the job, which has not arrived; "
                     "%llu s are left (UTOFU_JOB_TIMEOUT)",
                     lc_stall_seconds(&stall), seconds_until(end));
        lc_sleep_ns(PAUSE_NS);
    }
    if (rc != UTOFU_SUCCESS)
        log_line(p->m, "cannot reach the first process of the job: %s", lc_utofu_error());
    return rc == UTOFU_SUCCESS;
}

static bool wait_for_reply(const struct exchange_state *p)
{
    uint64_t end = deadline_ns() + 2000000000;
    struct lc_stall_timer stall = {0};

    while (__atomic_load_n(&p->reply->result, __ATOMIC_ACQUIRE) == 0) {
        make_progress(p);
        if (lc_now_ns() > end) {
            log_line(p->m,
                     "the first process of the job has not replied: have all processes called %s?",
                     p->m->function);
            return false;
        }
        if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
            log_line(p->m,
                     "has waited %llu s for the reply of the first process of the job: not all "
                     "processes have arrived; %llu s are left (UTOFU_JOB_TIMEOUT)",
                     lc_stall_seconds(&stall), seconds_until(end));
        lc_sleep_ns(PAUSE_NS);
    }
    return true;
}

/* The result from the first process. LC_EXCHANGE_FAILED, after a line on standard error, if the
 * memory does not hold a valid reply. */
static enum lc_exchange_result read_reply(const struct exchange_state *p,
                                          uint64_t partners[LC_MAX_PARTNERS])
{
    uint64_t result = __atomic_load_n(&p->reply->result, __ATOMIC_ACQUIRE);

    if (result > LC_EXCHANGE_FAILED) {
        log_line(p->m,
                 "received 0x%llx instead of a reply of the first process of the job: does another "
                 "program of the job use this memory?",
                 (unsigned long long)result);
        return LC_EXCHANGE_FAILED;
    }
    memcpy(partners, p->reply->partners, sizeof(p->reply->partners));
    for (uint32_t k = 0; result == LC_EXCHANGE_OK && k < p->m->job->num_partners; k++) {
        if (exchange_vcq_id(p->m, partners[k]) != 0)
            continue;
        log_line(p->m,
                 "the first process of the job has sent 0x%016llx for the process %llu ranks "
                 "ahead, which is not a VCQ id: %s",
                 (unsigned long long)partners[k], 1ull << k, lc_utofu_error());
        return LC_EXCHANGE_FAILED;
    }
    return (enum lc_exchange_result)result;
}

enum lc_exchange_result lc_exchange_ids(const struct lc_exchange *m, uint64_t rank,
                                        utofu_vcq_id_t id, uint64_t partners[LC_MAX_PARTNERS])
{
    const struct announcement announcement = {
        .id = id, .rank = rank, .must_match = m->must_match, .arrived = 1};
    enum lc_exchange_result result = LC_EXCHANGE_FAILED;
    struct exchange_state state = {.m = m};
    bool good;

    if (m->job->procs == 1)
        return rank == 0 ? LC_EXCHANGE_OK : LC_EXCHANGE_BAD_RANKS;
    if (!open_exchange(&state))
        return LC_EXCHANGE_FAILED;
    if (m->job->launch_rank == 0) {
        state.table[0] = announcement;
        good = wait_for_all(&state) && reply_to_all(&state);
    } else {
        good = announce_self(&state, &announcement) && wait_for_reply(&state);
    }
    if (good)
        result = read_reply(&state, partners);
    close_exchange(&state);
    return result;
}
