/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each freedom that the manual leaves, a small program that wrongly relies on the usual order,
 * and its correct twin, which differs in a line or two. Without UTOFU_SHUFFLE the wrong ones pass;
 * with it each of them fails with one of the first 20 seeds, and the correct ones pass with all.
 *
 * UT_SHUFFLE_ROUNDS: rounds of a program without shuffle. UT_SHUFFLE_SEEDS: seeds for the correct
 * programs. UT_SHUFFLE_FIRST: the first one. UT_SHUFFLE_ONLY: the name of one program.
 * UT_SHUFFLE_CHECK=1: with the check mode, too, which reports no correct program.
 */
#include "circuit.h"
#include "ends.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(freedoms);

enum { LINE = 256, SIZE = 64 * 1024, SRC = 32 * 1024, FLAG = 16 * 1024 };
enum { MOST_SEEDS = 20, MOST_SEEDS_CHECKED = 200 }; /* failures are rarer then */
#define UT_DELAY UTOFU_ONESIDED_FLAG_DELAY_START

/* The arguments of a program. */
struct how {
    bool right;
    uint64_t rounds;
};

static struct ut_end end;
static struct ut_peer peers[3];

/* Words of this process's memory: the source of puts, others' targets, a flag behind them. */
static volatile uint64_t *word_at(size_t offset)
{
    return (volatile uint64_t *)(end.mem + offset);
}

static struct ut_comm transfer(enum ut_kind kind, int to, size_t from, size_t at, size_t length,
                               unsigned long int flags)
{
    return (struct ut_comm){.kind = kind,
                            .vcq = end.vcq,
                            .rmt = peers[to].id,
                            .lcl_stadd = end.stadd + from,
                            .rmt_stadd = peers[to].stadd + at,
                            .length = length,
                            .flags = flags};
}

static void start(const struct ut_comm *comm)
{
    ut_start_busy(comm);
}

static void put(int to, size_t from, size_t at, size_t length, unsigned long int flags)
{
    struct ut_comm comm = transfer(UT_PUT, to, from, at, length, flags);

    start(&comm);
}

static void put_word(int to, uint64_t value, size_t at, unsigned long int flags)
{
    struct ut_comm comm = transfer(UT_PIGGYBACK, to, 0, at, 8, flags);

    comm.data = &value;
    start(&comm);
}

static void await_notice(uint8_t type)
{
    struct utofu_mrq_notice n;

    CHECK_OK(ut_await_mrq(end.vcq, &n));
    CHECK_EQ(n.notice_type, type);
}

static void await_tcq(void)
{
    void *cbdata;

    CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
}

static void fill(size_t offset, size_t length, uint64_t value)
{
    for (size_t i = 0; i < length; i += 8)
        memcpy(end.mem + offset + i, &value, 8);
}

static void check_filled(size_t offset, size_t length, uint64_t value)
{
    for (size_t i = 0; i < length; i += 8)
        CHECK_EQ(*word_at(offset + i), value);
}

/* Connects before the first round, so that puts do not wait for connections. */
static void open_all(void)
{
    ut_open_all(&end, SIZE, peers);
    for (int p = 0; p < ut_size; p++)
        if (p != ut_rank)
            ut_flush(&end, &peers[p]);
    ut_barrier();
}

static void close_all(void)
{
    for (int p = 0; p < ut_size; p++)
        if (p != ut_rank)
            ut_flush(&end, &peers[p]);
    ut_close_all(&end);
}

/* In each round rank 0 runs `origin`, the last rank `target`. */
typedef void round_fn(uint64_t value, bool right);
static void in_rounds(const struct how *how, round_fn *origin, round_fn *target)
{
    open_all();
    for (uint64_t value = 1; value <= how->rounds; value++) {
        ut_step("round %llu", (unsigned long long)value);
        ut_barrier();
        if (ut_rank == 0)
            origin(value, how->right);
        else if (ut_rank == ut_size - 1)
            target(value, how->right);
    }
    ut_barrier();
    close_all();
}

