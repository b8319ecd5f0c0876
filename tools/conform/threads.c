/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: what may be called at a time. Each thread has a part of its own in the argument, so that
   nothing is shared but the objects of the library. */
#include <stdlib.h>
#include <string.h>

#include "circuit.h"
#include "owned.h"

enum {
    THREADS = 4,
    EACH = 200,
    NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
    LOCAL = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
    TCQ = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
    SAFE = UTOFU_VCQ_FLAG_THREAD_SAFE
};

/* What a thread uses and sees. The first error is kept with the number of the step. */
struct part {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    unsigned char *memory; /* 4096 bytes */
    int code, step;
    size_t tcqs, mrqs;
    uint64_t sum; /* of callback data or EDATA that came */
    utofu_vbg_id_t gate;
};

struct parts {
    struct part part[THREADS];
    utofu_tni_id_t tni[6];
    size_t tnis;
    utofu_vcq_id_t next_id;
    utofu_stadd_t next_stadd;
    /* a VCQ on the last TNI, which no thread calls: the threads put to its memory */
    utofu_vcq_hdl_t target;
    utofu_vcq_id_t target_id;
    utofu_stadd_t target_stadd;
};

static void keep_code(struct part *p, int code, int step)
{
    if (code == UTOFU_SUCCESS || p->code != UTOFU_SUCCESS)
        return;
    p->code = code;
    p->step = step;
}

/* A VCQ with memory for each thread, or one for all, whose memory is apart. 0: the case is left */
static int open_parts(struct cf *c, struct parts *all, int shared,
                      const unsigned long flags[THREADS], const size_t places[THREADS])
{
    int rc;

    memset(all, 0, sizeof(*all));
    all->tnis = cf_count_tnis(c) < 6 ? cf_count_tnis(c) : 6;
    for (size_t i = 0; i < all->tnis; i++) {
        if (!cf_tni(c, i, &all->tni[i]))
            return 0;
    }
    rc = cf_create_vcq(all->tni[all->tnis - 1], 0, &all->target);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(all->target, &all->target_id);
    if (rc == UTOFU_SUCCESS)
        rc =
            cf_reg_mem(all->target, cf_keep(4096 * THREADS), 4096 * THREADS, 0, &all->target_stadd);
    if (rc != UTOFU_SUCCESS) {
        cf_fail(c, "the VCQ that threads put to: %s", cf_code(rc));
        return 0;
    }
    for (int i = 0; i < THREADS; i++) {
        struct part *p = &all->part[i];
        rc = UTOFU_SUCCESS;
        if (shared && i > 0) {
            p->vcq = all->part[0].vcq;
        } else {
            rc = cf_create_vcq(all->tni[places[i] % all->tnis], flags[i], &p->vcq);
            if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_NOT_AVAILABLE) {
                cf_skip(c, "no VCQ of flags %lu: %s", flags[i], cf_code(rc));
                return 0;
            }
        }
        p->memory = cf_keep(4096);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_query_vcq_id(p->vcq, &p->id);
        if (rc == UTOFU_SUCCESS)
            rc = cf_reg_mem(p->vcq, p->memory, 4096, 0, &p->stadd);
        if (rc != UTOFU_SUCCESS) {
            cf_fail(c, "a VCQ of flags %lu with memory: %s", flags[i], cf_code(rc));
            return 0;
        }
    }
    return 1;
}

static int run_threads(struct cf *c, void (*function)(int thread, void *argument),
                       struct parts *all, int count)
{
    int good = 1;

