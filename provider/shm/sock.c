/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake between two processes, over a SOCK_SEQPACKET socket with an abstract name: it is
 * gone with the process that bound it, and its hang-up is how the other's death is known.
 *
 *   HELLO (key of the target, segment) ->   <- WELCOME (segment)   CONFIRM ->
 *
 * Afterwards it carries the bell. When both connect at once, the process with the smaller key says
 * YIELD to the other's HELLO and its own counts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

#include "sp.h"
#include "util/clock.h"
#include "util/log.h"

enum { BACKLOG = 4096, RETRY_MS = 10 };

/*
 * Who and where
 */

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    for (const uint8_t *p = data; size > 0; p++, size--)
        hash = (hash ^ *p) * 0x100000001b3ull;
    return hash;
}

int sp_host_identity(uint64_t *host)
{
    static const char *const namespaces[] = {"/proc/self/ns/pid", "/proc/self/ns/net"};
    char boot[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot));
    uint64_t hash = 0xcbf29ce484222325ull;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -ENOENT;
    hash = mix(hash, boot, (size_t)n);
    for (int i = 0; i < 2; i++) {
        struct stat st;
        uint64_t id[2] = {0, 0};
        if (stat(namespaces[i], &st) == 0) {
            id[0] = st.st_dev;
            id[1] = st.st_ino;
        }
        hash = mix(hash, id, sizeof(id));
    }
    *host = hash;
    return 0;
}

static socklen_t socket_name(const struct sp_address *addr, struct sockaddr_un *sun)
{
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)addr->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* The process at the other end, if it is of the same user. */
static bool check_credentials(int fd, pid_t *pid)
{
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.uid != geteuid()) {
        ut_info(SP_LOG, "turned away a process of user %ld, which is not ours", (long)cred.uid);
        return false;
    }
    *pid = cred.pid;
    return true;
}

static int watch(struct sp_prov *prov, int fd, void *what)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = what};

    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

int sp_listen(struct sp_prov *prov)
{
    struct sockaddr_un sun;
    socklen_t len = socket_name(&prov->addr, &sun);

    prov->listen_fd = new_socket();
    if (prov->listen_fd < 0 || bind(prov->listen_fd, (struct sockaddr *)&sun, len) != 0 ||
        listen(prov->listen_fd, BACKLOG) != 0 ||
        watch(prov, prov->listen_fd, &prov->listen_fd) != 0) {
        int rc = -errno;
        ut_error(SP_LOG, "cannot listen on an abstract unix socket: %s", strerror(-rc));
        return rc;
    }
    return 0;
}

/*
 * Datagrams
 */

enum { SEGMENT, MAPPED, NUM_FDS };

static int send_dgram(struct sp_prov *prov, int fd, const struct sp_dgram *d, bool with_segment)
{
    const int fds[NUM_FDS] = {[SEGMENT] = prov->seg_fd, [MAPPED] = prov->adopt.fd};
    size_t fds_size = (fds[MAPPED] >= 0 ? NUM_FDS : 1) * sizeof(int);
    struct iovec iov = {.iov_base = (void *)d, .iov_len = sizeof(*d)};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(NUM_FDS * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (with_segment) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(fds_size);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds_size);
        memcpy(CMSG_DATA(c), fds, fds_size);
    }
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*d) ? 0 : -errno;
}

