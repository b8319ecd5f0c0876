/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that have come before earlier ones stay in the receives of their endpoint. When their
 * connection ends, the receives are posted again: otherwise each break takes some away, and after
 * some breaks the endpoint hears nothing any more. In the same way the buffers of messages that
 * were not sent, and of data that has been fetched, come back: the pools do not grow. No fabric is
 * used: ../fuzz/fake_fabric.h. The test plays the peer.
 */
#include <stdio.h>

#include "../../provider/ofi/auth.h"
#include "../../provider/ofi/conn.h"
#include "../../provider/ofi/ep.h"
#include "../../provider/ofi/peer.h"
#include "../fuzz/fake_fabric.h"
#include "../harness/check.h"

enum {
    ENDPOINT = 7,
    EARLY = 40,
    ROUNDS = 3 * FP_RECEIVES / EARLY,
    POLLS = 4,
    QUEUED = 8,         /* messages of this end */
    LONG_MESSAGE = 100, /* bytes: not injected */
    FETCHED = 3 * FAKE_BUFFER,
};

static struct fp_prov *prov;
static struct prov_ep *ep;
static struct fp_conn *conn; /* NULL: none */
static unsigned int messages, downs;
static uint8_t memory[FETCHED];
static struct prov_mr *mr;

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    (void)ctx, (void)cookie, (void)status;
}

static void on_unsignalled(void *ctx, uint64_t cookie)
{
    (void)ctx, (void)cookie;
}

static void on_message(void *ctx, const void *bytes, size_t size)
{
    (void)ctx, (void)bytes, (void)size;
    messages++;
}

static void on_notify(void *ctx, uint32_t imm)
{
    (void)ctx, (void)imm;
}

static void on_request(void *owner, struct prov *of, struct prov_conn *asking, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)of, (void)id, (void)hello, (void)size;
    CHECK(!conn);
    conn = (struct fp_conn *)asking;
    CHECK(ofi_provider.accept(asking, "hello", 5, &conn) == 0);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)ctx, (void)hello, (void)size;
}

static void close_conn(void)
{
    ofi_provider.conn_close((struct prov_conn *)conn);
    conn = NULL;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    (void)ctx, (void)reason;
    downs++;
    close_conn();
}

static void wake(void *owner)
{
    (void)owner;
}

static void open_all(void)
{
    static const struct prov_callbacks callbacks = {.done = on_done,
                                                    .unsignalled_done = on_unsignalled,
                                                    .message = on_message,
                                                    .notify = on_notify,
                                                    .request = on_request,
                                                    .up = on_up,
                                                    .down = on_down};
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 30000};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};
    struct prov *base;

    CHECK(ofi_provider.open(&config, &base) == 0);
    CHECK(ofi_provider.ep_open(base, &attr, &ep) == 0);
    CHECK(ofi_provider.reg(base, 0, memory, sizeof(memory), PROV_ACCESS_WRITE, &mr) == 0);
    prov = fp_prov_of(base);
}

static void poll_all(void)
{
    for (int i = 0; i < POLLS; i++) {
        ofi_provider.progress(&prov->base);
        ofi_provider.ep_poll(ep);
    }
}

/* The peer, a process of another host. */

static void send_ctrl(enum fp_ctrl_kind kind)
{
    static uint32_t requests;
    struct fp_ctrl_msg msg = {.kind = (uint8_t)kind,
                              .signed_by = FP_SIGNED_BY_RECEIVER,
                              .name_size = 16,
                              .from_id = ENDPOINT + 1,
                              .to_id = ENDPOINT,
                              .process = prov->address};

    msg.process.boot = ~prov->address.boot;
    if (kind == FP_CONN_REQUEST) {
        msg.from_conn = ++requests;
    } else {
        msg.from_conn = conn->rmt_id;
        msg.to_conn = conn->id;
    }
    memset(msg.name, 1, sizeof(msg.name));
    fp_sign(&msg, prov->key);
    CHECK(fake_arrive(&fake_eps[0], &msg, sizeof(msg)));
    poll_all();
}

/* A message that comes `ahead` messages before its turn. */
static void send_message(enum fp_kind kind, uint16_t ahead)
{
    struct fp_head head = {.kind = (uint8_t)kind,
                           .number = (uint16_t)(conn->next_in + ahead),
                           .to = conn->id,
                           .secret = conn->secret_in,
                           .seq = conn->received + 1 + ahead};

    CHECK(fake_arrive(&fake_eps[1], &head, sizeof(head)));
    poll_all();
}

