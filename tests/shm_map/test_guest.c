/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is a guest in the program's process: whatever its other threads, its signals and
 * other processes do with registered memory works as if the library were not there, while the
 * memory is registered, mapped, and deregistered again and again.
 *
 * UT_MAP_GUEST: how often each of it is done.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(map_guest, .timeout = 0);

#define USUAL "UTOFU_SHM_MAP=1" /* the default; pages.c sets another one */

enum {
    SIZE = 64 * PAGE,
    LARGE = 1024 * PAGE,
    WORD = 64,  /* offset of the peer's word in each page */
    OWN = 256,  /* the owner's part of each page begins there */
    BLOCK = 16, /* pages of a system call */
    CONTENT = 1 << 16,
};

/* cells */
enum { STADD, ROUND, DONE, LAST, OVER, COUNT, FAILED, SHORT, WRONG, LATE, ADDRESS };

static uint64_t get(int n)
{
    return atomic_load(ut_cell(n));
}

static void set(int n, uint64_t value)
{
    atomic_store(ut_cell(n), value);
}

static int yes[1]; /* an argument of a test: not NULL */

static uint64_t num_rounds(void)
{
    return ut_env_number("UT_MAP_GUEST", 1000);
}

/*
 * The peer puts a number to a word of each of the first pages when the owner asks for it.
 */

static void be_peer(const struct ut_end *end, utofu_vcq_id_t owner)
{
    uint64_t round = 0, value = 0, *source = (uint64_t *)end->mem;
    struct utofu_mrq_notice notice;

    for (;;) {
        while (get(ROUND) == round)
            ut_relax();
        round = get(ROUND);
        if (get(STADD) == 0)
            return;
        *source = ++value;
        for (size_t page = 0; page < 4; page++) {
            CHECK_OK(utofu_put(end->vcq, owner, end->stadd, get(STADD) + page * PAGE + WORD, 8, 0,
                               UT_LCL, NULL));
            CHECK_OK(ut_await_mrq(end->vcq, &notice));
        }
        set(LAST, value);
        set(DONE, round);
    }
}

static void ask_peer(const struct ut_end *end, utofu_stadd_t stadd)
{
    uint64_t round = get(ROUND) + 1;

    set(STADD, stadd);
    set(ROUND, round);
    while (stadd != 0 && get(DONE) != round) {
        ut_expect_nothing(end->vcq);
        ut_relax();
    }
}

static void check_words(const uint8_t *mem)
{
    for (size_t page = 0; page < 4; page++)
        CHECK_EQ(*(const volatile uint64_t *)(mem + page * PAGE + WORD), get(LAST));
}

static void run_both(void (*owner)(struct ut_end *end, void *arg), void *arg)
{
    struct ut_peer peers[2];
    struct ut_end end;

    ut_open_all(&end, PAGE, peers);
    if (ut_rank == 0) {
        be_peer(&end, peers[1].id);
    } else {
        owner(&end, arg);
        ask_peer(&end, 0);
    }
    ut_close_all(&end);
}

/*
 * A thread that reads a file into the owner's part of the pages
 */

struct reader {
    uint8_t *_Atomic mem; /* NULL: none at the moment */
    size_t size;
    uint8_t *content;
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wait, waits;
    atomic_bool over;
    _Atomic uint64_t reads, rounds, failed, few, wrong;
};

static void read_block(struct reader *r, uint8_t *to, uint64_t n)
{
    const size_t each = PAGE - OWN, from = n * 64 % 4096;
    struct iovec parts[BLOCK];
    ssize_t want = BLOCK * (PAGE - OWN);

    for (size_t i = 0; i < BLOCK; i++)
        parts[i] = (struct iovec){to + i * PAGE + OWN, each};
    ssize_t got = preadv(r->fd, parts, BLOCK, (off_t)from);
    r->failed += got < 0;
    r->few += got >= 0 && got < want;
    for (size_t i = 0; i < BLOCK && got == want; i++)
        r->wrong += memcmp(parts[i].iov_base, r->content + from + i * each, each) != 0;
    r->reads++;
}

static void *read_all_the_time(void *arg)
{
    struct reader *r = arg;

    for (uint64_t n = 0; !r->over; n++) {
        pthread_mutex_lock(&r->lock);
        while (r->wait) {
            r->waits = true;
            pthread_cond_broadcast(&r->changed);
            pthread_cond_wait(&r->changed, &r->lock);
        }
        r->waits = false;
        pthread_mutex_unlock(&r->lock);
        uint8_t *mem = r->mem;
        for (size_t page = 0; mem && page < r->size / PAGE; page += BLOCK)
            read_block(r, mem + page * PAGE, n + page);
        r->rounds++;
    }
    return NULL;
}

static void start_reader(struct reader *r)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->fd = memfd_create("content", MFD_CLOEXEC);
    r->content = malloc(CONTENT);
    for (size_t i = 0; i < CONTENT; i++)
        r->content[i] = (uint8_t)ut_random();
    CHECK_EQ(write(r->fd, r->content, CONTENT), CONTENT);
    CHECK_EQ(pthread_create(&r->thread, NULL, read_all_the_time, r), 0);
}

static void let_reader_wait(struct reader *r, bool wait)
{
    pthread_mutex_lock(&r->lock);
    r->wait = wait;
    pthread_cond_broadcast(&r->changed);
    while (wait && !r->waits)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (wait) /* it has let go of the lock before it sleeps */
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Until it has gone round the memory again. */
static void let_reader_go_round(struct reader *r)
{
    for (uint64_t rounds = r->rounds; r->rounds < rounds + 2;)
        ut_relax();
}

static void end_reader(struct reader *r, bool may_fail)
{
    r->over = true;
    CHECK_EQ(pthread_join(r->thread, NULL), 0);
    CHECK((may_fail || r->failed + r->few == 0) && r->wrong == 0,
          "%lu reads: %lu failed, %lu were short, %lu wrong", (unsigned long)r->reads,
          (unsigned long)r->failed, (unsigned long)r->few, (unsigned long)r->wrong);
    close(r->fd);
    free(r->content);
}

static void check_all_mapped(const uint8_t *mem)
{
    if (pages_can_be_mapped())
        CHECK_EQ(pages_mapped(mem, SIZE), SIZE);
}

/* The time that registrations may take is limited, so not all of these exchange it. */
static bool is_enough(uint64_t rounds, uint64_t mapped)
{
    return rounds >= num_rounds() && (mapped >= num_rounds() / 2 || !pages_can_be_mapped());
}

static void read_into_registered(struct ut_end *end, void *arg)
{
    struct reader r = {.size = SIZE};
    uint8_t *mem = ut_pages(SIZE);
    utofu_stadd_t stadd;

    if (arg)
        memset(mem, 1, SIZE);
    CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
    check_all_mapped(mem);
    r.mem = mem;
    start_reader(&r);
    for (uint64_t n = 0; n < num_rounds() || r.reads < num_rounds(); n++) {
        ask_peer(end, stadd);
        check_words(mem);
    }
    end_reader(&r, false);
    CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
    check_words(mem);
}

static void read_while_peers_put(void *touched)
{
    run_both(read_into_registered, touched);
}

Test(map_guest, another_thread_reads_into_memory_that_peers_put_to)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, read_while_peers_put, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, read_while_peers_put, yes);
}

