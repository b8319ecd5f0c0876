/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query of a path: see lid.h. A subnet manager may assign other LIDs than those in address records
 * while the job runs, or route packets by another service level. A route of the family AF_IB needs
 * no IP address: Linux 6.1, drivers/infiniband/core/cma.c, cma_resolve_ib_dev() and
 * cma_query_ib_route(); rdma-core 65, librdmacm/cma.c, ucma_query_path().
 */
#include "lid.h"

#include <infiniband/ib.h>
#include <poll.h>
#include <string.h>

#include "util/fd.h"
#include "util/log.h"

#ifndef AF_IB
#    define AF_IB 27
#endif

static struct sockaddr_ib ib_address(const union ibv_gid *gid, __be16 pkey)
{
    struct sockaddr_ib addr = {.sib_family = AF_IB, .sib_pkey = pkey};

    memcpy(&addr.sib_addr, gid->raw, sizeof(gid->raw));
    return addr;
}

/* Waits for the next event. True if it is the wanted one. */
static bool await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted,
                        int timeout_ms)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&fd, 1, timeout_ms) != 1 || rdma_get_cm_event(channel, &event))
        return false;
    bool is_it = event->event == wanted;
    if (!is_it)
        ut_debug(VP_CAT, "asking for a LID: %s, status %d", rdma_event_str(event->event),
                 event->status);
    rdma_ack_cm_event(event);
    return is_it;
}

static uint16_t resolve_lid(struct rdma_cm_id *id, struct sockaddr_ib *from, struct sockaddr_ib *to,
                            int timeout_ms, uint8_t *sl)
{
    if (rdma_resolve_addr(id, (struct sockaddr *)(void *)from, (struct sockaddr *)(void *)to,
                          timeout_ms) ||
        !await_event(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms) ||
        rdma_resolve_route(id, timeout_ms) ||
        !await_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, timeout_ms))
        return 0;
    if (!id->route.num_paths)
        return 0;
    *sl = id->route.path_rec[0].sl;
    return be16toh(id->route.path_rec[0].dlid);
}

uint16_t vp_query_lid(const struct vp_port *from, const union ibv_gid *gid, int timeout_ms,
                      uint8_t *sl)
{
    ut_fd_reserve_stdio();
    struct rdma_event_channel *channel = rdma_create_event_channel();
    ut_fd_release_stdio();
    struct rdma_cm_id *id = NULL;
    __be16 pkey;
    uint16_t lid = 0;

    if (!channel)
        return 0; /* there is no /dev/infiniband/rdma_cm */
    if (ibv_query_pkey(from->dev->context, from->num, from->pkey_index, &pkey) == 0 &&
        rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0) {
        struct sockaddr_ib source = ib_address(&from->at.gid, pkey), dest = ib_address(gid, pkey);
        lid = resolve_lid(id, &source, &dest, timeout_ms, sl);
        rdma_destroy_id(id);
    }
    rdma_destroy_event_channel(channel);
    return lid;
}
