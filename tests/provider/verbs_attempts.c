/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number, length and pauses of attempts to connect: to a peer that is silent, to one that
 * refuses because too many ask, to a slow one, and to those that wait behind them. There is no
 * device: fake_verbs.h, whose clock is moved by the test.
 */
#include "fake_verbs.h"

#include "checked_locks.h"
#include "../harness/check.h"
#include "process/process.h"

enum {
    PEERS = 20,
    MOST_TRIES = 256,
    PEER_MS = 20000,
    FIRST_MS = 1000, /* of an attempt: a quarter of 4 s */
    ENDPOINT = 7,
    STEP_MS = 10,
    NEVER = -1,
};

static struct test_peer {
    struct prov_conn *conn;
    int answers_after; /* ms, or NEVER */
    bool refuses;
    bool up, down;
    enum prov_reason reason;
    unsigned int tries;
    int64_t asked[MOST_TRIES + 1]; /* ms: start of the first, second... attempt; the last entry
                                    * stays 0 */
    int64_t ended;                 /* ms: when the connection was up or down */
} peers[PEERS];

static struct vp_prov *prov;
static struct prov_ep *ep;

static int64_t now_ms(void)
{
    return (int64_t)fake_now.tv_sec * 1000 + fake_now.tv_nsec / 1000000;
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    struct test_peer *peer = ctx;

    (void)hello, (void)size;
    peer->up = true;
    peer->ended = now_ms();
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct test_peer *peer = ctx;

    CHECK(!peer->up && !peer->down);
    peer->down = true;
    peer->reason = reason;
    peer->ended = now_ms();
    vp_conn_close(peer->conn);
    peer->conn = NULL;
}

static void wake(void *owner)
{
    (void)owner;
}

/* The kernel resolves at once; the peer answers as `peers` says. */
static bool next_event_of(struct fake_id *id)
{
    static const struct vp_hello_rep answer = {.magic = {'u', 'T', 'f', 'A'}, .mtu = IBV_MTU_1024};
    enum rdma_cm_event_type type;

    if (id->step == ADDRESS || id->step == ROUTE) {
        type = id->step == ADDRESS ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ROUTE_RESOLVED;
        id->step = IDLE;
    } else if (id->step == ASKED) {
        const struct vp_conn *conn = vp_container_of(id->id.context, struct vp_conn, id);
        struct test_peer *peer = conn->ctx;
        if (peer->tries < conn->hs.tries) {
            CHECK(conn->hs.tries == peer->tries + 1 && conn->hs.tries <= MOST_TRIES);
            peer->asked[peer->tries++] = now_ms();
        }
        if (peer->answers_after < 0 ||
            now_ms() < peer->asked[peer->tries - 1] + peer->answers_after)
            return false;
        type = peer->refuses ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_CONNECT_RESPONSE;
        id->step = peer->refuses ? GONE : ANSWERED;
    } else {
        return false;
    }
    pending = (struct rdma_cm_event){.id = &id->id, .event = type};
    if (type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        pending.param.conn.private_data = &answer;
        pending.param.conn.private_data_len = sizeof(answer);
    }
    is_pending = true;
    return true;
}

static bool next_event_of_any(void)
{
    for (int i = 0; i < IDS; i++)
        if (ids[i] && next_event_of(ids[i]))
            return true;
    return false;
}

static void run(void)
{
    for (int i = 0; i < 5; i++) {
        vp_progress(&prov->base);
        vp_cm_run_events(prov);
        vp_ep_poll(ep);
    }
}

static void pass_ms(int64_t ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end;) {
        run();
        fake_now.tv_nsec += STEP_MS * 1000000L;
        fake_now.tv_sec += fake_now.tv_nsec / 1000000000;
        fake_now.tv_nsec %= 1000000000;
    }
    run();
}

static void ask(int i, int answers_after, bool refuses)
{
    uint8_t address[PROV_ADDR_MAX];
    size_t size = vp_address(&prov->base, address);

    peers[i] = (struct test_peer){.answers_after = answers_after, .refuses = refuses};
    CHECK(vp_connect(ep, address, size, 0, ENDPOINT + 1 + (uint64_t)i, NULL, 0, &peers[i],
                     &peers[i].conn) == 0);
}

static void open_all(void)
{
    static const struct prov_callbacks callbacks = {.up = on_up, .down = on_down};
    static const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 64};
    const struct prov_config config = {.wake = wake,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_MS,
                                       .job_timeout_ms = PEER_MS,
                                       .local_size = 1};

    fake_now.tv_sec = 1000;
    fake_now.tv_nsec = 0;
    prov = fake_open(&config);
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    memset(peers, 0, sizeof(peers));
}

static void close_all(const char *what)
{
    vp_ep_close(ep);
    fake_close(prov);
    CHECK(fake_qps == 0);
    printf("ok: %s\n", what);
}

/* From the attempt before this one (1, 2...) to this one. */
static int64_t gap(const struct test_peer *peer, unsigned int attempt)
{
    return peer->asked[attempt] - peer->asked[attempt - 1];
}

/* Each attempt takes twice as long as the one before, up to half of a peer timeout, and all
 * together as long as a peer may be silent. */
static void a_silent_peer_gets_more_time(void)
{
    int64_t ms = FIRST_MS;

    open_all();
    ask(0, NEVER, false);
    pass_ms(PEER_MS - 2000);
    CHECK(!peers[0].down);
    pass_ms(4000);
    CHECK(peers[0].down && peers[0].reason == PROV_REASON_SILENT && peers[0].tries == 5);
    for (unsigned int i = 1; i < peers[0].tries; i++, ms *= 2)
        CHECK(gap(&peers[0], i) >= ms && gap(&peers[0], i) <= ms + 2000);
    CHECK(peers[0].ended - peers[0].asked[0] <= PEER_MS + STEP_MS);
    close_all("a silent peer gets more time");
}

