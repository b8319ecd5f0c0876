/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory the shm provider remaps, and how: the decisions of remap.c, each at its limits, with
 * what /proc, the kernel and other threads say played by the test; and memory that is remapped and
 * restored in earnest.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "shm/blocked_threads.h"
#include "shm/pages.h"
#include "shm/proc_text.h"
#include "shm/remap.h"
#include "shm/vma.h"
#include "util/clock.h"
#include "util/log.h"

/* What is played; NULL or -1: not. */
static const char *status_text, *max_map_count, *shmem_enabled, *release;
static long mappings = -1;
static int is_fast = -1, threads_blocked = -1;
static int64_t bytes_there = -1;
static uint64_t asked_limit;

static ssize_t read_text(const char *path, char *to, size_t size)
{
    const char *text = strstr(path, "max_map_count")   ? max_map_count
                       : strstr(path, "status")        ? status_text
                       : strstr(path, "shmem_enabled") ? shmem_enabled
                                                       : NULL;

    CHECK(strcmp(path, "/proc/sys/vm/max_map_count") == 0 ||
          strcmp(path, "/proc/self/status") == 0 ||
          strcmp(path, "/sys/kernel/mm/transparent_hugepage/shmem_enabled") == 0);
    if (!text)
        return sp_read_proc_text(path, to, size);
    if (strcmp(text, "none") == 0)
        return -1;
    return snprintf(to, size, "%s", text);
}

static long count_mappings(void)
{
    return mappings >= 0 ? mappings : sp_vma_count();
}

static bool lookup_is_fast(void)
{
    return is_fast >= 0 ? is_fast : sp_vma_is_fast();
}

static bool are_blocked(uint64_t lo, uint64_t hi, unsigned int *retries)
{
    return threads_blocked >= 0 ? threads_blocked : sp_threads_are_blocked(lo, hi, retries);
}

static uint64_t count_pages(uint64_t lo, uint64_t hi, uint64_t most)
{
    asked_limit = most;
    return bytes_there >= 0 ? (uint64_t)bytes_there : sp_pages_count(lo, hi, most);
}

static int name_system(struct utsname *system)
{
    if (!release)
        return uname(system);
    snprintf(system->release, sizeof(system->release), "%s", release);
    return strcmp(release, "none") == 0 ? -1 : 0;
}

#define sp_read_proc_text      read_text
#define sp_vma_count           count_mappings
#define sp_vma_is_fast         lookup_is_fast
#define sp_threads_are_blocked are_blocked
#define sp_pages_count         count_pages
#define uname                  name_system
#include "../../provider/shm/remap.c"
#undef uname

static char lines[UT_LOG_DEBUG + 1][400];
static unsigned int num_lines;

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    va_list ap;

    CHECK(strcmp(category, "shm") == 0);
    va_start(ap, fmt);
    vsnprintf(lines[level], sizeof(lines[level]), fmt, ap);
    va_end(ap);
    num_lines++;
}

/*
 * Mappings
 */

static void ordinary_memory_alone_is_remapped(void)
{
    uint8_t *there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct sp_vma good = {
        .lo = (uintptr_t)there, .hi = (uintptr_t)there + 4096, .readable = true, .writable = true};
    struct sp_vma vma;

    CHECK(is_remappable(&good));
#define BAD(change)                                                                                \
    do {                                                                                           \
        vma = good;                                                                                \
        change;                                                                                    \
        CHECK(!is_remappable(&vma));                                                               \
    } while (0)
    BAD(vma.inode = 1);
    BAD(vma.shared = true);
    BAD(vma.readable = false);
    BAD(vma.writable = false);
    BAD(vma.executable = true);
    BAD(vma.named = true);
#undef BAD
    munmap(there, 4096);
}

