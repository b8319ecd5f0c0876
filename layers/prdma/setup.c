/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a request together with all processes of the communicator:
 *
 *     find the blocks of all edges, and pair each edge with its other end as this MPI does
 *     open session-mode VCQs, and agree on the method in all processes
 *     register memory, and exchange the addresses for puts and RTRs
 *     prepare the descriptors, and agree that everything has succeeded in all processes
 *
 * If any step fails in any process, all of them use MPI's own request.
 */
#include "setup.h"
#include "blocks.h"
#include "comm.h"
#include "datatype.h"
#include "engine.h"
#include "lanes.h"
#include "request.h"
#include "settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_SENDER = 1, TAG_RECEIVER = 2, TAG_EDGE = 3 };

/* A sender's message about an edge. */
struct record {
    int64_t rank, edge;
    uint64_t bytes;
};

/* A sender's message to a target, and the target's answer. */
struct from_sender {
    utofu_vcq_id_t free, session;
    utofu_stadd_t free_scratch, session_scratch;
    uint64_t sps;
};

struct from_receiver {
    utofu_vcq_id_t free, rx;
    utofu_stadd_t free_scratch;
    struct pr_place places[];
};

static void set_fallback_reason(struct pr_request *r, const char *fallback_reason)
{
    if (r->fallback_reason == NULL)
        r->fallback_reason = fallback_reason;
}

static bool describe_side(struct pr_request *r, const struct pr_side *side, struct pr_edge *edges,
                          const int *ranks, int count)
{
    bool ok = true;

    for (int i = 0; i < count; i++) {
        edges[i] = (struct pr_edge){.rank = ranks[i], .index = -1};
        if (ranks[i] != MPI_PROC_NULL && r->fallback_reason == NULL)
            ok = pr_side_edge(side, i, &edges[i]) && ok;
    }
    return ok;
}

#ifdef OPEN_MPI
/* Exchanges the records with the neighbourhood collective of MPI itself: on a torus, MPI pairs
 * parallel edges by direction. */
static bool exchange_records(struct pr_request *r, struct record *out, struct record *in)
{
    const struct pr_comm *c = r->comm;
    size_t most = (size_t)(c->num_in > c->num_out ? c->num_in : c->num_out) + 1;
    int *counts = malloc(most * sizeof(int));
    MPI_Aint *displs = malloc(most * sizeof(*displs));
    MPI_Datatype *types = malloc(most * sizeof(*types));
    bool ok = counts != NULL && displs != NULL && types != NULL;

    for (size_t i = 0; ok && i < most; i++) {
        counts[i] = (int)sizeof(*out);
        displs[i] = (MPI_Aint)(i * sizeof(*out));
        types[i] = MPI_BYTE;
    }
    ok = ok && PMPI_Neighbor_alltoallw(out, counts, displs, types, in, counts, displs, types,
                                       c->user) == MPI_SUCCESS;
    free(counts);
    free(displs);
    free(types);
    return ok;
}
#else
/*
 * Exchanges the records with messages, so that the k-th edge from one process to another is the
 * k-th at both ends. MPICH intends to pair edges like this, but 4.0.2 confuses them in processes
 * that have edges to themselves and to others.
 */