    if (!cf_threads(count, function, all)) {
        cf_skip(c, "no %d threads", count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (all->part[i].code == UTOFU_SUCCESS)
            continue;
        cf_fail(c, "thread %d, step %d: %s", i, all->part[i].step, cf_code(all->part[i].code));
        good = 0;
    }
    return good;
}

/* ---- VCQs ---- */

/* Each thread puts within its memory, and reads the TCQ as it goes on: what it finds may be
 * another's */
static void put_and_poll(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < EACH; i++) {
        uintptr_t number = (uintptr_t)(thread * EACH + i + 1);
        double until = cf_now() + 10;
        void *data = NULL;
        int rc;
        while ((rc = utofu_put(p->vcq, all->target_id, p->stadd,
                               all->target_stadd + 4096u * (unsigned)thread, 64, 0, TCQ,
                               (void *)number)) == UTOFU_ERR_BUSY ||
               rc == UTOFU_ERR_FULL) {
            if (cf_now() > until)
                break;
            if (utofu_poll_tcq(p->vcq, 0, &data) == UTOFU_SUCCESS) {
                p->tcqs++;
                p->sum += (uintptr_t)data;
            }
        }
        keep_code(p, rc, i);
        rc = utofu_poll_tcq(p->vcq, 0, &data);
        if (rc == UTOFU_SUCCESS) {
            p->tcqs++;
            p->sum += (uintptr_t)data;
        } else if (rc != UTOFU_ERR_NOT_FOUND) {
            keep_code(p, rc, i);
        }
    }
}

/* All entries of the threads' puts came once: what the threads have not found, is found now */
static void count_entries(struct cf *c, struct parts *all, int shared)
{
    size_t tcqs = 0;
    uint64_t sum = 0, expected = 0;

    for (int i = 0; i < THREADS; i++) {
        struct part *p = &all->part[i];
        for (int k = 0; k < EACH; k++)
            expected += (uint64_t)(i * EACH + k + 1);
        tcqs += p->tcqs;
        sum += p->sum;
        if (shared && i < THREADS - 1)
            continue;
        while (tcqs < (size_t)(i + 1) * EACH) {
            void *data = NULL;
            int rc = cf_tcq(p->vcq, &data);
            CF_NEED(c, rc == UTOFU_SUCCESS, "%lu TCQ entries of %d, and then %s",
                    (unsigned long)tcqs, (i + 1) * EACH, cf_code(rc));
            tcqs++;
            sum += (uintptr_t)data;
        }
    }
    CF_HOLDS(c, tcqs == THREADS * EACH && sum == expected,
             "%lu TCQ entries with callback data of %lu, not %d with %lu", (unsigned long)tcqs,
             (unsigned long)sum, THREADS * EACH, (unsigned long)expected);
}

static void put_by_threads(struct cf *c, int shared, const unsigned long flags[THREADS],
                           const size_t places[THREADS])
{
    struct parts all;

    if (open_parts(c, &all, shared, flags, places) && run_threads(c, put_and_poll, &all, THREADS))
        count_entries(c, &all, shared);
}

static void put_on_safe(struct cf *c)
{
    static const unsigned long flags[THREADS] = {SAFE, 0, 0, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};

    put_by_threads(c, 1, flags, places);
}

static void put_beside_safe(struct cf *c)
{
    static const unsigned long flags[THREADS] = {SAFE, SAFE, SAFE, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};

    put_by_threads(c, 0, flags, places);
}

static void put_beside_exclusive(struct cf *c)
{
    static const unsigned long flags[THREADS] = {UTOFU_VCQ_FLAG_EXCLUSIVE, 0,
                                                 UTOFU_VCQ_FLAG_EXCLUSIVE, 0};
    static const size_t places[THREADS] = {0, 1, 2, 3};

    put_by_threads(c, 0, flags, places);
}

static void put_on_tnis(struct cf *c)
{
    static const unsigned long flags[THREADS] = {0, 0, 0, 0};
    static const size_t places[THREADS] = {0, 1, 2, 3};

    if (cf_count_tnis(c) < THREADS) {
        cf_skip(c, "fewer than %d TNIs", THREADS);
        return;
    }
    put_by_threads(c, 0, flags, places);
}

/* Memory is registered twice and deregistered twice */
static void register_and_free(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < 100; i++) {
        utofu_stadd_t stadd[2] = {0, 0};
        keep_code(p, utofu_reg_mem(p->vcq, p->memory, 2048, 0, &stadd[0]), i);
        keep_code(p, utofu_reg_mem(p->vcq, p->memory, 2048, 0, &stadd[1]), i);
        if (p->code != UTOFU_SUCCESS)
            return;
        if (stadd[0] != stadd[1])
            keep_code(p, UTOFU_ERR_INVALID_STADD, i);
        keep_code(p, utofu_dereg_mem(p->vcq, stadd[0], 0), i);
        keep_code(p, utofu_dereg_mem(p->vcq, stadd[1], 0), i);
    }
}

