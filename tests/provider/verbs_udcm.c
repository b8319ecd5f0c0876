/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes by datagrams (provider/verbs/connect/udcm.c) between two processes, on a network that
 * loses, doubles and delays what it is told to. There is no device: the functions of ud.h stand
 * here. The clock stands still unless it is moved.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct timespec fake_now;

static int fake_clock(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = fake_now;
    return 0;
}

#include "util/clock.h"

#define clock_gettime fake_clock
#include "../../src/util/clock.c"
#undef clock_gettime

#include "../../provider/verbs/connect/udcm.h"
#include "checked_locks.h"
#include "../harness/check.h"
#include "fake_ud.h"
#include "process/process.h"

enum {
    SIDES = 2,
    QUEUE = 64,
    ORIGIN = 0,
    TARGET = 1,
    QPN = 100,
    ATTEMPT_MS = 1000,
    TIMEWAIT_MS = 500, /* of udcm.c */
    PATIENCE_MS = 60000
};

/*** the network ***/

struct wire {
    uint8_t data[QUEUE][VP_UD_MAX];
    size_t size[QUEUE];
    unsigned int head, tail;
};

static struct vp_prov provs[SIDES];
static struct wire wires[SIDES];             /* towards each side */
static unsigned int sent, lose, twice, hold; /* numbers of datagrams, from 1 on; 0: none */
static uint8_t held[VP_UD_MAX];
static size_t held_size;
static int held_to;
static bool drops; /* datagrams that do not fit are dropped */

static int side_of(const struct vp_port *port)
{
    return port == &provs[ORIGIN].ports[0] ? ORIGIN : TARGET;
}

static void arrive(int to, const void *data, size_t size)
{
    struct wire *w = &wires[to];

    if (drops && w->head - w->tail == QUEUE)
        return;
    CHECK(w->head - w->tail < QUEUE);
    memcpy(w->data[w->head % QUEUE], data, size);
    w->size[w->head++ % QUEUE] = size;
}

bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size)
{
    int side = to->qpn == provs[ORIGIN].ports[0].at.qpn ? ORIGIN : TARGET;

    (void)port;
    sent++;
    if (sent == hold) {
        memcpy(held, data, size);
        held_size = size;
        held_to = side;
    } else if (sent != lose) {
        arrive(side, data, size);
    }
    if (sent == twice)
        arrive(side, data, size);
    return true;
}

size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl)
{
    struct wire *w = &wires[side_of(port)];

    if (w->head == w->tail)
        return 0;
    *sl = 0;
    memcpy(data, w->data[w->tail % QUEUE], VP_UD_MAX);
    return w->size[w->tail++ % QUEUE];
}

/*** the processes ***/

static struct vp_cm_id ids[SIDES];
static struct vp_cm_event events[SIDES]; /* the last event of each */
static unsigned int heard[SIDES][VP_CM_DEVICE_REMOVAL + 1];
static enum vp_reject_reason target_refuses; /* 0: the target accepts */
static bool target_thinks;                   /* the target does not answer for now */
static struct vp_cm_id ignored[QUEUE];       /* further requests to the target */
static unsigned int num_ignored;

static void pass_ms(int ms)
{
    fake_now.tv_nsec += ms % 1000 * 1000000L;
    fake_now.tv_sec += ms / 1000 + fake_now.tv_nsec / 1000000000;
    fake_now.tv_nsec %= 1000000000;
}

static void open_side(int side)
{
    struct vp_prov *prov = &provs[side];
    struct vp_port *port = &prov->ports[0];

    memset(prov, 0, sizeof(*prov));
    prov->kick_fd = -1;
    prov->num_ports = 1;
    port->num = 1;
    port->ud = (struct vp_ud *)prov; /* not used here */
    port->mtu = side == ORIGIN ? IBV_MTU_4096 : IBV_MTU_1024;
    port->at.lid = (uint16_t)(7 + side);
    port->at.qpn = (uint32_t)(QPN + side);
    port->at.qkey = (uint32_t)(1000 + side);
    memset(port->at.key, 0x40 + side, sizeof(port->at.key));
    CHECK(vp_udcm_open(prov) == 0);
}

