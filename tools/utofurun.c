/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofurun -n N [--nodes K] program args...
 *
 * Starts N processes of one machine as one job, without any MPI. One loop over epoll-able things:
 * a signalfd, the rendezvous server and, with --tag-output, the output of the processes.
 */
#include "job/job_ops.h"
#include "job/job_root.h"
#include "job/job_server.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/job_layout.h"

enum {
    STATUS_USAGE = 2,
    STATUS_TIMEOUT = 124,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* plus the signal's number */
    GRACE_MS = 3000,     /* between SIGTERM and SIGKILL */
    SIZE_MAX_LOCAL = 65536,
    LINE_MAX_BYTES = 16384, /* a longer line is passed on in pieces */
};

/* An output of a process that is passed on line by line. */
struct stream {
    int fd, to;
    size_t used;
    char line[LINE_MAX_BYTES];
};

struct process {
    pid_t pid; /* 0 when it has ended */
    struct stream *out, *err;
};

struct options {
    uint32_t size, nodes, timeout_s;
    bool tag_output;
    char **command;
};

static struct options opt = {.nodes = 1};
static struct process *processes;
static struct ut_job_layout layout;
static struct ut_job_server *server;
static struct pollfd *polls; /* [0] signals, [1] server, then two per process */
static pid_t group;          /* process group of the job */
static uint32_t running;
static int worst;
static bool terminal;   /* the job takes our place as the terminal's foreground group */
static bool ending;     /* the rest is being killed */
static int forwarded;   /* the last signal that was passed on and may end processes */
static int64_t kill_at; /* SIGKILL then; 0: not asked for */
static sigset_t old_mask;
static struct rlimit old_files;

static const int watched[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGALRM, SIGCONT, SIGTSTP, SIGWINCH};

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "utofurun: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
}

static void print_help(void)
{
    printf(
        "Usage: utofurun -n N [options] program [arguments]\n"
        "Starts N processes on this machine as one uTofu job, without MPI.\n\n"
        "  -n, --np N         number of processes\n"
        "      --nodes K      play K nodes: ranks are dealt out to them in blocks (default 1)\n"
        "      --timeout S    end the job after S seconds, with status 124\n"
        "      --tag-output   start every line of output with the rank: \"[3] \"\n"
        "  -h, --help         print this text\n"
        "  -V, --version      print the version\n\n"
        "Standard input goes to rank 0. Signals are passed on. When a process fails, the others\n"
        "are ended and utofurun says which one it was.\n\n"
        "Exit status: the worst of the processes' (128 + number for a signal), 2 for wrong usage,\n"
        "124 after --timeout, 127 if the program cannot be run.\n");
}

static void __attribute__((noreturn, format(printf, 1, 2))) usage_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "utofurun: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "; try utofurun --help\n");
    va_end(ap);
    exit(STATUS_USAGE);
}

static uint32_t read_number(const char *option, const char *text, uint32_t max)
{
    char *end;

    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > max)
        usage_error("%s takes a number from 1 to %u, not '%s'", option, max, text);
    return (uint32_t)n;
}

static void read_options(int argc, char **argv)
{
    enum { NODES = 256, TIMEOUT, TAG_OUTPUT };
    static const struct option longs[] = {
        {"np", required_argument, NULL, 'n'},
        {"nodes", required_argument, NULL, NODES},
        {"timeout", required_argument, NULL, TIMEOUT},
        {"tag-output", no_argument, NULL, TAG_OUTPUT},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, "+:n:hV", longs, NULL)) != -1) {
        switch (o) {
        case 'n':
            opt.size = read_number("-n", optarg, SIZE_MAX_LOCAL);
            break;
        case NODES:
            opt.nodes = read_number("--nodes", optarg, SIZE_MAX_LOCAL);
            break;
        case TIMEOUT:
            opt.timeout_s = read_number("--timeout", optarg, 1u << 30);
            break;
        case TAG_OUTPUT:
            opt.tag_output = true;
            break;
        case 'h':
            print_help();
            exit(0);
        case 'V':
            printf("utofurun (utofu-verbs) %s\n", UT_VERSION);
            exit(0);
        case ':':
            usage_error("%s needs a value", argv[optind - 1]);
        default:
            usage_error("unknown option %s", argv[optind - 1]);
        }
    }
    opt.command = argv + optind;
    if (opt.size == 0)
        usage_error("-n is missing");
    if (opt.nodes > opt.size)
        usage_error("--nodes %u is more than the %u processes", opt.nodes, opt.size);
    if (!*opt.command)
        usage_error("the program is missing");
}

