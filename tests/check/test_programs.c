/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs for UTOFU_CHECK, each in two versions: the wrong one must be reported with the id
 * in its row and with no other one, its correct twin, which differs in a line or two, with none.
 * Both run to their end. A wrong one may run again, at most MOST_RUNS times, as on a loaded machine
 * the background thread may start the communication first. A table lists the number of detected
 * ones.
 *
 * UT_CHECK_ROUNDS: runs of each correct program. UT_CHECK_SLOW: over a network communications take
 * longer, and more of them start while a program waits: programs with an error after a wait need
 * not be found, nor those with two STADDs of the same memory of a peer. UT_CHECK_ONLY: a program by
 * its name. UT_CHECK_ENV: a further environment setting, NAME=value. UT_CHECK_FIRST: the first seed
 * of the tests with the shuffle mode, and UT_CHECK_SEEDS: the number of seeds for correct programs.
 */
#include "ends.h"
#include "reported.h"
#include "utofu_ext.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(check);

enum {
    SIZE = 256 * 1024,
    SRC = 128 * 1024, /* the sources of puts, and destinations of gets, begin here */
    LONG = 65536,
    ALIAS = 8192,
    CALLS = 4000,
    STRIDE = 512,
    BLOCKS = 4,
    ROUNDS = 3,
    MOST_RUNS = 200,
    EAGER_POLLS = 1000,
    PROCS = 2,
};
#define INJECT UTOFU_ONESIDED_FLAG_CACHE_INJECTION
#define PAD    UTOFU_ONESIDED_FLAG_PADDING
#define DELAY  UTOFU_ONESIDED_FLAG_DELAY_START

struct program {
    const char *name, *id; /* id: of the wrong version */
    void (*body)(const struct program *p, bool right);
    enum ut_kind kind;
    size_t length;
    unsigned long int flags;
    size_t at; /* an offset in the memory, or a parameter of the body */
    bool prepared;
    bool once;  /* the error ends the program: one round */
    bool dies;  /* the process may die */
    bool waits; /* the error comes after a wait for another event, or cannot be known over a
                 * network */
};

static struct ut_end end;
static struct ut_peer peers[PROCS];
static utofu_stadd_t aliases[PROCS]; /* other STADDs, of ALIAS bytes from ALIAS on */
static uint64_t value;               /* a new one in each round */
static bool shuffled;
static size_t taken; /* TCQ entries taken because of a full TOQ */

/*
 * Helpers of rank 0
 */

static struct ut_comm comm_of(enum ut_kind kind, size_t from, size_t to, size_t length,
                              unsigned long int flags)
{
    return (struct ut_comm){.kind = kind,
                            .vcq = end.vcq,
                            .rmt = peers[1].id,
                            .lcl_stadd = end.stadd + from,
                            .rmt_stadd = peers[1].stadd + to,
                            .data = end.mem + from,
                            .length = length,
                            .stride = STRIDE,
                            .blocks = BLOCKS,
                            .flags = flags};
}

static void start(enum ut_kind kind, size_t from, size_t to, size_t length, unsigned long int flags)
{
    struct ut_comm comm = comm_of(kind, from, to, length, flags);

    taken += ut_start_busy(&comm);
}

/* Starts the communication in the table. */
static size_t start_one(const struct program *p, unsigned long int more)
{
    struct ut_comm comm = comm_of(p->kind, SRC, 0, p->length, p->flags | more);

    comm.prepared = p->prepared;
    taken += ut_start_busy(&comm);
    return ut_num_blocks(&comm);
}

/* Without yielding the core at once, as a communication is only held for a millisecond. */
static void tcq(size_t entries)
{
    void *cbdata;

    for (; entries > 0 && taken > 0; entries--)
        taken--;
    while (entries-- > 0) {
        int rc = UTOFU_ERR_NOT_FOUND;
        for (int i = 0; i < EAGER_POLLS && rc == UTOFU_ERR_NOT_FOUND; i++)
            rc = utofu_poll_tcq(end.vcq, 0, &cbdata);
        CHECK_OK(rc == UTOFU_ERR_NOT_FOUND ? ut_await_tcq(end.vcq, &cbdata) : rc);
    }
}

static void mrq(size_t notices)
{
    struct utofu_mrq_notice notice;

    while (notices-- > 0)
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
}

static void write_word(size_t at)
{
    __atomic_store_n((uint64_t *)(end.mem + at / 8 * 8), ++value, __ATOMIC_RELAXED);
}

static void armw(size_t size, size_t to, unsigned long int flags)
{
    int rc = size == 4 ? utofu_armw4(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1,
                                     peers[1].stadd + to, 0, flags, NULL)
                       : utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1,
                                     peers[1].stadd + to, 0, flags, NULL);

    CHECK_OK(rc);
}

static uint64_t word_of(size_t at)
{
    return __atomic_load_n((uint64_t *)(end.mem + at / 8 * 8), __ATOMIC_RELAXED);
}

/* Checks the data of a put of more than 32 bytes whose TCQ entry was taken. With the shuffle mode,
 * which shows an error that comes too late for the check mode. */
static void expect_at(size_t to, uint64_t expected)
{
    if (!shuffled)
        return;
    start(UT_GET, SRC + LONG, to, 8, UT_LCL);
    mrq(1);
    CHECK_EQ(word_of(SRC + LONG), expected);
}

/*
 * The programs. Rank 1 only provides memory.
 */

/* The source of a put is written before its TCQ entry has come (2.2.3). */
static void source(const struct program *p, bool right)
{
    write_word(SRC + p->at);
    size_t n = start_one(p, UT_TCQ);
    if (!right)
        write_word(SRC + p->at);
    tcq(n);
    write_word(SRC + p->at);
}

/* The TCQ entry of the first of two puts does not cover the second one. */
static void second_source(const struct program *p, bool right)
{
    uint64_t before = word_of(SRC + LONG / 2);

    start(UT_PUT, SRC, 0, p->length, UT_TCQ);
    start(UT_PUT, SRC + LONG / 2, LONG / 2, p->length, UT_TCQ);
    tcq(1);
    write_word(right ? SRC : SRC + LONG / 2);
    tcq(1);
    expect_at(LONG / 2, before);
}

/* The last one of many puts. */
static void last_source(const struct program *p, bool right)
{
    uint64_t before = word_of(SRC + (p->at - 1) * STRIDE);

    for (size_t i = 0; i < p->at; i++)
        start(UT_PUT, SRC + i * STRIDE, i * STRIDE, p->length, UT_TCQ);
    tcq(right ? p->at : p->at - 1);
    write_word(SRC + (p->at - 1) * STRIDE);
    tcq(right ? 0 : 1);
    expect_at((p->at - 1) * STRIDE, before);
}

/* The local notice comes after the data were read; the remote notice of another put does not. */
static void source_and_notice(const struct program *p, bool right)
{
    start(UT_PUT, SRC, 0, p->length, UT_LCL);
    if (right)
        mrq(1);
    write_word(SRC);
    mrq(right ? 0 : 1);
}

/* The memory that a get fills is written before its local notice (2.2.10). */
static void target(const struct program *p, bool right)
{
    size_t n = start_one(p, UT_LCL);
    if (!right)
        write_word(SRC + p->at);
    mrq(n);
    write_word(SRC + p->at);
}

/* A TCQ entry of a get only shows that it has started. */
static void target_after_tcq(const struct program *p, bool right)
{
    start(UT_PUT, SRC + LONG, LONG, 8, UT_TCQ);
    start(UT_GET, SRC, 0, p->length, UT_LCL);
    tcq(1);
    if (right)
        mrq(1);
    write_word(SRC);
    mrq(right ? 0 : 1);
}

/* A get into the source of a put; a put of the destination of a get; two gets (2.2.10). `at`: the
 * distance in the wrong version. */
