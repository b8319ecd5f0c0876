/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofurun -n N [--nodes K] [--bind HOW] program args...
 *
 * Starts N processes of one machine as one job, without any MPI. One loop over file descriptors: a
 * signalfd, the rendezvous server and, with --tag-output, the output of the processes.
 */
#include "bootstrap/ops.h"
#include "bootstrap/root.h"
#include "bootstrap/server.h"
#include "output.h"
#include "run/cores.h"
#include "run/guard.h"
#include "run/mpi.h"
#include "run/nodes.h"
#include "run/sink.h"

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
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/layout.h"
#include "util/clock.h"

enum {
    STATUS_USAGE = 2,
    STATUS_TIMEOUT = 124,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* plus the signal's number */
    GRACE_MS = 3000,     /* between SIGTERM and SIGKILL */
    SIZE_MAX_LOCAL = 65536,
    LINE_MAX_BYTES = 16384, /* maximum length; a longer line is passed on in pieces */
};

/* The descriptors of the loop. */
enum { POLL_SIGNALS, POLL_SERVER, POLL_EXEC, POLL_SINKS, POLL_STREAMS = POLL_SINKS + 2 };

/* An output of a process that is passed on line by line. */
struct stream {
    int fd;
    struct run_sink *to;
    bool ended;  /* at the end of its data */
    size_t left; /* bytes left to read */
    size_t used;
    char line[LINE_MAX_BYTES];
};

struct process {
    pid_t pid; /* 0: has ended */
    struct stream *out, *err;
};

enum binding { BIND_WHERE_ENOUGH, BIND_CORE, BIND_NONE };

struct options {
    uint32_t size, nodes, timeout_s;
    enum binding binding;
    bool tag_output, share_ipc;
    char **command;
};

static struct options opt = {.nodes = 1};
static struct process *processes;
static struct ut_job_layout layout;
static struct ut_job_server *server;
static struct pollfd *polls; /* from POLL_STREAMS on, two per process */
static nfds_t num_polls;
static struct run_sink sinks[2], *sink_out = &sinks[0], *sink_err = &sinks[1];
static pid_t group; /* process group of the job */
static uint32_t running;
static int worst;
static bool terminal;   /* the job is the terminal's foreground group in place of utofurun */
static bool ending;     /* the remaining processes are being killed */
static bool over;       /* all processes have ended: signals are not passed on */
static bool gave_up;    /* their output is not waited for, either */
static int forwarded;   /* the last forwarded signal that may end processes */
static int64_t kill_at; /* time of SIGKILL; 0: not set */
static sigset_t old_mask;
static struct rlimit old_files;
static struct run_core *cores; /* rank i runs on cores[i]; NULL: not bound */

static const int watched[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGALRM, SIGCONT, SIGTSTP, SIGWINCH};