static void register_on_safe(struct cf *c)
{
    static const unsigned long flags[THREADS] = {SAFE, 0, 0, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};
    struct parts all;

    if (open_parts(c, &all, 1, flags, places))
        run_threads(c, register_and_free, &all, THREADS);
}

static void register_on_tnis(struct cf *c)
{
    static const unsigned long flags[THREADS] = {0, 0, 0, 0};
    static const size_t places[THREADS] = {0, 1, 2, 3};
    struct parts all;

    if (cf_count_tnis(c) < THREADS) {
        cf_skip(c, "fewer than %d TNIs", THREADS);
        return;
    }
    if (open_parts(c, &all, 0, flags, places))
        run_threads(c, register_and_free, &all, THREADS);
}

/* Notices of a VCQ come to the threads that poll it, each once */
static void poll_notices(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];
    double until = cf_now() + 10;
    size_t empty = 0;

    while (empty < 60 && cf_now() < until) {
        struct utofu_mrq_notice notice;
        int rc = utofu_poll_mrq(p->vcq, 0, &notice);
        if (rc == UTOFU_SUCCESS) {
            p->mrqs++;
            p->sum += notice.edata;
            empty = 0;
        } else if (rc == UTOFU_ERR_NOT_FOUND) {
            empty++;
            if (empty % 20 == 0)
                cf_rest(0.001);
        } else {
            keep_code(p, rc, (int)p->mrqs);
            return;
        }
    }
}

static void poll_by_threads(struct cf *c)
{
    static const unsigned long flags[THREADS] = {SAFE, 0, 0, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};
    struct parts all;
    size_t mrqs = 0;
    uint64_t sum = 0, expected = 0;

    if (!open_parts(c, &all, 1, flags, places))
        return;
    for (unsigned i = 0; i < 1000; i++) {
        struct part *p = &all.part[0];
        int rc;
        CF_RETRY(
            rc, all.target,
            utofu_put(all.target, p->id, all.target_stadd, p->stadd, 8, i % 200, NOTICE, NULL));
        CF_NEED(c, rc == UTOFU_SUCCESS, "put %u: %s", i, cf_code(rc));
        expected += i % 200;
    }
    if (!run_threads(c, poll_notices, &all, THREADS))
        return;
    for (int i = 0; i < THREADS; i++) {
        mrqs += all.part[i].mrqs;
        sum += all.part[i].sum;
    }
    while (mrqs < 1000) {
        struct utofu_mrq_notice notice;
        int rc = cf_mrq(all.part[0].vcq, &notice);
        CF_NEED(c, rc == UTOFU_SUCCESS, "%lu notices of 1000, and then %s", (unsigned long)mrqs,
                cf_code(rc));
        mrqs++;
        sum += notice.edata;
    }
    CF_HOLDS(c, mrqs == 1000 && sum == expected, "%lu notices with EDATA of %lu, not 1000 with %lu",
             (unsigned long)mrqs, (unsigned long)sum, (unsigned long)expected);
}

/* Additions of all threads to one word of the next process */
static void add_words(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < EACH; i++) {
        double until = cf_now() + 10;
        void *data;
        int rc, polled;
        while ((rc = utofu_armw8(p->vcq, all->next_id, UTOFU_ARMW_OP_ADD, (uint64_t)(thread + 1),
                                 all->next_stadd, 0, LOCAL, NULL)) == UTOFU_ERR_BUSY ||
               rc == UTOFU_ERR_FULL) {
            polled = utofu_poll_tcq(p->vcq, 0, &data);
            if (polled != UTOFU_ERR_NOT_FOUND)
                keep_code(p, polled, i);
            if (cf_now() > until)
                break;
        }
        keep_code(p, rc, i);
    }
}

