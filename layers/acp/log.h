/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines on standard error. The rank in them is the rank of acp_rank(), or the launcher rank
 * before acp_init(). */
#ifndef AL_LOG_H
#define AL_LOG_H

#include "ctx.h"

#pragma GCC visibility push(hidden)

#define al_log(...)           lc_log("acp", al.job.log_rank, __VA_ARGS__)
#define al_check_rc(rc, call) lc_check_rc("acp", al.job.log_rank, rc, call)

/* Logs the reason and ends this process; the others end through their watch (watch.c). */
__attribute__((format(printf, 1, 2), noreturn)) void al_fatal(const char *format, ...);

#pragma GCC visibility pop

#endif