static bool exchange_records(struct pr_request *r, struct record *out, struct record *in)
{
    int n = 0;
    MPI_Request *requests = malloc((size_t)(r->num_in + r->num_out + 1) * sizeof(*requests));

    if (requests == NULL)
        return false;
    for (int i = 0; i < r->num_in; i++)
        if (r->in[i].rank != MPI_PROC_NULL)
            PMPI_Irecv(&in[i], (int)sizeof(*in), MPI_BYTE, r->in[i].rank, TAG_EDGE,
                       r->comm->private, &requests[n++]);
    for (int i = 0; i < r->num_out; i++)
        if (r->out[i].rank != MPI_PROC_NULL)
            PMPI_Isend(&out[i], (int)sizeof(*out), MPI_BYTE, r->out[i].rank, TAG_EDGE,
                       r->comm->private, &requests[n++]);
    bool ok = PMPI_Waitall(n, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
    free(requests);
    return ok;
}
#endif

/* Is the record valid, as far as this process can tell? It can check edges to itself. */
static bool is_valid_record(const struct pr_request *r, const struct record *in)
{
    if (in->edge < 0 || in->edge > INT_MAX)
        return false;
    return in->rank != r->comm->rank ||
           (in->edge < r->num_out && r->out[in->edge].rank == r->comm->rank &&
            r->out[in->edge].bytes == in->bytes);
}

/* Finds the edge at the other end of each in-edge, and checks that the lengths at both ends agree.
 * */
static bool pair_edges(struct pr_request *r)
{
    struct record *out = calloc((size_t)r->num_out + 1, sizeof(*out));
    struct record *in = calloc((size_t)r->num_in + 1, sizeof(*in));
    bool ok = out != NULL && in != NULL;

    for (int i = 0; ok && i < r->num_out; i++)
        out[i] = (struct record){r->comm->rank, i, r->out[i].bytes};
    for (int i = 0; ok && i < r->num_in; i++)
        in[i].rank = -1;
    ok = ok && exchange_records(r, out, in);
    for (int i = 0; ok && i < r->num_in; i++) {
        if (r->in[i].rank == MPI_PROC_NULL)
            continue;
        if (in[i].rank != r->in[i].rank || !is_valid_record(r, &in[i]))
            set_fallback_reason(r, "MPI pairs the edges in an unknown way");
        else if (in[i].bytes != r->in[i].bytes)
            set_fallback_reason(r, "blocks differ in length at the two ends of an edge");
        else
            r->in[i].index = (int)in[i].edge;
    }
    free(out);
    free(in);
    return ok;
}

static struct pr_target *find_target(struct pr_xfer *x, int rank)
{
    for (unsigned int i = 0; i < x->num_targets; i++)
        if (x->targets[i].rank == rank)
            return &x->targets[i];
    return NULL;
}

static struct pr_source *find_source(struct pr_xfer *x, int rank)
{
    for (unsigned int i = 0; i < x->num_sources; i++)
        if (x->sources[i].rank == rank)
            return &x->sources[i];
    return NULL;
}

static bool collect_targets(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    x->targets = calloc((size_t)r->num_out + 1, sizeof(*x->targets));
    if (x->targets == NULL)
        return false;
    for (int i = 0; i < r->num_out; i++) {
        const struct pr_edge *edge = &r->out[i];

        if (!pr_edge_has_data(edge) || edge->rank == r->comm->rank)
            continue;
        struct pr_target *t = find_target(x, edge->rank);
        if (t == NULL) {
            t = &x->targets[x->num_targets++];
            t->rank = edge->rank;
            t->puts = calloc((size_t)(r->num_out - i), sizeof(*t->puts));
            if (t->puts == NULL)
                return false;
        }
        t->puts[t->num_puts++] = (struct pr_put){.edge = i, .bytes = edge->bytes};
        t->descs += pr_engine.open ? pr_put_descs(edge->bytes) + PR_SPLIT_PUTS : 1; /* at most */
        if (t->descs > PR_MAX_BLOCK_DESCS)
            t->descs = PR_MAX_BLOCK_DESCS + 1;
        r->bytes += edge->bytes;
    }
    return true;
}

static bool collect_sources(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    x->sources = calloc((size_t)r->num_in + 1, sizeof(*x->sources));
    if (x->sources == NULL)
        return false;
    for (int i = 0; i < r->num_in; i++) {
        const struct pr_edge *edge = &r->in[i];
        unsigned int k;

        if (!pr_edge_has_data(edge) || edge->rank == r->comm->rank)
            continue;
        struct pr_source *s = find_source(x, edge->rank);
        if (s == NULL) {
            s = &x->sources[x->num_sources++];
            s->rank = edge->rank;
            s->edges = calloc((size_t)(r->num_in - i), sizeof(*s->edges));
            if (s->edges == NULL)
                return false;
        }
        for (k = s->num_edges++; k > 0 && r->in[s->edges[k - 1]].index > edge->index; k--)
            s->edges[k] = s->edges[k - 1];
        s->edges[k] = i;
        x->arrivals++;
    }
    return true;
}

static unsigned int min_of(unsigned int a, unsigned int b)
{
    return a < b ? a : b;
}

static unsigned int mid_vcqs(unsigned int targets)
{
    return min_of(targets, (unsigned int)pr_settings.mid_vcqs);
}

/* How many VCQs to open. Method auto leaves half of the remaining VCQs to later requests. */
static unsigned int vcqs_wanted(const struct pr_request *r)
{
    unsigned int targets = r->xfer.num_targets;
    long left = (pr_settings.vcqs - pr_engine.vcqs_used) / 2;

    switch (r->requested_method) {
    case PR_OFF:
        return 0;
    case PR_MRC:
        return min_of(targets, 1);
    case PR_MID:
        return mid_vcqs(targets);
    case PR_FAST:
        return targets;
    default:
        return min_of(targets, left < 2 ? 2 : (unsigned int)left);
    }
}

static void open_vcqs(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;
    unsigned int wanted = vcqs_wanted(r);

    x->groups = calloc((size_t)wanted + 1, sizeof(*x->groups));
    if (x->groups == NULL) {
        set_fallback_reason(r, "no memory");
        return;
    }
    while (x->num_groups < wanted && pr_vcq_open(&x->groups[x->num_groups].vcq, true))
        x->num_groups++;
}

static void form_groups(struct pr_request *r, enum pr_method method)
{
    struct pr_xfer *x = &r->xfer;
    unsigned int wanted = x->num_targets;

    if (method == PR_MID)
        wanted = mid_vcqs(wanted);
    else if (method == PR_MRC)
        wanted = min_of(wanted, 1);
    while (x->num_groups > wanted)
        pr_vcq_close(&x->groups[--x->num_groups].vcq, true);
    for (unsigned int i = 0; i < x->num_targets; i++) {
        struct pr_group *g = &x->groups[i % x->num_groups];

        x->targets[i].group = i % x->num_groups;
        g->num_targets++;
    }
}

/* The best method that all processes can use; PR_OFF: none. */
static enum pr_method agree_method(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;
    enum pr_method set = r->requested_method == PR_EAGER ? PR_AUTO : r->requested_method;
    unsigned int got = x->num_groups, targets = x->num_targets, descs = 0;
    int can_use[PR_AUTO] = {0};

    for (unsigned int i = 0; i < targets; i++)
        descs = min_of(descs + x->targets[i].descs, PR_MAX_BLOCK_DESCS + 1);
    if (set == PR_OFF)
        set_fallback_reason(r, "method off");
    else if (descs + targets > PR_MAX_BLOCK_DESCS / 2)
        set_fallback_reason(r, "more pieces than a queue holds");
    else if (targets > 0 && got == 0)
        set_fallback_reason(r, "no session-mode VCQ is left");
    if (r->fallback_reason == NULL) {
        can_use[PR_OFF] = 1;
        can_use[PR_FAST] = (set == PR_FAST || set == PR_AUTO) && got == targets;
        can_use[PR_MID] = (set == PR_MID || set == PR_AUTO) && got >= mid_vcqs(targets);
        can_use[PR_MRC] = 1;
    }
    PMPI_Allreduce(MPI_IN_PLACE, can_use, PR_AUTO, MPI_INT, MPI_MIN, r->comm->private);
    if (can_use[PR_OFF] <= 0) {
        set_fallback_reason(r, "another process refused");
        return PR_OFF;
    }
    return can_use[PR_FAST] > 0 ? PR_FAST : can_use[PR_MID] > 0 ? PR_MID : PR_MRC;
}

/* Copies packed and short blocks through the staging memory, because uTofu maps whole pages. */
static void stage_edge(struct pr_edge *edge, bool same_node, size_t *size)
{
    edge->staged = !edge->contiguous || edge->bytes <= (size_t)pr_settings.copy;
    if (!edge->staged && same_node)
        pr_split_edge(edge, size);
    if (!edge->staged)
        return;
    edge->stage = (*size + PR_LINE - 1) / PR_LINE * PR_LINE;
    *size = edge->stage + edge->bytes;
}

static bool is_on_same_node(const struct pr_comm *c, int i)
{
    return c->same_node != NULL && c->same_node[i] != MPI_UNDEFINED;
}

static bool make_stage(struct pr_request *r)
{
    const struct pr_comm *c = r->comm;
    size_t size = 0;

    for (int i = 0; i < r->num_out; i++)
        if (pr_edge_has_data(&r->out[i]) && r->out[i].rank != c->rank)
            stage_edge(&r->out[i], false, &size);
    for (int i = 0; i < r->num_in; i++)
        if (pr_edge_has_data(&r->in[i]) && r->in[i].rank != c->rank)
            stage_edge(&r->in[i], is_on_same_node(c, i), &size);
    return pr_stage_alloc(r, pr_stage_self(r, (size + PR_LINE - 1) / PR_LINE * PR_LINE));
}

static struct pr_vcq *vcq_number(struct pr_xfer *x, unsigned int i)
{
    return x->has_rx ? &x->rx : &x->groups[i].vcq;
}

static bool register_stage(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;
    unsigned int vcqs = x->has_rx ? 1 : x->num_groups;

    if (r->stage == NULL)
        return true;
    r->stage_stadds = calloc((size_t)vcqs + 1, sizeof(*r->stage_stadds));
    if (r->stage_stadds == NULL)
        return false;
    for (unsigned int i = 0; i < vcqs; i++) {
        if (utofu_reg_mem(vcq_number(x, i)->hdl, r->stage, r->stage_size, 0, &r->stage_stadds[i]) !=
            UTOFU_SUCCESS)
            return false;
        r->num_stage_stadds++;
    }
    return true;
}

static bool register_edge(struct pr_request *r, struct pr_edge *edge, struct pr_vcq *vcq,
                          unsigned long int flags)
{
    struct pr_xfer *x = &r->xfer;

    edge->vcq = vcq;
    for (unsigned int i = 0; i < r->num_stage_stadds; i++)
        if (vcq_number(x, i) == vcq)
            edge->ends = r->stage_stadds[i] + edge->stage;
    if (edge->staged) {
        edge->stadd = edge->ends;
        return true;
    }
    edge->registered =
        utofu_reg_mem(vcq->hdl, edge->data + edge->head, edge->bytes - edge->head - edge->tail,
                      flags, &edge->stadd) == UTOFU_SUCCESS;
    return edge->registered;
}

static bool register_all(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    if (x->num_groups == 0 && x->num_sources > 0)
        x->has_rx = pr_vcq_open(&x->rx, false);
    if (x->num_groups == 0 && x->num_sources > 0 && !x->has_rx)
        return false;
    if (!make_stage(r) || !register_stage(r))
        return false;
    for (unsigned int i = 0; i < x->num_targets; i++) {
        struct pr_target *t = &x->targets[i];

        for (unsigned int k = 0; k < t->num_puts; k++) {
            struct pr_edge *edge = &r->out[t->puts[k].edge];

            if (!register_edge(r, edge, &x->groups[t->group].vcq, UTOFU_REG_MEM_FLAG_READ_ONLY))
                return false;
            t->puts[k].lcl = edge->stadd;
        }
    }
    for (unsigned int i = 0; i < x->num_sources; i++) {
        struct pr_source *s = &x->sources[i];
        const struct pr_target *t = find_target(x, s->rank);

        s->rx = x->has_rx ? &x->rx : &x->groups[t != NULL ? t->group : 0].vcq;
        s->rx->arrivals += s->num_edges;
        for (unsigned int k = 0; k < s->num_edges; k++)
            if (!register_edge(r, &r->in[s->edges[k]], s->rx, 0))
                return false;
    }
    return true;
}

/* Messages between the ends of the edges: buffers and MPI requests. */
struct exchange {
    struct from_sender *to_targets, *from_sources;
    char *from_targets, *to_sources; /* struct from_receiver, adjacent */
    MPI_Request *requests;
};

static size_t answer_size(unsigned int edges)
{
    return sizeof(struct from_receiver) + edges * sizeof(struct pr_place);
}

static bool make_exchange(struct pr_request *r, struct exchange *e)
{
    struct pr_xfer *x = &r->xfer;
    size_t targets = x->num_targets + 1, sources = x->num_sources + 1;
    size_t from_targets = 1, to_sources = 1;

    for (unsigned int i = 0; i < x->num_targets; i++)
        from_targets += answer_size(x->targets[i].num_puts);
    for (unsigned int i = 0; i < x->num_sources; i++)
        to_sources += answer_size(x->sources[i].num_edges);
    e->to_targets = calloc(targets, sizeof(*e->to_targets));
    e->from_sources = calloc(sources, sizeof(*e->from_sources));
    e->from_targets = calloc(1, from_targets);
    e->to_sources = calloc(1, to_sources);
    e->requests = calloc(2 * (targets + sources), sizeof(*e->requests));
    x->peers = calloc(targets + sources, sizeof(*x->peers));
    return e->to_targets != NULL && e->from_sources != NULL && e->from_targets != NULL &&
           e->to_sources != NULL && e->requests != NULL && x->peers != NULL;
}

static void free_exchange(struct exchange *e)
{
    free(e->to_targets);
    free(e->from_sources);
    free(e->from_targets);
    free(e->to_sources);
    free(e->requests);
}

static bool wait_for_exchange(const struct pr_request *r, struct exchange *e, int n)
{
    if (PMPI_Waitall(n, e->requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS)
        return true;
    pr_warn("%s: received unexpected messages of the layer, so MPI's own request is used: do all "
            "processes have the same version of libprdma?",
            r->call);
    return false;
}

/* Receivers send the addresses of their blocks. The replies are adjacent, in the order of targets.
 * */
static bool exchange_places(struct pr_request *r, struct exchange *e)
{
    struct pr_xfer *x = &r->xfer;
    char *place = e->from_targets;
    int n = 0;

    for (unsigned int i = 0; i < x->num_targets; i++) {
        size_t size = answer_size(x->targets[i].num_puts);

        PMPI_Irecv(place, (int)size, MPI_BYTE, x->targets[i].rank, TAG_RECEIVER, r->comm->private,
                   &e->requests[n++]);
        place += size;
    }
    place = e->to_sources;
    for (unsigned int i = 0; i < x->num_sources; i++) {
        const struct pr_source *s = &x->sources[i];
        struct from_receiver *answer = (struct from_receiver *)place;
        size_t size = answer_size(s->num_edges);

        answer->free = pr_engine.free.id;
        answer->free_scratch = pr_engine.free.scratch;
        answer->rx = s->rx != NULL ? s->rx->id : 0;
        for (unsigned int k = 0; k < s->num_edges; k++) {
            const struct pr_edge *edge = &r->in[s->edges[k]];

            answer->places[k] = (struct pr_place){edge->stadd, edge->ends, edge->head, edge->tail};
        }
        PMPI_Isend(answer, (int)size, MPI_BYTE, s->rank, TAG_RECEIVER, r->comm->private,
                   &e->requests[n++]);
        place += size;
    }
    return wait_for_exchange(r, e, n);
}

/* Creates the puts from the replies of the receivers. */
static bool make_puts(struct pr_request *r, const struct exchange *e)
{
    struct pr_xfer *x = &r->xfer;
    const char *place = e->from_targets;
    bool ok = true;

    for (unsigned int i = 0; i < x->num_targets; i++) {
        struct pr_target *t = &x->targets[i];
        const struct from_receiver *answer = (const struct from_receiver *)place;

        place += answer_size(t->num_puts);
        t->rx = answer->rx;
        if (!pr_split_ends_fit(t, answer->places)) {
            pr_warn("%s: rank %d of the communicator has sent ends that exceed a block, so MPI's "
                    "own request is used: do all processes have the same version of libprdma?",
                    r->call, t->rank);
            set_fallback_reason(r, "a receiver's places do not fit");
            ok = false;
            continue;
        }
        ok = pr_split_make_puts(t, answer->places) && ok;
        x->groups[t->group].num_descs += t->descs;
        pr_xfer_add_peer(x, t->rank, answer->free, answer->free_scratch);
    }
    return ok;
}

/* Checks the number of entries that an RTR frees at the sender: its puts, or one entry of a block
 * for several targets. */
static bool check_sender(const struct pr_request *r, struct pr_source *s,
                         const struct from_sender *said)
{
    s->session = said->session;
    s->scratch = said->session_scratch;
    s->sps = (unsigned int)said->sps;
    if (said->sps > 0 && said->sps <= PR_MAX_BLOCK_DESCS)
        return true;
    pr_warn("%s: rank %d of the communicator has asked to free %llu queue entries, of at most %d, "
            "so MPI's own request is used: do all processes have the same version of libprdma?",
            r->call, s->rank, (unsigned long long)said->sps, PR_MAX_BLOCK_DESCS);
    s->sps = 0;
    return false;
}

/* Senders send the addresses for RTRs, and the number of entries that an RTR frees. */
static bool exchange_senders(struct pr_request *r, struct exchange *e)
{
    struct pr_xfer *x = &r->xfer;
    int n = 0;

    for (unsigned int i = 0; i < x->num_sources; i++)
        PMPI_Irecv(&e->from_sources[i], (int)sizeof(*e->from_sources), MPI_BYTE, x->sources[i].rank,
                   TAG_SENDER, r->comm->private, &e->requests[n++]);
    for (unsigned int i = 0; i < x->num_targets; i++) {
        const struct pr_target *t = &x->targets[i];
        const struct pr_vcq *vcq = &x->groups[t->group].vcq;

        e->to_targets[i] = (struct from_sender){
            .free = pr_engine.free.id,
            .free_scratch = pr_engine.free.scratch,
            .session = vcq->id,
            .session_scratch = vcq->scratch,
            .sps = pr_target_sps(x, t),
        };
        PMPI_Isend(&e->to_targets[i], (int)sizeof(*e->to_targets), MPI_BYTE, t->rank, TAG_SENDER,
                   r->comm->private, &e->requests[n++]);
    }
    bool ok = wait_for_exchange(r, e, n);
    for (unsigned int i = 0; i < x->num_sources; i++) {
        struct pr_source *s = &x->sources[i];

        ok = check_sender(r, s, &e->from_sources[i]) && ok;
        pr_xfer_add_peer(x, s->rank, e->from_sources[i].free, e->from_sources[i].free_scratch);
    }
    if (!ok)
        set_fallback_reason(r, "the messages of a neighbour are invalid");
    return ok;
}

static bool all_agree(const struct pr_request *r, bool can_use)
{
    int all = can_use;

    PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, r->comm->private);
    return all > 0;
}

/* True if everything has succeeded in all processes. */
static bool agree_success(struct pr_request *r, bool ok)
{
    bool all = all_agree(r, ok);

    if (!all)
        set_fallback_reason(r, "another process refused");
    return all;
}

static bool build_lanes(struct pr_request *r, struct exchange *e)
{
    bool ok = pr_lanes_create(r);

    r->method = PR_EAGER;
    if (!ok)
        set_fallback_reason(r, "memory could not be registered");
    if (!agree_success(r, ok))
        return false;
    pr_lanes_connect(r, e->requests);
    return true;
}

/* Builds the transfer, starting with the choice of the method. */
static bool build_xfer(struct pr_request *r, struct exchange *e)
{
    r->method = agree_method(r);
    if (r->method == PR_OFF)
        return false;
    form_groups(r, r->method);
    bool ok = register_all(r);
    if (!ok)
        set_fallback_reason(r, "memory could not be registered");
    ok = exchange_places(r, e) && ok;
    ok = make_puts(r, e) && ok;
    ok = exchange_senders(r, e) && ok;
    if (ok && !pr_xfer_prepare(&r->xfer)) {
        ok = false;
        set_fallback_reason(r, "descriptors could not be prepared");
    }
    return agree_success(r, ok);
}

static bool has_copies(const struct pr_request *r)
{
    bool copies = r->stage != NULL;

    for (int i = 0; i < r->num_in; i++)
        copies |= r->in[i].rank == r->comm->rank && r->in[i].bytes > 0;
    return copies;
}

static bool make_request(struct pr_request *r, const struct pr_side *send,
                         const struct pr_side *recv)
{
    struct exchange e = {0};

    if (r->fallback_reason == NULL && r->requested_method != PR_OFF && !pr_engine_open())
        set_fallback_reason(r, "uTofu is not available");
    if (!describe_side(r, send, r->out, r->comm->out, r->num_out) ||
        !describe_side(r, recv, r->in, r->comm->in, r->num_in))
        set_fallback_reason(r, "a datatype cannot be packed");
    if (!pair_edges(r) || !collect_targets(r) || !collect_sources(r) || !make_exchange(r, &e))
        set_fallback_reason(r, "no memory");
    bool eager = all_agree(r, pr_lanes_usable(r)), ok;
    if (eager) {
        ok = build_lanes(r, &e);
    } else {
        if (r->fallback_reason == NULL)
            open_vcqs(r);
        ok = build_xfer(r, &e);
    }
    r->copies = has_copies(r);
    r->xfer.oversubscribed = r->comm->oversubscribed;
    free_exchange(&e);
    return ok;
}

/* The method that the program has chosen for one request, by a key of its info. */
static enum pr_method chosen_method(MPI_Info info)
{
    char value[16];
    int there = 0;
    enum pr_method method;

    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, "prdma_method", (int)sizeof(value) - 1, value, &there);
    return there && pr_method_of(value, &method) ? method : pr_settings.method;
}

