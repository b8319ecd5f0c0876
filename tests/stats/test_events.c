/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What UTOFU_STATS counts and what UTOFU_TRACE records, call by call: for VCQs, links and slots
 * that this test makes up, at times of a clock that it moves. The linker puts functions of the test
 * in the place of the library's (--wrap).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "bootstrap/job.h"
#include "link/link.h"
#include "peers/peers.h"
#include "stats/dump.h"
#include "stats/region.h"
#include "stats/stats.h"
#include "util/clock.h"
#include "util/env.h"

enum { TOQ = 4, MRQ = 8, MS = 1000000 };

/*
 * In the place of the library
 */

static uint64_t now;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = (time_t)(now / 1000000000);
    t->tv_nsec = (long)(now % 1000000000);
    return 0;
}

/* The library's thread, which would take the events, does nothing unless a test wants it. The end
 * of the process: the test calls it. */
static void *(*thread_body)(void *);
static bool thread_runs;
static int thread_error;

static void *end_at_once(void *arg)
{
    return arg;
}

int __wrap_ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread);
int __wrap_ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread)
{
    (void)name;
    thread_body = body;
    return thread_error ? thread_error
                        : -pthread_create(thread, NULL, thread_runs ? body : end_at_once, arg);
}

static void (*end_process)(void);

int __wrap_atexit(void (*function)(void));
int __wrap_atexit(void (*function)(void))
{
    end_process = function;
    return 0;
}

static int owner_rc;
static int64_t owner;
static unsigned int owner_asked;

static int find_owner(struct ut_peer *peer)
{
    owner_asked++;
    if (owner_rc == 0)
        peer->rank = (uint32_t)owner;
    return owner_rc;
}

int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *ident, struct ut_peer *peer);
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *ident, struct ut_peer *peer)
{
    cr_assert(ut_vcq_ident_is_of_program(ident));
    return find_owner(peer);
}

int __wrap_ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                    struct ut_peer *peer);
int __wrap_ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                    struct ut_peer *peer)
{
    (void)coords;
    cr_assert_eq(local_rank, 6);
    return find_owner(peer);
}

static const struct prov_ops ops = {.name = "a-provider"};
static struct prov provider = {.ops = &ops};
static const struct ut_process process = {.prov = {NULL, &provider}};

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

static struct ut_vcq vcqs[2];
static uint32_t num_live;
static uint64_t locked_for_ms;
static struct ut_lock *held_by_another;

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    for (uint32_t i = 0; i < num_live; i++)
        visit(&vcqs[i], arg);
}

bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms);
bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms)
{
    locked_for_ms = until_ms - ut_now_ms();
    if (lock == held_by_another)
        return false;
    ut_lock(lock);
    return true;
}

/*
 * Making VCQs
 */

static struct ut_stats *made[40]; /* those of VCQs that a test has made anew are not lost */
static unsigned int num_made;
static struct ut_slot toqs[2][TOQ];
static struct utofu_mrq_notice mrqs[2][MRQ];
static struct ut_link link_to[2]; /* of VCQ 0: to a VCQ of the program, and between gates */

static const struct ut_job_info job = {.rank = 3, .size = 8, .id = "a-job"};
static char file[] = "/tmp/test_events_XXXXXX", pattern[sizeof(file) + 8];

static void begin(const char *stats, bool traced)
{
    if (traced) {
        int fd = mkstemp(file);
        cr_assert(fd >= 0);
        close(fd);
        setenv("UTOFU_TRACE", file, 1);
    }
    setenv("UTOFU_STATS", stats, 1);
    cr_assert_eq(ut_env_load(), 0);
    now = 1000;
    cr_assert_eq(ut_stats_open(&job, 0xbeef), 0);
}

static void remove_files(void)
{
    snprintf(pattern, sizeof(pattern), "%s.3", file);
    unlink(pattern);
    unlink(file);
}

TestSuite(events, .fini = remove_files);

static void make_vcq(int i, unsigned long flags, uint16_t tni_of_id)
{
    struct ut_vcq *vcq = &vcqs[i];
    struct ut_vcq_ident ident = {.tni = tni_of_id, .cq = 5, .cmp = 2};

    *vcq = (struct ut_vcq){.handle = 1,
                           .toq = toqs[i],
                           .toq_mask = TOQ - 1,
                           .mrq = mrqs[i],
                           .mrq_mask = MRQ - 1,
                           .mrq_alarm = 99,
                           .spin_limit = 99,
                           .num_eps = 1,
                           .tni = 3,
                           .flags = flags,
                           .ident = ident,
                           .id = 0x100u + (unsigned int)i,
                           .incarnation = 11};
    memset(toqs[i], 0, sizeof(toqs[i]));
    cr_assert(ut_stats_attach(vcq) && num_made < 40);
    made[num_made++] = vcq->stats;
    num_live = (uint32_t)i + 1;
    const struct ut_vcq_ident peer = {.tni = 1, .cq = 4, .cmp = 1},
                              gates = {.tni = UT_TNI_INTERNAL, .cq = 6, .cmp = 1};
    for (int j = 0; j < 2; j++)
        link_to[j] = (struct ut_link){.vcq = vcq,
                                      .peer = ut_vcq_id_pack(j ? &gates : &peer),
                                      .peer_incarnation = 22,
                                      .provider = 1,
                                      .to_post = UT_NO_SLOT};
}

/* Fills in the next slot, and submits it at time `at`. */
static struct ut_slot *submit(unsigned int kind, uint32_t length, unsigned int flags, uint64_t at)
{
    struct ut_vcq *vcq = &vcqs[0];
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail);

    *slot = (struct ut_slot){
        .desc = {.kind = (uint8_t)kind, .flags = (uint16_t)flags, .edata = 9, .word = length},
        .state = UT_SLOT_SUBMITTED,
        .link = &link_to[0]};
    now = at;
    ut_stats_submit(vcq, 1);
    vcq->toq_tail++;
    return slot;
}

