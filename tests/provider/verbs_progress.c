/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the background thread of the verbs provider does when a descriptor is readable, a port or a
 * device fails, or a time has come: progress.c with fake_verbs.h, three ports of two devices and an
 * endpoint on each. The descriptors are real ones.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "fake_verbs.h"

#include "../../provider/verbs/connect/udcm.h"
#include "../../provider/verbs/ports/qp_budget.h"
#include "../../provider/verbs/wake.h"
#include "checked_locks.h"
#include "../harness/check.h"
#include "process/process.h"
#include "util/log.h"

enum { PEER_MS = 4000, STEP_MS = 2000, EPS = 3, EVENTS = 4, ENDPOINT = 7, SECOND = 1000 };

static struct vp_prov *prov;
static struct ibv_device other_device = {.name = "fake1"};
static struct ibv_context other_context = {.device = &other_device, .cmd_fd = -1};
static struct ibv_comp_channel channels[2];

/* An endpoint, whose owner counts, and its connection. */
struct test_ep {
    struct prov_ep *ep;
    struct prov_conn *conn;
    unsigned int wakes, lows;
    bool up, down;
    enum prov_reason reason;
};
static struct test_ep eps[EPS];

/*
 * What is told
 */

static char line[400]; /* the last warning or error */
static unsigned int num_lines;

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    va_list ap;

    if (level > UT_LOG_WARNING || strcmp(category, "verbs") != 0)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    num_lines++;
}

static void check_told(const char *text)
{
    CHECK(num_lines == (text ? 1 : 0));
    CHECK(!text || strstr(line, text));
    num_lines = 0;
}

/*
 * Completion events, of each device
 */

/* Endpoints and connections exist as long as the lock is held that their owners need to close
 * them. */
static void check_locked(void)
{
    CHECK(pthread_mutex_trylock(&prov->lock) == EBUSY);
}

static struct ibv_cq *events[2][EVENTS];
static unsigned int num_events[2], num_acked;

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **cq, void **ep)
{
    int n = (int)(c - channels);

    if (!num_events[n])
        return -1;
    *cq = events[n][--num_events[n]];
    *ep = (*cq)->cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    check_locked();
    CHECK(!vp_list_empty(&((struct vp_ep *)cq->cq_context)->wake_link)); /* it is to be woken */
    num_acked += n;
}

void __real_vp_deadline_locked(struct vp_prov *p, uint64_t deadline);
void __wrap_vp_deadline_locked(struct vp_prov *p, uint64_t deadline);
void __wrap_vp_deadline_locked(struct vp_prov *p, uint64_t deadline)
{
    check_locked();
    __real_vp_deadline_locked(p, deadline);
}

/* Who waits until an owner has been woken is told. */
static unsigned int num_told;

int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    CHECK(cond != &prov->changed || !prov->waking);
    num_told += cond == &prov->changed;
    return __real_pthread_cond_broadcast(cond);
}

static unsigned int num_async_acked;

static void async_is_acked(void)
{
    check_locked();
    num_async_acked++;
}

void __real_vp_wake_locked(struct vp_ep *ep);
void __wrap_vp_wake_locked(struct vp_ep *ep);
void __wrap_vp_wake_locked(struct vp_ep *ep)
{
    check_locked();
    __real_vp_wake_locked(ep);
}

static struct ibv_gid_entry gid;
static ssize_t num_gids;

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t most,
                             uint32_t flags, size_t size)
{
    (void)c, (void)flags, (void)size;
    CHECK(most > 0);
    entries[0] = gid;
    return num_gids;
}

/*
 * The endpoints and their connections
 */

static void wake(void *owner)
{
    CHECK(pthread_mutex_trylock(&prov->lock) == 0);
    CHECK(prov->waking && prov->waking->owner == owner);
    pthread_mutex_unlock(&prov->lock);
    ((struct test_ep *)owner)->wakes++;
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)hello, (void)size;
    ((struct test_ep *)ctx)->up = true;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct test_ep *e = ctx;

    CHECK(!e->down);
    e->down = true;
    e->reason = reason;
    vp_conn_close(e->conn);
    e->conn = NULL;
}

