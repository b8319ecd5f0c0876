/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises of the shm provider alone: local and remote faults distinguished, keys of the process,
 * no peers of other hosts, few descriptors, idle processes that sleep.
 */
#include "../../provider/common/atomic_width.h"
#include "../../provider/shm/types.h"
#include "../../provider/shm/layout.h"

#include "peers.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { RW = PROV_ACCESS_READ | PROV_ACCESS_WRITE };

/* As pair_up(), and waits until the connection is up at both ends. */
static struct link *pair_as(struct end *end, uint64_t other)
{
    struct link *link = pair_up(end, other);

    barrier();
    return link;
}

static struct link *pair_both(struct end *end)
{
    return pair_as(end, (uint64_t)!rank + 1);
}

static bool uses_cma(void)
{
    const char *text = getenv("UTOFU_SHM_CMA");

    return !text || strcmp(text, "0") != 0;
}

static bool maps(void)
{
    const char *text = getenv("UTOFU_SHM_MAP");

    return !text || strcmp(text, "0") != 0;
}

/* Memory that other processes may have mapped is never remapped. */
static uint8_t *shared_pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

/* Registered, then unmapped: where the kernel copies, the origin learns which side is at fault, and
 * continues. */
static void vanished_memory_is_a_fault_of_its_owner(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct memory m = {.bytes = shared_pages(4 * 4096), .size = 4 * 4096};
    struct prov_mr *mr;
    uint8_t *p = shared_pages(4 * 4096);

    CHECK(ops->reg(prov, 0, m.bytes, m.size, RW, &m.mr) == 0);
    CHECK(ops->reg(prov, 0, p, 4 * 4096, RW, &mr) == 0);
    munmap(p + 2 * 4096, 2 * 4096);
    world->remotes[rank][0] = (struct remote){.addr = (uintptr_t)p, .rkey = mr->rkey};
    memory_publish(&m, 1);
    struct link *link = pair_both(end);
    if (rank == 0 && uses_cma()) {
        struct remote r = memory_of(1, 0), good = memory_of(1, 1);
        struct prov_xfer x = {
            .lcl = m.bytes, .lkey = m.mr->lkey, .rmt = r.addr, .rkey = r.rkey, .length = 4 * 4096};
        CHECK(post_xfer(link, true, &x) == -EFAULT);
        CHECK(post_xfer(link, false, &x) == -EFAULT);
        x.rmt += 3 * 4096;
        x.length = 8;
        CHECK(post_xfer(link, true, &x) == -EFAULT);
        x = (struct prov_xfer){
            .lcl = p, .lkey = mr->lkey, .rmt = good.addr, .rkey = good.rkey, .length = 4 * 4096};
        CHECK(post_xfer(link, true, &x) == -EPERM);
        CHECK(post_xfer(link, false, &x) == -EPERM);
        x.length = 4096;
        CHECK(post_xfer(link, true, &x) >= 0);
        settle(link);
        CHECK(link->up && !link->down && link->num_failed == 0);
    }
    barrier();
    ops->dereg(prov, mr);
    ops->dereg(prov, m.mr);
}

enum { PACKET = 32, MARK = 16, LAST = 24, BEHIND = 512, PACKETS = 120 };

struct watched {
    const uint8_t *bytes;
    bool stop;
    uint64_t in_part, overtaken;
};

static uint64_t look(const uint8_t *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

static void *watch_packets(void *arg)
{
    struct watched *w = arg;

    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        uint64_t behind = look(w->bytes + BEHIND), mark = look(w->bytes + MARK);
        w->overtaken += mark < behind;
        w->in_part += look(w->bytes + LAST) < mark;
    }
    return NULL;
}

static void put_packets(struct link *link, const struct memory *m, const struct remote *r,
                        size_t at)
{
    for (uint64_t n = 1; n <= PACKETS; n++) {
        for (int i = 0; i < PACKET / 8; i++)
            memcpy(m->bytes + 8 * i, &n, 8);
        int rc = post_write(link, m, 0, r->addr + at, r->rkey, PACKET, 0, 0);
        CHECK(rc >= 0);
        if (!getenv("UTOFU_SHM_MAP")) /* it is not mapped: the target stores */
            CHECK(!(rc & PROV_COMPLETE));
        CHECK(post_write(link, m, 0, r->addr + at + BEHIND, r->rkey, 8, 0, 0) >= 0);
        if (n % 8 == 0)
            settle(link);
    }
    settle(link);
}

