/* SPDX-License-Identifier: Apache-2.0 */
/* The records of calls, and the wrappers that make-wrappers makes. */
#include <stdlib.h>
#include <string.h>

#include "fortran.h"
#include "mr.h"

enum { NEIGHBOR_TAG = -2 /* of messages between neighbours: a program has no tag below 0 */ };

int64_t mr_bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;

    PMPI_Type_size(type, &size);
    return count * size;
}

static int size_of(MPI_Comm comm)
{
    int size = 0;

    PMPI_Comm_size(comm, &size);
    return size;
}

int64_t mr_mean(MPI_Comm comm, const int counts[], MPI_Datatype type)
{
    int size = size_of(comm);
    int64_t sum = 0;

    for (int i = 0; i < size; i++)
        sum += counts[i];
    return size ? (mr_bytes(sum, type) + size - 1) / size : 0;
}

#if MPI_VERSION >= 4
int64_t mr_mean_c(MPI_Comm comm, const MPI_Count counts[], MPI_Datatype type)
{
    int size = size_of(comm);
    int64_t sum = 0;

    for (int i = 0; i < size; i++)
        sum += counts[i];
    return size ? (mr_bytes(sum, type) + size - 1) / size : 0;
}
#endif

/*
 * Point to point
 */

static struct mr_posted send_of(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes,
                                int synchronous)
{
    return (struct mr_posted){.kind = UT_RECORD_MPI_SEND,
                              .numbers = {mr_comm(comm, begin), dest, tag, bytes, -1, synchronous},
                              .n = 6,
                              .request_at = 4};
}

static int any_of(int value, int any)
{
    return value == any ? -1 : value;
}

static struct mr_posted recv_of(uint64_t begin, MPI_Comm comm, int source, int tag)
{
    return (struct mr_posted){.kind = UT_RECORD_MPI_RECV,
                              .numbers = {mr_comm(comm, begin), any_of(source, MPI_ANY_SOURCE),
                                          any_of(tag, MPI_ANY_TAG), -1},
                              .n = 4,
                              .request_at = 3};
}

static void write_posted(uint64_t begin, bool same_call, const struct mr_posted *p)
{
    mr_to->write(begin, p->kind, same_call, p->numbers, p->n);
}

static void write_request(uint64_t begin, bool same_call, struct mr_posted *p, bool wildcard,
                          MPI_Request request)
{
    p->numbers[p->request_at] = mr_request_add(request, wildcard, NULL);
    write_posted(begin, same_call, p);
}

static bool is_wildcard(int source, int tag)
{
    return source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
}

void mr_send(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes, int synchronous)
{
    if (dest == MPI_PROC_NULL) {
        mr_to->end(begin);
        return;
    }
    struct mr_posted p = send_of(begin, comm, dest, tag, bytes, synchronous);
    write_posted(begin, false, &p);
}

void mr_isend(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes, int synchronous,
              MPI_Request request)
{
    if (dest == MPI_PROC_NULL) {
        mr_to->end(begin);
        return;
    }
    struct mr_posted p = send_of(begin, comm, dest, tag, bytes, synchronous);
    write_request(begin, false, &p, false, request);
}

void mr_recv(uint64_t begin, MPI_Comm comm, int asked, int source, int tag)
{
    if (asked == MPI_PROC_NULL) {
        mr_to->end(begin);
        return;
    }
    struct mr_posted p = recv_of(begin, comm, source, tag);
    write_posted(begin, false, &p);
}

void mr_irecv(uint64_t begin, MPI_Comm comm, int source, int tag, MPI_Request request)
{
    if (source == MPI_PROC_NULL) {
        mr_to->end(begin);
        return;
    }
    struct mr_posted p = recv_of(begin, comm, source, tag);
    write_request(begin, false, &p, is_wildcard(source, tag), request);
}

/* Requests of which the program has no handle: their numbers are negative. */
enum { OWN_SEND = -2, OWN_RECV = -3, OWN_FIRST = -4 };

static void write_wait(uint64_t begin, const int64_t *requests, int num)
{
    enum { MOST = UT_RECORD_MPI_NUMBERS / 4 };

    for (int i = 0; i < num; i += MOST) {
        int64_t numbers[UT_RECORD_MPI_NUMBERS];
        unsigned int n = 0;
        for (int k = i; k < num && k < i + MOST; k++) {
            const int64_t one[] = {requests[k], -1, -1, 0};
            memcpy(numbers + n, one, sizeof(one));
            n += 4;
        }
        mr_to->write(begin, UT_RECORD_MPI_WAIT, true, numbers, n);
    }
}

