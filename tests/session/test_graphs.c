/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs: graphs of relays, run on the library and on a plain model; same final memory,
 * same notices. Section 2.2.8.
 *
 * Four processes have a free-mode VCQ each, at which every graph starts and ends, and up to six
 * session-mode VCQs between them; with MANY_PROCESSES 256 have up to 256. Puts lead from free-mode
 * VCQs to relays, from relays to relays of higher number and to free-mode VCQs. Two kinds of relay:
 *   pipe: all puts to it come from one VCQ, in order; each put that arrives starts a group of
 *         descriptors, which may send on the data received so far.
 *   join: puts come from anywhere in any order; only the last descriptors send on data, so few that
 *         all puts must have arrived for the first of them to start.
 * So memory does not depend on timing, and a model that executes everything in order of the relays'
 * numbers predicts it. All processes make the same graphs from the seed.
 *
 * UT_SESSION_GRAPHS: number of graphs (2,000 in the full run). UT_SESSION_FIRST: the first one.
 */
#include "relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(graphs);

enum {
#ifdef MANY_PROCESSES
    PROCS = UT_MAX_PROCS,
    RELAYS = UT_MAX_PROCS,
    CONSTANTS = 1024,
    MEMORY = 1 << 15,
    MOST_LENGTH = 512,
#else
    PROCS = 4,
    RELAYS = 6,
    CONSTANTS = 8192, /* bytes at the start of a memory, written by its owner alone */
    MEMORY = 1 << 18,
    MOST_LENGTH = 4096,
#endif
    NODES = RELAYS + PROCS, /* VCQs: relays, then the free-mode VCQ of each process */
    MOST_OWN = (RELAYS + PROCS - 1) / PROCS + 1,
    MOST_IN = 5,   /* puts to a relay in a round */
    MOST_BACK = 6, /* from a relay to the one whose puts it receives */
    MOST_OUT = 10, /* from a relay to relays: with two more puts the most for an SPS */
    MOST_GROUP = 4,
    MOST_DESCS = 128, /* of a VCQ in a round */
};

struct desc {
    bool nop;
    int to;
    size_t src, dst, length;
    unsigned int sps;
    bool tcq, rmt;
    uint64_t edata;
};

struct relay {
    bool used, pipe;
    int parent[MOST_IN]; /* origins of the puts received; a pipe has one origin */
    int num_in;
    struct desc *in[MOST_IN]; /* in order of creation, which is the order of arrival at a pipe */
    int num_made;
    int num_out; /* puts that it sends to relays */
};

struct graph {
    struct relay relay[RELAYS];
    struct desc descs[NODES][MOST_DESCS];
    int num_descs[NODES];
    size_t used[NODES]; /* of the memory */
    int rounds;
};

static struct graph graph;
static uint8_t model[NODES][MEMORY];
static struct ut_peer peers[NODES];

static int owner_of(int node)
{
    return node < RELAYS ? node % PROCS : node - RELAYS;
}

/*
 * Making a graph
 */

static struct desc *add_desc(struct ut_rng *rng, int from)
{
    struct desc *d = &graph.descs[from][graph.num_descs[from]++];

    CHECK(graph.num_descs[from] <= MOST_DESCS);
    *d = (struct desc){.tcq = ut_rng_below(rng, 2), .edata = ut_rng_below(rng, 256)};
    return d;
}

static void add_nops(struct ut_rng *rng, int from, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        add_desc(rng, from)->nop = true;
}

/* A put from somewhere in [src, src + length) to new room at `to`. */
static void add_put(struct ut_rng *rng, int from, int to, size_t src, size_t length)
{
    struct desc *d = add_desc(rng, from);

    d->to = to;
    d->rmt = ut_rng_below(rng, 2);
    d->length = ut_rng_below(rng, 4) ? 1 + ut_rng_below(rng, length) : length;
    d->src = src + ut_rng_below(rng, length - d->length + 1);
    d->dst = graph.used[to] + ut_rng_below(rng, 9);
    graph.used[to] = d->dst + d->length;
    CHECK(graph.used[to] <= MEMORY);
    if (to < RELAYS)
        graph.relay[to].in[graph.relay[to].num_made++] = d;
    else
        d->sps = (unsigned int)ut_rng_below(rng, 16); /* free mode: ignored */
}

/* A put that sends on one of the first `num` puts received. */
static void add_relayed(struct ut_rng *rng, int from, int to, int num)
{
    const struct desc *came = graph.relay[from].in[ut_rng_below(rng, (uint64_t)num)];

    add_put(rng, from, to, came->dst, came->length);
}

