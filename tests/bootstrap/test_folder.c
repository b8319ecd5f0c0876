/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address records in files of a folder (UTOFU_ROOT=/folder), with processes that this test starts,
 * commands and kills, and files that it damages.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "bootstrap/folder.h"
#include "bootstrap/job.h"

/* Where the fields of a file stand. */
enum { AT_MAGIC = 0, AT_RECORD_SIZE = 6, AT_RANK = 8, AT_SIZE = 12, AT_HOST = 16, HEAD = 96 };

static char folder[] = "/tmp/test_folder.XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    signal(SIGPIPE, SIG_IGN);
}

static void remove_folder(void)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(folder, .init = make_folder, .fini = remove_folder);

static int link_error, rename_error; /* of the C library's functions, which these replace */

int link(const char *from, const char *to)
{
    if (link_error == 0)
        return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = link_error;
    return -1;
}

int rename(const char *from, const char *to)
{
    if (rename_error == 0)
        return renameat(AT_FDCWD, from, AT_FDCWD, to);
    errno = rename_error;
    return -1;
}

static const char *path_of(const char *name)
{
    static char path[2][256];
    static unsigned int i;
    char *p = path[i++ % 2];

    snprintf(p, 256, "%s/%s", folder, name);
    return p;
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void write_at(const char *name, off_t at, const void *bytes, size_t size)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);

    cr_assert(fd >= 0);
    cr_assert_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
    close(fd);
}

/*
 * Processes
 */

struct job {
    uint32_t size, step;
    bool several_machines;
    const char *key;
};

struct answer {
    int rc;
    uint32_t mark;
    size_t size;
    char record[UT_JOB_RECORD_MAX], text[600];
};

struct process {
    pid_t pid;
    int to, from;
};

/* The folder of descriptors that count_descriptors() itself opens is among them. */
static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* As a program may that closes what it does not know. */
static void close_folders(void)
{
    struct stat st;

    for (int fd = 3; fd < 100; fd++)
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
            close(fd);
}

static void obey(char command, uint32_t arg, struct answer *a)
{
    if (command == 'p')
        a->rc = ut_job_folder_publish(a->text, arg);
    else if (command == 'l')
        a->rc = ut_job_folder_lookup(arg, a->record, &a->size);
    else if (command == 'm')
        a->mark = ut_job_folder_mark();
    else if (command == 'e')
        ut_job_folder_explain_absence(arg, a->text, sizeof(a->text));
    else if (command == 'd')
        a->rc = count_descriptors();
    else if (command == 'c')
        close_folders();
    else if (command == 'L')
        link_error = (int)arg;
    else if (command == 'R')
        rename_error = (int)arg;
    else if (command == 'x')
        exit(0);
}

static void run_process(uint32_t rank, const struct job *job, int in, int out)
{
    struct ut_key key = {.size = 0};
    struct answer a;
    struct {
        char command;
        uint32_t arg;
    } order;

    if (job->key) {
        key.size = strlen(job->key);
        memcpy(key.bytes, job->key, key.size);
    }
    ut_job_folder_open(folder, rank, job->size, !job->several_machines, &key, job->step);
    do {
        memset(&a, 0, sizeof(a));
        snprintf(a.text, sizeof(a.text), "record of %u, and so on", rank);
        if (read(in, &order, sizeof(order)) != sizeof(order))
            _exit(1);
        obey(order.command, order.arg, &a);
    } while (write(out, &a, sizeof(a)) == sizeof(a));
    _exit(2);
}

static struct answer tell(const struct process *p, char command, uint32_t arg)
{
    struct {
        char command;
        uint32_t arg;
    } order;
    struct answer a;
    size_t got = 0;

    memset(&order, 0, sizeof(order));
    order.command = command;
    order.arg = arg;
    cr_assert_eq(write(p->to, &order, sizeof(order)), (ssize_t)sizeof(order));
    while (got < sizeof(a)) {
        ssize_t n = read(p->from, (char *)&a + got, sizeof(a) - got);
        cr_assert(n > 0, "the process has ended");
        got += (size_t)n;
    }
    return a;
}

