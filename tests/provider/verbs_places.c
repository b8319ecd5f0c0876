/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_VERBS_MAX_QPS: which connection is closed for another one, when, and in which order at the
 * two ends; and the events that a connection or a handshake owes its owner when it ends. There is
 * no device: fake_verbs.h, whose clock is moved by the test. The test plays the peers: the messages
 * that they receive and send.
 */
#include <sys/eventfd.h>

#include "fake_verbs.h"

#include "../../provider/verbs/data/post.h"
#include "../../provider/verbs/wake.h"
#include "checked_locks.h"
#include "../harness/check.h"
#include "process/process.h"

enum {
    PLACES = 4,
    CONNS = 12,
    PEER_MS = 4000,
    ENDPOINT = 7,
    HOLD_MS = 100,
    ANSWER_MS = 250,
    SHORT_MS = 5000,
    CONFIRM_MS = 10001,
    DRAIN_MS = 2001,
    DRAIN_GONE_MS = 201,
    LAST_RECEIVE_MS = 1001,
    SOON_MS = 10,
};

struct test_conn {
    struct prov_conn *conn;
    bool up, down;
    enum prov_reason reason;
    unsigned int done, messages, failed;
    /* the peer */
    bool keeps, is_mute;         /* is_mute: the peer sends nothing; keeps: it goes on using the
                                  * connection */
    unsigned int told[5];        /* received messages: ASK, MUST, KEEP, REST, BYE */
    unsigned int writes;         /* writes received */
    unsigned int writes_at_rest; /* writes received before this end's REST */
};
enum { ASK, MUST, KEEP, REST, BYE };

static struct vp_prov *prov;
static struct prov_ep *ep;
static struct test_conn conns[CONNS], *accepts; /* accepts: takes the next request */

static void pass_ms(int ms)
{
    fake_now.tv_nsec += ms % 1000 * 1000000L;
    fake_now.tv_sec += ms / 1000 + fake_now.tv_nsec / 1000000000;
    fake_now.tv_nsec %= 1000000000;
}

/* The callbacks of the core. */

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct test_conn *c = ctx;

    (void)cookie;
    CHECK((status == PROV_OK || fake_status != IBV_WC_SUCCESS) && !c->down);
    c->done++;
    c->failed += status != PROV_OK;
}

static void on_message(void *ctx, const void *data, size_t size)
{
    struct test_conn *c = ctx;

    (void)data, (void)size;
    CHECK(!c->down);
    c->messages++;
}

static void on_request(void *owner, struct prov *self, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)self, (void)id, (void)hello, (void)size;
    CHECK(accepts);
    accepts->conn = conn;
    int rc = vp_accept(conn, NULL, 0, accepts);
    CHECK(rc == 0 || rc == -EAGAIN);
    if (rc)
        accepts->conn = NULL; /* the connection is closed */
    accepts = NULL;
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)hello, (void)size;
    ((struct test_conn *)ctx)->up = true;
}

static bool closes_late; /* closed later than in down() */

static void on_down(void *ctx, enum prov_reason reason)
{
    struct test_conn *c = ctx;

    CHECK(!c->down);
    c->down = true;
    c->reason = reason;
    if (closes_late)
        return;
    vp_conn_close(c->conn);
    c->conn = NULL;
}

static void wake(void *owner)
{
    (void)owner;
}

/* The peers and the kernel. */

static void say(uint32_t qp, uint32_t what)
{
    CHECK(num_arrivals < ARRIVALS);
    arrivals[num_arrivals++] = (struct ibv_wc){.opcode = IBV_WC_RECV,
                                               .status = IBV_WC_SUCCESS,
                                               .wc_flags = IBV_WC_WITH_IMM,
                                               .imm_data = htobe32(what),
                                               .qp_num = qp};
}

static void hear(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    struct test_conn *c = ((struct vp_conn *)qp->qp_context)->ctx;

    if (wr->opcode != IBV_WR_SEND_WITH_IMM) {
        c->writes++;
        return;
    }
    uint32_t what = be32toh(wr->imm_data);
    c->told[ASK] += what == VP_CTL_SUSPEND_REQUEST;
    c->told[MUST] += what == VP_CTL_SUSPEND_FORCE;
    c->told[KEEP] += what == VP_CTL_SUSPEND_REFUSE;
    c->told[REST] += what == VP_CTL_SUSPEND;
    c->told[BYE] += what == VP_CTL_CLOSE;
    if (what == VP_CTL_SUSPEND)
        c->writes_at_rest = c->writes;
    if ((what == VP_CTL_SUSPEND_REQUEST || what == VP_CTL_SUSPEND_FORCE) && !c->is_mute)
        say(qp->qp_num,
            c->keeps && what == VP_CTL_SUSPEND_REQUEST ? VP_CTL_SUSPEND_REFUSE : VP_CTL_SUSPEND);
}

enum { NO_REJECT = -1, BY_CONSUMER = 28 /* IB_CM_REJ_CONSUMER_DEFINED */ };
static int next_reject = NO_REJECT; /* the reason for which the peer rejects requests */
static unsigned int num_rejects;

/* The peer rejects the request of this end: the message of rdmacm.c's reject_request(). */
static void reject_request_of(struct fake_id *id)
{
    static struct {
        uint8_t magic[4], reason;
    } message = {.magic = {'u', 'T', 'f', 'R'}};

    message.reason = (uint8_t)next_reject;
    pending = (struct rdma_cm_event){
        .id = &id->id, .event = RDMA_CM_EVENT_REJECTED, .status = BY_CONSUMER};
    pending.param.conn.private_data = &message;
    pending.param.conn.private_data_len = sizeof(message);
    id->step = IDLE;
    is_pending = true;
    num_rejects++;
}

/* The next event of an id that waits for the kernel or the peer. */
static bool next_event_of(struct fake_id *id)
{
    static const struct vp_hello_rep answer = {.magic = {'u', 'T', 'f', 'A'}, .mtu = IBV_MTU_1024};
    static const enum rdma_cm_event_type next[] = {[ADDRESS] = RDMA_CM_EVENT_ADDR_RESOLVED,
                                                   [ROUTE] = RDMA_CM_EVENT_ROUTE_RESOLVED,
                                                   [ASKED] = RDMA_CM_EVENT_CONNECT_RESPONSE,
                                                   [ACCEPTED] = RDMA_CM_EVENT_ESTABLISHED};

    if (id->step != ADDRESS && id->step != ROUTE && id->step != ASKED && id->step != ACCEPTED)
        return false;
    if (id->step == ASKED && next_reject != NO_REJECT) {
        reject_request_of(id);
        return true;
    }
    pending = (struct rdma_cm_event){.id = &id->id, .event = next[id->step]};
    pending.param.conn.private_data = &answer;
    pending.param.conn.private_data_len = sizeof(answer);
    id->step = id->step == ASKED ? ANSWERED : id->step == ACCEPTED ? CONNECTED : IDLE;
    is_pending = true;
    return true;
}

static bool answers; /* false: handshakes make no progress */

static bool next_event_of_any(void)
{
    for (int i = 0; answers && i < IDS; i++)
        if (ids[i] && next_event_of(ids[i]))
            return true;
    return false;
}