/* One of the relays before this one that can send `puts` more puts, or a free-mode VCQ. */
static int choose_parent(struct ut_rng *rng, int number, int puts)
{
    int origin = RELAYS + (int)ut_rng_below(rng, PROCS);
    int back = number < MOST_BACK ? number : MOST_BACK;

    if (number == 0 || ut_rng_below(rng, 3) == 0)
        return origin;
    int parent = number - 1 - (int)ut_rng_below(rng, (uint64_t)back);
    if (graph.relay[parent].num_out + puts > MOST_OUT)
        return origin;
    graph.relay[parent].num_out += puts;
    return parent;
}

static void choose_parents(struct ut_rng *rng, int number)
{
    struct relay *r = &graph.relay[number];

    r->used = true;
    r->pipe = ut_rng_below(rng, 2);
    r->num_in = 1 + (int)ut_rng_below(rng, MOST_IN);
    r->num_made = 0;
    for (int i = 0; i < r->num_in; i++)
        r->parent[i] =
            r->pipe && i > 0 ? r->parent[0] : choose_parent(rng, number, r->pipe ? r->num_in : 1);
}

/* A relay's shuffled targets: its children, once for each put, and a few free-mode VCQs. */
static int choose_targets(struct ut_rng *rng, int number, int targets[])
{
    int count = 0;

    for (int child = number + 1; child < RELAYS && child <= number + MOST_BACK; child++)
        for (int i = 0; graph.relay[child].used && i < graph.relay[child].num_in; i++)
            if (graph.relay[child].parent[i] == number)
                targets[count++] = child;
    for (int ends = (int)ut_rng_below(rng, 3); ends > 0 || count == 0; ends--)
        targets[count++] = RELAYS + (int)ut_rng_below(rng, PROCS);
    for (int i = count - 1; i > 0; i--) {
        int j = (int)ut_rng_below(rng, (uint64_t)i + 1), t = targets[i];
        targets[i] = targets[j];
        targets[j] = t;
    }
    return count;
}

static void make_pipe(struct ut_rng *rng, int number, const int targets[], int count)
{
    struct relay *r = &graph.relay[number];
    int done = 0;

    for (int group = 0; group < r->num_in; group++) {
        /* the last group takes all remaining ones: never more than SPS allows */
        int most = group == r->num_in - 1 ? count - done : MOST_GROUP;
        int size = group == r->num_in - 1 ? most : (int)ut_rng_below(rng, (uint64_t)most + 1);
        int first = graph.num_descs[number];

        for (int i = 0; i < size && done < count && i < 12; i++)
            add_relayed(rng, number, targets[done++], group + 1);
        /* at least one in each group: a put without SPS is not notified, and may come later */
        add_nops(rng, number,
                 (unsigned int)ut_rng_below(rng, 3) + (graph.num_descs[number] == first));
        r->in[group]->sps = (unsigned int)(graph.num_descs[number] - first);
    }
}

static void make_join(struct ut_rng *rng, int number, const int targets[], int count)
{
    struct relay *r = &graph.relay[number];
    unsigned int total = 0;

    for (int i = 0; i < r->num_in; i++) {
        r->in[i]->sps = (unsigned int)count + (unsigned int)ut_rng_below(rng, 4);
        if (r->in[i]->sps > 15)
            r->in[i]->sps = 15;
        total += r->in[i]->sps;
    }
    add_nops(rng, number, total - (unsigned int)count);
    for (int i = 0; i < count; i++)
        add_relayed(rng, number, targets[i], r->num_in);
}

static void make_graph(uint64_t number)
{
    struct ut_rng seeded = ut_rng_start(ut_seed() * 1000003 + number), *rng = &seeded;
    int relays = 1 + (int)ut_rng_below(rng, RELAYS);

    memset(&graph, 0, sizeof(graph));
    for (int node = 0; node < NODES; node++)
        graph.used[node] = CONSTANTS;
    for (int r = 0; r < relays; r++)
        choose_parents(rng, r);
    for (int r = 0; r < relays; r++) {
        for (int i = 0; i < graph.relay[r].num_in; i++) {
            size_t length = 1 + ut_rng_below(rng, ut_rng_below(rng, 4) ? 64 : MOST_LENGTH);
            int from = graph.relay[r].parent[i];
            if (from >= RELAYS)
                add_put(rng, from, r, ut_rng_below(rng, CONSTANTS - length + 1), length);
        }
    }
    for (int r = 0; r < relays; r++) {
        int targets[MOST_OUT + 3];
        int count = choose_targets(rng, r, targets);

        CHECK(count <= MOST_OUT + 2);
        if (graph.relay[r].pipe)
            make_pipe(rng, r, targets, count);
        else
            make_join(rng, r, targets, count);
    }
    graph.rounds = 1 + (int)ut_rng_below(rng, 3);
}

