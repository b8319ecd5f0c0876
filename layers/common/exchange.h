/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a job meet before there are connections. */
#ifndef LC_EXCHANGE_H
#define LC_EXCHANGE_H

#include <stdint.h>

#include <utofu.h>

#include "job.h"

#pragma GCC visibility push(hidden)

enum { LC_MAX_FINGERS = 31 /* ranks are ints */ };
struct lc_exchange {
    const struct lc_job *job;
    const char *function;  /* of the program, for messages */
    utofu_cmp_id_t cmp_id; /* of the VCQ for the meeting, on TNI 0 */
    uint64_t must_match;   /* something that is to be the same in all processes */
};
enum lc_exchange_result {
    LC_EXCHANGE_OK = 1,
    LC_EXCHANGE_BAD_RANKS,
    LC_EXCHANGE_MISMATCH,
    LC_EXCHANGE_FAILED
};
/* All processes come to the first one of the job with a VCQ id and a rank, and get the ids of their
 * fingers: the processes 1, 2, 4, 8... ranks ahead. */
enum lc_exchange_result lc_exchange_ids(const struct lc_exchange *m, uint64_t rank,
                                        utofu_vcq_id_t id, uint64_t fingers[LC_MAX_FINGERS]);

#pragma GCC visibility pop

#endif