static void on_srq_low(void *owner)
{
    ((struct test_ep *)owner)->lows++;
}

static const struct prov_callbacks callbacks = {
    .up = on_up, .down = on_down, .srq_low = on_srq_low};

/* Handshakes succeed: the next event of an id. */
static bool answers;

static bool next_event_of_any(void)
{
    static const struct vp_hello_rep answer = {.magic = {'u', 'T', 'f', 'A'}, .mtu = IBV_MTU_1024};
    static const enum rdma_cm_event_type next[] = {[ADDRESS] = RDMA_CM_EVENT_ADDR_RESOLVED,
                                                   [ROUTE] = RDMA_CM_EVENT_ROUTE_RESOLVED,
                                                   [ASKED] = RDMA_CM_EVENT_CONNECT_RESPONSE};

    for (int i = 0; answers && i < IDS; i++) {
        struct fake_id *id = ids[i];
        if (!id || id->step < ADDRESS || id->step > ASKED)
            continue;
        struct vp_conn *conn =
            vp_container_of((struct vp_cm_id *)id->id.context, struct vp_conn, id);
        id->id.verbs = conn->ep->port->dev->context;
        pending = (struct rdma_cm_event){.id = &id->id, .event = next[id->step]};
        pending.param.conn.private_data = &answer;
        pending.param.conn.private_data_len = sizeof(answer);
        id->step = id->step == ASKED ? ANSWERED : IDLE;
        is_pending = true;
        return true;
    }
    return false;
}

static void pass_ms(long ms)
{
    fake_now.tv_sec += ms / 1000;
    fake_now.tv_nsec += ms % 1000 * 1000000L;
    fake_now.tv_sec += fake_now.tv_nsec / 1000000000;
    fake_now.tv_nsec %= 1000000000;
}

static void poll_all(void)
{
    for (int i = 0; i < EPS; i++)
        vp_ep_poll(eps[i].ep);
}

static void run(void)
{
    for (int i = 0; i < 20; i++) {
        vp_progress(&prov->base);
        vp_cm_run_events(prov);
        poll_all();
    }
}

static void connect_all(void)
{
    uint8_t address[PROV_ADDR_MAX];
    size_t size = vp_address(&prov->base, address);
    bool asked[EPS];

    for (int i = 0; i < EPS; i++) {
        struct test_ep *e = &eps[i];
        asked[i] = !e->conn;
        if (e->conn)
            continue;
        e->up = e->down = false;
        CHECK(vp_connect(e->ep, address, size, (unsigned int)i, ENDPOINT + 100, NULL, 0, e,
                         &e->conn) == 0);
    }
    run();
    for (int i = 0; i < EPS; i++)
        CHECK(eps[i].up == (answers || !asked[i]));
}

static void forget_wakes(void)
{
    for (int i = 0; i < EPS; i++)
        eps[i].wakes = eps[i].lows = 0;
    num_acked = 0;
}

static void check_wakes(unsigned int first, unsigned int second, unsigned int third)
{
    CHECK(eps[0].wakes == first && eps[1].wakes == second && eps[2].wakes == third);
    forget_wakes();
}

/* Which of the connections went down, and why. */
static void check_down(unsigned int mask, enum prov_reason reason)
{
    poll_all();
    for (int i = 0; i < EPS; i++) {
        CHECK(eps[i].down == (mask >> i & 1));
        CHECK(!eps[i].down || eps[i].reason == reason);
    }
    run();
    connect_all();
    forget_wakes();
}

static int watched_fd(unsigned int what)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    CHECK(fd >= 0 && vp_watch(prov, fd, what) == 0);
    return fd;
}

static void make_readable(int fd)
{
    uint64_t one = 1;

    CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
}

