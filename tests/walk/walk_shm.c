/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of a first contact between two processes over the shm provider: sock.c, peer.c,
 * conn.c, ep.c and wake.c themselves, with their sockets and rings. Both providers are in this
 * process, and the walk chooses which of them takes the next step: a request of its owner, a run
 * of its background thread, a poll, a close, its death. Between its steps a process may be stopped
 * for any time; so each datagram may be delayed, but none is lost, as the kernel loses none.
 *
 * The owners are as the core: crossed requests are resolved by ids (src/link/connect.c), a
 * connection that goes down is closed, a request that was rejected is not repeated before the
 * peer's own request has come.
 *
 * From each state the walk goes to the end: both processes run their background thread when its
 * descriptor is readable, arm their endpoint, sleep, and poll when they are woken. What has to
 * hold:
 *   - No side sleeps while a connection waits: each one that was requested is up, or its owner
 *     knows why not.
 *   - If nobody closes or dies, both sides are up, and know each other by name.
 *   - up() and down() come at most once for a connection, and none after conn_close().
 *   - Of a process that has died each connection goes down.
 *   - A connection that is refused, or for which this process lacks something, has a line in the
 *     log.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"
#include "shm/conn.h"
#include "shm/ring.h"
#include "shm/sock.h"
#include "shm/types.h"
#include "util/fd.h"
#include "util/log.h"
#include "walk.h"

extern const struct prov_ops shm_provider;

enum {
    SIDES = 2,
    MAX_CONNS = 12, /* contexts of a side in a run */
    MAX_FLIGHT = 64,
    MAX_STATES = 2000000,
    MAX_EXCHANGE = 200,
    PEER_TIMEOUT_MS = 60000,
};

/* What a scenario allows. */
struct rules {
    unsigned int requests[SIDES], closes[SIDES], reopens[SIDES];
    unsigned int shortages; /* how often side 0 has no descriptor to accept with */
    bool dies;              /* side 0 may die at any time */
    bool swapped;           /* side 0 has the larger key */
    bool wrong_key;         /* side 1 has a wrong key for side 0 */
};

static struct rules rules;

/*** the process's clock, and random numbers: the same in each run ***/

static uint64_t now_ms;
static uint64_t num_runs;
static uint64_t next_random;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now_ms / 1000),
                              .tv_nsec = (long)(now_ms % 1000 * 1000000)};
    return 0;
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags)
{
    (void)flags;
    next_random++;
    /* make_address() asks for the key and for the name of the socket, which no run has used */
    uint64_t numbers[2] = {rules.swapped ? UINT64_MAX / 2 - next_random : next_random,
                           num_runs << 8 | next_random | (uint64_t)getpid() << 40};

    memcpy(to, numbers, size < sizeof(numbers) ? size : sizeof(numbers));
    return (ssize_t)size;
}

/* A timer expires at once: whether it does before something else is the walk's choice. */
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    (void)new;
    return __real_timerfd_settime(fd, flags, &soon, old);
}

/*** the processes ***/

/* The owner's end of a connection. */
struct end {
    struct prov_conn *conn; /* NULL: closed */
    bool requested;         /* by this side */
    bool up;
    bool down;
};

enum link_state { IDLE, CONNECTING, AWAITING, IS_UP, FAILED };

struct process {
    struct prov *prov;
    struct prov_ep *ep;
    struct end ends[MAX_CONNS];
    unsigned int num_ends;
    struct end *end; /* of the link */
    enum link_state link;
    enum prov_reason reason; /* of FAILED */
    unsigned int requests_left, closes_left, reopens_left;
    bool woken, sleeps, dead;
};

static struct process processes[SIDES];
static int running;                        /* the side whose code runs */
static uint16_t flight[SIDES][MAX_FLIGHT]; /* types of the datagrams towards a side */
static unsigned int num_flight[SIDES];
static bool closed_by_hand; /* somebody has closed a connection or endpoint, or died */
static unsigned int shortages_left;

