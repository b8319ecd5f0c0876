/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of a port: see ud.h. */
#include "ud.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/fd.h"
#include "util/hash_table.h"
#include "util/log.h"
#include "verbs/wake.h"

enum {
    RECVS = 256, /* posted receives; senders retransmit further datagrams */
    SENDS = 128,
    HEADER = 40, /* size of the header in front of each received datagram */
    BUFFER = 320,
    HOP_LIMIT = 64,
    FULL_MEMBER = 0x8000, /* bit of a P_Key */
};
_Static_assert(HEADER + VP_UD_MAX <= BUFFER, "a datagram must fit");

/* The address handle for a port, which serves all processes behind the port. */
struct ah_entry {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t sl;
    struct ibv_ah *ah;
    struct ut_hash_entry by_path;
};

struct vp_ud {
    pthread_mutex_t lock;
    struct ibv_comp_channel *channel;
    struct ibv_cq *recv_cq, *send_cq;
    struct ibv_qp *qp;
    uint8_t *slab; /* buffers of receives, followed by buffers of sends */
    struct ibv_mr *mr;
    uint32_t free_sends[SENDS], num_free;
    bool armed;
    struct ut_hash_table ahs; /* struct ah_entry */
};

/*** paths ***/

/* Returns the index of the pkey of UTOFU_VERBS_CONNECT, or of the first partition in which the port
 * is a full member, since limited members do not reach each other. -1: the port is not in the
 * partition. */
static int pkey_index(const struct vp_port *port, unsigned int count)
{
    uint16_t wanted = port->gid_index < 0 ? (uint16_t)ut_env_num(UT_ENV_VERBS_PKEY) : 0;
    __be16 raw;

    for (unsigned int i = 0; i < count; i++) {
        if (ibv_query_pkey(port->dev->context, port->num, (int)i, &raw))
            continue;
        uint16_t pkey = be16toh(raw);
        if (wanted ? (pkey | FULL_MEMBER) == (wanted | FULL_MEMBER) : pkey & FULL_MEMBER)
            return (int)i;
    }
    if (!wanted)
        return 0;
    ut_error(VP_CAT, "pkey=%#x of UTOFU_VERBS_CONNECT: %s:%u is not in this partition", wanted,
             ibv_get_device_name(port->dev->context->device), port->num);
    return -1;
}

/* By default the traffic class of librdmacm, so that the administrator's setting applies to both
 * connection managers. */
static uint8_t traffic_class(const struct vp_port *port)
{
    uint64_t wanted = ut_env_num(UT_ENV_VERBS_TRAFFIC_CLASS);

    if (wanted <= UINT8_MAX)
        return (uint8_t)wanted;
    if (port->gid_index < 0)
        return 0;
    return (uint8_t)(port->traffic_class >= 0 ? port->traffic_class : port->rdmacm_class);
}

/* RoCE: the priority follows from the traffic class, as in the kernel. InfiniBand: by default the
 * service level of the path, from the subnet manager or from the peer's packets. */
static uint8_t service_level(const struct vp_port *port, const struct vp_ud_addr *to)
{
    if (port->gid_index >= 0)
        return traffic_class(port) >> 5;
    return ut_env_is_set(UT_ENV_VERBS_SL) ? (uint8_t)ut_env_num(UT_ENV_VERBS_SL) : to->sl;
}

void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr)
{
    bool global = port->gid_index >= 0 || port->needs_grh;

    memset(attr, 0, sizeof(*attr));
    attr->port_num = port->num;
    attr->dlid = to->lid;
    attr->sl = service_level(port, to);
    if (!global)
        return;
    attr->is_global = 1;
    attr->grh.dgid = to->gid;
    attr->grh.sgid_index = (uint8_t)(port->gid_index >= 0 ? port->gid_index : 0);
    attr->grh.hop_limit = HOP_LIMIT;
    attr->grh.traffic_class = traffic_class(port);
}

int vp_ud_probe_port(struct vp_port *port, int gid_index)
{
    struct ibv_context *context = port->dev->context;
    struct ibv_port_attr attr;
    struct ibv_ah_attr path;
    struct ibv_gid_entry gid = {0};

    port->gid_index = gid_index;
    if (ibv_query_port(context, port->num, &attr))
        return -EIO;
    int rc =
        ibv_query_gid_ex(context, port->num, (uint32_t)(gid_index >= 0 ? gid_index : 0), &gid, 0);
    if (rc && gid_index >= 0)
        return -rc;
    port->at.lid = gid_index < 0 ? attr.lid : 0;
    port->at.gid = gid.gid;
    port->needs_grh = attr.flags & IBV_QPF_GRH_REQUIRED;
    port->mtu = (uint8_t)attr.active_mtu;
    int pkey = pkey_index(port, attr.pkey_tbl_len);
    if (pkey < 0)
        return -ENOENT;
    port->pkey_index = (uint16_t)pkey;
    struct ibv_pd *pd = ibv_alloc_pd(context);
    vp_ud_path(port, &port->at, &path);
    struct ibv_ah *ah = pd ? ibv_create_ah(pd, &path) : NULL;
    rc = ah ? 0 : -errno;
    if (ah)
        ibv_destroy_ah(ah);
    if (pd)
        ibv_dealloc_pd(pd);
    return rc;
}

