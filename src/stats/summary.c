/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of UTOFU_STATS=job: one thread, which sleeps while the program runs. */
#include "stats/summary.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peers/peers.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/long_wait.h"
#include "util/thread.h"
#include "stats/record.h"

enum {
    FAN_OUT = 16,
    MAX_CONNS = 1024,
    GRACE_MS = 2000,         /* how long to wait for children that are still running */
    NEWCOMER_MS = 5000,      /* how long to wait for processes that have not connected, or have lost
                              * their parent */
    SHORTAGE_PAUSE_MS = 200, /* pause when no connection can be accepted */
    ANSWER_MS = 5000,        /* maximum time for one connection or one record */
    RETRY_MIN_MS = 50,       /* delay between look-ups of a parent that has not published */
    RETRY_MAX_MS = 10000,
    MAGIC = 0x53545455,
    RECORD_MAX = 64 << 20,
};

enum message { MSG_CHILD = 1, MSG_PARENT, MSG_RECORD, MSG_TAKEN };

struct head {
    uint32_t magic, type;
    uint32_t size; /* bytes after the header */
    uint32_t rank;
    uint64_t token; /* CHILD, PARENT: the token of the receiver */
};

struct conn {
    int fd;
    enum { UNKNOWN, CHILD, UP } kind; /* UNKNOWN: before the first message */
    uint8_t *in;
    size_t have;
};

static struct {
    const struct ut_job_info *job;
    struct ut_contact mine;
    int listen_fd, wake_fd;
    pthread_t thread;
    uint32_t end_wanted; /* atomic */
    bool may_look_up;    /* the thread may query the launcher (not with PMI-1) */
    bool known[FAN_OUT + 2];
    struct ut_contact contact[FAN_OUT + 2]; /* children, parent, root */
    struct ut_record
        *record; /* counters of this process and its descendants; the thread uses this */
    void *own;   /* counters of this process, added when it ends */
    size_t own_size;
    struct conn conns[MAX_CONNS];
    nfds_t num_conns;
    uint64_t last_event; /* ms */
    bool taken;          /* the parent or rank 0 has acknowledged the record */
    bool packed;         /* the record is being sent; records that arrive later go to rank 0 */
    bool orphan;         /* the parent has ended */
} summary = {.listen_fd = -1, .wake_fd = -1};

enum { PARENT = FAN_OUT, ROOT };

static uint32_t lookup_neighbour(unsigned int i)
{
    return i == ROOT     ? 0
           : i == PARENT ? (summary.job->rank - 1) / FAN_OUT
                         : summary.job->rank * FAN_OUT + 1 + i;
}

/* Looks up the contact of a neighbour, if it has published one. */
static bool look_up(unsigned int i)
{
    uint64_t rank =
        i < FAN_OUT ? (uint64_t)summary.job->rank * FAN_OUT + 1 + i : lookup_neighbour(i);

    if (!summary.known[i] && rank < summary.job->size)
        summary.known[i] = ut_peers_contact((uint32_t)rank, &summary.contact[i]) == 0;
    return summary.known[i];
}

/*
 * Connections
 */

