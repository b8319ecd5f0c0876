/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages: transparent ones are remapped, stay huge, and are given back as huge pages; those of
 * hugetlbfs are not remapped, and work all the same.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

TestSuite(huge);

enum { HUGE = 2 << 20, FRAMES = 4, SIZE = FRAMES * HUGE };

/* Memory aligned to a huge page, with MADV_HUGEPAGE. */
static uint8_t *huge_pages(size_t size)
{
    uint8_t *p = ut_pages(size + HUGE);

    p += -(uintptr_t)p & (HUGE - 1);
    madvise(p, size, MADV_HUGEPAGE);
    return p;
}

static size_t num_huge(const uint8_t *at, size_t size)
{
    return pages_smaps_kib(at, size, "AnonHugePages:") / (HUGE >> 10);
}

static uint64_t word_at(size_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static void fill(uint64_t *words, size_t size)
{
    for (size_t i = 0; i < size / 8; i++)
        words[i] = word_at(i);
}

static size_t count_wrong(const uint64_t *words, size_t size)
{
    size_t wrong = 0;

    for (size_t i = 0; i < size / 8; i++)
        wrong += words[i] != word_at(i);
    return wrong;
}

static void wait_mrq(const struct ut_end *end, uint64_t *old)
{
    struct utofu_mrq_notice notice = {0};

    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    if (old)
        *old = notice.rmt_value;
}

/* Puts to and gets from the peer's region across the end of a huge page, and adds to a word. */
static void use(const struct ut_end *end, const struct ut_peer *to, size_t at)
{
    uint64_t old = 0;

    memset(end->mem, 0x5a, 2 * PAGE);
    CHECK_OK(utofu_put(end->vcq, to->id, end->stadd, to->stadd + at, 2 * PAGE, 0, UT_LCL, NULL));
    wait_mrq(end, NULL);
    CHECK_OK(utofu_get(end->vcq, to->id, end->stadd + 2 * PAGE, to->stadd + at - 8, 2 * PAGE, 0,
                       UT_LCL, NULL));
    wait_mrq(end, NULL);
    uint64_t first;
    memcpy(&first, end->mem + 2 * PAGE, 8);
    CHECK_EQ(first, word_at(at / 8 - 1));
    CHECK(memcmp(end->mem, end->mem + 2 * PAGE + 8, 2 * PAGE - 8) == 0);
    CHECK_OK(utofu_armw8(end->vcq, to->id, UTOFU_ARMW_OP_ADD, 2, to->stadd + at, 0, UT_LCL, NULL));
    wait_mrq(end, &old);
    CHECK_EQ(old, 0x5a5a5a5a5a5a5a5a);
}

/* Rank 1 uses memory of rank 0, which then has the data written, and nothing else changed. */
static void reach(struct ut_end *end, uint8_t *mem, size_t size, size_t edge)
{
    const size_t at = HUGE - PAGE;
    struct ut_peer mine = {.id = end->id}, theirs[2];

    if (ut_rank == 0) {
        fill((uint64_t *)(void *)mem, size);
        CHECK_OK(utofu_reg_mem(end->vcq, mem + edge, size - 2 * edge, 0, &mine.stadd));
        mine.stadd -= edge;
        if (pages_can_be_mapped() && !pages_smaps_kib(mem, size, "Private_Hugetlb:"))
            CHECK(pages_mapped(mem, size) >= size - 2 * PAGE);
    }
    ut_allgather(&mine, theirs, sizeof(mine));
    if (ut_rank == 1)
        use(end, &theirs[0], at);
    ut_barrier();
    if (ut_rank == 0) {
        uint64_t *words = (uint64_t *)(void *)(mem + at);
        CHECK_EQ(__atomic_load_n(words, __ATOMIC_ACQUIRE), 0x5a5a5a5a5a5a5a5c);
        CHECK_OK(utofu_dereg_mem(end->vcq, mine.stadd + edge, 0));
        CHECK_EQ(pages_mapped(mem, size), 0);
        CHECK_EQ(words[0], 0x5a5a5a5a5a5a5a5c);
        CHECK_EQ(count_wrong((uint64_t *)(void *)mem, size), 2 * PAGE / 8);
        for (size_t i = 0; i < 2 * PAGE / 8; i++)
            words[i] = word_at(at / 8 + i);
        CHECK_EQ(count_wrong((uint64_t *)(void *)mem, size), 0);
    }
}

static void transparent(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *mem = huge_pages(SIZE);

    (void)arg;
    ut_open_all(&end, 4 * PAGE, peers);
    reach(&end, mem, SIZE, 0);
    reach(&end, mem, SIZE, 100);
    madvise(mem, SIZE, MADV_DONTNEED);
    CHECK_EQ(mem[SIZE / 2], 0);
    ut_close_all(&end);
}

Test(huge, transparent_huge_pages_are_mapped_and_given_back)
{
    ut_run(&(struct ut_run_opts){.n = 2}, transparent, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=0"}}, transparent, NULL);
}

/* Whether this kernel reports which pages are huge: since PAGEMAP_SCAN, 6.7. */
static bool kernel_can_tell(void)
{
    struct {
        uint64_t size, rest[11];
    } scan = {.size = 96};
    FILE *f = fopen("/proc/self/pagemap", "r");
    bool can = f && ioctl(fileno(f), _IOWR('f', 16, scan), &scan) == 0;

    if (f)
        fclose(f);
    return can;
}

/* As many huge pages as before; one registered in part may stay split. */
static void stay_huge(void *arg)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    uint8_t *mem = huge_pages(SIZE);

    (void)arg;
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    fill((uint64_t *)(void *)mem, SIZE);
    size_t before = num_huge(mem, SIZE);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(utofu_reg_mem(vcq, mem, SIZE, 0, &stadd));
        CHECK_EQ(pages_smaps_kib(mem, SIZE, "AnonHugePages:") + pages_mapped(mem, SIZE) / 1024,
                 pages_can_be_mapped() ? SIZE / 1024 : before * (HUGE / 1024));
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
        CHECK_EQ(count_wrong((uint64_t *)(void *)mem, SIZE), 0);
    }
    if (before == FRAMES && kernel_can_tell())
        CHECK_EQ(num_huge(mem, SIZE), FRAMES);
    CHECK_OK(utofu_reg_mem(vcq, mem + HUGE + PAGE, HUGE, 0, &stadd));
    CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    CHECK_EQ(count_wrong((uint64_t *)(void *)mem, SIZE), 0);
    CHECK(num_huge(mem, SIZE) <= before);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(huge, pages_that_were_huge_are_huge_again)
{
    ut_run(&(struct ut_run_opts){.n = 1}, stay_huge, NULL);
}

/* ... while other threads write all of it. */
static _Atomic bool stop;
static uint64_t (*counters)[64]; /* of each page, a word for each thread */
static uint64_t laps[2];

static void *write_all(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;

    while (!atomic_load(&stop)) {
        for (size_t i = 0; i < SIZE / sizeof(*counters); i++)
            counters[i][me]++;
        laps[me]++;
    }
    return NULL;
}

static size_t count_lost(void)
{
    size_t lost = 0;

    for (size_t i = 0; i < SIZE / sizeof(*counters); i++)
        lost += (counters[i][0] != laps[0]) + (counters[i][1] != laps[1]);
    return lost;
}

static void written(void *arg)
{
    pthread_t threads[2];
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    uint8_t *mem = huge_pages(SIZE);

    (void)arg;
    counters = (void *)mem;
    memset(mem, 0, SIZE);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    for (size_t t = 0; t < 2; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, write_all, (void *)(uintptr_t)t), 0);
    for (int round = 0; round < 100; round++) {
        size_t first = ut_random_below(FRAMES), n = 1 + ut_random_below(FRAMES - first);
        size_t edge = ut_random_below(2) * PAGE;
        CHECK_OK(utofu_reg_mem(vcq, mem + first * HUGE + edge, n * HUGE - edge, 0, &stadd));
        if (pages_can_be_mapped())
            CHECK_EQ(pages_mapped(mem, SIZE), n * HUGE - edge);
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    CHECK_EQ(count_lost(), 0);
    laps[1]++; /* the twin: a lost update would be found */
    CHECK_EQ(count_lost(), SIZE / sizeof(*counters));
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(huge, threads_that_write_to_huge_pages_lose_nothing)
{
    ut_run(&(struct ut_run_opts){.n = 1, .timeout_s = 120}, written, NULL);
}

/* ... while another thread gives frames back to the system and writes to them again. */
enum { PAGES = HUGE / PAGE };
static uint8_t *dropped_memory;
static uint64_t model[FRAMES * PAGES], drops;

static size_t count_forgotten(size_t frame)
{
    size_t wrong = 0;

    for (size_t i = frame * PAGES; i < (frame + 1) * PAGES; i++)
        wrong += *(uint64_t *)(void *)(dropped_memory + i * PAGE) != model[i];
    return wrong;
}

static void *drop_and_write(void *arg)
{
    size_t *wrong = arg;
    uint64_t value = 0;

    while (!atomic_load(&stop)) {
        size_t frame = drops++ % FRAMES;
        *wrong += count_forgotten(frame);
        madvise(dropped_memory + frame * HUGE, HUGE, MADV_DONTNEED);
        for (size_t i = frame * PAGES; i < (frame + 1) * PAGES; i++)
            *(uint64_t *)(void *)(dropped_memory + i * PAGE) = model[i] = ++value;
    }
    return NULL;
}

static void dropped(void *arg)
{
    pthread_t thread;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    size_t wrong = 0, mapped = 0;

    (void)arg;
    dropped_memory = huge_pages(SIZE);
    memset(dropped_memory, 0, SIZE);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    CHECK_EQ(pthread_create(&thread, NULL, drop_and_write, &wrong), 0);
    for (int round = 0; round < 400; round++) {
        CHECK_OK(utofu_reg_mem(vcq, dropped_memory, SIZE, 0, &stadd));
        mapped += pages_mapped(dropped_memory, SIZE) > 0; /* not if one was just dropped */
        CHECK_OK(utofu_dereg_mem(vcq, stadd, 0));
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    for (size_t frame = 0; frame < FRAMES; frame++)
        wrong += count_forgotten(frame);
    CHECK_EQ(wrong, 0);
    CHECK(drops > FRAMES);
    CHECK(mapped > 0 || !pages_can_be_mapped());
    model[0]++; /* the twin: a lost update would be found */
    CHECK_EQ(count_forgotten(0), 1);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(huge, a_thread_that_drops_huge_pages_loses_nothing)
{
    ut_run(&(struct ut_run_opts){.n = 1, .timeout_s = 120}, dropped, NULL);
}

/* Memory of hugetlbfs, where the system has any. */
static void explicit_pages(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *mem = NULL;

    (void)arg;
    ut_open_all(&end, 4 * PAGE, peers);
    if (ut_rank == 0) {
        mem = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        atomic_store(ut_cell(0), mem == MAP_FAILED ? 1 : 2);
        if (mem == MAP_FAILED)
            printf("no huge pages are set aside on this system\n");
    }
    ut_barrier();
    if (atomic_load(ut_cell(0)) == 2) {
        reach(&end, mem, 2 * HUGE, 0);
        if (ut_rank == 0)
            CHECK_EQ(pages_smaps_kib(mem, 2 * HUGE, "Private_Hugetlb:"), 2 * HUGE / 1024);
    }
    ut_close_all(&end);
}

Test(huge, pages_of_hugetlbfs_stay_as_they_are_and_are_reached)
{
    ut_run(&(struct ut_run_opts){.n = 2}, explicit_pages, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=0"}}, explicit_pages, NULL);
}
