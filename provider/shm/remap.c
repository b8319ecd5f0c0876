/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange: write-protects the range with userfaultfd, so that threads that write to it wait;
 * copies; replaces the mapping with one call, which is atomic for other threads; wakes the writers,
 * which repeat their store on the new pages.
 *
 * Between the first and the last step only the stack and system calls may be used: the range may
 * contain the heap or any other data, for which this thread would wait for ever. Only huge pages
 * are read directly, while only threads wait that write to existing pages.
 */
#include "remap.h"

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
#include <time.h>
#include <unistd.h>

#include "huge.h"
#include "util/env.h"
#include "util/log.h"
#include "vma.h"

#define LOG "shm"

#ifndef UFFD_USER_MODE_ONLY
#    define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
/* Not in every <linux/userfaultfd.h>. */
#define FEATURE_WP       (1ull << 0)
#define FEATURE_WP_SHMEM (1ull << 12)

#define FILE_SIZE (1ull << 56)
#define CHUNK     (64ull << 20) /* maximum size of one exchange, for which writers wait */
#define MAX_RANGE                                                                                  \
    (64ull << 30) /* larger regions are not remapped: reading their page map takes too long */

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    COUNT_EVERY = 256, /* exchanges between two counts of the mappings */
    STACK_BELOW = 64 << 10,
    STACK_ABOVE = 32 << 10,
    MAX_READ = 2048, /* the most mappings if /proc/self/maps must be read: 1 ms */
    PAGEMAP = 1024,  /* entries read at once */
    TEXT = 384,      /* bytes of a reason or a remedy */
};

enum { SHM_MAP_NEVER, SHM_MAP_IF_IT_PAYS, SHM_MAP_EAGER }; /* UTOFU_SHM_MAP */

/*
 * Uses mmap() and mremap() of the C library, so that registration caches (an MPI library's) that
 * intercept them see the exchange; but not under ThreadSanitizer, which would report a race with
 * writes of other threads.
 */
static void *map_at(uint64_t at, uint64_t size, int flags, int fd, uint64_t offset)
{
#ifdef __SANITIZE_THREAD__
    return (void *)syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE, flags, fd, offset);
#else
    return mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
#endif
}

static bool move_to(void *from, uint64_t size, uint64_t to)
{
#ifdef __SANITIZE_THREAD__
    return syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to;
#else
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (void *)(uintptr_t)to;
#endif
}

/*
 * Opening
 */

/*
 * UFFD_USER_MODE_ONLY: if a page disappears while it is copied, the copying system call fails
 * instead of waiting for this thread. A drawback: a system call of another thread that writes there
 * at that moment gets EFAULT.
 */
static int open_uffd(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_WP | FEATURE_WP_SHMEM};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
        int error = errno; /* EINVAL of a kernel before 5.19 */
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int open_memory(struct sp_remap *a)
{
    struct rlimit limit;
    struct stat st;

    if (sizeof(void *) < 8 ||
        (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_SIZE)) {
        errno = EFBIG;
        return -1;
    }
    int fd = memfd_create("utofu-mapped", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)FILE_SIZE) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        fstat(fd, &st) != 0) {
        close(fd);
        return -1;
    }
    a->inode = st.st_ino;
    a->dev_major = major(st.st_dev);
    a->dev_minor = minor(st.st_dev);
    return fd;
}

/* Does madvise(MADV_HUGEPAGE) work for memfds on this system? */
static bool huge_pages_allowed(void)
{
    char text[128] = "";
    int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 && !strstr(text, "[never]") && !strstr(text, "[deny]");
}

static bool kernel_is_too_old(void)
{
    struct utsname system;
    int version, patch_level;

    return uname(&system) == 0 && sscanf(system.release, "%d.%d", &version, &patch_level) == 2 &&
           (version < 5 || (version == 5 && patch_level < 19));
}

