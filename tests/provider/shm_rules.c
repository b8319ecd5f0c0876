/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the shm provider, at their limits: two processes are two providers in this one, with
 * their sockets, rings and segments; the test decides which of them runs. Data go by mapped memory,
 * by cross-memory attach and through the rings. An allocation, or a call of the kernel, that fails
 * has its code and leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "common/atomic_width.h"
#include "provider.h"
#include "shm/conn.h"
#include "shm/mr.h"
#include "shm/op_queue.h"
#include "shm/ring.h"
#include "shm/types.h"
#include "shm/wake.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"

extern const struct prov_ops shm_provider;
static const struct prov_ops *const ops = &shm_provider;

enum { PEER_TIMEOUT_MS = 30000, RW = PROV_ACCESS_READ | PROV_ACCESS_WRITE };

/*
 * The C library's functions
 */

static int allocations_left = -1; /* before one fails; -1: none does */
static long num_allocated;
static const char *failing_call; /* NULL: none */
static int failing_errno;

static bool allocation_fails(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    void *made = allocation_fails() ? NULL : __real_calloc(n, each);

    num_allocated += made != NULL;
    return made;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    void *made = allocation_fails() ? NULL : __real_malloc(size);

    num_allocated += made != NULL;
    return made;
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    void *made = allocation_fails() ? NULL : __real_realloc(old, size);

    num_allocated += made != NULL && !old;
    return made;
}

void __real_free(void *old);
void __wrap_free(void *old);
void __wrap_free(void *old)
{
    num_allocated -= old != NULL;
    __real_free(old);
}

static bool call_fails(const char *name)
{
    if (!failing_call || strcmp(name, failing_call) != 0)
        return false;
    errno = failing_errno;
    return true;
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return call_fails(#name) ? -1 : __real_##name arguments;                                   \
    }

WRAP(ssize_t, getrandom, (void *to, size_t size, unsigned int flags), (to, size, flags))
WRAP(int, epoll_create1, (int flags), (flags))
WRAP(int, eventfd, (unsigned int first, int flags), (first, flags))
WRAP(int, timerfd_create, (int clock, int flags), (clock, flags))
WRAP(int, epoll_ctl, (int fd, int what, int of, struct epoll_event *event), (fd, what, of, event))
WRAP(int, memfd_create, (const char *name, unsigned int flags), (name, flags))
WRAP(int, ftruncate64, (int fd, off_t size), (fd, size))
WRAP(int, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(int, listen, (int fd, int backlog), (fd, backlog))

static char lines[UT_LOG_DEBUG + 1][400]; /* the last one of each level */

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    va_list ap;

    CHECK(strcmp(category, "shm") == 0 || strcmp(category, "process") == 0);
    va_start(ap, fmt);
    vsnprintf(lines[level], sizeof(lines[level]), fmt, ap);
    va_end(ap);
}

static void forget_lines(void)
{
    memset(lines, 0, sizeof(lines));
}

/*
 * Two processes
 */

enum { A, B, SIDES };

static struct side {
    struct prov *prov;
    struct prov_ep *ep;
    struct prov_conn *conn; /* NULL: none */
    bool holds_requests, keeps_down;
    struct prov_conn *requested;
    unsigned int requests, ups, downs, messages, notices, dones, wakes;
    uint8_t hello[PROV_PRIVATE_DATA_MAX], message[PROV_MSG_MAX];
    size_t hello_size, message_size;
    uint32_t imm;
    uint64_t cookie;
    enum prov_status status, statuses[512];
    enum prov_reason reason;
} sides[SIDES];
static struct side *const a = &sides[A], *const b = &sides[B];

static int count_callbacks(const struct side *s)
{
    return (int)(s->requests + s->ups + s->downs + s->messages + s->notices + s->dones);
}

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct side *s = ctx;

    s->statuses[s->dones++ % 512] = status;
    s->cookie = cookie;
    s->status = status;
}

static void on_message(void *ctx, const void *bytes, size_t size)
{
    struct side *s = ctx;

    CHECK(size <= PROV_MSG_MAX);
    memcpy(s->message, bytes, size);
    s->message_size = size;
    s->messages++;
}

static void on_notify(void *ctx, uint32_t imm)
{
    struct side *s = ctx;

    s->notices++;
    s->imm = imm;
}

static void on_request(void *owner, struct prov *prov, struct prov_conn *asking, uint64_t id,
                       const void *hello, size_t size)
{
    struct side *s = owner;

    CHECK(prov == s->prov && id == (uint64_t)(s == a ? B : A) + 1);
    memcpy(s->hello, hello, size);
    s->hello_size = size;
    s->requests++;
    s->requested = asking;
    if (s->holds_requests)
        return;
    s->conn = asking;
    CHECK(ops->accept(asking, "answer", 6, s) == 0);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    struct side *s = ctx;

    memcpy(s->hello, hello, size);
    s->hello_size = size;
    s->ups++;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct side *s = ctx;

    s->downs++;
    s->reason = reason;
    if (s->keeps_down)
        return;
    ops->conn_close(s->conn);
    s->conn = NULL;
}

static void wake(void *owner)
{
    ((struct side *)owner)->wakes++;
}

static const struct prov_callbacks callbacks = {.done = on_done,
                                                .message = on_message,
                                                .notify = on_notify,
                                                .request = on_request,
                                                .up = on_up,
                                                .down = on_down};

static unsigned int local_size = 2;

static int open_prov(struct prov **prov)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = PEER_TIMEOUT_MS, .local_size = local_size};

    return ops->open(&config, prov);
}

static int open_ep(struct side *s, uint64_t id, struct prov_ep **ep)
{
    const struct prov_ep_attr attr = {.id = id, .owner = s, .callbacks = &callbacks, .depth = 16};

    return ops->ep_open(s->prov, &attr, ep);
}

static void open_side(struct side *s)
{
    memset(s, 0, sizeof(*s));
    CHECK(open_prov(&s->prov) == 0 && open_ep(s, (uint64_t)(s - sides) + 1, &s->ep) == 0);
}

static void open_both(void)
{
    open_side(a);
    open_side(b);
}

/* A poll returns the number of its callbacks. */
static void poll_side(struct side *s)
{
    int before = count_callbacks(s);
    int calls = s->ep ? ops->ep_poll(s->ep) : 0;

    CHECK(calls == count_callbacks(s) - before);
}

static void pump(void)
{
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < SIDES; k++) {
            if (sides[k].prov)
                ops->progress(sides[k].prov);
            poll_side(&sides[k]);
        }
}

static void close_side(struct side *s)
{
    if (s->ep)
        ops->ep_close(s->ep);
    ops->close(s->prov);
    s->ep = NULL;
    s->prov = NULL;
    s->conn = NULL;
}

static void close_both(void)
{
    close_side(a);
    close_side(b);
}

static void forget(void)
{
    for (int k = 0; k < SIDES; k++) {
        struct side *s = &sides[k];
        s->requests = s->ups = s->downs = s->messages = s->notices = s->dones = s->wakes = 0;
        s->cookie = s->imm = 0;
        s->status = PROV_OK;
    }
}

static int connect_to(struct side *s, uint64_t id, const char *hello)
{
    uint8_t address[PROV_ADDR_MAX] __attribute__((aligned(8)));
    size_t size = ops->address(sides[s == a].prov, address);

    return ops->connect(s->ep, address, size, 0, id, hello, strlen(hello), s, &s->conn);
}

static void connect_both(void)
{
    CHECK(connect_to(a, B + 1, "hello") == 0);
    pump();
    CHECK(a->conn && b->conn && a->ups == 1 && b->ups == 1 && b->requests == 1);
    forget();
}

static struct sp_conn *conn_of(struct side *s)
{
    return sp_conn_of(s->conn);
}

/*
 * What is left
 */

struct left {
    long allocated;
    unsigned int descriptors, mappings;
};

static struct left count_left(void)
{
    struct left left = {.allocated = num_allocated};
    char buffer[4096];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;)
        for (ssize_t i = 0; i < n; i++)
            left.mappings += buffer[i] == '\n';
    close(fd);
    for (int i = 0; i < 256; i++)
        left.descriptors += fcntl(i, F_GETFD) >= 0;
    return left;
}

/* The heap of the process may have grown once. */
static void leaves_nothing(const char *what, void (*act)(void))
{
    act();
    const struct left before = count_left();
    act();
    act();
    const struct left after = count_left();

    if (after.allocated != before.allocated || after.descriptors != before.descriptors ||
        after.mappings > before.mappings)
        printf("%s: left: %ld blocks, %d descriptors, %d mappings\n", what,
               after.allocated - before.allocated, (int)(after.descriptors - before.descriptors),
               (int)(after.mappings - before.mappings));
    CHECK(after.allocated == before.allocated && after.descriptors == before.descriptors);
    CHECK(after.mappings <= before.mappings);
}

