/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the provider, its capabilities, and its table of functions. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "fd_guard.h"
#include "ep.h"
#include "fabric.h"
#include "net_infos.h"
#include "peer.h"
#include "rma.h"
#include "post.h"
#include "region.h"
#include "types.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "event.h"

enum { EVENTS = 16, OWNERS = 32, CHECK_MS = 1000 };

/*
 * Opening
 */

static int open_fabric(struct fp_prov *prov)
{
    struct fi_info *info = prov->info;

    size_t key_bits = 8 * info->domain_attr->mr_key_size;

    prov->mr_mode = (uint64_t)info->domain_attr->mr_mode;
    prov->key_mask = key_bits > 0 && key_bits < 64 ? ((uint64_t)1 << key_bits) - 1 : UINT64_MAX;
    prov->inject = info->tx_attr->inject_size < FP_SMALL ? info->tx_attr->inject_size : FP_SMALL;
    prov->piece = FP_PIECE;
    size_t max_ordered = fp_fabric_ordered_size(prov->lib, info);
    if (max_ordered < sizeof(struct fp_xfer) + FP_PIECE)
        prov->piece = (uint32_t)(max_ordered - sizeof(struct fp_xfer)) & ~255u;
    if (info->caps & FI_RMA) {
        prov->rma_min = (uint32_t)ut_env_num(UT_ENV_OFI_RMA);
        prov->chunk = FP_CHUNK;
        if (info->ep_attr->max_msg_size < FP_CHUNK)
            prov->chunk = (uint32_t)info->ep_attr->max_msg_size & ~255u;
        prov->rma_write_size = 1u << 30;
        if (info->ep_attr->max_msg_size < prov->rma_write_size)
            prov->rma_write_size = (uint32_t)info->ep_attr->max_msg_size;
        uint64_t both = info->tx_attr->msg_order & info->rx_attr->msg_order;
        prov->keeps_order = both & FI_ORDER_SAW;
        prov->can_rma_write =
            prov->rma_min > 0 && (info->caps & FI_WRITE) && (info->caps & FI_REMOTE_WRITE);
    }
    int rc = prov->lib->fabric(info->fabric_attr, &prov->fabric, NULL);
    if (rc == 0)
        rc = fp_net_infos_open(prov);
    if (rc == 0)
        rc = fi_domain(prov->fabric, info, &prov->domain, NULL);
    prov->own_domains = info->ep_attr->protocol == FI_PROTO_XNET;
    if (rc != 0)
        ut_error(FP_CAT, "cannot open %s on %s: %s", info->fabric_attr->prov_name,
                 info->domain_attr->name, fp_strerror(rc));
    return rc == 0 ? 0 : -EIO;
}

