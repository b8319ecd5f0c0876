/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes objects that are loaded call functions of this library, whose names other libraries define,
 * too: where the other one comes first in the link order.
 */
#ifndef JT_REDIRECT_H
#define JT_REDIRECT_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

struct jt_redirect {
    const char *name;
    void *to;
};

/* In all objects but this library and those whose file names begin with `except`. Returns how many
 * places were changed. */
int jt_redirect_calls(const struct jt_redirect *functions, size_t num, const char *except);

#pragma GCC visibility pop

#endif
