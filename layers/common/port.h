/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port is a VCQ of a layer with its operations in flight, like an endpoint of libfabric; it is no
 * port of an adapter. Each operation has an op, whose index is its EDATA, and a bounce buffer of
 * registered memory. Operations request a local MRQ notice, and that notice completes the op. The
 * TCQ reports operations that could not be sent, which completes the op too.
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
    LC_MAX_OPS = 256,  /* EDATA has one byte */
    LC_TEXT_SIZE = 96, /* size of a text that describes operations in flight */
};

struct lc_port;
struct lc_op;
/* Called when the operation has completed. rc: code of uTofu; old_value: result of an atomic. */
typedef void lc_op_callback(struct lc_op *op, int rc, uint64_t old_value);

struct lc_op {
    lc_op_callback *done; /* completion callback, or NULL */
    void *arg;
    uint64_t user_data; /* free for the caller, like arg */
    struct lc_port *port;
    uint32_t rank; /* rank of the peer */
    uint8_t index;
    bool busy;
};

/* How a layer configures its ports. */
struct lc_port_config {
    const struct lc_job *job;
    utofu_cmp_id_t cmp_id;
    uint32_t num_ops;
    uint32_t bounce_size; /* bytes of the bounce buffer of each op */
    size_t extra_bytes;   /* additional registered bytes for the layer, behind the bounce buffers */
    bool wait_for_room; /* starting an operation waits while the TOQ is full; otherwise it fails */
    /* An operation reports that the process is unreachable. */
    void (*peer_lost)(uint32_t rank);
    /* Handles a result of utofu_poll_mrq() that completes no op: an error, or a remote notice. */
    void (*handle_notice)(int rc, const struct utofu_mrq_notice *notice);
    /* Handles a TCQ notice of an operation without op; or NULL. */
    void (*handle_tcq_notice)(void *cbdata);
};

struct lc_port {
    const struct lc_port_config *config;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t bounce_stadd;
    uint8_t *bounce;    /* the bounce buffers of all ops, then the extra bytes */
    uint32_t num_free;  /* ops; their indices are in free_ops */
    uint32_t polls;     /* calls of lc_port_poll() */
    bool callbacks_off; /* no callback of an op or of the configuration is called any more */
    uint8_t free_ops[LC_MAX_OPS];
    struct lc_op ops[LC_MAX_OPS];
    struct lc_memory memory;
};

bool lc_port_open(struct lc_port *port, const struct lc_port_config *config, utofu_tni_id_t tni);
void lc_port_close(struct lc_port *port);

/* Allocates an op. NULL: no more than `reserve` ops are free. */
static inline struct lc_op *lc_op_alloc(struct lc_port *port, uint32_t reserve, uint32_t rank,
                                        lc_op_callback *done, void *arg)
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

/* Frees an op that was not started, or that has completed. */
static inline void lc_op_free(struct lc_op *op)
{
    struct lc_port *port = op->port;

    op->busy = false;
    port->free_ops[port->num_free++] = op->index;
}

/* The bounce buffer belongs to the op until the op completes. */
static inline void *lc_op_bounce(const struct lc_op *op)
{
    return op->port->bounce + (size_t)op->index * op->port->config->bounce_size;
}

static inline utofu_stadd_t lc_op_bounce_stadd(const struct lc_op *op)
{
    return op->port->bounce_stadd + (utofu_stadd_t)op->index * op->port->config->bounce_size;
}

/* Each starts the operation of an op. An operation that cannot be started completes with an error.
 * False: the TOQ is full, and the port is not configured to wait; the op is freed. */
bool lc_op_put(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
/* Puts the first `size` bytes of a word. */
bool lc_op_put_word(struct lc_op *op, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                    size_t size, unsigned long int flags);
bool lc_op_get(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
/* Modifies a word of 8 bytes. */
bool lc_op_armw(struct lc_op *op, utofu_vcq_id_t id, enum utofu_armw_op code, uint64_t operand,
                utofu_stadd_t rmt);
/* Handles the return code of an operation that the layer started itself with the op. */
bool lc_op_check_start(struct lc_op *op, int rc);

/* True if this process started the operation. */
static inline bool lc_is_local_notice(const struct utofu_mrq_notice *notice)
{
    _Static_assert(UTOFU_MRQ_TYPE_LCL_PUT % 2 == 0 && UTOFU_MRQ_TYPE_RMT_PUT % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_GET % 2 == 0 && UTOFU_MRQ_TYPE_RMT_GET % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_ARMW % 2 == 0 && UTOFU_MRQ_TYPE_RMT_ARMW % 2 == 1,
                   "the remote ones are odd");
    return (notice->notice_type & 1) == 0;
}

/* Handles a result of utofu_poll_mrq(). */
void lc_port_handle_notice(struct lc_port *port, int rc, const struct utofu_mrq_notice *notice);
bool lc_port_poll_mrq(struct lc_port *port);
bool lc_port_poll_tcq(struct lc_port *port); /* frees entries of the TOQ */
/* Called while the TOQ is full: polls the TCQ, and logs long waits. */
void lc_port_poll_for_room(struct lc_port *port, struct lc_stall_timer *stall)
    __attribute__((cold));

/* Polls one notice of the MRQ, so that a call that waits for it returns at once. Every `period`
 * polls it drains the TCQ, whose entries are mostly errors. True: something has happened. */
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
