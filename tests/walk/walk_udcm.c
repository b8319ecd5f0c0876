/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of handshakes by datagrams (provider/verbs/connect/udcm.c) between two processes.
 * The network delivers datagrams in any order, twice, or not at all; each timer expires at any
 * time; the users (active.c, passive.c and reap.c) accept, reject, give up and disconnect at any
 * time that cm_ops.h allows. From each state the walk also goes to the end on a good network.
 *
 * What has to hold:
 *   - A user gets no event that does not belong to its state, and none after it has destroyed its
 *     id; nobody is told twice that a connection is up, or that it has ended.
 *   - On a good network every exchange ends: no message is repeated for ever.
 *   - Then a connection that is up has a peer that is up, with the numbers of each other's queue
 *     pairs. One side alone is up only if the network lost the message of the side that gave up.
 *   - Nobody who waits and is not given up is left without an event.
 *   - When all users have destroyed their ids, no connection is left, nor a timer.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t now_ms;

static int fake_clock(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now_ms / 1000),
                              .tv_nsec = (long)(now_ms % 1000 * 1000000)};
    return 0;
}

#include "util/clock.h"

#define clock_gettime fake_clock
#include "../../src/util/clock.c"
#undef clock_gettime

static ssize_t begin_numbers(void *number, size_t size, unsigned int flags)
{
    (void)flags;
    memset(number, 0, size);
    return (ssize_t)size;
}

#define getrandom(number, size, flags) begin_numbers(number, size, flags)
#include "../../provider/verbs/connect/udcm.c"
#undef getrandom

#include "../provider/fake_ud.h"
#include "walk.h"

enum {
    SIDES = 2,
    MAX_USERS = 8, /* of a side at a time */
    MAX_FLIGHT = 24,
    MAX_STATES = 20000000,
    MAX_EXCHANGE = 100, /* datagrams and timers until a good network is silent */
    UD_QPN = 100,
};

enum user_state {
    NOBODY,
    /* the origin of a request */
    ASKS,
    /* the target of a request */
    ASKED,
    ACCEPTS, /* has sent its reply, and waits for the confirmation */
    /* both */
    UP,
    HAS_LOST, /* was up, and was told that the peer is gone */
};

struct user {
    enum user_state state;
    struct vp_cm_id id;
    bool origin;
    bool early; /* is up since data arrived, before the confirmation */
};

struct datagram {
    struct message msg;
    int to;
};

/* What a scenario allows. */
struct rules {
    unsigned int requests[SIDES]; /* that each side makes, one after the other */
    unsigned int answers[SIDES];  /* handshakes that each side begins for a REQ, before the end */
    bool loses, doubles;
    bool disconnects;
    bool exits; /* side 1 may exit at any time */
};

static struct rules rules;

static struct vp_prov provs[SIDES];
static struct user users[SIDES][MAX_USERS];
static unsigned int requests_left[SIDES], num_requests[SIDES]; /* num_requests: that were sent */
static struct datagram flight[MAX_FLIGHT];
static unsigned int num_flight;
static bool goodbye_lost[SIDES]; /* a REJ or a DREQ towards the side was lost */
static bool exited, heard_gone;  /* side 1 has exited; its GONE has arrived */
static const struct message *arriving;
static int arriving_at;
static bool good; /* on the way to the end: nobody gives up any more, nothing is lost */

enum reached { REACHED_UP, REACHED_ALONE, REACHED_CROSSED, REACHED_EARLY, REACHED_GONE };

/*** the network ***/

static int side_of_qpn(uint32_t qpn)
{
    return (int)(qpn - UD_QPN);
}

static bool is_same_message(const struct message *a, const struct message *b)
{
    struct message x = *a, y = *b;

    x.copy_number = x.echo = y.copy_number = y.echo = 0;
    return memcmp(&x, &y, sizeof(x)) == 0;
}

/* Two copies of a message under way are as one that arrives twice. */
bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size)
{
    struct datagram new = {.to = side_of_qpn(to->qpn)};

    (void)port;
    WALK_CHECK(size == sizeof(new.msg));
    memcpy(&new.msg, data, sizeof(new.msg));
    for (unsigned int i = 0; i < num_flight; i++) {
        if (flight[i].to == new.to && is_same_message(&flight[i].msg, &new.msg)) {
            flight[i] = new;
            return true;
        }
    }
    WALK_CHECK(num_flight < MAX_FLIGHT);
    flight[num_flight++] = new;
    return true;
}