static void start(struct ut_slot *slot, uint64_t at)
{
    now = at;
    vcqs[0].toq_exec++;
    vcqs[0].started++;
    ut_stats_start(&vcqs[0], slot);
}

static void started(struct ut_slot *slot, enum ut_slot_state state, uint64_t at)
{
    now = at;
    slot->state = (uint8_t)state;
    ut_stats_started(&vcqs[0], slot);
}

static void done(struct ut_slot *slot, int tcq_rc, int mrq_rc, uint64_t at)
{
    now = at;
    slot->tcq_rc = (int16_t)tcq_rc;
    slot->mrq_rc = (int16_t)mrq_rc;
    ut_stats_done(slot->link, slot);
}

/* A put from its submission to its end. */
static struct ut_slot *put(uint64_t at)
{
    struct ut_slot *slot = submit(UT_DESC_PUT, 100, 0, at);

    start(slot, at + 10);
    started(slot, UT_SLOT_POSTED, at + 30);
    done(slot, 0, 0, at + 100);
    return slot;
}

/*
 * What was counted and recorded, as text
 */

static char *print(char **text)
{
    size_t size;
    FILE *out = open_memstream(text, &size);

    ut_stats_print(out, 3);
    fclose(out);
    return *text;
}

static const char *counted(void)
{
    static char *text;

    free(text);
    return print(&text);
}

/* The fields of an event that are not 0. */
static char *append_event(char *to, const struct ut_stats_event *e)
{
    static const char *const names[] = {"OP",      "ARRIVAL", "WAIT", "GATE",  "FLOW_OUT",
                                        "FLOW_IN", "ARROW",   "NAME", "REGION"};

    to += sprintf(to, "%s %u track=%u at=%" PRIu64, names[e->what], e->kind, e->track, e->at);
#define FIELD(name)                                                                                \
    if (e->name)                                                                                   \
    to += sprintf(to, " " #name "=%lld", (long long)e->name)
    FIELD(edata);
    FIELD(sps);
    FIELD(rc);
    FIELD(bytes);
    FIELD(rank);
    FIELD(length);
    FIELD(done);
    FIELD(cause);
    FIELD(unfinished);
    if (e->flow)
        to += sprintf(to, " flow");
    if (e->peer == link_to[0].peer || e->peer == link_to[1].peer)
        to += sprintf(to, " peer");
    else if (e->peer)
        to += sprintf(to, " peer=%" PRIx64, e->peer);
    return to + sprintf(to, "\n");
}

/* The events of a VCQ since the last call, but for the first one, its name. */
static const char *recorded(void)
{
    static char text[1 << 14];
    struct ut_trace_buffer *b = &vcqs[0].stats->timeline;
    char *to = text;

    *to = '\0';
    for (uint32_t i = 0; i < b->num_events; i++)
        to = append_event(to, &b->events[i]);
    b->num_events = 0;
    return text;
}

#define VCQ(more)                                                                                  \
    "utofu: stats: [rank 3] vcq id=0000000000000100 tni=3 cq=5 cmp=2 mode=free lives=1" more "\n"
#define PEER(more) "utofu: stats: [rank 3] peer vcq=%016llx of=0000000000000100" more "\n"

/* Compares with a text that has the id of the peer %llx. */
static void check_counted(const char *want)
{
    char text[2000];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof(text), want, (unsigned long long)link_to[0].peer,
             (unsigned long long)link_to[0].peer);
#pragma GCC diagnostic pop
    cr_assert_str_eq(counted(), text);
}

/*
 * VCQs
 */

Test(events, vcq_is_watched)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    cr_assert(vcqs[0].slow_path && vcqs[0].watched);
    cr_assert(vcqs[0].mrq_alarm == 0 && vcqs[0].spin_limit == 0);
    cr_assert_eq(vcqs[0].mrq_most, &vcqs[0].stats->most_mrq);
    cr_assert_str_eq(recorded(), "NAME 0 track=1 at=0 sps=2 bytes=3 rank=5 peer=100\n");
    check_counted(VCQ(""));
    make_vcq(1, UTOFU_VCQ_FLAG_SESSION_MODE, 3);
    cr_assert(vcqs[1].stats->credits && !vcqs[1].stats->gates);
    cr_assert(!vcqs[0].stats->credits);
    struct ut_trace_buffer *b = &vcqs[1].stats->timeline;
    cr_assert(b->num_events == 1 && b->events->track == 2 && b->events->kind == UT_NAME_SESSION);
    check_counted(VCQ("") "utofu: stats: [rank 3] vcq id=0000000000000101 tni=3 cq=5 cmp=2 "
                          "mode=session lives=1\n");
}

Test(events, vcq_is_not_watched_without_a_reason)
{
    setenv("UTOFU_STATS", "0", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_stats_open(&job, 0), 0);
    vcqs[0].spin_limit = 7;
    cr_assert(ut_stats_attach(&vcqs[0]));
    cr_assert(!vcqs[0].stats && !vcqs[0].slow_path && !vcqs[0].watched);
    cr_assert_eq(vcqs[0].spin_limit, 7);
    ut_stats_detach(&vcqs[0]);
    cr_assert_null(thread_body);
    cr_assert_null(end_process);
}

