/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is stopped for longer than UTOFU_PEER_TIMEOUT before its first contact, and then
 * continues. On one host communications to it wait; over verbs and ofi they fail, as the process
 * answers no request. In both cases later communications reach it, and failed ones do not.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(stopped);

enum { STOPPED = 1, TIMEOUT_S = 1, WORDS = 512 };

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_stopped(const char *task)
{
    char path[300], line[512] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", ut_pid_of(STOPPED), task);
    f = fopen(path, "r");
    if (f) {
        line[fread(line, 1, sizeof(line) - 1, f)] = '\0';
        fclose(f);
    }
    const char *behind_name = strrchr(line, ')');
    return behind_name && behind_name[2] == 'T';
}

static bool all_threads_are_stopped(void)
{
    char path[64];
    const struct dirent *entry;
    bool all = true;

    snprintf(path, sizeof(path), "/proc/%d/task", ut_pid_of(STOPPED));
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)))
        all &= entry->d_name[0] == '.' || is_stopped(entry->d_name);
    closedir(tasks);
    return all;
}

static void stop(void)
{
    CHECK(kill(ut_pid_of(STOPPED), SIGSTOP) == 0);
    while (!all_threads_are_stopped())
        ut_relax();
}

static void put(const struct ut_end *end, const struct ut_peer *peer, uint64_t word)
{
    uint64_t value = word + 1;
    struct ut_comm put = {.kind = UT_PIGGYBACK8,
                          .vcq = end->vcq,
                          .rmt = peer->id,
                          .data = &value,
                          .rmt_stadd = peer->stadd + 8 * word,
                          .length = 8,
                          .edata = word % 256,
                          .flags = UT_LCL | UT_RMT};

    ut_submit(&put);
}

static int result(const struct ut_end *end, uint64_t word)
{
    struct utofu_mrq_notice notice;
    int rc = ut_await_mrq(end->vcq, &notice);

    CHECK_EQ(notice.edata, word % 256);
    return rc;
}

/* No notice arrives within one and a half timeouts. */
static bool waits(const struct ut_end *end)
{
    struct utofu_mrq_notice notice;
    uint64_t end_ms = now_ms() + 1500 * TIMEOUT_S;
    int rc;

    while ((rc = utofu_poll_mrq(end->vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND && now_ms() < end_ms)
        ut_relax();
    return rc == UTOFU_ERR_NOT_FOUND;
}

/* Word 0 is put while the other process is stopped, the next ones when it continues, until one
 * arrives; returns its number. */
static uint64_t put_to_a_stopped_one(const struct ut_end *end, const struct ut_peer *peer)
{
    const char *provider = getenv("UTOFU_PROVIDER");
    uint64_t word = 0;
    int rc = UTOFU_SUCCESS;

    stop();
    put(end, peer, 0);
    if (provider && (strcmp(provider, "verbs") == 0 || strcmp(provider, "ofi") == 0)) {
        CHECK_RC(result(end, 0), UTOFU_ERR_MRQ_PEER);
        word = 1;
    } else {
        CHECK(waits(end));
    }
    CHECK(kill(ut_pid_of(STOPPED), SIGCONT) == 0);
    if (word == 0)
        CHECK_OK(result(end, 0));
    for (; word > 0; word++) {
        CHECK(word < WORDS - 1);
        put(end, peer, word);
        rc = result(end, word);
        if (rc == UTOFU_SUCCESS)
            return word;
        CHECK_RC(rc, UTOFU_ERR_MRQ_PEER);
        usleep(20000);
    }
    return 0;
}

static void goes_on(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t arrives = 0, all[2];

    (void)arg;
    ut_open_all(&end, WORDS * 8, peers);
    ut_barrier();
    if (ut_rank != STOPPED) {
        arrives = put_to_a_stopped_one(&end, &peers[STOPPED]);
        put(&end, &peers[STOPPED], WORDS - 1);
        CHECK_OK(result(&end, WORDS - 1));
    }
    ut_allgather(&arrives, all, sizeof(arrives));
    if (ut_rank == STOPPED) {
        for (uint64_t i = 0; i < 2; i++)
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        for (uint64_t i = 0; i < WORDS; i++)
            CHECK_EQ(((const uint64_t *)(void *)end.mem)[i],
                     i == all[0] || i == WORDS - 1 ? i + 1 : 0);
    }
    ut_barrier();
    ut_expect_nothing(end.vcq);
    ut_close_all(&end);
}

Test(stopped, process_that_goes_on_is_reached_again)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PEER_TIMEOUT=1"}}, goes_on, NULL);
}