void mr_sendrecv(uint64_t begin, MPI_Comm comm, int dest, int sendtag, int64_t bytes, int asked,
                 int source, int tag)
{
    int64_t requests[2];
    int num = 0;

    if (asked != MPI_PROC_NULL) {
        struct mr_posted p = recv_of(begin, comm, source, tag);
        p.numbers[p.request_at] = requests[num++] = OWN_RECV;
        write_posted(begin, false, &p);
    }
    if (dest != MPI_PROC_NULL) {
        struct mr_posted p = send_of(begin, comm, dest, sendtag, bytes, 0);
        p.numbers[p.request_at] = requests[num++] = OWN_SEND;
        write_posted(begin, num > 1, &p);
    }
    if (num > 0)
        write_wait(begin, requests, num);
    else
        mr_to->end(begin);
}

/* Of a receive from any the status tells the source; that of MPICH 4.0 does not. */
void mr_isendrecv(uint64_t begin, MPI_Comm comm, int dest, int sendtag, int64_t bytes, int source,
                  int tag, MPI_Request request)
{
    bool receives = source != MPI_PROC_NULL, sends = dest != MPI_PROC_NULL;

    if (!receives && !sends) {
        mr_to->end(begin);
        return;
    }
    int64_t number = mr_request_add(request, receives && is_wildcard(source, tag), NULL);
    if (receives) {
        struct mr_posted p = recv_of(begin, comm, source, tag);
        p.numbers[p.request_at] = number;
        write_posted(begin, false, &p);
    }
    if (sends) {
        struct mr_posted p = send_of(begin, comm, dest, sendtag, bytes, 0);
        p.numbers[p.request_at] = number;
        write_posted(begin, receives, &p);
    }
}

void mr_probe(uint64_t begin, MPI_Comm comm, int asked, int source, int tag)
{
    if (asked == MPI_PROC_NULL) {
        mr_to->end(begin);
        return;
    }
    int64_t numbers[] = {mr_comm(comm, begin), source, tag};
    mr_to->write(begin, UT_RECORD_MPI_PROBE, false, numbers, 3);
}

void mr_persistent_send(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes,
                        int synchronous, MPI_Request request)
{
    if (dest != MPI_PROC_NULL) {
        struct mr_posted p = send_of(begin, comm, dest, tag, bytes, synchronous);
        mr_request_add(request, false, &p);
    }
    mr_to->end(begin);
}

void mr_persistent_recv(uint64_t begin, MPI_Comm comm, int source, int tag, MPI_Request request)
{
    if (source != MPI_PROC_NULL) {
        struct mr_posted p = recv_of(begin, comm, source, tag);
        mr_request_add(request, is_wildcard(source, tag), &p);
    }
    mr_to->end(begin);
}

/*
 * Collectives
 */

void mr_coll(uint64_t begin, unsigned int which, MPI_Comm comm, int root, int64_t bytes,
             int64_t elements, const MPI_Request *request)
{
    int64_t index = mr_comm(comm, begin);
    int64_t numbers[] = {which, index,    root < 0 ? -1 : root,
                         bytes, elements, request ? mr_request_add(*request, false, NULL) : -1};

    mr_to->write(begin, UT_RECORD_MPI_COLL, false, numbers, 6);
}

void mr_persistent_coll(uint64_t begin, unsigned int which, MPI_Comm comm, int root, int64_t bytes,
                        int64_t elements, MPI_Request request)
{
    const struct mr_posted p = {
        .kind = UT_RECORD_MPI_COLL,
        .numbers = {which, mr_comm(comm, begin), root < 0 ? -1 : root, bytes, elements, -1},
        .n = 6,
        .request_at = 5};

    mr_request_add(request, false, &p);
    mr_to->end(begin);
}

struct neighbors {
    int *in, *out, num_in, num_out;
};

static bool make_room(struct neighbors *n, int num_in, int num_out)
{
    n->num_in = num_in;
    n->num_out = num_out;
    n->in = malloc(((size_t)num_in + (size_t)num_out + 1) * sizeof(int));
    n->out = n->in ? n->in + num_in : NULL;
    return n->in != NULL;
}