Test(events, vcqs_that_have_the_same_id_are_added_up)
{
    begin("1", false);
    for (int i = 0; i < 2; i++) {
        make_vcq(0, 0, 3);
        owner = 7;
        put(2000);
        vcqs[0].stats->most_mrq = i ? 4 : 6;
        ut_stats_connected(&link_to[0]);
        ut_stats_detach(&vcqs[0]);
        cr_assert_null(vcqs[0].stats);
    }
#define SUMS " puts=2 put_bytes=200"
    cr_assert_eq(strncmp(counted(), "utofu: stats: [rank 3] vcq id=0000000000000100 ", 47), 0);
    check_counted("utofu: stats: [rank 3] vcq id=0000000000000100 tni=3 cq=5 cmp=2 mode=free "
                  "lives=2" SUMS " most_under_way=1 most_in_mrq=6\n" PEER(
                      " rank=7 provider=a-provider" SUMS " most_under_way=1"));
    make_vcq(1, 0, 3); /* another id */
    ut_stats_detach(&vcqs[1]);
    cr_assert_not_null(strstr(counted(), "lives=2" SUMS));
    cr_assert_not_null(
        strstr(counted(), "id=0000000000000101 tni=3 cq=5 cmp=2 mode=free lives=1\n"));
    uint64_t totals[UT_NUM_COUNTERS];
    ut_stats_totals(totals);
    cr_assert(totals[UT_COUNT_PUTS] == 2 && totals[UT_COUNT_PEERS] == 1);
    make_vcq(0, 0, 3);
    put(2000);
    ut_stats_totals(totals);
    cr_assert(totals[UT_COUNT_PUTS] == 3 && totals[UT_COUNT_PEERS] == 2);
    cr_assert(totals[UT_COUNT_MOST_IN_MRQ] == 6 && totals[UT_COUNT_MOST_UNDER_WAY] == 1);
}

/* No call holds the lock of a VCQ for a second, unless a signal has interrupted it. */
Test(events, vcq_whose_lock_is_held_is_left_out)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    put(2000);
    held_by_another = &vcqs[0].lock;
    cr_assert_str_eq(counted(), "");
    cr_assert_eq(locked_for_ms, 1000);
    uint64_t totals[UT_NUM_COUNTERS] = {0};
    ut_stats_totals(totals);
    cr_assert_eq(totals[UT_COUNT_PUTS], 0);
    held_by_another = NULL;
    ut_stats_totals(totals);
    cr_assert_eq(totals[UT_COUNT_PUTS], 1);
    cr_assert(ut_trylock(&vcqs[0].lock), "it is free again");
    ut_unlock(&vcqs[0].lock);
    counted();
    cr_assert(ut_trylock(&vcqs[0].lock), "it is free again");
}

/*
 * Communications
 */

#define PUT_1 "OP 0 track=1 at=2010 edata=9 bytes=100 rank=7 length=20 "

Test(events, put_that_ends_after_its_call)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    owner = 7;
    recorded();
    put(2000);
    cr_assert_str_eq(recorded(), PUT_1 "done=2100 peer\n");
    check_counted(VCQ(" puts=1 put_bytes=100 most_under_way=1")
                      PEER(" rank=7 puts=1 put_bytes=100 most_under_way=1"));
    cr_assert_eq(vcqs[0].stats->counts.open, 0);
    cr_assert_eq(link_to[0].stats->counts.open, 0);
    cr_assert(toqs[0][0].slow_end && toqs[0][0].desc.flags & UT_DESC_COUNTED);
    cr_assert_eq(owner_asked, 1);
}

Test(events, put_that_ends_in_its_call)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    owner = 7;
    recorded();
    struct ut_slot *slot = submit(UT_DESC_PUT, 100, 0, 2000);
    start(slot, 2010);
    cr_assert_eq(vcqs[0].stats->starting, 0);
    done(slot, 0, 0, 2020);
    cr_assert_str_eq(recorded(), "", "not before it has returned");
    started(slot, UT_SLOT_RETIRED, 2030);
    cr_assert_eq(vcqs[0].stats->starting, UT_NO_SLOT);
    cr_assert_str_eq(recorded(), PUT_1 "peer\n");
    check_counted(VCQ(" puts=1 put_bytes=100 most_under_way=1")
                      PEER(" rank=7 puts=1 put_bytes=100 most_under_way=1"));
    cr_assert_eq(vcqs[0].stats->counts.open, 0);
    cr_assert_eq(link_to[0].stats->counts.open, 0);
}

/* Another one ends while this one starts. */
Test(events, put_that_ends_while_the_next_one_starts)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    owner = 7;
    recorded();
    struct ut_slot *one = submit(UT_DESC_PUT, 100, 0, 2000);
    start(one, 2010);
    started(one, UT_SLOT_POSTED, 2030);
    struct ut_slot *two = submit(UT_DESC_PUT, 100, 0, 2040);
    start(two, 2050);
    done(one, 0, 0, 2060);
    cr_assert_str_eq(recorded(), PUT_1 "done=2060 peer\n");
    cr_assert_eq(vcqs[0].stats->counts.open, 1);
    cr_assert_eq(link_to[0].stats->counts.open, 0, "the second one has not started");
    cr_assert_eq(vcqs[0].stats->counts.n[UT_COUNT_MOST_UNDER_WAY], 2);
}