/* `error`: the errno of open_uffd(). */
static void explain_uffd(int error, char *why, char *remedy, size_t size)
{
    if (kernel_is_too_old()) {
        snprintf(why, size, "userfaultfd cannot write-protect shared memory here (%s)",
                 strerror(error));
        snprintf(remedy, size, "it takes Linux 5.19 or newer");
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

/* `error`: the errno of open_memory(). */
static void explain_memory(int error, char *why, char *remedy, size_t size)
{
    snprintf(why, size, "cannot make a sparse memfd of %llu bytes (%s)", FILE_SIZE,
             strerror(error));
    snprintf(remedy, size, "%s",
             error == EFBIG ? "ulimit -f unlimited: the size of files is limited"
                            : "allow memfd_create and files of that size");
}

bool sp_remap_refused(char *why, char *remedy, size_t size)
{
    struct sp_remap a;
    int uffd = open_uffd();

    if (uffd < 0) {
        explain_uffd(errno, why, remedy, size);
        return true;
    }
    close(uffd);
    int fd = open_memory(&a);
    if (fd < 0) {
        explain_memory(errno, why, remedy, size);
        return true;
    }
    close(fd);
    return false;
}

static void report_refusal(bool warn, const char *why, const char *remedy)
{
    ut_log_at(warn ? UT_LOG_WARNING : UT_LOG_INFO, LOG,
              "registered memory is not mapped, so " SP_REMAP_COST ": %s; %s; UTOFU_SHM_MAP=0 "
              "says that this is wanted",
              why, remedy);
}

void sp_remap_open(struct sp_remap *a, bool warn)
{
    char why[TEXT], remedy[TEXT];

    *a = (struct sp_remap){.fd = -1, .uffd = -1};
    if (ut_env_num(UT_ENV_SHM_MAP) == SHM_MAP_NEVER)
        return;
    a->eager = ut_env_num(UT_ENV_SHM_MAP) == SHM_MAP_EAGER;
    a->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    a->keeps_locks = ut_env_num(UT_ENV_SWAP_PROTECT);
    a->refuse_every = (uint32_t)ut_env_num(UT_ENV_SHM_MAP_REFUSE);
    a->pause_ms = (uint32_t)ut_env_num(UT_ENV_SHM_EXCHANGE_MS);
    a->uffd = open_uffd();
    if (a->uffd < 0) {
        explain_uffd(errno, why, remedy, sizeof(why));
        report_refusal(warn, why, remedy);
        return;
    }
    a->huge = huge_pages_allowed();
    a->fd = open_memory(a);
    if (a->fd < 0) {
        explain_memory(errno, why, remedy, sizeof(why));
        report_refusal(warn, why, remedy);
        sp_remap_close(a);
    }
}

void sp_remap_close(struct sp_remap *a)
{
    if (a->uffd >= 0)
        close(a->uffd);
    if (a->fd >= 0)
        close(a->fd);
    a->uffd = a->fd = -1;
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

/* Memory locked by the program (mlock) must stay locked, unlike the memfd's pages. */
static bool has_locked_memory(void)
{
    char buf[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return true;
    buf[n] = '\0';
    const char *line = strstr(buf, "VmLck:");
    return line && strtoul(line + strlen("VmLck:"), NULL, 10) != 0;
}

/*
 * Each exchange may add two mappings. The kernel limits their number (vm.max_map_count), and in
 * older kernels the search for a mapping takes longer the more there are below it.
 */
static bool has_too_many_mappings(struct sp_remap *a)
{
    char text[32];

    if (a->num_remapped++ % COUNT_EVERY != 0)
        return a->too_many;
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    long allowed = n > 0 ? strtol(text, NULL, 10) : 65530, count = sp_vma_count();
    bool all = count > allowed / 2, slow = !all && count > MAX_READ && !sp_vma_is_fast();
    if (all && !a->too_many)
        ut_info(LOG,
                "more than half of the %ld mappings that a process may have are in use: no "
                "more registered memory is mapped",
                allowed);
    if (slow && !a->too_many)
        ut_info(LOG,
                "this process has %ld mappings, and this kernel (before Linux 6.11) takes long to "
                "find one of more than %d: no more registered memory is mapped",
                count, (int)MAX_READ);
    a->too_many = all || slow;
    return a->too_many;
}

bool sp_remap_wants(struct sp_remap *a)
{
    if (a->fd < 0)
        return false;
    if (a->refuse_every && ++a->count % a->refuse_every == 0)
        return false;
    return !has_too_many_mappings(a) && (a->keeps_locks || !has_locked_memory());
}

static bool is_ours(const struct sp_remap *a, const struct sp_vma *v)
{
    return v->inode == a->inode && v->shared && v->dev_major == a->dev_major &&
           v->dev_minor == a->dev_minor && v->offset == v->lo;
}

static bool is_private(const struct sp_vma *v)
{
    return v->inode == 0 && !v->shared && v->readable && v->writable && !v->executable;
}

/* During an exchange this thread uses stack frames below `frame` and a few frames of its callers.
 * An earlier exchange may have split the mapping of the stack there. */
static bool has_stack(const struct sp_vma *v, uint64_t frame)
{
    return v->stack || (v->lo < frame + STACK_ABOVE && v->hi > frame - STACK_BELOW);
}

/* Calls fn for each part of [lo, hi) whose pages are in the memfd (`ours`), or private (without
 * `ours`); fn returns whether they are in the memfd afterwards. Returns the number of bytes of [lo,
 * hi) in the memfd. */
static uint64_t for_each(struct sp_remap *a, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi,
                         bool ours, bool (*fn)(struct sp_remap *a, uint64_t lo, uint64_t hi))
{
    uint64_t frame = (uintptr_t)__builtin_frame_address(0), num_ours = 0;
    struct sp_vma v;
    sigset_t all, old;

    if (!sp_vma_open(maps))
        return ours ? hi - lo : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* a handler's write there would hang */
    while (lo < hi && sp_vma_find(maps, lo, &v) && v.lo < hi) {
        uint64_t from = v.lo > lo ? v.lo : lo, to = v.hi < hi ? v.hi : hi;
        bool is = is_ours(a, &v), wanted = ours ? is : is_private(&v) && !has_stack(&v, frame);
        for (uint64_t next; wanted && from < to; from = next) {
            next = (from + CHUNK) & ~(SP_HUGE - 1); /* a huge page stays whole */
            next = next < to ? next : to;
            num_ours += fn(a, from, next) ? next - from : 0;
        }
        if (!wanted && is) /* could not be given back */
            num_ours += to - from;
        lo = v.hi;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return num_ours;
}

void sp_remap_find_run(const struct sp_remap *a, uint64_t *lo, uint64_t *hi)
{
    uint64_t at = *lo, end = *hi, best_lo = *lo, best_hi = *lo;
    struct sp_vma_maps maps;
    struct sp_vma v;

    sp_vma_init(&maps);
    bool open = sp_vma_open(&maps);
    while (open && at < end && sp_vma_find(&maps, at, &v) && v.lo < end) {
        uint64_t from = v.lo > at ? v.lo : at, to = v.hi < end ? v.hi : end;
        if (is_ours(a, &v)) {
            if (from == best_hi && best_hi > best_lo)
                best_hi = to;
            else if (to - from > best_hi - best_lo)
                best_lo = from, best_hi = to;
        }
        at = v.hi;
    }
    sp_vma_close(&maps);
    *lo = best_lo;
    *hi = best_hi;
}

/*
 * The exchange
 */

/* Makes threads wait that write to a page; with `missing` also threads that access a missing page
 * (in a mapping of a file, writers to such a page wait in any case). `missing` may be added to a
 * range that is already write-protected. */
static bool hold_writers(const struct sp_remap *a, uint64_t lo, uint64_t hi, bool missing)
{
    struct uffdio_register r = {.range = {lo, hi - lo},
                                .mode = UFFDIO_REGISTER_MODE_WP |
                                        (missing ? UFFDIO_REGISTER_MODE_MISSING : 0)};
    struct uffdio_writeprotect w = {.range = r.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};

    if (ioctl(a->uffd, UFFDIO_REGISTER, &r) != 0)
        return false;
    if (ioctl(a->uffd, UFFDIO_WRITEPROTECT, &w) == 0)
        return true;
    ioctl(a->uffd, UFFDIO_UNREGISTER, &r.range);
    return false;
}

/* From here on pages may disappear, but not appear, and threads that write to existing ones wait.
 * Huge pages are copied first. */
static bool hold_and_copy_huge(const struct sp_remap *a, uint64_t lo, uint64_t hi,
                               struct sp_frames *huge)
{
    struct uffdio_range range = {lo, hi - lo};
    struct uffdio_register r = {.range = range,
                                .mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING};

    if (!huge->bits)
        return hold_writers(a, lo, hi, true);
    if (!hold_writers(a, lo, hi, false))
        return false;
    sp_huge_copy_early(huge);
    if (ioctl(a->uffd, UFFDIO_REGISTER, &r) == 0) {
        sp_huge_keep(huge); /* later all pages are write-protected, and cannot be distinguished */
        if (hold_writers(a, lo, hi, true))
            return true;
    }
    ioctl(a->uffd, UFFDIO_UNREGISTER, &range);
    return false;
}

/* The new mapping is in place, or the old one is kept. */
static void let_writers_go(const struct sp_remap *a, uint64_t lo, uint64_t hi, bool exchanged)
{
    struct uffdio_range range = {lo, hi - lo};

    ioctl(a->uffd, exchanged ? UFFDIO_WAKE : UFFDIO_UNREGISTER, &range);
}

/*
 * Allocates huge pages of the memfd for the parts of [lo, hi) that will be written completely, by
 * touching them in a mapping with MADV_HUGEPAGE.
 */
static void make_huge(const struct sp_remap *a, uint64_t lo, uint64_t hi)
{
    lo = (lo + SP_HUGE - 1) & ~(SP_HUGE - 1);
    hi &= ~(SP_HUGE - 1);
    if (!a->huge || lo >= hi)
        return;
    void *p = map_at(0, hi - lo, MAP_SHARED | MAP_NORESERVE, a->fd, lo);
    if (p == MAP_FAILED)
        return;
    if (madvise(p, hi - lo, MADV_HUGEPAGE) == 0)
        madvise(p, hi - lo, MADV_POPULATE_WRITE);
    munmap(p, hi - lo);
}

static bool write_all(const struct sp_remap *a, uint64_t from, uint64_t to,
                      const struct sp_frames *huge)
{
    make_huge(a, from, to);
    while (from < to) {
        uint64_t next = (from & ~(SP_HUGE - 1)) + SP_HUGE;
        if (next - from == SP_HUGE && next <= to && sp_huge_at(huge, from) &&
            sp_huge_copy(huge, from)) {
            from = next;
            continue;
        }
        uint64_t end = huge->bits && next < to ? next : to;
        long n = syscall(SYS_pwrite64, a->fd, from, end - from, from);
        if (n <= 0)
            return false;
        from += (uint64_t)n;
    }
    return true;
}

/* Copies the existing pages, in memory or swapped out, to the memfd. */
static bool copy_out(const struct sp_remap *a, uint64_t lo, uint64_t hi,
                     const struct sp_frames *huge)
{
    uint64_t entries[PAGEMAP];
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t begin = lo; /* of existing pages */
    bool ok = fd >= 0;

    for (uint64_t at = lo; ok && at < hi;) {
        uint64_t n = (hi - at) / a->page_size;
        if (sp_huge_is_copied(huge, at)) {
            at += SP_HUGE;
            continue;
        }
        size_t bytes = (n < PAGEMAP ? n : PAGEMAP) * sizeof(entries[0]);
        ssize_t got = pread(fd, entries, bytes, (off_t)(at / a->page_size * sizeof(entries[0])));
        ok = got > 0;
        for (ssize_t i = 0; ok && i < got / (ssize_t)sizeof(entries[0]); i++) {
            if (entries[i] >> 62 == 0) {
                ok = write_all(a, begin, at, huge);
                begin = at + a->page_size;
            }
            at += a->page_size;
        }
    }
    if (fd >= 0)
        close(fd);
    return ok && write_all(a, begin, hi, huge);
}

static void punch(const struct sp_remap *a, uint64_t lo, uint64_t hi)
{
    fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)lo, (off_t)(hi - lo));
}

/* For tests: what writes to the old pages now is lost. */
static void wait_for_tests(const struct sp_remap *a)
{
    struct timespec t = {a->pause_ms / 1000, a->pause_ms % 1000 * 1000000L};

    if (a->pause_ms)
        syscall(SYS_nanosleep, &t, NULL);
}

static bool map_new_pages(const struct sp_remap *a, uint64_t lo, uint64_t hi)
{
    wait_for_tests(a);
    return map_at(lo, hi - lo, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, a->fd, lo) != MAP_FAILED;
}

static bool remap(struct sp_remap *a, uint64_t lo, uint64_t hi)
{
    struct sp_frames huge = sp_huge_find(lo, hi);
    bool exchanged = false;

    punch(a, lo, hi); /* a late put of a peer may have left data there */
    sp_huge_make(&huge, a->fd, a->huge);
    if (hold_and_copy_huge(a, lo, hi, &huge)) {
        exchanged = copy_out(a, lo, hi, &huge) && map_new_pages(a, lo, hi);
        let_writers_go(a, lo, hi, exchanged);
    }
    sp_huge_close(&huge);
    if (!exchanged) {
        punch(a, lo, hi);
        return false;
    }
    madvise((void *)(uintptr_t)lo, hi - lo, MADV_DONTFORK);
    sp_huge_map(&huge);
    return true;
}

uint64_t sp_remap_range(struct sp_remap *a, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi)
{
    uint64_t mask = a->page_size - 1;

    lo = (lo + mask) & ~mask;
    hi &= ~mask;
    if (lo >= hi || hi - lo > MAX_RANGE || hi > FILE_SIZE)
        return 0;
    return for_each(a, maps, lo, hi, false, remap);
}

static bool read_all(const struct sp_remap *a, uint64_t from, uint64_t to, uint8_t *copy)
{
    madvise(copy, to - from, MADV_POPULATE_WRITE); /* faster than a fault for each page */
    while (from < to) {
        long n = syscall(SYS_pread64, a->fd, copy, to - from, from);
        if (n <= 0)
            return false;
        from += (uint64_t)n;
        copy += n;
    }
    return true;
}

/* Copies the memfd's pages to private memory that is otherwise untouched. */
static bool copy_back(const struct sp_remap *a, uint64_t lo, uint64_t hi, uint8_t *copy)
{
    for (uint64_t at = lo; at < hi;) {
        off_t data = lseek(a->fd, (off_t)at, SEEK_DATA);
        if (data < 0 || (uint64_t)data >= hi)
            return data >= 0 || errno == ENXIO;
        off_t hole = lseek(a->fd, data, SEEK_HOLE);
        at = hole < 0 || (uint64_t)hole > hi ? hi : (uint64_t)hole;
        if (!read_all(a, (uint64_t)data, at, copy + ((uint64_t)data - lo)))
            return false;
    }
    return true;
}

static bool give_back(struct sp_remap *a, uint64_t lo, uint64_t hi)
{
    uint8_t *copy = sp_huge_find(lo, hi).bits
                        ? sp_huge_private(hi - lo, lo)
                        : map_at(0, hi - lo, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!copy || copy == MAP_FAILED)
        return true;
    if (!hold_writers(a, lo, hi, false)) {
        munmap(copy, hi - lo);
        return true;
    }
    bool exchanged = copy_back(a, lo, hi, copy) && move_to(copy, hi - lo, lo);
    let_writers_go(a, lo, hi, exchanged);
    if (exchanged)
        punch(a, lo, hi);
    else
        munmap(copy, hi - lo);
    return !exchanged;
}

uint64_t sp_remap_give_back(struct sp_remap *a, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi)
{
    return a->fd < 0 ? 0 : for_each(a, maps, lo, hi, true, give_back);
}
