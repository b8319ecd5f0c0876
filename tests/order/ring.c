/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of an endpoint of the shm provider, with its owner's poll, and its owner's sleep:
 * arming, doorbell, the background thread's progress().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "verifier.h"
#include "ep.h"
#include "ring.h"
#include "sock.h"
#include "wake.h"
#include "op_queue.h"
#include "types.h"
#include "xfer.h"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

#ifdef UV_AARCH64
enum { IS_AARCH64 = 1 }; /* a notice is a message there */
#else
enum { IS_AARCH64 = 0 };
#endif

enum { PRODUCER = 7, OWN_NAME = 0, FAR = 3 };

extern const struct prov_ops shm_provider;

static struct sp_segment *segment;
static struct sp_ring *ring;
static struct sp_prov prov;
static struct sp_ep ep;
static struct sp_conn receiving[2], *receiving_table[2]; /* the owner's ends */
static struct sp_conn sending[2];                        /* the producers' ends */
static struct sp_peer peers[2];                          /* the owner, as the producers see it */
static struct sp_dir_entry *entry;
static int kernel_object; /* prov.owner */
static uint64_t kicked, woken, hung_up;
static uint32_t notices[2], messages[2];
static bool down[2];

/*
 * The kernel
 */

bool __wrap_ut_fd_check_still_ours(int fd);
bool __wrap_ut_fd_check_still_ours(int fd)
{
    return fd >= 0;
}

bool __wrap_ut_fd_is_still_ours(int fd);
bool __wrap_ut_fd_is_still_ours(int fd)
{
    return fd >= 0;
}

ssize_t __wrap_write(int fd, const void *what, size_t size);
ssize_t __wrap_write(int fd, const void *what, size_t size)
{
    (void)fd, (void)what;
    uv_event_post(&kicked);
    return (ssize_t)size;
}

ssize_t __wrap_read(int fd, void *what, size_t size);
ssize_t __wrap_read(int fd, void *what, size_t size)
{
    (void)fd, (void)what;
    return (ssize_t)size;
}

/* No sleep may rely on the timer. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    (void)fd, (void)flags, (void)new, (void)old;
    return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int num, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int num, int timeout)
{
    (void)fd, (void)num, (void)timeout;
    events[0].data.ptr = &prov.kick_fd;
    return 1;
}

/*
 * The owner
 */

static void count_notice(void *ctx, uint32_t imm)
{
    uint32_t i = (uint32_t)((struct sp_conn **)ctx - receiving_table);

    UV_CHECK(imm == 100 * (i + 1) + notices[i] &&
             "notices of a connection come in order, with their number");
    notices[i]++;
}

static void count_message(void *ctx, const void *data, size_t size)
{
    uint32_t i = (uint32_t)((struct sp_conn **)ctx - receiving_table);

    UV_CHECK(size == 8 && *(const uint64_t *)data == 1000 * (i + 1) + messages[i] &&
             "messages of a connection come in order, with their bytes");
    messages[i]++;
}

static void note_down(void *ctx, enum prov_reason reason)
{
    (void)reason;
    down[(struct sp_conn **)ctx - receiving_table] = true;
}

static const struct prov_callbacks callbacks = {
    .notify = count_notice, .message = count_message, .down = note_down};

static void wake_owner(void *owner)
{
    (void)owner;
    uv_event_post(&woken);
}

