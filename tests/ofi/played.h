/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider ofi in one process, over a fake fabric (../fuzz/fake_fabric.h) and with a clock that
 * the test moves. The test plays the peer: it signs and sends control messages, sends messages, and
 * looks at what the provider has sent. To be included once.
 */
#ifndef UT_TEST_OFI_PLAYED_H
#define UT_TEST_OFI_PLAYED_H

#include <stdio.h>

#include "../../provider/ofi/auth.h"
#include "../../provider/ofi/conn.h"
#include "../../provider/ofi/control.h"
#include "../../provider/ofi/ep.h"
#include "../../provider/ofi/peer.h"
#include "../fuzz/fake_fabric.h"
#include "../harness/check.h"
#include "../harness/fake_clock.h"

enum { ENDPOINT = 7, PEER_ENDPOINT = 8, MEMORY = 8192, PEER_TIMEOUT_MS = 30000 };

/* The endpoints of the fake fabric: the control endpoint, and that of the connections. */
#define CONTROL (&fake_eps[0])
#define DATA    (&fake_eps[1])

static struct fp_prov *prov;
static struct fp_ep *ep;
static struct fp_conn *conn;      /* NULL: none */
static bool holds_requests;       /* requests are neither accepted nor rejected */
static bool keeps_down;           /* connections that are down are not closed */
static struct fp_conn *requested; /* the last one */

/* What the callbacks have reported. */
static struct {
    unsigned int requests, ups, downs, messages, notices, dones, wakes;
    size_t message_size, hello_size;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
    uint32_t imm;
    uint64_t cookie;
    enum prov_status status;
    enum prov_reason reason;
} seen;

static _Alignas(4096) uint8_t memory[MEMORY], readable[MEMORY];
static struct prov_mr *mr, *mr_readable;

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    CHECK(ctx == &conn);
    seen.dones++;
    seen.cookie = cookie;
    seen.status = status;
}

static void on_unsignalled(void *ctx, uint64_t cookie)
{
    (void)ctx, (void)cookie;
}

static void on_message(void *ctx, const void *bytes, size_t size)
{
    CHECK(ctx == &conn);
    fake_sum(bytes, size);
    seen.messages++;
    seen.message_size = size;
}

static void on_notify(void *ctx, uint32_t imm)
{
    CHECK(ctx == &conn);
    seen.notices++;
    seen.imm = imm;
}

static void on_request(void *owner, struct prov *of, struct prov_conn *asking, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)of, (void)id;
    memcpy(seen.hello, hello, size);
    seen.hello_size = size;
    seen.requests++;
    requested = (struct fp_conn *)asking;
    if (holds_requests)
        return;
    conn = requested;
    CHECK(ofi_provider.accept(asking, "hello", 5, &conn) == 0);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    CHECK(ctx == &conn);
    memcpy(seen.hello, hello, size);
    seen.hello_size = size;
    seen.ups++;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    CHECK(ctx == &conn);
    seen.downs++;
    seen.reason = reason;
    if (keeps_down)
        return;
    if (conn)
        ofi_provider.conn_close((struct prov_conn *)conn);
    conn = NULL;
}

static void wake(void *owner)
{
    (void)owner;
    seen.wakes++;
}

static const struct prov_callbacks callbacks = {.done = on_done,
                                                .unsignalled_done = on_unsignalled,
                                                .message = on_message,
                                                .notify = on_notify,
                                                .request = on_request,
                                                .up = on_up,
                                                .down = on_down};

static void open_prov(void)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = PEER_TIMEOUT_MS};
    struct prov *base;

    fake_num_eps = 0;
    prov = NULL;
    CHECK(ofi_provider.open(&config, &base) == 0);
    prov = fp_prov_of(base);
}

static struct fp_ep *open_ep(uint64_t id)
{
    const struct prov_ep_attr attr = {.id = id, .callbacks = &callbacks, .depth = 16};
    struct prov_ep *opened;

    CHECK(ofi_provider.ep_open(&prov->base, &attr, &opened) == 0);
    return (struct fp_ep *)opened;
}

/*
 * Locks: a lock that is released was taken, and what it protects changes only while it is held
 */

enum { SHARED, CONTROL_LOCK, REGIONS, LOCKS };

static bool guards_locks; /* while the test itself changes nothing */
static bool held[LOCKS], is_summed[LOCKS];
static int num_locks_held; /* of all */
static uint64_t lock_sums[LOCKS];

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static int number_of_lock(const pthread_mutex_t *lock)
{
    return !prov                         ? -1
           : lock == &prov->lock         ? SHARED
           : lock == &prov->control.lock ? CONTROL_LOCK
           : lock == &prov->regions_lock ? REGIONS
                                         : -1;
}

