/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier: threads are coroutines, which stop before each atomic access. The search repeats
 * the scenario with other choices: which thread is next, which of the allowed values a load
 * returns, and where in the order of its location a store goes. States that were reached by another
 * way are left out: a state is, for each thread, its accesses with the stores that they have read,
 * the order of the stores to each location, and the view of sequential consistency.
 */
#include "verifier.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    MAX_LOCS = 64,
    MAX_PLACES = 128,
    MAX_STORES = 48,
    MAX_STEPS = 2000,
    MAX_WORDS = 1 << 10,
    MAX_SITES = 1 << 10,
    MAX_BUFFER = 24,
    MAX_WATCHED = 24,
    MAX_LATE = 16,
    MAX_MUTATED = 64,
    ENDLESS_PREEMPTIONS = 1, /* of a scenario with more states than anybody has waited for */
    STACK = 64 << 10,
    MAIN = UV_MAX_THREADS, /* setup() and end() */
};
#define TS_GAP      (1u << 20)
#define DEFAULT_MAX 20000000ull

extern char __executable_start;

static enum model { X86, AARCH64 } model;

enum kind { LOAD, STORE, EXCHANGE, ADD, SUB, AND, OR, XOR, CAS, FENCE, SYNC, WAIT, LOCK, PLAIN };
static const char *const kind_names[] = {"load",  "store", "exchange", "add",  "sub",
                                         "and",   "or",    "xor",      "cas",  "fence",
                                         "fence", "wait",  "lock",     "plain"};

/* What a thread knows: for each location the oldest store that it may still read, and for each
 * thread how many of its steps happen before. */
struct view {
    uint32_t ts[MAX_LOCS];
    uint32_t clock[UV_MAX_THREADS];
};

struct store {
    uint64_t value, hash;
    uint32_t ts, clock;
    uint8_t thread;
    bool taken; /* an atomic read-modify-write has read this store, and follows it */
    bool plain; /* not atomic: reading it is a race unless it happens before */
    struct view view;
};

struct loc {
    uintptr_t at;
    uint32_t size, num;
    struct store stores[MAX_STORES];
    uint32_t read_clock[UV_MAX_THREADS];
};

struct op {
    enum kind kind;
    int order, fail_order;
    uint64_t *at;
    uint32_t size;
    uint64_t operand, expected, result;
    uintptr_t pc;
};

struct thread {
    ucontext_t context;
    jmp_buf here;
    bool started, ended, paused;
    uint64_t last_watched; /* `seen` at the last pause */
    struct op op;
    struct view view, acquired, released; /* acquired: views of relaxed loads, for a fence */
    uint64_t hash;
    struct {
        struct loc *loc;
        uint64_t value, hash;
        uint32_t clock;
        struct view view;
    } buffer[MAX_BUFFER]; /* of x86's stores */
    uint32_t buffered;
    struct {
        struct loc *loc;
        uint64_t hash;
        bool changed;       /* another store was read later */
    } watched[MAX_WATCHED]; /* read since the last pause */
    uint32_t num_watched;
    uint64_t seen; /* the sum of all stores of others that were read since the last pause */
    struct op late;
    bool has_late;
    struct {
        uintptr_t at, size, pc;
    } late_plain[MAX_LATE];
    uint32_t num_late_plain;
};

static struct {
    const struct uv_scenario *scenario;
    struct thread threads[UV_MAX_THREADS];
    unsigned int num_threads;
    struct loc locs[MAX_LOCS];
    uint32_t num_locs;
    uint32_t sc[MAX_LOCS]; /* the view of sequential consistency */
    int running;           /* a thread, or MAIN */
    jmp_buf scheduler;
    uintptr_t main_self;
    bool failed, pruned, in_end;
    char what[512];
    uint32_t steps;
    int last; /* the thread that took the last step */
    uint32_t preemptions;
    struct {
        uint8_t thread;
        enum kind kind;
        uintptr_t pc;
        uint64_t at, value;
    } log[MAX_STEPS];
} run;

static struct word {
    uintptr_t at;
    uint32_t epoch;
    uint8_t writer;
    uint32_t written;
    uintptr_t pc;
    uint32_t read[UV_MAX_THREADS];
    uint8_t threads; /* which threads have accessed it, in any run */
} words[MAX_WORDS];
static uint32_t epoch;
static char stacks[UV_MAX_THREADS][STACK] __attribute__((aligned(64)));

static struct choice {
    uint32_t at, num;
} path[MAX_STEPS];
static uint32_t path_length;

static uint64_t *visited;
static uint64_t visited_mask, num_visited, max_states = DEFAULT_MAX;

static struct site {
    uintptr_t pc;
    enum kind kind;
    int order, fail_order;
    uint32_t size;
    bool shared; /* not atomic: writes what other threads access, too */
} sites[MAX_SITES];
static uint32_t num_sites;

/* Which threads access a place with atomic operations, and whether one of them writes. Only
 * accesses to places that are shared and written need an order: if the search finds that another
 * place is, it begins again. */
static struct place {
    uintptr_t at;
    uint8_t threads;
    bool written;
} known[MAX_PLACES];
static uint32_t num_known;
static bool known_changed;

/* Which threads have accessed a place with atomic operations in any run, written it, or tried it as
 * a mutex. A step that no other thread can notice need not be tried behind steps of others: see
 * goes_alone(). If the search relied on that and finds another access, it begins again. */
static struct usage {
    uintptr_t at;
    uint8_t threads, writers;
    bool is_mutex, is_tried, relied;
} usages[MAX_PLACES];
static uint32_t num_usages;
static uint8_t syncers; /* threads that have called membarrier */
static bool syncers_relied;
static bool reduces = true;
static uint32_t max_preemptions = UINT32_MAX; /* of a run */

static enum mutation { NONE, WEAKEN, WEAKEN_OTHER, WEAKEN_FAIL, LATE } mutation;
static uintptr_t mutated[MAX_MUTATED];
static uint32_t num_mutated;

/*
 * Small things
 */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) + 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void join(struct view *to, const struct view *from)
{
    for (uint32_t i = 0; i < run.num_locs; i++)
        to->ts[i] = larger(to->ts[i], from->ts[i]);
    for (int i = 0; i < UV_MAX_THREADS; i++)
        to->clock[i] = larger(to->clock[i], from->clock[i]);
}

