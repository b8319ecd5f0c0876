/* SPDX-License-Identifier: Apache-2.0 */
#include "model/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/table.h"

#include "utofu.h"

enum { DEPTH = 64, KEYS_SHOWN = 3, LEAST_ROWS = 1 };

const struct um_key um_keys[] = {
#define UM_KEY(table, name, least, most)                                                           \
    {(most) == UM_ANY ? #table "." #name : NULL, offsetof(struct um_machine, table##_##name),      \
     least},
    UM_PARAMETERS(UM_KEY)
#undef UM_KEY
};
const size_t um_num_keys = sizeof(um_keys) / sizeof(um_keys[0]);

double *um_key_value(struct um_machine *machine, size_t key)
{
    return (double *)(void *)((char *)machine + um_keys[key].offset);
}

double um_key_step(const struct um_machine *machine, size_t key)
{
    const double *value =
        (const double *)(const void *)((const char *)machine + um_keys[key].offset);

    return *value > 0 ? *value * 0.05 : 10;
}

/*
 * Collecting
 */

/* The times of a row, of which the medians are taken. */
struct sample {
    double measured, told;
};
struct samples {
    struct sample *list;
    size_t num, room;
};

struct collecting {
    const struct um_sim *sim;
    struct um_table keys;
    struct um_rows rows;
    struct samples *samples; /* of each row */
    size_t room_samples;
};

static void add_sample(struct collecting *c, uint32_t region, enum um_wait wait, uint32_t length,
                       double measured, double told)
{
    uint32_t *at =
        um_table_at(&c->keys, (uint64_t)region << 8 | wait, length, (uint32_t)c->rows.num);

    if (measured < 0 || told < 0)
        return;
    if (*at == c->rows.num) {
        c->rows.rows = um_grow(c->rows.rows, c->rows.num, &c->rows.room, sizeof(*c->rows.rows));
        c->samples = um_grow(c->samples, c->rows.num, &c->room_samples, sizeof(*c->samples));
        c->samples[c->rows.num] = (struct samples){NULL, 0, 0};
        c->rows.rows[c->rows.num++] =
            (struct um_row){.region = region, .length = length, .wait = wait};
    }
    struct samples *s = &c->samples[*at];
    s->list = um_grow(s->list, s->num, &s->room, sizeof(*s->list));
    s->list[s->num++] = (struct sample){measured, told};
}

/* The state of a thread while its calls are gone through. */
struct walk {
    size_t thread, last_start, last_barrier; /* SIZE_MAX: none */
    struct {
        uint32_t region;
        size_t op;
    } open[DEPTH];
    unsigned int depth;
};

static double measured_from(const struct um_thread *t, size_t from, size_t to)
{
    return (double)(int64_t)(t->ops[to].begin - t->ops[from].begin);
}

/* From the beginning of a call to the end of a later one. */
static double told_from(const struct collecting *c, size_t thread, size_t from, size_t to)
{
    const struct um_op_state *ops = c->sim->threads[thread].ops;

    return ops[to].end - ops[from].begin;
}

static void walk_region(struct collecting *c, struct walk *w, size_t i)
{
    const struct um_thread *t = &c->sim->program->threads[w->thread];
    const struct um_op_state *ops = c->sim->threads[w->thread].ops;

    if (t->ops[i].kind == UM_OP_ENTER && w->depth < DEPTH) {
        w->open[w->depth].region = t->ops[i].which;
        w->open[w->depth++].op = i;
    }
    for (unsigned int k = w->depth; t->ops[i].kind == UM_OP_LEAVE && k-- > 0;) {
        if (w->open[k].region != t->ops[i].which)
            continue;
        add_sample(c, t->ops[i].which, UM_WAIT_REGION, 0, measured_from(t, w->open[k].op, i),
                   ops[i].end - ops[w->open[k].op].end);
        memmove(&w->open[k], &w->open[k + 1], (--w->depth - k) * sizeof(w->open[0]));
        break;
    }
}

static enum um_wait wait_of_notice(const struct um_op *op)
{
    if (op->kind == UM_OP_TCQ)
        return UM_WAIT_TCQ;
    return op->notice == UTOFU_MRQ_TYPE_LCL_PUT    ? UM_WAIT_PUT
           : op->notice == UTOFU_MRQ_TYPE_LCL_GET  ? UM_WAIT_GET
           : op->notice == UTOFU_MRQ_TYPE_LCL_ARMW ? UM_WAIT_ARMW
                                                   : UM_WAIT_ANSWER;
}

