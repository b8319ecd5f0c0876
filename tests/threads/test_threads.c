/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: concurrent calls that the manual allows. Sections 2.5, 3.3.4.1. To be run under
 * ThreadSanitizer too.
 *
 * UT_THREADS_OPS: communications of each thread.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(threads);

enum { THREADS = 2, MOST_OPS = 1 << 20, LINE = 64 };

static uint64_t num_ops(void)
{
    uint64_t n = ut_env_number("UT_THREADS_OPS", 3000);

    return n < MOST_OPS ? n : MOST_OPS;
}

static void run(int n, const char *env, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .env = {env}}, body, NULL);
}

/* Runs fn in this many threads, each with its number, and waits for all. */
struct thread_arg {
    pthread_t thread;
    int number;
    void *(*fn)(int number);
};

static void *enter_thread(void *arg)
{
    struct thread_arg *a = arg;

    return a->fn(a->number);
}

static void in_threads(int count, void *(*fn)(int number))
{
    struct thread_arg args[16];

    CHECK(count <= 16);
    for (int i = 0; i < count; i++) {
        args[i] = (struct thread_arg){.number = i, .fn = fn};
        CHECK_EQ(pthread_create(&args[i].thread, NULL, enter_thread, &args[i]), 0);
    }
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_join(args[i].thread, NULL), 0);
}

/* The ends that the threads of a process use. */
static struct ut_end ends[THREADS];
static struct ut_peer peers[4 * THREADS];

/*
 * One thread-safe VCQ, all threads: every communication has one entry, found by any one thread
 */

static _Atomic uint8_t told_tcq[THREADS * MOST_OPS];
static _Atomic uint64_t tcq_entries, lcl_notices[256], rmt_notices[256], armw_sum;

static void count_tcq(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc = utofu_poll_tcq(vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return;
    CHECK_RC(rc, UTOFU_SUCCESS);
    CHECK_EQ(atomic_fetch_add(&told_tcq[(uintptr_t)cbdata], 1), 0);
    atomic_fetch_add(&tcq_entries, 1);
}

static void count_mrq(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return;
    CHECK_RC(rc, UTOFU_SUCCESS);
    atomic_fetch_add(
        notice.notice_type % 2 ? &rmt_notices[notice.edata] : &lcl_notices[notice.edata], 1);
    if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_ARMW)
        atomic_fetch_add(&armw_sum, notice.rmt_value);
}

static void poll_both(utofu_vcq_hdl_t vcq)
{
    count_tcq(vcq);
    count_mrq(vcq);
}

/* Starts a put, a get or an ARMW of thread `t`, on memory that other threads do not use, except for
 * the word that all add to, and without relying on an order among its own. */
static int start_one(const struct ut_end *end, const struct ut_peer *to, int t, uint64_t i)
{
    const unsigned long int flags = UT_TCQ | UT_LCL | UT_RMT | (i % 7 ? 0 : UT_STRONG);
    utofu_stadd_t lcl = end->stadd + (size_t)t * 1024, rmt = to->stadd + 8192 + (size_t)t * 1024;
    void *cbdata = (void *)(uintptr_t)((uint64_t)t * MOST_OPS + i);
    uint64_t edata = (uint64_t)t;

    switch (i % 4) {
    case 0:
        return utofu_put(end->vcq, to->id, lcl, rmt, 8 + i % 256, edata, flags, cbdata);
    case 1:
        return utofu_put_piggyback8(end->vcq, to->id, edata, rmt + 512, 8, edata, flags, cbdata);
    case 2:
        return utofu_get(end->vcq, to->id, lcl + 512, rmt + 640, 8 + i % 256, edata, flags, cbdata);
    default:
        return utofu_armw8(end->vcq, to->id, UTOFU_ARMW_OP_ADD, 1, to->stadd + 4096, edata, flags,
                           cbdata);
    }
}

static void *share_one(int t)
{
    uint64_t ops = num_ops();

    for (uint64_t i = 0; i < ops; i++) {
        int rc;

        while ((rc = start_one(&ends[0], &peers[!ut_rank], t, i)) == UTOFU_ERR_BUSY)
            poll_both(ends[0].vcq);
        CHECK_RC(rc, UTOFU_SUCCESS);
        if (i % 3 == 0)
            poll_both(ends[0].vcq);
    }
    while (tcq_entries < ops * THREADS || lcl_notices[t] < ops || rmt_notices[t] < ops) {
        poll_both(ends[0].vcq);
        ut_relax();
    }
    return NULL;
}