static void mappings_of_the_memfd_are_known(void)
{
    const struct sp_remap remap = {.inode = 7, .dev_major = 1, .dev_minor = 2};
    const struct sp_vma own = {.lo = 4096,
                               .hi = 8192,
                               .offset = 4096,
                               .inode = 7,
                               .dev_major = 1,
                               .dev_minor = 2,
                               .readable = true,
                               .writable = true};
    struct sp_vma vma;

    for (int shared = 0; shared < 2; shared++) {
        vma = own;
        vma.shared = shared;
        CHECK(is_memfd_mapping(&remap, &vma) && is_remapped(&remap, &vma) == shared &&
              is_cow_mapping(&remap, &vma) == !shared);
#define OTHER(change)                                                                              \
    do {                                                                                           \
        vma = own;                                                                                 \
        vma.shared = shared;                                                                       \
        change;                                                                                    \
        CHECK(!is_remapped(&remap, &vma) && !is_cow_mapping(&remap, &vma));                        \
    } while (0)
        OTHER(vma.inode++);
        OTHER(vma.dev_major++);
        OTHER(vma.dev_minor++);
        OTHER(vma.offset += 4096);
#undef OTHER
        vma = own;
        vma.shared = shared;
        vma.writable = false;
        CHECK(is_remapped(&remap, &vma) == shared && !is_cow_mapping(&remap, &vma));
    }
}

