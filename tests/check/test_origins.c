/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs for UTOFU_CHECK in which two or three processes use the memory of another one, each in
 * two versions: the wrong one must be reported with the id in its row and with no other one, its
 * correct twin with none. Ranks ONE, TWO and THREE are origins, rank TARGET has the memory.
 *
 * A wrong one may run again, at most MOST_RUNS times: on a loaded machine the second process may
 * start after the first one's communication has begun. UT_CHECK_RUNS: runs of each wrong program,
 * whatever they report, with a table of how often each was reported. UT_CHECK_ROUNDS,
 * UT_CHECK_ONLY, UT_CHECK_ENV: as in test_programs.c.
 */
#include "ends.h"
#include "reported.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(origins);

enum {
    SIZE = 512 * 1024,
    SRC = 256 * 1024, /* the sources of puts, and destinations of gets, begin here */
    LONG = 65536,
    ALIAS = 8192, /* offset and size of the memory of a second STADD, */
    RESERVED = 5, /* and a reserved STag for the whole memory */
    FLAG = 3 * LONG,
    LOCK = FLAG + 512,
    ROUNDS = 4,
    MOST_RUNS = 200,
    ONE = 0,
    TWO,
    TARGET,
    THREE,
    PROCS,
};
#define INJECT UTOFU_ONESIDED_FLAG_CACHE_INJECTION
#define PAD    UTOFU_ONESIDED_FLAG_PADDING

enum what { NONE, PUT, PIGGY, PADDED, GET, ARMW4, ARMW8 };

/* One communication. */
struct side {
    enum what what;
    size_t to, length;
    enum { BY_STADD, BY_ALIAS, BY_RESERVED, BY_SECOND_VCQ } by;
};

/* How the right version orders the two; ORDER_NONE: not, but with other communications. */
enum order {
    ORDER_NONE,
    ORDER_NOTICE,  /* a put with a remote notice to the second process */
    ORDER_BARRIER, /* all processes enter a barrier */
    ORDER_LOCK,    /* each takes a lock, by ARMW, and releases it */
    ORDER_FLAG,    /* a word of the second process, which it polls */
    ORDER_DATA,    /* the target polls for the data, and notifies the second process */
    ORDER_PIPE,    /* a message over a pipe */
};

struct program {
    const char *name, *id;
    struct side one, two, three;
    struct side right_one, right_two, right_three; /* with ORDER_NONE */
    enum order order;
    bool same;    /* the right version: all write the same bytes, else only the last one differs */
    bool threads; /* several threads of each process, each with a VCQ */
    bool relayed; /* process TWO puts from a session-mode VCQ, after a put has arrived there */
    bool late;    /* process TWO puts after empty polls of ONE */
    enum { STAYS, EXITS, IS_STOPPED } first; /* the action of process ONE, or THREE: see below */
};

static struct ut_end end, second; /* `second`: of the target, another VCQ with the same memory */
static struct ut_end relay;       /* of process TWO, if `relayed` */
static struct ut_peer peers[PROCS];
static struct {
    utofu_vcq_id_t second_id;
    utofu_stadd_t alias, reserved, second;
} all[PROCS];
static int pipes[2];

/*
 * Communications
 */

/* The data of an origin. */
static uint8_t content(const struct program *p, bool right, int rank, size_t at, int round)
{
    bool same = p->same && (right || at % 512 != 511);

    return (uint8_t)(1 + round + (same ? 0 : rank * 16));
}

static void fill_source(const struct program *p, bool right, int round)
{
    for (size_t i = 0; i < LONG; i++)
        end.mem[SRC + i] = content(p, right, ut_rank, i, round);
}

static utofu_stadd_t stadd_of(const struct side *s, utofu_vcq_id_t *id)
{
    *id = s->by == BY_SECOND_VCQ ? all[TARGET].second_id : peers[TARGET].id;
    switch (s->by) {
    case BY_ALIAS:
        return all[TARGET].alias + s->to - ALIAS;
    case BY_RESERVED:
        return all[TARGET].reserved + s->to;
    case BY_SECOND_VCQ:
        return all[TARGET].second + s->to;
    default:
        return peers[TARGET].stadd + s->to;
    }
}

