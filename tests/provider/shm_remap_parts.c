/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts in which the shm provider remaps and restores memory: the exchanges, the page table and
 * the templates are played, so that ranges may be as large as they like. One thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "shm/blocked_threads.h"
#include "shm/pages.h"
#include "shm/proc_text.h"
#include "shm/remap.h"
#include "shm/vma.h"
#include "util/clock.h"
#include "util/fd_check.h"
#include "util/log.h"

enum { PAGE = 4096, HUGE = 512 /* pages */, MOST = 16384 /* pages of an exchange */ };
#define BASE (1ull << 40)

static char steps[2000];

static void step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void step(const char *fmt, ...)
{
    size_t used = strlen(steps);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(steps + used, sizeof(steps) - used, fmt, ap);
    va_end(ap);
}

static void end(int line, const char *were)
{
    if (strcmp(steps, were) != 0)
        fprintf(stderr, "line %d, steps:\n%s\nwanted:\n%s\n", line, steps, were);
    CHECK(strcmp(steps, were) == 0);
    steps[0] = '\0';
}
#define END(...) end(__LINE__, __VA_ARGS__)

static long page_at(uint64_t at)
{
    CHECK(at % PAGE == 0);
    return (long)((at - BASE) / PAGE);
}

/*
 * Played
 */

static unsigned int refused; /* exchanges that fail, by their number: a bit each */
static unsigned int num_exchanges;

static bool is_refused(void)
{
    return refused >> num_exchanges++ & 1;
}

static uint64_t play_existing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                              enum sp_exchange_method method, bool cow, uint64_t *template)
{
    (void)exchange;
    CHECK(*template == 5);
    step(" %ld-%ld:%d%s", page_at(lo), page_at(hi), (int)method, cow ? "c" : "");
    return is_refused() ? 0 : hi - lo;
}

static bool play_missing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                         uint64_t *template)
{
    (void)exchange;
    CHECK(template);
    step(" %ld-%ld", page_at(lo), page_at(hi));
    return !is_refused();
}

static bool play_restore(const struct sp_exchange *exchange, const struct sp_memfd_part *part,
                         bool in_use)
{
    (void)exchange;
    step(" %ld-%ld@%ld", page_at(part->lo), page_at(part->hi), page_at(part->offset));
    if (part->template)
        step(" t%d", (int)part->template);
    if (in_use)
        step(" used");
    return !is_refused();
}

static bool play_restore_cow(const struct sp_exchange *exchange, const struct sp_memfd_part *part)
{
    (void)exchange;
    step(" cow %ld-%ld@%ld", page_at(part->lo), page_at(part->hi), page_at(part->offset));
    return !is_refused();
}

/* The pages that exist. */
static struct {
    long first, end;
} there[8];
static int open_tables;
static bool has_no_table;

static bool exists(long page)
{
    for (int i = 0; i < 8; i++)
        if (page >= there[i].first && page < there[i].end)
            return true;
    return false;
}

static bool play_pages_open(struct sp_pages *pages)
{
    open_tables++;
    pages->page_size = PAGE;
    return !has_no_table;
}

static void play_pages_close(struct sp_pages *pages)
{
    (void)pages;
    open_tables--;
}

static bool play_pages_exists(struct sp_pages *pages, uint64_t at)
{
    (void)pages;
    return exists(page_at(at));
}

static bool play_pages_next(struct sp_pages *pages, uint64_t at, uint64_t hi,
                            struct sp_page_run *run)
{
    long first = page_at(at), last = page_at(hi), page = first;

    (void)pages;
    CHECK(first < last);
    while (page < last && exists(page) == exists(first))
        page++;
    *run = (struct sp_page_run){at, BASE + (uint64_t)page * PAGE, exists(first)};
    return true;
}

static uint64_t made_template, template_us;

static uint64_t play_from_smaps(uint64_t lo, uint64_t *us)
{
    step(" template %ld", page_at(lo));
    *us = template_us;
    return made_template;
}

/* Template i+1 is that of these pages. */
static struct {
    long first, end;
} templates[3];

static uint64_t play_find(const struct sp_templates *all, uint64_t at,
                          struct sp_template_range *range)
{
    (void)all;
    for (int i = 0; i < 3; i++) {
        if (page_at(at) < templates[i].first || page_at(at) >= templates[i].end)
            continue;
        range->lo = BASE + (uint64_t)templates[i].first * PAGE;
        range->hi = BASE + (uint64_t)templates[i].end * PAGE;
        return (uint64_t)i + 1;
    }
    return 0;
}

