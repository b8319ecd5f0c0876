/* SPDX-License-Identifier: Apache-2.0 */
/* A VCQ of a layer, and the communications on it. */
#include "port.h"

#include <stdio.h>

#include "log.h"

static bool open_vcq(struct lc_port *port, utofu_tni_id_t tni)
{
    const struct lc_port_kind *kind = port->kind;

    if (utofu_create_vcq_with_cmp_id(tni, kind->cmp_id, UTOFU_VCQ_FLAG_THREAD_SAFE, &port->vcq) !=
        UTOFU_SUCCESS) {
        lc_job_say(kind->job, "no VCQ with component id %d on TNI %u: %s", kind->cmp_id, tni,
                   lc_utofu_error());
        return false;
    }
    if (utofu_query_vcq_id(port->vcq, &port->id) == UTOFU_SUCCESS)
        return true;
    lc_job_say(kind->job, "the VCQ on TNI %u has no id: %s", tni, lc_utofu_error());
    lc_job_expect(kind->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
    return false;
}

static bool open_bounce(struct lc_port *port)
{
    const struct lc_port_kind *kind = port->kind;

    port->memory =
        (struct lc_memory){.job = kind->job,
                           .vcq = port->vcq,
                           .size = (size_t)kind->num_ops * kind->bounce + kind->more_bytes,
                           .what = "buffers",
                           .stag = LC_ANY_STAG};
    if (!lc_memory_open(&port->memory))
        return false;
    port->bounce = port->memory.at;
    port->bounce_stadd = port->memory.stadd;
    return true;
}

bool lc_port_open(struct lc_port *port, const struct lc_port_kind *kind, utofu_tni_id_t tni)
{
    port->kind = kind;
    if (!open_vcq(port, tni))
        return false;
    if (!open_bounce(port)) {
        lc_job_expect(kind->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
        return false;
    }
    port->num_free = 0;
    port->ends = false;
    for (uint32_t i = 0; i < kind->num_ops; i++) {
        port->ops[i] = (struct lc_op){.port = port, .index = (uint8_t)i};
        port->free_ops[port->num_free++] = (uint8_t)(kind->num_ops - 1 - i);
    }
    return true;
}

void lc_port_close(struct lc_port *port)
{
    lc_memory_close(&port->memory);
    lc_job_expect(port->kind->job, utofu_free_vcq(port->vcq), "utofu_free_vcq");
}

static void end_op(struct lc_op *op, int rc, uint64_t old_value)
{
    if (!op->busy)
        return;
    if (!op->port->ends) {
        if (rc == UTOFU_ERR_MRQ_PEER)
            op->port->kind->lost(op->rank);
        if (op->done != NULL)
            op->done(op, rc, old_value);
    }
    lc_op_drop(op);
}

/*
 * Starts.
 */

void lc_port_make_room(struct lc_port *port, struct lc_patience *patience)
{
    char text[LC_TEXT];

    if (lc_patience_ends(patience, 0))
        lc_job_say(port->kind->job, "has waited %llu s for room in the queue of uTofu (TOQ): %s",
                   lc_patience_seconds(patience), lc_port_text(port, text));
    lc_port_poll_tcq(port);
}

bool lc_op_started(struct lc_op *op, int rc)
{
    if (rc == UTOFU_ERR_BUSY) {
        lc_op_drop(op);
        return false;
    }
    if (rc != UTOFU_SUCCESS)
        end_op(op, rc, 0);
    return true;
}

/* A call that finds room costs nothing more. */
#define START(op, call)                                                                            \
    do {                                                                                           \
        int rc = (call);                                                                           \
        struct lc_patience patience;                                                               \
                                                                                                   \
        if (__builtin_expect(rc == UTOFU_SUCCESS, 1))                                              \
            return true;                                                                           \
        for (patience = (struct lc_patience){0};                                                   \
             rc == UTOFU_ERR_BUSY && (op)->port->kind->waits_for_room; rc = (call))                \
            lc_port_make_room((op)->port, &patience);                                              \
        return lc_op_started(op, rc);                                                              \
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
 * Ends.
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
        if (cbdata != NULL && port->kind->sent != NULL)
            port->kind->sent(cbdata);
    } else if (rc <= UTOFU_ERR_TCQ_OTHER && rc > UTOFU_ERR_MRQ_OTHER) {
        end_op(cbdata, rc, 0);
    }
    return true;
}

/* Of a poll that failed there is no notice. */
void lc_port_take(struct lc_port *port, int rc, const struct utofu_mrq_notice *notice)
{
    if (rc > UTOFU_ERR_INVALID_ARG && lc_is_own(notice) && notice->edata < port->kind->num_ops)
        end_op(&port->ops[notice->edata], rc, notice->rmt_value);
    else if (!port->ends)
        port->kind->found(rc, notice);
}

bool lc_port_poll_mrq(struct lc_port *port)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(port->vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    lc_port_take(port, rc, &notice);
    return true;
}

const char *lc_port_text(const struct lc_port *port, char text[LC_TEXT])
{
    const char *process = port->kind->job->process;
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < port->kind->num_ops; i++)
        if (port->ops[i].busy && n++ == 0)
            rank = port->ops[i].rank;
    if (n == 0)
        snprintf(text, LC_TEXT, "no communication is under way that a notice ends");
    else if (n == 1)
        snprintf(text, LC_TEXT, "one communication is under way, with %s %u", process, rank);
    else
        snprintf(text, LC_TEXT, "%u communications are under way, one of them with %s %u", n,
                 process, rank);
    return text;
}
