/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random copies and atomic operations against a model. Every thread of every process has an area in
 * the memory of each process, where no other thread works; source and destination are at random
 * processes. The model executes the thread's operations in sequence. It knows which bytes the
 * pending operations read and write: for a new operation that conflicts with these, the order is
 * set accordingly (the handle, a later one, ALL or CONT); otherwise the order is random. So the
 * result must be that of the model. One word of each process is shared: all threads add to it.
 *
 *     acp_random OPERATIONS THREADS SEED [wrong]
 *
 * The last process issues nothing: it computes until all others are ready. With "wrong" the model
 * leaves out one byte, and the program must detect that.
 */
#include "check.h"

#include <pthread.h>

enum { MAX_PROCS = 8, MAX_THREADS = 4, AREA = 2048, MAX_COPY = 500 };

struct driver {
    pthread_t thread;
    int number; /* unique in the job */
    uint64_t random;
    uint8_t model[MAX_PROCS][AREA];
    acp_handle_t written[MAX_PROCS][AREA], read[MAX_PROCS][AREA]; /* the last operation that does */
    uint64_t added[MAX_PROCS];                                    /* to the shared words */
    acp_handle_t last;
};

static int me, n, num_threads;
static long operations;
static bool wrong;
static acp_ga_t areas[MAX_PROCS], shared[MAX_PROCS], finished;
static struct driver drivers[MAX_THREADS];

static uint64_t draw(struct driver *d, uint64_t below)
{
    d->random = d->random * 6364136223846793005u + 1442695040888963407u;
    return (d->random >> 33) % below;
}

struct span {
    int rank;
    size_t at, size;
};

static acp_ga_t ga_of(const struct driver *d, struct span s)
{
    return areas[s.rank] + (size_t)d->number * AREA + s.at;
}

/* The last pending operation that must be complete before this one. */
static acp_handle_t conflict(const struct driver *d, struct span dst, struct span src, bool changes)
{
    acp_handle_t last = 0;

    for (size_t i = 0; i < src.size; i++) {
        if (d->written[src.rank][src.at + i] > last)
            last = d->written[src.rank][src.at + i];
        if (changes && d->read[src.rank][src.at + i] > last)
            last = d->read[src.rank][src.at + i];
    }
    for (size_t i = 0; i < dst.size; i++) {
        if (d->written[dst.rank][dst.at + i] > last)
            last = d->written[dst.rank][dst.at + i];
        if (d->read[dst.rank][dst.at + i] > last)
            last = d->read[dst.rank][dst.at + i];
    }
    return last;
}

static acp_handle_t draw_order(struct driver *d, acp_handle_t least)
{
    switch (draw(d, 6)) {
    case 0:
        return (acp_handle_t)ACP_HANDLE_ALL;
    case 1:
        return (acp_handle_t)ACP_HANDLE_CONT;
    case 2:
        return d->last > 0 ? least + (acp_handle_t)draw(d, (uint64_t)(d->last - least) + 1) : 0;
    default:
        return least;
    }
}

static void note(struct driver *d, struct span dst, struct span src, bool changes, acp_handle_t h)
{
    CHECK(h > d->last);
    for (size_t i = 0; i < src.size; i++) {
        d->read[src.rank][src.at + i] = h;
        if (changes)
            d->written[src.rank][src.at + i] = h;
    }
    for (size_t i = 0; i < dst.size; i++)
        d->written[dst.rank][dst.at + i] = h;
    d->last = h;
}

static void one_copy(struct driver *d)
{
    size_t size = draw(d, MAX_COPY);
    struct span dst = {(int)draw(d, (uint64_t)n), draw(d, AREA - size), size};
    struct span src = {(int)draw(d, (uint64_t)n), draw(d, AREA - size), size};
    acp_handle_t order = draw_order(d, conflict(d, dst, src, false));

    note(d, dst, src, false, acp_copy(ga_of(d, dst), ga_of(d, src), size, order));
    memmove(&d->model[dst.rank][dst.at], &d->model[src.rank][src.at], size);
}

static uint64_t load(const struct driver *d, struct span s)
{
    uint64_t value = 0;

    memcpy(&value, &d->model[s.rank][s.at], s.size);
    return value;
}