static void run(void)
{
    for (int i = 0; i < 40; i++) {
        vp_progress(&prov->base);
        vp_cm_run_events(prov);
        vp_ep_poll(ep);
    }
}

static void ask(struct test_conn *c)
{
    uint8_t address[PROV_ADDR_MAX];
    size_t size = vp_address(&prov->base, address);

    *c = (struct test_conn){.conn = NULL};
    CHECK(vp_connect(ep, address, size, 0, ENDPOINT + 1, NULL, 0, c, &c->conn) == 0);
}

/* A peer sends its n-th request: `c` is its connection. */
static void ask_from_outside_again(struct test_conn *c, const struct test_conn *first, uint8_t n)
{
    static struct vp_hello_req req;
    struct fake_id *id = new_id(NULL, INCOMING);

    CHECK(id && !is_pending);
    *c = (struct test_conn){.conn = NULL};
    accepts = c;
    req = (struct vp_hello_req){.kind = 0,
                                .target_id = ENDPOINT,
                                .origin_id = (100 + (uint64_t)(first - conns)) & VP_ID_MASK,
                                .attempt = n};
    memcpy(req.key, prov->key, sizeof(req.key));
    pending = (struct rdma_cm_event){
        .id = &id->id, .listen_id = &listener, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
    pending.param.conn.private_data = &req;
    pending.param.conn.private_data_len = sizeof(req);
    is_pending = true;
    vp_cm_run_events(prov);
}

static void ask_from_outside(struct test_conn *c)
{
    ask_from_outside_again(c, c, 1);
}

static int post_with(struct test_conn *c, unsigned int flags)
{
    return vp_write(c->conn, &(struct prov_xfer){.flags = flags});
}

static int use(struct test_conn *c)
{
    return post_with(c, PROV_SIGNAL);
}

static uint32_t qp_of(const struct test_conn *c)
{
    return vp_conn(c->conn)->qp->qp_num;
}

static void look_for_stalls(void)
{
    vp_check_stalls(vp_ep(ep));
}

static unsigned int srq_low;

static void on_srq_low(void *owner)
{
    (void)owner;
    srq_low++;
}

static const struct prov_callbacks callbacks = {.done = on_done,
                                                .message = on_message,
                                                .request = on_request,
                                                .up = on_up,
                                                .down = on_down,
                                                .srq_low = on_srq_low};
static const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 64};

static unsigned int own_local_rank;

static void open_with(unsigned int places)
{
    const struct prov_config config = {.wake = wake,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_MS,
                                       .local_size = 3,
                                       .local_rank = own_local_rank};

    fake_now.tv_sec = 1000;
    prov = fake_open(&config);
    prov->tuning.max_qps = places;
    vp_budget_init(prov, &prov->devices[0]);
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    memset(conns, 0, sizeof(conns));
    answers = true;
    fake_holds = false;
    fake_most_qps = UINT_MAX;
}

static void close_all(const char *what)
{
    run();
    fake_holds = false;
    vp_ep_close(ep);
    fake_close(prov);
    CHECK(fake_qps == 0);
    num_arrivals = num_reports = 0;
    printf("ok: %s\n", what);
}

/* PLACES connections that are up, used and checked. */
static void fill(void)
{
    open_with(PLACES);
    for (int i = 0; i < PLACES; i++) {
        ask(&conns[i]);
        run();
        CHECK(conns[i].up && use(&conns[i]) >= 0);
        run();
    }
    look_for_stalls();
    CHECK(fake_qps == PLACES);
}

/*
 * Where data is placed in any order, the notice of a long write is a request of its own
 */

enum { APART = 65536, PACKET = 4096, WROTE = 8 };

static struct {
    enum ibv_wr_opcode opcode;
    uint32_t length, imm;
    uint64_t at;
    unsigned int flags;
} wrote[WROTE];
static unsigned int num_wrote;

static void note_write(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    (void)qp;
    CHECK(num_wrote < WROTE);
    wrote[num_wrote].opcode = wr->opcode;
    wrote[num_wrote].length = wr->num_sge ? wr->sg_list->length : 0;
    wrote[num_wrote].imm = be32toh(wr->imm_data);
    wrote[num_wrote].at = wr->wr.rdma.remote_addr;
    wrote[num_wrote++].flags = wr->send_flags;
}

/* Returns the number of requests of a write; the last one has the notice and the signal. */
static unsigned int notify(struct test_conn *c, uint64_t to, uint32_t length, unsigned int flags)
{
    unsigned int done = c->done;

    num_wrote = 0;
    CHECK(vp_write(c->conn, &(struct prov_xfer){.rmt = to,
                                                .length = length,
                                                .imm = 77,
                                                .flags = flags | PROV_NOTIFY | PROV_SOLICITED |
                                                         PROV_SIGNAL}) == 0);
    CHECK(num_wrote > 0);
    for (unsigned int i = 0; i + 1 < num_wrote; i++)
        CHECK((wrote[i].opcode == IBV_WR_RDMA_WRITE ||
               ((flags & PROV_STRONG_ORDER) && wrote[i].opcode == IBV_WR_RDMA_READ)) &&
              !(wrote[i].flags & IBV_SEND_SOLICITED));
    CHECK(wrote[num_wrote - 1].opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
          wrote[num_wrote - 1].imm == 77);
    CHECK((wrote[num_wrote - 1].flags & (IBV_SEND_SOLICITED | IBV_SEND_SIGNALED)) ==
          (IBV_SEND_SOLICITED | IBV_SEND_SIGNALED));
    run();
    CHECK(c->done == done + 1);
    return num_wrote;
}

static void long_notices_go_apart(void)
{
    open_with(PLACES);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    struct vp_conn *conn = vp_conn(conns[0].conn);
    fake_sent = note_write;
    conn->packet = PACKET;
    vp_ep(ep)->max_msg = 1 << 30;
    conn->unit = VP_UNIT_WHOLE;
    CHECK(notify(&conns[0], 0, APART, 0) == 1);
    conn->unit = VP_UNIT_128;
    CHECK(notify(&conns[0], 0, APART, 0) == 2);
    CHECK(wrote[0].length == APART && wrote[1].length == 0);
    CHECK(notify(&conns[0], 64, APART, 0) == 3); /* no unit in two packets */
    CHECK(wrote[0].length == 128 - 64 && wrote[1].at == 128 && wrote[2].length == 0 &&
          wrote[0].length + wrote[1].length == APART);
    CHECK(notify(&conns[0], 0, APART - 1, 0) == 1);
    CHECK(notify(&conns[0], 0, 128, PROV_STRONG_ORDER) == 1); /* one unit */
    CHECK(notify(&conns[0], 0, APART, PROV_STRONG_ORDER) == 3);
    CHECK(wrote[0].length == APART - 128 && wrote[1].opcode == IBV_WR_RDMA_READ &&
          wrote[2].length == 128 && (wrote[2].flags & IBV_SEND_FENCE));
    vp_ep(ep)->notice_apart = 1;
    CHECK(notify(&conns[0], 0, PACKET + 1, 0) == 2);
    CHECK(notify(&conns[0], 0, PACKET, 0) == 1);
    vp_ep(ep)->notice_apart = 0;
    CHECK(notify(&conns[0], 0, APART, 0) == 1);
    fake_sent = hear;
    close_all("long notices go apart");
}