static void print_help(void)
{
    printf("Usage: utofurun -n N [options] program [arguments]\n"
           "Starts N processes on this machine as one uTofu job, without MPI.\n\n"
           "  -n, -np, --np N    number of processes\n"
           "      --bind HOW     core: each process on a core of its own, with all its\n"
           "                     hyperthreads; none: where the system puts it. Default:\n"
           "                     core, if there are two processes or more and a core for\n"
           "                     each that no other job of utofurun has; else none\n"
           "      --nodes K      simulate K nodes: ranks are put on them in blocks\n"
           "                     (default 1), each with System V IPC and /dev/shm of its\n"
           "                     own, where the user may: namespaces, as root or by a user\n"
           "                     namespace; a line says where not\n"
           "      --share-ipc    with --nodes: the nodes share these\n"
           "      --timeout S    end the job after S seconds, with status 124\n"
           "      --tag-output   start every line of output with the rank: \"[3] \"\n"
           "  -h, --help         print this text\n"
           "  -V, --version      print the version\n\n"
           "Standard input goes to rank 0. Signals are passed on. When a process fails, the\n"
           "others are ended and utofurun says which one it was. When utofurun itself is\n"
           "killed, even by SIGKILL, so is the job, with all that it started in its process\n"
           "group. Nobody waits for a reader that takes no output: signals and --timeout\n"
           "work all the same, and what is not read 3 seconds after a failure is lost.\n\n"
           "On several hosts mpirun or srun starts the same program, without MPI in it:\n"
           "docs/guide/hosts.md shows how, and how without either.\n\n"
           "Threads of a process stay on its core, the library's own among them: --bind none\n"
           "is for programs that compute with several threads. Only cores count that\n"
           "utofurun itself may use (taskset, cpuset of a container).\n\n"
           "A real-time policy (chrt -f 10 utofurun ...) is for the processes: utofurun\n"
           "itself waits as an ordinary process.\n\n"
           "A program that is linked with an MPI library is for mpirun: utofurun says so,\n"
           "and starts it all the same.\n\n"
           "Variables set for the processes:\n"
           "  UTOFU_RANK         rank of the process, from 0\n"
           "  UTOFU_SIZE         number of processes, N\n"
           "  UTOFU_NODE         number of its node: 0, or what --nodes makes of it\n"
           "  UTOFU_LOCAL_RANK   its place among the processes of that node, from 0\n"
           "  UTOFU_LOCAL_SIZE   number of processes of that node\n"
           "  UTOFU_ROOT         unix socket where the processes meet, served by utofurun:\n"
           "                     unix:@utofurun.PID.NUMBER,nodes=K\n"
           "  UTOFU_JOB_KEY      random key of the job, without which nobody is let in\n\n"
           "Exit status: the worst of the processes' (128 + number for a signal), 1 if the\n"
           "processes cannot be started or their output cannot be passed on, 2 for wrong\n"
           "usage, 124 after --timeout, 127 if the program cannot be run.\n");
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

static enum binding read_binding(const char *text)
{
    if (strcmp(text, "core") != 0 && strcmp(text, "none") != 0)
        usage_error("--bind takes core or none, not '%s'", text);
    return strcmp(text, "core") == 0 ? BIND_CORE : BIND_NONE;
}

/* As in mpirun, -np N means --np N. Without this, it would be -n with the value "p". */
static void rename_np(int argc, char **argv)
{
    static char long_form[] = "--np";

    for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-np") == 0)
            argv[i] = long_form;
        if (strcmp(argv[i], "-n") == 0 ||
            (strncmp(argv[i], "--", 2) == 0 && !strchr(argv[i], '=') &&
             strcmp(argv[i], "--tag-output") != 0 && strcmp(argv[i], "--share-ipc") != 0))
            i++; /* skips the value */
    }
}

static void __attribute__((noreturn)) refuse_option(const char *word)
{
    static const char *const of_hosts[] = {"-H", "--host",
                                           "--machinefile"}; /* also how they begin */

    for (size_t i = 0; i < sizeof(of_hosts) / sizeof(of_hosts[0]); i++)
        if (strncmp(word, of_hosts[i], strlen(of_hosts[i])) == 0)
            usage_error(
                "%s: utofurun starts processes of one machine only; on several hosts mpirun "
                "--host a,b, mpiexec -hosts a,b or srun -N 2 --mpi=pmix starts the same "
                "program (docs/guide/hosts.md)",
                word);
    usage_error("unknown option %s", word);
}

