/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM at any moment while a process starts, with libfabric in it: the signal ends the process.
 * Usage: terminated [TIMES]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utofu.h>

#include "../harness/limit.h"

enum { DEADLINE_S = 120 };

/* The child: starts as a program does, and reports it. */
static int start_and_wait(void)
{
    utofu_tni_id_t *tnis;
    utofu_vcq_hdl_t vcq;
    size_t num;

    if (utofu_get_onesided_tnis(&tnis, &num) != UTOFU_SUCCESS ||
        utofu_create_vcq(tnis[0], 0, &vcq) != UTOFU_SUCCESS || write(1, "", 1) != 1)
        return 77;
    for (;;)
        pause();
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns in *said the end of a pipe from the child's standard output. */
static pid_t start(const char *self, int *said)
{
    int ends[2];

    if (pipe(ends) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid < 0)
        exit(1);
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(self, self, "child", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    *said = ends[0];
    return pid;
}

static void sleep_s(double s)
{
    struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&t, NULL);
}

/* Returns the child's exit status; -1: it did not end, and was killed. */
static int await_end(pid_t pid)
{
    double until = now_s() + DEADLINE_S;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_s() > until) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        sleep_s(0.001);
    }
    return status;
}

/* Returns the seconds until the child has started; exits with 77 if it cannot. */
static double time_to_start(const char *self)
{
    double begin = now_s();
    char byte;
    int said;
    pid_t pid = start(self, &said);

    ssize_t n = read(said, &byte, 1);
    double end = now_s();
    close(said);
    kill(pid, SIGTERM);
    await_end(pid);
    return n == 1 ? end - begin : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return start_and_wait();
    int times = argc > 1 ? atoi(argv[1]) : 40, wrong = 0;
    double whole = time_to_start(argv[0]);

    if (whole < 0) {
        printf("skipped: the library does not start here\n");
        return 77;
    }
    srand48(getpid());
    for (int i = 0; i < times; i++) {
        int said;
        pid_t pid = start(argv[0], &said);
        sleep_s(drand48() * 1.2 * whole);
        kill(pid, SIGTERM);
        int status = await_end(pid);
        close(said);
        if (status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
            continue;
        wrong++;
        printf("%s\n", status == -1        ? "does not end"
                       : WIFEXITED(status) ? "ends with a status, not by the signal"
                                           : "ends by another signal");
    }
    printf("%d of %d did not end by SIGTERM\n", wrong, times);
    return wrong ? 1 : 0;
}
