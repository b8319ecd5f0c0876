/* SPDX-License-Identifier: Apache-2.0 */
/* Enhanced connection establishment: see ece.h. Needs libibverbs and librdmacm of rdma-core 31 or
 * later. Most devices have no ECE options. */
#include "ece.h"

#include <errno.h>
#include <string.h>

#include "util/log.h"

#ifdef VP_HAS_ECE
static const struct vp_ece no_ece;

static struct vp_ece known_options(const struct ibv_ece *ece)
{
    struct vp_ece out = {ece->vendor_id, ece->options};

    return out.vendor_id && out.options && !ece->comp_mask ? out : no_ece;
}

struct vp_ece vp_ece_of(struct ibv_qp *qp)
{
    struct ibv_ece ece = {0};

    return ibv_query_ece(qp, &ece) ? no_ece : known_options(&ece);
}

int vp_ece_use(struct ibv_qp *qp, const struct vp_ece *ece)
{
    struct ibv_ece wanted = {.vendor_id = ece->vendor_id, .options = ece->options};

    return vp_ece_of(qp).vendor_id == ece->vendor_id ? -ibv_set_ece(qp, &wanted) : -EOPNOTSUPP;
}

void vp_ece_send(struct rdma_cm_id *id, const struct vp_ece *ece)
{
    struct ibv_ece ours = {.vendor_id = ece->vendor_id, .options = ece->options};

    if (ece->options && rdma_set_local_ece(id, &ours))
        ut_debug(VP_CAT, "ECE options are not offered:  %s", strerror(errno));
}

struct vp_ece vp_ece_received(struct rdma_cm_id *id)
{
    struct ibv_ece peer_ece = {0};

    return rdma_get_remote_ece(id, &peer_ece) ? no_ece : known_options(&peer_ece);
}
#else
struct vp_ece vp_ece_of(struct ibv_qp *qp)
{
    (void)qp;
    return (struct vp_ece){0};
}

int vp_ece_use(struct ibv_qp *qp, const struct vp_ece *ece)
{
    (void)qp, (void)ece;
    return -EOPNOTSUPP;
}

void vp_ece_send(struct rdma_cm_id *id, const struct vp_ece *ece)
{
    (void)id, (void)ece;
}

struct vp_ece vp_ece_received(struct rdma_cm_id *id)
{
    (void)id;
    return (struct vp_ece){0};
}
#endif
