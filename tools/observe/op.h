/* SPDX-License-Identifier: Apache-2.0 */
/* A communication that was started. */
#ifndef OB_OP_H
#define OB_OP_H

#include <stdbool.h>
#include <stdint.h>
#include "observe/objects.h"

enum { OB_WAITS_TCQ = 1, OB_WAITS_LOCAL = 2 };

/* A communication that was started. */
struct ob_op {
    struct ob_peer *peer; /* NULL: of a NOP */
    uint64_t remote, lcl_stadd, rmt_stadd, number;
    uint64_t at, returned, sum; /* ns; sum: of the source, with the check mode */
    void *cbdata;
    const void *caller;
    uint32_t length;
    uint16_t function, flags;
    uint8_t kind, edata, waits; /* waits: OB_WAITS_*, 0: finished */
    bool has_sum;
};
static inline struct ob_op *ob_op_at(const struct ob_vcq *v, uint32_t i)
{
    return &v->ops[i & (v->room - 1)];
}

#endif
