/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small modules of util: descriptors and the standard ones, files and their owners, keys, threads,
 * the last error, counted lines, delays, hosts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "util/back_off.h"
#include "util/codes.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/file.h"
#include "util/host.h"
#include "util/key.h"
#include "util/last_error.h"
#include "util/log.h"
#include "util/rate_limit.h"
#include "util/thread.h"
#include "utofu.h"

enum { OTHER_UID = 54322 };

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/*
 * Descriptors
 */

Test(util_fd, standard_numbers_are_left_to_the_program)
{
    close(0);
    close(2);
    int fd = ut_fd_open_ours(open("/dev/null", O_RDONLY));
    cr_assert_gt(fd, 2);
    cr_assert(ut_fd_stdio_has_gaps());
    cr_assert(!is_open(0) && is_open(1) && !is_open(2), "they are closed as before");
    FILE *file = ut_fd_open_file("/proc/self/stat");
    DIR *folder = ut_fd_open_folder("/proc");
    cr_assert(file && fileno(file) > 2 && folder && dirfd(folder) > 2);
    cr_assert_eq(open("/dev/null", O_RDONLY), 0);
    cr_assert_eq(open("/dev/null", O_WRONLY), 2);
    ut_fd_close(ut_fd_above_stdio(open("/dev/null", O_RDONLY)));
    cr_assert(!ut_fd_stdio_has_gaps());
}

Test(util_fd, number_stays_taken_until_the_last_user)
{
    close(0);
    errno = E2BIG;
    ut_fd_reserve_stdio();
    cr_assert_eq(errno, E2BIG);
    cr_assert(is_open(0));
    cr_assert_lt(read(0, &(char){0}, 1), 0, "it is like a closed one");
    ut_fd_reserve_stdio();
    ut_fd_release_stdio();
    cr_assert(is_open(0));
    pid_t child = fork();
    if (child == 0) {
        int fd = is_open(0) ? 1 : ut_fd_above_stdio(dup(1));
        _exit(fd > 2 && !is_open(0) ? 0 : 1);
    }
    int status;
    cr_assert(waitpid(child, &status, 0) == child && status == 0, "the child has it closed");
    errno = E2BIG;
    ut_fd_release_stdio();
    cr_assert_eq(errno, E2BIG);
    cr_assert(!is_open(0));
    ut_fd_release_stdio(); /* once too often */
    ut_fd_reserve_stdio();
    cr_assert(is_open(0));
    cr_assert_eq(dup2(1, 0), 0); /* the program's */
    ut_fd_release_stdio();
    cr_assert(is_open(0), "what the program has opened stays");
}

Test(util_fd, low_descriptor_is_moved)
{
    int fd, low = dup(1);

    close(0);
    fd = dup(1);
    cr_assert_eq(fd, 0);
    ut_fd_reserve_stdio();
    fd = ut_fd_release_stdio_and_move(fd);
    cr_assert(fd > 2 && !is_open(0));
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    errno = EMFILE;
    ut_fd_reserve_stdio();
    cr_assert(ut_fd_release_stdio_and_move(-1) == -1 && errno == EMFILE);
    ut_fd_reserve_stdio();
    cr_assert_eq(ut_fd_release_stdio_and_move(low), low);
    /* no number is left above */
    cr_assert_eq(dup(1), 0);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = 3});
    errno = 0;
    cr_assert(ut_fd_release_stdio_and_move(0) == -1 && errno == EINVAL && !is_open(0));
}

Test(util_fd, only_marked_descriptors_are_closed)
{
    int ours = ut_fd_open_ours(open("/dev/null", O_RDONLY)), other = dup(1);

    cr_assert(ut_fd_is_still_ours(ours) && !ut_fd_is_still_ours(other));
    cr_assert(!ut_fd_is_still_ours(-1) && !ut_fd_is_still_ours(1));
    ut_fd_close(other);
    cr_assert(is_open(other));
    dup2(other, ours); /* the program has closed it and opened another file */
    cr_assert(!ut_fd_is_still_ours(ours));
    ut_fd_close(ours);
    cr_assert(is_open(ours));
    cr_assert_eq(ut_fd_mark_ours(ours), ours);
    ut_fd_close(ours);
    cr_assert(!is_open(ours));
    cr_assert_eq(ut_fd_mark_ours(-1), -1);
}

