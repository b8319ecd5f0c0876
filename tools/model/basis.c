/* SPDX-License-Identifier: Apache-2.0 */
/* Walks back like critical.c, from each end of a region, but only to the region's beginning. */
#include "model/basis.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/fail.h"
#include "model/lines.h"
#include "model/mpi.h"
#include "util/hash.h"

enum { MOST_WALKS = 64, MOST_STEPS = 1 << 20 };

/* The communication of a call; NULL: none. */
static const struct um_comm *comm_of(const struct um_program *p, const struct um_op *op)
{
    return op->kind == UM_OP_COMM || op->has_notice ? &p->comms[op->which] : NULL;
}

static void add_concluded(const struct um_sim *s, struct um_basis_sum *sum, uint32_t thread,
                          uint32_t number, double ns)
{
    const struct um_op *op = &s->program->threads[thread].ops[number];
    const struct um_comm *c = comm_of(s->program, op);
    uint64_t like = c ? (uint64_t)c->length << 32 | c->remote : op->which;
    uint32_t *index = um_table_at(&sum->by_call, (uint64_t)thread << 8 | op->kind,
                                  ut_hash_word(like, op->site), (uint32_t)sum->num_concluded);

    if (*index == sum->num_concluded) {
        sum->concluded = um_grow(sum->concluded, sum->num_concluded, &sum->room_concluded,
                                 sizeof(*sum->concluded));
        sum->concluded[sum->num_concluded++] = (struct um_concluded){0, thread, number};
    }
    sum->concluded[*index].ns += ns;
}

struct where {
    uint32_t thread, op;
    double since; /* the wait began here, in another thread */
};

/* The call that a wait goes back to; of a session-mode VCQ that of the put that let it start. */
static struct where find_origin(const struct um_sim *s, const struct um_op_state *state)
{
    uint32_t comm = state->cause;

    if (state->by_mpi) {
        const struct um_mpi_call *call = &s->program->mpi->calls[comm];
        const struct um_op_state *begun = &s->threads[call->thread].ops[call->op];
        return (struct where){call->thread, call->op, begun->begin - begun->wait};
    }
    if (state->by_start) {
        struct um_start start = s->starts[comm];
        return (struct where){start.thread, start.op, s->threads[start.thread].ops[start.op].end};
    }
    while (s->comms[comm].trigger != UM_NONE && s->comms[comm].started > s->comms[comm].posted)
        comm = s->comms[comm].trigger;
    return (struct where){s->program->comms[comm].thread, s->program->comms[comm].op,
                          s->comms[comm].posted};
}

void um_basis_walk(const struct um_sim *s, struct um_basis_sum *sum, uint32_t thread, size_t op,
                   double since)
{
    struct where at = {thread, (uint32_t)op, 0};

    if (sum->walks++ >= MOST_WALKS)
        return;
    for (uint32_t steps = 0; steps < MOST_STEPS; steps++) {
        const struct um_op_state *state = &s->threads[at.thread].ops[at.op];
        if (state->end <= since)
            return;
        if (state->cause != UM_NONE && state->wait > 0 && state->begin > since) {
            struct where from = find_origin(s, state);
            double ns = state->begin - (from.since > since ? from.since : since);
            sum->ns[state->basis] += ns > 0 ? ns : 0;
            if (state->basis == UM_CONCLUDED)
                add_concluded(s, sum, at.thread, at.op, ns);
            at = from;
            if (state->by_mpi && at.op-- == 0) /* the other call has begun, not ended */
                return;
        } else if (at.op-- == 0) {
            return;
        }
    }
}

double um_basis_percent(const struct um_basis_sum *sum, enum um_basis basis)
{
    double all = 0;

    for (int i = 0; i < UM_BASES; i++)
        all += sum->ns[i];
    return all > 0 ? 100 * sum->ns[basis] / all : 0;
}

static const char *name_call(const struct um_op *op, const struct um_comm *c)
{
    static const char *const comms[] = {
        [UM_PUT] = "put", [UM_GET] = "get", [UM_ARMW] = "ARMW", [UM_NOP] = "NOP"};

    switch ((enum um_op_kind)op->kind) {
    case UM_OP_COMM:
        return comms[c->kind];
    case UM_OP_TCQ:
        return "poll of the TCQ entry of a communication";
    case UM_OP_MRQ:
        return "poll of the notice of a communication";
    case UM_OP_LEAVE:
        return "end of a region";
    case UM_OP_START:
        return "barrier";
    default:
        return "call";
    }
}

void um_basis_place(const struct um_sim *s, const struct um_basis_sum *sum, char *text, size_t size)
{
    const struct um_program *p = s->program;
    const struct um_concluded *most = NULL;
    char site[UM_BASIS_TEXT];

    *text = '\0';
    for (size_t i = 0; i < sum->num_concluded; i++)
        if (!most || sum->concluded[i].ns > most->ns)
            most = &sum->concluded[i];
    if (!most)
        return;
    const struct um_op *op = &p->threads[most->thread].ops[most->op];
    const struct um_comm *c = comm_of(p, op);
    int n = snprintf(text, size, "rank %u, before its %s", p->threads[most->thread].process,
                     name_call(op, c));
    if (c && c->remote != UM_NONE && n > 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, " of %u B to rank %u", c->length,
                      p->vcqs[c->remote].process);
    if (n > 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, " (call %u)", most->op + 1);
    um_lines_name(p, most->thread, most->op, site, sizeof(site));
    if (*site && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ", at %s", site);
}

void um_basis_free(struct um_basis_sum *sum)
{
    um_table_free(&sum->by_call);
    free(sum->concluded);
}
