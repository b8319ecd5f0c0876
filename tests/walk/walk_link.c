/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of a link between two VCQs (src/link/connect.c, fsm.c, hello.c, owner.c, link.c)
 * over a model of a provider. Its connections carry operations in order; they may break, with or
 * without the other side's knowledge, be closed by the provider while nothing is under way, or be
 * with a peer that is silent, that has ended, that has no VCQ yet, or that cannot be reached. The
 * clock moves only from one time limit to the next.
 *
 * From each state the walk goes to the end: nothing breaks any more, and timers expire as they are
 * due. What has to hold:
 *   - Every communication ends: well, if it was executed, and it was executed once, in its order.
 *   - If nothing but connections was lost, each one ends well.
 *   - Nobody waits without a timer, an answer under way, or a connection.
 *   - Both links are up over the same connection, or neither is up.
 *   - Communications fail as lost when the time limit of their attempts has passed, not before it
 *     and not much later: UTOFU_JOB_TIMEOUT for the first connection, UTOFU_PEER_TIMEOUT after a
 *     break.
 *   - No connection of the provider is left when the VCQs are freed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "link/hello.h"
#include "link/link.h"
#include "peers/peers.h"
#include "provider.h"
#include "util/env.h"
#include "util/log.h"
#include "walk.h"

enum {
    SIDES = 2,
    MAX_CONNS = 512, /* of the provider in a run */
    MAX_FLIGHT = 32,
    MAX_OPS = 4, /* communications of a side */
    MAX_CALM = 600,
    MAX_STATES = 2000000,
    PEER_TIMEOUT_MS = 10000,
    JOB_TIMEOUT_MS = 60000,
    FIRST_MS = 1000000,
};

/* What a scenario allows. */
struct rules {
    unsigned int works[SIDES]; /* communications of each side */
    unsigned int breaks;       /* of connections, known to both sides at once */
    unsigned int unseen;       /* breaks that the other side finds out later */
    unsigned int suspends;     /* connections closed without work */
    unsigned int silences;     /* peers found to be silent */
    unsigned int jumps;        /* time limits that pass */
    unsigned int late;         /* requests that arrive behind what was sent after them */
    unsigned int shortages;    /* connections refused by the provider for want of memory */
    bool absent;               /* side 1 has no VCQ, until the end or the time limit */
    bool unreachable;          /* from some time on no request arrives */
    bool dies;                 /* side 1 may die */
};

static struct rules rules, left;

enum conn_state { UNUSED, REQUESTED, INCOMING, ACCEPTED, UP, ENDED };

/* A side's end of a connection. */
struct conn {
    enum conn_state state;
    int side;
    struct conn *peer; /* NULL: not known yet */
    struct ut_link *link;
    struct ut_hello hello; /* of the peer */
};

enum kind { REQ, ACC, REJ, NO_VCQ, START, OP, ACK, CLOSE, BREAK, NO_WAY };

struct packet {
    enum kind kind;
    struct conn *from, *to;
    struct ut_hello hello;
    unsigned int op;
};

enum op_state { WAITING, POSTED, DONE };

/* A communication of a side. */
struct op {
    enum op_state state;
    uint64_t number; /* of its message on the link; 0: none */
    bool failed;
};

struct side {
    struct ut_vcq vcq;
    struct ut_stag_table stags;
    struct op ops[MAX_OPS];
    unsigned int num_ops, works_left;
    unsigned int executed;       /* communications of the other side */
    uint64_t began_ms, limit_ms; /* of the attempts to connect */
    uint64_t silent_ms;          /* the peer was silent; 0: it has answered since */
    bool dead, present;
};

static struct side sides[SIDES];
static struct conn conns[MAX_CONNS];
static unsigned int num_conns;
static struct packet flight[SIDES][MAX_FLIGHT]; /* towards each side */
static unsigned int num_flight[SIDES];
static uint64_t now_ms;
static bool cut;       /* no request arrives any more */
static bool disturbed; /* a communication may fail */
static bool slow;      /* a time limit passed while something was under way, or due */
static bool good;      /* on the way to the end */

enum reached {
    REACHED_UP,
    REACHED_CROSSED,
    REACHED_LOST,
    REACHED_SILENT,
    REACHED_DEAD,
    REACHED_REPLACED,
    REACHED_OUTDATED,
    REACHED_FREED
};

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now_ms / 1000),
                              .tv_nsec = (long)(now_ms % 1000 * 1000000)};
    return 0;
}

static int side_of(const struct ut_vcq *vcq)
{
    return vcq == &sides[1].vcq;
}

