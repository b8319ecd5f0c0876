/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest provider with the operations that programs need, for tests with three providers in
 * the registry, and as an example for docs/design/adding-a-provider.md. Every operation is a frame
 * on a Unix socket; the target executes it when it polls, in order, and answers. No device, no
 * atomics, no mapped memory. It does not check that memory is mapped, takes a forked child of a
 * peer for the peer, and ends the process where memory runs out.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake.h"
#include "providers.h"
#include "util/fd.h"

enum {
    PIECE = 32768,       /* bytes of data in a frame */
    FIRST_KEY = 0xfa000, /* unlike those of other providers: a mixed-up key is refused */
    MAX_OPS = 128,       /* of one connection, not yet answered */
    FRAMES_A_POLL = 64,
};

enum frame_type { HELLO, ACCEPT, REJECT, BYE, WRITE, READ, MESSAGE, REPLY };

struct frame {
    uint32_t type, status; /* REPLY: enum prov_status */
    uint64_t rmt;          /* WRITE, READ; HELLO: the asker's id */
    uint32_t rkey, length; /* of the whole operation */
    uint32_t offset, size; /* of this piece; its bytes follow */
    uint32_t notify, imm;  /* WRITE */
    uint32_t signal;       /* answer soon */
};

void (*fake_on_reg)(size_t size);
void (*fake_on_write)(void);
bool fake_reads_source;
unsigned int fake_read_flags;
unsigned int fake_lacks_memory, fake_has_no_room, fake_is_full;
int fake_unasked = -1;
bool fake_has_no_port, fake_refuses_messages, fake_saves_reports, fake_hides_ends;
uint32_t fake_unanswered; /* counters are changed under the locks of several VCQs */
bool fake_hears_nothing, fake_peer_lives, fake_breaks, fake_loses, fake_attempts_break;
uint32_t fake_asks, fake_ups;

struct queued {
    struct queued *next;
    size_t size;
    uint8_t bytes[];
};

struct region {
    struct prov_mr mr;
    struct region *next;
    uint64_t addr, size;
    unsigned int access;
};

struct fake {
    struct prov base;
    struct prov_config config;
    struct address {
        int64_t pid;
        uint64_t random;
    } address;
    int epoll;
    pthread_mutex_t lock; /* of the regions */
    struct region *regions;
    uint32_t last_key;
};

enum state { ASKING, ASKED, AWAITED, UP, DOWN, CLOSED };

struct fake_conn {
    struct fake_conn *next;
    struct fake_ep *ep;
    void *ctx;
    enum state state; /* ASKING: no socket yet; ASKED: no answer yet; AWAITED: the core has to
                       * answer */
    int fd;
    bool asked;   /* by this end */
    bool tell_up; /* accepted: up() is due */
    bool refused; /* an operation of the peer was refused, which ends the connection: nothing behind
                   * it is executed */
    struct address peer;
    uint64_t peer_id;
    uint8_t hello[PROV_PRIVATE_DATA_MAX]; /* this end's before the answer, then the peer's */
    size_t hello_size;
    struct queued *first, **last; /* frames that the socket had no room for */
    struct {
        uint64_t cookie;
        uint8_t *lcl; /* of a read */
    } ops[MAX_OPS];
    uint32_t posted, answered;
    uint32_t saved; /* answers to the peer that are not sent yet: executed, and not signalled */
};

struct fake_ep {
    struct fake *prov;
    struct prov_ep_attr attr;
    int fd; /* listens */
    struct fake_conn *conns;
    uint64_t buffer[(sizeof(struct frame) + PIECE) / 8];
};

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/*
 * Memory
 */

static int fake_reg(struct prov *base, unsigned int device, void *addr, size_t size,
                    unsigned int access, struct prov_mr **mr)
{
    struct fake *prov = (struct fake *)base;
    struct region *r = need(calloc(1, sizeof(*r)));

    (void)device;
    if (fake_on_reg)
        fake_on_reg(size);
    pthread_mutex_lock(&prov->lock);
    r->mr.lkey = r->mr.rkey = ++prov->last_key;
    r->addr = (uintptr_t)addr;
    r->size = size;
    r->access = access;
    r->next = prov->regions;
    prov->regions = r;
    pthread_mutex_unlock(&prov->lock);
    *mr = &r->mr;
    return 0;
}

