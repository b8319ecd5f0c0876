/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process leaves, in order or not, at any moment from before the first contact to the end of the
 * handshake. Puts to it fail with UTOFU_ERR_MRQ_PEER, and soon: UTOFU_JOB_TIMEOUT, which applies to
 * processes that have not started yet, is longer than the tests wait.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

TestSuite(leaving);

#ifdef __SANITIZE_THREAD__
/* the test calls exit() in a signal handler, where functions that it calls are not safe */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_signal_unsafe=0";
}
#endif

enum { VICTIM = 1 };

#define ENVIRONMENT                                                                                \
    {                                                                                              \
        "UTOFU_PEER_TIMEOUT=1", "UTOFU_JOB_TIMEOUT=3600"                                           \
    }

enum way { KILLED, EXITS_AT_ONCE, EXITS, CLOSES, NUM_WAYS };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void leave(struct ut_end *end, enum way way)
{
    switch (way) {
    case KILLED:
        raise(SIGKILL);
        break;
    case EXITS_AT_ONCE:
        _exit(0);
    case CLOSES:
        ut_end_close(end);
        exit(0);
    default:
        exit(0);
    }
}

static void put_to(const struct ut_end *end, const struct ut_peer *peer, uint64_t edata)
{
    struct ut_comm put = {.kind = UT_PIGGYBACK8,
                          .vcq = end->vcq,
                          .rmt = peer->id,
                          .data = &edata,
                          .rmt_stadd = peer->stadd + 8 * edata,
                          .length = 8,
                          .edata = edata,
                          .flags = UT_LCL | (edata % 2 ? UT_RMT : 0)};

    ut_submit(&put);
}

/* The local notice of the previous put. Remote notices may come in between. */
static int result(const struct ut_end *end, const struct ut_peer *peer, uint64_t edata)
{
    struct utofu_mrq_notice notice = {0};
    int rc;

    do {
        rc = utofu_poll_mrq(end->vcq, 0, &notice);
        ut_relax();
    } while (rc == UTOFU_ERR_NOT_FOUND ||
             (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT));
    CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_LCL_PUT);
    CHECK_EQ(notice.vcq_id, peer->id);
    CHECK_EQ(notice.edata, edata);
    return rc;
}

/* Puts until one fails because the peer has ended. Before that, puts may succeed, or fail because
 * the peer has deregistered its memory. */
static void put_until_gone(const struct ut_end *end, const struct ut_peer *peer)
{
    double since = now();
    int rc;

    do {
        put_to(end, peer, 1);
        rc = result(end, peer, 1);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_ERR_MRQ_RMT_STADD ||
                  rc == UTOFU_ERR_MRQ_RMT_MEMORY,
              "%s", ut_rc_name(rc));
    } while (rc != UTOFU_ERR_MRQ_PEER);
    printf("notified after %.3f s\n", now() - since);
    for (uint64_t i = 0; i < 4; i++) {
        put_to(end, peer, i);
        CHECK_RC(result(end, peer, i), UTOFU_ERR_MRQ_PEER);
    }
}

static void leaves_before(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    ut_open_all(&end, 4096, peers);
    if (ut_rank == VICTIM) /* its first call published its address */
        leave(&end, *(enum way *)arg);
    ut_barrier(); /* returns when the other one has ended */
    put_until_gone(&end, &peers[VICTIM]);
    ut_end_close(&end);
}

static void for_all_ways(bool socket, int nodes)
{
    for (enum way way = 0; way < NUM_WAYS; way++)
        ut_run(&(struct ut_run_opts){.n = 2,
                                     .nodes = nodes,
                                     .may_die = 1u << VICTIM,
                                     .fresh_root_socket = socket,
                                     .env = ENVIRONMENT},
               leaves_before, &way);
}

Test(leaving, first_contact_with_a_process_that_is_gone_is_mrq_peer)
{
    for_all_ways(true, 1);
    for_all_ways(true, 2);
}

Test(leaving, first_contact_is_mrq_peer_where_the_job_meets_in_a_folder)
{
    for_all_ways(false, 1);
    for_all_ways(false, 2);
}