static void open_both(void)
{
    fake_now.tv_sec = 1000;
    memset(wires, 0, sizeof(wires));
    memset(ids, 0, sizeof(ids));
    memset(events, 0, sizeof(events));
    memset(heard, 0, sizeof(heard));
    sent = lose = twice = hold = num_ignored = 0;
    held_size = 0;
    target_refuses = 0;
    target_thinks = false;
    reach_rc = 0;
    open_side(ORIGIN);
    open_side(TARGET);
}

static void close_both(const char *what)
{
    for (unsigned int i = 0; i < num_ignored; i++)
        vp_cm_id_destroy(&ignored[i]);
    vp_udcm_close(&provs[ORIGIN]);
    vp_udcm_close(&provs[TARGET]);
    printf("ok: %s\n", what);
}

static struct rdma_conn_param param_of(int side)
{
    struct rdma_conn_param param = {.private_data = side == ORIGIN ? "question" : "answer..",
                                    .private_data_len = 8,
                                    .responder_resources = (uint8_t)(3 + side),
                                    .initiator_depth = (uint8_t)(8 + side),
                                    .qp_num = (uint32_t)(500 + side)};
    return param;
}

static void answer_it(void)
{
    struct rdma_conn_param param = param_of(TARGET);

    CHECK(ids[TARGET].ops->accept(&ids[TARGET], &param) == 0);
}

static void target_is_asked(struct vp_cm_event *event)
{
    CHECK(event->size == 8 && memcmp(event->data, "question", 8) == 0);
    CHECK(event->rsp_resources == 8 && event->init_depth == 3);
    CHECK(event->from.ud && event->from.at.qpn == QPN && event->from.at.qkey == 1000);
    if (ids[TARGET].ops) { /* the target has a connection already */
        CHECK(num_ignored < QUEUE);
        ignored[num_ignored] = event->request_id;
        ignored[num_ignored].ops->set_owner(&ignored[num_ignored]);
        struct rdma_conn_param param = param_of(TARGET);
        CHECK(event->request_id.ops->accept(&ignored[num_ignored++], &param) == 0);
        return;
    }
    ids[TARGET] = event->request_id;
    ids[TARGET].ops->set_owner(&ids[TARGET]);
    if (target_refuses)
        ids[TARGET].ops->reject(&ids[TARGET], target_refuses);
    else if (!target_thinks)
        answer_it();
}

static void handle(int side, struct vp_cm_event *event)
{
    if (event->type == VP_CM_CONNECT_REQUEST)
        target_is_asked(event);
    if (event->type == VP_CM_CONNECT_RESPONSE) {
        CHECK(event->size == 8 && memcmp(event->data, "answer..", 8) == 0);
        CHECK(ids[ORIGIN].ops->establish(&ids[ORIGIN]) == 0);
    }
    if (event->type == VP_CM_CONNECT_REQUEST || event->type == VP_CM_WRONG_KEY || !event->id ||
        event->id == &ids[side]) {
        heard[side][event->type]++;
        events[side] = *event;
    }
}

/* Handles all datagrams that have arrived. */
static void deliver(void)
{
    struct vp_cm_event event;
    bool any;

    do {
        any = false;
        for (int side = 0; side < SIDES; side++) {
            while (vp_udcm_next(&provs[side], &event)) {
                handle(side, &event);
                any = true;
            }
        }
    } while (any || wires[0].head != wires[0].tail || wires[1].head != wires[1].tail);
}

static void run_ms(int ms)
{
    deliver();
    for (int i = 0; i < ms; i++) {
        pass_ms(1);
        for (int side = 0; side < SIDES; side++)
            vp_udcm_timers(&provs[side], ut_clock_ms());
        deliver();
    }
}

static struct vp_ece offer; /* of the origin's requests */

static void begin_and_ask(void)
{
    struct vp_peer peer = {.ud = true, .at = provs[TARGET].ports[0].at};
    struct rdma_conn_param param = param_of(ORIGIN);

    ids[ORIGIN] = (struct vp_cm_id){.kind = VP_CM_ID_CONN};
    CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &ids[ORIGIN], &provs[ORIGIN].ports[0], &peer) ==
          1);
    ids[ORIGIN].ece = offer;
    CHECK(vp_udcm_ops.connect(&ids[ORIGIN], &param) == 0);
}

static bool is_up(void)
{
    return heard[ORIGIN][VP_CM_CONNECT_RESPONSE] == 1 && heard[TARGET][VP_CM_ESTABLISHED] == 1;
}

