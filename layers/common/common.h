/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several layers need: their place in the job, how their processes meet before there are
 * connections, lines on standard error, and when a wait is to say that it is one (patience.h). It
 * is compiled into each layer that uses it, and uses the public utofu.h alone.
 */
#ifndef LC_COMMON_H
#define LC_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <utofu.h>

#include "patience.h"

#pragma GCC visibility push(hidden)

/*
 * job.c: what the launcher says.
 */
void lc_job_find(uint32_t *rank, uint32_t *procs);
uint32_t lc_env_number(const char *name, uint32_t value_unless_set);
uint64_t lc_now_ns(void);

/*
 * log.c: one line on standard error: "acp: [rank 2] what is wrong, and what to do".
 */
__attribute__((format(printf, 3, 0))) void lc_log(const char *layer, uint32_t rank,
                                                  const char *format, va_list args);
const char *lc_utofu_error(void); /* the last one of this thread */

/*
 * meet.c: before there are connections.
 */
enum { LC_MAX_FINGERS = 31 /* ranks are ints */ };
struct lc_meeting {
    const char *layer, *function; /* for messages */
    uint32_t job_rank, procs;     /* what the launcher says */
    uint32_t num_fingers;         /* the smallest n with 2^n >= procs */
    utofu_cmp_id_t cmp_id;        /* of the VCQ for the meeting, on TNI 0 */
    uint64_t agreed;              /* something that is to be the same in all processes */
};
enum lc_verdict { LC_GOOD = 1, LC_NO_PERMUTATION, LC_DISAGREED, LC_FAILED };
/* All processes come to the first one of the job with a VCQ id and a rank, and get the ids of their
 * fingers: the processes 1, 2, 4, 8... ranks ahead. */
enum lc_verdict lc_meet(const struct lc_meeting *m, uint64_t rank, utofu_vcq_id_t id,
                        uint64_t fingers[LC_MAX_FINGERS]);

#pragma GCC visibility pop

#endif