/* The C library's function: another process writes meanwhile, if the test says so. */
static const uint32_t *written_later;
static unsigned int num_pauses;

static void write_job_file(const uint32_t words[2])
{
    char path[64];

    snprintf(path, sizeof(path), "%s/utofu.job", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    cr_assert_eq(write(fd, words ? words : (const uint32_t[2]){0}, words ? 8 : 0), words ? 8 : 0);
    close(fd);
}

int usleep(useconds_t us)
{
    if (written_later) {
        if (us != 2000)
            _exit(2);
        if (++num_pauses == 3)
            write_job_file(written_later);
    }
    return nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static struct process start(uint32_t rank, const struct job *job)
{
    int to[2], from[2];
    struct process p;

    cr_assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    p.pid = fork();
    if (p.pid == 0) {
        close(to[1]);
        close(from[0]);
        run_process(rank, job, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    p.to = to[1];
    p.from = from[0];
    tell(&p, 'e', 0); /* it has opened the folder */
    return p;
}

enum { RECORD = 20 };

static struct process join(uint32_t rank, const struct job *job)
{
    struct process p = start(rank, job);

    cr_assert_eq(tell(&p, 'p', RECORD).rc, 0);
    return p;
}

static void end(const struct process *p, bool killed)
{
    struct {
        char command;
        uint32_t arg;
    } order;
    int status;

    memset(&order, 0, sizeof(order));
    order.command = 'x';
    if (killed)
        kill(p->pid, SIGKILL);
    else
        cr_assert_eq(write(p->to, &order, sizeof(order)), (ssize_t)sizeof(order));
    cr_assert_eq(waitpid(p->pid, &status, 0), p->pid);
    cr_assert_eq(status, killed ? SIGKILL : 0);
    close(p->to);
    close(p->from);
}

static int look_up(const struct process *p, uint32_t rank)
{
    struct answer a = tell(p, 'l', rank);
    char want[64];

    snprintf(want, sizeof(want), "record of %u, and so on", rank);
    if (a.rc == 0)
        cr_assert(a.size == RECORD && memcmp(a.record, want, RECORD) == 0);
    return a.rc;
}

static const char *explain(const struct process *p, uint32_t rank)
{
    static struct answer a;

    a = tell(p, 'e', rank);
    return a.text;
}

/*
 * A job
 */

static const struct job two = {.size = 2}, with_key = {.size = 2, .key = "secret"};

static void check_job(const struct job *job)
{
    struct process a = join(0, job);

    cr_assert_eq(look_up(&a, 1), -EAGAIN);
    cr_assert_not_null(strstr(explain(&a, 1), "has not called the library yet"));
    struct process b = join(1, job);
    cr_assert_eq(look_up(&a, 1), 0);
    cr_assert_eq(look_up(&b, 0), 0);
    uint32_t mark = tell(&a, 'm', 0).mark;
    cr_assert(mark > 0 && mark < 1024);
    cr_assert_eq(tell(&b, 'm', 0).mark, mark);
    cr_assert(is_there("utofu.job"));
    end(&a, false);
    cr_assert(is_there("utofu.0"), "others may not have read it");
    cr_assert_eq(look_up(&b, 0), 0);
    end(&b, false);
    cr_assert(!is_there("utofu.0") && !is_there("utofu.1") && !is_there("utofu.job"));
    cr_assert_eq(rmdir(folder), 0, "nothing is left");
    cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(folder, processes_find_each_other_and_leave_nothing)
{
    check_job(&two);
}
Test(folder, and_with_a_key)
{
    check_job(&with_key);
}

Test(folder, record_of_a_killed_process_stays_while_the_job_runs)
{
    struct process a = join(0, &two), b = join(1, &two);

    end(&b, true);
    cr_assert_eq(look_up(&a, 1), 0);
    struct process c = start(1, &two); /* started again */
    cr_assert_eq(tell(&c, 'p', RECORD).rc, 0);
    cr_assert_eq(look_up(&a, 1), 0);
    end(&a, true);
    end(&c, true);
    cr_assert(is_there("utofu.0") && is_there("utofu.1"));
    struct process d = start(0, &two);
    cr_assert_eq(look_up(&d, 1), -EAGAIN, "of an earlier job");
    cr_assert(!is_there("utofu.0") && !is_there("utofu.1"));
    cr_assert_not_null(strstr(explain(&d, 1), "and has ended; no process has replaced it"));
    cr_assert_not_null(strstr(explain(&d, 7), "has not called the library yet"));
    end(&d, false);
}

Test(folder, rank_is_taken_once)
{
    struct process a = join(0, &two), b = start(0, &two);

    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EEXIST);
    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EEXIST, "and leaves nothing behind");
    end(&b, false);
    cr_assert(is_there("utofu.0"));
    end(&a, false);
    cr_assert(!is_there("utofu.0"));
}

/*
 * Files that are not used
 */

Test(folder, keys_are_compared)
{
    static const struct job other_key = {.size = 2, .key = "secre7"}, none = {.size = 2};
    struct process a = join(0, &with_key), b = start(1, &other_key), c = start(1, &none);

    cr_assert_eq(look_up(&b, 0), -EACCES);
    cr_assert_eq(look_up(&c, 0), -EACCES);
    cr_assert_eq(tell(&c, 'p', RECORD).rc, 0);
    cr_assert_eq(look_up(&a, 1), -EACCES, "without a key");
    end(&a, false);
    end(&b, false);
    end(&c, false);
}

Test(folder, each_byte_of_a_file_with_a_key_is_checked)
{
    struct process a = join(0, &with_key), b = start(1, &with_key);
    int fd = open(path_of("utofu.0"), O_RDWR);
    struct stat st;
    uint8_t byte, other;

    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    cr_assert_eq(st.st_size, HEAD + RECORD + 32);
    for (off_t i = 0; i < st.st_size; i++) {
        cr_assert_eq(pread(fd, &byte, 1, i), 1);
        other = byte ^ 0x10;
        cr_assert_eq(pwrite(fd, &other, 1, i), 1);
        cr_assert(look_up(&b, 0) < 0, "byte %d", (int)i);
        cr_assert_eq(pwrite(fd, &byte, 1, i), 1);
    }
    cr_assert_eq(look_up(&b, 0), 0);
    close(fd);
    end(&a, false);
    end(&b, false);
}

Test(folder, incomplete_and_longer_files_are_refused)
{
    struct process a = join(0, &two), b = start(1, &two);

    cr_assert_eq(truncate(path_of("utofu.0"), HEAD + RECORD + 1), 0);
    cr_assert_eq(look_up(&b, 0), -EPROTO);
    for (int size = HEAD + RECORD - 1; size > 0; size--) {
        cr_assert_eq(truncate(path_of("utofu.0"), size), 0);
        cr_assert_eq(look_up(&b, 0), -EPROTO, "%d", size);
    }
    cr_assert_eq(truncate(path_of("utofu.0"), 0), 0);
    cr_assert_eq(look_up(&b, 0), -EAGAIN, "nothing is written yet");
    end(&a, false);
    end(&b, false);
}

Test(folder, files_of_other_jobs_are_refused)
{
    static const struct job three = {.size = 3};
    struct process a = join(0, &two), b = start(1, &three);

    cr_assert_eq(look_up(&b, 0), -EPROTO, "another size");
    end(&b, false);
    b = start(1, &two);
    cr_assert_eq(look_up(&b, 0), 0);
    write_at("utofu.0", AT_RANK, "\1", 1);
    cr_assert_eq(look_up(&b, 0), -EPROTO, "another rank");
    write_at("utofu.0", AT_RANK, "\0", 1);
    write_at("utofu.0", AT_MAGIC + 3, "3", 1);
    cr_assert_eq(look_up(&b, 0), -EPROTO, "another version");
    end(&a, false);
    end(&b, false);
}

Test(folder, files_that_others_may_write_are_refused)
{
    struct process a = join(0, &two), b = start(1, &two);

    cr_assert_eq(chmod(path_of("utofu.0"), 0602), 0);
    cr_assert_eq(look_up(&b, 0), -EPERM);
    cr_assert_eq(chmod(path_of("utofu.0"), 0600), 0);
    cr_assert_eq(look_up(&b, 0), 0);
    cr_assert_eq(symlink("utofu.0", path_of("utofu.1")), 0);
    cr_assert_eq(look_up(&a, 1), -ELOOP);
    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EPERM, "nor replaced");
    cr_assert_eq(unlink(path_of("utofu.1")), 0);
    cr_assert_eq(mkfifo(path_of("utofu.1"), 0600), 0);
    cr_assert_eq(look_up(&a, 1), -EPERM);
    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EPERM);
    cr_assert_eq(unlink(path_of("utofu.1")), 0);
    end(&a, false);
    end(&b, false);
}

/* A living process whose file has the boot id of another host. */
Test(folder, process_of_another_machine)
{
    static const struct job several = {.size = 2, .several_machines = true};
    struct process a = join(0, &two), b = start(1, &two), c = start(1, &several);

    write_at("utofu.0", AT_HOST, "other", 5);
    cr_assert_eq(look_up(&b, 0), -EXDEV);
    cr_assert_eq(look_up(&c, 0), 0);
    end(&a, true);
    cr_assert_eq(look_up(&c, 0), -EAGAIN, "of that machine, and perhaps of an earlier job");
    cr_assert_not_null(strstr(explain(&c, 0), "or one of an earlier job in this folder"));
    end(&b, false);
    cr_assert(is_there("utofu.0"), "the other machine removes it");
    end(&c, false);
}

/*
 * Calls that fail
 */

Test(folder, names_are_given_without_hard_links)
{
    struct process a = start(0, &two), b = start(1, &two), c = start(1, &two);

    tell(&a, 'L', EPERM);
    cr_assert_eq(tell(&a, 'p', RECORD).rc, 0);
    cr_assert_eq(look_up(&b, 0), 0);
    tell(&b, 'L', EPERM);
    tell(&b, 'R', EIO);
    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EIO);
    cr_assert_eq(look_up(&a, 1), -EAGAIN);
    cr_assert_eq(tell(&c, 'p', RECORD).rc, 0);
    end(&a, false);
    end(&b, false);
    end(&c, false);
    cr_assert_eq(rmdir(folder), 0, "nothing is left");
    cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(folder, that_is_gone_is_told)
{
    struct process a = start(0, &two);

    cr_assert_eq(rmdir(folder), 0);
    cr_assert_eq(tell(&a, 'p', RECORD).rc, -ENOENT);
    end(&a, false);
    cr_assert_eq(mkdir(folder, 0700), 0);
}

/* The file goes at the end, though nothing says any more whether others run. */
Test(folder, program_that_closes_descriptors_leaves_nothing)
{
    struct process a = join(0, &two);

    tell(&a, 'c', 0);
    end(&a, false);
    cr_assert(!is_there("utofu.0"));
}

/* One for the folder, and one for the process's file. */
Test(folder, descriptors_are_closed)
{
    struct process a = start(0, &two), b;
    int alone = tell(&a, 'd', 0).rc; /* others have pipes of this test, too */

    cr_assert_eq(tell(&a, 'p', RECORD).rc, 0);
    cr_assert_eq(tell(&a, 'd', 0).rc, alone + 1);
    b = start(0, &two);
    int before = tell(&b, 'd', 0).rc;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tell(&b, 'p', RECORD).rc, -EEXIST);
        cr_assert_eq(look_up(&b, 1), -EAGAIN);
        cr_assert_eq(look_up(&b, 0), 0);
        tell(&b, 'm', 0);
    }
    cr_assert_eq(tell(&b, 'd', 0).rc, before);
    cr_assert_eq(mkfifo(path_of("utofu.1"), 0600), 0);
    cr_assert_eq(look_up(&b, 1), -EPERM);
    end(&a, true);
    end(&b, true);
    cr_assert_eq(rename(path_of("utofu.1"), path_of("utofu.2")), 0);
    b = start(2, &two); /* one file is removed, and one is not used */
    cr_assert(!is_there("utofu.0") && is_there("utofu.2"));
    cr_assert_eq(tell(&b, 'd', 0).rc, alone);
    cr_assert_eq(tell(&b, 'p', RECORD).rc, -EPERM);
    cr_assert_eq(tell(&b, 'd', 0).rc, alone);
    end(&b, false);
}