static bool acquires(int order)
{
    return model == X86 || order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME ||
           order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
    return model == X86 || order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool is_sc(int order)
{
    return order == __ATOMIC_SEQ_CST;
}

static uint64_t load_native(uintptr_t at, uint32_t size)
{
    switch (size) {
    case 1:
        return *(const uint8_t *)at;
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static void store_native(uintptr_t at, uint32_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(uint64_t *)at = value;
    }
}

static void leave(void)
{
    if (run.running == MAIN && !run.in_end) {
        printf("FAILED outside of the threads: %s\n", run.what);
        exit(2);
    }
    _longjmp(run.scheduler, 2);
}

static void fail_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail_run(const char *format, ...)
{
    va_list args;

    if (run.failed)
        return;
    va_start(args, format);
    vsnprintf(run.what, sizeof(run.what), format, args);
    va_end(args);
    run.failed = true;
}

void uv_fail(const char *what, const char *file, int line)
{
    const char *slash = strrchr(file, '/');

    fail_run("%s (%s:%d)", what, slash ? slash + 1 : file, line);
    leave();
    abort();
}

void ut_assert_failed(const char *what, const char *file, int line, const char *function)
    __attribute__((noreturn));
void ut_assert_failed(const char *what, const char *file, int line, const char *function)
{
    (void)function;
    uv_fail(what, file, line);
}

uintptr_t uv_self(void)
{
    return run.running == MAIN ? run.main_self : (uintptr_t)run.running + 1;
}

void uv_be(uintptr_t self)
{
    run.main_self = self;
}

/*
 * Sites and mutations
 */

static uintptr_t offset_of(uintptr_t pc)
{
    return pc - (uintptr_t)&__executable_start;
}

static bool is_mutated(uintptr_t pc, enum mutation as)
{
    if (mutation != as)
        return false;
    for (uint32_t i = 0; i < num_mutated; i++)
        if (mutated[i] == offset_of(pc))
            return true;
    return false;
}

static struct site *note_site(uintptr_t pc, enum kind kind, int order, int fail_order,
                              uint32_t size)
{
    for (uint32_t i = 0; i < num_sites; i++)
        if (sites[i].pc == pc && sites[i].kind == kind) {
            return &sites[i];
        }
    if (num_sites == MAX_SITES)
        abort();
    sites[num_sites] = (struct site){pc, kind, order, fail_order, size, false};
    return &sites[num_sites++];
}

static bool is_rmw(enum kind kind)
{
    return kind >= EXCHANGE && kind <= CAS;
}

/* The next weaker order; `other`: the other one, of the two that are weaker than ACQ_REL. */
static int weaker(enum kind kind, int order, bool other)
{
    if (kind == FENCE && other)
        return __ATOMIC_RELAXED; /* as if it were not there */
    if (order == __ATOMIC_SEQ_CST)
        return kind == LOAD    ? __ATOMIC_ACQUIRE
               : kind == STORE ? __ATOMIC_RELEASE
                               : __ATOMIC_ACQ_REL;
    if (order == __ATOMIC_ACQ_REL)
        return other ? __ATOMIC_RELEASE : __ATOMIC_ACQUIRE;
    return __ATOMIC_RELAXED;
}

static int order_at(uintptr_t pc, enum kind kind, int order)
{
    if (is_mutated(pc, WEAKEN))
        return weaker(kind, order, false);
    return is_mutated(pc, WEAKEN_OTHER) ? weaker(kind, order, true) : order;
}

/*
 * Races of accesses that are not atomic
 */

static struct word *word_of(uintptr_t at)
{
    uint64_t h = mix(1, at) & (MAX_WORDS - 1);

    while (words[h].epoch == epoch && words[h].at != at)
        h = (h + 1) & (MAX_WORDS - 1);
    if (words[h].epoch != epoch) {
        uint8_t threads = words[h].at == at ? words[h].threads : 0;
        words[h] = (struct word){.at = at, .threads = threads};
        words[h].epoch = epoch;
    }
    return &words[h];
}

static struct loc *find_loc(uintptr_t at)
{
    for (uint32_t i = 0; i < run.num_locs; i++)
        if (at - run.locs[i].at < run.locs[i].size)
            return &run.locs[i];
    return NULL;
}

static void report_race(int t, uintptr_t at, uintptr_t pc, const char *what)
{
    fail_run("race: thread %d %s %#zx, which another thread accesses at the same time [pc %#zx]",
             t + 1, what, (size_t)(at - (uintptr_t)&__executable_start), (size_t)offset_of(pc));
}

/* An access that is not atomic, to a location with atomic accesses. */
static void access_loc(int t, struct loc *loc, bool write, uintptr_t pc)
{
    struct thread *th = &run.threads[t];
    struct store *s = NULL;

    for (uint32_t i = 0; i < loc->num; i++) {
        s = &loc->stores[i];
        if (s->clock > th->view.clock[s->thread])
            report_race(t, loc->at, pc, write ? "writes" : "reads");
    }
    for (int i = 0; write && i < UV_MAX_THREADS; i++)
        if (loc->read_clock[i] > th->view.clock[i])
            report_race(t, loc->at, pc, "writes");
    for (unsigned int i = 0; i < run.num_threads; i++)
        for (uint32_t k = 0; k < run.threads[i].buffered; k++)
            if (run.threads[i].buffer[k].loc == loc && (int)i != t)
                report_race(t, loc->at, pc, write ? "writes" : "reads");
    th->view.ts[loc - run.locs] = loc->stores[loc->num - 1].ts;
    if (write) {
        if (loc->num == MAX_STORES)
            abort();
        struct store *last = &loc->stores[loc->num - 1];
        th->hash = mix(mix(th->hash, 77), loc->at);
        loc->stores[loc->num] = (struct store){.hash = th->hash,
                                               .ts = last->ts + TS_GAP,
                                               .clock = th->view.clock[t],
                                               .thread = (uint8_t)t,
                                               .plain = true};
        loc->num++;
        th->view.ts[loc - run.locs] = last->ts + TS_GAP;
    }
}

static void access_word(int t, uintptr_t at, bool write, uintptr_t pc)
{
    struct thread *th = &run.threads[t];
    struct word *w = word_of(at);

    w->threads |= (uint8_t)(1 << t);
    if (w->written > th->view.clock[w->writer])
        report_race(t, at, pc, write ? "writes" : "reads");
    for (int i = 0; write && i < UV_MAX_THREADS; i++)
        if (w->read[i] > th->view.clock[i])
            report_race(t, at, pc, "writes");
    if (write) {
        w->writer = (uint8_t)t;
        w->written = th->view.clock[t];
    } else {
        w->read[t] = th->view.clock[t];
    }
    w->pc = pc;
}

static void access_plain(int t, uintptr_t at, uintptr_t size, bool write, uintptr_t pc)
{
    for (uintptr_t a = at & ~3ul; a < at + size; a += 4) {
        struct loc *loc = find_loc(a);
        if (loc)
            access_loc(t, loc, write, pc);
        else
            access_word(t, a, write, pc);
    }
}

static void plain(void *p, uintptr_t size, bool write, uintptr_t pc)
{
    uintptr_t at = (uintptr_t)p;
    int t = run.running;

    if (t == MAIN || at - (uintptr_t)stacks[t] < STACK)
        return;
    struct thread *th = &run.threads[t];
    if (write) {
        struct site *site = note_site(pc, PLAIN, 0, 0, (uint32_t)size);
        uint8_t threads = find_loc(at) ? 3 : word_of(at & ~3ul)->threads;
        site->shared |= (threads & (threads - 1)) != 0;
    }
    if (write && is_mutated(pc, LATE) && th->num_late_plain < MAX_LATE) {
        th->late_plain[th->num_late_plain].at = at;
        th->late_plain[th->num_late_plain].size = size;
        th->late_plain[th->num_late_plain++].pc = pc;
        return;
    }
    access_plain(t, at, size, write, pc);
    if (run.failed)
        leave();
}

static void do_late_plain(int t)
{
    struct thread *th = &run.threads[t];

    for (uint32_t i = 0; i < th->num_late_plain; i++)
        access_plain(t, th->late_plain[i].at, th->late_plain[i].size, true, th->late_plain[i].pc);
    th->num_late_plain = 0;
}

/*
 * Locations and their stores
 */

static struct loc *loc_of(const void *p, uint32_t size)
{
    struct loc *loc = find_loc((uintptr_t)p);

    if (!loc) {
        if (run.num_locs == MAX_LOCS)
            abort();
        loc = &run.locs[run.num_locs++];
        loc->at = (uintptr_t)p;
        loc->size = size;
        loc->num = 1;
        memset(loc->read_clock, 0, sizeof(loc->read_clock));
        memset(&loc->stores[0], 0, sizeof(loc->stores[0]));
        loc->stores[0].value = load_native(loc->at, size);
        loc->stores[0].hash = mix(loc->at, 5); /* its value may count the runs */
        loc->stores[0].ts = TS_GAP;
    }
    if (loc->at != (uintptr_t)p || loc->size != size) {
        printf("accesses of two sizes to one location\n");
        exit(2);
    }
    return loc;
}

static uint32_t newest(const struct loc *loc)
{
    return loc->num - 1;
}

static struct store *latest(struct loc *loc)
{
    struct store *s = &loc->stores[newest(loc)];

    if (s->plain && loc->num > 0)
        s->value = load_native(loc->at, loc->size);
    return s;
}

/* The oldest store that the thread may still read, by an access of this order. */
static uint32_t first_readable(int t, const struct loc *loc, int order)
{
    uint32_t i = (uint32_t)(loc - run.locs), floor = run.threads[t].view.ts[i], k;

    if (is_sc(order))
        floor = larger(floor, run.sc[i]);
    for (k = newest(loc); k > 0 && loc->stores[k].ts > floor; k--)
        ;
    return k;
}

static bool fences_x86(const struct op *op)
{
    return is_rmw(op->kind) || op->kind == WAIT || op->kind == LOCK ||
           ((op->kind == STORE || op->kind == FENCE) && is_sc(op->order));
}

/*
 * Operations
 */

static uint64_t apply(const struct op *op, uint64_t old)
{
    switch (op->kind) {
    case ADD:
        return old + op->operand;
    case SUB:
        return old - op->operand;
    case AND:
        return old & op->operand;
    case OR:
        return old | op->operand;
    case XOR:
        return old ^ op->operand;
    default:
        return op->operand;
    }
}

static uint64_t cut(uint64_t value, uint32_t size)
{
    return size == 8 ? value : value & ((1ull << size * 8) - 1);
}

static void watch(struct thread *th, struct loc *loc, uint64_t hash, bool own)
{
    uint32_t i = 0;

    while (i < th->num_watched && th->watched[i].loc != loc)
        i++;
    if (i == MAX_WATCHED)
        abort();
    if (i == th->num_watched) {
        th->num_watched++;
        th->watched[i].loc = loc;
        th->watched[i].hash = hash;
        th->watched[i].changed = false;
    } else if (own) {
        th->watched[i].hash = hash;
    } else if (th->watched[i].hash != hash) {
        th->watched[i].changed = true;
    }
}

static void read_store(int t, struct loc *loc, struct store *s, int order, uintptr_t pc)
{
    struct thread *th = &run.threads[t];
    uint32_t i = (uint32_t)(loc - run.locs);

    if (s->plain && s->clock > th->view.clock[s->thread])
        report_race(t, loc->at, pc, "reads");
    th->view.ts[i] = larger(th->view.ts[i], s->ts);
    join(&th->acquired, &s->view);
    if (acquires(order))
        join(&th->view, &s->view);
    loc->read_clock[t] = th->view.clock[t];
    th->hash = mix(th->hash, s->hash);
    watch(th, loc, s->hash, false);
    if (s->thread != t || s->clock == 0)
        th->seen += mix(loc->at, s->hash);
}

/* The places for a new store: behind each store that the thread must not overtake, but not between
 * a store and the read-modify-write that has read it. */
static uint32_t places(int t, struct loc *loc, int order, uint32_t found[MAX_STORES])
{
    uint32_t n = 0;

    for (uint32_t k = newest(loc) + 1; k-- > first_readable(t, loc, order);)
        if (!loc->stores[k].taken)
            found[n++] = k;
    return n;
}

static void write_store(int t, struct loc *loc, uint32_t behind, uint64_t value, int order,
                        const struct view *sequence)
{
    struct thread *th = &run.threads[t];
    uint32_t i = (uint32_t)(loc - run.locs), ts;

    if (loc->num == MAX_STORES) {
        fail_run("too many stores to one location");
        return;
    }
    ts = behind == newest(loc)
             ? loc->stores[behind].ts + TS_GAP
             : loc->stores[behind].ts + (loc->stores[behind + 1].ts - loc->stores[behind].ts) / 2;
    memmove(&loc->stores[behind + 2], &loc->stores[behind + 1],
            (newest(loc) - behind) * sizeof(loc->stores[0]));
    loc->num++;
    struct store *s = &loc->stores[behind + 1];
    th->view.ts[i] = larger(th->view.ts[i], ts);
    th->hash = mix(th->hash, 0x57);
    memset(&s->view, 0, sizeof(s->view));
    s->value = value;
    s->hash = th->hash;
    s->ts = ts;
    s->clock = th->view.clock[t];
    s->thread = (uint8_t)t;
    s->taken = s->plain = false;
    join(&s->view, releases(order) ? &th->view : &th->released);
    if (sequence)
        join(&s->view, sequence);
    s->view.ts[i] = larger(s->view.ts[i], ts);
    watch(th, loc, s->hash, true);
    if (behind + 2 == loc->num)
        store_native(loc->at, loc->size, value);
    if (is_sc(order))
        run.sc[i] = larger(run.sc[i], ts);
}

static void fence(int t, int order)
{
    struct thread *th = &run.threads[t];

    if (acquires(order))
        join(&th->view, &th->acquired);
    if (is_sc(order) && model == AARCH64) {
        for (uint32_t i = 0; i < run.num_locs; i++)
            run.sc[i] = th->view.ts[i] = larger(th->view.ts[i], run.sc[i]);
    }
    if (releases(order) && model == AARCH64)
        th->released = th->view;
    th->hash = mix(th->hash, 0xfe + (uint64_t)order);
    uint64_t sum = 0;
    for (uint32_t i = 0; is_sc(order) && i < run.num_locs; i++)
        for (uint32_t k = 1; k < run.locs[i].num; k++)
            if (run.locs[i].stores[k].ts == th->view.ts[i])
                sum += mix(4, run.locs[i].stores[k].hash);
    th->hash = mix(th->hash, sum);
}

static void flush_one(int t)
{
    struct thread *th = &run.threads[t];
    struct loc *loc = th->buffer[0].loc;
    struct store *last = latest(loc);

    if (loc->num == MAX_STORES) {
        fail_run("too many stores to one location");
        return;
    }
    struct store *s = &loc->stores[loc->num++];
    *s = (struct store){.value = th->buffer[0].value,
                        .hash = th->buffer[0].hash,
                        .ts = last->ts + TS_GAP,
                        .clock = th->buffer[0].clock,
                        .thread = (uint8_t)t};
    s->view = th->buffer[0].view;
    s->view.ts[loc - run.locs] = s->ts;
    store_native(loc->at, loc->size, s->value);
    memmove(&th->buffer[0], &th->buffer[1], --th->buffered * sizeof(th->buffer[0]));
}

static void buffer_store(int t, struct loc *loc, const struct op *op)
{
    struct thread *th = &run.threads[t];

    if (th->buffered == MAX_BUFFER) {
        fail_run("too many stores in the buffer");
        return;
    }
    th->hash = mix(th->hash, 0x57);
    th->buffer[th->buffered].loc = loc;
    th->buffer[th->buffered].value = op->operand;
    th->buffer[th->buffered].hash = th->hash;
    th->buffer[th->buffered].clock = th->view.clock[t];
    th->buffer[th->buffered++].view = th->view;
    watch(th, loc, th->hash, true);
}

static void log_step(int t, const struct op *op)
{
    if (run.steps >= MAX_STEPS) {
        fail_run("too many steps");
        return;
    }
    run.log[run.steps].thread = (uint8_t)t;
    run.log[run.steps].kind = op->kind;
    run.log[run.steps].pc = op->pc;
    run.log[run.steps].at = (uintptr_t)op->at;
    run.log[run.steps++].value = op->kind == STORE ? op->operand : op->result;
}

static void read_and_write(int t, struct loc *loc, uint32_t at, struct op *op)
{
    struct store *s = &loc->stores[at];
    bool done = op->kind != CAS || s->value == op->expected;
    int order = done ? op->order : op->fail_order;

    op->result = s->value;
    read_store(t, loc, s, order, op->pc);
    if (!done)
        return;
    struct view sequence = s->view;
    s->taken = true;
    write_store(t, loc, at, cut(apply(op, s->value), op->size), order, &sequence);
}

static uint32_t last_places[MAX_STORES];

/* The number of ways in which the next operation of a thread can go; 0: it has to wait. */
static uint32_t count_ways(int t)
{
    struct thread *th = &run.threads[t];
    struct op *op = &th->op;

    if (th->ended)
        return 0;
    if (model == X86 && fences_x86(op) && th->buffered > 0)
        return 0;
    if (op->kind == SYNC)
        return model != X86 || run.threads[op->operand].buffered == 0;
    if (op->kind == FENCE)
        return 1;
    struct loc *loc = loc_of(op->at, op->size);
    if (op->kind == WAIT)
        return (latest(loc)->value & op->expected) != 0;
    if (op->kind == LOCK)
        return latest(loc)->value == 0;
    if (model == X86)
        return 1;
    if (op->kind == STORE)
        return places(t, loc, op->order, last_places);
    uint32_t n = newest(loc) - first_readable(t, loc, op->order) + 1;
    if (op->kind == LOAD)
        return n;
    /* a read-modify-write may not come between another one and the store which that has read */
    uint32_t ways = 0;
    for (uint32_t k = loc->num - n; k < loc->num; k++)
        ways += !loc->stores[k].taken || (op->kind == CAS && loc->stores[k].value != op->expected);
    return ways;
}

static uint32_t find_way(struct loc *loc, const struct op *op, uint32_t way)
{
    for (uint32_t k = loc->num; k-- > 0;)
        if (!loc->stores[k].taken || (op->kind == CAS && loc->stores[k].value != op->expected))
            if (way-- == 0)
                return k;
    abort();
}

static bool is_shared(const struct op *op)
{
    for (uint32_t i = 0; i < num_known; i++)
        if (known[i].at == (uintptr_t)op->at)
            return known[i].written && (known[i].threads & (known[i].threads - 1));
    return true;
}

/* A thread that slept goes on. */
static void end_sleep(int t, struct loc *loc, struct op *op)
{
    struct store *last = latest(loc);

    op->order = __ATOMIC_SEQ_CST;
    op->result = last->value;
    if (op->kind == WAIT && op->operand == UINT64_MAX) { /* nothing is cleared */
        read_store(t, loc, last, op->order, op->pc);
        return;
    }
    op->operand = op->kind == LOCK ? 1 : last->value & op->operand;
    read_and_write(t, loc, newest(loc), op);
}

static void execute(int t, uint32_t way)
{
    struct thread *th = &run.threads[t];
    struct op *op = &th->op;

    th->view.clock[t]++;
    th->hash = mix(mix(th->hash, op->kind + 1), (uintptr_t)op->at);
    if (op->kind == FENCE) {
        fence(t, op->order);
    } else if (op->kind == SYNC) {
        /* what either thread did before happens before what the other one does afterwards */
        struct thread *other = &run.threads[op->operand];
        join(&other->view, &th->view);
        fence((int)op->operand, __ATOMIC_SEQ_CST);
        join(&th->view, &other->view);
        th->hash = mix(th->hash, other->hash);
        other->hash = mix(other->hash, th->hash);
        other->view.clock[op->operand]++;
    } else {
        struct loc *loc = loc_of(op->at, op->size);
        latest(loc);
        struct word *w = word_of((uintptr_t)op->at & ~3ul);
        if (w->written > th->view.clock[w->writer])
            report_race(t, (uintptr_t)op->at, op->pc, "accesses");
        if (op->kind == WAIT || op->kind == LOCK) {
            end_sleep(t, loc, op);
        } else if (op->kind == STORE && model == X86 && !is_sc(op->order) && is_shared(op)) {
            buffer_store(t, loc, op);
        } else if (op->kind == STORE) {
            if (model == X86) {
                last_places[0] = newest(loc);
                way = 0;
            } else {
                places(t, loc, op->order, last_places);
            }
            write_store(t, loc, last_places[way], op->operand, op->order, NULL);
        } else if (op->kind == LOAD && model == X86) {
            uint32_t k = th->buffered;
            while (k > 0 && th->buffer[k - 1].loc != loc)
                k--;
            if (k > 0) {
                op->result = th->buffer[k - 1].value;
                th->hash = mix(th->hash, th->buffer[k - 1].hash);
            } else {
                op->result = latest(loc)->value;
                read_store(t, loc, latest(loc), op->order, op->pc);
            }
        } else if (op->kind == LOAD) {
            struct store *s = &loc->stores[newest(loc) - way];
            op->result = s->value;
            read_store(t, loc, s, op->order, op->pc);
        } else {
            uint32_t k = model == X86 ? newest(loc) : find_way(loc, op, way);
            read_and_write(t, loc, k, op);
        }
    }
    log_step(t, op);
    th->view.clock[t]++; /* what follows does not happen before what this step releases */
}

/*
 * What the threads call
 */

static bool needs_order(int t, const struct op *op)
{
    uint32_t i = 0;

    if (op->kind == FENCE || op->kind == SYNC || op->kind == WAIT || op->kind == LOCK)
        return true;
    while (i < num_known && known[i].at != (uintptr_t)op->at)
        i++;
    if (i == MAX_PLACES)
        abort();
    if (i == num_known) {
        known[num_known++] = (struct place){.at = (uintptr_t)op->at};
    }
    struct place *p = &known[i], before = *p;
    p->threads |= (uint8_t)(1 << t);
    p->written |= op->kind != LOAD;
    bool was = before.written && (before.threads & (before.threads - 1));
    bool is = p->written && (p->threads & (p->threads - 1));
    if (is != was)
        known_changed = true;
    return is || (model == X86 && fences_x86(op));
}

static struct usage *usage_of(uintptr_t at)
{
    uint32_t i = 0;

    while (i < num_usages && usages[i].at != at)
        i++;
    if (i == MAX_PLACES)
        abort();
    if (i == num_usages)
        usages[num_usages++] = (struct usage){.at = at};
    return &usages[i];
}

static void note_usage(int t, const struct op *op)
{
    uint8_t bit = (uint8_t)(1 << t);

    if (op->kind == SYNC) {
        known_changed |= syncers_relied && !(syncers & bit);
        syncers |= bit;
    }
    if (op->kind == FENCE || op->kind == SYNC)
        return;
    struct usage *u = usage_of((uintptr_t)op->at), before = *u;
    u->threads |= bit;
    u->writers |= op->kind == LOAD ? 0 : bit;
    u->is_mutex |= op->kind == LOCK;
    u->is_tried |= op->kind != LOCK && op->kind != STORE;
    if (u->relied && memcmp(u, &before, sizeof(*u)) != 0) {
        known_changed = true;
        u->relied = false;
    }
}

static uint64_t perform(struct op op)
{
    if (run.running == MAIN) {
        uint64_t old =
            op.kind == FENCE || op.kind == SYNC ? 0 : load_native((uintptr_t)op.at, op.size);
        if (op.kind == STORE || (is_rmw(op.kind) && (op.kind != CAS || old == op.expected)))
            store_native((uintptr_t)op.at, op.size, cut(apply(&op, old), op.size));
        return old;
    }
    int t = run.running;
    struct thread *th = &run.threads[t];
    op.operand = op.size ? cut(op.operand, op.size) : op.operand;
    th->op = op;
    note_usage(t, &op);
    if (needs_order(t, &op)) {
        if (_setjmp(th->here) == 0)
            _longjmp(run.scheduler, 1);
    } else {
        execute(t, 0);
    }
    uint64_t result = th->op.result;
    do_late_plain(t);
    if (run.failed)
        leave();
    return result;
}

static void do_late(void)
{
    struct thread *th = run.running == MAIN ? NULL : &run.threads[run.running];

    if (th && th->has_late) {
        th->has_late = false;
        perform(th->late);
    }
}

/* A store that is late comes behind the next step, unless this accesses the same place. */
static uint64_t step(struct op op)
{
    if (run.running != MAIN && run.threads[run.running].late.at == op.at)
        do_late();
    uint64_t result = perform(op);
    do_late();
    return result;
}

static uint64_t visible(struct op op)
{
    struct thread *th = run.running == MAIN ? NULL : &run.threads[run.running];

    if (th) {
        note_site(op.pc, op.kind, op.order, op.fail_order, op.size);
        op.order = order_at(op.pc, op.kind, op.order);
        if (is_mutated(op.pc, WEAKEN_FAIL))
            op.fail_order = weaker(LOAD, op.fail_order, false);
        if (op.kind == STORE && is_mutated(op.pc, LATE) && !th->has_late) {
            th->has_late = true;
            th->late = op;
            return 0;
        }
        if (op.kind == FENCE && !is_sc(op.order)) {
            fence(run.running, op.order);
            return 0;
        }
    }
    return step(op);
}

void uv_pause(void)
{
    if (run.running == MAIN)
        uv_fail("setup() waits", __FILE__, __LINE__);
    struct thread *th = &run.threads[run.running];
    do_late();
    do_late_plain(run.running);
    if (th->seen == th->last_watched) {
        run.pruned = true; /* it has waited, and has read the same values again */
        leave();
    }
    th->last_watched = th->seen;
    th->seen = 0;
    th->paused = true;
    th->op = (struct op){.kind = FENCE, .order = __ATOMIC_RELAXED};
    if (_setjmp(th->here) == 0)
        _longjmp(run.scheduler, 1);
}

#define PC ((uintptr_t)__builtin_return_address(0))

/* The kernel sends an interrupt to one CPU after the other. */
void uv_membarrier(void)
{
    visible((struct op){.kind = FENCE, .order = __ATOMIC_SEQ_CST, .pc = PC});
    if (run.running == MAIN)
        return;
    for (unsigned int t = 0; t < run.num_threads; t++)
        if ((int)t != run.running)
            perform((struct op){.kind = SYNC, .operand = t, .pc = PC});
    perform((struct op){.kind = FENCE, .order = __ATOMIC_SEQ_CST, .pc = PC});
}

void uv_event_post(uint64_t *event)
{
    step((struct op){.kind = EXCHANGE,
                     .order = __ATOMIC_SEQ_CST,
                     .at = event,
                     .size = 8,
                     .operand = 1,
                     .pc = PC});
}

void uv_event_wait(uint64_t *event)
{
    do_late();
    perform((struct op){.kind = WAIT, .at = event, .size = 8, .expected = UINT64_MAX, .pc = PC});
}

bool uv_event_take(uint64_t *event)
{
    return step((struct op){.kind = EXCHANGE,
                            .order = __ATOMIC_SEQ_CST,
                            .at = event,
                            .size = 8,
                            .operand = 0,
                            .pc = PC});
}

void uv_events_post(uint64_t *events, uint64_t bits)
{
    step((struct op){
        .kind = OR, .order = __ATOMIC_SEQ_CST, .at = events, .size = 8, .operand = bits, .pc = PC});
}

uint64_t uv_events_poll(uint64_t *events, uint64_t mask)
{
    do_late();
    return mask & perform((struct op){.kind = WAIT,
                                      .at = events,
                                      .size = 8,
                                      .operand = UINT64_MAX,
                                      .expected = mask,
                                      .pc = PC});
}

uint64_t uv_events_now(uint64_t *events, uint64_t mask)
{
    return mask & step((struct op){
                      .kind = LOAD, .order = __ATOMIC_SEQ_CST, .at = events, .size = 8, .pc = PC});
}

bool uv_events_take(uint64_t *events, uint64_t bits)
{
    return bits & step((struct op){.kind = AND,
                                   .order = __ATOMIC_SEQ_CST,
                                   .at = events,
                                   .size = 8,
                                   .operand = ~bits,
                                   .pc = PC});
}

bool uv_mutex_try(uint64_t *mutex)
{
    return step((struct op){.kind = CAS,
                            .order = __ATOMIC_ACQUIRE,
                            .fail_order = __ATOMIC_RELAXED,
                            .at = mutex,
                            .size = 8,
                            .operand = 1,
                            .expected = 0,
                            .pc = PC}) == 0;
}

void uv_mutex_lock(uint64_t *mutex)
{
    do_late();
    if (run.running == MAIN)
        *mutex = 0; /* an earlier run may have ended with the mutex locked */
    else
        perform((struct op){.kind = LOCK, .at = mutex, .size = 8, .pc = PC});
}

void uv_mutex_unlock(uint64_t *mutex)
{
    do_late();
    if (run.running != MAIN)
        perform((struct op){.kind = STORE,
                            .order = __ATOMIC_RELEASE,
                            .at = mutex,
                            .size = 8,
                            .operand = 0,
                            .pc = PC});
}

bool uv_swap16(uint64_t *at, uint64_t vacant, uint64_t first, uint64_t second)
{
    struct op op = {.kind = CAS,
                    .order = __ATOMIC_SEQ_CST,
                    .fail_order = __ATOMIC_SEQ_CST,
                    .at = at,
                    .size = 8,
                    .operand = first,
                    .expected = vacant,
                    .pc = PC};

    if (run.running != MAIN && run.threads[run.running].has_late)
        do_late();
    if (perform(op) != vacant)
        return false;
    plain(at + 1, 8, false, PC);
    UV_CHECK(at[1] == 0 && "a free slot has no other content");
    /* in the same step: nobody may see the first word alone */
    if (run.running != MAIN) {
        struct loc *loc = find_loc((uintptr_t)at);
        struct store *s = latest(loc);
        access_plain(run.running, (uintptr_t)(at + 1), 8, true, PC);
        s->view.clock[run.running] = run.threads[run.running].view.clock[run.running]++;
    }
    at[1] = second;
    return true;
}

#define ORDER_FUNCTIONS(bits, bytes, type)                                                         \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                            \
    {                                                                                              \
        return (type)visible((struct op){                                                          \
            .kind = LOAD, .order = order, .at = (void *)(uintptr_t)at, .size = bytes, .pc = PC});  \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                     \
    {                                                                                              \
        visible((struct op){.kind = STORE,                                                         \
                            .order = order,                                                        \
                            .at = (void *)(uintptr_t)at,                                           \
                            .size = bytes,                                                         \
                            .operand = (uint64_t)value,                                            \
                            .pc = PC});                                                            \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected,           \
                                                      type desired, int order, int fail)           \
    {                                                                                              \
        type old = __tsan_cas##bits(at, *expected, desired, order, fail, PC);                      \
        bool done = old == *expected;                                                              \
        *expected = old;                                                                           \
        return done;                                                                               \
    }                                                                                              \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,              \
                                                    type desired, int order, int fail)             \
    {                                                                                              \
        return __tsan_cas##bits(at, expected, desired, order, fail, PC);                           \
    }                                                                                              \
    RMW_FUNCTION(bits, bytes, type, exchange, EXCHANGE)                                            \
    RMW_FUNCTION(bits, bytes, type, fetch_add, ADD)                                                \
    RMW_FUNCTION(bits, bytes, type, fetch_sub, SUB)                                                \
    RMW_FUNCTION(bits, bytes, type, fetch_and, AND)                                                \
    RMW_FUNCTION(bits, bytes, type, fetch_or, OR)                                                  \
    RMW_FUNCTION(bits, bytes, type, fetch_xor, XOR)

#define RMW_FUNCTION(bits, bytes, type, name, which)                                               \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)                    \
    {                                                                                              \
        return (type)visible((struct op){.kind = which,                                            \
                                         .order = order,                                           \
                                         .at = (void *)(uintptr_t)at,                              \
                                         .size = bytes,                                            \
                                         .operand = (uint64_t)value,                               \
                                         .pc = PC});                                               \
    }

#define CAS_FUNCTION(bits, bytes, type)                                                            \
    static type __tsan_cas##bits(volatile type *at, type expected, type desired, int order,        \
                                 int fail, uintptr_t pc)                                           \
    {                                                                                              \
        return (type)visible((struct op){.kind = CAS,                                              \
                                         .order = order,                                           \
                                         .fail_order = fail,                                       \
                                         .at = (void *)(uintptr_t)at,                              \
                                         .size = bytes,                                            \
                                         .operand = (uint64_t)desired,                             \
                                         .expected = (uint64_t)expected,                           \
                                         .pc = pc});                                               \
    }

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
CAS_FUNCTION(8, 1, uint8_t)
CAS_FUNCTION(16, 2, uint16_t)
CAS_FUNCTION(32, 4, uint32_t)
CAS_FUNCTION(64, 8, uint64_t)
ORDER_FUNCTIONS(8, 1, uint8_t)
ORDER_FUNCTIONS(16, 2, uint16_t)
ORDER_FUNCTIONS(32, 4, uint32_t)
ORDER_FUNCTIONS(64, 8, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
    visible((struct op){.kind = FENCE, .order = order, .pc = PC});
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order; /* binds the compiler alone, and this code has been compiled */
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void)
{
}

/* Of copied bytes, which programs may watch while they change: the verifier does not see copies. */
#define ANNOTATION(name)                                                                           \
    void Annotate##name(const char *file, int line)                                                \
    {                                                                                              \
        (void)file, (void)line;                                                                    \
    }
ANNOTATION(IgnoreReadsBegin)
ANNOTATION(IgnoreReadsEnd)
ANNOTATION(IgnoreWritesBegin)
ANNOTATION(IgnoreWritesEnd)

#define PLAIN_FUNCTIONS(name, bytes)                                                               \
    void __tsan_read##name(void *at)                                                               \
    {                                                                                              \
        plain(at, bytes, false, PC);                                                               \
    }                                                                                              \
    void __tsan_write##name(void *at)                                                              \
    {                                                                                              \
        plain(at, bytes, true, PC);                                                                \
    }                                                                                              \
    void __tsan_unaligned_read##name(void *at)                                                     \
    {                                                                                              \
        plain(at, bytes, false, PC);                                                               \
    }                                                                                              \
    void __tsan_unaligned_write##name(void *at)                                                    \
    {                                                                                              \
        plain(at, bytes, true, PC);                                                                \
    }
PLAIN_FUNCTIONS(1, 1)
PLAIN_FUNCTIONS(2, 2)
PLAIN_FUNCTIONS(4, 4)
PLAIN_FUNCTIONS(8, 8)
PLAIN_FUNCTIONS(16, 16)

void __tsan_read_range(void *at, unsigned long size)
{
    plain(at, size, false, PC);
}

void __tsan_write_range(void *at, unsigned long size)
{
    plain(at, size, true, PC);
}

/*
 * The search
 */

static void run_thread(int t)
{
    run.scenario->threads[t]();
    do_late();
    do_late_plain(t);
    run.threads[t].ended = true;
    _longjmp(run.scheduler, 1);
}

static void enter_thread(void)
{
    int t = run.running;

    run_thread(t);
}

/* Lets a thread run to its next operation. */
static void resume(int t)
{
    struct thread *th = &run.threads[t];

    run.running = t;
    if (_setjmp(run.scheduler) == 0) {
        if (th->started)
            _longjmp(th->here, 1);
        th->started = true;
        setcontext(&th->context);
    }
    run.running = MAIN;
}

static unsigned int count_threads(const struct uv_scenario *scenario)
{
    unsigned int n = 0;

    while (n < UV_MAX_THREADS && scenario->threads[n])
        n++;
    return n;
}

static void begin_run(const struct uv_scenario *scenario)
{
    memset(&run.threads, 0, sizeof(run.threads));
    memset(run.sc, 0, sizeof(run.sc));
    run.scenario = scenario;
    run.num_locs = 0;
    run.steps = run.preemptions = 0;
    run.last = MAIN;
    run.failed = run.pruned = run.in_end = false;
    run.running = MAIN;
    run.main_self = 0;
    epoch++;
    scenario->setup();
    run.num_threads = count_threads(scenario);
    for (uint32_t t = 0; t < run.num_threads && !run.failed; t++) {
        struct thread *th = &run.threads[t];
        getcontext(&th->context);
        th->context.uc_stack.ss_sp = stacks[t];
        th->context.uc_stack.ss_size = STACK;
        makecontext(&th->context, enter_thread, 0);
        th->view.clock[t] = 1;
        resume((int)t);
    }
}

/* A paused thread goes on when one of the values that it has read can be another one by now. */
static bool may_go_on(struct thread *th)
{
    for (uint32_t i = 0; i < th->num_watched; i++) {
        uint64_t now = latest(th->watched[i].loc)->hash;
        for (uint32_t k = 0; k < th->buffered; k++)
            if (th->buffer[k].loc == th->watched[i].loc)
                now = th->buffer[k].hash;
        if (th->watched[i].changed || now != th->watched[i].hash)
            return true;
    }
    return false;
}

static uint64_t state_hash(void)
{
    uint64_t h = 1;

    for (unsigned int t = 0; t < run.num_threads; t++) {
        struct thread *th = &run.threads[t];
        h = mix(mix(h, th->hash),
                (uint64_t)th->ended << 40 | (uint64_t)th->paused << 32 | th->buffered);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run.num_locs; i++) {
        struct loc *loc = &run.locs[i];
        uint64_t one = mix(2, loc->at);
        if (loc->num == 1 && run.sc[i] == 0)
            continue; /* as if it had not been read yet */
        for (uint32_t k = model == X86 ? newest(loc) : 0; k < loc->num; k++) {
            one = mix(one, loc->stores[k].hash);
            if (run.sc[i] == loc->stores[k].ts)
                one = mix(one, 3);
        }
        sum += one;
    }
    return mix(h, sum);
}

/* False: was there before. */
static bool visit(uint64_t hash)
{
    if (2 * num_visited >= visited_mask) {
        uint64_t *old = visited, size = visited_mask + 1;
        visited_mask = visited ? visited_mask * 2 + 1 : (1 << 16) - 1;
        visited = calloc(visited_mask + 1, sizeof(*visited));
        num_visited = 0;
        for (uint64_t i = 0; old && i < size; i++)
            if (old[i])
                visit(old[i]);
        free(old);
    }
    hash |= hash == 0;
    uint64_t i = hash & visited_mask;
    while (visited[i] && visited[i] != hash)
        i = (i + 1) & visited_mask;
    if (visited[i])
        return false;
    visited[i] = hash;
    num_visited++;
    return true;
}

static void forget_visited(void)
{
    free(visited);
    visited = NULL;
    visited_mask = num_visited = 0;
}

/* Thread t takes its step, in one of its ways, and runs to its next one. */
static void take_step(int t, uint32_t way)
{
    struct thread *th = &run.threads[t];

    if (th->paused) {
        th->paused = false;
        th->num_watched = 0;
        th->view.clock[t]++;
        resume(t);
        return;
    }
    execute(t, way);
    if (!run.failed)
        resume(t);
}

/* True if no other thread that still runs notices an access to the place, or can do anything about
 * it before: a mutex that is locked, and that nobody tries. */
static bool is_own(int t, uintptr_t at, bool reads, uint8_t others)
{
    struct usage *u = usage_of(at);
    bool own =
        !((reads ? u->writers : u->threads) & others) || (u->is_mutex && !u->is_tried && !reads);

    (void)t;
    u->relied |= own;
    return own;
}

/* True if the next operation of the thread, or (`flush`) that of its oldest store to memory, is
 * independent of everything that others do before it: then it is enough to let it go first. */
static bool goes_alone(int t, bool flush)
{
    const struct thread *th = &run.threads[t];
    uint8_t others = 0;

    for (unsigned int i = 0; i < run.num_threads; i++)
        if ((int)i != t && (!run.threads[i].ended || run.threads[i].buffered > 0))
            others |= (uint8_t)(1 << i);
    syncers_relied = true;
    if (syncers & others)
        return false;
    if (flush)
        return is_own(t, th->buffer[0].loc->at, false, others);
    if (th->paused || th->op.kind == SYNC)
        return false;
    if (th->op.kind == FENCE)
        return model == X86;
    if (th->op.kind == LOCK || th->op.kind == WAIT)
        return !(usage_of((uintptr_t)th->op.at)->threads & others) &&
               is_own(t, (uintptr_t)th->op.at, true, others);
    if (model == X86 && th->op.kind == STORE && !is_sc(th->op.order) && is_shared(&th->op))
        return true;
    return is_own(t, (uintptr_t)th->op.at, th->op.kind == LOAD, others);
}

/* Leaves one step out of all, if it goes alone. Returns their number. */
static uint32_t reduce(uint32_t ways[2 * UV_MAX_THREADS], uint32_t total)
{
    for (unsigned int i = 0; i < 2 * run.num_threads; i++) {
        if (ways[i] == 0 || ways[i] == total || !goes_alone((int)i / 2, i % 2))
            continue;
        for (unsigned int k = 0; k < 2 * run.num_threads; k++)
            ways[k] = k == i ? ways[k] : 0;
        return ways[i];
    }
    return total;
}

/* A thread that could go on, and does not pause, is preempted if another one takes the next step.
 */
static bool may_be_preempted(const uint32_t ways[2 * UV_MAX_THREADS])
{
    return run.last != MAIN && ways[2 * run.last] > 0 && !run.threads[run.last].paused;
}

/* At the limit nobody is preempted. Stores that leave a buffer, and steps that go alone, preempt
 * nobody. */
static uint32_t limit_preemptions(uint32_t ways[2 * UV_MAX_THREADS], uint32_t total)
{
    if (run.preemptions < max_preemptions || !may_be_preempted(ways))
        return total;
    for (unsigned int t = 0; t < run.num_threads; t++) {
        if ((int)t == run.last)
            continue;
        total -= ways[2 * t];
        ways[2 * t] = 0;
    }
    return total;
}

static void check_end(void)
{
    for (unsigned int t = 0; t < run.num_threads; t++)
        if (!run.threads[t].ended && !(run.scenario->daemons >> t & 1)) {
            fail_run("thread %u sleeps for ever", t + 1);
            return;
        }
    if (run.scenario->end) {
        run.in_end = true;
        if (_setjmp(run.scheduler) == 0)
            run.scenario->end();
        run.in_end = false;
    }
}

/* One run along `path`, and on from its end. */
static void run_once(const struct uv_scenario *scenario)
{
    begin_run(scenario);
    for (uint32_t depth = 0; !run.failed && !run.pruned; depth++) {
        uint32_t ways[2 * UV_MAX_THREADS], total = 0;
        if (depth >= path_length) {
            uint64_t hash = state_hash();
            if (max_preemptions < UINT32_MAX)
                hash = mix(mix(hash, (uint64_t)run.last), run.preemptions);
            if (!visit(hash))
                return;
        }
        for (unsigned int t = 0; t < run.num_threads; t++) {
            struct thread *th = &run.threads[t];
            ways[2 * t] = th->paused ? may_go_on(th) : count_ways((int)t);
            ways[2 * t + 1] = th->buffered > 0;
            total += ways[2 * t] + ways[2 * t + 1];
        }
        if (total == 0) {
            check_end();
            return;
        }
        bool preempts = may_be_preempted(ways);
        uint32_t reduced = reduces ? reduce(ways, total) : total;
        bool is_alone = reduced < total;
        total = is_alone ? reduced : limit_preemptions(ways, total);
        if (depth == MAX_STEPS) {
            fail_run("too many steps");
            return;
        }
        if (depth >= path_length) {
            path[depth] = (struct choice){0, total};
            path_length = depth + 1;
        }
        uint32_t pick = path[depth].at, i = 0;
        while (pick >= ways[i])
            pick -= ways[i++];
        if (i % 2) {
            flush_one((int)i / 2);
            continue;
        }
        if (!is_alone) {
            run.preemptions += preempts && (int)i / 2 != run.last;
            run.last = (int)i / 2;
        }
        take_step((int)i / 2, pick);
    }
}

static bool next_path(void)
{
    while (path_length > 0 && path[path_length - 1].at + 1 == path[path_length - 1].num)
        path_length--;
    if (path_length == 0)
        return false;
    path[path_length - 1].at++;
    return true;
}

static void print_failure(void)
{
    printf("FAILED %s: %s\n", run.scenario->name, run.what);
    for (uint32_t i = 0; i < run.steps; i++)
        printf("  step %u: thread %u %s %#" PRIx64 " = %#" PRIx64 " [pc %#zx]\n", i,
               run.log[i].thread + 1u, kind_names[run.log[i].kind],
               run.log[i].at ? run.log[i].at - (uintptr_t)&__executable_start : 0, run.log[i].value,
               (size_t)offset_of(run.log[i].pc));
}

/* False: something does not hold in a run. */
static bool search(const struct uv_scenario *scenario)
{
    uint64_t runs = 0;
    uint32_t longest = 0;

    num_known = num_usages = 0;
    syncers = 0;
    memset(words, 0, sizeof(words));
again:
    path_length = 0;
    known_changed = syncers_relied = false;
    for (uint32_t i = 0; i < num_usages; i++)
        usages[i].relied = false;
    forget_visited();
    do {
        run_once(scenario);
        longest = run.steps > longest ? run.steps : longest;
        runs++;
        if (known_changed)
            goto again;
        if (run.failed) {
            print_failure();
            return false;
        }
        if (num_visited > max_states) {
            printf("UNFINISHED %s: more than %" PRIu64 " states, runs of up to %u steps\n",
                   scenario->name, max_states, longest);
            return false;
        }
    } while (next_path());
    printf("holds %s: %" PRIu64 " states, %" PRIu64 " runs", scenario->name, num_visited, runs);
    if (max_preemptions < UINT32_MAX)
        printf(", at most %u preemptions", max_preemptions);
    printf("\n");
    return true;
}

static void print_sites(void)
{
    for (uint32_t i = 0; i < num_sites; i++)
        printf("site %#zx %s %d %d %u %d\n", (size_t)offset_of(sites[i].pc),
               kind_names[sites[i].kind], sites[i].order, sites[i].fail_order, sites[i].size,
               sites[i].shared);
}

static void read_mutation(const char *arg)
{
    static const char *const names[] = {"none", "weaken", "weaken-other", "weaken-fail", "late"};
    const char *equals = strchr(arg, '=');

    for (unsigned int i = 1; equals && i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == (size_t)(equals - arg) &&
            strncmp(arg, names[i], strlen(names[i])) == 0)
            mutation = (enum mutation)i;
    for (char *s = equals ? strdup(equals + 1) : NULL, *p = s ? strtok(s, ",") : NULL; p;
         p = strtok(NULL, ","))
        if (num_mutated < MAX_MUTATED)
            mutated[num_mutated++] = strtoul(p, NULL, 16);
    if (mutation == NONE || num_mutated == 0) {
        fprintf(stderr, "wrong mutation %s\n", arg);
        exit(2);
    }
}

/* The locks of the code under test. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    uv_mutex_lock((uint64_t *)(void *)mutex);
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    uv_mutex_unlock((uint64_t *)(void *)mutex);
    return 0;
}

int uv_main(int argc, char **argv, const struct uv_scenario *scenarios, size_t num)
{
    const char *only = NULL;
    bool list = false, ok = true, keep_going = false, quick = false;

    setvbuf(stdout, NULL, _IOLBF, 0);
#ifdef UV_AARCH64
    model = AARCH64;
#endif
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--mutate=", 9) == 0)
            read_mutation(argv[i] + 9);
        else if (strncmp(argv[i], "--states=", 9) == 0)
            max_states = strtoull(argv[i] + 9, NULL, 10);
        else if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strncmp(argv[i], "--preemptions=", 14) == 0)
            max_preemptions = (uint32_t)strtoul(argv[i] + 14, NULL, 10);
        else if (strcmp(argv[i], "--whole") == 0)
            reduces = false;
        else if (strcmp(argv[i], "--sites") == 0)
            list = true;
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = true;
        else
            only = argv[i];
    }
    for (size_t i = 0; i < num && (ok || keep_going); i++) {
        if (only ? strcmp(only, scenarios[i].name) != 0
                 : scenarios[i].slow >= (quick ? UV_SLOW : UV_NAMED))
            continue;
        if (!only && scenarios[i].slow == UV_ENDLESS)
            max_preemptions = ENDLESS_PREEMPTIONS;
        ok = search(&scenarios[i]) && ok;
        if (!only && scenarios[i].slow == UV_ENDLESS)
            max_preemptions = UINT32_MAX;
    }
    if (list)
        print_sites();
    return ok ? 0 : 1;
}
