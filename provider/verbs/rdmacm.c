/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of librdmacm: see rdmacm.h. */
#include "rdmacm.h"

#include <errno.h>
#include <string.h>

#include "address.h"
#include "ep_types.h"
#include "util/env.h"
#include "util/log.h"

/* Of enum ib_cm_rej_reason, by the kernel of the peer: nobody listens. */
enum { REJ_INVALID_SERVICE_ID = 8 };

struct reject_msg {
    uint8_t magic[4];
    uint8_t refusal;
};

static const uint8_t reject_magic[4] = {'u', 'T', 'f', 'R'};

void vp_cm_refuse(struct rdma_cm_id *id, enum vp_refusal refusal)
{
    struct reject_msg msg = {.refusal = (uint8_t)refusal};

    memcpy(msg.magic, reject_magic, sizeof(reject_magic));
    rdma_reject(id, &msg, sizeof(msg));
}

void vp_cm_drop_id(struct vp_conn *conn)
{
    if (!conn->id.cm)
        return;
    if (conn->phase == VP_UP)
        rdma_disconnect(conn->id.cm); /* fails if the peer was first */
    else if (conn->phase == VP_REQUESTED || conn->phase == VP_ACCEPTING)
        vp_cm_refuse(conn->id.cm, conn->ep->closing ? VP_REFUSED_NO_ENDPOINT
                                  : conn->no_room   ? VP_REFUSED_BUSY
                                                    : VP_REFUSED_BY_CORE);
    rdma_destroy_id(conn->id.cm);
    conn->id.cm = NULL;
}

enum vp_refusal vp_cm_refusal(const struct rdma_cm_event *event)
{
    struct reject_msg msg;

    if (event->status == REJ_INVALID_SERVICE_ID || event->status == -ECONNREFUSED)
        return VP_REFUSED_DEAD;
    if (event->param.conn.private_data_len >= sizeof(msg)) {
        memcpy(&msg, event->param.conn.private_data, sizeof(msg));
        if (memcmp(msg.magic, reject_magic, sizeof(reject_magic)) == 0)
            return (enum vp_refusal)msg.refusal;
    }
    return VP_REFUSED_BUSY;
}

void vp_cm_mark(struct rdma_cm_id *id)
{
    uint64_t wanted = ut_env_num(UT_ENV_VERBS_TRAFFIC_CLASS);
    uint8_t traffic_class = (uint8_t)wanted;

    if (wanted > UINT8_MAX)
        return;
    if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
                        sizeof(traffic_class)))
        ut_error(VP_CAT, "UTOFU_VERBS_TRAFFIC_CLASS=%u is not used: %s", traffic_class,
                 strerror(errno));
}

int vp_cm_resolve(struct vp_prov *prov, struct vp_id *id, struct vp_port *port,
                  const union vp_sockaddr *peer)
{
    union vp_sockaddr from = port->addr, to = *peer;
    int timeout_ms = (int)prov->tuning.step_ms / 2;

    vp_set_ip_port(&from, 0);
    if (rdma_create_id(prov->channel, &id->cm, id, RDMA_PS_TCP))
        return -errno;
    vp_cm_mark(id->cm);
    return rdma_resolve_addr(id->cm, &from.sa, &to.sa, timeout_ms) ? -errno : 0;
}
