/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls of MPI belong together, as MPI says: messages of the same communicator, source,
 * target and tag are received in the order of their sends; the processes of a communicator call its
 * collectives in the same order.
 */
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/match.h"
#include "model/mpi.h"
#include "model/table.h"
#include "record/format.h"
#include "util/hash.h"

struct list {
    uint32_t head, tail;
};

struct matching {
    struct um_program *program;
    struct um_mpi *mpi;
    uint32_t *first_defined; /* of each process */
    uint32_t *comm_of;       /* of each definition: the communicator, UM_NONE: not of this world */
    struct um_table requests, queues, counts, instances;
    struct list *lists; /* of messages */
    size_t num_lists, room_lists;
};

/*
 * Communicators
 */

static void find_processes(struct um_program *p)
{
    struct um_mpi *m = p->mpi;
    uint32_t size = 0;

    for (uint32_t i = 0; i < p->size; i++) {
        m->num_recorded += m->world_rank[i] != UM_NONE;
        if (m->world_size[i] > size)
            size = m->world_size[i];
    }
    m->process_of = um_calloc(size, sizeof(*m->process_of));
    memset(m->process_of, 0xff, size * sizeof(*m->process_of));
    for (uint32_t i = 0; i < p->size; i++)
        if (m->world_rank[i] != UM_NONE)
            m->process_of[m->world_rank[i]] = i;
}

static uint64_t hash_ranks(const struct um_mpi_defined *d)
{
    uint64_t h = ut_hash_word(UT_HASH_FIRST, d->size);

    for (uint32_t i = 0; i < d->num; i++)
        h = ut_hash_word(h, d->ranks[i]);
    return h;
}

static uint32_t add_comm(struct matching *g, const struct um_mpi_defined *d)
{
    struct um_mpi *m = g->mpi;
    uint32_t world = m->world_size[d->process];

    m->comms = um_grow(m->comms, m->num_comms, &m->room_comms, sizeof(*m->comms));
    struct um_mpi_comm *c = &m->comms[m->num_comms];
    c->size = d->size;
    c->processes = um_calloc(d->size, sizeof(*c->processes));
    for (uint32_t i = 0; i < d->size; i++)
        c->processes[i] = d->ranks[i] < world ? m->process_of[d->ranks[i]] : UM_NONE;
    return (uint32_t)m->num_comms++;
}

/* Definitions of the same ranks that are the n-th of their processes are the same communicator. */
static void identify_comms(struct matching *g)
{
    struct um_mpi *m = g->mpi;
    struct um_table ordinals = {.entries = NULL}, known = {.entries = NULL};

    g->first_defined = um_calloc(g->program->size, sizeof(*g->first_defined));
    g->comm_of = um_calloc(m->num_defined, sizeof(*g->comm_of));
    for (size_t i = m->num_defined; i-- > 0;)
        g->first_defined[m->defined[i].process] = (uint32_t)i;
    for (size_t i = 0; i < m->num_defined; i++) {
        const struct um_mpi_defined *d = &m->defined[i];
        g->comm_of[i] = UM_NONE;
        if (d->size == 0 || d->num < d->size || m->world_rank[d->process] == UM_NONE)
            continue;
        uint64_t hash = hash_ranks(d);
        uint32_t ordinal = (*um_table_at(&ordinals, hash, d->process, 0))++;
        uint32_t *comm = um_table_at(&known, hash, ordinal, UM_NONE);
        if (*comm == UM_NONE)
            *comm = add_comm(g, d);
        g->comm_of[i] = *comm;
    }
    um_table_free(&ordinals);
    um_table_free(&known);
}

/* The communicator of a call. False: it is not of this world, and the call stands for nothing. */
static bool resolve_comm(struct matching *g, struct um_mpi_call *call, uint32_t process)
{
    size_t at = (size_t)g->first_defined[process] + call->comm;

    if (at >= g->mpi->num_defined || g->mpi->defined[at].process != process ||
        g->comm_of[at] == UM_NONE) {
        call->dead = true;
        g->mpi->opaque++;
        return false;
    }
    call->comm = g->comm_of[at];
    const struct um_mpi_comm *comm = &g->mpi->comms[call->comm];
    for (uint32_t i = 0; i < comm->size; i++)
        if (comm->processes[i] == process)
            call->place = i;
    return true;
}

