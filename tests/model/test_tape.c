/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole recording, number by number: every kind of record, what several calls share, times, the
 * blocks of a file, and its end. The clocks are the test's, and the linker puts functions of the
 * test in the place of those that find call sites and the processor's counter (--wrap).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "record/mpi.h"
#include "record/record.h"
#include "record/tape.h"
#include "util/file.h"

enum { TOQ = 4 };

/*
 * In the place of the library
 */

static uint64_t now = 1000000, cpu = 3000000500, ticks_per_read;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? cpu : (now += ticks_per_read);

    if (clock != CLOCK_THREAD_CPUTIME_ID && clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = (time_t)(ns / 1000000000);
    t->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

int64_t __wrap_ut_clock_time_of_day_offset(void);
int64_t __wrap_ut_clock_time_of_day_offset(void)
{
    return -3;
}

static const char *clock_source; /* NULL: unknown */

FILE *__wrap_ut_fd_open_file(const char *path);
FILE *__wrap_ut_fd_open_file(const char *path)
{
    cr_assert_not_null(strstr(path, "clocksource"));
    FILE *file = clock_source ? tmpfile() : NULL;

    if (file)
        fputs(clock_source, file);
    if (file)
        rewind(file);
    return file;
}

/* The site of the next call; NULL: the unknown one, as before. */
static struct ut_site *site;
static bool walks, ends_there;
static void (*end_process)(void);

struct ut_site *__wrap_ut_site_find(struct ut_sites *s, uintptr_t frame, bool *walked);
struct ut_site *__wrap_ut_site_find(struct ut_sites *s, uintptr_t frame, bool *walked)
{
    (void)frame;
    *walked = walks;
    if (ends_there)
        end_process();
    if (walks)
        now += 700; /* the time that this takes */
    return site ? site : &s->unknown;
}

int __wrap_atexit(void (*function)(void));
int __wrap_atexit(void (*function)(void))
{
    end_process = function;
    return 0;
}

/*
 * Reading a recording
 */

static uint8_t content[1 << 20];
static const uint8_t *at;
static char text[1 << 18], *to;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    to += vsnprintf(to, (size_t)(text + sizeof(text) - to), format, args);
    va_end(args);
    cr_assert(to < text + sizeof(text) - 1);
}

static uint64_t take(unsigned int bytes)
{
    uint64_t value = 0;

    for (unsigned int i = 0; i < bytes; i++)
        value |= (uint64_t)*at++ << 8 * i;
    return value;
}

