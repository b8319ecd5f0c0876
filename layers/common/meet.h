/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a job meet before there are connections. */
#ifndef LC_MEET_H
#define LC_MEET_H

#include <stdint.h>

#include <utofu.h>

#include "job.h"

#pragma GCC visibility push(hidden)

enum { LC_MAX_FINGERS = 31 /* ranks are ints */ };
struct lc_meeting {
    const struct lc_job *job;
    const char *function;  /* of the program, for messages */
    utofu_cmp_id_t cmp_id; /* of the VCQ for the meeting, on TNI 0 */
    uint64_t agreed;       /* something that is to be the same in all processes */
};
enum lc_verdict { LC_GOOD = 1, LC_NO_PERMUTATION, LC_DISAGREED, LC_FAILED };
/* All processes come to the first one of the job with a VCQ id and a rank, and get the ids of their
 * fingers: the processes 1, 2, 4, 8... ranks ahead. */
enum lc_verdict lc_meet(const struct lc_meeting *m, uint64_t rank, utofu_vcq_id_t id,
                        uint64_t fingers[LC_MAX_FINGERS]);

#pragma GCC visibility pop

#endif