/* The peer lives, so it is not given up; the pauses between attempts grow, and differ between
 * processes. */
static void a_crowded_peer_is_left_alone(void)
{
    int64_t pause = 40;
    int together = 0;

    open_all();
    ask(0, 0, true);
    ask(1, 0, true);
    pass_ms(3 * PEER_MS);
    for (int i = 0; i < 2; i++)
        CHECK(!peers[i].up && !peers[i].down && peers[i].tries > 20 && peers[i].tries < 50);
    for (unsigned int i = 1; i < 20; i++) {
        CHECK(gap(&peers[0], i) >= pause && gap(&peers[0], i) <= pause * 3 / 2 + 2 * STEP_MS);
        together += peers[0].asked[i] == peers[1].asked[i];
        pause = 2 * pause < 2000 ? 2 * pause : 2000;
    }
    CHECK(together < 3);
    peers[0].refuses = false;
    peers[1].answers_after = NEVER;
    unsigned int tries = peers[1].tries;
    pass_ms(3100 + PEER_MS / 2);
    CHECK(peers[0].up && !peers[1].down && peers[1].tries > tries);
    pass_ms(3100);
    CHECK(peers[1].tries == tries + 2); /* half of a peer timeout each */
    close_all("a crowded peer is left alone");
}

/* While handshakes take long, a first attempt waits as long as they take; when they are fast again,
 * it does not. */
static void slow_handshakes_get_time(void)
{
    open_all();
    ask(0, 3500, false);
    pass_ms(12000);
    CHECK(peers[0].up && peers[0].tries == 3);
    ask(1, 3500, false);
    pass_ms(4000);
    CHECK(peers[1].up && peers[1].tries == 1);
    for (int i = 0; i < 40; i++) {
        ask(2, 0, false);
        pass_ms(20);
        CHECK(peers[2].up && peers[2].tries == 1);
        vp_conn_close(peers[2].conn);
        pass_ms(20);
    }
    ask(3, NEVER, false);
    pass_ms(FIRST_MS + 200);
    CHECK(peers[3].tries == 2);
    close_all("slow handshakes get time");
}

/* A device without a queue pair is asked again each half second at the latest, as that of another
 * process may be free at any time. */
static void who_lacks_a_queue_pair_tries_soon(void)
{
    enum { MOST_MS = 500 };
    unsigned int tries = 0, changes = 0;
    int64_t changed = 0, longest = 0;

    open_all();
    fake_most_qps = 0;
    ask(0, 0, false);
    for (int64_t end = now_ms() + PEER_MS - 2000; now_ms() < end; pass_ms(STEP_MS)) {
        CHECK(!peers[0].down && peers[0].tries == 0);
        if (vp_conn(peers[0].conn)->hs.tries == tries)
            continue;
        tries = vp_conn(peers[0].conn)->hs.tries;
        longest = changes++ && now_ms() - changed > longest ? now_ms() - changed : longest;
        changed = now_ms();
    }
    CHECK(changes > 20 && longest >= MOST_MS && longest <= MOST_MS * 3 / 2 + 2 * STEP_MS);
    fake_most_qps = UINT_MAX;
    peers[0].tries = tries; /* of which the peer knows nothing */
    pass_ms(MOST_MS * 3 / 2 + 2 * STEP_MS);
    CHECK(peers[0].up);
    close_all("who lacks a queue pair tries soon");
}

static unsigned int num_asked(void)
{
    unsigned int n = 0;

    for (int i = 0; i < PEERS; i++)
        n += peers[i].tries > 0;
    return n;
}

/* Few first attempts are in flight at once while no peer answers; their number grows with each
 * quick answer, and shrinks with slow ones. */
static void a_crowd_is_asked_as_it_answers(void)
{
    open_all();
    for (int i = 0; i < PEERS; i++)
        ask(i, NEVER, false);
    pass_ms(FIRST_MS / 2);
    CHECK(num_asked() == VP_FIRST_WINDOW);
    pass_ms(FIRST_MS);
    CHECK(num_asked() == 2 * VP_FIRST_WINDOW);
    close_all("a silent crowd is asked slowly");
    open_all();
    for (int i = 0; i < 10; i++)
        ask(i, 100, false);
    pass_ms(500);
    CHECK(num_asked() == 10 && peers[9].up); /* 2 + 4 + 4 */
    for (int i = 10; i < PEERS; i++)
        ask(i, NEVER, false);
    pass_ms(100);
    CHECK(num_asked() == PEERS);
    pass_ms(FIRST_MS);
    CHECK(prov->window == 12 - 10);
    close_all("a crowd that answers is asked at once");
}

/* Silent peers do not hold up later ones for long: each for its first attempt at most. */
static void silent_peers_are_in_nobodys_way(void)
{
    const int silent = 8;

    open_all();
    for (int i = 0; i < silent; i++)
        ask(i, NEVER, false);
    ask(silent, 0, false);
    pass_ms(silent / VP_FIRST_WINDOW * FIRST_MS + 200);
    CHECK(peers[silent].up && !peers[0].down && peers[0].tries > 1);
    close_all("silent peers are in nobody's way");
}

int main(void)
{
    CHECK(ut_process_environment() == 0);
    fake_status = IBV_WC_SUCCESS;
    fake_more = next_event_of_any;
    a_silent_peer_gets_more_time();
    a_crowded_peer_is_left_alone();
    slow_handshakes_get_time();
    who_lacks_a_queue_pair_tries_soon();
    a_crowd_is_asked_as_it_answers();
    silent_peers_are_in_nobodys_way();
    return 0;
}
