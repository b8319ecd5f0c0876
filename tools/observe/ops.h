/* SPDX-License-Identifier: Apache-2.0 */
/* What is started and not finished. */
#ifndef OB_OPS_H
#define OB_OPS_H

#include <stdint.h>
#include "observe/comm.h"
#include "observe/op.h"

/* With the lock held: a call has started a communication, a poll has returned an entry or none, a
 * VCQ is freed or the process ends. */
void ob_op_start(struct ob_vcq *vcq, const struct ob_comm *comm, uint64_t block, uint64_t now);
void ob_op_tcq(struct ob_vcq *vcq, int rc, const void *cbdata, uint64_t now, const void *caller);
void ob_op_mrq(struct ob_vcq *vcq, int rc, const struct utofu_mrq_notice *notice, uint64_t now,
               const void *caller);
void ob_op_busy(struct ob_vcq *vcq);
void ob_op_empty(struct ob_vcq *vcq, uint64_t now);
void ob_ops_end(struct ob_vcq *vcq);

void ob_gate_start(utofu_vbg_id_t gate, unsigned int op, uint64_t at);
void ob_gate_result(utofu_vbg_id_t gate, int rc, uint64_t at);
struct ob_gate {
    struct ob_gate *next;
    uint64_t id;
    struct ut_record_place place;
    struct ob_counts counts;
    uint64_t begin; /* of the barrier communication in progress */
    uint8_t op;
    bool named;
};
void ob_gate_for_each(void (*visit)(struct ob_gate *gate, void *arg), void *arg);
void ob_counts_print(void);
void ob_trace_end(void);

#endif