/*** address handles ***/

static uint64_t hash_path(const struct vp_ud_addr *to)
{
    uint64_t a, b;

    memcpy(&a, to->gid.raw, 8);
    memcpy(&b, to->gid.raw + 8, 8);
    return (a ^ b) + to->lid;
}

static struct ibv_ah *find_ah(struct vp_ud *ud, const struct vp_ud_addr *to)
{
    const struct ah_entry *entry;

    UT_HASH_FOREACH (entry, &ud->ahs, hash_path(to), by_path) {
        if (entry->lid == to->lid && entry->sl == to->sl &&
            memcmp(&entry->gid, &to->gid, sizeof(entry->gid)) == 0)
            return entry->ah;
    }
    return NULL;
}

static int add_ah(struct vp_ud *ud, const struct vp_ud_addr *to, struct ibv_ah *ah)
{
    struct ah_entry *entry = ut_hash_reserve(&ud->ahs) ? malloc(sizeof(*entry)) : NULL;

    if (!entry)
        return -ENOMEM;
    *entry = (struct ah_entry){.gid = to->gid, .lid = to->lid, .sl = to->sl, .ah = ah};
    ut_hash_insert(&ud->ahs, &entry->by_path, hash_path(to));
    return 0;
}

int vp_ud_resolve(struct vp_port *port, const struct vp_ud_addr *to)
{
    struct vp_ud *ud = port->ud;
    struct ibv_ah_attr path;

    pthread_mutex_lock(&ud->lock);
    bool found = find_ah(ud, to);
    pthread_mutex_unlock(&ud->lock);
    if (found)
        return 0;
    vp_ud_path(port, to, &path);
    struct ibv_ah *ah = ibv_create_ah(port->dev->pd, &path); /* may take long: no lock */
    int rc = ah ? 0 : errno ? -errno : -EHOSTUNREACH;
    pthread_mutex_lock(&ud->lock);
    if (ah && !find_ah(ud, to)) {
        rc = add_ah(ud, to, ah);
        if (!rc)
            ah = NULL;
    }
    pthread_mutex_unlock(&ud->lock);
    if (ah)
        ibv_destroy_ah(ah);
    return rc;
}

/*** sending and receiving ***/

static uint8_t *buffer_at(const struct vp_ud *ud, uint64_t index)
{
    return ud->slab + index * BUFFER;
}