/* The program's descriptors lead there. */
static const char *link_target;

static ssize_t play_readlinkat(int fd, const char *name, char *to, size_t size)
{
    if (!link_target)
        return readlinkat(fd, name, to, size);
    if (strcmp(name, "2") != 0) { /* only one does */
        errno = ENOENT;
        return -1;
    }
    CHECK(strlen(link_target) <= size);
    memcpy(to, link_target, strlen(link_target));
    return (ssize_t)strlen(link_target);
}

static const char *status_text;

static ssize_t read_text(const char *path, char *to, size_t size)
{
    if (!status_text || strcmp(path, "/proc/self/status") != 0)
        return sp_read_proc_text(path, to, size);
    return snprintf(to, size, "%s", status_text);
}

#define sp_exchange_existing          play_existing
#define sp_exchange_missing           play_missing
#define sp_exchange_restore           play_restore
#define sp_exchange_restore_cow       play_restore_cow
#define sp_pages_open                 play_pages_open
#define sp_pages_close                play_pages_close
#define sp_pages_exists               play_pages_exists
#define sp_pages_next                 play_pages_next
#define sp_template_create_from_smaps play_from_smaps
#define sp_templates_find             play_find
#define sp_read_proc_text             read_text
#define readlinkat                    play_readlinkat
#include "../../provider/shm/remap.c"

static struct sp_remap make_remap(void)
{
    num_exchanges = refused = 0;
    return (struct sp_remap){.exchange = {.fd = -1, .uffd = -1, .uffd_kernel = -1},
                             .opened_ns = ut_clock_ns(),
                             .page_size = PAGE};
}

static uint64_t at_page(long page)
{
    return BASE + (uint64_t)page * PAGE;
}

/* At most 64 MiB at once, up to the end of a huge page. */
static void existing_pages_go_in_parts(void)
{
    static const struct {
        long lo, hi;
        unsigned int refused;
        long pages;
        const char *steps;
    } cases[] = {{3, 4, 0, 1, " 3-4:0"},
                 {0, MOST, 0, MOST, " 0-16384:0c"},
                 {0, MOST + 1, 0, MOST + 1, " 0-16384:0 16384-16385:0"},
                 {5, MOST + 5, 0, MOST, " 5-16384:0c 16384-16389:0c"},
                 {5, MOST, 0, MOST - 5, " 5-16384:0"},
                 {HUGE - 1, 2 * MOST + 1, 2, MOST - HUGE + 2,
                  " 511-16384:0c 16384-32768:0c 32768-32769:0c"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_remap remap = make_remap();
        uint64_t template = 5;
        refused = cases[i].refused;
        remap.threads_blocked = true;
        CHECK(exchange_existing_pages(&remap, at_page(cases[i].lo), at_page(cases[i].hi), i % 2,
                                      &template) == (uint64_t)cases[i].pages * PAGE);
        END(cases[i].steps);
    }
}

static const struct {
    struct {
        long first, end;
    } there[6];
    long lo, hi;
    unsigned int refused;
    long pages;
    const char *steps;
} runs[] = {
    {{{0, 0}}, 0, 1, 0, 1, " 0-1"},
    {{{0, 0}}, 3, 4 * HUGE, 0, 4 * HUGE - 3, " 3-2048"},
    {{{0, 1}}, 0, 17, 0, 16, " 1-17"},
    {{{0, 2}}, 0, 17, 0, 0, ""}, /* 15 are missing */
    {{{0, 2}}, 0, 16, 0, 0, ""},
    {{{15, 16}}, 0, 16, 0, 0, ""},
    {{{16, 17}}, 0, 17, 0, 16, " 0-16"},
    {{{16, 17}}, 0, 40, 0, 39, " 0-16 17-40"},
    {{{0, 1}, {HUGE - 1, HUGE}}, 0, 2 * HUGE, 0, HUGE, " 512-1024"}, /* the rest is not looked
                                                                        at */
    {{{0, 1}}, 0, HUGE, 0, HUGE - 1, " 1-512"},
    {{{HUGE - 1, HUGE}}, 0, HUGE, 0, HUGE - 1, " 0-511"},
    {{{HUGE, 2 * HUGE}}, 0, 3 * HUGE, 0, 2 * HUGE, " 0-512 1024-1536"},
    {{{20, 21}, {60, 61}, {100, 101}, {140, 141}, {180, 181}},
     0,
     300,
     0,
     20 + 39 * 3,
     " 0-20 21-60 61-100 101-140"},
    {{{20, 21}, {60, 61}, {100, 101}, {140, 141}, {180, 181}},
     0,
     300,
     5,
     39 * 3 + 119,
     " 0-20 21-60 61-100 101-140 141-180 181-300"},
    {{{0, 0}}, 0, MOST, 0, MOST, " 0-16384"},
    {{{0, 0}}, 0, MOST + 1, 0, MOST, " 0-16384"}, /* the last page alone is too few */
    {{{0, 0}}, 0, MOST + 16, 0, MOST + 16, " 0-16384 16384-16400"},
    {{{0, 0}},
     5,
     6 * MOST,
     0,
     6 * MOST - 5,
     " 5-16896 16896-33280 33280-49664 49664-66048 66048-82432 82432-98304"}, /* steps are no
                                                                                 runs */
    {{{0, 0}}, 5, 2 * MOST, 1, MOST - HUGE, " 5-16896 16896-32768"},
};

/* Runs of missing pages, at least 16 of them, four at most. Of a huge page whose first and last
 * page exist, the others count as existing. */
static void missing_pages_go_in_runs(void)
{
    struct sp_remap remap;

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        uint64_t template = 0;
        remap = make_remap();
        refused = runs[i].refused;
        memset(there, 0, sizeof(there));
        memcpy(there, runs[i].there, sizeof(runs[i].there));
        uint64_t bytes =
            exchange_missing_pages(&remap, at_page(runs[i].lo), at_page(runs[i].hi), &template);
        if (bytes != (uint64_t)runs[i].pages * PAGE)
            fprintf(stderr, "case %d: %ld pages %s\n", (int)i, (long)(bytes / PAGE), steps);
        CHECK(bytes == (uint64_t)runs[i].pages * PAGE);
        CHECK(open_tables == 0);
        END(runs[i].steps);
    }
    has_no_table = true;
    CHECK(exchange_missing_pages(&remap, at_page(0), at_page(99), &(uint64_t){0}) == 0 &&
          open_tables == 0);
    END("");
    has_no_table = false;
    memset(there, 0, sizeof(there));
}