static void the_least_recently_used_rests(void)
{
    fill();
    CHECK(use(&conns[0]) >= 0);
    ask(&conns[4]);
    run();
    CHECK(conns[4].up && fake_qps == PLACES);
    CHECK(conns[1].down && conns[1].reason == PROV_REASON_SUSPENDED);
    CHECK(conns[1].told[ASK] == 1 && conns[1].told[REST] == 1 && conns[1].told[BYE] == 0);
    CHECK(!conns[0].down && !conns[2].down && !conns[3].down);
    CHECK(conns[0].told[ASK] == 0 && conns[2].told[ASK] == 0);
    ask(&conns[1]);
    run();
    CHECK(conns[1].up && conns[2].down && fake_qps == PLACES);
    close_all("the least recently used rests");
}

static void what_the_peer_uses_is_kept(void)
{
    fill();
    conns[0].keeps = conns[1].keeps = true;
    ask(&conns[4]);
    run();
    CHECK(conns[4].up && conns[2].down && !conns[0].down && !conns[1].down);
    CHECK(conns[0].told[ASK] == 1 && conns[0].told[REST] == 0);
    CHECK(use(&conns[0]) >= 0 && use(&conns[1]) >= 0);
    close_all("what the peer uses is kept");
}

/* The connection that is up longest is closed, but not at once, and no more than needed. */
static void busy_ones_take_turns(void)
{
    unsigned int asks = 0, last = 0;
    int gone = 0;

    fill();
    for (int i = 0; i < PLACES; i++)
        conns[i].keeps = true;
    ask(&conns[4]);
    run();
    for (int ms = 0; ms < HOLD_MS - 10; ms++) { /* those in use are asked each 10 ms */
        pass_ms(1);
        run();
        unsigned int now = 0;
        for (int i = 0; i < PLACES; i++)
            now += conns[i].told[ASK];
        CHECK(ms == 0 || (now != last) == (ms % SOON_MS == SOON_MS - 1));
        asks += now != last;
        last = now;
    }
    CHECK(asks >= 8);
    CHECK(!conns[4].up && conns[0].told[MUST] == 0);
    CHECK(conns[0].told[ASK] < 40);
    for (int ms = 0; ms < 200; ms += 5) {
        pass_ms(5);
        run();
    }
    CHECK(conns[4].up);
    for (int i = 0; i < PLACES; i++) {
        CHECK(conns[i].told[MUST] == (unsigned int)conns[i].down);
        gone += conns[i].down;
    }
    CHECK(gone == 1);
    close_all("busy ones take turns");
}

/* No request is flushed, and none is posted behind this end's REST. */
static void what_is_outstanding_ends_first(void)
{
    fill();
    fake_holds = true;
    CHECK(use(&conns[0]) >= 0 && use(&conns[0]) >= 0);
    look_for_stalls();
    for (int i = 1; i < PLACES; i++)
        conns[i].keeps = true;
    ask(&conns[4]);
    run();
    CHECK(conns[0].told[ASK] == 1 && conns[0].told[REST] == 0 && conns[0].done == 1);
    CHECK(use(&conns[0]) == -ENOTCONN);
    pass_ms(1500);
    run();
    CHECK(!conns[0].down && conns[0].told[REST] == 0);
    fake_holds = false;
    run();
    CHECK(conns[0].done == 3 && conns[0].told[REST] == 1 && conns[0].down &&
          conns[0].reason == PROV_REASON_SUSPENDED && conns[0].writes_at_rest == conns[0].writes);
    CHECK(conns[4].up);
    close_all("what is outstanding ends first");
}

/* Unsignalled requests at the end: an empty signalled write shows when they have ended. */
static void unsignalled_ones_end_first(void)
{
    fill();
    CHECK(post_with(&conns[0], 0) >= 0);
    for (int i = 1; i < PLACES; i++)
        CHECK(use(&conns[i]) >= 0);
    look_for_stalls();
    ask(&conns[4]);
    run();
    CHECK(conns[4].up && conns[0].down && conns[0].reason == PROV_REASON_SUSPENDED);
    CHECK(conns[0].done == 2);
    /* the peer asks, with no signalled request of this side behind the unsignalled one */
    uint32_t qp = qp_of(&conns[1]);
    CHECK(post_with(&conns[1], 0) >= 0);
    say(qp, VP_CTL_SUSPEND_FORCE);
    run();
    CHECK(conns[1].told[REST] == 1);
    say(qp, VP_CTL_SUSPEND);
    run();
    CHECK(conns[1].down && conns[1].done == 3 && conns[1].reason == PROV_REASON_SUSPENDED);
    close_all("unsignalled ones end first");
}

static void asked_by_the_peer(void)
{
    fill();
    CHECK(use(&conns[0]) >= 0);
    uint32_t busy = qp_of(&conns[0]), idle = qp_of(&conns[1]);
    say(busy, VP_CTL_SUSPEND_REQUEST);
    say(idle, VP_CTL_SUSPEND_REQUEST);
    run();
    CHECK(conns[0].told[KEEP] == 1 && conns[0].told[REST] == 0 && use(&conns[0]) >= 0);
    CHECK(conns[1].told[KEEP] == 0 && conns[1].told[REST] == 1 && !conns[1].down);
    CHECK(use(&conns[1]) == -ENOTCONN);
    say(idle, VP_CTL_SUSPEND);
    run();
    CHECK(conns[1].down && conns[1].reason == PROV_REASON_SUSPENDED && conns[1].told[REST] == 1);
    say(busy, VP_CTL_SUSPEND_FORCE);
    say(busy, VP_CTL_SUSPEND);
    run();
    CHECK(conns[0].down && conns[0].told[REST] == 1 && conns[0].reason == PROV_REASON_SUSPENDED);
    /* the peer has closed its end for good meanwhile */
    uint32_t left = qp_of(&conns[2]);
    say(left, VP_CTL_SUSPEND_FORCE);
    say(left, VP_CTL_CLOSE);
    run();
    CHECK(conns[2].down);
    CHECK(fake_qps == 1);
    close_all("asked by the peer");
}

/* Nothing was outstanding when the peer destroyed its end, not even if the acknowledgement of this
 * end's REST is lost with it. */
static void peer_is_first(void)
{
    fill();
    uint32_t qp = qp_of(&conns[0]);
    struct rdma_cm_id *id = vp_conn(conns[0].conn)->id.cm;
    fake_holds = true;
    say(qp, VP_CTL_SUSPEND_FORCE);
    say(qp, VP_CTL_SUSPEND);
    run();
    CHECK(conns[0].told[REST] == 1 && !conns[0].down);
    pending = (struct rdma_cm_event){.id = id, .event = RDMA_CM_EVENT_DISCONNECTED};
    is_pending = true;
    run();
    fake_holds = false;
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_SUSPENDED && conns[0].done == 1);
    close_all("peer is first");
}

/* Both ends have asked, and both have agreed. */
static void crossing(void)
{
    fill();
    conns[0].is_mute = true;
    uint32_t qp = qp_of(&conns[0]);
    ask(&conns[4]);
    run();
    CHECK(conns[0].told[ASK] == 1 && !conns[0].down);
    say(qp, VP_CTL_SUSPEND_REQUEST);
    run();
    CHECK(conns[0].told[REST] == 1 && !conns[0].down);
    say(qp, VP_CTL_SUSPEND);
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_SUSPENDED && conns[0].told[REST] == 1);
    CHECK(conns[4].up);
    close_all("crossing");
}