Test(util_fd, closed_descriptors_are_told_once)
{
    FILE *log = tmpfile();
    char text[1000];

    dup2(fileno(log), STDERR_FILENO);
    cr_assert(!ut_fd_check_still_ours(-1) && !ut_fd_were_closed());
    for (int i = 0; i < 2; i++) {
        cr_assert(!ut_fd_check_still_ours(700));
        cr_assert(ut_fd_were_closed());
    }
    rewind(log);
    text[fread(text, 1, sizeof(text) - 1, log)] = '\0';
    char *line = strstr(text, "utofu: error: [rank ?, process] the program has closed descriptors");
    cr_assert(line == text && strchr(text, '\n') == text + strlen(text) - 1, "%s", text);
}

Test(util_fd, size_beyond_the_limit_is_an_error_and_no_signal)
{
    FILE *file = tmpfile();
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};

    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(ut_fd_resize(fileno(file), 4096), 0);
    errno = 0;
    cr_assert(ut_fd_resize(fileno(file), 4097) == -1 && errno == EFBIG);
}

/*
 * Files
 */

static char folder[] = "/tmp/test_util.XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    umask(022);
}

static void remove_folder(void)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(util_file, .init = make_folder, .fini = remove_folder);

static void write_file(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(name, "w");

    fputs(text, file);
    fclose(file);
    cr_assert_eq(chmod(name, mode), 0);
}

static off_t size_of(const char *name)
{
    struct stat st;

    return stat(name, &st) == 0 ? st.st_size : -1;
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 200; fd++)
        n += is_open(fd);
    return n;
}

Test(util_file, is_checked)
{
    char why[UT_FILE_WHY], expected[UT_FILE_WHY];
    int fd;

    write_file("good", "x", 0644);
    fd = ut_file_open(AT_FDCWD, "good");
    cr_assert_eq(ut_file_check(fd, geteuid(), why), 0);
    cr_assert_eq(ut_file_check_private(fd, geteuid(), why), -EPERM);
    cr_assert_str_eq(why, "may be read or written by others (mode 0644)");
    cr_assert_eq(ut_file_check(fd, geteuid() + 1, why), -EPERM);
    snprintf(expected, sizeof(expected), "belongs to user %u, not to user %u", geteuid(),
             geteuid() + 1);
    cr_assert_str_eq(why, expected);
    chmod("good", 0620);
    cr_assert_eq(ut_file_check(fd, geteuid(), why), 0);
    chmod("good", 0602);
    cr_assert_eq(ut_file_check(fd, geteuid(), why), -EPERM);
    cr_assert_str_eq(why, "may be written by everybody (mode 0602)");
    chmod("good", 0600);
    cr_assert_eq(ut_file_check_private(fd, geteuid(), why), 0);
    for (mode_t bit = 1; bit < 0100; bit *= 2) {
        chmod("good", 0600 | bit);
        cr_assert_eq(ut_file_check_private(fd, geteuid(), why), -EPERM, "%o", bit);
    }
    close(fd);
    cr_assert_eq(ut_file_check(fd, geteuid(), why), -EBADF);
    cr_assert_str_eq(why, "Bad file descriptor");
    cr_assert_eq(symlink("good", "link"), 0);
    cr_assert_eq(ut_file_open(AT_FDCWD, "link"), -ELOOP);
    cr_assert_eq(ut_file_open(AT_FDCWD, "none"), -ENOENT);
}