static bool nothing_is_left_of(int side)
{
    return vp_udcm_timers(&provs[side], ut_clock_ms()) == 0;
}

static bool nothing_is_left(void)
{
    return nothing_is_left_of(ORIGIN) && nothing_is_left_of(TARGET);
}

static void end_both(void)
{
    vp_udcm_ops.disconnect(&ids[ORIGIN]);
    vp_cm_id_destroy(&ids[ORIGIN]);
    run_ms(10);
    CHECK(heard[TARGET][VP_CM_DISCONNECTED] == 1);
    vp_udcm_ops.disconnect(&ids[TARGET]);
    vp_cm_id_destroy(&ids[TARGET]);
    run_ms(ATTEMPT_MS);
}

/*** the tests ***/

static void both_ends_know_each_other(void)
{
    open_both();
    target_thinks = true;
    begin_and_ask();
    deliver();
    answer_it();
    /* while the answer is under way the target's queue pair is set up */
    struct vp_cm_event event;
    CHECK(vp_udcm_next(&provs[ORIGIN], &event) && event.type == VP_CM_CONNECT_RESPONSE);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;
    CHECK(vp_udcm_ops.init_qp_attr(&ids[ORIGIN], &attr, &mask) == 0);
    CHECK(attr.dest_qp_num == 501 && attr.path_mtu == IBV_MTU_1024 && attr.ah_attr.dlid == 8);
    CHECK(attr.max_dest_rd_atomic == 9); /* the reads that the target wants in flight */
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS};
    CHECK(vp_udcm_ops.init_qp_attr(&ids[ORIGIN], &send, &mask) == 0 && send.max_rd_atomic == 4);
    CHECK(vp_udcm_ops.establish(&ids[ORIGIN]) == 0);
    deliver();
    CHECK(heard[TARGET][VP_CM_ESTABLISHED] == 1 && sent == 3);
    end_both();
    CHECK(nothing_is_left());
    close_both("both ends know each other");
}

static bool is_ece(struct vp_ece ece, uint32_t vendor_id, uint32_t options)
{
    return ece.vendor_id == vendor_id && ece.options == options;
}

/* The request has the enhancements offered, the answer those that the target uses; or none. */
static void enhancements_go_with_request_and_answer(void)
{
    for (uint32_t options = 0; options < 3; options++) {
        open_both();
        target_thinks = true;
        offer = options ? (struct vp_ece){0x15b3, 0x70} : (struct vp_ece){0};
        begin_and_ask();
        deliver();
        CHECK(is_ece(events[TARGET].ece, offer.vendor_id, offer.options));
        ids[TARGET].ece = options == 2 ? (struct vp_ece){0x15b3, 0x20} : (struct vp_ece){0};
        answer_it();
        deliver();
        CHECK(is_up());
        CHECK(is_ece(events[ORIGIN].ece, ids[TARGET].ece.vendor_id, ids[TARGET].ece.options));
        end_both();
        CHECK(is_ece(events[TARGET].ece, 0, 0)); /* of the goodbye */
        close_both("enhancements go with request and answer");
    }
    offer = (struct vp_ece){0};
}