/*
 * Memory, and the three ways to it
 */

enum way { MAPPED, ATTACHED, RINGS, WAYS };
enum { MEMORY = 256 << 10 };

static const char *const way_names[WAYS] = {"mapped", "attached", "rings"};
static uint8_t *shared[SIDES],
    *private;           /* shared memory is not mapped by peers; A has no private */
static uint8_t *target; /* B's memory */
static struct prov_mr *mr_a, *mr_b;
static enum way way;

static void open_way(enum way w)
{
    open_both();
    way = w;
    target = w == MAPPED ? private : shared[B];
    CHECK(ops->reg(a->prov, 0, shared[A], MEMORY, RW, &mr_a) == 0);
    CHECK(ops->reg(b->prov, 0, target, MEMORY, RW, &mr_b) == 0);
    connect_both();
    if (w == RINGS)
        __atomic_store_n(&conn_of(a)->peer->cma, 0, __ATOMIC_RELAXED);
}

static void close_way(void)
{
    if (sides[A].prov)
        ops->dereg(a->prov, mr_a);
    if (sides[B].prov)
        ops->dereg(b->prov, mr_b);
    close_both();
}

static struct prov_xfer make_xfer(size_t lcl, size_t rmt, uint32_t length, unsigned int flags)
{
    return (struct prov_xfer){.lcl = shared[A] + lcl,
                              .rmt = (uintptr_t)target + rmt,
                              .length = length,
                              .lkey = mr_a->lkey,
                              .rkey = mr_b->rkey,
                              .imm = 4711,
                              .flags = flags,
                              .cookie = 42};
}

static void fill(uint8_t *bytes, size_t size, unsigned int seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static const uint32_t lengths[] = {0,    1,    7,    8,    9,    15,   16,   17,    31,
                                   32,   33,   40,   41,   63,   64,   65,   255,   256,
                                   1023, 1024, 1025, 2048, 2049, 4096, 8191, 70000, 131072};

/* Every length arrives whole, with its notice behind it, and nothing beside it changes. */
static void data_arrive(void)
{
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (unsigned int reads = 0; reads < 2; reads++) {
            uint32_t n = lengths[i];
            size_t at = 100 + i % 9;
            uint8_t *to = (reads ? shared[A] : target) + at, *from = reads ? target : shared[A];
            struct prov_xfer x = make_xfer(reads ? at : 64, reads ? 64 : at, n,
                                           reads ? PROV_SIGNAL : PROV_SIGNAL | PROV_NOTIFY);
            memset(to - 8, 0xee, n + 16);
            fill(from + 64, n, (unsigned int)i + 1);
            forget();
            int rc = reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x);
            CHECK(rc >= 0);
            if (way != RINGS)
                CHECK(rc == (PROV_COMPLETE | PROV_SRC_FREE) || n == 0 || !reads);
            pump();
            CHECK(a->dones == ((rc & PROV_COMPLETE) == 0) && (!a->dones || a->cookie == 42));
            CHECK(a->status == PROV_OK && b->notices == !reads && (reads || b->imm == 4711));
            if (memcmp(to, from + 64, n) != 0)
                printf("%s: %u bytes\n", way_names[way], n);
            CHECK(memcmp(to, from + 64, n) == 0);
            for (int k = 1; k <= 8; k++)
                CHECK(to[-k] == 0xee && to[n + (unsigned int)k - 1] == 0xee);
        }
    }
}

/* Writes whose source needs no key, and memory that the core accesses itself. */
static void direct_accesses_are_checked(uint32_t read_only)
{
    struct prov_xfer inlined = make_xfer(0, 0, 8, PROV_INLINE); /* needs no key */
    inlined.lkey = 5;
    CHECK(ops->write(a->conn, &inlined) & PROV_SRC_FREE);
    pump();
    void *at = ops->direct(a->conn, (uintptr_t)target + 8, 8, mr_b->rkey);
    CHECK((at != NULL) == (way == MAPPED));
    CHECK(!ops->direct(a->conn, (uintptr_t)target + MEMORY - 7, 8, mr_b->rkey));
    CHECK(!ops->direct(a->conn, (uintptr_t)target, 8, read_only));
    if (at) {
        memset(at, 0x77, 8);
        CHECK(target[8] == 0x77 && target[15] == 0x77);
    }
}

enum { NONE, LCL_BAD, RMT_BAD, RMT_FORMER, RMT_READ_ONLY, RMT_WRITE_ONLY, LCL_READ_ONLY };
static const struct {
    int key;
    ptrdiff_t lcl, rmt; /* moved by */
    uint32_t length;
    int write, read; /* 0: executed */
} key_cases[] = {{NONE, 0, 0, MEMORY, 0, 0},
                 {NONE, 0, MEMORY - 1, 1, 0, 0},
                 {NONE, MEMORY - 1, 0, 1, 0, 0},
                 {NONE, 0, MEMORY - 7, 8, -EACCES, -EACCES},
                 {NONE, 0, -1, 8, -EACCES, -EACCES},
                 {NONE, 0, 1, MEMORY, -EACCES, -EACCES},
                 {NONE, 0, MEMORY, 1, -EACCES, -EACCES},
                 {NONE, MEMORY - 7, 0, 8, -EPERM, -EPERM},
                 {NONE, -1, 0, 8, -EPERM, -EPERM},
                 {NONE, MEMORY, 0, 1, -EPERM, -EPERM},
                 {NONE, 0, 0, MEMORY + 1, -EPERM, -EPERM},
                 {LCL_BAD, 0, 0, 8, -EPERM, -EPERM},
                 {LCL_BAD, 0, 0, 0, 0, 0},
                 {RMT_BAD, 0, 0, 8, -EACCES, -EACCES},
                 {RMT_BAD, 0, 0, 0, 0, 0},
                 {RMT_FORMER, 0, 0, 8, -EACCES, -EACCES},
                 {RMT_READ_ONLY, 0, 0, 8, -EACCES, 0},
                 {RMT_WRITE_ONLY, 0, 0, 8, 0, -EACCES},
                 {LCL_READ_ONLY, 0, 0, 8, 0, -EPERM}};

/* Which memory an operation may touch. */
static void keys_are_checked(void)
{
    struct prov_mr *former, *read_only, *write_only, *lcl_read_only;

    CHECK(ops->reg(b->prov, 0, target, MEMORY, RW, &former) == 0);
    uint32_t former_key = former->rkey;
    ops->dereg(b->prov, former);
    CHECK(ops->reg(b->prov, 0, target, MEMORY, PROV_ACCESS_READ, &read_only) == 0);
    CHECK(ops->reg(b->prov, 0, target, MEMORY, PROV_ACCESS_WRITE, &write_only) == 0);
    CHECK(ops->reg(a->prov, 0, shared[A], MEMORY, PROV_ACCESS_READ, &lcl_read_only) == 0);
    for (int pass = 0; pass < 2; pass++) { /* with a good one before, which may be remembered */
        for (size_t i = 0; i < sizeof(key_cases) / sizeof(key_cases[0]); i++) {
            for (int reads = 0; reads < 2; reads++) {
                struct prov_xfer x = make_xfer(0, 0, 64, 0);
                int rc = pass ? reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x) : 0;
                CHECK(rc >= 0);
                pump();
                x = make_xfer((size_t)key_cases[i].lcl, (size_t)key_cases[i].rmt,
                              key_cases[i].length, 0);
                x.lkey = key_cases[i].key == LCL_BAD         ? 5
                         : key_cases[i].key == LCL_READ_ONLY ? lcl_read_only->lkey
                                                             : x.lkey;
                x.rkey = key_cases[i].key == RMT_BAD          ? 5
                         : key_cases[i].key == RMT_FORMER     ? former_key
                         : key_cases[i].key == RMT_READ_ONLY  ? read_only->rkey
                         : key_cases[i].key == RMT_WRITE_ONLY ? write_only->rkey
                                                              : x.rkey;
                forget();
                int wanted = reads ? key_cases[i].read : key_cases[i].write;
                rc = reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x);
                if ((rc < 0 ? rc : 0) != wanted)
                    printf("%s %d, %d: %d\n", way_names[way], (int)i, reads, rc);
                CHECK((rc < 0 ? rc : 0) == wanted);
                pump();
                CHECK(a->downs == 0 && b->downs == 0 && a->status == PROV_OK);
                CHECK(a->dones == (wanted == 0 && !(rc & PROV_COMPLETE)));
            }
        }
    }
    direct_accesses_are_checked(read_only->rkey);
    ops->dereg(a->prov, lcl_read_only);
    ops->dereg(b->prov, read_only);
    ops->dereg(b->prov, write_only);
}