static void who_does_not_answer_is_passed_by(void)
{
    fill();
    conns[0].is_mute = conns[1].is_mute = true;
    ask(&conns[4]);
    run();
    CHECK(conns[0].told[ASK] == 1 && conns[1].told[ASK] == 0 && !conns[4].up);
    pass_ms(ANSWER_MS - 1);
    run();
    CHECK(conns[1].told[ASK] == 0);
    for (int i = 0; i < 2; i++) {
        pass_ms(i == 0 ? 1 : ANSWER_MS);
        run();
    }
    CHECK(conns[1].told[ASK] == 1 && conns[2].down && conns[4].up);
    say(qp_of(&conns[0]), VP_CTL_SUSPEND); /* late */
    run();
    CHECK(conns[0].down && fake_qps == PLACES - 1);
    close_all("who does not answer is passed by");
}

/* Peers find a place although this process's own handshakes make no progress. */
static void own_handshakes_leave_room(void)
{
    open_with(PLACES);
    prov->window = PLACES; /* no limit from attempts at a time */
    answers = false;
    for (int i = 0; i < 6; i++)
        ask(&conns[i]);
    run();
    CHECK(fake_qps == PLACES / 2);
    ask_from_outside(&conns[6]);
    run();
    ask_from_outside(&conns[7]);
    run();
    CHECK(fake_qps == PLACES);
    answers = true;
    for (int i = 0; i < 200; i++) {
        pass_ms(5);
        run();
    }
    for (int i = 0; i < 8; i++)
        CHECK(conns[i].up);
    CHECK(fake_qps == PLACES);
    close_all("own handshakes leave room");
}

/* A requester that waits for a place is notified that this process lives. */
static void who_waits_long_is_refused(void)
{
    fill();
    for (int i = 0; i < PLACES; i++)
        conns[i].is_mute = true;
    ask_from_outside(&conns[4]);
    run();
    CHECK(conns[4].conn && !conns[4].up && !conns[4].down);
    pass_ms(700);
    run();
    CHECK(!conns[4].down);
    pass_ms(100); /* three quarters of the time of an attempt: a quarter of 4000 ms */
    run();
    CHECK(conns[4].down && conns[4].reason == PROV_REASON_BROKEN);
    close_all("who waits long is refused");
}

/* A device that has fewer queue pairs than it reports, or shares them with other processes. */
static void a_device_runs_out(void)
{
    open_with(0);
    fake_most_qps = 3;
    for (int i = 0; i < 6; i++) {
        ask(&conns[i]);
        run();
        pass_ms(20);
        run();
        CHECK(conns[i].up && fake_qps <= 3);
    }
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_SUSPENDED);
    fake_most_qps = UINT_MAX;
    pass_ms(SHORT_MS - 200);
    run();
    ask(&conns[10]); /* gets the place of another one */
    run();
    CHECK(conns[10].up && fake_qps == 3);
    pass_ms(200);
    run();
    for (int i = 6; i < 10; i++) {
        ask(&conns[i]);
        run();
    }
    CHECK(fake_qps == 7);
    close_all("a device runs out");
}

/* The connection gets as much time as one to a silent peer. */
static void a_device_has_none(void)
{
    for (int again = 0; again < 2; again++) {
        open_with(0);
        fake_most_qps = 0;
        ask(&conns[0]);
        for (int ms = 0; ms < PEER_MS - 1000; ms += 100) {
            pass_ms(100);
            run();
        }
        CHECK(!conns[0].up && !conns[0].down);
        if (again)
            fake_most_qps = UINT_MAX;
        pass_ms(1000);
        run();
        CHECK(conns[0].up == again && conns[0].down == !again);
        CHECK(again || conns[0].reason == PROV_REASON_LOCAL);
        close_all(again ? "a device has one again" : "a device has none");
    }
    open_with(PLACES); /* the memory is short once the peer has answered */
    fake_modify_fails = ENOMEM;
    ask(&conns[0]);
    run();
    CHECK(!conns[0].up && !conns[0].down);
    pass_ms(100);
    run();
    CHECK(conns[0].up);
    close_all("a device lacks memory for a moment");
}

/* One completion queue entry is reserved for each connection. Peers that ask when none is left ask
 * again later, and find one when another connection has been closed. */
static void a_full_completion_queue(void)
{
    open_with(0);
    struct vp_ep *e = vp_ep(ep);
    e->cq_wanted = 0; /* the queue cannot grow */
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    uint32_t room_msgs = e->room_msgs;
    e->room_msgs = e->cq_size; /* as if there were more connections */
    fake_refusal = 0;
    ask_from_outside(&conns[1]);
    run();
    CHECK(!conns[1].conn && !conns[1].up && fake_refusal == VP_REJ_BUSY && fake_qps == 1);
    ask(&conns[2]);
    run();
    CHECK(conns[2].down && conns[2].reason == PROV_REASON_LOCAL);
    e->room_msgs = room_msgs;
    ask_from_outside(&conns[1]);
    run();
    CHECK(conns[1].up);
    close_all("a full completion queue");
}

/* Operations on a queue in error fail, and no new one is posted. */
static void a_queue_breaks(void)
{
    uint64_t one = 1;
    int fd = eventfd(0, EFD_NONBLOCK);

    fill();
    CHECK(vp_watch(prov, fd, VP_WATCH_ASYNC) == 0);
    struct ibv_srq *srq = vp_ep(ep)->srq;
    fake_async =
        (struct ibv_async_event){.element.srq = srq, .event_type = IBV_EVENT_SRQ_LIMIT_REACHED};
    fake_has_async = true;
    CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
    run();
    CHECK(!fake_has_async && !conns[0].down && !conns[PLACES - 1].down);
    fake_async.event_type = IBV_EVENT_SRQ_ERR;
    fake_has_async = true;
    run();
    for (int i = 0; i < PLACES; i++)
        CHECK(conns[i].down && conns[i].reason == PROV_REASON_LOCAL);
    ask(&conns[4]);
    run();
    CHECK(conns[4].down && conns[4].reason == PROV_REASON_LOCAL);
    fake_refusal = 0;
    ask_from_outside(&conns[5]);
    accepts = NULL;
    run();
    CHECK(!conns[5].conn && fake_refusal == VP_REJ_NO_ENDPOINT);
    close_all("a queue breaks");
    close(fd);
}

/* Of a device that raises LAST_WQE_REACHED, however late: a queue pair that has taken receives of
 * the shared queue is kept until then, or until another connection waits for its place. */
