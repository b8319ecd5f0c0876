/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For walks: two processes over a provider, both in this one, and the owners of their connections.
 * The owners are as the core: crossed requests are resolved by ids (src/link/connect.c), a
 * connection that goes down is closed, a request that was rejected is not repeated before the
 * peer's own request has come. What has to hold for them:
 *   - up() and down() come at most once for a connection, and none after conn_close(). Each
 *     operation ends before down().
 *   - A connection that fails since this process lacks something has a line in the log.
 *   - In the end both sides are up, or neither is; if nothing has disturbed them, both.
 * To be included once, behind the program's struct own. What is inline is not for all programs.
 */
#ifndef UT_TEST_OWNERS_H
#define UT_TEST_OWNERS_H

#include <errno.h>
#include <string.h>

#include "provider.h"
#include "util/clock.h"
#include "util/log.h"
#include "walk.h"

enum { SIDES = 2, MAX_ENDS = 12 /* connections of a side in a run */ };

/* The owner's end of a connection. */
struct end {
    struct prov_conn *conn; /* NULL: closed */
    uint32_t id, rmt_id;    /* by which the program knows the connection */
    bool requested;         /* by this side */
    bool up, down;
    bool by_hand; /* closed by its owner, which wants no more messages */
    unsigned int posted, done, arrived;
};

/* What the owners tell each other: see src/link/hello.c. */
struct hello {
    uint32_t kind; /* QUESTION, ANSWER */
    uint32_t serial;
};
enum { QUESTION = 7, ANSWER };

enum link_state { LINK_IDLE, LINK_CONNECTING, LINK_AWAITING, LINK_UP, LINK_FAILED };

struct process {
    struct prov *prov;
    struct prov_ep *ep;
    uint64_t id; /* of its endpoint */
    struct end ends[MAX_ENDS];
    unsigned int num_ends;
    struct end *end; /* of the link */
    enum link_state link;
    enum prov_reason reason;     /* of LINK_FAILED */
    uint64_t down_ms;            /* when the last connection went down */
    uint32_t serial, rmt_serial; /* number of connections so far, as each side counts */
    unsigned int requests_left, closes_left, messages_left, reopens_left;
    unsigned int num_lines; /* errors and warnings in the log */
    bool sleeps, dead;
    bool may_die;   /* at any time */
    struct own own; /* what only the program's processes have */
};

/* What the program does in the name of a process, which is the one that runs. */
struct process_ops {
    const struct prov_ops *provider;
    void (*open_ep)(struct process *process);
    void (*close_ep)(struct process *process);
    void (*run_thread)(struct process *process);
    int (*poll_ep)(struct process *process);
    bool (*must_run_thread)(const struct process *process); /* it has something to do */
    bool (*must_poll)(const struct process *process);
    void (*kill)(struct process *process);
    /* What only the program's processes may do. */
    void (*add_own)(struct walk_choices *choices, int side, const struct process *process);
    void (*finish_run)(void);
    /* Two ends that are up have to know each other. */
    void (*check_pair)(const struct end *end, const struct end *other);
    /* NULL: there is nothing to check. */
    void (*check_done)(const struct end *end, enum prov_status status);
    /* A connection was requested, accepted, or is up; NULL: nothing is noted. */
    void (*note_conn)(struct end *end);
    /* What goes wrong; NULL: nothing does. */
    void (*spoil_address)(uint8_t *address);          /* before a request */
    void (*interrupt_owner)(struct process *process); /* in a callback */
    bool (*does_reject)(void);                        /* a request, for want of memory */
};

static const struct process_ops ops; /* the program has it */

static struct process processes[SIDES];
static int running;    /* the side whose code runs */
static bool disturbed; /* something was lost, refused or closed, or time has passed */

/* A program may have more, from REACHED_OWN. */
enum reached {
    REACHED_UP,
    REACHED_CROSSED,
    REACHED_OUTDATED,
    REACHED_SHORTAGE,
    REACHED_BROKEN,
    REACHED_SILENT,
    REACHED_DEAD,
    REACHED_LOCAL,
    REACHED_CLOSED,
    REACHED_OWN
};

