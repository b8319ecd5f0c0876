/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every course of a connection of the verbs provider with librdmacm (active.c, passive.c, conn.c,
 * attempts.c, handshake.c, cm.c, rdmacm.c, reap.c, probe.c, qp_budget.c, ep.c, progress.c) between
 * two processes, which are both in this one. librdmacm, the kernels' connection managers and the
 * adapters are those of rdma_hosts.h. The walk delivers messages of the connection managers in any
 * order, loses and repeats them, and carries the requests of queue pairs in their order. In each
 * process the background thread and the owner run in turn; while the thread is in a slow call, the
 * owner may run, or a message arrive; while the owner is in a callback, the thread may run.
 *
 * The owners are those of owners.h.
 *
 * From each state the walk goes to the end: nothing is lost any more, and nothing fails; a thread
 * runs when its descriptor is readable or its time has come, an owner when it was woken; time
 * passes if nothing else happens. What has to hold:
 *   - Each side comes to rest, and nobody waits for anything then.
 *   - Both sides are up, with each other's queue pairs, or neither is up. If nothing was lost,
 *     refused or closed, both are up. A message of each side then arrives.
 *   - What owners.h checks.
 *   - When all is closed, no id, queue pair, connection, event or place in the budget is left, and
 *     no memory when both have ended.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int fake_clock(clockid_t clock, struct timespec *time);

#include "util/clock.h"

#define clock_gettime fake_clock
#include "../../src/util/clock.c"
#undef clock_gettime

static ssize_t make_numbers(void *to, size_t size);

#define getrandom(to, size, flags) make_numbers(to, size)
#include "../../provider/verbs/provider.c"
#undef getrandom

#include "../../provider/verbs/conn_types.h"
#include "../../provider/verbs/ep_types.h"
#include "counted_memory.h"
#include "process/process.h"
#include "rdma_hosts.h"
#include "walk.h"

/* What only this walk's processes have. */
struct own {
    uint64_t due_ms; /* when the thread has to run; 0: no such time */
};

#include "owners.h"

enum {
    MAX_CONNS = 64,
    MAX_STATES = 4000000,
    MAX_CALM = 1500, /* steps until both processes are at rest */
    REST_MS = 600,
    FIRST_MS = 1000000,
    PEER_MS = 2000,
    STOP_MS = 3000,
    RESEND_MS = 4000, /* the kernel repeats a message after 4.3 s */
    RETRY_MS = 1500,  /* the adapter gives up a request: ack_timeout() in provider.c */
    AWAIT_MS = 500,   /* UT_FSM_CROSSED_WAIT_MS */
    MAX_WAIT_MS = 2 * AWAIT_MS,
    CALLS = CALL_RESOLVE + 1,
};

/* What a scenario allows. */
struct rules {
    unsigned int requests[HOSTS], closes[HOSTS], messages[HOSTS];
    unsigned int losses, copies; /* messages of connection managers that are lost, or come twice */
    unsigned int give_ups;       /* the kernel gives up an id */
    unsigned int ticks;          /* time passes until a thread is due */
    unsigned int stops;          /* time passes, and nothing runs */
    unsigned int breaks;         /* an adapter reports an error of a queue pair */
    unsigned int cuts;           /* a request of a queue pair is not acknowledged */
    unsigned int fails[CALLS];   /* calls that fail: enum host_call */
    unsigned int shortages;      /* allocations that fail */
    unsigned int rejects;        /* requests that an owner rejects for want of memory */
    unsigned int
        interrupts; /* of the thread by its owner or a message, of the owner by its thread */
    unsigned int reopens[HOSTS]; /* endpoints closed and opened anew */
    bool reports_last;           /* the adapters raise IBV_EVENT_QP_LAST_WQE_REACHED */
    bool own_receives;           /* no shared receive queue */
    bool deaf;                   /* side 1 does not run */
    bool ordered;                /* messages of connection managers arrive in their order */
    bool dies;                   /* side 0 may die at any time */
    bool wrong_key;              /* side 1 is a new process with the address of another one */
    bool swapped;                /* side 0 has the larger id */
};

static struct rules rules;

static bool in_thread;     /* its background thread runs */
static struct rules left;  /* what may still happen */
static bool needs_time;    /* somebody may have to wait for a time limit */
static uint64_t waited_ms; /* on the way to the end */
static bool in_step;       /* an owner or a thread runs, before the end */
static uint64_t next_random;

enum { REACHED_EARLY = REACHED_OWN, REACHED_ALONE };

static struct vp_prov *vp_prov_of(const struct process *process)
{
    return vp_prov(process->prov);
}

static struct vp_ep *vp_ep_of(const struct process *process)
{
    return vp_ep(process->ep);
}

/*** what the processes have from the system ***/

static int fake_clock(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(host_now_ms / 1000),
                              .tv_nsec = (long)(host_now_ms % 1000 * 1000000)};
    return 0;
}

static ssize_t make_numbers(void *to, size_t size)
{
    memset(to, 0, size);
    memcpy(to, &(uint32_t){(uint32_t)++next_random}, sizeof(uint32_t));
    return (ssize_t)size;
}

/* An endpoint that closes waits for its last requests. */
void __wrap_ut_back_off_yielding(uint32_t *rounds);
void __wrap_ut_back_off_yielding(uint32_t *rounds)
{
    (void)rounds;
    host_now_ms += 100;
    for (unsigned int i = 0; i < MAX_QPS; i++)
        while (qps[i].exists && qps[i].num_posted > 0 && reached_qp(&qps[i]))
            host_carry(&qps[i]);
}

/* True if the thing that may happen so often happens now. */
static bool happens(unsigned int *number)
{
    if (!in_step || *number == 0 || walk_choose(2) == 0)
        return false;
    --*number;
    disturbed = true;
    return true;
}

static int host_may_fail(int host, enum host_call call)
{
    static const int errors[][2] = {[CALL_CREATE_ID] = {EMFILE, ENODEV},
                                    [CALL_CREATE_QP] = {ENOMEM, EINVAL},
                                    [CALL_MODIFY_QP] = {ETIMEDOUT, EINVAL},
                                    [CALL_RESOLVE] = {ETIMEDOUT, EHOSTUNREACH}};

    if (processes[host].dead || !happens(&left.fails[call]))
        return 0;
    int error = errors[call][walk_choose(call == CALL_RESOLVE ? 1 : 2)];
    walk_step("    call %2$u of side %1$u fails: error %3$u", (unsigned int)host, call,
              (unsigned int)error);
    return error;
}

/*** the memory of both ***/

