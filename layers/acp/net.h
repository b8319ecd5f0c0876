/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQs, one for each color in use, and the communications on them. */
#ifndef AL_NET_H
#define AL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_task;

struct al_op {
    void (*done)(struct al_op *op, int rc, uint64_t old_value);
    struct al_task *task;
    uint64_t arg;
    uint32_t rank; /* of the peer */
    uint8_t color, index;
    bool busy;
};

struct al_port {
    bool open;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t bounce_stadd;
    uint8_t (*bounce)[AL_BOUNCE];
    struct al_op ops[AL_OPS];
    uint8_t free_ops[AL_OPS];
    uint32_t num_free;
    uint32_t polls;
};

struct al_net {
    struct al_port *ports[AL_MAX_COLORS];
    utofu_tni_id_t tnis[AL_MAX_COLORS];
    uint32_t num_colors, num_busy;
};

bool al_net_setup(void); /* how many colors there are; opens color 0 */
void al_net_close(void);
uint32_t al_net_colors(void);
bool al_port_open(uint32_t color);
struct al_port *al_port(uint32_t color);
bool al_port_is_id(utofu_vcq_id_t id); /* that a VCQ can have */
/* Of the same process; false: that is no id. */
bool al_port_id_of(utofu_vcq_id_t color0_id, uint32_t color, utofu_vcq_id_t *id);

/* An op to start a communication with, or NULL: none is free at the moment. */
struct al_op *al_op_take(uint32_t color, struct al_task *task, uint32_t rank,
                         void (*done)(struct al_op *op, int rc, uint64_t old_value));
void *al_op_bounce(struct al_op *op);
utofu_stadd_t al_op_bounce_stadd(struct al_op *op);
/* They start the op's communication. What cannot be started is done with an error. false: no room
 * at the moment; the op is given back. */
bool al_op_put(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
bool al_op_put_now(struct al_op *op, utofu_vcq_id_t id, const void *data, utofu_stadd_t rmt,
                   size_t size, unsigned long int flags);
bool al_op_get(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
/* Of a word of `width` bytes. */
bool al_op_armw(struct al_op *op, utofu_vcq_id_t id, enum utofu_armw_op code, uint32_t width,
                uint64_t operand, utofu_stadd_t rmt);
bool al_op_cswap(struct al_op *op, utofu_vcq_id_t id, uint32_t width, uint64_t old_value,
                 uint64_t new_value, utofu_stadd_t rmt);
bool al_op_add(struct al_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
bool al_net_poll(void); /* true: something has happened */
/* Of a communication of this process, or of one that a peer has started? */
static inline bool al_net_is_own(const struct utofu_mrq_notice *notice)
{
    _Static_assert(UTOFU_MRQ_TYPE_LCL_PUT % 2 == 0 && UTOFU_MRQ_TYPE_RMT_PUT % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_GET % 2 == 0 && UTOFU_MRQ_TYPE_RMT_GET % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_ARMW % 2 == 0 && UTOFU_MRQ_TYPE_RMT_ARMW % 2 == 1,
                   "the remote ones are odd");
    return (notice->notice_type & 1) == 0;
}
/* What utofu_poll_mrq() has found. */
void al_net_take(struct al_port *port, int rc, const struct utofu_mrq_notice *notice);
uint32_t al_net_busy(void); /* communications in flight */
bool al_net_quiet(void);    /* none, if need be after some polls */
void al_net_wake(void);     /* ends the sleep of who waits for the VCQs; without the lock */
void al_net_use(struct al_use *use);
size_t al_net_vcqs(utofu_vcq_hdl_t vcqs[AL_MAX_COLORS]);

#pragma GCC visibility pop

#endif
