/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order in which an adapter places arriving data. The specification promises that the data is there
 * when a later receive, or the response to a later read, reports it. It does not promise the order
 * in which separate writes, or the parts of one write, become visible to a CPU that polls memory.
 * Packets overtake each other in networks with adaptive routing, and PCIe writes are stored by
 * cache lines.
 *
 * The order of a device is described by a unit (enum vp_unit): the adapter places the bytes of an
 * aligned block of this size in ascending order. The unit follows from the device's promise, the
 * architecture and the memory keys. The two sides of a connection exchange their units, and the
 * connection has the smaller one.
 *
 *   unit            condition
 *   whole message   IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG; Soft-RoCE whose kernel copies forwards;
 *                   UTOFU_VERBS_ORDER=trust
 *   128 bytes       IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
 *   64 bytes        x86 without a promise, or with keys of relaxed ordering: the CPU's cache line
 *   8 bytes         other architectures and other Soft-RoCE; UTOFU_VERBS_ORDER=safe: only a word
 *                   is certain
 *
 * Requests of a transfer (vp_split_by_order(), post.c; * if requests are outstanding):
 *
 *   unit            write    strong write of one unit   longer strong write
 *   whole message   WRITE    WRITE                      WRITE
 *   smaller         WRITE    READ*, fenced WRITE        READ*, WRITE, READ, fenced WRITE
 *
 * The last of these WRITEs contains the last unit, or the data in it. A strong read ends with a
 * fenced READ of its last unit. The last WRITE carries the immediate data: this orders the notice
 * after all data, but not the data.
 */
#ifndef VP_ORDER_H
#define VP_ORDER_H

#include <stdbool.h>

#include "verbs/prov_types.h"

/* Sets the order of a device and the kind of its memory keys, from UTOFU_VERBS_ORDER or from the
 * device's properties. `qp` must be an unconnected queue pair of the device; this connects it to
 * itself through one of the device's ports. */
void vp_detect_order(struct vp_device *dev, const struct vp_port *port, struct ibv_qp *qp);

/* True if the kernel of this release, on a CPU with or without FSRM, copies memory in ascending
 * order. */
bool vp_kernel_copies_forward(const char *release, bool has_fsrm);

/* Returns the unit for the order of the device. */
enum vp_unit vp_unit_of(const struct vp_device *dev);

/* Returns the unit for a connected queue pair: its path may have no promise although its device
 * made one. */
enum vp_unit vp_qp_unit(const struct vp_device *dev, struct ibv_qp *qp);

/* Returns the size of a unit; 0: all data is in order. */
uint32_t vp_unit_bytes(enum vp_unit unit);

static inline uint8_t vp_weaker_unit(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* Parts of a transfer that are separate requests: sizes of the first and the last one; 0: no such
 * part. The last part waits for the earlier requests. */
struct vp_order_split {
    uint32_t head, tail;
};

/* Splits a transfer to the address `to`. If the transfer is longer than a packet, no unit spans two
 * packets: all packets of a message but the last are full, so if the first one ends with a unit,
 * the others do too. */
struct vp_order_split vp_split_by_order(enum vp_unit unit, uint64_t to, uint32_t length,
                                        uint32_t packet, bool strong);

/*
 * True if a PROV_DELIVERY_COMPLETE write needs a read behind it, which pushes the data into memory:
 * when the processes of a host use several ports. An adapter acknowledges received data possibly
 * before the data is in memory for a CPU that reads what another adapter of the host has placed
 * there.
 */
bool vp_needs_read_flush(const struct vp_prov *prov);

/* For printing: "order", or "any order but for units of 64 bytes"; and how the order is known. */
enum { VP_ORDER_TEXT = 48 };
const char *vp_unit_text(enum vp_unit unit, char text[VP_ORDER_TEXT]);
const char *vp_order_reason(enum vp_order order);

#endif
