/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake between two processes, over a SOCK_SEQPACKET socket with an abstract name, which
 * vanishes with the process that bound it. A hang-up means that the peer has died.
 *
 *   HELLO (key of the target, segment) ->   <- WELCOME (segment)   CONFIRM ->
 *
 * Afterwards the socket carries notifications: DOORBELL and CLOSED. If both processes connect at
 * the same time, the process with the smaller key replies YIELD to the other's HELLO, and its own
 * connection is used.
 *
 * Segments are not sent: the peer opens /proc/PID/fd/N. The kernel limits the descriptors in flight
 * on all sockets of a user to RLIMIT_NOFILE, which a job of some 64 processes exceeds. A process
 * that cannot open them (the other process is not dumpable) sends WANT_FDS, and receives the same
 * datagram again with the descriptors attached.
 *
 * A process that lacks descriptors or memory sends BUSY and hangs up. Both sides drop the attempt,
 * and the process that wants the connection retries, with back-off, for UTOFU_PEER_TIMEOUT; then it
 * gives up with PROV_REASON_LOCAL. Only a refused connection or a hang-up means that the peer is
 * dead.
 *
 * A process that rejects another one sends REFUSED and hangs up; both sides log the reason. Users
 * are compared by the kernel's credentials: those of a connecting process at that moment, those of
 * a listening process at the time of listen(). A program may change its user later. Then its
 * WELCOME must carry the credentials of its present user.
 */
#include "sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "peer.h"
#include "remap.h"
#include "ring.h"
#include "segment.h"
#include "types.h"
#include "util/assert.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/log.h"
#include "wake.h"

enum {
    BACKLOG = 4096,
    YIELD_MS = 10, /* time for the peer's connection to arrive */
    FIRST_BACKOFF_MS = 2,
    LAST_BACKOFF_MS = 500,
    MAX_REJECTIONS_AT_ONCE = 64,
    USER_CHANGE_MS = 3000, /* time for all processes of a job to change their user */
};

/*
 * Names and credentials
 */

