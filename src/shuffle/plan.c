/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which operations an operation waits for, its pieces, and their delays. The manual
 * promises order within a line of PROV_TOFU_LINE bytes, so pieces end at line boundaries of the
 * written memory.
 */
#include "link/link.h"
#include "shuffle/inner.h"

static bool is_of_slot(uint64_t cookie)
{
    return (cookie & 7) == UT_COOKIE_SLOT;
}

static void bind_to_slot(struct sh_op *op, const struct ut_slot *slot)
{
    op->strong |= (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) != 0;
    op->path = (uint8_t)ut_desc_path(&slot->desc);
    op->vcq_id = slot->desc.rmt_vcq_id;
}

/* The TOQ slot of an operation. A message to a target that executes an ARMW has the slot of the
 * ARMW, and no completion. */
static const struct ut_slot *slot_of(const struct ut_vcq *vcq, const struct sh_op *op)
{
    const struct ut_msg_head *head = (const struct ut_msg_head *)op->data;

    if (is_of_slot(op->xfer.cookie))
        return &vcq->toq[op->xfer.cookie >> 3 & vcq->toq_mask];
    if (op->kind == SH_SEND && op->size >= sizeof(*head) && head->type == UT_MSG_ARMW)
        return &vcq->toq[head->slot & vcq->toq_mask];
    return NULL;
}

void sh_bind(const struct sh_conn *conn, struct sh_op *op)
{
    const struct ut_slot *slot = slot_of(conn->ep->owner, op);

    op->fenced = op->xfer.flags & PROV_FENCE;
    op->notifies = op->kind == SH_SEND || (op->kind == SH_WRITE && op->xfer.flags & PROV_NOTIFY);
    op->own = op->kind == SH_SEND && is_of_slot(op->xfer.cookie);
    op->hidden = op->kind == SH_READ && !is_of_slot(op->xfer.cookie);
    if (slot && !op->own)
        bind_to_slot(op, slot);
}

/* The number of line boundaries between the first and the last byte. */
static uint32_t draw_boundaries(uint64_t at, uint32_t length)
{
    return length ? (uint32_t)((at + length - 1) / PROV_TOFU_LINE - at / PROV_TOFU_LINE) : 0;
}

/* Inserts an offset into the sorted list of cuts, unless the list has it. */
static unsigned int add_cut(uint32_t *cuts, unsigned int n, uint32_t offset)
{
    unsigned int i = n;

    for (unsigned int k = 0; k < n; k++)
        if (cuts[k] == offset)
            return n;
    for (; i > 0 && cuts[i - 1] > offset; i--)
        cuts[i] = cuts[i - 1];
    cuts[i] = offset;
    return n + 1;
}

static void cut_pieces(const struct sh_conn *conn, struct sh_op *op)
{
    uint64_t at = op->kind == SH_READ ? (uintptr_t)op->xfer.lcl : op->xfer.rmt;
    uint32_t max = draw_boundaries(at, op->xfer.length),
             first = PROV_TOFU_LINE - (uint32_t)(at % PROV_TOFU_LINE);
    uint32_t cuts[SH_MAX_PIECES] = {0};
    unsigned int n = 0;
    uint64_t wanted = sh_draw(conn->ep->id, conn->peer_id, op->number, SH_DRAW_CUTS);

    if (max > 0) /* the last line is a separate piece */
        n = add_cut(cuts, n, first + (max - 1) * PROV_TOFU_LINE);
    for (unsigned int k = 0; max > 0 && k < wanted % (SH_MAX_PIECES - 1); k++) {
        uint64_t drawn = sh_draw(conn->ep->id, conn->peer_id, op->number, SH_DRAW_CUT + k);
        n = add_cut(cuts, n, first + (uint32_t)(drawn % max) * PROV_TOFU_LINE);
    }
    op->num_pieces = (uint8_t)(n + 1);
    for (unsigned int k = 0; k <= n; k++) {
        uint32_t from = k ? cuts[k - 1] : 0, to = k < n ? cuts[k] : op->xfer.length;
        op->piece[k] = (struct sh_piece){.offset = from, .length = to - from};
    }
}

void sh_plan(const struct sh_conn *conn, struct sh_op *op, uint64_t now_us)
{
    uint64_t id = conn->ep->id, peer = conn->peer_id;
    uint64_t late = sh_delay_us(sh_draw(id, peer, op->number, SH_DRAW_LATE));

    op->num_pieces = op->kind != SH_EMPTY;
    if (op->kind == SH_WRITE || op->kind == SH_READ)
        cut_pieces(conn, op);
    for (unsigned int k = 0; k < op->num_pieces && !op->hidden; k++)
        op->piece[k].due_us =
            now_us + late +
            (op->num_pieces > 1 ? sh_delay_us(sh_draw(id, peer, op->number, SH_DRAW_PIECE + k))
                                : 0);
}
