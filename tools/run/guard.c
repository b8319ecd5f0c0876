/* SPDX-License-Identifier: Apache-2.0 */
#include "run/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t guard;
static int line = -1; /* pipe to the guard for process groups; closed when the launcher ends */

void run_leave_real_time(void)
{
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

    if (policy == SCHED_FIFO || policy == SCHED_RR)
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
}

/* Waits until the launcher has ended, and kills the job's process group; group 0: none. */
static void __attribute__((noreturn)) await_launcher(int fd)
{
    pid_t group = 0, next;
    ssize_t n;

    do {
        n = read(fd, &next, sizeof(next));
        if (n == (ssize_t)sizeof(next))
            group = next;
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (group > 0)
        kill(-group, SIGKILL);
    _exit(0);
}

int run_guard_start(void)
{
    sigset_t all, old;
    int fds[2], error;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    guard = fork();
    error = errno;
    if (guard == 0) {
        /* signals to the launcher's group, session or name do not end the guard */
        setsid();
        prctl(PR_SET_NAME, "tofu-job-guard");
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            if (fd != fds[0])
                close(fd);
        close(fds[1]);
        run_leave_real_time();
        await_launcher(fds[0]);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(fds[0]);
    if (guard < 0) {
        close(fds[1]);
        return -error;
    }
    line = fds[1];
    return 0;
}

void run_guard_set_group(pid_t group)
{
    /* fails if the guard was killed; the job continues without it */
    if (line >= 0 && write(line, &group, sizeof(group)) < 0)
        errno = 0;
}

void run_guard_end(void)
{
    if (line < 0)
        return;
    run_guard_set_group(0);
    close(line);
    line = -1;
    while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
        ;
}
