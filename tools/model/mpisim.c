/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of MPI. A short one is sent at once (eager), and waits at the target until it is
 * received. A long one is announced; when it is to be received, the target asks for the data
 * (rendezvous). Both go over the network as other communications do, between processes of a node
 * through memory.
 */
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "record/format.h"

enum { HEADER = 32 /* bytes of a message besides its data */ };

/* What an event lets begin. */
enum begin { BEGIN_SEND, BEGIN_PULL };

struct message_state {
    double posted, asked, arrived, acked; /* below 0: not yet. posted: by the receiver */
    uint32_t send_waiter, recv_waiter, probe_waiter;
    bool pulled;
};

struct um_mpi_sim {
    struct message_state *messages;
    struct um_mpi_run *runs; /* of each instance */
    uint32_t **waiters;      /* of each instance, by rank */
    uint32_t *begun;         /* of each thread: the call that has begun, and waits */
};

static const uint8_t default_path[3] = {UM_DEFAULT_PATH, UM_DEFAULT_PATH, UM_DEFAULT_PATH};

size_t um_mpi_queues(const struct um_program *p, const struct um_machine *m)
{
    return p->mpi ? p->size * (size_t)m->tni_number : 0;
}

static struct um_mpi_run new_run(uint32_t size)
{
    struct um_mpi_run run = {.entered = um_calloc(size, sizeof(double)),
                             .ends = um_calloc(size, sizeof(double)),
                             .arrived = um_calloc(size, sizeof(double)),
                             .cause = um_calloc(size, sizeof(uint32_t))};

    for (uint32_t i = 0; i < size; i++)
        run.entered[i] = run.ends[i] = -1;
    return run;
}

void um_mpi_open(struct um_sim *s)
{
    const struct um_mpi *m = s->program->mpi;

    if (!m)
        return;
    if (!s->machine->has_mpi)
        um_fail(
            UM_EXIT_BAD,
            "the recording has calls of MPI, and machine %s has no costs of MPI: its file needs "
            "the table [mpi]",
            s->machine->name);
    s->mpi = um_calloc(1, sizeof(*s->mpi));
    s->mpi->messages = um_calloc(m->num_messages, sizeof(*s->mpi->messages));
    for (size_t i = 0; i < m->num_messages; i++)
        s->mpi->messages[i] =
            (struct message_state){-1, -1, -1, -1, UM_NONE, UM_NONE, UM_NONE, false};
    s->mpi->runs = um_calloc(m->num_instances, sizeof(*s->mpi->runs));
    s->mpi->waiters = um_calloc(m->num_instances, sizeof(uint32_t *));
    s->mpi->begun = um_calloc(s->program->num_threads, sizeof(*s->mpi->begun));
    memset(s->mpi->begun, 0xff, s->program->num_threads * sizeof(*s->mpi->begun));
}

void um_mpi_close(struct um_sim *s)
{
    if (!s->mpi)
        return;
    for (size_t i = 0; i < s->program->mpi->num_instances; i++) {
        free(s->mpi->runs[i].entered);
        free(s->mpi->runs[i].ends);
        free(s->mpi->runs[i].arrived);
        free(s->mpi->runs[i].cause);
        free(s->mpi->waiters[i]);
    }
    free(s->mpi->messages);
    free(s->mpi->runs);
    free(s->mpi->waiters);
    free(s->mpi->begun);
    free(s->mpi);
    s->mpi = NULL;
}

/*
 * Costs
 */

static double bytes_of(const struct um_sim *s, const struct um_mpi_call *send)
{
    return send->bytes * s->options.bytes;
}

/* Does the sender wait until the message is received? A message that nobody receives goes at once.
 */
static bool is_rendezvous(const struct um_sim *s, uint32_t message)
{
    const struct um_mpi_message *m = &s->program->mpi->messages[message];
    const struct um_mpi_call *send = &s->program->mpi->calls[m->send];

    return m->recv != UM_NONE &&
           (send->synchronous || bytes_of(s, send) > s->machine->mpi_eager_bytes);
}