static void the_last_receive_is_waited_for(void)
{
    uint64_t one = 1;
    int fd = eventfd(0, EFD_NONBLOCK);

    fill();
    CHECK(vp_watch(prov, fd, VP_WATCH_ASYNC) == 0);
    prov->devices[0].last_wqe = VP_LAST_WQE_RAISED;
    struct ibv_qp *qp = vp_conn(conns[0].conn)->qp;
    for (int i = 0; i < 2; i++) {
        vp_conn_close(conns[i].conn);
        conns[i].conn = NULL;
    }
    for (int i = 0; i < 5; i++) {
        run();
        CHECK(fake_qps == PLACES);
        pass_ms(LAST_RECEIVE_MS);
    }
    fake_async =
        (struct ibv_async_event){.element.qp = qp, .event_type = IBV_EVENT_QP_LAST_WQE_REACHED};
    fake_has_async = true;
    CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
    run();
    CHECK(fake_qps == PLACES - 1);
    for (int i = 0; i < 2; i++) {
        ask(&conns[4 + i]);
        run();
    }
    CHECK(conns[4].up && !conns[5].up);
    pass_ms(LAST_RECEIVE_MS - 2);
    run();
    CHECK(!conns[5].up);
    pass_ms(2);
    run();
    CHECK(conns[5].up);
    close_all("the last receive is waited for");
    close(fd);
}

static void receives_run_low(void)
{
    uint64_t one = 1;
    int fd = eventfd(0, EFD_NONBLOCK);

    CHECK(fd >= 0 && vp_watch(prov, fd, VP_WATCH_ASYNC) == 0);
    fake_async = (struct ibv_async_event){.element.srq = vp_ep(ep)->srq,
                                          .event_type = IBV_EVENT_SRQ_LIMIT_REACHED};
    fake_has_async = true;
    CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
    run();
    CHECK(!fake_has_async);
    close(fd);
}

/* Opens an endpoint with `first` receives, and at most `most`. */
static void open_with_receives(uint32_t most, uint32_t first)
{
    open_with(PLACES);
    vp_ep_close(ep);
    prov->tuning.srq_depth = most;
    prov->devices[0].attr.max_srq_wr = 1 << 15;
    fake_receives = srq_low = 0;
    fake_receives_end = 0;
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    CHECK(fake_receives == first && vp_ep(ep)->recvs.depth == first);
}

/* The shared receive queue grows each time that half of it was used up, and its owner is
 * notified. */
static void receives_grow_with_what_arrives(void)
{
    open_with_receives(1027, 257);
    uintptr_t begin = fake_receives_end - 257 * PROV_MSG_MAX;
    receives_run_low();
    CHECK(fake_receives == 514 && srq_low == 1);
    receives_run_low();
    CHECK(fake_receives == 1027 && fake_receives_end == begin + 1027 * PROV_MSG_MAX);
    receives_run_low();
    CHECK(fake_receives == 1027 && srq_low == 3);
    close_all("receives grow with what arrives");
    open_with_receives(140, 128);
    receives_run_low();
    CHECK(fake_receives == 140);
    close_all("few receives grow by few");
    open_with_receives(64, 64);
    receives_run_low();
    CHECK(fake_receives == 64 && srq_low == 1);
    close_all("very few receives stay as many");
}

/* The owner of an endpoint being closed is not notified. */
static void closing_endpoint_reports_no_overload(void)
{
    open_with_receives(1024, 256);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    vp_ep(ep)->pending |= VP_PEND_SRQ_LIMIT;
    vp_ep_close(ep);
    CHECK(srq_low == 0 && fake_receives == 256 && fake_qps == 0);
    fake_close(prov);
    num_arrivals = num_reports = 0;
    printf("ok: a closing endpoint reports no overload\n");
}

static void receives_stay_where_memory_is_short(void)
{
    open_with_receives(1024, 256);
    fake_reg_fails = true;
    receives_run_low();
    fake_reg_fails = false;
    CHECK(fake_receives == 256 && srq_low == 1);
    receives_run_low();
    CHECK(fake_receives == 256);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    close_all("receives stay where memory is short");
}

/* Connections with receives of their own: handshakes that fail give their completion queue entries
 * back. */
static void failed_handshakes_give_receives_back(void)
{
    open_with(PLACES);
    vp_ep_close(ep);
    prov->devices[0].has_srq = false;
    prov->tuning.rq_depth = 16;
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    uint32_t room = vp_ep(ep)->recv_room, size = vp_ep(ep)->recv_cq_size;
    CHECK(room > 0);
    fake_modify_fails_in = IBV_QPS_RTS;
    for (int i = 0; i < 20; i++) {
        fake_modify_fails = ENOMEM;
        ask(&conns[0]);
        run();
        CHECK(!fake_modify_fails && !conns[0].up && vp_ep(ep)->recv_room == room);
        vp_conn_close(conns[0].conn);
        run();
    }
    CHECK(vp_ep(ep)->recv_cq_size == size && fake_qps == 0);
    fake_modify_fails_in = IBV_QPS_INIT;
    close_all("failed handshakes give receives back");
}

/* The places are held by peers that do not answer: a request is refused in time all the same. */
static void who_waits_long_is_not_forgotten(void)
{
    fill();
    for (int i = 0; i < PLACES; i++)
        say(qp_of(&conns[i]), VP_CTL_SUSPEND_FORCE);
    run();
    pass_ms(ANSWER_MS);
    run();
    ask_from_outside(&conns[4]);
    run();
    int timeout = vp_progress(&prov->base);
    CHECK(conns[4].conn && !conns[4].up && timeout > 0 && timeout <= 750 + 1);
    pass_ms(timeout);
    run();
    CHECK(conns[4].down && conns[4].reason == PROV_REASON_BROKEN);
    close_all("who waits long is not forgotten");
}

/* More peers ask than can be answered in time: one that has waited for most of an attempt's time is
 * notified that this process lives, and no queue pair is created for a request that may be given up
 * by then. */
static void who_is_late_is_refused(void)
{
    for (int late = 0; late < 2; late++) {
        open_with(PLACES);
        fake_refusal = 0;
        ask_from_outside(&conns[0]);
        vp_cm_run_events(prov);
        vp_ep_poll(ep);
        CHECK(conns[0].conn && !conns[0].up && fake_qps == 0);
        pass_ms(late ? 760 : 740);
        run();
        CHECK(conns[0].up == !late && conns[0].down == late && fake_qps == !late);
        CHECK(!late || (fake_refusal == VP_REJ_BUSY && conns[0].reason == PROV_REASON_BROKEN));
        if (late) {
            ask_from_outside(&conns[1]); /* it asks again */
            run();
            CHECK(conns[1].up);
        }
        close_all(late ? "who is late is refused" : "who is in time is accepted");
    }
}

/* A message of the peer arrives. */
static void arrive(const struct test_conn *c)
{
    CHECK(num_arrivals < ARRIVALS);
    arrivals[num_arrivals++] =
        (struct ibv_wc){.opcode = IBV_WC_RECV, .status = IBV_WC_SUCCESS, .qp_num = qp_of(c)};
}

/* All places belong to stopped peers, but not for ever. */
static void stopped_peers_do_not_keep_their_places(void)
{
    fill();
    for (int i = 0; i < PLACES; i++)
        conns[i].is_mute = true;
    ask(&conns[4]);
    for (int ms = 0; ms < 20000; ms += 100) {
        pass_ms(100);
        run();
    }
    CHECK(conns[4].up);
    for (int i = 0; i < PLACES; i++) {
        CHECK(conns[i].told[MUST] <= 1 && conns[i].writes_at_rest == conns[i].writes);
        CHECK(!conns[i].down || conns[i].told[REST] == 1);
    }
    close_all("stopped peers do not keep their places");
}

