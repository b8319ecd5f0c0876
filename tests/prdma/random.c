/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random GRAPHS SEED [wrong]: random graphs, some of them of MPI_Graph_create, each with several
 * requests of random forms, datatypes and lengths, started in one order and completed in others.
 * The expected data come from MPI messages and, with Open MPI, from its blocking collective; MPICH
 * 4.0.2's mixes up edges where some lead from a process to itself. With "wrong" one byte of the
 * expected data is changed, and the program must report it.
 */
#include "check.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { REQUESTS = 3, EDGES = 26, ROUNDS = 3 };

static int procs, rank;
static uint64_t common, own; /* states: the same in all processes, and this one's */
static bool wrong;

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* One side of a request: alltoallw in all generality. */
struct side {
    int degree;
    int counts[EDGES];
    MPI_Aint displs[EDGES];
    MPI_Datatype types[EDGES];
    unsigned char *memory;
    size_t size;
};

struct job {
    struct side send, recv;
    unsigned char *expected;
    MPI_Request request;
};

struct graph {
    MPI_Comm comm;
    int in, out;
    int sources[EDGES], targets[EDGES];
    uint32_t in_numbers[EDGES], out_numbers[EDGES]; /* of the edge in the whole graph */
};

/* All processes draw the same graph; each keeps its part. Parallel edges keep their order. */
static void draw_dist_graph(struct graph *g)
{
    int in[64] = {0}, out[64] = {0};
    uint32_t edges = draw(&common, (uint32_t)(procs * 6)) + 1;

    g->in = g->out = 0;
    for (uint32_t e = 0; e < edges; e++) {
        int from = (int)draw(&common, (uint32_t)procs);
        int to = draw(&common, 8) == 0 ? from : (int)draw(&common, (uint32_t)procs);

        if (out[from] == EDGES || in[to] == EDGES)
            continue;
        out[from]++;
        in[to]++;
        if (from == rank) {
            g->targets[g->out] = to;
            g->out_numbers[g->out++] = e;
        }
        if (to == rank) {
            g->sources[g->in] = from;
            g->in_numbers[g->in++] = e;
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, g->in, g->sources, MPI_UNWEIGHTED, g->out,
                                   g->targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &g->comm);
}

/* MPI_Graph_create has neighbours only, so both directions are edges, in all processes alike. */
static void draw_mpi_graph(struct graph *g)
{
    uint32_t most = (uint32_t)(procs * 4), edges = draw(&common, most) + 1;
    int ends[64 * 4][2], degree[64] = {0}, index[64], list[64 * EDGES], n = 0;
    uint32_t kept = 0;

    for (uint32_t e = 0; e < edges; e++) {
        int a = (int)draw(&common, (uint32_t)procs), b = (int)draw(&common, (uint32_t)procs);

        if (a == b || degree[a] == EDGES || degree[b] == EDGES)
            continue;
        degree[a]++;
        degree[b]++;
        ends[kept][0] = a;
        ends[kept++][1] = b;
    }
    g->in = g->out = 0;
    for (int node = 0; node < procs; node++) {
        for (uint32_t e = 0; e < kept; e++) {
            int side = ends[e][0] == node ? 0 : 1;

            if (ends[e][side] != node)
                continue;
            list[n++] = ends[e][!side];
            if (node != rank)
                continue;
            g->targets[g->out] = g->sources[g->in] = ends[e][!side];
            g->out_numbers[g->out++] = 2 * e + (uint32_t)side;
            g->in_numbers[g->in++] = 2 * e + (uint32_t)!side;
        }
        index[node] = n;
    }
    MPI_Graph_create(MPI_COMM_WORLD, procs, index, list, 0, &g->comm);
}

/*
 * The length of an edge, in bytes, is a function of its number, so that both ends know it. Types
 * are of 12 bytes in all, whatever their gaps.
 */
static int draw_count(uint32_t number, int job, uint64_t seed)
{
    uint64_t state = seed + number * 977u + (uint64_t)job * 31u;
    static const uint32_t most[] = {1, 4, 100, 1500, 20000, 20000, 250000};

    draw(&state, 7);
    uint32_t below = most[draw(&state, 7)];
    if (below == 250000 && draw(&state, 4) != 0)
        below = 3000;
    return (int)draw(&state, below);
}

static MPI_Datatype draw_type(void)
{
    MPI_Datatype type, inner;
    int blocks[2] = {1, 2}, swapped[2] = {8, 0};

    switch (draw(&own, 6)) {
    case 0: /* two pieces with a gap */
        MPI_Type_vector(2, 6, 9, MPI_BYTE, &type);
        break;
    case 1: /* in one piece, but not in order */
        blocks[0] = 4;
        blocks[1] = 8;
        MPI_Type_indexed(2, blocks, swapped, MPI_BYTE, &type);
        break;
    case 2: /* in one piece with a gap behind it */
        MPI_Type_contiguous(12, MPI_BYTE, &inner);
        MPI_Type_create_resized(inner, 0, 20, &type);
        MPI_Type_free(&inner);
        break;
    default:
        MPI_Type_contiguous(12, MPI_BYTE, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

static void make_side(struct side *s, int degree, const uint32_t *numbers, int job, uint64_t seed)
{
    size_t place = 0;

    s->degree = degree;
    for (int i = 0; i < degree; i++) {
        MPI_Aint lb, extent;

        s->types[i] = draw_type();
        s->counts[i] = draw_count(numbers[i], job, seed);
        MPI_Type_get_extent(s->types[i], &lb, &extent);
        place += draw(&own, 3) == 0 ? draw(&own, 64) : 64 - place % 64;
        s->displs[i] = (MPI_Aint)place;
        place += (size_t)extent * (size_t)s->counts[i] + 16;
    }
    s->size = place + 64;
    s->memory = malloc(s->size);
    memset(s->memory, 0xaa, s->size);
}

static void free_types(struct side *s)
{
    for (int i = 0; i < s->degree; i++)
        MPI_Type_free(&s->types[i]);
}

static void make_job(struct job *j, const struct graph *g, int number, uint64_t seed)
{
    make_side(&j->send, g->out, g->out_numbers, number, seed);
    make_side(&j->recv, g->in, g->in_numbers, number, seed);
    j->expected = malloc(j->recv.size);
    INIT(alltoallw)
    (j->send.memory, j->send.counts, j->send.displs, j->send.types, j->recv.memory, j->recv.counts,
     j->recv.displs, j->recv.types, g->comm, MPI_INFO_NULL, &j->request);
}

static void fill(struct job *j)
{
    for (size_t i = 0; i < j->send.size; i++)
        j->send.memory[i] = (unsigned char)(own >> (i % 7 * 8)) + (unsigned char)(i * 7);
    draw(&own, 2);
    memset(j->recv.memory, 0x55, j->recv.size);
    memset(j->expected, 0x55, j->recv.size);
}

static void sometimes_wait(void)
{
    switch (draw(&own, 12)) {
    case 0:
        nanosleep(&(struct timespec){0, draw(&own, 2000000)}, NULL);
        break;
    case 1:
        sched_yield();
    }
}

static void complete_any(struct job *jobs, int count)
{
    MPI_Request requests[REQUESTS + 1];
    int index;

    for (int i = 0; i < count; i++)
        requests[i] = jobs[i].request;
    requests[count] = MPI_REQUEST_NULL;
    for (int i = 0; i < count; i++) {
        MPI_Waitany(count + 1, requests, &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && index < count);
    }
    MPI_Waitany(count + 1, requests, &index, MPI_STATUS_IGNORE);
    CHECK(index == MPI_UNDEFINED);
}

static void complete_some(struct job *jobs, int count)
{
    MPI_Request requests[REQUESTS];
    MPI_Status statuses[REQUESTS];
    int indices[REQUESTS], n;

    for (int i = 0; i < count; i++)
        requests[i] = jobs[i].request;
    for (int done = 0; done < count; done += n) {
        MPI_Waitsome(count, requests, &n, indices, statuses);
        CHECK(n > 0 && done + n <= count);
    }
    MPI_Testsome(count, requests, &n, indices, statuses);
    CHECK(n == MPI_UNDEFINED);
}

/* Completes the requests, with a message of MPI's own in the same array. */
static void complete_all(struct job *jobs, int count)
{
    MPI_Request requests[REQUESTS + 2];
    int out = rank, in = -1, flag = 0, next = (rank + 1) % procs, last = (rank + procs - 1) % procs;

    MPI_Irecv(&in, 1, MPI_INT, last, 5, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < count; i++)
        requests[i + 1] = jobs[i].request;
    MPI_Isend(&out, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[count + 1]);
    if (draw(&own, 2) == 0)
        while (!flag)
            MPI_Testall(count + 2, requests, &flag, MPI_STATUSES_IGNORE);
    else
        MPI_Waitall(count + 2, requests, MPI_STATUSES_IGNORE);
    CHECK(in == last);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[count + 1] == MPI_REQUEST_NULL);
    for (int i = 0; i < count; i++)
        CHECK(requests[i + 1] == jobs[i].request);
}

static void complete_each(struct job *jobs, int count, bool backwards)
{
    for (int i = 0; i < count; i++) {
        MPI_Request *request = &jobs[backwards ? count - 1 - i : i].request;
        int flag = 0;

        if (draw(&own, 2) == 0) {
            while (!flag)
                MPI_Test(request, &flag, MPI_STATUS_IGNORE);
        } else {
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
    }
}

static void complete(struct job *jobs, int count, uint32_t how)
{
    switch (how) {
    case 0:
        complete_any(jobs, count);
        break;
    case 1:
        complete_some(jobs, count);
        break;
    case 2:
        complete_all(jobs, count);
        break;
    default:
        complete_each(jobs, count, draw(&own, 2) == 0);
    }
}

/* Exchanges the expected data in messages whose tags are the numbers of the edges. */
static void exchange(struct job *j, const struct graph *g)
{
    MPI_Request requests[2 * EDGES];
    int n = 0;

    for (int i = 0; i < g->in; i++)
        MPI_Irecv(j->expected + j->recv.displs[i], j->recv.counts[i], j->recv.types[i],
                  g->sources[i], (int)g->in_numbers[i], g->comm, &requests[n++]);
    for (int i = 0; i < g->out; i++)
        MPI_Isend(j->send.memory + j->send.displs[i], j->send.counts[i], j->send.types[i],
                  g->targets[i], (int)g->out_numbers[i], g->comm, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

#ifdef OPEN_MPI
static void collect(struct job *j, const struct graph *g)
{
    memset(j->expected, 0x55, j->recv.size);
    MPI_Neighbor_alltoallw(j->send.memory, j->send.counts, j->send.displs, j->send.types,
                           j->expected, j->recv.counts, j->recv.displs, j->recv.types, g->comm);
}
#endif

static void compare(struct job *jobs, int count, const struct graph *g)
{
    for (int i = 0; i < count; i++) {
        struct job *j = &jobs[i];

        exchange(j, g);
        if (wrong && rank == procs - 1)
            j->expected[j->recv.size - 1] ^= 1;
        CHECK(memcmp(j->recv.memory, j->expected, j->recv.size) == 0);
#ifdef OPEN_MPI
        collect(j, g);
        CHECK(memcmp(j->recv.memory, j->expected, j->recv.size) == 0);
#endif
    }
}

static void run_graph(uint64_t seed)
{
    struct graph g;
    struct job jobs[REQUESTS];

    common = seed;
    own = seed ^ ((uint64_t)rank << 32);
    if (draw(&common, 4) == 0)
        draw_mpi_graph(&g);
    else
        draw_dist_graph(&g);
    int count = (int)draw(&common, REQUESTS) + 1;
    for (int i = 0; i < count; i++)
        make_job(&jobs[i], &g, i, seed);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t how = draw(&common, 4);

        for (int i = 0; i < count; i++)
            fill(&jobs[i]);
        for (int i = 0; i < count; i++) {
            sometimes_wait();
            MPI_Start(&jobs[i].request);
        }
        sometimes_wait();
        complete(jobs, count, how);
        compare(jobs, count, &g);
    }
    bool early = draw(&common, 2) == 0;
    if (early)
        MPI_Comm_free(&g.comm);
    for (int i = 0; i < count; i++) {
        MPI_Request_free(&jobs[i].request);
        CHECK(jobs[i].request == MPI_REQUEST_NULL);
        free_types(&jobs[i].send);
        free_types(&jobs[i].recv);
        free(jobs[i].send.memory);
        free(jobs[i].recv.memory);
        free(jobs[i].expected);
    }
    if (!early)
        MPI_Comm_free(&g.comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int graphs = argc > 1 ? atoi(argv[1]) : 10;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    wrong = argc > 3 && strcmp(argv[3], "wrong") == 0;
    for (int i = 0; i < graphs; i++) {
        if (rank == 0 && getenv("RANDOM_VERBOSE"))
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed + (unsigned)i);
        run_graph(seed + (uint64_t)i);
    }
    if (rank == 0)
        printf("%d graphs of %d processes, seeds %llu to %llu\n", graphs, procs,
               (unsigned long long)seed, (unsigned long long)seed + (unsigned)graphs - 1);
    MPI_Finalize();
    return 0;
}