static void one_thread_safe(void *arg)
{
    uint64_t ops = num_ops(), armws = ops / 4 * THREADS;

    (void)arg;
    ut_end_open(&ends[0], 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 16384);
    ut_end_gather(&ends[0], peers);
    in_threads(THREADS, share_one);
    ut_barrier();
    ut_expect_nothing(ends[0].vcq);
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(lcl_notices[t], ops);
        CHECK_EQ(rmt_notices[t], ops);
    }
    uint64_t word;
    memcpy(&word, ends[0].mem + 4096, 8);
    CHECK_EQ(word, armws);
    CHECK_EQ(armw_sum, armws * (armws - 1) / 2); /* every value was seen once */
    ut_close_all(&ends[0]);
}

Test(threads, two_threads_share_a_thread_safe_vcq)
{
    run(2, NULL, one_thread_safe);
}

/*
 * A VCQ for each of two threads: each thread finds its own order
 */

static void expect_in_order(const struct ut_end *end, const struct ut_peer *peer, int t,
                            uint64_t ops)
{
    uint64_t started = 0, tcq = 0, lcl = 0, rmt = 0;

    while (tcq < ops || lcl < ops || rmt < ops) {
        struct utofu_mrq_notice notice;
        void *cbdata;
        int rc = started < ops ? start_one(end, peer, t, started) : UTOFU_ERR_BUSY;

        started += rc == UTOFU_SUCCESS;
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
        if (utofu_poll_tcq(end->vcq, 0, &cbdata) == UTOFU_SUCCESS)
            CHECK_EQ((uintptr_t)cbdata, (uint64_t)t * MOST_OPS + tcq++);
        if (utofu_poll_mrq(end->vcq, 0, &notice) == UTOFU_SUCCESS) {
            uint64_t *count = notice.notice_type % 2 ? &rmt : &lcl;
            static const uint8_t types[] = {UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_LCL_PUT,
                                            UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_LCL_ARMW};
            CHECK_EQ(notice.notice_type, types[*count % 4] + notice.notice_type % 2);
            CHECK_EQ(notice.vcq_id, peer->id);
            CHECK_EQ(notice.edata, (uint64_t)t);
            ++*count;
        } else if (started == ops) {
            ut_relax();
        }
    }
}

static void *use_own(int t)
{
    expect_in_order(&ends[t], &peers[!ut_rank * THREADS + t], t, num_ops());
    return NULL;
}

static void one_each(const unsigned long int flags[THREADS], const utofu_tni_id_t tnis[THREADS])
{
    struct ut_peer mine[THREADS];

    for (int t = 0; t < THREADS; t++) {
        ut_end_open(&ends[t], tnis[t], flags[t], 16384);
        mine[t] = ut_end_peer(&ends[t]);
    }
    ut_allgather(mine, peers, sizeof(mine));
    in_threads(THREADS, use_own);
    ut_barrier();
    for (int t = 0; t < THREADS; t++) {
        ut_expect_nothing(ends[t].vcq);
        CHECK_EQ(*(uint64_t *)(void *)(ends[t].mem + 4096), num_ops() / 4);
    }
    ut_barrier();
    for (int t = 0; t < THREADS; t++)
        ut_end_close(&ends[t]);
}

static void exclusive_ones(void *arg)
{
    (void)arg;
    one_each((const unsigned long int[]){UTOFU_VCQ_FLAG_EXCLUSIVE, UTOFU_VCQ_FLAG_EXCLUSIVE},
             (const utofu_tni_id_t[]){0, 0});
}

Test(threads, two_threads_use_two_exclusive_vcqs)
{
    run(2, "UTOFU_NUM_EXCLUSIVE_CQS=2", exclusive_ones);
}

static void mixed_ones(void *arg)
{
    (void)arg;
    one_each((const unsigned long int[]){UTOFU_VCQ_FLAG_EXCLUSIVE, UTOFU_VCQ_FLAG_THREAD_SAFE},
             (const utofu_tni_id_t[]){0, 0});
}