/* A poll that has found something, or a call that waits for memory. */
static void walk_wait(struct collecting *c, const struct walk *w, size_t i, uint32_t region)
{
    const struct um_program *p = c->sim->program;
    const struct um_thread *t = &p->threads[w->thread];
    const struct um_op *op = &t->ops[i];

    if (op->has_notice) {
        const struct um_comm *comm = &p->comms[op->which];
        enum um_wait wait = wait_of_notice(op);
        size_t from = wait == UM_WAIT_ANSWER ? w->last_start : comm->op;
        if (from == SIZE_MAX || (wait != UM_WAIT_ANSWER && comm->thread != w->thread))
            return;
        add_sample(c, region, wait, comm->length, measured_from(t, from, i),
                   told_from(c, w->thread, from, i));
    } else if (op->seen != UM_NONE && w->last_start != SIZE_MAX) {
        add_sample(c, region, UM_WAIT_MEMORY, p->comms[p->seen[op->seen].comm].length,
                   measured_from(t, w->last_start, i), told_from(c, w->thread, w->last_start, i));
    } else if (op->kind == UM_OP_RESULT && w->last_barrier != SIZE_MAX) {
        add_sample(c, region, UM_WAIT_BARRIER, 0, measured_from(t, w->last_barrier, i),
                   told_from(c, w->thread, w->last_barrier, i));
    }
}

static void walk_thread(struct collecting *c, size_t thread)
{
    const struct um_program *p = c->sim->program;
    const struct um_thread *t = &p->threads[thread];
    struct walk w = {.thread = thread, .last_start = SIZE_MAX, .last_barrier = SIZE_MAX};

    for (size_t i = 0; i < t->num_ops && i < c->sim->threads[thread].next; i++) {
        const struct um_op *op = &t->ops[i];
        uint32_t region = w.depth ? w.open[w.depth - 1].region : UM_NONE;
        walk_wait(c, &w, i, region);
        walk_region(c, &w, i);
        if (op->kind == UM_OP_COMM && !p->comms[op->which].same_call) {
            if (w.last_start != SIZE_MAX && w.last_start + 1 == i)
                add_sample(c, region, UM_WAIT_START, p->comms[op->which].length,
                           measured_from(t, i - 1, i),
                           c->sim->threads[thread].ops[i].begin -
                               c->sim->threads[thread].ops[i - 1].begin);
            w.last_start = i;
        }
        if (op->kind == UM_OP_START)
            w.last_barrier = i;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median_of(const struct samples *s, size_t offset, double *room)
{
    for (size_t i = 0; i < s->num; i++)
        room[i] = *(const double *)(const void *)((const char *)&s->list[i] + offset);
    qsort(room, s->num, sizeof(*room), compare_doubles);
    return s->num % 2 ? room[s->num / 2] : (room[s->num / 2 - 1] + room[s->num / 2]) / 2;
}

struct um_rows um_compare_rows(const struct um_sim *sim)
{
    struct collecting c = {.sim = sim};

    for (size_t t = 0; t < sim->program->num_threads; t++)
        walk_thread(&c, t);
    for (size_t i = 0; i < c.rows.num; i++) {
        struct samples *s = &c.samples[i];
        double *room = um_calloc(s->num, sizeof(*room));
        c.rows.rows[i].count = s->num;
        c.rows.rows[i].measured = median_of(s, offsetof(struct sample, measured), room);
        c.rows.rows[i].told = median_of(s, offsetof(struct sample, told), room);
        free(room);
        free(s->list);
    }
    free(c.samples);
    um_table_free(&c.keys);
    return c.rows;
}

struct um_rows um_compare_with(const struct um_sim *sim, const struct um_machine *machine)
{
    struct um_sim other = {
        .program = sim->program, .machine = machine, .place = sim->place, .options = sim->options};

    um_replay(&other);
    struct um_rows rows = um_compare_rows(&other);
    um_replay_close(&other);
    return rows;
}

void um_rows_free(struct um_rows *rows)
{
    free(rows->rows);
    *rows = (struct um_rows){NULL, 0, 0};
}

double um_compare_error(const struct um_rows *rows)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < rows->num; i++) {
        const struct um_row *r = &rows->rows[i];
        if (r->measured <= 0 || r->told <= 0)
            continue;
        sum += fabs(log(r->told / r->measured));
        n++;
    }
    return n ? exp(sum / (double)n) - 1 : 0;
}

/*
 * Printing
 */