static struct ut_link *link_of(int side)
{
    return sides[side].vcq.all_links;
}

/*** the provider ***/

static struct prov prov;

static struct conn *new_conn(int side)
{
    struct conn *conn = &conns[num_conns++];

    WALK_CHECK(num_conns <= MAX_CONNS);
    *conn = (struct conn){.side = side};
    return conn;
}

static void send_packet(enum kind kind, struct conn *from, struct conn *to, const void *hello,
                        unsigned int op)
{
    int side = !from->side;
    struct packet *packet = &flight[side][num_flight[side]++];

    WALK_CHECK(num_flight[side] <= MAX_FLIGHT);
    *packet = (struct packet){.kind = kind, .from = from, .to = to, .op = op};
    if (hello)
        memcpy(&packet->hello, hello, sizeof(packet->hello));
}

static int model_connect(struct prov_ep *ep, const void *addr, size_t addr_size,
                         unsigned int peer_tni, uint64_t peer_id, const void *hello, size_t size,
                         void *ctx, struct prov_conn **out)
{
    struct ut_link *link = ctx;

    (void)ep, (void)addr, (void)addr_size, (void)peer_tni, (void)peer_id;
    WALK_CHECK(size == sizeof(struct ut_hello) && !link->conn);
    if (!good && left.shortages > 0 && walk_choose(2) == 1) {
        walk_step("    the provider lacks memory", 0, 0, 0);
        left.shortages--;
        return -ENOMEM;
    }
    struct conn *conn = new_conn(side_of(link->vcq));
    conn->state = REQUESTED;
    conn->link = link;
    send_packet(REQ, conn, NULL, hello, 0);
    *out = (struct prov_conn *)conn;
    return 0;
}

static int model_accept(struct prov_conn *base, const void *hello, size_t size, void *ctx)
{
    struct conn *conn = (struct conn *)base;

    WALK_CHECK(conn->state == INCOMING && size == sizeof(conn->hello));
    conn->state = ACCEPTED;
    conn->link = ctx;
    send_packet(ACC, conn, conn->peer, hello, 0);
    return 0;
}

static void model_reject(struct prov_conn *base)
{
    struct conn *conn = (struct conn *)base;

    WALK_CHECK(conn->state == INCOMING);
    conn->state = ENDED;
    send_packet(REJ, conn, conn->peer, NULL, 0);
}

static void model_close(struct prov_conn *base)
{
    struct conn *conn = (struct conn *)base;

    if (conn->state == ACCEPTED || conn->state == UP)
        send_packet(CLOSE, conn, conn->peer, NULL, 0);
    conn->state = ENDED;
}

static const struct prov_ops model_ops = {.name = "model",
                                          .connect = model_connect,
                                          .accept = model_accept,
                                          .reject = model_reject,
                                          .conn_close = model_close};

/*** what the links use ***/

static struct ut_process process;

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer);
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    *peer = (struct ut_peer){.rank = vcq->cq};
    return 0;
}

bool __wrap_ut_peers_explain_wrong_cq(const struct ut_vcq_ident *vcq, char *text, size_t size);
bool __wrap_ut_peers_explain_wrong_cq(const struct ut_vcq_ident *vcq, char *text, size_t size)
{
    (void)vcq, (void)text, (void)size;
    return false;
}

uint32_t __wrap_ut_stag_dir_rkey(const struct ut_stag_table *table, int provider);
uint32_t __wrap_ut_stag_dir_rkey(const struct ut_stag_table *table, int provider)
{
    (void)table, (void)provider;
    return 1;
}

struct ut_rx_history __wrap_ut_rx_history_find(uint64_t own, uint64_t peer);
struct ut_rx_history __wrap_ut_rx_history_find(uint64_t own, uint64_t peer)
{
    (void)own, (void)peer;
    return (struct ut_rx_history){0};
}

void __wrap_ut_rx_history_save(uint64_t own, uint64_t peer, struct ut_rx_history history);
void __wrap_ut_rx_history_save(uint64_t own, uint64_t peer, struct ut_rx_history history)
{
    (void)own, (void)peer, (void)history;
}

/* The thread is told of timers. */
static bool is_told[SIDES];

void __wrap_ut_vcq_request_progress(struct ut_vcq *vcq);
void __wrap_ut_vcq_request_progress(struct ut_vcq *vcq)
{
    is_told[side_of(vcq)] = true;
}

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...)
{
    (void)level, (void)category, (void)format;
}

/*** the engine ***/

