/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of a handshake over the ofi provider (conn.c, control.c, ep.c, peer.c and what they
 * use) between two processes. Both providers are in this process, over a fake fabric
 * (../fuzz/fake_fabric.h), whose messages the walk delivers: those from one endpoint to another in
 * their order, all others in any order. The fabric may lose a message, as a reliable endpoint does
 * if its connection breaks, with an error at the sender or without one; it may refuse a send for
 * now; a process may be stopped for any time, so each one has its own clock.
 *
 * The owners are those of owners.h.
 *
 * From each state the walk goes to the end: nothing is lost any more; both processes run their
 * background thread when its descriptor is readable, arm their endpoint, sleep, and poll when they
 * are woken; time passes if nothing else happens. What has to hold:
 *   - Each side comes to rest: no connection waits for anything, and nobody sleeps before that.
 *   - Both sides are up and know each other, or neither is up. If nothing was lost, refused or
 *     closed, both are up. A message of each side then arrives.
 *   - What owners.h checks. An operation that ends well was executed once.
 *   - When all is closed, no connection, message or buffer is left in use, and no memory is left
 *     when both have ended.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FAKE_ENDPOINTS 8
#include "../fuzz/fake_fabric.h"

#include "../../provider/ofi/conn.h"
#include "../../provider/ofi/control.h"
#include "../../provider/ofi/ep.h"
#include "../../provider/ofi/event.h"
#include "../../provider/ofi/peer.h"
#include "counted_memory.h"
#include "util/host.h"
#include "walk.h"

/* What only this walk's processes have. */
struct own {
    uint64_t now_ms;
    unsigned int ticks_left;
    bool thread_is_due, poll_is_due; /* time has passed since the last one */
    int pidfd;                       /* by which the other side sees its end; 0: none */
};

#include "owners.h"

enum {
    MAX_FLIGHT = 96,
    MAX_STATES = 4000000,
    MAX_CALM = 400, /* rounds until both processes are at rest */
    TICK_MS = 1000,
    PEER_TIMEOUT_MS = 2000,
    FIRST_MS = 1000000,
    MANY_POLLS = 1000000,
    FIRST_PID = 1 << 30, /* no process has such a number: /proc has no file of it */
};

/* What a scenario allows. */
struct rules {
    unsigned int requests[SIDES], closes[SIDES], messages[SIDES];
    unsigned int ticks[SIDES];   /* how often the side is stopped for a second */
    unsigned int losses, fails;  /* messages lost without an error, and with one */
    unsigned int busy;           /* sends that the fabric refuses for now */
    unsigned int rejects;        /* requests that an owner rejects for want of memory */
    unsigned int shortages;      /* how often a connection cannot be made */
    unsigned int receives;       /* that each endpoint has at a time; 0: many */
    unsigned int reopens[SIDES]; /* endpoints closed and opened anew */
    bool dies;                   /* side 0 may die at any time */
    bool same_host;              /* its death is seen at once */
    bool refused;                /* its host refuses connections to the port of a dead process */
    bool swapped;                /* side 0 has the larger id */
};

static struct rules rules;

static struct rules left; /* what may still happen */
static bool needs_time;   /* somebody has to wait for a repetition, or a time limit */
static bool good;         /* on the way to the end */
static uint64_t next_random;
static bool is_closed[FAKE_EPS]; /* the endpoint is closed, or its process is dead */
static unsigned int num_arms;    /* of owners, on the way to the end */

static struct fp_ep *fp_ep_of(const struct process *process)
{
    return (struct fp_ep *)process->ep;
}

static struct fp_peer *peer_of_process(const struct process *process)
{
    return SLIST_FIRST(&fp_prov_of(process->prov)->peers);
}

/*** what the processes have from the system ***/

int clock_gettime(clockid_t clock, struct timespec *time)
{
    uint64_t now = this_process()->own.now_ms;

    (void)clock;
    *time =
        (struct timespec){.tv_sec = (time_t)(now / 1000), .tv_nsec = (long)(now % 1000 * 1000000)};
    return 0;
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags)
{
    (void)flags;
    if (!good && left.shortages > 0 && this_process()->ep && walk_choose(2) == 1) {
        walk_step("    side %u lacks memory, or random numbers", (unsigned int)running, 0, 0);
        left.shortages--;
        disturbed = needs_time = true;
        errno = EAGAIN;
        return -1;
    }
    memset(to, 0, size);
    memcpy(to, &(uint64_t){++next_random}, sizeof(next_random));
    return (ssize_t)size;
}

/* A timer of a millisecond that expires at once: whether it does before something else is the
 * walk's choice. */
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags)
{
    (void)clock, (void)flags;
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    (void)flags, (void)old;
    WALK_CHECK(new->it_value.tv_sec == 0 && new->it_value.tv_nsec == 1000000);
    return eventfd_write(fd, 1);
}

/* The timer's event and that of a peer's end come in either order, as epoll has a list of what is
 * ready (Linux 6.1, fs/eventpoll.c, ep_send_events()); the others have no effect on each other. */
static int compare_events(const void *a, const void *b)
{
    const struct epoll_event *events[] = {a, b};
    int ranks[2];

    for (int i = 0; i < 2; i++) {
        uint64_t data = events[i]->data.u64;
        ranks[i] = data == FP_EVENT_TIMER ? 0 : data & FP_EVENT_PEER ? 1 : 2;
    }
    return ranks[0] - ranks[1];
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    int n = __real_epoll_wait(fd, events, max, timeout);

    if (n < 2)
        return n;
    qsort(events, (size_t)n, sizeof(*events), compare_events);
    if (events[0].data.u64 != FP_EVENT_TIMER || !(events[1].data.u64 & FP_EVENT_PEER) || good)
        return n;
    if (walk_choose(2) == 1) {
        struct epoll_event timer = events[0];
        events[0] = events[1];
        events[1] = timer;
    }
    return n;
}