/* Each of the messages is lost, comes twice, or comes late. */
static void one_note_may_be_lost_or_come_twice_or_late(void)
{
    for (unsigned int n = 1; n <= 7; n++) {
        for (int how = 0; how < 3; how++) {
            open_both();
            *(how == 0 ? &lose : how == 1 ? &twice : &hold) = n;
            begin_and_ask();
            run_ms(ATTEMPT_MS);
            CHECK(is_up() && heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
            if (held_size) {
                arrive(held_to, held, held_size);
                held_size = 0;
                deliver();
                CHECK(is_up() && heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
            }
            end_both();
            CHECK(nothing_is_left() && heard[ORIGIN][VP_CM_REJECTED] == 0);
            close_both(how == 0 ? "lost" : how == 1 ? "twice" : "late");
        }
    }
}

/* A copy of a request that arrives when its connection is over is no request. */
static void a_late_copy_of_a_request_is_no_request(void)
{
    open_both();
    hold = 1;
    begin_and_ask();
    run_ms(ATTEMPT_MS);
    CHECK(is_up());
    vp_udcm_ops.disconnect(&ids[ORIGIN]);
    vp_cm_id_destroy(&ids[ORIGIN]);
    run_ms(10);
    vp_udcm_ops.disconnect(&ids[TARGET]);
    vp_cm_id_destroy(&ids[TARGET]);
    run_ms(100);
    arrive(held_to, held, held_size);
    run_ms(10);
    CHECK(heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
    run_ms(ATTEMPT_MS);
    CHECK(nothing_is_left());
    close_both("a late copy of a request is no request");
}

/* The same when the connection was closed long ago. */
static void a_later_copy_comes_to_nothing(void)
{
    open_both();
    hold = 1;
    begin_and_ask();
    run_ms(ATTEMPT_MS);
    CHECK(is_up());
    end_both();
    arrive(held_to, held, held_size);
    run_ms(10);
    CHECK(heard[TARGET][VP_CM_CONNECT_REQUEST] == 2 && heard[TARGET][VP_CM_REJECTED] == 1);
    vp_cm_id_destroy(&ids[TARGET]);
    run_ms(ATTEMPT_MS);
    CHECK(nothing_is_left());
    close_both("a later copy comes to nothing");
}

static void requests_are_repeated_less_and_less(void)
{
    open_both();
    target_thinks = true;
    begin_and_ask();
    run_ms(49);
    CHECK(sent == 1);
    run_ms(1);
    CHECK(sent == 2);
    run_ms(ATTEMPT_MS - 50);
    CHECK(sent >= 3 && sent <= 8 && heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
    unsigned int before = sent;
    run_ms(PATIENCE_MS);
    CHECK(sent - before >= PATIENCE_MS / 1000 - 1 && sent - before <= PATIENCE_MS / 1000 + 1);
    answer_it();
    run_ms(10);
    CHECK(is_up());
    end_both();
    close_both("requests are repeated less and less");
}

/* The number of a copy has 8 bits: it stays at the largest, and the time of the answer is that of
 * the last copy. */
static void copies_beyond_255_have_one_number(void)
{
    enum { LONG_MS = 300 * 1000 };

    open_both();
    target_thinks = true;
    begin_and_ask();
    run_ms(LONG_MS);
    CHECK(sent > UINT8_MAX && heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
    answer_it();
    run_ms(10);
    CHECK(is_up());
    end_both();
    close_both("copies beyond 255 have one number");
}

static void again(void)
{
    end_both();
    memset(ids, 0, sizeof(ids));
    memset(heard, 0, sizeof(heard));
}

/* The time to an answer is measured: requests to slow peers are not repeated too early, and loss
 * does not count as slowness. */
static void the_time_until_a_repetition_follows_the_answers(void)
{
    open_both();
    for (int i = 0; i < 10; i++) {
        target_thinks = true;
        begin_and_ask();
        unsigned int before = sent;
        run_ms(120);
        CHECK(sent == before || i < 9);
        answer_it();
        run_ms(1);
        CHECK(is_up());
        again();
    }
    target_thinks = false;
    for (int i = 0; i < 40; i++) {
        lose = i < 10 ? 0 : sent + 1;
        begin_and_ask();
        run_ms(i < 39 ? ATTEMPT_MS : 60);
        CHECK(is_up());
        again();
    }
    close_both("the time until a repetition follows the answers");
}

/* After many answers that took as long, to the millisecond: one of 0 ms counts as 1. It waits
 * 10 ms at least, and a quarter of a second at most. */
static void the_first_copy_follows_the_usual_time(int answer_ms, unsigned int copy_ms)
{
    unsigned int waited = 0;

    open_both();
    for (int i = 0; i < 12; i++) {
        target_thinks = true;
        begin_and_ask();
        deliver();
        for (int ms = 0; ms < answer_ms; ms++) { /* the copies are lost */
            pass_ms(1);
            vp_udcm_timers(&provs[ORIGIN], ut_clock_ms());
            wires[TARGET].tail = wires[TARGET].head;
        }
        answer_it();
        run_ms(1);
        CHECK(is_up());
        again();
    }
    target_thinks = true;
    begin_and_ask();
    for (unsigned int before = sent; sent == before && waited < ATTEMPT_MS; waited++)
        run_ms(1);
    CHECK(waited == copy_ms);
    answer_it();
    run_ms(1);
    again();
    close_both("the first copy follows the usual time");
}

/* An end that gives up notifies the other; or it refuses the other end's next message. */
static void who_gives_up_is_heard(bool loses)
{
    open_both();
    target_thinks = true;
    begin_and_ask();
    deliver();
    lose = loses ? sent + 1 : 0;
    vp_cm_id_destroy(&ids[ORIGIN]);
    deliver();
    CHECK(heard[TARGET][VP_CM_REJECTED] == !loses);
    if (loses) {
        answer_it();
        run_ms(10);
        CHECK(heard[TARGET][VP_CM_REJECTED] == 1);
    } else {
        struct rdma_conn_param param = param_of(TARGET);
        CHECK(vp_udcm_ops.accept(&ids[TARGET], &param) != 0);
    }
    vp_cm_id_destroy(&ids[TARGET]);
    run_ms(TIMEWAIT_MS);
    CHECK(nothing_is_left());
    close_both("who gives up is heard");
}

static void a_refusal_says_why(void)
{
    for (unsigned int n = 0; n <= 2; n++) {
        open_both();
        lose = n;
        target_refuses = VP_REJ_NO_ENDPOINT;
        begin_and_ask();
        deliver();
        vp_cm_id_destroy(&ids[TARGET]);
        run_ms(ATTEMPT_MS);
        CHECK(heard[ORIGIN][VP_CM_REJECTED] == 1 && heard[ORIGIN][VP_CM_CONNECT_RESPONSE] == 0);
        CHECK(events[ORIGIN].reject_reason == VP_REJ_NO_ENDPOINT);
        vp_cm_id_destroy(&ids[ORIGIN]);
        vp_cm_id_destroy(&ids[TARGET]);
        CHECK(nothing_is_left());
        close_both("a refusal says why");
    }
}

/* A goodbye to a peer that has ended is repeated for a while only. */
static void a_goodbye_is_repeated_for_a_while(void)
{
    open_both();
    begin_and_ask();
    run_ms(10);
    CHECK(is_up());
    unsigned int before = sent;
    provs[TARGET].ports[0].ud = NULL; /* the target has ended */
    vp_udcm_ops.disconnect(&ids[ORIGIN]);
    vp_cm_id_destroy(&ids[ORIGIN]);
    for (int i = 0; i < PATIENCE_MS && !nothing_is_left(); i++) {
        pass_ms(1);
        wires[TARGET].tail = wires[TARGET].head;
    }
    CHECK(nothing_is_left() && sent - before > 1 && sent - before <= 6);
    vp_cm_id_destroy(&ids[TARGET]);
    close_both("a goodbye is repeated for a while");
}

static void goodbyes_may_cross(void)
{
    open_both();
    begin_and_ask();
    run_ms(10);
    CHECK(is_up());
    for (int side = 0; side < SIDES; side++) {
        vp_udcm_ops.disconnect(&ids[side]);
        vp_cm_id_destroy(&ids[side]);
    }
    deliver();
    run_ms(TIMEWAIT_MS);
    CHECK(nothing_is_left() && heard[TARGET][VP_CM_DISCONNECTED] == 0);
    close_both("goodbyes may cross");
}

/* A datagram counts only with the receiver's key, the 16 bytes at 8. */
static void who_does_not_know_the_key_gets_no_answer(void)
{
    open_both();
    hold = 1;
    begin_and_ask();
    for (size_t i = 0; i < held_size && i < 40; i++) {
        bool matters = i < 5 || (i >= 8 && i < 24); /* magic, version, key */
        unsigned int strangers = heard[TARGET][VP_CM_WRONG_KEY], before = sent;
        if (!matters)
            continue;
        held[i] ^= 1;
        arrive(TARGET, held, held_size);
        deliver();
        held[i] ^= 1;
        CHECK(heard[TARGET][VP_CM_WRONG_KEY] == strangers + 1 && sent == before);
        CHECK(heard[TARGET][VP_CM_CONNECT_REQUEST] == 0);
    }
    arrive(TARGET, held, held_size - 1);
    deliver();
    CHECK(heard[TARGET][VP_CM_WRONG_KEY] == 22 && heard[TARGET][VP_CM_CONNECT_REQUEST] == 0);
    arrive(TARGET, held, held_size);
    deliver();
    CHECK(heard[TARGET][VP_CM_CONNECT_REQUEST] == 1);
    vp_cm_id_destroy(&ids[ORIGIN]);
    deliver();
    vp_cm_id_destroy(&ids[TARGET]);
    close_both("who does not know the key gets no answer");
}

/* A message of a third process that knows the key does not end another process's connection. */
static void messages_are_looked_at_by_who_sent_them(void)
{
    open_both();
    begin_and_ask();
    hold = 4;
    run_ms(10);
    CHECK(is_up() && sent == 3);
    vp_udcm_ops.disconnect(&ids[ORIGIN]); /* its message is held */
    CHECK(held_size);
    held[44] ^= 1; /* the sender's GID, changed */
    arrive(TARGET, held, held_size);
    struct vp_cm_event event;
    CHECK(!vp_udcm_next(&provs[TARGET], &event));
    held[44] ^= 1;
    arrive(TARGET, held, held_size);
    deliver();
    CHECK(heard[TARGET][VP_CM_DISCONNECTED] == 1);
    vp_cm_id_destroy(&ids[ORIGIN]);
    vp_cm_id_destroy(&ids[TARGET]);
    close_both("messages are looked at by who sent them");
}

/* A process that ends notifies the peers that ask it, and those that would. */
static void who_is_gone_is_not_asked(void)
{
    open_both();
    target_thinks = true;
    begin_and_ask();
    deliver();
    vp_udcm_close(&provs[TARGET]);
    struct vp_cm_event event;
    CHECK(vp_udcm_next(&provs[ORIGIN], &event) && event.type == VP_CM_REJECTED);
    CHECK(event.id == &ids[ORIGIN] && event.reject_reason == VP_REJ_DEAD);
    CHECK(!vp_udcm_next(&provs[ORIGIN], &event));
    vp_cm_id_destroy(&ids[ORIGIN]);
    struct vp_peer peer = {.ud = true, .at = provs[TARGET].ports[0].at};
    struct vp_cm_id id = {.kind = VP_CM_ID_CONN};
    CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &id, &provs[ORIGIN].ports[0], &peer) ==
          -ECONNREFUSED);
    peer.at.key[0] ^= 1; /* another process with the same number */
    CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &id, &provs[ORIGIN].ports[0], &peer) == 1);
    vp_cm_id_destroy(&id);
    unsigned int before = sent;
    vp_udcm_close(&provs[ORIGIN]);
    CHECK(sent == before + 2); /* only to the other process */
    printf("ok: who is gone is not asked\n");
}

static void the_end_of_a_process_ends_its_connections(void)
{
    open_both();
    begin_and_ask();
    run_ms(10);
    CHECK(is_up());
    vp_udcm_close(&provs[TARGET]);
    struct vp_cm_event event;
    CHECK(vp_udcm_next(&provs[ORIGIN], &event) && event.type == VP_CM_DISCONNECTED);
    CHECK(!vp_udcm_next(&provs[ORIGIN], &event));
    vp_cm_id_destroy(&ids[ORIGIN]);
    CHECK(nothing_is_left_of(ORIGIN));
    vp_udcm_close(&provs[ORIGIN]);
    printf("ok: the end of a process ends its connections\n");
}

static void a_moment_passes(void)
{
    pass_ms(1);
}

/* The port has a fifth of a second for the last datagrams. */
static void a_slow_port_does_not_hold_up_the_end(void)
{
    open_both();
    begin_and_ask();
    run_ms(10);
    CHECK(is_up());
    fake_ud_sends = a_moment_passes;
    uint64_t begin = ut_clock_ms();
    vp_udcm_announce_exit(&provs[TARGET]);
    CHECK(ut_clock_ms() - begin == 200);
    fake_ud_sends = NULL;
    for (int side = 0; side < SIDES; side++)
        vp_cm_id_destroy(&ids[side]);
    close_both("a slow port does not hold up the end");
}

/* On InfiniBand, where a port has got another LID, the subnet manager is asked for those of peers:
 * for a third of a second, and if it does not answer, not again for ten. */
static void a_silent_subnet_manager_is_left_alone(void)
{
    struct vp_peer peer = {.ud = true};
    struct vp_cm_id id = {.kind = VP_CM_ID_CONN};
    static const struct {
        int after_ms;
        unsigned int queries;
    } asked[] = {{0, 1}, {1, 1}, {9998, 1}, {1, 2}, {1, 2}};
    struct rdma_event_channel any;

    open_both();
    peer.at = provs[TARGET].ports[0].at;
    provs[ORIGIN].ports[0].gid_index = -1;
    provs[ORIGIN].channel = &any;
    vp_udcm_lid_changed(&provs[ORIGIN], &provs[ORIGIN].ports[0], 70);
    fake_ud_queries = 0;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        pass_ms(asked[i].after_ms);
        peer.at.key[0] = (uint8_t)i; /* another process */
        CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &id, &provs[ORIGIN].ports[0], &peer) == 1);
        vp_cm_id_destroy(&id);
        CHECK(fake_ud_queries == asked[i].queries && fake_ud_query_ms == 300);
    }
    provs[ORIGIN].channel = NULL;
    close_both("a silent subnet manager is left alone");
}