static uint64_t take_number(void)
{
    uint64_t value = 0;

    for (unsigned int shift = 0;; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static int64_t take_signed(void)
{
    uint64_t value = take_number();

    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static void say_numbers(unsigned int n)
{
    for (unsigned int i = 0; i < n; i++)
        say(" %" PRIu64, take_number());
}

static void say_bytes(unsigned int n)
{
    say(" ");
    for (unsigned int i = 0; i < n; i++)
        say(i ? ".%u" : "%u", *at++);
}

static void say_comm(bool again)
{
    if (!again) {
        say_numbers(4);
        uint8_t sps_and_path = *at++;
        say(" sps %u path %u", sps_and_path & 15u, sps_and_path >> 4);
        if (sps_and_path >> 4)
            say_bytes(3);
        say_numbers(1);
        uint64_t mtu = take_number();
        say(" %" PRIu64, mtu);
        if (mtu)
            say_numbers(1);
    }
    say(" %+lld", (long long)take_signed());
}

static void say_definition(bool is_gate)
{
    say_numbers(1);
    say(" %" PRIx64, take(8));
    say_bytes(6);
    say_numbers(is_gate ? 2 : 3);
    if (is_gate)
        return;
    say_bytes(3);
    say_numbers(1);
}

static void say_untimed(unsigned int op)
{
    static const char *const names[] = {"?", "vcq", "gate", "started", "site", "at"};

    say("%s", names[op]);
    if (op == UT_RECORD_VCQ || op == UT_RECORD_GATE) {
        say_definition(op == UT_RECORD_GATE);
    } else if (op == UT_RECORD_SITE) {
        uint64_t n = take_number();
        while (n-- > 0)
            say(" %" PRIx64, take(8));
    } else {
        say_numbers(1);
        if (op == UT_RECORD_STARTED)
            say(" %" PRIu64, take(8));
    }
}

static void say_poll(bool is_mrq, bool again, bool polled)
{
    if (!again)
        say_numbers(is_mrq ? 4 : 2);
    if (is_mrq)
        say_numbers(1);
    if (polled) {
        say(" polled");
        say_numbers(1);
    }
}

static void say_timed(unsigned int op, bool again, bool high)
{
    static const char *const names[] = {"put", "get",   "armw",   "nop",   "tcq",   "mrq",  "free",
                                        "set", "start", "result", "enter", "leave", "seen", "mpi"};
    bool is_poll = op == UT_RECORD_TCQ || op == UT_RECORD_MRQ;

    say("%s%s%s", names[op - UT_RECORD_TIMED], again ? " again" : "",
        high && !is_poll ? " same" : "");
    say_numbers(2);
    say(":");
    if (op <= UT_RECORD_NOP) {
        say_comm(again);
    } else if (is_poll) {
        say_poll(op == UT_RECORD_MRQ, again, high);
    } else if (op == UT_RECORD_ENTER || op == UT_RECORD_LEAVE) {
        int n = (int)take_number();
        say(" %.*s", n, (const char *)at);
        at += n;
    } else if (op == UT_RECORD_MPI) {
        say(" %u", *at++);
        say_numbers(1);
        for (uint64_t n = take_number(); n > 0; n--)
            say(" %lld", (long long)take_signed());
    } else if (op == UT_RECORD_SET) {
        say_numbers(5);
        say_bytes(3);
    } else {
        say_numbers(op == UT_RECORD_FREE ? 1 : 2);
    }
}

static void say_calls(const uint8_t *end)
{
    say("calls");
    say_numbers(1);
    say(" %" PRIu64 "\n", take(8));
    while (at < end) {
        unsigned int op = *at++, plain = op & 0x3f;
        if (plain < UT_RECORD_TIMED)
            say_untimed(op);
        else
            say_timed(plain, op & UT_RECORD_AGAIN, op & UT_RECORD_SAME_CALL);
        say("\n");
    }
}

static void say_head(void)
{
    say("head");
    say_numbers(3);
    int n = (int)take_number();
    say(" '%.*s'", n, (const char *)at);
    at += n;
    say(" %" PRIx64, take(8));
    say_bytes(6);
    say(" %lld", (long long)take_signed());
    say_numbers(1);
    say(" %" PRIu64, take(8));
    say(" %" PRIu64, take(8));
    say_numbers(1);
    say("\n");
}

static char path[100];

static size_t read_file(void)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, content, sizeof(content));

    cr_assert(n > 0 && n < (ssize_t)sizeof(content));
    close(fd);
    return (size_t)n;
}

/* The file as text; of modules only that they are there. */
static const char *read_recording(void)
{
    const uint8_t *file_end = content + read_file();

    to = text;
    *to = '\0';
    cr_assert_eq(memcmp(content, UT_RECORD_MAGIC, UT_RECORD_MAGIC_SIZE), 0);
    for (at = content + UT_RECORD_MAGIC_SIZE; at < file_end;) {
        uint8_t type = *at++;
        uint32_t size = (uint32_t)take(4), sum = (uint32_t)take(4);
        const uint8_t *end = at + size;
        cr_assert(end <= file_end && sum == ut_record_checksum(at, size));
        if (type == UT_RECORD_HEAD)
            say_head();
        else if (type == UT_RECORD_CALLS)
            say_calls(end);
        else
            say("%s", type == UT_RECORD_END      ? "end"
                      : type == UT_RECORD_MOMENT ? "moment"
                                                 : "modules");
        if (type == UT_RECORD_END)
            say_numbers(1);
        if (type == UT_RECORD_END || type == UT_RECORD_MOMENT) {
            say(" %" PRIu64, take(8));
            say(" %" PRIu64, take(8));
        }
        if (type == UT_RECORD_END)
            say_numbers(1);
        if (type == UT_RECORD_END || type == UT_RECORD_MOMENT)
            say("\n");
        if (type == UT_RECORD_MODULES) {
            cr_assert(size > 0);
            say("\n");
            at = end;
        }
        cr_assert_eq(at, end);
    }
    return text;
}

/*
 * Recordings
 */

static bool in_mpi;

static bool has_mpi(void)
{
    return in_mpi;
}

static struct ut_tape_job job = {.rank = 3,
                                 .size = 8,
                                 .id = "a-job",
                                 .host = 0xbeef,
                                 .coords = (const uint8_t *)"\1\2\3\0\1\0",
                                 .has_mpi = has_mpi};

static void open_with_limit(uint64_t limit)
{
    char why[UT_FILE_WHY] = "";

    snprintf(path, sizeof(path), "/tmp/test_tape.%d.bin", (int)getpid());
    cr_assert_eq(ut_tape_open(path, limit, &job, why), 0);
    cr_assert(!ut_tape_clock.by_counter);
}

static void begin(void)
{
    open_with_limit(0);
    cr_assert_not_null(ut_tape_enter());
}

static void remove_file(void)
{
    unlink(path);
}

TestSuite(tape, .fini = remove_file);

#define HEAD "head 6 3 8 'a-job' beef 1.2.3.0.1.0 -3 0 1000000 1000000 0\nmodules\n"

/* The records of the file. */
static void check_records(const char *want)
{
    static const char calls[] = "calls 0 1000000\n";
    end_process();
    const char *got = read_recording();
    char *from = strstr(text, calls), *end = from ? strstr(from, "modules\n") : NULL;

    cr_assert(from && end, "%s", got);
    *end = '\0';
    cr_assert_str_eq(from + strlen(calls), want);
}

static utofu_vcq_id_t id_of(uint16_t tni, uint16_t cq)
{
    return ut_vcq_id_pack(&(struct ut_vcq_ident){
        .coords = {{4, 5, 6, 1, 2, 0}}, .tni = tni, .cq = cq, .cmp = 2, .path = {1, 0, 1}});
}

static utofu_vbg_id_t gate_of(uint16_t tni, uint16_t gate)
{
    return ut_vbg_id_pack(
        &(struct ut_vbg_ident){.coords = {{4, 5, 6, 1, 2, 0}}, .tni = tni, .gate = gate});
}

/* Text with up to four ids. */
static const char *with_ids(const char *format, uint64_t a, uint64_t b)
{
    static char made[8000];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(made, sizeof(made), format, a, b);
#pragma GCC diagnostic pop
    return made;
}

/*
 * The file
 */

Test(tape, file_of_no_calls)
{
    begin();
    in_mpi = true;
    now = 2000000;
    end_process();
    cr_assert_str_eq(read_recording(), HEAD "modules\nend 0 2000000 2000000 1\n");
    ut_record_seen(4096, 8);
    cr_assert_str_eq(read_recording(), HEAD "modules\nend 0 2000000 2000000 1\n");
}

Test(tape, long_name_of_a_job_is_cut)
{
    static char name[300];

    memset(name, 'x', sizeof(name) - 1);
    job.id = name;
    in_mpi = true;
    begin();
    name[UT_TAPE_JOB_ID] = '\0';
    char want[500];
    snprintf(want, sizeof(want),
             "head 6 3 8 '%s' beef 1.2.3.0.1.0 -3 0 1000000 1000000 1\nmodules\n", name);
    cr_assert_str_eq(read_recording(), want);
}

Test(tape, file_that_cannot_be_made)
{
    char why[UT_FILE_WHY] = "";

    cr_assert(ut_tape_open("/nowhere/tape", 0, &job, why) < 0);
    ut_record_seen(4096, 8);
}

static void fill(unsigned int records)
{
    for (unsigned int i = 0; i < records; i++)
        ut_record_seen(0x4000000000000, 8);
}

static unsigned int count(const char *what)
{
    unsigned int n = 0;

    for (const char *c = text; (c = strstr(c, what)); c++)
        n++;
    return n;
}

/* A tape that is almost full is written, and begins again. */
Test(tape, full_tape_is_a_block)
{
    enum { RECORD = 12, IN_BLOCK = (UT_TAPE_SIZE - UT_TAPE_RECORD_MAX) / RECORD };

    begin();
    fill(IN_BLOCK - 2);
    read_recording();
    cr_assert_eq(count("calls"), 0);
    now = 3000000;
    fill(8);
    read_recording();
    cr_assert_eq(count("calls"), 1);
    cr_assert_eq(count("moment 3000000 3000000\n"), 1);
    unsigned int written = count("seen");
    cr_assert_eq(written, IN_BLOCK, "%u", written);
    end_process();
    char end[60];
    snprintf(end, sizeof(end), "end %u 3000000 3000000 0\n", IN_BLOCK - 2 + 8);
    read_recording();
    cr_assert_not_null(strstr(text, end), "%s", text + strlen(text) - 100);
    cr_assert_eq(count("seen"), IN_BLOCK - 2 + 8);
    cr_assert_eq(count("calls 0 1000000\n"), 1);
    cr_assert_eq(count("calls 0 3000000\n"), 1, "its times are since the last call");
}

/*
 * Modules
 */

/* A module of this process with code, as the dynamic linker has it. */
struct module {
    uint64_t begin, end, bias;
    const uint8_t *id;
    size_t id_size;
    char path[PATH_MAX];
};

static struct module modules[100];
static unsigned int num_modules;

static void take_note(struct module *m, const uint8_t *note, const uint8_t *end)
{
    ElfW(Nhdr) head;

    for (; note < end;
         note += sizeof(head) + (head.n_namesz + 3u) / 4 * 4 + (head.n_descsz + 3u) / 4 * 4) {
        memcpy(&head, note, sizeof(head));
        if (head.n_type != NT_GNU_BUILD_ID || m->id)
            continue;
        m->id = note + sizeof(head) + 4;
        m->id_size = head.n_descsz;
    }
}

static int take_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module *m = &modules[num_modules];

    (void)size, (void)arg;
    *m = (struct module){.begin = UINT64_MAX, .bias = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + h->p_vaddr, to_ = from + h->p_memsz;
        if (h->p_type == PT_NOTE)
            take_note(m, (const uint8_t *)(uintptr_t)from, (const uint8_t *)(uintptr_t)to_);
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
            continue;
        m->begin = from < m->begin ? from : m->begin;
        m->end = to_ > m->end ? to_ : m->end;
    }
    if (!realpath(*info->dlpi_name ? info->dlpi_name : "/proc/self/exe", m->path))
        return 0; /* the system's own, which has no file */
    num_modules++;
    return 0;
}

