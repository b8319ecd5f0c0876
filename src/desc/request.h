/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: the arguments of a one-sided function, packed, checked, and encoded into a descriptor.
 * All functions with a request are inlined, so that it stays in registers.
 */
#ifndef UT_DESC_REQUEST_H
#define UT_DESC_REQUEST_H

#include "desc/desc.h"

struct ut_request {
    enum ut_desc_kind kind;
    utofu_vcq_id_t rmt_vcq_id;
    utofu_stadd_t lcl_stadd, rmt_stadd;
    size_t length, max_length;
    size_t stride, num_blocks;
    uint64_t edata;
    unsigned long flags;
    size_t mtu, gap;
    const void *data; /* piggyback */
    uint32_t op;      /* ARMW */
    uint64_t operand, compare;
};

#define UT_INLINE static inline __attribute__((always_inline))

/* Encodes the i-th block of the request as a descriptor. */
UT_INLINE void ut_request_encode(struct ut_desc *d, const struct ut_request *r, size_t i)
{
    ut_desc_head(d, r->kind, r->rmt_vcq_id, r->rmt_stadd + i * r->stride, r->length, r->edata,
                 r->flags);
    switch (r->kind) {
    case UT_DESC_PUT:
    case UT_DESC_GET:
        ut_desc_transfer(d, r->lcl_stadd + i * r->stride, r->mtu, r->gap);
        break;
    case UT_DESC_PIGGYBACK:
        ut_copy_small(d->data, r->data, r->length, r->max_length);
        break;
    case UT_DESC_ARMW:
        ut_desc_armw(d, r->op, r->operand, r->compare);
        break;
    case UT_DESC_NOP:
    case UT_DESC_NONE:
        break;
    }
}

#undef UT_INLINE
#endif
