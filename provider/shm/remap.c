/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for remapping. At registration the program hands its memory over, so this is the only time.
 * Pages that do not exist yet have no content to lose. Existing pages are copied if no other thread
 * of the process can use them meanwhile (blocked_threads.c), no page is pinned, and the copy takes
 * at most a few hundredths of a second. Later nothing changes until the memory is deregistered.
 */
#include "remap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "blocked_threads.h"
#include "pages.h"
#include "proc_text.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/log.h"
#include "vma.h"

#define LOG "shm"

#ifndef UFFD_USER_MODE_ONLY
#    define UFFD_USER_MODE_ONLY 1
#endif
/* Missing in older <linux/userfaultfd.h>. */
#define FEATURE_WP   (1ull << 0)
#define FEATURE_MOVE (1ull << 16)

#define FILE_SIZE    (1ull << 56)
#define MAX_EXCHANGE (64ull << 20) /* bytes of one exchange, during which writers are blocked */
#define MAX_COPY     (64ull << 20) /* bytes of existing pages in one registration: 30 to 80 ms */
#define MAX_RANGE                                                                                  \
    (64ull << 30) /* larger regions are not remapped: reading their page table takes too long */

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    COUNT_EVERY = 256,      /* registrations between two counts of the mappings */
    STACK_BELOW = 64 << 10, /* bytes below the stack pointer that an exchange may use */
    STACK_ABOVE = 32 << 10, /* bytes above: frames of the callers that an exchange may access */
    MAX_READ = 2048,        /* maximum number of mappings if /proc/self/maps must be read: 1 ms */
    TEXT = 384,             /* size of the text of a reason or a remedy */
    MAX_RETRIES = 200,      /* of sp_threads_are_blocked(), for all registrations together */
    /* estimated cost in microseconds of remapping and restoring a region, and of each KiB of
     * existing pages */
    REGISTRATION_US = 100,
    KIB_US = 2,
    /* budget: registrations may take this long at first, and later 1/20 of the process's time */
    INITIAL_BUDGET_US = 200000,
    BUDGET_DIVISOR = 20,
    /* minimum bytes of a run of missing pages that is remapped; smaller only if the region is */
    MIN_MISSING = 64 << 10,
    MAX_PARTS = 4, /* runs of missing pages that are remapped: as many as SP_MR_RANGES */
};

enum { SHM_MAP_NEVER, SHM_MAP_IF_SAFE, SHM_MAP_EAGER }; /* UTOFU_SHM_MAP */

/*
 * Opening
 */

/* Returns a userfaultfd and the features of this kernel, or -1. */
static int open_uffd_for(int flags, uint64_t *features)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = ut_fd_open_ours((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags));

    if (fd < 0)
        return -1;
    if (ioctl(fd, UFFDIO_API, &api) == 0 && (api.features & FEATURE_WP)) {
        *features = api.features;
        return fd;
    }
    close(fd);
    errno = EINVAL;
    return -1;
}

/* Opens uffd and, if possible, uffd_kernel: serving faults of the kernel requires a privilege
 * (CAP_SYS_PTRACE, vm.unprivileged_userfaultfd), and is useful only with UFFDIO_MOVE (exchange.c).
 * False: errno. */
static bool open_uffd(struct sp_exchange *exchange)
{
    uint64_t features = 0, more = 0;

    exchange->uffd = open_uffd_for(UFFD_USER_MODE_ONLY, &features);
    exchange->can_move = features & FEATURE_MOVE;
    exchange->uffd_kernel =
        exchange->uffd >= 0 && exchange->can_move ? open_uffd_for(0, &more) : -1;
    return exchange->uffd >= 0;
}

static void close_uffd(struct sp_exchange *exchange)
{
    ut_fd_close(exchange->uffd);
    ut_fd_close(exchange->uffd_kernel);
    exchange->uffd = exchange->uffd_kernel = -1;
}

/* True if the size of files is limited (ulimit -f): a write beyond the limit raises SIGXFSZ. */
static bool is_file_size_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_SIZE;
}

