/* SPDX-License-Identifier: Apache-2.0 */
/* The table that the processes of a node share in the check mode: visibility of entries, and the
 * remains of killed processes. The test is the process of local rank 0. */
#include "check/table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "bootstrap/job.h"
#include "desc/desc.h"

enum { SIZE = 3, BUCKET = 5, BUCKETS = 256 /* 64 for each process, and a power of two */ };

static struct ut_job_info job_of(uint32_t local_rank)
{
    return (struct ut_job_info){.id = "test",
                                .rank = local_rank,
                                .size = SIZE,
                                .local_rank = local_rank,
                                .local_size = SIZE};
}

static uint32_t pid, fd;

static void make(void)
{
    const struct ut_job_info job = job_of(0);

    ut_table_create(&job);
    ut_table_place(&pid, &fd);
    cr_assert_eq(pid, (uint32_t)getpid());
}

TestSuite(table, .init = make);

static uint32_t enter_into(uint32_t bucket, uint64_t number)
{
    const struct ut_table_comm comm = {.number = number, .kind = UT_DESC_PUT, .length = 8};

    return ut_table_enter(&comm, &bucket, 1);
}

static uint32_t enter(uint64_t number)
{
    return enter_into(BUCKET, number);
}

struct sum {
    unsigned int seen, held;
    uint64_t numbers;
};

static bool count(const struct ut_table_found *found, void *arg)
{
    struct sum *sum = arg;

    sum->seen++;
    sum->held += ut_table_is_held(found);
    sum->numbers += found->comm.number;
    return false;
}

static struct sum look_into(uint32_t bucket)
{
    struct sum sum = {0};

    ut_table_find(bucket, count, &sum);
    return sum;
}

static struct sum look(void)
{
    return look_into(BUCKET);
}

