/* SPDX-License-Identifier: Apache-2.0 */
/* Guards for calls into libfabric: see fd_guard.h. */
#include "fd_guard.h"

#include <errno.h>
#include <string.h>

#include "conn.h"
#include "ep.h"
#include "post.h"
#include "region.h"
#include "util/fd.h"
#include "util/fd_check.h"

/* True for a fabric that posts and polls by system calls on sockets. With other fabrics the guards
 * check the descriptors only in rare calls, as a system call in each post and poll would be slow.
 */
static bool uses_sockets(const char *name)
{
    static const char *const names[] = {"tcp", "net", "udp", "sockets"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void fp_guard_init(struct fp_prov *prov)
{
    prov->over_sockets = uses_sockets(prov->info->fabric_attr->prov_name);
    prov->has_closed_low_fds = ut_fd_stdio_has_gaps();
}

static bool fds_are_intact(struct fp_prov *prov, bool look)
{
    if (__atomic_load_n(&prov->fds_lost, __ATOMIC_RELAXED))
        return false;
    if (!look || ut_fd_check_still_ours(prov->epoll_fd))
        return true;
    __atomic_store_n(&prov->fds_lost, true, __ATOMIC_RELAXED);
    return false;
}

static bool guard_call(struct fp_prov *prov, bool look)
{
    if (!fds_are_intact(prov, look))
        return false;
    if (prov->has_closed_low_fds)
        ut_fd_reserve_stdio();
    return true;
}

bool fp_guard_enter(struct fp_prov *prov)
{
    return guard_call(prov, true);
}

/* For posts and polls. */
static bool guard_fast_call(struct fp_prov *prov)
{
    return guard_call(prov, prov->over_sockets);
}

void fp_guard_leave(const struct fp_prov *prov)
{
    if (prov->has_closed_low_fds)
        ut_fd_release_stdio();
}

static struct fp_prov *prov_of_ep(struct prov_ep *base)
{
    return ((struct fp_ep *)base)->prov;
}

static struct fp_prov *prov_of_conn(struct prov_conn *base)
{
    return ((struct fp_conn *)base)->ep->prov;
}

void fp_guarded_dereg(struct prov *base, struct prov_mr *mr)
{
    struct fp_prov *prov = fp_prov_of(base);

    if (!fp_guard_enter(prov))
        return;
    fp_dereg(base, mr);
    fp_guard_leave(prov);
}

int fp_guarded_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **ep)
{
    struct fp_prov *prov = fp_prov_of(base);

    if (!fp_guard_enter(prov))
        return -EBADF;
    int rc = fp_ep_open(base, attr, ep);
    fp_guard_leave(prov);
    return rc;
}

void fp_guarded_ep_close(struct prov_ep *base)
{
    struct fp_prov *prov = prov_of_ep(base);

    if (!fp_guard_enter(prov)) {
        fp_ep_close_without_fabric((struct fp_ep *)base);
        return;
    }
    fp_ep_close(base);
    fp_guard_leave(prov);
}

/* Takes down the endpoint's connections. */
static int take_down_conns(struct fp_ep *ep)
{
    int calls = 0;

    for (uint32_t i = 0; i < ep->conns_size; i++)
        if (ep->conns[i])
            calls += fp_conn_down_without_fabric(ep->conns[i]);
    return calls;
}

int fp_guarded_ep_poll(struct prov_ep *base)
{
    struct fp_prov *prov = prov_of_ep(base);

    if (!guard_fast_call(prov))
        return take_down_conns((struct fp_ep *)base);
    int calls = fp_ep_poll(base);
    fp_guard_leave(prov);
    return calls;
}

bool fp_guarded_ep_arm(struct prov_ep *base, enum prov_arm what)
{
    struct fp_prov *prov = prov_of_ep(base);

    if (!fp_guard_enter(prov))
        return false;
    bool due = fp_ep_arm(base, what);
    fp_guard_leave(prov);
    return due;
}

int fp_guarded_connect(struct prov_ep *base, const void *addr, size_t addr_size,
                       unsigned int peer_tni, uint64_t peer_id, const void *hello,
                       size_t hello_size, void *ctx, struct prov_conn **conn)
{
    struct fp_prov *prov = prov_of_ep(base);

    if (!fp_guard_enter(prov))
        return -EBADF;
    int rc = fp_connect(base, addr, addr_size, peer_tni, peer_id, hello, hello_size, ctx, conn);
    fp_guard_leave(prov);
    return rc;
}

int fp_guarded_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!fp_guard_enter(prov)) {
        fp_conn_close_without_fabric((struct fp_conn *)base);
        return -EAGAIN;
    }
    int rc = fp_accept(base, hello, hello_size, ctx);
    fp_guard_leave(prov);
    return rc;
}

void fp_guarded_reject(struct prov_conn *base)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!fp_guard_enter(prov)) {
        fp_conn_close_without_fabric((struct fp_conn *)base);
        return;
    }
    fp_reject(base);
    fp_guard_leave(prov);
}

void fp_guarded_conn_close(struct prov_conn *base)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!fp_guard_enter(prov)) {
        fp_conn_close_without_fabric((struct fp_conn *)base);
        return;
    }
    fp_conn_close(base);
    fp_guard_leave(prov);
}

/* -EAGAIN: the next poll takes the connection down. */
int fp_guarded_write(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!guard_fast_call(prov))
        return -EAGAIN;
    int rc = fp_write(base, xfer);
    fp_guard_leave(prov);
    return rc;
}

int fp_guarded_read(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!guard_fast_call(prov))
        return -EAGAIN;
    int rc = fp_read(base, xfer);
    fp_guard_leave(prov);
    return rc;
}

int fp_guarded_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
                    uint64_t cookie)
{
    struct fp_prov *prov = prov_of_conn(base);

    if (!guard_fast_call(prov))
        return -EAGAIN;
    int rc = fp_send_message(base, data, size, flags, cookie);
    fp_guard_leave(prov);
    return rc;
}