static int send_bytes(struct side *s, size_t size, unsigned int flags)
{
    static uint8_t bytes[PROV_MSG_MAX + 1];

    fill(bytes, sizeof(bytes), (unsigned int)size);
    return ops->send(s->conn, bytes, size, flags, size);
}

static void messages_arrive(void)
{
    static const size_t sizes[] = {0, 1, 39, 40, 41, 64, PROV_MSG_MAX - 1, PROV_MSG_MAX};
    uint8_t wanted[PROV_MSG_MAX];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        forget();
        CHECK(send_bytes(a, sizes[i], 0) >= 0);
        pump();
        fill(wanted, sizes[i], (unsigned int)sizes[i]);
        CHECK(b->messages == 1 && b->message_size == sizes[i]);
        CHECK(memcmp(b->message, wanted, sizes[i]) == 0);
    }
    forget_lines();
    CHECK(send_bytes(a, PROV_MSG_MAX + 1, 0) == -EIO);
    CHECK(strcmp(lines[UT_LOG_ERROR], "cannot send a message of 1025 bytes: the limit is 1024") ==
          0);
}

/* A ring takes SP_SLOTS messages, and as many again when they are consumed. */
static void rings_fill_up(void)
{
    for (int lap = 0; lap < 2; lap++) {
        forget();
        for (unsigned int i = 0; i < SP_SLOTS; i++)
            CHECK(send_bytes(a, 8, 0) >= 0);
        CHECK(send_bytes(a, 8, 0) == -EAGAIN);
        struct prov_xfer x = make_xfer(0, 0, 8, PROV_NOTIFY);
        CHECK(ops->write(a->conn, &x) == -EAGAIN);
        x.flags = 0; /* needs no slot */
        CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
        CHECK(b->messages == 0);
        pump();
        CHECK(b->messages == SP_SLOTS && b->notices == 0);
        poll_side(b);
        CHECK(send_bytes(a, 8, 0) >= 0);
        pump();
        CHECK(b->messages == SP_SLOTS + 1);
    }
}

/* Without mapped memory and attach: writes and reads wait for the peer, in order. */
static void queued_operations_have_limits(void)
{
    enum { OPS = 256, READS = 16 };
    struct prov_xfer x = make_xfer(0, 0, 8, 0), r = make_xfer(64, 64, 8, 0);

    forget();
    for (unsigned int i = 0; i < OPS; i++) {
        x.cookie = i;
        CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE);
    }
    CHECK(ops->write(a->conn, &x) == -EAGAIN && ops->read(a->conn, &r) == -EAGAIN);
    CHECK(send_bytes(a, 8, 0) == -EAGAIN && a->dones == 0);
    pump();
    CHECK(a->dones == OPS && a->cookie == OPS - 1);
    forget();
    for (unsigned int i = 0; i < READS; i++)
        CHECK(ops->read(a->conn, &r) == 0);
    CHECK(ops->read(a->conn, &r) == -EAGAIN);
    x.flags = PROV_FENCE; /* waits for the reads */
    CHECK(ops->write(a->conn, &x) == -EAGAIN && send_bytes(a, 8, PROV_FENCE) == -EAGAIN);
    r.flags = PROV_FENCE;
    CHECK(ops->read(a->conn, &r) == -EAGAIN);
    x.flags = r.flags = 0;
    CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE && send_bytes(a, 8, 0) == PROV_SRC_FREE);
    CHECK(a->dones == 0);
    pump();
    CHECK(a->dones == READS + 2 && b->messages == 1 && a->status == PROV_OK);
    x.flags = PROV_FENCE;
    CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE);
    pump();
    forget();
    CHECK(ops->read(a->conn, &r) == 0); /* one is enough */
    CHECK(ops->write(a->conn, &x) == -EAGAIN);
    pump();
    CHECK(a->dones == 1 && ops->write(a->conn, &x) == PROV_SRC_FREE);
    pump();
    /* more than the ring takes: the rest follows */
    struct prov_xfer big =
        make_xfer(0, 0, (SP_SLOTS + 5) * SP_PAYLOAD < MEMORY ? (SP_SLOTS + 5) * SP_PAYLOAD : MEMORY,
                  PROV_NOTIFY);
    for (int i = 0; i < 3; i++) {
        forget();
        fill(shared[A], MEMORY, (unsigned int)i + 9);
        for (unsigned int k = 0; k < SP_SLOTS - 3; k++)
            CHECK(send_bytes(a, 8, 0) >= 0 || k > 250);
        pump();
        forget();
        CHECK(ops->write(a->conn, &big) >= 0);
        CHECK(send_bytes(a, 1, 0) >= 0 || true);
        pump();
        CHECK(b->notices == 1 && memcmp(shared[A], target, big.length) == 0 && a->dones >= 1);
    }
}

/* A region that goes while operations for it are on their way: those before it are done, it has
 * the status, the rest is flushed. */
static void failures_at_the_target(void)
{
    for (int reads = 0; reads < 2; reads++) {
        struct prov_mr *gone;

        open_way(RINGS);
        CHECK(ops->reg(b->prov, 0, target, 64, RW, &gone) == 0);
        struct prov_xfer x = make_xfer(0, 0, 8, 0);
        CHECK(ops->write(a->conn, &x) >= 0);
        x.rkey = gone->rkey;
        CHECK((reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x)) >= 0);
        x.rkey = mr_b->rkey;
        CHECK(ops->write(a->conn, &x) >= 0 && send_bytes(a, 8, 0) >= 0);
        ops->dereg(b->prov, gone);
        pump();
        CHECK(a->downs == 1 && a->reason == PROV_REASON_BROKEN && b->downs == 1);
        CHECK(a->dones == 4 && a->statuses[0] == PROV_OK && a->statuses[1] == PROV_RMT_ACCESS);
        CHECK(a->statuses[2] == PROV_FLUSHED && a->statuses[3] == PROV_FLUSHED);
        CHECK(b->reason == PROV_REASON_BROKEN && b->messages == 0 && !a->conn && !b->conn);
        forget();
        connect_both();
        CHECK(send_bytes(a, 8, 0) >= 0);
        pump();
        CHECK(b->messages == 1);
        close_way();
    }
    struct prov_mr *lcl; /* the region of this side goes while it is read into */
    open_way(RINGS);
    CHECK(ops->reg(a->prov, 0, shared[A], 64, RW, &lcl) == 0);
    struct prov_xfer x = make_xfer(0, 0, 8, 0);
    x.lkey = lcl->lkey;
    memset(shared[A], 0x11, 8);
    memset(target, 0x22, 8);
    CHECK(ops->read(a->conn, &x) == 0);
    ops->dereg(a->prov, lcl);
    pump();
    CHECK(a->dones == 1 && a->status == PROV_LCL_ACCESS && shared[A][0] == 0x11 && a->downs == 0);
    close_way();
}

/* The kernel copies fewer bytes at once than this CPU stores: short writes to memory that is not
 * mapped, but could be, go through the ring. */
static void short_writes_need_the_cpu(void)
{
    static const struct {
        uint32_t store, kernel, rmt, length;
        bool needs;
    } cases[] = {{16, 8, 0, 16, true},   {16, 8, 0, 8, false},  {16, 16, 0, 16, false},
                 {32, 8, 0, 64, true},   {32, 8, 8, 64, false}, {32, 8, 4, 16, false},
                 {32, 16, 32, 32, true}, {8, 8, 0, 16, false}};
    struct prov_atomic_widths before = prov_atomic_widths;

    open_way(ATTACHED);
    struct sp_mr_entry *entry = &sp_prov_of(b->prov)->seg->table.mrs[mr_b->rkey & (SP_MAX_MRS - 1)];
    for (uint32_t may_map = 0; may_map < 2; may_map++) {
        entry->small_writes_need_cpu = may_map;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            prov_atomic_widths.store = (uint8_t)cases[i].store;
            prov_atomic_widths.kernel = (uint8_t)cases[i].kernel;
            struct prov_xfer x = make_xfer(0, cases[i].rmt, cases[i].length, 0);
            forget();
            int rc = ops->write(a->conn, &x);
            CHECK(rc >= 0 && !(rc & PROV_COMPLETE) == (may_map && cases[i].needs));
            pump();
            CHECK(memcmp(target + cases[i].rmt, shared[A], cases[i].length) == 0);
        }
    }
    prov_atomic_widths = before;
    close_way();
}

