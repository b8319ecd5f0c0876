/* SPDX-License-Identifier: Apache-2.0 */
/* The values of packets and signals, and the operators of reductions. */
#include "barrier/value.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the head is sent as it is in memory");

void ut_value_uint64(struct ut_value *v, unsigned int op, const uint64_t *data, size_t count)
{
    ut_value_set_head(v, op, count, UT_VALUE_GOOD);
    memcpy(v->u, data, count * sizeof(*data));
}

void ut_value_double(struct ut_value *v, unsigned int op, const double *data, size_t count)
{
    ut_value_set_head(v, op, count, UT_VALUE_GOOD);
    for (size_t i = 0; i < count; i++)
        ut_bfp_set(&v->f[i], data[i]);
}

void ut_value_broken(struct ut_value *v, utofu_vbg_id_t culprit)
{
    ut_value_set_head(v, UTOFU_REDUCE_OP_BARRIER, 1, UT_VALUE_BROKEN);
    v->u[0] = culprit;
}

void ut_value_copy_data(struct ut_value *to, const struct ut_value *from)
{
    if (ut_op_is_double(from->op)) {
        for (unsigned int i = 0; i < from->count; i++)
            ut_bfp_copy(&to->f[i], &from->f[i]);
    } else {
        memcpy(to->u, from->u, from->count * sizeof(uint64_t));
    }
}

/* Keeps the pair with the greater first element; if equal, the one with the smaller second element.
 */
static void combine_pair(uint64_t *into, const uint64_t *other)
{
    if (other[0] > into[0] || (other[0] == into[0] && other[1] < into[1])) {
        into[0] = other[0];
        into[1] = other[1];
    }
}

/* docs/design/adding-a-reduction.md lists the other places that a new operator needs. */
static void combine_element(struct ut_value *into, const struct ut_value *other, unsigned int i)
{
    switch (into->op) {
    case UTOFU_REDUCE_OP_BAND:
        into->u[i] &= other->u[i];
        break;
    case UTOFU_REDUCE_OP_BOR:
        into->u[i] |= other->u[i];
        break;
    case UTOFU_REDUCE_OP_BXOR:
        into->u[i] ^= other->u[i];
        break;
    case UTOFU_REDUCE_OP_MAX:
        into->u[i] = other->u[i] > into->u[i] ? other->u[i] : into->u[i];
        break;
    case UTOFU_REDUCE_OP_MAXLOC:
        if (i % 2 == 0)
            combine_pair(&into->u[i], &other->u[i]);
        break;
    case UTOFU_REDUCE_OP_SUM:
        into->u[i] += other->u[i];
        break;
    case UTOFU_REDUCE_OP_BFPSUM:
        ut_bfp_add(&into->f[i], &other->f[i]);
        break;
    default:
        break;
    }
}

static void set_mismatch(struct ut_value *v)
{
    ut_value_set_head(v, UTOFU_REDUCE_OP_BARRIER, 0, UT_VALUE_MISMATCH);
}

void ut_value_combine_any(struct ut_value *into, const struct ut_value *other)
{
    if (into->status != UT_VALUE_GOOD || other->status != UT_VALUE_GOOD) {
        /* of two culprits keeps the smaller id, so that the order does not matter */
        bool both = into->status == other->status && into->status == UT_VALUE_BROKEN;
        if (other->status > into->status || (both && other->u[0] < into->u[0]))
            ut_value_copy(into, other);
        return;
    }
    if (into->op != other->op || into->count != other->count) {
        set_mismatch(into);
        return;
    }
    for (unsigned int i = 0; i < into->count; i++)
        combine_element(into, other, i);
}

size_t ut_value_pack_data(const struct ut_value *v, uint8_t *out)
{
    size_t size = 0;

    if (!ut_op_is_double(v->op)) {
        memcpy(out, v->u, v->count * sizeof(uint64_t));
        return v->count * sizeof(uint64_t);
    }
    for (unsigned int i = 0; i < v->count; i++)
        size += ut_bfp_pack(&v->f[i], out + size);
    return size;
}

static bool unpack_doubles(struct ut_value *v, const uint8_t *in, size_t size)
{
    if (v->count < 1 || v->count > UT_MAX_DOUBLE_REDUCTION)
        return false;
    for (unsigned int i = 0; i < v->count; i++) {
        size_t n = ut_bfp_unpack(&v->f[i], in, size);
        if (n == 0)
            return false;
        in += n;
        size -= n;
    }
    return size == 0;
}

bool ut_value_unpack_any(struct ut_value *v, const uint8_t *in, size_t size)
{
    if (size < UT_VALUE_HEAD)
        return false;
    ut_value_set_head(v, in[0], in[1], in[2]);
    if (v->op < UTOFU_REDUCE_OP_BARRIER || v->op > UTOFU_REDUCE_OP_BFPSUM ||
        v->status > UT_VALUE_BROKEN)
        return false;
    if (ut_op_is_double(v->op))
        return unpack_doubles(v, in + UT_VALUE_HEAD, size - UT_VALUE_HEAD);
    if (v->count > UT_MAX_UINT64_REDUCTION || size != UT_VALUE_HEAD + v->count * sizeof(uint64_t) ||
        (v->op == UTOFU_REDUCE_OP_MAXLOC && v->count % 2) ||
        (v->status == UT_VALUE_BROKEN && v->count != 1))
        return false;
    memcpy(v->u, in + UT_VALUE_HEAD, v->count * sizeof(uint64_t));
    return true;
}