/*
 * What is removed at the start
 */

static void touch(const char *name)
{
    write_at(name, 0, "x", 1);
}

static const struct {
    const char *name;
    bool is_ours;
} names[] = {{"utofu.7", true},      {"utofu.12345", true},     {"utofu.7.123.new", true},
             {"utofu.7.new", false}, {"utofu.", false},         {"utofu.7.x.new", false},
             {"utofu.7a", false},    {"xutofu.7", false},       {"utofu.7.123.newer", false},
             {"utofu7", false},      {"utofu.7.123.ne", false}, {"utofu.x", false}};

static void check_removed(bool several_machines)
{
    const struct job job = {.size = 9, .several_machines = several_machines};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        touch(names[i].name);
    touch("utofu.job");
    struct process a = start(0, &job);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_eq(is_there(names[i].name), several_machines || !names[i].is_ours, "%s",
                     names[i].name);
    cr_assert_eq(is_there("utofu.job"), several_machines);
    end(&a, false);
}

Test(folder, incomplete_files_of_this_library_are_removed)
{
    check_removed(false);
}
Test(folder, or_stay_where_they_may_be_of_another_machine)
{
    check_removed(true);
}

/*
 * Steps of a launcher
 */

Test(folder, records_of_a_step_stay_until_all_have_joined)
{
    static const struct job step = {.size = 3, .step = 77}, next = {.size = 3, .step = 78};
    struct process a = join(1, &step);

    end(&a, false);
    cr_assert(is_there("utofu.1"), "others have not joined");
    struct process b = join(0, &step);
    cr_assert_eq(look_up(&b, 1), 0, "it has ended");
    cr_assert_eq(look_up(&b, 2), -EAGAIN);
    end(&b, true);
    struct process c = join(2, &step);
    cr_assert_eq(look_up(&c, 0), 0);
    cr_assert_eq(look_up(&c, 1), 0);
    end(&c, false);
    cr_assert(!is_there("utofu.0") && !is_there("utofu.1") && !is_there("utofu.2"));
    cr_assert(!is_there("utofu.job"));
    a = join(1, &step);
    end(&a, true);
    struct process d = start(0, &next);
    cr_assert_eq(look_up(&d, 1), -EAGAIN, "of the step before");
    end(&d, false);
}

/* The mark of the job is that of the file, which another process may just be writing. */
Test(folder, mark_is_read_when_it_is_written)
{
    static const uint32_t marks[][2] = {{1, 1}, {1023, 1023}, {1024, 1}, {2048 + 1013, 1013}};

    for (unsigned int i = 0; i < 4; i++) {
        uint32_t words[2] = {htole32(0x34465455), htole32(marks[i][0])};
        pid_t child = fork();
        if (child == 0) {
            ut_job_folder_open(folder, 1, 2, true, &(struct ut_key){.size = 0}, 0);
            write_job_file(NULL);
            written_later = words;
            _exit(ut_job_folder_mark() == marks[i][1] && num_pauses == 3 ? 0 : 1);
        }
        int status;
        cr_assert(waitpid(child, &status, 0) == child && status == 0, "%u", i);
    }
}