/* It waits for a condition while the memory is registered, or never. */
static void read_into_changing(struct ut_end *end, void *waits)
{
    struct reader r = {.size = SIZE};
    uint8_t *mem = ut_pages(SIZE);
    uint64_t mapped = 0;
    utofu_stadd_t stadd;

    memset(mem, 1, SIZE);
    r.mem = mem;
    start_reader(&r);
    for (uint64_t n = 0; !is_enough(n, waits ? mapped : n) || r.reads < num_rounds(); n++) {
        if (waits)
            let_reader_wait(&r, true);
        CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
        if (waits) {
            mapped += pages_mapped(mem, SIZE) == SIZE;
            let_reader_wait(&r, false);
        }
        ask_peer(end, stadd);
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        check_words(mem);
        CHECK_EQ(pages_mapped(mem, SIZE), 0);
    }
    end_reader(&r, false);
}

static void read_while_it_changes(void *waits)
{
    run_both(read_into_changing, waits);
}

Test(map_guest, another_thread_reads_into_memory_that_is_registered_again_and_again)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {USUAL}}, read_while_it_changes,
           NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {USUAL}}, read_while_it_changes,
           yes);
}

/* May this process make system calls wait for a page? */
static bool can_hold_calls(void)
{
    int fd = (int)syscall(SYS_userfaultfd, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/*
 * A thread begins to fill a new buffer while another one registers it. If its first system call is
 * in the microseconds in which the missing pages are exchanged, it waits if the process may make it
 * wait, and may fail otherwise: here the two begin at the same moment.
 */
static void read_into_new(struct ut_end *end, void *arg)
{
    struct reader r = {.size = LARGE};
    utofu_stadd_t stadd;
    uint64_t mapped = 0, struck = 0;

    (void)arg;
    start_reader(&r);
    for (uint64_t n = 0; n < num_rounds(); n++) {
        uint8_t *mem = ut_pages(LARGE);
        uint64_t bad = r.failed + r.few;
        r.mem = mem;
        CHECK_OK(utofu_reg_mem(end->vcq, mem, LARGE, 0, &stadd));
        mapped += pages_mapped(mem, LARGE) > 0;
        ask_peer(end, stadd);
        let_reader_go_round(&r);
        struck += r.failed + r.few > bad;
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        check_words(mem);
        r.mem = NULL;
        let_reader_go_round(&r);
        munmap(mem, LARGE);
    }
    end_reader(&r, !can_hold_calls());
    CHECK(struck * 50 <= num_rounds(), "calls failed during %lu registrations",
          (unsigned long)struck);
    printf("%lu of %lu were mapped in part\n", (unsigned long)mapped, (unsigned long)num_rounds());
}

static void read_while_it_is_registered(void *arg)
{
    run_both(read_into_new, arg);
}

Test(map_guest, another_thread_fills_a_buffer_while_it_is_registered)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {USUAL}},
           read_while_it_is_registered, NULL);
}

/*
 * Signals, whose frames the kernel writes to a stack in the memory
 */

enum { STACK = 1 << 20, TICK_US = 200 };

static _Atomic uint64_t ticks;
static atomic_bool stop;

static void count_tick(int signal)
{
    (void)signal;
    ticks++;
}

static void block_ticks(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

/* Goes to ever lower frames, and back. */
static int go_down(int frames)
{
    volatile uint8_t frame[1500];

    frame[0] = (uint8_t)frames;
    return frames > 0 ? go_down(frames - 1) + frame[0] : frame[0];
}

static void *run_on_stack(void *own)
{
    if (own) {
        stack_t stack = {.ss_sp = own, .ss_size = STACK};
        CHECK_EQ(sigaltstack(&stack, NULL), 0);
    }
    block_ticks(SIG_UNBLOCK);
    for (int i = 0; !stop; i++)
        go_down(i % 400);
    return NULL;
}

static pthread_t start_on_stack(uint8_t *mem, bool alternative)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    if (!alternative)
        CHECK_EQ(pthread_attr_setstack(&attr, mem, STACK), 0);
    stop = false;
    CHECK_EQ(pthread_create(&thread, &attr, run_on_stack, alternative ? mem : NULL), 0);
    return thread;
}

static void end_on_stack(pthread_t thread)
{
    stop = true;
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void send_ticks(bool alternative, long us)
{
    struct itimerval every = {{0, us}, {0, us}};
    struct sigaction action = {.sa_handler = count_tick,
                               .sa_flags = SA_RESTART | (alternative ? SA_ONSTACK : 0)};

    block_ticks(SIG_BLOCK);
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void get_signals(void *alternative)
{
    uint8_t *mem = ut_pages(STACK);
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    memset(mem, 0, STACK);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    send_ticks(alternative != NULL, TICK_US);
    pthread_t thread = start_on_stack(mem, alternative != NULL);
    for (uint64_t n = 0; n < num_rounds() || ticks < num_rounds(); n++) {
        CHECK_OK(utofu_reg_mem(vcq, mem, STACK, 0, &stadd));
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    }
    end_on_stack(thread);
    send_ticks(false, 0);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, threads_on_registered_stacks_get_signals)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, get_signals, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, get_signals, yes);
}

/* The lower part of a new stack does not exist yet. */
static void get_signals_on_new(void *alternative)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    uint64_t mapped = 0;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    send_ticks(alternative != NULL, TICK_US / 4);
    for (uint64_t n = 0; n < num_rounds(); n++) {
        uint8_t *mem = ut_pages(STACK);
        pthread_t thread = start_on_stack(mem, alternative != NULL);
        for (uint64_t before = ticks; ticks < before + 1;)
            ut_relax();
        CHECK_OK(utofu_reg_mem(vcq, mem, STACK, 0, &stadd));
        mapped += pages_mapped(mem, STACK) > 0;
        for (uint64_t before = ticks; ticks < before + 1;)
            ut_relax();
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        end_on_stack(thread);
        munmap(mem, STACK);
    }
    send_ticks(false, 0);
    printf("%lu were mapped in part\n", (unsigned long)mapped);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, threads_on_new_stacks_get_signals)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, get_signals_on_new, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, get_signals_on_new, yes);
}

/*
 * Another process, which writes to its own line of each page by cross-memory attach
 */

enum { LINE = 2048, LINE_SIZE = 256, LINES = SIZE / PAGE };

/* Is it written, and read, as a whole? */
static bool attach(bool write, uint64_t at, uint64_t *line)
{
    struct iovec here = {line, LINE_SIZE}, there = {(void *)(uintptr_t)at, LINE_SIZE};
    pid_t pid = ut_pid_of(1);
    ssize_t n = write ? process_vm_writev(pid, &here, 1, &there, 1, 0)
                      : process_vm_readv(pid, &here, 1, &there, 1, 0);

    if (n == LINE_SIZE)
        return true;
    atomic_fetch_add(ut_cell(n < 0 ? FAILED : SHORT), 1);
    return false;
}

