/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port is a VCQ of a layer, and the communications on it that end with a notice. Each of these
 * has an op, whose number is its EDATA, and a buffer of registered memory (bounce). It asks for its
 * local MRQ notice; what has the notice ends the op. Errors of what could not be sent are in the
 * TCQ, and end it too.
 */
#ifndef LC_PORT_H
#define LC_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "job.h"
#include "memory.h"
#include "stall.h"

#pragma GCC visibility push(hidden)

enum {
    LC_MAX_OPS = 256,  /* an EDATA has a byte */
    LC_TEXT_SIZE = 96, /* of what is under way, for lines of what waits */
};

struct lc_port;

struct lc_op {
    void (*done)(struct lc_op *op, int rc, uint64_t old_value); /* or NULL */
    void *arg;
    uint64_t n;
    struct lc_port *port;
    uint32_t rank; /* of the peer */
    uint8_t index;
    bool busy;
};

/* What a layer makes of its ports. */
struct lc_port_config {
    const struct lc_job *job;
    utofu_cmp_id_t cmp_id;
    uint32_t num_ops, bounce; /* bytes of the buffer of each op */
    size_t extra_bytes;       /* behind these buffers, for the layer */
    bool wait_for_room;       /* a start waits while the TOQ is full: else the op is given back */
    /* A communication says that the process cannot be reached. */
    void (*peer_lost)(uint32_t rank);
    /* What a poll of the MRQ has found that ends no op: an error, or the notice of what a peer has
     * started. */
    void (*handle_notice)(int rc, const struct utofu_mrq_notice *notice);
    /* A TCQ notice of what the layer has started on its own; or NULL. */
    void (*handle_tcq_notice)(void *cbdata);
};

struct lc_port {
    const struct lc_port_config *config;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t bounce_stadd;
    uint8_t *bounce;
    uint32_t num_free;
    uint32_t polls;
    bool silent; /* ops end in silence: none of them is done, nothing is lost or found */
    uint8_t free_ops[LC_MAX_OPS];
    struct lc_op ops[LC_MAX_OPS];
    struct lc_memory memory;
};

bool lc_port_open(struct lc_port *port, const struct lc_port_config *config, utofu_tni_id_t tni);
void lc_port_close(struct lc_port *port);

/* An op to start a communication with, or NULL: no more than `keep` are free at the moment. */
static inline struct lc_op *lc_op_alloc(struct lc_port *port, uint32_t reserve, uint32_t rank,
                                        void (*done)(struct lc_op *op, int rc, uint64_t old_value),
                                        void *arg)
{
    struct lc_op *op;

    if (port->num_free <= reserve)
        return NULL;
    op = &port->ops[port->free_ops[--port->num_free]];
    op->done = done;
    op->arg = arg;
    op->rank = rank;
    op->busy = true;
    return op;
}

/* It was not started, or has ended. */
static inline void lc_op_free(struct lc_op *op)
{
    struct lc_port *port = op->port;

    op->busy = false;
    port->free_ops[port->num_free++] = op->index;
}

/* The buffer is the op's own until it is done. */
static inline void *lc_op_bounce(const struct lc_op *op)
{
    return op->port->bounce + (size_t)op->index * op->port->config->bounce;
}

static inline utofu_stadd_t lc_op_bounce_stadd(const struct lc_op *op)
{
    return op->port->bounce_stadd + (utofu_stadd_t)op->index * op->port->config->bounce;
}

/* They start the op's communication. What cannot be started is done with an error. false: there is
 * no room at the moment, for which a port of this kind does not wait; the op is given back. */
bool lc_op_put(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
/* The first `size` bytes of a word. */
bool lc_op_put_word(struct lc_op *op, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                    size_t size, unsigned long int flags);
bool lc_op_get(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
/* Of a word of 8 bytes. */
bool lc_op_armw(struct lc_op *op, utofu_vcq_id_t id, enum utofu_armw_op code, uint64_t operand,
                utofu_stadd_t rmt);
/* The same for what the layer has started on its own with the op: what that has returned. */
bool lc_op_check_start(struct lc_op *op, int rc);

/* Of a communication of this process, or of one that a peer has started? */
static inline bool lc_is_local_notice(const struct utofu_mrq_notice *notice)
{
    _Static_assert(UTOFU_MRQ_TYPE_LCL_PUT % 2 == 0 && UTOFU_MRQ_TYPE_RMT_PUT % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_GET % 2 == 0 && UTOFU_MRQ_TYPE_RMT_GET % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_ARMW % 2 == 0 && UTOFU_MRQ_TYPE_RMT_ARMW % 2 == 1,
                   "the remote ones are odd");
    return (notice->notice_type & 1) == 0;
}

/* What utofu_poll_mrq() has found. */
void lc_port_handle_notice(struct lc_port *port, int rc, const struct utofu_mrq_notice *notice);
bool lc_port_poll_mrq(struct lc_port *port);
bool lc_port_poll_tcq(struct lc_port *port); /* makes room in the TOQ */
/* The TOQ is full: polls the TCQ, and says from time to time that it waits. */
void lc_port_poll_for_room(struct lc_port *port, struct lc_stall_timer *stall)
    __attribute__((cold));

/* One notice at a time, so that a call that waits for it returns at once; all entries of the TCQ,
 * which has errors for the most part, once in `period` polls. true: something has happened. */
static inline bool lc_port_poll(struct lc_port *port, uint32_t period)
{
    bool any = lc_port_poll_mrq(port);

    if (++port->polls % period == 0)
        while (lc_port_poll_tcq(port))
            any = true;
    return any;
}

static inline uint32_t lc_port_ops_in_flight(const struct lc_port *port)
{
    return port->config->num_ops - port->num_free;
}

/* "2 communications are under way, one of them with task 3" */
const char *lc_port_describe(const struct lc_port *port, char text[LC_TEXT_SIZE]);

#pragma GCC visibility pop

#endif