/*
 * Requests
 */

static void post_request(struct matching *g, uint32_t process, uint32_t call)
{
    struct um_mpi *m = g->mpi;
    uint32_t *head = um_table_at(&g->requests, process, (uint64_t)m->calls[call].request, UM_NONE);

    m->posted = um_grow(m->posted, m->num_posted, &m->room_posted, sizeof(*m->posted));
    m->posted[m->num_posted] = (struct um_mpi_posted){call, *head};
    *head = (uint32_t)m->num_posted++;
}

static void complete_request(struct matching *g, uint32_t process, struct um_mpi_done *done)
{
    struct um_mpi *m = g->mpi;
    uint32_t *head = um_table_at(&g->requests, process, (uint64_t)done->request, UM_NONE);

    done->posted = *head;
    *head = UM_NONE;
    for (uint32_t i = done->posted; i != UM_NONE; i = m->posted[i].next) {
        struct um_mpi_call *call = &m->calls[m->posted[i].call];
        if (done->cancelled)
            call->dead = true;
        if (call->kind == UT_RECORD_MPI_RECV && call->peer < 0)
            call->peer = done->source;
        if (call->kind == UT_RECORD_MPI_RECV && call->tag == -1)
            call->tag = done->tag;
    }
}

/*
 * Collectives
 */

static void enter_instance(struct matching *g, uint32_t index)
{
    struct um_mpi *m = g->mpi;
    struct um_mpi_call *call = &m->calls[index];
    uint32_t size = m->comms[call->comm].size;
    uint32_t ordinal = (*um_table_at(&g->counts, call->comm, call->place, 0))++;
    uint32_t *at = um_table_at(&g->instances, call->comm, ordinal, (uint32_t)m->num_instances);

    if (*at == m->num_instances) {
        m->instances =
            um_grow(m->instances, m->num_instances, &m->room_instances, sizeof(*m->instances));
        struct um_mpi_instance *made = &m->instances[m->num_instances++];
        *made = (struct um_mpi_instance){.comm = call->comm, .coll = call->coll};
        made->calls = um_calloc(size, sizeof(*made->calls));
        memset(made->calls, 0xff, size * sizeof(*made->calls));
    }
    struct um_mpi_instance *instance = &m->instances[*at];
    if (instance->coll != call->coll)
        um_fail(UM_EXIT_BAD,
                "the processes of a communicator of MPI call different collectives as number %u: "
                "one of them %s, another one %s",
                ordinal, um_mpi_name(call), um_mpi_name(&m->calls[instance->calls[0]]));
    call->item = *at;
    instance->calls[call->place] = index;
    instance->num_calls++;
    instance->root = call->peer >= 0 && (uint32_t)call->peer < size ? (uint32_t)call->peer : 0;
    instance->bytes = call->bytes > instance->bytes ? call->bytes : instance->bytes;
    instance->elements = call->elements > instance->elements ? call->elements : instance->elements;
}

/*
 * Messages
 */

static struct list *list_of(struct matching *g, const struct um_mpi_call *c, uint32_t source,
                            uint32_t target)
{
    uint32_t *index =
        um_table_at(&g->queues, (uint64_t)c->comm << 32 | source,
                    (uint64_t)target << 32 | (uint32_t)c->tag, (uint32_t)g->num_lists);

    if (*index == g->num_lists) {
        g->lists = um_grow(g->lists, g->num_lists, &g->room_lists, sizeof(*g->lists));
        g->lists[g->num_lists++] = (struct list){UM_NONE, UM_NONE};
    }
    return &g->lists[*index];
}

static bool has_peer(const struct um_mpi *m, const struct um_mpi_call *c)
{
    const struct um_mpi_comm *comm = &m->comms[c->comm];

    return !c->dead && c->peer >= 0 && (uint32_t)c->peer < comm->size &&
           comm->processes[c->peer] != UM_NONE;
}