/* The content of the last block of modules. */
static const uint8_t *find_modules(void)
{
    const uint8_t *end = content + read_file(), *found = NULL;

    for (at = content + UT_RECORD_MAGIC_SIZE; at < end;) {
        uint8_t type = *at++;
        uint32_t size = (uint32_t)take(4);
        at += 4;
        if (type == UT_RECORD_MODULES)
            found = at;
        at += size;
    }
    return found;
}

Test(tape, modules_of_the_process)
{
    bool has_own = false;

    begin();
    end_process();
    at = find_modules();
    dl_iterate_phdr(take_module, NULL);
    cr_assert(num_modules >= 3);
    for (unsigned int i = 0; i < num_modules; i++) {
        const struct module *m = &modules[i];
        cr_assert_eq(take(8), m->begin, "%s", m->path);
        cr_assert_eq(take(8), m->end, "%s", m->path);
        cr_assert_eq(take(8), m->bias, "%s", m->path);
        cr_assert_eq(take_number(), m->id_size, "%s", m->path);
        cr_assert_eq(memcmp(at, m->id ? m->id : at, m->id_size), 0, "%s", m->path);
        at += m->id_size;
        size_t length = take_number();
        cr_assert(length == strlen(m->path) && memcmp(at, m->path, length) == 0, "%s", m->path);
        at += length;
        has_own |= m->begin <= (uintptr_t)take_module && (uintptr_t)take_module < m->end;
    }
    cr_assert(has_own);
}

