/* SPDX-License-Identifier: Apache-2.0 */
/* The provider of a process: open, close, the background thread's part, fork. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conn.h"
#include "ep.h"
#include "mr.h"
#include "pageref.h"
#include "peer.h"
#include "providers.h"
#include "remap.h"
#include "segment.h"
#include "sock.h"
#include "types.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/host.h"
#include "util/log.h"
#include "xfer.h"

enum {
    MAX_EVENTS = 64,       /* of one epoll_wait() */
    LOST_FDS_POLL_MS = 10, /* interval of progress() after the program has closed the descriptors */
};

/* All providers of the process, for fork(). */
static struct {
    pthread_mutex_t lock;
    LIST_HEAD(sp_prov_list, sp_prov) list;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Fork. A child closes the provider's sockets: while the child holds them open, peers would not see
 * a hang-up when the parent dies.
 */

static void before_fork(void)
{
    struct sp_prov *p;

    pthread_mutex_lock(&all.lock);
    LIST_FOREACH (p, &all.list, next) {
        pthread_mutex_lock(&p->lock);
        pthread_mutex_lock(&p->mr_lock);
    }
}

static void after_fork(void)
{
    struct sp_prov *p;

    LIST_FOREACH (p, &all.list, next) {
        pthread_mutex_unlock(&p->mr_lock);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&all.lock);
}

static void close_descriptors(struct sp_prov *prov)
{
    int *fds[] = {&prov->listen_fd, &prov->epoll_fd, &prov->kick_fd, &prov->timer_fd,
                  &prov->spare_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        ut_fd_close(*fds[i]);
        *fds[i] = -1;
    }
}

static void close_in_child(void)
{
    struct sp_peer *peer;
    struct sp_prov *p;

    LIST_FOREACH (p, &all.list, next) {
        p->in_fork_child = true;
        sp_remap_close(&p->remap); /* it serves the parent's memory */
        close_descriptors(p);
        __atomic_store_n(&p->self.state, SP_PEER_DEAD, __ATOMIC_RELAXED);
        LIST_FOREACH (peer, &p->peers, next) {
            ut_fd_close(peer->fd);
            peer->fd = -1;
            ut_fd_close(peer->remap_fd);
            peer->remap_fd = -1;
            __atomic_store_n(&peer->state, SP_PEER_DEAD, __ATOMIC_RELAXED);
        }
    }
    after_fork();
}

static void set_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork, close_in_child);
}

/*
 * Open and close
 */

/* Opens epoll_fd, kick_fd, timer_fd and spare_fd. Returns 0 or, after an error line, -errno. */
static int make_descriptors(struct sp_prov *prov)
{
    struct epoll_event kick = {.events = EPOLLIN, .data.ptr = &prov->kick_fd};
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &prov->timer_fd};

    prov->epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    prov->kick_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    prov->timer_fd = ut_fd_open_ours(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    prov->spare_fd = ut_fd_open_ours(fcntl(prov->seg_fd, F_DUPFD_CLOEXEC, 0));
    if (prov->epoll_fd < 0 || prov->kick_fd < 0 || prov->timer_fd < 0 || prov->spare_fd < 0 ||
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, prov->kick_fd, &kick) != 0 ||
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, prov->timer_fd, &timer) != 0) {
        int rc = -errno;
        ut_error(SP_LOG, "cannot open file descriptors: %s%s", strerror(-rc),
                 ut_fd_limit_remedy(-rc));
        return rc;
    }
    return 0;
}

/* Sets prov->addr, with a random key. Returns 0 or, after an error line, a negative errno. */
static int make_address(struct sp_prov *prov)
{
    uint64_t random[2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        ut_error(SP_LOG, "cannot get random numbers: %s", strerror(errno));
        return -EIO;
    }
    prov->addr = (struct sp_address){
        .version = SP_VERSION, .pid = (uint32_t)getpid(), .key = random[0], .name = random[1]};
    prov->jitter_seed = random[0] ^ random[1];
    struct ut_host host;
    int rc = ut_host_read(&host);
    if (rc != 0)
        ut_error(SP_LOG, "cannot tell this host from others: " UT_HOST_BOOT_ID ": %s%s",
                 strerror(-rc), ut_fd_limit_remedy(-rc));
    prov->addr.host = host.hash;
    return rc;
}