static void get_into_source(const struct program *p, bool right)
{
    start(UT_PUT, SRC, 0, p->length, UT_TCQ);
    if (right)
        tcq(1);
    start(UT_GET, SRC + p->at, LONG, p->length, UT_LCL | p->flags);
    mrq(1);
    tcq(right ? 0 : 1);
}
static void put_of_target(const struct program *p, bool right)
{
    start(UT_GET, SRC, 0, p->length, UT_LCL);
    if (right)
        mrq(1);
    start(UT_PUT, SRC + p->at, LONG, p->length, UT_LCL | p->flags);
    mrq(right ? 1 : 2);
}
static void two_gets(const struct program *p, bool right)
{
    start(UT_GET, SRC, 0, p->length, UT_LCL);
    start(UT_GET, SRC + (right ? LONG : p->at), LONG, p->length, UT_LCL | p->flags);
    mrq(2);
}

/* Two communications, the first one a put unless the kind is a get, to the same remote memory. The
 * second one has the flags. */
static void two(const struct program *p, bool right, enum ut_kind first, enum ut_kind second)
{
    write_word(SRC);
    write_word(SRC + LONG);
    start(first, SRC, 0, p->length, UT_LCL);
    start(second, SRC + LONG, p->at, p->length, UT_LCL | p->flags | (right ? UT_STRONG : 0));
    mrq(2);
}
static void put_put(const struct program *p, bool right)
{
    two(p, right, UT_PUT, p->kind);
}
static void piggyback_put(const struct program *p, bool right)
{
    two(p, right, UT_PIGGYBACK, p->kind);
}
static void put_get(const struct program *p, bool right)
{
    two(p, right, UT_PUT, UT_GET);
}
static void get_put(const struct program *p, bool right)
{
    two(p, right, UT_GET, p->kind);
}

/* The same, but the right version waits for the local notice of the first one. */
static void put_put_notice(const struct program *p, bool right)
{
    write_word(SRC + LONG);
    start(UT_PUT, SRC, 0, p->length, UT_LCL);
    if (right)
        mrq(1);
    start(UT_PIGGYBACK8, SRC + LONG, p->at, 8, UT_LCL);
    mrq(right ? 1 : 2);
}

/* The same, but in different memory; or with the same data. */
static void put_put_apart(const struct program *p, bool right)
{
    write_word(SRC + LONG);
    start(UT_PUT, SRC, 0, p->length, UT_LCL);
    start(UT_PUT, SRC + LONG, right ? p->length : p->length - 1, p->length, UT_LCL);
    mrq(2);
}
static void put_put_same(const struct program *p, bool right)
{
    write_word(SRC);
    memcpy(end.mem + SRC + LONG, end.mem + SRC, p->length);
    if (!right)
        end.mem[SRC + LONG + p->length - 1] ^= 1;
    start(UT_PUT, SRC, 0, p->length, UT_LCL);
    start(UT_PUT, SRC + LONG, 0, p->length, UT_LCL);
    mrq(2);
}

/* STRONG_ORDER of the first one does not order the second one, nor on another path. */
static void strong_first(const struct program *p, bool right)
{
    write_word(SRC);
    start(UT_PUT, SRC, 0, p->length, UT_LCL | UT_STRONG);
    start(UT_PUT, SRC + LONG, 0, p->length, UT_LCL | (right ? UT_STRONG : 0));
    mrq(2);
}
static void strong_path(const struct program *p, bool right)
{
    unsigned long int path = UTOFU_ONESIDED_FLAG_PATH(1);

    write_word(SRC);
    start(UT_PUT, SRC, 0, p->length, UT_LCL | (right ? path : 0));
    start(UT_PUT, SRC + LONG, 0, p->length, UT_LCL | UT_STRONG | path);
    mrq(2);
}

/* The same through two VCQs of the process, which are not ordered. */
static void two_vcqs(const struct program *p, bool right)
{
    struct utofu_mrq_notice notice;
    struct ut_end other;

    ut_end_open(&other, 1, 0, SIZE);
    write_word(SRC + p->at);
    struct ut_comm comm = comm_of(p->kind, SRC, p->at, p->length, UT_LCL | p->flags);
    comm.vcq = other.vcq;
    comm.lcl_stadd = other.stadd + SRC;
    start(ut_is_get(p->kind) ? UT_PUT : p->kind, SRC, 0, p->length, UT_LCL);
    if (right)
        mrq(1);
    ut_start_busy(&comm);
    mrq(right ? 0 : 1);
    CHECK_OK(ut_await_mrq(other.vcq, &notice));
    ut_end_close(&other);
}

/* Two STADDs of the same memory. Those of a peer are known if both were used before. */
static void use_alias(void)
{
    struct ut_comm comm = comm_of(UT_PUT, SRC, 0, 8, UT_LCL);

    comm.rmt_stadd = aliases[1];
    ut_start_busy(&comm);
    mrq(1);
}
static void alias(const struct program *p, bool right)
{
    struct ut_comm comm =
        comm_of(p->kind, SRC + LONG, 0, p->length, UT_LCL | p->flags | (right ? UT_STRONG : 0));

    use_alias();
    write_word(SRC);
    write_word(SRC + LONG);
    start(UT_PUT, SRC, ALIAS + p->at, p->length, UT_LCL);
    comm.rmt_stadd = aliases[1];
    ut_start_busy(&comm);
    mrq(2);
}
static void alias_apart(const struct program *p, bool right)
{
    struct ut_comm comm = comm_of(p->kind, SRC + LONG, 0, p->length, UT_LCL);

    use_alias();
    write_word(SRC + LONG);
    start(UT_PUT, SRC, ALIAS - p->length + (right ? 0 : 1), p->length, UT_LCL);
    comm.rmt_stadd = aliases[1];
    ut_start_busy(&comm);
    mrq(2);
}
static void alias_armw(const struct program *p, bool right)
{
    use_alias();
    write_word(SRC);
    start(p->kind, SRC, ALIAS + 8, p->length, UT_LCL);
    CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, aliases[1] + p->at, 0,
                         UT_LCL | (right ? UT_STRONG : 0), NULL));
    mrq(2);
}
static void alias_armw_sizes(const struct program *p, bool right)
{
    use_alias();
    armw(4, ALIAS + p->at, UT_LCL);
    CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, aliases[1] + (right ? 8 : 0),
                         0, UT_LCL, NULL));
    mrq(2);
}
static void alias_padding(const struct program *p, bool right)
{
    struct ut_comm comm =
        comm_of(UT_PIGGYBACK, SRC, 0, 8, UT_LCL | PAD | INJECT | (right ? UT_STRONG : 0));

    use_alias();
    start(UT_PUT, SRC + LONG, ALIAS + (right ? 256 : p->at), p->length, UT_LCL);
    comm.rmt_stadd = aliases[1];
    ut_start_busy(&comm);
    mrq(2);
}

/* The target is this process: a VCQ with two STADDs, or two VCQs, not used before. */
static void own_alias(const struct program *p, bool right)
{
    struct ut_comm comm = comm_of(p->kind, SRC, 0, p->length, UT_LCL | (right ? UT_STRONG : 0));

    write_word(SRC);
    comm.rmt = end.id;
    comm.rmt_stadd = end.stadd + ALIAS + p->at;
    ut_start_busy(&comm);
    comm.lcl_stadd = end.stadd + SRC + LONG;
    comm.data = end.mem + SRC + LONG;
    comm.rmt_stadd = aliases[0];
    ut_start_busy(&comm);
    mrq(2);
}
static void own_vcqs(const struct program *p, bool right)
{
    struct ut_comm comm = comm_of(p->kind, SRC, 0, p->length, UT_LCL);
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    CHECK_OK(utofu_create_vcq(1, 0, &vcq));
    CHECK_OK(utofu_query_vcq_id(vcq, &id));
    CHECK_OK(utofu_reg_mem(vcq, end.mem + ALIAS, ALIAS, 0, &stadd));
    write_word(SRC);
    comm.rmt = end.id;
    comm.rmt_stadd = end.stadd + ALIAS + p->at;
    ut_start_busy(&comm);
    if (right)
        mrq(1);
    comm.lcl_stadd = end.stadd + SRC + LONG;
    comm.data = end.mem + SRC + LONG;
    comm.rmt = id;
    comm.rmt_stadd = stadd;
    ut_start_busy(&comm);
    mrq(right ? 1 : 2);
    CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    CHECK_OK(utofu_free_vcq(vcq));
}

/* Two threads on one VCQ, created with the flags (3.3.4.1): wrong without THREAD_SAFE, unless a
 * mutex separates their calls. */