static bool has_line(uint64_t at, uint64_t want)
{
    uint64_t line[LINE_SIZE / 8];

    if (!attach(false, at, line))
        return true;
    for (size_t i = 0; i < NUM(line); i++)
        if (line[i] != want)
            return false;
    return true;
}

/* What is written while a page is replaced may be seen a little later. */
static void check_line(uint64_t at, uint64_t want)
{
    if (has_line(at, want))
        return;
    atomic_fetch_add(ut_cell(LATE), 1);
    for (int tries = 0; tries < 200 && !has_line(at, want); tries++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!has_line(at, want))
        atomic_fetch_add(ut_cell(WRONG), 1);
}

/* Before each write, what the last one has written there is still there. */
static void be_other_process(void)
{
    static uint64_t last[LINES];
    uint64_t line[LINE_SIZE / 8];

    for (uint64_t n = 1; !get(OVER); n++) {
        const uint64_t i = n % LINES, at = get(ADDRESS) + i * PAGE + LINE;
        check_line(at, last[i]);
        for (size_t k = 0; k < NUM(line); k++)
            line[k] = n;
        if (attach(true, at, line))
            last[i] = n;
        atomic_fetch_add(ut_cell(COUNT), 1);
    }
}

struct attached {
    bool thread; /* the owner has a thread, which sleeps only while memory is registered */
    bool again;  /* registered again and again */
};

static void register_beside(utofu_vcq_hdl_t vcq, uint8_t *mem, struct reader *r, bool thread,
                            utofu_stadd_t *stadd)
{
    if (thread)
        let_reader_wait(r, true);
    CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, stadd));
    if (thread)
        let_reader_wait(r, false);
}

static void be_attached(struct ut_end *end, void *arg)
{
    const struct attached *a = arg;
    struct reader r = {.size = SIZE};
    uint8_t *mem = ut_pages(SIZE);
    uint64_t mapped = 0, n;
    utofu_stadd_t stadd;

    for (size_t page = 0; page < LINES; page++)
        mem[page * PAGE] = 1;
    if (a->thread)
        start_reader(&r); /* of nothing */
    register_beside(end->vcq, mem, &r, a->thread, &stadd);
    set(ADDRESS, (uintptr_t)mem);
    for (n = 0; !is_enough(n, mapped) || get(COUNT) < 10 * num_rounds(); n++) {
        mapped += pages_mapped(mem, SIZE) == SIZE;
        ask_peer(end, stadd);
        check_words(mem);
        if (a->again) {
            CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
            register_beside(end->vcq, mem, &r, a->thread, &stadd);
        }
    }
    set(OVER, 1);
    if (a->thread)
        end_reader(&r, false);
    CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
    printf("%s, %s: %lu of %lu mapped; %lu writes, %lu failed, %lu short, %lu lost, %lu late\n",
           a->thread ? "threads" : "alone", a->again ? "again" : "once", (unsigned long)mapped,
           (unsigned long)n, (unsigned long)get(COUNT), (unsigned long)get(FAILED),
           (unsigned long)get(SHORT), (unsigned long)get(WRONG), (unsigned long)get(LATE));
    CHECK(get(FAILED) == 0 && get(SHORT) == 0);
    /* A writer that is off its CPU, with pages pinned, longer than an exchange takes writes to the
     * old ones: 6 of 5 million writes on a busy machine. Without care it is one of a hundred. */
    CHECK(a->again ? get(WRONG) * 10000 <= get(COUNT) : get(WRONG) == 0);
}

static void attach_all_the_time(void *arg)
{
    struct ut_peer peers[3];
    struct ut_end end;

    ut_open_all(&end, PAGE, peers);
    if (ut_rank == 0) {
        be_peer(&end, peers[1].id);
    } else if (ut_rank == 1) {
        be_attached(&end, arg);
        ask_peer(&end, 0);
    } else {
        while (get(ADDRESS) == 0)
            ut_relax();
        be_other_process();
    }
    ut_close_all(&end);
}

Test(map_guest, another_process_writes_to_it)
{
    static struct attached stays = {false, false}, alone = {false, true}, threads = {true, true};

    ut_run(&(struct ut_run_opts){.n = 3, .env = {USUAL}}, attach_all_the_time, &stays);
    if (!getenv("T"))
        ut_run(&(struct ut_run_opts){.n = 3, .timeout_s = 200, .env = {USUAL}}, attach_all_the_time,
               &alone);
    ut_run(
        &(struct ut_run_opts){.n = 3, .timeout_s = 200, .env = {USUAL, "UTOFU_TEST=exchange_ms=1"}},
        attach_all_the_time, &alone);
    ut_run(&(struct ut_run_opts){.n = 3, .timeout_s = 200, .env = {USUAL}}, attach_all_the_time,
           &threads);
}

/*
 * Fixed buffers of io_uring: the kernel keeps the pages
 */

struct ring {
    int fd;
    unsigned int *tail, *mask, *array;
    struct io_uring_sqe *entries;
    unsigned int *done_head, *done_mask;
    struct io_uring_cqe *done;
};

static void *map_ring(int fd, size_t size, off_t offset)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);

    CHECK(p != MAP_FAILED);
    return p;
}

static bool open_ring(struct ring *r)
{
    struct io_uring_params p = {0};

    r->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (r->fd < 0)
        return false;
    uint8_t *s = map_ring(r->fd, p.sq_off.array + p.sq_entries * 4, IORING_OFF_SQ_RING);
    uint8_t *c =
        map_ring(r->fd, p.cq_off.cqes + p.cq_entries * sizeof(*r->done), IORING_OFF_CQ_RING);
    r->entries = map_ring(r->fd, p.sq_entries * sizeof(*r->entries), IORING_OFF_SQES);
    r->tail = (void *)(s + p.sq_off.tail);
    r->mask = (void *)(s + p.sq_off.ring_mask);
    r->array = (void *)(s + p.sq_off.array);
    r->done_head = (void *)(c + p.cq_off.head);
    r->done_mask = (void *)(c + p.cq_off.ring_mask);
    r->done = (void *)(c + p.cq_off.cqes);
    return true;
}

/* Reads or writes the file by the fixed buffer. */
static void use_ring(struct ring *r, int opcode, int file, uint8_t *mem)
{
    unsigned int at = *r->tail & *r->mask;

    r->entries[at] = (struct io_uring_sqe){
        .opcode = (uint8_t)opcode, .fd = file, .addr = (uintptr_t)mem, .len = SIZE};
    r->array[at] = at;
    __atomic_store_n(r->tail, *r->tail + 1, __ATOMIC_RELEASE);
    CHECK_EQ(syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0), 1);
    CHECK_EQ(r->done[*r->done_head & *r->done_mask].res, SIZE);
    __atomic_store_n(r->done_head, *r->done_head + 1, __ATOMIC_RELEASE);
}

