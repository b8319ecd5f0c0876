/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical path: from the end of the call that ends last back to the beginning, over whatever
 * each call has waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "model/sums.h"
#include "model/table.h"

struct path {
    const struct um_sim *sim;
    struct um_part *parts;
    size_t num, room;
    struct um_table table;
    double total;
};

/* Adds to the part with this key, whose text is made when it is new. */
static struct um_part *part_of(struct path *p, uint64_t a, uint64_t b, double ns)
{
    uint32_t *index = um_table_at(&p->table, a, b, (uint32_t)p->num);

    if (*index == p->num) {
        p->parts = um_grow(p->parts, p->num, &p->room, sizeof(*p->parts));
        p->parts[p->num++] = (struct um_part){.text = ""};
    }
    p->total += ns;
    p->parts[*index].ns += ns;
    return &p->parts[*index];
}

enum { CALLS, COMPUTE, BARRIER, COMM, MPI };

static void add_call(struct path *p, uint32_t rank, double ns)
{
    struct um_part *part = part_of(p, CALLS, rank, ns);

    if (!*part->text)
        snprintf(part->text, sizeof(part->text), "calls of rank %u", rank);
}

static void add_compute(struct path *p, uint32_t rank, double ns)
{
    struct um_part *part = ns > 0 ? part_of(p, COMPUTE, rank, ns) : NULL;

    if (part && !*part->text)
        snprintf(part->text, sizeof(part->text), "computing of rank %u", rank);
}

static void add_barrier(struct path *p, uint32_t rank, uint32_t from, double ns)
{
    struct um_part *part = part_of(p, BARRIER, (uint64_t)rank << 32 | from, ns);

    if (!*part->text)
        snprintf(part->text, sizeof(part->text),
                 "waits of rank %u for a barrier that rank %u began", rank, from);
}

static void add_comm(struct path *p, uint32_t rank, const struct um_comm *c, double ns)
{
    static const char *const what[] = {
        [UM_PUT] = "puts", [UM_GET] = "gets", [UM_ARMW] = "ARMWs", [UM_NOP] = "NOPs"};
    const struct um_program *program = p->sim->program;
    uint32_t far = c->kind == UM_NOP ? c->process : program->vcqs[c->remote].process;
    struct um_part *part =
        part_of(p, (uint64_t)rank << 32 | COMM | (uint64_t)c->kind << 8,
                ((uint64_t)c->process << 32 ^ (uint64_t)far << 16) + c->length, ns);

    if (*part->text)
        return;
    if (c->process == rank)
        snprintf(part->text, sizeof(part->text), "waits of rank %u for its %s of %.0f B at rank %u",
                 rank, what[c->kind], um_comm_bytes(p->sim, c), far);
    else
        snprintf(part->text, sizeof(part->text), "waits of rank %u for %s of %.0f B from rank %u",
                 rank, what[c->kind], um_comm_bytes(p->sim, c), c->process);
}

static void add_mpi(struct path *p, uint32_t rank, uint32_t from, const struct um_mpi_call *call,
                    double ns)
{
    struct um_part *part = part_of(
        p, (uint64_t)rank << 32 | MPI | (uint64_t)call->kind << 8 | (uint64_t)call->coll << 16,
        from, ns);

    if (*part->text)
        return;
    if (rank == from)
        snprintf(part->text, sizeof(part->text), "rank %u in %s", rank, um_mpi_name(call));
    else
        snprintf(part->text, sizeof(part->text), "waits of rank %u for rank %u in %s", rank, from,
                 um_mpi_name(call));
}

struct where {
    uint32_t thread, op;
};

static uint32_t rank_of(const struct path *p, uint32_t thread)
{
    return p->sim->program->threads[thread].process;
}

/* A wait for a communication that ended at `end`: back to the call that started it; in session mode
 * to that of the put that let it start. */
static struct where pass_comm(struct path *p, uint32_t rank, uint32_t comm, double end)
{
    const struct um_sim *s = p->sim;