enum reached { REACHED_UP, REACHED_CROSSED, REACHED_DEAD, REACHED_YIELD, REACHED_REFUSED };

static struct process *this_process(void)
{
    return &processes[running];
}

/*** the sockets: what is under way is part of the state ***/

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (running == 0 && shortages_left > 0 && walk_choose(2) == 1) {
        walk_step("    no descriptor is left", 0, 0, 0);
        shortages_left--;
        errno = EMFILE;
        return -1;
    }
    return __real_accept4(fd, address, size, flags);
}

static uint16_t type_of(const struct msghdr *msg)
{
    const struct sp_dgram *d = msg->msg_iov->iov_base;

    return (uint16_t)d->type;
}

/* A datagram has been sent by the running side. */
static void add_flight(uint16_t type)
{
    int to = !running;

    WALK_CHECK(num_flight[to] < MAX_FLIGHT);
    flight[to][num_flight[to]++] = type;
}

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    ssize_t n = __real_send(fd, data, size, flags);

    if (n > 0)
        add_flight((uint16_t)((const struct sp_dgram *)data)->type);
    return n;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n = __real_sendmsg(fd, msg, flags);

    if (n > 0)
        add_flight(type_of(msg));
    return n;
}

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n = __real_recvmsg(fd, msg, flags);

    if (n > 0) {
        uint16_t type = type_of(msg);
        unsigned int i = 0;
        while (i < num_flight[running] && flight[running][i] != type)
            i++;
        WALK_CHECK(i < num_flight[running]);
        memmove(&flight[running][i], &flight[running][i + 1],
                (num_flight[running] - i - 1) * sizeof(flight[running][0]));
        num_flight[running]--;
        if (type == (SP_DGRAM_YIELD & 0xffff))
            walk_reached(REACHED_YIELD);
    }
    return n;
}

/*** the log: errors and warnings of each side ***/

static unsigned int num_lines[SIDES];

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...)
{
    (void)category, (void)format;
    num_lines[running] += level <= UT_LOG_WARNING;
}

/*** the owners ***/

static uint64_t id_of(int side)
{
    return 100 + (uint64_t)side;
}

static struct end *new_end(struct process *process, struct prov_conn *conn, bool requested)
{
    struct end *end = &process->ends[process->num_ends++];

    WALK_CHECK(process->num_ends <= MAX_CONNS);
    *end = (struct end){.conn = conn, .requested = requested};
    return end;
}

static void close_end(struct process *process)
{
    struct end *end = process->end;

    process->end = NULL;
    shm_provider.conn_close(end->conn);
    end->conn = NULL;
}

static void begin_request(struct process *process)
{
    uint8_t address[PROV_ADDR_MAX] __attribute__((aligned(8)));
    int other = !running;
    size_t size = shm_provider.address(processes[other].prov, address);
    struct end *end = new_end(process, NULL, true);

    if (rules.wrong_key && running == 1)
        ((struct sp_address *)(void *)address)->key += 100;
    process->end = end;
    process->link = CONNECTING;
    int rc = shm_provider.connect(process->ep, address, size, 0, id_of(other), "question", 8, end,
                                  &end->conn);
    WALK_CHECK(rc == 0);
}

static void accept_request(struct process *process, struct prov_conn *conn)
{
    struct end *end = new_end(process, conn, false);

    process->end = end;
    WALK_CHECK(shm_provider.accept(conn, "answer..", 8, end) == 0);
    process->link = IS_UP; /* as ut_fsm: after "accept sent" */
}