static void set_first(struct ut_link *link)
{
    const struct side *side = &sides[side_of(link->vcq)];

    link->first = UT_NO_SLOT;
    for (unsigned int i = side->num_ops; i > 0; i--)
        if (side->ops[i - 1].state != DONE)
            link->first = i - 1;
}

static void end_op(struct ut_link *link, struct op *op, bool failed)
{
    op->state = DONE;
    op->failed = failed;
    set_first(link);
}

static void on_connected(struct ut_link *link)
{
    walk_reached(link->was_up ? REACHED_REPLACED : REACHED_UP);
}

static void post_waiting(struct ut_link *link)
{
    struct side *side = &sides[side_of(link->vcq)];
    struct conn *conn = (struct conn *)link->conn;

    WALK_CHECK(link->state == UT_LINK_UP && conn);
    for (unsigned int i = 0; i < side->num_ops; i++) {
        struct op *op = &side->ops[i];
        if (op->state != WAITING)
            continue;
        if (conn->state == ACCEPTED) { /* nothing can be sent yet */
            ut_link_schedule(link);
            return;
        }
        WALK_CHECK(conn->state == UP);
        op->state = POSTED;
        op->number = ++link->tx_number;
        send_packet(OP, conn, conn->peer, NULL, i);
    }
}

static void check_time(const struct ut_link *link, int rc)
{
    enum { SLACK_MS = 1500 };
    const struct side *side = &sides[side_of(link->vcq)];
    uint64_t time = now_ms - side->began_ms, limit = side->limit_ms;

    if (rc != UTOFU_ERR_MRQ_PEER)
        return;
    if (link->why.cause == UT_CAUSE_NO_VCQ || link->why.cause == UT_CAUSE_SILENT)
        limit = PEER_TIMEOUT_MS;
    else if (link->why.cause != UT_CAUSE_LOST)
        return;
    WALK_CHECK(link->why.detail == limit / 1000); /* the seconds that the error names */
    if (link->why.cause == UT_CAUSE_SILENT)
        return;
    walk_reached(REACHED_LOST);
    WALK_CHECK(time >= limit && (slow || time <= limit + PEER_TIMEOUT_MS + SLACK_MS));
}

static void fail_all(struct ut_link *link, int rc)
{
    struct side *side = &sides[side_of(link->vcq)];

    WALK_CHECK(disturbed);
    check_time(link, rc);
    for (unsigned int i = 0; i < side->num_ops; i++)
        if (side->ops[i].state != DONE)
            end_op(link, &side->ops[i], true);
}

static void repost_all(struct ut_link *link)
{
    struct side *side = &sides[side_of(link->vcq)];

    for (unsigned int i = 0; i < side->num_ops; i++)
        if (side->ops[i].state == POSTED)
            side->ops[i].state = WAITING;
}

static void on_delivered(struct ut_link *link, uint64_t count, bool recreated)
{
    struct side *side = &sides[side_of(link->vcq)];

    WALK_CHECK(!recreated);
    for (unsigned int i = 0; i < side->num_ops; i++) {
        struct op *op = &side->ops[i];
        if (op->state == WAITING && op->number > 0 && op->number <= count)
            end_op(link, op, false);
        op->number = 0;
    }
}

static const struct ut_link_ops engine = {.connected = on_connected,
                                          .post_waiting = post_waiting,
                                          .fail_all = fail_all,
                                          .repost_all = repost_all,
                                          .delivered = on_delivered};

/* As the engine does for a new communication. */
static void add_work(int number)
{
    struct side *side = &sides[number];
    struct ut_link *link = ut_link_get(&side->vcq, sides[!number].vcq.id);

    WALK_CHECK(link && side->num_ops < MAX_OPS);
    side->ops[side->num_ops++] = (struct op){.state = WAITING};
    set_first(link);
    if (side->silent_ms > 0 && link->state == UT_LINK_SILENT)
        WALK_CHECK(ut_link_pause_is_over(link) ==
                   (now_ms >= side->silent_ms + PEER_TIMEOUT_MS / UT_FSM_FIRST_PAUSE_DIVISOR));
    if (link->state == UT_LINK_IDLE || ut_link_pause_is_over(link)) {
        side->began_ms = now_ms;
        side->limit_ms = JOB_TIMEOUT_MS;
    }
    ut_link_start_connecting(link);
    if (link->state == UT_LINK_UP)
        post_waiting(link);
    else if (ut_link_is_given_up(link))
        end_op(link, &side->ops[side->num_ops - 1], true);
}

/*** what arrives ***/

