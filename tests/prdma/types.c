/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRDMA's view of communicators and datatypes (comm.c, datatype.c), with an MPI that the test
 * plays: neighbours of each topology, what is kept for a communicator, blocks of each form of a
 * call, and which types are packed.
 */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"
#include "../harness/fence.h"

#include "../../layers/prdma/comm.h"
#include "../../layers/prdma/datatype.h"
#include "../../layers/prdma/presence.h"

enum { NONE = -1, MOST = 8, KEY = 42, DUPS = 1000, USER = 1, PRIVATE = 2, NODE = 3 };

static int fail_memory = NONE;
static long blocks;
void *__wrap_malloc(size_t size);
void __wrap_free(void *at);

void *__wrap_malloc(size_t size)
{
    if (fail_memory >= 0 && fail_memory-- == 0)
        return NULL;
    blocks++;
    return fence_malloc(size);
}

void __wrap_free(void *at)
{
    blocks -= at != NULL;
    fence_free(at);
}

/*
 * Communicators
 */

static int no_weights;
int *const MPI_UNWEIGHTED = &no_weights;
static int topology, num_in, num_out, dims, weighted, num_cpus = 4, node_procs = 4, num_private;
static int ins[MOST], outs[MOST], num_groups, num_nodes, num_handlers, keyval_rc, num_weights;
static bool everywhere = true;
static void *attribute;
static MPI_Comm_delete_attr_function *freed;
static MPI_Errhandler handler_of[4] = {0, 77, 0, 0};

bool pr_presence_everywhere(struct pr_comm *c)
{
    CHECK(c->user == USER && c->rank == 1);
    return everywhere;
}

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *gone,
                            int *key, void *extra)
{
    CHECK(copy == MPI_COMM_NULL_COPY_FN && extra == NULL);
    freed = gone;
    *key = keyval_rc == MPI_SUCCESS ? KEY : MPI_KEYVAL_INVALID;
    return keyval_rc;
}

int PMPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *found)
{
    CHECK(comm == USER && key == KEY);
    *(void **)value = attribute;
    *found = attribute != NULL;
    return MPI_SUCCESS;
}

int PMPI_Comm_set_attr(MPI_Comm comm, int key, void *value)
{
    CHECK(comm == USER && key == KEY && attribute == NULL);
    attribute = value;
    return MPI_SUCCESS;
}

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    CHECK(comm == USER);
    *rank = 1;
    return MPI_SUCCESS;
}

int PMPI_Topo_test(MPI_Comm comm, int *status)
{
    CHECK(comm == USER);
    *status = topology;
    return MPI_SUCCESS;
}

int PMPI_Cartdim_get(MPI_Comm comm, int *n)
{
    (void)comm;
    *n = dims;
    return MPI_SUCCESS;
}

int PMPI_Cart_shift(MPI_Comm comm, int direction, int shift, int *from, int *to)
{
    (void)comm;
    CHECK(shift == 1 && direction < dims);
    *from = 10 * direction + 1;
    *to = 10 * direction + 2;
    return MPI_SUCCESS;
}

int PMPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *n)
{
    CHECK(comm == USER && rank == 1);
    *n = num_in;
    return MPI_SUCCESS;
}

int PMPI_Graph_neighbors(MPI_Comm comm, int rank, int most, int neighbours[])
{
    CHECK(comm == USER && rank == 1 && most == num_in);
    memcpy(neighbours, ins, (size_t)most * sizeof(int));
    return MPI_SUCCESS;
}

int PMPI_Dist_graph_neighbors_count(MPI_Comm comm, int *in, int *out, int *has_weights)
{
    CHECK(comm == USER);
    *in = num_in;
    *out = num_out;
    *has_weights = weighted;
    return MPI_SUCCESS;
}