/* How many bytes differ after a file was read into the buffer, and after the buffer was written. */
static size_t count_wrong_by_ring(struct ring *r, int file, uint8_t *mem)
{
    static uint8_t want[SIZE], got[SIZE];
    size_t wrong = 0;

    for (size_t i = 0; i < SIZE; i += 8)
        *(uint64_t *)(want + i) = ut_random();
    CHECK_EQ(pwrite(file, want, SIZE, 0), SIZE);
    use_ring(r, IORING_OP_READ_FIXED, file, mem);
    for (size_t i = 0; i < SIZE; i++)
        wrong += mem[i] != want[i];
    memset(mem, (int)ut_random(), SIZE);
    use_ring(r, IORING_OP_WRITE_FIXED, file, mem);
    CHECK_EQ(pread(file, got, SIZE, 0), SIZE);
    for (size_t i = 0; i < SIZE; i++)
        wrong += mem[i] != got[i];
    return wrong;
}

static void give_to_ring(struct ring *r, uint8_t *mem)
{
    struct iovec all = {mem, SIZE};

    CHECK_EQ(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &all, 1), 0);
}

static void fixed_buffers(void *arg)
{
    int file = memfd_create("file", MFD_CLOEXEC);
    uint64_t mapped = 0, wrong = 0;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    struct ring r;

    (void)arg;
    CHECK(open_ring(&r));
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (uint64_t n = 0; n < num_rounds() / 2; n++) {
        bool before = n % 2 == 0, after = n % 4 < 2, touched = n % 8 < 4;
        uint8_t *mem = ut_pages(SIZE);
        if (touched)
            memset(mem, 1, SIZE);
        if (before)
            give_to_ring(&r, mem);
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        mapped += pages_mapped(mem, SIZE) == SIZE;
        if (!before)
            give_to_ring(&r, mem);
        wrong += count_wrong_by_ring(&r, file, mem);
        if (!after)
            CHECK_EQ(syscall(SYS_io_uring_register, r.fd, IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        if (after) {
            wrong += count_wrong_by_ring(&r, file, mem);
            CHECK_EQ(syscall(SYS_io_uring_register, r.fd, IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
        }
        munmap(mem, SIZE);
    }
    printf("%lu mapped\n", (unsigned long)mapped);
    CHECK_EQ(wrong, 0);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, fixed_buffers_of_io_uring_stay_the_memory)
{
    struct ring r;

    if (!open_ring(&r))
        ut_skip("io_uring is refused");
    close(r.fd);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, fixed_buffers, NULL);
}

/*
 * Protection, place, and end of the pages
 */

/* A thread that never sleeps: memory is given back while it is in use. */
static void *spin(void *arg)
{
    (void)arg;
    while (!stop)
        ut_relax();
    return NULL;
}

static pthread_t thread_that_spins;

static void start_to_spin(void *wanted)
{
    stop = false;
    if (wanted)
        CHECK_EQ(pthread_create(&thread_that_spins, NULL, spin, NULL), 0);
}

static void end_to_spin(void *wanted)
{
    stop = true;
    if (wanted)
        CHECK_EQ(pthread_join(thread_that_spins, NULL), 0);
}

/* What the kernel says: 'r', 'w', both, or none. */
static bool may(int access, uint8_t *at)
{
    int ends[2];
    uint8_t byte = 0;

    CHECK_EQ(pipe(ends), 0);
    bool ok;
    if (access == PROT_READ) {
        ok = write(ends[1], at, 1) == 1;
    } else {
        CHECK_EQ(write(ends[1], &byte, 1), 1);
        ok = read(ends[0], at, 1) == 1;
    }
    close(ends[0]);
    close(ends[1]);
    return ok;
}

static void protect(void *in_use)
{
    enum { PART = SIZE / 4 };
    const int prots[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE};
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (int round = 0; round < 100; round++) {
        uint8_t *mem = ut_pages(SIZE);
        if (round % 2)
            memset(mem, 1, SIZE);
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        check_all_mapped(mem);
        memset(mem, round + 1, SIZE);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(mprotect(mem + i * PART, PART, prots[i]), 0);
        start_to_spin(in_use);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        end_to_spin(in_use);
        CHECK_EQ(pages_mapped(mem, SIZE), 0);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(may(PROT_READ, mem + i * PART), prots[i] != PROT_NONE);
            CHECK_EQ(may(PROT_WRITE, mem + i * PART + 1), (prots[i] & PROT_WRITE) != 0);
            CHECK_EQ(mprotect(mem + i * PART, PART, PROT_READ | PROT_WRITE), 0);
            mem[i * PART + 1] = (uint8_t)(round + 1);
        }
        CHECK(mem[0] == round + 1 && memcmp(mem, mem + 1, SIZE - 1) == 0, "content");
        munmap(mem, SIZE);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, protection_stays_what_the_program_made_of_it)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, protect, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, protect, yes);
}

static bool is_all(const uint8_t *mem, int value)
{
    return mem[0] == value && memcmp(mem, mem + 1, SIZE - 1) == 0;
}

/* The kernel's flags of a mapping, and its name. "sd" says that a page was written to. */
static void read_flags(const uint8_t *mem, char flags[128], char name[128])
{
    unsigned long long lo = 0, hi = 0;
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[512];

    CHECK(f);
    flags[0] = name[0] = '\0';
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %127s", &lo, &hi, name) >= 2)
            CHECK(lo <= (uintptr_t)mem);
        if (hi > (uintptr_t)mem && sscanf(line, "VmFlags: %127[a-z ]", flags) == 1)
            break;
        if (hi <= (uintptr_t)mem)
            name[0] = '\0';
    }
    fclose(f);
    CHECK(flags[0] != '\0' && hi >= (uintptr_t)mem + SIZE, "no single mapping");
    char *dirty = strstr(flags, " sd");
    if (dirty)
        memmove(dirty, dirty + 3, strlen(dirty + 3) + 1);
}

/* Then the kernel does not let this process hold back its threads in system calls. */
static void give_up_ptrace(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    CHECK_EQ(syscall(SYS_capget, &head, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    CHECK_EQ(syscall(SYS_capset, &head, data), 0);
}

static void give_advice(void *in_use)
{
    static const int advices[][2] = {
        {MADV_NORMAL, MADV_NORMAL},       {MADV_DONTDUMP, MADV_SEQUENTIAL},
        {MADV_DONTFORK, MADV_RANDOM},     {MADV_NOHUGEPAGE, MADV_DONTDUMP},
        {MADV_HUGEPAGE, MADV_WIPEONFORK},
    };
    char before[128], after[128], name[128];
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    size_t num = 0, mapped = 0;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (int round = 0; round < 60; round++) {
        if (round == 10)
            num = pages_num_mappings();
        uint8_t *mem = ut_pages(SIZE);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(madvise(mem, SIZE, advices[round % 5][i]), 0);
        if (round % 3 > 0)
            memset(mem, 1, round % 3 * SIZE / 2);
        read_flags(mem, before, name);
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        mapped += pages_mapped(mem, SIZE) == SIZE; /* registrations may take 5 % of the time */
        memset(mem, round + 1, SIZE);
        start_to_spin(in_use);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        end_to_spin(in_use);
        CHECK(is_all(mem, round + 1));
        read_flags(mem, after, name);
        CHECK(name[0] != '\0' || strcmp(before, after) == 0, "round %d: %s, now %s", round, before,
              after);
        CHECK(name[0] == '\0' || in_use); /* an unprivileged process cannot hold its threads */
        munmap(mem, SIZE);
    }
    CHECK(mapped >= 20 || !pages_can_be_mapped(), "%zu of 60 were mapped", mapped);
    CHECK(pages_num_mappings() < num + 10, "%zu mappings, now %zu", num, pages_num_mappings());
    CHECK_OK(utofu_free_vcq(vcq));
}

static void give_advice_unprivileged(void *in_use)
{
    give_up_ptrace();
    give_advice(in_use);
}

Test(map_guest, advice_stays_what_the_program_gave)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, give_advice, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, give_advice, yes);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, give_advice_unprivileged, NULL);
}

