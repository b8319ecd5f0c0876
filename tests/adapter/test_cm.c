/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviour of librdmacm, in the order of calls that the kernel requires; on the software
 * adapter and on rdma_rxe. Queue pairs are just numbers here, except where data are sent.
 */
#include "check_verbs.h"

#include <arpa/inet.h>
#include <signal.h>

enum { REJ_NO_SERVICE = 8, REJ_STALE = 10, REJ_CONSUMER = 28, QPN = 0x4000 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static union {
    struct sockaddr sa;
    struct sockaddr_in in;
} address;

static const struct rdma_conn_param plain = {.qp_num = QPN, .srq = 1, .rnr_retry_count = 7};

/* Expects this event; `id` may be NULL. Returns its status; *child: of a request. */
static int expect(enum rdma_cm_event_type type, const struct rdma_cm_id *id,
                  struct rdma_cm_id **child, uint8_t *data)
{
    struct rdma_cm_event *event;

    CHECK(readable(channel->fd, PATIENCE_S * 1000));
    CHECK(rdma_get_cm_event(channel, &event) == 0);
    if (event->event != type)
        fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
    CHECK(event->event == type && (!id || event->id == id));
    int status = event->status;
    if (child)
        *child = event->id;
    if (data)
        memcpy(data, event->param.conn.private_data, 8);
    CHECK(rdma_ack_cm_event(event) == 0);
    return status;
}

static bool is_silent(void)
{
    return !readable(channel->fd, 100);
}

static void listen_here(int backlog)
{
    CHECK((channel = rdma_create_event_channel()));
    address.in.sin_family = AF_INET;
    memcpy(&address.in.sin_addr, dev.gid.raw + 12, 4);
    CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, &address.sa) == 0);
    CHECK(listener->verbs && listener->port_num == 1 && rdma_get_src_port(listener) != 0);
    CHECK(rdma_listen(listener, backlog) == 0);
    address.in.sin_port = rdma_get_src_port(listener);
}

/* An id with a resolved route to the listener. */
static struct rdma_cm_id *routed(void)
{
    struct sockaddr_in from = address.in;
    struct rdma_cm_id *id;

    from.sin_port = 0;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, (struct sockaddr *)&from, &address.sa, 1000) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED, id, NULL, NULL);
    CHECK(rdma_resolve_route(id, 1000) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED, id, NULL, NULL);
    return id;
}

static void ask(struct rdma_cm_id *id, uint32_t qpn)
{
    struct rdma_conn_param param = plain;

    param.qp_num = qpn;
    param.private_data = "question";
    param.private_data_len = 8;
    CHECK(rdma_connect(id, &param) == 0);
}

static struct rdma_cm_id *asks(uint32_t qpn)
{
    struct rdma_cm_id *id = routed();

    ask(id, qpn);
    return id;
}

/* Both ends of a connection between numbers. */
static void connected(struct rdma_cm_id **a, struct rdma_cm_id **b, uint32_t qpn)
{
    struct rdma_conn_param param = plain;
    uint8_t data[8];

    *a = asks(qpn);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, b, data);
    CHECK(memcmp(data, "question", 8) == 0);
    param.qp_num = qpn + 1;
    param.private_data = "answer..";
    param.private_data_len = 8;
    CHECK(rdma_accept(*b, &param) == 0);
    expect(RDMA_CM_EVENT_CONNECT_RESPONSE, *a, NULL, data);
    CHECK(memcmp(data, "answer..", 8) == 0);
    CHECK(rdma_establish(*a) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED, *b, NULL, NULL);
    CHECK(is_silent());
}

static void calls_out_of_order_are_refused(void)
{
    struct rdma_conn_param param = plain;
    struct rdma_cm_id *id;

    listen_here(8);
    struct sockaddr_in any_port = address.in;
    any_port.sin_port = 0;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&any_port) == 0);
    CHECK(rdma_connect(id, &param) != 0);
    CHECK(rdma_resolve_route(id, 100) != 0);
    CHECK(rdma_accept(id, &param) != 0);
    CHECK(rdma_establish(id) != 0);
    CHECK(rdma_reject(id, NULL, 0) != 0);
    CHECK(rdma_disconnect(id) != 0);
    CHECK(rdma_bind_addr(listener, &address.sa) != 0);
    CHECK(is_silent());
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
}

