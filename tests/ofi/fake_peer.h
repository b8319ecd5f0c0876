/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider ofi without a fabric (../fuzz/fake_fabric.h), with one endpoint and at most one
 * connection, whose peer is the test: a process of another host. For programs of one process.
 */
#ifndef FAKE_PEER_H
#define FAKE_PEER_H

#include <stdio.h>

#include "../../provider/ofi/auth.h"
#include "../../provider/ofi/conn.h"
#include "../../provider/ofi/ep.h"
#include "../../provider/ofi/peer.h"
#include "../fuzz/fake_fabric.h"
#include "../harness/check.h"

enum { ENDPOINT = 7, PEER_ENDPOINT };

static struct fp_prov *prov;
static struct prov_ep *ep;
static struct fp_conn *conn; /* NULL: none */
static unsigned int messages, requests, downs;

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
    requests++;
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
    prov = fp_prov_of(base);
}

static void close_all(void)
{
    struct fp_peer *peer;

    SLIST_FOREACH (peer, &prov->peers, next)
        fp_peer_died(peer); /* so that no wait is necessary */
    ofi_provider.ep_poll(ep);
    ofi_provider.ep_close(ep);
    ofi_provider.close(&prov->base);
}

static void poll_all(void)
{
    enum { POLLS = 4 };

    for (int i = 0; i < POLLS; i++) {
        ofi_provider.progress(&prov->base);
        ofi_provider.ep_poll(ep);
    }
}

/* The peer, a process of another host. */

/* rmt_id: of the connection at the peer. */
static struct fp_ctrl_msg make_ctrl(enum fp_ctrl_kind kind, uint32_t rmt_id)
{
    struct fp_ctrl_msg msg = {.kind = (uint8_t)kind,
                              .signed_by = FP_SIGNED_BY_RECEIVER,
                              .name_size = 16,
                              .from_conn = rmt_id,
                              .to_conn = kind == FP_CONN_REQUEST ? 0 : conn->id,
                              .from_id = PEER_ENDPOINT,
                              .to_id = ENDPOINT,
                              .process = prov->address};

    msg.process.boot = ~prov->address.boot;
    memset(msg.name, 1, sizeof(msg.name));
    fp_sign(&msg, prov->key);
    return msg;
}

static void send_ctrl(enum fp_ctrl_kind kind)
{
    static uint32_t last_id;
    struct fp_ctrl_msg msg = make_ctrl(kind, kind == FP_CONN_REQUEST ? ++last_id : conn->rmt_id);

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

#endif
