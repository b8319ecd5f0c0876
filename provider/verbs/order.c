/* SPDX-License-Identifier: Apache-2.0 */
/* In which order an adapter places what arrives: see order.h. */
#include "order.h"

#include "util/env.h"

enum { VENDOR_RXE = 0xffffff };

/* Does the queue pair promise that the bytes of a write come in order? libibverbs of rdma-core 36
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

enum vp_order vp_order_of(const struct vp_device *dev, struct ibv_qp *qp)
{
    switch (ut_env_num(UT_ENV_VERBS_ORDER)) {
    case UT_VERBS_ORDER_TRUST:
        return VP_ORDER_TRUSTED;
    case UT_VERBS_ORDER_SAFE:
        return VP_ORDER_SAFE;
    default:
        return dev->attr.vendor_id == VENDOR_RXE ? VP_ORDER_SOFTWARE : ask(qp);
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