static void fake_dereg(struct prov *base, struct prov_mr *mr)
{
    struct fake *prov = (struct fake *)base;
    struct region **at = &prov->regions;

    pthread_mutex_lock(&prov->lock);
    while (&(*at)->mr != mr)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&prov->lock);
    free(mr);
}

/* Called with the lock held, which keeps the memory registered. */
static bool allows(const struct fake *prov, uint32_t key, uint64_t addr, uint64_t length,
                   unsigned int access)
{
    const struct region *r = prov->regions;

    while (r && r->mr.rkey != key)
        r = r->next;
    return length == 0 || (r && (r->access & access) == access && addr >= r->addr &&
                           length <= r->size && addr - r->addr <= r->size - length);
}

static bool is_local(struct fake_conn *conn, const struct prov_xfer *x, unsigned int access)
{
    struct fake *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    bool good = allows(prov, x->lkey, (uintptr_t)x->lcl, x->length, access);
    pthread_mutex_unlock(&prov->lock);
    return good;
}

/* Copies to or from memory of the program as an adapter would, aligned words in one store.
 * ThreadSanitizer does not see it. */
__attribute__((no_sanitize("thread"))) static void copy(void *to, const void *from, size_t size)
{
    volatile uint8_t *t = to;
    const volatile uint8_t *f = from;

    while (size > 0) {
        uintptr_t both = (uintptr_t)t | (uintptr_t)f;
        size_t n = both % 8 == 0 && size >= 8 ? 8 : both % 4 == 0 && size >= 4 ? 4 : 1;
        if (n == 8)
            *(volatile uint64_t *)t = *(const volatile uint64_t *)f;
        else if (n == 4)
            *(volatile uint32_t *)t = *(const volatile uint32_t *)f;
        else
            *t = *f;
        t += n;
        f += n;
        size -= n;
    }
}

/* The last word lands last, because programs poll it. */
static void land(void *to, const void *from, size_t size)
{
    size_t before = size > 8 ? size - 8 : 0;

    copy(to, from, before);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    copy((uint8_t *)to + before, (const uint8_t *)from + before, size - before);
}

/*
 * Frames
 */