static void open_all(void)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = EPS, .peer_timeout_ms = PEER_MS, .local_size = 1};

    fake_now = (struct timespec){.tv_sec = 1000};
    prov = fake_open(&config);
    prov->tuning.step_ms = STEP_MS;
    prov->devices[1] = prov->devices[0];
    prov->devices[1].context = &other_context;
    other_context.ops = context.ops;
    vp_budget_init(prov, &prov->devices[1]);
    for (unsigned int i = 0; i < 2; i++) {
        channels[i].fd = watched_fd(VP_WATCH_COMP + i);
        prov->devices[i].channel = &channels[i];
        prov->devices[i].context->async_fd = watched_fd(VP_WATCH_ASYNC + i);
    }
    for (unsigned int i = 1; i < EPS; i++)
        prov->ports[i] = prov->ports[0];
    prov->ports[1].num = 2;
    strcpy(prov->ports[1].name, "fake0:2");
    prov->ports[2].dev = &prov->devices[1];
    strcpy(prov->ports[2].name, "fake1");
    prov->ports[EPS] = prov->ports[1]; /* not in use */
    prov->num_devices = 2;
    prov->num_ports = EPS;
    memset(eps, 0, sizeof(eps));
    for (unsigned int i = 0; i < EPS; i++) {
        const struct prov_ep_attr attr = {
            .tni = i, .id = ENDPOINT + i, .owner = &eps[i], .callbacks = &callbacks, .depth = 64};
        CHECK(vp_ep_open(&prov->base, &attr, &eps[i].ep) == 0);
    }
    answers = true;
    connect_all();
    forget_wakes();
    num_lines = 0;
    prov->next_deadline = 0; /* that of the handshakes, which are over */
}

static void close_all(const char *what)
{
    for (int i = 0; i < EPS; i++)
        vp_ep_close(eps[i].ep);
    for (int i = 0; i < 2; i++) {
        close(channels[i].fd);
        close(prov->devices[i].context->async_fd);
        prov->devices[i].context->async_fd = -1;
    }
    fake_close(prov);
    num_arrivals = num_reports = 0;
    printf("ok: %s\n", what);
}

/*
 * Descriptors
 */

/* Each owner is woken whose queue has an event, and each event is acknowledged. */
static void completions_wake_their_owners(void)
{
    open_all();
    events[0][0] = vp_ep(eps[1].ep)->recv_cq;
    num_events[0] = 1;
    make_readable(channels[0].fd);
    vp_progress(&prov->base);
    CHECK(num_acked == 1 && num_events[0] == 0);
    check_wakes(0, 1, 0);
    events[0][0] = vp_ep(eps[0].ep)->recv_cq;
    events[0][1] = vp_ep(eps[1].ep)->send_cq;
    events[0][2] = vp_ep(eps[0].ep)->send_cq;
    events[1][0] = vp_ep(eps[2].ep)->send_cq;
    num_events[0] = 3;
    num_events[1] = 1;
    vp_progress(&prov->base);
    CHECK(num_acked == 3 && num_events[0] == 0 && num_events[1] == 1);
    CHECK(num_told >= 3);
    check_wakes(1, 1, 0);
    make_readable(channels[1].fd);
    vp_progress(&prov->base);
    CHECK(num_acked == 1 && num_events[1] == 0);
    check_wakes(0, 0, 1);
    close_all("completions wake their owners");
}

static int answer_of(void)
{
    uint64_t number;

    return (int)read(prov->kick_fd, &number, sizeof(number));
}

static void kicks_are_taken(void)
{
    open_all();
    run();
    CHECK(answer_of() < 0);
    vp_kick(prov);
    CHECK(vp_progress(&prov->base) >= -1 && answer_of() < 0); /* not readable for ever */
    close_all("kicks are taken");
}

static bool first_descriptors_are_taken(void)
{
    CHECK(fcntl(0, F_GETFD) >= 0); /* the program's standard input, which it has closed */
    return false;
}

/* The connection managers: librdmacm, and datagrams. */
static void handshakes_go_on(void)
{
    static const unsigned int whats[] = {VP_WATCH_CM, VP_WATCH_UD};
    int input = dup(0);

    for (int i = 0; i < 2; i++) {
        open_all();
        int fd = watched_fd(whats[i]);
        pending = (struct rdma_cm_event){.id = &listener, .event = RDMA_CM_EVENT_ADDR_CHANGE};
        is_pending = true;
        vp_progress(&prov->base);
        CHECK(is_pending);
        make_readable(fd);
        fake_more = first_descriptors_are_taken;
        close(0);
        vp_progress(&prov->base);
        CHECK(!is_pending && fcntl(0, F_GETFD) < 0);
        dup2(input, 0);
        fake_more = next_event_of_any;
        close(fd);
        close_all("handshakes go on");
    }
    close(input);
}

