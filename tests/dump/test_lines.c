/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a dump, each as a whole: VCQs, slots and links that this test makes up, in every
 * state. The linker puts functions of the test in the place of the library's (--wrap).
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "link/link.h"
#include "stats/dump.h"
#include "util/lock.h"
#include "vcq/wait.h"

TestSuite(lines);

enum { NOW_MS = 5000000, TOQ = 4, MRQ = 16 };

/* The process */
static bool before_set_up;

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    static const struct ut_process process;

    return before_set_up ? NULL : &process;
}

/* Ranks: CQ 9 is unknown, of the others the even ones are certain. */
int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain);
int64_t __wrap_ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain)
{
    *certain = vcq->cq % 2 == 0;
    return vcq->cq == 9 ? -1 : vcq->cq;
}

int64_t __wrap_ut_peers_likely_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                          bool *certain);
int64_t __wrap_ut_peers_likely_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                          bool *certain)
{
    (void)coords;
    *certain = true;
    return 100 + local_rank;
}

/* The lock of a VCQ, which another thread may hold for ever. */
static bool is_held;
static uint64_t waited_ms;
static int locks;

bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms);
bool __wrap_ut_lock_until(struct ut_lock *lock, uint64_t until_ms)
{
    waited_ms = until_ms - fake_clock_ms();
    if (is_held)
        return false;
    ut_lock(lock);
    locks++;
    return true;
}

/* The engine: errors that the program has not polled. */
static enum ut_queue with_error;

static bool describe(struct ut_vcq *vcq, enum ut_queue queue, char *buf, size_t size)
{
    (void)vcq;
    if (queue != with_error)
        return false;
    snprintf(buf, size, "the error of queue %d", (int)queue);
    return true;
}

static const struct ut_link_ops ops = {.describe_unread_error = describe};
static struct ut_slot toq[TOQ];
static struct ut_vcq vcq;

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *of, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *of, void *arg), void *arg)
{
    visit(&vcq, arg);
}

static utofu_vcq_id_t id_of(uint16_t tni, uint16_t cq)
{
    const struct ut_vcq_ident ident = {.tni = tni, .cq = cq, .cmp = 2};

    return ut_vcq_id_pack(&ident);
}

static void make_vcq(void)
{
    vcq = (struct ut_vcq){.handle = 0x1234,
                          .toq = toq,
                          .toq_mask = TOQ - 1,
                          .mrq_mask = MRQ - 1,
                          .num_eps = 1,
                          .link_ops = &ops,
                          .tni = 3,
                          .id = 0xabc,
                          .ident = {.tni = 3, .cq = 5, .cmp = 2}};
    memset(toq, 0, sizeof(toq));
}

/* What is printed to standard error. */
static char text[1 << 14];

static FILE *capture(void)
{
    FILE *file = tmpfile();

    cr_assert(file && dup2(fileno(file), STDERR_FILENO) >= 0);
    return file;
}

static const char *printed(FILE *file)
{
    ssize_t n = pread(fileno(file), text, sizeof(text) - 1, 0);

    cr_assert(n >= 0);
    text[n] = '\0';
    fclose(file);
    return text;
}

static const char *dump(void)
{
    FILE *file = capture();

    __atomic_store_n(&fake_clock_ns, NOW_MS * UINT64_C(1000000), __ATOMIC_RELAXED);
    ut_dump();
    return printed(file);
}

#define LINE(rest) "utofu: dump: [rank 0] " rest "\n"
/* A dump of one VCQ */
#define DUMP(head, more)                                                                           \
    LINE("begin")                                                                                  \
    LINE("vcq id=0000000000000abc handle=0x1234 tni=3 cq=5 cmp=2 mode=" head) more LINE("end")

Test(lines, vcq_that_does_nothing)
{
    make_vcq();
    vcq.toq_head = 7;
    vcq.tcq_head = vcq.toq_exec = vcq.toq_tail = 7;
    cr_assert_str_eq(dump(), DUMP("free toq=0/4 not_started=0 tcq=0 mrq=0/16", ""));
    cr_assert_eq(locks, 1);
    cr_assert(ut_trylock_by_owner(&vcq.lock) || ut_trylock(&vcq.lock), "the lock is free again");
}

