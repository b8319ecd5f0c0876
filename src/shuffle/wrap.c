/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapping provider: its objects, and its part in the background thread. Memory regions are
 * those of the inner provider. The owner never maps memory of peers, because direct loads and
 * stores would bypass the shuffling.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shuffle/inner.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/fd_check.h"

enum { AGAIN_MS = 1, MAX_WOKEN = 64 };

static struct sh_prov *sh_prov_of(struct prov *prov)
{
    return (struct sh_prov *)prov;
}

/*
 * The process
 */

static void prov_close(struct prov *base)
{
    struct sh_prov *p = sh_prov_of(base);

    p->inside->ops->close(p->inside);
    ut_fd_close(p->event_fd);
    ut_fd_close(p->epoll_fd);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static size_t prov_address(struct prov *prov, void *buf)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    return inside->ops->address(inside, buf);
}

static void prov_leave(struct prov *prov)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    inside->ops->leave(inside);
}

static bool prov_ip(struct prov *prov, uint8_t ip[16])
{
    struct prov *inside = sh_prov_of(prov)->inside;

    return inside->ops->ip(inside, ip);
}

/* Unless this provider reports it, the source is not read before the call returns. */
static void prov_caps(struct prov *prov, unsigned int tni, struct prov_caps *caps)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    inside->ops->caps(inside, tni, caps);
    caps->max_inline = 0;
    caps->reads_source = false;
}

static unsigned int prov_device(struct prov *prov, unsigned int tni)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    return inside->ops->device(inside, tni);
}

static int prov_reg(struct prov *prov, unsigned int device, void *addr, size_t size,
                    unsigned int access, struct prov_mr **mr)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    return inside->ops->reg(inside, device, addr, size, access, mr);
}

static void prov_dereg(struct prov *prov, struct prov_mr *mr)
{
    struct prov *inside = sh_prov_of(prov)->inside;

    inside->ops->dereg(inside, mr);
}

/*
 * Connections
 */

static int conn_connect(struct prov_ep *base, const void *addr, size_t addr_size,
                        unsigned int peer_tni, uint64_t peer_id, const void *hello,
                        size_t hello_size, void *ctx, struct prov_conn **result)
{
    struct sh_ep *ep = sh_ep_of(base);
    struct sh_conn *conn = sh_conn_new(ep, peer_id);

    if (!conn)
        return -ENOMEM;
    conn->ctx = ctx;
    int rc = ep->prov->inside->ops->connect(ep->inside, addr, addr_size, peer_tni, peer_id, hello,
                                            hello_size, conn, &conn->inside);
    if (rc != 0) {
        sh_conn_free(conn);
        return rc;
    }
    *result = (struct prov_conn *)conn;
    return 0;
}

static int conn_accept(struct prov_conn *base, const void *hello, size_t size, void *ctx)
{
    struct sh_conn *conn = sh_conn_of(base);

    conn->ctx = ctx;
    int rc = conn->ep->prov->inside->ops->accept(conn->inside, hello, size, conn);
    if (rc != 0)
        sh_conn_free(conn);
    return rc;
}

static void conn_reject(struct prov_conn *base)
{
    struct sh_conn *conn = sh_conn_of(base);

    conn->ep->prov->inside->ops->reject(conn->inside);
    sh_conn_free(conn);
}

static void conn_close(struct prov_conn *base)
{
    struct sh_conn *conn = sh_conn_of(base);

    conn->ep->prov->inside->ops->conn_close(conn->inside);
    sh_conn_free(conn);
}

static bool conn_any_order(struct prov_conn *conn)
{
    (void)conn;
    return true;
}

/*
 * Endpoints
 */

static int ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **result)
{
    struct sh_prov *p = sh_prov_of(base);
    struct prov_ep_attr inner = *attr;
    struct sh_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return -ENOMEM;
    ep->prov = p;
    ep->owner = attr->owner;
    ep->callbacks = attr->callbacks;
    ep->id = attr->id;
    STAILQ_INIT(&ep->requests);
    inner.callbacks = attr->callbacks->srq_low ? &sh_callbacks_srq_low : &sh_callbacks;
    int rc = p->inside->ops->ep_open(p->inside, &inner, &ep->inside);
    if (rc != 0) {
        free(ep);
        return rc;
    }
    pthread_mutex_lock(&p->lock);
    LIST_INSERT_HEAD(&p->eps, ep, next);
    pthread_mutex_unlock(&p->lock);
    *result = (struct prov_ep *)ep;
    return 0;
}

static void ep_close(struct prov_ep *base)
{
    struct sh_ep *ep = sh_ep_of(base);
    struct sh_prov *p = ep->prov;
    struct sh_request *r;

    pthread_mutex_lock(&p->lock);
    LIST_REMOVE(ep, next);
    pthread_mutex_unlock(&p->lock);
    p->inside->ops->ep_close(ep->inside);
    while ((r = STAILQ_FIRST(&ep->requests))) {
        STAILQ_REMOVE_HEAD(&ep->requests, next);
        free(r);
    }
    while (!LIST_EMPTY(&ep->conns)) /* the inner provider has closed the inner connections */
        sh_conn_free(LIST_FIRST(&ep->conns));
    free(ep);
}

