/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a PMI-1 job, beside an MPI library in each state: this test plays the launcher and
 * the MPI library. The requests that reach the launcher, and what the process learns and logs, are
 * compared as text.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "bootstrap/job.h"
#include "bootstrap/mpi.h"
#include "bootstrap/ops.h"
#include "bootstrap/pmi1_share.h"

enum { TEXT = 16384, LINE = 4096, FD = 100 };

/* Time passes where the process waits for the launcher, if the test says so. */
static bool time_passes;

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    bool at_once = time_passes && timeout_ms > 0;
    int n = (int)syscall(SYS_poll, fds, count, at_once ? 0 : timeout_ms);

    if (n == 0 && at_once)
        fake_clock_pass_ms((uint64_t)timeout_ms);
    return n;
}

/* MPI's request is complete after so many pauses of this process; 0: never. */
static unsigned int num_pauses, complete_at;

static void complete_request(void)
{
    static const char rest[] = "et kvsname=k1 key=a\n";

    cr_assert_eq(syscall(SYS_sendto, FD, rest, sizeof(rest) - 1, 0, NULL, 0),
                 (long)sizeof(rest) - 1);
}

int usleep(useconds_t us)
{
    fake_clock_pass_ms((us + 999) / 1000);
    if (++num_pauses == complete_at)
        complete_request();
    return (int)syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 100000}, NULL);
}

/* The system takes and gives a few bytes at once, and each second call is interrupted, if the test
 * says so. */
static bool in_pieces;
static unsigned int num_pieces;

static size_t piece_of(size_t size)
{
    num_pieces++;
    return size < 7 ? size : 7;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    if (in_pieces && num_pieces % 2 == 0) {
        num_pieces++;
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_sendto, fd, data, in_pieces ? piece_of(size) : size, flags, NULL, 0);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    bool peeks = in_pieces && flags & MSG_PEEK;

    if (peeks && num_pieces % 2 == 0) {
        num_pieces++;
        errno = num_pieces % 4 == 1 ? EINTR : EAGAIN;
        return -1;
    }
    return syscall(SYS_recvfrom, fd, data, peeks ? piece_of(size) : size, flags, NULL, NULL);
}

/*
 * The played MPI library
 */

static struct {
    int initialized, finalized;
    const char *version;
    bool is_loaded, is_global;
    int version_calls, open;
} mpi;

static int initialized(int *flag)
{
    *flag = mpi.initialized;
    return 0;
}
static int finalized(int *flag)
{
    *flag = mpi.finalized;
    return 0;
}
static int version(char *text, int *length)
{
    mpi.version_calls++;
    strcpy(text, mpi.version);
    *length = (int)strlen(text);
    return 0;
}

/* The linker puts these in the place of the C library's (--wrap). */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    cr_assert(flags & RTLD_NOLOAD, "%s is loaded", name);
    if (!mpi.is_loaded || strcmp(name, "libmpi.so.40") != 0)
        return NULL;
    mpi.open++;
    return &mpi;
}

int __wrap_dlclose(void *library);
int __wrap_dlclose(void *library)
{
    cr_assert_eq(library, &mpi);
    mpi.open--;
    return 0;
}

void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    void *address = NULL;
    int (*function)(int *) = strcmp(name, "MPI_Initialized") == 0 ? initialized : finalized;
    int (*text_function)(char *, int *) = version;

    cr_assert(library == RTLD_DEFAULT || mpi.open == 1);
    if (!mpi.is_loaded || (library == RTLD_DEFAULT && !mpi.is_global))
        return NULL;
    if (strcmp(name, "MPI_Get_library_version") == 0)
        memcpy(&address, &text_function, sizeof(address));
    else
        memcpy(&address, &function, sizeof(address));
    return address;
}

TestSuite(pmi1);

