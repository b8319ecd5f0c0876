/* SPDX-License-Identifier: Apache-2.0 */
/* For test programs of one process, without the harness. */
#ifndef UT_TEST_CHECK_H
#define UT_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "limit.h"

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
