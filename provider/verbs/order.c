/* SPDX-License-Identifier: Apache-2.0 */
/* In which order an adapter places what arrives: see order.h. */
#include "order.h"

#include "ud.h"
#include "util/env.h"
#include "util/log.h"

enum { VENDOR_RXE = 0xffffff };

/* Does the queue pair, which is in RTS (rdma-core's mlx5_query_qp_data_in_order() answers 0 in
 * every other state), promise that the bytes of a write come in order? libibverbs of rdma-core 36
 * and later can ask. The promise is for one message; a device that keeps the packets of a message
 * in order does so because it keeps all of the queue pair's in order. That of newer versions for
 * aligned 128 bytes only would be of no use here: lines have 256. */
static enum vp_order ask(struct ibv_qp *qp)
{
#ifdef VP_HAS_DATA_IN_ORDER
    return ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1 ? VP_ORDER_PROMISED
                                                                     : VP_ORDER_UNKNOWN;
#else
    (void)qp;
    return VP_ORDER_UNASKED;
#endif
}

/* Brings a queue pair to RTS; nothing is sent by it. */
static bool connect_to_itself(const struct vp_device *dev, const struct vp_port *port,
                              struct ibv_qp *qp)
{
    struct vp_ud_addr own = {.qpn = qp->qp_num};
    struct ibv_gid_entry gid;
    struct ibv_port_attr about;
    uint32_t index = (uint32_t)(port->gid_index >= 0 ? port->gid_index : 0);

    if (ibv_query_port(dev->context, port->num, &about) ||
        ibv_query_gid_ex(dev->context, port->num, index, &gid, 0))
        return false;
    own.gid = gid.gid;
    own.lid = about.lid;
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = port->pkey_index,
                               .port_num = port->num,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = about.active_mtu,
                              .dest_qp_num = qp->qp_num,
                              .min_rnr_timer = 12};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
    vp_ud_path(port, &own, &rtr.ah_attr);
    return ibv_modify_qp(qp, &init,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
               0 &&
           ibv_modify_qp(qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
               0 &&
           ibv_modify_qp(qp, &rts,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

enum vp_order vp_order_of(const struct vp_device *dev, const struct vp_port *port,
                          struct ibv_qp *qp)
{
    switch (ut_env_num(UT_ENV_VERBS_ORDER)) {
    case UT_VERBS_ORDER_TRUST:
        return VP_ORDER_TRUSTED;
    case UT_VERBS_ORDER_SAFE:
        return VP_ORDER_SAFE;
    default:
        if (dev->attr.vendor_id == VENDOR_RXE)
            return VP_ORDER_SOFTWARE;
        if (!connect_to_itself(dev, port, qp))
            ut_debug(VP_CAT, "a queue pair of %s cannot be connected to itself",
                     ibv_get_device_name(dev->context->device));
        return ask(qp);
    }
}

bool vp_qp_has_any_order(const struct vp_device *dev, struct ibv_qp *qp)
{
    if (dev->order == VP_ORDER_PROMISED)
        return vp_is_any_order(ask(qp));
    return vp_has_any_order(dev);
}

bool vp_lands_later(const struct vp_prov *prov)
{
    return prov->many_ports && ut_env_num(UT_ENV_VERBS_ORDER) != UT_VERBS_ORDER_TRUST;
}

const char *vp_order_why(enum vp_order order)
{
    static const char *const texts[] = {
        [VP_ORDER_UNKNOWN] = "the adapter promises none",
        [VP_ORDER_UNASKED] = "this libibverbs cannot ask",
        [VP_ORDER_SAFE] = "UTOFU_VERBS_ORDER=safe",
        [VP_ORDER_TRUSTED] = "UTOFU_VERBS_ORDER=trust",
        [VP_ORDER_PROMISED] = "the adapter promises it",
        [VP_ORDER_SOFTWARE] = "Soft-RoCE keeps it",
    };

    return texts[order];
}