/* Sets the abstract name of the process's listening socket. Returns the size of the name. */
static socklen_t socket_name(const struct sp_address *addr, struct sockaddr_un *sun)
{
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)addr->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Returns a descriptor or -1. */
static int new_socket(void)
{
    return ut_fd_open_ours(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* Returns the credentials of the process at the other end of the socket. */
static struct ucred read_credentials(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        cred = (struct ucred){.uid = (uid_t)-1};
    return cred;
}

/* True once for each process, and always for pid -1. */
static bool must_log_rejection(struct sp_prov *prov, pid_t pid)
{
    for (int i = 0; i < SP_REJECTED; i++) {
        if (pid > 0 && prov->rejected[i] == pid)
            return false;
    }
    prov->rejected[prov->num_rejected++ % SP_REJECTED] = pid;
    return true;
}

#define SAME_USER "start all ranks as the same user, or let all of them change it before they meet"

/* Sends REFUSED and logs the reason (not for SP_REFUSAL_OTHER: the caller logs it). */
static void send_refusal(struct sp_prov *prov, int fd, const struct ucred *cred,
                         enum sp_refusal why)
{
    bool changed = why == SP_REFUSAL_USER && geteuid() != prov->uid;
    const struct sp_dgram dgram = {.type = SP_DGRAM_REFUSED,
                                   .version = SP_VERSION,
                                   .pid = (uint32_t)getpid(),
                                   .uid = geteuid(),
                                   .refusal = changed ? SP_REFUSAL_USER_CHANGED : why};

    (void)!send(fd, &dgram, sizeof(dgram), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (why == SP_REFUSAL_OTHER || !must_log_rejection(prov, cred->pid))
        return;
    if (why == SP_REFUSAL_USER)
        ut_warn(
            SP_LOG,
            "rejected a connection from uid %u (pid %d): this process runs as uid %u (" SAME_USER
            ")",
            cred->uid, (int)cred->pid, geteuid());
    else if (why == SP_REFUSAL_VERSION)
        ut_warn(SP_LOG,
                "rejected a connection from process %d, which runs another version of this "
                "library (use one version in a job)",
                (int)cred->pid);
    else
        ut_warn(SP_LOG,
                "rejected a connection from process %d, which does not know the key of this "
                "process (is it a process of another job?)",
                (int)cred->pid);
}

/* Checks the credentials of a connecting process; false: another user, rejected. */
static bool check_connecting_user(struct sp_prov *prov, int fd, pid_t *pid)
{
    struct ucred cred = read_credentials(fd);

    *pid = cred.pid;
    if (cred.uid == geteuid())
        return true;
    send_refusal(prov, fd, &cred, SP_REFUSAL_USER);
    return false;
}

/* Checks the credentials of a listening process. If its user at the time of listen() was the user
 * of this process at that time, either may have changed since: the peer has to prove its present
 * user. False: rejected. */
static bool check_listening_user(struct sp_peer *peer)
{
    struct ucred cred = read_credentials(peer->fd);
    uid_t uid = geteuid();
    int one = 1;

    peer->pid = cred.pid;
    peer->must_prove_user = cred.uid != uid;
    if (cred.uid == uid || (cred.uid == peer->prov->uid &&
                            setsockopt(peer->fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) == 0))
        return true;
    send_refusal(peer->prov, peer->fd, &cred, SP_REFUSAL_USER);
    return false;
}

/* Adds the descriptor to the epoll set. `source`: argument of dispatch_event() in prov.c. Returns
 * 0, or -1 and errno. */
static int watch_fd(struct sp_prov *prov, int fd, void *source)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

int sp_listen(struct sp_prov *prov)
{
    struct sockaddr_un sun;
    socklen_t len = socket_name(&prov->addr, &sun);

    prov->uid = geteuid();
    prov->listen_fd = new_socket();
    if (prov->listen_fd < 0 || bind(prov->listen_fd, (struct sockaddr *)&sun, len) != 0 ||
        listen(prov->listen_fd, BACKLOG) != 0 ||
        watch_fd(prov, prov->listen_fd, &prov->listen_fd) != 0) {
        int rc = -errno;
        ut_error(SP_LOG, "cannot listen on an abstract unix socket: %s", strerror(-rc));
        return rc;
    }
    return 0;
}

/*
 * Datagrams
 */

enum { SEGMENT_FD, REMAP_FD, NUM_FDS };

/* What came with a datagram: descriptors, or -1. `truncated`: this process could not receive all.
 * `cred`: credentials of a sender that has to prove its user. */
struct attachments {
    int fds[NUM_FDS];
    bool truncated;
    struct ucred cred;
};

/* Buffer for all control data of a datagram. */
union control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(NUM_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* Appends a control message to the datagram's control data. */
static void append_control(struct msghdr *msg, int type, const void *data, size_t size)
{
    struct cmsghdr *c = (void *)((char *)msg->msg_control + msg->msg_controllen);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), data, size);
    msg->msg_controllen += CMSG_SPACE(size);
}

/* Sends a datagram, with the descriptors of this process if `with_fds`. Returns 0 or -errno. */
static int send_dgram(struct sp_prov *prov, int fd, const struct sp_dgram *dgram, bool with_fds)
{
    const int fds[NUM_FDS] = {[SEGMENT_FD] = prov->seg_fd, [REMAP_FD] = prov->remap.exchange.fd};
    size_t fds_size = (fds[REMAP_FD] >= 0 ? NUM_FDS : 1) * sizeof(int);
    struct iovec iov = {.iov_base = (void *)dgram, .iov_len = sizeof(*dgram)};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf};

    if (dgram->type == SP_DGRAM_WELCOME) {
        const struct ucred cred = {.pid = getpid(), .uid = geteuid(), .gid = getegid()};
        append_control(&msg, SCM_CREDENTIALS, &cred, sizeof(cred));
    }
    if (with_fds)
        append_control(&msg, SCM_RIGHTS, fds, fds_size);
    if (msg.msg_controllen == 0)
        msg.msg_control = NULL;
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*dgram) ? 0 : -errno;
}

/* Returns the number of bytes received, 0 after a hang-up, or -EAGAIN. Only datagrams of the
 * handshake carry descriptors: without with_fds the kernel drops them. */