Test(threads, exclusive_vcq_and_thread_safe_vcq_on_two_threads)
{
    run(2, "UTOFU_NUM_EXCLUSIVE_CQS=1", mixed_ones);
}

static void other_tnis(void *arg)
{
    (void)arg;
    one_each((const unsigned long int[]){0, 0}, (const utofu_tni_id_t[]){0, 1});
}

Test(threads, ordinary_vcqs_of_two_tnis_on_two_threads)
{
    run(2, NULL, other_tnis);
}

/*
 * Ordinary VCQs that share a CQ, one thread
 */

static utofu_cq_id_t cq_of(utofu_vcq_id_t id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    CHECK_OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    return cq;
}

static void shared_cq(void *arg)
{
    struct ut_end a, b;
    struct ut_peer peer;
    size_t count;
    void *cbdata;
    struct utofu_mrq_notice notice;

    (void)arg;
    ut_end_open(&a, 0, 0, 16384);
    ut_end_open(&b, 0, 0, 16384);
    CHECK_EQ(cq_of(a.id), cq_of(b.id)); /* the first VCQs of a TNI fill up a CQ */
    for (int i = 0; i < 2; i++) {       /* each VCQ to itself and to the other, alternately */
        const struct ut_end *from = i ? &b : &a, *to = i ? &a : &b;

        peer = ut_end_peer(from);
        expect_in_order(from, &peer, 0, num_ops());
        peer = ut_end_peer(to);
        for (uint64_t n = 0; n < 100; n++) {
            struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                                   .vcq = from->vcq,
                                   .rmt = peer.id,
                                   .data = &n,
                                   .rmt_stadd = peer.stadd,
                                   .length = 8,
                                   .edata = n,
                                   .flags = UT_TCQ | UT_LCL | UT_RMT,
                                   .cbdata = &comm};
            struct utofu_mrq_notice lcl = ut_lcl_notice(&comm, 0);
            struct utofu_mrq_notice rmt = ut_rmt_notice(&comm, 0, from->id);
            ut_submit(&comm);
            ut_expect_tcq(from->vcq, UTOFU_SUCCESS, &comm);
            ut_expect_notice(from->vcq, &lcl);
            ut_expect_notice(to->vcq, &rmt);
            ut_expect_nothing(a.vcq);
            ut_expect_nothing(b.vcq);
        }
    }
    /* the counts are those of the CQ (3.7.5.1) */
    for (int i = 0; i < 5; i++)
        CHECK_OK(utofu_nop(i < 2 ? a.vcq : b.vcq, UT_TCQ, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(utofu_query_num_unread_tcq(i ? b.vcq : a.vcq, &count));
        CHECK_EQ(count, 5);
    }
    for (int i = 0; i < 5; i++)
        CHECK_OK(ut_await_tcq(i < 2 ? a.vcq : b.vcq, &cbdata));
    peer = ut_end_peer(&b);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(utofu_put_piggyback8(a.vcq, peer.id, 1, peer.stadd, 8, 0, UT_LCL | UT_RMT, NULL));
        CHECK_OK(ut_await_mrq(a.vcq, &notice));
    }
    CHECK_OK(ut_await_mrq(b.vcq, &notice)); /* all three entries have arrived: two are left */
    for (int i = 0; i < 2; i++) {
        do {
            ut_relax();
            CHECK_OK(utofu_query_num_unread_mrq(i ? b.vcq : a.vcq, &count));
        } while (count == 0 && i);
        CHECK_EQ(count, 2);
    }
    ut_end_close(&a);
    ut_end_close(&b);
}

Test(threads, ordinary_vcqs_that_share_a_cq_do_not_mix)
{
    run(1, NULL, shared_cq);
}

/*
 * Creation, registration and queries from any thread, against traffic
 */

static atomic_bool traffic_over;

static void *do_traffic(int t)
{
    (void)t;
    expect_in_order(&ends[0], &peers[!ut_rank], 0, num_ops() / 10);
    traffic_over = true;
    return NULL;
}