Test(pmi1, state_of_mpi)
{
    for (int global = 0; global < 2; global++) {
        mpi.is_global = global;
        mpi.is_loaded = false;
        cr_assert_eq(ut_job_mpi_state(), UT_JOB_MPI_NONE);
        mpi.is_loaded = true;
        mpi.initialized = mpi.finalized = 0;
        cr_assert_eq(ut_job_mpi_state(), UT_JOB_MPI_BEFORE);
        mpi.initialized = 5;
        cr_assert_eq(ut_job_mpi_state(), UT_JOB_MPI_ACTIVE);
        mpi.finalized = 5;
        cr_assert_eq(ut_job_mpi_state(), UT_JOB_MPI_OVER);
        cr_assert_eq(mpi.open, 0, "a library stays open");
    }
}

Test(pmi1, mpi_that_fails_after_pmix)
{
    static const struct {
        const char *version;
        bool fails;
    } libraries[] = {
        {"Open MPI v5.0.3, package: Debian", true},
        {"Open MPI v4.1.4, package: Debian", false},
        {"Open MPI v10.0.0", true},
        {"MPICH Version:      4.0.2", false},
    };

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        mpi.version = libraries[i].version;
        mpi.version_calls = mpi.initialized = 0;
        mpi.is_loaded = false;
        cr_assert(!ut_job_mpi_fails_after_pmix());
        mpi.is_loaded = true;
        cr_assert_eq(ut_job_mpi_fails_after_pmix(), libraries[i].fails, "%s", mpi.version);
        mpi.initialized = 1;
        cr_assert(!ut_job_mpi_fails_after_pmix(), "MPI_Init is over");
        cr_assert_eq(mpi.version_calls, 1);
    }
}

/*
 * The launcher
 */

struct launcher {
    const char *maxes, *job, *mapping, *init; /* its answers, without "cmd=" and the like */
    unsigned int silent_from;                 /* hangs up at this request; 0: never */
    bool is_mute;                             /* answers nothing */
};

static const struct launcher usual = {.maxes = "kvsname_max=256 keylen_max=64 vallen_max=1024",
                                      .job = "k1",
                                      .mapping = "value=(vector,(0,1,2))",
                                      .init = "rc=0"};

static struct {
    struct {
        char name[256], value[2048];
    } names[200];
    unsigned int count;
} published;

static const char *find_name(const char *name)
{
    for (unsigned int i = published.count; i-- > 0;)
        if (strcmp(published.names[i].name, name) == 0)
            return published.names[i].value;
    return NULL;
}

/* The record of the other rank is that of this process. */
static void answer_lookup(const char *line, char *out)
{
    char name[256];

    cr_assert_eq(sscanf(line, "cmd=lookup_name service=%255s", name), 1, "%s", line);
    char *other = strstr(name, ".1");
    if (other)
        other[1] = '0';
    const char *value = find_name(name);
    if (value)
        snprintf(out, LINE, "cmd=lookup_result rc=0 port=%s info=ok\n", value);
    else
        strcpy(out, "cmd=lookup_result rc=1 info=fail\n");
}

static void answer_line(const struct launcher *launcher, const char *line, char *out)
{
    if (strncmp(line, "cmd=init ", 9) == 0)
        snprintf(out, LINE, "cmd=response_to_init %s\n", launcher->init);
    else if (strcmp(line, "cmd=get_maxes") == 0)
        snprintf(out, LINE, "cmd=maxes %s\n", launcher->maxes);
    else if (strcmp(line, "cmd=get_my_kvsname") == 0)
        snprintf(out, LINE, "cmd=my_kvsname kvsname=%s\n", launcher->job);
    else if (strncmp(line, "cmd=get ", 8) == 0)
        snprintf(out, LINE, "cmd=get_result rc=0 %s\n", launcher->mapping);
    else if (strcmp(line, "cmd=finalize") == 0)
        strcpy(out, "cmd=finalize_ack\n");
    else if (strncmp(line, "cmd=lookup_name ", 16) == 0)
        answer_lookup(line, out);
    else {
        cr_assert_eq(sscanf(line, "cmd=publish_name service=%255s port=%2047s",
                            published.names[published.count].name,
                            published.names[published.count].value),
                     2, "%s", line);
        published.count++;
        strcpy(out, "cmd=publish_result info=ok rc=0\n");
    }
}