static void init_self(struct sp_prov *prov)
{
    prov->self = (struct sp_peer){.prov = prov,
                                  .is_self = true,
                                  .refs = 1,
                                  .state = SP_PEER_UP,
                                  .cma = 1,
                                  .pid = getpid(),
                                  .fd = -1,
                                  .remap_fd = -1,
                                  .addr = prov->addr,
                                  .seg = prov->seg,
                                  .num_rings = prov->num_rings};
}

/* Reads the settings of UTOFU_SHM_MAP, and opens remapping if it is allowed. */
static void open_remapping(struct sp_prov *prov)
{
    prov->maps_peers = ut_env_num(UT_ENV_SHM_MAP);
    prov->max_mapped_bytes = ut_env_num(UT_ENV_SHM_MAP_LIMIT) << 20;
    sp_remap_open(&prov->remap, prov->config.is_warning_process);
    if (prov->remap.exchange.fd >= 0)
        prov->pagerefs = sp_pagerefs_new();
}

static int sp_open(const struct prov_config *config, struct prov **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sp_prov *prov = calloc(1, sizeof(*prov));
    int rc;

    if (!prov)
        return -ENOMEM;
    prov->base.ops = &shm_provider;
    prov->config = *config;
    prov->use_cma = ut_env_num(UT_ENV_SHM_CMA);
    STAILQ_INIT(&prov->free_mrs);
    prov->listen_fd = prov->epoll_fd = prov->kick_fd = prov->timer_fd = prov->spare_fd = -1;
    pthread_mutex_init(&prov->lock, NULL);
    pthread_mutex_init(&prov->mr_lock, NULL);
    if ((rc = make_address(prov)) != 0)
        goto free_prov;
    if ((rc = sp_segment_create(prov)) != 0)
        goto free_prov;
    if ((rc = make_descriptors(prov)) != 0 || (rc = sp_listen(prov)) != 0)
        goto close_fds;
    open_remapping(prov);
#ifdef PR_SET_PTRACER
    /* Yama's ptrace_scope 1 allows cross-memory attach only to ancestors by default */
    if (prov->use_cma)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    init_self(prov);
    pthread_once(&once, set_fork_handlers);
    pthread_mutex_lock(&all.lock);
    LIST_INSERT_HEAD(&all.list, prov, next);
    pthread_mutex_unlock(&all.lock);
    *out = &prov->base;
    return 0;

close_fds:
    close_descriptors(prov);
    sp_segment_destroy(prov);
free_prov:
    free(prov);
    return rc;
}

static void sp_close(struct prov *base)
{
    struct sp_prov *prov = sp_prov_of(base);
    struct sp_peer *peer;
    struct sp_mr *mr;

    pthread_mutex_lock(&all.lock);
    LIST_REMOVE(prov, next);
    pthread_mutex_unlock(&all.lock);
    sp_peer_free_dead(prov);
    while ((peer = LIST_FIRST(&prov->peers))) {
        LIST_REMOVE(peer, next);
        sp_peer_unref(peer);
    }
    ut_hash_free(&prov->by_producer_id);
    ut_hash_free(&prov->by_key);
    while ((mr = STAILQ_FIRST(&prov->free_mrs))) {
        STAILQ_REMOVE_HEAD(&prov->free_mrs, next_free);
        free(mr);
    }
    sp_remap_close(&prov->remap);
    sp_pagerefs_free(prov->pagerefs);
    close_descriptors(prov);
    sp_segment_destroy(prov);
    pthread_mutex_destroy(&prov->lock);
    pthread_mutex_destroy(&prov->mr_lock);
    free(prov);
}

static size_t sp_address(struct prov *base, void *buf)
{
    struct sp_prov *prov = sp_prov_of(base);

    memcpy(buf, &prov->addr, sizeof(prov->addr));
    return sizeof(prov->addr);
}

static void sp_caps(struct prov *base, unsigned int tni, struct prov_caps *caps)
{
    (void)tni;
    *caps = (struct prov_caps){.max_inline = PROV_MSG_MAX,
                               .max_message = PROV_MSG_MAX,
                               .max_xfer = UINT32_MAX,
                               .line = PROV_TOFU_LINE};
    snprintf(caps->device, sizeof(caps->device), "shared memory%s%s",
             sp_prov_of(base)->remap.exchange.fd >= 0 ? ", mapped" : "",
             sp_prov_of(base)->use_cma ? ", cross-memory attach" : ", copies");
}

