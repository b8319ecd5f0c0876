/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous server: epoll over non-blocking sockets, one message in flight per connection.
 * Whoever sends anything unexpected, or does not say hello in time, is dropped.
 */
#include "job/job_server.h"
#include "job/job_ops.h"
#include "job/job_wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STRANGERS_MAX = 64, /* connections that have not said hello yet */
    STRANGER_LIFE_MS = 10000,
    EVENTS_MAX = 32,
    UNKNOWN = UINT32_MAX, /* rank of a connection that has not said hello */
};

struct client {
    struct client *prev, *next; /* in a ring with the server's head */
    int fd;
    uint32_t rank;
    int64_t born;
    size_t have;
    struct ut_job_wire in;
};

struct entry {
    uint8_t *blob;
    uint16_t size;
    bool seen, connected;
};

struct ut_job_server {
    int listen_fd, epoll_fd;
    bool check_user;
    uint32_t size, seen, connected, strangers;
    struct client head; /* newest first */
    struct entry *table;
};

static int watch(struct ut_job_server *s, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int listen_at(const struct ut_job_root *root)
{
    int fd = socket(root->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, rc;

    if (fd < 0)
        return -errno;
    /* TCP: a port is free again at once after the job that used it before */
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
                         uint32_t size)
{
    struct ut_job_server *s = calloc(1, sizeof(*s));
    int rc = -ENOMEM;

    if (!s)
        return rc;
    s->head.prev = s->head.next = &s->head;
    s->size = size;
    s->check_user = root->kind == UT_JOB_ROOT_UNIX;
    s->table = calloc(size, sizeof(*s->table));
    if (!s->table)
        goto free_server;
    s->listen_fd = rc = listen_at(root);
    if (rc < 0)
        goto free_table;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0) {
        rc = -errno;
        goto close_listen;
    }
    rc = watch(s, s->listen_fd, &s->listen_fd);
    if (rc != 0)
        goto close_epoll;
    *server = s;
    return 0;
close_epoll:
    close(s->epoll_fd);
close_listen:
    close(s->listen_fd);
free_table:
    free(s->table);
free_server:
    free(s);
    return rc;
}

static void drop(struct ut_job_server *s, struct client *c)
{
    if (c->rank == UNKNOWN) {
        s->strangers--;
    } else {
        s->table[c->rank].connected = false;
        s->connected--;
    }
    c->prev->next = c->next;
    c->next->prev = c->prev;
    /* a child of this process may still hold the descriptor: closing alone does not end the watch */
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    free(c);
}

/* Makes room for a newcomer: the stranger that has kept silent for longest goes. */
static void drop_strangers(struct ut_job_server *s, bool make_room)
{
    int64_t now = ut_job_now_ms();

    for (struct client *c = s->head.prev, *prev; c != &s->head && s->strangers > 0; c = prev) {
        prev = c->prev;
        if (c->rank != UNKNOWN)
            continue;
        if (now - c->born <= STRANGER_LIFE_MS && !(make_room && s->strangers >= STRANGERS_MAX))
            break;
        drop(s, c);
    }
}

static void add_client(struct ut_job_server *s, int fd)
{
    struct client *c;
    int one = 1;

    if (s->check_user && !ut_job_root_same_user(fd))
        goto close_fd;
    drop_strangers(s, true);
    c = calloc(1, sizeof(*c));
    if (!c || watch(s, fd, c) != 0)
        goto free_client;
    if (!s->check_user)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->fd = fd;
    c->rank = UNKNOWN;
    c->born = ut_job_now_ms();
    c->prev = &s->head;
    c->next = s->head.next;
    c->prev->next = c->next->prev = c;
    s->strangers++;
    return;
free_client:
    free(c);
close_fd:
    close(fd);
}

static void accept_all(struct ut_job_server *s)
{
    int fd;

    while ((fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        add_client(s, fd);
    /* no descriptor left: the newcomer waits; do not spin meanwhile */
    if (errno == EMFILE || errno == ENFILE)
        usleep(UT_JOB_BACKOFF_MAX_US);
}

static enum ut_job_wire_status hello(struct ut_job_server *s, struct client *c)
{
    uint32_t rank = ut_job_wire_u32(&c->in, 0);

    if (ut_job_wire_u32(&c->in, 4) != s->size)
        return UT_JOB_WIRE_BAD_SIZE;
    if (rank >= s->size)
        return UT_JOB_WIRE_BAD_RANK;
    struct entry *e = &s->table[rank];
    if (e->connected)
        return UT_JOB_WIRE_DUPLICATE;
    /* a program run after another one by the same rank starts with nothing published */
    free(e->blob);
    e->blob = NULL;
    s->seen += !e->seen;
    e->seen = e->connected = true;
    c->rank = rank;
    s->strangers--;
    s->connected++;
    return UT_JOB_WIRE_OK;
}

static enum ut_job_wire_status publish(struct entry *e, const uint8_t *blob, uint16_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        return UT_JOB_WIRE_NO_MEMORY;
    memcpy(copy, blob, size);
    free(e->blob);
    e->blob = copy;
    e->size = size;
    return UT_JOB_WIRE_OK;
}

/* Answers the complete message of a client; false: it must be dropped. */
static bool answer(struct ut_job_server *s, struct client *c)
{
    uint16_t size = le16toh(c->in.size);
    enum ut_job_wire_status status;
    struct ut_job_wire out;
    const struct entry *found = NULL;

    if (c->in.type == UT_JOB_WIRE_HELLO && c->rank == UNKNOWN && size == 8) {
        status = hello(s, c);
    } else if (c->rank == UNKNOWN) {
        return false;
    } else if (c->in.type == UT_JOB_WIRE_PUBLISH && size <= UT_JOB_BLOB_MAX) {
        status = publish(&s->table[c->rank], c->in.data, size);
    } else if (c->in.type == UT_JOB_WIRE_LOOKUP && size == 4) {
        uint32_t rank = ut_job_wire_u32(&c->in, 0);
        status = rank >= s->size        ? UT_JOB_WIRE_BAD_RANK
                 : !s->table[rank].blob ? UT_JOB_WIRE_NOT_YET
                                        : UT_JOB_WIRE_OK;
        if (status == UT_JOB_WIRE_OK)
            found = &s->table[rank];
    } else {
        return false;
    }
    size_t n = ut_job_wire_fill(&out, c->in.type, status, found ? found->blob : NULL,
                                found ? found->size : 0);
    /* a client that does not read its answers is no client of ours */
    return send(c->fd, &out, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Reads what is there; false: the client is gone or must go. */
static bool serve(struct ut_job_server *s, struct client *c)
{
    for (;;) {
        size_t need = ut_job_wire_need(&c->in, c->have);
        if (need == 0)
            return false;
        if (c->have == need) {
            if (!answer(s, c))
                return false;
            c->have = 0;
            continue;
        }
        ssize_t n = recv(c->fd, (char *)&c->in + c->have, need - c->have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        c->have += (size_t)n;
    }
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
        else if (!serve(s, c))
            drop(s, c);
    }
    /* last: they may drop clients that the events above name */
    if (newcomers)
        accept_all(s);
    drop_strangers(s, false);
}

void ut_job_server_count(const struct ut_job_server *server, uint32_t *seen, uint32_t *connected)
{
    *seen = server->seen;
    *connected = server->connected;
}

void ut_job_server_destroy(struct ut_job_server *s)
{
    while (s->head.next != &s->head)
        drop(s, s->head.next);
    for (uint32_t i = 0; i < s->size; i++)
        free(s->table[i].blob);
    close(s->epoll_fd);
    close(s->listen_fd);
    free(s->table);
    free(s);
}
