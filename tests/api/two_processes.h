/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of two processes of one node, set up by hand, for programs that replace functions of the C
 * library, and therefore do not use the test harness. Each ends after two minutes at the latest.
 */
#ifndef TESTS_TWO_PROCESSES_H
#define TESTS_TWO_PROCESSES_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank; /* of this process */

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: rank %d: failed: %s\n", __FILE__, __LINE__, rank, #cond);      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void be_process(void (*body)(void), const char *root)
{
    enum { DEADLINE_S = 120 };
    char text[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("UTOFU_RANK", text, 1);
    setenv("UTOFU_LOCAL_RANK", text, 1);
    setenv("UTOFU_SIZE", "2", 1);
    setenv("UTOFU_LOCAL_SIZE", "2", 1);
    setenv("UTOFU_ROOT", root, 1);
    body();
    exit(0);
}

/* Runs `body` as rank 0 and rank 1 of a job; 0: both ended with status 0. */
static int run_two(const char *name, void (*body)(void))
{
    int failed = 0, status;
    pid_t pids[2];
    char root[96];

    snprintf(root, sizeof(root), "unix:@%s-%ld", name, (long)getpid());
    fflush(NULL);
    for (rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank] == 0)
            be_process(body, root);
    }
    for (int left = 2; left > 0; left--) {
        pid_t ended = wait(&status);
        if (ended >= 0 && status == 0)
            continue;
        failed = 1;
        if (left == 2) /* the other process would wait for it */
            kill(pids[ended == pids[0]], SIGKILL);
    }
    return failed;
}

#endif