/* Opens the memfd and sets inode and device. Returns a descriptor, or -1 and errno. */
static int open_memfd(struct sp_remap *remap)
{
    struct stat st;

    if (sizeof(void *) < 8 || is_file_size_limited()) {
        errno = EFBIG;
        return -1;
    }
    int fd = ut_fd_open_ours(memfd_create("utofu-mapped", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)FILE_SIZE) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        fstat(fd, &st) != 0) {
        close(fd);
        return -1;
    }
    remap->inode = st.st_ino;
    remap->dev_major = major(st.st_dev);
    remap->dev_minor = minor(st.st_dev);
    return fd;
}

/* True if madvise(MADV_HUGEPAGE) works for memfds on this system. */
static bool huge_pages_allowed(void)
{
    char text[128];

    return sp_read_proc_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text,
                             sizeof(text)) > 0 &&
           !strstr(text, "[never]") && !strstr(text, "[deny]");
}

static bool kernel_is_too_old(void)
{
    struct utsname system;
    int version, patch_level;

    return uname(&system) == 0 && sscanf(system.release, "%d.%d", &version, &patch_level) == 2 &&
           (version < 5 || (version == 5 && patch_level < 11));
}

/* `error`: the errno of open_uffd(). */
static void explain_uffd(int error, char *why, char *remedy, size_t size)
{
    if (kernel_is_too_old()) {
        snprintf(why, size, "userfaultfd does not serve unprivileged processes here (%s)",
                 strerror(error));
        snprintf(remedy, size, "it takes Linux 5.11 or newer");
    } else if (error == EPERM || error == ENOSYS) {
        snprintf(why, size, "userfaultfd is forbidden (%s)", strerror(error));
        snprintf(remedy, size,
                 "start the container (podman, docker) with --security-opt "
                 "seccomp=%s/seccomp.json, or allow userfaultfd in its own profile",
                 UT_DATA_DIR);
    } else {
        snprintf(why, size, "userfaultfd does not work (%s)", strerror(error));
        snprintf(remedy, size,
                 "allow another open file (ulimit -n), or use a kernel with "
                 "CONFIG_USERFAULTFD");
    }
}

/* `error`: the errno of open_memfd(). */
static void explain_memfd(int error, char *why, char *remedy, size_t size)
{
    snprintf(why, size, "cannot make a sparse memfd of %llu bytes (%s)", FILE_SIZE,
             strerror(error));
    snprintf(remedy, size, "%s",
             error == EFBIG ? "ulimit -f unlimited: the size of files is limited"
                            : "allow memfd_create and files of that size");
}

/* Opens userfaultfd and the memfd; on failure explains the reason and the remedy. */
static bool open_descriptors(struct sp_remap *remap, char *why, char *remedy, size_t size)
{
    *remap = (struct sp_remap){.exchange = {.fd = -1, .uffd = -1, .uffd_kernel = -1}};
    if (!open_uffd(&remap->exchange)) {
        explain_uffd(errno, why, remedy, size);
        return false;
    }
    remap->exchange.fd = open_memfd(remap);
    if (remap->exchange.fd >= 0)
        return true;
    explain_memfd(errno, why, remedy, size);
    close_uffd(&remap->exchange);
    return false;
}

bool sp_remap_refused(char *why, char *remedy, size_t size)
{
    struct sp_remap remap;
    bool opened = open_descriptors(&remap, why, remedy, size);

    sp_remap_close(&remap);
    return !opened;
}