static int open_descriptors(struct fp_prov *prov)
{
    prov->epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    prov->timer_fd = ut_fd_open_ours(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (prov->epoll_fd < 0 || prov->timer_fd < 0) {
        ut_error(FP_CAT, "cannot make an epoll instance or a timer: %s%s", strerror(errno),
                 ut_fd_limit_remedy(errno));
        return -EIO;
    }
    return fp_epoll_watch(prov, prov->timer_fd, EPOLLIN, FP_EVENT_TIMER);
}

static void free_prov(struct fp_prov *prov)
{
    fp_control_close(prov);
    fp_peers_free(prov);
    fp_regions_free(prov);
    if (prov->domain)
        fi_close(&prov->domain->fid);
    fp_net_infos_close(prov);
    if (prov->fabric)
        fi_close(&prov->fabric->fid);
    if (prov->info)
        prov->lib->freeinfo(prov->info);
    ut_fd_close(prov->timer_fd);
    ut_fd_close(prov->epoll_fd);
    pthread_mutex_destroy(&prov->lock);
    pthread_mutex_destroy(&prov->control.lock);
    pthread_mutex_destroy(&prov->regions_lock);
    free(prov);
}

static struct fp_prov *prov_new(const struct prov_config *config, const struct fp_lib *lib,
                                struct fi_info *info)
{
    struct fp_prov *prov = calloc(1, sizeof(*prov));

    if (!prov)
        return NULL;
    prov->base.ops = &ofi_provider;
    prov->config = *config;
    prov->lib = lib;
    prov->info = info;
    prov->epoll_fd = prov->timer_fd = prov->control.fids.cq_fd = -1;
    STAILQ_INIT(&prov->control.queue);
    STAILQ_INIT(&prov->free_regions);
    pthread_mutex_init(&prov->lock, NULL);
    pthread_mutex_init(&prov->control.lock, NULL);
    pthread_mutex_init(&prov->regions_lock, NULL);
    fp_regions_open(prov);
    return prov;
}

static int fp_open(const struct prov_config *config, struct prov **out)
{
    char why[FP_WHY] = "";
    const struct fp_lib *lib = fp_lib(why);
    struct fi_info *info = lib ? fp_fabric_choose(lib, why) : NULL;

    if (!info) {
        ut_log_at(ut_env_num(UT_ENV_PROVIDER) == UT_PROVIDER_FIRST + PROV_INDEX_ofi ? UT_LOG_ERROR
                                                                                    : UT_LOG_INFO,
                  FP_CAT, "no fabric of libfabric can be used: %s (see fi_info)", why);
        return -ENODEV;
    }
    struct fp_prov *prov = prov_new(config, lib, info);
    if (!prov) {
        lib->freeinfo(info);
        return -ENOMEM;
    }
    int rc = open_descriptors(prov);
    if (rc == 0)
        rc = open_fabric(prov);
    if (rc == 0)
        rc = fp_control_open(prov);
    if (rc != 0) {
        free_prov(prov);
        return rc;
    }
    ut_info(FP_CAT, "%s on %s, messages to %u bytes, %zu of them injected, RMA from %u bytes on%s",
            info->fabric_attr->prov_name, info->domain_attr->name, prov->piece, prov->inject,
            prov->rma_min, prov->rma_min > 0 ? "" : ": never");
    fp_guard_init(prov);
    *out = &prov->base;
    return 0;
}

static void fp_close(struct prov *base)
{
    struct fp_prov *prov = fp_prov_of(base);

    if (!fp_guard_enter(prov))
        return; /* its resources are not freed */
    bool has_closed_low_fds = prov->has_closed_low_fds;
    free_prov(prov);
    if (has_closed_low_fds)
        ut_fd_release_stdio();
}

static size_t fp_address(struct prov *base, void *buf)
{
    const struct fp_prov *prov = fp_prov_of(base);
    struct fp_record record = {.address = prov->address};
    size_t size = offsetof(struct fp_record, address.name) + prov->address.name_size;

    memcpy(record.key, prov->key, sizeof(record.key));
    memcpy(buf, &record, size); /* records are small: the unused part of the name is omitted */
    return size;
}

static void fp_caps(struct prov *base, unsigned int tni, struct prov_caps *caps)
{
    const struct fi_info *info = fp_prov_of(base)->info;

    (void)tni;
    *caps = (struct prov_caps){.max_inline = FP_INLINE,
                               .reads_source = true,
                               .max_message = PROV_MSG_MAX,
                               .max_xfer = UINT32_MAX,
                               .line = PROV_TOFU_LINE};
    snprintf(caps->device, sizeof(caps->device), "%s %s", info->fabric_attr->prov_name,
             info->domain_attr->name);
}

static unsigned int fp_device(struct prov *base, unsigned int tni)
{
    (void)base;
    (void)tni;
    return 0;
}

/*
 * The background thread
 */

static int fp_fd(struct prov *base)
{
    return fp_prov_of(base)->epoll_fd;
}

/* Collects the owners of up to OWNERS endpoints that need to be polled; all: of all sleeping ones.
 * */
static unsigned int collect_owners(struct fp_prov *prov, void *owners[OWNERS], bool all,
                                   unsigned int skip)
{
    unsigned int n = 0;

    pthread_mutex_lock(&prov->lock);
    for (struct fp_ep *ep = LIST_FIRST(&prov->eps); ep && n < OWNERS; ep = LIST_NEXT(ep, next)) {
        bool wanted = all ? __atomic_load_n(&ep->armed, __ATOMIC_SEQ_CST)
                          : __atomic_exchange_n(&ep->retry, 0, __ATOMIC_SEQ_CST);
        if (!wanted)
            continue;
        if (skip > 0)
            skip--;
        else
            owners[n++] = ep->attr.owner;
    }
    pthread_mutex_unlock(&prov->lock);
    return n;
}

static void wake_owners(struct fp_prov *prov, bool all)
{
    void *owners[OWNERS];
    unsigned int n, done = 0;

    do {
        n = collect_owners(prov, owners, all, all ? done : 0);
        for (unsigned int i = 0; i < n; i++)
            prov->config.wake(owners[i]);
        done += n;
    } while (n == OWNERS);
}

static void handle_timer(struct fp_prov *prov)
{
    uint64_t expired;

    if (read(prov->timer_fd, &expired, sizeof(expired)) < 0)
        return;
    __atomic_store_n(&prov->timer_armed, 0, __ATOMIC_SEQ_CST);
    wake_owners(prov, false);
}

/* Handles the last control messages of the peer, which have arrived by now, before its end. */
static void handle_peer_exit(struct fp_peer *peer)
{
    fp_control_progress(peer->prov);
    fp_peer_unwatch(peer);
    fp_peer_died(peer);
}

static void handle_event(struct fp_prov *prov, uint64_t data)
{
    if (data == FP_EVENT_TIMER)
        handle_timer(prov);
    else if (data & FP_EVENT_PEER)
        handle_peer_exit((struct fp_peer *)(uintptr_t)(data & ~(uint64_t)FP_EVENT_PEER));
    else if (data != FP_EVENT_CONTROL)
        prov->config.wake((void *)(uintptr_t)data);
}

/* Wakes sleeping owners to check their connections when the state of a peer may have changed, and
 * from time to time. */
static void notify_owners(struct fp_prov *prov, bool has_peers)
{
    uint32_t peer_events = __atomic_load_n(&prov->peer_events, __ATOMIC_SEQ_CST);
    uint64_t now = ut_now_ms();

    if (peer_events == prov->peer_events_reported &&
        (!has_peers || now - prov->checked_ms < CHECK_MS))
        return;
    prov->peer_events_reported = peer_events;
    prov->checked_ms = now;
    wake_owners(prov, true);
}

static int make_progress(struct fp_prov *prov)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(prov->epoll_fd, events, EVENTS, 0);

    for (int i = 0; i < n; i++)
        handle_event(prov, events[i].data.u64);
    bool quiet = fp_control_progress(prov);
    int due = fp_keepalive_run(prov);
    notify_owners(prov, due >= 0);
    return n == EVENTS || !quiet ? 0 : due;
}

