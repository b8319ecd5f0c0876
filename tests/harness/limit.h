/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failing test ends by itself: a program that includes this header, and each process that it
 * forks, ends with a message when two minutes have passed, times UT_TEST_TIMEOUT_SCALE. Long
 * programs get more from their meson.build: UT_TEST_LIMIT_S.
 */
#ifndef UT_TEST_LIMIT_H
#define UT_TEST_LIMIT_H

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UT_LIMIT_S = 120 };

static inline unsigned int ut_limit_number(const char *name, unsigned int otherwise)
{
    const char *text = getenv(name);
    unsigned long value = text ? strtoul(text, NULL, 0) : 0;

    return value > 0 && value < 1000000 ? (unsigned int)value : otherwise;
}

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
    unsigned int scale = ut_limit_number("UT_TEST_TIMEOUT_SCALE", 1);

#if defined(__SANITIZE_ADDRESS__)
    scale *= 4;
#elif defined(__SANITIZE_THREAD__)
    scale *= 10;
#endif
    alarm(ut_limit_number("UT_TEST_LIMIT_S", UT_LIMIT_S) * scale);
}

static void __attribute__((constructor)) ut_limit_start(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = ut_limit_passed;
    action.sa_flags = (int)SA_NODEFER;
    sigaction(SIGALRM, &action, NULL);
    pthread_atfork(NULL, NULL, ut_limit_begin);
    ut_limit_begin();
}

#endif
