/* SPDX-License-Identifier: Apache-2.0 */
/* A call, while it is made. */
#ifndef OB_COMM_H
#define OB_COMM_H

#include <stdbool.h>
#include <stdint.h>
#include "observe/objects.h"

/* A communication: its arguments. */
struct ob_comm {
    utofu_vcq_hdl_t vcq_hdl;
    uint64_t remote, lcl_stadd, rmt_stadd;
    size_t length, stride, num_blocks, mtu, gap;
    uint64_t edata;
    unsigned long flags;
    void *cbdata;
    const void *caller;
    uint64_t begin; /* ticks of the recording */
    uint64_t at;    /* ns */
    uint16_t function;
    uint8_t kind; /* enum ob_kind */
    bool piggyback, same_call;
};
enum ob_kind { OB_PUT, OB_GET, OB_ARMW, OB_NOP };

struct ob_call {
    uint64_t begin, at;
    const void *caller;
    struct ob_vcq *vcq;
    struct ut_record_of of;
    int rc;
    uint16_t function;
};

#endif