static bool lacks_memory(void)
{
    if (!happens(&left.shortages))
        return false;
    walk_step("    side %u lacks memory", (unsigned int)running, 0, 0);
    errno = ENOMEM;
    return true;
}

/*** steps of a process ***/

static struct vp_conn *conn_of(const struct end *end)
{
    return vp_conn(end->conn);
}

static bool is_readable(const struct process *process)
{
    struct pollfd fd = {.fd = vp_prov_of(process)->epoll_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

/* True if the background thread has something to do. */
static bool must_run_thread(const struct process *process)
{
    return (process->own.due_ms && host_now_ms >= process->own.due_ms) || is_readable(process);
}

static void run_thread(struct process *process)
{
    bool was_in_thread = in_thread;

    in_thread = true;
    int ms = verbs_provider.progress(process->prov);
    in_thread = was_in_thread;
    process->own.due_ms = ms < 0 ? 0 : host_now_ms + (uint64_t)ms;
}

/* The thread runs while the owner is in a callback. */
static void let_thread_run(struct process *process)
{
    if (!in_step || in_thread || left.interrupts == 0 || !must_run_thread(process) ||
        walk_choose(2) == 0)
        return;
    left.interrupts--;
    walk_step("    meanwhile the thread runs", 0, 0, 0);
    run_thread(process);
}

static bool does_reject(void)
{
    return happens(&left.rejects);
}

static void spoil_address(uint8_t *address)
{
    if (rules.wrong_key)
        address[offsetof(struct vp_address, key)] ^= 1;
}

static void note_qp(struct end *end)
{
    if (!end->up)
        return;
    end->id = conn_of(end)->qp->qp_num;
    if (!end->requested && ((struct host_id *)(void *)conn_of(end)->id.cm)->state == ID_REP_SENT)
        walk_reached(REACHED_EARLY);
}

/* The other side's end of the connection; NULL: it was not up there. */
static struct end *peer_of(const struct end *end)
{
    struct process *other = &processes[!running];
    const struct host_qp *qp = find_qp(end->id);

    for (unsigned int i = 0; qp && i < other->num_ends; i++)
        if (other->ends[i].id == qp->peer_qpn)
            return &other->ends[i];
    return NULL;
}

static void check_pair(const struct end *end, const struct end *other)
{
    WALK_CHECK(peer_of(end) == other && conn_of(end)->state == VP_CONN_UP);
}

static void check_done(const struct end *end, enum prov_status status)
{
    (void)end;
    WALK_CHECK(status == PROV_OK || status == PROV_FLUSHED || status == PROV_PEER);
}

/* Looks into the send queue each time, which the provider does each sixteenth time. */
static int poll_ep(struct process *process)
{
    vp_ep_of(process)->empty_polls = 15;
    vp_ep_of(process)->polls_without_receives = 0;
    return verbs_provider.ep_poll(process->ep);
}

/* True if a poll has something to do. */
static bool must_poll(const struct process *process)
{
    const struct vp_ep *ep = vp_ep_of(process);

    return ep->pending || !vp_list_empty(&ep->service_list) || ep->needs_slow_poll ||
           ((struct host_cq *)(void *)ep->send_cq)->num > 0 ||
           ((struct host_cq *)(void *)ep->recv_cq)->num > 0;
}

static bool can_close(const struct process *process)
{
    return process->closes_left > 0 && process->end;
}

/* True if no earlier message has the same way. */
static bool is_first(unsigned int i)
{
    for (unsigned int k = 0; k < i; k++)
        if (flight[k].to == flight[i].to)
            return false;
    return true;
}

/* True if the message may arrive now. */
static bool can_arrive(unsigned int i)
{
    return !rules.ordered || is_first(i);
}

static void deliver_msg(unsigned int i, bool keep)
{
    /* a request may come when its origin has given it up, a reply before a reject */
    needs_time |= !is_first(i);
    host_deliver(i, keep);
}

/* The owner runs, or a message arrives. No lock may be held in a slow call. */
static void interrupt(struct process *process, int host)
{
    bool polls = process->ep && must_poll(process);
    unsigned int n = 1 + polls + can_close(process), arrives = n;

    WALK_CHECK(pthread_mutex_trylock(&vp_prov_of(process)->lock) == 0);
    pthread_mutex_unlock(&vp_prov_of(process)->lock);
    for (unsigned int i = 0; i < num_flight; i++)
        n += flight[i].to == host && can_arrive(i);
    unsigned int what = walk_choose(n);
    if (what == 0)
        return;
    left.interrupts--;
    in_thread = false;
    if (what >= arrives) {
        unsigned int i = 0;
        for (what -= arrives; flight[i].to != host || !can_arrive(i) || what > 0; i++)
            what -= flight[i].to == host && can_arrive(i);
        walk_step("    meanwhile kind %u arrives", flight[i].kind, 0, 0);
        deliver_msg(i, false);
    } else if (what == 1 && polls) {
        walk_step("    meanwhile the owner polls", 0, 0, 0);
        poll_ep(process);
    } else {
        walk_step("    meanwhile the owner closes its connection", 0, 0, 0);
        close_by_hand(process);
    }
    in_thread = true;
}

static void host_enter(int host)
{
    if (in_step && in_thread && host == running && left.interrupts > 0)
        interrupt(this_process(), host);
}

/* The process of side 0 ends. Its memory stays until the run ends. */
static void kill_process(struct process *process)
{
    (void)process;
    host_kill(running);
}

/*** what a state is ***/

/* Numbers of ids are replaced by their ranks among those that somebody still knows, connections and
 * queue pairs by the place of the connection in the lists of its endpoint. */
static struct walk_numbers known[HOSTS];
static const struct vp_conn *conns[HOSTS][MAX_CONNS];
static unsigned int num_conns[HOSTS];

static void collect_conns(int side)
{
    const struct vp_ep *ep = vp_ep_of(&processes[side]);
    const struct vp_list *lists[] = {&ep->conns, &ep->dying, &ep->stuck};

    num_conns[side] = 0;
    if (!ep)
        return;
    for (int k = 0; k < 3; k++) {
        for (const struct vp_list *l = lists[k]->next; l != lists[k]; l = l->next) {
            WALK_CHECK(num_conns[side] < MAX_CONNS);
            conns[side][num_conns[side]++] = vp_container_of(l, struct vp_conn, ep_link);
        }
    }
}

static void collect_numbers(void)
{
    memset(known, 0, sizeof(known));
    for (int side = 0; side < HOSTS; side++)
        collect_conns(side);
    for (unsigned int i = 0; i < MAX_IDS; i++) {
        if (!ids[i].exists)
            continue;
        walk_add_number(&known[ids[i].host], ids[i].number);
        walk_add_number(&known[!ids[i].host], ids[i].peer_number);
    }
    for (unsigned int i = 0; i < num_flight; i++) {
        walk_add_number(&known[!flight[i].to], flight[i].from_id);
        walk_add_number(&known[flight[i].to], flight[i].to_id);
    }
}

static unsigned int conn_rank(const struct vp_conn *conn)
{
    int side = conn->ep == vp_ep_of(&processes[1]);
    unsigned int i = 0;

    while (i < num_conns[side] && conns[side][i] != conn)
        i++;
    return i + 1;
}

/* A queue pair that is no more is as any other one. */
static unsigned int qp_rank(uint32_t qpn)
{
    const struct host_qp *at = find_qp(qpn);

    if (!qpn)
        return 0;
    return at ? conn_rank(at->qp.qp_context) + 32u * (unsigned int)at->host : 255;
}

static void put_word(struct walk_bytes *bytes, uint64_t number)
{
    walk_put_small(bytes, number);
    walk_put_small(bytes, number >> 8);
}

/* Until a time, or since. */
static void put_time(struct walk_bytes *bytes, uint64_t time_ms)
{
    put_word(bytes, time_ms ? time_ms - host_now_ms + 30000 : 0);
}

static void put_hello(struct walk_bytes *bytes, int from, const void *data)
{
    const struct hello hello = read_hello(data, sizeof(hello));

    walk_put_small(bytes, processes[from].serial - hello.serial);
    walk_put_small(bytes, processes[!from].rmt_serial - hello.serial);
}

static void put_request(struct walk_bytes *bytes, int from, const struct vp_hello_req *req)
{
    walk_put_byte(bytes, req->kind);
    if ((req->kind & VP_REQ_SIZE) == VP_REQ_PROBE)
        return;
    walk_put_small(bytes, vp_prov_of(&processes[from])->num_requests - req->tag);
    walk_put_byte(bytes, req->attempt);
    put_hello(bytes, from, req->hello);
}

static void put_data(struct walk_bytes *bytes, int from, const uint8_t *data, unsigned int size)
{
    struct vp_hello_rep rep;

    walk_put_small(bytes, size);
    if (size == sizeof(struct vp_hello_req)) {
        put_request(bytes, from, (const struct vp_hello_req *)(const void *)data);
    } else if (size == sizeof(rep)) {
        memcpy(&rep, data, sizeof(rep));
        put_hello(bytes, from, rep.hello);
    } else if (size > 0) { /* the reason of a reject */
        walk_put_byte(bytes, data[4]);
    }
}

static void put_msg(struct walk_bytes *bytes, const struct cm_msg *msg)
{
    walk_put_byte(bytes, msg->kind + 10u * (unsigned int)msg->to);
    walk_put_byte(bytes, walk_rank_of(&known[!msg->to], msg->from_id));
    walk_put_byte(bytes, walk_rank_of(&known[msg->to], msg->to_id));
    walk_put_byte(bytes, qp_rank(msg->qpn));
    walk_put_small(bytes, msg->reason);
    walk_put_byte(bytes, msg->rejects_req);
    put_data(bytes, !msg->to, msg->data, msg->size);
}

static int compare_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 24);
}