Test(util_file, other_kinds_are_named)
{
    static const char *const kinds[][2] = {
        {"fifo", "is a FIFO"}, {"sub", "is a folder"}, {"/dev/null", "is a device"}};
    char why[UT_FILE_WHY];

    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_assert_eq(mkdir("sub", 0700), 0);
    for (int i = 0; i < 3; i++) {
        int fd = ut_file_open(AT_FDCWD, kinds[i][0]);
        cr_assert_eq(ut_file_check(fd, geteuid(), why), -EPERM);
        cr_assert_str_eq(why, kinds[i][1]);
        close(fd);
    }
}

Test(util_file, is_created_or_emptied)
{
    char why[UT_FILE_WHY] = "";
    unsigned int before = count_descriptors();
    int fd = ut_file_create("new", why);

    cr_assert(fd > 2 && write(fd, "text", 4) == 4);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    cr_assert_eq(size_of("new"), 4);
    fd = ut_file_create("new", why);
    cr_assert(fd > 2 && size_of("new") == 0);
    close(fd);
    cr_assert_eq(symlink("new", "link"), 0);
    cr_assert_eq(ut_file_create("link", why), -ELOOP);
    cr_assert_str_eq(why, "is a symbolic link");
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_assert_eq(ut_file_create("fifo", why), -ENXIO);
    cr_assert_str_eq(why, "is a FIFO");
    cr_assert_eq(mkdir("sub", 0700), 0);
    cr_assert_eq(ut_file_create("sub", why), -EISDIR);
    cr_assert_str_eq(why, strerror(EISDIR));
    cr_assert_eq(ut_file_create("/dev/null", why), -EPERM);
    cr_assert_str_eq(why, "is a device");
    cr_assert_eq(ut_file_create("none/new", why), -ENOENT);
    cr_assert_str_eq(why, strerror(ENOENT));
    if (geteuid() == 0) {
        write_file("other", "text", 0666);
        cr_assert_eq(chown("other", OTHER_UID, OTHER_UID), 0);
        cr_assert_eq(ut_file_create("other", why), -EPERM);
        cr_assert_str_eq(why, "belongs to user 54322, not to user 0");
        cr_assert_eq(size_of("other"), 4);
    }
    cr_assert_eq(count_descriptors(), before, "a refusal leaves nothing open");
}

Test(util_file, output_follows_links_of_this_user)
{
    bool made = false;
    int fd = ut_file_open_output("out", O_TRUNC, &made);

    cr_assert(fd > 2 && made && write(fd, "text", 4) == 4);
    close(fd);
    fd = ut_file_open_output("out", O_APPEND, &made);
    cr_assert(fd > 2 && !made && write(fd, "more", 4) == 4);
    close(fd);
    cr_assert_eq(size_of("out"), 8);
    fd = ut_file_open_output("out", O_TRUNC, NULL);
    cr_assert(fd > 2 && size_of("out") == 0);
    close(fd);
    cr_assert_eq(symlink("behind", "link"), 0);
    fd = ut_file_open_output("link", O_TRUNC, &made);
    cr_assert(fd > 2 && !made && size_of("behind") == 0);
    close(fd);
    if (geteuid() == 0) {
        cr_assert_eq(lchown("link", OTHER_UID, OTHER_UID), 0);
        cr_assert_eq(ut_file_open_output("link", O_TRUNC, &made), -ELOOP);
    }
    cr_assert_eq(ut_file_open_output("none/out", O_TRUNC, &made), -ENOENT);
    fd = ut_file_open_output("/dev/null", O_TRUNC, &made);
    cr_assert(fd > 2 && !made);
    close(fd);
}

Test(util_file, of_a_rank)
{
    static const char *const names[][2] = {{"trace.json", "trace.3.json"},
                                           {"trace", "trace.3"},
                                           {"/a.b/trace", "/a.b/trace.3"},
                                           {"a/.hidden", "a/.hidden.3"},
                                           {".hidden", ".hidden.3"},
                                           {"a.b.c", "a.b.3.c"},
                                           {"x.", "x.3."}};
    static char path[PATH_MAX], pattern[PATH_MAX + 1];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cr_assert_eq(ut_file_of_rank(names[i][0], 3, path), 0);
        cr_assert_str_eq(path, names[i][1]);
    }
    cr_assert_eq(ut_file_of_rank("folder/", 3, path), -EISDIR);
    memset(pattern, 'x', PATH_MAX);
    pattern[PATH_MAX - 2] = '\0'; /* with ".3" a byte too long */
    cr_assert_eq(ut_file_of_rank(pattern, 3, path), -ENAMETOOLONG);
    pattern[PATH_MAX - 3] = '\0';
    cr_assert_eq(ut_file_of_rank(pattern, 3, path), 0);
    cr_assert_eq(strlen(path), PATH_MAX - 1);
}

