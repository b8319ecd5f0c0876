/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In session mode a put does not land before the TNI has started it: the n-th of a VCQ at the n-th
 * time. The library's own recordings have these times. Those of utofu-observe lack them: there, the
 * n-th starts when the puts with an SPS that allow it were called, with the communications that
 * follow without another call between, or when it is called.
 */
#include "model/starts.h"

#include <stdlib.h>
#include <string.h>

#include "model/events.h"
#include "model/fail.h"
#include "model/program.h"
#include "model/table.h"

/* All communications on session-mode VCQs, in order of VCQ and call. */
struct begun {
    uint32_t vcq, comm;
    uint64_t at;
};

static int compare_begun(const void *a, const void *b)
{
    const struct begun *x = a, *y = b;

    if (x->vcq != y->vcq)
        return x->vcq < y->vcq ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->comm < y->comm ? -1 : x->comm > y->comm;
}

static int compare_started(const void *a, const void *b)
{
    const struct um_started *x = a, *y = b;

    if (x->vcq != y->vcq)
        return x->vcq < y->vcq ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The times that were recorded. */
static void take_recorded(const struct um_program *p, const struct begun *begun, size_t num,
                          uint64_t *starts)
{
    struct um_started *started = um_calloc(p->num_started, sizeof(*started));
    size_t k = 0;

    memcpy(started, p->started, p->num_started * sizeof(*started));
    qsort(started, p->num_started, sizeof(*started), compare_started);
    for (size_t i = 0; i < num; i++) {
        while (k < p->num_started && started[k].vcq < begun[i].vcq)
            k++;
        if (k < p->num_started && started[k].vcq == begun[i].vcq)
            starts[begun[i].comm] = started[k++].at;
    }
    free(started);
}

/*
 * From calls
 */

enum { ALLOW, POST };

struct deriving {
    const struct um_program *p;
    uint64_t *starts;
    int64_t *offsets; /* of each process: its clock to that of all */
    struct queue {
        uint64_t posted, allowed, begun;
        size_t first; /* in the list of communications */
    } * queues;       /* of each VCQ */
    const struct begun *begun;
    struct um_events events;
};

/* Processes of one host have one clock, but each has measured it. */
static void find_offsets(struct deriving *d)
{
    struct um_table hosts = {.entries = NULL};
    int64_t base = 0;

    d->offsets = um_calloc(d->p->size, sizeof(*d->offsets));
    for (uint32_t i = 0; i < d->p->size; i++) {
        const struct um_process *one = &d->p->processes[i];
        if (!one->present)
            continue;
        const struct um_process *first = &d->p->processes[*um_table_at(&hosts, one->host, 0, i)];
        base = base ? base : first->to_realtime;
        d->offsets[i] = first->to_realtime - base;
    }
    um_table_free(&hosts);
}

/* `at`: of the clock of the process. */
static void add_event(struct deriving *d, uint32_t kind, uint32_t comm, uint64_t at)
{
    const struct um_comm *c = &d->p->comms[comm];

    um_events_add(&d->events, (double)((int64_t)at + d->offsets[c->process]), kind, comm, 0, 0);
}

static bool allows_others(const struct um_program *p, const struct um_comm *c)
{
    return c->remote != UM_NONE && c->sps && p->vcqs[c->remote].session;
}

static void start_allowed(struct deriving *d, uint32_t vcq, double at)
{
    struct queue *q = &d->queues[vcq];

    for (; q->begun < q->posted && q->begun < q->allowed; q->begun++) {
        uint32_t comm = d->begun[q->first + q->begun].comm;
        const struct um_comm *c = &d->p->comms[comm];
        uint64_t own = (uint64_t)((int64_t)at - d->offsets[c->process]);
        d->starts[comm] = own > c->begin ? own : c->begin;
        if (allows_others(d->p, c))
            add_event(d, ALLOW, comm, d->starts[comm]);
    }
}

/* When a row of communications of a thread, without another call between them, had been called: a
 * thread does not wait for what the first of them leads to before it has called the last. */
static uint64_t *find_row_ends(const struct um_program *p)
{
    uint64_t *ends = um_calloc(p->num_comms, sizeof(*ends));

    for (size_t i = 0; i < p->num_comms; i++)
        ends[i] = p->comms[i].begin;
    for (size_t i = 0; i < p->num_threads; i++) {
        const struct um_thread *t = &p->threads[i];
        uint64_t end = 0;
        for (size_t k = t->num_ops; k-- > 0;) {
            if (t->ops[k].kind != UM_OP_COMM)
                end = 0;
            else if (end)
                ends[t->ops[k].which] = end;
            else
                end = ends[t->ops[k].which];
        }
    }
    return ends;
}

static void derive_starts(const struct um_program *p, const struct begun *begun, size_t num,
                          uint64_t *starts)
{
    struct deriving d = {.p = p, .starts = starts, .begun = begun};
    uint64_t *ends = find_row_ends(p);
    struct um_event e;

    find_offsets(&d);
    d.queues = um_calloc(p->num_vcqs, sizeof(*d.queues));
    for (size_t i = num; i-- > 0;)
        d.queues[begun[i].vcq].first = i;
    for (size_t i = 0; i < num; i++)
        add_event(&d, POST, begun[i].comm, begun[i].at);
    for (size_t i = 0; i < p->num_comms; i++)
        if (starts[i] != UINT64_MAX && allows_others(p, &p->comms[i]))
            add_event(&d, ALLOW, (uint32_t)i, ends[i]);
    while (um_events_next(&d.events, &e)) {
        const struct um_comm *c = &p->comms[e.a];
        uint32_t vcq = e.kind == POST ? c->vcq : c->remote;
        if (e.kind == POST)
            d.queues[vcq].posted++;
        else
            d.queues[vcq].allowed += c->sps;
        start_allowed(&d, vcq, e.at);
    }
    um_events_free(&d.events);
    free(ends);
    free(d.queues);
    free(d.offsets);
}

uint64_t *um_starts_find(const struct um_program *p)
{
    uint64_t *starts = um_calloc(p->num_comms, sizeof(*starts));
    struct begun *begun = NULL;
    size_t num = 0, room = 0;

    for (size_t i = 0; i < p->num_comms; i++) {
        starts[i] = p->comms[i].begin;
        if (!p->vcqs[p->comms[i].vcq].session)
            continue;
        starts[i] = UINT64_MAX;
        begun = um_grow(begun, num, &room, sizeof(*begun));
        begun[num++] = (struct begun){p->comms[i].vcq, (uint32_t)i, p->comms[i].begin};
    }
    if (num)
        qsort(begun, num, sizeof(*begun), compare_begun);
    if (p->num_started)
        take_recorded(p, begun, num, starts);
    else if (num)
        derive_starts(p, begun, num, starts);
    free(begun);
    return starts;
}