/* The messages of each way in their order, or in any order. */
static void put_flight(struct walk_bytes *bytes)
{
    uint8_t sorted[MAX_FLIGHT][24] = {0};

    for (unsigned int i = 0; i < num_flight; i++) {
        struct walk_bytes one = {.size = 0};
        put_msg(&one, &flight[i]);
        WALK_CHECK(one.size < sizeof(sorted[i]));
        memcpy(sorted[i] + 1, one.of, one.size);
        sorted[i][0] = (uint8_t)flight[i].to;
        for (unsigned int k = 0; k < i; k++)
            sorted[i][0] = (uint8_t)(sorted[i][0] + 2 * (flight[k].to == flight[i].to));
    }
    qsort(sorted, num_flight, sizeof(sorted[0]), compare_bytes);
    for (unsigned int i = 0; i < num_flight; i++)
        for (unsigned int k = 0; k < sizeof(sorted[0]); k++)
            walk_put_byte(bytes, sorted[i][k]);
    walk_put_byte(bytes, 255);
}

static void put_id(struct walk_bytes *bytes, const struct host_id *at)
{
    const struct vp_cm_id *user = at->id.context;

    walk_put_byte(bytes, 20 + at->state);
    walk_put_byte(bytes, walk_rank_of(&known[at->host], at->number));
    walk_put_byte(bytes, walk_rank_of(&known[!at->host], at->peer_number));
    walk_put_byte(bytes, qp_rank(at->qpn));
    walk_put_byte(bytes, qp_rank(at->peer_qpn));
    walk_put_byte(bytes, at->has_user | at->disconnected << 1 | (at->sent.kind != 0) << 2);
    put_time(bytes, at->lost_ms);
    walk_put_byte(bytes, user->kind == VP_CM_ID_CONN
                             ? conn_rank(vp_container_of(user, struct vp_conn, id))
                             : 200 + user->kind);
}

static void put_list(struct walk_bytes *bytes, const struct vp_list *list, size_t offset)
{
    for (const struct vp_list *l = list->next; l != list; l = l->next)
        walk_put_byte(bytes, conn_rank((const void *)((const char *)l - offset)));
    walk_put_byte(bytes, 254);
}

#define PUT_LIST(bytes, list, member) put_list(bytes, list, offsetof(struct vp_conn, member))

static void put_handshake(struct walk_bytes *bytes, const struct vp_conn *conn)
{
    const struct vp_handshake *hs = &conn->hs;

    walk_put_byte(bytes, hs->busy | hs->accepted << 1 | hs->in_flight << 2);
    if (conn->phase < VP_ESTABLISHED && !conn->abandoned) {
        walk_put_byte(bytes, hs->tries);
        put_time(bytes, hs->first);
        put_time(bytes, hs->last_heard);
        put_time(bytes, hs->started);
        put_time(bytes, vp_heap_has(&hs->timer) ? hs->timer.at : 0);
    }
    put_request(bytes, conn->active ? running : !running, &conn->req);
    if (conn->hello_size)
        put_hello(bytes, conn->active ? !running : running, conn->hello);
}