static const char *printed_by(void (*act)(void))
{
    static char line[1000];
    FILE *errors = tmpfile();

    cr_assert(errors && dup2(fileno(errors), STDERR_FILENO) >= 0);
    act();
    ssize_t n = pread(fileno(errors), line, sizeof(line) - 1, 0);
    cr_assert(n >= 0);
    line[n] = '\0';
    return line;
}

static void fill_two_tapes(void)
{
    fill(2 * UT_TAPE_SIZE / 12);
    end_process();
}

Test(tape, file_ends_at_its_limit)
{
    open_with_limit(UT_TAPE_SIZE + 9000);
    const char *line = printed_by(fill_two_tapes);
    cr_assert_not_null(strstr(line, "ends here (utofu-model --partial reads it): the limit of "
                                    "UTOFU_TRACE is reached"),
                       "%s", line);
    size_t size = read_file();
    cr_assert(size > UT_TAPE_SIZE - UT_TAPE_RECORD_MAX && size <= UT_TAPE_SIZE + 9000 + 100);
    read_recording();
    cr_assert(count("calls") == 1 && count("end") == 0, "one block has room");
}

static void close_all(void)
{
    for (int fd = 3; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && fd != 0) {
            char name[40], target[200] = "";
            snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
            if (readlink(name, target, sizeof(target) - 1) > 0 && strcmp(target, path) == 0)
                close(fd);
        }
    fill(3);
    end_process();
}

Test(tape, file_that_the_program_closes_ends)
{
    begin();
    const char *line = printed_by(close_all);
    cr_assert_not_null(strstr(line, "Bad file descriptor"), "%s", line);
    cr_assert_str_eq(read_recording(), HEAD);
}

Test(tape, child_writes_nothing)
{
    int status;

    begin();
    fill(2);
    pid_t child = fork();
    if (child == 0) {
        end_process();
        _exit(0);
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    cr_assert_str_eq(read_recording(), HEAD);
    end_process();
    read_recording();
    cr_assert_eq(count("seen"), 2);
}

static void *call_in_thread(void *arg)
{
    now += 5;
    ut_record_seen(4096, 8);
    now += 7;
    ut_record_seen(4096, 8);
    return arg;
}

/* Each thread has its own tape, which is written when the thread ends. */
Test(tape, threads)
{
    pthread_t thread;

    begin();
    ut_record_seen(4096, 8);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, call_in_thread, NULL), 0);
        pthread_join(thread, NULL);
    }
    cr_assert_str_eq(read_recording(),
                     HEAD "calls 1 1000005\nseen 0 0: 4096 8\nseen 7 7: 4096 8\n"
                          "calls 2 1000017\nseen 0 0: 4096 8\nseen 7 7: 4096 8\n");
    end_process();
    cr_assert_str_eq(read_recording(), HEAD "calls 1 1000005\nseen 0 0: 4096 8\nseen 7 7: 4096 8\n"
                                            "calls 2 1000017\nseen 0 0: 4096 8\nseen 7 7: 4096 8\n"
                                            "calls 0 1000000\nseen 0 0: 4096 8\n"
                                            "modules\nend 5 1000024 1000024 0\n");
}

/* Ticks are those of the processor's counter, if it is the system's clock. */
Test(tape, counter)
{
    char why[UT_FILE_WHY] = "";

    clock_source = "tsc\n";
    ticks_per_read = 1000;
    snprintf(path, sizeof(path), "/tmp/test_tape.%d.bin", (int)getpid());
    cr_assert_eq(ut_tape_open(path, 0, &job, why), 0);
#if defined(__x86_64__)
    cr_assert(ut_tape_clock.by_counter);
    cr_assert(now >= 1050000 && now <= 1050000 + 20 * 1000, "compared for 50 us");
    cr_assert(ut_tape_clock.ticks_a_ns > 0);
    cr_assert_eq(ut_tape_clock.off_cpu, (uint64_t)(20000 * ut_tape_clock.ticks_a_ns));
    cr_assert_eq(ut_tape_clock.wait, (uint64_t)(2000 * ut_tape_clock.ticks_a_ns));
#endif
}