static void run_model(uint64_t number, int round)
{
    struct ut_rng rng = ut_rng_start(ut_seed() + number * 16 + (uint64_t)round);

    for (int node = 0; node < NODES; node++)
        for (size_t i = 0; i < CONSTANTS; i += 8) {
            uint64_t random = ut_rng_next(&rng);
            memcpy(&model[node][i], &random, 8);
        }
    for (int n = 0; n < NODES; n++) {
        int from = n < PROCS ? RELAYS + n : n - PROCS; /* the starting VCQs first */
        for (int i = 0; i < graph.num_descs[from]; i++) {
            const struct desc *d = &graph.descs[from][i];
            if (!d->nop)
                memcpy(&model[d->to][d->dst], &model[from][d->src], d->length);
        }
    }
}

/*
 * Running it
 */

struct own {
    int node;
    struct ut_end end;
    int lcl, tcq, puts, tcqs; /* notices received; notices expected */
    int rmt[NODES];           /* per origin: the next descriptor whose remote notice is expected */
    bool posted;
    uint64_t prepared[MOST_DESCS * UT_DESC / 8];
    size_t prepared_size;
};

static struct own own[MOST_OWN];
static int num_own;

static struct ut_comm comm_of(const struct own *o, const struct desc *d)
{
    struct ut_comm comm = {.kind = UT_NOP,
                           .vcq = o->end.vcq,
                           .flags = d->tcq ? UT_TCQ : 0,
                           .cbdata = (void *)(uintptr_t)1};

    if (!d->nop) {
        comm = relay_put(&o->end, &peers[d->to], 0, d->length,
                         comm.flags | UT_LCL | (d->rmt ? UT_RMT : 0) | UT_SPS(d->sps));
        comm.lcl_stadd += d->src;
        comm.rmt_stadd += d->dst;
        comm.edata = d->edata;
        comm.cbdata = (void *)(uintptr_t)1;
    }
    return comm;
}

static void prepare(struct own *o)
{
    o->prepared_size = 0;
    o->puts = o->tcqs = 0;
    for (int i = 0; i < graph.num_descs[o->node]; i++) {
        const struct desc *d = &graph.descs[o->node][i];
        struct ut_comm comm = comm_of(o, d);
        size_t size;

        CHECK_OK(ut_prepare(&comm, (uint8_t *)o->prepared + o->prepared_size, &size));
        o->prepared_size += size;
        o->puts += !d->nop;
        o->tcqs += d->tcq;
    }
}

/* Posts all descriptors at once, prepared, in two pieces, or one by one. */
static void post(struct own *o)
{
    int n = graph.num_descs[o->node], split = n / 2;
    size_t half = n ? o->prepared_size / (size_t)n * (size_t)split : 0;
    uint8_t *prepared = (uint8_t *)o->prepared;

    o->posted = true;
    switch (ut_random_below(3)) {
    case 0:
        CHECK_OK(utofu_post_toq(o->end.vcq, prepared, o->prepared_size, (void *)(uintptr_t)1));
        break;
    case 1:
        CHECK_OK(utofu_post_toq(o->end.vcq, prepared, half, (void *)(uintptr_t)1));
        CHECK_OK(utofu_post_toq(o->end.vcq, prepared + half, o->prepared_size - half,
                                (void *)(uintptr_t)1));
        break;
    default:
        for (int i = 0; i < n; i++) {
            struct ut_comm comm = comm_of(o, &graph.descs[o->node][i]);
            ut_submit(&comm);
        }
    }
}

static int node_of(utofu_vcq_id_t id)
{
    for (int node = 0; node < NODES; node++)
        if (peers[node].id == id)
            return node;
    CHECK(false, "a notice of an unknown VCQ");
    return -1;
}

/* The next descriptor of `from`, from `at` on, whose remote notice goes to `to`. */
static int next_remote(int from, int to, int at)
{
    while (at < graph.num_descs[from] &&
           !(graph.descs[from][at].rmt && !graph.descs[from][at].nop &&
             graph.descs[from][at].to == to))
        at++;
    return at;
}

static void check_remote(struct own *o, const struct utofu_mrq_notice *notice)
{
    int from = node_of(notice->vcq_id), n = next_remote(from, o->node, o->rmt[from]);

    CHECK(n < graph.num_descs[from], "node %d: one notice of node %d too many", o->node, from);
    const struct desc *d = &graph.descs[from][n];
    CHECK_EQ(notice->edata, d->edata);
    CHECK_EQ(notice->rmt_stadd, o->end.stadd + d->dst + d->length);
    CHECK(memcmp(o->end.mem + d->dst, &model[o->node][d->dst], d->length) == 0,
          "node %d: data of descriptor %d of node %d is not there", o->node, n, from);
    o->rmt[from] = n + 1;
}