Test(lines, vcq_without_a_handle_or_an_endpoint_is_left_out)
{
    make_vcq();
    vcq.handle = 0;
    cr_assert_str_eq(dump(), LINE("begin") LINE("end"));
    cr_assert_eq(locks, 0);
    vcq.handle = 1;
    vcq.num_eps = 0;
    cr_assert_str_eq(dump(), LINE("begin") LINE("end"));
    cr_assert_eq(locks, 1);
}

Test(lines, nothing_before_set_up_and_in_a_child)
{
    make_vcq();
    before_set_up = true;
    cr_assert_str_eq(dump(), "");
    before_set_up = false;
    ut_process_is_fork = true;
    cr_assert_str_eq(dump(), "");
}

Test(lines, positions_of_the_queues)
{
    make_vcq();
    vcq.toq_head = 3;
    vcq.tcq_head = 4;
    vcq.toq_exec = 6;
    vcq.toq_tail = 7;
    vcq.mrq_head = 10;
    vcq.mrq_tail = 13;
    toq[0].tcq_ready = true; /* of entries 4 and 5 the first */
    toq[2].tcq_ready = true; /* not started */
    for (int i = 0; i < TOQ; i++)
        toq[i].state = UT_SLOT_RETIRED;
    cr_assert_str_eq(dump(), DUMP("free toq=4/4 not_started=1 tcq=1 mrq=3/16", ""));
}

Test(lines, session_mode_tells_what_is_scheduled)
{
    make_vcq();
    vcq.flags = UTOFU_VCQ_FLAG_SESSION_MODE;
    vcq.scheduled = 12;
    vcq.started = 11;
    cr_assert_str_eq(dump(), DUMP("session toq=0/4 not_started=0 tcq=0 mrq=0/16",
                                  LINE("  session scheduled=12 started=11")));
}

static void print_gates(struct ut_vcq *of)
{
    cr_assert_eq(of, &vcq);
    cr_assert(!ut_trylock(&vcq.lock), "the lock is held");
    ut_dump_line("  the gates");
}

Test(lines, gates_are_those_of_vcqs_of_the_library)
{
    make_vcq();
    ut_dump_set_gates(print_gates);
    cr_assert_str_eq(dump(), DUMP("free toq=0/4 not_started=0 tcq=0 mrq=0/16", ""));
    vcq.ident.tni = UT_TNI_INTERNAL;
    cr_assert_str_eq(dump(),
                     DUMP("barrier toq=0/4 not_started=0 tcq=0 mrq=0/16", LINE("  the gates")));
    ut_dump_set_gates(NULL);
    cr_assert_str_eq(dump(), DUMP("barrier toq=0/4 not_started=0 tcq=0 mrq=0/16", ""));
}

Test(lines, vcq_whose_lock_is_held_is_waited_for_a_fifth_of_a_second)
{
    make_vcq();
    vcq.toq_tail = 1;
    toq[0].state = UT_SLOT_WAITING;
    is_held = true;
    with_error = UT_QUEUE_TCQ;
    vcq.ident.tni = UT_TNI_INTERNAL;
    ut_dump_set_gates(print_gates);
    ut_lock(&vcq.lock);
    cr_assert_str_eq(
        dump(),
        DUMP("barrier toq=1/4 not_started=1 mrq=0/16 locked: a thread is inside a call on it; its "
             "links are not shown",
             ""));
    cr_assert_eq(waited_ms, 200);
    cr_assert(!ut_trylock(&vcq.lock), "its owner has it");
}

Test(lines, errors_that_the_program_has_not_polled)
{
    make_vcq();
    with_error = UT_QUEUE_TCQ;
    cr_assert_str_eq(dump(), DUMP("free toq=0/4 not_started=0 tcq=0 mrq=0/16",
                                  LINE("  error in the TCQ, which the program has not polled: the "
                                       "error of queue 1")));
    with_error = UT_QUEUE_MRQ;
    cr_assert_str_eq(dump(), DUMP("free toq=0/4 not_started=0 tcq=0 mrq=0/16",
                                  LINE("  error in the MRQ, which the program has not polled: the "
                                       "error of queue 2")));
}

/*
 * What the program does
 */

#define QUIET "free toq=0/4 not_started=0 tcq=0 mrq=0/16"

static void poll_since(uint64_t ms, uint64_t last_ms, uint32_t polls, uint32_t queues)
{
    vcq.empty.wait.since_ms = NOW_MS - ms;
    vcq.empty.last_ms = NOW_MS - last_ms;
    vcq.idle_polls = polls;
    vcq.empty.queues = queues;
}

