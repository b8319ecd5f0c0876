/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing of the verbs provider, its capabilities, and its table of functions. */
#include "verbs/ports/address.h"
#include "verbs/connect/active.h"
#include "verbs/connect/handshake.h"
#include "verbs/connect/cm.h"
#include "verbs/connect/conn.h"
#include "verbs/ports/device.h"
#include "ep.h"
#include "verbs/data/mr.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/ports/select.h"
#include "verbs/data/post.h"
#include "verbs/connect/probe.h"
#include "progress.h"
#include "prov_types.h"
#include "verbs/connect/reap.h"
#include "verbs/ports/survey.h"
#include "verbs/ports/ud.h"
#include "verbs/connect/rdmacm.h"
#include "verbs/connect/udcm.h"
#include "util/fd.h"
#include "util/log.h"
#include "wake.h"
#include "verbs/connect/cm_ops.h"

#include "providers.h"
#include "util/env.h"
#include "util/fd_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

/*
 * The device retransmits for three quarters of the peer timeout, or 7.5 s, as in other libraries.
 * The rest of the peer timeout is for the probe whether the peer's process lives. Networks may be
 * silent for seconds while they pause for congestion or find new routes.
 */
enum { RETRY_COUNT = 6, MIN_TIMEOUT = 12, MAX_TIMEOUT = 18, MAX_STEP_MS = 4000 };

/* A queue pair waits 4.096 us << timeout, 1 + retry_count times. Soft-RoCE treats a retry count of
 * 7 as infinite. A longer single wait allows the receiver to be busy for longer. */
static uint8_t ack_timeout(unsigned int peer_timeout_ms)
{
    uint64_t budget_ns = (uint64_t)peer_timeout_ms * 750000 / (RETRY_COUNT + 1);
    uint8_t timeout = MIN_TIMEOUT;

    while (timeout < MAX_TIMEOUT && (UINT64_C(4096) << (timeout + 1)) <= budget_ns)
        timeout++;
    return timeout;
}

static void read_tuning(struct vp_prov *prov)
{
    prov->tuning = (struct vp_tuning){
        .sq_depth = (unsigned int)ut_env_num(UT_ENV_VERBS_SQ_DEPTH),
        .srq_depth = (unsigned int)ut_env_num(UT_ENV_VERBS_SRQ_DEPTH),
        .rq_depth = (unsigned int)ut_env_num(UT_ENV_VERBS_RQ_DEPTH),
        .inline_size = (unsigned int)ut_env_num(UT_ENV_VERBS_INLINE),
        .rd_atomic = (unsigned int)ut_env_num(UT_ENV_VERBS_RD_ATOMIC),
        .notice_apart = (unsigned int)ut_env_num(UT_ENV_VERBS_NOTICE_APART),
        .rails = (unsigned int)ut_env_num(UT_ENV_VERBS_RAILS),
        .max_connecting = (unsigned int)ut_env_num(UT_ENV_VERBS_MAX_CONNECTING),
        .max_qps = (unsigned int)ut_env_num(UT_ENV_VERBS_MAX_QPS),
        .step_ms = prov->config.peer_timeout_ms,
        .timeout = ack_timeout(prov->config.peer_timeout_ms),
        .retry_count = RETRY_COUNT,
    };
    if (prov->tuning.step_ms > MAX_STEP_MS)
        prov->tuning.step_ms = MAX_STEP_MS;
    prov->window = VP_FIRST_WINDOW;
    if (prov->window > prov->tuning.max_connecting)
        prov->window = prov->tuning.max_connecting;
}

/* Keeps registered pages in this process when it forks. Must run before any registration. Kernels
 * before 5.12 need this for each page, and reject parts of huge pages. */
static void init_fork_support(void)
{
    if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED)
        return;
    setenv("RDMAV_HUGEPAGES_SAFE", "1", 0);
    int rc = ibv_fork_init();
    if (rc)
        ut_info(VP_CAT, "ibv_fork_init: %s; processes that fork may lose data", strerror(rc));
}

/*
 * A forked child inherits the descriptors of this process. While the child has them open, the
 * kernel does not clean up after the death of this process, and peers do not notice the death. So
 * the child replaces the descriptors by /dev/null, which keeps their numbers in use.
 */