void sp_remap_open(struct sp_remap *remap, bool warn)
{
    char why[TEXT], remedy[TEXT];

    if (ut_env_num(UT_ENV_SHM_MAP) == SHM_MAP_NEVER) {
        *remap = (struct sp_remap){.exchange = {.fd = -1, .uffd = -1, .uffd_kernel = -1}};
        return;
    }
    if (!open_descriptors(remap, why, remedy, TEXT))
        ut_log_at(warn ? UT_LOG_WARNING : UT_LOG_INFO, LOG,
                  "registered memory is not mapped, so " SP_REMAP_COST ": %s; %s; set "
                  "UTOFU_SHM_MAP=0 if this is intended",
                  why, remedy);
    remap->retries_left = MAX_RETRIES;
    remap->opened_ns = ut_clock_ns();
    remap->eager = ut_env_num(UT_ENV_SHM_MAP) == SHM_MAP_EAGER;
    remap->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    remap->swap_protect = ut_env_num(UT_ENV_SWAP_PROTECT);
    remap->test_refuse_every = (uint32_t)ut_env_num(UT_ENV_SHM_MAP_REFUSE);
    remap->exchange.pause_ms = (uint32_t)ut_env_num(UT_ENV_SHM_EXCHANGE_MS);
    remap->exchange.huge = huge_pages_allowed();
}

void sp_remap_close(struct sp_remap *remap)
{
    close_uffd(&remap->exchange);
    ut_fd_close(remap->exchange.fd);
    remap->exchange.fd = -1;
    sp_templates_close(&remap->templates);
}

bool sp_remap_check_fd(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
           st.st_size == (off_t)FILE_SIZE;
}

/*
 * Conditions for remapping
 */

/* Reads whether the process has locked memory (mlock), which must stay locked and as memfd pages
 * would not, and whether it has pinned pages. The kernel counts long-term pins only: buffers of
 * io_uring, memory registered with a device. False: not known. */
static bool read_status(bool *locked, bool *pinned)
{
    char buf[4096];

    if (sp_read_proc_text("/proc/self/status", buf, sizeof(buf)) <= 0)
        return false;
    const char *lck = strstr(buf, "VmLck:"), *pin = strstr(buf, "VmPin:");
    *locked = lck && strtoul(lck + strlen("VmLck:"), NULL, 10) != 0;
    *pinned = !pin || strtoul(pin + strlen("VmPin:"), NULL, 10) != 0;
    return true;
}

/*
 * Each exchange may add two mappings. The kernel limits their number (vm.max_map_count), and older
 * kernels search longer the more mappings are at lower addresses.
 */
static bool has_too_many_mappings(struct sp_remap *remap)
{
    char text[32];

    if (remap->num_registrations++ % COUNT_EVERY != 0)
        return remap->too_many_mappings;
    ssize_t n = sp_read_proc_text("/proc/sys/vm/max_map_count", text, sizeof(text));
    long allowed = n > 0 ? strtol(text, NULL, 10) : 65530, count = sp_vma_count();
    bool all = count > allowed / 2, slow = !all && count > MAX_READ && !sp_vma_is_fast();
    if (all && !remap->too_many_mappings)
        ut_info(LOG,
                "this process uses more than half of the %ld mappings that vm.max_map_count "
                "allows: no more registered memory is mapped",
                allowed);
    if (slow && !remap->too_many_mappings)
        ut_info(LOG,
                "this process has %ld mappings, and this kernel (before Linux 6.11) looks "
                "them up slowly beyond %d: no more registered memory is mapped",
                count, (int)MAX_READ);
    remap->too_many_mappings = all || slow;
    return remap->too_many_mappings;
}

/* True if remapping may take this much time more. */
static bool is_within_budget(const struct sp_remap *remap, uint64_t us)
{
    return remap->eager || remap->swap_protect ||
           remap->spent_us + us <=
               INITIAL_BUDGET_US + (ut_clock_ns() - remap->opened_ns) / 1000 / BUDGET_DIVISOR;
}

/* False, and no more remapping, if the program has closed or replaced the descriptors. */
static bool is_open(struct sp_remap *remap)
{
    if (remap->exchange.fd < 0)
        return false;
    if (ut_fd_check_still_ours(remap->exchange.fd) &&
        ut_fd_check_still_ours(remap->exchange.uffd) &&
        (remap->exchange.uffd_kernel < 0 || ut_fd_check_still_ours(remap->exchange.uffd_kernel)))
        return true;
    sp_remap_close(remap);
    return false;
}