/* The origin alone moves words of mapped memory, as long as their owner lives. */
static void dies_under_words(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];
    int rc;

    ut_open_all(&end, 4096, peers);
    end.mem[0] = 1;
    if (ut_rank == VICTIM) {
        ut_await_word((uint64_t *)(void *)(end.mem + 64), 1);
        leave(&end, *(enum way *)arg);
    }
    struct ut_comm word = {.vcq = end.vcq,
                           .rmt = peers[VICTIM].id,
                           .lcl_stadd = end.stadd + 128,
                           .length = 8,
                           .flags = UT_LCL};
    for (uint64_t i = 0;; i++) {
        word.kind = i % 2 ? UT_GET : UT_PUT;
        word.rmt_stadd = peers[VICTIM].stadd + (i == 1000 ? 64 : 192);
        end.mem[128] = i == 1000;
        ut_submit(&word);
        rc = ut_await_mrq(end.vcq, &notice);
        if (i > 1000 && rc == UTOFU_ERR_MRQ_PEER)
            break;
        CHECK(rc == UTOFU_SUCCESS ||
                  (i > 1000 && (rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_RMT_MEMORY)),
              "word %llu: %s", (unsigned long long)i, ut_rc_name(rc));
    }
    ut_end_close(&end);
}

Test(leaving, whoever_moves_words_only_is_told_too)
{
    for (enum way way = 0; way < NUM_WAYS; way++)
        ut_run(&(struct ut_run_opts){.n = 2, .may_die = 1u << VICTIM, .env = ENVIRONMENT},
               dies_under_words, &way);
}

static void exit_now(int signal_number)
{
    (void)signal_number;
    exit(0);
}

/* Usually in the middle of a call; but not in malloc(), where exit() must not be called: the
 * connection already exists. */
static void exits_in_handler(void *arg)
{
    struct itimerval soon = {.it_value = {.tv_usec = 1000 + (suseconds_t)ut_random_below(20000)}};
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank != VICTIM) {
        put_until_gone(&end, &peers[VICTIM]);
        ut_end_close(&end);
        return;
    }
    put_to(&end, &peers[!VICTIM], 0);
    CHECK_OK(result(&end, &peers[!VICTIM], 0));
    signal(SIGALRM, exit_now);
    CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
    for (uint64_t i = 0;; i++) {
        if (i % 64 == 0)
            put_to(&end, &peers[!VICTIM], 0);
        (void)utofu_poll_mrq(end.vcq, 0, &notice);
    }
}

Test(leaving, exit_in_a_signal_handler_ends_the_process)
{
    for (int round = 0; round < 12; round++)
        ut_run(&(struct ut_run_opts){.n = 2, .env = ENVIRONMENT}, exits_in_handler, NULL);
}

/* Both sides connect at about the same time, and one of them leaves at about that time. */
static void leaves_meanwhile(void *arg)
{
    struct ut_rng rng = ut_rng_start(ut_seed());
    unsigned int scale = *(unsigned int *)arg;
    unsigned int lives_us = (unsigned int)ut_rng_below(&rng, 20000) * scale;
    bool puts_too = ut_rng_below(&rng, 4) != 0, polls = ut_rng_below(&rng, 2);
    int victim = (int)ut_rng_below(&rng, 2);
    enum way way = (enum way)ut_rng_below(&rng, NUM_WAYS);
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];

    ut_open_all(&end, 4096, peers);
    ut_step("victim %d, way %d, after %u us", victim, (int)way, lives_us);
    ut_barrier();
    if (ut_rank != victim) {
        ut_random_delay(2000 * scale);
        put_until_gone(&end, &peers[victim]);
        ut_end_close(&end);
        return;
    }
    double end_of_it = now() + lives_us * 1e-6;
    ut_random_delay(2000 * scale);
    if (puts_too)
        put_to(&end, &peers[!victim], 0);
    while (now() < end_of_it) {
        if (polls)
            (void)utofu_poll_mrq(end.vcq, 0, &notice);
        ut_relax();
    }
    leave(&end, way);
}

Test(leaving, in_the_middle_of_the_handshake_the_others_are_told)
{
    uint64_t rounds = ut_env_number("UT_LEAVING_ROUNDS", 30);

    for (uint64_t round = 0; round < rounds; round++) {
        /* emulators and sanitizers are slower */
        unsigned int scale = round % 2 ? 1 : 10;
        /* in a folder, as rank 0 of a job that meets at a socket stays for the others */
        ut_run(
            &(struct ut_run_opts){
                .n = 2, .nodes = 1 + (int)(round / 2 % 2), .may_die = 3, .env = ENVIRONMENT},
            leaves_meanwhile, &scale);
    }
}
