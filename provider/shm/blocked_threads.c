/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/self/task/TID/syscall shows the system call in which a thread is blocked, its arguments and
 * its stack pointer; or "running". A thread that waits for a file descriptor or a timeout may run
 * again at any moment. Such a thread is harmless only if it is a helper thread: all functions on
 * its stack belong to known libraries, so it never touches memory of the program. The code
 * addresses on the stack show this. A stale address of a finished call can make a helper thread
 * look like a thread of the program. The reverse cannot happen: the stack of a program's thread has
 * addresses of the program.
 */
#include "blocked_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc_text.h"
#include "util/fd.h"
#include "util/thread.h"

enum {
    MAX_SEGMENTS =
        1024, /* code segments; a process with more is treated as if no thread was a helper */
    STACK_WORDS = 2048, /* checked from the stack pointer on */
    RETRY_US = 100,     /* between two checks while a thread runs */
};

/* Kind of the program or library that a code segment belongs to. */
enum code_kind {
    CODE_PROGRAM,
    CODE_HELPER, /* library whose threads never touch memory of the program on their own */
    CODE_SHARED, /* library that both kinds of threads call */
};

/* A code segment of the process. */
struct segment {
    uint64_t lo, hi;
    enum code_kind kind;
};

/* All code segments of the process. */
struct code {
    unsigned int num;
    struct segment segments[MAX_SEGMENTS];
};

/* libacpbl: ACP (Advanced Communication Primitives); libprrte: the launcher of Open MPI. */
static const char *const helper_libraries[] = {
    "libpmix", "libopen-pal", "libopen-rte", "libmpi",   "libucs",
    "libuct",  "libucp",      "libfabric",   "libprrte", "libacpbl"};
static const char *const shared_libraries[] = {"libc.so", "libc-",    "libpthread", "ld-linux",
                                               "ld64",    "libevent", "libtofucom", "linux-vdso"};

static bool begins_with_one_of(const char *name, const char *const list[], size_t num)
{
    for (size_t i = 0; i < num; i++)
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return true;
    return false;
}

/* The dynamic linker reports the program with an empty path. */
static enum code_kind kind_of_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    if (begins_with_one_of(name, helper_libraries,
                           sizeof(helper_libraries) / sizeof(helper_libraries[0])))
        return CODE_HELPER;
    return begins_with_one_of(name, shared_libraries,
                              sizeof(shared_libraries) / sizeof(shared_libraries[0]))
               ? CODE_SHARED
               : CODE_PROGRAM;
}

/* Called by dl_iterate_phdr() for each loaded object; 1: no room for its segments. */
static int add_code_segments(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct code *code = arg;

    (void)size;
    for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        if (code->num == MAX_SEGMENTS)
            return 1;
        uint64_t lo = info->dlpi_addr + p->p_vaddr;
        code->segments[code->num++] =
            (struct segment){lo, lo + p->p_memsz, kind_of_library(info->dlpi_name)};
    }
    return 0;
}

/* Returns NULL if memory is short or the process has too many segments. */
static struct code *read_code(void)
{
    struct code *code = malloc(sizeof(*code));

    if (!code)
        return NULL;
    code->num = 0;
    if (dl_iterate_phdr(add_code_segments, code) == 0)
        return code;
    free(code);
    return NULL;
}

/* False if there is no code at the address. */
static bool find_code_kind(const struct code *code, uint64_t address, enum code_kind *kind)
{
    for (unsigned int i = 0; i < code->num; i++) {
        if (address - code->segments[i].lo < code->segments[i].hi - code->segments[i].lo) {
            *kind = code->segments[i].kind;
            return true;
        }
    }
    return false;
}

/* True if the stack has addresses of helper libraries and none of the program. Reads the stack
 * through /proc/self/mem: the read may end early, at the end of the stack. */
static bool is_helper(const struct code *code, uint64_t stack)
{
    uint64_t words[STACK_WORDS];
    int fd = ut_fd_above_stdio(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : pread(fd, words, sizeof(words), (off_t)(stack & ~UINT64_C(7)));
    bool helper = false, program = false;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(words[0]); i++) {
        enum code_kind kind;
        if (!find_code_kind(code, words[i], &kind))
            continue;
        helper |= kind == CODE_HELPER;
        program |= kind == CODE_PROGRAM;
    }
    return helper && !program;
}