Test(events, each_kind)
{
    static const struct {
        unsigned int kind;
        int tcq_rc, mrq_rc;
        unsigned int flags;
        const char *vcq, *peer, *event;
    } all[] = {
        {UT_DESC_PUT, 0, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
         " puts=1 put_bytes=8 lcl_put_notices=1", " puts=1 put_bytes=8 lcl_put_notices=1", "0"},
        {UT_DESC_PIGGYBACK, 0, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, " puts=1 put_bytes=8",
         " puts=1 put_bytes=8", "0"},
        {UT_DESC_GET, 0, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
         " gets=1 get_bytes=8 lcl_get_notices=1", " gets=1 get_bytes=8 lcl_get_notices=1", "1"},
        {UT_DESC_ARMW, 0, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, " armws=1 lcl_armw_notices=1",
         " armws=1 lcl_armw_notices=1", "2"},
        /* an error in the TCQ has no notice, one in the MRQ is a notice, wanted or not */
        {UT_DESC_PUT, UTOFU_ERR_TCQ_STADD, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
         " puts=1 put_bytes=8 failed=1", " puts=1 put_bytes=8 failed=1", "0"},
        {UT_DESC_GET, 0, UTOFU_ERR_MRQ_PEER, 0, " gets=1 get_bytes=8 lcl_get_notices=1 failed=1",
         " gets=1 get_bytes=8 lcl_get_notices=1 failed=1", "1"},
    };
    char want[1000];

    begin("1", true);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        make_vcq(0, 0, 3);
        recorded();
        owner = 0;
        struct ut_slot *slot = submit(all[i].kind, 8, all[i].flags, 2000);
        start(slot, 2010);
        started(slot, UT_SLOT_POSTED, 2030);
        done(slot, all[i].tcq_rc, all[i].mrq_rc, 2031);
        snprintf(want, sizeof(want), VCQ("%s most_under_way=1") PEER(" rank=0%s most_under_way=1"),
                 all[i].vcq, (unsigned long long)link_to[0].peer, all[i].peer);
        cr_assert_str_eq(counted(), want, "%zu: %s", i, counted());
        char rc[30] = "";
        if (all[i].tcq_rc || all[i].mrq_rc)
            snprintf(rc, sizeof(rc), " rc=%d", all[i].tcq_rc + all[i].mrq_rc);
        snprintf(want, sizeof(want),
                 "OP %s track=%zu at=2010 edata=9%s bytes=8 length=20 done=2031 peer\n",
                 all[i].event, i + 1, rc);
        cr_assert_str_eq(recorded(), want);
    }
}

/* A NOP, and a communication that failed before it was on a link. */
Test(events, those_without_a_link)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    recorded();
    struct ut_slot *slot = submit(UT_DESC_NOP, 0, 0, 2000);
    start(slot, 2010);
    started(slot, UT_SLOT_RETIRED, 2015);
    cr_assert_str_eq(recorded(), "OP 3 track=1 at=2010 edata=9 rank=-1 length=5\n");
    check_counted(VCQ(" nops=1 most_under_way=1"));
    slot = submit(UT_DESC_GET, 8, 0, 2020);
    slot->link = NULL;
    slot->tcq_rc = UTOFU_ERR_TCQ_DESC;
    start(slot, 2030);
    started(slot, UT_SLOT_RETIRED, 2035);
    cr_assert_str_eq(recorded(), "OP 1 track=1 at=2030 edata=9 rc=-129 bytes=8 rank=-1 length=5\n");
    check_counted(VCQ(" gets=1 get_bytes=8 nops=1 failed=1 most_under_way=1"));
    cr_assert_eq(vcqs[0].stats->counts.open, 0);
    cr_assert_eq(toqs[0][1].rmt_value, 0);
}

Test(events, several_of_one_call)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    vcqs[0].toq_tail = vcqs[0].toq_exec = 3;
    for (uint32_t i = 3; i < 6; i++) {
        struct ut_slot *slot = ut_vcq_slot(&vcqs[0], i);
        *slot = (struct ut_slot){.desc = {.kind = UT_DESC_PUT, .word = 10 * i}, .link = link_to};
    }
    now = 2000;
    ut_stats_submit(&vcqs[0], 3);
    cr_assert_eq(vcqs[0].stats->counts.n[UT_COUNT_MOST_UNDER_WAY], 3);
    for (uint32_t i = 3; i < 6; i++) {
        const struct ut_slot *slot = ut_vcq_slot(&vcqs[0], i);
        const struct ut_stats_op *op = &vcqs[0].stats->ops[slot - toqs[0]];
        cr_assert(slot->slow_end && slot->desc.flags & UT_DESC_COUNTED, "%u", i);
        cr_assert(op->submitted == 2000 && op->bytes == 10 * i, "%u", i);
    }
    cr_assert(!ut_vcq_slot(&vcqs[0], 6)->slow_end, "that behind them");
}

/* The rank of a peer is looked up until it is known. */
Test(events, rank_of_a_peer)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    recorded();
    owner_rc = -EAGAIN;
    put(2000);
    cr_assert_str_eq(recorded(),
                     "OP 0 track=1 at=2010 edata=9 bytes=100 rank=-1 length=20 done=2100 peer\n");
    check_counted(VCQ(" puts=1 put_bytes=100 most_under_way=1")
                      PEER(" puts=1 put_bytes=100 most_under_way=1"));
    owner_rc = 0;
    owner = 0;
    put(3000);
    put(4000);
    cr_assert_str_eq(recorded(),
                     "OP 0 track=1 at=3010 edata=9 bytes=100 length=20 done=3100 peer\n"
                     "OP 0 track=1 at=4010 edata=9 bytes=100 length=20 done=4100 peer\n");
    owner_asked = 0;
    put(5000);
    cr_assert_eq(owner_asked, 0);
}

Test(events, rank_of_the_peer_of_a_gate)
{
    begin("1", true);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    owner = 5;
    ut_stats_up(&link_to[1]);
    cr_assert_eq(link_to[1].stats->rank, 5);
    cr_assert_eq(owner_asked, 1);
}