/* The peer knows that its messages have arrived, and does not send them again. */
static void what_arrived_comes_before_the_end(void)
{
    fill();
    for (int i = 0; i < ARRIVALS; i++)
        arrive(&conns[0]);
    fake_status = IBV_WC_REM_ACCESS_ERR;
    CHECK(use(&conns[0]) >= 0);
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_BROKEN && conns[0].failed == 1);
    CHECK(conns[0].messages == ARRIVALS);
    fake_status = IBV_WC_SUCCESS;
    close_all("what arrived comes before the end");
}

/* Receives that the device does not take are offered again: to the shared queue, or to that of the
 * connection. */
static void refused_receives_are_posted_later(bool shared)
{
    open_with(PLACES);
    if (!shared) {
        vp_ep_close(ep);
        prov->devices[0].has_srq = false;
        prov->tuning.rq_depth = 80;
        CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    }
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    struct vp_recvs *recvs = shared ? &vp_ep(ep)->recvs : vp_conn(conns[0].conn)->recvs;
    unsigned int all = recvs->depth;
    CHECK(all > 5 && all <= ARRIVALS && recvs->to_post == 0);
    fake_receives = 0;
    fake_takes_receives = 5;
    for (unsigned int i = 0; i < all; i++) {
        arrive(&conns[0]);
        arrivals[i].wr_id = i;
    }
    while (vp_ep_poll(ep) > 0)
        ;
    CHECK(fake_receives == 5 && conns[0].messages == all);
    int wait = vp_progress(&prov->base); /* also without further messages or polls */
    CHECK(wait == SOON_MS);
    fake_takes_receives = UINT_MAX;
    run();
    CHECK(recvs->to_post < recvs->refill_at);
    CHECK(fake_receives + recvs->to_post == all);
    close_all(shared ? "refused receives are posted later" : "so are those of a connection");
}

static bool lacks_memory;

void *__real_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size) /* see meson.build */
{
    return lacks_memory ? NULL : __real_calloc(number, size);
}

/* No memory to ask whether the peer lives, which says nothing about the peer. */
static void no_memory_to_ask_for_the_peer(void)
{
    fill();
    fake_status = IBV_WC_RETRY_EXC_ERR;
    CHECK(use(&conns[0]) >= 0);
    lacks_memory = true;
    vp_ep_poll(ep);
    lacks_memory = false;
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_BROKEN && conns[0].failed == 1);
    fake_status = IBV_WC_SUCCESS;
    close_all("no memory to ask for the peer");
}

/* The same between the last poll of the receives and that of the requests. */
static unsigned int receive_looks;

static void breaks_late(bool sends)
{
    receive_looks += !sends;
    if (!sends && receive_looks == 2) /* so that the requests are polled */
        arrive(&conns[2]);
    if (!sends || receive_looks < 2)
        return;
    arrive(&conns[0]);
    fake_holds = false;
    fake_polled = NULL;
}

static void what_arrives_at_the_end_is_not_lost(void)
{
    fill();
    fake_holds = true;
    vp_conn_close(conns[1].conn); /* gives the next progress() something to do */
    fake_status = IBV_WC_REM_ACCESS_ERR;
    CHECK(use(&conns[0]) >= 0);
    fake_polled = breaks_late;
    CHECK(vp_ep_poll(ep) > 0 && !fake_polled && conns[2].messages == 1);
    run();
    CHECK(conns[0].down && conns[0].failed == 1 && conns[0].messages == 1);
    fake_status = IBV_WC_SUCCESS;
    close_all("what arrives at the end is not lost");
}

/* RDMA_CM_EVENT_ESTABLISHED comes after the handshake has timed out: down() is called, not up(). */
static void late_confirmation(void)
{
    open_with(PLACES);
    answers = false;
    ask_from_outside(&conns[0]);
    run();
    CHECK(conns[0].conn && !conns[0].up);
    pass_ms(CONFIRM_MS - 2);
    run();
    CHECK(!conns[0].up && !conns[0].down);
    pass_ms(2);
    vp_progress(&prov->base);
    answers = true;
    vp_cm_run_events(prov);
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_BROKEN && !conns[0].up);
    CHECK(fake_qps == 0);
    close_all("late confirmation");
}

/* The route to the peer is lost, and found again. */
static void the_way_to_the_peer_is_lost(void)
{
    open_with(PLACES);
    fake_modify_fails = EHOSTUNREACH;
    ask(&conns[0]);
    run();
    CHECK(!fake_modify_fails && !conns[0].up && !conns[0].down);
    pass_ms(100);
    run();
    CHECK(conns[0].up);
    fake_modify_fails = ETIMEDOUT;
    ask_from_outside(&conns[1]);
    run();
    CHECK(!conns[1].up && conns[1].reason == PROV_REASON_BROKEN); /* the peer asks again */
    fake_modify_fails = EINVAL;
    ask(&conns[2]);
    run();
    CHECK(conns[2].down && conns[2].reason == PROV_REASON_LOCAL);
    close_all("the way to the peer is lost");
}

/* The kernel reports an event of an id. */
static void tell(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    CHECK(!is_pending);
    pending = (struct rdma_cm_event){.id = id, .event = type};
    is_pending = true;
    vp_cm_run_events(prov);
    run();
}

static struct rdma_cm_id *id_of(const struct test_conn *c)
{
    return vp_conn(c->conn)->id.cm;
}

/* The kernel reports the removal for each id of the device: connections end, as do handshakes in
 * flight, and no new one starts on it. */
static void a_device_is_removed(void)
{
    open_with(PLACES);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    answers = false;
    ask(&conns[1]);
    ask_from_outside(&conns[2]);
    run();
    CHECK(conns[1].conn && conns[2].conn && !conns[1].up && !conns[2].up);
    for (int i = 0; i < 3; i++) {
        tell(id_of(&conns[i]), RDMA_CM_EVENT_DEVICE_REMOVAL);
        CHECK(conns[i].down && conns[i].reason == PROV_REASON_LOCAL);
    }
    answers = true;
    ask(&conns[0]); /* the device itself is not yet reported as removed */
    run();
    CHECK(conns[0].up);
    tell(&listener, RDMA_CM_EVENT_DEVICE_REMOVAL);
    CHECK(prov->devices[0].gone);
    ask(&conns[1]);
    run();
    CHECK(conns[1].down && conns[1].reason == PROV_REASON_LOCAL);
    close_all("a device is removed");
}

/* The kernel gives up a request or an answer: the origin asks again, and the accepting side does
 * not wait. A connection that is up is not affected. */
static void the_kernel_hears_nothing(void)
{
    open_with(PLACES);
    answers = false;
    ask(&conns[0]);
    ask_from_outside(&conns[1]);
    run();
    CHECK(!conns[0].down && !conns[1].down);
    ((struct fake_id *)id_of(&conns[0]))->step = GONE;
    tell(id_of(&conns[0]), RDMA_CM_EVENT_UNREACHABLE);
    tell(id_of(&conns[1]), RDMA_CM_EVENT_UNREACHABLE);
    CHECK(!conns[0].down && conns[1].down && conns[1].reason == PROV_REASON_SILENT);
    answers = true;
    pass_ms(100);
    run();
    CHECK(conns[0].up && vp_conn(conns[0].conn)->hs.tries == 2);
    tell(id_of(&conns[0]), RDMA_CM_EVENT_CONNECT_ERROR);
    CHECK(!conns[0].down && use(&conns[0]) >= 0);
    close_all("the kernel hears nothing");
}