/* Where a copy by the kernel may be seen in part, packets to memory that is not mapped are stored
 * by the target; and no later write overtakes them. */
static void packet_is_seen_as_a_whole(void)
{
    enum { PART = 64 << 10, PARTS = 32 };
    struct end *end = end_open((uint64_t)rank + 1);
    struct sp_remap *remap = &((struct sp_prov *)prov)->remap;
    const uint32_t test_refuse_every = remap->test_refuse_every;
    struct watched w = {0};
    pthread_t watcher;

    remap->test_refuse_every = 1;
    struct memory m = memory_new((size_t)PARTS * PART, RW);
    remap->test_refuse_every = test_refuse_every;
    prov_detect_atomic_widths();
    prov_atomic_widths.kernel = PROV_WORD;
    memory_publish(&m, 0);
    struct link *link = pair_both(end);
    struct remote r = memory_of(!rank, 0);
    for (size_t i = 0; i < PARTS && prov_store_width() >= PACKET / 2; i++) {
        w.bytes = m.bytes + i * PART;
        w.stop = false;
        if (rank == 0) {
            put_packets(link, &m, &r, i * PART);
            set_cell(0, i + 1);
        } else {
            CHECK(pthread_create(&watcher, NULL, watch_packets, &w) == 0);
            pump_until(cell(0) > i);
            __atomic_store_n(&w.stop, true, __ATOMIC_RELEASE);
            CHECK(pthread_join(watcher, NULL) == 0);
        }
        barrier();
    }
    CHECK(w.in_part == 0 && w.overtaken == 0, "%llu in part, %llu overtaken",
          (unsigned long long)w.in_part, (unsigned long long)w.overtaken);
}

static void stranger_without_the_key_is_turned_away(void)
{
    struct end *end = end_open((uint64_t)rank + 1);

    barrier();
    if (rank == 0) {
        struct sp_address good, bad;
        memcpy(&good, world->addr[1], sizeof(good));
        bad = good;
        bad.key ^= 1;
        memcpy(world->addr[1], &bad, sizeof(bad));
        struct link *link = link_ask(end, 1, 2);
        pump_until(link->down);
        CHECK(!link->up && link->reason == PROV_REASON_REFUSED);
        bad = good;
        bad.host ^= 1;
        struct prov_conn *conn;
        CHECK(ops->connect(end->ep, &bad, sizeof(bad), 0, 2, "", 0, NULL, &conn) == -EHOSTUNREACH);
        CHECK(ops->connect(end->ep, &good, sizeof(good) - 1, 0, 2, "", 0, NULL, &conn) == -EPROTO);
        memcpy(world->addr[1], &good, sizeof(good));
        link_to(end, 1, 2);
    }
    barrier();
}

/* Sends random bytes to the socket: the provider ignores them. */
static void nonsense_on_the_socket_does_no_harm(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct sp_address addr;
    char bytes[200] = "nonsense";

    barrier();
    memcpy(&addr, world->addr[1], sizeof(addr));
    int n = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)addr.name);
    for (int i = 0; i < 50 && rank == 0; i++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
        CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&sun, len) == 0);
        struct sp_dgram d = {.type = SP_DGRAM_HELLO + (uint32_t)i % 8,
                             .version = SP_VERSION,
                             .target_key = i % 2 ? addr.key : 0,
                             .key = (uint64_t)i};
        if (i % 3)
            CHECK(send(fd, &d, sizeof(d), 0) == sizeof(d));
        else
            CHECK(send(fd, bytes, below(sizeof(bytes)) + 1, 0) > 0);
        close(fd);
    }
    struct link *link = pair_both(end);
    CHECK(link->up && !link->down);
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    CHECK(dir != NULL);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* A socket, and the memory that can be mapped. */
static void peers_cost_two_descriptors_each(void)
{
    int each = maps() ? 2 : 1;
    struct end *a = end_open(100 + (uint64_t)rank), *b = end_open(200 + (uint64_t)rank);
    int before = count_descriptors();

    barrier();
    for (int to = 0; to < size; to++) {
        link_to(a, to, 100 + (uint64_t)to);
        link_to(b, to, 100 + (uint64_t)to);
    }
    barrier();
    int after = count_descriptors();
    CHECK(after - before <= each * (size - 1), "%d more for %d peers", after - before, size - 1);
}

static uint64_t cpu_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static uint64_t times_asleep(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (uint64_t)r.ru_nvcsw;
}