static uint64_t changed(uint64_t kind, uint64_t old, uint64_t value, uint64_t comparand)
{
    switch (kind) {
    case 0:
        return value;
    case 1:
        return old + value;
    case 2:
        return old ^ value;
    case 3:
        return old | value;
    case 4:
        return old & value;
    default:
        return old == comparand ? value : old;
    }
}

static acp_handle_t issue8(uint64_t kind, acp_ga_t dst, acp_ga_t src, uint64_t value,
                           uint64_t comparand, acp_handle_t order)
{
    acp_handle_t (*const simple[])(acp_ga_t, acp_ga_t, uint64_t, acp_handle_t) = {
        acp_swap8, acp_add8, acp_xor8, acp_or8, acp_and8};

    return kind < 5 ? simple[kind](dst, src, value, order)
                    : acp_cas8(dst, src, comparand, value, order);
}

static acp_handle_t issue4(uint64_t kind, acp_ga_t dst, acp_ga_t src, uint32_t value,
                           uint32_t comparand, acp_handle_t order)
{
    acp_handle_t (*const simple[])(acp_ga_t, acp_ga_t, uint32_t, acp_handle_t) = {
        acp_swap4, acp_add4, acp_xor4, acp_or4, acp_and4};

    return kind < 5 ? simple[kind](dst, src, value, order)
                    : acp_cas4(dst, src, comparand, value, order);
}

/* The two words do not overlap. */
static void one_atomic(struct driver *d)
{
    size_t size = draw(d, 2) ? 4 : 8, words = AREA / size;
    struct span src = {(int)draw(d, (uint64_t)n), draw(d, words) * size, size}, dst = src;
    uint64_t kind = draw(d, 6), value = draw(d, 1u << 31) * draw(d, 1u << 31), old, comparand, new;
    acp_handle_t order, h;

    while (dst.rank == src.rank && dst.at == src.at)
        dst = (struct span){(int)draw(d, (uint64_t)n), draw(d, words) * size, size};
    old = load(d, src);
    comparand = draw(d, 2) ? old : value; /* a cas that swaps, and mostly one that does not */
    order = draw_order(d, conflict(d, dst, src, true));
    h = size == 8 ? issue8(kind, ga_of(d, dst), ga_of(d, src), value, comparand, order)
                  : issue4(kind, ga_of(d, dst), ga_of(d, src), (uint32_t)value, (uint32_t)comparand,
                           order);
    note(d, dst, src, true, h);
    if (size == 4)
        comparand = (uint32_t)comparand;
    new = changed(kind, old, size == 4 ? (uint32_t)value : value, comparand);
    memcpy(&d->model[src.rank][src.at], &new, size);
    memcpy(&d->model[dst.rank][dst.at], &old, size);
}

/* The old value goes to the last word of the area, which is not checked. */
static void one_addition(struct driver *d)
{
    struct span dst = {me, AREA - 8, 8}, none = {0, 0, 0};
    int rank = (int)draw(d, (uint64_t)n);
    uint64_t value = draw(d, 1000);
    acp_handle_t order = draw_order(d, conflict(d, dst, none, false)), h;

    h = acp_add8(ga_of(d, dst), shared[rank], value, order);
    note(d, dst, none, false, h);
    d->added[rank] += value;
    memset(&d->model[me][AREA - 8], 0, 8);
    h = acp_copy(ga_of(d, dst), areas[n], 8, h); /* zeros */
    note(d, dst, none, false, h);
}

/* The data of complete operations are in memory: compared in this process's areas. */
static void compare(struct driver *d, acp_handle_t upto)
{
    const uint8_t *mine = acp_query_address(ga_of(d, (struct span){me, 0, 0}));

    for (int i = 0; i < AREA; i++)
        if (d->written[me][i] <= upto && mine[i] != d->model[me][i]) {
            fprintf(stderr, "rank %d: byte %d of area %d is %d instead of %d\n", me, i, d->number,
                    mine[i], d->model[me][i]);
            exit(1);
        }
}

static void sometimes_look(struct driver *d)
{
    acp_handle_t h = (acp_handle_t)draw(d, (uint64_t)d->last + 1);

    switch (draw(d, 40)) {
    case 0:
        acp_complete(d->last);
        CHECK(acp_inquire(d->last) == 0);
        compare(d, d->last);
        break;
    case 1:
        acp_complete(h);
        compare(d, h);
        break;
    case 2:
        if (acp_inquire(h) == 0)
            compare(d, h);
        break;
    default:
        break;
    }
}