/* The connection's send queue is full, with an unsignalled request at its end. */
static void full_queue_stalls(void)
{
    int rc;

    fill();
    fake_holds = true;
    while ((rc = vp_send(conns[0].conn, "", 0, 0, 0)) >= 0)
        ;
    CHECK(rc == -EAGAIN);
    for (int i = 0; i < 3; i++) {
        look_for_stalls();
        run();
    }
    CHECK(vp_send(conns[0].conn, "", 0, 0, 0) == -ENOTCONN && !conns[0].down);
    fake_holds = false;
    for (int i = 0; i < 5; i++) { /* its peer is asked to close */
        pass_ms(1000);
        run();
    }
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_SILENT);
    close_all("full queue stalls");
}

/* The last request is unsignalled, so that nothing would tell of its end: a signalled one is posted
 * behind it, and the connection goes on. */
static void unsignalled_requests_are_no_stall(void)
{
    fill();
    struct vp_conn *conn = vp_conn(conns[0].conn);
    fake_holds = true;
    CHECK(vp_send(conns[0].conn, "", 0, 0, 0) >= 0);
    uint32_t head = conn->head;
    for (int i = 0; i < 5 && conn->head == head; i++) {
        look_for_stalls();
        run();
    }
    CHECK(conn->head == head + 1 && !conns[0].down && conn->state == VP_CONN_UP);
    fake_holds = false;
    run();
    CHECK(conn->tail == conn->head && use(&conns[0]) >= 0);
    run();
    look_for_stalls();
    CHECK(!conns[0].down && conn->tail == conn->head);
    close_all("unsignalled requests are no stall");
}

static void open_with_send_queue(unsigned int places, unsigned int depth)
{
    open_with(places);
    vp_ep_close(ep);
    prov->tuning.sq_depth = depth;
    prov->devices[0].attr.max_qp_wr = 1024;
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
}

/* Sends until the send queue is full, and a few times more; then all requests complete. */
static int fill_queue(struct test_conn *c)
{
    int sent = 0, rc;

    fake_holds = true;
    while ((rc = vp_send(c->conn, "", 0, 0, 0)) >= 0)
        sent++;
    for (int i = 0; i < 100 && rc == -EAGAIN; i++)
        rc = vp_send(c->conn, "", 0, 0, 0);
    CHECK(rc == -EAGAIN);
    fake_holds = false;
    run();
    return sent;
}

/* Returns the rounds until the connection is closed for a longer queue, and their messages. */
static int fill_until_closed(struct test_conn *c, int *sent)
{
    int rounds = 0;

    for (*sent = 0; !c->told[REST] && rounds < 100; rounds++)
        *sent += fill_queue(c);
    if (c->told[REST]) {
        say(qp_of(c), VP_CTL_SUSPEND);
        run();
    }
    return rounds;
}

/* A device accepts no more requests, and does not report an earlier one: it is not reported as
 * executed. A device that is gone has less time to do so. */
static void what_is_not_reported_is_not_done(bool gone)
{
    int drain_ms = gone ? DRAIN_GONE_MS : DRAIN_MS;

    open_with_send_queue(PLACES, 127);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up);
    enum ibv_wc_status before = fake_status;
    fake_status = IBV_WC_WR_FLUSH_ERR;
    CHECK(post_with(&conns[0], 0) >= 0);
    fake_holds = fake_refuses = true;
    prov->devices[0].gone = gone;
    CHECK(post_with(&conns[0], 0) >= 0);
    int wait = vp_progress(&prov->base); /* the owner, which may not poll, is woken soon */
    CHECK(wait == SOON_MS);
    run();
    CHECK(conns[0].done == 0 && !conns[0].down);
    pass_ms(SOON_MS);
    run();
    wait = vp_progress(&prov->base);
    CHECK(wait < 0 || wait > SOON_MS);
    CHECK(!vp_ep_arm(ep, PROV_ARM_ALL)); /* the owner sleeps again, and is woken soon again */
    wait = vp_progress(&prov->base);
    CHECK(wait == SOON_MS);
    pass_ms(drain_ms - SOON_MS - 2);
    run();
    CHECK(conns[0].done == 0 && !conns[0].down);
    pass_ms(2);
    run();
    CHECK(conns[0].down && conns[0].reason == (gone ? PROV_REASON_LOCAL : PROV_REASON_BROKEN));
    CHECK(conns[0].done == 2 && conns[0].failed == 2);
    fake_holds = fake_refuses = false;
    fake_status = before;
    close_all("what is not reported is not done");
}

/* A connection begins with half of the send queue, and is replaced by one with all of it. */
static void a_send_queue_gets_longer(void)
{
    int sent;

    open_with_send_queue(PLACES, 127);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up && fake_sq_depth == 63);
    int rounds = fill_until_closed(&conns[0], &sent);
    CHECK(rounds == 16 && conns[0].down && conns[0].reason == PROV_REASON_RESIZE_QUEUES);
    CHECK(conns[0].told[REST] == 1 && conns[0].told[ASK] == 0 && conns[0].told[BYE] == 0);
    CHECK((int)conns[0].done == sent && conns[0].failed == 0);
    ask(&conns[0]);
    run();
    CHECK(conns[0].up && fake_sq_depth == 127);
    CHECK(fill_until_closed(&conns[0], &sent) == 100 && !conns[0].down);
    vp_conn_close(conns[0].conn);
    run();
    ask_from_outside(&conns[1]); /* another one */
    run();
    CHECK(conns[1].up && fake_sq_depth == 63);
    close_all("a send queue gets longer");
}

/* The same for a connection that the peer asks for. */
static void an_accepted_one_gets_longer(void)
{
    int sent;

    open_with_send_queue(PLACES, 127);
    for (int again = 0; again < 2; again++) {
        ask_from_outside(&conns[0]);
        run();
        CHECK(conns[0].up && fake_sq_depth == (again ? 127 : 63));
        fill_until_closed(&conns[0], &sent);
        CHECK(conns[0].down == !again);
    }
    close_all("an accepted one gets longer");
}

/* A queue that stays full is not counted as full again and again: messages in the last places,
 * which writes leave free, do not count. */
static void a_queue_that_stays_full_stays_short(void)
{
    int refused = 0;

    open_with_send_queue(PLACES, 127);
    ask(&conns[0]);
    run();
    for (int round = 0; round < 15; round++) {
        fake_holds = true;
        while (post_with(&conns[0], 0) >= 0)
            ;
        for (; vp_send(conns[0].conn, "", 0, 0, 0) >= 0; refused++)
            CHECK(post_with(&conns[0], 0) == -EAGAIN);
        fake_holds = false;
        run();
    }
    CHECK(refused > 16 && !conns[0].down && conns[0].told[REST] == 0);
    close_all("a queue that stays full stays short");
}