static ssize_t receive_dgram(int fd, struct sp_dgram *dgram, struct attachments *attachments,
                             bool with_fds)
{
    struct iovec iov = {.iov_base = dgram, .iov_len = sizeof(*dgram)};
    union control control;
    struct msghdr msg;
    ssize_t n;

    *attachments = (struct attachments){.fds = {-1, -1}, .cred.uid = (uid_t)-1};
    if (with_fds)
        ut_fd_reserve_stdio();
    do { /* the kernel reports ECONNRESET once, before the remaining datagrams */
        msg = (struct msghdr){.msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = with_fds ? control.buf : NULL,
                              .msg_controllen = with_fds ? sizeof(control.buf) : 0};
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (with_fds)
        ut_fd_release_stdio();
    if (n < 0)
        return errno == EAGAIN ? -EAGAIN : 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(attachments->fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
        else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
            memcpy(&attachments->cred, CMSG_DATA(c), sizeof(attachments->cred));
    }
    for (int i = 0; i < NUM_FDS; i++)
        ut_fd_mark_ours(attachments->fds[i]);
    attachments->truncated = msg.msg_flags & MSG_CTRUNC;
    return n;
}

static void close_attached_fds(struct attachments *attachments)
{
    for (int i = 0; i < NUM_FDS; i++) {
        if (attachments->fds[i] >= 0)
            close(attachments->fds[i]);
        attachments->fds[i] = -1;
    }
}

/* Returns a datagram of the handshake with this process's data for the peer. */
static struct sp_dgram make_dgram(struct sp_peer *peer, enum sp_dgram_type type)
{
    struct sp_prov *prov = peer->prov;

    return (struct sp_dgram){.type = type,
                             .version = SP_VERSION,
                             .key = prov->addr.key,
                             .pid = prov->addr.pid,
                             .producer_id = peer->id_in_own_rings,
                             .probe_addr = (uintptr_t)&prov->seg->table.header.probe,
                             .probe = prov->seg->table.header.probe,
                             .seg_fd = prov->seg_fd,
                             .remap_fd = prov->remap.exchange.fd};
}

/* Sends HELLO, WELCOME or CONFIRM. Returns 0 or -errno. */
static int send_handshake(struct sp_peer *peer, enum sp_dgram_type type)
{
    struct sp_dgram dgram = make_dgram(peer, type);

    if (type == SP_DGRAM_HELLO)
        dgram.target_key = peer->addr.key;
    return send_dgram(peer->prov, peer->fd, &dgram, type != SP_DGRAM_CONFIRM && peer->attach_fds);
}

static int send_empty_dgram(struct sp_prov *prov, int fd, enum sp_dgram_type type)
{
    struct sp_dgram dgram = {.type = type, .version = SP_VERSION};

    return send_dgram(prov, fd, &dgram, false);
}

/*
 * Retrying
 */

/* Errors for resources that may become available later. */
static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
           error == ENOSPC || error == ETOOMANYREFS;
}

/* If the socket is full, the peer has datagrams to read anyway, and then checks `rung` and
 * `num_closed_eps`. If the kernel has no memory, the timer sends the notification again. */
void sp_send_notification(struct sp_peer *peer, enum sp_dgram_type type)
{
    if (!ut_fd_check_still_ours(peer->fd) ||
        !is_shortage(-send_empty_dgram(peer->prov, peer->fd, type)))
        return;
    __atomic_fetch_or(&peer->pending_notifications, 1u << (type - SP_DGRAM_HELLO),
                      __ATOMIC_SEQ_CST);
    __atomic_store_n(&peer->prov->has_pending_notifications, 1, __ATOMIC_SEQ_CST);
    sp_start_timer(peer->prov);
}

void sp_disconnect_all(struct sp_prov *prov)
{
    UT_ASSERT_LOCKED(&prov->lock);
    while (!LIST_EMPTY(&prov->peers))
        sp_peer_mark_dead(LIST_FIRST(&prov->peers), PROV_REASON_LOCAL);
}

void sp_send_pending_notifications(struct sp_prov *prov)
{
    struct sp_peer *peer;

    if (!__atomic_exchange_n(&prov->has_pending_notifications, 0, __ATOMIC_SEQ_CST))
        return;
    LIST_FOREACH (peer, &prov->peers, next) {
        uint32_t pending = __atomic_exchange_n(&peer->pending_notifications, 0, __ATOMIC_SEQ_CST);
        for (unsigned int i = 0; pending >> i; i++)
            if (pending >> i & 1)
                sp_send_notification(peer, (enum sp_dgram_type)(SP_DGRAM_HELLO + i));
    }
}

/* Logs the first shortage of this process. `error`: an errno. */
static void log_shortage(struct sp_prov *prov, int error)
{
    if (!prov->shortage_logged)
        ut_error(SP_LOG, "cannot connect to another process for now: %s%s", strerror(error),
                 ut_fd_limit_remedy(error));
    prov->shortage_logged = true;
}