/* Processes have their own numbers. */
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return FIRST_PID + running;
}

/* A process's end is seen by a descriptor. */
static long open_pidfd(struct process *process)
{
    if (process->dead) {
        errno = ESRCH;
        return -1;
    }
    process->own.pidfd = eventfd(0, EFD_CLOEXEC);
    return process->own.pidfd;
}

long __real_syscall(long number, ...);
/* Reads six arguments, whether the caller has passed them or not. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long args[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_open)
        return open_pidfd(&processes[(pid_t)args[0] - FIRST_PID]);
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

bool __wrap_fp_peer_port_is_refused(struct fp_peer *peer);
bool __wrap_fp_peer_port_is_refused(struct fp_peer *peer)
{
    return rules.refused && processes[peer->address.pid - FIRST_PID].dead;
}

/* Processes of one host or two. */
int __wrap_ut_host_read(struct ut_host *host);
int __wrap_ut_host_read(struct ut_host *host)
{
    *host = (struct ut_host){.boot = rules.same_host ? 1 : 1 + (uint32_t)running};
    return 0;
}

uint64_t __wrap_fp_process_start(uint32_t pid);
uint64_t __wrap_fp_process_start(uint32_t pid)
{
    (void)pid;
    return 1;
}

/* Signatures cost too much: one key or another, and whether the message has changed, is all that
 * counts. */
static void sign(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE], uint64_t *tag)
{
    const uint32_t *words = (const uint32_t *)(const void *)msg;

    memcpy(tag, key, sizeof(*tag));
    for (size_t i = 0; i < offsetof(struct fp_ctrl_msg, tag) / sizeof(*words); i++)
        *tag = (*tag ^ words[i]) * 0xff51afd7ed558ccd;
}

void __wrap_fp_sign(struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE]);
void __wrap_fp_sign(struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE])
{
    uint64_t tag;

    sign(msg, key, &tag);
    memcpy(msg->tag, &tag, sizeof(tag));
}

bool __wrap_fp_is_signed(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE]);
bool __wrap_fp_is_signed(const struct fp_ctrl_msg *msg, const uint8_t key[FP_KEY_SIZE])
{
    uint64_t tag;

    sign(msg, key, &tag);
    return memcmp(msg->tag, &tag, sizeof(tag)) == 0;
}

/* A shortage is one of random numbers: see getrandom(). */
static bool lacks_memory(void)
{
    return false;
}

/*** the network ***/

struct packet {
    uint8_t bytes[sizeof(struct fp_ctrl_msg)];
    size_t size;
    unsigned int from, to; /* numbers of endpoints */
    void *context;         /* of a send that has not ended */
};

static struct packet flight[MAX_FLIGHT];
static unsigned int num_flight;
static unsigned int num_taken[FAKE_EPS]; /* messages of the endpoint's log that are under way */
static int side_of_ep[FAKE_EPS];
static bool is_set[FAKE_EPS]; /* the descriptor of its queue is readable */

static bool is_ctrl(const struct packet *packet)
{
    return packet->size == sizeof(struct fp_ctrl_msg);
}

static const struct fp_ctrl_msg *ctrl_of(const struct packet *packet)
{
    return (const struct fp_ctrl_msg *)(const void *)packet->bytes;
}

static const struct fp_head *head_of(const struct packet *packet)
{
    return (const struct fp_head *)(const void *)packet->bytes;
}

static unsigned int kind_of(const struct packet *packet)
{
    return is_ctrl(packet) ? ctrl_of(packet)->kind : 100u + head_of(packet)->kind;
}

/* The fabric's answer to a send. */
static ssize_t send_error(void)
{
    if (good || left.busy == 0 || walk_choose(2) == 0)
        return 0;
    walk_step("    the fabric is busy", 0, 0, 0);
    left.busy--;
    return -FI_EAGAIN;
}

/* Puts what an endpoint has sent on its way. */
static void collect_ep(unsigned int number)
{
    struct fake_ep *fake = &fake_eps[number];
    unsigned int first = 0;

    for (unsigned int i = num_taken[number]; i != fake->num_sent; i++)
        first += !fake->log[i % FAKE_LOG].is_injected;
    first = fake->num_sends - first;
    while (num_taken[number] != fake->num_sent) {
        const struct fake_sent *sent = &fake->log[num_taken[number]++ % FAKE_LOG];
        struct packet *packet = &flight[num_flight++];
        WALK_CHECK(num_flight <= MAX_FLIGHT && sent->size <= sizeof(packet->bytes));
        memcpy(packet->bytes, sent->bytes, sent->size);
        packet->size = sent->size;
        packet->from = number;
        packet->to = (unsigned int)sent->to;
        packet->context = sent->is_injected ? NULL : fake->sends[first++].context;
    }
}

/* The descriptor of a queue is readable while something is in it. */
static void set_readable(unsigned int number)
{
    const struct fake_ep *fake = &fake_eps[number];
    bool readable = fake->num_done > 0 || fake->failed;
    eventfd_t value;

    if (fake->fd <= 0 || readable == is_set[number])
        return;
    is_set[number] = readable;
    if (readable)
        eventfd_write(fake->fd, 1);
    else
        eventfd_read(fake->fd, &value);
}

static void collect(void)
{
    for (unsigned int i = 0; i < fake_num_eps; i++) {
        collect_ep(i);
        set_readable(i);
    }
}