Test(tape, another_clock_source)
{
    clock_source = "tsc2\n";
    begin();
    cr_assert(ut_tape_clock.ticks_a_ns == 1 && ut_tape_clock.off_cpu == 20000 &&
              ut_tape_clock.wait == 2000);
}

/*
 * Times between calls
 */

/* Up to 20 us without a call a thread counts as having been on its core; then its CPU time does. */
Test(tape, time_of_the_program)
{
    begin();
    fill(1);
    now += 20000;
    fill(1);
    now += 20001; /* of which 4000 on the core, and 500 of the time before it was read first */
    cpu += 20000 + 4000;
    fill(1);
    now += 30000; /* all on the core */
    cpu += 40000;
    fill(1);
    now += 25000; /* less CPU time than there was before */
    cpu += 1;
    fill(1);
    check_records("seen 0 0: 1125899906842624 8\n"
                  "seen 20000 20000: 1125899906842624 8\n"
                  "seen 20001 4000: 1125899906842624 8\n"
                  "seen 30000 30000: 1125899906842624 8\n"
                  "seen 25000 1: 1125899906842624 8\n");
}

Test(tape, time_off_the_core_is_a_moving_mean)
{
    begin();
    fill(1);
    now += 40000;
    fill(1);
    cr_assert_eq(ut_tape_own->hold.off_ns, 10000);
    now += 80000;
    cpu += 40000;
    fill(1);
    cr_assert_eq(ut_tape_own->hold.off_ns, (3 * 10000 + 40000) / 4);
}

/* A call that takes long is none of the program's time, and its CPU time is not. */
Test(tape, time_in_a_call)
{
    begin();
    fill(1);
    uint64_t from = ut_record_now();
    now += 20000;
    cpu += 9000;
    ut_record_start(gate_of(0, 1), 5, from);
    cr_assert_eq(ut_tape_own->cpu_at, 3000000500);
    from = ut_record_now();
    now += 20001;
    ut_record_start(gate_of(0, 1), 5, from);
    cr_assert_eq(ut_tape_own->cpu_at, 3000009500);
    cr_assert_eq(ut_tape_own->wall_at, now);
    now += 3;
    fill(1);
    check_records(with_ids("seen 0 0: 1125899906842624 8\n"
                           "gate 0 %" PRIx64 " 4.5.6.1.2.0 0 1\n"
                           "start 0 0: 0 5\n"
                           "start 20000 0: 0 5\n"
                           "seen 20004 3: 1125899906842624 8\n",
                           gate_of(0, 1), 0));
}

/*
 * Calls
 */

Test(tape, vcqs)
{
    struct ut_record_of vcq = {.id = id_of(3, 9), .flags = 6};

    begin();
    ut_record_made(&vcq);
    ut_record_made(&vcq);
    now += 4;
    ut_record_started(&vcq);
    now += 5;
    ut_record_freed(&vcq);
    vcq.id = id_of(3, 8);
    ut_record_freed(&vcq);
    check_records(with_ids("vcq 0 %" PRIx64 " 4.5.6.1.2.0 3 9 2 1.0.1 7\n"
                           "started 0 1000004\n"
                           "free 9 9: 0\n"
                           "vcq 1 %" PRIx64 " 4.5.6.1.2.0 3 8 2 1.0.1 7\n"
                           "free 0 0: 1\n",
                           id_of(3, 9), vcq.id));
}

Test(tape, vcq_without_calls)
{
    const struct ut_record_of vcq = {.id = id_of(3, 9), .flags = 6};

    begin();
    ut_record_made(&vcq);
    check_records(with_ids("vcq 0 %" PRIx64 " 4.5.6.1.2.0 3 9 2 1.0.1 7\n", vcq.id, 0));
}

/* Another thread ends the process, after a call has defined an id, and before its own record. */
Test(tape, process_that_ends_during_a_call_leaves_whole_records)
{
    begin();
    ends_there = true;
    ut_record_start(gate_of(0, 1), 5, now);
    read_recording();
    char want[200];
    snprintf(want, sizeof(want), "calls 0 1000000\ngate 0 %" PRIx64 " 4.5.6.1.2.0 0 1\nmodules\n",
             gate_of(0, 1));
    cr_assert_not_null(strstr(text, want), "%s", text);
}

static void comm(unsigned int op, uint64_t remote, uint32_t word, uint32_t pace, unsigned int flags,
                 unsigned int edata, utofu_stadd_t stadd, unsigned int same)
{
    const struct ut_tape_comm c = {.vcq = id_of(3, 9),
                                   .remote = remote,
                                   .word = word,
                                   .pace = pace,
                                   .head = flags << 16 | edata << 8 | op};
    struct ut_tape *t = ut_tape_enter();

    ut_record_comm(t, &c, stadd, 6, same, now);
}

#define VCQS                                                                                       \
    "vcq 0 %" PRIx64 " 4.5.6.1.2.0 3 9 2 1.0.1 7\n"                                                \
    "vcq 1 %" PRIx64 " 4.5.6.1.2.0 0 4 2 1.0.1 0\n"