static void enter_send(struct matching *g, uint32_t index)
{
    struct um_mpi *m = g->mpi;
    struct um_mpi_call *c = &m->calls[index];

    if (!has_peer(m, c)) {
        c->dead = true;
        return;
    }
    struct list *list = list_of(g, c, c->place, (uint32_t)c->peer);
    m->messages = um_grow(m->messages, m->num_messages, &m->room_messages, sizeof(*m->messages));
    m->messages[m->num_messages] = (struct um_mpi_message){index, UM_NONE, UM_NONE};
    c->item = (uint32_t)m->num_messages++;
    if (list->head == UM_NONE)
        list->head = c->item;
    else
        m->messages[list->tail].next = c->item;
    list->tail = c->item;
}

static void match_receive(struct matching *g, uint32_t index)
{
    struct um_mpi *m = g->mpi;
    struct um_mpi_call *c = &m->calls[index];

    if (!has_peer(m, c)) /* or nobody has waited for it */
        return;
    struct list *list = list_of(g, c, (uint32_t)c->peer, c->place);
    c->item = list->head;
    if (c->item == UM_NONE) {
        m->unmatched++;
        return;
    }
    if (c->kind == UT_RECORD_MPI_PROBE)
        return;
    m->messages[c->item].recv = index;
    list->head = m->messages[c->item].next;
}

/*
 * All calls of a process, in order
 */

static void enter_process(struct matching *g, uint32_t process)
{
    struct um_mpi *m = g->mpi;
    size_t num;
    struct um_call *calls = um_calls_of(g->program, process, &num);

    for (size_t i = 0; i < num; i++) {
        const struct um_op *op = &g->program->threads[calls[i].thread].ops[calls[i].op];
        if (op->kind != UM_OP_MPI)
            continue;
        struct um_mpi_call *call = &m->calls[op->which];
        if (call->kind == UT_RECORD_MPI_OPAQUE)
            continue;
        if (call->kind == UT_RECORD_MPI_WAIT) {
            for (uint32_t k = 0; k < call->num; k++)
                complete_request(g, process, &m->dones[call->first + k]);
            continue;
        }
        if (!resolve_comm(g, call, process))
            continue;
        if (call->request != -1)
            post_request(g, process, op->which);
        if (call->kind == UT_RECORD_MPI_COLL)
            enter_instance(g, op->which);
        else if (call->kind == UT_RECORD_MPI_SEND)
            enter_send(g, op->which);
    }
    free(calls);
}

static void match_process(struct matching *g, uint32_t process)
{
    size_t num;
    struct um_call *calls = um_calls_of(g->program, process, &num);

    for (size_t i = 0; i < num; i++) {
        const struct um_op *op = &g->program->threads[calls[i].thread].ops[calls[i].op];
        if (op->kind != UM_OP_MPI)
            continue;
        const struct um_mpi_call *call = &g->mpi->calls[op->which];
        if (!call->dead && (call->kind == UT_RECORD_MPI_RECV || call->kind == UT_RECORD_MPI_PROBE))
            match_receive(g, op->which);
    }
    free(calls);
}

void um_mpi_match(struct um_program *p)
{
    struct matching g = {.program = p, .mpi = p->mpi};

    if (!p->mpi)
        return;
    find_processes(p);
    identify_comms(&g);
    for (uint32_t i = 0; i < p->size; i++)
        enter_process(&g, i);
    for (uint32_t i = 0; i < p->size; i++)
        match_process(&g, i);
    if (p->mpi->unmatched)
        um_warn("%llu messages of MPI that were received belong to no recorded send: nothing waits "
                "for them here",
                (unsigned long long)p->mpi->unmatched);
    um_table_free(&g.requests);
    um_table_free(&g.queues);
    um_table_free(&g.counts);
    um_table_free(&g.instances);
    free(g.lists);
    free(g.first_defined);
    free(g.comm_of);
}