/* Both ends of a message have the same id; no two messages have. */
Test(events, arrows_between_processes)
{
    struct ut_stats_arrival a = {.link = &link_to[0], .flow = true};
    uint64_t out[3];

    begin("1", true);
    make_vcq(0, 0, 3);
    recorded();
    struct ut_stats_event *events = vcqs[0].stats->timeline.events;
    for (uint32_t i = 0; i < 3; i++) {
        struct ut_slot *slot = submit(UT_DESC_PUT, 100, 0, 2000);
        start(slot, 2010);
        started(slot, UT_SLOT_POSTED, 2030);
        slot->msg_number = i + 1;
        vcqs[0].incarnation = i < 2 ? 11 : 22;
        link_to[0].peer_incarnation = i < 2 ? 22 : 11;
        done(slot, 0, 0, 2100);
        out[i] = events[i].flow;
        cr_assert(out[i] & 1);
    }
    cr_assert(out[0] != out[1] && out[0] != out[2] && out[1] != out[2]);
    recorded();
    vcqs[0].incarnation = 22;
    link_to[0].peer_incarnation = 11;
    for (uint32_t i = 0; i < 2; i++) {
        link_to[0].rx_number = i + 1;
        ut_stats_arrival_begins(&a);
        ut_stats_arrival_ends(&a);
        cr_assert_eq(events[i].flow, out[i]);
    }
    /* one that failed has not arrived, and one without a message has no arrow */
    for (uint32_t i = 0; i < 2; i++) {
        recorded();
        struct ut_slot *slot = submit(UT_DESC_PUT, 100, 0, 2000);
        start(slot, 2010);
        started(slot, UT_SLOT_POSTED, 2030);
        slot->msg_number = i;
        done(slot, 0, i ? UTOFU_ERR_MRQ_PEER : 0, 2100);
        cr_assert_eq(events[0].flow, 0);
    }
}

/* Communications under way at the end are recorded as unfinished, once. */
Test(events, communications_that_do_not_end)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    owner = 7;
    struct ut_slot *slot[4];
    for (int i = 0; i < 4; i++)
        slot[i] = submit(UT_DESC_PUT, 100, 0, 2000);
    for (int i = 0; i < 3; i++) {
        start(slot[i], 2010 + (uint64_t)i);
        started(slot[i], UT_SLOT_POSTED, 2030);
    }
    done(slot[1], 0, 0, 2040);
    ut_trace_flush(&vcqs[0].stats->timeline); /* the file has what follows */
    struct ut_stats_event *events = vcqs[0].stats->timeline.events;
    memset(events, 0, 8 * sizeof(*events));
    end_process();
    char text[1000], *to = text;
    for (int i = 0; i < 3; i++)
        to = append_event(to, &events[i]);
    cr_assert_str_eq(text, PUT_1
                     "unfinished=1 peer\n"
                     "OP 0 track=1 at=2012 edata=9 bytes=100 rank=7 length=18 unfinished=1 peer\n"
                     "OP 0 track=0 at=0\n");
    cr_assert(vcqs[0].stats->closed);
    cr_assert_eq(vcqs[0].stats->timeline.num_events, 0, "they are written");
    done(slot[0], 0, 0, 2050);
    cr_assert_eq(vcqs[0].stats->timeline.num_events, 0, "nothing behind the end");
    cr_assert(ut_trylock(&vcqs[0].lock));
}

/*
 * Waiting
 */

Test(events, blocked_peer)
{
    begin("1", false);
    make_vcq(0, 0, 3);
    owner = 7;
    struct ut_slot *one = submit(UT_DESC_PUT, 100, 0, 1 * MS);
    start(one, 2 * MS);
    link_to[0].to_post = 0;
    started(one, UT_SLOT_WAITING, 3 * MS);
    struct ut_slot *two = submit(UT_DESC_PUT, 100, 0, 4 * MS);
    start(two, 5 * MS);
    started(two, UT_SLOT_WAITING, 6 * MS);
    now = 7 * MS;
    ut_stats_check_blocked(&link_to[0]);
    cr_assert_eq(link_to[0].stats->counts.n[UT_COUNT_BLOCKED], 0, "it still waits");
    link_to[0].to_post = UT_NO_SLOT;
    now = 9 * MS;
    ut_stats_check_blocked(&link_to[0]);
    now = 20 * MS;
    ut_stats_check_blocked(&link_to[0]);
#define PUTS " puts=2 put_bytes=200"
    check_counted(VCQ(PUTS " most_under_way=2")
                      PEER(" rank=7" PUTS " blocked_ms=7.000 most_under_way=2"));
    struct ut_slot *three = submit(UT_DESC_PUT, 100, 0, 21 * MS);
    start(three, 22 * MS);
    started(three, UT_SLOT_POSTED, 23 * MS);
    cr_assert_eq(link_to[0].stats->blocked_since, 0, "one that is posted does not wait");
}

static void poll_empty(uint64_t at, int times)
{
    now = at;
    for (int i = 0; i < times; i++)
        ut_stats_empty_poll(&vcqs[0]);
}

/* The clock is read at the first empty poll, and at each sixteenth one. */
Test(events, rows_of_empty_polls)
{
    begin("1", true);
    make_vcq(0, 0, 3);
    recorded();
    poll_empty(100 * MS, 1);
    poll_empty(101 * MS, 14);
    poll_empty(102 * MS, 1); /* the sixteenth */
    poll_empty(112 * MS, 16);
    now = 122 * MS;
    ut_stats_completion(&link_to[0]);
    cr_assert_str_eq(recorded(), "WAIT 0 track=1 at=100000000 length=22000000\n");
    check_counted(VCQ(" empty_polls=32 blocked_ms=22.000"));
    ut_stats_completion(&link_to[0]);
    cr_assert_str_eq(recorded(), "", "once");

    poll_empty(200 * MS, 1);
    poll_empty(210 * MS + 1, 15); /* too late: another row */
    now = 220 * MS + 2;
    ut_stats_completion(&link_to[0]);
    cr_assert_str_eq(recorded(), "WAIT 0 track=1 at=210000001\n");
    check_counted(VCQ(" empty_polls=48 blocked_ms=22.000"));
}

/*
 * Arrivals
 */

static void arrive(struct ut_stats_arrival *a, uint64_t from, uint64_t to, int notices,
                   unsigned int type)
{
    struct ut_vcq *vcq = a->link->vcq;

    now = from;
    ut_stats_arrival_begins(a);
    for (int i = 0; i < notices; i++)
        vcq->mrq[vcq->mrq_tail++ & vcq->mrq_mask].notice_type = (uint8_t)type;
    now = to;
    ut_stats_arrival_ends(a);
}

