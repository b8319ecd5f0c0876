/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs provider alone and between two processes: data, order, errors, ends of connections. */
#include "verbs_common.h"

#include "local_error.h"

#include "../../provider/verbs/ports/address.h"
#include "../../provider/verbs/ports/ud.h"

enum { MEM = 1 << 20 };

static struct vt_node node;
static struct vt_ep ep;
static uint8_t *mem;
static struct prov_mr *mr;

static void set_up(uint64_t id, unsigned int timeout_ms)
{
    vt_open(&node, timeout_ms);
    mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(node.prov->ops->reg(node.prov, 0, mem, MEM,
                              PROV_ACCESS_READ | PROV_ACCESS_WRITE | PROV_ACCESS_ATOMIC, &mr) == 0);
    vt_ep_open(&node, &ep, 0, id);
}

static void tear_down(void)
{
    vt_ep_close(&ep);
    node.prov->ops->dereg(node.prov, mr);
    vt_close(&node);
}

/* The atomics, on the word 42 at rmt + 512. */
static void exercise_atomics(struct vt_conn *c, uint64_t rmt, uint32_t rkey, uint64_t cookie)
{
    uint64_t *result = (uint64_t *)(void *)(mem + 64);
    struct prov_atomic a = {.op = PROV_ATOMIC_FADD,
                            .rmt = rmt + 512,
                            .operand = 8,
                            .result = result,
                            .lkey = mr->lkey,
                            .rkey = rkey,
                            .flags = PROV_SIGNAL,
                            .cookie = cookie++};
    CHECK(vt_atomic(c, &a) == 0);
    WAIT_FOR(&ep, c->done == cookie);
    CHECK(*result == 42);
    a.op = PROV_ATOMIC_CSWAP;
    a.compare = 50;
    a.operand = 77;
    a.cookie = cookie++;
    CHECK(vt_atomic(c, &a) == 0);
    WAIT_FOR(&ep, c->done == cookie);
    CHECK(*result == 50);
    a.rmt += 4;
    CHECK(vt_atomic(c, &a) == -EACCES);
}

/* All operations in both directions of one connection, from `c` to memory at rmt/rkey. */
static void exercise(struct vt_conn *c, uint64_t rmt, uint32_t rkey)
{
    uint64_t first = c->done, cookie = first;
    struct prov_xfer x = {.lcl = mem, .rmt = rmt, .length = 8, .lkey = mr->lkey, .rkey = rkey};

    *(uint64_t *)(void *)mem = 0x1122334455667788;
    x.cookie = cookie++;
    int rc = vt_write(c, &x);
    CHECK(rc >= 0 && (rc & PROV_SRC_FREE || node.caps.max_inline < 8));
    /* a large write, then back by a read, both unsignalled but for the last */
    for (unsigned int i = 0; i < 65536; i++)
        mem[1024 + i] = (uint8_t)(i * 7);
    x = (struct prov_xfer){.lcl = mem + 1024,
                           .rmt = rmt + 1024,
                           .length = 65536,
                           .lkey = mr->lkey,
                           .rkey = rkey,
                           .cookie = cookie++};
    CHECK(vt_write(c, &x) == 0);
    x = (struct prov_xfer){.lcl = mem + 131072,
                           .rmt = rmt + 1024,
                           .length = 65536,
                           .lkey = mr->lkey,
                           .rkey = rkey,
                           .cookie = cookie++};
    CHECK(vt_read(c, &x) == 0);
    /* behind the read, from unregistered memory, in one batch with a notice and a message */
    uint64_t local = 42;
    x = (struct prov_xfer){.lcl = &local,
                           .rmt = rmt + 512,
                           .length = 8,
                           .rkey = rkey,
                           .flags = PROV_INLINE | PROV_FENCE | PROV_MORE,
                           .cookie = cookie++};
    CHECK(vt_write(c, &x) & PROV_SRC_FREE);
    x = (struct prov_xfer){.flags = PROV_NOTIFY | PROV_MORE, .imm = 0xdeadbeef, .cookie = cookie++};
    CHECK(vt_write(c, &x) >= 0);
    char big[1000];
    memset(big, 'x', sizeof(big));
    CHECK(vt_send(c, big, sizeof(big), PROV_MORE | PROV_FENCE, cookie++) >= 0);
    CHECK(vt_send(c, "small", 5, PROV_SOLICITED | PROV_SIGNAL, cookie++) >= 0);
    WAIT_FOR(&ep, c->done == cookie);
    for (uint64_t i = first; i < cookie; i++) {
        CHECK(c->log[i].cookie == i);
        CHECK(c->log[i].status == PROV_OK);
    }
    CHECK(memcmp(mem + 1024, mem + 131072, 65536) == 0);
    if (node.caps.atomic_ops)
        exercise_atomics(c, rmt, rkey, cookie);
}