size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl)
{
    if (!arriving || port != &provs[arriving_at].ports[0])
        return 0;
    memset(data, 0, VP_UD_MAX);
    memcpy(data, arriving, sizeof(*arriving));
    *sl = 0;
    arriving = NULL;
    return sizeof(struct message);
}

/*** the users ***/

static struct user *new_user(int side)
{
    for (int i = 0; i < MAX_USERS; i++)
        if (users[side][i].state == NOBODY)
            return &users[side][i];
    WALK_CHECK(!"a side has at most MAX_USERS users");
    abort();
}

static void destroy_user(struct user *user)
{
    vp_cm_id_destroy(&user->id);
    *user = (struct user){.state = NOBODY};
}

/* As active.c and passive.c fill it in. The number of the queue pair is that of the connection. */
static struct rdma_conn_param param_of(int side, const struct user *user)
{
    return (struct rdma_conn_param){.private_data = user->origin ? "question" : "answer..",
                                    .private_data_len = 8,
                                    .responder_resources = 4,
                                    .initiator_depth = 4,
                                    .qp_num = (uint32_t)(side + 1) << 16 | user->id.udcm->number};
}

static void begin_request(int side)
{
    struct vp_peer peer = {.ud = true, .at = provs[!side].ports[0].at};
    struct user *user = new_user(side);

    requests_left[side]--;
    *user = (struct user){.state = ASKS, .origin = true, .id = {.kind = VP_CM_ID_CONN}};
    int rc = vp_udcm_ops.resolve_addr(&provs[side], &user->id, &provs[side].ports[0], &peer);
    if (rc == -ECONNREFUSED) {
        WALK_CHECK(heard_gone);
        user->state = NOBODY;
        return;
    }
    WALK_CHECK(rc == 1);
    num_requests[side]++;
    struct rdma_conn_param param = param_of(side, user);
    WALK_CHECK(vp_udcm_ops.connect(&user->id, &param) == 0);
}

static void accept_request(int side, struct user *user)
{
    struct rdma_conn_param param = param_of(side, user);

    if (vp_udcm_ops.accept(&user->id, &param))
        destroy_user(user); /* the origin has given up */
    else
        user->state = ACCEPTS;
}

static void reject_user(struct user *user)
{
    vp_udcm_ops.reject(&user->id, VP_REJ_BY_CORE);
    destroy_user(user);
}

static void close_user(struct user *user)
{
    vp_udcm_ops.disconnect(&user->id);
    destroy_user(user);
}

static void take_response(struct user *user)
{
    WALK_CHECK(user->state == ASKS);
    /* its queue pair may fail */
    if (!good && walk_choose(2) == 1) {
        walk_step("    the origin cannot use the reply, and gives up", 0, 0, 0);
        destroy_user(user);
        return;
    }
    WALK_CHECK(vp_udcm_ops.establish(&user->id) == 0);
    user->state = UP;
}

static void take_confirmation(struct user *user)
{
    WALK_CHECK(user->state == ACCEPTS || user->early);
    user->state = UP;
    user->early = false;
}

/* The peer has given up, or disconnected. */
static void take_end(struct user *user)
{
    WALK_CHECK(user->state != NOBODY && user->state != HAS_LOST);
    user->early = false;
    if (user->state == UP)
        user->state = HAS_LOST; /* the owner closes it later */
    else
        destroy_user(user);
}

static void take_request(int side, const struct vp_cm_event *event)
{
    struct user *user = new_user(side);

    *user = (struct user){.state = ASKED, .id = event->request_id};
    user->id.ops->set_owner(&user->id);
}

static struct user *user_of_id(int side, const struct vp_cm_id *id)
{
    for (int i = 0; i < MAX_USERS; i++)
        if (users[side][i].state != NOBODY && &users[side][i].id == id)
            return &users[side][i];
    return NULL;
}

static void take_event(int side, const struct vp_cm_event *event)
{
    struct user *user = user_of_id(side, event->id);

    if (event->type == VP_CM_CONNECT_REQUEST) {
        take_request(side, event);
        return;
    }
    WALK_CHECK(user); /* its id exists */
    switch (event->type) {
    case VP_CM_CONNECT_RESPONSE:
        take_response(user);
        break;
    case VP_CM_ESTABLISHED:
        take_confirmation(user);
        break;
    case VP_CM_REJECTED:
    case VP_CM_DISCONNECTED:
        take_end(user);
        break;
    default:
        WALK_CHECK(!"no other event belongs here");
    }
}

