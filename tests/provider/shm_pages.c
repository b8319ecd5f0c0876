/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of this process exist, found in its page table in parts; and huge pages, which are
 * found, allocated and mapped where the memory has some. The kernel's answers about huge pages are
 * played. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/pages.h"
#include "../harness/check.h"

/* What PAGEMAP_SCAN answers: ranges of huge pages; -1: this kernel has none. */
static struct {
    uint64_t from, to;
} answers[3];
static int num_answers, num_scans, open_fds;
static bool has_no_page_table;
static uint64_t scan_from, scan_to;

/* As in <linux/fs.h>. */
struct scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scan_region {
    uint64_t start, end, categories;
};

static int play_ioctl(int fd, unsigned long what, void *arg)
{
    struct scan_arg *a = arg;
    struct scan_region *to = (struct scan_region *)(uintptr_t)a->vec;

    CHECK(fd > 2 && what == _IOWR('f', 16, struct scan_arg) && a->size == sizeof(*a));
    CHECK(a->category_mask == 1 << 6 && a->return_mask == 1 << 6 && a->vec_len == 64);
    CHECK(a->flags == 0 && a->category_inverted == 0 && a->category_anyof_mask == 0 &&
          a->max_pages == 0);
    num_scans++;
    scan_from = a->start;
    scan_to = a->end;
    for (int i = 0; i < num_answers; i++)
        to[i] = (struct scan_region){answers[i].from, answers[i].to, 1 << 6};
    errno = ENOTTY;
    return num_answers;
}

/* Descriptors of the page table. */
static bool is_table[64];

static int play_open(const char *path, int flags)
{
    if (strcmp(path, "/proc/self/pagemap") != 0 || flags != (O_RDONLY | O_CLOEXEC))
        return open(path, flags); /* a probe of scripts/mutate */
    if (has_no_page_table) {
        errno = EACCES;
        return -1;
    }
    int fd = open(path, flags);
    CHECK(fd >= 0 && fd < (int)(sizeof(is_table) / sizeof(is_table[0])));
    is_table[fd] = true;
    open_fds++;
    return fd;
}

static int play_close(int fd)
{
    CHECK(fd >= 0);
    open_fds -= fd < 64 && is_table[fd];
    if (fd < 64)
        is_table[fd] = false;
    return close(fd);
}

/* Advice that was given, in its order; the nth of a kind fails. */
static struct {
    uint64_t at, size;
    int advice;
} advices[200];
static int num_advised, failing_advice, failing_nth;

static int play_madvise(void *at, size_t size, int advice)
{
    CHECK(num_advised < 200);
    advices[num_advised].at = (uintptr_t)at;
    advices[num_advised].size = size;
    advices[num_advised++].advice = advice;
    return advice == failing_advice && --failing_nth == 0 ? -1 : 0;
}

#define ioctl   play_ioctl
#define open    play_open
#define close   play_close
#define madvise play_madvise
#include "../../provider/shm/pages.c"
#undef ioctl
#undef open
#undef close
#undef madvise

enum { PAGE = 4096, MANY = 1300 };

static uint8_t *map_pages(size_t n)
{
    uint8_t *at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(at != MAP_FAILED);
    madvise(at, n * PAGE, MADV_NOHUGEPAGE);
    return at;
}

static uint64_t page_of(const uint8_t *memory, uint64_t page)
{
    return (uintptr_t)memory + page * PAGE;
}

/* Runs of pages that exist and that do not, of every other length, also across the 512 entries that
 * are read at a time. */