static void an_address_of_no_device_cannot_be_bound(void)
{
    struct sockaddr_in strange = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000263)};
    struct rdma_cm_id *id;

    listen_here(8);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&strange) != 0);
    CHECK(rdma_bind_addr(id, &address.sa) != 0 && errno == EADDRINUSE);
    CHECK(rdma_destroy_id(id) == 0);
}

static void private_data_have_limits(void)
{
    static const uint8_t data[255];
    struct rdma_conn_param param = plain;
    struct rdma_cm_id *id, *child;

    listen_here(8);
    id = routed();
    param.private_data = data;
    param.private_data_len = 57;
    CHECK(rdma_connect(id, &param) != 0 && errno == EINVAL);
    param.private_data_len = 56;
    CHECK(rdma_connect(id, &param) == 0);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &child, NULL);
    CHECK(rdma_reject(child, data, 149) != 0);
    CHECK(rdma_reject(child, data, 148) == 0);
    CHECK(expect(RDMA_CM_EVENT_REJECTED, id, NULL, NULL) == REJ_CONSUMER);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(child) == 0);
}

static void more_reads_than_the_device_has_are_refused(void)
{
    struct rdma_conn_param param = plain;
    struct rdma_cm_id *id;

    listen_here(8);
    id = routed();
    if (dev.attr.max_qp_rd_atom < 254) {
        param.responder_resources = (uint8_t)(dev.attr.max_qp_rd_atom + 1);
        CHECK(rdma_connect(id, &param) != 0 && errno == EINVAL);
    }
    param.responder_resources = (uint8_t)dev.attr.max_qp_rd_atom;
    CHECK(rdma_connect(id, &param) == 0);
    CHECK(rdma_destroy_id(id) == 0);
}

static void nobody_listens(void)
{
    struct rdma_cm_id *id;

    listen_here(8);
    CHECK(rdma_destroy_id(listener) == 0);
    id = asks(QPN);
    CHECK(expect(RDMA_CM_EVENT_REJECTED, id, NULL, NULL) == REJ_NO_SERVICE);
    CHECK(rdma_destroy_id(id) == 0);
}

static void a_refusal_carries_data(void)
{
    struct rdma_cm_id *id, *child;
    uint8_t data[8];

    listen_here(8);
    id = asks(QPN);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &child, NULL);
    CHECK(rdma_reject(child, "refused.", 8) == 0);
    CHECK(expect(RDMA_CM_EVENT_REJECTED, id, NULL, data) == REJ_CONSUMER);
    CHECK(memcmp(data, "refused.", 8) == 0);
    CHECK(rdma_accept(child, (struct rdma_conn_param *)&plain) != 0);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(child) == 0);
}

static void a_request_that_is_dropped_refuses(void)
{
    struct rdma_cm_id *id, *child;

    listen_here(8);
    id = asks(QPN);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &child, NULL);
    CHECK(rdma_destroy_id(child) == 0);
    CHECK(expect(RDMA_CM_EVENT_REJECTED, id, NULL, NULL) == REJ_CONSUMER);
    CHECK(rdma_destroy_id(id) == 0);
}

static void a_request_that_was_given_up_cannot_be_accepted(void)
{
    struct rdma_conn_param param = plain;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    struct rdma_cm_id *id, *child;
    int mask;

    listen_here(8);
    id = asks(QPN);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &child, NULL);
    CHECK(rdma_init_qp_attr(child, &attr, &mask) == 0 && attr.dest_qp_num == QPN);
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(is_silent()); /* the side that did not accept gets no event */
    attr.qp_state = IBV_QPS_RTR;
    CHECK(rdma_init_qp_attr(child, &attr, &mask) != 0);
    CHECK(rdma_accept(child, &param) != 0);
    CHECK(rdma_destroy_id(child) == 0);
}

