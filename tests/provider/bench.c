/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of a provider's operations beside bare process_vm_writev() between the same two processes.
 * Usage: bench [-p provider] [name...]. Prints; judges nothing.
 */
#include "peers.h"

#include <string.h>
#include <sys/uio.h>
#include <time.h>

enum { RW = PROV_ACCESS_READ | PROV_ACCESS_WRITE, REPEAT = 5 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct link *pair_both(struct end *end)
{
    struct link *link = pair_up(end, (uint64_t)!rank + 1);

    barrier(); /* the connection is up at both ends */
    return link;
}

static double time_writes(struct link *link, const struct memory *m, uint32_t n, int count)
{
    struct remote r = memory_of(1, 0);
    double t0 = now();

    for (int i = 0; i < count; i++)
        CHECK(post_write(link, m, 0, r.addr, r.rkey, n, 0, 0) >= 0);
    settle(link);
    return (now() - t0) / count;
}

static double time_bare(const struct memory *m, uint32_t n, int count)
{
    struct remote r = memory_of(1, 0);
    struct iovec lcl = {.iov_base = m->bytes, .iov_len = n};
    struct iovec rmt = {.iov_base = (void *)(uintptr_t)r.addr, .iov_len = n};
    double t0 = now();

    for (int i = 0; i < count; i++) {
        if (process_vm_writev((pid_t)world->pids[1], &lcl, 1, &rmt, 1, 0) != (ssize_t)n)
            return 0;
    }
    return (now() - t0) / count;
}

static double best(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static void writes(void)
{
    static const uint32_t sizes[] = {8, 64, 256, 1024, 4096, 65536, 1 << 20};
    struct end *end = end_open((uint64_t)rank + 1);
    struct memory m = memory_new(1 << 20, RW);

    memory_publish(&m, 0);
    struct link *link = pair_both(end);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && rank == 0; i++) {
        uint32_t n = sizes[i];
        int count = n > 4096 ? (int)((256u << 20) / n / 4) : 40000;
        double w = 0, b = 0;
        for (int k = 0; k < REPEAT; k++) {
            w = best(w, time_writes(link, &m, n, count));
            b = best(b, time_bare(&m, n, count));
        }
        printf("     write %7u bytes: %9.1f ns, %6.2f GB/s; bare %9.1f ns; ratio %.3f\n", n,
               w * 1e9, n / w * 1e-9, b * 1e9, b > 0 ? w / b : 0);
    }
    barrier();
}

static void messages(void)
{
    static const uint32_t sizes[] = {8, 64, 1024};
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link = pair_both(end);
    uint8_t message[1024] = {0};
    uint64_t seen = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int count = 20000;
        double t0 = now();
        for (int k = 0; k < count; k++) {
            if (rank == 0)
                CHECK(post_send(link, message, sizes[i], 0) >= 0);
            seen++;
            while (link->num_messages < seen)
                ops->ep_poll(end->ep);
            if (rank == 1)
                CHECK(post_send(link, message, sizes[i], 0) >= 0);
        }
        if (rank == 0)
            printf("     message ping-pong %4u bytes: %7.1f ns one way\n", sizes[i],
                   (now() - t0) / count / 2 * 1e9);
        barrier();
    }
    settle(link);
    barrier();
}

/* Ping-pong of puts with notices. */
static void notices(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    struct memory m = memory_new(4096, RW);
    const int count = 20000;

    memory_publish(&m, 0);
    struct link *link = pair_both(end);
    struct remote r = memory_of(!rank, 0);
    double t0 = now();
    for (int k = 1; k <= count; k++) {
        if (rank == 0)
            CHECK(post_write(link, &m, 0, r.addr + 64, r.rkey, 8, PROV_NOTIFY, 1) >= 0);
        while (link->num_notices < (uint64_t)k)
            ops->ep_poll(end->ep);
        if (rank == 1)
            CHECK(post_write(link, &m, 0, r.addr + 64, r.rkey, 8, PROV_NOTIFY, 1) >= 0);
    }
    if (rank == 0)
        printf("     write+notice ping-pong 8 bytes: %7.1f ns one way\n",
               (now() - t0) / count / 2 * 1e9);
    settle(link);
    barrier();
}

static void empty_polls(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    const int count = 10000000;
    double t = 0;

    for (int k = 0; k < REPEAT; k++) {
        double t0 = now();
        for (int i = 0; i < count; i++)
            ops->ep_poll(end->ep);
        t = best(t, (now() - t0) / count);
    }
    printf("     empty poll: %.2f ns\n", t * 1e9);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"empty_polls", 1, empty_polls, 0},
        {"writes", 2, writes, 0},
        {"messages", 2, messages, 0},
        {"notices", 2, notices, 0},
    };

    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