static void runs_of_pages(void)
{
    static const struct {
        uint64_t first, end; /* these exist */
        uint64_t lo, hi;     /* asked for */
        struct {
            uint64_t hi;
            bool exist;
        } runs[6];
    } cases[] = {{0, 0, 0, 1, {{1, false}}},
                 {0, 1, 0, 1, {{1, true}}},
                 {2, 5, 0, 8, {{2, false}, {5, true}, {8, false}}},
                 {2, 5, 2, 5, {{5, true}}},
                 {2, 5, 3, 4, {{4, true}}},
                 {2, 5, 4, 6, {{5, true}, {6, false}}},
                 {0, 0, 0, 512, {{512, false}}},
                 {0, 0, 0, 513, {{512, false}, {513, false}}},
                 {511, 513, 0, 1024, {{511, false}, {512, true}, {513, true}, {1024, false}}},
                 {100,
                  1200,
                  7,
                  1300,
                  {{100, false}, {519, true}, {1031, true}, {1200, true}, {1300, false}}}};
    uint8_t *memory = map_pages(MANY);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_pages pages;
        struct sp_page_run run;
        uint64_t at = cases[i].lo;
        munmap(memory, MANY * PAGE);
        memory = map_pages(MANY);
        for (uint64_t page = cases[i].first; page < cases[i].end; page++)
            memory[page * PAGE] = 1;
        CHECK(sp_pages_open(&pages) && pages.page_size == PAGE);
        for (int n = 0; n < 6 && at < cases[i].hi; n++) {
            CHECK(sp_pages_next(&pages, page_of(memory, at), page_of(memory, cases[i].hi), &run));
            CHECK(run.lo == page_of(memory, at) && run.exist == cases[i].runs[n].exist);
            CHECK(run.hi == page_of(memory, cases[i].runs[n].hi));
            at = cases[i].runs[n].hi;
        }
        CHECK(at == cases[i].hi);
        for (uint64_t page = 0; page < MANY; page += page == 1 ? 97 : 1)
            CHECK(sp_pages_exists(&pages, page_of(memory, page)) ==
                  (page >= cases[i].first && page < cases[i].end));
        sp_pages_close(&pages);
        sp_pages_close(&pages); /* twice */
        CHECK(pages.fd == -1 && open_fds == 0);
        has_no_page_table = true;
        CHECK(!sp_pages_open(&pages));
        CHECK(!sp_pages_next(&pages, page_of(memory, 0), page_of(memory, 1), &run));
        CHECK(sp_pages_exists(&pages, page_of(memory, MANY - 1))); /* not known */
        has_no_page_table = false;
        uint64_t lo = page_of(memory, cases[i].lo), hi = page_of(memory, cases[i].hi), bytes = 0;
        for (uint64_t page = cases[i].lo; page < cases[i].hi; page++)
            bytes += page >= cases[i].first && page < cases[i].end ? PAGE : 0;
        CHECK(sp_pages_count(lo, hi, UINT64_MAX) == bytes &&
              sp_pages_count(lo, hi, bytes) == bytes);
        CHECK(open_fds == 0);
    }
    munmap(memory, MANY * PAGE);
}

/* Counting ends above the limit, not at it; without a page table nothing is counted. */
static void counting_ends_at_the_limit(void)
{
    uint8_t *memory = map_pages(16);

    memory[1 * PAGE] = memory[2 * PAGE] = memory[5 * PAGE] = memory[8 * PAGE] = 1;
    const uint64_t lo = page_of(memory, 0), hi = page_of(memory, 16);
    CHECK(sp_pages_count(lo, hi, 0) == 2 * PAGE);
    CHECK(sp_pages_count(lo, hi, 2 * PAGE - 1) == 2 * PAGE);
    CHECK(sp_pages_count(lo, hi, 2 * PAGE) == 3 * PAGE);
    CHECK(sp_pages_count(lo, hi, 3 * PAGE) == 4 * PAGE);
    CHECK(sp_pages_count(lo, page_of(memory, 6), 4 * PAGE) == 3 * PAGE);
    CHECK(sp_pages_count(lo, lo, 0) == 0 && open_fds == 0);
    has_no_page_table = true;
    CHECK(sp_pages_count(lo, hi, UINT64_MAX) == 0 && open_fds == 0);
    has_no_page_table = false;
    munmap(memory, 16 * PAGE);
}