static struct vp_prov *open_prov;

static void replace_descriptor(int null, int fd)
{
    if (ut_fd_is_still_ours(fd))
        dup3(null, fd, O_CLOEXEC);
}

static void release_fds_in_child(void)
{
    int null = open_prov ? ut_fd_above_stdio(open("/dev/null", O_RDWR | O_CLOEXEC)) : -1;

    if (null < 0)
        return;
    if (open_prov->channel)
        replace_descriptor(null, open_prov->channel->fd);
    for (unsigned int i = 0; i < open_prov->num_ports; i++)
        if (open_prov->ports[i].ud)
            replace_descriptor(null, vp_ud_fd(&open_prov->ports[i]));
    for (unsigned int i = 0; i < open_prov->num_devices; i++) {
        replace_descriptor(null, open_prov->devices[i].context->cmd_fd);
        replace_descriptor(null, open_prov->devices[i].context->async_fd);
        replace_descriptor(null, open_prov->devices[i].channel->fd);
    }
    close(null);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, release_fds_in_child);
}

static int open_descriptors(struct vp_prov *prov)
{
    prov->epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    prov->kick_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (prov->epoll_fd < 0 || prov->kick_fd < 0) {
        ut_error(VP_CAT, "cannot make an epoll instance or an eventfd: %s", strerror(errno));
        return -EIO;
    }
    int rc = vp_watch(prov, prov->kick_fd, VP_WATCH_KICK);
    prov->channel = rdma_create_event_channel();
    if (rc || !prov->channel)
        return rc; /* no RDMA in this kernel: vp_devices_open() reports it */
    ut_fd_mark_ours(prov->channel->fd);
    if (fcntl(prov->channel->fd, F_SETFL, fcntl(prov->channel->fd, F_GETFL) | O_NONBLOCK) < 0)
        return -EIO;
    return vp_watch(prov, prov->channel->fd, VP_WATCH_CM);
}

static void free_prov(struct vp_prov *prov)
{
    if (ut_fd_were_closed())
        return; /* all resources stay until the process ends: see progress.c */
    vp_udcm_close(prov);
    vp_devices_close(prov);
    if (prov->channel)
        rdma_destroy_event_channel(prov->channel);
    ut_fd_close(prov->kick_fd);
    ut_fd_close(prov->epoll_fd);
    pthread_mutex_destroy(&prov->lock);
    pthread_cond_destroy(&prov->changed);
    free(prov);
}

/* Creates the provider without its devices. */
static int create_prov(const struct prov_config *config, struct vp_prov **out)
{
    struct vp_prov *prov = calloc(1, sizeof(*prov));
    int rc;

    if (!prov)
        return -ENOMEM;
    prov->base.ops = &verbs_provider;
    prov->config = *config;
    prov->cm.rdmacm = &vp_rdmacm_ops;
    prov->cm.ud = &vp_udcm_ops;
    prov->cm.listener = &vp_rdmacm_listener;
    prov->epoll_fd = prov->kick_fd = -1;
    pthread_mutex_init(&prov->lock, NULL);
    pthread_cond_init(&prov->changed, NULL);
    struct vp_list *lists[] = {&prov->eps,     &prov->queue,  &prov->accepts,
                               &prov->reaping, &prov->probes, &prov->wakes};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        vp_list_init(lists[i]);
    read_tuning(prov);
    if (getrandom(prov->ud_key, sizeof(prov->ud_key), 0) != (ssize_t)sizeof(prov->ud_key) ||
        getrandom(&prov->qkey, sizeof(prov->qkey), 0) != (ssize_t)sizeof(prov->qkey)) {
        ut_error(VP_CAT, "no random bytes: %s", strerror(errno));
        rc = -EIO;
        goto fail;
    }
    memcpy(prov->key, prov->ud_key, sizeof(prov->key));
    prov->qkey &= INT32_MAX; /* the kernel reserves qkeys with the highest bit */
    rc = vp_udcm_open(prov);
    if (!rc)
        rc = open_descriptors(prov);
    if (rc)
        goto fail;
    *out = prov;
    return 0;

fail:
    free_prov(prov);
    return rc;
}

