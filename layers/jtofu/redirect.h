/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirects calls in loaded objects to functions of this library, if another library defines the
 * same names earlier in the link order.
 */
#ifndef JT_REDIRECT_H
#define JT_REDIRECT_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

struct jt_redirect {
    const char *name;
    void *to;
};

/* Redirects calls in all objects except this library and objects whose file names begin with
 * `except`. Returns the number of changed addresses. */
int jt_redirect_calls(const struct jt_redirect *functions, size_t num, const char *except);

#pragma GCC visibility pop

#endif