static void the_stack_is_left_alone(void)
{
    const uint64_t sp = 1 << 30;
    const struct {
        uint64_t lo, hi;
        bool named, is_stack;
    } cases[] = {{sp - (1 << 20), sp - (64 << 10), false, false},
                 {sp - (1 << 20), sp - (64 << 10) + 1, false, true},
                 {sp + (32 << 10), sp + (1 << 20), false, false},
                 {sp + (32 << 10) - 1, sp + (1 << 20), false, true},
                 {sp - 1, sp + 1, false, true},
                 {4096, 8192, true, true},
                 {4096, 8192, false, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sp_vma vma = {.lo = cases[i].lo, .hi = cases[i].hi, .stack = cases[i].named};
        CHECK(has_stack(&vma, sp) == cases[i].is_stack);
    }
}

static void parts_of_mappings(void)
{
    const struct sp_vma vma = {
        .lo = 0x100000, .hi = 0x108000, .offset = 0x40000, .readable = true, .writable = true};
    static const struct {
        uint64_t lo, hi, from, to; /* of the memfd */
    } cases[] = {{0x40000, 0x48000, 0x40000, 0x48000},
                 {0x30000, 0x50000, 0x40000, 0x48000},
                 {0x41000, 0x47000, 0x41000, 0x47000},
                 {0x30000, 0x41000, 0x40000, 0x41000},
                 {0x47000, 0x50000, 0x47000, 0x48000}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_memfd_part part = part_of(&vma, cases[i].lo, cases[i].hi);
        CHECK(part.offset == cases[i].from && part.lo == 0x100000 + cases[i].from - 0x40000);
        CHECK(part.hi == 0x100000 + cases[i].to - 0x40000);
        CHECK(part.prot == (PROT_READ | PROT_WRITE));
    }
}

/*
 * Decisions
 */

static struct sp_remap make_remap(void)
{
    return (struct sp_remap){.exchange = {.fd = -1, .uffd = -1, .uffd_kernel = -1},
                             .opened_ns = ut_clock_ns(),
                             .page_size = 4096};
}

static void extents(void)
{
    enum { MIB = 1 << 20 };
    static const struct {
        const char *what;
        bool eager, swap_protect, blocked, privileged, pins, can_move;
        int64_t bytes;
        uint64_t spent;
        enum extent extent;
    } cases[] = {{"nothing there", 0, 0, 0, 0, 0, 0, 0, 0, EXTENT_MISSING},
                 {"nothing there, blocked", 0, 0, 1, 0, 0, 0, 0, 0, EXTENT_MISSING},
                 {"pages that threads use", 0, 0, 0, 0, 0, 0, 4096, 0, EXTENT_NOTHING},
                 {"the same, privileged", 0, 0, 0, 1, 0, 0, 4096, 0, EXTENT_ALL},
                 {"pages of blocked threads", 0, 0, 1, 0, 0, 0, 4096, 0, EXTENT_ALL},
                 {"as many as possible", 0, 0, 1, 0, 0, 0, 64 * MIB, 0, EXTENT_ALL},
                 {"too many", 0, 0, 1, 0, 0, 0, 64 * MIB + 1, 0, EXTENT_MISSING},
                 {"within the budget", 0, 0, 1, 0, 0, 0, 50 * MIB, 200000 - 102400, EXTENT_ALL},
                 {"beyond the budget", 0, 0, 1, 0, 0, 0, 50 * MIB, 200000 - 102399, EXTENT_MISSING},
                 {"pinned", 0, 0, 1, 0, 1, 0, 4096, 0, EXTENT_MISSING},
                 {"pinned, but can move", 0, 0, 1, 0, 1, 1, 4096, 0, EXTENT_ALL},
                 {"eager", 1, 0, 0, 0, 1, 0, 100 * MIB, 1 << 30, EXTENT_ALL},
                 {"for swap", 0, 1, 0, 0, 1, 0, 100 * MIB, 1 << 30, EXTENT_ALL}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_remap remap = make_remap();
        remap.eager = cases[i].eager;
        remap.swap_protect = cases[i].swap_protect;
        remap.exchange.uffd_kernel = cases[i].privileged ? 5 : -1;
        remap.has_pins = cases[i].pins;
        remap.exchange.can_move = cases[i].can_move;
        remap.spent_us = cases[i].spent;
        threads_blocked = cases[i].blocked;
        bytes_there = cases[i].bytes;
        enum extent extent = find_extent(&remap, 0, 1 << 30);
        if (extent != cases[i].extent)
            printf("%s: %d\n", cases[i].what, (int)extent);
        CHECK(extent == cases[i].extent && remap.threads_blocked == cases[i].blocked);
        bool is_counted = extent == EXTENT_ALL && !cases[i].eager && !cases[i].swap_protect;
        CHECK(remap.spent_us ==
              cases[i].spent + (is_counted ? (uint64_t)cases[i].bytes / 1024 * 2 : 0));
        CHECK(cases[i].eager || cases[i].swap_protect || asked_limit == 64 * MIB);
    }
    threads_blocked = -1;
    bytes_there = -1;
}

static void methods(void)
{
    for (int i = 0; i < 32; i++) {
        bool privileged = i & 1, blocked = i & 2, pins = i & 4, can_move = i & 8, cow = i & 16;
        struct sp_remap remap = make_remap();
        remap.exchange.uffd_kernel = privileged ? 5 : -1;
        remap.threads_blocked = blocked;
        remap.has_pins = pins;
        remap.exchange.can_move = can_move;
        enum sp_exchange_method wanted = !cow && privileged ? SP_EXCHANGE_UFFD_MOVE
                                         : blocked && !pins ? SP_EXCHANGE_SPLICE
                                         : !cow && can_move ? SP_EXCHANGE_UFFD_MOVE
                                                            : SP_EXCHANGE_UFFD_WP;
        CHECK(choose_method(&remap, cow) == wanted);
        CHECK(may_exchange(&remap, cow) == (!cow || (blocked && !pins)));
        remap.eager = true;
        CHECK(may_exchange(&remap, cow));
        remap.eager = false;
        remap.swap_protect = true;
        CHECK(may_exchange(&remap, cow));
    }
}

/* At first 200 ms, and a twentieth of the time since. */
static void the_budget_grows_with_time(void)
{
    struct sp_remap remap = make_remap();

    remap.opened_ns = ut_clock_ns();
    CHECK(is_within_budget(&remap, 200000) && !is_within_budget(&remap, 200001));
    remap.spent_us = 150000;
    CHECK(is_within_budget(&remap, 50000) && !is_within_budget(&remap, 50001));
    fake_clock_pass_ms(1000);
    CHECK(is_within_budget(&remap, 100000) && !is_within_budget(&remap, 100002));
    remap.eager = true;
    CHECK(is_within_budget(&remap, 1 << 30));
    remap.eager = false;
    remap.swap_protect = true;
    CHECK(is_within_budget(&remap, 1 << 30));
}

/* Half of what the kernel allows, and 2048 where it searches slowly. */
static void mappings_are_limited(void)
{
    static const struct {
        const char *allowed;
        long count;
        bool fast, too_many;
        const char *line;
    } cases[] = {{"65530\n", 2048, false, false, ""},
                 {"65530\n", 2049, false, true, "has 2049 mappings, and this kernel"},
                 {"65530\n", 2049, true, false, ""},
                 {"65530\n", 32765, true, false, ""},
                 {"65530\n", 32766, true, true, "more than half of the 65530 mappings"},
                 {"65530\n", 32766, false, true, "more than half of the 65530 mappings"},
                 {"none", 32766, true, true, "more than half of the 65530 mappings"},
                 {"1000\n", 501, true, true, "more than half of the 1000 mappings"},
                 {"1000\n", 500, true, false, ""}};
    int threshold = ut_log_threshold;

    ut_log_threshold = UT_LOG_INFO;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_remap remap = make_remap();
        max_map_count = cases[i].allowed;
        mappings = cases[i].count;
        is_fast = cases[i].fast;
        memset(lines, 0, sizeof(lines));
        num_lines = 0;
        CHECK(has_too_many_mappings(&remap) == cases[i].too_many);
        CHECK(strstr(lines[UT_LOG_INFO], cases[i].line) && num_lines == cases[i].too_many);
        mappings = cases[i].too_many ? 1 : 1000000; /* looked at again after 256 */
        for (int k = 1; k < 256; k++)
            CHECK(has_too_many_mappings(&remap) == cases[i].too_many);
        CHECK(has_too_many_mappings(&remap) == !cases[i].too_many);
        mappings = 1000000;
        for (int k = 0; k < 256; k++)
            has_too_many_mappings(&remap);
        CHECK(num_lines == (cases[i].too_many ? 2 : 1)); /* said once while it lasts */
    }
    max_map_count = NULL;
    mappings = is_fast = -1;
    ut_log_threshold = threshold;
}

