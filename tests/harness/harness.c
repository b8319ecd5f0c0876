/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multi-process test harness: see harness.h. Uses Criterion for reports, and Linux functions to
 * fork, watch and kill processes.
 */
#include "seats.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Exit codes of a process. Sanitizers and assert() use others. */
enum { EXIT_FAILED = 77, EXIT_CUT_SHORT = 78 };

/* How long the others may continue after one has failed, before they are killed. */
enum { GRACE_MS = 1000 };

struct proc_state {
    struct ut_seat seat;
    atomic_bool dead;
};

/* The meeting point of parents on several hosts: before the memory that the processes share. */
struct meeting {
    _Atomic uint64_t epoch[UT_MAX_HOSTS];
    _Atomic uint64_t bad; /* bit per host: a process has failed */
};

struct shared {
    atomic_bool failed; /* a process has failed: do not wait for others */
    uint64_t seed;
    _Atomic uint64_t cells[UT_NUM_CELLS];
    struct proc_state proc[UT_MAX_PROCS];
};

static struct shared *sh;

/* The hosts of this run, which have all mapped the memory. */
static int own_host, num_hosts = 1;
static struct meeting *meeting;
static uint64_t run_number;

/* The seed */

uint64_t ut_seed(void)
{
    return sh->seed;
}

static uint64_t choose_seed(void)
{
    uint64_t seed = 1;

    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)time(NULL);
    return ut_env_number("UT_TEST_SEED", seed % 1000000000);
}

/* Time */

static int64_t now_ms(void) /* not by a clock that tests move: moving_clock.h */
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static int64_t timeout_scale(void)
{
    int64_t scale = (int64_t)ut_env_number("UT_TEST_TIMEOUT_SCALE", 1);

#if defined(__SANITIZE_ADDRESS__)
    scale *= 4;
#elif defined(__SANITIZE_THREAD__)
    scale *= 10;
#endif
    return scale;
}

/* Called by the processes: see seats.c for the others */

struct ut_seat *ut_seat_of(int rank)
{
    return &sh->proc[rank].seat;
}

_Atomic uint64_t *ut_cells(void)
{
    return sh->cells;
}

bool ut_is_dead(int rank)
{
    return atomic_load(&sh->proc[rank].dead);
}

void ut_mark_dead(int rank)
{
    atomic_store(&sh->proc[rank].dead, true);
}

void ut_fail(const char *file, int line, const char *what, const char *format, ...)
{
    char detail[512];
    va_list args;

    va_start(args, format);
    if (ut_rank < 0) {
        vsnprintf(detail, sizeof(detail), format, args);
        cr_assert_fail("%s:%d: %s:%s", file, line, what, detail);
    }
    ut_seat_fail(file, line, what, format, args);
    va_end(args);
    atomic_store(&sh->failed, true);
    _exit(EXIT_FAILED);
}

void ut_leave_if_failed(void)
{
    if (atomic_load_explicit(&sh->failed, memory_order_relaxed))
        _exit(EXIT_CUT_SHORT);
}

/* Starting a process */

struct run {
    const struct ut_run_opts *opts;
    ut_body_fn *body;
    void *arg;
    int n, nodes;
    char folder[64]; /* holds the meeting point and the output of the processes */
    pid_t pid[UT_MAX_PROCS];
    bool running[UT_MAX_PROCS];
    struct ut_outcome *out;
};

static void output_path(const struct run *run, int rank, char *path, size_t size)
{
    snprintf(path, size, "%s/output.%d", run->folder, rank);
}