/* Removes the socket from the epoll set explicitly: a newly forked child may have it open. */
static void drop_socket(struct sp_peer *peer)
{
    if (ut_fd_is_still_ours(peer->fd))
        epoll_ctl(peer->prov->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    ut_fd_close(peer->fd);
    peer->fd = -1;
    peer->fds_requested = false;
}

/* Makes sp_retry() run at this time or earlier. */
static void schedule_retry(struct sp_prov *prov, uint64_t at_ms)
{
    if (prov->retry_ms == 0 || at_ms < prov->retry_ms)
        prov->retry_ms = at_ms;
}

/* Closes the socket; the next attempt to connect is in `ms` milliseconds. */
static void schedule_connect(struct sp_peer *peer, uint64_t ms)
{
    drop_socket(peer);
    __atomic_store_n(&peer->state, SP_PEER_WILL_CONNECT, __ATOMIC_RELEASE);
    peer->retry_ms = ut_now_ms() + ms;
    schedule_retry(peer->prov, peer->retry_ms);
}

/* Doubles *backoff_ms within its limits. Returns the delay with jitter. */
static uint64_t next_backoff_ms(struct sp_prov *prov, uint32_t *backoff_ms)
{
    *backoff_ms = (uint32_t)ut_retry_delay_next_ms(*backoff_ms, FIRST_BACKOFF_MS, LAST_BACKOFF_MS);
    return ut_retry_delay_jitter_ms(*backoff_ms, prov->jitter_seed++);
}

/* Unmaps the peer's segment and closes its memfd of remapped memory. */
static void release_segment(struct sp_peer *peer)
{
    sp_segment_unmap(peer->seg);
    peer->seg = NULL;
    ut_fd_close(peer->remap_fd);
    peer->remap_fd = -1;
}

/* The attempt failed because this process, or (error 0) the peer, lacks resources. Retries only if
 * connections wait for the peer. */
static void retry_after_shortage(struct sp_peer *peer, int error)
{
    struct sp_prov *prov = peer->prov;
    uint64_t now = ut_now_ms();

    if (error != 0)
        log_shortage(prov, error);
    release_segment(peer);
    if (__atomic_load_n(&peer->refs, __ATOMIC_RELAXED) == 1) {
        sp_peer_mark_dead(peer, PROV_REASON_LOCAL);
        return;
    }
    if (peer->shortage_since_ms == 0)
        peer->shortage_since_ms = now;
    if (now - peer->shortage_since_ms < prov->config.peer_timeout_ms) {
        schedule_connect(peer, next_backoff_ms(prov, &peer->backoff_ms));
        return;
    }
    if (error != 0)
        ut_error(SP_LOG, "gave up connecting to process %u after %u ms: %s%s", peer->addr.pid,
                 prov->config.peer_timeout_ms, strerror(error), ut_fd_limit_remedy(error));
    else
        ut_error(SP_LOG,
                 "gave up connecting to process %u after %u ms: it has no descriptor or no memory "
                 "left for another peer; raise its limit of open files (ulimit -n)",
                 peer->addr.pid, prov->config.peer_timeout_ms);
    sp_peer_mark_dead(peer, PROV_REASON_LOCAL);
}

/* Returns why the peer (not its user) rejected this process, for the log. */
static const char *explain_refusal(uint32_t refusal)
{
    return refusal == SP_REFUSAL_KEY ? "this process does not know its key (is it a process of "
                                       "another job?)"
           : refusal == SP_REFUSAL_VERSION ? "it runs another version of this library; use one "
                                             "version in a job"
                                           : "see its log";
}

/* The peer has rejected this process. */
static void log_refusal(struct sp_peer *peer, const struct sp_dgram *dgram)
{
    if (peer->refusal_logged)
        return;
    peer->refusal_logged = true;
    if (dgram->refusal == SP_REFUSAL_USER || dgram->refusal == SP_REFUSAL_USER_CHANGED)
        ut_warn(SP_LOG,
                "process %d, which runs as uid %u, rejected this process, which runs as uid "
                "%u (" SAME_USER ")",
                (int)peer->pid, dgram->uid, geteuid());
    else
        ut_warn(SP_LOG, "process %d rejected this process: %s", (int)peer->pid,
                explain_refusal(dgram->refusal));
}

/* One side has rejected the other. While processes change their user in turn, a retry may succeed.
 */
static void handle_refusal(struct sp_peer *peer, enum sp_refusal why)
{
    struct sp_prov *prov = peer->prov;
    bool may_pass =
        why == SP_REFUSAL_USER_CHANGED || (why == SP_REFUSAL_USER && geteuid() != prov->uid);
    uint64_t now = ut_now_ms();

    release_segment(peer);
    if (peer->refused_since_ms == 0)
        peer->refused_since_ms = now;
    if (may_pass && now - peer->refused_since_ms < USER_CHANGE_MS &&
        __atomic_load_n(&peer->refs, __ATOMIC_RELAXED) > 1)
        schedule_connect(peer, next_backoff_ms(prov, &peer->backoff_ms));
    else
        sp_peer_mark_dead(peer, PROV_REASON_REFUSED);
}

/*
 * Connecting
 */

/* Returns 0 or -errno; -EACCES: another user. */
static int connect_and_send_hello(struct sp_peer *peer)
{
    struct sockaddr_un sun;
    socklen_t len = socket_name(&peer->addr, &sun);

    peer->fd = new_socket();
    if (peer->fd < 0 || connect(peer->fd, (struct sockaddr *)&sun, len) != 0)
        return -errno;
    if (!check_listening_user(peer))
        return -EACCES;
    int rc = send_handshake(peer, SP_DGRAM_HELLO);
    if (rc != 0 && rc != -EPIPE && rc != -ECONNRESET)
        return rc;
    /* EPIPE, ECONNRESET: the peer hung up, but its earlier datagrams can still be read */
    return watch_fd(peer->prov, peer->fd, peer) == 0 ? 0 : -errno;
}

void sp_peer_connect(struct sp_peer *peer)
{
    bool fds_intact =
        ut_fd_check_still_ours(peer->prov->epoll_fd) && ut_fd_check_still_ours(peer->prov->seg_fd);
    int rc = fds_intact ? connect_and_send_hello(peer) : -EBADF;

    if (!fds_intact) {
        sp_peer_mark_dead(peer, PROV_REASON_LOCAL);
    } else if (rc == 0) {
        __atomic_store_n(&peer->state, SP_PEER_HELLO_SENT, __ATOMIC_RELEASE);
    } else if (rc == -EAGAIN || rc == -EINTR) { /* the backlog of the listener is full */
        schedule_connect(peer, next_backoff_ms(peer->prov, &peer->backoff_ms));
    } else if (is_shortage(-rc)) {
        retry_after_shortage(peer, -rc);
    } else if (rc == -EACCES) {
        handle_refusal(peer, SP_REFUSAL_USER);
    } else if (rc == -ECONNREFUSED) { /* the peer no longer listens */
        sp_peer_mark_dead(peer, PROV_REASON_PEER_DEAD);
    } else {
        ut_error(SP_LOG, "cannot connect to process %u: %s", peer->addr.pid, strerror(-rc));
        sp_peer_mark_dead(peer, PROV_REASON_LOCAL);
    }
}

/* No descriptor is left to accept a connection; epoll would report the listener again and again. */
static void pause_listening(struct sp_prov *prov)
{
    prov->listen_paused = true;
    epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, prov->listen_fd, NULL);
    schedule_retry(prov, ut_now_ms() + LAST_BACKOFF_MS / 4);
}

