/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of packets and signals: the operation, the number of values and the values, or an
 * error status. Pure functions, no state.
 */
#ifndef UT_BARRIER_VALUE_H
#define UT_BARRIER_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "barrier/bfp.h"
#include "utofu.h"

enum {
    UT_MAX_UINT64_REDUCTION = 6,
    UT_MAX_DOUBLE_REDUCTION = 3,
    UT_VALUE_HEAD = 4, /* size of op, count, status and zero in the wire format */
    UT_VALUE_PACKED_MAX = 8 + UT_MAX_DOUBLE_REDUCTION * UT_BFP_PACKED_MAX,
};

/* Combining two values keeps the higher status. */
enum ut_value_status {
    UT_VALUE_GOOD,
    UT_VALUE_MISMATCH, /* the processes did not start the same operation */
    UT_VALUE_BROKEN,   /* u[0] is the VBG id of the gate that failed first */
};

struct ut_value {
    union {
        struct {
            uint8_t op; /* enum utofu_reduce_op */
            uint8_t count;
            uint8_t status;
            uint8_t zero;
        };
        uint32_t head; /* the four bytes above as one number */
    };
    union {
        uint64_t u[UT_MAX_UINT64_REDUCTION];
        struct ut_bfp f[UT_MAX_DOUBLE_REDUCTION];
    };
};

static inline bool ut_op_is_double(unsigned int op)
{
    return op == UTOFU_REDUCE_OP_BFPSUM;
}

static inline void ut_value_set_head(struct ut_value *v, unsigned int op, size_t count,
                                     enum ut_value_status status)
{
    v->head = (uint32_t)(op | count << 8 | (unsigned int)status << 16);
}

/* The head of a successful barrier: no values, status GOOD. */
enum { UT_VALUE_BARRIER = UTOFU_REDUCE_OP_BARRIER };

/* The head of a sum of one double, the usual reduction. Its functions need no loop. */
enum { UT_VALUE_DOUBLE = UTOFU_REDUCE_OP_BFPSUM | 1 << 8 };

/* The contribution of a process. */
static inline void ut_value_barrier(struct ut_value *v)
{
    v->head = UT_VALUE_BARRIER;
}
void ut_value_uint64(struct ut_value *v, unsigned int op, const uint64_t *data, size_t count);
void ut_value_double(struct ut_value *v, unsigned int op, const double *data, size_t count);
void ut_value_broken(struct ut_value *v, utofu_vbg_id_t culprit);

/* Combines the two inputs of a gate. Commutative and associative in every bit. */
void ut_value_combine_any(struct ut_value *into, const struct ut_value *other);
static inline void ut_value_combine(struct ut_value *into, const struct ut_value *other)
{
    if (into->head == UT_VALUE_BARRIER && other->head == UT_VALUE_BARRIER)
        return;
    if (into->head == UT_VALUE_DOUBLE && other->head == UT_VALUE_DOUBLE)
        ut_bfp_add(&into->f[0], &other->f[0]);
    else
        ut_value_combine_any(into, other);
}

/* Copies the used part of the data. */
void ut_value_copy_data(struct ut_value *to, const struct ut_value *from);
static inline void ut_value_copy(struct ut_value *to, const struct ut_value *from)
{
    to->head = from->head;
    if (from->head == UT_VALUE_DOUBLE)
        ut_bfp_copy(&to->f[0], &from->f[0]);
    else if (from->count > 0)
        ut_value_copy_data(to, from);
}

/* Writes the wire format. `out` has room for UT_VALUE_PACKED_MAX bytes. Returns the number of
 * bytes. */
size_t ut_value_pack_data(const struct ut_value *v, uint8_t *out);
static inline size_t ut_value_pack(const struct ut_value *v, uint8_t *out)
{
    memcpy(out, &v->head, UT_VALUE_HEAD);
    if (v->head == UT_VALUE_DOUBLE)
        return UT_VALUE_HEAD + ut_bfp_pack(&v->f[0], out + UT_VALUE_HEAD);
    return UT_VALUE_HEAD + (v->count ? ut_value_pack_data(v, out + UT_VALUE_HEAD) : 0);
}
/* False: the bytes are not a valid value. */
bool ut_value_unpack_any(struct ut_value *v, const uint8_t *in, size_t size);
static inline bool ut_value_unpack(struct ut_value *v, const uint8_t *in, size_t size)
{
    if (size == UT_VALUE_HEAD) {
        memcpy(&v->head, in, UT_VALUE_HEAD);
        if (v->head == UT_VALUE_BARRIER)
            return true;
    } else if (size > UT_VALUE_HEAD) {
        memcpy(&v->head, in, UT_VALUE_HEAD);
        if (v->head == UT_VALUE_DOUBLE)
            return ut_bfp_unpack(&v->f[0], in + UT_VALUE_HEAD, size - UT_VALUE_HEAD) ==
                   size - UT_VALUE_HEAD;
    }
    return ut_value_unpack_any(v, in, size);
}

#endif