static void put_ending(struct walk_bytes *bytes, const struct vp_conn *conn)
{
    const struct vp_ending *end = &conn->end;

    walk_put_small(bytes, end->reason);
    walk_put_byte(bytes, end->err_status);
    walk_put_byte(bytes, end->suspend | end->suspend_request << 4);
    walk_put_byte(bytes,
                  end->peer_suspended | end->delivered << 1 | end->stuck << 2 | end->drained << 3);
    walk_put_small(bytes, end->err_seq - conn->tail);
    walk_put_small(bytes, end->posted_end - conn->tail);
    walk_put_small(bytes, end->completed_end - conn->tail);
    put_time(bytes, end->deadline == UINT64_MAX ? 0 : end->deadline);
}

static void put_qp(struct walk_bytes *bytes, const struct vp_conn *conn)
{
    const struct host_qp *at = (const struct host_qp *)(const void *)conn->qp;

    walk_put_byte(bytes, at ? 1 + at->state : 0);
    if (!at)
        return;
    walk_put_byte(bytes, qp_rank(at->peer_qpn));
    for (unsigned int i = 0; i < at->num_posted; i++) {
        walk_put_small(bytes, at->posted[i].is_send | at->posted[i].has_imm << 1);
        walk_put_small(bytes, be32toh(at->posted[i].imm));
    }
    put_time(bytes, at->stuck_ms);
    if (!conn->recvs)
        return;
    walk_put_small(bytes, at->receives.num);
    walk_put_small(bytes, conn->recvs->posted - conn->recvs->completed);
    walk_put_small(bytes, conn->recvs->to_post);
}

static void put_conn(struct walk_bytes *bytes, const struct vp_conn *conn)
{
    const struct process *process = this_process();

    walk_put_byte(bytes, 40 + conn->phase);
    walk_put_byte(bytes, conn->state);
    walk_put_byte(bytes, conn->active | conn->abandoned << 1 | conn->closed << 2 |
                             conn->in_table << 3 | (conn->sq_max != 0) << 4 | conn->qp_failed << 5);
    walk_put_byte(bytes, process->end && process->end->conn == (const struct prov_conn *)conn);
    walk_put_byte(bytes, conn->qp_state);
    walk_put_byte(bytes, conn->last_request | conn->action << 4);
    put_word(bytes, conn->events);
    walk_put_byte(bytes, conn->budget_state);
    walk_put_byte(bytes, conn->hs_reason);
    walk_put_byte(bytes, conn->reject_reason);
    walk_put_byte(bytes, conn->verdict);
    walk_put_small(bytes, conn->head);
    walk_put_small(bytes, conn->tail);
    walk_put_small(bytes, conn->signalled);
    walk_put_small(bytes, conn->head - conn->used_head);
    walk_put_small(bytes, conn->head - conn->head_at_check);
    walk_put_small(bytes, conn->tail - conn->tail_at_check);
    put_handshake(bytes, conn);
    put_ending(bytes, conn);
    put_qp(bytes, conn);
}

static void put_cq(struct walk_bytes *bytes, const struct ibv_cq *cq)
{
    const struct host_cq *of = (const struct host_cq *)(const void *)cq;

    for (unsigned int i = 0; i < of->num; i++) {
        walk_put_byte(bytes, qp_rank(of->wcs[i].qp_num));
        walk_put_byte(bytes, of->wcs[i].status);
        walk_put_byte(bytes, of->wcs[i].wc_flags);
        walk_put_small(bytes, be32toh(of->wcs[i].imm_data));
    }
    walk_put_byte(bytes, 253);
}

static void put_ep(struct walk_bytes *bytes, const struct vp_ep *ep)
{
    walk_put_small(bytes, ep->pending);
    walk_put_byte(bytes, ep->needs_slow_poll | !vp_list_empty(&ep->wake_link) << 1);
    walk_put_byte(bytes, (unsigned int)(ep->stash_send | ep->stash_recv << 4));
    walk_put_small(bytes, ep->credits);
    walk_put_small(bytes, ep->recvs.to_post);
    walk_put_small(bytes, ep->recv_room);
    walk_put_small(bytes, ep->recv_deferred);
    put_time(bytes, ep->wake_at);
    put_time(bytes, ep->stall_check_at);
    PUT_LIST(bytes, &ep->service_list, service_link);
    PUT_LIST(bytes, &ep->events, ev_link);
    put_cq(bytes, ep->send_cq);
    put_cq(bytes, ep->recv_cq);
}

static void put_prov(struct walk_bytes *bytes, const struct vp_prov *prov)
{
    const struct vp_qp_budget *p = &prov->devices[0].budget;

    walk_put_small(bytes, prov->connecting);
    walk_put_small(bytes, prov->window);
    put_word(bytes, this_process()->requests_left > 0 ? prov->handshake_ms : 0);
    put_time(bytes, prov->next_deadline);
    put_time(bytes, prov->read_paused_until);
    put_word(bytes, prov->rejects_left);
    PUT_LIST(bytes, &prov->queue, hs.link);
    PUT_LIST(bytes, &prov->accepts, hs.link);
    PUT_LIST(bytes, &prov->reaping, hs.link);
    PUT_LIST(bytes, &p->open, budget_link);
    PUT_LIST(bytes, &p->evicting, budget_link);
    PUT_LIST(bytes, &p->waiting_active, hs.link);
    PUT_LIST(bytes, &p->waiting_passive, hs.link);
    walk_put_small(bytes, p->limit);
    walk_put_small(bytes, p->num_not_evicted);
    walk_put_byte(bytes, p->active_turn);
    put_time(bytes, p->shrunk_until);
    put_time(bytes, p->resume_at);
    for (const struct vp_list *l = prov->probes.next; l != &prov->probes; l = l->next) {
        const struct vp_probe *probe = vp_container_of(l, struct vp_probe, link);
        walk_put_byte(bytes, probe->conn ? conn_rank(probe->conn) : 0);
        walk_put_byte(bytes, probe->attempts | probe->done << 7);
        put_time(bytes, probe->deadline);
    }
    walk_put_byte(bytes, 252);
}

static void put_events(struct walk_bytes *bytes, int side)
{
    const struct host *host = &hosts[side];

    for (unsigned int i = 0; i < host->num_events; i++) {
        const struct rdma_cm_event *event = &host->events[i];
        walk_put_byte(bytes, event->event);
        walk_put_small(bytes, event->status);
        walk_put_byte(bytes,
                      walk_rank_of(&known[side], ((struct host_id *)(void *)event->id)->number));
        put_data(bytes, !side, host->event_data[i], event->param.conn.private_data_len);
    }
    for (unsigned int i = 0; i < host->num_async; i++)
        walk_put_byte(bytes, 100 + qp_rank(host->async[i].element.qp->qp_num));
    walk_put_byte(bytes, 251);
}