static int fp_progress(struct prov *base)
{
    struct fp_prov *prov = fp_prov_of(base);

    if (!fp_guard_enter(prov)) {
        wake_owners(prov, true);
        return -1;
    }
    int due = make_progress(prov);
    fp_guard_leave(prov);
    return due;
}

/* The address of the control endpoint, on fabrics whose names are socket addresses. */
static bool fp_ip(struct prov *base, uint8_t ip[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const struct fp_prov *prov = (struct fp_prov *)base;
    uint32_t format = prov->info->addr_format;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (format == FI_SOCKADDR_IN && prov->address.name_size >= sizeof(in)) {
        memcpy(&in, prov->address.name, sizeof(in));
        memcpy(ip, mapped, sizeof(mapped));
        memcpy(ip + sizeof(mapped), &in.sin_addr, sizeof(in.sin_addr));
        return true;
    }
    if (format == FI_SOCKADDR_IN6 && prov->address.name_size >= sizeof(in6)) {
        memcpy(&in6, prov->address.name, sizeof(in6));
        memcpy(ip, &in6.sin6_addr, sizeof(in6.sin6_addr));
        return true;
    }
    return false;
}

const struct prov_ops ofi_provider = {
    .name = "ofi",
    .open = fp_open,
    .close = fp_close,
    .address = fp_address,
    .ip = fp_ip,
    .caps = fp_caps,
    .device = fp_device,
    .reg = fp_reg,
    .dereg = fp_guarded_dereg,
    .ep_open = fp_guarded_ep_open,
    .ep_close = fp_guarded_ep_close,
    .ep_poll = fp_guarded_ep_poll,
    .ep_flush = fp_ep_flush,
    .ep_arm = fp_guarded_ep_arm,
    .ep_disarm = fp_ep_disarm,
    .connect = fp_guarded_connect,
    .accept = fp_guarded_accept,
    .reject = fp_guarded_reject,
    .conn_close = fp_guarded_conn_close,
    .write = fp_guarded_write,
    .read = fp_guarded_read,
    .send = fp_guarded_send,
    .direct = fp_direct,
    .any_order = fp_any_order,
    .fd = fp_fd,
    .progress = fp_progress,
};