/* Bytes received, 0 at a hang-up, -EAGAIN. Descriptors that came along are in fds[]. */
static ssize_t receive_dgram(int fd, struct sp_dgram *d, int fds[NUM_FDS])
{
    struct iovec iov = {.iov_base = d, .iov_len = sizeof(*d)};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(NUM_FDS * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t n;

    for (int i = 0; i < NUM_FDS; i++)
        fds[i] = -1;
    do { /* a reset is reported once, before what is left to read */
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0)
        return errno == EAGAIN ? -EAGAIN : 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (n > 0 && c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    return n;
}

static struct sp_dgram make_dgram(struct sp_peer *peer, enum sp_dgram_type type)
{
    struct sp_prov *prov = peer->prov;

    return (struct sp_dgram){.type = type,
                             .version = SP_VERSION,
                             .key = prov->addr.key,
                             .pid = prov->addr.pid,
                             .claimer = peer->claimer_here,
                             .probe_addr = (uintptr_t)&prov->seg->table.header.probe,
                             .probe = prov->seg->table.header.probe};
}

/* Should the socket be full, the other side has something to read, and looks at what is in shared
 * memory then: `rung`, `closings`. */
void sp_tell(struct sp_peer *peer, enum sp_dgram_type type)
{
    struct sp_dgram d = {.type = type, .version = SP_VERSION};

    if (peer->fd >= 0)
        (void)send_dgram(peer->prov, peer->fd, &d, false);
}

/*
 * Connecting
 */

static void drop_socket(struct sp_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

static void greet_later(struct sp_peer *peer)
{
    drop_socket(peer);
    __atomic_store_n(&peer->state, SP_PEER_RETRY, __ATOMIC_RELEASE);
    peer->retry_ms = ut_now_ms() + RETRY_MS;
    sp_timer(peer->prov);
}

void sp_greet(struct sp_peer *peer)
{
    struct sp_prov *prov = peer->prov;
    struct sockaddr_un sun;
    socklen_t len = socket_name(&peer->addr, &sun);

    peer->fd = new_socket();
    if (peer->fd < 0) {
        ut_error(SP_LOG, "no socket for another peer: %s", strerror(errno));
        sp_peer_die(peer);
        return;
    }
    if (connect(peer->fd, (struct sockaddr *)&sun, len) != 0) {
        if (errno == EAGAIN || errno == EINTR)
            greet_later(peer);
        else
            sp_peer_die(peer); /* refused: nobody listens any more */
        return;
    }
    struct sp_dgram d = make_dgram(peer, SP_DGRAM_HELLO);
    d.target_key = peer->addr.key;
    int rc =
        check_credentials(peer->fd, &peer->pid) ? send_dgram(prov, peer->fd, &d, true) : -EPERM;
    if (rc == -EAGAIN || rc == -ETOOMANYREFS || rc == -ENOBUFS) {
        greet_later(peer);
    } else if (rc != 0 || watch(prov, peer->fd, peer) != 0) {
        sp_peer_die(peer);
    } else {
        __atomic_store_n(&peer->state, SP_PEER_GREETED, __ATOMIC_RELEASE);
    }
}

/* Nobody else can be accepted for now: looking again and again would not help. */
static void pause_listening(struct sp_prov *prov)
{
    if (!prov->told_no_socket)
        ut_error(SP_LOG,
                 "cannot accept another peer: %s; is the limit of open files (ulimit -n) "
                 "too low?",
                 strerror(errno));
    prov->told_no_socket = true;
    prov->listen_paused = true;
    epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, prov->listen_fd, NULL);
    sp_timer(prov);
}

void sp_resume_listening(struct sp_prov *prov)
{
    if (prov->listen_paused) {
        prov->listen_paused = false;
        watch(prov, prov->listen_fd, &prov->listen_fd);
    }
}

void sp_accept_all(struct sp_prov *prov)
{
    int fd;

    while ((fd = accept4(prov->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        pid_t pid;
        struct sp_peer *peer = check_credentials(fd, &pid) ? sp_peer_new(prov) : NULL;
        if (!peer) {
            close(fd);
            continue;
        }
        peer->fd = fd;
        peer->pid = pid;
        if (watch(prov, fd, peer) != 0)
            sp_peer_die(peer);
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        pause_listening(prov);
}

/*
 * Answering
 */

static void probe_cma(struct sp_peer *peer, const struct sp_dgram *d)
{
    struct sp_prov *prov = peer->prov;
    uint64_t value = ~d->probe;
    struct iovec lcl = {.iov_base = &value, .iov_len = sizeof(value)};
    struct iovec rmt = {.iov_base = (void *)(uintptr_t)d->probe_addr, .iov_len = sizeof(value)};
    const char *why = "UTOFU_SHM_CMA=0";

    if (prov->use_cma) {
        ssize_t n = process_vm_readv(peer->pid, &lcl, 1, &rmt, 1, 0);
        why = n < 0 ? strerror(errno) : "another process answered";
        peer->cma = n == (ssize_t)sizeof(value) && value == d->probe;
    }
    if (!peer->cma && __atomic_exchange_n(&prov->told_no_cma, 1, __ATOMIC_RELAXED) == 0)
        ut_info(SP_LOG,
                "no cross-memory attach to process %ld (%s): data is copied through the "
                "rings",
                (long)peer->pid, why);
}

/* What can be mapped of it, if both sides want that. */
static void take_mapped(struct sp_peer *peer, int fds[NUM_FDS])
{
    if (fds[MAPPED] >= 0 && peer->prov->use_map && sp_adopt_check_fd(fds[MAPPED])) {
        peer->map_fd = fds[MAPPED];
        fds[MAPPED] = -1;
    }
}

static bool take_segment(struct sp_peer *peer, const struct sp_dgram *d, int fds[NUM_FDS])
{
    if (fds[SEGMENT] < 0)
        return false;
    peer->seg = sp_segment_map(fds[SEGMENT]);
    fds[SEGMENT] = -1;
    take_mapped(peer, fds);
    peer->claimer_there = d->claimer;
    if (peer->seg)
        probe_cma(peer, d);
    return peer->seg != NULL;
}

static void come_up(struct sp_peer *peer)
{
    __atomic_store_n(&peer->state, SP_PEER_UP, __ATOMIC_SEQ_CST);
    sp_attention(peer->prov);
}

/* Our own attempt gives way to the socket on which the other one greeted us. */
static struct sp_peer *adopt(struct sp_peer *ours, struct sp_peer *incoming)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ours};

    drop_socket(ours);
    ours->fd = incoming->fd;
    ours->pid = incoming->pid;
    incoming->fd = -1;
    epoll_ctl(ours->prov->epoll_fd, EPOLL_CTL_MOD, ours->fd, &ev);
    return ours;
}

/* Returns the peer whose socket this is from now on, or NULL: it is closed. */
static struct sp_peer *take_hello(struct sp_peer *peer, const struct sp_dgram *d, int fds[NUM_FDS])
{
    struct sp_prov *prov = peer->prov;

    if (d->version != SP_VERSION || d->target_key != prov->addr.key) {
        ut_info(SP_LOG,
                "turned away process %ld, which does not know our key or speaks another "
                "version",
                (long)peer->pid);
        sp_peer_die(peer);
        return NULL;
    }
    struct sp_peer *known = sp_peer_find(prov, d->key);
    if (known) {
        if (known->state == SP_PEER_RETRY ||
            (known->state == SP_PEER_GREETED && d->key < prov->addr.key)) {
            adopt(known, peer);
        } else {
            sp_tell(peer, SP_DGRAM_YIELD);
            known = NULL;
        }
        sp_peer_die(peer);
        if (!known)
            return NULL;
        peer = known;
    }
    peer->addr.key = d->key;
    struct sp_dgram answer = make_dgram(peer, SP_DGRAM_WELCOME);
    if (!take_segment(peer, d, fds) || send_dgram(prov, peer->fd, &answer, true) != 0) {
        sp_peer_die(peer);
        return NULL;
    }
    __atomic_store_n(&peer->state, SP_PEER_MAPPED, __ATOMIC_RELEASE);
    return peer;
}

static struct sp_peer *take_welcome(struct sp_peer *peer, const struct sp_dgram *d,
                                    int fds[NUM_FDS])
{
    struct sp_dgram answer = make_dgram(peer, SP_DGRAM_CONFIRM);

    if (d->version != SP_VERSION || d->key != peer->addr.key || !take_segment(peer, d, fds) ||
        send_dgram(peer->prov, peer->fd, &answer, false) != 0) {
        sp_peer_die(peer);
        return NULL;
    }
    come_up(peer);
    return peer;
}

static void look_for_closings(struct sp_peer *peer)
{
    uint64_t n =
        peer->seg ? __atomic_load_n(&peer->seg->table.header.closings, __ATOMIC_SEQ_CST) : 0;

    if (n != peer->closings_seen)
        sp_attention(peer->prov);
    peer->closings_seen = n;
}

/* Returns the peer that is to be read on, or NULL. */
static struct sp_peer *take(struct sp_peer *peer, const struct sp_dgram *d, int fds[NUM_FDS])
{
    switch (d->type) {
    case SP_DGRAM_HELLO:
        if (peer->state == SP_PEER_INCOMING)
            return take_hello(peer, d, fds);
        break;
    case SP_DGRAM_WELCOME:
        if (peer->state == SP_PEER_GREETED)
            return take_welcome(peer, d, fds);
        break;
    case SP_DGRAM_CONFIRM:
        if (peer->state == SP_PEER_MAPPED) {
            come_up(peer);
            return peer;
        }
        break;
    case SP_DGRAM_YIELD:
        if (peer->state == SP_PEER_GREETED) {
            greet_later(peer);
            return NULL;
        }
        break;
    case SP_DGRAM_BELL: /* who was rung for is in the rings */
    case SP_DGRAM_CLOSED:
        look_for_closings(peer);
        return peer;
    default:
        break;
    }
    ut_info(SP_LOG, "process %ld does not keep to the protocol", (long)peer->pid);
    sp_peer_die(peer);
    return NULL;
}

void sp_receive(struct sp_peer *peer)
{
    while (peer && peer->fd >= 0) {
        struct sp_dgram d = {0};
        int fds[NUM_FDS];
        ssize_t n = receive_dgram(peer->fd, &d, fds);

        if (n == -EAGAIN)
            return;
        if (n == 0) {
            sp_peer_die(peer);
            return;
        }
        if (n == (ssize_t)sizeof(d)) {
            peer = take(peer, &d, fds);
        } else {
            sp_peer_die(peer);
            peer = NULL;
        }
        for (int i = 0; i < NUM_FDS; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
    }
}

void sp_ring_bell(struct sp_peer *peer, struct sp_ring *ring)
{
    if (__atomic_exchange_n(&ring->armed, 0, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_store_n(&ring->rung, 1, __ATOMIC_SEQ_CST);
    if (peer->is_self)
        sp_kick(peer->prov);
    else
        sp_tell(peer, SP_DGRAM_BELL);
}