bool sp_remap_may_remap(struct sp_remap *remap)
{
    bool locked;

    if (!is_open(remap))
        return false;
    if (remap->test_refuse_every && ++remap->test_count % remap->test_refuse_every == 0)
        return false;
    return is_within_budget(remap, REGISTRATION_US) && !has_too_many_mappings(remap) &&
           !is_file_size_limited() && read_status(&locked, &remap->has_pins) &&
           (remap->swap_protect || !locked);
}

/* True if the mapping shows the memfd. */
static bool is_memfd_mapping(const struct sp_remap *remap, const struct sp_vma *vma)
{
    return vma->inode == remap->inode && vma->dev_major == remap->dev_major &&
           vma->dev_minor == remap->dev_minor;
}

/* True if the mapping is remapped memory at its own address. */
static bool is_remapped(const struct sp_remap *remap, const struct sp_vma *vma)
{
    return is_memfd_mapping(remap, vma) && vma->shared && vma->offset == vma->lo;
}

/* True for a mapping left by sp_exchange_restore_cow(): private, with pages of the memfd where
 * nobody has written. */
static bool is_cow_mapping(const struct sp_remap *remap, const struct sp_vma *vma)
{
    return is_memfd_mapping(remap, vma) && !vma->shared && vma->offset == vma->lo &&
           sp_vma_prot(vma) == (PROT_READ | PROT_WRITE);
}

/* True if the program has set a NUMA policy for the memory, which remapping would lose. */
static bool has_numa_policy(const struct sp_vma *vma)
{
    enum { DEFAULT = 0, OF_ADDRESS = 2 }; /* MPOL_DEFAULT, MPOL_F_ADDR */
    int mode = DEFAULT;

    return syscall(SYS_get_mempolicy, &mode, NULL, 0, vma->lo, OF_ADDRESS) == 0 && mode != DEFAULT;
}

/* True if the mapping is ordinary memory: private, anonymous, readable and writable. */
static bool is_remappable(const struct sp_vma *vma)
{
    return vma->inode == 0 && !vma->shared && vma->readable && vma->writable && !vma->executable &&
           !vma->named && !has_numa_policy(vma);
}

/* True if the mapping contains stack that this thread uses during an exchange: bytes below
 * `stack_pointer`, and frames of the callers above. An earlier exchange may have split the stack's
 * mapping there. */
static bool has_stack(const struct sp_vma *vma, uint64_t stack_pointer)
{
    return vma->stack ||
           (vma->lo < stack_pointer + STACK_ABOVE && vma->hi > stack_pointer - STACK_BELOW);
}

/* Which pages of [lo, hi) are exchanged. */
enum extent {
    EXTENT_NOTHING,
    EXTENT_MISSING, /* pages that do not exist yet */
    EXTENT_ALL,     /* existing pages, too */
};

/* Returns which pages of [lo, hi) may be exchanged. If some pages exist, another thread may be
 * filling the rest: its system calls would fail. If none exists, no thread has begun. */
static enum extent find_extent(struct sp_remap *remap, uint64_t lo, uint64_t hi)
{
    remap->threads_blocked = sp_threads_are_blocked(lo, hi, &remap->retries_left);
    if (remap->eager || remap->swap_protect)
        return EXTENT_ALL;
    uint64_t bytes = sp_pages_count(lo, hi, MAX_COPY), us = bytes / 1024 * KIB_US;
    if (bytes == 0)
        return EXTENT_MISSING;
    if (!remap->threads_blocked && remap->exchange.uffd_kernel < 0)
        return EXTENT_NOTHING;
    if (bytes > MAX_COPY || !is_within_budget(remap, us) ||
        (remap->has_pins && !remap->exchange.can_move))
        return EXTENT_MISSING;
    remap->spent_us += us;
    return EXTENT_ALL;
}

/* Returns the method for existing pages. `cow`: of a copy-on-write mapping. UFFDIO_MOVE in a
 * privileged process has no visible side effect. */
static enum sp_exchange_method choose_method(const struct sp_remap *remap, bool cow)
{
    if (remap->exchange.uffd_kernel >= 0 && !cow)
        return SP_EXCHANGE_UFFD_MOVE;
    if (remap->threads_blocked && !remap->has_pins)
        return SP_EXCHANGE_SPLICE;
    return remap->exchange.can_move && !cow ? SP_EXCHANGE_UFFD_MOVE : SP_EXCHANGE_UFFD_WP;
}

