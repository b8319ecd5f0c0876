/* SPDX-License-Identifier: Apache-2.0 */
/* --time: the patterns by which a model of the network is fitted. In each, rank 0 takes the time of
   each round, and writes median, deciles and count. A round of a pattern is a function that every
   process calls; how many there are follows from the time of a few at the start. */
#include "timing.h"
#include "circuit.h"
#include "owned.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 1000, TRIAL_ROUNDS = 8, WINDOW = 8, IN_WINDOW = 64, MOST_TNIS = 6 };
#define ROW_SECONDS 0.5 /* of a line */

static const struct cf_place *places;

void cf_time_places(const struct cf_place *where)
{
    places = where;
}

struct end {
    utofu_vcq_id_t id[MOST_TNIS];
    utofu_stadd_t send[MOST_TNIS], recv[MOST_TNIS];
};

struct timing {
    struct cf *c;
    struct cf_ends e[MOST_TNIS]; /* a VCQ for each TNI, with buffers of its own */
    int vcqs;
    struct end end[CF_MAX_SIZE];
    int other; /* the rank that rank 0 communicates with */
    size_t bytes;
    int get, armw;
    unsigned long flags;
    uint64_t value;  /* rounds that were begun */
    int64_t missing; /* notices of all rounds so far that have not come; fewer than 0: some of later
                        rounds have */
    struct cf_circuit circuit;
    double per; /* what a round is divided by */
    const char *unit;
    double samples[MOST_ROUNDS];
};

typedef int (*round_function)(struct timing *t);

/* ---- Waiting without giving the processor away at once: what is measured is a matter of
 * nanoseconds ---- */
struct spin {
    unsigned times;
    double until;
};

static int may_go_on(struct spin *s)
{
    if (++s->times % 256 != 0)
        return 1;
    if (s->until == 0)
        s->until = cf_now() + 10 * cf_timeout_scale;
    cf_rest(0);
    if (s->times % 4096 == 0)
        cf_rest(1e-6); /* where processes share a core */
    return cf_now() < s->until;
}

static int wait_word(struct timing *t, const volatile uint64_t *word, uint64_t value)
{
    struct spin s = {0, 0};
    while (*word != value)
        if (!may_go_on(&s)) {
            cf_fail(t->c, "a word did not come in round %lu", (unsigned long)value);
            return 0;
        }
    return 1;
}