Test(events, arrivals)
{
    static const struct {
        unsigned int type;
        const char *counted;
    } all[] = {{UTOFU_MRQ_TYPE_RMT_PUT, " rmt_put_notices=2"},
               {UTOFU_MRQ_TYPE_RMT_GET, " rmt_get_notices=2"},
               {UTOFU_MRQ_TYPE_RMT_ARMW, " rmt_armw_notices=2"},
               {UTOFU_MRQ_TYPE_LCL_PUT, ""},
               {UTOFU_MRQ_TYPE_LCL_GET, ""},
               {UTOFU_MRQ_TYPE_LCL_ARMW, ""}};
    char want[1000];

    begin("1", true);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        make_vcq(0, 0, 3);
        owner = 7;
        vcqs[0].mrq_head = vcqs[0].mrq_tail = 7;
        mrqs[0][7].notice_type = mrqs[0][1].notice_type = UTOFU_MRQ_TYPE_RMT_PUT;
        recorded();
        poll_empty(100 * MS, 1);
        struct ut_stats_arrival a = {
            .link = &link_to[0], .type = (uint8_t)all[i].type, .edata = 8, .sps = 2, .flow = true};
        arrive(&a, 101 * MS, 102 * MS, 2, all[i].type);
        snprintf(
            want, sizeof(want),
            "WAIT 0 track=%zu at=100000000 length=1000000\n"
            "ARRIVAL %u track=%zu at=101000000 edata=8 sps=2 rank=7 length=1000000 flow peer\n",
            i + 1, all[i].type, i + 1);
        cr_assert_str_eq(recorded(), want);
        snprintf(want, sizeof(want),
                 VCQ(" arrivals=1%s empty_polls=1 blocked_ms=1.000") PEER(" rank=7 arrivals=1%s"),
                 all[i].counted, (unsigned long long)link_to[0].peer, all[i].counted);
        cr_assert_str_eq(counted(), want);
    }
    /* an answer is no arrival of a communication */
    make_vcq(0, 0, 3);
    recorded();
    struct ut_stats_arrival a = {.link = &link_to[0], .type = UTOFU_MRQ_TYPE_LCL_ARMW};
    arrive(&a, 101 * MS, 102 * MS, 0, 0);
    cr_assert_str_eq(recorded(), "ARRIVAL 4 track=7 at=101000000 rank=7 length=1000000 peer\n");
    check_counted(VCQ("") PEER(" rank=7"));
}

/* Session mode: a communication has an arrow from the put whose SPS let it start. */
Test(events, what_started_a_communication)
{
    static const uint64_t causes[] = {100, 200, 200, 200, 300, 0};
    struct ut_stats_arrival a = {.link = &link_to[0], .flow = true};

    begin("1", true);
    make_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, 3);
    for (unsigned int i = 1; i <= 3; i++) { /* 1, 3 and 1 descriptors */
        a.sps = i == 2 ? 3 : 1;
        arrive(&a, 100 * i, 100 * i, 0, 0);
        vcqs[0].scheduled += a.sps;
        a.sps = 0;
        arrive(&a, 100 * i + 50, 100 * i + 50, 0, 0);
    }
    recorded();
    for (int i = 0; i < 6; i++) {
        struct ut_slot *slot = submit(UT_DESC_NOP, 0, 0, 2000);
        char want[200], cause[40] = "";
        start(slot, 2010);
        started(slot, UT_SLOT_RETIRED, 2020);
        if (causes[i])
            snprintf(cause, sizeof(cause), " cause=%d", (int)causes[i]);
        snprintf(want, sizeof(want), "OP 3 track=1 at=2010 edata=9 rank=-1 length=10%s\n", cause);
        cr_assert_str_eq(recorded(), want, "%d", i);
    }
}

Test(events, oldest_arrivals_are_forgotten)
{
    struct ut_stats_arrival a = {.link = &link_to[0], .sps = 1};

    begin("1", false);
    make_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, 3);
    for (uint64_t i = 0; i < UT_STATS_CREDITS + 2; i++) {
        now = 1000 + i;
        ut_stats_arrival_begins(&a);
        vcqs[0].scheduled++;
    }
    struct ut_slot *slot = submit(UT_DESC_NOP, 0, 0, 20000);
    start(slot, 20000);
    cr_assert_eq(vcqs[0].stats->ops[0].cause, 1002, "two have no place");
    vcqs[0].started = 3;
    ut_stats_start(&vcqs[0], slot);
    cr_assert_eq(vcqs[0].stats->ops[0].cause, 1002);
    vcqs[0].started = UT_STATS_CREDITS + 2;
    ut_stats_start(&vcqs[0], slot);
    cr_assert_eq(vcqs[0].stats->ops[0].cause, 1000 + UT_STATS_CREDITS + 1, "the last one");
}

Test(events, arrival_in_free_mode_has_no_schedule)
{
    struct ut_stats_arrival a = {.link = &link_to[0], .sps = 1};

    begin("1", false);
    make_vcq(0, 0, 3);
    ut_stats_arrival_begins(&a);
    cr_assert_eq(vcqs[0].stats->credit_tail, 0);
}

Test(events, further_counters)
{
    begin("1", false);
    make_vcq(0, 0, 3);
    owner = 7;
    ut_stats_busy(&vcqs[0]);
    for (int i = 0; i < 2; i++)
        ut_stats_srq_low(&vcqs[0]);
    for (int i = 0; i < 3; i++)
        ut_stats_retry(&link_to[0]);
    for (int i = 0; i < 4; i++)
        ut_stats_parted(&link_to[0]);
    for (int i = 0; i < 5; i++)
        ut_stats_conn_evicted(&link_to[0]);
    ut_stats_connected(&link_to[0]);
    check_counted(VCQ(" busy=1 crowded=2")
                      PEER(" rank=7 provider=a-provider retries=3 rests=5 parted=4"));
    link_to[0].was_up = true;
    ut_stats_connected(&link_to[0]);
    check_counted(VCQ(" busy=1 crowded=2")
                      PEER(" rank=7 provider=a-provider retries=3 reconnects=1 rests=5 parted=4"));
}