static void take_down(struct conn *conn, enum prov_reason reason)
{
    struct side *side = &sides[conn->side];
    struct ut_link *link = conn->link;

    WALK_CHECK(link && link->conn == (struct prov_conn *)conn);
    if (link->state == UT_LINK_UP) {
        side->began_ms = now_ms;
        side->limit_ms = reason == PROV_REASON_SUSPENDED ? JOB_TIMEOUT_MS : PEER_TIMEOUT_MS;
    }
    conn->state = ENDED;
    ut_link_on_down(link, reason);
    if (link->state == UT_LINK_SILENT && side->silent_ms == 0)
        side->silent_ms = now_ms;
    else
        side->silent_ms = 0; /* later pauses are longer */
}

static void take_request(int side, const struct packet *packet)
{
    struct ut_link *link = link_of(side);

    struct conn *conn = new_conn(side);
    conn->peer = packet->from;
    conn->hello = packet->hello;
    conn->state = cut || !sides[side].present ? ENDED : INCOMING;
    if (cut) { /* the network tells the sender */
        send_packet(NO_WAY, conn, packet->from, NULL, 0);
        return;
    }
    if (!sides[side].present) {
        send_packet(NO_VCQ, conn, packet->from, NULL, 0);
        return;
    }
    if (link && ut_link_request_is_outdated(link, &packet->hello, sizeof(packet->hello)))
        walk_reached(REACHED_OUTDATED);
    if (link && link->state == UT_LINK_CONNECTING)
        walk_reached(REACHED_CROSSED);
    ut_link_on_request(&sides[side].vcq, &prov, (struct prov_conn *)conn,
                       ut_vcq_id_key(sides[!side].vcq.id), &packet->hello, sizeof(packet->hello));
}

static void take_reply(struct conn *conn, const struct packet *packet)
{
    if (conn->state != REQUESTED) {
        send_packet(CLOSE, conn, packet->from, NULL, 0);
        return;
    }
    conn->state = UP;
    conn->peer = packet->from;
    conn->hello = packet->hello;
    send_packet(START, conn, conn->peer, NULL, 0);
    ut_link_on_up(conn->link, &conn->hello, sizeof(conn->hello));
}

static void take_op(struct conn *conn, const struct packet *packet)
{
    struct side *side = &sides[conn->side];

    WALK_CHECK(conn->state == UP && packet->op >= side->executed); /* once, and in order */
    side->executed = packet->op + 1;
    conn->link->rx_number++;
    send_packet(ACK, conn, conn->peer, NULL, packet->op);
}

static void take_for_conn(struct conn *conn, const struct packet *packet)
{
    if (packet->kind == ACC) {
        take_reply(conn, packet);
        return;
    }
    if (conn->state == ENDED || conn->state == UNUSED)
        return;
    switch (packet->kind) {
    case REJ:
        take_down(conn, PROV_REASON_REJECTED);
        break;
    case NO_VCQ:
        disturbed = true;
        walk_reached(REACHED_FREED);
        take_down(conn, PROV_REASON_NO_ENDPOINT);
        break;
    case NO_WAY:
    case BREAK:
        take_down(conn, PROV_REASON_BROKEN);
        break;
    case CLOSE:
        take_down(conn, PROV_REASON_CLOSED);
        break;
    case START:
        conn->state = UP;
        ut_link_on_up(conn->link, &conn->hello, sizeof(conn->hello));
        break;
    case OP:
        take_op(conn, packet);
        break;
    default: /* ACK */
        WALK_CHECK(sides[conn->side].ops[packet->op].state == POSTED);
        end_op(conn->link, &sides[conn->side].ops[packet->op], false);
        break;
    }
}

static void deliver(int side)
{
    const struct packet packet = flight[side][0];

    num_flight[side]--;
    memmove(&flight[side][0], &flight[side][1], num_flight[side] * sizeof(packet));
    walk_step("    kind %u arrives at side %u", packet.kind, (unsigned int)side, 0);
    if (sides[side].dead)
        return;
    if (packet.kind == REQ)
        take_request(side, &packet);
    else
        take_for_conn(packet.to, &packet);
}

/* What is under way for either end is lost. */
static void drop_packets(const struct conn *conn)
{
    for (int side = 0; side < SIDES; side++) {
        unsigned int n = 0;
        for (unsigned int i = 0; i < num_flight[side]; i++) {
            const struct packet *p = &flight[side][i];
            bool is_of_it = p->to && (p->to == conn || p->to == conn->peer) &&
                            (p->from == conn || p->from == conn->peer) && p->kind != ACC;
            if (!is_of_it)
                flight[side][n++] = *p;
        }
        num_flight[side] = n;
    }
}