struct sharer {
    const struct program *program;
    struct ut_end *end;
    pthread_mutex_t *mutex; /* or NULL */
    size_t at;
};
static void *share(void *arg)
{
    const struct sharer *s = arg;

    for (int i = 0; i < CALLS; i++) {
        struct ut_comm comm = comm_of(s->program->kind, SRC, s->at, s->program->length, 0);
        void *cbdata;
        int rc;
        comm.vcq = s->end->vcq;
        comm.lcl_stadd = s->end->stadd + SRC;
        do {
            if (s->mutex)
                pthread_mutex_lock(s->mutex);
            rc = i % 2 ? utofu_poll_tcq(s->end->vcq, 0, &cbdata) : ut_start(&comm);
            if (s->mutex)
                pthread_mutex_unlock(s->mutex);
        } while (rc == UTOFU_ERR_BUSY);
        CHECK(rc == UTOFU_SUCCESS || (i % 2 && rc == UTOFU_ERR_NOT_FOUND));
    }
    return NULL;
}
static void two_threads(const struct program *p, bool right)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool locks = right && !p->at;
    struct ut_end shared;
    pthread_t threads[2];
    struct sharer sharers[2];

    ut_end_open(&shared, 2, right && p->at ? UTOFU_VCQ_FLAG_THREAD_SAFE : 0, SIZE);
    for (size_t i = 0; i < 2; i++) {
        sharers[i] = (struct sharer){p, &shared, locks ? &mutex : NULL, i * ALIAS};
        CHECK_EQ(pthread_create(&threads[i], NULL, share, &sharers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    struct ut_comm comm = comm_of(UT_PIGGYBACK8, SRC, LONG, 8, UT_LCL | UT_STRONG);
    struct utofu_mrq_notice notice;
    comm.vcq = shared.vcq;
    ut_start_busy(&comm);
    CHECK_OK(ut_await_mrq(shared.vcq, &notice));
    ut_end_close(&shared);
}

/* ARMW beside puts and gets of the same word (2.2.5). */
static void put_armw(const struct program *p, bool right)
{
    write_word(SRC);
    start(p->kind, SRC, 0, p->length, UT_LCL);
    armw(8, p->at, UT_LCL | (right ? UT_STRONG : 0));
    mrq(2);
}
static void armw_put(const struct program *p, bool right)
{
    write_word(SRC);
    armw(8, p->at, UT_LCL);
    start(p->kind, SRC, 0, p->length, UT_LCL | (right ? UT_STRONG : 0));
    mrq(2);
}
static void armw_put_other_word(const struct program *p, bool right)
{
    armw(p->at, 8, UT_LCL);
    start(UT_PUT, SRC, right ? 16 : 8, 8, UT_LCL);
    mrq(2);
}
static void armw_sizes(const struct program *p, bool right)
{
    armw(8, 0, UT_LCL);
    armw(right ? 8 : 4, p->at, UT_LCL);
    mrq(2);
}
static void armw_sizes_reverse(const struct program *p, bool right)
{
    armw(4, p->at, UT_LCL);
    armw(right ? 4 : 8, right ? p->at : 0, UT_LCL);
    mrq(2);
}

/* PADDING (2.2.11). */
static void padding_flag(const struct program *p, bool right)
{
    start(p->kind, SRC, 0, p->length,
          UT_LCL |
              (right ? p->kind == UT_PIGGYBACK || p->kind == UT_PIGGYBACK8 ? PAD | INJECT : INJECT
                     : p->flags));
    mrq(1);
}
static void padding_line(const struct program *p, bool right)
{
    size_t to = right ? 512 : p->at;

    write_word(SRC);
    if (p->kind == UT_PIGGYBACK) {
        start(UT_PIGGYBACK, SRC, 0, 8, UT_LCL | PAD | INJECT);
        start(UT_PUT, SRC + LONG, to, p->length, UT_LCL);
    } else {
        start(UT_PUT, SRC + LONG, to, p->length, UT_LCL);
        start(UT_PIGGYBACK, SRC, 0, 8, UT_LCL | PAD | INJECT);
    }
    mrq(2);
}

/* Local STADDs (3.6): beyond the region, of another VCQ's or a freed registration. */
static void beyond(const struct program *p, bool right)
{
    struct ut_comm comm = comm_of(p->kind, 0, 0, p->length, UT_TCQ | UT_LCL);
    struct utofu_mrq_notice notice;
    void *cbdata;

    comm.lcl_stadd = end.stadd + (right ? SRC : end.size + 8 - p->at);
    ut_start_busy(&comm);
    int rc = ut_await_tcq(end.vcq, &cbdata);
    CHECK(right == (rc == UTOFU_SUCCESS) || ut_is_get(p->kind));
    if (rc == UTOFU_SUCCESS)
        rc = ut_await_mrq(end.vcq, &notice);
    CHECK(right == (rc == UTOFU_SUCCESS));
}
static void freed_stadd(const struct program *p, bool right)
{
    uint8_t *mem = ut_pages(p->length);
    struct ut_comm comm = comm_of(UT_PUT, 0, 0, p->length, UT_TCQ);
    void *cbdata;

    CHECK_OK(utofu_reg_mem(end.vcq, mem, p->length, 0, &comm.lcl_stadd));
    if (!right)
        CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    ut_start_busy(&comm);
    CHECK(right == (ut_await_tcq(end.vcq, &cbdata) == UTOFU_SUCCESS));
    if (right)
        CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    munmap(mem, p->length);
}
static void read_only(const struct program *p, bool right)
{
    uint8_t *mem = ut_pages(p->length);
    struct ut_comm comm = comm_of(UT_GET, 0, 0, p->length, UT_LCL);
    struct utofu_mrq_notice notice;

    CHECK_OK(utofu_reg_mem(end.vcq, mem, p->length, right ? 0 : UTOFU_REG_MEM_FLAG_READ_ONLY,
                           &comm.lcl_stadd));
    ut_start_busy(&comm);
    CHECK(right == (ut_await_mrq(end.vcq, &notice) == UTOFU_SUCCESS));
    CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    munmap(mem, p->length);
}

/* Memory is deregistered while it is used (3.6). */
static void deregister(const struct program *p, bool right)
{
    uint8_t *mem = ut_pages(p->length);
    bool get = ut_is_get(p->kind);
    struct ut_comm comm = comm_of(p->kind, 0, 0, p->length, get ? UT_LCL : UT_TCQ);

    struct utofu_mrq_notice notice;
    void *cbdata;

    comm.prepared = p->prepared;
    CHECK_OK(utofu_reg_mem(end.vcq, mem, p->length, 0, &comm.lcl_stadd));
    ut_start_busy(&comm);
    if (right && get)
        mrq(1);
    else if (right)
        tcq(1);
    CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    if (!right && get)
        ut_await_mrq(end.vcq, &notice);
    else if (!right)
        ut_await_tcq(end.vcq, &cbdata); /* it may have failed */
    munmap(mem, p->length);
}
static void deregister_one_of_two(const struct program *p, bool right)
{
    uint8_t *mem = ut_pages(p->length);
    struct ut_comm comm = comm_of(UT_PUT, 0, 0, p->length, UT_TCQ);
    void *cbdata;

    for (int i = 0; i < 2; i++)
        CHECK_OK(utofu_reg_mem(end.vcq, mem, p->length, 0, &comm.lcl_stadd));
    if (!right)
        CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    ut_start_busy(&comm);
    CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    CHECK(ut_await_tcq(end.vcq, &cbdata) == UTOFU_SUCCESS || !right);
    if (right)
        CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    munmap(mem, p->length);
}

/* Memory is unmapped while it is used (3.6). */
static void unmap(const struct program *p, bool right)
{
    uint8_t *mem = ut_pages(p->length);
    bool get = ut_is_get(p->kind);
    struct ut_comm comm = comm_of(p->kind, 0, 0, p->length, get ? UT_LCL : UT_TCQ);
    struct utofu_mrq_notice notice;
    void *cbdata;

    CHECK_OK(utofu_reg_mem(end.vcq, mem, p->length, 0, &comm.lcl_stadd));
    ut_start_busy(&comm);
    if (!right)
        munmap(mem, p->length);
    if (get)
        CHECK(ut_await_mrq(end.vcq, &notice) == UTOFU_SUCCESS || !right);
    else
        CHECK(ut_await_tcq(end.vcq, &cbdata) == UTOFU_SUCCESS || !right);
    CHECK_OK(utofu_dereg_mem(end.vcq, comm.lcl_stadd, 0));
    munmap(mem, p->length);
}

/* A VCQ is freed, the process ends, with a communication under way. */
static void free_vcq(const struct program *p, bool right)
{
    struct ut_end other;

    ut_end_open(&other, 1, 0, SIZE);
    struct ut_comm comm = comm_of(p->kind, SRC, 0, p->length, UT_LCL | p->flags);
    comm.vcq = other.vcq;
    comm.lcl_stadd = other.stadd + SRC;
    struct utofu_mrq_notice notice;
    ut_start_busy(&comm);
    if (right)
        CHECK_OK(ut_await_mrq(other.vcq, &notice));
    CHECK_OK(utofu_free_vcq(other.vcq));
    munmap(other.mem, SIZE);
}
static void leave(const struct program *p, bool right)
{
    start_one(p, UT_LCL);
    if (right)
        mrq(1);
    ut_mark_dead(0);
    exit(EXIT_SUCCESS);
}

/* A communication fails, and its error is not polled (3.7). */
static void unread_error(const struct program *p, bool right)
{
    struct ut_end other;
    struct utofu_mrq_notice notice;

    ut_end_open(&other, 1, 0, SIZE);
    struct ut_comm comm = comm_of(p->kind, 0, 0, p->length, UT_LCL | p->flags);
    comm.vcq = other.vcq;
    comm.lcl_stadd = other.stadd;
    comm.rmt_stadd = peers[1].stadd + p->at;
    ut_start_busy(&comm);
    /* queries the notices of this VCQ without taking one */
    for (size_t count = 0; count == 0; ut_relax())
        CHECK_OK(utofu_query_num_unread_mrq(other.vcq, &count));
    if (right)
        CHECK(ut_await_mrq(other.vcq, &notice) != UTOFU_SUCCESS);
    CHECK_OK(utofu_free_vcq(other.vcq));
    munmap(other.mem, SIZE);
}

/*
 * Session mode: a relay of this process, whose puts to rank 1 start when a put has arrived
 */

static void open_relay(struct ut_end *relay)
{
    ut_end_open(relay, 1, UTOFU_VCQ_FLAG_SESSION_MODE, SIZE);
}
static void relay_put(const struct ut_end *relay, size_t from, size_t to, size_t length,
                      unsigned long int flags)
{
    CHECK_OK(utofu_put(relay->vcq, peers[1].id, relay->stadd + from, peers[1].stadd + to, length, 0,
                       UT_TCQ | flags, NULL));
}
/* Starts `sps` of them; the notice shows that the put has arrived. */
static void trigger(const struct ut_end *relay, unsigned int sps)
{
    struct utofu_mrq_notice notice;
    struct ut_comm comm = comm_of(UT_PUT, SRC + 3 * STRIDE, 0, 8,
                                  UT_RMT | UTOFU_ONESIDED_FLAG_SPS((unsigned long int)sps));

    comm.rmt = relay->id;
    comm.rmt_stadd = relay->stadd;
    taken += ut_start_busy(&comm);
    CHECK_OK(ut_await_mrq(relay->vcq, &notice));
}
static void await_relayed(const struct ut_end *relay, size_t n)
{
    void *cbdata;

    while (n-- > 0)
        CHECK_OK(ut_await_tcq(relay->vcq, &cbdata));
}
static void write_relayed(struct ut_end *relay, size_t at)
{
    __atomic_store_n((uint64_t *)(relay->mem + at / 8 * 8), ++value, __ATOMIC_RELAXED);
}

/* Writes the source of a put that was started, in the wrong version before its TCQ entry. */
static void write_source(struct ut_end *relay, size_t at, bool right)
{
    if (right)
        await_relayed(relay, 1);
    write_relayed(relay, at);
    if (!right)
        await_relayed(relay, 1);
    ut_end_close(relay);
}

/* Writes the source of a put after it was started (2.2.8.1), and in the right version also before
 * that. */
static void relay_source(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    relay_put(&relay, SRC, 0, p->length, p->flags);
    write_relayed(&relay, SRC + p->at);
    trigger(&relay, 1);
    write_source(&relay, SRC + p->at, right);
}
/* The same if the put that starts it has arrived before. */
static void late_relay_source(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    trigger(&relay, 1);
    write_relayed(&relay, SRC + p->at);
    relay_put(&relay, SRC, 0, p->length, p->flags);
    write_source(&relay, SRC + p->at, right);
}
/* The second one of two puts that start in sequence, with a NOP between them. */
static void second_relay_source(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    relay_put(&relay, SRC, 0, p->length, 0);
    CHECK_OK(utofu_nop(relay.vcq, 0, NULL));
    relay_put(&relay, SRC + LONG, LONG, p->length, 0);
    trigger(&relay, 1);
    await_relayed(&relay, 1);
    write_relayed(&relay, SRC);
    write_relayed(&relay, SRC + LONG);
    trigger(&relay, 2);
    write_source(&relay, SRC + LONG, right);
}
/* One put starts two that write the same memory. */
static void two_relayed(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    write_relayed(&relay, SRC);
    relay_put(&relay, SRC, p->at, p->length, 0);
    relay_put(&relay, SRC + LONG, 0, p->length, right ? UT_STRONG : 0);
    trigger(&relay, 2);
    await_relayed(&relay, 2);
    ut_end_close(&relay);
}
/* A put of another VCQ, and one that an arrival starts, write the same memory. */
static void put_and_relayed(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    trigger(&relay, 1);
    write_relayed(&relay, SRC);
    start(UT_PUT, SRC, 0, p->length, UT_LCL);
    if (right)
        mrq(1);
    relay_put(&relay, SRC, p->at, p->length, 0);
    await_relayed(&relay, 1);
    mrq(right ? 0 : 1);
    ut_end_close(&relay);
}
static void deregister_relayed(const struct program *p, bool right)
{
    struct ut_end relay;
    utofu_stadd_t stadd;
    void *cbdata;

    open_relay(&relay);
    CHECK_OK(utofu_reg_mem(relay.vcq, relay.mem + SRC, LONG, 0, &stadd));
    CHECK_OK(utofu_put(relay.vcq, peers[1].id, stadd, peers[1].stadd, p->length, 0, UT_TCQ, NULL));
    trigger(&relay, 1);
    if (right)
        await_relayed(&relay, 1);
    CHECK_OK(utofu_dereg_mem(relay.vcq, stadd, 0));
    if (!right)
        ut_await_tcq(relay.vcq, &cbdata); /* it may have failed */
    ut_end_close(&relay);
}
static void free_relay(const struct program *p, bool right)
{
    struct ut_end relay;

    open_relay(&relay);
    relay_put(&relay, SRC, 0, p->length, 0);
    trigger(&relay, 1);
    if (right)
        await_relayed(&relay, 1);
    CHECK_OK(utofu_free_vcq(relay.vcq));
    munmap(relay.mem, SIZE);
}

static const struct program programs[] = {
    {"source_8", "source-written", source, .kind = UT_PUT, .length = 8},
    {"source_39_rest", "source-written", source, .kind = UT_PUT, .length = 39, .at = 32},
    {"source_64", "source-written", source, .kind = UT_PUT, .length = 64},
    {"source_1000_last", "source-written", source, .kind = UT_PUT, .length = 1000, .at = 999},
    {"source_4096_middle", "source-written", source, .kind = UT_PUT, .length = 4096, .at = 2048},
    {"source_64k_first", "source-written", source, .kind = UT_PUT, .length = LONG},
    {"source_64k_last", "source-written", source, .kind = UT_PUT, .length = LONG, .at = LONG - 1},
    {"source_strong", "source-written", source, .kind = UT_PUT, .length = 256, .flags = UT_STRONG},
    {"source_delayed", "source-written", source, .kind = UT_PUT, .length = 256, .flags = DELAY},
    {"source_injected", "source-written", source, .kind = UT_PUT, .length = 256, .flags = INJECT},
    {"source_gap", "source-written", source, .kind = UT_PUT_GAP, .length = 256},
    {"source_stride", "source-written", source, .kind = UT_PUT_STRIDE, .length = 256,
     .at = 2 * STRIDE + 8},
    {"source_stride_gap", "source-written", source, .kind = UT_PUT_STRIDE_GAP, .length = 256,
     .at = 3 * STRIDE},
    {"source_prepared", "source-written", source, .kind = UT_PUT, .length = 64, .prepared = true},
    {"source_prepared_stride", "source-written", source, .kind = UT_PUT_STRIDE, .length = 64,
     .at = STRIDE, .prepared = true},
    {"source_second", "source-written", second_source, .waits = true, .kind = UT_PUT, .length = 64},
    {"source_second_4096", "source-written", second_source, .waits = true, .kind = UT_PUT,
     .length = 4096},
    {"source_last_of_8", "source-written", last_source, .waits = true, .kind = UT_PUT, .length = 64,
     .at = 8},
    {"source_last_of_40", "source-written", last_source, .waits = true, .kind = UT_PUT,
     .length = 256, .at = 40},
    {"source_local_notice", "source-written", source_and_notice, .kind = UT_PUT, .length = 512},
    {"relay_source", "source-written", relay_source, .kind = UT_PUT, .length = 8},
    {"relay_source_last", "source-written", relay_source, .kind = UT_PUT, .length = 1000,
     .at = 999},
    {"relay_source_64k", "source-written", relay_source, .kind = UT_PUT, .length = LONG, .at = 8},
    {"relay_source_strong", "source-written", relay_source, .kind = UT_PUT, .length = 256,
     .flags = UT_STRONG},
    {"relay_source_late", "source-written", late_relay_source, .kind = UT_PUT, .length = 64},
    {"relay_source_second", "source-written", second_relay_source, .kind = UT_PUT, .length = 64},
    {"target_8", "target-written", target, .kind = UT_GET, .length = 8},
    {"target_1000", "target-written", target, .kind = UT_GET, .length = 1000, .at = 992},
    {"target_64k", "target-written", target, .kind = UT_GET, .length = LONG, .at = 8},
    {"target_gap", "target-written", target, .kind = UT_GET_GAP, .length = 64},
    {"target_stride", "target-written", target, .kind = UT_GET_STRIDE, .length = 64, .at = STRIDE},
    {"target_prepared", "target-written", target, .kind = UT_GET, .length = 64, .prepared = true},
    {"target_other_tcq", "target-written", target_after_tcq, .waits = true, .kind = UT_GET,
     .length = 64},
    {"get_into_source", "local-overlap", get_into_source, .kind = UT_GET, .length = 64},
    {"get_into_source_part", "local-overlap", get_into_source, .kind = UT_GET, .length = 64,
     .at = 56},
    {"get_into_source_strong", "local-overlap", get_into_source, .kind = UT_GET, .length = 64,
     .flags = UT_STRONG},
    {"put_of_target", "local-overlap", put_of_target, .kind = UT_PUT, .length = 64},
    {"put_of_target_part", "local-overlap", put_of_target, .kind = UT_PUT, .length = 4096,
     .at = 4088},
    {"two_gets", "local-overlap", two_gets, .kind = UT_GET, .length = 64},
    {"two_gets_part", "local-overlap", two_gets, .kind = UT_GET, .length = 1024, .at = 512},
    {"put_put_8", "unordered", put_put, .kind = UT_PUT, .length = 8},
    {"put_put_4096", "unordered", put_put, .kind = UT_PUT, .length = 4096},
    {"put_piggyback", "unordered", put_put, .kind = UT_PIGGYBACK, .length = 8},
    {"put_put_gap", "unordered", put_put, .kind = UT_PUT_GAP, .length = 512},
    {"put_put_part", "unordered", put_put, .kind = UT_PUT, .length = 512, .at = 504},
    {"piggyback_put", "unordered", piggyback_put, .kind = UT_PUT, .length = 32},
    {"put_get", "unordered", put_get, .kind = UT_GET, .length = 64},
    {"put_get_64k", "unordered", put_get, .kind = UT_GET, .length = LONG / 2},
    {"get_put", "unordered", get_put, .kind = UT_PUT, .length = 64},
    {"get_piggyback", "unordered", get_put, .kind = UT_PIGGYBACK8, .length = 8},
    {"put_put_notice", "unordered", put_put_notice, .kind = UT_PUT, .length = 64, .at = 8},
    {"put_put_apart", "unordered", put_put_apart, .kind = UT_PUT, .length = 4096},
    {"put_put_same", "unordered", put_put_same, .kind = UT_PUT, .length = 512},
    {"strong_first", "unordered", strong_first, .kind = UT_PUT, .length = 64},
    {"strong_path", "unordered", strong_path, .kind = UT_PUT, .length = 64},
    {"two_vcqs_put", "unordered", two_vcqs, .kind = UT_PUT, .length = 256, .flags = UT_STRONG},
    {"two_vcqs_put_part", "unordered", two_vcqs, .kind = UT_PUT, .length = 256, .at = 248},
    {"two_vcqs_get", "unordered", two_vcqs, .kind = UT_GET, .length = 64},
    {"two_relayed", "unordered", two_relayed, .kind = UT_PUT, .length = 64},
    {"two_relayed_part", "unordered", two_relayed, .kind = UT_PUT, .length = 4096, .at = 4088},
    {"put_and_relayed", "unordered", put_and_relayed, .kind = UT_PUT, .length = 64},
    {"alias_put", "unordered", alias, .waits = true, .kind = UT_PUT, .length = 64},
    {"alias_put_part", "unordered", alias, .waits = true, .kind = UT_PUT, .length = 512, .at = 504},
    {"alias_piggyback", "unordered", alias, .waits = true, .kind = UT_PIGGYBACK, .length = 32},
    {"alias_get", "unordered", alias, .waits = true, .kind = UT_GET, .length = 4096},
    {"alias_apart", "unordered", alias_apart, .waits = true, .kind = UT_PUT, .length = 512},
    {"alias_armw", "armw-mixed", alias_armw, .waits = true, .kind = UT_PUT, .length = 8, .at = 8},
    {"alias_armw_sizes", "armw-size", alias_armw_sizes, .waits = true, .kind = UT_PUT, .length = 8,
     .at = 4},
    {"alias_padding", "padding-line", alias_padding, .waits = true, .kind = UT_PUT, .length = 8,
     .at = 248},
    {"own_alias_put", "unordered", own_alias, .kind = UT_PUT, .length = 64, .once = true},
    {"own_alias_part", "unordered", own_alias, .kind = UT_PUT, .length = 64, .at = 56},
    {"own_alias_piggyback", "unordered", own_alias, .kind = UT_PIGGYBACK8, .length = 8},
    {"own_vcqs_put", "unordered", own_vcqs, .kind = UT_PUT, .length = 64},
    {"own_vcqs_part", "unordered", own_vcqs, .kind = UT_PUT, .length = 64, .at = 8},
    {"put_armw", "armw-mixed", put_armw, .kind = UT_PUT, .length = 8},
    {"put_armw_within", "armw-mixed", put_armw, .kind = UT_PUT, .length = 256, .at = 64},
    {"piggyback_armw", "armw-mixed", put_armw, .kind = UT_PIGGYBACK, .length = 8},
    {"get_armw", "armw-mixed", put_armw, .kind = UT_GET, .length = 64, .at = 56},
    {"armw_put", "armw-mixed", armw_put, .kind = UT_PUT, .length = 64, .at = 8},
    {"armw_get", "armw-mixed", armw_put, .kind = UT_GET, .length = 16, .at = 8},
    {"armw8_put_other_word", "armw-mixed", armw_put_other_word, .kind = UT_PUT, .length = 8,
     .at = 8},
    {"armw4_put_other_word", "armw-mixed", armw_put_other_word, .kind = UT_PUT, .length = 8,
     .at = 4},
    {"armw_sizes", "armw-size", armw_sizes, .kind = UT_PUT, .length = 8},
    {"armw_sizes_reverse", "armw-size", armw_sizes_reverse, .kind = UT_PUT, .length = 8},
    {"padding_put", "padding-flag", padding_flag, .kind = UT_PUT, .length = 8, .flags = PAD},
    {"padding_put_injection", "padding-flag", padding_flag, .kind = UT_PUT, .length = 8,
     .flags = PAD | INJECT},
    {"padding_get", "padding-flag", padding_flag, .kind = UT_GET, .length = 8,
     .flags = PAD | INJECT},
    {"padding_no_injection", "padding-flag", padding_flag, .kind = UT_PIGGYBACK, .length = 8,
     .flags = PAD},
    {"padding_no_injection_8", "padding-flag", padding_flag, .kind = UT_PIGGYBACK8, .length = 8,
     .flags = PAD},
    {"padding_line_before", "padding-line", padding_line, .kind = UT_PUT, .length = 8, .at = 64},
    {"padding_line_behind", "padding-line", padding_line, .kind = UT_PIGGYBACK, .length = 8,
     .at = 248},
    {"put_beyond", "local-stadd", beyond, .kind = UT_PUT, .length = 64, .at = 32},
    {"put_behind", "local-stadd", beyond, .kind = UT_PUT, .length = 8},
    {"get_beyond", "local-stadd", beyond, .kind = UT_GET, .length = 64, .at = 63},
    {"freed_stadd", "local-stadd", freed_stadd, .kind = UT_PUT, .length = 4096},
    {"read_only", "local-stadd", read_only, .kind = UT_GET, .length = 4096},
    {"deregister_put", "deregistered", deregister, .kind = UT_PUT, .length = 4096},
    {"deregister_get", "deregistered", deregister, .kind = UT_GET, .length = 4096},
    {"deregister_gap", "deregistered", deregister, .kind = UT_PUT_GAP, .length = 4096},
    {"deregister_prepared", "deregistered", deregister, .kind = UT_PUT, .length = 4096,
     .prepared = true},
    {"deregister_relayed", "deregistered", deregister_relayed, .kind = UT_PUT, .length = 4096},
    {"deregister_one_of_two", "deregistered", deregister_one_of_two, .kind = UT_PUT,
     .length = 4096},
    {"unmap_put", "unmapped", unmap, .kind = UT_PUT, .length = 4096, .once = true, .dies = true},
    {"unmap_get", "unmapped", unmap, .kind = UT_GET, .length = 4096, .once = true, .dies = true},
    {"free_vcq_put", "vcq-freed", free_vcq, .kind = UT_PUT, .length = 64, .once = true},
    {"free_vcq_piggyback", "vcq-freed", free_vcq, .kind = UT_PIGGYBACK, .length = 8, .once = true},
    {"free_vcq_get", "vcq-freed", free_vcq, .kind = UT_GET, .length = 64, .once = true},
    {"free_vcq_delayed", "vcq-freed", free_vcq, .kind = UT_PUT, .length = 64, .flags = DELAY,
     .once = true},
    {"free_relay", "vcq-freed", free_relay, .kind = UT_PUT, .length = 64, .once = true},
    {"leave_put", "unfinished", leave, .kind = UT_PUT, .length = 64, .once = true},
    {"leave_get", "unfinished", leave, .kind = UT_GET, .length = 64, .once = true},
    {"leave_piggyback", "unfinished", leave, .kind = UT_PIGGYBACK8, .length = 8, .once = true},
    {"two_threads_locked", "concurrent-calls", two_threads, .kind = UT_PUT, .length = 64,
     .once = true},
    {"two_threads_safe", "concurrent-calls", two_threads, .kind = UT_PUT, .length = 4096, .at = 1,
     .once = true},
    {"unread_error_put", "error-unread", unread_error, .kind = UT_PUT, .length = 64, .at = 1 << 30,
     .once = true},
    {"unread_error_get", "error-unread", unread_error, .kind = UT_GET, .length = 64, .at = 1 << 30,
     .once = true},
    {"unread_error_length", "error-unread", unread_error, .kind = UT_PUT, .length = 64,
     .at = SIZE - 16, .once = true},
};

/*
 * Correct programs that a less careful check would report
 */

/* Ping-pong by polling memory, without notices: the answer shows that the source was read. */
static void memory_ping_pong(void)
{
    for (uint64_t i = 1; i <= 20; i++) {
        if (ut_rank == 1)
            ut_await_word((uint64_t *)end.mem, i);
        memcpy(end.mem + SRC, &i, 8);
        struct ut_comm comm = comm_of(UT_PUT, SRC, 0, 8, 0);
        comm.rmt = peers[1 - ut_rank].id;
        comm.rmt_stadd = peers[1 - ut_rank].stadd;
        ut_start_busy(&comm);
        if (ut_rank == 0)
            ut_await_word((uint64_t *)end.mem, i);
    }
}

/* The same with remote notices; TCQ entries are taken much later. */
static void notice_ping_pong(void)
{
    for (uint64_t i = 1; i <= 20; i++) {
        if (ut_rank == 1)
            mrq(1);
        memcpy(end.mem + SRC, &i, 8);
        struct ut_comm comm = comm_of(UT_PUT, SRC, 0, 64, UT_RMT | UT_TCQ);
        comm.rmt = peers[1 - ut_rank].id;
        comm.rmt_stadd = peers[1 - ut_rank].stadd;
        taken += ut_start_busy(&comm);
        if (ut_rank == 0)
            mrq(1);
    }
    tcq(20);
}

/* The data of a piggyback put are in the descriptor. */
static void piggyback_source(void)
{
    for (int i = 0; i < 10 && ut_rank == 0; i++) {
        start(UT_PIGGYBACK, SRC, (size_t)i * 64, 32, UT_TCQ);
        write_word(SRC);
        tcq(1);
    }
}

/* Two buffers in turn. */
static void double_buffer(void)
{
    if (ut_rank == 1)
        return;
    for (size_t i = 0; i < 20; i++) {
        if (i >= 2)
            tcq(1);
        write_word(SRC + i % 2 * LONG);
        start(UT_PUT, SRC + i % 2 * LONG, i * 1024, 1024, UT_TCQ);
    }
    tcq(2);
}

/* Rank 1 has received word number i, and answers. */
static void answer(uint64_t i)
{
    struct ut_comm back = comm_of(UT_PIGGYBACK8, 0, 0, 8, 0);

    ut_await_word((uint64_t *)(end.mem + LONG), i);
    back.rmt = peers[0].id;
    back.rmt_stadd = peers[0].stadd;
    back.data = &i;
    ut_start_busy(&back);
}

/* Data and a flag, in sequence and ordered; many times to the same place, each with an answer. */
static void flag_behind_data(void)
{
    for (uint64_t i = 1; i <= 20; i++) {
        if (ut_rank == 1) {
            answer(i);
            continue;
        }
        memcpy(end.mem + SRC, &i, 8);
        start(UT_PUT, SRC, 0, 4096, 0);
        struct ut_comm flag = comm_of(UT_PIGGYBACK8, 0, LONG, 8, UT_STRONG);
        flag.data = &i;
        ut_start_busy(&flag);
        ut_await_word((uint64_t *)end.mem, i);
    }
}

/* Atomics of several kinds on one word, without any order; words next to it. */
static void many_atomics(void)
{
    for (int i = 0; i < 20 && ut_rank == 0; i++) {
        armw(8, 0, UT_LCL);
        armw(4, 8, UT_LCL);
        armw(4, 12, UT_LCL);
        mrq(3);
    }
}

/* Puts from and gets of memory that other communications of this process use in the same way. */
static void shared_reads(void)
{
    if (ut_rank == 1)
        return;
    start(UT_PUT, SRC, 0, 1024, UT_LCL);
    start(UT_PUT, SRC, 2048, 1024, UT_LCL);
    start(UT_GET, SRC + LONG, 4096, 1024, UT_LCL);
    start(UT_GET, SRC + LONG + 1024, 4096, 1024, UT_LCL);
    mrq(4);
}

/* A word that the program writes, adds to, and polls with gets, which may read either value. */
static void polls_with_gets(void)
{
    if (ut_rank == 1)
        return;
    start(UT_PIGGYBACK8, SRC, 0, 8, UT_LCL);
    start(UT_GET, SRC + LONG, 0, 8, UT_LCL);
    mrq(2);
    armw(8, 64, UT_LCL);
    start(UT_GET, SRC + LONG, 64, 8, UT_LCL);
    start(UT_GET, SRC + LONG + 8, 68, 4, UT_LCL);
    armw(4, 68, UT_LCL | UT_STRONG);
    mrq(4);
}

/* NOPs, empty puts, and blocks side by side. */
static void nothing_and_blocks(void)
{
    if (ut_rank == 1)
        return;
    CHECK_OK(utofu_nop(end.vcq, UT_TCQ, NULL));
    start(UT_PUT, SRC, 0, 0, UT_TCQ);
    start(UT_PUT, SRC, 0, 64, UT_TCQ);
    struct ut_comm comm = comm_of(UT_PUT_STRIDE, SRC, 1024, STRIDE, UT_TCQ);
    ut_start_busy(&comm);
    tcq(3 + BLOCKS);
}

/* The same address in the memory of two processes, which are forks of one. In the first round the
 * addresses are not known yet. */
static void same_address(void)
{
    static uint8_t memory[4096] __attribute__((aligned(4096)));
    enum { TWICE = 2 };
    utofu_stadd_t mine, all[PROCS];

    CHECK_OK(utofu_reg_mem(end.vcq, memory, sizeof(memory), 0, &mine));
    ut_allgather(&mine, all, sizeof(mine));
    for (int round = 0; round < TWICE; round++) {
        for (int i = PROCS; i-- > 0 && ut_rank == 0;) {
            write_word(SRC + (size_t)i * STRIDE);
            struct ut_comm comm = comm_of(UT_PUT, SRC + (size_t)i * STRIDE, 0, 64, UT_LCL);
            comm.rmt = peers[i].id;
            comm.rmt_stadd = all[i];
            ut_start_busy(&comm);
        }
        mrq(ut_rank == 0 ? PROCS : 0);
    }
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, mine, 0));
}