static void ask_everything(utofu_vcq_hdl_t vcq)
{
    utofu_tni_id_t *tnis;
    size_t num;
    struct utofu_onesided_caps *caps;
    utofu_vcq_id_t id, made;
    utofu_stadd_t stadd;
    utofu_path_id_t path;
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    CHECK_OK(utofu_get_onesided_tnis(&tnis, &num));
    free(tnis);
    CHECK_OK(utofu_query_onesided_caps(0, &caps));
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_OK(utofu_query_vcq_id(vcq, &id));
    CHECK_OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    CHECK_OK(utofu_construct_vcq_id(coords, tni, cq, 1, &made));
    CHECK_OK(utofu_query_stadd(id, 1, &stadd));
    CHECK_OK(utofu_get_path_id(id, NULL, &path));
    CHECK_OK(utofu_get_path_coords(id, path, coords));
}

/* Creates VCQs with memory, puts to itself with them, and frees them. */
static void *come_and_go(int t)
{
    const unsigned long int kinds[] = {0, UTOFU_VCQ_FLAG_THREAD_SAFE, UTOFU_VCQ_FLAG_EXCLUSIVE,
                                       UTOFU_VCQ_FLAG_SESSION_MODE};

    for (unsigned int i = 0; i < 16 || !traffic_over; i++) {
        struct ut_end end;
        struct utofu_mrq_notice notice;
        utofu_stadd_t more;
        utofu_vcq_hdl_t vcq;
        int rc = utofu_create_vcq((utofu_tni_id_t)(i % 2), kinds[i % 4], &vcq);

        if (rc == UTOFU_ERR_NOT_AVAILABLE || rc == UTOFU_ERR_FULL)
            continue; /* the other thread has that VCQ */
        CHECK_RC(rc, UTOFU_SUCCESS);
        ut_end_attach(&end, vcq, 4096);
        ask_everything(vcq);
        CHECK_OK(utofu_reg_mem_with_stag(vcq, end.mem, 4096, (unsigned int)t, 0, &more));
        if (i % 4 != 3) {
            CHECK_OK(utofu_put_piggyback8(vcq, end.id, i, more + 8, 8, 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(vcq, &notice));
            CHECK_EQ(*(uint64_t *)(void *)(end.mem + 8), i);
        }
        CHECK_OK(utofu_dereg_mem(vcq, more, 0));
        ut_end_close(&end);
        usleep(200); /* few cores: the traffic needs one, too */
    }
    return NULL;
}

/* Registers memory on the VCQ that the traffic uses. */
static void *register_there(int t)
{
    uint8_t *mem = ut_pages(65536);

    for (unsigned int i = 0; i < 50 || !traffic_over; i++) {
        utofu_stadd_t stadd[3];

        for (size_t k = 0; k < 3; k++)
            CHECK_OK(utofu_reg_mem(ends[0].vcq, mem + 4096 * k, 4096 * (1 + i % 4), 0, &stadd[k]));
        ask_everything(ends[0].vcq);
        for (size_t k = 0; k < 3; k++)
            CHECK_OK(utofu_dereg_mem(ends[0].vcq, stadd[k], 0));
        usleep(200);
    }
    (void)t;
    return NULL;
}

static void *any_role(int t)
{
    return t == 0 ? do_traffic(t) : t == 1 ? register_there(t) : come_and_go(t);
}

static void against_traffic(void *arg)
{
    (void)arg;
    ut_end_open(&ends[0], 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 16384);
    ut_end_gather(&ends[0], peers);
    in_threads(4, any_role);
    ut_close_all(&ends[0]);
}

Test(threads, creation_registration_and_queries_go_on_beside_traffic)
{
    run(2, "UTOFU_NUM_EXCLUSIVE_CQS=1", against_traffic);
}

/* A thread that frees its own VCQ does not touch another thread's VCQ at the same time. */
static void *make_and_free(int t)
{
    for (unsigned int i = 0; i < 400; i++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id;

        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)(i % 2), 0, &vcq));
        CHECK_OK(utofu_query_vcq_id(vcq, &id));
        for (unsigned int n = i % 5; n > 0; n--)
            CHECK_OK(utofu_nop(vcq, 0, NULL));
        CHECK_OK(utofu_query_vcq_id(vcq, &id));
        CHECK_OK(utofu_free_vcq(vcq));
        CHECK_RC(utofu_free_vcq(vcq), UTOFU_ERR_INVALID_VCQ_HDL);
    }
    (void)t;
    return NULL;
}

