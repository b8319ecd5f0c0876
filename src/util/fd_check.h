/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program has closed descriptors of this library, as daemons close all numbers from 3 on. One
 * line says so; what needs a closed descriptor fails from then on. Uses fd and log.
 */
#ifndef UT_UTIL_FD_CHECK_H
#define UT_UTIL_FD_CHECK_H

#include <stdbool.h>

/* ut_fd_is_own(); if not, and fd is not negative, logs the loss, once in a process. */
bool ut_fd_check_own(int fd);

/* Has ut_fd_check_own() found a loss? */
bool ut_fd_were_closed(void);

/* How often a thread that sleeps on descriptors looks whether they are still this library's:
 * nothing wakes it if they are not. */
enum { UT_FD_CHECK_MS = 1000 };

/* The timeout of such a sleep, instead of timeout_ms (negative: none). */
static inline int ut_fd_timeout_ms(int timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > UT_FD_CHECK_MS ? UT_FD_CHECK_MS : timeout_ms;
}

#endif