/* Appends the beginning of a request: without the digits of a record. */
static void note_request(char *requests, const char *line)
{
    const char *port = strstr(line, " port=");

    snprintf(requests + strlen(requests), TEXT - strlen(requests), "%.*s%s|",
             port ? (int)(port - line) + 1 : (int)strlen(line), line, port ? "port" : "");
}

static void serve(const struct launcher *launcher, int fd, char *requests)
{
    char line[LINE], out[LINE];
    FILE *file = fdopen(fd, "r");
    unsigned int n = 0;

    requests[0] = '\0';
    while (fgets(line, sizeof(line), file) && ++n != launcher->silent_from) {
        line[strcspn(line, "\n")] = '\0';
        note_request(requests, line);
        if (launcher->is_mute)
            continue;
        answer_line(launcher, line, out);
        cr_assert_eq(send(fd, out, strlen(out), MSG_NOSIGNAL), (ssize_t)strlen(out));
    }
    fclose(file);
}

/*
 * The process
 */

static char requests[TEXT], said[TEXT];

/* Runs the body as one of the processes of a job. The launcher's requests are in `requests`, and
 * the output in `said`. */
static void run(const struct launcher *launcher, const char *variables, void (*body)(void))
{
    char text[TEXT];
    int ends[2], output[2], status;
    FILE *out = tmpfile();

    fflush(NULL);
    published.count = 0;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    output[0] = fileno(out);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        clearenv();
        dup2(ends[1], FD);
        close(ends[1]);
        setenv("PMI_FD", "100", 1);
        setenv("PMI_RANK", "0", 1);
        setenv("PMI_SIZE", "2", 1);
        setenv("UTOFU_PROGRESS_THREAD", "0", 1);
        setenv("UTOFU_JOB_TIMEOUT", "2", 1);
        snprintf(text, sizeof(text), "%s", variables);
        for (char *at = strtok(text, " "); at; at = strtok(NULL, " "))
            putenv(strdup(at));
        dup2(output[0], STDOUT_FILENO);
        dup2(output[0], STDERR_FILENO);
        setvbuf(stdout, NULL, _IONBF, 0);
        body();
        exit(0);
    }
    close(ends[1]);
    serve(launcher, ends[0], requests);
    cr_assert_eq(waitpid(child, &status, 0), child);
    rewind(out);
    said[fread(said, 1, sizeof(said) - 1, out)] = '\0';
    fclose(out);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x: %s", status, said);
}

#define CHECK(text, expected) cr_assert_str_eq(text, expected, "%s\nand not\n%s", text, expected)

static int open_job(void)
{
    const struct ut_job_info *info;
    int rc = ut_job_open(&info);

    if (rc != 0)
        printf("not opened: %s\n", strerror(-rc));
    else
        printf("%s %s %u/%u node %u/%u local %u/%u\n", info->launcher, info->id, info->rank,
               info->size, info->node, info->num_nodes, info->local_rank, info->local_size);
    return rc;
}

static void only_open(void)
{
    open_job();
}

static void look_up(void)
{
    char record[UT_JOB_RECORD_MAX];
    size_t size = 0;
    int rc = ut_job_lookup(1, record, &size, 0);

    for (size_t i = 0; rc == 0 && i < size; i++)
        cr_assert_eq(record[i], (char)i);
    if (rc == 0)
        printf("found %zu bytes\n", size);
    else
        printf("not found: %s\n", strerror(-rc));
}

static size_t own_size = 100;

static void publish(void)
{
    char record[UT_JOB_RECORD_MAX];

    for (size_t i = 0; i < sizeof(record); i++)
        record[i] = (char)i;
    int rc = ut_job_publish(record, own_size);
    if (rc != 0)
        printf("not published: %s\n", strerror(-rc));
}