/* All connections with the process that ends are notified, and no others. */
static void the_end_of_a_process_ends_all_of_its_connections(void)
{
    enum { MANY = 9 };
    static struct vp_cm_id all[MANY];
    struct rdma_conn_param param = param_of(ORIGIN);
    struct vp_cm_event event;
    unsigned int told = 0;

    open_both();
    for (int i = 0; i < MANY; i++) {
        struct vp_peer peer = {.ud = true, .at = provs[TARGET].ports[0].at};
        peer.at.key[0] = (uint8_t)(peer.at.key[0] ^ (i % 3 == 2)); /* another process */
        all[i] = (struct vp_cm_id){.kind = VP_CM_ID_CONN};
        CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &all[i], &provs[ORIGIN].ports[0], &peer) ==
              1);
        CHECK(i == 0 || vp_udcm_ops.connect(&all[i], &param) == 0);
    }
    vp_cm_id_destroy(&all[3]);
    while (vp_udcm_next(&provs[TARGET], &event)) /* events of connections with the origin */
        vp_cm_id_destroy(&event.request_id);
    memset(wires, 0, sizeof(wires));
    vp_udcm_close(&provs[TARGET]);
    while (vp_udcm_next(&provs[ORIGIN], &event)) {
        long i = event.id - all;
        CHECK(i > 0 && i < MANY && i % 3 != 2 && i != 3);
        CHECK(event.type == VP_CM_REJECTED && event.reject_reason == VP_REJ_DEAD);
        told |= 1u << i;
    }
    CHECK(told == (1u << 1 | 1u << 4 | 1u << 6 | 1u << 7)); /* the first had not asked */
    for (int i = 0; i < MANY; i++)
        vp_cm_id_destroy(&all[i]);
    vp_udcm_close(&provs[ORIGIN]);
    printf("ok: the end of a process ends all of its connections\n");
}