/* As ut_link_on_request(). */
static void on_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t size)
{
    struct process *process = owner;

    WALK_CHECK(process == this_process() && prov == process->prov && peer_id == id_of(!running));
    WALK_CHECK(size == 8 && memcmp(hello, "question", 8) == 0);
    if (process->link == CONNECTING && id_of(running) < peer_id) {
        walk_reached(REACHED_CROSSED);
        shm_provider.reject(conn);
        return;
    }
    if (process->end)
        close_end(process);
    accept_request(process, conn);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    struct end *end = ctx;

    WALK_CHECK(end == this_process()->end && end->conn && !end->up && !end->down);
    WALK_CHECK(size == 8 && memcmp(hello, end->requested ? "answer.." : "question", 8) == 0);
    end->up = true;
    this_process()->link = IS_UP;
}

/* As ut_link_on_down(), for a link without work. */
static void on_down(void *ctx, enum prov_reason reason)
{
    struct process *process = this_process();
    struct end *end = ctx;

    WALK_CHECK(end == process->end && end->conn && !end->down);
    end->down = true;
    close_end(process);
    process->link = reason == PROV_REASON_REJECTED && end->requested ? AWAITING : FAILED;
    process->reason = reason;
}

static const struct prov_callbacks callbacks = {
    .request = on_request, .up = on_up, .down = on_down};

static void wake_owner(void *owner)
{
    struct process *process = owner;

    WALK_CHECK(process == this_process());
    process->woken = true;
    process->sleeps = false;
}

/*** steps of a process ***/

static void open_ep(struct process *process)
{
    struct prov_ep_attr attr = {.id = id_of((int)(process - processes)),
                                .owner = process,
                                .callbacks = &callbacks,
                                .depth = 16};

    WALK_CHECK(shm_provider.ep_open(process->prov, &attr, &process->ep) == 0);
}

static void close_ep(struct process *process)
{
    process->end = NULL;
    process->link = FAILED;
    process->reason = PROV_REASON_CLOSED;
    shm_provider.ep_close(process->ep);
    process->ep = NULL;
}

/* The kernel closes the descriptors; the segment stays as it is. */
static void kill_process(struct process *process)
{
    struct sp_prov *prov = sp_prov_of(process->prov);
    struct sp_peer *peer;

    LIST_FOREACH (peer, &prov->peers, next) {
        ut_fd_close(peer->fd);
        peer->fd = -1;
    }
    ut_fd_close(prov->listen_fd);
    prov->listen_fd = -1;
    process->dead = true;
    closed_by_hand = true;
}

