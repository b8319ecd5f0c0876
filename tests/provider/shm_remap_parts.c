/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts in which the shm provider remaps and restores memory: the exchanges, the page table and
 * the templates are played, so that ranges may be as large as they like. One thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "shm/blocked_threads.h"
#include "shm/pages.h"
#include "shm/proc_text.h"
#include "shm/remap.h"
#include "shm/vma.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/log.h"
#include "steps.h"

enum { PAGE = 4096, HUGE = 512 /* pages */, MOST = 16384 /* pages of an exchange */ };
#define BASE (1ull << 40)
#define LAST (long)(((1ull << 56) - BASE) / PAGE) /* of the memfd: the page behind it */

static void end(int line, const char *were)
{
    if (strcmp(steps, were) != 0)
        fprintf(stderr, "line %d, steps:\n%s\nwanted:\n%s\n", line, steps, were);
    CHECK(strcmp(steps, were) == 0);
    steps[0] = '\0';
}
#define END(...) end(__LINE__, __VA_ARGS__)

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static unsigned int lines[UT_LOG_DEBUG + 1];

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    CHECK(strcmp(category, "shm") == 0 && fmt);
    lines[level]++;
}

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

/* All signals are blocked meanwhile: a handler could write to the memory. */
static bool checks_signals;

static bool is_refused(void)
{
    sigset_t now;

    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    CHECK(!checks_signals || (sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV)));
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
    if (strstr(path, "shmem_enabled"))
        return snprintf(to, size, "[always] within_size advise never\n");
    if (!status_text || strcmp(path, "/proc/self/status") != 0)
        return sp_read_proc_text(path, to, size);
    return snprintf(to, size, "%s", status_text);
}

/* Mappings, of pages; `offset` as well. */
static struct {
    long lo, hi, offset;
    char kind; /* 'm': the memfd's, shared; 'c': private; 'o': ordinary memory; 's': shared with
                  others */
} vmas[6];
static int open_maps;
static bool has_no_maps;

static bool play_vma_open(struct sp_vma_maps *maps)
{
    open_maps += maps->fd < 0 && !has_no_maps;
    maps->fd = has_no_maps ? -1 : 999;
    return !has_no_maps;
}

static void play_vma_close(struct sp_vma_maps *maps)
{
    open_maps -= maps->fd == 999;
    maps->fd = -1;
}

static bool play_vma_find(struct sp_vma_maps *maps, uint64_t at, struct sp_vma *vma)
{
    CHECK(maps->fd == 999);
    for (int i = 0; i < 6; i++) {
        if (vmas[i].kind == 0 || at >= BASE + (uint64_t)vmas[i].hi * PAGE)
            continue;
        bool is_memfd = vmas[i].kind == 'm' || vmas[i].kind == 'c';
        *vma = (struct sp_vma){.lo = BASE + (uint64_t)vmas[i].lo * PAGE,
                               .hi = BASE + (uint64_t)vmas[i].hi * PAGE,
                               .offset = is_memfd ? BASE + (uint64_t)vmas[i].offset * PAGE : 0,
                               .inode = is_memfd ? 7 : 0,
                               .readable = true,
                               .writable = true,
                               .shared = vmas[i].kind == 'm' || vmas[i].kind == 's'};
        return true;
    }
    return false;
}

static void play_templates_add(struct sp_templates *all, uint64_t lo, uint64_t hi,
                               uint64_t template)
{
    (void)all;
    step(" keep %ld-%ld t%d", page_at(lo), page_at(hi), (int)template);
}

static void play_template_free(uint64_t template)
{
    step(" free t%d", (int)template);
}

static void play_templates_remove(struct sp_templates *all, uint64_t lo, uint64_t hi)
{
    (void)all;
    step(" forget %ld-%ld", page_at(lo), page_at(hi));
}

static void play_punch(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi)
{
    (void)exchange;
    step(" punch %ld-%ld", page_at(lo), page_at(hi));
}

static bool threads_blocked = true;