Test(tape, communications)
{
    const uint64_t remote = id_of(0, 4);

    begin();
    comm(UT_RECORD_PUT, remote, 24, 0, 5, 7, 4096, 0);
    now += 6;
    comm(UT_RECORD_PUT, remote, 24, 0, 5, 7, 4032, UT_RECORD_SAME_CALL); /* again */
    comm(UT_RECORD_PUT, remote, 25, 0, 5, 7, 4032, 0);                   /* another length */
    comm(UT_RECORD_PUT, remote, 25 | 3u << 24, 0, 5, 7, 4033, 0);        /* an SPS */
    comm(UT_RECORD_PUT, remote, 25 | 3u << 24, 1920 | 4u << 16, 5, 7, 4033, 0);
    comm(UT_RECORD_PUT, remote, 25 | 3u << 24, 1920 | 4u << 16, 6, 7, 4033, 0);
    comm(UT_RECORD_PUT, remote, 25 | 3u << 24, 1920 | 4u << 16, 6, 8, 4033, 0);
    comm(UT_RECORD_GET, remote, 25 | 3u << 24, 1920 | 4u << 16, 6, 8, 4033, 0);
    comm(UT_RECORD_GET, remote, 25 | 2u << 28, 0, 6, 8, 4033, 0); /* the second path behind it */
    comm(UT_RECORD_ARMW, id_of(3, 9), 8, 0, 65535, 255, 4033, 0); /* to itself */
    comm(UT_RECORD_NOP, 0, 0, 0, 0, 0, 4033, 0);
    check_records(with_ids(VCQS "put 0 0: 0 1 24 5 sps 0 path 0 7 0 +4096\n"
                                "put again same 6 0: -64\n"
                                "put 0 0: 0 1 25 5 sps 0 path 0 7 0 +0\n"
                                "put 0 0: 0 1 25 5 sps 3 path 0 7 0 +1\n"
                                "put 0 0: 0 1 25 5 sps 3 path 0 7 1920 4 +0\n"
                                "put 0 0: 0 1 25 6 sps 3 path 0 7 1920 4 +0\n"
                                "put 0 0: 0 1 25 6 sps 3 path 0 8 1920 4 +0\n"
                                "get 0 0: 0 1 25 6 sps 3 path 0 8 1920 4 +0\n"
                                "get 0 0: 0 1 25 6 sps 0 path 2 1.1.1 8 0 +0\n"
                                "armw 0 0: 0 0 8 65535 sps 0 path 0 255 0 +0\n"
                                "nop 0 0: 0 0 0 0 sps 0 path 0 0 0 +0\n",
                           id_of(3, 9), remote));
}

/* The descriptors of a call, as the engine has them. */
Test(tape, submissions)
{
    static struct ut_slot toq[TOQ];
    struct ut_vcq vcq = {
        .toq = toq, .toq_mask = TOQ - 1, .toq_tail = 3, .id = id_of(3, 9), .flags = 6};
    const struct ut_desc descs[] = {
        {.kind = UT_DESC_PUT, .word = 8, .mtu = UT_MAX_MTU},
        {.kind = UT_DESC_PUT, .word = 8, .mtu = UT_MAX_MTU, .gap = 1},
        {.kind = UT_DESC_GET, .word = 8, .mtu = 512},
        {.kind = UT_DESC_PIGGYBACK, .word = 16},
    };

    begin();
    for (uint32_t i = 0; i < 4; i++) {
        struct ut_slot *slot = ut_vcq_slot(&vcq, 3 + i);
        slot->desc = descs[i];
        if (descs[i].kind == UT_DESC_PIGGYBACK)
            memset(slot->desc.data, 7, 16);
        slot->desc.rmt_vcq_id = id_of(0, 4);
        slot->desc.rmt_stadd = 64 * i;
        slot->desc.edata = 9;
    }
    now += 10;
    ut_record_submit(&vcq, 4);
    now += 30;
    ut_record_submitted();
    now += 5;
    vcq.toq_tail = 6;
    ut_record_submit(&vcq, 1);
    check_records(with_ids(VCQS "put 10 10: 0 1 8 0 sps 0 path 0 9 0 +0\n"
                                "put same 0 0: 0 1 8 0 sps 0 path 0 9 1920 1 +64\n"
                                "get same 0 0: 0 1 8 0 sps 0 path 0 9 512 0 +64\n"
                                "put same 0 0: 0 1 16 0 sps 0 path 0 9 0 +64\n"
                                "put again 35 5: +0\n",
                           id_of(3, 9), id_of(0, 4)));
}

