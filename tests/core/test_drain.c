/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining a VCQ (engine/drain.c): how long it waits, when it asks the device for completions, and
 * what it says of a long wait. The test is the clock, which moves while the thread pauses, and the
 * device.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/inner.h"
#include "peers/peers.h"
#include "util/back_off.h"
#include "util/env.h"
#include "util/log.h"

enum { TOQ = 16, LINKS = 3, START_MS = 5000 };

static struct ut_vcq vcq;
static struct ut_link links[LINKS];
static struct ut_link_msg messages[2];
static uint64_t now_ms = START_MS, ends_ms = UINT64_MAX, asked_ms[4];
static unsigned int held_starts, polls, asks, pauses;
static int64_t likely_rank = -1;
static bool likely_is_certain;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = (time_t)(now_ms / 1000),
                           .tv_nsec = (long)(now_ms % 1000) * 1000000};
    return 0;
}

void __wrap_ut_engine_start_held(struct ut_vcq *v, uint32_t max);
void __wrap_ut_engine_start_held(struct ut_vcq *v, uint32_t max)
{
    cr_assert(v == &vcq && max == UINT32_MAX && polls == 0);
    held_starts++;
}

void __wrap_ut_engine_request_completions(struct ut_vcq *v);
void __wrap_ut_engine_request_completions(struct ut_vcq *v)
{
    cr_assert(v == &vcq && ut_is_locked(&vcq.lock));
    cr_assert_eq(polls, pauses, "before the poll of this round");
    if (asks < 4)
        asked_ms[asks] = now_ms - START_MS;
    asks++;
}

static int poll_endpoint(struct prov_ep *ep)
{
    cr_assert(ep == (void *)&vcq && ut_is_locked(&vcq.lock));
    polls++;
    return 0;
}

/* The program's other threads may call the library meanwhile. */
void __wrap_ut_back_off_yielding(uint32_t *rounds);
void __wrap_ut_back_off_yielding(uint32_t *rounds)
{
    cr_assert(!ut_is_locked(&vcq.lock) && *rounds == pauses && polls == pauses + 1);
    *rounds = ++pauses;
    now_ms++;
    for (int i = 0; now_ms >= ends_ms && i < LINKS; i++) {
        links[i].first = UT_NO_SLOT;
        links[i].unacked_first = NULL;
    }
}

int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *ident, bool *certain);
int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *ident, bool *certain)
{
    cr_assert(ident->cmp < LINKS);
    *certain = likely_is_certain;
    return likely_rank;
}

static const struct prov_ops ops = {.ep_poll = poll_endpoint};
static FILE *log_file;

static void open_vcq(void)
{
    cr_assert_eq(ut_env_load(), 0);
    ut_log_init();
    log_file = tmpfile();
    dup2(fileno(log_file), STDERR_FILENO);
    vcq.toq = calloc(TOQ, sizeof(*vcq.toq));
    vcq.toq_mask = TOQ - 1;
    vcq.id = 0x1234;
    vcq.num_eps = 1;
    vcq.eps[0] = (struct ut_vcq_ep){.ops = &ops, .ep = (void *)&vcq};
    vcq.eps_end = vcq.eps + 1;
    for (unsigned int i = 0; i < LINKS; i++) {
        struct ut_vcq_ident ident = {.tni = 2, .cmp = (uint16_t)i};
        links[i] = (struct ut_link){.vcq = &vcq,
                                    .peer = ut_vcq_id_canonical(&ident),
                                    .state = UT_LINK_UP,
                                    .first = UT_NO_SLOT,
                                    .to_post = UT_NO_SLOT,
                                    .reading = UT_STAG_NONE,
                                    .all_next = i + 1 < LINKS ? &links[i + 1] : NULL};
    }
    vcq.all_links = links;
    ut_lock(&vcq.lock);
}

TestSuite(drain, .init = open_vcq);

/* So many communications in each of three states, in entries of the TOQ that begin at `from`. */
static void add(unsigned int link, uint32_t from, unsigned int waiting, unsigned int posted,
                unsigned int done)
{
    uint32_t n = waiting + posted + done;

    links[link].first = n > 0 ? from : UT_NO_SLOT;
    for (uint32_t i = 0; i < n; i++) {
        vcq.toq[from + i].state = i < waiting            ? UT_SLOT_WAITING
                                  : i < waiting + posted ? UT_SLOT_POSTED
                                                         : UT_SLOT_DONE;
        vcq.toq[from + i].next = i + 1 < n ? from + i + 1 : UT_NO_SLOT;
    }
}

static void expect_log(const char *expected)
{
    static char text[4096];

    fflush(stderr);
    fseek(log_file, 0, SEEK_SET);
    text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
    cr_assert_str_eq(text, expected, "%s\nand not\n%s", text, expected);
}

Test(drain, idle_vcq_is_not_polled)
{
    ut_engine_drain(&vcq, 20000, "somebody");
    cr_assert(held_starts == 1 && polls == 0 && asks == 0 && pauses == 0);
    expect_log("");
}

/* Either communications or messages keep a VCQ from being idle, also those of the last link. */
Test(drain, waits_until_all_is_complete)
{
    for (unsigned int i = 0; i < 2 * LINKS; i++) {
        polls = pauses = asks = 0;
        now_ms = START_MS;
        ends_ms = START_MS + 35;
        if (i < LINKS)
            add(i, 0, 0, 1, 0);
        else
            links[i - LINKS].unacked_first = messages;
        ut_engine_drain(&vcq, 20000, "somebody");
        cr_assert(pauses == 35 && polls == 35 && ut_is_locked(&vcq.lock));
        cr_assert_eq(asks, 4);
        for (unsigned int k = 0; k < 4; k++)
            cr_assert_eq(asked_ms[k], 10 * k, "each ten milliseconds");
    }
    expect_log("");
}

