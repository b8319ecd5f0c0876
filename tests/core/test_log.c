/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: which are written, and how. Each test is a process of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/dump.h"
#include "util/env.h"
#include "util/log.h"
#include "util/rate_limit.h"

TestSuite(log);

static char text[1 << 16];

/* What act() writes to standard error. */
static const char *written_by(void (*act)(void))
{
    char path[] = "/tmp/test_log.XXXXXX";
    int file = mkstemp(path), old = dup(STDERR_FILENO);

    cr_assert(file >= 0 && old >= 0);
    unlink(path);
    dup2(file, STDERR_FILENO);
    act();
    dup2(old, STDERR_FILENO);
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    cr_assert(n >= 0);
    text[n] = '\0';
    close(file);
    close(old);
    return text;
}

static void load(const char *level, const char *category)
{
    char value[100];

    snprintf(value, sizeof(value), "%s%s%s", level, category ? ",category=" : "",
             category ? category : "");
    setenv("UTOFU_LOG_LEVEL", value, 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_log_init();
}

static void log_all(void)
{
    ut_error("link", "an error: %d", 1);
    ut_warn("link", "a warning");
    ut_info("link", "an info");
    ut_info("barrier", "another info");
    ut_debug("link", "a debug line");
}

#define ERROR "utofu: error: [rank ?, link] an error: 1\n"
#define WARN  "utofu: warning: [rank ?, link] a warning\n"
#define INFO  "utofu: info: [rank ?, link] an info\n"
#define OTHER "utofu: info: [rank ?, barrier] another info\n"
#define DEBUG "utofu: debug: [rank ?, link] a debug line\n"

/* By level, and of info and debug by category. */
static void check_lines(const char *level, const char *category, const char *want)
{
    load(level, category);
    cr_assert_str_eq(written_by(log_all), want);
}
Test(log, level_none)
{
    check_lines("none", NULL, "");
}
Test(log, level_error)
{
    check_lines("error", NULL, ERROR);
}
Test(log, level_warn)
{
    check_lines("warning", "barrier", ERROR WARN);
}
Test(log, level_info)
{
    check_lines("info", NULL, ERROR WARN INFO OTHER);
}
Test(log, level_debug)
{
    check_lines("debug", "all", ERROR WARN INFO OTHER DEBUG);
}
Test(log, one_category)
{
    check_lines("debug", "barrier", ERROR WARN OTHER);
}
Test(log, two_categories)
{
    check_lines("info", "vcq,link", ERROR WARN INFO);
}

static void log_with_rank(void)
{
    ut_log_set_rank(0);
    ut_warn("link", "first");
    ut_log_set_rank(12);
    ut_warn("link", "second");
}
Test(log, lines_have_the_rank)
{
    load("warning", NULL);
    cr_assert_str_eq(written_by(log_with_rank), "utofu: warning: [rank 0, link] first\n"
                                                "utofu: warning: [rank 12, link] second\n");
}

/* Lines of 2,000 bytes end before 1,024, with a line end. */
static void log_long(void)
{
    static char long_text[2000];

    memset(long_text, 'x', sizeof(long_text) - 1);
    ut_error("link", "%s", long_text);
}
Test(log, long_lines_are_cut)
{
    load("error", NULL);
    const char *got = written_by(log_long);
    cr_assert(strlen(got) < 1024 && strlen(got) > 400, "%zu", strlen(got));
    cr_assert_eq(strspn(strchr(got, ']') + 2, "x") + (size_t)(strchr(got, ']') + 2 - got) + 1,
                 strlen(got));
    cr_assert_eq(got[strlen(got) - 1], '\n');
}

static unsigned int count(const char *in, const char *what)
{
    unsigned int n = 0;

    for (; (in = strstr(in, what)); in++)
        n++;
    return n;
}

static void repeat_all(void)
{
    for (int i = 0; i < 1000; i++) {
        ut_error("link", "the same error");
        ut_warn("link", "the same warning");
        ut_info("link", "the same info");
    }
}
Test(log, errors_and_warnings_are_counted_when_they_repeat)
{
    load("info", NULL);
    const char *got = written_by(repeat_all);
    cr_assert(count(got, "the same error") < 20, "%u", count(got, "the same error"));
    cr_assert(count(got, "the same warning") < 20);
    cr_assert_eq(count(got, "the same info"), 1000);
    cr_assert(count(got, "times)") > 0);
    cr_assert_eq(count(got, "(1 times)"), 0);
}

static unsigned int hooked;
static void count_hook(const char *category, const char *fmt, const char *line)
{
    cr_assert_str_eq(category, "link");
    cr_assert(strcmp(fmt, "number %d") == 0 && strcmp(line, "number 7") == 0);
    hooked++;
}
static void warn_and_note(void)
{
    ut_error("link", "number %d", 7);
    ut_warn("link", "number %d", 7);
    ut_log_note("link", "number %d", 7);
    ut_info("link", "number %d", 7);
}
Test(log, warnings_are_shown_to_the_hook_at_each_level)
{
    load("none", NULL);
    ut_log_warning_hook = count_hook;
    cr_assert_str_eq(written_by(warn_and_note), "");
    cr_assert_eq(hooked, 2, "the warning and the note");
}

static void refuse(void)
{
    cr_assert_eq(ut_log_refuse(-9, UT_LOG_ERROR, "link", "refused: %s", "why"), -9);
    cr_assert_eq(ut_log_refuse(-8, UT_LOG_DEBUG, "link", "quietly: %s", "why"), -8);
}
Test(log, refusal_is_the_last_error_at_each_level)
{
    char last[512];

    load("error", NULL);
    cr_assert_str_eq(written_by(refuse), "utofu: error: [rank ?, link] refused: why\n");
    ut_log_last_error(last, sizeof(last));
    cr_assert_not_null(strstr(last, "quietly: why"), "%s", last);
}

static void note(void)
{
    ut_log_note("link", "a note");
}
Test(log, note_is_not_the_last_error)
{
    char last[512];

    load("warning", NULL);
    ut_error("link", "before");
    cr_assert_str_eq(written_by(note), "utofu: warning: [rank ?, link] a note\n");
    ut_log_last_error(last, sizeof(last));
    cr_assert_not_null(strstr(last, "before"), "%s", last);
}

Test(log, remedies_of_limits_of_descriptors)
{
    cr_assert_not_null(strstr(ut_fd_limit_remedy(EMFILE), "ulimit -n"));
    cr_assert_not_null(strstr(ut_fd_limit_remedy(ENFILE), "fs.file-max"));
    cr_assert_str_eq(ut_fd_limit_remedy(ENOMEM), "");
}

Test(log, dump_names_a_rank_that_is_known)
{
    char buf[UT_DUMP_RANK];

    cr_assert_str_eq(ut_dump_rank(buf, 0, true), " rank=0");
    cr_assert_str_eq(ut_dump_rank(buf, 7, false), " likely_rank=7");
    cr_assert_str_eq(ut_dump_rank(buf, UINT32_MAX, false), " likely_rank=4294967295");
    cr_assert_str_eq(ut_dump_rank(buf, -1, true), "");
}