/* STADDs of a VCQ that is freed and created again, when two of them no longer refer to the same
 * memory; and the same for a reserved STag. */
static void stadds_made_anew(void)
{
    for (int turn = 0; turn < 2; turn++) {
        struct {
            utofu_vcq_id_t id;
            utofu_stadd_t whole, part, reserved;
        } mine = {0}, all[PROCS];
        uint8_t *part = end.mem + (turn ? 2 * LONG : 0);
        utofu_vcq_hdl_t vcq;
        if (ut_rank == 1) {
            CHECK_OK(utofu_create_vcq(1, 0, &vcq));
            CHECK_OK(utofu_query_vcq_id(vcq, &mine.id));
            CHECK_OK(utofu_reg_mem(vcq, end.mem, ALIAS, 0, &mine.whole));
            CHECK_OK(utofu_reg_mem(vcq, part, ALIAS / 2, 0, &mine.part));
            CHECK_OK(utofu_reg_mem_with_stag(vcq, part, ALIAS / 2, 7, 0, &mine.reserved));
        }
        ut_allgather(&mine, all, sizeof(mine));
        for (int i = 0; i < 3 && ut_rank == 0; i++) {
            utofu_stadd_t to[] = {all[1].whole, all[1].part, all[1].reserved};
            write_word(SRC + (size_t)i * STRIDE);
            struct ut_comm comm = comm_of(UT_PUT, SRC + (size_t)i * STRIDE, 0, 64, UT_LCL);
            comm.rmt = all[1].id;
            comm.rmt_stadd = to[i];
            comm.flags |= i == 2 ? UT_STRONG : 0;
            ut_start_busy(&comm);
            if (turn == 0)
                mrq(1);
        }
        if (ut_rank == 0 && turn == 1)
            mrq(3);
        ut_barrier();
        if (ut_rank == 1) {
            CHECK_OK(utofu_dereg_mem(vcq, mine.whole, 0));
            CHECK_OK(utofu_dereg_mem(vcq, mine.part, 0));
            CHECK_OK(utofu_dereg_mem(vcq, mine.reserved, 0));
            CHECK_OK(utofu_free_vcq(vcq));
        }
        ut_barrier();
    }
}