static int vp_open(const struct prov_config *config, struct prov **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct vp_prov *prov;
    int rc;

    init_fork_support();
    rc = create_prov(config, &prov);
    if (rc)
        return rc;
    rc = vp_devices_open(prov);
    if (rc) {
        free_prov(prov);
        return rc;
    }
    open_prov = prov;
    pthread_once(&once, register_fork_handler);
    *out = &prov->base;
    return 0;
}

static void vp_survey(const struct prov_config *config, void *ctx,
                      void (*report)(void *ctx, const struct prov_port *port))
{
    struct vp_survey survey = {0};
    struct vp_prov *prov;

    if (create_prov(config, &prov))
        return;
    prov->survey = &survey;
    vp_devices_open(prov);
    vp_survey_ports(prov, ctx, report);
    free_prov(prov);
}

static void vp_close(struct prov *base)
{
    struct vp_prov *prov = vp_prov(base);

    vp_cm_reap(prov, NULL);
    vp_probe_run(prov, UINT64_MAX);
    open_prov = NULL;
    free_prov(prov);
}

static void vp_leave(struct prov *base)
{
    if (ut_fd_check_still_ours(vp_prov(base)->epoll_fd))
        vp_udcm_announce_exit(vp_prov(base));
}

static void vp_caps(struct prov *base, unsigned int tni, struct prov_caps *caps)
{
    struct vp_prov *prov = vp_prov(base);
    const struct vp_port *port = &prov->ports[tni % prov->num_ports];
    const struct vp_device *dev = port->dev;

    memset(caps, 0, sizeof(*caps));
    caps->max_inline = dev->max_inline;
    caps->reads_source = true;
    caps->max_message = PROV_MSG_MAX;
    caps->max_xfer = (uint64_t)port->max_msg * VP_PARTS_MAX;
    if (caps->max_xfer > UINT32_MAX)
        caps->max_xfer = UINT32_MAX;
    if (dev->attr.atomic_cap != IBV_ATOMIC_NONE)
        caps->atomic_ops = 1u << PROV_ATOMIC_FADD | 1u << PROV_ATOMIC_CSWAP;
    caps->no_peer_death_event = !port->cm_ops->reports_peer_death;
    caps->suspends = true;
    caps->num_ports = prov->num_ports;
    caps->speed = port->speed;
    caps->split_threshold = prov->tuning.rails;
    caps->max_rails = vp_rails_count_further(prov->ports, prov->num_ports, tni % prov->num_ports);
    caps->line = vp_unit_bytes(vp_unit_of(dev));
    if (!caps->line)
        caps->line = PROV_TOFU_LINE;
    caps->atomics_coherent = dev->attr.atomic_cap == IBV_ATOMIC_GLOB;
    snprintf(caps->device, sizeof(caps->device), "%.*s", (int)sizeof(caps->device) - 1, port->name);
}

static unsigned int vp_device_of(struct prov *base, unsigned int tni)
{
    struct vp_prov *prov = vp_prov(base);

    return prov->ports[tni % prov->num_ports].dev->index;
}

const struct prov_ops verbs_provider = {
    .name = "verbs",
    .open = vp_open,
    .close = vp_close,
    .leave = vp_leave,
    .address = vp_address,
    .ip = vp_ip,
    .caps = vp_caps,
    .device = vp_device_of,
    .reg = vp_reg_mr,
    .dereg = vp_dereg_mr,
    .ep_open = vp_ep_open,
    .ep_close = vp_ep_close,
    .ep_poll = vp_ep_poll,
    .ep_flush = vp_ep_flush,
    .ep_arm = vp_ep_arm,
    .ep_disarm = vp_ep_disarm,
    .connect = vp_connect,
    .accept = vp_accept,
    .reject = vp_reject,
    .conn_close = vp_conn_close,
    .write = vp_write,
    .write_inline = vp_write_inline,
    .read = vp_read,
    .send = vp_send,
    .atomic = vp_atomic,
    .any_order = vp_any_order,
    .set_split_threshold = vp_set_split_threshold,
    .fd = vp_fd,
    .progress = vp_progress,
    .survey = vp_survey,
};
