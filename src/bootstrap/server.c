/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous server: epoll over non-blocking sockets. All requests that a connection has sent
 * are answered together, so that a request costs few system calls. The server closes a connection
 * that sends anything unexpected, or no hello in time. A connection without a hello costs a
 * descriptor and a kilobyte for at most ten seconds, and there are at most UNKNOWN_MAX of them.
 */
#include "bootstrap/server.h"
#include "bootstrap/channel.h"
#include "bootstrap/ops.h"
#include "bootstrap/records.h"
#include "util/clock.h"
#include "util/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    UNKNOWN_MAX = 128, /* maximum number of connections that have not sent their hello */
    HELLO_TIMEOUT_MS = 10000,
    EVENTS_MAX = 32,
    ACCEPTS_MAX = 32,     /* per step, so that new connections do not delay others */
    UNKNOWN = UINT32_MAX, /* rank of a connection before its hello */
    BUFFER_SIZE = 16384,
    USERS_MAX = 8,
};

struct client {
    TAILQ_ENTRY(client) others; /* in its list */
    int fd;
    uint32_t rank;
    int64_t born;
    uint8_t nonce[UT_JOB_WIRE_NONCE]; /* the server's nonce */
    struct ut_job_channel channel;
    size_t have;
    struct ut_job_wire in;
};

TAILQ_HEAD(clients, client);

/* What the server knows about a rank, beside its record. */
struct entry {
    bool seen, connected;
};

struct ut_job_server {
    int listen_fd, epoll_fd;
    bool check_user;
    void (*rejected)(long uid, long pid);
    uid_t users[USERS_MAX]; /* the last users for whom `rejected` was called */
    uint32_t num_users;
    uint32_t size, seen, connected, num_unknown;
    struct ut_key key;
    struct clients unknown, known; /* connections without and with a rank, oldest first */
    struct entry *table;
    struct ut_job_records records; /* unix socket: the memory is shared with the processes */
    /* answers of the connection that is being served */
    size_t out_size;
    bool records_due; /* the answers carry the descriptor of the records */
    uint8_t in[BUFFER_SIZE], out[BUFFER_SIZE];
};