/* Sender and receiver copy what is short, but what fits into the header. */
static double copy_cost(const struct um_sim *s, double bytes)
{
    const struct um_machine *m = s->machine;

    return bytes <= m->mpi_short_bytes || bytes > m->mpi_eager_bytes ? 0 : bytes / m->mpi_copy_rate;
}

static double send_cost(const struct um_sim *s, const struct um_mpi_call *send)
{
    return s->machine->mpi_post_ns + copy_cost(s, bytes_of(s, send));
}

static double receive_cost(const struct um_sim *s, uint32_t message)
{
    const struct um_machine *m = s->machine;

    if (message == UM_NONE)
        return 0;
    double bytes = bytes_of(s, &s->program->mpi->calls[s->program->mpi->messages[message].send]);
    double copy = copy_cost(s, bytes);
    return m->mpi_take_ns + copy + (copy > 0 ? m->mpi_buffer_ns : 0);
}

double um_mpi_cost(const struct um_sim *s, const struct um_op *op)
{
    const struct um_mpi *m = s->program->mpi;
    const struct um_mpi_call *c = &m->calls[op->which];
    double sum = 0;

    if (c->dead)
        return 0;
    if (c->kind == UT_RECORD_MPI_SEND) /* one that waits has had its cost before */
        return c->request == -1 && is_rendezvous(s, c->item) ? 0 : send_cost(s, c);
    if (c->kind == UT_RECORD_MPI_RECV && c->request == -1)
        return receive_cost(s, c->item);
    for (uint32_t i = 0; c->kind == UT_RECORD_MPI_WAIT && i < c->num; i++)
        for (uint32_t k = m->dones[c->first + i].posted; k != UM_NONE; k = m->posted[k].next) {
            const struct um_mpi_call *posted = &m->calls[m->posted[k].call];
            if (posted->kind == UT_RECORD_MPI_RECV && !posted->dead)
                sum += receive_cost(s, posted->item);
        }
    return sum;
}

/*
 * Flights
 */

static uint32_t process_of(const struct um_sim *s, const struct um_mpi_call *c)
{
    return s->program->threads[c->thread].process;
}

static uint32_t target_of(const struct um_sim *s, const struct um_mpi_call *send)
{
    return s->program->mpi->comms[send->comm].processes[send->peer];
}

/* The processes that send and receive. */
static void ends_of(const struct um_sim *s, uint32_t message, uint32_t *from, uint32_t *to)
{
    const struct um_mpi_call *send =
        &s->program->mpi->calls[s->program->mpi->messages[message].send];

    *from = process_of(s, send);
    *to = target_of(s, send);
}

static bool is_on_one_node(const struct um_sim *s, uint32_t message)
{
    uint32_t from, to;

    ends_of(s, message, &from, &to);
    return s->place->node_of_process[from] == s->place->node_of_process[to];
}

static void send_flight(struct um_sim *s, uint32_t from, uint32_t to, uint32_t message,
                        uint32_t role, double bytes, double at)
{
    const struct um_machine *m = s->machine;
    uint32_t tnis = s->network.num_tnis;
    uint16_t tni = (uint16_t)(to % tnis);
    struct um_send send = {.from = s->place->node_of_process[from],
                           .to = s->place->node_of_process[to],
                           .from_tni = tni,
                           .to_tni = (uint16_t)(from % tnis),
                           .bytes = bytes,
                           .before = role == UM_MPI_DATA ? 0 : m->tni_send_ns,
                           .after = role == UM_MPI_PULL ? m->tni_get_ns : m->tni_receive_ns,
                           .tag = message,
                           .tag2 = role};

    memcpy(send.path, default_path, 3);
    um_network_send(&s->network,
                    (uint32_t)((s->program->num_vcqs + s->place->num_nodes + from) * tnis + tni),
                    &send, at);
}