enum thread_state {
    THREAD_BLOCKED,
    THREAD_RUNNING,
    THREAD_MAY_RUN, /* blocked, but something outside the process may wake it */
};

/* True if the thread waits, without a timeout, for a lock or condition private to this process, or
 * for the end of a thread. Arguments: futex(address, operation, value, timeout, ...). */
static bool waits_for_own_thread(long call, const unsigned long long args[4])
{
    char path[64];

    if (call != SYS_futex || args[3] != 0)
        return false;
    if (args[1] & FUTEX_PRIVATE_FLAG)
        return true;
    snprintf(path, sizeof(path), "/proc/self/task/%u", (unsigned int)args[2]);
    return args[2] != 0 && access(path, F_OK) == 0; /* pthread_join(): the value is the thread id */
}

/* Reads /proc/self/task/TID/NAME, as sp_read_proc_text() does. */
static ssize_t read_thread_file(const char *tid, const char *name, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, name);
    return sp_read_proc_text(path, text, size);
}

/* A thread that was woken, but is not scheduled yet, still shows its system call; its state is R
 * (TASK_WAKING in kernel/sched/core.c of Linux). */
static bool is_waking(const char *tid)
{
    char line[256];
    ssize_t n = read_thread_file(tid, "stat", line, sizeof(line));
    const char *name_end = n > 0 ? strrchr(line, ')') : NULL;

    return !name_end || strncmp(name_end, ") S", 3) != 0;
}

/* *code: all code segments; NULL until they are needed. The caller frees them. */
static enum thread_state check_thread(const char *tid, struct code **code, uint64_t lo, uint64_t hi)
{
    char line[256];
    unsigned long long args[6], stack;
    long call;

    ssize_t n = read_thread_file(tid, "syscall", line, sizeof(line));
    if (n <= 0) /* the thread has ended; any other error: unknown */
        return n < 0 && (errno == ENOENT || errno == ESRCH) ? THREAD_BLOCKED : THREAD_MAY_RUN;
    if (sscanf(line, "%ld %llx %llx %llx %llx %llx %llx %llx", &call, &args[0], &args[1], &args[2],
               &args[3], &args[4], &args[5], &stack) != 8)
        return THREAD_RUNNING; /* or handles a page fault */
    if (is_waking(tid))
        return THREAD_RUNNING;
    if (stack - lo < hi - lo)
        return THREAD_MAY_RUN;
    if (waits_for_own_thread(call, args))
        return THREAD_BLOCKED;
    if (!*code)
        *code = read_code();
    return *code && is_helper(*code, stack) ? THREAD_BLOCKED : THREAD_MAY_RUN;
}

/* struct linux_dirent64 of the kernel */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* Returns THREAD_BLOCKED if all other threads are, else the state of a thread that is not. */
static enum thread_state check_all_threads(uint64_t lo, uint64_t hi)
{
    _Alignas(struct entry) char buffer[4096];
    int fd = ut_fd_above_stdio(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    enum thread_state found = fd < 0 ? THREAD_MAY_RUN : THREAD_BLOCKED;
    struct code *code = NULL;
    long n;

    while (found == THREAD_BLOCKED &&
           (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < n && found == THREAD_BLOCKED;) {
            const struct entry *e = (const struct entry *)(buffer + at);
            pid_t tid = (pid_t)atoi(e->name); /* 0: "." and ".." */
            if (tid > 0 && tid != gettid() && !ut_thread_is_ours(tid))
                found = check_thread(e->name, &code, lo, hi);
            at += e->size;
        }
    }
    if (fd >= 0)
        close(fd);
    free(code);
    return found;
}

bool sp_threads_are_blocked(uint64_t lo, uint64_t hi, unsigned int *retries_left)
{
    const struct timespec pause = {.tv_nsec = RETRY_US * 1000};
    enum thread_state found = check_all_threads(lo, hi);

    for (int again = 0; found == THREAD_RUNNING && *retries_left > 0 && again < 10; again++) {
        --*retries_left;
        nanosleep(&pause, NULL);
        found = check_all_threads(lo, hi);
    }
    return found == THREAD_BLOCKED;
}