/*
 * Random datagrams of a sender that knows the key
 */

enum { OWNERS = 16, ANY_NOTES = 200000, AT_KIND = 5, AT_SIZE = 7, AT_KEY = 8, AT_NUMBERS = 24 };

static struct vp_cm_id owners[OWNERS];
static uint64_t seed = 88172645463325252;

static uint32_t below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

static void any_request(struct vp_cm_event *event)
{
    struct rdma_conn_param param = param_of(TARGET);
    struct vp_cm_id *id = &owners[below(OWNERS)];

    vp_cm_id_destroy(id);
    *id = event->request_id;
    id->ops->set_owner(id);
    if (below(2))
        id->ops->accept(id, &param);
    else if (below(2))
        id->ops->reject(id, VP_REJ_BY_CORE);
}

static void any_event(struct vp_cm_event *event)
{
    if (event->type == VP_CM_CONNECT_REQUEST) {
        any_request(event);
        return;
    }
    CHECK(event->type == VP_CM_WRONG_KEY || event->id);
    if (event->type == VP_CM_CONNECT_RESPONSE && below(2))
        event->id->ops->establish(event->id);
    else if (event->id && below(2))
        vp_cm_id_destroy(event->id);
}

/* A random call, also of the target. */
static void any_call(void)
{
    struct vp_peer peer = {.ud = true, .at = provs[ORIGIN].ports[0].at};
    struct rdma_conn_param param = param_of(TARGET);
    struct vp_cm_id *id = &owners[below(OWNERS)];

    if (id->ops && below(2))
        id->ops->disconnect(id);
    vp_cm_id_destroy(id);
    int rc = vp_udcm_ops.resolve_addr(&provs[TARGET], id, &provs[TARGET].ports[0], &peer);
    CHECK(rc == 1 || rc == -ECONNREFUSED);
    if (rc == 1)
        vp_udcm_ops.connect(id, &param);
}

