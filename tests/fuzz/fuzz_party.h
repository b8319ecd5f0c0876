/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces tools/perf/party.c: where utofu-perf would end, continues after setjmp(end). */
#ifndef FUZZ_PARTY_H
#define FUZZ_PARTY_H

#include <setjmp.h>

static jmp_buf end;

void party_fail(int status, const char *fmt, ...)
{
    (void)fmt;
    longjmp(end, 1 + status);
}

void party_usage_error(const char *program, const char *fmt, ...)
{
    (void)program, (void)fmt;
    longjmp(end, 1);
}

#endif
