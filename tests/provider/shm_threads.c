/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads count as blocked while pages are exchanged, with files of /proc played by the test
 * and threads in earnest; and the templates whose attributes exchanged pages get.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/check.h"
#include "shm/blocked_threads.h"
#include "shm/pages.h"
#include "shm/proc_text.h"
#include "shm/template.h"

static const char *syscall_text, *stat_text; /* NULL: those of /proc */
static int text_errno;
static char joined[64]; /* the thread that exists, if asked for by access() */

static ssize_t read_text(const char *path, char *to, size_t size)
{
    const char *text = strstr(path, "/syscall") ? syscall_text : stat_text;

    CHECK(strncmp(path, "/proc/self/task/", 16) == 0);
    if (!text)
        return sp_read_proc_text(path, to, size);
    if (text_errno) {
        errno = text_errno;
        return -1;
    }
    return snprintf(to, size, "%s", text);
}

static int look_for(const char *path, int mode)
{
    CHECK(mode == F_OK);
    return strcmp(path, joined) == 0 ? 0 : -1;
}

static unsigned int sleeps; /* between looks at threads that run: a tenth of a millisecond */

static int note_sleep(const struct timespec *t, struct timespec *left)
{
    CHECK(t->tv_sec == 0 && t->tv_nsec == 100000);
    sleeps++;
    return nanosleep(t, left);
}

static uint64_t cpu_ns; /* CPU time of this thread */
static uint32_t cpu_tick_ns;

static int play_cpu_time(clockid_t clock, struct timespec *t)
{
    CHECK(clock == CLOCK_THREAD_CPUTIME_ID);
    cpu_ns += cpu_tick_ns;
    *t = (struct timespec){(time_t)(cpu_ns / 1000000000), (long)(cpu_ns % 1000000000)};
    return 0;
}

#define sp_read_proc_text read_text
#define access            look_for
#define nanosleep         note_sleep
#define clock_gettime     play_cpu_time
#define entry             task_entry /* <search.h> has another one */
#include "../../provider/shm/blocked_threads.c"
#undef entry
#undef access
#undef sp_read_proc_text
#include "../../provider/shm/template.c"
#undef clock_gettime
#undef nanosleep

static void libraries_are_known(void)
{
    static const struct {
        const char *path;
        enum code_kind kind;
    } cases[] = {{"", CODE_PROGRAM},
                 {"/usr/bin/program", CODE_PROGRAM},
                 {"/usr/lib/libucs.so.0", CODE_HELPER},
                 {"libpmix.so.2", CODE_HELPER},
                 {"/opt/libmpi/libother.so", CODE_PROGRAM},
                 {"/opt/a/b/libmpi.so.40", CODE_HELPER},
                 {"/lib/x86_64-linux-gnu/libc.so.6", CODE_SHARED},
                 {"/lib/libcrypt.so", CODE_PROGRAM},
                 {"/lib64/ld-linux-x86-64.so.2", CODE_SHARED},
                 {"linux-vdso.so.1", CODE_SHARED},
                 {"/x/libtofucom.so.1", CODE_SHARED}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(kind_of_library(cases[i].path) == cases[i].kind);
}

static void code_is_found(void)
{
    static struct code code = {
        .num = 2, .segments = {{0x1000, 0x2000, CODE_HELPER}, {0x3000, 0x3001, CODE_SHARED}}};
    enum code_kind kind = CODE_PROGRAM;

    CHECK(find_code_kind(&code, 0x1000, &kind) && kind == CODE_HELPER);
    CHECK(find_code_kind(&code, 0x1fff, &kind) && !find_code_kind(&code, 0x2000, &kind));
    CHECK(!find_code_kind(&code, 0xfff, &kind) && !find_code_kind(&code, 0x3001, &kind));
    CHECK(find_code_kind(&code, 0x3000, &kind) && kind == CODE_SHARED);
    struct code *own = read_code();
    CHECK(own && own->num > 2);
    CHECK(find_code_kind(own, (uintptr_t)&code_is_found, &kind) && kind == CODE_PROGRAM);
    CHECK(find_code_kind(own, (uintptr_t)&strlen, &kind) && kind != CODE_HELPER);
    CHECK(!find_code_kind(own, (uintptr_t)&code, &kind)); /* data */
    free(own);
    code.num = MAX_SEGMENTS;
    struct dl_phdr_info info = {.dlpi_phnum = 1,
                                .dlpi_phdr = &(ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_X},
                                .dlpi_name = ""};
    CHECK(add_code_segments(&info, sizeof(info), &code) == 1 && code.num == MAX_SEGMENTS);
    code.num--;
    CHECK(add_code_segments(&info, sizeof(info), &code) == 0 && code.num == MAX_SEGMENTS);
}

/* A stack with addresses of a helper library alone is that of a helper. */
static void helpers_are_known_by_their_stack(void)
{
    static struct code code = {.num = 3,
                               .segments = {{0x1000, 0x2000, CODE_HELPER},
                                            {0x3000, 0x4000, CODE_SHARED},
                                            {0x5000, 0x6000, CODE_PROGRAM}}};
    static _Alignas(4096) uint64_t stack[STACK_WORDS + 512];
    uint64_t at = (uintptr_t)stack;

    CHECK(!is_helper(&code, at));
    stack[7] = 0x3100;
    CHECK(!is_helper(&code, at));
    stack[9] = 0x1100;
    CHECK(is_helper(&code, at) && is_helper(&code, at + 7 + 9 * 8 - 7));
    CHECK(!is_helper(&code, at + 80)); /* behind it */
    stack[STACK_WORDS - 1] = 0x5000;
    CHECK(!is_helper(&code, at));
    stack[STACK_WORDS - 1] = 0;
    stack[STACK_WORDS] = 0x5000; /* not looked at */
    CHECK(is_helper(&code, at));
    uint8_t *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(two + 4096, 4096) == 0); /* the read ends early */
    *(uint64_t *)(void *)(two + 4088) = 0x1fff;
    CHECK(is_helper(&code, (uintptr_t)two) && !is_helper(&code, (uintptr_t)two + 4096));
    munmap(two, 4096);
}

