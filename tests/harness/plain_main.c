/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain runner that replaces Criterion's: Criterion maps memory at addresses that ThreadSanitizer
 * reserves, and takes lost memory for a warning. Runs each test in a forked process, one after the
 * other. Supports --filter SUITE/TEST (a glob) and ignores other options. Its definitions override
 * libcriterion's with the same names.
 */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_seconds.h"

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
/* from TestSuite(), which a program may not use */
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

/* of AddressSanitizer: says what was lost */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

void criterion_internal_test_setup(void)
{
}

void criterion_internal_test_teardown(void)
{
}

void criterion_internal_test_main(void (*body)(void))
{
    body();
}

void cri_asserts_passed_incr(void)
{
}

void criterion_abort_test(void)
{
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

void criterion_skip_test(const char *format, ...)
{
    (void)format; /* the reason, which nobody reads here */
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (!stats->passed)
        fprintf(stderr, "%s:%u: assertion failed\n%s\n", stats->file, stats->line, stats->message);
}

void cr_log(enum criterion_severity severity, const char *format, ...)
{
    va_list args;

    if (severity < CR_LOG_WARNING)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static const struct criterion_test_extra_data *suite_data(const char *name)
{
    for (struct criterion_suite **s = __start_cr_sts; s && s < __stop_cr_sts; s++)
        if (*s && strcmp((*s)->name, name) == 0)
            return (*s)->data;
    return NULL;
}

static bool passes(const struct criterion_test *test)
{
    const struct criterion_test_extra_data *suite = suite_data(test->category);
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(ut_test_seconds(660));
        if (suite && suite->init)
            suite->init();
        test->test();
        if (suite && suite->fini)
            suite->fini();
        fflush(NULL);
        _exit(__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()
                  ? EXIT_FAILURE
                  : EXIT_SUCCESS);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static const char *filter_from(int argc, char **argv)
{
    for (int i = 1; i < argc - 1; i++)
        if (strcmp(argv[i], "--filter") == 0)
            return argv[i + 1];
    return "*";
}

int main(int argc, char **argv)
{
    const char *filter = filter_from(argc, argv);
    int tested = 0, failed = 0;

    for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
        char name[256];

        if (*test == NULL)
            continue;
        snprintf(name, sizeof(name), "%s/%s", (*test)->category, (*test)->name);
        if (fnmatch(filter, name, 0) != 0)
            continue;
        tested++;
        if (!passes(*test)) {
            failed++;
            printf("[FAIL] %s\n", name);
        }
    }
    printf("[====] Tested: %d | Passing: %d | Failing: %d\n", tested, tested - failed, failed);
    return failed > 0;
}
