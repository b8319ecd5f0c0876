/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped
 *
 * The cost of communication through mapped registered memory, compared with plain shared memory, in
 * one run of two processes on a CPU each: a ping-pong, a stream of puts, an atomic add, and a
 * registration. The minimum of many short rounds counts, as other load on the machine disturbs most
 * of them. Prints pairs and their ratio, without limits.
 *
 * The bare side uses a segment of memory that both processes map in the ordinary way.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure.h"
#include "party.h"

enum {
    STAG = 1,
    PING = 4096, /* offsets in the registered memory */
    WORD = 8192,
    TO = 1 << 20,
    AREA = 32 << 20,
    FROM = TO + AREA,
    SIZE = FROM + AREA,
    BARE = 1 << 20, /* in the segment */
    SEGMENT = 2 << 20,
    ROUNDS = 200,
    HUGE = 2 << 20,
};

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t lcl, rmt;
#define BARE_NAME "/utofu-bench-mapped-%u"

static uint8_t *memory; /* registered */
static uint8_t *shared; /* mapped in the ordinary way */

static uint64_t load(const void *at)
{
    return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

static void await(const void *at, uint64_t value)
{
    while (load(at) != value)
        ;
}

static void take_tcq(void)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    party_check(rc, "utofu_poll_tcq");
}