static struct process *this_process(void)
{
    return &processes[running];
}

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *format, ...)
{
    (void)format;
    WALK_CHECK(strcmp(category, "process") != 0); /* its descriptors are its own */
    this_process()->num_lines += level <= UT_LOG_WARNING;
}

/*** their connections ***/

static struct end *new_end(struct process *process, struct prov_conn *conn, bool requested)
{
    struct end *end = &process->ends[process->num_ends++];

    WALK_CHECK(process->num_ends <= MAX_ENDS);
    *end = (struct end){.conn = conn, .requested = requested};
    process->end = end;
    return end;
}

static void note_conn(struct end *end)
{
    if (ops.note_conn)
        ops.note_conn(end);
}

static void interrupt_owner(struct process *process)
{
    if (ops.interrupt_owner)
        ops.interrupt_owner(process);
}

/* Nothing is left of the link. */
static void fail_link(struct process *process, enum prov_reason reason)
{
    process->end = NULL;
    process->link = LINK_FAILED;
    process->reason = reason;
}

static void close_end(struct process *process)
{
    struct end *end = process->end;

    process->end = NULL;
    ops.provider->conn_close(end->conn);
    end->conn = NULL;
}

static void close_by_hand(struct process *process)
{
    process->closes_left--;
    disturbed = process->end->by_hand = true;
    close_end(process);
    fail_link(process, PROV_REASON_CLOSED);
}

static void begin_request(struct process *process)
{
    uint8_t address[PROV_ADDR_MAX] __attribute__((aligned(8)));
    const struct process *other = &processes[!running];
    size_t size = ops.provider->address(other->prov, address);
    struct end *end = new_end(process, NULL, true);
    const struct hello hello = {QUESTION, process->serial};

    if (ops.spoil_address)
        ops.spoil_address(address);
    process->link = LINK_CONNECTING;
    int rc = ops.provider->connect(process->ep, address, size, 0, other->id, &hello, sizeof(hello),
                                   end, &end->conn);
    if (rc == 0) {
        note_conn(end);
        return;
    }
    WALK_CHECK(rc == -ENOMEM && disturbed);
    walk_reached(REACHED_SHORTAGE);
    fail_link(process, PROV_REASON_LOCAL);
}

static struct hello read_hello(const void *bytes, size_t size)
{
    struct hello hello;

    WALK_CHECK(size == sizeof(hello));
    memcpy(&hello, bytes, sizeof(hello));
    return hello;
}

static void accept_request(struct process *process, struct prov_conn *conn,
                           const struct hello *question)
{
    struct end *end = new_end(process, conn, false);
    const struct hello answer = {ANSWER, ++process->serial};

    process->rmt_serial = question->serial;
    WALK_CHECK(ops.provider->accept(conn, &answer, sizeof(answer), end) == 0);
    note_conn(end);
    process->link = LINK_UP; /* as ut_fsm: after "accept sent" */
}

/* True if the owner does not accept a request. */
static bool must_reject(const struct process *process, uint64_t peer_id, const struct hello *hello)
{
    if (hello->serial < process->rmt_serial) { /* given up by the peer, which took another one */
        walk_reached(REACHED_OUTDATED);
        return true;
    }
    if (process->link == LINK_CONNECTING && process->id < peer_id) {
        walk_reached(REACHED_CROSSED);
        return true;
    }
    if (!ops.does_reject || !ops.does_reject())
        return false;
    walk_step("    the owner of side %u rejects", (unsigned int)running, 0, 0);
    return true;
}

/* As ut_link_on_request(). */
static void on_request(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                       const void *bytes, size_t size)
{
    struct process *process = owner;
    const struct hello hello = read_hello(bytes, size);

    WALK_CHECK(process == this_process() && prov == process->prov);
    WALK_CHECK(peer_id == processes[!running].id && hello.kind == QUESTION);
    interrupt_owner(process);
    if (must_reject(process, peer_id, &hello)) {
        ops.provider->reject(conn);
        return;
    }
    if (process->end)
        close_end(process);
    accept_request(process, conn, &hello);
}

