/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads of a process at once, as far as 3.3.4.1 permits. */
#include "ends.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(threads);

enum { THREADS = 6, EACH = 400 };

struct worker {
    pthread_t thread;
    uint64_t number;
    struct ut_end *end;
    struct ut_peer peer;
};

/* Runs a function in `count` threads and waits for them. The caller fills in the workers, except
 * for the common fields. */
static void run_workers(struct worker *workers, size_t count, void *(*function)(void *))
{
    for (size_t i = 0; i < count; i++) {
        workers[i].number = i;
        CHECK(pthread_create(&workers[i].thread, NULL, function, &workers[i]) == 0);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
}

/* The word that a worker puts; every worker has a word of its own at the target. */
static struct ut_comm put_of(const struct worker *worker, uint64_t *value)
{
    return (struct ut_comm){.kind = UT_PIGGYBACK8,
                            .vcq = worker->end->vcq,
                            .rmt = worker->peer.id,
                            .data = value,
                            .rmt_stadd = worker->peer.stadd + 8 * worker->number,
                            .length = 8,
                            .edata = worker->number,
                            .flags = UT_LCL | UT_STRONG};
}

static void *put_many(void *arg)
{
    struct worker *worker = arg;

    for (uint64_t i = 1; i <= EACH; i++) {
        struct ut_comm comm = put_of(worker, &i);

        CHECK_EQ(ut_start_busy(&comm), 0);
    }
    return NULL;
}

static uint64_t seen[THREADS];

/* One thread takes all notices: the notices of a worker come in the order of its puts. */
static void *take_notices(void *arg)
{
    struct worker *worker = arg;

    for (int due = THREADS * EACH; due > 0; due--) {
        struct utofu_mrq_notice notice;

        CHECK_OK(ut_await_mrq(worker->end->vcq, &notice));
        CHECK(notice.edata < THREADS);
        CHECK_EQ(notice.vcq_id, worker->peer.id);
        CHECK_EQ(notice.rmt_stadd, worker->peer.stadd + 8 * notice.edata + 8);
        seen[notice.edata]++;
    }
    return NULL;
}

static void *put_or_take(void *arg)
{
    struct worker *worker = arg;

    return worker->number < THREADS ? put_many(arg) : take_notices(arg);
}

static void one_vcq(void *arg)
{
    struct worker workers[THREADS + 1];
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
    ut_end_gather(&end, peers);
    for (size_t i = 0; i <= THREADS; i++)
        workers[i] = (struct worker){.end = &end, .peer = peers[!ut_rank]};
    run_workers(workers, THREADS + 1, put_or_take);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(seen[i], EACH);
    ut_barrier();
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(((uint64_t *)(void *)end.mem)[i], EACH);
    ut_expect_nothing(end.vcq);
    ut_end_close(&end);
}

Test(threads, thread_safe_vcq_serves_many_threads)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, one_vcq, NULL);
}

/* Each thread has an exclusive VCQ, and no data is shared. */
static void *put_and_take(void *arg)
{
    struct worker *worker = arg;

    for (uint64_t i = 1; i <= EACH; i++) {
        struct ut_comm comm = put_of(worker, &i);
        struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);

        ut_start_busy(&comm);
        ut_expect_notice(worker->end->vcq, &want);
    }
    return NULL;
}

static void exclusive(void *arg)
{
    struct worker workers[THREADS];
    struct ut_end ends[THREADS];
    struct ut_peer mine[THREADS], all[2 * THREADS];

    (void)arg;
    for (size_t i = 0; i < THREADS; i++) {
        ut_end_open(&ends[i], (utofu_tni_id_t)(i % 3), UTOFU_VCQ_FLAG_EXCLUSIVE, 4096);
        mine[i] = ut_end_peer(&ends[i]);
    }
    ut_allgather(mine, all, sizeof(mine));
    /* all put into the first VCQ of the other process */
    for (size_t i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.end = &ends[i], .peer = all[!ut_rank * THREADS]};
    run_workers(workers, THREADS, put_and_take);
    ut_barrier();
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(((uint64_t *)(void *)ends[0].mem)[i], EACH);
    ut_barrier();
    for (size_t i = 0; i < THREADS; i++)
        ut_end_close(&ends[i]);
}

Test(threads, exclusive_vcqs_serve_a_thread_each)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .env = {"UTOFU_NUM_EXCLUSIVE_CQS=2"}},
           exclusive, NULL);
}

/* A plain VCQ for each thread, on different CQs. */
static void *come_and_go(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < 50; i++) {
        struct ut_end end;
        utofu_tni_id_t *ids;
        size_t count;

        CHECK_OK(utofu_get_onesided_tnis(&ids, &count));
        free(ids);
        ut_end_open(&end, (utofu_tni_id_t)(worker->number % UT_TNIS), UTOFU_VCQ_FLAG_THREAD_SAFE,
                    4096);
        struct ut_peer self = ut_end_peer(&end);
        ut_flush(&end, &self);
        ut_end_close(&end);
    }
    return NULL;
}

static void coming_and_going(void *arg)
{
    struct worker workers[THREADS] = {0};

    (void)arg;
    run_workers(workers, THREADS, come_and_go);
}

Test(threads, vcqs_come_and_go_in_many_threads_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 1}, coming_and_going, NULL);
}

/* Memory is registered by several threads on one VCQ while others put through it. */
static void *register_and_put(void *arg)
{
    struct worker *worker = arg;
    uint8_t *mem = ut_pages(4096);

    for (uint64_t i = 1; i <= 100; i++) {
        struct ut_comm comm = put_of(worker, &i);
        utofu_stadd_t stadd;

        CHECK_OK(utofu_reg_mem(worker->end->vcq, mem, 4096, 0, &stadd));
        memcpy(mem, &i, 8);
        comm.kind = UT_PUT;
        comm.lcl_stadd = stadd;
        comm.flags = UT_TCQ | UT_STRONG;
        ut_start_busy(&comm);
        /* Another thread may take the entry; the word shows that the put is complete. */
        uint64_t *word = (uint64_t *)(void *)(worker->end->mem + 8 * worker->number);
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != i) {
            void *cbdata;
            int rc = utofu_poll_tcq(worker->end->vcq, 0, &cbdata);

            CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "%s", ut_rc_name(rc));
            ut_relax();
        }
        CHECK_OK(utofu_dereg_mem(worker->end->vcq, stadd, 0));
    }
    return NULL;
}

static void registering(void *arg)
{
    struct worker workers[THREADS];
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
    for (size_t i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.end = &end, .peer = ut_end_peer(&end)};
    run_workers(workers, THREADS, register_and_put);
    ut_end_close(&end);
}

Test(threads, memory_is_registered_by_many_threads_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 1}, registering, NULL);
}