#define INIT      "cmd=init pmi_version=1 pmi_subversion=1|"
#define ASK       "cmd=get_maxes|cmd=get_my_kvsname|cmd=get kvsname=k1 key=PMI_process_mapping|"
#define BEGIN     INIT ASK
#define END       "cmd=finalize|"
#define PUBLISHED "cmd=publish_name service=utofu.k1.0 port|"
#define BOARD     "cmd=publish_name service=utofu.k1.board.0 port|"
#define FOUND     "cmd=lookup_name service=utofu.k1.1|"
#define ERROR     "utofu: error: [rank ?, bootstrap] "
#define LATER     "utofu: error: [rank 0, bootstrap] "

static void usual_body(void)
{
    open_job();
    publish();
    look_up();
    pid_t child = fork();
    if (child == 0)
        exit(0); /* not the process that said init */
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(pmi1, process_without_mpi_says_init_and_finalize)
{
    run(&usual, "", usual_body);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND END);
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\nfound 100 bytes\n");
}

static void in_pieces_body(void)
{
    in_pieces = true;
    usual_body();
    cr_assert_gt(num_pieces, 100);
}

Test(pmi1, requests_and_answers_come_in_pieces)
{
    run(&usual, "", in_pieces_body);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND END);
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\nfound 100 bytes\n");
}

/*
 * Is this a job of PMI-1?
 */

/* The descriptor with the launcher's number becomes another one. */
static void replace(int fd)
{
    dup2(fd, FD);
    close(fd);
}

static void tell_presence(void)
{
    printf("%d", ut_job_pmi1.present());
}

static void present_in_many_ways(void)
{
    int ends[2], listens = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    tell_presence(); /* the socket of the launcher */
    unsetenv("PMI_RANK");
    tell_presence();
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "0", 1);
    tell_presence();
    setenv("PMI_SIZE", "1", 1);
    tell_presence();
    unsetenv("PMI_FD");
    tell_presence();
    setenv("PMI_PORT", "host:1", 1);
    tell_presence();
    setenv("PMI_ID", "0", 1);
    tell_presence(); /* by a port, of which opening says that it does not work */
    setenv("PMIX_RANK", "0", 1);
    tell_presence();
    unsetenv("PMIX_RANK");
    setenv("PMI_FD", "100", 1);
    tell_presence();
    unsetenv("PMI_PORT");
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    replace(ends[0]);
    tell_presence(); /* a socket that this process has made */
    /* a socket with a name, of another process */
    snprintf(name.sun_path, sizeof(name.sun_path), "%c%d", 0, getpid());
    cr_assert_eq(bind(listens, (struct sockaddr *)&name, sizeof(name)), 0);
    cr_assert_eq(listen(listens, 1), 0);
    if (fork() == 0) {
        replace(socket(AF_UNIX, SOCK_STREAM, 0));
        cr_assert_eq(connect(FD, (struct sockaddr *)&name, sizeof(name)), 0);
        tell_presence();
        _exit(0);
    }
    wait(NULL);
    /* those of another kind */
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(i == 0   ? socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)
                     : i == 1 ? socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)
                              : pipe(ends),
                     0);
        if (fork() == 0) {
            replace(ends[0]);
            tell_presence();
            _exit(0);
        }
        wait(NULL);
    }
    close(FD);
    tell_presence();
}

Test(pmi1, is_there_if_the_descriptor_is_the_launchers)
{
    run(&usual, "", present_in_many_ways);
    CHECK(said, "1001001010"
                "00000");
}

static void before_init(void)
{
    mpi.is_loaded = mpi.is_global = true;
    usual_body();
}

static void init_later(void)
{
    before_init();
    mpi.initialized = 1;
}

static void init_earlier(void)
{
    mpi.initialized = 1;
    before_init();
}