static bool play_blocked(uint64_t lo, uint64_t hi, unsigned int *retries)
{
    (void)retries;
    CHECK(lo < hi);
    return threads_blocked;
}

static int lost_fd = -1; /* the program has closed it */

static bool play_still_ours(int fd)
{
    CHECK(fd >= 0);
    return fd != lost_fd;
}

/* userfaultfd: the errors of the calls, in their order, and what this kernel has. */
static int uffd_errors[2], num_uffds;
static uint64_t uffd_features;
static bool api_fails;
static const char *failing_call;

static long play_syscall(long number, ...)
{
    va_list ap;

    if (number == SYS_get_mempolicy)
        return -1;
    CHECK(number == SYS_userfaultfd && num_uffds < 2);
    va_start(ap, number);
    int flags = va_arg(ap, int);
    va_end(ap);
    CHECK(flags == (O_CLOEXEC | O_NONBLOCK | (num_uffds == 0 ? 1 : 0)));
    errno = uffd_errors[num_uffds];
    return uffd_errors[num_uffds++] ? -1 : memfd_create("uffd", MFD_CLOEXEC);
}

static int play_ioctl(int fd, unsigned long what, struct uffdio_api *api)
{
    CHECK(fd > 2 && what == UFFDIO_API && api->api == UFFD_API && api->features == 0);
    api->features = uffd_features;
    errno = EPERM;
    return api_fails ? -1 : 0;
}

static bool call_fails(const char *name)
{
    errno = EFBIG;
    return failing_call && strcmp(failing_call, name) == 0;
}

static uint64_t settings[4]; /* UTOFU_SHM_MAP, UTOFU_SWAP_PROTECT, and of UTOFU_TEST map_refuse and
                                exchange_ms */

static uint64_t play_env(enum ut_env_id which)
{
    return settings[which == UT_ENV_SHM_MAP           ? 0
                    : which == UT_ENV_SWAP_PROTECT    ? 1
                    : which == UT_ENV_SHM_MAP_REFUSE  ? 2
                    : which == UT_ENV_SHM_EXCHANGE_MS ? 3
                                                      : 9];
}

#define sp_vma_open                   play_vma_open
#define sp_vma_close                  play_vma_close
#define sp_vma_find                   play_vma_find
#define sp_templates_add              play_templates_add
#define sp_templates_remove           play_templates_remove
#define sp_template_free              play_template_free
#define sp_exchange_punch             play_punch
#define sp_threads_are_blocked        play_blocked
#define ut_fd_check_still_ours        play_still_ours
#define syscall                       play_syscall
#define ioctl                         play_ioctl
#define memfd_create(name, flags)     (call_fails("memfd") ? -1 : memfd_create(name, flags))
#define ftruncate(fd, size)           (call_fails("size") ? -1 : ftruncate(fd, size))
#define fstat(fd, st)                 (call_fails("stat") ? -1 : fstat(fd, st))
#define ut_env_num                    play_env
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
#undef memfd_create
#undef ftruncate
#undef fstat

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

    ut_log_threshold = UT_LOG_INFO;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_remap remap = make_remap();
        unsigned int before = count_descriptors();
        memset(lines, 0, sizeof(lines));
        status_text = cases[i].status;
        link_target = cases[i].target;
        CHECK(must_stay_remapped(&remap) == cases[i].stays &&
              remap.io_uring_logged == cases[i].stays);
        CHECK(must_stay_remapped(&remap) == cases[i].stays);
        CHECK(lines[UT_LOG_INFO] == cases[i].stays && count_descriptors() == before); /* once */
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
    ut_fd_close(fd);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

static void set_vmas(const void *from)
{
    memcpy(vmas, from, sizeof(vmas));
    checks_signals = true;
    memset(there, 0, sizeof(there));
    memset(templates, 0, sizeof(templates));
}

/* The mappings of a region are restored, and if some are missing, those that the program has moved.
 */
