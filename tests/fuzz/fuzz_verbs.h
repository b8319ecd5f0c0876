/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a libFuzzer target of the verbs provider: an endpoint over fake_verbs.h, whose
 * owner accepts connection requests, or not, and closes those that are down. Included after
 * fake_verbs.h.
 */
#ifndef FUZZ_VERBS_H
#define FUZZ_VERBS_H

#include "../../provider/verbs/data/post.h"
#include "fuzz.h"
#include "fuzz_provider.h"
#include "process/process.h"

enum { ENDPOINT = 7, CONNS = 8 };

static struct vp_prov *prov;
static struct prov_ep *ep;
static struct prov_conn *conns[CONNS];
static uint8_t policy; /* how requests are answered */

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)ctx, (void)hello;
    if (size > PROV_PRIVATE_DATA_MAX)
        abort();
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct prov_conn **conn = ctx;

    (void)reason;
    vp_conn_close(*conn);
    *conn = NULL;
}

static struct prov_conn **free_place(void)
{
    for (int i = 0; i < CONNS; i++)
        if (!conns[i])
            return &conns[i];
    return NULL;
}

static void on_request(void *owner, struct prov *of, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    uint8_t mine[PROV_PRIVATE_DATA_MAX] = {0};
    struct prov_conn **place = free_place();

    (void)owner, (void)of, (void)id, (void)hello;
    if (size > PROV_PRIVATE_DATA_MAX)
        abort();
    if (!place || (policy & 1)) {
        vp_reject(conn);
        return;
    }
    *place = conn;
    if (vp_accept(conn, mine, sizeof(mine), place) != 0)
        abort();
}

static void wake(void *owner)
{
    (void)owner;
}

/* At most three connections exist. */
static void open_provider(const struct prov_config *config)
{
    prov = fake_open(config);
    prov->tuning.max_qps = 3;
    vp_budget_init(prov, &prov->devices[0]);
}

static void open_endpoint(void)
{
    static const struct prov_callbacks callbacks = {
        on_done, on_unsignalled, on_message, on_notify, on_request, on_up, on_down};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};

    if (vp_ep_open(&prov->base, &attr, &ep) != 0)
        abort();
}

static void close_conn(struct prov_conn **conn)
{
    if (*conn)
        vp_conn_close(*conn);
    *conn = NULL;
}

static void break_conn(struct prov_conn *conn)
{
    if (conn)
        vp_conn_break(vp_conn(conn), VP_REASON_PROBE);
}

static void close_endpoint(void)
{
    vp_ep_close(ep);
    memset(conns, 0, sizeof(conns));
    num_arrivals = 0;
    fake_close(prov);
}

#endif