static void an_endpoint_talks_to_itself(void)
{
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c));

    set_up(7, 4000);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->up && ep.num_accepted == 1 && ep.accepted[0]->up);
    CHECK(ep.peer_id == 7);
    CHECK(c->hello_size == 7 && memcmp(c->hello, "welcome", 7) == 0);
    CHECK(ep.accepted[0]->hello_size == 5 && memcmp(ep.accepted[0]->hello, "hello", 5) == 0);
    exercise(c, (uintptr_t)mem + MEM / 2, mr->rkey);
    struct vt_conn *b = ep.accepted[0];
    WAIT_FOR(&ep, b->messages == 2 && b->notifies == 1);
    CHECK(b->last_imm == 0xdeadbeef && b->last_size == 5 && memcmp(b->last, "small", 5) == 0);
    CHECK(*(uint64_t *)(void *)(mem + MEM / 2 + 512) == (node.caps.atomic_ops ? 77 : 42));
    exercise(b, (uintptr_t)mem + MEM / 2, mr->rkey);
    vt_conn_close(c);
    WAIT_FOR(&ep, b->down);
    CHECK(b->reason == PROV_REASON_CLOSED);
    vt_conn_close(b);
    tear_down();
    free(c);
}

static enum prov_reason gone(void)
{
    return node.caps.no_peer_death_event ? PROV_REASON_SILENT : PROV_REASON_PEER_DEAD;
}

/* An address has an entry for each port: TNI 0 is at the first. */
static void strange_port_of_tni_0(uint8_t *addr)
{
    union vp_any_address *address = (union vp_any_address *)(void *)addr;

    if (address->cm.ud)
        address->ud.ports[0].qpn[2] ^= 1;
    else
        address->cm.ports[0].port ^= htons(1);
}

static void nobody_there_is_told_apart(void)
{
    uint8_t addr[PROV_ADDR_MAX], strange[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c));

    set_up(7, 2000);
    size_t size = node.prov->ops->address(node.prov, addr);
    vt_connect(&ep, addr, size, 0, 8, c);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == PROV_REASON_NO_ENDPOINT && !c->up);
    vt_conn_close(c);

    memcpy(strange, addr, size);
    strange[3] ^= 1; /* its key */
    vt_connect(&ep, strange, size, 0, 7, c);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == gone() && ep.num_accepted == 0);
    vt_conn_close(c);

    memcpy(strange, addr, size);
    strange_port_of_tni_0(strange);
    vt_connect(&ep, strange, size, 0, 7, c);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == gone());
    vt_conn_close(c);

    memcpy(strange, addr, size);
    strange[2] ^= 1; /* its kind of connection */
    pthread_mutex_lock(&ep.lock);
    int rc = node.prov->ops->connect(ep.ep, strange, size, 0, 7, NULL, 0, c, &c->conn);
    CHECK(rc == -EPROTO || rc == -EHOSTUNREACH); /* too short for the other kind, or of it */
    pthread_mutex_unlock(&ep.lock);

    ep.refuse = true;
    vt_connect(&ep, addr, size, 0, 7, c);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == PROV_REASON_REJECTED);
    vt_conn_close(c);
    tear_down();
    free(c);
}