/* ---- before the processes start ---- */

/* Opens the rendezvous and puts it into the environment. The name is not guessable; whoever
 * guesses it all the same is turned away unless it is the same user. */
static int open_root(void)
{
    struct ut_job_root root;
    unsigned char random[8];
    char text[96];
    int rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -EIO;
    int n = snprintf(text, sizeof(text), "unix:@utofurun.%d.", (int)getpid());
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", random[i]);
    snprintf(text + n, sizeof(text) - (size_t)n, ",nodes=%u", opt.nodes);
    rc = ut_job_root_parse(&root, text);
    if (rc == 0)
        rc = ut_job_server_create(&server, &root, opt.size);
    if (rc == 0 && setenv("UTOFU_ROOT", text, 1) != 0)
        rc = -ENOMEM;
    return rc;
}

/* One connection and two pipes a process; the processes get the old limit back. */
static void raise_file_limit(void)
{
    struct rlimit more;

    if (getrlimit(RLIMIT_NOFILE, &old_files) != 0)
        return;
    more = old_files;
    more.rlim_cur = more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        sigaddset(&set, watched[i]);
    /* giving the terminal away must not stop us */
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, &old_mask);
    sigdelset(&set, SIGTTOU);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- a process ---- */

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

static void set_environment(uint32_t rank)
{
    struct ut_job_place place;

    ut_job_layout_place(&layout, rank, &place);
    set_number("UTOFU_RANK", rank);
    set_number("UTOFU_SIZE", opt.size);
    set_number("UTOFU_NODE", place.node);
    set_number("UTOFU_LOCAL_RANK", place.local_rank);
    set_number("UTOFU_LOCAL_SIZE", place.local_size);
}

static bool in_foreground(void)
{
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void redirect(uint32_t rank, int out, int err)
{
    /* a job in the background must not be stopped for reading from the terminal */
    if (rank != 0 || (isatty(STDIN_FILENO) && !terminal)) {
        int null = open("/dev/null", O_RDONLY);
        if (null > 0) {
            dup2(null, STDIN_FILENO);
            close(null);
        }
    }
    if (out >= 0)
        dup2(out, STDOUT_FILENO);
    if (err >= 0)
        dup2(err, STDERR_FILENO);
}

/* Runs in the child; never returns. report: where an error of exec goes. */
static void __attribute__((noreturn))
run_program(uint32_t rank, pid_t parent, int out, int err, int report)
{
    int error;

    setpgid(0, group);
    /* whatever ends utofurun, even SIGKILL, ends the job */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(STATUS_SIGNAL + SIGKILL);
    set_environment(rank);
    redirect(rank, out, err);
    setrlimit(RLIMIT_NOFILE, &old_files);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    execvp(opt.command[0], opt.command);
    error = errno;
    if (write(report, &error, sizeof(error)) < 0)
        perror("utofurun");
    _exit(STATUS_NOT_FOUND);
}

static struct stream *open_stream(int to, int pipe_fds[2])
{
    struct stream *s;

    pipe_fds[0] = pipe_fds[1] = -1;
    if (!opt.tag_output)
        return NULL;
    s = malloc(sizeof(*s));
    if (!s || pipe2(pipe_fds, O_CLOEXEC) != 0) {
        free(s);
        return NULL;
    }
    s->fd = pipe_fds[0];
    s->to = to;
    s->used = 0;
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    return s;
}

static int start_process(uint32_t rank, int report)
{
    struct process *p = &processes[rank];
    pid_t parent = getpid();
    int out[2], err[2], rc = 0;

    p->out = open_stream(STDOUT_FILENO, out);
    p->err = open_stream(STDERR_FILENO, err);
    p->pid = fork();
    if (p->pid == 0)
        run_program(rank, parent, out[1], err[1], report);
    if (p->pid < 0) {
        rc = -errno;
        p->pid = 0;
    } else {
        if (group == 0)
            group = p->pid;
        /* here and in the child: whoever comes first */
        setpgid(p->pid, group);
        running++;
    }
    if (out[1] >= 0)
        close(out[1]);
    if (err[1] >= 0)
        close(err[1]);
    polls[2 + 2 * rank] = (struct pollfd){.fd = p->out ? out[0] : -1, .events = POLLIN};
    polls[3 + 2 * rank] = (struct pollfd){.fd = p->err ? err[0] : -1, .events = POLLIN};
    return rc;
}

/* ---- ending the job ---- */

static void end_job(void)
{
    if (ending || group == 0)
        return;
    ending = true;
    kill_at = ut_job_now_ms() + GRACE_MS;
    kill(-group, SIGTERM);
    kill(-group, SIGCONT); /* a stopped process would not see it */
}

static void note_status(int status)
{
    if (status > worst)
        worst = status;
}

/* The first one that fails is named and ends the others; those that end by what we sent them
 * are not to blame. */
static void process_ended(uint32_t rank, pid_t pid, int wait_status)
{
    bool by_signal = WIFSIGNALED(wait_status);
    int code = by_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);

    processes[rank].pid = 0;
    running--;
    if (!by_signal && code == 0)
        return;
    if (by_signal && ending && (code == SIGTERM || code == SIGKILL))
        return;
    note_status(by_signal ? STATUS_SIGNAL + code : code);
    if (ending)
        return;
    if (by_signal && code != forwarded)
        say("rank %u (pid %d) was killed by signal %d (%s)%s; ending the job", rank, (int)pid, code,
            strsignal(code), WCOREDUMP(wait_status) ? ", core dumped" : "");
    else if (!by_signal)
        say("rank %u (pid %d) exited with status %d; ending the job", rank, (int)pid, code);
    end_job();
}