/* No descriptor of the program's, though it has closed that. */
static void descriptors_of_the_program(void)
{
    struct sp_pages pages;
    int kept = dup(0);

    close(0);
    CHECK(sp_pages_open(&pages) && pages.fd > 2 && fcntl(0, F_GETFD) == -1);
    sp_pages_close(&pages);
    num_answers = 0;
    CHECK(sp_huge_find(0, SP_HUGE).bits == 0 && fcntl(0, F_GETFD) == -1);
    CHECK(kept < 0 || (dup2(kept, 0) == 0 && close(kept) == 0));
    CHECK(open_fds == 0);
}

/*
 * Huge pages
 */

#define H SP_HUGE

static void huge_pages_are_found(void)
{
    static const struct {
        uint64_t lo, hi;
        int n;
        struct {
            uint64_t from, to;
        } answers[3];
        uint64_t from, to, first, bits; /* from 0: not asked */
    } cases[] = {
        {8 * H, 12 * H, 0, {{0, 0}}, 8 * H, 12 * H, 8 * H, 0},
        {8 * H, 12 * H, -1, {{0, 0}}, 8 * H, 12 * H, 8 * H, 0},
        {8 * H, 12 * H, 1, {{8 * H, 12 * H}}, 8 * H, 12 * H, 8 * H, 15},
        {8 * H, 12 * H, 1, {{9 * H, 10 * H}}, 8 * H, 12 * H, 8 * H, 2},
        {8 * H, 12 * H, 2, {{8 * H, 9 * H}, {10 * H, 12 * H}}, 8 * H, 12 * H, 8 * H, 13},
        {8 * H, 12 * H, 1, {{9 * H, 10 * H - 4096}}, 8 * H, 12 * H, 8 * H, 0}, /* a part */
        {8 * H, 12 * H, 1, {{9 * H, 11 * H - 4096}}, 8 * H, 12 * H, 8 * H, 2},
        {8 * H + 4096, 12 * H - 4096, 1, {{9 * H, 11 * H}}, 9 * H, 11 * H, 9 * H, 3},
        {8 * H - 4096, 12 * H + 4096, 1, {{11 * H, 12 * H}}, 8 * H, 12 * H, 8 * H, 8},
        {8 * H + 4096, 9 * H + 4096, 1, {{0, 0}}, 0, 0, 9 * H, 0}, /* no whole frame */
        {8 * H, 9 * H, 1, {{8 * H, 9 * H}}, 8 * H, 9 * H, 8 * H, 1},
        {8 * H, 9 * H - 4096, 1, {{8 * H, 9 * H}}, 0, 0, 8 * H, 0},
        {8 * H, 72 * H, 1, {{71 * H, 72 * H}}, 8 * H, 72 * H, 8 * H, 1ull << 63}, /* 64 frames */
        {8 * H, 73 * H, 1, {{71 * H, 72 * H}}, 0, 0, 8 * H, 0},                   /* too many */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        num_answers = cases[i].n;
        for (int k = 0; k < 3; k++) {
            answers[k].from = cases[i].answers[k].from;
            answers[k].to = cases[i].answers[k].to;
        }
        num_scans = 0;
        struct sp_huge_frames found = sp_huge_find(cases[i].lo, cases[i].hi);
        CHECK(found.first == cases[i].first && found.bits == cases[i].bits && open_fds == 0);
        CHECK(num_scans == (cases[i].from != 0));
        CHECK(num_scans == 0 || (scan_from == cases[i].from && scan_to == cases[i].to));
    }
    has_no_page_table = true;
    num_scans = 0;
    CHECK(sp_huge_find(8 * H, 12 * H).bits == 0 && num_scans == 0);
    has_no_page_table = false;
}

static bool is_mapped(const uint8_t *page)
{
    unsigned char there;

    return mincore((void *)(uintptr_t)page, PAGE, &there) == 0;
}

/* As many addresses as were asked for, with the same offset in a huge page, and none around them.
 */