static void ep_flush(struct prov_ep *base)
{
    struct sh_ep *ep = sh_ep_of(base);

    ep->prov->inside->ops->ep_flush(ep->inside);
}

static bool ep_arm(struct prov_ep *base, enum prov_arm what)
{
    struct sh_ep *ep = sh_ep_of(base);
    uint64_t due;

    ep->armed = what == PROV_ARM_ALL;
    ep->missed = false;
    sh_ep_update_due(ep, ut_clock_us());
    due = ep->due_us;
    return ep->prov->inside->ops->ep_arm(ep->inside, what) || (due && due <= ut_clock_us());
}

static void ep_disarm(struct prov_ep *base)
{
    struct sh_ep *ep = sh_ep_of(base);

    ep->armed = ep->missed = false;
    ep->prov->inside->ops->ep_disarm(ep->inside);
}

/*
 * The background thread: visits the endpoints while an operation or event is delayed, because the
 * owner may not poll
 */

/* Wakes the owners of endpoints with something due. Returns the milliseconds until the next visit;
 * -1: nothing is delayed. */
static int wake_those_due(struct sh_prov *p)
{
    void *owners[MAX_WOKEN];
    unsigned int n = 0;
    int again = -1;
    uint64_t now = ut_clock_us();

    pthread_mutex_lock(&p->lock);
    for (struct sh_ep *ep = LIST_FIRST(&p->eps); ep && n < MAX_WOKEN; ep = LIST_NEXT(ep, next)) {
        uint64_t due = __atomic_load_n(&ep->due_us, __ATOMIC_SEQ_CST);
        if (due == 0)
            continue;
        again = AGAIN_MS;
        if (due <= now)
            owners[n++] = ep->owner;
    }
    pthread_mutex_unlock(&p->lock);
    for (unsigned int i = 0; i < n; i++)
        p->wake(owners[i]);
    return again;
}

static int prov_progress(struct prov *base)
{
    struct sh_prov *p = sh_prov_of(base);
    uint64_t count;
    int ms = p->inside->ops->progress(p->inside);

    if (ut_fd_check_still_ours(p->event_fd) && read(p->event_fd, &count, sizeof(count)) < 0)
        count = 0; /* no new event */
    __atomic_store_n(&p->watching, 0, __ATOMIC_SEQ_CST);
    int again = wake_those_due(p);
    if (again < 0)
        return ms;
    __atomic_store_n(&p->watching, 1, __ATOMIC_SEQ_CST);
    return ms >= 0 && ms < again ? ms : again;
}

static int prov_fd(struct prov *prov)
{
    return sh_prov_of(prov)->epoll_fd;
}

/* Replaces the functions of the inner provider. A function that it lacks stays NULL. */
static struct prov_ops make_ops(const struct prov_ops *inside)
{
    return (struct prov_ops){
        .name = inside->name,
        .open = inside->open,
        .close = prov_close,
        .leave = inside->leave ? prov_leave : NULL,
        .address = prov_address,
        .ip = inside->ip ? prov_ip : NULL,
        .caps = prov_caps,
        .device = prov_device,
        .reg = prov_reg,
        .dereg = prov_dereg,
        .ep_open = ep_open,
        .ep_close = ep_close,
        .ep_poll = sh_ep_poll,
        .ep_flush = ep_flush,
        .ep_arm = ep_arm,
        .ep_disarm = ep_disarm,
        .connect = conn_connect,
        .accept = conn_accept,
        .reject = conn_reject,
        .conn_close = conn_close,
        .write = sh_write,
        .read = sh_read,
        .send = sh_send,
        .atomic = inside->atomic ? sh_atomic : NULL,
        .any_order = conn_any_order,
        .fd = prov_fd,
        .progress = prov_progress,
        .survey = inside->survey,
    };
}

static int add_descriptor(int epoll_fd, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

struct prov *ut_shuffle_wrap(struct prov *inside, void (*wake)(void *owner))
{
    struct sh_prov *p = calloc(1, sizeof(*p));
    struct prov_caps caps;

    if (!p)
        return NULL;
    p->epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    p->event_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (p->epoll_fd < 0 || p->event_fd < 0 || add_descriptor(p->epoll_fd, p->event_fd) != 0 ||
        add_descriptor(p->epoll_fd, inside->ops->fd(inside)) != 0) {
        ut_fd_close(p->event_fd);
        ut_fd_close(p->epoll_fd);
        free(p);
        return NULL;
    }
    p->ops = make_ops(inside->ops);
    p->prov.ops = &p->ops;
    p->inside = inside;
    inside->ops->caps(inside, 0, &caps);
    p->rests = caps.suspends;
    p->wake = wake;
    pthread_mutex_init(&p->lock, NULL);
    return &p->prov;
}