static void map_segment(void)
{
    if (!segment)
        segment = mmap(NULL, sizeof(*segment), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (segment == MAP_FAILED)
        abort();
    ring = sp_ring_of(segment, 0);
    entry = &segment->table.dir[0];
}

/* An endpoint whose head is at `head`, and whose ring is free from there on. */
static void make_endpoint(uint64_t head)
{
    map_segment();
    memset(&prov, 0, sizeof(prov));
    memset(&ep, 0, sizeof(ep));
    memset(receiving, 0, sizeof(receiving));
    memset(sending, 0, sizeof(sending));
    memset(peers, 0, sizeof(peers));
    memset(notices, 0, sizeof(notices));
    memset(messages, 0, sizeof(messages));
    memset(down, 0, sizeof(down));
    kicked = woken = hung_up = 0;
    ring->armed = ring->rung = 0;
    ring->tail = head;
    for (uint64_t pos = head; pos < head + SP_SLOTS; pos++) {
        struct sp_slot *slot = sp_ring_slot(ring, pos);
        slot->state = sp_slot_make_state(pos, 0, SP_PHASE_FREE);
        slot->conn = slot->imm = 0;
    }
    *entry = (struct sp_dir_entry){.id = 1, .state = 1};
    prov.seg = segment;
    prov.eps[0] = &ep;
    prov.eps_high_water = 1;
    prov.epoll_fd = prov.kick_fd = prov.timer_fd = 3;
    prov.config.wake = wake_owner;
    LIST_INIT(&prov.peers);
    LIST_INIT(&prov.dead);
    ep.prov = &prov;
    ep.ring = ring;
    ep.head = head;
    ep.next_slot = sp_ring_slot(ring, head);
    ep.vacant = sp_slot_make_state(head, 0, SP_PHASE_FREE);
    ep.callbacks = &callbacks;
    ep.owner = &kernel_object;
    ep.conns = receiving_table;
    static struct sp_conn *active[2];
    ep.active = active;
    ep.conns_size = 2;
    ep.active_size = ep.num_live = 2;
    for (uint32_t i = 0; i < 2; i++) {
        peers[i] = (struct sp_peer){.prov = &prov,
                                    .is_self = true,
                                    .cma = 1,
                                    .state = SP_PEER_UP,
                                    .id_in_peer_rings = PRODUCER + i,
                                    .seg = segment};
        receiving_table[i] = &receiving[i];
        receiving[i].ep = &ep;
        receiving[i].conn_id = i;
        receiving[i].ctx = &receiving_table[i];
        receiving[i].state = SP_CONN_UP;
        receiving[i].peer = &peers[i];
        receiving[i].rmt_dir_state = &entry->state;
        receiving[i].rmt_state = 1;
        sending[i].ep = &ep;
        sending[i].peer = &peers[i];
        sending[i].ring = ring;
        sending[i].rmt_conn_id = i;
        sending[i].state = SP_CONN_UP;
        sending[i].rmt_dir_state = &entry->state;
        sending[i].rmt_state = 1;
    }
}

static void make_fresh(void)
{
    make_endpoint(0);
}

/* One lap has passed, and the next one begins in the middle. */
static void make_used(void)
{
    make_endpoint(2 * SP_SLOTS - 1);
}

/* The owner has seen a claimed slot for so long that it sleeps beside one. */
static void make_patient(void)
{
    make_used();
    ep.claimed = 64; /* MAX_CLAIMED_POLLS in ep.c */
    ep.claimed_at = ep.head;
}

/* The first producer has died, which the owner has not seen yet; the second one lives on. */
static void make_with_survivor(void)
{
    make_fresh();
    prov.self.id_in_own_rings = PRODUCER + 1;
    peers[0].state = SP_PEER_DEAD;
    prov.deaths = 1;
    ep.must_check_peers = 1;
}

/* All slots but one are in use: the owner can consume two, and then waits for a claimed one. */
static void make_full(void)
{
    make_endpoint(FAR);
    for (uint64_t pos = FAR; pos < FAR + SP_SLOTS - 1; pos++) {
        struct sp_slot *slot = sp_ring_slot(ring, pos);
        slot->state =
            sp_slot_make_state(pos, PRODUCER, pos < FAR + 2 ? SP_PHASE_NOTICE : SP_PHASE_CLAIMED);
        slot->conn = 0;
        slot->imm = 100 + (uint32_t)(pos - FAR);
    }
    ring->tail = FAR + SP_SLOTS - 1;
}

/*
 * Threads
 */

static int send_one_notice(unsigned int i, uint32_t n)
{
    struct prov_xfer x = {.imm = 100 * (i + 1) + n, .flags = PROV_NOTIFY};

    return sp_write((struct prov_conn *)&sending[i], &x);
}

static int send_one_message(unsigned int i, uint64_t n)
{
    uint64_t bytes = 1000 * (i + 1) + n;

    return sp_send((struct prov_conn *)&sending[i], &bytes, sizeof(bytes), 0, 0);
}

static void send_notice_1(void)
{
    UV_CHECK(send_one_notice(0, 0) & PROV_COMPLETE);
}

static void send_notices_1(void)
{
    send_notice_1();
    UV_CHECK(send_one_notice(0, 1) & PROV_COMPLETE);
}

static void send_notice_2(void)
{
    UV_CHECK(send_one_notice(1, 0) & PROV_COMPLETE);
}

static void send_message_1(void)
{
    UV_CHECK(send_one_message(0, 0) & PROV_COMPLETE);
}

static void send_message_2(void)
{
    UV_CHECK(send_one_message(1, 0) & PROV_COMPLETE);
}

/* The ring may be full: tries again. */
static void push_notice(unsigned int i, uint32_t imm)
{
    struct sp_slot *slot;
    uint64_t pos;

    while (!sp_ring_publish_notice(ring, PRODUCER + i, i, imm, &pos)) {
        slot = sp_ring_claim(ring, PRODUCER + i, &pos);
        if (slot) {
            slot->conn = i;
            slot->imm = imm;
            slot->kind = SP_KIND_NOTICE;
            sp_publish_slot(&sending[i], slot, pos, false);
            return;
        }
        uv_pause();
    }
}

static void push_notice_1(void)
{
    push_notice(0, 102);
}

static void push_notice_2(void)
{
    push_notice(1, 200);
}

static void solicited_notice_1(void)
{
    struct prov_xfer x = {.imm = 100, .flags = PROV_NOTIFY | PROV_SOLICITED};

    UV_CHECK(sp_write((struct prov_conn *)&sending[0], &x) & PROV_COMPLETE);
}

static uint32_t received(void)
{
    return notices[0] + notices[1] + messages[0] + messages[1];
}

/* A producer that ends after its notice. */
static void send_notice_and_die(void)
{
    send_notice_1();
    uv_event_post(&hung_up);
}

static void send_message_and_die(void)
{
    send_message_1();
    uv_event_post(&hung_up);
}

/* What the background thread does when the peer's socket hangs up. */
static void report_death(void)
{
    uv_event_wait(&hung_up);
    __atomic_store_n(&peers[0].state, SP_PEER_DEAD, __ATOMIC_RELEASE);
    __atomic_add_fetch(&prov.deaths, 1, __ATOMIC_RELEASE);
    sp_request_peer_checks(&prov);
    sp_kick(&prov);
    uv_event_wait(&kicked);
    shm_provider.progress(&prov.base);
}

static void poll_until(uint32_t num)
{
    while (received() < num)
        if (sp_ep_poll((struct prov_ep *)&ep) == 0)
            uv_pause();
}

static void receive_one(void)
{
    poll_until(1);
}

static void receive_two(void)
{
    poll_until(2);
}

static void sleep_until(uint32_t num, enum prov_arm what)
{
    while (received() < num) {
        if (sp_ep_poll((struct prov_ep *)&ep) > 0)
            continue;
        if (sp_ep_arm((struct prov_ep *)&ep, what))
            uv_pause();
        else
            uv_event_wait(&woken);
    }
}

static void sleep_for_one(void)
{
    sleep_until(1, PROV_ARM_ALL);
}

static void sleep_for_two(void)
{
    sleep_until(2, PROV_ARM_ALL);
}

static void sleep_for_solicited(void)
{
    sleep_until(1, PROV_ARM_SOLICITED);
}

/* What a peer that has died had sent comes before its connection goes down. */
static void sleep_until_down(void)
{
    while (!down[0]) {
        if (sp_ep_poll((struct prov_ep *)&ep) > 0)
            continue;
        if (sp_ep_arm((struct prov_ep *)&ep, PROV_ARM_ALL))
            uv_pause();
        else
            uv_event_wait(&woken);
    }
    UV_CHECK(received() == 1 && "the last slot came before the end of the connection");
}

/* A slot that a living producer has claimed comes before the end of the connection, too, if it is
 * there when the owner looks. */
static void sleep_until_down_and_received(void)
{
    while (!down[0] || received() < 1) {
        if (sp_ep_poll((struct prov_ep *)&ep) > 0)
            continue;
        if (sp_ep_arm((struct prov_ep *)&ep, PROV_ARM_ALL))
            uv_pause();
        else
            uv_event_wait(&woken);
    }
}

static void background(void)
{
    for (;;) {
        uv_event_wait(&kicked);
        shm_provider.progress(&prov.base);
    }
}

/*
 * The end
 */

/* All slots are free for the next lap, or were never used, and the tail is not ahead of them. */
static void ring_is_empty(void)
{
    uint64_t end = sp_ring_find_tail(ring);

    UV_CHECK(end == ep.head);
    UV_CHECK(!sp_ring_is_damaged(ring));
    for (uint64_t pos = end; pos < end + SP_SLOTS; pos++) {
        struct sp_slot *slot = sp_ring_slot(ring, pos);
        UV_CHECK(slot->state == sp_slot_make_state(pos, 0, SP_PHASE_FREE) && slot->conn == 0 &&
                 slot->imm == 0);
    }
}

static void two_notices(void)
{
    UV_CHECK(notices[0] == 1 && notices[1] == 1);
    ring_is_empty();
}

/* The notices of both producers are behind the claimed slots, in either order. */
static void both_are_behind(void)
{
    bool seen[2] = {false, false};

    UV_CHECK(notices[0] == 2 && ep.head == FAR + 2);
    for (uint64_t pos = FAR + SP_SLOTS - 1; pos <= FAR + SP_SLOTS; pos++) {
        struct sp_slot *slot = sp_ring_slot(ring, pos);
        UV_CHECK(slot->state >> SP_LAP_SHIFT == pos >> SP_SLOT_BITS);
        UV_CHECK(sp_slot_state_phase(slot->state) >= SP_PHASE_READY);
        UV_CHECK(slot->conn < 2 && sp_slot_state_producer_id(slot->state) == PRODUCER + slot->conn);
        UV_CHECK(slot->imm == (slot->conn ? 200 : 102));
        seen[slot->conn] = true;
    }
    UV_CHECK(seen[0] && seen[1]);
    UV_CHECK(sp_ring_find_tail(ring) == FAR + SP_SLOTS + 1 && !sp_ring_is_damaged(ring));
}

static const struct uv_scenario scenarios[] = {
    {"notice", make_fresh, {send_notice_1, receive_one}, ring_is_empty, 0, false},
    {"message", make_fresh, {send_message_1, receive_one}, ring_is_empty, 0, false},
    {"notices_of_one", make_used, {send_notices_1, receive_two}, ring_is_empty, 0, false},
    {"notices_of_two",
     make_used,
     {send_notice_1, send_notice_2, receive_two},
     two_notices,
     0,
     true},
    {"messages_of_two",
     make_used,
     {send_message_1, send_message_2, receive_two},
     ring_is_empty,
     0,
     true},
    {"notice_and_message",
     make_used,
     {send_notice_1, send_message_2, receive_two},
     ring_is_empty,
     0,
     true},
    {"last_free_slot",
     make_full,
     {push_notice_1, push_notice_2, receive_two},
     both_are_behind,
     0,
     false},
    {"sleep", make_fresh, {send_notice_1, sleep_for_one, background}, ring_is_empty, 1 << 2, false},
    {"sleep_for_message",
     make_fresh,
     {send_message_1, sleep_for_one, background},
     ring_is_empty,
     1 << 2,
     false},
    {"sleep_for_solicited",
     make_fresh,
     {solicited_notice_1, sleep_for_solicited, background},
     ring_is_empty,
     1 << 2,
     false},
    {"sleep_beside_claim",
     make_patient,
     {send_message_1, sleep_for_one, background},
     ring_is_empty,
     1 << 2,
     false},
    {"death_behind_a_notice",
     make_fresh,
     {send_notice_and_die, sleep_until_down, report_death},
     ring_is_empty,
     0,
     false},
    {"death_behind_a_message",
     make_fresh,
     {send_message_and_die, sleep_until_down, report_death},
     ring_is_empty,
     0,
     IS_AARCH64},
    {"death_beside_a_claim",
     make_with_survivor,
     {send_message_2, sleep_until_down_and_received, background},
     ring_is_empty,
     1 << 2,
     false},
    {"sleep_for_two",
     make_used,
     {send_notice_1, send_notice_2, sleep_for_two, background},
     two_notices,
     1 << 3,
     true},
};

int main(int argc, char **argv)
{
    return uv_main(argc, argv, scenarios, SIZE(scenarios));
}
