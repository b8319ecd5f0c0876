/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a connection that comes up, and what is reported of its requests at their end
 * (connect/conn.c), without a device: the steps one by one, at their limits.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../harness/check.h"
#include "util/clock.h"
#include "verbs/connect/conn.h"
#include "verbs/data/post.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "verbs/data/table.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"

static bool has_entries, has_memory, flushes_reads;

static bool reserve_entry(struct vp_ep *ep)
{
    CHECK(ep);
    return has_entries;
}

static bool add_to_table(struct vp_ep *ep, struct vp_conn *conn)
{
    CHECK(conn->ep == ep);
    return has_memory;
}

static void mark_up(struct vp_conn *conn)
{
    CHECK(conn->state == VP_CONN_UP);
}

static bool needs_read(const struct vp_prov *prov)
{
    CHECK(prov);
    return flushes_reads;
}

static void post_sign(struct vp_conn *conn)
{
    conn->head++;
}

static uint64_t now_ms;
static unsigned int num_looks;

static uint64_t tell_ms(void)
{
    return now_ms;
}

static bool look_at_use(struct vp_conn *conn)
{
    CHECK(pthread_mutex_trylock(&conn->ep->prov->lock) != 0);
    num_looks++;
    return false;
}

#define ut_clock_ms                tell_ms
#define vp_budget_check_use_locked look_at_use
#define vp_ep_reserve_cqe          reserve_entry
#define vp_table_add               add_to_table
#define vp_budget_mark_up          mark_up
#define vp_needs_read_flush        needs_read
#define vp_post_signalled          post_sign
#include "../../provider/verbs/connect/conn.c"

enum { RING = 64, PEER_MS = 1000 };

static struct vp_prov prov = {.lock = PTHREAD_MUTEX_INITIALIZER, .config.peer_timeout_ms = PEER_MS};
static struct vp_device dev;
static struct vp_cm_ops ops_of_manager;
static struct vp_port port = {.dev = &dev, .name = "fake0", .cm_ops = &ops_of_manager};
static struct vp_op ops[RING];
static struct vp_ep ep;
static struct vp_conn conn;
static struct ibv_qp_ex qpx;
static char said[300]; /* the callbacks, as text */

static void note_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    CHECK(ctx == &conn);
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "%u:%d ", (unsigned int)cookie,
             (int)status);
}

static void note_unsignalled(void *ctx, uint64_t cookie)
{
    CHECK(ctx == &conn);
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "u%u ", (unsigned int)cookie);
}

static void note_up(void *ctx, const void *data, size_t size)
{
    CHECK(ctx == &conn && data);
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "up%zu ", size);
}

static void note_down(void *ctx, enum prov_reason reason)
{
    CHECK(ctx == &conn);
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "down%d ", (int)reason);
}

static void reset(void)
{
    has_entries = has_memory = true;
    flushes_reads = false;
    said[0] = '\0';
    ep = (struct vp_ep){.prov = &prov,
                        .port = &port,
                        .max_msg = 4096,
                        .room = 10,
                        .cq_size = 1000,
                        .signal_every = 16,
                        .cb = {.done = note_done,
                               .unsignalled_done = note_unsignalled,
                               .up = note_up,
                               .down = note_down}};
    conn = (struct vp_conn){.ep = &ep,
                            .ctx = &conn,
                            .ops = ops,
                            .sq_mask = RING - 1,
                            .sq_depth = 32,
                            .packet = 1024,
                            .end.reason = VP_REASON_UNKNOWN};
}

static void expect(const char *wanted)
{
    if (strcmp(said, wanted) != 0)
        fprintf(stderr, "said %s, not %s\n", said, wanted);
    CHECK(strcmp(said, wanted) == 0);
    said[0] = '\0';
}