static void start(struct ut_end *e, const struct side *s)
{
    utofu_vcq_id_t id;
    utofu_stadd_t stadd = stadd_of(s, &id);
    struct ut_comm comm = {.kind = s->what == GET   ? UT_GET
                                   : s->what == PUT ? UT_PUT
                                                    : UT_PIGGYBACK,
                           .vcq = e->vcq,
                           .rmt = id,
                           .lcl_stadd = e->stadd + SRC,
                           .rmt_stadd = stadd,
                           .data = e->mem + SRC,
                           .length = s->length,
                           .flags = UT_LCL | (s->what == PADDED ? PAD | INJECT : 0)};
    if (s->what == ARMW4)
        CHECK_OK(utofu_armw4(e->vcq, id, UTOFU_ARMW_OP_ADD, 1, stadd, 0, UT_LCL, NULL));
    else if (s->what == ARMW8)
        CHECK_OK(utofu_armw8(e->vcq, id, UTOFU_ARMW_OP_ADD, 1, stadd, 0, UT_LCL, NULL));
    else if (s->what != NONE)
        ut_start_busy(&comm);
}

static uint64_t mrq(struct ut_end *e)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(ut_await_mrq(e->vcq, &notice));
    return notice.rmt_value;
}

static void do_one(struct ut_end *e, const struct side *s)
{
    start(e, s);
    if (s->what != NONE)
        mrq(e);
}

/* A put that process TWO submits to its relay next starts at once. */
static void trigger_relay(void)
{
    memcpy(relay.mem + SRC, end.mem + SRC, LONG);
    CHECK_OK(utofu_put(end.vcq, relay.id, end.stadd, relay.stadd, 8, 0,
                       UT_LCL | UT_RMT | UTOFU_ONESIDED_FLAG_SPS(1ul), NULL));
    mrq(&relay);
    mrq(&end);
}

static struct ut_end *end_of(const struct program *p)
{
    return p->relayed && ut_rank == TWO ? &relay : &end;
}

/* Process TWO puts after empty polls of ONE. */
static void do_late(const struct side *s, int round)
{
    enum { POLLS = 50 };
    struct utofu_mrq_notice notice;
    int rc = UTOFU_ERR_NOT_FOUND;

    if (ut_rank == TWO) {
        while (atomic_load(ut_cell(0)) <= (uint64_t)round)
            ut_relax();
        do_one(&end, s);
    }
    if (ut_rank != ONE)
        return;
    start(&end, s);
    for (int i = 0; i < POLLS && rc == UTOFU_ERR_NOT_FOUND; i++)
        rc = utofu_poll_mrq(end.vcq, 0, &notice);
    atomic_fetch_add(ut_cell(0), 1);
    CHECK_OK(rc == UTOFU_ERR_NOT_FOUND ? ut_await_mrq(end.vcq, &notice) : rc);
}

/* Puts a word to another process. */
static void tell(int rank, unsigned long int flags, uint64_t value)
{
    struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                           .vcq = end.vcq,
                           .rmt = peers[rank].id,
                           .data = &value,
                           .rmt_stadd = peers[rank].stadd + FLAG,
                           .length = 8,
                           .flags = UT_LCL | flags};
    ut_start_busy(&comm);
    mrq(&end);
}

static void take_lock(void)
{
    do
        CHECK_OK(utofu_armw8(end.vcq, peers[TARGET].id, UTOFU_ARMW_OP_OR, 1,
                             peers[TARGET].stadd + LOCK, 0, UT_LCL, NULL));
    while (mrq(&end) != 0);
}

static void give_lock(void)
{
    CHECK_OK(utofu_armw8(end.vcq, peers[TARGET].id, UTOFU_ARMW_OP_AND, 0,
                         peers[TARGET].stadd + LOCK, 0, UT_LCL, NULL));
    mrq(&end);
}

/*
 * The programs
 */

static void run_ordered(const struct program *p, int round)
{
    uint64_t number = (uint64_t)round + 1;
    char byte = 0;

    if (p->order == ORDER_LOCK && ut_rank <= TWO) {
        take_lock();
        do_one(&end, ut_rank == ONE ? &p->one : &p->two);
        give_lock();
        return;
    }
    if (ut_rank == ONE) {
        do_one(&end, &p->one);
        if (p->order == ORDER_NOTICE)
            tell(TWO, UT_RMT, number);
        else if (p->order == ORDER_FLAG)
            tell(TWO, 0, number);
        else if (p->order == ORDER_PIPE)
            CHECK_EQ(write(pipes[1], &byte, 1), 1);
    }
    if (p->order == ORDER_BARRIER)
        ut_barrier();
    if (ut_rank == TARGET && p->order == ORDER_DATA) {
        ut_await_byte(end.mem + p->one.to, content(p, true, ONE, 0, round));
        tell(TWO, 0, number);
    }
    if (ut_rank != TWO)
        return;
    if (p->order == ORDER_NOTICE)
        mrq(&end);
    else if (p->order == ORDER_FLAG || p->order == ORDER_DATA)
        ut_await_word((uint64_t *)(end.mem + FLAG), number);
    else if (p->order == ORDER_PIPE)
        CHECK_EQ(read(pipes[0], &byte, 1), 1);
    do_one(end_of(p), &p->two);
}

