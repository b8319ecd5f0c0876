/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that have come before earlier ones stay in the receives of their endpoint. When their
 * connection ends, the receives are posted again: otherwise each break takes some away, and after
 * some breaks the endpoint hears nothing any more. In the same way the buffers of messages that
 * were not sent, and of data that has been fetched, come back: the pools do not grow. The test
 * plays the peer.
 */
#include "fake_peer.h"

enum {
    EARLY = 40,
    ROUNDS = 3 * FP_RECEIVES / EARLY,
    QUEUED = 8,         /* messages of this end */
    LONG_MESSAGE = 100, /* bytes: not injected */
    FETCHED = 3 * FAKE_BUFFER,
};

static uint8_t memory[FETCHED];
static struct prov_mr *mr;

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
    open_all();
    CHECK(ofi_provider.reg(&prov->base, 0, memory, sizeof(memory), PROV_ACCESS_WRITE, &mr) == 0);
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
    close_all();
    return 0;
}