static void put_process(struct walk_bytes *bytes, const struct process *process)
{
    walk_put_byte(bytes, process->dead);
    if (process->dead)
        return;
    put_owner(bytes, process);
    if (process->end) {
        walk_put_byte(bytes, process->end->posted);
        walk_put_byte(bytes, process->end->done);
    }
    walk_put_byte(bytes, must_run_thread(process));
    put_time(bytes, process->own.due_ms);
    put_events(bytes, running);
    put_prov(bytes, vp_prov_of(process));
    walk_put_byte(bytes, process->ep != NULL);
    if (process->ep)
        put_ep(bytes, vp_ep_of(process));
    for (unsigned int i = 0; i < num_conns[running]; i++)
        put_conn(bytes, conns[running][i]);
    walk_put_byte(bytes, 250);
}

static void put_left(struct walk_bytes *bytes)
{
    const unsigned int numbers[] = {left.losses,  left.copies,    left.give_ups, left.ticks,
                                    left.stops,   left.breaks,    left.cuts,     left.shortages,
                                    left.rejects, left.interrupts};

    for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        walk_put_byte(bytes, numbers[i]);
    for (unsigned int i = 0; i < CALLS; i++)
        walk_put_byte(bytes, left.fails[i]);
    walk_put_byte(bytes, disturbed | needs_time << 1);
}

static void put_state(struct walk_bytes *bytes)
{
    collect_numbers();
    put_left(bytes);
    for (running = 0; running < HOSTS; running++)
        put_process(bytes, this_process());
    for (int side = 0; side < HOSTS; side++)
        for (unsigned int i = 0; i < known[side].num; i++)
            for (unsigned int k = 0; k < MAX_IDS; k++)
                if (ids[k].exists && ids[k].host == side && ids[k].number == known[side].of[i])
                    put_id(bytes, &ids[k]);
    put_flight(bytes);
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
    bool waits = process->end && process->end->done < process->end->posted;
    process->sleeps =
        !verbs_provider.ep_arm(process->ep, waits ? PROV_ARM_ALL : PROV_ARM_SOLICITED);
    return true;
}

static bool run_process(void)
{
    struct process *process = this_process();

    if (process->dead)
        return false;
    if (run_owner(process))
        return true;
    if (process->link == LINK_AWAITING && host_now_ms >= process->down_ms + AWAIT_MS) {
        begin_request(process);
        process->sleeps = false;
        return true;
    }
    if (!must_run_thread(process))
        return false;
    walk_step("  end: the thread of side %u runs", (unsigned int)running, 0, 0);
    run_thread(process);
    return true;
}

static bool run_anything(void)
{
    bool any = false;

    for (running = 0; running < HOSTS; running++)
        any |= run_process();
    return any;
}

/* Requests of queue pairs arrive, or nobody acknowledges them for too long. */
static bool carry_first(void)
{
    for (unsigned int i = 0; i < MAX_QPS; i++) {
        struct host_qp *at = &qps[i];
        if (!at->exists || at->num_posted == 0)
            continue;
        if (reached_qp(at)) {
            host_carry(at);
            return true;
        }
        if (!at->stuck_ms)
            at->stuck_ms = host_now_ms;
        if (host_now_ms >= at->stuck_ms + RETRY_MS) {
            host_exceed_retries(at);
            return true;
        }
    }
    return false;
}

static bool resend_first(void)
{
    for (unsigned int i = 0; i < MAX_IDS; i++) {
        if (ids[i].exists && ids[i].lost_ms && host_now_ms >= ids[i].lost_ms + RESEND_MS) {
            host_resend(&ids[i]);
            return true;
        }
    }
    return false;
}

static bool deliver_first(void)
{
    if (num_flight == 0)
        return carry_first() || resend_first();
    walk_step("  end: kind %u arrives at side %u", flight[0].kind, (unsigned int)flight[0].to, 0);
    host_deliver(0, false);
    return true;
}

/* True if a message will be repeated, or a request given up. */
static bool has_kernel_work(void)
{
    bool any = false;

    for (unsigned int i = 0; i < MAX_IDS; i++)
        any |= ids[i].exists && ids[i].lost_ms;
    for (unsigned int i = 0; i < MAX_QPS; i++)
        any |= qps[i].exists && qps[i].num_posted > 0;
    return any;
}

static void take_earlier(uint64_t *next, uint64_t time_ms)
{
    if (time_ms && (!*next || time_ms < *next))
        *next = time_ms;
}

/* False: nothing happens any more. */
static bool pass_time(void)
{
    uint64_t next = 0;

    for (int side = 0; side < HOSTS; side++) {
        const struct process *process = &processes[side];
        if (process->dead)
            continue;
        take_earlier(&next, process->own.due_ms);
        if (process->link == LINK_AWAITING)
            take_earlier(&next, process->down_ms + AWAIT_MS);
        WALK_CHECK(disturbed || !is_waiting(process));
        WALK_CHECK(vp_list_empty(&vp_prov_of(process)->queue) &&
                   vp_list_empty(&vp_prov_of(process)->reaping));
        WALK_CHECK(vp_list_empty(&vp_prov_of(process)->accepts));
    }
    for (unsigned int i = 0; i < MAX_IDS; i++)
        if (ids[i].exists && ids[i].lost_ms)
            take_earlier(&next, ids[i].lost_ms + RESEND_MS);
    for (unsigned int i = 0; i < MAX_QPS; i++)
        if (qps[i].exists && qps[i].stuck_ms)
            take_earlier(&next, qps[i].stuck_ms + RETRY_MS);
    if (!next)
        return false;
    WALK_CHECK(next > host_now_ms);
    walk_step("  end: %u ms pass", (unsigned int)(next - host_now_ms), 0, 0);
    if (is_waiting(&processes[0]) || is_waiting(&processes[1]))
        waited_ms += next - host_now_ms;
    WALK_CHECK(needs_time || waited_ms <= MAX_WAIT_MS);
    host_now_ms = next;
    return true;
}

/* True if no handshake, close or probe is under way. */
static bool is_at_rest(const struct process *process)
{
    const struct vp_prov *prov = vp_prov_of(process);
    const struct vp_ep *ep = vp_ep_of(process);

    if (process->dead)
        return true;
    if (is_waiting(process) || vp_heap_next(&prov->handshake_timers) ||
        !vp_list_empty(&prov->probes))
        return false;
    return !ep || (vp_list_empty(&ep->service_list) && vp_list_empty(&ep->dying));
}