static void break_conn(struct conn *conn, enum prov_reason reason, bool seen)
{
    drop_packets(conn);
    if (conn->peer && seen)
        send_packet(BREAK, conn, conn->peer, NULL, 0);
    take_down(conn, reason);
}

/*** time ***/

static uint64_t due_of(int side)
{
    return sides[side].dead ? UINT64_MAX : ut_link_next_deadline(&sides[side].vcq, now_ms);
}

static void run_timers(int side)
{
    uint64_t due = due_of(side);

    WALK_CHECK(is_told[side]);
    if (due > now_ms) { /* a call of the program before that */
        WALK_CHECK(ut_link_run_scheduled(&sides[side].vcq) == 0 && due_of(side) == due);
        now_ms = due;
    }
    ut_link_run_scheduled(&sides[side].vcq);
}

/* The next time limit of a link. */
static uint64_t next_limit(int side)
{
    const struct ut_link *link = link_of(side);
    uint64_t next = UINT64_MAX;

    if (!link)
        return next;
    const uint64_t limits[] = {link->deadline_ms, link->deadline_ms + PEER_TIMEOUT_MS,
                               link->deadline_ms - JOB_TIMEOUT_MS + PEER_TIMEOUT_MS,
                               link->pause_end_ms, link->up_ms + UT_FSM_EARLY_BREAK_MS};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i] >= now_ms && limits[i] < next && limits[i] < now_ms + 2 * JOB_TIMEOUT_MS)
            next = limits[i];
    return next;
}

static void jump(int side)
{
    slow |= num_flight[0] + num_flight[1] > 0 || due_of(side) <= now_ms;
    now_ms = next_limit(side) + 1;
}

/*** what a state is ***/

static unsigned int is_past(uint64_t time)
{
    return now_ms >= time;
}

/* Ends of connections that still matter, in their order. */
static unsigned int rank_of(const struct conn *conn)
{
    unsigned int rank = 1;

    if (!conn)
        return 0;
    for (const struct conn *c = conns; c != conn; c++)
        rank += c->state != ENDED;
    return rank;
}

static void put_link(struct walk_bytes *bytes, const struct ut_link *link,
                     const struct ut_link *peer)
{
    walk_put_byte(bytes, link->state);
    walk_put_byte(bytes, rank_of((struct conn *)link->conn));
    walk_put_byte(bytes, link->was_up | link->is_scheduled << 1 | link->no_vcq_warned << 2);
    walk_put_byte(bytes, is_past(link->deadline_ms) |
                             is_past(link->deadline_ms + PEER_TIMEOUT_MS) << 1 |
                             is_past(link->deadline_ms - JOB_TIMEOUT_MS + PEER_TIMEOUT_MS) << 2 |
                             is_past(link->pause_end_ms) << 3 |
                             is_past(link->up_ms + UT_FSM_EARLY_BREAK_MS) << 4 |
                             (link->deadline_ms > now_ms + PEER_TIMEOUT_MS) << 5);
    walk_put_byte(bytes, link->first & 0xff);
    walk_put_byte(bytes, link->breaks);
    walk_put_byte(bytes, link->breaks_slot & 0xff);
    walk_put_byte(bytes, link->backoff_ms);
    walk_put_byte(bytes, link->pause_ms / 1000);
    walk_put_byte(bytes, peer ? (peer->serial - link->serial) & 0xff : 0);
    walk_put_byte(bytes, peer ? (peer->serial - link->rmt_serial) & 0xff : 0);
    walk_put_byte(bytes, peer ? (peer->rx_number - link->tx_number) & 0xff : 0);
    walk_put_byte(bytes, link->peer_incarnation != 0);
    walk_put_byte(bytes, (unsigned int)link->rx_number);
}

static void put_side(struct walk_bytes *bytes, int number)
{
    const struct side *side = &sides[number];

    walk_put_byte(bytes, side->dead | side->present << 1);
    walk_put_byte(bytes, side->works_left);
    walk_put_byte(bytes, side->executed);
    walk_put_byte(bytes, side->limit_ms == JOB_TIMEOUT_MS);
    for (unsigned int i = 0; i < side->num_ops; i++) {
        walk_put_byte(bytes, side->ops[i].state | side->ops[i].failed << 2);
        walk_put_byte(bytes, (unsigned int)side->ops[i].number);
    }
    walk_put_byte(bytes, 255);
    if (link_of(number))
        put_link(bytes, link_of(number), link_of(!number));
    for (unsigned int i = 0; i < num_flight[number]; i++) {
        const struct packet *p = &flight[number][i];
        walk_put_byte(bytes, p->kind);
        walk_put_byte(bytes, rank_of(p->from));
        walk_put_byte(bytes, rank_of(p->to));
        walk_put_byte(bytes, p->to && p->to->state == ENDED);
        walk_put_byte(bytes, p->op);
        walk_put_byte(bytes,
                      link_of(!number) ? (link_of(!number)->serial - p->hello.serial) & 0xff : 0);
        walk_put_byte(bytes, (unsigned int)p->hello.rx_count);
    }
    walk_put_byte(bytes, 255);
}