/* Attach that is forbidden from now on: the rings take over. */
static void attach_may_be_forbidden(void)
{
    open_way(ATTACHED);
    struct prov_xfer x = make_xfer(0, 0, 64, 0);
    CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
    pid_t pid = conn_of(a)->peer->pid;
    conn_of(a)->peer->pid = 0x7fffffff; /* its main thread has ended */
    CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE);
    CHECK(!conn_of(a)->peer->cma);
    conn_of(a)->peer->pid = pid;
    pump();
    CHECK(a->dones == 1 && a->status == PROV_OK);
    close_way();
}

/*
 * Connections
 */

static void hellos_are_exchanged(void)
{
    char most[PROV_PRIVATE_DATA_MAX + 2];
    const char *hellos[] = {"", "x", most};

    memset(most, 'm', sizeof(most));
    most[PROV_PRIVATE_DATA_MAX] = '\0';
    for (size_t i = 0; i < 3; i++) {
        open_both();
        b->holds_requests = true;
        CHECK(connect_to(a, B + 1, hellos[i]) == 0);
        pump();
        CHECK(b->requests == 1 && b->hello_size == strlen(hellos[i]));
        CHECK(memcmp(b->hello, hellos[i], b->hello_size) == 0 && a->ups == 0);
        b->conn = b->requested;
        CHECK(ops->accept(b->conn, most, PROV_PRIVATE_DATA_MAX + 1, b) == -EINVAL);
        CHECK(ops->accept(b->conn, hellos[i], strlen(hellos[i]), b) == 0);
        pump();
        CHECK(a->ups == 1 && b->ups == 1 && a->hello_size == strlen(hellos[i]));
        CHECK(memcmp(a->hello, hellos[i], a->hello_size) == 0);
        CHECK(b->hello_size == strlen(hellos[i]));
        close_both();
    }
    open_both();
    most[PROV_PRIVATE_DATA_MAX] = 'm';
    most[PROV_PRIVATE_DATA_MAX + 1] = '\0';
    CHECK(connect_to(a, B + 1, most) == -EINVAL);
    close_both();
}

/* How requests end that are not accepted. */
static void requests_end(void)
{
    enum { REJECTED, NO_ENDPOINT, CLOSED_HERE, CLOSED_THERE, EP_CLOSED, PROV_CLOSED, KINDS };

    for (int how = REJECTED; how < KINDS; how++) {
        open_both();
        b->holds_requests = true;
        CHECK(connect_to(a, how == NO_ENDPOINT ? 99 : B + 1, "hi") == 0);
        pump();
        CHECK(b->requests == (how != NO_ENDPOINT) && a->ups == 0);
        if (how == REJECTED) {
            ops->reject(b->requested);
        } else if (how == CLOSED_HERE) {
            ops->conn_close(a->conn);
            a->conn = NULL;
            b->conn = b->requested;
            CHECK(ops->accept(b->requested, "", 0, b) == 0);
        } else if (how == CLOSED_THERE) {
            ops->conn_close(b->requested);
        } else if (how == EP_CLOSED) {
            ops->ep_close(b->ep);
            b->ep = NULL;
        } else if (how == PROV_CLOSED) {
            close_side(b);
        }
        pump();
        static const enum prov_reason reasons[KINDS] = {
            PROV_REASON_REJECTED, PROV_REASON_NO_ENDPOINT, 0,
            PROV_REASON_REJECTED, PROV_REASON_NO_ENDPOINT, PROV_REASON_PEER_DEAD};
        if (a->reason != reasons[how])
            printf("%d: reason %d, %u downs\n", how, (int)a->reason, a->downs);
        CHECK(a->downs == (how != CLOSED_HERE) && !a->conn && a->ups == 0);
        CHECK(how == CLOSED_HERE || a->reason == reasons[how] ||
              (how == PROV_CLOSED && a->reason == PROV_REASON_NO_ENDPOINT));
        CHECK(b->downs == (how == CLOSED_HERE) &&
              (how != CLOSED_HERE || b->reason == PROV_REASON_CLOSED));
        CHECK(sp_ep_of(a->ep)->num_conns == 0 && sp_ep_of(a->ep)->num_live == 0);
        if (b->prov) {
            close_both();
        } else {
            close_side(a);
        }
    }
}

/* How connections end, and what becomes of their operations. */
static void connections_end(void)
{
    enum { CLOSED, EP_CLOSED, DEAD, KINDS };

    for (int how = CLOSED; how < KINDS; how++) {
        open_way(RINGS);
        struct prov_xfer x = make_xfer(0, 0, 8, 0);
        CHECK(send_bytes(b, 16, 0) >= 0); /* arrives before the end */
        CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE && ops->read(a->conn, &x) == 0);
        if (how == CLOSED) {
            ops->conn_close(b->conn);
            b->conn = NULL;
        } else if (how == EP_CLOSED) {
            ops->ep_close(b->ep);
            b->ep = NULL;
            CHECK(send_bytes(a, 8, 0) == -ENOTCONN); /* its ring may be another one's */
        } else {
            struct sp_peer *peer;
            LIST_FOREACH (peer, &sp_prov_of(b->prov)->peers, next) {
                ut_fd_close(peer->fd);
                peer->fd = -1;
            }
            ops->progress(a->prov);
            CHECK(send_bytes(a, 8, 0) == -ENOTCONN && ops->write(a->conn, &x) == -ENOTCONN);
        }
        poll_side(a);
        ops->progress(a->prov);
        poll_side(a);
        poll_side(a);
        CHECK(a->messages == 1 && a->message_size == 16);
        CHECK(a->downs == 1 && a->dones == 2 && !a->conn);
        CHECK(a->reason == (how == DEAD ? PROV_REASON_PEER_DEAD : PROV_REASON_CLOSED));
        CHECK(a->statuses[0] == (how == DEAD ? PROV_PEER : PROV_FLUSHED));
        CHECK(a->statuses[1] == PROV_FLUSHED);
        CHECK(sp_ep_of(a->ep)->num_conns == 0 && sp_ep_of(a->ep)->num_live == 0);
        if (how == DEAD)
            ops->conn_close(b->conn);
        close_way();
    }
}

/* A connection that is down refuses operations, and is silent until it is closed. */
static void connections_that_are_down_are_silent(void)
{
    open_way(RINGS);
    a->keeps_down = true;
    ops->conn_close(b->conn);
    b->conn = NULL;
    pump();
    CHECK(a->downs == 1 && a->conn);
    struct prov_xfer x = make_xfer(0, 0, 8, 0);
    CHECK(ops->write(a->conn, &x) == -ENOTCONN && ops->read(a->conn, &x) == -ENOTCONN);
    CHECK(send_bytes(a, 8, 0) == -ENOTCONN);
    CHECK(!ops->direct(a->conn, (uintptr_t)target, 8, mr_b->rkey));
    forget();
    pump();
    CHECK(count_callbacks(a) == 0);
    ops->conn_close(a->conn);
    a->conn = NULL;
    a->keeps_down = false;
    pump();
    CHECK(count_callbacks(b) == 0);
    connect_both();
    close_way();
}

/* Tables of connections grow; each one works, and its id is found alone. */
static void many_connections(void)
{
    enum { MANY = 40 };
    struct prov_conn *here[MANY], *there[MANY];

    open_both();
    for (unsigned int i = 0; i < MANY; i++) {
        CHECK(connect_to(a, B + 1, "hello") == 0);
        pump();
        here[i] = a->conn;
        there[i] = b->conn;
        CHECK(a->ups == i + 1 && b->ups == i + 1);
        struct sp_ep *ep = sp_ep_of(a->ep);
        CHECK(ep->num_conns == i + 1 && ep->conns_size == (i < 16 ? 16 : i < 32 ? 32 : 64));
        uint32_t id = sp_conn_of(here[i])->conn_id;
        CHECK(sp_conn_by_id(ep, id) == sp_conn_of(here[i]));
        CHECK(!sp_conn_by_id(ep, id + (1u << SP_CONN_BITS)) && !sp_conn_by_id(ep, 0x3fff));
    }
    forget();
    for (unsigned int i = 0; i < MANY; i++) {
        a->conn = here[i];
        CHECK(send_bytes(a, i, 0) >= 0);
        pump();
        CHECK(b->messages == i + 1 && b->message_size == i);
    }
    for (unsigned int i = 0; i < MANY; i += 2)
        ops->conn_close(here[i]);
    b->keeps_down = true;
    pump();
    CHECK(b->downs == MANY / 2 && sp_ep_of(a->ep)->num_conns == MANY / 2);
    for (unsigned int i = 0; i < MANY; i += 2)
        ops->conn_close(there[i]);
    pump();
    CHECK(sp_ep_of(b->ep)->num_conns == MANY / 2 && sp_ep_of(b->ep)->num_live == MANY / 2);
    forget();
    a->conn = here[1];
    CHECK(send_bytes(a, 3, 0) >= 0);
    pump();
    CHECK(b->messages == 1);
    b->keeps_down = false;
    a->conn = b->conn = NULL;
    close_both();
}

