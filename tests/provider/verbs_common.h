/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of the tests of the verbs provider: a process with its background thread, and endpoints
 * whose callbacks count. Two processes are made by fork() before either opens the provider; they
 * share one page.
 */
#ifndef VERBS_COMMON_H
#define VERBS_COMMON_H

#include "provider.h"
#include "providers.h"
#include "util/env.h"
#include "util/log.h"

#include "tune.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: [%d] not true: %s\n", __FILE__, __LINE__, (int)getpid(),       \
                    #cond);                                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { VT_TIMEOUT_S = 60, VT_SKIP = 77, VT_LOG = 64 };

/* Waits until `cond` holds, polling the endpoint. */
#define WAIT_UNTIL(cond, poll)                                                                     \
    do {                                                                                           \
        double end_ = vt_now() + VT_TIMEOUT_S;                                                     \
        unsigned int idle_ = 0;                                                                    \
        while (!(cond)) {                                                                          \
            if (!(poll) && ++idle_ > 50) {                                                         \
                sched_yield();                                                                     \
                if (vt_now() > end_) {                                                             \
                    fprintf(stderr, "%s:%d: [%d] gave up waiting for %s\n", __FILE__, __LINE__,    \
                            (int)getpid(), #cond);                                                 \
                    exit(1);                                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    } while (0)
/* State that callbacks change, under the lock: the node's thread may be polling, too. */
#define VT_LOCKED(tep, expression)                                                                 \
    ({                                                                                             \
        pthread_mutex_lock(&(tep)->lock);                                                          \
        __typeof__(expression) value_ = (expression);                                              \
        pthread_mutex_unlock(&(tep)->lock);                                                        \
        value_;                                                                                    \
    })
#define WAIT_FOR(tep, cond) WAIT_UNTIL(VT_LOCKED(tep, cond), vt_poll(tep))

static inline double vt_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct vt_ep;

/* A connection of a test. */
struct vt_conn {
    struct vt_ep *ep;
    struct prov_conn *conn;
    bool up, down;
    enum prov_reason reason;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
    size_t hello_size;
    uint64_t done, ok; /* how many ended; how many with PROV_OK */
    struct {
        uint64_t cookie;
        enum prov_status status;
    } log[VT_LOG]; /* status of the first operations */
    uint64_t messages, notifies;
    uint64_t last_imm;
    uint8_t last[PROV_MSG_MAX];
    size_t last_size;
};

struct vt_node {
    struct prov *prov;
    struct prov_caps caps;
    pthread_t thread;
    bool stop, polls;     /* the thread polls endpoints that are woken */
    pthread_mutex_t lock; /* of the list; held while the thread polls an endpoint */
    struct vt_ep *eps[16];
    int num_eps;
    uint64_t wakes, progresses;
};

struct vt_ep {
    struct vt_node *node;
    struct prov_ep *ep;
    pthread_mutex_t lock;
    int woken;
    struct vt_conn *accepted[1024]; /* in order of request */
    int num_accepted;
    bool refuse; /* rejects every request */
    bool silent; /* answers no request */
    int num_requests;
    uint64_t peer_id; /* of the last request */
};

static void vt_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct vt_conn *c = ctx;

    CHECK(!c->down);
    if (c->done < VT_LOG) {
        c->log[c->done].cookie = cookie;
        c->log[c->done].status = status;
    }
    c->done++;
    c->ok += status == PROV_OK;
}

static void vt_message(void *ctx, const void *data, size_t size)
{
    struct vt_conn *c = ctx;

    CHECK(c->up && !c->down && ((uintptr_t)data & 7) == 0);
    memcpy(c->last, data, size);
    c->last_size = size;
    c->messages++;
}

static void vt_notify(void *ctx, uint32_t imm)
{
    struct vt_conn *c = ctx;

    CHECK(c->up && !c->down);
    c->last_imm = imm;
    c->notifies++;
}

static void vt_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t hello_size)
{
    struct vt_ep *ep = owner;

    CHECK(prov == ep->node->prov);
    ep->peer_id = peer_id;
    ep->num_requests++;
    if (ep->silent)
        return;
    if (ep->refuse) {
        ep->node->prov->ops->reject(conn);
        return;
    }
    struct vt_conn *c = calloc(1, sizeof(*c));
    CHECK(c);
    c->ep = ep;
    c->conn = conn;
    memcpy(c->hello, hello, hello_size);
    c->hello_size = hello_size;
    CHECK(ep->num_accepted < 1024);
    ep->accepted[ep->num_accepted++] = c;
    CHECK(ep->node->prov->ops->accept(conn, "welcome", 7, c) == 0);
}

static void vt_up(void *ctx, const void *hello, size_t hello_size)
{
    struct vt_conn *c = ctx;

    CHECK(!c->up && !c->down);
    memcpy(c->hello, hello, hello_size);
    c->hello_size = hello_size;
    c->up = true;
}

static void vt_down(void *ctx, enum prov_reason reason)
{
    struct vt_conn *c = ctx;

    CHECK(!c->down);
    c->down = true;
    c->reason = reason;
}

static const struct prov_callbacks vt_callbacks = {
    .done = vt_done,
    .message = vt_message,
    .notify = vt_notify,
    .request = vt_request,
    .up = vt_up,
    .down = vt_down,
};

static inline int vt_poll(struct vt_ep *ep)
{
    pthread_mutex_lock(&ep->lock);
    int n = ep->node->prov->ops->ep_poll(ep->ep);
    pthread_mutex_unlock(&ep->lock);
    return n;
}

static void vt_wake(void *owner)
{
    struct vt_ep *ep = owner;

    ep->node->wakes++;
    __atomic_store_n(&ep->woken, 1, __ATOMIC_RELEASE);
}

/* As the core does it: progress, then polls and arms the endpoints woken. */
static void *vt_thread(void *arg)
{
    struct vt_node *node = arg;
    const struct prov_ops *ops = node->prov->ops;
    struct pollfd pfd = {.fd = ops->fd(node->prov), .events = POLLIN};

    while (!__atomic_load_n(&node->stop, __ATOMIC_ACQUIRE)) {
        int timeout = ops->progress(node->prov);
        node->progresses++;
        pthread_mutex_lock(&node->lock);
        for (int i = 0; node->polls && i < node->num_eps; i++) {
            struct vt_ep *ep = node->eps[i];
            if (!ep || !__atomic_exchange_n(&ep->woken, 0, __ATOMIC_ACQ_REL))
                continue;
            pthread_mutex_lock(&ep->lock);
            do
                while (ops->ep_poll(ep->ep))
                    ;
            while (ops->ep_arm(ep->ep, PROV_ARM_SOLICITED));
            pthread_mutex_unlock(&ep->lock);
        }
        pthread_mutex_unlock(&node->lock);
        if (timeout < 0 || timeout > 200)
            timeout = 200;
        poll(&pfd, 1, timeout);
    }
    return NULL;
}

/* Opens the provider; ends the program as skipped where there is no device. */
static inline void vt_open(struct vt_node *node, unsigned int peer_timeout_ms)
{
    struct prov_config config = {
        .wake = vt_wake, .num_tnis = 6, .peer_timeout_ms = peer_timeout_ms};

    memset(node, 0, sizeof(*node));
    pthread_mutex_init(&node->lock, NULL);
    vt_tune("sq_depth=63"); /* no connection is made anew for a longer queue */
    CHECK(ut_env_load() == 0);
    ut_log_init();
    int rc = verbs_provider.open(&config, &node->prov);
    if (rc == -ENODEV) {
        printf("skipped: no RDMA device with an active port\n");
        exit(VT_SKIP);
    }
    CHECK(rc == 0);
    node->prov->ops->caps(node->prov, 0, &node->caps);
    node->polls = !getenv("VT_MAIN_POLLS"); /* else only the main thread does: for TSan */
    CHECK(pthread_create(&node->thread, NULL, vt_thread, node) == 0);
}

static inline void vt_close(struct vt_node *node)
{
    __atomic_store_n(&node->stop, true, __ATOMIC_RELEASE);
    pthread_join(node->thread, NULL);
    node->prov->ops->close(node->prov);
}

static inline void vt_ep_open_deep(struct vt_node *node, struct vt_ep *ep, unsigned int tni,
                                   uint64_t id, unsigned int depth)
{
    struct prov_ep_attr attr = {
        .tni = tni, .id = id, .owner = ep, .callbacks = &vt_callbacks, .depth = depth};

    memset(ep, 0, sizeof(*ep));
    ep->node = node;
    pthread_mutex_init(&ep->lock, NULL);
    CHECK(node->prov->ops->ep_open(node->prov, &attr, &ep->ep) == 0);
    pthread_mutex_lock(&node->lock);
    node->eps[node->num_eps++] = ep;
    pthread_mutex_unlock(&node->lock);
}

static inline void vt_ep_open(struct vt_node *node, struct vt_ep *ep, unsigned int tni, uint64_t id)
{
    vt_ep_open_deep(node, ep, tni, id, 2048);
}

static inline void vt_ep_close(struct vt_ep *ep)
{
    pthread_mutex_lock(&ep->node->lock);
    for (int i = 0; i < ep->node->num_eps; i++)
        if (ep->node->eps[i] == ep)
            ep->node->eps[i] = NULL;
    pthread_mutex_unlock(&ep->node->lock);
    pthread_mutex_lock(&ep->lock);
    ep->node->prov->ops->ep_close(ep->ep);
    pthread_mutex_unlock(&ep->lock);
    for (int i = 0; i < ep->num_accepted; i++)
        free(ep->accepted[i]);
}

static inline void vt_connect(struct vt_ep *ep, const void *addr, size_t size, unsigned int tni,
                              uint64_t id, struct vt_conn *c)
{
    memset(c, 0, sizeof(*c));
    c->ep = ep;
    pthread_mutex_lock(&ep->lock);
    int rc = ep->node->prov->ops->connect(ep->ep, addr, size, tni, id, "hello", 5, c, &c->conn);
    pthread_mutex_unlock(&ep->lock);
    CHECK(rc == 0);
}

static inline void vt_conn_close(struct vt_conn *c)
{
    pthread_mutex_lock(&c->ep->lock);
    c->ep->node->prov->ops->conn_close(c->conn);
    pthread_mutex_unlock(&c->ep->lock);
}

/* Posts, and waits while there is no room. */
static inline int vt_write(struct vt_conn *c, const struct prov_xfer *x)
{
    int rc;

    do {
        pthread_mutex_lock(&c->ep->lock);
        rc = c->ep->node->prov->ops->write(c->conn, x);
        pthread_mutex_unlock(&c->ep->lock);
        if (rc == -EAGAIN && !vt_poll(c->ep))
            sched_yield();
    } while (rc == -EAGAIN);
    return rc;
}

static inline int vt_read(struct vt_conn *c, const struct prov_xfer *x)
{
    int rc;

    do {
        pthread_mutex_lock(&c->ep->lock);
        rc = c->ep->node->prov->ops->read(c->conn, x);
        pthread_mutex_unlock(&c->ep->lock);
        if (rc == -EAGAIN && !vt_poll(c->ep))
            sched_yield();
    } while (rc == -EAGAIN);
    return rc;
}

static inline int vt_send(struct vt_conn *c, const void *data, size_t size, unsigned int flags,
                          uint64_t cookie)
{
    int rc;

    do {
        pthread_mutex_lock(&c->ep->lock);
        rc = c->ep->node->prov->ops->send(c->conn, data, size, flags, cookie);
        pthread_mutex_unlock(&c->ep->lock);
        if (rc == -EAGAIN && !vt_poll(c->ep))
            sched_yield();
    } while (rc == -EAGAIN);
    return rc;
}

static inline int vt_atomic(struct vt_conn *c, const struct prov_atomic *a)
{
    pthread_mutex_lock(&c->ep->lock);
    int rc = c->ep->node->prov->ops->atomic(c->conn, a);
    pthread_mutex_unlock(&c->ep->lock);
    return rc;
}

/* The page that two processes share. */
struct vt_shared {
    volatile int stage[2];
    uint8_t addr[2][PROV_ADDR_MAX];
    size_t addr_size[2];
    uint64_t mem[2], words[8];
    uint32_t rkey[2];
};

static inline struct vt_shared *vt_share(void)
{
    void *p = mmap(NULL, sizeof(struct vt_shared), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

static inline void vt_publish(struct vt_shared *s, int me, struct vt_node *node)
{
    s->addr_size[me] = node->prov->ops->address(node->prov, s->addr[me]);
    CHECK(s->addr_size[me] <= PROV_ADDR_MAX);
}

/* Publishes this side's stage, and waits until the other has reached it. `ep` may be NULL. */
static inline void vt_stage(struct vt_shared *s, int me, int stage, struct vt_ep *ep)
{
    double end = vt_now() + VT_TIMEOUT_S;

    __atomic_store_n(&s->stage[me], stage, __ATOMIC_RELEASE);
    while (__atomic_load_n(&s->stage[!me], __ATOMIC_ACQUIRE) < stage) {
        if (ep)
            vt_poll(ep);
        usleep(200);
        if (vt_now() > end) {
            fprintf(stderr, "[%d] the other side never came to stage %d\n", (int)getpid(), stage);
            exit(1);
        }
    }
}

static inline int vt_reap(pid_t pid)
{
    int status = 0;

    CHECK(waitpid(pid, &status, 0) == pid);
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (rc)
        fprintf(stderr, "process %d ended with %d\n", (int)pid, rc);
    return rc;
}

/* Runs a test in a process of its own, for `seconds` seconds at most. Ends this one if it fails or
 * is skipped. */
static inline void vt_run(const char *name, void (*test)(void), unsigned int seconds)
{
    fflush(stdout);
    double start = vt_now();
    pid_t pid = fork();

    if (pid == 0) {
        alarm(seconds);
        test();
        exit(0);
    }
    int rc = vt_reap(pid);
    if (rc == VT_SKIP)
        exit(VT_SKIP);
    printf("%s: %s (%.2f s)\n", name, rc ? "FAILED" : "ok", vt_now() - start);
    if (rc)
        exit(1);
}

#endif