/* Its second half has not been touched when it moves. */
static void be_moved(struct ut_end *end, void *in_use)
{
    utofu_stadd_t stadd;

    for (int round = 0; round < 50; round++) {
        uint8_t *mem = ut_pages(SIZE), *place = ut_pages(SIZE);
        const size_t filled = round % 2 ? SIZE : SIZE / 2;
        CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
        check_all_mapped(mem);
        memset(mem, round + 1, filled);
        CHECK(mremap(mem, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
        start_to_spin(in_use);
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        CHECK_EQ(pages_mapped(place, SIZE), 0);
        CHECK(mmap(mem, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == mem);
        CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
        memset(mem, 0xee, SIZE);
        ask_peer(end, stadd);
        check_words(mem);
        for (size_t i = 0; i < SIZE; i++)
            CHECK_EQ(place[i], i < filled ? round + 1 : 0);
        memset(place, 0x5a, SIZE);
        ask_peer(end, stadd);
        CHECK(is_all(place, 0x5a), "round %d", round);
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        end_to_spin(in_use);
        CHECK(is_all(place, 0x5a), "round %d", round);
        check_words(mem);
        munmap(mem, SIZE);
        munmap(place, SIZE);
    }
}

static void move(void *in_use)
{
    run_both(be_moved, in_use);
}

Test(map_guest, memory_that_moves_while_it_is_registered_is_the_program_s_own)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, move, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, move, yes);
}

/* KiB of the memfd's pages. */
static size_t kib_of_memfd(void)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], name[64] = "";
        struct stat st;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "utofu-mapped") &&
            fstat(fd, &st) == 0)
            return (size_t)st.st_blocks / 2;
    }
    return 0;
}

static void unmap(void *in_use)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (int round = 0; round < 50; round++) {
        uint8_t *mem = ut_pages(SIZE);
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        memset(mem, 1, SIZE);
        if (pages_can_be_mapped())
            CHECK_EQ(kib_of_memfd(), SIZE / 1024);
        size_t gone = round % 3 * SIZE / 2; /* its addresses may be another mapping's soon */
        munmap(mem, gone);
        start_to_spin(in_use);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        end_to_spin(in_use);
        CHECK_EQ(kib_of_memfd(), 0);
        munmap(mem + gone, SIZE - gone);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, memory_that_is_unmapped_while_it_is_registered_is_freed)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, unmap, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, unmap, yes);
}

/*
 * Which memory is mapped
 */

enum { MIB = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static _Atomic pid_t sleeper;

__attribute__((noreturn)) static void *wait_for_condition(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    sleeper = gettid();
    for (;;)
        pthread_cond_wait(&never, &lock);
}

static void *wait_in_nanosleep(void *arg)
{
    (void)arg;
    sleeper = gettid();
    nanosleep(&(struct timespec){.tv_sec = 3600}, NULL);
    return NULL;
}

static void *wait_in_poll(void *arg)
{
    (void)arg;
    sleeper = gettid();
    poll(NULL, 0, 3600 * 1000);
    return NULL;
}

static void *wait_in_read(void *arg)
{
    int ends[2];
    char c;

    (void)arg;
    CHECK_EQ(pipe(ends), 0);
    sleeper = gettid();
    return read(ends[0], &c, 1) == 1 ? NULL : NULL;
}

static void *wait_for_condition_for_a_time(void *arg)
{
    struct timespec end;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 3600;
    pthread_mutex_lock(&lock);
    sleeper = gettid();
    pthread_cond_timedwait(&never, &lock, &end);
    return NULL;
}

static void *wait_for_other_process(void *arg)
{
    sem_t *sem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)arg;
    CHECK(sem != MAP_FAILED && sem_init(sem, 1, 0) == 0);
    sleeper = gettid();
    sem_wait(sem);
    return NULL;
}

static void *wait_for_end_of_thread(void *arg)
{
    pthread_t thread;

    (void)arg;
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_condition, NULL), 0);
    while (sleeper == 0)
        ut_relax();
    sleeper = gettid();
    pthread_join(thread, NULL);
    return NULL;
}

/* Waits until the thread is in a system call that does not end: state S twice. */
static void await_sleep(pid_t tid)
{
    char path[64], text[512];
    int asleep = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    while (asleep < 20) {
        FILE *f = fopen(path, "r");
        CHECK(f && fgets(text, sizeof(text), f));
        fclose(f);
        asleep = strstr(text, ") S ") ? asleep + 1 : 0;
        ut_relax();
    }
}

static void start_thread(void *(*fn)(void *), uint8_t *stack)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    if (stack)
        CHECK_EQ(pthread_attr_setstack(&attr, stack, 256 << 10), 0);
    sleeper = 0;
    CHECK_EQ(pthread_create(&thread, &attr, fn, NULL), 0);
    if (fn == spin)
        return;
    while (sleeper == 0)
        ut_relax();
    await_sleep(sleeper);
}

struct rule {
    const char *what;
    size_t size, touched; /* from the beginning */
    void *(*thread)(void *);
    bool stack_inside;
    int advice; /* of the kernel: see advise() */
    size_t least, most;
};

enum { NO_ADVICE, POLICY, NAME };

/* False: this kernel does not know it. */
static bool advise(int advice, uint8_t *mem, size_t size)
{
    enum { PREFERRED = 1, SET_VMA = 0x53564d41 };
    unsigned long node = 1;

    if (advice == POLICY)
        return syscall(SYS_mbind, mem, size, PREFERRED, &node, 64, 0) == 0;
    if (advice == NAME)
        return prctl(SET_VMA, 0, (unsigned long)mem, size, (unsigned long)"named") == 0;
    return true;
}

/* A huge page of a neighbour, such as a thread's stack, cannot reach into it. */
static uint8_t *lonely_pages(size_t size)
{
    uint8_t *mem = ut_pages(size + 2 * PAGE);

    CHECK(mprotect(mem, PAGE, PROT_NONE) == 0 && mprotect(mem + PAGE + size, PAGE, PROT_NONE) == 0);
    return mem + PAGE;
}

