/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages are remapped while they are in use: random, overlapping pieces of one heap are registered
 * and deregistered while two threads write all of it and a peer puts into registered pieces. No
 * update may be lost and no byte may be wrong.
 *
 * UT_MAP_ROUNDS: registrations.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(heap);

enum { THREADS = 2, CELL = 128, WORDS = CELL / 8, HEAP = 256 * PAGE, CELLS = HEAP / CELL };

/* A cell: a word for each thread, one that the peer puts to, one that all add to, and words that
 * stay constant. */
struct heap_cell {
    uint64_t mine[THREADS];
    uint64_t put;
    uint64_t sum;
    uint64_t kept[WORDS - THREADS - 2];
};
_Static_assert(sizeof(struct heap_cell) == CELL, "a cell");

static struct heap_cell *heap;
static _Atomic bool stop;
static uint64_t laps[THREADS];

static uint64_t kept_word(size_t cell, size_t word)
{
    return (cell * WORDS + word + 1) * 0x9e3779b97f4a7c15ull;
}

static void *write_all(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;

    while (!atomic_load(&stop)) {
        for (size_t c = 0; c < CELLS; c++) {
            heap[c].mine[me]++;
            if (c % 8 == me)
                __atomic_fetch_add(&heap[c].sum, 1, __ATOMIC_RELAXED);
        }
        laps[me]++;
    }
    return NULL;
}

/* Cells with the request to the peer. */
enum { ASK, DONE, STADD, FIRST, COUNT, ROUND, PUT_HASH, ADDS };

static uint64_t get(int n)
{
    return atomic_load(ut_cell(n));
}

static void set(int n, uint64_t value)
{
    atomic_store(ut_cell(n), value);
}

static uint64_t put_hash(size_t cell, uint64_t value)
{
    uint64_t h = (value ^ cell * 0xc2b2ae3d27d4eb4full) * 0x9e3779b97f4a7c15ull;

    return h ^ h >> 29;
}

static uint64_t num_rounds(void)
{
    return ut_env_number("UT_MAP_ROUNDS", 100);
}

static uint64_t add_one(utofu_vcq_hdl_t vcq, utofu_vcq_id_t to, utofu_stadd_t at)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(utofu_armw8(vcq, to, UTOFU_ARMW_OP_ADD, 1, at, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(vcq, &notice));
    return 1;
}

