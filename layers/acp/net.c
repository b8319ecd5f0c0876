/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port is a VCQ for the memory of one color, on a TNI of its own. Every communication of the
 * layer asks for its local MRQ notice and has an op, whose number is its EDATA; what has the notice
 * ends the op.
 */
#include "net.h"
#include "ctx.h"
#include "log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <utofu_ext.h>

enum { TCQ_PERIOD = 8 /* polls */, QUIET_POLLS = 256 };

/* Finds the TNIs, which are the colors. */
static bool find_tnis(void)
{
    utofu_tni_id_t *ids;
    size_t n;

    if (utofu_get_onesided_tnis(&ids, &n) != UTOFU_SUCCESS) {
        al_log("acp_init: no uTofu: %s", lc_utofu_error());
        return false;
    }
    al.net.num_colors = n < AL_MAX_COLORS ? (uint32_t)n : AL_MAX_COLORS;
    for (uint32_t i = 0; i < al.net.num_colors; i++)
        al.net.tnis[i] = ids[i];
    free(ids);
    if (al.net.num_colors == 0)
        al_log("acp_init: uTofu has no TNI here: see utofu-info --check");
    return al.net.num_colors > 0;
}

bool al_net_setup(void)
{
    al.net.num_busy = 0;
    return find_tnis() && al_port_open(0);
}

void al_net_use(struct al_use *use)
{
    for (uint32_t i = 0; i < AL_MAX_COLORS; i++)
        if (al.net.ports[i] != NULL)
            use->fixed += sizeof(*al.net.ports[i]) + AL_OPS * AL_BOUNCE;
}

uint32_t al_net_colors(void)
{
    return al.net.num_colors;
}

uint32_t al_net_busy(void)
{
    return al.net.num_busy;
}

static bool open_bounce(struct al_port *port)
{
    size_t size = AL_OPS * AL_BOUNCE;

    port->bounce = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (port->bounce == MAP_FAILED) {
        al_log("no memory for %zu bytes of buffers", size);
        return false;
    }
    if (utofu_reg_mem(port->vcq, port->bounce, size, 0, &port->bounce_stadd) == UTOFU_SUCCESS)
        return true;
    al_log("%zu bytes of buffers cannot be registered: %s", size, lc_utofu_error());
    munmap(port->bounce, size);
    return false;
}

static bool open_vcq(struct al_port *port, uint32_t color)
{
    if (utofu_create_vcq_with_cmp_id(al.net.tnis[color], AL_COMP_WORK, UTOFU_VCQ_FLAG_THREAD_SAFE,
                                     &port->vcq) != UTOFU_SUCCESS) {
        al_log("no VCQ with component id %d on TNI %u, for color %u: %s", AL_COMP_WORK,
               al.net.tnis[color], color, lc_utofu_error());
        return false;
    }
    if (utofu_query_vcq_id(port->vcq, &port->id) == UTOFU_SUCCESS)
        return true;
    al_log("the VCQ for color %u has no id: %s", color, lc_utofu_error());
    al_expect(utofu_free_vcq(port->vcq), "utofu_free_vcq");
    return false;
}

bool al_port_open(uint32_t color)
{
    struct al_port *port;

    if (al.net.ports[color] != NULL)
        return true;
    port = calloc(1, sizeof(*port));
    if (port == NULL || !open_vcq(port, color)) {
        free(port);
        return false;
    }
    if (!open_bounce(port)) {
        al_expect(utofu_free_vcq(port->vcq), "utofu_free_vcq");
        free(port);
        return false;
    }
    for (uint32_t i = 0; i < AL_OPS; i++) {
        port->ops[i].color = (uint8_t)color;
        port->ops[i].index = (uint8_t)i;
        port->free_ops[port->num_free++] = (uint8_t)(AL_OPS - 1 - i);
    }
    port->open = true;
    al.net.ports[color] = port;
    return true;
}

void al_net_close(void)
{
    for (uint32_t i = 0; i < AL_MAX_COLORS; i++) {
        if (al.net.ports[i] == NULL)
            continue;
        al_expect(utofu_dereg_mem(al.net.ports[i]->vcq, al.net.ports[i]->bounce_stadd, 0),
                  "utofu_dereg_mem");
        munmap(al.net.ports[i]->bounce, AL_OPS * AL_BOUNCE);
        al_expect(utofu_free_vcq(al.net.ports[i]->vcq), "utofu_free_vcq");
        free(al.net.ports[i]);
        al.net.ports[i] = NULL;
    }
}

struct al_port *al_port(uint32_t color)
{
    return al.net.ports[color];
}

