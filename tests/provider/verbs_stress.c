/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs provider under load: many connections, floods, lost packets, a removed device. */
#include "verbs_common.h"

#include <sys/resource.h>

enum { MEM = 1 << 20, CONNS = 500 };

static struct vt_node node;
static struct vt_ep ep;
static uint8_t *mem;
static struct prov_mr *mr;

static void set_up_deep(uint64_t id, unsigned int timeout_ms, unsigned int depth)
{
    vt_open(&node, timeout_ms);
    mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(node.prov->ops->reg(node.prov, 0, mem, MEM, PROV_ACCESS_READ | PROV_ACCESS_WRITE, &mr) ==
          0);
    vt_ep_open_deep(&node, &ep, 0, id, depth);
}

static void set_up(uint64_t id, unsigned int timeout_ms)
{
    set_up_deep(id, timeout_ms, 2048);
}

static void tear_down(void)
{
    vt_ep_close(&ep);
    node.prov->ops->dereg(node.prov, mr);
    vt_close(&node);
}

static void publish(struct vt_shared *s, int me)
{
    vt_publish(s, me, &node);
    s->mem[me] = (uintptr_t)mem;
    s->rkey[me] = mr->rkey;
    vt_stage(s, me, 1, NULL);
}

static int count_up(struct vt_conn **c, int n)
{
    int up = 0;

    for (int i = 0; i < n; i++)
        up += c[i]->up && !c[i]->down;
    return up;
}

static int count_down(struct vt_conn **c, int n)
{
    int down = 0;

    for (int i = 0; i < n; i++)
        down += c[i]->down;
    return down;
}

/* More connections than the first completion queue has entries: each reserves one. */
static void five_hundred_connections_come_up(void)
{
    enum { DEPTH = 16 };
    struct vt_shared *s = vt_share();
    struct vt_conn *conns[CONNS];
    pid_t child = fork();

    if (child == 0) {
        set_up_deep(2, 4000, DEPTH);
        publish(s, 1);
        /* an origin that is too slow asks twice; its first connection never was up */
        WAIT_FOR(&ep, count_up(ep.accepted, ep.num_accepted) == CONNS);
        for (int i = 0; i < ep.num_accepted; i++)
            WAIT_FOR(&ep, ep.accepted[i]->messages == 1 || !ep.accepted[i]->up);
        if (ep.num_accepted > CONNS)
            printf("%d were asked for again\n", ep.num_accepted - CONNS);
        vt_stage(s, 1, 2, &ep);
        vt_stage(s, 1, 3, &ep);
        double t = vt_now();
        tear_down();
        printf("the target closes in %.2f s\n", vt_now() - t);
        exit(0);
    }
    set_up_deep(1, 4000, DEPTH);
    publish(s, 0);
    double start = vt_now();
    for (int i = 0; i < CONNS; i++) {
        conns[i] = calloc(1, sizeof(struct vt_conn));
        vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, conns[i]);
    }
    printf("asking for %d connections took %.1f ms\n", CONNS, (vt_now() - start) * 1e3);
    WAIT_FOR(&ep, count_up(conns, CONNS) == CONNS || count_down(conns, CONNS));
    CHECK(count_down(conns, CONNS) == 0);
    printf("%d connections in %.2f s\n", CONNS, vt_now() - start);
    for (int i = 0; i < CONNS; i++)
        CHECK(vt_send(conns[i], &i, sizeof(i), 0, 1) >= 0);
    vt_stage(s, 0, 2, &ep);
    start = vt_now();
    for (int i = 0; i < CONNS; i++)
        vt_conn_close(conns[i]);
    vt_ep_close(&ep);
    printf("closing them took %.2f s\n", vt_now() - start);
    vt_stage(s, 0, 3, NULL);
    CHECK(vt_reap(child) == 0);
    node.prov->ops->dereg(node.prov, mr);
    vt_close(&node);
    for (int i = 0; i < CONNS; i++)
        free(conns[i]);
}