static void bad_addresses_are_refused(void)
{
    struct sp_address good, bad;
    struct prov_conn *conn;

    open_both();
    CHECK(ops->address(b->prov, &good) == sizeof(good));
    for (int how = 0; how < 4; how++) {
        bad = good;
        bad.version += how == 0;
        bad.host += how == 1;
        forget_lines();
        int rc = ops->connect(a->ep, &bad, sizeof(bad) - (how == 2), 0, B + 1, "", 0, a, &conn);
        CHECK(rc == (how == 1 ? -EHOSTUNREACH : how == 3 ? 0 : -EPROTO));
        CHECK(!!strstr(lines[UT_LOG_ERROR], "is on another host or in another container") ==
              (how == 1));
        if (rc == 0)
            ops->conn_close(conn);
    }
    pump();
    close_both();
}

static void endpoints_have_limits(void)
{
    struct prov_ep *other, *eps[SP_MAX_EPS];

    open_both();
    CHECK(open_ep(a, A + 1, &other) == -EEXIST);
    CHECK(strstr(lines[UT_LOG_ERROR], "cannot open endpoint 0x1: File exists"));
    for (uint64_t i = 1; i < SP_MAX_EPS; i++)
        CHECK(open_ep(a, 1000 + i, &eps[i]) == 0);
    CHECK(open_ep(a, 5000, &other) == -ENOSPC);
    CHECK(strstr(lines[UT_LOG_ERROR], "a process has at most 256; free some with"));
    for (uint64_t i = 1; i < SP_MAX_EPS; i++)
        ops->ep_close(eps[i]);
    CHECK(open_ep(a, 5000, &other) == 0);
    ops->ep_close(other);
    close_both();
}

/*
 * Sleeping
 */

/* Which arrivals wake an owner that sleeps. */
static void owners_are_woken(void)
{
    static const struct {
        enum prov_arm arm;
        unsigned int flags;
        bool wakes;
    } cases[] = {{PROV_ARM_SOLICITED, 0, false},
                 {PROV_ARM_SOLICITED, PROV_SOLICITED, true},
                 {PROV_ARM_ALL, 0, true},
                 {PROV_ARM_ALL, PROV_SOLICITED, true}};

    open_way(MAPPED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int notice = 0; notice < 2; notice++) {
            pump();
            forget();
            CHECK(!ops->ep_arm(b->ep, cases[i].arm));
            struct prov_xfer x = make_xfer(0, 0, 8, PROV_NOTIFY | cases[i].flags);
            CHECK((notice ? ops->write(a->conn, &x) : send_bytes(a, 8, cases[i].flags)) >= 0);
            for (int k = 0; k < 3; k++)
                ops->progress(b->prov);
            CHECK(b->wakes == cases[i].wakes);
            CHECK(ops->ep_arm(b->ep, cases[i].arm)); /* there is something */
            CHECK(sp_ep_of(b->ep)->ring->armed == 0);
            ops->ep_disarm(b->ep);
            pump();
            CHECK(b->messages == !notice && b->notices == (unsigned int)notice);
        }
    }
    CHECK(!ops->ep_arm(b->ep, PROV_ARM_ALL) && sp_ep_of(b->ep)->ring->armed == PROV_ARM_ALL);
    ops->ep_disarm(b->ep);
    CHECK(sp_ep_of(b->ep)->ring->armed == 0);
    sp_ep_of(b->ep)->must_check_peers = 1;
    CHECK(ops->ep_arm(b->ep, PROV_ARM_ALL));
    pump();
    CHECK(!ops->ep_arm(b->ep, PROV_ARM_ALL));
    forget();
    ops->dereg(a->prov, mr_a);
    close_side(a); /* the end of a peer wakes, too */
    for (int k = 0; k < 5; k++)
        ops->progress(b->prov);
    CHECK(b->wakes > 0);
    pump();
    CHECK(b->downs == 1);
    ops->dereg(b->prov, mr_b);
    close_side(b);
}

/* More than half of the ring is full: the sleeper is woken for less important messages, too. */
static void half_full_rings_wake(void)
{
    open_way(MAPPED);
    CHECK(!ops->ep_arm(b->ep, PROV_ARM_SOLICITED));
    for (unsigned int i = 0; i < SP_SLOTS; i++) {
        CHECK(send_bytes(a, 8, 0) >= 0);
        ops->progress(b->prov);
        CHECK(b->wakes == (i >= SP_SLOTS / 2));
    }
    close_way();
}

/*
 * What fails
 */

static void open_and_fail(void)
{
    struct prov *made;
    int rc = open_prov(&made);

    if (rc == 0)
        ops->close(made);
    CHECK((rc != 0) == (failing_call != NULL));
}

static void opening_may_fail(void)
{
    static const struct {
        const char *call;
        int error, rc;
        const char *line;
    } cases[] = {
        {"getrandom", EIO, -EIO, "cannot get random numbers: Input/output error"},
        {"epoll_create1", EMFILE, -EMFILE, "cannot open file descriptors: Too many open files; r"},
        {"eventfd", ENFILE, -ENFILE, "cannot open file descriptors: Too many open files in system"},
        {"timerfd_create", EMFILE, -EMFILE, "cannot open file descriptors: Too many open files"},
        {"epoll_ctl", ENOSPC, -ENOSPC, "cannot open file descriptors: No space"},
        {"ftruncate64", EFBIG, -EFBIG, "cannot make a shared memory segment"},
        {"memfd_create", EMFILE, -EMFILE, "cannot make a shared memory segment"},
        {"bind", EADDRINUSE, -EADDRINUSE, "Address already in use"},
        {"listen", EADDRINUSE, -EADDRINUSE, "Address already in use"}};
    struct prov *made;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        failing_call = cases[i].call;
        failing_errno = cases[i].error;
        forget_lines();
        int rc = open_prov(&made);
        if (rc != cases[i].rc || !strstr(lines[UT_LOG_ERROR], cases[i].line))
            printf("%s: %d, %s\n", cases[i].call, rc, lines[UT_LOG_ERROR]);
        CHECK(rc == cases[i].rc && strstr(lines[UT_LOG_ERROR], cases[i].line));
        leaves_nothing(cases[i].call, open_and_fail);
        failing_call = NULL;
        open_and_fail();
    }
}

static int next_allocation;

static void open_without_memory(void)
{
    struct prov *made;
    struct prov_ep *ep;

    allocations_left = next_allocation;
    int rc = open_prov(&made);
    if (rc == 0) {
        struct side s = {.prov = made};
        rc = open_ep(&s, 1, &ep);
        allocations_left = -1;
        if (rc == 0)
            ops->ep_close(ep);
        ops->close(made);
    }
    CHECK(rc == 0 || rc == -ENOMEM);
    allocations_left = -1;
}

/* Each allocation of a first contact fails in turn: the connection comes up all the same, later,
 * or an end is told; and nothing is left. */
static void contact_without_memory(void)
{
    open_both();
    allocations_left = next_allocation;
    int rc = connect_to(a, B + 1, "hello");
    CHECK(rc == 0 || rc == -ENOMEM);
    if (rc != 0)
        a->conn = NULL;
    for (int i = 0; i < 20; i++) {
        pump();
        fake_clock_pass_ms(1000);
    }
    bool has_failed = allocations_left == -1;
    allocations_left = -1;
    CHECK(rc != 0 || a->ups == 1 || a->downs == 1);
    CHECK(a->ups == (a->conn != NULL) && b->ups == (b->conn != NULL));
    CHECK(has_failed || (a->ups == 1 && b->ups == 1));
    if (!a->conn) { /* now there is memory */
        forget();
        connect_both();
    }
    CHECK(send_bytes(a, 8, 0) >= 0);
    pump();
    CHECK(b->messages == 1);
    close_both();
}

static void memory_may_be_short(void)
{
    for (next_allocation = 0; next_allocation < 8; next_allocation++)
        leaves_nothing("opening", open_without_memory);
    for (next_allocation = 0; next_allocation < 16; next_allocation++)
        leaves_nothing("contact", contact_without_memory);
}