static void on_up(void *ctx, const void *bytes, size_t size)
{
    struct process *process = this_process();
    const struct hello hello = read_hello(bytes, size);
    struct end *end = ctx;

    WALK_CHECK(end == process->end && end->conn && !end->up && !end->down);
    WALK_CHECK(hello.kind == (end->requested ? ANSWER : QUESTION));
    interrupt_owner(process);
    process->serial += end->requested;
    process->rmt_serial = hello.serial;
    end->up = true;
    note_conn(end);
    process->link = LINK_UP;
}

/* As ut_link_on_down(), for a link without work. */
static void on_down(void *ctx, enum prov_reason reason)
{
    static const uint8_t reached[] = {[PROV_REASON_BROKEN] = REACHED_BROKEN,
                                      [PROV_REASON_SILENT] = REACHED_SILENT,
                                      [PROV_REASON_PEER_DEAD] = REACHED_DEAD,
                                      [PROV_REASON_LOCAL] = REACHED_LOCAL,
                                      [PROV_REASON_CLOSED] = REACHED_CLOSED};
    struct process *process = this_process();
    struct end *end = ctx;

    WALK_CHECK(end == process->end && end->conn && !end->down && end->done == end->posted);
    end->down = true;
    interrupt_owner(process);
    close_end(process);
    fail_link(process, reason);
    process->down_ms = ut_clock_ms();
    if (reason == PROV_REASON_REJECTED && end->requested)
        process->link = LINK_AWAITING;
    if (reason < sizeof(reached) && reached[reason])
        walk_reached(reached[reason]);
    if (reason == PROV_REASON_LOCAL)
        WALK_CHECK(process->num_lines > 0);
}

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct end *end = ctx;

    WALK_CHECK(end == this_process()->end && end->conn && !end->down);
    WALK_CHECK(cookie == end->done && end->done < end->posted);
    end->done++;
    if (ops.check_done)
        ops.check_done(end, status);
}

static void on_message(void *ctx, const void *data, size_t size)
{
    struct end *end = ctx;

    WALK_CHECK(end == this_process()->end && end->conn && end->up && !end->down);
    WALK_CHECK(size == sizeof(end->arrived) && memcmp(data, &end->arrived, size) == 0);
    end->arrived++;
}

static void wake_owner(void *owner)
{
    struct process *process = owner;

    WALK_CHECK(process == this_process());
    process->sleeps = false;
}

/* Posts the next message of a connection that is up. */
static void post_message(struct process *process)
{
    struct end *end = process->end;
    unsigned int number = end->posted++;

    if (ops.provider->send(end->conn, &number, sizeof(number), PROV_SIGNAL, number) < 0)
        end->posted--;
}

/*** their endpoints ***/

static void open_endpoint(struct process *process)
{
    static const struct prov_callbacks callbacks = {.request = on_request,
                                                    .up = on_up,
                                                    .down = on_down,
                                                    .done = on_done,
                                                    .message = on_message};
    struct prov_ep_attr attr = {
        .id = process->id, .owner = process, .callbacks = &callbacks, .depth = 16};

    WALK_CHECK(ops.provider->ep_open(process->prov, &attr, &process->ep) == 0);
}

static void close_endpoint(struct process *process)
{
    disturbed = true;
    if (process->end)
        process->end->by_hand = true;
    fail_link(process, PROV_REASON_CLOSED);
    ops.provider->ep_close(process->ep);
    process->ep = NULL;
}

/*** what a state is ***/

static inline void put_owner(struct walk_bytes *bytes, const struct process *process)
{
    walk_put_byte(bytes, process->requests_left);
    walk_put_byte(bytes, process->closes_left);
    walk_put_byte(bytes, process->messages_left);
    walk_put_byte(bytes, process->reopens_left);
    walk_put_byte(bytes, process->link);
    walk_put_byte(bytes, process->link == LINK_FAILED ? process->reason : 0);
    walk_put_byte(bytes, process->num_lines > 0);
    walk_put_small(bytes, processes[!running].rmt_serial - process->serial);
    if (!process->end)
        return;
    walk_put_byte(bytes, process->end->requested | process->end->up << 1);
    walk_put_byte(bytes, process->end->arrived);
}

/*** what a process may do ***/