/* An eighth of the queue, and two requests at least, are for messages. */
static void limits_of_the_queue(void)
{
    static const uint32_t depths[][2] = {{8, 5}, {16, 13}, {24, 20}, {32, 27}, {64, 55}};

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        reset();
        conn.sq_depth = depths[i][0];
        conn.active = i & 1;
        conn.hello_size = 3;
        conn.req.kind = 1 << VP_REQ_UNIT_SHIFT | 7;
        vp_conn_up(&conn);
        CHECK(conn.sq_max == depths[i][0] - 1 && conn.sq_xfer_max == depths[i][1]);
        CHECK(conn.last_request == VP_LAST_RESERVED && ep.num_callbacks == 1);
        expect(conn.active ? "up3 " : "up7 ");
        vp_conn_up(&conn); /* once */
        expect("");
    }
    reset();
    conn.closed = true;
    vp_conn_up(&conn);
    CHECK(conn.state == VP_CONN_NEW && conn.sq_max == 0);
    for (int i = 0; i < 2; i++) {
        reset();
        has_entries = i;
        has_memory = !i;
        vp_conn_up(&conn);
        CHECK(conn.state == VP_CONN_DOWN && ep.num_callbacks == 1 && conn.sq_max == 0);
        CHECK(ep.logged_no_room == !i);
        char wanted[20];
        snprintf(wanted, sizeof(wanted), "down%d ", PROV_REASON_LOCAL);
        expect(wanted);
    }
}

static void limits_of_transfers(void)
{
    static const struct {
        uint32_t threshold;
        uint8_t lcl, rmt;
        bool has_qpx;
        uint32_t unsplit, direct;
    } cases[] = {{0, VP_UNIT_WHOLE, VP_UNIT_WHOLE, true, 4096, 4096},
                 {0, VP_UNIT_WHOLE, VP_UNIT_WHOLE, false, 4096, 0},
                 {0, VP_UNIT_64, VP_UNIT_WHOLE, true, 4096, 1024},
                 {0, VP_UNIT_WHOLE, VP_UNIT_WORD, true, 4096, 1024},
                 {4097, VP_UNIT_WHOLE, VP_UNIT_WHOLE, true, 4096, 4096},
                 {4096, VP_UNIT_WHOLE, VP_UNIT_WHOLE, true, 4095, 4095},
                 {1000, VP_UNIT_64, VP_UNIT_64, true, 999, 999}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int before = 0; before < 2; before++) { /* set before it is up, or later */
            reset();
            conn.qpx = cases[i].has_qpx ? &qpx : NULL;
            conn.lcl_unit = cases[i].lcl;
            conn.rmt_unit = cases[i].rmt;
            if (before)
                vp_set_split_threshold((struct prov_conn *)(void *)&conn, cases[i].threshold);
            CHECK(conn.unsplit_max == 0);
            vp_conn_up(&conn);
            if (!before)
                vp_set_split_threshold((struct prov_conn *)(void *)&conn, cases[i].threshold);
            CHECK(conn.unsplit_max == cases[i].unsplit && conn.direct_max == cases[i].direct);
            CHECK(vp_any_order((struct prov_conn *)(void *)&conn) ==
                  (cases[i].lcl || cases[i].rmt));
        }
    for (int i = 0; i < 4; i++) {
        reset();
        flushes_reads = i & 1;
        ep.rail = i & 2;
        vp_conn_up(&conn);
        CHECK(!!(conn.slow_flags & PROV_DELIVERY_COMPLETE) == (i != 0));
    }
    reset();
    dev.order = VP_ORDER_PROMISED; /* before it is up, that of the peer counts too */
    CHECK(!vp_any_order((struct prov_conn *)(void *)&conn));
    conn.rmt_unit = VP_UNIT_64;
    CHECK(vp_any_order((struct prov_conn *)(void *)&conn));
}

/* Requests 0 to 5: one unsignalled at the beginning, three later, with parts. */
static void fill_ring(void)
{
    static const uint32_t tags[] = {VP_TAG_UNSIGNALLED, 0,
                                    VP_TAG_PART,        VP_TAG_INTERNAL,
                                    VP_TAG_UNSIGNALLED, VP_TAG_UNSIGNALLED};

    reset();
    for (uint32_t i = 0; i < 6; i++)
        ops[i] = (struct vp_op){.cookie = 10 + i, .conn = &conn, .slot = i, .tag = tags[i]};
    conn.head = 6;
    conn.unsignalled_from = 4;
    conn.state = VP_CONN_FAILING;
}