/* Each put of rank 0 to its relay has the data that the relay sends on. The answer of rank 1 shows
 * that they were read; TCQ entries are taken much later. */
static void relayed_ping_pong(void)
{
    struct ut_end relay;
    struct ut_peer mine = {0}, all[PROCS];

    if (ut_rank == 0) {
        open_relay(&relay);
        mine = ut_end_peer(&relay);
    }
    ut_allgather(&mine, all, sizeof(mine));
    for (uint64_t i = 1; i <= 20; i++) {
        if (ut_rank == 1) {
            answer(i);
            continue;
        }
        relay_put(&relay, SRC, LONG, 64, 0);
        memcpy(end.mem + SRC, &i, 8);
        struct ut_comm comm = comm_of(UT_PUT, SRC, 0, 64, UTOFU_ONESIDED_FLAG_SPS(1ul));
        comm.rmt = all[0].id;
        comm.rmt_stadd = all[0].stadd + SRC;
        taken += ut_start_busy(&comm);
        ut_await_word((uint64_t *)end.mem, i);
    }
    if (ut_rank == 0) {
        await_relayed(&relay, 20);
        ut_end_close(&relay);
    }
}

/* Memory that the program protects against its own access, before or during a communication.
 * Without mapped memory: then copying fails, without ending a process. */