static const struct {
    struct {
        long lo, hi, offset;
        char kind;
    } vmas[6];
    long lo, hi, expected;
    bool in_use;
    unsigned int refused;
    long left;
    const char *steps;
} regions[] = {
    {{{0, 10, 0, 'm'}, {10, 20, 0, 'o'}, {20, 30, 20, 'm'}},
     5,
     25,
     10,
     false,
     0,
     0,
     " 5-10@5 20-25@20 forget 5-25"},
    {{{0, 10, 0, 'm'}, {10, 20, 10, 'm'}},
     0,
     20,
     20,
     true,
     0,
     0,
     " 0-10@0 used 10-20@10 used forget 0-20"},
    {{{0, 10, 0, 'm'}, {10, 20, 10, 'm'}}, 0, 20, 20, false, 1, 10, " 0-10@0 10-20@10"},
    {{{0, 10, 0, 'm'}, {10, 20, 10, 'c'}}, 0, 20, 10, false, 0, 0, " 0-10@0 forget 0-20"},
    {{{0, 10, 0, 'm'}, {100, 110, 10, 'm'}},
     0,
     20,
     20,
     false,
     0,
     0,
     " 0-10@0 100-110@10 punch 0-20 forget 0-20"}, /* moved */
    {{{0, 10, 0, 'm'}, {100, 110, 10, 'm'}},
     0,
     20,
     10,
     false,
     0,
     0,
     " 0-10@0 forget 0-20"}, /* another's
                              */
    {{{0, 10, 0, 'm'}, {100, 110, 10, 'm'}}, 0, 20, 11, false, 2, 10, " 0-10@0 100-110@10"},
    {{{0, 10, 0, 'm'}, {100, 110, 10, 'm'}}, 0, 20, 20, false, 1, 10, " 0-10@0"},
    {{{100, 110, 10, 'm'}, {110, 120, 20, 'm'}, {120, 130, 30, 'm'}, {130, 140, 20, 'c'}},
     20,
     30,
     10,
     false,
     0,
     0,
     " 110-120@20 punch 20-30 forget 20-30"},
    {{{100, 110, 15, 'm'}, {120, 130, 25, 'm'}, {140, 150, 0, 's'}},
     20,
     30,
     10,
     true,
     2,
     0,
     " 105-110@20 used 120-125@25 used cow 120-125@25 punch 20-30 forget 20-30"},
    {{{40, 50, 40, 'm'}}, 20, 30, 10, false, 0, 0, " punch 20-30 forget 20-30"},
    {{{30, 50, 30, 'm'}, {60, 61, 20, 'm'}},
     20,
     30,
     10,
     false,
     0,
     0,
     " 60-61@20 punch 20-30 forget 20-30"},
};

static bool is_blocked(int number)
{
    sigset_t now;

    return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, number);
}

static struct sp_remap make_open_remap(void)
{
    struct sp_remap remap = make_remap();

    remap.exchange.fd = 900;
    remap.exchange.uffd = 901;
    remap.inode = 7;
    return remap;
}

static void regions_are_restored(void)
{
    status_text = "VmLck: 0 kB\nVmPin: 0 kB\n";
    for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++) {
        struct sp_remap remap = make_open_remap();
        struct sp_vma_maps maps;
        set_vmas(regions[i].vmas);
        refused = regions[i].refused;
        threads_blocked = !regions[i].in_use;
        sp_vma_init(&maps);
        uint64_t left =
            sp_remap_restore(&remap, &maps, at_page(regions[i].lo), at_page(regions[i].hi),
                             (uint64_t)regions[i].expected * PAGE);
        if (left != (uint64_t)regions[i].left * PAGE)
            fprintf(stderr, "case %d: %ld left\n", (int)i, (long)(left / PAGE));
        CHECK(left == (uint64_t)regions[i].left * PAGE);
        END(regions[i].steps);
        play_vma_close(&maps);
        CHECK(open_maps == 0 && !is_blocked(SIGUSR1));
    }
    threads_blocked = true;
    status_text = NULL;
}