/* An operation that needs a queue for which there is no memory. */
static void queues_may_lack_memory(void)
{
    for (int reads = 0; reads < 2; reads++) {
        open_way(RINGS);
        struct prov_xfer x = make_xfer(0, 0, 8, 0);
        allocations_left = 0;
        forget_lines();
        CHECK((reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x)) == -EIO);
        CHECK(allocations_left == -1 && strstr(lines[UT_LOG_ERROR], "no memory for a queue"));
        CHECK((reads ? ops->read(a->conn, &x) : ops->write(a->conn, &x)) >= 0);
        pump();
        CHECK(a->dones == 1 && a->status == PROV_OK);
        close_way();
    }
    open_way(RINGS); /* at the target of a read */
    struct prov_xfer x = make_xfer(0, 0, 8, 0);
    CHECK(ops->read(a->conn, &x) == 0);
    allocations_left = 0;
    poll_side(b);
    CHECK(allocations_left == -1 && b->downs == 1 && b->reason == PROV_REASON_BROKEN);
    pump();
    CHECK(a->downs == 1 && a->dones == 1 && a->status == PROV_FAILED);
    close_way();
}

static void live_once(void)
{
    open_way(RINGS);
    struct prov_xfer x = make_xfer(0, 0, 5000, PROV_NOTIFY);
    CHECK(ops->write(a->conn, &x) >= 0 && ops->read(a->conn, &x) >= 0);
    CHECK(send_bytes(a, 100, 0) >= 0 && send_bytes(b, 100, 0) >= 0);
    pump();
    CHECK(a->messages == 1 && b->messages == 1 && b->notices == 1);
    b->holds_requests = true;
    struct prov_conn *first = a->conn;
    CHECK(connect_to(a, B + 1, "again") == 0);
    pump();
    a->conn = first;
    close_way();
}

static void live_mapped(void)
{
    open_way(MAPPED);
    struct prov_xfer x = make_xfer(0, 0, 5000, PROV_NOTIFY);
    CHECK(ops->write(a->conn, &x) >= 0 && ops->read(a->conn, &x) >= 0);
    pump();
    close_way();
}

/* A region that begins and ends within a page: its ends are copied by the kernel, the whole pages
 * are mapped. */
