/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes change their user after they have joined the job and before the first contact, as a
 * program does that is started as root and drops its privileges. If all have changed alike, they
 * meet; if not, either side logs at once who is who, and communications fail with an error instead
 * of waiting. Providers that do not ask for the user (ofi) are not concerned. Needs root.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(users);

enum { USER = 54323, WORD = 7 };

/* The waits that a failing contact could end in are longer than the test. */
#define PATIENT "UTOFU_JOB_TIMEOUT=3600", "UTOFU_PEER_TIMEOUT=3600"

struct change {
    unsigned int ranks; /* bits: who changes its user */
    bool effective;     /* only the effective user id */
};

static void become_ordinary(const struct change *change)
{
    if (!(change->ranks >> ut_rank & 1))
        return;
    uid_t real = change->effective ? (uid_t)-1 : USER, saved = real;
    CHECK(setresgid(real, USER, saved) == 0 && setresuid(real, USER, saved) == 0);
}

/* This process, of root, pretends to have become USER: it says so, and sends no credentials. */
static bool pretends;

__attribute__((visibility("default"))) uid_t geteuid(void)
{
    return pretends ? USER : (uid_t)syscall(SYS_geteuid);
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct msghdr sent = *msg;

    if (pretends)
        sent.msg_controllen = 0;
    return syscall(SYS_sendmsg, fd, &sent, flags);
}

static int put_to_the_other(const struct ut_end *end, const struct ut_peer *peer)
{
    uint64_t value = (uint64_t)ut_rank + 1;
    struct utofu_mrq_notice notice;
    struct ut_comm put = {.kind = UT_PIGGYBACK8,
                          .vcq = end->vcq,
                          .rmt = peer->id,
                          .data = &value,
                          .rmt_stadd = peer->stadd + 8 * WORD,
                          .length = 8,
                          .flags = UT_LCL};

    ut_submit(&put);
    return ut_await_mrq(end->vcq, &notice);
}

/* Both put to each other; ut_cell(rank): the result. */
static void meet(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    ut_open_all(&end, 4096, peers);
    ut_barrier();
    become_ordinary(arg);
    ut_barrier();
    int rc = put_to_the_other(&end, &peers[1 - ut_rank]);
    atomic_store(ut_cell(ut_rank), (uint64_t)(rc == UTOFU_SUCCESS));
    if (rc != UTOFU_SUCCESS) {
        char text[1024];
        CHECK_RC(rc, UTOFU_ERR_MRQ_PEER);
        utofu_get_last_error(text);
        printf("last error: %s\n", text);
    }
    ut_barrier();
    bool both = atomic_load(ut_cell(0)) && atomic_load(ut_cell(1));
    CHECK_EQ(((const uint64_t *)(void *)end.mem)[WORD], both ? (uint64_t)(2 - ut_rank) : 0);
    printf("%s\n", both ? "they have met" : "they have not met");
    ut_close_all(&end);
}

static struct ut_outcome out[2];

/* Rank 1 changes its user when it has refused rank 0, which has changed before. */
static void meet_in_time(void *arg)
{
    const struct change change = {.ranks = 3};
    struct ut_end end;
    struct ut_peer peers[2];
    char text[1024] = "";

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0)
        become_ordinary(&change);
    ut_barrier();
    if (ut_rank == 0) {
        CHECK_OK(put_to_the_other(&end, &peers[1]));
    } else {
        while (!strstr(text, "rejected a connection from uid ")) {
            ut_relax();
            utofu_get_last_error(text);
        }
        become_ordinary(&change);
    }
    ut_barrier();
    printf("they have met\n");
    ut_close_all(&end);
}

/* Rank 1 listens since it was of the same user as rank 0, and has not changed. */
static void meet_pretender(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    ut_open_all(&end, 4096, peers);
    become_ordinary(arg);
    pretends = ut_rank == 1;
    ut_barrier();
    if (ut_rank == 0)
        CHECK_RC(put_to_the_other(&end, &peers[1]), UTOFU_ERR_MRQ_PEER);
    ut_barrier();
    CHECK_EQ(((const uint64_t *)(void *)end.mem)[WORD], 0);
    ut_close_all(&end);
}