static void resume_listening(struct sp_prov *prov)
{
    prov->listen_paused = false;
    if (watch_fd(prov, prov->listen_fd, &prov->listen_fd) != 0)
        pause_listening(prov);
}

int sp_retry(struct sp_prov *prov)
{
    struct sp_peer *next;
    uint64_t now;

    if (prov->retry_ms == 0)
        return -1;
    now = ut_now_ms();
    if (now >= prov->retry_ms) {
        prov->retry_ms = 0;
        if (prov->listen_paused)
            resume_listening(prov);
        for (struct sp_peer *peer = LIST_FIRST(&prov->peers); peer; peer = next) {
            next = LIST_NEXT(peer, next);
            if (peer->state != SP_PEER_WILL_CONNECT)
                continue;
            if (now >= peer->retry_ms)
                sp_peer_connect(peer);
            else
                schedule_retry(prov, peer->retry_ms);
        }
    }
    if (prov->retry_ms == 0)
        return -1;
    return prov->retry_ms > now ? (int)(prov->retry_ms - now) : 0;
}

/* Returns a descriptor or -errno. */
static int accept_one(const struct sp_prov *prov)
{
    int fd;

    do {
        fd = ut_fd_open_ours(accept4(prov->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    return fd < 0 ? -errno : fd;
}

/* Makes an accepted socket a peer, or closes it. */
static void add_incoming_peer(struct sp_prov *prov, int fd)
{
    pid_t pid;

    if (!check_connecting_user(prov, fd, &pid)) {
        close(fd);
        return;
    }
    struct sp_peer *peer = sp_peer_new(prov);
    if (peer) {
        peer->fd = fd;
        peer->pid = pid;
        if (watch_fd(prov, fd, peer) == 0)
            return;
    }
    log_shortage(prov, peer ? errno : ENOMEM);
    (void)send_empty_dgram(prov, fd, SP_DGRAM_BUSY);
    if (peer)
        sp_peer_mark_dead(peer, PROV_REASON_LOCAL);
    else
        close(fd);
}

/* No descriptor is left: accepts with the spare one and replies BUSY. Returns 0 or -errno. */
static int reject_with_spare_fd(struct sp_prov *prov)
{
    pid_t pid;

    ut_fd_close(prov->spare_fd);
    int fd = accept_one(prov);
    if (fd >= 0) {
        if (check_connecting_user(prov, fd, &pid))
            (void)send_empty_dgram(prov, fd, SP_DGRAM_BUSY);
        close(fd);
    }
    prov->spare_fd = ut_fd_open_ours(fcntl(prov->seg_fd, F_DUPFD_CLOEXEC, 0));
    return fd < 0 ? fd : 0;
}

void sp_accept_sockets(struct sp_prov *prov)
{
    int fd, num_busy = 0;

    while ((fd = accept_one(prov)) != -EAGAIN) {
        if (fd == -EMFILE || fd == -ENFILE) {
            log_shortage(prov, -fd);
            fd = reject_with_spare_fd(prov);
            if (fd == -EAGAIN)
                return;
            if (fd == 0 && ++num_busy < MAX_REJECTIONS_AT_ONCE)
                continue;
            pause_listening(prov);
            return;
        }
        if (fd < 0) {
            log_shortage(prov, -fd);
            pause_listening(prov);
            return;
        }
        add_incoming_peer(prov, fd);
    }
}

/*
 * Handling datagrams
 */

/* Sets peer->cma: reads the probe of its segment by cross-memory attach. */
static void probe_cma(struct sp_peer *peer, const struct sp_dgram *dgram)
{
    struct sp_prov *prov = peer->prov;
    uint64_t value = ~dgram->probe;
    struct iovec lcl = {.iov_base = &value, .iov_len = sizeof(value)};
    struct iovec rmt = {.iov_base = (void *)(uintptr_t)dgram->probe_addr, .iov_len = sizeof(value)};
    const char *why = "UTOFU_SHM_CMA=0";

    if (prov->use_cma) {
        ssize_t n = process_vm_readv(peer->pid, &lcl, 1, &rmt, 1, 0);
        why = n < 0 ? strerror(errno) : "another process answered";
        peer->cma = n == (ssize_t)sizeof(value) && value == dgram->probe;
    }
    if (!peer->cma && __atomic_exchange_n(&prov->no_cma_logged, 1, __ATOMIC_RELAXED) == 0)
        ut_info(SP_LOG,
                "no cross-memory attach to process %ld (%s): data is copied through the "
                "rings",
                (long)peer->pid, why);
}

/* Opens a descriptor of the peer by its number there. Returns a descriptor or -errno. */
static int open_peer_fd(const struct sp_peer *peer, int number)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)peer->pid, number);
    int fd = ut_fd_open_ours(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    return fd < 0 ? -errno : fd;
}

/* Opens the descriptors by their numbers, unless they are attached to the datagram. Returns 0;
 * -EACCES: they must be attached; another negative errno: this process lacks resources. */
static int open_peer_fds(const struct sp_peer *peer, const struct sp_dgram *dgram,
                         struct attachments *attachments)
{
    const int numbers[NUM_FDS] = {[SEGMENT_FD] = dgram->seg_fd, [REMAP_FD] = dgram->remap_fd};

    if (attachments->truncated)
        return -EMFILE;
    if (attachments->fds[SEGMENT_FD] >= 0)
        return 0;
    for (int i = 0; i < NUM_FDS; i++) {
        if (numbers[i] < 0)
            continue;
        attachments->fds[i] = open_peer_fd(peer, numbers[i]);
        if (attachments->fds[i] < 0)
            return is_shortage(-attachments->fds[i]) ? attachments->fds[i] : -EACCES;
    }
    return attachments->fds[SEGMENT_FD] >= 0 ? 0 : -EACCES;
}

/* Maps the peer's segment, and keeps its memfd of remapped memory if both sides allow mapping.
 * Returns 0 or the error of sp_segment_map(). */
static int map_peer_segment(struct sp_peer *peer, const struct sp_dgram *dgram,
                            struct attachments *attachments)
{
    int rc =
        sp_segment_map(attachments->fds[SEGMENT_FD], dgram->probe, &peer->seg, &peer->num_rings);

    attachments->fds[SEGMENT_FD] = -1;
    if (rc != 0)
        return rc;
    if (attachments->fds[REMAP_FD] >= 0 && peer->prov->maps_peers &&
        sp_remap_check_fd(attachments->fds[REMAP_FD])) {
        peer->remap_fd = attachments->fds[REMAP_FD];
        attachments->fds[REMAP_FD] = -1;
    }
    peer->id_in_peer_rings = dgram->producer_id;
    probe_cma(peer, dgram);
    return 0;
}

static void mark_peer_up(struct sp_peer *peer)
{
    peer->backoff_ms = 0;
    peer->shortage_since_ms = peer->refused_since_ms = 0;
    __atomic_store_n(&peer->state, SP_PEER_UP, __ATOMIC_SEQ_CST);
    sp_request_peer_checks(peer->prov);
}

/* Replaces the socket of this process's attempt by the socket on which the peer's HELLO came. */
static void adopt_socket(struct sp_peer *ours, struct sp_peer *incoming)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ours};

    drop_socket(ours);
    ours->fd = incoming->fd;
    ours->pid = incoming->pid;
    ours->fds_requested = incoming->fds_requested;
    incoming->fd = -1;
    epoll_ctl(ours->prov->epoll_fd, EPOLL_CTL_MOD, ours->fd, &ev);
}