/*
 * Keys
 */

#define DIGITS "00112233445566778899aAbBcCdDeEfF"

Test(util_file, key_is_read_from_a_private_file)
{
    static const struct {
        const char *text;
        size_t size; /* 0: refused */
    } keys[] = {{DIGITS, 16},
                {DIGITS "\n \n", 16},
                {DIGITS "0", 0},
                {DIGITS "01", 17},
                {"112233445566778899aAbBcCdDeEfF", 0},
                {DIGITS DIGITS DIGITS DIGITS, 64},
                {DIGITS DIGITS DIGITS DIGITS "00", 0},
                {"g0112233445566778899aAbBcCdDeEfF", 0},
                {"0g112233445566778899aAbBcCdDeEfF", 0},
                {"/:112233445566778899aAbBcCdDeEfF", 0},
                {"@G112233445566778899aAbBcCdDeEfF", 0},
                {"`g112233445566778899aAbBcCdDeEfF", 0},
                {"", 0}};
    struct ut_key key;
    char why[UT_FILE_WHY], text[UT_KEY_TEXT], other[UT_KEY_TEXT];
    unsigned int before = count_descriptors();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        write_file("key", keys[i].text, 0600);
        int rc = ut_key_read("key", &key, why);
        cr_assert_eq(rc, keys[i].size ? 0 : -EINVAL, "%s", keys[i].text);
        cr_assert_eq(key.size, keys[i].size);
        if (rc == 0)
            cr_assert(key.bytes[0] == 0 && key.bytes[1] == 0x11 && key.bytes[10] == 0xaa &&
                      key.bytes[15] == 0xff);
        else
            cr_assert_str_eq(why, "does not hold 32 to 128 hexadecimal digits");
    }
    chmod("key", 0640);
    cr_assert_eq(ut_key_read("key", &key, why), -EPERM);
    cr_assert_eq(symlink("key", "link"), 0);
    cr_assert_eq(ut_key_read("link", &key, why), -ELOOP);
    cr_assert_str_eq(why, "is a symbolic link");
    cr_assert_eq(ut_key_read("none", &key, why), -ENOENT);
    cr_assert_str_eq(why, "cannot be read: No such file or directory");
    cr_assert(ut_key_make(text) == 0 && ut_key_make(other) == 0);
    cr_assert(ut_key_parse(text, &key) == 0 && key.size == UT_KEY_MIN);
    cr_assert_str_neq(text, other);
    cr_assert_eq(count_descriptors(), before);
}

/*
 * Threads
 */

static pid_t started;
static char started_name[20];
static bool was_ours, took_signals;

static void *thread_body(void *arg)
{
    sigset_t blocked;

    started = gettid();
    was_ours = ut_thread_is_ours(started);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int signal = 1; signal < 32; signal++)
        took_signals |= signal != SIGKILL && signal != SIGSTOP && !sigismember(&blocked, signal);
    while (arg && !__atomic_load_n((bool *)arg, __ATOMIC_ACQUIRE))
        usleep(100);
    pthread_getname_np(pthread_self(), started_name, sizeof(started_name));
    return arg;
}