static void put_state(struct walk_bytes *bytes)
{
    walk_put_byte(bytes, left.breaks);
    walk_put_byte(bytes, left.unseen);
    walk_put_byte(bytes, left.suspends);
    walk_put_byte(bytes, left.silences);
    walk_put_byte(bytes, left.jumps);
    walk_put_byte(bytes, left.shortages);
    walk_put_byte(bytes, left.late);
    walk_put_byte(bytes, cut | disturbed << 1 | slow << 2);
    for (unsigned int i = 0; i < num_conns; i++) {
        if (conns[i].state == ENDED)
            continue;
        walk_put_byte(bytes, conns[i].state | conns[i].side << 4);
        walk_put_byte(bytes, rank_of(conns[i].peer));
        walk_put_byte(bytes, conns[i].peer && conns[i].peer->state == ENDED);
    }
    walk_put_byte(bytes, 255);
    for (int side = 0; side < SIDES; side++)
        put_side(bytes, side);
}

/*** the end ***/

/* A connection whose other end is no more, and about which nothing is under way. */
static struct conn *find_half_open(void)
{
    for (unsigned int i = 0; i < num_conns; i++) {
        struct conn *conn = &conns[i];
        bool alone = conn->peer && (conn->peer->state == ENDED || sides[!conn->side].dead);
        if ((conn->state == UP || conn->state == ACCEPTED) && alone && !sides[conn->side].dead)
            return conn;
        if (conn->state == REQUESTED && sides[!conn->side].dead && !sides[conn->side].dead)
            return conn;
    }
    return NULL;
}

static void end_half_open(struct conn *conn)
{
    bool dead = sides[!conn->side].dead;

    walk_step("  end: a half connection of side %u ends", (unsigned int)conn->side, 0, 0);
    if (dead)
        walk_reached(REACHED_DEAD);
    take_down(conn, dead ? PROV_REASON_PEER_DEAD : PROV_REASON_BROKEN);
}

static bool run_something(void)
{
    int side = due_of(1) < due_of(0);

    if (num_flight[0] + num_flight[1] > 0) {
        deliver(num_flight[0] == 0);
        return true;
    }
    struct conn *half = find_half_open();
    if (half) {
        end_half_open(half);
        return true;
    }
    if (due_of(side) == UINT64_MAX)
        return false;
    walk_step("  end: a timer of side %u expires", (unsigned int)side, 0, 0);
    if ((cut || !sides[1].present) && due_of(side) <= now_ms + UT_FSM_MAX_BACKOFF_MS)
        now_ms += 900; /* many attempts as one */
    run_timers(side);
    return true;
}

static void check_ops(int number)
{
    const struct side *side = &sides[number];

    for (unsigned int i = 0; i < side->num_ops; i++) {
        WALK_CHECK(side->ops[i].state == DONE && (disturbed || !side->ops[i].failed));
        WALK_CHECK(side->ops[i].failed || sides[!number].dead || sides[!number].executed > i);
    }
}

static void check_links(void)
{
    const struct ut_link *a = link_of(0), *b = link_of(1);
    bool a_up = a && a->state == UT_LINK_UP, b_up = b && b->state == UT_LINK_UP;

    if (sides[1].dead) {
        WALK_CHECK(!a_up);
        return;
    }
    WALK_CHECK(a_up == b_up);
    if (a_up)
        WALK_CHECK(((struct conn *)a->conn)->peer == (struct conn *)b->conn);
}

static void finish_run(void)
{
    int i = 0;

    good = true;
    if (!rules.jumps)
        sides[1].present = true;
    while (run_something())
        WALK_CHECK(i++ < MAX_CALM); /* they come to rest */
    for (int side = 0; side < SIDES; side++)
        if (!sides[side].dead)
            check_ops(side);
    check_links();
}

/*** a run ***/