struct worker {
    struct ut_end own;
    struct side side;
    int round;
};

/* In each process, thread 0 uses a place of its own, thread 1 the one in the table. */
static void *work(void *arg)
{
    struct worker *w = arg;

    memset(w->own.mem + SRC, 1 + w->round + ut_rank * 16, w->side.length);
    do_one(&w->own, &w->side);
    return NULL;
}

static void run_threads(const struct side *s, int round, struct worker workers[2])
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        workers[i].side = *s;
        workers[i].round = round;
        if (i == 0)
            workers[i].side.to = (size_t)(16 + ut_rank) * 4096;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void run_round(const struct program *p, bool right, int round, struct worker workers[2])
{
    bool other = right && p->order == ORDER_NONE && !p->same;
    const struct side *sides[PROCS] = {[ONE] = other ? &p->right_one : &p->one,
                                       [TWO] = other ? &p->right_two : &p->two,
                                       [THREE] = other ? &p->right_three : &p->three};

    fill_source(p, right, round);
    if (p->relayed && ut_rank == TWO)
        trigger_relay();
    ut_barrier();
    if (right && p->order != ORDER_NONE)
        run_ordered(p, round);
    else if (sides[ut_rank] && p->threads)
        run_threads(sides[ut_rank], round, workers);
    else if (sides[ut_rank] && p->late)
        do_late(sides[ut_rank], round);
    else if (sides[ut_rank])
        do_one(end_of(p), sides[ut_rank]);
}

/* Process THREE puts to the place, waits for its notice, and ends; the others put after that. */
static void exit_early(const struct program *p)
{
    if (ut_rank == THREE) {
        do_one(&end, &p->one);
        atomic_store(ut_cell(0), 1);
        ut_mark_dead(THREE);
        exit(EXIT_SUCCESS);
    }
    while (atomic_load(ut_cell(0)) == 0)
        ut_relax();
}

/* The state of a process, from /proc/PID/stat; 'X': it has ended, and was waited for. */
static char state_of(pid_t pid)
{
    char path[64], text[256] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 'X';
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    const char *state = n ? strrchr(text, ')') : NULL;
    return state ? state[2] : 'X';
}

/* Process ONE is killed while its put is held, which is therefore never sent; in the wrong version
 * the process is stopped, and continued later. */
static void run_stopped(const struct program *p, bool right)
{
    fill_source(p, right, 0);
    ut_barrier();
    if (ut_rank == ONE) {
        if (right)
            ut_mark_dead(ONE);
        start(&end, &p->one);
        raise(right ? SIGKILL : SIGSTOP);
        mrq(&end);
        return;
    }
    if (ut_rank != TWO)
        return;
    pid_t pid = ut_pid_of(ONE);
    /* a zombie may have threads that are still alive, and hold resources */
    while (state_of(pid) != (right ? 'X' : 'T'))
        ut_relax();
    do_one(&end, &p->two);
    if (!right)
        CHECK_EQ(kill(pid, SIGCONT), 0);
}

#define SIDE(what, to, length, by)                                                                 \
    {                                                                                              \
        what, to, length, by                                                                       \
    }