/* Polls until nothing is left to do, then arms: from then on the owner sleeps. */
static void fall_asleep(struct end *end)
{
    while (pump())
        ;
    while (ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
        pump();
    while (sem_trywait(&end->woken) == 0)
        ;
}

/* Asleep with connections up, and with messages that ask for no wake-up. On any machine a thread
 * that spins, or wakes up every millisecond, uses more CPU than this limit. */
static void idle_processes_use_no_cpu(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);
    struct timespec nap = {.tv_nsec = 300 * 1000000};
    uint64_t value = 1;

    CHECK(post_send(link, &value, 8, PROV_SIGNAL) >= 0);
    settle(link);
    pump_until(link->num_messages == 1);
    barrier();
    fall_asleep(end);
    barrier_without_polling();
    if (rank == 0)
        CHECK(post_send(link, &value, 8, PROV_SIGNAL) >= 0);
    uint64_t us = cpu_us(), times = times_asleep();
    nanosleep(&nap, NULL);
    us = cpu_us() - us;
    times = times_asleep() - times;
    CHECK(us < 10000 && times < 20, "%lu us of CPU in 300 ms of sleep, %lu times",
          (unsigned long)us, (unsigned long)times);
    barrier_without_polling();
}

/* The bell rings before the ring is full: messages need room until the owner wakes. */
static void busy_ring_wakes_the_sleeper(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);

    if (rank == 1)
        fall_asleep(end);
    barrier_without_polling();
    if (rank == 0) {
        for (uint64_t i = 0; i <= SP_SLOTS / 2; i++)
            CHECK(post_send(link, &i, 8, 0) >= 0);
        pump_until(cell(0) == 1);
    } else {
        while (sem_wait(&end->woken) != 0)
            ;
        set_cell(0, 1);
    }
    pump_until(rank == 0 || link->num_messages == SP_SLOTS / 2 + 1);
    barrier();
}

/* Messages from before arming ring no bell. */
static void arming_finds_what_is_there(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);
    uint64_t value = 1;

    if (rank == 1)
        fall_asleep(end);
    ops->ep_disarm(end->ep);
    barrier_without_polling();
    if (rank == 0)
        CHECK(post_send(link, &value, 8, PROV_SOLICITED) >= 0);
    barrier_without_polling();
    CHECK(rank == 0 || ops->ep_arm(end->ep, PROV_ARM_SOLICITED));
    barrier();
}

/* A ring that is not drained fills up; the sleeper is woken before a message is lost. */
static void full_ring_wakes_the_sleeper(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);

    if (rank == 0) {
        for (uint64_t i = 1; i <= 5000; i++) /* the last messages alone would not wake the owner */
            CHECK(post_send(link, &i, 8, i == 5000 ? PROV_SOLICITED : 0) >= 0);
        settle(link);
        pump_until(cell(0) == 1);
    } else {
        while (link->num_messages < 5000) {
            if (ops->ep_poll(end->ep) == 0 && !ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
                (void)sem_wait(&end->woken);
        }
        set_cell(0, 1);
    }
    barrier();
}

/* An old key that a peer still holds must not open memory registered later. */
static void keys_of_regions_do_not_come_again_soon(void)
{
    enum { COUNT = 2000 };
    static uint32_t keys[COUNT];
    uint8_t *p = shared_pages(4096);

    for (int i = 0; i < COUNT; i++) {
        struct prov_mr *mr;
        CHECK(ops->reg(prov, 0, p, 4096, RW, &mr) == 0);
        keys[i] = mr->rkey;
        ops->dereg(prov, mr);
        for (int j = 0; j < i; j++)
            CHECK(keys[j] != keys[i], "key %#x again, after %d others", keys[i], i - j - 1);
    }
}

static void endpoints_come_and_go(void)
{
    struct end *end = end_open(1 + (uint64_t)rank);
    struct link *link = pair_both(end);
    uint64_t value = 0;

    for (uint64_t i = 0; i < 300; i++) {
        struct end *other = end_open(1000 + i * 2 + (uint64_t)rank);
        barrier();
        if (rank == 0) {
            struct link *l = link_to(other, 1, 1000 + i * 2 + 1);
            CHECK(post_send(l, &value, 8, 0) >= 0);
            settle(l);
        }
        barrier();
        end_close(other);
    }
    CHECK(link->up && !link->down);
    CHECK(post_send(link, &value, 8, 0) >= 0);
    pump_until(link->num_messages == 1);
    settle(link);
    barrier();
}