int PMPI_Dist_graph_neighbors(MPI_Comm comm, int most_in, int in[], int in_weights[], int most_out,
                              int out[], int out_weights[])
{
    CHECK(comm == USER && most_in == num_in && most_out == num_out);
    CHECK((in_weights == MPI_UNWEIGHTED) == !weighted);
    CHECK((out_weights == MPI_UNWEIGHTED) == !weighted);
    memcpy(in, ins, (size_t)most_in * sizeof(int));
    memcpy(out, outs, (size_t)most_out * sizeof(int));
    for (int i = 0; weighted && i < most_in; i++)
        in_weights[i] = num_weights++;
    for (int i = 0; weighted && i < most_out; i++)
        out_weights[i] = num_weights++;
    return MPI_SUCCESS;
}

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *to)
{
    CHECK(comm == USER && color == 0 && key == 1);
    num_private++;
    *to = PRIVATE;
    return MPI_SUCCESS;
}

int PMPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *to)
{
    CHECK(comm == PRIVATE && type == MPI_COMM_TYPE_SHARED && key == 1 && info == MPI_INFO_NULL);
    num_nodes++;
    *to = NODE;
    return MPI_SUCCESS;
}

int PMPI_Comm_free(MPI_Comm *comm)
{
    *(*comm == NODE ? &num_nodes : &num_private) -= 1;
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    num_groups++;
    *group = comm;
    return MPI_SUCCESS;
}

int PMPI_Group_free(MPI_Group *group)
{
    num_groups--;
    *group = 0;
    return MPI_SUCCESS;
}

/* Even ranks are on this node. */
int PMPI_Group_translate_ranks(MPI_Group a, int count, const int from[], MPI_Group b, int to[])
{
    CHECK(a == PRIVATE && b == NODE && count == (topology == MPI_CART ? 2 * dims : num_in));
    for (int i = 0; i < count; i++)
        to[i] = from[i] % 2 ? MPI_UNDEFINED : from[i];
    return MPI_SUCCESS;
}

int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c)
{
    cpu_set_t *cpus = to;

    CHECK(from == MPI_IN_PLACE && type == MPI_BYTE && op == MPI_BOR && c == NODE);
    CHECK(count == (int)sizeof(*cpus));
    CPU_ZERO(cpus);
    for (int i = 0; i < num_cpus; i++)
        CPU_SET(i, cpus);
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    CHECK(comm == NODE);
    *size = node_procs;
    return MPI_SUCCESS;
}

int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler)
{
    num_handlers++;
    *handler = handler_of[comm];
    return MPI_SUCCESS;
}

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    handler_of[comm] = handler;
    return MPI_SUCCESS;
}

int PMPI_Errhandler_free(MPI_Errhandler *handler)
{
    num_handlers--;
    *handler = 0;
    return MPI_SUCCESS;
}

static void forget_comm(void)
{
    if (attribute)
        CHECK(freed(USER, KEY, attribute, NULL) == MPI_SUCCESS);
    attribute = NULL;
    CHECK(blocks == 0 && num_private == 0 && num_nodes == 0 && num_groups == 0);
    CHECK(num_handlers == 0);
}

static void neighbours_are_found(void)
{
    static const int topologies[] = {MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH, MPI_DIST_GRAPH};

    for (int i = 0; i < MOST; i++) {
        ins[i] = 2 + i;
        outs[i] = 20 + i;
    }
    for (int i = 0; i < 4; i++) {
        topology = topologies[i];
        weighted = i == 3;
        dims = 2;
        num_in = 3;
        num_out = 2;
        num_weights = 0;
        struct pr_comm *c = pr_comm_get(USER);
        CHECK(c != NULL && c == attribute && c->user == USER && c->private == PRIVATE);
        CHECK(c->refs == 1 && c->rank == 1 && num_private == 1 && handler_of[PRIVATE] == 77);
        CHECK(c->num_in == (i == 0 ? 4 : 3) && c->num_out == (i == 0 ? 4 : i == 1 ? 3 : 2));
        for (int k = 0; k < c->num_in; k++) {
            int rank = i == 0 ? 10 * (k / 2) + 1 + k % 2 : ins[k];
            CHECK(c->in[k] == rank);
            CHECK(c->same_node[k] == (rank % 2 ? MPI_UNDEFINED : rank));
        }
        for (int k = 0; k < c->num_out; k++)
            CHECK(c->out[k] == (i < 2 ? c->in[k] : outs[k]));
        CHECK(num_weights == (weighted ? 5 : 0));
        handler_of[USER] = 78; /* the program sets another one */
        CHECK(pr_comm_get(USER) == c && num_private == 1 && handler_of[PRIVATE] == 78);
        handler_of[USER] = 77;
        c->refs++; /* a request outlives the communicator */
        CHECK(freed(USER, KEY, c, NULL) == MPI_SUCCESS && c->refs == 1);
        CHECK(c->user == MPI_COMM_NULL && num_private == 1);
        pr_comm_release(c);
        attribute = NULL;
        forget_comm();
    }
    topology = MPI_UNDEFINED;
    CHECK(pr_comm_get(USER) == NULL && attribute == NULL);
    forget_comm();
    topology = MPI_GRAPH;
    everywhere = false; /* a process lacks the layer */
    CHECK(pr_comm_get(USER) == NULL && attribute != NULL && num_private == 0);
    everywhere = true;
    CHECK(pr_comm_get(USER) == attribute && num_private == 1);
    forget_comm();
}