static void deliver_datagram(unsigned int i, bool keep)
{
    struct message msg = flight[i].msg;
    struct vp_cm_event event;
    int side = flight[i].to;

    if (!keep)
        flight[i] = flight[--num_flight];
    if (side == 1 && exited)
        return;
    /* a process that it does not know yet is nothing to side 0 */
    if (msg.kind == GONE && find_process(provs[0].udcm, &provs[1].ports[0].at)) {
        heard_gone = true;
        walk_reached(REACHED_GONE);
    }
    walk_step("    kind %u from %u to %u", msg.kind, msg.from, msg.to);
    arriving = &msg;
    arriving_at = side;
    while (vp_udcm_next(&provs[side], &event))
        take_event(side, &event);
    WALK_CHECK(!arriving);
}

/* The process of side 1 exits. In its place is one to which no datagram comes. */
static void exit_side(void)
{
    vp_udcm_close(&provs[1]);
    WALK_CHECK(vp_udcm_open(&provs[1]) == 0);
    memset(users[1], 0, sizeof(users[1]));
    num_requests[1] = 0;
    exited = true;
}

static void expire_timer(int side)
{
    uint64_t at = vp_heap_next(&provs[side].udcm->timers);

    if (at > now_ms)
        now_ms = at;
    vp_udcm_timers(&provs[side], now_ms);
}

/* How many handshakes the side has begun for a REQ. */
static unsigned int num_answers(int side)
{
    return provs[side].udcm->last_number - num_requests[side];
}

/*** what a state is ***/

/* Numbers of connections are replaced by their ranks among those that somebody still knows. */
static void collect_numbers(struct walk_numbers numbers[SIDES])
{
    const struct vp_udcm_conn *conn;

    for (int side = 0; side < SIDES; side++) {
        UT_HASH_FOREACH_ALL (conn, &provs[side].udcm->by_number, by_number) {
            walk_add_number(&numbers[side], conn->number);
            walk_add_number(&numbers[!side], conn->peer_number);
        }
    }
    for (unsigned int i = 0; i < num_flight; i++) {
        walk_add_number(&numbers[!flight[i].to], flight[i].msg.from);
        walk_add_number(&numbers[flight[i].to], flight[i].msg.to);
    }
}

/* How many timers of the side expire earlier. */
static uint8_t timer_rank(int side, const struct vp_udcm_conn *conn)
{
    const struct vp_udcm_conn *other;
    uint8_t rank = 1;

    if (!vp_heap_has(&conn->timer))
        return 0;
    UT_HASH_FOREACH_ALL (other, &provs[side].udcm->by_number, by_number) {
        if (vp_heap_has(&other->timer) && other->timer.at < conn->timer.at)
            rank++;
    }
    return rank;
}

static void put_conn(struct walk_bytes *bytes, const struct walk_numbers numbers[SIDES], int side,
                     const struct vp_udcm_conn *conn)
{
    const struct user *user = conn->owner ? user_of_id(side, conn->owner) : NULL;

    walk_put_byte(bytes, conn->state);
    walk_put_byte(bytes, walk_rank_of(&numbers[!side], conn->peer_number));
    walk_put_byte(bytes, timer_rank(side, conn));
    walk_put_byte(bytes, conn->rep_sent);
    walk_put_byte(bytes, conn->passive.key != 0);
    walk_put_byte(bytes, conn->peer_qpn != 0);
    walk_put_byte(bytes, conn->state == DREQ_SENT ? conn->sent
                                                  : 0); /* compared with MAX_DREQS only there */
    walk_put_byte(bytes, conn->owner ? 1 : 0);
    walk_put_byte(bytes, user ? user->state : NOBODY);
    walk_put_byte(bytes, user && user->early);
}

static void put_conns(struct walk_bytes *bytes, const struct walk_numbers numbers[SIDES], int side)
{
    for (unsigned int i = 0; i < numbers[side].num; i++) {
        const struct vp_udcm_conn *conn = find_by_number(provs[side].udcm, numbers[side].of[i]);
        walk_put_byte(bytes, conn ? 1 : 0);
        if (conn)
            put_conn(bytes, numbers, side, conn);
    }
    walk_put_byte(bytes, requests_left[side]);
    walk_put_byte(bytes, num_answers(side));
    walk_put_byte(bytes, !vp_list_empty(&provs[side].udcm->due));
    const struct process *process = find_process(provs[side].udcm, &provs[!side].ports[0].at);
    walk_put_byte(bytes, !process ? 0 : process->gone ? 1 : 2);
    walk_put_byte(bytes, goodbye_lost[side]);
}