/* True if the memfd's pages of [lo, hi) are mapped at another address: the program may have moved a
 * copy-on-write mapping, and now registers other memory at its old address. */
static bool is_mapped_elsewhere(const struct sp_remap *remap, uint64_t lo, uint64_t hi)
{
    struct sp_vma_maps maps;
    struct sp_vma vma;
    uint64_t at = 0;
    bool found = false;

    sp_vma_init(&maps);
    if (!sp_vma_open(&maps))
        return true;
    while (!found && sp_vma_find(&maps, at, &vma)) {
        found = is_memfd_mapping(remap, &vma) && vma.offset != vma.lo && vma.offset < hi &&
                vma.offset + (vma.hi - vma.lo) > lo;
        at = vma.hi;
    }
    sp_vma_close(&maps);
    return found;
}

/* False for copy-on-write mappings that threads use: their system calls would fail. */
static bool may_exchange(const struct sp_remap *remap, bool cow)
{
    return !cow || (remap->threads_blocked && !remap->has_pins) || remap->eager ||
           remap->swap_protect;
}

/*
 * Remapping
 */

/* Returns the number of bytes that are remapped. */
static uint64_t exchange_existing_pages(struct sp_remap *remap, uint64_t lo, uint64_t hi, bool cow,
                                        uint64_t *template)
{
    uint64_t bytes = 0;

    for (uint64_t next; lo < hi; lo = next) {
        next = (lo + MAX_EXCHANGE) & ~(SP_HUGE - 1); /* do not split a huge page */
        next = next < hi ? next : hi;
        bytes += sp_exchange_existing(&remap->exchange, lo, next, choose_method(remap, cow), cow,
                                      template);
    }
    return bytes;
}

/* Returns the end of the range from `lo` on whose pages uniformly exist or are missing (*missing).
 * Works in blocks of a huge page, and of a block that exists checks only the first and the last
 * page. */
static uint64_t find_missing_end(struct sp_pages *pages, uint64_t lo, uint64_t hi, bool *missing)
{
    uint64_t end = (lo & ~(SP_HUGE - 1)) + SP_HUGE;
    struct sp_page_run run = {lo, hi, true};

    end = end < hi ? end : hi;
    *missing = false;
    if (sp_pages_exists(pages, lo) && sp_pages_exists(pages, end - pages->page_size))
        return end;
    if (!sp_pages_next(pages, lo, end, &run))
        return end;
    *missing = !run.exist;
    return run.hi;
}

/* Returns the number of bytes that are remapped. */
static uint64_t exchange_missing_pages(struct sp_remap *remap, uint64_t lo, uint64_t hi,
                                       uint64_t *template)
{
    const uint64_t least = hi - lo < MIN_MISSING ? hi - lo : MIN_MISSING;
    struct sp_pages pages;
    uint64_t bytes = 0, begin = lo;

    if (!sp_pages_open(&pages)) {
        sp_pages_close(&pages);
        return 0;
    }
    for (int parts = 0; lo < hi && parts < MAX_PARTS;) {
        bool missing;
        uint64_t end = find_missing_end(&pages, lo, hi, &missing);
        uint64_t to = missing ? end : lo;
        if (missing && end < hi && end - begin < MAX_EXCHANGE) {
            lo = end;
            continue;
        }
        if (to - begin >= least && to > begin &&
            sp_exchange_missing(&remap->exchange, begin, to, template)) {
            bytes += to - begin;
            parts += !missing || end == hi; /* a long range is exchanged in several steps */
        }
        lo = begin = end;
    }
    sp_pages_close(&pages);
    return bytes;
}

/* Creates the template. SP_EXCHANGE_UFFD_MOVE creates its own, after it has moved the pages. False:
 * the pages must not be exchanged, as there is no template, or it would take too long. */