static void wake_waiter(struct um_sim *s, uint32_t *thread, double at)
{
    if (*thread != UM_NONE)
        s->wake(s, *thread, at);
    *thread = UM_NONE;
}

static void note_end(struct um_sim *s, double at)
{
    if (at > s->end)
        s->end = at;
}

/* The data are there; ack_ns: until the sender knows. */
static void set_arrived(struct um_sim *s, uint32_t message, double at, double ack_ns)
{
    struct message_state *state = &s->mpi->messages[message];

    state->arrived = at;
    state->acked = at + ack_ns;
    note_end(s, at);
    wake_waiter(s, &state->recv_waiter, at);
    wake_waiter(s, &state->probe_waiter, at);
    wake_waiter(s, &state->send_waiter, state->acked);
}

/* Both processes are ready for the data of a long message. */
static void pull_data(struct um_sim *s, uint32_t message)
{
    struct message_state *state = &s->mpi->messages[message];

    if (state->pulled || state->asked < 0 || state->posted < 0)
        return;
    state->pulled = true;
    double since = state->asked > state->posted ? state->asked : state->posted;
    um_events_add(&s->events, since + s->machine->mpi_rendezvous_ns, UM_EVENT_MPI, message,
                  BEGIN_PULL, 0);
}

static void set_asked(struct um_sim *s, uint32_t message, double at)
{
    struct message_state *state = &s->mpi->messages[message];

    state->asked = at;
    wake_waiter(s, &state->probe_waiter, at);
    pull_data(s, message);
}

static void begin_send(struct um_sim *s, uint32_t message, double at)
{
    const struct um_machine *m = s->machine;
    double bytes = bytes_of(s, &s->program->mpi->calls[s->program->mpi->messages[message].send]);
    bool rendezvous = is_rendezvous(s, message);
    uint32_t from, to;

    ends_of(s, message, &from, &to);
    if (!is_on_one_node(s, message))
        send_flight(s, from, to, message, rendezvous ? UM_MPI_ASKED : UM_MPI_EAGER,
                    rendezvous ? HEADER : bytes + HEADER, at);
    else if (rendezvous)
        set_asked(s, message, at + m->mpi_node_ns);
    else
        set_arrived(s, message, at + m->mpi_node_ns + bytes / m->mpi_node_rate, 0);
}

static void begin_pull(struct um_sim *s, uint32_t message, double at)
{
    double bytes = bytes_of(s, &s->program->mpi->calls[s->program->mpi->messages[message].send]);
    uint32_t from, to;

    ends_of(s, message, &from, &to);
    if (is_on_one_node(s, message))
        set_arrived(s, message, at + bytes / s->machine->mpi_node_rate, s->machine->mpi_node_ns);
    else
        send_flight(s, to, from, message, UM_MPI_PULL, 0, at);
}

void um_mpi_event(struct um_sim *s, const struct um_event *e)
{
    if (e->b == BEGIN_SEND)
        begin_send(s, e->a, e->at);
    else
        begin_pull(s, e->a, e->at);
}

void um_mpi_arrived(struct um_sim *s, const struct um_send *send, double at)
{
    uint32_t from, to, links[UM_MOST_HOPS];
    double bytes = bytes_of(s, &s->program->mpi->calls[s->program->mpi->messages[send->tag].send]);

    ends_of(s, send->tag, &from, &to);
    if (send->tag2 == UM_MPI_EAGER) {
        set_arrived(s, send->tag, at, 0);
    } else if (send->tag2 == UM_MPI_ASKED) {
        set_asked(s, send->tag, at);
    } else if (send->tag2 == UM_MPI_PULL) {
        send_flight(s, from, to, send->tag, UM_MPI_DATA, bytes, at);
    } else {
        unsigned int hops = um_route(s->place, send->to, send->from, default_path, links);
        set_arrived(s, send->tag, at, s->machine->tni_ack_ns + hops * s->machine->link_hop_ns);
    }
}

/*
 * Calls
 */

