/* SPDX-License-Identifier: Apache-2.0 */
/* A CHECK for programs that run on two hosts, without the test harness. */
#ifndef UT_RXE_CHECK_H
#define UT_RXE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* The including program defines an int rank. */
#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("rank %d: line %d: %s: ", rank, __LINE__, #cond);                               \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