static void requests_are_reported_in_order(void)
{
    fill_ring();
    vp_complete_requests(&conn, 3, PROV_OK);
    expect("u10 11:0 ");
    CHECK(ep.room == 13 && ep.num_completed == 3 && conn.tail == 3 && ep.num_callbacks == 2);
    vp_complete_requests(&conn, 6, PROV_OK);
    expect("u15 ");
    CHECK(ep.room == 16 && ep.num_completed == 6 && conn.tail == 6);
    fill_ring();
    conn.closed = true;
    vp_complete_requests(&conn, 6, PROV_OK);
    expect("");
    CHECK(ep.room == 16 && conn.tail == 6);
}

/* Those before the failed one have been executed, unless the device is stuck. */
static void requests_of_a_failed_connection(void)
{
    static const struct {
        enum prov_status status;
        enum prov_reason reason;
        uint32_t seq;
        bool stuck;
        const char *wanted;
    } cases[] = {{PROV_RMT_ACCESS, PROV_REASON_BROKEN, 1, false, "u10 11:2 14:5 15:5 "},
                 {PROV_RMT_ACCESS, PROV_REASON_BROKEN, 1, true, "10:5 11:5 14:5 15:5 "},
                 {PROV_RMT_ACCESS, PROV_REASON_BROKEN, 0, true, "10:2 11:5 14:5 15:5 "},
                 {PROV_PEER, PROV_REASON_PEER_DEAD, 1, false, "u10 11:4 14:5 15:5 "},
                 {PROV_PEER, PROV_REASON_BROKEN, 1, false, "u10 11:5 14:5 15:5 "},
                 {PROV_FLUSHED, PROV_REASON_SILENT, 0, false, "10:4 11:5 14:5 15:5 "},
                 {PROV_OK, PROV_REASON_SILENT, 0, false, "10:4 11:5 14:5 15:5 "},
                 {PROV_OK, PROV_REASON_BROKEN, 0, false, "10:5 11:5 14:5 15:5 "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char wanted[100];
        fill_ring();
        conn.end.err_status = (uint8_t)cases[i].status;
        conn.end.err_seq = cases[i].seq;
        conn.end.stuck = cases[i].stuck;
        conn.end.reason = (int8_t)cases[i].reason;
        report_down(&conn);
        snprintf(wanted, sizeof(wanted), "%sdown%d ", cases[i].wanted, (int)cases[i].reason);
        expect(wanted);
        CHECK(conn.state == VP_CONN_DOWN && ep.room == 16);
    }
}

/* The sign of an idle connection is no use of it, and no stall. */
static void signs_of_life(void)
{
    for (int used = 0; used < 2; used++) {
        reset();
        conn.state = VP_CONN_UP;
        conn.head = conn.tail = 7;
        conn.used_head = used ? 5 : 7;
        conn.action = VP_ACTION_KEEPALIVE;
        send_keepalive(&conn);
        CHECK(conn.head == 8 && conn.head_at_check == 8 && conn.action == VP_ACTION_NONE);
        CHECK(conn.used_head == (used ? 5 : 8));
        send_keepalive(&conn); /* one is outstanding */
        CHECK(conn.head == 8);
    }
}

/*
 * What is done about a connection whose requests are not answered, or that has none: the oldest
 * request has to be the same as at the last check, and older than that.
 */
static void looks_for_stalls(void)
{
    static const struct {
        uint32_t head, tail, head_before, tail_before;
        enum vp_conn_state state;
        bool closed, not_postable;
        enum vp_pending_action action, wanted, wanted_keepalive;
    } cases[] = {
        {9, 7, 8, 7, VP_CONN_UP, .wanted = VP_ACTION_STALL, .wanted_keepalive = VP_ACTION_STALL},
        {9, 7, 8, 6, VP_CONN_UP, .closed = false}, /* one was answered */
        {9, 7, 7, 7, VP_CONN_UP, .closed = false}, /* posted since */
        {7, 7, 7, 7, VP_CONN_UP, .wanted_keepalive = VP_ACTION_KEEPALIVE},
        {7, 7, 6, 6, VP_CONN_UP, .closed = false}, /* used since */
        {9, 7, 8, 7, VP_CONN_FAILING, .closed = false},
        {9, 7, 8, 7, VP_CONN_UP, .closed = true},
        {9, 7, 8, 7, VP_CONN_UP, .not_postable = true},
        {9, 7, 8, 7, VP_CONN_UP, .action = VP_ACTION_KEEPALIVE, .wanted = VP_ACTION_KEEPALIVE,
         .wanted_keepalive = VP_ACTION_KEEPALIVE},
        {7, 7, 7, 7, VP_CONN_UP, .action = VP_ACTION_STALL, .wanted = VP_ACTION_STALL,
         .wanted_keepalive = VP_ACTION_STALL},
    };

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        bool keepalive = i % 2;
        reset();
        vp_list_init(&ep.conns);
        vp_list_init(&ep.service_list);
        vp_list_init(&conn.service_link);
        vp_list_init(&conn.ep_link);
        vp_list_append(&ep.conns, &conn.ep_link);
        conn.head = cases[i / 2].head;
        conn.tail = cases[i / 2].tail;
        conn.head_at_check = cases[i / 2].head_before;
        conn.tail_at_check = cases[i / 2].tail_before;
        conn.state = cases[i / 2].state;
        conn.closed = cases[i / 2].closed;
        conn.sq_max = cases[i / 2].not_postable ? 0 : 31;
        conn.action = cases[i / 2].action;
        ep.keepalive_at = keepalive ? now_ms : now_ms + 1;
        num_looks = 0;
        vp_check_stalls(&ep);
        enum vp_pending_action wanted =
            keepalive ? cases[i / 2].wanted_keepalive : cases[i / 2].wanted;
        bool is_up = conn.state == VP_CONN_UP && !conn.closed && conn.sq_max;
        CHECK(conn.action == wanted && num_looks == is_up);
        CHECK(!vp_list_empty(&ep.service_list) == (wanted != cases[i / 2].action));
        CHECK(!is_up || (conn.head_at_check == conn.head && conn.tail_at_check == conn.tail));
        CHECK(ep.keepalive_at == now_ms + (keepalive ? PEER_MS / 2 : 1));
    }
}