static struct pr_request *new_request(const char *call, struct pr_comm *c, MPI_Info info)
{
    struct pr_request *r = pr_request_reserve() ? calloc(1, sizeof(*r)) : NULL;

    if (r == NULL)
        return NULL;
    r->call = r->xfer.call = call;
    r->comm = c;
    r->requested_method = chosen_method(info);
    r->num_out = c->num_out;
    r->num_in = c->num_in;
    r->out = calloc((size_t)c->num_out + 1, sizeof(*r->out));
    r->in = calloc((size_t)c->num_in + 1, sizeof(*r->in));
    if (r->out == NULL || r->in == NULL) {
        free(r->out);
        free(r->in);
        free(r);
        return NULL;
    }
    c->refs++;
    return r;
}

/* Do all processes of this communicator get here? */
static bool may_take_over(MPI_Comm comm, int rc)
{
    int class;

    if (rc == MPI_SUCCESS)
        return true;
    PMPI_Error_class(rc, &class);
    return comm != MPI_COMM_NULL && class != MPI_ERR_COMM && class != MPI_ERR_TOPOLOGY;
}

/*
 * Called after MPI's own function: *request is MPI's request, or rc is the error, which the other
 * processes must learn. If the layer takes over the call, MPI's request stays inactive and its
 * handle identifies the request of the layer.
 */