/* The template is looked for where the time allows, and seldom where there is none. */
static void templates_have_a_budget(void)
{
    struct sp_remap remap = make_remap();
    uint64_t template = 0;

    remap.exchange.can_move = true; /* moving makes its own */
    CHECK(prepare_template(&remap, at_page(1), false, &template) && template == 0);
    END("");
    made_template = 9;
    template_us = 1000;
    remap.threads_blocked = true;
    CHECK(prepare_template(&remap, at_page(1), false, &template) && template == 9);
    END(" template 1");
    CHECK(remap.spent_us == 1000 && remap.smaps_us == 1000);
    made_template = 0;
    CHECK(!prepare_template(&remap, at_page(2), false, &template));
    END(" template 2");
    CHECK(remap.spent_us == 2000 && remap.smaps_us == 20000);
    remap.spent_us = 180001;
    made_template = 9;
    CHECK(!prepare_template(&remap, at_page(3), false, &template));
    END("");
    remap.spent_us = 180000;
    CHECK(prepare_template(&remap, at_page(4), true, &template));
    END(" template 4");
    CHECK(remap.spent_us == 181000 && remap.smaps_us == 1000);
}

static const struct {
    long lo, hi, offset;
    bool in_use, writable;
    unsigned int refused;
    long left;
    bool cow;
    const char *steps;
} restored[] = {
    {3, 40, 3, false, true, 0, 0, false, " 3-40@3"},
    {3, 40, 1003, false, true, 0, 0, false, " 3-40@1003"},
    {3, 130, 3, true, true, 0, 0, false, " 3-130@3 used"},
    {100, 101, 100, false, true, 0, 0, false, " 100-101@100 t2"},
    {10, 130, 10, false, true, 0, 0, false,
     " 10-20@10 t1 20-130@20"}, /* of a template, and of none */
    {110, 120, 110, false, true, 0, 0, false, " 110-120@110 t2"},
    {110, 121, 110, false, true, 1, 10, false, " 110-120@110 t2 120-121@120"},
    {1110, 1121, 110, false, true, 0, 0, false, " 1110-1120@110 t2 1120-1121@120"},
    {3, 40, 3, true, true, 1, 0, true, " 3-40@3 used cow 3-40@3"},
    {3, 40, 3, true, true, 3, 37, false, " 3-40@3 used cow 3-40@3"},
    {3, 40, 3, true, false, 1, 37, false, " 3-40@3"},
    {3, 40, 3, false, true, 1, 37, false, " 3-40@3"},
    {600, MOST + 700, 600, false, true, 0, 0, false, " 600-16896@600 16896-17084@16896"},
    {1024, MOST + 1024, 1024, false, true, 0, 0, false, " 1024-17408@1024"},
    {600, MOST + 700, 600, false, true, 2, 188, false, " 600-16896@600 16896-17084@16896"},
};