/* Each call gives one wake-up. An owner may be woken for an endpoint just closed. */
static void watch(struct fake_ep *ep, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = ep->attr.owner};

    if (fd >= 0 && epoll_ctl(ep->prov->epoll, EPOLL_CTL_MOD, fd, &event) != 0)
        epoll_ctl(ep->prov->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Frames that the socket has no room for are sent by a later poll, for which the owner is woken. */
static void flush(struct fake_conn *conn)
{
    while (conn->first && conn->fd >= 0) {
        struct queued *q = conn->first;
        if (send(conn->fd, q->bytes, q->size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
            watch(conn->ep, conn->fd, EPOLLIN | EPOLLOUT);
            return;
        }
        conn->first = q->next; /* a broken socket is found by receiving */
        if (!conn->first)
            conn->last = &conn->first;
        free(q);
    }
}

static void queue(struct fake_conn *conn, const struct frame *f, const void *data)
{
    struct queued *q = need(malloc(sizeof(*q) + sizeof(*f) + f->size));

    q->next = NULL;
    q->size = sizeof(*f) + f->size;
    memcpy(q->bytes, f, sizeof(*f));
    copy(q->bytes + sizeof(*f), data, f->size);
    *conn->last = q;
    conn->last = &q->next;
    flush(conn);
}

/* One frame for each piece of the data, or one without data. */
static void queue_all(struct fake_conn *conn, struct frame f, const uint8_t *data)
{
    do {
        f.size = f.length - f.offset < PIECE ? f.length - f.offset : PIECE;
        queue(conn, &f, data + f.offset);
        f.offset += f.size;
    } while (f.offset < f.length);
}

static void say(struct fake_conn *conn, enum frame_type type, uint64_t id, const void *data,
                size_t size)
{
    struct frame f = {.type = type, .rmt = id, .length = (uint32_t)size, .size = (uint32_t)size};

    queue(conn, &f, data);
}

/*
 * Operations
 */

/* Small writes return PROV_SRC_FREE, so PROV_SIGNAL_SRC asks for nothing. */
static bool is_signalled(const struct fake_conn *conn, unsigned int flags)
{
    return (flags & PROV_SIGNAL) || !fake_saves_reports ||
           conn->posted - conn->answered >= MAX_OPS / 2;
}

static int post(struct fake_conn *conn, uint64_t cookie, uint8_t *lcl)
{
    if (conn->state != UP)
        return -ENOTCONN;
    if (conn->posted - conn->answered == MAX_OPS)
        return -EAGAIN;
    conn->ops[conn->posted % MAX_OPS].cookie = cookie;
    conn->ops[conn->posted % MAX_OPS].lcl = lcl;
    conn->posted++;
    __atomic_add_fetch(&fake_unanswered, 1, __ATOMIC_RELAXED);
    return 0;
}

/* PROV_FENCE: the operation waits until earlier reads have their data. */
static bool waits_for_read(const struct fake_conn *conn, unsigned int flags)
{
    for (uint32_t n = conn->answered; flags & PROV_FENCE && n != conn->posted; n++)
        if (conn->ops[n % MAX_OPS].lcl)
            return true;
    return false;
}

static int fake_write(struct prov_conn *base, const struct prov_xfer *x)
{
    struct fake_conn *conn = (struct fake_conn *)base;
    struct frame f = {.type = WRITE,
                      .rmt = x->rmt,
                      .rkey = x->rkey,
                      .length = x->length,
                      .notify = (x->flags & PROV_NOTIFY) != 0,
                      .imm = x->imm,
                      .signal = is_signalled(conn, x->flags)};

    if (!(x->flags & PROV_INLINE) && !(fake_reads_source && x->length <= PROV_INLINE_MAX) &&
        !is_local(conn, x, 0))
        return -EPERM;
    if (fake_is_full) {
        fake_is_full--;
        return -EAGAIN;
    }
    int rc = waits_for_read(conn, x->flags) ? -EAGAIN : post(conn, x->cookie, NULL);
    if (rc == 0)
        queue_all(conn, f, x->lcl);
    if (rc == 0 && fake_on_write)
        fake_on_write();
    return rc == 0 ? PROV_SRC_FREE : rc;
}

static int fake_read(struct prov_conn *base, const struct prov_xfer *x)
{
    struct fake_conn *conn = (struct fake_conn *)base;
    struct frame f = {
        .type = READ, .rmt = x->rmt, .rkey = x->rkey, .length = x->length, .signal = true};

    fake_read_flags = x->flags;
    if (!is_local(conn, x, PROV_ACCESS_WRITE))
        return -EPERM;
    int rc = post(conn, x->cookie, x->lcl);
    if (rc == 0)
        queue(conn, &f, NULL);
    return rc;
}

static int fake_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
                     uint64_t cookie)
{
    struct fake_conn *conn = (struct fake_conn *)base;
    struct frame f = {.type = MESSAGE,
                      .length = (uint32_t)size,
                      .size = (uint32_t)size,
                      .signal = is_signalled(conn, flags)};

    if (fake_refuses_messages)
        return -EIO;
    int rc = waits_for_read(conn, flags) ? -EAGAIN : post(conn, cookie, NULL);
    if (rc == 0)
        queue(conn, &f, data);
    return rc == 0 ? PROV_SRC_FREE : rc;
}

/* Nothing is mapped. */
static void *fake_direct(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey)
{
    (void)conn, (void)rmt, (void)length, (void)rkey;
    return NULL;
}

static void reply(struct fake_conn *conn, enum prov_status status, const uint8_t *data,
                  uint32_t length)
{
    for (; conn->saved > 0; conn->saved--)
        say(conn, REPLY, 0, NULL, 0);
    queue_all(conn, (struct frame){.type = REPLY, .status = status, .length = length}, data);
}

static void reply_executed(struct fake_conn *conn, const struct frame *f)
{
    if (f->signal)
        reply(conn, PROV_OK, NULL, 0);
    else
        conn->saved++;
}

/* Each piece by itself is within the whole, which is checked. */
static int execute(struct fake_conn *conn, const struct frame *f, const uint8_t *data)
{
    struct fake *prov = conn->ep->prov;
    unsigned int access = f->type == WRITE ? PROV_ACCESS_WRITE : PROV_ACCESS_READ;

    pthread_mutex_lock(&prov->lock);
    bool good = allows(prov, f->rkey, f->rmt, f->length, access);
    if (good && f->type == WRITE)
        land((void *)(uintptr_t)(f->rmt + f->offset), data, f->size);
    if (good && f->type == READ)
        reply(conn, PROV_OK, (const uint8_t *)(uintptr_t)f->rmt, f->length);
    pthread_mutex_unlock(&prov->lock);
    if (!good) {
        conn->refused = true;
        reply(conn, PROV_RMT_ACCESS, NULL, 0);
        return 0;
    }
    if (f->type == WRITE && f->offset + f->size < f->length)
        return 0;
    if (f->type == WRITE)
        reply_executed(conn, f);
    if (!f->notify)
        return 0;
    conn->ep->attr.callbacks->notify(conn->ctx, f->imm);
    return 1;
}

/*
 * Connections
 */

static void name_of(struct sockaddr_un *name, const struct address *address, uint64_t id)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "utofu-fake.%lld.%llx.%llx",
             (long long)address->pid, (unsigned long long)address->random, (unsigned long long)id);
}