static void many_make(void *arg)
{
    (void)arg;
    in_threads(4, make_and_free);
}

Test(threads, vcqs_that_threads_make_and_free_at_once_stay_their_own)
{
    run(1, NULL, many_make);
}

/* A peer puts to a VCQ with a chosen component id while it is created and freed again and again. */
static void coming_target(void *arg)
{
    enum { TIMES = 30 };
    uint8_t coords[6];
    utofu_vcq_id_t ids[2], id = 0;
    uint8_t *mem = ut_pages(4096);

    (void)arg;
    ut_end_open(&ends[0], 0, 0, 4096);
    if (ut_rank == 1) {
        CHECK_OK(utofu_query_my_coords(coords));
        CHECK_OK(utofu_construct_vcq_id(coords, 0, cq_of(ends[0].id), 0, &id));
    }
    ut_allgather(&id, ids, sizeof(id));
    for (int i = 0; ut_rank == 1 && i < TIMES; i++) {
        utofu_vcq_hdl_t vcq;
        utofu_stadd_t stadd;

        CHECK_OK(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq));
        CHECK_OK(utofu_reg_mem_with_stag(vcq, mem, 4096, 0, 0, &stadd));
        ut_random_delay(3000);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        CHECK_OK(utofu_free_vcq(vcq));
    }
    if (ut_rank == 1)
        *ut_cell(0) = 1;
    while (ut_rank == 0 && *ut_cell(0) == 0) {
        struct utofu_mrq_notice notice;
        utofu_stadd_t stadd;

        CHECK_OK(utofu_query_stadd(ids[1], 0, &stadd));
        CHECK_OK(utofu_put_piggyback8(ends[0].vcq, ids[1], 1, stadd, 8, 3, UT_LCL, NULL));
        int rc = ut_await_mrq(ends[0].vcq, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_ERR_MRQ_RMT_STADD ||
                  rc == UTOFU_ERR_MRQ_RMT_MEMORY,
              "%s", ut_rc_name(rc));
        CHECK_EQ(notice.edata, 3);
    }
    ut_close_all(&ends[0]);
}

Test(threads, puts_to_a_vcq_that_comes_and_goes_succeed_or_fail_and_never_hang)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PEER_TIMEOUT=1"}}, coming_target, NULL);
}

/*
 * Exclusive CQs are bounded
 */

static _Atomic uint64_t got_exclusive;

static void *take_exclusive(int t)
{
    utofu_vcq_hdl_t vcq[64];
    size_t count = 0;
    int rc;

    (void)t;
    while ((rc = utofu_create_vcq(3, UTOFU_VCQ_FLAG_EXCLUSIVE, &vcq[count])) == UTOFU_SUCCESS) {
        count++;
        CHECK(count < 64, "there is no bound");
    }
    CHECK_RC(rc, UTOFU_ERR_NOT_AVAILABLE);
    atomic_fetch_add(&got_exclusive, count);
    return NULL;
}

static void bounded(void *arg)
{
    utofu_vcq_hdl_t vcq;
    uint64_t wanted = arg ? 2 : 0, mine, all[4];

    in_threads(4, take_exclusive);
    CHECK(got_exclusive >= wanted && got_exclusive <= UT_CQS, "%llu",
          (unsigned long long)got_exclusive);
    /* ordinary VCQs are still available */
    CHECK_OK(utofu_create_vcq(3, 0, &vcq));
    CHECK_OK(utofu_free_vcq(vcq));
    mine = got_exclusive;
    ut_allgather(&mine, all, sizeof(mine));
    for (int rank = 0; rank < ut_size; rank++)
        CHECK_EQ(all[rank], mine);
}

static void bounded_and_kept(void *arg)
{
    (void)arg;
    bounded(&(int){1});
}

Test(threads, exclusive_cqs_are_bounded_and_the_excess_is_not_available)
{
    run(1, NULL, bounded);
    run(2, NULL, bounded);
    run(1, "UTOFU_NUM_EXCLUSIVE_CQS=2", bounded_and_kept);
    run(2, "UTOFU_NUM_EXCLUSIVE_CQS=2", bounded_and_kept);
}
