/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the program: each call happens when what it waits for has happened in the model.
 */
#include <stdlib.h>

#include "model/fail.h"
#include "model/noise.h"
#include "model/mpi.h"
#include "model/sim.h"

#include "utofu.h"

/* Waits for a mark of a communication. False: it is not there yet, and the thread is woken. */
static bool wait_for_mark(struct um_sim *s, uint32_t thread, uint32_t comm, enum um_mark mark,
                          double latency, enum um_basis basis, struct um_ready *ready)
{
    struct um_comm_state *c = &s->comms[comm];

    if (c->at[mark] < 0) {
        c->waiter[mark] = thread;
        return false;
    }
    if (c->at[mark] + latency > ready->at)
        *ready = (struct um_ready){c->at[mark] + latency, comm, false, (uint8_t)basis, false};
    return true;
}

static enum um_mark mark_of_notice(const struct um_op *op)
{
    if (op->kind == UM_OP_TCQ)
        return UM_MARK_TCQ;
    return op->notice == UTOFU_MRQ_TYPE_LCL_PUT || op->notice == UTOFU_MRQ_TYPE_LCL_GET ||
                   op->notice == UTOFU_MRQ_TYPE_LCL_ARMW
               ? UM_MARK_LOCAL
               : UM_MARK_REMOTE;
}

/* False: the thread waits. */
static bool wait_for_all(struct um_sim *s, uint32_t thread, const struct um_op *op,
                         struct um_ready *ready)
{
    double looked =
        ready->at; /* what the network has written is in no cache: each look takes time */

    double from = ready->at;

    for (uint32_t i = op->seen; i != UM_NONE; i = s->program->seen[i].next) {
        const struct um_seen *seen = &s->program->seen[i];
        if (s->options.skips_concluded && seen->basis == UM_CONCLUDED)
            continue;
        bool notice = seen->basis == UM_NOTICED;
        enum um_mark mark = notice ? UM_MARK_REMOTE : UM_MARK_LANDED;
        double latency = notice ? s->machine->cpu_poll_ns : s->machine->cpu_see_ns;
        if (!wait_for_mark(s, thread, seen->comm, mark, latency, (enum um_basis)seen->basis, ready))
            return false;
        if (notice || seen->early)
            continue;
        double landed = s->comms[seen->comm].at[mark];
        looked = (landed > looked ? landed : looked) + latency;
    }
    if (looked > ready->at)
        ready->at = looked;
    if (op->has_notice)
        return wait_for_mark(s, thread, op->which, mark_of_notice(op), 0, UM_NOTICED, ready);
    if (op->kind == UM_OP_RESULT) {
        struct um_ready result = {.by_start = true, .basis = UM_NOTICED};
        if (!um_gate_result(s, op->which, thread, &result.at, &result.cause))
            return false;
        if (result.at > ready->at)
            *ready = result;
    }
    if (op->kind == UM_OP_MPI)
        return um_mpi_wait(s, thread, (uint32_t)s->threads[thread].next, op, from, ready);
    return true;
}

/* The time that an operation takes of the CPU. */
static double cost_of(const struct um_sim *s, const struct um_op *op)
{
    switch ((enum um_op_kind)op->kind) {
    case UM_OP_COMM:
        return s->program->comms[op->which].same_call ? 0 : s->machine->cpu_call_ns;
    case UM_OP_TCQ:
    case UM_OP_MRQ:
        return s->machine->cpu_poll_ns;
    case UM_OP_START:
        return s->machine->barrier_start_ns;
    case UM_OP_RESULT:
        return s->machine->barrier_result_ns;
    case UM_OP_MPI:
        return um_mpi_cost(s, op);
    default:
        return 0;
    }
}

static void act_on(struct um_sim *s, uint32_t thread, uint32_t number, const struct um_op *op,
                   double at)
{
    if (op->kind == UM_OP_COMM)
        um_events_add(&s->events, at, UM_EVENT_POST, op->which, 0, 0);
    else if (op->kind == UM_OP_START && !um_gate_start(s, op->which, thread, number, at))
        um_fail(UM_EXIT_BAD,
                "%s: rank %u starts a barrier on a gate for which no utofu_set_vbg() was recorded",
                s->program->processes[s->program->threads[thread].process].file,
                s->program->threads[thread].process);
}