/* Shows where a process hangs, before it is killed. */
static void show_stack(int signal_number)
{
    void *frames[48];

    (void)signal_number;
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

/* Nodes are distributed over the hosts like ranks over nodes. */
static bool is_here(const struct run *run, int rank)
{
    return rank * run->nodes / run->n * num_hosts / run->nodes == own_host;
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static int first_rank_of(const struct run *run, int node)
{
    return (node * run->n + run->nodes - 1) / run->nodes;
}

static void set_job(const struct run *run, int rank)
{
    int node = rank * run->nodes / run->n;
    int first = first_rank_of(run, node);
    char root[128];

    if (num_hosts > 1) {
        snprintf(root, sizeof(root), "%s:%llu", getenv("UT_TEST_ROOT_ADDRESS"),
                 20000 + (unsigned long long)(run_number % 20000));
        setenv("UTOFU_JOB_KEY", "00112233445566778899aabbccddeeff", 1); /* the hosts are guests */
    } else if (run->opts->fresh_root_socket) {
        /* with the folder in the name, so that concurrent runs do not meet */
        snprintf(root, sizeof(root), "unix:@%s", run->folder + 1);
    } else {
        snprintf(root, sizeof(root), "%s/root", run->folder);
    }
    ut_node = node;
    ut_nodes = run->nodes;
    setenv("UTOFU_ROOT", root, 1);
    set_number("UTOFU_RANK", rank);
    set_number("UTOFU_SIZE", run->n);
    set_number("UTOFU_NODE", node);
    set_number("UTOFU_LOCAL_RANK", rank - first);
    set_number("UTOFU_LOCAL_SIZE", first_rank_of(run, node + 1) - first);
    for (size_t i = 0; i < sizeof(run->opts->env) / sizeof(run->opts->env[0]); i++)
        if (run->opts->env[i] != NULL)
            putenv((char *)(uintptr_t)run->opts->env[i]);
}

/* In the forked process. It exits normally, so that the library's exit handlers, coverage and leak
 * checks run; Criterion has registered no conflicting handler. */
static void __attribute__((noreturn)) be_process(const struct run *run, int rank, pid_t parent)
{
    char path[128];
    void *frame;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CUT_SHORT);
    output_path(run, rank, path, sizeof(path));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(EXIT_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0);
    backtrace(&frame, 1); /* loads the libraries that the handler needs */
    signal(SIGUSR2, show_stack);
    ut_seat_take(rank, run->n);
    set_job(run, rank);
    run->body(run->arg);
    ut_step("after the body");
    exit(EXIT_SUCCESS);
}

/* Watching */

static bool reap(struct run *run, int rank, int options)
{
    pid_t pid;

    do
        pid = waitpid(run->pid[rank], &run->out[rank].status, options);
    while (pid < 0 && errno == EINTR);
    if (pid != run->pid[rank])
        return false;
    run->running[rank] = false;
    return true;
}

static bool may_die(const struct run *run, int rank)
{
    return rank < 32 && (run->opts->may_die >> rank & 1) != 0;
}

static bool succeeded(const struct run *run, int rank)
{
    const struct ut_outcome *out = &run->out[rank];

    if (out->timed_out || out->cut_short || out->failure[0] != '\0')
        return false;
    return may_die(run, rank) || (WIFEXITED(out->status) && WEXITSTATUS(out->status) == 0);
}

static void read_output(const struct run *run, int rank)
{
    char path[128];
    struct ut_outcome *out = &run->out[rank];

    output_path(run, rank, path, sizeof(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END);
    off_t start = end > UT_OUTPUT_MAX - 1 ? end - (UT_OUTPUT_MAX - 1) : 0;
    ssize_t got = pread(fd, out->output, UT_OUTPUT_MAX - 1, start);
    out->output[got > 0 ? got : 0] = '\0';
    close(fd);
}

static void collect(struct run *run, int rank)
{
    struct ut_outcome *out = &run->out[rank];

    memcpy(out->failure, ut_seat_of(rank)->failure, sizeof(out->failure));
    memcpy(out->step, ut_seat_of(rank)->step, sizeof(out->step));
    out->cut_short |= WIFEXITED(out->status) && WEXITSTATUS(out->status) == EXIT_CUT_SHORT;
    read_output(run, rank);
    if (!succeeded(run, rank))
        atomic_store(&sh->failed, true);
    ut_mark_dead(rank); /* after `failed`: see ut_barrier() */
}

static int count_running(const struct run *run)
{
    int count = 0;

    for (int rank = 0; rank < run->n; rank++)
        count += run->running[rank];
    return count;
}

static void kill_running(struct run *run, bool timed_out)
{
    for (int rank = 0; rank < run->n; rank++)
        if (run->running[rank] && timed_out)
            kill(run->pid[rank], SIGUSR2); /* prints its stack */
    if (timed_out)
        sleep_us(300000);
    for (int rank = 0; rank < run->n; rank++) {
        if (!run->running[rank])
            continue;
        run->out[rank].timed_out = timed_out;
        run->out[rank].cut_short = !timed_out;
        kill(run->pid[rank], SIGKILL);
        reap(run, rank, 0);
        collect(run, rank);
    }
}

static void watch(struct run *run)
{
    int timeout_s = run->opts->timeout_s > 0 ? run->opts->timeout_s : 60;
    int64_t deadline = now_ms() + timeout_s * 1000 * timeout_scale();
    long nap_us = 100;
    bool failed = false;

    while (count_running(run) > 0) {
        bool progress = false;

        for (int rank = 0; rank < run->n; rank++) {
            if (run->running[rank] && reap(run, rank, WNOHANG)) {
                collect(run, rank);
                progress = true;
            }
        }
        if (!failed && atomic_load(&sh->failed)) {
            failed = true;
            deadline = now_ms() + GRACE_MS * timeout_scale();
        }
        if (now_ms() >= deadline)
            kill_running(run, !failed);
        nap_us = progress ? 100 : nap_us < 5000 ? nap_us * 2 : nap_us;
        sleep_us(nap_us);
    }
}

/* The report */

struct text {
    char *at;
    size_t size, used;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    va_list args;

    if (text->used >= text->size)
        return;
    va_start(args, format);
    int wrote = vsnprintf(text->at + text->used, text->size - text->used, format, args);
    va_end(args);
    text->used += wrote > 0 ? (size_t)wrote : 0;
}

static void describe(const struct run *run, int rank, struct text *text)
{
    const struct ut_outcome *out = &run->out[rank];
    int status = out->status;

    add(text, "\n  rank %d: ", rank);
    if (out->failure[0] != '\0')
        add(text, "%s", out->failure);
    else if (out->timed_out)
        add(text, "did not finish in time");
    else if (out->cut_short)
        add(text, "ended because of the others");
    else if (WIFSIGNALED(status))
        add(text, "ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        add(text, "exit status %d", WEXITSTATUS(status));
    else
        add(text, "succeeded");
    if (out->step[0] != '\0')
        add(text, " [at: %s]", out->step);
    if (out->output[0] != '\0')
        add(text, "\n--- its output ends with:\n%s---", out->output);
}

static bool conclude(struct run *run, struct text *text)
{
    bool good = true;

    for (int rank = 0; rank < run->n; rank++)
        good = good && (!is_here(run, rank) || succeeded(run, rank));
    add(text, "seed %llu (UT_TEST_SEED)", (unsigned long long)sh->seed);
    for (int rank = 0; rank < run->n; rank++) {
        if (is_here(run, rank))
            describe(run, rank, text);
        else
            add(text, "\n  rank %d: on another host, which reports it", rank);
    }
    if (good && getenv("UT_TEST_KEEP_OUTPUT") != NULL)
        fprintf(stderr, "%s\n", text->at);
    return good;
}

/* Several hosts */

static void open_hosts(void)
{
    const char *path = getenv("UT_TEST_SHARED_MEMORY");

    num_hosts = path ? (int)ut_env_number("UT_TEST_HOSTS", 1) : 1;
    own_host = (int)ut_env_number("UT_TEST_HOST", 0);
    if (num_hosts == 1 || meeting)
        return;
    cr_assert(num_hosts <= UT_MAX_HOSTS && own_host < num_hosts && getenv("UT_TEST_ROOT_ADDRESS"));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    size_t size = sizeof(*meeting) + sizeof(*sh);
    meeting = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)meeting, MAP_FAILED, "%s: %s", path, strerror(errno));
    close(fd);
}

/* Called by all parents; one that waits for too long takes the others for dead. Every test has a
 * process of its own, so the counter is in shared memory. */
static void meet(void)
{
    int64_t deadline = now_ms() + 120000 * timeout_scale();
    uint64_t epoch = atomic_load(&meeting->epoch[own_host]) + 1;

    atomic_store(&meeting->epoch[own_host], epoch);
    for (int host = 0; host < num_hosts; host++) {
        while (atomic_load(&meeting->epoch[host]) < epoch) {
            cr_assert(now_ms() < deadline, "host %d does not come", host);
            sleep_us(2000);
        }
    }
}

static void share_memory(void)
{
    open_hosts();
    if (num_hosts == 1) {
        sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq((void *)sh, MAP_FAILED, "mmap: %s", strerror(errno));
        sh->seed = choose_seed();
        return;
    }
    sh = (struct shared *)(meeting + 1);
    meet();
    if (own_host == 0) {
        memset(sh, 0, sizeof(*sh));
        sh->seed = choose_seed();
        atomic_store(&meeting->bad, 0);
    }
    meet();
    run_number = atomic_load(&meeting->epoch[own_host]);
}

/* Failures on other hosts count as well. */
static bool unshare_memory(bool good)
{
    if (num_hosts == 1) {
        munmap(sh, sizeof(*sh));
    } else {
        if (!good)
            atomic_fetch_or(&meeting->bad, 1ull << own_host);
        meet();
        good = atomic_load(&meeting->bad) == 0;
    }
    sh = NULL;
    return good;
}

/* The folder */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void make_folder(struct run *run)
{
    char root[80];

    snprintf(run->folder, sizeof(run->folder), "/tmp/ut-test-XXXXXX");
    cr_assert_not_null(mkdtemp(run->folder), "mkdtemp: %s", strerror(errno));
    snprintf(root, sizeof(root), "%s/root", run->folder);
    cr_assert_eq(mkdir(root, 0700), 0, "mkdir %s: %s", root, strerror(errno));
}

bool ut_run_collect(const struct ut_run_opts *opts, ut_body_fn *body, void *arg,
                    struct ut_outcome *out, char *report, size_t report_size)
{
    struct run run = {.opts = opts, .body = body, .arg = arg, .out = out};
    char fallback[256];
    struct text text = {report != NULL ? report : fallback,
                        report != NULL ? report_size : sizeof(fallback), 0};
    pid_t self = getpid();

    run.n = opts->n > 0 ? opts->n : 2;
    run.nodes = opts->nodes > 0 ? opts->nodes : 1;
    share_memory();
    if (run.nodes < num_hosts && run.n >= num_hosts)
        run.nodes = num_hosts;
    cr_assert(run.n <= UT_MAX_PROCS && run.nodes <= run.n);
    memset(out, 0, sizeof(*out) * (size_t)run.n);
    cr_log_info("seed %llu (UT_TEST_SEED)", (unsigned long long)sh->seed);
    make_folder(&run);
    fflush(NULL);
    for (int rank = 0; rank < run.n; rank++) {
        out[rank].elsewhere = !is_here(&run, rank);
        if (out[rank].elsewhere)
            continue;
        run.pid[rank] = fork();
        if (run.pid[rank] == 0)
            be_process(&run, rank, self);
        run.running[rank] = run.pid[rank] > 0;
        if (!run.running[rank]) {
            out[rank].cut_short = true;
            atomic_store(&sh->failed, true);
        }
    }
    watch(&run);
    bool good = conclude(&run, &text);
    nftw(run.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return unshare_memory(good);
}

void ut_skip(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    cr_skip_test("%s", why);
}

void ut_run(const struct ut_run_opts *opts, ut_body_fn *body, void *arg)
{
    static struct ut_outcome out[UT_MAX_PROCS];
    static char report[UT_MAX_PROCS * (UT_OUTPUT_MAX + 2048)];

    if (!ut_run_collect(opts, body, arg, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
}