static void both_ends_hear_of_the_end(void)
{
    struct rdma_cm_id *a, *b;

    listen_here(8);
    connected(&a, &b, QPN);
    CHECK(rdma_disconnect(a) == 0);
    expect(RDMA_CM_EVENT_DISCONNECTED, b, NULL, NULL);
    CHECK(is_silent()); /* until it answers */
    CHECK(rdma_disconnect(b) == 0);
    expect(RDMA_CM_EVENT_DISCONNECTED, a, NULL, NULL);
    CHECK(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0);
}

static void an_id_that_ends_disconnects(void)
{
    struct rdma_cm_id *a, *b;

    listen_here(8);
    connected(&a, &b, QPN);
    CHECK(rdma_destroy_id(b) == 0);
    expect(RDMA_CM_EVENT_DISCONNECTED, a, NULL, NULL);
    CHECK(rdma_destroy_id(a) == 0);
}

static void a_request_of_a_connected_queue_pair_is_stale(void)
{
    struct rdma_cm_id *a, *b, *again;

    listen_here(8);
    connected(&a, &b, QPN);
    again = asks(QPN);
    CHECK(expect(RDMA_CM_EVENT_REJECTED, again, NULL, NULL) == REJ_STALE);
    expect(RDMA_CM_EVENT_DISCONNECTED, a, NULL, NULL); /* the connection is taken down */
    CHECK(rdma_destroy_id(again) == 0 && rdma_destroy_id(a) == 0);
    expect(RDMA_CM_EVENT_DISCONNECTED, b, NULL, NULL);
    CHECK(rdma_destroy_id(b) == 0);
    again = asks(QPN); /* now it is new */
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &b, NULL);
    CHECK(rdma_destroy_id(again) == 0 && rdma_destroy_id(b) == 0);
}

/* Takes the requests of the server's channel that arrive within `wait_ms`, or `most` of them. */
static unsigned int requests_at(struct rdma_event_channel *server, int wait_ms, unsigned int most)
{
    struct rdma_cm_event *event;
    unsigned int n = 0;

    for (; n < most && readable(server->fd, wait_ms); n++) {
        CHECK(rdma_get_cm_event(server, &event) == 0);
        CHECK(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
        struct rdma_cm_id *child = event->id;
        CHECK(rdma_ack_cm_event(event) == 0 && rdma_destroy_id(child) == 0);
    }
    return n;
}

/* They are not refused: the origin's kernel repeats them after 4.3 s. */
static void requests_beyond_the_backlog_come_later(void)
{
    struct rdma_cm_id *ids[4];

    listen_here(2);
    struct rdma_event_channel *server = channel;
    CHECK((channel = rdma_create_event_channel())); /* the server's channel is not polled */
    for (int i = 0; i < 4; i++)
        ids[i] = routed();
    for (uint32_t i = 0; i < 4; i++)
        ask(ids[i], QPN + i);
    CHECK(is_silent());
    CHECK(requests_at(server, 100, 4) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(expect(RDMA_CM_EVENT_REJECTED, ids[i], NULL, NULL) == REJ_CONSUMER);
    CHECK(requests_at(server, PATIENCE_S * 1000, 2) == 2);
    for (int i = 2; i < 4; i++)
        CHECK(expect(RDMA_CM_EVENT_REJECTED, NULL, NULL, NULL) == REJ_CONSUMER);
    for (int i = 0; i < 4; i++)
        CHECK(rdma_destroy_id(ids[i]) == 0);
}

static void attributes_are_those_of_the_handshake(void)
{
    struct rdma_conn_param param = plain;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct rdma_cm_id *a, *b;
    int mask;

    listen_here(8);
    a = routed();
    CHECK(rdma_init_qp_attr(a, &attr, &mask) == 0 && attr.port_num == 1);
    param.responder_resources = 1;
    param.initiator_depth = 0;
    CHECK(rdma_connect(a, &param) == 0);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &b, NULL);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(rdma_init_qp_attr(a, &attr, &mask) != 0); /* no answer yet */
    param.qp_num = QPN + 1;
    param.responder_resources = 0;
    param.initiator_depth = 1;
    CHECK(rdma_accept(b, &param) == 0);
    expect(RDMA_CM_EVENT_CONNECT_RESPONSE, a, NULL, NULL);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(rdma_init_qp_attr(a, &attr, &mask) == 0 && attr.dest_qp_num == QPN + 1);
    CHECK(attr.max_dest_rd_atomic == 1 && attr.path_mtu == dev.mtu);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(rdma_init_qp_attr(b, &attr, &mask) == 0 && attr.max_rd_atomic == 1);
    CHECK(rdma_destroy_id(a) == 0);
    expect(RDMA_CM_EVENT_REJECTED, b, NULL, NULL); /* it was never confirmed */
    CHECK(rdma_destroy_id(b) == 0);
}

/* The kernel ends the connections of a process that is killed. */
static void a_killed_process_disconnects(void)
{
    struct rdma_cm_id *b;
    struct rdma_conn_param param = plain;

    listen_here(8);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in to = address.in;
        open_device();
        CHECK((channel = rdma_create_event_channel()));
        address.in = to;
        struct rdma_cm_id *a = asks(QPN);
        expect(RDMA_CM_EVENT_CONNECT_RESPONSE, a, NULL, NULL);
        CHECK(rdma_establish(a) == 0);
        for (;;)
            pause();
    }
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &b, NULL);
    param.qp_num = QPN + 1;
    CHECK(rdma_accept(b, &param) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED, b, NULL, NULL);
    CHECK(is_silent());
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    expect(RDMA_CM_EVENT_DISCONNECTED, b, NULL, NULL);
    CHECK(rdma_destroy_id(b) == 0);
}