/* A program may have more, from OWN_ACTION. */
enum action {
    THREAD = WALK_FINISH + 1,
    POLL,
    REQUEST,
    CLOSE,
    SEND,
    CLOSE_EP,
    REOPEN_EP,
    DIE,
    OWN_ACTION
};

static void add_process(struct walk_choices *choices, int side)
{
    const struct process *process = &processes[side];
    bool is_idle = process->link == LINK_IDLE || process->link == LINK_FAILED;

    if (process->dead)
        return;
    if (ops.must_run_thread(process))
        walk_add_choice(choices, THREAD, side, 0);
    if (process->ep && ops.must_poll(process))
        walk_add_choice(choices, POLL, side, 0);
    ops.add_own(choices, side, process);
    if (process->ep && process->requests_left > 0 && is_idle)
        walk_add_choice(choices, REQUEST, side, 0);
    if (process->end && process->closes_left > 0)
        walk_add_choice(choices, CLOSE, side, 0);
    if (process->end && process->end->up && process->messages_left > 0)
        walk_add_choice(choices, SEND, side, 0);
    if (process->ep && process->reopens_left > 0)
        walk_add_choice(choices, CLOSE_EP, side, 0);
    if (!process->ep)
        walk_add_choice(choices, REOPEN_EP, side, 0);
    if (process->may_die)
        walk_add_choice(choices, DIE, side, 0);
}

static void do_process(struct process *process, unsigned int action)
{
    static const char *const what[] = {[WALK_FINISH] = "from now on both run",
                                       [THREAD] = "the thread of side %u runs",
                                       [POLL] = "side %u polls",
                                       [REQUEST] = "side %u requests a connection",
                                       [CLOSE] = "side %u closes its connection",
                                       [SEND] = "side %u posts a message",
                                       [CLOSE_EP] = "side %u closes its endpoint",
                                       [REOPEN_EP] = "side %u opens an endpoint",
                                       [DIE] = "side %u dies"};

    walk_step(what[action], (unsigned int)running, 0, 0);
    switch (action) {
    case WALK_FINISH:
        ops.finish_run();
        break;
    case THREAD:
        ops.run_thread(process);
        break;
    case POLL:
        ops.poll_ep(process);
        break;
    case REQUEST:
        process->requests_left--;
        begin_request(process);
        break;
    case CLOSE:
        close_by_hand(process);
        break;
    case SEND:
        process->messages_left--;
        post_message(process);
        break;
    case CLOSE_EP:
        process->reopens_left--;
        ops.close_ep(process);
        break;
    case REOPEN_EP:
        ops.open_ep(process);
        break;
    case DIE:
        disturbed = process->dead = true;
        ops.kill(process);
        break;
    }
}

/*** the end ***/

/* True if a side waits for something. */
static bool is_waiting(const struct process *process)
{
    const struct end *end = process->end;

    return !process->dead && (process->link == LINK_CONNECTING || process->link == LINK_AWAITING ||
                              (end && (!end->up || end->done < end->posted)));
}

static void wake_owners(void)
{
    for (int side = 0; side < SIDES; side++)
        processes[side].sleeps = false;
}

/* Each side that is up posts a message. */
static inline void post_messages(void)
{
    for (running = 0; running < SIDES; running++)
        if (this_process()->link == LINK_UP && !this_process()->dead)
            post_message(this_process());
}

static void check_side(void)
{
    const struct process *process = this_process(), *other = &processes[!running];
    const struct end *end = process->end;

    WALK_CHECK(!is_waiting(process));
    if (process->link == LINK_UP) {
        WALK_CHECK(end && end->up && !end->down && !other->dead && other->link == LINK_UP);
        ops.check_pair(end, other->end);
        WALK_CHECK(end->done == end->posted && other->end->arrived == end->posted);
        walk_reached(REACHED_UP);
    }
    if (process->link == LINK_FAILED)
        WALK_CHECK(disturbed && !end);
}

static void check_sides(void)
{
    for (running = 0; running < SIDES; running++)
        if (!this_process()->dead)
            check_side();
}

static inline void close_links(void)
{
    disturbed = true;
    for (running = 0; running < SIDES; running++) {
        if (this_process()->end && !this_process()->dead)
            close_end(this_process());
        this_process()->link = LINK_FAILED;
    }
}

#endif
