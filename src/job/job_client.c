/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that talks to the rendezvous server. */
#include "job/job_client.h"
#include "job/job_ops.h"
#include "job/job_request.h"
#include "job/job_wire.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PUBLISH_WAIT_MS = 100, CONNECT_PAUSE_MS = 2, CONNECT_PAUSE_MAX_MS = 100 };

static struct {
    struct ut_job_root root;
    uint32_t rank, size;
    int64_t deadline; /* for the connection */
    int wake_fd, fd;
    pthread_t thread;
    atomic_bool stopping;
    bool lost_told;
    struct ut_job_requests requests; /* its lock also guards what follows */
    enum { NOTHING, TO_PUBLISH, PUBLISHED } own;
    size_t own_size;
    uint8_t own_blob[UT_JOB_BLOB_MAX];
} c = {.wake_fd = -1, .fd = -1};

static void wake(uint32_t rank)
{
    uint64_t one = 1;

    (void)rank;
    if (write(c.wake_fd, &one, sizeof(one)) < 0)
        return; /* already awake */
}

/* Waits for the socket (or only for being woken, with fd -1): >0 ready, 0 woken or timeout. */
static int wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd p[2] = {{.fd = c.wake_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    uint64_t n;

    if (poll(p, 2, timeout_ms) <= 0)
        return 0;
    if (p[0].revents && read(c.wake_fd, &n, sizeof(n)) < 0)
        return 0;
    return p[1].revents != 0;
}

/* The same, but goes on until ready, stopped or the deadline. */
static bool wait_until(int fd, short events, int64_t deadline)
{
    while (!c.stopping) {
        if (wait_for(fd, events, ut_job_left_ms(deadline)) > 0)
            return true;
        if (ut_job_now_ms() >= deadline)
            break;
    }
    return false;
}

static int connect_once(int64_t deadline)
{
    const struct sockaddr *address = (const struct sockaddr *)&c.root.address;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, error = 0;
    socklen_t len = sizeof(error);

    if (fd < 0)
        return -errno;
    if (connect(fd, address, c.root.address_len) != 0) {
        error = errno;
        if (error == EINPROGRESS && (!wait_until(fd, POLLOUT, deadline) ||
                                     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0))
            error = ETIMEDOUT;
    }
    if (error == 0 && c.root.kind == UT_JOB_ROOT_UNIX && !ut_job_root_same_user(fd))
        error = EACCES;
    if (error != 0) {
        close(fd);
        return -error;
    }
    if (c.root.kind == UT_JOB_ROOT_TCP)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* One request, one answer. */
static int exchange(struct ut_job_wire *msg, enum ut_job_wire_type type, const void *data,
                    size_t size, int64_t deadline)
{
    size_t n = ut_job_wire_fill(msg, type, UT_JOB_WIRE_OK, data, size), have = 0, need;

    /* a request always fits into the socket's buffer, as the last one was answered */
    if (send(c.fd, msg, n, MSG_NOSIGNAL) != (ssize_t)n)
        return -ECONNRESET;
    while ((need = ut_job_wire_need(msg, have)) > have) {
        ssize_t got = recv(c.fd, (char *)msg + have, need - have, 0);
        if (got > 0)
            have += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return -ECONNRESET;
        else if (!wait_until(c.fd, POLLIN, deadline))
            return -ETIMEDOUT;
    }
    return need > 0 && msg->type == type ? 0 : -EPROTO;
}

static int say_hello(void)
{
    uint32_t ids[2] = {htole32(c.rank), htole32(c.size)};
    struct ut_job_wire msg;
    int rc = exchange(&msg, UT_JOB_WIRE_HELLO, ids, sizeof(ids), c.deadline);

    if (rc != 0)
        return rc;
    switch (msg.status) {
    case UT_JOB_WIRE_OK:
        return 0;
    case UT_JOB_WIRE_DUPLICATE:
        ut_error("job",
                 "UTOFU_ROOT=%s: another process says that it is rank %u; give every process "
                 "its own UTOFU_RANK (a launcher inside a launcher? unset UTOFU_RANK there)",
                 c.root.text, c.rank);
        return -EEXIST;
    default:
        ut_error("job",
                 "UTOFU_ROOT=%s: rank %u of %u does not belong to the job that is served "
                 "there; give all its processes the same UTOFU_SIZE",
                 c.root.text, c.rank, c.size);
        return -EINVAL;
    }
}

/* Connects and says hello, until it works, cannot work or the deadline is over. */
static int reach_server(void)
{
    int pause_ms = CONNECT_PAUSE_MS, rc;

    for (;;) {
        rc = connect_once(c.deadline);
        if (rc >= 0) {
            c.fd = rc;
            rc = say_hello();
            if (rc == 0 || rc == -EEXIST || rc == -EINVAL)
                return rc;
            close(c.fd);
            c.fd = -1;
        }
        if (c.stopping)
            return -ESHUTDOWN;
        if (ut_job_now_ms() >= c.deadline)
            break;
        wait_for(-1, 0, pause_ms);
        pause_ms = pause_ms * 2 < CONNECT_PAUSE_MAX_MS ? pause_ms * 2 : CONNECT_PAUSE_MAX_MS;
    }
    ut_error("job",
             "UTOFU_ROOT=%s: nobody serves this job there (%s); tried for %u seconds "
             "(UTOFU_JOB_TIMEOUT); is rank 0 running, with this UTOFU_ROOT and the same host name "
             "everywhere?",
             c.root.text, strerror(-rc), (unsigned int)ut_env_num(UT_ENV_JOB_TIMEOUT));
    return -ETIMEDOUT;
}

static int64_t answer_deadline(void)
{
    return ut_job_now_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
}

static int publish_own(void)
{
    struct ut_job_wire msg;
    int rc = exchange(&msg, UT_JOB_WIRE_PUBLISH, c.own_blob, c.own_size, answer_deadline());

    if (rc != 0)
        return rc;
    if (msg.status != UT_JOB_WIRE_OK)
        return -EPROTO;
    pthread_mutex_lock(&c.requests.lock);
    c.own = PUBLISHED;
    pthread_cond_broadcast(&c.requests.done);
    pthread_mutex_unlock(&c.requests.lock);
    return 0;
}

static int ask_for(uint32_t rank)
{
    uint32_t id = htole32(rank);
    struct ut_job_wire msg;
    int rc = exchange(&msg, UT_JOB_WIRE_LOOKUP, &id, sizeof(id), answer_deadline());

    if (rc != 0)
        return rc;
    rc = msg.status == UT_JOB_WIRE_OK ? 0 : msg.status == UT_JOB_WIRE_NOT_YET ? -EAGAIN : -EPROTO;
    ut_job_requests_answer(&c.requests, rank, rc, msg.data, le16toh(msg.size));
    return 0;
}

static bool must_publish(void)
{
    pthread_mutex_lock(&c.requests.lock);
    bool must = c.own == TO_PUBLISH;
    pthread_mutex_unlock(&c.requests.lock);
    return must;
}

static void *talk(void *unused)
{
    uint32_t rank;
    int rc = reach_server();

    (void)unused;
    while (rc == 0 && !c.stopping) {
        if (must_publish())
            rc = publish_own();
        else if (ut_job_requests_take(&c.requests, &rank))
            rc = ask_for(rank);
        else if (wait_for(c.fd, POLLIN, -1) > 0)
            rc = -ECONNRESET; /* nothing was asked: the server is gone, or not one */
    }
    ut_job_requests_break(&c.requests, rc ? rc : -ESHUTDOWN);
    return NULL;
}

int ut_job_client_start(const struct ut_job_root *root, uint32_t rank, uint32_t size,
                        int64_t deadline)
{
    sigset_t all, old;
    int rc;

    c.root = *root;
    c.rank = rank;
    c.size = size;
    c.deadline = deadline;
    ut_job_requests_init(&c.requests, wake);
    c.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c.wake_fd < 0)
        return -errno;
    /* the program's signal handlers belong to the program's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = -pthread_create(&c.thread, NULL, talk, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        close(c.wake_fd);
        c.wake_fd = -1;
    }
    return rc;
}

/* The server went away while nobody waited for it, which is usual at the end of a job; it is an
 * error for the first one who needs it afterwards. */
static int tell_lost(int rc)
{
    if (rc != -ECONNRESET && rc != -EPROTO)
        return rc;
    pthread_mutex_lock(&c.requests.lock);
    bool tell = !c.lost_told;
    c.lost_told = true;
    pthread_mutex_unlock(&c.requests.lock);
    if (tell)
        ut_error("job",
                 "UTOFU_ROOT=%s: the process that serves it (%s) has ended or does not "
                 "answer properly; it must outlive the first contacts of the others",
                 c.root.text, c.root.kind == UT_JOB_ROOT_UNIX ? "utofurun" : "rank 0");
    return rc;
}

int ut_job_client_publish(const void *blob, size_t size)
{
    struct timespec t;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += PUBLISH_WAIT_MS * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;

    pthread_mutex_lock(&c.requests.lock);
    memcpy(c.own_blob, blob, size);
    c.own_size = size;
    c.own = TO_PUBLISH;
    wake(c.rank);
    /* a server that is there takes it at once, and its complaints come out here; one that is not
     * there yet gets it later */
    while (rc == 0 && c.own != PUBLISHED && !c.requests.broken)
        rc = pthread_cond_timedwait(&c.requests.done, &c.requests.lock, &t);
    rc = c.requests.broken;
    pthread_mutex_unlock(&c.requests.lock);
    return tell_lost(rc);
}

int ut_job_client_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms)
{
    return tell_lost(ut_job_requests_wait(&c.requests, rank, blob, size, wait_ms));
}

void ut_job_client_stop(void)
{
    if (c.wake_fd < 0)
        return;
    c.stopping = true;
    wake(c.rank);
    pthread_join(c.thread, NULL);
    if (c.fd >= 0)
        close(c.fd);
    close(c.wake_fd);
    c.fd = c.wake_fd = -1;
    ut_job_requests_free(&c.requests);
}