/* The handshake failed with this error. */
static void abort_handshake(struct sp_peer *peer, int rc)
{
    if (is_shortage(-rc) || rc == -EAGAIN) {
        sp_send_notification(peer, SP_DGRAM_BUSY);
        retry_after_shortage(peer, -rc);
    } else if (rc == -EPIPE || rc == -ECONNRESET || rc == -ESRCH) {
        sp_peer_mark_dead(peer, PROV_REASON_PEER_DEAD);
    } else {
        ut_warn(SP_LOG,
                "cannot share memory with process %ld: %s; one version of the library, and one "
                "sandbox or container for all processes of a host?",
                (long)peer->pid, strerror(-rc));
        send_refusal(peer->prov, peer->fd, &(struct ucred){.pid = peer->pid}, SP_REFUSAL_OTHER);
        sp_peer_mark_dead(peer, PROV_REASON_REFUSED);
    }
}

/* Sends WANT_FDS after -EACCES. True: the datagram will come again, with the descriptors. */
static bool request_fds(struct sp_peer *peer, int rc)
{
    if (rc != -EACCES || peer->fds_requested)
        return false;
    peer->fds_requested = true;
    sp_send_notification(peer, SP_DGRAM_WANT_FDS);
    return true;
}

/* Returns the peer that owns this socket from now on; NULL: the socket is closed. */
static struct sp_peer *handle_hello(struct sp_peer *peer, const struct sp_dgram *dgram,
                                    struct attachments *attachments)
{
    struct sp_prov *prov = peer->prov;

