/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failing test ends by itself: a program that includes this header, and each process that it
 * forks, ends with a message when two minutes have passed, times UT_TEST_TIMEOUT_SCALE. Long
 * programs get more from their meson.build: UT_TEST_LIMIT_S. Criterion's programs have
 * criterion_limit.c.
 */
#ifndef UT_TEST_LIMIT_H
#define UT_TEST_LIMIT_H

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "test_seconds.h"

#ifndef UT_LIMIT_S
#    define UT_LIMIT_S 120
#endif

static void ut_limit_passed(int number)
{
    static const char text[] = "this test waits for ever: it is ended by its limit (limit.h)\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

static void ut_limit_begin(void)
{
    alarm(ut_test_seconds(UT_LIMIT_S));
}

static void __attribute__((constructor)) ut_limit_start(void)
{
    struct sigaction action;

#ifdef UT_LIMIT_ONLY_WITH
    if (!getenv(UT_LIMIT_ONLY_WITH))
        return;
#endif
    memset(&action, 0, sizeof(action));
    action.sa_handler = ut_limit_passed;
    action.sa_flags = (int)SA_NODEFER;
    sigaction(SIGALRM, &action, NULL);
    pthread_atfork(NULL, NULL, ut_limit_begin);
    ut_limit_begin();
}

#endif