static void add_by_threads(struct cf *c)
{
    static const unsigned long flags[THREADS] = {SAFE, 0, 0, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};
    struct parts all;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
    } mine, every[48];

    if (!open_parts(c, &all, 1, flags, places))
        return;
    mine.id = all.part[0].id;
    mine.stadd = all.part[0].stadd;
    if (!cf_share(c, &mine, sizeof(mine), every))
        return;
    all.next_id = every[cf_next(c)].id;
    all.next_stadd = every[cf_next(c)].stadd;
    if (!run_threads(c, add_words, &all, THREADS))
        return;
    for (int i = 0; i < THREADS * EACH; i++) {
        struct utofu_mrq_notice notice;
        int rc = cf_mrq(all.part[0].vcq, &notice);
        CF_NEED(c, rc == UTOFU_SUCCESS, "local notice %d: %s", i, cf_code(rc));
    }
    if (!cf_meet(c))
        return;
    CF_HOLDS(c, *(volatile uint64_t *)(void *)all.part[0].memory == EACH * 10,
             "the word is %lu, not %d",
             (unsigned long)*(volatile uint64_t *)(void *)all.part[0].memory, EACH * 10);
}

/* ---- One thread starts, another one sees the end ---- */

static void start_in_thread(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    keep_code(
        p, utofu_put(p->vcq, all->target_id, p->stadd, all->target_stadd, 100, 12, TCQ | LOCAL, p),
        0);
}

static void end_in_thread(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];
    struct utofu_mrq_notice notice;
    void *data = NULL;

    keep_code(p, cf_tcq(p->vcq, &data), 0);
    if (data != p)
        keep_code(p, UTOFU_ERR_INVALID_DATA, 1);
    keep_code(p, cf_mrq(p->vcq, &notice), 2);
    if (p->code == UTOFU_SUCCESS && notice.edata != 12)
        keep_code(p, UTOFU_ERR_INVALID_EDATA, 2);
}

static void hand_over(struct cf *c)
{
    static const unsigned long flags[THREADS] = {0, 0, 0, 0};
    static const size_t places[THREADS] = {0, 1, 2, 3};
    struct parts all;

    if (!open_parts(c, &all, 1, flags, places))
        return;
    if (run_threads(c, start_in_thread, &all, 1))
        run_threads(c, end_in_thread, &all, 1);
}

/* Thread 0 puts to the VCQ of thread 1, which waits: communication between two threads of a process
 */
static void talk_to_peer(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread], *peer = &all->part[!thread];

    for (unsigned i = 0; i < 100 && p->code == UTOFU_SUCCESS; i++) {
        struct utofu_mrq_notice notice;
        int rc = UTOFU_SUCCESS;
        if (thread == 1)
            rc = cf_mrq(p->vcq, &notice);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_put(p->vcq, peer->id, p->stadd, peer->stadd + 2048, 64, i, NOTICE, NULL);
        if (rc == UTOFU_SUCCESS && thread == 0)
            rc = cf_mrq(p->vcq, &notice);
        if (rc == UTOFU_SUCCESS && notice.edata != i)
            rc = UTOFU_ERR_INVALID_EDATA;
        keep_code(p, rc, (int)i);
    }
}

static void talk_in_process(struct cf *c)
{
    static const unsigned long flags[THREADS] = {0, 0, 0, 0};
    static const size_t places[THREADS] = {0, 1, 2, 3};
    struct parts all;

    if (cf_count_tnis(c) < 2) {
        cf_skip(c, "fewer than two TNIs");
        return;
    }
    if (open_parts(c, &all, 0, flags, places))
        run_threads(c, talk_to_peer, &all, 2);
}

/* ---- Functions that are always safe ---- */

static void create_and_free(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < 30; i++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id = 0;
        int rc = utofu_create_vcq(all->tni[(size_t)(i + thread) % all->tnis], 0, &vcq);
        if (rc == UTOFU_ERR_FULL)
            continue;
        keep_code(p, rc, i);
        if (rc != UTOFU_SUCCESS)
            return;
        keep_code(p, utofu_query_vcq_id(vcq, &id), i);
        keep_code(p, utofu_free_vcq(vcq), i);
    }
}

