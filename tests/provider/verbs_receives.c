/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No receive is lost with a connection: a small shared receive queue is as full after many
 * connections as before, whether these were closed or broken, with messages that were never polled.
 * On devices that drop such messages (mlx5) the queue would run dry. Where a connection has its own
 * receives, they end with it. The software adapter counts the receives left; on other devices the
 * test only checks that messages still arrive.
 */
#include "verbs_common.h"
#include "../../provider/verbs/ep_types.h"

#include <dlfcn.h>

enum { ROUNDS = 60, UNREAD = 3, DEPTH = 64, KEPT = DEPTH / 4 };

static struct vt_node node;
static struct vt_ep ep;
static uint64_t mem[16];
static struct prov_mr *mr;

/* Without a thread: the test makes the background thread's progress. */
static void set_up(uint64_t id)
{
    vt_open(&node, 4000);
    CHECK(node.prov->ops->reg(node.prov, 0, mem, sizeof(mem), PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                              &mr) == 0);
    vt_ep_open(&node, &ep, 0, id);
    __atomic_store_n(&node.stop, true, __ATOMIC_RELEASE);
    pthread_join(node.thread, NULL);
}

static void tear_down(void)
{
    vt_ep_close(&ep);
    node.prov->ops->dereg(node.prov, mr);
    node.prov->ops->close(node.prov);
}

static int go_on(void)
{
    node.prov->ops->progress(node.prov);
    return vt_poll(&ep);
}

/* Waits until the other side has reached this stage; meanwhile this one makes progress, or not. */
static void meet(struct vt_shared *s, int me, bool goes_on)
{
    int stage = s->stage[me] + 1;

    __atomic_store_n(&s->stage[me], stage, __ATOMIC_RELEASE);
    if (goes_on)
        WAIT_UNTIL(__atomic_load_n(&s->stage[!me], __ATOMIC_ACQUIRE) >= stage, go_on());
    else
        vt_stage(s, me, stage, NULL);
}

/* Receives in the queue; -1: unknown. */
static int receives_left(void)
{
    int (*count)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "adapter_receives");

    return count ? count() : -1;
}

/* Is it known of the device in use whether it reports last receives? The first connection that has
 * ended shows that, unless connections have receives of their own. */
static bool last_receives_are_known(void)
{
    const struct vp_ep *mine = (const struct vp_ep *)ep.ep;
    const struct vp_device *dev = mine->port->dev;

    pthread_mutex_lock(&mine->prov->lock);
    bool known = !dev->has_srq || dev->last_wqe != VP_LAST_WQE_UNKNOWN;
    pthread_mutex_unlock(&mine->prov->lock);
    return known;
}

/* How a connection ends. */
enum way {
    CLOSES,        /* closed here, with messages before the queue pair is destroyed; */
    CLOSES_UNREAD, /* or before it is closed */
    BREAKS,
};

/* Sends messages on each connection that the other side makes. */
static void be_sender(struct vt_shared *s)
{
    set_up(2);
    vt_publish(s, 1, &node);
    meet(s, 1, false);
    for (int round = 0; round <= ROUNDS; round++) {
        WAIT_UNTIL(ep.num_accepted == round + 1 && ep.accepted[round]->up, go_on());
        struct vt_conn *c = ep.accepted[round];
        meet(s, 1, true); /* both connections are up */
        meet(s, 1,
             false); /* not polled from here on, so that it does not see the other side close */
        meet(s, 1, false);
        for (int i = 0; i < UNREAD; i++)
            CHECK(vt_send(c, "unread", 6, 0, 1) >= 0);
        usleep(500); /* they arrive */
        meet(s, 1, false);
        if (round < ROUNDS)
            WAIT_UNTIL(c->down, go_on());
        vt_conn_close(c);
    }
    meet(s, 1, true);
    tear_down();
    exit(0);
}

/* Closes the connection, and waits until everything of this side has ended but its destruction. */
static void close_it(struct vt_conn *c)
{
    vt_conn_close(c);
    for (int i = 0; i < 20; i++) {
        vt_poll(&ep);
        usleep(50);
    }
}

static void break_it(struct vt_conn *c)
{
    struct prov_xfer bad = {.lcl = mem,
                            .rmt = (uintptr_t)mem,
                            .length = 8,
                            .rkey = ~0u,
                            .flags = PROV_INLINE,
                            .cookie = 9};

    CHECK(vt_write(c, &bad) >= 0);
    WAIT_UNTIL(c->down, go_on());
    vt_conn_close(c);
}

static void one_round(struct vt_shared *s, struct vt_conn *c, enum way way)
{
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, c);
    WAIT_UNTIL(c->up, go_on());
    meet(s, 0, true);
    meet(s, 0, false);
    if (way == CLOSES)
        close_it(c);
    meet(s, 0, false);
    meet(s, 0, false); /* the messages have arrived */
    if (way == CLOSES_UNREAD)
        vt_conn_close(c);
    if (way == BREAKS)
        break_it(c);
}

static void no_receive_is_lost(enum way way)
{
    struct vt_shared *s = vt_share();
    struct vt_conn *c = calloc(ROUNDS + 1, sizeof(*c)), *last = &c[ROUNDS];
    pid_t child = fork();

    if (child == 0)
        be_sender(s);
    set_up(1);
    meet(s, 0, false);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(s, &c[round], way);
        if (round == 0) /* so that the others wait as long as for a device that reports them */
            WAIT_UNTIL(last_receives_are_known(), go_on());
        if (round % 20 == 19)
            printf("after %d connections: %d of %d receives\n", round + 1, receives_left(), DEPTH);
        fflush(stdout);
    }
    vt_connect(&ep, s->addr[1], s->addr_size[1], 0, 2, last);
    WAIT_UNTIL(last->up, go_on());
    meet(s, 0, true);
    for (int i = 0; i < 3; i++)
        meet(s, 0, false);
    WAIT_UNTIL(last->messages == UNREAD, go_on());
    /* the other receives are held back until there are enough for one call */
    WAIT_UNTIL(receives_left() < 0 || receives_left() > DEPTH - KEPT, go_on());
    vt_conn_close(last);
    meet(s, 0, true);
    CHECK(vt_reap(child) == 0);
    tear_down();
    free(c);
}

static void that_are_closed(void)
{
    no_receive_is_lost(CLOSES);
}

static void that_are_closed_unread(void)
{
    no_receive_is_lost(CLOSES_UNREAD);
}

static void that_break(void)
{
    no_receive_is_lost(BREAKS);
}

int main(void)
{
    vt_tune("srq_depth=64");
    vt_run("no receive goes with connections that are closed", that_are_closed, 120);
    vt_run("no receive goes with connections that are closed unread", that_are_closed_unread, 120);
    vt_run("no receive goes with connections that break", that_break, 120);
    return 0;
}
