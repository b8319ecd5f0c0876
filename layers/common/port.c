/* SPDX-License-Identifier: Apache-2.0 */
/* A VCQ of a layer, and its operations in flight. */
#include "port.h"

#include <stdio.h>

#include "log.h"

static bool open_vcq(struct lc_port *port, utofu_tni_id_t tni)
{
    const struct lc_port_config *config = port->config;

    if (utofu_create_vcq_with_cmp_id(tni, config->cmp_id, UTOFU_VCQ_FLAG_THREAD_SAFE, &port->vcq) !=
        UTOFU_SUCCESS) {
        lc_job_log(config->job, "no VCQ with component id %d on TNI %u: %s", config->cmp_id, tni,
                   lc_utofu_error());
        return false;
    }
    if (utofu_query_vcq_id(port->vcq, &port->id) == UTOFU_SUCCESS)
        return true;
    lc_job_log(config->job, "the VCQ on TNI %u has no id: %s", tni, lc_utofu_error());
    lc_job_check_rc(config->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
    return false;
}

static bool open_bounce(struct lc_port *port)
{
    const struct lc_port_config *config = port->config;

    port->memory = (struct lc_memory){.job = config->job,
                                      .vcq = port->vcq,
                                      .size = (size_t)config->num_ops * config->bounce_size +
                                              config->extra_bytes,
                                      .what = "buffers",
                                      .stag = LC_ANY_STAG};
    if (!lc_memory_open(&port->memory))
        return false;
    port->bounce = port->memory.start;
    port->bounce_stadd = port->memory.stadd;
    return true;
}

bool lc_port_open(struct lc_port *port, const struct lc_port_config *config, utofu_tni_id_t tni)
{
    port->config = config;
    if (!open_vcq(port, tni))
        return false;
    if (!open_bounce(port)) {
        lc_job_check_rc(config->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
        return false;
    }
    port->num_free = 0;
    port->callbacks_off = false;
    for (uint32_t i = 0; i < config->num_ops; i++) {
        port->ops[i] = (struct lc_op){.port = port, .index = (uint8_t)i};
        port->free_ops[port->num_free++] = (uint8_t)(config->num_ops - 1 - i);
    }
    return true;
}

void lc_port_close(struct lc_port *port)
{
    lc_memory_close(&port->memory);
    lc_job_check_rc(port->config->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
}

static void end_op(struct lc_op *op, int rc, uint64_t old_value)
{
    if (!op->busy)
        return;
    if (!op->port->callbacks_off) {
        if (rc == UTOFU_ERR_MRQ_PEER)
            op->port->config->peer_lost(op->rank);
        if (op->done != NULL)
            op->done(op, rc, old_value);
    }
    lc_op_free(op);
}

/*
 * Starting operations
 */

void lc_port_poll_for_room(struct lc_port *port, struct lc_stall_timer *stall)
{
    char text[LC_TEXT_SIZE];

    if (lc_stall_should_log(stall, 0))
        lc_job_log(port->config->job, "has waited %llu s for room in the queue of uTofu (TOQ): %s",
                   lc_stall_seconds(stall), lc_port_describe(port, text));
    lc_port_poll_tcq(port);
}

bool lc_op_check_start(struct lc_op *op, int rc)
{
    if (rc == UTOFU_ERR_BUSY) {
        lc_op_free(op);
        return false;
    }
    if (rc != UTOFU_SUCCESS)
        end_op(op, rc, 0);
    return true;
}

/* The common case, with room in the TOQ, costs one comparison. */
#define START(op, call)                                                                            \
    do {                                                                                           \
        int rc = (call);                                                                           \
        struct lc_stall_timer stall;                                                               \
                                                                                                   \
        if (__builtin_expect(rc == UTOFU_SUCCESS, 1))                                              \
            return true;                                                                           \
        for (stall = (struct lc_stall_timer){0};                                                   \
             rc == UTOFU_ERR_BUSY && (op)->port->config->wait_for_room; rc = (call))               \
            lc_port_poll_for_room((op)->port, &stall);                                             \
        return lc_op_check_start(op, rc);                                                          \
    } while (0)

bool lc_op_put(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags)
{
    START(op, utofu_put(op->port->vcq, id, lcl, rmt, size, op->index,
                        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, op));
}

bool lc_op_put_word(struct lc_op *op, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                    size_t size, unsigned long int flags)
{
    START(op, utofu_put_piggyback8(op->port->vcq, id, word, rmt, size, op->index,
                                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, op));
}

bool lc_op_get(struct lc_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size)
{
    START(op, utofu_get(op->port->vcq, id, lcl, rmt, size, op->index,
                        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
}

bool lc_op_armw(struct lc_op *op, utofu_vcq_id_t id, enum utofu_armw_op code, uint64_t operand,
                utofu_stadd_t rmt)
{
    START(op, utofu_armw8(op->port->vcq, id, code, operand, rmt, op->index,
                          UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
}

/*
 * Completing operations
 */

static bool is_op(const struct lc_port *port, const void *cbdata)
{
    return (uintptr_t)cbdata - (uintptr_t)port->ops < sizeof(port->ops);
}

bool lc_port_poll_tcq(struct lc_port *port)
{
    void *cbdata;
    int rc = utofu_poll_tcq(port->vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    if (!is_op(port, cbdata)) {
        if (cbdata != NULL && port->config->handle_tcq_notice != NULL)
            port->config->handle_tcq_notice(cbdata);
    } else if (rc <= UTOFU_ERR_TCQ_OTHER && rc > UTOFU_ERR_MRQ_OTHER) {
        end_op(cbdata, rc, 0);
    }
    return true;
}

/* A failed poll has no notice. */
void lc_port_handle_notice(struct lc_port *port, int rc, const struct utofu_mrq_notice *notice)
{
    if (rc > UTOFU_ERR_INVALID_ARG && lc_is_local_notice(notice) &&
        notice->edata < port->config->num_ops)
        end_op(&port->ops[notice->edata], rc, notice->rmt_value);
    else if (!port->callbacks_off)
        port->config->handle_notice(rc, notice);
}

bool lc_port_poll_mrq(struct lc_port *port)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(port->vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    lc_port_handle_notice(port, rc, &notice);
    return true;
}

const char *lc_port_describe(const struct lc_port *port, char text[LC_TEXT_SIZE])
{
    const char *process = port->config->job->process;
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < port->config->num_ops; i++)
        if (port->ops[i].busy && n++ == 0)
            rank = port->ops[i].rank;
    if (n == 0)
        snprintf(text, LC_TEXT_SIZE, "no communication is in flight that a notice ends");
    else if (n == 1)
        snprintf(text, LC_TEXT_SIZE, "one communication is in flight, with %s %u", process, rank);
    else
        snprintf(text, LC_TEXT_SIZE, "%u communications are in flight, one of them with %s %u", n,
                 process, rank);
    return text;
}
