/* SPDX-License-Identifier: Apache-2.0 */
/* A process that finds an error prints it with `rank`, of the including file, and ends. */
#ifndef UT_TEST_FAIL_H
#define UT_TEST_FAIL_H

#include <stdio.h>
#include <stdlib.h>
#include <utofu.h>

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "rank %d: line %d: ", rank, __LINE__);                                     \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(1);                                                                                   \
    } while (0)
#define OK(call)                                                                                   \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != UTOFU_SUCCESS)                                                                  \
            FAIL("%s returned %d", #call, rc_);                                                    \
    } while (0)

#endif