/* A process of this local rank that enters n communications, and waits to be killed. */
static pid_t begin(uint32_t local_rank, unsigned int n)
{
    const struct ut_job_info job = job_of(local_rank);
    int ready[2];
    char byte = 0;

    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
        if (ut_table_open(&job, pid, fd) != 0)
            _exit(1);
        for (unsigned int i = 1; i <= n; i++)
            if (enter(i) == 0)
                _exit(2);
        if (write(ready[1], &byte, 1) != 1)
            _exit(3);
        for (;;)
            pause();
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* The findings of a process of local rank 2, returned in its exit status. */
static struct sum look_from_another(void)
{
    const struct ut_job_info job = job_of(2);
    struct sum sum = {0};
    int result[2];

    cr_assert_eq(pipe(result), 0);
    pid_t child = fork();
    if (child == 0) {
        if (ut_table_open(&job, pid, fd) == 0)
            sum = look();
        _exit(write(result[1], &sum, sizeof(sum)) != sizeof(sum));
    }
    cr_assert_eq(read(result[0], &sum, sizeof(sum)), (ssize_t)sizeof(sum));
    cr_assert_eq(waitpid(child, NULL, 0), child);
    close(result[0]);
    close(result[1]);
    return sum;
}

Test(table, entries_of_others_are_seen)
{
    cr_expect_not(ut_table_is_shared());
    pid_t child = begin(1, 2);
    struct sum sum = look();

    cr_expect(ut_table_is_shared());
    cr_expect(sum.seen == 2 && sum.held == 2 && sum.numbers == 3);
    cr_expect_neq(enter(10), 0);
    cr_expect_eq(look().seen, 2, "the own one is not");
    cr_expect_eq(look_from_another().numbers, 13);
    end(child);
}

Test(table, those_of_the_dead_do_not_count)
{
    pid_t child = begin(1, 2);

    cr_expect_eq(look().held, 2);
    end(child);
    cr_expect_eq(look().held, 0);
    cr_expect_eq(look().seen, 2);
}

Test(table, what_has_left_is_not_seen)
{
    uint32_t first = enter(1), second = enter(2);

    cr_expect(first && second && first != second);
    cr_expect_eq(look_from_another().numbers, 3);
    ut_table_leave(first);
    cr_expect_eq(look_from_another().numbers, 2);
    cr_expect_eq(enter(4), first, "its entry is used again");
    cr_expect_eq(look_from_another().numbers, 6);
}

Test(table, a_full_bucket_has_room_where_the_dead_were)
{
    pid_t child = begin(1, UT_TABLE_REFS);
    uint32_t without = enter(100);

    cr_expect_neq(without, 0);
    cr_expect_eq(look_from_another().numbers, UT_TABLE_REFS * (UT_TABLE_REFS + 1) / 2);
    ut_table_leave(without);
    end(child);
    uint32_t with = enter(100);
    cr_expect_eq(look_from_another().held, 1);
    ut_table_leave(with);
    cr_expect_eq(look_from_another().held, 0);
}

Test(table, one_of_the_same_rank_begins_with_nothing)
{
    end(begin(1, UT_TABLE_REFS));
    pid_t again = begin(1, 1);
    struct sum sum = look();

    cr_expect(sum.seen == 1 && sum.held == 1 && sum.numbers == 1);
    cr_expect_neq(enter(100), 0);
    cr_expect_eq(look_from_another().held, 2, "there is room");
    end(again);
}

/* All entries of a process of local rank 1, each of a bucket that has room, from this one on. */
static void enter_all_and_be_killed(uint32_t bucket)
{
    const struct ut_job_info job = job_of(1);
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (ut_table_open(&job, pid, fd) != 0)
            _exit(1);
        for (uint32_t i = 0; i < UT_TABLE_ENTRIES; i++)
            if (enter_into(bucket + i / UT_TABLE_REFS, 1) == 0)
                _exit(2);
        raise(SIGKILL);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

Test(table, no_entry_of_an_earlier_one_is_left)
{
    const uint32_t last = BUCKETS - 1, places = UT_TABLE_ENTRIES / UT_TABLE_REFS;
    unsigned int seen = 0;

    enter_all_and_be_killed(BUCKETS - places); /* to the end of the table */
    enter_all_and_be_killed(0);
    for (uint32_t bucket = 0; bucket <= last; bucket++) {
        unsigned int here = look_into(bucket).seen;
        cr_expect_eq(here, bucket < places ? UT_TABLE_REFS : 0, "bucket %u", bucket);
        seen += here;
    }
    cr_expect_eq(seen, UT_TABLE_ENTRIES);
}

Test(table, a_full_bucket_takes_nothing_of_the_next)
{
    pid_t child = begin(1, UT_TABLE_REFS + 1);

    cr_expect_eq(look().seen, UT_TABLE_REFS);
    cr_expect_eq(look_into(BUCKET + 1).seen, 0);
    end(child);
}

/* Hashes are shared out among all buckets. */
Test(table, each_bucket_is_used)
{
    bool used[BUCKETS] = {false};
    unsigned int num = 0;

    for (uint64_t hash = 0; hash < BUCKETS; hash++) {
        uint32_t bucket = ut_table_bucket(hash << 32);
        cr_assert_lt(bucket, BUCKETS);
        num += !used[bucket];
        used[bucket] = true;
    }
    cr_expect_eq(num, BUCKETS);
}

Test(table, a_process_has_so_many_entries)
{
    uint32_t entry = 0;

    for (unsigned int i = 0; i < UT_TABLE_ENTRIES; i++)
        cr_assert_neq(entry = enter(i), 0);
    cr_expect_eq(enter(0), 0);
    ut_table_leave(entry);
    cr_expect_eq(enter(0), entry);
}

/* The references in the bucket, which any process of the node can write: those of 16 entries that
 * this process, of local rank 0, has just entered. */
static uint32_t *map_references(void)
{
    uint32_t size = (uint32_t)lseek((int)fd, 0, SEEK_END), want[UT_TABLE_REFS];
    uint8_t *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);

    cr_assert_neq(all, MAP_FAILED);
    for (uint32_t i = 0; i < UT_TABLE_REFS; i++)
        want[i] = enter(1);
    uint32_t *refs = memmem(all, size, want, sizeof(want));
    cr_assert_not_null(refs);
    return refs;
}

Test(table, references_to_no_entry_are_left_out_and_give_way)
{
    uint32_t *refs = map_references();

    for (uint32_t i = 0; i < UT_TABLE_REFS; i++)
        refs[i] = UINT32_MAX >> i / 2 | SIZE * UT_TABLE_ENTRIES;
    cr_expect_eq(look_from_another().seen, 0);
    for (uint32_t i = 0; i < UT_TABLE_REFS; i++)
        cr_expect_neq(enter(10), 0);
    cr_expect_eq(look_from_another().numbers, 10 * UT_TABLE_REFS);
}

/* Data that each process can write into its own entries. */
static void enter_as_another(const struct ut_table_comm *comm)
{
    const struct ut_job_info other = job_of(1);
    const uint32_t bucket = BUCKET;
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(ut_table_open(&other, pid, fd) != 0 || ut_table_enter(comm, &bucket, 1) == 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

static bool keep_name(const struct ut_table_found *found, void *arg)
{
    memcpy(arg, found->comm.name, UT_TABLE_NAME);
    return true;
}

Test(table, only_communications_that_can_be_are_seen)
{
    struct ut_table_comm comm = {.kind = UT_DESC_ARMW, .length = UT_MAX_PUTGET};

    enter_as_another(&comm);
    cr_expect_eq(look().seen, 1);
    comm.kind++;
    enter_as_another(&comm);
    cr_expect_eq(look().seen, 0);
    comm.kind = UT_DESC_NOP;
    enter_as_another(&comm);
    cr_expect_eq(look().seen, 0);
    comm = (struct ut_table_comm){.kind = UT_DESC_PUT, .length = UT_MAX_PUTGET + 1};
    enter_as_another(&comm);
    cr_expect_eq(look().seen, 0);
    comm.length = 0;
    enter_as_another(&comm);
    cr_expect_eq(look().seen, 0);
}

Test(table, names_begin_no_lines)
{
    struct ut_table_comm comm = {.kind = UT_DESC_PUT, .length = 8, .name = "a\n\x1b\x7f\xc3\xa4"};
    char name[UT_TABLE_NAME];

    enter_as_another(&comm);
    cr_assert(ut_table_find(BUCKET, keep_name, name));
    cr_expect_str_eq(name, "a???\xc3\xa4");
    memset(comm.name, 'x', sizeof(comm.name));
    enter_as_another(&comm);
    cr_assert(ut_table_find(BUCKET, keep_name, name));
    cr_expect_eq(strnlen(name, sizeof(name)), UT_TABLE_NAME - 1);
}

/* In a process of its own, which then has another table. */
static int open_as(const struct ut_job_info *job, uint32_t its_pid, uint32_t its_fd)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(-ut_table_open(job, its_pid, its_fd));
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(table, only_a_table_of_this_job_is_opened)
{
    struct ut_job_info other = job_of(1);
    int files[] = {open("/proc/self/exe", O_RDONLY | O_CLOEXEC), dup((int)fd)};

    cr_expect_eq(open_as(&other, pid, fd), 0);
    cr_expect_neq(open_as(&other, pid, (uint32_t)files[0]), 0);
    cr_expect_eq(open_as(&other, pid, (uint32_t)files[1]), ENOENT, "another descriptor");
    cr_expect_eq(open_as(&other, pid, 1000), ENOENT);
    other.id[0]++;
    cr_expect_eq(open_as(&other, pid, fd), ENOENT, "another job");
    other = job_of(1);
    other.size++;
    cr_expect_eq(open_as(&other, pid, fd), ENOENT, "another size");
}

/* Makes the file begin and end like the table, and tries to open it. */
static int open_copy(int file)
{
    const struct ut_job_info other = job_of(1);
    struct {
        uint8_t before[36];
        uint32_t fd;
    } header; /* the table knows the number of its descriptor */
    off_t size = lseek((int)fd, 0, SEEK_END);

    cr_assert(file >= 0 && (lseek(file, 0, SEEK_END) == size || ftruncate(file, size) == 0));
    cr_assert_eq(pread((int)fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
    cr_assert_eq(header.fd, fd);
    header.fd = (uint32_t)file;
    cr_assert_eq(pwrite(file, &header, sizeof(header), 0), (ssize_t)sizeof(header));
    return open_as(&other, pid, (uint32_t)file);
}

/* Somebody may shorten other files. */
Test(table, only_sealed_memory_is_opened)
{
    const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
    FILE *on_disk = tmpfile();
    int sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert_not_null(on_disk);
    cr_expect_eq(open_copy(fileno(on_disk)), ENOENT);
    cr_expect_eq(open_copy(sealed), ENOENT);
    cr_assert_eq(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    cr_expect_eq(open_copy(sealed), ENOENT, "it may grow");
    cr_assert_eq(fcntl(sealed, F_ADD_SEALS, all), 0);
    cr_expect_eq(open_copy(sealed), 0);
    fclose(on_disk);
    close(sealed);
}

/* The last page of the table of 31 processes is whole: nothing behind it is read. */
Test(whole_pages, process_comes_again)
{
    struct ut_job_info job = {.id = "pages", .size = 31, .local_size = 31};

    ut_table_create(&job);
    ut_table_place(&pid, &fd);
    size_t size = (size_t)lseek((int)fd, 0, SEEK_END);
    cr_assert_eq(size % (size_t)sysconf(_SC_PAGESIZE), 0);
    for (int i = 0; i < 64; i++) /* fills gaps: the next mapping begins below one of these */
        cr_assert_neq(mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
    job.rank = job.local_rank = 1;
    cr_expect_eq(open_as(&job, pid, fd), 0);
    cr_expect_eq(open_as(&job, pid, fd), 0);
}

static unsigned int count_mappings(void)
{
    char line[512];
    unsigned int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    cr_assert_not_null(maps);
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, "utofu-check") != NULL;
    fclose(maps);
    return n;
}

Test(table, table_of_another_job_is_not_kept)
{
    struct ut_job_info other = job_of(1);
    unsigned int before = count_mappings();

    other.id[0]++;
    cr_expect_eq(ut_table_open(&other, pid, fd), -ENOENT);
    cr_expect_eq(count_mappings(), before);
}

/* Living processes that have opened the table. */
Test(table, process_of_a_rank_is_found)
{
    pid_t child = begin(1, 1);

    cr_expect_eq(ut_table_pid_of(1), child);
    cr_expect_eq(ut_table_pid_of(2), 0);
    end(child);
    cr_expect_eq(ut_table_pid_of(1), 0);
}

Test(table, one_process_has_a_rank)
{
    const struct ut_job_info job = job_of(1);
    pid_t child = begin(1, 1);
    int rc = open_as(&job, pid, fd);

    cr_expect(rc == EAGAIN || rc == EACCES);
    end(child);
    cr_expect_eq(open_as(&job, pid, fd), 0);
}

/*
 * Communications of the whole job
 */

/* A process of this local rank, which has opened the table, counts, and ends. */
static void count_elsewhere(uint32_t local_rank, uint32_t submitted, uint32_t completed)
{
    const struct ut_job_info job = job_of(local_rank);
    int status;

    pid_t child = fork();
    if (child == 0) {
        ut_table_count(submitted, 0); /* before it opens the table */
        int rc = ut_table_open(&job, pid, fd);
        if (completed)
            ut_table_count(0, completed);
        _exit(rc != 0);
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
}

Test(table, only_communication_of_the_job_is_known)
{
    struct ut_job_info job = job_of(0);
    uint64_t submitted;

    ut_table_count(3, 2);
    cr_expect_not(ut_table_has_one_active(&job, &submitted), "others have not opened the table");
    count_elsewhere(1, 10, 10);
    cr_expect_not(ut_table_has_one_active(&job, &submitted), "another has not");
    count_elsewhere(2, 0, 0);
    cr_expect(ut_table_has_one_active(&job, &submitted));
    cr_expect_eq(submitted, 13);
    ut_table_count(1, 0);
    cr_expect_not(ut_table_has_one_active(&job, &submitted), "two");
    ut_table_count(0, 2);
    cr_expect_not(ut_table_has_one_active(&job, &submitted), "none");
    cr_expect_eq(submitted, 14);
    ut_table_count(1, 0);
    job.size++;
    cr_expect_not(ut_table_has_one_active(&job, &submitted), "one is on another node");
}

/* The C library's function: a kernel, or a system on top of it, may have no locks. */
static bool has_no_locks;

int fcntl(int file, int command, ...)
{
    va_list args;

    va_start(args, command);
    long arg = va_arg(args, long);
    va_end(args);
    if (!has_no_locks || command != F_SETLK)
        return (int)syscall(SYS_fcntl, file, command, arg);
    errno = ENOLCK;
    return -1;
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int i = 0; i < 100; i++)
        n += syscall(SYS_fcntl, i, F_GETFD) >= 0;
    return n;
}

Test(no_table, process_without_locks_makes_none)
{
    const struct ut_job_info job = job_of(0);
    unsigned int before = count_descriptors();

    has_no_locks = true;
    ut_table_create(&job);
    ut_table_place(&pid, &fd);
    cr_expect(pid == 0 && fd == 0);
    cr_expect_eq(count_descriptors(), before);
    cr_expect_eq(count_mappings(), 0);
    has_no_locks = false;
    ut_table_create(&job);
    ut_table_place(&pid, &fd);
    cr_expect_eq(pid, (uint32_t)getpid());
    cr_expect_eq(count_descriptors(), before + 1);
    cr_expect_eq(count_mappings(), 1);
}

/* A job of one process needs no table. */
Test(no_table, only_communication_of_one_process_is_known)
{
    const struct ut_job_info job = {.id = "one", .size = 1, .local_size = 1};
    uint64_t submitted;

    cr_expect_not(ut_table_has_one_active(&job, &submitted));
    ut_table_count(5, 4);
    cr_expect(ut_table_has_one_active(&job, &submitted) && submitted == 5);
    ut_table_count(0, 1);
    cr_expect_not(ut_table_has_one_active(&job, &submitted));
}