static void open_side(int number)
{
    struct side *side = &sides[number];
    const struct ut_vcq_ident ident = {.cq = (uint16_t)number};

    memset(side, 0, sizeof(*side));
    side->works_left = rules.works[number];
    side->present = number == 0 || !rules.absent;
    side->vcq.id = ut_vcq_id_pack(&ident);
    side->vcq.incarnation = 1 + (uint64_t)number;
    side->vcq.link_ops = &engine;
    side->vcq.stags = &side->stags;
    side->vcq.eps[0] = (struct ut_vcq_ep){.ops = &model_ops};
    side->vcq.num_eps = 1;
    side->vcq.eps_end = &side->vcq.eps[1];
    side->vcq.last_link = &ut_link_none;
    num_flight[number] = 0;
    is_told[number] = false;
}

static void open_all(void)
{
    now_ms = FIRST_MS;
    left = rules;
    num_conns = 0;
    cut = slow = good = false;
    disturbed = rules.unreachable || rules.absent;
    for (int side = 0; side < SIDES; side++)
        open_side(side);
}

static void close_all(void)
{
    for (int side = 0; side < SIDES; side++)
        ut_link_destroy_all(&sides[side].vcq);
    for (unsigned int i = 0; i < num_conns; i++)
        WALK_CHECK(conns[i].state == ENDED);
}

enum action {
    DELIVER = WALK_FINISH + 1,
    LATE,
    TIMERS,
    JUMP,
    WORK,
    BREAKS,
    UNSEEN,
    SUSPEND,
    SILENCE,
    APPEAR,
    CUT,
    DIE
};

static bool is_idle(const struct conn *conn)
{
    return conn->link->first == UT_NO_SLOT && conn->peer->state == UP &&
           conn->peer->link->first == UT_NO_SLOT;
}

static void add_conn(struct walk_choices *choices, unsigned int i)
{
    const struct conn *conn = &conns[i];

    if (conn->state != REQUESTED && conn->state != ACCEPTED && conn->state != UP)
        return;
    if (sides[conn->side].dead)
        return;
    if (left.breaks > 0)
        walk_add_choice(choices, BREAKS, conn->side, i);
    if (left.unseen > 0 && conn->state != REQUESTED)
        walk_add_choice(choices, UNSEEN, conn->side, i);
    if (left.silences > 0 && conn->state != ACCEPTED)
        walk_add_choice(choices, SILENCE, conn->side, i);
    if (left.suspends > 0 && conn->state == UP && is_idle(conn))
        walk_add_choice(choices, SUSPEND, conn->side, i);
}

static void add_choices(struct walk_choices *choices)
{
    for (int side = 0; side < SIDES; side++) {
        if (num_flight[side] > 0)
            walk_add_choice(choices, DELIVER, side, 0);
        if (left.late > 0 && num_flight[side] > 1 && flight[side][0].kind == REQ)
            walk_add_choice(choices, LATE, side, 0);
        if (due_of(side) != UINT64_MAX)
            walk_add_choice(choices, TIMERS, side, 0);
        if (left.jumps > 0 && next_limit(side) != UINT64_MAX)
            walk_add_choice(choices, JUMP, side, 0);
        if (sides[side].works_left > 0 && !sides[side].dead && sides[side].present)
            walk_add_choice(choices, WORK, side, 0);
    }
    for (unsigned int i = 0; i < num_conns; i++)
        add_conn(choices, i);
    if (!sides[1].present)
        walk_add_choice(choices, APPEAR, 1, 0);
    if (rules.unreachable && !cut)
        walk_add_choice(choices, CUT, 0, 0);
    if (rules.dies && !sides[1].dead)
        walk_add_choice(choices, DIE, 1, 0);
}

static void make_late(struct packet *packets)
{
    const struct packet first = packets[0];

    packets[0] = packets[1];
    packets[1] = first;
}

static void do_conn(const struct walk_choice *choice)
{
    struct conn *conn = &conns[choice->i];

    switch (choice->action) {
    case BREAKS:
        left.breaks--;
        break_conn(conn, PROV_REASON_BROKEN, true);
        break;
    case UNSEEN:
        left.unseen--;
        break_conn(conn, PROV_REASON_BROKEN, false);
        break;
    case SUSPEND:
        left.suspends--;
        send_packet(CLOSE, conn, conn->peer, NULL, 0);
        take_down(conn, PROV_REASON_SUSPENDED);
        break;
    default: /* SILENCE */
        left.silences--;
        disturbed = true;
        walk_reached(REACHED_SILENT);
        break_conn(conn, PROV_REASON_SILENT, true);
        break;
    }
}