/* Where the kernel lets its own faults wait, memory that threads use is mapped, too: for privileged
 * processes, from Linux 6.8 on. */
static bool memory_in_use_can_be_mapped(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    bool can = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && (api.features >> 16 & 1);

    if (fd >= 0)
        close(fd);
    return can;
}

static void follow_rule(void *arg)
{
    const struct rule *r = arg;
    uint8_t *mem = lonely_pages(r->size);
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    memset(mem, 1, r->touched);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    stop = false;
    if (r->thread)
        start_thread(r->thread, r->stack_inside ? mem : NULL);
    if (advise(r->advice, mem, r->size)) {
        CHECK_OK(utofu_reg_mem(vcq, mem, r->size, 0, &stadd));
        size_t mapped = pages_mapped(mem, r->size);
        bool any = r->thread && r->touched <= 64 * MIB && memory_in_use_can_be_mapped();
        if (pages_can_be_mapped())
            CHECK(mapped >= (any ? r->size : r->least) && mapped <= (any ? r->size : r->most),
                  "%s: %zu of %zu bytes", r->what, mapped, r->size);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        CHECK_EQ(pages_mapped(mem, r->size), 0);
    }
    stop = true;
    _exit(0); /* threads that sleep for an hour */
}

static void follow_rule_unprivileged(void *arg)
{
    give_up_ptrace();
    follow_rule(arg);
}

static struct rule rules[] = {
    {"untouched, a thread runs", MIB, 0, spin, false, 0, MIB, MIB},
    {"touched, no thread", MIB, MIB, NULL, false, 0, MIB, MIB},
    {"touched, a thread runs", MIB, MIB, spin, false, 0, 0, 0},
    {"half touched, a thread runs", 2 * MIB, MIB, spin, false, 0, 0, 0},
    {"touched, condition", MIB, MIB, wait_for_condition, false, 0, MIB, MIB},
    {"touched, condition with a time", MIB, MIB, wait_for_condition_for_a_time, false, 0, 0, 0},
    {"touched, shared semaphore", MIB, MIB, wait_for_other_process, false, 0, 0, 0},
    {"touched, end of a thread", MIB, MIB, wait_for_end_of_thread, false, 0, MIB, MIB},
    {"touched, nanosleep", MIB, MIB, wait_in_nanosleep, false, 0, 0, 0},
    {"touched, poll", MIB, MIB, wait_in_poll, false, 0, 0, 0},
    {"touched, read", MIB, MIB, wait_in_read, false, 0, 0, 0},
    {"much is touched", 65 * MIB, 65 * MIB, NULL, false, 0, 0, 0},
    {"half of much is touched", 140 * MIB, 70 * MIB, NULL, false, 0, 70 * MIB - PAGE, 70 * MIB},
    {"half touched", 65 * MIB, 65 * MIB / 2, NULL, false, 0, 65 * MIB / 2 - PAGE, 65 * MIB},
    {"stack inside", MIB, MIB, wait_for_condition, true, 0, 0, 0},
    {"policy", MIB, MIB, NULL, false, POLICY, 0, 0},
    {"policy, untouched", MIB, 0, NULL, false, POLICY, 0, 0},
    {"name", MIB, MIB, NULL, false, NAME, 0, 0},
};

Test(map_guest, memory_is_mapped_by_the_rules)
{
    static struct rule alone = {"one process", MIB, MIB, NULL, false, 0, 0, 0};

    for (size_t i = 0; i < NUM(rules); i++) {
        ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, follow_rule, &rules[i]);
        ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, follow_rule_unprivileged, &rules[i]);
    }
    ut_run(&(struct ut_run_opts){.n = 1, .env = {USUAL}}, follow_rule, &alone);
}

/* Starts the thread of a library, and registers touched memory. */
static void register_beside_library(void *name)
{
    uint8_t *mem = ut_pages(SIZE);
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    char path[512];

    snprintf(path, sizeof(path), "%s/lib%s.so", SLEEPERS, (const char *)name);
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library != NULL, "%s", dlerror());
    int (*start)(void) = (int (*)(void))(uintptr_t)dlsym(library, "start_sleeper");
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    memset(mem, 1, SIZE);
    CHECK(start && start() == 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
    if (pages_can_be_mapped())
        CHECK_EQ(pages_mapped(mem, SIZE),
                 strcmp(name, "other") == 0 && !memory_in_use_can_be_mapped() ? 0 : SIZE);
    CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    CHECK_EQ(pages_mapped(mem, SIZE), 0);
    _exit(0);
}

static void register_unprivileged_beside_library(void *name)
{
    give_up_ptrace();
    register_beside_library(name);
}

Test(map_guest, helper_threads_of_mpi_libraries_do_not_count)
{
    static char helper[] = "ucs_fake", other[] = "other";
    ut_body_fn *bodies[] = {register_beside_library, register_unprivileged_beside_library};

    for (size_t i = 0; i < NUM(bodies); i++) {
        ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, bodies[i], helper);
        ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, bodies[i], other);
    }
}

/*
 * After deregistration
 */

static void await_child(pid_t pid, int go, int ready)
{
    char c = 0;
    int status;

    (void)ready;
    CHECK(write(go, &c, 1) == 1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

/* Parent and child both write after fork(), and see only what they wrote themselves. */
static void share_with_child(uint8_t *mem, int value)
{
    int to_child[2], to_parent[2];
    char c = 0;

    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = is_all(mem, value);
        memset(mem, value + 1, SIZE / 2);
        ok = ok && write(to_parent[1], &c, 1) == 1 && read(to_child[0], &c, 1) == 1;
        for (size_t i = 0; i < SIZE; i++)
            ok = ok && mem[i] == (i < SIZE / 2 ? value + 1 : value);
        _exit(!ok);
    }
    CHECK(read(to_parent[0], &c, 1) == 1);
    CHECK(is_all(mem, value), "the parent sees what the child wrote");
    memset(mem, value + 2, SIZE);
    await_child(pid, to_child[1], to_parent[0]);
    CHECK(is_all(mem, value + 2));
    close(to_child[0]);
    close(to_child[1]);
    close(to_parent[0]);
    close(to_parent[1]);
}

static void go_on_after(void *in_use)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (int round = 0; round < 50; round++) {
        uint8_t *mem = ut_pages(SIZE);
        if (round % 2)
            memset(mem, 1, SIZE);
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        check_all_mapped(mem);
        memset(mem, round + 1, SIZE);
        start_to_spin(in_use);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        end_to_spin(in_use);
        share_with_child(mem, round + 1);
        CHECK_EQ(madvise(mem, SIZE, MADV_DONTNEED), 0);
        CHECK(is_all(mem, 0), "dropped pages are not zero");
        munmap(mem, SIZE);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(map_guest, deregistered_memory_is_like_any_other)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, go_on_after, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, go_on_after, yes);
}

/*
 * The limit of the size of files, beyond which a signal ends the process
 */

struct limit {
    rlim_t soft, hard;
    bool later; /* set after the first registration */
};