/* Without the maps or the descriptors, and where pages are pinned, the region stays as it is. */
static void regions_stay(void)
{
    struct sp_vma_maps maps;

    set_vmas(regions[1].vmas);
    sp_vma_init(&maps);
    for (int how = 0; how < 5; how++) {
        struct sp_remap remap = make_open_remap();
        remap.exchange.uffd_kernel = how == 2 ? 902 : -1;
        has_no_maps = how == 0;
        status_text = how == 1 ? "VmLck: 0 kB\nVmPin: 8 kB\n" : "VmLck: 0 kB\nVmPin: 0 kB\n";
        link_target = how == 1 ? "anon_inode:[io_uring]" : NULL;
        lost_fd = how == 2 ? 902 : how == 3 ? 901 : how == 4 ? 900 : -1;
        CHECK(sp_remap_restore(&remap, &maps, at_page(0), at_page(20), 20 * PAGE) == 20 * PAGE);
        CHECK((remap.exchange.fd == -1) == (how >= 2) && (remap.exchange.uffd == -1) == (how >= 2));
        END("");
    }
    play_vma_close(&maps);
    has_no_maps = false;
    status_text = link_target = NULL;
    lost_fd = -1;
    CHECK(open_maps == 0);
}

static char found[200];

static void note_part(void *arg, uint64_t lo, uint64_t hi)
{
    CHECK(arg == found);
    snprintf(found + strlen(found), sizeof(found) - strlen(found), " %ld-%ld", page_at(lo),
             page_at(hi));
}

/* Adjacent mappings are one part. */
static void remapped_parts_are_told(void)
{
    static const struct {
        struct {
            long lo, hi, offset;
            char kind;
        } vmas[6];
        const char *parts;
    } cases[] = {
        {{{0, 10, 0, 'm'}, {10, 20, 10, 'm'}, {20, 25, 0, 'o'}, {30, 40, 30, 'm'}}, " 5-20 30-35"},
        {{{0, 10, 0, 'm'}, {12, 14, 12, 'm'}, {14, 50, 14, 'm'}}, " 5-10 12-35"},
        {{{0, 5, 0, 'm'}, {35, 40, 35, 'm'}}, ""},
        {{{0, 5, 0, 'm'}, {5, 6, 0, 's'}, {34, 40, 34, 'm'}}, " 34-35"},
        {{{0, 50, 0, 'm'}}, " 5-35"},
        {{{5, 6, 6, 'm'}, {6, 7, 6, 'c'}, {7, 8, 7, 'm'}}, " 7-8"},
        {{{0, 0, 0, 0}}, ""}};
    struct sp_remap remap = make_open_remap();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_vmas(cases[i].vmas);
        found[0] = '\0';
        sp_remap_for_each(&remap, at_page(5), at_page(35), note_part, found);
        if (strcmp(found, cases[i].parts) != 0)
            fprintf(stderr, "case %d:%s\n", (int)i, found);
        CHECK(strcmp(found, cases[i].parts) == 0 && open_maps == 0);
    }
}

