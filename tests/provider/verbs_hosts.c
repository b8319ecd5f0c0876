/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider between two hosts that lose packets, and when one host's link goes down. For
 * two linked guests: rxe-vm --hosts 2 --netem 'loss 1%' -- verbs_hosts [rounds]
 */
#include "verbs_common.h"
#include "card.h"

#include <fcntl.h>

enum { MEM = 1 << 20, CONNS = 40, TIMEOUT_MS = 3000 };

static struct vt_node node;
static struct vt_ep ep;
static uint8_t *mem;
static struct prov_mr *mr;
static int me;

struct card {
    uint8_t addr[PROV_ADDR_MAX];
    size_t addr_size;
    uint64_t mem;
    uint32_t rkey;
};
static struct card cards[2];

static void say(const char *what, const void *data, size_t size)
{
    CHECK(card_write(getenv("RXE_SHARED"), what, me, data, size));
}

static void hear(const char *what, void *data, size_t size)
{
    double end = vt_now() + VT_TIMEOUT_S;

    while (!card_read(getenv("RXE_SHARED"), what, !me, data, size)) {
        vt_poll(&ep);
        usleep(20000);
        CHECK(vt_now() < end);
    }
}

static void meet(const char *what)
{
    char c = 'x';

    say(what, &c, 1);
    hear(what, &c, 1);
}

static void exchange(int rounds)
{
    struct vt_conn *conns[CONNS];
    double start = vt_now();

    for (int i = 0; me == 0 && i < CONNS; i++) {
        conns[i] = calloc(1, sizeof(struct vt_conn));
        vt_connect(&ep, cards[1].addr, cards[1].addr_size, 0, 2, conns[i]);
    }
    for (int i = 0; i < CONNS; i++) {
        if (me == 1)
            WAIT_FOR(&ep, ep.num_accepted > i);
        if (me == 0)
            WAIT_FOR(&ep, conns[i]->up || conns[i]->down);
        if (me == 0 && conns[i]->down)
            printf("connection %d failed: %d\n", i, conns[i]->reason);
    }
    printf("host %d: %d connections in %.2f s\n", me, CONNS, vt_now() - start);
    struct vt_conn *c = NULL;
    uint64_t *words = (uint64_t *)(void *)mem;
    if (me == 0) {
        c = conns[0];
        CHECK(c->up && vt_send(c, "this one", 8, 0, 0) >= 0);
    } else {
        for (int i = 0; !c; i = (i + 1) % ep.num_accepted) {
            vt_poll(&ep);
            if (ep.accepted[i]->messages)
                c = ep.accepted[i];
        }
    }
    start = vt_now();
    for (uint64_t r = 1; r <= (uint64_t)rounds; r++) { /* ping-pong: 4 KiB, then a notice */
        for (int turn = 0; turn < 2; turn++) {
            if (turn == me) {
                words[0] = words[511] = r * 2 + (uint64_t)me;
                struct prov_xfer x = {.lcl = mem,
                                      .rmt = cards[!me].mem + 4096,
                                      .length = 4096,
                                      .lkey = mr->lkey,
                                      .rkey = cards[!me].rkey,
                                      .imm = (uint32_t)r,
                                      .flags = PROV_NOTIFY | PROV_SIGNAL};
                uint64_t done = c->done;
                CHECK(vt_write(c, &x) >= 0);
                WAIT_FOR(&ep, c->done > done || c->down);
                CHECK(!c->down);
            } else {
                WAIT_FOR(&ep, c->notifies == r || c->down);
                CHECK(!c->down && c->last_imm == r);
                CHECK(words[512] == r * 2 + (uint64_t)!me && words[1023] == words[512]);
            }
        }
    }
    printf("host %d: %d rounds in %.2f s\n", me, rounds, vt_now() - start);
    CHECK(c->ok == c->done);
    meet("exchanged");
    if (me == 0)
        for (int i = 0; i < CONNS; i++)
            vt_conn_close(conns[i]);
}

/* Host 1's link goes down. */
static void a_host_goes_away(void)
{
    struct vt_conn *c = calloc(1, sizeof(*c));
    int before = ep.num_accepted;

    if (me == 1) {
        meet("before");
        WAIT_FOR(&ep, ep.num_accepted > before && ep.accepted[before]->up);
        struct vt_conn *b = ep.accepted[before];
        char x = 0;
        hear("cut", &x, 1);
        CHECK(system("ip link set eth0 down") == 0);
        double start = vt_now();
        WAIT_FOR(&ep, b->down);
        printf("host 1: its own port is down, reason %d, after %.0f ms\n", b->reason,
               (vt_now() - start) * 1e3);
        CHECK(b->reason == PROV_REASON_LOCAL);
        return;
    }
    meet("before");
    vt_connect(&ep, cards[1].addr, cards[1].addr_size, 0, 2, c);
    WAIT_FOR(&ep, c->up);
    say("cut", "x", 1);
    sleep(2);
    CHECK(!c->down);
    double start = vt_now();
    struct prov_xfer x = {
        .lcl = mem, .rmt = cards[1].mem, .length = 8, .lkey = mr->lkey, .rkey = cards[1].rkey};
    for (uint64_t i = 0; i < 5; i++) {
        x.cookie = i;
        CHECK(vt_write(c, &x) >= 0);
    }
    WAIT_FOR(&ep, c->down);
    printf("host 0: the other host is dead after %.0f ms, reason %d\n", (vt_now() - start) * 1e3,
           c->reason);
    CHECK(c->reason == PROV_REASON_SILENT && c->done == 5 && c->log[0].status == PROV_PEER &&
          c->log[4].status == PROV_FLUSHED);
    vt_conn_close(c);
    start = vt_now();
    vt_connect(&ep, cards[1].addr, cards[1].addr_size, 0, 2, c);
    WAIT_FOR(&ep, c->down);
    printf("host 0: a new connection to it fails after %.0f ms\n", (vt_now() - start) * 1e3);
    CHECK(c->reason == PROV_REASON_SILENT);
    vt_conn_close(c);
    free(c);
}

int main(int argc, char **argv)
{

    if (!getenv("RXE_HOST") || !getenv("RXE_SHARED"))
        return VT_SKIP;
    me = atoi(getenv("RXE_HOST"));
    if (me > 1)
        return 0;
    vt_open(&node, TIMEOUT_MS);
    mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(node.prov->ops->reg(node.prov, 0, mem, MEM, PROV_ACCESS_READ | PROV_ACCESS_WRITE, &mr) ==
          0);
    vt_ep_open(&node, &ep, 0, 1 + (uint64_t)me);
    struct card mine = {.mem = (uintptr_t)mem, .rkey = mr->rkey};
    mine.addr_size = node.prov->ops->address(node.prov, mine.addr);
    say("card", &mine, sizeof(mine));
    hear("card", &cards[!me], sizeof(mine));
    cards[me] = mine;
    exchange(argc > 1 ? atoi(argv[1]) : 500);
    a_host_goes_away();
    vt_ep_close(&ep);
    node.prov->ops->dereg(node.prov, mr);
    vt_close(&node);
    printf("host %d: ok\n", me);
    return 0;
}