static void regions_need_not_be_whole_pages(void)
{
    enum { HEAD = 100, SIZE = 5 * 4096 };
    static const struct {
        size_t at, length;
        bool mapped;
    } cases[] = {
        {0, 8, false},         {0, 3996, false}, {3996, 8, true},          {3996, 4 * 4096, true},
        {0, SIZE, false},      {3995, 2, false}, {SIZE - 100, 100, false}, {4096, 4096, true},
        {SIZE - 101, 2, false}};
    struct prov_mr *odd;

    open_way(MAPPED);
    CHECK(ops->reg(b->prov, 0, private + HEAD, SIZE, RW, &odd) == 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct prov_xfer x =
            make_xfer(0, HEAD + cases[i].at, (uint32_t)cases[i].length, PROV_NOTIFY);
        x.rkey = odd->rkey;
        fill(shared[A], cases[i].length, (unsigned int)i + 3);
        memset(private + HEAD - 8, 0xee, SIZE + 16);
        forget();
        CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
        CHECK(memcmp(private + HEAD + cases[i].at, shared[A], cases[i].length) == 0);
        CHECK(private[HEAD + cases[i].at - 1] == 0xee);
        CHECK(private[HEAD + cases[i].at + cases[i].length] == 0xee);
        CHECK((ops->direct(a->conn, x.rmt, x.length, x.rkey) != NULL) == cases[i].mapped);
        memset(shared[A], 0, cases[i].length);
        CHECK(ops->read(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
        CHECK(memcmp(private + HEAD + cases[i].at, shared[A], cases[i].length) == 0);
        pump();
        CHECK(b->notices == 1);
    }
    const struct sp_mr_entry *entry =
        sp_mr_entry_of(sp_prov_of(b->prov)->seg->table.mrs, odd->rkey);
    CHECK(entry->base == (uintptr_t) private + HEAD && entry->size == SIZE);
    CHECK(entry->small_writes_need_cpu == 1);
    ops->dereg(b->prov, odd);
    for (unsigned int access = PROV_ACCESS_READ; access <= PROV_ACCESS_WRITE;
         access += PROV_ACCESS_WRITE - PROV_ACCESS_READ) { /* not mapped */
        CHECK(ops->reg(b->prov, 0, private, MEMORY, access, &odd) == 0);
        entry = sp_mr_entry_of(sp_prov_of(b->prov)->seg->table.mrs, odd->rkey);
        CHECK(entry->small_writes_need_cpu == 0 && entry->ranges[0] == 0);
        ops->dereg(b->prov, odd);
    }
    close_way();
}

/* Windows of 256 MiB: at the limit the one that was not used for longest goes; one may stay. */
static void windows_have_a_limit(void)
{
    enum { NUM = 3 };
    static const uint64_t window = 256ull << 20;
    uint8_t *far[NUM];
    struct prov_mr *mrs[NUM];

    open_way(MAPPED);
    uint8_t *all = mmap(NULL, 4 * window, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(all != MAP_FAILED);
    uint8_t *first = (uint8_t *)(((uintptr_t)all + window - 1) & ~(window - 1));
    for (size_t i = 0; i < NUM; i++) { /* the second one is in two windows */
        far[i] = first + i * window + (i == 1 ? 0 : 1 << 20);
        if (i == 1)
            far[i] = first + window + (1 << 20);
        CHECK(ops->reg(b->prov, 0, far[i], 65536, RW, &mrs[i]) == 0);
    }
    struct sp_prov *prov = sp_prov_of(a->prov);
    for (uint64_t limit = 0; limit <= 3; limit++) {
        prov->max_mapped_bytes = limit * window;
        for (unsigned int k = 0; k < 7; k++) {
            size_t i = k % NUM;
            struct prov_xfer x = {.lcl = shared[A],
                                  .lkey = mr_a->lkey,
                                  .rmt = (uintptr_t)far[i] + 64,
                                  .rkey = mrs[i]->rkey,
                                  .length = 4096};
            fill(shared[A], 4096, k + 1);
            CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
            CHECK(memcmp(far[i] + 64, shared[A], 4096) == 0);
            CHECK(prov->mapped_bytes <= (limit ? limit : 1) * window);
            CHECK(ops->direct(a->conn, x.rmt, 8, x.rkey) != NULL);
        }
    }
    CHECK(prov->mapped_bytes == 3 * window);
    for (size_t i = 0; i < NUM; i++)
        ops->dereg(b->prov, mrs[i]);
    close_way();
    munmap(all, 4 * window);
}

/* Memory across two windows, and more than a block, which is read ahead. */
static void transfers_cross_windows(void)
{
    static const uint64_t window = 256ull << 20;
    const uint32_t size = 6 << 20;
    struct prov_mr *far, *lcl;

    open_way(MAPPED);
    uint8_t *all = mmap(NULL, 2 * window, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *from = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t *at = (uint8_t *)(((uintptr_t)all + window - 1) & ~(window - 1)) - size / 2;
    if (at < all)
        at += window;
    CHECK(ops->reg(b->prov, 0, at, size, RW, &far) == 0);
    CHECK(ops->reg(a->prov, 0, from, size, RW, &lcl) == 0);
    struct prov_xfer x = {
        .lcl = from, .lkey = lcl->lkey, .rmt = (uintptr_t)at, .rkey = far->rkey, .length = size};
    for (uint32_t i = 0; i < size; i += 8)
        *(uint64_t *)(void *)(from + i) = i * UINT64_C(0x9e3779b97f4a7c15);
    CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
    CHECK(memcmp(at, from, size) == 0);
    CHECK(!ops->direct(a->conn, (uintptr_t)at + size / 2 - 8, 16, far->rkey)); /* in both */
    CHECK(ops->direct(a->conn, (uintptr_t)at + size / 2 - 8, 8, far->rkey));
    memset(from, 0, size);
    CHECK(ops->read(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
    CHECK(memcmp(at, from, size) == 0);
    ops->dereg(a->prov, lcl);
    ops->dereg(b->prov, far);
    close_way();
    munmap(all, 2 * window);
    munmap(from, size);
}

/*
 * What other processes may write into the ring
 */

/* The ring fills up between the check for a notice and the notice, or its tail lags: the notice
 * follows all the same, behind its data. */
static void notices_follow_their_data(void)
{
    for (int memory = 0; memory < 2; memory++) {
        open_way(MAPPED);
        struct prov_xfer x = make_xfer(0, 0, 8, 0);
        CHECK(ops->write(a->conn, &x) & PROV_COMPLETE); /* its memory is mapped now */
        x.flags = PROV_NOTIFY;
        for (unsigned int i = 0; i < SP_SLOTS; i++)
            CHECK(send_bytes(a, 8, 0) >= 0);
        conn_of(a)->ring_free_until = UINT64_MAX; /* there was room when it was checked */
        memset(shared[A], 0x33, 8);
        memset(target, 0, 8);
        allocations_left = memory ? -1 : 0;
        forget_lines();
        x.cookie = 43;
        CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE && target[0] == 0x33);
        CHECK(allocations_left == -1);
        pump();
        CHECK(b->messages == SP_SLOTS && b->notices == (unsigned int)memory);
        CHECK(memory ? a->dones == 1 && a->cookie == 43 && a->downs == 0
                     : a->downs == 1 && a->reason == PROV_REASON_LOCAL);
        CHECK(memory || strstr(lines[UT_LOG_ERROR], "no memory for a queue of operations"));
        close_way();
    }
    open_way(MAPPED);
    for (int i = 0; i < 3; i++) { /* the tail is one behind: its producer was killed */
        struct prov_xfer x = make_xfer(0, 0, 8, PROV_NOTIFY);
        forget();
        CHECK(send_bytes(a, 8, 0) >= 0);
        conn_of(a)->ring->tail--;
        CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
        pump();
        CHECK(b->messages == 1 && b->notices == 1 && b->imm == 4711);
    }
    close_way();
}

/* A slot whose producer has died is skipped; one whose producer lives is waited for. */
static void claimed_slots_are_waited_for(void)
{
    for (int dead = 0; dead < 2; dead++) {
        open_way(MAPPED);
        struct sp_conn *c = conn_of(a);
        uint64_t pos;
        uint32_t id = dead ? 4711 : c->peer->id_in_peer_rings;
        struct sp_slot *slot = sp_ring_claim(c->ring, id, &pos);
        CHECK(slot && send_bytes(a, 8, 0) >= 0);
        pump();
        CHECK(b->messages == 0); /* nobody has died */
        sp_prov_of(b->prov)->deaths = 1;
        pump();
        CHECK(b->messages == (unsigned int)dead);
        if (!dead) {
            slot->conn = c->rmt_conn_id;
            slot->kind = SP_KIND_MESSAGE;
            slot->size = 1;
            slot->flags = 0;
            sp_ring_publish(c->ring, slot, pos, id);
            pump();
            CHECK(b->messages == 2);
        }
        close_way();
    }
}

/* A poll handles so many slots. */
static void polls_have_a_limit(void)
{
    enum { ALL = 400, BUDGET = 64 };

    open_way(MAPPED);
    for (unsigned int i = 0; i < ALL; i++)
        CHECK(send_bytes(a, 8, 0) >= 0);
    for (unsigned int before = 0; before < ALL; before = b->messages) {
        poll_side(b);
        CHECK(b->messages == (before + BUDGET < ALL ? before + BUDGET : ALL));
    }
    close_way();
}

/* Both directions, and several connections, have one peer; a window that another connection loses
 * is not used any more. */
static void connections_share_their_peer(void)
{
    static const uint64_t window = 256ull << 20;
    struct prov_mr *far;

    open_way(MAPPED);
    struct prov_conn *one = a->conn;
    CHECK(connect_to(a, B + 1, "again") == 0);
    pump();
    struct prov_conn *two = a->conn, *accepted = b->conn;
    a->holds_requests = true;
    CHECK(connect_to(b, A + 1, "back") == 0);
    pump();
    CHECK(a->requests == 1);
    for (int k = 0; k < SIDES; k++) {
        struct sp_peer *peer = LIST_FIRST(&sp_prov_of(sides[k].prov)->peers);
        CHECK(peer && !LIST_NEXT(peer, next));
        CHECK(sp_ep_of(sides[k].ep)->num_conns == 3);
    }
    uint8_t *all = mmap(NULL, 3 * window, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *at = (uint8_t *)(((uintptr_t)all + window - 1) & ~(window - 1)) + (1 << 20);
    CHECK(ops->reg(b->prov, 0, at, 65536, RW, &far) == 0);
    sp_prov_of(a->prov)->max_mapped_bytes = window;
    struct prov_xfer x = make_xfer(0, 0, 8, 0);
    for (int i = 0; i < 4; i++) {
        a->conn = i % 2 ? two : one;
        x.rmt = i % 2 ? (uintptr_t)at : (uintptr_t)target;
        x.rkey = i % 2 ? far->rkey : mr_b->rkey;
        memset(shared[A], 0x40 + i, 8);
        CHECK(ops->write(a->conn, &x) == (PROV_COMPLETE | PROV_SRC_FREE));
        CHECK(*(uint8_t *)(uintptr_t)x.rmt == 0x40 + i);
        CHECK(ops->mapping(a->conn)->size > 0 && ops->mapping(a->conn)->key == x.rkey);
        CHECK(i == 0 || ops->mapping(i % 2 ? one : two)->size == 0);
        CHECK(sp_prov_of(a->prov)->mapped_bytes == window);
    }
    a->conn = one;
    b->conn = accepted;
    ops->dereg(b->prov, far);
    close_way();
    munmap(all, 3 * window);
}

/* What the peer has executed before it closes is done well. */
static void executed_operations_are_done(void)
{
    open_way(RINGS);
    struct prov_xfer x = make_xfer(0, 0, 8, 0);
    CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE && ops->write(a->conn, &x) == PROV_SRC_FREE);
    poll_side(b);
    CHECK(ops->write(a->conn, &x) == PROV_SRC_FREE);
    ops->conn_close(b->conn);
    b->conn = NULL;
    sp_conn_deactivate(conn_of(a)); /* so that its CLOSE is looked at first */
    poll_side(a);
    CHECK(a->dones == 3 && a->downs == 1);
    CHECK(a->statuses[0] == PROV_OK && a->statuses[1] == PROV_OK && a->statuses[2] == PROV_FLUSHED);
    close_way();
}

/* Data for a read that are more than was asked for, or come twice, are ignored. */
static void bad_data_of_reads_are_ignored(void)
{
    static const struct {
        uint16_t size;
        uint64_t offset;
        bool stored;
    } cases[] = {{8, 0, true}, {9, 0, false}, {16, 0, false}, {8, 8, false}, {4, 4, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_way(RINGS);
        struct prov_xfer x = make_xfer(0, 0, 8, 0);
        CHECK(ops->read(a->conn, &x) == 0);
        memset(shared[A], 0xee, 64);
        struct sp_conn *c = conn_of(b);
        uint64_t pos;
        struct sp_slot *slot = sp_ring_claim(c->ring, c->peer->id_in_peer_rings, &pos);
        CHECK(slot);
        slot->conn = c->rmt_conn_id;
        slot->kind = SP_KIND_DATA;
        slot->flags = SP_SLOT_LAST;
        slot->size = cases[i].size;
        slot->extra = 1; /* the first operation */
        slot->chunk.addr = cases[i].offset;
        memset(slot->chunk.bytes, 0x11, sizeof(slot->chunk.bytes));
        sp_ring_publish(c->ring, slot, pos, c->peer->id_in_peer_rings);
        poll_side(a);
        for (size_t k = 0; k < 64; k++)
            CHECK(shared[A][k] == (cases[i].stored && k < 8 ? 0x11 : 0xee));
        close_way();
    }
}

/* The program has closed the descriptors: connections to other processes go down. */
static void connections_end_without_descriptors(void)
{
    open_way(MAPPED);
    CHECK(!ops->ep_arm(a->ep, PROV_ARM_SOLICITED));
    close(sp_prov_of(a->prov)->epoll_fd);
    forget_lines();
    CHECK(ops->progress(a->prov) == 10 && a->wakes == 1); /* ms: it is polled from now on */
    poll_side(a);
    CHECK(a->downs == 1 && a->reason == PROV_REASON_LOCAL && !a->conn);
    CHECK(connect_to(a, B + 1, "again") == 0);
    poll_side(a);
    CHECK(a->downs == 2 && a->reason == PROV_REASON_LOCAL);
    close_way();
}

/* Alone on its host a process maps nothing. */
static void lonely_processes_map_nothing(void)
{
    struct prov_mr *some;

    for (local_size = 0; local_size <= 2; local_size++) {
        open_side(a);
        CHECK(ops->reg(a->prov, 0, private, MEMORY, RW, &some) == 0);
        const struct sp_mr_entry *entry =
            sp_mr_entry_of(sp_prov_of(a->prov)->seg->table.mrs, some->rkey);
        CHECK(entry->small_writes_need_cpu == (local_size != 1));
        CHECK((entry->ranges[0] != 0) == (local_size != 1));
        CHECK(sp_prov_of(a->prov)->max_mapped_bytes == ut_env_num(UT_ENV_SHM_MAP_LIMIT) << 20);
        ops->dereg(a->prov, some);
        close_side(a);
    }
    local_size = 2;
}

/* A slot with nonsense breaks its connection, or is ignored; nothing is written behind memory. */
static void bad_slots_do_no_harm(void)
{
    static const struct {
        const char *what;
        uint8_t kind, flags;
        uint16_t size;
        size_t at;
        bool breaks;
        uint32_t status;
    } cases[] = {
        {"a whole chunk", SP_KIND_WRITE, SP_SLOT_LAST, 32, 0, false, 0},
        {"too long a chunk", SP_KIND_WRITE, SP_SLOT_LAST, 33, 0, true, PROV_FAILED},
        {"a large chunk", SP_KIND_WRITE, SP_SLOT_LAST | SP_SLOT_BIG, SP_PAYLOAD, 0, false, 0},
        {"too large a chunk", SP_KIND_WRITE, SP_SLOT_LAST | SP_SLOT_BIG, SP_PAYLOAD + 1, 0, true,
         PROV_FAILED},
        {"at the end", SP_KIND_WRITE, SP_SLOT_LAST, 8, MEMORY - 8, false, 0},
        {"behind it", SP_KIND_WRITE, SP_SLOT_LAST, 8, MEMORY - 7, true, PROV_RMT_ACCESS},
        {"nothing", SP_KIND_WRITE, SP_SLOT_LAST, 0, MEMORY, false, 0},
        {"data nobody asked for", SP_KIND_DATA, SP_SLOT_LAST, 8, 0, false, 0},
        {"too long a message", SP_KIND_MESSAGE, SP_SLOT_BIG, SP_PAYLOAD + 9, 0, false, 0},
        {"an unknown kind", 99, 0, 8, 0, false, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_way(RINGS);
        struct sp_conn *c = conn_of(a);
        uint64_t pos;
        struct sp_slot *slot = sp_ring_claim(c->ring, c->peer->id_in_peer_rings, &pos);
        CHECK(slot);
        memset(target, 0xee, MEMORY);
        slot->conn = c->rmt_conn_id;
        slot->kind = cases[i].kind;
        slot->flags = cases[i].flags;
        slot->size = cases[i].size;
        slot->extra = mr_b->rkey;
        slot->imm = 5;
        slot->chunk.addr = (uintptr_t)target + cases[i].at;
        sp_ring_publish(c->ring, slot, pos, c->peer->id_in_peer_rings);
        pump();
        if (b->downs != cases[i].breaks)
            printf("%s\n", cases[i].what);
        CHECK(b->downs == cases[i].breaks && a->downs == cases[i].breaks);
        CHECK(!b->downs || b->reason == PROV_REASON_BROKEN);
        CHECK(b->messages == (cases[i].kind == SP_KIND_MESSAGE));
        CHECK(!b->messages || b->message_size == PROV_MSG_MAX);
        size_t n = cases[i].breaks || cases[i].kind != SP_KIND_WRITE ? 0 : cases[i].size;
        for (size_t k = 0; k < MEMORY; k += k + 64 < cases[i].at ? 61 : 1)
            if (k < cases[i].at || k >= cases[i].at + n)
                CHECK(target[k] == 0xee);
        close_way();
    }
}

/* Keys come again only after many others. */
static void keys_are_not_used_again_soon(void)
{
    enum { QUEUE = 256 };
    struct prov_mr *mr;

    open_both();
    struct sp_prov *prov = sp_prov_of(a->prov);
    for (uint32_t i = 0; i < QUEUE; i++) {
        CHECK(ops->reg(a->prov, 0, shared[A], 64, RW, &mr) == 0);
        CHECK((mr->rkey & (SP_MAX_MRS - 1)) == i && prov->mrs_high_water == i + 1);
        CHECK(mr->lkey == mr->rkey && mr->rkey >> SP_MR_BITS != 0);
        ops->dereg(a->prov, mr);
        CHECK(prov->num_free_mrs == i + 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(ops->reg(a->prov, 0, shared[A], 64, RW, &mr) == 0);
        CHECK((mr->rkey & (SP_MAX_MRS - 1)) == i && prov->mrs_high_water == QUEUE);
        CHECK(prov->num_free_mrs == QUEUE - 1 && mr->rkey >> SP_MR_BITS == 2);
        ops->dereg(a->prov, mr);
    }
    uint8_t *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(gone + 4096, 4096) == 0);
    CHECK(ops->reg(a->prov, 0, gone, 8192, RW, &mr) == -EFAULT && prov->num_free_mrs == QUEUE);
    CHECK(mprotect(gone, 4096, PROT_READ) == 0);
    CHECK(ops->reg(a->prov, 0, gone, 4096, RW, &mr) == -EFAULT);
    CHECK(ops->reg(a->prov, 0, gone, 4096, PROV_ACCESS_READ, &mr) == 0);
    ops->dereg(a->prov, mr);
    munmap(gone, 4096);
    close_both();
}

/* What a key allows ends where the region does: also for what begins behind it, or before it. */
static void regions_end_at_their_last_byte(void)
{
    enum { SIZE = 64 };
    const uint64_t at = (uintptr_t)shared[A];
    const struct {
        uint64_t begin, length;
        bool allowed;
    } cases[] = {{at, SIZE, true},          {at, SIZE + 1, false},
                 {at, UINT64_MAX, false},   {at + 1, SIZE - 1, true},
                 {at + 1, SIZE, false},     {at + SIZE, 0, true},
                 {at + SIZE, 1, false},     {at + SIZE + 1, 0, false},
                 {at + SIZE + 1, 1, false}, {at + SIZE + 1, UINT64_MAX, false},
                 {at - 1, 0, false},        {at - 1, 1, false},
                 {at - 1, SIZE, false},     {0, 0, false},
                 {UINT64_MAX, 1, false}};
    struct prov_mr *mr;

    open_both();
    CHECK(ops->reg(a->prov, 0, shared[A], SIZE, RW, &mr) == 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(sp_mr_allows(sp_prov_of(a->prov)->seg->table.mrs, mr->rkey, cases[i].begin,
                           cases[i].length, RW) == cases[i].allowed);
    ops->dereg(a->prov, mr);
    close_both();
}

static void capabilities(void)
{
    struct prov_caps caps;

    open_both();
    ops->caps(a->prov, 0, &caps);
    CHECK(caps.max_inline == PROV_MSG_MAX && caps.max_message == PROV_MSG_MAX);
    CHECK(caps.max_xfer == UINT32_MAX && caps.line == PROV_TOFU_LINE && !caps.atomic_ops);
    CHECK(strcmp(caps.device, "shared memory, mapped, cross-memory attach") == 0);
    CHECK(ops->device(a->prov, 3) == 0 && ops->fd(a->prov) == sp_prov_of(a->prov)->epoll_fd);
    close_both();
}

int main(void)
{
    prov_detect_atomic_widths();
    prov_atomic_widths.store = prov_atomic_widths.kernel = PROV_WORD;
    for (int k = 0; k < SIDES; k++)
        shared[k] = (uint8_t *)mmap(NULL, MEMORY + 8192, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0) +
                    4096;
    private = (uint8_t *)mmap(NULL, MEMORY + 8192, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) +
              4096;
    capabilities();
    for (enum way w = MAPPED; w < WAYS; w++) {
        open_way(w);
        data_arrive();
        keys_are_checked();
        messages_arrive();
        close_way();
    }
    open_way(MAPPED);
    rings_fill_up();
    close_way();
    open_way(RINGS);
    queued_operations_have_limits();
    close_way();
    failures_at_the_target();
    short_writes_need_the_cpu();
    attach_may_be_forbidden();
    hellos_are_exchanged();
    requests_end();
    connections_end();
    connections_that_are_down_are_silent();
    many_connections();
    bad_addresses_are_refused();
    endpoints_have_limits();
    owners_are_woken();
    half_full_rings_wake();
    keys_are_not_used_again_soon();
    regions_end_at_their_last_byte();
    regions_need_not_be_whole_pages();
    windows_have_a_limit();
    transfers_cross_windows();
    bad_slots_do_no_harm();
    notices_follow_their_data();
    claimed_slots_are_waited_for();
    polls_have_a_limit();
    connections_share_their_peer();
    executed_operations_are_done();
    lonely_processes_map_nothing();
    connections_end_without_descriptors();
    bad_data_of_reads_are_ignored();
    opening_may_fail();
    memory_may_be_short();
    queues_may_lack_memory();
    leaves_nothing("a life", live_once);
    leaves_nothing("a mapped life", live_mapped);
    return 0;
}
