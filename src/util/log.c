/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines and the last error; uses the environment table alone. */
#include "util/log.h"
#include "util/env.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

int ut_log_threshold = UT_LOG_ERROR;

static int own_rank = -1; /* not known yet; other threads may write lines meanwhile */
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_of_process[LINE_MAX_BYTES];
static __thread char last_of_thread[LINE_MAX_BYTES];

void ut_log_init(void)
{
    ut_log_threshold = (int)ut_env_num(UT_ENV_LOG_LEVEL);
}

void ut_log_set_rank(unsigned int rank)
{
    __atomic_store_n(&own_rank, (int)rank, __ATOMIC_RELAXED);
}

static int category_wanted(const char *category)
{
    const char *list = ut_env_str(UT_ENV_LOG_CATEGORY);
    size_t len = strlen(category);

    for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        size_t n = strcspn(p, ",");
        if ((n == 3 && strncmp(p, "all", 3) == 0) || (n == len && strncmp(p, category, n) == 0))
            return 1;
    }
    return 0;
}

void ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    char text[LINE_MAX_BYTES - 96], line[LINE_MAX_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (level <= UT_LOG_WARNING) {
        memcpy(last_of_thread, text, sizeof(text));
        pthread_mutex_lock(&last_lock);
        memcpy(last_of_process, text, sizeof(text));
        pthread_mutex_unlock(&last_lock);
    }
    if ((int)level > ut_log_threshold)
        return;
    if (level > UT_LOG_WARNING && !category_wanted(category))
        return;
    char rank_text[16] = "?";
    int rank = __atomic_load_n(&own_rank, __ATOMIC_RELAXED);
    if (rank >= 0)
        snprintf(rank_text, sizeof(rank_text), "%d", rank);
    int n = snprintf(line, sizeof(line), "utofu: %s: [rank %s, %s] %s\n", names[level], rank_text,
                     category, text);
    if (n >= (int)sizeof(line))
        n = (int)sizeof(line) - 1;
    /* one write: lines of several processes and threads do not mix */
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}

void ut_log_last_error(char *buf, size_t size)
{
    if (last_of_thread[0]) {
        snprintf(buf, size, "%s", last_of_thread);
        return;
    }
    pthread_mutex_lock(&last_lock);
    snprintf(buf, size, "%s", last_of_process);
    pthread_mutex_unlock(&last_lock);
}
