/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, one line each on standard error. */
#ifndef AL_LOG_H
#define AL_LOG_H

#include "../common/log.h"

#pragma GCC visibility push(hidden)

__attribute__((format(printf, 1, 2))) void al_log(const char *format, ...);
#define al_utofu_error lc_utofu_error
/* Of a call that uTofu does not refuse, as what it gets is this layer's own: else a line says so.
 */
void al_expect(int rc, const char *call);

/* Says why and ends the process, and through the others' watch (watch.c) the job. */
__attribute__((format(printf, 1, 2), noreturn)) void al_fatal(const char *format, ...);

#pragma GCC visibility pop

#endif
