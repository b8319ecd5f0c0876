/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order in which an adapter places arriving data. The specification promises that data is there
 * when a later receive, or the answer to a later read, reports it; not the order in which separate
 * writes, or the parts of one, become visible to a CPU that polls memory. Packets overtake each
 * other in networks with adaptive routing, and PCIe writes are stored by cache lines.
 *
 * The order of a device is a unit (enum vp_unit): the bytes of an aligned block of this size are
 * placed in ascending order. It follows from the device's answer, the architecture and the memory
 * keys. The ends of a connection tell each other their units, and the connection has the smaller.
 *
 *   unit            condition
 *   whole message   IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG; Soft-RoCE whose kernel copies forwards;
 *                   UTOFU_VERBS_ORDER=trust
 *   128 bytes       IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
 *   64 bytes        x86 without a promise, or with keys of relaxed ordering: the CPU's cache line
 *   8 bytes         other architectures and other Soft-RoCE; UTOFU_VERBS_ORDER=safe: only a word
 *                   is certain
 *
 * What a transfer becomes (vp_split_by_order, post.c; * if requests are outstanding):
 *
 *   unit            write    strong write of one unit   longer strong write
 *   whole message   WRITE    WRITE                      WRITE
 *   smaller         WRITE    READ*, fenced WRITE        READ*, WRITE, READ, fenced WRITE
 *
 * The last of these WRITEs has the last unit, or the data in it. The last unit of a strong read is
 * a fenced READ after the rest. With immediate data the last WRITE has it, which orders the notice
 * after all data, but not the data.
 */
#ifndef VP_ORDER_H
#define VP_ORDER_H

#include <stdbool.h>

#include "verbs/prov_types.h"

/* Sets the order of a device and the kind of its memory keys, from UTOFU_VERBS_ORDER or from what
 * is known of the device. `qp` is one of its unconnected queue pairs, and is connected to itself
 * through one of the device's ports. */
void vp_detect_order(struct vp_device *dev, const struct vp_port *port, struct ibv_qp *qp);

/* Does the kernel of this release, on a CPU with or without FSRM, copy memory in ascending order?
 */
bool vp_kernel_copies_forward(const char *release, bool has_fsrm);

/* The unit for the order of the device. */
enum vp_unit vp_unit_of(const struct vp_device *dev);

/* The unit for a connected queue pair: its path may have no promise where its device made one. */
enum vp_unit vp_qp_unit(const struct vp_device *dev, struct ibv_qp *qp);

/* 0: all data is in order. */
uint32_t vp_unit_bytes(enum vp_unit unit);

static inline uint8_t vp_weaker_unit(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* Parts of a transfer that are separate requests: bytes of the first and of the last one; 0: there
 * is no such part. The last part waits for the requests before it. */
struct vp_order_split {
    uint32_t head, tail;
};

/* `to` is the destination address. If a transfer is longer than a packet, no unit spans two
 * packets: all packets of a message are full but the last one, and if the first one ends with a
 * unit, so do the others. */
struct vp_order_split vp_split_by_order(enum vp_unit unit, uint64_t to, uint32_t length,
                                        uint32_t packet, bool strong);

/*
 * An adapter acknowledges data when it has received it, which may be before the data is in memory
 * for a CPU that reads what another adapter of the host has placed there. If the processes of a
 * host use several ports, a PROV_LANDED write is followed by a read, which pushes the data.
 */
bool vp_needs_read_flush(const struct vp_prov *prov);

/* For printing: "order", or "any order but for units of 64 bytes"; and how the order is known. */
enum { VP_ORDER_TEXT = 48 };
const char *vp_unit_text(enum vp_unit unit, char text[VP_ORDER_TEXT]);
const char *vp_order_reason(enum vp_order order);

#endif