static const struct {
    struct {
        long lo, hi, offset;
        char kind;
    } vmas[6];
    bool eager, has_cow;
    uint64_t lo, hi; /* bytes */
    long pages;
    const char *steps;
} ranges[] = {
    {{{0, 30, 0, 'o'}, {30, 32, 0, 's'}, {32, 60, 0, 'o'}},
     false,
     false,
     2 * PAGE,
     50 * PAGE,
     46,
     " 2-30 keep 2-30 t0 32-50 keep 32-50 t0"},
    {{{0, 30, 0, 'o'}, {30, 32, 0, 's'}, {32, 60, 0, 'o'}},
     true,
     false,
     2 * PAGE,
     50 * PAGE,
     46,
     " template 2 2-30:0 keep 2-30 t5 template 32 32-50:0 keep 32-50 t5"},
    {{{0, 60, 0, 'o'}}, false, false, 2 * PAGE + 1, 50 * PAGE + 9, 47, " 3-50 keep 3-50 t0"},
    {{{0, 60, 0, 'o'}}, false, false, 2 * PAGE + 1, 3 * PAGE + 9, 0, ""},
    {{{0, 2, 0, 'o'}, {50, 60, 0, 'o'}}, false, false, 2 * PAGE, 50 * PAGE, 0, ""},
    {{{0, 60, 0, 'c'}}, true, false, 2 * PAGE, 50 * PAGE, 48, " template 2 2-50:0c keep 2-50 t5"},
    {{{0, 60, 0, 'c'}}, false, false, 2 * PAGE, 50 * PAGE, 0, " free t0"},
    {{{0, 60, 0, 'o'}, {70, 80, 50, 'c'}},
     false,
     true,
     2 * PAGE,
     50 * PAGE,
     48,
     " 2-50 keep 2-50 t0"},
    {{{0, 60, 0, 'o'}, {70, 80, 49, 'c'}}, false, true, 2 * PAGE, 50 * PAGE, 0, ""},
    {{{5, 15, 1, 'm'}, {20, 60, 0, 'o'}},
     false,
     true,
     11 * PAGE,
     50 * PAGE,
     30,
     " 20-50 keep 20-50 t0"},
    {{{5, 15, 2, 'm'}, {20, 60, 0, 'o'}}, false, true, 11 * PAGE, 50 * PAGE, 0, ""},
    {{{5, 15, 2, 'm'}, {20, 60, 0, 'o'}},
     false,
     false,
     11 * PAGE,
     50 * PAGE,
     30,
     " 20-50 keep 20-50 t0"}, /* 64 GiB at most, and up to the end of the memfd */
    {{{0, 10, 0, 'o'}}, false, false, 0, 64ull << 30, 10, " 0-10 keep 0-10 t0"},
    {{{0, 10, 0, 'o'}}, false, false, 0, (64ull << 30) + PAGE, 0, ""},
    {{{LAST - 9, LAST, 0, 'o'}},
     false,
     false,
     (LAST - 10) * PAGE,
     LAST *PAGE,
     9,
     " 17591917608951-17591917608960 keep 17591917608951-17591917608960 t0"},
    {{{LAST - 9, LAST, 0, 'o'}}, false, false, (LAST - 10) * PAGE, (LAST + 1) * PAGE, 0, ""},

};

/* Of a region, ordinary memory is remapped, and copy-on-write mappings. */
static void regions_are_remapped(void)
{
    made_template = 5;
    template_us = 100;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct sp_remap remap = make_open_remap();
        struct sp_vma_maps maps;
        set_vmas(ranges[i].vmas);
        remap.eager = ranges[i].eager;
        remap.has_cow_mappings = ranges[i].has_cow;
        sp_vma_init(&maps);
        uint64_t bytes = sp_remap_range(&remap, &maps, BASE + ranges[i].lo, BASE + ranges[i].hi);
        if (bytes != (uint64_t)ranges[i].pages * PAGE)
            fprintf(stderr, "case %d: %ld pages\n", (int)i, (long)(bytes / PAGE));
        CHECK(bytes == (uint64_t)ranges[i].pages * PAGE);
        END(ranges[i].steps);
        play_vma_close(&maps);
        CHECK(open_maps == 0 && !is_blocked(SIGUSR1));
    }
    struct sp_remap remap = make_open_remap();
    struct sp_vma_maps maps;
    sp_vma_init(&maps);
    has_no_maps = true;
    CHECK(sp_remap_range(&remap, &maps, at_page(0), at_page(9)) == 0 && remap.spent_us == 0);
    END("");
    has_no_maps = false;
}