Test(util_thread, of_the_library_is_known_while_it_runs)
{
    pthread_t thread;
    void *result;
    bool go = false;
    int status;
    sigset_t before, after;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    cr_assert_eq(ut_thread_create("utofu-name", thread_body, &go, &thread), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signal = 1; signal < 32; signal++)
        cr_assert_eq(sigismember(&before, signal), sigismember(&after, signal));
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
        usleep(100);
    cr_assert(ut_thread_is_ours(started) && !ut_thread_is_ours(getpid()));
    pid_t child = fork();
    if (child == 0)
        _exit(ut_thread_is_ours(started));
    cr_assert(waitpid(child, &status, 0) == child && status == 0, "the child has no such thread");
    cr_assert(ut_thread_is_ours(started));
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert(result == &go && was_ours && !took_signals);
    cr_assert_str_eq(started_name, "utofu-name");
    cr_assert(!ut_thread_is_ours(started));
}

/* More threads than the list has room for, one after the other and at once. */
Test(util_thread, many)
{
    enum { MANY = 80 };
    pthread_t threads[MANY];
    bool go = false;

    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(ut_thread_create(NULL, thread_body, NULL, &threads[0]), 0);
        pthread_join(threads[0], NULL);
        cr_assert(was_ours && !ut_thread_is_ours(started));
    }
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(ut_thread_create(NULL, thread_body, &go, &threads[i]), 0);
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
}