    if (dgram->version != SP_VERSION || dgram->target_key != prov->addr.key) {
        send_refusal(prov, peer->fd, &(struct ucred){.pid = peer->pid},
                     dgram->version != SP_VERSION ? SP_REFUSAL_VERSION : SP_REFUSAL_KEY);
        sp_peer_mark_dead(peer, PROV_REASON_REFUSED);
        return NULL;
    }
    struct sp_peer *existing = sp_peer_find(prov, dgram->key);
    if (existing && existing->state != SP_PEER_WILL_CONNECT &&
        !(existing->state == SP_PEER_HELLO_SENT && dgram->key < prov->addr.key)) {
        sp_send_notification(peer, SP_DGRAM_YIELD);
        sp_peer_mark_dead(peer, PROV_REASON_PEER_DEAD);
        return NULL;
    }
    int rc = open_peer_fds(peer, dgram, attachments);
    if (request_fds(peer, rc))
        return peer;
    if (rc != 0) {
        abort_handshake(peer, rc);
        return NULL;
    }
    if (existing) {
        adopt_socket(existing, peer);
        sp_peer_mark_dead(peer, PROV_REASON_PEER_DEAD);
        peer = existing;
    }
    sp_peer_set_key(peer, dgram->key);
    peer->addr.pid = dgram->pid;
    rc = map_peer_segment(peer, dgram, attachments);
    if (rc == 0)
        rc = send_handshake(peer, SP_DGRAM_WELCOME);
    if (rc != 0) {
        abort_handshake(peer, rc);
        return NULL;
    }
    __atomic_store_n(&peer->state, SP_PEER_MAPPED, __ATOMIC_RELEASE);
    return peer;
}

/* Returns the peer to read on from; NULL: read no further. */
static struct sp_peer *handle_welcome(struct sp_peer *peer, const struct sp_dgram *dgram,
                                      struct attachments *attachments)
{
    if (peer->must_prove_user && attachments->cred.uid != geteuid()) {
        send_refusal(peer->prov, peer->fd, &attachments->cred, SP_REFUSAL_USER);
        handle_refusal(peer, SP_REFUSAL_USER);
        return NULL;
    }
    bool good = dgram->version == SP_VERSION && dgram->key == peer->addr.key;
    int rc = good ? open_peer_fds(peer, dgram, attachments) : -EPROTO;

    if (request_fds(peer, rc))
        return peer;
    if (rc == 0)
        rc = map_peer_segment(peer, dgram, attachments);
    if (rc == 0)
        rc = send_handshake(peer, SP_DGRAM_CONFIRM);
    if (rc != 0) {
        abort_handshake(peer, rc);
        return NULL;
    }
    mark_peer_up(peer);
    return peer;
}