static void memory_is_short(void)
{
    static const int topologies[] = {MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH};

    for (int i = 0; i < 3; i++) {
        topology = topologies[i];
        for (int at = 0;; at++) {
            fail_memory = at;
            struct pr_comm *c = pr_comm_get(USER);
            bool has_failed = fail_memory == NONE;
            fail_memory = NONE;
            bool found = c != NULL;
            /* without memory for it, no neighbour is known to be on this node */
            CHECK(!has_failed || !found || c->same_node == NULL);
            CHECK(has_failed || (found && c->same_node != NULL));
            forget_comm();
            if (!has_failed)
                break;
            CHECK(found == (at == (i == 2 ? 5 : 3)));
        }
    }
}

static void cores_are_counted(void)
{
    static const struct {
        int cpus, procs;
        bool shared;
    } cases[] = {{4, 4, false}, {4, 5, true}, {1, 1, false}, {1, 2, true}};

    for (int i = 0; i < 4; i++) {
        num_cpus = cases[i].cpus;
        node_procs = cases[i].procs;
        CHECK(pr_comm_get(USER)->oversubscribed == cases[i].shared);
        forget_comm();
    }
}

/*
 * Datatypes: number n is a type of `size` bytes
 */

static struct type {
    MPI_Count size;
    MPI_Aint lb, extent, true_lb, true_extent;
    int combiner;
    bool reorders; /* packing changes the order of its bytes: those 256 apart, or neighbours */
    size_t far;
} types[] = {
    {4, 0, 4, 0, 4, MPI_COMBINER_NAMED, false, 0},
    {4, 0, 8, 0, 4, MPI_COMBINER_RESIZED, false, 0},      /* with a gap behind it */
    {8, -4, 8, -4, 8, MPI_COMBINER_CONTIGUOUS, false, 0}, /* which begins before its address */
    {8, 0, 8, 0, 12, MPI_COMBINER_VECTOR, false, 0},      /* with a gap */
    {8, 0, 8, 0, 8, MPI_COMBINER_STRUCT, true, 1},
    {600, 0, 600, 0, 600, MPI_COMBINER_STRUCT, true, 256},
    {1 << 24, 0, 1 << 24, 0, 1 << 24, MPI_COMBINER_CONTIGUOUS, false, 0},
    {(1 << 24) + 1, 0, (1 << 24) + 1, 0, (1 << 24) + 1, MPI_COMBINER_CONTIGUOUS, false, 0},
    {(1 << 24) + 1, 0, (1 << 24) + 1, 0, (1 << 24) + 1, MPI_COMBINER_NAMED, false, 0},
    {0, 0, 0, 0, 0, MPI_COMBINER_CONTIGUOUS, false, 0},
    {70000, 0, 70000, 0, 70000, MPI_COMBINER_STRUCT, true, 65536},
};
static int num_dups, num_packs, num_unpacks;

static const struct type *type_of(MPI_Datatype type)
{
    return &types[type % DUPS];
}

int PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size)
{
    *size = type_of(type)->size;
    return MPI_SUCCESS;
}

int PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent)
{
    *lb = type_of(type)->lb;
    *extent = type_of(type)->extent;
    return MPI_SUCCESS;
}

int PMPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent)
{
    *lb = type_of(type)->true_lb;
    *extent = type_of(type)->true_extent;
    return MPI_SUCCESS;
}

int PMPI_Type_get_envelope(MPI_Datatype type, int *ints, int *addresses, int *count, int *combiner)
{
    *ints = *addresses = *count = 0;
    *combiner = type_of(type)->combiner;
    return MPI_SUCCESS;
}

int PMPI_Type_dup(MPI_Datatype type, MPI_Datatype *to)
{
    num_dups++;
    *to = type + DUPS;
    return MPI_SUCCESS;
}

int PMPI_Type_free(MPI_Datatype *type)
{
    CHECK(*type >= DUPS);
    num_dups--;
    return MPI_SUCCESS;
}

int PMPI_Pack(const void *from, int count, MPI_Datatype type, void *to, int size, int *position,
              MPI_Comm comm)
{
    const struct type *t = type_of(type);
    size_t bytes = (size_t)count * (size_t)t->size;

    CHECK(*position == 0 && (size_t)size >= bytes && (comm == MPI_COMM_SELF || comm == PRIVATE));
    num_packs++;
    memcpy(to, (const char *)from + t->true_lb, bytes);
    if (t->reorders) { /* two bytes change places */
        char *swapped = to, first = swapped[0];
        swapped[0] = swapped[t->far];
        swapped[t->far] = first;
    }
    *position = (int)bytes;
    return MPI_SUCCESS;
}

int PMPI_Unpack(const void *from, int size, int *position, void *to, int count, MPI_Datatype type,
                MPI_Comm comm)
{
    CHECK(*position == 0 && size == count * (int)type_of(type)->size && comm == PRIVATE);
    num_unpacks++;
    memcpy((char *)to + type_of(type)->true_lb, from, (size_t)size);
    return MPI_SUCCESS;
}

static char memory[1 << 12];

