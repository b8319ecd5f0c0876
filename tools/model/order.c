/* SPDX-License-Identifier: Apache-2.0 */
#include "model/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"

enum { LEAST_TARGETS = 3, MOST_TARGETS = 4096 };

const char *const um_order_names[UM_ORDERS] = {"own", "rotate", "xor", "near", "far"};

enum um_order um_order_find(const char *name)
{
    enum um_order order = UM_ORDER_OWN;

    while (order < UM_ORDERS && strcmp(name, um_order_names[order]) != 0)
        order++;
    return order;
}

/* A put, with the poll of its TCQ entry if that follows at once. */
struct unit {
    size_t at, num; /* operations */
    uint64_t key;
};

static uint32_t target_of(const struct um_program *p, const struct um_op *op)
{
    return p->vcqs[p->comms[op->which].remote].process;
}

/* The operations of the put that begins there; 0: none. */
static size_t size_of_put(const struct um_program *p, const struct um_thread *t, size_t at)
{
    const struct um_op *op = &t->ops[at], *next = op + 1;

    if (at >= t->num_ops || op->kind != UM_OP_COMM || p->comms[op->which].kind != UM_PUT ||
        p->comms[op->which].same_call)
        return 0;
    return at + 1 < t->num_ops && next->kind == UM_OP_TCQ && next->has_notice &&
                   next->which == op->which && next->seen == UM_NONE
               ? 2
               : 1;
}

/* Puts to different processes from a place on. `targets`: of each rank, whether it is one; all
 * false. */
static size_t collect_units(const struct um_program *p, const struct um_thread *t, size_t at,
                            struct unit *units, bool *targets)
{
    size_t num = 0, size;

    while (num < MOST_TARGETS && (size = size_of_put(p, t, at)) > 0) {
        uint32_t target = target_of(p, &t->ops[at]);
        if (targets[target] || (num && t->ops[at].seen != UM_NONE) || (num && units->num != size))
            break;
        targets[target] = true;
        units[num] = (struct unit){.at = at, .num = size};
        num++;
        at += size;
    }
    for (size_t i = 0; i < num; i++)
        targets[target_of(p, &t->ops[units[i].at])] = false;
    return num;
}

static uint64_t key_of(const struct um_program *p, const struct um_place *place, uint32_t own,
                       uint32_t target, enum um_order order)
{
    static const uint8_t path[3] = {UM_DEFAULT_PATH, UM_DEFAULT_PATH, UM_DEFAULT_PATH};
    uint64_t rotated = (target + p->size - own) % p->size;
    uint32_t links[UM_MOST_HOPS];

    if (order == UM_ORDER_ROTATE)
        return rotated;
    if (order == UM_ORDER_XOR)
        return target ^ own;
    uint64_t hops =
        um_route(place, place->node_of_process[own], place->node_of_process[target], path, links);
    return (order == UM_ORDER_NEAR ? hops : UM_MOST_HOPS - hops) << 32 | rotated;
}

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Puts the operations of sorted units at their new places. */
static void move_units(struct um_program *p, struct um_thread *t, const struct unit *units,
                       size_t num, size_t from)
{
    struct um_op *moved = um_calloc(2 * num, sizeof(*moved));
    size_t n = 0;
    uint32_t seen = t->ops[from].seen;

    for (size_t i = 0; i < num; i++)
        for (size_t k = 0; k < units[i].num; k++)
            moved[n++] = t->ops[units[i].at + k];
    for (size_t i = 0; i < n; i++) {
        moved[i].seen = i ? UM_NONE : seen;
        if (moved[i].kind == UM_OP_COMM)
            p->comms[moved[i].which].op = (uint32_t)(from + i);
        t->ops[from + i] = moved[i];
    }
    free(moved);
}

static void order_thread(struct um_program *p, struct um_thread *t, const struct um_place *place,
                         enum um_order order, struct unit *units, bool *targets)
{
    size_t num;

    for (size_t at = 0; at < t->num_ops; at += num ? num * units->num : 1) {
        num = collect_units(p, t, at, units, targets);
        if (num < LEAST_TARGETS)
            continue;
        for (size_t i = 0; i < num; i++)
            units[i].key = key_of(p, place, t->process, target_of(p, &t->ops[units[i].at]), order);
        qsort(units, num, sizeof(*units), compare_units);
        move_units(p, t, units, num, at);
    }
}

struct um_program um_order_apply(const struct um_program *program, const struct um_place *place,
                                 enum um_order order)
{
    struct um_program p = *program;
    struct unit *units = um_calloc(MOST_TARGETS, sizeof(*units));
    bool *targets = um_calloc(p.size, sizeof(*targets));

    p.threads = um_calloc(p.num_threads, sizeof(*p.threads));
    p.comms = um_calloc(p.num_comms, sizeof(*p.comms));
    memcpy(p.comms, program->comms, p.num_comms * sizeof(*p.comms));
    for (size_t i = 0; i < p.num_threads; i++) {
        p.threads[i] = program->threads[i];
        p.threads[i].ops = um_calloc(p.threads[i].num_ops, sizeof(*p.threads[i].ops));
        memcpy(p.threads[i].ops, program->threads[i].ops,
               p.threads[i].num_ops * sizeof(*p.threads[i].ops));
        if (order != UM_ORDER_OWN)
            order_thread(&p, &p.threads[i], place, order, units, targets);
    }
    free(units);
    free(targets);
    return p;
}

void um_order_free(struct um_program *p)
{
    for (size_t i = 0; i < p->num_threads; i++)
        free(p->threads[i].ops);
    free(p->threads);
    free(p->comms);
}

void um_order_targets(const struct um_program *p, uint32_t rank, char *text, size_t size)
{
    struct unit *units = um_calloc(MOST_TARGETS, sizeof(*units));
    bool *targets = um_calloc(p->size, sizeof(*targets));
    size_t num = 0, length = 0;

    *text = '\0';
    for (size_t i = 0; i < p->num_threads && num < LEAST_TARGETS; i++) {
        const struct um_thread *t = &p->threads[i];
        for (size_t at = 0; t->process == rank && at < t->num_ops && num < LEAST_TARGETS; at++) {
            num = collect_units(p, t, at, units, targets);
            for (size_t k = 0; num >= LEAST_TARGETS && k < num && length < size; k++)
                length += (size_t)snprintf(text + length, size - length, "%s%u", k ? " " : "",
                                           target_of(p, &t->ops[units[k].at]));
        }
    }
    free(units);
    free(targets);
}