static const struct {
    int errors[2];
    bool api_fails;
    uint64_t features;
    const char *failing;
    bool opened, kernel, moves;
    const char *why;
} systems[] = {
    {{0, 0}, false, 1 | 1 << 16, NULL, true, true, true, ""},
    {{0, EPERM}, false, 1 | 1 << 16, NULL, true, false, true, ""},
    {{0, 0}, false, 1, NULL, true, false, false, ""},
    {{0, 0},
     false,
     1 << 16,
     NULL,
     false,
     false,
     false,
     "userfaultfd does not work (Invalid argument)"},
    {{0, 0},
     true,
     1 | 1 << 16,
     NULL,
     false,
     false,
     false,
     "userfaultfd does not work (Invalid argument)"},
    {{EPERM, 0},
     false,
     1,
     NULL,
     false,
     false,
     false,
     "userfaultfd is forbidden (Operation not permitted)"},
    {{0, 0}, false, 1 | 1 << 16, "memfd", false, false, false, "cannot make a sparse memfd"},
    {{0, 0}, false, 1 | 1 << 16, "size", false, false, false, "cannot make a sparse memfd"},
    {{0, 0}, false, 1 | 1 << 16, "stat", false, false, false, "cannot make a sparse memfd"},
};

/* What the system forbids is found at the beginning, and nothing stays open then. */
static void systems_are_opened(void)
{
    char why[400] = "", remedy[400] = "";

    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        struct sp_remap remap;
        unsigned int before = count_descriptors();
        memset(lines, 0, sizeof(lines));
        memcpy(uffd_errors, systems[i].errors, sizeof(uffd_errors));
        api_fails = systems[i].api_fails;
        uffd_features = systems[i].features;
        failing_call = systems[i].failing;
        num_uffds = 0;
        CHECK(sp_remap_refused(why, remedy, sizeof(why)) == !systems[i].opened);
        CHECK(systems[i].opened || (strstr(why, systems[i].why) && remedy[0]));
        CHECK(count_descriptors() == before);
        num_uffds = 0;
        settings[0] = 1;
        sp_remap_open(&remap, true);
        CHECK(lines[UT_LOG_WARNING] == !systems[i].opened);
        CHECK((remap.exchange.fd >= 0) == systems[i].opened &&
              (remap.exchange.uffd >= 0) == systems[i].opened);
        CHECK((remap.exchange.uffd_kernel >= 0) == systems[i].kernel);
        CHECK(!systems[i].opened || remap.exchange.can_move == systems[i].moves);
        sp_remap_close(&remap);
        CHECK(remap.exchange.fd == -1 && remap.exchange.uffd == -1 &&
              remap.exchange.uffd_kernel == -1);
        CHECK(count_descriptors() == before);
    }
    failing_call = NULL;
}

static void settings_are_read(void)
{
    struct sp_remap remap;

    api_fails = false;
    uffd_errors[0] = uffd_errors[1] = 0;
    uffd_features = 1;
    for (uint64_t map = 0; map < 3; map++) {
        settings[0] = map;
        settings[1] = map == 1;
        settings[2] = 17;
        settings[3] = 23;
        num_uffds = 0;
        uint64_t before = ut_clock_ns();
        sp_remap_open(&remap, false);
        CHECK((remap.exchange.fd >= 0) == (map > 0) && num_uffds == (map > 0));
        if (map == 0)
            continue;
        CHECK(remap.eager == (map == 2) && remap.swap_protect == (map == 1));
        CHECK(remap.test_refuse_every == 17 && remap.exchange.pause_ms == 23);
        CHECK(remap.page_size == PAGE && remap.retries_left == 200);
        CHECK(remap.opened_ns >= before && remap.opened_ns <= ut_clock_ns());
        CHECK(remap.exchange.huge);
        sp_remap_close(&remap);
    }
}

int main(void)
{
    existing_pages_go_in_parts();
    missing_pages_go_in_runs();
    templates_have_a_budget();
    parts_are_restored();
    rings_keep_memory();
    sizes_of_files_may_be_limited();
    regions_are_restored();
    regions_stay();
    remapped_parts_are_told();
    regions_are_remapped();
    systems_are_opened();
    settings_are_read();
    return 0;
}
