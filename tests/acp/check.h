/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the suite acp. Every process runs the same program under utofurun, and
 * ends with status 1 at the first error.
 */
#ifndef ACP_CHECK_H
#define ACP_CHECK_H

#include <acp.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/limit.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s\n", acp_rank(), __FILE__, __LINE__, #condition);   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The starter memory of this process. */
static inline void *own_starter(void)
{
    return acp_query_address(acp_query_starter_ga(acp_rank()));
}

#endif