static void locked_and_pinned_memory_is_seen(void)
{
    static const struct {
        const char *text;
        bool known, locked, pinned;
    } cases[] = {{"VmLck:\t       0 kB\nVmPin:\t       0 kB\n", true, false, false},
                 {"VmLck:\t       4 kB\nVmPin:\t       0 kB\n", true, true, false},
                 {"VmLck:\t       0 kB\nVmPin:\t       8 kB\n", true, false, true},
                 {"Name:\tx\n", true, false, true},
                 {"", false, false, false},
                 {"none", false, false, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool locked = false, pinned = false;
        status_text = cases[i].text;
        CHECK(read_status(&locked, &pinned) == cases[i].known);
        CHECK(!cases[i].known || (locked == cases[i].locked && pinned == cases[i].pinned));
    }
    status_text = NULL;
}

static void old_kernels_are_known(void)
{
    static const struct {
        const char *release;
        bool too_old;
    } cases[] = {{"4.19.0", true}, {"5.10.0-1", true}, {"5.11.0", false},
                 {"6.1.0", false}, {"odd", false},     {"none", false}};
    char why[400], remedy[400];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        release = cases[i].release;
        CHECK(kernel_is_too_old() == cases[i].too_old);
        explain_uffd(EPERM, why, remedy, sizeof(why));
        CHECK(!!strstr(remedy, "it takes Linux 5.11 or newer") == cases[i].too_old);
        CHECK(strstr(why, "(Operation not permitted)"));
    }
    CHECK(strstr(why, "userfaultfd is forbidden") && strstr(remedy, "--security-opt seccomp="));
    explain_uffd(ENOSYS, why, remedy, sizeof(why));
    CHECK(strstr(why, "is forbidden (Function not implemented)") && strstr(remedy, "seccomp.json"));
    explain_uffd(EMFILE, why, remedy, sizeof(why));
    CHECK(strstr(why, "does not work (Too many open files)") && strstr(remedy, "ulimit -n"));
    release = NULL;
    explain_memfd(EFBIG, why, remedy, sizeof(why));
    CHECK(strstr(why, "sparse memfd of 72057594037927936 bytes (File too large)"));
    CHECK(strcmp(remedy, "ulimit -f unlimited: the size of files is limited") == 0);
    explain_memfd(ENOSYS, why, remedy, sizeof(why));
    CHECK(strstr(remedy, "allow memfd_create"));
}