static void poll_one(struct own *o)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(o->end.vcq, 0, &notice)) == UTOFU_SUCCESS) {
        if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
            o->lcl++;
        else
            check_remote(o, &notice);
    }
    CHECK_RC(rc, UTOFU_ERR_NOT_FOUND);
    while ((rc = utofu_poll_tcq(o->end.vcq, 0, &cbdata)) == UTOFU_SUCCESS)
        o->tcq++;
    CHECK_RC(rc, UTOFU_ERR_NOT_FOUND);
}

static bool is_done(const struct own *o)
{
    for (int from = 0; from < NODES; from++)
        if (next_remote(from, o->node, o->rmt[from]) < graph.num_descs[from])
            return false;
    return o->posted && o->lcl == o->puts && o->tcq == o->tcqs;
}

static void run_round(void)
{
    uint64_t late =
        ut_random_below(3); /* relays are posted before the puts arrive, or perhaps after */

    for (int i = 0; i < num_own; i++) {
        struct own *o = &own[i];
        o->lcl = o->tcq = 0;
        o->posted = false;
        memset(o->rmt, 0, sizeof(o->rmt));
        memcpy(o->end.mem, model[o->node], CONSTANTS);
        if (late == 0 && o->node < RELAYS)
            post(o);
    }
    ut_barrier();
    for (int i = 0; i < num_own; i++)
        if (own[i].node >= RELAYS)
            post(&own[i]);
    if (late > 0)
        ut_random_delay(late == 1 ? 100 : 2000);
    for (int i = 0; i < num_own; i++)
        if (!own[i].posted)
            post(&own[i]);
    if (ut_random_below(3) == 0)
        ut_random_delay(2000); /* computes */
    for (int left = 1; left > 0;) {
        left = 0;
        for (int i = 0; i < num_own; i++) {
            poll_one(&own[i]);
            left += !is_done(&own[i]);
        }
        if (left > 0)
            ut_relax();
    }
}

static void check_memory(uint64_t number)
{
    for (int i = 0; i < num_own; i++) {
        const struct own *o = &own[i];

        ut_expect_nothing(o->end.vcq);
        if (memcmp(o->end.mem, model[o->node], MEMORY) == 0)
            continue;
        for (size_t at = 0; at < MEMORY; at++)
            CHECK(o->end.mem[at] == model[o->node][at], "graph %llu, node %d, offset %zu",
                  (unsigned long long)number, o->node, at);
    }
}

static void open_nodes(void)
{
    struct ut_peer mine[MOST_OWN], all[PROCS][MOST_OWN];
    int seen[PROCS] = {0};

    memset(mine, 0, sizeof(mine));
    num_own = 0;
    for (int node = 0; node < NODES; node++) {
        struct own *o = &own[num_own];

        if (owner_of(node) != ut_rank)
            continue;
        o->node = node;
        ut_end_open(&o->end, (utofu_tni_id_t)(node / PROCS),
                    node < RELAYS ? UTOFU_VCQ_FLAG_SESSION_MODE : 0, MEMORY);
        mine[num_own++] = ut_end_peer(&o->end);
    }
    ut_allgather(mine, all, sizeof(mine));
    for (int node = 0; node < NODES; node++)
        peers[node] = all[owner_of(node)][seen[owner_of(node)]++];
}

static void programs(void *arg)
{
    uint64_t first = ut_env_number("UT_SESSION_FIRST", 0);
    uint64_t count = ut_env_number("UT_SESSION_GRAPHS", 60);

    (void)arg;
    open_nodes();
    for (uint64_t number = first; number < first + count; number++) {
        make_graph(number);
        for (int i = 0; i < num_own; i++)
            prepare(&own[i]);
        for (int round = 0; round < graph.rounds; round++) {
            ut_step("graph %llu, round %d", (unsigned long long)number, round);
            run_model(number, round);
            run_round();
            ut_barrier();
            check_memory(number);
            ut_barrier();
        }
    }
    for (int i = 0; i < num_own; i++)
        ut_end_close(&own[i].end);
}

Test(graphs, random_programs_end_like_the_model)
{
    ut_run(&(struct ut_run_opts){.n = PROCS, .timeout_s = 600}, programs, NULL);
}

Test(graphs, random_programs_between_nodes_end_like_the_model)
{
    ut_run(&(struct ut_run_opts){.n = PROCS, .nodes = PROCS < 64 ? PROCS : 64, .timeout_s = 600},
           programs, NULL);
}