static void threads_that_wait_are_known(void)
{
    enum { PRIVATE = FUTEX_PRIVATE_FLAG };
    static const struct {
        const char *what, *syscall, *stat;
        int error;
        enum thread_state state;
    } cases[] = {
        {"a private lock", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_BLOCKED},
        {"with a timeout", "202 0x1000 0x80 0x2 0x5 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"a shared lock", "202 0x1000 0x0 0x0 0x0 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"a thread's end", "202 0x1000 0x0 0x4d2 0x0 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_BLOCKED},
        {"another value", "202 0x1000 0x0 0x4d3 0x0 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"another call", "7 0x1000 0x80 0x2 0x0 0x0 0x0 0x7000 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"waking", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7000 0x1", "7 (a) R 1", 0, THREAD_RUNNING},
        {"of an odd name", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7000 0x1", "7 (a) R) S 1", 0,
         THREAD_BLOCKED},
        {"of no state", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7000 0x1", "7 a S 1", 0, THREAD_RUNNING},
        {"running", "running\n", "7 (a) S 1", 0, THREAD_RUNNING},
        {"in a fault", "-1 0x7000 0x1", "7 (a) S 1", 0, THREAD_RUNNING},
        {"its stack there", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x9000 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"its stack before", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x8fff 0x1", "7 (a) S 1", 0,
         THREAD_BLOCKED},
        {"its stack's end", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x9fff 0x1", "7 (a) S 1", 0,
         THREAD_MAY_RUN},
        {"its stack behind", "202 0x1000 0x80 0x2 0x0 0x0 0x0 0xa000 0x1", "7 (a) S 1", 0,
         THREAD_BLOCKED},
        {"nothing", "", "7 (a) S 1", 0, THREAD_MAY_RUN},
        {"ended", "x", "x", ENOENT, THREAD_BLOCKED},
        {"ended meanwhile", "x", "x", ESRCH, THREAD_BLOCKED},
        {"hidden", "x", "x", EACCES, THREAD_MAY_RUN},
    };

    snprintf(joined, sizeof(joined), "/proc/self/task/1234");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct code *code = NULL;
        syscall_text = cases[i].syscall;
        stat_text = cases[i].stat;
        text_errno = cases[i].error;
        enum thread_state state = check_thread("77", &code, 0x9000, 0xa000);
        if (state != cases[i].state)
            printf("%s: %d\n", cases[i].what, (int)state);
        CHECK(state == cases[i].state);
        free(code);
    }
    syscall_text = stat_text = NULL;
    text_errno = 0;
}

/*
 * Threads in earnest
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static void *wait_for_lock(void *arg)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *wait_for_pipe(void *arg)
{
    char byte;

    CHECK(read(ends[0], &byte, 1) == 1);
    return arg;
}

static bool becomes(bool blocked)
{
    unsigned int retries = 1000000;
    bool is = !blocked;

    for (int i = 0; i < 10000 && is != blocked; i++)
        is = sp_threads_are_blocked(0, 4096, &retries);
    return is == blocked;
}

static void other_threads_are_looked_at(void)
{
    unsigned int retries = 5;
    pthread_t thread;

    CHECK(sp_threads_are_blocked(0, 4096, &retries) && retries == 5); /* none */
    pthread_mutex_lock(&lock);
    CHECK(pthread_create(&thread, NULL, wait_for_lock, NULL) == 0);
    CHECK(becomes(true));
    pthread_mutex_unlock(&lock);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, wait_for_pipe, NULL) == 0);
    CHECK(becomes(false));
    /* the number of retries: at most ten each time, and none without any left */
    syscall_text = "running\n";
    static const unsigned int left[] = {0, 3, 10, 11, 50};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        retries = left[i];
        sleeps = 0;
        CHECK(!sp_threads_are_blocked(0, 4096, &retries));
        CHECK(retries == (left[i] < 10 ? 0 : left[i] - 10));
        CHECK(sleeps == left[i] - retries);
    }
    syscall_text = NULL;
    CHECK(write(ends[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    close(ends[0]);
    close(ends[1]);
}

/*
 * Templates
 */

static bool has_flag(uint64_t at, const char *flag)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    unsigned long long lo, hi;
    char line[512];
    bool matches = false, found = false;

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%llx-%llx ", &lo, &hi) == 2)
            matches = lo <= at && at < hi;
        else if (matches && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    fclose(file);
    return found;
}

static void templates_have_the_attributes(void)
{
    static const struct {
        int advice;
        const char *flag;
    } cases[] = {{MADV_NORMAL, " rd "},   {MADV_SEQUENTIAL, " sr "}, {MADV_RANDOM, " rr "},
                 {MADV_DONTFORK, " dc "}, {MADV_WIPEONFORK, " wf "}, {MADV_DONTDUMP, " dd "},
                 {MADV_HUGEPAGE, " hg "}, {MADV_NOHUGEPAGE, " nh "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *at = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t us = UINT64_MAX;
        if (madvise(at, 16384, cases[i].advice) != 0)
            continue; /* not on this kernel */
        uint64_t read = sp_template_create_from_smaps((uintptr_t)at + 4096, &us);
        CHECK(read && us < 10000000 && has_flag(read, cases[i].flag));
        uint64_t moved = sp_template_create((uintptr_t)at + 8192); /* a page that is not there */
        CHECK(moved && has_flag(moved, cases[i].flag));
        uint8_t *copy = sp_template_clone(read, 65536, (uintptr_t)at);
        CHECK(copy && has_flag((uintptr_t)copy, cases[i].flag));
        memset(copy, 1, 65536);
        munmap(copy, 65536);
        for (int k = 1; k < 8; k++)
            CHECK(k == (int)i || !has_flag(read, cases[k].flag) ||
                  has_flag((uintptr_t)at, cases[k].flag));
        sp_template_free(read);
        sp_template_free(moved);
        munmap(at, 16384);
    }
    uint64_t us;
    CHECK(sp_template_create_from_smaps(4096, &us) == 0); /* nothing there */
    sp_template_free(0);
}

/* Looking for the attributes of a page ends after 10 ms of CPU time, which is told in
 * microseconds. */
static void looking_for_attributes_ends(void)
{
    enum { MAPPINGS = 20 };
    void *maps[MAPPINGS];
    uint64_t us;

    for (int i = 0; i < MAPPINGS; i++) /* which are not merged */
        maps[i] =
            mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cpu_ns = 996 * UINT64_C(1000000);
    cpu_tick_ns = 1000000;
    CHECK(sp_template_create_from_smaps(4096, &us) == 0 && us == 12000);
    cpu_tick_ns = 1000;
    CHECK(sp_template_create_from_smaps(4096, &us) == 0 && us >= MAPPINGS && us < 10000);
    cpu_tick_ns = 0;
    for (int i = 0; i < MAPPINGS; i++)
        munmap(maps[i], 4096);
}

static uint64_t new_page(void)
{
    return (uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool is_mapped(uint64_t page)
{
    return msync((void *)(uintptr_t)page, 4096, MS_ASYNC) == 0;
}

static void templates_are_found_and_freed(void)
{
    struct sp_templates templates = {0};
    struct sp_template_range range;
    uint64_t one = new_page(), two = new_page(), three = new_page();

    sp_templates_add(&templates, 100, 200, one);
    sp_templates_add(&templates, 200, 300, two);
    CHECK(sp_templates_find(&templates, 99, &range) == 0);
    CHECK(sp_templates_find(&templates, 100, &range) == one && range.lo == 100 && range.hi == 200);
    CHECK(sp_templates_find(&templates, 199, &range) == one);
    CHECK(sp_templates_find(&templates, 200, &range) == two && range.hi == 300);
    CHECK(sp_templates_find(&templates, 300, &range) == 0);
    sp_templates_remove(&templates, 150, 250); /* halves of both */
    CHECK(sp_templates_find(&templates, 100, &range) == one && is_mapped(one) && is_mapped(two));
    sp_templates_remove(&templates, 100, 149);
    CHECK(sp_templates_find(&templates, 120, &range) == one && is_mapped(one));
    sp_templates_remove(&templates, 149, 150);
    CHECK(sp_templates_find(&templates, 120, &range) == 0 && !is_mapped(one));
    sp_templates_add(&templates, 0, 1000, three); /* replaces what is there */
    CHECK(!is_mapped(two) && sp_templates_find(&templates, 999, &range) == three);
    sp_templates_remove(&templates, 50, 50);
    CHECK(is_mapped(three));
    one = new_page();
    sp_templates_add(&templates, 2000, 2001, one);
    sp_templates_add(&templates, 1500, 1600, 0); /* a range without a page */
    CHECK(sp_templates_find(&templates, 1550, &range) == 0);
    two = new_page();
    sp_templates_add(&templates, 1000, 1400, two);
    sp_templates_remove(&templates, 900, 3000); /* several, and a part of the first one */
    CHECK(!is_mapped(one) && !is_mapped(two) && is_mapped(three));
    CHECK(sp_templates_find(&templates, 2000, &range) == 0);
    sp_templates_close(&templates);
    CHECK(!is_mapped(three) && !templates.tree);
}

/* Of a window the huge pages alone are mapped at once: the others may be holes. */
static void huge_pages_alone_are_mapped(void)
{
    const off_t size = 4 * (off_t)SP_HUGE;
    int fd = memfd_create("huge", MFD_CLOEXEC);

    CHECK(fd >= 0 && ftruncate(fd, size) == 0);
    void *at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    struct sp_huge_frames frames = {.first = (uintptr_t)at, .bits = 2 | 8};
    CHECK(lseek(fd, 0, SEEK_DATA) == -1);
    sp_huge_map(&frames);
    if (lseek(fd, 0, SEEK_DATA) >= 0) { /* not before Linux 5.14 */
        CHECK(lseek(fd, 0, SEEK_DATA) == (off_t)SP_HUGE);
        CHECK(lseek(fd, 2 * (off_t)SP_HUGE, SEEK_DATA) == 3 * (off_t)SP_HUGE);
    }
    munmap(at, (size_t)size);
    close(fd);
}

int main(void)
{
    libraries_are_known();
    code_is_found();
    helpers_are_known_by_their_stack();
    threads_that_wait_are_known();
    other_threads_are_looked_at();
    templates_have_the_attributes();
    looking_for_attributes_ends();
    templates_are_found_and_freed();
    huge_pages_alone_are_mapped();
    return 0;
}
