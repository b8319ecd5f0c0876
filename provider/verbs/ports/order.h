/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order an adapter places what arrives. The specification promises that data is there when
 * a later receive, or a later read's answer, says so; not in which order separate writes, and the
 * parts of one, become visible to a CPU that looks at memory. Packets overtake each other where the
 * network has adaptive routing, and what an adapter hands to PCIe is stored by lines of the CPU.
 *
 * The order of a device is a unit (enum vp_unit): so many bytes, aligned to as many, are placed in
 * ascending order. It follows from the device's answer, the architecture and the memory keys. Both
 * ends of a connection tell each other theirs, and the connection has the smaller one.
 *
 *   unit            what says so
 *   whole message   IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG; Soft-RoCE; UTOFU_VERBS_ORDER=trust
 *   128 bytes       IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
 *   64 bytes        x86 without a promise, or with keys of relaxed ordering: the line of its CPUs
 *   8 bytes         other architectures; UTOFU_VERBS_ORDER=safe: a word is all that is left
 *
 * What a transfer becomes (vp_order_cut, post.c; * if anything is outstanding):
 *
 *   unit            write    strong write of one unit   longer strong write
 *   whole message   WRITE    WRITE                      WRITE
 *   smaller         WRITE    READ*, fenced WRITE        READ*, WRITE, READ, fenced WRITE
 *
 * The last of these WRITEs has the last unit, or what lies in it.
 * A strong read's last unit is a fenced READ behind the rest. With immediate data the last WRITE is
 * one with immediate data: that orders the notice behind all data, but not the data.
 */
#ifndef VP_ORDER_H
#define VP_ORDER_H

#include <stdbool.h>

#include "verbs/prov_types.h"

/* Sets the order and the kind of memory keys of a device: from UTOFU_VERBS_ORDER, or from what is
 * known of it. `qp` is one of its queue pairs that is not connected, and is connected to itself by
 * one of its ports. */
void vp_find_order(struct vp_device *dev, const struct vp_port *port, struct ibv_qp *qp);

/* The unit that follows from the order of the device. */
enum vp_unit vp_unit_of(const struct vp_device *dev);

/* The same for one queue pair that is connected: where its device made a promise, its path may
 * have none. */
enum vp_unit vp_qp_unit(const struct vp_device *dev, struct ibv_qp *qp);

/* 0: all is in order. */
uint32_t vp_unit_bytes(enum vp_unit unit);

static inline uint8_t vp_weaker_unit(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* Parts of a transfer that are requests of their own: bytes of the first and of the last one; 0:
 * there is no such part. The last one waits for what is before it. */
struct vp_cut {
    uint32_t head, tail;
};

/* `to` is the address that is written to. Of a transfer that is longer than a packet no unit is in
 * two packets: those of a message are full but for the last one, and if the first ends with a unit,
 * so do the others. */
struct vp_cut vp_order_cut(enum vp_unit unit, uint64_t to, uint32_t length, uint32_t packet,
                           bool strong);

/*
 * An adapter acknowledges what it has received, which may not be in memory yet when the CPU reads
 * what another adapter of the host has placed there. Where the processes of a host use several
 * ports, a PROV_LANDED write is followed by a read, which pushes it.
 */
bool vp_lands_later(const struct vp_prov *prov);

/* To be printed: "order", or "any order but for units of 64 bytes"; and how it is known. */
enum { VP_ORDER_TEXT = 48 };
const char *vp_unit_text(enum vp_unit unit, char text[VP_ORDER_TEXT]);
const char *vp_order_why(enum vp_order order);

#endif
