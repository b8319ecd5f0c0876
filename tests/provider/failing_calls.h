/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the functions under test of which one fails, and blocks of memory that they have. To be
 * included once, behind all other headers.
 */
#ifndef UT_TEST_FAILING_CALLS_H
#define UT_TEST_FAILING_CALLS_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { NONE = -1 };

static int fail_at = NONE; /* this many calls succeed before; NONE: no call fails */
static char failed_call[64];
static int blocks;

/* True for the call that fails, with errno ENOMEM. */
static bool fails(const char *call)
{
    if (fail_at == NONE || fail_at-- > 0)
        return false;
    snprintf(failed_call, sizeof(failed_call), "%s", call);
    errno = ENOMEM;
    return true;
}

static void *get_memory(size_t count, size_t size)
{
    if (fails("calloc"))
        return NULL;
    blocks++;
    return calloc(count, size);
}

static void give_memory(void *at)
{
    blocks -= at != NULL;
    free(at);
}

#endif