static int add_descriptor(struct ut_job_server *s, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int listen_at(const struct ut_job_root *root)
{
    int fd = ut_fd_open_ours(
        socket(root->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int one = 1, rc;

    if (fd < 0)
        return -errno;
    /* TCP: a new job can use the port immediately after the previous one */
    if (root->kind == UT_JOB_ROOT_TCP)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&root->address, root->address_len) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    rc = -errno;
    close(fd);
    return rc;
}

int ut_job_server_create(struct ut_job_server **server, const struct ut_job_root *root,
                         uint32_t size, const struct ut_key *key)
{
    struct ut_job_server *s = calloc(1, sizeof(*s));
    int rc = -ENOMEM;

    if (!s)
        return rc;
    TAILQ_INIT(&s->unknown);
    TAILQ_INIT(&s->known);
    s->size = size;
    s->key = *key;
    s->check_user = root->kind == UT_JOB_ROOT_UNIX;
    s->table = calloc(size, sizeof(*s->table));
    if (!s->table || ut_job_records_create(&s->records, size) != 0)
        goto free_table;
    s->listen_fd = rc = listen_at(root);
    if (rc < 0)
        goto free_records;
    s->epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    if (s->epoll_fd < 0) {
        rc = -errno;
        goto close_listen;
    }
    rc = add_descriptor(s, s->listen_fd, &s->listen_fd);
    if (rc != 0)
        goto close_epoll;
    *server = s;
    return 0;
close_epoll:
    close(s->epoll_fd);
close_listen:
    close(s->listen_fd);
free_records:
    ut_job_records_free(&s->records);
free_table:
    free(s->table);
    free(s);
    return rc;
}

static void drop_client(struct ut_job_server *s, struct client *c)
{
    if (c->rank == UNKNOWN) {
        TAILQ_REMOVE(&s->unknown, c, others);
        s->num_unknown--;
    } else {
        TAILQ_REMOVE(&s->known, c, others);
        s->table[c->rank].connected = false;
        s->connected--;
    }
    /* close() alone does not remove the descriptor from epoll, because a child may have it */
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    ut_fd_close(c->fd);
    free(c);
}

/* Closes connections without a hello: those that are too old, and the oldest ones above `max`. */
static void drop_unknown(struct ut_job_server *s, uint32_t max)
{
    int64_t now = ut_clock_ms();

    while (s->num_unknown > 0) {
        struct client *oldest = TAILQ_FIRST(&s->unknown);
        if (s->num_unknown <= max && now - oldest->born <= HELLO_TIMEOUT_MS)
            break;
        drop_client(s, oldest);
    }
}

/* Sends a nonce, so that recorded messages cannot be replayed. */
static bool send_challenge(struct client *c)
{
    struct ut_job_wire out;

    if (getrandom(c->nonce, sizeof(c->nonce), 0) != (ssize_t)sizeof(c->nonce))
        return false;
    size_t n =
        ut_job_wire_fill(&out, UT_JOB_WIRE_CHALLENGE, UT_JOB_WIRE_OK, c->nonce, sizeof(c->nonce));
    return send(c->fd, &out, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void report_rejection(struct ut_job_server *s, const struct ucred *peer)
{
    for (uint32_t i = 0; i < USERS_MAX && i < s->num_users; i++) {
        if (s->users[i] == peer->uid)
            return;
    }
    s->users[s->num_users++ % USERS_MAX] = peer->uid;
    if (s->rejected)
        s->rejected((long)peer->uid, (long)peer->pid);
}

/* True if the process at the other end belongs to this user. Otherwise tells it that it is
 * rejected, and nothing else. */
static bool check_user(struct ut_job_server *s, int fd)
{
    struct ut_job_wire out;
    struct ucred peer;

    if (!s->check_user || ut_job_root_same_user(fd, &peer))
        return true;
    size_t n = ut_job_wire_fill(&out, UT_JOB_WIRE_CHALLENGE, UT_JOB_WIRE_REFUSED, NULL, 0);
    (void)!send(fd, &out, n, MSG_NOSIGNAL);
    report_rejection(s, &peer);
    return false;
}

static void add_client(struct ut_job_server *s, int fd)
{
    struct client *c;
    int one = 1;

    if (!check_user(s, fd))
        goto close_fd;
    drop_unknown(s, UNKNOWN_MAX - 1);
    c = calloc(1, sizeof(*c));
    if (!c)
        goto close_fd;
    if (!s->check_user)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->fd = fd;
    c->rank = UNKNOWN;
    c->born = ut_clock_ms();
    if (!send_challenge(c) || add_descriptor(s, fd, c) != 0)
        goto free_client;
    TAILQ_INSERT_TAIL(&s->unknown, c, others);
    s->num_unknown++;
    return;
free_client:
    free(c);
close_fd:
    close(fd);
}

static void accept_some(struct ut_job_server *s)
{
    unsigned int n = 0;
    int fd;

    while (n++ < ACCEPTS_MAX && (fd = ut_fd_open_ours(accept4(s->listen_fd, NULL, NULL,
                                                              SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0)
        add_client(s, fd);
    if (n > ACCEPTS_MAX || errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return;
    /* No descriptor or no memory is left: the server closes a connection without a hello, or waits
     * a moment, as epoll reports the connection again at once. */
    if (s->num_unknown > 0 && (errno == EMFILE || errno == ENFILE))
        drop_client(s, TAILQ_FIRST(&s->unknown));
    else
        usleep(UT_JOB_BACKOFF_MAX_US);
}

static enum ut_job_wire_status handle_hello(struct ut_job_server *s, struct client *c)
{
    uint32_t rank = ut_job_wire_u32(&c->in, UT_JOB_WIRE_NONCE);

    if (ut_job_wire_u32(&c->in, UT_JOB_WIRE_NONCE + 4) != s->size)
        return UT_JOB_WIRE_BAD_SIZE;
    if (rank >= s->size)
        return UT_JOB_WIRE_BAD_RANK;
    struct entry *e = &s->table[rank];
    if (e->connected)
        return UT_JOB_WIRE_DUPLICATE;
    /* a new program with this rank has published nothing yet */
    ut_job_records_write(&s->records, rank, NULL, 0);
    s->seen += !e->seen;
    e->seen = e->connected = true;
    c->rank = rank;
    TAILQ_REMOVE(&s->unknown, c, others);
    TAILQ_INSERT_TAIL(&s->known, c, others);
    s->num_unknown--;
    s->connected++;
    s->records_due = s->check_user && s->records.fd >= 0;
    return UT_JOB_WIRE_OK;
}

static enum ut_job_wire_status handle_lookup(struct ut_job_server *s, uint32_t rank,
                                             uint8_t record[UT_JOB_RECORD_MAX], size_t *size)
{
    if (rank >= s->size)
        return UT_JOB_WIRE_BAD_RANK;
    if (ut_job_records_read(&s->records, rank, record, size))
        return UT_JOB_WIRE_OK;
    *size = 0;
    return UT_JOB_WIRE_NOT_YET;
}

/* Answers a process with another key, without information about the job. */
static void send_refusal(struct client *c)
{
    struct ut_job_wire out;
    size_t n = ut_job_wire_fill(&out, UT_JOB_WIRE_HELLO, UT_JOB_WIRE_REFUSED, NULL, 0);

    if (send(c->fd, &out, n, MSG_NOSIGNAL) < 0)
        return; /* the connection will be closed in any case */
}

/* True if the sender of the message has the key of the job. */
static bool is_authentic(struct ut_job_server *s, struct client *c, bool is_hello)
{
    if (is_hello)
        ut_job_channel_init(&c->channel, UT_JOB_SIDE_SERVER, &s->key, c->nonce, c->in.data);
    else if (c->rank == UNKNOWN)
        return false;
    if (ut_job_channel_check(&c->channel, &c->in))
        return true;
    if (is_hello)
        send_refusal(c);
    return false;
}

static ssize_t send_with_descriptor(int to, void *bytes, size_t size, int fd)
{
    struct iovec iov = {bytes, size};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};

    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    return sendmsg(to, &msg, MSG_NOSIGNAL);
}

/* Sends the pending answers. False: the client does not read its answers, and must be dropped. */
static bool flush(struct ut_job_server *s, struct client *c)
{
    size_t size = s->out_size;
    bool with_records = s->records_due;

    s->out_size = 0;
    s->records_due = false;
    if (with_records && send_with_descriptor(c->fd, s->out, size, s->records.fd) == (ssize_t)size)
        return true;
    /* too many descriptors in flight to this user: answers without the descriptor */
    return size == 0 || send(c->fd, s->out, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Answers one complete message of a client. False: the client must be dropped. */
static bool send_answer(struct ut_job_server *s, struct client *c)
{
    uint16_t size = le16toh(c->in.size);
    bool is_hello = c->in.type == UT_JOB_WIRE_HELLO && size == UT_JOB_WIRE_HELLO_SIZE;
    enum ut_job_wire_status status = UT_JOB_WIRE_OK;
    uint8_t record[UT_JOB_RECORD_MAX];
    struct ut_job_wire out;
    size_t found = 0;

    if (is_hello && c->rank != UNKNOWN)
        return false;
    if (!is_authentic(s, c, is_hello))
        return false;
    if (is_hello) {
        status = handle_hello(s, c);
    } else if (c->in.type == UT_JOB_WIRE_PUBLISH && size <= UT_JOB_RECORD_MAX) {
        ut_job_records_write(&s->records, c->rank, c->in.data, size);
    } else if (c->in.type == UT_JOB_WIRE_LOOKUP && size == 4) {
        status = handle_lookup(s, ut_job_wire_u32(&c->in, 0), record, &found);
    } else {
        return false;
    }
    size_t n = ut_job_wire_fill(&out, c->in.type, status, record, found);
    ut_job_channel_seal(&c->channel, &out);
    if (n > sizeof(s->out) - s->out_size && !flush(s, c))
        return false;
    memcpy(s->out + s->out_size, &out, n);
    s->out_size += n;
    return true;
}

/* Answers the complete messages in these bytes, and keeps the rest. False: the client must be
 * dropped. */
static bool handle_message(struct ut_job_server *s, struct client *c, const uint8_t *bytes,
                           size_t size)
{
    while (size > 0) {
        size_t need = ut_job_wire_need(&c->in, c->have);
        if (need == 0)
            return false;
        size_t n = need - c->have < size ? need - c->have : size;
        memcpy((char *)&c->in + c->have, bytes, n);
        c->have += n;
        bytes += n;
        size -= n;
        if (c->have == ut_job_wire_need(&c->in, c->have)) {
            if (!send_answer(s, c))
                return false;
            c->have = 0;
        }
    }
    return ut_job_wire_need(&c->in, c->have) != 0;
}

/* Reads up to a buffer of data, and answers it. False: the client has closed, or must be dropped.
 */
static bool serve_client(struct ut_job_server *s, struct client *c)
{
    ssize_t n = ut_fd_is_still_ours(c->fd) ? recv(c->fd, s->in, sizeof(s->in), 0) : 0;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    s->out_size = 0;
    s->records_due = false;
    return handle_message(s, c, s->in, (size_t)n) && flush(s, c);
}

int ut_job_server_fd(const struct ut_job_server *server)
{
    return server->epoll_fd;
}

void ut_job_server_step(struct ut_job_server *s, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, timeout_ms);
    bool newcomers = false;

    for (int i = 0; i < n; i++) {
        struct client *c = events[i].data.ptr;
        if (events[i].data.ptr == &s->listen_fd)
            newcomers = true;
        else if (!serve_client(s, c))
            drop_client(s, c);
    }
    /* last, because this may drop clients that are in `events` */
    if (newcomers)
        accept_some(s);
    drop_unknown(s, UNKNOWN_MAX);
}

void ut_job_server_count(const struct ut_job_server *server, uint32_t *seen, uint32_t *connected)
{
    *seen = server->seen;
    *connected = server->connected;
}

void ut_job_server_on_rejection(struct ut_job_server *server, void (*rejected)(long uid, long pid))
{
    server->rejected = rejected;
}

void ut_job_server_destroy(struct ut_job_server *s)
{
    while (!TAILQ_EMPTY(&s->unknown))
        drop_client(s, TAILQ_FIRST(&s->unknown));
    while (!TAILQ_EMPTY(&s->known))
        drop_client(s, TAILQ_FIRST(&s->known));
    ut_job_records_free(&s->records);
    ut_fd_close(s->epoll_fd);
    ut_fd_close(s->listen_fd);
    free(s->table);
    free(s);
}