static int wait_notice(struct timing *t, utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    struct spin s = {0, 0};
    int rc;
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        if (!may_go_on(&s))
            break;
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "utofu_poll_mrq() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static int wait_entry(struct timing *t, utofu_vcq_hdl_t vcq)
{
    struct spin s = {0, 0};
    void *cbdata;
    int rc;
    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        if (!may_go_on(&s))
            break;
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "utofu_poll_tcq() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static volatile uint64_t *word_at(unsigned char *memory, size_t at)
{
    return (volatile uint64_t *)(void *)(memory + at);
}

static int start_put(struct timing *t, int vcq, int to, utofu_stadd_t from, size_t at,
                     unsigned long flags)
{
    int rc;
    CF_RETRY(rc, t->e[vcq].vcq,
             utofu_put(t->e[vcq].vcq, t->end[to].id[vcq], from, t->end[to].recv[vcq] + at, t->bytes,
                       0, t->flags | flags, NULL));
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* Puts, in order, bytes whose last word is the round's value */
static int put_value(struct timing *t, int to)
{
    *word_at(t->e[0].send, t->bytes - 8) = t->value;
    return start_put(t, 0, to, t->end[t->c->rank].send[0], 0, UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

static int wait_value(struct timing *t)
{
    return wait_word(t, word_at(t->e[0].recv, t->bytes - 8), t->value);
}

/* ---- Rounds ---- */
static int ping_pong(struct timing *t)
{
    if (t->c->rank == 0)
        return put_value(t, t->other) && wait_value(t);
    return t->c->rank != t->other || (wait_value(t) && put_value(t, 0));
}

static int get_or_armw(struct timing *t)
{
    int rc;
    if (t->c->rank != 0)
        return 1;
    if (t->armw)
        CF_RETRY(rc, t->e[0].vcq,
                 utofu_armw8(t->e[0].vcq, t->end[t->other].id[0], UTOFU_ARMW_OP_ADD, 1,
                             t->end[t->other].recv[0], 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                             NULL));
    else
        CF_RETRY(rc, t->e[0].vcq,
                 utofu_get(t->e[0].vcq, t->end[t->other].id[0], t->end[0].recv[0],
                           t->end[t->other].send[0], t->bytes, 0,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "the start function returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS && wait_notice(t, t->e[0].vcq);
}

static int start_in_window(struct timing *t, int to)
{
    int rc;
    if (!t->get)
        return start_put(t, 0, to, t->end[t->c->rank].send[0], 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
    CF_RETRY(rc, t->e[0].vcq,
             utofu_get(t->e[0].vcq, t->end[to].id[0], t->end[t->c->rank].recv[0],
                       t->end[to].send[0], t->bytes, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL));
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "utofu_get() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static int end_in_window(struct timing *t)
{
    return t->get ? wait_notice(t, t->e[0].vcq) : wait_entry(t, t->e[0].vcq);
}

static int fill_window(struct timing *t, int to)
{
    int i;
    for (i = 0; i < IN_WINDOW + WINDOW; i++)
        if ((i >= WINDOW && !end_in_window(t)) || (i < IN_WINDOW && !start_in_window(t, to)))
            return 0;
    return 1;
}

static int run_window(struct timing *t)
{
    return t->c->rank != 0 || fill_window(t, t->other);
}

static int all_windows(struct timing *t)
{
    return fill_window(t, cf_next(t->c));
}

/* Each process puts on what it has received */
static int run_ring(struct timing *t)
{
    if (t->c->rank == 0)
        return put_value(t, cf_next(t->c)) && wait_value(t);
    return wait_value(t) && start_put(t, 0, cf_next(t->c), t->end[t->c->rank].recv[0], 0,
                                      UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

static int await_arrivals(struct timing *t, int in_round)
{
    struct spin s = {0, 0};
    t->missing += in_round;
    while (t->missing > 0) {
        struct utofu_mrq_notice notice;
        int v, came = 0;
        for (v = 0; v < t->vcqs; v++)
            came += utofu_poll_mrq(t->e[v].vcq, 0, &notice) == UTOFU_SUCCESS;
        t->missing -= came;
        if (came == 0 && !may_go_on(&s)) {
            cf_fail(t->c, "%d notices did not come", (int)t->missing);
            return 0;
        }
    }
    return 1;
}

static int all_to_all(struct timing *t)
{
    int i;
    for (i = 1; i < t->c->size; i++) {
        int to = (t->c->rank + i) % t->c->size;
        if (!start_put(t, i % t->vcqs, to, t->end[t->c->rank].send[i % t->vcqs],
                       (size_t)t->c->rank * t->bytes, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE))
            return 0;
    }
    return await_arrivals(t, t->c->size - 1);
}

/* Rank 0 tells all to put to it, and waits for them */
static int run_incast(struct timing *t)
{
    size_t bytes = t->bytes, i;
    int ok = 1;
    if (t->c->rank != 0)
        return wait_word(t, word_at(t->e[0].recv, 0), t->value) &&
               start_put(t, 0, 0, t->end[t->c->rank].send[0], (size_t)t->c->rank * t->bytes,
                         UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    t->bytes = 8;
    *word_at(t->e[0].send, 0) = t->value;
    for (i = 1; i < (size_t)t->c->size && ok; i++)
        ok = start_put(t, 0, (int)i, t->end[0].send[0], 0, 0);
    t->bytes = bytes;
    return ok && await_arrivals(t, t->c->size - 1);
}

static int run_barrier(struct timing *t)
{
    int rc = cf_circuit_barrier(t->circuit.id);
    CF_HOLDS(t->c, rc == UTOFU_SUCCESS, "a barrier returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* ---- Lines ---- */
static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Links between two nodes if no axis but B is a torus */
static int links_to(int rank)
{
    static const int extents[6] = {0, 0, 0, 2, 3, 2};
    int axis, links = 0;
    if (!places[0].coords_known || !places[rank].coords_known)
        return -1;
    for (axis = 0; axis < 6; axis++) {
        int away = abs((int)places[0].coords[axis] - (int)places[rank].coords[axis]);
        links += away > 1 && extents[axis] == 3 ? 3 - away : away;
    }
    return links;
}

static void write_row(struct timing *t, const char *pattern, const char *more, size_t count)
{
    char line[1024];
    size_t length, i;
    qsort(t->samples, count, sizeof(t->samples[0]), compare_doubles);
    length =
        (size_t)snprintf(line, sizeof(line),
                         "{\"pattern\": \"%s\"%s, \"bytes\": %lu, \"unit\": \"%s\", \"count\": %lu",
                         pattern, more, (unsigned long)t->bytes, t->unit, (unsigned long)count);
    length += (size_t)snprintf(line + length, sizeof(line) - length,
                               ", \"median\": %.4g, \"least\": %.4g, \"deciles\": [",
                               t->samples[count / 2], t->samples[0]);
    for (i = 1; i < 10; i++)
        length += (size_t)snprintf(line + length, sizeof(line) - length, "%s%.4g",
                                   i > 1 ? ", " : "", t->samples[count * i / 10]);
    snprintf(line + length, sizeof(line) - length, "]}");
    cf_result_line("timing", line);
}

static void take_leftovers(struct timing *t)
{
    void *cbdata;
    int v;
    for (v = 0; v < t->vcqs; v++)
        while (utofu_poll_tcq(t->e[v].vcq, 0, &cbdata) == UTOFU_SUCCESS)
            ;
}

static int run_rounds(struct timing *t, round_function round, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        double began = cf_now();
        t->value++;
        if (!round(t))
            return 0;
        t->samples[i] = (cf_now() - began) * 1e6 / t->per;
        take_leftovers(t);
    }
    return 1;
}

/* Every process: 0 if the case has to end */
static int measure_row(struct timing *t, const char *pattern, const char *more,
                       round_function round)
{
    uint32_t mine, all[CF_MAX_SIZE];
    double spent;
    if (!cf_meet(t->c) || !run_rounds(t, round, TRIAL_ROUNDS))
        return 0;
    spent = cf_now();
    if (!run_rounds(t, round, TRIAL_ROUNDS))
        return 0;
    spent = (cf_now() - spent) / TRIAL_ROUNDS;
    mine = spent * MOST_ROUNDS < ROW_SECONDS ? MOST_ROUNDS : (uint32_t)(ROW_SECONDS / spent);
    if (mine < 16)
        mine = 16;
    if (!cf_share(t->c, &mine, sizeof(mine), all) || !run_rounds(t, round, all[0]))
        return 0;
    if (t->c->rank == 0)
        write_row(t, pattern, more, all[0]);
    return cf_meet(t->c);
}

/* ---- Preparation ---- */
static int open_timing(struct timing *t, struct cf *c, int vcqs, size_t bytes)
{
    struct end mine;
    int v;
    memset(t, 0, sizeof(*t));
    memset(&mine, 0, sizeof(mine));
    t->c = c;
    t->per = 1;
    t->unit = "us";
    for (v = 0; v < vcqs; v++) {
        if (!cf_open(c, &t->e[v], (size_t)v, 0, bytes))
            return 0;
        mine.id[v] = t->e[v].id;
        mine.send[v] = t->e[v].send_stadd;
        mine.recv[v] = t->e[v].recv_stadd;
        t->vcqs++;
    }
    return cf_share(c, &mine, sizeof(mine), t->end);
}

static struct timing *new_timing(void)
{
    return cf_alloc(sizeof(struct timing));
}

static void close_timing(struct cf *c, struct timing *t)
{
    int v;
    for (v = 0; v < MOST_TNIS; v++)
        if (t->e[v].send != NULL)
            cf_close(c, &t->e[v]);
    cf_free(t);
}

/* The first rank at each distance from rank 0; how many */
static int peers_by_distance(int size, int peers[CF_MAX_SIZE])
{
    int rank, i, count = 0;
    for (rank = 1; rank < size; rank++) {
        for (i = 0; i < count && links_to(peers[i]) != links_to(rank); i++)
            ;
        if (i == count)
            peers[count++] = rank;
    }
    return count;
}

/* The nearest rank that is not on the node of rank 0, or 1 */
static int find_neighbour(int size)
{
    int rank, best = 1;
    for (rank = 1; rank < size; rank++)
        if (links_to(rank) > 0 && (links_to(best) <= 0 || links_to(rank) < links_to(best)))
            best = rank;
    return best;
}

static void describe_peer(char *text, size_t size, int rank, const char *more)
{
    snprintf(text, size, ", \"to\": %d, \"links\": %d%s", rank, links_to(rank), more);
}

/* ---- The measurements ---- */
static void time_distances(struct cf *c)
{
    struct timing *t = new_timing();
    int peers[CF_MAX_SIZE], count = peers_by_distance(c->size, peers), i,
                            on = open_timing(t, c, 1, 4096);
    char more[96];
    t->bytes = 8;
    for (i = 0; i < count && on; i++) {
        t->other = peers[i];
        t->per = 2;
        describe_peer(more, sizeof(more), t->other, ", \"injection\": false");
        on = measure_row(t, "put-ping-pong", more, ping_pong);
        t->flags = UTOFU_ONESIDED_FLAG_CACHE_INJECTION;
        describe_peer(more, sizeof(more), t->other, ", \"injection\": true");
        on = on && measure_row(t, "put-ping-pong", more, ping_pong);
        t->flags = 0;
        t->per = 1;
        describe_peer(more, sizeof(more), t->other, "");
        on = on && measure_row(t, "get", more, get_or_armw);
        t->armw = 1;
        on = on && measure_row(t, "armw8-add", more, get_or_armw);
        t->armw = 0;
    }
    close_timing(c, t);
}

static void time_sizes(struct cf *c)
{
    struct timing *t = new_timing();
    int injection, on = open_timing(t, c, 1, 1 << 20);
    char more[96];
    t->other = find_neighbour(c->size);
    t->per = 2;
    for (t->bytes = 8; t->bytes <= 1 << 20 && on; t->bytes *= 4)
        for (injection = 0; injection < 2 && on; injection++) {
            t->flags = injection ? UTOFU_ONESIDED_FLAG_CACHE_INJECTION : 0;
            describe_peer(more, sizeof(more), t->other,
                          injection ? ", \"injection\": true" : ", \"injection\": false");
            on = measure_row(t, "put-ping-pong", more, ping_pong);
        }
    close_timing(c, t);
}

static void time_windows(struct cf *c)
{
    static const size_t sizes[] = {8, 64, 256, 1024, 4096, 16384, 65536, 1048576};
    struct timing *t = new_timing();
    int on = open_timing(t, c, 1, 1 << 20);
    char more[96];
    size_t i;
    t->other = find_neighbour(c->size);
    t->per = IN_WINDOW;
    t->unit = "us each, 8 in flight";
    describe_peer(more, sizeof(more), t->other, "");
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && on; i++) {
        t->bytes = sizes[i];
        t->get = 0;
        on = measure_row(t, "put-window", more, run_window) &&
             measure_row(t, "put-window-of-all", "", all_windows);
        t->get = 1;
        on = on && measure_row(t, "get-window", more, run_window) &&
             measure_row(t, "get-window-of-all", "", all_windows);
    }
    close_timing(c, t);
}

static void time_ring(struct cf *c)
{
    static const size_t sizes[] = {8, 2080, 4160, 8320, 16640, 33280, 66560};
    struct timing *t = new_timing();
    int on = open_timing(t, c, 1, 66560);
    size_t i;
    t->per = c->size;
    t->unit = "us a hop";
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && on; i++) {
        t->bytes = sizes[i];
        on = measure_row(t, "ring", "", run_ring);
    }
    close_timing(c, t);
}

static void time_all(struct cf *c, int tnis)
{
    static const size_t sizes[] = {8, 1024, 4096, 65536};
    struct timing *t = new_timing();
    int on = open_timing(t, c, tnis, 65536 * (size_t)c->size);
    char more[96];
    size_t i;
    snprintf(more, sizeof(more), ", \"tnis\": %d, \"processes\": %d", tnis, c->size);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && on; i++) {
        t->bytes = sizes[i];
        on = measure_row(t, "all-to-all", more, all_to_all);
        if (tnis == 1)
            on = on && measure_row(t, "incast", more, run_incast);
    }
    close_timing(c, t);
}

static void time_one_tni(struct cf *c)
{
    time_all(c, 1);
}

static void time_six_tnis(struct cf *c)
{
    time_all(c, MOST_TNIS);
}

static void time_barriers(struct cf *c)
{
    static const struct {
        enum cf_shape shape;
        const char *name;
    } shapes[] = {{CF_BUTTERFLY, "butterfly"},
                  {CF_TREE, "tree"},
                  {CF_WIDE_TREE, "wide tree"},
                  {CF_RING, "ring"}};
    struct timing *t = new_timing();
    size_t i;
    memset(t, 0, sizeof(*t));
    t->c = c;
    t->per = 1;
    t->unit = "us";
    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char more[96];
        size_t gates;
        int rc, on = cf_circuit_open(c, &t->circuit, shapes[i].shape, 0, 0);
        snprintf(more, sizeof(more), ", \"shape\": \"%s\", \"gates\": %d, \"processes\": %d",
                 shapes[i].name, t->circuit.count[0], c->size);
        if (!on || !measure_row(t, "barrier", more, run_barrier))
            break;
        gates = (size_t)t->circuit.count[c->rank];
        rc = cf_free_vbg(t->circuit.ids[c->rank], gates);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_free_vbg() returned %s", cf_code(rc));
        if (!cf_meet(c))
            break;
    }
    cf_free(t);
}

static const struct cf_case cases[] = {
    {"time-distances", "2.4", 0, CF_UNSAID, CF_ARMW,
     "Puts, gets and atomics of 8 bytes by distance", time_distances},
    {"time-sizes", "2.2.3", 0, CF_UNSAID, 0, "Puts by size, with and without cache injection",
     time_sizes},
    {"time-windows", "2.2.3", 0, CF_UNSAID, 0,
     "Eight puts or gets in flight, of one process and of all", time_windows},
    {"time-ring", "2.2.3", 0, CF_UNSAID, 0, "Each process puts on what it has received", time_ring},
    {"time-one-tni", "2.2.3", 0, CF_UNSAID, 0, "All to all and all to one, by one TNI",
     time_one_tni},
    {"time-six-tnis", "2.2.3", 0, CF_UNSAID, 0, "All to all by six TNIs", time_six_tnis},
    {"time-barriers", "2.3", 0, CF_UNSAID, CF_BARRIER, "Barriers of circuits of several depths",
     time_barriers},
};
CF_GROUP(time_group, "time", cases);
