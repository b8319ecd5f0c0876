/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects that the program has closed descriptors of this library, as daemons do that close all
 * numbers from 3 on. One line is logged; whatever needs a closed descriptor fails from then on.
 * Uses fd and log.
 */
#ifndef UT_UTIL_FD_CHECK_H
#define UT_UTIL_FD_CHECK_H

#include <stdbool.h>

/* Returns ut_fd_is_still_ours(). If false, and fd is not negative, logs once that the program has
 * closed descriptors. */
bool ut_fd_check_still_ours(int fd);

/* Has ut_fd_check_still_ours() found a closed descriptor? */
bool ut_fd_were_closed(void);

/* Interval at which a thread that sleeps on descriptors checks them, because nothing wakes it after
 * the program has closed them. */
enum { UT_FD_CHECK_MS = 1000 };

/* The timeout for such a sleep, at most UT_FD_CHECK_MS. timeout_ms negative: none. */
static inline int ut_fd_timeout_ms(int timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > UT_FD_CHECK_MS ? UT_FD_CHECK_MS : timeout_ms;
}

#endif