static const struct program programs[] = {
    {"two_puts", "origins", SIDE(PUT, 0, 8, BY_STADD), SIDE(PUT, 0, 8, BY_STADD),
     .right_one = SIDE(PUT, 0, 8, BY_STADD), .right_two = SIDE(PUT, 8, 8, BY_STADD)},
    {"two_puts_part", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 504, 64, BY_STADD),
     .right_one = SIDE(PUT, 0, 512, BY_STADD), .right_two = SIDE(PUT, 512, 64, BY_STADD)},
    {"two_puts_notice", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 0, 512, BY_STADD),
     .order = ORDER_NOTICE},
    {"two_puts_barrier", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 0, 512, BY_STADD),
     .order = ORDER_BARRIER},
    {"two_puts_lock", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 0, 512, BY_STADD),
     .order = ORDER_LOCK},
    {"two_puts_flag", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .order = ORDER_FLAG},
    {"two_puts_data", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .order = ORDER_DATA},
    {"two_puts_pipe", "origins", SIDE(PUT, 0, 4096, BY_STADD), SIDE(PUT, 0, 4096, BY_STADD),
     .order = ORDER_PIPE},
    {"two_puts_same", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 0, 512, BY_STADD),
     .same = true},
    {"two_puts_same_64k", "origins", SIDE(PUT, 0, LONG, BY_STADD), SIDE(PUT, 0, LONG, BY_STADD),
     .same = true},
    {"put_piggyback", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PIGGY, 256, 32, BY_STADD),
     .right_one = SIDE(PUT, 0, 512, BY_STADD), .right_two = SIDE(PIGGY, 512, 32, BY_STADD)},
    {"two_piggybacks", "origins", SIDE(PIGGY, 64, 32, BY_STADD), SIDE(PIGGY, 64, 8, BY_STADD),
     .right_one = SIDE(PIGGY, 64, 32, BY_STADD), .right_two = SIDE(PIGGY, 96, 8, BY_STADD)},
    {"put_get", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(GET, 0, 64, BY_STADD),
     .order = ORDER_NOTICE},
    {"put_get_word", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(GET, 8, 16, BY_STADD),
     .right_one = SIDE(PUT, 0, 64, BY_STADD), .right_two = SIDE(GET, 8, 8, BY_STADD)},
    {"get_put", "origins", SIDE(GET, 0, 4096, BY_STADD), SIDE(PUT, 4088, 8, BY_STADD),
     .order = ORDER_PIPE},
    {"armw_put", "origins-armw", SIDE(ARMW8, 0, 8, BY_STADD), SIDE(PUT, 0, 8, BY_STADD),
     .right_one = SIDE(ARMW8, 0, 8, BY_STADD), .right_two = SIDE(ARMW8, 0, 8, BY_STADD)},
    {"armw_piggyback", "origins-armw", SIDE(ARMW4, 4, 4, BY_STADD), SIDE(PIGGY, 0, 8, BY_STADD),
     .order = ORDER_LOCK},
    {"armw_get", "origins-armw", SIDE(ARMW8, 8, 8, BY_STADD), SIDE(GET, 0, 64, BY_STADD),
     .right_one = SIDE(ARMW8, 8, 8, BY_STADD), .right_two = SIDE(GET, 8, 8, BY_STADD)},
    {"armw_sizes", "armw-size", SIDE(ARMW8, 0, 8, BY_STADD), SIDE(ARMW4, 4, 4, BY_STADD),
     .right_one = SIDE(ARMW4, 0, 4, BY_STADD), .right_two = SIDE(ARMW4, 4, 4, BY_STADD)},
    {"padding_line", "padding-line", SIDE(PADDED, 0, 8, BY_STADD), SIDE(PUT, 128, 8, BY_STADD),
     .right_one = SIDE(PADDED, 0, 8, BY_STADD), .right_two = SIDE(PUT, 256, 8, BY_STADD),
     .late = true},
    {"padding_both", "padding-line", SIDE(PADDED, 0, 8, BY_STADD), SIDE(PADDED, 248, 8, BY_STADD),
     .right_one = SIDE(PADDED, 0, 8, BY_STADD), .right_two = SIDE(PADDED, 256, 8, BY_STADD)},
    {"three_processes", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 64, 64, BY_STADD),
     .three = SIDE(PUT, 120, 16, BY_STADD), .right_one = SIDE(PUT, 0, 64, BY_STADD),
     .right_two = SIDE(PUT, 64, 64, BY_STADD), .right_three = SIDE(PUT, 128, 16, BY_STADD)},
    {"long_puts_one_byte", "origins", SIDE(PUT, 0, LONG, BY_STADD),
     SIDE(PUT, LONG - 1, LONG, BY_STADD), .right_one = SIDE(PUT, 0, LONG, BY_STADD),
     .right_two = SIDE(PUT, LONG, LONG, BY_STADD)},
    {"long_put_short_put", "origins", SIDE(PUT, 0, LONG, BY_STADD), SIDE(PUT, 40000, 8, BY_STADD),
     .right_one = SIDE(PUT, 0, LONG, BY_STADD), .right_two = SIDE(PUT, LONG, 8, BY_STADD)},
    {"reserved_stag", "origins", SIDE(PUT, 8, 64, BY_RESERVED), SIDE(PUT, 64, 64, BY_RESERVED),
     .right_one = SIDE(PUT, 0, 64, BY_RESERVED), .right_two = SIDE(PUT, 64, 64, BY_RESERVED)},
    {"two_puts_late", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .order = ORDER_PIPE, .late = true},
    {"long_put_late", "origins", SIDE(PUT, 40000, 8, BY_STADD), SIDE(PUT, 0, LONG, BY_STADD),
     .order = ORDER_PIPE, .late = true},
    {"put_get_late", "origins", SIDE(GET, 8, 16, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .right_one = SIDE(GET, 8, 8, BY_STADD), .right_two = SIDE(PUT, 0, 64, BY_STADD), .late = true},
    {"two_stadds", "origins", SIDE(PUT, ALIAS, 64, BY_STADD), SIDE(PUT, ALIAS, 64, BY_ALIAS),
     .right_one = SIDE(PUT, ALIAS, 64, BY_STADD), .right_two = SIDE(PUT, ALIAS + 64, 64, BY_ALIAS)},
    {"two_vcqs", "origins", SIDE(PUT, 64, 64, BY_STADD), SIDE(PUT, 120, 16, BY_SECOND_VCQ),
     .right_one = SIDE(PUT, 64, 64, BY_STADD), .right_two = SIDE(PUT, 128, 16, BY_SECOND_VCQ)},
    {"threads", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .right_one = SIDE(PUT, 0, 64, BY_STADD), .right_two = SIDE(PUT, 64, 64, BY_STADD),
     .threads = true},
    {"put_relayed", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .order = ORDER_NOTICE, .relayed = true},
    {"put_relayed_part", "origins", SIDE(PUT, 0, 512, BY_STADD), SIDE(PUT, 504, 64, BY_STADD),
     .right_one = SIDE(PUT, 0, 512, BY_STADD), .right_two = SIDE(PUT, 512, 64, BY_STADD),
     .relayed = true},
    {"armw_relayed", "origins-armw", SIDE(ARMW8, 8, 8, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .right_one = SIDE(ARMW8, 64, 8, BY_STADD), .right_two = SIDE(PUT, 0, 64, BY_STADD),
     .relayed = true},
    {"after_exit", "origins", SIDE(PUT, 0, 64, BY_STADD), SIDE(PUT, 0, 64, BY_STADD),
     .right_one = SIDE(PUT, 0, 64, BY_STADD), .right_two = SIDE(PUT, 64, 64, BY_STADD),
     .first = EXITS},
    {"stopped_or_killed", "origins", SIDE(PUT, 0, 8, BY_STADD), SIDE(PUT, 0, 8, BY_STADD),
     .first = IS_STOPPED},
};

/*
 * Running
 */

struct how {
    const struct program *program;
    bool right;
};

static void open_all(void)
{
    ut_open_all(&end, SIZE, peers);
    if (ut_rank == TARGET) {
        CHECK_OK(utofu_reg_mem(end.vcq, end.mem + ALIAS, ALIAS, 0, &all[ut_rank].alias));
        CHECK_OK(
            utofu_reg_mem_with_stag(end.vcq, end.mem, SIZE, RESERVED, 0, &all[ut_rank].reserved));
        CHECK_OK(utofu_create_vcq(1, 0, &second.vcq));
        CHECK_OK(utofu_query_vcq_id(second.vcq, &all[ut_rank].second_id));
        CHECK_OK(utofu_reg_mem(second.vcq, end.mem, SIZE, 0, &all[ut_rank].second));
    }
    ut_allgather(&all[ut_rank], all, sizeof(all[0]));
}

/* In sequence, in words that no other process uses, so that the STADDs become known. */
static void use_all(void)
{
    for (int rank = 0; rank < PROCS; rank++) {
        for (int by = BY_STADD; by <= BY_SECOND_VCQ && rank == ut_rank && rank != TARGET; by++)
            do_one(&end, &(struct side){PIGGY, 2 * ALIAS - 64 + 8 * (size_t)rank, 8, by});
        ut_barrier();
    }
}

static void run_body(void *arg)
{
    const struct how *how = arg;
    const struct program *p = how->program;
    bool gone = p->first == EXITS || (p->first == IS_STOPPED && how->right);
    struct worker workers[2] = {0};

    open_all();
    use_all();
    for (int i = 0; p->threads && i < 2; i++)
        ut_end_open(&workers[i].own, (utofu_tni_id_t)(2 + i), 0, SIZE);
    if (p->relayed && ut_rank == TWO)
        ut_end_open(&relay, 1, UTOFU_VCQ_FLAG_SESSION_MODE, SIZE);
    if (p->first == EXITS)
        exit_early(p);
    if (p->first == IS_STOPPED)
        run_stopped(p, how->right);
    for (int i = 0; i < ROUNDS && p->first != IS_STOPPED; i++)
        run_round(p, how->right, i, workers);
    ut_barrier();
    if (gone)
        return;
    for (int i = 0; p->threads && i < 2; i++)
        ut_end_close(&workers[i].own);
    if (p->relayed && ut_rank == TWO)
        ut_end_close(&relay);
    if (ut_rank == TARGET) {
        CHECK_OK(utofu_dereg_mem(end.vcq, all[ut_rank].alias, 0));
        CHECK_OK(utofu_dereg_mem(end.vcq, all[ut_rank].reserved, 0));
        CHECK_OK(utofu_dereg_mem(second.vcq, all[ut_rank].second, 0));
        CHECK_OK(utofu_free_vcq(second.vcq));
    }
    ut_close_all(&end);
}

static bool run(const struct how *how, struct ut_outcome out[PROCS], char *report, size_t size)
{
    struct ut_run_opts opts = {
        .n = PROCS,
        .timeout_s = 60,
        .env = {"UTOFU_CHECK=1", "UTOFU_LOG_LEVEL=error", getenv("UT_CHECK_ENV")},
        .may_die = how->program->first == IS_STOPPED && how->right ? 1 << ONE : 0};

    CHECK_EQ(pipe(pipes), 0);
    bool ok = ut_run_collect(&opts, run_body, (void *)how, out, report, size);
    close(pipes[0]);
    close(pipes[1]);
    return ok;
}

/* Both communications are named, with their places. */
static void look_at_report(const struct program *p, const char *output)
{
    const char *other = strstr(output, "    beside ");

    cr_expect(other && strstr(other, " of rank ") && strstr(other, " ms ago in ") &&
                  strstr(other, "    instead: "),
              "%s: %s", p->name, output);
}

Test(origins, wrong_programs_are_reported, .timeout = 0)
{
    uint64_t runs = ut_env_number("UT_CHECK_RUNS", 0);
    struct ut_outcome out[PROCS];
    size_t found = 0, all_programs = 0;
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        const struct program *p = &programs[i];
        const struct how how = {.program = p};
        uint64_t done = 0, hits = 0;
        if (!is_chosen(p->name))
            continue;
        while (done < runs || (runs == 0 && hits == 0 && done < MOST_RUNS)) {
            int rank = 0;
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", p->name, report);
            /* a put that arrived while the other one was held has also changed its memory */
            int landed = num_findings(out, PROCS, "remote-written", NULL);
            int both = num_findings(out, PROCS, NULL, &rank);
            int n = num_findings(out, PROCS, p->id, &rank);
            cr_expect(both == n + landed, "%s has other findings than %s: %s", p->name, p->id,
                      out[rank].output);
            if (n > 0)
                look_at_report(p, out[rank].output);
            hits += n > 0;
            done++;
        }
        cr_expect(hits > 0, "%s is not reported", p->name);
        all_programs++;
        found += hits > 0;
        fprintf(stderr, "%-26s %-16s %llu of %llu runs\n", p->name, p->id, (unsigned long long)hits,
                (unsigned long long)done);
    }
    fprintf(stderr, "recall: %zu of %zu wrong programs are reported\n", found, all_programs);
}

Test(origins, right_programs_are_not, .timeout = 0)
{
    uint64_t rounds = ut_env_number("UT_CHECK_ROUNDS", 1);
    struct ut_outcome out[PROCS];
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        const struct how how = {.program = &programs[i], .right = true};
        for (uint64_t r = 0; r < rounds && is_chosen(programs[i].name); r++) {
            int rank = 0;
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", programs[i].name, report);
            cr_expect(num_findings(out, PROCS, NULL, &rank) == 0, "%s is right, but: %s",
                      programs[i].name, out[rank].output);
        }
    }
}