static void protected_memory(void)
{
    uint8_t *mem = ut_pages(LONG);
    const char *provider = getenv("UTOFU_PROVIDER");
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd;
    void *cbdata;

    if (provider && strcmp(provider, "verbs") == 0)
        return; /* where the CPU reads the source of a short put */
    CHECK_OK(utofu_reg_mem(end.vcq, mem, LONG, 0, &stadd));
    for (int i = 0; i < 6 && ut_rank == 0; i++) {
        struct ut_comm comm =
            comm_of(i % 3 ? UT_PUT : UT_GET, 0, 0, i < 3 ? 64 : LONG, i % 3 ? UT_TCQ : UT_LCL);
        comm.lcl_stadd = stadd;
        mem[0]++;
        if (i % 3 == 2)
            CHECK_EQ(mprotect(mem + (i < 3 ? 0 : LONG / 2), LONG / 2, PROT_NONE), 0);
        ut_start_busy(&comm);
        CHECK_EQ(mprotect(mem, LONG, PROT_NONE), 0);
        if (i % 3) /* it may have failed */
            ut_await_tcq(end.vcq, &cbdata);
        else
            ut_await_mrq(end.vcq, &notice);
        CHECK_EQ(mprotect(mem, LONG, PROT_READ | PROT_WRITE), 0);
    }
    CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
    munmap(mem, LONG);
}

