/* SPDX-License-Identifier: Apache-2.0 */
#include "circuits.h"

#include <math.h>
#include <string.h>

#include "exact.h"

void ut_circuit_alloc(struct ut_circuit *c, enum circuit_shape shape, utofu_tni_id_t tni,
                      unsigned long int flags)
{
    utofu_vbg_id_t ids[CIRCUIT_MAX_GATES] = {0};

    c->shape = shape;
    c->count = circuit_gates(shape, ut_size, ut_rank);
    CHECK_OK(utofu_alloc_vbg(tni, c->count, flags, ids));
    ut_allgather(ids, c->ids, sizeof(ids));
    c->mine = &c->ids[ut_rank * CIRCUIT_MAX_GATES];
    circuit_wire(shape, ut_size, ut_rank, c->ids, c->settings);
}

void ut_circuit_set(struct ut_circuit *c)
{
    CHECK_OK(utofu_set_vbg(c->settings, c->count));
}

void ut_circuit_open(struct ut_circuit *c, enum circuit_shape shape, utofu_tni_id_t tni,
                     unsigned long int flags)
{
    ut_circuit_alloc(c, shape, tni, flags);
    ut_circuit_set(c);
    ut_barrier();
}

void ut_circuit_close(struct ut_circuit *c)
{
    ut_barrier();
    CHECK_OK(utofu_free_vbg(c->mine, c->count));
}

static bool is_double(int op)
{
    return op == UTOFU_REDUCE_OP_BFPSUM;
}

int ut_contribution_start(utofu_vbg_id_t id, struct ut_contribution *c)
{
    if (c->op == UTOFU_REDUCE_OP_BARRIER)
        return utofu_barrier(id, 0);
    if (is_double(c->op))
        return utofu_reduce_double(id, (enum utofu_reduce_op)c->op, c->f, c->count, 0);
    return utofu_reduce_uint64(id, (enum utofu_reduce_op)c->op, c->u, c->count, 0);
}

int ut_contribution_poll(utofu_vbg_id_t id, struct ut_contribution *c)
{
    if (c->op == UTOFU_REDUCE_OP_BARRIER)
        return utofu_poll_barrier(id, 0);
    if (is_double(c->op))
        return utofu_poll_reduce_double(id, 0, c->f);
    return utofu_poll_reduce_uint64(id, 0, c->u);
}

int ut_contribution_await(utofu_vbg_id_t id, struct ut_contribution *c)
{
    int rc;

    for (unsigned int polls = 1; (rc = ut_contribution_poll(id, c)) == UTOFU_ERR_NOT_COMPLETED;
         polls++) {
        if (polls % 256 == 0)
            ut_relax();
    }
    return rc;
}

int ut_barrier_await(utofu_vbg_id_t id)
{
    struct ut_contribution c = {.op = UTOFU_REDUCE_OP_BARRIER};

    return ut_contribution_await(id, &c);
}

void ut_contribution_shape(struct ut_contribution *c, struct ut_rng *rng)
{
    c->op = UTOFU_REDUCE_OP_BARRIER + (int)ut_rng_below(rng, 8);
    c->count = c->op == UTOFU_REDUCE_OP_BARRIER  ? 0
               : c->op == UTOFU_REDUCE_OP_MAXLOC ? 2 + 2 * ut_rng_below(rng, 3)
               : is_double(c->op)                ? 1 + ut_rng_below(rng, 3)
                                                 : 1 + ut_rng_below(rng, 6);
}

static double random_double(struct ut_rng *rng)
{
    uint64_t r = ut_rng_next(rng);

    switch (ut_rng_below(rng, 24)) {
    case 0:
        return ut_double(r); /* any bits */
    case 1:
        return r % 2 ? 0.0 : -0.0;
    case 2:
    case 3:
        return ut_double(r & 0x801fffffffffffffull); /* subnormal or nearly */
    case 4:
    case 5:
        return ut_double((r & 0x801fffffffffffffull) | 0x7fc0000000000000ull); /* near the end */
    default:
        return ldexp((double)(int64_t)r, (int)(r % 160) - 140);
    }
}

void ut_contribution_fill(struct ut_contribution *c, struct ut_rng *rng)
{
    for (size_t i = 0; i < c->count; i++) {
        if (is_double(c->op))
            c->f[i] = random_double(rng);
        else /* small ones too, for ties */
            c->u[i] = ut_rng_below(rng, 2) ? ut_rng_below(rng, 3) : ut_rng_next(rng);
    }
}

static void model_uint64(struct ut_contribution *r, const struct ut_contribution *c, uint64_t times)
{
    for (size_t i = 0; i < r->count; i++) {
        switch (r->op) {
        case UTOFU_REDUCE_OP_BAND:
            r->u[i] &= c->u[i];
            break;
        case UTOFU_REDUCE_OP_BOR:
            r->u[i] |= c->u[i];
            break;
        case UTOFU_REDUCE_OP_BXOR:
            r->u[i] ^= times % 2 ? c->u[i] : 0;
            break;
        case UTOFU_REDUCE_OP_SUM:
            r->u[i] += times * c->u[i];
            break;
        case UTOFU_REDUCE_OP_MAX:
            if (c->u[i] > r->u[i])
                r->u[i] = c->u[i];
            break;
        default: /* MAXLOC */
            if (i % 2 == 0 && c->u[i] == r->u[i] && c->u[i + 1] < r->u[i + 1])
                r->u[i + 1] = c->u[i + 1];
            if (i % 2 == 0 && c->u[i] > r->u[i]) {
                r->u[i] = c->u[i];
                r->u[i + 1] = c->u[i + 1];
            }
        }
    }
}

static void model_double(struct ut_contribution *r, const struct ut_contribution *all,
                         const uint64_t *times, int n)
{
    for (size_t i = 0; i < r->count; i++) {
        struct ut_exact sum;
        ut_exact_clear(&sum);
        for (int k = 0; k < n; k++)
            ut_exact_add(&sum, all[k].f[i], times[k]);
        r->f[i] = ut_exact_round(&sum);
    }
}

void ut_contribution_model(struct ut_contribution *r, const struct ut_contribution *all,
                           const uint64_t *times, int n)
{
    r->op = all[0].op;
    r->count = all[0].count;
    if (is_double(r->op)) {
        model_double(r, all, times, n);
        return;
    }
    for (size_t i = 0; i < r->count; i++) /* the neutral element */
        r->u[i] = r->op == UTOFU_REDUCE_OP_BAND || (r->op == UTOFU_REDUCE_OP_MAXLOC && i % 2)
                      ? UINT64_MAX
                      : 0;
    for (int k = 0; k < n; k++) {
        if (times[k])
            model_uint64(r, &all[k], times[k]);
    }
}

void ut_contribution_check(const struct ut_contribution *got, const struct ut_contribution *want)
{
    for (size_t i = 0; i < want->count; i++)
        CHECK(got->u[i] == want->u[i], "operator %d, value %zu: 0x%llx, not 0x%llx (seed %llu)",
              want->op, i, (unsigned long long)got->u[i], (unsigned long long)want->u[i],
              (unsigned long long)ut_seed());
}