/* The clock is read at the end of each sixteenth short put; the others count as a mean of these. */
Test(tape, short_puts_take_as_long_as_those_that_were_measured)
{
    const struct ut_vcq vcq = {.id = id_of(3, 9), .flags = 6};
    struct ut_desc desc = {.kind = UT_DESC_PUT, .word = 512, .rmt_vcq_id = id_of(0, 4)};
    struct ut_tape *t;

    begin();
    for (int i = 1; i <= 48; i++) {
        uint64_t from = ut_record_now();
        now += i == 16 ? 100 : i == 32 ? 200 : i == 48 ? 20000 : 5000;
        ut_record_direct(&vcq, &desc, from);
        t = ut_tape_own;
        uint64_t want = i < 16    ? 0
                        : i == 16 ? 100
                        : i < 32  ? 100
                        : i == 32 ? 200
                        : i < 48  ? 125
                                  : 20000;
        cr_assert_eq(t->last_end - from, want, "%d: %u", i, (unsigned int)(t->last_end - from));
    }
    cr_assert_eq(t->put_took, 125, "the longest one tells nothing");
    desc.word = 513;
    uint64_t from = ut_record_now();
    now += 4000;
    ut_record_direct(&vcq, &desc, from);
    cr_assert(t->last_end - from == 4000 && t->put_took == 125, "a long put is measured");
    desc.word = 512;
    t->flushed = true; /* it has written a block */
    from = ut_record_now();
    now += 3000;
    ut_record_direct(&vcq, &desc, from);
    cr_assert(t->last_end - from == 3000 && t->put_took == 125 && !t->flushed);
}

Test(tape, polls_of_the_tcq)
{
    begin();
    const struct ut_record_of other = {.id = id_of(1, 1), .flags = 0}, vcq = {.id = id_of(3, 9)};
    ut_record_tcq(&vcq, UTOFU_SUCCESS);
    now += 8;
    ut_record_tcq(&vcq, UTOFU_SUCCESS);
    ut_record_tcq(&vcq, UTOFU_ERR_TCQ_STADD);
    ut_record_tcq(&vcq, UTOFU_SUCCESS);
    ut_record_tcq(&other, UTOFU_SUCCESS);
    now += 100;
    ut_record_tcq(&vcq, UTOFU_ERR_NOT_FOUND); /* 100 of the program before it */
    now += 1999;
    ut_record_tcq(&vcq, UTOFU_ERR_NOT_FOUND); /* one wait */
    now += 2000;
    ut_record_tcq(&vcq, UTOFU_ERR_NOT_FOUND); /* 2000 of the program */
    now += 7;
    ut_record_tcq(&other, UTOFU_SUCCESS);
    now += 9;
    ut_record_tcq(&other, UTOFU_ERR_NOT_FOUND);
    ut_record_tcq(&other, UTOFU_SUCCESS); /* in the same moment */
    char want[2000];
    snprintf(want, sizeof(want),
             "vcq 0 %" PRIx64 " 4.5.6.1.2.0 3 9 2 1.0.1 1\ntcq 0 0: 0 0\ntcq again 8 8:\n"
             "tcq 0 0: 0 %d\ntcq 0 0: 0 0\nvcq 1 %" PRIx64 " 4.5.6.1.2.0 1 1 2 1.0.1 1\n"
             "tcq 0 0: 1 0\ntcq again 4106 2100: polled 4006\ntcq again 9 9:\n",
             vcq.id, -UTOFU_ERR_TCQ_STADD, other.id);
    check_records(want);
}

Test(tape, polls_of_the_mrq)
{
    begin();
    const struct ut_record_of vcq = {.id = id_of(3, 9), .flags = 6};
    struct utofu_mrq_notice n = {.notice_type = 4, .vcq_id = id_of(0, 4), .edata = 3};
    ut_record_mrq(&vcq, UTOFU_SUCCESS, &n);
    n.edata = 200;
    ut_record_mrq(&vcq, UTOFU_SUCCESS, &n);
    n.notice_type = 5;
    ut_record_mrq(&vcq, UTOFU_SUCCESS, &n);
    n.vcq_id = id_of(3, 9);
    ut_record_mrq(&vcq, UTOFU_SUCCESS, &n);
    ut_record_mrq(&vcq, UTOFU_ERR_MRQ_PEER, &n);
    now += 3;
    ut_record_tcq(&vcq, UTOFU_ERR_NOT_FOUND);
    now += 4;
    ut_record_mrq(&vcq, UTOFU_ERR_NOT_FOUND, &n);
    now += 5;
    ut_record_mrq(&vcq, UTOFU_SUCCESS, &n);
    check_records(with_ids(VCQS "mrq 0 0: 0 0 4 1 3\n"
                                "mrq again 0 0: 200\n"
                                "mrq 0 0: 0 0 5 1 200\n"
                                "mrq 0 0: 0 0 5 0 200\n"
                                "mrq 0 0: 0 193 5 0 200\n"
                                "mrq 12 3: 0 0 5 0 200 polled 5\n",
                           id_of(3, 9), id_of(0, 4)));
}