/* Restored in parts, each of one template; what is in use and cannot be, by copy-on-write. */
static void parts_are_restored(void)
{
    templates[0].first = 10;
    templates[0].end = 20;
    templates[1].first = 100;
    templates[1].end = 120;
    for (size_t i = 0; i < sizeof(restored) / sizeof(restored[0]); i++) {
        struct sp_remap remap = make_remap();
        struct sp_memfd_part part = {.lo = at_page(restored[i].lo),
                                     .hi = at_page(restored[i].hi),
                                     .offset = at_page(restored[i].offset),
                                     .prot = PROT_READ | (restored[i].writable ? PROT_WRITE : 0)};
        refused = restored[i].refused;
        uint64_t left = restore_part(&remap, part, restored[i].in_use);
        if (left != (uint64_t)restored[i].left * PAGE)
            fprintf(stderr, "case %d: %ld left\n", (int)i, (long)(left / PAGE));
        CHECK(left == (uint64_t)restored[i].left * PAGE &&
              remap.has_cow_mappings == restored[i].cow);
        END(restored[i].steps);
    }
}

/* Pinned memory stays remapped only if the program has an io_uring. */
static void rings_keep_memory(void)
{
    static const struct {
        const char *status, *target;
        bool stays;
    } cases[] = {{"VmLck: 0 kB\nVmPin: 8 kB\n", "anon_inode:[io_uring]", true},
                 {"VmLck: 0 kB\nVmPin: 8 kB\n", "anon_inode:[io_uring]x", false},
                 {"VmLck: 0 kB\nVmPin: 8 kB\n", "anon_inode:[eventfd]", false},
                 {"VmLck: 0 kB\nVmPin: 0 kB\n", "anon_inode:[io_uring]", false},
                 {"VmLck: 8 kB\nVmPin: 0 kB\n", "anon_inode:[io_uring]", false},
                 {"", "anon_inode:[io_uring]", true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_remap remap = make_remap();
        status_text = cases[i].status;
        link_target = cases[i].target;
        CHECK(must_stay_remapped(&remap) == cases[i].stays &&
              remap.io_uring_logged == cases[i].stays);
        CHECK(must_stay_remapped(&remap) == cases[i].stays);
    }
    status_text = link_target = NULL;
    struct sp_remap remap = make_remap();
    CHECK(!must_stay_remapped(&remap)); /* in earnest */
}

/* With a limit on the size of files, nothing is remapped. */
static void sizes_of_files_may_be_limited(void)
{
    struct rlimit before, limit;
    struct sp_remap remap = make_remap();

    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    if (before.rlim_cur != RLIM_INFINITY)
        return;
    CHECK(!is_file_size_limited());
    limit = before;
    limit.rlim_cur = (1ull << 56) - 1;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0 && is_file_size_limited());
    CHECK(open_memfd(&remap) == -1 && errno == EFBIG);
    limit.rlim_cur = 1ull << 56;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0 && !is_file_size_limited());
    int fd = open_memfd(&remap);
    CHECK(fd > 2 && remap.inode != 0);
    CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && sp_remap_check_fd(fd));
    void *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0); /* a mapping of it is known */
    struct sp_vma_maps maps;
    struct sp_vma vma;
    sp_vma_init(&maps);
    CHECK(at != MAP_FAILED && sp_vma_open(&maps) && sp_vma_find(&maps, (uintptr_t)at, &vma));
    CHECK(is_memfd_mapping(&remap, &vma) && !is_remapped(&remap, &vma));
    /* the memfd at another address than its offset */
    CHECK(is_mapped_elsewhere(&remap, 0, PAGE) && is_mapped_elsewhere(&remap, 0, 2 * PAGE));
    CHECK(!is_mapped_elsewhere(&remap, PAGE, 2 * PAGE));
    sp_vma_close(&maps);
    munmap(at, PAGE);
    CHECK(!is_mapped_elsewhere(&remap, 0, PAGE));
    ut_fd_close(fd);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

int main(void)
{
    existing_pages_go_in_parts();
    missing_pages_go_in_runs();
    templates_have_a_budget();
    parts_are_restored();
    rings_keep_memory();
    sizes_of_files_may_be_limited();
    return 0;
}