Test(lines, polls)
{
    static const char *const queues[] = {"no queue", "the TCQ", "the MRQ", "the TCQ and the MRQ"};
    char want[500];

    make_vcq();
    vcq.spin_limit = 10;
    poll_since(2500, 1, 10, UT_QUEUE_TCQ);
    cr_assert_str_eq(dump(), DUMP(QUIET, ""), "no more than it spins");
    for (uint32_t i = 0; i < 4; i++) {
        make_vcq();
        vcq.spin_limit = 10;
        poll_since(3500, 1, 11, i);
        snprintf(want, sizeof(want),
                 DUMP(QUIET, LINE("  polls %s of VCQ 0000000000000abc for 3 s, empty (11 polls)")),
                 queues[i]);
        cr_assert_str_eq(dump(), want);
    }
}

/* Polls at most a second apart, and 32 times what the others were, are one row. */
Test(lines, program_that_does_not_poll_any_more)
{
#define ROW(s, polls)                                                                              \
    DUMP(QUIET,                                                                                    \
         LINE("  polls the MRQ of VCQ 0000000000000abc for " s " s, empty (" polls " polls)"))
#define LEFT(s)                                                                                    \
    DUMP(QUIET, LINE("  does not poll VCQ 0000000000000abc any more: the last poll, " s            \
                     " s ago, found the MRQ empty"))
    static const struct {
        uint64_t ms, last_ms;
        uint32_t polls;
        const char *want;
    } all[] = {
        {4000, 999, 5000, ROW("4", "5000")},
        {3999, 1000, 5000, LEFT("1")},
        {4000, 1999, 5000, LEFT("1")},
        {4000, 2000, 5000, LEFT("2")},
        {40000, 1000 + 32 * 40 - 1, 1000, ROW("40", "1000")}, /* 40 ms apart */
        {40000, 1000 + 32 * 40, 1000, LEFT("2")},
        {400000, 399000, 1, ROW("400", "1")},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        make_vcq();
        poll_since(all[i].ms, all[i].last_ms, all[i].polls, UT_QUEUE_MRQ);
        cr_assert_str_eq(dump(), all[i].want, "%zu: %s", i, text);
    }
}

Test(lines, threads_that_sleep)
{
    struct ut_waiter one = {.since_ms = NOW_MS - 4999}, other = {.since_ms = NOW_MS - 12000};
    struct ut_wait second = {.waiter = &other}, first = {.waiter = &one, .next = &second};

    make_vcq();
    vcq.waits = &first;
#define SLEEPS                                                                                     \
    "  a thread sleeps in utofu_wait_vcqs() until VCQ 0000000000000abc has an entry, for "
    cr_assert_str_eq(dump(), DUMP(QUIET, LINE(SLEEPS "4 s so far") LINE(SLEEPS "12 s so far")));
}

/*
 * Slots
 */

static void make_slot(uint32_t at, unsigned int kind, enum ut_slot_state state,
                      enum ut_slot_stage stage)
{
    struct ut_slot *slot = &toq[at % TOQ];

    slot->desc = (struct ut_desc){.kind = (uint8_t)kind, .word = 0xf1000000 | 24, .rmt_vcq_id = 1};
    slot->state = (uint8_t)state;
    slot->stage = (unsigned int)stage & 0x3f;
}

/* The line of the oldest slot, behind its number. */
static const char *oldest(void)
{
    char *at = strstr(dump(), "  oldest slot=");

    if (!at)
        return NULL;
    *strchr(at, '\n') = '\0';
    return at + strlen("  oldest slot=");
}