static int compare_datagrams(const void *a, const void *b)
{
    return memcmp(a, b, 5);
}

static void put_flight(struct walk_bytes *bytes, const struct walk_numbers numbers[SIDES])
{
    uint8_t sorted[MAX_FLIGHT][5];

    for (unsigned int i = 0; i < num_flight; i++) {
        const struct message *msg = &flight[i].msg;
        int to = flight[i].to;
        uint8_t key[5] = {(uint8_t)to, msg->kind, walk_rank_of(&numbers[!to], msg->from),
                          walk_rank_of(&numbers[to], msg->to), msg->reject_reason};
        memcpy(sorted[i], key, sizeof(key));
    }
    qsort(sorted, num_flight, sizeof(sorted[0]), compare_datagrams);
    for (unsigned int i = 0; i < num_flight; i++)
        for (unsigned int j = 0; j < sizeof(sorted[0]); j++)
            walk_put_byte(bytes, sorted[i][j]);
}

static void put_state(struct walk_bytes *bytes)
{
    struct walk_numbers numbers[SIDES] = {0};

    walk_put_byte(bytes, exited);
    walk_put_byte(bytes, heard_gone);
    collect_numbers(numbers);
    for (int side = 0; side < SIDES; side++)
        put_conns(bytes, numbers, side);
    put_flight(bytes, numbers);
}

/*** what has to hold at the end ***/

/* All users accept, and close what was lost. */
static bool run_users(void)
{
    bool any = false;

    for (int side = 0; side < SIDES; side++) {
        for (int i = 0; i < MAX_USERS; i++) {
            struct user *user = &users[side][i];
            bool is_late = exited && (user->state == ASKS || user->state == ACCEPTS || user->early);
            any |= user->state == ASKED || user->state == HAS_LOST || is_late;
            WALK_CHECK(!is_late || user->state == ACCEPTS ||
                       !heard_gone); /* an old REQ may come late */
            if (is_late)
                destroy_user(user); /* at its time limit, or when a keepalive fails */
            if (user->state == ASKED)
                accept_request(side, user);
            else if (user->state == HAS_LOST)
                close_user(user);
        }
    }
    return any;
}

/* Delivers in order of sending and lets timers expire until nothing happens any more. */
static void calm_down(void)
{
    for (int i = 0; i < MAX_EXCHANGE; i++) {
        uint64_t at[SIDES] = {vp_heap_next(&provs[0].udcm->timers),
                              vp_heap_next(&provs[1].udcm->timers)};
        if (num_flight > 0) {
            walk_step("  end: kind %u arrives at side %u", flight[0].msg.kind,
                      (unsigned int)flight[0].to, 0);
            deliver_datagram(0, false);
        } else if (run_users()) {
            walk_step("  end: all requests are accepted, and what was lost is closed", 0, 0, 0);
        } else if (at[0] || at[1]) {
            int side = !at[0] || (at[1] && at[1] < at[0]);
            walk_step("  end: a timer of side %u expires", (unsigned int)side, 0, 0);
            expire_timer(side);
        } else {
            return;
        }
    }
    WALK_CHECK(!"on a good network every exchange ends");
}

/* The connection of the other side that knows this one. */
static const struct vp_udcm_conn *peer_of(int side, const struct vp_udcm_conn *conn)
{
    const struct vp_udcm_conn *peer = find_by_number(provs[!side].udcm, conn->peer_number);

    return peer && peer->peer_number == conn->number ? peer : NULL;
}

static void check_user(int side, const struct user *user)
{
    const struct vp_udcm_conn *conn = user->id.udcm;
    const struct vp_udcm_conn *peer = peer_of(side, conn);
    const struct user *other = peer && peer->owner ? user_of_id(!side, peer->owner) : NULL;

    if (exited) {
        WALK_CHECK(!heard_gone); /* a keepalive will find out */
        return;
    }
    WALK_CHECK(user->state == UP && conn->state == ESTABLISHED && !user->early);
    if (!other || other->state != UP) {
        walk_reached(REACHED_ALONE);
        WALK_CHECK(goodbye_lost[side]);
        return;
    }
    walk_reached(REACHED_UP);
    WALK_CHECK(conn->peer_qpn == ((uint32_t)(!side + 1) << 16 | peer->number));
    WALK_CHECK(conn->peer_psn == peer->psn && conn->mtu == IBV_MTU_1024);
}