static void do_choice(const struct walk_choice *choice)
{
    static const char *const what[] = {
        [WALK_FINISH] = "from now on nothing breaks",
        [DELIVER] = "something arrives at side %u",
        [LATE] = "the request towards side %u takes longer than the next message",
        [TIMERS] = "a timer of side %u expires",
        [JUMP] = "a time limit of side %u passes",
        [WORK] = "side %u has a communication",
        [BREAKS] = "connection %3$u breaks, side %1$u sees it first",
        [UNSEEN] = "connection %3$u breaks, only side %1$u sees it",
        [SUSPEND] = "connection %3$u is closed by the provider of side %1$u",
        [SILENCE] = "the peer of side %1$u over connection %3$u is silent",
        [APPEAR] = "side %u has a VCQ",
        [CUT] = "no request arrives any more",
        [DIE] = "side %u dies",
    };

    walk_step(what[choice->action], (unsigned int)choice->side, 0, choice->i);
    switch (choice->action) {
    case WALK_FINISH:
        finish_run();
        break;
    case DELIVER:
        deliver(choice->side);
        break;
    case LATE:
        left.late--;
        make_late(flight[choice->side]);
        break;
    case TIMERS:
        run_timers(choice->side);
        break;
    case JUMP:
        left.jumps--;
        jump(choice->side);
        break;
    case WORK:
        sides[choice->side].works_left--;
        add_work(choice->side);
        break;
    case APPEAR:
        sides[1].present = true;
        break;
    case CUT:
        cut = true;
        break;
    case DIE:
        disturbed = sides[1].dead = true;
        break;
    default:
        do_conn(choice);
    }
}

static const struct walk_scenario scenarios[] = {
    SCENARIO("one side has work", 0, UP, .works = {2}),
    SCENARIO("both sides have work", 0, CROSSED, .works = {1, 1}),
    SCENARIO("a break", 0, REPLACED, .works = {2}, .breaks = 1),
    SCENARIO("a break that one side sees", 0, REPLACED, .works = {2}, .unseen = 1),
    SCENARIO("a suspension", 0, REPLACED, .works = {2, 1}, .suspends = 1),
    SCENARIO("a silent peer", 0, SILENT, .works = {2}, .silences = 1, .jumps = 2),
    SCENARIO("no VCQ yet", 0, FREED, .works = {1}, .absent = true),
    SCENARIO("never a VCQ", 0, FREED, .works = {1}, .absent = true, .jumps = 2),
    SCENARIO("an unreachable peer", 0, LOST, .works = {2}, .unreachable = true, .breaks = 1),
    SCENARIO("a shortage", 0, UP, .works = {1, 1}, .shortages = 1),
    SCENARIO("a death", 0, DEAD, .works = {2, 1}, .dies = true),
    SCENARIO("both sides have work, a break", 0, CROSSED, .works = {1, 1}, .breaks = 1),
    SCENARIO("a late request", 0, OUTDATED, .works = {1, 1}, .late = 1),
    SCENARIO("a late request, a break", 1, OUTDATED, .works = {2, 1}, .late = 1, .unseen = 1),
    SCENARIO("breaks", 1, REPLACED, .works = {1, 1}, .breaks = 1, .unseen = 1),
    SCENARIO("a break and a suspension", 1, REPLACED, .works = {2, 1}, .unseen = 1, .suspends = 1),
    SCENARIO("a break and time limits", 1, LOST, .works = {2}, .breaks = 1, .unreachable = true,
             .jumps = 2),
    SCENARIO("a late VCQ and time limits", 1, LOST, .works = {1, 1}, .absent = true, .jumps = 2),
    SCENARIO("silences", 1, SILENT, .works = {2, 1}, .silences = 1, .jumps = 2),
    SCENARIO("a death, a break", 1, DEAD, .works = {2, 1}, .unseen = 1, .dies = true),
    SCENARIO("breaks and suspensions", 2, REPLACED, .works = {2, 1}, .breaks = 1, .unseen = 1,
             .suspends = 1),
    SCENARIO("a death, breaks", 2, DEAD, .works = {2, 2}, .breaks = 1, .unseen = 1, .dies = true),
    {.name = NULL},
};

static const struct walk_protocol protocol = {&rules,    sizeof(rules), MAX_STATES, open_all,
                                              put_state, add_choices,   do_choice,  close_all};

int main(int argc, char **argv)
{
    setenv("UTOFU_PEER_TIMEOUT", "10", 1);
    setenv("UTOFU_JOB_TIMEOUT", "60", 1);
    WALK_CHECK(ut_env_load() == 0);
    prov.ops = &model_ops;
    process.prov[0] = &prov;
    return walk_main(argc, argv, &protocol, scenarios);
}