static bool prepare_template(struct sp_remap *remap, uint64_t lo, bool cow, uint64_t *template)
{
    if (choose_method(remap, cow) == SP_EXCHANGE_UFFD_MOVE)
        return true;
    if (!is_within_budget(remap, remap->smaps_us))
        return false;
    *template = sp_template_create_from_smaps(lo, &remap->smaps_us);
    remap->spent_us += remap->smaps_us;
    if (*template == 0)
        remap->smaps_us *= BUDGET_DIVISOR; /* the next attempt needs a larger budget */
    return *template != 0;
}

/* Remaps [lo, hi), a part of one mapping. Returns the number of bytes that are remapped. */
static uint64_t remap_mapping(struct sp_remap *remap, uint64_t lo, uint64_t hi, bool cow,
                              enum extent extent)
{
    uint64_t bytes = 0, template = 0;

    if (extent == EXTENT_ALL && may_exchange(remap, cow) &&
        prepare_template(remap, lo, cow, &template))
        bytes = exchange_existing_pages(remap, lo, hi, cow, &template);
    else if (!cow)
        bytes = exchange_missing_pages(remap, lo, hi, &template);
    if (bytes > 0)
        sp_templates_add(&remap->templates, lo, hi, template);
    else
        sp_template_free(template);
    return bytes;
}

uint64_t sp_remap_range(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi)
{
    const uint64_t mask = remap->page_size - 1,
                   stack_pointer = (uintptr_t)__builtin_frame_address(0);
    uint64_t bytes = 0;
    struct sp_vma vma;
    sigset_t all, old;

    lo = (lo + mask) & ~mask;
    hi &= ~mask;
    if (lo >= hi || hi - lo > MAX_RANGE || hi > FILE_SIZE || !sp_vma_open(maps) ||
        (remap->has_cow_mappings && is_mapped_elsewhere(remap, lo, hi)))
        return 0;
    remap->spent_us += REGISTRATION_US;
    const enum extent extent = find_extent(remap, lo, hi);
    if (extent == EXTENT_NOTHING)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old); /* a signal handler that writes there would deadlock */
    while (lo < hi && sp_vma_find(maps, lo, &vma) && vma.lo < hi) {
        uint64_t from = vma.lo > lo ? vma.lo : lo, to = vma.hi < hi ? vma.hi : hi;
        bool cow = is_cow_mapping(remap, &vma);
        if ((is_remappable(&vma) || cow) && !has_stack(&vma, stack_pointer))
            bytes += remap_mapping(remap, from, to, cow, extent);
        lo = vma.hi;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return bytes;
}

void sp_remap_for_each(const struct sp_remap *remap, uint64_t lo, uint64_t hi,
                       void (*fn)(void *arg, uint64_t lo, uint64_t hi), void *arg)
{
    uint64_t at = lo, begin = lo, end = lo; /* [begin, end): adjacent mappings found so far */
    struct sp_vma_maps maps;
    struct sp_vma vma;

    sp_vma_init(&maps);
    bool open = sp_vma_open(&maps);
    while (open && at < hi && sp_vma_find(&maps, at, &vma) && vma.lo < hi) {
        uint64_t from = vma.lo > at ? vma.lo : at;
        if (is_remapped(remap, &vma)) {
            if (from != end && end > begin)
                fn(arg, begin, end);
            begin = from == end ? begin : from;
            end = vma.hi < hi ? vma.hi : hi;
        }
        at = vma.hi;
    }
    sp_vma_close(&maps);
    if (end > begin)
        fn(arg, begin, end);
}

/*
 * Restoring private memory
 */