/* Datagrams of a sender that has the Q_Key, but not the key: see also verbs_strangers.c. */
static void a_flood_of_strange_datagrams_is_survived(void)
{
    static const uint8_t rubbish[VP_UD_MAX] = {'u', 'T', 'f', 'D', 1, 1};
    uint8_t addr[PROV_ADDR_MAX];
    struct vt_conn *c = calloc(1, sizeof(*c));

    set_up(7, 4000);
    struct vp_port *port = &vp_prov(node.prov)->ports[0];
    if (port->ud) {
        CHECK(vp_ud_resolve(port, &port->at) == 0);
        for (int i = 0; i < 3000; i++)
            while (!vp_ud_send(port, &port->at, rubbish, 1 + (size_t)i % VP_UD_MAX))
                sched_yield();
        size_t size = node.prov->ops->address(node.prov, addr);
        vt_connect(&ep, addr, size, 0, 7, c);
        WAIT_FOR(&ep, c->up);
        vt_conn_close(c);
    }
    tear_down();
    free(c);
}

static void serve(struct vt_shared *s, uint64_t id, unsigned int timeout_ms)
{
    set_up(id, timeout_ms);
    vt_publish(s, 1, &node);
    s->mem[1] = (uintptr_t)mem;
    s->rkey[1] = mr->rkey;
    vt_stage(s, 1, 1, NULL);
}

static void two_processes_talk(void)
{
    struct vt_shared *s = vt_share();
    pid_t child = fork();

    if (child == 0) {
        serve(s, 2, 4000);
        vt_stage(s, 1, 2, &ep);
        struct vt_conn *b = ep.accepted[0];
        WAIT_FOR(&ep, b->messages == 2 && b->notifies == 1);
        exercise(b, s->mem[0], s->rkey[0]);
        vt_stage(s, 1, 3, &ep);
        tear_down();
        exit(0);
    }
    struct vt_conn *c = calloc(1, sizeof(*c));
    set_up(1, 4000);
    s->mem[0] = (uintptr_t)mem;
    s->rkey[0] = mr->rkey;
    vt_stage(s, 0, 1, NULL);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    exercise(c, s->mem[1], s->rkey[1]);
    vt_stage(s, 0, 2, &ep);
    vt_stage(s, 0, 3, &ep);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == PROV_REASON_CLOSED);
    vt_conn_close(c);
    CHECK(vt_reap(child) == 0);
    tear_down();
    free(c);
}

/* An origin that is too slow, as under valgrind, asks twice: the last request counts. */
static struct vt_conn *last_accepted(void)
{
    return ep.accepted[ep.num_accepted - 1];
}

/* Keys with relaxed ordering take each promise back, also one that UTOFU_VERBS_ORDER makes. */
static bool has_order(void)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    return !profile || strcmp(profile, "relaxed-keys") != 0;
}

/* Each end tells the other whether its device keeps order, and both use the weaker guarantee. */
static void an_end_without_order_is_known_at_both(void)
{
    for (unsigned int safe = 0; safe < 4; safe++) {
        struct vt_shared *s = vt_share();
        pid_t child = fork();
        unsigned int me = child == 0;
        setenv("UTOFU_VERBS_ORDER", safe >> me & 1 ? "safe" : "trust", 1);
        if (child == 0) {
            serve(s, 2, 4000);
            WAIT_FOR(&ep, ep.num_accepted >= 1 && last_accepted()->up);
            CHECK(node.prov->ops->any_order(last_accepted()->conn) == (safe || !has_order()));
            vt_stage(s, 1, 2, &ep);
            tear_down();
            exit(0);
        }
        pid_t origin = fork();
        if (origin == 0) {
            struct vt_conn *c = calloc(1, sizeof(*c));
            set_up(1, 4000);
            vt_stage(s, 0, 1, NULL);
            vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
            WAIT_FOR(&ep, c->up);
            CHECK(node.prov->ops->any_order(c->conn) == (safe || !has_order()));
            vt_stage(s, 0, 2, &ep);
            vt_conn_close(c);
            tear_down();
            exit(0);
        }
        CHECK(vt_reap(origin) == 0 && vt_reap(child) == 0);
    }
}

/* The failed request is distinguished from those before and behind it; both sides are notified; a
 * new connection works. */
