/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes libtofucom's n-th call fail that allocates or opens a resource: memory, mappings,
 * descriptors, threads, verbs and connection objects. Preloaded; see run_faults.py.
 *
 *     FAIL_AT=N     the call to fail, 1 or more; 0: none, only count
 *     FAIL_LOG=FILE where each counted call (FAIL_AT=0) or the failed one is noted
 *     FAIL_RANK=R   only in the process whose UTOFU_RANK is R
 *
 * Only calls from libtofucom's own code count: failures inside other libraries are not tested, and
 * the count is nearly the same in each run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static uintptr_t text_from, text_to; /* of libtofucom */
static int64_t fail_at = -1;         /* -1: not this process */
static int64_t calls;
static int log_fd = -1;

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (!strstr(info->dlpi_name, "libtofucom.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && (h->p_flags & PF_X)) {
            text_from = info->dlpi_addr + h->p_vaddr;
            text_to = text_from + h->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void start(void)
{
    const char *at = getenv("FAIL_AT"), *rank = getenv("FAIL_RANK"), *log = getenv("FAIL_LOG");
    const char *mine = getenv("UTOFU_RANK");

    if (!at || (rank && (!mine || strcmp(rank, mine) != 0)))
        return;
    dl_iterate_phdr(find_library, NULL);
    if (log)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                              0600);
    fail_at = strtoll(at, NULL, 10);
}

static void note(const char *name, int64_t n, uintptr_t caller)
{
    char line[128];
    int len =
        snprintf(line, sizeof(line), "%lld %s +%#lx\n", (long long)n, name, (unsigned long)caller);

    if (log_fd >= 0 && len > 0)
        (void)!syscall(SYS_write, log_fd, line, (size_t)len);
}

/* Is this the call that fails? */
static int fails(const char *name, void *return_address)
{
    uintptr_t caller = (uintptr_t)return_address;

    if (fail_at < 0 || caller < text_from || caller >= text_to)
        return 0;
    int64_t n = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (fail_at != 0 && n != fail_at)
        return 0;
    note(name, n, caller - text_from);
    return fail_at != 0;
}

#define FAILS(name) fails(name, __builtin_return_address(0))
#define NEXT(name)  ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A function that reports failure by VALUE and errno. */
#define BY_ERRNO(type, name, params, args, value, error)                                           \
    EXPORT type name params                                                                        \
    {                                                                                              \
        static type(*next) params;                                                                 \
        if (FAILS(#name)) {                                                                        \
            errno = error;                                                                         \
            return value;                                                                          \
        }                                                                                          \
        if (!next)                                                                                 \
            next = (type(*) params)dlsym(RTLD_NEXT, #name);                                        \
        return next args;                                                                          \
    }
/* One that returns the error's number. */
#define BY_VALUE(name, params, args, error) BY_ERRNO(int, name, params, args, error, error)

/* The allocator must not call dlsym(), which allocates. */
EXPORT void *malloc(size_t size)
{
    if (FAILS("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
    if (FAILS("calloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t size)
{
    if (FAILS("realloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(p, size);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
    if (FAILS("aligned_alloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(align, size);
}

EXPORT int posix_memalign(void **p, size_t align, size_t size)
{
    if (FAILS("posix_memalign"))
        return ENOMEM;
    void *got = __libc_memalign(align, size);
    if (!got)
        return ENOMEM;
    *p = got;
    return 0;
}

EXPORT char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;

    if (FAILS("strdup")) {
        errno = ENOMEM;
        return NULL;
    }
    char *copy = __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

BY_ERRNO(FILE *, open_memstream, (char **text, size_t *size), (text, size), NULL, ENOMEM)
BY_ERRNO(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL, EMFILE)

BY_ERRNO(void *, mmap64, (void *addr, size_t len, int prot, int flags, int fd, off64_t off),
         (addr, len, prot, flags, fd, off), MAP_FAILED, ENOMEM)
BY_ERRNO(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1, EMFILE)
BY_ERRNO(int, ftruncate64, (int fd, off64_t size), (fd, size), -1, ENOSPC)
BY_ERRNO(int, fallocate64, (int fd, int mode, off64_t off, off64_t len), (fd, mode, off, len), -1,
         ENOSPC)
BY_ERRNO(int, mlock, (const void *addr, size_t len), (addr, len), -1, ENOMEM)
BY_ERRNO(ssize_t, getrandom, (void *to, size_t size, unsigned int flags), (to, size, flags), -1,
         EINTR)

BY_ERRNO(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
BY_ERRNO(int, bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), -1,
         EADDRINUSE)
BY_ERRNO(int, listen, (int fd, int backlog), (fd, backlog), -1, ENOMEM)
BY_ERRNO(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), -1,
         EAGAIN)
BY_ERRNO(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
         (fd, addr, len, flags), -1, EMFILE)
BY_ERRNO(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags), -1,
         ETOOMANYREFS)
BY_ERRNO(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len),
         (fd, level, name, value, len), -1, ENOMEM)
BY_ERRNO(int, epoll_create1, (int flags), (flags), -1, EMFILE)
BY_ERRNO(int, eventfd, (unsigned int value, int flags), (value, flags), -1, EMFILE)
BY_ERRNO(int, timerfd_create, (clockid_t clock, int flags), (clock, flags), -1, EMFILE)

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    static __typeof__(&epoll_ctl) next;

    if (op == EPOLL_CTL_ADD && FAILS("epoll_ctl")) {
        errno = ENOSPC;
        return -1;
    }
    if (!next)
        next = NEXT(epoll_ctl);
    return next(epfd, op, fd, event);
}

static int mode_of(int flags, va_list more)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
}

EXPORT int open64(const char *path, int flags, ...)
{
    static __typeof__(&open64) next;
    va_list more;

    if (FAILS("open64")) {
        errno = EMFILE;
        return -1;
    }
    if (!next)
        next = NEXT(open64);
    va_start(more, flags);
    int mode = mode_of(flags, more);
    va_end(more);
    return next(path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
    static __typeof__(&openat64) next;
    va_list more;

    if (FAILS("openat64")) {
        errno = EMFILE;
        return -1;
    }
    if (!next)
        next = NEXT(openat64);
    va_start(more, flags);
    int mode = mode_of(flags, more);
    va_end(more);
    return next(dir, path, flags, mode);
}

/* userfaultfd and other calls without a function of their own */
EXPORT long syscall(long number, ...)
{
    static __typeof__(&syscall) next;
    va_list more;
    long a[6];

    if (number == SYS_userfaultfd && FAILS("userfaultfd")) {
        errno = EMFILE;
        return -1;
    }
    if (!next)
        next = NEXT(syscall);
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

BY_VALUE(pthread_create,
         (pthread_t * thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg),
         (thread, attr, main, arg), EAGAIN)

BY_ERRNO(struct ibv_device **, ibv_get_device_list, (int *count), (count), NULL, ENOMEM)

/*
 * Functions that verbs.h calls through the device's table: each opened device gets these in place
 * of its own.
 */
static struct {
    __typeof__(((struct verbs_context *)0)->create_qp_ex) create_qp_ex;
    __typeof__(((struct verbs_context *)0)->query_port) query_port;
    __typeof__(((struct ibv_context_ops *)0)->post_send) post_send;
    __typeof__(((struct ibv_context_ops *)0)->post_srq_recv) post_srq_recv;
    __typeof__(((struct ibv_context_ops *)0)->post_recv) post_recv;
    __typeof__(((struct ibv_context_ops *)0)->req_notify_cq) req_notify_cq;
    __typeof__(((struct ibv_qp_ex *)0)->wr_complete) wr_complete;
} device;

static int complete_requests(struct ibv_qp_ex *qp)
{
    if (FAILS("ibv_wr_complete")) {
        qp->wr_abort(qp);
        return ENOMEM;
    }
    return device.wr_complete(qp);
}

static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    if (FAILS("ibv_create_qp_ex")) {
        errno = ENOMEM;
        return NULL;
    }
    struct ibv_qp *qp = device.create_qp_ex(context, attr);
    if (qp && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
        device.wr_complete = ibv_qp_to_qp_ex(qp)->wr_complete;
        ibv_qp_to_qp_ex(qp)->wr_complete = complete_requests;
    }
    return qp;
}

static int ask_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                    size_t size)
{
    return FAILS("ibv_query_port") ? ENOMEM : device.query_port(context, port, attr, size);
}

static int send_requests(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (FAILS("ibv_post_send")) {
        *bad = wr;
        return ENOMEM;
    }
    return device.post_send(qp, wr, bad);
}

static int give_receives(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (FAILS("ibv_post_srq_recv")) {
        *bad = wr;
        return ENOMEM;
    }
    return device.post_srq_recv(srq, wr, bad);
}

static int give_own_receives(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (FAILS("ibv_post_recv")) {
        *bad = wr;
        return ENOMEM;
    }
    return device.post_recv(qp, wr, bad);
}

static int ask_notice(struct ibv_cq *cq, int solicited)
{
    return FAILS("ibv_req_notify_cq") ? ENOMEM : device.req_notify_cq(cq, solicited);
}

static void stand_in_front(struct ibv_context *context)
{
    struct verbs_context *verbs = verbs_get_ctx(context);

    if (context->ops.post_send == send_requests)
        return;
    device.post_send = context->ops.post_send;
    device.post_srq_recv = context->ops.post_srq_recv;
    device.post_recv = context->ops.post_recv;
    device.req_notify_cq = context->ops.req_notify_cq;
    context->ops.post_send = send_requests;
    context->ops.post_srq_recv = give_receives;
    context->ops.post_recv = give_own_receives;
    context->ops.req_notify_cq = ask_notice;
    if (verbs && verbs->create_qp_ex) {
        device.create_qp_ex = verbs->create_qp_ex;
        verbs->create_qp_ex = make_qp;
    }
    if (verbs && verbs->query_port) {
        device.query_port = verbs->query_port;
        verbs->query_port = ask_port;
    }
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *which)
{
    static __typeof__(&ibv_open_device) next;

    if (FAILS("ibv_open_device")) {
        errno = EMFILE;
        return NULL;
    }
    if (!next)
        next = NEXT(ibv_open_device);
    struct ibv_context *context = next(which);
    if (context && fail_at >= 0)
        stand_in_front(context);
    return context;
}

BY_ERRNO(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context), NULL, ENOMEM)
BY_ERRNO(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context),
         (context), NULL, EMFILE)
BY_ERRNO(struct ibv_cq *, ibv_create_cq,
         (struct ibv_context * context, int cqe, void *arg, struct ibv_comp_channel *channel,
          int vector),
         (context, cqe, arg, channel, vector), NULL, ENOMEM)
BY_VALUE(ibv_resize_cq, (struct ibv_cq * cq, int cqe), (cq, cqe), ENOMEM)
BY_ERRNO(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *attr),
         (pd, attr), NULL, ENOMEM)
BY_VALUE(ibv_modify_srq, (struct ibv_srq * srq, struct ibv_srq_attr *attr, int mask),
         (srq, attr, mask), ENOMEM)
BY_ERRNO(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr),
         (pd, attr), NULL, ENOMEM)
BY_VALUE(ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask),
         ENOMEM)
BY_VALUE(ibv_query_qp,
         (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
         (qp, attr, mask, init), ENOMEM)
BY_ERRNO(ssize_t, _ibv_query_gid_table,
         (struct ibv_context * context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
          size_t size),
         (context, entries, most, flags, size), -ENOMEM, ENOMEM)
BY_VALUE(ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
         (context, attr), ENOMEM)
#undef ibv_reg_mr
BY_ERRNO(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t len, int access),
         (pd, addr, len, access), NULL, ENOMEM)
BY_ERRNO(struct ibv_mr *, ibv_reg_mr_iova2,
         (struct ibv_pd * pd, void *addr, size_t len, uint64_t iova, unsigned int access),
         (pd, addr, len, iova, access), NULL, ENOMEM)

BY_ERRNO(struct rdma_event_channel *, rdma_create_event_channel, (void), (), NULL, EMFILE)
BY_ERRNO(int, rdma_create_id,
         (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
          enum rdma_port_space ps),
         (channel, id, context, ps), -1, ENOMEM)
BY_ERRNO(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *addr), (id, addr), -1,
         EADDRINUSE)
BY_ERRNO(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog), -1, ENOMEM)
BY_ERRNO(int, rdma_resolve_addr,
         (struct rdma_cm_id * id, struct sockaddr *src, struct sockaddr *dst, int timeout),
         (id, src, dst, timeout), -1, ENOMEM)
BY_ERRNO(int, rdma_resolve_route, (struct rdma_cm_id * id, int timeout), (id, timeout), -1, ENOMEM)
BY_ERRNO(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param),
         -1, ENOMEM)
BY_ERRNO(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param), -1,
         ENOMEM)
BY_ERRNO(int, rdma_establish, (struct rdma_cm_id * id), (id), -1, ENOMEM)
BY_ERRNO(int, rdma_init_qp_attr, (struct rdma_cm_id * id, struct ibv_qp_attr *attr, int *mask),
         (id, attr, mask), -1, ENOMEM)
BY_ERRNO(int, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t size),
         (id, data, size), -1, ENOMEM)
BY_ERRNO(int, rdma_disconnect, (struct rdma_cm_id * id), (id), -1, ENOMEM)