Test(tape, barriers)
{
    struct utofu_vbg_setting settings[2] = {
        {.vbg_id = gate_of(2, 3),
         .src_lcl_vbg_id = UTOFU_VBG_ID_NULL,
         .src_rmt_vbg_id = gate_of(2, 17),
         .dst_lcl_vbg_id = gate_of(2, 3),
         .dst_rmt_vbg_id = UTOFU_VBG_ID_NULL,
         .dst_path_coords = {1, 2, 0}},
        {.vbg_id = gate_of(2, 17),
         .src_lcl_vbg_id = gate_of(2, 3),
         .src_rmt_vbg_id = UTOFU_VBG_ID_NULL,
         .dst_lcl_vbg_id = UTOFU_VBG_ID_NULL,
         .dst_rmt_vbg_id = gate_of(2, 17),
         .dst_path_coords = {255, 255, 255}},
    };

    begin();
    ut_record_set(settings, 2);
    now += 4;
    uint64_t from = ut_record_now();
    now += 10;
    ut_record_start(settings[0].vbg_id, 6, from);
    now += 1;
    ut_record_result(settings[0].vbg_id, now, UTOFU_ERR_NOT_COMPLETED);
    now += 2;
    from = ut_record_now();
    now += 5;
    ut_record_result(settings[0].vbg_id, from, UTOFU_ERR_BARRIER_MISMATCH);
    check_records(with_ids("gate 0 %" PRIx64 " 4.5.6.1.2.0 2 3\n"
                           "gate 1 %" PRIx64 " 4.5.6.1.2.0 2 17\n"
                           "set 0 0: 0 0 2 1 0 1.2.0\n"
                           "set 0 0: 1 1 0 0 2 255.255.255\n"
                           "start 4 4: 0 6\n"
                           "result 13 1: 0 257\n",
                           settings[0].vbg_id, settings[1].vbg_id));
}

Test(tape, regions)
{
    begin();
    now += 4;
    ut_record_region("a loop", true);
    now += 5;
    ut_record_region("a loop", false);
    now += 6;
    ut_record_seen(300, 1 << 20);
    check_records("enter 4 4: a loop\nleave 5 5: a loop\nseen 6 6: 300 1048576\n");
}

/* A call of each kind, which is the last one of its process: its record is whole. */
#define LAST(name, ...)                                                                            \
    Test(tape, last_record_is_whole_##name)                                                        \
    {                                                                                              \
        begin();                                                                                   \
        __VA_ARGS__;                                                                               \
        end_process();                                                                             \
        read_recording();                                                                          \
        cr_assert_eq(count("calls"), 1);                                                           \
    }

static const struct utofu_mrq_notice a_notice = {.notice_type = 4, .vcq_id = 1, .edata = 3};
static const struct utofu_vbg_setting a_setting = {.vbg_id = 1};
static const struct ut_record_of a_vcq = {.id = 1, .flags = 6};

LAST(started, ut_record_started(&a_vcq))
LAST(freed, ut_record_freed(&a_vcq))
LAST(tcq, ut_record_tcq(&a_vcq, UTOFU_SUCCESS))
LAST(mrq, ut_record_mrq(&a_vcq, UTOFU_SUCCESS, &a_notice))
LAST(set, ut_record_set(&a_setting, 1))
LAST(start, ut_record_start(1, 5, now))
LAST(region, ut_record_region("a loop", true))
LAST(comm, comm(UT_RECORD_PUT, 1, 24, 1920 | 4u << 16, 5, 7, 4096, 0))

/* Where calls are made: a new site with its frames, one that follows another one as before, and one
 * that does not. */
Test(tape, sites)
{
    struct ut_site a = {.index = 1, .num = 2, .frames = {0xaaa, 0xbbb}},
                   b = {.index = 2, .num = 1, .frames = {0xccc}};

    begin();
    struct ut_tape *t = ut_tape_enter();
    a.next = b.next = &t->sites.unknown;
    struct ut_site *const calls[] = {&a, &b, &a, &b, &b, &a};
    for (int i = 0; i < 6; i++) {
        site = calls[i];
        walks = i == 1;
        now += 10;
        ut_record_seen((utofu_stadd_t)i, 8);
        if (i == 1)
            cr_assert(t->flushed);
    }
    check_records("site aaa bbb\nseen 10 10: 0 8\n"
                  "site ccc\nseen 10 10: 1 8\n"
                  "at 1\nseen 710 10: 2 8\n"
                  "seen 10 10: 3 8\n" /* as the first time */
                  "at 2\nseen 10 10: 4 8\n"
                  "at 1\nseen 10 10: 5 8\n");
}

/*
 * MPI
 */

static const struct ut_record_mpi *mpi;

__attribute__((visibility("default"))) bool utofu_record_mpi_attach(const struct ut_record_mpi *m);
bool utofu_record_mpi_attach(const struct ut_record_mpi *m)
{
    mpi = m;
    return true;
}

Test(tape, calls_of_mpi)
{
    const int64_t numbers[] = {-1, 2, 300};

    begin();
    ut_record_mpi_open();
    cr_assert(mpi && mpi->api == UT_RECORD_MPI_API);
    now += 10;
    uint64_t from = mpi->begin();
    now += 20;
    mpi->write(from, UT_RECORD_MPI_SEND, false, numbers, 3);
    mpi->write(from, UT_RECORD_MPI_WAIT, true, numbers, 1);
    now += 5;
    from = mpi->begin();
    now += 3;
    mpi->end(from);
    now += 6;
    from = mpi->begin();
    mpi->poll(from);
    now += 7;
    from = mpi->begin();
    now += 1;
    mpi->poll(from);
    now += 8;
    from = mpi->begin();
    mpi->write(from, UT_RECORD_MPI_PROBE, false, numbers, 0);
    check_records("mpi 10 10: 2 0 -1 2 300\n"
                  "mpi same 0 0: 4 0 -1\n"
                  "mpi 50 11: 5 16\n");
}
