/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare shm|cma|wake CPU0 CPU1 ITERATIONS SIZE...
 *
 * The time of the machine itself, without any library: a ping-pong between two processes, with a
 * receiver that polls the last byte. shm: by memcpy into memory that both have mapped. cma: by
 * process_vm_writev into memory of the other, which is how malloc'ed memory can be reached at all.
 * To be compared with put-mem-lat of utofu-perf. wake: the two sleep and wake each other through
 * eventfds in an epoll, as the background thread of the library sleeps; SIZE is ignored. The two
 * processes run on these CPUs.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

/* Mapped by both. */
struct common {
    volatile int ready[2];
    pid_t pid[2];
    void *arriving[2]; /* address in its own process */
};

static struct common *common;
static pid_t parent;
static int cpus[2];

/* The start of each of the two processes. */
static void start_process(int me)
{
    cpu_set_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (getppid() != parent)
        _exit(1);
    CPU_ZERO(&set);
    CPU_SET((size_t)cpus[me], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        fprintf(stderr, "bare: CPU %d: %s\n", cpus[me], strerror(errno));
        exit(1);
    }
}

static void await_byte(const volatile uint8_t *at, uint8_t value)
{
    for (unsigned int spins = 1; *at != value; spins++)
        if (spins % 4096 == 0)
            sched_yield();
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static void put_bytes(bool cma, int to, const uint8_t *from, uint8_t *shared, size_t size)
{
    struct iovec lcl = {(void *)(uintptr_t)from, size};
    struct iovec rmt = {common->arriving[to], size};

    if (!cma) {
        memcpy(shared, from, size - 1);
        __atomic_store_n(shared + size - 1, from[size - 1], __ATOMIC_RELEASE);
    } else if (process_vm_writev(common->pid[to], &lcl, 1, &rmt, 1, 0) != (ssize_t)size) {
        fprintf(stderr, "bare: process_vm_writev: %s\n", strerror(errno));
        exit(1);
    }
}

/* Process 0 measures. `shared` is mapped by both: the receive areas of 0 and 1. */
static void ping_pong(int me, bool cma, uint8_t *shared, size_t size, long iterations)
{
    long warmup = iterations / 10 + 1;
    uint8_t *from = malloc(size), *own = malloc(size);
    float *samples = malloc((size_t)iterations * sizeof(*samples));

    if (!from || !own || !samples)
        exit(1);
    memset(from, 0, size);
    memset(own, 0, size);
    uint8_t *arriving = cma ? own : shared + (size_t)me * size;
    uint8_t *remote = shared + (size_t)(1 - me) * size;
    common->pid[me] = getpid();
    common->arriving[me] = arriving;
    __atomic_store_n(&common->ready[me], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&common->ready[1 - me], __ATOMIC_ACQUIRE))
        sched_yield();

    double begin = bench_now(), first = begin;
    for (long i = 0; i < warmup + iterations; i++) {
        uint8_t value = (uint8_t)(i % 255 + 1);
        if (i == warmup)
            first = begin;
        if (me == 1)
            await_byte(arriving + size - 1, value);
        from[size - 1] = value;
        put_bytes(cma, 1 - me, from, remote, size);
        if (me == 0)
            await_byte(arriving + size - 1, value);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / 2);
        begin = end;
    }
    if (me == 0)
        bench_print(cma ? "bare-cma" : "bare-shm", size, samples, (size_t)iterations,
                    2.0 * (double)iterations, begin - first);
    free(from);
    free(own);
    free(samples);
}

static void sleep_on(int epoll, int event)
{
    struct epoll_event woken;
    uint64_t count;

    if (epoll_wait(epoll, &woken, 1, -1) != 1 || read(event, &count, sizeof(count)) < 0)
        exit(1);
}

static void signal_event(int event)
{
    uint64_t one = 1;

    if (write(event, &one, sizeof(one)) < 0)
        exit(1);
}

static void run_wake(int me, const int events[2], long iterations)
{
    long warmup = iterations / 10 + 1;
    float *samples = malloc((size_t)iterations * sizeof(*samples));
    struct epoll_event ev = {.events = EPOLLIN};
    int epoll = epoll_create1(0);

    if (!samples || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, events[me], &ev) != 0)
        exit(1);
    double begin = bench_now(), first = begin;
    for (long i = 0; i < warmup + iterations; i++) {
        if (i == warmup)
            first = begin;
        if (me == 1)
            sleep_on(epoll, events[me]);
        signal_event(events[1 - me]);
        if (me == 0)
            sleep_on(epoll, events[me]);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / 2);
        begin = end;
    }
    if (me == 0)
        bench_print("bare-wake", 0, samples, (size_t)iterations, 2.0 * (double)iterations,
                    begin - first);
    free(samples);
}

static int wake_pair(long iterations)
{
    int events[2] = {eventfd(0, 0), eventfd(0, 0)}, status[2];
    pid_t pids[2];

    for (int me = 0; me < 2; me++) {
        pids[me] = fork();
        if (pids[me] == 0) {
            start_process(me);
            run_wake(me, events, iterations);
            exit(0);
        }
    }
    for (int me = 0; me < 2; me++)
        waitpid(pids[me], &status[me], 0);
    return status[0] || status[1];
}

static int measure_pair(bool cma, size_t size, long iterations)
{
    int status, other;
    uint8_t *shared =
        mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || common == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        start_process(1);
        ping_pong(1, cma, shared, size, iterations);
        while (1)
            pause(); /* the parent may still write to shared memory, and then ends this process */
    }
    pid_t measuring = fork();
    if (measuring == 0) {
        start_process(0);
        ping_pong(0, cma, shared, size, iterations);
        exit(0);
    }
    waitpid(measuring, &status, 0);
    kill(child, SIGKILL);
    waitpid(child, &other, 0);
    munmap(shared, 2 * size);
    munmap(common, sizeof(*common));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    int rc = 0;

    bool wakes = argc > 1 && strcmp(argv[1], "wake") == 0;
    if (argc < 6 || (!wakes && strcmp(argv[1], "shm") != 0 && strcmp(argv[1], "cma") != 0)) {
        fprintf(stderr, "usage: bare shm|cma|wake CPU0 CPU1 ITERATIONS SIZE...\n");
        return 2;
    }
    parent = getpid();
    long iterations = bench_number("bare", argv[4], 1, 100000000);
    for (int i = 0; i < 2; i++)
        cpus[i] = (int)bench_number("bare", argv[2 + i], 0, CPU_SETSIZE - 1);
    if (wakes)
        return wake_pair(iterations);
    for (int a = 5; a < argc && rc == 0; a++)
        rc = measure_pair(strcmp(argv[1], "cma") == 0,
                          (size_t)bench_number("bare", argv[a], 1, 1 << 30), iterations);
    return rc;
}