static void ask_all(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < 100; i++) {
        utofu_tni_id_t *ids = NULL, tni = 0;
        struct utofu_onesided_caps *caps = NULL;
        size_t count = 0;
        uint8_t coords[6], path[3] = {0, 1, 1}, back[3] = {9, 9, 9};
        utofu_cq_id_t cq = 0;
        uint16_t extra = 0;
        utofu_vcq_id_t id = p->id;
        utofu_path_id_t path_id = 0;
        int major = 0, minor = 0;
        keep_code(p, utofu_get_onesided_tnis(&ids, &count), i);
        free(ids);
        keep_code(p, utofu_query_onesided_caps(all->tni[0], &caps), i);
        keep_code(p, utofu_query_vcq_info(p->id, coords, &tni, &cq, &extra), i);
        keep_code(p, utofu_set_vcq_id_path(&id, path), i);
        keep_code(p, utofu_get_path_id(p->id, path, &path_id), i);
        keep_code(p, utofu_get_path_coords(p->id, path_id, back), i);
        if (memcmp(path, back, 3) != 0)
            keep_code(p, UTOFU_ERR_INVALID_PATH, i);
        keep_code(p, utofu_query_my_coords(coords), i);
        utofu_query_utofu_version(&major, &minor);
        if (major != UTOFU_VERSION_MAJOR)
            keep_code(p, UTOFU_ERR_INVALID_DATA, i);
    }
}

static void allocate_and_free(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < 50; i++) {
        utofu_vbg_id_t ids[2] = {0, 0};
        int rc = utofu_alloc_vbg(all->tni[0], 2, 0, ids);
        if (rc == UTOFU_ERR_FULL)
            continue;
        keep_code(p, rc, i);
        if (rc != UTOFU_SUCCESS)
            return;
        keep_code(p, utofu_free_vbg(ids, 2), i);
    }
}

static void run_always_safe(struct cf *c, void (*function)(int thread, void *argument))
{
    static const unsigned long flags[THREADS] = {0, 0, 0, 0};
    static const size_t places[THREADS] = {0, 0, 0, 0};
    struct parts all;

    if (open_parts(c, &all, 1, flags, places))
        run_threads(c, function, &all, THREADS);
}

static void create_by_threads(struct cf *c)
{
    run_always_safe(c, create_and_free);
}
static void ask_by_threads(struct cf *c)
{
    run_always_safe(c, ask_all);
}
static void allocate_by_threads(struct cf *c)
{
    run_always_safe(c, allocate_and_free);
}

/* ---- Barriers ---- */

/* Polls until a success or until another thread has had it: then nothing is started */
static void poll_gate(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];
    double until = cf_now() + 10;

    while (cf_now() < until) {
        int rc = utofu_poll_barrier(p->gate, 0);
        if (rc == UTOFU_SUCCESS)
            p->tcqs++;
        if (rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY)
            return;
        if (rc != UTOFU_ERR_NOT_COMPLETED) {
            keep_code(p, rc, 0);
            return;
        }
        cf_rest(0.0001);
    }
    keep_code(p, UTOFU_ERR_NOT_COMPLETED, 1);
}

static void poll_safe_gate(struct cf *c)
{
    struct cf_circuit circuit;
    struct parts all;

    memset(&all, 0, sizeof(all));
    if (!cf_circuit_open(c, &circuit, CF_RING, 0, UTOFU_VBG_FLAG_THREAD_SAFE))
        return;
    for (int i = 0; i < THREADS; i++)
        all.part[i].gate = circuit.id;
    for (size_t round = 1; round <= 30; round++) {
        size_t successes = 0;
        int rc = utofu_barrier(circuit.id, 0);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
        if (!run_threads(c, poll_gate, &all, THREADS))
            return;
        for (int i = 0; i < THREADS; i++)
            successes += all.part[i].tcqs;
        CF_NEED(c, successes == round, "barrier %lu has had %lu successes", (unsigned long)round,
                (unsigned long)successes);
    }
}

/* A circuit of its own for each thread */
static void sum_in_thread(int thread, void *argument)
{
    struct parts *all = argument;
    struct part *p = &all->part[thread];

    for (int i = 0; i < 50 && p->code == UTOFU_SUCCESS; i++) {
        uint64_t value = (uint64_t)(thread + 1);
        keep_code(p, cf_circuit_uint64(p->gate, UTOFU_REDUCE_OP_SUM, &value, 1), i);
        p->sum += value;
    }
}