/* Without a free place, the queue is longer when the connection is next made. */
static void no_place_for_a_longer_one(void)
{
    int sent;

    open_with_send_queue(2, 127);
    ask(&conns[0]);
    run();
    ask_from_outside(&conns[1]);
    run();
    CHECK(conns[0].up && conns[1].up);
    CHECK(fill_until_closed(&conns[0], &sent) == 100 && conns[0].told[REST] == 0);
    vp_conn_close(conns[0].conn);
    run();
    ask(&conns[0]);
    run();
    CHECK(conns[0].up && fake_sq_depth == 127);
    close_all("no place for a longer one");
}

/* The peer wants a longer queue; a connection that was asked to close gives up its place. */
static void the_peer_gets_longer(void)
{
    fill();
    say(qp_of(&conns[0]), VP_CTL_SUSPEND);
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_RESIZE_QUEUES &&
          conns[0].told[REST] == 1);
    ask(&conns[0]);
    run();
    conns[1].is_mute = true;
    ask(&conns[4]);
    run();
    CHECK(conns[1].told[ASK] == 1);
    say(qp_of(&conns[1]), VP_CTL_SUSPEND);
    run();
    CHECK(conns[1].down && conns[1].reason == PROV_REASON_SUSPENDED);
    close_all("the peer gets longer");
}

/* Short send queues keep their depth. */
static void depths_of_send_queues(void)
{
    static const struct {
        uint32_t depth, first;
    } of[] = {{16, 16}, {63, 63}, {64, 31}, {127, 63}, {1023, 511}};

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        open_with_send_queue(PLACES, of[i].depth);
        ask(&conns[0]);
        run();
        CHECK(conns[0].up && fake_sq_depth == of[i].first);
        CHECK(vp_ep(ep)->signal_every < vp_conn(conns[0].conn)->sq_xfer_max);
        close_all("a send queue's depth");
    }
}

static unsigned int limit_of(unsigned int places, int has)
{
    open_with(places);
    prov->devices[0].attr.max_qp = has;
    vp_budget_init(prov, &prov->devices[0]);
    unsigned int limit = prov->devices[0].budget.limit;
    vp_ep_close(ep);
    fake_close(prov);
    return limit;
}

static void limits(void)
{
    CHECK(limit_of(0, 3000) == 1000); /* of three processes */
    CHECK(limit_of(0, 2) == 2);
    CHECK(limit_of(8, 3000) == 8);
    CHECK(limit_of(8, 5) == 5);
    CHECK(limit_of(1, 3000) == 2);
    printf("ok: limits\n");
}

static void vector_is(unsigned int local_rank, int vectors, int expected)
{
    own_local_rank = local_rank;
    context.num_comp_vectors = vectors;
    fake_vectors[0] = fake_vectors[1] = -1;
    open_with(PLACES);
    CHECK(fake_vectors[0] == expected && fake_vectors[1] == expected);
    vp_ep_close(ep);
    fake_close(prov);
    own_local_rank = 0;
    context.num_comp_vectors = 0;
}

static void interrupts_are_spread(void)
{
    vector_is(0, 4, 0);
    vector_is(3, 4, 3);
    vector_is(6, 4, 2);
    vector_is(3, 1, 0);
    vector_is(3, 0, 0);
    printf("ok: interrupts are spread\n");
}

/* The origin asks again, which ends the earlier connection; the report that the origin gave up the
 * first request comes later. */
static void an_end_is_told_once(void)
{
    open_with(PLACES);
    answers = false;
    closes_late = true;
    ask_from_outside(&conns[0]);
    run();
    struct rdma_cm_id *first = vp_conn(conns[0].conn)->id.cm;
    ask_from_outside_again(&conns[1], &conns[0], 2);
    run();
    CHECK(conns[0].down && conns[0].reason == PROV_REASON_BROKEN && conns[1].conn);
    pending = (struct rdma_cm_event){.id = first, .event = RDMA_CM_EVENT_REJECTED};
    is_pending = true;
    run(); /* on_down() checks that it is not called again */
    closes_late = false;
    vp_conn_close(conns[0].conn);
    answers = true;
    close_all("an end is told once");
}

/* What the reasons of a peer for rejecting a request mean: it has no use to ask again, whatever the
 * time limit is, unless the peer is only busy. No time passes. */
static void a_reject_is_believed_at_once(void)
{
    static const struct {
        enum vp_reject_reason reject;
        enum prov_reason reason; /* if the request is not repeated */
        bool is_repeated;
    } rejects[] = {
        {VP_REJ_WRONG_KEY, PROV_REASON_PEER_DEAD, false},
        {VP_REJ_DEAD, PROV_REASON_PEER_DEAD, false},
        {VP_REJ_NO_ENDPOINT, PROV_REASON_NO_ENDPOINT, false},
        {VP_REJ_BY_CORE, PROV_REASON_REJECTED, false},
        {VP_REJ_BUSY, PROV_REASON_BROKEN, true},
    };

    for (size_t i = 0; i < sizeof(rejects) / sizeof(rejects[0]); i++) {
        open_with(PLACES);
        next_reject = rejects[i].reject;
        num_rejects = 0;
        ask(&conns[0]);
        run();
        CHECK(num_rejects == 1 && !conns[0].up);
        CHECK(conns[0].down == !rejects[i].is_repeated);
        CHECK(!conns[0].down || conns[0].reason == rejects[i].reason);
        next_reject = NO_REJECT;
        pass_ms(1000);
        run();
        CHECK(conns[0].up == rejects[i].is_repeated && num_rejects == 1);
        close_all("a reject is believed at once");
    }
}

int main(void)
{
    CHECK(ut_process_environment() == 0);
    fake_status = IBV_WC_SUCCESS;
    fake_sent = hear;
    fake_more = next_event_of_any;
    long_notices_go_apart();
    the_least_recently_used_rests();
    what_the_peer_uses_is_kept();
    busy_ones_take_turns();
    what_is_outstanding_ends_first();
    unsignalled_ones_end_first();
    asked_by_the_peer();
    an_end_is_told_once();
    peer_is_first();
    crossing();
    who_does_not_answer_is_passed_by();
    own_handshakes_leave_room();
    who_waits_long_is_refused();
    a_device_runs_out();
    a_device_has_none();
    a_full_completion_queue();
    a_queue_breaks();
    the_last_receive_is_waited_for();
    receives_grow_with_what_arrives();
    closing_endpoint_reports_no_overload();
    receives_stay_where_memory_is_short();
    failed_handshakes_give_receives_back();
    who_waits_long_is_not_forgotten();
    who_is_late_is_refused();
    stopped_peers_do_not_keep_their_places();
    what_arrived_comes_before_the_end();
    refused_receives_are_posted_later(true);
    refused_receives_are_posted_later(false);
    no_memory_to_ask_for_the_peer();
    what_arrives_at_the_end_is_not_lost();
    late_confirmation();
    the_way_to_the_peer_is_lost();
    a_device_is_removed();
    the_kernel_hears_nothing();
    full_queue_stalls();
    unsignalled_requests_are_no_stall();
    what_is_not_reported_is_not_done(false);
    what_is_not_reported_is_not_done(true);
    a_send_queue_gets_longer();
    an_accepted_one_gets_longer();
    a_queue_that_stays_full_stays_short();
    no_place_for_a_longer_one();
    the_peer_gets_longer();
    depths_of_send_queues();
    limits();
    interrupts_are_spread();
    a_reject_is_believed_at_once();
    return 0;
}