static void *drive(void *arg)
{
    struct driver *d = arg;

    for (long i = 0; i < operations; i++) {
        uint64_t what = draw(d, 10);

        if (what < 5)
            one_copy(d);
        else if (what < 9)
            one_atomic(d);
        else
            one_addition(d);
        sometimes_look(d);
    }
    acp_complete(d->last);
    return NULL;
}

/* Reads the whole area of each process, and compares it. */
static void check_all(struct driver *d, uint8_t *buffer, acp_ga_t ga)
{
    if (wrong)
        d->model[n - 1][77] ^= 1;
    for (int r = 0; r < n; r++) {
        acp_complete(acp_copy(ga, ga_of(d, (struct span){r, 0, 0}), AREA, ACP_HANDLE_NULL));
        if (memcmp(buffer, d->model[r], AREA) != 0) {
            fprintf(stderr, "rank %d: area %d at rank %d is not as the model has it\n", me,
                    d->number, r);
            exit(1);
        }
    }
}

static acp_ga_t publish(void *memory, size_t size, int color)
{
    acp_atkey_t key = acp_register_memory(memory, size, color);

    CHECK(key != ACP_ATKEY_NULL);
    return acp_query_ga(key, memory);
}

/* In the starter memory: the GAs of a process, and what has been added to the word of each. */
struct start {
    acp_ga_t area, word;
    uint64_t finished, zero;
    uint64_t added[MAX_PROCS]; /* of this process's word, by process */
};

static void work(uint64_t seed)
{
    acp_ga_t mine = acp_query_starter_ga(me) + 4096;
    uint64_t *out = (uint64_t *)((char *)own_starter() + 4096);

    for (int t = 0; t < num_threads; t++) {
        drivers[t].number = me * num_threads + t;
        drivers[t].random = seed * 1000003 + (uint64_t)drivers[t].number;
        pthread_create(&drivers[t].thread, NULL, drive, &drivers[t]);
    }
    for (int t = 0; t < num_threads; t++)
        pthread_join(drivers[t].thread, NULL);
    for (int t = 0; t < num_threads; t++)
        check_all(&drivers[t], (uint8_t *)out + 64, mine + 64);
    for (int r = 0; r < n; r++) {
        out[0] = 0;
        for (int t = 0; t < num_threads; t++)
            out[0] += drivers[t].added[r];
        acp_complete(
            acp_copy(acp_query_starter_ga(r) + offsetof(struct start, added) + 8 * (size_t)me, mine,
                     8, ACP_HANDLE_NULL));
    }
    acp_complete(acp_add8(mine, finished, 1, ACP_HANDLE_NULL));
}

int main(int argc, char **argv)
{
    static uint8_t memory[MAX_PROCS * MAX_THREADS * AREA] __attribute__((aligned(4096)));
    static uint64_t word __attribute__((aligned(4096)));
    struct start *start;
    uint64_t seed, sum = 0;

    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc >= 4);
    me = acp_rank();
    n = acp_procs();
    CHECK(n >= 2 && n < MAX_PROCS);
    operations = atol(argv[1]);
    num_threads = atoi(argv[2]);
    seed = strtoull(argv[3], NULL, 0);
    wrong = argc > 4;
    if (me == 0)
        printf("seed %llu\n", (unsigned long long)seed);
    start = own_starter();
    start->area = publish(memory, sizeof(memory), me % acp_colors());
    start->word = publish(&word, sizeof(word), (me + 1) % acp_colors());
    acp_sync();
    for (int r = 0; r < n; r++) {
        acp_complete(acp_copy(acp_query_starter_ga(me) + 8192, acp_query_starter_ga(r), 16,
                              ACP_HANDLE_NULL));
        areas[r] = ((acp_ga_t *)start)[1024];
        shared[r] = ((acp_ga_t *)start)[1025];
    }
    areas[n] = acp_query_starter_ga(me) + offsetof(struct start, zero);
    finished = acp_query_starter_ga(n - 1) + offsetof(struct start, finished);
    if (me < n - 1)
        work(seed);
    else
        while (__atomic_load_n(&start->finished, __ATOMIC_ACQUIRE) < (uint64_t)n - 1)
            ; /* computes */
    acp_sync();
    for (int r = 0; r < n; r++)
        sum += start->added[r];
    CHECK(word == sum);
    CHECK(acp_finalize() == 0);
    return 0;
}