/* Until both sides are at rest, also for a while. Adapters and kernels are, when nothing comes. */
static void calm_down(void)
{
    uint64_t rest_ms = 0;

    wake_owners();
    for (int i = 0; i < MAX_CALM; i++) {
        if (run_anything() || deliver_first())
            continue;
        if (!is_at_rest(&processes[0]) || !is_at_rest(&processes[1]) || has_kernel_work())
            rest_ms = 0;
        else if (!rest_ms)
            rest_ms = host_now_ms;
        if ((rest_ms && host_now_ms >= rest_ms + REST_MS) || !pass_time()) {
            WALK_CHECK(!is_waiting(&processes[0]) && !is_waiting(&processes[1]));
            return;
        }
    }
    WALK_CHECK(!"both processes come to rest");
}

static void check_ep_has_nothing(const struct vp_ep *ep)
{
    WALK_CHECK(vp_list_empty(&ep->conns) && vp_list_empty(&ep->dying));
    WALK_CHECK(vp_list_empty(&ep->service_list) && vp_list_empty(&ep->events));
    WALK_CHECK(!rules.own_receives || ep->recv_room + ep->recv_deferred == ep->recv_cq_size);
    WALK_CHECK(ep->credits == 0 && ep->signalled == 0 && ep->room == ep->cq_size);
}

static void check_process_has_nothing(const struct process *process)
{
    const struct vp_prov *prov = vp_prov_of(process);

    if (process->dead)
        return;
    if (process->ep)
        check_ep_has_nothing(vp_ep_of(process));
    WALK_CHECK(vp_list_empty(&prov->queue) && vp_list_empty(&prov->accepts));
    WALK_CHECK(vp_list_empty(&prov->reaping) && vp_list_empty(&prov->probes));
    WALK_CHECK(!vp_heap_next(&prov->handshake_timers) && prov->connecting == 0);
    WALK_CHECK(prov->devices[0].budget.taken == 0 && prov->devices[0].budget.opening == 0);
    WALK_CHECK(hosts[running].num_events == 0 && hosts[running].num_async == 0);
    for (unsigned int i = 0; i < MAX_IDS; i++)
        WALK_CHECK(!ids[i].exists || ids[i].host != running);
    for (unsigned int i = 0; i < MAX_QPS; i++)
        WALK_CHECK(!qps[i].exists || qps[i].host != running);
}

static void finish_run(void)
{
    calm_down();
    if ((processes[0].link == LINK_UP) != (processes[1].link == LINK_UP))
        walk_reached(REACHED_ALONE);
    post_messages();
    calm_down();
    check_sides();
    for (int side = 0; side < HOSTS && rules.wrong_key; side++)
        WALK_CHECK(processes[side].link != LINK_FAILED || processes[side].num_lines > 0);
    close_links();
    calm_down();
    for (running = 0; running < HOSTS; running++)
        check_process_has_nothing(this_process());
}

/*** a run ***/

static void open_device(struct vp_prov *prov)
{
    struct host *host = &hosts[running];

    prov->tuning.srq_depth = prov->tuning.sq_depth = 16;
    prov->tuning.rq_depth = 4;
    prov->channel = &host->channel;
    prov->devices[0] =
        (struct vp_device){.context = &host->context,
                           .pd = &host->pd,
                           .channel = &host->comp,
                           .has_srq = !rules.own_receives,
                           .max_inline = 16,
                           .last_wqe = rules.reports_last ? VP_LAST_WQE_RAISED : VP_LAST_WQE_NEVER};
    host->reports_last = rules.reports_last;
    prov->devices[0].attr = (struct ibv_device_attr){
        .max_cqe = 1 << 20, .max_srq_wr = 16, .max_qp_wr = 16, .max_qp_rd_atom = 16};
    vp_budget_init(prov, &prov->devices[0]);
    prov->num_devices = 1;
    host->listener.context = &vp_rdmacm_listener;
    prov->ports[0] = (struct vp_port){.dev = &prov->devices[0],
                                      .num = 1,
                                      .max_msg = 4096,
                                      .mtu = IBV_MTU_1024,
                                      .cm_ops = &vp_rdmacm_ops,
                                      .listener = &host->listener,
                                      .name = "fake"};
    prov->ports[0].addr.in =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)(FIRST_PORT + running)),
                             .sin_addr.s_addr = htonl(0x0a000001u + (unsigned int)running)};
    prov->num_ports = 1;
    ut_fd_mark_ours(host->channel.fd);
    WALK_CHECK(vp_watch(prov, host->channel.fd, VP_WATCH_CM) == 0);
    WALK_CHECK(vp_watch(prov, host->comp.fd, VP_WATCH_COMP) == 0);
    WALK_CHECK(vp_watch(prov, host->context.async_fd, VP_WATCH_ASYNC) == 0);
}

static void open_ep(struct process *process)
{
    open_endpoint(process);
    poll_ep(process);
}

static void close_ep(struct process *process)
{
    in_step = false; /* nothing fails while it closes */
    close_endpoint(process);
}

enum { DELIVER = OWN_ACTION, COPY, LOSE, GIVE_UP, CARRY, CUT, BREAK, TICK, STOP };

static void add_tick(struct walk_choices *choices, int side, const struct process *process)
{
    if (left.ticks > 0 && process->ep && process->own.due_ms > host_now_ms)
        walk_add_choice(choices, TICK, side, 0);
}

static const struct process_ops ops = {.provider = &verbs_provider,
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
                                       .note_conn = note_qp,
                                       .spoil_address = spoil_address,
                                       .interrupt_owner = let_thread_run,
                                       .does_reject = does_reject};

static void open_process(int side)
{
    const struct prov_config config = {.wake = wake_owner,
                                       .num_tnis = 1,
                                       .peer_timeout_ms = PEER_MS,
                                       .job_timeout_ms = PEER_MS,
                                       .local_size = 1};
    struct process *process = &processes[side];
    struct vp_prov *prov;

    *process = (struct process){.id = 100 + (uint64_t)(rules.swapped ? !side : side),
                                .requests_left = rules.requests[side],
                                .closes_left = rules.closes[side],
                                .messages_left = rules.messages[side],
                                .reopens_left = rules.reopens[side],
                                .may_die = rules.dies && side == 0};
    running = side;
    host_open(side);
    WALK_CHECK(create_prov(&config, &prov) == 0);
    process->prov = &prov->base;
    open_device(prov);
    open_ep(process);
    run_thread(process);
    poll_ep(process);
}