/* Calls that another thread may make at any time, on a VCQ without THREAD_SAFE (2.5). */
static void *query(void *arg)
{
    utofu_vcq_id_t id;

    (void)arg;
    for (int i = 0; i < 5 * CALLS; i++) {
        CHECK_OK(utofu_query_vcq_id(end.vcq, &id));
        CHECK_OK(utofu_wake_vcq(end.vcq));
    }
    return NULL;
}
static void queries(void)
{
    void *cbdata;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, query, NULL), 0);
    for (int i = 0; i < CALLS; i++) {
        if (i % 8 == 0)
            start(UT_PUT, SRC, (size_t)(1 - ut_rank) * ALIAS * 4, 4096, 0);
        utofu_poll_tcq(end.vcq, 0, &cbdata);
    }
    pthread_join(thread, NULL);
}

/* The program sleeps until the entry. */
static void waits(void)
{
    if (ut_rank == 0)
        start(UT_PUT, SRC, 0, 64, UT_RMT | UT_LCL);
    CHECK_OK(utofu_wait_vcqs(&end.vcq, 1, -1));
    mrq(1);
}

static const struct {
    const char *name;
    void (*body)(void);
    const char *env;
} right_programs[] = {
    {"memory_ping_pong", memory_ping_pong, NULL},
    {"notice_ping_pong", notice_ping_pong, NULL},
    {"piggyback_source", piggyback_source, NULL},
    {"double_buffer", double_buffer, NULL},
    {"flag_behind_data", flag_behind_data, NULL},
    {"many_atomics", many_atomics, NULL},
    {"shared_reads", shared_reads, NULL},
    {"polls_with_gets", polls_with_gets, NULL},
    {"nothing_and_blocks", nothing_and_blocks, NULL},
    {"same_address", same_address, NULL},
    {"stadds_made_anew", stadds_made_anew, NULL},
    {"relayed_ping_pong", relayed_ping_pong, NULL},
    {"protected_memory", protected_memory, "UTOFU_SHM_MAP=0"},
    {"queries", queries, NULL},
    {"waits", waits, NULL},
};