static struct fake_conn *conn_new(struct fake_ep *ep, enum state state, int fd)
{
    struct fake_conn *conn = need(calloc(1, sizeof(*conn)));

    conn->ep = ep;
    conn->state = state;
    conn->fd = fd;
    conn->last = &conn->first;
    conn->next = ep->conns;
    ep->conns = conn;
    return conn;
}

static void set_hello(struct fake_conn *conn, const void *hello, size_t size)
{
    conn->hello_size = size < PROV_PRIVATE_DATA_MAX ? size : PROV_PRIVATE_DATA_MAX;
    memcpy(conn->hello, hello, conn->hello_size);
}

static void hang_up(struct fake_conn *conn, enum state state)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    conn->state = state;
    __atomic_sub_fetch(&fake_unanswered, conn->posted - conn->answered, __ATOMIC_RELAXED);
    while (conn->first) {
        struct queued *q = conn->first;
        conn->first = q->next;
        free(q);
    }
    conn->last = &conn->first;
}

static int go_down(struct fake_conn *conn, enum prov_reason reason)
{
    const struct prov_callbacks *cb = conn->ep->attr.callbacks;
    enum state before = conn->state;
    int calls = 1;

    hang_up(conn, before == AWAITED ? CLOSED : DOWN);
    if (before == AWAITED)
        return 0; /* the core does not know it yet */
    for (; conn->answered != conn->posted; calls++)
        cb->done(conn->ctx, conn->ops[conn->answered++ % MAX_OPS].cookie, PROV_FLUSHED);
    cb->down(conn->ctx, reason);
    return calls;
}

/* A process that ends has closed its sockets before it is a zombie. */
static bool is_dead(const struct address *peer)
{
    enum { EXITING = 4 }; /* PF_EXITING, in the ninth word of proc(5)'s stat */
    char path[32], stat[512];
    unsigned int flags = EXITING;

    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)peer->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    stat[fread(stat, 1, sizeof(stat) - 1, file)] = '\0';
    fclose(file);
    const char *behind_name = strrchr(stat, ')');
    return !behind_name || sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 ||
           (flags & EXITING) != 0;
}