/*
 * Gates
 */

#define TRACK(gate)      "3" gate /* of TNI 3: 1000000 + 3 * 48 + gate */
#define GATE(gate, more) "utofu: stats: [rank 3] gate tni=3 gate=" gate more "\n"

Test(events, start_gate)
{
    const struct ut_stats_gate_message hop = {
        .input = UT_STATS_SIGNAL, .src = 1, .dst = 2, .epoch = 3, .number = 4};

    begin("1", true);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    struct ut_stats *stats = vcqs[0].stats;
    cr_assert_str_eq(recorded(), "", "a VCQ of the library has no name");
    now = 2000;
    ut_stats_gate_send(stats, 2, &hop);
    cr_assert_str_eq(recorded(), "NAME 2 track=1000146 at=0 bytes=3 rank=2\n"
                                 "FLOW_OUT 0 track=1000146 at=2000 rank=-1 flow\n");
    now = 2010;
    ut_stats_gate_sent(stats, 2, UTOFU_REDUCE_OP_SUM, 2003);
    cr_assert_str_eq(recorded(), "GATE 2 track=1000146 at=2003 edata=7 rank=-1 length=7\n");
    stats->consumed[0] = 2100;
    stats->consumed[1] = 2200;
    now = 3 * MS;
    ut_stats_gate_end(stats, 2, UTOFU_REDUCE_OP_SUM, UTOFU_SUCCESS);
    cr_assert_str_eq(recorded(), "GATE 5 track=1000146 at=2003 edata=7 rank=-1 length=2997998\n"
                                 "GATE 4 track=1000146 at=3000000 edata=7 rank=-1 length=1\n"
                                 "ARROW 0 track=1000146 at=3000000 rank=-1 cause=2100\n"
                                 "ARROW 0 track=1000146 at=3000000 rank=-1 cause=2200\n");
    cr_assert_str_eq(counted(), GATE("2", " started=1 finished=1 signals_out=1 blocked_ms=2.998"));
    ut_stats_gate_end(stats, 2, UTOFU_REDUCE_OP_SUM, UTOFU_ERR_BARRIER_MISMATCH);
    cr_assert_str_eq(recorded(),
                     "GATE 4 track=1000146 at=3000000 edata=7 rc=-257 rank=-1 length=1\n");
    cr_assert_str_eq(counted(),
                     GATE("2", " started=1 finished=1 failed=1 signals_out=1 blocked_ms=2.998"));
    uint64_t totals[UT_NUM_COUNTERS];
    ut_stats_totals(totals);
    cr_assert(totals[UT_COUNT_BARRIERS] == 1 && totals[UT_COUNT_BARRIER_BLOCKED] == 2997);
}

Test(events, relay_gate)
{
    struct ut_stats_gate_message hop = {
        .input = UT_STATS_PACKET, .src = 1, .dst = 2, .epoch = 3, .number = 4};

    begin("1", true);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    struct ut_stats *stats = vcqs[0].stats;
    now = 2010;
    ut_stats_gate_arrive(stats, 16, &hop, 2000);
    cr_assert_str_eq(recorded(), "NAME 2 track=1000160 at=0 bytes=3 rank=16\n"
                                 "GATE 1 track=1000160 at=2000 rank=-1 length=10\n"
                                 "FLOW_IN 1 track=1000160 at=2000 rank=-1 flow\n");
    hop.input = UT_STATS_SIGNAL;
    ut_stats_gate_arrive(stats, 16, &hop, 2001);
    cr_assert_str_eq(recorded(), "GATE 0 track=1000160 at=2001 rank=-1 length=9\n"
                                 "FLOW_IN 0 track=1000160 at=2001 rank=-1 flow\n");
    stats->consumed[0] = 2000;
    now = 2030;
    ut_stats_gate_sent(stats, 16, UTOFU_REDUCE_OP_BARRIER, 2020);
    cr_assert_str_eq(recorded(), "ARROW 0 track=1000160 at=2020 rank=-1 cause=2000\n"
                                 "GATE 3 track=1000160 at=2020 edata=1 rank=-1 length=10\n");
    cr_assert_eq(stats->consumed[0], 0);
    cr_assert_str_eq(counted(), GATE("16", " signals_in=1 packets_in=1"));
    hop.input = UT_STATS_PACKET;
    ut_stats_gate_send(stats, 16, &hop);
    cr_assert_str_eq(counted(), GATE("16", " packets_out=1 signals_in=1 packets_in=1"));
    ut_stats_gate_send(stats, 17, &hop);
    cr_assert_str_eq(counted(), GATE("16", " packets_out=1 signals_in=1 packets_in=1"),
                     "one that has received nothing is not printed");
}

/* Both gates compute the same id of a message, and another one for each message. */
Test(events, arrows_between_gates)
{
    const struct ut_stats_gate_message hops[] = {
        {UT_STATS_SIGNAL, 1, 2, 3, 4}, {UT_STATS_PACKET, 1, 2, 3, 4},
        {UT_STATS_SIGNAL, 2, 1, 3, 4}, {UT_STATS_SIGNAL, 1, 2, 4, 3},
        {UT_STATS_SIGNAL, 1, 2, 3, 5}, {UT_STATS_SIGNAL, 1, 3, 2, 4}};
    enum { NUM = sizeof(hops) / sizeof(hops[0]) };
    uint64_t flows[NUM];

    begin("1", true);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    struct ut_trace_buffer *b = &vcqs[0].stats->timeline;
    for (int i = 0; i < NUM; i++) {
        ut_stats_gate_send(vcqs[0].stats, 0, &hops[i]);
        flows[i] = b->events[b->num_events - 1].flow;
        ut_stats_gate_arrive(vcqs[0].stats, 1, &hops[i], 5000);
        cr_assert_eq(b->events[b->num_events - 1].flow, flows[i]);
        cr_assert(flows[i] & 1);
        for (int j = 0; j < i; j++)
            cr_assert_neq(flows[i], flows[j], "%d %d", i, j);
    }
}