/* The target program computes: only its background thread polls. */
static void a_flood_does_not_need_a_polling_target(void)
{
    enum { FLOOD = 100000 };
    struct vt_shared *s = vt_share();
    static struct vt_conn conn, *c = &conn;
    pid_t child = fork();

    if (child == 0) {
        set_up(2, 4000);
        publish(s, 1);
        vt_stage(s, 1, 2, &ep);
        struct vt_conn *b = ep.accepted[0];
        double end = vt_now() + VT_TIMEOUT_S;
        while (__atomic_load_n(&b->notifies, __ATOMIC_RELAXED) < FLOOD && vt_now() < end) {
            volatile double x = 0; /* busy, but not with the library */
            for (int i = 0; i < 100000; i++)
                x += i;
            if (__atomic_load_n(&s->stage[0], __ATOMIC_ACQUIRE) == 3) /* wakes the thread */
                usleep(1000);
        }
        CHECK(b->notifies == FLOOD && b->last_imm == FLOOD - 1 && !b->down);
        vt_stage(s, 1, 4, &ep);
        tear_down();
        exit(0);
    }
    set_up(1, 4000);
    publish(s, 0);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    vt_stage(s, 0, 2, &ep);
    double start = vt_now();
    for (uint32_t i = 0; i < FLOOD; i++) {
        struct prov_xfer x = {.lcl = mem,
                              .rmt = s->mem[1],
                              .length = 8,
                              .lkey = mr->lkey,
                              .rkey = s->rkey[1],
                              .imm = i,
                              .cookie = i,
                              .flags = PROV_NOTIFY |
                                       (i == FLOOD - 1 ? PROV_SIGNAL | PROV_SOLICITED : 0)};
        CHECK(vt_write(c, &x) >= 0);
    }
    WAIT_FOR(&ep, c->done == FLOOD);
    CHECK(c->ok == FLOOD && !c->down);
    printf("%d notices in %.2f s\n", FLOOD, vt_now() - start);
    __atomic_store_n(&s->stage[0], 3, __ATOMIC_RELEASE);
    vt_stage(s, 0, 4, &ep);
    CHECK(vt_reap(child) == 0);
    tear_down();
}

/* Both sides write as much as fits and answer every message with a message. */
static void two_busy_sides_answer_each_other(void)
{
    enum { ROUNDS = 5000 };
    struct vt_shared *s = vt_share();
    static struct vt_conn conn, *c = &conn;
    pid_t child = fork();
    int me = child == 0;
    uint64_t answered = 0, asked = 0, writes = 0;
    const struct prov_ops *ops;

    set_up(1 + (uint64_t)me, 4000);
    publish(s, me);
    ops = node.prov->ops;
    if (me == 0)
        vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    if (me == 0)
        WAIT_FOR(&ep, c->up);
    else
        WAIT_FOR(&ep, ep.num_accepted == 1 && ep.accepted[0]->up);
    struct vt_conn *mine = me ? ep.accepted[0] : c;
    double end = vt_now() + VT_TIMEOUT_S;
    uint8_t text[400] = {0};
    /* asked + answered messages are sent, and as many received: the peer's questions and answers */
    while (asked < ROUNDS || mine->messages < 2 * ROUNDS || answered < ROUNDS) {
        pthread_mutex_lock(&ep.lock);
        struct prov_xfer x = {
            .lcl = mem, .rmt = s->mem[!me], .length = 512, .lkey = mr->lkey, .rkey = s->rkey[!me]};
        int burst = 0;
        while (burst++ < 64 && ops->write(mine->conn, &x) >= 0) /* as many as fit */
            writes++;
        if (asked < ROUNDS && ops->send(mine->conn, text, sizeof(text), 0, 0) >= 0)
            asked++;
        if (answered < ROUNDS && answered < mine->messages / 2 + 1 &&
            ops->send(mine->conn, text, 16, 0, 0) >= 0)
            answered++;
        if (ops->ep_poll(ep.ep) == 0)
            sched_yield();
        pthread_mutex_unlock(&ep.lock);
        CHECK(!mine->down);
        if (vt_now() > end) {
            printf("%d: stuck: %llu asked, %llu answered, %llu came, %llu writes\n", me,
                   (unsigned long long)asked, (unsigned long long)answered,
                   (unsigned long long)mine->messages, (unsigned long long)writes);
            exit(1);
        }
    }
    vt_stage(s, me, 2, &ep);
    printf("%d: %llu writes beside %d messages each way\n", me, (unsigned long long)writes,
           2 * ROUNDS);
    tear_down();
    if (me)
        exit(0);
    CHECK(vt_reap(child) == 0);
}

/* Connections come and go while others stay in use. */
static void connections_come_and_go(void)
{
    enum { ROUNDS = 100 };
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c)), *keep = calloc(1, sizeof(*keep));
    uint64_t sent = 0;

    set_up(7, 4000);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, keep);
    WAIT_FOR(&ep, keep->up && ep.num_accepted == 1 && ep.accepted[0]->up);
    for (int i = 0; i < ROUNDS; i++) {
        vt_connect(&ep, addr, size, 0, 7, c);
        if (i % 3 == 1) { /* given up at some point of the handshake */
            for (int k = 0; k < i; k++)
                vt_poll(&ep);
            vt_conn_close(c);
        } else {
            WAIT_FOR(&ep, c->up);
            for (int k = 0; k < 20; k++)
                CHECK(vt_send(c, "to the last one", 15, 0, 0) >= 0);
            vt_conn_close(c);
            struct vt_conn *b = ep.accepted[ep.num_accepted - 1];
            WAIT_FOR(&ep, b->down);
            CHECK(b->messages == 20 && b->reason == PROV_REASON_CLOSED);
            vt_conn_close(b);
            ep.accepted[ep.num_accepted - 1]->conn = NULL;
        }
        CHECK(vt_send(keep, "still here", 10, 0, 0) >= 0);
        sent++;
    }
    WAIT_FOR(&ep, ep.accepted[0]->messages == sent);
    CHECK(!keep->down);
    tear_down();
    free(c);
    free(keep);
}