/* Sends a last frame, in order, if the connection is up. */
static void say_last(struct fake_conn *conn, enum frame_type type)
{
    if (conn->fd >= 0 && conn->state != ASKING)
        say(conn, type, 0, NULL, 0);
    for (int i = 0; conn->first && i < 1000; i++) {
        usleep(1000);
        flush(conn);
    }
}

static int take_reply(struct fake_conn *conn, const struct frame *f, const uint8_t *data)
{
    uint32_t n = conn->answered % MAX_OPS;

    if (f->size)
        land(conn->ops[n].lcl + f->offset, data, f->size);
    if (f->offset + f->size < f->length)
        return 0;
    conn->answered++;
    __atomic_sub_fetch(&fake_unanswered, 1, __ATOMIC_RELAXED);
    if (fake_hides_ends)
        return 0;
    conn->ep->attr.callbacks->done(conn->ctx, conn->ops[n].cookie, (enum prov_status)f->status);
    if (f->status == PROV_OK || conn->state != UP)
        return 1;
    say_last(conn, BYE);
    return 1 + go_down(conn, PROV_REASON_BROKEN);
}

static int lose(struct fake_conn *conn)
{
    if (conn->state == UP) /* no BYE */
        return go_down(conn, fake_peer_lives ? PROV_REASON_BROKEN : PROV_REASON_PEER_DEAD);
    return go_down(conn, is_dead(&conn->peer) ? PROV_REASON_PEER_DEAD : PROV_REASON_NO_ENDPOINT);
}

/* If the listener's queue is full the next poll tries again. */
static int ask(struct fake_conn *conn)
{
    struct sockaddr_un name;

    name_of(&name, &conn->peer, conn->peer_id);
    if (connect(conn->fd, (struct sockaddr *)&name, sizeof(name)) != 0)
        return errno == EAGAIN ? 0 : lose(conn);
    conn->state = ASKED;
    __atomic_add_fetch(&fake_asks, 1, __ATOMIC_RELAXED);
    say(conn, HELLO, conn->ep->attr.id, conn->hello, conn->hello_size);
    return 0;
}

static int take(struct fake_conn *conn, const struct frame *f, const uint8_t *data)
{
    const struct prov_callbacks *cb = conn->ep->attr.callbacks;

    switch ((enum frame_type)f->type) {
    case HELLO:
        conn->peer_id = f->rmt;
        set_hello(conn, data, f->size);
        cb->request(conn->ep->attr.owner, &conn->ep->prov->base, (struct prov_conn *)conn, f->rmt,
                    conn->hello, conn->hello_size);
        return 1;
    case ACCEPT:
        conn->state = UP;
        __atomic_add_fetch(&fake_ups, 1, __ATOMIC_RELAXED);
        cb->up(conn->ctx, data, f->size);
        return 1;
    case REJECT:
        return go_down(conn, PROV_REASON_REJECTED);
    case BYE:
        return go_down(conn, PROV_REASON_CLOSED);
    case WRITE:
    case READ:
        return conn->refused ? 0 : execute(conn, f, data);
    case MESSAGE:
        if (conn->refused)
            return 0;
        reply_executed(conn, f);
        cb->message(conn->ctx, data, f->size);
        return 1;
    case REPLY:
        return take_reply(conn, f, data);
    }
    return 0;
}