static void collect(struct ut_run_opts opts, ut_body_fn *body, void *arg)
{
    static char report[2 * (UT_OUTPUT_MAX + 2048)];

    if (geteuid() != 0) {
        ut_skip("needs root, to become another user");
        return;
    }
    cr_assert(ut_run_collect(&opts, body, arg, out, report, sizeof(report)), "%s", report);
}

static void run(struct change change, const char *provider)
{
    struct ut_run_opts opts = {.n = 2, .env = {PATIENT, provider}, .fresh_root_socket = true};

    collect(opts, meet, &change);
}

static unsigned int count(int rank, const char *text)
{
    unsigned int n = 0;

    for (const char *at = out[rank].output; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void expect_quiet_meeting(void)
{
    for (int rank = 0; rank < 2; rank++) {
        cr_expect_eq(count(rank, "they have met"), 1, "%s", out[rank].output);
        cr_expect_eq(count(rank, "utofu: "), 0, "%s", out[rank].output);
    }
}

/* One line for each direction: who rejected whom. */
static void expect_refusals(int changed)
{
    static const char rejects[] = "rejected a connection from uid %d (pid ";
    static const char rejected[] = "rejected this process, which runs as uid %d";

    for (int rank = 0; rank < 2; rank++) {
        int own = rank == changed ? USER : 0, other = rank == changed ? 0 : USER;
        char text[160];
        cr_expect_eq(count(rank, "they have not met"), 1, "%s", out[rank].output);
        snprintf(text, sizeof(text), rejects, other);
        cr_expect_eq(count(rank, text), 1, "no '%s': %s", text, out[rank].output);
        snprintf(text, sizeof(text), rejected, own);
        cr_expect_eq(count(rank, text), 1, "no '%s': %s", text, out[rank].output);
        cr_expect_eq(count(rank, "start all ranks as the same user"), 2, "%s", out[rank].output);
        cr_expect_eq(count(rank, "utofu: warning: "), 2, "%s", out[rank].output);
        cr_expect_eq(count(rank, "last error: "), 1, "%s", out[rank].output);
        cr_expect_eq(count(rank, "its process has ended"), 0, "%s", out[rank].output);
    }
}

Test(users, who_change_alike_meet)
{
    run((struct change){.ranks = 3}, NULL);
    expect_quiet_meeting();
}

Test(users, whose_effective_ids_change_alike_meet)
{
    run((struct change){.ranks = 3, .effective = true}, NULL);
    expect_quiet_meeting();
}

Test(users, who_do_not_change_alike_are_told)
{
    for (int changed = 0; changed < 2; changed++) {
        run((struct change){.ranks = 1u << changed}, NULL);
        expect_refusals(changed);
    }
}

Test(users, who_change_one_after_the_other_meet)
{
    collect((struct ut_run_opts){.n = 2, .env = {PATIENT}, .fresh_root_socket = true}, meet_in_time,
            NULL);
    for (int rank = 0; rank < 2; rank++) {
        cr_expect_eq(count(rank, "they have met"), 1, "%s", out[rank].output);
        cr_expect_eq(count(rank, "utofu: warning: "), 1, "%s", out[rank].output);
    }
}

Test(users, who_have_not_changed_and_say_so_are_found_out)
{
    collect((struct ut_run_opts){.n = 2, .env = {PATIENT}, .fresh_root_socket = true},
            meet_pretender, &(struct change){.ranks = 1});
    cr_expect_eq(count(0, "rejected a connection from uid 0 (pid "), 1, "%s", out[0].output);
    cr_expect_eq(count(1, "rejected this process"), 1, "%s", out[1].output);
}

Test(users, whose_effective_ids_do_not_change_alike_are_told)
{
    run((struct change){.ranks = 1, .effective = true}, NULL);
    expect_refusals(0);
}

Test(users, do_not_matter_to_a_provider_that_knows_none)
{
    const char *chosen = getenv("UT_USERS_OTHER_PROVIDER");

    if (!chosen)
        ut_skip("UT_USERS_OTHER_PROVIDER is not set");
    run((struct change){.ranks = 3}, chosen);
    expect_quiet_meeting();
    run((struct change){.ranks = 2}, chosen);
    expect_quiet_meeting();
}