static void sum_by_threads(struct cf *c)
{
    struct cf_circuit circuit[2];
    struct parts all;

    memset(&all, 0, sizeof(all));
    for (int i = 0; i < 2; i++) {
        if (!cf_circuit_open(c, &circuit[i], CF_RING, 0, 0))
            return;
        all.part[i].gate = circuit[i].id;
    }
    if (!run_threads(c, sum_in_thread, &all, 2))
        return;
    for (int i = 0; i < 2; i++)
        CF_HOLDS(c, all.part[i].sum == (uint64_t)(50 * (i + 1) * cf_size(c)),
                 "the sums of thread %d are %lu", i, (unsigned long)all.part[i].sum);
}

/* ---- What the flag costs ---- */

static double measure_puts(struct cf *c, unsigned long flags)
{
    struct parts all;
    unsigned long all_flags[THREADS];
    static const size_t places[THREADS] = {0, 0, 0, 0};
    double begun;

    for (int i = 0; i < THREADS; i++)
        all_flags[i] = flags;
    if (!open_parts(c, &all, 1, all_flags, places))
        return 0;
    begun = cf_now();
    for (int i = 0; i < 2000; i++) {
        int rc = cf_put_sent(all.part[0].vcq, all.target_id, all.part[0].stadd, all.target_stadd, 8,
                             0, 0);
        if (rc == UTOFU_SUCCESS)
            continue;
        cf_fail(c, "put %d: %s", i, cf_code(rc));
        return 0;
    }
    return cf_now() - begun;
}

static void measure_flag(struct cf *c)
{
    double plain = measure_puts(c, 0), safe = measure_puts(c, SAFE);

    if (plain > 0 && safe > 0)
        cf_number(c, "times as long with the flag", safe / plain);
}

static const struct cf_case cases[] = {
    {"thread-put-safe", "3.3.4.1", 5, CF_PROMISED, CF_ALONE,
     "four threads put and poll on a thread-safe VCQ", put_on_safe},
    {"thread-put-beside", "3.3.4.1", 6, CF_PROMISED, CF_ALONE,
     "thread-safe VCQs and another one are used at a time", put_beside_safe},
    {"thread-put-exclusive", "3.3.4.1", 9, CF_PROMISED, CF_ALONE,
     "exclusive VCQs and others are used at a time", put_beside_exclusive},
    {"thread-put-tnis", "2.5", 1, CF_PROMISED, CF_ALONE,
     "VCQs of different CQs are used at a time, without flags", put_on_tnis},
    {"thread-register-safe", "3.3.4.1", 5, CF_PROMISED, CF_ALONE,
     "four threads register memory on a thread-safe VCQ", register_on_safe},
    {"thread-register-tnis", "2.5", 1, CF_PROMISED, CF_ALONE,
     "memory is registered on different CQs at a time", register_on_tnis},
    {"thread-poll-safe", "3.3.4.1", 5, CF_PROMISED, CF_ALONE,
     "four threads poll an MRQ: each notice comes once", poll_by_threads},
    {"thread-armw-safe", "3.3.4.1", 5, CF_PROMISED, CF_ARMW, "four threads add to one word",
     add_by_threads},
    {"thread-hand-over", "2.1", 4, CF_PROMISED, CF_ALONE,
     "what one thread has started, another one sees complete", hand_over},
    {"thread-talk", "2.1", 6, CF_PROMISED, CF_ALONE, "two threads of a process communicate",
     talk_in_process},
    {"thread-create", "2.5", 1, CF_PROMISED, CF_ALONE,
     "VCQs are created and freed at a time, without flags", create_by_threads},
    {"thread-ask", "2.5", 1, CF_PROMISED, CF_ALONE,
     "TNIs, ids, paths and versions are asked for at a time", ask_by_threads},
    {"thread-allocate", "2.5", 1, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "gates are allocated and freed at a time", allocate_by_threads},
    {"thread-gate-safe", "3.4.5.1", 5, CF_PROMISED, CF_BARRIER,
     "four threads poll a thread-safe gate: one is told", poll_safe_gate},
    {"thread-gates", "2.5", 1, CF_PROMISED, CF_BARRIER,
     "two threads use circuits of their own, without flags", sum_by_threads},
    {"thread-cost", "2.5", 4, CF_OPEN, CF_ALONE, "the flag may cost time", measure_flag},
};
CF_GROUP(threads_group, "threads", cases);