static void an_idle_process_sleeps(void)
{
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c));
    struct rusage before, after;

    set_up(7, 1000);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up);
    CHECK(vt_send(c, "x", 1, PROV_SIGNAL, 0) >= 0);
    WAIT_FOR(&ep, c->done == 1);
    vt_wake(&ep); /* the thread polls, and arms */
    sleep(9);     /* stalled connections are retried for seven peer timeouts */
    uint64_t progresses = node.progresses, wakes = node.wakes;
    getrusage(RUSAGE_SELF, &before);
    sleep(2);
    getrusage(RUSAGE_SELF, &after);
    double used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                  (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) * 1e-6 +
                  (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                  (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1e-6;
    printf("idle for 2 s: %.4f s of CPU, %llu turns, %llu wakes\n", used,
           (unsigned long long)(node.progresses - progresses),
           (unsigned long long)(node.wakes - wakes));
    CHECK(node.wakes == wakes && node.progresses - progresses <= 12);
    tear_down();
    free(c);
}

/* Removes the device, so only on request, as root: verbs_stress removal */
static void a_removed_device_takes_its_connections_down(void)
{
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c)), *late = calloc(1, sizeof(*late));

    set_up(7, 2000);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up && ep.num_accepted == 1 && ep.accepted[0]->up);
    double start = vt_now();
    pthread_mutex_lock(&ep.lock);
    struct prov_xfer x = {.lcl = mem,
                          .rmt = (uintptr_t)mem + MEM / 2,
                          .length = 4096,
                          .lkey = mr->lkey,
                          .rkey = mr->rkey};
    for (int i = 0; i < 10; i++)
        CHECK(node.prov->ops->write(c->conn, &x) >= 0);
    CHECK(system("rdma link delete rxe0 &") == 0);
    pthread_mutex_unlock(&ep.lock);
    WAIT_FOR(&ep, c->down && ep.accepted[0]->down);
    CHECK(c->reason == PROV_REASON_LOCAL && ep.accepted[0]->reason == PROV_REASON_LOCAL);
    CHECK(c->done == 10);
    vt_connect(&ep, addr, size, 0, 7, late);
    WAIT_FOR(&ep, late->down);
    CHECK(late->reason == PROV_REASON_LOCAL);
    printf("device gone: connections down after %.0f ms\n", (vt_now() - start) * 1e3);
    uint64_t progresses = node.progresses;
    sleep(2);
    printf("%llu turns in 2 s\n", (unsigned long long)(node.progresses - progresses));
    CHECK(node.progresses - progresses < 30);
    vt_conn_close(c);
    vt_conn_close(late);
    tear_down();
    free(c);
    free(late);
}

/* With a notice, so that the target counts the write, too. */
static int write_one(struct vt_conn *c)
{
    struct prov_xfer x = {.lcl = mem,
                          .rmt = (uintptr_t)mem + MEM / 2,
                          .length = 4096,
                          .lkey = mr->lkey,
                          .rkey = mr->rkey,
                          .flags = PROV_NOTIFY | PROV_SIGNAL};

    return vt_write(c, &x);
}

static void write_ten(struct vt_conn *c)
{
    for (int i = 0; i < 10; i++)
        CHECK(write_one(c) >= 0);
}

/* The links made by scripts/rxe-vm: veth0 below rxe0, and veth1 at the other end of its cable.
 * Changes them, so only on request, as root: verbs_stress port */
static void set_link(const char *link, const char *how)
{
    char command[64];

    snprintf(command, sizeof(command), "ip link set %s %s", link, how);
    CHECK(system(command) == 0);
}

static void new_connection_works(const void *addr, size_t size)
{
    struct vt_conn *c = calloc(1, sizeof(*c));

    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up);
    write_ten(c);
    WAIT_FOR(&ep, c->ok == 10 && ep.accepted[ep.num_accepted - 1]->notifies == 10);
    vt_conn_close(c);
    free(c);
}

