/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of a first contact between two processes over the shm provider: sock.c, peer.c,
 * conn.c, ep.c and wake.c themselves, with their sockets and rings. Both providers are in this
 * process, and the walk chooses which of them takes the next step: a request of its owner, a run
 * of its background thread, a poll, a close, its death. Between its steps a process may be stopped
 * for any time; so each datagram may be delayed, but none is lost, as the kernel loses none.
 *
 * The owners are those of owners.h.
 *
 * From each state the walk goes to the end: both processes run their background thread when its
 * descriptor is readable, arm their endpoint, sleep, and poll when they are woken. What has to
 * hold:
 *   - No side sleeps while a connection waits: each one that was requested is up, or its owner
 *     knows why not.
 *   - If nobody closes or dies, both sides are up, and know each other by name.
 *   - What owners.h checks.
 *   - Of a process that has died each connection goes down.
 *   - A connection that is refused has a line in the log.
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
#include "walk.h"

enum { MAX_FLIGHT = 64 };

/* What only this walk's processes have. */
struct own {
    uint16_t flight[MAX_FLIGHT]; /* types of the datagrams towards it */
    unsigned int num_flight;
};

#include "owners.h"

extern const struct prov_ops shm_provider;

enum {
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

static unsigned int shortages_left;

enum { REACHED_YIELD = REACHED_OWN, REACHED_REFUSED };

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
    struct own *to = &processes[!running].own;

    WALK_CHECK(to->num_flight < MAX_FLIGHT);
    to->flight[to->num_flight++] = type;
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
        struct own *own = &this_process()->own;
        uint16_t type = type_of(msg);
        unsigned int i = 0;
        while (i < own->num_flight && own->flight[i] != type)
            i++;
        WALK_CHECK(i < own->num_flight);
        own->num_flight--;
        memmove(&own->flight[i], &own->flight[i + 1],
                (own->num_flight - i) * sizeof(own->flight[0]));
        if (type == (SP_DGRAM_YIELD & 0xffff))
            walk_reached(REACHED_YIELD);
    }
    return n;
}

/*** steps of a process ***/

static void spoil_address(uint8_t *address)
{
    if (rules.wrong_key && running == 1)
        ((struct sp_address *)(void *)address)->key += 100;
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

static int poll_ep(struct process *process)
{
    return shm_provider.ep_poll(process->ep);
}

/* True if a poll has something to do. */
static bool must_poll(const struct process *process)
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

/* The slots that were not consumed yet. ep: NULL if the ring has no endpoint, and waits for one. */
static void put_ring(struct walk_bytes *bytes, const struct sp_ring *ring, uint64_t head,
                     const struct sp_ep *ep)
{
    for (uint64_t at = head; at < ring->tail; at++) {
        const struct sp_slot *slot = sp_ring_slot((struct sp_ring *)ring, at);
        walk_put_byte(bytes, 40 + slot->kind);
        walk_put_byte(bytes, slot->kind == SP_KIND_REQUEST
                                 ? (unsigned int)(slot->imm & 0xff)
                                 : ep && sp_conn_by_id((struct sp_ep *)ep, slot->conn) != NULL);
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
    put_ring(bytes, ep->ring, ep->head, ep);
}

static void put_process(struct walk_bytes *bytes, const struct process *process)
{
    const struct sp_prov *prov = sp_prov_of(process->prov);
    const struct sp_peer *peer;

    walk_put_byte(bytes, process->dead);
    walk_put_byte(bytes, process->link);
    walk_put_byte(bytes, process->reason);
    walk_put_byte(bytes, process->num_lines > 0);
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
    else
        put_ring(bytes, sp_ring_of(prov->seg, 0), prov->ep_history[0].head, NULL);
}

static void put_state(struct walk_bytes *bytes)
{
    walk_put_byte(bytes, shortages_left);
    for (running = 0; running < SIDES; running++) {
        put_process(bytes, this_process());
        const struct own *own = &this_process()->own;
        for (unsigned int i = 0; i < own->num_flight; i++)
            walk_put_byte(bytes, own->flight[i] & 0xff);
    }
}

/*** the end ***/

/* The owner polls until nothing comes, and arms. True: it did something. */
static bool run_owner(struct process *process)
{
    if (!process->ep || process->sleeps)
        return false;
    while (poll_ep(process) > 0)
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
        if (process->link == LINK_AWAITING) { /* for UT_FSM_CROSSED_WAIT_MS */
            WALK_CHECK(disturbed);
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

static void check_pair(const struct end *end, const struct end *other)
{
    const struct sp_conn *conn = sp_conn_of(end->conn), *peer = sp_conn_of(other->conn);

    WALK_CHECK(conn->state == SP_CONN_UP && conn->rmt_conn_id == peer->conn_id);
}

static void check_reason(const struct process *process)
{
    if (process->dead || !process->ep || process->link != LINK_FAILED ||
        (process->reason != PROV_REASON_REFUSED && process->reason != PROV_REASON_LOCAL))
        return;
    walk_reached(REACHED_REFUSED);
    WALK_CHECK(process->num_lines > 0);
}

static void finish_run(void)
{
    wake_owners();
    calm_down();
    check_sides();
    for (int side = 0; side < SIDES; side++)
        check_reason(&processes[side]);
}

enum { TIME = OWN_ACTION };

static void add_time(struct walk_choices *choices, int side, const struct process *process)
{
    if (sp_prov_of(process->prov)->retry_ms)
        walk_add_choice(choices, TIME, side, 0);
}

static const struct process_ops ops = {.provider = &shm_provider,
                                       .open_ep = open_endpoint,
                                       .close_ep = close_endpoint,
                                       .run_thread = run_thread,
                                       .poll_ep = poll_ep,
                                       .must_run_thread = is_readable,
                                       .must_poll = must_poll,
                                       .kill = kill_process,
                                       .add_own = add_time,
                                       .finish_run = finish_run,
                                       .check_pair = check_pair,
                                       .spoil_address = spoil_address};

/*** a run ***/

static void open_process(int side)
{
    const struct prov_config config = {.wake = wake_owner,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_TIMEOUT_MS,
                                       .job_timeout_ms = PEER_TIMEOUT_MS};
    struct process *process = &processes[side];

    running = side;
    *process = (struct process){.id = 100 + (uint64_t)side,
                                .requests_left = rules.requests[side],
                                .closes_left = rules.closes[side],
                                .reopens_left = rules.reopens[side],
                                .may_die = rules.dies && side == 0};
    WALK_CHECK(shm_provider.open(&config, &process->prov) == 0);
    open_endpoint(process);
}

static void close_process(int side)
{
    running = side;
    if (this_process()->ep)
        shm_provider.ep_close(this_process()->ep);
    shm_provider.close(this_process()->prov);
}

static void do_choice(const struct walk_choice *choice)
{
    running = choice->side;
    if (choice->action < OWN_ACTION) {
        do_process(this_process(), choice->action);
        return;
    }
    walk_step("the time of side %u comes", (unsigned int)running, 0, 0);
    pass_time(this_process());
}

static void open_all(void)
{
    now_ms = 1000000;
    num_runs++;
    next_random = 0;
    disturbed = rules.wrong_key;
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
        add_process(choices, side);
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
