/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data kept for a communicator: its neighbours, and a private communicator with the same processes,
 * so that the layer's messages match no receive of the program. The data is an attribute of the
 * communicator, and lives on while there are requests.
 */
#include "comm.h"
#include "presence.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int keyval = MPI_KEYVAL_INVALID;

void pr_comm_release(struct pr_comm *c)
{
    if (--c->refs > 0)
        return;
    if (c->private != MPI_COMM_NULL)
        PMPI_Comm_free(&c->private);
    free(c->in);
    free(c->out);
    free(c->same_node);
    free(c);
}

static int comm_freed(MPI_Comm comm, int key, void *value, void *extra)
{
    struct pr_comm *c = value;

    (void)comm, (void)key, (void)extra;
    c->user = MPI_COMM_NULL;
    pr_comm_release(c);
    return MPI_SUCCESS;
}

static bool cart_neighbours(struct pr_comm *c)
{
    int dims;

    PMPI_Cartdim_get(c->user, &dims);
    c->num_in = c->num_out = 2 * dims;
    c->in = malloc(((size_t)c->num_in + 1) * sizeof(int));
    c->out = malloc(((size_t)c->num_out + 1) * sizeof(int));
    if (c->in == NULL || c->out == NULL)
        return false;
    for (int i = 0; i < dims; i++) {
        PMPI_Cart_shift(c->user, i, 1, &c->in[2 * i], &c->in[2 * i + 1]);
        c->out[2 * i] = c->in[2 * i];
        c->out[2 * i + 1] = c->in[2 * i + 1];
    }
    return true;
}

static bool graph_neighbours(struct pr_comm *c)
{
    PMPI_Graph_neighbors_count(c->user, c->rank, &c->num_in);
    c->num_out = c->num_in;
    c->in = malloc(((size_t)c->num_in + 1) * sizeof(int));
    c->out = malloc(((size_t)c->num_out + 1) * sizeof(int));
    if (c->in == NULL || c->out == NULL)
        return false;
    PMPI_Graph_neighbors(c->user, c->rank, c->num_in, c->in);
    PMPI_Graph_neighbors(c->user, c->rank, c->num_out, c->out);
    return true;
}

static bool dist_graph_neighbours(struct pr_comm *c)
{
    int weighted;

    PMPI_Dist_graph_neighbors_count(c->user, &c->num_in, &c->num_out, &weighted);
    c->in = malloc(((size_t)c->num_in + 1) * sizeof(int));
    c->out = malloc(((size_t)c->num_out + 1) * sizeof(int));
    int *in_weights = malloc(((size_t)c->num_in + 1) * sizeof(int));
    int *out_weights = malloc(((size_t)c->num_out + 1) * sizeof(int));
    bool ok = c->in != NULL && c->out != NULL && in_weights != NULL && out_weights != NULL;

    if (ok)
        PMPI_Dist_graph_neighbors(c->user, c->num_in, c->in, weighted ? in_weights : MPI_UNWEIGHTED,
                                  c->num_out, c->out, weighted ? out_weights : MPI_UNWEIGHTED);
    free(in_weights);
    free(out_weights);
    return ok;
}

static bool find_neighbours(struct pr_comm *c)
{
    int topology;

    PMPI_Topo_test(c->user, &topology);
    switch (topology) {
    case MPI_CART:
        return cart_neighbours(c);
    case MPI_GRAPH:
        return graph_neighbours(c);
    case MPI_DIST_GRAPH:
        return dist_graph_neighbours(c);
    default:
        return false;
    }
}

/* Are there fewer CPUs than processes? Each process may be bound to some of the CPUs. */
static bool is_oversubscribed(MPI_Comm node)
{
    cpu_set_t cpus;
    int procs;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        memset(&cpus, 0xff, sizeof(cpus));
    PMPI_Allreduce(MPI_IN_PLACE, &cpus, (int)sizeof(cpus), MPI_BYTE, MPI_BOR, node);
    PMPI_Comm_size(node, &procs);
    return procs > CPU_COUNT(&cpus);
}

/* Finds which of the in-neighbours are on this process's node. Without memory, none is known. */
static void find_same_node(struct pr_comm *c)
{
    MPI_Comm node;
    MPI_Group here, all;

    c->same_node = malloc(((size_t)c->num_in + 1) * sizeof(int));
    PMPI_Comm_split_type(c->private, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &node);
    PMPI_Comm_group(node, &here);
    PMPI_Comm_group(c->private, &all);
    if (c->same_node != NULL)
        PMPI_Group_translate_ranks(all, c->num_in, c->in, here, c->same_node);
    c->oversubscribed = is_oversubscribed(node);
    PMPI_Group_free(&all);
    PMPI_Group_free(&here);
    PMPI_Comm_free(&node);
}

/* Errors of requests go to the error handler of the communicator even after it is freed. */
static void copy_errhandler(struct pr_comm *c)
{
    MPI_Errhandler handler;

    PMPI_Comm_get_errhandler(c->user, &handler);
    PMPI_Comm_set_errhandler(c->private, handler);
    PMPI_Errhandler_free(&handler);
}

/* Collective on the first call for a communicator. NULL: no topology, or no memory. */
struct pr_comm *pr_comm_get(MPI_Comm comm)
{
    struct pr_comm *c;
    int found;

    if (keyval == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_freed, &keyval, NULL) != MPI_SUCCESS)
        return NULL;
    PMPI_Comm_get_attr(comm, keyval, &c, &found);
    if (!found) {
        c = malloc(sizeof(*c));
        if (c == NULL)
            return NULL;
        *c = (struct pr_comm){.user = comm, .private = MPI_COMM_NULL, .refs = 1};
        PMPI_Comm_rank(comm, &c->rank);
        if (!find_neighbours(c)) {
            pr_comm_release(c);
            return NULL;
        }
        PMPI_Comm_set_attr(comm, keyval, c);
    }
    if (c->private == MPI_COMM_NULL) {
        if (!pr_presence_everywhere(c))
            return NULL;
        PMPI_Comm_split(comm, 0, c->rank, &c->private);
        find_same_node(c);
    }
    copy_errhandler(c);
    return c;
}