/* The peer offers a long write: this end fetches three pieces, and the second one arrives. */
static void fetch_pieces(void)
{
    struct fp_offer offer = {.x = {.head = {.kind = FP_WRITE_OFFER,
                                            .number = conn->next_in,
                                            .to = conn->id,
                                            .secret = conn->secret_in,
                                            .seq = conn->received + 1},
                                   .rmt = (uintptr_t)memory,
                                   .rkey = mr->rkey,
                                   .length = sizeof(memory)}};
    struct fake_posted *posted = fake_eps[1].sends, first;
    unsigned int before = fake_eps[1].num_sends;

    CHECK(fake_arrive(&fake_eps[1], &offer, sizeof(offer)));
    poll_all();
    CHECK(before == 0 && fake_eps[1].num_sends == 3);
    first = posted[0];
    posted[0] = posted[1];
    posted[1] = first;
    fake_end(&fake_eps[1], true);
    poll_all();
    CHECK(fake_eps[1].num_sends == 2);
}

/* Messages of this end that the fabric does not take yet. */
static void queue_messages(void)
{
    static const uint8_t bytes[LONG_MESSAGE];

    fake_busy = 1000000;
    for (int i = 0; i < QUEUED; i++)
        CHECK(ofi_provider.send((struct prov_conn *)conn, bytes, sizeof(bytes), PROV_SIGNAL, 1) >=
              0);
    CHECK(conn->num_queued > 0);
}

static unsigned int count_slabs(const struct fp_pool *pool)
{
    unsigned int n = 0;

    for (void *const *slab = (void *const *)pool->slabs; slab; slab = *slab) /* `next` is first */
        n++;
    return n;
}

/* How a connection ends. */

static void duplicate(void)
{
    send_message(FP_MESSAGE, EARLY); /* once more */
    CHECK(conn && conn->broken);
}

static void peer_breaks(void)
{
    send_ctrl(FP_CONN_BROKEN);
}

static void peer_closes(void)
{
    send_ctrl(FP_CONN_CLOSE);
}

static void peer_dies(void)
{
    __atomic_add_fetch(&conn->peer->timeouts, 1, __ATOMIC_RELEASE);
    fp_conn_check_peer(conn);
}

/* Sends what this end does not understand, in its turn: the early messages follow. */
static void nonsense(void)
{
    send_message((enum fp_kind)99, 0);
}

static const struct end {
    const char *name;
    void (*make)(void);
    bool told; /* the peer has to agree */
} ends[] = {
    {"a message is duplicated", duplicate, true},
    {"the peer breaks the connection", peer_breaks, false},
    {"the peer closes it", peer_closes, false},
    {"the peer is silent", peer_dies, false},
    {"this end closes it", close_conn, false},
    {"a message is malformed", nonsense, true},
};

static void go_round(const struct end *end)
{
    messages = downs = 0;
    send_ctrl(FP_CONN_REQUEST);
    CHECK(conn);
    send_message(FP_START, 0);
    CHECK(conn->state == FP_UP);
    if (end->make != close_conn) /* which would wait for the pieces, and for messages to be sent */
        fetch_pieces();
    for (uint16_t i = 1; i <= EARLY; i++)
        send_message(FP_MESSAGE, i);
    CHECK(conn->early_msgs && messages == 0);
    CHECK(fake_eps[1].num_receives == FP_RECEIVES - EARLY);
    if (end->make != close_conn)
        queue_messages();
    end->make();
    fake_busy = 0;
    poll_all();
    if (fake_eps[1].num_receives != FP_RECEIVES)
        printf("%s: %u receives of %d are posted\n", end->name, fake_eps[1].num_receives,
               FP_RECEIVES);
    CHECK(fake_eps[1].num_receives == FP_RECEIVES && messages == 0);
    if (end->told)
        send_ctrl(FP_CONN_BROKEN);
    CHECK(!conn && downs == (end->make != close_conn));
    while (fake_eps[0].num_sends > 0) {
        fake_end(&fake_eps[0], true);
        poll_all();
    }
    while (fake_eps[1].num_sends > 0) {
        fake_end(&fake_eps[1], true);
        poll_all();
    }
}

int main(void)
{
    struct fp_peer *peer;

    open_all();
    poll_all();
    CHECK(fake_eps[1].num_receives == FP_RECEIVES);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        for (int round = 0; round < ROUNDS; round++)
            go_round(&ends[i]);
        CHECK(count_slabs(&((struct fp_ep *)ep)->small) <= 1);
        CHECK(count_slabs(&((struct fp_ep *)ep)->large) <= 1);
        CHECK(count_slabs(&((struct fp_ep *)ep)->chunks) == 1);
        printf("ok: %s\n", ends[i].name);
    }
    SLIST_FOREACH (peer, &prov->peers, next)
        fp_peer_died(peer); /* so that no wait is necessary */
    ofi_provider.ep_poll(ep);
    ofi_provider.ep_close(ep);
    ofi_provider.close(&prov->base);
    return 0;
}