/* A random datagram; some take a number from the datagram sent last. */
static void any_note(const uint8_t *last)
{
    uint8_t msg[VP_UD_MAX];

    memcpy(msg, held, sizeof(msg));
    msg[AT_KIND] = (uint8_t)below(9);
    msg[AT_SIZE] = (uint8_t)(below(4) ? below(65) : below(256));
    for (uint32_t i = below(4); i; i--)
        msg[AT_NUMBERS + 8 + below(118)] = (uint8_t)below(256);
    memcpy(msg + AT_KEY, provs[TARGET].ports[0].at.key, VP_UD_KEY_BYTES);
    for (int i = 0; i < 8; i++)
        msg[AT_NUMBERS + i] =
            below(3) ? last[AT_NUMBERS + (i ^ (below(2) ? 4 : 0))] : (uint8_t)below(4);
    arrive(TARGET, msg, below(20) ? held_size : below(VP_UD_MAX));
}

static void anything_is_survived(void)
{
    struct vp_cm_event event;
    uint8_t last[VP_UD_MAX];

    open_both();
    hold = 1;
    drops = true;
    begin_and_ask();
    memcpy(last, held, sizeof(last));
    for (int n = 0; n < ANY_NOTES; n++) {
        any_note(last);
        if (below(8) == 0)
            any_call();
        while (vp_udcm_next(&provs[TARGET], &event))
            any_event(&event);
        if (wires[ORIGIN].head != wires[ORIGIN].tail)
            memcpy(last, wires[ORIGIN].data[(wires[ORIGIN].head - 1) % QUEUE], sizeof(last));
        wires[ORIGIN].tail = wires[ORIGIN].head;
        pass_ms((int)below(50));
        vp_udcm_timers(&provs[TARGET], ut_clock_ms());
    }
    for (int i = 0; i < OWNERS; i++)
        vp_cm_id_destroy(&owners[i]);
    vp_cm_id_destroy(&ids[ORIGIN]);
    close_both("anything is survived");
}

