/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fabric loses messages when the connection breaks over which it sends them, and may have
 * reported them as sent. Nothing waits for a message of the handshake, or for a refusal, that was
 * lost.
 */
#include "../harness/fake_clock.h"

#include "fake_peer.h"

enum { CONTROL, DATA, RMT_ID = 77, SECOND_MS = 1100 };

static void end_sends(void)
{
    for (int i = CONTROL; i <= DATA; i++)
        while (fake_eps[i].num_sends > 0) {
            fake_end(&fake_eps[i], true);
            poll_all();
        }
}

static const void *last_sent(int number)
{
    return fake_eps[number].log[(fake_eps[number].num_sent - 1) % FAKE_LOG].bytes;
}

static const struct fp_ctrl_msg *last_ctrl(void)
{
    return last_sent(CONTROL);
}

static const struct fp_head *last_message(void)
{
    return last_sent(DATA);
}

/* True if such a message is sent after a second. The background thread, which sends pings, does not
 * run. */
static bool sends_ctrl(enum fp_ctrl_kind kind)
{
    unsigned int before = fake_eps[CONTROL].num_sent;

    fake_clock_pass_ms(SECOND_MS);
    for (int i = 0; i < 10; i++) {
        ofi_provider.ep_poll(ep);
        if (fake_eps[CONTROL].num_sent != before && last_ctrl()->kind == kind)
            return true;
    }
    return false;
}

static void peer_breaks(void)
{
    send_ctrl(FP_CONN_BROKEN);
    CHECK(!conn);
    end_sends();
}

static void lost_accept_is_repeated(void)
{
    send_ctrl(FP_CONN_REQUEST);
    CHECK(conn && conn->state == FP_ACCEPTED && last_ctrl()->kind == FP_CONN_ACCEPT);
    const struct fp_ctrl_msg first = *last_ctrl();
    CHECK(sends_ctrl(FP_CONN_ACCEPT) && sends_ctrl(FP_CONN_ACCEPT));
    CHECK(last_ctrl()->from_conn == first.from_conn && last_ctrl()->to_conn == first.to_conn);
    CHECK(first.hello_size == 5 && memcmp(last_ctrl()->hello, "hello", 5) == 0);
    CHECK(memcmp(last_ctrl()->nonce, first.nonce, sizeof(first.nonce)) == 0);
    send_message(FP_START, 0);
    CHECK(conn->state == FP_UP && !sends_ctrl(FP_CONN_ACCEPT));
    peer_breaks();
}

/* This end requests a connection. */
static void request(void)
{
    struct fp_record record = {.address = prov->address};
    struct prov_conn *asked;

    memset(record.key, 1, sizeof(record.key));
    record.address.boot = ~prov->address.boot;
    CHECK(ofi_provider.connect(ep, &record,
                               offsetof(struct fp_record, address.name) + record.address.name_size,
                               0, PEER_ENDPOINT, "hello", 5, &conn, &asked) == 0);
    conn = (struct fp_conn *)asked;
    poll_all();
}

static void accept_it(void)
{
    const struct fp_ctrl_msg msg = make_ctrl(FP_CONN_ACCEPT, RMT_ID);

    CHECK(fake_arrive(&fake_eps[CONTROL], &msg, sizeof(msg)));
    poll_all();
}

static void lost_request_is_repeated(void)
{
    request();
    CHECK(last_ctrl()->kind == FP_CONN_REQUEST && sends_ctrl(FP_CONN_REQUEST));
    accept_it();
    CHECK(conn->state == FP_UP && !sends_ctrl(FP_CONN_REQUEST));
    peer_breaks();
}

/* The acceptor, which repeats its reply, gets a message behind the one that it misses. */
static void lost_start_is_noticed(void)
{
    request();
    accept_it();
    CHECK(conn->state == FP_UP && last_message()->kind == FP_START);
    CHECK(last_message()->number == 0);
    accept_it();
    CHECK(conn->state == FP_UP && last_message()->kind == FP_ACK && last_message()->number == 1);
    peer_breaks();
}

/* The peer, which asks for an acknowledgement, gets a message behind the one that it misses. */
static void lost_refusal_is_noticed(void)
{
    struct fp_xfer write = {.head = {.kind = FP_WRITE}, .rkey = ~0u, .length = 8};
    uint8_t bytes[sizeof(write) + 8] = {0};

    send_ctrl(FP_CONN_REQUEST);
    send_message(FP_START, 0);
    write.head = (struct fp_head){.kind = FP_WRITE,
                                  .number = conn->next_in,
                                  .to = conn->id,
                                  .secret = conn->secret_in,
                                  .seq = 1};
    memcpy(bytes, &write, sizeof(write));
    CHECK(fake_arrive(&fake_eps[DATA], bytes, sizeof(bytes)));
    poll_all();
    CHECK(last_message()->kind == FP_REFUSAL);
    const uint16_t number = last_message()->number;
    send_message(FP_ACK_REQUEST, 0);
    CHECK(conn && !conn->broken && last_message()->kind == FP_ACK);
    CHECK(last_message()->number == number + 1);
    peer_breaks();
}

/* While the program computes, the peer repeats its request. */
static void repetitions_do_not_pile_up(void)
{
    enum { TIMES = 30 };
    struct fp_ctrl_queue *queue = &((struct fp_ep *)ep)->ctrl_queue;
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST, RMT_ID);

    requests = 0;
    for (int i = 0; i < TIMES; i++) {
        CHECK(fake_arrive(&fake_eps[CONTROL], &msg, sizeof(msg)));
        ofi_provider.progress(&prov->base);
    }
    CHECK(STAILQ_FIRST(queue) && !STAILQ_NEXT(STAILQ_FIRST(queue), next));
    msg.from_conn++; /* another request */
    fp_sign(&msg, prov->key);
    CHECK(fake_arrive(&fake_eps[CONTROL], &msg, sizeof(msg)));
    ofi_provider.progress(&prov->base);
    struct fp_ctrl_entry *second = STAILQ_NEXT(STAILQ_FIRST(queue), next);
    CHECK(second && !STAILQ_NEXT(second, next));
    STAILQ_REMOVE(queue, second, fp_ctrl_entry, next);
    free(second);
    poll_all();
    CHECK(requests == 1);
    peer_breaks();
}

int main(void)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {
        {"lost_accept_is_repeated", lost_accept_is_repeated},
        {"lost_request_is_repeated", lost_request_is_repeated},
        {"lost_start_is_noticed", lost_start_is_noticed},
        {"lost_refusal_is_noticed", lost_refusal_is_noticed},
        {"repetitions_do_not_pile_up", repetitions_do_not_pile_up},
    };

    open_all();
    poll_all();
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tests[i].test();
        printf("ok: %s\n", tests[i].name);
    }
    close_all();
    return 0;
}