Test(events, barrier_that_does_not_end)
{
    begin("1", true);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    now = 2010;
    ut_stats_gate_sent(vcqs[0].stats, 47 - 32, UTOFU_REDUCE_OP_SUM, 2003);
    ut_stats_gate_sent(vcqs[0].stats, 47, UTOFU_REDUCE_OP_SUM, 2003);
    recorded();
    now = 3000;
    ut_stats_end_gates(vcqs[0].stats);
    cr_assert_str_eq(recorded(),
                     "GATE 5 track=1000159 at=2003 edata=7 rank=-1 length=997 unfinished=1\n");
}

Test(events, gates_without_a_timeline)
{
    const struct ut_stats_gate_message hop = {.input = UT_STATS_SIGNAL, .src = 1, .dst = 2};

    begin("1", false);
    make_vcq(0, 0, UT_TNI_INTERNAL);
    ut_stats_gate_arrive(vcqs[0].stats, 1, &hop, 1);
    ut_stats_gate_sent(vcqs[0].stats, 1, UTOFU_REDUCE_OP_SUM, 1);
    ut_stats_end_gates(vcqs[0].stats);
    cr_assert_str_eq(counted(), GATE("1", " started=1 signals_in=1"));
}

/*
 * The process
 */

static FILE *errors;

static const char *printed(void)
{
    static char text[1 << 14];
    ssize_t n = pread(fileno(errors), text, sizeof(text) - 1, 0);

    cr_assert(n >= 0);
    text[n] = '\0';
    return text;
}

static void capture(void)
{
    errors = tmpfile();
    cr_assert(errors && dup2(fileno(errors), STDERR_FILENO) >= 0);
}

Test(events, all_is_printed_at_the_end)
{
    capture();
    begin("1", false);
    make_vcq(0, 0, 3);
    cr_assert_eq(ut_region_start("loop"), 0);
    now = 1000 + 1234567000000;
    cr_assert_eq(ut_region_stop("loop"), 0);
    end_process();
    cr_assert_str_eq(
        printed(),
        "utofu: stats: [rank 3] job size=8 seconds=1234.567 looked_up=0 questions=0 peer_bytes=0 "
        "peer_bytes_per_rank=0.0\n" VCQ(
            "") "utofu: stats: [rank 3] region calls=1 seconds=1234.567000 name=\"loop\"\n");
}

Test(events, nothing_is_printed_at_the_end_of_a_child_or_of_a_timeline)
{
    capture();
    begin("1", false);
    make_vcq(0, 0, 3);
    ut_process_is_fork = true;
    end_process();
    cr_assert_str_eq(printed(), "");
}

Test(events, signal_prints_what_was_counted_so_far)
{
    capture();
    thread_runs = true;
    begin("1", false);
    make_vcq(0, 0, 3);
    raise(SIGUSR1);
    while (!strstr(printed(), "vcq id="))
        sched_yield();
    end_process();
    const char *first = strstr(printed(), "vcq id=");
    cr_assert_not_null(strstr(first + 1, "vcq id="), "at the end once more");
}

static int own_signal;

static void on_signal(int number)
{
    own_signal = number;
}

Test(events, signal_of_the_program_stays)
{
    capture();
    signal(SIGUSR1, on_signal);
    begin("1", false);
    raise(SIGUSR1);
    cr_assert_eq(own_signal, SIGUSR1);
    end_process();
}

static void on_info(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    own_signal = number;
}

Test(events, signal_of_the_program_with_information_stays)
{
    struct sigaction theirs = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};

    capture();
    sigaction(SIGUSR1, &theirs, NULL);
    begin("1", false);
    raise(SIGUSR1);
    cr_assert_eq(own_signal, SIGUSR1);
    end_process();
}

Test(events, timeline_takes_no_signal)
{
    struct sigaction now_set;

    begin("0", true);
    cr_assert(sigaction(SIGUSR1, NULL, &now_set) == 0 && now_set.sa_handler == SIG_DFL);
    end_process();
}

Test(events, thread_that_cannot_start_is_an_error)
{
    capture();
    thread_error = -EAGAIN;
    setenv("UTOFU_STATS", "1", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_stats_open(&job, 0), UTOFU_ERR_FATAL);
    cr_assert_not_null(strstr(printed(), "cannot start the thread of UTOFU_STATS and UTOFU_TRACE: "
                                         "Resource temporarily unavailable"));
}

/* The thread takes the events of a VCQ each tenth of a second. */
Test(events, thread_writes_the_events)
{
    thread_runs = true;
    begin("0", true);
    make_vcq(0, 0, 3);
    owner = 7;
    ut_lock(&vcqs[0].lock);
    put(2000);
    ut_unlock(&vcqs[0].lock);
    for (;;) {
        ut_lock(&vcqs[0].lock);
        uint32_t left = vcqs[0].stats->timeline.num_events;
        ut_unlock(&vcqs[0].lock);
        if (left == 0)
            break;
        sched_yield();
    }
    ut_stats_detach(&vcqs[0]);
    end_process();
    char text[4000];
    snprintf(pattern, sizeof(pattern), "%s.3", file);
    FILE *in = fopen(pattern, "r");
    cr_assert_not_null(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    fclose(in);
    cr_assert_not_null(strstr(text, "VCQ 0000000000000100, TNI 3 CQ 5 component 2"), "%s", text);
    cr_assert_not_null(strstr(text, "\"ts\":2.010,\"name\":\"put 100 B to rank 7\""), "%s", text);
    cr_assert_str_eq(text + strlen(text) - 3, "\n]\n");
}