#define PROGRAM(name)                                                                              \
    static void name(void *arg)                                                                    \
    {                                                                                              \
        in_rounds(arg, name##_origin, name##_target);                                              \
    }

/* Two puts to different memory (2.2.10): the second one arrives first. */
static void overtaking_origin(uint64_t value, bool right)
{
    put_word(1, value, 0, 0);
    put_word(1, value, FLAG, right ? UT_STRONG : 0);
}
static void overtaking_target(uint64_t value, bool right)
{
    (void)right;
    ut_await_word((uint64_t *)(end.mem + FLAG), value);
    CHECK_EQ(*word_at(0), value);
}
PROGRAM(overtaking)

/* The same with data of several lines before the flag. */
static void flag_origin(uint64_t value, bool right)
{
    fill(SRC, 8 * LINE, value);
    put(1, SRC, 0, 8 * LINE, UT_LCL);
    put_word(1, value, FLAG, right ? UT_STRONG : 0);
    await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
}
static void flag_target(uint64_t value, bool right)
{
    (void)right;
    ut_await_word((uint64_t *)(end.mem + FLAG), value);
    check_filled(0, 8 * LINE, value);
}
PROGRAM(flag)

/* STRONG_ORDER binds only communications on the same path (2.2.10). */
static void path_origin(uint64_t value, bool right)
{
    put_word(1, value, 0, 0);
    put_word(1, value, FLAG, UT_STRONG | (right ? 0 : UTOFU_ONESIDED_FLAG_PATH(1ul)));
}
#define path_target overtaking_target
PROGRAM(path)

/* The last bytes of a put of several lines (2.2.10, 6.1.3.1). */
static void last_line_origin(uint64_t value, bool right)
{
    fill(SRC, 8 * LINE, value);
    put(1, SRC, 0, 8 * LINE, UT_LCL | (right ? UT_STRONG : 0));
    await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
}
static void last_line_target(uint64_t value, bool right)
{
    (void)right;
    ut_await_word((uint64_t *)(end.mem + 8 * LINE - 8), value);
    check_filled(0, 8 * LINE, value);
}
PROGRAM(last_line)

/* The remote notice of a put means that its own data have arrived, not those of earlier puts. */
static void other_notice_origin(uint64_t value, bool right)
{
    put_word(1, value, 0, 0);
    put_word(1, value, FLAG, UT_RMT | (right ? UT_STRONG : 0));
}
static void other_notice_target(uint64_t value, bool right)
{
    (void)right;
    await_notice(UTOFU_MRQ_TYPE_RMT_PUT);
    CHECK_EQ(*word_at(0), value);
}
PROGRAM(other_notice)

/* The source of a put is read until its TCQ entry is there. */
static void source_origin(uint64_t value, bool right)
{
    fill(SRC, 4 * LINE, value);
    put(1, SRC, 0, 4 * LINE, UT_TCQ | UT_RMT);
    if (right)
        await_tcq();
    fill(SRC, 4 * LINE, 0);
    if (!right)
        await_tcq();
}
static void source_target(uint64_t value, bool right)
{
    (void)right;
    await_notice(UTOFU_MRQ_TYPE_RMT_PUT);
    check_filled(0, 4 * LINE, value);
}
PROGRAM(source)

/* The data of a get have arrived when its local notice is found. */
static void get_origin(uint64_t value, bool right)
{
    struct ut_comm get = transfer(UT_GET, 1, SRC, 0, 4 * LINE, UT_LCL);

    put_word(1, value, 3 * LINE, UT_LCL);
    await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
    start(&get);
    if (right)
        await_notice(UTOFU_MRQ_TYPE_LCL_GET);
    CHECK_EQ(*word_at(SRC + 3 * LINE), value);
    if (!right)
        await_notice(UTOFU_MRQ_TYPE_LCL_GET);
}
static void nothing(uint64_t value, bool right)
{
    (void)value, (void)right;
}
#define get_target nothing
PROGRAM(get)

/* A get may read before an earlier put has written. */
static void get_behind_put_origin(uint64_t value, bool right)
{
    struct ut_comm get = transfer(UT_GET, 1, SRC, 0, 8, UT_LCL | (right ? UT_STRONG : 0));

    put_word(1, value, 0, 0);
    start(&get);
    await_notice(UTOFU_MRQ_TYPE_LCL_GET);
    CHECK_EQ(*word_at(SRC), value);
}
#define get_behind_put_target nothing
PROGRAM(get_behind_put)

/* A TCQ entry means that the source was read, and not that the data have arrived. */
static void tcq_origin(uint64_t value, bool right)
{
    fill(SRC, 8, value);
    put(1, SRC, 0, 8, right ? UT_LCL : UT_TCQ);
    if (right)
        await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
    else
        await_tcq();
    atomic_store(ut_cell(0), value);
}
static void tcq_target(uint64_t value, bool right)
{
    (void)right;
    while (atomic_load(ut_cell(0)) != value)
        ut_relax();
    CHECK_EQ(*word_at(0), value);
}
PROGRAM(tcq)

/* A notice may be found later than the data that it reports. */
static void one_poll_origin(uint64_t value, bool right)
{
    (void)right;
    put_word(1, value, 0, UT_RMT | UT_LCL);
    await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
    atomic_store(ut_cell(0), value);
}
static void one_poll_target(uint64_t value, bool right)
{
    struct utofu_mrq_notice n;

    while (atomic_load(ut_cell(0)) != value)
        ut_relax();
    if (right)
        await_notice(UTOFU_MRQ_TYPE_RMT_PUT);
    else
        CHECK_OK(utofu_poll_mrq(end.vcq, 0, &n));
}
PROGRAM(one_poll)

/* The TOQ holds a limited number of descriptors (3.7.1). */
static void busy_origin(uint64_t value, bool right)
{
    enum { PUTS = 100 };
    struct ut_comm comm = transfer(UT_PIGGYBACK, 1, 0, 0, 8, UT_TCQ);
    size_t entries = 0;

    comm.data = &value;
    for (int i = 0; i < PUTS; i++) {
        if (right)
            entries += ut_start_busy(&comm);
        else
            CHECK_OK(ut_start(&comm));
    }
    for (; entries < PUTS; entries++)
        await_tcq();
}
#define busy_target nothing
PROGRAM(busy)

/* With DELAY_START a communication may start at once all the same (3.7.9.1). */
static void delayed_origin(uint64_t value, bool right)
{
    fill(SRC, LINE, right ? value : 0);
    put(1, SRC, 0, LINE, UT_RMT | UT_LCL | UT_DELAY);
    fill(SRC, LINE, value);
    CHECK_OK(utofu_post_toq(end.vcq, NULL, 0, NULL));
    await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
}
static void delayed_target(uint64_t value, bool right)
{
    (void)right;
    await_notice(UTOFU_MRQ_TYPE_RMT_PUT);
    check_filled(0, LINE, value);
}
PROGRAM(delayed)

/* Three processes: rank 0 puts, then notifies rank 1 by a cell, and rank 1 puts. */
static void await_cell(uint64_t value)
{
    while (atomic_load(ut_cell(0)) != value)
        ut_relax();
}

static void two_origins(void *arg)
{
    const struct how *how = arg;

    open_all();
    for (uint64_t value = 1; value <= how->rounds; value++) {
        ut_step("round %llu", (unsigned long long)value);
        ut_barrier();
        if (ut_rank == 0) {
            put_word(2, value, 0, UT_RMT);
            atomic_store(ut_cell(0), value);
        } else if (ut_rank == 1) {
            await_cell(value);
            put_word(2, value, 8, UT_RMT);
        } else {
            struct utofu_mrq_notice first, second;
            CHECK_OK(ut_await_mrq(end.vcq, &first));
            CHECK(how->right || first.vcq_id == peers[0].id);
            CHECK_OK(ut_await_mrq(end.vcq, &second));
            CHECK(first.vcq_id != second.vcq_id);
        }
    }
    ut_barrier();
    close_all();
}

static void swap(uint64_t value, unsigned long int flags)
{
    int rc;
    void *cbdata;

    while ((rc = utofu_armw8(end.vcq, peers[2].id, UTOFU_ARMW_OP_SWAP, value, peers[2].stadd, 0,
                             flags, NULL)) == UTOFU_ERR_BUSY)
        utofu_poll_tcq(end.vcq, 0, &cbdata);
    CHECK_OK(rc);
}

/* The last ARMW executed is not always the one started last, with two origins. */
static void armw_origins(void *arg)
{
    const struct how *how = arg;

    open_all();
    for (uint64_t value = 1; value <= how->rounds; value++) {
        ut_step("round %llu", (unsigned long long)value);
        ut_barrier();
        if (ut_rank == 0) {
            swap(2 * value, how->right ? UT_LCL : UT_TCQ);
            if (how->right)
                await_notice(UTOFU_MRQ_TYPE_LCL_ARMW);
            else
                await_tcq();
            atomic_store(ut_cell(0), value);
        } else if (ut_rank == 1) {
            await_cell(value);
            swap(2 * value + 1, UT_LCL);
            await_notice(UTOFU_MRQ_TYPE_LCL_ARMW);
            if (!how->right)
                ut_random_delay(500);
            atomic_store(ut_cell(1), value);
        } else {
            while (atomic_load(ut_cell(1)) != value)
                ut_relax();
            CHECK_EQ(__atomic_load_n(word_at(0), __ATOMIC_ACQUIRE), 2 * value + 1);
        }
    }
    ut_barrier();
    close_all();
}

/* A relay of one put: its schedule pointer may move later than the arrival of the put that moves
 * it, and than the first poll after that. */
static void relay(void *arg)
{
    const struct how *how = arg;

    ut_end_open(&end, 0, ut_rank == 1 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0, SIZE);
    ut_end_gather(&end, peers);
    for (uint64_t value = 1; value <= how->rounds + 1; value++) { /* the first one connects */
        bool right = how->right || value == 1;
        ut_step("round %llu", (unsigned long long)value);
        if (ut_rank == 1)
            put(0, 0, 0, 8, 0);
        ut_barrier();
        if (ut_rank == 0) {
            struct ut_comm comm = transfer(UT_PUT, 1, SRC, 0, 8, UT_LCL);
            fill(SRC, 8, value);
            comm.flags |= UTOFU_ONESIDED_FLAG_SPS(1ul);
            start(&comm);
            await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
        }
        ut_barrier();
        if (ut_rank == 1) {
            struct utofu_mrq_notice n;
            CHECK_EQ(*word_at(0), value);
            CHECK_RC(utofu_poll_mrq(end.vcq, 0, &n), UTOFU_ERR_NOT_FOUND);
        }
        ut_barrier();
        if (ut_rank == 0 && right)
            ut_await_word((uint64_t *)end.mem, value);
        if (ut_rank == 0)
            CHECK_EQ(*word_at(0), value);
        else if (right)
            while (utofu_poll_mrq(end.vcq, 0, &(struct utofu_mrq_notice){0}) != UTOFU_ERR_NOT_FOUND)
                ut_relax();
        ut_barrier();
    }
    ut_close_all(&end);
}

/*
 * Barriers
 */

static utofu_vbg_id_t start_gate;

static void wire(void)
{
    utofu_vbg_id_t mine[CIRCUIT_MAX_GATES] = {0}, all[2][CIRCUIT_MAX_GATES];
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    size_t gates = circuit_gates(CIRCUIT_BUTTERFLY, ut_size, ut_rank);

    CHECK_OK(utofu_alloc_vbg(0, gates, 0, mine));
    ut_allgather(mine, all, sizeof(mine));
    circuit_wire(CIRCUIT_BUTTERFLY, ut_size, ut_rank, &all[0][0], settings);
    CHECK_OK(utofu_set_vbg(settings, gates));
    start_gate = mine[0];
    ut_barrier();
}

static void begin_barrier(void)
{
    int rc;

    while ((rc = utofu_barrier(start_gate, 0)) == UTOFU_ERR_BUSY)
        ut_relax();
    CHECK_OK(rc);
}

static void end_barrier(void)
{
    int rc;

    while ((rc = utofu_poll_barrier(start_gate, 0)) == UTOFU_ERR_NOT_COMPLETED)
        ut_relax();
    CHECK_OK(rc);
}

/* A barrier waits for processes, and not for their puts. */
static void put_and_barrier(void *arg)
{
    const struct how *how = arg;

    open_all();
    wire();
    for (uint64_t value = 1; value <= how->rounds; value++) {
        ut_step("round %llu", (unsigned long long)value);
        if (ut_rank == 0) {
            put_word(1, value, 0, how->right ? UT_LCL : 0);
            if (how->right)
                await_notice(UTOFU_MRQ_TYPE_LCL_PUT);
        }
        begin_barrier();
        end_barrier();
        if (ut_rank == 1)
            CHECK_EQ(*word_at(0), value);
        ut_barrier();
    }
    close_all();
}

/* The other process has started its barrier: its packet is on its way, and may not have arrived. */
static void packet(void *arg)
{
    const struct how *how = arg;

    open_all();
    wire();
    for (uint64_t value = 0; value <= how->rounds; value++) {
        bool right = how->right || value == 0;
        ut_step("round %llu", (unsigned long long)value);
        if (ut_rank == 1)
            begin_barrier();
        ut_barrier();
        if (ut_rank == 0) {
            begin_barrier();
            if (right)
                end_barrier();
            else
                CHECK_OK(utofu_poll_barrier(start_gate, 0));
        } else {
            end_barrier();
        }
        ut_barrier();
    }
    close_all();
}

/*
 * Programs that abort at the first UTOFU_ERR_BUSY, or after another poll
 */

static void aborts_at_busy(void *arg)
{
    struct ut_comm comm;
    const bool *polls = arg;
    uint64_t value = 1;
    void *cbdata;
    int rc;

    open_all();
    comm = transfer(UT_PIGGYBACK, 1, 0, 0, 8, UT_TCQ);
    comm.data = &value;
    while (ut_rank == 0) {
        rc = ut_start(&comm);
        if (rc == UTOFU_ERR_BUSY && *polls)
            utofu_poll_tcq(end.vcq, 0, &cbdata);
        if (rc == UTOFU_ERR_BUSY)
            abort();
        CHECK_OK(rc);
    }
}

static const char *dump_of_abort(bool polls, const char *env, struct ut_outcome out[2])
{
    struct ut_run_opts opts = {.n = 2, .may_die = 1, .env = {env}};
    char report[4096];

    if (!ut_run_collect(&opts, aborts_at_busy, &polls, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    cr_assert(WIFSIGNALED(out[0].status) && WTERMSIG(out[0].status) == SIGABRT, "%s",
              out[0].output);
    return strstr(out[0].output, "utofu: dump: [rank 0] begin, at SIGABRT");
}

/*
 * Running them
 */

static const struct program {
    const char *name;
    ut_body_fn *body;
    int procs;
} programs[] = {
    {"overtaking", overtaking, 2},
    {"flag", flag, 2},
    {"path", path, 2},
    {"last_line", last_line, 2},
    {"other_notice", other_notice, 2},
    {"source", source, 2},
    {"get", get, 2},
    {"get_behind_put", get_behind_put, 2},
    {"tcq", tcq, 2},
    {"one_poll", one_poll, 2},
    {"busy", busy, 2},
    {"delayed", delayed, 2},
    {"two_origins", two_origins, 3},
    {"armw_origins", armw_origins, 3},
    {"relay", relay, 2},
    {"put_and_barrier", put_and_barrier, 2},
    {"packet", packet, 2},
};

static bool checks(void)
{
    return ut_env_number("UT_SHUFFLE_CHECK", 0) != 0;
}

/* Runs one program in processes of its own; seed 0: without shuffle. True if it passes, and has no
 * finding. */
static bool runs(const struct program *p, bool right, uint64_t seed, uint64_t rounds, char *report,
                 size_t size)
{
    struct how how = {.right = right, .rounds = rounds};
    struct ut_outcome out[3];
    char env[64];
    struct ut_run_opts opts = {
        .n = p->procs,
        .timeout_s = 120,
        /* mapped in the middle of a run, memory shows to wrong programs that they are wrong */
        .env = {env, "UTOFU_LOG_LEVEL=error", "UTOFU_SHM_MAP=eager",
                checks() ? "UTOFU_CHECK=1" : NULL}};

    snprintf(env, sizeof(env), "UTOFU_SHUFFLE=%llu", (unsigned long long)seed);
    bool ok = ut_run_collect(&opts, p->body, &how, out, report, size);
    for (int r = 0; ok && r < p->procs; r++) {
        const char *finding = strstr(out[r].output, "utofu: check: [rank ");
        ok = !finding;
        if (finding)
            snprintf(report, size, "%s", finding);
    }
    return ok;
}

static bool is_chosen(const struct program *p)
{
    const char *only = getenv("UT_SHUFFLE_ONLY");

    return !only || strcmp(only, p->name) == 0;
}

Test(freedoms, wrong_programs_pass_without, .timeout = 0)
{
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++)
        if (is_chosen(&programs[i]))
            cr_assert(runs(&programs[i], false, 0, ut_env_number("UT_SHUFFLE_ROUNDS", 100), report,
                           sizeof(report)),
                      "%s: %s", programs[i].name, report);
}

Test(freedoms, wrong_programs_fail_with_one_of_twenty_seeds, .timeout = 0)
{
    uint64_t most = checks() ? MOST_SEEDS_CHECKED : MOST_SEEDS;
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        uint64_t seed = 1;
        if (!is_chosen(&programs[i]))
            continue;
        while (seed <= most && runs(&programs[i], false, seed, 20, report, sizeof(report)))
            seed++;
        cr_expect(seed <= most, "%s passes with all", programs[i].name);
        fprintf(stderr, "%s: seed %llu\n", programs[i].name, (unsigned long long)seed);
    }
}

Test(freedoms, right_programs_pass_with_all_seeds, .timeout = 0)
{
    uint64_t first = ut_env_number("UT_SHUFFLE_FIRST", 1);
    uint64_t seeds = ut_env_number("UT_SHUFFLE_SEEDS", 3);
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++)
        for (uint64_t seed = first; is_chosen(&programs[i]) && seed < first + seeds; seed++)
            cr_assert(runs(&programs[i], true, seed, 20, report, sizeof(report)),
                      "%s, seed %llu: %s", programs[i].name, (unsigned long long)seed, report);
}

Test(freedoms, dump_of_an_abort_tells_the_last_freedom)
{
    static struct ut_outcome out[2];
    const char *injected = "shuffle last call: UTOFU_ERR_BUSY, injected, of VCQ ",
               *met = " times: UTOFU_ERR_BUSY of a TOQ with little room: poll the TCQ";

    const char *dump = dump_of_abort(false, "UTOFU_SHUFFLE=3", out);
    cr_assert(dump && strstr(dump, injected) && strstr(dump, met), "%s", out[0].output);
    dump = dump_of_abort(true, "UTOFU_SHUFFLE=3", out);
    cr_assert(dump && !strstr(dump, injected) && strstr(dump, met), "%s", out[0].output);
    dump = dump_of_abort(false, "UTOFU_SHUFFLE=3,level=2", out); /* a TOQ that is really full */
    cr_assert(dump && !strstr(dump, "UTOFU_ERR_BUSY"), "%s", out[0].output);
    cr_assert(!dump_of_abort(false, "UTOFU_SHUFFLE=0", out), "%s", out[0].output);
}