    for (;;) {
        const struct um_comm *c = &s->program->comms[comm];
        const struct um_comm_state *state = &s->comms[comm];
        bool triggered = state->trigger != UM_NONE && state->started > state->posted;
        double since = triggered ? s->comms[state->trigger].at[UM_MARK_LANDED] : state->posted;
        add_comm(p, rank, c, end > since ? end - since : 0);
        if (!triggered)
            return (struct where){c->thread, c->op};
        end = since;
        rank = c->process;
        comm = state->trigger;
    }
}

static struct where pass_wait(struct path *p, struct where at, const struct um_op_state *state)
{
    const struct um_sim *s = p->sim;
    uint32_t rank = rank_of(p, at.thread);

    if (!state->by_start)
        return pass_comm(p, rank, state->cause, state->begin);
    struct um_start start = s->starts[state->cause];
    double since = s->threads[start.thread].ops[start.op].end;
    add_barrier(p, rank, rank_of(p, start.thread), state->begin - since);
    return (struct where){start.thread, start.op};
}

/* Behind a wait for a call of MPI: the time at which that one began. */
static double begin_of(const struct um_sim *s, struct where at)
{
    const struct um_op_state *state = &s->threads[at.thread].ops[at.op];

    return state->begin - state->wait;
}

static struct where pass_mpi(struct path *p, struct where at, const struct um_op_state *state)
{
    const struct um_mpi_call *call = &p->sim->program->mpi->calls[state->cause];
    struct where from = {call->thread, call->op};
    double since = begin_of(p->sim, from);

    add_mpi(p, rank_of(p, at.thread), rank_of(p, from.thread), call,
            state->begin > since ? state->begin - since : 0);
    return from;
}

static struct where last_call(const struct um_sim *s)
{
    struct where last = {0, 0};
    double end = -1;

    for (uint32_t t = 0; t < s->program->num_threads; t++) {
        if (s->program->threads[t].num_ops > 0 && s->threads[t].now > end) {
            end = s->threads[t].now;
            last = (struct where){t, (uint32_t)s->program->threads[t].num_ops - 1};
        }
    }
    return last;
}

static void walk_back(struct path *p)
{
    const struct um_sim *s = p->sim;
    struct where at = last_call(s);

    bool waited = false; /* for the beginning of this call of MPI, and not for its end */

    for (;;) {
        const struct um_op_state *state = &s->threads[at.thread].ops[at.op];
        if (!waited && state->end > state->begin)
            add_call(p, rank_of(p, at.thread), state->end - state->begin);
        if (!waited && state->cause != UM_NONE && state->wait > 0) {
            waited = state->by_mpi;
            at = waited ? pass_mpi(p, at, state) : pass_wait(p, at, state);
            continue;
        }
        double before = at.op > 0 ? state[-1].end : 0;
        add_compute(p, rank_of(p, at.thread), (waited ? begin_of(s, at) : state->begin) - before);
        waited = false;
        if (at.op-- == 0)
            return;
    }
}

static int compare_parts(const void *a, const void *b)
{
    const struct um_part *x = a, *y = b;

    return x->ns > y->ns ? -1 : x->ns < y->ns ? 1 : strcmp(x->text, y->text);
}

unsigned int um_critical_path(const struct um_sim *sim, struct um_part parts[UM_PARTS],
                              double *total)
{
    struct path p = {.sim = sim};

    *total = 0;
    if (sim->program->num_threads == 0 || sim->end <= 0)
        return 0;
    for (size_t t = 0; t < sim->program->num_threads; t++)
        if (sim->program->threads[t].num_ops > 0) {
            walk_back(&p);
            break;
        }
    qsort(p.parts, p.num, sizeof(*p.parts), compare_parts);
    unsigned int num = p.num < UM_PARTS ? (unsigned int)p.num : UM_PARTS;
    if (num)
        memcpy(parts, p.parts, num * sizeof(*parts));
    *total = p.total;
    um_table_free(&p.table);
    free(p.parts);
    return num;
}