static void check_nothing_is_left(int side)
{
    const struct vp_udcm_conn *conn;

    UT_HASH_FOREACH_ALL (conn, &provs[side].udcm->by_number, by_number)
        WALK_CHECK(!conn);
    WALK_CHECK(vp_list_empty(&provs[side].udcm->due));
    WALK_CHECK(!vp_heap_next(&provs[side].udcm->timers));
}

static void finish_run(void)
{
    unsigned int num_up = 0;

    good = true;
    calm_down();
    for (int side = 0; side < SIDES; side++) {
        for (int i = 0; i < MAX_USERS; i++) {
            if (users[side][i].state != NOBODY)
                check_user(side, &users[side][i]);
            num_up += users[side][i].state == UP;
        }
    }
    if (num_up > 2)
        walk_reached(REACHED_CROSSED);
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < MAX_USERS; i++)
            if (users[side][i].state != NOBODY)
                destroy_user(&users[side][i]);
    calm_down();
    for (int side = 0; side < SIDES; side++)
        check_nothing_is_left(side);
}

/*** a run ***/

static void open_side(int side)
{
    struct vp_prov *prov = &provs[side];
    struct vp_port *port = &prov->ports[0];

    memset(prov, 0, sizeof(*prov));
    prov->kick_fd = -1;
    prov->num_ports = 1;
    port->num = 1;
    port->ud = (struct vp_ud *)prov; /* not used here */
    port->mtu = side ? IBV_MTU_1024 : IBV_MTU_4096;
    port->at.lid = (uint16_t)(7 + side);
    port->at.qpn = (uint32_t)(UD_QPN + side);
    memset(port->at.key, 0x40 + side, sizeof(port->at.key));
    WALK_CHECK(vp_udcm_open(prov) == 0);
    memset(users[side], 0, sizeof(users[side]));
    requests_left[side] = rules.requests[side];
    num_requests[side] = 0;
    goodbye_lost[side] = false;
}

static void close_side(int side)
{
    for (int i = 0; i < MAX_USERS; i++)
        if (users[side][i].state != NOBODY)
            destroy_user(&users[side][i]);
    vp_udcm_close(&provs[side]);
}

enum action {
    DELIVER = WALK_FINISH + 1,
    DELIVER_TWICE,
    LOSE,
    EXPIRE,
    REQUEST,
    ACCEPT,
    REJECT,
    GIVE_UP,
    CLOSE,
    EXIT,
    DATA_ARRIVES,
};

/* True if the origin's side is up, so that it may send data. */
static bool has_data(int side, const struct user *user)
{
    const struct vp_udcm_conn *peer = peer_of(side, user->id.udcm);
    const struct user *other = peer && peer->owner ? user_of_id(!side, peer->owner) : NULL;

    return other && other->state == UP;
}

static void add_users(struct walk_choices *choices, int side)
{
    for (unsigned int i = 0; i < MAX_USERS; i++) {
        const struct user *user = &users[side][i];
        if (user->state == ASKED) {
            walk_add_choice(choices, ACCEPT, side, i);
            walk_add_choice(choices, REJECT, side, i);
        }
        if (user->state == ASKS || user->state == ACCEPTS)
            walk_add_choice(choices, GIVE_UP, side, i);
        if (user->state == ACCEPTS && has_data(side, user))
            walk_add_choice(choices, DATA_ARRIVES, side, i);
        if (rules.disconnects && (user->state == UP || user->state == HAS_LOST))
            walk_add_choice(choices, CLOSE, side, i);
    }
}

/* True if the datagram would begin one handshake more than the scenario has. */
static bool is_beyond(const struct datagram *datagram)
{
    int side = datagram->to;

    return datagram->msg.kind == REQ && num_answers(side) == rules.answers[side] &&
           !find_passive(provs[side].udcm, &datagram->msg);
}

static void add_choices(struct walk_choices *choices)
{
    for (unsigned int i = 0; i < num_flight; i++) {
        if (is_beyond(&flight[i]))
            continue;
        walk_add_choice(choices, DELIVER, flight[i].to, i);
        if (rules.doubles)
            walk_add_choice(choices, DELIVER_TWICE, flight[i].to, i);
        if (rules.loses)
            walk_add_choice(choices, LOSE, flight[i].to, i);
    }
    if (rules.exits && !exited)
        walk_add_choice(choices, EXIT, 1, 0);
    for (int side = 0; side < SIDES; side++) {
        if (vp_heap_next(&provs[side].udcm->timers))
            walk_add_choice(choices, EXPIRE, side, 0);
        if (requests_left[side] > 0 && !(side == 1 && exited))
            walk_add_choice(choices, REQUEST, side, 0);
        add_users(choices, side);
    }
}