static bool send_all(int fd, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t deadline = ut_clock_ms() + ANSWER_MS;

    while (size > 0) {
        struct pollfd w = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (ut_clock_ms() >= deadline || poll(&w, 1, 100) < 0)
                return false;
            continue;
        }
        if (n < 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool send_head(int fd, enum message type, uint64_t token, size_t size)
{
    struct head h = {.magic = MAGIC,
                     .type = type,
                     .size = (uint32_t)size,
                     .rank = summary.job->rank,
                     .token = token};

    return send_all(fd, &h, sizeof(h));
}

static struct conn *add_conn(int fd, int kind)
{
    if (summary.num_conns == MAX_CONNS) {
        ut_fd_close(fd);
        return NULL;
    }
    struct conn *c = &summary.conns[summary.num_conns++];
    *c = (struct conn){.fd = fd, .kind = (__typeof__(c->kind))kind};
    return c;
}

static void drop_conn(struct conn *c)
{
    ut_fd_close(c->fd);
    free(c->in);
    *c = summary.conns[--summary.num_conns];
    summary.last_event = ut_clock_ms();
}

union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* IPv4 has a separate socket type, because a host may have no IPv6. */
static socklen_t to_address(const uint8_t ip[16], uint16_t port, union address *a)
{
    memset(a, 0, sizeof(*a));
    memcpy(&a->in6.sin6_addr, ip, 16);
    if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
        memset(a, 0, sizeof(*a));
        a->in.sin_family = AF_INET;
        memcpy(&a->in.sin_addr, ip + 12, 4);
        a->in.sin_port = htons(port);
        return sizeof(a->in);
    }
    a->in6.sin6_family = AF_INET6;
    a->in6.sin6_port = htons(port);
    return sizeof(a->in6);
}

static int connect_to(const struct ut_contact *to)
{
    union address a;
    socklen_t size = to_address(to->ip, to->port, &a), len = sizeof(int);
    int error = 0,
        fd = ut_fd_open_ours(socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (fd < 0)
        return -1;
    if (connect(fd, &a.sa, size) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        error = errno;
        if (error == EINPROGRESS &&
            (poll(&p, 1, GRACE_MS) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0))
            error = ETIMEDOUT;
    }
    if (error == 0)
        return fd;
    ut_info("stats", "UTOFU_STATS=job: cannot connect: %s", strerror(error));
    ut_fd_close(fd);
    return -1;
}

static struct conn *find_parent(void)
{
    for (nfds_t i = 0; i < summary.num_conns; i++) {
        if (summary.conns[i].kind == UP)
            return &summary.conns[i];
    }
    return NULL;
}

/* Connects to a neighbour as its child, or as its parent. */
static bool join_neighbour(unsigned int i)
{
    enum message as = i < FAN_OUT ? MSG_PARENT : MSG_CHILD;
    int fd = summary.known[i] ? connect_to(&summary.contact[i]) : -1;

    if (fd < 0)
        return false;
    if (send_head(fd, as, summary.contact[i].token, 0))
        return add_conn(fd, as == MSG_PARENT ? CHILD : UP) != NULL;
    ut_fd_close(fd);
    return false;
}

/* Finds the parent, or rank 0 if the parent has ended. */
static bool connect_to_parent(void)
{
    if (summary.job->rank == 0 || find_parent())
        return true;
    if (!summary.orphan && summary.may_look_up)
        look_up(PARENT);
    if (!summary.orphan && summary.known[PARENT]) {
        if (join_neighbour(PARENT))
            return true;
        summary.orphan = true;
    }
    if (!summary.orphan || lookup_neighbour(PARENT) == 0)
        return false;
    if (summary.may_look_up)
        look_up(ROOT);
    return join_neighbour(ROOT);
}

/* Handles a message. False: the connection must be closed. */
static bool on_message(struct conn *c, const struct head *h)
{
    switch (h->type) {
    case MSG_CHILD:
    case MSG_PARENT:
        if (c->kind != UNKNOWN || h->token != summary.mine.token || h->size)
            return false;
        if (h->type == MSG_PARENT && find_parent())
            return false; /* both sides have connected */
        c->kind = h->type == MSG_CHILD ? CHILD : UP;
        return true;
    case MSG_RECORD:
        /* of a child: read_conn() takes no bytes of others, and no record is empty */
        if (summary.packed || !ut_record_merge(summary.record, c->in + sizeof(*h), h->size))
            return false;
        send_head(c->fd, MSG_TAKEN, 0, 0);
        return false; /* this was the last message of the child */
    case MSG_TAKEN:
        summary.taken |= c->kind == UP;
        return true;
    default:
        return false;
    }
}

static bool read_conn(struct conn *c)
{
    for (;;) {
        struct head h = {0};
        size_t need = sizeof(h);
        if (c->have >= sizeof(h)) {
            memcpy(&h, c->in, sizeof(h));
            if (h.magic != MAGIC || h.size > (c->kind == CHILD ? RECORD_MAX : 0))
                return false;
            need += h.size;
        }
        if (c->have == need) {
            if (!on_message(c, &h))
                return false;
            c->have = 0;
            continue;
        }
        uint8_t *in = realloc(c->in, need);
        if (!in)
            return false;
        c->in = in;
        ssize_t n = recv(c->fd, c->in + c->have, need - c->have, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        c->have += (size_t)n;
    }
}

/* True if the program has not closed the descriptors. Otherwise the summary lacks the other
 * processes. */
static bool are_open(const struct pollfd p[], nfds_t n)
{
    for (nfds_t i = 0; i < n; i++)
        if (!ut_fd_check_still_ours(p[i].fd))
            return false;
    return true;
}

static void serve_conns(int timeout_ms)
{
    struct pollfd p[MAX_CONNS + 2];
    nfds_t n = summary.num_conns;
    uint64_t count;

    for (nfds_t i = 0; i < n; i++)
        p[i] = (struct pollfd){.fd = summary.conns[i].fd, .events = POLLIN};
    p[n] = (struct pollfd){.fd = summary.wake_fd, .events = POLLIN};
    p[n + 1] = (struct pollfd){.fd = summary.listen_fd, .events = POLLIN};
    if (poll(p, n + 2, ut_fd_timeout_ms(timeout_ms)) <= 0 || !are_open(p, n + 2))
        return;
    if (p[n].revents && read(summary.wake_fd, &count, sizeof(count)) < 0)
        return;
    for (nfds_t i = n; i-- > 0;) { /* downwards, because drop_conn() moves the last one */
        if (!p[i].revents || read_conn(&summary.conns[i]))
            continue;
        if (summary.conns[i].kind == UP && !summary.taken)
            summary.orphan = true;
        drop_conn(&summary.conns[i]);
    }
    if (p[n + 1].revents) {
        int fd =
            ut_fd_open_ours(accept4(summary.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd >= 0) {
            add_conn(fd, UNKNOWN);
            summary.last_event = ut_clock_ms();
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            /* no descriptor is left: the request stays in the queue; pauses instead of a busy loop
             */
            struct pollfd wake = {.fd = summary.wake_fd, .events = POLLIN};
            poll(&wake, 1, SHORTAGE_PAUSE_MS);
        }
    }
}

/*
 * The end
 */

static bool has_children(void)
{
    for (nfds_t i = 0; i < summary.num_conns; i++) {
        if (summary.conns[i].kind == CHILD)
            return true;
    }
    return false;
}

/* Waits for children. A child that runs longer than GRACE_MS sends to rank 0, which waits for it.
 */
static void wait_for_children(void)
{
    bool root = summary.job->rank == 0;
    uint64_t now = ut_clock_ms();
    uint64_t deadline = now + (root ? ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000 : GRACE_MS);
    struct ut_long_wait long_wait = ut_long_wait_begin(now);

    summary.last_event = now;
    while (now < deadline) {
        bool late =
            root && !ut_record_complete(summary.record) && now < summary.last_event + NEWCOMER_MS;
        if ((!has_children() && !late) || ut_fd_were_closed())
            return;
        if (ut_long_wait_must_log(&long_wait, now))
            ut_warn("stats",
                    "UTOFU_STATS=job: %s has waited %llu s for the counters of processes that have "
                    "not ended; it continues without them in %llu s (UTOFU_JOB_TIMEOUT)",
                    root ? "rank 0" : "this process", ut_long_wait_seconds(&long_wait, now),
                    (unsigned long long)(deadline - now) / 1000);
        serve_conns(late && !has_children() ? (int)(summary.last_event + NEWCOMER_MS - now) : 200);
        now = ut_clock_ms();
    }
}

/* Waits for the parent, which may be about to publish or to connect. If it does not, or ended
 * before it published, the record goes to rank 0, while rank 0 still waits for late processes. */
static struct conn *wait_for_parent(void)
{
    uint64_t now = ut_clock_ms(), orphan_at = now + GRACE_MS;
    uint64_t deadline = now + (summary.orphan ? GRACE_MS : NEWCOMER_MS);

    while (!ut_fd_were_closed() && !connect_to_parent() && ut_clock_ms() < deadline) {
        serve_conns(RETRY_MIN_MS);
        if (ut_clock_ms() >= orphan_at && lookup_neighbour(PARENT) != 0)
            summary.orphan = true;
    }
    return ut_fd_were_closed() ? NULL : find_parent();
}

static bool send_to_parent(void)
{
    struct conn *up = wait_for_parent();
    size_t size;
    void *bytes = up ? ut_record_pack(summary.record, &size) : NULL;
    summary.packed |= up != NULL;
    uint64_t deadline = ut_clock_ms() + ANSWER_MS;
    bool sent = bytes && send_head(up->fd, MSG_RECORD, 0, size) && send_all(up->fd, bytes, size);

    free(bytes);
    if (!sent && up) {
        drop_conn(up);
        summary.orphan = true;
    }
    while (sent && !summary.taken && find_parent() && ut_clock_ms() < deadline)
        serve_conns(200);
    return summary.taken;
}

static void *thread_main(void *unused)
{
    uint64_t retry = RETRY_MIN_MS;

    (void)unused;
    ut_job_set_background_thread();
    if (!summary
             .may_look_up) { /* connects to children that have published: see ut_summary_start() */
        for (unsigned int i = 0; i < FAN_OUT; i++)
            join_neighbour(i);
    }
    while (!__atomic_load_n(&summary.end_wanted, __ATOMIC_ACQUIRE)) {
        if (ut_fd_were_closed()) {
            usleep(UT_FD_CHECK_MS * 100);
            continue;
        }
        bool again = !connect_to_parent() && (summary.may_look_up || summary.known[PARENT]);
        serve_conns(again ? (int)retry : -1);
        retry = again && retry < RETRY_MAX_MS ? retry * 2 : retry;
    }
    if (summary.own)
        ut_record_merge(summary.record, summary.own, summary.own_size);
    wait_for_children();
    if (summary.job->rank == 0 || (!send_to_parent() && !send_to_parent()))
        ut_record_print(summary.record, summary.job->rank);
    while (summary.num_conns)
        drop_conn(&summary.conns[0]);
    return NULL;
}

void ut_summary_finish(uint64_t opened_at)
{
    uint64_t one = 1;

    if (summary.wake_fd < 0)
        return;
    summary.own = ut_record_own(summary.job, opened_at, &summary.own_size);
    __atomic_store_n(&summary.end_wanted, 1, __ATOMIC_RELEASE);
    if (ut_fd_check_still_ours(summary.wake_fd) && write(summary.wake_fd, &one, sizeof(one)) < 0)
        ut_debug("stats", "the thread of the summary is awake already");
    pthread_join(summary.thread, NULL); /* the thread checks end_wanted once in UT_FD_CHECK_MS */
    ut_fd_close(summary.listen_fd);
    ut_fd_close(summary.wake_fd);
    summary.wake_fd = -1;
    ut_record_free(summary.record);
    free(summary.own);
}

/*
 * The beginning
 */

int ut_summary_open(const struct ut_job_info *job, const uint8_t ip[16], struct ut_contact *mine)
{
    static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    union address a;
    socklen_t len = to_address(ip ? ip : loopback, 0, &a);

    summary.job = job;
    summary.may_look_up = strcmp(job->launcher, "pmi1") != 0;
    memcpy(summary.mine.ip, ip ? ip : loopback, sizeof(summary.mine.ip));
    summary.record = ut_record_new(job->size);
    summary.wake_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    summary.listen_fd =
        ut_fd_open_ours(socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!summary.record || summary.wake_fd < 0 || summary.listen_fd < 0)
        goto fail;
    if (bind(summary.listen_fd, &a.sa, len) != 0 || listen(summary.listen_fd, 128) != 0 ||
        getsockname(summary.listen_fd, &a.sa, &len) != 0)
        goto fail;
    summary.mine.port = ntohs(a.sa.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
    if (getrandom(&summary.mine.token, sizeof(summary.mine.token), 0) != sizeof(summary.mine.token))
        goto fail;
    *mine = summary.mine;
    return 0;
fail:
    ut_error("stats", "UTOFU_STATS=job: cannot listen for other processes: %s", strerror(errno));
    return UTOFU_ERR_FATAL;
}

/* With PMI-1, MPI may use the connection to the launcher later. So all neighbours are looked up
 * now: of two neighbours the later one finds the other. */
int ut_summary_start(void)
{
    for (unsigned int i = 0; i < FAN_OUT + 2; i++) {
        bool upwards = i >= FAN_OUT;
        if (upwards ? summary.job->rank > 0 : !summary.may_look_up)
            look_up(i);
    }
    int rc = ut_thread_create("utofu-summary", thread_main, NULL, &summary.thread);
    if (rc == 0)
        return 0;
    ut_error("stats", "UTOFU_STATS=job: cannot start its thread: %s", strerror(-rc));
    ut_fd_close(summary.wake_fd);
    summary.wake_fd = -1;
    return UTOFU_ERR_FATAL;
}