static pid_t start_foreign(bool blocks, bool *go, pthread_t *thread)
{
    sigset_t all, old;

    started = 0;
    sigfillset(&all);
    if (!blocks)
        sigdelset(&all, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    cr_assert_eq(pthread_create(thread, NULL, thread_body, go), 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
        usleep(100);
    return started;
}

/* Threads of a library that this library calls; those that take signals are the program's. */
Test(util_thread, that_another_library_starts_is_adopted)
{
    static struct ut_thread_list before;
    pthread_t threads[3];
    pid_t ids[3];
    bool go = false;

    ids[0] = start_foreign(true, &go, &threads[0]);
    ut_thread_list(&before);
    unsigned int listed = 0;
    for (unsigned int i = 0; i < before.num; i++)
        listed += before.ids[i] == ids[0] || before.ids[i] == getpid();
    cr_assert_eq(listed, 2);
    ids[1] = start_foreign(true, &go, &threads[1]);
    ids[2] = start_foreign(false, &go, &threads[2]);
    ut_thread_adopt(&before);
    cr_assert(!ut_thread_is_ours(ids[0]) && ut_thread_is_ours(ids[1]) &&
              !ut_thread_is_ours(ids[2]));
    before.num = 0; /* the list could not be read */
    ut_thread_adopt(&before);
    cr_assert(!ut_thread_is_ours(ids[0]));
    before.num = UT_THREAD_LIST_MAX; /* there may be more */
    ut_thread_adopt(&before);
    cr_assert(!ut_thread_is_ours(ids[0]));
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void *never_end(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void *write_later(void *arg)
{
    usleep(30000);
    cr_assert_eq(write(*(int *)arg, "x", 1), 1);
    return arg;
}

static void end_with_3(void)
{
    _exit(3); /* before the handlers of the parent */
}

/* main() has called pthread_exit(): the library's thread does not keep the process. */
Test(util_thread, process_ends_with_the_last_thread_of_the_program)
{
    static int ends[2]; /* the stack of main() ends before the thread */
    char byte = 0;
    int status;

    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        atexit(end_with_3);
        if (ut_thread_create(NULL, never_end, NULL, NULL) != 0)
            _exit(9);
        pthread_create(&thread, NULL, write_later, &ends[1]);
        pthread_exit(NULL);
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    cr_assert(byte == 'x' && waitpid(child, &status, 0) == child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/*
 * The last error
 */

static void make_text(const void *data, char *buf, size_t size)
{
    uint64_t numbers[2];

    memcpy(numbers, data, sizeof(numbers));
    snprintf(buf, size, "%llu and %llu", (unsigned long long)numbers[0],
             (unsigned long long)numbers[1]);
}

static void *other_thread(void *arg)
{
    char text[UT_LAST_ERROR_TEXT];

    ut_last_error_get(text, sizeof(text), true);
    cr_assert_str_eq(text, arg);
    ut_last_error_text(UTOFU_ERR_FULL, "of this thread");
    ut_last_error_get(text, sizeof(text), false);
    cr_assert_str_eq(text, "of this thread");
    return NULL;
}

Test(util_last_error, is_that_of_the_thread)
{
    char text[UT_LAST_ERROR_TEXT], code[100], line[] = "a line of the log";
    uint64_t numbers[2] = {7, 8};
    pthread_t thread;

    ut_last_error_get(text, sizeof(text), true);
    cr_assert_str_eq(text, "");
    ut_last_error_begin();
    cr_assert(!ut_last_error_has_text());
    ut_last_error_busy = 5;
    ut_last_error_text(0, "a line of the log");
    cr_assert_eq(ut_last_error_busy, 0);
    cr_assert(ut_last_error_has_text());
    ut_last_error_get(text, sizeof(text), true);
    cr_assert_str_eq(text, "a line of the log");
    ut_last_error_code(UTOFU_ERR_FATAL);
    ut_last_error_get(text, sizeof(text), true);
    snprintf(code, sizeof(code), "UTOFU_ERR_FATAL (%d): a line of the log", UTOFU_ERR_FATAL);
    cr_assert_str_eq(text, code);
    ut_last_error_data(UTOFU_ERR_FULL, make_text, numbers, sizeof(numbers));
    numbers[0] = 9;
    for (int i = 0; i < 2; i++) {
        ut_last_error_get(text, sizeof(text), false);
        cr_assert_str_eq(text, "7 and 8");
    }
    pthread_create(&thread, NULL, other_thread, line);
    pthread_join(thread, NULL);
    ut_last_error_get(text, sizeof(text), false);
    cr_assert_str_eq(text, "7 and 8");
}

/* Without memory for its text; the caller's errno stays in any case. */
Test(util_last_error, needs_memory_for_its_text)
{
    char text[UT_LAST_ERROR_TEXT];
    struct rlimit limit, none;

    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    errno = E2BIG;
    ut_last_error_text(UTOFU_ERR_FULL, "lost");
    int error = errno;
    setrlimit(RLIMIT_AS, &limit);
    cr_assert_eq(error, E2BIG);
    ut_last_error_get(text, sizeof(text), false);
    cr_assert_str_eq(text, "out of memory: there is no room for the text of this error");
    errno = E2BIG;
    ut_last_error_text(UTOFU_ERR_FULL, "kept");
    cr_assert_eq(errno, E2BIG);
    ut_last_error_get(text, sizeof(text), false);
    cr_assert_str_eq(text, "kept");
}

/*
 * Counted lines, delays, codes, hosts
 */

static struct {
    unsigned int count;
    uint64_t times;
    char text[300];
} report;

static void note_report(const char *text, uint64_t times)
{
    report.count++;
    report.times = times;
    snprintf(report.text, sizeof(report.text), "%s", text);
}

Test(util_rate_limit, what_was_not_written_is_reported)
{
    static const char fmt[] = "%s", other[] = "%u";
    char text[300];
    uint64_t times;

    memset(text, 'x', sizeof(text));
    text[200] = '\0';
    ut_rate_limit_for_each(note_report);
    cr_assert_eq(report.count, 0);
    cr_assert(ut_rate_limit_allows(fmt, text, 1000, &times) && times == 1);
    ut_rate_limit_for_each(note_report);
    cr_assert_eq(report.count, 0);
    for (uint64_t i = 2; i <= 11; i++)
        cr_assert(ut_rate_limit_allows(fmt, text, 1000, &times) == (i == 10) && times == i);
    ut_rate_limit_for_each(note_report);
    cr_assert(report.count == 1 && report.times == 11);
    cr_assert(strlen(report.text) == UT_RATE_LIMIT_TEXT && strcmp(report.text + 135, "xx...") == 0);
    /* after a pause it is a new line */
    cr_assert(!ut_rate_limit_allows(fmt, text, 1000 + UT_RATE_LIMIT_PAUSE_MS - 1, &times));
    cr_assert(ut_rate_limit_allows(fmt, text, 999 + 2 * UT_RATE_LIMIT_PAUSE_MS, &times));
    cr_assert_eq(times, 1);
    /* lines that differ */
    report.count = 0;
    for (unsigned int i = 1; i <= 101; i++) {
        snprintf(text, sizeof(text), "line %u", i);
        cr_assert_eq(ut_rate_limit_allows(other, text, 1000, &times),
                     i <= UT_RATE_LIMIT_BURST || i == 100, "%u", i);
    }
    ut_rate_limit_for_each(note_report);
    cr_assert_eq(report.count, 1);
    cr_assert(report.times == 101 && strcmp(report.text, "line 1 (and others like it)") == 0);
    memset(text, 'y', UT_RATE_LIMIT_TEXT + 1);
    text[UT_RATE_LIMIT_TEXT] = '\0';
    ut_rate_limit_shorten(text);
    cr_assert(strlen(text) == UT_RATE_LIMIT_TEXT && !strchr(text, '.'));
}

Test(util_back_off, delays)
{
    uint64_t ms = 0;
    uint32_t rounds = UINT32_MAX - 3 * UT_BACK_OFF_YIELDS;

    for (int i = 0; i < 10; i++) {
        ms = ut_retry_delay_next_ms(ms, 3, 100);
        cr_assert_eq(ms, i < 6 ? 3u << i : 100);
        cr_assert_eq(ut_retry_delay_nth_ms((unsigned int)i, 3, 100), ms);
    }
    cr_assert_eq(ut_retry_delay_nth_ms(31, 1, UINT64_MAX), 1ull << 31);
    cr_assert_eq(ut_retry_delay_nth_ms(32, 1, 7), 7);
    bool least = false, largest = false;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t jitter = ut_retry_delay_jitter_ms(10, i * 0x123456789abcdef);
        cr_assert(jitter >= 10 && jitter <= 15);
        least |= jitter == 10;
        largest |= jitter == 15;
    }
    cr_assert(least && largest);
    /* the counter of a wait that takes years does not begin again */
    for (int i = 0; i < 5; i++)
        ut_back_off(&rounds);
    cr_assert_gt(rounds, 1u << 31);
    errno = E2BIG;
    for (rounds = 0; rounds < UT_BACK_OFF_SPINS + UT_BACK_OFF_YIELDS + 2;)
        ut_back_off(&rounds);
    cr_assert_eq(errno, E2BIG);
}

Test(util_codes, are_found_by_name_and_number)
{
    static const char *const texts[] = {"UTOFU_ERR_FULL", "full", "ERR_FULL", "utofu_err_full"};
    char number[20];

    for (int i = 0; i < 4; i++)
        cr_assert(ut_code_find(texts[i]) && ut_code_find(texts[i])->number == UTOFU_ERR_FULL);
    snprintf(number, sizeof(number), "%d", UTOFU_ERR_FULL);
    cr_assert(ut_code_find(number) && ut_code_find(number)->number == UTOFU_ERR_FULL);
    cr_assert(ut_code_find(number + 1)->number == UTOFU_ERR_FULL, "without its sign");
    cr_assert(!ut_code_find("") && !ut_code_find("1x") && !ut_code_find("99999999999"));
    cr_assert(!ut_code_find("fullness") && !ut_code_of(7777));
    cr_assert_str_eq(ut_code_name(UTOFU_ERR_FULL), "UTOFU_ERR_FULL");
    cr_assert_str_eq(ut_code_name(7777), "unknown code");
}

Test(util_host, is_the_same_for_all_its_processes)
{
    struct ut_host host, again;
    struct stat pid, net;

    if (ut_host_read(&host) != 0)
        return;
    cr_assert_eq(ut_host_read(&again), 0);
    cr_assert(host.hash == again.hash && host.boot == again.boot && host.hash != 0);
    cr_assert(stat("/proc/self/ns/pid", &pid) == 0 && stat("/proc/self/ns/net", &net) == 0);
    cr_assert(host.pid_ns == (uint32_t)pid.st_ino && host.net_ns == (uint32_t)net.st_ino);
}