#define SUM(sum, field) ((sum) = ut_hash((sum), &(field), sizeof(field)))

static uint64_t sum_shared(void)
{
    uint64_t sum = UT_HASH_FIRST;
    struct fp_peer *peer;
    struct fp_ep *one;

    SUM(sum, prov->by_address.used);
    SUM(sum, prov->control.queue.stqh_first);
    SLIST_FOREACH (peer, &prov->peers, next) {
        SUM(sum, peer->conns);
        SUM(sum, peer->silent_ms);
        SUM(sum, peer->checked_ms);
        SUM(sum, peer->key);
    }
    LIST_FOREACH (one, &prov->eps, next) {
        SUM(sum, one);
        SUM(sum, one->ctrl_queue.stqh_first);
    }
    return sum;
}

static uint64_t sum_regions(void)
{
    uint64_t sum = UT_HASH_FIRST;

    SUM(sum, prov->num_regions);
    SUM(sum, prov->num_free_regions);
    SUM(sum, prov->free_regions.stqh_first);
    for (uint32_t i = 0; i < prov->num_regions; i++) {
        SUM(sum, prov->regions[i]->access);
        SUM(sum, prov->regions[i]->mr);
        SUM(sum, prov->regions[i]->registrations);
        SUM(sum, prov->regions[i]->addr);
    }
    return sum;
}

static uint64_t sum_protected(int lock)
{
    uint64_t sum = UT_HASH_FIRST;

    if (lock != CONTROL_LOCK)
        return lock == SHARED ? sum_shared() : sum_regions();
    SUM(sum, prov->control.num_sending);
    SUM(sum, prov->control.unposted);
    SUM(sum, prov->control.polled_by_owner);
    return sum;
}

/* From now on, until guard_locks(false). */
static __attribute__((unused)) void guard_locks(bool on)
{
    guards_locks = on;
    memset(is_summed, 0, sizeof(is_summed));
}

static void note_locked(const pthread_mutex_t *lock)
{
    int n = number_of_lock(lock);

    if (n < 0)
        return;
    CHECK(!held[n]);
    held[n] = true;
    if (guards_locks && is_summed[n])
        CHECK(sum_protected(n) == lock_sums[n]);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_lock(lock);

    num_locks_held++;
    note_locked(lock);
    return rc;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_trylock(lock);

    if (rc == 0) {
        num_locks_held++;
        note_locked(lock);
    }
    return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    int n = number_of_lock(lock);

    if (n >= 0) {
        CHECK(held[n]);
        held[n] = false;
        is_summed[n] = guards_locks;
        if (guards_locks)
            lock_sums[n] = sum_protected(n);
    }
    num_locks_held--;
    return __real_pthread_mutex_unlock(lock);
}

static int count_callbacks(void)
{
    return (int)(seen.requests + seen.ups + seen.downs + seen.messages + seen.notices + seen.dones);
}

/* A poll returns the number of its callbacks. */
static void poll_ep(void)
{
    int before = count_callbacks();
    int calls = ofi_provider.ep_poll((struct prov_ep *)ep);

    CHECK(calls == count_callbacks() - before);
}

static void poll_all(void)
{
    for (int i = 0; i < 4; i++) {
        ofi_provider.progress(&prov->base);
        poll_ep();
    }
}

/* The free buffers of a pool. */
static __attribute__((unused)) unsigned int count_free(const struct fp_pool *pool)
{
    unsigned int n = 0;

    for (const struct fp_buf *buf = pool->free; buf; buf = buf->next)
        n++;
    return n;
}

static __attribute__((unused)) void open_all(void)
{
    open_prov();
    ep = open_ep(ENDPOINT);
    CHECK(ofi_provider.reg(&prov->base, 0, memory, MEMORY, PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                           &mr) == 0);
    CHECK(ofi_provider.reg(&prov->base, 0, readable, MEMORY, PROV_ACCESS_READ, &mr_readable) == 0);
    poll_all();
}

/* Forgets what was reported and sent. */
static void forget(void)
{
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < FAKE_EPS; i++)
        fake_eps[i].num_sent = 0;
}

/* Ends all posted operations of an endpoint, and those that they cause. */
static void end_sends(struct fake_ep *fake)
{
    while (fake->num_sends > 0) {
        fake_end(fake, true);
        poll_all();
    }
}