static void lose_datagram(unsigned int i)
{
    uint8_t kind = flight[i].msg.kind;

    if (kind == REJ || kind == DREQ)
        goodbye_lost[flight[i].to] = true;
    flight[i] = flight[--num_flight];
}

static void do_choice(const struct walk_choice *choice)
{
    static const char *const what[] = {
        [DELIVER] = "kind %2$u arrives at side %1$u (no. %3$u)",
        [DELIVER_TWICE] = "kind %2$u arrives at side %1$u (no. %3$u), and will arrive again",
        [LOSE] = "kind %2$u towards side %1$u (no. %3$u) is lost",
        [EXPIRE] = "a timer of side %1$u expires",
        [REQUEST] = "side %1$u requests a connection",
        [ACCEPT] = "user %3$u of side %1$u accepts",
        [REJECT] = "user %3$u of side %1$u rejects",
        [GIVE_UP] = "user %3$u of side %1$u gives up",
        [CLOSE] = "user %3$u of side %1$u disconnects",
        [EXIT] = "side %1$u exits",
        [DATA_ARRIVES] = "data arrives for user %3$u of side %1$u",
        [WALK_FINISH] = "from now on the network is good",
    };
    struct user *user = &users[choice->side][choice->i % MAX_USERS];
    bool is_datagram = choice->action >= DELIVER && choice->action <= LOSE;

    walk_step(what[choice->action], (unsigned int)choice->side,
              is_datagram ? flight[choice->i].msg.kind : 0, choice->i);
    switch (choice->action) {
    case DELIVER:
    case DELIVER_TWICE:
        deliver_datagram(choice->i, choice->action == DELIVER_TWICE);
        break;
    case LOSE:
        lose_datagram(choice->i);
        break;
    case EXPIRE:
        expire_timer(choice->side);
        break;
    case REQUEST:
        begin_request(choice->side);
        break;
    case ACCEPT:
        accept_request(choice->side, user);
        break;
    case REJECT:
        reject_user(user);
        break;
    case GIVE_UP:
        destroy_user(user);
        break;
    case CLOSE:
        close_user(user);
        break;
    case EXIT:
        exit_side();
        break;
    case DATA_ARRIVES:
        walk_reached(REACHED_EARLY);
        user->state = UP;
        user->early = true;
        break;
    case WALK_FINISH:
        finish_run();
        break;
    }
}

static void open_all(void)
{
    now_ms = 1000000;
    num_flight = 0;
    good = exited = heard_gone = false;
    for (int side = 0; side < SIDES; side++)
        open_side(side);
}

static void close_all(void)
{
    for (int side = 0; side < SIDES; side++)
        close_side(side);
}

static const struct walk_scenario scenarios[] = {
    SCENARIO("one request", 0, EARLY, .requests = {1}, .answers = {0, 1}, .disconnects = true),
    SCENARIO("a late copy", 0, UP, .requests = {1}, .answers = {0, 2}),
    SCENARIO("an exit", 0, GONE, .requests = {2}, .answers = {0, 1}, .exits = true),
    SCENARIO("an exit of the origin", 0, GONE, .requests = {0, 1}, .answers = {1},
             .disconnects = true, .loses = true, .exits = true),
    SCENARIO("one request, loss", 0, ALONE, .requests = {1}, .answers = {0, 1}, .disconnects = true,
             .loses = true),
    SCENARIO("requests cross", 1, CROSSED, .requests = {1, 1}, .answers = {1, 1}),
    SCENARIO("two requests", 1, UP, .requests = {2}, .answers = {0, 2}),
    SCENARIO("a late copy, loss", 1, ALONE, .requests = {1}, .answers = {0, 2}, .disconnects = true,
             .loses = true),
    SCENARIO("a late copy, loss, copies", 2, ALONE, .requests = {1}, .answers = {0, 2},
             .disconnects = true, .loses = true, .doubles = true),
    {.name = NULL},
};

static const struct walk_protocol protocol = {&rules,    sizeof(rules), MAX_STATES, open_all,
                                              put_state, add_choices,   do_choice,  close_all};

int main(int argc, char **argv)
{
    return walk_main(argc, argv, &protocol, scenarios);
}