static void set_limit(const struct limit *l)
{
    struct rlimit now;

    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = l->soft;
    now.rlim_max = l->hard == RLIM_INFINITY ? now.rlim_max : l->hard;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static void be_limited(struct ut_end *end, void *arg)
{
    const struct limit *l = arg;
    uint8_t *mem = ut_pages(SIZE);
    utofu_stadd_t stadd;

    if (l->later) { /* mapped before, given back after */
        memset(mem, 7, SIZE);
        CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
        CHECK_EQ(pages_mapped(mem, SIZE), pages_can_be_mapped() ? SIZE : 0);
        set_limit(l);
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        CHECK(is_all(mem, 7), "other bytes than before");
    }
    for (int round = 0; round < 20; round++) {
        memset(mem, round, SIZE);
        CHECK_OK(utofu_reg_mem(end->vcq, mem, SIZE, 0, &stadd));
        CHECK_EQ(pages_mapped(mem, SIZE), 0);
        ask_peer(end, stadd);
        check_words(mem);
        CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
        check_words(mem);
        CHECK_EQ(mem[0], round);
    }
}

static void limit_size(void *arg)
{
    const struct limit *l = arg;

    if (!l->later)
        set_limit(l);
    run_both(be_limited, arg);
}

Test(map_guest, size_of_files_is_limited)
{
    static struct limit soft = {100000 << 10, RLIM_INFINITY, false},
                        hard = {100000 << 10, 100000 << 10, false},
                        later = {1 << 20, RLIM_INFINITY, true}, none = {0, 0, true};

    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, limit_size, &soft);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, limit_size, &hard);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, limit_size, &later);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager"}}, limit_size, &later);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL}}, limit_size, &none);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager"}}, limit_size, &none);
}

/* Opens as many VCQs as there are. */
static void open_many(void *arg)
{
    const struct limit *l = arg;
    utofu_vcq_hdl_t vcq;
    int rc = 0, num = 0;

    set_limit(l);
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS && rc == 0; tni++) {
        while ((rc = utofu_create_vcq(tni, 0, &vcq)) == 0)
            num++;
        printf("tni %u: %d, %s\n", tni, num, ut_rc_name(rc));
        rc = rc == UTOFU_ERR_FULL ? 0 : rc;
    }
    atomic_store(ut_cell(COUNT), (uint64_t)num);
}

/* What it prints for a limit; *num: VCQs that could be opened. */
static void open_within(rlim_t size, const char *line, bool any)
{
    struct limit l = {size, RLIM_INFINITY, false};
    struct ut_outcome out[2];
    char report[4096];

    if (!ut_run_collect(&(struct ut_run_opts){.n = 2, .env = {USUAL, "UTOFU_LOG_LEVEL=error"}},
                        open_many, &l, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    cr_assert(strstr(out[0].output, line), "no line in: %s", out[0].output);
    cr_assert(any == !strstr(out[0].output, "tni 0: 0,"), "%s", out[0].output);
}

Test(map_guest, size_of_files_is_limited_to_less_than_the_library_needs)
{
    open_within(4096, "the size of files is limited: ulimit -f unlimited", false);
    open_within(66 << 20, "the size of files is limited (ulimit -f)", true);
}

static void eager(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    CHECK_EQ(pages_mapped(end.mem, LARGE), pages_can_be_mapped() ? LARGE : 0);
    ut_close_all(&end);
}

Test(map_guest, eager_maps_it_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager"}}, eager, NULL);
}

/* The core locks registered pages: they are exchanged before that. */
static void locked(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, SIZE, peers);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they replace mlock() */
    CHECK(pages_status_kib("VmLck:") >= SIZE / 1024, "it is not locked");
#endif
    CHECK_EQ(pages_mapped(end.mem, SIZE), pages_can_be_mapped() ? SIZE : 0);
    ut_close_all(&end);
}

Test(map_guest, memory_that_the_core_locks_is_mapped_at_registration)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {USUAL, "UTOFU_SWAP_PROTECT=1"}}, locked, NULL);
}

/*
 * Writers of all kinds while the memory is registered: every process puts to its own lines of each
 * other's region, a thread of the owner stores to its own lines, and all gets read what was written
 * last.
 */

enum { WRITERS = 4, SLOT = SIZE / 8 };

static void *store_all_the_time(void *mem)
{
    volatile uint64_t *own = (volatile uint64_t *)((uint8_t *)mem + WRITERS * SLOT);

    for (uint64_t n = 1; !stop; n++) {
        for (int i = 0; i < SLOT / PAGE; i++)
            own[i * PAGE / 8] = n;
        for (int i = 0; i < SLOT / PAGE; i++)
            if (own[i * PAGE / 8] != n)
                return (void *)own;
    }
    return NULL;
}

/* The process's slot at another one: written with the number of the round, and read back. */
static void write_and_read(const struct ut_end *end, utofu_vcq_id_t id, utofu_stadd_t there,
                           uint8_t *buffer, utofu_stadd_t stadd, int round)
{
    size_t size = 8 + ut_random_below(SLOT - 8), at = ut_random_below(SLOT - size + 1);
    size_t slot = (size_t)ut_rank * SLOT + at;
    struct utofu_mrq_notice notice;

    memset(buffer, round, size);
    CHECK_OK(utofu_put(end->vcq, id, stadd, there + slot, size, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    memset(buffer, 0, size);
    CHECK_OK(utofu_get(end->vcq, id, stadd, there + slot, size, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    CHECK(buffer[0] == (uint8_t)round && memcmp(buffer, buffer + 1, size - 1) == 0,
          "round %d: %zu bytes at %zu", round, size, slot);
}

static void raced(void *arg)
{
    const int rounds = (int)num_rounds() / 250;
    struct ut_peer peers[WRITERS], all[WRITERS], mine = {0};
    uint8_t *mem = ut_pages(SIZE);
    pthread_t thread;
    struct ut_end end;
    void *wrong;

    ut_open_all(&end, SIZE, peers);
    mine.id = end.id;
    stop = false;
    CHECK_EQ(pthread_create(&thread, NULL, store_all_the_time, mem), 0);
    for (int round = 1; round <= rounds; round++) {
        CHECK_OK(utofu_reg_mem(end.vcq, mem, SIZE, 0, &mine.stadd));
        ut_allgather(&mine, all, sizeof(mine));
        for (int i = 0; i < 1000; i++) {
            int other = (ut_rank + 1 + (int)ut_random_below(WRITERS - 1)) % WRITERS;
            write_and_read(&end, all[other].id, all[other].stadd, end.mem, end.stadd, i);
        }
        atomic_fetch_add(ut_cell(DONE), 1);
        while (get(DONE) < (uint64_t)round * WRITERS)
            ut_expect_nothing(end.vcq);
        atomic_fetch_add(ut_cell(COUNT), pages_mapped(mem, SIZE) > 0);
        ut_barrier();
        CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
        ut_barrier();
    }
    stop = true;
    CHECK_EQ(pthread_join(thread, &wrong), 0);
    CHECK(wrong == NULL, "a store of the owner was lost at offset %zu",
          (size_t)((uint8_t *)wrong - mem));
    ut_close_all(&end);
    CHECK(get(COUNT) > 0 || !arg || !pages_can_be_mapped(), "nothing was exchanged");
}

Test(map_guest, nothing_is_lost_while_memory_is_registered)
{
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {USUAL}}, raced, NULL);
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {"UTOFU_SHM_MAP=eager"}},
           raced, yes);
    ut_run(&(struct ut_run_opts){.n = WRITERS, .timeout_s = 300, .env = {USUAL, "UTOFU_SHM_CMA=0"}},
           raced, NULL);
}