static void too_many_endpoints_are_an_error(void)
{
    struct prov_ep *eps[SP_MAX_EPS + 1];
    struct prov_callbacks none = {0};
    struct prov_ep_attr attr = {.callbacks = &none};

    for (uint64_t i = 0; i < SP_MAX_EPS; i++) {
        attr.id = i;
        CHECK(ops->ep_open(prov, &attr, &eps[i]) == 0);
    }
    CHECK(ops->ep_open(prov, &attr, &eps[SP_MAX_EPS]) == -EEXIST);
    attr.id = SP_MAX_EPS;
    CHECK(ops->ep_open(prov, &attr, &eps[SP_MAX_EPS]) == -ENOSPC);
    ops->ep_close(eps[7]);
    CHECK(ops->ep_open(prov, &attr, &eps[7]) == 0);
    for (int i = 0; i < SP_MAX_EPS; i++)
        ops->ep_close(eps[i]);
}

/* The bytes that a process may write into the ring of a peer, by mistake or on purpose. */
static void overwrite(struct sp_ring *ring, int how)
{
    if (how == 0)
        memset(ring->slots, 0xff, sizeof(ring->slots));
    else
        __atomic_store_n(&ring->tail, 1ull << 40, __ATOMIC_SEQ_CST);
}

/* A sender learns of it, whether by a message, a notice or data in the ring. */
static void overwritten_ring_ends_the_connection(void)
{
    struct memory m = memory_new(64 << 10, RW);

    memory_publish(&m, 0);
    for (int how = 0; how < 6; how++) {
        uint64_t first = (uint64_t)how * 2 + 1, value = 1;
        struct end *end = end_open(first + (uint64_t)rank);
        struct link *link = pair_as(end, first + (uint64_t)!rank);
        struct prov_xfer x = {.lcl = m.bytes,
                              .lkey = m.mr->lkey,
                              .rmt = memory_of(!rank, 0).addr,
                              .rkey = memory_of(!rank, 0).rkey,
                              .length = how < 4 ? 8 : 32 << 10,
                              .flags = PROV_NOTIFY | PROV_SIGNAL};
        if (rank == 1)
            overwrite(((struct sp_ep *)end->ep)->ring, how % 2);
        barrier_without_polling();
        while (rank == 0 && !link->down) {
            if (how < 2)
                post_send(link, &value, 8, PROV_SIGNAL);
            else
                post_xfer(link, true, &x);
            pump();
        }
        CHECK(rank == 1 || link->reason == PROV_REASON_PEER_DEAD);
        barrier_without_polling();
    }
}

/* The owner of an overwritten ring is notified of deaths all the same. */
static void owner_of_an_overwritten_ring_hears_of_a_death(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);

    if (rank == 0) {
        overwrite(((struct sp_conn *)link->conn)->ring, 1);
        mark_gone(0);
        raise(SIGKILL);
    }
    pump_until(link->down);
    CHECK(link->reason == PROV_REASON_PEER_DEAD);
}

/* Of the frame of these tests: peers.h. */
static void slow_test_that_gets_on_is_not_ended(void)
{
    for (int i = 0; i < 3; i++) {
        barrier();
        if (rank == 0)
            let_deadline_come();
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
#define TEST(name, ranks) {#name, ranks, name, 0}
        TEST(vanished_memory_is_a_fault_of_its_owner, 2),
        TEST(packet_is_seen_as_a_whole, 2),
        TEST(stranger_without_the_key_is_turned_away, 2),
        TEST(nonsense_on_the_socket_does_no_harm, 2),
        TEST(peers_cost_two_descriptors_each, 4),
        TEST(idle_processes_use_no_cpu, 2),
        TEST(arming_finds_what_is_there, 2),
        TEST(busy_ring_wakes_the_sleeper, 2),
        TEST(full_ring_wakes_the_sleeper, 2),
        TEST(overwritten_ring_ends_the_connection, 2),
        {"owner_of_an_overwritten_ring_hears_of_a_death", 2,
         owner_of_an_overwritten_ring_hears_of_a_death, 1},
        TEST(keys_of_regions_do_not_come_again_soon, 1),
        TEST(endpoints_come_and_go, 2),
        TEST(too_many_endpoints_are_an_error, 1),
        TEST(slow_test_that_gets_on_is_not_ended, 2),
    };

    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