/* True if the process has an io_uring. Restored pages would no longer be its registered buffers. */
static bool has_io_uring(void)
{
    DIR *dir = ut_fd_open_folder("/proc/self/fd");
    const struct dirent *e;
    bool found = !dir;

    while (dir && !found && (e = readdir(dir))) {
        char target[64];
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, "anon_inode:[io_uring]") == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* True if deregistered memory must stay remapped: its pages may be buffers that the program has
 * registered with an io_uring. */
static bool must_stay_remapped(struct sp_remap *remap)
{
    bool locked, pinned = true;

    if ((read_status(&locked, &pinned) && !pinned) || !has_io_uring())
        return false;
    if (!remap->io_uring_logged)
        ut_info(LOG, "the program uses io_uring and pins memory: deregistered memory stays "
                     "shared with peers, and a child of fork() does not inherit it");
    remap->io_uring_logged = true;
    return true;
}

/* Returns the part of mapping `v` that shows [lo, hi) of the memfd. */
static struct sp_memfd_part part_of(const struct sp_vma *vma, uint64_t lo, uint64_t hi)
{
    uint64_t end = vma->offset + (vma->hi - vma->lo);
    uint64_t from = lo > vma->offset ? lo : vma->offset, to = hi < end ? hi : end;

    return (struct sp_memfd_part){.lo = vma->lo + (from - vma->offset),
                                  .hi = vma->lo + (to - vma->offset),
                                  .offset = from,
                                  .prot = sp_vma_prot(vma)};
}

/* Returns the number of bytes that could not be restored. */
static uint64_t restore_part(struct sp_remap *remap, struct sp_memfd_part part, bool in_use)
{
    uint64_t bytes = 0, end = part.hi;
    struct sp_template_range range;

    for (; part.lo < end; part.offset += part.hi - part.lo, part.lo = part.hi) {
        part.hi = (part.lo + MAX_EXCHANGE) & ~(SP_HUGE - 1);
        part.hi = part.hi < end ? part.hi : end;
        part.template = sp_templates_find(&remap->templates, part.offset, &range);
        if (part.template && range.hi - part.offset < part.hi - part.lo)
            part.hi = part.lo + (range.hi - part.offset);
        bool used = in_use && (part.prot & PROT_WRITE);
        if (sp_exchange_restore(&remap->exchange, &part, used))
            continue;
        if (used && sp_exchange_restore_cow(&remap->exchange, &part))
            remap->has_cow_mappings = true;
        else
            bytes += part.hi - part.lo;
    }
    return bytes;
}

/* Restores the parts of [lo, hi) that the program has moved (mremap). Returns the number of bytes
 * that could not be restored. */
static uint64_t restore_moved_mappings(struct sp_remap *remap, uint64_t lo, uint64_t hi,
                                       bool in_use)
{
    struct sp_vma_maps maps;
    struct sp_vma vma;
    uint64_t at = 0, still_remapped = 0;

    sp_vma_init(&maps);
    bool open = sp_vma_open(&maps);
    while (open && sp_vma_find(&maps, at, &vma)) {
        if (is_memfd_mapping(remap, &vma) && vma.shared && vma.offset != vma.lo &&
            vma.offset < hi && vma.offset + (vma.hi - vma.lo) > lo)
            still_remapped += restore_part(remap, part_of(&vma, lo, hi), in_use);
        at = vma.hi;
    }
    sp_vma_close(&maps);
    if (still_remapped == 0)
        sp_exchange_punch(&remap->exchange, lo, hi); /* frees pages that the program has unmapped */
    return still_remapped;
}

uint64_t sp_remap_restore(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                          uint64_t hi, uint64_t expected)
{
    const uint64_t first = lo, size = hi - lo;
    uint64_t still_remapped = 0, found = 0;
    unsigned int retries_left = 0;
    struct sp_vma vma;
    sigset_t all, old;

    if (!is_open(remap) || !sp_vma_open(maps) || must_stay_remapped(remap))
        return size;
    bool in_use = !sp_threads_are_blocked(lo, hi, &retries_left);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old); /* the write of a signal handler there would be lost */
    while (lo < hi && sp_vma_find(maps, lo, &vma) && vma.lo < hi) {
        if (is_remapped(remap, &vma)) {
            struct sp_memfd_part part = part_of(&vma, lo, hi);
            found += part.hi - part.lo;
            still_remapped += restore_part(remap, part, in_use);
        }
        lo = vma.hi;
    }
    if (still_remapped == 0 && found < expected)
        still_remapped = restore_moved_mappings(remap, first, hi, in_use);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (still_remapped == 0)
        sp_templates_remove(&remap->templates, first, hi);
    return still_remapped;
}