static void a_port_that_is_down_for_a_moment_loses_nothing(void)
{
    enum { TIMEOUT_MS = 2000 };
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c));

    set_up(7, TIMEOUT_MS);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up && ep.num_accepted == 1 && ep.accepted[0]->up);
    write_ten(c);
    set_link("veth1", "down");
    write_ten(c);
    usleep(TIMEOUT_MS / 4 * 1000);
    set_link("veth1", "up");
    WAIT_FOR(&ep, c->done == 20 && ep.accepted[0]->notifies == 20);
    usleep(2 * TIMEOUT_MS * 1000);
    vt_poll(&ep);
    CHECK(c->ok == 20 && !c->down && !ep.accepted[0]->down);
    vt_conn_close(c);
    tear_down();
    free(c);
}

/* Brings a connection up, takes the link down and checks how the connection ends; `reason` is that
 * of down() on the side that writes. */
static void down_for_long(const char *link, enum prov_reason reason)
{
    enum { TIMEOUT_MS = 2000, BOUND_S = 4 };
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c)), *seeks = calloc(1, sizeof(*seeks));
    struct vt_conn *late = calloc(1, sizeof(*late));
    uint64_t posted = 0;

    set_up(7, TIMEOUT_MS);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up && ep.num_accepted == 1 && ep.accepted[0]->up);
    struct vt_conn *b = ep.accepted[0];
    /* no host has that address; the reason depends on whether the port is down in the end */
    addr[size - 3] = 99;
    vt_connect(&ep, addr, size, 0, 7, seeks);
    addr[size - 3] = 1;
    usleep(TIMEOUT_MS / 4 * 1000);
    set_link(link, "down");
    double start = vt_now();
    for (; posted < 10 && write_one(c) >= 0; posted++)
        ;
    WAIT_FOR(&ep, c->down && b->down && seeks->down);
    printf("%s down: reasons %d, %d and %d after %.0f ms; %d of %d writes done\n", link, c->reason,
           b->reason, seeks->reason, (vt_now() - start) * 1e3, (int)c->ok, (int)posted);
    CHECK(vt_now() - start < BOUND_S);
    CHECK(c->reason == reason && b->reason == PROV_REASON_LOCAL);
    CHECK(seeks->reason == PROV_REASON_LOCAL);
    CHECK(posted > 0 && c->done == posted);
    for (uint64_t i = 0; i < posted; i++) /* not a fault of memory or key */
        CHECK(c->log[i].status == PROV_OK || c->log[i].status == PROV_FLUSHED);
    start = vt_now();
    vt_connect(&ep, addr, size, 0, 7, late);
    WAIT_FOR(&ep, late->down);
    CHECK(late->reason == PROV_REASON_LOCAL && vt_now() - start < BOUND_S);
    uint64_t progresses = node.progresses;
    sleep(2);
    printf("%llu turns in 2 s\n", (unsigned long long)(node.progresses - progresses));
    CHECK(node.progresses - progresses < 30);
    set_link(link, "up");
    /* Only now: on a link that is switched off, rdma_rxe 6.1 permanently breaks its own queue pair
     * for connection management with the first message. */
    vt_conn_close(c);
    new_connection_works(addr, size);
    vt_conn_close(seeks);
    vt_conn_close(late);
    tear_down();
    free(c);
    free(seeks);
    free(late);
}

/* Without carrier Soft-RoCE still reaches the addresses of its own port... */
static void a_cable_that_is_out_for_long_takes_connections_down(void)
{
    down_for_long("veth1", PROV_REASON_LOCAL);
}

/* ... and with the link switched off no packet leaves. */
static void a_link_that_is_switched_off_takes_connections_down(void)
{
    down_for_long("veth0", PROV_REASON_BROKEN);
}

static void run(const char *only, const char *name, void (*test)(void))
{
    if (!only || strstr(name, only))
        vt_run(name, test, 180);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;

    run(only, "five_hundred_connections_come_up", five_hundred_connections_come_up);
    run(only, "a_flood_does_not_need_a_polling_target", a_flood_does_not_need_a_polling_target);
    run(only, "two_busy_sides_answer_each_other", two_busy_sides_answer_each_other);
    run(only, "connections_come_and_go", connections_come_and_go);
    run(only, "an_idle_process_sleeps", an_idle_process_sleeps);
    if (only) {
        run(only, "a_port_that_is_down_for_a_moment_loses_nothing (port)",
            a_port_that_is_down_for_a_moment_loses_nothing);
        run(only, "a_cable_that_is_out_for_long_takes_connections_down (port)",
            a_cable_that_is_out_for_long_takes_connections_down);
        run(only, "a_link_that_is_switched_off_takes_connections_down (port)",
            a_link_that_is_switched_off_takes_connections_down);
        run(only, "a_removed_device_takes_its_connections_down (removal)",
            a_removed_device_takes_its_connections_down);
    }
    return 0;
}
