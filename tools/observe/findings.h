/* SPDX-License-Identifier: Apache-2.0 */
/* What can be found from calls alone. */
#ifndef OB_FINDINGS_H
#define OB_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "observe/comm.h"
#include "observe/op.h"

struct ob_region {
    uint64_t stadd;
    uintptr_t addr;
    size_t size;
};
void ob_region_add(struct ob_vcq *vcq, uint64_t stadd, void *addr, size_t size);
void ob_region_remove(struct ob_vcq *vcq, uint64_t stadd);
const struct ob_region *ob_region_of(const struct ob_vcq *vcq, uint64_t stadd, size_t length);

/* With the lock held. */
void ob_check_comm(struct ob_vcq *vcq, const struct ob_comm *comm);
void ob_check_started(struct ob_vcq *vcq, struct ob_op *op);
void ob_check_sent(struct ob_vcq *vcq, struct ob_op *op, const void *caller);
void ob_check_dereg(struct ob_vcq *vcq, uint64_t stadd, const void *caller);
void ob_check_full(struct ob_vcq *vcq, const void *caller);
/* Without the lock: a call on the VCQ begins and ends. */
void ob_check_enter(struct ob_vcq *vcq, const void *caller);
void ob_check_leave(struct ob_vcq *vcq);
void ob_check_end(void);

enum ob_finding {
#define X(id, name, what, instead, sections) OB_CHECK_##id,
#include "check/findings.h"
#undef X
    OB_NUM_FINDINGS
};
/* A finding in a call of `caller`, about a communication or a return code, if they are given. */
void ob_check_report(enum ob_finding id, const struct ob_vcq *vcq, const void *caller,
                     const struct ob_op *op, int rc);

/* "put of 8 bytes, number 3 of VCQ ..., 0.1 ms ago in main+0x1f" */
int ob_op_describe(char *text, size_t size, const struct ob_vcq *vcq, const struct ob_op *op);

#endif