static void after_finalize(void)
{
    mpi.is_loaded = mpi.is_global = true;
    mpi.initialized = mpi.finalized = 1;
    open_job();
    open_job();
}

static void finalize_early(void)
{
    before_init();
    mpi.initialized = mpi.finalized = 1;
    look_up();
    look_up();
}

/* Who has said init says finalize, and nobody else. */
Test(pmi1, process_with_mpi)
{
    static const char good[] = "pmi1 k1 0/2 node 0/1 local 0/2\nfound 100 bytes\n";

    run(&usual, "", before_init);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND END);
    CHECK(said, good);
    run(&usual, "", init_later);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND);
    CHECK(said, good);
    run(&usual, "", init_earlier);
    CHECK(requests, ASK PUBLISHED BOARD FOUND);
    CHECK(said, good);
    run(&usual, "", after_finalize);
    CHECK(requests, "");
    CHECK(said, ERROR "MPI_Finalize has closed the launcher's socket: the first contact to a "
                      "process must come before it\nnot opened: Cannot send after transport "
                      "endpoint shutdown\nnot opened: Cannot send after transport endpoint "
                      "shutdown\n");
    run(&usual, "", finalize_early);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND);
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\nfound 100 bytes\n" LATER
                "MPI_Finalize has closed the launcher's socket: the first contact to a process "
                "must come before it\nnot found: Cannot send after transport endpoint "
                "shutdown\nnot found: Cannot send after transport endpoint shutdown\n");
}

static void slurm_before_init(void)
{
    mpi.is_loaded = mpi.is_global = true;
    open_job();
    open_job();
    mpi.initialized = 1;
    open_job();
}

/* Slurm's daemon accepts init once, and MPI_Init would fail. */
Test(pmi1, slurm_comes_after_mpi)
{
    run(&usual, "PMI_JOBID=7.0", slurm_before_init);
    CHECK(requests, ASK);
    CHECK(said,
          ERROR "under srun --mpi=pmi2, a program that uses MPI must call MPI_Init before "
                "utofu (or start it with srun --mpi=pmix)\nnot opened: Device or resource "
                "busy\nnot opened: Device or resource busy\npmi1 k1 0/2 node 0/1 local 0/2\n");
    run(&usual, "PMI_JOBID=7.0 MPI_LOCALRANKID=0", before_init);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND END);
    run(&usual, "PMI_JOBID=7.0", usual_body);
    CHECK(requests, BEGIN PUBLISHED BOARD FOUND END);
}

static void in_the_background(void)
{
    mpi.is_loaded = mpi.is_global = true;
    open_job();
    publish();
    ut_job_set_background_thread();
    look_up();
    mpi.is_loaded = false;
    look_up();
}

/* Threads of the program may be in MPI. */
Test(pmi1, background_thread_does_not_ask_beside_mpi)
{
    run(&usual, "", in_the_background);
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\nnot found: Device or resource busy\nfound 100 "
                "bytes\n");
}

/* MPI has sent half a request. */
static void publish_beside_mpi(void)
{
    char byte;

    mpi.is_loaded = mpi.is_global = true;
    mpi.initialized = 1;
    open_job();
    cr_assert_eq(send(FD, "cmd=g", 5, 0), 5);
    while (ut_job_pmi1_enter() == 0) { /* until the thread has seen it */
        ut_job_pmi1_leave();
        sched_yield();
    }
    publish();
    cr_assert(complete_at ? num_pauses >= complete_at : num_pauses > 1000);
    if (!complete_at)
        complete_request();
    cr_assert_eq(recv(FD, &byte, 1, MSG_PEEK), 1); /* MPI's answer */
}

