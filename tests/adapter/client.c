/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library of the software adapter, preloaded before libibverbs and librdmacm. This file is its
 * connection to the adapter's process (daemon.c); client_verbs.c has the objects of libibverbs,
 * client_data.c the queues in shared memory, client_cm.c librdmacm.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct client client = {.sock = -1, .bell_fd = -1};

static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t bell_lock = PTHREAD_MUTEX_INITIALIZER;

enum { HELLO_FDS = 3, BELL_MARK = SIGURG };

static ssize_t receive(struct ad_msg *msg, int *fds, int most)
{
    char control[CMSG_SPACE(HELLO_FDS * sizeof(int))];
    struct iovec iov = {.iov_base = msg, .iov_len = sizeof(*msg)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    ssize_t n;

    do
        n = recvmsg(client.sock, &header, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS) {
        size_t size = c->cmsg_len - CMSG_LEN(0);
        memcpy(fds, CMSG_DATA(c), size < (size_t)most * sizeof(int) ? size : most * sizeof(int));
    }
    return n;
}

static int exchange(struct ad_msg *msg, int *fds, int most)
{
    if (send(client.sock, msg, sizeof(*msg), MSG_NOSIGNAL) != (ssize_t)sizeof(*msg) ||
        receive(msg, fds, most) != (ssize_t)sizeof(*msg))
        return EIO; /* the adapter has ended */
    return msg->err;
}

int cl_call(struct ad_msg *msg, int *fd)
{
    int none;

    pthread_mutex_lock(&call_lock);
    int rc = exchange(msg, fd ? fd : &none, 1);
    pthread_mutex_unlock(&call_lock);
    return rc;
}

void cl_used(int change)
{
    pthread_mutex_lock(&call_lock);
    client.users += (unsigned int)change;
    pthread_mutex_unlock(&call_lock);
}

/* A child does not own its parent's objects; but it keeps them alive while it has the socket open,
 * as the kernel would. */
static void in_child(void)
{
    if (client.sock >= 0 && !client.users)
        close(client.sock);
    if (client.segment)
        munmap(client.segment, AD_SEGMENT);
    client.segment = NULL;
    client.sock = -1;
    client.users = 0;
    pthread_mutex_init(&call_lock, NULL);
    pthread_mutex_init(&bell_lock, NULL);
}

static void let_adapter_reach_us(void)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    /* the adapter reads and writes this process's memory; needed if Yama restricts ptrace */
    if (getsockopt(client.sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        prctl(PR_SET_PTRACER, (unsigned long)peer.pid, 0, 0, 0);
}

static int say_hello(void)
{
    struct ad_msg msg = {.op = AD_HELLO};
    int fds[HELLO_FDS];

    if (exchange(&msg, fds, HELLO_FDS))
        return -1;
    client.segment =
        mmap(NULL, AD_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fds[0], 0);
    client.global = mmap(NULL, sizeof(*client.global), PROT_READ, MAP_SHARED, fds[1], 0);
    close(fds[0]);
    close(fds[1]);
    client.bell_fd = fds[2];
    fcntl(client.bell_fd, F_SETSIG, BELL_MARK);
    return client.segment == MAP_FAILED || (void *)client.global == MAP_FAILED ? -1 : 0;
}

static int connect_locked(const char *name)
{
    static bool handled;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t length = strlen(name);

    if (length > sizeof(addr.sun_path) - 1)
        return -1;
    memcpy(addr.sun_path + 1, name, length);
    client.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (client.sock < 0 ||
        connect(client.sock, (struct sockaddr *)&addr,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
        say_hello()) {
        fprintf(stderr, "adapter: cannot reach @%s: %s\n", name, strerror(errno));
        if (client.sock >= 0)
            close(client.sock);
        client.sock = -1;
        return -1;
    }
    let_adapter_reach_us();
    if (!handled)
        pthread_atfork(NULL, NULL, in_child);
    handled = true;
    return 0;
}

bool cl_connect(void)
{
    const char *name = getenv(AD_SOCKET_VARIABLE);

    if (!name)
        return false;
    pthread_mutex_lock(&call_lock);
    bool there = client.sock >= 0 || connect_locked(name) == 0;
    pthread_mutex_unlock(&call_lock);
    return there;
}

void cl_ring(struct cl_qp *qp)
{
    struct ad_bells *bells = client.segment;
    uint64_t one = 1;

    if (__atomic_exchange_n(&qp->sq->rings, 1, __ATOMIC_SEQ_CST))
        return; /* the daemon has not checked since */
    pthread_mutex_lock(&bell_lock);
    uint32_t head = bells->head;
    bells->qpns[head % AD_BELLS] = qp->qpx.qp_base.qp_num;
    AD_STORE(bells->head, head + 1);
    pthread_mutex_unlock(&bell_lock);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* the doorbell of a real device is memory: no file that has got the number is written to */
    if (AD_LOAD(client.global->asleep) && fcntl(client.bell_fd, F_GETSIG) == BELL_MARK &&
        write(client.bell_fd, &one, sizeof(one)) < 0)
        perror("adapter: ringing");
}

/* For tests, which find it with dlsym(): activates a fault. */
EXPORT int adapter_fault(uint32_t what, uint32_t count);
int adapter_fault(uint32_t what, uint32_t count)
{
    struct ad_msg msg = {.op = AD_FAULT, .fault = {what, count}};

    return cl_connect() ? cl_call(&msg, NULL) : ENODEV;
}

/* For tests: the number of receives in the shared receive queues of this process; -1: it has
 * none. */
EXPORT int adapter_receives(void);
int adapter_receives(void)
{
    struct ad_msg msg = {.op = AD_RECEIVES};

    return cl_connect() && cl_call(&msg, NULL) == 0 ? (int)msg.fault.count : -1;
}

/* For tests: how many memory regions this process has. */
EXPORT int adapter_regions(void);
int adapter_regions(void)
{
    struct ad_msg msg = {.op = AD_REGIONS};

    return cl_connect() && cl_call(&msg, NULL) == 0 ? (int)msg.fault.count : -1;
}

/* For tests: the numbers of posted and polled requests of this process so far. */
EXPORT void adapter_counts(struct ad_counts *out);
void adapter_counts(struct ad_counts *out)
{
    cl_counts(out);
}

/* For tests: the capabilities of queue pairs that this process makes from now on, instead of the
 * device's (NULL), and the point of failure: AD_ECE_... */
EXPORT void adapter_ece(const struct ad_ece *can, uint32_t how);
void adapter_ece(const struct ad_ece *can, uint32_t how)
{
    cl_ece(can, how);
}

/* For tests: the number of queue pairs of this process that are ready to send; *options: the
 * enhancements that all of them use. */
EXPORT int adapter_enhanced(uint32_t *options);
int adapter_enhanced(uint32_t *options)
{
    struct ad_msg msg = {.op = AD_ENHANCED};

    if (!cl_connect() || cl_call(&msg, NULL))
        return -1;
    *options = msg.fault.what;
    return (int)msg.fault.count;
}

/* The same with all bits of the traffic classes of their paths. */
EXPORT int adapter_classes(uint32_t *classes);
int adapter_classes(uint32_t *classes)
{
    struct ad_msg msg = {.op = AD_CLASSES};

    if (!cl_connect() || cl_call(&msg, NULL))
        return -1;
    *classes = msg.fault.what;
    return (int)msg.fault.count;
}

bool cl_wait_readable(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || flags & O_NONBLOCK)
        return false;
    return poll(&pfd, 1, -1) > 0;
}