static void put(utofu_stadd_t from, utofu_stadd_t to, size_t size)
{
    party_check(utofu_put(vcq, peer, from, to, size, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
                "utofu_put");
    take_tcq();
}

/* Passes the turn to the other process, and waits for it, without the library. */
static void bare_pass(uint64_t i)
{
    uint64_t *mine = (uint64_t *)(void *)(shared + 256 * party.rank);
    uint64_t *theirs = (uint64_t *)(void *)(shared + 256 * (1 - party.rank));

    if (party.rank == 0) {
        __atomic_store_n(theirs, i, __ATOMIC_RELEASE);
        await(mine, i);
    } else {
        await(mine, i);
        __atomic_store_n(theirs, i, __ATOMIC_RELEASE);
    }
}

static void put_pass(uint64_t i)
{
    uint64_t *from = (uint64_t *)(void *)(memory + FROM);

    if (party.rank == 1)
        await(memory + PING, i);
    *from = i;
    put(lcl + FROM, rmt + PING, 8);
    if (party.rank == 0)
        await(memory + PING, i);
}

static double smaller(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static uint64_t turns; /* with the library and without; never the same number twice */

static double time_passes(void (*pass)(uint64_t i), int count)
{
    double begin = bench_now();

    for (int i = 0; i < count; i++)
        pass(++turns);
    return (bench_now() - begin) / count / 2;
}

static void print(const char *what, double ours, double bare, const char *unit)
{
    if (party.rank == 0)
        printf("%-34s %10.3f %10.3f %-5s ratio %.2f\n", what, ours, bare, unit, ours / bare);
    fflush(stdout);
}

static void ping_pong(void)
{
    double ours = 0, bare = 0;

    for (int r = 0; r < ROUNDS; r++) {
        bare = smaller(bare, time_passes(bare_pass, 500));
        ours = smaller(ours, time_passes(put_pass, 500));
    }
    print("8-byte ping-pong, one way", ours, bare, "us");
}

/*
 * Streams: into the same buffer, which stays in the caches of this CPU; into adjacent buffers,
 * which do not; and into a buffer that the target's CPU reads each time, as programs do, until it
 * has the data: a copy ends only when others see it.
 */
enum buffers { SAME, SIDE_BY_SIDE, READ_BETWEEN };

static void transfer(bool library, size_t from, size_t to, size_t size, enum buffers which)
{
    if (library) {
        put(lcl + from, rmt + to, size);
        return;
    }
    memcpy((which == READ_BETWEEN ? shared + BARE - TO : memory) + to, memory + from, size);
    __asm__ volatile("" ::: "memory");
}

/* Rank 1 reads the data, in all lines. */
static void read_there(const uint8_t *at, size_t size)
{
    uint64_t *mine = (uint64_t *)(void *)(shared + 256 * party.rank);

    if (party.rank == 1) {
        await(mine, turns + 1);
        for (size_t i = 0; i < size; i += 64)
            (void)load(at + i);
    }
    bare_pass(++turns);
}

static double time_stream(bool library, size_t size, enum buffers which)
{
    static size_t pos;
    int count = (int)((which == READ_BETWEEN ? 1u << 20 : 8u << 20) / size);
    double begin = bench_now();

    for (int i = 0; i < count; i++) {
        size_t at = which == SIDE_BY_SIDE ? pos : 0;
        pos = (pos + size) % AREA;
        if (party.rank == 0)
            transfer(library, FROM + at, TO + at, size, which);
        if (which == READ_BETWEEN)
            read_there(library ? memory + TO : shared + BARE, size);
    }
    return (bench_now() - begin) / count;
}

static void stream(size_t size, enum buffers which)
{
    static const char *const how[] = {"one buffer", "side by side", "and read there"};
    double ours = 0, bare = 0;

    for (int r = 0; r < ROUNDS && (party.rank == 0 || which == READ_BETWEEN); r++) {
        ours = smaller(ours, time_stream(true, size, which));
        bare = smaller(bare, time_stream(false, size, which));
    }
    bare_pass(++turns);
    char what[64];
    snprintf(what, sizeof(what), "%zu KiB put, memcpy, %s", size >> 10, how[which]);
    print(what, (double)size / ours / 1e3, (double)size / bare / 1e3, "GB/s");
}

/* A word of rank 1 to which both add in turn, so that its line moves each time. */
static uint64_t added[2]; /* without the library, and through it */

static void add_in_turn(uint64_t *word, bool library)
{
    uint64_t i = ++added[library] * 2;

    if (party.rank == 1) {
        await(word, i - 1);
        __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n((uint64_t *)(void *)shared, ++turns, __ATOMIC_RELEASE);
        return;
    }
    if (library) {
        party_check(utofu_armw8(vcq, peer, UTOFU_ARMW_OP_ADD, 1, rmt + WORD, 0,
                                UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
                    "utofu_armw8");
        take_tcq();
    } else {
        __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    }
    await(shared, ++turns);
}

static void bare_add(uint64_t i)
{
    (void)i;
    turns--; /* time_passes() and add_in_turn() both count it */
    add_in_turn((uint64_t *)(void *)(shared + WORD), false);
}

static void library_add(uint64_t i)
{
    (void)i;
    turns--;
    add_in_turn((uint64_t *)(void *)(memory + WORD), true);
}

static void atomic_add(void)
{
    double ours = 0, bare = 0;

    for (int r = 0; r < ROUNDS; r++) {
        bare = smaller(bare, time_passes(bare_add, 500));
        ours = smaller(ours, time_passes(library_add, 500));
    }
    /* one of the two adds of a turn is the target's own */
    print("armw8 ADD of a word that moved", 2 * ours - bare, bare, "us");
}

static uint8_t *pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        party_fail(1, "no memory");
    return p;
}

/* Pages of one kind: small ones, or huge ones if this machine has them. */
static uint8_t *aligned_pages(size_t size, bool huge)
{
    uint8_t *p = pages(size + HUGE);
    uint8_t *at = p + (-(uintptr_t)p & (HUGE - 1));

    if (at > p)
        munmap(p, (size_t)(at - p));
    munmap(at + size, (size_t)(p + HUGE - at));
    madvise(at, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return at;
}

static void registration(size_t size, bool huge)
{
    double reg = 0, dereg = 0, copy = 0;

    for (int r = 0; r < ROUNDS && party.rank == 0; r++) {
        uint8_t *from = aligned_pages(size, huge), *to = aligned_pages(size, huge);
        utofu_stadd_t stadd;
        memset(from, 1, size);
        double begin = bench_now();
        memcpy(to, from, size);
        copy = smaller(copy, bench_now() - begin);
        begin = bench_now();
        party_check(utofu_reg_mem(vcq, from, size, 0, &stadd), "utofu_reg_mem");
        reg = smaller(reg, bench_now() - begin);
        begin = bench_now();
        party_check(utofu_dereg_mem(vcq, stadd, 0), "utofu_dereg_mem");
        dereg = smaller(dereg, bench_now() - begin);
        munmap(from, size);
        munmap(to, size);
    }
    bare_pass(++turns);
    const char *kind = huge ? " of huge pages" : "";
    char what[64];
    snprintf(what, sizeof(what), "registering %zu KiB%s", size >> 10, kind);
    print(what, reg, copy, "us");
    snprintf(what, sizeof(what), "deregistering %zu KiB%s", size >> 10, kind);
    print(what, dereg, copy, "us");
}

/* Makes the bare segment, and announces it with the first word of the registered memory. */
static void meet(void)
{
    char name[64];
    int fd;

    rmt = 0;
    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    snprintf(name, sizeof(name), BARE_NAME, (unsigned int)getppid());
    if (party.rank == 0) {
        fd = shm_open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || ftruncate(fd, SEGMENT) != 0)
            party_fail(1, "no shared memory");
        party_put_word(vcq, peer, rmt, 1);
        await(memory, 1);
        shm_unlink(name);
    } else {
        await(memory, 1);
        fd = shm_open(name, O_RDWR, 0600);
        party_put_word(vcq, peer, rmt, 1);
    }
    shared = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        party_fail(1, "no shared memory");
}

static void settle(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(party.rank, &set);
    sched_setaffinity(0, sizeof(set), &set); /* if this is not possible, the scheduler chooses */
}

int main(void)
{
    party_find("mapped", 2, 60);
    settle();
    memory = pages(SIZE);
    memset(memory, 0, SIZE);
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    peer = party_vcq_id(1 - party.rank, 0, 0);
    meet();
    if (party.rank == 0)
        printf("%-34s %10s %10s\n", "", "ours", "bare");
    memset(memory + WORD, 0, 8);
    bare_pass(++turns);
    ping_pong();
    memset(shared + BARE, 0, BARE);
    for (enum buffers which = SAME; which <= READ_BETWEEN; which++) {
        stream(4 << 10, which);
        stream(64 << 10, which);
        stream(1 << 20, which);
    }
    atomic_add();
    registration(64 << 10, false);
    registration(4 << 20, false);
    registration(4 << 20, true);
    bare_pass(++turns);
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    return 0;
}