/* A process of the job was stopped from the terminal (Ctrl-Z): stop with it, as the shell expects,
 * and go on together. */
static void stop_with_job(void)
{
    if (terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    kill(-group, SIGSTOP);
    raise(SIGSTOP);
    /* the shell's fg gave the terminal to us, its bg did not */
    if (terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetpgrp(STDIN_FILENO, group);
    kill(-group, SIGCONT);
}

static uint32_t rank_of(pid_t pid)
{
    uint32_t rank = 0;

    while (rank < opt.size && processes[rank].pid != pid)
        rank++;
    return rank;
}

static void reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        uint32_t rank = rank_of(pid);
        if (WIFSTOPPED(status)) {
            if (terminal && WSTOPSIG(status) != SIGSTOP)
                stop_with_job();
        } else if (rank < opt.size) {
            process_ended(rank, pid, status);
        }
    }
}

static void handle_signal(int sig)
{
    switch (sig) {
    case SIGCHLD:
        reap();
        break;
    case SIGTSTP:
        kill(-group, SIGTSTP);
        raise(SIGSTOP);
        break;
    case SIGCONT:
        kill(-group, SIGCONT);
        break;
    default:
        if (sig != SIGWINCH)
            forwarded = sig;
        kill(-group, sig);
    }
}

static void read_signals(int fd)
{
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        handle_signal((int)info.ssi_signo);
}

/* ---- tagged output ---- */

static void write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            /* nobody reads what the job says: the usual end of a writer */
            note_status(STATUS_SIGNAL + SIGPIPE);
            end_job();
            return;
        }
        p += k;
        n -= (size_t)k;
    }
}

/* Writes the first n bytes of the line buffer as one tagged line. */
static void write_line(struct stream *s, uint32_t rank, size_t n, bool whole)
{
    char text[LINE_MAX_BYTES + 32];
    int tag = snprintf(text, sizeof(text), "[%u] ", rank);

    memcpy(text + tag, s->line, n);
    if (!whole)
        text[(size_t)tag + n++] = '\n';
    write_all(s->to, text, (size_t)tag + n);
}

static void pass_lines(struct stream *s, uint32_t rank, bool all)
{
    char *newline;

    while ((newline = memchr(s->line, '\n', s->used)) != NULL) {
        size_t n = (size_t)(newline - s->line) + 1;
        write_line(s, rank, n, true);
        s->used -= n;
        memmove(s->line, s->line + n, s->used);
    }
    if (s->used > 0 && (all || s->used == sizeof(s->line))) {
        write_line(s, rank, s->used, false);
        s->used = 0;
    }
}