static void post_receive(struct um_sim *s, uint32_t message, double at)
{
    if (message == UM_NONE)
        return;
    s->mpi->messages[message].posted = at;
    pull_data(s, message);
}

static void enter_coll(struct um_sim *s, const struct um_mpi_call *c, double at)
{
    const struct um_mpi_instance *instance = &s->program->mpi->instances[c->item];
    struct um_mpi_run *run = &s->mpi->runs[c->item];
    uint32_t size = s->program->mpi->comms[c->comm].size;

    if (!run->entered) {
        *run = new_run(size);
        s->mpi->waiters[c->item] = um_calloc(size, sizeof(uint32_t));
        memset(s->mpi->waiters[c->item], 0xff, size * sizeof(uint32_t));
    }
    um_mpi_coll_enter(s, instance, run, c->place, at);
    for (uint32_t i = 0; i < size; i++)
        if (run->ends[i] >= 0)
            wake_waiter(s, &s->mpi->waiters[c->item][i], run->ends[i]);
}

static void begin_call(struct um_sim *s, const struct um_mpi_call *c, double from)
{
    if (c->dead)
        return;
    if (c->kind == UT_RECORD_MPI_SEND)
        um_events_add(&s->events, from + send_cost(s, c), UM_EVENT_MPI, c->item, BEGIN_SEND, 0);
    else if (c->kind == UT_RECORD_MPI_RECV)
        post_receive(s, c->item, from);
    else if (c->kind == UT_RECORD_MPI_COLL)
        enter_coll(s, c, from);
}

static void note_ready(struct um_ready *ready, double at, uint32_t cause)
{
    if (at > ready->at)
        *ready = (struct um_ready){at, cause, false, UM_NOTICED, true};
}

/* Waits for the end of what a call has posted. */
static bool wait_for_call(struct um_sim *s, uint32_t thread, uint32_t index, struct um_ready *ready)
{
    const struct um_mpi *m = s->program->mpi;
    const struct um_mpi_call *c = &m->calls[index];

    if (c->dead || c->item == UM_NONE)
        return true;
    if (c->kind == UT_RECORD_MPI_COLL) {
        const struct um_mpi_run *run = &s->mpi->runs[c->item];
        if (run->ends[c->place] < 0) {
            s->mpi->waiters[c->item][c->place] = thread;
            return false;
        }
        note_ready(ready, run->ends[c->place], m->instances[c->item].calls[run->cause[c->place]]);
        return true;
    }
    struct message_state *state = &s->mpi->messages[c->item];
    if (c->kind == UT_RECORD_MPI_SEND) {
        if (!is_rendezvous(s, c->item))
            return true;
        if (state->acked < 0) {
            state->send_waiter = thread;
            return false;
        }
        note_ready(ready, state->acked, m->messages[c->item].recv);
        return true;
    }
    bool probe = c->kind == UT_RECORD_MPI_PROBE;
    double at = probe && state->asked >= 0 ? state->asked : state->arrived;
    if (at < 0) {
        *(probe ? &state->probe_waiter : &state->recv_waiter) = thread;
        return false;
    }
    note_ready(ready, at, m->messages[c->item].send);
    return true;
}

bool um_mpi_wait(struct um_sim *s, uint32_t thread, uint32_t number, const struct um_op *op,
                 double from, struct um_ready *ready)
{
    const struct um_mpi *m = s->program->mpi;
    const struct um_mpi_call *c = &m->calls[op->which];

    if (s->mpi->begun[thread] != number) {
        s->mpi->begun[thread] = number;
        begin_call(s, c, from);
    }
    if (c->kind != UT_RECORD_MPI_WAIT)
        return c->request != -1 || wait_for_call(s, thread, op->which, ready);
    for (uint32_t i = 0; i < c->num; i++)
        for (uint32_t k = m->dones[c->first + i].posted; k != UM_NONE; k = m->posted[k].next)
            if (!wait_for_call(s, thread, m->posted[k].call, ready))
                return false;
    return true;
}