static void open_all(void)
{
    next_random = 0;
    begin_counting();
    num_flight = last_id = last_qpn = 0;
    host_now_ms = FIRST_MS;
    disturbed = rules.wrong_key;
    needs_time = false;
    waited_ms = 0;
    left = rules;
    memset(ids, 0, sizeof(ids));
    memset(qps, 0, sizeof(qps));
    for (int side = 0; side < HOSTS; side++)
        open_process(side);
}

static void close_all(void)
{
    for (running = 0; running < HOSTS; running++) {
        struct vp_prov *prov = vp_prov_of(this_process());
        if (this_process()->ep)
            verbs_provider.ep_close(this_process()->ep);
        WALK_CHECK(prov->devices[0].budget.taken == 0);
        prov->num_devices = prov->num_ports = 0;
        prov->channel = NULL;
        vp_close(&prov->base);
        host_close(running);
        WALK_CHECK(hosts[running].num_cqs == 0 && hosts[running].num_srqs == 0);
        WALK_CHECK(hosts[running].num_mrs == 0);
    }
    for (unsigned int i = 0; i < MAX_IDS; i++) /* a request that nobody has seen is the kernel's */
        WALK_CHECK(!ids[i].exists || ids[i].id.context == &vp_rdmacm_listener);
    for (unsigned int i = 0; i < MAX_QPS; i++)
        WALK_CHECK(!qps[i].exists);
    check_memory_is_free();
}

static void add_messages(struct walk_choices *choices)
{
    for (unsigned int i = 0; i < num_flight; i++) {
        if (!can_arrive(i))
            continue;
        walk_add_choice(choices, DELIVER, flight[i].to, i);
        if (left.copies > 0 &&
            (flight[i].kind == MSG_REQ || flight[i].kind == MSG_REP || flight[i].kind == MSG_DREQ))
            walk_add_choice(choices, COPY, flight[i].to, i);
        if (left.losses > 0)
            walk_add_choice(choices, LOSE, flight[i].to, i);
    }
    for (unsigned int i = 0; i < MAX_IDS && left.give_ups > 0; i++)
        if (ids[i].exists && ids[i].sent.kind)
            walk_add_choice(choices, GIVE_UP, ids[i].host, i);
}

static void add_qps(struct walk_choices *choices)
{
    for (unsigned int i = 0; i < MAX_QPS; i++) {
        const struct host_qp *at = &qps[i];
        if (!at->exists || processes[at->host].dead)
            continue;
        if (at->num_posted > 0 && reached_qp(at))
            walk_add_choice(choices, CARRY, at->host, i);
        if (at->num_posted > 0 && (left.cuts > 0 || !reached_qp(at)))
            walk_add_choice(choices, CUT, at->host, i);
        if (left.breaks > 0 && at->state == IBV_QPS_RTS)
            walk_add_choice(choices, BREAK, at->host, i);
    }
}

static void add_choices(struct walk_choices *choices)
{
    add_messages(choices);
    add_qps(choices);
    for (int side = 0; side < HOSTS; side++)
        if (!rules.deaf || side == 0)
            add_process(choices, side);
    if (left.stops > 0)
        walk_add_choice(choices, STOP, 0, 0);
}

static void do_message(const struct walk_choice *choice)
{
    disturbed |= choice->action != DELIVER;
    needs_time |= choice->action != DELIVER;
    if (choice->action == LOSE) {
        left.losses--;
        host_lose(choice->i);
        return;
    }
    left.copies -= choice->action == COPY;
    deliver_msg(choice->i, choice->action == COPY);
}

static void do_kernel(const struct walk_choice *choice)
{
    struct host_qp *at = &qps[choice->i % MAX_QPS];

    switch (choice->action) {
    case GIVE_UP:
        left.give_ups--;
        disturbed = needs_time = true;
        host_give_up(&ids[choice->i]);
        break;
    case CARRY:
        host_carry(at);
        break;
    case CUT:
        if (reached_qp(at)) {
            left.cuts--;
            disturbed = needs_time = true;
        }
        host_exceed_retries(at);
        break;
    case BREAK:
        left.breaks--;
        disturbed = true;
        host_break(at);
        break;
    case TICK:
        left.ticks--;
        disturbed = true;
        host_now_ms = this_process()->own.due_ms;
        break;
    case STOP:
        left.stops--;
        disturbed = true;
        host_now_ms += STOP_MS;
        break;
    }
}

static void do_own(const struct walk_choice *choice)
{
    static const char *const what[] = {
        [DELIVER] = "kind %2$u arrives at side %1$u (no. %3$u)",
        [COPY] = "kind %2$u arrives at side %1$u (no. %3$u), and will arrive again",
        [LOSE] = "kind %2$u to side %1$u is lost (no. %3$u)",
        [GIVE_UP] = "the kernel of side %1$u gives up id %3$u",
        [CARRY] = "a request of queue pair %3$u of side %1$u arrives",
        [CUT] = "a request of queue pair %3$u of side %1$u is not acknowledged",
        [BREAK] = "queue pair %3$u of side %1$u breaks",
        [TICK] = "time passes until the thread of side %u is due",
        [STOP] = "both are stopped for seconds",
    };
    bool is_message = choice->action <= LOSE;

    walk_step(what[choice->action], (unsigned int)choice->side,
              is_message ? flight[choice->i].kind : 0, choice->i);
    if (is_message)
        do_message(choice);
    else
        do_kernel(choice);
}

static void do_choice(const struct walk_choice *choice)
{
    running = choice->side;
    in_step = choice->action != WALK_FINISH;
    if (choice->action < OWN_ACTION)
        do_process(this_process(), choice->action);
    else
        do_own(choice);
    in_step = false;
}