static int poll_conn(struct fake_conn *conn)
{
    struct frame *f = (struct frame *)conn->ep->buffer;
    int calls = 0;

    if (fake_hears_nothing && conn->asked && conn->state != DOWN && conn->state != CLOSED)
        return go_down(conn, PROV_REASON_SILENT);
    if (fake_breaks && conn->asked && conn->state == UP) {
        fake_breaks = false;
        return go_down(conn, PROV_REASON_BROKEN);
    }
    if (fake_loses && conn->state == UP) {
        fake_loses = false;
        return go_down(conn, PROV_REASON_BROKEN);
    }
    if (conn->state == ASKING && fake_attempts_break)
        return go_down(conn, PROV_REASON_BROKEN);
    if (conn->state == ASKING)
        return ask(conn);
    flush(conn);
    for (int i = 0; i < FRAMES_A_POLL && conn->fd >= 0; i++) {
        if (conn->tell_up) { /* request() may have accepted just now, and data have arrived */
            conn->tell_up = false;
            conn->ep->attr.callbacks->up(conn->ctx, conn->hello, conn->hello_size);
            calls++;
            continue;
        }
        ssize_t n = recv(conn->fd, f, sizeof(conn->ep->buffer), MSG_DONTWAIT);
        if (n < 0 && errno == ECONNRESET)
            continue; /* the peer closed with something unread; the frames that it sent before come
                       * now */
        if (n < 0)
            break;
        calls += n == 0 ? lose(conn) : take(conn, f, (const uint8_t *)(f + 1));
    }
    return calls;
}

/* The next poll asks; a socket without a peer is ready, so that poll comes soon. */
static int fake_connect(struct prov_ep *base, const void *addr, size_t addr_size,
                        unsigned int peer_tni, uint64_t peer_id, const void *hello,
                        size_t hello_size, void *ctx, struct prov_conn **conn)
{
    if (addr_size != sizeof(struct address))
        return -EINVAL;
    if (fake_lacks_memory) {
        fake_lacks_memory--;
        return -ENOMEM;
    }
    if ((int)peer_tni == fake_unasked)
        return -ENOMEM;
    if (fake_has_no_port)
        return -EIO;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    struct fake_conn *c = conn_new((struct fake_ep *)base, ASKING, fd);
    memcpy(&c->peer, addr, addr_size);
    c->peer_id = peer_id;
    c->asked = true;
    c->ctx = ctx;
    set_hello(c, hello, hello_size);
    watch(c->ep, fd, EPOLLOUT);
    *conn = (struct prov_conn *)c;
    return 0;
}

static void part(struct fake_conn *conn, enum frame_type type)
{
    say_last(conn, type);
    hang_up(conn, CLOSED);
}

static void fake_reject(struct prov_conn *base)
{
    part((struct fake_conn *)base, REJECT);
}

static int fake_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct fake_conn *conn = (struct fake_conn *)base;

    if (fake_has_no_room) {
        fake_has_no_room--;
        fake_reject(base);
        return -EAGAIN;
    }
    conn->ctx = ctx;
    conn->state = UP;
    conn->tell_up = true;
    say(conn, ACCEPT, 0, hello, hello_size);
    return 0;
}

static void fake_conn_close(struct prov_conn *base)
{
    part((struct fake_conn *)base, BYE);
}

/*
 * Endpoints
 */

static int fake_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **ep)
{
    struct fake_ep *e = need(calloc(1, sizeof(*e)));
    struct sockaddr_un name;

    e->prov = (struct fake *)base;
    e->attr = *attr;
    e->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    name_of(&name, &e->prov->address, attr->id);
    if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&name, sizeof(name)) != 0 ||
        listen(e->fd, 64) != 0) {
        int error = errno;
        if (e->fd >= 0)
            close(e->fd);
        free(e);
        return error == EADDRINUSE ? -EEXIST : -error;
    }
    *ep = (struct prov_ep *)e;
    return 0;
}

/* Removes from the list the connections that a callback closed. */
static void forget_closed(struct fake_ep *ep)
{
    for (struct fake_conn **at = &ep->conns; *at;) {
        struct fake_conn *conn = *at;
        if (conn->state != CLOSED) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        free(conn);
    }
}

static void fake_ep_close(struct prov_ep *base)
{
    struct fake_ep *ep = (struct fake_ep *)base;

    for (struct fake_conn *conn = ep->conns; conn; conn = conn->next) {
        if (conn->state != CLOSED)
            part(conn, conn->state == AWAITED ? REJECT : BYE);
    }
    forget_closed(ep);
    close(ep->fd);
    free(ep);
}