/* The sends of a side end well, but for those behind an error that was not read yet. */
static void end_sends(int side)
{
    collect();
    for (unsigned int i = 0; i < fake_num_eps; i++)
        while (side_of_ep[i] == side && !fake_eps[i].failed && fake_eps[i].num_sends > 0)
            fake_end(&fake_eps[i], true);
    for (unsigned int i = 0; i < num_flight; i++)
        if (side_of_ep[flight[i].from] == side && !fake_eps[flight[i].from].failed)
            flight[i].context = NULL;
}

static void remove_packet(unsigned int i)
{
    num_flight--;
    memmove(&flight[i], &flight[i + 1], (num_flight - i) * sizeof(flight[0]));
}

/* True if no earlier message has the same way. */
static bool is_first(unsigned int i)
{
    for (unsigned int k = 0; k < i; k++)
        if (flight[k].from == flight[i].from && flight[k].to == flight[i].to)
            return false;
    return true;
}

static bool can_arrive(unsigned int i)
{
    return is_first(i) && !is_closed[flight[i].to] && fake_eps[flight[i].to].num_receives > 0;
}

static void deliver(unsigned int i)
{
    struct packet *packet = &flight[i];

    WALK_CHECK(fake_arrive(&fake_eps[packet->to], packet->bytes, packet->size));
    remove_packet(i);
}

/* The sender gets an error. */
static void fail_packet(unsigned int i)
{
    struct fake_ep *fake = &fake_eps[flight[i].from];
    unsigned int k = 0;

    while (fake->sends[k].context != flight[i].context)
        k++;
    WALK_CHECK(k < fake->num_sends);
    memmove(&fake->sends[k], &fake->sends[k + 1], (--fake->num_sends - k) * sizeof(fake->sends[0]));
    fake->failed = flight[i].context;
    remove_packet(i);
}

/* A message to an endpoint that is no more: the sender gets an error, if it waits for one. */
static void bounce_packet(unsigned int i)
{
    if (flight[i].context && !fake_eps[flight[i].from].failed)
        fail_packet(i);
    else
        remove_packet(i);
}

/* A pause of the running side. */
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    (void)us;
    this_process()->own.now_ms += 600;
    collect();
    end_sends(running);
    return 0;
}

/*** what the owners do over this provider ***/

static struct fp_conn *conn_of(const struct end *end)
{
    return (struct fp_conn *)end->conn;
}

static void note_ids(struct end *end)
{
    end->id = conn_of(end)->id;
    end->rmt_id = conn_of(end)->rmt_id;
}

static bool does_reject(void)
{
    if (good || left.rejects == 0 || walk_choose(2) == 0)
        return false;
    left.rejects--;
    disturbed = needs_time = true;
    return true;
}

/* The other side's end of the connection. */
static struct end *peer_of(const struct end *end)
{
    struct process *other = &processes[!running];

    for (unsigned int i = 0; i < other->num_ends; i++)
        if (other->ends[i].id == end->rmt_id)
            return &other->ends[i];
    return NULL;
}

static void check_done(const struct end *end, enum prov_status status)
{
    if (status == PROV_OK)
        WALK_CHECK(peer_of(end) && (peer_of(end)->by_hand || peer_of(end)->arrived >= end->done));
    else
        WALK_CHECK(status == PROV_FLUSHED);
}

static void check_pair(const struct end *end, const struct end *other)
{
    WALK_CHECK(end->rmt_id == other->id && conn_of(end)->state == FP_UP);
}

/*** steps of a process ***/

static void open_ep(struct process *process)
{
    side_of_ep[fake_num_eps % FAKE_EPS] = running;
    open_endpoint(process);
}

static void close_ep(struct process *process)
{
    unsigned int number = (unsigned int)(fake_of(fp_ep_of(process)->fids.ep) - fake_eps);

    needs_time = true;
    end_sends(running);
    close_endpoint(process);
    end_sends(running);
    is_closed[number] = true;
}

/* Its memory stays until the run ends. */
static void kill_process(struct process *process)
{
    needs_time = true;
    if (process->own.pidfd > 0)
        eventfd_write(process->own.pidfd, 1);
    for (unsigned int i = 0; i < fake_num_eps; i++)
        is_closed[i] |= side_of_ep[i] == running;
}