static void check_ece(struct rdma_cm_id *id, uint32_t vendor_id, uint32_t options)
{
    struct ibv_ece ece = {.vendor_id = 1};

    CHECK(rdma_get_remote_ece(id, &ece) == 0);
    if (ece.vendor_id != vendor_id || ece.options != options)
        fprintf(stderr, "%#x of vendor %#x, not %#x of %#x\n", ece.options, ece.vendor_id, options,
                vendor_id);
    CHECK(ece.vendor_id == vendor_id && ece.options == options && ece.comp_mask == 0);
}

/* Both ends exchange their enhancements. Without an offer the receiver gets zeros; without an
 * answer the origin gets the vendor and no options. */
static void enhancements_go_with_request_and_answer(void)
{
    struct ibv_ece offer = {.vendor_id = 0x15b3, .options = 0x70000012}, used = {0x15b3, 2, 0};
    struct rdma_conn_param param = plain;
    struct rdma_cm_id *a, *b;

    listen_here(8);
    for (int answers = 1; answers >= 0; answers--, param.qp_num += 2) {
        a = routed();
        CHECK(rdma_set_local_ece(a, &offer) == 0);
        ask(a, param.qp_num);
        expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &b, NULL);
        check_ece(b, offer.vendor_id, offer.options);
        if (answers)
            CHECK(rdma_set_local_ece(b, &used) == 0);
        param.qp_num++;
        CHECK(rdma_accept(b, &param) == 0);
        expect(RDMA_CM_EVENT_CONNECT_RESPONSE, a, NULL, NULL);
        check_ece(a, offer.vendor_id, answers ? used.options : 0);
        CHECK(rdma_destroy_id(a) == 0);
        expect(RDMA_CM_EVENT_REJECTED, b, NULL, NULL);
        CHECK(rdma_destroy_id(b) == 0);
    }
    a = asks(param.qp_num);
    expect(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &b, NULL);
    check_ece(b, 0, 0);
    CHECK(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0);
}

static const struct named_test tests[] = {
    TEST(calls_out_of_order_are_refused),
    TEST(an_address_of_no_device_cannot_be_bound),
    TEST(private_data_have_limits),
    TEST(more_reads_than_the_device_has_are_refused),
    TEST(nobody_listens),
    TEST(a_refusal_carries_data),
    TEST(a_request_that_is_dropped_refuses),
    TEST(a_request_that_was_given_up_cannot_be_accepted),
    TEST(both_ends_hear_of_the_end),
    TEST(an_id_that_ends_disconnects),
    TEST(a_request_of_a_connected_queue_pair_is_stale),
    TEST(requests_beyond_the_backlog_come_later),
    TEST(attributes_are_those_of_the_handshake),
    TEST(a_killed_process_disconnects),
    TEST(enhancements_go_with_request_and_answer),
};

int main(int argc, char **argv)
{
    return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