static void types_are_contiguous_or_packed(void)
{
    static const struct {
        int type;
        MPI_Count count;
        bool contiguous;
    } cases[] = {{0, 1, true}, {0, 9, true},  {1, 1, true},  {1, 2, false},
                 {2, 3, true}, {3, 1, false}, {4, 1, false}, {5, 1, false},
                 {6, 1, true}, {7, 1, false}, {8, 1, true},  {10, 1, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pr_side side = {.buf = memory + 64, .count = cases[i].count, .type = cases[i].type};
        struct pr_edge edge = {0};
        CHECK(pr_side_edge(&side, 0, &edge) && blocks == 0);
        if (edge.contiguous != cases[i].contiguous)
            printf("type %d\n", cases[i].type);
        CHECK(edge.contiguous == cases[i].contiguous && edge.own_type == !edge.contiguous);
        CHECK(edge.bytes == (size_t)(cases[i].count * types[cases[i].type].size));
        CHECK(edge.buf == memory + 64 && edge.count == cases[i].count);
        CHECK(!edge.contiguous || edge.data == memory + 64 + types[cases[i].type].true_lb);
        CHECK(edge.type == cases[i].type + (edge.contiguous ? 0 : DUPS));
        CHECK(num_dups == edge.own_type);
        pr_edge_release(&edge);
        CHECK(num_dups == 0 && !edge.own_type);
        pr_edge_release(&edge);
    }
    struct pr_side side = {.buf = memory, .count = 1, .type = 4};
    struct pr_edge edge = {0};
    fail_memory = 0; /* then it is packed */
    types[4].reorders = false;
    CHECK(pr_side_edge(&side, 0, &edge) && !edge.contiguous && blocks == 0);
    pr_edge_release(&edge);
    fail_memory = NONE;
    CHECK(pr_side_edge(&side, 0, &edge) && edge.contiguous);
    types[4].reorders = true;
    side.count = INT_MAX / 8;
    CHECK(pr_side_edge(&side, 0, &edge) && !edge.contiguous);
    pr_edge_release(&edge);
    side.count++; /* more bytes than can be packed */
    CHECK(!pr_side_edge(&side, 0, &edge) && num_dups == 0);
    const struct type eight = types[4];
    types[4].size = 1; /* as many elements as can be */
    side.count = INT_MAX;
    CHECK(pr_side_edge(&side, 0, &edge) && !edge.contiguous && edge.bytes == INT_MAX);
    pr_edge_release(&edge);
    types[4] = eight;
    side.type = 0;
    CHECK(pr_side_edge(&side, 0, &edge) && edge.contiguous); /* or need not be */
    side.type = 9;
    edge = (struct pr_edge){0};
    CHECK(pr_side_edge(&side, 0, &edge) && edge.bytes == 0 && !edge.own_type);
}

/* Where the blocks of each form of a call are. */
static void forms_have_places(void)
{
    static const int counts[] = {1, 2, 3}, displs[] = {5, 7, 9};
    static const MPI_Count large[] = {1, 2, 3};
    static const MPI_Aint bytes[] = {50, 70, 90};
    static const MPI_Datatype each[] = {0, 1, 2};
    const struct {
        struct pr_side side;
        size_t place;
        MPI_Count count;
    } cases[] = {
        {{.count = 2, .type = 0}, 2 * 2 * 4, 2},                        /* alltoall */
        {{.count = 2, .type = 1}, 2 * 2 * 8, 2},                        /* by its extent */
        {{.count = 2, .type = 0, .same = true}, 0, 2},                  /* allgather */
        {{.counts = counts, .displs = displs, .type = 0}, 9 * 4, 3},    /* alltoallv */
        {{.counts_c = large, .displs_c = bytes, .type = 0}, 90 * 4, 3}, /* with large counts */
        {{.counts = counts, .displs_c = bytes, .types = each}, 90, 3},  /* alltoallw */
        {{.counts_c = large, .displs_c = bytes, .types = each}, 90, 3},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pr_side side = cases[i].side;
        struct pr_edge edge = {0};
        side.buf = memory;
        CHECK(pr_side_edge(&side, 2, &edge));
        CHECK(edge.buf == memory + cases[i].place && edge.count == cases[i].count);
        CHECK(edge.type % DUPS == (side.types ? 2 : side.type));
        pr_edge_release(&edge);
    }
}

static void blocks_are_packed(void)
{
    struct pr_side side = {.buf = memory + 64, .count = 3, .type = 2};
    struct pr_edge edge = {0};
    char stage[64] = {0};

    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (char)i;
    CHECK(pr_side_edge(&side, 0, &edge) && edge.contiguous);
    num_packs = num_unpacks = 0;
    CHECK(pr_edge_pack(&edge, stage, PRIVATE) == MPI_SUCCESS && num_packs == 0);
    CHECK(memcmp(stage, memory + 60, 24) == 0 && stage[24] == 0);
    memset(memory, 0, sizeof(memory));
    CHECK(pr_edge_unpack(&edge, stage, PRIVATE) == MPI_SUCCESS && num_unpacks == 0);
    CHECK(memcmp(stage, memory + 60, 24) == 0 && memory[84] == 0 && memory[59] == 0);
    side.type = 3;
    CHECK(pr_side_edge(&side, 0, &edge) && !edge.contiguous);
    CHECK(pr_edge_pack(&edge, stage, PRIVATE) == MPI_SUCCESS && num_packs == 1);
    CHECK(pr_edge_unpack(&edge, stage, PRIVATE) == MPI_SUCCESS && num_unpacks == 1);
    pr_edge_release(&edge);
    CHECK(num_dups == 0);
}

int main(void)
{
    keyval_rc = MPI_ERR_OTHER;
    CHECK(pr_comm_get(USER) == NULL && blocks == 0);
    keyval_rc = MPI_SUCCESS;
    neighbours_are_found();
    memory_is_short();
    cores_are_counted();
    types_are_contiguous_or_packed();
    forms_have_places();
    blocks_are_packed();
    return 0;
}