/* A connection manager that reports a death needs no signs. */
static void no_signs_if_a_death_is_reported(void)
{
    reset();
    vp_list_init(&ep.conns);
    ops_of_manager.reports_peer_death = true;
    vp_check_stalls(&ep);
    CHECK(ep.keepalive_at == 0);
    ops_of_manager.reports_peer_death = false;
}

static void waits_for_the_last_receive(void)
{
    static const struct {
        enum vp_last_wqe last_wqe;
        uint32_t vendor;
        bool own;
        unsigned int ms;
    } cases[] = {{VP_LAST_WQE_NEVER, 0, false, 0},
                 {VP_LAST_WQE_NEVER, 0, true, 1000},
                 {VP_LAST_WQE_RAISED, VP_VENDOR_RXE, false, 1000},
                 {VP_LAST_WQE_UNKNOWN, 0, false, 10000},
                 {VP_LAST_WQE_UNKNOWN, VP_VENDOR_RXE, false, 100},
                 {VP_LAST_WQE_UNRELIABLE, 0, false, 100}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset();
        dev.last_wqe = cases[i].last_wqe;
        dev.attr.vendor_id = cases[i].vendor;
        conn.recvs = cases[i].own ? &ep.recvs : NULL;
        CHECK(last_recv_timeout_ms(&conn) == cases[i].ms);
    }
}

int main(void)
{
    limits_of_the_queue();
    limits_of_transfers();
    requests_are_reported_in_order();
    requests_of_a_failed_connection();
    signs_of_life();
    looks_for_stalls();
    no_signs_if_a_death_is_reported();
    waits_for_the_last_receive();
    return 0;
}