static bool find_in_cart(MPI_Comm comm, struct neighbors *n)
{
    int dims = 0;

    PMPI_Cartdim_get(comm, &dims);
    if (!make_room(n, 2 * dims, 2 * dims))
        return false;
    for (int i = 0; i < dims; i++) {
        PMPI_Cart_shift(comm, i, 1, &n->in[2 * i], &n->in[2 * i + 1]);
        memcpy(&n->out[2 * i], &n->in[2 * i], 2 * sizeof(int));
    }
    return true;
}

static bool find_in_dist_graph(MPI_Comm comm, struct neighbors *n)
{
    int num_in = 0, num_out = 0, weighted = 0;

    PMPI_Dist_graph_neighbors_count(comm, &num_in, &num_out, &weighted);
    int *weights = malloc(((size_t)num_in + (size_t)num_out + 1) * sizeof(int));
    if (!weights || !make_room(n, num_in, num_out)) {
        free(weights);
        return false;
    }
    PMPI_Dist_graph_neighbors(comm, num_in, n->in, weights, num_out, n->out, weights + num_in);
    free(weights);
    return true;
}

static bool find_in_graph(MPI_Comm comm, struct neighbors *n)
{
    int rank, num = 0;

    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &num);
    if (!make_room(n, num, num))
        return false;
    PMPI_Graph_neighbors(comm, rank, num, n->in);
    memcpy(n->out, n->in, (size_t)num * sizeof(int));
    return true;
}

static bool find_neighbors(MPI_Comm comm, struct neighbors *n)
{
    int kind = MPI_UNDEFINED;

    *n = (struct neighbors){NULL, NULL, 0, 0};
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART)
        return find_in_cart(comm, n);
    if (kind == MPI_DIST_GRAPH)
        return find_in_dist_graph(comm, n);
    return kind == MPI_GRAPH && find_in_graph(comm, n);
}

/* A neighbourhood collective: a message for each edge. `number`: the request that all of them have,
 * or OWN_FIRST: each has its own, and the call waits for them. */
static void write_neighbors(uint64_t begin, MPI_Comm comm, const struct neighbors *n, int64_t bytes,
                            const int counts[], MPI_Datatype type, int64_t number)
{
    bool own = number == OWN_FIRST, same_call = false;
    int64_t *requests = malloc(((size_t)n->num_in + (size_t)n->num_out + 1) * sizeof(*requests));
    int num = 0;

    for (int i = 0; requests && i < n->num_in + n->num_out; i++) {
        bool in = i < n->num_in;
        int peer = in ? n->in[i] : n->out[i - n->num_in];
        if (peer == MPI_PROC_NULL)
            continue;
        struct mr_posted p =
            in ? recv_of(begin, comm, peer, NEIGHBOR_TAG)
               : send_of(begin, comm, peer, NEIGHBOR_TAG,
                         counts ? mr_bytes(counts[i - n->num_in], type) : bytes, 0);
        requests[num] = own ? number - num : number;
        p.numbers[p.request_at] = requests[num++];
        write_posted(begin, same_call, &p);
        same_call = true;
    }
    if (own && num)
        write_wait(begin, requests, num);
    else if (!same_call)
        mr_to->end(begin);
    free(requests);
}

void mr_neighbors(uint64_t begin, MPI_Comm comm, int64_t bytes, const MPI_Request *request)
{
    struct neighbors n;

    find_neighbors(comm, &n);
    write_neighbors(begin, comm, &n, bytes, NULL, MPI_DATATYPE_NULL,
                    request ? mr_request_add(*request, false, NULL) : OWN_FIRST);
    free(n.in);
}

void mr_neighborsv(uint64_t begin, MPI_Comm comm, const int counts[], MPI_Datatype type)
{
    struct neighbors n;

    find_neighbors(comm, &n);
    write_neighbors(begin, comm, &n, 0, counts, type, OWN_FIRST);
    free(n.in);
}

void mr_new_comm(uint64_t begin, MPI_Comm comm, MPI_Comm new_comm)
{
    bool is_new = new_comm != MPI_COMM_NULL;

    if (is_new)
        mr_comm(new_comm, begin);
    if (comm != MPI_COMM_NULL || is_new)
        mr_coll(begin, UT_RECORD_MPI_NEW_COMM, comm != MPI_COMM_NULL ? comm : new_comm, -1, 4, 0,
                NULL);
    else
        mr_to->end(begin);
}

void mr_opaque(uint64_t begin)
{
    int64_t one_sided = 1;

    mr_to->write(begin, UT_RECORD_MPI_OPAQUE, false, &one_sided, 1);
}

#include "wrappers.inc"