bool al_port_is_id(utofu_vcq_id_t id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    return utofu_query_vcq_info(id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS;
}

bool al_port_id_of(utofu_vcq_id_t color0_id, uint32_t color, utofu_vcq_id_t *id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    *id = color0_id;
    return color == 0 ||
           (utofu_query_vcq_info(color0_id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS &&
            utofu_construct_vcq_id(coords, al.net.tnis[color], cq, AL_COMP_WORK, id) ==
                UTOFU_SUCCESS);
}

struct al_op *al_op_take(uint32_t color, struct al_task *task, uint32_t rank,
                         void (*done)(struct al_op *op, int rc, uint64_t old_value))
{
    struct al_port *port = al.net.ports[color];
    struct al_op *op;

    if (port->num_free == 0)
        return NULL;
    op = &port->ops[port->free_ops[--port->num_free]];
    op->done = done;
    op->task = task;
    op->rank = rank;
    op->busy = true;
    al.net.num_busy++;
    return op;
}

static void give_back(struct al_op *op)
{
    struct al_port *port = al.net.ports[op->color];

    op->busy = false;
    port->free_ops[port->num_free++] = op->index;
    al.net.num_busy--;
}

/* The op may be taken again by what it calls. */
static void end_op(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_op was = *op;

    if (al.dying) {
        give_back(op);
        return;
    }
    if (rc == UTOFU_ERR_MRQ_PEER && !al.leaving)
        al_fatal("rank %u has ended or cannot be reached, so the job ends: %s", op->rank,
                 lc_utofu_error());
    give_back(op);
    was.done(&was, rc, old_value);
}

void *al_op_bounce(struct al_op *op)
{
    return al.net.ports[op->color]->bounce[op->index];
}

utofu_stadd_t al_op_bounce_stadd(struct al_op *op)
{
    return al.net.ports[op->color]->bounce_stadd + (utofu_stadd_t)op->index * AL_BOUNCE;
}

/* What a start function returned. */
static bool is_started(struct al_op *op, int rc)
{
    if (rc == UTOFU_SUCCESS)
        return true;
    if (rc == UTOFU_ERR_BUSY) {
        give_back(op);
        return false;
    }
    end_op(op, rc, 0);
    return true;
}

bool al_op_put(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags)
{
    return is_started(op, utofu_put(al.net.ports[op->color]->vcq, id, lcl, rmt, size, op->index,
                                    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, op));
}

bool al_op_put_now(struct al_op *op, utofu_vcq_id_t id, const void *data, utofu_stadd_t rmt,
                   size_t size, unsigned long int flags)
{
    uint64_t copy[4];

    memcpy(copy, data, size);
    return is_started(op, utofu_put_piggyback(al.net.ports[op->color]->vcq, id, copy, rmt, size,
                                              op->index,
                                              UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, op));
}

bool al_op_get(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size)
{
    return is_started(op, utofu_get(al.net.ports[op->color]->vcq, id, lcl, rmt, size, op->index,
                                    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
}

bool al_op_add(struct al_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt)
{
    return is_started(op, utofu_armw8(al.net.ports[op->color]->vcq, id, UTOFU_ARMW_OP_ADD, value,
                                      rmt, op->index, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op));
}

bool al_op_armw(struct al_op *op, utofu_vcq_id_t id, enum utofu_armw_op code, uint32_t width,
                uint64_t operand, utofu_stadd_t rmt)
{
    const unsigned long int flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    utofu_vcq_hdl_t vcq = al.net.ports[op->color]->vcq;

    return is_started(
        op, width == 4 ? utofu_armw4(vcq, id, code, (uint32_t)operand, rmt, op->index, flags, op)
                       : utofu_armw8(vcq, id, code, operand, rmt, op->index, flags, op));
}

bool al_op_cswap(struct al_op *op, utofu_vcq_id_t id, uint32_t width, uint64_t old_value,
                 uint64_t new_value, utofu_stadd_t rmt)
{
    const unsigned long int flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    utofu_vcq_hdl_t vcq = al.net.ports[op->color]->vcq;

    return is_started(
        op, width == 4 ? utofu_cswap4(vcq, id, (uint32_t)old_value, (uint32_t)new_value, rmt,
                                      op->index, flags, op)
                       : utofu_cswap8(vcq, id, old_value, new_value, rmt, op->index, flags, op));
}

/* Makes room in the TOQ; what could not be sent is reported here alone. */
static bool poll_tcq(struct al_port *port)
{
    void *cbdata;
    int rc = utofu_poll_tcq(port->vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    if (rc <= UTOFU_ERR_TCQ_OTHER && rc > UTOFU_ERR_MRQ_OTHER)
        end_op(cbdata, rc, 0);
    return true;
}

void al_net_take(struct al_port *port, int rc, const struct utofu_mrq_notice *notice)
{
    if (rc <= UTOFU_ERR_INVALID_ARG)
        al_fatal("the MRQ cannot be polled: %s", lc_utofu_error());
    if (al_net_is_own(notice))
        end_op(&port->ops[notice->edata], rc, notice->rmt_value);
    else if (notice->notice_type != UTOFU_MRQ_TYPE_RMT_PUT)
        al_log("the notice of a get or an atomic of VCQ 0x%llx, where none is expected: another "
               "program's?",
               (unsigned long long)notice->vcq_id);
    else if (!al.dying)
        al.up->arrived(notice->rmt_stadd);
}

static bool poll_mrq(struct al_port *port)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(port->vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    al_net_take(port, rc, &notice);
    return true;
}

static bool empty_tcq(struct al_port *port)
{
    bool any = false;

    while (poll_tcq(port))
        any = true;
    return any;
}

/* One notice at a time, so that a call that waits for it returns at once. The TCQ reports errors
 * only. */
static bool poll_port(struct al_port *port)
{
    bool any = poll_mrq(port);

    if (++port->polls % TCQ_PERIOD == 0)
        any |= empty_tcq(port);
    return any;
}

size_t al_net_vcqs(utofu_vcq_hdl_t vcqs[AL_MAX_COLORS])
{
    size_t n = 0;

    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL)
            vcqs[n++] = al.net.ports[i]->vcq;
    return n;
}

bool al_net_quiet(void)
{
    for (int polls = 0; polls < QUIET_POLLS && al.net.num_busy > 0; polls++)
        al_net_poll();
    return al.net.num_busy == 0;
}

bool al_net_poll(void)
{
    bool any = false;

    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL && poll_port(al.net.ports[i]))
            any = true;
    return any;
}

void al_net_wake(void)
{
    if (al.net.ports[0] != NULL)
        al_expect(utofu_wake_vcq(al.net.ports[0]->vcq), "utofu_wake_vcq");
}
