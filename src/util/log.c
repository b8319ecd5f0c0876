/* SPDX-License-Identifier: Apache-2.0 */
/* Writes log lines. Uses the environment table and the last error. */
#include "util/log.h"
#include "util/ascii.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/rate_limit.h"
#include "util/last_error.h"
#include "util/write.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

int ut_log_threshold = UT_LOG_WARNING;

/* What the log knows of this process. */
static struct {
    int rank;           /* atomic; -1: unknown. Other threads may log meanwhile */
    pid_t totals_owner; /* in a child made by fork() no line is counted */
    pthread_once_t totals_once;
} process = {.rank = -1, .totals_once = PTHREAD_ONCE_INIT};

void ut_log_init(void)
{
    ut_log_threshold = (int)ut_env_num(UT_ENV_LOG_LEVEL);
}

void ut_log_set_rank(unsigned int rank)
{
    __atomic_store_n(&process.rank, (int)rank, __ATOMIC_RELAXED);
}

static bool category_wanted(const char *category)
{
    const char *list = ut_env_str(UT_ENV_LOG_CATEGORY);
    char item[32];

    while (ut_env_next_item(&list, item, sizeof(item)))
        if (ut_same_word(item, "all") || ut_same_word(item, category))
            return true;
    return false;
}

static void write_line(const char *level, const char *category, const char *text)
{
    char line[LINE_MAX_BYTES], rank_text[16] = "?";
    int rank = __atomic_load_n(&process.rank, __ATOMIC_RELAXED);

    if (rank >= 0)
        snprintf(rank_text, sizeof(rank_text), "%d", rank);
    int n = snprintf(line, sizeof(line), "utofu: %s: [rank %s, %s] %s\n", level, rank_text,
                     category, text);
    if (n >= (int)sizeof(line))
        n = (int)sizeof(line) - 1;
    ut_write_all(STDERR_FILENO, line, (size_t)n);
}

static void log_total(const char *text, uint64_t times)
{
    char line[LINE_MAX_BYTES - 96];

    snprintf(line, sizeof(line), "%llu times in all: %s", (unsigned long long)times, text);
    write_line("warning", "log", line);
}

static void log_totals(void)
{
    if (getpid() == process.totals_owner)
        ut_rate_limit_for_each(log_total);
}

static void register_totals(void)
{
    process.totals_owner = getpid();
    atexit(log_totals);
}

/* False if the rate limit suppresses the line. Adds the count to a repeated line. */
static bool passes_rate_limit(const char *fmt, char *text, size_t size)
{
    uint64_t times;

    if (!ut_rate_limit_allows(fmt, text, ut_now_ms(), &times)) {
        pthread_once(&process.totals_once, register_totals);
        return false;
    }
    if (times > 1) {
        ut_rate_limit_shorten(text);
        size_t n = strlen(text);
        snprintf(text + n, size - n, " (%llu times)", (unsigned long long)times);
    }
    return true;
}

/* Writes a line, unless its level is too low, or it is an info or debug line of another category.
 */
static void write_text(enum ut_log_level level, const char *category, const char *fmt, char *text,
                       size_t size)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};

    if ((int)level > ut_log_threshold)
        return;
    if (level > UT_LOG_WARNING && !category_wanted(category))
        return;
    if (level > UT_LOG_WARNING || passes_rate_limit(fmt, text, size))
        write_line(names[level], category, text);
}

void (*ut_log_warning_hook)(const char *category, const char *fmt, const char *text);

static void call_warning_hook(const char *category, const char *fmt, const char *text)
{
    if (ut_log_warning_hook)
        ut_log_warning_hook(category, fmt, text);
}

void ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    char text[UT_LAST_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (level <= UT_LOG_WARNING)
        ut_last_error_text(0, text);
    if (level == UT_LOG_WARNING)
        call_warning_hook(category, fmt, text);
    write_text(level, category, fmt, text, sizeof(text));
}

void ut_log_note(const char *category, const char *fmt, ...)
{
    char text[UT_LAST_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    call_warning_hook(category, fmt, text);
    write_text(UT_LOG_WARNING, category, fmt, text, sizeof(text));
}

int ut_log_refuse(int rc, enum ut_log_level level, const char *category, const char *fmt, ...)
{
    char text[UT_LAST_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ut_last_error_text(rc, text);
    write_text(level, category, fmt, text, sizeof(text));
    return rc;
}

const char *ut_fd_limit_remedy(int error)
{
    return error == EMFILE   ? "; raise this process's limit of open files (ulimit -n)"
           : error == ENFILE ? "; raise the system's limit of open files (sysctl fs.file-max)"
                             : "";
}

void ut_log_last_error(char *buf, size_t size)
{
    ut_last_error_get(buf, size, false);
}