/*
 * Random programs: what a program may do with an arena of which it registers parts, against a model
 */

enum { ARENA = 64, REGIONS = 6, ACTIONS = 40 }; /* pages; regions at once; of a round */

struct program {
    uint8_t *arena;
    uint8_t model[ARENA]; /* the value of each page's bytes */
    struct {
        utofu_stadd_t stadd;
        size_t first, num;
    } regions[REGIONS];
    utofu_vcq_hdl_t vcq;
};

static bool is_registered(const struct program *p, size_t page)
{
    for (int i = 0; i < REGIONS; i++)
        if (p->regions[i].stadd && page - p->regions[i].first < p->regions[i].num)
            return true;
    return false;
}

static void check_arena(const struct program *p)
{
    for (size_t i = 0; i < ARENA; i++) {
        const uint8_t *page = p->arena + i * PAGE;
        CHECK(page[0] == p->model[i] && memcmp(page, page + 1, PAGE - 1) == 0,
              "page %zu: %d, %d at its end, wanted %d", i, page[0], page[PAGE - 1], p->model[i]);
    }
}

static void deregister_one(struct program *p, int i)
{
    if (p->regions[i].stadd)
        CHECK_OK(utofu_dereg_mem(p->vcq, p->regions[i].stadd, 0));
    p->regions[i].stadd = 0;
}

static void register_one(struct program *p)
{
    int i = (int)ut_random_below(REGIONS);

    deregister_one(p, i);
    p->regions[i].first = ut_random_below(ARENA);
    p->regions[i].num = 1 + ut_random_below(ARENA - p->regions[i].first);
    CHECK_OK(utofu_reg_mem(p->vcq, p->arena + p->regions[i].first * PAGE, p->regions[i].num * PAGE,
                           0, &p->regions[i].stadd));
}

/* A peer of one word: this process puts to itself where there is no other. */
static void put_one(struct program *p, const struct ut_end *end)
{
    int i = (int)ut_random_below(REGIONS);
    struct utofu_mrq_notice notice;

    if (!p->regions[i].stadd)
        return;
    size_t page = ut_random_below(p->regions[i].num);
    p->model[p->regions[i].first + page] = (uint8_t)ut_random();
    memset(end->mem, p->model[p->regions[i].first + page], PAGE);
    CHECK_OK(utofu_put(end->vcq, end->id, end->stadd, p->regions[i].stadd + page * PAGE, PAGE, 0,
                       UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

static void read_some(struct program *p, int file)
{
    static uint8_t content[ARENA * PAGE];
    size_t first = ut_random_below(ARENA), num = 1 + ut_random_below(ARENA - first);
    uint8_t value = (uint8_t)ut_random();

    memset(content, value, num * PAGE);
    CHECK_EQ(pwrite(file, content, num * PAGE, 0), num * PAGE);
    CHECK_EQ(pread(file, p->arena + first * PAGE, num * PAGE, 0), num * PAGE);
    memset(p->model + first, value, num);
    CHECK_EQ(pwrite(file, p->arena, ARENA * PAGE, 0), ARENA * PAGE);
}

/* Not of what is registered: a program must not. */
static void drop_or_replace(struct program *p)
{
    size_t page = ut_random_below(ARENA);
    uint8_t *at = p->arena + page * PAGE;

    if (is_registered(p, page))
        return;
    if (ut_random_below(2))
        CHECK_EQ(madvise(at, PAGE, MADV_DONTNEED), 0);
    else
        CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == at);
    p->model[page] = 0;
}

/* Away and back, also of what is registered. */
static void move_some(struct program *p)
{
    size_t first = ut_random_below(ARENA), num = 1 + ut_random_below(ARENA - first);

    num = num < 8 ? num : 8;
    for (size_t i = first; i < first + num; i++) { /* mremap() takes one mapping */
        uint8_t *at = p->arena + i * PAGE, *place = ut_pages(PAGE);
        CHECK(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
        if (ut_random_below(4) == 0)
            deregister_one(p, (int)ut_random_below(REGIONS));
        CHECK(mremap(place, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    }
}

static void protect_some(struct program *p)
{
    size_t first = ut_random_below(ARENA), num = 1 + ut_random_below(ARENA - first);
    int i = (int)ut_random_below(REGIONS);

    CHECK_EQ(mprotect(p->arena + first * PAGE, num * PAGE, PROT_READ), 0);
    deregister_one(p, i);
    CHECK_EQ(may(PROT_WRITE, p->arena + (first + ut_random_below(num)) * PAGE), false);
    CHECK_EQ(mprotect(p->arena + first * PAGE, num * PAGE, PROT_READ | PROT_WRITE), 0);
}

static void act(struct program *p, const struct ut_end *end, int file)
{
    size_t page = ut_random_below(ARENA);

    switch (ut_random_below(9)) {
    case 0:
    case 1:
        register_one(p);
        break;
    case 2:
        deregister_one(p, (int)ut_random_below(REGIONS));
        break;
    case 3:
        put_one(p, end);
        break;
    case 4:
        read_some(p, file);
        break;
    case 5:
        drop_or_replace(p);
        break;
    case 6:
        protect_some(p);
        break;
    case 7:
        move_some(p);
        break;
    default:
        p->model[page] = (uint8_t)ut_random();
        memset(p->arena + page * PAGE, p->model[page], PAGE);
    }
}

static void be_random(void *in_use)
{
    int file = memfd_create("file", MFD_CLOEXEC);
    struct ut_peer peers[2];
    struct ut_end end;

    ut_open_all(&end, PAGE, peers);
    for (uint64_t round = 0; round < num_rounds() / 10; round++) {
        struct program p = {.arena = lonely_pages(ARENA * PAGE), .vcq = end.vcq};
        bool beside = in_use && ut_random_below(2);
        for (int i = 0; i < ACTIONS; i++) {
            bool spins = beside && ut_random_below(2);
            start_to_spin(spins ? yes : NULL);
            act(&p, &end, file);
            check_arena(&p);
            end_to_spin(spins ? yes : NULL);
        }
        for (int i = 0; i < REGIONS; i++)
            deregister_one(&p, i);
        check_arena(&p);
        CHECK_EQ(pages_mapped(p.arena, ARENA * PAGE), 0);
        munmap(p.arena, ARENA * PAGE);
    }
    ut_close_all(&end);
}

Test(map_guest, random_programs_find_what_they_left)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {USUAL}}, be_random, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {USUAL}}, be_random, yes);
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 300, .env = {"UTOFU_SHM_MAP=eager"}},
           be_random, yes);
}