/* Peers have nothing more to say: closing waits for nobody. */
static __attribute__((unused)) void close_all(void)
{
    struct fp_peer *peer;

    fake_busy = 0;
    SLIST_FOREACH (peer, &prov->peers, next)
        fp_peer_died(peer);
    fake_clock_pass_ms(1000);
    poll_all();
    end_sends(CONTROL);
    end_sends(DATA);
    ofi_provider.ep_close((struct prov_ep *)ep);
    ofi_provider.close(&prov->base);
}

/*
 * The peer: a process of another host
 */

static uint32_t peer_pid = 1000, next_request;

static struct fp_address peer_address(void)
{
    struct fp_address address = prov->address;

    address.boot = ~prov->address.boot;
    address.pid = peer_pid;
    return address;
}

static __attribute__((unused)) struct fp_peer *peer_now(void)
{
    struct fp_address address = peer_address();

    return fp_peer_find(prov, &address);
}

static struct fp_ctrl_msg make_ctrl(enum fp_ctrl_kind kind)
{
    struct fp_ctrl_msg msg = {.kind = (uint8_t)kind,
                              .signed_by = FP_SIGNED_BY_RECEIVER,
                              .name_size = 16,
                              .from_id = PEER_ENDPOINT,
                              .to_id = ENDPOINT,
                              .process = peer_address()};

    memset(msg.name, 1, msg.name_size);
    if (kind == FP_CONN_REQUEST) {
        msg.from_conn = ++next_request;
    } else if (conn) {
        msg.from_conn = conn->rmt_id;
        msg.to_conn = conn->id;
    }
    return msg;
}

static void sign_and_send(struct fp_ctrl_msg *msg)
{
    fp_sign(msg, prov->key);
    CHECK(fake_arrive(CONTROL, msg, sizeof(*msg)));
    poll_all();
}

static void send_ctrl(enum fp_ctrl_kind kind)
{
    struct fp_ctrl_msg msg = make_ctrl(kind);

    sign_and_send(&msg);
}

/* A message in its turn, or `ahead` messages before it. */
static struct fp_head make_head(enum fp_kind kind, uint16_t ahead)
{
    return (struct fp_head){.kind = (uint8_t)kind,
                            .number = (uint16_t)(conn->next_in + ahead),
                            .to = conn->id,
                            .secret = conn->secret_in,
                            .seq = conn->received + 1 + ahead};
}

static void arrive(const void *bytes, size_t size)
{
    CHECK(fake_arrive(DATA, bytes, size));
    poll_all();
}

static void send_head(enum fp_kind kind, uint16_t ahead)
{
    struct fp_head head = make_head(kind, ahead);

    arrive(&head, sizeof(head));
}

/* Makes a connection of the peer. */
static __attribute__((unused)) void connect_peer(void)
{
    CHECK(!conn);
    send_ctrl(FP_CONN_REQUEST);
    CHECK(conn && conn->state == FP_ACCEPTED);
    send_head(FP_START, 0);
    CHECK(conn->state == FP_UP);
    end_sends(CONTROL);
    forget();
}

/* Ends the connection, in whatever state it is. */
static __attribute__((unused)) void disconnect(void)
{
    fake_busy = 0;
    if (conn) {
        __atomic_add_fetch(&conn->peer->timeouts, 1, __ATOMIC_RELEASE);
        fp_conn_check_peer(conn);
        poll_all();
    }
    CHECK(!conn);
    end_sends(CONTROL);
    end_sends(DATA);
    poll_all();
    CHECK(ep->num_conns == 0);
}

/*
 * What the provider has sent
 */

/* The last message of a kind since forget(); NULL: none. */
static __attribute__((unused)) const void *find_sent(const struct fake_ep *fake, uint8_t kind)
{
    unsigned int kept = fake->num_sent < FAKE_LOG ? fake->num_sent : FAKE_LOG;

    for (unsigned int i = 1; i <= kept; i++) {
        const struct fake_sent *s = &fake->log[(fake->num_sent - i) % FAKE_LOG];
        const struct fp_head *head = (const void *)s->bytes;
        const struct fp_ctrl_msg *msg = (const void *)s->bytes;

        if (!s->is_rma && (fake == CONTROL ? msg->kind : head->kind) == kind)
            return s->bytes;
    }
    return NULL;
}

static __attribute__((unused)) unsigned int count_sent(const struct fake_ep *fake, uint8_t kind)
{
    unsigned int n = 0;

    CHECK(fake->num_sent <= FAKE_LOG);
    for (unsigned int i = 0; i < fake->num_sent; i++) {
        const struct fake_sent *s = &fake->log[i];
        const struct fp_head *head = (const void *)s->bytes;
        const struct fp_ctrl_msg *msg = (const void *)s->bytes;

        n += !s->is_rma && (fake == CONTROL ? msg->kind : head->kind) == kind;
    }
    return n;
}

#endif