static const struct walk_scenario scenarios[] = {
    SCENARIO("one request", 0, UP, .requests = {1}),
    SCENARIO("messages", 0, EARLY, .requests = {1}, .messages = {1, 1}),
    SCENARIO("requests cross", 0, CROSSED, .requests = {1, 1}),
    SCENARIO("requests cross, the other id", 0, CROSSED, .requests = {1, 1}, .swapped = true),
    SCENARIO("a loss", 0, UP, .requests = {1, 1}, .losses = 1),
    SCENARIO("a copy", 0, UP, .requests = {1}, .copies = 1),
    SCENARIO("a time limit", 0, UP, .requests = {1}, .ticks = 1),
    SCENARIO("time limits", 0, UP, .requests = {1}, .ticks = 2, .ordered = true),
    SCENARIO("silence", 0, SILENT, .requests = {1}, .ticks = 6, .deaf = true, .ordered = true),
    SCENARIO("a stop", 0, UP, .requests = {1}, .stops = 1),
    SCENARIO("closes", 0, CLOSED, .requests = {1}, .closes = {1, 1}, .ordered = true),
    SCENARIO("a death", 0, DEAD, .requests = {1}, .dies = true),
    SCENARIO("a break", 0, BROKEN, .requests = {1}, .messages = {1}, .breaks = 1),
    SCENARIO("a cut", 0, BROKEN, .requests = {1}, .messages = {1}, .cuts = 1),
    SCENARIO("no queue pair", 0, LOCAL, .requests = {1, 1}, .fails = {[CALL_CREATE_QP] = 1}),
    SCENARIO("no id", 0, UP, .requests = {1, 1}, .fails = {[CALL_CREATE_ID] = 1}),
    SCENARIO("no address", 0, UP, .requests = {1, 1}, .fails = {[CALL_RESOLVE] = 1}),
    SCENARIO("no route", 0, UP, .requests = {1, 1}, .fails = {[CALL_MODIFY_QP] = 1},
             .ordered = true),
    SCENARIO("a shortage", 0, LOCAL, .requests = {1}, .shortages = 1),
    SCENARIO("a rejection", 0, UP, .requests = {1, 1}, .rejects = 1),
    SCENARIO("an interrupt", 0, UP, .requests = {1}, .interrupts = 1, .closes = {1},
             .ordered = true),
    SCENARIO("last receives", 0, CLOSED, .requests = {1}, .closes = {1}, .reports_last = true),
    SCENARIO("own receives", 0, CLOSED, .requests = {1}, .messages = {1}, .closes = {1},
             .own_receives = true),
    SCENARIO("own receives, a shortage", 0, LOCAL, .requests = {1}, .shortages = 1,
             .own_receives = true),
    SCENARIO("a new endpoint", 0, UP, .requests = {1}, .reopens = {0, 1}),
    SCENARIO("a kernel gives up", 0, UP, .requests = {1}, .give_ups = 1),
    SCENARIO("a wrong key", 0, DEAD, .requests = {1}, .wrong_key = true),
    SCENARIO("messages, requests cross", 1, EARLY, .requests = {1, 1}, .messages = {1, 1}),
    SCENARIO("a copy, requests cross", 1, UP, .requests = {1, 1}, .copies = 1),
    SCENARIO("two time limits", 1, UP, .requests = {1}, .ticks = 2),
    SCENARIO("time limits, an interrupt", 1, UP, .requests = {1}, .interrupts = 1, .ticks = 2,
             .ordered = true),
    SCENARIO("stops", 2, UP, .requests = {1}, .stops = 3, .ordered = true),
    SCENARIO("closes, any order", 1, CLOSED, .requests = {1}, .closes = {1, 1}),
    SCENARIO("closes, a loss", 1, ALONE, .requests = {1}, .closes = {1, 1}, .losses = 1),
    SCENARIO("closes, an interrupt", 1, UP, .requests = {1}, .closes = {1, 1}, .interrupts = 1,
             .ordered = true),
    SCENARIO("a death, requests cross", 1, DEAD, .requests = {1, 1}, .dies = true),
    SCENARIO("a death, closes", 1, DEAD, .requests = {1}, .closes = {1, 1}, .dies = true),
    SCENARIO("losses", 1, UP, .requests = {1}, .losses = 2, .messages = {1}),
    SCENARIO("interrupts", 1, UP, .requests = {1, 1}, .interrupts = 2, .ordered = true),
    SCENARIO("a death, an interrupt", 1, DEAD, .requests = {1, 1}, .dies = true, .interrupts = 1,
             .ordered = true),
    SCENARIO("a break, closes", 1, BROKEN, .requests = {1}, .closes = {1, 1}, .breaks = 1,
             .ordered = true),
    SCENARIO("a cut, a death", 1, BROKEN, .requests = {1}, .messages = {1, 1}, .cuts = 1,
             .dies = true, .ordered = true),
    SCENARIO("a new endpoint, an interrupt", 1, UP, .requests = {1}, .reopens = {0, 1},
             .interrupts = 1, .ordered = true),
    SCENARIO("a copy, closes", 1, CLOSED, .requests = {1}, .closes = {1}, .copies = 1,
             .ordered = true),
    SCENARIO("a time limit, closes", 2, CLOSED, .requests = {1}, .closes = {1}, .ticks = 1,
             .ordered = true),
    SCENARIO("a time limit, a loss", 1, UP, .requests = {1}, .losses = 1, .ticks = 2,
             .ordered = true),
    SCENARIO("a shortage, an interrupt", 1, LOCAL, .requests = {1}, .shortages = 1, .interrupts = 1,
             .ordered = true),
    SCENARIO("no route, closes", 1, LOCAL, .requests = {1}, .closes = {1, 1},
             .fails = {[CALL_MODIFY_QP] = 1}, .ordered = true),
    SCENARIO("a kernel gives up, closes", 2, UP, .requests = {1}, .give_ups = 1, .closes = {1, 1}),
    SCENARIO("three time limits", 2, UP, .requests = {1}, .ticks = 3, .ordered = true),
    SCENARIO("time limits, requests cross", 2, CROSSED, .requests = {1, 1}, .ticks = 1,
             .ordered = true),
    SCENARIO("closes, requests cross", 2, CROSSED, .requests = {1, 1}, .closes = {1},
             .ordered = true),
    SCENARIO("a shortage, requests cross", 2, LOCAL, .requests = {1, 1}, .shortages = 1),
    SCENARIO("new endpoints", 2, UP, .requests = {2}, .reopens = {1, 1}, .ordered = true),
    SCENARIO("last receives, a break", 2, BROKEN, .requests = {1}, .closes = {1, 1}, .breaks = 1,
             .reports_last = true, .ordered = true),
    SCENARIO("own receives, a break", 2, BROKEN, .requests = {1}, .messages = {1, 1}, .breaks = 1,
             .own_receives = true, .ordered = true),
    {.name = NULL},
};

static const struct walk_protocol protocol = {&rules,    sizeof(rules), MAX_STATES, open_all,
                                              put_state, add_choices,   do_choice,  close_all};

int main(int argc, char **argv)
{
    /* endpoints are opened again and again: their memory stays */
    mallopt(M_MMAP_THRESHOLD, 1 << 26);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    if (ut_process_environment())
        return 1;
    return walk_main(argc, argv, &protocol, scenarios);
}