static void read_options(int argc, char **argv)
{
    enum { NODES = 256, TIMEOUT, TAG_OUTPUT, BIND, SHARE_IPC };
    static const struct option longs[] = {
        {"np", required_argument, NULL, 'n'},
        {"bind", required_argument, NULL, BIND},
        {"nodes", required_argument, NULL, NODES},
        {"timeout", required_argument, NULL, TIMEOUT},
        {"tag-output", no_argument, NULL, TAG_OUTPUT},
        {"share-ipc", no_argument, NULL, SHARE_IPC},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int o;

    opterr = 0;
    rename_np(argc, argv);
    while ((o = getopt_long(argc, argv, "+:n:hV", longs, NULL)) != -1) {
        switch (o) {
        case 'n':
            opt.size = read_number("-n", optarg, SIZE_MAX_LOCAL);
            break;
        case BIND:
            opt.binding = read_binding(optarg);
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
        case SHARE_IPC:
            opt.share_ipc = true;
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
            refuse_option(argv[optind - 1]);
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

/* ---- utofurun's own output ---- */

/* If two descriptors refer to one pipe, they get one buffer, because lines must not mix. */
static void open_sinks(void)
{
    struct stat out, err;

    run_sink_open(sink_out, STDOUT_FILENO);
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
        out.st_dev == err.st_dev && out.st_ino == err.st_ino && !S_ISREG(out.st_mode))
        sink_err = sink_out;
    else
        run_sink_open(sink_err, STDERR_FILENO);
}

/* Does not wait for the reader of standard error, because signals and --timeout must be handled. */
static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
    char text[1024] = "utofurun: ";
    size_t n = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - n - 1, fmt, ap);
    va_end(ap);
    strcat(text, "\n");
    run_sink_add(sink_err, text, strlen(text));
    run_sink_flush(sink_err);
}

/* ---- before the processes start ---- */

static void say_rejection(long uid, long pid)
{
    say("rejected a connection from uid %ld (pid %ld): utofurun runs as uid %ld (start all ranks "
        "as "
        "the same user; a program that changes its user calls the library before)",
        uid, pid, (long)geteuid());
}

/* Opens the rendezvous and puts it into the environment, with a key. The name cannot be guessed; a
 * connection of another user, or without the key, would be refused in any case. */
static int open_root(void)
{
    struct ut_job_root root;
    unsigned char random[8];
    char text[96], key_text[UT_KEY_TEXT];
    struct ut_key key;
    int rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -EIO;
    int n = snprintf(text, sizeof(text), "unix:@utofurun.%d.", (int)getpid());
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", random[i]);
    snprintf(text + n, sizeof(text) - (size_t)n, ",nodes=%u", opt.nodes);
    rc = ut_job_root_parse(&root, text);
    if (rc == 0)
        rc = ut_key_make(key_text);
    if (rc == 0)
        rc = ut_key_parse(key_text, &key);
    if (rc == 0)
        rc = ut_job_server_create(&server, &root, opt.size, &key);
    if (rc == 0)
        ut_job_server_on_rejection(server, say_rejection);
    if (rc == 0 &&
        (setenv("UTOFU_ROOT", text, 1) != 0 || setenv("UTOFU_JOB_KEY", key_text, 1) != 0))
        rc = -ENOMEM;
    return rc;
}

/* Each process needs one connection and two pipes; the processes get the old limit back. */
static void raise_file_limit(void)
{
    struct rlimit more;

    if (getrlimit(RLIMIT_NOFILE, &old_files) != 0)
        return;
    more = old_files;
    more.rlim_cur = more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
}

/* Chooses a core for each process, or none: bound processes that wait for each other never share a
 * core, and never move. With more processes than cores they share cores in any case, and a single
 * process waits for nobody. */
static void choose_cores(void)
{
    union run_cpus allowed;

    if (opt.binding == BIND_NONE || (opt.binding == BIND_WHERE_ENOUGH && opt.size < 2))
        return;
    int rc = run_cpus_allowed(&allowed);
    if (rc == 0)
        rc = run_cores_find("/sys/devices/system/cpu", &allowed, &cores);
    if (opt.binding == BIND_CORE && rc < 0)
        usage_error("--bind core: cannot find the cores: %s", strerror(-rc));
    if (opt.binding == BIND_CORE && (uint32_t)rc < opt.size)
        usage_error("--bind core: %u processes, and %d core%s that may be used; use --bind none",
                    opt.size, rc, rc == 1 ? "" : "s");
    if (rc >= (int)opt.size &&
        (run_cores_reserve(cores, (uint32_t)rc, opt.size) || opt.binding == BIND_CORE))
        return;
    free(cores);
    cores = NULL;
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        sigaddset(&set, watched[i]);
    /* giving the terminal to the job must not stop utofurun */
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

/* The pipes between utofurun and the processes that it starts. */
struct start_pipes {
    int report[2]; /* for an error of exec */
    int go[2];     /* utofurun closes it when all processes exist: then they run their program */
};

static void await_go(const struct start_pipes *pipes)
{
    char none;

    close(pipes->go[1]);
    while (read(pipes->go[0], &none, 1) < 0 && errno == EINTR)
        ;
}

/* Runs in the child; never returns. */
static void __attribute__((noreturn))
run_program(uint32_t rank, pid_t parent, int out, int err, const struct start_pipes *pipes)
{
    int error;

    int rc = run_nodes_enter(); /* before the signal of its parent's death is set */
    if (rc != 0)
        fprintf(stderr, "utofurun: rank %u is not on a node of its own: %s\n", rank, strerror(-rc));
    setpgid(0, group);
    if (group == 0) /* its children may exist before utofurun sets the group */
        run_guard_set_group(getpid());
    /* any end of utofurun, even by SIGKILL, ends the job */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    await_go(pipes);
    if (getppid() != parent)
        _exit(STATUS_SIGNAL + SIGKILL);
    set_environment(rank);
    if (cores && sched_setaffinity(0, sizeof(cores[rank].cpus), &cores[rank].cpus.set) != 0)
        fprintf(stderr, "utofurun: rank %u is not bound to a core: %s\n", rank, strerror(errno));
    redirect(rank, out, err);
    setrlimit(RLIMIT_NOFILE, &old_files);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    execvp(opt.command[0], opt.command);
    error = errno;
    if (write(pipes->report[1], &error, sizeof(error)) < 0)
        perror("utofurun");
    _exit(STATUS_NOT_FOUND);
}

static struct stream *open_stream(struct run_sink *to, int pipe_fds[2])
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
    s->ended = false;
    s->left = SIZE_MAX;
    s->used = 0;
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    return s;
}

static int start_process(uint32_t rank, const struct start_pipes *pipes)
{
    struct process *p = &processes[rank];
    pid_t parent = getpid();
    int out[2], err[2], rc = 0;

    p->out = open_stream(sink_out, out);
    p->err = open_stream(sink_err, err);
    p->pid = fork();
    if (p->pid == 0)
        run_program(rank, parent, out[1], err[1], pipes);
    if (p->pid < 0) {
        rc = -errno;
        p->pid = 0;
    } else {
        if (group == 0) {
            group = p->pid;
            run_guard_set_group(group);
        }
        /* here and in the child, whichever is first */
        setpgid(p->pid, group);
        running++;
    }
    if (out[1] >= 0)
        close(out[1]);
    if (err[1] >= 0)
        close(err[1]);
    return rc;
}

/* ---- ending the job ---- */

static void end_job(void)
{
    if (ending || over || group == 0)
        return;
    ending = true;
    kill_at = ut_clock_ms() + GRACE_MS;
    kill(-group, SIGTERM);
    kill(-group, SIGCONT); /* a stopped process would not handle it */
}

static void note_status(int status)
{
    if (status > worst)
        worst = status;
}

/* The first failing process is named and ends the others; processes that end by forwarded signals
 * do not count as failing. */
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

/* A process of the job was stopped from the terminal (Ctrl-Z): stops with it, as the shell expects,
 * and later continues the job. */
static void stop_with_job(void)
{
    if (terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    kill(-group, SIGSTOP);
    raise(SIGSTOP);
    /* the shell's fg gives the terminal to utofurun, its bg does not */
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

/* Only utofurun and its reader are left. */
static void handle_last_signal(int sig)
{
    if (sig == SIGTSTP) {
        raise(SIGSTOP);
    } else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT) {
        note_status(STATUS_SIGNAL + sig);
        gave_up = true;
    }
}

static void handle_signal(int sig)
{
    if (over) {
        handle_last_signal(sig);
        return;
    }
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

static void flush_sink(struct run_sink *sink)
{
    int rc = run_sink_flush(sink);

    if (rc == 0 || !opt.tag_output)
        return;
    /* the output has no reader: the usual end of a writer */
    note_status(rc == -EPIPE ? STATUS_SIGNAL + SIGPIPE : 1);
    if (rc != -EPIPE)
        say("cannot write the output of the job: %s; ending it", strerror(-rc));
    end_job();
}

static void write_line(const struct stream *s, uint32_t rank, const char *line, size_t n)
{
    char text[LINE_MAX_BYTES + 32];
    size_t tag = (size_t)snprintf(text, sizeof(text), "[%u] ", rank);

    memcpy(text + tag, line, n);
    n += tag;
    if (text[n - 1] != '\n')
        text[n++] = '\n';
    run_sink_add(s->to, text, n);
    flush_sink(s->to);
}

/* Writes lines until the reader accepts no more; each with one write, if possible. */
static void pass_lines(struct stream *s, uint32_t rank)
{
    size_t at = 0;

    while (at < s->used && s->to->used == 0) {
        const char *line = s->line + at, *newline = memchr(line, '\n', s->used - at);
        size_t n = newline ? (size_t)(newline - line) + 1 : s->used - at;
        if (!newline && !s->ended && n < sizeof(s->line))
            break;
        write_line(s, rank, line, n);
        at += n;
    }
    s->used -= at;
    memmove(s->line, s->line + at, s->used);
}

/* Reads once: a process that writes without end must not delay the handling of signals. */
static void read_stream(struct stream *s)
{
    size_t n = sizeof(s->line) - s->used;
    ssize_t got;

    n = n < s->left ? n : s->left;
    got = n > 0 ? read(s->fd, s->line + s->used, n) : 0;
    if (got > 0) {
        s->used += (size_t)got;
        s->left -= over ? (size_t)got : 0;
    } else if (got == 0 || over || (errno != EAGAIN && errno != EINTR)) {
        s->ended = true;
    }
}

/* While the reader accepts nothing, the processes wait as if they wrote to it directly. */
static void pass_on(struct stream **stream, uint32_t rank, bool readable)
{
    struct stream *s = *stream;

    if (!s || s->to->used > 0)
        return;
    pass_lines(s, rank); /* makes room, unless the reader is slow */
    if (readable && !s->ended && s->to->used == 0) {
        read_stream(s);
        pass_lines(s, rank);
    }
    if (s->ended && s->used == 0) {
        close(s->fd);
        free(s);
        *stream = NULL;
    }
}

static void pass_output(void)
{
    flush_sink(sink_out);
    if (sink_err != sink_out)
        flush_sink(sink_err);
    for (uint32_t r = 0; opt.tag_output && r < opt.size; r++) {
        const struct pollfd *p = &polls[POLL_STREAMS + 2 * r];
        pass_on(&processes[r].out, r, over || p[0].revents);
        pass_on(&processes[r].err, r, over || p[1].revents);
    }
}

static bool has_output(void)
{
    bool some = sink_out->used > 0 || sink_err->used > 0;

    for (uint32_t r = 0; opt.tag_output && r < opt.size && !some; r++)
        some = processes[r].out || processes[r].err;
    return some;
}

static struct pollfd poll_stream(const struct stream *s)
{
    return (struct pollfd){.fd = s && !s->ended && s->to->used == 0 ? s->fd : -1, .events = POLLIN};
}

static void set_polls(void)
{
    for (int i = 0; i < 2; i++)
        polls[POLL_SINKS + i] =
            (struct pollfd){.fd = sinks[i].used > 0 ? sinks[i].fd : -1, .events = POLLOUT};
    for (uint32_t r = 0; opt.tag_output && r < opt.size; r++) {
        polls[POLL_STREAMS + 2 * r] = poll_stream(processes[r].out);
        polls[POLL_STREAMS + 2 * r + 1] = poll_stream(processes[r].err);
    }
}

/* ---- the job ---- */

/* An error of exec arrives on the pipe; exec itself closes it. Not waited for: a process with a
 * real-time policy may keep the next one from its core. */
static void read_exec_report(void)
{
    struct pollfd *report = &polls[POLL_EXEC];
    int error;

    if (read(report->fd, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
        say("cannot run '%s': %s", opt.command[0], strerror(error));
        note_status(STATUS_NOT_FOUND);
        end_job();
    }
    close(report->fd);
    report->fd = -1;
}

static bool is_in_shm(const char *path)
{
    return path && strncmp(path, "/dev/shm/", strlen("/dev/shm/")) == 0;
}

/* A program in /dev/shm, or with its files there, would not find them any more. */
static bool uses_shm(void)
{
    char *cwd = getcwd(NULL, 0);
    bool uses = is_in_shm(cwd) || is_in_shm(opt.command[0]) || is_in_shm(getenv("TMPDIR"));

    free(cwd);
    return uses;
}

static void say_shared(int rc)
{
    say("the nodes share System V IPC and /dev/shm, as there are no namespaces for them: %s "
        "(--share-ipc: without this line)",
        strerror(-rc));
}

static void begin_nodes(void)
{
    bool hides_shm = !uses_shm();

    if (opt.nodes < 2 || opt.share_ipc)
        return;
    int rc = run_nodes_begin(hides_shm);
    if (rc != 0)
        say_shared(rc);
    else if (!hides_shm)
        say("the nodes share /dev/shm: the program, its folder or TMPDIR is there");
}

/* The processes of a node are forked one after the other. */
static int start_all(const struct start_pipes *pipes)
{
    struct ut_job_place place, before = {.node = UINT32_MAX};
    int rc = 0;

    begin_nodes();
    for (uint32_t rank = 0; rank < opt.size && rc == 0; rank++) {
        ut_job_layout_place(&layout, rank, &place);
        int no_node = place.node != before.node ? run_nodes_next() : 0;
        if (no_node != 0)
            say_shared(no_node);
        before = place;
        rc = start_process(rank, pipes);
    }
    run_nodes_end();
    return rc;
}

static int start_job(void)
{
    struct start_pipes pipes;
    int rc;

    terminal = in_foreground();
    if (pipe2(pipes.report, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(pipes.go, O_CLOEXEC) != 0) {
        rc = -errno;
        close(pipes.report[0]);
        close(pipes.report[1]);
        return rc;
    }
    rc = start_all(&pipes);
    close(pipes.report[1]);
    if (terminal && group)
        tcsetpgrp(STDIN_FILENO, group);
    run_leave_real_time(); /* before a program can spin on this core */
    close(pipes.go[0]);
    close(pipes.go[1]);
    polls[POLL_EXEC] = (struct pollfd){.fd = pipes.report[0], .events = POLLIN};
    return rc;
}

/* The timeout of the loop: the time limit, or the end of the grace period. */
static int next_timeout(int64_t limit)
{
    int64_t when = kill_at ? kill_at : limit;

    return when ? ut_job_left_ms(when) : -1;
}

static void say_who_is_left(void)
{
    uint32_t rank = 0;

    while (rank < opt.size && !processes[rank].pid)
        rank++;
    if (rank < opt.size)
        say("%u %s not ended within %d s after SIGTERM (the first: rank %u, pid %d); killing the "
            "job",
            running, running == 1 ? "process has" : "processes have", GRACE_MS / 1000, rank,
            (int)processes[rank].pid);
}

static void check_times(int64_t *limit)
{
    int64_t now = ut_clock_ms();

    if (*limit && now >= *limit && !ending) {
        say("the job has not ended within %u seconds; ending it", opt.timeout_s);
        note_status(STATUS_TIMEOUT);
        end_job();
    }
    if (kill_at && now >= kill_at) {
        say_who_is_left();
        kill(-group, SIGKILL);
        *limit = kill_at = 0;
    }
}

static void step(int64_t limit)
{
    set_polls();
    if (poll(polls, num_polls, next_timeout(ending ? 0 : limit)) > 0) {
        if (polls[POLL_EXEC].revents)
            read_exec_report(); /* before the end of that process is seen */
        read_signals(polls[POLL_SIGNALS].fd);
        if (polls[POLL_SERVER].revents)
            ut_job_server_step(server, 0);
    }
    pass_output();
}

static void run_job(int64_t *limit)
{
    while (running > 0) {
        step(*limit);
        check_times(limit);
    }
    /* kills what is left of a failed job, such as children of the processes */
    if (ending)
        kill(-group, SIGKILL);
    run_guard_end();
    if (terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
}

/* A remaining child of a program may keep the pipes open, and write: only what they contain now is
 * passed on. */
static void stop_reading_at_end(struct stream *s)
{
    int n = 0;

    if (s)
        s->left = ioctl(s->fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* Waits for the reader of the output as a writer does, but not for long if the job has failed. */
static void finish_output(int64_t limit)
{
    bool failed = ending;

    over = true;
    ending = false;
    kill_at = 0;
    if (failed)
        limit = ut_clock_ms() + GRACE_MS;
    for (uint32_t r = 0; r < opt.size; r++) {
        stop_reading_at_end(processes[r].out);
        stop_reading_at_end(processes[r].err);
    }
    pass_output();
    int64_t patience = failed ? 0 : (int64_t)ut_clock_ms() + GRACE_MS;
    while (has_output() && !gave_up) {
        step(patience && (!limit || patience < limit) ? patience : limit);
        if (patience && (int64_t)ut_clock_ms() >= patience) {
            if (has_output() && sink_err->used == 0) /* else it has no reader */
                say("the job has ended; the end of its output waits for somebody to read it");
            patience = 0;
        }
        if (limit && (int64_t)ut_clock_ms() >= limit && has_output()) {
            say("nobody has read the end of the output; it is lost");
            note_status(failed ? 0 : STATUS_TIMEOUT);
            gave_up = true;
        }
    }
}

/* Only a warning: a program may decide at run time whether it calls MPI_Init. */
static void warn_of_mpi(void)
{
    char library[64];

    if (run_mpi_library(opt.command[0], library, sizeof(library)))
        say("warning: %s is linked with %s: use mpirun; with utofurun each process is an MPI job "
            "of its own",
            opt.command[0], library);
}

int main(int argc, char **argv)
{
    int64_t limit;
    int rc;

    tool_output_open("utofurun");
    read_options(argc, argv);
    choose_cores();
    raise_file_limit();
    ut_job_layout_alloc(&layout, opt.size, opt.nodes);
    processes = calloc(opt.size, sizeof(*processes));
    num_polls = POLL_STREAMS + (opt.tag_output ? 2 * (nfds_t)opt.size : 0);
    polls = calloc(num_polls, sizeof(*polls));
    open_sinks();
    if (!processes || !polls) {
        say("out of memory");
        return 1;
    }
    warn_of_mpi();
    rc = open_root();
    if (rc != 0) {
        say("cannot open the rendezvous socket: %s", strerror(-rc));
        return 1;
    }
    polls[POLL_SIGNALS] = (struct pollfd){.fd = open_signals(), .events = POLLIN};
    polls[POLL_SERVER] = (struct pollfd){.fd = ut_job_server_fd(server), .events = POLLIN};
    polls[POLL_EXEC].fd = -1;
    signal(SIGPIPE, SIG_IGN);
    limit = opt.timeout_s ? ut_clock_ms() + (int64_t)opt.timeout_s * 1000 : 0;
    rc = run_guard_start();
    if (rc == 0)
        rc = start_job();
    if (rc != 0) {
        say("cannot start %u processes: %s", opt.size, strerror(-rc));
        note_status(1);
        end_job();
    }
    run_job(&limit);
    finish_output(limit);
    ut_job_server_destroy(server);
    free(processes);
    free(polls);
    free(cores);
    return worst;
}
