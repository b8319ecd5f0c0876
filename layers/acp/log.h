/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, one line each on standard error. The rank is that of acp_rank(); before acp_init() that
 * of the launcher. */
#ifndef AL_LOG_H
#define AL_LOG_H

#include "ctx.h"

#pragma GCC visibility push(hidden)

#define al_log(...)           lc_log("acp", al.job.log_rank, __VA_ARGS__)
#define al_check_rc(rc, call) lc_check_rc("acp", al.job.log_rank, rc, call)

/* Says why and ends the process, and through the others' watch (watch.c) the job. */
__attribute__((format(printf, 1, 2), noreturn)) void al_fatal(const char *format, ...);

#pragma GCC visibility pop

#endif
