/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by cross-memory attach and the exchange of the pages that they reach exclude each other:
 * such a copy would fail, or write to pages that go.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

TestSuite(map_exchange, .timeout = 0);

#define PAYS "UTOFU_SHM_MAP=1" /* the default; pages.c sets another one */
#define SLOW "UTOFU_TEST=exchange_ms=50"

enum {
    PART = 64 << 10, /* the least that is exchanged */
    WORDS = PART / 8,
    TO_PAY = 300, /* uses of a part that pay */
    STEPS = 4,
    LARGE = 64 << 20,
    STEP = LARGE / STEPS,
};

static uint64_t get_cell(int n)
{
    return atomic_load(ut_cell(n));
}

static void put(const struct ut_end *end, const struct ut_peer *to, utofu_stadd_t lcl, size_t at,
                size_t size)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(utofu_put(end->vcq, to->id, lcl, to->stadd + at, size, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

/*
 * A copy begins while an exchange is under way, which takes long here.
 */

/* Puts the number of the put to a word after the other, round after round, until the part is
 * mapped. Returns how many puts that were. */
static uint64_t write_until_mapped(const struct ut_end *end, const struct ut_peer *to, size_t part,
                                   int step)
{
    uint64_t *source = (uint64_t *)end->mem, n = 0;
    bool waits = pages_can_be_mapped();

    for (; n < WORDS || (waits && get_cell(0) < (uint64_t)step); n++) {
        size_t at = n % WORDS * 8;
        source[n % WORDS] = n;
        put(end, to, end->stadd + at, part + at, 8);
    }
    return n;
}

static void poll_until_mapped(const struct ut_end *end, const void *part)
{
    while (pages_can_be_mapped() && pages_mapped(part, PART) == 0)
        for (int i = 0; i < 100; i++)
            ut_expect_nothing(end->vcq);
}

static void started_during_an_exchange(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    for (int step = 1; step <= STEPS; step++) {
        const size_t part = (size_t)(step - 1) * STEP;
        const uint64_t *word = (const uint64_t *)(end.mem + part);
        if (ut_rank == 0) {
            atomic_store(ut_cell(1), write_until_mapped(&end, &peers[1], part, step));
        } else {
            poll_until_mapped(&end, word);
            atomic_store(ut_cell(0), (uint64_t)step);
        }
        ut_barrier();
        for (uint64_t i = 0; i < WORDS && ut_rank == 1; i++)
            CHECK_EQ(word[i], (get_cell(1) - 1 - i) / WORDS * WORDS + i);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(map_exchange, no_copy_begins_during_an_exchange)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 120, .env = {PAYS, SLOW}},
           started_during_an_exchange, NULL);
}

/*
 * An exchange is asked for while a copy is under way. The copy stands still, with the pages of its
 * target pinned (process_vm_rw_core() in mm/process_vm_access.c of Linux), as its source is a page
 * that userfaultfd has yet to bring.
 */

enum { COPY_STANDS_STILL = 2, COPY_MAY_GO_ON, OWNER, CAN_ATTACH }; /* cells */

struct missing {
    int fd;
    uint8_t *page;
};

/* The descriptor, or -1: page faults of the kernel need CAP_SYS_PTRACE, or
 * vm.unprivileged_userfaultfd=1. */
static int open_faults(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Whoever reads the page waits from now on. */
static void take_away(const struct missing *m)
{
    struct uffdio_register r = {.range = {(uintptr_t)m->page, PAGE},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};

    CHECK(madvise(m->page, PAGE, MADV_DONTNEED) == 0);
    CHECK(ioctl(m->fd, UFFDIO_REGISTER, &r) == 0);
}

static void *bring_back(void *arg)
{
    const struct missing *m = arg;
    static uint64_t content[PAGE / 8];
    struct uffdio_copy copy = {.dst = (uintptr_t)m->page, .src = (uintptr_t)content, .len = PAGE};
    struct uffd_msg message;

    content[0] = 42;
    CHECK(read(m->fd, &message, sizeof(message)) == sizeof(message));
    CHECK_EQ(message.event, UFFD_EVENT_PAGEFAULT);
    atomic_store(ut_cell(COPY_STANDS_STILL), 1);
    while (get_cell(COPY_MAY_GO_ON) == 0)
        ut_relax();
    CHECK(ioctl(m->fd, UFFDIO_COPY, &copy) == 0);
    return NULL;
}

static void origin(const struct ut_end *end, const struct ut_peer *to)
{
    struct missing m = {open_faults(), ut_pages(PAGE)};
    utofu_stadd_t stadd;
    pthread_t thread;

    CHECK_OK(utofu_reg_mem(end->vcq, m.page, PAGE, 0, &stadd));
    take_away(&m);
    for (int i = 0; i < TO_PAY; i++)
        put(end, to, end->stadd, 0, 8);
    CHECK_EQ(pthread_create(&thread, NULL, bring_back, &m), 0);
    put(end, to, stadd, 8, 8);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    close(m.fd);
    CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
}

/* Where the kernel forbids it there are no copies of this kind, and a put needs polls of its
 * target. */
static bool can_attach(void)
{
    static int word;
    struct iovec here = {&word, sizeof(word)};

    if (ut_rank == 1)
        atomic_store(ut_cell(OWNER), (uint64_t)getpid());
    ut_barrier();
    if (ut_rank == 0)
        atomic_store(ut_cell(CAN_ATTACH), process_vm_readv((pid_t)get_cell(OWNER), &here, 1, &here,
                                                           1, 0) == sizeof(word));
    ut_barrier();
    return get_cell(CAN_ATTACH);
}

static void asked_for_during_a_copy(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, LARGE, peers);
    if (!can_attach()) {
        ut_close_all(&end);
        return;
    }
    if (ut_rank == 0) {
        origin(&end, &peers[1]);
    } else {
        while (get_cell(COPY_STANDS_STILL) == 0)
            ut_relax();
        for (int i = 0; i < 100; i++)
            ut_expect_nothing(end.vcq);
        atomic_store(ut_cell(COPY_MAY_GO_ON), 1);
    }
    ut_barrier();
    CHECK(ut_rank == 0 || ((uint64_t *)end.mem)[1] == 42, "what the copy wrote is not there");
    ut_close_all(&end);
}

Test(map_exchange, no_pages_are_exchanged_during_a_copy)
{
    int fd = open_faults();

    if (fd < 0)
        ut_skip("page faults of the kernel cannot be held up: vm.unprivileged_userfaultfd=1");
    close(fd);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {PAYS, "UTOFU_SHM_CMA=1"}}, asked_for_during_a_copy,
           NULL);
}