static bool is_readable(const struct process *process)
{
    struct pollfd fd = {.fd = sp_prov_of(process->prov)->epoll_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void run_thread(struct process *process)
{
    shm_provider.progress(process->prov);
}

static void pass_time(struct process *process)
{
    struct sp_prov *prov = sp_prov_of(process->prov);

    if (prov->retry_ms > now_ms)
        now_ms = prov->retry_ms;
    run_thread(process);
}

static bool has_slot(const struct process *process)
{
    const struct sp_ep *ep = sp_ep_of(process->ep);

    return ep->next_slot->state != ep->vacant || ep->num_active > 0 || ep->must_check_peers;
}

/*** what a state is ***/

static void put_peer(struct walk_bytes *bytes, const struct sp_peer *peer)
{
    walk_put_byte(bytes, 10 + peer->state);
    walk_put_byte(bytes, peer->refs);
    walk_put_byte(bytes, peer->fd >= 0);
    walk_put_byte(bytes, peer->pending_notifications);
    walk_put_byte(bytes, peer->seg != NULL);
    walk_put_byte(bytes, peer->state == SP_PEER_WILL_CONNECT && peer->retry_ms != 0);
    walk_put_byte(bytes, (unsigned int)(peer->closed_eps_seen & 0xff));
    walk_put_byte(bytes, peer->backoff_ms != 0);
}

static void put_conn(struct walk_bytes *bytes, const struct sp_conn *conn)
{
    const struct process *process = this_process();

    walk_put_byte(bytes, 20 + conn->state);
    walk_put_byte(bytes, conn->ctl);
    walk_put_byte(bytes, conn->up_due | conn->down_due << 1 | (conn->active_index != 0) << 2);
    walk_put_byte(bytes, conn->reason);
    walk_put_byte(bytes,
                  conn->rmt_dir_state ? (*conn->rmt_dir_state - conn->rmt_state) & 0xff : 255);
    walk_put_byte(bytes, process->end && process->end->conn == (const struct prov_conn *)conn);
}

/* The slots that were not consumed yet. */
static void put_ring(struct walk_bytes *bytes, const struct sp_ep *ep)
{
    for (uint64_t at = ep->head; at < ep->ring->tail; at++) {
        const struct sp_slot *slot = sp_ring_slot(ep->ring, at);
        walk_put_byte(bytes, 40 + slot->kind);
        walk_put_byte(bytes, slot->kind == SP_KIND_REQUEST
                                 ? (unsigned int)(slot->imm & 0xff)
                                 : sp_conn_by_id((struct sp_ep *)ep, slot->conn) != NULL);
    }
}

static void put_ep(struct walk_bytes *bytes, const struct sp_ep *ep)
{
    walk_put_byte(bytes, ep->must_check_peers);
    walk_put_byte(bytes, ep->ring->armed);
    walk_put_byte(bytes, ep->ring->rung);
    walk_put_byte(bytes, ep->wake_by_timer);
    for (uint32_t i = 0; i < ep->conns_size; i++)
        if (ep->conns[i])
            put_conn(bytes, ep->conns[i]);
    walk_put_byte(bytes, ep->num_live);
    put_ring(bytes, ep);
}

static void put_process(struct walk_bytes *bytes, const struct process *process)
{
    const struct sp_prov *prov = sp_prov_of(process->prov);
    const struct sp_peer *peer;

    walk_put_byte(bytes, process->dead);
    walk_put_byte(bytes, process->link);
    walk_put_byte(bytes, process->reason);
    walk_put_byte(bytes, num_lines[running] > 0);
    walk_put_byte(bytes, process->requests_left);
    walk_put_byte(bytes, process->closes_left);
    walk_put_byte(bytes, process->reopens_left);
    walk_put_byte(bytes, process->dead ? 0 : is_readable(process));
    walk_put_byte(bytes, prov->retry_ms != 0);
    walk_put_byte(bytes, prov->deaths);
    LIST_FOREACH (peer, &prov->peers, next)
        put_peer(bytes, peer);
    walk_put_byte(bytes, process->ep ? 1 : 0);
    if (process->ep)
        put_ep(bytes, sp_ep_of(process->ep));
}

static void put_state(struct walk_bytes *bytes)
{
    walk_put_byte(bytes, shortages_left);
    for (running = 0; running < SIDES; running++) {
        put_process(bytes, this_process());
        for (unsigned int i = 0; i < num_flight[running]; i++)
            walk_put_byte(bytes, flight[running][i] & 0xff);
    }
}

/*** the end ***/

/* The owner polls until nothing comes, and arms. True: it did something. */
static bool run_owner(struct process *process)
{
    if (!process->ep || process->sleeps)
        return false;
    process->woken = false;
    while (shm_provider.ep_poll(process->ep) > 0)
        ;
    if (process->ep)
        process->sleeps = !shm_provider.ep_arm(process->ep, PROV_ARM_SOLICITED);
    return true;
}

/* True: it did something. */
static bool run_process(void)
{
    struct process *process = this_process();

    if (process->dead)
        return false;
    if (run_owner(process)) {
        walk_step("  end: the owner of side %u polls", (unsigned int)running, 0, 0);
        return true;
    }
    if (is_readable(process)) {
        walk_step("  end: the thread of side %u runs", (unsigned int)running, 0, 0);
        run_thread(process);
        return true;
    }
    return false;
}

static bool pass_any_time(void)
{
    for (running = 0; running < SIDES; running++) {
        struct process *process = this_process();
        if (process->dead)
            continue;
        if (sp_prov_of(process->prov)->retry_ms) {
            walk_step("  end: the time of side %u comes", (unsigned int)running, 0, 0);
            pass_time(process);
            return true;
        }
        if (process->link == AWAITING) { /* for UT_FSM_CROSSED_WAIT_MS */
            WALK_CHECK(closed_by_hand);
            walk_step("  end: side %u requests again", (unsigned int)running, 0, 0);
            begin_request(process);
            return true;
        }
    }
    return false;
}

static void calm_down(void)
{
    for (int i = 0; i < MAX_EXCHANGE; i++) {
        bool any = false;
        for (running = 0; running < SIDES; running++)
            any |= run_process();
        if (!any && !pass_any_time())
            return;
    }
    WALK_CHECK(!"both processes come to rest");
}

static void check_side(int side)
{
    const struct process *process = &processes[side], *other = &processes[!side];

    running = side;
    /* no connection waits for anything */
    WALK_CHECK(process->link != CONNECTING && process->link != AWAITING);
    if (process->link == IS_UP) {
        WALK_CHECK(process->end && process->end->up && !process->end->down);
        WALK_CHECK(!other->dead && other->link == IS_UP);
        const struct sp_conn *conn = sp_conn_of(process->end->conn);
        const struct sp_conn *peer = sp_conn_of(other->end->conn);
        WALK_CHECK(conn->state == SP_CONN_UP && conn->rmt_conn_id == peer->conn_id);
        walk_reached(REACHED_UP);
    }
    if (process->link == FAILED && other->dead && process->reason == PROV_REASON_PEER_DEAD)
        walk_reached(REACHED_DEAD);
    if (process->link == FAILED &&
        (process->reason == PROV_REASON_REFUSED || process->reason == PROV_REASON_LOCAL)) {
        walk_reached(REACHED_REFUSED);
        WALK_CHECK(num_lines[side] > 0);
    }
    if (process->link == FAILED && !process->end && !closed_by_hand)
        WALK_CHECK(!"without a reason no connection fails");
}

static void finish_run(void)
{
    for (running = 0; running < SIDES; running++)
        this_process()->sleeps = false;
    calm_down();
    for (int side = 0; side < SIDES; side++)
        if (!processes[side].dead && processes[side].ep)
            check_side(side);
}

/*** a run ***/

static void open_process(int side)
{
    const struct prov_config config = {.wake = wake_owner,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_TIMEOUT_MS,
                                       .job_timeout_ms = PEER_TIMEOUT_MS};
    struct process *process = &processes[side];

    running = side;
    *process = (struct process){.requests_left = rules.requests[side],
                                .closes_left = rules.closes[side],
                                .reopens_left = rules.reopens[side]};
    WALK_CHECK(shm_provider.open(&config, &process->prov) == 0);
    open_ep(process);
    num_flight[side] = num_lines[side] = 0;
}

static void close_process(int side)
{
    running = side;
    if (this_process()->ep)
        shm_provider.ep_close(this_process()->ep);
    shm_provider.close(this_process()->prov);
}

enum action { THREAD = WALK_FINISH + 1, TIME, POLL, REQUEST, CLOSE, CLOSE_EP, REOPEN_EP, DIE };

static void add_side(struct walk_choices *choices, int side)
{
    const struct process *process = &processes[side];

    if (process->dead)
        return;
    if (is_readable(process))
        walk_add_choice(choices, THREAD, side, 0);
    if (sp_prov_of(process->prov)->retry_ms)
        walk_add_choice(choices, TIME, side, 0);
    if (process->ep && has_slot(process))
        walk_add_choice(choices, POLL, side, 0);
    if (process->ep && process->requests_left > 0 &&
        (process->link == IDLE || process->link == FAILED))
        walk_add_choice(choices, REQUEST, side, 0);
    if (process->end && process->closes_left > 0)
        walk_add_choice(choices, CLOSE, side, 0);
    if (process->ep && process->reopens_left > 0)
        walk_add_choice(choices, CLOSE_EP, side, 0);
    if (!process->ep)
        walk_add_choice(choices, REOPEN_EP, side, 0);
    if (rules.dies && side == 0)
        walk_add_choice(choices, DIE, side, 0);
}

static void do_choice(const struct walk_choice *choice)
{
    static const char *const what[] = {
        [THREAD] = "the thread of side %u runs",
        [TIME] = "the time of side %u comes",
        [POLL] = "side %u polls",
        [REQUEST] = "side %u requests a connection",
        [CLOSE] = "side %u closes its connection",
        [CLOSE_EP] = "side %u closes its endpoint",
        [REOPEN_EP] = "side %u opens an endpoint",
        [DIE] = "side %u dies",
        [WALK_FINISH] = "from now on both run",
    };
    struct process *process = &processes[choice->side];

    walk_step(what[choice->action], (unsigned int)choice->side, 0, 0);
    running = choice->side;
    switch (choice->action) {
    case THREAD:
        run_thread(process);
        break;
    case TIME:
        pass_time(process);
        break;
    case POLL:
        shm_provider.ep_poll(process->ep);
        break;
    case REQUEST:
        process->requests_left--;
        begin_request(process);
        break;
    case CLOSE:
        process->closes_left--;
        closed_by_hand = true;
        close_end(process);
        process->link = FAILED;
        process->reason = PROV_REASON_CLOSED;
        break;
    case CLOSE_EP:
        process->reopens_left--;
        closed_by_hand = true;
        close_ep(process);
        break;
    case REOPEN_EP:
        open_ep(process);
        break;
    case DIE:
        kill_process(process);
        break;
    case WALK_FINISH:
        finish_run();
        break;
    }
}

static void open_all(void)
{
    now_ms = 1000000;
    num_runs++;
    next_random = 0;
    closed_by_hand = rules.wrong_key;
    shortages_left = rules.shortages;
    for (int side = 0; side < SIDES; side++)
        open_process(side);
}

static void close_all(void)
{
    for (int side = 0; side < SIDES; side++)
        close_process(side);
}

static void add_choices(struct walk_choices *choices)
{
    for (int side = 0; side < SIDES; side++)
        add_side(choices, side);
}

static const struct walk_scenario scenarios[] = {
    SCENARIO("one request", 0, UP, .requests = {1}),
    SCENARIO("requests cross", 0, CROSSED, .requests = {1, 1}),
    SCENARIO("requests cross, the other key", 0, YIELD, .requests = {1, 1}, .swapped = true),
    SCENARIO("a death", 0, DEAD, .requests = {1, 1}, .dies = true),
    SCENARIO("a shortage", 0, UP, .requests = {1, 1}, .shortages = 1),
    SCENARIO("a wrong key", 0, REFUSED, .requests = {1, 1}, .wrong_key = true),
    SCENARIO("closes", 0, CROSSED, .requests = {1, 1}, .closes = {1, 1}),
    SCENARIO("closes, and a second request", 1, UP, .requests = {2, 1}, .closes = {1, 1}),
    SCENARIO("new endpoints", 1, UP, .requests = {2}, .reopens = {1, 1}),
    SCENARIO("requests cross, new endpoints", 2, UP, .requests = {1, 1}, .reopens = {1, 1}),
    SCENARIO("closes and a death", 2, DEAD, .requests = {2, 1}, .closes = {1, 1}, .dies = true),
    {.name = NULL},
};

static const struct walk_protocol protocol = {&rules,    sizeof(rules), MAX_STATES, open_all,
                                              put_state, add_choices,   do_choice,  close_all};

int main(int argc, char **argv)
{
    setenv("UTOFU_SHM_MAP", "0", 1);
    setenv("UTOFU_SHM_CMA", "0", 1);
    return walk_main(argc, argv, &protocol, scenarios);
}