static int post_receive(struct vp_ud *ud, uint64_t index)
{
    struct ibv_sge sge = {(uintptr_t)buffer_at(ud, index), BUFFER, ud->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

    return -ibv_post_recv(ud->qp, &wr, &bad);
}

/* Frees the buffers of completed sends. */
static void reap_sends(struct vp_ud *ud)
{
    struct ibv_wc wc[16];
    int n;

    while ((n = ibv_poll_cq(ud->send_cq, 16, wc)) > 0)
        for (int i = 0; i < n && ud->num_free < SENDS; i++)
            ud->free_sends[ud->num_free++] = (uint32_t)wc[i].wr_id;
}

bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size)
{
    struct vp_ud *ud = port->ud;
    struct ibv_sge sge = {.length = (uint32_t)size, .lkey = ud->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    pthread_mutex_lock(&ud->lock);
    reap_sends(ud);
    wr.wr.ud.ah = find_ah(ud, to);
    bool sent = wr.wr.ud.ah && ud->num_free;
    if (sent) {
        wr.wr_id = ud->free_sends[ud->num_free - 1];
        wr.wr.ud.remote_qpn = to->qpn;
        wr.wr.ud.remote_qkey = to->qkey;
        sge.addr = (uintptr_t)buffer_at(ud, wr.wr_id);
        memcpy(buffer_at(ud, wr.wr_id), data, size);
        sent = ibv_post_send(ud->qp, &wr, &bad) == 0;
        ud->num_free -= sent;
    }
    pthread_mutex_unlock(&ud->lock);
    return sent;
}

bool vp_ud_sends_are_done(struct vp_port *port)
{
    struct vp_ud *ud = port->ud;

    pthread_mutex_lock(&ud->lock);
    reap_sends(ud);
    bool all = ud->num_free == SENDS;
    pthread_mutex_unlock(&ud->lock);
    return all;
}

/* The completion queue is armed before the last poll: the event for datagrams since the last arming
 * has already been raised. */
static int poll_one(struct vp_ud *ud, struct ibv_wc *wc)
{
    struct ibv_cq *cq;
    void *context;
    int n = ibv_poll_cq(ud->recv_cq, 1, wc);

    if (n)
        return n;
    while (ibv_get_cq_event(ud->channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        ud->armed = false;
    }
    if (ud->armed)
        return 0;
    ud->armed = ibv_req_notify_cq(ud->recv_cq, 0) == 0;
    return ibv_poll_cq(ud->recv_cq, 1, wc);
}

size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl)
{
    struct vp_ud *ud = port->ud;
    struct ibv_wc wc;
    size_t size = 0;

    while (!size && poll_one(ud, &wc) > 0) {
        if (wc.status == IBV_WC_SUCCESS && wc.byte_len > HEADER &&
            wc.byte_len <= HEADER + VP_UD_MAX) {
            size = wc.byte_len - HEADER;
            *sl = wc.sl;
            memcpy(data, buffer_at(ud, wc.wr_id) + HEADER, size);
        }
        if (wc.status != IBV_WC_WR_FLUSH_ERR && post_receive(ud, wc.wr_id))
            ut_debug(VP_CAT, "cannot post a receive for datagrams of %s again", port->name);
    }
    return size;
}

int vp_ud_fd(const struct vp_port *port)
{
    return port->ud->channel->fd;
}

/*** opening and closing ***/

static int make_queues(struct vp_ud *ud, struct vp_port *port)
{
    struct ibv_context *context = port->dev->context;
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };

    ud->slab = calloc(RECVS + SENDS, BUFFER);
    ud->mr = ud->slab ? ibv_reg_mr(port->dev->pd, ud->slab, (size_t)(RECVS + SENDS) * BUFFER,
                                   IBV_ACCESS_LOCAL_WRITE | vp_mr_access_flags(port->dev))
                      : NULL;
    ud->channel = ud->mr ? ibv_create_comp_channel(context) : NULL;
    if (!ud->channel ||
        fcntl(ud->channel->fd, F_SETFL, fcntl(ud->channel->fd, F_GETFL) | O_NONBLOCK) < 0)
        return -errno;
    ut_fd_mark_ours(ud->channel->fd);
    ud->recv_cq = init.recv_cq = ibv_create_cq(context, RECVS, NULL, ud->channel, 0);
    ud->send_cq = init.send_cq = ibv_create_cq(context, SENDS, NULL, NULL, 0);
    ud->qp = ud->recv_cq && ud->send_cq ? ibv_create_qp(port->dev->pd, &init) : NULL;
    return ud->qp ? 0 : -errno;
}

static int start_qp(struct vp_ud *ud, const struct vp_port *port)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = port->pkey_index,
                               .port_num = port->num,
                               .qkey = port->at.qkey};
    int rc =
        ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    for (uint64_t i = 0; !rc && i < RECVS; i++)
        rc = -post_receive(ud, i);
    attr.qp_state = IBV_QPS_RTR;
    if (!rc)
        rc = ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (!rc)
        rc = ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    if (!rc)
        rc = ibv_req_notify_cq(ud->recv_cq, 0);
    ud->armed = !rc;
    return -rc;
}

int vp_ud_open(struct vp_prov *prov, struct vp_port *port)
{
    struct vp_ud *ud = calloc(1, sizeof(*ud));

    if (!ud)
        return -ENOMEM;
    pthread_mutex_init(&ud->lock, NULL);
    for (uint32_t i = 0; i < SENDS; i++)
        ud->free_sends[ud->num_free++] = RECVS + i;
    port->ud = ud;
    errno = ENOMEM;
    int rc = make_queues(ud, port);
    if (!rc)
        rc = start_qp(ud, port);
    if (!rc)
        rc = vp_watch(prov, ud->channel->fd, VP_WATCH_UD);
    if (rc)
        vp_ud_close(port);
    else
        port->at.qpn = ud->qp->qp_num;
    return rc;
}

void vp_ud_close(struct vp_port *port)
{
    struct vp_ud *ud = port->ud;
    struct ah_entry *entry;

    if (!ud)
        return;
    if (ud->qp)
        ibv_destroy_qp(ud->qp);
    UT_HASH_FOREACH_ALL (entry, &ud->ahs, by_path) {
        ibv_destroy_ah(entry->ah);
        free(entry);
    }
    ut_hash_free(&ud->ahs);
    if (ud->recv_cq)
        ibv_destroy_cq(ud->recv_cq);
    if (ud->send_cq)
        ibv_destroy_cq(ud->send_cq);
    if (ud->channel)
        ibv_destroy_comp_channel(ud->channel);
    if (ud->mr)
        ibv_dereg_mr(ud->mr);
    free(ud->slab);
    pthread_mutex_destroy(&ud->lock);
    free(ud);
    port->ud = NULL;
}