static void a_bad_key_breaks_one_connection_only(void)
{
    struct vt_shared *s = vt_share();
    pid_t child = fork();

    if (child == 0) {
        serve(s, 2, 4000);
        WAIT_FOR(&ep, ep.num_accepted >= 1 && ep.accepted[0]->down);
        CHECK(ep.accepted[0]->reason == PROV_REASON_BROKEN);
        vt_conn_close(ep.accepted[0]);
        WAIT_FOR(&ep, ep.num_accepted >= 2 && last_accepted()->messages == 1);
        vt_stage(s, 1, 2, &ep);
        /* the other way round: a bad local key breaks the origin's side alone */
        WAIT_FOR(&ep, last_accepted()->down);
        CHECK(last_accepted()->reason == PROV_REASON_BROKEN);
        tear_down();
        exit(0);
    }
    struct vt_conn *c = calloc(1, sizeof(*c));
    set_up(1, 4000);
    vt_stage(s, 0, 1, NULL);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    struct prov_xfer x = {.lcl = mem, .rmt = s->mem[1], .length = 4096, .lkey = mr->lkey};
    /* with the lock, or the thread may see the break before the last request is posted */
    pthread_mutex_lock(&ep.lock);
    for (uint64_t i = 0; i < 12; i++) {
        x.cookie = i;
        x.rkey = i == 5 ? s->rkey[1] ^ 0x5a5a00 : s->rkey[1];
        CHECK(node.prov->ops->write(c->conn, &x) == 0);
    }
    pthread_mutex_unlock(&ep.lock);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == PROV_REASON_BROKEN && c->done == 12 && c->ok == 5);
    for (uint64_t i = 0; i < 12; i++) {
        CHECK(c->log[i].cookie == i);
        CHECK(c->log[i].status == (i < 5 ? PROV_OK : i == 5 ? PROV_RMT_ACCESS : PROV_FLUSHED));
    }
    CHECK(vt_write(c, &x) == -ENOTCONN);
    vt_conn_close(c);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    CHECK(vt_send(c, "again", 5, PROV_SOLICITED | PROV_SIGNAL, 99) >= 0);
    vt_stage(s, 0, 2, &ep);
    WAIT_FOR(&ep, c->done == 1);
    x.cookie = 5;
    x.lkey ^= 0x5a5a00;
    x.flags = PROV_SIGNAL;
    CHECK(vt_write(c, &x) == 0);
    WAIT_FOR(&ep, c->down);
    CHECK(c->log[1].cookie == 5 && is_local_error(c->log[1].status));
    CHECK(c->reason == PROV_REASON_BROKEN);
    vt_conn_close(c);
    CHECK(vt_reap(child) == 0);
    tear_down();
    free(c);
}

/* EARLY messages have arrived, and then a request fails behind one that succeeds, all between two
 * polls: the messages are delivered first, because the peer knows that they arrived, and will not
 * send them again. A connection with receives of its own has room for all of them. */
enum { EARLY = 300 };