int pr_request_take_over(const char *call, MPI_Comm comm, MPI_Info info, const struct pr_side *send,
                         const struct pr_side *recv, int rc, MPI_Request *request)
{
    if (pr_other_mpi || !may_take_over(comm, rc))
        return rc;
    pr_settings_read();
    pr_lock();
    if (pr_log.rank < 0)
        PMPI_Comm_rank(MPI_COMM_WORLD, &pr_log.rank);
    struct pr_comm *c = pr_comm_get(comm);
    struct pr_request *r = c != NULL ? new_request(call, c, info) : NULL;
    if (r != NULL) {
        if (rc != MPI_SUCCESS)
            set_fallback_reason(r, "MPI refuses the arguments");
        bool ok = make_request(r, send, recv);
        if (rc == MPI_SUCCESS)
            r->handle = *request;
        if (!ok)
            pr_info("%s: MPI's own is used: %s", call, r->fallback_reason);
        else
            pr_info("%s: method %s, %u VCQs for %u targets", call, pr_method_name(r->method),
                    r->xfer.num_groups, r->xfer.num_targets);
        r->fallback = !ok;
        if (!ok)
            pr_request_release(r);
        if (rc == MPI_SUCCESS && (ok || pr_settings.stats))
            pr_request_add(r);
        else
            pr_request_destroy(r);
    }
    pr_unlock();
    return rc;
}