static void a_peer_that_cannot_be_reached_is_not_asked(void)
{
    struct vp_peer peer = {.ud = true, .at = provs[TARGET].ports[0].at};
    struct vp_cm_id id = {.kind = VP_CM_ID_CONN};

    open_both();
    reach_rc = -EHOSTUNREACH;
    CHECK(vp_udcm_ops.resolve_addr(&provs[ORIGIN], &id, &provs[ORIGIN].ports[0], &peer) ==
          -EHOSTUNREACH);
    CHECK(!id.ops && sent == 0);
    close_both("a peer that cannot be reached is not asked");
}

int main(void)
{
    CHECK(ut_process_environment() == 0);
    both_ends_know_each_other();
    enhancements_go_with_request_and_answer();
    one_note_may_be_lost_or_come_twice_or_late();
    a_late_copy_of_a_request_is_no_request();
    a_later_copy_comes_to_nothing();
    requests_are_repeated_less_and_less();
    copies_beyond_255_have_one_number();
    the_time_until_a_repetition_follows_the_answers();
    the_first_copy_follows_the_usual_time(0, 10);
    the_first_copy_follows_the_usual_time(20, 21);
    the_first_copy_follows_the_usual_time(900, 250);
    who_gives_up_is_heard(false);
    who_gives_up_is_heard(true);
    a_refusal_says_why();
    a_goodbye_is_repeated_for_a_while();
    goodbyes_may_cross();
    who_does_not_know_the_key_gets_no_answer();
    messages_are_looked_at_by_who_sent_them();
    who_is_gone_is_not_asked();
    the_end_of_a_process_ends_its_connections();
    the_end_of_a_process_ends_all_of_its_connections();
    a_slow_port_does_not_hold_up_the_end();
    a_silent_subnet_manager_is_left_alone();
    a_peer_that_cannot_be_reached_is_not_asked();
    anything_is_survived();
    return 0;
}