static int fake_ep_poll(struct prov_ep *base)
{
    struct fake_ep *ep = (struct fake_ep *)base;
    int calls = 0, fd;

    while ((fd = accept4(ep->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        conn_new(ep, AWAITED, fd);
        watch(ep, fd, EPOLLIN); /* the endpoint may be armed, and its owner not poll again */
    }
    /* new ones first: a peer's next request may come before its old connection breaks */
    for (struct fake_conn *conn = ep->conns; conn; conn = conn->next)
        calls += poll_conn(conn);
    forget_closed(ep);
    return calls;
}

static void fake_ep_flush(struct prov_ep *base)
{
    (void)base; /* PROV_MORE holds nothing back */
}

static bool fake_ep_arm(struct prov_ep *base, enum prov_arm what)
{
    (void)what; /* everything wakes */
    struct fake_ep *ep = (struct fake_ep *)base;
    bool more = false;

    watch(ep, ep->fd, EPOLLIN);
    for (struct fake_conn *conn = ep->conns; conn; conn = conn->next) {
        watch(ep, conn->fd, EPOLLIN);
        more |= conn->first || conn->tell_up || conn->state == ASKING;
    }
    return more;
}

static void fake_ep_disarm(struct prov_ep *base)
{
    (void)base;
}

/*
 * The provider
 */

static int fake_open(const struct prov_config *config, struct prov **prov)
{
    struct fake *f = need(calloc(1, sizeof(*f)));

    f->base.ops = &fake_provider;
    f->config = *config;
    f->address.pid = getpid();
    f->last_key = FIRST_KEY;
    f->epoll = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    pthread_mutex_init(&f->lock, NULL);
    if (f->epoll < 0 || getrandom(&f->address.random, sizeof(f->address.random), 0) < 0) {
        free(f);
        return -EIO;
    }
    *prov = &f->base;
    return 0;
}

static void fake_close(struct prov *base)
{
    struct fake *prov = (struct fake *)base;

    close(prov->epoll);
    free(prov);
}

static size_t fake_address(struct prov *base, void *buf)
{
    memcpy(buf, &((struct fake *)base)->address, sizeof(struct address));
    return sizeof(struct address);
}

static void fake_caps(struct prov *base, unsigned int tni, struct prov_caps *caps)
{
    (void)base;
    (void)tni;
    *caps = (struct prov_caps){.line = PROV_TOFU_LINE,
                               .max_inline = PROV_INLINE_MAX,
                               .reads_source = fake_reads_source,
                               .max_message = PROV_MSG_MAX,
                               .max_xfer = UINT32_MAX,
                               .device = "sockets"};
}

static unsigned int fake_device(struct prov *base, unsigned int tni)
{
    (void)base;
    (void)tni;
    return 0;
}

static int fake_fd(struct prov *base)
{
    return ((struct fake *)base)->epoll;
}

static int fake_progress(struct prov *base)
{
    struct fake *prov = (struct fake *)base;
    struct epoll_event events[16];
    int n = epoll_wait(prov->epoll, events, 16, 0);

    for (int i = 0; i < n; i++)
        prov->config.wake(events[i].data.ptr);
    return n == 16 ? 0 : -1;
}

const struct prov_ops fake_provider = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .caps = fake_caps,
    .device = fake_device,
    .reg = fake_reg,
    .dereg = fake_dereg,
    .ep_open = fake_ep_open,
    .ep_close = fake_ep_close,
    .ep_poll = fake_ep_poll,
    .ep_flush = fake_ep_flush,
    .ep_arm = fake_ep_arm,
    .ep_disarm = fake_ep_disarm,
    .connect = fake_connect,
    .accept = fake_accept,
    .reject = fake_reject,
    .conn_close = fake_conn_close,
    .write = fake_write,
    .read = fake_read,
    .send = fake_send,
    .direct = fake_direct,
    .fd = fake_fd,
    .progress = fake_progress,
};