static const char *const waits[] = {[UM_WAIT_REGION] = "region",
                                    [UM_WAIT_START] = "start to next start",
                                    [UM_WAIT_TCQ] = "start to TCQ entry",
                                    [UM_WAIT_PUT] = "put to local notice",
                                    [UM_WAIT_GET] = "get to local notice",
                                    [UM_WAIT_ARMW] = "armw to local notice",
                                    [UM_WAIT_ANSWER] = "start to remote notice",
                                    [UM_WAIT_MEMORY] = "start to memory seen",
                                    [UM_WAIT_BARRIER] = "barrier to result"};

static double difference_of(const struct um_row *r)
{
    return r->measured > 0 && r->told > 0 ? log(r->told / r->measured) : 0;
}

static const struct um_rows *sorted;

static int compare_differences(const void *a, const void *b)
{
    double x = fabs(difference_of(&sorted->rows[*(const size_t *)a]));
    double y = fabs(difference_of(&sorted->rows[*(const size_t *)b]));

    return (x < y) - (x > y);
}

/* The key, of those that are left, whose relative change moves the told time most; SIZE_MAX: none
 * does. *slope: ns of time for a unit of the key. */
static size_t strongest_key(const struct um_sim *sim, const struct um_rows *base,
                            const struct um_rows *changed, size_t row, const bool *used,
                            double *slope)
{
    struct um_machine machine = *sim->machine;
    size_t best = SIZE_MAX;
    double most = 0.01;

    for (size_t k = 0; k < um_num_keys; k++) {
        if (!um_keys[k].name || used[k] || changed[k].num != base->num)
            continue;
        double step = um_key_step(&machine, k);
        double by = (changed[k].rows[row].told - base->rows[row].told) / step;
        double value = *um_key_value(&machine, k);
        double moves = fabs(by * (value > 0 ? value : step)) / base->rows[row].told;
        if (moves > most) {
            most = moves;
            best = k;
            *slope = by;
        }
    }
    return best;
}

static void print_keys(const struct um_sim *sim, const struct um_rows *base,
                       const struct um_rows *changed, size_t row)
{
    struct um_machine machine = *sim->machine;
    const struct um_row *r = &base->rows[row];
    bool used[sizeof(um_keys) / sizeof(um_keys[0])] = {false};

    for (int shown = 0; shown < KEYS_SHOWN; shown++) {
        double slope;
        size_t k = strongest_key(sim, base, changed, row, used, &slope);
        if (k == SIZE_MAX)
            break;
        used[k] = true;
        double wanted = *um_key_value(&machine, k) + (r->measured - r->told) / slope;
        if (wanted < um_keys[k].least)
            printf("%s%s", shown ? ", " : "  ", um_keys[k].name);
        else
            printf("%s%s = %.4g", shown ? ", " : "  ", um_keys[k].name, wanted);
    }
    putchar('\n');
}

void um_compare_print(const struct um_sim *sim)
{
    struct um_rows base = um_compare_rows(sim);
    struct um_rows *changed = um_calloc(um_num_keys, sizeof(*changed));
    size_t *order = um_calloc(base.num, sizeof(*order));

    for (size_t k = 0; k < um_num_keys; k++) {
        struct um_machine machine = *sim->machine;
        if (!um_keys[k].name)
            continue;
        *um_key_value(&machine, k) += um_key_step(&machine, k);
        changed[k] = um_compare_with(sim, &machine);
    }
    for (size_t i = 0; i < base.num; i++)
        order[i] = i;
    sorted = &base;
    qsort(order, base.num, sizeof(*order), compare_differences);
    printf("medians; mean difference %.1f %%\n\n", 100 * um_compare_error(&base));
    printf("%12s %12s %9s %9s  %-22s %9s  %-16s  %s\n", "measured us", "told us", "told/meas.",
           "calls", "kind", "bytes", "region", "keys that move it, and the value that alone would");
    for (size_t i = 0; i < base.num; i++) {
        const struct um_row *r = &base.rows[order[i]];
        printf("%12.3f %12.3f %9.3f %9zu  %-22s %9u  %-16s", r->measured * 1e-3, r->told * 1e-3,
               r->measured > 0 ? r->told / r->measured : 0, r->count, waits[r->wait], r->length,
               r->region == UM_NONE ? "-" : sim->program->regions[r->region]);
        print_keys(sim, &base, changed, order[i]);
    }
    for (size_t k = 0; k < um_num_keys; k++)
        um_rows_free(&changed[k]);
    um_rows_free(&base);
    free(changed);
    free(order);
}
