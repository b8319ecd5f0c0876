/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on standard error, one line each: "utofu: LEVEL: [rank R, CATEGORY] text". LOG_CATEGORY
 * in env_table.h lists the categories. utofu_get_last_error() also returns errors and warnings. A
 * message below the level costs one load and one branch. Errors and warnings that repeat are
 * written once and then counted: see rate_limit.h.
 */
#ifndef UT_UTIL_LOG_H
#define UT_UTIL_LOG_H

#include <stdarg.h>
#include <stddef.h>

enum ut_log_level { UT_LOG_NONE, UT_LOG_ERROR, UT_LOG_WARNING, UT_LOG_INFO, UT_LOG_DEBUG };

extern int ut_log_threshold; /* read through the macros */

/* Sets the level from the environment. */
void ut_log_init(void);
/* From now on log lines contain this rank. */
void ut_log_set_rank(unsigned int rank);

void ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Logs a warning about a setting of the user, once. utofu_get_last_error() does not return it. */
void ut_log_note(const char *category, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* If set, called with every warning that the library writes, or would write at another level,
 * except refusals. A repeated warning has the same `fmt`, at the same address. For tools; set
 * before the library starts. */
extern void (*ut_log_warning_hook)(const char *category, const char *fmt, const char *text);

/* A remedy for EMFILE and ENFILE, which a message appends; else "". */
const char *ut_fd_limit_remedy(int error);

/* Records why a public function returns `rc`, for utofu_get_last_error(), and logs the reason at
 * the level. Returns rc. */
int ut_log_refuse(int rc, enum ut_log_level level, const char *category, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

/* The last error or warning of this thread, else of the process, without a code. */
void ut_log_last_error(char *buf, size_t size);

#define ut_log_at(level, category, ...)                                                            \
    do {                                                                                           \
        if (__builtin_expect((level) <= ut_log_threshold || (level) <= UT_LOG_WARNING, 0))         \
            ut_log_write(level, category, __VA_ARGS__);                                            \
    } while (0)

#define ut_error(category, ...) ut_log_at(UT_LOG_ERROR, category, __VA_ARGS__)
#define ut_warn(category, ...)  ut_log_at(UT_LOG_WARNING, category, __VA_ARGS__)
#define ut_info(category, ...)  ut_log_at(UT_LOG_INFO, category, __VA_ARGS__)
#define ut_debug(category, ...) ut_log_at(UT_LOG_DEBUG, category, __VA_ARGS__)

#endif