static bool is_readable(const struct process *process)
{
    struct pollfd fd = {.fd = fp_prov_of(process->prov)->epoll_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

/* The timer of a failed message that is sent again (REPEAT_MS in control.c). */
static void await_repetition(struct process *process)
{
    const struct fp_ctrl_entry *entry;

    STAILQ_FOREACH (entry, &fp_prov_of(process->prov)->control.queue, next)
        if (process->own.now_ms < entry->due_ms)
            process->own.now_ms = entry->due_ms;
}

static void run_thread(struct process *process)
{
    end_sends(running);
    await_repetition(process);
    process->own.thread_is_due = false;
    ofi_provider.progress(process->prov);
    collect();
}

/* The background thread serves the control endpoint. */
static int poll_ep(struct process *process)
{
    end_sends(running);
    process->own.poll_is_due = false;
    fp_ep_of(process)->empty_polls = 0;
    fp_ep_of(process)->ctrl_poll_after = MANY_POLLS;
    int calls = ofi_provider.ep_poll(process->ep);
    collect();
    return calls;
}

static void pass_time(struct process *process)
{
    process->own.now_ms += TICK_MS;
    process->own.thread_is_due = process->own.poll_is_due = true;
}

static const struct fake_ep *fake_of_ep(const struct fp_ep *ep)
{
    return fake_of(ep->fids.ep);
}

/* True if the end of the other side's process is an event. */
static bool has_seen_end(const struct process *process)
{
    const struct fp_peer *peer = peer_of_process(process);

    return peer && peer->pidfd >= 0 && processes[peer->address.pid - FIRST_PID].dead;
}

/* True if the background thread has something to do. */
static bool must_run_thread(const struct process *process)
{
    const struct fp_control *c = &fp_prov_of(process->prov)->control;
    const struct fake_ep *fake = fake_of(c->fids.ep);

    return process->own.thread_is_due || fake->num_done > 0 || fake->failed || c->unposted ||
           !STAILQ_EMPTY(&c->queue) || has_seen_end(process);
}

/* True if a poll has something to do. */
static bool must_poll(const struct process *process)
{
    const struct fp_ep *ep = fp_ep_of(process);
    const struct fake_ep *fake = fake_of_ep(ep);

    return process->own.poll_is_due || ep->has_ctrl || fake->num_done > 0 || fake->failed ||
           ep->busy || ep->ack_now || ep->ack_later || ep->closed || ep->unposted ||
           ep->peer_events_seen != ep->prov->peer_events;
}

/*** what a state is ***/

/* Ids of connections are replaced by their ranks among those that somebody still knows. */
static struct walk_numbers known[SIDES]; /* ids of each side's connections */

static bool is_ping(const struct fp_ctrl_msg *msg)
{
    return msg->kind == FP_PING || msg->kind == FP_PONG;
}

/* `from`: the side that sends the message. */
static void add_ctrl_numbers(int from, const struct fp_ctrl_msg *msg)
{
    if (is_ping(msg))
        return;
    walk_add_number(&known[from], msg->from_conn);
    walk_add_number(&known[!from], msg->to_conn);
}

static void add_queue_numbers(int from, const struct fp_ctrl_queue *queue)
{
    const struct fp_ctrl_entry *entry;

    STAILQ_FOREACH (entry, queue, next)
        add_ctrl_numbers(from, &entry->msg);
}

/* The control message of a send of this side that has failed; NULL: none. */
static const struct fp_ctrl_msg *failed_ctrl(const struct process *process)
{
    const struct fp_buf *buf = fake_of(fp_prov_of(process->prov)->control.fids.ep)->failed;

    return buf ? (const struct fp_ctrl_msg *)(const void *)buf->bytes : NULL;
}

static void collect_numbers(void)
{
    memset(known, 0, sizeof(known));
    for (int side = 0; side < SIDES; side++) {
        const struct fp_ep *ep = fp_ep_of(&processes[side]);
        if (processes[side].dead)
            continue;
        add_queue_numbers(side, &fp_prov_of(processes[side].prov)->control.queue);
        if (failed_ctrl(&processes[side]))
            add_ctrl_numbers(side, failed_ctrl(&processes[side]));
        for (uint32_t i = 0; ep && i < ep->conns_size; i++) {
            if (!ep->conns[i])
                continue;
            walk_add_number(&known[side], ep->conns[i]->id);
            walk_add_number(&known[!side], ep->conns[i]->rmt_id);
        }
        if (ep)
            add_queue_numbers(!side, &ep->ctrl_queue);
    }
    for (unsigned int i = 0; i < num_flight; i++) {
        int from = side_of_ep[flight[i].from];
        if (is_ctrl(&flight[i]))
            add_ctrl_numbers(from, ctrl_of(&flight[i]));
        else
            walk_add_number(&known[!from], head_of(&flight[i])->to);
    }
}

/* How long ago a time was, in tenths of seconds, at most `most_ms`. */
static void put_age(struct walk_bytes *bytes, const struct process *process, uint64_t time_ms,
                    uint64_t most_ms)
{
    uint64_t age = process->own.now_ms - time_ms;

    walk_put_byte(bytes, (unsigned int)((age < most_ms ? age : most_ms) / 100));
}

static void put_hello(struct walk_bytes *bytes, int from, const struct fp_ctrl_msg *msg)
{
    const struct hello hello = read_hello(msg->hello, msg->hello_size);

    walk_put_small(bytes, processes[from].serial - hello.serial);
    walk_put_small(bytes, processes[!from].rmt_serial - hello.serial);
}

static void put_ctrl(struct walk_bytes *bytes, int from, const struct fp_ctrl_msg *msg)
{
    const struct fp_peer *pinging =
        peer_of_process(&processes[msg->kind == FP_PING ? from : !from]);

    walk_put_byte(bytes, msg->kind);
    walk_put_byte(bytes, msg->signed_by);
    if (is_ping(msg)) {
        walk_put_small(bytes,
                       pinging->last_ping - (msg->kind == FP_PING ? msg->from_conn : msg->to_conn));
        return;
    }
    walk_put_byte(bytes, walk_rank_of(&known[from], msg->from_conn));
    walk_put_byte(bytes, walk_rank_of(&known[!from], msg->to_conn));
    if (msg->kind == FP_CONN_REQUEST || msg->kind == FP_CONN_ACCEPT)
        put_hello(bytes, from, msg);
    if (msg->kind == FP_CONN_CLOSE || msg->kind == FP_CONN_BROKEN)
        walk_put_small(bytes, msg->executed);
}

static void put_queue(struct walk_bytes *bytes, int from, const struct fp_ctrl_queue *queue)
{
    const struct fp_ctrl_entry *entry;

    STAILQ_FOREACH (entry, queue, next) {
        put_ctrl(bytes, from, &entry->msg);
        walk_put_small(bytes, entry->peer->timeouts - entry->timeouts);
        walk_put_byte(bytes, entry->due_ms > processes[from].own.now_ms);
    }
    walk_put_byte(bytes, 255);
}

static void put_peer(struct walk_bytes *bytes, const struct process *process,
                     const struct fp_peer *peer)
{
    walk_put_byte(bytes, peer->has_key | peer->liveness << 1);
    if (peer->liveness == FP_DEAD)
        put_age(bytes, process, peer->ended_ms, TICK_MS);
    walk_put_byte(bytes, peer->conns);
    walk_put_small(bytes, peer->last_ping - peer->last_pong);
    walk_put_small(bytes, peer->awaited_pong ? 1 + peer->last_ping - peer->awaited_pong : 0);
    if (peer->conns == 0)
        return;
    walk_put_small(bytes, peer->silent_ms / 100);
    put_age(bytes, process, peer->checked_ms, TICK_MS);
}

static void put_conn_flags(struct walk_bytes *bytes, const struct fp_conn *conn)
{
    const struct process *process = this_process();

    walk_put_byte(bytes, conn->busy | conn->ack_now << 1 | conn->ack_later << 2 |
                             conn->peer_closed << 3 | conn->peer_died << 4 | conn->peer_broke << 5 |
                             conn->broken << 6);
    walk_put_byte(bytes, process->end && process->end->conn == (const struct prov_conn *)conn);
    if (conn->broken)
        walk_put_small(bytes, conn->peer->last_ping - conn->awaited_pong);
    if (conn->peer_closed)
        put_age(bytes, process, conn->peer_closed_ms, TICK_MS);
}

static void put_early(struct walk_bytes *bytes, const struct fp_conn *conn)
{
    for (const struct fp_buf *buf = conn->early_msgs; buf; buf = buf->next) {
        const struct fp_head *head = (const void *)buf->bytes;
        walk_put_small(bytes, head->number - conn->next_in);
        walk_put_byte(bytes, head->kind);
    }
    walk_put_byte(bytes, 255);
}

/* Messages that the fabric has not taken yet. */
static void put_queued(struct walk_bytes *bytes, const struct fp_conn *conn)
{
    for (const struct fp_buf *buf = conn->first; buf; buf = buf->next) {
        const struct fp_head *head = (const void *)buf->bytes;
        walk_put_byte(bytes, head->kind);
        walk_put_small(bytes, head->number);
        walk_put_small(bytes, head->ack);
    }
    walk_put_byte(bytes, 255);
}

static void put_conn(struct walk_bytes *bytes, const struct fp_conn *conn)
{
    const struct process *process = this_process();

    walk_put_byte(bytes, 20 + conn->state);
    walk_put_byte(bytes, walk_rank_of(&known[running], conn->id));
    walk_put_byte(bytes, walk_rank_of(&known[!running], conn->rmt_id));
    put_conn_flags(bytes, conn);
    walk_put_small(bytes, conn->peer->timeouts - conn->timeouts);
    walk_put_small(bytes, conn->posted);
    walk_put_small(bytes, conn->posted - conn->sent);
    walk_put_small(bytes, conn->posted - conn->reported);
    walk_put_small(bytes, conn->acked);
    walk_put_small(bytes, conn->executed);
    walk_put_small(bytes, conn->executed - conn->acks_sent);
    walk_put_small(bytes, conn->next_out);
    walk_put_small(bytes, conn->next_in);
    walk_put_small(bytes, conn->next_in - conn->seen_in);
    walk_put_small(bytes, conn->stall_checks);
    walk_put_small(bytes, conn->reported - conn->seen_reported);
    walk_put_small(bytes, conn->reported + conn->sent + conn->acked - conn->seen_progress);
    walk_put_small(bytes, conn->stalled_ms / 100);
    if (conn->state == FP_REQUESTED)
        walk_put_small(bytes,
                       process->serial - read_hello(conn->hello.bytes, conn->hello.size).serial);
    if (conn->state == FP_ACCEPTED)
        walk_put_small(bytes, process->rmt_serial -
                                  read_hello(conn->rmt_hello.bytes, conn->rmt_hello.size).serial);
    walk_put_byte(bytes, conn->num_sending);
    put_early(bytes, conn);
    put_queued(bytes, conn);
}

/* Closed connections, until the fabric and the endpoint's lists have none of them. */
static void put_closed(struct walk_bytes *bytes, const struct fp_ep *ep)
{
    for (const struct fp_conn *conn = ep->closed; conn; conn = conn->next_closed) {
        walk_put_byte(bytes, conn->busy | conn->ack_now << 1 | conn->ack_later << 2);
        walk_put_byte(bytes, conn->num_sending);
    }
    walk_put_byte(bytes, 255);
}

static void put_fake(struct walk_bytes *bytes, int from, const struct fake_ep *fake)
{
    walk_put_byte(bytes, fake->failed != NULL);
    for (unsigned int i = 0; i < fake->num_done; i++) {
        const struct fp_buf *buf = fake->done[i].op_context;
        walk_put_byte(bytes, buf->kind);
        if (buf->kind == FP_BUF_SEND)
            continue;
        if (fake->done[i].len == sizeof(struct fp_ctrl_msg))
            put_ctrl(bytes, from, (const struct fp_ctrl_msg *)(const void *)buf->bytes);
        else
            walk_put_small(bytes, ((const struct fp_head *)(const void *)buf->bytes)->number);
    }
    walk_put_byte(bytes, fake->num_sends);
    walk_put_byte(bytes, rules.receives > 0 ? fake->num_receives : 0);
    walk_put_byte(bytes, 255);
}

static void put_left(struct walk_bytes *bytes, const struct process *process)
{
    put_owner(bytes, process);
    walk_put_byte(bytes, process->own.ticks_left);
    walk_put_byte(bytes, process->own.thread_is_due | process->own.poll_is_due << 1);
}

static void put_ep(struct walk_bytes *bytes, const struct process *process, const struct fp_ep *ep)
{
    walk_put_small(bytes, ep->prov->peer_events - ep->peer_events_seen);
    put_age(bytes, process, ep->checked_ms, TICK_MS);
    walk_put_byte(bytes, must_poll(process) | (ep->unposted != NULL) << 1);
    put_queue(bytes, !running, &ep->ctrl_queue);
    put_fake(bytes, !running, fake_of(ep->fids.ep));
    walk_put_byte(bytes, ep->retry);
    put_closed(bytes, ep);
    for (uint32_t i = 0, num = 0; num < ep->num_conns; i++) {
        num += ep->conns[i] != NULL;
        if (ep->conns[i])
            put_conn(bytes, ep->conns[i]);
        else
            walk_put_byte(bytes, 254); /* the next one has this place */
    }
}

static void put_process(struct walk_bytes *bytes, const struct process *process)
{
    const struct fp_prov *prov = fp_prov_of(process->prov);

    walk_put_byte(bytes, process->dead);
    if (process->dead)
        return;
    put_left(bytes, process);
    if (peer_of_process(process))
        put_peer(bytes, process, peer_of_process(process));
    walk_put_byte(bytes, must_run_thread(process) | prov->timer_armed << 1);
    walk_put_small(bytes, prov->peer_events - prov->peer_events_reported);
    put_queue(bytes, running, &prov->control.queue);
    put_fake(bytes, !running, fake_of(prov->control.fids.ep));
    if (failed_ctrl(process))
        put_ctrl(bytes, running, failed_ctrl(process));
    walk_put_byte(bytes, process->ep != NULL);
    if (process->ep)
        put_ep(bytes, process, fp_ep_of(process));
    walk_put_byte(bytes, 255);
}

static void put_packet(struct walk_bytes *bytes, int side, const struct packet *packet)
{
    walk_put_byte(bytes, is_closed[packet->to]);
    walk_put_byte(bytes, packet->context != NULL);
    if (is_ctrl(packet)) {
        put_ctrl(bytes, side, ctrl_of(packet));
        return;
    }
    walk_put_byte(bytes, head_of(packet)->kind);
    walk_put_byte(bytes, walk_rank_of(&known[!side], head_of(packet)->to));
    walk_put_small(bytes, head_of(packet)->number);
    walk_put_small(bytes, head_of(packet)->ack);
    walk_put_small(bytes, head_of(packet)->seq);
}

/* The messages of each endpoint in their order; the endpoints of a side in theirs. */
static void put_flight(struct walk_bytes *bytes, int side)
{
    for (unsigned int from = 0; from < fake_num_eps; from++) {
        if (side_of_ep[from] != side)
            continue;
        for (unsigned int i = 0; i < num_flight; i++)
            if (flight[i].from == from)
                put_packet(bytes, side, &flight[i]);
        walk_put_byte(bytes, 255);
    }
}

static void put_state(struct walk_bytes *bytes)
{
    collect_numbers();
    walk_put_byte(bytes, left.losses);
    walk_put_byte(bytes, left.fails);
    walk_put_byte(bytes, left.busy);
    walk_put_byte(bytes, left.rejects);
    walk_put_byte(bytes, left.shortages);
    walk_put_byte(bytes, disturbed | needs_time << 1);
    for (running = 0; running < SIDES; running++)
        put_process(bytes, this_process());
    for (int side = 0; side < SIDES; side++)
        put_flight(bytes, side);
}

/*** the end ***/

/* The owner polls until nothing comes, and arms. True: it did something. */
static bool run_owner(struct process *process)
{
    if (process->sleeps || !process->ep)
        return false;
    walk_step("  end: the owner of side %u polls", (unsigned int)running, 0, 0);
    while (poll_ep(process) > 0)
        ;
    if (num_arms++ % 2 == 1 && is_readable(process)) /* just before the owner arms */
        run_thread(process);
    end_sends(running);
    process->sleeps = !ofi_provider.ep_arm(process->ep, PROV_ARM_SOLICITED);
    collect();
    return true;
}

static bool run_process(void)
{
    struct process *process = this_process();

    if (process->dead)
        return false;
    if (run_owner(process))
        return true;
    if (!is_readable(process))
        return false;
    walk_step("  end: the thread of side %u runs", (unsigned int)running, 0, 0);
    run_thread(process);
    return true;
}

static bool deliver_first(void)
{
    for (unsigned int i = 0; i < num_flight; i++) {
        if (is_closed[flight[i].to]) {
            walk_step("  end: kind %u arrives nowhere", kind_of(&flight[i]), 0, 0);
            bounce_packet(i);
            collect();
            return false;
        }
        if (!can_arrive(i))
            continue;
        walk_step("  end: kind %u arrives at side %u", kind_of(&flight[i]),
                  (unsigned int)side_of_ep[flight[i].to], 0);
        deliver(i);
        collect();
        return true;
    }
    return false;
}

/* Time passes for both: each second the background thread runs, as progress() asked for. */
static void pass_second(void)
{
    for (running = 0; running < SIDES; running++) {
        struct process *process = this_process();
        if (process->dead)
            continue;
        walk_step("  end: a second passes for side %u", (unsigned int)running, 0, 0);
        pass_time(process);
        if (process->link == LINK_AWAITING) /* for UT_FSM_CROSSED_WAIT_MS */
            begin_request(process);
        run_thread(process);
    }
}

static bool run_anything(void)
{
    bool any = false;

    for (running = 0; running < SIDES; running++)
        any |= run_process();
    return any;
}

/* Until both sides are at rest, also for the next seconds. A side that repeats something each
 * millisecond is not at rest, but does not keep time from passing. */
static void calm_down(void)
{
    enum { REST_S = 2, MAX_REPEATS = 8 };
    int seconds = 0, repeats = 0;

    wake_owners();
    for (int i = 0; i < MAX_CALM; i++) {
        bool any = run_anything() || num_flight > 0;
        repeats = deliver_first() ? 0 : repeats + any;
        if (any && repeats < MAX_REPEATS)
            continue;
        if (is_waiting(&processes[0]) || is_waiting(&processes[1])) {
            WALK_CHECK(needs_time);
            seconds = 0;
        } else if (!any && seconds++ == REST_S) {
            return;
        }
        pass_second();
        repeats = 0;
    }
    WALK_CHECK(!"both processes come to rest");
}

static unsigned int num_free(const struct fp_pool *pool)
{
    unsigned int n = 0;

    for (const struct fp_buf *buf = pool->free; buf; buf = buf->next)
        n++;
    return n;
}

static void check_nothing_is_left(const struct fp_ep *ep)
{
    enum { AT_ONCE = 32 }; /* buffers that pool.c makes at a time */
    unsigned int unposted = 0;

    WALK_CHECK(ep->num_conns == 0 && !ep->closed && !ep->busy && STAILQ_EMPTY(&ep->ctrl_queue));
    WALK_CHECK(num_free(&ep->small) % AT_ONCE == 0 && num_free(&ep->large) % AT_ONCE == 0);
    for (const struct fp_buf *buf = ep->unposted; buf; buf = buf->next)
        unposted++;
    WALK_CHECK(unposted + fake_of_ep(ep)->num_receives == FP_RECEIVES);
}

static void check_process_has_nothing(const struct process *process)
{
    const struct fp_prov *prov = fp_prov_of(process->prov);
    const struct fp_peer *peer = peer_of_process(process);
    enum { AT_ONCE = 32 };

    if (process->dead)
        return;
    WALK_CHECK(STAILQ_EMPTY(&prov->control.queue));
    WALK_CHECK(!peer || peer->conns == 0);
    WALK_CHECK(num_free(&prov->control.sends) % AT_ONCE == 0);
    if (process->ep)
        check_nothing_is_left(fp_ep_of(process));
}

static void finish_run(void)
{
    good = true;
    fake_max_receives = 0;
    calm_down();
    post_messages();
    calm_down();
    check_sides();
    for (int side = 0; side < SIDES; side++)
        if (processes[side].reason == PROV_REASON_LOCAL)
            WALK_CHECK(processes[side].num_lines > 0);
    close_links();
    collect();
    calm_down();
    for (running = 0; running < SIDES; running++)
        check_process_has_nothing(this_process());
}

enum { DELIVER = OWN_ACTION, LOSE, FAIL, BOUNCE, TICK };

static void add_tick(struct walk_choices *choices, int side, const struct process *process)
{
    if (process->ep && process->own.ticks_left > 0)
        walk_add_choice(choices, TICK, side, 0);
}

static const struct process_ops ops = {.provider = &ofi_provider,
                                       .open_ep = open_ep,
                                       .close_ep = close_ep,
                                       .run_thread = run_thread,
                                       .poll_ep = poll_ep,
                                       .must_run_thread = must_run_thread,
                                       .must_poll = must_poll,
                                       .kill = kill_process,
                                       .add_own = add_tick,
                                       .finish_run = finish_run,
                                       .check_pair = check_pair,
                                       .check_done = check_done,
                                       .note_conn = note_ids,
                                       .does_reject = does_reject};

/*** a run ***/

static void open_process(int side)
{
    const struct prov_config config = {.wake = wake_owner,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_TIMEOUT_MS,
                                       .job_timeout_ms = PEER_TIMEOUT_MS};
    struct process *process = &processes[side];

    *process = (struct process){.id = 100 + (uint64_t)(rules.swapped ? !side : side),
                                .requests_left = rules.requests[side],
                                .closes_left = rules.closes[side],
                                .messages_left = rules.messages[side],
                                .reopens_left = rules.reopens[side],
                                .may_die = rules.dies && side == 0,
                                .own = {.now_ms = FIRST_MS, .ticks_left = rules.ticks[side]}};
    running = side;
    side_of_ep[fake_num_eps % FAKE_EPS] = side;
    WALK_CHECK(ofi_provider.open(&config, &process->prov) == 0);
    open_ep(process);
    /* the clock has begun long ago */
    fp_ep_of(process)->checked_ms = fp_prov_of(process->prov)->checked_ms = FIRST_MS;
}

static void open_all(void)
{
    next_random = 0;
    num_flight = 0;
    begin_counting();
    good = disturbed = needs_time = false;
    num_arms = 0;
    left = rules;
    fake_num_eps = 0;
    fake_has_names = fake_has_fds = true;
    fake_max_receives = rules.receives;
    fake_send_error = send_error;
    memset(num_taken, 0, sizeof(num_taken));
    memset(is_set, 0, sizeof(is_set));
    memset(is_closed, 0, sizeof(is_closed));
    for (int side = 0; side < SIDES; side++)
        open_process(side);
    collect();
}

static void close_all(void)
{
    good = true;
    for (running = 0; running < SIDES; running++) {
        if (this_process()->ep)
            ofi_provider.ep_close(this_process()->ep);
        end_sends(running);
        ofi_provider.close(this_process()->prov);
    }
    check_memory_is_free();
}

static void add_packets(struct walk_choices *choices)
{
    for (unsigned int i = 0; i < num_flight; i++) {
        int from = side_of_ep[flight[i].from];
        if (!is_first(i))
            continue;
        if (is_closed[flight[i].to])
            walk_add_choice(choices, BOUNCE, from, i);
        if (can_arrive(i))
            walk_add_choice(choices, DELIVER, from, i);
        if (left.losses > 0)
            walk_add_choice(choices, LOSE, from, i);
        if (left.fails > 0 && flight[i].context && !fake_eps[flight[i].from].failed)
            walk_add_choice(choices, FAIL, from, i);
    }
}

static void add_choices(struct walk_choices *choices)
{
    add_packets(choices);
    for (running = 0; running < SIDES; running++)
        add_process(choices, running);
}

/* A message that arrives later than it could is as one whose receiver runs later: so the receiver
 * runs at once. */
static void take_packet(unsigned int i)
{
    unsigned int to = flight[i].to;
    struct process *process = &processes[side_of_ep[to]];

    running = side_of_ep[to];
    deliver(i);
    collect();
    if (process->ep && &fake_eps[to] == fake_of_ep(fp_ep_of(process)))
        poll_ep(process);
    else
        run_thread(process);
}

static void do_packet(const struct walk_choice *choice)
{
    disturbed |= choice->action != DELIVER;
    needs_time |= choice->action == LOSE;
    if (choice->action == DELIVER) {
        take_packet(choice->i);
    } else if (choice->action == LOSE) {
        left.losses--;
        remove_packet(choice->i);
    } else if (choice->action == FAIL) {
        left.fails--;
        fail_packet(choice->i);
    } else {
        bounce_packet(choice->i);
    }
}

static void do_own(const struct walk_choice *choice)
{
    static const char *const what[] = {
        [DELIVER] = "kind %2$u of side %1$u arrives (no. %3$u)",
        [LOSE] = "kind %2$u of side %1$u is lost (no. %3$u)",
        [FAIL] = "kind %2$u of side %1$u is lost, with an error (no. %3$u)",
        [BOUNCE] = "kind %2$u of side %1$u arrives nowhere (no. %3$u)",
        [TICK] = "side %u is stopped for a second",
    };
    bool is_packet = choice->action != TICK;

    walk_step(what[choice->action], (unsigned int)choice->side,
              is_packet ? kind_of(&flight[choice->i]) : 0, choice->i);
    if (is_packet) {
        do_packet(choice);
        return;
    }
    disturbed = needs_time = true;
    this_process()->own.ticks_left--;
    pass_time(this_process());
}

static void do_choice(const struct walk_choice *choice)
{
    running = choice->side;
    if (choice->action < OWN_ACTION)
        do_process(this_process(), choice->action);
    else
        do_own(choice);
    collect();
}

static const struct walk_scenario scenarios[] = {
    SCENARIO("one request", 0, UP, .requests = {1}, .messages = {1, 1}),
    SCENARIO("requests cross", 0, CROSSED, .requests = {1, 1}),
    SCENARIO("requests cross, the other id", 0, CROSSED, .requests = {1, 1}, .swapped = true),
    SCENARIO("a loss", 0, BROKEN, .requests = {1, 1}, .messages = {1}, .losses = 1),
    SCENARIO("an error", 0, UP, .requests = {1, 1}, .fails = 1),
    SCENARIO("a busy fabric", 0, UP, .requests = {1, 1}, .busy = 3),
    SCENARIO("a rejection", 0, UP, .requests = {1, 1}, .rejects = 1),
    SCENARIO("a shortage", 0, SHORTAGE, .requests = {1, 1}, .shortages = 1),
    SCENARIO("one receive", 0, UP, .requests = {1, 1}, .receives = 1),
    SCENARIO("closes", 0, UP, .requests = {2}, .closes = {1, 1}),
    SCENARIO("a death", 0, DEAD, .requests = {1, 1}, .dies = true, .same_host = true),
    SCENARIO("a death on another host", 0, SILENT, .requests = {1, 1}, .dies = true),
    SCENARIO("a new endpoint", 0, UP, .requests = {1}, .reopens = {1, 1}),
    SCENARIO("a refused port", 0, DEAD, .requests = {1, 1}, .dies = true, .refused = true),
    SCENARIO("new endpoints", 1, UP, .requests = {2}, .reopens = {1, 1}),
    SCENARIO("stops", 1, UP, .requests = {1}, .ticks = {1, 1}),
    SCENARIO("a long stop", 1, SILENT, .requests = {1}, .ticks = {3}),
    SCENARIO("a long stop of the target", 2, SILENT, .requests = {1}, .ticks = {0, 3}),
    SCENARIO("a loss and a stop", 1, UP, .requests = {1}, .losses = 1, .ticks = {1}),
    SCENARIO("losses", 1, BROKEN, .requests = {1, 1}, .messages = {1, 1}, .losses = 2),
    SCENARIO("errors and losses", 1, BROKEN, .requests = {1, 1}, .messages = {1, 1}, .losses = 1,
             .fails = 1),
    SCENARIO("closes, a loss", 1, UP, .requests = {2}, .closes = {1, 1}, .losses = 1),
    SCENARIO("closes, an error", 1, UP, .requests = {2}, .closes = {1, 1}, .fails = 1),
    SCENARIO("closes, requests cross", 1, CROSSED, .requests = {2, 1}, .closes = {1, 1}),
    SCENARIO("a death, closes", 2, DEAD, .requests = {2, 1}, .closes = {1, 1}, .dies = true,
             .same_host = true),
    SCENARIO("a death, a loss", 1, SILENT, .requests = {1, 1}, .dies = true, .losses = 1),
    SCENARIO("a death, a stop", 1, DEAD, .requests = {1, 1}, .ticks = {0, 1}, .dies = true,
             .same_host = true),
    SCENARIO("a loss, closes, messages", 1, BROKEN, .requests = {1}, .messages = {1, 1},
             .closes = {1, 1}, .losses = 1),
    SCENARIO("an error, a busy fabric, a shortage", 1, SHORTAGE, .requests = {1, 1}, .fails = 1,
             .busy = 1, .shortages = 1),
    {.name = NULL},
};

static const struct walk_protocol protocol = {&rules,    sizeof(rules), MAX_STATES, open_all,
                                              put_state, add_choices,   do_choice,  close_all};

int main(int argc, char **argv)
{
    return walk_main(argc, argv, &protocol, scenarios);
}
