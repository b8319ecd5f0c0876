/* SPDX-License-Identifier: Apache-2.0 */
/* Programs started by utofu-perf: each in a process group of its own, so that all of its processes
 * end when utofu-perf does. */
#include "perf.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_MS = 5000 };

static volatile sig_atomic_t caught;
static sigset_t usual;
static void (*clean_up)(void);

static void on_signal(int number)
{
    caught = number;
}

void perf_child_open(void (*clean)(void))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t set;

    clean_up = clean;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaction(signals[i], &action, NULL);
        sigaddset(&set, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &set, &usual); /* delivered while pause_for() waits */
}

/* Waits for input, a signal, or the timeout. */
static void pause_for(int fd, int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ppoll(&p, 1, ms < 0 ? NULL : &t, &usual);
}

static void end_group(pid_t pid)
{
    kill(-pid, SIGTERM);
    for (int ms = 0; ms < GRACE_MS; ms += 10) {
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            kill(-pid, SIGKILL); /* kills remaining children */
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* After a signal, ends all children. */
static void obey(pid_t pid)
{
    if (!caught)
        return;
    end_group(pid);
    clean_up();
    signal(caught, SIG_DFL);
    sigprocmask(SIG_SETMASK, &usual, NULL);
    raise(caught);
}

static pid_t start(const char *const argv[], int *out)
{
    int fds[2];

    if (pipe(fds) != 0)
        party_fail(1, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        party_fail(1, "fork: %s", strerror(errno));
    if (pid == 0) {
        setpgid(0, 0);
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        if (!freopen("/dev/null", "r", stdin))
            _exit(127);
        sigprocmask(SIG_SETMASK, &usual, NULL);
        execvp(argv[0], (char *const *)argv);
        fprintf(stderr, PERF_NAME ": cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    setpgid(pid, pid);
    close(fds[1]);
    *out = fds[0];
    return pid;
}

int perf_child_run(const char *const argv[], void (*line)(char *text, void *arg), void *arg)
{
    char text[1024];
    size_t used = 0;
    int fd, status;
    pid_t pid = start(argv, &fd);

    for (;;) {
        pause_for(fd, -1);
        obey(pid);
        ssize_t n = read(fd, text + used, sizeof(text) - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
        text[used] = '\0';
        char *begin = text, *end;
        while ((end = strchr(begin, '\n'))) {
            *end = '\0';
            line(begin, arg);
            begin = end + 1;
        }
        used -= (size_t)(begin - text);
        memmove(text, begin, used);
        if (used == sizeof(text) - 1)
            used = 0; /* not a line of the program */
    }
    close(fd);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        pause_for(-1, 5);
        obey(pid);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