/* Sends the last datagram again with the descriptors attached. Returns the peer to read on from;
 * NULL: read no further. */
static struct sp_peer *handle_want_fds(struct sp_peer *peer)
{
    peer->attach_fds = true;
    int rc = send_handshake(peer, sp_peer_is(peer, SP_PEER_HELLO_SENT) ? SP_DGRAM_HELLO
                                                                       : SP_DGRAM_WELCOME);
    if (rc == 0)
        return peer;
    abort_handshake(peer, rc);
    return NULL;
}

/* Requests checks if the peer has closed endpoints since the last call. */
static void check_closed_eps(struct sp_peer *peer)
{
    uint64_t n =
        peer->seg ? __atomic_load_n(&peer->seg->table.header.num_closed_eps, __ATOMIC_SEQ_CST) : 0;

    if (n != peer->closed_eps_seen)
        sp_request_peer_checks(peer->prov);
    peer->closed_eps_seen = n;
}

/* Returns the peer to read on from; NULL: read no further. */
static struct sp_peer *handle_dgram(struct sp_peer *peer, const struct sp_dgram *dgram,
                                    struct attachments *attachments)
{
    switch (dgram->type) {
    case SP_DGRAM_HELLO:
        if (peer->state == SP_PEER_INCOMING)
            return handle_hello(peer, dgram, attachments);
        break;
    case SP_DGRAM_WELCOME:
        if (peer->state == SP_PEER_HELLO_SENT)
            return handle_welcome(peer, dgram, attachments);
        break;
    case SP_DGRAM_CONFIRM:
        if (peer->state == SP_PEER_MAPPED) {
            mark_peer_up(peer);
            return peer;
        }
        break;
    case SP_DGRAM_YIELD:
        if (peer->state == SP_PEER_HELLO_SENT) {
            schedule_connect(peer, YIELD_MS);
            return NULL;
        }
        break;
    case SP_DGRAM_WANT_FDS:
        if (peer->state == SP_PEER_HELLO_SENT || peer->state == SP_PEER_MAPPED)
            return handle_want_fds(peer);
        break;
    case SP_DGRAM_BUSY:
        if (peer->state == SP_PEER_HELLO_SENT || peer->state == SP_PEER_MAPPED) {
            retry_after_shortage(peer, 0);
            return NULL;
        }
        break;
    case SP_DGRAM_REFUSED:
        if (peer->state == SP_PEER_HELLO_SENT) {
            log_refusal(peer, dgram);
            handle_refusal(peer, (enum sp_refusal)dgram->refusal);
            return NULL;
        }
        if (peer->state == SP_PEER_INCOMING || peer->state == SP_PEER_MAPPED) {
            if (must_log_rejection(peer->prov, peer->pid))
                log_refusal(peer, dgram);
            handle_refusal(peer, SP_REFUSAL_OTHER);
            return NULL;
        }
        break;
    case SP_DGRAM_DOORBELL: /* `rung` of a ring shows the endpoint */
    case SP_DGRAM_CLOSED:
        check_closed_eps(peer);
        return peer;
    default:
        break;
    }
    ut_warn(SP_LOG,
            "ended the connection with process %ld, which sent an unknown datagram (%#x): does "
            "it run another version of this library?",
            (long)peer->pid, dgram->type);
    sp_peer_mark_dead(peer, PROV_REASON_REFUSED);
    return NULL;
}

void sp_receive(struct sp_peer *peer)
{
    while (peer && peer->fd >= 0 && !sp_peer_is(peer, SP_PEER_DEAD)) {
        struct sp_dgram dgram = {0};
        struct attachments attachments;
        ssize_t n = receive_dgram(peer->fd, &dgram, &attachments, !sp_peer_is(peer, SP_PEER_UP));

        if (n == -EAGAIN)
            return;
        if (n == (ssize_t)sizeof(dgram)) {
            peer = handle_dgram(peer, &dgram, &attachments);
        } else { /* a hang-up, or a datagram of another size */
            sp_peer_mark_dead(peer, PROV_REASON_PEER_DEAD);
            peer = NULL;
        }
        close_attached_fds(&attachments);
    }
}

void sp_send_doorbell(struct sp_peer *peer, struct sp_ring *ring)
{
    if (__atomic_exchange_n(&ring->armed, 0, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_store_n(&ring->rung, 1, __ATOMIC_SEQ_CST);
    if (peer->is_self)
        sp_kick(peer->prov);
    else
        sp_send_notification(peer, SP_DGRAM_DOORBELL);
}