Test(lines, oldest_slot_in_each_state)
{
    static const struct {
        unsigned int kind;
        enum ut_slot_state state;
        enum ut_slot_stage stage;
        const char *want;
    } all[] = {
        {UT_DESC_NOP, UT_SLOT_SUBMITTED, UT_STAGE_NONE,
         "2 kind=nop state=not_started stage=none bytes=24 to=0000000000000001 waits for the next "
         "start: it was delayed, or one before it was"},
        {UT_DESC_PUT, UT_SLOT_WAITING, UT_STAGE_DATA,
         "2 kind=put state=waits stage=data bytes=24 to=0000000000000001 waits for its link"},
        {UT_DESC_PIGGYBACK, UT_SLOT_POSTED, UT_STAGE_NOTICE,
         "2 kind=put_piggyback state=posted stage=notice bytes=24 to=0000000000000001 waits for "
         "its "
         "completion"},
        {UT_DESC_GET, UT_SLOT_DONE, UT_STAGE_EXECUTED,
         "2 kind=get state=done stage=executed bytes=24 to=0000000000000001 waits for an earlier "
         "one "
         "of its link"},
        {UT_DESC_ARMW, UT_SLOT_POSTED, UT_STAGE_RETRY,
         "2 kind=armw state=posted stage=retry bytes=24 to=0000000000000001 waits for the target's "
         "answer"},
        {UT_DESC_ARMW + 1, UT_SLOT_RETIRED + 1, UT_STAGE_RETRY + 1,
         "2 kind=unknown state=unknown stage=? bytes=24 to=0000000000000001 waits for the program "
         "to "
         "poll its TCQ entry"},
        {UT_DESC_NONE, UT_SLOT_POSTED, UT_STAGE_NONE,
         "2 kind=unknown state=posted stage=none bytes=24 to=0000000000000001 waits for its "
         "completion"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        make_vcq();
        vcq.toq_head = 6;
        vcq.tcq_head = vcq.toq_exec = 7;
        vcq.toq_tail = 7;
        make_slot(6, all[i].kind, all[i].state, all[i].stage);
        const char *got = oldest();
        cr_assert(got && strcmp(got, all[i].want) == 0, "%zu: %s", i, got);
    }
}

Test(lines, oldest_slot_of_session_mode_waits_for_a_put)
{
    make_vcq();
    vcq.flags = UTOFU_VCQ_FLAG_SESSION_MODE;
    vcq.toq_tail = 1;
    make_slot(0, UT_DESC_PUT, UT_SLOT_SUBMITTED, UT_STAGE_NONE);
    cr_assert_str_eq(oldest(), "0 kind=put state=not_started stage=none bytes=24 "
                               "to=0000000000000001 waits for a put with an SPS that moves the "
                               "schedule pointer");
}

/* Those that are retired or free are none. */
Test(lines, oldest_slot_is_the_first_that_is_not_ended)
{
    make_vcq();
    vcq.toq_head = 1;
    vcq.tcq_head = vcq.toq_exec = vcq.toq_tail = 4;
    make_slot(1, UT_DESC_PUT, UT_SLOT_RETIRED, UT_STAGE_NONE);
    make_slot(2, UT_DESC_PUT, UT_SLOT_FREE, UT_STAGE_NONE);
    make_slot(3, UT_DESC_GET, UT_SLOT_WAITING, UT_STAGE_NONE);
    make_slot(4, UT_DESC_ARMW, UT_SLOT_WAITING, UT_STAGE_NONE); /* behind the tail */
    cr_assert_str_eq(oldest(), "3 kind=get state=waits stage=none bytes=24 to=0000000000000001 "
                               "waits for its link");
    make_slot(3, UT_DESC_GET, UT_SLOT_RETIRED, UT_STAGE_NONE);
    cr_assert_null(oldest());
}

Test(lines, ranks_of_targets)
{
    static const struct {
        unsigned int kind;
        uint16_t tni, cq;
        const char *want;
    } all[] = {
        {UT_DESC_PUT, 0, 4, " rank=4 waits for its link"},
        {UT_DESC_PUT, 5, 3, " likely_rank=3 waits for its link"},
        {UT_DESC_PUT, 0, 0, " rank=0 waits for its link"},
        {UT_DESC_PUT, 0, 9, " waits for its link"},
        {UT_DESC_PUT, UT_TNI_INTERNAL, 2, " rank=102 waits for its link"},
        {UT_DESC_NOP, 0, 4, " waits for its link"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char want[200];
        make_vcq();
        vcq.toq_tail = 1;
        make_slot(0, all[i].kind, UT_SLOT_WAITING, UT_STAGE_NONE);
        toq[0].desc.rmt_vcq_id = id_of(all[i].tni, all[i].cq);
        snprintf(want, sizeof(want), "to=%016llx%s", (unsigned long long)toq[0].desc.rmt_vcq_id,
                 all[i].want);
        const char *got = oldest();
        cr_assert(got && strcmp(strstr(got, "to="), want) == 0, "%s", got);
    }
}

/*
 * Links
 */

Test(lines, links)
{
    struct ut_link second = {.vcq = &vcq,
                             .peer = 2,
                             .state = UT_LINK_UP,
                             .reading = UT_STAG_NONE,
                             .to_post = UT_NO_SLOT,
                             .first = 1,
                             .passive = true},
                   first = {.vcq = &vcq,
                            .peer = 1,
                            .state = UT_LINK_RESOLVING,
                            .deadline_ms = NOW_MS + 7999,
                            .to_post = UT_NO_SLOT,
                            .first = UT_NO_SLOT,
                            .was_up = true,
                            .all_next = &second};
    struct ut_link_msg message = {.number = 1};

    make_vcq();
    vcq.all_links = &first;
    vcq.toq_head = vcq.tcq_head = 1;
    vcq.toq_exec = vcq.toq_tail = 4;
    make_slot(1, UT_DESC_PUT, UT_SLOT_POSTED, UT_STAGE_DATA);
    make_slot(2, UT_DESC_PUT, UT_SLOT_DONE, UT_STAGE_DATA);
    make_slot(3, UT_DESC_PUT, UT_SLOT_POSTED, UT_STAGE_DATA);
    toq[1].next = 2;
    toq[2].next = 3;
    toq[3].next = UT_NO_SLOT;
    second.unacked_first = &message;
#define HEAD "free toq=3/4 not_started=0 tcq=0 mrq=0/16"
#define OLDEST                                                                                     \
    LINE(                                                                                          \
        "  oldest slot=1 kind=put state=posted stage=data bytes=24 to=0000000000000001 waits for " \
        "its completion")
#define FIRST                                                                                      \
    "  link to=0000000000000001 state=resolving waiting=0 posted=0 done=0 messages=0 waits for "   \
    "the "                                                                                         \
    "next attempt to connect again"
#define SECOND                                                                                     \
    LINE("  link to=0000000000000002 state=up passive waiting=0 posted=2 done=1 messages=1 waits " \
         "for completions")
    cr_assert_str_eq(dump(), DUMP(HEAD, OLDEST LINE(FIRST " (gives up in 7 s)") SECOND));
    first.deadline_ms = NOW_MS;
    cr_assert_str_eq(dump(), DUMP(HEAD, OLDEST LINE(FIRST) SECOND), "the time is over");
    first.deadline_ms = NOW_MS + 60000;
    first.state = UT_LINK_GONE;
    cr_assert_not_null(strstr(dump(), "for nothing: the peer is gone\n"), "%s", text);
}

/*
 * Lines
 */

Test(lines, line_is_cut_at_512_bytes)
{
    static char long_text[600];
    static const char head[] = "utofu: dump: [rank 0] ";
    enum { ROOM = 512 - 2 - (sizeof(head) - 1) };

    for (size_t n = ROOM - 2; n < ROOM + 4; n++) {
        FILE *file = capture();
        memset(long_text, 'x', n);
        long_text[n] = '\0';
        ut_dump_line("%s", long_text);
        printed(file);
        size_t want = n < ROOM ? n : ROOM;
        cr_assert_eq(strlen(text), sizeof(head) - 1 + want + 1, "%zu", n);
        cr_assert_eq(strspn(text + sizeof(head) - 1, "x"), want);
        cr_assert_eq(text[strlen(text) - 1], '\n');
    }
}

static void print_shuffle(ut_dump_print *print)
{
    print("  shuffled %d", 7);
}

static int own_signal;

static void on_abort(int number)
{
    own_signal = number;
}

Test(lines, shuffle_mode_is_in_dumps_and_at_an_abort)
{
    make_vcq();
    vcq.handle = 0;
    signal(SIGABRT, on_abort);
    ut_dump_on_abort(print_shuffle);
    cr_assert_str_eq(dump(), LINE("begin") LINE("  shuffled 7") LINE("end"));
    FILE *file = capture();
    raise(SIGABRT);
    cr_assert_str_eq(printed(file), LINE("begin, at SIGABRT") LINE("  shuffled 7") LINE("end"));
    cr_assert_eq(own_signal, SIGABRT, "the program's own handler runs");
    file = capture();
    own_signal = 0;
    raise(SIGABRT);
    cr_assert_str_eq(printed(file), "");
    cr_assert_eq(own_signal, SIGABRT);
}

Test(lines, nothing_at_an_abort_of_a_child)
{
    signal(SIGABRT, on_abort);
    for (int i = 0; i < 2; i++) {
        ut_dump_on_abort(print_shuffle);
        before_set_up = i == 0;
        ut_process_is_fork = i == 1;
        FILE *file = capture();
        raise(SIGABRT);
        cr_assert_str_eq(printed(file), "");
        cr_assert_eq(own_signal, SIGABRT);
        own_signal = 0;
    }
}