/* Puts to some cells of the registered piece, reads them back, and adds to some. */
static void be_peer(struct ut_end *end, const struct ut_peer *owner)
{
    static uint64_t last[CELLS];
    uint64_t asked = 0, adds = 0, hash = 0;

    for (;;) {
        while (get(ASK) == asked) {
            ut_expect_nothing(end->vcq);
            ut_relax();
        }
        asked = get(ASK);
        if (get(COUNT) == 0)
            break;
        for (int i = 0; i < 20; i++) {
            uint64_t c = ut_random_below(get(COUNT));
            utofu_stadd_t at = get(STADD) + c * CELL + offsetof(struct heap_cell, put);
            struct utofu_mrq_notice notice;
            uint64_t *word = (uint64_t *)end->mem;
            c += get(FIRST);
            last[c] = word[0] = asked << 16 | (uint64_t)i;
            CHECK_OK(utofu_put(end->vcq, owner->id, end->stadd, at, 8, 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(end->vcq, &notice));
            CHECK_OK(utofu_get(end->vcq, owner->id, end->stadd + 8, at, 8, 0, UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(end->vcq, &notice));
            CHECK_EQ(word[1], last[c]);
            adds += add_one(end->vcq, owner->id, at + 8);
        }
        set(DONE, asked);
    }
    for (size_t c = 0; c < CELLS; c++)
        hash += put_hash(c, last[c]);
    set(PUT_HASH, hash);
    set(ADDS, adds);
}

static void ask(uint64_t number, utofu_stadd_t stadd, size_t first, size_t count)
{
    set(STADD, stadd);
    set(FIRST, first);
    set(COUNT, count);
    set(ASK, number);
}

/* Forks a child, which outlives the call's moment of remapping. */
static void fork_once(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(getppid() > 0 ? 0 : 1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_EQ(system("true"), 0);
}

struct piece {
    utofu_stadd_t stadd;
    size_t first, count;
};

static struct piece random_piece(utofu_vcq_hdl_t vcq)
{
    struct piece p = {.first = ut_random_below(CELLS - 1)};

    p.count = 1 + ut_random_below(ut_random_below(4) ? 512 : CELLS);
    if (p.count > CELLS - p.first)
        p.count = CELLS - p.first;
    CHECK_OK(utofu_reg_mem(vcq, &heap[p.first], p.count * CELL, 0, &p.stadd));
    return p;
}

static size_t register_at_random(struct ut_end *end)
{
    enum { LIVE = 8 };
    struct piece live[LIVE] = {0};
    uint64_t asked = 0;
    size_t most = 0;

    for (uint64_t r = 1; r <= num_rounds(); r++) {
        struct piece *p = &live[ut_random_below(LIVE)];
        ut_step("round %lu", (unsigned long)r);
        if (p->stadd)
            CHECK_OK(utofu_dereg_mem(end->vcq, p->stadd, 0));
        *p = random_piece(end->vcq);
        ask(++asked, p->stadd, p->first, p->count);
        struct piece other = random_piece(end->vcq); /* only for a while */
        size_t mapped = pages_mapped(heap, HEAP);
        most = mapped > most ? mapped : most;
        CHECK_OK(utofu_dereg_mem(end->vcq, other.stadd, 0));
        while (get(DONE) != asked) {
            ut_expect_nothing(end->vcq);
            ut_relax();
        }
        if (r % 100 == 0)
            fork_once();
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i].stadd)
            CHECK_OK(utofu_dereg_mem(end->vcq, live[i].stadd, 0));
    }
    ask(++asked, 0, 0, 0);
    return most;
}

static uint64_t count_wrong(uint64_t *hash, uint64_t *sum)
{
    uint64_t wrong = 0;

    *hash = *sum = 0;
    for (size_t c = 0; c < CELLS; c++) {
        for (size_t t = 0; t < THREADS; t++)
            wrong += heap[c].mine[t] != laps[t];
        for (size_t w = 0; w < NUM(heap[c].kept); w++)
            wrong += heap[c].kept[w] != kept_word(c, w);
        *hash += put_hash(c, heap[c].put);
        *sum += heap[c].sum;
    }
    return wrong;
}

static void be_owner(struct ut_end *end)
{
    pthread_t threads[THREADS];
    uint64_t hash, sum, own = 0;

    for (size_t t = 0; t < THREADS; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, write_all, (void *)(uintptr_t)t), 0);
    size_t most = register_at_random(end);
    atomic_store(&stop, true);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        own += laps[t] * (CELLS / 8);
    }
    ut_barrier();
    CHECK_EQ(count_wrong(&hash, &sum), 0);
    CHECK_EQ(hash, get(PUT_HASH));
    CHECK_EQ(sum, own + get(ADDS));
    CHECK_EQ(pages_mapped(heap, HEAP), 0);
    if (pages_can_be_mapped() && !getenv("UTOFU_TEST"))
        CHECK(most >= HEAP / 8, "at most %zu bytes were mapped", most);
    if (!pages_can_be_mapped())
        CHECK_EQ(most, 0);
    /* the twin: one lost update is found */
    heap[CELLS / 2].mine[1]--;
    CHECK_EQ(count_wrong(&hash, &sum), 1);
}

static void random_pieces(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    heap = ut_pages(HEAP);
    for (size_t c = 0; c < CELLS; c++) {
        for (size_t w = 0; w < NUM(heap[c].kept); w++)
            heap[c].kept[w] = kept_word(c, w);
    }
    ut_open_all(&end, PAGE, peers);
    if (ut_rank == 0) {
        be_owner(&end);
    } else {
        be_peer(&end, &peers[0]);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(heap, random_pieces_of_a_heap_that_everybody_writes_lose_nothing)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 360}, random_pieces, NULL);
}

static void random_pieces_without_queries(void *arg)
{
    pages_forbid_queries();
    random_pieces(arg);
}

Test(heap, the_same_where_the_kernel_finds_no_mapping_by_its_address)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 360}, random_pieces_without_queries, NULL);
}

Test(heap, the_same_with_every_second_region_refused)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 360, .env = {"UTOFU_TEST=map_refuse=2"}},
           random_pieces, NULL);
}

Test(heap, the_same_without_mapping)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 360, .env = {"UTOFU_SHM_MAP=0"}},
           random_pieces, NULL);
}