static void huge_pages_may_be_forbidden(void)
{
    static const struct {
        const char *text;
        bool allowed;
    } cases[] = {{"always within_size [advise] never deny force\n", true},
                 {"[always] within_size advise never deny force\n", true},
                 {"always within_size advise [never] deny force\n", false},
                 {"always within_size advise never [deny] force\n", false},
                 {"none", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        shmem_enabled = cases[i].text;
        CHECK(huge_pages_allowed() == cases[i].allowed);
    }
    shmem_enabled = NULL;
}

/*
 * In earnest
 */

/* False, with a line that says so: this system forbids userfaultfd, or it cannot protect pages. */
static bool can_remap(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    bool opens = uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0;

    if (!opens)
        printf("memory is not remapped in earnest: userfaultfd: %s\n", strerror(errno));
    else if (!(api.features & FEATURE_WP))
        printf("memory is not remapped in earnest: this kernel protects no pages from writes\n");
    if (uffd >= 0)
        close(uffd);
    return opens && (api.features & FEATURE_WP);
}

enum { PAGE = 4096, PAGES = 40, BYTES = PAGES * PAGE };

static uint64_t found_lo, found_hi;
static unsigned int num_found;

static void note_range(void *arg, uint64_t lo, uint64_t hi)
{
    CHECK(arg == &num_found);
    num_found++;
    found_lo = lo;
    found_hi = hi;
}

static uint64_t remap_now(struct sp_remap *remap, uint64_t lo, uint64_t hi)
{
    struct sp_vma_maps maps;

    sp_vma_init(&maps);
    uint64_t bytes = sp_remap_range(remap, &maps, lo, hi);
    sp_vma_close(&maps);
    num_found = 0;
    sp_remap_for_each(remap, lo, hi, note_range, &num_found);
    return bytes;
}

static uint64_t restore_now(struct sp_remap *remap, uint64_t lo, uint64_t hi)
{
    struct sp_vma_maps maps;

    sp_vma_init(&maps);
    uint64_t left = sp_remap_restore(remap, &maps, lo, hi, hi - lo);
    sp_vma_close(&maps);
    num_found = 0;
    sp_remap_for_each(remap, lo, hi, note_range, &num_found);
    return left;
}

static uint8_t in_memfd(const struct sp_remap *remap, uint64_t at)
{
    uint8_t byte = 0xee;

    CHECK(pread(remap->exchange.fd, &byte, 1, (off_t)at) == 1);
    return byte;
}

/* Memory, of which none or all pages exist, is remapped and restored with its content. */
static void memory_is_remapped_and_restored(void)
{
    struct sp_remap remap;

    sp_remap_open(&remap, false);
    CHECK(remap.exchange.fd >= 0);
    for (int exists = 0; exists < 2; exists++) {
        for (int inside = 0; inside < 2; inside++) {
            uint8_t *at =
                mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            uint64_t lo = (uintptr_t)at + (inside ? PAGE : 0), hi = lo + BYTES - 2 * PAGE;
            madvise(at, BYTES, MADV_NOHUGEPAGE);
            if (exists)
                for (size_t i = 0; i < BYTES; i++)
                    at[i] = (uint8_t)(i * 7 + i / 251);
            CHECK(sp_remap_may_remap(&remap));
            threads_blocked = 1;
            uint64_t spent = remap.spent_us;
            CHECK(remap_now(&remap, lo, hi) == hi - lo);
            CHECK(exists ? remap.spent_us > spent + 100 : remap.spent_us == spent + 100);
            CHECK(num_found == 1 && found_lo == lo && found_hi == hi);
            for (size_t i = 0; exists && i < BYTES; i += 37)
                CHECK(at[i] == (uint8_t)(i * 7 + i / 251));
            *(uint8_t *)(uintptr_t)lo = 0x42;
            *(uint8_t *)(uintptr_t)(hi - 1) = 0x43;
            CHECK(in_memfd(&remap, lo) == 0x42 && in_memfd(&remap, hi - 1) == 0x43);
            CHECK(restore_now(&remap, lo, hi) == 0 && num_found == 0);
            CHECK(*(uint8_t *)(uintptr_t)lo == 0x42 && *(uint8_t *)(uintptr_t)(hi - 1) == 0x43);
            CHECK(in_memfd(&remap, lo) == 0 && in_memfd(&remap, hi - 1) == 0);
            for (size_t i = 2 * PAGE; exists && i < BYTES - 3 * PAGE; i += 37)
                CHECK(at[i] == (uint8_t)(i * 7 + i / 251));
            munmap(at, BYTES);
        }
    }
    threads_blocked = -1;
    sp_remap_close(&remap);
    CHECK(remap.exchange.fd == -1 && remap.exchange.uffd == -1 && !sp_remap_may_remap(&remap));
}

/* Memory that the program has unmapped or moved: its pages are freed, or restored where they are.
 */
static void moved_memory_is_restored(void)
{
    struct sp_remap remap;

    sp_remap_open(&remap, false);
    CHECK(remap.exchange.fd >= 0);
    threads_blocked = 1;
    for (int moved = 0; moved < 2; moved++) {
        uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t lo = (uintptr_t)at;
        madvise(at, BYTES, MADV_NOHUGEPAGE);
        CHECK(remap_now(&remap, lo, lo + BYTES) == BYTES);
        memset(at, 0x55, BYTES);
        CHECK(in_memfd(&remap, lo) == 0x55);
        uint8_t *now = NULL;
        if (moved)
            CHECK((now = mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                                mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                     0))) != MAP_FAILED);
        else
            CHECK(munmap(at, BYTES) == 0);
        CHECK(restore_now(&remap, lo, lo + BYTES) == 0);
        CHECK(in_memfd(&remap, lo) == 0 && in_memfd(&remap, lo + BYTES - 1) == 0);
        for (size_t i = 0; moved && i < BYTES; i += 61)
            CHECK(now[i] == 0x55);
        if (moved) {
            now[0] = 0x66;
            CHECK(in_memfd(&remap, lo) == 0);
            munmap(now, BYTES);
        }
    }
    threads_blocked = -1;
    sp_remap_close(&remap);
}

