/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of unreliable queue pairs: lost, duplicated and delayed by faults. */
#include "daemon.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_MOST_US = 20000, IP_HEADER = 20, CONTROLLED_QKEY = 1 << 31 };

/* In flight. */
struct datagram {
    struct timer timer;
    struct ibv_wc wc;
    uint32_t qpn, qkey, size;
    uint8_t port;
    bool solicited;
    uint8_t data[AD_GRH + 4096];
};

/* The port that has the address; 0: none. */
uint8_t port_at(const struct ibv_ah_attr *attr)
{
    for (int p = 0; p < profile.device.attr.phys_port_cnt; p++) {
        const struct ad_port *port = &profile.device.ports[p];
        if (!attr->is_global && attr->dlid && attr->dlid == port->attr.lid)
            return (uint8_t)(p + 1);
        for (uint32_t i = 0; attr->is_global && i < port->num_gids; i++)
            if (memcmp(&port->gids[i].gid, &attr->grh.dgid, sizeof(attr->grh.dgid)) == 0)
                return (uint8_t)(p + 1);
    }
    return 0;
}

/* InfiniBand: does a packet of this service level get through? */
bool is_let_through(const struct ibv_ah_attr *attr)
{
    return attr->is_global || !fault_sl() || attr->sl == fault_sl();
}

bool ports_reach(uint8_t from, uint8_t to)
{
    return from == to || (to && (profile.one_fabric || profile.switched));
}

/* Limited members reach full ones only. */
bool share_partition(const struct qp *a, const struct qp *b)
{
    uint16_t x = profile.device.ports[a->attr.port_num - 1].pkeys[a->attr.pkey_index];
    uint16_t y = profile.device.ports[b->attr.port_num - 1].pkeys[b->attr.pkey_index];

    return (x | AD_FULL_MEMBER) == (y | AD_FULL_MEMBER) && (x | y) & AD_FULL_MEMBER;
}

static void arrive(const struct datagram *d)
{
    struct qp *to = qp_find(d->qpn), *from = qp_find(d->wc.src_qp);

    if (!to || !from || !share_partition(from, to) || to->type != IBV_QPT_UD ||
        to->attr.port_num != d->port || to->attr.qkey != d->qkey ||
        (to->attr.qp_state != IBV_QPS_RTR && to->attr.qp_state != IBV_QPS_RTS))
        return;
    struct ibv_wc wc = d->wc;
    wc.qp_num = to->qpn;
    receive_datagram(to, &wc, d->data, d->size, d->solicited);
}

static void arrive_late(struct timer *timer)
{
    struct datagram *d = vp_container_of(timer, struct datagram, timer);

    arrive(d);
    free(d);
}

static void delay(const struct datagram *d)
{
    struct datagram *copy = malloc(sizeof(*copy));

    if (!copy)
        abort();
    *copy = *d;
    timer_init(&copy->timer, arrive_late);
    timer_set(&copy->timer, now_ns() + random_below(LATE_MOST_US) * UINT64_C(1000));
}

/* The GRH; with RoCE v2 over IPv4 the IP header is in its last bytes. */
static void put_header(struct datagram *d, const struct ibv_ah_attr *attr)
{
    const struct ad_port *port = &profile.device.ports[attr->port_num - 1];
    const uint8_t *from = port->gids[attr->grh.sgid_index].gid.raw, *to = attr->grh.dgid.raw;
    bool v4 = to[10] == 0xff && to[0] == 0;

    memset(d->data, 0, AD_GRH);
    if (!attr->is_global)
        return;
    d->wc.wc_flags |= IBV_WC_GRH;
    if (v4) {
        d->data[AD_GRH - IP_HEADER] = 0x45;
        memcpy(d->data + AD_GRH - 8, from + 12, 4);
        memcpy(d->data + AD_GRH - 4, to + 12, 4);
    } else {
        d->data[0] = 0x60;
        memcpy(d->data + 8, from, 16);
        memcpy(d->data + 24, to, 16);
    }
}

bool send_datagram(struct qp *qp, const struct ad_wqe *w, const void *data, uint32_t size)
{
    const struct ah *ah = (struct ah *)object_find(qp->base.proc, w->ah, K_AH);
    struct datagram d = {.qpn = w->remote_qpn,
                         .qkey = w->qkey & CONTROLLED_QKEY ? qp->attr.qkey : w->qkey,
                         .size = AD_GRH + size,
                         .solicited = w->flags & IBV_SEND_SOLICITED};

    if (!ah || ah->base.parent != qp->base.parent || ah->attr.port_num != qp->attr.port_num)
        return false;
    d.wc = (struct ibv_wc){.status = IBV_WC_SUCCESS,
                           .opcode = IBV_WC_RECV,
                           .byte_len = d.size,
                           .src_qp = qp->qpn,
                           .slid = profile.device.ports[qp->attr.port_num - 1].attr.lid,
                           .sl = ah->attr.sl};
    if (w->opcode == IBV_WR_SEND_WITH_IMM) {
        d.wc.imm_data = w->imm;
        d.wc.wc_flags = IBV_WC_WITH_IMM;
    }
    put_header(&d, &ah->attr);
    memcpy(d.data + AD_GRH, data, size);
    d.port = port_at(&ah->attr);
    if (!ports_reach(qp->attr.port_num, d.port) || fault_is_silent() ||
        !is_let_through(&ah->attr) || fault_hits(AD_FAULT_LOSS))
        return true;
    if (fault_hits(AD_FAULT_LATE))
        delay(&d);
    else
        arrive(&d);
    if (fault_hits(AD_FAULT_TWICE))
        arrive(&d);
    return true;
}