static void run_thread(struct um_sim *s, uint32_t thread)
{
    const struct um_thread *t = &s->program->threads[thread];
    struct um_thread_state *state = &s->threads[thread];

    bool waited = state->waits;
    state->waits = false;
    for (; state->next < t->num_ops; state->next++) {
        const struct um_op *op = &t->ops[state->next];
        /* a thread that reads memory until it changes computes nothing meanwhile */
        double compute = op->seen == UM_NONE ? (double)op->compute * s->options.compute : 0;
        double from = waited ? state->from : um_noise_pass(s, thread, state->now + compute);
        waited = false;
        struct um_ready ready = {from, UM_NONE, false, UM_NOTICED, false};
        if (!wait_for_all(s, thread, op, &ready)) {
            state->waits = true;
            state->from = from;
            return;
        }
        if (ready.at > from)
            ready.at = um_noise_pass(s, thread, ready.at);
        double cost = cost_of(s, op);
        state->ops[state->next] =
            (struct um_op_state){ready.at,       ready.at + cost, ready.at - from, ready.cause,
                                 ready.by_start, ready.basis,     ready.by_mpi};
        state->compute += compute;
        state->wait += ready.at - from;
        state->call += cost;
        state->now = ready.at + cost;
        act_on(s, thread, (uint32_t)state->next, op, state->now);
    }
    if (state->now > s->end)
        s->end = state->now;
}

static void wake_thread(struct um_sim *s, uint32_t thread, double at)
{
    um_events_add(&s->events, at, UM_EVENT_RUN, thread, 0, 0);
}

/* The program has not ended, and nothing will happen any more. */
static void __attribute__((noreturn)) report_stuck(const struct um_sim *s, uint32_t thread)
{
    static const char *const kinds[] = {"a call after a put that does not land",
                                        "a TCQ entry",
                                        "an MRQ notice",
                                        "a VCQ",
                                        "a barrier",
                                        "the result of a barrier"};
    const struct um_thread *t = &s->program->threads[thread];
    size_t next = s->threads[thread].next;
    unsigned int kind = t->ops[next].kind;
    const char *what = kind == UM_OP_MPI ? um_mpi_name(&s->program->mpi->calls[t->ops[next].which])
                                         : kinds[kind < 6 ? kind : 0];

    um_fail(
        UM_EXIT_BAD,
        "%s: rank %u waits for ever in its call %zu of %zu, for %s: the recordings do not belong "
        "together, or the program has ended before its communications",
        s->program->processes[t->process].file, t->process, next + 1, t->num_ops, what);
}

void um_replay(struct um_sim *s)
{
    const struct um_program *p = s->program;
    struct um_event e;

    s->wake = wake_thread;
    um_comms_open(s);
    um_gates_open(s);
    um_noise_open(s);
    um_mpi_open(s);
    s->threads = um_calloc(p->num_threads, sizeof(*s->threads));
    for (uint32_t i = 0; i < p->num_threads; i++) {
        s->threads[i].ops = um_calloc(p->threads[i].num_ops, sizeof(*s->threads[i].ops));
        s->threads[i].now = um_noise_start(s, i);
        um_events_add(&s->events, s->threads[i].now, UM_EVENT_RUN, i, 0, 0);
    }
    while (um_events_next(&s->events, &e)) {
        if (e.kind < UM_EVENT_OTHERS)
            um_network_event(&s->network, &e);
        else if (e.kind == UM_EVENT_RUN)
            run_thread(s, e.a);
        else if (e.kind == UM_EVENT_GATE || e.kind == UM_EVENT_START)
            um_gates_event(s, &e);
        else if (e.kind == UM_EVENT_MPI)
            um_mpi_event(s, &e);
        else
            um_comms_event(s, &e);
    }
    for (uint32_t i = 0; i < p->num_threads; i++) {
        if (s->threads[i].next < p->threads[i].num_ops && !p->partial)
            report_stuck(s, i);
    }
}

void um_replay_close(struct um_sim *s)
{
    for (size_t i = 0; i < s->program->num_threads; i++)
        free(s->threads[i].ops);
    free(s->threads);
    um_noise_close(s);
    um_gates_close(s);
    um_mpi_close(s);
    um_comms_close(s);
    um_events_free(&s->events);
}