/*
 * Running
 */

struct how {
    const struct program *program;
    void (*body)(void);
    const char *env;
    bool right;
    uint64_t seed; /* of UTOFU_SHUFFLE; 0: unless UT_CHECK_ENV says so, it is off */
};

static void open_all(void)
{
    utofu_stadd_t mine;

    ut_open_all(&end, SIZE, peers);
    CHECK_OK(utofu_reg_mem(end.vcq, end.mem + ALIAS, ALIAS, 0, &mine));
    ut_allgather(&mine, aliases, sizeof(mine));
    ut_flush(&end, &peers[1 - ut_rank]);
    ut_barrier();
}

static void run_body(void *arg)
{
    const struct how *how = arg;

    shuffled = how->seed != 0;
    open_all();
    if (how->body) {
        how->body();
    } else if (ut_rank == 0) {
        for (int i = 0; i < (how->program->once ? 1 : ROUNDS); i++)
            how->program->body(how->program, how->right);
    }
    ut_barrier();
    if (how->program && how->program->once)
        return; /* rank 0 may have ended */
    ut_flush(&end, &peers[1 - ut_rank]);
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, aliases[ut_rank], 0));
    ut_close_all(&end);
}

static bool run(const struct how *how, struct ut_outcome out[PROCS], char *report, size_t size)
{
    bool dies = how->program && how->program->dies && !how->right;
    struct ut_run_opts opts = {.n = PROCS,
                               .timeout_s = 60,
                               .env = {"UTOFU_CHECK=1", "UTOFU_LOG_LEVEL=error"},
                               .may_die = dies ? 1 : 0};
    const char *more[] = {getenv("UT_CHECK_ENV"), how->env, NULL};
    char shuffle[64];
    size_t n = 2;

    if (how->seed) {
        snprintf(shuffle, sizeof(shuffle), "UTOFU_SHUFFLE=%llu", (unsigned long long)how->seed);
        more[2] = shuffle;
    }
    for (size_t i = 0; i < NUM(more); i++)
        if (more[i])
            opts.env[n++] = more[i];
    return ut_run_collect(&opts, run_body, (void *)how, out, report, size);
}

/* Number i of the correct twins, followed by the other correct programs: its name, and how it
 * runs. */
static const char *describe(size_t i, struct how *how)
{
    size_t k = i - NUM(programs);

    if (i < NUM(programs)) {
        how->program = &programs[i];
        return programs[i].name;
    }
    how->body = right_programs[k].body;
    how->env = right_programs[k].env;
    return right_programs[k].name;
}

/* Puts of two VCQs to the same place: a put that arrived while the other one was held has also
 * changed its memory. */
static int num_landed(const struct ut_outcome out[PROCS])
{
    return num_findings(out, PROCS, "remote-written", NULL);
}

Test(check, wrong_programs_are_reported, .timeout = 0)
{
    struct ut_outcome out[PROCS];
    char report[4096];
    size_t found = 0, all = 0;

    for (size_t i = 0; i < NUM(programs); i++) {
        const struct how how = {.program = &programs[i]};
        int runs = 0, hits = 0;
        if (!is_chosen(programs[i].name))
            continue;
        while (hits == 0 && runs++ < MOST_RUNS) {
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", programs[i].name, report);
            hits = num_findings(out, PROCS, programs[i].id, NULL);
            cr_expect(num_findings(out, PROCS, NULL, NULL) == hits + num_landed(out),
                      "%s has other findings than %s: %s", programs[i].name, programs[i].id,
                      out[0].output);
        }
        cr_expect(hits > 0 || (programs[i].waits && getenv("UT_CHECK_SLOW")),
                  "%s is not reported: %s", programs[i].name, out[0].output);
        all++;
        found += hits > 0;
        fprintf(stderr, "%-26s %-16s run %d\n", programs[i].name, programs[i].id, runs);
    }
    fprintf(stderr, "recall: %zu of %zu wrong programs are reported\n", found, all);
    cr_expect(getenv("UT_CHECK_ONLY") || all >= 60);
}

Test(check, right_programs_are_not, .timeout = 0)
{
    uint64_t rounds = ut_env_number("UT_CHECK_ROUNDS", 1);
    struct ut_outcome out[PROCS];
    size_t silent = 0, all = 0;
    char report[4096];

    for (size_t i = 0; i < NUM(programs) + NUM(right_programs); i++) {
        struct how how = {.right = true};
        const char *name = describe(i, &how);
        bool ok = true;
        if (!is_chosen(name))
            continue;
        for (uint64_t r = 0; r < rounds; r++) {
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", name, report);
            ok &= num_findings(out, PROCS, NULL, NULL) == 0;
            cr_expect(num_findings(out, PROCS, NULL, NULL) == 0, "%s is right, but: %s", name,
                      out[0].output);
        }
        all++;
        silent += ok;
    }
    fprintf(stderr, "precision: %zu of %zu right programs have no finding\n", silent, all);
    cr_expect(getenv("UT_CHECK_ONLY") || all >= 60);
}

/*
 * Both modes at once
 */

/* Over ROUNDS rounds a correct program polls for delayed events, so it ends; a wrong one may fail
 * in its own checks, before or instead of being reported. */
Test(check, both_modes_find_wrong_programs, .timeout = 0)
{
    uint64_t first = ut_env_number("UT_CHECK_FIRST", 1);
    struct ut_outcome out[PROCS];
    size_t failed = 0, reported = 0, all = 0;
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        struct how how = {.program = &programs[i], .seed = first};
        bool fails = false;
        int hits = 0;
        if (!is_chosen(programs[i].name))
            continue;
        for (; hits == 0 && !fails && how.seed < first + MOST_RUNS; how.seed++) {
            fails = !run(&how, out, report, sizeof(report));
            hits = num_findings(out, PROCS, programs[i].id, NULL);
            cr_expect(num_findings(out, PROCS, NULL, NULL) == hits + num_landed(out),
                      "%s has other findings than %s: %s", programs[i].name, programs[i].id,
                      out[0].output);
        }
        cr_expect(fails || hits > 0 || (programs[i].waits && getenv("UT_CHECK_SLOW")),
                  "%s passes with all seeds", programs[i].name);
        all++;
        reported += hits > 0;
        failed += fails && hits == 0;
        fprintf(stderr, "%-26s %-16s seed %llu: %s\n", programs[i].name, programs[i].id,
                (unsigned long long)how.seed - 1,
                hits > 0 ? "reported"
                : fails  ? "fails"
                         : "passes");
    }
    fprintf(stderr, "both modes: of %zu wrong programs %zu are reported, and %zu fail\n", all,
            reported, failed);
    cr_expect(getenv("UT_CHECK_ONLY") || all >= 60);
}

Test(check, both_modes_leave_right_programs_alone, .timeout = 0)
{
    uint64_t first = ut_env_number("UT_CHECK_FIRST", 1);
    uint64_t seeds = ut_env_number("UT_CHECK_SEEDS", 1);
    struct ut_outcome out[PROCS];
    char report[4096];

    for (size_t i = 0; i < NUM(programs) + NUM(right_programs); i++) {
        struct how how = {.right = true};
        const char *name = describe(i, &how);
        for (how.seed = first; is_chosen(name) && how.seed < first + seeds; how.seed++) {
            cr_assert(run(&how, out, report, sizeof(report)), "%s, seed %llu: %s", name,
                      (unsigned long long)how.seed, report);
            cr_expect(num_findings(out, PROCS, NULL, NULL) == 0, "%s is right, but: %s", name,
                      out[0].output);
        }
    }
}