#define WAITED(seconds, what, left)                                                                \
    "utofu: warning: [rank ?, engine] somebody has waited " seconds                                \
    " s for VCQ 0000000000001234: " what "; " left                                                 \
    " s are left (UTOFU_PEER_TIMEOUT). A program that polls until its communications are "         \
    "complete does not wait here\n"
#define ABANDONED(seconds, what)                                                                   \
    "utofu: warning: [rank ?, engine] somebody abandoned the communications under way on VCQ "     \
    "0000000000001234 after " seconds " s (UTOFU_PEER_TIMEOUT): " what                             \
    "; they may or may not have been executed\n"
#define TO_0 " to VCQ 0000000000800000"

static const char *text_of(const char *format)
{
    static char text[4096];
    char id[20];

    snprintf(id, sizeof(id), "%016llx", (unsigned long long)links[0].peer);
    strcpy(text, format);
    for (char *at; (at = strstr(text, "0000000000800000"));)
        memcpy(at, id, 16);
    return text;
}

Test(drain, long_wait_is_told_and_ends_with_the_time_limit)
{
    add(0, 0, 0, 1, 0);
    ut_engine_drain(&vcq, 7001, "somebody");
    cr_assert(pauses == 7001 && now_ms == START_MS + 7001 && ut_is_locked(&vcq.lock));
    expect_log(text_of(
        WAITED("3", "1 communication" TO_0 "; that connection waits for completions", "5")
            WAITED("6", "1 communication" TO_0 "; that connection waits for completions", "2")
                ABANDONED("7", "1 communication" TO_0 "; that connection waits for completions")));
}

/* The link with the most communications is named. */
static const struct {
    unsigned int communications[LINKS], messages;
    int rank;
    bool certain;
    const char *text;
} texts[] = {
    {{1, 0, 0}, 0, 3, true, "1 communication to VCQ %s (rank 3)"},
    {{2, 0, 0}, 0, 0, true, "2 communications to VCQ %s (rank 0)"},
    {{0, 3, 0}, 0, 3, false, "3 communications to VCQ %s (probably rank 3)"},
    {{0, 1, 2}, 0, -1, true, "3 communications to VCQ %s, and to 1 other VCQ"},
    {{2, 4, 2}, 0, 7, true, "8 communications to VCQ %s (rank 7), and to 2 other VCQs"},
    {{2, 2, 1}, 0, -1, false, "5 communications to VCQ %s, and to 2 other VCQs"},
    {{0, 0, 0}, 1, -1, false, "1 message of the library to VCQ %s"},
    {{0, 0, 0}, 2, 5, true, "2 messages of the library to VCQ %s (rank 5)"},
    {{0, 0, 1}, 1, -1, false, "1 communication to VCQ %s, and to 1 other VCQ"},
    {{1, 0, 0}, 1, -1, false, "1 communication to VCQ %s"},
};

static void check_text(unsigned int i)
{
    char expected[600], id[20];
    unsigned int named = 0;

    for (unsigned int k = 0; k < LINKS; k++) {
        unsigned int n = texts[i].communications[k];
        add(k, 5 * k, n > 2, n > 0 && n != 2, n > 2 ? n - 2 : n == 2 ? 2 : 0);
        links[k].unacked_first = NULL;
        named = n > texts[i].communications[named] ? k : named;
    }
    messages[0].next = texts[i].messages > 1 ? &messages[1] : NULL;
    links[0].unacked_first = texts[i].messages ? messages : NULL;
    likely_rank = texts[i].rank;
    likely_is_certain = texts[i].certain;
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)links[named].peer);
    int at = snprintf(expected, sizeof(expected),
                      "utofu: warning: [rank ?, engine] it abandoned the communications under way "
                      "on VCQ 0000000000001234 after 0 s (UTOFU_PEER_TIMEOUT): ");
    at += snprintf(expected + at, sizeof(expected) - at, texts[i].text, id);
    snprintf(expected + at, sizeof(expected) - at,
             "; that connection waits for %s; they may or may not have been executed\n",
             texts[i].communications[named] == 2 ? "nothing: no communication uses the link"
                                                 : "completions");
    cr_assert_eq(ftruncate(fileno(log_file), 0), 0);
    lseek(fileno(log_file), 0, SEEK_SET);
    ut_engine_drain(&vcq, 0, "it");
    expect_log(expected);
}

Test(drain, text_names_the_most_loaded_connection)
{
    for (unsigned int i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        check_text(i);
}

/* Gates of other processes have VCQs of the library, which no rank owns. */
Test(drain, text_names_no_rank_of_an_internal_vcq)
{
    struct ut_vcq_ident ident = {.tni = UT_TNI_INTERNAL, .cmp = 1};
    char id[20];

    likely_rank = 3;
    likely_is_certain = true;
    links[0].peer = ut_vcq_id_canonical(&ident);
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)links[0].peer);
    add(0, 0, 0, 1, 0);
    ut_engine_drain(&vcq, 0, "somebody");
    expect_log(
        text_of(ABANDONED("0", "1 communication" TO_0 "; that connection waits for completions")));
}