/*
 * Asynchronous events
 */

static void raise_event(unsigned int device_number, struct ibv_async_event event)
{
    fake_async = event;
    fake_has_async = true;
    make_readable(prov->devices[device_number].context->async_fd);
    vp_progress(&prov->base);
    CHECK(!fake_has_async && num_async_acked == 1 && pthread_mutex_trylock(&prov->lock) == 0);
    pthread_mutex_unlock(&prov->lock);
    num_async_acked = 0;
    uint64_t number; /* as ibv_get_async_event() does */
    CHECK(read(prov->devices[device_number].context->async_fd, &number, sizeof(number)) > 0);
}

static void queues_that_fail(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct ibv_async_event event = {.event_type = kind ? IBV_EVENT_CQ_ERR : IBV_EVENT_SRQ_ERR};
        open_all();
        struct vp_ep *ep = vp_ep(eps[1].ep);
        if (kind)
            event.element.cq = ep->recv_cq;
        else
            event.element.srq = ep->srq;
        raise_event(0, event);
        check_told(kind ? "a completion queue of fake0 failed"
                        : "the shared receive queue of fake0 failed");
        CHECK(ep->broken && eps[1].wakes == 1 && !eps[1].down);
        poll_all();
        CHECK(!eps[0].down && eps[1].down && !eps[2].down && eps[1].reason == PROV_REASON_LOCAL);
        raise_event(0, event); /* told once */
        check_told(NULL);
        struct ibv_srq no_owner = {.srq_context = NULL};
        raise_event(
            0, (struct ibv_async_event){.event_type = IBV_EVENT_SRQ_ERR, .element.srq = &no_owner});
        check_told(NULL);
        close_all("a queue fails");
    }
}

static void receives_run_low(void)
{
    open_all();
    raise_event(0, (struct ibv_async_event){.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
                                            .element.srq = vp_ep(eps[1].ep)->srq});
    CHECK(vp_ep(eps[1].ep)->pending & VP_PEND_SRQ_LIMIT);
    CHECK(!(vp_ep(eps[0].ep)->pending & VP_PEND_SRQ_LIMIT));
    check_wakes(0, 1, 0);
    check_told(NULL);
    close_all("receives run low");
}

static void queue_pairs_that_fail(void)
{
    static const enum ibv_event_type kinds[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                                IBV_EVENT_QP_ACCESS_ERR};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        open_all();
        struct vp_conn *conn = vp_conn(eps[0].conn);
        struct ibv_async_event event = {.event_type = kinds[i], .element.qp = conn->qp};
        conn->abandoned = true;
        raise_event(0, event);
        CHECK(conn->events == 0);
        conn->abandoned = false;
        raise_event(0, event);
        CHECK(conn->events == VP_EV_QP_ERROR);
        check_wakes(1, 0, 0);
        struct ibv_qp no_owner = {.qp_context = NULL};
        event.element.qp = &no_owner;
        raise_event(0, event);
        check_wakes(0, 0, 0);
        close_all("a queue pair fails");
    }
}

static void last_receives_are_reported(void)
{
    static const struct {
        enum vp_last_wqe before, after;
    } of[] = {{VP_LAST_WQE_UNKNOWN, VP_LAST_WQE_RAISED},
              {VP_LAST_WQE_NEVER, VP_LAST_WQE_RAISED},
              {VP_LAST_WQE_RAISED, VP_LAST_WQE_RAISED},
              {VP_LAST_WQE_UNRELIABLE, VP_LAST_WQE_UNRELIABLE}};

    open_all();
    struct vp_conn *conn = vp_conn(eps[0].conn);
    struct ibv_async_event event = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
                                    .element.qp = conn->qp};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        bool counts = of[i].before != VP_LAST_WQE_UNRELIABLE;
        for (int abandoned = 0; abandoned < 2; abandoned++) {
            conn->events = 0;
            conn->abandoned = abandoned;
            prov->devices[0].last_wqe = (uint8_t)of[i].before;
            raise_event(0, event);
            CHECK(prov->devices[0].last_wqe == of[i].after);
            CHECK(conn->events == (counts && !abandoned ? VP_EV_LAST_RECV : 0));
            check_wakes(counts && !abandoned, 0, 0);
        }
    }
    conn->abandoned = false;
    struct ibv_qp no_owner = {.qp_context = NULL};
    event.element.qp = &no_owner;
    raise_event(0, event);
    check_wakes(0, 0, 0);
    close_all("last receives are reported");
}