/* Passes on what is there; at the end of the stream also an unfinished line. */
static void read_stream(struct stream **stream, struct pollfd *p, uint32_t rank)
{
    struct stream *s = *stream;
    ssize_t n;

    while ((n = read(s->fd, s->line + s->used, sizeof(s->line) - s->used)) > 0) {
        s->used += (size_t)n;
        pass_lines(s, rank, false);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    pass_lines(s, rank, true);
    close(s->fd);
    free(s);
    *stream = NULL;
    p->fd = -1;
}

static void read_streams(bool every)
{
    for (uint32_t r = 0; r < opt.size; r++) {
        struct pollfd *p = &polls[2 + 2 * r];
        if (processes[r].out && (every || p[0].revents))
            read_stream(&processes[r].out, &p[0], r);
        if (processes[r].err && (every || p[1].revents))
            read_stream(&processes[r].err, &p[1], r);
    }
}

/* A process that a program left behind may hold the pipes open: do not wait for it. */
static void finish_streams(void)
{
    read_streams(true);
    for (uint32_t r = 0; r < opt.size; r++) {
        if (processes[r].out)
            pass_lines(processes[r].out, r, true);
        if (processes[r].err)
            pass_lines(processes[r].err, r, true);
    }
}

/* ---- the job ---- */

/* Waits until every process runs its program: an error of exec comes through the pipe, which
 * exec itself closes. */
static void wait_for_exec(int report)
{
    int error;

    if (read(report, &error, sizeof(error)) != (ssize_t)sizeof(error))
        return;
    say("cannot run '%s': %s", opt.command[0], strerror(error));
    note_status(STATUS_NOT_FOUND);
    end_job();
}

static int start_job(void)
{
    int report[2], rc = 0;

    terminal = in_foreground();
    if (pipe2(report, O_CLOEXEC) != 0)
        return -errno;
    for (uint32_t rank = 0; rank < opt.size && rc == 0; rank++)
        rc = start_process(rank, report[1]);
    close(report[1]);
    if (terminal && group)
        tcsetpgrp(STDIN_FILENO, group);
    if (rc == 0)
        wait_for_exec(report[0]);
    close(report[0]);
    return rc;
}

/* When the loop must wake up by itself: the time limit, the end of the grace. */
static int next_timeout(int64_t limit)
{
    int64_t when = kill_at ? kill_at : limit;

    return when ? ut_job_left_ms(when) : -1;
}

static void check_times(int64_t *limit)
{
    int64_t now = ut_job_now_ms();

    if (*limit && now >= *limit && !ending) {
        say("the job has not ended within %u seconds; ending it", opt.timeout_s);
        note_status(STATUS_TIMEOUT);
        end_job();
    }
    if (kill_at && now >= kill_at) {
        kill(-group, SIGKILL);
        *limit = kill_at = 0;
    }
}

static void run_job(void)
{
    int64_t limit = opt.timeout_s ? ut_job_now_ms() + (int64_t)opt.timeout_s * 1000 : 0;
    nfds_t num_polls = opt.tag_output ? 2 + 2 * (nfds_t)opt.size : 2;

    reap();
    while (running > 0) {
        if (poll(polls, num_polls, next_timeout(ending ? 0 : limit)) > 0) {
            read_signals(polls[0].fd);
            if (polls[1].revents)
                ut_job_server_step(server, 0);
            if (opt.tag_output)
                read_streams(false);
        }
        check_times(&limit);
    }
    /* nothing of a failed job stays behind, such as children of the processes */
    if (ending)
        kill(-group, SIGKILL);
    if (terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
}

int main(int argc, char **argv)
{
    int rc;

    read_options(argc, argv);
    raise_file_limit();
    ut_job_layout_deal(&layout, opt.size, opt.nodes);
    processes = calloc(opt.size, sizeof(*processes));
    polls = calloc(2 + 2 * (size_t)opt.size, sizeof(*polls));
    if (!processes || !polls) {
        say("out of memory");
        return 1;
    }
    rc = open_root();
    if (rc != 0) {
        say("cannot open the rendezvous socket: %s", strerror(-rc));
        return 1;
    }
    polls[0] = (struct pollfd){.fd = open_signals(), .events = POLLIN};
    polls[1] = (struct pollfd){.fd = ut_job_server_fd(server), .events = POLLIN};
    signal(SIGPIPE, SIG_IGN);
    rc = start_job();
    if (rc != 0) {
        say("cannot start %u processes: %s", opt.size, strerror(-rc));
        note_status(1);
        end_job();
    }
    run_job();
    finish_streams();
    ut_job_server_destroy(server);
    free(processes);
    free(polls);
    return worst;
}