static void what_arrived_before_a_break_is_handed_over(void)
{
    const char *set = getenv("UTOFU_VERBS_TUNE");
    char *before = set ? strdup(set) : NULL;
    vt_tune("rq_depth=512");
    vt_tune("srq_depth=2048"); /* a quarter of them at first */
    struct vt_shared *s = vt_share();
    pid_t child = fork();

    if (child == 0) {
        serve(s, 2, 4000);
        WAIT_FOR(&ep, ep.num_accepted >= 1 && last_accepted()->up);
        vt_stage(s, 1, 2, &ep);
        struct vt_conn *b = last_accepted();
        for (uint64_t i = 1; i <= EARLY; i++)
            CHECK(vt_send(b, "early", 5, i == EARLY ? PROV_SIGNAL : 0, i) >= 0);
        WAIT_FOR(&ep, b->done == EARLY);
        CHECK(b->ok == EARLY);
        vt_stage(s, 1, 3, &ep);
        WAIT_FOR(&ep, b->down);
        tear_down();
        exit(0);
    }
    struct vt_conn *c = calloc(1, sizeof(*c));
    set_up(1, 4000);
    vt_stage(s, 0, 1, NULL);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    vt_stage(s, 0, 2, &ep);
    pthread_mutex_lock(&ep.lock); /* the thread does not poll either */
    vt_stage(s, 0, 3, NULL);
    struct prov_xfer x = {.lcl = mem,
                          .rmt = s->mem[1],
                          .length = 4096,
                          .lkey = mr->lkey,
                          .rkey = s->rkey[1],
                          .flags = PROV_SIGNAL};
    CHECK(node.prov->ops->write(c->conn, &x) == 0);
    x.cookie = 1;
    x.rkey ^= 0x5a5a00;
    CHECK(node.prov->ops->write(c->conn, &x) == 0);
    usleep(300000); /* both have completed by now */
    pthread_mutex_unlock(&ep.lock);
    WAIT_FOR(&ep, c->down);
    CHECK(c->done == 2 && c->ok == 1);
    CHECK(c->messages == EARLY && memcmp(c->last, "early", 5) == 0);
    vt_conn_close(c);
    CHECK(vt_reap(child) == 0);
    tear_down();
    free(c);
    if (before)
        setenv("UTOFU_VERBS_TUNE", before, 1);
    else
        unsetenv("UTOFU_VERBS_TUNE");
    free(before);
}

/* A peer is killed with nothing outstanding, and with a request under way. */
static void a_killed_peer_is_dead(bool outstanding)
{
    struct vt_shared *s = vt_share();
    pid_t child = fork();

    if (child == 0) {
        serve(s, 2, 2000);
        vt_stage(s, 1, 2, &ep);
        for (;;)
            pause();
    }
    struct vt_conn *c = calloc(1, sizeof(*c));
    set_up(1, 2000);
    vt_stage(s, 0, 1, NULL);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->up);
    vt_stage(s, 0, 2, &ep);
    CHECK(kill(child, SIGKILL) == 0);
    double start = vt_now();
    CHECK(vt_reap(child) == 128 + SIGKILL);
    if (outstanding) {
        struct prov_xfer x = {.lcl = mem,
                              .rmt = s->mem[1],
                              .length = 4096,
                              .lkey = mr->lkey,
                              .rkey = s->rkey[1],
                              .cookie = 1};
        int rc = vt_write(c, &x);
        CHECK(rc == 0 || rc == -ENOTCONN);
    }
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == gone());
    if (c->done)
        CHECK(c->log[0].status == PROV_PEER);
    printf("killed peer noticed after %.0f ms\n", (vt_now() - start) * 1e3);
    vt_conn_close(c);
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_FOR(&ep, c->down);
    CHECK(c->reason == gone());
    vt_conn_close(c);
    tear_down();
    free(c);
}

/* The step of a handshake at which a process is killed. */
enum target_step {
    IS_ASKED,  /* the request waits in the kernel */
    HEARS,     /* ... in the endpoint */
    IS_SILENT, /* handed to the owner, which does not answer */
    ACCEPTS,   /* nothing is sent yet */
    ANSWERS,
    IS_UP,
    NUM_TARGET_STEPS
};
enum origin_step {
    ASKS, /* nothing is sent yet */
    RESOLVES,
    REQUESTS,
    CONFIRMS,
    NUM_ORIGIN_STEPS
};

/* From here on the caller alone makes progress. */
static void stop_thread(void)
{
    __atomic_store_n(&node.stop, true, __ATOMIC_RELEASE);
    pthread_join(node.thread, NULL);
}

static void make_progress(double seconds)
{
    double end = vt_now() + seconds;

    do {
        node.prov->ops->progress(node.prov);
        usleep(1000);
    } while (vt_now() < end);
}

static void be_target_until(struct vt_shared *s, enum target_step step)
{
    serve(s, 2, 4000); /* the other one asks now */
    stop_thread();
    vt_stage(s, 1, 2, NULL);
    ep.silent = step == IS_SILENT;
    if (step == IS_ASKED)
        usleep(300000);
    if (step == HEARS)
        make_progress(0.3);
    while (step > HEARS && !ep.num_requests) {
        make_progress(0);
        vt_poll(&ep);
    }
    if (step >= ANSWERS)
        node.prov->ops->progress(node.prov);
    if (step >= IS_UP)
        make_progress(0.3);
    raise(SIGKILL);
}

