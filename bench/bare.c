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

/* What is measured, and what one of the two processes has for it. */
static struct {
    bool by_cma, by_event;
    size_t size;
    long iterations;
    uint8_t *shared; /* mapped by both: the receive areas of 0 and 1 */
    int events[2];
} pair;
static struct {
    int me, epoll;
    uint8_t *from, *arriving, *remote;
} own;

static void fail_with(const char *what)
{
    fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_byte(uint8_t value)
{
    size_t last = pair.size - 1;
    struct iovec lcl = {own.from, pair.size}, rmt = {common->arriving[1 - own.me], pair.size};

    own.from[last] = value;
    if (!pair.by_cma) {
        memcpy(own.remote, own.from, last);
        __atomic_store_n(own.remote + last, value, __ATOMIC_RELEASE);
    } else if (process_vm_writev(common->pid[1 - own.me], &lcl, 1, &rmt, 1, 0) !=
               (ssize_t)pair.size) {
        fail_with("process_vm_writev");
    }
}

static void await_byte(uint8_t value)
{
    const volatile uint8_t *at = own.arriving + pair.size - 1;

    for (unsigned int spins = 1; *at != value; spins++)
        if (spins % 4096 == 0)
            sched_yield();
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static void send_event(uint8_t value)
{
    uint64_t one = 1;

    (void)value;
    if (write(pair.events[1 - own.me], &one, sizeof(one)) < 0)
        fail_with("eventfd");
}

static void await_event(uint8_t value)
{
    struct epoll_event woken;
    uint64_t count;

    (void)value;
    if (epoll_wait(own.epoll, &woken, 1, -1) != 1 ||
        read(pair.events[own.me], &count, sizeof(count)) < 0)
        fail_with("epoll");
}

/* Process 0 measures. */
static void measure_ping_pong(const char *name, void (*send)(uint8_t value),
                              void (*receive)(uint8_t value))
{
    long warmup = pair.iterations / 10 + 1;
    float *samples = calloc((size_t)pair.iterations, sizeof(*samples));
    double begin = bench_now(), first = begin;

    if (!samples)
        fail_with("memory");
    for (long i = 0; i < warmup + pair.iterations; i++) {
        uint8_t value = (uint8_t)(i % 255 + 1);
        if (i == warmup)
            first = begin;
        if (own.me == 1)
            receive(value);
        send(value);
        if (own.me == 0)
            receive(value);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / 2);
        begin = end;
    }
    if (own.me == 0)
        bench_print(name, pair.size, samples, (size_t)pair.iterations,
                    2.0 * (double)pair.iterations, begin - first);
    free(samples);
}

static void await_other(void)
{
    common->pid[own.me] = getpid();
    common->arriving[own.me] = own.arriving;
    __atomic_store_n(&common->ready[own.me], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&common->ready[1 - own.me], __ATOMIC_ACQUIRE))
        sched_yield();
}

static void be_process(int me)
{
    struct epoll_event ev = {.events = EPOLLIN};
    cpu_set_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (getppid() != parent)
        _exit(1);
    CPU_ZERO(&set);
    CPU_SET((size_t)cpus[me], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        fail_with("this CPU");
    own.me = me;
    own.epoll = epoll_create1(0);
    own.from = calloc(2, pair.size + 1);
    if (own.epoll < 0 || !own.from ||
        epoll_ctl(own.epoll, EPOLL_CTL_ADD, pair.events[me], &ev) != 0)
        fail_with("set-up");
    own.arriving = pair.by_cma ? own.from + pair.size : pair.shared + (size_t)me * pair.size;
    own.remote = pair.shared + (size_t)(1 - me) * pair.size;
    await_other();
    if (pair.by_event)
        measure_ping_pong("bare-wake", send_event, await_event);
    else
        measure_ping_pong(pair.by_cma ? "bare-cma" : "bare-shm", send_byte, await_byte);
    while (me == 1)
        pause(); /* process 0 may still write to its memory; the parent then ends this process */
    exit(0);
}

static void *map_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        fail_with("mmap");
    return p;
}

static int measure_pair(size_t size)
{
    pid_t pids[2];
    int status;

    pair.size = size;
    pair.shared = map_shared(2 * size + 1);
    common = map_shared(sizeof(*common));
    for (int i = 0; i < 2; i++)
        pair.events[i] = eventfd(0, 0);
    for (int me = 0; me < 2; me++)
        if ((pids[me] = fork()) == 0)
            be_process(me);
    waitpid(pids[0], &status, 0);
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    int rc = 0;

    pair.by_cma = argc > 1 && strcmp(argv[1], "cma") == 0;
    pair.by_event = argc > 1 && strcmp(argv[1], "wake") == 0;
    if (argc < 6 || (!pair.by_event && !pair.by_cma && strcmp(argv[1], "shm") != 0)) {
        fprintf(stderr, "usage: bare shm|cma|wake CPU0 CPU1 ITERATIONS SIZE...\n");
        return 2;
    }
    parent = getpid();
    pair.iterations = bench_number("bare", argv[4], 1, 100000000);
    for (int i = 0; i < 2; i++)
        cpus[i] = (int)bench_number("bare", argv[2 + i], 0, CPU_SETSIZE - 1);
    if (pair.by_event)
        return measure_pair(0);
    for (int a = 5; a < argc && rc == 0; a++)
        rc = measure_pair((size_t)bench_number("bare", argv[a], 1, 1 << 30));
    return rc;
}