static unsigned int sp_device(struct prov *prov, unsigned int tni)
{
    (void)prov;
    (void)tni;
    return 0;
}

/*
 * The background thread
 */

/* Resets the counter of an eventfd or a timerfd. */
static void drain_events(int fd)
{
    uint64_t count;

    if (ut_fd_is_still_ours(fd) && read(fd, &count, sizeof(count)) < 0)
        return; /* already read */
}

static void handle_timer(struct sp_prov *prov)
{
    drain_events(prov->timer_fd);
    __atomic_store_n(&prov->timer_on, 0, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < prov->eps_high_water; i++) {
        struct sp_ep *ep = prov->eps[i];
        if (ep && __atomic_exchange_n(&ep->wake_by_timer, 0, __ATOMIC_SEQ_CST))
            __atomic_store_n(&ep->ring->rung, 1, __ATOMIC_SEQ_CST);
    }
    sp_send_pending_notifications(prov);
}

/* `source`: what watch_fd() or make_descriptors() has registered with epoll: the address of a
 * descriptor in `prov`, or a peer. */
static void dispatch_event(struct sp_prov *prov, void *source)
{
    if (source == &prov->listen_fd)
        sp_accept_sockets(prov);
    else if (source == &prov->kick_fd)
        drain_events(prov->kick_fd);
    else if (source == &prov->timer_fd)
        handle_timer(prov);
    else
        sp_receive(source);
}

/* Collects the owners of endpoints whose doorbell was rung. Returns their number. */
static unsigned int collect_rung_owners(struct sp_prov *prov, void *owners[])
{
    unsigned int n = 0;

    for (uint32_t i = 0; i < prov->eps_high_water; i++) {
        struct sp_ep *ep = prov->eps[i];
        if (ep && __atomic_load_n(&ep->ring->rung, __ATOMIC_RELAXED) &&
            __atomic_exchange_n(&ep->ring->rung, 0, __ATOMIC_SEQ_CST))
            owners[n++] = ep->owner;
    }
    return n;
}

/* The program has closed the descriptors: endpoints of this process still reach each other. */
static void progress_without_fds(struct sp_prov *prov)
{
    sp_disconnect_all(prov);
    handle_timer(prov);
}

/* Frees dead peers at the end: a later event of the batch may refer to a peer, even if it died
 * between epoll_wait() and the lock. */
static int sp_progress(struct prov *base)
{
    struct sp_prov *prov = sp_prov_of(base);
    struct epoll_event events[MAX_EVENTS];
    void *owners[SP_MAX_EPS];
    bool fds_intact = ut_fd_check_still_ours(prov->epoll_fd);
    int n = fds_intact ? epoll_wait(prov->epoll_fd, events, MAX_EVENTS, 0) : 0;

    pthread_mutex_lock(&prov->lock);
    for (int i = 0; i < n; i++)
        dispatch_event(prov, events[i].data.ptr);
    if (!fds_intact)
        progress_without_fds(prov);
    int wait_ms = fds_intact ? sp_retry(prov) : LOST_FDS_POLL_MS;
    sp_peer_free_dead(prov);
    unsigned int num_owners = collect_rung_owners(prov, owners);
    pthread_mutex_unlock(&prov->lock);
    for (unsigned int i = 0; i < num_owners; i++)
        prov->config.wake(owners[i]);
    return wait_ms;
}

static int sp_fd(struct prov *prov)
{
    return sp_prov_of(prov)->epoll_fd;
}

const struct prov_ops shm_provider = {
    .name = "shm",
    .open = sp_open,
    .close = sp_close,
    .address = sp_address,
    .caps = sp_caps,
    .device = sp_device,
    .reg = sp_reg,
    .dereg = sp_dereg,
    .ep_open = sp_ep_open,
    .ep_close = sp_ep_close,
    .ep_poll = sp_ep_poll,
    .ep_flush = sp_ep_flush,
    .ep_arm = sp_ep_arm,
    .ep_disarm = sp_ep_disarm,
    .connect = sp_connect,
    .accept = sp_accept,
    .reject = sp_reject,
    .conn_close = sp_conn_close,
    .write = sp_write,
    .read = sp_read,
    .send = sp_send,
    .atomic = sp_atomic,
    .direct = sp_direct,
    .mapping = sp_mapping,
    .fd = sp_fd,
    .progress = sp_progress,
};