static void the_target_goes_at_any_step(void)
{
    for (enum target_step step = 0; step < NUM_TARGET_STEPS; step++) {
        struct vt_shared *s = vt_share();
        struct vt_conn *c = calloc(1, sizeof(*c));
        pid_t child = fork();

        if (child == 0)
            be_target_until(s, step);
        set_up(1, 4000);
        vt_stage(s, 0, 2, NULL);
        vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
        while (waitpid(child, NULL, WNOHANG) != child)
            vt_poll(&ep);
        double start = vt_now();
        WAIT_FOR(&ep, c->down);
        CHECK(c->reason == PROV_REASON_PEER_DEAD || c->reason == PROV_REASON_SILENT || c->up);
        printf("target at step %d: %s, noticed after %.0f ms\n", (int)step,
               c->up ? "was up" : "never up", (vt_now() - start) * 1e3);
        vt_conn_close(c);
        tear_down();
        free(c);
    }
}

static void be_origin_until(struct vt_shared *s, enum origin_step step)
{
    static struct vt_conn c;

    set_up(2, 4000);
    stop_thread();
    vt_stage(s, 1, 1, NULL);
    vt_connect(&ep, s->addr[0], s->addr_size[0], 0, 1, &c);
    if (step == RESOLVES)
        node.prov->ops->progress(node.prov);
    if (step == REQUESTS) /* until the other process has answered */
        while (!s->words[0])
            make_progress(0);
    while (step == CONFIRMS && !c.up) {
        make_progress(0);
        vt_poll(&ep);
    }
    raise(SIGKILL);
}

static int num_accepted(void)
{
    return VT_LOCKED(&ep, ep.num_accepted);
}

static void the_origin_goes_at_any_step(void)
{
    for (enum origin_step step = 0; step < NUM_ORIGIN_STEPS; step++) {
        struct vt_shared *s = vt_share();
        pid_t child = fork();

        if (child == 0)
            be_origin_until(s, step);
        set_up(1, 4000);
        vt_publish(s, 0, &node);
        vt_stage(s, 0, 1, NULL);
        while (waitpid(child, NULL, WNOHANG) != child) {
            vt_poll(&ep);
            s->words[0] = num_accepted() > 0;
        }
        double start = vt_now();
        usleep(300000); /* time for a request under way */
        vt_poll(&ep);
        CHECK(step < REQUESTS || num_accepted() > 0);
        for (int i = 0; i < num_accepted(); i++)
            WAIT_FOR(&ep, ep.accepted[i]->down);
        printf("origin at step %d: %d accepted, noticed after %.0f ms\n", (int)step, num_accepted(),
               (vt_now() - start) * 1e3);
        tear_down();
    }
}

static void run(const char *name, void (*test)(void))
{
    vt_run(name, test, 120);
}

static void killed_idle(void)
{
    a_killed_peer_is_dead(false);
}

static void killed_busy(void)
{
    a_killed_peer_is_dead(true);
}

int main(void)
{
    run("an_endpoint_talks_to_itself", an_endpoint_talks_to_itself);
    run("nobody_there_is_told_apart", nobody_there_is_told_apart);
    run("a_flood_of_strange_datagrams_is_survived", a_flood_of_strange_datagrams_is_survived);
    run("two_processes_talk", two_processes_talk);
    run("an_end_without_order_is_known_at_both", an_end_without_order_is_known_at_both);
    run("a_bad_key_breaks_one_connection_only", a_bad_key_breaks_one_connection_only);
    run("what_arrived_before_a_break_is_handed_over", what_arrived_before_a_break_is_handed_over);
    run("a_killed_peer_is_dead (idle)", killed_idle);
    run("a_killed_peer_is_dead (busy)", killed_busy);
    run("the_target_goes_at_any_step", the_target_goes_at_any_step);
    run("the_origin_goes_at_any_step", the_origin_goes_at_any_step);
    return 0;
}