static void a_device_fails(void)
{
    for (unsigned int n = 0; n < 2; n++) {
        open_all();
        raise_event(n, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
        check_told(n ? "fake1 failed or was removed" : "fake0 failed or was removed");
        CHECK(prov->devices[n].gone && !prov->devices[!n].gone);
        poll_all();
        for (unsigned int i = 0; i < EPS; i++) {
            bool hit = prov->ports[i].dev == &prov->devices[n];
            CHECK(eps[i].down == hit && (!hit || eps[i].reason == PROV_REASON_LOCAL));
            CHECK(eps[i].wakes == hit);
        }
        close_all("a device fails");
    }
}

/* Connections in handshakes are not told: the handshake fails by itself. */
static void a_device_fails_during_handshakes(void)
{
    open_all();
    raise_event(0, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
    run();
    CHECK(eps[0].down && eps[1].down && !eps[2].down);
    num_lines = 0;
    prov->devices[0].gone = false;
    answers = false;
    connect_all();
    raise_event(0, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
    CHECK(vp_conn(eps[0].conn)->events == 0);
    num_lines = 0;
    close_all("a device fails during handshakes");
}

/* What changes nothing for connections that are up. */
static void events_without_effect(void)
{
    static const enum ibv_event_type kinds[] = {IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
                                                IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_COMM_EST};

    open_all();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        raise_event(0, (struct ibv_async_event){.event_type = kinds[i], .element.port_num = 1});
    check_told(NULL);
    check_wakes(0, 0, 0);
    check_down(0, PROV_REASON_LOCAL);
    close_all("events without effect");
}

static bool is_watched(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0;
}

/* The descriptors of a removed device are readable for ever, and are watched no more. */
static void a_removed_device_is_not_watched(void)
{
    static const int codes[] = {EAGAIN, ENODEV, EIO};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        open_all();
        fake_async_end = codes[i];
        make_readable(prov->devices[1].context->async_fd);
        vp_progress(&prov->base);
        fake_async_end = EAGAIN;
        CHECK(is_watched(channels[1].fd) == (codes[i] == EAGAIN));
        CHECK(is_watched(prov->devices[1].context->async_fd) == (codes[i] == EAGAIN));
        CHECK(is_watched(channels[0].fd) && is_watched(prov->devices[0].context->async_fd));
        close_all("a removed device is not watched");
    }
}

/*
 * Ports
 */

static void port_event(enum ibv_event_type type, int num)
{
    raise_event(0, (struct ibv_async_event){.event_type = type, .element.port_num = num});
}

/* The last port, which is alone on its device. */
static void other_port_event(enum ibv_event_type type)
{
    raise_event(1, (struct ibv_async_event){.event_type = type, .element.port_num = 1});
}

/* A port that stays down has as much time as a silent peer, from the first report. */
static void a_port_stays_down(void)
{
    open_all();
    fake_port.state = IBV_PORT_DOWN;
    port_event(IBV_EVENT_PORT_ERR, 2);
    check_told("fake0:2 went down");
    CHECK(prov->ports[1].down_since && !prov->ports[0].down_since && !prov->ports[2].down_since);
    CHECK(prov->next_deadline == prov->ports[1].down_since + PEER_MS);
    pass_ms(PEER_MS - 100);
    port_event(IBV_EVENT_PORT_ERR, 2); /* a second time: the first counts */
    num_lines = 0;
    int wait = vp_progress(&prov->base);
    CHECK(wait > 0 && wait <= 100);
    check_told(NULL);
    pass_ms(99);
    vp_progress(&prov->base);
    CHECK(!prov->ports[1].lost);
    pass_ms(1);
    vp_progress(&prov->base);
    CHECK(prov->ports[1].lost);
    check_told("fake0:2 stays down: its connections end");
    poll_all();
    CHECK(!eps[0].down && eps[1].down && !eps[2].down && eps[1].reason == PROV_REASON_LOCAL);
    vp_progress(&prov->base);
    check_told(NULL);
    uint64_t first = prov->ports[1].down_since;
    pass_ms(500);
    port_event(IBV_EVENT_PORT_ERR, 2); /* it was up between */
    CHECK(prov->ports[1].down_since == first + PEER_MS + 500 && !prov->ports[1].lost);
    num_lines = 0;
    fake_port.state = IBV_PORT_ACTIVE;
    port_event(IBV_EVENT_PORT_ACTIVE, 2);
    check_told("fake0:2 is up again");
    CHECK(!prov->ports[1].down_since && !prov->ports[1].lost);
    fake_port.state = IBV_PORT_DOWN;
    other_port_event(IBV_EVENT_PORT_ERR);
    prov->ports[EPS].down_since = 1; /* not in use */
    num_lines = 0;
    pass_ms(PEER_MS);
    vp_progress(&prov->base);
    check_told("fake1 stays down: its connections end");
    poll_all();
    CHECK(eps[2].down && !prov->ports[EPS].lost);
    fake_port.state = IBV_PORT_ACTIVE;
    close_all("a port stays down");
}

static void a_port_comes_back(void)
{
    open_all();
    port_event(IBV_EVENT_PORT_ACTIVE, 1); /* it was not down */
    check_told(NULL);
    fake_port.state = IBV_PORT_DOWN;
    port_event(IBV_EVENT_PORT_ERR, 1);
    check_told("fake0 went down");
    fake_port.state = IBV_PORT_ACTIVE;
    pass_ms(PEER_MS - 1);
    vp_progress(&prov->base);
    check_told(NULL);
    pass_ms(1); /* without an event */
    vp_progress(&prov->base);
    check_told("fake0 is up again");
    CHECK(!prov->ports[0].down_since && !prov->ports[0].lost);
    check_down(0, PROV_REASON_LOCAL);
    other_port_event(IBV_EVENT_PORT_ERR);
    check_told("fake1 went down");
    CHECK(!prov->ports[0].down_since && prov->ports[2].down_since);
    other_port_event(IBV_EVENT_PORT_ACTIVE);
    check_told("fake1 is up again");
    close_all("a port comes back");
}

/* The addresses of RoCE ports, by the GID table. */
static void an_address_goes_and_comes(void)
{
    open_all();
    for (int i = 0; i < EPS; i++)
        prov->ports[i].gid_index = i == 1 ? 0 : -1;
    prov->ports[EPS] = prov->ports[1];
    prov->ports[1].addr.in.sin_addr.s_addr = htonl(0x0a000001);
    prov->ports[0].addr = prov->ports[2].addr = prov->ports[1].addr;
    gid = (struct ibv_gid_entry){
        .port_num = 2,
        .gid_type = IBV_GID_TYPE_ROCE_V2,
        .gid.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
    };
    num_gids = 1;
    port_event(IBV_EVENT_GID_CHANGE, 2);
    check_told(NULL);
    num_gids = 0;
    port_event(IBV_EVENT_GID_CHANGE, 1); /* another port */
    check_told(NULL);
    port_event(IBV_EVENT_GID_CHANGE, 2);
    check_told("fake0:2 has lost its address 10.0.0.1");
    CHECK(prov->ports[1].no_address);
    port_event(IBV_EVENT_GID_CHANGE, 2);
    check_told(NULL);
    num_gids = 1;
    port_event(IBV_EVENT_GID_CHANGE, 2);
    check_told("fake0:2 has its address 10.0.0.1 again");
    CHECK(!prov->ports[1].no_address && !prov->ports[0].no_address);
    prov->ports[2].gid_index = 3;
    other_port_event(IBV_EVENT_GID_CHANGE);
    check_told("fake1 has lost its address 10.0.0.1");
    close_all("an address goes and comes");
}

/* The LID of an InfiniBand port whose connections are made by datagrams. */
static void a_lid_changes(void)
{
    open_all();
    for (int i = 0; i < EPS; i++) {
        prov->ports[i].gid_index = -1;
        prov->ports[i].uses_datagrams = true;
        prov->ports[i].at.lid = 20;
    }
    prov->ports[EPS] = prov->ports[1];
    fake_port.lid = 20;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    check_told(NULL);
    fake_port.lid = 21;
    fake_port_fails = 1;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    fake_port_fails = 0;
    check_told(NULL);
    prov->ports[1].gid_index = 0;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    prov->ports[1].gid_index = -1;
    prov->ports[1].uses_datagrams = false;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    prov->ports[1].uses_datagrams = true;
    fake_port.lid = 0; /* none yet */
    port_event(IBV_EVENT_LID_CHANGE, 2);
    check_told(NULL);
    CHECK(prov->ports[1].at.lid == 20);
    fake_port.lid = 21;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    check_told("fake0:2 has LID 21 instead of 20: its connections break, and reconnect");
    CHECK(prov->ports[0].at.lid == 20 && prov->ports[1].at.lid == 21 &&
          prov->ports[2].at.lid == 20);
    prov->channel = NULL;
    fake_port.lid = 22;
    port_event(IBV_EVENT_LID_CHANGE, 2);
    prov->channel = &channel;
    check_told("fake0:2 has LID 22 instead of 21: its connections break, and peers cannot");
    other_port_event(IBV_EVENT_LID_CHANGE);
    check_told("fake1 has LID 22 instead of 20");
    fake_port.lid = 0;
    for (int i = 0; i < EPS; i++)
        prov->ports[i].uses_datagrams = false;
    close_all("a LID changes");
}

/*
 * Times
 */

static void owners_are_woken_in_time(void)
{
    open_all();
    run();
    forget_wakes();
    CHECK(vp_progress(&prov->base) == -1 && prov->sleeps_until == 0);
    uint64_t now = ut_clock_ms();
    vp_ep_wake_later(vp_ep(eps[0].ep), now + 30);
    vp_ep_wake_later(vp_ep(eps[1].ep), now + 20);
    vp_ep_wake_later(vp_ep(eps[1].ep), now + 50); /* the earlier one counts */
    CHECK(vp_progress(&prov->base) == 20 && prov->sleeps_until == now + 20);
    check_wakes(0, 0, 0);
    pass_ms(19);
    CHECK(vp_progress(&prov->base) == 1);
    check_wakes(0, 0, 0);
    pass_ms(1);
    CHECK(vp_progress(&prov->base) == 10);
    check_wakes(0, 1, 0);
    pass_ms(40);
    CHECK(vp_progress(&prov->base) == -1);
    check_wakes(1, 0, 0);
    close_all("owners are woken in time");
}

/* The earliest of the times at which something has to be done. */
static void next_time_is_the_earliest(void)
{
    open_all();
    run();
    uint64_t now = ut_clock_ms();
    prov->read_paused_until = now + 70;
    CHECK(vp_progress(&prov->base) == 70);
    vp_ep_wake_later(vp_ep(eps[0].ep), now + 80);
    CHECK(vp_progress(&prov->base) == 70);
    pthread_mutex_lock(&prov->lock);
    vp_deadline_locked(prov, now + 90);
    pthread_mutex_unlock(&prov->lock);
    CHECK(vp_progress(&prov->base) == 70);
    vp_ep_wake_later(vp_ep(eps[2].ep), now + 60);
    CHECK(vp_progress(&prov->base) == 60);
    prov->next_deadline = now + 40;
    CHECK(vp_progress(&prov->base) == 40 && prov->sleeps_until == now + 40);
    prov->next_deadline = 0;
    prov->read_paused_until = now + 65;
    pass_ms(60);
    CHECK(vp_progress(&prov->base) == 5);
    prov->read_paused_until = 0;
    CHECK(vp_progress(&prov->base) == 20);
    pass_ms(20);
    CHECK(vp_progress(&prov->base) == -1);
    close_all("the next time is the earliest");
}

/* Stalls are looked for from time to time; with datagrams, owners of connections are woken for
 * keepalives. */
static void connections_are_looked_at(void)
{
    static struct vp_cm_ops silent;

    open_all();
    run();
    for (int i = 0; i < EPS; i++)
        vp_ep(eps[i].ep)->pending = 0;
    vp_progress(&prov->base);
    CHECK(vp_ep(eps[0].ep)->pending == 0);
    pass_ms(2 * STEP_MS - 1);
    vp_progress(&prov->base);
    CHECK(vp_ep(eps[0].ep)->pending == 0);
    pass_ms(1);
    CHECK(vp_progress(&prov->base) == -1);
    CHECK(vp_ep(eps[0].ep)->pending == VP_PEND_STALLS);
    CHECK(vp_ep(eps[2].ep)->pending == VP_PEND_STALLS);
    check_wakes(0, 0, 0);
    silent = vp_rdmacm_ops;
    silent.reports_peer_death = false;
    prov->ports[1].cm_ops = &silent;
    CHECK(vp_progress(&prov->base) == 2 * STEP_MS);
    check_wakes(0, 0, 0);
    pass_ms(2 * STEP_MS);
    CHECK(vp_progress(&prov->base) == 2 * STEP_MS);
    check_wakes(0, 1, 0);
    vp_conn_close(eps[1].conn); /* none is left */
    eps[1].conn = NULL;
    run();
    forget_wakes();
    pass_ms(2 * STEP_MS);
    vp_progress(&prov->base);
    check_wakes(0, 0, 0);
    prov->ports[1].cm_ops = &vp_rdmacm_ops;
    close_all("connections are looked at");
}

/*
 * The program has closed the descriptors
 */

static void descriptors_are_closed(void)
{
    open_all();
    vp_conn_close(eps[2].conn);
    run();
    eps[2].conn = NULL;
    answers = false;
    eps[2].up = false;
    uint8_t address[PROV_ADDR_MAX];
    size_t size = vp_address(&prov->base, address);
    CHECK(vp_connect(eps[2].ep, address, size, 2, ENDPOINT + 100, NULL, 0, &eps[2], &eps[2].conn) ==
          0);
    run();
    CHECK(!eps[2].up && !eps[2].down);
    forget_wakes();
    close(prov->epoll_fd);
    int wait = vp_progress(&prov->base);
    CHECK(wait == 10); /* ms: it goes on, without a descriptor that tells when */
    CHECK(prov->devices[0].gone && prov->devices[1].gone);
    check_wakes(1, 1, 1);
    poll_all();
    for (int i = 0; i < EPS; i++)
        CHECK(eps[i].down && eps[i].reason == PROV_REASON_LOCAL);
    vp_ep_wake_later(vp_ep(eps[0].ep), ut_clock_ms() + 5);
    vp_progress(&prov->base);
    check_wakes(0, 0, 0);
    pass_ms(5);
    vp_progress(&prov->base);
    check_wakes(1, 0, 0);
    printf("ok: descriptors are closed\n");
}

int main(void)
{
    CHECK(ut_process_environment() == 0);
    fake_status = IBV_WC_SUCCESS;
    fake_more = next_event_of_any;
    fake_async_acked = async_is_acked;
    completions_wake_their_owners();
    kicks_are_taken();
    handshakes_go_on();
    queues_that_fail();
    receives_run_low();
    queue_pairs_that_fail();
    last_receives_are_reported();
    a_device_fails();
    a_device_fails_during_handshakes();
    events_without_effect();
    a_removed_device_is_not_watched();
    a_port_stays_down();
    a_port_comes_back();
    an_address_goes_and_comes();
    a_lid_changes();
    owners_are_woken_in_time();
    next_time_is_the_earliest();
    connections_are_looked_at();
    descriptors_are_closed();
    fflush(stdout);
    _exit(0); /* what belongs to closed descriptors stays until the end */
}