/* What is never remapped. */
static void other_memory_is_left_alone(void)
{
    struct sp_remap remap;
    struct sp_vma_maps maps;

    sp_remap_open(&remap, false);
    CHECK(remap.exchange.fd >= 0);
    threads_blocked = 1;
    uint8_t *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(remap_now(&remap, (uintptr_t)shared, (uintptr_t)shared + BYTES) == 0 && num_found == 0);
    uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(remap_now(&remap, (uintptr_t)at + 1, (uintptr_t)at + PAGE - 1) == 0); /* no whole page */
    CHECK(remap_now(&remap, (uintptr_t)at + 1, (uintptr_t)at + 2 * PAGE + 1) == PAGE);
    CHECK(num_found == 1 && found_lo == (uintptr_t)at + PAGE && found_hi == found_lo + PAGE);
    CHECK(restore_now(&remap, (uintptr_t)at, (uintptr_t)at + BYTES) == 0 && num_found == 0);
    sp_vma_init(&maps);
    CHECK(sp_remap_range(&remap, &maps, (uintptr_t)at, (uintptr_t)at) == 0);
    CHECK(sp_remap_range(&remap, &maps, 4096, 4096 + (64ull << 30) + 4096) == 0); /* too large */
    sp_vma_close(&maps);
    char here[3 * PAGE]; /* the stack */
    memset(here, 1, sizeof(here));
    CHECK(remap_now(&remap, (uintptr_t)here, (uintptr_t)here + sizeof(here)) == 0);
    remap.test_refuse_every = 3;
    remap.test_count = 0;
    for (int i = 1; i <= 9; i++)
        CHECK(sp_remap_may_remap(&remap) == (i % 3 != 0));
    remap.test_refuse_every = 0;
    remap.opened_ns = ut_clock_ns(); /* another registration fits into the budget, or not */
    remap.spent_us = 200000 - 100;
    CHECK(sp_remap_may_remap(&remap));
    remap.spent_us++;
    CHECK(!sp_remap_may_remap(&remap));
    remap.spent_us = 0;
    status_text = "VmLck:\t       4 kB\nVmPin:\t       0 kB\n";
    CHECK(!sp_remap_may_remap(&remap));
    remap.swap_protect = true;
    CHECK(sp_remap_may_remap(&remap));
    status_text = "none";
    CHECK(!sp_remap_may_remap(&remap));
    status_text = NULL;
    CHECK(sp_remap_check_fd(remap.exchange.fd) && !sp_remap_check_fd(0));
    int other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(other >= 0 && ftruncate(other, (off_t)FILE_SIZE) == 0 && !sp_remap_check_fd(other));
    CHECK(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && sp_remap_check_fd(other));
    close(other);
    other = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(other >= 0 && ftruncate(other, (off_t)FILE_SIZE - 1) == 0);
    CHECK(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && !sp_remap_check_fd(other));
    close(other);
    threads_blocked = -1;
    munmap(at, BYTES);
    munmap(shared, BYTES);
    sp_remap_close(&remap);
}

int main(void)
{
    ordinary_memory_alone_is_remapped();
    mappings_of_the_memfd_are_known();
    the_stack_is_left_alone();
    parts_of_mappings();
    extents();
    methods();
    the_budget_grows_with_time();
    mappings_are_limited();
    locked_and_pinned_memory_is_seen();
    old_kernels_are_known();
    huge_pages_may_be_forbidden();
    if (!can_remap())
        return 77;
    memory_is_remapped_and_restored();
    moved_memory_is_restored();
    other_memory_is_left_alone();
    return 0;
}
