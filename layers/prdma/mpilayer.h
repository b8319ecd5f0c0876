/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that use MPI. Handles are those of the MPI library that mpi.h belongs to. */
#ifndef PRDMA_MPILAYER_H
#define PRDMA_MPILAYER_H

#include "../common/hash.h"
#include "layer.h"

#include <mpi.h>
#include <sys/queue.h>

/* The functions that make requests: before Open MPI 5 its extension pcollreq has them (pull request
 * 9456 of open-mpi/ompi; since then ompi/mpi/c/neighbor_alltoallw_init.c). */
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#    define PR_MPIX       1
#    define PR_CALL(name) MPIX_##name
#    define PR_NEXT(name) PMPIX_##name
#else
#    define PR_MPIX       0
#    define PR_CALL(name) MPI_##name
#    define PR_NEXT(name) PMPI_##name
#endif

#include "weak.h"

/* The arguments of one side of a call, in the forms that the functions use. */
struct pr_side {
    const void *buf;
    MPI_Count count;   /* of each block, if there is no array of counts */
    const int *counts; /* counts of the blocks, as int or */
    const MPI_Count *counts_c;
    const int *displs;        /* in extents of type, as int or */
    const MPI_Aint *displs_c; /* MPI_Aint; in bytes if there is an array of types */
    MPI_Datatype type;
    const MPI_Datatype *types;
    bool same; /* all neighbours get the same block */
};

/* A communicator with a topology, kept by its requests. */
struct pr_comm {
    MPI_Comm user;    /* MPI_COMM_NULL once it is freed */
    MPI_Comm private; /* the same processes, without a topology */
    int refs;
    int rank;
    int num_in, num_out;
    int *in, *out;       /* ranks */
    int *same_node;      /* per in-neighbour: MPI_UNDEFINED if not on this node */
    bool oversubscribed; /* this node has more of these processes than cores */
    enum { PR_UNKNOWN, PR_ALL, PR_SOME } presence; /* do all processes have this layer? */
};

/* One end of an edge. */
struct pr_edge {
    int rank;  /* of the neighbour, or MPI_PROC_NULL */
    int index; /* of the edge at its other end, or -1; in-edges only */
    void *buf; /* the program's buffer, displaced */
    MPI_Count count;
    MPI_Datatype type; /* our duplicate if the block is packed */
    bool own_type;
    bool contiguous;
    char *data; /* first byte, if the block is contiguous */
    size_t bytes;
    size_t stage; /* offset in the staging memory, if packed or copied */
    bool staged;
    size_t head, tail; /* bytes at its ends that arrive in the staging memory, unless staged */
    bool registered;
    utofu_stadd_t stadd;
    utofu_stadd_t ends; /* address of its place in the staging memory */
    struct pr_vcq *vcq; /* VCQ on which it is registered */
};

enum pr_state { PR_INACTIVE, PR_ACTIVE, PR_DONE };

struct pr_request {
    MPI_Request handle; /* MPI's own request for the same call, never started */
    struct ut_hash_entry by_handle;
    enum pr_state state;
    bool fallback; /* replaced by MPI's own request; kept for statistics */
    bool copies;   /* a block is packed, copied, cut, or sent to this process itself */
    struct pr_xfer xfer;
    struct pr_comm *comm;
    struct pr_edge *out, *in;
    int num_out, num_in;
    char *stage;
    size_t stage_size;
    utofu_stadd_t *stage_stadds;   /* on each VCQ of xfer: those of its groups, or rx */
    unsigned int num_stage_stadds; /* with lanes one, on pr_engine.free */
    /* for PRDMA_STATS */
    const char *call;
    enum pr_method requested_method, method;
    const char *fallback_reason; /* reason for falling back to MPI's own request */
    int num;
    uint64_t rounds, bytes;
    LIST_ENTRY(pr_request) all;
};

extern int pr_num_requests;

enum { PR_MAX_STAGED = 16384 }; /* longest block that is copied because it fills no page */

/* Destination of a block at its receiver. */
struct pr_place {
    utofu_stadd_t whole, ends;
    uint64_t head, tail; /* bytes of the ends */
};

enum { PR_LINE = 64 }; /* alignment of blocks in the staging memory */

extern bool pr_other_mpi; /* the program uses another MPI library: the layer does nothing */

#endif