/* Who publishes waits until MPI has its answer, but not for ever. */
Test(pmi1, publishing_waits_for_mpis_request)
{
    complete_at = 5;
    run(&usual, "UTOFU_PROGRESS_THREAD=1", publish_beside_mpi);
    CHECK(requests, ASK "cmd=get kvsname=k1 key=a|" PUBLISHED BOARD);
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\n");
    complete_at = 0;
    run(&usual, "UTOFU_PROGRESS_THREAD=1 UTOFU_JOB_TIMEOUT=5", publish_beside_mpi);
    char *left = strstr(said, "giving up in ");
    cr_assert(left && strchr("12", left[13]), "%s", said); /* 2000 ms, or a millisecond less */
    left[13] = '2';
    CHECK(said, "pmi1 k1 0/2 node 0/1 local 0/2\n"
                "utofu: warning: [rank 0, bootstrap] the launcher could not be queried for 3 s, "
                "because MPI is using its socket (PMI_FD); giving up in 2 s (UTOFU_JOB_TIMEOUT)\n"
                "not published: Device or resource busy\n");
}

/* Names and values are as long as the launcher allows, and not longer. */
Test(pmi1, limits_of_the_launcher)
{
#define JOB "kvs_2345678901234567890123456789012"
    static const struct {
        const char *maxes, *job;
        size_t name, value, pieces;
    } cases[] = {
        {"", JOB, strlen("utofu." JOB ".board.0"), 200, 1},
        {"keylen_max=64", JOB, strlen("utofu." JOB ".board.0"), 200, 1},
        {"keylen_max=64", JOB "3", strlen("utofu.0123456789abcdef.board.0"), 200, 1},
        {"keylen_max=0 vallen_max=0", "k1", strlen("utofu.k1.board.0"), 200, 1},
        {"vallen_max=206", "k1", strlen("utofu.k1.board.0"), 200, 1},
        {"vallen_max=205", "k1", strlen("utofu.k1.board.0"), 2 + 198, 2},
        {"vallen_max=16", "k1", strlen("utofu.k1.board.0.1"), 3 + 10, 20},
        {"vallen_max=15", "k1", strlen("utofu.k1.board.0"), 200, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct launcher launcher = usual;
        size_t longest_name = 0, longest_value = 0, pieces = 0;
        char expected[100];
        launcher.maxes = cases[i].maxes;
        launcher.job = cases[i].job;
        run(&launcher, "", usual_body);
        snprintf(expected, sizeof(expected), "pmi1 %s 0/2 node 0/1 local 0/2\nfound 100 bytes\n",
                 cases[i].job);
        CHECK(said, expected);
        for (unsigned int k = 0; k < published.count; k++) {
            size_t name = strlen(published.names[k].name), value = strlen(published.names[k].value);
            longest_name = name > longest_name ? name : longest_name;
            longest_value = value > longest_value ? value : longest_value;
            pieces += !strstr(published.names[k].name, "board");
        }
        cr_expect(longest_name == cases[i].name && longest_value == cases[i].value &&
                      pieces == cases[i].pieces,
                  "case %zu: %zu %zu %zu", i, longest_name, longest_value, pieces);
    }
}

struct mapping {
    const char *answer, *variables, *said;
};

/* Where the process is: by the launcher's layout, by its variables, or by those of the user. */
Test(pmi1, place_of_the_process)
{
#define FAILED "not opened: Protocol error\n"
#define NO_NODE                                                                                    \
    ERROR "the launcher on PMI_FD 100 does not report the node of rank 0; set UTOFU_NODE, "        \
          "UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE\n" FAILED
    static const struct mapping cases[] = {
        {"value=(vector,(0,2,1))", "", "pmi1 k1 0/2 node 0/2 local 0/1\n"},
        {"value=(vector,(0,1,2))", "PMI_RANK=1", "pmi1 k1 1/2 node 0/1 local 1/2\n"},
        {"value=(vector,(3,1,2))", "", "pmi1 k1 0/2 node 3/4 local 0/2\n"},
        {"value=", "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "pmi1 k1 0/2 node 0/1 local 0/2\n"},
        {"rc=-1", "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "pmi1 k1 0/2 node 0/1 local 0/2\n"},
        {"rc=-1", "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 UTOFU_NODE=4",
         "pmi1 k1 0/2 node 4/0 local 0/1\n"},
        {"rc=-1", "UTOFU_NODE=4 UTOFU_LOCAL_RANK=1", "pmi1 k1 0/2 node 4/0 local 1/2\n"},
        {"rc=-1", "PMI_SIZE=1", "pmi1 k1 0/1 node 0/1 local 0/1\n"},
        {"rc=-1", "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
         ERROR "the launcher on PMI_FD 100 does not report node numbers; set UTOFU_NODE\n" FAILED},
        {"rc=-1", "MPI_LOCALRANKID=2 MPI_LOCALNRANKS=2", NO_NODE},
        {"rc=-1", "UTOFU_NODE=4", NO_NODE},
        {"rc=-1", "", NO_NODE},
        {"rc=-1", "PMI_RANK=2", ERROR "PMI_RANK=2 is not below PMI_SIZE=2\n" FAILED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct launcher launcher = usual;
        launcher.mapping = cases[i].answer;
        run(&launcher, cases[i].variables, only_open);
        CHECK(said, cases[i].said);
    }
}

static void hang_up(void)
{
    own_size = 10;
    if (open_job() != 0)
        return;
    publish();
    look_up();
    look_up();
}

/* Each request may be the last one. What fails is told once, and nothing is sent any more. */
Test(pmi1, launcher_that_ends)
{
    static const char *const asked[] = {
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=get_maxes",
        "cmd=get_my_kvsname",
        "cmd=get kvsname=k1 key=PMI_process_mapping",
        "cmd=publish_name service=utofu.k1.0 port=00010203040506070809",
        "cmd=publish_name service=utofu.k1.board.0 port=*",
        "cmd=lookup_name service=utofu.k1.1"};
    static const char reset[] = "Connection reset by peer";

    for (unsigned int i = 1; i <= 7; i++) {
        struct launcher launcher = usual;
        char expected[1000], *port;
        launcher.silent_from = i;
        run(&launcher, "", hang_up);
        if ((port = strstr(said, "board.0 port=")))
            memmove(strchr(port, '=') + 2, strchr(port, '\''), strlen(strchr(port, '\'')) + 1);
        if (port)
            strchr(port, '=')[1] = '*';
        snprintf(expected, sizeof(expected),
                 "%sutofu: error: [rank %s, bootstrap] the launcher does not answer on PMI_FD 100 "
                 "(%s to '%s'); does mpiexec or srun still run?\n",
                 i <= 4 ? "" : "pmi1 k1 0/2 node 0/1 local 0/2\n", i <= 4 ? "?" : "0", reset,
                 asked[i - 1]);
        if (i <= 4)
            snprintf(expected + strlen(expected), 100, "not opened: %s\n", reset);
        if (i == 5)
            snprintf(expected + strlen(expected), 100, "not published: %s\n", reset);
        for (int k = 0; i > 4 && k < 2; k++)
            snprintf(expected + strlen(expected), 100, "not found: %s\n", reset);
        CHECK(said, expected);
    }
}

static void open_patiently(void)
{
    time_passes = true;
    open_job();
}

Test(pmi1, launcher_that_does_not_answer)
{
#define SILENT(since, left)                                                                        \
    "utofu: warning: [rank ?, bootstrap] the launcher has not answered on PMI_FD 100 for " since   \
    " s; giving up in " left " s (UTOFU_JOB_TIMEOUT)\n"
    struct launcher launcher = usual;

    launcher.is_mute = true;
    run(&launcher, "UTOFU_JOB_TIMEOUT=20", open_patiently);
    CHECK(said, SILENT("3", "17") SILENT("6", "14") SILENT("12", "8") ERROR
          "the launcher does not answer on PMI_FD 100 (Connection timed out to 'cmd=init "
          "pmi_version=1 pmi_subversion=1'); does mpiexec or srun still run?\nnot opened: "
          "Connection timed out\n");
}
