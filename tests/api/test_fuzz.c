/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzed equivalence: random communication between all VCQs of several processes, compared with a
 * plain model: ../harness/traffic.h.
 *
 * UT_FUZZ_OPS: communications in a test. UT_FUZZ_PROCS: processes of the last one, which is for
 * UTOFU_VERBS_MAX_QPS; each VCQ communicates with twice as many, itself among them. UT_FUZZ_TNI: of
 * the second VCQ of each process. UT_FUZZ_LENGTH: bytes of the longest.
 */
#include "traffic.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

TestSuite(fuzz);

enum { SLICE = 1 << 16 };

static struct ut_account own[UT_PER_PROC];

static bool is_notice_left(const struct ut_account *a)
{
    for (int other = 0; other < ut_num_actors; other++)
        if (a->left[other] > 0)
            return true;
    return false;
}

/* False: there was no notice. */
static bool poll_mrq(struct ut_account *a)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(a->end.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK_OK(rc);
    ut_account_check(a, &notice);
    return true;
}

static void *poll_mrq_to_end(void *arg)
{
    struct ut_account *a = arg;

    while (is_notice_left(a))
        if (!poll_mrq(a))
            ut_relax();
    return NULL;
}

static bool is_work_left(void)
{
    bool left = is_notice_left(&own[0]); /* the thread takes the notices of the other VCQ */

    for (int i = 0; i < UT_PER_PROC; i++)
        left = left || !ut_account_has_submitted(&own[i]) || ut_account_next_tcq(&own[i]) != NULL;
    return left;
}

static bool poll_both(struct ut_account *a)
{
    bool entry = ut_account_poll_tcq(a), notice = a == &own[0] && poll_mrq(a);

    return entry || notice;
}

static void do_epoch(void)
{
    pthread_t thread;

    /* The thread-safe VCQ's MRQ is polled by a thread of its own. */
    CHECK(pthread_create(&thread, NULL, poll_mrq_to_end, &own[1]) == 0);
    while (is_work_left()) {
        struct ut_account *a = &own[ut_random_below(UT_PER_PROC)];
        int turns = (int)ut_random_below(20);
        bool found = !ut_account_has_submitted(a) && ut_account_submit(a) > 0;

        for (int i = 0; i < turns; i++)
            found = poll_both(a) || found;
        if (!found)
            ut_relax();
        if (ut_random_below(200) == 0)
            ut_random_delay(300);
    }
    pthread_join(thread, NULL);
}

static utofu_stadd_t address(struct ut_script *script, int vcq, size_t at, size_t size)
{
    (void)script, (void)size;
    return ut_actors[vcq].peer.stadd + at;
}

static void open_vcqs(void)
{
    struct ut_peer mine[UT_PER_PROC], all[UT_TRAFFIC_VCQS];

    ut_traffic = (struct ut_traffic){.slice = SLICE,
                                     .longest = (size_t)ut_env_number("UT_FUZZ_LENGTH", 6000),
                                     .block_bound = SIZE_MAX,
                                     .address = address};
    ut_num_actors = ut_size * UT_PER_PROC;
    for (int vcq = 0; vcq < ut_num_actors; vcq++)
        ut_actors[vcq].shift = (uint32_t)vcq * 1009;
    for (int i = 0; i < UT_PER_PROC; i++) {
        own[i].number = ut_rank * UT_PER_PROC + i;
        ut_end_open(&own[i].end, i == 0 ? 0 : (utofu_tni_id_t)ut_env_number("UT_FUZZ_TNI", 3),
                    i == 0 ? 0 : UTOFU_VCQ_FLAG_THREAD_SAFE, ut_get_slice(ut_num_actors));
        own[i].model = ut_pages(own[i].end.size);
        memcpy(own[i].end.mem, ut_source(own[i].number), SLICE);
        mine[i] = ut_end_peer(&own[i].end);
    }
    ut_allgather(mine, all, sizeof(mine));
    for (int i = 0; i < ut_num_actors; i++)
        ut_actors[i].peer = all[i];
}

static void write_scripts(int epoch)
{
    for (int origin = 0; origin < ut_num_actors; origin++) {
        struct ut_script script = {
            .rng = ut_rng_start(ut_seed() * 1000003 + (uint64_t)(epoch * UT_TRAFFIC_VCQS + origin)),
            .origin = origin};
        ut_script_write(&script);
    }
}

static void fuzz(void *arg)
{
    (void)arg;
    open_vcqs();
    int ops = (int)ut_env_number("UT_FUZZ_OPS", 20000), of_epoch = ut_num_actors * UT_RANDOM_OPS;
    int epochs = (ops + of_epoch - 1) / of_epoch;

    for (int epoch = 0; epoch < epochs; epoch++) {
        write_scripts(epoch);
        for (int i = 0; i < UT_PER_PROC; i++)
            ut_account_begin(&own[i]);
        ut_barrier();
        do_epoch();
        ut_barrier();
        for (int i = 0; i < UT_PER_PROC; i++) {
            struct ut_account *a = &own[i];

            ut_step("epoch %d: memory of VCQ %d", epoch, a->number);
            ut_model_apply(a->number, a->model);
            ut_model_check(a->number, a->end.mem, a->model, 0, a->end.size);
            ut_expect_nothing(a->end.vcq);
        }
    }
    ut_barrier();
    for (int i = 0; i < UT_PER_PROC; i++)
        ut_end_close(&own[i].end);
}

static void run(int n, int nodes)
{
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes, .timeout_s = 240}, fuzz, NULL);
}

Test(fuzz, one_process_agrees_with_the_model)
{
    run(1, 1);
}

Test(fuzz, two_processes_agree_with_the_model)
{
    run(2, 1);
}

Test(fuzz, three_processes_on_two_nodes_agree_with_the_model)
{
    run(3, 2);
}

Test(fuzz, four_processes_on_four_nodes_agree_with_the_model)
{
    run(4, 4);
}

Test(fuzz, many_processes_agree_with_the_model)
{
    int n = (int)ut_env_number("UT_FUZZ_PROCS", 6);

    run(n < UT_TRAFFIC_PROCS ? n : UT_TRAFFIC_PROCS, 1);
}