static void addresses_are_reserved(void)
{
    static const uint64_t offsets[] = {0, PAGE, H / 2, H - PAGE};

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        for (uint64_t size = PAGE; size <= 3 * H; size = size == PAGE ? H : size + 2 * H) {
            uint8_t *at = sp_huge_reserve(size, 77 * H + offsets[i], PROT_READ | PROT_WRITE);
            CHECK(at && ((uintptr_t)at & (H - 1)) == offsets[i]);
            CHECK(is_mapped(at) && is_mapped(at + size - PAGE));
            at[0] = at[size - 1] = 1;
            CHECK(munmap(at, size) == 0 && !is_mapped(at) && !is_mapped(at + size - PAGE));
        }
    }
    CHECK(sp_huge_reserve(1ull << 60, 0, PROT_NONE) == NULL);
}

/* Of all addresses of this process. */
static long num_mapped_pages(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY);

    CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && close(fd) == 0);
    return strtol(text, NULL, 10);
}

/* Nothing is left of the addresses that were too many, wherever they begin. */
static void nothing_else_is_reserved(void)
{
    long before = num_mapped_pages();

    for (uint64_t i = 0; i < 200; i++) {
        uint8_t *at = sp_huge_reserve(H, i % 3 * PAGE + i % 2 * (H / 2), PROT_NONE);
        CHECK(at && num_mapped_pages() == before + (long)(H / PAGE));
        CHECK(munmap(at, H) == 0 && num_mapped_pages() == before);
    }
}

static void expect_advice(int i, uint64_t at, uint64_t size, int advice)
{
    CHECK(i < num_advised && advices[i].at == at && advices[i].size == size &&
          advices[i].advice == advice);
}

/* Frames 1, 3 and 63 of the range, which begins before the first frame. */
static void huge_pages_are_allocated(void)
{
    const uint64_t bits = 1ull << 1 | 1ull << 3 | 1ull << 63, lo = 8 * H - PAGE;
    uint8_t *const window = (uint8_t *)(uintptr_t)(100 * H - PAGE);
    static const int frames[] = {1, 3, 63};
    enum { HUGEPAGE = 14, POPULATE_WRITE = 23, COLLAPSE = 25 };

    for (int advise = 0; advise < 2; advise++) {
        for (int failing = -1; failing < 6; failing++) {
            struct sp_huge_frames found = {.first = 8 * H, .bits = bits};
            num_advised = 0;
            /* of the first, the second or the third frame, the first or the second call */
            failing_advice = failing < 0                    ? -1
                             : (failing % 2 == 0) == advise ? (advise ? HUGEPAGE : COLLAPSE)
                                                            : POPULATE_WRITE;
            failing_nth = failing / 2 + 1;
            sp_huge_allocate(&found, window, lo, advise);
            int failed = failing < 0 ? 3 : failing / 2;
            CHECK(found.bits == (failed == 0   ? 0
                                 : failed == 1 ? 1ull << 1
                                 : failed == 2 ? 10
                                               : bits));
            for (int k = 0; k < failed; k++) {
                uint64_t at = (uint64_t)(100 + frames[k]) * H;
                expect_advice(2 * k, at, advise ? H : 1, advise ? HUGEPAGE : POPULATE_WRITE);
                expect_advice(2 * k + 1, at, H, advise ? POPULATE_WRITE : COLLAPSE);
            }
            CHECK(num_advised <= 2 * failed + 2 && (failed < 3 || num_advised == 6));
        }
    }
    failing_advice = -1;
    struct sp_huge_frames none = {.first = 8 * H, .bits = 0};
    num_advised = 0;
    sp_huge_allocate(&none, NULL, lo, true);
    sp_huge_map(&none);
    CHECK(num_advised == 0);
    const struct sp_huge_frames found = {.first = 8 * H, .bits = bits};
    sp_huge_map(&found);
    CHECK(num_advised == 3);
    for (int k = 0; k < 3; k++)
        expect_advice(k, (uint64_t)(8 + frames[k]) * H, 1, 22 /* MADV_POPULATE_READ */);
}

int main(void)
{
    runs_of_pages();
    counting_ends_at_the_limit();
    descriptors_of_the_program();
    huge_pages_are_found();
    addresses_are_reserved();
    nothing_else_is_reserved();
    huge_pages_are_allocated();
    return 0;
}
