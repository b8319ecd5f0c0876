/* SPDX-License-Identifier: Apache-2.0 */
#include "model/match.h"

#include <stdlib.h>

#include "model/fail.h"
#include "model/table.h"

#include "utofu.h"

/* Lists of communications whose notices have the same key. */
struct list {
    uint32_t head, tail;
};
enum { AT_TCQ, AT_LOCAL, AT_REMOTE, LISTS };

struct matching {
    struct um_program *program;
    struct um_table keys;
    struct list *lists;
    size_t num_lists, room;
    uint64_t unmatched;
};

static int compare_calls(const void *a, const void *b)
{
    const struct um_call *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

struct um_call *um_calls_of(const struct um_program *p, uint32_t process, size_t *num)
{
    size_t n = 0, threads = 0;

    for (size_t t = 0; t < p->num_threads; t++) {
        if (p->threads[t].process != process)
            continue;
        n += p->threads[t].num_ops;
        threads++;
    }
    struct um_call *calls = um_calloc(n, sizeof(*calls));
    n = 0;
    for (size_t t = 0; t < p->num_threads; t++) {
        const struct um_thread *thread = &p->threads[t];
        for (size_t i = 0; thread->process == process && i < thread->num_ops; i++)
            calls[n++] = (struct um_call){thread->ops[i].begin, (uint32_t)t, (uint32_t)i};
    }
    if (threads > 1)
        qsort(calls, n, sizeof(*calls), compare_calls);
    *num = n;
    return calls;
}

static struct list *list_of(struct matching *m, uint64_t a, uint64_t b)
{
    uint32_t *index = um_table_at(&m->keys, a, b, (uint32_t)m->num_lists);

    if (*index == m->num_lists) {
        m->lists = um_grow(m->lists, m->num_lists, &m->room, sizeof(*m->lists));
        m->lists[m->num_lists++] = (struct list){UM_NONE, UM_NONE};
    }
    return &m->lists[*index];
}

static struct list *notices_of(struct matching *m, uint32_t vcq, unsigned int type, uint32_t from,
                               uint8_t edata)
{
    return list_of(m, (uint64_t)vcq << 32 | from, 1 + ((uint64_t)type << 8 | edata));
}

static struct list *tcq_of(struct matching *m, uint32_t vcq)
{
    return list_of(m, vcq, 0);
}

static void append_comm(struct matching *m, struct list *list, uint32_t comm, int which)
{
    struct um_comm *comms = m->program->comms;

    if (list->head == UM_NONE)
        list->head = comm;
    else
        comms[list->tail].next[which] = comm;
    list->tail = comm;
}

static uint32_t take_first(struct matching *m, struct list *list, int which)
{
    uint32_t comm = list->head;

    if (comm != UM_NONE)
        list->head = m->program->comms[comm].next[which];
    return comm;
}

static void enter_comm(struct matching *m, uint32_t index)
{
    static const uint8_t local[] = {[UM_PUT] = UTOFU_MRQ_TYPE_LCL_PUT,
                                    [UM_GET] = UTOFU_MRQ_TYPE_LCL_GET,
                                    [UM_ARMW] = UTOFU_MRQ_TYPE_LCL_ARMW};
    static const uint8_t remote[] = {[UM_PUT] = UTOFU_MRQ_TYPE_RMT_PUT,
                                     [UM_GET] = UTOFU_MRQ_TYPE_RMT_GET,
                                     [UM_ARMW] = UTOFU_MRQ_TYPE_RMT_ARMW};
    const struct um_comm *c = &m->program->comms[index];

    if (c->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        append_comm(m, tcq_of(m, c->vcq), index, AT_TCQ);
    if (c->kind == UM_NOP)
        return;
    if (c->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        append_comm(m, notices_of(m, c->vcq, local[c->kind], c->remote, c->edata), index, AT_LOCAL);
    if (c->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
        append_comm(m, notices_of(m, c->remote, remote[c->kind], c->vcq, c->edata), index,
                    AT_REMOTE);
}

static bool is_local(unsigned int type)
{
    return type == UTOFU_MRQ_TYPE_LCL_PUT || type == UTOFU_MRQ_TYPE_LCL_GET ||
           type == UTOFU_MRQ_TYPE_LCL_ARMW;
}

static void match_poll(struct matching *m, struct um_op *op)
{
    uint32_t comm;

    if (op->kind == UM_OP_TCQ)
        comm = take_first(m, tcq_of(m, op->vcq), AT_TCQ);
    else
        comm = take_first(m, notices_of(m, op->vcq, op->notice, op->far, op->edata),
                          is_local(op->notice) ? AT_LOCAL : AT_REMOTE);
    op->which = comm;
    op->has_notice = comm != UM_NONE;
    m->unmatched += comm == UM_NONE;
}

/* Communications in the order of their calls: TCQ entries come in the order of the TOQ, and a VCQ
 * that is made after another one was freed may have its id. */
static void enter_process(struct matching *m, uint32_t process)
{
    size_t num;
    struct um_call *calls = um_calls_of(m->program, process, &num);

    for (size_t i = 0; i < num; i++) {
        struct um_op *op = &m->program->threads[calls[i].thread].ops[calls[i].op];
        if (op->kind == UM_OP_COMM)
            enter_comm(m, op->which);
        else if (op->kind == UM_OP_TCQ)
            match_poll(m, op);
        else if (op->kind == UM_OP_FREE) /* entries that were not polled are gone */
            *tcq_of(m, op->vcq) = (struct list){UM_NONE, UM_NONE};
    }
    free(calls);
}

static void match_process(struct matching *m, uint32_t process)
{
    size_t num;
    struct um_call *calls = um_calls_of(m->program, process, &num);

    for (size_t i = 0; i < num; i++) {
        struct um_op *op = &m->program->threads[calls[i].thread].ops[calls[i].op];
        if (op->kind == UM_OP_MRQ)
            match_poll(m, op);
    }
    free(calls);
}

void um_match(struct um_program *program)
{
    struct matching m = {.program = program};

    for (uint32_t i = 0; i < program->size; i++)
        enter_process(&m, i);
    for (uint32_t i = 0; i < program->size; i++)
        match_process(&m, i);
    if (m.unmatched)
        um_warn(
            "%llu entries that polls have returned belong to no recorded communication: nothing "
            "waits for them here",
            (unsigned long long)m.unmatched);
    um_table_free(&m.keys);
    free(m.lists);
    um_match_seen(program);
}
